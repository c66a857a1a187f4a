"""The polynomials behind symbolic sizes: interning, arithmetic, proofs, text.

`tracegrad.ir.dims` is the public face. A size is an ``int`` or a ``Dim``, never a
constant ``Dim``; equal polynomials are one object. The facts that simplifications and
proofs use: a named size is at least 2, and a divisor is not 0.
"""

import ast
import keyword
import math
import operator
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, reduce
from numbers import Integral
from typing import Any, Never, TypeAlias, TypeVar, final
from weakref import WeakValueDictionary

_Key = TypeVar("_Key", bound=tuple)
_Interned = TypeVar("_Interned", "_Atom", "Dim")
_LOCK = threading.RLock()
cached = lru_cache(maxsize=1 << 14)  # strong references, so bounded


class _Atom:
    """A factor of a monomial: a named size, or an operation on sizes.

    ``kind`` is ``"name"``, ``"//"``, ``"%"``, ``"max"`` or ``"min"``; ``args`` holds
    the name, or the operands. ``order`` sorts names first, then by text.
    """

    __slots__ = ("__weakref__", "args", "kind", "order")

    kind: str
    args: tuple[Any, ...]

    def __init__(self, key: tuple) -> None:
        self.kind, self.args = key
        self.order = (self.kind != "name", _text(_atom_ast(self, name_ast)))


_Monomial: TypeAlias = tuple[_Atom, ...]  # sorted, with repeats: n**2 * m is (m, n, n)
_Terms: TypeAlias = tuple[tuple[_Monomial, int], ...]


def _binary(
    function: Callable[["Size", "Size"], "Size"], swapped: bool = False
) -> Callable[["Dim", "Size"], "Size"]:
    def method(self: "Dim", other: "Size") -> "Size":
        if type(other) is not int and type(other) is not Dim:
            # Not by __index__: the user's size object would guard on its value.
            if not isinstance(other, Integral):
                return NotImplemented
            other = int(other)
        return function(other, self) if swapped else function(self, other)

    return method


# The operators, for the class: what is cached is defined after it.
def _sum_of(a: "Size", b: "Size") -> "Size":
    return _add(a, b)


def _difference_of(a: "Size", b: "Size") -> "Size":
    return _add(a, _multiply(b, -1))


def _product_of(a: "Size", b: "Size") -> "Size":
    return _multiply(a, b)


def _quotient_of(a: "Size", b: "Size") -> "Size":
    return floor_divide(a, b)


def _rest_of(a: "Size", b: "Size") -> "Size":
    return modulo(a, b)


def _no_value(use: str) -> Callable[["Dim"], Never]:
    def method(self: "Dim") -> Never:
        raise TypeError(f"the symbolic size `{self}` has no value, so it has no {use}")

    return method


@final
class Dim:
    """An integer polynomial with at least one named size in it; immutable, interned.

    ``terms`` is ``((monomial, coefficient), ...)``, highest degree first.
    """

    __slots__ = ("__weakref__", "_string", "terms")
    __array_ufunc__ = None  # np.int64(2) * n must come to __rmul__

    terms: _Terms
    _string: str | None

    def __init__(self) -> None:
        raise TypeError('make a symbolic size with Dim.named("n") and arithmetic')

    @staticmethod
    def named(name: str) -> "Dim":
        """The size called ``name``, a Python identifier.

        Raises:
            ValueError: the name is no identifier, or a keyword.
        """
        name = unicodedata.normalize("NFKC", name)  # as Python reads identifiers
        if not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(f"a size needs an identifier for a name, not {name!r}")
        return _atom("name", name)

    __add__ = __radd__ = _binary(_sum_of)
    __mul__ = __rmul__ = _binary(_product_of)
    __sub__, __rsub__ = _binary(_difference_of), _binary(_difference_of, swapped=True)
    __floordiv__ = _binary(_quotient_of)
    __rfloordiv__ = _binary(_quotient_of, swapped=True)
    __mod__, __rmod__ = _binary(_rest_of), _binary(_rest_of, swapped=True)
    __bool__, __int__ = _no_value("truth"), _no_value("int()")
    __index__ = _no_value("index: range(), a list repeat and C code need a number")

    def __neg__(self) -> "Size":
        return _multiply(self, -1)

    def __pow__(self, power: int) -> "Size":
        if not isinstance(power, Integral) or power < 0:
            return NotImplemented
        return product([self] * int(power))

    def __repr__(self) -> str:
        if self._string is None:
            self._string = _text(to_ast(self, name_ast))
        return self._string

    def __reduce__(self) -> tuple:
        plain = (([(atom.kind, atom.args) for atom in m], c) for m, c in self.terms)
        return _restore, (list(plain),)

    def __copy__(self) -> "Dim":
        return self

    def __deepcopy__(self, memo: dict) -> "Dim":
        return self


