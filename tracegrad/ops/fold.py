"""Running extremes, and the methods of ufuncs: reduce, accumulate, reduceat, at.

The methods of any binary ufunc that has a derivative work through it, one slice after
the other; those that are a function of their own are so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError, ShapeError, StaticArgumentError
from tracegrad.ir.index import ARRAY, Slice
from tracegrad.ir.types import ArrayType, Dim
from tracegrad.ops.create import zeros_like
from tracegrad.ops.define import ACCEPT, METHODS, Batch, accept, op
from tracegrad.ops.index import (
    along,
    expand_dims,
    getitem,
    known_array,
    names_once,
    read,
)
from tracegrad.ops.infer import like_first, normal_axes, normal_axis, refuse
from tracegrad.ops.join import stack
from tracegrad.ops.library import Library
from tracegrad.ops.order import add_along_axis
from tracegrad.ops.rearrange import repeat
from tracegrad.ops.record import (
    Scattered,
    as_array,
    as_operand,
    dtype_of,
    is_traced,
    ndim_of,
    shape_of,
)
from tracegrad.ops.reduce import take_as
from tracegrad.ops.sample import arg, data
from tracegrad.ops.scatter import write
from tracegrad.ops.shape import broadcast_to, to_shape

# Only JAX source imports it.
lax = Library("jax.lax")


# -------------------------------------------------------------------- running extremes
_RUNS = [
    arg("n").with_(),
    arg("n", 3).with_(axis=0),
    arg(2, 3, 4).with_(axis=1),
    data((1.0, 3.0, 2.0, 3.0, 4.0)).with_().rough(),
]


@op(
    infer=lambda t, *, axis: t.with_dtype(np.int64),
    vjp=[None],
    noun="holders",
    batch=Batch.LANE,
    samples=_RUNS,
)
def run_starts(y, *, axis=0):
    """For each element the position along `axis` where its run of equal ones starts."""
    lanes = xp.moveaxis(y, axis, 0)
    place = xp.arange(len(lanes)).reshape(-1, *[1] * (y.ndim - 1))
    starts = xp.where(lanes != xp.roll(lanes, 1, axis=0), place, 0)
    return xp.moveaxis(xp.maximum.accumulate(starts, axis=0), 0, axis)


@run_starts.body("jax")
def _(y, *, axis=0):
    lanes = xp.moveaxis(y, axis, 0)
    place = xp.arange(len(lanes)).reshape(-1, *[1] * (y.ndim - 1))
    starts = xp.where(lanes != xp.roll(lanes, 1, axis=0), place, 0)
    return xp.moveaxis(lax.cummax(starts, 0), 0, axis)


def _pull_running(ct, y, x, *, axis):
    starts = run_starts(y, axis=axis)
    if ndim_of(x) == 1:
        return Scattered(ct, (starts,), (ARRAY,), False)
    return add_along_axis(zeros_like(x), starts, ct, axis=axis)


@op(infer=like_first, vjp=[_pull_running], batch=Batch.LANE, samples=_RUNS)
def running_max(x, *, axis=0):
    """Largest element so far along `axis`; the first of equal ones has the slope."""
    return xp.maximum.accumulate(x, axis=axis)


@running_max.body("jax")
def _(x, *, axis=0):
    return lax.cummax(x, axis)


@op(infer=like_first, vjp=[_pull_running], batch=Batch.LANE, samples=_RUNS)
def running_min(x, *, axis=0):
    """Smallest element so far along `axis`; the first of equal ones has the slope."""
    return xp.minimum.accumulate(x, axis=axis)


@running_min.body("jax")
def _(x, *, axis=0):
    return lax.cummin(x, axis)


def _running(which: Callable, array: Any, axis: Any, dtype: Any) -> Any:
    x = as_array(take_as(array, dtype))
    return which(x, axis=normal_axis(axis, ndim_of(x)))


@accept((np.maximum, "accumulate"))
def _(array, axis=0, dtype=None, out=None):
    refuse("np.maximum.accumulate", out=out)
    return _running(running_max, array, axis, dtype)


@accept((np.minimum, "accumulate"))
def _(array, axis=0, dtype=None, out=None):
    refuse("np.minimum.accumulate", out=out)
    return _running(running_min, array, axis, dtype)


# ---------------------------------------------------------------------------- reduceat
def _infer_reduceat(t: ArrayType, *, starts, axis):
    size = t.shape[axis]
    if isinstance(size, Dim):
        raise ShapeError(
            f"np.add.reduceat needs a fixed size, not {size}",
            fix="trace with numbers for the sizes",
        )
    return t.with_shape((*t.shape[:axis], len(starts), *t.shape[axis + 1 :]))


@op(
    infer=_infer_reduceat,
    linear=True,
    batch=Batch.LANE,
    samples=[
        arg(6).with_(starts=(0, 2, 3)),
        arg(6).with_(starts=(1, 4)),
        arg(3, 5).with_(starts=(0, 3), axis=1),
    ],
)
def add_reduceat(x, *, starts, axis=0):
    """Sums of the parts of `x` along `axis` that begin at `starts`, which ascend."""
    return xp.add.reduceat(x, starts, axis=axis)


@add_reduceat.body("jax")
def _(x, *, starts, axis=0):
    return xp.add.reduceat(x, xp.array(starts), axis=axis)


@add_reduceat.vjp
def _(ct, y, x, *, starts, axis):
    counts = np.diff([*starts, shape_of(x)[axis]]).tolist()
    made = repeat(ct, repeats=tuple(counts), axis=axis)
    if not starts[0]:
        return made
    return Scattered(made, (), along(axis, Slice(starts[0], None)), True)


# ------------------------------------------------------------------- any binary ufunc
def _slices(x: Any, axis: int, name: str) -> list:
    size = shape_of(x)[axis]
    if isinstance(size, Dim):
        raise ShapeError(
            f"{name} needs a fixed size, not {size}",
            op=name,
            fix="trace with numbers for the sizes",
        )
    return [getitem(x, index=along(axis, i)) for i in range(size)]


def _reduce(ufunc: np.ufunc, x: Any, axis: int) -> Any:
    name = f"np.{ufunc.__name__}.reduce"
    parts = _slices(x, axis, name)
    if not parts:
        raise ArgumentError(f"{name} of an axis of size 0", op=name)
    made = parts[0]
    for part in parts[1:]:
        made = ACCEPT[ufunc](made, part)
    return made


def _reduce_call(ufunc: np.ufunc) -> Callable:
    name = f"np.{ufunc.__name__}.reduce"

    def call(
        array, axis=0, dtype=None, out=None, keepdims=False, initial=None, where=None
    ):
        refuse(name, out=out, where=None if where is True else where)
        x = as_array(take_as(array, dtype))
        axes = normal_axes(axis, ndim_of(x))
        shape = [1 if i in axes else s for i, s in enumerate(shape_of(x))]
        for a in sorted(axes, reverse=True):
            x = _reduce(ufunc, x, a)
        if initial is not None and initial is not np._NoValue:
            start = METHODS["astype"](as_array(initial), dtype_of(x))
            x = ACCEPT[ufunc](start, x)
        return to_shape(x, tuple(shape)) if keepdims else x

    return call


def _accumulate_call(ufunc: np.ufunc) -> Callable:
    name = f"np.{ufunc.__name__}.accumulate"

    def call(array, axis=0, dtype=None, out=None):
        refuse(name, out=out)
        x = as_array(take_as(array, dtype))
        axis = normal_axis(axis, ndim_of(x))
        made: list[Any] = []
        for part in _slices(x, axis, name):
            made.append(ACCEPT[ufunc](made[-1], part) if made else part)
        return stack(*made, axis=axis)

    return call


def _reduceat_call(ufunc: np.ufunc) -> Callable:
    name = f"np.{ufunc.__name__}.reduceat"

    def call(array, indices, axis=0, dtype=None, out=None):
        refuse(name, out=out)
        x = as_array(take_as(array, dtype))
        axis = normal_axis(axis, ndim_of(x))
        if is_traced(indices):
            raise StaticArgumentError(
                f"{name} with traced indices has sums of sizes that depend on data",
                op=name,
                fix="give the indices as a list of numbers",
            )
        starts = tuple(np.asarray(indices).tolist())
        if ufunc is np.add and list(starts) == sorted(set(starts)) and starts[0] >= 0:
            return add_reduceat(x, starts=starts, axis=axis)
        parts = _slices(x, axis, name)
        made = []
        for i, start in enumerate(starts):
            stop = starts[i + 1] if i + 1 < len(starts) else len(parts)
            part = parts[start]
            for other in parts[start + 1 : stop]:
                part = ACCEPT[ufunc](part, other)
            made.append(part)
        return stack(*made, axis=axis)

    return call


def _at_call(ufunc: np.ufunc) -> Callable:
    name = f"np.{ufunc.__name__}.at"

    def call(x, indices, *value):
        """The value of `x` after the call: one round for each repeated place."""
        given = [as_operand(v) for v in value]
        key = indices if isinstance(indices, tuple) else (indices,)
        key = tuple([k if isinstance(k, slice) else as_operand(k) for k in key])
        arrays = tuple([k for k in key if not isinstance(k, slice) and ndim_of(k)])
        if not arrays or names_once(x, arrays):
            return write(x, key, ACCEPT[ufunc](read(x, key), *given))
        places = known_array(key[0])
        if len(key) > 1 or places is None or places.ndim != 1:
            raise StaticArgumentError(
                f"{name} with indices that may repeat, or are traced, is not supported",
                op=name,
                fix="give one vector of plain numbers",
            )
        # Values of fewer axes belong to each place.
        rest_of = shape_of(x)[1:]
        given = [
            broadcast_to(v, shape=(places.size, *rest_of))
            if 0 < ndim_of(v) <= len(rest_of)
            else v
            for v in given
        ]
        while places.size:
            now = np.sort(np.unique(places, return_index=True)[1])
            spots = places[now]
            part = [read(v, now) if ndim_of(v) else v for v in given]
            x = write(x, spots, ACCEPT[ufunc](read(x, spots), *part))
            rest = np.setdiff1d(np.arange(places.size), now)
            given = [read(v, rest) if ndim_of(v) else v for v in given]
            places = places[rest]
        return x

    return call


_METHODS = {
    "reduce": _reduce_call,
    "accumulate": _accumulate_call,
    "reduceat": _reduceat_call,
    "at": _at_call,
}


def method_of(ufunc: np.ufunc, name: str) -> Callable | None:
    """What takes a call of a method of a ufunc that has none of its own, or None."""
    if ufunc not in ACCEPT or ufunc.nout != 1 or name not in _METHODS:
        return None
    if ufunc.nin != 2 and name != "at":
        return None
    return _METHODS[name](ufunc)


# ------------------------------------------------------ those that have other names
def _less_rest(by: np.ufunc, whole: Callable) -> None:
    """`subtract.reduce` and `divide.reduce`: the first, less the others together."""

    @accept((by, "reduce"))
    def _(
        array, axis=0, dtype=None, out=None, keepdims=False, initial=None, where=None
    ):
        x = as_array(take_as(array, dtype))
        given = (out, initial, where)
        if ndim_of(x) == 0 or axis is None or any(g is not None for g in given):
            return _reduce_call(by)(x, axis, None, out, keepdims, initial, where)
        axis = normal_axis(axis, ndim_of(x))
        first = getitem(x, index=along(axis, 0))
        rest = getitem(x, index=along(axis, Slice(1, None)))
        made = ACCEPT[by](first, ACCEPT[whole](rest, axis))
        return expand_dims(made, axis=(axis,)) if keepdims else made


_less_rest(np.subtract, np.sum)
_less_rest(np.true_divide, np.prod)


@accept((np.hypot, "reduce"))
def _(array, axis=0, dtype=None, out=None, keepdims=False, initial=None, where=None):
    refuse("np.hypot.reduce", out=out, initial=initial, where=where)
    return ACCEPT[np.linalg.norm](take_as(array, dtype), None, axis, keepdims)


@accept((np.logaddexp, "reduce"))
def _(array, axis=0, dtype=None, out=None, keepdims=False, initial=None, where=True):
    refuse("np.logaddexp.reduce", out=out)
    x = as_array(take_as(array, dtype))
    if where is not True:
        x = ACCEPT[np.where](where, x, -np.inf)  # what adds nothing
    made = ACCEPT["scipy.special:logsumexp"](x, axis, keepdims=keepdims)
    if initial is None or initial is np._NoValue:
        return made
    start = METHODS["astype"](as_array(initial), dtype_of(made))
    return ACCEPT[np.logaddexp](start, made)


@accept((np.logical_and, "reduce"), constant=True)
def _(array, axis=0, dtype=None, out=None, keepdims=False, initial=None, where=None):
    refuse("np.logical_and.reduce", out=out, dtype=dtype, initial=initial, where=where)
    return ACCEPT[np.all](array, axis, keepdims=keepdims)


@accept((np.logical_or, "reduce"), constant=True)
def _(array, axis=0, dtype=None, out=None, keepdims=False, initial=None, where=None):
    refuse("np.logical_or.reduce", out=out, dtype=dtype, initial=initial, where=where)
    return ACCEPT[np.any](array, axis, keepdims=keepdims)
