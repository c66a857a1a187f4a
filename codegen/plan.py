"""Decisions before a line is written: what is a statement, what is updated in place.

A value becomes a statement of its own if it is the right-hand side of an assignment of
the user's, a result, read more than once (and not a view, which is repeated instead),
the cotangent of a value that the user named, or part of an update in place.  All else
is written inside the expression that reads it.

An update in place is the functional update of the graph (`setitem`, `scatter_add`, the
sum of two contributions to one cotangent) written into the memory of its first input.
That is right only if nothing reads that memory afterwards, and nothing else owns it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from tracegrad.codegen.memory import is_accumulation, is_named_sum, is_view, lineage
from tracegrad.codegen.ownership import (
    fresh_outputs,
    kept_outputs,
    shown_inputs,
    updated_carries,
)
from tracegrad.codegen.turns import keep
from tracegrad.ir.graph import FORWARD, Const, Graph, Node, Value
from tracegrad.ops.control import Loop, cond, is_loop
from tracegrad.ops.define import OPERATORS
from tracegrad.ops.infer import same_type_input
from tracegrad.ops.solvers import Parts, is_solver

# An expression nested deeper than this gets a name for its inner part.
MAX_DEPTH = 12
# A cotangent with at most so many sums is one expression, if that fits the line; one
# with more is added to where each contribution is made.
MAX_TERMS = 2


# What can be written with the other sign.
_WITH_SIGNS = [OPERATORS[f"__{n}__"] for n in ("add", "sub", "mul", "truediv")]


@dataclass(slots=True)
class Plan:
    """What `make_plan` decided.

    Attributes:
        producer: value -> index of the node that makes it.
        readers: value -> indices of the nodes that read its data, in order.
        roots: values that become statements.
        in_place: indices of nodes that update their first input.
        copied: those of them that need a copy of their first input.
        may_add: sums of contributions that may be made in place, if that reads better.
        fresh: outputs of branches and loops that share memory with nothing else.
        copied_starts: first values of carries that are copied: (node, position).
        rebound: carries of the body that is written whose next value takes their
            variable as soon as it is made.
        last: value -> index of the last node that reads it, or a view of it.
    """

    producer: dict[Value, int] = field(default_factory=dict)
    readers: dict[Value, list[int]] = field(default_factory=dict)
    roots: set[Value] = field(default_factory=set)
    in_place: set[int] = field(default_factory=set)
    copied: set[int] = field(default_factory=set)
    may_add: set[int] = field(default_factory=set)
    fresh: set[Value] = field(default_factory=set)
    copied_starts: set[tuple[int, int]] = field(default_factory=set)
    rebound: set[Value] = field(default_factory=set)
    last: dict[Value, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Body:
    """What the plan of a region has to know of what is around it.

    Attributes:
        owned: carries whose arrays the body may update.
        nexts: carry -> its next value.
        named: values of the program around that have variables.
    """

    owned: Set[Value] = frozenset()
    nexts: Mapping[Value, Value] = field(default_factory=dict)
    named: Container[Value] = ()


def make_plan(
    graph: Graph,
    uses: Callable[[Node], Sequence[int]],
    lone: Set[Value],
    split: bool,
    body: Body | None = None,
) -> Plan:
    """Decide statements and updates in place for a graph.

    Args:
        graph: after all passes.
        uses: how often the expression of a node writes each of its inputs.
        lone: results that may stand in a `return` itself.
        split: whether the backward part becomes a function that may run many times,
            so that it must not change what the forward part made.
        body: for a region, what is around it.
    """
    body = body or Body()
    plan = Plan()
    for i, node in enumerate(graph.nodes):
        for v in node.outputs:
            plan.producer[v] = i
        for k, v in enumerate(node.inputs):
            if k not in node.op.type_only:
                plan.readers.setdefault(v, []).append(i)
    _choose_roots(graph, plan, lone, body)
    for node in graph.nodes:
        counts = [1] * len(node.inputs) if node.regions else uses(node)
        for count, v in zip(counts, node.inputs, strict=True):
            if count > 1 and v in plan.producer and not _repeats(v, graph, plan):
                plan.roots.add(v)
    _take_signs_out(graph, plan)
    _choose_carriers_of_types(graph, plan)
    plan.last = _last_reads(graph)
    _find_updates(graph, plan, split, body)
    _keep_order(graph, plan, _rebind(graph, plan, body))
    return plan


# ------------------------------------------------------------------ what is a statement
def _choose_roots(graph: Graph, plan: Plan, lone: Set[Value], body: Body) -> None:
    results = {*graph.results, *_read_by_regions(graph)}
    depth: dict[Value, int] = {}
    for node in graph.nodes:
        deepest = max([depth.get(v, 0) for v in node.inputs], default=0)
        for v in node.outputs:
            depth[v] = deepest + 1
            reads = len(plan.readers.get(v, ()))
            if (
                len(node.outputs) > 1
                or node.op.binds
                or node.regions
                or (v.user and v.hint and node.phase == FORWARD)
                or (v in results and not (v in lone and reads == 0))
                or (reads > 1 and not _repeatable(node, graph, plan))
                or depth[v] > MAX_DEPTH
                or _is_named_cotangent(v, node, graph, plan, body)
            ):
                plan.roots.add(v)
                depth[v] = 0


def _take_signs_out(graph: Graph, plan: Plan) -> None:
    """Name a number rather than its negative, which reads as a difference then."""
    for node in graph.nodes:
        if node.op is not OPERATORS["__neg__"] or not node.derived:
            continue
        v, made = node.inputs[0], node.out
        if v not in plan.producer or v in plan.roots or made not in plan.roots:
            continue
        readers = [graph.nodes[i] for i in plan.readers.get(made, ())]
        absorbed = all(r.op in _WITH_SIGNS and not r.regions for r in readers)
        lone = len(plan.readers[v]) == 1 and made not in graph.results
        if lone and absorbed and not v.type.shape and v.type.differentiable:
            plan.roots.discard(made)
            plan.roots.add(v)


def _repeatable(node: Node, graph: Graph, plan: Plan) -> bool:
    """Whether its expression may be written at each place that reads it."""
    if not node.inputs or node.op.type_only:
        return node.op.cheap
    if not node.outputs[0].type.shape and node.op.cheap:
        # A scalar of one operation is written again rather than named, and the sign of
        # one that may be written again too.
        if node.op is OPERATORS["__neg__"]:
            return _repeats(node.inputs[0], graph, plan)
        return all(v not in plan.producer or v in plan.roots for v in node.inputs)
    if all(isinstance(v, Const) for v in node.inputs):
        return not node.outputs[0].type.shape
    if node.op.aliasing(node.attrs) != "view":
        return False
    base = node.inputs[0]
    return base in plan.roots or base not in plan.producer


def _choose_carriers_of_types(graph: Graph, plan: Plan) -> None:
    """What only a type is read of must not be computed for that."""
    for node in graph.nodes:
        for k in node.op.type_only:
            v = node.inputs[k]
            while v in plan.producer and v not in plan.roots:
                like = same_type_input(graph.nodes[plan.producer[v]])
                if like is None:
                    if not _repeats(v, graph, plan):
                        plan.roots.add(v)
                    break
                v = like


def _repeats(v: Value, graph: Graph, plan: Plan) -> bool:
    return (
        v in plan.roots
        or v not in plan.producer
        or _repeatable(graph.nodes[plan.producer[v]], graph, plan)
    )


def _is_named_cotangent(
    v: Value, node: Node, graph: Graph, plan: Plan, body: Body
) -> bool:
    wrt = v.wrt
    readers = plan.readers.get(v, ())
    if len(readers) == 1 and is_accumulation(graph.nodes[readers[0]]):
        return False  # a part of the cotangent only
    if wrt is None or not node.derived or is_view(node):
        return False
    named = wrt.user or (wrt.wrt is not None and wrt.wrt.user)
    there = wrt in plan.roots or wrt in body.named
    return named and there and v in plan.readers


def _read_by_regions(graph: Graph) -> Iterator[Value]:
    """What branches and loops read, and so must have a variable before them."""
    for node in graph.nodes:
        if node.regions and node.op is cond:
            boolean = len(node.regions) == 2 and node.inputs[0].type.kind == "b"
            yield from node.inputs[1 if boolean else 0 :]
        elif node.op is keep:
            yield from node.inputs
        elif is_solver(node):
            yield from Parts.of(node).captured
        elif node.regions:
            yield from Loop.of(node).invariants


# ------------------------------------------------------------------ updates in place
def _last_reads(graph: Graph) -> dict[Value, int]:
    """Position of the last read of each value or of a view of it."""
    last = dict.fromkeys(graph.results, len(graph.nodes))
    for i in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[i]
        for k, v in enumerate(node.inputs):
            if node.op is keep:
                last[v] = len(graph.nodes)
            elif k not in node.op.type_only:
                last[v] = max(last.get(v, i), i)
        if node.regions:
            _extend_reads(last, node, i)
        elif is_view(node):
            base = node.inputs[0]
            last[base] = max(last.get(base, i), *[last.get(v, i) for v in node.outputs])
    return last


def _extend_reads(last: dict[Value, int], node: Node, i: int) -> None:
    """An output of a branch or a loop may be one of its inputs."""
    for v, sources in shown_inputs(node).items():
        for u in sources:
            last[u] = max(last.get(u, i), last.get(v, i))


def _rebind(graph: Graph, plan: Plan, body: Body) -> dict[Value, int]:
    """Choose the carries whose variable the next value takes as soon as it is made.

    Returns:
        Where the variable of each of them changes.
    """
    changes: dict[Value, int] = {}
    nexts = list(body.nexts.values())
    for param, v in body.nexts.items():
        made = plan.producer.get(v)
        if made is None or v not in plan.roots or nexts.count(v) != 1:
            continue
        own = _in_its_variable(param, v, graph, plan)
        read = max([last_named(u, graph, plan) for u in own])
        alone = all(_only_carries(graph.nodes[made], u, v) for u in own)
        if read <= made and alone:
            plan.rebound.add(param)
            changes.update(dict.fromkeys(own, made))
    return changes


def _in_its_variable(param: Value, end: Value, graph: Graph, plan: Plan) -> list[Value]:
    """What the variable of a carry holds, or may, before it holds `end`."""
    found = [param]
    for i, node in enumerate(graph.nodes):
        out: Value | None = None
        if node.op is cond:
            kept = {k for r in node.regions for k in _as_found(node, r, found)}
            found += [node.outputs[k] for k in kept if node.outputs[k] is not end]
        elif i in plan.in_place and i not in plan.copied and node.inputs[0] in found:
            out = node.out
        elif is_loop(node):
            loop = Loop.of(node)
            ends = zip(loop.starts, loop.last, strict=True)
            out = next((v for start, v in ends if start in found), None)
        if out is not None and out is not end:
            found.append(out)
    return found


def _as_found(node: Node, region: Graph, found: Sequence[Value]) -> list[int]:
    """The outputs of a branch that an arm gives as it found them, of these values.

    Such an output may have the variable of what it was.
    """
    pairs = zip(region.params, node.inputs[1:], strict=True)
    params = {param for param, v in pairs if v in found}
    return [k for k, v in enumerate(region.results) if v in params]


def last_named(v: Value, graph: Graph, plan: Plan, deep: bool = False) -> int:
    """Index of the last statement in which the variable of `v` stands.

    Args:
        v: a value with a variable.
        graph: the program.
        plan: of it.
        deep: whether expressions that are written where they are read count too, for a
            plan that does not keep them before the variable changes.
    """
    found = len(graph.nodes) if v in graph.results else -1
    for i in plan.readers.get(v, ()):
        node = graph.nodes[i]
        found = max(found, i)
        for made in node.outputs if deep or is_view(node) else ():
            if made not in plan.roots:  # it is written where it is read
                found = max(found, last_named(made, graph, plan, deep))
    return found


def _only_carries(node: Node, param: Value, v: Value) -> bool:
    """Whether a loop that makes `v` reads `param` as its first value only."""
    reads = node.inputs.count(param)
    if not node.regions or not reads:
        return True
    if not is_loop(node) or reads > 1:
        return False
    loop = Loop.of(node)
    return v in loop.last and loop.starts[loop.last.index(v)] is param


def _find_updates(graph: Graph, plan: Plan, split: bool, body: Body) -> None:
    last = plan.last
    positions = sorted({plan.producer[v] for v in plan.roots})

    terms = Counter(lineage(n.out) for n in graph.nodes if is_accumulation(n))

    def make_root(v: Value) -> None:
        if v not in plan.roots and v in plan.producer:
            plan.roots.add(v)
            insort(positions, plan.producer[v])

    for i, node in enumerate(graph.nodes):
        if node.regions:
            plan.fresh |= fresh_outputs(node)
            _find_copied_starts(i, graph, plan, split, body, last)
        if not node.inputs or node.regions:
            continue
        base = node.inputs[0]
        made = plan.producer.get(base)
        owned = _is_owned(base, node, graph, plan, split, body)
        replaceable = owned and last.get(base, i) <= i
        if node.op.inplace is not None:
            make_root(node.out)
            plan.in_place.add(i)
            if not replaceable or base.type.ndim == 0:
                plan.copied.add(i)
            else:
                make_root(base)
        elif replaceable and is_named_sum(node):
            plan.in_place.add(i)
        elif (
            replaceable
            and is_accumulation(node)
            # A cotangent, nothing that the user named.
            and (made is None or graph.nodes[made].derived)
        ):
            first = 0 if made is None else made + 1
            plan.may_add.add(i)
            apart = bisect_left(positions, i) - bisect_left(positions, first)
            long = terms[lineage(node.out)] > MAX_TERMS
            if base in plan.roots or made is None or (apart and long):
                make_root(base)
                make_root(node.out)
                plan.in_place.add(i)


def _is_owned(
    v: Value, reader: Node, graph: Graph, plan: Plan, split: bool, body: Body
) -> bool:
    """Whether the array of `v` is the program's own, and no view."""
    made = plan.producer.get(v)
    if made is None:
        return v in body.owned
    node = graph.nodes[made]
    if split and node.phase != reader.phase:
        return False
    if node.regions:
        return v in plan.fresh and v not in kept_outputs(node)
    return not is_view(node)


