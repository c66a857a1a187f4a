"""What a loop saves of a turn is what it was in that turn, before or after it.

The carries of these bodies are swapped, unused, the same as another carry, an argument
or a constant, written in place, or of another dtype in the end.  Each body runs in each
kind of loop; the derivatives are beside central differences of the function itself.
"""

import numpy as np
import pytest

import tracegrad as tg

X = np.array([0.4, -0.7, 1.1])


def swapped(x, a, b, t):
    return b * np.cos(a), a + 0.1 * t


def merely_swapped(x, a, b, t):
    return b, a


def swapped_and_used(x, a, b, t):
    product = np.sin(a) * b
    return b, 0.5 * a + product


def unused(x, a, b, t):
    return np.tanh(a * x + t), b


def unused_before(x, a, b, t):
    return np.tanh(b), np.sin(b * x)


def the_same_carry_twice(x, a, b, t):
    c = np.sin(a + b)
    return c, c


def an_argument(x, a, b, t):
    return x, a * b * x + np.sin(b)


def a_constant(x, a, b, t):
    return np.array([0.5, 0.25, -1.0]) * np.sin(b), a * b + np.cos(b)


def written_in_place(x, a, b, t):
    a = np.sin(a)
    a[0] = a[1] * b[2]
    b = b.copy()
    b[1:] *= a[:2]
    b += 0.1 * a
    return a, b


def added_to(x, a, b, t):
    a = np.sin(a + b * x)
    a += 0.5 * np.sin(a)
    return a, np.cos(b * a)


def bound_anew(x, a, b, t):
    a = np.sin(a)
    a = a * b
    a = a + np.cos(a)
    b = np.exp(-b) * a
    return a, b + x


def of_another_dtype(x, a, b, t):
    return np.float32(1.5) * a * x, np.sin(a) * b.astype(np.float64)


def in_branches(x, a, b, t):
    total = np.sum(a) + 0.0 * t
    a = tg.cond(total > 0.5, lambda: np.sin(a) * b, lambda: a * np.exp(b * 0.1))
    return a, b + 0.2 * a


def nested(x, a, b, t):
    def inner(j, carry):
        c, d = carry
        return 0.5 * np.sin(c) * d, np.tanh(c + 0.3 * d * a)

    c, d = tg.fori_loop(0, 3, inner, (a, b))
    return c * x, np.tanh(d)


def nested_while(x, a, b, t):
    c, d = tg.while_loop(
        lambda v: np.sum(v[0] ** 2) > 0.2,
        lambda v: (0.6 * np.sin(v[0]) * np.exp(-0.1 * v[1]), v[0] + 0.5 * v[1]),
        (a + 1.0, b),
    )
    return c + x, np.tanh(d)


def nested_in_a_branch(x, a, b, t):
    def several():
        def inner(j, carry):
            c, d = carry
            return np.sin(0.5 * c * d), 0.5 * d + np.tanh(c)

        return tg.fori_loop(0, 2, inner, (a, b))

    return tg.cond(np.sum(b) > 0.5, several, lambda: (np.cos(a), b * a))


BODIES = [
    swapped,
    merely_swapped,
    swapped_and_used,
    unused,
    unused_before,
    the_same_carry_twice,
    an_argument,
    a_constant,
    written_in_place,
    added_to,
    bound_anew,
    of_another_dtype,
    in_branches,
    nested,
    nested_while,
    nested_in_a_branch,
]


def python_for(body):
    def function(x):
        a, b = x, 0.5 * x
        for t in range(5):
            a, b = body(x, a, b, 0.1 * t)
        return np.sum(a * b) + np.sum(a)

    return function


def late_range(body):
    def function(x):
        carry = x, np.sin(x)
        step = lambda t, carry: body(x, *carry, 0.1 * t)
        a, b = tg.fori_loop(2, 6, step, carry)
        return np.sum(a * b) - np.sum(b)

    return function


def scan(**options):
    def loop(body):
        def function(x):
            def step(carry, t):
                a, b = body(x, *carry, t)
                return (a, b), a * b

            ts = np.linspace(0.0, 1.0, 4)
            (a, b), rows = tg.scan(step, (x, x), ts, **options)
            return np.sum(a) + np.sum(rows**2) + np.sum(b)

        return function

    return loop


def while_loop(body):
    def function(x):
        def step(carry):
            i, a, b = carry
            a, b = body(x, a, b, 0.1)
            return i + 1, a, b

        _, a, b = tg.while_loop(lambda carry: carry[0] < 4, step, (0, x, 0.4 * x))
        return np.sum(a * b) + np.sum(np.sin(a))

    return function


def no_turn(body):
    def function(x):
        step = lambda t, carry: body(x, *carry, 0.1 * t)
        a, b = tg.fori_loop(3, 3, step, (x, np.sin(x)))
        return np.sum(a * b)

    return function


LOOPS = {
    "for": python_for,
    "range": late_range,
    "scan": scan(),
    "reverse": scan(reverse=True),
    "sqrt": scan(checkpoint="sqrt"),
    "while": while_loop,
    "none": no_turn,
}


def slopes(function, x):
    """Central differences with Richardson's step, of any result."""

    def difference(step, h):
        ahead, behind = function(x + h * step), function(x - h * step)
        return (np.asarray(ahead) - np.asarray(behind)) / (2.0 * h)

    found = []
    for step in np.eye(len(x)):
        fine, rough = difference(step, 1e-4), difference(step, 2e-4)
        found.append((4.0 * fine - rough) / 3.0)
    return np.array(found)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_gradients(body, loop) -> None:
    function = LOOPS[loop](body)
    gradient = tg.grad(function)
    np.testing.assert_allclose(gradient(X), slopes(function, X), rtol=1e-7, atol=1e-8)
    value, pullback = tg.vjp(function, X)
    np.testing.assert_allclose(value, function(X), rtol=1e-12)
    first = pullback(1.0)[0]  # what is saved serves any number of calls
    np.testing.assert_allclose(pullback(-2.0)[0], -2.0 * first, rtol=1e-12)
    np.testing.assert_array_equal(pullback(1.0)[0], first)
    np.testing.assert_allclose(first, gradient(X), rtol=1e-12)


@pytest.mark.parametrize("loop", ["range", "reverse", "while"])
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_second_derivatives(body, loop) -> None:
    function = LOOPS[loop](body)
    gradient = tg.grad(function)
    wanted = slopes(gradient, X)
    v = np.array([0.3, -1.0, 0.7])
    found = tg.hvp(function, (X,), (v,))
    np.testing.assert_allclose(found, v @ wanted, rtol=1e-6, atol=1e-7)
    twice = tg.grad(lambda x: np.sum(gradient(x) * v))
    np.testing.assert_allclose(twice(X), v @ wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("body", BODIES[:12], ids=lambda body: body.__name__)
def test_batches(body) -> None:
    function = LOOPS["scan"](body)
    rows = np.stack([X, 0.5 * X, X[::-1]])
    found = tg.vmap(tg.grad(function))(rows)
    wanted = np.array([tg.grad(function)(row) for row in rows])
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
