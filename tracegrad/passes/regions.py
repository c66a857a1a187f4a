"""Dead code across the border of a region: outputs, carries and captures unread."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace

from tracegrad.ir.graph import Const, Graph, Node, Value
from tracegrad.ir.index import Slice
from tracegrad.ir.region import constant_key
from tracegrad.ops.control import RESULT, Loop, cond, for_loop, is_loop
from tracegrad.ops.index import getitem
from tracegrad.ops.solvers import is_solver

Clean = Callable[[Graph], Graph]


def prune(node: Node, live: Container[Value], clean: Clean) -> Node:
    """The node without what makes outputs that nothing reads.

    Args:
        node: with regions.
        live: what is read of its outputs.
        clean: removes the dead code of a graph.
    """
    if is_solver(node):
        return _solver(node, live, clean)
    return _branches(node, live, clean) if node.op is cond else _loop(node, live, clean)


def passed_through(node: Node) -> dict[Value, Value]:
    """The outputs of a branch that are one input, or one number, whichever is taken."""
    found: dict[Value, Value] = {}
    if node.op is not cond:
        return found
    for k, v in enumerate(node.outputs):
        results = [region.results[k] for region in node.regions]
        first = results[0]
        if isinstance(first, Const):
            keys = {constant_key(r) if isinstance(r, Const) else id(r) for r in results}
            if len(keys) == 1:
                found[v] = first
            continue
        places = {
            region.params.index(r) if r in region.params else -1
            for region, r in zip(node.regions, results, strict=True)
        }
        if len(places) == 1 and -1 not in places:
            found[v] = node.inputs[1 + places.pop()]
    return {v: to for v, to in found.items() if v.type == to.type}


def _cleaned(region: Graph, results: list[Value], clean: Clean) -> Graph:
    return clean(region.with_nodes(region.nodes, results))


def _positions(regions: Iterable[Graph], count: int, first: int = 0) -> list[int]:
    """Which of `count` parameters, from the position `first`, some region reads."""
    regions = list(regions)
    reads = [set(region.reads()) for region in regions]
    return [
        i
        for i in range(count)
        if any(
            region.params[first + i] in read
            for region, read in zip(regions, reads, strict=True)
        )
    ]


def _with_params(region: Graph, params: list[Value]) -> Graph:
    return Graph(region.name, params, region.nodes, region.results, region.sizes)


def _branches(node: Node, live: Container[Value], clean: Clean) -> Node:
    kept = [k for k, v in enumerate(node.outputs) if v in live]
    regions = [_cleaned(r, [r.results[k] for k in kept], clean) for r in node.regions]
    operands = _positions(regions, len(node.inputs) - 1)
    return node.changed(
        inputs=(node.inputs[0], *[node.inputs[1 + i] for i in operands]),
        outputs=tuple([node.outputs[k] for k in kept]),
        regions=tuple(
            [_with_params(r, [r.params[i] for i in operands]) for r in regions]
        ),
    )


def _solver(node: Node, live: Container[Value], clean: Clean) -> Node:
    solver = node.attrs["solver"]
    kept = [k for k, v in enumerate(node.outputs) if v in live]
    regions = [_cleaned(r, list(r.results), clean) for r in node.regions]
    split = len(node.inputs) - len(solver.data)
    read = _positions(regions, split)
    return node.changed(
        inputs=(*[node.inputs[i] for i in read], *node.inputs[split:]),
        outputs=tuple([node.outputs[k] for k in kept]),
        attrs={
            "solver": replace(solver, fields=tuple([solver.fields[k] for k in kept]))
        },
        regions=tuple(
            [
                _with_params(r, [*[r.params[i] for i in read], *r.params[split:]])
                for r in regions
            ]
        ),
    )


def _loop(node: Node, live: Container[Value], clean: Clean) -> Node:
    loop = Loop.of(node)
    stacks = [part for part in loop.stacks() if part[0] in live]
    carried = loop.carried
    need = {k for k, v in enumerate(loop.last) if v in live}
    need |= {kind for _, kind, _ in stacks if kind != RESULT}
    kept_results = [v for _, kind, v in stacks if kind == RESULT and v is not None]
    test = None if loop.test is None else clean(loop.test)
    if test is not None:
        need |= set(_positions([test], carried, len(test.params) - carried))
    while True:
        order = sorted(need)
        results = [loop.nexts[k] for k in order] + kept_results
        body = _cleaned(loop.body, results, clean)
        before = len(body.params) - carried
        more = need | set(_positions([body], carried, before))
        if more == need:
            break
        need = more
    return _rebuilt(loop, body, test, order, stacks, live)


def _rebuilt(
    loop: Loop,
    body: Graph,
    test: Graph | None,
    order: list[int],
    stacks: list,
    live: Container[Value],
) -> Node:
    node = loop.node
    regions = [body] if test is None else [test, body]
    inner = len(loop.inner)
    lead = int(loop.counted)
    used: set[int] = set()
    for region in regions:
        first = lead if region is body else 0
        used |= set(_positions([region], inner, first))
    kept = sorted(used)
    made = []
    for region in regions:
        first = lead if region is body else 0
        params = region.params
        invariants = [params[first + i] for i in kept]
        carries = [params[first + inner + k] for k in order]
        made.append(_with_params(region, [*params[:first], *invariants, *carries]))
    plain = node.attrs["stacked"]
    given = {part[0] for part in loop.stacks()[:plain]}
    attrs = {
        **node.attrs,
        "carried": len(order),
        "stacked": len([v for v, _, _ in stacks if v in given]),
        "saved": tuple(
            [
                kind if kind == RESULT else order.index(kind)
                for v, kind, _ in stacks
                if v not in given
            ]
        ),
    }
    outputs = [loop.last[k] for k in order] + [v for v, _, _ in stacks]
    count = loop.count
    attrs["count"] = count is not None and count in live
    if attrs["count"] and count is not None:
        outputs.append(count)
    return node.changed(
        inputs=(
            *node.inputs[: loop.dynamic],
            *[loop.invariants[i] for i in kept],
            *[loop.starts[k] for k in order],
        ),
        outputs=tuple(outputs),
        attrs=attrs,
        regions=tuple(made),
    )


def shared_stacks(node: Node) -> dict[Value, Value]:
    """Saved stacks of a loop that hold the same as another one, and that one."""
    if not is_loop(node):
        return {}
    first: dict[Value, Value] = {}
    same: dict[Value, Value] = {}
    loop = Loop.of(node)
    for v, kind, result in loop.stacks()[node.attrs["stacked"] :]:
        if kind == RESULT and result is not None:
            kept = first.setdefault(result, v)
            if kept is not v:
                same[v] = kept
    return same


def listed_once(
    node: Node, readers: Mapping[Value, list[Node]], results: Container[Value]
) -> list[Node]:
    """Reads of saved stacks that another one holds behind its first value.

    The list of all values of a carry, `[u]` and what every turn makes of it, has the
    list of what every turn makes as its rest: `us[1:]`.  A loop that reads it turn by
    turn has a list of its own, which is not copied.

    Args:
        node: any node; there are none unless it is a loop.
        readers: the nodes that read each value.
        results: of the graph.
    """
    if node.op is not for_loop or node.attrs["reverse"]:
        return []
    loop = Loop.of(node)
    saved = loop.stacks()[node.attrs["stacked"] :]
    whole = {loop.nexts[kind]: v for v, kind, _ in saved if kind != RESULT}
    made = []
    for v, kind, result in saved:
        if kind != RESULT or result not in whole or v in results:
            continue
        if loop.nexts.count(result) > 1 or any(n.regions for n in readers.get(v, ())):
            continue
        v.hint, v.user = None, False
        rest = {"index": (Slice(1),), "counts": ()}
        made.append(Node(getitem, (whole[result],), (v,), rest, node.at, node.phase))
    return made
