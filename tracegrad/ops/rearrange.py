"""Repeating, padding, splitting and differences."""

from __future__ import annotations

import operator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError, ShapeError, StaticArgumentError
from tracegrad.ir.dims import exact_div
from tracegrad.ir.index import ARRAY, Slice
from tracegrad.ir.types import ArrayType, Dim
from tracegrad.ops.define import METHODS, accept, op
from tracegrad.ops.index import along, expand_dims, getitem
from tracegrad.ops.infer import broadcast_shapes, normal_axis, refuse, shape_text
from tracegrad.ops.join import concatenate
from tracegrad.ops.library import Library
from tracegrad.ops.record import (
    Scattered,
    as_array,
    as_operand,
    dtype_of,
    is_traced,
    ndim_of,
    shape_of,
)
from tracegrad.ops.reduce import sum as reduce_sum
from tracegrad.ops.sample import arg
from tracegrad.ops.shape import broadcast_to, ravel, to_shape

sparse = Library("scipy.sparse")


# ------------------------------------------------------------------------ repeat, tile
def _infer_repeat(t: ArrayType, *, repeats, axis):
    size = t.shape[axis]
    total = sum(repeats) if isinstance(repeats, tuple) else size * repeats
    if isinstance(repeats, tuple) and (isinstance(size, Dim) or len(repeats) != size):
        raise ShapeError(
            f"{len(repeats)} repeats do not fit an axis of size {size}",
            fix="give one number, or one for each element",
        )
    return t.with_shape((*t.shape[:axis], total, *t.shape[axis + 1 :]))


@op(
    infer=_infer_repeat,
    linear=True,
    samples=[
        arg("n").with_(repeats=2, axis=0),
        arg(2, 3).with_(repeats=3, axis=1),
        arg(3).with_(repeats=(1, 0, 5), axis=0),
        arg(2, 3).with_(repeats=(2, 1), axis=0),
    ],
)
def repeat(x, *, repeats, axis):
    """Each element repeated along `axis`, all as often or each as often as it says."""
    return x.repeat(repeats, axis=axis)


@repeat.batch
def _(b, x, *, repeats, axis):
    return repeat(x, repeats=repeats, axis=axis % b.rank(0) + 1)


@repeat.body("jax")
def _(x, *, repeats, axis):
    if isinstance(repeats, tuple):
        return xp.repeat(  # type: ignore[call-overload]
            x, xp.array(repeats), axis, total_repeat_length=sum(repeats)
        )
    return x.repeat(repeats, axis=axis)


@repeat.vjp
def _(ct, y, x, *, repeats, axis):
    shape = shape_of(x)
    if isinstance(repeats, tuple):
        source = np.repeat(np.arange(len(repeats)), repeats)
        return Scattered(ct, (source,), along(axis, ARRAY), False)
    split = to_shape(ct, (*shape[: axis + 1], repeats, *shape[axis + 1 :]))
    return reduce_sum(split, axis=axis + 1)


@repeat.accept(np.repeat, methods=["repeat"])
def _(a, repeats, axis=None):
    if is_traced(repeats):
        raise StaticArgumentError(
            "np.repeat with traced repeats has a result size that depends on data",
            op="np.repeat",
            fix="give the repeats as a number or a list of numbers",
        )
    a = as_array(a)
    if axis is None:
        a, axis = (a if ndim_of(a) == 1 else ravel(a)), 0
    axis = normal_axis(axis, ndim_of(a))
    counts = np.asarray(repeats).ravel().tolist()
    if len(counts) == 1:
        return repeat(a, repeats=counts[0], axis=axis)
    return repeat(a, repeats=tuple(counts), axis=axis)


def _infer_tile(t: ArrayType, *, reps):
    rank = max(t.ndim, len(reps))
    shape = (*[1] * (rank - t.ndim), *t.shape)
    factors = (*[1] * (rank - len(reps)), *reps)
    return t.with_shape(tuple([s * f for s, f in zip(shape, factors, strict=True)]))


