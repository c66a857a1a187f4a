"""Determinants, inverses and linear systems.

Derivatives of matrix functions as in M. B. Giles, "Collected matrix derivative results
for forward and reverse mode algorithmic differentiation" (2008).  The rules hold for
stacks of matrices and, with transposes that do not conjugate, for complex ones.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError, DTypeError, ShapeError
from tracegrad.ir.dims import product
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import Batch, accept, op
from tracegrad.ops.diagonal import eye_like
from tracegrad.ops.index import drop_axes, expand_dims, getitem
from tracegrad.ops.infer import (
    broadcast_shapes,
    normal_axes,
    result_dtype,
    same_size,
    shape_text,
)
from tracegrad.ops.product import column, expand_rows, matmul, outer
from tracegrad.ops.record import as_array, dtype_of, ndim_of, shape_of
from tracegrad.ops.reduce import sum as reduce_sum
from tracegrad.ops.sample import arg, call, data
from tracegrad.ops.select import conj, imag
from tracegrad.ops.shape import broadcast_to, permute, ravel, swap_last, to_shape


# -------------------------------------------------------------- what all families share
def inexact(*types: ArrayType) -> np.dtype:
    """The dtype that LAPACK computes in: that of the operands, float64 for integers.

    Raises:
        DTypeError: for float16 and long double, which LAPACK does not have.
    """
    dtype = result_dtype(*types)
    if dtype.kind in "biu":
        return np.dtype(np.float64)
    if dtype.char not in "fdFD":
        raise DTypeError(
            f"{dtype} has no linear algebra",
            fix="convert the matrix with .astype(np.float64)",
        )
    return dtype


def real_part_of(dtype: np.dtype) -> np.dtype:
    """The dtype of the real part."""
    return np.dtype(dtype.char.lower())


def matrix_shape(t: ArrayType) -> tuple:
    """The sizes of the last two axes.

    Raises:
        ShapeError: if there are fewer.
    """
    if t.ndim < 2:
        raise ShapeError(
            f"a matrix is needed, not an array of shape {shape_text(t.shape)}",
            fix="give it two axes, with reshape or x[:, None]",
        )
    return t.shape[-2:]


def order_of(t: ArrayType) -> Any:
    """The size of a square matrix.

    Raises:
        ShapeError: if it is not square.
    """
    rows, columns = matrix_shape(t)
    if not same_size(rows, columns):
        raise ShapeError(
            f"a square matrix is needed, not an array of shape {shape_text(t.shape)}",
            fix="use np.linalg.pinv or np.linalg.lstsq for other shapes",
        )
    return rows


def conjugate(x: Any) -> Any:
    """The complex conjugate; a real array as it is."""
    return conj(x) if dtype_of(x).kind == "c" else x


def adjoint(x: Any) -> Any:
    """The conjugate transpose of each matrix."""
    return swap_last(conjugate(x))


def per_matrix(x: Any) -> Any:
    """A number for each matrix of a stack, in a shape that multiplies the matrices."""
    n = ndim_of(x)
    return expand_dims(x, axis=(n, n + 1)) if n else x


def per_column(x: Any) -> Any:
    """A number for each column of a matrix, in a shape that multiplies the columns."""
    return x if ndim_of(x) == 1 else expand_rows(x)


def outer_product(y: Any, x: Any) -> Any:
    """`y x.T` of two vectors, or of two matrices of as many columns."""
    return outer(y, x) if ndim_of(y) == 1 else matmul(y, swap_last(x))


_SQUARE = (
    arg("n", "n").shifted(3.0).with_(),
    arg(2, 3, 3).shifted(3.0).with_(),
    arg(3, 3, dtype="complex128").shifted(3.0).with_(),
    arg(1, 1).with_(),
)
_EMPTY = arg(0, 0).with_()
_SINGULAR = (
    data(((1.0, 2.0, 3.0), (4.0, 5.0, 6.0), (7.0, 8.0, 9.0))).with_(),
    data(((1.0, 2.0), (2.0, 4.0)), dtype="complex128").with_(),
    arg(3, 3, lo=0.0, hi=0.0).with_(),
)


# ------------------------------------------------------------------------- determinants
@op(
    infer=lambda t: ArrayType((*t.shape[:-2], order_of(t), t.shape[-1]), inexact(t)),
    vjp=[lambda ct, y, x: hessian_of_det(x, ct)],
    batch=Batch.MATRIX,
    samples=[*_SQUARE, *[s.rough() for s in _SINGULAR]],
)
def cofactors(x):
    """Gradient of `det(x)`: det(x) * inv(x).T, right also where `x` is singular."""
    try:
        inverse = xp.linalg.inv(x)
        sizes = [xp.linalg.norm(m, axis=(-2, -1)) for m in (x, inverse)]
        if (sizes[0] * sizes[1] * xp.finfo(inverse.dtype).eps ** 0.5 < 1.0).all():
            return xp.linalg.det(x)[..., None, None] * inverse.mT
    except xp.linalg.LinAlgError:
        pass
    # Products of all singular values but one, without dividing by any.
    u, s, vh = xp.linalg.svd(x)
    one = xp.ones_like(s[..., :1])
    left = xp.concatenate([one, s[..., :-1]], axis=-1).cumprod(-1)
    right = xp.concatenate([one, s[..., :0:-1]], axis=-1).cumprod(-1)[..., ::-1]
    others = xp.linalg.det(u)[..., None] * xp.linalg.det(vh)[..., None] * left * right
    return (u.conj() * others[..., None, :]) @ vh.conj()


@cofactors.body("jax")
def _(x):
    u, s, vh = xp.linalg.svd(x)
    one = xp.ones_like(s[..., :1])
    left = xp.concatenate([one, s[..., :-1]], axis=-1).cumprod(-1)
    right = xp.concatenate([one, s[..., :0:-1]], axis=-1).cumprod(-1)[..., ::-1]
    others = xp.linalg.det(u)[..., None] * xp.linalg.det(vh)[..., None] * left * right
    return (u.conj() * others[..., None, :]) @ vh.conj()


def _infer_hessian(x: ArrayType, c: ArrayType) -> ArrayType:
    order_of(x)
    return ArrayType(broadcast_shapes(x.shape, c.shape), inexact(x, c))


def _third_of_det(ct, h, x, c):
    # The gradient of det(x) * (<c, b> <ct, b> - <ct, b c.T b>), with b = inv(x).T.
    b = swap_last(inv(x))
    bc, be = matmul(b, swap_last(c)), matmul(b, swap_last(ct))
    bcb, beb = matmul(bc, b), matmul(be, b)
    of_c, of_ct = _pairing(c, b), _pairing(ct, b)
    whole = of_c * of_ct - _pairing(ct, bcb)
    mixed = matmul(bc, beb) + matmul(be, bcb)
    return per_matrix(det(x)) * (whole * b - of_ct * bcb - of_c * beb + mixed)


def _pairing(a, b):
    n = ndim_of(b)
    return reduce_sum(a * b, axis=(n - 2, n - 1), keepdims=True)


@op(
    infer=_infer_hessian,
    vjp=[_third_of_det, lambda ct, y, x, c: hessian_of_det(x, ct)],
    samples=[
        call(arg("n", "n").shifted(3.0), arg("n", "n")),
        call(arg(2, 3, 3).shifted(3.0), arg(2, 3, 3)),
        call(arg(3, 3, dtype="complex128").shifted(3.0), arg(3, 3, dtype="complex128")),
        call(arg(1, 1), arg(1, 1)),
        call(_SINGULAR[0].arrays[0], arg(3, 3)).rough(),
    ],
)
def hessian_of_det(x, c):
    """Gradient of sum(c * cofactors(x)) with respect to `x`, singular or not."""
    u, s, vh = xp.linalg.svd(x)
    k = u.conj().mT @ c @ vh.conj().mT
    eye = xp.eye(s.shape[-1], dtype=s.dtype)
    # Products of all singular values but two, [i, j].
    rows = xp.where(eye == 1.0, 1.0, s[..., None, :])
    one = xp.ones_like(rows[..., :1])
    left = xp.concatenate([one, rows[..., :-1]], axis=-1).cumprod(-1)
    right = xp.concatenate([one, rows[..., :0:-1]], axis=-1).cumprod(-1)[..., ::-1]
    others = left * right * (1.0 - eye)
    own = (others @ k.diagonal(0, -2, -1)[..., None]) * eye
    sign = (xp.linalg.det(u) * xp.linalg.det(vh))[..., None, None]
    return sign * (u.conj() @ (own - others * k.mT) @ vh.conj())


def _infer_det(t: ArrayType) -> ArrayType:
    order_of(t)
    return ArrayType(t.shape[:-2], inexact(t))


@op(
    infer=_infer_det,
    vjp=[lambda ct, y, x: per_matrix(ct) * cofactors(x)],
    spelling="np.linalg.det",
    batch=Batch.MATRIX,
    samples=[*_SQUARE, *_SINGULAR, _EMPTY, arg(3, 3, dtype="int64").with_()],
)
def det(x):
    """Determinant; its derivative is right where the matrix is singular, too."""
    return xp.linalg.det(x)


@det.accept(np.linalg.det)
def _(a):
    return det(as_array(a))


def _infer_slogdet(t: ArrayType) -> tuple[ArrayType, ArrayType]:
    order_of(t)
    dtype = inexact(t)
    shape = t.shape[:-2]
    return ArrayType(shape, dtype), ArrayType(shape, real_part_of(dtype))


@op(
    infer=_infer_slogdet,
    spelling="np.linalg.slogdet",
    batch=Batch.MATRIX,
    samples=[*_SQUARE, _EMPTY],
)
def slogdet(x):
    """Sign of the determinant, and the logarithm of its absolute value."""
    return xp.linalg.slogdet(x)


@slogdet.vjp
def _(ct, out, x):
    of_sign, of_log = ct
    if dtype_of(x).kind == "c" and of_sign is not None:
        # The sign is det / abs(det), which turns as the phase does.
        turn = 1j * imag(of_sign * out[0])
        of_log = turn if of_log is None else of_log + turn
    return None if of_log is None else per_matrix(of_log) * swap_last(inv(x))


_SlogdetResult: Any = type(np.linalg.slogdet(np.eye(1)))


@slogdet.accept(np.linalg.slogdet)
def _(a):
    return _SlogdetResult(*slogdet(as_array(a)))


# ----------------------------------------------------------------- inverses and systems
def _slope_of_inv(ct, y, x):
    yt = swap_last(y)
    return -matmul(matmul(yt, ct), yt)


@op(
    infer=lambda t: ArrayType((*t.shape[:-2], order_of(t), t.shape[-1]), inexact(t)),
    vjp=[_slope_of_inv],
    spelling="np.linalg.inv",
    batch=Batch.MATRIX,
    samples=[*_SQUARE, _EMPTY, arg(3, 3, dtype="int64").shifted(5.0).with_()],
)
def inv(x):
    """Inverse of a matrix."""
    return xp.linalg.inv(x)


@inv.accept(np.linalg.inv)
def _(a):
    return inv(as_array(a))


def solution_shape(a: ArrayType, b: ArrayType) -> tuple:
    """The shape of `x` in `a @ x = b`; `b` is a vector, or a stack of matrices.

    Raises:
        ShapeError: if the shapes do not fit.
    """
    n = order_of(a)
    if not b.ndim or not same_size(n, b.shape[max(b.ndim - 2, 0)]):
        raise ShapeError(
            f"a system of {n} equations does not fit to a right-hand side of shape "
            f"{shape_text(b.shape)}",
            fix="give b the shape (n,) or (..., n, columns); for stacked vectors "
            "solve with b[..., None]",
        )
    if b.ndim == 1:
        return (*a.shape[:-2], n)
    return (*broadcast_shapes(a.shape[:-2], b.shape[:-2]), n, b.shape[-1])


@op(
    infer=lambda a, b: ArrayType(solution_shape(a, b), inexact(a, b)),
    spelling="np.linalg.solve",
    noun="solution",
    samples=[
        call(arg("n", "n").shifted(3.0), arg("n")),
        call(arg("n", "n").shifted(3.0), arg("n", 2)),
        call(arg(2, 3, 3).shifted(3.0), arg(2, 3, 2)),
        call(arg(2, 3, 3).shifted(3.0), arg(3)),
        call(arg(2, 3, 3).shifted(3.0), arg(3, 2)),
        call(arg(3, 3).shifted(3.0), arg(2, 3, 2)),
        call(arg(3, 3, dtype="complex128").shifted(3.0), arg(3)),
        call(arg(3, 3).shifted(3.0), arg(3, 2, dtype="complex128")),
        call(arg(1, 1), arg(1)),
        call(arg(0, 0), arg(0)),
        call(arg(3, 3, dtype="int64").shifted(5.0), arg(3)),
    ],
)
def solve(a, b):
    """The `x` for which `a @ x = b`."""
    return xp.linalg.solve(a, b)


@solve.batch
def _(b, left, right):
    if b.rank(1) > 1:
        rank = max(b.rank(0), b.rank(1))
        return solve(b.aligned(0, rank), b.aligned(1, rank))
    if not b.has(1):
        return solve(left, right)
    if not b.has(0) and b.rank(0) == 2:
        return swap_last(solve(left, swap_last(right)))
    made = solve(left, column(b.aligned(1, b.rank(0) - 1)))
    return drop_axes(made, axis=(ndim_of(made) - 1,))


@solve.vjp
def _(ct, x, a, b):
    at = swap_last(a)
    if ndim_of(b) == 1 and ndim_of(a) > 2:
        y = drop_axes(solve(at, column(ct)), axis=(ndim_of(a) - 1,))
        return -(column(y) * expand_rows(x)), y
    y = solve(at, ct)
    return -outer_product(y, x), y


@solve.accept(np.linalg.solve)
def solve_call(a, b):
    """`np.linalg.solve` of array-likes."""
    return solve(as_array(a), as_array(b))


@accept(np.linalg.tensorsolve)
def _(a, b, axes=None):
    a, b = as_array(a), as_array(b)
    n = ndim_of(a)
    if axes is not None:
        last = normal_axes(tuple(axes), n)
        a = permute(a, (*[i for i in range(n) if i not in last], *last))
    shape = shape_of(a)[ndim_of(b) :]
    size = product(shape)
    rows = product(shape_of(a)[: ndim_of(b)])
    if not same_size(rows, size):
        raise ShapeError(
            f"{rows} equations for {size} unknowns",
            op="np.linalg.tensorsolve",
            fix="the product of the first axes must be that of the others",
        )
    return to_shape(solve(to_shape(a, (size, size)), ravel(b)), shape)


@accept(np.linalg.tensorinv)
def _(a, ind=2):
    a = as_array(a)
    if operator.index(ind) <= 0:
        raise ArgumentError(
            f"ind must be positive, not {ind}", op="np.linalg.tensorinv"
        )
    shape = shape_of(a)
    size = product(shape[ind:])
    whole = to_shape(a, (product(shape[:ind]), size))
    return to_shape(inv(whole), (*shape[ind:], *shape[:ind]))


# ------------------------------------------------------------------------------- powers
def _slope_of_power(ct, y, x, *, n):
    return _moved_power(swap_last(x), ct, n)


def _moved_power(x, ct, n):
    """The sum of `x**i @ ct @ x**(n - 1 - i)`, in the order of log(n) products."""
    if n == 1:
        return ct
    if n % 2:
        rest = matrix_power(x, n=n - 1)
        return matmul(x, _moved_power(x, ct, n - 1)) + matmul(ct, rest)
    half = x if n == 2 else matrix_power(x, n=n // 2)
    inner = _moved_power(x, ct, n // 2)
    return matmul(half, inner) + matmul(inner, half)


def _infer_power(t: ArrayType, *, n: int) -> ArrayType:
    order_of(t)
    return t.strong


@op(
    infer=_infer_power,
    vjp=[_slope_of_power],
    spelling="np.linalg.matrix_power",
    noun="power",
    batch=Batch.MATRIX,
    samples=[
        arg("n", "n").with_(n=2),
        arg("n", "n").with_(n=3),
        arg(2, 3, 3).with_(n=7),
        arg(2, 2, dtype="complex128").with_(n=4),
        arg(2, 2, dtype="int64").with_(n=2),
    ],
)
def matrix_power(x, *, n):
    """`x @ x @ ...`, n times."""
    return xp.linalg.matrix_power(x, n)


@matrix_power.accept(np.linalg.matrix_power)
def _(a, n):
    a = as_array(a)
    try:
        n = operator.index(n)
    except TypeError:
        raise ArgumentError(
            f"the exponent of a matrix must be an integer, not {n!r}",
            op="np.linalg.matrix_power",
            fix="use scipy.linalg.expm and logm for other powers",
        ) from None
    if n == 0:
        return _identity_like(a)
    if n < 0:
        a, n = inv(a), -n
    return a if n == 1 else matrix_power(a, n=n)


def _identity_like(a):
    shape, dtype = shape_of(a), dtype_of(a).name
    if len(shape) < 3:
        return eye_like(a, dtype=dtype)
    one = eye_like(getitem(a, index=(0,) * (len(shape) - 2)), dtype=dtype)
    return broadcast_to(one, shape=shape)
