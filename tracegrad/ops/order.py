"""Picking and ordering: take, masks, sorting, searching."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ShapeError
from tracegrad.ir.index import ARRAY, Slice
from tracegrad.ir.types import ArrayType, Size
from tracegrad.ops.cast import astype
from tracegrad.ops.create import zeros_like
from tracegrad.ops.define import Batch, accept, op
from tracegrad.ops.index import along, getitem, names_once, read, subscript
from tracegrad.ops.infer import (
    broadcast_shapes,
    count_true,
    normal_axis,
    refuse,
    same_size,
    shape_text,
)
from tracegrad.ops.join import stack
from tracegrad.ops.record import (
    Scattered,
    as_array,
    as_operand,
    constant_of,
    dtype_of,
    is_traced,
    ndim_of,
    shape_of,
)
from tracegrad.ops.sample import arg, call, data
from tracegrad.ops.select import maximum, minimum
from tracegrad.ops.shape import broadcast_to, ravel, to_shape


# -------------------------------------------------------------------------------- take
def _infer_take(t: ArrayType, indices: ArrayType, *, axis):
    return t.with_shape((*t.shape[:axis], *indices.shape, *t.shape[axis + 1 :]))


_PICK = data((1, 1, -1), dtype="int64")


@op(
    infer=_infer_take,
    linear=("x",),
    samples=[
        call(arg("n"), _PICK, axis=0),
        call(arg("n", 4), _PICK, axis=1),
        call(arg(3, 2), data(((0, 2), (1, 0)), dtype="int64"), axis=0),
        call(arg(3, 2), data(1, dtype="int64"), axis=0),
    ],
)
def take(x, indices, *, axis):
    """The elements of `x` at `indices` along `axis`."""
    return x.take(indices, axis=axis)


@take.vjp
def _(ct, y, x, indices, *, axis):
    once = names_once(x, (indices,))
    return Scattered(ct, (indices,), along(axis, ARRAY), once), None


@take.accept(np.take, methods=["take"])
def take_call(a, indices, axis=None, out=None, mode="raise"):
    """`np.take` with all its arguments."""
    refuse("np.take", out=out)
    a = as_array(a)
    if axis is None:
        a, axis = (a if ndim_of(a) == 1 else ravel(a)), 0
    axis = normal_axis(axis, ndim_of(a))
    indices = as_operand(indices)
    if mode != "raise":
        size = shape_of(a)[axis]
        if mode not in ("wrap", "clip"):
            refuse("np.take", fix='use mode="raise"', mode=mode)
        if not is_traced(indices):
            indices = np.asarray(indices)
        if mode == "wrap":
            return take_call(a, indices % size, axis)
        return take_call(a, maximum(minimum(indices, size - 1), 0), axis)
    if isinstance(constant_of(indices), int | np.integer):
        return read(a, (slice(None),) * axis + (int(indices),))
    if isinstance(indices, np.ndarray) and not indices.size:
        indices = indices.astype(np.intp)
    # The subscript checks dtype and bounds.
    (indices,), _ = subscript(a, (slice(None),) * axis + (indices,))
    return take(a, indices, axis=axis)


def as_mask(condition: Any) -> Any:
    """A condition as NumPy takes it: numbers other than 0 hold, they are no indices."""
    condition = as_array(condition)
    return condition if dtype_of(condition).kind == "b" else condition != 0


@accept(np.compress)
def compress(condition, a, axis=None, out=None):
    """The elements along `axis` where `condition` is true."""
    refuse("np.compress", out=out)
    a, mask = as_array(a), as_mask(condition)
    if axis is None:
        a, axis = (a if ndim_of(a) == 1 else ravel(a)), 0
    axis = normal_axis(axis, ndim_of(a))
    count, size = shape_of(mask)[0], shape_of(a)[axis]
    if not same_size(count, size):
        # NumPy takes a shorter condition, and leaves the rest out.
        a = getitem(a, index=along(axis, Slice(None, count)))
    return read(a, (slice(None),) * axis + (mask,))


@accept(methods=["compress"])
def _(a, condition, axis=None, out=None):
    return compress(condition, a, axis, out)


@accept(np.extract)
def _(condition, arr):
    return compress(ravel(as_mask(condition)), ravel(as_array(arr)))


# ------------------------------------------------------------------------ along an axis
def _infer_take_along(t: ArrayType, indices: ArrayType, *, axis):
    rest = [
        [s for i, s in enumerate(shape) if i != axis]
        for shape in (t.shape, indices.shape)
    ]
    if t.ndim != indices.ndim or not all(map(same_size, *rest)):
        raise ShapeError(
            f"indices of shape {shape_text(indices.shape)} do not fit an array of "
            f"shape {shape_text(t.shape)} along axis {axis}",
            fix="make all other axes equal",
        )
    return t.with_shape(indices.shape)


_ALONG = data(((2, 0), (1, 1)), dtype="int64")
_APART = data(((2, 1), (1, 2)), dtype="int64")


@op(
    infer=_infer_take_along,
    linear=("x",),
    batch=Batch.LANE,
    samples=[
        call(arg(2, 3), _ALONG, axis=1),
        call(arg(3, 2), _ALONG, axis=0),
        call(arg(4), _PICK, axis=0),
    ],
)
def take_along_axis(x, indices, *, axis=-1):
    """In each lane along `axis` the elements at the `indices` of that lane."""
    return xp.take_along_axis(x, indices, axis=axis)


@take_along_axis.vjp
def _(ct, y, x, indices, *, axis):
    return add_along_axis(zeros_like(x), indices, ct, axis=axis), None


@op(
    infer=lambda t, indices, update, *, axis, unique: t,
    noun="collected",
    linear=("x", "update"),
    batch=Batch.LANE,
    samples=[
        call(arg(2, 3), _ALONG, arg(2, 2), axis=1),
        call(arg(3, 2), _ALONG, arg(2, 2), axis=0),
        call(arg(3, 2), _APART, arg(2, 2), axis=0, unique=True),
    ],
)
def add_along_axis(x, indices, update, *, axis, unique=False):
    """`x` with `update` added at the `indices` of each lane along `axis`.

    `unique` says that no lane names an element twice, so that `+=` does it.
    """
    out = xp.array(x)
    grid = list(xp.ix_(*[xp.arange(n) for n in indices.shape]))
    grid[axis] = indices
    if unique:
        out[tuple(grid)] += update
    else:
        xp.add.at(out, tuple(grid), update)
    return out


@add_along_axis.body("jax")
def _(x, indices, update, *, axis, unique=False):
    grid = list(xp.ix_(*[xp.arange(n) for n in indices.shape]))
    grid[axis] = indices
    return x.at[tuple(grid)].add(update)


@add_along_axis.vjp
def _(ct, y, x, indices, update, *, axis, unique):
    return ct, None, take_along_axis(ct, indices, axis=axis)


@take_along_axis.accept(np.take_along_axis)
def _(arr, indices, axis=-1):
    x, indices = as_array(arr), as_array(indices)
    if axis is None:
        x, axis = ravel(x), 0
    axis = normal_axis(axis, ndim_of(x))
    if ndim_of(x) == ndim_of(indices):
        # All axes but one broadcast.
        lanes = [
            (*shape[:axis], 1, *shape[axis + 1 :])
            for shape in (shape_of(x), shape_of(indices))
        ]
        whole = broadcast_shapes(*lanes)
        x, indices = (
            v if shape == shape_of(v) else broadcast_to(v, shape=shape)
            for v, shape in [
                (v, (*whole[:axis], shape_of(v)[axis], *whole[axis + 1 :]))
                for v in (x, indices)
            ]
        )
    return take_along_axis(x, indices, axis=axis)


# ----------------------------------------------------------------------------- sorting
_SORTED = [
    arg("n").with_(),
    arg("n", 3).with_(axis=0),
    arg(2, 3, 2).with_(axis=1),
    data((2.0, 1.0, 2.0)).with_().rough(),
]


@op(infer=lambda t, *, axis: t.strong, batch=Batch.LANE, samples=_SORTED)
def sort(x, *, axis=-1):
    """`x` in ascending order along `axis`; equal elements stay in their order."""
    return xp.sort(x, axis=axis)


@sort.vjp
def _(ct, y, x, *, axis):
    order = argsort(x, axis=axis)
    if ndim_of(x) == 1:
        return Scattered(ct, (order,), (ARRAY,), True)
    return take_along_axis(ct, argsort(order, axis=axis), axis=axis)


@op(
    infer=lambda t, *, axis: t.with_dtype(np.int64),
    vjp=[None],
    batch=Batch.LANE,
    samples=_SORTED,
)
def argsort(x, *, axis=-1):
    """The positions that sort `x` along `axis`, equal elements in their order."""
    return xp.argsort(x, axis=axis, kind="stable")


@argsort.body("jax")
def _(x, *, axis=-1):
    return xp.argsort(x, axis=axis)


def _sort_call(which, a, axis):
    x = as_array(a)
    if axis is None:
        return which(x if ndim_of(x) == 1 else ravel(x))
    axis = normal_axis(axis, ndim_of(x))
    return which(x, axis=-1 if axis == ndim_of(x) - 1 else axis)


@sort.accept(np.sort)
def sort_call(a, axis=-1, kind=None, order=None, *, stable=None):
    """`np.sort` with all its arguments."""
    refuse("np.sort", order=order)
    return _sort_call(sort, a, axis)


@accept(updates=["sort"])
def _(a, axis=-1, kind=None, order=None, *, stable=None):
    return sort_call(a, axis, order=order)


@argsort.accept(np.argsort, methods=["argsort"])
def _(a, axis=-1, kind=None, order=None, *, stable=None):
    refuse("np.argsort", order=order)
    return _sort_call(argsort, a, axis)


@accept(np.sort_complex)
def _(a):
    x = as_array(a)
    wide = np.result_type(dtype_of(x), np.complex64)
    return sort_call(x if dtype_of(x) == wide else astype(x, dtype=wide))


_PARTITIONED = [arg(5).with_(kth=2), arg(3, 4).with_(kth=(0, 2), axis=0)]
_PARTITIONED = [sample.without("jax") for sample in _PARTITIONED]


@op(infer=lambda t, *, kth, axis: t.strong, batch=Batch.LANE, samples=_PARTITIONED)
def partition(x, *, kth, axis=-1):
    """`x` with the element at `kth` in its place, smaller ones before it."""
    return xp.partition(x, kth, axis=axis)


@partition.vjp
def _(ct, y, x, *, kth, axis):
    # Both in ascending order, so that element stands by element.
    source, place = argsort(x, axis=axis), argsort(y, axis=axis)
    if ndim_of(x) == 1:
        ordered = getitem(ct, place, index=(ARRAY,))
        return Scattered(ordered, (source,), (ARRAY,), True)
    moved = take_along_axis(place, argsort(source, axis=axis), axis=axis)
    return take_along_axis(ct, moved, axis=axis)


@op(
    infer=lambda t, *, kth, axis: t.with_dtype(np.int64),
    vjp=[None],
    batch=Batch.LANE,
    samples=_PARTITIONED,
)
def argpartition(x, *, kth, axis=-1):
    """The positions of the elements of a `partition`; a constant."""
    return xp.argpartition(x, kth, axis=axis)


def _partition_call(which, a, kth, axis, order):
    refuse(f"np.{which.name}", order=order)
    x = as_array(a)
    if axis is None:
        x, axis = (x if ndim_of(x) == 1 else ravel(x)), -1
    axis = normal_axis(axis, ndim_of(x))
    kth = tuple(kth) if np.ndim(kth) else operator.index(kth)
    return which(x, kth=kth, axis=-1 if axis == ndim_of(x) - 1 else axis)


@partition.accept(np.partition)
@accept(updates=["partition"])
def _(a, kth, axis=-1, kind="introselect", order=None):
    return _partition_call(partition, a, kth, axis, order)


@argpartition.accept(np.argpartition, methods=["argpartition"])
def _(a, kth, axis=-1, kind="introselect", order=None):
    return _partition_call(argpartition, a, kth, axis, order)


@op(
    infer=lambda *keys, axis: keys[-1].with_dtype(np.int64),
    samples=[call(arg(4), data((1.0, 0.0, 1.0, 0.0)))],
)
def lexsort(*keys, axis=-1):
    """The positions that sort by the last of `keys`, then by those before it."""
    return xp.lexsort(keys, axis=axis)


@lexsort.vjp
def _(ct, y, *keys, axis):
    return (None,) * len(keys)


@accept(np.lexsort, constant=True)
def _(keys, axis=-1):
    if is_traced(keys) or isinstance(keys, np.ndarray):
        keys = [read(keys, i) for i in range(shape_of(keys)[0])]
    return lexsort(*map(as_array, keys), axis=axis)


# --------------------------------------------------------------------------- searching
@op(
    infer=lambda a, v, *, side: v.with_dtype(np.int64),
    vjp=[None, None],
    samples=[
        call(data((0.0, 1.0, 2.0)), arg("n")),
        call(data((0.0, 1.0, 2.0)), arg(), side="right"),
    ],
)
def searchsorted(a, v, *, side="left"):
    """Where the elements of `v` belong in the sorted vector `a`."""
    return xp.searchsorted(a, v, side=side)


@searchsorted.batch
def _(b, a, v, *, side):
    return NotImplemented if b.has(0) else searchsorted(a, v, side=side)


@searchsorted.body("jax")
def _(a, v, *, side="left"):
    return xp.searchsorted(a, v, side=side).astype("int64")


@searchsorted.accept(np.searchsorted, methods=["searchsorted"])
def _(a, v, side="left", sorter=None):
    refuse("np.searchsorted", sorter=sorter)
    return searchsorted(as_array(a), as_array(v), side=side)


@op(
    infer=lambda t, *, count: ArrayType((count,), np.dtype(np.int64)),
    vjp=[None],
    samples=[data((0.0, 1.0, 2.0)).with_(count=2)],
)
def flatnonzero(x, *, count):
    """Positions of the elements that are not zero; `count` says how many there are."""
    return xp.flatnonzero(x)


@op(
    infer=lambda t, *, count: tuple(
        [ArrayType((count,), np.dtype(np.int64)) for _ in t.shape]
    ),
    vjp=[None],
    samples=[data(((0.0, 1.0), (2.0, 0.0))).with_(count=2)],
)
def nonzero(x, *, count):
    """Positions along each axis of the elements that are not zero."""
    return x.nonzero()


@accept(np.nonzero, methods=["nonzero"], constant=True)
def nonzero_call(a):
    """`np.nonzero`: one vector of positions for each axis."""
    x = as_array(a)
    if not is_traced(x):
        return np.nonzero(x)
    if not ndim_of(x):
        raise ShapeError("np.nonzero does not take 0-d arrays", op="np.nonzero")
    count = count_true(x)
    if ndim_of(x) == 1:
        return (flatnonzero(x, count=count),)
    return nonzero(x, count=count)


@accept(np.flatnonzero, constant=True)
def _(a):
    x = as_array(a)
    return nonzero_call(x if ndim_of(x) == 1 else ravel(x))[0]


@accept(np.argwhere, constant=True)
def _(a):
    return stack(*nonzero_call(a), axis=1)


@accept(np.ix_, constant=True)
def _(*args):
    made: list[Any] = []
    for place, a in enumerate(args):
        a = as_array(a)
        if ndim_of(a) != 1:
            raise ShapeError(
                f"np.ix_ takes vectors, not {ndim_of(a)} axes", op="np.ix_"
            )
        if a.dtype == bool:
            (a,) = nonzero_call(a)
        shape: list[Size] = [1] * len(args)
        shape[place] = shape_of(a)[0]
        made.append(to_shape(a, tuple(shape)))
    return tuple(made)
