"""Special functions of orders and parameters: value and slope against mpmath.

Points near the ends, at poles and limits; errors where no derivative is known.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import scipy.special as sp
from ops.matrix import gradients

import tracegrad as tg
from tracegrad.ops import bessel, gammas, integrals
from tracegrad.ops.define import ACCEPT

mpmath.mp.dps = 40
mpf = mpmath.mpf


def incomplete_gamma(a):
    return lambda t: mpmath.gammainc(a, 0, t, regularized=True)


SMOOTH = [
    (gammas.rgamma, mpmath.rgamma, (-3.0, -2.5, 0.0, 0.5, 30.0)),
    (
        lambda x: gammas.gammainc(2.5, x),
        incomplete_gamma(mpf(2.5)),
        (1e-8, 0.5, 20.0),
    ),
    (
        lambda x: gammas.gammaincc(2.5, x),
        lambda t: mpmath.gammainc(2.5, t, regularized=True),
        (1e-3, 0.5, 60.0),
    ),
    (
        lambda x: gammas.betainc(2.5, 0.5, x),
        lambda t: mpmath.betainc(2.5, 0.5, 0, t, regularized=True),
        (1e-5, 0.5, 0.999),
    ),
    (lambda x: gammas.zeta(3, x), lambda t: mpmath.zeta(3, t), (0.1, 2.0, 30.0)),
    (lambda x: gammas.poch(x, 1.5), lambda t: mpmath.rf(t, 1.5), (0.1, 2.0, 30.0)),
    (lambda x: gammas.poch(1.5, x), lambda t: mpmath.rf(1.5, t), (0.1, 2.0, 9.0)),
    (bessel.j0, lambda t: mpmath.besselj(0, t), (-3.0, 1e-9, 20.0)),
    (bessel.j1, lambda t: mpmath.besselj(1, t), (-3.0, 0.0, 1e-9, 20.0)),
    (bessel.y0, lambda t: mpmath.bessely(0, t), (1e-3, 1.0, 20.0)),
    (bessel.y1, lambda t: mpmath.bessely(1, t), (1e-3, 1.0, 20.0)),
    (lambda x: bessel.jv(2.5, x), lambda t: mpmath.besselj(2.5, t), (0.1, 9.0)),
    (lambda x: bessel.iv(2.5, x), lambda t: mpmath.besseli(2.5, t), (0.1, 9.0)),
    (
        lambda x: bessel.ive(2, x),
        lambda t: mpmath.besseli(2, t) * mpmath.exp(-abs(t)),
        (-3.0, 0.1, 9.0),
    ),
    (lambda x: bessel.kv(2.5, x), lambda t: mpmath.besselk(2.5, t), (0.1, 9.0)),
    (lambda x: bessel.kn(0, x), lambda t: mpmath.besselk(0, t), (0.1, 9.0)),
    (lambda x: bessel.yn(2, x), lambda t: mpmath.bessely(2, t), (0.1, 9.0)),
    (
        integrals.erfcx,
        lambda t: mpmath.exp(t**2) * mpmath.erfc(t),
        (-2.0, 0.0, 3.0),
    ),
    (
        integrals.erfcinv,
        lambda t: mpmath.erfinv(1 - t),
        (1e-3, 1.0, 1.9),
    ),
    (integrals.exp1, mpmath.e1, (1e-6, 1.0, 30.0)),
    (integrals.expi, mpmath.ei, (-3.0, 1e-6, 30.0)),
    (lambda x: integrals.expn(0, x), lambda t: mpmath.expint(0, t), (0.1, 9.0)),
    (lambda x: integrals.expn(1, x), lambda t: mpmath.expint(1, t), (0.1, 9.0)),
    (lambda x: integrals.expn(3, x), lambda t: mpmath.expint(3, t), (0.1, 9.0)),
    (lambda x: integrals.sici(x)[0], mpmath.si, (-3.0, 0.0, 1e-9, 9.0)),
    (lambda x: integrals.sici(x)[1], mpmath.ci, (0.1, 9.0)),
    (lambda x: integrals.fresnel(x)[0], mpmath.fresnels, (-2.7, 0.0, 1.7)),
    (lambda x: integrals.fresnel(x)[1], mpmath.fresnelc, (-2.7, 0.0, 1.7)),
    (
        integrals.spence,
        lambda t: mpmath.re(mpmath.polylog(2, 1 - t)),
        (0.1, 1.0, 1.0 + 1e-9, 5.0),
    ),
    (integrals.ellipk, mpmath.ellipk, (-9.0, -1e-9, 0.0, 1e-12, 0.3, 0.9)),
    (integrals.ellipe, mpmath.ellipe, (-9.0, -1e-9, 0.0, 1e-12, 0.3, 0.9)),
    (
        lambda x: integrals.hyp1f1(1.5, 2.5, x),
        lambda t: mpmath.hyp1f1(1.5, 2.5, t),
        (-4.0, 0.0, 3.0),
    ),
    (
        lambda x: integrals.hyp2f1(0.5, 1.5, 2.5, x),
        lambda t: mpmath.hyp2f1(0.5, 1.5, 2.5, t),
        (-4.0, 0.0, 0.9),
    ),
]


@pytest.mark.parametrize(("f", "function", "points"), SMOOTH)
def test_value_and_slope_against_mpmath(f, function, points):
    x = np.array(points)
    value = [float(function(mpf(t))) for t in points]
    slope = [float(mpmath.diff(function, mpf(t))) for t in points]
    np.testing.assert_allclose(f(x), value, rtol=2e-12, atol=1e-300)
    np.testing.assert_allclose(gradients(f, x)[0], slope, rtol=1e-11, atol=1e-80)


def test_lambertw_is_complex():
    def f(x):
        return np.sum(sp.lambertw(x).real + sp.lambertw(-0.1 * x, -1).real)

    x = np.array([0.0, 0.5, 3.0])

    def slope(t):
        one = mpmath.diff(mpmath.lambertw, t) if t else mpf(1)
        return one - mpf(0.1) * mpmath.diff(lambda s: mpmath.lambertw(s, -1), -t / 10)

    expected = [float(mpmath.re(slope(mpf(t)))) for t in x[1:]]
    np.testing.assert_allclose(tg.grad(f)(x[1:]), expected, rtol=1e-12)
    assert tg.grad(lambda x: sp.lambertw(x).real)(0.0) == 1.0


def test_weighted_logsumexp():
    b = np.array([[1.0, -0.5, 2.0], [0.0, 1.0, 1.0]])

    def f(x, b):
        return np.sum(sp.logsumexp(x, axis=1, b=b) ** 2)

    x = np.array([[0.3, -1.0, 1000.0], [-np.inf, 1.0, 0.5]])
    value, (of_x, of_b) = tg.value_and_grad(f, (0, 1))(x, b)
    assert value == f(x, b)
    total = sp.logsumexp(x, axis=1, b=b, keepdims=True)
    share = np.exp(x - total)
    np.testing.assert_allclose(of_x, 2.0 * total * share * b)
    np.testing.assert_allclose(of_b, 2.0 * total * share)


def order_of_jv(v):
    return sp.jv(v, 2.0)


def shape_of_gammainc(a):
    return sp.gammainc(a, 2.0)


def riemann(x):
    return sp.zeta(x)


@pytest.mark.parametrize(
    ("f", "argument"), [(order_of_jv, "v"), (shape_of_gammainc, "a"), (riemann, "x")]
)
def test_no_derivative_is_an_error_of_the_line(f, argument):
    assert tg.compile(f)(2.5) == f(2.5)
    with pytest.raises(tg.UnsupportedError, match=f"respect to {argument}") as e:
        tg.grad(f)(2.5)
    assert "test_special_families.py" in str(e.value)


THE_LIST = """beta betainc betaln digamma polygamma gamma gammaln gammainc gammaincc
    gammasgn rgamma multigammaln erf erfc erfcx erfinv erfcinv expit logit log_expit
    logsumexp softmax log_softmax xlogy xlog1py entr rel_entr kl_div ndtr log_ndtr ndtri
    i0 i1 i0e i1e iv ive j0 j1 jn jv y0 y1 yn expn exp1 expi zeta sici spence fresnel
    poch hyp1f1 hyp2f1 lambertw ellipk ellipe"""


@pytest.mark.parametrize("name", THE_LIST.split())
def test_every_function_of_the_list_is_there(name):
    assert f"scipy.special:{name}" in ACCEPT
