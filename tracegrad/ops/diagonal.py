"""Diagonals and triangles of matrices."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ShapeError
from tracegrad.ir.dims import compare, max_, min_
from tracegrad.ir.index import ARRAY
from tracegrad.ir.types import ArrayType, Dim
from tracegrad.ops.cast import astype
from tracegrad.ops.create import arange
from tracegrad.ops.define import Batch, accept, op
from tracegrad.ops.index import FULL, getitem
from tracegrad.ops.infer import like_first, normal_axis, refuse
from tracegrad.ops.record import (
    Scattered,
    as_array,
    dtype_of,
    ndim_of,
    shape_of,
)
from tracegrad.ops.reduce import keep_axes
from tracegrad.ops.sample import arg
from tracegrad.ops.shape import broadcast_to, moveaxis, ravel


def _length(rows, columns, offset):
    """How many elements the diagonal `offset` has."""
    if offset >= 0:
        columns = columns - offset
    else:
        rows = rows + offset
    if compare(rows, columns) is True:
        return max_(0, rows)
    return max_(0, min_(rows, columns))


def _infer_diagonal(t: ArrayType, *, offset, axis1, axis2):
    rest = [s for i, s in enumerate(t.shape) if i not in (axis1, axis2)]
    return t.with_shape((*rest, _length(t.shape[axis1], t.shape[axis2], offset)))


_DIAGONALS = [
    arg(3, 3).with_(),
    arg("n", "n").with_(),
    arg(3, 4).with_(offset=1),
    arg(4, 2).with_(offset=-1),
    arg(2, 3, 4).with_(axis1=1, axis2=2),
    arg(2, 3, 4).with_(offset=1, axis1=2, axis2=0),
]


@op(infer=_infer_diagonal, aliases="view", linear=True, samples=_DIAGONALS)
def diagonal(x, *, offset=0, axis1=0, axis2=1):
    """The elements `x[i, i + offset]`, as a new last axis."""
    if (offset, axis1, axis2) == (0, 0, 1):
        return x.diagonal()
    if (axis1, axis2) == (0, 1):
        return x.diagonal(offset)
    return x.diagonal(offset, axis1, axis2)


@diagonal.batch
def _(b, x, *, offset, axis1, axis2):
    return diagonal(x, offset=offset, axis1=axis1 + 1, axis2=axis2 + 1)


@diagonal.vjp
def _(ct, y, x, *, offset, axis1, axis2):
    steps = _steps(y)
    rows = steps - offset if offset < 0 else steps
    columns = steps + offset if offset > 0 else steps
    index: list[Any] = [FULL] * (max(axis1, axis2) + 1)
    index[axis1] = index[axis2] = ARRAY
    first = min(axis1, axis2)
    arrays = (rows, columns) if axis1 < axis2 else (columns, rows)
    # Index arrays with a slice between them put their axis in front.
    to = first if abs(axis1 - axis2) == 1 else 0
    return Scattered(moveaxis(ct, -1, to), arrays, tuple(index), True)


def _steps(y):
    """0, 1, 2, … along the last axis of `y`."""
    size = shape_of(y)[-1]
    if not isinstance(size, Dim):
        return np.arange(size)
    return y.builder.record(arange, (), {"stop": size})


@diagonal.accept(np.diagonal, methods=["diagonal"])
def diagonal_call(a, offset=0, axis1=0, axis2=1):
    """`np.diagonal` with all its arguments."""
    a = as_array(a)
    axes = _two_axes(a, axis1, axis2, "np.diagonal")
    return diagonal(a, offset=operator.index(offset), axis1=axes[0], axis2=axes[1])


@accept(np.linalg.diagonal)
def _(x, /, *, offset=0):
    return diagonal_call(x, offset, -2, -1)


def _two_axes(a, axis1, axis2, function):
    n = ndim_of(a)
    if n < 2:
        raise ShapeError(
            f"{function} needs an array with two axes or more, this one has {n}",
            op=function,
            fix="use np.diag to make a matrix from a vector",
        )
    axes = normal_axis(axis1, n), normal_axis(axis2, n)
    if axes[0] == axes[1]:
        raise ShapeError(f"axis1 and axis2 are both {axis1}", op=function)
    return axes


# ------------------------------------------------------------------------------- trace
def _infer_eye_like(t: ArrayType, *, offset, dtype):
    return t.with_dtype(dtype)


@op(
    infer=_infer_eye_like,
    vjp=[None],
    type_only=(0,),
    samples=[
        arg(3, 2).with_(),
        arg("n", 3).with_(offset=1),
        arg(2, 2).with_(offset=-1, dtype="float32"),
    ],
)
def eye_like(x, *, offset=0, dtype="float64"):
    """Ones on a diagonal, in the shape of the matrix `x`; only the type is read."""
    if offset:
        return xp.eye(*x.shape, offset, dtype=dtype)  # type: ignore[call-overload]
    return xp.eye(*x.shape, dtype=dtype)


def _infer_trace(t: ArrayType, *, offset, axis1, axis2):
    rest = [s for i, s in enumerate(t.shape) if i not in (axis1, axis2)]
    dtype = t.dtype
    if dtype.kind in "biu" and dtype.itemsize < 8:
        dtype = np.dtype(np.uint64 if dtype.kind == "u" else np.int64)
    return ArrayType(tuple(rest), dtype)


@op(infer=_infer_trace, linear=True, samples=[*_DIAGONALS, arg(4, 2).with_()])
def trace(x, *, offset=0, axis1=0, axis2=1):
    """Sum along a diagonal."""
    if (offset, axis1, axis2) == (0, 0, 1):
        return x.trace()
    if (axis1, axis2) == (0, 1):
        return x.trace(offset)
    return x.trace(offset, axis1, axis2)


@trace.batch
def _(b, x, *, offset, axis1, axis2):
    return trace(x, offset=offset, axis1=axis1 + 1, axis2=axis2 + 1)


@trace.vjp
def _(ct, y, x, *, offset, axis1, axis2):
    if axis1 > axis2:
        axis1, axis2, offset = axis2, axis1, -offset
    rest = ndim_of(x) - 2
    matrix = x
    if rest:
        other = [0 if i not in (axis1, axis2) else FULL for i in range(rest + 2)]
        matrix = getitem(x, index=tuple(other))
    ones = eye_like(matrix, offset=offset, dtype=dtype_of(x).name)
    if not rest:
        return ct * ones
    between = [FULL if i in (axis1, axis2) else None for i in range(axis1, axis2 + 1)]
    after = [None] * (rest + 1 - axis2)
    ones = getitem(ones, index=(*between, *after))
    return keep_axes(ct, x, (axis1, axis2), False) * ones


@trace.accept(np.trace, methods=["trace"])
def trace_call(a, offset=0, axis1=0, axis2=1, dtype=None, out=None):
    """`np.trace` with all its arguments."""
    refuse("np.trace", out=out)
    a = as_array(a)
    if dtype is not None:
        a = astype(a, dtype=np.dtype(dtype).name)
    axes = _two_axes(a, axis1, axis2, "np.trace")
    return trace(a, offset=operator.index(offset), axis1=axes[0], axis2=axes[1])


@accept(np.linalg.trace)
def _(x, /, *, offset=0, dtype=None):
    return trace_call(x, offset, -2, -1, dtype)


# ------------------------------------------------------------- from vectors to matrices
@op(
    infer=lambda t, *, k: t.with_shape((t.shape[0] + abs(k),) * 2),
    vjp=[lambda ct, y, x, *, k: diagonal(ct, offset=k)],
    linear=True,
    samples=[arg("n").with_(), arg(3).with_(k=1), arg(3).with_(k=-2)],
)
def diag(x, *, k=0):
    """The matrix with the vector `x` on its diagonal `k`."""
    return xp.diag(x, k=k)


@diag.batch
def _(b, x, *, k):
    if b.rank(0) == 2:
        return diagonal(x, offset=k, axis1=1, axis2=2)
    return NotImplemented


@diag.accept(np.diag)
def diag_call(v, k=0):
    """`np.diag`: a matrix of a vector, or the diagonal of a matrix."""
    v, k = as_array(v), operator.index(k)
    if ndim_of(v) == 1:
        return diag(v, k=k)
    if ndim_of(v) != 2:
        raise ShapeError(
            f"np.diag takes a vector or a matrix, this array has {ndim_of(v)} axes",
            op="np.diag",
            fix="use np.diagonal(x, axis1=-2, axis2=-1)",
        )
    return diagonal_call(v, k)


@accept(np.diagflat)
def _(v, k=0):
    return diag_call(ravel(as_array(v)), k)


# --------------------------------------------------------------------------- triangles
_TRIANGLES = [
    arg(3, 3).with_(),
    arg("n", 3).with_(k=1),
    arg(2, 3, 4).with_(k=-1),
]


@op(
    infer=like_first,
    vjp=[lambda ct, y, x, *, k: tril(ct, k=k)],
    linear=True,
    batch=Batch.MATRIX,
    samples=_TRIANGLES,
)
def tril(x, *, k=0):
    """`x` with zeros above the diagonal `k` of its last two axes."""
    return xp.tril(x, k=k)


@op(
    infer=like_first,
    vjp=[lambda ct, y, x, *, k: triu(ct, k=k)],
    linear=True,
    batch=Batch.MATRIX,
    samples=_TRIANGLES,
)
def triu(x, *, k=0):
    """`x` with zeros below the diagonal `k` of its last two axes."""
    return xp.triu(x, k=k)


def _matrix(m):
    """`m`, a vector repeated as the rows of a square matrix, as NumPy does."""
    m = as_array(m)
    return broadcast_to(m, shape=shape_of(m) * 2) if ndim_of(m) == 1 else m


@tril.accept(np.tril)
def _(m, k=0):
    return tril(_matrix(m), k=operator.index(k))


@triu.accept(np.triu)
def _(m, k=0):
    return triu(_matrix(m), k=operator.index(k))


def _last_two(arr, function):
    shape = shape_of(as_array(arr))
    if len(shape) != 2:
        raise ShapeError(f"{function} takes a matrix, this has {len(shape)} axes")
    if any(isinstance(s, Dim) for s in shape):
        raise ShapeError(
            f"{function} needs fixed sizes, not {shape}",
            fix="trace with numbers for the sizes",
        )
    return shape


@accept(np.tril_indices_from, constant=True)
def _(arr, k=0):
    rows, columns = _last_two(arr, "np.tril_indices_from")
    return np.tril_indices(rows, k, columns)


@accept(np.triu_indices_from, constant=True)
def _(arr, k=0):
    rows, columns = _last_two(arr, "np.triu_indices_from")
    return np.triu_indices(rows, k, columns)


@accept(np.diag_indices_from, constant=True)
def _(arr):
    shape = shape_of(as_array(arr))
    return np.diag_indices(int(shape[0]), len(shape))
