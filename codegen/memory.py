"""What a node does to memory: shows that of its input, or adds into it."""

from __future__ import annotations

from tracegrad.ir.graph import Node
from tracegrad.ops.define import OPERATORS
from tracegrad.ops.index import getitem


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


def is_accumulation(node: Node) -> bool:
    """Whether the node adds one more contribution to a cotangent."""
    if not node.derived or len(node.inputs) != 2:
        return False
    if node.op not in (OPERATORS["__add__"], OPERATORS["__sub__"]):
        return False
    left, out = node.inputs[0], node.outputs[0]
    return (
        out.wrt is not None
        and left.wrt is out.wrt
        and left.type.shape == out.type.shape
        and left.type.dtype == out.type.dtype
    )
