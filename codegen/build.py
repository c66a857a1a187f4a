"""From routines to a module: parameters, comments, results, docstrings."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from tracegrad.codegen.arms import lone_results, section_body
from tracegrad.codegen.backends import Backend
from tracegrad.codegen.checks import check_arrays
from tracegrad.codegen.control import ControlLowering
from tracegrad.codegen.lower import Constants, Line
from tracegrad.codegen.memory import is_view
from tracegrad.codegen.names import Namer, identifier
from tracegrad.codegen.printer import (
    Comment,
    docstring,
    to_source,
    with_comment,
)
from tracegrad.codegen.sharing import share_names
from tracegrad.codegen.template import Context, literal, name
from tracegrad.codegen.turns import find_turns
from tracegrad.ir.graph import BACKWARD, Const, Node, Value
from tracegrad.ir.routine import Parameter, Pullback, Routine, Section, SizeFact
from tracegrad.ir.syntax import definition
from tracegrad.ir.tree import Branch, Leaf, Static, Tree, paths
from tracegrad.ir.types import Size

# The function of a saved module that verifies its arguments.
CHECK = "check_arguments"
WIDTH = 88
# A leaf read at most this often is read out of the user's container in place.
_INLINE_READS = 2
_SIMPLE = (bool, int, float, complex, str, bytes, type(None))


class FunctionBuilder:
    """Writes one routine as a function definition.

    Args:
        routine: what to write.
        context: shared by the functions of the module.
        constants: the module's captured arrays.
        taken: module-level names.
        documented: whether the function has a docstring.
        checked: whether it calls the function that verifies its arguments.
    """

    def __init__(
        self,
        routine: Routine,
        context: Context,
        constants: Constants,
        taken: Sequence[str],
        documented: bool,
        checked: bool = False,
    ) -> None:
        self.routine = routine
        self.context = context
        self.documented = documented
        self.checked = checked
        self.namer = Namer(taken)
        context.begin(self.namer.claim)
        graph = routine.graph
        plain = routine.pullback is None and not any(n.derived for n in graph.nodes)
        lone = lone_results(routine) if plain else set()
        for parameter in routine.parameters:
            self.namer.reserve(parameter.name)
        self.lowering = ControlLowering(
            graph, context, self.namer, constants, lone, routine.pullback is not None
        )
        self.lowering.arguments = set(graph.params)
        if context.backend.mutable:
            self.lowering.all_turns = find_turns(graph)
        self.branches: list[tuple[Branch, ast.expr]] = []
        self.head: list[ast.stmt] = []
        self.lines: dict[int, Line] = {}

    def build(self) -> ast.FunctionDef:
        """The definition."""
        for parameter in self.routine.parameters:
            self._bind(parameter)
        section = self.routine.section
        if section is None:
            section = Section(self.routine.graph.nodes, end=self.routine)
        body = section_body(self, section)
        sizes = self._sizes(body)
        body = self._documentation() + self._check() + self.head + sizes + body
        made = definition(self.routine.name, self._arguments(), body)
        if self.context.backend.mutable:
            share_names(made, self._names(), self.lowering.called, self._dropped)
        return made

    def _names(self) -> set[str]:
        """The names that the user gave to values."""
        graph = self.routine.graph
        made = [v for node in graph.walk() for v in node.outputs if v.user]
        given = {p.name for p in self.routine.parameters}
        return given | {v.hint for v in (*graph.params, *made) if v.hint}

    def _dropped(self, gone: ast.stmt, before: ast.stmt) -> None:
        """Where a statement goes, its comment stays with those that it was for."""
        line, last = self.lines.get(id(gone)), self.lines.get(id(before))
        text = getattr(gone, "comment", None)
        if text and line and last and not last.blocks and last.at == line.at:
            with_comment(before, text)

    # ------------------------------------------------------------------ parameters
    def _arguments(self) -> ast.arguments:
        kinds = inspect.Parameter
        groups: dict[Any, list[Parameter]] = {}
        for parameter in self.routine.parameters:
            groups.setdefault(parameter.kind, []).append(parameter)
        positional = groups.get(kinds.POSITIONAL_ONLY, [])
        plain = groups.get(kinds.POSITIONAL_OR_KEYWORD, [])
        keyword = groups.get(kinds.KEYWORD_ONLY, [])
        defaults: list[ast.expr] = []
        for p in positional + plain:
            default = _default(p, self.context)
            # One that cannot be written makes those before it required too.
            defaults = [] if default is None else [*defaults, default]
        return ast.arguments(
            [_argument(p) for p in positional],
            [_argument(p) for p in plain],
            None,
            [_argument(p) for p in keyword],
            [_default(p, self.context) for p in keyword],
            None,
            defaults,
        )

    def _bind(self, parameter: Parameter) -> None:
        """Say how each leaf of a parameter is read."""
        lower = self.lowering
        if isinstance(parameter.tree, Leaf):
            v = parameter.tree.value
            lower.variables[v] = parameter.name
            return
        self._note_branches(parameter.tree, name(parameter.name))
        for path, leaf in paths(parameter.tree):
            v = leaf.value
            stem = _stem(parameter.name, path)
            if v.prefix == "t" and not stem.startswith("t_"):
                stem = f"t_{stem}"
            lower.stems[v] = stem
            where = _access(name(parameter.name), path, self.context)
            reads = len(lower.plan.readers.get(v, ()))
            if len(path) == 1 and reads <= _INLINE_READS:
                lower.access[v] = where
            elif reads or v in self.routine.graph.results or self._typed(v):
                variable = self.namer.claim(stem)
                lower.variables[v] = variable
                if variable != stem:  # `d_w_2` is the cotangent of `w_2`
                    lower.stems[v] = variable
                target = ast.Name(variable, ast.Store())
                self.head.append(ast.Assign([target], where, lineno=0))

    def _typed(self, v: Value) -> bool:
        return any(v in node.inputs for node in self.routine.graph.nodes)

    def _note_branches(self, tree: Tree, where: ast.expr) -> None:
        if isinstance(tree, Branch):
            self.branches.append((tree, where))
            for key, child in zip(tree.keys, tree.children, strict=True):
                step = ((tree.kind, key),)
                self._note_branches(child, _access(where, step, self.context))

    def _sizes(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """`n = x.shape[0]` for each symbolic size that the body reads.

        One that it reads once is written where it is read.
        """
        if not self.context.sizes:
            return []
        reads = Counter(
            n.id for stmt in body for n in ast.walk(stmt) if isinstance(n, ast.Name)
        )
        made: list[ast.stmt] = []
        once: dict[str, ast.expr] = {}
        for symbol, variable in self.context.sizes.items():
            if symbol not in self.routine.graph.sizes:
                continue  # the number of true elements of a mask, written there
            v, axis = self.routine.graph.sizes[symbol]
            statement = _read_size(variable, self.lowering.expression(v), axis)
            if reads[variable] == 1:
                once[variable] = statement.value
            elif reads[variable]:
                made.append(statement)
        for stmt in body if once else ():
            _WithSizes(once).visit(stmt)
        return made

    def _check(self) -> list[ast.stmt]:
        """A call of the function that verifies the arguments, in a saved module."""
        if not self.checked:
            return []
        args: list[ast.expr] = [name(p.name) for p in self.routine.parameters]
        return [ast.Expr(ast.Call(name(CHECK), args, []))]

    # ------------------------------------------------------------------ the body
    def ending(self, end: Routine, nodes: Sequence[Node]) -> list[ast.stmt]:
        """What follows the statements of `nodes` at the end of a trace."""
        if end.pullback is None:
            return [ast.Return(self._returned(end.result))]
        backward = [n for n in nodes if n.phase == BACKWARD]
        function = self._pullback(end.pullback, backward)
        out = self._returned(end.result)
        pair = ast.Tuple([out, name(end.pullback.name)], ast.Load())
        return [function, ast.Return(pair)]

    def _pullback(
        self, pullback: Pullback, backward: Sequence[Node]
    ) -> ast.FunctionDef:
        lower = self.lowering
        lower.indent += 4
        trees = {"d_out": pullback.cotangent}
        if pullback.spread:
            assert isinstance(pullback.cotangent, Branch)
            parts = pullback.cotangent.children
            trees = dict(zip(pullback.spread, parts, strict=True))
        arguments: list[str] = []
        before, self.head = self.head, []
        for wanted, tree in trees.items():
            if isinstance(tree, Leaf):
                wanted = tree.value.hint or wanted
            arguments.append(self.namer.claim(wanted))
            self._bind(Parameter(arguments[-1], None, tree))
        head, self.head = self.head, before
        body = head + self.commented(lower.run(backward), False)
        body.append(ast.Return(self._returned(pullback.result)))
        lower.indent -= 4
        return definition(pullback.name, arguments, body)

    def commented(
        self,
        lines: Sequence[Line],
        phases: bool,
        phase: str | None = None,
        around: int = 0,
    ) -> list[ast.stmt]:
        """The statements, with the phases and the user's lines in comments.

        Args:
            lines: what was lowered.
            phases: whether comments name the phases.
            phase: of the statement before.
            around: in a region, how many of the user's frames are around it.
        """
        body: list[ast.stmt] = []
        for line, after in zip_longest(lines, lines[1:]):
            if phases and line.phase != phase:
                phase = line.phase
                body.append(Comment(phase))
            for statements, inner in line.blocks:
                depth = len(line.node.at)
                statements[:] = self.commented(inner, False, None, depth)
            where = _where(line, around)
            last = (
                after is None
                or _where(after, around) != where
                or after.phase != line.phase
            )
            if where and (last or line.blocks):
                of = "of " if line.phase == BACKWARD else ""
                with_comment(line.statement, f"{of}{where}")
            body.append(line.statement)
            self.lines[id(line.statement)] = line
        return body

    # ------------------------------------------------------------------ results
    def _returned(self, tree: Tree) -> ast.expr:
        self._shared: set[Value] = set()
        return self._structure(tree)

    def _structure(self, tree: Tree) -> ast.expr:
        if isinstance(tree, Leaf):
            return self._result(tree.value)
        if isinstance(tree, Static):
            return literal(tree.value, self.context)
        children = [self._structure(c) for c in tree.children]
        if tree.type is tuple:
            return ast.Tuple(children, ast.Load())
        if tree.type is list:
            return ast.List(children, ast.Load())
        if tree.type is dict:
            return self._dict(tree, children)
        return self._rebuilt(tree, children)

    def _dict(self, tree: Branch, children: list[ast.expr]) -> ast.Dict:
        return ast.Dict([literal(k, self.context) for k in tree.keys], children)

    def _rebuilt(self, tree: Branch, children: list[ast.expr]) -> ast.expr:
        """A container of the user's own class, made by the class of an argument."""
        function: ast.expr | None = None
        for branch, where in self.branches:
            if branch.type is tree.type:
                function = ast.Call(name("type"), [where], [])
                break
        if function is None:
            function = name(self.context.import_class(tree.type))
        if tree.kind == "dict":
            return ast.Call(function, [self._dict(tree, children)], [])
        keywords = [
            ast.keyword(str(k), c) for k, c in zip(tree.keys, children, strict=True)
        ]
        return ast.Call(function, [], keywords)

    def _result(self, v: Value) -> ast.expr:
        """A returned array, which shares its memory with nothing else."""
        made = self.lowering.expression(v)
        if isinstance(v, Const):
            if not isinstance(v.value, np.ndarray):
                return made
        elif v.type.weak or (not v.type.shape and v in self.lowering.plan.producer):
            return made  # a scalar is immutable
        memory = self._memory(v)
        own = self._is_made(memory) and memory not in self._shared
        self._shared.add(memory)
        if own and (memory is v or v.type.shape == memory.type.shape):
            return made
        if own and not self._repeats(v):
            return made
        return ast.Call(ast.Attribute(made, "copy", ast.Load()), [], [])

    def _is_made(self, v: Value) -> bool:
        """Whether the function makes the array, which is no argument's then."""
        plan = self.lowering.plan
        if v not in plan.producer:
            return False
        regions = self.routine.graph.nodes[plan.producer[v]].regions
        return not regions or v in plan.fresh

    def _memory(self, v: Value) -> Value:
        plan, nodes = self.lowering.plan, self.routine.graph.nodes
        while v in plan.producer and is_view(nodes[plan.producer[v]]):
            v = nodes[plan.producer[v]].inputs[0]
        return v

    def _repeats(self, v: Value) -> bool:
        """Whether a view may show one element many times (and so is read-only)."""
        size: Size = 1
        for s in v.type.shape:
            size = size * s
        base: Size = 1
        for s in self._memory(v).type.shape:
            base = base * s
        return size != base

    # ------------------------------------------------------------------ documentation
    def _documentation(self) -> list[ast.stmt]:
        if not self.documented:
            return []
        plain = self.routine.name == self.routine.of
        text = (self.routine.doc if plain else None) or self.routine.purpose
        return [docstring(wrapped(inspect.cleandoc(text), 4 + 2 * len('"""')), 1)]