Size: TypeAlias = int | Dim
# terms -> Dim, (kind, args) -> _Atom
_TABLE: WeakValueDictionary[tuple, Any] = WeakValueDictionary()


def _new_dim(terms: _Terms) -> Dim:
    dim = object.__new__(Dim)
    dim.terms, dim._string = terms, None
    return dim


def _interned(key: _Key, make: Callable[[_Key], _Interned]) -> _Interned:
    found: _Interned | None = _TABLE.get(key)
    if found is None:
        fresh = make(key)
        with _LOCK:  # setdefault of a weak dictionary is not atomic
            found = _TABLE.setdefault(key, fresh)
    return found


def _atom(kind: str, *args: object) -> Dim:
    return _interned((((_interned((kind, args), _Atom),), 1),), _new_dim)


def _restore(plain: list) -> Dim:
    """The interned size that was pickled, in this process."""
    terms = ((tuple(_interned(key, _Atom) for key in keys), c) for keys, c in plain)
    return _interned(tuple(terms), _new_dim)


def _order(monomial: _Monomial) -> tuple:
    """Sort key, largest first: by degree, then by name (a monomial order)."""
    return -len(monomial), [atom.order for atom in monomial]


def _build(terms: Mapping[_Monomial, int]) -> Size:
    kept = {m: c for m, c in terms.items() if c}
    if not kept:
        return 0
    if len(kept) == 1 and () in kept:
        return kept[()]
    if len(kept) == 1:
        return _interned(tuple(kept.items()), _new_dim)
    return _interned(tuple((m, kept[m]) for m in sorted(kept, key=_order)), _new_dim)


def terms_of(size: Size) -> _Terms:
    return size.terms if type(size) is Dim else (((), size),)


def as_size(value: object) -> Size:
    if type(value) is int or type(value) is Dim:
        return value
    if isinstance(value, Integral):
        return int(value)
    raise TypeError(f"a size is an int or a Dim, not {value!r}")


def split_constant(size: Size) -> tuple[Size, int]:
    if type(size) is not Dim:
        return 0, size
    monomial, constant = size.terms[-1]
    return (size, 0) if monomial else (_build(dict(size.terms[:-1])), constant)


def sides(size: Size) -> tuple[Size, Size]:
    """``(left, right)`` with ``size == left - right`` and no negative coefficient."""
    left = _build({m: c for m, c in terms_of(size) if c > 0})
    return left, left - size


def _single_atom(size: Size) -> _Atom | None:
    """The atom that ``size`` consists of, if it is nothing else."""
    if type(size) is Dim and len(size.terms) == 1:
        (monomial, coefficient), *_ = size.terms
        if coefficient == 1 and len(monomial) == 1:
            return monomial[0]
    return None


@cached
def _add(a: Size, b: Size) -> Size:
    total = dict(terms_of(a))
    for monomial, coefficient in terms_of(b):
        total[monomial] = total.get(monomial, 0) + coefficient
    return _build(total)


@cached
def _multiply(a: Size, b: Size) -> Size:
    total: dict[_Monomial, int] = {}
    for left, c in terms_of(a):
        for right, d in terms_of(b):
            both = tuple(sorted(left + right, key=lambda atom: atom.order))
            total[both] = total.get(both, 0) + c * d
    return _build(total)


def _without(monomial: _Monomial, divisor: _Monomial) -> _Monomial | None:
    left = list(monomial)
    for atom in divisor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


