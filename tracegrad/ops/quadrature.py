"""`scipy.integrate`: integrals of sampled functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ir.index import Slice
from tracegrad.ir.types import Dim
from tracegrad.ops.create import zeros_like
from tracegrad.ops.define import ACCEPT, accept
from tracegrad.ops.index import along, expand_dims, getitem
from tracegrad.ops.infer import normal_axis, same_size, shape_text
from tracegrad.ops.join import concatenate
from tracegrad.ops.record import as_array, as_operand, ndim_of, shape_of
from tracegrad.ops.reduce import sum as reduce_sum
from tracegrad.ops.scan import cumsum

accept("scipy.integrate:trapezoid")(ACCEPT[np.trapezoid])


def _part(x: Any, axis: int, start: Any, stop: Any, step: Any = None) -> Any:
    return getitem(x, index=along(axis, Slice(start, stop, step)))


def _widths(y: Any, x: Any, axis: int) -> Any:
    """The distances of the points, in a shape that multiplies `y` without its end."""
    x = as_array(x)
    place = 0 if ndim_of(x) == 1 else axis
    if ndim_of(x) not in (1, ndim_of(y)) or not same_size(
        shape_of(x)[place], shape_of(y)[axis]
    ):
        raise ShapeError(
            f"points x of shape {shape_text(shape_of(x))} do not fit values of shape "
            f"{shape_text(shape_of(y))}",
            fix="let x be a vector as long as y along the axis, or of the shape of y",
        )
    widths = _part(x, place, 1, None) - _part(x, place, None, -1)
    if ndim_of(x) == 1 and axis < ndim_of(y) - 1:
        widths = expand_dims(widths, axis=tuple(range(1, ndim_of(y) - axis)))
    return widths


@accept("scipy.integrate:cumulative_trapezoid")
def _(y, x=None, dx=1.0, axis=-1, initial=None):
    y = as_array(y)
    axis = normal_axis(axis, ndim_of(y))
    if initial not in (None, 0):
        raise ArgumentError(
            "scipy.integrate.cumulative_trapezoid takes initial=None or initial=0"
        )
    width = as_operand(dx) if x is None else _widths(y, x, axis)
    pairs = _part(y, axis, 1, None) + _part(y, axis, None, -1)
    out = cumsum(width * pairs / 2.0, axis=axis)
    if initial is None:
        return out
    return concatenate(zeros_like(_part(out, axis, None, 1)), out, axis=axis)


def _simpson(y: Any, step: Any, widths: Any, axis: int, but: int) -> Any:
    """Simpson's rule for an odd number of points, all `but` the last ones."""
    first = _part(y, axis, None, -2 - but, 2)
    middle = _part(y, axis, 1, -1 - but, 2)
    last = _part(y, axis, 2, -but or None, 2)
    if widths is None:
        return step / 3.0 * reduce_sum(first + 4.0 * middle + last, axis=axis)
    along_widths = axis - ndim_of(y) + ndim_of(widths)
    left = _part(widths, along_widths, None, -but or None, 2)
    right = _part(widths, along_widths, 1, -but or None, 2)
    both = left + right
    terms = (
        first * (2.0 - right / left)
        + middle * (both * both / (left * right))
        + last * (2.0 - left / right)
    )
    return reduce_sum(both / 6.0 * terms, axis=axis)


def _at(x: Any, axis: int, place: int) -> Any:
    return getitem(x, index=along(axis, place))


@accept("scipy.integrate:simpson")
def _(y, x=None, *, dx=1.0, axis=-1):
    y, step = as_array(y), as_operand(dx)
    axis = normal_axis(axis, ndim_of(y))
    n = shape_of(y)[axis]
    if isinstance(n, Dim):
        raise ShapeError(
            f"scipy.integrate.simpson needs a fixed number of points, not {n}",
            fix="give the size as a number",
        )
    widths = None if x is None else _widths(y, x, axis)
    if n % 2:
        return _simpson(y, step, widths, axis, 0)
    # The last interval by the parabola through the last three points (Cartwright).
    if widths is None:
        left = right = step
    else:
        place = axis - ndim_of(y) + ndim_of(widths)
        left = _at(widths, place, -2) if n > 2 else None
        right = _at(widths, place, -1)
    if n == 2:
        return 0.5 * right * (_at(y, axis, -1) + _at(y, axis, -2))
    both = left + right
    weights = (
        right * (2.0 * right + 3.0 * left) / (6.0 * both),
        right * (right + 3.0 * left) / (6.0 * left),
        right**3 / (6.0 * left * both),
    )
    end = weights[0] * _at(y, axis, -1) + weights[1] * _at(y, axis, -2)
    end = end - weights[2] * _at(y, axis, -3)
    return _simpson(y, step, widths, axis, 1) + end
