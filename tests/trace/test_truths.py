"""Truths in arithmetic: Python's are ints, NumPy's are flags."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tracegrad as tg

SUMS = {
    "difference": lambda x: (x > 0) - (x < 0),
    "sum": lambda x: (x > 0) + (x > 1),
    "of three": lambda x: (x > 0) + (x > 1) + (x > 2),
    "counted": lambda x: sum([x > 0, x > 1, x > 2]),
    "minus": lambda x: -(x > 0),
    "plus": lambda x: +(x > 0),
    "inverse": lambda x: ~(x > 0),
    "absolute": lambda x: abs(x > 0),
    "product": lambda x: (x > 0) * (x > -3),
    "power": lambda x: (x > 0) ** (x > 1),
    "shift": lambda x: (x > 0) << (x > 1),
    "rest": lambda x: (x > 0) % (x > -3),
    "quotient": lambda x: (x > 0) / (x > -3),
    "floor": lambda x: (x > 0) // (x > -3),
    "with a number": lambda x: 3 - (x > 1),
    "twice": lambda x: 2 * (x > 0) - 0.5,
    "with True": lambda x: True - (x > 0),
    "of all": lambda x: (x > 0) & (x > 1) | (x < -1),
    "of a part": lambda x: ((x > 0) & (x > 1)) - True,
}
POINTS = [1.5, -1.5, 2.5, 0.5]


def expected(f, x):
    """What Python or NumPy gives, or the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of `~` on a bool
        try:
            return f(x)
        except TypeError:
            return TypeError


# Of `~` on a bool, from Python 3.12 on.
@pytest.mark.filterwarnings("ignore:Bitwise inversion:DeprecationWarning")
@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("x", [*POINTS, *map(np.float64, POINTS)], ids=repr)
@pytest.mark.parametrize("name", SUMS)
def test_truths_in_sums(name, x, backend):
    factor = SUMS[name]
    f = lambda x: x * factor(x)
    want = expected(f, x)
    g = tg.value_and_grad(f, backend=backend)
    if want is TypeError:
        with pytest.raises(tg.DTypeError, match="has no loop for the types"):
            g(x)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value, slope = g(x)
    assert float(value) == want
    assert float(slope) == factor(x)


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_a_count_leaves_float32_what_it_is(backend):
    v = np.array([1.0, 2.0], np.float32)

    def f(v, x):
        return np.sum(v * ((x > 0) + 2 * (x > 1)))

    gradient = tg.grad(f, backend=backend)(v, 1.5)
    assert gradient.dtype == np.float32
    np.testing.assert_array_equal(gradient, [3.0, 3.0])
    assert f(v, 1.5) == 9.0


def test_counts_over_a_batch():
    f = lambda x: x * ((x > 0) - (x < 0) + (x > 1))
    xs = np.array([-2.0, 0.5, 3.0])
    got = tg.vmap(tg.grad(lambda x: f(x.item())))(xs)
    np.testing.assert_array_equal(got, [-1.0, 1.0, 2.0])
