"""Powers of Python floats by `np.power` and `math.pow`, which are real or nan."""

from __future__ import annotations

import math
import warnings

import mpmath
import numpy as np
import pytest

import tracegrad as tg

EXPONENTS = [0.5, 1.0 / 3.0, -0.5, 2.5, 2.0, 3.0, -1.0, 0.0, 1.0]
FUNCTIONS = {"np.power": np.power, "math.pow": math.pow}


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_negative_base_gives_no_complex_number(name, exponent, backend):
    power = FUNCTIONS[name]

    def f(x):
        return power(x, exponent)

    def g(x, y):
        return power(x, y)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = np.power(-2.0, exponent)
        found = [
            *tg.value_and_grad(f, backend=backend)(-2.0),
            tg.grad(tg.grad(f), backend=backend)(-2.0),
            tg.value_and_grad(g, backend=backend)(-2.0, exponent)[0],
        ]
    assert not any(np.iscomplexobj(v) for v in found)
    np.testing.assert_allclose(found[0], want)
    np.testing.assert_allclose(found[3], want)
    slopes = [exponent * (-2.0) ** (exponent - 1.0)]
    slopes.append(exponent * (exponent - 1.0) * (-2.0) ** (exponent - 2.0))
    if exponent.is_integer():
        np.testing.assert_allclose(found[1:3], slopes)
    else:
        assert np.isnan(found[1:3]).all()


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_positive_base(name, exponent, backend):
    power = FUNCTIONS[name]
    f = lambda x: power(x, exponent)
    g = lambda x, y: power(x, y)
    for order, df in enumerate([f, tg.grad(f), tg.grad(tg.grad(f))]):
        want = float(mpmath.diff(lambda x: x ** mpmath.mpf(exponent), 1.7, order))
        have = tg.compile(df, backend=backend)(1.7)
        np.testing.assert_allclose(have, want, rtol=1e-12, atol=1e-12)
    slopes = tg.grad(g, argnums=(0, 1), backend=backend)(1.7, exponent)
    want = [exponent * 1.7 ** (exponent - 1.0), 1.7**exponent * math.log(1.7)]
    np.testing.assert_allclose(slopes, want, rtol=1e-12)


def test_it_leaves_float32_what_it_is():
    v = np.array([1.0, 2.0], np.float32)
    f = lambda v, x: np.sum(v * math.pow(x, 0.3))
    assert tg.grad(f)(v, 1.5).dtype == f(v, 1.5).dtype == np.float32


def test_python_raises_where_the_function_tries():
    def f(x):
        try:
            return math.pow(x, 0.5)
        except ValueError:
            return 3.0 * x

    g = tg.value_and_grad(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, of the nan that is asked for
        assert g(-2.0) == (-6.0, 3.0)
    np.testing.assert_allclose(g(4.0), (2.0, 0.25))


def test_complex_exponents_of_python_floats():
    f = lambda x: np.power(x, 0.5j).real
    value, slope = tg.value_and_grad(f)(2.0)
    np.testing.assert_allclose(value, math.cos(0.5 * math.log(2.0)), rtol=1e-12)
    want = -math.sin(0.5 * math.log(2.0)) * 0.25
    np.testing.assert_allclose(slope, want, rtol=1e-12)
