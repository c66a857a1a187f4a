"""The backward loop: nodes by sequence number, hooks and captures on the way.

Nodes that can be reached are collected, then run from the highest number down, so that
each has all of its cotangent when it runs; the order is PyTorch's.  A leaf runs right
after its last consumer.  All state is local, so that a hook may start another pass and
threads may share a graph.
"""

from __future__ import annotations

import sys
import threading
import warnings
from typing import Any

import numpy as np

from tracegrad.eager import modes, versions
from tracegrad.eager.hooks import unpacked, warn_of_place
from tracegrad.eager.nodes import (
    ATTRS,
    EXTRAS,
    FREED,
    INPUTS,
    OUTPUTS,
    PULL,
    SAVED,
    SEQ,
    Extras,
    Node,
    name_of,
)
from tracegrad.eager.tensor import Tensor, wrap
from tracegrad.ops.select import conj

_lock = threading.Lock()  # two threads may add to one leaf


def _references(x: Any) -> int:
    return sys.getrefcount(x)


# How many references an array has in a called function if nobody else holds it.
_ALONE = _references(np.empty(1))


def owned(ct: Any) -> np.ndarray:
    """The gradient for a leaf: a cotangent that only the caller's one name holds."""
    if ct.dtype.kind == "c":
        ct = np.conj(ct)
    # Beside the caller's, one reference is this function's own.
    if sys.getrefcount(ct) > _ALONE + 1 or ct.base is not None:
        ct = np.array(ct)
    return ct


def own(ct: Any) -> np.ndarray:
    """A cotangent as an array that may be written to later."""
    return np.array(ct)


# ------------------------------------------------------------- across the boundary
def to_user(ct: Any) -> Tensor:
    """A cotangent as the tensor that PyTorch's user sees: conjugated."""
    if isinstance(ct, Tensor):
        return conj(ct) if ct._data.dtype.kind == "c" else ct
    if ct.dtype.kind == "c":
        ct = np.conj(ct)
    return wrap(np.asarray(ct))


def from_user(grad: Tensor, create: bool) -> Any:
    """A user's gradient as a cotangent of the rules."""
    if grad._data.dtype.kind == "c":
        return conj(grad) if create else np.conj(grad._data)
    return grad if create else grad._data


