"""Discrete distributions of `scipy.stats`, as compositions.

Where `k` is no whole number, or outside of the support, the probability is 0 and its
logarithm -inf; the derivative there is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tracegrad.ops import elementary, gammas
from tracegrad.ops.define import accept
from tracegrad.ops.distributions import (
    doubled,
    exp,
    expm1,
    gammaln,
    is_number,
    lifted,
    log,
    of_numbers,
    signature_of,
    xlog1py,
    xlogy,
)
from tracegrad.ops.record import called, dtype_of, less, offset
from tracegrad.ops.select import floor, maximum, where

_INF = math.inf
gammainc, gammaincc = gammas.gammainc, gammas.gammaincc
betainc, betaincc = gammas.betainc, gammas.betaincc
log1p = of_numbers(elementary.log1p)


def register(name: str, shapes: str, **formulas: Callable) -> None:
    """Enter the methods of a distribution.

    Args:
        name: in `scipy.stats`.
        shapes: names of its shape parameters.
        **formulas: name of a method -> function of k and the shapes.  `pmf`, `logcdf`,
            `logsf` follow from the others where missing.
    """
    known = dict(formulas)
    known.setdefault("pmf", lambda k, *s: exp(formulas["logpmf"](k, *s)))
    known.setdefault("sf", lambda k, *s: 1.0 - formulas["cdf"](k, *s))
    known.setdefault("logcdf", lambda k, *s: log(known["cdf"](k, *s)))
    known.setdefault("logsf", lambda k, *s: log(known["sf"](k, *s)))
    for method, formula in known.items():
        accept(f"scipy.stats:{name}.{method}")(_method(shapes.split(), formula))


def _method(shapes: list[str], formula: Callable) -> Callable:
    signature = signature_of("k", shapes, loc=0)

    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        k, *of_shape, loc = map(doubled, lifted(tuple(bound.arguments.values())))
        return formula(k if is_number(loc, 0) else k - loc, *of_shape)

    return call


def whole(k: Any, inside: Any) -> Any:
    """Whether `k` is a whole number, and `inside`."""
    if dtype_of(k).kind in "biu":
        return called(inside, "inside")
    return called(inside & (floor(k) == k), "inside")


def down(k: Any) -> Any:
    """The whole number below."""
    return k if dtype_of(k).kind in "biu" else floor(k)


def from_zero(k: Any, inside: Any, outside: float) -> Any:
    """`inside` where k >= 0."""
    return where(called(k >= 0, "inside"), inside, outside)


# --------------------------------------------------------------------- counts of events
register(
    "poisson",
    "mu",
    logpmf=lambda k, mu: where(
        whole(k, k >= 0), less(xlogy(k, mu) - mu, gammaln(k + 1)), -_INF
    ),
    cdf=lambda k, mu: from_zero(k, gammaincc(down(k) + 1, mu), 0.0),
    sf=lambda k, mu: from_zero(k, gammainc(down(k) + 1, mu), 1.0),
)


def _log_of_binom(k: Any, n: Any, p: Any) -> Any:
    rest = n - k
    choices = [gammaln(k + 1), gammaln(rest + 1), -gammaln(offset(n, 1))]
    log_density = less(xlogy(k, p) + xlog1py(rest, -p), *choices)
    return where(whole(k, (k >= 0) & (k <= n)), log_density, -_INF)


def _between(k: Any, end: Any, below: float, inside: Any, above: float) -> Any:
    return where(k < 0, below, where(k < end, inside, above))


register(
    "binom",
    "n p",
    logpmf=_log_of_binom,
    cdf=lambda k, n, p: _between(k, n, 0.0, betaincc(down(k) + 1, n - down(k), p), 1.0),
    sf=lambda k, n, p: _between(k, n, 1.0, betainc(down(k) + 1, n - down(k), p), 0.0),
)
register(
    "bernoulli",
    "p",
    logpmf=lambda k, p: where(
        whole(k, (k >= 0) & (k <= 1)), xlogy(k, p) + xlog1py(1 - k, -p), -_INF
    ),
    cdf=lambda k, p: _between(k, 1, 0.0, 1.0 - p, 1.0),
    sf=lambda k, p: _between(k, 1, 1.0, p, 0.0),
)


# ------------------------------------------------------------------------ waiting times
def _log_of_nbinom(k: Any, n: Any, p: Any) -> Any:
    choices = [gammaln(k + 1), gammaln(n), -gammaln(k + n)]
    log_density = less(xlogy(n, p) + xlog1py(k, -p), *choices)
    return where(whole(k, k >= 0), log_density, -_INF)


register(
    "nbinom",
    "n p",
    logpmf=_log_of_nbinom,
    cdf=lambda k, n, p: from_zero(k, betainc(n, down(k) + 1, p), 0.0),
    sf=lambda k, n, p: from_zero(k, betaincc(n, down(k) + 1, p), 1.0),
)
register(
    "geom",
    "p",
    logpmf=lambda k, p: where(
        whole(k, k >= 1), less(xlog1py(k - 1, -p), -log(p)), -_INF
    ),
    cdf=lambda k, p: -expm1(maximum(down(k), 0) * log1p(-p)),
    sf=lambda k, p: exp(maximum(down(k), 0) * log1p(-p)),
    logsf=lambda k, p: maximum(down(k), 0) * log1p(-p),
)