def wrapped(text: str, extra: int = len('"""')) -> str:
    """A docstring whose first paragraph fits the width, `extra` columns apart."""
    first, gap, rest = text.partition("\n")
    if len(first) + extra <= WIDTH:
        return text
    return textwrap.fill(first, WIDTH - extra, break_long_words=False) + gap + rest


def check_arguments(routine: Routine, context: Context) -> ast.FunctionDef | None:
    """The function of a saved module that verifies what was decided while tracing.

    In the process that traced the function, guards do this.  None if any arguments fit.
    """
    namer = Namer([p.name for p in routine.parameters])
    context.begin(namer.claim)
    parts: list[str] = []
    arrays: list[ast.expr] = []
    body: list[ast.stmt] = []
    where: dict[Value, ast.expr] = {}
    for parameter in routine.parameters:
        body += _check_static(parameter.tree, name(parameter.name), context)
        for path, leaf in paths(parameter.tree):
            array = where[leaf.value] = _access(name(parameter.name), path, context)
            sizes = ", ".join(map(str, leaf.value.type.shape))
            parts.append(f"{_kind(leaf.value, routine)}{to_source(array)}[{sizes}]")
            arrays.append(array)
    if any(v.type.shape for v in where):  # numbers alone are not worth a function
        spec: ast.expr = ast.Constant("; ".join(parts).replace('"', "'"))
        call = context.call_function(check_arrays, [spec, *arrays])
        body.append(ast.Expr(call))
    facts = [_check_fact(fact, context) for fact in routine.facts]
    for symbol, variable in context.sizes.items():
        v, axis = routine.graph.sizes[symbol]
        body.append(_read_size(variable, where[v], axis))
    body += facts
    if not body:
        return None
    text = "Raise ValueError for arguments that the gradient was not derived for."
    arguments = [p.name for p in routine.parameters]
    return definition(CHECK, arguments, [docstring(text, 1), *body])