@op(
    infer=_infer_tile,
    linear=True,
    samples=[
        arg("n").with_(reps=(2,)),
        arg(3).with_(reps=(2, 2)),
        arg(2, 3).with_(reps=(3,)),
        arg(2, 3).with_(reps=(2, 1, 3)),
        arg().with_(reps=(2,)),
    ],
)
def tile(x, *, reps):
    """`x` laid out `reps` times along each axis."""
    return xp.tile(x, reps)


@tile.batch
def _(b, x, *, reps):
    rank = max(b.rank(0), len(reps))
    ones = [1] * (rank - len(reps))
    return tile(b.aligned(0, rank), reps=(1, *ones, *reps))


@tile.vjp
def _(ct, y, x, *, reps):
    rank = ndim_of(ct)
    shape = (*[1] * (rank - ndim_of(x)), *shape_of(x))
    factors = (*[1] * (rank - len(reps)), *reps)
    split: list[Any] = []
    copies = []
    for size, factor in zip(shape, factors, strict=True):
        if factor != 1:
            copies.append(len(split))
            split.append(factor)
        split.append(size)
    summed = to_shape(ct, tuple(split))
    if copies:
        axis = copies[0] if len(copies) == 1 else tuple(copies)
        summed = reduce_sum(summed, axis=axis)
    return to_shape(summed, shape_of(x))


@tile.accept(np.tile)
def _(A, reps):
    reps = reps if isinstance(reps, tuple | list | np.ndarray) else (reps,)
    factors = [r if isinstance(r, Dim) else operator.index(r) for r in reps]
    return tile(as_array(A), reps=tuple(factors))


# ----------------------------------------------------------------------------- padding
_COPYING = ("edge", "reflect", "symmetric", "wrap")


def _infer_pad(t: ArrayType, *, pad_width, mode, constant_values):
    sizes = [s + sum(w) for s, w in zip(t.shape, pad_width, strict=True)]
    if mode != "constant" and any(isinstance(s, Dim) for s in t.shape):
        raise ShapeError(
            f'np.pad with mode="{mode}" needs fixed sizes, not {shape_text(t.shape)}',
            fix="trace with numbers for the sizes",
        )
    return t.with_shape(tuple(sizes))


@op(
    infer=_infer_pad,
    samples=[
        arg("n").with_(pad_width=((1, 2),)),
        arg(2, 3).with_(pad_width=((0, 0), (1, 2))),
        arg(2, 3).with_(pad_width=((1, 0), (0, 2)), constant_values=1.5),
        arg(4).with_(pad_width=((2, 1),), mode="edge"),
        arg(2, 3).with_(pad_width=((1, 1), (2, 1)), mode="reflect"),
        arg(2, 3).with_(pad_width=((1, 1), (2, 1)), mode="wrap"),
    ],
)
def pad(x, *, pad_width, mode="constant", constant_values=0):
    """`x` with `pad_width` elements before and after each axis."""
    if mode != "constant":
        return xp.pad(x, pad_width, mode=mode)
    return xp.pad(x, pad_width, constant_values=constant_values)


@pad.links
def _(k, x, *, pad_width, mode, constant_values):
    numbers = np.arange(int(np.prod(x))).reshape(x)
    if mode == "constant":
        moved = np.pad(numbers, pad_width, constant_values=-1).ravel()
    else:
        moved = np.pad(numbers, pad_width, mode=mode).ravel()
    rows = np.flatnonzero(moved >= 0)
    ones = np.ones(rows.size, dtype=bool)
    shape = (moved.size, numbers.size)
    return sparse.csr_array((ones, (rows, moved[rows])), shape=shape)


@pad.batch
def _(b, x, *, pad_width, **attrs):
    return pad(x, pad_width=((0, 0), *pad_width), **attrs)


@pad.jvp
def _(t, y, x, *, pad_width, mode, constant_values):
    return pad(t, pad_width=pad_width, mode=mode)


