"""The size of a symbolic axis, as the user's code sees it.

It stands in for an `int`.  Arithmetic that stays an integer polynomial gives a size
again; other arithmetic makes it a number in the graph.  Comparisons are decided from
the sizes alone where that is possible, else by the call's values, which records a fact;
where C code needs a plain int, the axis becomes static.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.errors import ControlFlowError
from tracegrad.ir import dims
from tracegrad.ir.types import Dim
from tracegrad.ops.create import dim
from tracegrad.trace.buffers import DEPTH
from tracegrad.trace.session import ACTIVE, Restart, Session, leaked


def user_size(size: int | Dim, session: Session) -> int | Size:
    """A size of the IR as the user sees it."""
    return Size(size, session) if isinstance(size, Dim) else size


def user_shape(shape: tuple, session: Session) -> tuple:
    """A shape of the IR as the user sees it."""
    for size in shape:
        if type(size) is not int:
            return tuple([user_size(s, session) for s in shape])
    return shape


def _plain(x: Any) -> int | Dim | None:
    """An int or a size as the IR has it; None for anything else."""
    kind = type(x)
    if kind is int or kind is bool:
        return int(x)
    if kind is Size:
        return x.dim
    return int(x) if isinstance(x, np.integer) else None


def _structural(function: Callable, swapped: bool = False) -> Callable:
    """An operator under which sizes are closed."""

    def method(self: Size, other: Any) -> Any:
        plain = _plain(other)
        if plain is None:
            a, b = (other, self.number()) if swapped else (self.number(), other)
            return function(a, b)
        a, b = (plain, self.dim) if swapped else (self.dim, plain)
        if function is operator.floordiv:
            return user_size(dims.floordiv(a, b), self.session)
        if function is operator.mod:
            return user_size(dims.mod(a, b), self.session)
        return user_size(function(a, b), self.session)

    return method


def _numeric(function: Callable, swapped: bool = False) -> Callable:
    """An operator whose result is no size."""

    def method(self: Size, other: Any) -> Any:
        if type(other) is Size:
            other = other.number()
        number = self.number()
        return function(other, number) if swapped else function(number, other)

    return method


def _compared(function: Callable, decide: Callable) -> Callable:
    def method(self: Size, other: Any) -> Any:
        plain = _plain(other)
        if plain is None:
            if isinstance(other, float | np.floating | np.ndarray):
                return function(self.number(), other)
            return NotImplemented
        return decide(self, plain)

    return method


class Size:
    """A symbolic size in the user's code.

    Attributes:
        dim: the polynomial.
        session: the trace that it belongs to.
    """

    __slots__ = ("dim", "session")

    def __init__(self, dim: Dim, session: Session) -> None:
        self.dim = dim
        self.session = session

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        # isinstance(n, int) holds, as for any size.
        return int

    def __repr__(self) -> str:
        return str(self._in_text())

    def __format__(self, spec: str) -> str:
        return format(self._in_text(), spec)

    def __hash__(self) -> int:
        # What is found in a dict or a set depends on the number.
        return hash(self.__index__())

    def _in_text(self) -> int | str:
        """The number that a text is made of; the name where there is no number."""
        session = self.session
        if ACTIVE.session is not session or session.values is None or DEPTH.bodies:
            return str(self.dim)
        return self.__index__()

    def number(self) -> Any:
        """The size as a number in the graph."""
        session = self.session
        if ACTIVE.session is not session:
            raise leaked(session)
        session.locate()
        made = session.builder.record(dim, (), {"size": self.dim})
        return session.array(made.value, session)

    # ------------------------------------------------------------------ arithmetic
    __add__ = _structural(operator.add)
    __radd__ = _structural(operator.add, swapped=True)
    __sub__ = _structural(operator.sub)
    __rsub__ = _structural(operator.sub, swapped=True)
    __mul__ = _structural(operator.mul)
    __rmul__ = _structural(operator.mul, swapped=True)
    __floordiv__ = _structural(operator.floordiv)
    __rfloordiv__ = _structural(operator.floordiv, swapped=True)
    __mod__ = _structural(operator.mod)
    __rmod__ = _structural(operator.mod, swapped=True)
    __truediv__ = _numeric(operator.truediv)
    __rtruediv__ = _numeric(operator.truediv, swapped=True)
    __rpow__ = _numeric(operator.pow, swapped=True)

    def __pow__(self, power: Any) -> Any:
        if type(power) is int and power >= 0:
            return user_size(self.dim**power, self.session)
        return _numeric(operator.pow)(self, power)

    def __divmod__(self, other: Any) -> tuple:
        return self // other, self % other

    def __neg__(self) -> Any:
        return user_size(-self.dim, self.session)

    def __pos__(self) -> Size:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    # ----------------------------------------------------------------- comparisons
    def _equals(self, other: int | Dim) -> bool:
        known = dims.compare(self.dim, other)
        return self._ask("==", self.dim, other) if known is None else known

    def _at_least(self, other: int | Dim) -> bool:
        known = dims.at_least(self.dim, other)
        return self._ask(">=", self.dim, other) if known is None else known

    def _ask(self, relation: str, left: Any, right: Any) -> bool:
        if ACTIVE.session is not self.session:
            raise leaked(self.session)
        return self.session.decide(relation, left, right)

    __eq__ = _compared(operator.eq, lambda s, o: s._equals(o))
    __ne__ = _compared(operator.ne, lambda s, o: not s._equals(o))
    __ge__ = _compared(operator.ge, lambda s, o: s._at_least(o))
    __lt__ = _compared(operator.lt, lambda s, o: not s._at_least(o))
    __gt__ = _compared(operator.gt, lambda s, o: s._at_least(o + 1))
    __le__ = _compared(operator.le, lambda s, o: not s._at_least(o + 1))

    def __bool__(self) -> bool:
        return not self._equals(0)

    # ----------------------------------------------------------------- a plain int
    def __index__(self) -> int:
        session = self.session
        if ACTIVE.session is not session:
            raise leaked(session)
        if session.values is None:
            raise ControlFlowError(
                f"the symbolic size {self.dim} has no value, and range(), int() or a "
                "list needs one",
                at=session.place(),
                fix="give the axis a number in tg.spec",
            )
        if session.is_counted(self.dim):
            number: int = self.number().__index__()
            return number
        raise Restart(static_axes=session.axes_of(self.dim))

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.__index__())

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any
    ) -> Any:
        operands = [x.number() if type(x) is Size else x for x in inputs]
        return getattr(ufunc, method)(*operands, **kwargs)
