"""Checks that a graph is well formed."""

from __future__ import annotations

import os

from tracegrad.ir.graph import Const, Graph, Node, Value


class InvalidGraph(Exception):
    """A pass made a graph that is not well formed: a bug of ours."""


def enabled() -> bool:
    """Whether passes verify their graphs: under pytest, or on request."""
    return "PYTEST_CURRENT_TEST" in os.environ or "TRACEGRAD_VERIFY" in os.environ


def verify(graph: Graph) -> Graph:
    """Return the graph if each value is made once, before it is read, with its type.

    Raises:
        InvalidGraph: naming the node.
    """
    known: set[Value] = set(graph.params)
    if len(known) != len(graph.params):
        raise InvalidGraph("a parameter stands twice")
    for node in graph.nodes:
        for v in node.inputs:
            if v not in known and not isinstance(v, Const):
                raise InvalidGraph(f"{node!r} reads {v!r} before it is made")
        for v in node.outputs:
            if v in known:
                raise InvalidGraph(f"{node!r} makes {v!r} a second time")
        known.update(node.outputs)
        _check_types(node)
    for v in graph.results:
        if v not in known and not isinstance(v, Const):
            raise InvalidGraph(f"the result {v!r} is never made")
    return graph


def _check_types(node: Node) -> None:
    try:
        hash(tuple(node.attrs.items()))
    except TypeError as error:
        raise InvalidGraph(f"{node!r} has an unhashable attribute") from error
    for region in node.regions:
        verify(region)
    regions = {"regions": node.regions} if node.regions else {}
    types = [v.type for v in node.inputs]
    inferred = node.op.infer(*types, **regions, **node.attrs)
    made = inferred if type(inferred) is tuple else (inferred,)
    for v, t in zip(node.outputs, made, strict=True):
        # A scalar may be recorded weak or strong: the rewrites exchange the two.
        if (v.type.shape, v.type.dtype) != (t.shape, t.dtype):
            raise InvalidGraph(f"{node!r} should make {t!r}")
