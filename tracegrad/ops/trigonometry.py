"""Trigonometric and hyperbolic functions, and their inverses."""

from __future__ import annotations

import numpy as np
import numpy as xp

from tracegrad.ops.define import Batch, op
from tracegrad.ops.elementary import sqrt
from tracegrad.ops.infer import elementwise
from tracegrad.ops.record import as_operand, dtype_of
from tracegrad.ops.sample import arg, call, data
from tracegrad.ops.select import where

_ONE = (arg(3).with_(), arg("n", 2).with_(), arg().with_())
_INSIDE = (
    arg(3, lo=-0.9, hi=0.9).with_(),
    arg("n", 2, lo=-0.9, hi=0.9).with_(),
    arg(lo=-0.9, hi=0.9).with_(),
)
_BEYOND = (
    arg(3, lo=1.1, hi=4.0).with_(),
    arg("n", 2, lo=1.1, hi=4.0).with_(),
    arg(lo=1.1, hi=4.0).with_(),
)
_COMPLEX = (arg(3, dtype="complex128").with_(), arg(dtype="complex128").with_())
_PAIRS = (call(arg(3), arg(2, 3)), call(arg("n", 1), arg(3)), call(arg(), arg("n")))


# ---------------------------------------------------------------------- trigonometric
@op(
    infer=elementwise(np.sin),
    vjp=[lambda ct, y, x: ct * cos(x)],
    accepts=[np.sin],
    finite=True,
    samples=[*_ONE, *_COMPLEX],
)
def sin(x):
    """Sine of an angle in radians."""
    return xp.sin(x)


@op(
    infer=elementwise(np.cos),
    vjp=[lambda ct, y, x: -(ct * sin(x))],
    accepts=[np.cos],
    finite=True,
    samples=[*_ONE, *_COMPLEX],
)
def cos(x):
    """Cosine of an angle in radians."""
    return xp.cos(x)


@op(
    infer=elementwise(np.tan),
    vjp=[lambda ct, y, x: ct * (1.0 + y * y)],
    accepts=[np.tan],
    samples=[*_ONE, *_COMPLEX],
)
def tan(x):
    """Tangent of an angle in radians."""
    return xp.tan(x)


@op(
    infer=elementwise(np.arcsin),
    vjp=[lambda ct, y, x: ct / sqrt(1.0 - x * x)],
    accepts=[np.arcsin],
    samples=[*_INSIDE, *_COMPLEX],
)
def arcsin(x):
    """Inverse sine, in radians."""
    return xp.arcsin(x)


@op(
    infer=elementwise(np.arccos),
    vjp=[lambda ct, y, x: -(ct / sqrt(1.0 - x * x))],
    accepts=[np.arccos],
    samples=[*_INSIDE, *_COMPLEX],
)
def arccos(x):
    """Inverse cosine, in radians."""
    return xp.arccos(x)


@op(
    infer=elementwise(np.arctan),
    vjp=[lambda ct, y, x: ct / (1.0 + x * x)],
    accepts=[np.arctan],
    finite=True,
    samples=[*_ONE, *_COMPLEX],
)
def arctan(x):
    """Inverse tangent, in radians."""
    return xp.arctan(x)


@op(
    infer=elementwise(np.arctan2),
    vjp=[
        lambda ct, z, y, x: ct * x / (x * x + y * y),
        lambda ct, z, y, x: -(ct * y / (x * x + y * y)),
    ],
    accepts=[np.arctan2],
    samples=_PAIRS,
)
def arctan2(y, x):
    """Angle in radians of the point (x, y); its derivative at the origin is nan."""
    return xp.arctan2(y, x)


@op(
    infer=elementwise(np.hypot),
    # Where z is 0 so are x and y.
    vjp=[
        lambda ct, z, x, y: ct * (x / where(z == 0.0, 1.0, z)),
        lambda ct, z, x, y: ct * (y / where(z == 0.0, 1.0, z)),
    ],
    accepts=[np.hypot],
    samples=_PAIRS,
)
def hypot(x, y):
    """Length of (x, y); its derivative at the origin is 0."""
    return xp.hypot(x, y)


@op(
    infer=elementwise(np.deg2rad),
    vjp=[lambda ct, y, x: deg2rad(ct)],
    accepts=[np.deg2rad, np.radians],
    linear=True,
    samples=_ONE,
)
def deg2rad(x):
    """Degrees as radians."""
    return xp.deg2rad(x)