@pad.vjp
def _(ct, y, x, *, pad_width, mode, constant_values):
    if mode == "constant":
        index = [
            Slice(before or None, -after if after else None)
            for before, after in pad_width
        ]
        return getitem(ct, index=tuple(index))
    # The other modes copy elements: add their cotangents up, one axis after the other.
    sources = [
        np.pad(np.arange(int(size)), width, mode=mode)
        for size, width in zip(shape_of(x), pad_width, strict=True)
    ]
    return Scattered(ct, np.ix_(*sources), (ARRAY,) * len(sources), False)


@pad.accept(np.pad)
def _(array, pad_width, mode="constant", **kwargs):
    x = as_array(array)
    given = kwargs.pop("constant_values", None)
    if mode not in ("constant", *_COPYING):
        refuse("np.pad", fix=f"use one of constant, {', '.join(_COPYING)}", mode=mode)
    if mode in ("reflect", "symmetric") and kwargs.get("reflect_type") == "even":
        kwargs.pop("reflect_type")
    refuse("np.pad", **kwargs)
    if isinstance(pad_width, dict):
        widths = np.zeros((ndim_of(x), 2), dtype=int)
        for axis, width in pad_width.items():
            widths[axis] = width
    else:
        widths = np.broadcast_to(np.asarray(pad_width), (ndim_of(x), 2))
    pairs = tuple([(int(a), int(b)) for a, b in widths])
    if given is not None and (is_traced(given) or np.ndim(given)):
        refuse(
            "np.pad",
            fix="use one number, or np.concatenate with the values",
            constant_values=given,
        )
    if mode != "constant":
        return pad(x, pad_width=pairs, mode=mode)
    return pad(x, pad_width=pairs, constant_values=given or 0)


# --------------------------------------------------------------------------- splitting
@accept(np.array_split)
def array_split(ary, indices_or_sections, axis=0):
    """Consecutive parts of `ary` along `axis`, of sizes as equal as possible."""
    x = as_array(ary)
    axis = normal_axis(axis, ndim_of(x))
    size = shape_of(x)[axis]
    if isinstance(indices_or_sections, tuple | list | np.ndarray):
        cuts = [c if isinstance(c, Dim) else int(c) for c in indices_or_sections]
        bounds = [None, *cuts, None]
    else:
        bounds = _equal_parts(size, operator.index(indices_or_sections))
    return [
        getitem(x, index=along(axis, Slice(start, stop)))
        for start, stop in pairwise(bounds)
    ]


def _equal_parts(size: Any, count: int) -> list:
    if count < 1:
        raise ArgumentError(f"an array cannot be split into {count} parts")
    part = exact_div(size, count)
    if part is None and isinstance(size, Dim):
        raise ShapeError(
            f"whether {count} divides {size} cannot be known from the types alone",
            fix="trace with numbers for the sizes",
        )
    if part is not None:
        cuts = [part * i for i in range(1, count)]
    else:
        short, longer = divmod(size, count)
        cuts = [short * i + min(i, longer) for i in range(1, count)]
    return [None, *cuts, None]


@accept(np.split)
def split(ary, indices_or_sections, axis=0):
    """Consecutive parts of `ary` along `axis`, equal or at given positions."""
    x = as_array(ary)
    if not isinstance(indices_or_sections, tuple | list | np.ndarray):
        size = shape_of(x)[normal_axis(axis, ndim_of(x))]
        count = operator.index(indices_or_sections)
        if count < 1 or (not isinstance(size, Dim) and size % count):
            raise ShapeError(
                f"an axis of size {size} does not split into {count} equal parts",
                op="np.split",
                fix="use np.array_split",
            )
    return array_split(x, indices_or_sections, axis)


@accept(np.hsplit)
def _(ary, indices_or_sections):
    axis = 0 if ndim_of(as_array(ary)) == 1 else 1
    return split(ary, indices_or_sections, axis)


