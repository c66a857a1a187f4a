"""`jvp`, `linearize`, `hvp`, `vhp` and relatives, against JAX."""

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


@pytest.mark.parametrize("dtype", [*REAL, "complex128"])
@pytest.mark.parametrize("name", CASES)
def test_jvp(name, dtype):
    case = CASES[name]
    if dtype == "complex128" and not case.holomorphic:
        pytest.skip("not a function of complex numbers")
    f, g = both(case)
    x, t = point(case, dtype), point(case, dtype, 1)
    got, want = tg.jvp(f, (x,), (t,)), jax.jvp(g, (x,), (t,))
    for have, expected in zip(got, want, strict=True):
        assert np.asarray(have).dtype == expected.dtype
        np.testing.assert_allclose(have, expected, **tolerance(dtype))


@pytest.mark.parametrize("dtype", [*REAL, "complex128"])
@pytest.mark.parametrize("name", CASES)
def test_linearize(name, dtype):
    case = CASES[name]
    if dtype == "complex128" and not case.holomorphic:
        pytest.skip("not a function of complex numbers")
    f, g = both(case)
    x = point(case, dtype)
    out, f_jvp = tg.linearize(f, x)
    want, g_jvp = jax.linearize(g, x)
    np.testing.assert_allclose(out, want, **tolerance(dtype))
    for seed in (1, 2):
        t = point(case, dtype, seed)
        np.testing.assert_allclose(f_jvp(t), g_jvp(t), **tolerance(dtype))


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c.scalar])
def test_hvp_and_vhp(name, dtype):
    case = CASES[name]
    f, g = both(case)
    x, t = point(case, dtype), point(case, dtype, 1)
    want = jax.jvp(jax.grad(g), (x,), (t,))[1]
    np.testing.assert_allclose(tg.hvp(f, (x,), (t,)), want, **tolerance(dtype))
    np.testing.assert_allclose(tg.vhp(f, (x,), (t,)), want, **tolerance(dtype))


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c.scalar])
def test_orders_three_and_four(name):
    case = CASES[name]
    f, g = both(case)
    x, t, u = (point(case, "float64", seed) for seed in range(3))

    def third(of, np_):
        return lambda y: of.jvp(
            lambda z: of.jvp(of.grad(f_of(of)), (z,), (t,))[1], (y,), (u,)
        )[1]

    def f_of(of):
        return f if of is tg else g

    np.testing.assert_allclose(
        third(tg, np)(x), third(jax, jnp)(x), rtol=1e-9, atol=1e-9
    )
    fourth = lambda of, np_: of.grad(lambda y: np_.sum(third(of, np_)(y) * u))(x)
    np.testing.assert_allclose(fourth(tg, np), fourth(jax, jnp), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "name", [n for n, c in CASES.items() if c.holomorphic and c.scalar]
)
def test_holomorphic_grad(name):
    case = CASES[name]
    f, g = both(case)
    x = point(case, "complex128")
    got = tg.grad(f, holomorphic=True)(x)
    np.testing.assert_allclose(got, jax.grad(g, holomorphic=True)(x), rtol=1e-9)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_holomorphic_sum_of_a_number(dtype):
    x = np.array([1.0 + 0.2j, 2.0, 3.0j], dtype)
    for f, want in (
        (lambda x: np.sum(np.sum(x) * 1.0), np.ones(3)),
        (lambda x: np.sum(np.sum(x**2) * np.sum(x)), 2 * x * sum(x) + sum(x * x)),
    ):
        got = tg.grad(f, holomorphic=True)(x)
        assert got.dtype == dtype
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_holomorphic_needs_a_complex_result():
    with pytest.raises(tg.DTypeError, match="with holomorphic=True the result must be"):
        tg.grad(lambda x: np.sum(x), holomorphic=True)(np.ones(2))
    with pytest.raises(tg.DTypeError, match="or pass holomorphic=True"):
        tg.grad(lambda x: np.sum(x))(np.ones(2, complex))


def test_structures_aux_and_none():
    def f(p, n, x):
        return {"s": np.sin(p["a"]) * x, "c": p["b"][0] * n}, x + 1.0

    p = {"a": np.array([1.0, 2.0]), "b": (np.array(3.0), 4.0)}
    t = {"a": np.array([0.5, 1.0]), "b": (2.0, 1.0)}
    x = np.array([1.0, 3.0])
    out, t_out, aux = tg.jvp(f, (p, 3, x), (t, None, None), has_aux=True)
    np.testing.assert_allclose(aux, x + 1.0)
    np.testing.assert_allclose(out["c"], 9.0)
    np.testing.assert_allclose(t_out["s"], np.cos(p["a"]) * t["a"] * x)
    np.testing.assert_allclose(t_out["c"], 6.0)
    out, f_jvp, aux = tg.linearize(lambda q: f(q, 3, x), p, has_aux=True)
    np.testing.assert_allclose(f_jvp(t)["s"], t_out["s"])


