"""Branches and loops as `if`, `while` and `for` statements of NumPy source.

A region is lowered by a `Lowering` of its own, which reads the variables around it.  A
carry has one variable: it is assigned before the loop, and again in every turn.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Sequence, Set
from typing import Any

import numpy as np

from tracegrad.codegen.control_jax import write_jax
from tracegrad.codegen.loops import LoopWriter, carry_names, list_name, plural
from tracegrad.codegen.lower import Line, Lowering
from tracegrad.codegen.names import Counters
from tracegrad.codegen.places import place_of
from tracegrad.codegen.plan import Body
from tracegrad.codegen.rebinding import kept_variable
from tracegrad.codegen.solvers import write_solver
from tracegrad.codegen.template import literal, name, negated, number
from tracegrad.codegen.turns import AllTurns, Turns, keep
from tracegrad.ir.graph import Graph, Node, Value
from tracegrad.ops.control import cond, is_ragged, uncounted, undefined
from tracegrad.ops.index import getitem
from tracegrad.ops.solvers import is_solver

_STEP = 4


class ControlLowering(Lowering):
    """A lowering that writes branches and loops too.

    Attributes:
        shared: value of any region of the function -> its variable.
        counters: the variables of loops that count.
        arguments: parameters of the function, whose variables are its own.
        elements: variable of a list -> what one element of it is called.
        targets: value -> the variable that must hold it.
        skipped: placeholders that nothing reads.
        empty: placeholders for lists.
        carries: parameters that are carries of the loop around.
        all_turns: what loops keep of their turns, as lists of entries.
        entries: value read of an entry -> (its variable, what it is called in the loop
            that made the entry).
        called: variable -> that of the same value in the loop that kept it.
        keeping: the loop whose body this is.
        is_test: whether the program is the test of a loop.
    """

    carries: Container[Value] = ()
    is_test = False
    keeping: LoopWriter | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.targets: dict[Value, str] = {}
        self.shared: dict[Value, str] = {}
        self.skipped: set[Value] = set()
        self.empty: set[Value] = set()
        self.counters = Counters()
        self.arguments: Set[Value] = frozenset()
        self.elements: dict[str, str] = {}
        self.entries: dict[Value, tuple[str, str]] = {}
        self.called: dict[str, str] = {}
        self.all_turns = AllTurns()
        super().__init__(*args, **kwargs)

    def _uses(self, node: Node) -> Sequence[int]:
        if node.op is keep:
            return [1] * len(node.inputs)
        return () if node.op is undefined else super()._uses(node)

    def _stem(self, v: Value) -> str | None:
        return super()._stem(v) or self.shared.get(v)

    def _variable(self, v: Value) -> str:
        return self.targets.get(v) or super()._variable(v)

    def _preferred(self, v: Value) -> str:
        return self.targets.get(v) or self._element(v) or super()._preferred(v)

    def _element(self, v: Value) -> str | None:
        """What is read out of a list is called as what was put there."""
        node = self.graph.nodes[self.plan.producer[v]]
        if v.hint or node.op is not getitem:
            return None
        return self.elements.get(self.variables.get(node.inputs[0], ""))

    def _statement(self, node: Node) -> None:
        if node.op is keep:
            assert self.keeping is not None
            self.keeping.keep()
        elif node.outputs[0] in self.entries or node.outputs[0] in self.all_turns.dead:
            pass  # it has a variable, or is read by nothing that is written
        elif node.op is undefined:
            self._undefined(node)
        elif not node.regions:
            super()._statement(node)
        elif is_solver(node):
            write_solver(self, node)
        elif self.context.backend.mutable:
            writer = _BranchWriter if node.op is cond else LoopWriter
            writer(self, node).write()
        else:
            write_jax(self, node, lambda: carry_names(self, node))

    def compute(self, node: Node) -> ast.expr:
        """The expression of a node; of truths that are only tested, Python's."""
        if not self._is_tested(node):
            return super().compute(node)
        if node.op.connective == "not":
            return negated(self.expression(node.inputs[0]))
        operator = ast.And() if node.op.connective == "and" else ast.Or()
        parts: list[ast.expr] = []
        for v in node.inputs:
            made = self.expression(v)
            alike = isinstance(made, ast.BoolOp) and type(made.op) is type(operator)
            parts += made.values if alike else [made]  # type: ignore[attr-defined]
        return ast.BoolOp(operator, parts)

    def _is_tested(self, node: Node) -> bool:
        """Whether nothing but tests and such nodes read what `and` or `not` gives."""
        if node.op.connective is None or not self.context.backend.mutable:
            return False
        if any(v.type.shape or v.type.kind != "b" for v in node.inputs):
            return False
        v = node.out
        if v in self.graph.results and not self.is_test:
            return False
        readers = [self.graph.nodes[i] for i in self.plan.readers.get(v, ())]
        return all(
            (r.op is cond and v not in r.inputs[1:]) or self._is_tested(r)
            for r in readers
        )

    # ----------------------------------------------------------- for those that write
    def emit(
        self, statement: ast.stmt, node: Node, blocks: Sequence[tuple] = ()
    ) -> None:
        """Add a statement; `blocks` are (list of statements, lines that go there)."""
        line = Line(statement, place_of(node), node.phase, node)
        line.blocks = tuple(blocks)
        self.lines.append(line)

    def assign(self, variable: str, value: ast.expr, node: Node) -> None:
        """Add `variable = value`, if it is not the variable itself."""
        if isinstance(value, ast.Name) and value.id == variable:
            return
        target = ast.Name(variable, ast.Store())
        self.emit(ast.Assign([target], value, lineno=0), node)

    def assign_at_once(self, pairs: Sequence[tuple[str, ast.expr]], node: Node) -> None:
        """Add `a, b = …`, whose values are made before either variable changes."""
        targets: list[ast.expr] = [ast.Name(t, ast.Store()) for t, _ in pairs]
        values = ast.Tuple([value for _, value in pairs], ast.Load())
        target = ast.Tuple(targets, ast.Store())
        self.emit(ast.Assign([target], values, lineno=0), node)

    def known_name(self, v: Value) -> str | None:
        """What cotangents of `v` are named after."""
        return self._stem(v)

    def cotangent_name(self, v: Value) -> str | None:
        """`d_x`, if `v` belongs to a value that has the name `x` by now."""
        stem = None if v.wrt is None else self._stem(v.wrt) or v.wrt.hint
        return None if stem is None else f"{v.prefix}_{stem}"

    def preferred(self, v: Value) -> str:
        """The name that `v` would like to have."""
        return self._preferred(v)

    def plural(self, variable: str) -> str:
        """A name for the list of all values of a variable."""
        return plural(variable)

    def variable_for(self, v: Value) -> str:
        """The variable for a new value."""
        return self._variable(v)

    def region(
        self,
        graph: Graph,
        body: Body | None = None,
        looping: bool = True,
        lone: Set[Value] = frozenset(),
    ) -> RegionLowering:
        """The lowering of a region of this program."""
        return RegionLowering(self, graph, body or Body(), looping, lone)

    def _undefined(self, node: Node) -> None:
        """What a branch gives where only another one has something to save."""
        variable = self._variable(node.out)
        self.variables[node.out] = variable
        if node.out in self.skipped:
            return
        t = node.out.type
        # JAX compares the types of the branches; in NumPy nothing reads the value.
        exact = not self.context.backend.mutable
        zero = {"b": False, "f": 0.0, "c": 0.0}.get(t.kind, 0)
        value = literal(t.dtype.type(0) if exact and not t.weak else zero, self.context)
        if is_ragged(t) or uncounted(t) or node.out in self.empty:
            value = ast.List([], ast.Load())
        elif t.shape:
            zeros = ast.Attribute(name(self.context.backend.alias), "zeros", ast.Load())
            value = ast.Call(zeros, [literal(t.shape, self.context)], [])
            if t.dtype != np.float64 and exact:
                value.args.append(literal(t.dtype, self.context))
        self.assign(variable, value, node)

    # Inside of how many loops the statements stand.
    depth = 0


