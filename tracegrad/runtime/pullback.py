"""The functions that `tg.vjp` and `tg.linearize` return: they check what they take.

The emitted functions would broadcast a cotangent or a tangent of a wrong shape without
a word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracegrad.codegen.source import Source
from tracegrad.errors import ArgumentError, DTypeError, ShapeError, TracegradError
from tracegrad.ir.tree import Branch, Leaf, Static, Tree, build, outline
from tracegrad.ops.infer import shape_text
from tracegrad.runtime.binding import Binder, step_text
from tracegrad.runtime.origin import name_origin

SourceOf = Callable[[], Source]
_NUMBERS = (bool, int, float, complex)


@dataclass(frozen=True, slots=True)
class _Words:
    """What errors call things: a cotangent is of the result, a tangent of a primal."""

    given: str
    like: str
    op: str


_PULLBACK = _Words("cotangent", "result", "pullback")
_PUSHFORWARD = _Words("tangent", "primal", "pushforward")


class CheckedPullback:
    """Takes cotangents of the structure, shapes and dtypes of one result."""

    __slots__ = ("_binder", "_function", "_like", "_source")

    def __init__(
        self, function: Callable, out: Any, source: SourceOf, binder: Binder
    ) -> None:
        """Wrap the emitted function.

        Args:
            function: it.
            out: what cotangents must be like.
            source: gives the source of the program that made the function.
            binder: of the user's function, for errors.
        """
        self._function = function
        self._like = build(out, _like)
        self._source = source
        self._binder = binder

    def source(self) -> Source:
        """The program: the forward pass, and in it the pullback as a function."""
        return self._source()

    def __call__(self, ct: Any) -> tuple:
        """One cotangent per primal.

        Raises:
            ShapeError: a cotangent has another shape than its result.
            DTypeError: it can't be cast to the dtype of its result.
            ArgumentError: it has another structure.
        """
        try:
            given = conform(self._like, ct, "ct", _PULLBACK)
        except TracegradError as error:
            raise error.locate(at=self._binder.at) from None
        try:
            return self._function(given)
        except Exception as error:
            name_origin(error)
            raise

    def __repr__(self) -> str:
        return "<pullback>"


class CheckedPushforward:
    """Takes tangents of the structures, shapes and dtypes of the primals."""

    __slots__ = ("_binder", "_function", "_likes", "_source")

    def __init__(
        self,
        function: Callable,
        primals: Sequence[Any],
        source: SourceOf,
        binder: Binder,
    ) -> None:
        """Wrap the emitted function; see `CheckedPullback`."""
        self._function = function
        self._likes = [build(x, _like) for x in primals]
        self._source = source
        self._binder = binder

    def source(self) -> Source:
        """The program: the forward pass, and in it the derivative as a function."""
        return self._source()

    def __call__(self, *tangents: Any) -> Any:
        """The tangent of the result.

        Raises:
            ShapeError: a tangent has another shape than its primal.
            DTypeError: it can't be cast to the dtype of its primal.
            ArgumentError: it has another structure, or their number is another.
        """
        try:
            moved = self._checked(tangents)
        except TracegradError as error:
            raise error.locate(at=self._binder.at) from None
        try:
            return self._function(*moved)
        except Exception as error:
            name_origin(error)
            raise

    def _checked(self, tangents: tuple) -> list[Any]:
        if len(tangents) != len(self._likes):
            raise ArgumentError(
                f"{len(self._likes)} primals and {len(tangents)} tangents",
                op=_PUSHFORWARD.op,
                fix="pass one tangent for each primal",
            )
        return [
            conform(like, t, f"tangents[{i}]", _PUSHFORWARD)
            for i, (like, t) in enumerate(zip(self._likes, tangents, strict=True))
        ]

    def __repr__(self) -> str:
        return "<pushforward>"


def _like(x: Any) -> Leaf | Static:
    if type(x) in _NUMBERS:
        return Leaf(((), np.asarray(x).dtype))
    if hasattr(x, "dtype") and hasattr(x, "shape"):
        return Leaf((x.shape, x.dtype))
    return Static(x)


def conform(like: Tree, ct: Any, where: str, words: _Words = _PULLBACK) -> Any:
    """A cotangent with the dtypes of the result, or a tangent with a primal's.

    Args:
        like: structure of the result; leaves hold `(shape, dtype)`.
        ct: the cotangent.
        where: how the user would write it.
        words: for errors.
    """
    if isinstance(like, Leaf):
        shape, dtype = like.value
        return _conform_leaf(shape, dtype, ct, where, words)
    if isinstance(like, Static):
        return like.value
    level = build(ct, Leaf)
    if not isinstance(level, Branch) or (level.type, level.keys) != (
        like.type,
        like.keys,
    ):
        raise ArgumentError(
            f"the {words.given} `{where}` is {outline(level)}, the {words.like} "
            f"{outline(like)}",
            op=words.op,
            fix=f"pass a {words.given} in the structure of the {words.like}",
        )
    if like.kind == "custom":
        parts = [_restored(c) for c in level.children]
    elif like.kind in ("namedtuple", "dataclass"):
        parts = [getattr(ct, key) for key in like.keys]
    else:
        parts = [ct[key] for key in like.keys]
    return like.rebuild(
        [
            conform(child, part, where + step_text(like.kind, key), words)
            for child, part, key in zip(like.children, parts, like.keys, strict=True)
        ]
    )


def _restored(tree: Tree) -> Any:
    if isinstance(tree, Branch):
        return tree.rebuild([_restored(c) for c in tree.children])
    return tree.value


def _conform_leaf(
    shape: tuple, dtype: np.dtype, ct: Any, where: str, words: _Words
) -> Any:
    if type(ct) is np.ndarray and ct.dtype == dtype and ct.shape == shape:
        return ct
    if not hasattr(ct, "dtype"):
        if isinstance(ct, list | tuple | dict) or type(ct) not in _NUMBERS:
            raise ArgumentError(
                f"the {words.given} `{where}` must be an array of shape "
                f"{shape_text(shape)}, not {type(ct).__name__}: {ct!r:.40}",
                op=words.op,
                fix=f"pass an array of the {words.like}'s shape, such as "
                "np.ones(shape)",
            )
        ct = np.asarray(ct)[()]
    if ct.shape != shape:
        raise ShapeError(
            f"the {words.given} `{where}` has the shape {shape_text(ct.shape)}, the "
            f"{words.like} {shape_text(shape)}",
            op=words.op,
            fix=f"pass a {words.given} of the {words.like}'s shape",
        )
    if dtype.kind not in "fc":
        return ct  # the result has no derivative, and nobody reads this
    if not np.can_cast(ct.dtype, dtype, "same_kind"):
        raise DTypeError(
            f"the {words.given} `{where}` has the dtype {ct.dtype}, the {words.like} "
            f"{dtype}",
            op=words.op,
            fix=f"pass a real {words.given} for a real {words.like}",
        )
    return ct if ct.dtype == dtype else ct.astype(dtype)
