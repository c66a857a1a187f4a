"""Functions of sampled data: linear interpolation, differences, phases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ir.dims import at_least
from tracegrad.ir.index import ARRAY, Slice
from tracegrad.ir.types import ArrayType
from tracegrad.ops.cast import astype
from tracegrad.ops.create import size
from tracegrad.ops.define import Batch, op
from tracegrad.ops.index import along, expand_dims, getitem
from tracegrad.ops.infer import (
    normal_axes,
    normal_axis,
    refuse,
    result_dtype,
    same_size,
)
from tracegrad.ops.join import concatenate
from tracegrad.ops.order import argsort, searchsorted
from tracegrad.ops.rearrange import diff
from tracegrad.ops.record import (
    as_array,
    as_operand,
    constant_of,
    dtype_of,
    ndim_of,
    type_of,
)
from tracegrad.ops.reduce import averaged
from tracegrad.ops.reduce import sum as reduce_sum
from tracegrad.ops.sample import arg, call, data
from tracegrad.ops.scatter import collect
from tracegrad.ops.select import absolute, maximum, minimum, real, where


# ---------------------------------------------------------------- linear interpolation
def _infer_interp(x: ArrayType, points: ArrayType, values: ArrayType, **ends):
    if points.ndim != 1 or values.ndim != 1:
        raise ShapeError("np.interp takes vectors of points and of values")
    if not same_size(points.shape[0], values.shape[0]):
        raise ShapeError(
            f"{points.shape[0]} points and {values.shape[0]} values",
            fix="give one value for each point",
        )
    kind = np.complex128 if values.kind == "c" else np.float64
    return x.with_dtype(kind)


def _piece(x, points):
    """Indices of the ends of the piece of each `x`, its width, and the share passed."""
    last = size(points, axis=0) - 1
    after = minimum(maximum(searchsorted(points, x, side="right"), 1), last)
    before = after - 1
    start = _read(points, before)
    width = _read(points, after) - start
    return before, after, width, (x - start) / width


def _read(x, places):
    """The elements of a vector at some places."""
    return getitem(x, places, index=(ARRAY,))


_POINTS = data((0.0, 0.5, 1.5, 2.0))


@op(
    infer=_infer_interp,
    samples=[
        call(arg("n", lo=-0.5, hi=2.4), _POINTS, arg(4)),
        call(arg(2, 3, lo=0.1, hi=1.9), _POINTS, arg(4)),
        call(arg(lo=0.7, hi=0.8), _POINTS, arg(4)),
        call(arg(4, lo=-0.5, hi=2.7), _POINTS, arg(4), left=0.0, right=1.5),
        call(arg(3, lo=-0.5, hi=2.4), _POINTS, arg(4, dtype="complex128")),
        call(data((0.0, 0.5, 2.0)), _POINTS, arg(4)).rough(),
    ],
)
def interp(x, points, values, *, left=None, right=None):
    """`values` at `points`, interpolated at `x`; constant beyond both ends.

    At a point the derivative by `x` is that of the piece to its right, at the last one
    that of the last piece.
    """
    return xp.interp(x, points, values, left=left, right=right)


@interp.batch
def _(b, x, points, values, **attrs):
    if b.has(1) or b.has(2):
        return NotImplemented
    return interp(x, points, values, **attrs)


@interp.vjp
def _(ct, y, x, points, values, *, left, right):
    first, last = getitem(points, index=(0,)), getitem(points, index=(-1,))
    if left is not None:
        ct = where(x < first, 0.0, ct)
    if right is not None:
        ct = where(x > last, 0.0, ct)
    before, after, width, share = _piece(x, points)
    slope = (_read(values, after) - _read(values, before)) / width
    of_x = ct * slope
    if left is None or right is None:
        of_x = where((x >= first) & (x <= last), of_x, 0.0)
    moved = real(of_x) if dtype_of(of_x).kind == "c" else of_x
    share = minimum(maximum(share, 0.0), 1.0)
    parts = ((before, 1.0 - share), (after, share))
    of_points = [(-(moved * part), (at,), (ARRAY,)) for at, part in parts]
    of_values = [(ct * part, (at,), (ARRAY,)) for at, part in parts]
    return of_x, collect(points, of_points, False), collect(values, of_values, False)


@interp.accept(np.interp)
def _(x, xp, fp, left=None, right=None, period=None):
    x, points, values = as_array(x), as_array(xp), as_array(fp)
    if period is not None:
        period = absolute(as_operand(period))
        x, points = x % period, points % period
        order = argsort(points)
        points, values = _read(points, order), _read(values, order)
        ends = Slice(-1, None), Slice(None, 1)
        before, after = (getitem(points, index=(part,)) for part in ends)
        points = concatenate(before - period, points, after + period)
        parts = [getitem(values, index=(part,)) for part in ends]
        values = concatenate(parts[0], values, parts[1])
        left = right = None
    fixed = [_number(end) for end in (left, right)]
    out = interp(x, points, values, left=fixed[0], right=fixed[1])
    if left is not None and fixed[0] is None:
        out = where(x < getitem(points, index=(0,)), as_operand(left), out)
    if right is not None and fixed[1] is None:
        out = where(x > getitem(points, index=(-1,)), as_operand(right), out)
    return out


def _number(end: Any) -> Any:
    """A constant as a Python number; None if it is traced, or not given."""
    known = None if end is None else constant_of(as_operand(end))
    return known.item() if isinstance(known, np.generic) else known


# ----------------------------------------------------------------------------- phases
_TURN = 2.0 * math.pi


@op(
    infer=lambda t, *, discont, axis, period: t.with_dtype(
        np.result_type(t.dtype, period)
    ),
    vjp=[lambda ct, y, x, **attrs: ct],
    batch=Batch.LANE,
    samples=[
        data((0.1, 2.0, 5.5, -0.5, 3.0)).with_(),
        arg("n", 3, lo=-6.0, hi=6.0).with_(axis=0),
        arg(2, 4, lo=-4.0, hi=4.0).with_(period=3.0, discont=2.0),
        arg(4, lo=-4.0, hi=4.0, dtype="float32").with_().rough(),
    ],
)
def unwrap(p, *, discont=None, axis=-1, period=_TURN):
    """`p` with multiples of `period` added so that neighbours are near each other."""
    return xp.unwrap(p, discont=discont, axis=axis, period=period)


@unwrap.accept(np.unwrap)
def _(p, discont=None, axis=-1, *, period=_TURN):
    for name, value in {"discont": discont, "period": period}.items():
        if value is not None and constant_of(value) is None:
            refuse("np.unwrap", fix="give a plain number", **{name: value})
    x = as_array(p)
    axis = normal_axis(axis, ndim_of(x))
    axis = -1 if axis == ndim_of(x) - 1 else axis
    return unwrap(x, discont=discont, axis=axis, period=period)


# -------------------------------------------------------------------------- differences
def _infer_gradient(t: ArrayType, *spacing: ArrayType, axis, edge_order):
    for a in range(t.ndim) if axis is None else (axis,):
        if at_least(t.shape[a], edge_order + 1) is False:
            raise ShapeError(
                f"np.gradient with edge_order={edge_order} needs {edge_order + 1} "
                f"elements along axis {a}, which has {t.shape[a]}"
            )
    return t.with_dtype(averaged(t.dtype))


_DISTANCE = data(0.25)


@op(
    infer=_infer_gradient,
    samples=[
        arg("n").with_(),
        arg("n", 3).with_(axis=0),
        call(arg(3, 4), _DISTANCE, axis=1),
        call(arg(5), _DISTANCE, edge_order=2).without("jax"),
        call(arg(3, 5), _DISTANCE, axis=1, edge_order=2).without("jax"),
        call(arg(3, dtype="complex128"), _DISTANCE),
        arg(3, dtype="float32").with_().rough(),
        arg(4, dtype="int64").with_(),
    ],
)
def gradient(f, *distance, axis=None, edge_order=1):
    """Central differences along `axis`, one-sided ones at both ends."""
    return xp.gradient(f, *distance, axis=axis, edge_order=edge_order)


@gradient.vjp
def _(ct, y, f, *distance, axis, edge_order):
    of_distance, late = [], False
    if distance:
        of_distance = [-reduce_sum(ct * y) / distance[0]]
        # In wider numbers than those of `f` at the end, so that all else stays narrow.
        late = result_dtype(type_of(ct), type_of(distance[0])) != dtype_of(ct)
        ct = ct if late else ct / distance[0]
    axis = 0 if axis is None else axis
    half = 0.5 * getitem(ct, index=along(axis, Slice(1, -1)))
    parts: list[tuple[Any, Any]] = [(half, Slice(2, None)), (-half, Slice(None, -2))]
    weights = (1.0, -1.0) if edge_order == 1 else (1.5, -2.0, 0.5)
    first, last = (getitem(ct, index=along(axis, i)) for i in (0, -1))
    parts += [(-w * first, i) for i, w in enumerate(weights)]
    parts += [(w * last, -1 - i) for i, w in enumerate(weights)]
    of_f = collect(f, [(ct, (), along(axis, at)) for ct, at in parts], True)
    return of_f / distance[0] if late else of_f, *of_distance


def _uneven(f, points, axis, edge_order):
    """`np.gradient` over given points: slopes of neighbouring pieces, weighted."""
    n = ndim_of(f)
    width = diff(points)
    if n - 1 > axis:
        width = expand_dims(width, axis=tuple(range(1, n - axis)))
    slope = diff(f, axis=axis) / width

    def of(x, start, stop):
        return getitem(x, index=along(axis if x is slope else 0, Slice(start, stop)))

    before, after = of(width, None, -1), of(width, 1, None)
    share = after / (before + after)
    inner = share * of(slope, None, -1) + (1.0 - share) * of(slope, 1, None)
    first, last = of(slope, None, 1), of(slope, -1, None)
    if edge_order == 2:
        first = 2.0 * first - getitem(inner, index=along(axis, Slice(None, 1)))
        last = 2.0 * last - getitem(inner, index=along(axis, Slice(-1, None)))
    return concatenate(first, inner, last, axis=axis)


@gradient.accept(np.gradient)
def _(f, *varargs, axis=None, edge_order=1):
    f = as_array(f)
    if edge_order not in (1, 2):
        raise ArgumentError(f"np.gradient takes edge_order 1 or 2, not {edge_order}")
    axes = normal_axes(axis, ndim_of(f))
    distances = list(varargs) * len(axes) if len(varargs) == 1 else list(varargs)
    if varargs and len(distances) != len(axes):
        raise ArgumentError(
            f"{len(varargs)} distances for {len(axes)} axes",
            fix="give one distance, or one for each axis",
        )
    made = []
    for i, a in enumerate(axes):
        distance = [as_operand(distances[i])] if varargs else []
        if distance and ndim_of(distance[0]):
            slopes = _uneven(f, as_array(distance[0]), a, edge_order)
            same = dtype_of(f).kind not in "fc" or dtype_of(slopes) == dtype_of(f)
            made.append(slopes if same else astype(slopes, dtype=dtype_of(f)))
            continue
        if distance and constant_of(distance[0]) == 1:
            distance = []
        at = None if ndim_of(f) == 1 else a
        made.append(gradient(f, *distance, axis=at, edge_order=edge_order))
    return made[0] if len(made) == 1 else tuple(made)
