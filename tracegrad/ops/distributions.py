"""Continuous distributions of `scipy.stats`, as compositions.

Each is a record of formulas in the standardised variable z = (x - loc) / scale; the
methods are made from these.  Outside of the support the density is 0, its logarithm
-inf, and the derivative 0.  Parameters are not checked: where SciPy gives nan for a
scale or a shape that is not allowed, the formula gives what it gives.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.ops import elementary, gammas, special, students, trigonometry
from tracegrad.ops.cast import astype
from tracegrad.ops.define import accept
from tracegrad.ops.record import (
    Ref,
    as_operand,
    called,
    constant_of,
    dtype_of,
    less,
    offset,
)
from tracegrad.ops.select import clip, maximum, where

_INF = math.inf
_LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_ROOT_TWO_PI = math.sqrt(2.0 * math.pi)
_LOG_2 = math.log(2.0)
_LOG_PI = math.log(math.pi)

METHODS_OF_DENSITY = ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf")


# ------------------------------------------------------------ what formulas are made of
def of_numbers(op: Callable) -> Callable:
    """`op`, with a plain number as the result of plain numbers."""

    @functools.wraps(op, updated=())
    def call(*args: Any) -> Any:
        out = op(*args)
        return out.item() if isinstance(out, np.generic) else out

    return call


betaln = of_numbers(special.betaln)
gammaln = of_numbers(special.gammaln)
log = of_numbers(elementary.log)
exp, expm1, log1p = elementary.exp, elementary.expm1, elementary.log1p
ndtr, log_ndtr, ndtri = special.ndtr, special.log_ndtr, special.ndtri
expit, log_expit, logit = special.expit, special.log_expit, special.logit
xlogy, xlog1py = special.xlogy, special.xlog1py
gammainc, gammaincc = gammas.gammainc, gammas.gammaincc
gammaincinv, gammainccinv = gammas.gammaincinv, gammas.gammainccinv
betainc, betaincc = gammas.betainc, gammas.betaincc
betaincinv, betainccinv = gammas.betaincinv, gammas.betainccinv
stdtr, stdtrit = students.stdtr, students.stdtrit
arctan2, tan = trigonometry.arctan2, trigonometry.tan


def lifted(args: tuple) -> list:
    """Arguments as operands; arrays as values of the program, if one is traced.

    So that what is computed from captured arrays alone is part of the program too.
    """
    operands = [as_operand(x) for x in args]
    builder = next((x.builder for x in operands if isinstance(x, Ref)), None)
    if builder is None:
        return operands
    return [
        builder.wrap(builder.lift(x)) if isinstance(x, np.ndarray) else x
        for x in operands
    ]


def is_number(x: Any, value: float) -> bool:
    """Whether `x` is a known scalar of this value."""
    known = constant_of(x)
    return known is not None and known == value


def doubled(x: Any) -> Any:
    """`x` in double precision, in which SciPy computes."""
    if dtype_of(x).kind == "f" and dtype_of(x).itemsize < 8:
        return astype(x, dtype=np.dtype(np.float64))
    return x


def standardised(x: Any, loc: Any, scale: Any) -> Any:
    """(x - loc) / scale in double precision, in which SciPy computes."""
    z = x if is_number(loc, 0) else x - loc
    z = z if is_number(scale, 1) else z / scale
    z = doubled(z)
    return z if z is x else called(z, "z")


def placed(z: Any, loc: Any, scale: Any) -> Any:
    """z * scale + loc."""
    z = z if is_number(scale, 1) else scale * z
    return z if is_number(loc, 0) else loc + z


def positive(z: Any) -> Any:
    """Whether z > 0."""
    return called(z > 0.0, "inside")


def within(z: Any) -> Any:
    """Whether z is in [0, 1]."""
    return called((z >= 0.0) & (z <= 1.0), "inside")


# ---------------------------------------------------------------- methods from formulas
_ON_LEVELS = ("ppf", "isf")


def register(name: str, shapes: str, *, logpdf: Callable, **formulas: Callable) -> None:
    """Enter the methods of a distribution.

    Args:
        name: in `scipy.stats`.
        shapes: names of its shape parameters.
        logpdf: function of z, the shapes, and terms to subtract: the logarithm of the
            scale, if it is not 1.
        **formulas: name of a method -> function of z, or of the level, and the shapes.
            `pdf`, `sf`, `logcdf`, `logsf`, `isf` follow from others where missing.
    """
    cdf, ppf = formulas["cdf"], formulas["ppf"]
    formulas.setdefault("sf", lambda z, *s: 1.0 - cdf(z, *s))
    formulas.setdefault("logcdf", lambda z, *s: log(cdf(z, *s)))
    formulas.setdefault("logsf", lambda z, *s: log(formulas["sf"](z, *s)))
    formulas.setdefault("isf", lambda q, *s: ppf(1.0 - q, *s))
    formulas["logpdf"] = logpdf
    for method in METHODS_OF_DENSITY:
        formula = formulas.get(method)
        call = _method(method, shapes.split(), formula, logpdf)
        accept(f"scipy.stats:{name}.{method}")(call)


def signature_of(first: str, shapes: list[str], **defaults: Any) -> inspect.Signature:
    """`(first, *shapes, **defaults)`."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    given = [inspect.Parameter(p, kind) for p in (first, *shapes)]
    given += [inspect.Parameter(p, kind, default=d) for p, d in defaults.items()]
    return inspect.Signature(given)


