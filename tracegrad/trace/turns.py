"""What a loop runs over, read by the number of the turn.

A loop that is left early is a `while` over such numbers (see `spelling.py`).  While the
number is Python's own all is as in a `for`: one thing is taken at a time, in order.  A
number that is traced stands for any turn, so what is read by it must be an array, a
`range`, or made of these.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad.trace.allowed import Refused, check_iterable
from tracegrad.trace.buffers import DEPTH, Handle
from tracegrad.trace.proxy import make
from tracegrad.trace.session import ACTIVE


class Turns:
    """Turns of a loop: anything that can be run over, one after another.

    Attributes:
        plain: makes what the user wrote, of turns that `turns_of` made.
    """

    plain: Callable[[], Any]

    def __init__(self, iterable: Any) -> None:
        if DEPTH.arms:
            check_iterable(iterable)
        self.over = type(iterable).__name__
        self.rest = iter(iterable)
        self.taken: list[Any] = []

    def takes(self, turn: Any) -> bool:
        """Whether to ask for this turn takes something from an iterator."""
        return not isinstance(turn, Handle) and len(self.taken) <= turn

    def has(self, turn: Any) -> Any:
        """Whether there is a turn of this number."""
        number = self._plain(turn)
        while len(self.taken) <= number:
            if DEPTH.arms:
                raise Refused(f"it runs over a {self.over}")
            try:
                self.taken.append(next(self.rest))
            except StopIteration:
                return False
        return True

    def count(self) -> int | None:
        """The number of turns, where that is known before."""
        return None

    def at(self, turn: Any) -> Any:
        """What that turn is for, once `has` was asked."""
        return self.taken[self._plain(turn)]

    def _plain(self, turn: Any) -> int:
        if isinstance(turn, Handle):
            raise Refused(f"it runs over a {self.over}")
        return turn


class Numbers(Turns):
    """Those of a `range`."""

    def takes(self, turn: Any) -> bool:
        """Nothing is used up."""
        return False

    def __init__(self, numbers: range) -> None:
        self.numbers = numbers

    def has(self, turn: Any) -> Any:
        """Whether there is a turn of this number."""
        return turn < len(self.numbers)

    def count(self) -> int | None:
        """The number of turns."""
        return len(self.numbers)

    def at(self, turn: Any) -> Any:
        """The number that the turn is for."""
        if not isinstance(turn, Handle):
            return self.numbers[turn]
        start, step = self.numbers.start, self.numbers.step
        scaled = turn if step == 1 else step * turn
        return scaled if start == 0 else start + scaled


class Rows(Turns):
    """Rows or elements of an array."""

    def takes(self, turn: Any) -> bool:
        """Nothing is used up."""
        return False

    def __init__(self, array: Any) -> None:
        self.array = array

    def has(self, turn: Any) -> Any:
        """Whether there is a row of this number."""
        if isinstance(turn, Handle):
            return turn < self.array.shape[0]
        return turn < len(self.array)

    def count(self) -> int | None:
        """The number of rows, None for a symbolic one."""
        size = self.array.shape[0]
        return size if type(size) is int else None

    def at(self, turn: Any) -> Any:
        """The row."""
        session = ACTIVE.session
        if isinstance(turn, Handle) and not isinstance(self.array, Handle) and session:
            return make(session.constant(self.array), session)[turn]
        return self.array[turn]


class Together(Turns):
    """Those of several things at once, as of `zip`."""

    def takes(self, turn: Any) -> bool:
        """Whether one of them does."""
        return any(part.takes(turn) for part in self.parts)

    def __init__(self, parts: Sequence[Turns]) -> None:
        self.parts = parts

    def has(self, turn: Any) -> Any:
        """Whether all have a turn of this number."""
        tests: list[Any] = []
        for part in self.parts:
            found = part.has(turn)
            if isinstance(found, Handle):
                tests.append(found)
            elif not found:
                return False
        return functools.reduce(np.logical_and, tests) if tests else bool(self.parts)

    def at(self, turn: Any) -> Any:
        """What each has for the turn."""
        return tuple([part.at(turn) for part in self.parts])


class Numbered(Turns):
    """Turns with their numbers, as of `enumerate`."""

    def takes(self, turn: Any) -> bool:
        """Whether what is numbered does."""
        return self.part.takes(turn)

    def __init__(self, part: Turns, start: int = 0) -> None:
        self.part, self.start = part, start

    def has(self, turn: Any) -> Any:
        """Whether there is a turn of this number."""
        return self.part.has(turn)

    def count(self) -> int | None:
        """As many as what is numbered."""
        return self.part.count()

    def at(self, turn: Any) -> Any:
        """The number and what the turn is for."""
        number = turn if self.start == 0 else self.start + turn
        return number, self.part.at(turn)


def turns_over(iterable: Any) -> Turns:
    """The turns of a loop over something."""
    if isinstance(iterable, Turns):
        return iterable
    if type(iterable) is range:
        return Numbers(iterable)
    if isinstance(iterable, Handle) and iterable.shape:
        return Rows(iterable)
    if type(iterable) is np.ndarray and iterable.ndim and iterable.dtype != object:
        return Rows(iterable)
    return Turns(iterable)


def turns_of(
    function: Callable, call: Callable, args: Sequence[Any], named: dict[str, Any]
) -> Turns:
    """The turns of a loop over what a function gives.

    Args:
        function: as the user named it.
        call: what to call for it.
        args: of the call.
        named: its keyword arguments.
    """
    made: Turns | None = None
    if function is zip and args:
        parts = [turns_over(x) for x in args]
        counts = {part.count() for part in parts}
        alike = len(counts) == 1 and None not in counts
        if not named or named == {"strict": False} or alike:
            made = Together(parts)
    elif function is enumerate and args:
        start = (*args[1:], *named.values()) or (0,)
        if len(start) == 1 and named.keys() <= {"start"} and type(start[0]) is int:
            made = Numbered(turns_over(args[0]), start[0])
    if made is not None:
        made.plain = functools.partial(_called, call, args, named)
        return made
    iterable = _called(call, args, named)
    made = turns_over(iterable)
    made.plain = lambda: iterable
    return made


def _called(call: Callable, args: Sequence[Any], named: dict[str, Any]) -> Any:
    return call(*[x.plain() if isinstance(x, Turns) else x for x in args], **named)
