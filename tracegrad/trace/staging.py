"""The user's functions compiled anew, with branches and loops that a trace can join.

`if c: a` with `else: b` becomes a call with both arms as functions, so that the trace
can go through both.  What is compiled does the same as the original in every respect,
and has its lines and columns.  Only functions in which a traced value decides are
treated so, and what cannot be joined stays as it is.
"""

from __future__ import annotations
import __future__

import ast
import copy
import inspect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType
from typing import Any

from tracegrad.ir.syntax import definition
from tracegrad.trace.deciding import functions_in, identities, imports_in
from tracegrad.trace.effects import (
    always_returns,
    assigned,
    binds_first,
    counted,
    is_pure,
    leaves_loop,
    loads,
    surely_binds,
    tested,
    updated,
)
from tracegrad.trace.frames import is_users
from tracegrad.trace.spelling import (
    RUNTIME_NAME,
    is_made,
    is_runtime_call,
    normalised,
    placed,
    runtime_call,
    turns_named,
)

_LOCALS = {"locals", "vars", "eval", "exec", "dir"}  # these see a name of ours
_UNKNOWABLE = {"super", "globals"}
_FLAGS = sum(
    getattr(__future__, name).compiler_flag for name in __future__.all_feature_names
)
_NOT_PLAIN = (
    inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
    | inspect.CO_ITERABLE_COROUTINE
)


@dataclass(frozen=True, slots=True)
class Staged:
    """A code object compiled anew.

    Attributes:
        original: what it was made from, kept for its id.
        code: what is run instead; None if the function must be left as it is.
        pure: whether a call of it has no effect, as far as its text tells.
        joins: whether there is a branch or a loop in it that may be joined.
    """

    original: CodeType
    code: CodeType | None = None
    pure: bool = False
    joins: bool = False


_STAGED: dict[int, Staged] = {}
_MADE: dict[int, Staged] = {}
_MAX_CODES = 20_000


def staged_code(code: CodeType, space: dict[str, Any]) -> Staged:
    """The record of a code object of the user's."""
    made = _MADE.get(id(code))
    if made is not None:
        return made
    found = _STAGED.get(id(code))
    if found is None:
        if len(_STAGED) > _MAX_CODES:
            _STAGED.clear()
            _MADE.clear()
        found = _STAGED[id(code)] = _stage(code, space)
        if found.code is not None:
            _MADE[id(found.code)] = found
    return found


def original_code(code: CodeType) -> CodeType:
    """The user's own code object behind one that was compiled here."""
    made = _MADE.get(id(code))
    return code if made is None else made.original


