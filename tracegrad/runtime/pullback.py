"""The function that `tg.vjp` returns: cotangents are checked, then pulled back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, DTypeError, ShapeError
from tracegrad.ir.tree import Branch, Leaf, Static, Tree, build
from tracegrad.ops.infer import shape_text
from tracegrad.runtime.binding import step_text

_NUMBERS = (bool, int, float, complex)


class CheckedPullback:
    """Takes cotangents of the structure, shapes and dtypes of one result.

    The emitted function would broadcast a cotangent of a wrong shape without a word.
    """

    __slots__ = ("_function", "_like")

    def __init__(self, function: Callable, like: Tree) -> None:
        self._function = function
        self._like = like

    @classmethod
    def of(cls, out: Any, function: Callable) -> CheckedPullback:
        """The pullback whose cotangents are like `out`."""
        return cls(function, build(out, _like))

    def __call__(self, ct: Any) -> tuple:
        """One cotangent per primal.

        Raises:
            ShapeError: a cotangent has another shape than its result.
            DTypeError: it can't be cast to the dtype of its result.
            ArgumentError: it has another structure.
        """
        return self._function(conform(self._like, ct, "ct"))

    def __repr__(self) -> str:
        return "<pullback>"


def _like(x: Any) -> Leaf | Static:
    if type(x) in _NUMBERS:
        return Leaf(((), np.asarray(x).dtype))
    if hasattr(x, "dtype") and hasattr(x, "shape"):
        return Leaf((x.shape, x.dtype))
    return Static(x)


def conform(like: Tree, ct: Any, where: str) -> Any:
    """A cotangent with the dtypes of the result.

    Args:
        like: structure of the result; leaves hold `(shape, dtype)`.
        ct: the cotangent.
        where: how the user would write it.
    """
    if isinstance(like, Leaf):
        shape, dtype = like.value
        return _conform_leaf(shape, dtype, ct, where)
    if isinstance(like, Static):
        return like.value
    level = build(ct, Leaf)
    if not isinstance(level, Branch) or (level.type, level.keys) != (
        like.type,
        like.keys,
    ):
        raise ArgumentError(
            f"the cotangent `{where}` must be a {like.type.__name__} with "
            f"{', '.join(map(repr, like.keys))}, as the result is, not {ct!r:.60}",
            op="pullback",
            fix="pass a cotangent in the structure of the result",
        )
    if like.kind == "custom":
        parts = [_restored(c) for c in level.children]
    elif like.kind in ("namedtuple", "dataclass"):
        parts = [getattr(ct, key) for key in like.keys]
    else:
        parts = [ct[key] for key in like.keys]
    return like.rebuild(
        [
            conform(child, part, where + step_text(like.kind, key))
            for child, part, key in zip(like.children, parts, like.keys, strict=True)
        ]
    )


def _restored(tree: Tree) -> Any:
    if isinstance(tree, Branch):
        return tree.rebuild([_restored(c) for c in tree.children])
    return tree.value


def _conform_leaf(shape: tuple, dtype: np.dtype, ct: Any, where: str) -> Any:
    if type(ct) is np.ndarray and ct.dtype == dtype and ct.shape == shape:
        return ct
    if not hasattr(ct, "dtype"):
        if isinstance(ct, list | tuple | dict) or type(ct) not in _NUMBERS:
            raise ArgumentError(
                f"the cotangent `{where}` must be an array of shape "
                f"{shape_text(shape)}, not {type(ct).__name__}: {ct!r:.40}",
                op="pullback",
                fix="pass an array of the result's shape, such as np.ones(shape)",
            )
        ct = np.asarray(ct)[()]
    if ct.shape != shape:
        raise ShapeError(
            f"the cotangent `{where}` has the shape {shape_text(ct.shape)}, the "
            f"result {shape_text(shape)}",
            op="pullback",
            fix="pass a cotangent of the result's shape",
        )
    if dtype.kind not in "fc":
        return ct  # the result has no derivative, and nobody reads this
    if not np.can_cast(ct.dtype, dtype, "same_kind"):
        raise DTypeError(
            f"the cotangent `{where}` has the dtype {ct.dtype}, the result {dtype}",
            op="pullback",
            fix="pass a real cotangent for a real result",
        )
    return ct if ct.dtype == dtype else ct.astype(dtype)
