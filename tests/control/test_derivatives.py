"""Values, gradients and second derivatives, against JAX and central differences."""

import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from control.programs import (
    BOUNDED,
    UNBOUNDED,
    X,
    Y,
    choice,
    nested,
    recurrence,
    scan_in_scan,
)

import tracegrad as tg

jax.config.update("jax_enable_x64", True)
NAMES = lambda program: program.__name__


def of(program):
    """The program as a NumPy function."""

    def function(x, y):
        return program(tg, np, x, y)

    return function


def slope(function, x, y, which):
    """The gradient by central differences."""
    args = [x, y]
    found = np.zeros_like(args[which])
    for at in np.ndindex(found.shape):
        values = []
        for step in (1e-6, -1e-6):
            moved = [a.copy() for a in args]
            moved[which][at] += step
            values.append(function(*moved))
        found[at] = (values[0] - values[1]) / 2e-6
    return found


@pytest.mark.parametrize("program", BOUNDED, ids=NAMES)
def test_against_jax(program) -> None:
    want = jax.value_and_grad(lambda x, y: program(jax.lax, jnp, x, y), (0, 1))(X, Y)
    function = of(program)
    np.testing.assert_allclose(function(X, Y), want[0])  # on plain arrays
    np.testing.assert_allclose(tg.compile(function)(X, Y), want[0])
    for backend in ("numpy", "jax"):
        found = tg.value_and_grad(function, argnums=(0, 1), backend=backend)(X, Y)
        np.testing.assert_allclose(found[0], want[0])
        for mine, theirs in zip(found[1], want[1], strict=True):
            np.testing.assert_allclose(mine, theirs, atol=1e-12)