@cached
def divide(a: Size, b: Size) -> tuple[Size, Size]:
    """``(q, r)`` with ``a == q * b + r``, no term of r divisible by the lead of b."""
    quotient: Size = 0
    remainder: Size = 0
    lead, scale = terms_of(b)[0]
    while a != 0:
        monomial, coefficient = terms_of(a)[0]
        factor = _without(monomial, lead)
        if factor is None or coefficient % scale:
            term = _build({monomial: coefficient})
            remainder, a = remainder + term, a - term
        else:
            term = _build({factor: coefficient // scale})
            quotient, a = quotient + term, a - term * b
    return quotient, remainder


def _common_factor(a: Size, b: Size) -> Size:
    """The largest monomial, with its coefficient, that divides every term of both."""
    terms = terms_of(a) + terms_of(b)
    common = reduce(operator.and_, (Counter(monomial) for monomial, _ in terms))
    return _build({tuple(common.elements()): math.gcd(*(c for _, c in terms))})


def _reduce_constant_divisor(a: Size, b: int) -> tuple[Size, Size]:
    """``(q, r)`` with ``a == q * b + r``, no coefficient of r divisible by b."""
    quotient = _build({m: c // b for m, c in terms_of(a) if not m or c % b == 0})
    return quotient, a - quotient * b


@cached
def floor_divide(a: Size, b: Size) -> Size:
    if type(a) is int and type(b) is int:
        return a // b
    if b == 0:
        raise ZeroDivisionError(f"`{a} // 0`")
    if terms_of(b)[0][1] < 0:
        return floor_divide(-a, -b)
    if type(b) is Dim:
        return _floordiv_by_dim(a, b)
    quotient, rest = _reduce_constant_divisor(a, b)
    if quotient != 0:
        return quotient + floor_divide(rest, b)
    variable, constant = split_constant(rest)
    common = math.gcd(b, *(c for _, c in terms_of(variable)))
    if common > 1:
        return floor_divide(
            divide(variable, common)[0] + constant // common, b // common
        )
    if terms_of(variable)[0][1] < 0:  # one form for (-n) // 2 and -((n + 1) // 2)
        return -floor_divide(-rest + b - 1, b)
    inner = _single_atom(variable)
    if inner is not None and inner.kind == "//" and type(inner.args[1]) is int:
        return floor_divide(inner.args[0] + constant * inner.args[1], b * inner.args[1])
    low, high = lower_bound(rest), upper_bound(rest)
    if low is not None and high is not None and low // b == high // b:
        return low // b
    return _atom("//", rest, b)


def _floordiv_by_dim(a: Size, b: Dim) -> Size:
    quotient, rest = divide(a, b)
    within = _within(rest, b)
    if within is not None:
        return quotient + within
    if len(b.terms) == 1 and quotient != 0:
        return quotient + floor_divide(rest, b)
    common = _common_factor(a, b)
    if common != 1:
        return floor_divide(divide(a, common)[0], divide(b, common)[0])
    inner = _single_atom(a)
    if inner is not None and inner.kind == "//" and _positive(b):
        return floor_divide(inner.args[0], inner.args[1] * b)
    return _atom("//", a, b)


def _within(rest: Size, b: Size) -> int | None:
    """``rest // b`` where it is provably 0 or -1."""
    if rest == 0 or (_positive(rest + 1) and _positive(b - rest)):
        return 0
    return -1 if _positive(-rest) and _positive(rest + b + 1) else None


@cached
def modulo(a: Size, b: Size) -> Size:
    if type(a) is int and type(b) is int:
        return a % b
    if b == 0:
        raise ZeroDivisionError(f"`{a} % 0`")
    if terms_of(b)[0][1] < 0:
        return -modulo(-a, -b)
    if type(b) is Dim:
        return _mod_by_dim(a, b)
    rest = _build({m: c % b for m, c in terms_of(a)})
    for monomial, c in terms_of(rest):  # (n % 4 + m) % 2 is (n + m) % 2
        if len(monomial) == 1 and monomial[0].kind == "%":
            inner, divisor = monomial[0].args
            if type(divisor) is int and divisor % b == 0:
                return modulo(rest + c * (inner - _build({monomial: 1})), b)
    variable, constant = split_constant(rest)
    if variable == 0:
        return constant
    common = math.gcd(b, *(c for _, c in terms_of(variable)))
    if common > 1:
        whole, part = divmod(constant, common)
        return common * modulo(divide(variable, common)[0] + whole, b // common) + part
    low, high = lower_bound(rest), upper_bound(rest)
    if low is not None and high is not None and low // b == high // b:
        return rest - low // b * b
    return _atom("%", rest, b)


def _mod_by_dim(a: Size, b: Dim) -> Size:
    quotient, rest = divide(a, b)
    within = _within(rest, b)
    if within is not None:
        return rest - within * b
    if len(b.terms) == 1 and quotient != 0:
        return modulo(rest, b)
    common = _common_factor(a, b)
    if common != 1:
        return common * modulo(divide(a, common)[0], divide(b, common)[0])
    return _atom("%", a, b)


@cached
def extreme(kind: str, *sizes: Size) -> Size:
    """The maximum or minimum, without the operands that another provably dominates."""
    flat: set[Size] = set()
    for size in sizes:
        atom = _single_atom(size)
        flat.update(atom.args if atom is not None and atom.kind == kind else [size])
    sign = 1 if kind == "max" else -1
    kept: list[Size] = []
    for size in sorted(flat, key=lambda s: (type(s) is int, str(s))):
        if not any(_positive(sign * (other - size) + 1) for other in kept):
            kept = [k for k in kept if not _positive(sign * (size - k) + 1)] + [size]
    return kept[0] if len(kept) == 1 else _atom(kind, *kept)


def _atom_range(atom: _Atom) -> tuple[int | None, int | None]:
    """Bounds on the values of an atom; None where there is none."""
    if atom.kind == "name":
        return 2, None
    lows = [lower_bound(arg) for arg in atom.args]
    highs = [upper_bound(arg) for arg in atom.args]
    if atom.kind in ("max", "min"):
        pick = max if atom.kind == "max" else min
        some, each = (lows, highs) if atom.kind == "max" else (highs, lows)
        one = pick((x for x in some if x is not None), default=None)
        known = [x for x in each if x is not None]
        every = pick(known) if len(known) == len(each) else None
        return (one, every) if atom.kind == "max" else (every, one)
    (low, least), (high, most) = lows, highs  # of the dividend, and of the divisor
    if least is None or least < 1:
        return None, None
    if atom.kind == "%":
        return 0, None if most is None else most - 1
    if low is not None:
        low = low // least if low < 0 else 0 if most is None else low // most
    if high is not None:
        high = high // least if high >= 0 else -1 if most is None else high // most
    return low, high


def _termwise_lower(size: Size) -> int | None:
    """A lower bound, each atom written as its own lower bound plus some t >= 0.

    That handles terms that depend on each other: ``n**2 - n`` becomes
    ``t**2 + 3 * t + 2``, which is at least 2 by the sign of every coefficient.
    """
    ranges: dict[_Atom, tuple[int, int | None]] = {}
    total: Counter = Counter()  # in terms of t, which borrows the atom's place
    for monomial, coefficient in terms_of(size):
        partial: Counter = Counter({(): coefficient})
        for atom in monomial:
            if atom not in ranges:
                least, most = _atom_range(atom)
                if least is None:
                    return None
                ranges[atom] = least, most
            low = ranges[atom][0]
            shifted: Counter = Counter()
            for m, c in partial.items():
                shifted[*m, atom] += c
                shifted[m] += c * low
            partial = shifted
        for m, c in partial.items():
            total[m] += c
    bound = total.pop((), 0)
    for monomial, coefficient in total.items():
        if coefficient < 0:
            for low, high in (ranges[atom] for atom in monomial):
                if high is None:
                    return None
                coefficient *= high - low
            bound += coefficient
    return bound


def _replaced(size: Size, atom: _Atom, value: Size, scale: int = 1) -> tuple[Size, int]:
    """``size`` times the returned factor, with ``value / scale`` for ``atom``."""
    degree = max(monomial.count(atom) for monomial, _ in terms_of(size))
    total: Size = 0
    for monomial, c in terms_of(size):
        power = monomial.count(atom)
        others = _build({tuple(a for a in monomial if a is not atom): c})
        total += others * product([value] * power) * scale ** (degree - power)
    return total, scale**degree


def _first_atom(size: Size, *kinds: str) -> _Atom | None:
    atoms = (atom for monomial, _ in terms_of(size) for atom in monomial)
    return next((atom for atom in atoms if atom.kind in kinds), None)


def without_mod(size: Size) -> Size:
    """The same value with ``a - b * (a // b)`` for each ``a % b``."""
    while (atom := _first_atom(size, "%")) is not None:
        a, b = atom.args
        size, _ = _replaced(size, atom, a - b * floor_divide(a, b))
    return size


def _without_floordiv(size: Size) -> tuple[Size, int]:
    """``size`` times the returned factor, with ``(a - a % b) / b`` for ``a // b``."""
    scale = 1
    for atom in dict.fromkeys(
        atom for monomial, _ in terms_of(size) for atom in monomial
    ):
        if atom.kind == "//" and type(atom.args[1]) is int:
            a, b = atom.args
            size, factor = _replaced(size, atom, a - modulo(a, b), b)
            scale *= factor
    return size, scale


def _bounded_by_any(size: Size, atom: _Atom) -> bool:
    """Whether any operand bounds ``atom``: a max is added, or a min subtracted."""
    sign = 1 if atom.kind == "max" else -1
    terms = [(m, c) for m, c in terms_of(size) if atom in m]
    return all(len(m) == 1 and c * sign > 0 for m, c in terms)


@cached
def lower_bound(size: Size) -> int | None:
    """The greatest lower bound that we can prove, None where there is none."""
    if type(size) is int:
        return size
    bounds = [_termwise_lower(size)]
    atom = _first_atom(size, "max", "min")
    if atom is not None:  # the atom is one of its operands
        cases = [lower_bound(_replaced(size, atom, arg)[0]) for arg in atom.args]
        if _bounded_by_any(size, atom):
            bounds += cases
        else:
            known = [case for case in cases if case is not None]
            bounds.append(min(known) if len(known) == len(cases) else None)
    else:
        bounds.append(_termwise_lower(without_mod(size)))
        scaled, scale = _without_floordiv(size)
        bound = _termwise_lower(scaled)
        bounds.append(None if bound is None else -(-bound // scale))
    return max((bound for bound in bounds if bound is not None), default=None)


def upper_bound(size: Size) -> int | None:
    bound = lower_bound(-size)
    return None if bound is None else -bound


def _positive(size: Size) -> bool:
    """Whether ``size >= 1`` is proved."""
    bound = lower_bound(size)
    return bound is not None and bound > 0


def product(shape: Iterable[Size]) -> Size:
    """The number of elements of an array of this shape."""
    return reduce(operator.mul, map(as_size, shape), 1)


def name_ast(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _text(node: ast.expr) -> str:
    return ast.unparse(node)


def _number_ast(value: int) -> ast.expr:
    node = ast.Constant(abs(value))
    return ast.UnaryOp(ast.USub(), node) if value < 0 else node


def _atom_ast(atom: _Atom, lookup: Callable[[str], ast.expr]) -> ast.expr:
    if atom.kind == "name":
        return lookup(atom.args[0])
    args = [to_ast(arg, lookup) for arg in atom.args]
    if atom.kind in ("max", "min"):
        return ast.Call(name_ast(atom.kind), args, [])
    return ast.BinOp(
        args[0], ast.FloorDiv() if atom.kind == "//" else ast.Mod(), args[1]
    )


def _term_ast(
    monomial: _Monomial, coefficient: int, lookup: Callable[[str], ast.expr]
) -> ast.expr:
    factors = []
    for atom, power in Counter(monomial).items():
        factor = _atom_ast(atom, lookup)
        if power > 1:
            factor = ast.BinOp(factor, ast.Pow(), ast.Constant(power))
        factors.append(factor)
    if coefficient == -1 and factors:
        factors[0] = ast.UnaryOp(ast.USub(), factors[0])
    elif coefficient != 1 or not factors:
        factors.insert(0, _number_ast(coefficient))
    return reduce(lambda a, b: ast.BinOp(a, ast.Mult(), b), factors)


def to_ast(size: Size, lookup: Callable[[str], ast.expr]) -> ast.expr:
    """The expression for generated source: highest degree first, a positive term first.

    Args:
        size: the size.
        lookup: the expression for a named size, such as ``n`` or ``x.shape[0]``.
    """
    terms = sorted(terms_of(size), key=lambda term: (-len(term[0]), term[1] < 0))
    first = next((i for i, (_, c) in enumerate(terms) if c > 0), 0)
    terms.insert(0, terms.pop(first))
    node = _term_ast(*terms[0], lookup)
    for monomial, c in terms[1:]:
        sign = ast.Add() if c > 0 else ast.Sub()
        node = ast.BinOp(node, sign, _term_ast(monomial, abs(c), lookup))
    return node
