"""Special functions in their tails and at infinity.

Expected numbers are from mpmath with 40 digits.
"""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import scipy.special
from ops.matrix import gradients

from tracegrad.errors import ArgumentError, DTypeError
from tracegrad.ir.graph import Value
from tracegrad.ir.types import ArrayType
from tracegrad.ops import special
from tracegrad.ops.define import ACCEPT
from tracegrad.ops.record import Builder

INF = math.inf
mpmath.mp.dps = 40


def a(*values):
    return np.array(values, dtype=float)


@pytest.mark.parametrize(
    ("op", "function", "points"),
    [
        (special.expit, lambda t: 1 / (1 + mpmath.exp(-t)), (-700.0, -40.0, 0.0, 3.0)),
        (
            special.log_expit,
            lambda t: -mpmath.log(1 + mpmath.exp(-t)),
            (-700.0, -1.0, 0.0, 36.0),
        ),
        (special.logit, lambda t: mpmath.log(t / (1 - t)), (1e-12, 0.3, 0.999)),
        (special.gammaln, mpmath.loggamma, (1e-8, 0.5, 30.0)),
        (special.digamma, mpmath.digamma, (0.01, 1.5, 30.0)),
        (special.gamma, mpmath.gamma, (-0.5, 0.5, 5.5)),
        (special.erf, mpmath.erf, (-6.0, 0.0, 3.0)),
        (special.erfc, mpmath.erfc, (-1.0, 0.0, 12.0)),
        (special.erfinv, mpmath.erfinv, (-0.999, 0.0, 0.5)),
        (special.ndtr, mpmath.ncdf, (-12.0, 0.0, 3.0)),
        (special.log_ndtr, lambda t: mpmath.log(mpmath.ncdf(t)), (-30.0, -3.0, 5.0)),
        (special.entr, lambda t: -t * mpmath.log(t), (1e-9, 0.5, 2.0)),
        (special.i0, lambda t: mpmath.besseli(0, t), (-6.0, 0.5, 3.0)),
        (special.i1, lambda t: mpmath.besseli(1, t), (-6.0, 0.0, 3.0)),
        (
            special.i0e,
            lambda t: mpmath.exp(-abs(t)) * mpmath.besseli(0, t),
            (-6.0, 0.5, 30.0),
        ),
        (
            special.i1e,
            lambda t: mpmath.exp(-abs(t)) * mpmath.besseli(1, t),
            (-6.0, 0.5, 30.0),
        ),
    ],
    ids=lambda x: getattr(x, "name", None),
)
def test_value_and_slope_against_mpmath(op, function, points):
    x = a(*points)
    value = [float(function(mpmath.mpf(t))) for t in points]
    slope = [float(mpmath.diff(function, mpmath.mpf(t))) for t in points]
    np.testing.assert_allclose(op.run(x), value, rtol=2e-13, atol=1e-300)
    np.testing.assert_allclose(gradients(op, x)[0], slope, rtol=2e-12, atol=1e-300)


def test_logistic_functions_do_not_warn_far_out():
    x = a(-800.0, 800.0)
    np.testing.assert_array_equal(special.expit.run(x), [0.0, 1.0])
    np.testing.assert_array_equal(gradients(special.expit, x)[0], [0.0, 0.0])
    np.testing.assert_array_equal(special.log_expit.run(x), [-800.0, 0.0])


# ----------------------------------------------------------------- sums of exponentials
MATRIX = ArrayType((2, 3), np.dtype(np.float64))
ROWS = np.array([[-INF, -INF], [-INF, 1.0], [1000.0, 1001.0], [2.0, INF]])


def test_logsumexp_of_infinite_rows():
    with np.errstate(all="raise", under="ignore"):
        value = special.logsumexp.run(ROWS, axis=1)
    with np.errstate(all="ignore"):
        expected = scipy.special.logsumexp(ROWS, axis=1)
    np.testing.assert_allclose(value, expected)
    assert special.logsumexp.run(ROWS, axis=1, keepdims=True).shape == (4, 1)
    assert type(special.logsumexp.run(ROWS)) is np.float64


def test_gradient_of_logsumexp_of_minus_infinity_is_zero():
    (gradient,) = gradients(lambda x: special.logsumexp(x, axis=1), ROWS[:3])
    share = 1.0 / (1.0 + math.e)
    expected = [[0.0, 0.0], [0.0, 1.0], [share, 1.0 - share]]
    np.testing.assert_allclose(gradient, expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_equals_scipy(name):
    x = np.array([[-INF, 1.0, 0.5], [1000.0, 1001.0, 0.0]])
    with np.errstate(all="raise", under="ignore", divide="ignore"):
        value = getattr(special, name).run(x, axis=1)
    np.testing.assert_allclose(value, getattr(scipy.special, name)(x, axis=1))


def test_xlogy_where_both_are_zero():
    x, y = gradients(special.xlogy, a(0.0, 0.5, 2.0), a(2.0, 3.0, 0.25))
    np.testing.assert_allclose(x, np.log([2.0, 3.0, 0.25]))
    np.testing.assert_allclose(y, [0.0, 0.5 / 3.0, 8.0])
    (y,) = gradients(lambda y: special.xlogy(a(0.0, 1.0), y), a(0.0, 2.0))
    np.testing.assert_allclose(y, [0.0, 0.5])


# -------------------------------------------------------------------------- spellings
def traced(type_=MATRIX):
    builder = Builder()
    return builder, builder.wrap(Value(type_))


def test_spellings_of_scipy():
    builder, x = traced()
    out = ACCEPT["scipy.special:logsumexp"](a=x, axis=-1, keepdims=True)
    assert out.shape == (2, 1)
    assert ACCEPT["scipy.special:softmax"](x, axis=(0, -1)).shape == (2, 3)
    assert ACCEPT["scipy.special:polygamma"](2, x).shape == (2, 3)
    assert ACCEPT["scipy.special:polygamma"](0, x).shape == (2, 3)
    assert ACCEPT[(np.logaddexp, "reduce")](x).shape == (3,)
    names = [node.op.name for node in builder.nodes]
    assert names == ["logsumexp", "softmax", "polygamma", "digamma", "logsumexp"]


def test_integers_become_floats():
    _, x = traced(ArrayType((3,), np.dtype(np.int32)))
    assert ACCEPT["scipy.special:softmax"](x).dtype == np.float64
    assert special.erf(x).dtype == scipy.special.erf(np.int32(1)).dtype


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda x: ACCEPT["scipy.special:logsumexp"](x, return_sign=True),
            ArgumentError,
            "return_sign",
        ),
        (lambda x: ACCEPT["scipy.special:polygamma"](x, x), ArgumentError, "order"),
        (
            lambda x: ACCEPT["scipy.special:softmax"](x + 1j),
            DTypeError,
            "complex128 is not supported",
        ),
        (lambda x: special.gammaln(x + 1j), DTypeError, "no loop"),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call(traced()[1])
