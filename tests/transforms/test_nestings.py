"""Random nestings of transformations, three deep, against JAX."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transforms.functions import CASES, point

import tracegrad as tg

jax.config.update("jax_enable_x64", True)


def _square_sum(of, np_, f):
    return lambda x: np_.sum(f(x) ** 2)


def _grad(of, np_, f):
    return of.grad(_square_sum(of, np_, f))


def _value_and_grad(of, np_, f):
    g = of.value_and_grad(_square_sum(of, np_, f))
    return lambda x: g(x)[0] * g(x)[1]


def _jvp(of, np_, f):
    return lambda x: of.jvp(f, (x,), (np_.cos(x),))[1]


def _vjp(of, np_, f):
    def g(x):
        out, pullback = of.vjp(f, x)
        return pullback(np_.sin(out))[0]

    return g


def _linearize(of, np_, f):
    def g(x):
        out, f_jvp = of.linearize(f, x)
        return f_jvp(x) + np_.sum(f_jvp(x * 0.5)) + 0.1 * out

    return g


def _jacfwd(of, np_, f):
    return lambda x: np_.sum(of.jacfwd(f)(x), axis=0)


def _jacrev(of, np_, f):
    return lambda x: np_.sum(of.jacrev(f)(x) * 0.5, axis=-1)


def _vmap(of, np_, f):
    return lambda x: np_.mean(of.vmap(f)(np_.stack([x, 0.5 * x, x * x])), axis=0)


def _vmap_closed(of, np_, f):
    return lambda x: np_.sum(of.vmap(lambda s: f(x * s))(np_.array([0.5, 1.0])), axis=0)


def _closure(of, np_, f):
    """The outer variable closed over by what is differentiated inside."""
    return lambda x: x * of.grad(lambda s: np_.sum(f(x * s) * x))(1.0)


STEPS = [
    _grad,
    _value_and_grad,
    _jvp,
    _vjp,
    _linearize,
    _jacfwd,
    _jacrev,
    _vmap,
    _vmap_closed,
    _closure,
]
NAMES = ["polynomial", "network", "softmax", "loop", "ratio", "where", "outer"]


def nested(of, np_, f, steps):
    for step in steps:
        f = step(of, np_, f)
    return f


def agree(name, steps):
    case = CASES[name]
    x = 0.4 * point(case, "float64")
    got = nested(tg, np, functools.partial(case.f, np), steps)(x)
    want = nested(jax, jnp, functools.partial(case.f, jnp), steps)(x)
    assert np.shape(got) == want.shape
    scale = float(np.max(np.abs(want), initial=1e-3))
    np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-9 * scale)


@pytest.mark.parametrize("step", STEPS)
def test_each_step(step):
    agree("ratio", [step])


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.sampled_from(NAMES), st.lists(st.sampled_from(STEPS), min_size=2, max_size=2))
def test_two_deep(name, steps):
    agree(name, _vector(steps))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.sampled_from(NAMES), st.lists(st.sampled_from(STEPS), min_size=3, max_size=3))
def test_three_deep(name, steps):
    agree(name, _vector(steps))


@settings(max_examples=6, deadline=None, derandomize=True)
@given(st.sampled_from(NAMES), st.lists(st.sampled_from(STEPS), min_size=3, max_size=3))
def test_three_deep_quickly(name, steps):
    agree(name, _vector(steps))


def _vector(steps):
    """The first step makes a function of a vector that returns such a vector."""
    return [_grad, *steps[1:]]
