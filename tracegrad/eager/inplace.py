"""Changes in place, with history: on tensors, on views, on tensors that have views.

`in_place(x, f, ...)` gives `x` the value and history of `f(x, ...)`.  On a view, the
history goes to the root as `CopySlices`: the cotangent of the root, with the part that
the view shows sent through the op's own node.  All live views of that root then get a
node that takes them out of its new history, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.eager import versions
from tracegrad.eager.dtypes import SCALAR_TYPES, from_numpy_dtype
from tracegrad.eager.hooks import retain_in
from tracegrad.eager.modes import NAMESPACE, state
from tracegrad.eager.nodes import (
    ATTRS,
    INPUTS,
    META,
    NAME,
    PULL,
    SAVED,
    SEQ,
    Node,
    extras_of,
    kept,
    next_seq,
    short_name,
)
from tracegrad.eager.runtime import (
    OWNED,
    conform,
    finish,
    graph_conform,
)
from tracegrad.eager.tensor import Tensor, wrap

OVERLAP = (
    "unsupported operation: more than one element of the written-to tensor refers to a "
    "single memory location. Please clone() the tensor before performing the operation."
)
SHARED = (
    "unsupported operation: some elements of the input tensor and the written-to "
    "tensor refer to a single memory location. Please clone() the tensor before "
    "performing the operation."
)
LEAF = "a leaf Variable that requires grad is being used in an in-place operation."


def in_place(self: Tensor, function: Callable, *args: Any, **kwargs: Any) -> Tensor:
    """Give `self` the value and the history of `function(self, *args, **kwargs)`.

    Args:
        self: the tensor to change.
        function: an out-of-place function of tensors.
        *args: its further arguments.
        **kwargs: its keyword arguments.

    Returns:
        `self`.

    Raises:
        RuntimeError: PyTorch's messages, where the change is not allowed or does not
            fit.
    """
    recording = check_allowed(self, args)
    if not recording:
        result = function(self, *args, **kwargs)
        write(self, result)
        touched(self)
        if state.push is not None:
            state.push((result,), None, (self,), {})
        return self
    before = self._node
    # What the op saves of the old value must survive.
    source = wrap(self._data.copy(), before)
    source._tangent = self._tangent
    start = next_seq()
    result = function(source, *args, **kwargs)
    write(self, result)
    node = result._node
    if node is None or node is before:
        node = None
    elif (
        node[SEQ] > start
        and state.push is None  # else its tangent hangs on the node already
        and _saves_itself(node, result._data, self._data)
    ):
        node[SEQ] = next_seq()  # what it saves is what was just written
    rebase(self, node, result._data)
    if state.push is not None:
        state.push((result,), None, (self,), {})
    return self


def check_allowed(self: Tensor, args: tuple = ()) -> bool:
    """Whether a change in place is recorded.

    Raises:
        RuntimeError: if it is not allowed.
    """
    if self._inference and not state.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed."
            "You can make a clone to get a normal tensor before doing inplace update."
            "See https://github.com/pytorch/rfcs/pull/17 for more details."
        )
    if not state.grad or self._data.dtype.kind not in "fc":
        return False
    node = self._node
    root = self._root
    if root is not None and self._made is not None:
        _refuse_view(self, args)
    if node is not None:
        if root is not None and root._node is not None and root._node[SEQ] < 0:
            raise RuntimeError(f"a view of {LEAF}")
        if node[SEQ] < 0:
            raise RuntimeError(LEAF if root is None else f"a view of {LEAF}")
        if root is not None and _shows_a_leaf(node, root._node):
            raise RuntimeError(f"a view of {LEAF}")
        return True
    return any(isinstance(a, Tensor) and a._node is not None for a in args)


def _shows_a_leaf(node: Node, root: Node | None) -> bool:
    """Whether a view was taken of a leaf that is a view itself.

    Args:
        node: of the view.
        root: that of the tensor whose memory it shows: it stands behind no view.
    """
    while node is not root and node[SEQ] > 0 and versions.is_view(node):
        if node[INPUTS][0] is None:
            return False
        node = node[INPUTS][0]
    return node[SEQ] < 0


def _refuse_view(self: Tensor, args: tuple) -> None:
    root = self._root
    recorded = any(isinstance(a, Tensor) and a._node is not None for a in args)
    if root is None or (root._node is None and not recorded):
        return
    if self._made == "no_grad":
        raise RuntimeError(
            "A view was created in no_grad mode and is being modified inplace with "
            "grad mode enabled. Given that this use case is ambiguous and error-prone, "
            "it is forbidden. You can clarify your code by moving both the view and "
            "the inplace either both inside the no_grad block (if you don't want the "
            "inplace to be tracked) or both outside (if you want the inplace to be "
            "tracked)."
        )
    name = "" if self._node is None else short_name(self._node)
    if self._made == "function":
        raise RuntimeError(
            f"Output {self.output_nr} of {name} is a view and is being modified "
            "inplace. This view was created inside a custom Function (or because an "
            "input was returned as-is) and the autograd logic to handle view+inplace "
            "would override the custom backward associated with the custom Function, "
            "leading to incorrect gradients. This behavior is forbidden. You can fix "
            "this by cloning the output of the custom Function."
        )
    raise RuntimeError(
        f"Output {self.output_nr} of {name} is a view and is being modified inplace. "
        "This view is the output of a function that returns multiple views. Such "
        "functions do not allow the output views to be modified inplace. You should "
        "replace the inplace operation by an out-of-place one."
    )


def write(self: Tensor, result: Tensor) -> None:
    """Copy a result into the memory of `self`.

    Raises:
        RuntimeError: if its shape or dtype does not fit.
    """
    data, made = self._data, result._data
    if made.shape != data.shape:
        raise RuntimeError(
            f"output with shape {list(data.shape)} doesn't match the broadcast shape "
            f"{list(made.shape)}"
        )
    if made.dtype != data.dtype:
        _check_cast(made.dtype, data.dtype)
    check_writable(data)
    data[...] = made
    versions.changed(data)


def check_writable(data: np.ndarray) -> None:
    """Refuse memory in which one place stands for several elements."""
    if any(s == 0 and n > 1 for s, n in zip(data.strides, data.shape)):
        raise RuntimeError(OVERLAP)


def overlap(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays without gaps share memory."""
    if a.base is None and b.base is None:
        return a is b
    dense = all(x.flags.c_contiguous or x.flags.f_contiguous for x in (a, b))
    return dense and np.may_share_memory(a, b)


