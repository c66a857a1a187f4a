"""Rewrites of what batched derivatives start from: unit vectors and zeros.

A Jacobian pulls an identity matrix back.  A product with it is no product, and one with
a diagonal matrix is a scaling of rows or columns.
"""

from __future__ import annotations

from typing import Any

from tracegrad.ir.graph import Node, Value
from tracegrad.ops.create import eye, full_like, zeros, zeros_like
from tracegrad.ops.elementwise import multiply
from tracegrad.ops.index import FULL, getitem
from tracegrad.ops.product import matmul
from tracegrad.ops.record import Ref
from tracegrad.ops.reduce import sum
from tracegrad.ops.scatter import scatter_add, setitem
from tracegrad.ops.shape import broadcast_to, reshape, transpose
from tracegrad.passes.rewrite import Rewriter, rewrites


def _is_identity(r: Rewriter, v: Value) -> bool:
    made = r.made_by.get(v)
    return (
        made is not None
        and made.op is eye
        and not made.attrs["k"]
        and made.attrs["m"] in (None, made.attrs["n"])
    )


def _diagonal(r: Rewriter, v: Value) -> Ref | None:
    """The vector (or scalar) `d` for a `v` that is a diagonal matrix of it."""
    made = r.made_by.get(v)
    if made is None or made.op is not multiply or not made.derived:
        return None
    for this, other in (made.inputs, made.inputs[::-1]):
        if other.type.ndim > 1:
            continue
        if _is_identity(r, this):
            return r.ref(other)
        inner = _diagonal(r, this)
        if inner is not None:
            first = other is made.inputs[0]
            return r.ref(other) * inner if first else inner * r.ref(other)
    return None


@rewrites(matmul)
def multiply_by_identity(r: Rewriter, node: Node) -> Any:
    """`eye(n) @ a` is `a`; `(eye(n) * d) @ a` scales the rows of `a`."""
    a, b = node.inputs
    out = node.outputs[0].type
    for this, other, rows in ((a, b, True), (b, a, False)):
        if this.type.ndim != 2 or other.type.dtype != out.dtype:
            continue
        if _is_identity(r, this) and other.type.shape == out.shape:
            return r.ref(other)
        d = _diagonal(r, this)
        if d is None or other.type.shape != out.shape:
            continue
        if d.ndim and rows and other.type.ndim > 1:
            d = getitem(d, index=(FULL, None))
        made = d * r.ref(other) if rows else r.ref(other) * d
        return made if made.dtype == out.dtype else None
    return None


@rewrites(transpose)
def transpose_identity(r: Rewriter, node: Node) -> Any:
    """`eye(n).T` is `eye(n)`."""
    v = node.inputs[0]
    return r.ref(v) if v.type.ndim == 2 and _is_identity(r, v) else None


@rewrites(sum)
def sum_of_diagonal(r: Rewriter, node: Node) -> Any:
    """The sums of the rows, or columns, of a diagonal matrix are its diagonal."""
    v = node.inputs[0]
    if v.type.ndim != 2 or node.attrs["axis"] not in (0, 1) or node.attrs["keepdims"]:
        return None
    d = _diagonal(r, v)
    return None if d is None or d.type != node.outputs[0].type else d


@rewrites(getitem, reshape, transpose)
def view_of_zeros(r: Rewriter, node: Node) -> Any:
    """A part of zeros that nothing else reads is zeros."""
    v = node.inputs[0]
    if len(node.inputs) > 1 or not (r.source(v, zeros) or r.source(v, zeros_like)):
        return None
    out = node.outputs[0].type
    return r.record(zeros, (), {"shape": out.shape, "dtype": out.dtype.name})


@rewrites(broadcast_to)
def broadcast_zeros(r: Rewriter, node: Node) -> Any:
    """Zeros repeated are zeros."""
    made = r.made_by.get(node.inputs[0])
    if made is None or made.op not in (zeros, zeros_like):
        return None
    out = node.outputs[0].type
    return r.record(zeros, (), {"shape": out.shape, "dtype": out.dtype.name})


@rewrites(zeros_like)
def zeros_like_source(r: Rewriter, node: Node) -> Any:
    """Zeros like what was written into are zeros like what that was made from."""
    made = r.made_by.get(node.inputs[0])
    if made is None or made.op not in (zeros_like, full_like, setitem, scatter_add):
        return None
    if made.op is zeros_like and made.attrs["dtype"] is not None:
        return None
    if not made.derived or made.inputs[0].type != made.outputs[0].type:
        return None
    return zeros_like(r.ref(made.inputs[0]), **node.attrs)