def _kind(v: Value, routine: Routine) -> str:
    """What `check_arrays` is told of the dtype that an argument must have."""
    if v.type.kind == "c":
        return "complex "
    if v.type.weak:
        return ""  # a Python number
    return "float " if v in routine.wrt and v.type.kind == "f" else ""


def _check_static(tree: Tree, where: ast.expr, context: Context) -> list[ast.stmt]:
    """A refusal of what decided the program: other structures, flags and numbers."""
    if isinstance(tree, Branch):
        made = _check_structure(tree, where, context)
        for key, child in zip(tree.keys, tree.children, strict=True):
            inner = _access(where, ((tree.kind, key),), context)
            made += _check_static(child, inner, context)
        return made
    if not isinstance(tree, Static) or type(tree.value) not in _SIMPLE:
        return []
    is_none = tree.value is None
    value = literal(tree.value, context)
    test = ast.Compare(where, [ast.IsNot() if is_none else ast.NotEq()], [value])
    wanted = ast.Compare(where, [ast.Is() if is_none else ast.Eq()], [value])
    return [_refusal(test, f"derived for {to_source(wanted)}")]


def _check_structure(tree: Branch, where: ast.expr, context: Context) -> list[ast.stmt]:
    """A refusal of a dict with other keys, or of a list or tuple of another length.

    In their order, for the function may have gone through them in it.
    """
    if tree.kind == "dict":
        found: ast.expr = ast.List([ast.Starred(where, ast.Load())], ast.Load())
        keys = [literal(key, context) for key in tree.keys]
        wanted: ast.expr = ast.List(keys, ast.Load())
    elif tree.kind in ("list", "tuple"):
        found = ast.Call(name("len"), [where], [])
        wanted = ast.Constant(len(tree.keys))
    else:
        return []
    test = ast.Compare(found, [ast.NotEq()], [wanted])
    needed = to_source(ast.Compare(found, [ast.Eq()], [wanted]))
    return [_refusal(test, f"derived for {needed}")]


