"""Algebraic rewrites of views and sums: pairs that undo each other, and what is kept.

Each rule has a numeric property test, with those of `simplify`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.ir.graph import Const, Node, Value
from tracegrad.ops.cast import astype
from tracegrad.ops.create import full, full_like, size, zeros_like
from tracegrad.ops.index import FULL, getitem
from tracegrad.ops.infer import normal_axes
from tracegrad.ops.join import array
from tracegrad.ops.reduce import mean, sum
from tracegrad.ops.scatter import setitem
from tracegrad.ops.shape import broadcast_to, ravel, reshape, transpose
from tracegrad.passes.rewrite import Rewriter, rewrites
from tracegrad.passes.simplify import number

# A vector of at most so many elements, each stored by itself, is written as a list.
_LISTED = 4


@rewrites(setitem, last=True)
def list_stored_elements(r: Rewriter, node: Node) -> Any:
    """Zeros whose elements are all stored, one by one: `array([a, b])`."""
    t = node.outputs[0].type
    if t.ndim != 1 or type(t.shape[0]) is not int or t.shape[0] > _LISTED:
        return None
    parts: dict[int, Value] = {}
    made: Node | None = node
    while made is not None and made.op is setitem:
        base, update, *indices = made.inputs
        index = made.attrs["index"]
        if indices or len(index) != 1 or type(index[0]) is not int:
            return None
        if update.type.shape or update.type.weak or update.type.dtype != t.dtype:
            return None
        parts.setdefault(index[0] % t.shape[0], update)
        if r.counts.get(base, 1) > 1:
            made = r.source(base, zeros_like, alone=False)
        else:
            made = r.made_by.get(base)
        if made is not None and not made.derived:
            return None
    if made is None or made.op is not zeros_like or len(parts) < t.shape[0]:
        return None
    order = range(t.shape[0])
    return array(*[r.ref(parts[i]) for i in order], structure=tuple(order))


@rewrites(transpose)
def undo_transpose(r: Rewriter, node: Node) -> Any:
    """A transpose of a transpose."""
    made = r.made_by.get(node.inputs[0])
    if made is None or made.op is not transpose:
        return None
    inner = made.attrs["axes"]
    axes = tuple([inner[a] for a in node.attrs["axes"]])
    x = r.ref(made.inputs[0])
    return x if axes == tuple(range(len(axes))) else transpose(x, axes=axes)


@rewrites(reshape, ravel)
def undo_reshape(r: Rewriter, node: Node) -> Any:
    """A reshape of a reshape, and one to the same shape."""
    v = node.inputs[0]
    shape = node.outputs[0].type.shape
    if v.type.shape == shape:
        return r.ref(v)
    made = r.made_by.get(v)
    if made is not None and (made.op in (reshape, ravel) or _only_ones(made)):
        inner = made.inputs[0]
        if inner.type.shape == shape:
            return r.ref(inner)
        return reshape(r.ref(inner), shape=shape)
    return None


def _only_ones(node: Node) -> bool:
    """Whether a subscript only adds and drops axes of size 1: `x[:, None]`."""
    if node.op is not getitem or len(node.inputs) > 1:
        return False
    sizes = [s for s in node.inputs[0].type.shape if s != 1]
    if sizes != [s for s in node.outputs[0].type.shape if s != 1]:
        return False
    return all(e in (None, 0, Ellipsis, FULL) for e in node.attrs["index"])


@rewrites(getitem)
def undo_expand(r: Rewriter, node: Node) -> Any:
    """`x[:, None][:, 0]`, and the other way round."""
    made = r.made_by.get(node.inputs[0])
    if made is None or not (_only_ones(node) and _only_ones(made)):
        return None
    inner = made.inputs[0]
    return r.ref(inner) if inner.type.shape == node.outputs[0].type.shape else None


@rewrites(getitem)
def read_of_broadcast(r: Rewriter, node: Node) -> Any:
    """A part of a broadcast scalar is a smaller broadcast."""
    made = r.source(node.inputs[0], broadcast_to)
    if made is None or made.inputs[0].type.shape:
        return None
    return broadcast_to(r.ref(made.inputs[0]), shape=node.outputs[0].type.shape)


@rewrites(sum)
def sum_of_sum(r: Rewriter, node: Node) -> Any:
    """The sum of all sums along an axis is the sum of all elements."""
    made = r.source(node.inputs[0], sum)
    if made is None or node.attrs["axis"] is not None or node.attrs["keepdims"]:
        return None
    return sum(r.ref(made.inputs[0]))


@rewrites(sum)
def sum_of_broadcast(r: Rewriter, node: Node) -> Any:
    """The sum of a broadcast scalar is the scalar times the number of elements."""
    made = r.source(node.inputs[0], broadcast_to, alone=False)
    if made is None or made.inputs[0].type.shape or node.attrs["axis"] is not None:
        return None
    return size(r.ref(node.inputs[0])) * r.ref(made.inputs[0])


@rewrites(getitem)
def drop_kept_axes(r: Rewriter, node: Node) -> Any:
    """`sum(x, axis=1, keepdims=True)[:, 0]` is `sum(x, axis=1)`."""
    made = r.source(node.inputs[0], sum) or r.source(node.inputs[0], mean)
    if made is None or not made.attrs["keepdims"]:
        return None
    rank = made.outputs[0].type.ndim
    axes = normal_axes(made.attrs["axis"], rank)
    index = node.attrs["index"]
    wanted = tuple([0 if i in axes else FULL for i in range(rank)])
    if len(node.inputs) > 1 or (*index, *[FULL] * (rank - len(index))) != wanted:
        return None
    return made.op(r.ref(made.inputs[0]), axis=made.attrs["axis"])


@rewrites(astype)
def cast_to_same(r: Rewriter, node: Node) -> Any:
    """A cast to the dtype that is there, and one of a number."""
    v, to = node.inputs[0], node.outputs[0].type
    c = number(v)
    if c is not None and to.kind == "c":
        return Const(complex(c) if to.dtype == complex else to.dtype.type(c))
    if isinstance(v, Const) and isinstance(v.value, float | np.floating):
        # The seed of a result that was cast: a number has no `astype`.
        if to.kind == "f":
            made = to.dtype.type(v.value)
            return Const(float(made) if to.dtype == np.float64 else made)
    return r.ref(v) if v.type == to else None


@rewrites(broadcast_to, last=True)
def fill_with_scalar(r: Rewriter, node: Node) -> Any:
    """What is still a scalar repeated must be an array: `np.full_like(x, c)`."""
    v, out = node.inputs[0], node.outputs[0]
    if v.type.shape:
        return None
    if out.wrt is not None and r.has(out.wrt) and out.wrt.type == out.type:
        return full_like(r.ref(out.wrt), r.ref(v))
    dtype = None if v.type.dtype == out.type.dtype else out.type.dtype.name
    return full(r.ref(v), shape=out.type.shape, dtype=dtype)