def check_partial(data: np.ndarray, args: tuple) -> None:
    """Refuse operands that share a part of the memory that is written to."""
    for x in args:
        other = x._data
        if other is not data and overlap(data, other):
            alike = other.strides == data.strides or (
                other.flags.c_contiguous and data.flags.c_contiguous
            )
            whole = alike and other.nbytes == data.nbytes
            if not whole or other.ctypes.data != data.ctypes.data:
                raise RuntimeError(SHARED)


def _check_cast(source: np.dtype, target: np.dtype) -> None:
    order = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
    if order[source.kind] > order[target.kind]:
        names = [SCALAR_TYPES[from_numpy_dtype(d)] for d in (source, target)]
        raise RuntimeError(
            f"result type {names[0]} can't be cast to the desired output type "
            f"{names[1]}"
        )


def _saves_itself(node: Node, result: np.ndarray, memory: np.ndarray) -> bool:
    """Let a node that saved its result save the memory that it was written to.

    Returns:
        False if it saved an operand in that memory too: that one is lost.
    """
    if isinstance(node[SAVED], tuple):
        owner = versions.owner_of(memory)
        for x in node[SAVED]:
            if type(x) is np.ndarray and versions.owner_of(x) is owner:
                return False
        node[SAVED] = tuple([memory if x is result else x for x in node[SAVED]])
    return True


