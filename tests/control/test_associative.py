"""`tg.associative_scan` against `jax.lax.associative_scan`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tracegrad as tg

jax.config.update("jax_enable_x64", True)
R = np.random.default_rng(3)


def affine(a, b):
    """The composition of two affine maps: not commutative."""
    return a[0] * b[0], b[0] * a[1] + b[1]


def with_numpy(x, y, scan=tg.associative_scan, xp=np, **options):
    p, q = scan(affine, (x, y), **options)
    return xp.sum(p * xp.cos(q)) + xp.sum(q * q)


def with_jax(x, y, **options):
    return with_numpy(x, y, scan=jax.lax.associative_scan, xp=jnp, **options)


CASES = [(1, {}), (2, {}), (7, {}), (6, {"reverse": True, "axis": 1})]


@pytest.mark.parametrize(("count", "options"), CASES, ids=str)
def test_value_and_gradient(count, options) -> None:
    shape = (3, count) if "axis" in options else (count, 3)
    x, y = R.normal(size=shape), R.normal(size=shape)
    want = jax.value_and_grad(lambda *a: with_jax(*a, **options), (0, 1))(x, y)
    mine = lambda x, y: with_numpy(x, y, **options)
    np.testing.assert_allclose(mine(x, y), want[0])  # on plain arrays
    for backend in ("numpy", "jax"):
        value, grads = tg.value_and_grad(mine, (0, 1), backend=backend)(x, y)
        np.testing.assert_allclose(value, want[0])
        for a, b in zip(grads, want[1], strict=True):
            np.testing.assert_allclose(a, b, atol=1e-12)


def test_products_of_matrices() -> None:
    x = R.normal(size=(4, 2, 2))
    mine = lambda x: np.sum(np.sin(tg.associative_scan(np.matmul, x)))
    theirs = lambda x: jnp.sum(jnp.sin(jax.lax.associative_scan(jnp.matmul, x)))
    np.testing.assert_allclose(tg.grad(mine)(x), jax.grad(theirs)(x))
    t = R.normal(size=x.shape)
    slope = np.sum(tg.grad(mine)(x) * t)
    np.testing.assert_allclose(tg.jvp(mine, (x,), (t,))[1], slope)
    g, h = tg.grad(mine), 1e-6
    found = np.tensordot(tg.hessian(mine)(x), t, 3)
    want = (g(x + h * t) - g(x - h * t)) / (2 * h)
    np.testing.assert_allclose(found, want, atol=1e-7)


def test_batched() -> None:
    x, y = R.normal(size=(2, 6, 3)), R.normal(size=(2, 6, 3))
    one = tg.grad(with_numpy)
    want = [one(a, b) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(tg.vmap(one)(x, y), want)


def test_a_size_that_changes() -> None:
    g = tg.grad(lambda x: np.sum(tg.associative_scan(np.multiply, x) ** 2))
    cumulated = tg.grad(lambda x: np.sum(np.cumprod(x) ** 2))
    for n in (4, 5, 6):
        x = np.linspace(0.5, 1.5, n)
        np.testing.assert_allclose(g(x), cumulated(x))


def test_in_a_loop() -> None:
    def turn(xp, scan, fori_loop):
        step = lambda i, x: xp.tanh(scan(xp.add, x)) + i
        return lambda x: fori_loop(0, 3, step, x).sum()

    x = np.linspace(0.1, 0.9, 5)
    mine = turn(np, tg.associative_scan, tg.fori_loop)
    theirs = turn(jnp, jax.lax.associative_scan, jax.lax.fori_loop)
    np.testing.assert_allclose(tg.grad(mine)(x), jax.grad(theirs)(x))


@pytest.mark.parametrize(
    ("run", "error"),
    [
        (lambda x: tg.associative_scan(np.add, x, axis=2), tg.ShapeError),
        (lambda x: tg.associative_scan(np.add, (x, x[1:])), tg.ShapeError),
        (lambda x: tg.associative_scan(lambda a, b: a.sum(), x), tg.ShapeError),
        (lambda x: tg.associative_scan(lambda a, b: (a, b), x), tg.ArgumentError),
        (lambda x: tg.associative_scan(np.add, None), tg.ArgumentError),
    ],
)
def test_refused(run, error) -> None:
    for function in (run, tg.compile(run)):
        with pytest.raises(error, match=r"tg\.associative_scan"):
            function(np.ones(4))
