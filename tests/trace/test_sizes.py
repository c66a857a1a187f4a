"""Symbolic sizes in the user's code."""

import math

import numpy as np
import pytest

from tracegrad.errors import ControlFlowError, ShapeError
from tracegrad.trace.tracer import Restart

X = np.linspace(0.1, 1.0, 6)
A = np.linspace(0.1, 1.0, 12).reshape(6, 2)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.sum(x) / len(x),
        lambda x: np.sum(x) / x.shape[0] * x.size,
        lambda x: np.zeros(len(x)) + x,
        lambda x: np.arange(len(x)) * x,
        lambda x: x[: len(x) // 2],
        lambda x: x * (1.0 / x.shape[0]) + 0.5 * x.size,
        lambda x: x * np.sqrt(len(x)),
        lambda x: x.reshape(len(x), 1) @ np.ones((1, 2)),
        lambda x: np.full(x.shape, 2.0) * x,
        lambda x: x[1:] - x[:-1],
        lambda x: np.ones((2, x.shape[0] + 1)),
        lambda x: np.float64(2.0) * x.shape[0] * x,
        lambda x: np.where(x > 0.5, x, len(x)),
        lambda x: np.maximum(x, x.shape[0] % 4),
        lambda x: x if x.ndim > 0 and isinstance(len(x), int) else -x,
        lambda x: np.add(np.ones(len(x)), x) * len(x) ** 2,
        lambda x: np.broadcast_to(x, (3, len(x))),
        lambda x: -len(x) * x + math.log(2.0),
        lambda x: np.mean(x) + np.var(x),
    ],
)
def test_one_trace_for_every_size(check, function) -> None:
    """The graph of one size is right for another."""
    run = check(function, X, symbolic={0: ("n",)})
    other = np.linspace(-1.0, 2.0, 9)
    np.testing.assert_allclose(run.value(other), function(other))
    assert run.traced.facts == []


def test_in_place_with_symbolic_sizes(check) -> None:
    """A buffer of a symbolic size."""

    def f(x):
        out = np.zeros(len(x))
        out[1:] = x[1:] * x[:-1]
        out[0] = x[-1]
        return out

    run = check(f, X, symbolic={0: ("n",)})
    other = np.linspace(-1.0, 2.0, 9)
    np.testing.assert_allclose(run.value(other), f(other))


def test_decided_comparisons(traced) -> None:
    """What holds for all sizes needs no value."""
    seen = []

    def f(x):
        n = len(x)
        seen.extend([n == n, n != n, n >= 2, n > 0, n < 1, n == n + 1, bool(n)])
        return x

    assert traced(f, X, symbolic={0: ("n",)}, spec=True).traced.facts == []
    assert seen == [True, False, True, True, False, False, True]


def test_facts(traced) -> None:
    """Other comparisons are decided by the call, and noted."""

    def f(x, y):
        if len(x) > 3 and x.shape[0] == len(y) and len(x) // 2 * 2 != 5:
            return x * y
        return x

    run = traced(f, X, X, symbolic={0: ("n",), 1: ("m",)})
    facts = [
        (f.relation, str(f.left), str(f.right), f.outcome) for f in run.traced.facts
    ]
    assert (">=", "n", "4", True) in facts
    assert ("==", "n", "m", True) in facts


def test_spec_has_no_values(traced) -> None:
    """The error says which question was open, and where."""
    with pytest.raises(ShapeError) as caught:
        traced(lambda x: x if len(x) == 6 else -x, X, symbolic={0: ("n",)}, spec=True)
    assert "whether n == 6 depends on the sizes" in str(caught.value)
    assert "test_sizes.py" in str(caught.value)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: [x[i] for i in range(len(x))],
        lambda x: x * [1.0] * 1 if int(x.shape[0]) else x,
        lambda x: list(x),
        lambda x: x * math.sqrt(float(len(x))),
        lambda x: x if x.shape[0] * 0.5 > 1 else -x,
    ],
)
def test_a_plain_int_makes_the_axis_static(traced, function) -> None:
    """The trace starts again with the number."""
    with pytest.raises(Restart) as caught:
        traced(function, X, symbolic={0: ("n",)})
    ((value, axis),) = caught.value.static_axes
    assert (value.type.shape, axis) == (value.type.shape, 0)
    assert not caught.value.static_leaves


def test_range_under_spec(traced) -> None:
    """There is no number to start again with."""
    with pytest.raises(ControlFlowError) as caught:
        traced(
            lambda x: [x[i] for i in range(len(x))],
            X,
            symbolic={0: ("n",)},
            spec=True,
        )
    assert "the symbolic size n has no value" in str(caught.value)
    assert "give the axis a number in tg.spec" in str(caught.value)


def test_traced_ints(traced) -> None:
    """A traced int computes; where Python needs its value, it becomes static."""
    run = traced(lambda x, k: x * k + x[k], X, 3, ints=(1,))
    np.testing.assert_allclose(run.value(X, 2), X * 2 + X[2])
    for function in (
        lambda x, k: [x[i] for i in range(k)],
        lambda x, k: x if k > 2 else -x,
        lambda x, k: x[: k + 1],
        lambda x, k: np.zeros(k),
        lambda x, k: x.reshape(k, -1),
    ):
        with pytest.raises(Restart) as caught:
            traced(function, X, 3, ints=(1,))
        assert len(caught.value.static_leaves) == 1


def test_len_is_swapped_for_the_trace_only(traced) -> None:
    """The builtin is as it was."""
    traced(lambda a: a * len(a), A, symbolic={0: ("n", 2)})
    assert "len" not in globals()
