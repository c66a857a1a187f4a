"""`vmap`, against JAX and against Python loops."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from transforms.functions import CASES, point, tolerance

import tracegrad as tg

jax.config.update("jax_enable_x64", True)


def both(case):
    return functools.partial(case.f, np), functools.partial(case.f, jnp)


def batch_of(case, dtype):
    return np.stack([point(case, dtype, seed) for seed in range(4)])


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("name", CASES)
def test_values(name, dtype):
    case = CASES[name]
    if dtype == "complex128" and not case.holomorphic:
        pytest.skip("not a function of complex numbers")
    f, g = both(case)
    x = batch_of(case, dtype)
    got, want = tg.vmap(f)(x), jax.vmap(g)(x)
    assert np.asarray(got).dtype == want.dtype
    np.testing.assert_allclose(got, want, **tolerance(dtype))


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c.scalar])
def test_of_grad_and_grad_of(name):
    case = CASES[name]
    f, g = both(case)
    x = batch_of(case, "float64")
    np.testing.assert_allclose(
        tg.vmap(tg.grad(f))(x), jax.vmap(jax.grad(g))(x), rtol=1e-9, atol=1e-10
    )
    np.testing.assert_allclose(
        tg.grad(lambda x: np.sum(tg.vmap(f)(x) ** 2))(x),
        jax.grad(lambda x: jnp.sum(jax.vmap(g)(x) ** 2))(x),
        rtol=1e-9,
        atol=1e-10,
    )


@pytest.mark.parametrize("name", ["network", "einsum", "outer", "rosenbrock"])
def test_of_jacobians(name):
    case = CASES[name]
    f, g = both(case)
    x = batch_of(case, "float64")
    for mode in ("jacfwd", "jacrev", "hessian"):
        got = tg.vmap(getattr(tg, mode)(f))(x)
        want = jax.vmap(getattr(jax, mode)(g))(x)
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def test_axes():
    f = lambda np, x, y: np.tanh(x) @ y
    x, y = np.arange(24.0).reshape(2, 3, 4) / 10, np.arange(12.0).reshape(4, 3) / 7
    cases = [
        ((0, None), 0, x, y),
        ((1, None), 1, x, y),
        ((-2, None), -1, x, y),
        ((None, 1), 0, x, y),
        ((0, None), 2, x, y),
        ([2, 0], 1, x, np.arange(12.0).reshape(4, 3)),
    ]
    for in_axes, out_axes, a, b in cases:
        in_axes_jax = tuple(in_axes)
        got = tg.vmap(functools.partial(f, np), in_axes, out_axes)(a, b)
        want = jax.vmap(functools.partial(f, jnp), in_axes_jax, out_axes)(a, b)
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_structures_of_axes():
    def f(p, x, *, k):
        return {"a": p["w"] * x * k, "b": (p["c"], x)}

    p = {"w": np.arange(6.0).reshape(2, 3), "c": np.array(2.0)}
    x, k = np.arange(6.0).reshape(3, 2), np.arange(2.0)
    kwargs = {
        "in_axes": ({"w": 0, "c": None}, 1),
        "out_axes": {"a": 1, "b": (None, 0)},
    }
    got = tg.vmap(f, **kwargs)(p, x, k=k)
    want = jax.vmap(f, **kwargs)(p, x, k=k)
    np.testing.assert_allclose(got["a"], want["a"])
    np.testing.assert_allclose(got["b"][0], want["b"][0])
    np.testing.assert_allclose(got["b"][1], want["b"][1])


def test_nested():
    f = lambda np, x, y: np.sum(np.sin(x) * y)
    x, y = np.arange(12.0).reshape(4, 3), np.arange(15.0).reshape(5, 3)
    table = lambda of, np: of.vmap(
        of.vmap(functools.partial(f, np), in_axes=(None, 0)), in_axes=(0, None)
    )
    np.testing.assert_allclose(table(tg, np)(x, y), table(jax, jnp)(x, y), rtol=1e-12)


def test_closes_over_outer_values():
    def f(of, np, w, x):
        return np.sum(of.vmap(lambda v: np.tanh(w @ v) * np.sum(w))(x) ** 2)

    w, x = np.arange(6.0).reshape(2, 3) / 10, np.arange(12.0).reshape(4, 3) / 10
    got = tg.grad(lambda w: f(tg, np, w, x))(w)
    want = jax.grad(lambda w: f(jax, jnp, w, x))(w)
    np.testing.assert_allclose(got, want, rtol=1e-10)


def test_results_that_do_not_depend_on_the_example():
    out = tg.vmap(lambda x: (x * 2.0, 3.0, np.ones(2)))(np.arange(3.0))
    np.testing.assert_array_equal(out[1], np.full(3, 3.0))
    np.testing.assert_array_equal(out[2], np.ones((3, 2)))
    shared = tg.vmap(lambda x: np.ones(2), in_axes=None, axis_size=3)(1.0)
    np.testing.assert_array_equal(shared, np.ones((3, 2)))


def test_one_program_for_all_batch_sizes():
    g = tg.vmap(lambda x: np.sum(x**2))
    for n in (2, 3, 10):
        x = np.arange(n * 3.0).reshape(n, 3)
        np.testing.assert_allclose(g(x), np.sum(x**2, axis=1))
    assert len(g.specializations()) == 1
    text = str(tg.vmap(lambda x, y: x @ y).source(*[tg.spec("f8[b, n]")] * 2))
    assert "np.sum(x * y, axis=1)" in text or "sum(x * y, axis=1)" in text


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[np.array([2, 0])] * 2.0,
        lambda x: np.sort(x)[::-1],
        lambda x: x[np.argsort(x)],
        lambda x: np.linalg.solve(np.outer(x, x) + np.eye(3), x),
        lambda x: np.linalg.inv(np.outer(x, x) + np.eye(3)),
        lambda x: np.linalg.norm(x) + np.linalg.det(np.outer(x, x) + np.eye(3)),
        lambda x: np.concatenate([x, x[:1]]) @ np.arange(4.0),
        lambda x: np.where(x > 0.5, x, np.max(x)),
        lambda x: np.pad(np.diff(x), 1),
        lambda x: np.stack([x, x**2]).T @ np.ones(2),
        lambda x: np.mean(x) + np.var(x) * np.prod(x),
        lambda x: np.roll(x, 1) + np.flip(x),
        lambda x: np.einsum("i,j->ij", x, x).ravel(),
        lambda x: np.array([x[0], x[1] * x[2]]),
        lambda x: np.take(np.arange(5.0), np.argmax(x)) * x,
    ],
)
def test_many_functions(f):
    x = np.random.default_rng(0).uniform(0.1, 1.0, (4, 3))
    np.testing.assert_allclose(
        tg.vmap(f)(x), np.stack([f(row) for row in x]), rtol=1e-10
    )
    total = lambda x: np.sum(np.cos(f(x)))
    want = np.stack([tg.grad(total)(row) for row in x])
    np.testing.assert_allclose(tg.vmap(tg.grad(total))(x), want, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        tg.grad(lambda x: np.sum(tg.vmap(total)(x)))(x), want, rtol=1e-9, atol=1e-12
    )


def test_in_place_code():
    def f(x):
        out = np.zeros(4)
        out[1:] = x
        out[0] += x[0] * x[1]
        out *= 2.0
        return out

    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(tg.vmap(f)(x), np.stack([f(row) for row in x]))


def test_methods_and_decorators():
    class Model:
        def __init__(self):
            self.w = np.array([1.0, 2.0])

        @tg.vmap
        def f(self, x):
            return self.w @ x

    x = np.arange(6.0).reshape(3, 2)
    np.testing.assert_allclose(Model().f(x), x @ np.array([1.0, 2.0]))

    @tg.vmap(in_axes=(0, None))
    def g(x, y):
        return x * y

    np.testing.assert_allclose(g(x, 2.0), 2.0 * x)


def test_a_loop_is_visible_and_can_be_refused():
    f = lambda x: np.convolve(x, np.array([1.0, 2.0]))
    x = np.arange(6.0).reshape(2, 3)
    g = tg.vmap(f)
    np.testing.assert_allclose(g(x), np.stack([f(row) for row in x]))
    assert "np.convolve has no batched form" in str(g.source(x))
    with pytest.raises(tg.UnsupportedError, match=r"np\.convolve has no batching rule"):
        tg.vmap(f, strict=True)(x)
    with pytest.raises(tg.UnsupportedError, match="a batch of 100 is too large"):
        g(np.ones((100, 3)))


class TestErrors:
    x = np.ones((4, 3))

    def check(self, error, match, call):
        with pytest.raises(error, match=match) as e:
            call()
        assert len(str(e.value).splitlines()) == 4, str(e.value)

    def test_sizes(self):
        f = lambda x, y: x + y
        self.check(
            tg.ShapeError,
            "different numbers of examples: 4 along axis 0 of `x`, 3 along axis 0 of",
            lambda: tg.vmap(f)(self.x, np.ones(3)),
        )
        self.check(
            tg.ShapeError,
            "axis_size=5, but there are 4",
            lambda: tg.vmap(lambda x: x * 2.0, axis_size=5)(self.x),
        )

    def test_axes(self):
        self.check(
            tg.ShapeError,
            "in_axes has the axis 2 for",
            lambda: tg.vmap(lambda x: x * 2.0, in_axes=2)(self.x),
        )
        self.check(
            tg.ShapeError,
            "out_axes has the axis 2 for `result`",
            lambda: tg.vmap(lambda x: x * 2.0, out_axes=2)(self.x),
        )
        self.check(
            tg.ArgumentError,
            r"has 2 entries for 1 arguments",
            lambda: tg.vmap(lambda x: x, in_axes=(0, 0))(self.x),
        )
        self.check(
            tg.ArgumentError,
            "out_axes is None for `result`, which differs",
            lambda: tg.vmap(lambda x: x * 2.0, out_axes=None)(self.x),
        )
        self.check(
            tg.ArgumentError,
            "no argument counts examples",
            lambda: tg.vmap(lambda x: x * 2.0, in_axes=None)(self.x),
        )
        self.check(
            tg.ShapeError,
            "use None for what all examples share",
            lambda: tg.vmap(lambda x, y: x * y)(self.x, 2.0),
        )

    def test_values(self):
        with pytest.raises(tg.ControlFlowError, match=r"inside of tg\.vmap"):
            tg.vmap(lambda x: x[: int(x[0])])(self.x)


def test_branches_become_selections():
    f = lambda x: x if x[0] > 0 else -2.0 * x
    x = np.array([[1.0, 2.0], [-1.0, 3.0], [2.0, -2.0]])
    np.testing.assert_array_equal(tg.vmap(f)(x), [f(row) for row in x])
    slopes = tg.vmap(tg.grad(lambda x: np.sum(f(x) ** 2)))(x)
    np.testing.assert_array_equal(slopes, [2 * x[0], 8 * x[1], 2 * x[2]])


class TestDefaults:
    """Parameters with a default, which a call may leave out."""

    x = np.arange(6.0).reshape(3, 2)

    def test_numbers_are_shared(self):
        f = lambda x, n=3, *, k=2.0: x * n * k
        np.testing.assert_allclose(tg.vmap(f)(self.x), 6.0 * self.x)
        np.testing.assert_allclose(tg.vmap(f)(self.x, 2), 4.0 * self.x)
        np.testing.assert_allclose(tg.vmap(f)(self.x, k=0.5), 1.5 * self.x)
        np.testing.assert_allclose(tg.vmap(f, in_axes=(1,))(self.x), 6.0 * self.x.T)
        k = np.arange(3.0)
        np.testing.assert_allclose(tg.vmap(f)(self.x, k=k), 3.0 * self.x * k[:, None])

    def test_an_array_is_asked_about(self):
        ones = np.ones(2)
        f = lambda x, w=ones: x @ w
        with pytest.raises(tg.ArgumentError, match="default of `w` is an array") as e:
            tg.vmap(f)(self.x)
        assert len(str(e.value).splitlines()) == 4
        np.testing.assert_allclose(tg.vmap(f, in_axes=(0,))(self.x), self.x.sum(axis=1))