@accept(np.vsplit)
def _(ary, indices_or_sections):
    return split(ary, indices_or_sections, 0)


@accept(np.dsplit)
def _(ary, indices_or_sections):
    return split(ary, indices_or_sections, 2)


def _unstack(x, /, *, axis=0):
    x = as_array(x)
    axis = normal_axis(axis, ndim_of(x))
    size = shape_of(x)[axis]
    return tuple([getitem(x, index=along(axis, i)) for i in range(size)])


if hasattr(np, "unstack"):  # NumPy 2.1
    accept(np.unstack)(_unstack)


# ------------------------------------------------------------------------- differences
@accept(np.diff)
def diff(a, n=1, axis=-1, prepend=np._NoValue, append=np._NoValue):
    """`a[1:] - a[:-1]`, `n` times."""
    x = as_array(a)
    if n < 0:
        raise ArgumentError(f"np.diff takes an order of 0 or more, not {n}")
    if n == 0:
        return x  # as it is, without what would be put to its ends
    axis = normal_axis(axis, ndim_of(x))
    ends = [_end(e, x, axis) for e in (prepend, append)]
    parts = [p for p in (ends[0], x, ends[1]) if p is not None]
    x = concatenate(*parts, axis=axis) if len(parts) > 1 else x
    for _ in range(n):
        later = getitem(x, index=along(axis, Slice(1, None)))
        earlier = getitem(x, index=along(axis, Slice(None, -1)))
        x = later != earlier if x.dtype == bool else later - earlier
    return x


def _end(value: Any, x: Any, axis: int) -> Any:
    if value is np._NoValue:
        return None
    value = as_operand(value)
    if ndim_of(value):
        return value
    shape = shape_of(x)
    return broadcast_to(value, shape=(*shape[:axis], 1, *shape[axis + 1 :]))


@accept(np.ediff1d)
def _(ary, to_end=None, to_begin=None):
    x = ravel(as_array(ary))
    x = getitem(x, index=(Slice(1, None),)) - getitem(x, index=(Slice(None, -1),))
    cast = lambda part: METHODS["astype"](ravel(as_array(part)), dtype_of(x))
    begin = [] if to_begin is None else [cast(to_begin)]
    end = [] if to_end is None else [cast(to_end)]
    return concatenate(*begin, x, *end) if begin or end else x


@accept(np.trapezoid)
def _(y, x=None, dx=1.0, axis=-1):
    y = as_array(y)
    axis = normal_axis(axis, ndim_of(y))
    if x is None:
        width = as_operand(dx)
    else:
        x = as_array(x)
        width = diff(x, axis=0 if ndim_of(x) == 1 else axis)
        if ndim_of(width) == 1 and axis < ndim_of(y) - 1:
            width = expand_dims(width, axis=tuple(range(1, ndim_of(y) - axis)))
    later = getitem(y, index=along(axis, Slice(1, None)))
    earlier = getitem(y, index=along(axis, Slice(None, -1)))
    return reduce_sum(width * (later + earlier) / 2.0, axis=axis)


# ------------------------------------------------------------------------------- grids
@accept(np.meshgrid)
def _(*xi, copy=True, sparse=False, indexing="xy"):
    if indexing not in ("xy", "ij"):
        refuse("np.meshgrid", fix='use "xy" or "ij"', indexing=indexing)
    vectors = [ravel(as_array(x)) for x in xi]
    rank = len(vectors)
    places = list(range(rank))
    if indexing == "xy" and rank > 1:
        places[:2] = [1, 0]
    open_mesh = [
        expand_dims(v, axis=tuple([i for i in range(rank) if i != place]))
        for v, place in zip(vectors, places, strict=True)
    ]
    if sparse:
        return tuple(open_mesh)
    shape = broadcast_shapes(*map(shape_of, open_mesh))
    return tuple([broadcast_to(v, shape=shape) for v in open_mesh])
