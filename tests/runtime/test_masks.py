"""Boolean masks of traced values: one program for every number of true elements."""

import warnings

import numpy as np
import pytest

import tracegrad as tg

RNG = np.random.default_rng(1)


def updated(x):
    y = x * 1.0
    y[y > 0] *= 2
    y[y < -1] = y[y < -1] ** 2
    return np.sum(y**2)


def sized(x):
    y = np.zeros(x[x > 0].size)
    y[0] = x[0]
    return np.sum(y + x[x > 0])


def counted(x):
    total = 0.0
    for v in x[x > 0]:
        total = total + v**2
    return total


FUNCTIONS = [
    lambda x: np.sum(x[x > 0] ** 2),
    lambda x: np.mean(x[x > 0]),
    lambda x: np.sum(x[x > 0] * np.sin(x)[x > 0]),
    lambda x: np.sum(x[x > 0] * np.ones(len(x[x > 0]))),
    lambda x: np.sum(np.concatenate([x[x > 0], x[x <= 0] * 2])),
    lambda x: x[x > 0][0] * x[x > 0][-1],
    lambda x: np.std(x[np.abs(x) > 0.1]),
    lambda x: np.sum(np.cumsum(x[x > 0])),
    lambda x: np.sum(x[x > 0][:, None] * x[x > 0][None, :]),
    lambda x: np.max(x[x > 0]),
    lambda x: x.sum() if x[x > 0].sum() > 2.0 else (x**2).sum(),
    updated,
    sized,
    counted,
]


def slope(f, x: np.ndarray) -> np.ndarray:
    """Central differences."""
    steps = 1e-6 * np.eye(x.size).reshape(-1, *x.shape)
    found = [(f(x + e) - f(x - e)) / 2e-6 for e in steps]
    return np.reshape(found, x.shape)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_values_and_gradients(f) -> None:
    g = tg.value_and_grad(f)
    for _ in range(12):
        x = RNG.normal(size=6)
        x[2] = 1.0
        value, d_x = g(x)
        np.testing.assert_allclose(value, f(x))
        np.testing.assert_allclose(d_x, slope(f, x), rtol=1e-4, atol=1e-6)


def test_one_program_for_all_masks() -> None:
    g = tg.grad(lambda x: np.sum(x[x > 0] ** 2))
    for x in (np.ones(3), np.array([-1.0, 2.0, -1.0]), -np.ones(3)):
        np.testing.assert_allclose(g(x), 2.0 * np.maximum(x, 0.0))
    (made,) = g.specializations()
    assert len(made.paths) == 1
    assert "x[greater]" in str(g.source())


def test_numbers_of_elements_that_are_computed_with() -> None:
    g = tg.grad(lambda x: np.mean(x[x > 0]))
    for n in (2, 3, 1, 4, 2):
        x = np.where(np.arange(5) < n, 1.0, -1.0)
        np.testing.assert_allclose(g(x), (x > 0) / n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert not g(-np.ones(5)).any()
    (made,) = g.specializations()
    assert len(made.paths) == 3  # many, one, none


def test_types_alone_are_enough() -> None:
    text = str(tg.grad(FUNCTIONS[3]).source(tg.spec("f8[5]")))
    assert "count = np.count_nonzero(" in text


def test_a_size_that_must_fit_is_tested() -> None:
    def f(x, y):
        return np.sum(x[x > 0] * y)

    g = tg.grad(f)
    x = np.array([1.0, -2.0, 3.0, 4.0])
    y = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(g(x, y), [1.0, 0.0, 2.0, 3.0])
    with pytest.raises(tg.ShapeError):
        g(np.array([1.0, -2.0, 3.0, -4.0]), y)
    np.testing.assert_allclose(g(-x, y), [0.0, 6.0, 0.0, 0.0])
    np.testing.assert_allclose(g(-x, np.ones(1)), [0.0, 1.0, 0.0, 0.0])
    np.testing.assert_allclose(g(x, y), [1.0, 0.0, 2.0, 3.0])


def test_jax_needs_the_size() -> None:
    pytest.importorskip("jax")
    with pytest.raises(tg.ControlFlowError, match="traced mask"):
        tg.grad(FUNCTIONS[0], backend="jax")(np.ones(3))
