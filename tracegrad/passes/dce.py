"""Dead code."""

from __future__ import annotations

from tracegrad.ir.graph import Graph, Node, Value


def remove_dead_code(graph: Graph) -> Graph:
    """The graph without nodes whose outputs nothing reads.

    Reads of a type alone keep a value alive here; `simplify` moves them to a value
    that is needed anyway.
    """
    live: set[Value] = set(graph.results)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if any(v in live for v in node.outputs):
            kept.append(node)
            live.update(node.inputs)
    kept.reverse()
    return graph.with_nodes(kept)
