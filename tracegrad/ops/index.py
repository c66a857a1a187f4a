"""Reading by subscripts."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, DTypeError, OutOfBoundsError, ShapeError
from tracegrad.ir.dims import at_least, slice_length
from tracegrad.ir.graph import Const
from tracegrad.ir.index import ARRAY, Slice, fill
from tracegrad.ir.types import ArrayType, Dim
from tracegrad.ops.define import op
from tracegrad.ops.infer import (
    broadcast_shapes,
    count_true,
    decide,
    decider,
    same_size,
    shape_text,
)
from tracegrad.ops.record import (
    Ref,
    Scattered,
    as_operand,
    is_traced,
    ndim_of,
    shape_of,
    type_of,
)
from tracegrad.ops.sample import arg, call, data

FULL = Slice()
REVERSED = Slice(None, None, -1)


# ------------------------------------------------------------ from the user's brackets
def subscript(x: Any, key: Any) -> tuple[tuple, dict[str, Any]]:
    """Split what the user wrote between brackets into arrays and static attributes.

    Args:
        x: the array that is indexed.
        key: ints, slices, `None`, `Ellipsis`, index arrays and masks (traced, plain, or
            nested lists), or a tuple of these.

    Returns:
        The index arrays, and the attributes of `getitem`: `index`, and `counts`, the
        number of true elements of each mask.

    Raises:
        OutOfBoundsError: if an int or a constant index array leaves the axis.
        DTypeError: if an index is neither int nor bool.
    """
    entries = key if type(key) is tuple else (key,)
    arrays: list[Any] = []
    index: list[Any] = []
    counts: list[Any] = []
    for entry in entries:
        entry = _static_entry(entry)
        if entry is None or entry is Ellipsis or isinstance(entry, int | Slice | Dim):
            index.append(entry)
            continue
        if type_of(entry).kind == "b":
            counts.append(count_true(entry))
        arrays.append(entry)
        index.append(ARRAY)
    attrs = {"index": tuple(index), "counts": tuple(counts)}
    _check_constants(x, arrays, attrs)
    return tuple(arrays), attrs


def _static_entry(entry: Any) -> Any:
    """One entry as it stands in a static subscript, or the array that it names."""
    if entry is None or entry is Ellipsis or isinstance(entry, Dim):
        return entry
    if isinstance(entry, slice):
        return _static_slice(entry)
    if isinstance(entry, bool | np.bool_):
        raise DTypeError(
            f"the index {entry} is a single bool, not a mask",
            fix="use None for a new axis, or a mask with the shape of the array",
        )
    if not is_traced(entry) and hasattr(entry, "__index__") and np.ndim(entry) == 0:
        return operator.index(entry)
    if isinstance(entry, list) and not entry:
        return np.zeros(0, dtype=np.intp)
    entry = as_operand(entry)
    kind = type_of(entry).kind
    if kind not in "iub":
        raise DTypeError(
            f"an index must be an int or a mask, not {type_of(entry).dtype}",
            fix="convert it with .astype(int), or use a comparison to make a mask",
        )
    return entry


def _static_slice(entry: slice) -> Slice:
    bounds = [
        b if b is None or isinstance(b, Dim) else operator.index(b)
        for b in (entry.start, entry.stop, entry.step)
    ]
    if type(bounds[2]) is int and bounds[2] == 0:
        raise ArgumentError("a slice step cannot be zero", op="x[...]")
    return Slice(*bounds)


def _check_constants(x: Any, arrays: list[Any], attrs: dict[str, Any]) -> None:
    """Index arrays known now are checked now, so that the error has a line."""
    shape, rest = shape_of(x), iter(arrays)
    for entry, axis in _axes_of(attrs["index"], arrays, len(shape)):
        if entry is not ARRAY:
            continue
        array = next(rest)
        if isinstance(array, np.ndarray) and array.dtype != bool and array.size:
            _check_bounds(int(array.min()), axis, shape[axis])
            _check_bounds(int(array.max()), axis, shape[axis])


def _check_bounds(i: Any, axis: int, size: Any) -> None:
    needed = i + 1 if at_least(i, 0) is not False else -i
    inside = at_least(size, needed)
    # What is open for symbolic sizes is known in a call, else left to NumPy.
    if inside is None and type(needed) is int and decider.reaches is not None:
        inside = decider.reaches(size, needed)
    if inside is False:
        raise OutOfBoundsError(
            f"index {i} is out of bounds for axis {axis} with size {size}",
            fix=f"use an index from -{size} to {size} - 1",
        )


def _consumed(entry: Any, array: Any) -> int:
    if entry is None or entry is Ellipsis:
        return 0
    if entry is ARRAY and type_of(array).kind == "b":
        return ndim_of(array) if not isinstance(array, ArrayType) else array.ndim
    return 1


def _axes_of(index: tuple, arrays: Any, ndim: int) -> list[tuple[Any, int]]:
    """Each entry with the first axis of the array that it consumes.

    Raises:
        OutOfBoundsError: if the subscript has more entries than the array axes.
    """
    rest = iter(arrays)
    used = [_consumed(e, next(rest) if e is ARRAY else None) for e in index]
    total = sum(used)
    if total > ndim or len([e for e in index if e is Ellipsis]) > 1:
        raise OutOfBoundsError(
            f"too many indices: the array has {ndim} axes, the subscript {total}"
            if total > ndim
            else "a subscript can have only one ..."
        )
    placed = []
    axis = 0
    for entry, count in zip(index, used, strict=True):
        placed.append((entry, axis))
        axis += ndim - total if entry is Ellipsis else count
    return placed


# ------------------------------------------------------------------------- inference
def infer_subscript(
    t: ArrayType, arrays: tuple[ArrayType, ...], index: tuple, counts: tuple
) -> ArrayType:
    """Type of `x[index]`, by NumPy's rules for mixed basic and advanced subscripts."""
    rest, tallies = iter(arrays), iter(counts)
    # With an index array that has axes, an int counts as an index array too.
    advanced = any(a.ndim for a in arrays)
    before: list[Any] = []  # sizes of the result that do not come from index arrays
    shapes: list[tuple] = []
    at = None  # where the axes of the index arrays go
    split = False  # index arrays on both sides of a slice
    previous = False
    end = 0
    for entry, axis in _axes_of(index, arrays, t.ndim):
        is_array = entry is ARRAY or isinstance(entry, int | Dim)
        if is_array and advanced:
            split = split or (at is not None and not previous)
            at = len(before) if at is None else at
        previous = is_array
        end = axis
        if entry is ARRAY:
            array = next(rest)
            shapes.append(_array_shape(t, array, axis, tallies))
            end = axis + (array.ndim if array.kind == "b" else 1)
        elif entry is None:
            before.append(1)
        elif entry is Ellipsis:
            end = axis + t.ndim - _count_axes(index, arrays)
            before.extend(t.shape[axis:end])
        elif isinstance(entry, Slice):
            before.append(
                slice_length(entry.start, entry.stop, entry.step, t.shape[axis], decide)
            )
            end = axis + 1
        else:
            _check_bounds(entry, axis, t.shape[axis])
            end = axis + 1
    before.extend(t.shape[end:])
    if not advanced:
        return t.with_shape(tuple(before))
    at = 0 if split else at
    return t.with_shape((*before[:at], *broadcast_shapes(*shapes), *before[at:]))


