"""Traced numbers and sizes as keys of dicts and sets, and in texts that are keys."""

import functools
import io
from collections import Counter

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import ControlFlowError, ConversionError

X = np.array([0.5, -1.2, 2.0])
LONG = np.array([0.5, -1.2, 2.0, 0.3])
TABLE = {1: 2.0, 2: 4.0, 3: 6.0}
SHAPES = {(3,): 4.0, "(3,)": 5.0, "3": 6.0, "4": 7.0}
LAYERS = {"layer1": 2.0, "layer2": 5.0, "layer03": 7.0}
TEXTS = {"1.7": 2.0, "1.5": 3.0, "2.0": 4.0, "a = 1.7": 5.0, "a = 2.0": 6.0, "nan": 7.0}
LABELS = np.array([0, 1, 0])
NAN = float("nan")


def groups(x, labels):
    found = {}
    for value, label in zip(x, labels, strict=True):
        found.setdefault(label, []).append(value)
    return sum(sum(values) ** 2 for values in found.values())


def in_loop(x):
    value = x[0]
    while value < 10.0:
        value = value * TABLE.get(int(value), 2.0) + 1.0
    return value


def in_arms(x, n):
    total = 0.0
    for value in x:
        if value > 0:
            total = total + value * TABLE.get(n, 9.0)
        else:
            total = total - value * TABLE.get(int(value), 3.0)
    return total


def in_an_arm(x, a):
    key = f"a = {a}" if a > 1.6 else "1.7"
    return np.sum(x) * TEXTS.get(key, 1.0)


def printed(x, a):
    """What is looked up for a print is of each call, too."""
    print(TEXTS.get(f"{a}", 1.0), file=io.StringIO())
    rate = TEXTS.get(f"{a}", 1.0)
    return np.sum(x) * rate


def own_number(x):
    """It has no slope by differences: a number that moves is another key."""
    return np.sum(x) * {2.0: 3.0}.get(float(x[2]), 5.0)


SIZES = [(X,), (LONG,), (X,)]
SIGNS = [(X,), (-X,), (X,)]
NUMBERS = [(X, 1), (X, 2), (X, 3), (X, 7), (X, 2)]
FLOATS = [(X, 1.7), (X, 1.5), (X, 2.0), (X, NAN), (X, NAN), (X, 1.7)]
MARKS = [(X, LABELS), (X, LABELS[::-1] + 1), (X, np.arange(3)), (X, LABELS)]
TIES = [(X,), (np.array([1.0, 1.0, 2.0]),), (X,)]


@pytest.mark.parametrize(
    ("f", "calls"),
    [
        (lambda x, n: np.sum(x) * TABLE.get(n, 9.0), NUMBERS),
        (lambda x, n: np.sum(x) * TABLE[n], NUMBERS[:3]),
        (lambda x, n: np.sum(x) * (2.0 if n in TABLE else 1.0), NUMBERS),
        (lambda x, n: np.sum(x) * {(n, 1): 2.0}.get((2, n - 1), 3.0), NUMBERS),
        (lambda x: np.sum(x) * TABLE.get(len(x), 1.0), SIZES),
        (lambda x: np.sum(x) * SHAPES.get(x.shape, 1.0), SIZES),
        (lambda x: np.sum(x) * (2.0 if len(x) in {2, 3} else 1.0), SIZES),
        (lambda x, a: np.sum(x) * {1.7: 2.0}.get(a, 9.0), FLOATS),
        (lambda x, a: np.sum(x) * (3.0 if a in TABLE else 9.0), FLOATS),
        (lambda x, a: np.sum(x) * {a: 2.0}.get(1.5, 3.0), FLOATS),
        (groups, MARKS),
        (lambda x, k: np.sum(x) * len(Counter(list(k))), MARKS),
        (lambda x: sum(set(x)), TIES),
        (lambda x: sum(dict.fromkeys(x.tolist())), TIES),
        (lambda x: np.sum(x) * {2: 3.0}.get(np.argmax(x), 5.0), SIGNS),
        (lambda x: np.sum(x) * {2: 3.0}.get(int(x[2] + 0.5), 5.0), SIGNS),
        (lambda x: np.sum(x) * {-1: 3.0}.get(round(x[1]), 5.0), SIGNS),
        (own_number, SIGNS),
        (lambda x: {True: np.sum, False: np.prod}.get(x[0] > 0, np.max)(x), SIGNS),
        (in_loop, [(X + 0.1,), (X + 0.33,), (X + 3.1,)]),
        (in_arms, [(X, 1), (X, 2), (X, 7), (-X + 0.1, 2)]),
        (lambda x, n: np.sum(x) * LAYERS.get("layer" + str(n), 1.0), NUMBERS),
        (lambda x, n: np.sum(x) * LAYERS.get(f"layer{n}", 1.0), NUMBERS),
        (lambda x, n: np.sum(x) * LAYERS.get(f"layer{n:02d}", 1.0), NUMBERS),
        (lambda x, n: np.sum(x) * LAYERS.get(f"layer{n!r}", 1.0), NUMBERS),
        (lambda x, n: np.sum(x) * LAYERS.get("layer{}".format(n), 1.0), NUMBERS),  # noqa: UP032
        (lambda x, n: np.sum(x) * LAYERS.get("layer%d" % n, 1.0), NUMBERS),  # noqa: UP031
        (lambda x, n: np.sum(x) * LAYERS.get("layer%s" % n, 1.0), NUMBERS),  # noqa: UP031
        (lambda x: np.sum(x) * LAYERS.get(f"layer{np.argmax(x)}", 1.0), SIGNS),
        (lambda x: np.sum(x) * SHAPES.get(str(len(x)), 1.0), SIZES),
        (lambda x: np.sum(x) * SHAPES.get(f"{x.size}", 1.0), SIZES),
        (lambda x: np.sum(x) * SHAPES.get(str(x.shape), 1.0), SIZES),
        (lambda x: np.sum(x) * (2.0 if str(x[0] > 0) == "True" else 3.0), SIGNS),
        (lambda x, a: np.sum(x) * TEXTS.get(str(a), 1.0), FLOATS),
        (lambda x, a: np.sum(x) * TEXTS.get(f"{a:.1f}", 1.0), FLOATS),
        (lambda x, a: np.sum(x) * TEXTS.get("a = {}".format(a), 1.0), FLOATS),  # noqa: UP032
        (lambda x, a: np.sum(x) * len(f"{a}"), FLOATS),
        (lambda x, a: np.sum(x) * len(f"{a * x / x}"), FLOATS),
        (in_an_arm, FLOATS),
        (printed, FLOATS),
    ],
)
def test_each_call_finds_its_own(f, calls) -> None:
    """Values and slopes, the latter by central differences."""
    compiled, slope = tg.compile(f), tg.grad(f)
    for x, *rest in calls:
        np.testing.assert_allclose(compiled(x, *rest), f(x, *rest), rtol=1e-12)
        if f is not own_number and len(set(x)) == len(x):
            steps = 1e-6 * np.eye(len(x))
            want = [(f(x + e, *rest) - f(x - e, *rest)) / 2e-6 for e in steps]
            np.testing.assert_allclose(slope(x, *rest), want, rtol=1e-6, atol=1e-6)


