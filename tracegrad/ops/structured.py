"""Banded systems, Toeplitz and block diagonal matrices."""

from __future__ import annotations

from typing import Any

import numpy as xp

from tracegrad.errors import ShapeError
from tracegrad.ir.index import Slice
from tracegrad.ir.types import ArrayType, Size
from tracegrad.ops.define import accept, op
from tracegrad.ops.index import flip_axes, getitem
from tracegrad.ops.infer import result_dtype, same_size, shape_text
from tracegrad.ops.library import linalg
from tracegrad.ops.linalg import conjugate, inexact, solve_call
from tracegrad.ops.rearrange import pad
from tracegrad.ops.record import as_array, ndim_of, shape_of
from tracegrad.ops.reduce import sum as reduce_sum
from tracegrad.ops.sample import arg, call, data
from tracegrad.ops.shape import atleast_2d, ravel, reshape

# A band matrix `a` with `lower` and `upper` diagonals beside the main one is stored as
# `ab[upper + i - j, j] = a[i, j]`.


# -------------------------------------------------------------------- products of bands
def _infer_flipped(t: ArrayType, *, lower: int, upper: int) -> ArrayType:
    return t.strong


@op(
    infer=_infer_flipped,
    vjp=[
        lambda ct, y, ab, *, lower, upper: band_transpose(ct, lower=upper, upper=lower)
    ],
    linear=True,
    samples=[
        arg(3, 4).with_(lower=1, upper=1),
        arg(4, 5).with_(lower=2, upper=1),
        arg(1, 3).with_(lower=0, upper=0),
        arg(4, 2).with_(lower=0, upper=3),
    ],
)
def band_transpose(ab, *, lower, upper):
    """The bands of the transpose of a band matrix, whose corners are cleared."""
    out = xp.zeros_like(ab)
    n = ab.shape[1]
    for d in range(-min(upper, n - 1), min(lower, n - 1) + 1):
        row = ab[upper + d]
        out[lower - d, max(d, 0) : n + min(d, 0)] = row[max(-d, 0) : n - max(d, 0)]
    return out


@band_transpose.body("jax")
def _(ab, *, lower, upper):
    out = xp.zeros_like(ab)
    n = ab.shape[1]
    for d in range(-min(upper, n - 1), min(lower, n - 1) + 1):
        row = ab[upper + d, max(-d, 0) : n - max(d, 0)]
        out = out.at[lower - d, max(d, 0) : n + min(d, 0)].set(row)
    return out


def _infer_times(ab: ArrayType, x: ArrayType, *, lower: int, upper: int) -> ArrayType:
    return ArrayType(x.shape, result_dtype(ab, x))


def _transposed_times(ab: Any, x: Any, lower: int, upper: int) -> Any:
    turned = band_transpose(ab, lower=lower, upper=upper)
    return band_times(turned, x, lower=upper, upper=lower)


@op(
    infer=_infer_times,
    vjp=[
        lambda ct, y, ab, x, *, lower, upper: band_outer(
            ct, x, lower=lower, upper=upper
        ),
        lambda ct, y, ab, x, *, lower, upper: _transposed_times(ab, ct, lower, upper),
    ],
    samples=[
        call(arg(3, 4), arg(4), lower=1, upper=1),
        call(arg(4, 5), arg(5, 2), lower=2, upper=1),
    ],
)
def band_times(ab, x, *, lower, upper):
    """A band matrix times a vector, or the columns of a matrix."""
    out = xp.zeros(x.shape, xp.result_type(ab, x))
    n = ab.shape[1]
    for d in range(-min(upper, n - 1), min(lower, n - 1) + 1):
        part = slice(max(-d, 0), n - max(d, 0))
        out[max(d, 0) : n + min(d, 0)] += (ab[upper + d, part] * x[part].T).T
    return out


@band_times.body("jax")
def _(ab, x, *, lower, upper):
    out = xp.zeros(x.shape, xp.result_type(ab, x))
    n = ab.shape[1]
    for d in range(-min(upper, n - 1), min(lower, n - 1) + 1):
        part = slice(max(-d, 0), n - max(d, 0))
        product = (ab[upper + d, part] * x[part].T).T
        to = slice(max(d, 0), n + min(d, 0))
        out = out.at[to].add(product)  # type: ignore[attr-defined]
    return out


def _infer_band_outer(y: ArrayType, x: ArrayType, *, lower: int, upper: int):
    return ArrayType((lower + upper + 1, x.shape[0]), result_dtype(y, x))


@op(
    infer=_infer_band_outer,
    vjp=[
        lambda ct, z, y, x, *, lower, upper: band_times(
            ct, x, lower=lower, upper=upper
        ),
        lambda ct, z, y, x, *, lower, upper: _transposed_times(ct, y, lower, upper),
    ],
    samples=[
        call(arg(4), arg(4), lower=1, upper=1),
        call(arg(5, 2), arg(5, 2), lower=2, upper=1),
    ],
)
def band_outer(y, x, *, lower, upper):
    """The bands of `y x.T`."""
    n = x.shape[0]
    out = xp.zeros((lower + upper + 1, n), xp.result_type(y, x))
    for d in range(-min(upper, n - 1), min(lower, n - 1) + 1):
        part = slice(max(-d, 0), n - max(d, 0))
        product = y[max(d, 0) : n + min(d, 0)] * x[part]
        out[upper + d, part] = product.reshape(len(product), -1).sum(1)
    return out