# ----------------------------------------------------------------------- the loop
class Pass:
    """One backward pass.

    Attributes:
        grads: sequence number -> cotangent collected so far.
        retain: whether what is saved stays.
        create: whether the pass is recorded itself; cotangents are tensors then.
        wanted: sequence numbers of nodes whose cotangent is captured, or None.
        captured: what was captured.
        safe: whether a mask was passed, see `Extras.masks`.
        accumulate: whether leaves (those in `wanted`, if given) add to `.grad`.
        needed: sequence numbers of the nodes on a way to a wanted one, or None.
        check: whether something was changed in place since the oldest node was made.
        nodes: those not yet run.
        leaves: by the number of the node after which they are run.
    """

    wanted: set[int] | None = None
    accumulate = True
    needed: set[int] | None = None
    check = False
    safe = False
    nodes: dict[int, Node]
    leaves: dict[Any, list[Node]]

    def __init__(self, retain: bool, create: bool) -> None:
        self.grads: dict[Any, Any] = {}
        self.captured: dict[int, Any] = {}
        self.retain = retain
        self.create = create

    def visits(self, seq: int) -> bool:
        """Whether the pass comes to a node, or is there, or will hand it a cotangent.

        Asked by the hooks of tensors before any of them has run.
        """
        if self.wanted is not None and seq not in self.wanted:
            return self.needed is not None and seq in self.needed
        leaves = (leaf[SEQ] for some in self.leaves.values() for leaf in some)
        return seq in self.nodes or seq in self.grads or seq in leaves

    def run(self, roots: list[Node]) -> None:
        """Run all nodes behind `roots`, whose cotangents are in `grads`."""
        nodes, ready = collect(roots)
        self.nodes, self.leaves = nodes, ready
        order = sorted(nodes)
        if self.wanted is not None:
            self.needed = _needed(nodes, order, self.wanted)
        self.check = bool(order) and versions.latest.seq > order[0]
        careful = self.create or self.wanted is not None or modes.anomaly.on
        grads, free = self.grads, not self.retain
        for leaf in ready.pop(None, ()):
            self.leaf(leaf, grads.pop(leaf[SEQ], None), True)
        while order:
            seq = order.pop()
            node = nodes.pop(seq)
            ct = grads.pop(seq, None)
            if ct is not None:
                if careful or node[EXTRAS] is not None:
                    self.step(node, ct)
                    careful = careful or self.safe
                else:
                    if node[SAVED] is not None:
                        if self.check:
                            self.verify(node)
                        node[PULL](node, ct, grads)
                        if free:
                            node[SAVED] = FREED
                    else:
                        node[PULL](node, ct, grads)
            if seq in ready:
                for leaf in ready[seq]:
                    if careful or leaf[EXTRAS] is not None:
                        self.leaf(leaf, grads.pop(leaf[SEQ], None))
                        continue
                    ct = grads.pop(leaf[SEQ], None)
                    tensor = leaf[ATTRS]()
                    if ct is not None and tensor is not None:
                        if tensor._node is not None:
                            accumulate(tensor, owned(ct))

    def verify(self, node: Node) -> None:
        """Raise if something that `node` saved or watches was changed in place."""
        versions.check_watched(node, modes.anomaly.on)
        if node[SAVED] is not None and node[SAVED] is not FREED:
            entry = getattr(node[PULL], "entry", None)
            slots = node[PULL].slots(node) if entry is None else entry.slots_of(node)
            versions.check(node, slots, modes.anomaly.on)

    # ------------------------------------------------------------- the careful way
    def step(self, node: Node, ct: Any) -> None:
        """Run one node with its hooks, capture, check, recorded if asked."""
        extras = node[EXTRAS]
        seq = node[SEQ]
        if extras is not None:
            ct = self.tensor_hooks(extras, ct)
        if self.wanted is not None and seq in self.wanted:
            self.captured[seq] = ct
        if self.needed is not None and seq not in self.needed:
            return
        if extras is not None and extras.node_prehooks:
            ct = self.node_prehooks(extras, node, ct)
        if self.check:
            self.verify(node)
        twin = unpacked(node) if extras is not None and extras.packed else node
        pull = node[PULL].graph if self.create else node[PULL]
        if self.safe and not self.create and hasattr(pull, "entry"):
            pull = pull.entry.safe_pull()
        if extras is not None and extras.masks:
            self.safe = True
        watched = modes.anomaly.on or (extras is not None and extras.node_hooks)
        if watched:
            self.pull_watched(pull, node, twin, ct)
        else:
            pull(twin, ct, self.grads)
        if not self.retain:
            if extras is not None:
                extras.watched = ()
            if node[SAVED] is not None:
                node[SAVED] = FREED

    def tensor_hooks(self, extras: Extras, ct: Any) -> Any:
        """Call the hooks of a tensor on its gradient, and keep it if asked."""
        for hook in list(extras.tensor_hooks.values()):
            with modes.set_grad_enabled(self.create):
                made = hook(to_user(ct))
            if made is not None:
                ct = from_user(_as_grad(hook, made, to_user(ct)), self.create)
        tensor = None if extras.retain is None else extras.retain()
        if tensor is not None:
            grad = to_user(ct) if self.create else wrap(own(to_user(ct)._data))
            have = tensor._grad
            if have is not None:
                with modes.set_grad_enabled(self.create):
                    grad = have + grad
            tensor._grad = grad
        return ct

    def node_prehooks(self, extras: Extras, node: Node, ct: Any) -> Any:
        """Call the hooks that a `grad_fn` has for before it runs."""
        several = type(ct) is dict
        cts = [ct.get(i) for i in range(node[OUTPUTS])] if several else [ct]
        for hook in list(extras.node_prehooks.values()):
            grads = tuple([None if c is None else to_user(c) for c in cts])
            with modes.set_grad_enabled(self.create):
                made = hook(grads)
            if made is not None:
                made = made if isinstance(made, tuple) else (made,)
                cts = [None if g is None else from_user(g, self.create) for g in made]
        if several:
            return {i: c for i, c in enumerate(cts) if c is not None}
        return cts[0]

    def pull_watched(self, pull: Any, node: Node, twin: Node, ct: Any) -> None:
        """Pull with each input's cotangent apart, for hooks and for anomalies."""
        real = node[INPUTS]
        try:
            parts = self.parts(pull, twin, ct)
        except Exception:
            if modes.anomaly.on:
                _warn(node)
            raise
        if modes.anomaly.on and modes.anomaly.check_nan:
            _find_nan(node, parts)
        extras = node[EXTRAS]
        if extras is not None and extras.node_hooks:
            parts = self.node_hooks(extras, parts, ct)
        for source, g in zip(real, parts):
            if source is not None and g is not None:
                add(self.grads, source[SEQ], g)

    def parts(self, pull: Any, twin: Node, ct: Any) -> list:
        """The cotangent of each input; the parts of equal inputs are not added up."""
        if hasattr(pull, "parts"):
            return pull.parts(twin, ct)
        real = twin[INPUTS]
        parts: list[Any] = []
        for k, source in enumerate(real):
            if source is None:
                parts.append(None)
                continue
            # One input at a time, since two may be the same node.
            alone = list(twin)
            alone[INPUTS] = tuple([s if i == k else None for i, s in enumerate(real)])
            local: dict[Any, Any] = {}
            if self.create:
                self.graph_alone(pull, twin, k, ct, local)
            else:
                pull(alone, ct, local)
            parts.append(local.get(source[SEQ]))
        return parts

    def graph_alone(self, pull: Any, twin: Node, k: int, ct: Any, local: dict) -> None:
        """Pull on tensors, and keep only what input `k` gets."""
        # Rebuilding needs the true inputs: an alias stands in for equal ones.
        real = twin[INPUTS]
        pull(twin, ct, local)
        same = [i for i, s in enumerate(real) if s is real[k]]
        if len(same) > 1 and k != same[0]:
            local.pop(real[k][SEQ], None)

    def node_hooks(self, extras: Extras, parts: list, ct: Any) -> list:
        """Call the hooks that a `grad_fn` has for after it ran."""
        cts = list(ct.values()) if type(ct) is dict else [ct]
        outputs = tuple([to_user(c) for c in cts])
        for hook in list(extras.node_hooks.values()):
            inputs = tuple([None if p is None else to_user(p) for p in parts])
            with modes.set_grad_enabled(self.create):
                made = hook(inputs, outputs)
            if made is not None:
                made = made if isinstance(made, tuple) else (made,)
                parts = [None if g is None else from_user(g, self.create) for g in made]
        return parts

    # ------------------------------------------------------------------------ leaves
    def leaf(self, node: Node, ct: Any, root: bool = False) -> None:
        """Add a cotangent to the `.grad` of a leaf, or capture it.

        The hooks of a root are called also if nobody wants its gradient.
        """
        if ct is None:
            return
        extras = node[EXTRAS]
        if self.wanted is not None and node[SEQ] not in self.wanted:
            if root and extras is not None:
                self.tensor_hooks(extras, ct)
            return
        if extras is not None:
            ct = self.tensor_hooks(extras, ct)
        if self.wanted is not None:
            self.captured[node[SEQ]] = ct
            if not self.accumulate:
                return
        tensor = node[ATTRS]()
        if tensor is None or tensor._node is None:
            return  # nobody can look at its gradient any more, or wants one
        if self.create:
            have = tensor._grad
            tensor._grad = to_user(ct) if have is None else have + to_user(ct)
        else:
            accumulate(tensor, owned(ct))
        if extras is not None:
            for hook in list(extras.accumulate_hooks.values()):
                with modes.set_grad_enabled(self.create):
                    hook(tensor)


