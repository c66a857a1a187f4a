"""Parts of an array that are kept while the array is written: copies of the parts.

`part = d_u[t]`, then `d_u[t] = 0.0`, then a read of `part`: in the memory of `d_u` the
part would change with it.  To copy all of `d_u` in each turn makes a loop over its rows
quadratic; a copy of the part does as well.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from tracegrad.ir.graph import BACKWARD, Node, Value
from tracegrad.ops.index import getitem
from tracegrad.ops.shape import copy


def detach_parts(
    nodes: Sequence[Node], results: Sequence[Value], owned: Container[Value]
) -> list[Node]:
    """The nodes with such parts copied.

    Args:
        nodes: a program, or the body of a loop.
        results: of it.
        owned: parameters that may be written: carries of a loop.
    """
    if not any(node.op.inplace is not None for node in nodes):
        return list(nodes)
    last = _last_reads(nodes, results)
    made = {v for node in nodes for v in node.outputs if not _is_part(node)}
    parts: dict[Value, list[int]] = {}
    others: dict[Value, int] = {v: len(nodes) for v in results}
    for i, node in enumerate(nodes):
        for k, v in enumerate(node.inputs):
            if _is_part(node) and k == 0:
                parts.setdefault(v, []).append(i)
            elif k not in node.op.type_only:
                others[v] = max(i, others.get(v, i))
    detached: set[int] = set()
    for i, node in enumerate(nodes):
        if node.op.inplace is None or node.phase != BACKWARD:
            continue
        base = node.inputs[0]
        found = parts.get(base, [])
        free = base in made or base in owned
        if free and others.get(base, i) <= i and all(k < i for k in found):
            detached.update([k for k in found if last.get(nodes[k].out, k) > i])
    kept: list[Node] = []
    for k, node in enumerate(nodes):
        if k not in detached:
            kept.append(node)
            continue
        part = Value(node.out.type)
        node.out.hint = node.out.hint or "d_part"
        kept.append(node.changed(outputs=(part,)))
        kept.append(Node(copy, (part,), (node.out,), {}, node.at, node.phase))
    return kept


def _is_part(node: Node) -> bool:
    """Whether a node shows a part of its first input, and no single element."""
    if node.op is not getitem or not node.out.type.shape:
        return False
    return all(not v.type.shape for v in node.inputs[1:])


def _last_reads(nodes: Sequence[Node], results: Sequence[Value]) -> dict[Value, int]:
    """Position of the last read of each value, or of a view of it."""
    last = dict.fromkeys(results, len(nodes))
    for i in range(len(nodes) - 1, -1, -1):
        node = nodes[i]
        views = node.op.aliasing(node.attrs) is not None or _is_part(node)
        end = max([i, *[last.get(v, i) for v in node.outputs]]) if views else i
        for v in node.inputs:
            last[v] = max(last.get(v, i), end)
    return last
