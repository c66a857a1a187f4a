"""Derivatives inside of derivatives, pullbacks, and threads."""

import itertools
import threading

import numpy as np
import pytest

import tracegrad as tg


def test_higher_order() -> None:
    f = lambda x: x**4
    g = f
    for want in (32.0, 48.0, 48.0, 24.0):
        g = tg.grad(g)
        assert g(2.0) == want
    assert g.__name__ != ""
    assert "def function_grad_grad_grad_grad(" in str(g.source())


def test_nested_value_and_grad() -> None:
    def f(x):
        value, d = tg.value_and_grad(lambda z: np.sum(z**3))(x)
        return value + np.sum(d)

    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(tg.grad(f)(x), 3 * x**2 + 6 * x)


def test_no_perturbation_confusion() -> None:
    # d/dx (x * d/dy (x + y)) = 1, not 2.
    f = lambda x: x * tg.grad(lambda y: x + y)(1.0)
    assert tg.grad(f)(3.0) == 1.0
    g = lambda x: x * tg.grad(lambda y: x * y**2)(2.0)  # x * 4 x
    assert tg.grad(g)(3.0) == 24.0
    h = lambda x: x * tg.grad(lambda y: x * y)(x)  # x * x
    assert tg.grad(h)(3.0) == 6.0


def test_closes_over_an_outer_value() -> None:
    def f(x):
        inner = tg.grad(lambda z: np.sum(z**2 * x))
        return np.sum(inner(np.ones(3)))

    np.testing.assert_allclose(tg.grad(f)(np.arange(3.0)), np.full(3, 2.0))


def test_hessian_vector_product() -> None:
    def f(x):
        return np.sum(x**3) + x[0] * x[1]

    def hvp(x, v):
        return tg.grad(lambda z: np.sum(v * tg.grad(f)(z)))(x)

    x, v = np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.5, -1.0])
    want = 6 * x * v + np.array([v[1], v[0], 0.0])
    np.testing.assert_allclose(hvp(x, v), want)
    np.testing.assert_allclose(tg.compile(hvp)(x, v), want)


def test_nested_structures_and_aux() -> None:
    def inner(p, k):
        return np.sum(p["a"] ** 2) * p["b"] * k, {"twice": 2.0 * p["b"], "tag": "t"}

    def outer(p):
        (value, aux), d = tg.value_and_grad(inner, has_aux=True)(p, 2)
        assert aux["tag"] == "t"
        only, more = tg.grad(inner, has_aux=True)(p, k=2)
        assert list(only) == ["a", "b"]
        return value + aux["twice"] + np.sum(d["a"]) + d["b"] + more["twice"]

    p = {"a": np.array([1.0, 2.0]), "b": 3.0}
    d = tg.grad(outer)(p)
    a, b = p["a"], p["b"]
    np.testing.assert_allclose(d["a"], 4 * a * b + 4 * b + 4 * a)
    np.testing.assert_allclose(d["b"], 2 * a @ a + 4 + np.sum(4 * a))


def test_nested_argnums() -> None:
    def f(x, y):
        d_x, d_y = tg.grad(lambda a, b: a**2 * b, argnums=(0, 1))(x, y)
        d_b = tg.grad(lambda a, *, b: a * b**2, argnames="b")(x, b=y)
        return d_x * d_y + d_b  # 2 x y x^2 + 2 x y

    d_x, d_y = tg.grad(f, argnums=(0, 1))(2.0, 3.0)
    assert (d_x, d_y) == (6 * 4 * 3 + 6, 2 * 8 + 4)


def test_compiled_functions_are_inlined() -> None:
    square = tg.compile(lambda x: x**2)
    square(2.0)
    assert tg.grad(lambda x: square(x) * x)(2.0) == 12.0
    assert len(square.specializations()) == 1


def test_nested_vjp() -> None:
    def f(x):
        out, pullback = tg.vjp(lambda z: {"s": np.sin(z), "c": z * x}, x)
        (d,) = pullback({"s": np.ones(3), "c": 2.0 * out["s"]})
        return np.sum(d * x)

    def by_hand(x):
        return np.sum((np.cos(x) + 2.0 * np.sin(x) * x) * x)

    x = np.array([0.1, 0.5, 1.0])
    np.testing.assert_allclose(tg.compile(f)(x), by_hand(x))
    np.testing.assert_allclose(tg.grad(f)(x), tg.grad(by_hand)(x))
    with pytest.raises(tg.ShapeError, match="the cotangent `ct` has the shape"):
        tg.grad(lambda z: np.sum(tg.vjp(np.sin, z)[1](np.ones(2))[0]))(x)
    with pytest.raises(tg.ArgumentError, match="the structure of the result"):
        tg.grad(lambda z: np.sum(tg.vjp(np.sin, z)[1]([z])[0]))(x)


