"""Loops found again in the trace of a Python loop.

A Python `for` is traced turn by turn.  Here segments of nodes that repeat, at the same
lines of the user's and with the same flow of data, become one `for_loop` whose body is
the segment.  What a turn reads must be one of: made earlier in the turn; made in the
turn before, the first time outside (a carry); the same in every turn; a number that
grows evenly from turn to turn; or one of a table of numbers.  What does not fit stays
as it is, so that no result ever changes.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracegrad.errors import TracegradError
from tracegrad.ir.graph import FORWARD, Const, Node, Value
from tracegrad.ir.index import ARRAY
from tracegrad.ir.region import Open, close, constant_key, structure
from tracegrad.ir.verify import enabled
from tracegrad.ops.control import COUNTER, RESULT, for_loop, loop_attrs, stack_type
from tracegrad.ops.elementwise import add, multiply, subtract
from tracegrad.ops.index import getitem
from tracegrad.passes.replay import check_replay

_LEAST_TURNS = 3
# A loop with fewer operations in all is no shorter to read.
_LEAST_NODES = 8
_CANDIDATES = 4
_MAX_NESTING = 6
# As many turns are tried first: what fails in them fails in all.
_PROBED = 4


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
    for _ in range(_MAX_NESTING):
        made = _Search(kept, needed).run()
        if made is None:
            break
        kept = made
    if enabled() and len(kept) < len(nodes):
        check_replay(nodes, kept, needed)
    return kept


# ---------------------------------------------------------------------- what is equal
def _split_index(index: Any) -> tuple[tuple, tuple[int, ...]]:
    """A subscript without its ints, and those."""
    ints = tuple([e for e in index if type(e) is int])
    return tuple([int if type(e) is int else e for e in index]), ints


def _key(node: Node) -> Any:
    attrs = dict(node.attrs)
    index = attrs.pop("index", None)
    skeleton = _split_index(index)[0] if type(index) is tuple else index
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
class _Search:
    """One pass over the nodes, from the first to the last."""

    def __init__(self, nodes: list[Node], needed: set[Value]) -> None:
        self.nodes = nodes
        self.needed = needed
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
        self.failed: dict[int, int] = {}
        self.ends: dict[int, tuple[int, int]] = {}

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
            if turns < _LEAST_TURNS:
                self.failed[period] = end  # fewer turns still from what is in between
                continue
            turns = min(turns, (len(self.nodes) - i) // period)
            for peeled in (0, 1):
                first = i + peeled * period
                segment = _Segment(self, first, period, turns - peeled)
                done = segment.fold() if turns - peeled >= _LEAST_TURNS else None
                if done is not None:
                    return self.nodes[i:first] + done, first + period * segment.turns
            self.failed[period] = i + 1 if segment.turns > 1 else end - period
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


@dataclass(slots=True)
class _Flow:
    """How one input of a node of the body is read.

    Attributes:
        kind: "local", "carry", "same", "even" or "table".
        source: for a local or a carry, (offset, output).
        value: what it is the first time; for "table" the constant of all.
        slope: for "even", by how much it grows from turn to turn.
    """

    kind: str
    source: tuple[int, int] = (0, 0)
    value: Any = None
    slope: int = 0


@dataclass(slots=True)
class _Body:
    """The body under construction.

    Attributes:
        counter: its counter.
        start, step: the counter in the first turn, and by how much it grows (1 or -1).
        nodes: of the body.
        values: (offset, output) -> value in the body.
        carries: (offset, output, first value) -> parameter.
        before: nodes that stand before the loop.
    """

    counter: Value
    start: int = 0
    step: int = 1
    nodes: list[Node] = field(default_factory=list)
    values: dict[tuple[int, int], Value] = field(default_factory=dict)
    carries: dict[tuple[int, int, Value], Value] = field(default_factory=dict)
    before: list[Node] = field(default_factory=list)


class _Segment:
    """Nodes from `first` on that repeat with a period, and the proof that they do."""

    def __init__(self, search: _Search, first: int, period: int, turns: int) -> None:
        self.search = search
        self.first = first
        self.period = period
        self.turns = turns
        self.flows: list[list[_Flow]] = []
        self.ints: list[tuple[tuple[int, int], ...]] = []

    def node(self, turn: int, offset: int) -> Node:
        """A node by its turn and its place in the turn."""
        return self.search.nodes[self.first + turn * self.period + offset]

    def fold(self) -> list[Node] | None:
        """The loop and the nodes that read of it, or None if there is no proof."""
        probe = _Segment(self.search, self.first, self.period, self.turns)
        probe.turns = min(self.turns, _PROBED)
        if not all(map(probe._prove, range(self.period))):
            self.turns = probe.turns
            return None
        for offset in range(self.period):
            if not self._prove(offset):
                return None
        # Tables, and what is read afterwards, are made for the turns that hold.
        if self.turns * self.period < _LEAST_NODES or not self._carries_fit():
            return None
        if all(self.node(0, k).op is getitem for k in range(self.period)):
            return None  # rows that are read one by one, as of an earlier loop
        return self._build()

    def _holds(self, most: int) -> bool:
        self.turns = min(self.turns, most)
        return self.turns >= _LEAST_TURNS

    # ------------------------------------------------------------------- the proof
    def _prove(self, offset: int) -> bool:
        first = self.node(0, offset)
        types = [v.type for v in first.outputs]
        for turn in range(1, self.turns):
            if [v.type for v in self.node(turn, offset).outputs] != types:
                if not self._holds(turn):
                    return False
                break
        flows = []
        for q in range(len(first.inputs)):
            reads = [self.node(r, offset).inputs[q] for r in range(self.turns)]
            flow = self._flow(offset, reads)
            if flow is None:
                return False
            flows.append(flow)
        self.flows.append(flows)
        return self._prove_index(offset)

    def _flow(self, offset: int, reads: list[Value]) -> _Flow | None:
        second = self._place(reads[1])
        if second is None and isinstance(reads[0], Const):
            return self._constant_flow(reads)
        if second is None:
            other = [r for r, v in enumerate(reads) if v is not reads[0]]
            if self._place(reads[0]) is not None:
                return None
            same = self._holds(other[0] if other else len(reads))
            return _Flow("same", value=reads[0]) if same else None
        turn, at, output = second
        if turn not in (0, 1) or (turn == 1 and at >= offset):
            return None
        most = 1
        for r in range(1, len(reads)):
            if self._place(reads[r]) != (r - 1 + turn, at, output):
                break
            most = r + 1
        here = self._place(reads[0])
        if not self._holds(most):
            return None
        if turn == 1:
            return _Flow("local", (at, output)) if here == (0, at, output) else None
        return _Flow("carry", (at, output), reads[0]) if here is None else None

    def _place(self, v: Value) -> tuple[int, int, int] | None:
        """(turn, offset, output) of a value that the segment makes."""
        found = self.search.position.get(v)
        if found is None or found[0] < self.first:
            return None
        turn, at = divmod(found[0] - self.first, self.period)
        return turn, at, found[1]

    def _constant_flow(self, reads: list[Value]) -> _Flow | None:
        keys = [constant_key(v) if isinstance(v, Const) else None for v in reads]
        if all(k == keys[0] for k in keys):
            return _Flow("same", value=reads[0])
        values: list[Any] = [v.value if isinstance(v, Const) else None for v in reads]
        if all(type(x) is int for x in values):
            slope = values[1] - values[0]
            even = self._holds(_even(values, slope))
            return _Flow("even", value=values[0], slope=slope) if even else None
        if all(type(x) is float for x in values):
            return _Flow("table", value=values)
        alike = next(r for r, key in enumerate(keys) if key != keys[0])
        if alike < _LEAST_TURNS:
            return None
        self._holds(alike)
        return _Flow("same", value=reads[0])

    def _prove_index(self, offset: int) -> bool:
        index = self.node(0, offset).attrs.get("index")
        if type(index) is not tuple:
            self.ints.append(())
            return True
        rows = [
            _split_index(self.node(r, offset).attrs["index"])[1]
            for r in range(self.turns)
        ]
        found = []
        for column in zip(*rows, strict=True):
            slope = column[1] - column[0]
            if not self._holds(_even(column, slope)):
                return False
            # A negative index counts from the end: its sign must not change.
            ends = column[0], column[0] + slope * (self.turns - 1)
            if slope and min(ends) < 0 <= max(ends):
                return False
            found.append((column[0], slope))
        self.ints.append(tuple(found))
        return True

    def _carries_fit(self) -> bool:
        for flow in itertools.chain(*self.flows):
            if flow.kind == "carry":
                at, output = flow.source
                made = self.node(0, at).outputs[output].type
                have = flow.value.type
                if (made.shape, made.dtype) != (have.shape, have.dtype):
                    return False
                # `total = 0.0` is a float64 as soon as one is added.
                if made.weak != have.weak and not isinstance(flow.value, Const):
                    return False
        return True

    # ------------------------------------------------------------------- the loop
    def _build(self) -> list[Node] | None:
        counter = Value(COUNTER, "t", user=True)
        body = _Body(counter)
        slopes = [pair for ints in self.ints for pair in ints if pair[1] in (1, -1)]
        if slopes:
            (commonest, _), *_ = Counter(slopes).most_common(1)
            body.start, body.step = commonest
        try:
            for offset in range(self.period):
                self._add(body, offset)
        except TracegradError:
            return None  # a type that only the numbers themselves would give
        return self._close(body)

    def _add(self, body: _Body, offset: int) -> None:
        node = self.node(0, offset)
        if self._is_still(offset):
            body.values[offset, 0] = node.out
            body.before.append(node)
            return
        inputs = [self._read(body, node, flow) for flow in self.flows[offset]]
        attrs = dict(node.attrs)
        if any(slope for _, slope in self.ints[offset]):
            attrs["index"], inputs = self._moving(body, offset, inputs)
        outputs = tuple([Value(v.type, v.hint, user=v.user) for v in node.outputs])
        made = node.changed(inputs=tuple(inputs), outputs=outputs, attrs=attrs)
        regions = {"regions": node.regions} if node.regions else {}
        types = node.op.infer(*[v.type for v in inputs], **regions, **attrs)
        given = types if type(types) is tuple else (types,)
        if [(t.shape, t.dtype) for t in given] != [
            (v.type.shape, v.type.dtype) for v in outputs
        ]:
            raise TracegradError("a table changes a dtype")
        body.nodes.append(made)
        for output, v in enumerate(outputs):
            body.values[offset, output] = v

    def _is_still(self, offset: int) -> bool:
        """Whether a node reads the same row in every turn, so that one read will do."""
        flows, ints = self.flows[offset], self.ints[offset]
        same = all(flow.kind == "same" for flow in flows)
        still = not any(slope for _, slope in ints)
        return self.node(0, offset).op is getitem and same and still

    def _read(self, body: _Body, node: Node, flow: _Flow) -> Value:
        if flow.kind == "local":
            return body.values[flow.source]
        if flow.kind == "same":
            return flow.value
        if flow.kind == "carry":
            key = (*flow.source, flow.value)
            if key not in body.carries:
                made = self.node(0, flow.source[0]).outputs[flow.source[1]]
                hint = made.hint or flow.value.hint
                body.carries[key] = Value(made.type, hint, user=bool(hint))
            return body.carries[key]
        if flow.kind == "even":
            return self._even_value(body, node, flow.value, flow.slope)
        table = Const(np.array(flow.value[: self.turns]))
        position = self._even_value(body, node, 0, 1)
        return self._record(
            body, node, getitem, (table, position), {"index": (ARRAY,), "counts": ()}
        )

    def _moving(self, body: _Body, offset: int, inputs: list[Value]) -> tuple:
        """A subscript whose ints move, as index inputs."""
        node = self.node(0, offset)
        arrays = [e is ARRAY for e in node.attrs["index"]]
        lead = len(inputs) - sum(arrays)
        rest = iter(inputs[lead:])
        ints = iter(self.ints[offset])
        entries, more = [], []
        for entry in node.attrs["index"]:
            if type(entry) is int:
                first, slope = next(ints)
                if slope:
                    more.append(self._even_value(body, node, first, slope))
                    entry = ARRAY
            elif entry is ARRAY:
                more.append(next(rest))
            entries.append(entry)
        return tuple(entries), [*inputs[:lead], *more]

    def _even_value(self, body: _Body, node: Node, first: int, slope: int) -> Value:
        """`first + slope * turn`, of the counter."""
        factor = slope * body.step
        shift = first - factor * body.start
        made = body.counter
        if factor != 1:
            made = self._record(body, node, multiply, (Const(factor), made), {})
        if shift:
            op = add if shift > 0 else subtract
            made = self._record(body, node, op, (made, Const(abs(shift))), {})
        return made

    def _record(
        self, body: _Body, node: Node, op: Any, inputs: tuple, attrs: dict
    ) -> Value:
        made = Value(op.infer(*[v.type for v in inputs], **attrs))
        body.nodes.append(Node(op, inputs, (made,), attrs, node.at, node.phase))
        return made

    def _close(self, body: _Body) -> list[Node]:
        stacks, after = self._read_later(body)
        params = list(body.carries.values())
        nexts = [body.values[at, output] for at, output, _ in body.carries]
        results = [*nexts, *stacks.values()]
        part = Open("body", [body.counter], params, body.nodes, results)
        captured, regions = close([part])
        start = body.start if body.step == 1 else body.start - self.turns + 1
        attrs = loop_attrs(
            len(params),
            bounds=(start, start + self.turns),
            reverse=body.step == -1,
            saved=(RESULT,) * len(stacks),
        )
        outputs = []
        seen: set[Value] = set()
        for at, output, _ in body.carries:
            last = self.node(self.turns - 1, at).outputs[output]
            outputs.append(Value(last.type, last.hint) if last in seen else last)
            seen.add(last)
        outputs += after["stacks"]
        node = self.node(0, 0)
        loop = Node(
            for_loop,
            (*captured, *[key[2] for key in body.carries]),
            tuple(outputs),
            attrs,
            node.at,
            node.phase,
            regions,
        )
        return [*body.before, loop, *after["nodes"]]

    def _read_later(self, body: _Body) -> tuple[dict, dict]:
        """What is read of the turns behind the loop, other than last carries."""
        end = self.first + self.turns * self.period
        lasts = {
            self.node(self.turns - 1, at).outputs[output]
            for at, output, _ in body.carries
        }
        stacks: dict[tuple[int, int], Value] = {}
        made: dict[tuple[int, int], Value] = {}
        nodes: list[Node] = []
        for turn in range(self.turns):
            for offset in range(self.period):
                node = self.node(turn, offset)
                for output, v in enumerate(node.outputs):
                    later = self.search.readers.get(v, -1) >= end
                    if v in lasts or not (later or v in self.search.needed):
                        continue
                    if body.values[offset, output] is v:
                        continue  # it is made before the loop
                    key = (offset, output)
                    if key not in stacks:
                        stacks[key] = body.values[key]
                        made[key] = Value(stack_type(v.type, self.turns))
                    at = turn if body.step == 1 else self.turns - 1 - turn
                    attrs = {"index": (at,), "counts": ()}
                    read = Node(getitem, (made[key],), (v,), attrs, node.at, node.phase)
                    nodes.append(read)
        return stacks, {"stacks": list(made.values()), "nodes": nodes}


def _even(values: Sequence[int], slope: int) -> int:
    """How many of the values grow evenly."""
    for r in range(1, len(values)):
        if values[r] - values[r - 1] != slope:
            return r
    return len(values)
