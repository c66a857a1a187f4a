"""Powers, roots, exponentials and logarithms."""

from __future__ import annotations

import math
import operator

import numpy as np
import numpy as xp

from tracegrad.ops.define import OPERATORS, accept, op
from tracegrad.ops.infer import elementwise, result_dtype
from tracegrad.ops.record import constant_of, dtype_of, type_of
from tracegrad.ops.sample import arg, call, data
from tracegrad.ops.select import where

_ONE = (arg(3).with_(), arg("n", 2).with_(), arg().with_())
_POSITIVE = (
    arg(3, lo=0.2).with_(),
    arg("n", 2, lo=0.2, hi=9.0).with_(),
    arg(lo=0.2).with_(),
)
_COMPLEX = (arg(3, dtype="complex128").with_(), arg(dtype="complex128").with_())
_INTS = (
    call(arg(3, lo=0, hi=7, dtype="int64"), arg(2, 3, lo=1, hi=5, dtype="int64")),
    call(arg("n", lo=0, hi=7, dtype="uint8"), arg(lo=1, hi=5, dtype="uint8")),
)
_SUMS = (call(arg(3), arg(2, 3)), call(arg("n", 1), arg(3)), call(arg(), arg("n")))
_LN_2 = math.log(2.0)
_LN_10 = math.log(10.0)


# ------------------------------------------------------------------- powers and roots
def _slope_of_base(ct, z, x, y, raised=operator.pow):
    """y * x**(y - 1), in the shortest form that the exponent allows.

    `raised` is the power of the function itself: of Python's floats, or of NumPy's.
    """
    c = constant_of(y)
    if c is None or isinstance(c, complex | np.complexfloating):
        # 0 * 0**-1 would be nan where x**0 is constant.
        down = y - 1.0 if c else where((x == 0.0) & (y == 0.0), 1.0, y - 1.0)
        return ct * (y * raised(x, down))
    c = float(c)
    if c in (0.0, 1.0, 2.0, 0.5, -1.0):
        if c == 0.0:
            return None
        if c == 1.0:
            return ct
        if c == 2.0:
            return ct * (2.0 * x)
        return 0.5 * ct / z if c == 0.5 else -(ct * z**2)
    # NumPy raises to an int power faster than to a float that is whole.
    down = int(c - 1.0) if c.is_integer() else c - 1.0
    return ct * (c * raised(x, down))


def _slope_of_exponent(ct, z, x, y):
    """log(x) * x**y; zero where x is 0, as for every positive exponent."""
    c = constant_of(x)
    if isinstance(c, int | float | np.integer | np.floating) and c > 0:
        return ct * (math.log(c) * z) if c != 1 else None
    return ct * (z * log(where(x == 0.0, 1.0, x)))


@op(
    infer=elementwise(np.power, python=True),
    vjp=[_slope_of_base, _slope_of_exponent],
    operator="__pow__",
    samples=[
        call(arg(3, lo=0.5), arg(2, 3)),
        call(arg("n", 1, lo=0.5), arg(3)),
        call(arg(3), arg(3, lo=0, hi=3, dtype="int64")),
        *[call(arg("n", lo=0.5), data(c)) for c in (0.0, 1.0, 2.5)],
        call(arg(3, dtype="complex128"), arg(3, dtype="complex128")),
        *_INTS,
    ],
)
def power(x, y):
    """`x` to the power `y`."""
    return x**y


def raise_to(x, y):
    """`power`, or `square` where the exponent is a constant 2 that keeps the dtype."""
    c = constant_of(y)
    if c is not None and c == 2 and dtype_of(x).kind in "iufc":
        if result_dtype(type_of(x), type_of(y)) == dtype_of(x):
            return square(x)
    return power(x, y)


OPERATORS["__pow__"] = raise_to  # type: ignore[assignment]


@op(
    infer=elementwise(np.float_power),
    vjp=[
        lambda ct, z, x, y: _slope_of_base(ct, z, x, y, power_by_numpy),
        _slope_of_exponent,
    ],
    accepts=[np.float_power],
    samples=[call(arg(3, lo=0.5), arg(2, 3)), *_INTS],
)
def float_power(x, y):
    """`x` to the power `y`, in float64 or complex128."""
    return xp.float_power(x, y)


@accept(np.power)
def power_by_numpy(x, y):
    """`np.power`: a real number where Python's `**` of two floats would be complex."""
    both = type_of(x), type_of(y)
    if all(t.weak for t in both) and {t.kind for t in both} in ({"f"}, {"f", "i"}):
        base, exponent = constant_of(x), constant_of(y)
        positive = base is not None and base >= 0
        whole = exponent is not None and float(exponent).is_integer()
        if not positive and not whole:
            return float_power(x, y)
    return raise_to(x, y)


@float_power.body("jax")
def _(x, y):
    # JAX's own takes integers to single precision.
    return (x + xp.zeros((), xp.float64)) ** y


@op(
    infer=elementwise(np.square, python=True),
    vjp=[lambda ct, y, x: ct * (2.0 * x)],
    accepts=[np.square],
    cheap=True,
    finite=True,
    samples=[*_ONE, *_COMPLEX, arg(3, dtype="int64").with_()],
)
def square(x):
    """Square."""
    return x**2


