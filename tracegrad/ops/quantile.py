"""Quantiles, percentiles and medians, those that leave out nan included.

All have one rule: the result is a weighted mean of two neighbours in sorted order,
whose places depend on the number of elements and on `method` alone (Hyndman and Fan,
Sample Quantiles in Statistical Packages, The American Statistician 50, 1996).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError, DTypeError, ShapeError
from tracegrad.ir.dims import product
from tracegrad.ir.graph import Const
from tracegrad.ir.index import ARRAY, Slice
from tracegrad.ir.types import ArrayType
from tracegrad.ops.create import zeros_like
from tracegrad.ops.define import Batch, Op, op
from tracegrad.ops.index import along, drop_axes, expand_dims, getitem
from tracegrad.ops.infer import canonical_axis, normal_axes, reduced_shape, refuse
from tracegrad.ops.join import concatenate
from tracegrad.ops.order import add_along_axis, take_along_axis
from tracegrad.ops.record import Scattered, as_array, as_operand, ndim_of, shape_of
from tracegrad.ops.reduce import NOT_GIVEN, flag
from tracegrad.ops.reduce import sum as reduce_sum
from tracegrad.ops.sample import arg, call, data
from tracegrad.ops.scatter import scatter_add
from tracegrad.ops.shape import moveaxis, permute, to_shape

# alpha and beta of Hyndman and Fan.
_CONTINUOUS = {
    "linear": (1.0, 1.0),
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
_STEPS = (
    "lower higher nearest midpoint inverted_cdf averaged_inverted_cdf "
    "closest_observation"
)
METHODS = (*_CONTINUOUS, *_STEPS.split())


# -------------------------------------------------------------------------- neighbours
def _infer_neighbours(t: ArrayType, q: ArrayType, *, axis, **attrs):
    count = 2 * product(q.shape)
    shape = (*t.shape[:axis], count, *t.shape[axis + 1 :])
    return t.with_shape(shape).with_dtype(np.int64), t.with_shape(shape)


_AT = data((0.3, 0.7))
_WITH_NAN = data(((1.0, np.nan, 3.0, 2.0), (np.nan, 5.0, np.nan, 4.0)))


@op(
    infer=_infer_neighbours,
    noun="places weights",
    helper=True,
    samples=[
        call(arg("n"), data(0.3), axis=0),
        call(arg(3, "n"), _AT, axis=1),
        call(arg(4, 3), data(0.3), axis=0, alpha=0.5, beta=0.5),
        call(_WITH_NAN, _AT, axis=1).rough(),
        call(arg(5, dtype="float32"), data(0.3), axis=0).rough(),
    ],
)
def neighbours(x, q, *, axis=0, alpha=1.0, beta=1.0):
    """Positions in `x` of the neighbours of quantiles `q` along `axis`; their weights.

    First the lower neighbours, then the upper ones; nan is left out.
    """
    count = xp.sum(x == x, axis=axis, keepdims=True)
    shape = [-1 if i == axis else 1 for i in range(x.ndim)]
    place = xp.reshape(q, shape) * (count + 1 - alpha - beta) + alpha - 1
    place = place.clip(0, xp.maximum(count - 1, 0))
    below = xp.floor(place)
    ranks = xp.concatenate([below, xp.minimum(below + 1, count - 1)], axis=axis)
    order = xp.argsort(x, axis=axis, kind="stable")
    places = xp.take_along_axis(order, ranks.astype(xp.int64), axis=axis)
    weights = xp.concatenate([below + 1 - place, place - below], axis=axis)
    return places, weights.astype(x.dtype)


@neighbours.body("jax")
def _(x, q, *, axis=0, alpha=1.0, beta=1.0):
    count = xp.sum(x == x, axis=axis, keepdims=True)
    shape = [-1 if i == axis else 1 for i in range(x.ndim)]
    place = xp.reshape(q, shape) * (count + 1 - alpha - beta) + alpha - 1
    place = place.clip(0, xp.maximum(count - 1, 0))
    below = xp.floor(place)
    ranks = xp.concatenate([below, xp.minimum(below + 1, count - 1)], axis=axis)
    order = xp.argsort(x, axis=axis)
    places = xp.take_along_axis(order, ranks.astype("int64"), axis=axis)
    weights = xp.concatenate([below + 1 - place, place - below], axis=axis)
    return places, weights.astype(x.dtype)


@neighbours.vjp
def _(cts, out, x, q, *, axis, alpha, beta):
    ct = cts[1]
    if ct is None or out[0] is None:  # eager mode keeps no result for a constant `q`
        return None, None
    lower, upper = _halves(ct, axis, q)
    slope = reduce_sum(x == x, axis=axis, keepdims=True) + (1.0 - alpha - beta)
    below, above = _halves(out[0], axis, q)
    return None, _along_quantiles((upper - lower) * slope * (above != below), axis, q)


def _halves(x: Any, axis: int, q: Any) -> tuple:
    """What belongs to the lower neighbours, and what to the upper ones."""
    count = product(shape_of(q))
    return tuple(
        [
            getitem(x, index=along(axis, part))
            for part in (Slice(None, count), Slice(count, None))
        ]
    )


def _along_quantiles(x: Any, axis: int, q: Any) -> Any:
    """The sum over all lanes, in the shape of `q`."""
    others = tuple([i for i in range(ndim_of(x)) if i != axis])
    if others:
        x = reduce_sum(x, axis=canonical_axis(others, ndim_of(x)))
    return to_shape(x, shape_of(q)) if ndim_of(q) else reduce_sum(x)


@op(
    infer=_infer_neighbours,
    vjp=[None, None],
    noun="places weights",
    helper=True,
    samples=[
        *[call(arg("n"), data(0.3), axis=0, method=m) for m in _STEPS.split()],
        call(arg(3, 4), _AT, axis=1, method="lower"),
        call(_WITH_NAN, _AT, axis=1, method="midpoint"),
    ],
)
def steps(x, q, *, axis=0, method):
    """`neighbours` for the methods that jump from one element to the next."""
    count = xp.sum(x == x, axis=axis, keepdims=True)
    q = xp.reshape(q, [-1 if i == axis else 1 for i in range(x.ndim)])
    place = q * (count - 1)
    if method == "inverted_cdf" or method == "averaged_inverted_cdf":
        place = q * count - 1
    if method == "closest_observation":
        place = q * count - 1.5
    below, above = xp.floor(place), xp.ceil(place)
    if method == "lower":
        above = below
    if method == "higher" or method == "inverted_cdf":
        below = above
    if method == "nearest":
        below = above = xp.rint(place)
    if method == "averaged_inverted_cdf":
        below = xp.where(place == below, below, above)
        above = xp.where(place == below, below + 1, above)
    if method == "closest_observation":
        below = above = xp.where((place == below) & (below % 2 == 0), below + 1, above)
    ranks = xp.concatenate([below, above], axis=axis)
    ranks = ranks.clip(0, xp.maximum(count - 1, 0)).astype("int64")
    places = xp.take_along_axis(xp.argsort(x, axis=axis), ranks, axis=axis)
    return places, xp.full_like(x, 0.5, shape=places.shape)


# ------------------------------------------------------------------------------- lanes
class _Lanes:
    """The operand with all reduced axes as one, and the way back.

    Attributes:
        x: the operand so.
        axis: the axis that is reduced.
        order: the axes of the operand in the order in which `x` has them.
    """

    def __init__(self, x: Any, axis: Any) -> None:
        self.shape = shape_of(x)
        rank = len(self.shape)
        reduced = normal_axes(axis, rank)
        self.order: tuple[int, ...] | None = None
        if len(reduced) == 1:
            self.x, self.axis = x, reduced[0]
        elif len(reduced) == rank:
            self.x, self.axis = to_shape(x, (product(self.shape),)), 0
        else:
            kept = [i for i in range(rank) if i not in reduced]
            self.order = (*kept, *sorted(reduced))
            moved = permute(x, self.order)
            count = product([self.shape[i] for i in sorted(reduced)])
            lanes = [self.shape[i] for i in kept]
            self.x, self.axis = to_shape(moved, (*lanes, count)), len(lanes)

    def back(self, ct: Any) -> Any:
        """A cotangent of `x` in the shape of the operand."""
        if self.order is None:
            return to_shape(ct, self.shape)
        ct = to_shape(ct, tuple([self.shape[i] for i in self.order]))
        inverse = sorted(range(len(self.order)), key=self.order.__getitem__)
        return permute(ct, tuple(inverse))

    def flat(self, ct: Any, q: Any, axis: Any, keepdims: bool) -> Any:
        """The cotangent of the result with an axis for the quantiles at `axis`."""
        ahead = ndim_of(q)
        if keepdims and ndim_of(ct) > ahead:
            axes = normal_axes(axis, len(self.shape))
            ct = drop_axes(ct, axis=tuple([ahead + a for a in sorted(axes)]))
        if not ahead:
            return expand_dims(ct, axis=(self.axis,)) if ndim_of(ct) else ct
        if ahead > 1:
            ct = to_shape(ct, (product(shape_of(q)), *shape_of(ct)[ahead:]))
        return moveaxis(ct, 0, self.axis)


# -------------------------------------------------------------------------- the rules
def _pull(ct, x, q, *, axis, method, keepdims, skips, percent):
    """Cotangents of `x` and of `q`."""
    lanes = _Lanes(x, axis)
    fraction = q / 100.0 if percent else q
    if method in _CONTINUOUS:
        alpha, beta = _CONTINUOUS[method]
        known = {"axis": lanes.axis, "alpha": alpha, "beta": beta}
        places, weights = neighbours(lanes.x, fraction, **known)
    else:
        places, weights = steps(lanes.x, fraction, axis=lanes.axis, method=method)
    ct = lanes.flat(ct, q, axis, keepdims)
    of_q = None
    if method in _CONTINUOUS and not isinstance(getattr(q, "value", Const), Const):
        of_q = _pull_q(ct, lanes, q, places, alpha + beta)
        of_q = of_q / 100.0 if percent else of_q
    both = concatenate(ct, ct, axis=lanes.axis) if ndim_of(q) else ct
    return _to_places(both * weights, lanes, places), of_q


def _pull_q(ct, lanes, q, places, ends):
    picked = take_along_axis(lanes.x, places, axis=lanes.axis)
    below, above = _halves(picked, lanes.axis, q)
    count = reduce_sum(lanes.x == lanes.x, axis=lanes.axis, keepdims=True)
    return _along_quantiles(
        ct * (above - below) * (count + (1.0 - ends)), lanes.axis, q
    )


def _to_places(shares, lanes, places):
    """The cotangent of `x`, which has the shares at the places."""
    if ndim_of(lanes.x) == 1 == len(lanes.shape):
        return Scattered(shares, (places,), (ARRAY,), False)
    zeros = zeros_like(lanes.x)
    if ndim_of(lanes.x) == 1:
        made = scatter_add(zeros, shares, places, index=(ARRAY,), unique=False)
    else:
        made = add_along_axis(zeros, places, shares, axis=lanes.axis)
    return lanes.back(made)


# ---------------------------------------------------------------------------- the types
@lru_cache(maxsize=256)
def _dtype(name: str, dtype: np.dtype, q: Any, method: str | None) -> np.dtype:
    """The dtype that NumPy gives, found by asking it."""
    x = np.zeros(2, dtype)
    try:
        if method is None:
            return getattr(np, name)(x).dtype
        weak = {"i": 1, "f": 0.5}.get(q) or np.full(1, 0, q)
        return np.asarray(getattr(np, name)(x, weak, method=method)).dtype
    except TypeError:
        raise DTypeError(
            f"np.{name} of dtype {dtype} is not supported",
            fix="convert it with .astype(float)",
        ) from None


def _reduced(t: ArrayType, axis: Any, keepdims: bool, name: str) -> tuple:
    for a in normal_axes(axis, t.ndim):
        if t.shape[a] == 0:
            raise ShapeError(
                f"axis {a} has size 0, so it has no np.{name}",
                fix="check for empty arrays first",
            )
    return reduced_shape(t.shape, axis, keepdims)


def _infer(name: str):
    def infer(t: ArrayType, q: ArrayType, *, axis, method, keepdims):
        shape = (*q.shape, *_reduced(t, axis, keepdims, name))
        key = q.dtype.kind if q.weak else q.dtype
        return ArrayType(shape, _dtype(name, t.dtype, key, method))

    return infer


def _infer_median(name: str):
    def infer(t: ArrayType, *, axis, keepdims):
        shape = _reduced(t, axis, keepdims, name)
        return ArrayType(shape, _dtype(name, t.dtype, None, None))

    return infer


_IN_JAX = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


def _samples(scale: float) -> list:
    third, several = (
        data(0.35 * scale),
        data((0.13 * scale, 0.37 * scale, 0.88 * scale)),
    )
    methods = [call(arg(5), third, method=m) for m in METHODS if m != "linear"]
    return [
        call(arg(5), data(0.25 * scale)).rough(),
        call(arg(4), third),
        call(arg("n", 3), third, axis=0),
        call(arg(3, 4), several, axis=1, keepdims=True),
        call(arg(2, 3, 2), third, axis=(0, 2)),
        call(arg(2, 3), several),
        *[m if m.attrs["method"] in _IN_JAX else m.without("jax") for m in methods],
        call(arg(2, 5), several, axis=1, method="hazen").without("jax"),
        call(arg(4, dtype="float32"), data(0.35 * scale, "float32")).rough(),
        call(data((1.0, 2.0, 2.0)), third).rough(),
    ]


def _nan_samples(scale: float) -> list:
    third, several = data(0.35 * scale), data((0.2 * scale, 0.7 * scale))
    return [
        call(arg(5), third),
        call(arg("n", 3), third, axis=0),
        call(_WITH_NAN, third, axis=1).rough(),
        call(_WITH_NAN, several, axis=1, keepdims=True).rough(),
        call(_WITH_NAN, several, method="hazen").rough().without("jax"),
    ]


def _over_batch(which, b, x, q, attrs):
    """The op over a batch of `x`; the axes of `q` come first in its result."""
    if b.has(1):
        return NotImplemented
    rank, axis = b.rank(0), attrs["axis"]
    axes = range(rank) if axis is None else axis if type(axis) is tuple else (axis,)
    moved = tuple([a % rank + 1 for a in axes])
    made = which(x, q, **{**attrs, "axis": moved if len(moved) > 1 else moved[0]})
    return moveaxis(made, b.rank(1), 0)


# ------------------------------------------------------------------------------ the ops
@op(infer=_infer("quantile"), samples=_samples(1.0))
def quantile(x, q, *, axis=None, method="linear", keepdims=False):
    """The element, or the mean of two neighbours, with a share of `q` below it.

    The cotangent goes to these neighbours; of equal elements to the one that comes
    first in sorted order, where equal ones keep their order.  The derivative by `q`
    exists for the continuous methods; at a data point it is that from the right.
    """
    return xp.quantile(x, q, axis=axis, method=method, keepdims=keepdims)


@quantile.batch
def _(b, x, q, **attrs):
    return _over_batch(quantile, b, x, q, attrs)


@quantile.vjp
def _(ct, y, x, q, **attrs):
    return _pull(ct, x, q, skips=False, percent=False, **attrs)


@op(infer=_infer("percentile"), samples=_samples(100.0))
def percentile(x, q, *, axis=None, method="linear", keepdims=False):
    """`quantile` with `q` in percent."""
    return xp.percentile(x, q, axis=axis, method=method, keepdims=keepdims)


@percentile.batch
def _(b, x, q, **attrs):
    return _over_batch(percentile, b, x, q, attrs)


@percentile.vjp
def _(ct, y, x, q, **attrs):
    return _pull(ct, x, q, skips=False, percent=True, **attrs)


@op(infer=_infer("nanquantile"), samples=_nan_samples(1.0))
def nanquantile(x, q, *, axis=None, method="linear", keepdims=False):
    """`quantile` of the elements that are not nan."""
    return xp.nanquantile(x, q, axis=axis, method=method, keepdims=keepdims)


@nanquantile.batch
def _(b, x, q, **attrs):
    return _over_batch(nanquantile, b, x, q, attrs)


@nanquantile.vjp
def _(ct, y, x, q, **attrs):
    return _pull(ct, x, q, skips=True, percent=False, **attrs)


@op(infer=_infer("nanpercentile"), samples=_nan_samples(100.0))
def nanpercentile(x, q, *, axis=None, method="linear", keepdims=False):
    """`percentile` of the elements that are not nan."""
    return xp.nanpercentile(x, q, axis=axis, method=method, keepdims=keepdims)


@nanpercentile.batch
def _(b, x, q, **attrs):
    return _over_batch(nanpercentile, b, x, q, attrs)


@nanpercentile.vjp
def _(ct, y, x, q, **attrs):
    return _pull(ct, x, q, skips=True, percent=True, **attrs)


_ROW_OF_NAN = _WITH_NAN.with_(axis=1).rough()
_MEDIANS = [
    arg(5).with_(),
    arg(4).with_(),
    arg("n", 3).with_(axis=0),
    arg(2, 3, 2).with_(axis=(0, 2), keepdims=True),
    arg(3, dtype="float32").with_().rough(),
    data((1.0, np.nan, 0.0)).with_().rough(),
    data((2.0, 1.0, 2.0, 2.0)).with_().rough(),
]


def _pull_median(ct, y, x, *, axis, keepdims, skips):
    (of_x, _) = _pull(
        ct,
        x,
        0.5,
        axis=axis,
        method="linear",
        keepdims=keepdims,
        skips=skips,
        percent=False,
    )
    return of_x


@op(infer=_infer_median("median"), batch=Batch.REDUCE, samples=_MEDIANS)
def median(x, *, axis=None, keepdims=False):
    """The middle of the sorted elements, or the mean of the two in the middle.

    Of equal elements the first in sorted order gets the cotangent, see `quantile`.
    """
    return xp.median(x, axis=axis, keepdims=keepdims)


@median.vjp
def _(ct, y, x, **attrs):
    return _pull_median(ct, y, x, skips=False, **attrs)


@op(
    infer=_infer_median("nanmedian"),
    batch=Batch.REDUCE,
    samples=[*_MEDIANS, _WITH_NAN.with_(axis=1).rough()],
)
def nanmedian(x, *, axis=None, keepdims=False):
    """`median` of the elements that are not nan."""
    return xp.nanmedian(x, axis=axis, keepdims=keepdims)


@nanmedian.vjp
def _(ct, y, x, **attrs):
    return _pull_median(ct, y, x, skips=True, **attrs)


# --------------------------------------------------------------------- what users write
def _accept(which: Op) -> None:
    function = f"np.{which.name}"

    @which.accept(getattr(np, which.name))
    def _(
        a,
        q,
        axis=None,
        out=None,
        overwrite_input=False,
        method="linear",
        keepdims=NOT_GIVEN,
        *,
        weights=None,
    ):
        refuse(function, out=out, weights=weights)
        if method not in METHODS:
            raise ArgumentError(
                f"{method!r} is no method of {function}",
                op=function,
                fix=f"use one of {', '.join(METHODS)}",
            )
        x, q = as_array(a), as_operand(q)
        axis = canonical_axis(axis, ndim_of(x))
        return which(x, q, axis=axis, method=method, keepdims=flag(keepdims))


def _accept_median(which: Op) -> None:
    @which.accept(getattr(np, which.name))
    def _(a, axis=None, out=None, overwrite_input=False, keepdims=NOT_GIVEN):
        refuse(f"np.{which.name}", out=out)
        x = as_array(a)
        axis = canonical_axis(axis, ndim_of(x))
        return which(x, axis=axis, keepdims=flag(keepdims))


for _op in (quantile, percentile, nanquantile, nanpercentile):
    _accept(_op)
for _op in (median, nanmedian):
    _accept_median(_op)
