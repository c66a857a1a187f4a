"""Convolution and correlation of two vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ir.dims import at_least
from tracegrad.ir.types import ArrayType, Size
from tracegrad.ops.define import op
from tracegrad.ops.index import flip_axes
from tracegrad.ops.infer import decide, result_dtype
from tracegrad.ops.product import conjugated
from tracegrad.ops.rearrange import pad
from tracegrad.ops.record import as_array, shape_of
from tracegrad.ops.sample import arg, call
from tracegrad.ops.shape import atleast_1d

_MODES = ("full", "same", "valid")


def _shorter(n: Size, m: Size) -> bool:
    """Whether the second of two sizes is the shorter one, or as long."""
    known = at_least(n, m)
    return decide(">=", n, m) if known is None else known


def _infer_convolve(a: ArrayType, v: ArrayType, *, mode):
    for t in (a, v):
        if t.ndim != 1 or t.shape[0] == 0:
            raise ShapeError(
                f"a convolution takes two vectors, not shapes {a.shape} and {v.shape}",
                fix="use scipy.signal.convolve for more axes",
            )
    n, m = a.shape[0], v.shape[0]
    if mode == "full":
        size = n + m - 1
    else:
        long, short = (n, m) if _shorter(n, m) else (m, n)
        size = long if mode == "same" else long - short + 1
    return ArrayType((size,), result_dtype(a, v))


_CONVOLUTIONS = [
    call(arg("n"), arg(3)),
    call(arg(2), arg(5)),
    *[call(arg(5), arg(3), mode=mode) for mode in ("same", "valid")],
    *[call(arg(3), arg(6), mode=mode) for mode in ("same", "valid")],
    call(arg(6), arg(4), mode="same"),
    call(arg(4, dtype="complex128"), arg(3, dtype="complex128"), mode="same"),
    call(arg(2, dtype="complex128"), arg(3, dtype="complex128"), mode="full"),
    call(arg(4, dtype="complex128"), arg(2, dtype="complex128"), mode="valid"),
    call(arg(4, lo=0, hi=5, dtype="int64"), arg(2)),
]


def _in_full(ct: Any, start: Size, stop: Size) -> Any:
    """The cotangent of the middle part as one of the full convolution."""
    return pad(ct, pad_width=((start, stop),))


@op(infer=_infer_convolve, samples=_CONVOLUTIONS)
def convolve(a, v, *, mode="full"):
    """Convolution of two vectors: sums of `a[i] * v[k - i]`."""
    return xp.convolve(a, v, mode=mode)


@convolve.vjp
def _(ct, y, a, v, *, mode):
    n, m = shape_of(a)[0], shape_of(v)[0]
    if mode == "valid":
        if not _shorter(n, m):
            of_v, of_a = _pull_valid(ct, v, a)
            return of_a, of_v
        return _pull_valid(ct, a, v)
    if mode == "same":
        short = m if _shorter(n, m) else n
        ct = _in_full(ct, (short - 1) // 2, short // 2)
    return (
        correlate(ct, conjugated(v), mode="valid"),
        correlate(ct, conjugated(a), mode="valid"),
    )


def _pull_valid(ct, a, v):
    """The rule of a valid convolution of `a` with the shorter `v`."""
    of_v = correlate(a, conjugated(ct), mode="valid")
    return convolve(ct, flip_axes(v, (0,))), flip_axes(of_v, (0,))


_CORRELATIONS = [call(*s.arrays, **{"mode": "full", **s.attrs}) for s in _CONVOLUTIONS]


@op(infer=_infer_convolve, samples=_CORRELATIONS)
def correlate(a, v, *, mode="valid"):
    """Correlation of two vectors: sums of `a[i + k] * conj(v[i])`."""
    return xp.correlate(a, v, mode=mode)


@correlate.vjp
def _(ct, y, a, v, *, mode):
    n, m = shape_of(a)[0], shape_of(v)[0]
    longer = mode != "full" and _shorter(n, m)
    if mode == "valid" and longer:
        of_v = correlate(a, conjugated(ct), mode="valid")
        return convolve(ct, conjugated(v)), conjugated(of_v)
    if mode == "valid":
        ct = _in_full(ct, n - 1, n - 1)
    if mode == "same":
        short = m if longer else n
        left, right = (short - 1) // 2, short // 2
        ct = _in_full(ct, left, right) if longer else _in_full(ct, right, left)
    of_v = flip_axes(correlate(ct, conjugated(a), mode="valid"), (0,))
    return convolve(ct, conjugated(v), mode="valid"), conjugated(of_v)


def _vectors(a: Any, v: Any, mode: Any, name: str) -> tuple:
    mode = {0: "valid", 1: "same", 2: "full"}.get(mode, mode)
    if mode not in _MODES:
        raise ArgumentError(
            f"{mode!r} is no mode of {name}", op=name, fix='use "full", "same", "valid"'
        )
    a, v = as_array(a), as_array(v)
    return atleast_1d(a), atleast_1d(v), mode


@convolve.accept(np.convolve)
def _(a, v, mode="full"):
    a, v, mode = _vectors(a, v, mode, "np.convolve")
    return convolve(a, v, mode=mode)


@correlate.accept(np.correlate)
def _(a, v, mode="valid"):
    a, v, mode = _vectors(a, v, mode, "np.correlate")
    return correlate(a, v, mode=mode)
