"""Reductions and scans that leave out nan."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy as xp

from tracegrad.ops.define import ACCEPT, Batch, accept, op
from tracegrad.ops.extreme import infer_extreme, max_call, min_call
from tracegrad.ops.infer import canonical_axis, refuse
from tracegrad.ops.record import as_array, as_operand, dtype_of, ndim_of
from tracegrad.ops.reduce import (
    NOT_GIVEN,
    averaged,
    flag,
    infer_reduction,
    keep_axes,
    less,
    mean_call,
    per_lane,
    prod_call,
    products_of_others,
    squared,
    std_call,
    sum_call,
    take_as,
    var_call,
    widened,
    without_nan,
)
from tracegrad.ops.reduce import sum as reduce_sum
from tracegrad.ops.sample import arg, data
from tracegrad.ops.select import conj, maximum, where

_GAPS = data(((1.0, np.nan, 3.0), (np.nan, 2.5, 0.5), (0.3, 0.2, 0.1)))
_AXES = [
    arg(3).with_(),
    arg("n", 3).with_(axis=0),
    arg(2, 3, 4).with_(axis=(0, 2), keepdims=True),
    _GAPS.with_().rough(),
    _GAPS.with_(axis=1).rough(),
    arg(3, dtype="float32").with_().rough(),
]
_SPREADS = [*_AXES, _GAPS.with_(axis=0, ddof=1).rough()]


def _there(x: Any) -> Any:
    # Only nan differs from itself.
    return x == x


def _count(x: Any, axis: Any, keepdims: bool) -> Any:
    """How many elements over `axis` are not nan, in a dtype that keeps `x` narrow."""
    return per_lane(reduce_sum(_there(x), axis=axis, keepdims=keepdims), x)


# ------------------------------------------------------------------- sums and products
@op(
    infer=infer_reduction(widened),
    batch=Batch.REDUCE,
    vjp=[
        lambda ct, y, x, *, axis, keepdims: where(
            _there(x), keep_axes(ct, x, axis, keepdims), 0.0
        )
    ],
    samples=[*_AXES, arg(2, 3, dtype="complex128").with_(axis=0)],
)
def nansum(x, *, axis=None, keepdims=False):
    """Sum of the elements over `axis` that are not nan."""
    return xp.nansum(x, axis=axis, keepdims=keepdims)


@op(infer=infer_reduction(widened), batch=Batch.REDUCE, samples=_AXES)
def nanprod(x, *, axis=None, keepdims=False):
    """Product of the elements over `axis` that are not nan."""
    return xp.nanprod(x, axis=axis, keepdims=keepdims)


@nanprod.vjp
def _(ct, y, x, *, axis, keepdims):
    others = products_of_others(without_nan(x, 1.0), axis)
    return where(_there(x), keep_axes(ct, x, axis, keepdims) * others, 0.0)


# ---------------------------------------------------------------------- mean and spread
@op(
    infer=infer_reduction(averaged),
    batch=Batch.REDUCE,
    samples=[*_AXES, arg(2, 3, dtype="complex128").with_(axis=0)],
)
def nanmean(x, *, axis=None, keepdims=False):
    """Mean of the elements over `axis` that are not nan."""
    return xp.nanmean(x, axis=axis, keepdims=keepdims)


@nanmean.vjp
def _(ct, y, x, *, axis, keepdims):
    share = ct / _count(x, axis, keepdims)
    return where(_there(x), keep_axes(share, x, axis, keepdims), 0.0)


def _centred(x: Any, axis: Any) -> Any:
    """`x` less its mean, conjugated: a real function of complex `x` needs that."""
    centred = x - nanmean(x, axis=axis, keepdims=axis is not None)
    return conj(centred) if dtype_of(x).kind == "c" else centred


@op(infer=infer_reduction(squared), batch=Batch.REDUCE, samples=_SPREADS)
def nanvar(x, *, axis=None, ddof=0, keepdims=False):
    """Variance of the elements over `axis` that are not nan."""
    return xp.nanvar(x, axis=axis, ddof=ddof, keepdims=keepdims)


@nanvar.vjp
def _(ct, y, x, *, axis, ddof, keepdims):
    scale = 2.0 * ct / less(_count(x, axis, keepdims), ddof)
    slope = keep_axes(scale, x, axis, keepdims) * _centred(x, axis)
    return where(_there(x), slope, 0.0)


@op(infer=infer_reduction(squared), batch=Batch.REDUCE, samples=_SPREADS)
def nanstd(x, *, axis=None, ddof=0, keepdims=False):
    """Standard deviation without nan; the derivative at equal elements is 0."""
    return xp.nanstd(x, axis=axis, ddof=ddof, keepdims=keepdims)


@nanstd.vjp
def _(ct, y, x, *, axis, ddof, keepdims):
    count = less(_count(x, axis, keepdims), ddof)
    scale = ct / (count * where(y > 0, y, 1.0))
    slope = keep_axes(scale, x, axis, keepdims) * _centred(x, axis)
    return where(_there(x), slope, 0.0)


# ---------------------------------------------------------------------------- extremes
def _shared(ct, y, x, *, axis, keepdims):
    """The cotangent in equal parts to the elements that attain the extreme."""
    hits = x == keep_axes(y, x, axis, keepdims)
    # Nothing attains it where all elements are nan.
    count = maximum(per_lane(reduce_sum(hits, axis=axis, keepdims=keepdims), x), 1)
    return keep_axes(ct / count, x, axis, keepdims) * hits


@op(infer=infer_extreme, vjp=[_shared], batch=Batch.REDUCE, samples=_AXES)
def nanmax(x, *, axis=None, keepdims=False):
    """Largest element that is not nan; equal ones share the cotangent."""
    return xp.nanmax(x, axis=axis, keepdims=keepdims)


@op(infer=infer_extreme, vjp=[_shared], batch=Batch.REDUCE, samples=_AXES)
def nanmin(x, *, axis=None, keepdims=False):
    """Smallest element that is not nan; equal ones share the cotangent."""
    return xp.nanmin(x, axis=axis, keepdims=keepdims)


# --------------------------------------------------------------------- what users write
def _given(*arguments: Any) -> bool:
    return any(
        a is not NOT_GIVEN and a is not None and a is not True for a in arguments
    )


def _reduce(which: Any, x: Any, axis: Any, keepdims: Any, **attrs: Any) -> Any:
    axis = canonical_axis(axis, ndim_of(x))
    return which(x, axis=axis, keepdims=flag(keepdims), **attrs)


def _mask(x: Any, given: Any) -> Any:
    return _there(x) if not _given(given) else _there(x) & as_operand(given)


@nansum.accept(np.nansum)
def _(
    a,
    axis=None,
    dtype=None,
    out=None,
    keepdims=NOT_GIVEN,
    initial=NOT_GIVEN,
    where=NOT_GIVEN,
):
    refuse("np.nansum", out=out)
    x = take_as(a, dtype)
    if _given(initial, where):
        return sum_call(without_nan(x, 0), axis, None, out, keepdims, initial, where)
    return _reduce(nansum, x, axis, keepdims)


@nanprod.accept(np.nanprod)
def _(
    a,
    axis=None,
    dtype=None,
    out=None,
    keepdims=NOT_GIVEN,
    initial=NOT_GIVEN,
    where=NOT_GIVEN,
):
    refuse("np.nanprod", out=out)
    x = take_as(a, dtype)
    if _given(initial, where):
        return prod_call(without_nan(x, 1), axis, None, out, keepdims, initial, where)
    return _reduce(nanprod, x, axis, keepdims)


@nanmean.accept(np.nanmean)
def _(a, axis=None, dtype=None, out=None, keepdims=NOT_GIVEN, *, where=NOT_GIVEN):
    refuse("np.nanmean", out=out)
    x = take_as(a, dtype)
    if _given(where):
        return mean_call(x, axis, None, None, keepdims, where=_mask(x, where))
    return _reduce(nanmean, x, axis, keepdims)


def _spread_of(name: str, which: Any, masked: Any) -> None:
    @which.accept(getattr(np, name))
    def _(
        a,
        axis=None,
        dtype=None,
        out=None,
        ddof=0,
        keepdims=NOT_GIVEN,
        *,
        where=NOT_GIVEN,
        mean=NOT_GIVEN,
        correction=NOT_GIVEN,
    ):
        refuse(f"np.{name}", out=out, mean=mean)
        x = take_as(a, dtype)
        ddof = ddof if correction is NOT_GIVEN else correction
        if _given(where):
            mask = _mask(x, where)
            return masked(x, axis, None, None, ddof, keepdims, where=mask)
        return _reduce(which, x, axis, keepdims, ddof=ddof)


_spread_of("nanvar", nanvar, var_call)
_spread_of("nanstd", nanstd, std_call)


def _extreme_of(name: str, which: Any, masked: Any, instead: float) -> None:
    @which.accept(getattr(np, name))
    def _(
        a, axis=None, out=None, keepdims=NOT_GIVEN, initial=NOT_GIVEN, where=NOT_GIVEN
    ):
        refuse(f"np.{name}", out=out)
        x = as_operand(a)
        if _given(initial, where):
            x = without_nan(x, instead)
            return masked(x, axis, None, keepdims, initial, where)
        return _reduce(which, x, axis, keepdims)


_extreme_of("nanmax", nanmax, max_call, -np.inf)
_extreme_of("nanmin", nanmin, min_call, np.inf)


def _reduce_of(ufunc: np.ufunc, which: Any) -> None:
    """`np.fmax.reduce` and `np.fmin.reduce`, which are the extremes without nan."""

    @accept((ufunc, "reduce"))
    def _(
        array, axis=0, dtype=None, out=None, keepdims=False, initial=None, where=None
    ):
        return ACCEPT[which](take_as(array, dtype), axis, out, keepdims, initial, where)


_reduce_of(np.fmax, np.nanmax)
_reduce_of(np.fmin, np.nanmin)


@accept(np.nancumsum)
def _(a, axis=None, dtype=None, out=None):
    return ACCEPT[np.cumsum](without_nan(as_array(a), 0), axis, dtype, out)


@accept(np.nancumprod)
def _(a, axis=None, dtype=None, out=None):
    return ACCEPT[np.cumprod](without_nan(as_array(a), 1), axis, dtype, out)
