"""Branches and loops as `if`, `while` and `for` statements of NumPy source.

A region is lowered by a `Lowering` of its own, which reads the variables around it.  A
carry has one variable: it is assigned before the loop, and again in every turn.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Sequence, Set
from typing import Any

import numpy as np

from tracegrad.codegen.control_jax import write_jax
from tracegrad.codegen.lower import Line, Lowering
from tracegrad.codegen.ownership import changing, shown_values, updated_carries
from tracegrad.codegen.plan import Body
from tracegrad.codegen.rebinding import is_free, kept_variable
from tracegrad.codegen.solvers import write_solver
from tracegrad.codegen.template import literal, name, names_in, number
from tracegrad.ir.graph import Graph, Node, Value
from tracegrad.ir.symbols import sizes_in
from tracegrad.ops.control import RESULT, Loop, cond, is_ragged, uncounted, undefined
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
        carries: parameters that are carries of the loop around.
        is_test: whether the program is the test of a loop.
    """

    carries: Container[Value] = ()
    is_test = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.targets: dict[Value, str] = {}
        self.shared: dict[Value, str] = {}
        self.skipped: set[Value] = set()
        self.counters = Counters()
        self.arguments: Set[Value] = frozenset()
        self.elements: dict[str, str] = {}
        super().__init__(*args, **kwargs)

    def _uses(self, node: Node) -> Sequence[int]:
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
        if node.op is undefined:
            self._undefined(node)
        elif not node.regions:
            super()._statement(node)
        elif is_solver(node):
            write_solver(self, node)
        elif self.context.backend.mutable:
            _Writer(self, node).write()
        else:
            write_jax(self, node, lambda: carry_names(self, node))

    def compute(self, node: Node) -> ast.expr:
        """The expression of a node; of two truths that are only tested, with `and`."""
        if not self._is_tested(node):
            return super().compute(node)
        operator = ast.And() if node.op.connective == "and" else ast.Or()
        parts: list[ast.expr] = []
        for v in node.inputs:
            made = self.expression(v)
            alike = isinstance(made, ast.BoolOp) and type(made.op) is type(operator)
            parts += made.values if alike else [made]  # type: ignore[attr-defined]
        return ast.BoolOp(operator, parts)

    def _is_tested(self, node: Node) -> bool:
        """Whether nothing but tests and such nodes read what `and` or `or` gives."""
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
        line = Line(statement, node.at, node.phase, node)
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
        if is_ragged(t) or uncounted(t):
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


