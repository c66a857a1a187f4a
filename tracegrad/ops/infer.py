"""Shape and dtype inference, exactly as NumPy does it, symbolic sizes included.

Ufunc dtypes come from `ufunc.resolve_dtypes`, so NEP 50 holds by construction.  A
question about symbolic sizes that cannot be decided from the sizes alone goes to
`decide`, which a trace sets to look at the call's real values and record a guard.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, DTypeError, ShapeError
from tracegrad.ir.dims import compare, names
from tracegrad.ir.graph import Const, Node, Value
from tracegrad.ir.types import ArrayType, Dim, Shape, Size

# How the names of sizes begin that masks decide.
COUNT = "count"


class _Decider(threading.local):
    """Per thread: who answers questions about sizes that types leave open.

    Attributes:
        ask: whether a relation of two sizes holds, which the program then relies on.
        count: the number of true elements of a mask.
        reaches: whether a size is at least a number, for an index that the program
            itself may check.
    """

    ask: Callable[[str, Size, Size], bool] | None = None
    count: Callable[[Any], Size] | None = None
    reaches: Callable[[Size, int], bool] | None = None


decider = _Decider()


def decide(relation: str, left: Size, right: Size) -> bool:
    """Answer `left == right` or `left >= right` where the sizes alone do not.

    Raises:
        ShapeError: if no trace with real values is there to ask.
    """
    if decider.ask is not None:
        return decider.ask(relation, left, right)
    raise ShapeError(
        f"whether {left} {relation} {right} cannot be known from the types alone",
        fix="give the sizes the same name in tg.spec, or fixed numbers",
    )


def count_true(mask: Any) -> Size:
    """The number of true elements of a mask, the size of `x[mask]`.

    For a traced mask `decider.count` gives a number, or a new symbolic size.

    Raises:
        ShapeError: if the mask is traced and nobody is there to ask.
    """
    if decider.count is not None and not isinstance(mask, np.ndarray):
        return decider.count(mask)
    if not isinstance(getattr(mask, "type", None), ArrayType):
        return int(np.count_nonzero(mask))
    raise ShapeError(
        "the number of true elements of a mask cannot be known from the types alone",
        fix="use np.where(mask, x, 0.0), which keeps the shape",
    )


def is_one_by_mask(size: Size) -> bool:
    """Whether a mask has selected one element, where its number of elements is `size`.

    Sizes of arguments are never 1 where they have a name; those of masks may be.
    """
    if not isinstance(size, Dim) or decider.ask is None:
        return False
    counted = any(name.startswith(COUNT) for name in names(size))
    return counted and decider.ask("==", size, 1)


def same_size(a: Size, b: Size) -> bool:
    """Whether two sizes are equal, asking `decide` where it is open."""
    known = compare(a, b)
    return decide("==", a, b) if known is None else known


def same_shape(a: Shape, b: Shape) -> bool:
    """Whether two shapes are equal."""
    return len(a) == len(b) and all(map(same_size, a, b))


def shape_text(shape: Shape) -> str:
    """A shape as NumPy prints it."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def broadcast_shapes(*shapes: Shape) -> Shape:
    """NumPy's broadcasting rule.

    Raises:
        ShapeError: if the shapes do not broadcast.
    """
    if shapes and shapes.count(shapes[0]) == len(shapes):
        return shapes[0]
    rank = max(map(len, shapes), default=0)
    result: list[Size] = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            have = result[axis]
            if have is size or have == size or size == 1:
                continue
            if have == 1:
                result[axis] = size
            elif not same_size(have, size):
                named = " and ".join(map(shape_text, shapes))
                raise ShapeError(
                    f"operands of shapes {named} do not broadcast together",
                    fix="make the trailing axes equal, or 1, with reshape or [:, None]",
                )
    return tuple(result)


_WEAK = {"i": int, "f": float, "c": complex}


@lru_cache(maxsize=4096)
def ufunc_dtypes(ufunc: np.ufunc, key: tuple) -> tuple[np.dtype, ...]:
    """Result dtypes of a ufunc; `key` holds a dtype or a Python scalar type each."""
    try:
        resolved = ufunc.resolve_dtypes((*key, *[None] * ufunc.nout))
    except TypeError:
        names = ", ".join(getattr(k, "name", getattr(k, "__name__", "?")) for k in key)
        raise DTypeError(
            f"np.{ufunc.__name__} has no loop for the types ({names})",
            fix="convert the operands with .astype(...)",
        ) from None
    return resolved[ufunc.nin :]