def accumulate(tensor: Tensor, ct: np.ndarray) -> None:
    """Add an array that nobody else holds to the `.grad` of a leaf."""
    with _lock:
        have = tensor._grad
        if have is None:
            tensor._grad = wrap(ct)
            return
        data = have._data
        if data.flags.writeable:
            np.add(data, ct, out=data, casting="unsafe")
            versions.changed(data)
        else:
            have._data = data + ct


def add(grads: dict, seq: int, g: Any) -> None:
    """Add a cotangent of the output of the node `seq`."""
    grads[seq] = grads[seq] + g if seq in grads else g


def collect(roots: list[Node]) -> tuple[dict[int, Node], dict[Any, list[Node]]]:
    """The nodes that can be reached, and the leaves by the node they run after."""
    nodes: dict[int, Node] = {}
    last: dict[int, Any] = {}
    leaves: dict[int, Node] = {}
    stack = []
    for node in roots:
        if node[SEQ] < 0:
            leaves[node[SEQ]] = node
            last[node[SEQ]] = None
        else:
            stack.append(node)
    while stack:
        node = stack.pop()
        seq = node[SEQ]
        if seq in nodes:
            continue
        nodes[seq] = node
        for source in node[INPUTS]:
            if source is None:
                continue
            s = source[SEQ]
            if s >= 0:
                if s not in nodes:
                    stack.append(source)
            elif s not in last:
                last[s] = seq
                leaves[s] = source
            elif last[s] is None or seq < last[s]:
                last[s] = seq
    ready: dict[Any, list[Node]] = {}
    for s, consumer in last.items():
        ready.setdefault(consumer, []).append(leaves[s])
    for consumer, some in ready.items():
        if len(some) > 1 and consumer is not None:
            inputs = list(map(id, nodes[consumer][INPUTS]))
            some.sort(key=lambda leaf: inputs.index(id(leaf)))
    return nodes, ready


def _needed(nodes: dict, order: list[int], wanted: set[int]) -> set[int]:
    """The nodes on a way from a root to a wanted node, the last ones left out."""
    needed: set[int] = set()
    for seq in order:
        for source in nodes[seq][INPUTS]:
            if source is not None and (source[SEQ] in wanted or source[SEQ] in needed):
                needed.add(seq)
                break
    return needed


def _as_grad(hook: Any, made: Any, like: Tensor) -> Tensor:
    if not isinstance(made, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(made).__name__}'")
    if made._data.shape != like._data.shape:
        raise RuntimeError(
            f"hook '{getattr(hook, '__name__', '')}' has changed the size of value"
        )
    return made


def _warn(node: Node) -> None:
    warnings.warn(warn_of_place(node, name_of(node)), UserWarning, stacklevel=2)


def _find_nan(node: Node, parts: list) -> None:
    for number, g in enumerate(parts):
        data = g._data if isinstance(g, Tensor) else g
        if data is not None and np.isnan(data).any():
            _warn(node)
            raise RuntimeError(
                f"Function '{name_of(node)}' returned nan values in its {number}th "
                "output."
            )
