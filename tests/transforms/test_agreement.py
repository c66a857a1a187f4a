"""Every transformation, of ten functions, in each dtype that it takes, against JAX."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from transforms import oracle
from transforms.functions import CASES, point, tolerance

import tracegrad as tg

DTYPES = ["float32", "float64", "complex64", "complex128"]


def scalar(case, np_):
    """The function, made to return one number."""
    if case.scalar:
        return lambda x: case.f(np_, x)
    return lambda x: np_.sum(np_.sin(case.f(np_, x)))


def options(x):
    return {"holomorphic": True} if x.dtype.kind == "c" else {}


# Each takes a library of transformations, a NumPy, a case, a point and a direction.
def grad(of, np_, case, x, t):
    return of.grad(scalar(case, np_), **options(x))(x)


def value_and_grad(of, np_, case, x, t):
    return of.value_and_grad(scalar(case, np_), **options(x))(x)


def vjp(of, np_, case, x, t):
    out, pullback = of.vjp(lambda x: case.f(np_, x), x)
    return out, pullback(np_.asarray(np_.cos(np_.real(out)), dtype=out.dtype))[0]


def jvp(of, np_, case, x, t):
    return of.jvp(lambda x: case.f(np_, x), (x,), (t,))


def linearize(of, np_, case, x, t):
    out, f_jvp = of.linearize(lambda x: case.f(np_, x), x)
    return out, f_jvp(t), f_jvp(x)


def linear_transpose(of, np_, case, x, t):
    """Of the derivative at `t`, which is linear, whatever the function."""
    out, f_jvp = of.linearize(lambda x: case.f(np_, x), t)
    if of is tg:  # from outside, a linearization is a finished program
        f_jvp = lambda v: tg.jvp(lambda x: case.f(np_, x), (t,), (v,))[1]
    return of.linear_transpose(f_jvp, x)(np_.ones_like(out))[0]


def jacrev(of, np_, case, x, t):
    return of.jacrev(lambda x: case.f(np_, x), **options(x))(x)


def jacfwd(of, np_, case, x, t):
    return of.jacfwd(lambda x: case.f(np_, x), **options(x))(x)


def hessian(of, np_, case, x, t):
    return of.hessian(lambda x: case.f(np_, x), **options(x))(x)


def hvp(of, np_, case, x, t):
    return of.hvp(scalar(case, np_), (x,), (t,))


def vhp(of, np_, case, x, t):
    return of.vhp(scalar(case, np_), (x,), (t,))


def elementwise_grad(of, np_, case, x, t):
    return of.elementwise_grad(lambda x: x * scalar(case, np_)(x))(x)


def vmap(of, np_, case, x, t):
    return of.vmap(lambda x: case.f(np_, x))(np_.stack([x, t, x * t]))


def vmap_of_grad(of, np_, case, x, t):
    g = of.grad(scalar(case, np_), **options(x))
    return of.vmap(g, in_axes=1, out_axes=1)(np_.stack([x, t], axis=1))


def checkpoint(of, np_, case, x, t):
    block = of.checkpoint(lambda x: case.f(np_, x))
    total = lambda x: np_.sum(block(np_.sin(x)) * block(x))
    return of.grad(total, **options(x))(x)


def stop_gradient(of, np_, case, x, t):
    f = lambda x: np_.sum(case.f(np_, x) * of.stop_gradient(case.f(np_, x * x)))
    return of.grad(f, **options(x))(x)


def custom_vjp(of, np_, case, x, t):
    f = of.custom_vjp(lambda x: case.f(np_, x))
    f.defvjp(
        lambda x: (case.f(np_, x), np_.cos(x)),
        lambda cosine, ct: ((3.0 * cosine * np_.sum(ct)).astype(cosine.dtype),),
    )
    total = lambda x: np_.sum(f(np_.sin(x)) ** 2)
    return of.grad(total, **options(x))(x)


def custom_jvp(of, np_, case, x, t):
    f = of.custom_jvp(lambda x: case.f(np_, x))

    @f.defjvp
    def rule(primals, tangents):
        out = case.f(np_, primals[0])
        return out, out * np_.sum(tangents[0] * np_.cos(primals[0]))

    total = lambda x: np_.sum(f(np_.sin(x)) ** 2)
    return of.jvp(total, (x,), (t,))[1], of.grad(total, **options(x))(x)


TRANSFORMS = [
    grad,
    value_and_grad,
    vjp,
    jvp,
    linearize,
    linear_transpose,
    jacrev,
    jacfwd,
    hessian,
    hvp,
    vhp,
    elementwise_grad,
    vmap,
    vmap_of_grad,
    checkpoint,
    stop_gradient,
    custom_vjp,
    custom_jvp,
]
REAL_ONLY = [hvp, vhp, elementwise_grad]


def agree(transform, name, dtype):
    case = CASES[name]
    x, t = point(case, dtype), point(case, dtype, 1)
    got = transform(tg, np, case, x, t)
    want = transform(oracle, jnp, case, x, t)
    a, b = jax.tree_util.tree_flatten(got), jax.tree_util.tree_flatten(want)
    assert a[1] == b[1]
    for have, expected in zip(a[0], b[0], strict=True):
        assert np.shape(have) == np.shape(expected)
        assert np.asarray(have).dtype == expected.dtype
        limits = tolerance(dtype)
        # Rounding is relative to the largest element, where terms cancel.
        limits["atol"] *= max(1.0, float(np.max(np.abs(expected), initial=0.0)))
        np.testing.assert_allclose(have, expected, **limits)


def means_something(transform, name, dtype):
    complex_ = np.dtype(dtype).kind == "c"
    return not complex_ or (transform not in REAL_ONLY and CASES[name].holomorphic)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_float64(transform):
    agree(transform, "outer", "float64")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_all(transform, dtype):
    names = [name for name in CASES if means_something(transform, name, dtype)]
    if not names:
        pytest.skip(f"{transform.__name__} is of real functions")
    for name in names:
        agree(transform, name, dtype)


# ------------------------------------------------------------------------------- orders
def along(of, np_, mode, f, t):
    """The derivative of a function of one array along `t`, by either mode."""
    if mode == "f":
        return lambda x: of.jvp(f, (x,), (t,))[1]
    return lambda x: np_.sum(of.grad(f)(x) * t)


def check_orders(name, modes_of_order):
    case = CASES[name]
    points = [point(case, "float64", seed) for seed in range(5)]
    x, directions = points[0], points[1:]
    want = scalar(case, jnp)
    for order, t in enumerate(directions, 1):
        want = along(oracle, jnp, "f", want, t)
        expected = float(want(x))
        for modes in modes_of_order(order):
            got = scalar(case, np)
            for mode, u in zip(modes, directions, strict=False):
                got = along(tg, np, mode, got, u)
            np.testing.assert_allclose(got(x), expected, rtol=1e-9, atol=1e-9)


def test_orders():
    check_orders("ratio", lambda n: ["frfr"[:n], "rrff"[:n]])


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_orders_one_to_four_in_all_mixtures_of_modes(name):
    mixtures = lambda n: ["".join(m) for m in itertools.product("fr", repeat=n)]
    check_orders(name, mixtures)
