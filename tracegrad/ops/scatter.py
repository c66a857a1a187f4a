"""Writing by subscripts, as functions that return the changed array."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import DTypeError, ShapeError
from tracegrad.ir.dims import product
from tracegrad.ir.graph import Const
from tracegrad.ir.index import ARRAY, Slice, fill
from tracegrad.ir.types import ArrayType, Shape
from tracegrad.ops.create import positions, zeros_like
from tracegrad.ops.define import accept, op
from tracegrad.ops.index import (
    FULL,
    drop_axes,
    getitem,
    infer_subscript,
    names_once,
    subscript,
)
from tracegrad.ops.infer import (
    normal_axis,
    refuse,
    same_size,
    shape_text,
)
from tracegrad.ops.record import (
    Ref,
    as_array,
    as_operand,
    ndim_of,
    shape_of,
    type_of,
)
from tracegrad.ops.sample import arg, call, data
from tracegrad.ops.select import where
from tracegrad.ops.shape import to_shape


def _infer_write(x: ArrayType, update: ArrayType, *arrays, index, counts, unique):
    target = infer_subscript(x, arrays, index, counts).shape
    given = update.shape
    places = target[len(target) - len(given) :] if len(given) <= len(target) else ()
    if len(places) < len(given) or not all(
        size == 1 or same_size(size, place)
        for size, place in zip(given, places, strict=True)
    ):
        raise ShapeError(
            f"a value of shape {shape_text(update.shape)} does not fit into a place of "
            f"shape {shape_text(target)}",
            fix="give the value the shape of the place, or one that broadcasts to it",
        )
    if update.kind == "c" and x.kind != "c":
        raise DTypeError(
            f"a complex value does not fit into an array of {x.dtype}",
            fix="make the array with dtype=complex, or write value.real",
        )
    return x.strong


_AT = data((2, 0, 3), dtype="int64")
_TWICE = data((2, 0, 2), dtype="int64")
_MASK = data((True, False, True, True), dtype="bool")
_WRITES = [
    call(arg(4), arg(), index=(1,), unique=True),
    call(arg(4), arg(3), index=(Slice(1, None),), unique=True),
    call(arg("n", 3), arg(3), index=(Slice(None, -1),), unique=True),
    call(arg(4, 3), arg(4, 1), index=(Ellipsis, Slice(1, None)), unique=True),
    call(arg(4), arg(3), _AT, index=(ARRAY,), unique=True),
    call(arg(3, 4), arg(3), _AT, index=(FULL, ARRAY), unique=True),
    call(arg(4), arg(3), _TWICE, index=(ARRAY,), unique=False),
    call(arg(4, 3), arg(3, 3), _TWICE, index=(ARRAY,), unique=False),
    call(arg(4, 4), arg(), _AT, _TWICE, index=(ARRAY, ARRAY), unique=False),
    call(arg(4), arg(3), _MASK, index=(ARRAY,), unique=True, counts=(3,)),
    call(arg(4), arg(4, dtype="float32"), index=(FULL,), unique=True).rough(),
]


@op(
    infer=_infer_write,
    linear=("x", "update"),
    spelling="x[...] = value",
    samples=_WRITES,
)
def setitem(x, update, *indices, index, unique, counts=()):
    """`x` with `update` written at `index`.

    An element that index arrays name twice keeps the last value, as in NumPy, and only
    that value gets a cotangent.
    """
    out = xp.array(x)
    out[fill(index, indices)] = update
    return out


@setitem.in_place
def _(x, update, *indices, index, unique, counts=()):
    x[fill(index, indices)] = update


@setitem.body("jax")
def _(x, update, *indices, index, unique, counts=()):
    return x.at[fill(index, indices)].set(update)


@setitem.vjp
def _(ct, y, x, update, *indices, index, unique, counts):
    at = {"index": index, "counts": counts}
    of_update = getitem(ct, *indices, **at)
    if not unique:
        # Write the position of each update, and see which ones are still there.
        order = positions(of_update)
        left = setitem(
            zeros_like(x, dtype="int64"), order, *indices, unique=False, **at
        )
        of_update = where(getitem(left, *indices, **at) == order, of_update, 0.0)
    of_x = setitem(ct, 0.0, *indices, unique=True, **at)
    return (of_x, of_update, *[None] * len(indices))


@op(
    infer=_infer_write,
    linear=("x", "update"),
    spelling="x[...] += update",
    samples=_WRITES,
)
def scatter_add(x, update, *indices, index, unique, counts=()):
    """`x` with `update` added at `index`; elements named twice get both.

    `unique` says that no element is named twice, so that `+=` does it.
    """
    out = xp.array(x)
    xp.add.at(out, fill(index, indices), update)
    return out


def has_slices(index) -> bool:
    """Whether a subscript can only be written between brackets."""
    return any(isinstance(entry, Slice) for entry in index)


@scatter_add.in_place
def _(x, update, *indices, index, unique, counts=()):
    if unique:
        x[fill(index, indices)] += update
    elif has_slices(index):
        xp.add.at(x, xp.s_[fill(index, indices)], update)
    else:
        xp.add.at(x, fill(index, indices), update)


@scatter_add.body("jax")
def _(x, update, *indices, index, unique, counts=()):
    return x.at[fill(index, indices)].add(update)


@scatter_add.vjp
def _(ct, y, x, update, *indices, index, unique, counts):
    of_update = getitem(ct, *indices, index=index, counts=counts)
    return (ct, of_update, *[None] * len(indices))


def collect(x: Any, parts: Iterable[tuple[Any, tuple, tuple]], unique: bool) -> Any:
    """A cotangent of `x` from (update, index arrays, static subscript), added up.

    For rules: `d_x = zeros_like(x); d_x[i] += update`, in one buffer that has the name
    of a cotangent of `x`.
    """
    made = zeros_like(x)
    for update, indices, index in parts:
        _name_after(made, x)
        made = scatter_add(made, update, *indices, index=index, unique=unique)
    _name_after(made, x)
    return made


def _name_after(ct: Any, x: Any) -> None:
    if isinstance(ct, Ref) and isinstance(x, Ref) and not isinstance(x.value, Const):
        ct.value.wrt = x.value


# --------------------------------------------------------------------- what users write
def write(x: Any, key: Any, value: Any) -> Any:
    """The value of `x` after `x[key] = value`."""
    arrays, attrs = subscript(x, key)
    value = as_operand(value)
    place = infer_subscript(type_of(x), tuple(map(type_of, arrays)), **attrs)
    # NumPy drops leading axes of size 1 that the place does not have.
    extra = 0
    while ndim_of(value) - extra > place.ndim and shape_of(value)[extra] == 1:
        extra += 1
    value = drop_axes(value, axis=tuple(range(extra)))
    return setitem(x, value, *arrays, unique=names_once(x, arrays), **attrs)


@accept(updates=[(np.add, "at")])
def add_at(x, indices, value):
    """The value of `x` after `np.add.at(x, indices, value)`."""
    arrays, attrs = subscript(x, indices)
    once = names_once(x, arrays)
    return scatter_add(x, as_operand(value), *arrays, unique=once, **attrs)


@accept(updates=[(np.subtract, "at")])
def _(x, indices, value):
    return add_at(x, indices, -as_operand(value))


@accept(updates=["fill"])
def _(x, value):
    return write(x, Ellipsis, value)


@accept(updates=[np.copyto])
def _(dst, src, casting="same_kind", where=True):
    refuse("np.copyto", casting=None if casting == "same_kind" else casting)
    if where is True:
        return write(dst, Ellipsis, src)
    return choose(as_operand(where), as_operand(src), dst)


def choose(mask: Any, value: Any, x: Any) -> Any:
    """`x` with `value` where `mask` holds, in the dtype of `x`."""
    return write(x, Ellipsis, where(mask, value, x))


@accept(updates=[np.putmask])
def _(a, mask, values):
    if shape_of(values) not in ((), shape_of(a)):
        raise ShapeError(
            f"np.putmask with values of shape {shape_text(shape_of(values))} repeats "
            "them over the array",
            fix="use np.where with arrays of one shape",
        )
    return choose(as_operand(mask), as_operand(values), a)


@accept(updates=[np.put_along_axis])
def _(arr, indices, values, axis):
    indices = as_array(indices)
    if axis is None:
        flat = write(to_shape(arr, (product(shape_of(arr)),)), indices, values)
        return to_shape(flat, shape_of(arr))
    axis = normal_axis(axis, ndim_of(arr))
    return write(arr, grid_along(indices, axis, shape_of(arr)), values)


def grid_along(indices: Any, axis: int, shape: Shape | None = None) -> tuple:
    """The subscript that pairs `indices` with each position along the other axes.

    Args:
        indices: positions along `axis`.
        axis: which one.
        shape: of the array that is indexed, with which `indices` broadcasts along the
            other axes; without it, the positions are those of `indices`.
    """
    shape = shape_of(indices) if shape is None else shape
    if ndim_of(indices) != len(shape):
        raise ShapeError(
            f"indices of shape {shape_text(shape_of(indices))} do not have the "
            f"{len(shape)} axes of the array",
            fix="give an index array with as many axes",
        )
    grid = list(np.ix_(*[np.arange(int(n)) for n in shape]))
    grid[axis] = indices
    return tuple(grid)


@accept(updates=[np.fill_diagonal])
def _(a, val, wrap=False):
    shape = shape_of(a)
    if wrap and ndim_of(a) == 2:
        # As NumPy does in a tall matrix: on after a free row.
        rows, columns = map(int, shape)
        steps = np.arange(0, rows * columns, columns + 1)
        return write(a, tuple(np.unravel_index(steps, shape)), val)
    steps = np.arange(min(map(int, shape)))
    return write(a, (steps,) * ndim_of(a), val)