def _dtype_key(t: ArrayType) -> Any:
    return _WEAK[t.dtype.kind] if t.weak else t.dtype


def elementwise(ufunc: np.ufunc, python: bool = False) -> Callable[..., Any]:
    """Inference of a broadcasting ufunc.

    Args:
        ufunc: gives the dtypes.
        python: True for an op that Python's operators record, so that Python scalars
            alone give a Python scalar (a weak result).
    """

    def infer(*types: ArrayType, **attrs: Any) -> Any:
        if all(t.weak for t in types):
            key = tuple([t.dtype for t in types])
            if python:
                dtype = ufunc_dtypes(ufunc, key)[0]
                return ArrayType((), dtype, weak=dtype.kind in _WEAK)
        else:
            key = tuple([_dtype_key(t) for t in types])
        dtypes = ufunc_dtypes(ufunc, key)
        shape = broadcast_shapes(*[t.shape for t in types])
        made = tuple([ArrayType(shape, d) for d in dtypes])
        return made[0] if ufunc.nout == 1 else made

    infer.ufunc = ufunc  # type: ignore[attr-defined]
    return infer


def result_dtype(*types: ArrayType) -> np.dtype:
    """`np.result_type` of values, weak scalars included."""
    if all(t.weak for t in types):
        return np.result_type(*[t.dtype for t in types])
    return _result_dtype(tuple([_dtype_key(t) for t in types]))


@lru_cache(maxsize=4096)
def _result_dtype(keys: tuple) -> np.dtype:
    return np.result_type(*[k(0) if isinstance(k, type) else k for k in keys])


def like_first(t: ArrayType, *_: ArrayType, **attrs: Any) -> ArrayType:
    """The type of the first argument (never weak)."""
    return t.strong


def normal_axis(axis: int, ndim: int) -> int:
    """One axis as a non-negative int.

    Raises:
        ShapeError: if it is out of range.
    """
    axis = int(axis)
    if not -ndim <= axis < ndim:
        raise ShapeError(
            f"axis {axis} is out of bounds for an array with {ndim} axes",
            fix=f"use an axis from {-ndim} to {ndim - 1}" if ndim else "drop the axis",
        )
    return axis % ndim


def normal_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """`None`, an int or a tuple as a tuple of non-negative ints, in the user's order.

    Raises:
        ShapeError: if one is out of range or repeated.
    """
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, tuple | list) else (axis,)
    axes = tuple([normal_axis(a, ndim) for a in given])
    if len(set(axes)) < len(axes):
        raise ShapeError(f"axis {tuple(given)} names an axis twice")
    return axes


def canonical_axis(axis: Any, ndim: int) -> Any:
    """The axes of a reduction: None for all, an int for one, else a sorted tuple.

    Raises:
        ShapeError: if one is out of range or repeated.
    """
    if axis is None or (ndim == 0 and axis in (0, -1)):
        return None
    axes = tuple(sorted(normal_axes(axis, ndim)))
    if len(axes) == ndim:
        return None
    return axes[0] if len(axes) == 1 else axes


def reduced_shape(shape: Shape, axis: Any, keepdims: bool) -> Shape:
    """Shape after a reduction over `axis` (None, an int or a tuple)."""
    axes = set(normal_axes(axis, len(shape)))
    if keepdims:
        return tuple([1 if i in axes else s for i, s in enumerate(shape)])
    return tuple([s for i, s in enumerate(shape) if i not in axes])


def refuse(function: str, fix: str | None = None, **arguments: Any) -> None:
    """Refuse each keyword argument that the user gave and no op supports.

    Args:
        function: as the user writes it, `np.sum`.
        fix: one thing to do, if it is not to drop the argument.
        **arguments: name and value; `None` and `np._NoValue` count as not given.

    Raises:
        ArgumentError: if one was given.

    Example:
        >>> refuse("np.sum", out=None)
    """
    for name, value in arguments.items():
        if value is not None and value is not np._NoValue:
            raise ArgumentError(
                f"{function}({name}=...) is not supported",
                op=function,
                fix=fix or f"leave out {name}=",
            )


def same_type_input(node: Node) -> Value | None:
    """An input with the output's type by the nature of the op, not by chance.

    What reads the type of the output alone can read that input's instead.
    """
    if getattr(node.op.infer, "ufunc", None) is None:
        return None
    for v in node.inputs:
        if not isinstance(v, Const) and v.type == node.outputs[0].type:
            return v
    return None