@op(
    infer=elementwise(np.reciprocal),
    vjp=[lambda ct, y, x: -(ct * y**2)],
    accepts=[np.reciprocal],
    samples=[
        arg(3, lo=0.5).with_(),
        arg("n", 2, lo=-3.0, hi=-0.5).with_(),
        arg(3, lo=0.5, dtype="complex128").with_(),
    ],
)
def reciprocal(x):
    """1 / x."""
    return xp.reciprocal(x)


@op(
    infer=elementwise(np.sqrt),
    vjp=[lambda ct, y, x: 0.5 * ct / y],
    accepts=[np.sqrt],
    samples=[
        arg(3, lo=0.5).with_(),
        arg("n", 2, lo=0.5).with_(),
        arg(3, dtype="complex128").with_(),
    ],
)
def sqrt(x):
    """Square root; its derivative at 0 is inf."""
    return xp.sqrt(x)


@op(
    infer=elementwise(np.cbrt),
    vjp=[lambda ct, y, x: ct / (3.0 * y**2)],
    accepts=[np.cbrt, "scipy.special:cbrt"],
    samples=[arg(3, lo=0.5).with_(), arg("n", 2, hi=-0.5).with_()],
)
def cbrt(x):
    """Cube root; its derivative at 0 is inf."""
    return xp.cbrt(x)


# ------------------------------------------------------- exponentials and logarithms
@op(
    infer=elementwise(np.exp),
    vjp=[lambda ct, y, x: ct * y],
    accepts=[np.exp],
    samples=[*_ONE, *_COMPLEX],
)
def exp(x):
    """Exponential."""
    return xp.exp(x)


@op(
    infer=elementwise(np.exp2),
    vjp=[lambda ct, y, x: ct * (_LN_2 * y)],
    accepts=[np.exp2, "scipy.special:exp2"],
    samples=[*_ONE, *_COMPLEX],
)
def exp2(x):
    """2 to the power `x`."""
    return xp.exp2(x)


@op(
    infer=elementwise(np.expm1),
    # y + 1 would lose everything for x < -37.
    vjp=[lambda ct, y, x: ct * exp(x)],
    accepts=[np.expm1, "scipy.special:expm1"],
    samples=[*_ONE, *_COMPLEX],
)
def expm1(x):
    """exp(x) - 1, exact near 0."""
    return xp.expm1(x)


@op(
    infer=elementwise(np.log),
    vjp=[lambda ct, y, x: ct / x],
    accepts=[np.log],
    samples=[*_POSITIVE, *_COMPLEX],
)
def log(x):
    """Natural logarithm."""
    return xp.log(x)


@op(
    infer=elementwise(np.log1p),
    vjp=[lambda ct, y, x: ct / (x + 1.0)],
    accepts=[np.log1p, "scipy.special:log1p"],
    samples=[*_POSITIVE, *_COMPLEX],
)
def log1p(x):
    """log(1 + x), exact near 0."""
    return xp.log1p(x)


@op(
    infer=elementwise(np.log2),
    vjp=[lambda ct, y, x: ct / (_LN_2 * x)],
    accepts=[np.log2],
    samples=[*_POSITIVE, *_COMPLEX],
)
def log2(x):
    """Logarithm to base 2."""
    return xp.log2(x)


@op(
    infer=elementwise(np.log10),
    vjp=[lambda ct, y, x: ct / (_LN_10 * x)],
    accepts=[np.log10],
    samples=[*_POSITIVE, *_COMPLEX],
)
def log10(x):
    """Logarithm to base 10."""
    return xp.log10(x)


_AT_INFINITY = call(data((-np.inf, -np.inf, 0.0)), data((-np.inf, 2.0, 1.0))).rough()


@op(
    infer=elementwise(np.subtract),
    vjp=[lambda ct, z, x, y: ct * z, lambda ct, z, x, y: -(ct * z)],
    spelling="np.exp",
    noun="share",
    helper=True,
    samples=[*_SUMS, _AT_INFINITY],
)
def exp_minus(x, y):
    """exp(x - y), and 0 where both are -inf."""
    return xp.exp(x - xp.where(y == -xp.inf, 0.0, y))


def share(x, z, other=None):
    """exp(x) / exp(z), where exp(z) is the sum of exp(x) and exp(other).

    If `other` is a finite constant, z is finite too.
    """
    c = constant_of(other)
    if isinstance(c, int | float) and math.isfinite(c):
        return exp(x - z)
    return exp_minus(x, z)


@op(
    infer=elementwise(np.logaddexp),
    vjp=[
        lambda ct, z, x, y: ct * share(x, z, y),
        lambda ct, z, x, y: ct * share(y, z, x),
    ],
    accepts=[np.logaddexp],
    samples=[*_SUMS, _AT_INFINITY],
)
def logaddexp(x, y):
    """log(exp(x) + exp(y)) without overflow; derivative 0 where both are -inf."""
    return xp.logaddexp(x, y)


@op(
    infer=elementwise(np.logaddexp2),
    vjp=[
        lambda ct, z, x, y: ct * share(_LN_2 * x, _LN_2 * z),
        lambda ct, z, x, y: ct * share(_LN_2 * y, _LN_2 * z),
    ],
    accepts=[np.logaddexp2],
    samples=[*_SUMS, _AT_INFINITY],
)
def logaddexp2(x, y):
    """log2(2**x + 2**y) without overflow; derivative 0 where both are -inf."""
    return xp.logaddexp2(x, y)
