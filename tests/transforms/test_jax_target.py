"""Every transformation with `backend="jax"`: the numbers of the NumPy target."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import tracegrad as tg
from tracegrad.ir.tree import Leaf, build, leaves

jax.config.update("jax_enable_x64", True)

V, T = np.array([0.5, -1.0, 2.0]), np.array([1.0, 2.0, -0.5])
ROWS = np.stack([V, T, V * T, V + 1.0])


def f(v):
    return np.sin(v[1:]) * v[:-1]


def total(v):
    return np.sum(v[1:] ** 2 * v[:-1])


@tg.custom_vjp
def clipped(v):
    return v * 2.0


clipped.defvjp(lambda v: (v * 2.0, v), lambda v, ct: (np.clip(ct, -1.0, 1.0) * v,))


@tg.custom_jvp
def bounded(v):
    return np.log(v)


bounded.defjvp(lambda p, t: (np.log(p[0]), t[0] / np.maximum(p[0], 0.5)))


@tg.checkpoint
def block(v):
    return np.sin(v) * v


point = tg.fixed_point(lambda x, a: np.tanh(a * x + 0.5))


def turns(v):
    return tg.fori_loop(0, 3, lambda i, h: np.sin(h) * v, v)


def chosen(v):
    return tg.cond(v[0] > 0.0, np.sin, np.cos, v)


def of_vjp(b):
    out, pullback = tg.vjp(f, V, backend=b)
    return out, pullback(out)


def of_linearize(b):
    out, f_jvp = tg.linearize(f, V, backend=b)
    return out, f_jvp(T)


CASES = {
    "grad": lambda b: tg.grad(total, backend=b)(V),
    "value_and_grad": lambda b: tg.value_and_grad(total, backend=b)(V),
    "vjp": of_vjp,
    "jvp": lambda b: tg.jvp(f, (V,), (T,), backend=b),
    "linearize": of_linearize,
    "linear_transpose": lambda b: tg.linear_transpose(np.diff, V, backend=b)(T[:2]),
    "jacrev": lambda b: tg.jacrev(f, backend=b)(V),
    "jacfwd": lambda b: tg.jacfwd(f, backend=b)(V),
    "jacobian of elements": lambda b: tg.jacrev(lambda v: np.sin(v) * v, backend=b)(V),
    "hessian": lambda b: tg.hessian(total, backend=b)(V),
    "hvp": lambda b: tg.hvp(total, (V,), (T,), backend=b),
    "vhp": lambda b: tg.vhp(total, (V,), (T,), backend=b),
    "elementwise_grad": lambda b: tg.elementwise_grad(np.tanh, backend=b)(V),
    "vmap": lambda b: tg.vmap(f, backend=b)(ROWS),
    "vmap of grad": lambda b: tg.vmap(tg.grad(total), backend=b)(ROWS),
    "grad of vmap": lambda b: tg.grad(lambda x: np.sum(tg.vmap(f)(x) ** 2), backend=b)(
        ROWS
    ),
    "vmap with a loop": lambda b: tg.vmap(
        lambda v: np.convolve(v, np.ones(2)), backend=b
    )(ROWS),
    "checkpoint": lambda b: tg.grad(lambda v: np.sum(block(block(v))), backend=b)(V),
    "custom_vjp": lambda b: tg.grad(lambda v: np.sum(clipped(v) ** 2), backend=b)(V),
    "custom_jvp": lambda b: tg.grad(lambda v: np.sum(bounded(v * v)), backend=b)(V),
    "stop_gradient": lambda b: tg.grad(
        lambda v: np.sum(v * tg.stop_gradient(v)), backend=b
    )(V),
    "fixed_point": lambda b: tg.grad(point, argnums=1, backend=b)(0.1, 0.3),
    "hessian of a loop": lambda b: tg.hessian(lambda v: np.sum(turns(v)), backend=b)(V),
    "hvp of a branch": lambda b: tg.hvp(
        lambda v: np.sum(chosen(v)), (V,), (T,), backend=b
    ),
    "three deep": lambda b: tg.grad(
        lambda v: np.sum(tg.hessian(total)(v) ** 2), backend=b
    )(V),
    "sparse jacobian": lambda b: tg.jacobian(f, sparse=True, backend=b)(V).toarray(),
    "sparse hessian": lambda b: tg.hessian(total, sparse=True, backend=b)(V).toarray(),
}


def flat(x):
    return [np.asarray(leaf.value) for leaf in leaves(build(x, Leaf))]


@pytest.mark.parametrize("name", CASES)
def test_as_with_numpy(name):
    got, want = CASES[name]("jax"), CASES[name]("numpy")
    for have, expected in zip(flat(got), flat(want), strict=True):
        assert have.dtype == expected.dtype
        np.testing.assert_allclose(have, expected, rtol=1e-12, atol=1e-13)


def test_sources_are_of_jax():
    for source in (
        tg.hvp(total, backend="jax").source((V,), (T,)),
        tg.jacrev(f, backend="jax").source(V),
        tg.vmap(f, backend="jax").source(ROWS),
        tg.linear_transpose(np.diff, V, backend="jax").source(T[:2]),
    ):
        assert "import jax.numpy as jnp" in str(source)
        assert "import numpy" not in str(source)


WEIGHTS = np.arange(6.0) + 1.0


def test_a_captured_array_takes_updates() -> None:
    """The cotangent of a weighted sum starts as the weights, and is updated."""

    def f(x):
        out = np.zeros(6)
        out[::2] = x
        out[1::2] += out[::2]
        return np.sum(out * WEIGHTS)

    x = np.array([0.5, -1.0, 2.0])
    want = WEIGHTS[::2] + WEIGHTS[1::2]
    np.testing.assert_allclose(tg.grad(f, backend="jax")(x), want, rtol=1e-12)
    np.testing.assert_allclose(tg.grad(f)(x), want, rtol=1e-12)
    np.testing.assert_array_equal(WEIGHTS, np.arange(6.0) + 1.0)