def _count_axes(index: tuple, arrays: tuple[ArrayType, ...]) -> int:
    rest = iter(arrays)
    return sum([_consumed(e, next(rest) if e is ARRAY else None) for e in index])


def _array_shape(t: ArrayType, array: ArrayType, axis: int, tallies: Any) -> tuple:
    if array.kind not in "iub":
        raise DTypeError(
            f"an index must be an int or a mask, not {array.dtype}",
            fix="convert it with .astype(int), or use a comparison to make a mask",
        )
    if array.kind != "b":
        return array.shape
    masked = t.shape[axis : axis + array.ndim]
    if len(masked) < array.ndim or not all(map(same_size, masked, array.shape)):
        raise ShapeError(
            f"a mask of shape {shape_text(array.shape)} does not fit "
            f"{shape_text(t.shape)} at axis {axis}",
            fix="make the mask from the array that it indexes",
        )
    return (next(tallies),)


# ------------------------------------------------------------------------------- read
def inverse_subscript(x: Any, index: tuple) -> tuple | None:
    """The subscript that undoes `x[index]`, if that only moves elements, or None."""
    undo: list[Any] = []
    shape = shape_of(x)
    for entry, axis in _axes_of(index, (), len(shape)):
        if entry is None:
            undo.append(0)
        elif entry is Ellipsis or entry in (FULL, REVERSED):
            undo.append(entry)
        elif isinstance(entry, int) and shape[axis] == 1:
            undo.append(None)
        else:
            return None
    return tuple(undo)


