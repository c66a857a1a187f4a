"""From a graph to statements: expressions, names, and the width of lines."""

from __future__ import annotations

import ast
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracegrad.codegen.memory import MAX_ORDER, is_view
from tracegrad.codegen.names import Namer
from tracegrad.codegen.plan import Body, Plan, make_plan
from tracegrad.codegen.printer import fits
from tracegrad.codegen.template import (
    Context,
    Template,
    as_method,
    factors_in_line,
    in_place_statements,
    literal,
    name,
    number,
    sign_inward,
    signs_in_line,
    subtracting,
)
from tracegrad.codegen.width import bounds
from tracegrad.errors import UnsupportedError
from tracegrad.ir.graph import BACKWARD, Const, Graph, Node, Value
from tracegrad.ir.location import Chain
from tracegrad.ops.call import call
from tracegrad.ops.cast import astype
from tracegrad.ops.control_guard import fails, holds
from tracegrad.ops.define import OPERATORS
from tracegrad.ops.index import getitem
from tracegrad.ops.infer import same_type_input
from tracegrad.ops.outside import Outside, helper_of, on_host

WIDTH = 88
_PRODUCTS = (OPERATORS["__mul__"], OPERATORS["__truediv__"])
# What is written inside of the product that it applies to.
_MOVING = (OPERATORS["__neg__"], OPERATORS["__mul__"])


@dataclass(slots=True)
class Line:
    """One emitted statement.

    Attributes:
        statement: the syntax tree.
        at: the user's frames that it comes from.
        phase: "forward" or "backward".
        node: the node whose value it makes.
        blocks: of a compound statement, (its list of statements, the lines in it).
    """

    statement: ast.stmt
    at: Chain
    phase: str
    node: Node
    blocks: tuple[tuple[list[ast.stmt], list[Line]], ...] = ()