@op(
    infer=elementwise(np.rad2deg),
    vjp=[lambda ct, y, x: rad2deg(ct)],
    accepts=[np.rad2deg, np.degrees],
    linear=True,
    samples=_ONE,
)
def rad2deg(x):
    """Radians as degrees."""
    return xp.rad2deg(x)


@op(
    infer=lambda t, *, order: elementwise(np.sin)(t),
    vjp=[lambda ct, y, x, *, order: ct * sinc_slope(x, order=order + 1)],
    noun="slope",
    batch=Batch.MAP,
    samples=[
        arg(5, lo=-3.0, hi=3.0).with_(order=1),
        arg("n", 2).with_(order=2),
        data((0.0, 1e-9, 0.5, -1.0)).with_(order=1),
    ],
)
def sinc_slope(x, *, order):
    """Derivative of the given order of sin(pi x) / (pi x).

    Near 0 its Taylor series; else the recursion from deriving x sinc(x) repeatedly.
    """
    near = xp.abs(x) < 1.0
    far_x = xp.where(near, 1.0, x)
    far = xp.sinc(far_x)
    for n in range(1, order + 1):
        wave = xp.pi ** (n - 1) * xp.sin(xp.pi * far_x + 0.5 * n * xp.pi)
        far = (wave - n * far) / far_x
    near_x = xp.where(near, x, 0.0)
    power = order + order % 2
    term = (-1.0) ** (power // 2) * xp.pi**power * near_x ** (power - order)
    series = term / (power + 1)
    for _ in range(16):
        step = (power - order + 1) * (power - order + 2)
        term = -term * (xp.pi * near_x) ** 2 / step
        power += 2
        series = series + term / (power + 1)
    return xp.where(near, series, far)


@op(
    infer=elementwise(np.sin),
    vjp=[lambda ct, y, x: ct * sinc_slope(x, order=1)],
    samples=[*_ONE, data((0.0, 0.5, -1.0)).with_()],
)
def sinc(x):
    """sin(pi x) / (pi x), 1 at 0."""
    return xp.sinc(x)


@sinc.accept(np.sinc)
def _(x):
    return sinc(as_operand(x))


# ------------------------------------------------------------------------- hyperbolic
@op(
    infer=elementwise(np.sinh),
    vjp=[lambda ct, y, x: ct * cosh(x)],
    accepts=[np.sinh],
    samples=[*_ONE, *_COMPLEX],
)
def sinh(x):
    """Hyperbolic sine."""
    return xp.sinh(x)


@op(
    infer=elementwise(np.cosh),
    vjp=[lambda ct, y, x: ct * sinh(x)],
    accepts=[np.cosh],
    samples=[*_ONE, *_COMPLEX],
)
def cosh(x):
    """Hyperbolic cosine."""
    return xp.cosh(x)


@op(
    infer=elementwise(np.tanh),
    vjp=[lambda ct, y, x: ct * (1.0 - y * y)],
    accepts=[np.tanh],
    finite=True,
    samples=[*_ONE, *_COMPLEX],
)
def tanh(x):
    """Hyperbolic tangent."""
    return xp.tanh(x)


@op(
    infer=elementwise(np.arcsinh),
    vjp=[lambda ct, y, x: ct / sqrt(x * x + 1.0)],
    accepts=[np.arcsinh],
    samples=[*_ONE, *_COMPLEX],
)
def arcsinh(x):
    """Inverse hyperbolic sine."""
    return xp.arcsinh(x)


def _slope_of_arccosh(ct, y, x):
    if dtype_of(x).kind == "c":
        # One root of the product would lie on the wrong branch for Re(x) < 0.
        return ct / (sqrt(x - 1.0) * sqrt(x + 1.0))
    return ct / sqrt(x * x - 1.0)


@op(
    infer=elementwise(np.arccosh),
    vjp=[_slope_of_arccosh],
    accepts=[np.arccosh],
    samples=[*_BEYOND, *_COMPLEX],
)
def arccosh(x):
    """Inverse hyperbolic cosine."""
    return xp.arccosh(x)


@op(
    infer=elementwise(np.arctanh),
    vjp=[lambda ct, y, x: ct / (1.0 - x * x)],
    accepts=[np.arctanh],
    samples=[*_INSIDE, *_COMPLEX],
)
def arctanh(x):
    """Inverse hyperbolic tangent."""
    return xp.arctanh(x)
