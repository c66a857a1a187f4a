"""`jacfwd`, `jacrev` and `hessian`, against JAX."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from transforms.functions import CASES, point, tolerance

import tracegrad as tg

jax.config.update("jax_enable_x64", True)
REAL = ["float32", "float64"]


def both(case):
    return functools.partial(case.f, np), functools.partial(case.f, jnp)


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("mode", ["jacfwd", "jacrev"])
@pytest.mark.parametrize("name", CASES)
def test_jacobian(name, mode, dtype):
    case = CASES[name]
    f, g = both(case)
    x = point(case, dtype)
    got, want = getattr(tg, mode)(f)(x), getattr(jax, mode)(g)(x)
    assert np.asarray(got).dtype == want.dtype
    np.testing.assert_allclose(got, want, **tolerance(dtype))


@pytest.mark.parametrize("mode", ["jacfwd", "jacrev"])
@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c.holomorphic])
def test_holomorphic_jacobian(name, mode):
    case = CASES[name]
    f, g = both(case)
    x = point(case, "complex128")
    got = getattr(tg, mode)(f, holomorphic=True)(x)
    want = getattr(jax, mode)(g, holomorphic=True)(x)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("name", CASES)
def test_hessian(name, dtype):
    case = CASES[name]
    f, g = both(case)
    x = point(case, dtype)
    np.testing.assert_allclose(tg.hessian(f)(x), jax.hessian(g)(x), **tolerance(dtype))


@pytest.mark.parametrize("modes", ["fr", "rf", "ff", "rr", "rfr"])
@pytest.mark.parametrize("name", ["network", "outer", "loop"])
def test_nested(name, modes):
    case = CASES[name]
    f, g = both(case)
    x = point(case, "float64")
    for m in modes:
        mode = {"f": "jacfwd", "r": "jacrev"}[m]
        f, g = getattr(tg, mode)(f), getattr(jax, mode)(g)
    np.testing.assert_allclose(f(x), g(x), rtol=1e-9, atol=1e-9)


def _same(got, want):
    a, b = jax.tree_util.tree_flatten(got), jax.tree_util.tree_flatten(want)
    assert a[1] == b[1]
    for x, y in zip(a[0], b[0], strict=True):
        assert np.shape(x) == np.shape(y)
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-10)


def _structured(np, p, k, *, s):
    out = {"a": np.sin(p["w"]) * k * s, "b": (p["w"][0] * p["c"],)}
    return out, {"aux": p["c"] + 1.0}


@pytest.mark.parametrize("mode", ["jacfwd", "jacrev", "hessian"])
@pytest.mark.parametrize("argnums", [0, 1, (0, 1), (1, 0)])
def test_structures(mode, argnums):
    f, g = (functools.partial(_structured, lib) for lib in (np, jnp))
    p = {"w": np.array([0.1, 0.2, 0.3]), "c": 2.0}
    got = getattr(tg, mode)(f, argnums=argnums, has_aux=True)(p, 3.0, s=2.0)
    want = getattr(jax, mode)(g, argnums=argnums, has_aux=True)(p, 3.0, s=2.0)
    _same(got, want)


def test_names_methods_and_decorators():
    class Model:
        k = 3.0

        @tg.jacrev
        def f(self, x):
            return self.k * x**2

        @tg.hessian(argnums=1)
        def g(self, x, y):
            return np.sum(self.k * x * y**2)

    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(Model().f(x), np.diag(6.0 * x))
    np.testing.assert_allclose(Model().g(x, x), np.diag(6.0 * x))
    by_name = tg.jacobian(lambda a, *, b: a * b, argnames="b")
    np.testing.assert_allclose(by_name(x, b=x), np.diag(x))


def test_constant_and_integer_results():
    x = np.array([1.0, 2.0])
    f = lambda x: {"c": np.ones(2), "x": x * 2.0}
    for mode in (tg.jacrev, tg.jacfwd):
        got = mode(f)(x)
        np.testing.assert_allclose(got["c"], np.zeros((2, 2)))
        np.testing.assert_allclose(got["x"], 2.0 * np.eye(2))


def test_source_reads_as_by_hand():
    def model(w, x):
        return np.tanh(x @ w)

    w, x = np.array([0.1, 0.2, 0.3]), np.arange(12.0).reshape(4, 3)
    text = str(tg.jacrev(model).source(w, x))
    assert (
        "jacobian = (1.0 - out * out)[:, None] * x" in text or "[:, None] * x" in text
    )
    assert "np.eye" not in text
    spec = str(tg.hessian(lambda x: np.sum(x**3)).source(tg.spec("f8[n]")))
    assert "hessian = np.diag(6.0 * x)" in spec
    chained = lambda x: np.sum(x[1:] * x[:-1])
    assert "eye = np.eye(n)" in str(tg.hessian(chained).source(tg.spec("f8[n]")))


def test_saved(tmp_path):
    def f(x):
        return np.sum(x[1:] ** 2 * x[:-1])

    x = np.array([1.0, 2.0, 3.0])
    g = tg.hessian(f)
    path = g.source(x).save(tmp_path / "saved.py")
    space: dict = {"__file__": str(path)}
    exec(compile(path.read_text(), str(path), "exec"), space)
    np.testing.assert_array_equal(space["f_hessian"](x), g(x))


def test_one_batched_pass():
    rng = np.random.default_rng(0)
    n = 200
    a = rng.standard_normal((n, n)) / n
    f = lambda x: np.tanh(a @ np.sin(a @ x))
    x = rng.standard_normal(n)
    jac = tg.jacrev(f)
    want = jac(x)
    _, pullback = tg.vjp(f, x)
    rows = np.stack([pullback(row)[0] for row in np.eye(n)])
    np.testing.assert_allclose(rows, want, rtol=1e-9, atol=1e-12)
    # Two products for the value, one for all rows.
    text = str(jac.source())
    assert text.count(" @ ") == 3
    assert "for " not in text


class TestErrors:
    def test_complex(self):
        with pytest.raises(tg.DTypeError, match="needs real arrays") as e:
            tg.jacfwd(lambda x: x * 2.0)(np.ones(2, complex))
        assert len(str(e.value).splitlines()) == 4
        with pytest.raises(tg.DTypeError, match="needs real arrays, but a result"):
            tg.jacrev(lambda x: x * 2j)(np.ones(2))
        with pytest.raises(tg.DTypeError, match="with holomorphic=True"):
            tg.jacrev(lambda x: x * 2.0, holomorphic=True)(np.ones(2))

    def test_integers(self):
        with pytest.raises(tg.DTypeError, match="is differentiated but"):
            tg.jacrev(lambda x: x * 2.0)(np.arange(3))
