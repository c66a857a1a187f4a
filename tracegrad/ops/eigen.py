"""Eigenvalues and eigenvectors.

Derivatives as in M. B. Giles, "Collected matrix derivative results for forward and
reverse mode algorithmic differentiation" (2008), sections 3.1 and 3.2.

A derivative through eigenvectors exists only for functions that do not depend on how
the vectors are scaled (their sign or phase).  Symmetric matrices are differentiated
among symmetric ones, so that their gradients are symmetric: LAPACK reads one triangle,
but means both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import Batch, accept, op
from tracegrad.ops.diagonal import diagonal
from tracegrad.ops.infer import like_first
from tracegrad.ops.linalg import (
    adjoint,
    conjugate,
    inexact,
    order_of,
    per_column,
    real_part_of,
    solve,
)
from tracegrad.ops.product import column, matmul
from tracegrad.ops.record import as_array, dtype_of, ndim_of
from tracegrad.ops.reduce import sum as reduce_sum
from tracegrad.ops.sample import arg, data
from tracegrad.ops.select import real
from tracegrad.ops.shape import swap_last


# ------------------------------------------------------------------------- equal values
@op(
    infer=like_first,
    vjp=[lambda ct, y, w, *, falling: ct],
    batch=Batch.MATRIX,
    samples=[
        data((1.0, 2.0, 4.0)).with_(),
        data(((4.0, 2.0, -1.0), (3.0, 1.0, 0.0))).with_(falling=True),
        data((0.0, 1.0, 1.0)).with_().rough(),
        data((1.0, 1.0), dtype="float32").with_(falling=True).rough(),
    ],
)
def apart(w, *, falling=False):
    """Sorted `w`; numbers that are equal but for rounding are moved apart by 3e-8.

    Functions of eigenvalues and -vectors that have a derivative at equal eigenvalues
    show it there to eight digits; at equal ones it is lost.
    """
    i = xp.arange(w.shape[-1])
    step = xp.finfo(w.dtype).eps ** 0.5
    close = abs(w[..., None] - w[..., None, :]) < step * abs(w[..., None])
    order = i - i[:, None] if falling else i[:, None] - i
    return w + step * abs(w) * (close * xp.sign(order)).sum(-1, dtype=w.dtype)


def _slope_of_inverse_gaps(ct, y, w, *, squares):
    g = ct * y**2
    of_w = reduce_sum(g - swap_last(g), axis=ndim_of(w))
    return 2.0 * w * of_w if squares else of_w


@op(
    infer=lambda t, *, squares: t.with_shape((*t.shape, t.shape[-1])),
    vjp=[_slope_of_inverse_gaps],
    noun="gaps",
    batch=Batch.MATRIX,
    samples=[
        arg("n").with_(),
        arg(2, 3).with_(),
        arg(3, lo=0.5).with_(squares=True),
        arg(3, dtype="complex128").with_(),
        data((1.0, 1.0, 2.0)).with_().rough(),
        arg(0).with_(),
    ],
)
def inverse_gaps(w, *, squares=False):
    """1 / (w[j] - w[i]), or of the squares; 0 where they are equal but for rounding."""
    gaps = w[..., None, :] - w[..., None]
    largest = abs(w).max(-1, initial=0.0)[..., None, None]
    equal = abs(gaps) <= xp.finfo(w.dtype).eps * w.shape[-1] * largest
    if squares:
        gaps = gaps * (w[..., None, :] + w[..., None])
    return xp.where(equal, 0.0, 1.0 / xp.where(equal, 1.0, gaps))


# ------------------------------------------------------------------- symmetric matrices
def _infer_eigvalsh(t: ArrayType, *, UPLO: str) -> ArrayType:
    order_of(t)
    return ArrayType(t.shape[:-1], real_part_of(inexact(t)))


def _infer_eigh(t: ArrayType, *, UPLO: str) -> tuple[ArrayType, ArrayType]:
    return _infer_eigvalsh(t, UPLO=UPLO), ArrayType(t.shape, inexact(t))


_SYMMETRIC = (
    arg("n", "n").symmetric().with_(),
    arg(2, 3, 3).symmetric().with_(UPLO="U"),
    arg(1, 1).with_(),
)
_HERMITIAN = arg(3, 3, dtype="complex128").symmetric().with_()


def rebuilt(v: Any, w: Any) -> Any:
    """`conj(v) diag(w) v.T`, the pullback of eigenvalues `w`."""
    return matmul(conjugate(v) * per_column(w), swap_last(v))


@op(
    infer=_infer_eigh,
    spelling="np.linalg.eigh",
    noun="w v",
    batch=Batch.MATRIX,
    samples=[*_SYMMETRIC, _HERMITIAN.rough(), arg(0, 0).with_()],
)
def eigh(x, *, UPLO="L"):
    """Eigenvalues, ascending, and eigenvectors of a symmetric or Hermitian matrix."""
    return xp.linalg.eigh(x, UPLO=UPLO)


@eigh.vjp
def _(ct, out, x, *, UPLO):
    of_w, of_v = ct
    w, v = out
    if of_v is None:
        return rebuilt(v, of_w)
    turn = matmul(swap_last(v), of_v)
    turn = 0.5 * inverse_gaps(w) * (turn - adjoint(turn))
    inner = matmul(conjugate(v), turn)
    if of_w is not None:
        inner = conjugate(v) * per_column(of_w) + inner
    return matmul(inner, swap_last(v))


def _slope_of_eigvalsh(ct, w, x, *, UPLO):
    _, v = eigh(x, UPLO=UPLO)
    return rebuilt(v, ct)


@op(
    infer=_infer_eigvalsh,
    vjp=[_slope_of_eigvalsh],
    spelling="np.linalg.eigvalsh",
    noun="w",
    batch=Batch.MATRIX,
    samples=[*_SYMMETRIC, _HERMITIAN, arg(0, 0).with_()],
)
def eigvalsh(x, *, UPLO="L"):
    """Eigenvalues of a symmetric or Hermitian matrix, ascending."""
    return xp.linalg.eigvalsh(x, UPLO=UPLO)


eigvalsh.part_of(eigh, 0)


def _triangle(UPLO: Any) -> str:
    if str(UPLO).upper() in ("L", "U"):
        return str(UPLO).upper()
    raise ArgumentError(f"UPLO must be 'L' or 'U', not {UPLO!r}", op="np.linalg.eigh")


_EighResult: Any = type(np.linalg.eigh(np.eye(1)))


@eigh.accept(np.linalg.eigh)
def eigh_call(a, UPLO="L"):
    """`np.linalg.eigh` with all its arguments."""
    return _EighResult(*eigh(as_array(a), UPLO=_triangle(UPLO)))


@eigvalsh.accept(np.linalg.eigvalsh)
def eigvalsh_call(a, UPLO="L"):
    """`np.linalg.eigvalsh` with all its arguments."""
    return eigvalsh(as_array(a), UPLO=_triangle(UPLO))


# --------------------------------------------------------------------- general matrices
def _complex(t: ArrayType) -> np.dtype:
    return np.result_type(inexact(t), np.complex64)


def _infer_eigvals(t: ArrayType, *, of_real: bool) -> ArrayType:
    order_of(t)
    return ArrayType(t.shape[:-1], _complex(t))


def _infer_eig(t: ArrayType, *, of_real: bool) -> tuple[ArrayType, ArrayType]:
    return _infer_eigvals(t, of_real=of_real), ArrayType(t.shape, _complex(t))


_DISTINCT = data(((2.0, 1.0, 0.3), (0.2, -1.0, 0.5), (0.1, 0.4, 0.7)))
_ROTATION = data(((1.0, 2.0, 0.5), (-2.0, 1.5, 0.3), (0.1, 0.4, 0.7)))
_GENERAL = arg(3, 3, dtype="complex128").shifted(1.0)


@op(
    infer=_infer_eig,
    spelling="np.linalg.eig",
    noun="w v",
    batch=Batch.MATRIX,
    samples=[
        _DISTINCT.with_(),
        _ROTATION.with_().rough(),
        _GENERAL.with_(of_real=False).rough(),
    ],
)
def eig(x, *, of_real=True):
    """Eigenvalues and eigenvectors of any square matrix, as complex numbers.

    NumPy gives real arrays where all eigenvalues happen to be real.
    """
    if of_real:
        return [part + 0j for part in xp.linalg.eig(x)]
    return xp.linalg.eig(x)


@eig.body("jax")
def _(x, *, of_real=True):
    return xp.linalg.eig(x)


@eig.vjp
def _(ct, out, x, *, of_real):
    of_w, of_v = ct
    w, v = out
    vt = swap_last(v)
    if of_v is None:
        return solve(vt, column(of_w) * vt)
    turn = matmul(vt, of_v)
    # The vectors have length 1: what would only stretch them is taken off.
    stretch = real(diagonal(turn, axis1=ndim_of(x) - 2, axis2=ndim_of(x) - 1))
    turn = turn - matmul(vt, conjugate(v) * per_column(stretch))
    inner = matmul(inverse_gaps(w) * turn, vt)
    return solve(vt, inner if of_w is None else column(of_w) * vt + inner)


def _slope_of_eigvals(ct, w, x, *, of_real):
    _, v = eig(x, of_real=of_real)
    vt = swap_last(v)
    return solve(vt, column(ct) * vt)


@op(
    infer=_infer_eigvals,
    vjp=[_slope_of_eigvals],
    spelling="np.linalg.eigvals",
    noun="w",
    batch=Batch.MATRIX,
    samples=[
        _DISTINCT.with_(),
        _ROTATION.with_(),
        _GENERAL.with_(of_real=False),
        arg(2, 3, 3).with_(),
    ],
)
def eigvals(x, *, of_real=True):
    """Eigenvalues of any square matrix, as complex numbers."""
    if of_real:
        return xp.linalg.eigvals(x) + 0j
    return xp.linalg.eigvals(x)


@eigvals.body("jax")
def _(x, *, of_real=True):
    return xp.linalg.eigvals(x)


eigvals.part_of(eig, 0)


_EigResult: Any = type(np.linalg.eig(np.eye(1)))


@accept(np.linalg.eig)
def eig_call(a):
    """`np.linalg.eig` of an array-like."""
    a = as_array(a)
    return _EigResult(*eig(a, of_real=dtype_of(a).kind != "c"))


@accept(np.linalg.eigvals)
def eigvals_call(a):
    """`np.linalg.eigvals` of an array-like."""
    a = as_array(a)
    return eigvals(a, of_real=dtype_of(a).kind != "c")
