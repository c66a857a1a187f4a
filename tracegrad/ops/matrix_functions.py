"""Functions of matrices: exponential, logarithm, square root, Sylvester, polar.

The derivative of a function `f` in the direction `e` is the upper right block of
`f([[x, e], [0, x]])` (R. Mathias, "A chain rule for matrix functions and applications",
1996), for every order; the pullback of `f` at `x` is its derivative at `x.T`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError, ShapeError, UnsupportedError
from tracegrad.ir.index import Slice
from tracegrad.ir.types import ArrayType
from tracegrad.ops.cast import astype
from tracegrad.ops.create import zeros_like
from tracegrad.ops.decompositions import at_least
from tracegrad.ops.define import Batch, accept, op
from tracegrad.ops.index import getitem
from tracegrad.ops.infer import (
    broadcast_shapes,
    refuse,
    result_dtype,
    same_size,
    shape_text,
)
from tracegrad.ops.join import concatenate
from tracegrad.ops.library import linalg
from tracegrad.ops.linalg import (
    adjoint,
    conjugate,
    inexact,
    matrix_shape,
    order_of,
    solve,
)
from tracegrad.ops.product import matmul
from tracegrad.ops.record import as_array, dtype_of, ndim_of, shape_of, type_of
from tracegrad.ops.sample import arg, call
from tracegrad.ops.shape import swap_last


def _like_square(t: ArrayType, **attrs: Any) -> ArrayType:
    order_of(t)
    return ArrayType(t.shape, inexact(t))


def _blocks(x: Any, corner: Any) -> Any:
    """The block matrix [[x, corner], [0, x]]."""
    n = ndim_of(x)
    above = concatenate(x, corner, axis=n - 1)
    below = concatenate(zeros_like(x), x, axis=n - 1)
    return concatenate(above, below, axis=n - 2)


def _corner(x: Any, order: Any) -> Any:
    """The upper right block."""
    front = () if ndim_of(x) == 2 else (Ellipsis,)
    return getitem(x, index=(*front, Slice(None, order), Slice(order, None)))


# -------------------------------------------------------------------------- exponential
def _slope_of_expm(ct, y, x):
    xt = swap_last(x)
    if ndim_of(x) == 2:
        return expm_frechet(xt, ct)
    return _corner(expm(_blocks(xt, ct)), shape_of(x)[-1])


@op(
    infer=_like_square,
    vjp=[_slope_of_expm],
    spelling="scipy.linalg.expm",
    batch=Batch.MATRIX,
    samples=[
        arg("n", "n", hi=0.5).with_(),
        arg(3, 3, dtype="complex128").with_(),
        arg(2, 3, 3).with_(),
        arg(1, 1).with_(),
    ],
)
def expm(x):
    """Exponential of a matrix."""
    return linalg.expm(x)


@expm.jvp
def _(t, y, x):
    if ndim_of(x) == 2:
        return expm_frechet(x, t)
    return _corner(expm(_blocks(x, t)), shape_of(x)[-1])


@expm.accept("scipy.linalg:expm")
def _(A):
    return expm(as_array(A))


def _second(x, e, direction):
    """The derivative of `expm_frechet(x, e)` as `x` moves."""
    slope = expm_frechet(_blocks(x, direction), _blocks(e, zeros_like(direction)))
    return _corner(slope, shape_of(x)[-1])


def _slope_of_frechet(ct, y, x, e):
    return _second(swap_last(x), swap_last(e), ct)


def _infer_frechet(x: ArrayType, e: ArrayType) -> ArrayType:
    n = order_of(x)
    if x.ndim > 2 or e.ndim != 2 or not all(same_size(n, s) for s in e.shape):
        raise ShapeError(
            f"two square matrices of one size are needed, not arrays of shapes "
            f"{shape_text(x.shape)} and {shape_text(e.shape)}",
        )
    return ArrayType(x.shape, np.result_type(inexact(x, e), np.float64))


@op(
    infer=_infer_frechet,
    vjp=[_slope_of_frechet, lambda ct, y, x, e: expm_frechet(swap_last(x), ct)],
    spelling="scipy.linalg.expm_frechet",
    samples=[
        call(arg(3, 3), arg(3, 3)),
        call(arg(2, 2, dtype="complex128"), arg(2, 2, dtype="complex128")),
    ],
)
def expm_frechet(x, e):
    """Derivative of `expm` at `x` in the direction `e`."""
    return linalg.expm_frechet(x, e, compute_expm=False)


@expm_frechet.jvp
def _(t, y, x, e):
    parts = [] if t[0] is None else [_second(x, e, t[0])]
    if t[1] is not None:
        parts.append(expm_frechet(x, t[1]))
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


@expm_frechet.accept("scipy.linalg:expm_frechet")
def _(A, E, method=None, compute_expm=True, check_finite=True):
    x, e = as_array(A), as_array(E)
    slope = expm_frechet(x, e)
    return (expm(x), slope) if compute_expm else slope


# -------------------------------------------------------------- logarithm, square root
def _slope_of_logm(ct, y, x):
    return _corner(logm(_blocks(swap_last(x), ct)), shape_of(x)[-1])


_POSITIVE = arg(3, 3).shifted(4.0)


@op(
    infer=_like_square,
    vjp=[_slope_of_logm],
    spelling="scipy.linalg.logm",
    batch=Batch.MATRIX,
    samples=[
        _POSITIVE.with_(),
        arg(2, 2, dtype="complex128").shifted(4.0).with_(),
    ],
)
def logm(x):
    """Principal logarithm of a matrix; that of a real one must be real."""
    # In single precision SciPy warns of an error that is no larger than rounding.
    y = linalg.logm(x.astype(xp.result_type(x, xp.float64)))
    if xp.iscomplexobj(y) and not xp.iscomplexobj(x):
        raise ValueError("the logarithm of a real matrix is complex: give logm(x + 0j)")
    return y.astype(xp.result_type(x, xp.float32), copy=False)


@logm.body("jax")
def _(x):
    root = xp.vectorize(linalg.sqrtm, signature="(n,n)->(n,n)")
    for _ in range(8):
        x = root(x) if xp.iscomplexobj(x) else root(x).real
    one = xp.eye(x.shape[-1], dtype=x.dtype)
    z = xp.linalg.solve(x + one, x - one)
    term = total = 2.0 * z
    for k in range(3, 17, 2):
        term = term @ z @ z
        total = total + term / k
    return 256.0 * total


@logm.jvp
def _(t, y, x):
    return _corner(logm(_blocks(x, t)), shape_of(x)[-1])


@logm.accept("scipy.linalg:logm")
def _(A, disp=None):
    refuse("scipy.linalg.logm", disp=disp)
    return logm(as_array(A))


def _slope_of_sqrtm(ct, y, x):
    yt = swap_last(y)
    return solve_sylvester(yt, yt, ct)


@op(
    infer=_like_square,
    vjp=[_slope_of_sqrtm],
    spelling="scipy.linalg.sqrtm",
    noun="root",
    batch=Batch.MATRIX,
    samples=[
        arg("n", "n").shifted(4.0).with_(),
        arg(2, 2, dtype="complex128").shifted(4.0).with_(),
        arg(2, 3, 3).shifted(4.0).with_(),
    ],
)
def sqrtm(x):
    """Principal square root of a matrix; that of a real one must be real."""
    y = linalg.sqrtm(x)
    if xp.iscomplexobj(y) and not xp.iscomplexobj(x):
        raise ValueError("the root of a real matrix is complex: give sqrtm(x + 0j)")
    return y


@sqrtm.body("jax")
def _(x):
    y = xp.vectorize(linalg.sqrtm, signature="(n,n)->(n,n)")(x)
    return y if xp.iscomplexobj(x) else y.real


@sqrtm.accept("scipy.linalg:sqrtm")
def _(A, disp=None, blocksize=None):
    refuse("scipy.linalg.sqrtm", disp=disp, blocksize=blocksize)
    return sqrtm(as_array(A))


@accept("scipy.linalg:funm")
def _(A, func, disp=True):
    raise UnsupportedError(
        "scipy.linalg.funm of any function has no derivative rule, because the "
        "derivative of the function is not known at its eigenvalues",
        op="scipy.linalg.funm",
        fix="use expm, logm or sqrtm, or w, v = np.linalg.eigh(a) for a symmetric "
        "matrix",
    )


# ------------------------------------------------------------------ Sylvester, Lyapunov
def _infer_sylvester(a: ArrayType, b: ArrayType, q: ArrayType) -> ArrayType:
    m, n = order_of(a), order_of(b)
    matrix_shape(q)
    if not (same_size(q.shape[-2], m) and same_size(q.shape[-1], n)):
        raise ShapeError(
            f"a @ x + x @ b of shapes {shape_text(a.shape)} and {shape_text(b.shape)} "
            f"cannot be q of shape {shape_text(q.shape)}",
            fix="give q the rows of a and the columns of b",
        )
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2], q.shape[:-2])
    return ArrayType((*batch, *q.shape[-2:]), inexact(a, b, q))


@op(
    infer=_infer_sylvester,
    spelling="scipy.linalg.solve_sylvester",
    noun="solution",
    batch=Batch.MATRIX,
    samples=[
        call(_POSITIVE, arg(2, 2).shifted(4.0), arg(3, 2)),
        call(arg(2, 3, 3).shifted(4.0), arg(2, 2, 2).shifted(4.0), arg(2, 3, 2)),
        call(
            arg(3, 3, dtype="complex128").shifted(4.0),
            arg(2, 2, dtype="complex128"),
            arg(3, 2, dtype="complex128"),
        ),
    ],
)
def solve_sylvester(a, b, q):
    """The `x` for which `a @ x + x @ b = q`."""
    return linalg.solve_sylvester(a, b, q)


@solve_sylvester.vjp
def _(ct, x, a, b, q):
    y = solve_sylvester(swap_last(a), swap_last(b), ct)
    xt = swap_last(x)
    return -matmul(y, xt), -matmul(xt, y), y


@solve_sylvester.accept("scipy.linalg:solve_sylvester")
def sylvester_call(a, b, q):
    """`scipy.linalg.solve_sylvester`, right also for real matrices among complex."""
    parts = [as_array(x) for x in (a, b, q)]
    dtype = result_dtype(*map(type_of, parts))
    if dtype.kind == "c":
        # SciPy goes wrong where some are real and have complex eigenvalues.
        parts = [x if dtype_of(x) == dtype else astype(x, dtype=dtype) for x in parts]
    return solve_sylvester(*parts)


@accept("scipy.linalg:solve_continuous_lyapunov", "scipy.linalg:solve_lyapunov")
def _(a, q):
    a = as_array(a)
    return sylvester_call(a, adjoint(a), q)


# -------------------------------------------------------------------------------- polar
def _infer_polar(t: ArrayType) -> tuple[ArrayType, ArrayType]:
    n = matrix_shape(t)[1]
    if t.ndim > 2:
        raise ShapeError(
            f"polar takes one matrix, not an array of shape {shape_text(t.shape)}"
        )
    dtype = inexact(t)
    return ArrayType(t.shape, dtype), ArrayType((n, n), dtype)


@op(
    infer=_infer_polar,
    spelling="scipy.linalg.polar",
    noun="u p",
    samples=[
        arg(4, 3).with_(),
        arg(3, 3).shifted(3.0).with_(),
        arg(3, 2, dtype="complex128").with_(),
    ],
)
def polar(x):
    """Orthonormal columns `u` and symmetric `p` for which `u @ p` is `x`."""
    return linalg.polar(x)


@polar.vjp
def _(ct, out, x):
    of_u, of_p = ct
    u, p = out
    # p is u.T @ x, and p @ w + w @ p = u.T @ dx - dx.T @ u for the turn w of u.
    of_x = None
    if of_p is not None:
        of_p = 0.5 * (of_p + adjoint(of_p))
        of_x = matmul(conjugate(u), of_p)
        part = matmul(conjugate(x), adjoint(of_p))
        of_u = part if of_u is None else of_u + part
    inner = matmul(swap_last(u), of_u)
    pt = swap_last(p)
    whole = matmul(conjugate(u), solve_sylvester(pt, pt, inner - adjoint(inner)))
    m, n = shape_of(x)
    if not at_least(n, m):
        rest = of_u - matmul(conjugate(u), inner)
        whole = whole + swap_last(solve(p, swap_last(rest)))
    return whole if of_x is None else of_x + whole


@polar.accept("scipy.linalg:polar")
def _(a, side="right"):
    a = as_array(a)
    m, n = matrix_shape(type_of(a))
    if side not in ("left", "right"):
        raise ArgumentError(
            f"side must be 'left' or 'right', not {side!r}", op="scipy.linalg.polar"
        )
    if at_least(m, n):
        u, p = polar(a)
    else:
        u, p = polar(adjoint(a))
        u, p = adjoint(u), None
    if side == "right":
        return u, matmul(adjoint(u), a) if p is None else p
    return u, matmul(a, adjoint(u))