# -------------------------------------------------------------------------- rebasing
def rebase(self: Tensor, node: Node | None, value: np.ndarray) -> None:
    """Make `node` the history of `self`; None for a value without history.

    `self` has just been written to.
    """
    before = self._node
    if node is None:
        node = constant_node(self, None, value)
    root = self._root
    if root is None:
        versions.replaced(self._data, before, node)
        self._node = node
        if value.dtype is not self._data.dtype and value.dtype != self._data.dtype:
            extras_of(node).written = self._data.dtype
        if self._retains:
            if before is not None and before[2] is not None:
                before[2].retain = None
            retain_in(self)
    else:
        if not node[INPUTS] or node[INPUTS][0] is not before:
            node = constant_node(self, node, value)
        made = _copy_slices(root, self, node)
        if isinstance(made[SAVED], tuple) and not versions.saves_current(made):
            versions.latest.seq = next_seq()  # else no pass would look at it
        versions.replaced(self._data, root._node, made)
        root._node = made
    if NAMESPACE["special"]:
        finish(self if root is None else root)
    refresh_views(self if root is None else root)


def touched(self: Tensor) -> None:
    """After a change that is not recorded: views take a new node, as in PyTorch."""
    root: Tensor | None = self if self._root is None else self._root
    while root is not None:
        if root._views is not None and root._node is not None:
            refresh_views(root)
        root = None if root._origin is None else root._origin()


def refresh_views(root: Tensor) -> None:
    """Take the live views of `root` out of its present history."""
    for reference in root._views or ():
        view = reference()
        if view is None or view._made is not None:
            continue
        if root._node is None:
            view._node = None
            continue
        meta = (root._data.shape, root._data.dtype)
        before = view._node
        view._node = [
            pull_steps,
            next_seq(),
            None,
            (root._node,),
            None,
            meta,
            view._steps,
            None,
        ]
        versions.replaced(view._data, before, view._node)
        if view._retains:
            retain_in(view)


def constant_node(self: Tensor, source: Node | None, like: np.ndarray) -> Node:
    """A node that gives the old value zeros, and `source` all of the cotangent.

    Args:
        self: the tensor that gets the node.
        source: the node of the new value, or None.
        like: has the shape and dtype of the new value before it was fitted.
    """
    data = self._data
    meta = (data.shape, data.dtype, like.shape, like.dtype)
    inputs = (self._node, source)
    constants = (None, _value(like) if source is None else None)
    return [pull_copy, next_seq(), None, inputs, None, meta, None, None, constants]


def _value(like: np.ndarray) -> Any:
    """A constant that was written in place; one number if it is the same everywhere."""
    if like.size and like.ndim and (like == like.flat[0]).all():
        return np.asarray(like.flat[0])
    return kept(like)


def pull_copy(node: Node, ct: Any, grads: dict, graph: bool = False) -> None:
    """Backward of `old.copy_(source)`."""
    old, source = node[INPUTS]
    meta = node[META]
    if old is not None:
        zeros = np.zeros(meta[0], meta[1])
        _add(grads, old, wrap(zeros) if graph else zeros)
    if source is not None:
        fit = graph_conform if graph else conform
        _add(grads, source, fit(ct, meta[2], meta[3]))


def _pull_copy_graph(node: Node, ct: Any, grads: dict) -> None:
    pull_copy(node, ct, grads, graph=True)


pull_copy.graph = _pull_copy_graph  # type: ignore[attr-defined]
pull_copy.title = "CopyBackwards"  # type: ignore[attr-defined]
pull_copy.slots = lambda node: ()  # type: ignore[attr-defined]


def _add(grads: dict, node: Node, g: Any) -> None:
    seq = node[SEQ]
    grads[seq] = grads[seq] + g if seq in grads else g


def pull_steps(node: Node, ct: Any, grads: dict, graph: bool = False) -> None:
    """Backward of a view: through its steps, from the last to the first."""
    for entry, attrs, shape, dtype in reversed(node[ATTRS]):
        entry.prepare()
        meta = (shape, dtype)
        step = [entry.pull, 0, None, ([None, 1],), None, meta, attrs, None]
        local: dict[Any, Any] = {}
        (entry.pull.graph if graph else entry.pull)(step, ct, local)
        ct = local[1]
    _add(grads, node[INPUTS][0], ct)


