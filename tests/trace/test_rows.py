"""Rows of captured arrays, and constants made anew in each turn, fold into loops."""

import jax
import numpy as np
import pytest

import tracegrad as tg
from tracegrad.ops.control import for_loop
from tracegrad.runtime.compiled import Compiled
from tracegrad.runtime.options import Options

jax.config.update("jax_enable_x64", True)
RNG = np.random.default_rng(7)
N = 12
OBS = RNG.normal(size=(N, 2))
CUBE = RNG.normal(size=(N, 2, 2))
WIDE = RNG.normal(size=(2, N)).T
P = np.array([[0.5, 0.1], [-0.3, 0.4]])


class Model:
    def __init__(self) -> None:
        self.obs = OBS.copy()

    def loss(self, p):
        m = np.zeros(2)
        for o in self.obs:
            m = np.tanh(p @ m + o)
        return np.sum(m)


def in_a_cell():
    obs = OBS.copy()

    def f(p):
        m = np.zeros(2)
        for t in range(N):
            m = np.tanh(p @ m + obs[t])
        return np.sum(m)

    return f


def of_a_global(p):
    m = np.zeros(2)
    for t in range(N):
        m = np.tanh(p @ m + OBS[t])
    return np.sum(m)


def from_the_end(p):
    m = np.zeros(2)
    for o in OBS[::-1]:
        m = np.tanh(p @ m + o)
    return np.sum(m)


def of_two(p):
    m = np.zeros(2)
    for o, c in zip(OBS, CUBE, strict=True):
        m = np.tanh(c @ (p @ m) + o)
    return np.sum(m)


def by_columns(p):
    m = np.zeros(2)
    for o in WIDE:
        m = np.tanh(p @ m + o)
    return np.sum(m)


def of_columns(p):
    m = np.zeros(2)
    for o in OBS.T[:, :2].T:
        m = np.tanh(p @ m + o)
    for t in range(1, N):
        m = np.tanh(p @ m + np.exp(OBS[t]) - OBS[t - 1])
    return np.sum(m)


def made_each_turn(p):
    m = np.ones(2)
    for _ in range(N):
        m = m + np.array([0.5, -0.25]) * np.tanh(p @ m)
    return np.sum(m)


def log_likelihood(p):
    m, s = np.zeros(2), 0.0
    for t in range(N):
        m = np.tanh(p @ m + OBS[t])
        s = s + 0.5 * (m @ m + np.linalg.slogdet(p)[1])
    return s


KINDS = [
    in_a_cell(),
    of_a_global,
    from_the_end,
    of_two,
    by_columns,
    of_columns,
    made_each_turn,
    log_likelihood,
    Model().loss,
]


@pytest.mark.parametrize("function", KINDS, ids=lambda f: f.__qualname__)
def test_folds(function) -> None:
    rolled = Compiled(function, Options("value_and_grad"))
    flat = Compiled(function, Options("value_and_grad", reroll=False))
    value, grad = rolled(P)
    assert value == flat(P)[0] == function(P)
    np.testing.assert_allclose(grad, flat(P)[1], rtol=1e-12, atol=1e-14)
    step = 1e-6 * np.array([[1.0, -0.5], [0.3, 0.7]])
    slope = (function(P + step) - function(P - step)) / 2.0
    np.testing.assert_allclose(np.sum(grad * step), slope, rtol=1e-7)
    assert any(n.op is for_loop for n in rolled.ir(P).walk())
    assert len(str(rolled.source(P)).splitlines()) < 60


def test_reads_as_written() -> None:
    text = str(tg.grad(of_a_global).source(P))
    assert "m = np.tanh(p @ m + OBS[t])" in text
    assert text.count("np.array(") == 0
    text = str(tg.grad(made_each_turn).source(P))
    assert text.count("np.array([0.5, -0.25])") == 1


def test_jax() -> None:
    made = tg.grad(of_two, backend="jax")(P)
    np.testing.assert_allclose(made, tg.grad(of_two)(P), rtol=1e-12)


def test_data_changed_in_place_and_bound_anew_are_seen() -> None:
    model = Model()
    gradient = tg.value_and_grad(model.loss)
    assert gradient(P)[0] == model.loss(P)
    model.obs[3] = [2.0, -1.0]
    assert gradient(P)[0] == model.loss(P)
    model.obs = OBS[:7].copy()
    assert gradient(P)[0] == model.loss(P)


def test_a_row_that_decides_is_guarded() -> None:
    obs = OBS.copy()
    obs[0] = 1.0

    def f(p):
        m = np.ones(2)
        for o in obs:
            gate = o
            if gate[0] > 0.5:
                m = np.tanh(p @ m + o)
        return np.sum(m)

    gradient = tg.value_and_grad(f)
    assert gradient(P)[0] == f(P)
    obs[:] = -obs
    assert gradient(P)[0] == f(P)


def test_what_is_no_row_stays_a_constant() -> None:
    doubled = np.lib.stride_tricks.as_strided(OBS, (3, 2), (0, 8))
    parts = [OBS[1, :1], OBS[2:4, 0], OBS[:, 1][:2], OBS[3][::-1], doubled[1]]
    twins = [np.ones(2), np.ones(2)]

    def f(x):
        for part in parts:
            x = x * part
        return x + doubled[0] + OBS[2][::-1] + OBS[1:2, 0]

    def g(x):
        return twins[0] * x + np.atleast_1d(twins[1]) * x

    x = np.array([0.3, 0.4])
    np.testing.assert_array_equal(tg.compile(f)(x), f(x))
    made = tg.compile(g)
    np.testing.assert_array_equal(made(x), g(x))
    twins[1][0] = 5.0
    np.testing.assert_array_equal(made(x), g(x))


def test_equal_constants_are_results_of_their_own() -> None:
    made = tg.compile(lambda x: (np.array([1.0, 2.0]), np.array([1.0, 2.0]), x + 1.0))
    a, b, _ = made(np.ones(2))
    a[0] = 9.0
    np.testing.assert_array_equal(b, [1.0, 2.0])
    np.testing.assert_array_equal(made(np.ones(2))[0], [1.0, 2.0])


def test_zeros_of_both_signs_stay_apart() -> None:
    def f(x):
        return x / np.array([0.0, 1.0]) + x / np.array([-0.0, 1.0])

    x = np.ones(2)
    with np.errstate(divide="ignore", invalid="ignore"):
        np.testing.assert_array_equal(tg.compile(f)(x), f(x))
