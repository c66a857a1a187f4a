"""The order of the passes."""

from __future__ import annotations

from collections.abc import Callable

from tracegrad.ir.graph import Graph, Node, Value
from tracegrad.ir.verify import enabled, verify
from tracegrad.ops.control import Loop, is_loop
from tracegrad.passes import (  # noqa: F401 - some register rules
    identity,
    products,
    rewrite,
    simplify,
    views,
)
from tracegrad.passes.around import read_around_stores
from tracegrad.passes.calls import open_calls, tidy_calls
from tracegrad.passes.cse import merge_common
from tracegrad.passes.dce import drop_aliases, remove_dead_code
from tracegrad.passes.detach import detach_parts
from tracegrad.passes.regions import (
    listed_once,
    passed_through,
    prune,
    shared_stacks,
)
from tracegrad.passes.share import share_exponentials
from tracegrad.passes.spectrum import keep_apart, share_decompositions
from tracegrad.passes.weaken import weaken

# Each sweep lets what one rule made be seen by the next; a few are always enough, and
# the bound keeps two rules that undo each other from running for ever.
_MAX_SWEEPS = 8


def optimise(graph: Graph, optimize: str = "readable") -> Graph:
    """Run all passes.

    Args:
        graph: a joint graph, forward nodes first.
        optimize: "readable" or "fast".
    """
    check = verify if enabled() else _accept
    fast = optimize == "fast"
    graph = open_calls(drop_aliases(graph))
    graph = read_around_stores(remove_dead_code(check(graph)))
    graph = check(merge_common(check(graph), fast))
    graph = _rewrite(graph, rewrite.RULES, check)
    plain = check(weaken(graph))
    if plain is not graph:
        # Broadcasts of the seed are gone now, and as a plain number it meets others.
        graph = _rewrite(plain, rewrite.RULES, check)
    graph = _rewrite(graph, rewrite.FINISHING, check)
    graph = share_exponentials(merge_common(graph, fast))
    graph = keep_apart(share_decompositions(graph))
    graph = tidy_calls(graph, lambda body: optimise(body, optimize))
    return check(remove_dead_code(_regions(graph, optimize)))


def _regions(graph: Graph, optimize: str) -> Graph:
    """Each region optimised as a graph of its own."""
    if not any(node.regions for node in graph.nodes):
        return graph
    live = set(graph.reads())
    nodes = []
    known: dict[Value, Value] = {}
    readers: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for v in node.inputs:
            readers.setdefault(v, []).append(node)
    for node in graph.nodes:
        if any(v in known for v in node.inputs):
            node = node.with_inputs(tuple([known.get(v, v) for v in node.inputs]))
        if node.regions:
            made = tuple([optimise(region, optimize) for region in node.regions])
            node = _detached(node.changed(regions=made))
            passed = passed_through(node) | shared_stacks(node)
            known.update(passed)
            read = (live - passed.keys()) | set(passed.values())
            rest = listed_once(node, readers, graph.results)
            read = read.difference([n.out for n in rest])
            nodes += [prune(node, read, remove_dead_code), *rest]
        else:
            nodes.append(node)
    return graph.with_nodes(nodes, [known.get(v, v) for v in graph.results])


def _detached(node: Node) -> Node:
    """A loop whose body copies the parts that it reads after it has written."""
    if not is_loop(node):
        return node
    loop = Loop.of(node)
    body = loop.body
    nodes = detach_parts(body.nodes, body.results, set(loop.carries))
    return node.changed(regions=(*node.regions[:-1], body.with_nodes(nodes)))


def _rewrite(graph: Graph, rules: dict, check: Callable[[Graph], Graph]) -> Graph:
    """Sweep until no rule applies."""
    for _ in range(_MAX_SWEEPS):
        rewriter = rewrite.Rewriter(graph, rules)
        made = rewriter.run()
        if not rewriter.changed:
            break
        graph = check(remove_dead_code(made))
    return graph


def _accept(graph: Graph) -> Graph:
    return graph
