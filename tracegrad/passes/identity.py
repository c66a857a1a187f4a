"""Rewrites of what batched derivatives start from: unit vectors and zeros.

A Jacobian pulls an identity matrix back.  A product with it is no product, and one with
a diagonal matrix is a scaling of rows or columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.ir.dims import product
from tracegrad.ir.graph import Const, Node, Value
from tracegrad.ir.index import ARRAY
from tracegrad.ops.create import arange, dim, eye, full_like, size, zeros, zeros_like
from tracegrad.ops.diagonal import diag
from tracegrad.ops.elementwise import add, divide, multiply, negative, subtract
from tracegrad.ops.index import FULL, getitem
from tracegrad.ops.product import matmul
from tracegrad.ops.record import Ref
from tracegrad.ops.reduce import sum
from tracegrad.ops.scatter import scatter_add, setitem
from tracegrad.ops.select import where
from tracegrad.ops.shape import broadcast_to, reshape, transpose
from tracegrad.passes.rewrite import Rewriter, rewrites
from tracegrad.passes.simplify import is_number, number


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
    if made is None or not made.derived:
        return None
    if made.op is diag:
        return r.ref(made.inputs[0]) if not made.attrs["k"] else None
    if made.op is not multiply:
        return None
    for this, other in (made.inputs, made.inputs[::-1]):
        if other.type.ndim == 0 and _is_identity(r, this):
            return r.ref(other)
    return None


def _term(r: Rewriter, v: Value) -> Ref | None:
    """As `_diagonal`; an identity matrix is that of 1."""
    if _is_identity(r, v):
        double = v.type.dtype in (np.float64, np.complex128)
        return r.wrap(Const(1.0 if double else v.type.dtype.type(1)))
    return _diagonal(r, v)


def _along(r: Rewriter, v: Value, n: Any) -> Ref | None:
    """What a `v` that is broadcast to a matrix of `n` rows has on the diagonal."""
    shape = v.type.shape
    if shape in ((), (n,)):
        return r.ref(v)
    if shape == (n, 1):
        return getitem(r.ref(v), index=(FULL, 0))
    return getitem(r.ref(v), index=(0,)) if shape == (1, n) else None


def _as_diagonal(made: Ref, node: Node) -> Ref | None:
    """`diag(made)` in the place of a node, if it is the same."""
    out = node.outputs[0].type
    if made.shape != out.shape[:1] or made.dtype != out.dtype:
        return None
    return diag(made)


@rewrites(multiply, divide)
def scale_diagonal(r: Rewriter, node: Node) -> Any:
    """`eye(n) * d` is `diag(d)`; `diag(d) * a` is `diag(d * a)`, and so for `/`."""
    out = node.outputs[0].type
    if out.ndim != 2:
        return None
    for k, this in enumerate(node.inputs[: 1 if node.op is divide else 2]):
        other = node.inputs[1 - k]
        if this.type.shape != out.shape:
            continue
        a = _along(r, other, out.shape[0])
        if a is None:
            continue
        if _is_identity(r, this) and node.op is multiply:
            return _as_diagonal(a, node)
        d = _term(r, this)
        if d is not None and (d.ndim or a.ndim):
            return _as_diagonal(node.op(d, a) if k == 0 else a * d, node)
    return None


@rewrites(negative)
def negate_diagonal(r: Rewriter, node: Node) -> Any:
    """`-diag(d)` is `diag(-d)`."""
    d = _diagonal(r, node.inputs[0])
    return None if d is None else _as_diagonal(-d, node)


@rewrites(add, subtract)
def add_diagonals(r: Rewriter, node: Node) -> Any:
    """`diag(a) + diag(b)` is `diag(a + b)`."""
    parts = [_term(r, v) for v in node.inputs]
    if parts[0] is None or parts[1] is None:
        return None
    return _as_diagonal(node.op(*parts), node)


@rewrites(where)
def select_diagonal(r: Rewriter, node: Node) -> Any:
    """`where(c, diag(a), 0)` is `diag(where(c, a, 0))`."""
    condition, *sides = node.inputs
    out = node.outputs[0].type
    if out.ndim != 2 or out.shape != sides[0].type.shape or not is_number(sides[1], 0):
        return None
    c, d = _along(r, condition, out.shape[0]), _term(r, sides[0])
    if c is None or d is None:
        return None
    return _as_diagonal(where(c, d, 0.0), node)


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
    """`eye(n).T` is `eye(n)`, and `diag(d).T` is `diag(d)`."""
    v = node.inputs[0]
    if v.type.ndim != 2:
        return None
    d = _diagonal(r, v)
    if d is not None and d.ndim:
        return diag(d)
    return r.ref(v) if _term(r, v) is not None else None


@rewrites(sum)
def sum_of_diagonal(r: Rewriter, node: Node) -> Any:
    """The sums of the rows, or columns, of a diagonal matrix are its diagonal."""
    v = node.inputs[0]
    if v.type.ndim != 2 or node.attrs["axis"] not in (0, 1) or node.attrs["keepdims"]:
        return None
    d = _diagonal(r, v)
    return None if d is None or d.type != node.outputs[0].type else d


@rewrites(matmul)
def multiply_by_constant(r: Rewriter, node: Node) -> Any:
    """`a @ full(n, c)` is `c` times the sums of the rows of `a`."""
    a, b = node.inputs
    out = node.outputs[0].type
    for this, other, axis in ((a, b, -1), (b, a, 0)):
        made = r.source(other, broadcast_to, alone=False)
        if made is None or made.inputs[0].type.shape or other.type.ndim != 1:
            continue
        if this.type.ndim != 2 or this.type.dtype != out.dtype:
            continue
        made_again = r.ref(made.inputs[0]) * sum(r.ref(this), axis=axis % 2)
        return made_again if made_again.dtype == out.dtype else None
    return None


def _count(r: Rewriter, v: Value) -> Any:
    """The size that a number stands for, if it is one."""
    made = r.made_by.get(v)
    if made is None or made.op not in (size, dim):
        return None
    if made.op is dim:
        return made.attrs["size"]
    shape, axis = made.inputs[0].type.shape, made.attrs.get("axis")
    return product(shape) if axis is None else shape[axis]


@rewrites(multiply)
def cancel_size(r: Rewriter, node: Node) -> Any:
    """`x.size * (c / x.size)` is `c`: the sum of the slopes of a mean."""
    for this, other in (node.inputs, node.inputs[::-1]):
        made = r.scalar_source(other, divide)
        count = _count(r, this)
        if made is None or count is None or number(made.inputs[0]) is None:
            continue
        if _count(r, made.inputs[1]) == count and count != 0:
            return Const(float(number(made.inputs[0])))
    return None


@rewrites(subtract)
def factor_batch(r: Rewriter, node: Node) -> Any:
    """`a - a * b` is `a * (1.0 - b)` for a batch `a` and a `b` that all rows share."""
    a, v = node.inputs
    made = r.source(v, multiply)
    if made is None or a not in made.inputs or not a.type.shape:
        return None
    b = made.inputs[1] if made.inputs[0] is a else made.inputs[0]
    if not 0 < b.type.ndim < a.type.ndim or b.type.dtype != a.type.dtype:
        return None
    return r.ref(a) * (1.0 - r.ref(b))


@rewrites(multiply)
def multiply_by_reciprocal(r: Rewriter, node: Node) -> Any:
    """`a * (1.0 / b)` is `a / b`, and with -1.0 its negative."""
    for this, other in (node.inputs, node.inputs[::-1]):
        made = r.source(other, divide)
        if made is None or not this.type.shape or not made.inputs[1].type.shape:
            continue
        for one in (1, -1):
            if is_number(made.inputs[0], one):
                quotient = r.ref(this) / r.ref(made.inputs[1])
                return quotient if one > 0 else -quotient
    return None


@rewrites(sum)
def sum_of_transpose(r: Rewriter, node: Node) -> Any:
    """`x.T.sum(axis=0)` is `x.sum(axis=1)`."""
    v, axis = node.inputs[0], node.attrs["axis"]
    made = r.source(v, transpose, alone=False)
    if made is None or v.type.ndim != 2 or axis not in (0, 1):
        return None
    if node.attrs["keepdims"]:
        return None
    return sum(r.ref(made.inputs[0]), **{**node.attrs, "axis": 1 - axis})


@rewrites(sum)
def sum_of_chosen(r: Rewriter, node: Node) -> Any:
    """The sum over each row of zeros with one element written is that element.

    `z = zeros; z[np.arange(n), labels] = c` is what the slope of a classifier's loss
    starts from.
    """
    v, out = node.inputs[0], node.outputs[0].type
    made = r.source(v, setitem, False) or r.source(v, scatter_add, False)
    if made is None or node.attrs["axis"] not in (1, (1,)) or v.type.ndim != 2:
        return None
    base, update, *places = made.inputs
    if made.attrs["index"] != (ARRAY, ARRAY) or any(p.type.ndim > 1 for p in places):
        return None
    rows = r.made_by.get(places[0])
    if rows is None or rows.op is not arange or rows.attrs["start"]:
        return None
    count = v.type.shape[0]
    if rows.outputs[0].type.shape != (count,) or update.type.shape not in (
        (),
        (count,),
    ):
        return None
    if update.type.dtype != out.dtype or not _is_zeros(r, base):
        return None
    if not update.type.shape:
        return broadcast_to(r.ref(update), shape=out.shape)
    return (
        getitem(r.ref(update), index=(FULL, None)) if out.ndim == 2 else r.ref(update)
    )


def _is_zeros(r: Rewriter, v: Value) -> bool:
    made = r.made_by.get(v)
    return made is not None and made.op in (zeros, zeros_like)


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
    if not _is_zeros(r, node.inputs[0]):
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
