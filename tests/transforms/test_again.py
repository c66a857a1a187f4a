"""Pullbacks and pushforwards of `tg.vjp` and `tg.linearize`, transformed themselves."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from transforms import oracle

import tracegrad as tg

M = np.array([[0.3, -0.2, 0.5], [0.1, 0.4, -0.3], [-0.6, 0.2, 0.1]])
X = np.array([0.3, -0.4, 0.5])

FUNCTIONS = {
    "elementwise": lambda np_, x: np_.sin(x) * x[0],
    "cumprod": lambda np_, x: np_.cumprod(x + 2.0),
    "solve": lambda np_, x: np_.linalg.solve(M + np_.diag(x), x),
    "slices": lambda np_, x: np_.concatenate([x[1:] * x[:-1], x]),
    "sort": lambda np_, x: np_.max(x) * np_.sort(x),
    "scalar": lambda np_, x: np_.prod(x) ** 2,
}


def units(shape):
    size = int(np.prod(shape))
    return np.eye(size).reshape(size, *shape)


def rows(of, f):
    """The Jacobian, as users of JAX write it."""
    out, pullback = of.vjp(f, X)
    return of.vmap(pullback)(units(np.shape(out)))[0]


def columns(of, f):
    _, f_jvp = of.linearize(f, X)
    return of.vmap(f_jvp)(units(X.shape))


def of_pullback(of, f):
    out, pullback = of.vjp(f, X)
    return of.jacfwd(lambda ct: pullback(ct)[0])(np.ones(np.shape(out)))


def of_pushforward(of, f):
    return of.jacrev(of.linearize(f, X)[1])(X)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("way", [rows, columns, of_pullback, of_pushforward])
def test_agrees_with_jax(way, name):
    got = way(tg, functools.partial(FUNCTIONS[name], np))
    want = way(oracle, functools.partial(FUNCTIONS[name], jnp))
    assert np.shape(got) == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


def test_structures_and_aux():
    def f(np_, x, p):
        return {"u": p["a"] * x, "v": np_.sum(x)}, np_.cos(x)

    def run(of, np_):
        out, pullback, aux = of.vjp(
            functools.partial(f, np_), X, {"a": X * 2.0}, has_aux=True
        )
        ct = {"u": units((3,)), "v": np.arange(3.0)}
        return out, of.vmap(pullback)(ct), aux

    got, want = run(tg, np), run(oracle, jnp)
    jax.tree_util.tree_map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), got, want
    )


scale = 2.0


def scaled(x):
    return np.sin(x) * scale


def test_what_the_function_reads_may_change_afterwards(monkeypatch):
    _, pullback = tg.vjp(scaled, X)
    _, f_jvp = tg.linearize(scaled, X)
    monkeypatch.setattr(f"{__name__}.scale", 3.0)
    wanted = np.diag(2.0 * np.cos(X))
    np.testing.assert_allclose(tg.vmap(pullback)(np.eye(3))[0], wanted)
    np.testing.assert_allclose(tg.vmap(f_jvp)(np.eye(3)), wanted)


def test_the_source_has_the_names_of_the_function():
    _, pullback = tg.vjp(scaled, X)
    text = str(tg.vmap(pullback).source(np.eye(3)))
    assert text.startswith('"""`scaled_pullback` (test_again.py:')
    assert "def scaled_pullback_vmap(d_out):" in text
    _, f_jvp = tg.linearize(scaled, X)
    assert "def scaled_pushforward_vmap(t_x):" in str(tg.vmap(f_jvp).source(np.eye(3)))


@pytest.mark.parametrize("cts", [(), (X, X)])
@pytest.mark.parametrize("traced", [False, True])
def test_a_pullback_takes_one_cotangent(cts, traced):
    def call(x):
        return tg.vjp(np.sin, x)[1](*cts)[0]

    with pytest.raises(tg.ArgumentError, match=r"one cotangent.*not [02] arguments"):
        (tg.compile(call) if traced else call)(X)


# ---------------------------------------------------------- primals of whole numbers
PLACES = np.array([0, 2, 1])


def picked(p, x, places, twice):
    picked = x[(places // 1) % 3] * p["w"] ** p["power"]
    return {"out": picked * 2.0 if twice else picked, "nothing": None}


PRIMALS = ({"w": X + 2.0, "power": 3}, X, PLACES, True)
TANGENTS = ({"w": X, "power": None}, X * X, None, None)
CT = {"out": np.array([1.0, -2.0, 0.5]), "nothing": None}


def as_jax(w, x):
    return 2.0 * x[PLACES] * w**3


def pulled(x):
    _, pullback = tg.vjp(picked, PRIMALS[0], x, *PRIMALS[2:])
    return pullback(CT)


def pushed(x):
    _, f_jvp = tg.linearize(picked, PRIMALS[0], x, *PRIMALS[2:])
    return f_jvp(*TANGENTS)


@pytest.mark.parametrize("traced", [False, True])
def test_integers_among_the_primals_have_no_derivative(traced):
    wrap = tg.compile if traced else lambda f: f
    _, pull = jax.vjp(as_jax, PRIMALS[0]["w"], X)
    d_w, d_x = pull(CT["out"])
    d_p, *rest = wrap(pulled)(X)
    np.testing.assert_allclose(d_p["w"], d_w, rtol=1e-12)
    np.testing.assert_allclose(rest[0], d_x, rtol=1e-12)
    assert (d_p["power"], *rest[1:]) == (None, None, None)
    _, t = jax.jvp(as_jax, (PRIMALS[0]["w"], X), (X, X * X))
    out = wrap(pushed)(X)
    np.testing.assert_allclose(out["out"], t, rtol=1e-12)
    assert out["nothing"] is None


@pytest.mark.parametrize("traced", [False, True])
def test_texts_among_the_primals_are_refused(traced):
    call = lambda x: tg.vjp(lambda x, how: x * 2.0, x, "mean")[0]
    with pytest.raises(tg.TracegradError, match="`how` is differentiated but") as e:
        (tg.compile(call) if traced else call)(X)
    assert "close over it: tg.vjp(lambda x: f(x, how), x)" in str(e.value)


@pytest.mark.parametrize("traced", [False, True])
def test_a_cotangent_of_none_is_refused(traced):
    call = lambda x: tg.vjp(lambda x: (x, None), x)[1]((None, None))[0]
    with pytest.raises(tg.ArgumentError, match=r"`ct\[0\]` must be an array of shape"):
        (tg.compile(call) if traced else call)(X)
