"""Splines and linear interpolation, as functions of the values and of the point."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.interpolate as ip
from ops.test_filters import RNG, check
from scipy.interpolate import CubicSpline

import tracegrad as tg

X, Y = np.cumsum(RNG.uniform(0.2, 1.0, 7)), RNG.normal(size=7)
TABLE = RNG.normal(size=(7, 2))
T = np.linspace(X[0] - 0.1, X[-1] + 0.1, 6)
READY = CubicSpline(X, Y)
READY_LINE = ip.interp1d(X, Y, fill_value="extrapolate")


@pytest.mark.parametrize("ends", ["not-a-knot", "natural", "clamped"])
def test_cubic_spline(ends):
    check(lambda t, y: CubicSpline(X, y, bc_type=ends)(t), T, Y)
    check(lambda t, y: ip.CubicSpline(X, y, 0, ends)(t, 1), T, TABLE)
    check(lambda t: CubicSpline(X, TABLE, bc_type=ends).derivative()(t), T)


def test_linear():
    inside = T[1:-1]
    check(lambda t, y: ip.interp1d(X, y)(t), inside, Y)
    check(lambda t, y: ip.interp1d(X, y, fill_value="extrapolate")(t), T, Y)

    def limited(t, y):
        return ip.interp1d(X, y, bounds_error=False, fill_value=(0.5, 2.0))(t)

    check(limited, T, Y)


def test_made_before():
    assert tg.compile(lambda t: READY(1.0) * t)(2.0) == 2.0 * READY(1.0)
    check(lambda t: READY(t) + READY(t, 2), T)
    check(lambda t: READY_LINE(t), T)


def test_errors():
    with pytest.raises(tg.UnsupportedError, match="points x"):
        tg.grad(lambda x: np.sum(CubicSpline(x, Y)(1.0)))(X)
    with pytest.raises(tg.ArgumentError, match="kind"):
        tg.grad(lambda y: np.sum(ip.interp1d(X, y, "cubic")(1.0)))(Y)
    with pytest.raises(tg.UnsupportedError, match=r"CubicSpline\.roots"):
        tg.grad(lambda y: np.sum(CubicSpline(X, y).roots()))(Y)
    assert isinstance(READY, CubicSpline)