def _pull_steps_graph(node: Node, ct: Any, grads: dict) -> None:
    pull_steps(node, ct, grads, graph=True)


pull_steps.graph = _pull_steps_graph  # type: ignore[attr-defined]
pull_steps.title = "AsStridedBackward0"  # type: ignore[attr-defined]
pull_steps.slots = lambda node: ()  # type: ignore[attr-defined]


def _copy_slices(root: Tensor, view: Tensor, inner: Node) -> Node:
    inputs = (root._node, *inner[INPUTS][1:])
    meta = (root._data.shape, root._data.dtype)
    attrs = (inner, view._steps)
    seq = next_seq()
    return [pull_slices, seq, None, inputs, inner[SAVED], meta, attrs, None]


def pull_slices(node: Node, ct: Any, grads: dict) -> None:
    """Backward of a change in place of a part of an array."""
    inner, steps = node[ATTRS]
    whole = np.array(ct)
    part = whole
    for entry, attrs, _, _ in steps:
        part = entry.run(part, **attrs)
    local = _pull_inner(inner[PULL], node, np.array(part))
    old = inner[INPUTS][0]
    if node[INPUTS][0] is not None:
        new_part = 0 if old is None else local.pop(old[SEQ], 0)
        if np.may_share_memory(part, whole):
            part[...] = new_part
        else:
            _write_through(whole, steps, new_part)
        _add(grads, node[INPUTS][0], whole)
    _hand_on(local, grads)


def _pull_inner(pull: Callable, node: Node, ct: Any) -> dict:
    twin = list(node[ATTRS][0])
    twin[SAVED] = node[SAVED]
    local: dict[Any, Any] = {}
    pull(twin, ct, local)
    return local


def _hand_on(local: dict, grads: dict) -> None:
    local.pop(OWNED, None)
    for seq, g in local.items():
        grads[seq] = grads[seq] + g if seq in grads else g


def _write_through(whole: np.ndarray, steps: tuple, value: Any) -> None:
    """Write where the steps lead, if they make a copy of `whole`."""
    places = np.arange(whole.size).reshape(whole.shape)
    for entry, attrs, _, _ in steps:
        places = entry.run(places, **attrs)
    whole.reshape(-1)[places] = value


def _pull_slices_graph(node: Node, ct: Any, grads: dict) -> None:
    inner, steps = node[ATTRS]
    local = _pull_inner(inner[PULL].graph, node, _follow(steps, ct).clone())
    old = inner[INPUTS][0]
    if node[INPUTS][0] is not None:
        whole = ct.clone()
        part = None if old is None else local.pop(old[SEQ], None)
        view = _follow(steps, whole)
        view.zero_() if part is None else view.copy_(part)
        _add(grads, node[INPUTS][0], whole)
    _hand_on(local, grads)


def _follow(steps: tuple, x: Tensor) -> Tensor:
    for entry, attrs, _, _ in steps:
        x = entry.eager(x, **attrs)
    return x


def _slices_slots(node: Node) -> tuple[int, ...]:
    inner = node[ATTRS][0]
    entry = getattr(inner[PULL], "entry", None)
    return (inner[PULL].slots if entry is None else entry.slots_of)(inner)


pull_slices.graph = _pull_slices_graph  # type: ignore[attr-defined]
pull_slices.title = "CopySlices"  # type: ignore[attr-defined]
pull_slices.slots = _slices_slots  # type: ignore[attr-defined]
pull_slices.inner = lambda node: node[ATTRS][0]  # type: ignore[attr-defined]


def named(out: Tensor, name: str) -> Tensor:
    """Give the `grad_fn` of a fresh result a name of its own."""
    if out._node is not None and out._node[SEQ] > 0:
        out._node[NAME] = name
    return out