class Lowering:
    """Writes the nodes of one graph as statements.

    Args:
        graph: after all passes.
        context: shared by the functions of a module.
        namer: names of this function.
        constants: the module's names of captured arrays.
        indent: columns before the statements.
        lone: results that may stand in a `return` itself.
        split: whether the backward part becomes a function of its own.
        body: for a region, what is around it.

    Attributes:
        variables: value -> the variable that holds it.
        access: array parameter -> how it is read out of the user's argument.
        stems: array parameter -> the name that its cotangent is made from.
        lines: the statements so far.
    """

    def __init__(
        self,
        graph: Graph,
        context: Context,
        namer: Namer,
        constants: Constants,
        lone: Set[Value] = frozenset(),
        split: bool = False,
        body: Body | None = None,
    ) -> None:
        self.graph = graph
        self.split = split
        self.context = context
        self.namer = namer
        self.constants = constants
        self.templates: dict[Any, Template] = {}
        self.plan: Plan = make_plan(graph, self._uses, lone, split, body)
        self.variables: dict[Value, str] = {}
        self.access: dict[Value, ast.expr] = {}
        self.stems: dict[Value, str] = {}
        self.lines: list[Line] = []
        self.indent = 4

    # ------------------------------------------------------------------ templates
    def template(self, node: Node) -> Template:
        """The template of a node, shared by nodes with the same attributes."""
        key = (node.op.name, len(node.inputs), tuple(node.attrs.items()))
        found = self.templates.get(key)
        if found is None:
            found = Template(node.op, node.attrs, self.context, len(node.inputs))
            self.templates[key] = found
        return found

    def _uses(self, node: Node) -> Sequence[int]:
        in_place = node.op.inplace is not None and self.context.backend.mutable
        if in_place or node.op.guards:
            return [1] * len(node.inputs)
        return self.template(node).uses

    # ------------------------------------------------------------------ expressions
    def expression(self, v: Value) -> ast.expr:
        """How a value is read at this point."""
        known = self.variables.get(v)
        if known is not None:
            return name(known)
        if v in self.access:
            return self.access[v]
        if isinstance(v, Const):
            return self._constant(v)
        return self.compute(self.graph.nodes[self.plan.producer[v]])

    def compute(self, node: Node) -> ast.expr:
        """The expression of a node over the expressions of its inputs."""
        only = node.op.type_only
        args = [
            self._typed(v) if k in only else self._operand(v, node)
            for k, v in enumerate(node.inputs)
        ]
        if type(node.attrs.get("function")) is Outside:
            return self._outside(node, args)
        if node.op is call:
            assert self.context.body is not None
            return ast.Call(self.context.body(node.attrs["body"]), args, [])
        if node.op is astype and node.derived and self._may_be_number(node.inputs[0]):
            kind = literal(np.dtype(node.attrs["dtype"]), self.context)
            return ast.Call(kind, args, [])
        template = self.template(node)
        if node.op.emitter is not None:
            return _aliased(node.op.emitter(args, node.attrs), self.context)
        if template.expression is not None:
            made = template.fill(args)
            moves = node.op in _MOVING and self._starts_in_floats(node.inputs[-1])
            if moves:
                made = sign_inward(made)
            if not node.derived:
                return made
            plain = node.inputs and not node.inputs[0].type.weak
            made = as_method(made) if plain else made
            return signs_in_line(factors_in_line(made) if moves else made)
        return self.context.call_helper(node.op, args, node.attrs)

    def _outside(self, node: Node, args: list[ast.expr]) -> ast.expr:
        """A call of a function that was not traced, or its derivative by differences.

        Raises:
            UnsupportedError: for differences in JAX source, which can't store.
        """
        called: Outside = node.attrs["function"]
        helper = helper_of(node.op, node.attrs)
        on_device = not self.context.backend.mutable
        if on_device and helper is not None:
            raise UnsupportedError(
                f"the derivative of {called.name} by differences takes NumPy arrays",
                op=node.op.spelling,
                at=node.at[-1] if node.at else None,
                fix='use backend="numpy"',
            )
        function = self.context.outside(called)
        if on_device:
            like = node.out.type
            told = [literal(x, self.context) for x in (like.shape, like.dtype.name)]
            return self.context.call_function(on_host, [function, *told, *args])
        if helper is None:
            return ast.Call(function, args, [])
        ct, *rest = args
        given = ast.Tuple(rest, ast.Load())
        position = number(node.attrs["position"])
        return self.context.call_function(helper, [function, given, position, ct])

    def _starts_in_floats(self, v: Value) -> bool:
        """Whether what a product starts with may be negated, or multiplied, first.

        There is no `-` of flags, that of unsigned integers wraps, and a number times an
        integer is double, whatever the other factors are.
        """
        while v not in self.variables and v in self.plan.producer:
            node = self.graph.nodes[self.plan.producer[v]]
            if node.op not in _PRODUCTS:
                break
            v = node.inputs[0]
        return v.type.differentiable or (isinstance(v, Const) and v.type.weak)

    def _typed(self, v: Value) -> ast.expr:
        """A variable of the type of `v`, which itself may never be made."""
        known = self.variables.get(v)
        if known is not None:
            return name(known)
        if v in self.plan.producer:
            like = same_type_input(self.graph.nodes[self.plan.producer[v]])
            if like is not None:
                return self._typed(like)
        return self.expression(v)

    def _operand(self, v: Value, node: Node) -> ast.expr:
        if isinstance(v, Const) and isinstance(v.value, np.generic):
            return self._numpy_scalar(v, node)
        made = self.expression(v)
        if self.context.backend.name == "jax" and self._needs_jax_array(v, node):
            library = name(self.context.backend.alias)
            return ast.Call(ast.Attribute(library, "asarray", ast.Load()), [made], [])
        return made

    def _needs_jax_array(self, v: Value, node: Node) -> bool:
        """Whether the node asks of a captured array what NumPy's own have not.

        That is a traced index, or `.at`; of what is computed of such arrays, too.
        """
        if not node.inputs or v is not node.inputs[0]:
            return False
        if node.op.inplace is not None:
            return isinstance(v, Const)
        if node.op is not getitem or not self._is_constant(v):
            return False
        return not all(map(self._is_constant, node.inputs[1:]))

    def _is_constant(self, v: Value, depth: int = 6) -> bool:
        """Whether a value is computed, in few steps, from captured arrays alone."""
        if isinstance(v, Const):
            return True
        made = self.plan.producer.get(v)
        inputs = [] if made is None or not depth else self.graph.nodes[made].inputs
        return bool(inputs) and all(self._is_constant(u, depth - 1) for u in inputs)

    def _may_be_number(self, v: Value, depth: int = 8) -> bool:
        """Whether a value without axes may be a Python number in the source.

        As one that a branch or a loop gives, or takes, where it is a literal.
        """
        if v.type.shape or isinstance(v, Const):
            return not v.type.shape
        made = self.plan.producer.get(v)
        if made is None or not depth:
            return True
        node = self.graph.nodes[made]
        if node.regions:
            return True
        return bool(node.inputs) and all(
            self._may_be_number(u, depth - 1) for u in node.inputs
        )

    def _numpy_scalar(self, v: Const, node: Node) -> ast.expr:
        """A NumPy scalar, as a plain number wherever that gives the same dtype."""
        plain = Const(v.value.item())
        if plain.type.weak:
            types = [(plain if u is v else u).type for u in node.inputs]
            if node.op.infer(*types, **node.attrs) == node.outputs[0].type:
                return literal(plain.value, self.context)
        return literal(v.value, self.context)

    def _constant(self, v: Const) -> ast.expr:
        if isinstance(v.value, np.ndarray):
            return name(self.constants.name_of(v))
        return literal(v.value, self.context)

    # ------------------------------------------------------------------ statements
    def run(self, nodes: Sequence[Node] | None = None) -> list[Line]:
        """The statements of `nodes` (all of them by default), in order."""
        first = len(self.lines)
        for node in self.graph.nodes if nodes is None else nodes:
            if node.op.guards:
                self._emit(ast.If(self.test(node), [self._refusal(node)], []), node)
            elif not node.outputs or any(v in self.plan.roots for v in node.outputs):
                self._statement(node)
        return self.lines[first:]

    def test(self, node: Node, passed: bool = False) -> ast.expr:
        """The test that a call takes another way than a guard's, or its way."""
        write = holds if passed else fails
        while True:
            made = write(node, self.expression(node.inputs[0]))
            line = ast.Expr(ast.Call(name("if_"), [made], []))  # wide as `if …:`
            if not self._too_wide(line) or not self._shorten(node):
                return made

    def _refusal(self, node: Node) -> ast.stmt:
        error = name(self.context.untraced())
        text = ast.Constant(node.attrs["where"])
        return ast.Raise(ast.Call(error, [text], []), None)

    def _statement(self, node: Node) -> None:
        i = self.plan.producer[node.outputs[0]]
        if i in self.plan.in_place:
            self._update(node, i)
        else:
            self._assign(node)

    def _assign(self, node: Node) -> None:
        targets = [self._preferred(v) for v in node.outputs]
        while True:
            value = self.compute(node)
            target = _target(targets)
            statement = ast.Assign([target], value, lineno=0)
            if not self._too_wide(statement):
                break
            if self._add_in_place(node):
                return
            if not self._shorten(node):
                break
        if node.op.binds:
            size = self.context.size(str(node.attrs[node.op.binds]))
            targets = [ast.unparse(size)]
        else:
            targets = [self._variable(v) for v in node.outputs]
        statement = ast.Assign([_target(targets)], value, lineno=0)
        self._emit(statement, node)
        self.variables.update(zip(node.outputs, targets, strict=True))

    def _add_in_place(self, node: Node) -> bool:
        """Write a sum that is too wide as two statements: `d_x = a` and `d_x += b`."""
        i = self.plan.producer[node.outputs[0]]
        base = node.inputs[0]
        if i not in self.plan.may_add or base in self.variables:
            return False
        base.hint = base.hint or self._preferred(node.outputs[0])
        self.plan.in_place.add(i)
        self.plan.roots.add(base)
        self._statement(self.graph.nodes[self.plan.producer[base]])
        self._update(node, i)
        return True

    def _update(self, node: Node, i: int) -> None:
        base = node.inputs[0]
        if i in self.plan.copied:
            copy = ast.Attribute(self.expression(base), "copy", ast.Load())
            variable = self._variable(node.out)
            if self.context.backend.mutable:
                self._emit(_assign(variable, ast.Call(copy, [], [])), node)
        else:
            variable = self.variables[base]
        self.variables[node.out] = variable
        if node.op.inplace is None:
            self._accumulate(node, variable)
            return
        if not self.context.backend.mutable:
            self._emit(_assign(variable, self.compute(node)), node)
            return
        while True:
            args = [self.expression(v) for v in node.inputs[1:]]
            made = in_place_statements(
                node.op, node.attrs, [name(variable), *args], self.context
            )
            if not any(map(self._too_wide, made)) or not self._shorten(node):
                break
        for statement in made:
            self._emit(statement, node)

    def _accumulate(self, node: Node, variable: str) -> None:
        adds = node.op is OPERATORS["__add__"]
        operator = ast.Add() if adds else ast.Sub()
        while True:
            target = ast.Name(variable, ast.Store())
            value = self._operand(node.inputs[1], node)
            statement = subtracting(ast.AugAssign(target, operator, value))
            if not self._too_wide(statement) or not self._shorten(node):
                break
        self._emit(statement, node)

    def _emit(self, statement: ast.stmt, node: Node) -> None:
        self.lines.append(Line(statement, node.at, node.phase, node))

    # ------------------------------------------------------------------ width
    def _too_wide(self, statement: ast.stmt) -> bool:
        least, most = bounds(statement)
        room = WIDTH - self.indent
        if most <= room or least > room:
            return least > room
        return not fits(statement, self.indent, WIDTH)

    def _shorten(self, node: Node) -> bool:
        """Make a statement of one part of a line that is too wide.

        Returns:
            False if the line has no part that could have a name of its own.
        """
        widths: dict[Value, int] = {}
        for v in node.inputs:
            self._width(v, widths)
        parts = [v for v in widths if self._nameable(v)]
        # Not the whole line but one operator, and not a short bit either.
        room = WIDTH - self.indent - 12
        fitting = [v for v in parts if 12 <= widths[v] <= room]
        if not fitting:
            fitting = [v for v in parts if widths[v] > room]
        if not fitting:
            return False
        chosen = max(fitting, key=lambda v: widths[v])
        self.plan.roots.add(chosen)
        self._statement(self.graph.nodes[self.plan.producer[chosen]])
        return True

    def _width(self, v: Value, widths: dict[Value, int]) -> int:
        """About how wide a value prints; `widths` collects it and all its parts."""
        if v in self.variables:
            return len(self.variables[v])
        if v in self.access or v not in self.plan.producer:
            # A loop's number of turns is `len(…)`, and is made with the loop.
            return bounds(self.expression(v))[0]
        if v not in widths:
            node = self.graph.nodes[self.plan.producer[v]]
            inner = [self._width(u, widths) for u in node.inputs]
            template = self.template(node)
            uses = zip(inner, template.uses, strict=True)
            widths[v] = template.width + sum([w * n for w, n in uses])
        return widths[v]

    def _nameable(self, v: Value) -> bool:
        node = self.graph.nodes[self.plan.producer[v]]
        return bool(node.inputs) and not is_view(node) and not node.op.type_only

    # ------------------------------------------------------------------ names
    def state(self) -> tuple:
        """What is known now, to come `back` to after a branch."""
        plan = self.plan
        sets = set(plan.roots), set(plan.in_place)
        return self.namer.state(), dict(self.variables), sets, set(self.context.sizes)

    def back(self, state: tuple) -> None:
        """Forget what was named and decided in a branch."""
        names, variables, (self.plan.roots, self.plan.in_place), sizes = state
        self.variables = dict(variables)
        self.namer.back(names)
        for symbol, variable in list(self.context.sizes.items()):
            if symbol in sizes or symbol in self.graph.sizes:
                self.namer.reserve(variable)
            else:
                del self.context.sizes[symbol]  # bound in the branch
        self.templates = {}  # they spell sizes

    def _variable(self, v: Value) -> str:
        return self.namer.claim(self._preferred(v))

    def _preferred(self, v: Value) -> str:
        if v.hint:
            return v.hint
        node = self.graph.nodes[self.plan.producer[v]]
        if node.derived:
            updates = self._updates(v)
            found = next((u.hint for u in updates if u.hint), None)
            # A value of the forward part may serve as a cotangent; it is not named
            # as one.
            found = found or next(
                filter(None, map(self._relative, [v, *updates])), None
            )
            if found is not None:
                return found
        if node.op.inplace is not None and node.inputs[0] in self.variables:
            return self.variables[node.inputs[0]]  # a copy with a change
        nouns = node.op.noun.split()
        noun = nouns[node.outputs.index(v)] if len(nouns) > 1 else nouns[0]
        for u in node.inputs:
            known = self.stems.get(u) or self.variables.get(u)
            if known is not None and len(node.inputs) == 1 and len(known) <= 16:
                return f"{noun}_{known}"
        is_cotangent = node.phase == BACKWARD and v.type.differentiable
        return f"d_{noun}" if is_cotangent else noun

    def _updates(self, v: Value) -> list[Value]:
        """What updates in place make of a value, in order."""
        found: list[Value] = []
        nodes, plan = self.graph.nodes, self.plan
        while True:
            made = [
                nodes[r].outputs[0]
                for r in plan.readers.get(v, ())
                if r in plan.in_place
                and r not in plan.copied
                and nodes[r].inputs[0] is v
            ]
            if not made:
                return found
            v = made[0]
            found.append(v)

    def _relative(self, v: Value) -> str | None:
        """A name for the cotangent or tangent of a value that has one."""
        if v.wrt is None:
            return None
        known = self._stem(v.wrt)
        if known is not None:
            return f"{v.prefix}_{known}"
        inside = self._holder(v.wrt)
        return None if inside is None else f"{v.prefix}_{inside}"

    def _stem(self, v: Value) -> str | None:
        """What the cotangent or tangent of a value is named after."""
        prefixes: list[str] = []
        while len(prefixes) <= MAX_ORDER:
            known = self.stems.get(v) or self.variables.get(v)
            if known is None and v.hint:
                known = v.hint
            if known is not None or v.wrt is None:
                break
            prefixes.append(v.prefix)
            v = v.wrt
        return None if known is None else "_".join([*prefixes, known])

    def _holder(self, v: Value) -> str | None:
        """What to call a value that was written inside the expression of a variable."""
        for _ in range(20):
            readers = self.plan.readers.get(v, ())
            readers = [r for r in readers if not self.graph.nodes[r].derived]
            if len(readers) != 1 or self.graph.nodes[readers[0]].op.guards:
                return None
            reader = self.graph.nodes[readers[0]]
            if reader.op.inplace is not None and v is not reader.inputs[0]:
                return "stored"
            v = reader.outputs[0]
            if v in self.variables:
                return f"{self.variables[v]}_pre"
        return None


class Constants:
    """Names of the captured arrays of a module.

    Attributes:
        named: name -> constant, in order of first use.
    """

    def __init__(self, namer: Namer) -> None:
        self.named: dict[str, Const] = {}
        self._namer = namer
        self._names: dict[int, str] = {}

    def name_of(self, v: Const) -> str:
        """The module-level name of a captured array."""
        key = id(v.value)
        if key not in self._names:
            self._names[key] = self._namer.claim(v.hint or "constant")
            self.named[self._names[key]] = v
        return self._names[key]


def _assign(variable: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(variable, ast.Store())], value, lineno=0)


def _target(names: list[str]) -> ast.expr:
    targets: list[ast.expr] = [ast.Name(n, ast.Store()) for n in names]
    return targets[0] if len(targets) == 1 else ast.Tuple(targets, ast.Store())


def _aliased(tree: ast.expr, context: Context) -> ast.expr:
    """`xp` in an emitter's expression becomes the name of the library."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "xp":
            node.id = context.backend.alias
    return tree
