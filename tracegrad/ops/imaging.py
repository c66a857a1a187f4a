"""`scipy.ndimage`: smoothing, convolution and interpolation of arrays on a grid."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError, DTypeError, ShapeError
from tracegrad.ops.cast import astype
from tracegrad.ops.define import ACCEPT, accept, op
from tracegrad.ops.filters import convolve_nd, correlate_nd
from tracegrad.ops.index import getitem, read
from tracegrad.ops.infer import like_first, refuse, shape_text
from tracegrad.ops.library import Library
from tracegrad.ops.record import (
    as_array,
    called,
    constant_of,
    dtype_of,
    ndim_of,
    shape_of,
)
from tracegrad.ops.sample import arg
from tracegrad.ops.select import clip, floor, minimum, where

ndimage = Library("scipy.ndimage")

# How NumPy calls what SciPy does at the edges.
_NUMPY_MODES = {
    "reflect": "symmetric",
    "grid-mirror": "symmetric",
    "mirror": "reflect",
    "nearest": "edge",
    "wrap": "wrap",
    "grid-wrap": "wrap",
    "constant": "constant",
    "grid-constant": "constant",
}


def _floating(name: str, x: Any) -> Any:
    x = as_array(x)
    if dtype_of(x).kind not in "fc":
        raise DTypeError(
            f"{name} of dtype {dtype_of(x)} is rounded",
            op=name,
            fix="convert the array with .astype(np.float64)",
        )
    return x


def _edges(name: str, mode: Any) -> str:
    if mode not in _NUMPY_MODES:
        raise ArgumentError(
            f"{mode!r} is no mode of {name}",
            op=name,
            fix=f"use one of {', '.join(_NUMPY_MODES)}",
        )
    return _NUMPY_MODES[mode]


# ------------------------------------------------------------------------- smoothing
_SMOOTHINGS = tuple(
    [
        s.without("jax")
        for s in (
            arg("n").with_(sigma=0.7),
            arg(5, 4).with_(sigma=0.6, truncate=3.0),
            arg(4, 5).with_(sigma=(0.6, 1.1), order=(1, 0), mode="mirror"),
            arg(6).with_(sigma=1.1, mode="nearest"),
            arg(6).with_(sigma=0.8, mode="constant"),
            arg(7, 2).with_(sigma=(0.8, 0.0), mode="wrap"),
        )
    ]
)


@op(
    infer=lambda t, **attrs: like_first(t),
    linear=True,
    spelling="scipy.ndimage.gaussian_filter",
    noun="smooth",
    samples=_SMOOTHINGS,
)
def gaussian_filter(x, *, sigma, order=0, mode="reflect", truncate=4.0):
    """Convolution with a Gaussian, or with its derivative of some order."""
    return ndimage.gaussian_filter(x, sigma, order=order, mode=mode, truncate=truncate)


@gaussian_filter.vjp
def _(ct, y, x, *, sigma, order, **attrs):
    sigma, order = _of_each_axis(x, sigma), _of_each_axis(x, order)
    return gaussian_filter_transposed(ct, sigma=sigma, order=order, **attrs)


def _of_each_axis(x: Any, value: Any) -> tuple:
    return value if type(value) is tuple else (value,) * ndim_of(x)


@op(
    infer=lambda t, **attrs: like_first(t),
    linear=True,
    helper=True,
    spelling="scipy.ndimage.gaussian_filter",
    samples=[
        arg("n").with_(sigma=(0.7,), order=(0,)).without("jax"),
        arg(5, 2)
        .with_(sigma=(0.6, 0.0), order=(1, 0), mode="mirror", truncate=3.0)
        .without("jax"),
        arg(6).with_(sigma=(0.8,), order=(2,), mode="constant").without("jax"),
    ],
)
def gaussian_filter_transposed(ct, *, sigma, order, mode="reflect", truncate=4.0):
    """Transpose of scipy.ndimage.gaussian_filter: what left the grid comes back."""
    edges = {"reflect": "symmetric", "mirror": "reflect", "nearest": "edge"}
    for axis, (width, degree) in enumerate(zip(sigma, order)):
        if width <= 1e-15:
            continue
        radius = int(truncate * width + 0.5)
        wide = xp.pad(ct, [(radius * (i == axis),) * 2 for i in range(ct.ndim)])
        wide = (-1.0) ** degree * ndimage.gaussian_filter1d(
            wide,
            width,
            axis=axis,
            order=degree,
            mode="constant",
            truncate=truncate,
        )
        n = ct.shape[axis]
        if mode == "constant":
            ct = wide.take(range(radius, radius + n), axis=axis)
        else:
            came_from = xp.pad(range(n), radius, mode=edges.get(mode, mode))
            ct = xp.zeros_like(ct)
            xp.add.at(xp.moveaxis(ct, axis, 0), came_from, xp.moveaxis(wide, axis, 0))
    return ct


@gaussian_filter_transposed.vjp
def _(ct, y, x, **attrs):
    return gaussian_filter(ct, **attrs)


def _static(name: str, value: Any) -> Any:
    """A number or a tuple of them, the same for all calls."""
    if isinstance(value, list | tuple | np.ndarray) and np.ndim(value):
        return tuple([_static(name, part) for part in value])
    known = constant_of(value)
    if known is None:
        raise ArgumentError(
            f"scipy.ndimage.gaussian_filter takes a constant {name}",
            fix="for a traced width, write the convolution out with np.exp",
        )
    return known.item() if isinstance(known, np.generic) else known


@gaussian_filter.accept("scipy.ndimage:gaussian_filter")
def _(
    input,
    sigma,
    order=0,
    output=None,
    mode="reflect",
    cval=0.0,
    truncate=4.0,
    *,
    radius=None,
    axes=None,
):
    name = "scipy.ndimage.gaussian_filter"
    refuse(name, output=output, radius=radius, axes=axes, cval=cval or None)
    _edges(name, mode)
    mode = mode.removeprefix("grid-") if mode != "grid-mirror" else "reflect"
    return gaussian_filter(
        _floating(name, input),
        sigma=_static("sigma", sigma),
        order=_static("order", order),
        mode=mode,
        truncate=_static("truncate", truncate),
    )


# ------------------------------------------------------------------------ convolution
def _convolved(name, which, input, weights, output, mode, cval, origin, axes=None):
    refuse(name, output=output, axes=axes)
    x, w = _floating(name, input), as_array(weights)
    if ndim_of(x) != ndim_of(w):
        raise ShapeError(
            f"weights of shape {shape_text(shape_of(w))} do not fit an array of shape "
            f"{shape_text(shape_of(x))}",
            fix="give both as many axes",
        )
    origins = origin if isinstance(origin, list | tuple) else (origin,) * ndim_of(x)
    width = []
    for m, o in zip(shape_of(w), origins, strict=True):
        # Elements of the array before the one that the result stands for.
        if which is convolve_nd:
            before = (m - 1) // 2 - o
        else:
            before = m // 2 + o
        width.append((before, m - 1 - before))
    edges = _edges(name, mode)
    filled = {"constant_values": cval} if edges == "constant" else {}
    wide = ACCEPT[np.pad](x, tuple(width), mode=edges, **filled)
    out = which(wide, w, mode="valid")
    return out if dtype_of(out) == dtype_of(x) else astype(out, dtype=dtype_of(x))


@accept("scipy.ndimage:convolve")
def _(input, weights, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None):
    name = "scipy.ndimage.convolve"
    return _convolved(
        name, convolve_nd, input, weights, output, mode, cval, origin, axes
    )


@accept("scipy.ndimage:correlate")
def _(input, weights, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None):
    name = "scipy.ndimage.correlate"
    return _convolved(
        name, correlate_nd, input, weights, output, mode, cval, origin, axes
    )


# ---------------------------------------------------------------------- interpolation
def _corners(x: Any, points: list) -> Any:
    """The sum over the corners of the cell that each point is in."""
    places, shares = [], []
    for p, n in zip(points, shape_of(x), strict=True):
        # The last point is the end of a cell: its slope is that from inside.
        last = max(n, 2) - 2 if type(n) is int else n - 2
        low = astype(minimum(floor(p), last), dtype=np.dtype(np.intp))
        share = called(p - low, "share")
        places.append((called(low, "low"), low if n == 1 else called(low + 1, "high")))
        shares.append((called(1.0 - share, "rest"), share))
    total = None
    for corner in itertools.product((0, 1), repeat=len(points)):
        index = tuple([place[bit] for place, bit in zip(places, corner, strict=True)])
        term = read(x, index)
        for share, bit in zip(shares, corner, strict=True):
            term = share[bit] * term
        total = term if total is None else total + term
    return total


@accept("scipy.ndimage:map_coordinates")
def _(
    input, coordinates, output=None, order=3, mode="constant", cval=0.0, prefilter=True
):
    name = "scipy.ndimage.map_coordinates"
    refuse(name, output=output)
    if order not in (0, 1):
        refuse(name, fix="use order=1 or order=0", order=order)
    if mode not in ("constant", "nearest"):
        refuse(name, fix='use mode="constant" or mode="nearest"', mode=mode)
    x, points = _floating(name, input), as_array(coordinates)
    if not ndim_of(points) or shape_of(points)[0] != ndim_of(x):
        raise ShapeError(
            f"coordinates of shape {shape_text(shape_of(points))} do not fit an array "
            f"of {ndim_of(x)} axes",
            fix="let the first axis of the coordinates run over the axes of the array",
        )
    rows = [getitem(points, index=(i,)) for i in range(ndim_of(x))]
    inside = None
    for row, n in zip(rows, shape_of(x), strict=True):
        within = (row >= 0) & (row <= n - 1)
        inside = within if inside is None else inside & within
    inside = called(inside, "inside")
    limited = [clip(row, 0, n - 1) for row, n in zip(rows, shape_of(x), strict=True)]
    if order == 1:
        out = _corners(x, limited)
    else:
        nearest = [floor(row + 0.5) for row in limited]
        out = read(x, tuple([astype(p, dtype=np.dtype(np.intp)) for p in nearest]))
    out = out if mode == "nearest" else where(inside, out, cval)
    return out if dtype_of(out) == dtype_of(x) else astype(out, dtype=dtype_of(x))