@band_outer.body("jax")
def _(y, x, *, lower, upper):
    n = x.shape[0]
    out = xp.zeros((lower + upper + 1, n), xp.result_type(y, x))
    for d in range(-min(upper, n - 1), min(lower, n - 1) + 1):
        part = slice(max(-d, 0), n - max(d, 0))
        product = y[max(d, 0) : n + min(d, 0)] * x[part]
        band = product.reshape(len(product), -1).sum(1)
        out = out.at[upper + d, part].set(band)  # type: ignore[attr-defined]
    return out


@op(
    infer=lambda t, *, row: t.strong,
    vjp=[lambda ct, y, x, *, row: halved_row(ct, row=row)],
    linear=True,
    samples=[arg(2, 3).with_(row=0), arg(3, 2).with_(row=2)],
)
def halved_row(x, *, row):
    """`x` with one row halved."""
    out = x.copy()
    out[row] *= 0.5
    return out


@halved_row.body("jax")
def _(x, *, row):
    return x.at[row].multiply(0.5)


# ------------------------------------------------------------------------- band systems
def _infer_solve(ab: ArrayType, b: ArrayType, count: Size, name: str) -> ArrayType:
    fits = ab.ndim == 2 and b.ndim in (1, 2)
    if not fits or not same_size(ab.shape[1], b.shape[0]):
        raise ShapeError(
            f"bands of shape {shape_text(ab.shape)} do not fit to a right-hand side of "
            f"shape {shape_text(b.shape)}",
            fix="give b as many rows as ab has columns",
        )
    if not same_size(ab.shape[0], count):
        raise ShapeError(
            f"{count} diagonals need as many rows of ab, not {ab.shape[0]}",
            fix=f"see the documentation of {name} for how bands are stored",
        )
    return ArrayType(b.shape, inexact(ab, b))


def _infer_solve_banded(ab: ArrayType, b: ArrayType, *, lower: int, upper: int):
    return _infer_solve(ab, b, lower + upper + 1, "scipy.linalg.solve_banded")


_BANDS = arg(3, 4, lo=0.5, hi=1.5)


@op(
    infer=_infer_solve_banded,
    spelling="scipy.linalg.solve_banded",
    noun="solution",
    samples=[
        call(_BANDS, arg(4), lower=1, upper=1),
        call(arg(4, 5, lo=0.5), arg(5, 2), lower=2, upper=1),
        call(arg(4, 5, dtype="complex128"), arg(5), lower=1, upper=2),
    ],
)
def solve_banded(ab, b, *, lower, upper):
    """The `x` for which a band matrix times `x` is `b`."""
    return linalg.solve_banded((lower, upper), ab, b)


@solve_banded.body("jax")
def _(ab, b, *, lower, upper):
    # JAX has no band solver: the matrix is filled.
    i = xp.arange(ab.shape[1])
    row = upper + i[:, None] - i
    inside = (row >= 0) & (row <= lower + upper)
    a = xp.where(inside, ab[row.clip(0, lower + upper), i], 0.0)
    return xp.linalg.solve(a, b)


@solve_banded.vjp
def _(ct, x, ab, b, *, lower, upper):
    turned = band_transpose(ab, lower=lower, upper=upper)
    y = solve_banded(turned, ct, lower=upper, upper=lower)
    return -band_outer(y, x, lower=lower, upper=upper), y


@solve_banded.accept("scipy.linalg:solve_banded")
def _(l_and_u, ab, b, overwrite_ab=False, overwrite_b=False, check_finite=True):
    lower, upper = map(int, l_and_u)
    return solve_banded(as_array(ab), as_array(b), lower=lower, upper=upper)


def _infer_solveh_banded(ab: ArrayType, b: ArrayType, *, lower: bool) -> ArrayType:
    count = ab.shape[0] if ab.ndim else 1
    return _infer_solve(ab, b, count, "scipy.linalg.solveh_banded")


@op(
    infer=_infer_solveh_banded,
    spelling="scipy.linalg.solveh_banded",
    noun="solution",
    samples=[
        call(data(((0.0, 0.5, -0.7, 0.2), (2.0, 3.0, 2.5, 4.0))), arg(4)),
        call(
            data(((2.0, 3.0, 2.5, 4.0), (0.5, -0.7, 0.2, 0.0), (0.3, 0.1, 0.0, 0.0))),
            arg(4, 2),
            lower=True,
        ),
    ],
)
def solveh_banded(ab, b, *, lower=False):
    """The `x` for which a symmetric positive definite band matrix times `x` is `b`."""
    return linalg.solveh_banded(ab, b, lower=lower)


