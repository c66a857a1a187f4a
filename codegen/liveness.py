"""Which variables of a function hold a value at the same time.

Two that never do may have one name.  This is the liveness of compilers, over the few
kinds of statements that emitted functions consist of.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tracegrad.codegen.printer_literals import Blank, Comment

_Names = frozenset[str]
_NONE: _Names = frozenset()


class UnknownStatement(Exception):
    """A statement is none of those that are understood here."""


@dataclass(slots=True)
class Interference:
    """What `interference` finds.

    Attributes:
        pairs: name -> the names that hold another value at the same time.
        bound: name -> in how many functions, of those inside of one another, it is
            a variable.
    """

    pairs: dict[str, set[str]] = field(default_factory=dict)
    bound: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, others: Iterable[str]) -> None:
        """Note that `name` must not be one with any of the others."""
        mine = self.pairs.setdefault(name, set())
        for other in others:
            if other != name:
                mine.add(other)
                self.pairs.setdefault(other, set()).add(name)


def interference(function: ast.FunctionDef, tracked: Container[str]) -> Interference:
    """Which of the names `tracked` must stay apart.

    Raises:
        UnknownStatement: for what no emitted function has.
    """
    found = Interference()
    _Function(function, tracked, found)
    return found


class _Function:
    def __init__(
        self, function: ast.FunctionDef, tracked: Container[str], found: Interference
    ) -> None:
        self.tracked = tracked
        self.found = found
        self.stops: list[_Names] = []
        arguments = [a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)]
        self.locals = {*arguments, *_bound(function.body)}
        for name in self.locals:
            found.bound[name] = found.bound.get(name, 0) + 1
        self.inner: dict[int, _Names] = {}
        captured: set[str] = set()
        for inner in _functions(function.body):
            free = _Function(inner, tracked, found).free
            self.inner[id(inner)] = free
            captured |= free
        # They may run as long as this one, and after it.
        self.end = frozenset(captured)
        start = self._block(function.body, self.end)
        self.free: _Names = frozenset(n for n in start if n not in self.locals)
        self.free |= frozenset(n for n in captured if n not in self.locals)
        self._define([a for a in arguments if a in tracked], start)
        for name in self.free:
            found.add(name, [n for n in self.locals if n in tracked])

    def _define(self, names: Sequence[str], live: _Names) -> None:
        for name in names:
            self.found.add(name, live)
            self.found.add(name, names)

    def _block(self, body: Sequence[ast.stmt], live: _Names) -> _Names:
        for statement in reversed(body):
            live = self._statement(statement, live)
        return live

    def _statement(self, s: ast.stmt, live: _Names) -> _Names:
        if isinstance(s, Comment | Blank | ast.Pass):
            return live
        if isinstance(s, ast.Assign):
            return self._assign(s, live)
        if isinstance(s, ast.AugAssign):
            read = self._read(s.value) | self._read(s.target)
            if isinstance(s.target, ast.Name) and s.target.id in self.tracked:
                self._define([s.target.id], live)
                read |= {s.target.id}
            return live | read
        if isinstance(s, ast.Expr):
            return live | self._read(s.value)
        if isinstance(s, ast.Return):
            return self.end | (self._read(s.value) if s.value else _NONE)
        if isinstance(s, ast.Raise):
            return self._read(s)
        if isinstance(s, ast.Break):
            return self.stops[-1]
        if isinstance(s, ast.If):
            either = self._block(s.body, live) | self._block(s.orelse, live)
            return either | self._read(s.test)
        if isinstance(s, ast.For | ast.While) and not s.orelse:
            return self._loop(s, live)
        if isinstance(s, ast.FunctionDef):
            if s.name in self.tracked:
                self._define([s.name], live)
            return (live - {s.name}) | self.inner[id(s)]
        raise UnknownStatement(type(s).__name__)

    def _assign(self, s: ast.Assign, live: _Names) -> _Names:
        (target,) = s.targets
        pairs: list[tuple[ast.expr, ast.expr | None]] = [(target, s.value)]
        if isinstance(target, ast.Tuple):
            values: Sequence[ast.expr | None] = [None] * len(target.elts)
            if isinstance(s.value, ast.Tuple) and len(s.value.elts) == len(values):
                values = s.value.elts
            pairs = list(zip(target.elts, values, strict=True))
        read = self._read(s.value)
        names = []
        for part, value in pairs:
            if not isinstance(part, ast.Name):
                read |= self._read(part)
                continue
            if part.id in self.tracked:
                names.append(part.id)
                # A copy may have the name of what it is a copy of.
                same = value.id if isinstance(value, ast.Name) else None
                self.found.add(part.id, [n for n in live if n != same])
        for name in names:
            self.found.add(name, names)
        return (live - frozenset(names)) | read

    def _loop(self, s: ast.For | ast.While, after: _Names) -> _Names:
        if isinstance(s, ast.While):
            first, again, names = _NONE, self._read(s.test), []
        else:
            first, again = self._read(s.iter), _NONE
            names = [n for n in _bound_by(s.target) if n in self.tracked]
        head = after | again
        while True:
            self.stops.append(after)
            body = self._block(s.body, head)
            self.stops.pop()
            more = head | (body - frozenset(names))
            if more == head:
                break
            head = more
        self._define(names, body)
        return head | first

    def _read(self, tree: ast.AST) -> _Names:
        found = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                if node.id in self.tracked:
                    found.add(node.id)
            elif isinstance(node, ast.Lambda | ast.NamedExpr | ast.comprehension):
                # Variables of its own: their names stay what they are.
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Name | ast.arg):
                        own = inner.id if isinstance(inner, ast.Name) else inner.arg
                        self.found.bound[own] = 2
        return frozenset(found)


def _bound_by(target: ast.expr) -> Iterator[str]:
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    yield from [p.id for p in parts if isinstance(p, ast.Name)]


def _bound(body: Sequence[ast.stmt]) -> Iterator[str]:
    """The variables that statements bind, those of functions in them aside."""
    for s in body:
        if isinstance(s, ast.Assign):
            for target in s.targets:
                yield from _bound_by(target)
        elif isinstance(s, ast.AugAssign):
            yield from _bound_by(s.target)
        elif isinstance(s, ast.FunctionDef):
            yield s.name
        elif isinstance(s, ast.For | ast.While | ast.If):
            if isinstance(s, ast.For):
                yield from _bound_by(s.target)
            yield from _bound(s.body)
            yield from _bound(s.orelse)


def _functions(body: Sequence[ast.stmt]) -> Iterator[ast.FunctionDef]:
    """The functions in statements, those in other functions aside."""
    for s in body:
        if isinstance(s, ast.FunctionDef):
            yield s
        elif isinstance(s, ast.For | ast.While | ast.If):
            yield from _functions(s.body)
            yield from _functions(s.orelse)
