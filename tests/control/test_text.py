"""The emitted source of branches and loops reads as by hand."""

import linecache
import re
import time
from pathlib import Path

import numpy as np
from control.programs import X, Y

import tracegrad as tg


def body(source) -> str:
    """The main function without comments."""
    lines = str(source).partition("\ndef ")[2].splitlines()[1:]
    kept = [line.partition("  #")[0] for line in lines if line.strip()]
    return "\n".join([k for k in kept if k.strip() and k.strip()[0] != "#"])


def test_recurrent_cell() -> None:
    def cell(state, w, inputs):
        def step(state, row):
            state = np.tanh(state @ w + row)
            return state, None

        state, _ = tg.scan(step, state, inputs)
        return np.sum(state**2)

    w = np.array([[0.1, 0.2], [0.3, 0.4]])
    source = tg.grad(cell, argnums=(0, 1)).source(X, w, Y)
    assert (
        body(source)
        == """\
    m = inputs.shape[0]
    states = [state]
    for t in range(m):
        state = np.tanh(state @ w + inputs[t])
        states.append(state)
    d_state = 2.0 * state
    d_w = np.zeros_like(w)
    for t in reversed(range(m)):
        state = states[t + 1]
        d_product = d_state * (1.0 - state * state)
        d_state = w @ d_product
        d_w += states[t][:, None] * d_product
    return d_state, d_w"""
    )


def test_while() -> None:
    def grow(y):
        return tg.while_loop(lambda y: y < 1000.0, lambda y: y * np.sqrt(y), y)

    assert (
        body(tg.grad(grow).source(3.0))
        == """\
    turns = []
    while y < 1000.0:
        sqrt_y = np.sqrt(y)
        turns.append((y, sqrt_y))
        y = y * sqrt_y
    d_y = 1.0
    for y, sqrt_y in reversed(turns):
        d_y = d_y * sqrt_y + 0.5 * d_y * y / sqrt_y
    return d_y"""
    )


def test_the_page_in_docs_is_true() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "control_flow.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    function, printed, cell, misfit, fitted = blocks
    space = {"np": np, "tg": tg, "__name__": "page"}
    for k, text in enumerate((function, cell, misfit)):
        name = f"<page {k}>"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        exec(compile(text, name, "exec"), space)
    gradient = tg.grad(space["clipped_mean"])
    assert body(gradient.source(np.ones(5), 0.1)) == body(f"\n{printed}")
    x = np.array([0.3, -0.4, 2.2, 0.7])
    for i, found in enumerate(gradient(x, 0.3)):
        step = np.eye(4)[i] * 1e-6
        ahead, behind = [space["clipped_mean"](x + s, 0.3) for s in (step, -step)]
        np.testing.assert_allclose(found, (ahead - behind) / 2e-6, rtol=1e-6)
    args = np.ones(2), np.eye(2), np.ones((50, 2))
    assert str(tg.grad(space["cell"]).source(*args)).count("    for ") == 2
    gradient = tg.grad(space["misfit"])
    assert body(gradient.source(0.5, x, np.ones((200, 4)))) == body(f"\n{fitted}")


def test_deep_nests_are_written_in_no_time() -> None:
    """Each branch is looked at once, not once for each branch around it."""

    def nest(depth, a, b):
        if depth == 0:
            return a * b, np.sin(a)
        inner = lambda: nest(depth - 1, b, np.cos(a))
        return tg.cond(a > b, inner, lambda: (b, a + depth))

    start = time.perf_counter()
    text = str(tg.grad(lambda x: nest(9, x, 0.5 * x)[0]).source(1.0))
    assert text.count("if ") >= 9
    assert time.perf_counter() - start < 20.0


def test_rows_are_gone_through_as_the_user_wrote_it() -> None:
    def filtered(mean, decay, observed):
        for z in observed:
            gap = np.sin(z) - mean
            mean = mean + decay * gap * z
        return np.sum(mean)

    mean, rows = np.array([0.5, 1.0]), np.linspace(0.0, 1.0, 12).reshape(6, 2)
    gradient = tg.grad(filtered, argnums=1)
    text = body(gradient.source(mean, 0.4, rows))
    assert "    for z in observed:\n" in text and "for t" in text
    ahead, behind = [filtered(mean, 0.4 + h, rows) for h in (1e-6, -1e-6)]
    slope = (ahead - behind) / 2e-6
    np.testing.assert_allclose(gradient(mean, 0.4, rows), slope, rtol=1e-8)


def test_a_while_that_ends_after_several_steps_breaks() -> None:
    def grown(x):
        n = 0
        while not (n > 5 or np.sum(x) > 100.0):
            x = x * 1.5
            n = n + 1
        return np.sum(x)

    gradient = tg.grad(grown)
    text = body(gradient.source(np.ones(3)))
    assert "if greater:\n            break" in text and "logical_not" not in text
    np.testing.assert_allclose(gradient(np.ones(3)), 1.5**6)
    np.testing.assert_allclose(gradient(np.array([60.0, 50.0])), 1.0)


def test_a_loop_names_the_line_of_its_for() -> None:
    """Not that of what it does first; inner loops theirs."""
    text = str(tg.value_and_grad(loops_on_lines).source(np.ones(3), 0.5))
    first = loops_on_lines.__code__.co_firstlineno
    found = [s for s in text.splitlines() if s.strip().startswith("for ")]
    lines = [int(s.rpartition(":")[2]) - first for s in found]
    assert lines == [2, 3, 2, 3], text


def loops_on_lines(x, a):
    total = 0.0
    for _ in range(7):
        for _ in range(5):
            x = np.sin(x * a) + 0.1 * x
        total = total + np.sum(x**2)
    return total
