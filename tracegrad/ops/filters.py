"""`scipy.signal`: convolution and correlation of arrays, linear filters."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ir.index import Slice
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import ACCEPT, Op, accept, op
from tracegrad.ops.index import flip_axes, getitem
from tracegrad.ops.infer import normal_axis, refuse, result_dtype, shape_text
from tracegrad.ops.join import concatenate
from tracegrad.ops.library import Library
from tracegrad.ops.product import conjugated
from tracegrad.ops.rearrange import pad
from tracegrad.ops.record import as_array, ndim_of, shape_of
from tracegrad.ops.reduce import sum as reduce_sum
from tracegrad.ops.sample import arg, call
from tracegrad.ops.scatter import scatter_add
from tracegrad.ops.shape import broadcast_to, moveaxis

signal = Library("scipy.signal", jax="jax.scipy.signal")

_MODES = ("full", "same", "valid")


# ------------------------------------------------------------------------ convolution
def _exceeds(a: tuple, v: tuple) -> bool:
    """Whether `a` is as long as `v` or longer along each axis, as far as is known."""
    return not any(
        type(m) is int and type(n) is int and n < m for n, m in zip(a, v, strict=True)
    )


def _infer_convolve(a: ArrayType, v: ArrayType, *, mode: str, **attrs: Any):
    if a.ndim != v.ndim:
        raise ShapeError(
            f"arrays of {a.ndim} and of {v.ndim} axes are not convolved",
            fix="give the smaller one axes of size 1, with v[None]",
        )
    dtype = result_dtype(a, v)
    if mode == "full":
        shape = tuple([n + m - 1 for n, m in zip(a.shape, v.shape, strict=True)])
    elif mode == "same":
        shape = a.shape
    else:
        longer, shorter = a.shape, v.shape
        if not _exceeds(longer, shorter):
            longer, shorter = shorter, longer
        if not _exceeds(longer, shorter):
            raise ShapeError(
                f"arrays of shapes {shape_text(a.shape)} and {shape_text(v.shape)}: "
                "neither is as large as the other along every axis",
                fix='use mode="full" or mode="same"',
            )
        shape = tuple([n - m + 1 for n, m in zip(longer, shorter, strict=True)])
    return ArrayType(shape, dtype)


def _every_axis(x: Any) -> tuple[int, ...]:
    return tuple(range(ndim_of(x)))


def _pull(which: Op, ct: Any, a: Any, v: Any, attrs: dict[str, Any]) -> tuple:
    """The rule of a convolution, whose transposes are convolutions."""
    n, m = shape_of(a), shape_of(v)
    rest = {**attrs, "mode": "valid"}
    if attrs["mode"] == "valid":
        if not _exceeds(n, m):
            return _pull(which, ct, v, a, attrs)[::-1]
        of_a = which(ct, flip_axes(v, _every_axis(v)), **{**rest, "mode": "full"})
        return of_a, which(flip_axes(a, _every_axis(a)), ct, **rest)
    if attrs["mode"] == "same":
        width = tuple([((k - 1) // 2, k - 1 - (k - 1) // 2) for k in m])
        ct = pad(ct, pad_width=width)
    of_a = which(ct, flip_axes(v, _every_axis(v)), **rest)
    return of_a, which(ct, flip_axes(a, _every_axis(a)), **rest)


_CONVOLUTIONS = (
    call(arg("n"), arg(3)),
    call(arg(2), arg(5)),
    *[call(arg(5), arg(2), mode=mode) for mode in ("same", "valid")],
    *[call(arg(3), arg(6), mode=mode) for mode in ("same", "valid")],
    call(arg(4, 3), arg(2, 3)),
    call(arg(4, 3), arg(2, 3), mode="same"),
    # JAX refuses equal sizes here.
    call(arg(4, 3), arg(2, 3), mode="valid").without("jax"),
    call(arg(4, dtype="complex128"), arg(3, dtype="complex128"), mode="same"),
)
_IN_PLANES = tuple([s for s in _CONVOLUTIONS if len(s.arrays[0].shape) == 2])


@op(
    infer=_infer_convolve,
    spelling="scipy.signal.convolve",
    noun="convolved",
    samples=_CONVOLUTIONS,
)
def convolve_nd(a, v, *, mode="full", method="auto"):
    """Convolution along all axes."""
    return signal.convolve(a, v, mode=mode, method=method)


@convolve_nd.vjp
def _(ct, y, a, v, **attrs):
    return _pull(convolve_nd, ct, a, v, attrs)


@op(
    infer=_infer_convolve,
    spelling="scipy.signal.fftconvolve",
    noun="convolved",
    samples=_CONVOLUTIONS,
)
def fftconvolve(a, v, *, mode="full"):
    """Convolution along all axes by Fourier transforms."""
    return signal.fftconvolve(a, v, mode=mode)


@fftconvolve.vjp
def _(ct, y, a, v, **attrs):
    return _pull(fftconvolve, ct, a, v, attrs)


@op(
    infer=_infer_convolve,
    spelling="scipy.signal.convolve2d",
    noun="convolved",
    samples=_IN_PLANES,
)
def convolve2d(a, v, *, mode="full"):
    """Convolution of two matrices."""
    return signal.convolve2d(a, v, mode=mode)


@convolve2d.vjp
def _(ct, y, a, v, **attrs):
    return _pull(convolve2d, ct, a, v, attrs)


@op(
    infer=_infer_convolve,
    spelling="scipy.signal.correlate",
    noun="correlated",
    samples=_CONVOLUTIONS,
)
def correlate_nd(a, v, *, mode="full", method="auto"):
    """Correlation along all axes: convolution with `v.conj()` in reverse order."""
    return signal.correlate(a, v, mode=mode, method=method)


@correlate_nd.vjp
def _(ct, y, a, v, **attrs):
    turned = flip_axes(conjugated(v), _every_axis(v))
    of_a, of_v = _pull(convolve_nd, ct, a, turned, attrs)
    return of_a, conjugated(flip_axes(of_v, _every_axis(v)))


def _operands(name: str, a: Any, v: Any, mode: Any) -> tuple:
    if mode not in _MODES:
        raise ArgumentError(
            f"{mode!r} is no mode of {name}", op=name, fix='use "full", "same", "valid"'
        )
    return as_array(a), as_array(v)


@accept("scipy.signal:convolve")
def _(in1, in2, mode="full", method="auto"):
    a, v = _operands("scipy.signal.convolve", in1, in2, mode)
    return convolve_nd(a, v, mode=mode, method=method)


@accept("scipy.signal:correlate")
def _(in1, in2, mode="full", method="auto"):
    a, v = _operands("scipy.signal.correlate", in1, in2, mode)
    return correlate_nd(a, v, mode=mode, method=method)


@accept("scipy.signal:fftconvolve")
def _(in1, in2, mode="full", axes=None):
    a, v = _operands("scipy.signal.fftconvolve", in1, in2, mode)
    if axes is not None and tuple(np.atleast_1d(axes) % ndim_of(a)) != _every_axis(a):
        refuse("scipy.signal.fftconvolve", axes=axes)
    return fftconvolve(a, v, mode=mode)


_NUMPY_MODES = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}


@accept("scipy.signal:convolve2d")
def _(in1, in2, mode="full", boundary="fill", fillvalue=0):
    a, v = _operands("scipy.signal.convolve2d", in1, in2, mode)
    if boundary not in _NUMPY_MODES:
        raise ArgumentError(
            f"{boundary!r} is no boundary of scipy.signal.convolve2d",
            fix='use "fill", "wrap" or "symm"',
        )
    if mode == "valid" or (boundary == "fill" and not fillvalue):
        return convolve2d(a, v, mode=mode)
    # What lies around `a` is written out, as far as the result needs it.
    width = []
    for m in shape_of(v):
        before = m - 1 - ((m - 1) // 2 if mode == "same" else 0)
        width.append((before, (m - 1) // 2 if mode == "same" else m - 1))
    filled = {"constant_values": fillvalue} if boundary == "fill" else {}
    wide = ACCEPT[np.pad](a, tuple(width), mode=_NUMPY_MODES[boundary], **filled)
    return convolve2d(wide, v, mode="valid")


# ---------------------------------------------------------------------- linear filters
def _infer_lfilter(b: ArrayType, a: ArrayType, x: ArrayType, *, axis):
    for t in (b, a):
        if t.ndim != 1:
            raise ShapeError(
                f"the coefficients of a filter are vectors, not {shape_text(t.shape)}"
            )
    return ArrayType(x.shape, result_dtype(b, a, x))


_FILTERS = (
    call(arg(3), arg(2, lo=0.5), arg("n"), axis=-1),
    call(arg(2), arg(3, lo=1.0), arg(5, 2), axis=0),
    call(arg(2), arg(1, lo=1.0), arg(2, 5), axis=-1),
    call(arg(1), arg(3, lo=1.0), arg(2, 5), axis=-1),
)


@op(
    infer=_infer_lfilter,
    spelling="scipy.signal.lfilter",
    noun="filtered",
    samples=[s.without("jax") for s in _FILTERS],
)
def lfilter(b, a, x, *, axis=-1):
    """Linear filter b / a along `axis`, at rest at the start."""
    return signal.lfilter(b, a, x, axis=axis)


@lfilter.vjp
def _(ct, y, b, a, x, *, axis):
    # With 1 / a in reverse the cotangent of b x, and of -a y:  a y = b x.
    along = axis % ndim_of(x)
    back = flip_axes(ct, (along,))
    of_x = flip_axes(lfilter(b, a, back, axis=axis), (along,))
    one = as_array(np.ones(1))
    of_both = moveaxis(flip_axes(lfilter(one, a, back, axis=axis), (along,)), along, -1)
    of_b = lagged(of_both, moveaxis(x, along, -1), b)
    return of_b, -lagged(of_both, moveaxis(y, along, -1), a), of_x


@op(
    infer=lambda g, x, like: ArrayType(like.shape, result_dtype(g, x)),
    type_only=(2,),
    noun="products",
    samples=[
        call(arg("n"), arg("n"), arg(3)).without("jax"),
        call(arg(2, 5), arg(2, 5), arg(2)).without("jax"),
    ],
)
def lagged(g, x, like):
    """Sums of `g[..., i] * x[..., i - lag]` for as many lags as `like` is long."""
    return xp.stack(
        [(g[..., k:] * x[..., : x.shape[-1] - k]).sum() for k in range(len(like))]
    )


@lagged.vjp
def _(ct, y, g, x, like):
    one, last = as_array(np.ones(1)), ndim_of(x) - 1
    of_x = flip_axes(lfilter(ct, one, flip_axes(g, (last,))), (last,))
    return lfilter(ct, one, x), of_x, None


def _infer_lfilter_from(
    b: ArrayType, a: ArrayType, x: ArrayType, zi: ArrayType, *, axis
):
    _infer_lfilter(b, a, x, axis=axis)
    dtype = result_dtype(b, a, x, zi)
    return ArrayType(x.shape, dtype), ArrayType(zi.shape, dtype)


@op(
    infer=_infer_lfilter_from,
    spelling="scipy.signal.lfilter",
    noun="filtered state",
    samples=[
        call(arg(3), arg(2, lo=0.5), arg(5), arg(2)).without("jax"),
        call(arg(2), arg(3, lo=1.0), arg(5, 2), arg(2, 2), axis=0).without("jax"),
        call(arg(1), arg(4, lo=1.0), arg(2), arg(3)).without("jax"),
    ],
)
def lfilter_from(b, a, x, zi, *, axis=-1):
    """Linear filter b / a along `axis` from the state `zi`; and the last state."""
    return signal.lfilter(b, a, x, axis=axis, zi=zi)


@lfilter_from.vjp
def _(cts, out, b, a, x, zi, *, axis):
    # Of  r = b x + a[0] zi - a y  over the times of `x` and as many as the state is
    # long, the first part is zero, and the rest a[0] times the state at the end.
    along = axis % ndim_of(x)
    y, x, zi, end = (moveaxis(v, along, -1) for v in (out[0], x, zi, out[1]))
    of_y, of_end = (None if ct is None else moveaxis(ct, along, -1) for ct in cts)
    last, one = ndim_of(x) - 1, as_array(np.ones(1))
    times, length = shape_of(x)[last], shape_of(zi)[last]
    first = getitem(a, index=(0,))
    longer = tuple([(0, 0)] * last + [(0, length)])

    def transposed(numerator, denominator, ct):
        back = lfilter(numerator, denominator, flip_axes(ct, (last,)))
        return flip_axes(back, (last,))

    def until(ct, stop):
        return getitem(ct, index=(Ellipsis, Slice(None, stop)))

    if of_end is None:
        weights = pad(transposed(one, a, of_y), pad_width=longer)
    else:
        rest = of_end / first
        before = pad(rest, pad_width=tuple([(0, 0)] * last + [(times, 0)]))
        less = until(transposed(a, one, before), times)
        of_y = -less if of_y is None else of_y - less
        weights = concatenate(transposed(one, a, of_y), rest, axis=last)
    head = until(weights, length)
    of_first = reduce_sum(head * zi)
    if of_end is not None:
        of_first = of_first - reduce_sum(rest * end)
    of_a = -lagged(weights, pad(y, pad_width=longer), a)
    of_a = scatter_add(of_a, of_first, index=(0,), unique=True)
    of_x = until(transposed(b, one, weights), times)
    return (
        lagged(weights, pad(x, pad_width=longer), b),
        of_a,
        moveaxis(of_x, -1, along),
        moveaxis(first * head, -1, along),
    )


@lfilter.accept("scipy.signal:lfilter")
def _(b, a, x, axis=-1, zi=None):
    x, b, a = as_array(x), _vector(b), _vector(a)
    axis = normal_axis(axis, ndim_of(x))
    axis = -1 if axis == ndim_of(x) - 1 else axis
    if zi is None:
        return lfilter(b, a, x, axis=axis)
    shape = list(shape_of(x))
    shape[axis] = max(int(shape_of(b)[0]), int(shape_of(a)[0])) - 1
    zi = as_array(zi)
    if ndim_of(zi) != len(shape):
        raise ShapeError(
            f"the state zi of shape {shape_text(shape_of(zi))} is not of shape "
            f"{shape_text(tuple(shape))}",
            fix="give it the axes of x, with one number for each delay along `axis`",
        )
    if shape_of(zi) != tuple(shape):
        zi = broadcast_to(zi, shape=tuple(shape))
    return lfilter_from(b, a, x, zi, axis=axis)


def _vector(x: Any) -> Any:
    x = as_array(x)
    return x if ndim_of(x) else ACCEPT[np.reshape](x, (1,))
