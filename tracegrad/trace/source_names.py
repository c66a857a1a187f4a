"""Names that the user gave to expressions, read from the syntax tree of a file.

One walk per file collects, by source position, which expression is the whole right-hand
side of an assignment.  Only the outermost operation of it takes the name: in
`y = (x + 1).sum()` the call does, the addition does not.
"""

from __future__ import annotations

import ast
import linecache
import threading
from collections.abc import Iterator
from typing import Any

Position = tuple[int, int, int, int]  # line, column, end line, end column
# The name of a value, or of each part of a value that is unpacked.
Hint = str | tuple[str | None, ...]


def position(node: Any) -> Position:
    """Where an expression or statement stands, in bytes as code objects count."""
    return (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)


class Names:
    """The names of one file.

    Attributes:
        assigned: position of an expression -> name that it is assigned to.
        loops: position of an iterable -> name of the loop variable.
        unrolled: position of a loop -> names of its variables, if there are several.
        returned: positions of expressions that are returned.
        unpacked: (line of a function, parameter) -> the names that it is unpacked to.
        parts: position of `a, b` that something is unpacked to -> the names.
    """

    __slots__ = ("assigned", "loops", "parts", "returned", "unpacked", "unrolled")

    def __init__(self, tree: ast.AST | None = None) -> None:
        self.assigned: dict[Position, Hint] = {}
        self.loops: dict[Position, str] = {}
        self.unrolled: dict[Position, set[str]] = {}
        self.returned: set[Position] = set()
        self.unpacked: dict[tuple[int, str], tuple[str | None, ...]] = {}
        self.parts: dict[Position, tuple[str | None, ...]] = {}
        for node in ast.walk(tree) if tree is not None else ():
            self._enter(node)

    def _enter(self, node: ast.AST) -> None:
        match node:
            case (
                ast.Tuple(elts=elements, ctx=ast.Store())
                | ast.List(elts=elements, ctx=ast.Store())
            ):
                names = [e.id if isinstance(e, ast.Name) else None for e in elements]
                self.parts[position(node)] = tuple(names)
            case ast.Assign(targets=[target, *_], value=value):
                self._assign(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, value)
            case ast.NamedExpr(target=target, value=value):
                self._assign(target, value)
            case ast.AugAssign(target=ast.Name(id=name)):
                self.assigned[position(node)] = name
            case ast.For(target=ast.Name(id=name), iter=iterable):
                # Older interpreters give the step of a loop the place of all of it.
                self.loops[position(iterable)] = self.loops[position(node)] = name
            case ast.For(target=target):
                parts = [p.id for p in ast.walk(target) if isinstance(p, ast.Name)]
                self.unrolled[position(node)] = set(parts)
            case (
                ast.ListComp(generators=[loop])
                | ast.SetComp(generators=[loop])
                | ast.DictComp(generators=[loop])
                | ast.GeneratorExp(generators=[loop])
            ) if isinstance(loop.target, ast.Name):
                place = position(loop.iter)
                self.loops[place] = self.loops[position(node)] = loop.target.id
            case ast.Return(value=ast.expr() as value):
                self._give_back(value)
            case ast.Lambda(body=value):
                self._give_back(value)
            case ast.FunctionDef():
                self._enter_function(node)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            parts = target.elts
            if isinstance(value, ast.Tuple | ast.List):
                if len(parts) == len(value.elts):
                    for part, element in zip(parts, value.elts, strict=True):
                        self._assign(part, element)
                return
            names = tuple([p.id if isinstance(p, ast.Name) else None for p in parts])
            self._put(value, names)
        elif isinstance(target, ast.Name):
            self._put(value, target.id)

    def _enter_function(self, function: ast.FunctionDef) -> None:
        first = min([function.lineno, *[d.lineno for d in function.decorator_list]])
        for statement in function.body:
            match statement:
                case ast.Assign(targets=[ast.Tuple(elts=parts)], value=ast.Name(id=p)):
                    names = [q.id if isinstance(q, ast.Name) else None for q in parts]
                    self.unpacked.setdefault((first, p), tuple(names))

    def _put(self, value: ast.expr, hint: Hint) -> None:
        self.assigned[position(value)] = hint
        for result in _results(value):
            for place in _places(result):
                self.assigned[place] = hint

    def _give_back(self, value: ast.expr) -> None:
        self.returned.add(position(value))
        for result in _results(value):
            self.returned.update(_places(result))


def _results(value: ast.expr) -> Iterator[ast.expr]:
    """The expressions that `value` is one of: both arms of a conditional."""
    if isinstance(value, ast.IfExp):
        yield from _results(value.body)
        yield from _results(value.orelse)
    else:
        yield value


def _places(value: ast.expr) -> Iterator[Position]:
    yield position(value)
    called = value.func if isinstance(value, ast.Call) else None
    if isinstance(called, ast.Attribute) and called.end_lineno != value.lineno:
        # In a chain of calls over several lines the interpreter gives a call the
        # position from the method's name on.
        line, end = called.end_lineno, called.end_col_offset
        if line is not None and end is not None:
            column = end - len(called.attr.encode())
            yield (line, column, *position(value)[2:])


_FILES: dict[str, tuple[list[str], Names]] = {}
_LOCK = threading.Lock()


def names_of(filename: str, module_globals: dict[str, Any] | None) -> Names:
    """The names of a file; empty where its source is not to be had."""
    lines = linecache.getlines(filename, module_globals)
    with _LOCK:
        cached = _FILES.get(filename)
        if cached is not None and (cached[0] is lines or cached[0] == lines):
            return cached[1]
    try:
        found = Names(ast.parse("".join(lines)))
    except (SyntaxError, ValueError, RecursionError):
        found = Names()
    with _LOCK:
        _FILES[filename] = (lines, found)
    return found
