"""A traced function, run as a graph and compared with NumPy itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tracegrad.ops
from tracegrad.autodiff.reverse import pull_back
from tracegrad.ir.graph import Graph, Node, Value
from tracegrad.ir.tree import Leaf, Static, build, leaves, restore
from tracegrad.ir.types import ArrayType, Dim, type_of_constant
from tracegrad.ops.evaluate import evaluate
from tracegrad.ops.record import Ref
from tracegrad.trace.tracer import Traced, trace

assert tracegrad.ops


@dataclass
class Run:
    """A trace and what is needed to run it.

    Attributes:
        traced: the trace.
        values: parameter -> data, in the order of the arguments.
        sizes: symbolic size -> where it is read.
    """

    traced: Traced
    values: dict[Value, Any]
    sizes: dict[str, tuple[Value, int]]

    @property
    def nodes(self) -> list[Node]:
        """The forward nodes."""
        return self.traced.builder.nodes

    @property
    def hints(self) -> list[str | None]:
        """The user's name of each node's output."""
        return [n.outputs[0].hint for n in self.nodes]

    @property
    def ops(self) -> list[str]:
        """The name of each node's op."""
        return [n.op.name for n in self.nodes]

    def _evaluate(self, results: list[Value], data: list[Any]) -> list[Any]:
        graph = Graph("f", list(self.values), self.nodes, results, self.sizes)
        return evaluate(graph, data)

    def value(self, *data: Any) -> Any:
        """The result in the user's structure, for the arguments or other data."""
        found = [leaf.value for leaf in leaves(self.traced.result)]
        out = self._evaluate(found, list(data) or list(self.values.values()))
        numbers = iter(out)
        return restore(self.traced.result, lambda _: next(numbers))

    def gradient(self) -> list[Any]:
        """The gradient of the only result with respect to each float parameter."""
        builder = self.traced.builder
        (out,) = [leaf.value for leaf in leaves(self.traced.result)]
        wrt = [v for v in self.values if v.type.differentiable]
        forward = list(builder.nodes)
        seed = Ref(builder.lift(1.0), builder)
        grads = pull_back(builder, forward, [out], [seed], wrt)
        some = [g.value for g in grads if g is not None]
        numbers = iter(self._evaluate(some, list(self.values.values())))
        return [
            np.zeros(v.type.shape) if g is None else next(numbers)
            for g, v in zip(grads, wrt, strict=True)
        ]


def start(
    function: Callable[..., Any],
    *args: Any,
    symbolic: dict[int, tuple] | None = None,
    ints: tuple[int, ...] = (),
    spec: bool = False,
    **kwargs: Any,
) -> Run:
    """Trace `function` on arguments.

    Args:
        function: what to trace.
        *args: arguments; arrays and floats are traced, ints are static.
        symbolic: position of an argument -> its shape, with names for sizes.
        ints: positions of ints that are traced.
        spec: whether to give the types only.
        **kwargs: arguments by name.
    """
    values: dict[Value, Any] = {}
    sizes: dict[str, tuple[Value, int]] = {}

    def tree(x: Any, position: int | None) -> Any:
        def leaf(part: Any) -> Leaf | Static:
            number = isinstance(part, float | complex | np.ndarray | np.generic)
            if not number and position not in ints:
                return Static(part)
            t = type_of_constant(part)
            names = (symbolic or {}).get(-1 if position is None else position)
            if names is not None:
                shape = tuple(Dim.named(s) if type(s) is str else s for s in names)
                t = ArrayType(shape, t.dtype)
            value = Value(t)
            for axis, size in enumerate(names or ()):
                if type(size) is str:
                    sizes.setdefault(size, (value, axis))
            values[value] = part
            return Leaf(value)

        return build(x, leaf)

    trees = [tree(x, i) for i, x in enumerate(args)]
    named = {key: tree(x, None) for key, x in kwargs.items()}
    made = trace(function, trees, named, values=None if spec else values)
    return Run(made, values, sizes)


@pytest.fixture
def traced() -> Callable[..., Run]:
    """The function that starts a trace."""
    return start


@pytest.fixture
def check() -> Callable[..., Run]:
    """Traces, and compares the graph's values with the function's own."""

    def compare(function: Callable[..., Any], *args: Any, **options: Any) -> Run:
        run = start(function, *args, **options)
        want = function(*[np.copy(x) if type(x) is np.ndarray else x for x in args])
        found = run.value()
        assert_same(found, want)
        return run

    return compare


def assert_same(found: Any, want: Any) -> None:
    """Fails unless structures, dtypes and values are equal."""
    if isinstance(want, tuple | list):
        assert type(found) is type(want)
        assert len(found) == len(want)
        for a, b in zip(found, want, strict=True):
            assert_same(a, b)
        return
    if isinstance(want, dict):
        assert found.keys() == want.keys()
        for key in want:
            assert_same(found[key], want[key])
        return
    if isinstance(want, np.ndarray | np.generic | float | int | complex):
        assert np.shape(found) == np.shape(want)
        assert np.asarray(found).dtype == np.asarray(want).dtype
        np.testing.assert_allclose(found, want, rtol=1e-12)
        return
    assert found == want
