"""Scans: running sums and products along an axis."""

from __future__ import annotations

import operator

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError
from tracegrad.ir.types import ArrayType
from tracegrad.ops.cast import astype
from tracegrad.ops.create import full
from tracegrad.ops.define import Batch, accept, op
from tracegrad.ops.index import flip_axes
from tracegrad.ops.infer import like_first, normal_axis, refuse
from tracegrad.ops.join import concatenate
from tracegrad.ops.library import Library
from tracegrad.ops.record import as_array, dtype_of, ndim_of, shape_of
from tracegrad.ops.sample import arg, call, data
from tracegrad.ops.shape import ravel, to_shape

# Only JAX source imports it.
lax = Library("jax.lax")


def _infer_scan(t: ArrayType, *, axis):
    dtype = t.dtype
    if dtype.kind in "biu" and dtype.itemsize < 8:
        dtype = np.dtype(np.uint64 if dtype.kind == "u" else np.int64)
    return t.with_dtype(dtype)


_SCANS = [
    arg("n").with_(axis=0),
    arg("n", 3).with_(axis=0),
    arg(2, 3, 4).with_(axis=1),
    arg(3, dtype="float32").with_(axis=0).rough(),
    arg(3, dtype="int32").with_(axis=0),
    arg(3, dtype="complex128").with_(axis=0),
]


@op(infer=_infer_scan, linear=True, batch=Batch.LANE, samples=_SCANS)
def cumsum(x, *, axis=None):
    """Running sum along `axis`, which only a user leaves out."""
    return x.cumsum(axis=axis)


@cumsum.vjp
def _(ct, y, x, *, axis):
    return flip_axes(cumsum(flip_axes(ct, (axis,)), axis=axis), (axis,))


@op(
    infer=_infer_scan,
    batch=Batch.LANE,
    samples=[
        *_SCANS,
        data((2.0, 0.0, 3.0, 4.0)).with_(axis=0),
        data(((2.0, 0.0), (0.0, 3.0), (0.0, 1.0))).with_(axis=0),
    ],
)
def cumprod(x, *, axis=None):
    """Running product along `axis`, which only a user leaves out."""
    return x.cumprod(axis=axis)


@cumprod.vjp
def _pull_cumprod(ct, y, x, *, axis):
    # d y[k] / d x[i] is y[i - 1] * x[i + 1] * ... * x[k]; no division, for the zeros.
    before = shifted(y, axis=axis, fill_value=1.0)
    after = shifted(x, axis=axis, fill_value=0.0, back=True)
    return before * recurrence(after, ct, axis=axis, back=True)


def _scan_call(which, a, axis, dtype, out):
    refuse(f"np.{which.name}", out=out)
    x = as_array(a)
    if dtype is not None and np.dtype(dtype) != dtype_of(x):
        x = astype(x, dtype=np.dtype(dtype).name)
    if axis is None:
        x = x if ndim_of(x) == 1 else ravel(x)
        return which(x, axis=0)
    if not ndim_of(x) and operator.index(axis) in (0, -1):
        x = to_shape(x, (1,))
    return which(x, axis=normal_axis(axis, ndim_of(x)))


@cumsum.accept(np.cumsum, methods=["cumsum"])
def _(a, axis=None, dtype=None, out=None):
    return _scan_call(cumsum, a, axis, dtype, out)


@cumprod.accept(np.cumprod, methods=["cumprod"])
def _(a, axis=None, dtype=None, out=None):
    return _scan_call(cumprod, a, axis, dtype, out)


def _accumulate(which, array, axis, dtype, out):
    if not ndim_of(as_array(array)):
        raise ArgumentError("accumulate needs an array with at least one axis")
    return _scan_call(which, array, axis, dtype, out)


@accept((np.add, "accumulate"))
def _(array, axis=0, dtype=None, out=None):
    return _accumulate(cumsum, array, axis, dtype, out)


@accept((np.multiply, "accumulate"))
def _(array, axis=0, dtype=None, out=None):
    return _accumulate(cumprod, array, axis, dtype, out)


def _cumulative(which, x, axis, dtype, out, first):
    """`which` along an axis, after the value of no elements if that is given."""
    x = as_array(x)
    if axis is None and ndim_of(x) > 1:
        raise ArgumentError(
            "an axis is needed for more than one", fix="give axis=, or use x.ravel()"
        )
    made = _scan_call(which, x, axis, dtype, out)
    if first is None:
        return made
    axis = normal_axis(axis or 0, ndim_of(made))
    shape = (*shape_of(made)[:axis], 1, *shape_of(made)[axis + 1 :])
    start = full(first, shape=shape, dtype=dtype_of(made).name)
    return concatenate(start, made, axis=axis)


@accept(np.cumulative_sum)
def _(x, /, *, axis=None, dtype=None, out=None, include_initial=False):
    return _cumulative(cumsum, x, axis, dtype, out, 0 if include_initial else None)


