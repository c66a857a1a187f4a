"""Forward mode: tangents that travel with the tensors.

Inside of a level, every function of an op hands its result and its operands to `push`,
which gives the result a tangent.  There is one table of derivatives: a linear op is
applied to the tangents; an elementwise op's rules multiply by a diagonal matrix, their
own transpose; of any other op the rule is recorded on a cotangent that stands for all,
and pulled back once more, which transposes it.  Tangents are tensors with a history, so
that reverse mode goes through them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tracegrad.eager import modes
from tracegrad.eager.engine import Entry, entry_of
from tracegrad.eager.loop import Pass, add
from tracegrad.eager.modes import state
from tracegrad.eager.nodes import PULL, SEQ, Node
from tracegrad.eager.runtime import OUTPUTS, as_dtype, general, graph_conform, record
from tracegrad.eager.tensor import Tensor, leaf_node, wrap
from tracegrad.ops.shape import broadcast_to

NO_LEVEL = (
    "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
    "enter_dual_level() first."
)


class Level:
    """What `enter_dual_level` opens; tangents of a level that is closed are void."""


class _Current(threading.local):
    level: Level | None = None


current = _Current()


def enter() -> Level:
    """Open a level.

    Raises:
        RuntimeError: if one is open.
    """
    if current.level is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    current.level = Level()
    state.push = push
    state.tangents = {}
    modes.changed()
    return current.level


def leave(level: Any) -> None:
    """Close a level.

    Raises:
        RuntimeError: if there is none, or it is not the open one.
    """
    if current.level is None and level is None:
        raise RuntimeError("Dual level must be a positive number.")
    if current.level is None or (level is not None and level is not current.level):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was "
            "created. This is not supported."
        )
    current.level = None
    state.push = None
    state.tangents = {}
    modes.changed()


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """No tangents inside: what is computed is the tangents themselves."""
    before = state.push
    state.push = None
    modes.changed()
    try:
        yield
    finally:
        state.push = before
        modes.changed()


def tangent_of(x: Any) -> Tensor | None:
    """The tangent of a tensor at the open level."""
    held = x._tangent if isinstance(x, Tensor) else None
    return held[1] if held is not None and held[0] is current.level else None


def tangents_of(args: Any) -> list[Tensor | None] | None:
    """The tangents of some arguments; None outside of a level, or if there are none."""
    if state.push is None:
        return None
    found = [tangent_of(x) for x in args]
    return found if any(t is not None for t in found) else None


def give(x: Tensor, tangent: Tensor) -> None:
    """Make `tangent` the one of `x`."""
    x._tangent = (current.level, tangent)
    state.tangents[id(x._data)] = x._data, x._tangent


def give_all(outs: tuple, tangents: tuple) -> None:
    """Give outputs the tangents that a user's function returned for them."""
    for x, t in zip(outs, tangents):
        if isinstance(x, Tensor) and t is not None:
            give(x, t)


# ------------------------------------------------------------------------ propagation
def push(outs: tuple, entry: Any, inputs: tuple, attrs: dict[str, Any]) -> None:
    """Give `outs` the tangents that follow from those of `inputs`.

    With no entry, the only output has just been written into the only input.
    """
    if entry is None:
        with paused():
            _written(inputs[0], tangent_of(outs[0]))
        return
    given = [tangent_of(x) for x in inputs]
    if all(t is None for t in given):
        return
    if not any(x._data.dtype.kind in "fc" for x in outs):
        return
    before = state.rules
    recorded = is_recorded(*inputs, *given)
    with paused():
        state.rules = True
        try:
            made = _tangents(entry, outs, inputs, attrs, given)
            for x, t in zip(outs, made, strict=True):
                if t is not None and x._data.dtype.kind in "fc":
                    t = graph_conform(_broadcast(t, x), *_type(x))
                    give(x, t if recorded else wrap(t._data))
        finally:
            state.rules = before


def _type(x: Tensor) -> tuple[tuple, np.dtype]:
    return x._data.shape, x._data.dtype


def _broadcast(t: Any, x: Tensor) -> Tensor:
    if not isinstance(t, Tensor):
        t = wrap(np.asarray(t))
    shape = x._data.shape
    if t._data.shape == shape or t._data.size > x._data.size:
        return t
    return entry_of(broadcast_to).eager(t, shape=shape)


def _tangents(
    entry: Entry, outs: tuple, inputs: tuple, attrs: dict, given: list
) -> list[Any]:
    op = entry.op
    primals = [
        wrap(x._data, x._node)
        if isinstance(x, Tensor)
        else wrap(x)
        if isinstance(x, np.ndarray)
        else x
        for x in inputs
    ]
    results = tuple([wrap(x._data, x._node) for x in outs])
    real = all(x._data.dtype.kind != "c" for x in results) and all(
        not isinstance(x, Tensor) or x._data.dtype.kind != "c" for x in primals
    )
    own = entry.rules is op.rules
    if op.tangent is not None and own:
        t = given[0] if len(given) == 1 and not op.variadic else tuple(given)
        out = results if len(results) > 1 else results[0]
        made = op.tangent(t, out, *primals, **attrs)
        return list(made) if len(results) > 1 else [made]
    if op.linear and own and entry.elementwise is None:
        return [_linear(entry, primals, attrs, given)]
    if entry.elementwise is not None and real and len(results) == 1:
        return [_diagonal(entry, results[0], primals, attrs, given)]
    return _transposed(entry, results, primals, attrs, given)


