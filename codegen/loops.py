"""Loops as `while` and `for` statements of NumPy source, and what their turns keep."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from tracegrad.codegen.lower import WIDTH, Line
from tracegrad.codegen.ownership import changing, shown_values, updated_carries
from tracegrad.codegen.plan import Body
from tracegrad.codegen.rebinding import is_free
from tracegrad.codegen.template import literal, name, names_in, negated, number
from tracegrad.codegen.turns import Turns, with_keep
from tracegrad.codegen.width import bounds
from tracegrad.ir.graph import Node, Value
from tracegrad.ir.index import ARRAY
from tracegrad.ir.symbols import sizes_in
from tracegrad.ops.control import RESULT, Loop
from tracegrad.ops.index import getitem
from tracegrad.ops.infer import same_size

if TYPE_CHECKING:
    from tracegrad.codegen.control import ControlLowering, RegionLowering


class LoopWriter:
    """Writes one loop.

    Args:
        lower: of the program that the loop stands in.
        node: the loop.
    """

    def __init__(self, lower: ControlLowering, node: Node) -> None:
        self.lower = lower
        self.node = node
        self.loop = Loop.of(node)
        self.turns: Turns | None = lower.all_turns.made_by.get(node.outputs[0])
        self.inner: RegionLowering

    def write(self) -> None:
        """The statements."""
        lower, node, loop = self.lower, self.node, self.loop
        updated = frozenset([loop.carries[k] for k in updated_carries(node)])
        nexts = dict(zip(loop.carries, loop.nexts, strict=True))
        body = Body(updated, nexts, lower.shared)
        graph = loop.body
        if self.turns is not None:
            graph = with_keep(graph, self.turns)
        self.inner = lower.region(graph, body)
        self.inner.keeping = self
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
        self._make_entries()
        self._read_entries()
        inner.run()
        stacks = self._lists()
        self._rest(stacks)
        block = inner.lines or [Line(ast.Pass(), (), node.phase, node)]
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
            if self.turns is not None and output in self.turns.stacks:
                continue
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
        if node.outputs[0] in lower.all_turns.direct:
            return self._through_entries()
        rows = self._through_rows()
        if rows is not None:
            return rows
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
        if not used:
            turns = _forwards(turns)
        target = ast.Name(variable if used else "_", ast.Store())
        self.position = variable, start
        return ast.For(target, turns, [], [], lineno=0)

    def _through_rows(self) -> ast.For | None:
        """`for z in observed:`, if that is all that a loop counts for."""
        lower, node, loop = self.lower, self.node, self.loop
        counter = loop.counter
        readers = [n for n in loop.body.nodes if counter in n.inputs]
        if len(readers) != 1 or counter in loop.body.results:
            return None
        (read,) = readers
        if read.op is not getitem or read.attrs["index"] != (ARRAY,):
            return None
        base, position = read.inputs
        start, stop = node.attrs["bounds"]
        named = read.out.user and read.out.hint
        if position is not counter or base not in loop.inner or not named:
            return None
        whole = type(start) is int and start == 0 and stop is not None
        if not whole or not same_size(stop, base.type.shape[0]):
            return None
        if node.outputs[0] in lower.all_turns.read_by:
            return None
        rows = lower.expression(loop.invariants[loop.inner.index(base)])
        if node.attrs["reverse"]:
            rows = ast.Call(name("reversed"), [rows], [])
        variable = lower.namer.claim(read.out.hint or "row")
        lower.entries[read.out] = variable, variable
        return ast.For(ast.Name(variable, ast.Store()), rows, [], [], lineno=0)

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
        stop = ast.If(negated(holds), [ast.Break()], [])
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

    # ------------------------------------------------------------------- entries
    def _make_entries(self) -> None:
        """Make the list that takes an entry of every turn."""
        lower, turns = self.lower, self.turns
        if turns is None:
            return
        targets = [lower.targets[v] for v in turns.stacks if v in lower.targets]
        wanted = list_name(turns)
        (first, *more) = turns.parts
        if not more and not first.hint and first in self.inner.plan.producer:
            wanted = plural(self.inner.preferred(first))
        self.list = targets[0] if targets else lower.namer.claim(wanted)
        lower.assign(self.list, ast.List([], ast.Load()), self.node)

    def keep(self) -> None:
        """Add the entry of this turn to the list."""
        inner, turns = self.inner, self.turns
        assert turns is not None
        parts = [self._kept(v) for v in turns.parts]
        turns.names = [inner.variables.get(v) or v.hint or "value" for v in turns.parts]
        whole = parts[0] if len(parts) == 1 else ast.Tuple(parts, ast.Load())
        self._append(self.list, whole)
        inner.lines[-1].at = ()

    def _entry(self, turns: Turns) -> list[ast.expr]:
        """The variables that take the parts of an entry which this loop reads."""
        lower = self.lower
        rows: dict[Value, list[Value]] = {}
        for v, row in lower.all_turns.rows.items():
            if row.turns is turns and row.reader is self.node.outputs[0]:
                rows.setdefault(row.part, []).append(v)
        targets: list[ast.expr] = []
        for part, known in zip(turns.parts, turns.names, strict=True):
            variable = lower.namer.claim(known) if part in rows else "_"
            for v in rows.get(part, ()):
                lower.entries[v] = variable, known
            if variable != "_":
                lower.called[variable] = known
            targets.append(ast.Name(variable, ast.Store()))
        return targets

    def _fits(self, parts: list[ast.expr], rest: int, indent: int) -> bool:
        """Whether `rest` columns more than these variables, as called, are a line."""
        called = self.lower.called
        named = [p.id for p in parts if isinstance(p, ast.Name)]
        wide = sum([len(called.get(n, n)) + 2 for n in named]) - 2
        return wide + rest <= WIDTH - indent

    def _take(self, parts: list[ast.expr], entry: ast.expr) -> None:
        """Write `x, step = entry`, in several lines if one is too wide."""
        inner = self.inner
        rest = len(" = ") + bounds(entry)[0]
        at = 0
        while at < len(parts):
            end = len(parts)
            if not self._fits(parts, rest, inner.indent):
                rest = len(" = [99:99]") + bounds(entry)[0]
                end = at + 1
                while end < len(parts) and self._fits(
                    parts[at : end + 1], rest, inner.indent
                ):
                    end += 1
            value = entry
            if end - at < len(parts):
                last = number(end) if end < len(parts) else None
                some = ast.Slice(number(at) if at else None, last)
                key = some if end > at + 1 else number(at)
                value = ast.Subscript(entry, key, ast.Load())
            statement = ast.Assign([_together(parts[at:end])], value, lineno=0)
            inner.emit(statement, self.node)
            inner.lines[-1].at = ()
            at = end

    def _through_entries(self) -> ast.For:
        """`for x, step in reversed(turns):`, without its body."""
        lower = self.lower
        ((turns, stack),) = lower.all_turns.read_by[self.node.outputs[0]].items()
        entries = lower.expression(stack)
        if self.node.attrs["reverse"]:
            entries = ast.Call(name("reversed"), [entries], [])
        parts = self._entry(turns)
        header = ast.For(_together(parts), entries, [], [], lineno=0)
        rest = len("for  in :") + bounds(entries)[0]
        if not self._fits(parts, rest, lower.indent):
            variable = lower.namer.claim("turn")
            header.target = ast.Name(variable, ast.Store())
            self._take(parts, name(variable))
        return header

    def _read_entries(self) -> None:
        """`x, step = turns[t]` for each list that the turns read."""
        lower, inner, node = self.lower, self.inner, self.node
        first = node.outputs[0]
        lists = lower.all_turns.read_by.get(first, {})
        for turns, stack in () if first in lower.all_turns.direct else lists.items():
            variable, start = self.position
            position: ast.expr = name(variable)
            if not isinstance(start, ast.Constant) or start.value != 0:
                position = ast.BinOp(position, ast.Sub(), start)
            entry: ast.expr = ast.Subscript(
                lower.expression(stack), position, ast.Load()
            )
            parts = self._entry(turns)
            rest = len(" = ") + bounds(entry)[0]
            if not self._fits(parts, rest, inner.indent):
                turn = lower.namer.claim("turn")
                inner.assign(turn, entry, node)
                entry = name(turn)
            self._take(parts, entry)
        inner.name_entries()

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
        return self.loop.count is not None and not stacks and self.turns is None

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
        if self.turns is not None:
            if node.attrs["reverse"]:
                method = ast.Attribute(name(self.list), "reverse", ast.Load())
                lower.emit(ast.Expr(ast.Call(method, [], [])), node)
            lower.variables.update(dict.fromkeys(self.turns.stacks, self.list))
        if loop.count is None:
            return
        if self.turns is not None:
            lower.access[loop.count] = ast.Call(name("len"), [name(self.list)], [])
        elif stacks:
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


def _forwards(turns: ast.expr) -> ast.expr:
    """The same number of turns, if it does not matter which is which."""
    assert isinstance(turns, ast.Call) and isinstance(turns.func, ast.Name)
    if turns.func.id != "reversed" or not isinstance(turns.args[0], ast.Call):
        return turns
    return turns.args[0]


def _together(parts: list[ast.expr]) -> ast.expr:
    return parts[0] if len(parts) == 1 else ast.Tuple(parts, ast.Store())


def list_name(turns: Turns) -> str:
    """A name for the list of the entries of all turns."""
    (first, *more) = turns.parts
    return "turns" if more or not first.hint else plural(first.hint)


def plural(variable: str) -> str:
    """A name for the list of all values of a variable."""
    variable = re.sub(r"_\d+$", "", variable)
    return f"all_{variable}" if variable.endswith("s") else f"{variable}s"
