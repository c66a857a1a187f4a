"""Loops that are left early: one trace and one loop, whichever turn leaves it."""

import linecache
import subprocess
import sys

import jax
import numpy as np
import pytest

import tracegrad as tg

DATA = np.array([0.3, 0.9, -0.2, 1.5, 0.7])
RNG = np.random.default_rng(0)
NUMBERS = [np.float64(x) for x in (0.25, 0.62, 1.31, 2.23, 4.17)]


def slope(f, x, step=1e-6):
    """Central differences."""
    x = np.asarray(x, dtype=float)
    flat = step * np.eye(x.size).reshape((x.size, *x.shape))
    return np.reshape([(f(x + e) - f(x - e)) / (2 * step) for e in flat], x.shape)


def newton(x):
    y = 1.0
    for _ in range(50):
        step = (y * y - x) / (2 * y)
        y = y - step
        if abs(step) < 1e-9:
            break
    return y


def bisection(x):
    low, high = 0.0, 10.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if middle**3 < x:
            low = middle
        else:
            high = middle
        if high - low < 1e-3:
            break
    return middle * x


def for_else(x):
    y = x
    for _ in range(3):
        y = y * 0.5
        if y < 0.3:
            break
    else:
        y = y + 100.0 * x
    return y


def returns(x):
    y = x
    for i in range(40):
        y = y * 0.7
        if y < 0.2:
            return y * 3.0 + i
    return y


def helper_returns(x):
    def solve(v):
        for _ in range(10):
            v = v * 0.6
            if v < 0.3:
                return v, True
        return v, False

    a, good = solve(x)
    return a * 2 if good else a


def counts(x):
    n = 0
    y = x
    for k in range(5, 60, 2):
        y = np.sin(y) * 0.9 + 0.001 * k
        n += 1
        if y < 0.4:
            break
    return y * n + k


def two_ways_out(x):
    y = x
    while True:
        y = y * 0.8
        if y < 0.1:
            break
        y = y - 0.1
        if y > 5:
            break
        y = y - 0.01
    return y


def asked_and_left(x):
    y = x
    n = 0
    while n < 20:
        y = y * 0.8
        if y < 0.1:
            break
        y = y - 0.01
        n += 1
    return y


def loops_in_loops(x):
    total = 0.0
    for i in range(4):
        y = x + i
        for _ in range(6):
            y = y * 0.6
            if y < 0.5:
                break
        total = total + y
        if total > 2.0:
            break
    return total


def continues(x):
    y = x
    for _ in range(12):
        y = y - 0.1
        if y > 1.0:
            continue
        y = y * 0.9
        if y < 0.3:
            break
    return y * y


def left_from_deep(x):
    y = x
    for _ in range(20):
        y = y * 0.9
        if y < 1.0:
            z = y * 2
            if z < 1.1:
                y = y + z
                break
            y = y - 0.01
        y = y - 0.02
    return y


def writes(x):
    out = np.zeros(6)
    for i in range(6):
        out[i] = x * (i + 1)
        if out[i] > 2.0:
            break
    return np.sum(out**2)


def line_search(x):
    step = 1.0
    before = (x - 1) ** 2
    g = 2 * (x - 1)
    for _ in range(30):
        new = x - step * g * 1.5
        if (new - 1) ** 2 <= before - 0.3 * step * g * g:
            break
        step *= 0.5
    return (new - 1) ** 4 + new


def captured(x):
    s = x
    for d in DATA:
        s = s + np.tanh(d * x)
        if s > 1.2:
            break
    return s


def flag_of_the_users(x):
    converged = False
    n = 0
    y = x
    while not converged and n < 30:
        new = 0.5 * np.cos(y) + 0.1 * x
        converged = abs(new - y) < 1e-3
        y = new
        n += 1
    return y


def rows(a):
    s = 0.0
    for row in a:
        s = s + np.sum(row**2)
        if s > 3.0:
            break
    return s * 2


def zipped(a):
    s = 1.0
    for i, (p, q) in enumerate(zip(a[0], a[1], strict=False)):
        s = s + p * q * (i + 1)
        if s > 2.5:
            break
        s = s * 1.1
    return s


def enumerated(a):
    s = 1.0
    for i, (p, q) in enumerate(zip(a[0], a[1]), 2):
        s = s + p * q * i
        if s > 4.5:
            break
        s = s * 1.1
    return s


def rows_written(a):
    b = a.copy()
    s = 0.0
    for row in b[::-1]:
        row *= 0.5
        s = s + row[0]
        if s > 0.6:
            row[...] = 0.1
            break
    return s + np.sum(b**2)