def test_arrays_are_no_keys() -> None:
    with pytest.raises(TypeError, match="unhashable type"):
        tg.grad(lambda x: np.sum(x) * {x: 1.0}.get(x))(X)


@pytest.mark.parametrize(
    ("f", "error"),
    [
        (lambda x: np.sum(x) * TABLE.get(len(x), 1.0), ControlFlowError),
        (lambda x: np.sum(x) * TABLE.get(np.argmax(x), 1.0), ConversionError),
        (lambda x: np.sum(x) * TABLE.get(x[0], 1.0), ConversionError),
    ],
)
def test_types_alone_give_no_key(f, error) -> None:
    with pytest.raises(error, match=r"test_keys\.py") as caught:
        tg.grad(f).source(tg.spec("f8[n]"))
    assert "fix:" in str(caught.value)


def test_a_key_in_a_body_has_no_number() -> None:
    def f(x):
        return tg.fori_loop(0, 3, lambda i, v: v * TABLE.get(i, 1.0), x[0])

    with pytest.raises(ControlFlowError, match="inside of the body of a loop"):
        tg.grad(f)(X)


def test_one_look_up_is_one_test() -> None:
    """What the look-up compares follows from the test of the key."""
    f = tg.compile(lambda x: np.sum(x) * TABLE.get(np.argmax(x), 1.0))
    f(X)
    assert str(f.source()).count("raise UntracedBranch") == 1


@functools.lru_cache
def squared(a):
    return a * a


class Cached:
    @functools.lru_cache  # noqa: B019
    def squared(self, a):
        return a * a


class Derived(Cached):
    pass


CACHED = Derived()


def test_caches_are_passed_by() -> None:
    """A number in the cache has no gradient; a traced one is of another trace."""
    before = vars(Cached)["squared"]
    squared(1.5)
    CACHED.squared(1.5)
    for f in (squared, lambda a: squared(a) + 1.0, lambda a: CACHED.squared(a)):
        for a in (1.5, 1.5, 2.5, 1.5):
            assert tg.grad(f)(a) == 2.0 * a
    assert squared(1.5) == 2.25
    assert vars(Cached)["squared"] is before
    assert "squared" not in vars(Derived)


def test_names_that_are_no_names_are_not_followed() -> None:
    """pytest rewrites `assert` with a global that leads to all tests of the session."""
    from tracegrad.trace.captures import Captures

    code = compile("a + b", "<cell>", "eval")
    space = {"a": 1, "b": 2, "@pytest_ar": object()}
    rewritten = code.replace(co_names=("a", "@pytest_ar"))
    captures = Captures()
    captures.add_code(rewritten, space)
    assert {name for _, name in captures.reads} == {"a"}
