"""The rest of the gamma family: incomplete functions, ratios, zeta.

Derivatives as in the NIST Digital Library of Mathematical Functions, chapters 5, 8 and
25.  With respect to the order of an incomplete function none is known in closed form.
"""

from __future__ import annotations

import math

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import Batch, accept, op
from tracegrad.ops.elementary import exp
from tracegrad.ops.infer import elementwise
from tracegrad.ops.library import special
from tracegrad.ops.record import as_operand, no_slope, offset
from tracegrad.ops.sample import arg, call, data
from tracegrad.ops.select import where
from tracegrad.ops.special import (
    betaln,
    digamma,
    gamma,
    gammaln,
    spelled,
    xlog1py,
    xlogy,
)
from tracegrad.ops.trigonometry import cos

_ORDERS = arg(3, lo=1, hi=4, dtype="int64")
_ORDER_AND_POINT = (
    call(_ORDERS, arg(2, 3, lo=0.3, hi=4.0)),
    call(arg("n", 1, lo=1, hi=4, dtype="int64"), arg(3, lo=0.3, hi=4.0)),
)


# ------------------------------------------------------------------- values of gamma
@op(
    **spelled("gammasgn"),
    vjp=[None],
    samples=[arg(4).with_(), arg("n", 2).with_()],
)
def gammasgn(x):
    """Sign of `gamma(x)`; its derivative is 0."""
    return special.gammasgn(x)


def _slope_of_rgamma(ct, y, x):
    # Zero at 0, -1, -2, ..., where digamma has its poles: there the limit.
    at_pole = (y == 0.0) & (x <= 0.0)
    regular = -(y * digamma(where(at_pole, 1.0, x)))
    return ct * where(at_pole, cos(math.pi * x) * gamma(1.0 - x), regular)


@op(
    **spelled("rgamma"),
    vjp=[_slope_of_rgamma],
    samples=[
        arg(3, lo=0.3, hi=4.0).with_(),
        arg("n", 2, lo=-0.9, hi=-0.2).with_(),
        arg(lo=0.3).with_(),
    ],
)
def rgamma(x):
    """1 / gamma(x), 0 at the poles of gamma."""
    return special.rgamma(x)


@rgamma.body("jax")
def _(x):
    return special.gammasgn(x) * xp.exp(-special.gammaln(x))


def _slope_of_multigammaln(ct, y, a, *, d):
    slope = digamma(a)
    for i in range(1, d):
        slope = slope + digamma(a - 0.5 * i)
    return ct * slope


@op(
    # SciPy's function adds a sum of float64 numbers.
    infer=lambda t, *, d: elementwise(np.add)(t, ArrayType((), np.dtype(np.float64))),
    vjp=[_slope_of_multigammaln],
    spelling="scipy.special.multigammaln",
    batch=Batch.MAP,
    samples=[
        arg(3, lo=1.5, hi=4.0).with_(d=3),
        arg("n", 2, lo=0.6).with_(d=2),
        arg(lo=0.6).with_(d=1),
    ],
)
def multigammaln(a, *, d):
    """log of the multivariate gamma function of dimension `d`."""
    return special.multigammaln(a, d)


@multigammaln.accept("scipy.special:multigammaln")
def _(a, d):
    if isinstance(d, bool) or not isinstance(d, int | np.integer) or d < 1:
        raise ArgumentError(
            f"the dimension of scipy.special.multigammaln must be a whole number >= 1, "
            f"not {d!r}",
            fix="give a constant",
        )
    return multigammaln(as_operand(a), d=int(d))


@op(
    **spelled("poch"),
    vjp=[
        lambda ct, y, z, m: ct * (y * (digamma(z + m) - digamma(z))),
        lambda ct, y, z, m: ct * (y * digamma(z + m)),
    ],
    samples=[
        call(arg(3, lo=0.3), arg(2, 3, lo=0.3)),
        call(arg("n", 1, lo=0.3), arg(lo=0.3)),
    ],
)
def poch(z, m):
    """Rising factorial, gamma(z + m) / gamma(z)."""
    return special.poch(z, m)


# -------------------------------------------------------------- incomplete functions
def _gamma_density(a, x):
    """Density of the gamma distribution of shape `a`."""
    return exp(xlogy(offset(a, -1.0), x) - x - gammaln(a))


def _beta_density(a, b, x):
    """Density of the beta distribution."""
    return exp(xlogy(offset(a, -1.0), x) + xlog1py(offset(b, -1.0), -x) - betaln(a, b))


@op(
    **spelled("gammainc"),
    vjp=[
        no_slope("scipy.special.gammainc", "a"),
        lambda ct, y, a, x: ct * _gamma_density(a, x),
    ],
    samples=_ORDER_AND_POINT,
)
def gammainc(a, x):
    """Lower incomplete gamma function, from 0 to 1."""
    return special.gammainc(a, x)


@op(
    **spelled("gammaincc"),
    vjp=[
        no_slope("scipy.special.gammaincc", "a"),
        lambda ct, y, a, x: -(ct * _gamma_density(a, x)),
    ],
    samples=_ORDER_AND_POINT,
)
def gammaincc(a, x):
    """1 - gammainc(a, x), exact for large x."""
    return special.gammaincc(a, x)