class RegionLowering(ControlLowering):
    """The lowering of a region.

    Args:
        outer: of the program around it.
        region: the graph.
        body: what its plan has to know of the loop around it.
        looping: whether it runs in a loop.
        lone: results that may stand in an expression.
    """

    def __init__(
        self,
        outer: ControlLowering,
        region: Graph,
        body: Body,
        looping: bool,
        lone: Set[Value] = frozenset(),
    ) -> None:
        self.outer = outer
        super().__init__(
            region, outer.context, outer.namer, outer.constants, lone, body=body
        )
        self.depth = outer.depth + looping
        self.carries = body.nexts
        self.indent = outer.indent + _STEP
        self.shared, self.counters = outer.shared, outer.counters
        self.elements = outer.elements
        self.entries, self.all_turns = outer.entries, outer.all_turns
        self.called = outer.called
        self.name_entries()

    def name_entries(self) -> None:
        """Take the variables of the parts of entries that are read here."""
        for node in self.graph.nodes if self.entries else ():
            for v in node.outputs:
                if v in self.entries:
                    self.variables[v], self.stems[v] = self.entries[v]

    def updated(self, v: Value) -> list[Value]:
        """A value, and the arrays that it is made of in place."""
        found = [v]
        plan = self.plan
        while plan.producer.get(v) in plan.in_place - plan.copied:
            v = self.graph.nodes[plan.producer[v]].inputs[0]
            found.append(v)
        return found

    def bind(self, param: Value, v: Value) -> None:
        """A parameter is a value of the program around."""
        known = self.outer.variables.get(v)
        if known is not None:
            self.variables[param] = known
        else:
            self.access[param] = self.outer.expression(v)
        stem = self.outer.known_name(v)
        if stem is not None:
            self.stems[param] = stem


