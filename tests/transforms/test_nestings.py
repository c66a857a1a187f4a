"""Random nestings of transformations, up to four deep, against JAX."""

from __future__ import annotations

import functools

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transforms import oracle
from transforms.functions import CASES, point

import tracegrad as tg


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


def _hvp(of, np_, f):
    return lambda x: of.hvp(_square_sum(of, np_, f), (x,), (np_.sin(x),))


def _vhp(of, np_, f):
    return lambda x: of.vhp(_square_sum(of, np_, f), (x,), (np_.cos(x),))


def _hessian(of, np_, f):
    return lambda x: of.hessian(_square_sum(of, np_, f))(x) @ np_.cos(x)


def _elementwise_grad(of, np_, f):
    return lambda x: of.elementwise_grad(lambda y: f(y) * y)(x) + x


def _linear_transpose(of, np_, f):
    """Of the derivative, which is linear."""

    def g(x):
        derivative = lambda v: of.jvp(f, (x,), (v,))[1]
        return of.linear_transpose(derivative, x)(np_.cos(f(x)))[0]

    return g


def _checkpoint(of, np_, f):
    block = of.checkpoint(f)
    return lambda x: block(x) + block(np_.sin(x))


def _stop_gradient(of, np_, f):
    return lambda x: f(x) * of.stop_gradient(f(np_.cos(x)))


def _custom_vjp(of, np_, f):
    """A rule that scales the true cotangent; both libraries use it the same way."""

    def g(x):
        scaled = of.custom_vjp(lambda y: 2.0 * y)
        scaled.defvjp(lambda y: (2.0 * y, np_.cos(y)), lambda c, ct: (3.0 * c * ct,))
        return f(scaled(x))

    return of.grad(_square_sum(of, np_, g))


def _custom_jvp(of, np_, f):
    def g(x):
        scaled = of.custom_jvp(lambda y: 2.0 * y)
        scaled.defjvp(lambda p, t: (2.0 * p[0], 3.0 * np_.cos(p[0]) * t[0]))
        return f(scaled(x))

    return g


def _arguments(of, np_, f):
    """By name, of several arguments, with something beside the value."""

    def g(x, y, *, scale):
        return np_.sum(f(x * y) ** 2) * scale, np_.sum(x)

    def h(x):
        slopes, aux = of.grad(g, argnums=(1, 0), has_aux=True)(x, 0.5 * x, scale=0.3)
        return slopes[0] * slopes[1] + aux

    return h


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
    _hvp,
    _vhp,
    _hessian,
    _elementwise_grad,
    _linear_transpose,
    _checkpoint,
    _stop_gradient,
    _custom_jvp,
    _arguments,
]
# A rule for reverse mode alone: JAX has no forward mode of it, and what is around it in
# a nesting may be one.
ONCE = [*STEPS, _custom_vjp]
NAMES = ["polynomial", "network", "softmax", "loop", "ratio", "where", "outer"]


def nested(of, np_, f, steps):
    for step in steps:
        f = step(of, np_, f)
    return f


def agree(name, steps):
    case = CASES[name]
    x = 0.4 * point(case, "float64")
    got = nested(tg, np, functools.partial(case.f, np), steps)(x)
    want = nested(oracle, jnp, functools.partial(case.f, jnp), steps)(x)
    assert np.shape(got) == want.shape
    scale = float(np.max(np.abs(want), initial=1e-3))
    np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-9 * scale)


@pytest.mark.parametrize("step", ONCE)
def test_each_step(step):
    agree("ratio", [step])


@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.sampled_from(NAMES), st.lists(st.sampled_from(STEPS), min_size=2, max_size=2))
def test_two_deep(name, steps):
    agree(name, _vector(steps))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.sampled_from(NAMES), st.lists(st.sampled_from(STEPS), min_size=3, max_size=3))
def test_three_deep(name, steps):
    agree(name, _vector(steps))


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(st.sampled_from(NAMES), st.lists(st.sampled_from(STEPS), min_size=4, max_size=4))
def test_four_deep(name, steps):
    agree(name, _vector(steps))


@settings(max_examples=4, deadline=None, derandomize=True)
@given(st.sampled_from(NAMES), st.lists(st.sampled_from(STEPS), min_size=3, max_size=3))
def test_three_deep_quickly(name, steps):
    agree(name, _vector(steps))


def _vector(steps):
    """The first step makes a function of a vector that returns such a vector."""
    return [_grad, *steps[1:]]