class _Writer:
    """Writes one node with regions."""

    def __init__(self, lower: ControlLowering, node: Node) -> None:
        self.lower = lower
        self.node = node
        self.inner: RegionLowering

    def write(self) -> None:
        """The statements."""
        if self.node.op is cond:
            self._branches()
        else:
            self.loop = Loop.of(self.node)
            self._loop()

    # ------------------------------------------------------------------- branches
    def _branches(self) -> None:
        lower, node = self.lower, self.node
        which = node.inputs[0]
        variables: list[str] = []
        for k, v in enumerate(node.outputs):
            kept = kept_variable(lower, node, k)
            if kept is not None and kept not in variables:
                variables.append(kept)
            elif v.hint or v in lower.targets:
                variables.append(lower.variable_for(v))
            else:
                variables.append(lower.namer.claim(self._inner_name(k)))
        lines = [self._branch(r, variables) for r in range(len(node.regions))]
        lower.variables.update(zip(node.outputs, variables, strict=True))
        boolean = len(lines) == 2 and which.type.kind == "b"
        if boolean:
            test = lower.expression(which)
            first, second = lines
            if not first:
                test = ast.UnaryOp(ast.Not(), test)
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
        inner.run()
        made_by = {v: n for n in region.nodes for v in n.outputs}
        for v, variable in zip(region.results, variables, strict=True):
            placeholder = v in made_by and made_by[v].op is undefined
            if not placeholder:
                inner.assign(variable, inner.expression(v), node)
        lower.shared.update(inner.variables)
        return inner.lines

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

    # ------------------------------------------------------------------- loops
    def _loop(self) -> None:
        lower, node, loop = self.lower, self.node, self.loop
        updated = frozenset([loop.carries[k] for k in updated_carries(node)])
        nexts = dict(zip(loop.carries, loop.nexts, strict=True))
        body = Body(updated, nexts, lower.shared)
        self.inner = lower.region(loop.body, body)
        self.carries = carry_names(lower, node)
        self._starts()
        header = self._header()
        inner = self.inner
        for param, variable in zip(loop.carries, self.carries, strict=True):
            inner.variables[param] = variable
        for param, v in zip(loop.inner, loop.invariants, strict=True):
            inner.bind(param, v)
        for param, v in nexts.items():
            if param in inner.plan.rebound:
                inner.targets[v] = inner.variables[param]
        if isinstance(header, ast.While) and loop.test is not None:
            self._test(header)
        inner.run()
        stacks = self._lists()
        self._rest(stacks)
        block = inner.lines or [self._pass()]
        lower.emit(header, node, [(header.body, block)])
        lower.shared.update(inner.variables)
        lower.variables.update(zip(loop.last, self.carries, strict=True))
        self._after(stacks)

    def _starts(self) -> None:
        lower, node = self.lower, self.node
        at = lower.plan.producer[node.outputs[0]]
        pairs: list[tuple[str, ast.expr]] = []
        for k, (start, variable) in enumerate(
            zip(self.loop.starts, self.carries, strict=True)
        ):
            value = lower.expression(start)
            if (at, k) in lower.plan.copied_starts:
                value = ast.Call(ast.Attribute(value, "copy", ast.Load()), [], [])
            pairs.append((variable, value))
        bound: set[str] = set()
        for variable, value in pairs:
            if isinstance(value, ast.Name) and value.id == variable:
                continue
            if not bound.isdisjoint(names_in(value)):
                # It must not see the first value of another carry.
                lower.assign_at_once(pairs, node)
                return
            bound.add(variable)
        for variable, value in pairs:
            lower.assign(variable, value, node)

    def _lists(self) -> list[tuple[str, Value, int, Value | None]]:
        """Make the lists that the turns append to; (variable, *stack) of each."""
        lower, loop = self.lower, self.loop
        made = []
        for output, kind, result in loop.stacks():
            if kind != RESULT:
                own = self.carries[kind]
                wanted = plural(own)
                first: list[ast.expr] = [name(self.carries[kind])]
            else:
                assert result is not None
                own = self.inner.variables.get(result, "row")
                wanted = output.hint or plural(own)
                first = []
            variable = lower.namer.claim(wanted)
            lower.elements[variable] = own
            lower.assign(variable, ast.List(first, ast.Load()), self.node)
            made.append((variable, output, kind, result))
        if self._counts_apart(made):
            self.count = lower.namer.claim("turns")
            lower.assign(self.count, number(0), self.node)
        return made

    def _header(self) -> Any:
        """`for t in range(n):` or `while …:`, without its body."""
        lower, node, loop = self.lower, self.node, self.loop
        if not loop.counted:
            return ast.While(ast.Constant(True), [], [])
        bounds = list(node.inputs[: loop.dynamic])
        start, stop = [
            lower.expression(bounds.pop(0)) if b is None else literal(b, lower.context)
            for b in node.attrs["bounds"]
        ]
        plain = isinstance(start, ast.Constant) and start.value == 0
        given = [stop] if plain else [start, stop]
        turns: ast.expr = ast.Call(name("range"), given, [])
        if node.attrs["reverse"]:
            turns = ast.Call(name("reversed"), [turns], [])
        counter = loop.counter
        assert counter is not None
        variable = lower.counters.claim(counter.hint or "t", lower.namer, lower.depth)
        self.inner.variables[counter] = variable
        used = any(counter in n.inputs for n in loop.body.nodes)
        target = ast.Name(variable if used else "_", ast.Store())
        return ast.For(target, turns, [], [], lineno=0)

    def _test(self, header: ast.While) -> None:
        """The condition: an expression, or statements and a `break`."""
        loop, inner = self.loop, self.inner
        assert loop.test is not None
        lone = frozenset(loop.test.results)
        test = self.lower.region(loop.test, lone=lone)
        test.is_test = True
        count = len(loop.test.params) - loop.carried
        for param, v in zip(loop.test.params[:count], loop.invariants, strict=True):
            test.bind(param, v)
        for param, variable in zip(loop.test.params[count:], self.carries, strict=True):
            test.variables[param] = variable
        lines = test.run()
        holds = test.expression(loop.test.results[0])
        if not lines:
            header.test = holds
            return
        inner.lines.extend(lines)
        stop = ast.If(ast.UnaryOp(ast.Not(), holds), [ast.Break()], [])
        inner.emit(stop, self.node)

    def _rest(self, stacks: list[tuple]) -> None:
        """The end of a turn: what has no variable of its own yet, and the lists."""
        loop, inner, node = self.loop, self.inner, self.node
        left = [
            (variable, inner.expression(v))
            for param, v, variable in zip(
                loop.carries, loop.nexts, self.carries, strict=True
            )
            if v is not param and inner.variables.get(v) != variable
        ]
        kept = [
            (variable, self._kept(result))
            for variable, _, kind, result in stacks
            if kind == RESULT
        ]
        for variable, value in kept:
            self._append(variable, value)
        if len(left) == 1:
            inner.assign(*left[0], node)
        elif left:
            inner.assign_at_once(left, node)
        for variable, _, kind, _ in stacks:
            if kind != RESULT:
                self._append(variable, name(self.carries[kind]))
        if self._counts_apart(stacks):
            count = ast.Name(self.count, ast.Store())
            inner.emit(ast.AugAssign(count, ast.Add(), number(1)), node)

    def _kept(self, v: Value) -> ast.expr:
        """A result of the turn, which no later turn changes."""
        made = self.inner.expression(v)
        made_by = {u: n for n in self.loop.body.nodes for u in n.outputs}
        shown = shown_values(v, made_by)
        if v.type.shape and not shown.isdisjoint(changing(self.node)):
            made = ast.Call(ast.Attribute(made, "copy", ast.Load()), [], [])
        return made

    def _append(self, variable: str, value: ast.expr) -> None:
        method = ast.Attribute(name(variable), "append", ast.Load())
        self.inner.emit(ast.Expr(ast.Call(method, [value], [])), self.node)

    def _counts_apart(self, stacks: list[tuple]) -> bool:
        """Whether the number of turns is counted, no list having it as its length."""
        return self.loop.count is not None and not stacks

    def _after(self, stacks: list[tuple]) -> None:
        lower, node, loop = self.lower, self.node, self.loop
        for k, (variable, output, _, _) in enumerate(stacks):
            if node.attrs["reverse"]:
                method = ast.Attribute(name(variable), "reverse", ast.Load())
                lower.emit(ast.Expr(ast.Call(method, [], [])), node)
            if k < node.attrs["stacked"]:
                function = "stack" if output.type.ndim > 1 else "array"
                library = name(lower.context.backend.alias)
                make = ast.Attribute(library, function, ast.Load())
                lower.assign(variable, ast.Call(make, [name(variable)], []), node)
            lower.variables[output] = variable
        if loop.count is None:
            return
        if stacks:
            variable, _, kind, _ = stacks[-1]
            length: ast.expr = ast.Call(name("len"), [name(variable)], [])
            if kind != RESULT:
                length = ast.BinOp(length, ast.Sub(), number(1))
            lower.access[loop.count] = length
        else:
            lower.variables[loop.count] = self.count
        steps = node.attrs["steps"]
        if not loop.counted and any(steps in sizes_in(n) for n in lower.graph.walk()):
            # An array is made that has as many rows.
            size = lower.context.size(steps)
            assert isinstance(size, ast.Name)
            lower.assign(size.id, lower.expression(loop.count), node)


