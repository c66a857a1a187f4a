"""Norms of vectors and matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError
from tracegrad.ir.dims import product
from tracegrad.ir.types import ArrayType
from tracegrad.ops.cast import astype
from tracegrad.ops.decompositions import svdvals
from tracegrad.ops.define import accept, op
from tracegrad.ops.extreme import max as reduce_max
from tracegrad.ops.extreme import min as reduce_min
from tracegrad.ops.index import expand_dims, read
from tracegrad.ops.infer import canonical_axis, normal_axes, reduced_shape
from tracegrad.ops.record import as_array, dtype_of, ndim_of
from tracegrad.ops.reduce import count_nonzero, keep_axes, squared
from tracegrad.ops.reduce import sum as reduce_sum
from tracegrad.ops.sample import arg, data
from tracegrad.ops.select import absolute, conj, sign, where
from tracegrad.ops.shape import moveaxis, ravel, reshape


def _infer_norm(t: ArrayType, *, ord, axis, keepdims):
    return ArrayType(reduced_shape(t.shape, axis, keepdims), squared(t.dtype))


@op(
    infer=_infer_norm,
    spelling="np.linalg.norm",
    samples=[
        arg(3).with_(),
        arg("n", 3).with_(),
        arg("n", 3).with_(axis=0),
        arg(2, 3, 4).with_(axis=(0, 2), keepdims=True),
        arg("n", 3).with_(ord=3, axis=1),
        arg(3).with_(ord=2.5),
        arg(3, dtype="complex128").with_(),
        arg(3, dtype="float32").with_().rough(),
        data((0.0, 0.0)).with_().rough(),
    ],
)
def norm(x, *, ord=None, axis=None, keepdims=False):
    """Root of the sum of squares over `axis`, or of other powers `ord`.

    The derivative at 0, where there is none, is taken as 0.
    """
    return xp.linalg.norm(x, ord=ord, axis=axis, keepdims=keepdims)


@norm.batch
def _(b, x, *, ord, axis, keepdims):
    rank = b.rank(0)
    if axis is None and ord is None and rank != 2:
        x = reshape(x, shape=(b.size, product(b.node.inputs[0].type.shape)))
        made = norm(x, axis=1)
        return reshape(made, shape=(b.size, *b.node.out.type.shape))
    axes = tuple(range(rank)) if axis is None else axis
    axes = axes if isinstance(axes, tuple) else (axes,)
    moved = tuple([a % rank + 1 for a in axes])
    return norm(
        x, ord=ord, axis=moved if len(moved) > 1 else moved[0], keepdims=keepdims
    )


@norm.vjp
def _(ct, y, x, *, ord, axis, keepdims):
    length = where(y == 0, 1.0, y)
    if ord is None:
        direction = conj(x) if dtype_of(x).kind == "c" else x
        return keep_axes(ct / length, x, axis, keepdims) * direction
    scale = keep_axes(ct / length ** (ord - 1), x, axis, keepdims)
    return scale * (sign(x) * absolute(x) ** (ord - 1))


def _vector_norm(x: Any, ord: Any, axis: Any, keepdims: bool) -> Any:
    how = {"axis": axis, "keepdims": keepdims}
    if ord is None or ord == 2:
        return norm(x, **how)
    if ord == np.inf:
        return reduce_max(absolute(x), **how)
    if ord == -np.inf:
        return reduce_min(absolute(x), **how)
    if ord == 1:
        return reduce_sum(absolute(x), **how)
    if ord == 0:
        return astype(count_nonzero(x, **how), dtype=squared(dtype_of(x)).name)
    one = isinstance(axis, int) or (axis is None and ndim_of(x) == 1)
    if ord > 1 and dtype_of(x).kind != "c" and one:
        return norm(x, ord=ord, **how)
    return reduce_sum(absolute(x) ** ord, **how) ** (1.0 / ord)


def _matrix_norm(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    rows, columns = axes
    if ord is None or ord == "fro":
        return norm(x, axis=canonical_axis(axes, ndim_of(x)), keepdims=keepdims)
    if ord in (2, -2, "nuc"):
        return _spectral_norm(x, ord, axes, keepdims)
    if ord not in (1, -1, np.inf, -np.inf):
        raise ArgumentError(
            f"a matrix has no norm of order {ord!r}",
            op="np.linalg.norm",
            fix="use ord None, 'fro', 'nuc', 1, -1, 2, -2, np.inf or -np.inf",
        )
    # Sums of columns, or of rows, and the extreme one of them.
    added, over = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = reduce_sum(absolute(x), axis=added, keepdims=True)
    extreme = reduce_max if ord > 0 else reduce_min
    out = extreme(sums, axis=over, keepdims=True)
    if keepdims:
        return out
    return reduce_sum(out, axis=canonical_axis(axes, ndim_of(x)))


def _spectral_norm(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    s = svdvals(moveaxis(x, axes, (-2, -1)))
    if ord == "nuc":
        out = reduce_sum(s, axis=ndim_of(s) - 1)
    else:
        out = read(s, (..., 0 if ord == 2 else -1))
    return expand_dims(out, axis=tuple(sorted(axes))) if keepdims else out


def _floating(x: Any) -> Any:
    x = as_array(x)
    return astype(x, dtype="float64") if dtype_of(x).kind in "biu" else x


@accept(np.linalg.norm)
def _(x, ord=None, axis=None, keepdims=False):
    x = _floating(x)
    rank, keepdims = ndim_of(x), bool(keepdims)
    if axis is None and (ord is None or rank == 0):
        return norm(x, keepdims=keepdims)
    axes = normal_axes(axis, rank)
    if len(axes) == 1:
        return _vector_norm(x, ord, canonical_axis(axes, rank), keepdims)
    if len(axes) == 2:
        return _matrix_norm(x, ord, axes, keepdims)
    raise ArgumentError(
        f"np.linalg.norm over {len(axes)} axes is no vector and no matrix norm",
        op="np.linalg.norm",
        fix="name one axis or two with axis=",
    )


@accept(np.linalg.vector_norm)
def _(x, /, *, axis=None, keepdims=False, ord=2):
    x = _floating(x)
    if axis is None and not keepdims and ndim_of(x) != 1:
        return _vector_norm(ravel(x), ord, None, False)
    return _vector_norm(x, ord, canonical_axis(axis, ndim_of(x)), bool(keepdims))


@accept(np.linalg.matrix_norm)
def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """`np.linalg.matrix_norm` with all its arguments."""
    x = _floating(x)
    n = ndim_of(x)
    return _matrix_norm(x, ord, (n - 2, n - 1), bool(keepdims))