def _linear(entry: Entry, primals: list, attrs: dict, given: list) -> Any:
    """A linear op of the tangents; inputs without one, such as indices, as they are."""
    args = []
    for k, (x, t) in enumerate(zip(primals, given)):
        if t is not None:
            args.append(t)
        elif not entry.op.is_linear_in(k) or not isinstance(x, Tensor):
            args.append(x if not entry.op.is_linear_in(k) else 0.0)
        else:
            args.append(wrap(np.zeros_like(x._data)))
    return general(entry, tuple(args), attrs)


def _diagonal(
    entry: Entry, out: Tensor, primals: list, attrs: dict, given: list
) -> Any:
    """The rules of the op applied to the tangents, and added up."""
    total: Any = None
    for k, t in enumerate(given):
        if t is None:
            continue
        if entry.rules is not None:
            rule = entry.rules[k]
            part = None if rule is None else rule(t, out, *primals, **attrs)
        else:
            part = entry.op.rule(t, out, *primals, **attrs)  # type: ignore[misc]
            part = part[k] if isinstance(part, tuple | list) else part
        if part is not None:
            total = part if total is None else total + part
    return wrap(np.zeros_like(out._data)) if total is None else total


def _transposed(
    entry: Entry, results: tuple, primals: list, attrs: dict, given: list
) -> list[Any]:
    """The transpose of the pullback, recorded on cotangents that stand for all."""
    if entry.rules is None and entry.op.rule is None:
        raise NotImplementedError(
            f"Trying to use forward AD with {entry.op.name} that does not support it "
            "because it has not been implemented yet."
        )
    cts = [wrap(np.zeros_like(x._data)) for x in results]
    leaves: list[Any] = []

    def pull() -> list:
        node, found = _stand_in(entry, results, primals, attrs, given)
        leaves.extend(t for _, t in found)
        whole: Any = dict(enumerate(cts)) if len(cts) > 1 else cts[0]
        grads: dict[Any, Any] = {}
        graph: Any = node[PULL].graph
        graph(node, whole, grads)
        return [grads.get(leaf[SEQ]) for leaf, _ in found]

    found = transpose(cts, pull, leaves)
    return [
        wrap(np.zeros_like(x._data)) if t is None else t for x, t in zip(results, found)
    ]


def transpose(cts: list[Tensor], pull: Callable, tangents: list) -> list:
    """The transpose of a pullback, applied to tangents.

    Args:
        cts: tensors without history, of the types of the results.
        pull: gives the cotangents of the inputs from them, recorded.
        tangents: one for each of these.

    Returns:
        A tangent for each of `cts`, None where nothing arrives.
    """
    with modes.enable_grad():
        for ct in cts:
            if ct._data.dtype.kind in "fc":
                ct._node = leaf_node(ct)
        made = pull()
        run = Pass(True, True)
        run.wanted = {ct._node[SEQ] for ct in cts if ct._node is not None}
        run.accumulate = False
        roots = []
        for g, t in zip(made, tangents, strict=True):
            if isinstance(g, Tensor) and g._node is not None:
                roots.append(g._node)
                add(run.grads, g._node[SEQ], t)
        run.run(roots)
    return [run.captured.get(ct._node[SEQ]) if ct._node else None for ct in cts]


def is_recorded(*tensors: Any) -> bool:
    """Whether one of them has a history and histories are kept."""
    return state.grad and any(
        isinstance(x, Tensor) and x._node is not None for x in tensors
    )


def _stand_in(
    entry: Entry, results: tuple, primals: list, attrs: dict, given: list
) -> tuple[Node, list]:
    """A node as the op would record it if all inputs with a tangent had a history."""
    complex_ = any(isinstance(x, Tensor) and x._data.dtype.kind == "c" for x in primals)
    entry = entry.prepare().for_complex() if complex_ else entry.prepare()
    leaves: list[tuple[Node, Tensor]] = []
    nodes: list[Any] = []
    for x, t in zip(primals, given):
        if t is None:
            nodes.append(None)
            continue
        source = x._node
        if source is None:
            source = leaf_node(x)
        if all(source is not have for have, _ in leaves):
            leaves.append((source, t))
        nodes.append(source)
    kind = results[0]._data.dtype
    arrays = [x._data if isinstance(x, Tensor) else as_dtype(x, kind) for x in primals]
    datas = tuple([x._data for x in results])
    out = datas if len(datas) > 1 else datas[0]
    node = record(entry, out, arrays, nodes, attrs, arrays)
    if len(datas) > 1:
        node.insert(OUTPUTS, len(datas))
    return node, leaves


# ----------------------------------------------------------------------------- in place
def _written(x: Tensor, tangent: Tensor | None) -> None:
    """Note the tangent of what was written to `x`; views share that of the root."""
    have = tangent_of(x)
    root = x._root
    if tangent is None and have is None:
        return
    if tangent is None:
        tangent = wrap(np.zeros_like(x._data))
    if tangent._data.dtype != x._data.dtype or tangent._data.shape != x._data.shape:
        tangent = tangent.to(x.dtype).expand(x.shape)
    if root is not None and have is None:
        whole = tangent_of(root)
        if whole is None:
            whole = wrap(np.zeros_like(root._data))
            give(root, whole)
        have = whole
        for entry, attrs, _, _ in x._steps:
            have = entry.eager(have, **attrs)
        give(x, have)
    if have is None or (root is None and not root_has_views(x)):
        give(x, tangent)
    else:
        have.copy_(tangent)


def root_has_views(x: Tensor) -> bool:
    """Whether a live view shows the memory of `x`."""
    return any(r() is not None for r in x._views or ())


__all__ = [
    "current",
    "enter",
    "give",
    "give_all",
    "is_recorded",
    "leave",
    "paused",
    "push",
    "tangent_of",
    "tangents_of",
    "transpose",
]
