"""Integrals and series: exponential, Fresnel, elliptic, hypergeometric, Lambert's W.

Derivatives as in the NIST Digital Library of Mathematical Functions.
"""

from __future__ import annotations

import math
import operator

import numpy as np

from tracegrad.errors import ArgumentError
from tracegrad.ops.define import Batch, accept, op
from tracegrad.ops.elementary import exp, log
from tracegrad.ops.library import special
from tracegrad.ops.record import as_operand, constant_of, no_slope, offset
from tracegrad.ops.sample import arg, call, data
from tracegrad.ops.select import where
from tracegrad.ops.special import spelled
from tracegrad.ops.trigonometry import cos, sin

_ONE = (arg(3).with_(), arg("n", 2).with_(), arg().with_())
_POSITIVE = (
    arg(3, lo=0.3, hi=4.0).with_(),
    arg("n", 2, lo=0.3, hi=4.0).with_(),
    arg(lo=0.3).with_(),
)
_TWO_BY_ROOT_PI = 2.0 / math.sqrt(math.pi)


# ------------------------------------------------------------------- error functions
@op(
    **spelled("erfcx"),
    vjp=[lambda ct, y, x: ct * (2.0 * x * y - _TWO_BY_ROOT_PI)],
    samples=_ONE,
)
def erfcx(x):
    """exp(x**2) erfc(x)."""
    return special.erfcx(x)


@op(
    **spelled("erfi"),
    vjp=[lambda ct, y, x: ct * (_TWO_BY_ROOT_PI * exp(x**2))],
    samples=[s.without("jax") for s in _ONE],
)
def erfi(x):
    """Imaginary error function, -i erf(i x)."""
    return special.erfi(x)


@op(
    **spelled("dawsn"),
    vjp=[lambda ct, y, x: ct * (1.0 - 2.0 * x * y)],
    samples=_ONE,
)
def dawsn(x):
    """Dawson's integral, sqrt(pi)/2 exp(-x**2) erfi(x)."""
    return special.dawsn(x)


@op(
    **spelled("erfcinv"),
    vjp=[lambda ct, y, x: -(ct * (exp(y**2) / _TWO_BY_ROOT_PI))],
    samples=[arg(3, lo=0.1, hi=1.9).with_(), arg("n", 2, lo=0.1, hi=1.9).with_()],
)
def erfcinv(x):
    """Inverse of `erfc`."""
    return special.erfcinv(x)


@erfcinv.body("jax")
def _(x):
    return special.ndtri(0.5 * x) * -(0.5**0.5)


# ------------------------------------------------------------- exponential integrals
@op(**spelled("exp1"), vjp=[lambda ct, y, x: -(ct * exp(-x) / x)], samples=_POSITIVE)
def exp1(x):
    """Integral of exp(-t)/t from x to infinity."""
    return special.exp1(x)


@op(
    **spelled("expi"),
    vjp=[lambda ct, y, x: ct * exp(x) / x],
    samples=[*_POSITIVE, arg(3, lo=-4.0, hi=-0.3).with_()],
)
def expi(x):
    """Principal value of the integral of exp(t)/t from -infinity to x."""
    return special.expi(x)


def _slope_of_expn(ct, y, n, x):
    order = constant_of(n)
    if order is not None and order > 0:
        return -(ct * expn(order - 1, x))
    if order is not None:
        return -(ct * (y * (1.0 / x + 1.0)))
    lower = expn(where(n == 0, 0, n - 1), x)
    return -(ct * where(n == 0, y * (1.0 / x + 1.0), lower))


@op(
    **spelled("expn"),
    vjp=[None, _slope_of_expn],
    samples=[
        call(arg(3, lo=0, hi=3, dtype="int64"), arg(2, 3, lo=0.3, hi=4.0)),
        call(data(1, dtype="int64"), arg("n", lo=0.3, hi=4.0)),
    ],
)
def expn(n, x):
    """Integral of exp(-x t) / t**n from 1 to infinity, for whole `n`."""
    return special.expn(n, x)


# ---------------------------------------------------------- trigonometric integrals
@op(
    **spelled("sici"),
    noun="integral",
    samples=[*_ONE, data((0.0, 1.0)).with_().rough()],
)
def sici(x):
    """Integrals of sin(t)/t and of cos(t)/t."""
    return special.sici(x)


@sici.vjp
def _(ct, y, x):
    of_sine, of_cosine = ct
    slope = None
    if of_sine is not None:
        at_zero = x == 0.0
        slope = of_sine * where(at_zero, 1.0, sin(x) / where(at_zero, 1.0, x))
    if of_cosine is not None:
        other = of_cosine * cos(x) / x
        slope = other if slope is None else slope + other
    return slope


@op(**spelled("fresnel"), noun="integral", samples=_ONE)
def fresnel(x):
    """Integrals of sin(pi t**2 / 2) and cos(pi t**2 / 2) from 0 to x."""
    return special.fresnel(x)