def carry_names(lower: ControlLowering, node: Node) -> list[str]:
    """The variable of each carry: that of its first value, if it is free then."""
    loop = Loop.of(node)
    at = lower.plan.producer[node.outputs[0]]
    names: list[str] = []
    # JAX makes the list of all values after the loop, and needs the first one then.
    listed = set() if lower.context.backend.mutable else set(node.attrs["saved"])
    for k, (param, start) in enumerate(zip(loop.carries, loop.starts, strict=True)):
        last = loop.last[k]
        target = lower.targets.get(last)
        wanted = last.hint if last.user and last.hint else param.hint
        wanted = target or wanted or lower.cotangent_name(param)
        wanted = wanted or lower.preferred(last)
        have = lower.variables.get(start)
        if target is not None:
            names.append(target)
            continue
        free = have == wanted and k not in listed and have not in names
        if free and is_free(lower, node, start, at):
            names.append(wanted)
        else:
            names.append(lower.namer.claim(wanted))
    return names


def plural(variable: str) -> str:
    """A name for the list of all values of a variable."""
    variable = re.sub(r"_\d+$", "", variable)
    return f"all_{variable}" if variable.endswith("s") else f"{variable}s"


class Counters:
    """The variables of loops that count: one is used again when its loop has ended."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, int], str] = {}

    def claim(self, wanted: str, namer: Any, depth: int) -> str:
        """The variable of a loop inside of `depth` others."""
        key = (wanted, depth)
        if key not in self._given:
            self._given[key] = namer.claim(wanted)
        return self._given[key]
