"""Carries that share a variable with what they were: nothing reads it too late.

A carry takes the variable of its first value, and its next value that of the carry, as
soon as nothing else reads them.  These programs read them once more.
"""

import numpy as np
import pytest

import tracegrad as tg

X = np.array([0.5, -1.2, 2.0])


def kept_before_the_update(x):
    """The list keeps `c` as a branch left it, not as the turn leaves it."""
    kept = []
    c = x[0]
    for t in x:
        if t > 0:
            c = c * t
        kept.append(c)
        c = c + 1.0
    return np.sum(np.array(kept) ** 2)


def scanned_before_the_update(x):
    def step(c, t):
        if c > t:
            c = c * t
        return c + 1.0, c

    return np.sum(tg.scan(step, x[0], x)[1] ** 2)


def branch_before_the_update(x):
    def step(c, t):
        c = tg.cond(c > t, lambda c: c * t, lambda c: c, c)
        return c + 1.0, c

    return np.sum(tg.scan(step, x[0], x)[1] ** 2)


def two_branches_before_the_update(x):
    def step(c, t):
        if c > t:
            c = c * t
        if c < 0.0:
            c = c - t
        return c + 1.0, c * t

    return np.sum(tg.scan(step, x[0], x)[1] ** 2)


def first_values_of_each_other(x):
    """The inner loop starts from both outer carries: together, not one by one."""

    def outer(i, carry):
        a, b = carry
        start = (a * np.sin(x), b * np.cos(x) + a)
        return tg.fori_loop(0, 2, lambda j, v: (v[0] * 0.6, v[1] * 0.7), start)

    a, b = tg.fori_loop(0, 3, outer, (x, x))
    return np.sum(a * b)


def first_values_of_a_while(x):
    def outer(i, carry):
        a, b = carry
        return tg.while_loop(
            lambda v: np.sum(v[0] ** 2) > 0.1,
            lambda v: (v[0] * 0.5, v[1] * 0.7 + v[0]),
            (a * x, b * x + a),
        )

    a, b = tg.fori_loop(0, 3, outer, (x, x))
    return np.sum(a * b + b)


def nested(x):
    def turn(i, v):
        return tg.fori_loop(0, 2, lambda j, v: np.tanh(v), v * x)

    return np.sum(tg.fori_loop(0, 2, turn, x))


def nested_in_scan(x):
    def step(v, t):
        v = tg.fori_loop(0, 2, lambda j, u: u * 0.7, v)
        return v * x, v

    return np.sum(tg.scan(step, x, x)[0])


PROGRAMS = [
    kept_before_the_update,
    scanned_before_the_update,
    branch_before_the_update,
    two_branches_before_the_update,
    first_values_of_each_other,
    first_values_of_a_while,
    nested,
    nested_in_scan,
]


def differences(f, x, step):
    rows = [(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(len(x))]
    return np.stack(rows, axis=-1)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_value_and_derivatives(f) -> None:
    np.testing.assert_allclose(tg.compile(f)(X), f(X), rtol=1e-12)
    gradient = tg.grad(f)
    slope = gradient(X)
    np.testing.assert_allclose(slope, differences(f, X, 1e-6), rtol=1e-6, atol=1e-8)
    hessian = differences(gradient, X, 1e-6)
    for second in (tg.hessian(f), tg.jacfwd(gradient), tg.jacrev(gradient)):
        np.testing.assert_allclose(second(X), hessian, rtol=1e-5, atol=1e-6)
    direction = np.array([0.1, 0.2, -0.4])
    product = tg.hvp(f, (X,), (direction,))
    np.testing.assert_allclose(product, hessian @ direction, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("f", PROGRAMS[4:], ids=lambda f: f.__name__)
def test_batches(f) -> None:
    rows = np.stack([X, 0.3 * X])
    wanted = np.stack([tg.grad(f)(x) for x in rows])
    np.testing.assert_allclose(tg.vmap(tg.grad(f))(rows), wanted, rtol=1e-10)


def counted_apart(x):
    v = x
    while np.sum(v) > 1.0:
        v = np.tanh(v)
    return np.sum(v)


def test_an_array_with_a_row_for_each_turn() -> None:
    """Its size, which nothing tells before the loop, has a variable."""
    gradient = tg.grad(counted_apart)
    hessian = differences(gradient, X, 1e-6)
    for second in (tg.jacrev(gradient), tg.jacrev(tg.jacrev(counted_apart))):
        np.testing.assert_allclose(second(X), hessian, rtol=1e-5, atol=1e-8)
