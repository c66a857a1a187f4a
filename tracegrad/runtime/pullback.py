"""The functions that `tg.vjp` and `tg.linearize` return: they check what they take.

The emitted functions would broadcast a cotangent or a tangent of a wrong shape without
a word.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracegrad.codegen.names import identifier
from tracegrad.codegen.source import Source
from tracegrad.errors import ArgumentError, DTypeError, ShapeError, TracegradError
from tracegrad.ir.tree import Branch, Leaf, Static, Tree, build, leaves, outline
from tracegrad.ops.infer import shape_text
from tracegrad.runtime.binding import Binder, step_text
from tracegrad.runtime.origin import name_origin
from tracegrad.trace.tracer import active, is_traced

_NUMBERS = (bool, int, float, complex)


@dataclass(frozen=True, slots=True)
class _Words:
    """What errors call things: a cotangent is of the result, a tangent of a primal."""

    given: str
    like: str
    op: str


_PULLBACK = _Words("cotangent", "result", "pullback")
_PUSHFORWARD = _Words("tangent", "primal", "pushforward")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an emitted derivative comes from.

    Attributes:
        made: the compiled function that made it.
        primals: where.
        again: makes the derivative once more, in the trace that is running.
    """

    made: Any
    primals: tuple
    again: Callable[[], Callable]

    def holds_for(self, function: Callable) -> bool:
        """Whether the program of `function` is still that of the primals.

        What the user's function closes over may have changed since.
        """
        space = getattr(function, "__globals__", None)
        for program in self.made.specializations():
            if space is getattr(vars(program).get("run"), "__globals__", self):
                return program.matches(*self.primals) is True
        return False


class _Checked:
    """An emitted derivative of the user's function at some primals.

    In a trace it is recorded with the operations of that function, as if it had been
    taken there.  Where these are other ones by now, the emitted code is traced.
    """

    __slots__ = ("__name__", "__signature__", "_binder", "_function", "_origin")
    _kind, _takes = "", ""

    def __init__(self, function: Callable, origin: Origin, binder: Binder) -> None:
        self._function = function
        self._origin = origin
        self._binder = binder
        self.__name__ = f"{binder.name}_{self._kind}"
        self.__signature__ = inspect.Signature(self._parameters())

    def _parameters(self) -> list[inspect.Parameter]:
        raise NotImplementedError

    @property
    def __wrapped__(self) -> Callable:
        """The user's function, which has the place that errors name."""
        return self._binder.function

    def _apply(self, given: Sequence[Any]) -> Any:
        """What the derivative makes of arguments that were checked."""
        function = self._function
        if active() and any(map(_is_traced, given)):
            if self._origin.holds_for(function):
                function = self._origin.again()
        try:
            return function(*given)
        except Exception as error:
            name_origin(error)
            raise

    def source(self) -> Source:
        """The program: the forward pass, and in it the derivative as a function."""
        return self._origin.made.source(*self._origin.primals)

    def __repr__(self) -> str:
        return f"<{self._kind}>"


def _is_traced(x: Any) -> bool:
    return any(is_traced(leaf.value) for leaf in leaves(build(x, Leaf)))


class CheckedPullback(_Checked):
    """Takes cotangents of the structure, shapes and dtypes of one result."""

    __slots__ = ("_like",)
    _kind = "pullback"

    def __init__(
        self, function: Callable, out: Any, origin: Origin, binder: Binder
    ) -> None:
        """Wrap the emitted function.

        Args:
            function: it.
            out: what cotangents must be like.
            origin: where the function comes from.
            binder: of the user's function, for errors.
        """
        super().__init__(function, origin, binder)
        self._like = build(out, _like)

    def _parameters(self) -> list[inspect.Parameter]:
        return [inspect.Parameter("d_out", inspect.Parameter.POSITIONAL_OR_KEYWORD)]

    def __call__(self, *cts: Any) -> tuple:
        """One cotangent per primal.

        Raises:
            ShapeError: a cotangent has another shape than its result.
            DTypeError: it can't be cast to the dtype of its result.
            ArgumentError: it has another structure, or there is more than one.
        """
        try:
            given = conform(self._like, one_cotangent(cts), "ct", _PULLBACK)
        except TracegradError as error:
            raise error.locate(at=self._binder.at) from None
        return self._apply([given])


def one_cotangent(cts: tuple) -> Any:
    """The argument of a pullback.

    Raises:
        ArgumentError: there are several, or none.
    """
    if len(cts) != 1:
        raise ArgumentError(
            f"a pullback takes one cotangent in the structure of the result, not "
            f"{len(cts)} arguments",
            op=_PULLBACK.op,
            fix="pass those of a tuple as one tuple: pullback((ct_1, ct_2))",
        )
    return cts[0]


class CheckedPushforward(_Checked):
    """Takes tangents of the structures, shapes and dtypes of the primals."""

    __slots__ = ("_likes",)
    _kind = "pushforward"

    def __init__(self, function: Callable, origin: Origin, binder: Binder) -> None:
        """Wrap the emitted function; see `CheckedPullback`."""
        super().__init__(function, origin, binder)
        self._likes = [build(x, _like) for x in origin.primals]

    def _parameters(self) -> list[inspect.Parameter]:
        slots = self._binder.slots(self._origin.primals, {})
        names = [f"t_{slot.name}" for slot in slots if slot.given]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return [inspect.Parameter(identifier(name), kind) for name in names]

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
        return self._apply(moved)

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
    if ct is None and dtype.kind not in "fc":
        return ct  # of an integer, which has no derivative
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
