"""Loops found again in traces: their text, and that no result changes."""

import inspect
import sys

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.ir.verify import InvalidGraph
from tracegrad.ops.control import for_loop
from tracegrad.ops.index import getitem
from tracegrad.passes.replay import check_replay
from tracegrad.passes.reroll import reroll
from tracegrad.runtime.compiled import Compiled
from tracegrad.runtime.options import Options


def both(function, *args, mode="value_and_grad"):
    """What the function gives with and without the pass; its graph with it."""
    rolled = Compiled(function, Options(mode))
    flat = Compiled(function, Options(mode, reroll=False))
    return rolled(*args), flat(*args), rolled.ir(*args)


def loops(graph) -> int:
    """The number of loops of a graph."""
    return len([n for n in graph.walk() if n.op is for_loop])


def filtered(x, a):
    out = np.zeros(len(x))
    out[0] = x[0]
    for i in range(1, len(x)):
        out[i] = out[i - 1] * a + x[i]
    return np.sum(out**2)


def pendulum(y, k):
    def slope(y):
        return np.array([y[1], -k * np.sin(y[0])])

    for _ in range(40):
        k1 = slope(y)
        k2 = slope(y + 0.05 * k1)
        k3 = slope(y + 0.05 * k2)
        k4 = slope(y + 0.1 * k3)
        y = y + 0.1 / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return np.sum(y**2)


def momentum(w, rate):
    v, total, t = 0.0 * w, 0.0, 0.0
    for i in range(9):
        t = t + 0.1
        gap = np.sum(w * np.cos(t)) - 0.3 * i
        total = total + gap * gap
        v = 0.9 * v + gap * 0.5**i
        w = w - rate * v
    return total + np.sum(w)


def downwards(x, a):
    out = np.zeros(12)
    for i in range(11, 0, -1):
        out[i - 1] = out[i] * a + x[i]
    return np.sum(out * x)


def first_turn_differs(x, a):
    h = None
    for i in range(8):
        h = np.sin(x[i]) if h is None else np.tanh(h * a + x[i])
    return h


def in_loops(x, a):
    total = np.zeros(3)
    for i in range(4):
        for _ in range(5):
            total = np.tanh(total * a + x[i])
    return np.sum(total)


def ended_by_a_sum(x, a):
    p, q, total = x[0], x[1], 0.0
    for i in range(6):
        for _ in range(5):
            p, q = p + 0.1 * np.sin(q * a), q - 0.1 * np.cos(p)
        total = total + (p - x[i]) ** 2 + np.exp(q)
    return total


def loops_of_three_depths(x, a):
    p, total = x[0], 0.0
    for i in range(4):
        for _ in range(5):
            for k in range(6):
                p = np.sin(p) * a + x[k] * 0.1
            total = total + p * p
        for _ in range(3):
            p = np.tanh(p * 1.1 - np.cos(p) * total)
        total = np.sqrt(total + x[i]) - p
    return total


def kept_in_a_list(x, a):
    h, hs = x[0], []
    for i in range(12):
        h = np.tanh(h * a + x[i])
        hs.append(h)
    return h * hs[3] + np.sum(np.stack(hs) * x)


def triangle(x, a):
    total = 0.0 * a
    for i in range(6):
        for j in range(i):
            total = total + x[i] * x[j] * a
    return total


def fibonacci(x, a):
    p, q = x[0], x[1]
    for _ in range(10):
        p, q = q, p * a + np.sin(q)
    return p * q


def slices(x, a):
    out = np.zeros(12)
    for i in range(5):
        out[i : i + 3] += x[i : i + 3] * a
    return np.sum(out**2)


