"""Loops that fill lists and arrays: random programs, and what becomes of each list."""

import numpy as np
import pytest
from passes.filling import NUMBERS, ROWS, draw

import tracegrad as tg
from tracegrad.ops.control import for_loop
from tracegrad.runtime.compiled import Compiled
from tracegrad.runtime.options import Options

X = np.array([0.4, -0.7, 0.9, 0.3, 1.1, -0.2, 0.6, 0.8, -0.5])


def check(seed: int) -> bool:
    """Whether differences could judge the gradient, which was compared anyway."""
    program, text = draw(seed)
    want = program(X.copy(), 0.6)
    value, grads = tg.value_and_grad(program, (0, 1))(X, 0.6)
    assert value == want, text
    flat_value, flat = tg.value_and_grad(program, (0, 1), reroll=False)(X, 0.6)
    assert flat_value == want, text
    for a, b in zip(grads, flat, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12, err_msg=text)
    if seed % 5 == 0:
        check_transformed(program, text)
    if seed % 5 == 1:
        module = tg.value_and_grad(program, (0, 1)).source(X, 0.6).load()
        again, _ = module.program_value_and_grad(X, 0.6)
        assert again == want, text
    slope = grads[0] @ np.cos(X) + grads[1] * 0.3
    found = []
    for h in (1e-5, 1e-6):
        ahead = program(X + h * np.cos(X), 0.6 + 0.3 * h)
        behind = program(X - h * np.cos(X), 0.6 - 0.3 * h)
        found.append((ahead - behind) / (2.0 * h))
    if abs(found[0] - found[1]) > 1e-4 * (1.0 + abs(found[1])):
        return False
    np.testing.assert_allclose(slope, found[1], rtol=1e-4, atol=1e-4, err_msg=text)
    return True


def check_transformed(program, text: str) -> None:
    """Tangents, second derivatives and batches, against what they are made of."""
    g = tg.grad(program)
    _, tangent = tg.jvp(program, (X, 0.6), (np.cos(X), 0.0))
    np.testing.assert_allclose(tangent, g(X, 0.6) @ np.cos(X), rtol=1e-9, err_msg=text)
    product = tg.hvp(lambda x: program(x, 0.6), (X,), (np.cos(X),))
    h = 1e-6
    ahead, behind = g(X + h * np.cos(X), 0.6), g(X - h * np.cos(X), 0.6)
    want = (ahead - behind) / (2.0 * h)
    scale = 1.0 + np.max(np.abs(want))
    np.testing.assert_allclose(
        product, want, rtol=2e-3, atol=1e-3 * scale, err_msg=text
    )
    rows = np.stack([X, X * 0.8])
    many = tg.vmap(lambda x: g(x, 0.6))(rows)
    each = [g(row, 0.6) for row in rows]
    np.testing.assert_allclose(many, each, rtol=1e-9, atol=1e-11, err_msg=text)


def listed(use, start=lambda u: [], kept=lambda u: [u]):
    """A loop of `n` turns that fills a list, and something made of the list."""

    def make(n):
        def program(u, a):
            us = start(u)
            for _ in range(n):
                u = u + 0.1 * a * np.sin(u)
                us += kept(u)
            return use(us, u)

        return program

    return make


def over(table):
    """A loop over captured numbers, as many as there are turns."""

    def make(n):
        rows = table(n)

        def program(u, a):
            total = 0
            for y in rows:
                total += np.sum(np.cos(u * y) * a)
            return total

        return program

    return make


def drawn_order(n):
    """An array read in an order drawn before."""
    order = [(7 * i) % 11 for i in range(n)]

    def program(u, a):
        for i in order:
            u = np.tanh(u + a * np.cos(u[i % 3]) * i)
        return np.sum(u)

    return program


SHAPES = {
    "array": listed(lambda us, u: np.sum(np.array(us) ** 2)),
    "stack": listed(lambda us, u: np.sum(np.stack(us, axis=1) ** 2)),
    "concatenate": listed(lambda us, u: np.sum(np.concatenate(us) ** 2)),
    "first": listed(lambda us, u: np.sum(np.stack(us)[1:] ** 2), lambda u: [u]),
    "other": listed(lambda us, u: np.sum(np.stack(us) ** 3), lambda u: [2.0 * u]),
    "slices": listed(lambda us, u: np.sum(np.array(us[2:]) * np.array(us[:-2]))),
    "strided": listed(lambda us, u: np.sum(np.array(us[::2]) ** 2)),
    "reversed": listed(lambda us, u: np.sum(np.array(us[::-1])[1:] * us[2])),
    "twice": listed(lambda us, u: np.sum(np.stack(us) ** 2), kept=lambda u: [u, u * u]),
    "sum": listed(lambda us, u: sum(us) / len(us), kept=lambda u: [u @ u]),
    "sums": listed(lambda us, u: np.sum(sum(us) ** 2)),
    "mean": listed(lambda us, u: np.mean(us) * us[-1], kept=lambda u: [np.sum(u)]),
    "again": listed(lambda us, u: np.sum(np.array([v @ v for v in us]) ** 2)),
    "zipped": listed(lambda us, u: sum(map(np.dot, us[1:], us[:-1]))),
    "floats": over(lambda n: [0.1 * i * i for i in range(n)]),
    "captured": over(lambda n: np.cos(np.arange(float(n)))),
    "singles": over(lambda n: np.cos(np.arange(float(n))).astype("float32")),
}


