"""What a trace depends on besides its arguments."""

import functools
import timeit

import numpy as np
from scipy.special import logsumexp

X = np.array([0.5, -1.5, 2.0])
RATE = 0.5
NAME = "sum"
TABLE = {"rate": 0.5, "w": X, "deep": [1.0, (2.0, "a")]}
DATA = np.array([1.0, 2.0, 3.0])


def helper(x):
    return x * RATE


def scaled(x, by=2.0):
    return x * by


def holds(run) -> bool:
    return all(guard() for guard in run.traced.guards)


def test_numbers_by_value(traced, monkeypatch) -> None:
    """Also those that a helper reads."""
    run = traced(lambda x: helper(x), X)
    assert holds(run)
    monkeypatch.setitem(globals(), "RATE", 0.25 + 0.25)
    assert holds(run)
    monkeypatch.setitem(globals(), "RATE", np.float64(0.5))
    assert not holds(run)
    monkeypatch.setitem(globals(), "RATE", 0.75)
    assert not holds(run)
    monkeypatch.delitem(globals(), "RATE")
    assert not holds(run)


def test_kinds_of_numbers_differ(traced, monkeypatch) -> None:
    """1 is not 1.0, nor True."""
    monkeypatch.setitem(globals(), "RATE", 1)
    run = traced(helper, X)
    monkeypatch.setitem(globals(), "RATE", 1.0)
    assert not holds(run)


def test_functions_by_identity(traced, monkeypatch) -> None:
    run = traced(lambda x: helper(x), X)
    monkeypatch.setitem(globals(), "helper", lambda x: x)
    assert not holds(run)


def test_defaults_of_what_is_traced_through(traced, monkeypatch) -> None:
    """Those of a library's function are read by no trace, and not asked for."""
    run = traced(lambda x: scaled(logsumexp(x)), X)
    (guard,) = run.traced.guards
    assert guard.describe == "unchanged: logsumexp, scaled, __defaults__"
    monkeypatch.setattr(logsumexp, "__defaults__", (0, None, False, False))
    assert holds(run)
    monkeypatch.setattr(scaled, "__defaults__", (3.0,))
    assert not holds(run)


def test_arrays_by_identity(traced, monkeypatch) -> None:
    """An array changed in place is seen by the program, which refers to it."""
    run = traced(lambda x: x * DATA, X)
    assert [g.kind for g in run.traced.guards] == ["captures"]
    (const,) = [v for v in run.nodes[0].inputs if v.hint == "DATA"]
    assert const.value is DATA
    assert not const.derived
    monkeypatch.setitem(globals(), "DATA", DATA.copy())
    assert not holds(run)


def test_containers_element_by_element(traced) -> None:
    table = {"rate": 0.5, "w": X, "deep": [1.0, (2.0, "a")]}
    run = traced(lambda x: x * table["rate"] * table["w"], X)
    assert holds(run)
    for key, value in (("rate", 0.75), ("w", X.copy()), ("deep", [1.0, (2.0, "b")])):
        before = table[key]
        table[key] = value
        assert not holds(run)
        table[key] = before
        assert holds(run)
    table["new"] = 1
    assert not holds(run)


shape = 3


def test_attributes_are_no_globals(traced, monkeypatch) -> None:
    """A global that has the name of an attribute is not read."""
    run = traced(lambda x: x * x.shape[0], X)
    monkeypatch.setitem(globals(), "shape", 4)
    assert holds(run)


def test_cells(traced) -> None:
    rate = 0.5

    def f(x):
        return x * rate

    run = traced(f, X)
    assert holds(run)
    rate = 0.75
    assert not holds(run)


class Layer:
    scale = 2.0

    def __init__(self, w):
        self.w = w
        self.calls = 0

    def __call__(self, x):
        return np.tanh(x * self.w) * self.scale


class Model:
    def __init__(self, layers):
        self.layers = layers

    @property
    def rate(self):
        return self._rate

    _rate = 0.5

    def loss(self, x):
        for layer in self.layers:
            x = layer(x)
        return np.sum(x) * self.rate


