"""`scipy.signal` and `scipy.ndimage`: values of SciPy, central differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage as ndi
import scipy.signal as sg

import tracegrad as tg

RNG = np.random.default_rng(3)
X, V = RNG.normal(size=9), RNG.normal(size=4)
IMAGE, PATCH = RNG.normal(size=(6, 5)), RNG.normal(size=(3, 2))


def check(f, *args, tolerance=1e-7):
    """Value of SciPy; derivative in every argument against central differences."""
    expected = f(*args)
    value = tg.compile(f)(*args)
    np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12)
    assert value.dtype == expected.dtype
    weights = np.cos(np.arange(expected.size)).reshape(expected.shape)

    def total(*parts):
        return np.sum(weights * f(*parts))

    argnums = tuple(range(len(args)))
    for place, gradient in enumerate(tg.grad(total, argnums)(*args)):
        direction = RNG.normal(size=args[place].shape)
        ends = []
        for sign in (1.0, -1.0):
            parts = list(args)
            parts[place] = args[place] + sign * 1e-6 * direction
            ends.append(total(*parts))
        slope = (ends[0] - ends[1]) / 2e-6
        np.testing.assert_allclose(
            np.sum(gradient * direction), slope, rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("name", ["convolve", "correlate", "fftconvolve"])
@pytest.mark.parametrize("pair", [(X, V), (V, X), (IMAGE, PATCH)])
def test_convolutions(name, mode, pair):
    if name == "convolve":
        check(lambda a, v: sg.convolve(a, v, mode), *pair)
    elif name == "correlate":
        check(lambda a, v: sg.correlate(a, v, mode=mode), *pair)
    else:
        check(lambda a, v: sg.fftconvolve(a, v, mode), *pair)


@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolve2d(mode, boundary):
    check(lambda a, v: sg.convolve2d(a, v, mode, boundary), IMAGE, PATCH)
    check(lambda a, v: sg.convolve2d(a, v, mode, fillvalue=1.5), IMAGE, PATCH)


def test_lfilter():
    b, a = np.array([0.5, -0.2, 0.1]), np.array([1.3, -0.4, 0.2, 0.05])
    check(lambda b, a, x: sg.lfilter(b, a, x), b, a, X)
    check(lambda b, a, x: sg.lfilter(b, a, x, axis=0), b, a, IMAGE)
    check(lambda x: sg.lfilter([0.2], [1.0, -0.8], x), X)


def test_gaussian_filter():
    for mode in ("reflect", "constant", "nearest", "mirror", "wrap"):
        check(lambda x, mode=mode: ndi.gaussian_filter(x, 0.8, mode=mode), IMAGE)
    check(lambda x: ndi.gaussian_filter(x, sigma=[0.7, 0.0], order=(1, 0)), IMAGE)
    with pytest.raises(tg.ArgumentError, match="constant sigma"):
        tg.grad(lambda s: np.sum(ndi.gaussian_filter(IMAGE, s)))(0.7)


@pytest.mark.parametrize("mode", ["reflect", "constant", "nearest", "mirror", "wrap"])
def test_convolve_on_a_grid(mode):
    for weights in (PATCH, RNG.normal(size=(2, 3))):
        check(lambda x, w: ndi.convolve(x, w, mode=mode), IMAGE, weights)
        check(lambda x, w: ndi.correlate(x, w, mode=mode), IMAGE, weights)
    check(lambda x, w: ndi.convolve(x, w, mode=mode, origin=1, cval=2.0), X, V[:3])
    check(lambda x, w: ndi.correlate(x, w, mode=mode, origin=1, cval=2.0), X, V[:3])


@pytest.mark.parametrize("mode", ["constant", "nearest"])
def test_map_coordinates(mode):
    points = np.array([[0.3, 2.0, 4.7, 5.0, -0.6], [1.2, 0.4, 3.99, 4.0, 1.5]])
    inner = points[:, :3] - 0.02

    def linear(x, p):
        return ndi.map_coordinates(x, p, order=1, mode=mode, cval=0.5)

    def nearest(x):
        return ndi.map_coordinates(x, points, order=0, mode=mode)

    check(linear, IMAGE, inner)
    check(lambda x: linear(x, points), IMAGE)
    check(nearest, IMAGE)
    with pytest.raises(tg.ArgumentError, match="order"):
        tg.grad(lambda x: np.sum(ndi.map_coordinates(x, points)))(IMAGE)