OF_NUMBERS = [
    newton, bisection, for_else, returns, helper_returns, counts, two_ways_out,
    asked_and_left, loops_in_loops, continues, left_from_deep, writes, line_search,
    captured, flag_of_the_users,
]  # fmt: skip
OF_ARRAYS = [rows, zipped, enumerated, rows_written]
ARRAYS = [RNG.uniform(0.2, 1.2, size=(4, 5)) for _ in range(5)]
CASES = [(f, NUMBERS) for f in OF_NUMBERS] + [(f, ARRAYS) for f in OF_ARRAYS]


@pytest.mark.parametrize(
    ("f", "points"), CASES, ids=lambda x: getattr(x, "__name__", "")
)
def test_one_trace_for_all_turns(f, points) -> None:
    g = tg.value_and_grad(f)
    for x in points:
        value, d_x = g(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        np.testing.assert_allclose(d_x, slope(f, x), rtol=1e-5, atol=1e-6)
    (made,) = g.specializations()
    assert len(made.paths) == 1
    text = str(g.source(points[0]))
    assert "UntracedBranch" not in text
    assert "while " in text
    assert "_tracegrad_" not in text


@pytest.mark.parametrize(
    ("f", "points"), CASES, ids=lambda x: getattr(x, "__name__", "")
)
def test_every_transformation(f, points) -> None:
    """Second order, forward mode, batches and JAX's own loop."""
    second = tg.grad(lambda x: np.sum(tg.grad(f)(x) ** 2))
    forward = tg.compile(f, backend="jax")
    for x in points[:3]:
        found = second(x)
        wanted = slope(lambda x: np.sum(tg.grad(f)(x) ** 2), x)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
        _, d = tg.jvp(f, (x,), (np.ones_like(x),))
        np.testing.assert_allclose(d, np.sum(slope(f, x)), rtol=1e-5, atol=1e-6)
        with jax.enable_x64(True):
            np.testing.assert_allclose(forward(x), f(x), rtol=1e-9)
    batch = np.stack(points)
    np.testing.assert_allclose(
        tg.vmap(tg.grad(f))(batch), [tg.grad(f)(x) for x in batch], rtol=1e-9
    )


def test_saved(tmp_path) -> None:
    """The file leaves the loop at any turn, where tracegrad is missing."""
    path = tmp_path / "left.py"
    tg.value_and_grad(bisection).source(NUMBERS[1]).save(path)
    said = "import sys; sys.modules['tracegrad'] = None; sys.path.insert(0, '.'); "
    said += "import left; print([left.bisection_value_and_grad(x)[0] for x in "
    said += f"{[float(x) for x in NUMBERS]}])"
    out = subprocess.run(
        [sys.executable, "-c", said], cwd=tmp_path, capture_output=True, text=True
    )
    assert eval(out.stdout) == [bisection(float(x)) for x in NUMBERS], out.stderr


def function(text: str):
    name = f"<left {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space: dict = {"np": np}
    exec(compile(text, name, "exec"), space)
    return space["f"], space


@pytest.mark.parametrize(
    "over",
    ["given()", "iter([1, 2, 3, 4])", "{1: 0, 2: 0, 3: 0}", "(v for v in [1, 2])"],
)
def test_what_is_run_over_is_used_as_python_does(over) -> None:
    """A generator is asked for no more than was reached, and once for each."""
    text = f"""
asked = []
def given():
    for v in (1, 2, 3, 4):
        asked.append(v)
        yield v
def f(x):
    for v in {over}:
        x = x * 0.8 + 0.1 * v
        if x > 1.0:
            break
    return x
"""
    f, space = function(text)
    g = tg.value_and_grad(f)
    for x in (0.1, 0.9, 1.3, 5.0):
        want = f(x)
        plain = list(space["asked"])
        space["asked"].clear()
        assert g(x)[0] == pytest.approx(want, rel=1e-12)
        traced = list(space["asked"])
        # A trace that starts again asks from the start; a later call may not trace.
        assert traced[-len(plain) or len(traced) :] == (plain if traced else [])
        space["asked"].clear()


def test_numbers_of_python_keep_their_kind() -> None:
    """A flag that is computed with, or compared as an object, is left to Python."""

    def f(x):
        n = False
        for _ in range(5):
            x = x * 0.8
            if x < 0.5:
                n = True
                break
        return x * (n + n) + x

    g = tg.value_and_grad(f)
    for x in NUMBERS:
        value, d_x = g(x)
        assert value == pytest.approx(f(x), rel=1e-12)
        np.testing.assert_allclose(d_x, slope(f, x), rtol=1e-5, atol=1e-6)


def test_source_reads_as_a_loop() -> None:
    text = str(tg.value_and_grad(bisection).source(NUMBERS[0]))
    assert text.count("middle = 0.5 * (low + high)") == 1
    assert "turn < 60" in text
