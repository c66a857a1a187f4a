"""Symbolic sizes: an axis length is an ``int`` or a ``Dim``.

A ``Dim`` is an interned integer polynomial over the named sizes of a graph, with
``//``, ``%``, ``max`` and ``min`` as further factors. ``==`` on shapes is structural,
cheap, and asks nothing about values. `compare` and `at_least` prove what holds for all
sizes; what they leave open, a caller decides on the call's real values and guards. A
named size is at least 2, and a divisor is taken not to be 0.

    >>> n = named("n")
    >>> (n * 10) // 10 is n, n - 1, (n + 1) // 2
    (True, n - 1, (n + 1) // 2)
    >>> slice_length(None, None, 2, n)
    (n + 1) // 2
"""

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, TypeVar

from tracegrad.ir.polynomial import (
    Dim,
    Size,
    as_size,
    cached,
    divide,
    extreme,
    floor_divide,
    lower_bound,
    modulo,
    product,
    sides,
    split_constant,
    terms_of,
    to_ast,
    upper_bound,
    without_mod,
)

__all__ = [
    "Decide",
    "Dim",
    "DimError",
    "Size",
    "UndecidedSize",
    "at_least",
    "compare",
    "evaluate",
    "exact_div",
    "floordiv",
    "holds",
    "is_static",
    "max_",
    "min_",
    "mod",
    "named",
    "names",
    "normalize_slice",
    "parse",
    "product",
    "slice_length",
    "substitute",
    "to_ast",
]

Decide: TypeAlias = Callable[[str, Size, Size], bool]
_Value = TypeVar("_Value", int, Size)
named = Dim.named


class DimError(Exception):
    """A symbolic size was used in a way that has no answer."""


class UndecidedSize(DimError):
    """A relation between sizes holds for some of their values and not for others.

    Attributes:
        relation: ``"=="`` or ``">="``.
        left, right: the two sizes, every term with a positive sign.
    """

    def __init__(self, relation: str, left: Size, right: Size) -> None:
        super().__init__(relation, left, right)
        self.relation, self.left, self.right = relation, left, right

    def __str__(self) -> str:
        return f"`{self.left} {self.relation} {self.right}` depends on the sizes"


def floordiv(a: Size, b: Size) -> Size:
    """``a // b``."""
    return floor_divide(as_size(a), as_size(b))


def mod(a: Size, b: Size) -> Size:
    """``a % b``."""
    return modulo(as_size(a), as_size(b))


def max_(*sizes: Size) -> Size:
    """The largest of the sizes, without those that another provably dominates."""
    return extreme("max", *map(as_size, sizes))


def min_(*sizes: Size) -> Size:
    """The smallest of the sizes, without those that another provably dominates."""
    return extreme("min", *map(as_size, sizes))


def exact_div(a: Size, b: Size) -> Size | None:
    """The polynomial ``q`` with ``q * b == a``, or None where there is none."""
    a, b = as_size(a), as_size(b)
    if b == 0:
        return None
    quotient, remainder = divide(a, b)
    return quotient if remainder == 0 else None


def is_static(shape: Iterable[Size]) -> bool:
    """Whether every size is a number."""
    return not any(isinstance(size, Dim) for size in shape)


@cached
def names(size: Size) -> tuple[str, ...]:
    """The named sizes in ``size``, sorted."""
    found: set[str] = set()
    for monomial, _ in terms_of(size):
        for atom in monomial:
            if atom.kind == "name":
                found.add(atom.args[0])
            else:
                found.update(*map(names, atom.args))
    return tuple(sorted(found))


def _rebuilt(
    size: Size,
    leaf: Callable[[str], _Value],
    operators: Mapping[str, Callable[..., _Value]],
) -> _Value:
    total: _Value = 0
    for monomial, coefficient in terms_of(size):
        term: _Value = coefficient
        for atom in monomial:
            if atom.kind == "name":
                term = term * leaf(atom.args[0])
            else:
                args = (_rebuilt(arg, leaf, operators) for arg in atom.args)
                term = term * operators[atom.kind](*args)
        total = total + term
    return total


_NUMBERS: Mapping[str, Callable[..., int]] = {
    "//": operator.floordiv,
    "%": operator.mod,
    "max": max,
    "min": min,
}
_SIZES: Mapping[str, Callable[..., Size]] = {
    "//": floordiv,
    "%": mod,
    "max": max_,
    "min": min_,
}


def evaluate(size: Size, env: Mapping[str, int]) -> int:
    """The number that ``size`` is where each named size has its value in ``env``.

    Raises:
        DimError: a named size has no value.
    """

    def leaf(name: str) -> int:
        if name not in env:
            raise DimError(f"`{size}` has no value: the size `{name}` is not given")
        return env[name]

    return _rebuilt(size, leaf, _NUMBERS)


def substitute(size: Size, env: Mapping[str, Size]) -> Size:
    """``size`` with other sizes for some of its named sizes."""
    return _rebuilt(size, lambda name: env.get(name, named(name)), _SIZES)


