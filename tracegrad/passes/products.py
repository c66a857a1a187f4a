"""Rewrites of products: what a person would write as one `@`, or not twice."""

from __future__ import annotations

from typing import Any

from tracegrad.ir.graph import Node, Value
from tracegrad.ops.elementwise import add, multiply
from tracegrad.ops.product import matmul
from tracegrad.ops.reduce import sum
from tracegrad.ops.shape import transpose
from tracegrad.passes.rewrite import Rewriter, rewrites

_SWAP = (1, 0)


def _flipped(r: Rewriter, v: Value) -> Any:
    """`a` if `v` is `a.T` of a matrix, whoever else reads it: it is a view."""
    made = r.made_by.get(v)
    if made is None or made.op is not transpose or made.attrs["axes"] != _SWAP:
        return None
    return r.ref(made.inputs[0])


@rewrites(transpose)
def transpose_product(r: Rewriter, node: Node) -> Any:
    """`(a.T @ b).T` is `b.T @ a`, and `(a @ b.T).T` is `b @ a.T`."""
    made = r.source(node.inputs[0], matmul)
    if made is None or node.attrs["axes"] != _SWAP:
        return None
    a, b = made.inputs
    if a.type.ndim != 2 or b.type.ndim != 2:
        return None
    left, right = _flipped(r, a), _flipped(r, b)
    if left is None and right is None:
        return None
    first = transpose(r.ref(b), axes=_SWAP) if right is None else right
    second = transpose(r.ref(a), axes=_SWAP) if left is None else left
    return matmul(first, second)


@rewrites(add)
def add_again(r: Rewriter, node: Node) -> Any:
    """`a + b + b` is `a + 2.0 * b`."""
    left, right = node.inputs
    made = r.source(left, add)
    if made is None or made.inputs[1] is not right or not right.type.differentiable:
        return None
    if made.inputs[0].wrt is None and node.outputs[0].wrt is not None:
        return None  # it is not added up in place then
    return r.ref(made.inputs[0]) + 2.0 * r.ref(right)


@rewrites(sum, last=True)
def sum_of_product(r: Rewriter, node: Node) -> Any:
    """`np.sum(a * b)` of two vectors is `a @ b`."""
    made = r.source(node.inputs[0], multiply)
    if made is None or node.attrs["keepdims"]:
        return None
    a, b = made.inputs
    if a is b or a.type.ndim != 1 or a.type != b.type or a.type.kind != "f":
        return None
    return matmul(r.ref(a), r.ref(b))
