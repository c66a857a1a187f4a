"""Common subexpressions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.ir.graph import Const, Graph, Node, Value


def _key(v: Value) -> Any:
    if not isinstance(v, Const):
        return id(v)
    if isinstance(v.value, np.ndarray):
        return "array", id(v.value)
    # repr tells 1, 1.0, True and -0.0 apart, which == does not.
    return type(v.value).__name__, repr(v.value)


def merge_common(graph: Graph, all_phases: bool = False) -> Graph:
    """The graph with equal computations done once.

    In readable code a value that the user computed is reused in a derivative only if it
    has a name or costs more than one arithmetic operation: else the user's lines
    would break up into temporaries.

    Args:
        graph: any graph.
        all_phases: merge cheap unnamed values across phases too.
    """
    seen: dict[Any, Node] = {}
    replaced: dict[Value, Value] = {}
    kept: list[Node] = []
    for node in graph.nodes:
        if not replaced.keys().isdisjoint(node.inputs):
            inputs = tuple([replaced.get(v, v) for v in node.inputs])
            node = node.with_inputs(inputs)
        key = (node.op.name, tuple(map(_key, node.inputs)), tuple(node.attrs.items()))
        first = seen.get(key)
        if (
            first is not None
            and not node.regions
            and _may_merge(first, node, all_phases)
        ):
            for old, new in zip(node.outputs, first.outputs, strict=True):
                replaced[old] = new
                if new.hint is None and old.hint is not None:
                    new.hint, new.user = old.hint, old.user
            continue
        if first is None:
            seen[key] = node
        kept.append(node)
    results = [replaced.get(v, v) for v in graph.results]
    return graph.with_nodes(kept, results)


def _may_merge(first: Node, second: Node, all_phases: bool) -> bool:
    op = first.op
    if op.guards:
        return False  # each stands where the user asked
    if first.outputs[0].type.shape and len(op.type_only) == len(first.inputs):
        return False  # new arrays: two buffers to fill, not one to copy
    if all(isinstance(v, Const) for v in first.inputs):
        return False  # `np.sqrt(2.0)` reads better than a name for it
    if all_phases or (first.derived and second.derived):
        return True
    named = any(v.user for v in first.outputs)
    return named or not first.op.cheap
