"""New arrays."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError
from tracegrad.ir.dims import max_, product, slice_length
from tracegrad.ir.types import ArrayType, Dim
from tracegrad.ops.define import accept, op
from tracegrad.ops.infer import (
    broadcast_shapes,
    decide,
    normal_axes,
    normal_axis,
    refuse,
)
from tracegrad.ops.record import as_operand, is_traced, shape_of, type_of
from tracegrad.ops.sample import Sample, arg, call


def _new(*, shape, dtype):
    return ArrayType(tuple(shape), np.dtype(dtype))


@op(infer=_new, vjp=[], samples=[Sample((), {"shape": (2, 3)})])
def zeros(*, shape, dtype="float64"):
    """Zeros."""
    if len(shape) == 1:
        return xp.zeros(shape[0], dtype=dtype)
    return xp.zeros(shape, dtype=dtype)


@op(infer=_new, vjp=[], samples=[Sample((), {"shape": (2,), "dtype": "int64"})])
def ones(*, shape, dtype="float64"):
    """Ones."""
    if len(shape) == 1:
        return xp.ones(shape[0], dtype=dtype)
    return xp.ones(shape, dtype=dtype)


def _infer_full(t: ArrayType, *, shape, dtype):
    broadcast_shapes(t.shape, shape)
    return ArrayType(shape, t.dtype if dtype is None else np.dtype(dtype))


@op(
    infer=_infer_full,
    # The engine sums a cotangent back to the shape of its primal.
    vjp=[lambda ct, y, x, *, shape, dtype: ct],
    linear=True,
    samples=[
        arg().with_(shape=(2, 3)),
        arg(3).with_(shape=(2, 3)),
        arg().with_(shape=(2,), dtype="float32").rough(),
    ],
)
def full(x, *, shape, dtype=None):
    """An array filled with `x`, which broadcasts to `shape`."""
    if len(shape) == 1:
        return xp.full(shape[0], x, dtype=dtype)
    return xp.full(shape, x, dtype=dtype)


@full.batch
def _(b, x, *, shape, dtype):
    rank = len(shape)
    return full(b.aligned(0, rank), shape=(b.size, *shape), dtype=dtype)


@op(
    infer=lambda *, n, m, k, dtype: ArrayType(
        (n, n if m is None else m), np.dtype(dtype)
    ),
    vjp=[],
    samples=[Sample((), {"n": 3}), Sample((), {"n": 2, "m": 3, "k": 1})],
)
def eye(*, n, m=None, k=0, dtype="float64"):
    """Ones on the diagonal `k` of a matrix of zeros."""
    if m is None:
        return xp.eye(n, k=k, dtype=dtype)
    return xp.eye(n, m, k=k, dtype=dtype)


def _infer_arange(*, start, stop, step, dtype):
    count = slice_length(0, None, step, max_(0, stop - start), decide)
    return ArrayType((count,), np.dtype(dtype))


@op(
    infer=_infer_arange,
    vjp=[],
    samples=[Sample((), {"stop": 3}), Sample((), {"start": 1, "stop": 6, "step": 2})],
)
def arange(*, start=0, stop, step=1, dtype="int64"):
    """Whole numbers from `start` to `stop`, which is left out."""
    if start == 0 and step == 1:
        return xp.arange(stop, dtype=dtype)
    return xp.arange(start, stop, step, dtype=dtype)


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


@size.batch
def _(b, x, *, axis):
    axes = range(b.rank(0)) if axis is None else (axis % b.rank(0),)
    count: Any = None
    for a in axes:
        along = size(x, axis=a + 1)
        count = along if count is None else count * along
    return b.unbatched(size(b.example(0)) if count is None else count)


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


@zeros_like.batch
def _(b, x, *, dtype):
    return zeros_like(x, dtype=dtype)


@op(
    infer=lambda t, value: t.strong,
    vjp=[None, lambda ct, y, x, value: ct],
    type_only=(0,),
    samples=[call(arg(2, 3), arg()), call(arg("n", dtype="float32"), arg()).rough()],
)
def full_like(x, value):
    """An array of the type of `x`, filled with the scalar `value`."""
    return xp.full_like(x, value)


@full_like.batch
def _(b, x, value):
    return full_like(b.whole(0), b.aligned(1, b.rank(0)))


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


@accept(Dim)
def _(size):
    return dim(size=size)


# --------------------------------------------------------------------- what users write
# Where nothing is traced or symbolic these are plain NumPy calls, whose results a trace
# takes as buffers to write into.
def _as_shape(shape: Any) -> tuple:
    given = shape if isinstance(shape, tuple | list | np.ndarray) else (shape,)
    return tuple([s if isinstance(s, Dim) else operator.index(s) for s in given])


def _name(dtype: Any) -> str:
    return np.dtype(dtype).name


@accept(np.zeros, np.empty, constant=True)
def zeros_call(shape, dtype=float, order="C", *, device=None, like=None):
    """`np.zeros` and, with zeros for whatever the memory holds, `np.empty`."""
    refuse("np.zeros", device=device, like=like)
    return zeros(shape=_as_shape(shape), dtype=_name(dtype))


@accept(np.ones, constant=True)
def ones_call(shape, dtype=None, order="C", *, device=None, like=None):
    """`np.ones` with all its arguments."""
    refuse("np.ones", device=device, like=like)
    return ones(shape=_as_shape(shape), dtype=_name(dtype))


@accept(np.full)
def full_call(shape, fill_value, dtype=None, order="C", *, device=None, like=None):
    """`np.full` with all its arguments."""
    refuse("np.full", device=device, like=like)
    dtype = None if dtype is None else _name(dtype)
    return full(as_operand(fill_value), shape=_as_shape(shape), dtype=dtype)


def _like(a, dtype, shape):
    """Shape and dtype of `np.zeros_like(a, ...)`."""
    t = type_of(as_operand(a))
    name = t.dtype.name if dtype is None else _name(dtype)
    return {"shape": t.shape if shape is None else _as_shape(shape), "dtype": name}


@accept(np.zeros_like, np.empty_like, constant=True)
def _(a, dtype=None, order="K", subok=True, shape=None, *, device=None):
    refuse("np.zeros_like", device=device)
    return zeros(**_like(a, dtype, shape))


@accept(np.ones_like, constant=True)
def _(a, dtype=None, order="K", subok=True, shape=None, *, device=None):
    refuse("np.ones_like", device=device)
    return ones(**_like(a, dtype, shape))


@accept(np.full_like)
def _(a, fill_value, dtype=None, order="K", subok=True, shape=None, *, device=None):
    refuse("np.full_like", device=device)
    return full(as_operand(fill_value), **_like(a, dtype, shape))


@accept(np.eye, constant=True)
def eye_call(N, M=None, k=0, dtype=float, order="C", *, device=None, like=None):
    """`np.eye` with all its arguments."""
    refuse("np.eye", device=device, like=like)
    n, m = _as_shape((N, N if M is None else M))
    return eye(n=n, m=None if m == n else m, k=operator.index(k), dtype=_name(dtype))


@accept(np.identity, constant=True)
def _(n, dtype=None, *, like=None):
    return eye_call(n, dtype=dtype, like=like)


@accept(np.arange, constant=True)
def _(start=None, stop=None, step=None, dtype=None, *, device=None, like=None):
    refuse("np.arange", device=device, like=like)
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    if any(is_traced(x) for x in (start, stop, step)):
        raise ArgumentError(
            "np.arange with a traced start, stop or step has a size that depends on "
            "data",
            op="np.arange",
            fix="use np.linspace(start, stop, count), or plain numbers",
        )
    if not any(isinstance(x, Dim) for x in (start, stop, step)):
        return np.arange(start, stop, step, dtype=dtype)
    start, stop, step = _as_shape((start, stop, step))
    name = "int64" if dtype is None else _name(dtype)
    return arange(start=start, stop=stop, step=step, dtype=name)


@accept(np.size, constant=True)
def _(a, axis=None):
    count = shape_of(as_operand(a))
    if axis is None:
        return product(count)
    return product([count[i] for i in normal_axes(axis, len(count))])


@accept(np.shape, constant=True)
def _(a):
    return shape_of(as_operand(a))


@accept(np.ndim, constant=True)
def _(a):
    return len(shape_of(as_operand(a)))
