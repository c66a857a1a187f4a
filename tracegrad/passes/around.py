"""Stores that no read sees: each reader looks at elements that were not written.

The pullback of `out[i] = …` zeroes that part of the cotangent.  Where all that follows
reads other parts, the array is read as it was, and the store, with the copy of the
array that it may need, is gone.
"""

from __future__ import annotations

import math
from typing import Any

from tracegrad.ir.graph import Graph, Node, Value
from tracegrad.ir.index import Slice
from tracegrad.ir.types import Size
from tracegrad.ops.index import getitem
from tracegrad.ops.scatter import setitem


def read_around_stores(graph: Graph) -> Graph:
    """Drop derived stores that no read sees; the user's own stay."""
    stores = [n for n in graph.nodes if n.op is setitem and n.derived]
    if not stores:
        return graph
    droppable = _droppable(graph)
    if not droppable:
        return graph
    known: dict[Value, Value] = {}
    nodes = []
    for node in graph.nodes:
        if node.outputs[0] in droppable:
            base = node.inputs[0]
            known[node.outputs[0]] = known.get(base, base)
            continue
        if any(v in known for v in node.inputs):
            node = node.with_inputs(tuple([known.get(v, v) for v in node.inputs]))
        nodes.append(node)
    return graph.with_nodes(nodes)


def _droppable(graph: Graph) -> dict[Value, list[Any]]:
    """Results of stores -> the subscripts under which they are read after all.

    From the last node to the first, so that the readers of a value are known.
    """
    readers: dict[Value, list[Node]] = {}
    whole = set(graph.results)
    for node in graph.nodes:
        for position, v in enumerate(node.inputs):
            readers.setdefault(v, []).append(node)
            if position or node.op not in (getitem, setitem):
                whole.add(v)
    found: dict[Value, list[Any]] = {}
    for node in reversed(graph.nodes):
        if node.op is not setitem or not node.derived or node.outputs[0] in whole:
            continue
        out = node.outputs[0]
        reads: list[Any] | None = []
        more: list[Any] | None
        for reader in readers.get(out, ()):
            if reader.op is getitem and len(reader.inputs) == 1:
                more = [reader.attrs["index"]]
            else:
                more = found.get(reader.outputs[0])
            reads = None if more is None or reads is None else reads + more
        if reads is None or len(node.inputs) > 2:
            continue
        shape, index = out.type.shape, node.attrs["index"]
        if all(disjoint(index, read, shape) for read in reads):
            found[out] = reads
    return found


def disjoint(a: tuple, b: tuple, shape: tuple[Size, ...]) -> bool:
    """Whether two subscripts of ints and slices are known to share no element."""
    entries = list(zip(a, b, shape, strict=False))
    if not all(isinstance(e, int | Slice) for pair in entries for e in pair[:2]):
        return False
    return any(_apart(*entry) for entry in entries)


def _apart(a: Any, b: Any, size: Size) -> bool:
    if isinstance(size, int):
        return not _share(_positions(a, size), _positions(b, size))
    return _before(a, b) or _before(b, a)


def _positions(entry: Any, size: int) -> range:
    if isinstance(entry, int):
        at = entry % size if size else 0
        return range(at, at + 1)
    found = range(size)[slice(entry.start, entry.stop, entry.step)]
    return found if found.step > 0 else found[::-1]


def _share(p: range, q: range) -> bool:
    """Whether two rising progressions have a number in common."""
    if not p or not q or p[-1] < q[0] or q[-1] < p[0]:
        return False
    if (p[0] - q[0]) % math.gcd(p.step, q.step):
        return False
    few, many = (p, q) if len(p) < len(q) else (q, p)
    return any(k in many for k in few)


def _before(a: Any, b: Any) -> bool:
    """Whether `a` ends where `b` starts, both counted from the same end of the axis."""
    if isinstance(a, int):
        a = Slice(a, a + 1 if a != -1 else None)
    start = b if isinstance(b, int) else b.start
    step = a.step or 1, 1 if isinstance(b, int) else b.step or 1
    ends = a.stop, start
    if not all(type(n) is int for n in (*ends, *step)) or min(step) < 1:
        return False
    return (a.stop < 0) == (start < 0) and a.stop <= start
