"""Branches on values: the trace tree, its source, its bounds."""

import importlib.util
import math
import re
import warnings

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.runtime.cache import SpecializationWarning

RNG = np.random.default_rng(0)


def body(f) -> str:
    """The latest source, without what is above the function."""
    return str(f.source()).partition("def ")[2].strip()


def two(x):
    h = np.sin(x)
    if h > 0.0:
        y = h * x**2
    else:
        y = h + 2.0
    if x > 10.0:
        y = 2.0 * y
    return y


def newton(a):
    x = a
    step = 1.0
    while abs(step) > 1e-10:
        step = 0.5 * (a / x - x)
        x = x + step
    return x


def logsumexp(a):
    big = a[0]
    for i in range(1, len(a)):
        if a[i] > big:
            big = a[i]
    total = 0.0
    for i in range(len(a)):
        total += np.exp(a[i] - big)
    return np.log(total) + big


def test_text_of_two_branches() -> None:
    g = tg.value_and_grad(two, joins=False)
    for x in (2.0, -2.0, 13.0, 11.0):
        value, slope = g(x)
        np.testing.assert_allclose(value, two(x))
        np.testing.assert_allclose(
            slope, (two(x + 1e-6) - two(x - 1e-6)) / 2e-6, rtol=1e-6
        )
    assert re.sub(r":\d+\n", ":_\n", body(g)) == TWO
    (made,) = g.specializations()
    assert repr(made) == "two_value_and_grad(x: weak f8[]), 4 traces"
    assert [reason.partition(": ")[2] for reason in made.traces[1:]] == [
        "`if h > 0.0:` was False",
        "`if x > 10.0:` was True",
        "`if x > 10.0:` was True",
    ]


TWO = """
two_value_and_grad(x):
    # forward
    h = np.sin(x)  # test_branches.py:_
    if h > 0.0:  # test_branches.py:_
        y = h * x**2  # test_branches.py:_
        if x > 10.0:  # test_branches.py:_
            y = 2.0 * y  # test_branches.py:_
            # backward
            d_h = 2.0 * x**2  # of test_branches.py:_
            d_x = 4.0 * h * x + d_h * np.cos(x)  # of test_branches.py:_
            return y, d_x
        # backward
        d_x = 2.0 * h * x + x**2 * np.cos(x)  # of test_branches.py:_
        return y, d_x
    y = h + 2.0  # test_branches.py:_
    if x > 10.0:  # test_branches.py:_
        y = 2.0 * y  # test_branches.py:_
        # backward
        d_x = 2.0 * np.cos(x)  # of test_branches.py:_
        return y, d_x
    # backward
    d_x = np.cos(x)  # of test_branches.py:_
    return y, d_x
""".strip()


def test_newton() -> None:
    g = tg.grad(newton)
    for a in RNG.uniform(0.5, 50.0, 30):
        np.testing.assert_allclose(g(a), 0.5 / np.sqrt(a), rtol=1e-6)
    (made,) = g.specializations()
    assert len(made.paths) <= 8


def test_logsumexp() -> None:
    g = tg.grad(logsumexp, joins=False)
    for _ in range(60):
        a = RNG.normal(size=4)
        np.testing.assert_allclose(g(a), np.exp(a) / np.exp(a).sum())
    (made,) = g.specializations()
    assert len(made.paths) == 8


@pytest.mark.parametrize("wrap", [tg.grad, tg.value_and_grad, tg.compile])
def test_an_untraced_branch_is_traced_in_the_same_call(wrap) -> None:
    g = wrap(two)
    known = wrap(lambda x: x * 0.0 + 1.0)
    assert known is not g
    for x in (2.0, -2.0, 14.0, -14.0, 2.0):
        np.testing.assert_allclose(
            np.asarray(g(x), dtype=float), np.asarray(wrap(two)(x), dtype=float)
        )


def test_vjp() -> None:
    for x in (2.0, -2.0, 14.0):
        out, pullback = tg.vjp(two, x)
        np.testing.assert_allclose(out, two(x))
        np.testing.assert_allclose(pullback(3.0)[0], 3.0 * tg.grad(two)(x))


def test_nested() -> None:
    def inner(v, scale):
        return v**3 * scale if v > 0.0 else v**2

    def outer(x):
        slope = tg.grad(inner)(x, 2.0)
        return slope * x if slope > 3.0 else -slope

    g = tg.grad(outer)
    for x in (1.0, 0.5, -1.0, 2.0):
        exact = 18.0 * x**2 if 6.0 * x**2 > 3.0 and x > 0 else -12.0 * x
        np.testing.assert_allclose(g(x), exact if x > 0 else -2.0)
    assert len(g.specializations()) == 1


