"""Batches of branches and loops: the body for one example made the body for many.

A branch that every example takes alike stays a branch; where each has its own, both
sides are computed and selected from.  A loop carries the batch.  What it stacks turn by
turn has the turns first and the examples second: read turn by turn, that gives a batch
again (`Turns`); read otherwise, the axes are exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tracegrad.ir.graph import Graph, Node, Value
from tracegrad.ir.region import copied
from tracegrad.ir.types import ArrayType, Size
from tracegrad.ops.control import (
    RESULT,
    Loop,
    cond,
    uncounted,
    undefined,
    whole_stack,
)
from tracegrad.ops.create import zeros, zeros_like
from tracegrad.ops.index import FULL, getitem
from tracegrad.ops.record import Builder, Ref
from tracegrad.ops.reduce import any as reduce_any
from tracegrad.ops.select import where
from tracegrad.ops.shape import broadcast_to, transpose
from tracegrad.ops.solvers import is_solver

# `batch` of the module of that name, which imports this one.
BatchNodes = Callable[..., dict[Value, Any]]


@dataclass(frozen=True, slots=True)
class Turns:
    """A stack of a loop's turns, whose second axis counts the examples.

    Attributes:
        stack: the stack.
        listed: whether it may be a list, or was made like one.
        made: whether it is an array nevertheless.
    """

    stack: Ref
    listed: bool = True
    made: bool = False

    @property
    def batch(self) -> Ref:
        """The same with the examples first."""
        axes = (1, 0, *range(2, self.stack.ndim))
        return transpose(whole_stack(self.stack, self.listed), axes=axes)

    @property
    def start(self) -> Ref:
        """The same as what a loop starts with."""
        return whole_stack(self.stack, self.listed and not self.made)


@dataclass(slots=True)
class Batching:
    """What goes through all regions of one use of `vmap`.

    Attributes:
        size: of the batch.
        strict: whether loops over the batch are refused.
        nodes: batches a list of nodes.
    """

    size: Size
    strict: bool
    nodes: BatchNodes


def batch_regions(
    builder: Builder, node: Node, known: dict[Value, Any], how: Batching
) -> bool:
    """Record a node with regions for a batch, and note its outputs in `known`.

    Returns:
        False if it must be written out for each example.
    """
    if is_solver(node):
        return False  # each example has a number of steps of its own
    if node.op is cond:
        return _cond(builder, node, known, how)
    loop = Loop.of(node)
    if any(v in known for v in node.inputs[: loop.dynamic]):
        return False  # each example makes turns of its own number
    return _Loop(builder, loop, known, how).record()


def _batched_type(t: ArrayType, size: Size) -> ArrayType:
    return ArrayType((size, *t.shape), t.dtype)


def _entry(v: Value, known: dict[Value, Any]) -> Any:
    """How a value goes into a region: "plain", "batch" or "turns"."""
    if v not in known:
        return "plain"
    return "turns" if isinstance(known[v], Turns) else "batch"


def _outside(builder: Builder, v: Value, known: dict[Value, Any]) -> Value:
    found = known.get(v)
    if found is None:
        return v
    return found.stack.value if isinstance(found, Turns) else found.value


def _spread(builder: Builder, v: Value, shape: tuple[Size, ...], axis: int = 0) -> Ref:
    """A value that all examples share, with an axis for them."""
    x = builder.wrap(v)
    if uncounted(v.type):
        # A list of no turns has not the shape of one turn.
        if any(n.op is zeros_like and n.out is v for n in builder.nodes):
            return zeros(shape=shape, dtype=v.type.dtype.name)
        x = whole_stack(x)
    if axis:
        x = getitem(x, index=(*[FULL] * axis, None))
    return broadcast_to(x, shape=shape)


class _Inside:
    """A region for a batch.

    Args:
        region: for one example.
        kinds: how its parameters come: "plain", as a "batch", or as a stack of "turns",
            one that is "made" an array.
        how: what all regions share.

    Attributes:
        params: in the order of the region's.
        scratch: its nodes.
        results: what stands for the region's results, batched or not.
    """

    def __init__(self, region: Graph, kinds: Sequence[str], how: Batching) -> None:
        known = {v: Value(v.type, v.hint, v.wrt, v.user) for v in region.params}
        single = list(known.values())
        nodes, self.single = copied(region.nodes, region.results, known)
        self.scratch = Builder()
        self.how = how
        self.params: list[Value] = []
        inner: dict[Value, Any] = {}
        for v, kind in zip(single, kinds, strict=True):
            if kind == "plain":
                self.params.append(v)
                continue
            size = how.size
            shape = (size, *v.type.shape)
            if kind != "batch":
                shape = (v.type.shape[0], size, *v.type.shape[1:])
            made = Value(ArrayType(shape, v.type.dtype), v.hint, None, v.user)
            self.params.append(made)
            ref = self.scratch.wrap(made)
            inner[v] = ref if kind == "batch" else Turns(ref, made=kind == "made")
        self.known = how.nodes(self.scratch, nodes, inner, how.size, how.strict)
        self.scratch.derived = True

    def is_batched(self, k: int) -> bool:
        """Whether a result has a batch axis."""
        return self.single[k] in self.known

    def whole(self, k: int) -> Value:
        """A result with a batch axis."""
        v = self.single[k]
        found = self.known.get(v)
        if isinstance(found, Turns):
            return found.batch.value
        if found is not None:
            return found.value
        shape = (self.how.size, *v.type.shape)
        if any(n.op is undefined and n.out is v for n in self.scratch.nodes):
            attrs = {"shape": shape, "dtype": v.type.dtype, "weak": False}
            return self.scratch.record(undefined, (), attrs).value
        return _spread(self.scratch, v, shape).value

    def kind(self, k: int) -> str:
        """How a result is there: "plain", "batch" or "turns"."""
        return _entry(self.single[k], self.known)

    def stack(self, k: int) -> Value:
        """A result whose kind is "turns"."""
        return self.known[self.single[k]].stack.value

    def plain(self, k: int) -> Value:
        """A result without one."""
        return self.single[k]


# ---------------------------------------------------------------------------- branches
def _cond(builder: Builder, node: Node, known: dict[Value, Any], how: Batching) -> bool:
    which = node.inputs[0]
    kinds = [_entry(v, known) for v in node.inputs[1:]]
    parts = [_Inside(region, kinds, how) for region in node.regions]
    count = len(node.outputs)
    if which not in known:
        graphs = []
        for region, p in zip(node.regions, parts, strict=True):
            results = [p.whole(k) for k in range(count)]
            graphs.append(Graph(region.name, p.params, p.scratch.nodes, results))
        inputs = [which, *[_outside(builder, v, known) for v in node.inputs[1:]]]
        outputs = [_like(v, how.size) for v in node.outputs]
        made = node.changed(
            inputs=tuple(inputs), outputs=tuple(outputs), regions=tuple(graphs)
        )
        made.derived = True
        builder.append(made)
        for v, out in zip(node.outputs, outputs, strict=True):
            known[v] = builder.wrap(out)
        return True
    _selected(builder, node, parts, known)
    return True


def _like(v: Value, size: Size) -> Value:
    return Value(_batched_type(v.type, size), v.hint, None, v.user, v.prefix)


def _selected(
    builder: Builder, node: Node, parts: list[_Inside], known: dict[Value, Any]
) -> None:
    """All branches in the place of the node, and each example's own selected."""
    which = known[node.inputs[0]]
    columns: list[list[Ref | None]] = []
    for p in parts:
        outer = [_outside(builder, v, known) for v in node.inputs[1:]]
        places = dict(zip(p.params, outer, strict=True))
        unmade = {n.out for n in p.scratch.nodes if n.op is undefined}
        there = [v not in unmade for v in p.single]
        results = [p.whole(k) for k, made in enumerate(there) if made]
        nodes, found = copied(p.scratch.nodes, results, places)
        read = {v for n in nodes for v in n.inputs}
        for n in nodes:
            if n.op is not undefined or n.out in read:
                n.at, n.phase, n.derived = n.at or node.at, node.phase, True
                builder.append(n)
        rest = iter(found)
        columns.append([builder.wrap(next(rest)) if made else None for made in there])
    for k, v in enumerate(node.outputs):
        made = _select(which, [column[k] for column in columns], v.type.ndim)
        made.value.hint, made.value.user = v.hint, v.user
        known[v] = made


