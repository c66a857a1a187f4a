"""Loops found again in the trace of a Python loop.

A Python `for` is traced turn by turn.  Here segments of nodes that repeat, at the same
lines of the user's and with the same flow of data, become one `for_loop` whose body is
the segment.  What a turn reads must be one of: made earlier in the turn; made in the
turn before, the first time outside (a carry); the same in every turn; a number that
grows evenly from turn to turn; or one of a table of numbers.  What does not fit stays
as it is, so that no result ever changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tracegrad.ir.graph import FORWARD, Const, Node, Value
from tracegrad.ir.region import structure
from tracegrad.ir.verify import enabled
from tracegrad.ops.index import getitem
from tracegrad.passes.fuse import fuse
from tracegrad.passes.gather import Elements, gather
from tracegrad.passes.replay import check_replay
from tracegrad.passes.segments import LEAST_TURNS, Segment, split_index

_CANDIDATES = 4
_MAX_NESTING = 6


def reroll(nodes: Sequence[Node], results: Iterable[Value]) -> list[Node]:
    """The nodes with repeated segments folded into loops, inner ones first.

    Args:
        nodes: a forward program.
        results: what is read of it afterwards.

    Raises:
        InvalidGraph: under pytest, where a loop does not do what was traced: our bug.
    """
    kept = list(nodes)
    needed = set(results)
    if any(node.op.guards or node.phase != FORWARD for node in kept):
        return kept
    tables: dict[Any, Const] = {}
    for _ in range(_MAX_NESTING):
        made = Search(kept, needed, tables).run()
        if made is None:
            break
        if enabled():
            check_replay(kept, made, needed)
        kept = gather(fuse(made), needed)
    return kept


# ---------------------------------------------------------------------- what is equal
def _key(node: Node) -> Any:
    attrs = dict(node.attrs)
    index = attrs.pop("index", None)
    skeleton = split_index(index)[0] if type(index) is tuple else index
    regions = tuple([structure(r) for r in node.regions])
    count = len(node.inputs)
    return node.op.name, id(node.at), count, skeleton, tuple(attrs.items()), regions


def _arrays(node: Node) -> tuple[int, ...]:
    """Which constant arrays a node reads: by input, 0 for one that is none."""
    return tuple(
        [
            id(v.value) if isinstance(v, Const) and v.type.shape else 0
            for v in node.inputs
        ]
    )


# ------------------------------------------------------------------------- the search
class Search:
    """One pass over the nodes, from the first to the last."""

    def __init__(
        self, nodes: list[Node], needed: set[Value], tables: dict[Any, Const]
    ) -> None:
        self.nodes = nodes
        self.needed = needed
        self.tables = tables  # one array for equal numbers: loops of it are equal
        numbers: dict[Any, int] = {}
        self.keys = [numbers.setdefault(_key(n), len(numbers)) for n in nodes]
        self.arrays = [_arrays(n) for n in nodes]
        self.places: dict[int, list[int]] = {}
        self.rank = []
        for i, key in enumerate(self.keys):
            found = self.places.setdefault(key, [])
            self.rank.append(len(found))
            found.append(i)
        self.position: dict[Value, tuple[int, int]] = {}
        for i, node in enumerate(nodes):
            self.position.update({v: (i, m) for m, v in enumerate(node.outputs)})
        self.readers: dict[Value, int] = {}
        for i, node in enumerate(nodes):
            for v in node.inputs:
                self.readers[v] = i
        self.elements = Elements(nodes)
        self.failed: dict[int, int] = {}
        self.ends: dict[int, tuple[int, int]] = {}

    def row(self, v: Value) -> tuple[tuple[Value, ...], tuple, tuple[int, ...]] | None:
        """What a value was read from: (inputs, subscript, its ints), if it was."""
        end = self.elements.ends.get(v)
        if end is not None:
            return (end[0],), (int,), end[1:]
        found = self.position.get(v)
        if found is None or self.nodes[found[0]].op is not getitem:
            return None
        node = self.nodes[found[0]]
        if node.attrs["counts"]:
            return None
        return (node.inputs, *split_index(node.attrs["index"]))

    def run(self) -> list[Node] | None:
        """The nodes with loops, or None if there is none."""
        made: list[Node] = []
        i, changed = 0, False
        while i < len(self.nodes):
            found = self._at(i)
            if found is None:
                made.append(self.nodes[i])
                i += 1
            else:
                loop_nodes, end = found
                made += loop_nodes
                i, changed = end, True
        return made if changed else None

    def _at(self, i: int) -> tuple[list[Node], int] | None:
        places, rank = self.places[self.keys[i]], self.rank[i]
        for j in places[rank + 1 : rank + 1 + _CANDIDATES]:
            period = j - i
            if i < self.failed.get(period, -1):
                continue
            end = self._run_end(i, period)
            turns = (end - i) // period + 1
            if turns < LEAST_TURNS:
                self.failed[period] = end  # fewer turns still from what is in between
                continue
            turns = min(turns, (len(self.nodes) - i) // period)
            for peeled in (0, 1):
                first = i + peeled * period
                segment = Segment(self, first, period, turns - peeled)
                done = segment.fold() if turns - peeled >= LEAST_TURNS else None
                if done is not None:
                    inner = self._inside(first, period)
                    if inner is not None:
                        begin, loop_nodes, end = inner
                        return self.nodes[i:begin] + loop_nodes, end
                    return self.nodes[i:first] + done, first + period * segment.turns
            self.failed[period] = i + 1 if segment.turns > 1 else end - period
        return None

    def _inside(self, first: int, period: int) -> tuple[int, list[Node], int] | None:
        """A loop in the first turn of another, which goes first: where, it, its end.

        A loop that was entered with its inner one, `for …: for …: a` and then `b`, is
        met at `b`, so that the outer loop is seen before the inner ones but one.
        """
        for k in range(first + 1, first + period):
            places, rank = self.places[self.keys[k]], self.rank[k]
            for j in places[rank + 1 : rank + 1 + _CANDIDATES]:
                inner = j - k
                turns = (first + period - k) // inner
                turns = min(turns, (self._run_end(k, inner) - k) // inner + 1)
                if turns < LEAST_TURNS:
                    continue
                segment = Segment(self, k, inner, turns)
                done = segment.fold()
                if done is not None:
                    return k, done, k + inner * segment.turns
        return None

    def _run_end(self, i: int, period: int) -> int:
        """The first k from i on where the key differs from the one a period later.

        Or another array is read there: no loop has those, however long the stretch.
        """
        start, end = self.ends.get(period, (0, -1))
        if start <= i <= end:
            return end
        keys, last, arrays = self.keys, len(self.keys) - period, self.arrays
        k = i
        while k < last and keys[k] == keys[k + period]:
            here, later = arrays[k], arrays[k + period]
            # An array and a value may be the first and the second of a carry.
            if here != later and any(
                a and b and a != b for a, b in zip(here, later, strict=True)
            ):
                break
            k += 1
        self.ends[period] = i, k
        return k
