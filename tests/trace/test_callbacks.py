"""NumPy's functions that call the user's function, and `where=` of ufuncs."""

import math

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import ArgumentError, ShapeError, UnsupportedError

X = np.array([4.0, 1.0, 3.2, 2.5])
M = np.array([[0.3, -1.2, 2.0], [1.1, 0.4, -0.7]])
W = np.arange(6.0).reshape(2, 3)


@np.vectorize
def wave(a, b):
    return a * np.sin(b)


@np.vectorize
def bent(a):
    return a**2 if a > 2.0 else -a


@np.vectorize
def decay(a):
    return math.exp(-a)


@np.vectorize
def both(a):
    return a**2, 3.0 * a


@np.vectorize
def chosen(a, c):
    return a**2 if c > 2.0 else -a


def sums(x):
    squares, triples = both(x)
    return np.sum(squares * triples)


def divided(x):
    return np.sum(np.divide(1.0, x, out=np.zeros_like(x), where=x > 2.0) ** 2)


def logarithm(x):
    out = np.full(4, 0.5)
    np.log(x + 2.0, out=out, where=x > 2.0)
    return np.sum(out * X)


CALLS = {
    "vectorize": (lambda x: np.sum(wave(x, M[:, :2].ravel())), X),
    "vectorize-branches": (lambda x: np.sum(bent(x)), X),
    "vectorize-math": (lambda x: np.sum(decay(x)), X),
    "vectorize-inside": (lambda x: np.sum(np.vectorize(lambda a: a**3)(x)), X),
    "vectorize-tuple": (sums, X),
    "vectorize-keyword": (lambda x: np.sum(wave(x, b=2.0) * x), X),
    "along": (
        lambda x: np.sum(np.apply_along_axis(lambda v: v / np.sum(v**2), 1, x) * W),
        M,
    ),
    "along-matrices": (
        lambda x: np.sum(np.apply_along_axis(lambda v: np.outer(v, v), 0, x) ** 2),
        M,
    ),
    "along-numbers": (lambda x: np.sum(np.apply_along_axis(np.prod, -1, x)), M),
    "over": (lambda x: np.sum(np.apply_over_axes(np.sum, x, [0, -1]) ** 2), M),
    "piecewise": (
        lambda x: np.sum(
            np.piecewise(x, [x < 2, x > 3], [lambda v: -v, lambda v: v**2, 7.0])
        ),
        X,
    ),
    "piecewise-default": (
        lambda x: np.sum(np.piecewise(x, x < 2, [np.sin, np.cos]) * x),
        X,
    ),
    "fromfunction": (
        lambda x: np.sum(np.fromfunction(lambda i, j: x[0] * i + j * x[1], (2, 3))),
        X,
    ),
    "where": (divided, X),
    "where-full": (logarithm, X),
}


def numerical(f, x, step=1e-6):
    slopes = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        moved = np.zeros_like(x)
        moved[at] = step
        slopes[at] = (f(x + moved) - f(x - moved)) / (2 * step)
    return slopes


@pytest.mark.parametrize("name", CALLS)
def test_call(name):
    f, x = CALLS[name]
    value, gradient = tg.value_and_grad(f)(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-13)
    np.testing.assert_allclose(gradient, numerical(f, x), rtol=1e-6, atol=1e-7)


def test_a_vectorized_formula_runs_on_whole_arrays():
    source = str(tg.value_and_grad(lambda x: np.sum(wave(x, X))).source(X))
    assert "x * sin" in source or "x * np.sin(X)" in source
    assert "[0]" not in source


def test_a_decision_on_a_constant_is_made_for_each_element():
    f = lambda x: np.sum(chosen(x, X))
    np.testing.assert_allclose(tg.grad(f)(X + 1.0), numerical(f, X + 1.0), rtol=1e-6)


@pytest.mark.parametrize(
    ("error", "f"),
    [
        (
            UnsupportedError,
            lambda x: np.piecewise(x, [x < 2], [lambda v: v - v.mean(), 0]),
        ),
        (ArgumentError, lambda x: np.piecewise(x, [x < 2, x > 3], [0])),
        (ArgumentError, lambda x: np.log(x, where=x > 2.0)),
        (UnsupportedError, lambda x: np.vectorize(sum, signature="(n)->()")(x)),
        (ShapeError, lambda x: np.apply_over_axes(np.outer, x, [0])),
    ],
)
def test_refused(error, f):
    with pytest.raises(error):
        tg.grad(lambda x: np.sum(f(x)))(X)