def _check_fact(fact: SizeFact, context: Context) -> ast.stmt:
    equal = fact.relation == "=="
    holds: list[ast.cmpop] = [ast.Eq(), ast.NotEq()] if equal else [ast.GtE(), ast.Lt()]
    left, right = (literal(s, context) for s in (fact.left, fact.right))
    wanted, test = holds if fact.outcome else reversed(holds)
    text = f"derived for {to_source(ast.Compare(left, [wanted], [right]))}"
    return _refusal(ast.Compare(left, [test], [right]), text)


def _refusal(test: ast.expr, text: str) -> ast.stmt:
    error = ast.Call(name("ValueError"), [ast.Constant(text)], [])
    return ast.If(test, [ast.Raise(error, None)], [])


class _WithSizes(ast.NodeTransformer):
    """Writes sizes where their variables stand."""

    def __init__(self, sizes: dict[str, ast.expr]) -> None:
        self.sizes = sizes

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.sizes.get(node.id, node)


def _read_size(variable: str, array: ast.expr, axis: int) -> ast.Assign:
    """`n = x.shape[0]`."""
    shape = ast.Attribute(array, "shape", ast.Load())
    read = ast.Subscript(shape, ast.Constant(axis), ast.Load())
    return ast.Assign([ast.Name(variable, ast.Store())], read, lineno=0)