def test_attributes_of_objects(traced) -> None:
    """Of each object in reach, those whose names occur in the code."""
    model = Model([Layer(1.5), Layer(X)])
    run = traced(model.loss, X)
    assert holds(run)
    model.layers[1].calls += 1  # not read
    assert holds(run)
    model.layers[1].w = X.copy()
    assert not holds(run)
    model.layers[1].w = X
    assert holds(run)
    model.layers[0].w = 2.5
    assert not holds(run)
    model.layers[0].w = 1.5
    model._rate = 3.0
    assert not holds(run)
    del model._rate
    model.layers.append(Layer(1.0))
    assert not holds(run)
    model.layers.pop()
    assert holds(run)
    Layer.scale = 3.0
    assert not holds(run)
    Layer.scale = 2.0


def test_partial_and_callable_objects(traced) -> None:
    layer = Layer(1.5)
    run = traced(functools.partial(lambda k, x: layer(x) * k, 2.5), X)
    assert holds(run)
    layer.w = 2.0
    assert not holds(run)
    run = traced(layer, X)
    assert holds(run)
    layer.w = 3.0
    assert not holds(run)


def test_derived_arrays_by_content(traced) -> None:
    """What was computed from a captured array outside of the graph."""
    data = np.array([1.0, 2.0, 3.0])
    run = traced(lambda x: (data - data.mean()) * x, X)
    assert any(g.kind == "content" for g in run.traced.guards)
    assert holds(run)
    data[0] = 5.0
    assert not holds(run)


def test_derived_scalars_by_content(traced) -> None:
    data = np.array([1.0, 2.0, 3.0])
    run = traced(lambda x: x * data[0], X)
    assert holds(run)
    data[0] = 5.0
    assert not holds(run)


def test_branches_on_constants_by_content(traced) -> None:
    """A branch on what was computed by the swapped NumPy."""
    data = np.array([1.0, 2.0, 3.0])

    def f(x):
        return x if np.sum(data) > 5.0 else -x

    run = traced(f, X)
    assert holds(run)
    data[0] = -5.0
    assert not holds(run)


def test_results_without_a_rule_by_content(traced) -> None:
    data = np.eye(2) * 4.0
    run = traced(lambda x: x * np.packbits(data > 2.0)[0], X)
    assert holds(run)
    data[0, 0] = 1.0
    assert not holds(run)


def test_computation_on_captured_arrays_is_in_the_program(traced) -> None:
    """By the swapped NumPy, so that no guard on content is needed."""
    data = np.array([1.0, 2.0, 3.0])
    run = traced(lambda x: np.sum(np.exp(data) * x), X)
    assert all(g.kind == "captures" for g in run.traced.guards)
    data[0] = 2.0
    np.testing.assert_allclose(run.value(), np.sum(np.exp(data) * X))


def test_hint_of_a_constant(traced) -> None:
    """The user's name, of arrays in containers and of numbers."""
    run = traced(lambda x: x * TABLE["w"] + RATE, X)
    hints = {v.hint for n in run.nodes for v in n.inputs if hasattr(v, "derived")}
    assert {"w", "RATE"} <= hints


def test_cost(traced) -> None:
    """Functions that read modules and functions only."""
    (guard,) = traced(lambda x: helper(x) * np.sin(x), X).traced.guards
    best = min(timeit.repeat(guard.check, number=1000, repeat=5)) / 1000
    assert best < 5e-6


def test_self_referring_containers(traced) -> None:
    loop: list = [1.0]
    loop.append(loop)
    assert holds(traced(lambda x: x * loop[0], X))


def test_views_of_captured_arrays_are_no_copies(traced) -> None:
    """`data[1:]` shares the memory, so the program sees changes."""
    data = np.arange(4.0)
    run = traced(lambda x: x * data[1:], X)
    assert all(g.kind == "captures" for g in run.traced.guards)
    data[1] = 7.0
    np.testing.assert_allclose(run.value(), X * data[1:])


def test_names_that_no_code_spells(traced) -> None:
    """An attribute whose name is computed."""
    model = Model([])
    model.w_0 = X

    def f(x):
        return x * getattr(model, "w_" + str(0))

    run = traced(f, X)
    assert holds(run)
    assert all(g.kind == "captures" for g in run.traced.guards)
    model.w_0 = X.copy()
    assert not holds(run)


def test_special_numbers(traced) -> None:
    """NaN is NaN; 0.0 is not -0.0."""
    table = {"a": float("nan"), "b": 0.0}
    run = traced(lambda x: x * table["a"] + table["b"], X)
    table["a"] = float("nan")
    assert holds(run)
    table["a"] = 1.0
    assert not holds(run)
    table.update(a=float("nan"), b=-0.0)
    assert not holds(run)
