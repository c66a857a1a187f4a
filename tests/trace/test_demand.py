"""Values on demand: what Python asks for is computed and guarded."""

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import ControlFlowError, ConversionError, UntracedBranch
from tracegrad.ir.graph import Graph
from tracegrad.ops.evaluate import evaluate
from tracegrad.trace import demand

X = np.array([0.5, -1.5, 2.0])


def guards(run) -> list:
    """The outcomes of the guards, in order."""
    return [n.attrs["outcome"] for n in run.nodes if n.op.guards]


@pytest.mark.parametrize(
    ("function", "outcomes"),
    [
        (lambda x: x if x[0] > 0 else -x, [True]),
        (lambda x: x if x[0] < 0 else -x, [False]),
        (lambda x: x if x[0] > 0 and x[1] > 0 else -x, [True, False]),
        (lambda x: x if x[0] > 0 or x[1] > 0 else -x, [True]),
        (lambda x: x if not x[1] else -x, [True]),
        (lambda x: x * int(x[2]), [2]),
        (lambda x: x * int(x[1]), [-1]),
        (lambda x: [v * x for v in (1.0, 2.0, 3.0)][np.argmax(x)], [2]),
        (lambda x: sum(x * k for k in range(int(np.sum(x > 0)))), [2]),
        (lambda x: max(list(x)), [False, True]),
        (lambda x: min(x[0], x[1], x[2]), [True, False]),
        (lambda x: x[: int(x[2])], [2]),
        (lambda x: np.zeros(int(x[2])) + x[:2], [2]),
        (lambda x: x if (x[:1] > 0) else -x, [True]),
        (lambda x: x if x[0] > 0 and x[0] > 0 else -x, [True]),
        (lambda x: x if np.any(x > 1) else -x, [True]),
    ],
)
def test_outcomes(check, function, outcomes) -> None:
    assert guards(check(function, X)) == outcomes


def test_sorted_compares_as_the_python_at_hand_does(check) -> None:
    assert len(guards(check(sorted, X))) >= len(X) - 1


def test_while(check) -> None:
    def f(x):
        y = x[2]
        n = 0
        while y < 20 and n < 10:
            y = y * y
            n += 1
        return y * n

    assert guards(check(f, X)) == [True, True, True, False]


def test_branches_that_differ_inside_only_are_two_questions(check) -> None:
    def f(x):
        one = tg.cond(x[0] > 0, lambda v: v, lambda v: -v, x[1])
        other = tg.cond(x[0] > 0, lambda v: -v, lambda v: v, x[1])
        if one > 0:
            x = x * 2.0
        return x * 3.0 if other > 0 else x

    assert guards(check(f, X)) == [False, True]


def test_a_program_refuses_other_calls(traced) -> None:
    run = traced(lambda x: x if x[0] > 0 else -x, X)
    results = [run.traced.result.value]
    graph = Graph("f", list(run.values), run.nodes, results)
    assert evaluate(graph, [X])[0] is X
    with pytest.raises(UntracedBranch, match="only traced where the test is True"):
        evaluate(graph, [-X])


def test_the_truth_of_many(traced) -> None:
    with pytest.raises(ValueError, match="ambiguous"):
        traced(lambda x: x if x > 0 else -x, X)
    with pytest.raises(TypeError):
        traced(lambda x: x * int(x), X)
    with pytest.raises(AssertionError, match="negative"):
        traced(_asserting, -X)


def _asserting(x):
    assert x[0] > 0, "negative"
    return x


def test_no_guard_on_constants(check) -> None:
    assert guards(check(lambda x: x if np.sum(np.ones(3)) > 2 else -x, X)) == []


def test_values_are_computed_once(traced, monkeypatch) -> None:
    ran = []
    original = demand.run_nodes

    def run_nodes(nodes, data, sizes):
        ran.extend(nodes)
        original(nodes, data, sizes)

    monkeypatch.setattr(demand, "run_nodes", run_nodes)

    def f(x):
        y = x[0]
        while y < 1e6:
            y = 2.0 * y + 1.0
        return y

    run = traced(f, X)
    assert len(ran) == len(set(map(id, ran))) <= len(run.nodes)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: float(x[0]) * x,
        lambda x: x[0].item() * x,
        lambda x: x.item(1) * x,
        lambda x: x.reshape(3, 1).item(1, 0) * x,
        lambda x: float(x[:1].sum()) * np.float32(2.0),
        lambda x: x.tolist(),
        lambda x: np.outer(x, x).tolist(),
        lambda x: x[np.argmax(x)].item(),
    ],
)
def test_numbers_stay_traced(check, function) -> None:
    run = check(function, X)
    assert guards(run) == []
    again = run.value(2.0 * X)
    np.testing.assert_allclose(again, function(2.0 * X))


def test_integers_of_arrays_are_guarded(check) -> None:
    assert guards(check(lambda x: np.argmax(x).item() * x, X)) == [2]


def test_float_is_not_swapped_where_it_is_a_type(traced) -> None:
    def f(x):
        assert isinstance(0.5, float)
        return float(x[0])

    with pytest.raises(ConversionError, match="a Python float"):
        traced(f, X)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: tg.fori_loop(0, 3, lambda i, v: v * [1.0, 2.0, 3.0][i], x[0]),
        lambda x: tg.cond(x[0] > 0, lambda v: v * int(v), lambda v: v, x[0]),
    ],
)
def test_numbers_inside_of_a_body(traced, f) -> None:
    with pytest.raises(ControlFlowError, match="inside of the body of a loop"):
        traced(f, X)
