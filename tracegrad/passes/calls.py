"""Calls of bodies: what nothing reads of them, and bodies that cannot be called."""

from __future__ import annotations

from collections.abc import Callable, Container

from tracegrad.ir.graph import Graph, Node
from tracegrad.ops.call import (
    Body,
    Pullback,
    call,
    expanded,
    knows_its_sizes,
    sizes_of,
)


def open_calls(graph: Graph) -> Graph:
    """The graph without the calls of bodies that read sizes of the outside."""
    if not any(node.op is call for node in graph.nodes):
        return graph
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.op is call and not knows_its_sizes(node.attrs["body"].graph):
            nodes.extend(expanded(node))
        else:
            nodes.append(node)
    return graph.with_nodes(nodes)


def tidy_calls(graph: Graph, optimise: Callable[[Graph], Graph]) -> Graph:
    """The graph with bodies optimised, and without what nothing reads of them."""
    if not any(node.op is call for node in graph.nodes):
        return graph
    live = set(graph.reads())
    nodes = [_tidy(n, live, optimise) if n.op is call else n for n in graph.nodes]
    return graph.with_nodes(nodes)


def _tidy(node: Node, live: Container, optimise: Callable[[Graph], Graph]) -> Node:
    body: Body = node.attrs["body"]
    outputs, rule = node.outputs, body.rule
    if isinstance(rule, Pullback) and not any(v in live for v in outputs[rule.plain :]):
        body, outputs = rule.primal, outputs[: rule.plain]
    kept = [k for k, v in enumerate(outputs) if v in live]
    graph = body.graph
    graph = optimise(graph.with_nodes(graph.nodes, [graph.results[k] for k in kept]))
    reads = set(graph.reads())
    used = [i for i, v in enumerate(graph.params) if v in reads]
    params = [graph.params[i] for i in used]
    made = Graph(graph.name, params, graph.nodes, graph.results, sizes_of(params))
    if not knows_its_sizes(made):
        used, made = list(range(len(graph.params))), graph
    return node.changed(
        inputs=tuple([node.inputs[i] for i in used]),
        outputs=tuple([outputs[k] for k in kept]),
        attrs={"body": Body(body.name, made, None, body.doc)},
    )