class _BranchWriter:
    """Writes one node of `cond`."""

    def __init__(self, lower: ControlLowering, node: Node) -> None:
        self.lower = lower
        self.node = node

    def write(self) -> None:
        """The statements."""
        lower, node = self.lower, self.node
        which = node.inputs[0]
        variables: list[str] = []
        lists: dict[Turns | None, str] = {}
        for k, v in enumerate(node.outputs):
            kept = kept_variable(lower, node, k)
            turns = lower.all_turns.of.get(v)
            if turns in lists:  # one list for all that a loop keeps
                variables.append(lists[turns])
            elif turns is not None and v not in lower.targets:
                variables.append(lower.namer.claim(list_name(turns)))
            elif kept is not None and kept not in variables:
                variables.append(kept)
            elif v.hint or v in lower.targets:
                variables.append(lower.variable_for(v))
            else:
                variables.append(lower.namer.claim(self._inner_name(k)))
            if turns is not None:
                lists[turns] = variables[-1]
        lines = [self._branch(r, variables) for r in range(len(node.regions))]
        lower.variables.update(zip(node.outputs, variables, strict=True))
        boolean = len(lines) == 2 and which.type.kind == "b"
        if boolean:
            test = lower.expression(which)
            first, second = lines
            if not first:
                test = negated(test)
                first, second = second, first
            self._if(test, first, second)
        else:
            self._cases(which, lines)

    def _inner_name(self, k: int) -> str:
        """A name for an output: what it would be called in its branch."""
        own = self.lower.cotangent_name(self.node.outputs[k])
        if own is not None:
            return own
        for region in self.node.regions:
            for made in region.nodes:
                if region.results[k] in made.outputs and made.op is not undefined:
                    return self.lower.region(region).preferred(region.results[k])
        return self.lower.preferred(self.node.outputs[k])

    def _unread(self, k: int, r: int) -> bool:
        """Whether nothing reads output `k` where branch `r` was taken."""
        lower, node = self.lower, self.node
        v = node.outputs[k]
        if v in lower.graph.results:
            return False
        for i in lower.plan.readers.get(v, ()):
            reader = lower.graph.nodes[i]
            if reader.op is not cond or reader.inputs[0] is not node.inputs[0]:
                return False
            region = reader.regions[r]
            read = set(region.reads())
            for param, u in zip(region.params, reader.inputs[1:], strict=True):
                if u is v and param in read:
                    return False
        return True

    def _branch(self, r: int, variables: Sequence[str]) -> list[Line]:
        lower, node = self.lower, self.node
        region = node.regions[r]
        inner = lower.region(region, Body(named=lower.shared), looping=False)
        for param, v in zip(region.params, node.inputs[1:], strict=True):
            inner.bind(param, v)
        for v, variable in zip(region.results, variables, strict=True):
            made = inner.plan.producer.get(v)
            if made is not None and region.results.count(v) == 1:
                inner.targets.update(dict.fromkeys(inner.updated(v), variable))
        unread = {v for k, v in enumerate(region.results) if self._unread(k, r)}
        inner.skipped = unread.difference(*[n.inputs for n in region.nodes])
        self._empty_lists(region, inner)
        inner.run()
        made_by = {v: n for n in region.nodes for v in n.outputs}
        for v, variable in zip(region.results, variables, strict=True):
            placeholder = v in made_by and made_by[v].op is undefined
            if not placeholder:
                inner.assign(variable, inner.expression(v), node)
        lower.shared.update(inner.variables)
        return inner.lines

    def _empty_lists(self, region: Graph, inner: RegionLowering) -> None:
        """Where an arm makes no list that another one makes, it is empty, once."""
        seen: set[Turns] = set()
        for v, out in zip(region.results, self.node.outputs, strict=True):
            turns = self.lower.all_turns.of.get(out)
            if turns is None or v in self.lower.all_turns.of:
                continue
            if turns in seen:
                inner.skipped.add(v)
            else:
                inner.empty.add(v)
                if v not in inner.skipped:
                    seen.add(turns)

    def _if(self, test: ast.expr, first: list[Line], second: list[Line]) -> None:
        if not first:
            return
        statement = ast.If(test, [], [])
        blocks = [(statement.body, first)]
        if second:
            blocks.append((statement.orelse, second))
        self.lower.emit(statement, self.node, blocks)

    def _cases(self, which: Value, lines: list[list[Line]]) -> None:
        """`if i <= 0: … elif i == 1: … else: …`, with the index clipped."""
        index = self.lower.expression(which)
        rest: list[Line] = lines[-1]
        for k in range(len(lines) - 2, -1, -1):
            operator = ast.LtE() if k == 0 else ast.Eq()
            test = ast.Compare(index, [operator], [number(k)])
            statement = ast.If(test, [], [])
            chosen = lines[k] or [self._pass()]
            blocks = [(statement.body, chosen)]
            if rest:
                blocks.append((statement.orelse, rest))
            line = Line(statement, self.node.at, self.node.phase, self.node)
            line.blocks = tuple(blocks)
            rest = [line]
        self.lower.lines.extend(rest)

    def _pass(self) -> Line:
        return Line(ast.Pass(), (), self.node.phase, self.node)
