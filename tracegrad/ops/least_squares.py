"""Pseudo-inverses, least squares, condition numbers and ranks.

The rules are those of G. Golub and V. Pereyra, "The differentiation of pseudo-inverses
and nonlinear least squares problems whose variables separate" (1973).  They hold where
the rank does not change.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ir.dims import at_least
from tracegrad.ir.types import ArrayType
from tracegrad.ops.cast import astype
from tracegrad.ops.create import zeros
from tracegrad.ops.decompositions import svd_call, svdvals
from tracegrad.ops.define import ACCEPT, Batch, accept, op
from tracegrad.ops.index import getitem
from tracegrad.ops.infer import same_size, shape_text
from tracegrad.ops.linalg import (
    adjoint,
    conjugate,
    inexact,
    inv,
    matrix_shape,
    order_of,
    outer_product,
    real_part_of,
)
from tracegrad.ops.norm import matrix_norm
from tracegrad.ops.product import matmul
from tracegrad.ops.record import (
    as_array,
    constant_of,
    is_traced,
    ndim_of,
    shape_of,
    type_of,
)
from tracegrad.ops.reduce import sum as reduce_sum
from tracegrad.ops.sample import arg, call, data
from tracegrad.ops.select import absolute
from tracegrad.ops.shape import swap_last


# ---------------------------------------------------------------------- pseudo-inverses
def _slope_of_pinv(ct, p, x, *, rtol):
    pt = swap_last(p)
    d = matmul(matmul(pt, ct), pt)
    # What the columns and the rows of `x` leave out counts too.
    c = swap_last(ct)
    ph = adjoint(p)
    left = matmul(c - matmul(x, matmul(p, c)), matmul(p, ph))
    right = matmul(matmul(ph, p), c - matmul(matmul(c, p), x))
    return conjugate(left + right) - d


def _infer_pinv(t: ArrayType, *, rtol: float | None) -> ArrayType:
    m, n = matrix_shape(t)
    return ArrayType((*t.shape[:-2], n, m), inexact(t))


_RANK_ONE = data(((1.0, 2.0), (2.0, 4.0), (3.0, 6.0)))


@op(
    infer=_infer_pinv,
    vjp=[_slope_of_pinv],
    spelling="np.linalg.pinv",
    batch=Batch.MATRIX,
    samples=[
        arg("n", 3).with_(),
        arg(2, 3).with_(rtol=1e-10),
        arg(3, 3).shifted(3.0).with_(),
        arg(2, 4, 3).with_(),
        arg(4, 3, dtype="complex128").with_(),
        arg(2, 3, dtype="complex128").with_(),
        _RANK_ONE.with_().rough(),
        arg(1, 1).with_(),
        arg(2, 0).with_(),
    ],
)
def pinv(x, *, rtol=1e-15):
    """Pseudo-inverse; singular values below `rtol` times the largest count as zero.

    For `rtol=None` it is the rounding error of a matrix of this size.
    """
    return xp.linalg.pinv(x, rtol=rtol)


def cutoff(function: str, name: str, value: Any) -> float | None:
    """A tolerance as a static number.

    Raises:
        ArgumentError: if it is traced, or not one number.
    """
    if value is None or value is np._NoValue:
        return None
    known = constant_of(value)
    if known is None or is_traced(value):
        raise ArgumentError(
            f"{function}({name}=...) must be one plain number, not {value!r}",
            op=function,
            fix="pass a Python float",
        )
    return float(known)


@pinv.accept(np.linalg.pinv)
def pinv_call(a, rcond=None, hermitian=False, *, rtol=np._NoValue):
    """`np.linalg.pinv` with all its arguments; `hermitian` only saves time there."""
    limit = cutoff("np.linalg.pinv", "rcond", rcond)
    if limit is None:
        limit = 1e-15 if rtol is np._NoValue else cutoff("np.linalg.pinv", "rtol", rtol)
    return pinv(as_array(a), rtol=limit)


# ------------------------------------------------------------------------ least squares
def _infer_least_squares(a: ArrayType, b: ArrayType, *, rcond: float | None):
    m, n = matrix_shape(a)
    if a.ndim > 2 or b.ndim not in (1, 2) or not same_size(m, b.shape[0]):
        raise ShapeError(
            f"least squares take a matrix and a right-hand side of as many rows, not "
            f"arrays of shapes {shape_text(a.shape)} and {shape_text(b.shape)}",
            fix="call it for one matrix at a time, or use np.linalg.pinv(a) @ b",
        )
    return ArrayType((n, *b.shape[1:]), inexact(a, b))


@op(
    infer=_infer_least_squares,
    spelling="np.linalg.lstsq",
    noun="solution",
    samples=[
        call(arg("n", 3), arg("n")),
        call(arg("n", 3), arg("n", 2)),
        call(arg(2, 3), arg(2)),
        call(arg(3, 3).shifted(3.0), arg(3), rcond=1e-10),
        call(arg(4, 3, dtype="complex128"), arg(4, dtype="complex128")),
        call(arg(4, 3, dtype="complex128"), arg(4, 2)),
        call(_RANK_ONE, arg(3)).rough(),
    ],
)
def least_squares(a, b, *, rcond=None):
    """The shortest `x` that makes `a @ x` closest to `b`."""
    return xp.linalg.lstsq(a, b, rcond=rcond)[0]


@least_squares.vjp
def _(ct, x, a, b, *, rcond):
    p = pinv(a, rtol=rcond)
    y = matmul(swap_last(p), ct)
    misfit = conjugate(b - matmul(a, x))
    unseen = conjugate(ct - matmul(swap_last(a), y))
    of_a = outer_product(misfit, matmul(p, conjugate(y)))
    of_a = of_a + outer_product(matmul(swap_last(p), conjugate(x)), unseen)
    return of_a - outer_product(y, x), y


@accept(np.linalg.lstsq)
def lstsq_call(a, b, rcond=None):
    """`np.linalg.lstsq`: the solution, sums of squares, rank and singular values.

    The sums are there for more rows than columns; NumPy leaves them out, too, where the
    rank is not full.
    """
    a, b = as_array(a), as_array(b)
    rcond = cutoff("np.linalg.lstsq", "rcond", rcond)
    x = least_squares(a, b, rcond=rcond)
    if inexact(type_of(a)) != inexact(type_of(x)):
        a = astype(a, dtype=inexact(type_of(x)))  # in which NumPy computes it all
    m, n = shape_of(a)
    if at_least(n, m) is True:
        sums = zeros(shape=(0,), dtype=real_part_of(inexact(type_of(x))).name)
    else:
        sums = reduce_sum(absolute(b - matmul(a, x)) ** 2, axis=0)
        if not ndim_of(sums):
            sums = getitem(sums, index=(None,))
    rank = astype(matrix_rank(a, rtol=rcond), dtype=np.dtype(np.int32))
    return x, sums, rank, svdvals(a)


# ------------------------------------------------------------------ ranks and condition
def _infer_rank(t: ArrayType, *, tol: float | None, rtol: float | None) -> ArrayType:
    matrix_shape(t)
    return ArrayType(t.shape[:-2], np.dtype(np.int64))


@op(
    infer=_infer_rank,
    vjp=[None],
    spelling="np.linalg.matrix_rank",
    noun="rank",
    batch=Batch.MATRIX,
    samples=[
        arg("n", 3).with_(),
        arg(2, 3, 3).with_(rtol=1e-3),
        _RANK_ONE.with_(tol=1e-9),
    ],
)
def matrix_rank(x, *, tol=None, rtol=None):
    """Number of singular values that are not zero; a step function, without slope."""
    return xp.linalg.matrix_rank(x, tol=tol, rtol=rtol)


@matrix_rank.accept(np.linalg.matrix_rank)
def _(A, tol=None, hermitian=False, *, rtol=None):
    name, x = "np.linalg.matrix_rank", as_array(A)
    if ndim_of(x) < 2:
        return astype(ACCEPT[np.any](x), dtype="int64")
    return matrix_rank(x, tol=cutoff(name, "tol", tol), rtol=cutoff(name, "rtol", rtol))


@accept(np.linalg.cond)
def _(x, p=None):
    x = as_array(x)
    if p is None or p in (2, -2):
        s = svd_call(x, compute_uv=False)
        largest, smallest = (getitem(s, index=_last_axis(s, i)) for i in (0, -1))
        return smallest / largest if p == -2 else largest / smallest
    order_of(type_of(x))
    return matrix_norm(x, ord=p) * matrix_norm(inv(x), ord=p)


def _last_axis(s: Any, i: int) -> tuple:
    return (i,) if ndim_of(s) == 1 else (Ellipsis, i)
