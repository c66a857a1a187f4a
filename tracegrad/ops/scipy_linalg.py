"""What `scipy.linalg` shares with `numpy.linalg`: other arguments, the same ops.

Arguments about speed and checks (`overwrite_a`, `check_finite`, drivers) are taken and
have no effect.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError
from tracegrad.ir.index import Slice
from tracegrad.ir.types import ArrayType
from tracegrad.ops.cast import astype
from tracegrad.ops.decompositions import (
    at_least,
    cholesky,
    hermitian_of_lower,
    hermitian_of_upper,
    qr,
    qr_r,
    svd_call,
    svdvals,
)
from tracegrad.ops.define import ACCEPT, accept, op
from tracegrad.ops.diagonal import diagonal
from tracegrad.ops.eigen import eig_call, eigh_call, eigvals_call, eigvalsh_call
from tracegrad.ops.index import getitem
from tracegrad.ops.infer import refuse
from tracegrad.ops.least_squares import cutoff, lstsq_call, matrix_rank, pinv
from tracegrad.ops.library import linalg
from tracegrad.ops.linalg import (
    adjoint,
    conjugate,
    det,
    inv,
    matrix_shape,
    solve_call,
)
from tracegrad.ops.order import take
from tracegrad.ops.product import column
from tracegrad.ops.record import as_array, dtype_of, ndim_of, shape_of
from tracegrad.ops.sample import arg
from tracegrad.ops.shape import swap_last
from tracegrad.ops.triangular import cho_solve_call, solve_triangular, stacked


# -------------------------------------------------------------------- systems, inverses
def _solve_assuming(a: Any, b: Any, assume: str, lower: bool, function: str) -> Any:
    """Solve with the part of `a` that SciPy reads for a matrix of this kind."""
    if assume in ("pos", "positive definite"):
        return cho_solve_call((cholesky(a, upper=not lower), lower), b)
    if assume in ("upper triangular", "lower triangular"):
        return stacked(solve_triangular, a, b, lower=assume.startswith("lower"))
    if assume == "diagonal":
        d = diagonal(a, axis1=ndim_of(a) - 2, axis2=ndim_of(a) - 1)
        return b / d if ndim_of(b) == 1 else b / column(d)
    if assume in ("sym", "symmetric"):
        # The transpose is mirrored without conjugating, for complex matrices.
        mirrored = a if lower else swap_last(a)
        return solve_call(_mirrored(mirrored), b)
    if assume in ("her", "hermitian"):
        whole = hermitian_of_lower(a) if lower else hermitian_of_upper(a)
        return solve_call(whole, b)
    if assume in ("gen", "general", "banded", "tridiagonal"):
        return solve_call(a, b)
    raise ArgumentError(
        f"{function}(assume_a={assume!r}) is not supported",
        op=function,
        fix='leave it out, or use "gen", "sym", "her", "pos" or "diagonal"',
    )


def _mirrored(a: Any) -> Any:
    """The symmetric matrix of a lower triangle."""
    return ACCEPT[np.tril](a) + swap_last(ACCEPT[np.tril](a, -1))


@accept("scipy.linalg:solve")
def _(
    a,
    b,
    lower=False,
    overwrite_a=False,
    overwrite_b=False,
    check_finite=True,
    assume_a=None,
    transposed=False,
):
    a, b = as_array(a), as_array(b)
    if transposed:
        a, lower = swap_last(a), not lower
    if assume_a is None:
        return solve_call(a, b)
    return _solve_assuming(a, b, assume_a, bool(lower), "scipy.linalg.solve")


@accept("scipy.linalg:inv")
def _(a, overwrite_a=False, check_finite=True, *, assume_a=None, lower=False):
    if assume_a not in (None, "gen", "general"):
        refuse("scipy.linalg.inv", assume_a=assume_a)
    return inv(as_array(a))


@accept("scipy.linalg:det")
def _(a, overwrite_a=False, check_finite=True):
    made = det(as_array(a))
    narrow = dtype_of(made) == np.float32  # SciPy gives a Python float
    return astype(made, dtype=np.dtype(float)) if narrow else made


@accept("scipy.linalg:pinv")
def _(a, *, atol=None, rtol=None, return_rank=False, check_finite=True):
    refuse("scipy.linalg.pinv", atol=atol)
    a, rtol = as_array(a), cutoff("scipy.linalg.pinv", "rtol", rtol)
    a = astype(a, dtype=np.dtype(float)) if dtype_of(a).kind in "biu" else a
    inverse = pinv(a, rtol=rtol)
    return (inverse, matrix_rank(a, rtol=rtol)) if return_rank else inverse


@accept("scipy.linalg:lstsq")
def _(
    a,
    b,
    cond=None,
    overwrite_a=False,
    overwrite_b=False,
    check_finite=True,
    lapack_driver=None,
):
    x, sums, rank, s = lstsq_call(a, b, cond)
    if ndim_of(x) == 1 and shape_of(sums) == (1,):
        sums = getitem(sums, index=(0,))
    return x, sums, rank, s


@accept("scipy.linalg:norm")
def _(a, ord=None, axis=None, keepdims=False, check_finite=True):
    return ACCEPT[np.linalg.norm](a, ord, axis, keepdims)


# ----------------------------------------------------------------------- decompositions
@accept("scipy.linalg:svd")
def _(
    a,
    full_matrices=True,
    compute_uv=True,
    overwrite_a=False,
    check_finite=True,
    lapack_driver="gesdd",
):
    made = svd_call(a, full_matrices, compute_uv)
    return tuple(made) if compute_uv else made


@accept("scipy.linalg:svdvals")
def _(a, overwrite_a=False, check_finite=True):
    return svdvals(as_array(a))


def _infer_pivots(t: ArrayType) -> ArrayType:
    return ArrayType((matrix_shape(t)[1],), np.dtype(np.int32))


@op(
    infer=_infer_pivots,
    vjp=[None],
    spelling="scipy.linalg.qr",
    noun="order",
    samples=[arg(3, 3).with_(), arg("n", 3).with_(), arg(2, 3).with_()],
)
def qr_pivots(x):
    """The order of the columns of `x` in which `qr` leaves the most for the first."""
    return linalg.qr(x, mode="r", pivoting=True)[1]


@accept("scipy.linalg:qr")
def _(
    a,
    overwrite_a=False,
    lwork=None,
    mode="full",
    pivoting=False,
    check_finite=True,
):
    if mode not in ("full", "economic", "r"):
        raise ArgumentError(
            f"scipy.linalg.qr(mode={mode!r}) is not supported",
            op="scipy.linalg.qr",
            fix='use mode="full", "economic" or "r"',
        )
    a = as_array(a)
    order: list[Any] = []
    if pivoting:
        order.append(qr_pivots(a))
        a = take(a, order[0], axis=1)
    if mode == "economic":
        return (*qr(a), *order)
    m, n = shape_of(a)[-2:]
    if mode == "full":
        return (*qr(a, mode="complete"), *order)
    # SciPy's has all rows, those of zeros too.
    r = qr_r(a) if at_least(n, m) else qr(a, mode="complete")[1]
    return (r, *order)


# -------------------------------------------------------------------------- eigenvalues
def _generalised(a: Any, b: Any, lower: bool) -> tuple[Any, Any]:
    """The symmetric matrix with the eigenvalues of `a v = w b v`, and the factor of b.

    With `b = l l.T` that is `inv(l) a inv(l).T`; its vectors are `l.T v`.
    """
    b = as_array(b)
    factor = cholesky(b if lower else adjoint(b))
    whole = hermitian_of_lower(a) if lower else hermitian_of_upper(a)
    half = solve_triangular(factor, whole, lower=True)
    return solve_triangular(factor, adjoint(half), lower=True), factor


def _chosen(w: Any, subset: Any) -> Any:
    if subset is None:
        return w
    first, last = map(int, subset)
    front = () if ndim_of(w) == 1 else (Ellipsis,)
    return getitem(w, index=(*front, Slice(first, last + 1)))


@accept("scipy.linalg:eigh")
def scipy_eigh(
    a,
    b=None,
    *,
    lower=True,
    eigvals_only=False,
    overwrite_a=False,
    overwrite_b=False,
    type=1,
    check_finite=True,
    subset_by_index=None,
    subset_by_value=None,
    driver=None,
):
    """`scipy.linalg.eigh` with all its arguments."""
    refuse("scipy.linalg.eigh", subset_by_value=subset_by_value)
    if type != 1:
        refuse("scipy.linalg.eigh", fix="use type=1", type=type)
    a, factor = as_array(a), None
    if b is not None:
        (a, factor), lower = _generalised(a, b, bool(lower)), True
    side = "L" if lower else "U"
    if eigvals_only:
        return _chosen(eigvalsh_call(a, side), subset_by_index)
    w, v = eigh_call(a, side)
    if factor is not None:
        v = solve_triangular(conjugate(factor), v, trans=1, lower=True)
    return _chosen(w, subset_by_index), _chosen(v, subset_by_index)


@accept("scipy.linalg:eigvalsh")
def _(a, b=None, *, lower=True, overwrite_a=False, overwrite_b=False, **options):
    return scipy_eigh(a, b, lower=lower, eigvals_only=True, **options)


@accept("scipy.linalg:eig")
def _(
    a,
    b=None,
    left=False,
    right=True,
    overwrite_a=False,
    overwrite_b=False,
    check_finite=True,
    homogeneous_eigvals=False,
):
    refuse(
        "scipy.linalg.eig",
        left=left or None,
        homogeneous_eigvals=homogeneous_eigvals or None,
    )
    a = as_array(a) if b is None else solve_call(b, a)
    return tuple(eig_call(a)) if right else eigvals_call(a)


@accept("scipy.linalg:eigvals")
def _(a, b=None, overwrite_a=False, check_finite=True, homogeneous_eigvals=False):
    refuse("scipy.linalg.eigvals", homogeneous_eigvals=homogeneous_eigvals or None)
    return eigvals_call(a if b is None else solve_call(b, a))
