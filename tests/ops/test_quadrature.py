"""Integrals of samples, splines and sparse products: values of SciPy, slopes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate as si
from ops.test_filters import RNG, check

X, Y = np.cumsum(RNG.uniform(0.2, 1.0, 7)), RNG.normal(size=(3, 7))


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 7])
def test_simpson(count):
    x, y = X[:count], Y[:, :count].copy()
    check(lambda y: si.simpson(y, dx=0.3), y)
    check(lambda y, x: si.simpson(y, x), y, x)
    check(lambda y, x: si.simpson(y, x=x, axis=0), y.T.copy(), x)
    check(lambda y: si.simpson(y[0]), y)


def test_trapezoid():
    check(lambda y, x: si.trapezoid(y, x), Y, X)
    check(lambda y, x: si.cumulative_trapezoid(y, x, initial=0), Y, X)
    check(lambda y, x: si.cumulative_trapezoid(y, x, axis=0), Y.T.copy(), X)
    check(lambda y: si.cumulative_trapezoid(y, dx=0.3), Y)