@accept(np.cumulative_prod)
def _(x, /, *, axis=None, dtype=None, out=None, include_initial=False):
    return _cumulative(cumprod, x, axis, dtype, out, 1 if include_initial else None)


# --------------------------------------------------------- what the rules are made from
@op(
    infer=lambda t, *, axis, fill_value, back: t,
    noun="moved",
    batch=Batch.LANE,
    samples=[
        arg("n").with_(axis=0, fill_value=1.0),
        arg(2, 3, 2).with_(axis=1, fill_value=0.0, back=True),
    ],
)
def shifted(x, *, axis, fill_value, back=False):
    """`x` moved one place along `axis`, forward or back, the free place filled."""
    out = xp.empty_like(x)
    to, source = xp.moveaxis(out, axis, 0), xp.moveaxis(x, axis, 0)
    if back:
        to[:-1], to[-1:] = source[1:], fill_value
    else:
        to[1:], to[:1] = source[:-1], fill_value
    return out


@shifted.body("jax")
def _(x, *, axis, fill_value, back=False):
    source = xp.moveaxis(x, axis, 0)
    free = xp.full_like(source[:1], fill_value)
    parts = [source[1:], free] if back else [free, source[:-1]]
    return xp.moveaxis(xp.concatenate(parts), 0, axis)


@shifted.vjp
def _(ct, y, x, *, axis, fill_value, back):
    return shifted(ct, axis=axis, fill_value=0.0, back=not back)


@op(
    infer=lambda a, b, *, axis, back: b,
    noun="state",
    batch=Batch.LANE,
    samples=[
        call(arg("n"), arg("n"), axis=0),
        call(arg(2, 3, 2), arg(2, 3, 2), axis=1, back=True),
    ],
)
def recurrence(a, b, *, axis, back=False):
    """`s[i] = a[i] * s[i - 1] + b[i]` along `axis`, or with `back` from the end.

    From the end it is `s[i] = a[i] * s[i + 1] + b[i]`.
    """
    out = xp.array(b)
    s, scale = xp.moveaxis(out, axis, 0), xp.moveaxis(a, axis, 0)
    if back:
        s, scale = s[::-1], scale[::-1]
    for i in range(1, len(s)):
        s[i] += scale[i] * s[i - 1]
    return out


@recurrence.body("jax")
def _(a, b, *, axis, back=False):
    def join(first, second):
        return first[0] * second[0], second[0] * first[1] + second[1]

    return lax.associative_scan(join, (a, b), reverse=back, axis=axis)[1]


@recurrence.vjp
def _(ct, s, a, b, *, axis, back):
    following = shifted(a, axis=axis, fill_value=0.0, back=not back)
    of_b = recurrence(following, ct, axis=axis, back=not back)
    return of_b * shifted(s, axis=axis, fill_value=0.0, back=back), of_b


@op(
    infer=like_first,
    noun="others",
    batch=Batch.LANE,
    samples=[
        arg("n").with_(axis=0),
        arg(2, 3, 2).with_(axis=1),
        data((2.0, 0.0, 3.0)).with_(axis=0),
        data(((2.0, 0.0), (0.0, 0.0), (1.0, 3.0))).with_(axis=0),
    ],
)
def exclusive_products(x, *, axis):
    """For each element the product of all other ones along `axis`, zeros or not."""
    before, after = xp.ones_like(x), xp.ones_like(x)
    lanes = xp.moveaxis(x, axis, 0)
    xp.moveaxis(before, axis, 0)[1:] = lanes[:-1].cumprod(axis=0)
    xp.moveaxis(after, axis, 0)[:-1] = lanes[:0:-1].cumprod(axis=0)[::-1]
    return before * after


@exclusive_products.body("jax")
def _(x, *, axis):
    lanes = xp.moveaxis(x, axis, 0)
    one = xp.ones_like(lanes[:1])
    before = xp.concatenate([one, lanes[:-1].cumprod(axis=0)])
    after = xp.concatenate([lanes[:0:-1].cumprod(axis=0)[::-1], one])
    return xp.moveaxis(before * after, 0, axis)


@exclusive_products.vjp
def _(ct, y, x, *, axis):
    # One running product from each end; their rules are right where factors are 0.
    ahead = flip_axes(x, (axis,))
    up, down = cumprod(x, axis=axis), cumprod(ahead, axis=axis)
    before = shifted(up, axis=axis, fill_value=1.0)
    after = flip_axes(shifted(down, axis=axis, fill_value=1.0), (axis,))
    of_up = shifted(ct * after, axis=axis, fill_value=0.0, back=True)
    of_down = flip_axes(ct * before, (axis,))
    of_down = shifted(of_down, axis=axis, fill_value=0.0, back=True)
    return _pull_cumprod(of_up, up, x, axis=axis) + flip_axes(
        _pull_cumprod(of_down, down, ahead, axis=axis), (axis,)
    )
