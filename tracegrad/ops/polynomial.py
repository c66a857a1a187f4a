"""Polynomials, given by their coefficients from the highest power down."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ir.index import Slice
from tracegrad.ir.types import ArrayType, Dim
from tracegrad.ops.convolve import convolve
from tracegrad.ops.define import ACCEPT, METHODS, accept, op
from tracegrad.ops.index import along, expand_dims, getitem
from tracegrad.ops.infer import refuse, result_dtype, same_size
from tracegrad.ops.join import concatenate, stack
from tracegrad.ops.norm import norm
from tracegrad.ops.product import matmul, swap_last
from tracegrad.ops.rearrange import pad
from tracegrad.ops.record import as_array, as_operand, dtype_of, ndim_of, shape_of
from tracegrad.ops.reduce import sum as reduce_sum
from tracegrad.ops.sample import arg, call, data
from tracegrad.ops.select import real
from tracegrad.ops.shape import atleast_1d, broadcast_to, ravel


def _coefficients(p: Any) -> Any:
    p = as_array(p)
    if ndim_of(p) > 1:
        raise ShapeError("the coefficients of a polynomial are a vector")
    return p if ndim_of(p) else expand_dims(p, axis=(0,))


def _fixed(function: str, p: Any) -> int:
    """The number of coefficients, which has to be known."""
    count = shape_of(p)[0]
    if isinstance(count, Dim):
        raise ShapeError(
            f"{function} needs a fixed number of coefficients, not {count}",
            fix="trace with numbers for the sizes",
        )
    return count


# --------------------------------------------------------------------------- evaluation
def _infer_polyval(p: ArrayType, x: ArrayType):
    if p.ndim < 1:
        raise ShapeError("np.polyval takes a vector of coefficients")
    # NumPy starts from zeros like `x`.
    return ArrayType(x.shape, result_dtype(p, x))


@op(
    infer=_infer_polyval,
    samples=[
        call(arg(4), arg("n")),
        call(arg(1), arg(2, 3)),
        call(arg(3), arg()),
        call(arg(3, dtype="complex128"), arg(2)),
        call(arg(3), arg(2, dtype="complex128")),
        call(arg(3, dtype="float32"), arg(2, dtype="float32")).rough(),
    ],
)
def polyval(p, x):
    """The polynomial with coefficients `p`, the highest power first, at `x`."""
    return xp.polyval(p, x)


@polyval.batch
def _(b, p, x):
    return NotImplemented if b.has(0) else polyval(p, x)


@polyval.vjp
def _(ct, y, p, x):
    count = _fixed("np.polyval", p)
    points, weight = (x, ct) if ndim_of(x) == 1 else (_vector(x), _vector(ct))
    of_p = matmul(weight, vander(points, n=count))
    if count == 1:
        return of_p, None
    powers = np.arange(count - 1, 0, -1)
    if dtype_of(p).kind in "fc":
        powers = powers.astype(dtype_of(p))
    slopes = getitem(p, index=(Slice(None, -1),)) * powers
    return of_p, ct * polyval(slopes, x)


def _vector(x: Any) -> Any:
    return broadcast_to(x, shape=(1,)) if not ndim_of(x) else ravel(x)


@polyval.accept(np.polyval)
def _(p, x):
    if isinstance(p, np.poly1d):
        p = p.coeffs
    return polyval(_coefficients(p), as_array(x))


def _infer_vander(t: ArrayType, *, n, increasing):
    return ArrayType(
        (t.shape[0], n), result_dtype(t, ArrayType((), np.dtype(np.int64)))
    )


@op(
    infer=_infer_vander,
    samples=[
        arg("n").with_(n=3),
        arg(3).with_(n=4, increasing=True),
        arg(2).with_(n=1),
        arg(2, dtype="complex128").with_(n=3),
        arg(3, dtype="int64").with_(n=3),
    ],
)
def vander(x, *, n, increasing=False):
    """The powers of `x`, one in each column, from the highest one down."""
    return xp.vander(x, n, increasing=increasing)


@vander.vjp
def _(ct, y, x, *, n, increasing):
    if n == 1:
        return None
    # The column of x**k has the slope k * x**(k - 1), which is a column too.
    kept = Slice(1, None) if increasing else Slice(None, -1)
    lower = Slice(None, -1) if increasing else Slice(1, None)
    powers = np.arange(1, n) if increasing else np.arange(n - 1, 0, -1)
    if dtype_of(x).kind in "fc":
        powers = powers.astype(dtype_of(x))
    return reduce_sum(
        getitem(ct, index=along(1, kept)) * getitem(y, index=along(1, lower)) * powers,
        axis=1,
    )


@vander.accept(np.vander)
def _(x, N=None, increasing=False):
    x = as_array(x)
    n = shape_of(x)[0] if N is None else operator.index(N)
    if isinstance(n, Dim):
        n = _fixed("np.vander", x)
    return vander(x, n=n, increasing=bool(increasing))


# ------------------------------------------------------------------------------- roots
@op(
    infer=lambda p: ArrayType((p.shape[0] - 1,), np.result_type(p.dtype, np.complex64)),
    samples=[
        data((1.0, 0.5, 2.0, -1.0)).with_(),
        data((2.0, -1.0, -3.0)).with_(),
        data((1.0 + 0.5j, 0.5, 2.0j), "complex128").with_(),
    ],
)
def roots(p):
    """The roots of a polynomial, always complex; the first coefficient is not 0.

    By the implicit function theorem a simple root r moves with coefficient k by
    -r**(n - k) / p'(r); for multiple roots the derivative is infinite.
    """
    return xp.roots(p) + 0j


@roots.body("jax")
def _(p):
    return xp.roots(p, strip_zeros=False) + 0j  # type: ignore[call-arg]


@roots.vjp
def _(ct, y, p):
    count = _fixed("np.roots", p)
    slope = polyval(_derivative(p), y)
    return -matmul(ct / slope, vander(y, n=count))


@roots.accept(np.roots)
def _(p):
    p = _coefficients(p)
    _fixed("np.roots", p)
    return roots(p)


@accept(np.poly)
def _(seq_of_zeros):
    zeros = as_array(seq_of_zeros)
    takes_real = dtype_of(zeros).kind != "c"
    if ndim_of(zeros) == 2:
        zeros = ACCEPT[np.linalg.eigvals](zeros)
    zeros = _coefficients(zeros)
    if dtype_of(zeros).char not in "fdFD":
        zeros = METHODS["astype"](zeros, np.float64)
    made = as_operand(np.ones(1, dtype_of(zeros)))
    for i in range(_fixed("np.poly", zeros)):
        one = np.ones((), dtype_of(zeros))
        made = convolve(made, stack(one, -getitem(zeros, index=(i,))))
    # The eigenvalues of a real matrix come in conjugate pairs.
    return real(made) if takes_real and dtype_of(made).kind == "c" else made


# -------------------------------------------------------------------------- arithmetic
def _aligned(a: Any, b: Any) -> tuple:
    """Both coefficient vectors, the shorter one filled up with zeros in front."""
    sizes = _fixed("np.polyadd", a), _fixed("np.polyadd", b)
    full = max(sizes)
    return tuple(
        [
            p if n == full else concatenate(np.zeros(full - n, dtype_of(p)), p)
            for p, n in zip((a, b), sizes, strict=True)
        ]
    )


@accept(np.polyadd)
def polyadd(a1, a2):
    """The sum of two polynomials."""
    a, b = _aligned(_coefficients(a1), _coefficients(a2))
    return a + b


@accept(np.polysub)
def _(a1, a2):
    a, b = _aligned(_coefficients(a1), _coefficients(a2))
    return a - b


@accept(np.polymul)
def _(a1, a2):
    return convolve(_coefficients(a1), _coefficients(a2))


@accept(np.polydiv)
def _(u, v):
    """Quotient and remainder; the remainder keeps its leading zeros, if it has any."""
    u, v = _coefficients(u) + 0.0, _coefficients(v) + 0.0
    n, m = _fixed("np.polydiv", u), _fixed("np.polydiv", v)
    if n < m:
        return np.zeros(1), u
    scale, rest = 1.0 / getitem(v, index=(0,)), getitem(v, index=(Slice(1, None),))
    quotient = []
    for _ in range(n - m + 1):
        lead = getitem(u, index=(0,)) * scale
        quotient.append(lead)
        head = getitem(u, index=(Slice(1, m),)) - lead * rest
        u = concatenate(head, getitem(u, index=(Slice(m, None),)))
    return stack(*quotient), u if m > 1 else np.zeros(1)


@accept(np.polyder)
def _(p, m=1):
    p = _coefficients(p)
    for _ in range(operator.index(m)):
        powers = np.arange(_fixed("np.polyder", p) - 1, 0, -1)
        p = getitem(p, index=(Slice(None, -1),)) * powers
    return p


@accept(np.polyint)
def _(p, m=1, k=None):
    p, m = _coefficients(p), operator.index(m)
    added = atleast_1d(as_array(0.0 if k is None else k))
    count = shape_of(added)[0]
    if count not in (1, m) and not (isinstance(count, int) and count > m):
        raise ArgumentError(
            f"np.polyint takes one constant, or one for each of {m} integrals, not "
            f"{count}"
        )
    for i in range(m):
        powers = np.arange(_fixed("np.polyint", p), 0, -1)
        at = i if count != 1 else 0
        end = 0.0 if k is None else getitem(added, index=(at,))
        p = concatenate(p / powers, expand_dims(as_array(end), axis=(0,)))
    return p


# ------------------------------------------------------------------------------- fits
def _infer_polyfit(x: ArrayType, y: ArrayType, *, deg):
    if x.ndim != 1 or y.ndim not in (1, 2) or not same_size(x.shape[0], y.shape[0]):
        raise ShapeError(
            f"np.polyfit takes a vector and as many values, not shapes {x.shape} and "
            f"{y.shape}"
        )
    dtype = result_dtype(x, y, ArrayType((), np.dtype(np.float64)))
    return ArrayType((deg + 1, *y.shape[1:]), dtype)


@op(
    infer=_infer_polyfit,
    samples=[
        call(arg("n"), arg("n"), deg=1),
        call(arg(5), arg(5), deg=2),
        call(arg(4), arg(4, 2), deg=1),
    ],
)
def polyfit(x, y, *, deg):
    """Coefficients of the polynomial of degree `deg` nearest to `y` in squares."""
    return xp.polyfit(x, y, deg)


@polyfit.vjp
def _(ct, c, x, y, *, deg):
    # Of the solution of the normal equations A'A c = A'y, with A the powers of x.
    powers = vander(x, n=deg + 1)
    inverse = ACCEPT[np.linalg.pinv](powers)
    of_y = matmul(swap_last(inverse), ct)
    if deg == 0:
        return None, of_y
    back = matmul(inverse, of_y)
    # The slope of each power at each point; that of the last, a constant, is 0.
    slopes = vander(x, n=deg) * np.arange(deg, 0.0, -1.0)
    slopes = pad(slopes, pad_width=((0, 0), (0, 1)))
    rest = y - matmul(powers, c)
    of_x = rest * matmul(slopes, back) - of_y * matmul(slopes, c)
    return (reduce_sum(of_x, axis=1) if ndim_of(y) > 1 else of_x), of_y


def _derivative(p: Any) -> Any:
    """Coefficients of the derivative; columns are polynomials of their own."""
    count = shape_of(p)[0]
    powers = np.arange(int(count) - 1.0, 0.0, -1.0)
    if ndim_of(p) > 1:
        powers = powers[:, None]
    return getitem(p, index=(Slice(None, -1),)) * powers


@polyfit.accept(np.polyfit)
def _(x, y, deg, rcond=None, full=False, w=None, cov=False):
    refuse("np.polyfit", full=full or None, cov=cov or None, rcond=rcond)
    x, y, deg = as_array(x), as_array(y), operator.index(deg)
    if w is None:
        return polyfit(x, y, deg=deg)
    w = as_array(w)
    column = expand_dims(w, axis=(1,))
    matrix = vander(x + 0.0, n=deg + 1) * column
    y = y * (w if ndim_of(y) == 1 else column)
    scale = norm(matrix, axis=0)
    solution = ACCEPT[np.linalg.lstsq](matrix / scale, y, None)[0]
    return solution / (scale if ndim_of(y) == 1 else expand_dims(scale, axis=(1,)))
