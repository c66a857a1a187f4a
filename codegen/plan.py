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
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field

from tracegrad.ir.graph import FORWARD, Const, Graph, Node, Value
from tracegrad.ops.define import OPERATORS
from tracegrad.ops.infer import same_type_input

# An expression nested deeper than this gets a name for its inner part.
MAX_DEPTH = 12
# A cotangent with at most so many sums is one expression, if that fits the line; one
# with more is added to where each contribution is made.
MAX_TERMS = 2


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
    """

    producer: dict[Value, int] = field(default_factory=dict)
    readers: dict[Value, list[int]] = field(default_factory=dict)
    roots: set[Value] = field(default_factory=set)
    in_place: set[int] = field(default_factory=set)
    copied: set[int] = field(default_factory=set)
    may_add: set[int] = field(default_factory=set)


def make_plan(
    graph: Graph,
    uses: Callable[[Node], Sequence[int]],
    lone: Set[Value],
    split: bool,
) -> Plan:
    """Decide statements and updates in place for a graph.

    Args:
        graph: after all passes.
        uses: how often the expression of a node writes each of its inputs.
        lone: results that may stand in a `return` itself.
        split: whether the backward part becomes a function that may run many times,
            so that it must not change what the forward part made.
    """
    plan = Plan()
    for i, node in enumerate(graph.nodes):
        for v in node.outputs:
            plan.producer[v] = i
        for k, v in enumerate(node.inputs):
            if k not in node.op.type_only:
                plan.readers.setdefault(v, []).append(i)
    _choose_roots(graph, plan, lone)
    for node in graph.nodes:
        for count, v in zip(uses(node), node.inputs, strict=True):
            if count > 1 and v in plan.producer and not _repeats(v, graph, plan):
                plan.roots.add(v)
    _choose_carriers_of_types(graph, plan)
    _find_updates(graph, plan, split)
    _keep_order(graph, plan)
    return plan


def is_view(node: Node) -> bool:
    """Whether the output shares, or may share, memory with the first input.

    An element read by its indices is a NumPy scalar, which is a copy.
    """
    if not node.inputs or node.op.aliasing(node.attrs) is None:
        return False
    element = not node.outputs[0].type.shape and node.inputs[0].type.shape
    return not element or Ellipsis in node.attrs.get("index", (Ellipsis,))


# ------------------------------------------------------------------ what is a statement
def _choose_roots(graph: Graph, plan: Plan, lone: Set[Value]) -> None:
    results = set(graph.results)
    depth: dict[Value, int] = {}
    for node in graph.nodes:
        deepest = max([depth.get(v, 0) for v in node.inputs], default=0)
        for v in node.outputs:
            depth[v] = deepest + 1
            reads = len(plan.readers.get(v, ()))
            if (
                len(node.outputs) > 1
                or (v.user and v.hint and node.phase == FORWARD)
                or (v in results and not (v in lone and reads == 0))
                or (reads > 1 and not _repeatable(node, plan))
                or depth[v] > MAX_DEPTH
                or _is_named_cotangent(v, node, graph, plan)
            ):
                plan.roots.add(v)
                depth[v] = 0


def _repeatable(node: Node, plan: Plan) -> bool:
    """Whether its expression may be written at each place that reads it."""
    if not node.inputs or node.op.type_only:
        return node.op.cheap
    if not node.outputs[0].type.shape and node.op.cheap:
        # A scalar of one operation is written again rather than named.
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
    return v in plan.roots or _repeatable(graph.nodes[plan.producer[v]], plan)


def _is_named_cotangent(v: Value, node: Node, graph: Graph, plan: Plan) -> bool:
    wrt = v.wrt
    readers = plan.readers.get(v, ())
    if len(readers) == 1 and is_accumulation(graph.nodes[readers[0]]):
        return False  # a part of the cotangent only
    if wrt is None or not node.derived or is_view(node):
        return False
    named = wrt.user or (wrt.wrt is not None and wrt.wrt.user)
    return named and wrt in plan.roots and v in plan.readers


# ------------------------------------------------------------------ updates in place
def is_accumulation(node: Node) -> bool:
    """Whether the node adds one more contribution to a cotangent."""
    if not node.derived or len(node.inputs) != 2:
        return False
    if node.op not in (OPERATORS["__add__"], OPERATORS["__sub__"]):
        return False
    left, out = node.inputs[0], node.outputs[0]
    return (
        out.wrt is not None
        and left.wrt is out.wrt
        and left.type.shape == out.type.shape
        and left.type.dtype == out.type.dtype
    )


def _last_reads(graph: Graph) -> dict[Value, int]:
    """Position of the last read of each value or of a view of it."""
    last = dict.fromkeys(graph.results, len(graph.nodes))
    for i in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[i]
        for k, v in enumerate(node.inputs):
            if k not in node.op.type_only:
                last[v] = max(last.get(v, i), i)
        if is_view(node):
            base = node.inputs[0]
            last[base] = max(last.get(base, i), *[last.get(v, i) for v in node.outputs])
    return last


def _find_updates(graph: Graph, plan: Plan, split: bool) -> None:
    last = _last_reads(graph)
    positions = sorted({plan.producer[v] for v in plan.roots})

    terms = Counter(n.out.wrt for n in graph.nodes if is_accumulation(n))

    def make_root(v: Value) -> None:
        if v not in plan.roots:
            plan.roots.add(v)
            insort(positions, plan.producer[v])

    for i, node in enumerate(graph.nodes):
        if not node.inputs:
            continue
        base = node.inputs[0]
        made = plan.producer.get(base)
        owned = (
            made is not None
            and not is_view(graph.nodes[made])
            and (not split or graph.nodes[made].phase == node.phase)
        )
        replaceable = owned and last.get(base, i) <= i
        if node.op.inplace is not None:
            make_root(node.out)
            plan.in_place.add(i)
            if not replaceable or base.type.ndim == 0:
                plan.copied.add(i)
            else:
                make_root(base)
        elif (
            replaceable
            and is_accumulation(node)
            and made is not None
            and graph.nodes[made].derived  # a cotangent, nothing the user named
        ):
            plan.may_add.add(i)
            apart = bisect_left(positions, i) - bisect_left(positions, made + 1)
            long = terms[node.out.wrt] > MAX_TERMS
            if base in plan.roots or (apart and long):
                make_root(base)
                make_root(node.out)
                plan.in_place.add(i)


def _keep_order(graph: Graph, plan: Plan) -> None:
    """Make a statement of what would else be read after an update of its input."""
    changed_at = {
        graph.nodes[i].inputs[0]: i for i in plan.in_place if i not in plan.copied
    }
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
