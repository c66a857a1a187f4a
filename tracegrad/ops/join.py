"""One array from several: assembling, concatenating, stacking."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ir.index import Slice
from tracegrad.ir.types import ArrayType
from tracegrad.ops.cast import astype
from tracegrad.ops.define import Batch, accept, op
from tracegrad.ops.index import along, expand_dims, getitem
from tracegrad.ops.infer import normal_axis, refuse, same_shape, same_size, shape_text
from tracegrad.ops.record import (
    as_array,
    as_operand,
    dtype_of,
    holds_traced,
    is_traced,
    ndim_of,
    shape_of,
    type_of,
)
from tracegrad.ops.sample import arg, call
from tracegrad.ops.shape import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    copy,
    permute,
    ravel,
    reshape,
)


def _joined_dtype(types) -> np.dtype:
    # Python scalars count as float64 and int64 here, as in `np.array([a, 2.0])`.
    return np.result_type(*[t.dtype for t in types])


# -------------------------------------------------------------------------- assembling
def nest(structure: Any, leaves: Any) -> Any:
    """Nested lists with `leaves` at the positions that `structure` names."""
    if isinstance(structure, tuple):
        return [nest(part, leaves) for part in structure]
    return leaves[structure]


def _lengths(structure: Any) -> tuple[int, ...]:
    """The shape of nested tuples.

    Raises:
        ShapeError: if they are ragged.
    """
    if not isinstance(structure, tuple):
        return ()
    inner = {_lengths(part) for part in structure}
    if len(inner) > 1:
        raise ShapeError(
            "the nested lists have different lengths, so they make no array",
            fix="give all lists at one level the same length",
        )
    return (len(structure), *(inner.pop() if inner else ()))


def _infer_array(*types: ArrayType, structure):
    outer = _lengths(structure)
    shape = types[0].shape
    for t in types[1:]:
        if not same_shape(shape, t.shape):
            raise ShapeError(
                f"parts of shapes {shape_text(shape)} and {shape_text(t.shape)} make "
                "no array",
                fix="give the parts one shape, or use np.concatenate",
            )
    return ArrayType((*outer, *shape), _joined_dtype(types))


@op(
    infer=_infer_array,
    linear=True,
    samples=[
        call(arg(), arg(), arg(), structure=(0, 1, 2)),
        call(arg(), arg(), arg(), structure=((0, 1), (2, 0))),
        call(arg("n"), arg("n"), structure=(0, 1)),
        call(arg(2, dtype="float32"), arg(2), structure=((0,), (1,))).rough(),
        call(arg(), structure=0),
    ],
)
def array(*xs, structure):
    """An array of nested lists; `structure` has the position of an input per leaf."""

    def nested(part):
        return [nested(p) for p in part] if isinstance(part, tuple) else xs[part]

    return xp.array(nested(structure))


@array.batch
def _(b, *xs, structure):
    parts = [b.whole(i) for i in _in_order(structure)]
    shape = b.node.out.type.shape
    made = stack(*parts, axis=1)
    if dtype_of(made) != b.node.out.type.dtype:
        made = astype(made, dtype=b.node.out.type.dtype)
    return made if made.shape[1:] == shape else reshape(made, shape=(b.size, *shape))


def _in_order(structure: Any) -> list[int]:
    if not isinstance(structure, tuple):
        return [structure]
    return [i for part in structure for i in _in_order(part)]


@array.emit
def _(inputs: list[ast.expr], attrs: dict[str, Any]) -> ast.expr:
    def nested(part: Any) -> ast.expr:
        if isinstance(part, tuple):
            return ast.List([nested(p) for p in part], ast.Load())
        return inputs[part]

    function = ast.Attribute(ast.Name("xp", ast.Load()), "array", ast.Load())
    return ast.Call(function, [nested(attrs["structure"])], [])


@array.vjp
def _(ct, y, *xs, structure):
    if structure == 0:
        return (ct,)
    parts: list[Any] = [None] * len(xs)
    for place, position in _leaves(structure):
        part = getitem(ct, index=place)
        have = parts[position]
        parts[position] = part if have is None else have + part
    return tuple(parts)


def _leaves(structure: Any, place: tuple = ()) -> list[tuple[tuple, int]]:
    """(subscript of the leaf, position of the input) in order."""
    if not isinstance(structure, tuple):
        return [(place, structure)]
    return [
        leaf for i, part in enumerate(structure) for leaf in _leaves(part, (*place, i))
    ]


def _assemble(x: Any) -> Any:
    """An array of nested lists with traced values somewhere inside."""
    leaves: list[Any] = []
    seen: dict[int, int] = {}

    def walk(part: Any) -> Any:
        if isinstance(part, list | tuple) and holds_traced(part):
            return tuple([walk(p) for p in part])
        key = id(part)
        if not is_traced(part) or key not in seen:
            seen[key] = len(leaves)
            leaves.append(as_operand(part))
        return seen[key]

    structure = walk(x)
    if len({len(place) for place, _ in _leaves(structure)}) > 1:
        # An array, or a list of numbers, stands beside a list: level by level.
        return array(*map(as_operand, x), structure=tuple(range(len(x))))
    return array(*leaves, structure=structure)


def _converted(x: Any, dtype: Any, fresh: bool) -> Any:
    """`np.array` (a copy if `fresh`) or `np.asarray` of anything."""
    if isinstance(x, list | tuple) and holds_traced(x):
        x, fresh = _assemble(x), False
    elif is_traced(x):
        if type_of(x).weak:
            x, fresh = array(x, structure=0), False
    else:
        return np.array(x, dtype=dtype) if fresh else np.asarray(x, dtype=dtype)
    if dtype is not None and np.dtype(dtype) != dtype_of(x):
        return astype(x, dtype=np.dtype(dtype).name)
    return copy(x) if fresh else x


@array.accept(np.array)
def _(object, dtype=None, *, copy=True, order="K", subok=False, ndmin=0, like=None):
    refuse("np.array", like=like)
    made = _converted(object, dtype, copy is True)
    missing = ndmin - ndim_of(made)
    return expand_dims(made, axis=tuple(range(missing))) if missing > 0 else made


@accept(np.asarray, np.asanyarray)
def _(a, dtype=None, order=None, *, device=None, copy=None, like=None):
    refuse("np.asarray", device=device, like=like)
    return _converted(a, dtype, copy is True)


@accept(np.ascontiguousarray, np.asfortranarray)
def _(a, dtype=None, *, like=None):
    refuse("np.ascontiguousarray", like=like)
    return atleast_1d(_converted(a, dtype, False))


@accept(np.require)
def _(a, dtype=None, requirements=None, *, like=None):
    refuse("np.require", like=like)
    return _converted(a, dtype, False)


@accept(np.asarray_chkfinite)
def _(a, dtype=None, order=None):
    return _converted(a, dtype, False)


# ------------------------------------------------------------------------------ joining
def _infer_concatenate(*types: ArrayType, axis):
    first = types[0].shape
    for t in types[1:]:
        fits = len(t.shape) == len(first) and all(
            i == axis or same_size(a, b)
            for i, (a, b) in enumerate(zip(first, t.shape, strict=True))
        )
        if not fits:
            raise ShapeError(
                f"arrays of shapes {shape_text(first)} and {shape_text(t.shape)} "
                f"cannot be joined along axis {axis}",
                fix="make all other axes equal, or use np.stack",
            )
    total = sum([t.shape[axis] for t in types])
    shape = (*first[:axis], total, *first[axis + 1 :])
    return ArrayType(shape, _joined_dtype(types))


@op(
    infer=_infer_concatenate,
    linear=True,
    batch=Batch.LANE,
    samples=[
        call(arg("n"), arg(2), arg("n")),
        call(arg(2, 3), arg(2, 1), axis=1),
        call(arg("n", 3), arg("n", 3)),
        call(arg(3, dtype="float32"), arg(2)).rough(),
        call(arg(2), arg(3, dtype="int64")),
        arg(3).with_(),
    ],
)
def concatenate(*xs, axis=0):
    """The arrays one after the other along `axis`."""
    return xp.concatenate(xs, axis=axis)


@concatenate.vjp
def _(ct, y, *xs, axis):
    if len(xs) == 1:
        return (ct,)
    parts = []
    start: Any = 0
    for i, x in enumerate(xs):
        stop = start + shape_of(x)[axis]
        bounds = Slice(start if i else None, stop if i < len(xs) - 1 else None)
        parts.append(getitem(ct, index=along(axis, bounds)))
        start = stop
    return tuple(parts)


def _parts(arrays: Any, function: str) -> list:
    """The arrays of a joining function, which may come as one array of them."""
    if is_traced(arrays) or isinstance(arrays, np.ndarray):
        return [getitem(arrays, index=(i,)) for i in range(shape_of(arrays)[0])]
    parts = [as_array(a) for a in arrays]
    if not parts:
        raise ArgumentError(f"{function} needs at least one array", op=function)
    return parts


def _cast(parts: list, dtype: Any) -> list:
    if dtype is None:
        return parts
    return [
        p if dtype_of(p) == np.dtype(dtype) else astype(p, dtype=np.dtype(dtype).name)
        for p in parts
    ]


@concatenate.accept(np.concatenate)
def concatenate_call(arrays, /, axis=0, out=None, *, dtype=None, casting="same_kind"):
    """`np.concatenate` with all its arguments."""
    refuse("np.concatenate", out=out)
    parts = _cast(_parts(arrays, "np.concatenate"), dtype)
    if axis is None:
        return concatenate(*map(ravel, parts))
    if not ndim_of(parts[0]):
        raise ShapeError(
            "arrays without axes cannot be joined",
            op="np.concatenate",
            fix="use np.array([...]) or np.stack",
        )
    return concatenate(*parts, axis=normal_axis(axis, ndim_of(parts[0])))


def _infer_stack(*types: ArrayType, axis):
    first = types[0].shape
    for t in types[1:]:
        if not same_shape(first, t.shape):
            raise ShapeError(
                f"arrays of shapes {shape_text(first)} and {shape_text(t.shape)} "
                "cannot be stacked",
                fix="give them one shape, or use np.concatenate",
            )
    shape = (*first[:axis], len(types), *first[axis:])
    return ArrayType(shape, _joined_dtype(types))


@op(
    infer=_infer_stack,
    linear=True,
    samples=[
        call(arg("n"), arg("n")),
        call(arg(3), arg(3), axis=1),
        call(arg(2, 3), arg(2, 3), arg(2, 3), axis=2),
        call(arg(), arg()),
        call(arg(3, dtype="float32"), arg(3)).rough(),
    ],
)
def stack(*xs, axis=0):
    """The arrays side by side along a new axis."""
    return xp.stack(xs, axis=axis)


@stack.batch
def _(b, *xs, axis):
    return stack(*[b.whole(i) for i in range(len(xs))], axis=axis + 1)


@op(
    infer=lambda *types, of: _infer_stack(*types, axis=0),
    linear=True,
    samples=[call(arg(3), arg(3), of="np.f"), call(arg(), arg(), of="np.f")],
)
def looped(*xs, of):
    """One result for each example of a batch, of the op `of` that had to be looped."""
    return xp.stack(xs)


@looped.vjp
def _(ct, y, *xs, of):
    return tuple([getitem(ct, index=(i,)) for i in range(len(xs))])


@looped.batch
def _(b, *xs, of):
    return stack(*[b.whole(i) for i in range(len(xs))], axis=1)


@stack.vjp
def _(ct, y, *xs, axis):
    return tuple([getitem(ct, index=along(axis, i)) for i in range(len(xs))])


@stack.accept(np.stack)
def stack_call(arrays, axis=0, out=None, *, dtype=None, casting="same_kind"):
    """`np.stack` with all its arguments."""
    refuse("np.stack", out=out)
    parts = _cast(_parts(arrays, "np.stack"), dtype)
    return stack(*parts, axis=normal_axis(axis, ndim_of(parts[0]) + 1))


@accept(np.vstack)
def _(tup, *, dtype=None, casting="same_kind"):
    parts = _cast(_parts(tup, "np.vstack"), dtype)
    if all(ndim_of(p) == 1 for p in parts):
        return stack(*parts)
    return concatenate(*[atleast_2d(p) for p in parts])


@accept(np.hstack)
def _(tup, *, dtype=None, casting="same_kind"):
    parts = [atleast_1d(p) for p in _cast(_parts(tup, "np.hstack"), dtype)]
    return concatenate(*parts, axis=0 if ndim_of(parts[0]) == 1 else 1)


@accept(np.dstack)
def _(tup):
    parts = [atleast_3d(p) for p in _parts(tup, "np.dstack")]
    return concatenate(*parts, axis=2)


@accept(np.column_stack)
def _(tup):
    parts = _parts(tup, "np.column_stack")
    if all(ndim_of(p) == 1 for p in parts):
        return stack(*parts, axis=1)
    columns = [permute(atleast_2d(p), None) if ndim_of(p) < 2 else p for p in parts]
    return concatenate(*columns, axis=1)


@accept(np.append)
def _(arr, values, axis=None):
    return concatenate_call([as_array(arr), as_array(values)], axis)


@accept(np.block)
def _(arrays):
    depth = _depth(arrays)
    parts = _block_leaves(arrays)
    rank = max([depth, *[ndim_of(p) for p in parts]])
    return _block(arrays, rank - depth, rank)


def _depth(arrays: Any) -> int:
    return 1 + _depth(arrays[0]) if isinstance(arrays, list) else 0


def _block_leaves(arrays: Any) -> list:
    if isinstance(arrays, list):
        return [leaf for a in arrays for leaf in _block_leaves(a)]
    return [as_array(arrays)]


def _block(arrays: Any, axis: int, rank: int) -> Any:
    if not isinstance(arrays, list):
        a = as_array(arrays)
        return expand_dims(a, axis=tuple(range(rank - ndim_of(a))))
    parts = [_block(a, axis + 1, rank) for a in arrays]
    return concatenate(*parts, axis=axis) if len(parts) > 1 else parts[0]