def staged_function(function: FunctionType, runtime: Any) -> FunctionType:
    """A function with the staged code; the function itself if there is none."""
    staged = staged_code(function.__code__, function.__globals__)
    code = staged.code
    if code is None or code is function.__code__:
        return function
    cells = dict(
        zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    )
    cells[RUNTIME_NAME] = CellType(runtime)
    made = FunctionType(
        code,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple([cells[name] for name in code.co_freevars]),
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__ = function.__qualname__
    return made


# ------------------------------------------------------------------------- compiling
def _stage(code: CodeType, space: dict[str, Any]) -> Staged:
    names = {*code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars}
    if not is_users(code.co_filename) or not _LOCALS.isdisjoint(names):
        return Staged(code)
    whole = not (
        code.co_flags & _NOT_PLAIN
        or "__class__" in code.co_freevars
        or not _UNKNOWABLE.isdisjoint(names)
        or any(n.startswith("__") and not n.endswith("__") for n in names)
    )
    if not (whole or identities(code)):
        return Staged(code)
    for node in functions_in(code.co_filename, space).get(code.co_firstlineno, []):
        # The text may have changed since, and a line may hold several functions.
        if _named(node) == code.co_name and _is_of(code, _compiled(code, node, space)):
            if not whole:
                return Staged(code, _compiled(code, _asking(node), space))
            stager = _Stager()
            made = stager.function(copy.deepcopy(node))
            pure = is_pure(_body(node)) and not _declared(_body(node))
            return Staged(code, _compiled(code, made, space), pure, stager.joins)
    return Staged(code)


def _named(node: ast.AST) -> str:
    return node.name if isinstance(node, ast.FunctionDef) else "<lambda>"


def _body(node: Any) -> list[ast.AST]:
    return node.body if isinstance(node.body, list) else [node.body]


def _is_of(code: CodeType, other: CodeType | None) -> bool:
    return (
        other is not None
        and code.co_code == other.co_code
        and code.co_names == other.co_names
        and code.co_varnames == other.co_varnames
        and code.co_freevars == other.co_freevars
        and [c for c in code.co_consts if type(c) is not CodeType]
        == [c for c in other.co_consts if type(c) is not CodeType]
    )


def _compiled(code: CodeType, node: Any, space: dict[str, Any]) -> CodeType | None:
    """The code object of a function's tree, with the free variables of `code`."""
    node = copy.copy(node)
    node.args = _bare(node.args)
    if isinstance(node, ast.FunctionDef):
        node.decorator_list, node.returns = [], None
        inner: ast.stmt = node
    else:
        inner = ast.copy_location(ast.Expr(node), node)
    outer = definition("_outer", (*code.co_freevars, RUNTIME_NAME), [inner])
    ast.copy_location(outer, inner)
    # The compiler calls methods of what was imported in a way of its own.
    imports = [
        ast.Import([ast.alias(name)]) for name in imports_in(code.co_filename, space)
    ]
    module = ast.fix_missing_locations(ast.Module([*imports, outer], []))
    flags = code.co_flags & _FLAGS
    try:
        made = compile(module, code.co_filename, "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return None
    for _ in range(2):
        inside = [c for c in made.co_consts if type(c) is CodeType]
        if len(inside) != 1:
            return None
        made = inside[0]
    return made


def _bare(args: ast.arguments) -> ast.arguments:
    """Arguments without defaults and annotations, which the function object has."""

    def bare(arg: Any) -> Any:
        return arg and ast.copy_location(ast.arg(arg.arg), arg)

    return ast.arguments(
        [bare(a) for a in args.posonlyargs],
        [bare(a) for a in args.args],
        bare(args.vararg),
        [bare(a) for a in args.kwonlyargs],
        [None for _ in args.kwonlyargs],
        bare(args.kwarg),
        [],
    )


# ------------------------------------------------------------------------- rewriting
def _declared(body: Sequence[ast.AST]) -> set[str]:
    """Names that a function binds outside of itself."""
    return {
        name
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Global | ast.Nonlocal)
        for name in node.names
    }


class _Identities(ast.NodeTransformer):
    """Lets comparisons by identity ask, see `identity.py`, and leaves all else."""

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        if not any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            return node
        if len(node.ops) > 1:
            return _in_pairs(node, self)
        right = node.comparators[0]
        if isinstance(right, ast.Constant) and type(right.value) is not bool:
            return node
        made = _call("identical", node.left, right, at=node)
        if isinstance(node.ops[0], ast.IsNot):
            return _call("negated", made, at=node)
        return made

    def visit_MatchSingleton(self, node: ast.MatchSingleton) -> Any:
        if type(node.value) is not bool:
            return node
        runtime = ast.Name(RUNTIME_NAME, ast.Load())
        asks = ast.Attribute(runtime, str(node.value).lower(), ast.Load())
        return _placed(ast.MatchValue(asks), node)

    def _untouched(self, node: ast.AST) -> ast.AST:
        return node

    # Functions of their own; what calls them sees to them.
    visit_Lambda = visit_FunctionDef = visit_AsyncFunctionDef = _untouched
    visit_ClassDef = _untouched


def _asking(node: Any) -> Any:
    """A function of which only the comparisons by identity are changed."""
    node = copy.deepcopy(node)
    asking = _Identities()
    body = node.body
    node.body = (
        [asking.visit(s) for s in body]
        if isinstance(body, list)
        else asking.visit(body)
    )
    return node


def _in_pairs(node: ast.Compare, visitor: ast.NodeTransformer) -> Any:
    """`a < b < c` as `a < b and b < c`, if `b` may be read twice."""
    if not all(isinstance(m, ast.Name | ast.Constant) for m in node.comparators[:-1]):
        return node
    operands = [node.left, *node.comparators]
    pairs: list[ast.expr] = [
        _placed(ast.Compare(copy.deepcopy(a), [op], [copy.deepcopy(b)]), node)
        for a, op, b in zip(operands, node.ops, operands[1:], strict=False)
    ]
    return visitor.visit(ast.copy_location(ast.BoolOp(ast.And(), pairs), node))


class _Stager(_Identities):
    """Rewrites one function.

    Attributes:
        joins: whether something in it may be joined.
    """

    def __init__(self) -> None:
        self.joins = False
        self.bound: dict[str, None] = {}
        self.declared: set[str] = set()
        self.reads: Counter[str] = Counter()
        self.tested: Counter[str] = Counter()
        self.count = 0

    def function(self, node: Any) -> Any:
        """The function with its branches and loops as calls."""
        if isinstance(node, ast.Lambda):
            node.body = self.visit(node.body)
            return node
        self.declared = _declared(node.body)
        node.body = normalised(node.body)
        self.reads = Counter(loads(node.body))
        self.tested = Counter(tested(node.body))
        node.body = self._block(node.body)
        mine = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
        names = [name for name in self.bound if name not in mine]
        if names:
            # Makes the names the function's own where only its arms bind them.
            targets: list[ast.expr] = [ast.Name(name, ast.Store()) for name in names]
            never = ast.If(
                ast.Constant(False), [ast.Assign(targets, ast.Constant(None))], []
            )
            node.body.insert(0, _placed(never, node.body[0]))
        return node

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for statement in body:
            found = self.visit(statement)
            made += found if isinstance(found, list) else [found]
        return made

    # ------------------------------------------------------------------- statements
    def visit_If(self, node: ast.If) -> Any:
        arms = node.body, node.orelse
        returns = all(map(always_returns, arms))
        names = assigned([*node.body, *node.orelse])
        if not (
            is_pure([*node.body, *node.orelse])
            and self.declared.isdisjoint(names)
            and not leaves_loop([*node.body, *node.orelse], returns=not returns)
        ):
            return self.generic_visit(node)
        spare = self._spare(names, arms)
        functions = [self._arm(body, node) for body in arms]
        name = "returned" if returns else "branch"
        parts = [ast.Name(f.name, ast.Load()) for f in functions]
        lists = [_strings(names)]
        if not returns:
            lists += [_strings(spare), _strings(self._flags(names))]
        call = _call(name, self.visit(node.test), *parts, *lists, at=node.test)
        end = ast.Return(call) if returns else ast.Expr(call)
        return [*functions, _placed(end, node.test)]

    def visit_While(self, node: ast.While) -> Any:
        names = assigned(node.body)
        if (
            node.orelse
            or not is_pure([node.test, *node.body])
            or not self.declared.isdisjoint(names)
            or leaves_loop(node.body)
        ):
            return self.generic_visit(node)
        spare = self._spare(names, (node.body,))
        made = [n for n in names if surely_binds(node.body, n)]
        plain = counted(node.body) | turns_named(node.body)
        counts = [n for n in names if n in plain or n in self._flags(names)]
        test = self._thunk(node.test)
        body = self._arm(node.body, node)
        call = _call(
            "loop",
            test,
            ast.Name(body.name, ast.Load()),
            *[_strings(n) for n in (names, spare, counts, updated(node.body), made)],
            at=node.test,
        )
        return [body, _placed(ast.Expr(call), node.test)]

    def _flags(self, names: Sequence[str]) -> list[str]:
        """The names of which nothing but their truth is asked."""
        return [n for n in names if is_made(n) or self.reads[n] == self.tested[n]]

    def _spare(self, names: list[str], arms: Sequence[list[ast.stmt]]) -> list[str]:
        """The names that nothing reads but the arm itself that bound them.

        The test reads, in a loop, what the turn before has bound.
        """
        inside = Counter([name for arm in arms for name in loads(arm)])
        return [
            n
            for n in names
            if self.reads[n] == inside[n] and all(binds_first(a, n) for a in arms)
        ]

    def _arm(self, body: list[ast.stmt], at: ast.stmt) -> ast.FunctionDef:
        """A function of the statements of an arm."""
        self.joins = True
        names = assigned(body)
        self.bound.update(dict.fromkeys(names))
        made: list[ast.stmt] = [ast.Nonlocal(names)] if names else []
        made += self._block(body) or [ast.Pass()]
        self.count += 1
        function = definition(f"_arm_{self.count}", [], made)
        return _placed(function, body[0] if body else at)

    # ------------------------------------------------------------------- expressions
    def _thunk(self, node: ast.expr) -> ast.expr:
        return self._lambda(self.visit(node))

    @staticmethod
    def _lambda(body: ast.expr) -> ast.expr:
        arguments = ast.arguments([], [], None, [], [], None, [])
        return ast.copy_location(ast.Lambda(arguments, body), body)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        if not is_pure([node.body, node.orelse]):
            return self.generic_visit(node)
        self.joins = True
        arms = [self._thunk(node.body), self._thunk(node.orelse)]
        return _call("choice", self.visit(node.test), *arms, at=node)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        if not is_pure(node.values[1:]):
            return self.generic_visit(node)
        self.joins = True
        name = "both" if isinstance(node.op, ast.And) else "either"
        *first, made = node.values
        last = self.visit(made)
        for value in reversed(first):
            arguments = ast.arguments([], [], None, [], [], None, [])
            rest = ast.copy_location(ast.Lambda(arguments, last), value)
            last = _call(name, self.visit(value), rest, at=node)
        return last

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        self.joins = True
        return _call("negated", node.operand, at=node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        if len(node.ops) == 1:
            return super().visit_Compare(node)
        made = _in_pairs(node, self)
        return self.generic_visit(node) if made is node else made

    def visit_Call(self, node: ast.Call) -> Any:
        if is_runtime_call(node):
            return self._of_runtime(node)
        self.generic_visit(node)
        node.func = _call("call", node.func, at=node.func)
        return node

    def _of_runtime(self, node: ast.Call) -> ast.Call:
        assert isinstance(node.func, ast.Attribute)
        node.args = [self.visit(a) for a in node.args]
        for named in node.keywords:
            named.value = self.visit(named.value)
        if node.func.attr == "still":
            node.args[1] = self._lambda(node.args[1])
        return node

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            return node
        return _call("attribute", node.value, ast.Constant(node.attr), at=node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Store):
            node.value = _call("stored", node.value, at=node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        read = ast.Name(node.target.id, ast.Load())
        check = ast.Expr(_call("changed", read, at=node))
        return [_placed(check, node), node]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        # An arm cannot annotate a name of the function around.
        plain = ast.Assign([node.target], node.value) if node.value else ast.Pass()
        return _placed(plain, node)

    def visit_For(self, node: ast.For) -> Any:
        self.generic_visit(node)
        node.iter = _call("iterated", node.iter, at=node.iter)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> Any:
        self.generic_visit(node)
        node.iter = _call("iterated", node.iter, at=node.iter)
        return node

    def _asked(self, node: ast.AST) -> ast.AST:
        return _Identities().visit(node)

    visit_GeneratorExp = visit_Match = visit_Delete = visit_JoinedStr = _asked


def _placed(made: Any, at: ast.AST) -> Any:
    """A tree with the place of another where it has none."""
    ast.copy_location(made, at)
    placed(made, at)
    return made


def _strings(names: Sequence[str]) -> ast.expr:
    return ast.Tuple([ast.Constant(n) for n in names], ast.Load())


def _call(name: str, *arguments: ast.expr, at: ast.AST) -> ast.Call:
    return _placed(runtime_call(name, *arguments), at)