@solveh_banded.body("jax")
def _(ab, b, *, lower=False):
    i = xp.arange(ab.shape[1])
    last = ab.shape[0] - 1
    row = i[:, None] - i if lower else last + i[:, None] - i
    half = xp.where((row >= 0) & (row <= last), ab[row.clip(0, last), i], 0.0)
    return xp.linalg.solve(half + half.conj().T - xp.diag(half.diagonal()), b)


@solveh_banded.vjp
def _(ct, x, ab, b, *, lower):
    y = conjugate(solveh_banded(ab, conjugate(ct), lower=lower))
    beside = shape_of(ab)[0] - 1
    bands = {"lower": beside if lower else 0, "upper": 0 if lower else beside}
    whole = band_outer(y, x, **bands)
    whole = whole + band_outer(conjugate(x), conjugate(y), **bands)
    # Off the diagonal each stored number stands for two.
    return -halved_row(whole, row=0 if lower else beside), y


@solveh_banded.accept("scipy.linalg:solveh_banded")
def _(ab, b, overwrite_ab=False, overwrite_b=False, lower=False, check_finite=True):
    return solveh_banded(as_array(ab), as_array(b), lower=bool(lower))


# ---------------------------------------------------------------- matrices of a pattern
def diagonal_sums(x: Any) -> Any:
    """The sums over all diagonals of a matrix, that of the upper right corner first."""
    m, n = shape_of(x)
    wide = pad(flip_axes(x, (1,)), pad_width=((0, 0), (0, m)))
    # Each row of the flat array starts one place later in rows that are one shorter.
    flat = getitem(ravel(wide), index=(Slice(None, m * (n + m - 1)),))
    return reduce_sum(reshape(flat, shape=(m, n + m - 1)), axis=0)


@op(
    infer=lambda c, r: ArrayType((c.shape[0], r.shape[0]), result_dtype(c, r)),
    linear=True,
    spelling="scipy.linalg.toeplitz",
    samples=[
        call(arg("n"), arg(3)),
        call(arg(2), arg(4, dtype="complex128")),
        call(arg(1), arg(1)),
    ],
)
def toeplitz(c, r):
    """The matrix of first column `c` and first row `r`, constant along diagonals."""
    return linalg.toeplitz(c, r)


@toeplitz.vjp
def _(ct, y, c, r):
    n = shape_of(r)[0]
    sums = diagonal_sums(ct)
    of_r = getitem(sums, index=(Slice(None, n - 1),))
    of_r = pad(flip_axes(of_r, (0,)), pad_width=((1, 0),))
    return getitem(sums, index=(Slice(n - 1, None),)), of_r


@toeplitz.accept("scipy.linalg:toeplitz")
def toeplitz_call(c, r=None):
    """`scipy.linalg.toeplitz` of vectors."""
    c = as_array(c)
    r = conjugate(c) if r is None else as_array(r)
    if ndim_of(c) != 1 or ndim_of(r) != 1:
        raise ShapeError(
            f"toeplitz takes vectors, not arrays of shapes {shape_text(shape_of(c))} "
            f"and {shape_text(shape_of(r))}",
            op="scipy.linalg.toeplitz",
            fix="flatten them with .ravel()",
        )
    return toeplitz(c, r)


@accept("scipy.linalg:solve_toeplitz")
def _(c_or_cr, b, check_finite=True):
    pair = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr,)
    return solve_call(toeplitz_call(*pair), b)


def _infer_block_diag(*types: ArrayType) -> ArrayType:
    rows = [t.shape[0] for t in types]
    columns = [t.shape[1] for t in types]
    return ArrayType((sum(rows), sum(columns)), result_dtype(*types))


@op(
    infer=_infer_block_diag,
    linear=True,
    spelling="scipy.linalg.block_diag",
    samples=[
        call(arg("n", 2), arg(1, 3), arg(2, 2)),
        arg(2, 2).with_(),
        call(arg(2, 1, dtype="float32"), arg(1, 1)).rough(),
    ],
)
def block_diag(*xs):
    """The matrices along the diagonal of a matrix of zeros."""
    return linalg.block_diag(*xs)


@block_diag.vjp
def _(ct, y, *xs):
    parts: list[Any] = []
    row: Size = 0
    column: Size = 0
    for x in xs:
        rows, columns = shape_of(x)
        index = (Slice(row, row + rows), Slice(column, column + columns))
        parts.append(getitem(ct, index=index))
        row, column = row + rows, column + columns
    return tuple(parts)


@block_diag.accept("scipy.linalg:block_diag")
def _(*arrs):
    matrices = [atleast_2d(as_array(x)) for x in arrs]
    for x in matrices:
        if ndim_of(x) > 2:
            raise ShapeError(
                f"block_diag takes matrices, not an array of shape "
                f"{shape_text(shape_of(x))}",
                op="scipy.linalg.block_diag",
            )
    return block_diag(*matrices)
