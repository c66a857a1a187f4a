"""Arrays with elements put in, left out or chosen: insert, delete, resize, choose."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import (
    ArgumentError,
    OutOfBoundsError,
    ShapeError,
    StaticArgumentError,
)
from tracegrad.ir.dims import product
from tracegrad.ir.index import ARRAY, Slice
from tracegrad.ir.types import ArrayType, Dim, Size
from tracegrad.ops.define import accept, op
from tracegrad.ops.index import along, getitem
from tracegrad.ops.infer import (
    broadcast_shapes,
    count_true,
    elementwise,
    normal_axis,
    refuse,
)
from tracegrad.ops.rearrange import tile
from tracegrad.ops.record import (
    Scattered,
    as_array,
    as_operand,
    is_traced,
    ndim_of,
    shape_of,
)
from tracegrad.ops.sample import arg, call, data
from tracegrad.ops.scatter import write
from tracegrad.ops.select import maximum, minimum, where
from tracegrad.ops.shape import as_shape, moveaxis, ravel, to_shape


def _static(function: str, obj: Any, size: Any) -> Any:
    """Which elements are meant, as an int or a tuple of ints.

    Raises:
        ArgumentError: if that depends on traced values.
    """
    if is_traced(obj) or isinstance(size, Dim):
        raise StaticArgumentError(
            f"{function} needs to know the places and the size when it is traced",
            op=function,
            fix="give plain numbers, or use np.concatenate with slices",
        )
    if isinstance(obj, slice):
        return tuple(range(*obj.indices(size)))
    places = np.asarray(obj)
    if places.dtype == bool:
        places = np.flatnonzero(places)
    if places.size and (places.min() < -size or places.max() > size):
        raise OutOfBoundsError(f"place {obj} is out of bounds for size {size}")
    return int(places) if places.ndim == 0 else tuple(places.astype(int).tolist())


def _along(a: Any, axis: Any) -> tuple[Any, int]:
    """An array and its axis; without one the array as a vector."""
    a = as_array(a)
    if axis is None:
        return (a if ndim_of(a) == 1 else ravel(a)), 0
    return a, normal_axis(axis, ndim_of(a))


# ------------------------------------------------------------------------------ delete
def _left(size: Size, obj: Any) -> np.ndarray:
    return np.delete(np.arange(int(size)), obj)


def _infer_delete(t: ArrayType, *, obj, axis):
    left = _left(t.shape[axis or 0], obj).size
    at = axis or 0
    return t.with_shape((*t.shape[:at], left, *t.shape[at + 1 :]))


@op(
    infer=_infer_delete,
    linear=True,
    samples=[
        arg(5).with_(obj=1),
        arg(5).with_(obj=(0, -1)),
        arg(2, 3).with_(obj=(1,), axis=1),
        arg(3, 2).with_(obj=0, axis=0),
    ],
)
def delete(x, *, obj, axis=None):
    """`x` without the elements at the places `obj` along `axis`."""
    return xp.delete(x, obj, axis=axis)


@delete.body("jax")
def _(x, *, obj, axis=None):
    if isinstance(obj, int):
        return xp.delete(x, obj, axis=axis)
    # Else it has to see the places, which are traced too under `jit`.
    return xp.delete(  # type: ignore[call-overload]
        x, xp.array(obj), axis=axis, assume_unique_indices=True
    )


@delete.vjp
def _(ct, y, x, *, obj, axis):
    at = axis or 0
    places = _left(shape_of(x)[at], obj)
    return Scattered(ct, (places,), along(at, ARRAY), True)


@delete.accept(np.delete)
def _(arr, obj, axis=None):
    x, at = _along(arr, axis)
    size = shape_of(x)[at]
    obj = _static("np.delete", obj, size)
    if isinstance(obj, tuple) and len({i % size for i in obj}) < len(obj):
        obj = tuple(sorted({i % size for i in obj}))  # each of them once
    return delete(x, obj=obj, axis=None if ndim_of(x) == 1 else at)


# ------------------------------------------------------------------------------ insert
def _places(size: int, obj: Any, count: int) -> tuple[int, ...]:
    """Places of the new elements in the result."""
    marked = np.insert(np.arange(size), obj, np.arange(size, size + count))
    return tuple(np.argsort(marked)[size:].tolist())


def _infer_insert(t: ArrayType, values: ArrayType, *, obj, axis):
    at = axis or 0
    count: Size = 1 if isinstance(obj, int) else len(obj)
    if count == 1 and values.ndim:
        own = at + values.ndim - t.ndim
        count = values.shape[own] if own >= 0 else 1
    size = t.shape[at] + count
    broadcast_shapes(values.shape, (*t.shape[:at], count, *t.shape[at + 1 :]))
    return t.with_shape((*t.shape[:at], size, *t.shape[at + 1 :]))


@op(
    infer=_infer_insert,
    linear=True,
    samples=[
        call(arg(5), arg(), obj=2),
        call(arg(3), arg(2), obj=1),
        call(arg(4), arg(3), obj=(1, 3, -1)),
        call(arg(2, 3), arg(2, 2), obj=(1, 0), axis=1),
        call(arg(2, 3), arg(2, 1), obj=(1,), axis=1),
        call(arg(2, 3), arg(), obj=(0,), axis=0),
        call(arg(3, dtype="float32"), arg(), obj=1).rough(),
    ],
)
def insert(x, values, *, obj, axis=None):
    """`x` with `values` put in before the places `obj` along `axis`."""
    return xp.insert(x, obj, values, axis=axis)


@insert.body("jax")
def _(x, values, *, obj, axis=None):
    return xp.insert(x, xp.array(obj), values, axis=axis)


@insert.vjp
def _(ct, y, x, values, *, obj, axis):
    at = axis or 0
    size, total = shape_of(x)[at], shape_of(ct)[at]
    new = _places(int(size), obj, int(total - size))
    if len(new) == 1 and not ndim_of(values):
        of_values = getitem(ct, index=along(at, new[0]))
    else:
        of_values = getitem(ct, np.array(new), index=along(at, ARRAY))
    return delete(ct, obj=new[0] if len(new) == 1 else new, axis=axis), of_values


@insert.accept(np.insert)
def _(arr, obj, values, axis=None):
    x, at = _along(arr, axis)
    obj = _static("np.insert", obj, shape_of(x)[at])
    values = as_operand(values)
    if isinstance(obj, int) and ndim_of(x) > 1:
        # NumPy takes the first axis of the values for the axis of the array then.
        if ndim_of(values) == ndim_of(x):
            values = moveaxis(values, 0, at)
        elif ndim_of(values):
            missing = ndim_of(x) - 1 - ndim_of(values)
            whole = (1,) * missing + shape_of(values)
            values = to_shape(values, (*whole[:at], 1, *whole[at:]))
        obj = (obj,)
    return insert(x, values, obj=obj, axis=None if ndim_of(x) == 1 else at)


# ------------------------------------------------------------------------------ resize
@accept(np.resize)
def _(a, new_shape):
    x, _ = _along(a, None)
    shape = as_shape(new_shape)
    count, have = product(shape), shape_of(x)[0]
    if isinstance(count, Dim) or isinstance(have, Dim):
        raise ShapeError(
            "np.resize needs fixed sizes", op="np.resize", fix="use np.tile"
        )
    if have < count:
        x = tile(x, reps=(-(-count // have),))
    return to_shape(getitem(x, index=(Slice(None, count),)), shape)


@accept(np.trim_zeros)
def _(filt, trim="fb", axis=None):
    if is_traced(filt):
        raise ArgumentError(
            "np.trim_zeros of traced values has a size that depends on data",
            op="np.trim_zeros",
            fix="cut with a slice of fixed bounds",
        )
    return np.trim_zeros(filt, trim, axis)


# ------------------------------------------------------------------------------ choose
def _infer_choose(t: ArrayType, *choices: ArrayType):
    shape = broadcast_shapes(t.shape, *[c.shape for c in choices])
    dtype = np.result_type(*[c.dtype for c in choices])
    return ArrayType(shape, dtype)


_infer_choose.ufunc = np.choose  # type: ignore[attr-defined]


@op(
    infer=_infer_choose,
    samples=[
        call(data((0, 2, 1), "int64"), arg(3), arg(), arg(2, 3)),
        call(data(1, "int64"), arg("n"), arg("n")),
    ],
)
def choose(which, *choices):
    """Element by element, the one of `choices` whose number `which` gives."""
    return xp.choose(which, choices)


@choose.body("jax")
def _(which, *choices):
    return xp.choose(which, choices, mode="clip")


@choose.vjp
def _(ct, y, which, *choices):
    return None, *[where(which == i, ct, 0.0) for i in range(len(choices))]


@choose.accept(np.choose)
def choose_call(a, choices, out=None, mode="raise"):
    """`np.choose` with all its arguments."""
    refuse("np.choose", out=out)
    which = as_array(a)
    if is_traced(choices) or isinstance(choices, np.ndarray):
        rows = shape_of(choices)[0]
        choices = [getitem(choices, index=(i,)) for i in range(rows)]
    choices = [as_operand(c) for c in choices]
    count = len(choices)
    if mode == "wrap":
        which = which % count
    elif mode == "clip":
        which = maximum(minimum(which, count - 1), 0)
    elif not is_traced(which) and (np.min(which) < 0 or np.max(which) >= count):
        raise OutOfBoundsError(
            f"np.choose with {count} choices has an entry that is out of bounds",
            op="np.choose",
            fix='use mode="wrap" or mode="clip"',
        )
    return choose(which, *choices)


@accept(methods=["choose"])
def _(a, choices, out=None, mode="raise"):
    return choose_call(a, choices, out, mode)


# ------------------------------------------------------------------------ put and place
@accept(updates=[np.put, "put"])
def _(a, ind, v, mode="raise"):
    ind = as_array(ind)
    size = product(shape_of(a))
    if mode == "wrap":
        ind = ind % size
    elif mode == "clip":
        ind = maximum(minimum(ind, size - 1), 0)
    ind, v = ravel(ind), ravel(as_array(v))
    count, given = shape_of(ind)[0], shape_of(v)[0]
    if given != count and given != 1:
        v = getitem(tile(v, reps=(-(-count // given),)), index=(Slice(None, count),))
    flat = a if ndim_of(a) == 1 else ravel(a)
    return to_shape(write(flat, ind, v), shape_of(a))


@accept(updates=[np.place])
def _(arr, mask, vals):
    mask = mask if is_traced(mask) else np.asarray(mask, bool)
    count = count_true(mask)  # a number, if the mask depends on constants only
    if not isinstance(count, int):
        raise ArgumentError(
            "np.place with a traced mask takes a number of values that depends on data",
            op="np.place",
            fix="use np.where(mask, value, x)",
        )
    v = ravel(as_array(vals))
    given = int(shape_of(v)[0])
    reps = -(-count // given)
    v = getitem(tile(v, reps=(reps,)) if reps > 1 else v, index=(Slice(None, count),))
    return write(arr, mask, v)


# ---------------------------------------------------------- scaling by powers of two
_EXPONENTS = data((2, -1, 0), "int64")


@op(
    infer=elementwise(np.ldexp),
    vjp=[lambda ct, y, x, i: ldexp(ct, i), None],
    accepts=[np.ldexp],
    samples=[call(arg(3), _EXPONENTS), call(arg("n", 3), _EXPONENTS)],
)
def ldexp(x, i):
    """`x` times 2 to the power of the whole number `i`."""
    return xp.ldexp(x, i)


@op(
    infer=elementwise(np.frexp),
    vjp=[
        lambda cts, out, x: None if cts[0] is None else ldexp(cts[0], -out[1]),
    ],
    accepts=[np.frexp],
    noun="mantissa exponent",
    samples=[arg(3, lo=0.6, hi=0.9).with_(), arg("n", 2, lo=2.2, hi=3.8).with_()],
)
def frexp(x):
    """Mantissa, with the size 0.5 to 1, and power of two of `x`."""
    return xp.frexp(x)


@op(
    infer=elementwise(np.nextafter),
    vjp=[lambda ct, z, x, y: ct, None],
    accepts=[np.nextafter],
    samples=[call(arg(3), arg(3)).rough()],
)
def nextafter(x, y):
    """The next number after `x` towards `y`; its derivative by `x` is 1."""
    return xp.nextafter(x, y)


def position_in(shape: tuple, indices: Any) -> Any:
    """The place in C order of an element with these indices."""
    place: Any = 0
    for size, i in zip(shape, indices, strict=True):
        place = place * size + i
    return place


@accept(np.ravel_multi_index, constant=True)
def _(multi_index, dims, mode="raise", order="C"):
    shape = as_shape(dims)
    indices = [as_operand(i) for i in multi_index]
    modes = mode if isinstance(mode, tuple) else (mode,) * len(shape)
    for at, (kind, size) in enumerate(zip(modes, shape, strict=True)):
        if kind == "wrap":
            indices[at] = indices[at] % size
        elif kind == "clip":
            indices[at] = maximum(minimum(indices[at], size - 1), 0)
    if order == "F":
        return position_in(shape[::-1], indices[::-1])
    return position_in(shape, indices)


@accept(np.unravel_index, constant=True)
def _(indices, shape, order="C"):
    place = as_operand(indices)
    found = []
    sizes = as_shape(shape)
    for size in sizes if order == "F" else sizes[::-1]:
        found.append(place % size)
        place = place // size
    return tuple(found if order == "F" else found[::-1])
