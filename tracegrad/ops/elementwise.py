"""Arithmetic, comparison and logic, element by element."""

from __future__ import annotations

import numpy as np
import numpy as xp

from tracegrad.ops.define import OPERATORS, accept, op
from tracegrad.ops.infer import elementwise
from tracegrad.ops.sample import arg, call
from tracegrad.ops.select import trunc

_PAIRS = (
    call(arg(3), arg(2, 3)),
    call(arg("n", 1), arg(3)),
    call(arg(), arg("n")),
    call(arg(3), arg(3, dtype="complex128")),
)
_ONE = (arg(3).with_(), arg("n", 2).with_(), arg().with_())
_ROUGH_PAIRS = (call(arg(3), arg(2, 3)).rough(), call(arg("n", 1), arg(3)).rough())
_INTS = (
    call(arg(3, lo=0, hi=7, dtype="int64"), arg(2, 3, lo=1, hi=5, dtype="int64")),
    call(arg("n", lo=0, hi=7, dtype="uint8"), arg(lo=1, hi=5, dtype="uint8")),
)
_BOOLS = (call(arg(3, dtype="bool"), arg("n", 3, dtype="bool")),)
_COMPLEX = (arg(3, dtype="complex128").with_(), arg(dtype="complex128").with_())


# ------------------------------------------------------------------------ arithmetic
@op(
    infer=elementwise(np.add, python=True),
    vjp=[lambda ct, z, x, y: ct, lambda ct, z, x, y: ct],
    operator="__add__",
    noun="total",
    accepts=[np.add],
    cheap=True,
    linear=True,
    finite=True,
    samples=[*_PAIRS, *_INTS],
)
def add(x, y):
    """Sum."""
    return x + y


@op(
    infer=elementwise(np.subtract, python=True),
    vjp=[lambda ct, z, x, y: ct, lambda ct, z, x, y: -ct],
    operator="__sub__",
    noun="diff",
    accepts=[np.subtract],
    cheap=True,
    linear=True,
    finite=True,
    samples=_PAIRS,
)
def subtract(x, y):
    """Difference."""
    return x - y


@op(
    infer=elementwise(np.multiply, python=True),
    vjp=[lambda ct, z, x, y: ct * y, lambda ct, z, x, y: ct * x],
    operator="__mul__",
    noun="product",
    accepts=[np.multiply],
    cheap=True,
    finite=True,
    samples=[*_PAIRS, call(arg(3), arg(2, 3, dtype="bool"))],
)
def multiply(x, y):
    """Product."""
    return x * y


@op(
    infer=elementwise(np.true_divide, python=True),
    vjp=[lambda ct, z, x, y: ct / y, lambda ct, z, x, y: -(ct / y * z)],
    operator="__truediv__",
    noun="ratio",
    accepts=[np.true_divide],
    cheap=True,
    samples=[
        call(arg(3), arg(2, 3, lo=0.5)),
        call(arg("n", 1), arg(3, lo=0.5)),
        call(arg(3, dtype="complex128"), arg(3, lo=0.5, dtype="complex128")),
        *_INTS,
    ],
)
def divide(x, y):
    """Quotient."""
    return x / y


@divide.jvp
def _(t, z, x, y):
    of_x, of_y = t
    if of_y is None:
        return of_x / y
    return -(of_y * z) / y if of_x is None else (of_x - of_y * z) / y


@op(
    infer=elementwise(np.floor_divide, python=True),
    vjp=[None, None],
    operator="__floordiv__",
    accepts=[np.floor_divide],
    samples=[call(arg(3), arg("n", 3, lo=0.5)), *_INTS],
)
def floor_divide(x, y):
    """Largest integer below the quotient; its derivative is zero."""
    return x // y


