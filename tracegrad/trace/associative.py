"""`tg.associative_scan`: running results of an associative function.

A composition of slices: neighbours are joined in pairs, the scan of the pairs is the
same problem with half the rows, and gives every second result; one more call gives the
others.  So `fn` is called about 2 log2(n) times, on many rows at once.

Blelloch, "Prefix sums and their applications" (1990).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError, TracegradError
from tracegrad.ir.tree import Leaf, Static, Tree, build, leaves, map_leaves
from tracegrad.ir.tree import restore as restore_tree
from tracegrad.ops.define import ACCEPT
from tracegrad.ops.record import Ref
from tracegrad.trace.bodies import refused, same_structure, tree_of, user_value
from tracegrad.trace.proxy import make
from tracegrad.trace.session import ACTIVE

_OP = "tg.associative_scan"


def associative_scan(
    fn: Callable, elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """Running results of an associative function: `fn(…fn(fn(x0, x1), x2)…)`.

    Args:
        fn: `(a, b) -> c` of structures like `elems`.  It gets many elements at once,
            along `axis`, as slices of equal length, and keeps their shapes and dtypes.
            It must be associative: `fn(a, fn(b, c))` equals `fn(fn(a, b), c)`.
        elems: an array or a structure of arrays, of one size along `axis`.  The size is
            static in a traced function.
        reverse: whether to run from the last element to the first.  `fn` then gets the
            later element first.
        axis: the axis of all arrays along which to run.

    Returns:
        The structure of `elems`, with the results for the first element, the first two,
        and so on.

    Raises:
        ShapeError: there is no such axis, sizes differ, or `fn` changes a shape.
        ArgumentError: `elems` holds no array, or `fn` changes the structure.

    Example:
        >>> associative_scan(np.multiply, np.array([1.0, 2.0, 3.0, 4.0])).tolist()
        [1.0, 2.0, 6.0, 24.0]
    """
    session = ACTIVE.session
    if session is None:
        tree = build(elems, lambda x: Static(x) if x is None else Leaf(np.asarray(x)))
    else:
        # Handles, so that slices below are recorded.
        handles = user_value(tree_of(elems, session), session)
        tree = build(handles, lambda x: Static(x) if x is None else Leaf(x))
    rows = [leaf.value for leaf in leaves(tree)]
    position = operator.index(axis)
    count = _count(rows, position)
    if reverse:
        rows = [_cut(x, position, slice(None, None, -1)) for x in rows]
    out = _Scan(fn, tree, position).run(rows, count)
    if reverse:
        out = [_cut(x, position, slice(None, None, -1)) for x in out]
    return _filled(tree, out)


def _located(error: TracegradError) -> TracegradError:
    session = ACTIVE.session
    return error.locate(_OP) if session is None else refused(session, error, _OP)


def _count(rows: list, axis: int) -> int:
    """The number of elements along the axis; makes it static.

    Raises:
        ArgumentError, ShapeError: as above.
    """
    if not rows:
        raise _located(
            ArgumentError("there is no array to scan", fix="pass an array as elems")
        )
    for x in rows:
        if not -x.ndim <= axis < x.ndim:
            error = ShapeError(
                f"axis {axis} is not one of an array with {x.ndim} axes",
                fix="pass an axis that all arrays have",
            )
            raise _located(error)
    counts = [operator.index(x.shape[axis]) for x in rows]
    if len(set(counts)) > 1:
        error = ShapeError(
            f"arrays of the sizes {', '.join(map(str, counts))} along axis {axis}",
            fix="give arrays with one size along the axis",
        )
        raise _located(error)
    return counts[0]


def _cut(x: Any, axis: int, part: slice) -> Any:
    lead = axis % x.ndim
    return x[(slice(None),) * lead + (part,)]


def _filled(tree: Tree, rows: list) -> Any:
    given = iter(rows)
    return restore_tree(map_leaves(tree, lambda _: next(given)), lambda x: x)


class _Scan:
    """The recursion, on lists of arrays."""

    def __init__(self, fn: Callable, tree: Tree, axis: int) -> None:
        self.fn = fn
        self.tree = tree
        self.axis = axis

    def _slices(self, rows: list, *parts: int | None) -> list:
        return [_cut(x, self.axis, slice(*parts)) for x in rows]

    def run(self, rows: list, count: int) -> list:
        """The running results of `count` elements."""
        if count < 2:
            return rows
        even = count % 2 == 0
        last = count if even else count - 1
        left, right = self._slices(rows, 0, last, 2), self._slices(rows, 1, None, 2)
        odd = self.run(self._join(left, right), count // 2)
        parts = [(slice(0, 1), self._slices(rows, 0, 1)), (slice(1, None, 2), odd)]
        if count > 2:
            before = self._slices(odd, 0, -1) if even else odd
            rest = self._join(before, self._slices(rows, 2, None, 2))
            parts.append((slice(2, None, 2), rest))
        return [self._put(tuple(x.shape), parts, k) for k, x in enumerate(rows)]

    def _join(self, a: list, b: list) -> list:
        """`fn` of two structures.

        Raises:
            ShapeError: it changes a shape.
            ArgumentError: or the structure.
        """
        out = self.fn(_filled(self.tree, a), _filled(self.tree, b))
        tree = build(out, lambda x: Static(x) if x is None else Leaf(x))
        if not same_structure(self.tree, tree):
            error = ArgumentError(
                "the function returns another structure than that of elems",
                fix="return the same containers with the same keys",
            )
            raise _located(error)
        made = [leaf.value for leaf in leaves(tree)]
        for x, y in zip(a, made, strict=True):
            if tuple(x.shape) != tuple(np.shape(y)):
                changed = ShapeError(
                    f"the function makes the shape {np.shape(y)} of {tuple(x.shape)}",
                    fix="keep the shapes: the function gets many elements at once",
                )
                raise _located(changed)
        return made

    def _put(self, shape: tuple, parts: list, k: int) -> Any:
        """Array `k` of the results, from (where, arrays) of its parts."""
        lead = self.axis % len(shape)
        made = ACCEPT[np.zeros](shape, dtype=parts[1][1][k].dtype)
        if isinstance(made, Ref) and ACTIVE.session is not None:
            made.value.hint = "running"
            made = make(made.value, ACTIVE.session)
        for where, arrays in parts:
            made[(slice(None),) * lead + (where,)] = arrays[k]
        return made
