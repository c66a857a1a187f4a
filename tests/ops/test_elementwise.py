"""Elementwise ops at the points where a textbook rule goes wrong.

Expected numbers come from analysis, beside each case.
"""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest
from ops.matrix import gradients

from tracegrad.errors import ArgumentError, DTypeError
from tracegrad.ir.graph import Const, Value
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import ACCEPT, METHODS, OPERATORS
from tracegrad.ops.elementary import log, logaddexp, power, raise_to, sqrt
from tracegrad.ops.record import Builder
from tracegrad.ops.select import absolute, clip, maximum, minimum, nan_to_num, where
from tracegrad.ops.trigonometry import arctan2, hypot, sin, sinc

INF = math.inf


def a(*values):
    return np.array(values, dtype=float)


def recorded(function, *types):
    """The ops that a function records on values of these types, and its result."""
    builder = Builder()
    refs = [builder.wrap(Value(t)) for t in types]
    out = function(*refs)
    return [node.op.name for node in builder.nodes], out


VECTOR = ArrayType((3,), np.dtype(np.float64))
INTEGERS = ArrayType((3,), np.dtype(np.int64))
WEAK = ArrayType((), np.dtype(np.float64), weak=True)


# ----------------------------------------------------------------------- where masks
@pytest.mark.parametrize(
    ("function", "x", "expected"),
    [
        # The branch not taken has an infinite or undefined slope there.
        (lambda x: where(x > 0, sqrt(x), 0.0), a(0.0, 4.0), a(0.0, 0.25)),
        (lambda x: where(x > 0, sqrt(x), x), a(-4.0, 0.25), a(1.0, 1.0)),
        (lambda x: where(x == 0.0, 1.0, sin(x) / x), a(0.0), a(0.0)),
        (lambda x: where(x > 0, x * log(x), 0.0), a(0.0, 1.0), a(0.0, 1.0)),
        (lambda x: where(x > 0, 1.0 / x, 0.0), a(0.0, 2.0), a(0.0, -0.25)),
        # Two masks, one inside the other.
        (
            lambda x: where(x < 9, where(x > 0, sqrt(x), 1.0), 2.0),
            a(0.0, 4.0, 16.0),
            a(0.0, 0.25, 0.0),
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_where_gives_zero_not_nan(function, x, expected):
    (gradient,) = gradients(function, x)
    np.testing.assert_allclose(gradient, expected)


# ---------------------------------------------------------------------------- powers
def test_power_with_a_zero_base_or_exponent():
    base, exponent = gradients(power, a(0.0, 2.0, 0.0), a(1.0, 3.0, 0.0))
    np.testing.assert_allclose(base, [1.0, 12.0, 0.0])
    np.testing.assert_allclose(exponent, [0.0, 8.0 * math.log(2.0), 0.0])


@pytest.mark.parametrize(
    ("exponent", "expected"),
    [(0, None), (1, 1.0), (2, 6.0), (3, 27.0), (-1, -1 / 9), (0.5, 0.5 / 3**0.5)],
)
def test_power_with_a_constant_exponent(exponent, expected):
    (gradient,) = gradients(lambda x: x**exponent, a(3.0))
    if expected is None:
        assert gradient is None
    else:
        np.testing.assert_allclose(gradient, [expected])


def test_a_constant_exponent_makes_short_programs():
    assert recorded(lambda x: x**2, VECTOR)[0] == ["square"]
    assert recorded(lambda x: raise_to(x, 2.0), VECTOR)[0] == ["square"]
    assert recorded(lambda x: x**2, INTEGERS)[0] == ["square"]
    # 2.0 takes integers to floats, so it is no square of integers.
    names, out = recorded(lambda x: x**2.0, INTEGERS)
    assert names == ["power"] and out.dtype == np.float64
    names, out = recorded(lambda x: x ** np.float64(2.0), VECTOR.with_dtype("f4"))
    assert names == ["power"] and out.dtype == np.float64


def test_power_of_a_constant_base():
    (gradient,) = gradients(lambda y: 2.0**y, a(3.0))
    np.testing.assert_allclose(gradient, [8.0 * math.log(2.0)])
    assert gradients(lambda y: 1.0**y, a(3.0)) == [None]
    np.testing.assert_allclose(gradients(lambda y: 0.0**y, a(3.0))[0], [0.0])


# ------------------------------------------------------------------ kinks and corners
@pytest.mark.parametrize(
    ("function", "x", "expected"),
    [
        (absolute, a(-2.0, 0.0, 3.0), a(-1.0, 0.0, 1.0)),
        (lambda x: maximum(x, 0.0), a(-1.0, 0.0, 1.0), a(0.0, 0.0, 1.0)),
        (lambda x: maximum(0.0, x), a(-1.0, 0.0, 1.0), a(0.0, 0.0, 1.0)),
        (lambda x: minimum(1.0, x), a(0.0, 1.0, 2.0), a(1.0, 0.0, 0.0)),
        (lambda x: maximum(x, x), a(3.0), a(1.0)),
        (lambda x: clip(x, -1.0, 1.0), a(-7.0, -1.0, 0.3, 1.0, 2.0), a(0, 1, 1, 1, 0)),
        (nan_to_num, a(1.0, np.nan, INF), a(1.0, 0.0, 0.0)),
        (sinc, a(0.0, 0.5, -1.0), a(0.0, -4.0 / math.pi, 1.0)),
        # 1e-9 * -pi^2 / 3, which (cos - sinc) / x would lose altogether.
        (sinc, a(1e-9), a(-1e-9 * math.pi**2 / 3.0)),
    ],
)
def test_slope_at_a_kink(function, x, expected):
    np.testing.assert_allclose(gradients(function, x)[0], expected, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:divide by zero")
def test_sqrt_at_zero_is_infinite():
    np.testing.assert_allclose(gradients(sqrt, a(0.0, 4.0))[0], [INF, 0.25])


def test_second_derivative_of_sinc_at_zero():
    slope = lambda x: gradients(sinc, x)[0]
    h = 1e-4
    second = (slope(a(h)) - slope(a(-h))) / (2 * h)
    np.testing.assert_allclose(second, -(math.pi**2) / 3.0, rtol=1e-6)


def test_hypot_and_arctan2():
    x, y = gradients(hypot, a(3.0, 0.0, 0.0), a(4.0, 2.0, 0.0))
    np.testing.assert_allclose(x, [0.6, 0.0, 0.0])
    np.testing.assert_allclose(y, [0.8, 1.0, 0.0])
    y, x = gradients(arctan2, a(1.0, -2.0, 0.0), a(-1.0, 0.0, 2.0))
    np.testing.assert_allclose(y, [-0.5, 0.0, 0.5])
    np.testing.assert_allclose(x, [-0.5, 0.5, 0.0])


def test_logaddexp_of_minus_infinity():
    x, y = gradients(logaddexp, a(-INF, -INF, 0.0), a(-INF, 2.0, 0.0))
    np.testing.assert_allclose(x, [0.0, 0.0, 0.5])
    np.testing.assert_allclose(y, [0.0, 1.0, 0.5])


def test_remainder_counts_the_divisor():
    x, y = gradients(operator.mod, a(5.5, -5.5, -19.5), a(2.0, 2.0, 3.0))
    np.testing.assert_allclose(x, [1.0, 1.0, 1.0])
    np.testing.assert_allclose(y, [-2.0, 3.0, 7.0])


def test_clip_with_crossed_limits_follows_the_upper_one():
    x, lo, hi = gradients(clip, a(0.0), a(2.0), a(1.0))
    assert (x, lo, hi) == (0.0, 0.0, 1.0)


# ------------------------------------------------------------------------- spellings
BINARY = "add sub mul truediv floordiv mod pow lt le gt ge eq ne and or xor"
UNARY = "neg pos abs invert"


@pytest.mark.parametrize("name", [*BINARY.split(), *UNARY.split(), "lshift", "rshift"])
def test_every_operator_is_registered(name):
    assert f"__{name}__" in OPERATORS


def test_python_scalars_stay_weak():
    for function in (
        lambda x: x + 1,
        lambda x: -x * 2.0,
        lambda x: x**3,
        lambda x: x**2,
    ):
        assert recorded(function, WEAK)[1].type.weak
    single = VECTOR.with_dtype(np.float32)
    builder = Builder()
    n, x = builder.wrap(Value(WEAK)), builder.wrap(Value(single))
    assert ((n + 1.0) / 2.0 * x).dtype == np.float32


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda x: ACCEPT[np.clip](x, 0.0, None), ["maximum"]),
        (lambda x: ACCEPT[np.clip](x, a_max=1.0), ["minimum"]),
        (lambda x: ACCEPT[np.clip](x, min=-1.0, max=1.0), ["clip"]),
        (lambda x: METHODS["clip"](x, -1.0, 1.0), ["clip"]),
        (lambda x: METHODS["round"](x, 2), ["round"]),
        (lambda x: METHODS["astype"](x, "f4"), ["astype"]),
        (lambda x: METHODS["astype"](x, float, copy=False), []),
        (lambda x: ACCEPT[np.real](x), []),
        (lambda x: ACCEPT[np.divmod](x, 2.0)[1], ["floor_divide", "remainder"]),
        (lambda x: ACCEPT[np.fix](x), ["trunc"]),
        (
            lambda x: ACCEPT[np.select]([x < 0, x < 1], [x, 2.0 * x], 3.0),
            ["less", "less", "multiply", "where", "where"],
        ),
        (lambda x: ACCEPT[math.hypot](x, 1.0), ["hypot"]),
        (lambda x: ACCEPT[math.log](x, 2.0), ["log", "divide"]),
    ],
)
def test_calls_record_ops(call, expected):
    type_ = ArrayType((), np.dtype(np.float64))
    assert recorded(call, type_)[0] == expected


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: ACCEPT[np.where](x > 0, x), ArgumentError, "one or three"),
        (lambda x: ACCEPT[np.clip](x, 0, 1, out=x), ArgumentError, r"clip\(out="),
        (lambda x: ACCEPT[np.nan_to_num](x, copy=False), ArgumentError, "copy="),
        (lambda x: ACCEPT[math.exp](x), ArgumentError, "not an array of shape"),
        (lambda x: METHODS["astype"](x, "S3"), DTypeError, "not supported"),
        (
            lambda x: METHODS["astype"](x, int, casting="safe"),
            DTypeError,
            "cannot cast",
        ),
        (lambda x: ~x, DTypeError, "no loop"),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        recorded(call, VECTOR)


def test_constant_exponent_needs_no_constant_array():
    builder = Builder()
    builder.wrap(Value(VECTOR)) ** 3
    assert isinstance(builder.nodes[0].inputs[1], Const)