def test_no_perturbation_confusion():
    # d/dx (x * d/dy (x + y)) = 1, in forward mode, and mixed with reverse mode.
    inner = lambda x: lambda y: x + y
    f = lambda x: x * tg.jvp(inner(x), (1.0,), (1.0,))[1]
    assert tg.jvp(f, (3.0,), (1.0,))[1] == 1.0
    assert tg.grad(f)(3.0) == 1.0
    g = lambda x: x * tg.grad(inner(x))(1.0)
    assert tg.jvp(g, (3.0,), (1.0,))[1] == 1.0
    h = lambda x: x * tg.linearize(lambda y: x * y, x)[1](1.0)  # x * x
    assert tg.jvp(h, (3.0,), (1.0,))[1] == 6.0


def test_tangents_that_depend_on_the_outer_variable():
    f = lambda x: tg.jvp(np.sin, (x,), (x**2,))[1]
    want = lambda x: 2 * x * np.cos(x) - x**2 * np.sin(x)
    np.testing.assert_allclose(tg.grad(f)(0.7), want(0.7))
    np.testing.assert_allclose(tg.jvp(f, (0.7,), (1.0,))[1], want(0.7))


def test_methods_partials_callables_and_decorators():
    class Model:
        def __init__(self):
            self.k = 3.0

        def f(self, x):
            return np.sum(self.k * x**2)

        def __call__(self, x):
            return self.f(x)

    model = Model()
    x, t = np.array([1.0, 2.0]), np.array([1.0, 1.0])
    for f in (model.f, model, functools.partial(Model.f, model)):
        np.testing.assert_allclose(tg.jvp(f, (x,), (t,))[1], 18.0)
        np.testing.assert_allclose(tg.hvp(f, (x,), (t,)), 6.0 * t)
    model.k = 1.0
    np.testing.assert_allclose(tg.jvp(model.f, (x,), (t,))[1], 6.0)

    @tg.hvp
    def product(x):
        return np.sum(x**3)

    np.testing.assert_allclose(product((x,), (t,)), 6.0 * x)
    assert "def product_hvp(x, t_x):" in str(product.source((x,), (t,)))

    @tg.jvp(has_aux=True)
    def pair(x):
        return x * 2.0, x

    assert pair((1.0,), (1.0,)) == (2.0, 2.0, 1.0)

    @tg.elementwise_grad(argnums=1)
    def product_of(a, b):
        return a * b**2

    np.testing.assert_allclose(product_of(x, t), 2 * x * t)


def test_several_primals_of_hvp():
    f = lambda x, y: np.sum(x**2 * y)
    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    a, b = np.array([0.5, -1.0]), np.array([1.0, 2.0])
    want = (2 * y * a + 2 * x * b, 2 * x * a)
    for product in (tg.hvp, tg.vhp):
        got = product(f, (x, y), (a, b))
        np.testing.assert_allclose(got[0], want[0])
        np.testing.assert_allclose(got[1], want[1])
        np.testing.assert_allclose(product(f, (x, y), (a, None)), 2 * y * a)


def test_saved_modules_need_numpy_alone(tmp_path):
    def f(w, x):
        return np.sum(np.tanh(x @ w) ** 2)

    w, x, t = np.ones((3, 2)) * 0.1, np.arange(12.0).reshape(4, 3), np.ones((3, 2))
    for made, want in (
        (tg.jvp(f), tg.jvp(f, (w, x), (t, None))),
        (tg.hvp(f), tg.hvp(f, (w, x), (t, None))),
    ):
        path = made.source((w, x), (t, None)).save(tmp_path / "saved.py")
        text = path.read_text()
        assert "tracegrad" not in text
        space: dict = {"__file__": str(path)}
        exec(compile(text, str(path), "exec"), space)
        name = "f_jvp" if made is not None and "f_jvp" in space else "f_hvp"
        got = space[name](w, x, t)
        np.testing.assert_allclose(
            np.hstack(
                [np.ravel(g) for g in np.atleast_1d(got)] if name == "f_hvp" else got
            ),
            np.hstack(
                [np.ravel(g) for g in np.atleast_1d(want)] if name == "f_hvp" else want
            ),
        )


