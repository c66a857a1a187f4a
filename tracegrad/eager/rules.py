"""Derivative rules in which PyTorch differs from NumPy's other differentiators.

They take the place of an op's own rules in eager mode (`registry.own_rules`), and are
written as rules are: ops, operators, no knowledge of tensors.
"""

from __future__ import annotations

import math

from tracegrad.ops.elementary import _slope_of_base, _slope_of_exponent, log, power
from tracegrad.ops.record import constant_of, dtype_of
from tracegrad.ops.reduce import _centred, count_along, keep_axes, less
from tracegrad.ops.select import where


def base_of_power(ct, z, x, y):
    """PyTorch does not save the result of a power for the slope of its base."""
    again = power(x, y) if constant_of(y) in (0.5, -1.0) else None
    return _slope_of_base(ct, again, x, y)


def exponent_of_power(ct, z, x, y):
    """As in the op, but infinite where 0 has a negative exponent."""
    c = constant_of(x)
    if "c" in (dtype_of(x).kind, dtype_of(y).kind) or (c is not None and c != 0):
        return _slope_of_exponent(ct, z, x, y)
    return ct * (z * log(where((x == 0.0) & (y >= 0.0), 1.0, x)))


def _of_variance(ct, y, x, *, axis, ddof, keepdims):
    """As in the op; of too few elements PyTorch gives no number."""
    count = less(count_along(x, axis), ddof)
    off = _centred(x, axis)
    if type(count) is int and count <= 0:
        return keep_axes(ct, x, axis, keepdims) * where(off == 0, math.nan, math.inf)
    return keep_axes(2.0 / count * ct, x, axis, keepdims) * off


def _of_larger(ct, x, y):
    # Where one of them is no number, both get all.
    return where(x == y, 0.5 * ct, where(x < y, 0.0, ct))


def _by_square(ct, x, y):
    """PyTorch's slope of an angle at the origin is 0."""
    square = x * x + y * y
    return ct * where(square == 0, 0.0, 1.0 / square)


# At a tie both operands get half.
MAXIMUM = [
    lambda ct, z, x, y: _of_larger(ct, x, y),
    lambda ct, z, x, y: _of_larger(ct, y, x),
]
MINIMUM = [
    lambda ct, z, x, y: _of_larger(ct, y, x),
    lambda ct, z, x, y: _of_larger(ct, x, y),
]
# At a tie the first one gets all, also beside what is no number.
FMAX = [
    lambda ct, z, x, y: where(x >= y, ct, where(y != y, ct, 0.0)),
    lambda ct, z, x, y: where(x >= y, 0.0, where(y != y, 0.0, ct)),
]
FMIN = [
    lambda ct, z, x, y: where(x <= y, ct, where(y != y, ct, 0.0)),
    lambda ct, z, x, y: where(x <= y, 0.0, where(y != y, 0.0, ct)),
]
HYPOT = [lambda ct, z, x, y: ct * (x / z), lambda ct, z, x, y: ct * (y / z)]
ARCTAN2 = [
    lambda ct, z, y, x: _by_square(ct, x, y) * x,
    lambda ct, z, y, x: -(_by_square(ct, x, y) * y),
]
# PyTorch keeps the operands of a quotient, not the quotient.
DIVIDE = [
    lambda ct, z, x, y: ct / y,
    lambda ct, z, x, y: -(ct * (x / y / y)),
]
VARIANCE = [_of_variance]
POWER = [base_of_power, exponent_of_power]
# Of max(x, 0), from its result, as PyTorch: at 0 the derivative is 0.
RELU = [lambda ct, z, x, y: where(z <= 0, 0.0, ct), None]