X = np.linspace(0.1, 1.2, 12)
PROGRAMS = [
    filtered,
    pendulum,
    momentum,
    downwards,
    first_turn_differs,
    in_loops,
    ended_by_a_sum,
    loops_of_three_depths,
    kept_in_a_list,
    triangle,
    fibonacci,
    slices,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_no_result_changes(program) -> None:
    x = X[:2] if program in (pendulum, momentum) else X
    (value, grad), (flat_value, flat_grad), _ = both(program, x, 0.7)
    assert value == flat_value == program(x, 0.7)
    np.testing.assert_allclose(grad, flat_grad, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "program", [filtered, pendulum, momentum, downwards, first_turn_differs]
)
def test_one_loop_forward_one_backward(program) -> None:
    x = X[:2] if program in (pendulum, momentum) else X
    assert loops(both(program, x, 0.7)[2]) == 2


def test_loops_in_loops() -> None:
    assert loops(both(in_loops, X, 0.7, mode="function")[2]) == 2
    assert loops(both(ended_by_a_sum, X, 0.7, mode="function")[2]) == 2
    assert loops(both(loops_of_three_depths, X, 0.7, mode="function")[2]) == 4


def test_as_long_for_any_number_of_turns() -> None:
    def steps(n):
        def function(y):
            for _ in range(n):
                y = y + 0.1 * np.sin(y) * np.cos(2.0 * y)
            return np.sum(y)

        return str(tg.grad(function).source(X)).replace(str(n), "n")

    assert steps(10) == steps(300)


def test_jax_scans() -> None:
    text = str(tg.grad(pendulum, backend="jax").source(X[:2], 0.7))
    assert text.count("lax.scan(") == 2


def test_off_by_a_switch() -> None:
    rolled, flat = tg.grad(filtered), tg.grad(filtered, reroll=False)
    assert "for t in " in str(rolled.source(X, 0.7))
    assert "for t in " not in str(flat.source(X, 0.7))
    for roll in (True, False):
        made = tg.compile(filtered, reroll=roll)
        np.testing.assert_allclose(made(X, 0.7), filtered(X, 0.7))
        assert ("for t in " in str(made.source())) is roll
        _, pullback = tg.vjp(filtered, X, 0.7, reroll=roll)
        np.testing.assert_allclose(pullback(1.0)[0], rolled(X, 0.7))
        assert ("for t in " in str(pullback.source())) is roll
    _, push = tg.linearize(lambda x: filtered(x, 0.7), X)
    np.testing.assert_allclose(push(X), rolled(X, 0.7) @ X)


def corner(kind, start, step, n):
    """Nested loops whose inner one grows or shrinks with the outer one."""

    def function(x, a):
        total, rows = 0.0 * a, []
        out = np.zeros(n)
        for i in range(n):
            inner = range(start, i + start, step) if kind != "falling" else range(n - i)
            for j in inner:
                total = total + np.sin(x[i] * x[j] * a)
                if kind == "stored":
                    out[j] = out[j] * a + x[i] * total
            if kind == "kept":
                rows.append(total * x[i])
            if kind == "middle":
                total = total * 0.9 + out[i]
        if kind == "kept":
            return np.sum(np.stack(rows) * x[:n]) + rows[2]
        return total + np.sum(out**2)

    return function


@pytest.mark.parametrize("kind", ["rising", "falling", "stored", "kept", "middle"])
@pytest.mark.parametrize(("start", "step", "n"), [(0, 1, 5), (1, 1, 9), (0, 2, 10)])
def test_triangles(kind, start, step, n) -> None:
    function = corner(kind, start, step, n)
    (value, grad), (flat_value, flat_grad), graph = both(function, X, 0.7)
    assert value == flat_value == function(X, 0.7)
    np.testing.assert_allclose(grad, flat_grad, rtol=1e-12, atol=1e-14)
    assert loops(graph)


def test_the_replay_finds_what_is_wrong() -> None:
    """Loops with another bound, number, carry or row do not pass."""
    graph = Compiled(filtered, Options("function", reroll=False)).ir(X, 0.7)
    folded = reroll(graph.nodes, graph.results)
    (loop,) = [node for node in folded if node.op is for_loop]
    check_replay(graph.nodes, folded, graph.results)
    body = loop.regions[0]
    x = body.params[2]
    (row,) = [n for n in body.nodes if n.op is getitem and n.inputs[0] is x]
    wrong = [
        loop.changed(attrs={**loop.attrs, "bounds": (1, 11)}),
        loop.changed(attrs={**loop.attrs, "reverse": True}),
        loop.changed(inputs=(loop.inputs[1], loop.inputs[0], *loop.inputs[2:])),
    ]
    other = [row.changed(attrs={**row.attrs, "index": (2,)}, inputs=row.inputs[:1])]
    nodes = [other[0] if n is row else n for n in body.nodes]
    wrong.append(loop.changed(regions=(body.with_nodes(nodes),)))
    for bad in wrong:
        nodes = [bad if node is loop else node for node in folded]
        with pytest.raises(InvalidGraph, match="found again"):
            check_replay(graph.nodes, nodes, graph.results)


def steps(function, *args) -> int:
    """Calls inside of the pass, in the first call of a gradient."""
    count = 0
    reroll_file = inspect.getsourcefile(reroll)

    def note(frame, event, arg):
        nonlocal count
        count += event == "call" and frame.f_code.co_filename == reroll_file

    sys.setprofile(note)
    try:
        tg.grad(function)(*args)
    finally:
        sys.setprofile(None)
    return count


def test_tables_that_no_loop_can_read_take_linear_time() -> None:
    # Four times as many turns took twelve times as long.
    def make(n):
        shifts = [np.array([0.1, 0.2]) * i for i in range(n)]

        def f(p):
            m = np.zeros(2)
            for shift in shifts:
                m = np.tanh(p @ m + shift)
                m = m + 0.5 * (m @ m + np.linalg.slogdet(p)[1])
            return np.sum(m)

        return f

    p = np.array([[0.5, 0.1], [0.0, 0.4]])
    few = steps(make(30), p)
    assert few > 30
    assert steps(make(120), p) < 8 * few


def test_constants_that_change_once_make_two_loops() -> None:
    first, second = np.array([0.1, 0.2]), np.array([0.3, -0.2])

    def f(x):
        for i in range(24):
            x = np.tanh(x + (first if i < 13 else second)) * 1.5
        return np.sum(x)

    x = np.array([0.04, 0.07])
    rolled, flat, graph = both(f, x)
    assert rolled[0] == flat[0] == f(x)
    np.testing.assert_allclose(rolled[1], flat[1], rtol=1e-13)
    assert loops(graph) == 4


def test_a_python_float_may_be_where_a_loop_begins() -> None:
    def f(theta, u):
        us = [u]
        for _ in range(20):
            u = u + 0.1 * theta[0] * u * (1.0 - u / theta[1])
            us.append(u)
        return np.sum(np.array(us) ** 2)

    for theta in (np.array([0.9, 2.0]), np.array([0.9, 2.0], dtype=np.float32)):
        rolled, flat, graph = both(f, theta, 0.3)
        assert rolled[0] == flat[0] == f(theta, 0.3)
        assert rolled[0].dtype == f(theta, 0.3).dtype
        np.testing.assert_allclose(rolled[1], flat[1], rtol=1e-6)
        assert loops(graph) == 2
    text = str(tg.grad(f).source(np.array([0.9, 2.0]), 0.3))
    assert text.count("us.append(u)") == 1
    assert "concatenate" not in text
    on_jax = tg.value_and_grad(f, backend="jax")(np.array([0.9, 2.0]), 0.3)
    np.testing.assert_allclose(on_jax[0], f(np.array([0.9, 2.0]), 0.3), rtol=1e-9)


READ_MORE_THAN_ONCE = {
    "twice": lambda y, v: y + 0.25 * (v - y),
    "thrice": lambda y, v: y + 0.25 * (v - y) * np.cos(y),
}


@pytest.mark.parametrize("start", [0.0, -0.0, 0.5, np.float64(2.0)], ids=repr)
@pytest.mark.parametrize("read", READ_MORE_THAN_ONCE.values(), ids=READ_MORE_THAN_ONCE)
def test_a_number_to_start_with_is_one_carry_however_often_it_is_read(start, read):
    def filtered(u, k):
        y = start
        for t in range(30):
            y = read(y, k * u[t])
        return np.sum(y * y + k)

    u = np.linspace(0.2, 1.0, 30)
    rolled, flat, graph = both(filtered, u, 1.5)
    (loop, *_) = [node for node in graph.nodes if node.op is for_loop]
    assert loop.attrs["carried"] == 1
    assert rolled[0] == flat[0] == filtered(u, 1.5)
    np.testing.assert_allclose(rolled[1], flat[1], rtol=1e-12)
