"""Reductions and scans."""

from __future__ import annotations

import numpy as np
import numpy as xp

from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import op
from tracegrad.ops.infer import normal_axes, reduced_shape, ufunc_dtypes
from tracegrad.ops.record import ndim_of, shape_of
from tracegrad.ops.sample import arg
from tracegrad.ops.shape import broadcast_to, expand_dims


def spread(ct, x, axis, keepdims):
    """The cotangent of a reduction, repeated over the axes that were reduced."""
    axes = normal_axes(axis, ndim_of(x))
    if not keepdims and ndim_of(ct) and axes:
        ct = expand_dims(ct, axis=tuple(sorted(axes)))
    return broadcast_to(ct, shape=shape_of(x))


def _infer_sum(t: ArrayType, *, axis, keepdims):
    kind = t.dtype.kind
    dtype = t.dtype
    if kind in "biu" and t.dtype.itemsize < 8:
        # NumPy adds small integers in the platform's default integer.
        dtype = np.dtype(np.uint64 if kind == "u" else np.int64)
    return ArrayType(reduced_shape(t.shape, axis, keepdims), dtype)


@op(
    infer=_infer_sum,
    vjp=[lambda ct, y, x, *, axis, keepdims: spread(ct, x, axis, keepdims)],
    linear=True,
    samples=[
        arg(3).with_(),
        arg("n", 3).with_(axis=0),
        arg("n", 3).with_(axis=(1,), keepdims=True),
        arg(2, 3, 4).with_(axis=(0, 2)),
        arg().with_(),
    ],
)
def sum(x, *, axis=None, keepdims=False):
    """Sum over `axis`."""
    return xp.sum(x, axis=axis, keepdims=keepdims)


@sum.accept(np.sum, (np.add, "reduce"), methods=["sum"])
def _(x, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None):
    return sum(x, axis=axis, keepdims=bool(keepdims))


assert ufunc_dtypes is not None
