"""Plain `if`s in the bodies of branches and loops."""

import numpy as np
import pytest
from control.test_derivatives import slope

import tracegrad as tg

X = np.array([0.5, -0.3])
Y = np.linspace(-1.13, 1.21, 12).reshape(6, 2)


def two_in_a_row(x, y):
    def step(h, row):
        if h.sum() > row.sum():
            z = np.tanh(h * row)
        else:
            z = h - row
        z = z * 2.0
        if z[0] > 0.1:
            z = z * z
        return z, np.cos(z[0])

    h, ys = tg.scan(step, x, y)
    return (h * h).sum() + ys.sum()


def early_return(x, y):
    def relu(v):
        if v > 0:
            return v
        return 0.1 * v

    return tg.fori_loop(0, 5, lambda i, t: t * x[0] + relu(y[i, 0] - t), x[1])


def both_hold(x, y):
    def step(i, h):
        if i > 1 and h.sum() > -2.0:
            h = h * y[i]
        return np.sin(h) + x

    return tg.fori_loop(0, 6, step, x).sum()


def by_parity(x, y):
    def step(i, out):
        if i % 2 == 0:
            out[i] = x[0] * y[i, 0]
        elif y[i, 1] > 0.0:
            out[i] += np.sin(x[1])
        return out

    return (tg.fori_loop(0, 6, step, np.ones(6)) ** 2).sum()


def nested_bodies(x, y):
    def outer(h, row):
        def turn(q):
            if q[0] > q[1]:
                q = q * 1.5
            return q * 2.0 + row

        big = tg.while_loop(lambda q: (q * q).sum() < 4.0, turn, h)
        if big.sum() > 0.0:
            big = -big
        return np.tanh(big * x), big[0]

    h, firsts = tg.scan(outer, x, y)
    return h.sum() + (firsts**2).sum()


def largest(x, y):
    def step(top, row):
        return max(top, row[0] * x[0], row[1]), min(row)

    top, least = tg.scan(step, x[1], y)
    return top * x[1] + least.sum()


def with_a_clip(x, y):
    def clip(v):
        if v < -0.5:
            return -0.5
        if v > 0.5:
            return 0.5
        return v

    return tg.map(lambda row: clip(row[0] * x[0]) + x[1] * row[1], y).sum()


def not_a_truth(x, y):
    def step(n, row):
        if n:
            return n - 1, row.sum() * x[0]
        return 3, x.sum()

    return tg.scan(step, 2, y)[1].sum()


def in_a_branch(x, y):
    def taken(a):
        if a[0] > 0.0:
            return a * y[0]
        return np.exp(a)

    return tg.cond(x.sum() > 0, taken, lambda a: a - 1.0, x).sum()


PROGRAMS = [
    two_in_a_row,
    early_return,
    both_hold,
    by_parity,
    nested_bodies,
    largest,
    with_a_clip,
    not_a_truth,
    in_a_branch,
]
NAMES = lambda program: program.__name__


@pytest.mark.parametrize("program", PROGRAMS, ids=NAMES)
def test_value_and_gradient(program) -> None:
    g = tg.value_and_grad(program, argnums=(0, 1))
    for x in (X, X[::-1].copy(), -X):
        value, grads = g(x, Y)
        np.testing.assert_allclose(value, program(x, Y), rtol=1e-14)
        for i, found in enumerate(grads):
            want = slope(program, x, Y, i)
            np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)
    assert len(g.specializations()) == 1