def _select(which: Ref, branches: list[Ref | None], rank: int) -> Ref:
    """The value of the branch that each example takes; None for one not made there."""
    if which.dtype == bool:
        first, second = branches
        if first is None or second is None:
            found = first if second is None else second
            assert found is not None
            return found
        return where(_wide(which, rank), first, second)
    made: Ref | None = None
    for i in reversed(range(len(branches))):
        x = branches[i]
        if x is None:
            continue
        made = x if made is None else where(_wide(which <= i, rank), x, made)
    assert made is not None
    return made


def _wide(test: Ref, rank: int) -> Ref:
    """One truth for each example, beside examples of so many axes."""
    return getitem(test, index=(FULL, *[None] * rank)) if rank else test


# ------------------------------------------------------------------------------- loops
class _Loop:
    """One loop for a batch."""

    def __init__(
        self, builder: Builder, loop: Loop, known: dict[Value, Any], how: Batching
    ) -> None:
        self.builder, self.loop, self.known, self.how = builder, loop, known, how
        self.fixed = [_entry(v, known) for v in loop.invariants]
        self.carried = [_entry(v, known) for v in loop.starts]
        for k, kind in enumerate(self.carried):
            if kind == "turns" and k in loop.node.attrs["saved"]:
                self.carried[k] = "batch"

    @property
    def moved(self) -> list[bool]:
        """Which carries have a batch axis."""
        return [kind != "plain" for kind in self.carried]

    def _kinds(self, lead: int) -> list[str]:
        carried = ["made" if kind == "turns" else kind for kind in self.carried]
        return [*["plain"] * lead, *self.fixed, *carried]

    def _next(self, k: int, made: str) -> str:
        """How a carry must be, of which a turn gives a value that is `made` so.

        A stack that each turn adds to, at its place, stays a stack of turns.
        """
        before = self.carried[k]
        if made == "plain" or before == "batch":
            return "batch" if before == "turns" else before
        if before == "turns":
            return made
        saved = k in self.loop.node.attrs["saved"]
        return "turns" if uncounted(self.loop.starts[k].type) and not saved else "batch"

    def record(self) -> bool:
        """Record the loop; False if its batch has no loop of its own."""
        loop = self.loop
        own_test = False
        while True:
            if loop.test is not None:
                test = _Inside(loop.test, self._kinds(0), self.how)
                own_test = test.is_batched(0)
                if own_test:  # each example stops at its own turn
                    if len(loop.node.outputs) > loop.carried:
                        return False
                    self.carried = ["batch"] * loop.carried
            body = _Inside(loop.body, self._kinds(int(loop.counted)), self.how)
            more = [self._next(k, body.kind(k)) for k in range(loop.carried)]
            if more == self.carried:
                break
            self.carried = more
        if loop.test is None:
            regions = []
        elif own_test:
            test = _Inside(loop.test, self._kinds(0), self.how)
            regions = [self._any(test)]
            self._hold(body)
        else:
            test = _Inside(loop.test, self._kinds(0), self.how)
            regions = [
                Graph(loop.test.name, test.params, test.scratch.nodes, [test.plain(0)])
            ]
        self._append(body, regions)
        return True

    def _any(self, test: _Inside) -> Graph:
        """Go on as long as some example does."""
        assert self.loop.test is not None
        go = reduce_any(test.scratch.wrap(test.whole(0)))
        return Graph(self.loop.test.name, test.params, test.scratch.nodes, [go.value])

    def _hold(self, body: _Inside) -> None:
        """Let the examples that have stopped keep their carries."""
        assert self.loop.test is not None
        again = _Inside(self.loop.test, self._kinds(0), self.how)
        result = again.whole(0)
        places = dict(zip(again.params, body.params, strict=True))
        nodes, (go,) = copied(again.scratch.nodes, [result], places)
        for n in nodes:
            body.scratch.append(n)
        carries = body.params[len(body.params) - self.loop.carried :]
        for k, old in enumerate(carries):
            new = body.scratch.wrap(body.whole(k))
            test = _wide(body.scratch.wrap(go), new.ndim - 1)
            held = where(test, new, body.scratch.wrap(old))
            body.known[body.single[k]] = held

    def _append(self, body: _Inside, regions: list[Graph]) -> None:
        loop, node, how = self.loop, self.loop.node, self.how
        n = loop.carried
        ways = {"plain": body.plain, "batch": body.whole, "turns": body.stack}
        results: list[Value] = [ways[kind](k) for k, kind in enumerate(self.carried)]
        stacked: list[bool] = []
        place = n
        for _, kind, _ in loop.stacks():
            if kind == RESULT:
                stacked.append(body.is_batched(place))
                made = body.whole(place) if stacked[-1] else body.plain(place)
                results.append(made)
                place += 1
            else:
                stacked.append(self.moved[kind])
        regions.append(Graph(loop.body.name, body.params, body.scratch.nodes, results))
        starts = [self._start(k) for k in range(n)]
        split = len(node.inputs) - n
        fixed = [_outside(self.builder, v, self.known) for v in node.inputs[:split]]
        outputs = list(node.outputs)
        for k in range(n):
            if self.carried[k] == "batch":
                outputs[k] = _like(node.outputs[k], how.size)
            elif self.carried[k] == "turns":
                outputs[k] = self._stack_of(node.outputs[k])
        for s, flag in enumerate(stacked):
            if flag:
                outputs[n + s] = self._stack_of(node.outputs[n + s])
        made_node = node.changed(
            inputs=(*fixed, *starts), outputs=tuple(outputs), regions=tuple(regions)
        )
        made_node.derived = True
        self.builder.append(made_node)
        for k in range(n):
            if self.carried[k] == "batch":
                self.known[node.outputs[k]] = self.builder.wrap(outputs[k])
            elif self.carried[k] == "turns":
                turns = Turns(self.builder.wrap(outputs[k]), made=True)
                self.known[node.outputs[k]] = turns
        for s, flag in enumerate(stacked):
            if flag:
                listed = s >= node.attrs["stacked"]
                stack = Turns(self.builder.wrap(outputs[n + s]), listed)
                self.known[node.outputs[n + s]] = stack

    def _stack_of(self, v: Value) -> Value:
        """What stands for a stack of turns."""
        shape = (v.type.shape[0], self.how.size, *v.type.shape[1:])
        return Value(ArrayType(shape, v.type.dtype), v.hint, None, v.user)

    def _start(self, k: int) -> Value:
        v, kind = self.loop.starts[k], self.carried[k]
        found = self.known.get(v)
        if isinstance(found, Turns):
            return (found.start if kind == "turns" else found.batch).value
        if found is not None or kind == "plain":
            return v if found is None else found.value
        if kind == "batch":
            return _spread(self.builder, v, (self.how.size, *v.type.shape)).value
        shape = (v.type.shape[0], self.how.size, *v.type.shape[1:])
        return _spread(self.builder, v, shape, 1).value