_ORDER_AND_LEVEL = (call(_ORDERS, arg(2, 3, lo=0.1, hi=0.9)).without("jax"),)


@op(
    **spelled("gammaincinv"),
    vjp=[
        no_slope("scipy.special.gammaincinv", "a"),
        lambda ct, x, a, y: ct / _gamma_density(a, x),
    ],
    samples=_ORDER_AND_LEVEL,
)
def gammaincinv(a, y):
    """The x where gammainc(a, x) is `y`."""
    return special.gammaincinv(a, y)


@op(
    **spelled("gammainccinv"),
    vjp=[
        no_slope("scipy.special.gammainccinv", "a"),
        lambda ct, x, a, y: -(ct / _gamma_density(a, x)),
    ],
    samples=_ORDER_AND_LEVEL,
)
def gammainccinv(a, y):
    """The x where gammaincc(a, x) is `y`."""
    return special.gammainccinv(a, y)


_TWO_ORDERS = (
    arg(3, lo=1, hi=4, dtype="int64"),
    arg("n", 1, lo=1, hi=3, dtype="int64"),
)
_SHAPES_AND_POINT = (call(*_TWO_ORDERS, arg(3, lo=0.1, hi=0.9)),)
_SHAPES_AND_LEVEL = (call(*_TWO_ORDERS, arg(3, lo=0.1, hi=0.9)).without("jax"),)


def _shapes(function):
    """The rules of the two shapes of an incomplete beta function."""
    return [no_slope(function, "a"), no_slope(function, "b")]


@op(
    **spelled("betainc"),
    vjp=[
        *_shapes("scipy.special.betainc"),
        lambda ct, y, a, b, x: ct * _beta_density(a, b, x),
    ],
    samples=_SHAPES_AND_POINT,
)
def betainc(a, b, x):
    """Incomplete beta function, from 0 to 1."""
    return special.betainc(a, b, x)


@op(
    **spelled("betaincc"),
    vjp=[
        *_shapes("scipy.special.betaincc"),
        lambda ct, y, a, b, x: -(ct * _beta_density(a, b, x)),
    ],
    samples=_SHAPES_AND_POINT,
)
def betaincc(a, b, x):
    """1 - betainc(a, b, x), exact near x = 1."""
    return special.betaincc(a, b, x)


@betaincc.body("jax")
def _(a, b, x):
    return special.betainc(b, a, 1.0 - x)


@op(
    **spelled("betaincinv"),
    vjp=[
        *_shapes("scipy.special.betaincinv"),
        lambda ct, x, a, b, y: ct / _beta_density(a, b, x),
    ],
    samples=_SHAPES_AND_LEVEL,
)
def betaincinv(a, b, y):
    """The x where betainc(a, b, x) is `y`."""
    return special.betaincinv(a, b, y)


@op(
    **spelled("betainccinv"),
    vjp=[
        *_shapes("scipy.special.betainccinv"),
        lambda ct, x, a, b, y: -(ct / _beta_density(a, b, x)),
    ],
    samples=_SHAPES_AND_LEVEL,
)
def betainccinv(a, b, y):
    """The x where betaincc(a, b, x) is `y`."""
    return special.betainccinv(a, b, y)


# ------------------------------------------------------------------------------- zeta
@op(
    # SciPy chooses the loop of its own ufunc of two arguments.
    infer=lambda *types: _infer_zeta(*types),
    vjp=[
        no_slope("scipy.special.zeta", "x"),
        lambda ct, y, x, q: -(ct * (x * zeta(offset(x, 1), q))),
    ],
    spelling="scipy.special.zeta",
    batch=Batch.MAP,
    samples=[
        call(arg(3, lo=2, hi=5, dtype="int64"), arg(2, 3, lo=0.5, hi=4.0)),
        call(data(3, dtype="int64"), arg("n", lo=0.5, hi=4.0)),
    ],
)
def zeta(x, q):
    """Hurwitz zeta function, the sum of (k + q)**-x over k = 0, 1, ..."""
    return special.zeta(x, q)


def _infer_zeta(x: ArrayType, q: ArrayType) -> ArrayType:
    # `poch` has the same loops (ff->f, dd->d), and is there by a public name.
    return elementwise(special.poch)(x, q)


@op(
    infer=lambda t: elementwise(special.gammaln)(t),
    vjp=[no_slope("scipy.special.zeta", "x")],
    spelling="scipy.special.zeta",
    batch=Batch.MAP,
    samples=[arg(3, lo=2, hi=5, dtype="int64").with_()],
)
def riemann_zeta(x):
    """Riemann zeta function, the sum of k**-x over k = 1, 2, ..."""
    return special.zeta(x)


@riemann_zeta.body("jax")
def _(x):
    return special.zeta(x, 1.0)


@accept("scipy.special:zeta")
def _(x, q=None, out=None):
    if out is not None:
        raise ArgumentError("scipy.special.zeta(out=...) is not supported")
    x = as_operand(x)
    return riemann_zeta(x) if q is None else zeta(x, as_operand(q))
