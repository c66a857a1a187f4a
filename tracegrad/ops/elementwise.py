"""Arithmetic, comparison, and the elementary functions."""

from __future__ import annotations

import numpy as np
import numpy as xp

from tracegrad.ops.define import op
from tracegrad.ops.infer import elementwise
from tracegrad.ops.sample import arg, call

_PAIRS = (call(arg(3), arg(2, 3)), call(arg("n", 1), arg(3)), call(arg(), arg("n")))


@op(
    infer=elementwise(np.add, python=True),
    vjp=[lambda ct, z, x, y: ct, lambda ct, z, x, y: ct],
    operator="__add__",
    accepts=[np.add],
    cheap=True,
    samples=_PAIRS,
)
def add(x, y):
    """Sum."""
    return x + y


@op(
    infer=elementwise(np.subtract, python=True),
    vjp=[lambda ct, z, x, y: ct, lambda ct, z, x, y: -ct],
    operator="__sub__",
    accepts=[np.subtract],
    cheap=True,
    samples=_PAIRS,
)
def subtract(x, y):
    """Difference."""
    return x - y


@op(
    infer=elementwise(np.multiply, python=True),
    vjp=[lambda ct, z, x, y: ct * y, lambda ct, z, x, y: ct * x],
    operator="__mul__",
    accepts=[np.multiply],
    cheap=True,
    samples=_PAIRS,
)
def multiply(x, y):
    """Product."""
    return x * y


@op(
    infer=elementwise(np.true_divide, python=True),
    vjp=[lambda ct, z, x, y: ct / y, lambda ct, z, x, y: -(ct * z / y)],
    operator="__truediv__",
    accepts=[np.true_divide],
    cheap=True,
    samples=(call(arg(3), arg(2, 3, lo=0.5)), call(arg("n", 1), arg(3, lo=0.5))),
)
def divide(x, y):
    """Quotient."""
    return x / y


@op(
    infer=elementwise(np.negative, python=True),
    vjp=[lambda ct, z, x: -ct],
    operator="__neg__",
    accepts=[np.negative],
    cheap=True,
    samples=[arg(3).with_(), arg("n", 2).with_()],
)
def negative(x):
    """Sign change."""
    return -x


@op(
    infer=elementwise(np.square),
    vjp=[lambda ct, y, x: ct * (2.0 * x)],
    accepts=[np.square],
    cheap=True,
    samples=[arg(3).with_(), arg("n", 2).with_(), arg().with_()],
)
def square(x):
    """Square."""
    return x**2


@op(
    infer=elementwise(np.tanh),
    vjp=[lambda ct, y, x: ct * (1.0 - y * y)],
    accepts=[np.tanh],
    samples=[arg(3).with_(), arg("n", 2).with_(), arg().with_()],
)
def tanh(x):
    """Hyperbolic tangent."""
    return xp.tanh(x)


@op(
    infer=elementwise(np.exp),
    vjp=[lambda ct, y, x: ct * y],
    accepts=[np.exp],
    samples=[arg(3).with_(), arg("n", 2).with_(), arg().with_()],
)
def exp(x):
    """Exponential."""
    return xp.exp(x)
