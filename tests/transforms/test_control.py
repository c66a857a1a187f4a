"""Forward mode and batches of branches and loops, against JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tracegrad as tg

jax.config.update("jax_enable_x64", True)

W = np.arange(9.0).reshape(3, 3) / 10
START = np.array([0.1, 0.2, 0.3])
XS = np.arange(12.0).reshape(4, 3) / 7


def scan(np_, of):
    def f(w, start, xs):
        def step(h, x):
            h = np_.tanh(h @ w + x)
            return h, h * 2.0

        h, ys = of.scan(step, start, xs)
        return np_.sum(h) + np_.sum(ys**2)

    return f


def while_loop(np_, of):
    def f(w, start, xs):
        test = lambda c: np_.sum(c[1] ** 2) < 50.0
        turn = lambda c: (c[0] + 1, c[1] * 1.5 + w[0] * 0.1)
        out = of.while_loop(test, turn, (0, start))
        return np_.sum(out[1] ** 3) + np_.sum(w) * np_.sum(xs)

    return f


def branch(np_, of):
    def f(w, start, xs):
        y = of.cond(
            np_.sum(start) > 0.0, lambda a: np_.sin(a) @ w, lambda a: a * 2.0, start
        )
        return np_.sum(y * xs)

    return f


def counted(np_, of):
    def f(w, start, xs):
        turn = lambda i, h: np_.tanh(h @ w) * (i + 1.0)
        return np_.sum(of.fori_loop(0, 3, turn, start) * xs)

    return f


CASES = [scan, while_loop, branch, counted]
POINT = (W, START, XS)
MOVED = (np.cos(W), np.sin(START), np.cos(XS))


@pytest.mark.parametrize("case", CASES)
def test_jvp_and_linearize(case):
    f, g = case(np, tg), case(jnp, jax.lax)
    want = jax.jvp(g, POINT, MOVED)
    got = tg.jvp(f, POINT, MOVED)
    np.testing.assert_allclose(got[0], want[0], rtol=1e-10)
    np.testing.assert_allclose(got[1], want[1], rtol=1e-10)
    out, f_jvp = tg.linearize(f, *POINT)
    np.testing.assert_allclose(out, want[0], rtol=1e-10)
    np.testing.assert_allclose(f_jvp(*MOVED), want[1], rtol=1e-10)
    only = tg.jvp(f, POINT, (None, MOVED[1], None))[1]
    zeros = (np.zeros_like(W), MOVED[1], np.zeros_like(XS))
    np.testing.assert_allclose(only, jax.jvp(g, POINT, zeros)[1], rtol=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_hvp(case):
    f, g = case(np, tg), case(jnp, jax.lax)
    inner = jax.jacfwd if case is while_loop else jax.grad
    zeros = (MOVED[0], np.zeros_like(START), np.zeros_like(XS))
    want = jax.jvp(inner(g), POINT, zeros)[1]
    got = tg.hvp(f, POINT, (MOVED[0], None, None))
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("case", [scan, branch, counted])
def test_reverse_over_forward(case):
    f, g = case(np, tg), case(jnp, jax.lax)
    pushed = lambda of, h: lambda w: of.jvp(h, (w, START, XS), MOVED)[1]
    got = tg.grad(pushed(tg, f))(W)
    want = jax.grad(pushed(jax, g))(W)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10)


def test_source():
    f = scan(np, tg)
    text = str(tg.jvp(f).source(POINT, (MOVED[0], MOVED[1], None)))
    assert "t_h = (h @ t_w + t_h @ w) * (1.0 - " in text or "h @ t_w" in text
    assert text.count("for t in range(") == 1


def switch(np_, of):
    def f(w, start, xs):
        which = (np_.sum(start) * 2.0).astype(int)
        branches = [lambda a: a, lambda a: a * 2.0, lambda a: np_.sin(a)]
        return np_.sum(of.switch(which, branches, start) * xs)

    return f


BATCH = (
    np.stack([W, 2.0 * W, W - 1.0, W.T]),
    np.stack([START, 2.0 * START, -START, START**2]),
    np.stack([XS, 0.5 * XS, XS - 1.0, XS**2]),
)


@pytest.mark.parametrize("axes", [(None, 0, None), (0, 0, 0), (0, None, 0)])
@pytest.mark.parametrize("case", [*CASES, switch])
def test_vmap(case, axes):
    f, g = case(np, tg), case(jnp, jax.lax)
    args = [p if a is None else b for a, p, b in zip(axes, POINT, BATCH, strict=True)]
    want = jax.vmap(g, in_axes=axes)(*args)
    np.testing.assert_allclose(tg.vmap(f, in_axes=axes)(*args), want, rtol=1e-10)
    if case is while_loop:
        return
    got = tg.vmap(tg.grad(f), in_axes=axes)(*args)
    want = jax.vmap(jax.grad(g), in_axes=axes)(*args)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10)
    args[0] = W
    axes = (None, *axes[1:])
    total = lambda of, np_, h: (
        lambda w: np_.sum(of.vmap(h, in_axes=axes)(w, *args[1:]) ** 2)
    )
    got = tg.grad(total(tg, np, f))(W)
    want = jax.grad(total(jax, jnp, g))(W)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("case", [scan, branch, counted])
def test_hessian(case):
    f, g = case(np, tg), case(jnp, jax.lax)
    got = tg.hessian(lambda start: f(W, start, XS))(START)
    want = jax.hessian(lambda start: g(W, start, XS))(START)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10)


def test_a_batch_of_loops_is_one_loop():
    source = tg.vmap(scan(np, tg), in_axes=(None, 0, 0)).source(W, *BATCH[1:])
    assert str(source).count("for t in range(") == 1
    text = str(tg.vmap(while_loop(np, tg), in_axes=(None, 0, None)).source(
        W, BATCH[1], XS
    ))  # fmt: skip
    assert "while np.any(" in text