@fresnel.vjp
def _(ct, y, x):
    of_sine, of_cosine = ct
    slope = None
    if of_sine is not None:
        slope = of_sine * sin(0.5 * math.pi * x**2)
    if of_cosine is not None:
        other = of_cosine * cos(0.5 * math.pi * x**2)
        slope = other if slope is None else slope + other
    return slope


def _slope_of_spence(ct, y, x):
    at_one = x == 1.0
    return ct * where(at_one, -1.0, log(x) / where(at_one, 1.0, 1.0 - x))


@op(**spelled("spence"), vjp=[_slope_of_spence], samples=_POSITIVE)
def spence(x):
    """Dilogarithm Li2(1 - x): integral of log(t) / (1 - t) from 1 to x."""
    return special.spence(x)


# ----------------------------------------------------------------- elliptic integrals
_MODULI = (
    arg(3, lo=-0.9, hi=0.8).with_().without("jax"),
    arg("n", 2, lo=-2.0, hi=0.7).with_().without("jax"),
)


# As series, since (E - (1 - m) K) / m loses all digits near m = 0.
@op(
    **spelled("ellipk"),
    vjp=[lambda ct, y, m: ct * (math.pi / 8.0 * hyp2f1(1.5, 1.5, 2.0, m))],
    samples=_MODULI,
)
def ellipk(m):
    """Complete elliptic integral of the first kind, of parameter m = k**2."""
    return special.ellipk(m)


@op(
    **spelled("ellipe"),
    vjp=[lambda ct, y, m: -(ct * (math.pi / 8.0 * hyp2f1(0.5, 1.5, 2.0, m)))],
    samples=_MODULI,
)
def ellipe(m):
    """Complete elliptic integral of the second kind, of parameter m = k**2."""
    return special.ellipe(m)


# --------------------------------------------------------------------- hypergeometric
@op(
    **spelled("hyp1f1"),
    vjp=[
        no_slope("scipy.special.hyp1f1", "a"),
        no_slope("scipy.special.hyp1f1", "b"),
        lambda ct, y, a, b, x: ct * (a / b * hyp1f1(offset(a, 1), offset(b, 1), x)),
    ],
    samples=[
        call(
            arg(3, lo=1, hi=3, dtype="int64"),
            arg(lo=2, hi=5, dtype="int64"),
            arg("n", 3),
        )
    ],
)
def hyp1f1(a, b, x):
    """Confluent hypergeometric function."""
    return special.hyp1f1(a, b, x)


@op(
    **spelled("hyp0f1"),
    vjp=[
        no_slope("scipy.special.hyp0f1", "v"),
        lambda ct, y, v, x: ct * (hyp0f1(offset(v, 1), x) / v),
    ],
    samples=[call(arg(3, lo=1, hi=4, dtype="int64"), arg("n", 3)).without("jax")],
)
def hyp0f1(v, x):
    """Confluent hypergeometric limit function."""
    return special.hyp0f1(v, x)


@op(
    **spelled("hyp2f1"),
    vjp=[
        no_slope("scipy.special.hyp2f1", "a"),
        no_slope("scipy.special.hyp2f1", "b"),
        no_slope("scipy.special.hyp2f1", "c"),
        lambda ct, y, a, b, c, x: (
            ct * (a * b / c * hyp2f1(offset(a, 1), offset(b, 1), offset(c, 1), x))
        ),
    ],
    samples=[
        call(
            arg(3, lo=1, hi=3, dtype="int64"),
            arg(lo=1, hi=2, dtype="int64"),
            arg(lo=3, hi=5, dtype="int64"),
            arg("n", 3, lo=-0.7, hi=0.7),
        )
    ],
)
def hyp2f1(a, b, c, x):
    """Gauss's hypergeometric function."""
    return special.hyp2f1(a, b, c, x)


# ------------------------------------------------------------------------ Lambert's W
@op(
    # SciPy computes in complex128 whatever it is given.
    infer=lambda t, *, k: t.with_dtype(np.complex128),
    vjp=[lambda ct, y, x, *, k: ct * (exp(-y) / (y + 1.0))],
    spelling="scipy.special.lambertw",
    batch=Batch.MAP,
    samples=[
        arg(3, lo=0.2).with_().without("jax"),
        arg("n", 2, lo=-0.3, hi=-0.1).with_(k=-1).without("jax"),
        arg(3, dtype="complex128").with_(k=1).without("jax"),
    ],
)
def lambertw(x, *, k=0):
    """Branch `k` of the solution w of w exp(w) = x, a complex number."""
    return special.lambertw(x, k=k)


@accept("scipy.special:lambertw")
def _(z, k=0, tol=1e-8):
    branch = constant_of(k)
    if branch is None or tol != 1e-8:
        raise ArgumentError(
            "scipy.special.lambertw takes one constant branch, and the default tol",
            fix="call it once for each branch",
        )
    return lambertw(as_operand(z), k=operator.index(branch))