def _method(
    method: str, shapes: list[str], formula: Callable | None, logpdf: Callable
) -> Callable:
    first = "q" if method in _ON_LEVELS else "x"
    signature = signature_of(first, shapes, loc=0, scale=1)

    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        x, *of_shape, loc, scale = lifted(tuple(bound.arguments.values()))
        if method in _ON_LEVELS:
            assert formula is not None
            x, *of_shape = map(doubled, (x, *of_shape))
            return placed(formula(x, *of_shape), loc, scale)
        z = standardised(x, loc, scale)
        if method not in ("pdf", "logpdf"):
            assert formula is not None
            return formula(z, *of_shape)
        if method == "pdf" and formula is not None:
            out = formula(z, *of_shape)
            return out if is_number(scale, 1) else out / scale
        out = logpdf(
            z, *of_shape, *([] if is_number(scale, 1) else [log(doubled(scale))])
        )
        return exp(out) if method == "pdf" else out

    return call


def _from_zero(z: Any) -> Any:
    """z, and 0 where it is less."""
    return maximum(z, 0.0)


def _clipped(z: Any) -> Any:
    return clip(z, 0.0, 1.0)


# -------------------------------------------------------------------- on the whole line
register(
    "norm",
    "",
    pdf=lambda z: exp(-0.5 * z**2) / _ROOT_TWO_PI,
    logpdf=lambda z, *k: less(-0.5 * z**2, _LOG_ROOT_TWO_PI, *k),
    cdf=ndtr,
    logcdf=log_ndtr,
    sf=lambda z: ndtr(-z),
    logsf=lambda z: log_ndtr(-z),
    ppf=ndtri,
    isf=lambda q: -ndtri(q),
)
register(
    "t",
    "df",
    logpdf=students.log_density,
    cdf=lambda z, df: stdtr(df, z),
    sf=lambda z, df: stdtr(df, -z),
    ppf=lambda q, df: stdtrit(df, q),
    isf=lambda q, df: -stdtrit(df, q),
)
register(
    "laplace",
    "",
    pdf=lambda z: 0.5 * exp(-abs(z)),
    logpdf=lambda z, *k: less(-abs(z), _LOG_2, *k),
    cdf=lambda z: where(z > 0.0, 1.0 - 0.5 * exp(-z), 0.5 * exp(z)),
    logcdf=lambda z: where(z > 0.0, log1p(-0.5 * exp(-z)), z - _LOG_2),
    sf=lambda z: where(z > 0.0, 0.5 * exp(-z), 1.0 - 0.5 * exp(z)),
    logsf=lambda z: where(z > 0.0, -z - _LOG_2, log1p(-0.5 * exp(z))),
    ppf=lambda q: where(q > 0.5, -log(2.0 - 2.0 * q), log(2.0 * q)),
    isf=lambda q: where(q > 0.5, log(2.0 - 2.0 * q), -log(2.0 * q)),
)
register(
    "logistic",
    "",
    pdf=lambda z: expit(z) * expit(-z),
    logpdf=lambda z, *k: less(log_expit(z) + log_expit(-z), *k),
    cdf=expit,
    logcdf=log_expit,
    sf=lambda z: expit(-z),
    logsf=lambda z: log_expit(-z),
    ppf=logit,
    isf=lambda q: -logit(q),
)
register(
    "cauchy",
    "",
    pdf=lambda z: 1.0 / (math.pi * (z**2 + 1.0)),
    logpdf=lambda z, *k: less(-log1p(z**2), _LOG_PI, *k),
    cdf=lambda z: arctan2(1.0, -z) / math.pi,
    sf=lambda z: arctan2(1.0, z) / math.pi,
    ppf=lambda q: tan(math.pi * (q - 0.5)),
    isf=lambda q: tan(math.pi * (0.5 - q)),
)


