"""Names whose values may decide what a function does, outside of the tracer's sight.

A captured array is a plain one: `if DATA[0] > 0` and `float(DATA[0])` ask NumPy, not a
trace.  So the syntax tree is asked which names stand in tests, in conversions to Python
numbers and in computed indices, directly or through other variables; captured arrays
of these names are guarded by their content.
"""

from __future__ import annotations

import ast
import dis
import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

from tracegrad.ir.location import Location
from tracegrad.trace.effects import own

# Builtins that make plain values of what they are given.
_CONVERTERS = frozenset(
    ["all", "any", "bool", "complex", "divmod", "float", "format", "int", "max", "min"]
    + ["range", "repr", "round", "sorted", "str"]
)
_METHODS = frozenset({"item", "tolist"})
_ASKING = frozenset({"isinstance", "issubclass"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Deciding:
    """The names of one function that may decide.

    Attributes:
        directly: those that stand in a test, a conversion or a computed index.
        through: those from which variables are computed that do, or that are handed to
            a function.
    """

    __slots__ = ("directly", "through")

    def __init__(self, nodes: list[ast.AST]) -> None:
        self.directly: set[str] = set()
        made_of: dict[str, set[str]] = {}
        handed: set[str] = set()
        for node in nodes:
            for inner in ast.walk(node):
                for part in _deciders(inner):
                    self.directly |= _names(part)
                for target, value in _assigned(inner):
                    for name in _names(target):
                        made_of.setdefault(name, set()).update(_names(value))
                if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name):
                    for argument in inner.args:
                        handed |= _names(argument)
        found = set(self.directly)
        waiting = list(found)
        while waiting:
            for name in made_of.get(waiting.pop(), ()):
                if name not in found:
                    found.add(name)
                    waiting.append(name)
        self.through = (found | handed) - self.directly


def _names(tree: ast.AST) -> set[str]:
    """The names and the attributes in an expression."""
    found = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    return found | {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}


def _deciders(node: ast.AST) -> Iterator[ast.AST]:
    """Parts of a node whose values become plain, or choose where to go."""
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield test
        case ast.Assert(test=test) | ast.UnaryOp(op=ast.Not(), operand=test):
            yield test
        case ast.BoolOp(values=values):
            yield from values
        case ast.comprehension(ifs=tests):
            yield from tests
        case ast.Match(subject=subject):
            yield subject
        case ast.FormattedValue(value=value):
            yield value
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in _CONVERTERS:
            yield from arguments
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in _METHODS:
            yield value
        case ast.Subscript(slice=index) if _is_computed(index):
            yield index


def _is_computed(index: ast.expr) -> bool:
    """Whether an index is more than the name of an array."""
    return any(isinstance(n, ast.Subscript | ast.Call) for n in ast.walk(index))


def _assigned(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield target, value
        case ast.AugAssign(target=target, value=value):
            yield target, value
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield target, value
        case ast.NamedExpr(target=target, value=value):
            yield target, value
        case ast.For(target=target, iter=value):
            yield target, value
        case ast.comprehension(target=target, iter=value):
            yield target, value


# --------------------------------------------------------------- texts that decide
_SAYING = frozenset(
    ["print", "warn", "write", "append", "debug", "info", "warning", "error", "log"]
    + ["exception", "critical"]
)


class Said:
    """The spans of a file whose texts are for people: prints, logs and errors."""

    __slots__ = ("asked", "statements")

    def __init__(self, tree: ast.AST) -> None:
        self.statements: list[Span] = []
        self.asked: list[Span] = []
        for node in ast.walk(tree):
            match node:
                case (
                    ast.Expr(value=ast.Call(func=ast.Name(id=name)))
                    | ast.Expr(value=ast.Call(func=ast.Attribute(attr=name)))
                ) if name in _SAYING:
                    self._say(node)
                case ast.Raise():
                    self._say(node)
                case ast.Assert(msg=ast.expr() as text):
                    self._say(text)

    def _say(self, node: ast.AST) -> None:
        self.statements.append(_span(node))
        for part in ast.walk(node):
            if isinstance(part, ast.Subscript):
                self.asked.append(_span(part.slice))
            elif isinstance(part, ast.Compare) or _looks_up(part):
                self.asked.append(_span(part))

    def holds(self, place: Location) -> bool:
        """Whether what is made at a place of the user's is only said."""
        start, end = (place.line, place.column), (place.end_line, place.end_column)

        def inside(spans: list[Span]) -> bool:
            return any(first <= start and end <= last for first, last in spans)

        return inside(self.statements) and not inside(self.asked)


def _looks_up(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="get" | "setdefault" | "pop")):
            return True
    return False


Span = tuple[tuple[int, int], tuple[int, int]]


def _span(node: Any) -> Span:
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


_COUNTING = frozenset(
    ["all", "any", "enumerate", "len", "list", "max", "min", "reversed", "sorted"]
    + ["sum", "tuple", "zip"]
)


def counted_in(code: CodeType, module_globals: dict[str, Any] | None) -> set[str]:
    """The names of containers whose whole content a function asks for.

    `len(log)`, `sum(log)`, `for x in log` and `np.mean(log)`, but not `log[-1]`, which
    is what was put there last.
    """
    found: set[str] = set()
    functions = functions_in(code.co_filename, module_globals)
    for node in functions.get(code.co_firstlineno, []):
        for part in ast.walk(node):
            for asked in _counted(part):
                if isinstance(asked, ast.Name):
                    found.add(asked.id)
                elif isinstance(asked, ast.Attribute):
                    found.add(asked.attr)
    return found


def _counted(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in _COUNTING:
            yield from arguments
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np" | "numpy"))):
            yield from node.args
        case ast.For(iter=value) | ast.comprehension(iter=value):
            yield value
        case ast.Subscript(value=value, slice=index, ctx=ast.Load()):
            if not isinstance(index, ast.UnaryOp | ast.Name):
                yield value


def used_in(code: CodeType, module_globals: dict[str, Any] | None) -> set[str]:
    """The names that a function reads, but for a `next(calls)` that only counts."""
    found: set[str] = set()
    functions = functions_in(code.co_filename, module_globals)
    for node in functions.get(code.co_firstlineno, []):
        only_counted: set[int] = set()
        for part in ast.walk(node):
            match part:
                case ast.Expr(value=ast.Call(func=ast.Name(id="next"), args=[asked])):
                    only_counted.add(id(asked))
        for part in ast.walk(node):
            if id(part) in only_counted:
                continue
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
                found.add(part.id)
            elif isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Load):
                found.add(part.attr)
    return found


def only_said(place: Location) -> bool:
    """Whether a text that is made at a place is printed, logged or an error's."""
    functions_in(place.filename, None)
    return _FILES[place.filename].said.holds(place)


def is_tried(place: Location) -> bool:
    """Whether a place stands in a `try` that handles exceptions."""
    functions_in(place.filename, None)
    return any(
        first <= place.line <= last for first, last in _FILES[place.filename].tried
    )


def _tried(tree: ast.AST) -> Iterator[tuple[int, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and node.handlers:
            yield node.body[0].lineno, node.body[-1].end_lineno or node.lineno


# ------------------------------------------------------------------ one look per file
@dataclass(frozen=True, slots=True)
class _File:
    lines: list[str]
    functions: dict[int, list[ast.AST]]
    imports: list[str]
    only_calls_type: bool
    said: Said
    tried: list[tuple[int, int]]


_FILES: dict[str, _File] = {}
_FOUND: dict[int, tuple[CodeType, Deciding]] = {}
_MAX_CODES = 20_000


def deciding_in(code: CodeType, module_globals: dict[str, Any] | None) -> Deciding:
    """The names that may decide in a function; none where its source is not there."""
    found = _FOUND.get(id(code))
    if found is None:
        if len(_FOUND) > _MAX_CODES:
            _FOUND.clear()
        functions = functions_in(code.co_filename, module_globals)
        found = (code, Deciding(functions.get(code.co_firstlineno, [])))
        _FOUND[id(code)] = found
    return found[1]


def functions_in(
    filename: str, module_globals: dict[str, Any] | None
) -> dict[int, list[ast.AST]]:
    """The functions of a file by their first lines, decorators included."""
    lines = linecache.getlines(filename, module_globals)
    cached = _FILES.get(filename)
    if cached is not None and (cached.lines is lines or cached.lines == lines):
        return cached.functions
    functions: dict[int, list[ast.AST]] = {}
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError):
        tree = ast.Module([], [])
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS):
            decorators = getattr(node, "decorator_list", [])
            first = min([node.lineno, *[d.lineno for d in decorators]])
            functions.setdefault(first, []).append(node)
    imports = [
        alias.asname or alias.name.partition(".")[0]
        for node in own(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if alias.name != "*"
    ]
    calls_type = bool(lines) and _calls_type(tree)
    spans = Said(tree), list(_tried(tree))
    _FILES[filename] = _File(lines, functions, imports, calls_type, *spans)
    return functions


def imports_in(filename: str, module_globals: dict[str, Any] | None) -> list[str]:
    """The names that a file imports at its top level."""
    functions_in(filename, module_globals)
    return _FILES[filename].imports


def only_calls_type(filename: str, module_globals: dict[str, Any] | None) -> bool:
    """Whether `type` stands in a file where a stand-in for it does as well.

    That is in calls, and where `isinstance` and `issubclass` look for classes.
    """
    functions_in(filename, module_globals)
    return _FILES[filename].only_calls_type


def _calls_type(tree: ast.AST) -> bool:
    fine: set[int] = set()
    named: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "type":
            named.add(id(node))
        elif isinstance(node, ast.Call):
            fine.add(id(node.func))
            if isinstance(node.func, ast.Name) and node.func.id in _ASKING:
                classes = [n for x in node.args[1:] for n in ast.walk(x)]
                fine |= set(map(id, classes))
        elif isinstance(node, ast.arg | ast.AnnAssign) and node.annotation:
            fine |= set(map(id, ast.walk(node.annotation)))
        elif isinstance(node, ast.FunctionDef) and node.returns:
            fine |= set(map(id, ast.walk(node.returns)))
    return named <= fine


# ------------------------------------------------------------- what is asked of nobody
_IS = dis.opmap["IS_OP"]
_SINGLE = (None, Ellipsis, NotImplemented)  # a traced value is none of these
_COMPARED: dict[int, tuple[CodeType, str]] = {}


def identities(code: CodeType) -> str:
    """What a code object compares by identity, besides `None` and its like.

    "" for nothing, "truth" if one side is spelled `True` or `False`, else "name".
    """
    if _IS not in code.co_code[::2]:
        return ""
    found = _COMPARED.get(id(code))
    if found is None:
        if len(_COMPARED) > _MAX_CODES:
            _COMPARED.clear()
        found = _COMPARED[id(code)] = (code, _identities(code))
    return found[1]


def _identities(code: CodeType) -> str:
    before: list[dis.Instruction] = []
    kind = ""
    for i in dis.get_instructions(code):
        if i.opcode == _IS:
            sides = [b.argval for b in before[-2:] if b.opname == "LOAD_CONST"]
            if any(side is True or side is False for side in sides):
                return "truth"
            if not any(side is single for side in sides for single in _SINGLE):
                kind = "name"
        before.append(i)
    return kind