@pytest.mark.parametrize(
    "program", [p for p in PROGRAMS if p is not nested_bodies], ids=NAMES
)
def test_jax(program) -> None:
    value, grads = tg.value_and_grad(program, (0, 1), backend="jax")(X, Y)
    want = tg.value_and_grad(program, (0, 1))(X, Y)
    np.testing.assert_allclose(value, want[0])
    for a, b in zip(grads, want[1], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.parametrize("program", PROGRAMS, ids=NAMES)
def test_transformations(program) -> None:
    g = tg.grad(program)
    t = np.array([0.7, -1.1])
    _, t_out = tg.jvp(program, (X, Y), (t, 0.0 * Y))
    np.testing.assert_allclose(t_out, g(X, Y) @ t, atol=1e-12)
    batch = np.stack([X, -X, X[::-1]])
    mapped = tg.vmap(g, in_axes=(0, None))(batch, Y)
    np.testing.assert_allclose(mapped, [g(x, Y) for x in batch], atol=1e-12)
    found = tg.hessian(program)(X, Y) @ t
    want = (g(X + 1e-6 * t, Y) - g(X - 1e-6 * t, Y)) / 2e-6
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


def test_types_alone_are_enough() -> None:
    text = str(tg.grad(two_in_a_row).source(tg.spec("f8[2]"), tg.spec("f8[n, 2]")))
    assert "if greater:" in text or "if np.sum(h) > np.sum(row):" in text


def test_what_all_ways_do_is_written_once() -> None:
    def function(x, y):
        def step(h, row):
            for k in range(4):
                h = h * row if h[0] > 0.1 * k else h + row
            return np.exp(-h * h), None

        return tg.scan(step, x, y)[0].sum()

    text = str(tg.compile(function).source(X, Y))
    assert text.count("np.exp") == 1
    assert text.count("if ") == 4


def _while(x):
    def step(i, h):
        while h < 10.0:
            h = h * 2.0
        return h

    return tg.fori_loop(0, 3, step, x)


def _shapes(x):
    return tg.map(lambda v: np.ones(2) if v > 0 else np.ones(3), x[None])


def _structures(x):
    return tg.map(lambda v: (v, v) if v > 0 else v, x[None])


def _raises(x):
    def step(i, h):
        if h > 100.0:
            raise OverflowError("too large")
        return h * 2.0

    return tg.fori_loop(0, 3, step, x)


def _asserts(x):
    def step(i, h):
        assert h > 0.0
        return h * 2.0

    return tg.fori_loop(0, 3, step, x)


def _counts(x):
    return tg.fori_loop(0, 3, lambda i, h: h * [1.0, 2.0, 3.0][int(i)], x)


def _inner_gradient(x):
    slope_of = tg.grad(lambda v: v * v if v > 0 else -v)
    return tg.fori_loop(0, 3, lambda i, h: h + slope_of(h), x)


@pytest.mark.parametrize(
    ("function", "error", "parts"),
    [
        (_while, tg.ControlFlowError, "again and again.*tg.while_loop for a `while`"),
        (_shapes, tg.ShapeError, r"ways through the `if`.*f8\[2\] and f8\[3\]"),
        (_structures, tg.ArgumentError, "different structures"),
        (_raises, tg.ControlFlowError, "raises OverflowError: too large.*fix: raise"),
        (_asserts, tg.ControlFlowError, "raises AssertionError.*fix: raise before"),
        (_counts, tg.ControlFlowError, "asked for a number.*tg.switch"),
        (_inner_gradient, tg.ControlFlowError, "differentiated inside.*tg.cond"),
    ],
)
def test_refused(function, error, parts) -> None:
    with pytest.raises(error, match=f"(?s){parts}") as raised:
        tg.compile(function)(1.0)
    assert "test_forks.py" in str(raised.value)


def test_arrays_have_no_truth() -> None:
    def function(x):
        return tg.fori_loop(0, 2, lambda i, h: h if h > 0 else -h, x)

    with pytest.raises(ValueError, match=r"a\.any\(\)"):
        tg.compile(function)(X)


def test_an_array_that_a_branch_hands_on_is_not_written() -> None:
    def function(x, y):
        def step(i, carry):
            a, b = carry
            b = a if a[0] > 1.0 else b
            c = a.copy()
            c[1] += y[i, 0] * b[0]
            return c, b

        a, b = tg.fori_loop(0, 4, step, (x * 3.0, x))
        return np.sum(a * b)

    for x in (X, -X):
        value, grad = tg.value_and_grad(function)(x, Y)
        np.testing.assert_allclose(value, function(x, Y))
        np.testing.assert_allclose(grad, slope(function, x, Y, 0), atol=1e-7)


@pytest.mark.parametrize("c", [0.3, 1.2])
@pytest.mark.parametrize(
    "narrowed",
    [
        lambda c: np.real(np.exp(1j * c)),
        lambda c: -np.real(np.exp(1j * c)),
        lambda c: np.abs(np.exp(1j * c) + c) - 1.0,
    ],
)
def test_a_cotangent_that_a_branch_leaves_zero_is_cast(narrowed, c) -> None:
    def f(x, c):
        t = narrowed(c)
        return np.sin(min(t, x[0]) if x[1] > 0 else max(t, 0.5))

    for x in np.array([[0.7, 1.0], [0.7, -1.0], [-3.0, 1.0], [9.0, 1.0]]):
        value, (d_x, d_c) = tg.value_and_grad(f, argnums=(0, 1))(x, c)
        np.testing.assert_allclose(value, f(x, c), rtol=1e-12)
        step = (f(x, c + 1e-6) - f(x, c - 1e-6)) / 2e-6
        np.testing.assert_allclose(d_c, step, rtol=1e-6, atol=1e-9)
        step = (f(x + [1e-6, 0], c) - f(x - [1e-6, 0], c)) / 2e-6
        np.testing.assert_allclose(d_x, [step, 0.0], rtol=1e-6, atol=1e-9)
