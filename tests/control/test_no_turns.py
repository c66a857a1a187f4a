"""Loops that make no turn, in batches of first and second derivatives."""

import numpy as np
import pytest

import tracegrad as tg

X = np.array([[0.2, 0.3], [1.2, 0.5], [0.3, 0.4]])
W = np.array([[0.3, -0.2], [0.1, 0.4]])


def numbers(x, n):
    a, b, i = x[0] * x[1], x[1] ** 2, 0
    while i < n:
        a, b, i = np.sin(a) * b + x[0], np.exp(-b * b) * a, i + 1
    return a * b


def carried(x, n):
    def body(c):
        a, b, i = c
        return np.sin(a) * b + x[0], np.exp(-b * b) * a, i + 1

    a, b, _ = tg.while_loop(lambda c: c[2] < n, body, (x[0] * x[1], x[1] ** 2, 0))
    return a * b


def vectors(x, n):
    y, i = x * x, 0
    while i < n:
        y = np.tanh(W @ y) * y[::-1]
        i += 1
    return np.sum(y * y) + x[0] * x[1]


def branching(x, n):
    y, i = x * x, 0
    while i < n:
        if y[0] > 0.1:
            y = np.sin(W @ y)
        else:
            y = y * x
        i += 1
    return np.sum(y**3)


def inner(x, n):
    s, i = x[0], 0
    while i < n:
        r, j = s, 0
        while j < i:
            r = np.sin(r) * x[1]
            j += 1
        s = s + r * x[0]
        i += 1
    return s * s * x[1]


PROGRAMS = [numbers, carried, vectors, branching, inner]
TIMES = [2, 0, 1]


def squared_slope(f):
    return lambda x, n: np.sum(tg.grad(f)(x, n) ** 2)


SECOND = {
    "hessian": tg.hessian,
    "jacobian of grad": lambda f: tg.jacobian(tg.grad(f)),
    "jacfwd of grad": lambda f: tg.jacfwd(tg.grad(f)),
    "grad of a gradient": lambda f: tg.grad(squared_slope(f)),
    "jacrev of jacrev": lambda f: tg.jacrev(tg.jacrev(f)),
    "jacrev of jacfwd": lambda f: tg.jacrev(tg.jacfwd(f)),
}


def differences(f, x, h=1e-5):
    """Central differences of the first derivative, which other tests check."""
    slope = tg.grad(f)
    steps = np.eye(len(x)) * h
    columns = [(slope(x + e) - slope(x - e)) / (2 * h) for e in steps]
    return np.stack(columns, axis=-1)


def by_differences(f, name, x, n):
    matrix = differences(lambda y: f(y, n), x)
    if name == "grad of a gradient":
        return 2 * matrix @ tg.grad(f)(x, n)
    return matrix


@pytest.mark.parametrize("name", SECOND)
@pytest.mark.parametrize("f", PROGRAMS)
def test_batches_of_second_derivatives(f, name):
    batched = tg.vmap(SECOND[name](f), in_axes=(0, None))
    for n in TIMES:
        found = batched(X, np.int64(n))
        expected = [by_differences(f, name, x, np.int64(n)) for x in X]
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("f", PROGRAMS)
def test_second_derivatives_of_batches(f):
    def total(xs, n):
        return np.sum(tg.vmap(f, in_axes=(0, None))(xs, n))

    found = tg.hessian(total)
    for n in TIMES:
        made = found(X, np.int64(n))
        for i, x in enumerate(X):
            expected = by_differences(f, "hessian", x, np.int64(n))
            np.testing.assert_allclose(made[i, :, i], expected, rtol=1e-6, atol=1e-8)
        made[range(3), :, range(3)] = 0.0
        assert not made.any()


def test_a_batch_of_loops_is_not_written_out():
    """The stacks that the loops add to keep their turns first."""
    batched = tg.vmap(SECOND["grad of a gradient"](numbers), in_axes=(0, None))
    batched(X, np.int64(2))
    assert "has no batched form" not in str(batched.source())
