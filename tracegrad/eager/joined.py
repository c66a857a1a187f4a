"""Functions of `tg.compile` and the like, called with tensors: one node of the graph.

The generated code runs on the tensors' arrays.  Where one of them has a history, the
generated VJP is the node: its pullback is what the node saves.  In forward mode the
pullback, which is linear, is transposed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import optree

from tracegrad.eager import dual, modes
from tracegrad.eager.nodes import (
    ATTRS,
    INPUTS,
    META,
    SAVED,
    Node,
    next_seq,
)
from tracegrad.eager.runtime import (
    add_to,
    conform,
    graph_add,
    graph_conform,
    output_node,
    outputs_of,
)
from tracegrad.eager.tensor import Tensor, wrap
from tracegrad.ops.define import CALLS


class _Call:
    """One call.

    Attributes:
        flat: the function and its derivatives, of all leaves in a row.
        leaves: arrays in the place of tensors.
        active: numbers of the leaves that are differentiated.
        name: of the function.
        spec: the structure of the result.
        types: shape and dtype of each leaf of the result.
    """

    def __init__(self, flat: Any, leaves: list, active: tuple, name: str) -> None:
        self.flat = flat
        self.leaves = leaves
        self.active = active
        self.name = name
        self.spec: Any = None
        self.types: list[tuple] = []


def join(name: str, flat_of: Callable, args: tuple, kwargs: dict) -> Any:
    """Call a compiled function with tensors among its arguments.

    Args:
        name: of the function.
        flat_of: gives its derivatives for arguments of one structure.
        args: its arguments; tensors may stand anywhere in them.
        kwargs: its keyword arguments.

    Returns:
        Its result, tensors in the place of arrays.
    """
    whole: Any = (args, kwargs)
    given: list[Any]
    given, spec = optree.tree_flatten(whole, none_is_leaf=True)
    tangents = dual.tangents_of(given)
    if tangents is None:
        return _run(name, flat_of, given, spec)
    with dual.paused():
        result = _run(name, flat_of, given, spec)
        _push(flat_of, given, spec, tangents, result)
    return result


def _run(name: str, flat_of: Callable, given: list, spec: Any) -> Any:
    active = tuple(
        [
            k
            for k, x in enumerate(given)
            if isinstance(x, Tensor) and x._node is not None and modes.state.grad
        ]
    )
    leaves = [x._data if isinstance(x, Tensor) else x for x in given]
    flat = flat_of(spec, active)
    if not active:
        return optree.tree_map(_tensor, flat.value(*leaves))
    run = _Call(flat, leaves, active, name)
    value, pullback = flat.vjp(*leaves)
    outs, run.spec = optree.tree_flatten(value)
    # The pullback may read the result: what the user changes is a copy.
    made = [np.array(x) if isinstance(x, np.ndarray | np.generic) else x for x in outs]
    run.types = [(np.shape(x), np.asarray(x).dtype) for x in made]
    node = _record(run, pullback, given, len(made))
    results = []
    for number, x in enumerate(made):
        x = _tensor(x)
        if isinstance(x, Tensor) and x._data.dtype.kind in "fc":
            x._node = output_node(node, number)
        results.append(x)
    return optree.tree_unflatten(run.spec, results)


def _push(
    flat_of: Callable, given: list, spec: Any, tangents: list, result: Any
) -> None:
    """Give the results their tangents."""
    active = tuple([k for k, t in enumerate(tangents) if t is not None])
    flat = flat_of(spec, active)
    outs = [x for x in optree.tree_leaves(result) if isinstance(x, Tensor)]
    cts = [wrap(np.zeros_like(x._data)) for x in outs]
    some = [tangents[k] for k in active]
    recorded = dual.is_recorded(*given, *some)
    made = dual.transpose(cts, lambda: flat.pullback(*given, *cts), some)
    for x, t in zip(outs, made, strict=True):
        if x._data.dtype.kind in "fc":
            t = wrap(np.zeros_like(x._data)) if t is None else t
            dual.give(x, t if recorded else wrap(t._data))


def _tensor(x: Any) -> Any:
    return wrap(np.asarray(x)) if isinstance(x, np.ndarray | np.generic) else x


def _record(run: _Call, pullback: Any, given: list, count: int) -> Node:
    sources = [given[k] for k in run.active]
    meta = tuple([part for x in sources for part in (x._data.shape, x._data.dtype)])
    inputs = tuple([x._node for x in sources])
    # The pullback reads the others too: they must not change before it runs.
    others = [
        x._data
        for k, x in enumerate(given)
        if isinstance(x, Tensor) and k not in run.active
    ]
    saved = (pullback, *[x._data for x in sources], *others)
    return [_pull, next_seq(), None, inputs, saved, meta, run, None, count, None]


def _cotangents(node: Node, ct: Any) -> list:
    run: _Call = node[ATTRS]
    parts = outputs_of(node, ct if type(ct) is dict else {0: ct})
    return [
        np.zeros(shape, dtype) if part is None else part
        for part, (shape, dtype) in zip(parts, run.types, strict=True)
    ]


def _pull(node: Node, ct: Any, grads: dict) -> None:
    """Backward by the generated pullback."""
    pullback, *_ = node[SAVED]
    run: _Call = node[ATTRS]
    parts = _cotangents(node, ct)
    made = pullback(optree.tree_unflatten(run.spec, parts))
    meta = node[META]
    for k, (source, g) in enumerate(zip(node[INPUTS], made, strict=True)):
        if source is not None:
            g = conform(np.asarray(g), meta[2 * k], meta[2 * k + 1])
            add_to(grads, source, g)


def _pull_graph(node: Node, ct: Any, grads: dict) -> None:
    """The same recorded: the pullback is a compiled function too, and joins."""
    _, *arrays = node[SAVED]
    run: _Call = node[ATTRS]
    leaves = list(run.leaves)
    for k, array, source in zip(run.active, arrays, node[INPUTS]):
        leaves[k] = wrap(array, source)
    parts = [p if isinstance(p, Tensor) else wrap(p) for p in _cotangents(node, ct)]
    made = run.flat.pullback(*leaves, *parts)
    meta = node[META]
    for k, (source, g) in enumerate(zip(node[INPUTS], made, strict=True)):
        if source is not None:
            graph_add(grads, source, graph_conform(g, meta[2 * k], meta[2 * k + 1]))


_pull.graph = _pull_graph  # type: ignore[attr-defined]
_pull.title = lambda node: f"{node[ATTRS].name}Backward"  # type: ignore[attr-defined]
# The pullback reads what the function was called with.
_pull.slots = lambda node: (0, *range(len(node[SAVED]) - 1))  # type: ignore[attr-defined]
CALLS[Tensor] = join
