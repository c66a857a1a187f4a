"""Products with the constant sparse matrices of `scipy.sparse`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import Op, op
from tracegrad.ops.infer import result_dtype, same_size, shape_text
from tracegrad.ops.library import Library
from tracegrad.ops.record import Ref, as_array, ndim_of, no_slope
from tracegrad.ops.sample import arg, call, data
from tracegrad.ops.shape import swap_last

sparse = Library("scipy.sparse")


def _infer(rows: int, columns: int, values: ArrayType, x: ArrayType) -> ArrayType:
    if x.ndim not in (1, 2):
        raise ShapeError(
            f"a sparse matrix times an array of shape {shape_text(x.shape)}",
            fix="give a vector or a matrix",
        )
    if not same_size(x.shape[0], columns):
        raise ShapeError(
            f"a sparse matrix of shape {shape_text((rows, columns))} and an array of "
            f"shape {shape_text(x.shape)} do not fit for @",
            fix="make the first axis as long as the matrix has columns",
        )
    return ArrayType((rows, *x.shape[1:]), result_dtype(values, x))


# [[1, 0, 2], [0, 3, 0]]
_ROWS = (
    data((1, 2, 3), dtype="int64"),
    data((0, 2, 1), dtype="int32"),
    data((0, 2, 3), dtype="int32"),
)
_VALUES_ARE_CONSTANT = no_slope("scipy.sparse", "the values of a sparse matrix")


@op(
    infer=lambda v, i, p, x, *, shape: _infer(shape[0], shape[1], v, x),
    vjp=[
        _VALUES_ARE_CONSTANT,
        None,
        None,
        lambda ct, y, v, i, p, x, *, shape: sparse_rmatmul(v, i, p, ct, shape=shape),
    ],
    linear=("x",),
    noun="product",
    spelling="scipy.sparse @",
    samples=[call(*_ROWS, arg(3), shape=(2, 3)), call(*_ROWS, arg(3, 2), shape=(2, 3))],
)
def sparse_matmul(values, indices, indptr, x, *, shape):
    """Product of a sparse matrix, in compressed rows, with a vector or a matrix."""
    return sparse.csr_array((values, indices, indptr), shape=shape) @ x


@sparse_matmul.body("jax")
def _(values, indices, indptr, x, *, shape):
    rows = xp.searchsorted(indptr, xp.arange(len(values)), side="right") - 1
    terms = (values * x[indices].T).T
    zeros = xp.zeros((shape[0], *x.shape[1:]), terms.dtype)
    return zeros.at[rows].add(terms)  # type: ignore[attr-defined]


@op(
    infer=lambda v, i, p, x, *, shape: _infer(shape[1], shape[0], v, x),
    vjp=[
        _VALUES_ARE_CONSTANT,
        None,
        None,
        lambda ct, y, v, i, p, x, *, shape: sparse_matmul(v, i, p, ct, shape=shape),
    ],
    linear=("x",),
    noun="product",
    spelling="scipy.sparse @",
    samples=[call(*_ROWS, arg(2), shape=(2, 3)), call(*_ROWS, arg(2, 2), shape=(2, 3))],
)
def sparse_rmatmul(values, indices, indptr, x, *, shape):
    """Product of the transpose of a sparse matrix with a vector or a matrix."""
    return sparse.csr_array((values, indices, indptr), shape=shape).T @ x


@sparse_rmatmul.body("jax")
def _(values, indices, indptr, x, *, shape):
    rows = xp.searchsorted(indptr, xp.arange(len(values)), side="right") - 1
    terms = (values * x[rows].T).T
    zeros = xp.zeros((shape[1], *x.shape[1:]), terms.dtype)
    return zeros.at[indices].add(terms)  # type: ignore[attr-defined]


def is_sparse(x: Any) -> bool:
    """Whether `x` is an array or a matrix of `scipy.sparse`."""
    module = getattr(type(x), "__module__", None)
    return type(module) is str and module.startswith("scipy.sparse")


def is_sparse_matrix(x: Any) -> bool:
    """Whether `*` is the matrix product for `x`, as for the older classes of SciPy."""
    return is_sparse(x) and any(c.__name__ == "spmatrix" for c in type(x).__mro__)


def product_with_sparse(a: Any, b: Any) -> Any:
    """`a @ b`, where one of them is sparse and the other one is dense."""
    which, matrix, x = (sparse_matmul, a, b) if is_sparse(a) else (sparse_rmatmul, b, a)
    if matrix.ndim != 2:
        raise ArgumentError(
            "a sparse array of one axis is not supported",
            fix="use a sparse matrix of one row",
        )
    x = as_array(x)
    if which is sparse_rmatmul and ndim_of(x) == 2:
        return swap_last(_apply(which, matrix, swap_last(x)))
    return _apply(which, matrix, x)


def _apply(which: Op, matrix: Any, x: Any) -> Any:
    rows = matrix.tocsr()
    parts = {"values": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    lifted = []
    for name, part in parts.items():
        if isinstance(x, Ref):
            value = x.builder.lift(np.asarray(part))
            value.hint = value.hint or name
            part = x.builder.wrap(value)
        lifted.append(part)
    return which(*lifted, x, shape=tuple(map(int, matrix.shape)))


def _columns(matrix, x):
    """The links of a product with each column of `x`."""
    shape = x if isinstance(x, tuple) else x.shape
    if len(shape) == 1:
        return matrix != 0
    return sparse.kron(matrix != 0, sparse.eye_array(shape[1], dtype=bool))


@sparse_matmul.links
def _(k, values, indices, indptr, x, *, shape):
    return _columns(sparse.csr_array((values, indices, indptr), shape=shape), x)


@sparse_rmatmul.links
def _(k, values, indices, indptr, x, *, shape):
    return _columns(sparse.csr_array((values, indices, indptr), shape=shape).T, x)