# --------------------------------------------------------------------- on [0, infinity)
def guarded(formula: Callable, inside: Callable, safe: float = 1.0) -> Callable:
    """The logarithm of a density that is `formula` where `inside(z)`, else 0.

    Elsewhere the formula, and its derivative, are computed at `safe`: no warnings.
    """

    def logpdf(z: Any, *rest: Any) -> Any:
        within = called(inside(z), "inside")
        z = called(where(within, z, safe), "z_inside")
        return where(within, formula(z, *rest), -_INF)

    return logpdf


def _from_zero_on(z: Any) -> Any:
    return z >= 0.0


def _log_of_gamma(z: Any, a: Any, *k: Any) -> Any:
    return less(xlogy(offset(a, -1.0), z) - z, gammaln(a), *k)


register(
    "gamma",
    "a",
    logpdf=guarded(_log_of_gamma, _from_zero_on),
    cdf=lambda z, a: gammainc(a, _from_zero(z)),
    logcdf=lambda z, a: where(positive(z), log(gammainc(a, z)), -_INF),
    sf=lambda z, a: gammaincc(a, _from_zero(z)),
    ppf=lambda q, a: gammaincinv(a, q),
    isf=lambda q, a: gammainccinv(a, q),
)


def _log_of_chi2(z: Any, df: Any, *k: Any) -> Any:
    half = 0.5 * df
    powers = xlogy(offset(half, -1.0), z) - 0.5 * z
    return less(powers, gammaln(half), half * _LOG_2, *k)


register(
    "chi2",
    "df",
    logpdf=guarded(_log_of_chi2, _from_zero_on),
    cdf=lambda z, df: gammainc(0.5 * df, 0.5 * _from_zero(z)),
    logcdf=lambda z, df: where(positive(z), log(gammainc(0.5 * df, 0.5 * z)), -_INF),
    sf=lambda z, df: gammaincc(0.5 * df, 0.5 * _from_zero(z)),
    ppf=lambda q, df: 2.0 * gammaincinv(0.5 * df, q),
    isf=lambda q, df: 2.0 * gammainccinv(0.5 * df, q),
)
register(
    "expon",
    "",
    logpdf=lambda z, *k: where(called(z >= 0.0, "inside"), less(-z, *k), -_INF),
    cdf=lambda z: -expm1(-_from_zero(z)),
    logcdf=lambda z: where(positive(z), log(-expm1(-_from_zero(z))), -_INF),
    sf=lambda z: exp(-_from_zero(z)),
    logsf=lambda z: -_from_zero(z),
    ppf=lambda q: -log1p(-q),
    isf=lambda q: -log(q),
)


def _of_log(formula: Callable, outside: float) -> Callable:
    """`formula` of log(z) and more where z > 0, and `outside` elsewhere."""

    def guarded(z: Any, *rest: Any) -> Any:
        inside = positive(z)
        log_z = called(log(where(inside, z, 1.0)), "log_z")
        return where(inside, formula(log_z, *rest), outside)

    return guarded


register(
    "lognorm",
    "s",
    logpdf=_of_log(
        lambda log_z, s, *k: less(
            -0.5 * (log_z / s) ** 2 - log_z, _LOG_ROOT_TWO_PI, log(s), *k
        ),
        -_INF,
    ),
    cdf=_of_log(lambda log_z, s: ndtr(log_z / s), 0.0),
    logcdf=_of_log(lambda log_z, s: log_ndtr(log_z / s), -_INF),
    sf=_of_log(lambda log_z, s: ndtr(-log_z / s), 1.0),
    logsf=_of_log(lambda log_z, s: log_ndtr(-log_z / s), 0.0),
    ppf=lambda q, s: exp(s * ndtri(q)),
    isf=lambda q, s: exp(-s * ndtri(q)),
)


