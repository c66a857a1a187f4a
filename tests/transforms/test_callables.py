"""Every kind of callable that Python has, under every transformation."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg

X, T = np.array([0.3, -1.2, 2.0]), np.array([1.0, 0.5, -2.0])
K = 3.0


# ----------------------------------------- each computes 3 * sin(x) * x, in its own way
def plain(x):
    return K * np.sin(x) * x


class Model:
    def __init__(self, k):
        self.k = k

    def method(self, x):
        return self.k * np.sin(x) * x

    def __call__(self, x):
        return self.method(x)

    @classmethod
    def by_class(cls, x):
        return cls(K).method(x)

    @staticmethod
    def static(x):
        return plain(x)

    @property
    def held(self) -> Callable:
        return lambda x: self.k * np.sin(x) * x


def closure(k):
    def inner(x):
        return k * np.sin(x) * x

    return inner


def terms(x):
    for _ in range(3):
        yield np.sin(x) * x


def of_generator(x):
    return sum(terms(x))


def recursive(x, n=3):
    return np.sin(x) * x * 1.0 if n == 1 else np.sin(x) * x + recursive(x, n - 1)


def swapped(k, x):
    return k * np.sin(x) * x


def by_keyword(x, *, k=K):
    return k * np.sin(x) * x


def starred(*args, **kwargs):
    return plain(*args, **kwargs)


@functools.wraps(plain)
def wrapped(*args):
    return plain(*args)


@functools.cache
def factor():
    return K


def of_cached(x):
    return factor() * np.sin(x) * x


def unpacking(x):
    a, *_, b = np.sin(x) * x, 0.0, K
    (made,) = [a * b for _ in range(1)]
    return made


KINDS = {
    "function": plain,
    "lambda": lambda x: K * np.sin(x) * x,
    "method": Model(K).method,
    "object": Model(K),
    "classmethod": Model.by_class,
    "staticmethod": Model.static,
    "property": Model(K).held,
    "closure": closure(K),
    "generator": of_generator,
    "recursion": recursive,
    "partial": functools.partial(swapped, K),
    "partial of a method": functools.partial(Model.method, Model(K)),
    "partial with a keyword": functools.partial(by_keyword, k=K),
    "default by keyword": by_keyword,
    "stars": starred,
    "wrapped": wrapped,
    "cached": of_cached,
    "unpacking": unpacking,
    "checkpointed": tg.checkpoint(plain),
    "compiled": tg.compile(plain),
}

SLOPE = K * (np.cos(X) * X + np.sin(X))
BEND = K * (2.0 * np.cos(X) - np.sin(X) * X)
VALUE = K * np.sin(X) * X


def total(f):
    return lambda x: np.sum(f(x))


TRANSFORMS = {
    "grad": (lambda f: tg.grad(total(f))(X), SLOPE),
    "elementwise_grad": (lambda f: tg.elementwise_grad(f)(X), SLOPE),
    "value_and_grad": (lambda f: tg.value_and_grad(total(f))(X)[1], SLOPE),
    "vjp": (lambda f: tg.vjp(f, X)[1](T)[0], SLOPE * T),
    "jvp": (lambda f: tg.jvp(f, (X,), (T,))[1], SLOPE * T),
    "linearize": (lambda f: tg.linearize(f, X)[1](T), SLOPE * T),
    "linear_transpose": (
        lambda f: tg.linear_transpose(lambda v: tg.jvp(f, (X,), (v,))[1], X)(T)[0],
        SLOPE * T,
    ),
    "jacrev": (lambda f: tg.jacrev(f)(X), np.diag(SLOPE)),
    "jacfwd": (lambda f: tg.jacfwd(f)(X), np.diag(SLOPE)),
    "sparse": (lambda f: tg.jacobian(f, sparse=True)(X).toarray(), np.diag(SLOPE)),
    "hessian": (lambda f: tg.hessian(total(f))(X), np.diag(BEND)),
    "hvp": (lambda f: tg.hvp(total(f), (X,), (T,)), BEND * T),
    "vhp": (lambda f: tg.vhp(total(f), (X,), (T,)), BEND * T),
    "vmap": (lambda f: tg.vmap(f)(X), VALUE),
    "compile": (lambda f: tg.compile(f)(X), VALUE),
    "grad of vmap": (lambda f: tg.grad(total(tg.vmap(f)))(X), SLOPE),
    "vmap of grad": (lambda f: tg.vmap(tg.grad(f))(X), SLOPE),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_kind(kind, transform):
    apply, want = TRANSFORMS[transform]
    np.testing.assert_allclose(apply(KINDS[kind]), want, rtol=1e-12, atol=1e-14)


def test_a_model_that_changes_is_not_stale():
    model = Model(1.0)
    g = tg.grad(total(model.method))
    h = tg.hessian(total(model))
    for k in (1.0, 2.0, 5.0):
        model.k = k
        np.testing.assert_allclose(g(X), k / K * SLOPE)
        np.testing.assert_allclose(h(X), np.diag(k / K * BEND), atol=1e-14)


# ----------------------------------------------------------- arguments and options
def pair(p, x, *, scale):
    """Of a structure, an array and a keyword; with something beside the value."""
    return np.sum(p["w"] * x**2) * scale, {"sum": np.sum(x)}


P = {"w": np.array([1.0, 2.0, 3.0])}


@pytest.mark.parametrize("given", ["argnums", "argnames", "tuple", "negative"])
@pytest.mark.parametrize("transform", ["grad", "value_and_grad", "jacrev", "jacfwd"])
def test_argnums_argnames_and_aux(transform, given):
    choice = {
        "argnums": {"argnums": 1},
        "argnames": {"argnames": "x"},
        "tuple": {"argnums": (0, 1)},
        "negative": {"argnums": -1},
    }[given]
    made = getattr(tg, transform)(pair, has_aux=True, **choice)
    out, aux = made(P, X, scale=2.0)
    if transform == "value_and_grad":
        (value, aux), out = out, aux
        np.testing.assert_allclose(value, np.sum(P["w"] * X**2) * 2.0)
    np.testing.assert_allclose(aux["sum"], np.sum(X))
    d_p, d_x = out if given == "tuple" else (None, out)
    np.testing.assert_allclose(d_x, 4.0 * P["w"] * X)
    if d_p is not None:
        np.testing.assert_allclose(d_p["w"], 2.0 * X**2)


def test_a_keyword_is_differentiated_by_name():
    f = lambda x, *, scale: np.sum(x**2) * scale
    np.testing.assert_allclose(tg.grad(f, argnames="scale")(X, scale=2.0), np.sum(X**2))
    both = tg.jacrev(f, argnames=("x", "scale"))(X, scale=2.0)
    np.testing.assert_allclose(both[0], 4.0 * X)
    np.testing.assert_allclose(both[1], np.sum(X**2))


# ------------------------------------------------------ no perturbation is confused
def derivative(mode):
    """The derivative of a function of one number, by one of four ways."""
    return {
        "grad": lambda f: tg.grad(f),
        "jvp": lambda f: lambda x: tg.jvp(f, (x,), (1.0,))[1],
        "vjp": lambda f: lambda x: tg.vjp(f, x)[1](1.0)[0],
        "linearize": lambda f: lambda x: tg.linearize(f, x)[1](1.0),
        "jacfwd": lambda f: tg.jacfwd(f),
        "jacrev": lambda f: tg.jacrev(f),
    }[mode]


MODES = ["grad", "jvp", "vjp", "linearize", "jacfwd", "jacrev"]


@pytest.mark.parametrize("inner", MODES)
@pytest.mark.parametrize("outer", MODES)
def test_the_outer_variable_is_constant_inside(outer, inner):
    d, e = derivative(outer), derivative(inner)
    # d/dx x * (d/dy (x + y) at 1) = 1: confusing both gives 2.
    assert d(lambda x: x * e(lambda y: x + y)(1.0))(3.0) == pytest.approx(1.0)
    # d/dx x * (d/dy x * y at x) = d/dx x * x.
    assert d(lambda x: x * e(lambda y: x * y)(x))(3.0) == pytest.approx(6.0)
    # d/dx (d/dy x * y * y at 2 x) = d/dx 4 x^2.
    assert d(lambda x: e(lambda y: x * y * y)(2.0 * x))(3.0) == pytest.approx(24.0)
    # Three deep: d/dx d/dy (y * d/dz (x y z) at y) at x = d/dx d/dy x y^2 = d/dx 2 x^2.
    three = lambda x: e(lambda y: y * d(lambda z: x * y * z)(y))(x)
    assert d(three)(3.0) == pytest.approx(12.0)


@pytest.mark.parametrize("inner", MODES)
def test_a_batch_of_outer_variables_is_constant_inside(inner):
    e = derivative(inner)
    f = lambda x: x * e(lambda y: x * y * y)(x)
    np.testing.assert_allclose(tg.vmap(f)(X), 2.0 * X**3)
    np.testing.assert_allclose(tg.vmap(tg.grad(f))(X), 6.0 * X**2)
    total = lambda x: np.sum(tg.vmap(lambda s: e(lambda y: s * x[0] * y)(1.0))(x))
    np.testing.assert_allclose(
        tg.grad(total)(X), [2 * X[0] + X[1] + X[2], X[0], X[0]], rtol=1e-12
    )


def test_a_product_of_the_outer_with_an_inner_hessian():
    f = lambda a: np.sum(tg.hvp(lambda y: np.sum(a * y**3), (a,), (a,)))
    np.testing.assert_allclose(f(X), np.sum(6.0 * X**3))
    np.testing.assert_allclose(tg.grad(f)(X), 18.0 * X**2)
    h = lambda a: np.sum(tg.hessian(lambda y: np.sum(a * y**3))(a) @ a)
    np.testing.assert_allclose(tg.jvp(h, (X,), (T,))[1], np.sum(18.0 * X**2 * T))


@dataclasses.dataclass
class Weights:
    w: Any
    b: Any = None


@pytest.mark.parametrize(
    ("hold", "take"),
    [
        (lambda x: x, lambda s: s),
        (lambda x: [x, 2], lambda s: s[0]),
        (lambda x: ({"a": x, "b": None, "name": "w"},), lambda s: s[0]["a"]),
        (Weights, lambda s: s.w),
    ],
)
def test_gradients_stop_in_structures(hold, take):
    """A structure of arrays is as constant as an array."""
    f = lambda x: np.sum(x * take(tg.stop_gradient(hold(x * 2.0))))
    x = np.array([0.3, -1.2])
    np.testing.assert_allclose(tg.grad(f)(x), 2.0 * x)
    np.testing.assert_allclose(tg.hvp(f, (x,), (x,)), 2.0 * x * 0.0)
    np.testing.assert_array_equal(take(tg.stop_gradient(hold(x))), x)


def test_what_may_hide_an_array_is_refused():
    class Box:
        def __init__(self, x):
            self.x = x

    with pytest.raises(tg.ArgumentError, match="a Box is neither"):
        tg.grad(lambda x: np.sum(tg.stop_gradient(Box(x)).x))(np.ones(2))
    with pytest.raises(tg.ArgumentError, match="a set is neither"):
        tg.grad(lambda x: np.sum(x) + len(tg.stop_gradient({x.shape})))(np.ones(2))
