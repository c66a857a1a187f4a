"""What loops keep of their turns for the backward part: one list, an entry a turn.

The graph has a stack for each value that is kept, and reads them by the counter.  By
hand one writes `turns.append((x, step))`, and goes back by `for x, step in
reversed(turns)`.  Here is found which stacks may be written so: those that nothing
reads but loops over the same turns, each turn its own entry.  A carry as it came into
the turn, and as it left it, are then two parts of one entry rather than neighbours in
a list.  All else stays a list of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tracegrad.ir.graph import Const, Graph, Node, Value
from tracegrad.ir.index import ARRAY
from tracegrad.ops.control import RESULT, Loop, cond, is_loop, undefined
from tracegrad.ops.create import dim
from tracegrad.ops.define import OPERATORS, Op
from tracegrad.ops.index import getitem

# Where a value stands: of loops around, (loop, which turn), the outermost last.
_Path = tuple[tuple[Value, frozenset], ...]


def _keep(*values: Any) -> tuple:
    return ()


# Stands in the body of a loop where the entry of a turn is made.  It has no output.
keep = Op(_keep, lambda *types: ())
keep.name = keep.noun = "keep"
keep.variadic = True


@dataclass(eq=False, slots=True)
class Turns:
    """The list of one loop.

    Attributes:
        loop: the first output of the loop.
        parts: values in the body that an entry consists of.
        stacks: the outputs of the loop that the list stands for.
        names: what the parts are called in the body.
    """

    loop: Value
    parts: list[Value] = field(default_factory=list)
    stacks: list[Value] = field(default_factory=list)
    names: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Row:
    """A read of one part of an entry.

    Attributes:
        turns: the list.
        part: what is read, as it is called in `turns.parts`.
        reader: first output of the loop whose turns it is read in.
    """

    turns: Turns
    part: Value
    reader: Value


@dataclass(slots=True)
class AllTurns:
    """The lists of a program.

    Attributes:
        made_by: first output of a loop -> its list.
        of: stack, or what it is called in a region, -> the list.
        rows: value read of a stack -> what that is.
        read_by: first output of a loop -> (list, a name of it there, parts read).
        dead: values that only serve to read such stacks.
        direct: loops that go through a list rather than count.
    """

    made_by: dict[Value, Turns] = field(default_factory=dict)
    of: dict[Value, Turns] = field(default_factory=dict)
    rows: dict[Value, Row] = field(default_factory=dict)
    read_by: dict[Value, dict[Turns, Value]] = field(default_factory=dict)
    dead: set[Value] = field(default_factory=set)
    direct: set[Value] = field(default_factory=set)


def find_turns(graph: Graph) -> AllTurns:
    """The lists of all loops of a program."""
    if not any(node.regions for node in graph.nodes):
        return AllTurns()
    return _Finder(graph).run()


def with_keep(body: Graph, turns: Turns) -> Graph:
    """The body of a loop with a node that makes the entry, as early as it can be."""
    parts = {v for v in turns.parts if not isinstance(v, Const)}
    at = 0
    for i, node in enumerate(body.nodes):
        if not parts.isdisjoint(node.outputs):
            at = i + 1
    phase = body.nodes[0].phase if body.nodes else "forward"
    made = Node(keep, tuple(turns.parts), (), {}, (), phase, derived=True)
    return body.with_nodes([*body.nodes[:at], made, *body.nodes[at:]], body.results)


class _Finder:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.found = AllTurns()
        self.loops: list[Node] = []  # inner ones first
        self.made_by: dict[Value, Node] = {}
        self.uses: dict[Value, list[tuple[Node, int]]] = {}
        # result of a region -> (node, number of the region, position)
        self.ends: dict[Value, list[tuple[Node | None, int, int]]] = {}
        self.outer: dict[Value, Value] = {}  # parameter of a region -> what it is
        self.counted_by: dict[Value, Node] = {}
        self.seen: set[int] = set()
        self.clear = True
        self._visit(graph, None, 0)

    def _visit(self, graph: Graph, owner: Node | None, r: int) -> None:
        if id(graph) in self.seen:
            self.clear = False  # one region of two nodes: its parameters are two things
            return
        self.seen.add(id(graph))
        for j, v in enumerate(graph.results):
            self.ends.setdefault(v, []).append((owner, r, j))
        for node in graph.nodes:
            for k, v in enumerate(node.inputs):
                self.uses.setdefault(v, []).append((node, k))
            for v in node.outputs:
                self.made_by[v] = node
            if node.op is cond:
                for region in node.regions:
                    self.outer.update(zip(region.params, node.inputs[1:], strict=True))
            elif is_loop(node):
                loop = Loop.of(node)
                self.outer.update(zip(loop.inner, loop.invariants, strict=True))
                if loop.counter is not None:
                    self.counted_by[loop.counter] = node
            for i, region in enumerate(node.regions):
                self._visit(region, node, i)
            if is_loop(node):
                self.loops.append(node)

    def run(self) -> AllTurns:
        """All lists."""
        found = self.found
        if not self.clear:
            return found
        for node in self.loops:
            self._find(node)
        for node in self.loops:
            self._choose_header(node)
        for turns in found.made_by.values():
            self._drop_counts(turns)
        return found

    # ------------------------------------------------------------------- one loop
    def _find(self, node: Node) -> None:
        loop = Loop.of(node)
        turns = Turns(node.outputs[0])
        rows: dict[Value, Row] = {}
        names: list[Value] = []
        lists: list[tuple[Value, Node]] = []
        for stack, kind, result in loop.stacks()[node.attrs["stacked"] :]:
            named: list[Value] = []
            reads = self._reads(stack, named)
            if not reads:
                continue
            more = [self._row(turns, loop, stack, kind, result, n) for n in reads]
            if all(more):
                turns.stacks.append(stack)
                rows.update(
                    {n.out: row for n, row in zip(reads, more, strict=True) if row}
                )
                names += named
                lists += [(n.inputs[0], n) for n in reads]
        self._merge_lists(rows)
        parts = dict.fromkeys([row.part for row in rows.values()])
        if not parts or len(parts) == 2 * len(turns.stacks):
            return  # of carries both neighbours are read, which a list has once
        turns.parts = self._in_order(loop.body, parts)
        found = self.found
        found.made_by[turns.loop] = turns
        found.rows.update(rows)
        found.of.update(dict.fromkeys(names, turns))
        for v, n in lists:
            reader = rows[n.out].reader
            inside = self._in_loop(v, reader)
            found.read_by.setdefault(reader, {}).setdefault(turns, inside)

    def _merge_lists(self, rows: dict[Value, Row]) -> None:
        """All stacks of an inner loop that are written as one list are one part."""
        first: dict[Turns, Value] = {}
        for row in rows.values():
            inner = self.found.of.get(row.part)
            if inner is not None:
                row.part = first.setdefault(inner, row.part)

    def _in_loop(self, v: Value, reader: Value) -> Value:
        """What a stack is called around the loop `reader`, in whose body it is `v`."""
        loop = Loop.of(self.made_by[reader])
        while v not in loop.inner:
            v = self.outer[v]
        return self.outer[v]

    def _in_order(self, body: Graph, parts: dict[Value, None]) -> list[Value]:
        """The parts of an entry: what came into the turn, then as it is made."""
        place = {v: i for i, v in enumerate(body.params)}
        for node in body.nodes:
            for v in node.outputs:
                place[v] = len(place)
        return sorted(parts, key=lambda v: place.get(v, -1))

    def _row(
        self,
        turns: Turns,
        loop: Loop,
        stack: Value,
        kind: int,
        result: Value | None,
        read: Node,
    ) -> Row | None:
        """What a read of a stack is in the terms of an entry; None if it is no part."""
        place = self._turn_of(read)
        if place is None:
            return None
        reader, offset = place
        if offset not in ((0,) if kind == RESULT else (0, 1)):
            return None
        if not self._inside(read.inputs[0], reader) or not self._same_turns(
            loop, reader, stack, read.inputs[0]
        ):
            return None
        if result is not None:
            part = result
        elif offset == int(loop.node.attrs["reverse"]):
            part = loop.carries[kind]
        else:
            part = loop.nexts[kind]
        return Row(turns, part, reader.outputs[0])

    def _turn_of(self, read: Node) -> tuple[Node, int] | None:
        """The loop whose turns a position counts, and how far it is from the turn."""
        terms, rest = self._linear(read.inputs[1])
        for counter in terms:
            reader = self.counted_by.get(counter)
            if reader is not None:
                start, first = self._bound(reader)
                start.update(terms)
                start[counter] -= 1
                if not any(start.values()):
                    return reader, rest + first
        return None

    def _inside(self, v: Value, reader: Node) -> bool:
        """Whether `v` is what the loop `reader` calls something that it captures."""
        inner = Loop.of(reader).inner
        while v not in inner:
            if v not in self.outer:
                return False
            v = self.outer[v]
        return True

    # ------------------------------------------------------------------- who reads
    def _reads(self, v: Value, named: list[Value]) -> list[Node] | None:
        """The nodes that read an entry of a stack, or None if it is read otherwise.

        Args:
            v: the stack.
            named: takes what it is called in other regions.
        """
        named.append(v)
        found: list[Node] = []
        more: list[Value] = []
        for node, k in self.uses.get(v, ()):
            if k in node.op.type_only:
                return None
            if node.op is getitem:
                if k != 0 or node.attrs["index"] != (ARRAY,):
                    return None
                found.append(node)
            elif node.op is cond and k > 0:
                more += [region.params[k - 1] for region in node.regions]
            elif is_loop(node):
                loop = Loop.of(node)
                k -= loop.dynamic
                if not 0 <= k < len(loop.invariants):
                    return None
                more.append(loop.inner[k])
                if loop.test is not None and loop.test.params[k] in self.uses:
                    return None
            else:
                return None
        for owner, r, j in self.ends.get(v, ()):
            passed = self._given_out(owner, r, j)
            if passed is None:
                return None
            more += passed
        for u in more:
            inner = self._reads(u, named)
            if inner is None:
                return None
            found += inner
        return found

    def _given_out(self, owner: Node | None, r: int, j: int) -> list[Value] | None:
        """What result `j` of a region is outside of it."""
        if owner is None:
            return None
        if owner.op is cond:
            source = self._source_of_branches(owner, j)
            return [owner.outputs[j]] if source is owner.regions[r].results[j] else None
        if not is_loop(owner) or owner.regions[r] is not owner.regions[-1]:
            return None
        loop = Loop.of(owner)
        if j < loop.carried + owner.attrs["stacked"]:
            return None
        v = loop.body.results[j]
        for stack, kind, result in loop.stacks()[owner.attrs["stacked"] :]:
            if kind == RESULT and result is v:
                rows = self._reads(stack, [])
                return None if rows is None else [n.out for n in rows]
        return None

    def _source_of_branches(self, node: Node, j: int) -> Value | None:
        """The only thing that an output of a branch is, where it is anything."""
        made = [region.results[j] for region in node.regions]
        made = [v for v in made if not self._is_undefined(v)]
        return made[0] if len(made) == 1 else None

    def _is_undefined(self, v: Value) -> bool:
        return v in self.made_by and self.made_by[v].op is undefined

    # ------------------------------------------------------------------- which turns
    def _linear(self, v: Value) -> tuple[Counter, int]:
        """A position as a sum: how often each unknown stands in it, and the rest."""
        terms: Counter = Counter()
        rest = 0
        waiting = [(v, 1)]
        while waiting:
            v, sign = waiting.pop()
            while v in self.outer:
                v = self.outer[v]
            node = self.made_by.get(v)
            if isinstance(v, Const) and type(v.value) is int:
                rest += sign * v.value
            elif node is not None and node.op is OPERATORS["__add__"]:
                waiting += [(u, sign) for u in node.inputs]
            elif node is not None and node.op is OPERATORS["__sub__"]:
                left, right = node.inputs
                waiting += [(left, sign), (right, -sign)]
            elif node is not None and node.op is dim:
                terms[node.attrs["size"]] += sign
            else:
                terms[v] += sign
        return terms, rest

    def _bound(self, node: Node) -> tuple[Counter, int]:
        """What a loop begins to count at, as a sum."""
        bound = node.attrs["bounds"][0]
        if bound is None:
            return self._linear(node.inputs[0])
        if type(bound) is int:
            return Counter(), bound
        return Counter({bound: 1}), 0

    def _same_turns(self, loop: Loop, reader: Node, stack: Value, name: Value) -> bool:
        """Whether the turns of `reader` are those that filled `stack`, its `name`."""
        source, path = self._source(name)
        if source is not stack:
            return False
        bounds = reader.attrs["bounds"]
        if not loop.counted:
            counted = bounds == (0, None) and loop.count is not None
            return counted and self._source(reader.inputs[0]) == (loop.count, path)
        if bounds != loop.node.attrs["bounds"]:
            return False
        for ours, theirs in zip(
            loop.node.inputs[: loop.dynamic], reader.inputs, strict=False
        ):
            v, from_there = self._source(theirs)
            u, more = self._source(ours)
            same = u is v or (
                isinstance(u, Const)
                and isinstance(v, Const)
                and type(u.value) is type(v.value) is int
                and u.value == v.value
            )
            if not same or more or from_there not in ((), path):
                return False
        return True

    def _source(self, v: Value) -> tuple[Value, _Path]:
        """What a value is at its origin, and in which turns of which loops."""
        path: list[tuple[Value, frozenset]] = []
        while True:
            node = self.made_by.get(v)
            if v in self.outer:
                v = self.outer[v]
            elif node is None:
                break
            elif node.op is cond:
                source = self._source_of_branches(node, node.outputs.index(v))
                if source is None:
                    break
                v = source
            elif node.op is getitem and node.attrs["index"] == (ARRAY,):
                stack, before = self._source(node.inputs[0])
                maker = self.made_by.get(stack)
                if maker is None or not is_loop(maker):
                    break
                made = {s: r for s, _, r in Loop.of(maker).stacks()}
                result = made.get(stack)
                if result is None:
                    break
                terms, rest = self._linear(node.inputs[1])
                where = frozenset([*terms.items(), (None, rest)])
                path += [(maker.outputs[0], where), *before]
                v = result
            else:
                break
        return v, tuple(path)

    # ------------------------------------------------------------------- how to read
    def _choose_header(self, node: Node) -> None:
        """Whether a loop needs its counter for more than the entries of one list."""
        found = self.found
        reader = node.outputs[0]
        lists = found.read_by.get(reader)
        loop = Loop.of(node)
        for graph in self._graphs(loop.body):
            self._note_dead(graph)
        if lists is None or len(lists) > 1 or loop.counter is None:
            return
        if not self._is_read(loop.counter):
            found.direct.add(reader)

    def _graphs(self, graph: Graph) -> Iterator[Graph]:
        yield graph
        for node in graph.nodes:
            if node.op is cond:
                for region in node.regions:
                    yield from self._graphs(region)

    def _note_dead(self, graph: Graph) -> None:
        dead = self.found.dead
        for node in reversed(graph.nodes):
            if len(node.outputs) != 1 or node.regions or node.out in self.ends:
                continue
            v = node.out
            uses = self.uses.get(v, ())
            if v not in self.found.rows and uses:
                if all(n.outputs and self._is_dead(n.outputs[0]) for n, _ in uses):
                    dead.add(v)

    def _is_dead(self, v: Value) -> bool:
        """Whether a value is a part of an entry, or the position of one."""
        return v in self.found.rows or v in self.found.dead

    def _is_read(self, v: Value) -> bool:
        """Whether anything reads a value but what is dead."""
        if v in self.ends:
            return True
        for node, k in self.uses.get(v, ()):
            if node.op is cond and k > 0:
                inner = [region.params[k - 1] for region in node.regions]
            elif is_loop(node):
                loop = Loop.of(node)
                k -= loop.dynamic
                if not 0 <= k < len(loop.invariants):
                    return True
                inner = [loop.inner[k]]
                if loop.test is not None:
                    inner.append(loop.test.params[k])
            elif node.outputs and self._is_dead(node.outputs[0]):
                continue
            else:
                return True
            if any(self._is_read(u) for u in inner):
                return True
        return False

    def _drop_counts(self, turns: Turns) -> None:
        """Keep no number of turns that a list of as many entries tells as well."""
        rows = [(v, row) for v, row in self.found.rows.items() if row.turns is turns]
        idle = {
            part
            for part in turns.parts
            if all(self._only_bounds(v) for v, row in rows if row.part is part)
        }
        if len(idle) < len(turns.parts):
            turns.parts = [part for part in turns.parts if part not in idle]

    def _only_bounds(self, v: Value) -> bool:
        """Whether a value is nothing but the bound of loops that do not count."""
        uses = self.uses.get(v, ())
        return v not in self.ends and all(
            n.outputs and n.outputs[0] in self.found.direct and k < Loop.of(n).dynamic
            for n, k in uses
        )