def test_results_of_different_structure() -> None:
    def f(x):
        if x.sum() > 0:
            return {"a": x * 2.0}
        return x[0], "none"

    g = tg.compile(f)
    np.testing.assert_array_equal(g(np.ones(3))["a"], 2.0 * np.ones(3))
    assert g(-np.ones(3)) == (-1.0, "none")
    np.testing.assert_array_equal(g(np.ones(3))["a"], 2.0 * np.ones(3))


def test_errors_of_the_user_come_through() -> None:
    def f(x):
        if x < 0.0:
            raise ValueError("negative")
        if not x < 5.0:
            raise AssertionError("too large")
        return x * x

    g = tg.grad(f)
    assert g(1.0) == 2.0
    for _ in range(2):
        with pytest.raises(ValueError, match="negative"):
            g(-1.0)
        with pytest.raises(AssertionError, match="too large"):
            g(6.0)
        assert g(2.0) == 4.0
    assert len(g.specializations()) == 1


def test_bound_on_traces() -> None:
    def f(x):
        total = x[0]
        for i in range(1, 5):
            if x[i] > 0.0:
                total = total + x[i] * i
        return total

    g = tg.grad(f, joins=False)
    g.max_traces = 4
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k in range(16):
            signs = np.array([1, *[1 if k >> i & 1 else -1 for i in range(4)]])
            want = np.where(signs > 0, [1.0, 1, 2, 3, 4], 0.0)
            np.testing.assert_array_equal(g(signs * 1.0), want)
    (warning,) = [w for w in caught if w.category is SpecializationWarning]
    assert "test_branches.py" in str(warning.message)
    assert warning.filename == __file__
    assert all(len(made.paths) <= 4 for made in g.specializations())
    assert sum(len(made.paths) for made in g.specializations()) == 16


def test_decided_by_rounding() -> None:
    """A test that flips between the trace and the run is not asked for ever."""

    def f(x):
        if np.sum(x * x) == np.dot(x, x):
            return np.sum(x)
        return 2.0 * np.sum(x)

    g = tg.grad(f)
    for _ in range(20):
        x = RNG.normal(size=7)
        np.testing.assert_array_equal(g(x), g(x))


def test_saved_file(tmp_path) -> None:
    g = tg.value_and_grad(newton, joins=False)
    g(4.0)
    path = g.source().save(tmp_path / "saved.py")
    spec = importlib.util.spec_from_file_location("saved", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    np.testing.assert_allclose(module.newton_value_and_grad(4.0), (2.0, 0.25))
    np.testing.assert_allclose(module.newton(4.0), 2.0)
    with pytest.raises(module.UntracedBranch, match=r"test_branches\.py:\d+: only"):
        module.newton_value_and_grad(1e6)
    assert "tracegrad" not in path.read_text()


def test_jax_has_no_guards() -> None:
    pytest.importorskip("jax")
    with pytest.raises(tg.ControlFlowError) as caught:
        tg.grad(two, backend="jax", joins=False)(2.0)
    assert re.search(r"at:  test_branches.py:\d+: if h > 0.0:", str(caught.value))


def test_types_alone_have_no_values() -> None:
    with pytest.raises(tg.ControlFlowError, match=r"tg\.cond"):
        tg.grad(two, joins=False).source(tg.spec("f8[]"))


def rooted(x):
    try:
        return math.sqrt(x)
    except ValueError:
        return -2.0 * x


def first_log(x):
    for k in range(3):
        try:
            y = math.log(x + k)
            break
        except ValueError:
            continue
    else:
        y = 9.0 * x
    return y + k


def too_large(x):
    try:
        return math.exp(200.0 * x) * 1e-300
    except OverflowError:
        return x


def helped(x):
    def inner(v):
        return math.acos(v) + math.log1p(v)

    try:
        return inner(x)
    except ValueError as error:
        return x * len(str(error))


# The program tests what NumPy makes of the number, which warns.
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("f", [rooted, first_log, too_large, helped])
def test_what_math_raises_is_handled(f):
    """`math` refuses what NumPy gives NaN or an infinity for."""
    g = tg.value_and_grad(f)
    for x in (1.5, -0.7, 0.5, 4.1, -3.3, math.inf, 0.25, -1.5):
        value, slope = g(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-15)
        if math.isfinite(x):
            want = (f(x + 1e-7) - f(x - 1e-7)) / 2e-7
            np.testing.assert_allclose(slope, want, rtol=1e-5)
