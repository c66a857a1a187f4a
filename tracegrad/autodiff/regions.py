"""Reverse mode through branches and loops, as regions.

The pullback of a branch is a branch; the pullback of a loop is a loop that counts the
other way.  What its body reads of the forward turns is saved by the forward loop, which
gets further outputs for that; a view or a slice by the counter is made again instead.

The cotangents of carries are carried.  So are those of the values that every turn
reads: each turn adds its contribution, in place where code generation can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracegrad.autodiff.activity import active_values
from tracegrad.autodiff.residuals import Residuals
from tracegrad.autodiff.solvers import pull_solver
from tracegrad.ir.graph import Const, Node, Value
from tracegrad.ir.index import ARRAY
from tracegrad.ir.region import Open, close, substituted
from tracegrad.ir.types import ArrayType
from tracegrad.ops.cast import astype
from tracegrad.ops.control import (
    COUNTER,
    RESULT,
    Loop,
    cond,
    for_loop,
    is_ragged,
    loop_attrs,
    stack_type,
    turns,
    undefined,
    zeros_of_stack,
)
from tracegrad.ops.create import dim, zeros_like
from tracegrad.ops.define import ACCEPT
from tracegrad.ops.index import getitem
from tracegrad.ops.record import Builder, Ref
from tracegrad.ops.solvers import is_solver

# `pull_back` of the module `reverse`, which imports this one.
Pull = Callable[..., list[Ref | None]]


def pull_regions(
    builder: Builder,
    node: Node,
    cts: Sequence[Ref | None],
    active: set[Value],
    pull: Pull,
    take: Callable[[Value], Ref | None],
) -> list[Ref | None]:
    """Record the pullback of a node with regions; one cotangent per input.

    The node itself gets further outputs, for what the pullback reads of it.

    Args:
        builder: receives the backward node.
        node: of `cond`, a loop or a solver.
        cts: one per output, `None` for zero.
        active: the values that depend on what is differentiated.
        pull: pulls back through the nodes of a region.
        take: gives what there is of the cotangent of an input, which the loop goes on
            to add to; what is taken is in the result.
    """
    if node.op is cond:
        return _pull_cond(builder, node, cts, active, pull)
    if is_solver(node):
        return pull_solver(builder, node, cts, active, pull)
    return _LoopPullback(builder, node, cts, active, pull, take).record()


@contextmanager
def _apart(builder: Builder) -> Iterator[list[Node]]:
    """Context: what is recorded goes to a list of its own."""
    outer, builder.nodes = builder.nodes, []
    try:
        yield builder.nodes
    finally:
        builder.nodes = outer


def _append(
    builder: Builder,
    node: Node,
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: dict[str, Any],
    regions: tuple,
    op: Any,
) -> None:
    made = Node(
        op, tuple(inputs), tuple(outputs), attrs, node.at, builder.phase, regions, True
    )
    builder.append(made)


def _zero(builder: Builder, like: Value, to: ArrayType) -> Value:
    """A zero cotangent of `like`, of the type `to`."""
    if like.type.weak or not to.shape:
        wide = to.weak or to.dtype == np.float64
        return Const(0.0 if wide else to.dtype.type(0))
    ref = builder.wrap(like)
    if is_ragged(like.type):
        return builder.record(zeros_of_stack, (ref,), {}).value
    return zeros_like(ref).value


def _cast(builder: Builder, v: Value, to: ArrayType) -> Value:
    if v.type.dtype == to.dtype:
        return v
    if isinstance(v, Const):
        return Const(to.dtype.type(v.value))
    return astype(ACCEPT[np.asarray](builder.wrap(v)), dtype=to.dtype).value


# ---------------------------------------------------------------------------- branches
def _pull_cond(
    builder: Builder,
    node: Node,
    cts: Sequence[Ref | None],
    active: set[Value],
    pull: Pull,
) -> list[Ref | None]:
    operands = node.inputs[1:]
    wanted = [i for i, v in enumerate(operands) if v in active]
    pulled = []
    for region in node.regions:
        with _apart(builder) as nodes:
            seeds = [(region.results[k], ct) for k, ct in enumerate(cts) if ct]
            outs, refs = [v for v, _ in seeds], [ct for _, ct in seeds]
            made_of = pull(
                builder, region.nodes, outs, refs, [region.params[i] for i in wanted]
            )
        pulled.append((nodes, dict(zip(wanted, made_of, strict=True))))
    reached = [i for i in wanted if any(found[i] for _, found in pulled)]
    parts = []
    types: dict[int, ArrayType] = {}
    for i in reached:
        given = [ct.type for _, found in pulled if (ct := found[i]) is not None]
        types[i] = next((t for t in given if not t.weak), given[0])
    for r, (nodes, found) in enumerate(pulled):
        region = node.regions[r]
        with _apart(builder) as more:
            builder.nodes.extend(nodes)
            results = [
                _zero(builder, region.params[i], types[i])
                if (ct := found[i]) is None
                else _cast(builder, ct.value, types[i])
                for i in reached
            ]
        known = dict(zip(region.params, operands, strict=True))
        keep = lambda v, r=r: _save_of_branch(node, r, v)
        kept = Residuals(region.nodes, region.params, keep).settle(more, results)
        known.update(kept.saved)
        made, results = substituted(kept.nodes, kept.results, known)
        parts.append(Open(region.name, [], [], made, results))
    outputs = [Value(types[i], None, operands[i]) for i in reached]
    if outputs:
        captured, regions = close(parts)
        inputs = (node.inputs[0], *captured)
        _append(builder, node, inputs, outputs, {}, regions, cond)
    made_for = dict(zip(reached, outputs, strict=True))
    return [
        None,
        *[
            builder.wrap(made_for[i]) if i in made_for else None
            for i in range(len(operands))
        ],
    ]


def _save_of_branch(node: Node, r: int, v: Value) -> Value:
    """An output of the node that is `v` of its region `r`, where that one ran."""
    for k, result in enumerate(node.regions[r].results):
        if result is v:
            return node.outputs[k]
    regions = list(node.regions)
    for i, region in enumerate(regions):
        nodes, result = list(region.nodes), v
        if i != r:
            t = v.type
            attrs = {"shape": t.shape, "dtype": t.dtype, "weak": t.weak}
            result = Value(t)
            nodes.append(Node(undefined, (), (result,), attrs, node.at, node.phase))
        regions[i] = region.with_nodes(nodes, [*region.results, result])
    made = Value(v.type, v.hint, user=v.user)
    node.regions = tuple(regions)
    node.outputs = (*node.outputs, made)
    return made


# ------------------------------------------------------------------------------- loops
@dataclass(slots=True)
class _Turn:
    """The pullback of one turn.

    Attributes:
        nodes: the backward nodes of the turn.
        params: cotangents that the turn is given: of carries, of invariants.
        found: cotangents that it gives, for the same.
    """

    nodes: list[Node]
    params: dict[Value, Value] = field(default_factory=dict)
    found: dict[Value, Ref | None] = field(default_factory=dict)


class _LoopPullback:
    """The pullback of one loop."""

    def __init__(
        self,
        builder: Builder,
        node: Node,
        cts: Sequence[Ref | None],
        active: set[Value],
        pull: Pull,
        take: Callable[[Value], Ref | None],
    ) -> None:
        self.builder = builder
        self.take = take
        self.node = node
        self.pull = pull
        self.ct_of = {v: ct for v, ct in zip(node.outputs, cts, strict=True) if ct}
        loop = self.loop = Loop.of(node)
        self.counter = loop.counter or Value(COUNTER, "t", user=True)
        self.outside = dict(zip(loop.inner, loop.invariants, strict=True))
        self.constant = [p for p, v in self.outside.items() if v in active]
        self.carried = self._active_carries(active)
        self.history: dict[int, Value] = {}

    def _active_carries(self, active: set[Value]) -> list[Value]:
        loop = self.loop
        found = {
            p for p, v in zip(loop.carries, loop.starts, strict=True) if v in active
        }
        while True:
            reach = active_values(loop.body.nodes, [*self.constant, *found])
            pairs = zip(loop.carries, loop.nexts, strict=True)
            more = {p for p, v in pairs if v in reach and p.type.differentiable} | found
            if more == found:
                return [p for p in loop.carries if p in found]
            found = more

    # ------------------------------------------------------------------- positions
    def _position(self, after: bool = False) -> Ref:
        """Where a saved stack holds what this turn made, or what came into it.

        Args:
            after: in the stack of all values of a carry, the one behind the turn.
        """
        t = self.builder.wrap(self.counter)
        loop = self.loop
        position: Any = t
        if loop.counted:
            start = loop.node.attrs["bounds"][0]
            if start is None:
                position = t - self.builder.wrap(loop.node.inputs[0])
            elif type(start) is not int:
                position = t - self.builder.record(dim, (), {"size": start})
            elif start != 0:
                position = t - start
        return position + 1 if after else position

    def _read(self, stack: Ref, position: Ref) -> Ref:
        return getitem(stack, position, index=(ARRAY,))

    def _incoming(self) -> bool:
        """Whether what comes into a turn stands behind it in the stack of a carry."""
        return self.node.attrs["reverse"]

    # ------------------------------------------------------------------- one turn
    def record(self) -> list[Ref | None]:
        """Record the backward loop; one cotangent per input of the forward loop."""
        loop = self.loop
        types = {
            p: p.type
            for p, v in zip(loop.carries, loop.last, strict=True)
            if v in self.ct_of and p in self.carried
        }
        while True:
            turn = self._turn(types)
            grown = dict(types)
            for p, ct in turn.found.items():
                if ct is None:
                    continue
                have = grown.get(p)
                if have is None:
                    grown[p] = p.type
                elif (have.dtype, have.weak) != (ct.type.dtype, ct.type.weak):
                    grown[p] = ct.type.strong if have.weak else have
            if grown == types:
                break
            types = grown
        return self._finish(turn, types)

    def _turn(self, types: dict[Value, ArrayType]) -> _Turn:
        builder, loop = self.builder, self.loop
        with _apart(builder) as nodes:
            turn = _Turn(nodes)
            seeds: list[tuple[Value, Ref]] = []
            for p, t in types.items():
                ct = Value(t, None, p)
                turn.params[p] = ct
                v = p if p in self.outside else loop.nexts[loop.carries.index(p)]
                seeds.append((v, builder.wrap(ct)))
            for output, kind, result in loop.stacks():
                stack = self.ct_of.get(output)
                if stack is None:
                    continue
                behind = kind != RESULT and not self._incoming()
                row = self._read(stack, self._position(behind))
                target = loop.nexts[kind] if result is None else result
                seeds.append((target, row))
            wrt = [*self.carried, *self.constant]
            outs, refs = [v for v, _ in seeds], [ct for _, ct in seeds]
            found = self.pull(builder, loop.body.nodes, outs, refs, wrt)
            turn.found = dict(zip(wrt, found, strict=True))
        return turn

    # ------------------------------------------------------------------- the loop
    def _finish(self, turn: _Turn, types: dict[Value, ArrayType]) -> list[Ref | None]:
        builder, loop = self.builder, self.loop
        order = [p for p in [*self.carried, *self.constant] if p in types]
        start_of = {p: self._start(p, types[p]) for p in order}
        still = {
            p: start_of[p]
            for p in order
            if (ct := turn.found[p]) is not None and ct.value is turn.params[p]
        }
        order = [p for p in order if p not in still]
        starts = [start_of[p] for p in order]
        with _apart(builder):
            builder.nodes.extend(turn.nodes)
            results = [self._next(turn, p, types[p]) for p in order]
            nodes = builder.nodes
        nodes, results = self._with_residuals(nodes, results)
        fixed = {turn.params[p]: v for p, v in still.items()}
        nodes, results = substituted(nodes, results, fixed)
        params = [turn.params[p] for p in order]
        part = Open("body", [self.counter], params, nodes, results)
        captured, regions = close([part])
        inner = dict(zip(captured, regions[0].params[1:], strict=False))
        for p in self.constant:
            if p in types:  # as of what adds to it
                v = self.outside[p]
                turn.params[p].wrt = inner.get(v, v)
        regions = self._own_counter(regions)
        bounds, given = self._bounds()
        attrs = loop_attrs(
            len(order),
            bounds=bounds,
            reverse=not self.node.attrs["reverse"],
            steps=self.node.attrs["steps"],
        )
        outputs = [self._output(p, types[p]) for p in order]
        made: dict[Value, Ref | None] = {}
        if order:
            inputs = [*given, *captured, *starts]
            _append(builder, self.node, inputs, outputs, attrs, regions, for_loop)
            made = dict(zip(order, map(builder.wrap, outputs), strict=True))
        made.update({p: builder.wrap(v) for p, v in still.items()})
        parts: list[Ref | None] = [None] * loop.dynamic
        parts += [made.get(p) for p in loop.inner]
        parts += [self._of_start(k, made.get(p)) for k, p in enumerate(loop.carries)]
        return parts

    def _own_counter(self, regions: tuple) -> tuple:
        """The counter of the forward loop stays that loop's."""
        (region,) = regions
        fresh = Value(COUNTER, self.counter.hint, user=self.counter.user)
        known = {self.counter: fresh}
        nodes, results = substituted(region.nodes, region.results, known)
        made = region.with_nodes(nodes, results)
        made.params = [known.get(v, v) for v in region.params]
        return (made,)

    def _start(self, p: Value, to: ArrayType) -> Value:
        """The cotangent that the first backward turn is given."""
        builder, loop = self.builder, self.loop
        if p in self.outside:
            have = self.take(self.outside[p])
            if have is not None:
                return _cast(builder, have.value, to)
            return _zero(builder, self.outside[p], to)
        last = loop.last[loop.carries.index(p)]
        ct = self.ct_of.get(last)
        return _zero(builder, last, to) if ct is None else _cast(builder, ct.value, to)

    def _next(self, turn: _Turn, p: Value, to: ArrayType) -> Value:
        ct = turn.found[p]
        if ct is None:
            return _zero(self.builder, turn.params[p], to)
        return _cast(self.builder, ct.value, to)

    def _output(self, p: Value, to: ArrayType) -> Value:
        loop = self.loop
        if p in self.outside:
            return Value(to, None, self.outside[p])
        start = loop.starts[loop.carries.index(p)]
        return Value(to, None, None if isinstance(start, Const) else start)

    def _of_start(self, k: int, ct: Ref | None) -> Ref | None:
        """The cotangent of a first value, which also stands in the stack of all."""
        for output, kind, _ in self.loop.stacks():
            stack = self.ct_of.get(output)
            if kind == k and stack is not None:
                at = -1 if self.node.attrs["reverse"] else 0
                first = getitem(stack, index=(at,))
                ct = first if ct is None else ct + first
        return ct

    def _bounds(self) -> tuple[tuple, list[Value]]:
        loop = self.loop
        if loop.counted:
            bounds = self.node.attrs["bounds"]
            return bounds, list(self.node.inputs[: loop.dynamic])
        if loop.count is None:
            self.node.attrs = {**self.node.attrs, "count": True}
            self.node.outputs = (*self.node.outputs, Value(COUNTER, "turns"))
        return (0, None), [self.node.outputs[-1]]

    # ------------------------------------------------------------------- residuals
    def _with_residuals(
        self, nodes: list[Node], results: list[Value]
    ) -> tuple[list[Node], list[Value]]:
        """The turn with what it reads of the forward turn replaced."""
        loop, builder = self.loop, self.builder
        there = [self.counter, *loop.inner]
        residuals = Residuals(
            loop.body.nodes,
            [*there, *loop.carries],
            lambda v: v,
            everything=self.node.attrs["remat"],
            given=loop.nexts if not self.node.attrs["remat"] else (),
        )
        kept = residuals.settle(nodes, results)
        known: dict[Value, Value] = dict(self.outside)
        with _apart(builder) as reads:
            for v in kept.outside:
                if v not in known and v is not self.counter:
                    known[v] = self._saved(v)
        made, results = substituted([*reads, *kept.nodes], kept.results, known)
        return made, results

    def _saved(self, v: Value) -> Value:
        """Record the read of a value of the forward turn."""
        loop = self.loop
        behind = self._incoming()
        if v in loop.carries:
            stack = self._history(loop.carries.index(v))
        elif v in loop.nexts:
            stack = self._history(loop.nexts.index(v))
            behind = not behind
        else:
            stack, behind = self._stack(v), False
        made = self._read(self.builder.wrap(stack), self._position(behind)).value
        made.type = v.type
        made.hint = v.hint
        return made

    def _history(self, k: int) -> Value:
        """The stack of all values of a carry."""
        for output, kind, _ in self.loop.stacks():
            if kind == k:
                return output
        p = self.loop.carries[k]
        steps = turns(self.node.attrs) + 1
        return self._add_stack(Value(stack_type(p.type, steps)), k)

    def _stack(self, v: Value) -> Value:
        """The stack of what each turn computed as `v`."""
        for output, _, result in self.loop.stacks():
            if result is v:
                return output
        node = self.node
        body = node.regions[-1]
        more = body.with_nodes(body.nodes, [*body.results, v])
        node.regions = (*node.regions[:-1], more)
        steps = turns(node.attrs)
        return self._add_stack(Value(stack_type(v.type, steps)), RESULT)

    def _add_stack(self, made: Value, kind: int) -> Value:
        node = self.node
        count = node.attrs["count"]
        outputs = node.outputs[:-1] if count else node.outputs
        node.outputs = (*outputs, made, *node.outputs[len(outputs) :])
        node.attrs = {**node.attrs, "saved": (*node.attrs["saved"], kind)}
        self.loop = Loop.of(node)
        return made
