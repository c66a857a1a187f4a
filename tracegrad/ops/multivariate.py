"""Distributions of several variables of `scipy.stats`, as compositions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ops.define import ACCEPT, accept
from tracegrad.ops.distributions import doubled, exp, gammaln, lifted, xlogy
from tracegrad.ops.index import drop_axes, expand_dims
from tracegrad.ops.infer import refuse, same_size, shape_text
from tracegrad.ops.join import concatenate
from tracegrad.ops.linalg import slogdet, solve
from tracegrad.ops.record import as_array, called, less, ndim_of, shape_of
from tracegrad.ops.reduce import sum
from tracegrad.ops.shape import swap_last, to_shape

_LOG_TWO_PI = math.log(2.0 * math.pi)


# --------------------------------------------------------------------------- normal
def _normal(x: Any, mean: Any, cov: Any, name: str) -> tuple[Any, Any, Any]:
    """`x` less the mean, along its last axis, and the matrix of covariances."""
    if hasattr(cov, "log_pdet"):
        raise ArgumentError(
            f"{name} with a scipy.stats.Covariance is not supported",
            fix="give the matrix of covariances",
        )
    given = [x, cov] if mean is None else [x, cov, mean]
    x, cov, *means = map(doubled, lifted(tuple(map(as_array, given))))
    if ndim_of(cov) < 2:
        size = shape_of(means[0])[0] if means and ndim_of(means[0]) else 1
        size = shape_of(cov)[0] if ndim_of(cov) else size
        cov = cov * ACCEPT[np.eye](size)
    size = shape_of(cov)[-1]
    if means:
        x = _as_rows(x, size) - means[0]
    else:
        x = _as_rows(x, size)
    if not same_size(shape_of(x)[-1], size):
        raise ShapeError(
            f"points of shape {shape_text(shape_of(x))} do not fit a matrix of "
            f"covariances of shape {shape_text(shape_of(cov))}",
            fix="make the last axis as long as the mean",
        )
    return called(x, "deviation"), cov, size


def _as_rows(x: Any, size: Any) -> Any:
    """Points along the last axis, as SciPy reads them."""
    if ndim_of(x) == 0:
        return to_shape(x, (1,))
    if ndim_of(x) == 1 and type(size) is int and size == 1:
        return expand_dims(x, axis=(1,))
    return x


def _solved(cov: Any, rows: Any) -> Any:
    """`inv(cov) @ row` for each row along the last axis."""
    n = ndim_of(rows)
    if n == 1:
        return solve(cov, rows)
    if n == 2:
        return swap_last(solve(cov, swap_last(rows)))
    return drop_axes(solve(cov, expand_dims(rows, axis=(n,))), axis=(n,))


def _squeezed(x: Any) -> Any:
    """Without the axes of size 1, as SciPy gives its results."""
    ones = tuple([i for i, s in enumerate(shape_of(x)) if type(s) is int and s == 1])
    return drop_axes(x, axis=ones) if ones else x


def _log_of_normal(name: str, x: Any, mean: Any, cov: Any, allow_singular: Any) -> Any:
    refuse(name, allow_singular=allow_singular or None)
    rows, cov, size = _normal(x, mean, cov, name)
    solved = called(_solved(cov, rows), "solved")
    distance = called(sum(rows * solved, axis=ndim_of(rows) - 1), "distance")
    sign, log_det = slogdet(cov)
    called(sign, "sign")
    called(log_det, "log_det")
    return _squeezed(-0.5 * (distance + log_det + size * _LOG_TWO_PI))


@accept("scipy.stats:multivariate_normal.logpdf")
def _(x, mean=None, cov=1, allow_singular=False):
    name = "scipy.stats.multivariate_normal.logpdf"
    return _log_of_normal(name, x, mean, cov, allow_singular)


@accept("scipy.stats:multivariate_normal.pdf")
def _(x, mean=None, cov=1, allow_singular=False):
    name = "scipy.stats.multivariate_normal.pdf"
    return exp(_log_of_normal(name, x, mean, cov, allow_singular))


# ------------------------------------------------------------------------- Dirichlet
def _log_of_dirichlet(x: Any, alpha: Any) -> Any:
    x, alpha = lifted((as_array(x), as_array(alpha)))
    short = shape_of(alpha)[0] - 1
    if same_size(shape_of(x)[0], short):
        # SciPy lets the last share be left out.
        rest = expand_dims(1.0 - sum(x, axis=0), axis=(0,))
        x = concatenate(x, rest, axis=0)
    elif not same_size(shape_of(x)[0], shape_of(alpha)[0]):
        raise ShapeError(
            f"shares of shape {shape_text(shape_of(x))} do not fit alpha of shape "
            f"{shape_text(shape_of(alpha))}",
            fix="let the shares run along the first axis, one for each alpha",
        )
    powers = alpha - 1.0
    if ndim_of(x) > 1:
        powers = expand_dims(powers, axis=tuple(range(1, ndim_of(x))))
    density = sum(xlogy(powers, x), axis=0 if ndim_of(x) > 1 else None)
    return _squeezed(less(density, sum(gammaln(alpha)), -gammaln(sum(alpha))))


@accept("scipy.stats:dirichlet.logpdf")
def _(x, alpha):
    return _log_of_dirichlet(x, alpha)


@accept("scipy.stats:dirichlet.pdf")
def _(x, alpha):
    return exp(_log_of_dirichlet(x, alpha))
