"""Quantiles of the discrete distributions of `scipy.stats`: steps, so constants."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import STANDS_FOR, Batch, Op, accept, op
from tracegrad.ops.infer import broadcast_shapes
from tracegrad.ops.library import Library
from tracegrad.ops.record import as_operand
from tracegrad.ops.sample import arg, call

stats = Library("scipy.stats")


def _infer(*types: ArrayType) -> ArrayType:
    return ArrayType(broadcast_shapes(*[t.shape for t in types]), np.dtype(float))


def _steps(method: str, *shapes: Any) -> dict[str, Any]:
    """What the ops share: a rule that is none, and samples."""
    return {
        "infer": _infer,
        "vjp": [None] * (1 + len(shapes)),
        "spelling": f"scipy.stats.{method}",
        "noun": "quantile",
        "batch": Batch.MAP,
        "samples": [
            call(arg(3, lo=0.1, hi=0.9), *shapes).without("jax"),
            call(arg("n", 2, lo=0.1, hi=0.9), *shapes).without("jax"),
        ],
    }


_MEAN, _COUNT = arg(lo=2.0, hi=5.0), arg(lo=4, hi=9, dtype="int64")
_SUCCESS, _EVENTS = arg(lo=0.2, hi=0.8), arg(lo=2.0, hi=6.0)


@op(**_steps("poisson.ppf", _MEAN))
def poisson_ppf(q, mu):
    """Piecewise constant: its derivative is 0."""
    return stats.poisson.ppf(q, mu)


@op(**_steps("poisson.isf", _MEAN))
def poisson_isf(q, mu):
    """Piecewise constant: its derivative is 0."""
    return stats.poisson.isf(q, mu)


@op(**_steps("binom.ppf", _COUNT, _SUCCESS))
def binom_ppf(q, n, p):
    """Piecewise constant: its derivative is 0."""
    return stats.binom.ppf(q, n, p)


@op(**_steps("binom.isf", _COUNT, _SUCCESS))
def binom_isf(q, n, p):
    """Piecewise constant: its derivative is 0."""
    return stats.binom.isf(q, n, p)


@op(**_steps("bernoulli.ppf", _SUCCESS))
def bernoulli_ppf(q, p):
    """Piecewise constant: its derivative is 0."""
    return stats.bernoulli.ppf(q, p)


@op(**_steps("bernoulli.isf", _SUCCESS))
def bernoulli_isf(q, p):
    """Piecewise constant: its derivative is 0."""
    return stats.bernoulli.isf(q, p)


@op(**_steps("nbinom.ppf", _EVENTS, _SUCCESS))
def nbinom_ppf(q, n, p):
    """Piecewise constant: its derivative is 0."""
    return stats.nbinom.ppf(q, n, p)


@op(**_steps("nbinom.isf", _EVENTS, _SUCCESS))
def nbinom_isf(q, n, p):
    """Piecewise constant: its derivative is 0."""
    return stats.nbinom.isf(q, n, p)


@op(**_steps("geom.ppf", _SUCCESS))
def geom_ppf(q, p):
    """Piecewise constant: its derivative is 0."""
    return stats.geom.ppf(q, p)


@op(**_steps("geom.isf", _SUCCESS))
def geom_isf(q, p):
    """Piecewise constant: its derivative is 0."""
    return stats.geom.isf(q, p)


def _shifted(steps: Op) -> Callable[..., Any]:
    """The quantile with `loc`, by which it does move."""
    own = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for name in steps.params
    ]
    loc = inspect.Parameter("loc", own[0].kind, default=0)
    signature = inspect.Signature([*own, loc])

    def quantile(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        *given, shift = map(as_operand, bound.arguments.values())
        made = steps(*given)
        return made if type(shift) is int and shift == 0 else made + shift

    STANDS_FOR[quantile] = steps
    return quantile


for _op in (
    *(poisson_ppf, poisson_isf, binom_ppf, binom_isf, bernoulli_ppf, bernoulli_isf),
    *(nbinom_ppf, nbinom_isf, geom_ppf, geom_isf),
):
    accept(_op.spelling.replace("scipy.stats.", "scipy.stats:"))(_shifted(_op))
