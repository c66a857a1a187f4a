"""Work that the forward and the backward part can do together.

The derivative of `logsumexp` needs `exp(x - logsumexp(x))`, the exponentials that the
forward part has made already.  Where both are in a graph, one op makes both.
"""

from __future__ import annotations

from tracegrad.ir.graph import Graph, Node, Value
from tracegrad.ops.elementary import exp_minus
from tracegrad.ops.index import getitem
from tracegrad.ops.special import logsumexp, logsumexp_and_softmax


def share_exponentials(graph: Graph) -> Graph:
    """Give `logsumexp` a second result where the backward part computes it again."""
    made_by = {v: node for node in graph.nodes for v in node.outputs}
    shared: dict[Value, Value] = {}  # exp(x - logsumexp(x)) -> the second result
    second: dict[Node, Value] = {}
    for node in graph.nodes:
        if node.op is not exp_minus:
            continue
        x, total = node.inputs
        made = made_by.get(total)
        if made is not None and made.op is getitem:  # `total[:, None]`
            made = made_by.get(made.inputs[0])
        if made is None or made.op is not logsumexp or made.inputs[0] is not x:
            continue
        if node.out.type != x.type:
            continue
        share = second.setdefault(made, Value(x.type, "softmax"))
        shared[node.out] = share
    if not shared:
        return graph
    nodes = []
    for node in graph.nodes:
        if node.outputs and node.outputs[0] in shared:
            continue
        if node in second:
            outputs = (node.out, second[node])
            op = logsumexp_and_softmax
            made = Node(op, node.inputs, outputs, node.attrs, node.at, node.phase)
            made.derived = node.derived
            node = made
        elif any(v in shared for v in node.inputs):
            node = node.with_inputs(tuple([shared.get(v, v) for v in node.inputs]))
        nodes.append(node)
    return graph.with_nodes(nodes, [shared.get(v, v) for v in graph.results])
