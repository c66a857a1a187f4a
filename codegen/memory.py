"""What a node does to memory: shows that of its input, or adds into it."""

from __future__ import annotations

from tracegrad.ir.graph import Node, Value
from tracegrad.ops.define import OPERATORS
from tracegrad.ops.index import getitem

# Values are followed to what they are a derivative of no further than this.
MAX_ORDER = 6


def is_view(node: Node) -> bool:
    """Whether the output shares, or may share, memory with the first input.

    An element read by its indices is a NumPy scalar, which is a copy.
    """
    if not node.inputs:
        return False
    row = node.op is getitem and all(not v.type.shape for v in node.inputs[1:])
    if node.op.aliasing(node.attrs) is None and not (row and node.inputs[1:]):
        return False
    element = not node.outputs[0].type.shape and node.inputs[0].type.shape
    return not element or Ellipsis in node.attrs.get("index", (Ellipsis,))


def lineage(v: Value) -> tuple:
    """What `v` is the cotangent or tangent of, however many times.

    Partial sums of a cotangent have it in common with the whole, and so do their
    tangents.
    """
    prefixes: list[str] = []
    # A value may come out as its own cotangent: that of `x` in `0.5 * x**2` is `x`.
    while v.wrt is not None and len(prefixes) < MAX_ORDER:
        prefixes.append(v.prefix)
        v = v.wrt
    return (*prefixes, v)


def is_accumulation(node: Node) -> bool:
    """Whether the node adds one more contribution to a cotangent."""
    if not node.derived or not _adds(node):
        return False
    left, out = node.inputs[0], node.outputs[0]
    return out.wrt is not None and lineage(left) == lineage(out)


def is_named_sum(node: Node) -> bool:
    """Whether the node is `v += a` of the user's, or `v = v + a`."""
    if node.derived or not _adds(node):
        return False
    left, out = node.inputs[0], node.outputs[0]
    return left.user and out.user and left.hint == out.hint


def _adds(node: Node) -> bool:
    """Whether the output, a sum or difference, fits into the memory of the left."""
    if node.op not in (OPERATORS["__add__"], OPERATORS["__sub__"]):
        return False
    left, out = node.inputs[0].type, node.outputs[0].type
    return left.shape == out.shape and left.dtype == out.dtype