def test_specs():
    f = lambda x: np.sum(x**3)
    spec = tg.spec("f8[n]")
    text = str(tg.hvp(f).source((spec,), (spec,)))
    assert "6.0 * " in text


def test_linear_transpose():
    a = np.arange(6.0).reshape(2, 3)
    f = lambda x, y: {"p": a @ x, "q": y[1:] * 2.0}
    x, y = np.zeros(3), np.zeros(3)
    ct = {"p": np.array([1.0, 2.0]), "q": np.array([3.0, 4.0])}
    got = tg.linear_transpose(f, x, y)(ct)
    want = jax.linear_transpose(f, x, y)(ct)
    for have, expected in zip(got, want, strict=True):
        np.testing.assert_allclose(have, expected)
    spec = tg.linear_transpose(lambda x: 3.0 * x, tg.spec("f8[2]"))
    np.testing.assert_allclose(spec(np.ones(2))[0], [3.0, 3.0])
    inner = lambda v: np.sum(tg.linear_transpose(lambda u: v * u, v)(v)[0])
    np.testing.assert_allclose(tg.grad(inner)(np.array([1.0, 2.0])), [2.0, 4.0])
    with pytest.raises(tg.ArgumentError, match="is not linear"):
        tg.linear_transpose(lambda x: x * x, x)(x)
    # Linear in its argument, whatever it closes over: here the argument's own value.
    closing = lambda v: np.sum(tg.linear_transpose(lambda u: v * u, v)(v * v)[0])
    np.testing.assert_allclose(tg.grad(closing)(np.array([1.0, 2.0])), [3.0, 12.0])
    wrong = lambda v: np.sum(tg.linear_transpose(lambda u: v * u * u, v)(v)[0])
    with pytest.raises(tg.ArgumentError, match="is not linear"):
        tg.grad(wrong)(np.array([1.0, 2.0]))


class TestErrors:
    def test_wrong_number_of_tangents(self):
        with pytest.raises(tg.ArgumentError, match="2 primals and 1 tangents") as e:
            tg.jvp(lambda x, y: x * y, (1.0, 2.0), (1.0,))
        assert len(str(e.value).splitlines()) == 4

    def test_structure(self):
        f = lambda p: p["a"] * p["b"]
        with pytest.raises(
            tg.ArgumentError, match=r"is \{'a': \*\}, .* \{'a': \*, 'b': \*\}"
        ) as e:
            tg.jvp(f, ({"a": 1.0, "b": 2.0},), ({"a": 1.0},))
        assert len(str(e.value).splitlines()) == 4

    def test_shape(self):
        with pytest.raises(tg.ShapeError, match=r"has the shape") as e:
            tg.jvp(np.sin, (np.ones(3),), (np.ones(2),))
        assert "fix:" in str(e.value)
        _, f_jvp = tg.linearize(np.sin, np.ones(3))
        with pytest.raises(tg.ShapeError, match=r"shape \(2,\), the primal \(3,\)"):
            f_jvp(np.ones(2))
        with pytest.raises(tg.ArgumentError, match="1 primals and 2 tangents"):
            f_jvp(np.ones(3), np.ones(3))

    def test_dtype(self):
        with pytest.raises(
            tg.DTypeError, match="the dtype complex128, `x` itself float64"
        ):
            tg.jvp(lambda x: x * 2.0, (np.ones(3),), (np.ones(3, complex),))

    def test_not_tuples(self):
        with pytest.raises(tg.ArgumentError, match="tangents must be a tuple"):
            tg.jvp(np.sin, (1.0,), 1.0)
        with pytest.raises(tg.ArgumentError, match=r"tg\.jvp takes a function"):
            tg.jvp(3.0, (1.0,), (1.0,))


def test_check_grads():
    tg.check_grads(lambda x, y: np.sin(x) * y, (np.array([0.3, 0.4]), 2.0), order=3)
    tg.check_grads(lambda z: np.abs(z) ** 2, (np.array([0.3 + 1j]),))
    with pytest.raises(AssertionError, match="the jvp of the function differs"):
        tg.check_grads(lambda x: tg.stop_gradient(x) * x, (1.0,), order=1)
    with pytest.raises(AssertionError, match="the vjp of the function differs"):
        tg.check_grads(lambda x: tg.stop_gradient(x) * x, (1.0,), 1, modes=("rev",))
    with pytest.raises(tg.ArgumentError, match="modes="):
        tg.check_grads(np.sin, (1.0,), modes=("up",))
