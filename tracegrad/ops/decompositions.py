"""Cholesky, QR and singular value decompositions.

Rules: I. Murray, "Differentiation of the Cholesky decomposition" (2016); J. Townsend,
"Differentiating the singular value decomposition" (2016); D. and L. Roberts, "QR and LQ
decomposition matrix backpropagation algorithms for square, wide, and deep matrices"
(2020).  Functions of orthogonal factors must not depend on what the decomposition
leaves open: signs, phases, and the basis of the columns that only complete a basis.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError
from tracegrad.ir.dims import compare, min_
from tracegrad.ir.index import Slice
from tracegrad.ir.types import ArrayType, Size
from tracegrad.ops.define import ACCEPT, Batch, accept, op
from tracegrad.ops.diagonal import diagonal, tril, triu
from tracegrad.ops.eigen import eigh, eigvalsh_call, inverse_gaps
from tracegrad.ops.index import FULL, getitem
from tracegrad.ops.infer import decide
from tracegrad.ops.join import concatenate
from tracegrad.ops.linalg import (
    adjoint,
    conjugate,
    inexact,
    inv,
    matrix_shape,
    order_of,
    per_column,
    real_part_of,
    solve,
)
from tracegrad.ops.product import column, matmul
from tracegrad.ops.record import as_array, dtype_of, ndim_of, shape_of
from tracegrad.ops.sample import arg
from tracegrad.ops.select import absolute, imag, real, sign, where
from tracegrad.ops.shape import swap_last


def columns(x: Any, start: Any = None, stop: Any = None) -> Any:
    """The columns `start` to `stop` of each matrix."""
    whole = (FULL,) if ndim_of(x) == 2 else (Ellipsis,)
    return getitem(x, index=(*whole, Slice(start, stop)))


def rows(x: Any, start: Any = None, stop: Any = None) -> Any:
    """The rows `start` to `stop` of each matrix."""
    front = () if ndim_of(x) == 2 else (Ellipsis,)
    back = () if ndim_of(x) == 2 else (FULL,)
    return getitem(x, index=(*front, Slice(start, stop), *back))


def at_least(a: Size, b: Size) -> bool:
    """Whether one size is at least the other, asking where it is open."""
    known = compare(b, a)
    if known is True:
        return True
    return decide(">=", a, b) if type(a) is not int or type(b) is not int else a >= b


# ----------------------------------------------------------------------------- Cholesky
def hermitian_of_lower(m: Any) -> Any:
    """The lower triangle, mirrored; the diagonal is made real."""
    if dtype_of(m).kind != "c":
        return tril(m) + swap_last(tril(m, k=-1))
    below = tril(m, k=-1)
    return below + adjoint(below) + tril(triu(real(m)))


def hermitian_of_upper(m: Any) -> Any:
    """The upper triangle, mirrored; the diagonal is made real."""
    if dtype_of(m).kind != "c":
        return triu(m) + swap_last(triu(m, k=1))
    above = triu(m, k=1)
    return above + adjoint(above) + tril(triu(real(m)))


def _slope_of_cholesky(ct, y, x, *, upper):
    i = inv(y)
    if upper:
        inner = hermitian_of_upper(matmul(ct, swap_last(y)))
        return 0.5 * matmul(matmul(conjugate(i), inner), swap_last(i))
    inner = hermitian_of_lower(matmul(swap_last(y), ct))
    return 0.5 * matmul(matmul(swap_last(i), inner), conjugate(i))


def _infer_cholesky(t: ArrayType, *, upper: bool) -> ArrayType:
    order_of(t)
    return ArrayType(t.shape, inexact(t))


@op(
    infer=_infer_cholesky,
    vjp=[_slope_of_cholesky],
    spelling="np.linalg.cholesky",
    noun="factor",
    batch=Batch.MATRIX,
    samples=[
        arg("n", "n").symmetric(6.0).with_(),
        arg("n", "n").symmetric(6.0).with_(upper=True),
        arg(2, 3, 3).symmetric(6.0).with_(),
        arg(3, 3, dtype="complex128").symmetric(6.0).with_(),
        arg(3, 3, dtype="complex128").symmetric(6.0).with_(upper=True),
        arg(1, 1, lo=1.0).with_(),
        arg(0, 0).with_(),
    ],
)
def cholesky(x, *, upper=False):
    """The triangular `l` for which `l @ l.T` is `x`, or `u.T @ u` if `upper`.

    The derivative is that among symmetric matrices: the gradient is symmetric.
    """
    return xp.linalg.cholesky(x, upper=upper)


@cholesky.accept(np.linalg.cholesky)
def cholesky_call(a, /, *, upper=False):
    """`np.linalg.cholesky` with all its arguments."""
    return cholesky(as_array(a), upper=bool(upper))


# ----------------------------------------------------------------------------------- QR
def _infer_qr(t: ArrayType, *, mode: str) -> tuple[ArrayType, ArrayType]:
    m, n = matrix_shape(t)
    k = m if mode == "complete" else smaller(m, n)
    batch, dtype = t.shape[:-2], inexact(t)
    return ArrayType((*batch, m, k), dtype), ArrayType((*batch, k, n), dtype)


def smaller(m: Size, n: Size) -> Size:
    """The smaller of two sizes."""
    if compare(m, n) is True:
        return m
    return n if compare(n, m) is True else min_(m, n)


_TALL, _WIDE = arg(4, 3), arg(2, 3)
_MATRICES = (
    arg("n", 3).with_(),
    _WIDE.with_(),
    arg(3, 3).shifted(3.0).with_(),
    arg(2, 4, 3).with_(),
    arg(2, 2, 3).with_(),
    arg(1, 1).with_(),
    arg(0, 0).with_(),
)


@op(
    infer=_infer_qr,
    spelling="np.linalg.qr",
    noun="q r",
    batch=Batch.MATRIX,
    samples=[
        *_MATRICES,
        _WIDE.with_(mode="complete"),
        _TALL.with_(mode="complete").rough(),
        arg(3, 3, dtype="complex128").shifted(3.0).with_(),
        arg(4, 3, dtype="complex128").with_(),
    ],
)
def qr(x, *, mode="reduced"):
    """Orthonormal columns `q` and upper triangular `r` for which `q @ r` is `x`."""
    return xp.linalg.qr(x, mode=mode)


@qr.vjp
def _(ct, out, x, *, mode):
    (of_q, of_r), (q, r) = ct, out
    return qr_pullback(of_q, of_r, q, r, x, mode)


def qr_pullback(of_q, of_r, q, r, x, mode):
    """The pullback of `qr`, of which either cotangent may be None."""
    m, n = shape_of(x)[-2:]
    if at_least(m, n):
        if mode == "complete" and m is not n and m != n:
            # The other columns are free to turn: what they do shows in the first ones.
            rest, q = columns(q, n), columns(q, None, n)
            if of_q is not None:
                turned = matmul(adjoint(columns(of_q, n)), conjugate(q))
                of_q = columns(of_q, None, n) - matmul(conjugate(rest), turned)
            r = rows(r, None, n)
            of_r = None if of_r is None else rows(of_r, None, n)
        return _qr_pullback(of_q, of_r, q, r)
    # The last columns are `q` times those of `r`.
    rest, of_rest = columns(x, m), None
    if of_r is not None:
        of_rest = columns(of_r, m)
        added = matmul(conjugate(rest), adjoint(of_rest))
        of_q = added if of_q is None else of_q + added
        of_r = columns(of_r, None, m)
    first = _qr_pullback(of_q, of_r, q, columns(r, None, m))
    last = columns(x, m) * 0.0 if of_rest is None else matmul(conjugate(q), of_rest)
    return concatenate(first, last, axis=ndim_of(x) - 1)


def _qr_pullback(of_q, of_r, q, r):
    """The pullback for at least as many rows as columns."""
    inner = None if of_r is None else matmul(of_r, swap_last(r))
    if of_q is not None:
        turn = matmul(swap_last(q), of_q)
        inner = -turn if inner is None else inner - turn
    whole = matmul(conjugate(q), hermitian_of_upper(inner))
    if of_q is not None:
        whole = of_q + whole
    return swap_last(solve(r, swap_last(whole)))


def _slope_of_qr_r(ct, y, x):
    q, r = qr(x)
    return qr_pullback(None, ct, q, r, x, "reduced")


@op(
    infer=lambda t: _infer_qr(t, mode="reduced")[1],
    vjp=[_slope_of_qr_r],
    spelling="np.linalg.qr",
    noun="r",
    batch=Batch.MATRIX,
    samples=[*_MATRICES, arg(4, 3, dtype="complex128").with_()],
)
def qr_r(x):
    """The triangular factor of `qr`."""
    return xp.linalg.qr(x, mode="r")


qr_r.part_of(qr, 1, mode="reduced")


_QRResult: Any = type(np.linalg.qr(np.eye(1)))


@qr.accept(np.linalg.qr)
def qr_call(a, mode="reduced"):
    """`np.linalg.qr` with all its arguments."""
    a = as_array(a)
    if mode == "r":
        return qr_r(a)
    if mode not in ("reduced", "complete"):
        raise ArgumentError(
            f"np.linalg.qr(mode={mode!r}) is not supported",
            op="np.linalg.qr",
            fix='use mode="reduced", "complete" or "r"',
        )
    return _QRResult(*qr(a, mode=mode))


# ---------------------------------------------------------------------- singular values
def _infer_svdvals(t: ArrayType) -> ArrayType:
    m, n = matrix_shape(t)
    return ArrayType((*t.shape[:-2], smaller(m, n)), real_part_of(inexact(t)))


def _infer_svd(t: ArrayType, *, full_matrices: bool) -> tuple[ArrayType, ...]:
    m, n = matrix_shape(t)
    s, dtype = _infer_svdvals(t), inexact(t)
    left = m if full_matrices else s.shape[-1]
    right = n if full_matrices else s.shape[-1]
    u = ArrayType((*t.shape[:-1], left), dtype)
    return u, s, ArrayType((*t.shape[:-2], right, n), dtype)


@op(
    infer=_infer_svd,
    spelling="np.linalg.svd",
    noun="u s vh",
    batch=Batch.MATRIX,
    samples=[
        *[s.arrays[0].with_(full_matrices=False) for s in _MATRICES],
        arg(3, 3).shifted(1.0).with_(),
        _TALL.with_().rough(),
        _WIDE.with_().rough(),
        arg(4, 3, dtype="complex128").with_(full_matrices=False).rough(),
    ],
)
def svd(x, *, full_matrices=True):
    """`u`, descending `s` and `vh` for which `(u * s) @ vh` is `x`."""
    return xp.linalg.svd(x, full_matrices=full_matrices)


@svd.vjp
def _(ct, out, x, *, full_matrices):
    of_u, of_s, of_vh = ct
    u, s, vh = out
    if full_matrices:
        k = shape_of(s)[-1]
        (u, of_u), (vh, of_vh) = _first_left(u, of_u, k), _first_right(vh, of_vh, k)
    return _svd_pullback(of_u, of_s, of_vh, u, s, vh, shape_of(x)[-2:])


def _first_left(u, of_u, k):
    """The first `k` columns, with the cotangent of the others carried to them.

    The others are free to turn among themselves, so that only their common span counts.
    """
    if shape_of(u)[-1] == k:
        return u, of_u
    first, rest = columns(u, None, k), columns(u, k)
    if of_u is not None:
        turned = matmul(adjoint(columns(of_u, k)), conjugate(first))
        of_u = columns(of_u, None, k) - matmul(conjugate(rest), turned)
    return first, of_u


def _first_right(vh, of_vh, k):
    """As `_first_left`, for the rows of `vh`."""
    if shape_of(vh)[-2] == k:
        return vh, of_vh
    first, rest = rows(vh, None, k), rows(vh, k)
    if of_vh is not None:
        turned = matmul(conjugate(first), adjoint(rows(of_vh, k)))
        of_vh = rows(of_vh, None, k) - matmul(turned, conjugate(rest))
    return first, of_vh


def _svd_pullback(of_u, of_s, of_vh, u, s, vh, shape):
    m, n = shape
    k = shape_of(s)[-1]
    ut, v = swap_last(u), conjugate(vh)
    if of_u is None and of_vh is None:
        return matmul(conjugate(u) * per_column(of_s), v)
    gaps = inverse_gaps(s, squares=True)
    # A singular value of 0 has no slope; its vectors then have none either.
    size = where(s > 0.0, s, 1.0)
    inner, left, right = None, None, None
    if of_u is not None:
        turn = matmul(ut, of_u)
        inner = gaps * (turn - adjoint(turn)) * per_column(s)
        if dtype_of(u).kind == "c":
            axes = {"axis1": ndim_of(u) - 2, "axis2": ndim_of(u) - 1}
            phase = 1j * (imag(diagonal(turn, **axes)) / size)
            of_s = phase if of_s is None else of_s + phase
        if m != k:
            left = (of_u - matmul(conjugate(u), turn)) / per_column(size)
    if of_vh is not None:
        turn = matmul(v, adjoint(of_vh))
        part = column(s) * (gaps * (turn - adjoint(turn)))
        inner = part if inner is None else inner + part
        if n != k:
            rest = of_vh - matmul(matmul(of_vh, swap_last(vh)), v)
            right = matmul(conjugate(u), rest / column(size))
    whole = matmul(conjugate(u), inner)
    if of_s is not None:
        whole = conjugate(u) * per_column(of_s) + whole
    if left is not None:
        whole = whole + left
    whole = matmul(whole, v)
    return whole if right is None else whole + right


def _slope_of_svdvals(ct, s, x):
    u, _, vh = svd(x, full_matrices=False)
    return matmul(conjugate(u) * per_column(ct), conjugate(vh))


@op(
    infer=_infer_svdvals,
    vjp=[_slope_of_svdvals],
    spelling="np.linalg.svdvals",
    noun="s",
    batch=Batch.MATRIX,
    samples=[*_MATRICES, arg(4, 3, dtype="complex128").with_()],
)
def svdvals(x):
    """Singular values, descending."""
    return xp.linalg.svd(x, compute_uv=False)


svdvals.part_of(svd, 1, full_matrices=False)


_SVDResult: Any = type(np.linalg.svd(np.eye(1)))


@svd.accept(np.linalg.svd)
def svd_call(a, full_matrices=True, compute_uv=True, hermitian=False):
    """`np.linalg.svd` with all its arguments."""
    a = as_array(a)
    if hermitian:
        return _SVDResult(*_svd_of_hermitian(a)) if compute_uv else _sizes(a)
    if not compute_uv:
        return svdvals(a)
    return _SVDResult(*svd(a, full_matrices=bool(full_matrices)))


def _sizes(a):
    """The singular values of a symmetric matrix."""
    s = ACCEPT[np.sort](absolute(eigvalsh_call(a)), axis=-1)
    return ACCEPT[np.flip](s, axis=ndim_of(s) - 1)


def _svd_of_hermitian(a):
    w, v = eigh(a)
    order = ACCEPT[np.flip](ACCEPT[np.argsort](absolute(w)), axis=ndim_of(w) - 1)
    w = ACCEPT[np.take_along_axis](w, order, axis=-1)
    v = ACCEPT[np.take_along_axis](
        v,
        per_column(order) if ndim_of(order) > 1 else (getitem(order, index=(None,))),
        axis=-1,
    )
    return v, absolute(w), swap_last(conjugate(v * per_column(sign(w))))


@accept(np.linalg.svdvals)
def _(x, /):
    return svdvals(as_array(x))