def _where(line: Line, around: int = 0) -> str:
    """The user's line: in a region, the one in the function that the region is of."""
    return line.at[min(around, len(line.at) - 1)].where if line.at else ""


def _argument(parameter: Parameter) -> ast.arg:
    annotation = None
    if parameter.annotation:
        annotation = ast.parse(parameter.annotation, mode="eval").body
    return ast.arg(parameter.name, annotation)


def _default(parameter: Parameter, context: Context) -> ast.expr | None:
    """The default as a literal, or None where there is none or it is no literal."""
    if type(parameter.default) in _SIMPLE:
        return literal(parameter.default, context)
    return None


def _stem(parameter: str, path: tuple) -> str:
    """A name for a leaf: its key, or the parameter with its positions."""
    last = path[-1][1]
    if isinstance(last, str) and last.isidentifier():
        return last
    return identifier("_".join([parameter, *[str(k) for _, k in path]]))


def _access(where: ast.expr, path: tuple, context: Context) -> ast.expr:
    """`params["w1"][0].scale` for a path."""
    for kind, key in path:
        if kind in ("namedtuple", "dataclass"):
            where = ast.Attribute(where, key, ast.Load())
        else:
            where = ast.Subscript(where, literal(key, context), ast.Load())
    return where


def import_statements(context: Context) -> list[ast.stmt]:
    """The imports of a module, sorted as `ruff` sorts them."""
    jax = context.backend.name == "jax"
    sources = {
        alias: library.jax if jax and library.jax else library.module
        for alias, library in context.libraries.items()
    }
    plain = [(s, None) for alias, s in sources.items() if s == alias]
    imports = sorted([*plain, context.backend.imports], key=lambda pair: pair[0])
    made: list[ast.stmt] = [ast.Import([ast.alias(*pair)]) for pair in imports]
    for alias, source in sorted(sources.items()):
        parent, _, child = source.rpartition(".")
        if not parent:
            continue
        made.append(
            ast.ImportFrom(
                parent, [ast.alias(child, alias if alias != child else None)], 0
            )
        )
    for alias, called in sorted(context.outsides.items()):
        home = called.home
        if home is not None:
            module, own = home
            renamed = ast.alias(own, None if own == alias else alias)
            made.append(ast.ImportFrom(module, [renamed], 0))
    return made


def needs(context: Context, backend: Backend) -> str:
    """What the emitted file needs, as its docstring says it."""
    homes = [called.home for called in context.outsides.values()]
    modules = {home[0] for home in homes if home is not None}
    modules |= {lib.module for lib in context.libraries.values()}
    own = {m for m in modules if m.partition(".")[0] not in ("numpy", "scipy", "jax")}
    found = [backend.needs]
    if backend.name == "numpy" and any(m.partition(".")[0] == "scipy" for m in modules):
        found.append("SciPy")
    *rest, last = [*found, *sorted(own)]
    text = f"{', '.join(rest)} and {last}" if rest else last
    return f"Needs {text} only."