def _log_of_weibull(z: Any, c: Any, *k: Any) -> Any:
    return less(xlogy(offset(c, -1.0), z) - z**c, -log(c), *k)


register(
    "weibull_min",
    "c",
    logpdf=guarded(_log_of_weibull, _from_zero_on),
    cdf=lambda z, c: -expm1(-(_from_zero(z) ** c)),
    logcdf=lambda z, c: where(positive(z), log(-expm1(-(_from_zero(z) ** c))), -_INF),
    sf=lambda z, c: exp(-(_from_zero(z) ** c)),
    logsf=lambda z, c: -(_from_zero(z) ** c),
    ppf=lambda q, c: (-log1p(-q)) ** (1.0 / c),
    isf=lambda q, c: (-log(q)) ** (1.0 / c),
)


def _of_inverse(formula: Callable, outside: float) -> Callable:
    """`formula` of 1 / z and more where z > 0, and `outside` elsewhere."""

    def guarded(z: Any, *rest: Any) -> Any:
        inside = positive(z)
        inverse = called(1.0 / where(inside, z, 1.0), "inverse")
        return where(inside, formula(inverse, *rest), outside)

    return guarded


register(
    "invgamma",
    "a",
    logpdf=_of_inverse(
        lambda v, a, *k: less(xlogy(offset(a, 1.0), v) - v, gammaln(a), *k), -_INF
    ),
    cdf=_of_inverse(lambda v, a: gammaincc(a, v), 0.0),
    logcdf=_of_inverse(lambda v, a: log(gammaincc(a, v)), -_INF),
    sf=_of_inverse(lambda v, a: gammainc(a, v), 1.0),
    logsf=_of_inverse(lambda v, a: log(gammainc(a, v)), 0.0),
    ppf=lambda q, a: 1.0 / gammainccinv(a, q),
    isf=lambda q, a: 1.0 / gammaincinv(a, q),
)


# ------------------------------------------------------------------- on other intervals
def _log_of_beta(z: Any, a: Any, b: Any, *k: Any) -> Any:
    powers = xlogy(offset(a, -1.0), z) + xlog1py(offset(b, -1.0), -z)
    return less(powers, betaln(a, b), *k)


register(
    "beta",
    "a b",
    logpdf=guarded(_log_of_beta, within, 0.5),
    cdf=lambda z, a, b: betainc(a, b, _clipped(z)),
    logcdf=lambda z, a, b: where(positive(z), log(betainc(a, b, _clipped(z))), -_INF),
    sf=lambda z, a, b: betaincc(a, b, _clipped(z)),
    logsf=lambda z, a, b: where(z < 1.0, log(betaincc(a, b, _clipped(z))), -_INF),
    ppf=lambda q, a, b: betaincinv(a, b, q),
    isf=lambda q, a, b: betainccinv(a, b, q),
)
register(
    "uniform",
    "",
    pdf=lambda z: where(within(z), 1.0, 0.0),
    logpdf=lambda z, *k: where(within(z), less(0.0, *k), -_INF),
    cdf=_clipped,
    logcdf=lambda z: where(positive(z), log(_clipped(z)), -_INF),
    sf=lambda z: 1.0 - _clipped(z),
    logsf=lambda z: where(z < 1.0, log1p(-_clipped(z)), -_INF),
    ppf=lambda q: q,
    isf=lambda q: 1.0 - q,
)


def _log_of_pareto(z: Any, b: Any, *k: Any) -> Any:
    return less(-(offset(b, 1.0) * log(z)), -log(b), *k)


register(
    "pareto",
    "b",
    logpdf=guarded(_log_of_pareto, lambda z: z >= 1.0),
    cdf=lambda z, b: 1.0 - maximum(z, 1.0) ** -b,
    logcdf=lambda z, b: where(z > 1.0, log1p(-(maximum(z, 1.0) ** -b)), -_INF),
    sf=lambda z, b: maximum(z, 1.0) ** -b,
    logsf=lambda z, b: -b * log(maximum(z, 1.0)),
    ppf=lambda q, b: (1.0 - q) ** (-1.0 / b),
    isf=lambda q, b: q ** (-1.0 / b),
)
