"""The largest and smallest elements, and where they are."""

from __future__ import annotations

import numpy as np
import numpy as xp

from tracegrad.errors import ShapeError
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import Batch, accept, op
from tracegrad.ops.infer import canonical_axis, normal_axes, reduced_shape, refuse
from tracegrad.ops.record import as_operand, ndim_of
from tracegrad.ops.reduce import (
    AXES,
    COUNTS,
    NOT_GIVEN,
    first_value,
    flag,
    given,
    keep_axes,
    masked,
    per_lane,
    take_as,
)
from tracegrad.ops.reduce import sum as reduce_sum
from tracegrad.ops.sample import arg, data
from tracegrad.ops.select import maximum, minimum


def infer_extreme(t: ArrayType, *, axis, keepdims):
    """Inference of an extreme, which no elements do not have."""
    for a in normal_axes(axis, t.ndim):
        if t.shape[a] == 0:
            raise ShapeError(
                f"axis {a} has size 0, so it has no largest or smallest element",
                fix="check for empty arrays first, or give initial=",
            )
    return t.with_shape(reduced_shape(t.shape, axis, keepdims))


_EXTREMES = [
    *AXES,
    arg(2, 3, dtype="int32").with_(axis=1),
    arg(3, dtype="float32").with_().rough(),
    data((1.0, 2.0, 2.0)).with_().rough(),
]


def _shared(ct, y, x, *, axis, keepdims):
    """The cotangent of an extreme, in equal parts to the elements that attain it."""
    hits = x == keep_axes(y, x, axis, keepdims)
    count = per_lane(reduce_sum(hits, axis=axis, keepdims=keepdims), x)
    return keep_axes(ct / count, x, axis, keepdims) * hits


@op(infer=infer_extreme, vjp=[_shared], batch=Batch.REDUCE, samples=_EXTREMES)
def max(x, *, axis=None, keepdims=False):
    """Largest element over `axis`; equal ones share the cotangent."""
    return xp.max(x, axis=axis, keepdims=keepdims)


@op(infer=infer_extreme, vjp=[_shared], batch=Batch.REDUCE, samples=_EXTREMES)
def min(x, *, axis=None, keepdims=False):
    """Smallest element over `axis`; equal ones share the cotangent."""
    return xp.min(x, axis=axis, keepdims=keepdims)


def _extreme_call(which, pair, a, axis, out, keepdims, initial, mask):
    refuse(f"np.{which.name}", out=out)
    x = as_operand(a)
    if given(mask) and mask is not True:
        if not given(initial):
            raise ShapeError(
                f"np.{which.name} with where= needs initial=, the result where all "
                "elements are excluded",
                op=f"np.{which.name}",
            )
        x = masked(x, mask, first_value(initial, x))
    result = which(x, axis=canonical_axis(axis, ndim_of(x)), keepdims=flag(keepdims))
    return pair(result, first_value(initial, result)) if given(initial) else result


@max.accept(np.max, np.amax, methods=["max"])
def max_call(
    a,
    axis=None,
    out=None,
    keepdims=NOT_GIVEN,
    initial=NOT_GIVEN,
    where=NOT_GIVEN,
):
    """`np.max` with all its arguments."""
    return _extreme_call(max, maximum, a, axis, out, keepdims, initial, where)


@min.accept(np.min, np.amin, methods=["min"])
def min_call(
    a,
    axis=None,
    out=None,
    keepdims=NOT_GIVEN,
    initial=NOT_GIVEN,
    where=NOT_GIVEN,
):
    """`np.min` with all its arguments."""
    return _extreme_call(min, minimum, a, axis, out, keepdims, initial, where)


@accept((np.maximum, "reduce"))
def _(array, axis=0, dtype=None, out=None, keepdims=False, initial=None, where=None):
    return max_call(take_as(array, dtype), axis, out, keepdims, initial, where)


@accept((np.minimum, "reduce"))
def _(array, axis=0, dtype=None, out=None, keepdims=False, initial=None, where=None):
    return min_call(take_as(array, dtype), axis, out, keepdims, initial, where)


@accept(np.ptp)
def _(a, axis=None, out=None, keepdims=NOT_GIVEN):
    largest = max_call(a, axis, out, keepdims)
    return largest - min_call(a, axis, out, keepdims)


# --------------------------------------------------------------------------- positions
def _infer_position(t: ArrayType, *, axis, keepdims):
    return infer_extreme(t, axis=axis, keepdims=keepdims).with_dtype(np.int64)


@op(infer=_infer_position, vjp=[None], batch=Batch.LANE, samples=COUNTS)
def argmax(x, *, axis=None, keepdims=False):
    """Position of the first largest element along `axis`."""
    return xp.argmax(x, axis=axis, keepdims=keepdims)


@op(infer=_infer_position, vjp=[None], batch=Batch.LANE, samples=COUNTS)
def argmin(x, *, axis=None, keepdims=False):
    """Position of the first smallest element along `axis`."""
    return xp.argmin(x, axis=axis, keepdims=keepdims)


@argmax.accept(np.argmax, methods=["argmax"])
def _(a, axis=None, out=None, *, keepdims=NOT_GIVEN):
    refuse("np.argmax", out=out)
    x = as_operand(a)
    return argmax(x, axis=canonical_axis(axis, ndim_of(x)), keepdims=flag(keepdims))


@argmin.accept(np.argmin, methods=["argmin"])
def _(a, axis=None, out=None, *, keepdims=NOT_GIVEN):
    refuse("np.argmin", out=out)
    x = as_operand(a)
    return argmin(x, axis=canonical_axis(axis, ndim_of(x)), keepdims=flag(keepdims))