@pytest.mark.parametrize("program", UNBOUNDED, ids=NAMES)
def test_unbounded(program) -> None:
    function = of(program)
    value, grads = tg.value_and_grad(function, argnums=(0, 1))(X, Y)
    np.testing.assert_allclose(value, program(jax.lax, jnp, X, Y))
    np.testing.assert_allclose(value, function(X, Y))
    for i, found in enumerate(grads):
        want = slope(function, X, Y, i)
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("program", BOUNDED + UNBOUNDED, ids=NAMES)
def test_second_order(program) -> None:
    first = tg.grad(of(program), argnums=(0, 1))

    def size(x, y):
        dx, dy = first(x, y)
        return (dx * dx).sum() + np.sin(dy).sum()

    found = tg.grad(size, argnums=(0, 1))(X, Y)
    for i in range(2):
        want = slope(size, X, Y, i)
        np.testing.assert_allclose(found[i], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("program", BOUNDED + UNBOUNDED, ids=NAMES)
def test_pullback_may_run_twice(program) -> None:
    x, y = X.copy(), Y.copy()
    _, pullback = tg.vjp(of(program), x, y)
    first, second = pullback(1.0), pullback(2.0)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(2.0 * a, b)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(y, Y)


def test_segments() -> None:
    def function(x, y, checkpoint=None, reverse=False):
        def step(h, row):
            h = np.tanh(h * x + row)
            return h, np.sin(h) * row

        xs = np.concatenate([y, y * 0.5, y * 0.3, y[:1]])
        h, ys = tg.scan(step, x, xs, checkpoint=checkpoint, reverse=reverse)
        return h.sum() + (ys * np.arange(10.0)[:, None]).sum()

    def run(checkpoint, reverse):
        fixed = lambda x, y: function(x, y, checkpoint, reverse)
        return tg.value_and_grad(fixed, (0, 1))(X, Y)

    for reverse in (False, True):
        plain, saved = run(None, reverse), run("sqrt", reverse)
        np.testing.assert_allclose(plain[0], saved[0])
        for a, b in zip(plain[1], saved[1], strict=True):
            np.testing.assert_allclose(a, b)


def test_arrays_written_by_turns() -> None:
    def function(x, y):
        def step(i, out):
            out[i] = out[i - 1] * x[0] + y[i, 0]
            return out

        return (tg.fori_loop(1, 3, step, np.zeros(3) + x[1]) ** 2).sum()

    for i in range(2):
        found = tg.grad(function, argnums=i)(X, Y)
        np.testing.assert_allclose(found, slope(function, X, Y, i), atol=1e-6)
    start = np.ones(3)
    step = lambda i, out: _written(out, i)
    tg.fori_loop(0, 3, step, start)
    np.testing.assert_array_equal(start, np.ones(3))


def _written(out, i):
    out[i] = 0.0
    return out


def test_float32_stays() -> None:
    def function(x, y):
        start = (x.sum(), 0.0)
        turn = lambda i, c: (c[0] * y[i, 0] + 0.5, c[1] + c[0] * x[0])
        return sum(tg.fori_loop(0, 3, turn, start))

    x, y = X.astype("f4"), Y.astype("f4")
    value, (dx, dy) = tg.value_and_grad(function, argnums=(0, 1))(x, y)
    assert value.dtype == dx.dtype == dy.dtype == np.float32
    np.testing.assert_allclose(dx, slope(function, X, Y, 0), rtol=1e-4)


def test_results_share_no_memory() -> None:
    function = tg.compile(
        lambda x, n: tg.while_loop(lambda q: (q * q).sum() < n, lambda q: q * 2.0, x)
    )
    x = np.array([1.0, 2.0])
    out = function(x, 1.0)  # no turn at all
    assert not np.shares_memory(out, x)
    chosen = tg.compile(lambda x: tg.cond(x.sum() > 0, lambda: x, lambda: -x))
    assert not np.shares_memory(chosen(x), x)


def test_new_sizes_run_the_same_program() -> None:
    def function(x, y):
        return tg.scan(lambda h, row: (np.tanh(h + row), None), x, y)[0].sum()

    g = tg.grad(function, argnums=1)
    for n in (3, 4, 5, 6):
        y = np.linspace(0.0, 1.0, 2 * n).reshape(n, 2)
        want = jax.grad(
            lambda y: jax.lax.scan(lambda h, r: (jnp.tanh(h + r), None), X, y)[0].sum()
        )(y)
        np.testing.assert_allclose(g(X, y), want)
    assert len(g.specializations()) <= 2


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_carry_in_the_variable_of_an_argument(backend) -> None:
    def function(state, w):
        turn = lambda t, state: np.tanh(state @ w + t)
        return np.sum(tg.fori_loop(0, 3, turn, state) ** 2)

    w = np.array([[0.1, 0.2], [0.3, 0.4]])
    found = tg.grad(function, argnums=(0, 1), backend=backend)(X, w)
    for i in range(2):
        np.testing.assert_allclose(found[i], slope(function, X, w, i), atol=1e-6)


def test_segments_save_memory() -> None:
    def function(x, checkpoint):
        def step(h, _):
            for _ in range(4):
                h = np.sin(h) * 1.1
            return h, None

        return np.sum(tg.scan(step, x, None, length=400, checkpoint=checkpoint)[0])

    x = np.linspace(0.1, 1.0, 2000)
    peaks, grads = [], []
    for checkpoint in (None, "sqrt"):
        fixed = lambda x, checkpoint=checkpoint: function(x, checkpoint)
        g = tg.grad(fixed)
        g(x)
        tracemalloc.start()
        grads.append(g(x))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    np.testing.assert_allclose(*grads, rtol=1e-12)
    assert peaks[1] < 0.15 * peaks[0]


@pytest.mark.parametrize(
    "program", [nested, scan_in_scan, recurrence, choice], ids=NAMES
)
def test_hessians_against_jax(program) -> None:
    """Forward over reverse, through nests."""
    want = jax.hessian(lambda x: program(jax.lax, jnp, x, Y))(X)
    function = lambda x: program(tg, np, x, rows_of(x))
    np.testing.assert_allclose(tg.hessian(function)(X), want, atol=1e-10)
    rows = tg.jacfwd(tg.grad(function))(X)
    np.testing.assert_allclose(rows, want, atol=1e-10)
    batch = np.stack([X, -X])
    mapped = tg.vmap(tg.grad(function))(batch)
    one = [tg.grad(function)(x) for x in batch]
    np.testing.assert_allclose(mapped, one, atol=1e-12)


def rows_of(x):
    """The matrix as a traced value, whose rows a traced counter may choose."""
    return Y + 0.0 * x
