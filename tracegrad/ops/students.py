"""Distribution function of Student's t distribution, and its inverse."""

from __future__ import annotations

import math

from tracegrad.ops.define import op
from tracegrad.ops.elementary import exp, log, log1p
from tracegrad.ops.library import special
from tracegrad.ops.record import constant_of, less, no_slope
from tracegrad.ops.sample import arg, call
from tracegrad.ops.special import gammaln, spelled

_DEGREES = arg(3, lo=1, hi=5, dtype="int64")


def log_density(t, df, *terms):
    """Logarithm of the density of Student's t distribution, less some terms.

    Args:
        t: where.
        df: degrees of freedom.
        *terms: what is subtracted.
    """
    known = constant_of(df)
    if known is not None:
        df = float(known)
        of_df = [math.lgamma(0.5 * df) - math.lgamma(0.5 * (df + 1.0))]
        of_df.append(0.5 * math.log(df * math.pi))
        half = 0.5 * (df + 1.0)
    else:
        half = 0.5 * (df + 1.0)
        of_df = [gammaln(0.5 * df) - gammaln(half), 0.5 * log(math.pi * df)]
    return less(-half * log1p(t**2 / df), *of_df, *terms)


@op(
    **spelled("stdtr"),
    vjp=[
        no_slope("scipy.special.stdtr", "df"),
        lambda ct, y, df, t: ct * exp(log_density(t, df)),
    ],
    samples=[call(_DEGREES, arg("n", 3)).without("jax")],
)
def stdtr(df, t):
    """Distribution function of Student's t distribution."""
    return special.stdtr(df, t)


@op(
    **spelled("stdtrit"),
    vjp=[
        no_slope("scipy.special.stdtrit", "df"),
        lambda ct, t, df, p: ct / exp(log_density(t, df)),
    ],
    samples=[call(_DEGREES, arg("n", 3, lo=0.1, hi=0.9)).without("jax")],
)
def stdtrit(df, p):
    """The t where stdtr(df, t) is `p`."""
    return special.stdtrit(df, p)