@pytest.mark.parametrize("name", SHAPES)
def test_as_long_for_any_number_of_turns(name) -> None:
    u, a = X[:3], 0.6
    lengths = []
    for n in (12, 40):
        program = SHAPES[name](n)
        g = tg.value_and_grad(program, (0, 1))
        value, grads = g(u, a)
        assert value == program(u, a)
        flat = tg.value_and_grad(program, (0, 1), reroll=False)(u, a)[1]
        for mine, theirs in zip(grads, flat, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-11)
        lengths.append(len(list(g.ir(u, a).walk())))
    assert lengths[0] == lengths[1]


def test_numbers_in_any_order_are_read_from_a_table() -> None:
    program = drawn_order(10)
    u = np.array([0.1, 0.2, 0.3])
    g = tg.grad(program)
    text = str(g.source(u, 0.6))
    assert text.count("    for ") == 2
    flat = tg.grad(program, reroll=False)
    np.testing.assert_allclose(g(u, 0.6), flat(u, 0.6), rtol=1e-12)


def test_loops_over_the_same_numbers_fold_around() -> None:
    def program(w, a):
        totals = []
        for _ in range(5):
            losses = []
            for row, y in zip(ROWS, NUMBERS, strict=True):
                gap = row @ w - y
                w = w - a * gap * row
                losses.append(gap * gap)
            totals.append(np.mean(losses))
        return totals[-1] + sum(totals)

    g = tg.value_and_grad(program, (0, 1))
    value, grads = g(X[:3], 0.1)
    assert value == program(X[:3], 0.1)
    assert str(g.source()).count("    for ") == 4
    flat = tg.grad(program, (0, 1), reroll=False)(X[:3], 0.1)
    for mine, theirs in zip(grads, flat, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10)


def test_the_sum_of_a_list_is_made_where_its_elements_are() -> None:
    graph = Compiled(SHAPES["sum"](30), Options("function")).ir(X[:3], 0.6)
    assert len([n for n in graph.walk() if n.op is for_loop]) == 1


def test_elements_keep_their_layout() -> None:
    """The order in which a sum adds is that of the elements in memory."""

    def program(m, a):
        us = []
        for _ in range(11):
            m = np.sin(m.T @ m) + a
            us.append(m.T)
        return np.sum(np.stack(us, axis=1) * 0.1) + np.sum(np.array(us) * 0.3)

    m = np.linspace(-1.0, 1.3, 9).reshape(3, 3)
    value, _ = tg.value_and_grad(program)(m, 0.7)
    assert value == program(m, 0.7)


def heat(u0, a):
    u = np.zeros((14, 9))
    u[0] = u0
    for k in range(13):
        u[k + 1, 1:-1] = u[k, 1:-1] + a * (u[k, 2:] - 2 * u[k, 1:-1] + u[k, :-2])
    return np.sum(u[-1] ** 3)


def wave(u0, a):
    u = np.zeros((9, 12))
    u[:, 0] = u0
    u[:, 1] = np.sin(u0)
    for k in range(2, 12):
        u[:, k] = 0.3 * u[:, k - 1] - 0.2 * u[:, k - 2] + a * np.roll(u[:, k - 1], 1)
        u[0, k] = u[-1, k - 1] * u[3, k]
    return np.sum(u * np.cos(u))


def swept(u0, a):
    u = np.outer(u0, np.cos(u0))
    for k in range(7, -1, -1):
        row = u[k]
        row += a * u[k + 1] * u[k]
        row[1:] *= 0.5
        u[k, 2:4] = row[:2] + u[k + 1, 2:4]
    return np.sum(u**2)


def twice_written(u0, a):
    u = np.zeros((10, 9))
    for k in range(9):
        u[k] = u0 * a + k
        u[k + 1] = np.tanh(u[k])
        u[k] = u[k + 1] * u[-1]
    return np.sum(u * np.arange(9.0))


@pytest.mark.parametrize("program", [heat, wave, swept, twice_written])
def test_rows_filled_by_recurrence(program) -> None:
    g = tg.value_and_grad(program, (0, 1))
    value, grads = g(X, 0.3)
    assert value == program(X.copy(), 0.3)
    flat = tg.value_and_grad(program, (0, 1), reroll=False)(X, 0.3)[1]
    for mine, theirs in zip(grads, flat, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-13)
    text = str(g.source())
    assert program is swept or text.count("    for ") == 2
    assert "d_u.copy()" not in text  # all of it in each turn takes quadratic time
    check_transformed(program, text)


@pytest.mark.parametrize("name", ["array", "first", "sum", "twice", "captured"])
def test_jax_scans_what_fills_a_list(name) -> None:
    program = SHAPES[name](20)
    g = tg.value_and_grad(program, (0, 1), backend="jax")
    value, grads = g(X[:3], 0.6)
    np.testing.assert_allclose(value, program(X[:3], 0.6), rtol=1e-5)
    want = tg.grad(program, (0, 1), reroll=False)(X[:3], 0.6)
    for mine, theirs in zip(grads, want, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6)
    assert str(g.source()).count("lax.scan(") == 2


@pytest.mark.parametrize("seed", range(40))
def test_some_programs(seed) -> None:
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_programs(block) -> None:
    checked = [check(seed) for seed in range(100 * block, 100 * block + 100)]
    assert sum(checked) >= 90
