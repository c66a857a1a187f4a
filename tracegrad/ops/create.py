"""New arrays."""

from __future__ import annotations

import numpy as np
import numpy as xp

from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import op
from tracegrad.ops.infer import normal_axis
from tracegrad.ops.sample import Sample, arg


@op(
    infer=lambda *, shape, dtype: ArrayType(tuple(shape), np.dtype(dtype)),
    vjp=[],
    samples=[Sample((), {"shape": (2, 3)})],
)
def zeros(*, shape, dtype="float64"):
    """Zeros."""
    return xp.zeros(shape, dtype=dtype)


def _infer_size(t: ArrayType, *, axis):
    if axis is not None:
        normal_axis(axis, t.ndim)
    return ArrayType((), np.dtype(np.int64), weak=True)


@op(
    infer=_infer_size,
    vjp=[None],
    type_only=(0,),
    spelling="x.size",
    cheap=True,
    samples=[arg(2, 3).with_(), arg("n", 3).with_(axis=0)],
)
def size(x, *, axis=None):
    """Number of elements, or of those along `axis`; of `x` only the type is read."""
    if axis is None:
        return x.size
    return x.shape[axis]


def _infer_like(t: ArrayType, *, dtype=None):
    return t.strong if dtype is None else t.with_dtype(dtype)


@op(
    infer=_infer_like,
    vjp=[None],
    type_only=(0,),
    samples=[arg(2, 3).with_(), arg("n").with_(dtype="float32"), arg().with_()],
)
def zeros_like(x, *, dtype=None):
    """Zeros with the shape of `x`, and its dtype unless another is given."""
    return xp.zeros_like(x, dtype=dtype)


@op(
    infer=lambda t: t.with_dtype(np.int64),
    vjp=[None],
    type_only=(0,),
    samples=[arg(2, 3).with_(), arg("n").with_(), arg().with_()],
)
def positions(x):
    """The position of each element of `x` in C order; of `x` only the type is read."""
    return xp.arange(xp.size(x)).reshape(xp.shape(x))


@op(
    infer=lambda *, size: ArrayType((), np.dtype(np.int64), weak=True),
    vjp=[],
    cheap=True,
    samples=[Sample((), {"size": 3})],
)
def dim(*, size):
    """A size (an int, or a symbolic `Dim`) as a number to compute with."""
    return size
