"""Evenly spaced numbers between traced ends."""

from __future__ import annotations

import operator

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError
from tracegrad.ir.types import ArrayType
from tracegrad.ops.cast import astype
from tracegrad.ops.define import ACCEPT, accept, op
from tracegrad.ops.infer import broadcast_shapes, refuse, result_dtype
from tracegrad.ops.product import tensordot
from tracegrad.ops.record import as_operand, dtype_of, ndim_of
from tracegrad.ops.reduce import averaged
from tracegrad.ops.reduce import sum as reduce_sum
from tracegrad.ops.sample import arg, call, data
from tracegrad.ops.shape import moveaxis


@op(
    infer=lambda t, *, endpoint: ArrayType((t.shape[0],), np.dtype(np.float64)),
    vjp=[None],
    type_only=(0,),
    samples=[arg("n", 2).with_(), arg(3).with_(endpoint=False)],
)
def ramp(x, *, endpoint=True):
    """0 to 1 in as many steps as `x` is long; of `x` only the type is read."""
    return xp.linspace(0.0, 1.0, x.shape[0], endpoint=endpoint)


def _infer_linspace(a: ArrayType, b: ArrayType, *, num, endpoint):
    shape = (num, *broadcast_shapes(a.shape, b.shape))
    return ArrayType(shape, averaged(result_dtype(a, b)))


@op(
    infer=_infer_linspace,
    linear=True,
    samples=[
        call(arg(), arg(), num=5),
        call(arg(), arg(2), num=4, endpoint=False),
        call(arg(2, 3), arg(3), num=3),
        call(arg(), arg(), num=1),
    ],
)
def linspace(start, stop, *, num, endpoint=True):
    """`num` evenly spaced numbers from `start` to `stop`, along a new first axis."""
    return xp.linspace(start, stop, num, endpoint=endpoint)


@linspace.batch
def _(b, start, stop, **attrs):
    rank = max(b.rank(0), b.rank(1))
    return moveaxis(linspace(b.aligned(0, rank), b.aligned(1, rank), **attrs), 1, 0)


@linspace.vjp
def _(ct, y, start, stop, *, num, endpoint):
    of_stop = tensordot(ramp(ct, endpoint=endpoint), ct, axes=1)
    return reduce_sum(ct, axis=0 if ndim_of(ct) > 1 else None) - of_stop, of_stop


@linspace.accept(np.linspace)
def linspace_call(
    start,
    stop,
    num=50,
    endpoint=True,
    retstep=False,
    dtype=None,
    axis=0,
    *,
    device=None,
):
    """`np.linspace` with all its arguments."""
    refuse("np.linspace", device=device)
    num = operator.index(num)
    if num < 0:
        raise ArgumentError(f"np.linspace takes 0 numbers or more, not {num}")
    start, stop = as_operand(start), as_operand(stop)
    out = linspace(start, stop, num=num, endpoint=bool(endpoint))
    if axis not in (0, -ndim_of(out)):
        out = moveaxis(out, 0, axis)
    if dtype is not None and np.dtype(dtype) != dtype_of(out):
        out = astype(out, dtype=np.dtype(dtype).name)
    if not retstep:
        return out
    gaps = num - 1 if endpoint else num
    return out, (stop - start) / gaps if gaps > 0 else np.nan


@accept(np.logspace)
def _(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0):
    out = as_operand(base) ** linspace_call(start, stop, num, endpoint, axis=axis)
    return out if dtype is None else astype(out, dtype=np.dtype(dtype).name)


def _infer_geomspace(a: ArrayType, b: ArrayType, *, num, endpoint):
    wide = np.result_type(result_dtype(a, b), np.float64)
    return ArrayType((num, *broadcast_shapes(a.shape, b.shape)), wide)


@op(
    infer=_infer_geomspace,
    samples=[
        call(arg(lo=0.5), arg(lo=0.5), num=5),
        call(data(-2.0), data(-0.5), num=4, endpoint=False),
        call(arg(2, 3, lo=0.5), arg(3, lo=0.5), num=3),
        call(data(1.0 + 2.0j, "complex128"), data(3.0 - 0.5j, "complex128"), num=4),
    ],
)
def geomspace(start, stop, *, num, endpoint=True):
    """`num` numbers from `start` to `stop` in equal ratios, along a new first axis."""
    return xp.geomspace(start, stop, num, endpoint=endpoint)


@geomspace.vjp
def _(ct, y, start, stop, *, num, endpoint):
    # y is start**(1 - t) * stop**t, with t from 0 to 1.
    moved = ct * y
    of_stop = tensordot(ramp(ct, endpoint=endpoint), moved, axes=1)
    total = reduce_sum(moved, axis=0 if ndim_of(ct) > 1 else None)
    return (total - of_stop) / start, of_stop / stop


@geomspace.accept(np.geomspace)
def _(start, stop, num=50, endpoint=True, dtype=None, axis=0):
    start, stop = as_operand(start), as_operand(stop)
    out = geomspace(start, stop, num=operator.index(num), endpoint=bool(endpoint))
    if axis not in (0, -ndim_of(out)):
        out = moveaxis(out, 0, axis)
    return out if dtype is None else astype(out, dtype=np.dtype(dtype).name)


@accept(np.kaiser)
def _(M, beta):
    count = operator.index(M)
    if count <= 1:
        return np.ones(max(count, 0))
    half = (count - 1) / 2.0
    rise = np.sqrt(1.0 - ((np.arange(count) - half) / half) ** 2)
    beta = as_operand(beta)
    return ACCEPT[np.i0](beta * rise) / ACCEPT[np.i0](beta)
