"""Reductions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ShapeError
from tracegrad.ir.types import ArrayType, Dim, Size
from tracegrad.ops.cast import astype
from tracegrad.ops.create import full_like, size
from tracegrad.ops.define import Batch, accept, op
from tracegrad.ops.index import expand_dims
from tracegrad.ops.infer import (
    canonical_axis,
    normal_axes,
    reduced_shape,
    refuse,
)
from tracegrad.ops.record import (
    as_array,
    as_operand,
    constant_of,
    dtype_of,
    ndim_of,
    shape_of,
    type_of,
)
from tracegrad.ops.sample import arg, data
from tracegrad.ops.scan import exclusive_products
from tracegrad.ops.select import absolute, conj, where
from tracegrad.ops.shape import broadcast_to, permute, to_shape

NOT_GIVEN = np._NoValue


# ---------------------------------------------------------------- what the rules share
def keep_axes(y, x, axis, keepdims):
    """The result of a reduction of `x`, so that it broadcasts against `x`."""
    axes = normal_axes(axis, ndim_of(x))
    if keepdims or not ndim_of(y) or not axes:
        return y
    return expand_dims(y, axis=tuple(sorted(axes)))


def spread(ct, x, axis, keepdims):
    """The cotangent of a reduction, repeated over the axes that were reduced."""
    return broadcast_to(keep_axes(ct, x, axis, keepdims), shape=shape_of(x))


def count_along(x, axis):
    """How many elements a reduction over `axis` takes together."""
    axes = normal_axes(axis, ndim_of(x))
    if len(axes) == ndim_of(x):
        return size(x)
    count = size(x, axis=axes[0]) if axes else 1
    for a in axes[1:]:
        count = count * size(x, axis=a)
    return count


def per_lane(count, x):
    """A count that is an array, in a dtype that keeps floats as narrow as `x`."""
    if np.result_type(dtype_of(count), dtype_of(x)) == dtype_of(x):
        return count
    return astype(count, dtype=np.dtype(dtype_of(x).char.lower()).name)


def infer_reduction(dtype_rule):
    """Inference of a reduction whose result has the dtype `dtype_rule(t.dtype)`."""

    def infer(t: ArrayType, *, axis, keepdims=False, **attrs):
        return ArrayType(reduced_shape(t.shape, axis, keepdims), dtype_rule(t.dtype))

    return infer


def widened(dtype: np.dtype) -> np.dtype:
    """The dtype in which NumPy adds: small integers in the default integer."""
    if dtype.kind in "biu" and dtype.itemsize < 8:
        return np.dtype(np.uint64 if dtype.kind == "u" else np.int64)
    return dtype


def averaged(dtype: np.dtype) -> np.dtype:
    """The dtype of a mean: integers become float64."""
    return np.dtype(np.float64) if dtype.kind in "biu" else dtype


def squared(dtype: np.dtype) -> np.dtype:
    """The dtype of a variance: real."""
    return np.dtype(averaged(dtype).char.lower())


AXES = [
    arg(3).with_(),
    arg("n", 3).with_(axis=0),
    arg("n", 3).with_(axis=(1,), keepdims=True),
    arg(2, 3, 4).with_(axis=(0, 2)),
    arg().with_(),
]
_DTYPES = [
    arg(3, dtype="float32").with_().rough(),
    arg(2, 3, dtype="int32").with_(axis=1),
    arg(3, dtype="bool").with_(),
    arg(2, 3, dtype="complex128").with_(axis=0),
]


# ------------------------------------------------------------------------ sum and mean
@op(
    infer=infer_reduction(widened),
    vjp=[lambda ct, y, x, *, axis, keepdims: spread(ct, x, axis, keepdims)],
    linear=True,
    noun="total",
    batch=Batch.REDUCE,
    samples=[*AXES, *_DTYPES],
)
def sum(x, *, axis=None, keepdims=False):
    """Sum over `axis`."""
    return xp.sum(x, axis=axis, keepdims=keepdims)


@op(
    infer=infer_reduction(averaged),
    vjp=[
        lambda ct, y, x, *, axis, keepdims: spread(
            ct / count_along(x, axis), x, axis, keepdims
        )
    ],
    linear=True,
    batch=Batch.REDUCE,
    samples=[*AXES, *_DTYPES],
)
def mean(x, *, axis=None, keepdims=False):
    """Arithmetic mean over `axis`."""
    return xp.mean(x, axis=axis, keepdims=keepdims)


def take_as(x, dtype):
    """The operand of a reduction, in the dtype that the user asked for."""
    x = as_operand(x)
    if dtype is None or np.dtype(dtype) == dtype_of(x):
        return x
    return astype(x, dtype=np.dtype(dtype).name)


def given(argument) -> bool:
    return argument is not None and argument is not NOT_GIVEN


def first_value(initial, result):
    """What `initial=` stands for: NumPy casts it to the dtype of the result."""
    x, to = as_operand(initial), dtype_of(result)
    have = type_of(x)
    order = "biufc"
    if have.dtype == to or (
        have.weak and order.index(have.kind) <= order.index(to.kind)
    ):
        return x
    known = constant_of(x)
    if known is not None:
        return to.type(known)
    return astype(as_array(x), dtype=to.name)


def flag(keepdims) -> bool:
    return keepdims is not NOT_GIVEN and bool(keepdims)


def masked(x, mask, instead):
    """`x` with `instead` where a `where=` argument excludes it."""
    if mask is NOT_GIVEN or mask is None or mask is True:
        return x
    return where(as_operand(mask), x, instead)


@sum.accept(np.sum, methods=["sum"])
def sum_call(
    a,
    axis=None,
    dtype=None,
    out=None,
    keepdims=NOT_GIVEN,
    initial=NOT_GIVEN,
    where=NOT_GIVEN,
):
    """`np.sum` with all its arguments."""
    refuse("np.sum", out=out)
    x = masked(take_as(a, dtype), where, 0)
    axis = canonical_axis(axis, ndim_of(x))
    total = sum(x, axis=axis, keepdims=flag(keepdims))
    return total + first_value(initial, total) if given(initial) else total


@accept((np.add, "reduce"))
def _(array, axis=0, dtype=None, out=None, keepdims=False, initial=None, where=None):
    return sum_call(array, axis, dtype, out, keepdims, initial, where)


def without_nan(x, instead):
    """`x` with another number for nan."""
    # Only NaN differs from itself.
    return where(x == x, x, instead)


def _count_where(mask, x, axis, keepdims):
    """How many elements of `x` along `axis` a `where=` argument leaves."""
    mask = broadcast_to(as_operand(mask), shape=shape_of(x))
    return count_nonzero(mask, axis=axis, keepdims=keepdims)


@mean.accept(np.mean, methods=["mean"])
def mean_call(
    a, axis=None, dtype=None, out=None, keepdims=NOT_GIVEN, *, where=NOT_GIVEN
):
    """`np.mean` with all its arguments."""
    refuse("np.mean", out=out)
    x = take_as(a, dtype)
    axis, keepdims = canonical_axis(axis, ndim_of(x)), flag(keepdims)
    if not given(where) or where is True:
        return mean(x, axis=axis, keepdims=keepdims)
    x = astype(x, dtype=averaged(dtype_of(x)).name) if dtype_of(x).kind in "biu" else x
    total = sum(masked(x, where, 0), axis=axis, keepdims=keepdims)
    return total / per_lane(_count_where(where, x, axis, keepdims), x)


@accept(np.average)
def _(a, axis=None, weights=None, returned=False, *, keepdims=NOT_GIVEN):
    x = as_operand(a)
    axis, keepdims = canonical_axis(axis, ndim_of(x)), flag(keepdims)
    if weights is None:
        average = mean(x, axis=axis, keepdims=keepdims)
        if not returned:
            return average
        return average, full_like(average, count_along(x, axis))
    w = as_operand(weights)
    if shape_of(w) != shape_of(x):
        if ndim_of(w) != 1 or not isinstance(axis, int):
            raise ShapeError(
                f"weights of shape {shape_of(w)} do not fit an array of shape "
                f"{shape_of(x)}",
                fix="give one weight for each element along axis=",
            )
        w = expand_dims(w, axis=tuple(range(1, ndim_of(x) - axis)))
    total = sum(
        broadcast_to(w, shape=shape_of(x)) if shape_of(w) != shape_of(x) else w,
        axis=axis,
        keepdims=keepdims,
    )
    average = sum(x * w, axis=axis, keepdims=keepdims) / total
    if returned and dtype_of(total) != dtype_of(average):
        total = astype(total, dtype=dtype_of(average))
    return (average, total) if returned else average


# ---------------------------------------------------------------------------- variance
_SPREADS = [
    arg(4).with_(),
    arg("n", 3).with_(axis=0),
    arg("n", 3).with_(axis=1, ddof=1, keepdims=True),
    arg(2, 3, 4).with_(axis=(0, 2), ddof=1),
    arg(3, dtype="float32").with_().rough(),
    arg(2, 3, dtype="int32").with_(axis=1),
    arg(2, 3, dtype="complex128").with_(axis=0),
]


def _centred(x, axis):
    """`x` less its mean, conjugated: a real function of complex `x` needs that."""
    centred = x - mean(x, axis=axis, keepdims=axis is not None)
    return conj(centred) if dtype_of(x).kind == "c" else centred


def less(count, ddof):
    """A count less the degrees of freedom that an estimate has used."""
    return count - ddof if ddof else count


@op(infer=infer_reduction(squared), batch=Batch.REDUCE, samples=_SPREADS)
def var(x, *, axis=None, ddof=0, keepdims=False):
    """Variance over `axis`, the sum of squares divided by the size less `ddof`."""
    return xp.var(x, axis=axis, ddof=ddof, keepdims=keepdims)


@var.vjp
def _(ct, y, x, *, axis, ddof, keepdims):
    scale = 2.0 / less(count_along(x, axis), ddof)
    return keep_axes(scale * ct, x, axis, keepdims) * _centred(x, axis)


@op(infer=infer_reduction(squared), batch=Batch.REDUCE, samples=_SPREADS)
def std(x, *, axis=None, ddof=0, keepdims=False):
    """Standard deviation over `axis`; the derivative at equal elements is 0."""
    return xp.std(x, axis=axis, ddof=ddof, keepdims=keepdims)


@std.vjp
def _(ct, y, x, *, axis, ddof, keepdims):
    count = less(count_along(x, axis), ddof)
    scale = ct / (count * where(y > 0, y, 1.0))
    return keep_axes(scale, x, axis, keepdims) * _centred(x, axis)


def _spread_call(which, a, axis, dtype, ddof, keepdims, mask, given_mean, correction):
    if correction is not NOT_GIVEN:
        ddof = correction
    x, wanted = as_array(a), None if dtype is None else np.dtype(dtype)
    if dtype_of(x).kind == "c" and wanted is not None and wanted.kind != "c":
        refuse(
            f"np.{which.name}",
            fix="leave out dtype=, or take the real part",
            dtype=f"{wanted}, of complex numbers",
        )
    x = take_as(a, dtype)
    axis, keepdims = canonical_axis(axis, ndim_of(x)), flag(keepdims)
    everything = not given(mask) or mask is True
    if everything and given_mean is NOT_GIVEN:
        return which(x, axis=axis, ddof=ddof, keepdims=keepdims)
    if given_mean is NOT_GIVEN:
        given_mean = mean_call(x, axis, None, None, True, where=mask)
    centred = x - as_operand(given_mean)
    squares = absolute(centred) ** 2 if dtype_of(x).kind == "c" else centred**2
    squares = squares if everything else masked(squares, mask, 0)
    total = sum(squares, axis=axis, keepdims=keepdims)
    if everything:
        variance = total / less(count_along(x, axis), ddof)
    else:
        count = per_lane(_count_where(mask, x, axis, keepdims), total)
        variance = total / less(count, ddof)
    if which is var:
        return variance
    # As `std` has it, the derivative at equal elements is 0.
    spreads = variance > 0
    return where(spreads, where(spreads, variance, 1.0) ** 0.5, variance)


@var.accept(np.var, methods=["var"])
def var_call(
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
    """`np.var` with all its arguments."""
    refuse("np.var", out=out)
    return _spread_call(var, a, axis, dtype, ddof, keepdims, where, mean, correction)


@std.accept(np.std, methods=["std"])
def std_call(
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
    """`np.std` with all its arguments."""
    refuse("np.std", out=out)
    return _spread_call(std, a, axis, dtype, ddof, keepdims, where, mean, correction)


# ----------------------------------------------------------------------------- product
@op(
    infer=infer_reduction(widened),
    batch=Batch.REDUCE,
    samples=[
        *AXES,
        *_DTYPES,
        data((2.0, 0.0, 3.0)).with_(),
        data(((2.0, 0.0), (0.0, 0.0))).with_(axis=1),
        data(((2.0, 0.0), (0.0, 0.0))).with_(),
    ],
)
def prod(x, *, axis=None, keepdims=False):
    """Product over `axis`."""
    return xp.prod(x, axis=axis, keepdims=keepdims)


@prod.vjp
def _(ct, y, x, *, axis, keepdims):
    # Not `ct * y / x`: with zeros among the factors that is wrong.
    return keep_axes(ct, x, axis, keepdims) * products_of_others(x, axis)


def products_of_others(x, axis):
    """For each element the product of the other ones along `axis`."""
    n = ndim_of(x)
    axes = normal_axes(axis, n)
    if len(axes) == 1:
        return exclusive_products(x, axis=axes[0])
    if len(axes) == n:
        return to_shape(exclusive_products(to_shape(x, _flat(x)), axis=0), shape_of(x))
    order = (*[i for i in range(n) if i not in axes], *sorted(axes))
    moved = permute(x, order)
    lanes = shape_of(moved)[: n - len(axes)]
    count: Size = 1
    for s in shape_of(moved)[n - len(axes) :]:
        count = s * count
    others = exclusive_products(to_shape(moved, (*lanes, count)), axis=len(lanes))
    back = sorted(range(n), key=order.__getitem__)
    return permute(to_shape(others, shape_of(moved)), tuple(back))


def _flat(x) -> tuple[int | Dim, ...]:
    count: Any = 1
    for s in shape_of(x):
        count = s * count
    return (count,)


@prod.accept(np.prod, methods=["prod"])
def prod_call(
    a,
    axis=None,
    dtype=None,
    out=None,
    keepdims=NOT_GIVEN,
    initial=NOT_GIVEN,
    where=NOT_GIVEN,
):
    """`np.prod` with all its arguments."""
    refuse("np.prod", out=out)
    x = masked(take_as(a, dtype), where, 1)
    axis = canonical_axis(axis, ndim_of(x))
    result = prod(x, axis=axis, keepdims=flag(keepdims))
    return result * first_value(initial, result) if given(initial) else result


@accept((np.multiply, "reduce"))
def _(array, axis=0, dtype=None, out=None, keepdims=False, initial=None, where=None):
    return prod_call(array, axis, dtype, out, keepdims, initial, where)


# ----------------------------------------------------------------- counts and positions
def _to(dtype):
    return infer_reduction(lambda _: np.dtype(dtype))


COUNTS = [arg(3).with_(), arg("n", 3).with_(axis=0), arg(2, 3).with_(keepdims=True)]


@op(infer=_to(bool), vjp=[None], batch=Batch.REDUCE, samples=COUNTS)
def any(x, *, axis=None, keepdims=False):
    """Whether some element over `axis` is true."""
    return xp.any(x, axis=axis, keepdims=keepdims)


@op(infer=_to(bool), vjp=[None], batch=Batch.REDUCE, samples=COUNTS)
def all(x, *, axis=None, keepdims=False):
    """Whether all elements over `axis` are true."""
    return xp.all(x, axis=axis, keepdims=keepdims)


@op(infer=_to(np.int64), vjp=[None], batch=Batch.REDUCE, samples=COUNTS)
def count_nonzero(x, *, axis=None, keepdims=False):
    """Number of elements over `axis` that are not zero."""
    return xp.count_nonzero(x, axis=axis, keepdims=keepdims)


@count_nonzero.accept(np.count_nonzero)
def _(a, axis=None, *, keepdims=False):
    x = as_operand(a)
    return count_nonzero(x, axis=canonical_axis(axis, ndim_of(x)), keepdims=keepdims)


@any.accept(np.any, methods=["any"])
def _(a, axis=None, out=None, keepdims=NOT_GIVEN, *, where=NOT_GIVEN):
    refuse("np.any", out=out)
    x = masked(as_operand(a), where, False)
    return any(x, axis=canonical_axis(axis, ndim_of(x)), keepdims=flag(keepdims))


@all.accept(np.all, methods=["all"])
def _(a, axis=None, out=None, keepdims=NOT_GIVEN, *, where=NOT_GIVEN):
    refuse("np.all", out=out)
    x = masked(as_operand(a), where, True)
    return all(x, axis=canonical_axis(axis, ndim_of(x)), keepdims=flag(keepdims))