def compare(a: Size, b: Size) -> bool | None:
    """Whether two sizes are equal: for all sizes, for none, or None if undecided.

    ``n == n + 1`` is False, ``n == m`` and ``2 * (n // 2) == n`` are None.
    """
    if a is b:
        return True
    difference = as_size(a) - as_size(b)
    if type(difference) is int:
        return difference == 0
    low, high = lower_bound(difference), upper_bound(difference)
    if (low is not None and low > 0) or (high is not None and high < 0):
        return False
    variable, constant = split_constant(difference)
    if constant % math.gcd(*(c for _, c in terms_of(variable))):
        return False  # an odd number is not twice a number
    if low == high == 0 or without_mod(difference) == 0:
        return True
    return None


def at_least(a: Size, k: Size) -> bool | None:
    """Whether ``a >= k``: for all sizes, for none, or None if undecided."""
    difference = as_size(a) - as_size(k)
    low = lower_bound(difference)
    if low is not None and low >= 0:
        return True
    high = upper_bound(difference)
    return False if high is not None and high < 0 else None


def holds(relation: str, a: Size, b: Size, decide: Decide | None = None) -> bool:
    """Whether ``a == b`` or ``a >= b``; ``decide`` answers where the proof does not.

    Args:
        relation: ``"=="`` or ``">="``.
        a, b: the sizes.
        decide: is asked ``(relation, left, right)``, moved so that both sides are sums
            of positive terms: ``n >= 3`` for ``n - 3 >= 0``.

    Raises:
        UndecidedSize: there is no ``decide`` and the sizes' values matter.
    """
    known = {"==": compare, ">=": at_least}[relation](a, b)
    if known is not None:
        return known
    left, right = sides(a - b)
    if decide is None:
        raise UndecidedSize(relation, left, right)
    return bool(decide(relation, left, right))


def _slice_bound(
    value: Size, low: int, high: Size, size: Size, decide: Decide | None
) -> Size:
    """A start or stop, counted from the front and clipped to the axis."""
    if not holds(">=", value, 0, decide):
        value = value + size
        return value if holds(">=", value, 0, decide) else low
    return value if holds(">=", high, value, decide) else high


def normalize_slice(
    start: Size | None,
    stop: Size | None,
    step: Size | None,
    size: Size,
    decide: Decide | None = None,
) -> tuple[Size, Size, Size]:
    """``slice(start, stop, step).indices(size)`` for sizes that may be symbolic.

    As there, the stop of a negative step may be -1: the triple is for ``range``.

    Raises:
        ValueError: the step is 0.
        UndecidedSize: clipping depends on the sizes, and there is no ``decide``.
    """
    size, step = as_size(size), 1 if step is None else as_size(step)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    forward = holds(">=", step, 1, decide)
    low, high = (0, size) if forward else (-1, size - 1)
    ends = []
    for value, default in ((start, not forward), (stop, forward)):
        if value is None:
            ends.append(high if default else low)
        else:
            ends.append(_slice_bound(as_size(value), low, high, size, decide))
    return ends[0], ends[1], step


def slice_length(
    start: Size | None,
    stop: Size | None,
    step: Size | None,
    size: Size,
    decide: Decide | None = None,
) -> Size:
    """``len(range(*slice(start, stop, step).indices(size)))``, sizes maybe symbolic.

    ``[1:]`` is ``n - 1`` and ``[::2]`` is ``(n + 1) // 2``. ``[3:]`` depends on whether
    ``n >= 3``: ``decide`` is asked, and the answer is right where its answers are.

    Raises:
        ValueError: the step is 0.
        UndecidedSize: the length depends on the sizes, and there is no ``decide``.
    """
    start, stop, step = normalize_slice(start, stop, step, size, decide)
    if not holds(">=", step, 1, decide):
        start, stop, step = -start, -stop, -step
    # One question for the clipping to 0 and for the rounding up.
    span = stop - start + step - 1
    return floordiv(span, step) if holds(">=", span, 0, decide) else 0


_BINARY = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_CALLS = {"max": max_, "min": min_}
_MAX_POWER = 64


def _parsed(node: ast.expr) -> Size:
    match node:
        case ast.Constant(value) if type(value) is int:
            return value
        case ast.Name(name):
            return named(name)
        case ast.UnaryOp(ast.USub(), operand):
            return -_parsed(operand)
        case ast.BinOp(left, ast.Pow(), ast.Constant(power)):
            if type(power) is int and power <= _MAX_POWER:
                return _parsed(left) ** power
        case ast.BinOp(left, op, right) if type(op) in _BINARY:
            return _BINARY[type(op)](_parsed(left), _parsed(right))
        case ast.Call(ast.Name("max" | "min" as name), args, []) if args:
            return _CALLS[name](*map(_parsed, args))
    raise ValueError(f"`{ast.unparse(node)}` cannot be part of a size")


def parse(text: str) -> Size:
    """The size that ``text`` writes: ``"10"``, ``"n"``, ``"2*n + 1"``, ``"n//2"``.

    Raises:
        ValueError: it is no expression, or uses more than names, integers,
            ``+ - * // % **``, ``max`` and ``min``.
    """
    try:
        return _parsed(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError) as error:
        raise ValueError(f"{text!r} is not a size: {error}") from None