@op(
    infer=elementwise(np.remainder, python=True),
    vjp=[lambda ct, z, x, y: ct, lambda ct, z, x, y: -(ct * (x // y))],
    operator="__mod__",
    accepts=[np.remainder],
    samples=[
        call(arg(4, lo=-9.0, hi=9.0), arg(4, lo=1.5)),
        call(arg("n", 1, lo=-9.0, hi=9.0), arg(3, lo=-3.0, hi=-1.5)),
        *_INTS,
    ],
)
def remainder(x, y):
    """Remainder with the sign of the divisor, x - (x // y) * y."""
    return x % y


@op(
    infer=elementwise(np.fmod),
    vjp=[lambda ct, z, x, y: ct, lambda ct, z, x, y: -(ct * trunc(x / y))],
    accepts=[np.fmod],
    samples=[
        call(arg(4, lo=-9.0, hi=9.0), arg(4, lo=1.5)),
        call(arg("n", 1, lo=-9.0, hi=9.0), arg(3, lo=-3.0, hi=-1.5)),
    ],
)
def fmod(x, y):
    """Remainder with the sign of the dividend, x - trunc(x / y) * y."""
    return xp.fmod(x, y)


def divmod_(x, y):
    """Quotient and remainder, as Python's and NumPy's `divmod`."""
    return floor_divide(x, y), remainder(x, y)


accept(np.divmod)(divmod_)
OPERATORS["__divmod__"] = divmod_  # type: ignore[assignment]


@op(
    infer=elementwise(np.negative, python=True),
    vjp=[lambda ct, y, x: -ct],
    operator="__neg__",
    noun="minus",
    accepts=[np.negative],
    cheap=True,
    linear=True,
    finite=True,
    samples=[*_ONE, *_COMPLEX],
)
def negative(x):
    """Sign change."""
    return -x


@op(
    infer=elementwise(np.positive, python=True),
    vjp=[lambda ct, y, x: ct],
    operator="__pos__",
    accepts=[np.positive],
    cheap=True,
    linear=True,
    finite=True,
    samples=[*_ONE, *_COMPLEX],
)
def positive(x):
    """A copy."""
    return +x


# ---------------------------------------------------------------- comparison and logic
@op(
    infer=elementwise(np.less, python=True),
    vjp=[None, None],
    operator="__lt__",
    accepts=[np.less],
    cheap=True,
    samples=_ROUGH_PAIRS,
)
def less(x, y):
    """Whether x < y."""
    return x < y


@op(
    infer=elementwise(np.less_equal, python=True),
    vjp=[None, None],
    operator="__le__",
    accepts=[np.less_equal],
    cheap=True,
    samples=_ROUGH_PAIRS,
)
def less_equal(x, y):
    """Whether x <= y."""
    return x <= y


@op(
    infer=elementwise(np.greater, python=True),
    vjp=[None, None],
    operator="__gt__",
    accepts=[np.greater],
    cheap=True,
    samples=_ROUGH_PAIRS,
)
def greater(x, y):
    """Whether x > y."""
    return x > y


@op(
    infer=elementwise(np.greater_equal, python=True),
    vjp=[None, None],
    operator="__ge__",
    accepts=[np.greater_equal],
    cheap=True,
    samples=_ROUGH_PAIRS,
)
def greater_equal(x, y):
    """Whether x >= y."""
    return x >= y


@op(
    infer=elementwise(np.equal, python=True),
    vjp=[None, None],
    operator="__eq__",
    accepts=[np.equal],
    cheap=True,
    samples=[*_ROUGH_PAIRS, *_INTS],
)
def equal(x, y):
    """Whether x == y."""
    return x == y


@op(
    infer=elementwise(np.not_equal, python=True),
    vjp=[None, None],
    operator="__ne__",
    accepts=[np.not_equal],
    cheap=True,
    samples=[*_ROUGH_PAIRS, *_INTS],
)
def not_equal(x, y):
    """Whether x != y."""
    return x != y


@op(
    infer=elementwise(np.logical_and),
    vjp=[None, None],
    accepts=[np.logical_and],
    samples=[*_BOOLS, *_ROUGH_PAIRS],
)
def logical_and(x, y):
    """Whether both are true."""
    return xp.logical_and(x, y)


logical_and.connective = "and"


@op(
    infer=elementwise(np.logical_or),
    vjp=[None, None],
    accepts=[np.logical_or],
    samples=[*_BOOLS, *_ROUGH_PAIRS],
)
def logical_or(x, y):
    """Whether one or both are true."""
    return xp.logical_or(x, y)


logical_or.connective = "or"


@op(
    infer=elementwise(np.logical_xor),
    vjp=[None, None],
    accepts=[np.logical_xor],
    samples=[*_BOOLS, *_ROUGH_PAIRS],
)
def logical_xor(x, y):
    """Whether exactly one is true."""
    return xp.logical_xor(x, y)


@op(
    infer=elementwise(np.logical_not),
    vjp=[None],
    accepts=[np.logical_not],
    samples=[arg("n", 2, dtype="bool").with_(), arg(3).with_().rough()],
)
def logical_not(x):
    """Whether it is false."""
    return xp.logical_not(x)


logical_not.connective = "not"


@op(
    infer=elementwise(np.bitwise_and, python=True),
    vjp=[None, None],
    operator="__and__",
    accepts=[np.bitwise_and],
    samples=[*_BOOLS, *_INTS],
)
def bitwise_and(x, y):
    """Bits set in both."""
    return x & y


@op(
    infer=elementwise(np.bitwise_or, python=True),
    vjp=[None, None],
    operator="__or__",
    accepts=[np.bitwise_or],
    samples=[*_BOOLS, *_INTS],
)
def bitwise_or(x, y):
    """Bits set in either."""
    return x | y


@op(
    infer=elementwise(np.bitwise_xor, python=True),
    vjp=[None, None],
    operator="__xor__",
    accepts=[np.bitwise_xor],
    samples=[*_BOOLS, *_INTS],
)
def bitwise_xor(x, y):
    """Bits set in exactly one."""
    return x ^ y


@op(
    infer=elementwise(np.invert, python=True),
    vjp=[None],
    operator="__invert__",
    accepts=[np.invert],
    samples=[arg("n", 2, dtype="bool").with_(), arg(3, dtype="int64").with_()],
)
def invert(x):
    """Bits flipped."""
    return ~x


@op(
    infer=elementwise(np.left_shift, python=True),
    vjp=[None, None],
    operator="__lshift__",
    accepts=[np.left_shift],
    samples=_INTS,
)
def left_shift(x, y):
    """Bits moved up by y places."""
    return x << y


@op(
    infer=elementwise(np.right_shift, python=True),
    vjp=[None, None],
    operator="__rshift__",
    accepts=[np.right_shift],
    samples=_INTS,
)
def right_shift(x, y):
    """Bits moved down by y places."""
    return x >> y
