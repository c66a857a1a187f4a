"""Matrix and tensor products."""

from __future__ import annotations

import numpy as np

from tracegrad.errors import ShapeError
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import op
from tracegrad.ops.index import expand_dims
from tracegrad.ops.infer import (
    broadcast_shapes,
    result_dtype,
    same_size,
    shape_text,
)
from tracegrad.ops.record import ndim_of
from tracegrad.ops.sample import arg, call
from tracegrad.ops.shape import transpose


def _infer_matmul(a: ArrayType, b: ArrayType) -> ArrayType:
    if not a.ndim or not b.ndim:
        raise ShapeError("matmul does not take 0-d arrays", fix="use * for scalars")
    inner = b.shape[-2] if b.ndim > 1 else b.shape[-1]
    if not same_size(a.shape[-1], inner):
        raise ShapeError(
            f"shapes {shape_text(a.shape)} and {shape_text(b.shape)} do not fit for @: "
            f"{a.shape[-1]} is not {inner}",
            fix="transpose or reshape one operand",
        )
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    rows = (a.shape[-2],) if a.ndim > 1 else ()
    columns = (b.shape[-1],) if b.ndim > 1 else ()
    return ArrayType((*batch, *rows, *columns), result_dtype(a, b))


def swap(x):
    """`x` with its last two axes exchanged."""
    n = ndim_of(x)
    return transpose(x, axes=(*range(n - 2), n - 1, n - 2))


def _left(ct, z, a, b):
    if ndim_of(a) == 1 and ndim_of(b) == 1:
        return ct * b
    if ndim_of(b) == 1:
        return expand_dims(ct, axis=(ndim_of(ct),)) * b
    if ndim_of(a) == 1:
        return matmul(ct, swap(b)) if ndim_of(b) == 2 else None
    return matmul(ct, swap(b))


def _right(ct, z, a, b):
    if ndim_of(a) == 1 and ndim_of(b) == 1:
        return ct * a
    if ndim_of(a) == 1:
        return expand_dims(a, axis=(1,)) * ct
    if ndim_of(b) == 1:
        return matmul(swap(a), ct)
    return matmul(swap(a), ct)


@op(
    infer=_infer_matmul,
    vjp=[_left, _right],
    operator="__matmul__",
    accepts=[np.matmul],
    samples=[call(arg("n", 3), arg(3, 2)), call(arg(3), arg(3))],
)
def matmul(a, b):
    """Matrix product, stacked over leading axes."""
    return a @ b
