"""Decompositions of matrices that the forward and the backward part share."""

from __future__ import annotations

from typing import Any

from tracegrad.ir.graph import FORWARD, Graph, Node, Value
from tracegrad.ops.eigen import apart, inverse_gaps


def share_decompositions(graph: Graph) -> Graph:
    """Decompose once where the backward part needs more than the forward part.

    The derivative of eigenvalues needs the eigenvectors: with both in the graph, the
    forward part takes the eigenvalues that come with the vectors.
    """
    complete: dict[Any, Node] = {}
    wanted: dict[Any, Node] = {}
    for node in graph.nodes:
        complete.setdefault(_key(node), node)
        if node.op.whole is not None:
            wanted.setdefault(_key_of_whole(node), node)
    shared = {key: node for key, node in wanted.items() if key in complete}
    if not shared:
        return graph
    replaced: dict[Value, Value] = {}
    nodes: list[Node] = []
    placed = set()
    for node in graph.nodes:
        key = _key(node) if node.op.whole is None else _key_of_whole(node)
        if key in shared:
            whole = complete[key]
            if key not in placed:
                placed.add(key)
                nodes.append(_moved(whole, node))
            if node is not whole:
                _replace(node, whole, replaced)
            continue
        if any(v in replaced for v in node.inputs):
            node = node.with_inputs(tuple([replaced.get(v, v) for v in node.inputs]))
        nodes.append(node)
    return _finished(graph, nodes, replaced)


def _finished(graph: Graph, nodes: list[Node], replaced: dict[Value, Value]) -> Graph:
    """The graph with other nodes; cotangents take the names of what replaces values."""
    for node in nodes:
        for v in node.outputs:
            if v.wrt in replaced:
                v.wrt = replaced[v.wrt]
    return graph.with_nodes(nodes, [replaced.get(v, v) for v in graph.results])


def _key(node: Node) -> Any:
    return node.op, node.inputs, tuple(sorted(node.attrs.items()))


def _key_of_whole(node: Node) -> Any:
    op, _, attrs = node.op.whole  # type: ignore[misc]
    attrs = {**op.defaults, **node.attrs, **attrs}
    return op, node.inputs, tuple(sorted(attrs.items()))


def _moved(whole: Node, to: Node) -> Node:
    """The whole at the place of the first part that is wanted of it."""
    return Node(
        whole.op,
        whole.inputs,
        whole.outputs,
        whole.attrs,
        to.at,
        to.phase,
        derived=to.derived,
    )


def _replace(part: Node, whole: Node, replaced: dict[Value, Value]) -> None:
    if part.op is whole.op:
        outputs = whole.outputs
    else:
        outputs = (whole.outputs[part.op.whole[1]],)  # type: ignore[index]
    for old, new in zip(part.outputs, outputs, strict=True):
        replaced[old] = new
        if old.hint and not new.hint:
            new.hint, new.user = old.hint, old.user


def keep_apart(graph: Graph) -> Graph:
    """Move equal eigenvalues apart where derivatives go through the eigenvectors.

    A smooth function of a matrix, such as `(v * np.exp(w)) @ v.T`, has a derivative at
    equal eigenvalues, but nothing that is known there shows it.
    """
    close: dict[Value, Node] = {}
    for node in graph.nodes:
        if node.op is inverse_gaps and node.inputs[0].type.kind == "f":
            close[node.inputs[0]] = node
    moved: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if any(v in moved for v in node.inputs):
            node = node.with_inputs(tuple([moved.get(v, v) for v in node.inputs]))
        nodes.append(node)
        for v in node.outputs if len(node.outputs) > 1 else ():
            if v in close:
                moved[v] = Value(v.type)
                attrs = {"falling": close[v].attrs["squares"]}
                made = Node(apart, (v,), (moved[v],), attrs, node.at, FORWARD)
                nodes.append(made)
    return _finished(graph, nodes, moved) if moved else graph