def test_nested_errors_name_the_inner_function() -> None:
    with pytest.raises(tg.ShapeError, match="needs a scalar result"):
        tg.grad(lambda x: np.sum(tg.grad(lambda z: z * 2.0)(x)))(np.ones(3))
    with pytest.raises(tg.DTypeError, match="`z` is differentiated but is of type int"):
        tg.grad(lambda x: x * tg.grad(lambda z: z * 2.0)(3))(1.0)


def test_pullback_of_a_second_order_program() -> None:
    """Inner backward nodes belong to the forward part of an outer vjp."""
    f = lambda x: tg.grad(lambda z: np.sum(z**3))(x)
    x = np.array([1.0, 2.0])
    out, pullback = tg.vjp(f, x)
    np.testing.assert_allclose(out, 3 * x**2)
    np.testing.assert_allclose(pullback(np.ones(2))[0], 6 * x)


# ----------------------------------------------------------------------------- vjp
def test_vjp() -> None:
    def f(w, x):
        return {"z": x @ w, "s": np.sum(w)}

    w, x = np.arange(3.0), np.arange(6.0).reshape(2, 3)
    out, pullback = tg.vjp(f, w, x)
    np.testing.assert_allclose(out["z"], x @ w)
    ct = {"z": np.array([1.0, -2.0]), "s": 5.0}
    d_w, d_x = pullback(ct)
    np.testing.assert_allclose(d_w, x.T @ ct["z"] + 5.0)
    np.testing.assert_allclose(d_x, np.outer(ct["z"], w))
    np.testing.assert_allclose(pullback(ct)[0], d_w)  # as often as one likes
    assert repr(pullback) == "<pullback>"


def test_vjp_traces_once() -> None:
    calls = itertools.count()

    def f(x):
        next(calls)
        return x**2

    for _ in range(3):
        tg.vjp(f, np.ones(2))
    assert tg.compile(f).vjp(3.0)[1](1.0) == (6.0,)
    assert next(calls) == 2


@pytest.mark.parametrize(
    ("ct", "error", "words"),
    [
        (np.ones(2), tg.ShapeError, "has the shape (2,), the result (3,)"),
        (1.0, tg.ShapeError, "has the shape (), the result (3,)"),
        (np.ones((1, 3)), tg.ShapeError, "has the shape (1, 3)"),
        (np.ones(3) * 1j, tg.DTypeError, "has the dtype complex128, the result float"),
        ([1.0, 2.0, 3.0], tg.ArgumentError, "must be an array of shape (3,), not list"),
        ("abc", tg.ArgumentError, "must be an array of shape (3,), not str"),
        (None, tg.ArgumentError, "must be an array of shape (3,), not NoneType"),
    ],
)
def test_bad_cotangents(ct, error, words) -> None:
    _, pullback = tg.vjp(lambda x: np.sin(x), np.ones(3))
    with pytest.raises(error) as caught:
        pullback(ct)
    assert words in str(caught.value)
    assert "\n  fix: " in str(caught.value)


def test_bad_cotangent_structures() -> None:
    _, pullback = tg.vjp(lambda x: (x, {"a": x}), np.ones(3))
    good = np.ones(3)
    np.testing.assert_allclose(pullback((good, {"a": good}))[0], 2 * good)
    np.testing.assert_allclose(pullback((good.astype("f4"), {"a": good}))[0], 2 * good)
    for bad in (good, [good, {"a": good}], (good,), (good, {"b": good}), (good, good)):
        with pytest.raises(tg.ArgumentError, match=r"the cotangent .* the result"):
            pullback(bad)
    with pytest.raises(tg.ShapeError, match=r"`ct\[1\]\['a'\]` has the shape"):
        pullback((good, {"a": np.ones(4)}))


# -------------------------------------------------------------------------- threads
def test_threads_do_not_see_each_other() -> None:
    """Tracing the same and different functions at once gives what one thread gives."""
    errors = []
    start = threading.Barrier(8)
    shared = tg.grad(lambda x, k: np.sum(np.sin(x * k)))

    def work(i):
        try:
            start.wait()
            for n in range(2, 8):
                x = np.linspace(0.0, 1.0, n) + i
                np.testing.assert_allclose(shared(x, 2.0), 2.0 * np.cos(2.0 * x))
                own = tg.grad(lambda z: np.sum(np.exp(z) * i))
                np.testing.assert_allclose(own(x), np.exp(x) * i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(shared.specializations()) <= 2