def names_once(x: Any, arrays: tuple) -> bool:
    """Whether it is known that a subscript names no element of `x` twice.

    Masks never do.  One constant index array without repeats, of the shape that all
    broadcast to, is enough.
    """
    ints = [a for a in arrays if type_of(a).kind != "b"]
    if not ints or all(not ndim_of(a) for a in ints):
        return True
    whole = broadcast_shapes(*[shape_of(a) for a in ints])
    for a in ints:
        known = known_array(a)
        if known is None or known.shape != whole or not known.size:
            continue
        # A negative index may name the same element as a positive one.
        one_sign = known.min() >= 0 or known.max() < 0
        if one_sign and np.unique(known).size == known.size:
            return len(ints) == len(arrays)
    return False


def known_array(a: Any) -> np.ndarray | None:
    """The data of a constant array, or None."""
    value = a.value if isinstance(a, Ref) else a
    if isinstance(value, Const):
        value = value.value
    return value if isinstance(value, np.ndarray) else None


_COLUMNS = data((2, 0, 2), dtype="int64")
_MASK = data((True, False, True), dtype="bool")
_ALL = data((True, True, True), dtype="bool")


@op(
    infer=lambda t, *arrays, index, counts: infer_subscript(t, arrays, index, counts),
    aliases=lambda *, index, counts: None if ARRAY in index else "view",
    linear=("x",),
    spelling="x[...]",
    noun="part",
    samples=[
        arg(5).with_(index=(Slice(1, None),)),
        arg(5).with_(index=(Slice(None, None, -2),)),
        arg(5).with_(index=(REVERSED,)),
        arg("n", 3).with_(index=(0,)),
        arg("n", 3).with_(index=(Ellipsis, Slice(None, -1))),
        arg("n", 3).with_(index=(Slice(1, None), -1)),
        arg(3, 1).with_(index=(FULL, 0)),
        arg(2, 3).with_(index=(FULL, None)),
        arg().with_(index=(None,)),
        call(arg(4), _COLUMNS, index=(ARRAY,)),
        call(arg("n", 3), _COLUMNS, index=(FULL, ARRAY)),
        call(arg(3, 2, 4), _COLUMNS, index=(ARRAY, FULL, 1)),
        call(arg(3, 2, 4), _COLUMNS, _COLUMNS, index=(ARRAY, FULL, ARRAY)),
        call(arg(3, 2), data(1, dtype="int64"), index=(FULL, ARRAY)),
        call(arg(3, 2), _MASK, index=(ARRAY,), counts=(2,)),
        call(arg(4, 3), _COLUMNS, _ALL, index=(ARRAY, ARRAY), counts=(3,)),
    ],
)
def getitem(x, *indices, index, counts=()):
    """`x[index]`; `counts` holds the number of true elements of each mask."""
    return x[fill(index, indices)]


@getitem.vjp
def _(ct, y, x, *indices, index, counts):
    undo = None if indices else inverse_subscript(x, index)
    if undo is not None:
        # The engine gives a scalar the shape of `x`, which has one element then.
        moves = ndim_of(ct) and any(e is not Ellipsis and e != FULL for e in undo)
        return (getitem(ct, index=undo) if moves else ct,)
    once = names_once(x, indices)
    return (Scattered(ct, indices, index, once, counts), *[None] * len(indices))


def read(x: Any, key: Any) -> Any:
    """`x[key]` as the user wrote it."""
    arrays, attrs = subscript(x, key)
    return getitem(x, *arrays, **attrs)


def along(axis: int, entry: Any) -> tuple:
    """The subscript that has `entry` at `axis` and takes the other axes whole."""
    return (*[FULL] * axis, entry)


def flip_axes(x: Any, axes: tuple[int, ...]) -> Any:
    """`x` in reverse order along `axes`."""
    if not axes:
        return x
    index = [REVERSED if i in axes else FULL for i in range(max(axes) + 1)]
    return getitem(x, index=tuple(index))


def expand_dims(x: Any, *, axis: tuple[int, ...]) -> Any:
    """`x` with axes of size 1 at the positions `axis` of the result: `x[:, None]`."""
    rank = ndim_of(x) + len(axis)
    entries = [None if i in axis else FULL for i in range(rank)]
    if len(axis) == 1 and axis[0] == rank - 1 and rank > 2:
        return getitem(x, index=(Ellipsis, None))
    while entries and entries[-1] is FULL:
        entries.pop()
    return getitem(x, index=tuple(entries)) if entries else x


def drop_axes(x: Any, *, axis: tuple[int, ...]) -> Any:
    """`x` without the axes `axis`, which have size 1: `x[:, 0]`."""
    if not axis:
        return x
    rank = ndim_of(x)
    if axis == (rank - 1,) and rank > 2:
        return getitem(x, index=(Ellipsis, 0))
    index = [0 if i in axis else FULL for i in range(max(axis) + 1)]
    return getitem(x, index=tuple(index))
