"""Covariance and correlation."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ShapeError
from tracegrad.ir.types import ArrayType
from tracegrad.ops.cast import astype
from tracegrad.ops.create import size
from tracegrad.ops.define import ACCEPT, op
from tracegrad.ops.diagonal import diagonal
from tracegrad.ops.elementary import sqrt
from tracegrad.ops.index import expand_dims
from tracegrad.ops.infer import refuse, result_dtype
from tracegrad.ops.join import concatenate
from tracegrad.ops.norm import norm
from tracegrad.ops.product import conjugated, matmul, swap_last
from tracegrad.ops.record import as_array, dtype_of, ndim_of
from tracegrad.ops.reduce import NOT_GIVEN, mean
from tracegrad.ops.reduce import sum as reduce_sum
from tracegrad.ops.sample import arg
from tracegrad.ops.select import real
from tracegrad.ops.shape import atleast_2d, permute


# -------------------------------------------------------------------------- covariance
def _variables(t: ArrayType, rowvar: bool) -> tuple:
    """The shape of a matrix over the variables."""
    if t.ndim > 2:
        raise ShapeError(
            f"a covariance is of a matrix of observations, not of {t.ndim} axes"
        )
    if t.ndim < 2:
        return ()
    count = t.shape[0] if rowvar else t.shape[1]
    return () if count == 1 else (count, count)


def _infer_cov(t: ArrayType, *, rowvar, **attrs):
    dtype = result_dtype(t, ArrayType((), np.dtype(np.float64)))
    return ArrayType(_variables(t, rowvar), dtype)


def _centred(x: Any, rowvar: bool) -> tuple[Any, int]:
    """Observations less their means, and the axis that they lie along."""
    axis = 1 if rowvar and ndim_of(x) > 1 else 0
    return x - mean(x, axis=axis if ndim_of(x) > 1 else None, keepdims=True), axis


def _times(ct: Any, centred: Any, rowvar: bool) -> Any:
    """The symmetric part of `ct`, twice, times the observations."""
    if not ndim_of(ct):
        return 2.0 * ct * centred
    both = ct + swap_last(ct)
    return matmul(both, centred) if rowvar else matmul(centred, both)


@op(
    infer=_infer_cov,
    samples=[
        arg(3, "n").with_(),
        arg(4, 2).with_(rowvar=False),
        arg(5).with_(),
        arg(1, 4).with_(),
        arg(2, 5).with_(bias=True),
        arg(2, 5).with_(ddof=2),
    ],
)
def cov(x, *, rowvar=True, bias=False, ddof=None):
    """Covariance matrix of the rows, or the columns, of `x`."""
    return xp.cov(x, rowvar=rowvar, bias=bias, ddof=ddof)


@cov.vjp
def _(ct, y, x, *, rowvar, bias, ddof):
    centred, axis = _centred(x, rowvar)
    less = (0 if bias else 1) if ddof is None else ddof
    count = size(x, axis=axis)
    # What the mean adds is zero: the centred observations add up to zero.
    return _times(ct / (count - less if less else count), centred, rowvar)


def _joined(m: Any, y: Any, rowvar: bool) -> Any:
    """The variables of both arguments, one in each row."""
    x = as_array(m)
    if y is None:
        return x
    parts = []
    for part in (x, as_array(y)):
        turns = not rowvar and ndim_of(part) == 2
        parts.append(permute(part, None) if turns else atleast_2d(part))
    return concatenate(*parts)


def _weighted_cov(x: Any, rowvar: bool, ddof: Any, fweights: Any, aweights: Any) -> Any:
    """`np.cov` with weights, or of complex numbers, from its definition."""
    x = atleast_2d(x) if rowvar or ndim_of(x) < 2 else permute(x, None)
    weights = None
    for w in (fweights, aweights):
        if w is not None:
            weights = as_array(w) if weights is None else weights * as_array(w)
    average = ACCEPT[np.average](x, 1, weights)
    total = size(x, axis=1) if weights is None else reduce_sum(weights)
    centred = x - expand_dims(average, axis=(1,))
    if ddof == 0 or aweights is None:
        factor = total - ddof
    else:
        square = reduce_sum(weights * as_array(aweights))
        factor = total - (square if ddof == 1 else ddof * square) / total
    right = centred if weights is None else centred * weights
    made = matmul(centred, conjugated(permute(right, None))) / factor
    return ACCEPT[np.squeeze](made)


@cov.accept(np.cov)
def _(
    m,
    y=None,
    rowvar=True,
    bias=False,
    ddof=None,
    fweights=None,
    aweights=None,
    *,
    dtype=None,
):
    x = _joined(m, y, rowvar)
    rowvar = bool(rowvar) or y is not None or ndim_of(x) < 2
    if dtype is not None and np.dtype(dtype) != dtype_of(x):
        x = astype(x, dtype=np.dtype(dtype))
    plain = fweights is None and aweights is None and dtype_of(x).kind != "c"
    if plain and dtype is None:
        return cov(x, rowvar=rowvar, bias=bool(bias), ddof=ddof)
    less = (0 if bias else 1) if ddof is None else ddof
    return _weighted_cov(x, rowvar, less, fweights, aweights)


@op(
    infer=_infer_cov,
    samples=[arg(3, "n").with_(), arg(5, 2).with_(rowvar=False), arg(2, 4).with_()],
)
def corrcoef(x, *, rowvar=True):
    """Correlation matrix of the rows, or the columns, of `x`."""
    return xp.corrcoef(x, rowvar=rowvar)


@corrcoef.vjp
def _(ct, y, x, *, rowvar):
    if not ndim_of(y):
        return None
    centred, axis = _centred(x, rowvar)
    length = norm(centred, axis=axis, keepdims=True)
    unit = centred / length
    moved = _times(ct, unit, rowvar)
    along = reduce_sum(moved * unit, axis=axis, keepdims=True)
    return (moved - along * unit) / length


@corrcoef.accept(np.corrcoef)
def _(x, y=None, rowvar=True, bias=NOT_GIVEN, ddof=NOT_GIVEN, *, dtype=None):
    # NumPy ignores `bias` and `ddof` too.
    refuse("np.corrcoef", dtype=dtype)
    joined = _joined(x, y, rowvar)
    rowvar = bool(rowvar) or y is not None or ndim_of(joined) < 2
    if dtype_of(joined).kind != "c":
        return corrcoef(joined, rowvar=rowvar)
    c = _weighted_cov(joined, rowvar, 1, None, None)
    if not ndim_of(c):
        return c / c
    spread = sqrt(real(diagonal(c)))
    return c / expand_dims(spread, axis=(1,)) / spread