def _find_copied_starts(
    i: int, graph: Graph, plan: Plan, split: bool, body: Body, last: dict[Value, int]
) -> None:
    """Copy the first value of a carry that is updated, unless it is free to change."""
    node = graph.nodes[i]
    if not is_loop(node):
        return
    starts = Loop.of(node).starts
    for k in updated_carries(node):
        start = starts[k]
        free = _is_owned(start, node, graph, plan, split, body)
        once = node.inputs.count(start) == 1
        if start.type.shape and not (free and once and last.get(start, i) <= i):
            plan.copied_starts.add((i, k))


def _keep_order(graph: Graph, plan: Plan, rebound: dict[Value, int]) -> None:
    """Make a statement of what would else be read after an update of its input."""
    changed_at = dict(rebound)
    updates = [
        (graph.nodes[i].inputs[0], i) for i in plan.in_place if i not in plan.copied
    ]
    for i, node in enumerate(graph.nodes):
        if is_loop(node):  # its carries take the variables of their first values
            updates += [(start, i) for start in Loop.of(node).starts]
    for v, i in updates:
        changed_at[v] = min(i, changed_at.get(v, i))
    if not changed_at:
        return
    end = len(graph.nodes)
    lands: dict[Value, int] = {}
    for i in range(end - 1, -1, -1):
        node = graph.nodes[i]
        for v in node.outputs:
            if v in plan.roots:
                lands[v] = i
                continue
            readers = plan.readers.get(v, ())
            lands[v] = max(
                [
                    lands[w] if w is not None else r
                    for r in readers
                    for w in graph.nodes[r].outputs or (None,)
                ],
                default=end,
            )
            if is_view(node):
                continue
            limit = min(
                [changed_at.get(_base(u, graph, plan), end) for u in node.inputs],
                default=end,
            )
            if limit < lands[v]:
                plan.roots.add(v)
                lands[v] = i


def _base(v: Value, graph: Graph, plan: Plan) -> Value:
    """The value whose memory a chain of views shows."""
    while v in plan.producer and is_view(graph.nodes[plan.producer[v]]):
        v = graph.nodes[plan.producer[v]].inputs[0]
    return v
