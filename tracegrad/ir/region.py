"""Regions: graphs that a node holds, closed over what they read of the outside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracegrad.ir.graph import Const, Graph, Node, Value


@dataclass(slots=True)
class Open:
    """A part of a program that may still read values from outside of it.

    Attributes:
        name: of the region.
        before: parameters that stand before the captures.
        params: parameters that stand behind the captures.
        nodes: in execution order.
        results: what it gives.
    """

    name: str
    before: list[Value]
    params: list[Value]
    nodes: list[Node]
    results: list[Value]

    def free(self) -> Iterable[Value]:
        """The values read from outside, in order of their first use."""
        known = {*self.before, *self.params}
        for node in self.nodes:
            yield from [v for v in node.inputs if v not in known]
            known.update(node.outputs)
        yield from [v for v in self.results if v not in known]


def close(
    parts: Sequence[Open], first: Iterable[Value] = ()
) -> tuple[list[Value], tuple[Graph, ...]]:
    """Make regions that share their captures.

    Args:
        parts: the regions of one node.
        first: values that are captured in any case, in this order.

    Returns:
        The captured values, and the closed graphs.
    """
    found = dict.fromkeys(first)
    for part in parts:
        found.update(dict.fromkeys([v for v in part.free() if type(v) is not Const]))
    captured = list(found)
    graphs = []
    for part in parts:
        inner = {v: Value(v.type, v.hint, v.wrt, v.user, v.prefix) for v in captured}
        nodes, results = substituted(part.nodes, part.results, inner)
        params = [*part.before, *inner.values(), *part.params]
        graphs.append(Graph(part.name, params, nodes, results))
    return captured, tuple(graphs)


def substituted(
    nodes: Iterable[Node], results: Iterable[Value], known: Mapping[Value, Value]
) -> tuple[list[Node], list[Value]]:
    """Nodes and results that read other values."""
    made = []
    for node in nodes:
        for v in node.outputs:
            if v.wrt is not None and v.wrt in known:
                v.wrt = known[v.wrt]
        if any(v in known for v in node.inputs):
            node = node.with_inputs(tuple([known.get(v, v) for v in node.inputs]))
        made.append(node)
    return made, [known.get(v, v) for v in results]


def copied(
    nodes: Iterable[Node], results: Iterable[Value], known: dict[Value, Value]
) -> tuple[list[Node], list[Value]]:
    """Nodes and results with fresh outputs, so that both programs can stand together.

    Args:
        nodes: in execution order.
        results: of these.
        known: what stands for values from outside; gets the fresh ones too.
    """
    made = []
    for node in nodes:
        inputs = tuple([known.get(v, v) for v in node.inputs])
        for v in node.outputs:
            wrt = known.get(v.wrt, v.wrt) if v.wrt is not None else None
            known[v] = Value(v.type, v.hint, wrt, v.user, v.prefix)
        made.append(
            node.changed(inputs=inputs, outputs=tuple([known[v] for v in node.outputs]))
        )
    return made, [known.get(v, v) for v in results]


# ---------------------------------------------------------------------- what is equal
def constant_key(v: Const) -> Any:
    """Equal for constants that are the same: numbers by type and value."""
    if isinstance(v.value, np.ndarray):
        return id(v.value)
    return type(v.value).__name__, repr(v.value)


def structure(region: Graph) -> Any:
    """What is equal for regions that do the same."""
    numbers = {v: i for i, v in enumerate(region.params)}
    parts: list[Any] = []

    def read(v: Value) -> Any:
        return constant_key(v) if isinstance(v, Const) else numbers[v]

    for node in region.nodes:
        inner = tuple([structure(r) for r in node.regions])
        reads = tuple([read(v) for v in node.inputs])
        parts.append((node.op.name, reads, tuple(node.attrs.items()), inner))
        for v in node.outputs:
            numbers[v] = len(numbers)
    return tuple(parts), tuple([read(v) for v in region.results])
