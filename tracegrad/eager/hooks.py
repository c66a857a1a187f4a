"""Hooks on tensors and on saved tensors, and the records of anomaly detection."""

from __future__ import annotations

import traceback
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.eager.modes import _Mode, anomaly, state
from tracegrad.eager.nodes import (
    FREED,
    SAVED,
    Extras,
    Node,
    RemovableHandle,
    extras_of,
)
from tracegrad.eager.runtime import WATCHES
from tracegrad.eager.tensor import Tensor, wrap

TRACEBACK = "traceback_"  # the key of a node's metadata, as in PyTorch


# ---------------------------------------------------------------------- on tensors
def register_hook(self: Tensor, hook: Callable) -> RemovableHandle:
    """Call `hook(grad)` when the gradient of this tensor is known.

    What it returns, if not None, takes the place of the gradient.
    """
    if self._node is None:
        raise RuntimeError(
            "cannot register a hook on a tensor that doesn't require gradient"
        )
    return RemovableHandle(extras_of(self._node).tensor_hooks, hook)


def register_post_accumulate_grad_hook(self: Tensor, hook: Callable) -> RemovableHandle:
    """Call `hook(tensor)` after a gradient was added to the `.grad` of this leaf."""
    if self._node is None:
        raise RuntimeError(
            "cannot register a hook on a tensor that doesn't require gradient"
        )
    if not self.is_leaf:
        raise RuntimeError(
            "post accumulate grad hooks cannot be registered on non-leaf tensors"
        )
    return RemovableHandle(extras_of(self._node).accumulate_hooks, hook)


def retain_grad(self: Tensor) -> None:
    """Keep the gradient of this tensor, which is not a leaf, in `.grad`."""
    if self._node is None:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if self.is_leaf:
        return
    self._retains = True
    retain_in(self)


def retain_in(tensor: Tensor) -> None:
    """Let the node that makes `tensor` now fill its `.grad`."""
    extras_of(tensor._node).retain = weakref.ref(tensor)  # type: ignore[arg-type]


# -------------------------------------------------------------- on saved tensors
class saved_tensors_hooks(_Mode):
    """What is saved for backward is packed by one function and unpacked by another."""

    def __init__(self, pack_hook: Callable, unpack_hook: Callable) -> None:
        super().__init__()
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return object.__new__(cls)

    def _set(self) -> None:
        if isinstance(state.hooks, _Refused):
            raise RuntimeError(state.hooks.message)
        state.hooks = (*state.hooks, (self.pack_hook, self.unpack_hook))

    def clone(self) -> saved_tensors_hooks:
        return saved_tensors_hooks(self.pack_hook, self.unpack_hook)


class _Refused(tuple):
    """No hooks, and none are taken."""

    message = ""


class disable_saved_tensors_hooks(_Mode):
    """Forbids `saved_tensors_hooks` inside, with a message."""

    def __init__(self, error_message: str) -> None:
        super().__init__()
        self.message = error_message

    def _set(self) -> None:
        if state.hooks:
            raise RuntimeError(self.message)
        state.hooks = _Refused()
        state.hooks.message = self.message

    def clone(self) -> disable_saved_tensors_hooks:
        return disable_saved_tensors_hooks(self.message)


class Packed:
    """What a pack hook returned, and how to get the tensor back."""

    __slots__ = ("_unpack", "_value")

    def __init__(self, data: np.ndarray, pack: Callable, unpack: Callable) -> None:
        before = state.grad
        state.grad = False
        try:
            self._value = pack(wrap(data))
        finally:
            state.grad = before
        self._unpack = unpack

    def unpack(self) -> np.ndarray:
        """The array.

        Raises:
            TypeError: if the unpack hook returns something else than a tensor.
        """
        made = self._unpack(self._value)
        if not isinstance(made, Tensor):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got "
                f"result of type {type(made).__name__}"
            )
        return made._data


def _is_number(x: np.ndarray) -> bool:
    # A Python scalar's stand-in, not a tensor.
    return not x.ndim and not x.flags.writeable


def pack_saved(out: Tensor) -> None:
    """Pack what the node of a new result saves."""
    node = out._node
    if not state.hooks or node is None or not isinstance(node[SAVED], tuple):
        return
    pack, unpack = state.hooks[-1]
    node[SAVED] = tuple(
        [
            Packed(x, pack, unpack)
            if type(x) is np.ndarray and not _is_number(x)
            else x
            for x in node[SAVED]
        ]
    )
    extras_of(node).packed = True


def unpacked(node: Node) -> Node:
    """A copy of `node` that holds arrays again."""
    if node[SAVED] is FREED or node[SAVED] is None:
        return node
    twin = list(node)
    twin[SAVED] = tuple(
        [x.unpack() if isinstance(x, Packed) else x for x in node[SAVED]]
    )
    return twin


# ------------------------------------------------------------------------- anomalies
def note_place(out: Tensor) -> None:
    """Keep where a result was made, for the message about a NaN."""
    if anomaly.on and out._node is not None:
        stack = traceback.format_stack()[:-3]
        extras_of(out._node).metadata[TRACEBACK] = stack


def warn_of_place(node: Node, name: str) -> str:
    """The forward traceback of a node, as PyTorch words it."""
    extras: Extras | None = node[2]
    stack = extras.metadata.get(TRACEBACK) if extras is not None else None
    if stack is None:
        return (
            f"Error detected in {name}. No forward pass information available. Enable "
            "detect anomaly during forward pass for more information."
        )
    return (
        f"Error detected in {name}. Traceback of forward call that caused the error:\n"
        + "".join(stack)
    )


WATCHES.extend([pack_saved, note_place])
Tensor.register_hook = register_hook  # type: ignore[attr-defined]
Tensor.register_post_accumulate_grad_hook = (  # type: ignore[attr-defined]
    register_post_accumulate_grad_hook
)
Tensor.retain_grad = retain_grad  # type: ignore[attr-defined]
