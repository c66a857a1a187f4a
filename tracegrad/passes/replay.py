"""The proof by replay: loops that were found again do what was traced, node by node.

Both programs are numbered: what an op makes of numbered inputs has a number of its own,
the same whenever the op, its attributes, its types and its inputs are the same.  The
loops are run turn by turn on these numbers, counters as the ints that they are.  Each
result must have the number that it had before.  This is symbolic: no array is computed,
and equality is that of the computations, to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tracegrad.ir.graph import Const, Graph, Node, Value
from tracegrad.ir.index import ARRAY
from tracegrad.ir.region import constant_key, structure
from tracegrad.ir.verify import InvalidGraph
from tracegrad.ops.control import RESULT, Loop, for_loop
from tracegrad.ops.create import full, zeros
from tracegrad.ops.elementwise import add, multiply, subtract
from tracegrad.ops.index import getitem
from tracegrad.passes.segments import ARITHMETIC

_COUNTED = {add: int.__add__, subtract: int.__sub__, multiply: int.__mul__}


def check_replay(
    before: Sequence[Node], after: Sequence[Node], results: Iterable[Value]
) -> None:
    """Compare a flat program with the one that has loops.

    Args:
        before: the nodes as they were traced.
        after: the nodes with loops.
        results: what is read of them.

    Raises:
        InvalidGraph: a result is not computed as before, or not at all.
    """
    numbers = _Numbers(before)
    flat: dict[Value, int] = {}
    rolled: dict[Value, int] = {}
    numbers.run(before, flat)
    numbers.run(after, rolled)
    for v in results:
        if numbers.read(v, flat) != numbers.read(v, rolled):
            raise InvalidGraph(f"a loop that was found again changes {v!r}")


class _Numbers:
    """Numbers of computations, shared by the two programs."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.known: dict[Any, int] = {}
        self.ints: dict[int, int] = {}
        self.stacks: dict[int, list[int]] = {}
        self.ends: dict[tuple[int, int], int] = {}
        self.values: dict[int, complex] = {}
        self.filled: dict[int, int] = {}
        self.own = {id(r) for node in nodes for r in node.regions}
        self.arrays = {
            id(v.value)
            for node in nodes
            for v in node.inputs
            if isinstance(v, Const) and isinstance(v.value, np.ndarray)
        }

    def of(self, key: Any) -> int:
        """The number of a computation."""
        return self.known.setdefault(key, len(self.known))

    def constant(self, v: Const) -> int:
        """The number of a constant."""
        if isinstance(v.value, np.generic):
            v = Const(v.value.item())  # the types of results tell them apart
        number = self.of(("constant", constant_key(v)))
        if type(v.value) in (int, float, complex):
            self.values[number] = v.value
        if type(v.value) is int:
            self.ints[number] = v.value
        elif isinstance(v.value, np.ndarray) and id(v.value) not in self.arrays:
            self.stacks[number] = [self.constant(Const(x)) for x in v.value.tolist()]
        return number

    def read(self, v: Value, env: dict[Value, int]) -> int:
        """The number of a value; what no node makes is numbered as it is."""
        if isinstance(v, Const):
            return self.constant(v)
        found = env.get(v)
        return self.of(("outside", id(v))) if found is None else found

    def run(self, nodes: Iterable[Node], env: dict[Value, int]) -> None:
        """Number what the nodes make."""
        for node in nodes:
            inputs = [self.read(v, env) for v in node.inputs]
            if node.op is for_loop and id(node.regions[0]) not in self.own:
                made = self._turns(node, inputs)
            else:
                made = self._node(node, inputs)
                if node.op is for_loop:
                    self._note_ends(node, made)
            env.update(zip(node.outputs, made, strict=True))

    def _node(self, node: Node, inputs: list[int]) -> list[int]:
        function = _COUNTED.get(node.op)
        if function is not None and all(n in self.ints for n in inputs):
            made = function(*[self.ints[n] for n in inputs])
            return [self.constant(Const(made))]
        attrs = dict(node.attrs)
        index = attrs.get("index")
        if type(index) is tuple:
            attrs["index"], inputs = self._static(index, inputs)
            if node.op is getitem and len(inputs) == 1 and len(attrs["index"]) == 1:
                end = self.ends.get((inputs[0], attrs["index"][0]))
                if end is not None:
                    return [end]
            stack = self.stacks.get(inputs[0]) if node.op is getitem else None
            if stack is not None and len(inputs) == 1:
                return [stack[attrs["index"][0]]]
        if node.op in ARITHMETIC and node.out.type.kind in "fc":
            inputs = [self._as_number(n) for n in inputs]
        regions = tuple([structure(r) for r in node.regions])
        types = tuple([(v.type.shape, v.type.dtype) for v in node.outputs])
        key = node.op.name, tuple(inputs), tuple(attrs.items()), types, regions
        numbers = [self.of((key, k)) for k in range(len(node.outputs))]
        if node.op in (zeros, full):
            self.filled[numbers[0]] = inputs[0] if inputs else self.constant(Const(0.0))
        return numbers

    def _as_number(self, number: int) -> int:
        """What arithmetic makes of a number, or of an array that is filled with it."""
        number = self.filled.get(number, number)
        value = self.values.get(number)
        if value is None:
            return number
        return self.constant(Const(complex(value) if value.imag else float(value.real)))

    def _note_ends(self, node: Node, made: list[int]) -> None:
        """The last value of a carry is the last one in the stack of its values."""
        loop = Loop.of(node)
        for position, (v, kind, result) in enumerate(loop.stacks(), loop.carried):
            if kind == RESULT and type(v.type.shape[0]) is int:
                for k, after in enumerate(loop.nexts):
                    if after is result:
                        at = 0 if node.attrs["reverse"] else v.type.shape[0] - 1
                        self.ends[made[position], at] = made[k]

    def _static(self, index: tuple, inputs: list[int]) -> tuple[tuple, list[int]]:
        """A subscript with the counters in it as ints."""
        lead = len(inputs) - sum([e is ARRAY for e in index])
        rest = iter(inputs[lead:])
        entries, kept = [], inputs[:lead]
        for entry in index:
            if entry is ARRAY:
                number = next(rest)
                if number in self.ints:
                    entry = self.ints[number]
                else:
                    kept.append(number)
            entries.append(entry)
        return tuple(entries), kept

    def _turns(self, node: Node, inputs: list[int]) -> list[int]:
        """What a loop gives, run turn by turn."""
        loop, body = Loop.of(node), node.regions[0]
        split = len(inputs) - loop.carried
        fixed, carries = inputs[:split], inputs[split:]
        start, stop = node.attrs["bounds"]
        order = range(start, stop)
        columns: list[list[int]] = [[] for _ in body.results[loop.carried :]]
        for t in reversed(order) if node.attrs["reverse"] else order:
            out = self._turn(body, [self.constant(Const(t)), *fixed, *carries])
            carries = out[: loop.carried]
            for column, number in zip(columns, out[loop.carried :], strict=True):
                column.append(number)
        if any(kind != RESULT for kind in node.attrs["saved"]):
            raise InvalidGraph("a loop that was found again saves a carry's values")
        stacks = []
        for column in columns:
            if node.attrs["reverse"]:
                column.reverse()
            stacks.append(self.of(("stack", tuple(column))))
            self.stacks[stacks[-1]] = column
        return [*carries, *stacks]

    def _turn(self, body: Graph, given: list[int]) -> list[int]:
        env = dict(zip(body.params, given, strict=True))
        self.run(body.nodes, env)
        return [self.read(v, env) for v in body.results]
