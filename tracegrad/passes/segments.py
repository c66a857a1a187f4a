"""The proof that nodes repeat with a period, and the loop that they become.

What a turn reads must be one of: made earlier in the turn; made in the turn before, the
first time outside (a carry); the same in every turn; a row of one array, at an index
that grows evenly; a number that grows evenly from turn to turn; or one of a table of
numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tracegrad.errors import TracegradError
from tracegrad.ir.graph import Const, Node, Value
from tracegrad.ir.index import ARRAY
from tracegrad.ir.region import Open, close, constant_key
from tracegrad.ops.control import COUNTER, RESULT, for_loop, loop_attrs, stack_type
from tracegrad.ops.create import full, zeros
from tracegrad.ops.elementary import power as power_op
from tracegrad.ops.elementwise import add, divide, multiply, subtract
from tracegrad.ops.index import getitem

if TYPE_CHECKING:
    from tracegrad.passes.reroll import Search

LEAST_TURNS = 3
# An int in a subscript: its first value and growth, or its values in all turns.
_Column = tuple[int, ...]
# Numbers of which an array is the same, bit for bit.
_TABLED = {int, float, complex, np.float64, np.float32, np.complex128, np.int64}
# Operations that give the same if a number was converted and repeated before.
ARITHMETIC = {add, subtract, multiply, divide}
_EXACT = 2**53  # up to here every int is a float
# A loop with fewer operations in all is no shorter to read.
_LEAST_NODES = 8
# As many turns are tried first: what fails in them fails in all.
_PROBED = 4


def split_index(index: Any) -> tuple[tuple, tuple[int, ...]]:
    """A subscript without its ints, and those."""
    ints = tuple([e for e in index if type(e) is int])
    return tuple([int if type(e) is int else e for e in index]), ints


@dataclass(slots=True)
class _Flow:
    """How one input of a node of the body is read.

    Attributes:
        kind: "local", "carry", "same", "row", "even" or "table".
        source: for a local or a carry, (offset, output).
        value: what it is the first time; for "table" the constants of all turns; for
            "row" what is read: (inputs, subscript, its moving ints).
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
        rows: what is read by the counter -> the value of it.
        tables: the numbers of all turns -> that of the turn.
        before: nodes that stand before the loop.
    """

    counter: Value
    start: int = 0
    step: int = 1
    nodes: list[Node] = field(default_factory=list)
    values: dict[tuple[int, int], Value] = field(default_factory=dict)
    carries: dict[tuple[int, int, Value], Value] = field(default_factory=dict)
    rows: dict[Any, Value] = field(default_factory=dict)
    tables: dict[tuple, Value] = field(default_factory=dict)
    before: list[Node] = field(default_factory=list)


class Segment:
    """Nodes from `first` on that repeat with a period, and the proof that they do."""

    def __init__(self, search: Search, first: int, period: int, turns: int) -> None:
        self.search = search
        self.first = first
        self.period = period
        self.turns = turns
        self.flows: list[list[_Flow]] = []
        self.ints: list[tuple[_Column, ...]] = []
        self.starts: list[Node] = []
        self.numbers: dict[Any, Const] = {}

    def node(self, turn: int, offset: int) -> Node:
        """A node by its turn and its place in the turn."""
        return self.search.nodes[self.first + turn * self.period + offset]

    def fold(self) -> list[Node] | None:
        """The loop and the nodes that read of it, or None if there is no proof."""
        probe = Segment(self.search, self.first, self.period, self.turns)
        probe.turns = min(self.turns, _PROBED)
        if not all(map(probe._prove, range(self.period))):
            self.turns = probe.turns
            return None
        for offset in range(self.period):
            if not self._prove(offset):
                return None
        # Tables, and what is read afterwards, are made for the turns that hold.
        if not (self._is_long() and self._carries_fit()):
            return None
        if all(self.node(0, k).op is getitem for k in range(self.period)):
            return None  # rows that are read one by one, as of an earlier loop
        return self._build()

    def _is_long(self) -> bool:
        nested = any(self.node(0, k).regions for k in range(self.period))
        return nested or self.turns * self.period >= _LEAST_NODES

    def _holds(self, most: int) -> bool:
        self.turns = min(self.turns, most)
        return self.turns >= LEAST_TURNS

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
            return self._constant_flow(offset, reads)
        if second is None:
            other = [r for r, v in enumerate(reads) if v is not reads[0]]
            if self._place(reads[0]) is not None:
                return None
            if other and other[0] < LEAST_TURNS:
                return self._row_flow(reads)
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
        if here is not None:
            return None
        return _Flow("carry", (at, output), self._start((at, output), reads[0]))

    def _start(self, source: tuple[int, int], v: Value) -> Value:
        """What a carry is in the first turn: for equal numbers one, of one carry."""
        if not isinstance(v, Const):
            return v
        return self.numbers.setdefault((source, constant_key(v)), v)

    def _row_flow(self, reads: list[Value]) -> _Flow | None:
        """Rows that were read before, of one array and in order."""
        rows: list[tuple[tuple[Value, ...], tuple, tuple[int, ...]]] = []
        for v in reads:
            row = None if self._place(v) is not None else self.search.row(v)
            if row is None or row[:2] != (rows or [row])[0][:2]:
                break
            rows.append(row)
        if not self._holds(len(rows)):
            return None
        columns = self._columns([ints for _, _, ints in rows])
        if columns is None:
            return None
        return _Flow("row", value=(*rows[0][:2], columns))

    def _place(self, v: Value) -> tuple[int, int, int] | None:
        """(turn, offset, output) of a value that the segment makes."""
        found = self.search.position.get(v)
        if found is None or found[0] < self.first:
            return None
        turn, at = divmod(found[0] - self.first, self.period)
        return turn, at, found[1]

    def _constant_flow(self, offset: int, reads: list[Value]) -> _Flow | None:
        keys = [constant_key(v) if isinstance(v, Const) else None for v in reads]
        if all(k == keys[0] for k in keys):
            return _Flow("same", value=reads[0])
        values: list[Any] = [v.value if isinstance(v, Const) else None for v in reads]
        if all(type(x) is int for x in values):
            slope = values[1] - values[0]
            even = _even(values, slope)
            if even >= LEAST_TURNS or not _are_distinct(values):
                held = self._holds(even)
                return _Flow("even", value=values[0], slope=slope) if held else None
        kinds = {type(x) for x in values}
        if len(kinds) == 1 and kinds <= _TABLED:
            # `x**2.0` has a way of its own, which the number of a table has not.
            power = self.node(0, offset).op is power_op and kinds <= {int, float}
            return None if power else _Flow("table", value=values)
        alike = next(r for r, key in enumerate(keys) if key != keys[0])
        if alike < LEAST_TURNS:
            return None
        self._holds(alike)
        return _Flow("same", value=reads[0])

    def _prove_index(self, offset: int) -> bool:
        index = self.node(0, offset).attrs.get("index")
        if type(index) is not tuple:
            self.ints.append(())
            return True
        columns = self._columns(
            [
                split_index(self.node(r, offset).attrs["index"])[1]
                for r in range(self.turns)
            ]
        )
        if columns is None:
            return False
        self.ints.append(columns)
        return True

    def _columns(self, rows: Sequence[tuple[int, ...]]) -> tuple[_Column, ...] | None:
        """How the ints of subscripts move, None where they do not evenly."""
        found = []
        for column in zip(*rows, strict=True):
            slope = column[1] - column[0]
            even = _even(column, slope)
            if even < LEAST_TURNS and _are_distinct(column) and min(column) >= 0:
                found.append(column)
                continue
            if not self._holds(even):
                return None
            # A negative index counts from the end: its sign must not change.
            ends = column[0], column[0] + slope * (self.turns - 1)
            if slope and min(ends) < 0 <= max(ends):
                return None
            found.append((column[0], slope))
        return tuple(found)

    def _carries_fit(self) -> bool:
        odd: dict[tuple[int, int, Value], list[int]] = {}
        for offset, flows in enumerate(self.flows):
            for flow in flows:
                if flow.kind != "carry":
                    continue
                at, output = flow.source
                made = self.node(0, at).outputs[output].type
                have = flow.value.type
                # `total = 0.0` is a float64 as soon as one is added; so is an argument
                # that is a Python float, and all of a turn has the types of the next.
                given = isinstance(flow.value, Const) or have.dtype.char in "dD"
                weak = made.weak != have.weak and not (have.weak and given)
                if weak or (made.shape, made.dtype) != (have.shape, have.dtype):
                    odd.setdefault((at, output, flow.value), []).append(offset)
        return all(self._widen(*key, offsets) for key, offsets in odd.items())

    def _widen(self, at: int, output: int, first: Value, offsets: list[int]) -> bool:
        """Start a carry, read by `offsets`, with what arithmetic makes of a number.

        NumPy converts a number to the dtype of the array that it is added to, and
        repeats it in its shape: `total = 0` may be zeros from the start.
        """
        t = self.node(0, at).outputs[output].type
        if not isinstance(first, Const) or type(first.value) not in (int, float):
            return False
        if t.kind not in "fc" or abs(first.value) > _EXACT:
            return False
        if any(self.node(0, k).op not in ARITHMETIC for k in offsets):
            return False
        value: Any = float(first.value)
        if t.kind == "f" and t.dtype != np.float64:
            value = t.dtype.type(value)
        elif t.kind == "c":
            value = complex(value) if t.dtype == np.complex128 else t.dtype.type(value)
        start: Value = Const(value)
        if t.shape:
            node = self.node(0, at)
            attrs = {"shape": t.shape, "dtype": t.dtype.name}
            plain = not any(np.array(value).tobytes())  # -0.0 is not
            op, inputs = (zeros, ()) if plain else (full, (start,))
            start = Value(t)
            self.starts.append(Node(op, inputs, (start,), attrs, node.at, node.phase))
        for flows in self.flows:
            for flow in flows:
                if flow.kind == "carry" and flow.source == (at, output):
                    if flow.value is first:
                        flow.value = start
        return True

    # ------------------------------------------------------------------- the loop
    def _build(self) -> list[Node] | None:
        counter = Value(COUNTER, "t", user=True)
        body = _Body(counter, before=list(self.starts))
        read = [f.value[2] for fs in self.flows for f in fs if f.kind == "row"]
        moving = [*self.ints, *read]
        slopes = [pair for ints in moving for pair in ints if pair[1:] in ((1,), (-1,))]
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
        if any(map(_moves, self.ints[offset])):
            moved = self._moving(body, node, attrs["index"], self.ints[offset], inputs)
            attrs["index"], inputs = moved
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
        still = not any(map(_moves, ints))
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
                noun = hint or self.node(0, flow.source[0]).op.noun
                body.carries[key] = Value(made.type, noun, user=bool(hint))
            return body.carries[key]
        if flow.kind == "even":
            return self._even_value(body, node, flow.value, flow.slope)
        if flow.kind == "row":
            return self._row(body, node, *flow.value)
        return self._table(body, node, flow.value)

    def _table(self, body: _Body, node: Node, values: Sequence[Any]) -> Value:
        """The number of the turn, out of those of all turns."""
        table = np.array(values[: self.turns])
        key = table.dtype, table.tobytes()  # 0.0 is not -0.0
        if key not in body.tables:
            position = self._even_value(body, node, 0, 1)
            attrs = {"index": (ARRAY,), "counts": ()}
            shared = self.search.tables.setdefault(key, Const(table))
            made = self._record(body, node, getitem, (shared, position), attrs)
            body.tables[key] = made
        return body.tables[key]

    def _row(
        self, body: _Body, node: Node, inputs: tuple, skeleton: tuple, columns: tuple
    ) -> Value:
        """A row read by the counter, once in a turn."""
        key = inputs, skeleton, columns
        if key not in body.rows:
            index, given = self._moving(body, node, skeleton, columns, list(inputs))
            attrs = {"index": index, "counts": ()}
            body.rows[key] = self._record(body, node, getitem, tuple(given), attrs)
        return body.rows[key]

    def _moving(
        self,
        body: _Body,
        node: Node,
        index: tuple,
        columns: Sequence[_Column],
        inputs: list[Value],
    ) -> tuple[tuple, list[Value]]:
        """A subscript whose ints move, as index inputs.

        Args:
            body: under construction.
            node: that reads.
            index: the subscript; `int` may stand for an int.
            columns: first value and growth of each int.
            inputs: arrays, the index arrays last.
        """
        lead = len(inputs) - sum([e is ARRAY for e in index])
        rest = iter(inputs[lead:])
        ints = iter(columns)
        entries, more = [], []
        for entry in index:
            if type(entry) is int or entry is int:
                column = next(ints)
                entry = column[0]
                if len(column) > 2:
                    more.append(self._table(body, node, column))
                    entry = ARRAY
                elif column[1]:
                    more.append(self._even_value(body, node, *column))
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


def _moves(column: _Column) -> bool:
    return len(column) > 2 or column[1] != 0


def _are_distinct(values: Sequence[int]) -> bool:
    return len(set(values)) == len(values)


def _even(values: Sequence[int], slope: int) -> int:
    """How many of the values grow evenly."""
    for r in range(1, len(values)):
        if values[r] - values[r - 1] != slope:
            return r
    return len(values)
