"""NumPy scalars as plain numbers, where that changes no dtype.

The seed of a float32 gradient is `np.float32(1.0)`, so that nothing becomes float64.
Mostly an array of float32 meets it soon, and then a plain `1.0` does as well (NEP 50).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import numpy as np

from tracegrad.errors import TracegradError
from tracegrad.ir.graph import Const, Graph, Node, Value
from tracegrad.ir.types import ArrayType


def weaken(graph: Graph) -> Graph:
    """The graph with the scalar constants of its backward part as Python numbers.

    It is the same object if there is nothing to change.
    """
    if not any(_is_numpy_scalar(v) for node in graph.nodes for v in node.inputs):
        return graph
    readers: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for v in node.inputs:
            readers.setdefault(v, []).append(node)
    results = set(graph.results)
    replaced: dict[Value, Value] = {}
    for v, found in readers.items():
        if not _is_numpy_scalar(v) or any(not n.derived for n in found):
            continue
        plain = Const(v.value.item())
        types = _consequences(v, plain.type, readers, results)
        if types is None:
            continue
        replaced[v] = plain
        for changed, t in types.items():
            changed.type = t
    if not replaced:
        return graph
    nodes = [
        n.with_inputs(tuple([replaced.get(v, v) for v in n.inputs]))
        if any(v in replaced for v in n.inputs)
        else n
        for n in graph.nodes
    ]
    return graph.with_nodes(nodes)


def _is_numpy_scalar(v: Value) -> TypeGuard[Const]:
    return (
        isinstance(v, Const)
        and isinstance(v.value, np.floating | np.complexfloating)
        and not v.type.weak
    )


def _consequences(
    v: Value,
    plain: ArrayType,
    readers: dict[Value, list[Node]],
    results: set[Value],
) -> dict[Value, ArrayType] | None:
    """Types that change when `v` becomes a plain number; None if one may not."""
    changed: dict[Value, ArrayType] = {}
    waiting: list[tuple[Value, ArrayType]] = [(v, plain)]
    types = {v: plain}
    while waiting:
        value, _ = waiting.pop()
        for node in readers.get(value, ()):
            inferred = _infer(node, types)
            if inferred is None or len(node.outputs) != 1:
                return None
            out = node.outputs[0]
            if inferred == out.type or types.get(out) == inferred:
                continue
            if not inferred.weak or out in results:
                return None
            types[out] = changed[out] = inferred
            waiting.append((out, inferred))
    return changed


def _infer(node: Node, types: dict[Value, ArrayType]) -> ArrayType | None:
    if node.regions:
        return None
    inputs: Sequence[ArrayType] = [types.get(v, v.type) for v in node.inputs]
    try:
        inferred = node.op.infer(*inputs, **node.attrs)
    except TracegradError:
        return None
    return inferred if isinstance(inferred, ArrayType) else None
