"""A loop over what another loop gave, written as one expression, put into that loop.

`sum(losses)` adds the elements of a list one by one, in the order in which a loop
before it made them.  If it reads nothing else that changes from turn to turn, each
addition may be made in the turn that makes its element: the same numbers in the same
order, and no list.  A loop of the user's own with more than one expression stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracegrad.ir.graph import Const, Graph, Node, Value
from tracegrad.ir.index import ARRAY
from tracegrad.ir.region import substituted
from tracegrad.ops.control import RESULT, Loop, for_loop
from tracegrad.ops.elementwise import add, subtract
from tracegrad.ops.index import getitem
from tracegrad.passes.gather import Elements


def fuse(nodes: Sequence[Node]) -> list[Node]:
    """The nodes with such loops put into the loops that they read.

    Args:
        nodes: a forward program after loops were found in it.
    """
    kept: list[Node | None] = list(nodes)
    elements = Elements(nodes)
    place = {v: i for i, n in enumerate(nodes) for v in n.outputs}
    for i, node in enumerate(nodes):
        found = _Fusion.of(node, elements, place)
        if found is not None:
            at = place[found.first.node.outputs[0]]
            made = found.made()
            kept[at], kept[i] = made, None
            elements.add(made)
            place.update(dict.fromkeys(made.outputs, at))
    return [node for node in kept if node is not None]


@dataclass(slots=True)
class _Fusion:
    """Two loops that may be one.

    Attributes:
        first: makes the elements.
        second: reads them in order.
        stack: that holds them.
        result: of the body of `first`, that they are.
    """

    first: Loop
    second: Loop
    stack: Value
    result: Value

    @classmethod
    def of(
        cls, node: Node, elements: Elements, place: dict[Value, int]
    ) -> _Fusion | None:
        """The fusion of a loop with the one whose elements it reads, if it is one."""
        if node.op is not for_loop or node.attrs["remat"] or node.attrs["count"]:
            return None
        loop = Loop.of(node)
        if any(n.at != node.at or n.regions for n in loop.body.nodes):
            return None
        stacks = [v for v in loop.invariants if v in elements.loops]
        if len(stacks) != 1 or loop.dynamic or stacks[0] in loop.starts:
            return None
        made, position = elements.loops[stacks[0]]
        first = Loop.of(made)
        at = place[stacks[0]]
        others = [v for v in node.inputs if v is not stacks[0]]
        if any(place.get(v, -1) >= at for v in others if not isinstance(v, Const)):
            return None
        result = first.stacks()[position - first.carried][2]
        if first.dynamic or result is None or made.attrs["remat"]:
            return None
        found = cls(first, loop, stacks[0], result)
        return found if found._in_order() else None

    def _in_order(self) -> bool:
        """Whether each turn reads the element of the turn of the same number."""
        start, stop = self.second.node.attrs["bounds"]
        first, last = self.first.node.attrs["bounds"]
        count = stop - start
        if not all(type(n) is int for n in (start, stop, first, last)):
            return False
        if count != last - first or not self._rows():
            return False
        down, written = self.second.node.attrs["reverse"], range(count)
        turns = range(stop - 1, start - 1, -1) if down else range(start, stop)
        order = written[::-1] if self.first.node.attrs["reverse"] else written
        shifts = self._shifts()
        for node in self._rows():
            index = shifts.get(node.inputs[1])
            if index is None or [turns[0] + index, turns[-1] + index] != [
                order[0],
                order[-1],
            ]:
                return False
        counter = self.second.counter
        left = self._left()
        return not any(counter in n.inputs for n in left) and (
            counter not in self.second.body.results
        )

    def _param(self) -> Value:
        return self.second.inner[self.second.invariants.index(self.stack)]

    def _rows(self) -> list[Node]:
        """The reads of the stack; none if it is read in any other way."""
        param = self._param()
        found = [n for n in self.second.body.nodes if param in n.inputs]
        plain = all(
            n.op is getitem and n.attrs["index"] == (ARRAY,) and n.inputs[0] is param
            for n in found
        )
        return found if plain and param not in self.second.body.results else []

    def _shifts(self) -> dict[Value, int]:
        """What is the counter plus a number."""
        counter = self.second.counter
        assert counter is not None
        found = {counter: 0}
        for node in self.second.body.nodes:
            if node.op in (add, subtract) and node.inputs[0] in found:
                by = node.inputs[1]
                if isinstance(by, Const) and type(by.value) is int:
                    sign = 1 if node.op is add else -1
                    found[node.out] = found[node.inputs[0]] + sign * by.value
        return found

    def _left(self) -> list[Node]:
        """The nodes of the second body without the reads and their positions."""
        rows = self._rows()
        read = {row.inputs[1] for row in rows}
        nodes = [n for n in self.second.body.nodes if n not in rows]
        elsewhere = {v for n in nodes for v in n.inputs}
        return [n for n in nodes if n.out not in read or n.out in elsewhere]

    def made(self) -> Node:
        """The one loop."""
        first, second = self.first, self.second
        known = {row.out: self.result for row in self._rows()}
        nodes, results = substituted(self._left(), second.body.results, known)
        inner = [p for p in second.inner if p is not self._param()]
        outside = [v for v in second.invariants if v is not self.stack]
        body = first.body
        split = len(body.params) - first.carried
        params = [
            *body.params[:split],
            *inner,
            *body.params[split:],
            *second.carries,
        ]
        inputs = [*first.invariants, *outside, *first.starts, *second.starts]
        plain = first.node.attrs["stacked"], second.node.attrs["stacked"]
        mine, theirs = first.stacks(), second.stacks()
        by = first.carried
        moved = [
            (v, kind if kind == RESULT else kind + by, made)
            for (v, kind, _), made in zip(
                theirs, _of_stacks(theirs, results[second.carried :]), strict=True
            )
        ]
        stacked = [*mine[: plain[0]], *moved[: plain[1]]]
        saved = [*mine[plain[0] :], *moved[plain[1] :]]
        kept = [made for _, _, made in (*stacked, *saved) if made is not None]
        ends = [*first.nexts, *results[: second.carried], *kept]
        region = Graph(body.name, params, [*body.nodes, *nodes], ends)
        return first.node.changed(
            inputs=tuple(inputs),
            outputs=(
                *first.last,
                *second.last,
                *[v for v, _, _ in (*stacked, *saved)],
            ),
            attrs={
                **first.node.attrs,
                "carried": by + second.carried,
                "stacked": len(stacked),
                "saved": tuple([kind for _, kind, _ in saved]),
            },
            regions=(region,),
        )


def _of_stacks(stacks: Sequence[tuple], results: Sequence[Value]) -> list[Value | None]:
    """The result of the body that each stack holds."""
    rest = iter(results)
    return [next(rest) if kind == RESULT else None for _, kind, _ in stacks]
