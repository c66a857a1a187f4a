"""Forward mode through branches and loops: the body and its tangent, side by side.

The tangent of a branch is a branch; that of a loop carries the tangents of the carries
along.  One node computes both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracegrad.ir.graph import Const, Graph, Node, Value
from tracegrad.ir.region import copied
from tracegrad.ops.control import (
    RESULT,
    Loop,
    cond,
    is_ragged,
    undefined,
    zeros_of_stack,
)
from tracegrad.ops.create import zeros_like
from tracegrad.ops.record import Builder, Ref

# `push_forward` of the module `forward`, which imports this one.
Push = Callable[..., dict[Value, Ref]]


def push_regions(
    builder: Builder,
    node: Node,
    given: Sequence[Ref | None],
    push: Push,
    outputs: Sequence[Value],
) -> list[Ref | None]:
    """Record a node with regions and its tangent; one tangent per output.

    Args:
        builder: receives the node that computes both.
        node: of `cond`, `for_loop` or `while_loop`.
        given: one tangent per input, `None` for zero.
        push: records the tangents of the nodes of a region.
        outputs: what the new node gives in the place of the outputs of `node`.
    """
    if node.op is cond:
        return _push_cond(builder, node, given, push, outputs)
    return _LoopTangent(builder, node, given, push, outputs).record()


def _zero(builder: Builder, v: Value) -> Value:
    if v.type.weak:
        return Const(0.0)
    if is_ragged(v.type):
        return builder.record(zeros_of_stack, (builder.wrap(v),), {}).value
    return zeros_like(builder.wrap(v)).value


class _Pushed:
    """A region with fresh values, and the tangents of its results.

    Attributes:
        params: fresh, in the order of the region's.
        tangents: of some of them, by position.
        nodes: of the region and of its tangent.
        results: of the region.
        known: the tangents, by value.
        scratch: where more can be recorded.
    """

    def __init__(self, region: Graph, moved: Sequence[int], push: Push) -> None:
        known = {v: Value(v.type, v.hint, v.wrt, v.user) for v in region.params}
        self.params = list(known.values())
        self.region = region
        nodes, self.results = copied(region.nodes, region.results, known)
        self.tangents = {
            i: Value(v.type, f"t_{v.hint}" if v.hint else None, v, prefix="t")
            for i in moved
            if (v := self.params[i]).type.differentiable
        }
        self.scratch = Builder()
        self.scratch.derived = True
        wrt = [self.params[i] for i in self.tangents]
        refs = [self.scratch.wrap(t) for t in self.tangents.values()]
        self.known = push(self.scratch, nodes, wrt, refs)

    def has(self, k: int) -> bool:
        """Whether a result has a tangent."""
        return self.results[k] in self.known

    def tangent(self, k: int) -> Value:
        """The tangent of a result, zeros if it has none."""
        v = self.results[k]
        found = self.known.get(v)
        if found is not None:
            return found.value
        if any(n.op is undefined and n.out is v for n in self.scratch.nodes):
            attrs = {"shape": v.type.shape, "dtype": v.type.dtype, "weak": v.type.weak}
            return self.scratch.record(undefined, (), attrs).value
        return _zero(self.scratch, v)


def _append(
    builder: Builder,
    node: Node,
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: dict[str, Any],
    regions: Sequence[Graph],
) -> None:
    made = Node(node.op, tuple(inputs), tuple(outputs), attrs, node.at, builder.phase)
    made.regions, made.derived = tuple(regions), True
    builder.append(made)


def _push_cond(
    builder: Builder,
    node: Node,
    given: Sequence[Ref | None],
    push: Push,
    outputs: Sequence[Value],
) -> list[Ref | None]:
    moved = [i for i, t in enumerate(given[1:]) if t is not None]
    pushed = [_Pushed(region, moved, push) for region in node.regions]
    reached = [
        k
        for k, v in enumerate(node.outputs)
        if v.type.differentiable and any(p.has(k) for p in pushed)
    ]
    regions = []
    for p in pushed:
        tangents = [p.tangent(k) for k in reached]
        params = [*p.params, *[p.tangents[i] for i in moved if i in p.tangents]]
        graph = Graph(p.region.name, params, p.scratch.nodes, [*p.results, *tangents])
        regions.append(graph)
    there = [i for i in moved if i in pushed[0].tangents]
    extra = [t.value for i in there if (t := given[1 + i]) is not None]
    made = [Value(node.outputs[k].type) for k in reached]
    inputs = [*node.inputs, *extra]
    _append(builder, node, inputs, [*outputs, *made], node.attrs, regions)
    of = dict(zip(reached, made, strict=True))
    return [builder.wrap(of[k]) if k in of else None for k in range(len(outputs))]


class _LoopTangent:
    """The tangent of one loop."""

    def __init__(
        self,
        builder: Builder,
        node: Node,
        given: Sequence[Ref | None],
        push: Push,
        outputs: Sequence[Value],
    ) -> None:
        self.builder, self.node, self.push = builder, node, push
        self.outputs = outputs
        self.loop = Loop.of(node)
        split = len(node.inputs) - self.loop.carried
        self.fixed = [
            i for i, t in enumerate(given[self.loop.dynamic : split]) if t is not None
        ]
        self.given = given
        self.starts = given[split:]

    def _positions(self, moved: Sequence[int]) -> list[int]:
        """Positions among the body's parameters of what has a tangent."""
        lead = int(self.loop.counted)
        first = len(self.loop.body.params) - self.loop.carried
        return [*[lead + i for i in self.fixed], *[first + k for k in moved]]

    def record(self) -> list[Ref | None]:
        """Record the loop with its tangent."""
        loop = self.loop
        moved = {k for k, t in enumerate(self.starts) if t is not None}
        while True:  # which carries have tangents, once one turn was made
            order = sorted(moved)
            body = _Pushed(loop.body, self._positions(order), self.push)
            more = moved | {
                k
                for k in range(loop.carried)
                if body.has(k)
                and loop.body.params[k - loop.carried].type.differentiable
            }
            if more == moved:
                break
            moved = more
        return self._assembled(body, order)

    def _assembled(self, body: _Pushed, order: list[int]) -> list[Ref | None]:
        loop, node = self.loop, self.node
        n, plain = loop.carried, node.attrs["stacked"]
        stacks = loop.stacks()
        # Positions among the body's results of those that are stacked.
        position = iter(range(n, len(body.results)))
        places = [next(position) if kind == RESULT else None for _, kind, _ in stacks]
        reached = [
            s
            for s, (v, kind, _) in enumerate(stacks)
            if v.type.differentiable
            and (kind in order if (place := places[s]) is None else body.has(place))
        ]
        results, kinds = [], []
        for s in [s for s in reached if s < plain]:
            results.append(body.tangent(places[s]))  # type: ignore[arg-type]
        first = [body.results[p] for p in places[:plain] if p is not None]
        saved = [body.results[p] for p in places[plain:] if p is not None]
        of_saved = []
        for s in [s for s in reached if s >= plain]:
            place, kind = places[s], stacks[s][1]
            if place is None:
                kinds.append(n + order.index(kind))
            else:
                kinds.append(RESULT)
                of_saved.append(body.tangent(place))
        tangents = [body.tangent(k) for k in order]
        everything = [*body.results[:n], *tangents, *first, *results, *saved, *of_saved]
        attrs = {
            **node.attrs,
            "carried": n + len(order),
            "stacked": plain + len(results),
            "saved": (*node.attrs["saved"], *kinds),
        }
        regions = self._regions(body, order, everything)
        inputs = self._inputs(order)
        types = node.op.infer(*[v.type for v in inputs], regions=regions, **attrs)
        types = types if type(types) is tuple else (types,)
        return self._outputs(inputs, attrs, regions, types, order, reached, plain)

    def _regions(
        self, body: _Pushed, order: list[int], results: list[Value]
    ) -> list[Graph]:
        loop = self.loop
        params = self._params(body.params, body.tangents, order, int(loop.counted))
        made = Graph(loop.body.name, params, body.scratch.nodes, results)
        if loop.test is None:
            return [made]
        known = {v: Value(v.type, v.hint) for v in loop.test.params}
        fresh = list(known.values())
        nodes, outcome = copied(loop.test.nodes, loop.test.results, known)
        spare = {i: Value(fresh[i].type) for i in self._positions(order)}
        test = self._params(fresh, spare, order, 0)
        return [Graph(loop.test.name, test, nodes, outcome), made]

    def _params(
        self, params: list[Value], tangents: dict[int, Value], order: list, lead: int
    ) -> list[Value]:
        split = len(params) - self.loop.carried
        of_fixed = [tangents[lead + i] for i in self.fixed if lead + i in tangents]
        return [
            *params[:split],
            *of_fixed,
            *params[split:],
            *[tangents[split + k] for k in order],
        ]

    def _inputs(self, order: list[int]) -> list[Value]:
        loop, node = self.loop, self.node
        split = len(node.inputs) - loop.carried
        of_fixed = []
        for i in self.fixed:
            t = self.given[loop.dynamic + i]
            if t is not None and loop.invariants[i].type.differentiable:
                of_fixed.append(t.value)
        starts = []
        for k in order:
            t = self.starts[k]
            starts.append(_zero(self.builder, loop.starts[k]) if t is None else t.value)
        return [*node.inputs[:split], *of_fixed, *node.inputs[split:], *starts]

    def _outputs(
        self,
        inputs: list[Value],
        attrs: dict[str, Any],
        regions: list[Graph],
        types: tuple,
        order: list[int],
        reached: list[int],
        plain: int,
    ) -> list[Ref | None]:
        n = self.loop.carried
        count = [self.outputs[-1]] if attrs["count"] else []
        stacked = list(self.outputs[n : len(self.outputs) - len(count)])
        made = {k: Value(self.node.outputs[k].type) for k in order}
        made.update({n + s: Value(self.node.outputs[n + s].type) for s in reached})
        early = [made[n + s] for s in reached if s < plain]
        late = [made[n + s] for s in reached if s >= plain]
        outputs = [
            *self.outputs[:n],
            *[made[k] for k in order],
            *stacked[:plain],
            *early,
            *stacked[plain:],
            *late,
            *count,
        ]
        for v, t in zip(outputs, types, strict=True):
            v.type = t
        _append(self.builder, self.node, inputs, outputs, attrs, regions)
        return [
            self.builder.wrap(made[k]) if k in made else None
            for k in range(len(self.outputs))
        ]
