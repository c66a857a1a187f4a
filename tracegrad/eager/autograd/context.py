"""The context of an `autograd.Function`, and the tensors that it saves."""

from __future__ import annotations

import warnings
import weakref
from typing import Any

from tracegrad.eager import modes, versions
from tracegrad.eager.hooks import Packed
from tracegrad.eager.modes import state
from tracegrad.eager.nodes import ALREADY_FREED, ATTRS, FREED, SAVED, SEQ, Node
from tracegrad.eager.runtime import output_node
from tracegrad.eager.tensor import Tensor, wrap


class FunctionCtx:
    """What `forward`, `setup_context`, `backward` and `jvp` get as `ctx`.

    Attributes are the user's; those below have a meaning.

    Attributes:
        needs_input_grad: for each argument whether it requires a gradient.
        materialize_grads: whether zeros stand in for gradients that are None.
    """

    needs_input_grad: tuple[bool, ...] = ()
    materialize_grads = True
    to_save: tuple = ()
    saved_for_forward: tuple = ()
    dirty_tensors: tuple = ()
    non_differentiable: tuple = ()
    _saved: Any = ()  # what the node saves, while backward runs

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save tensors, or None, for `backward`; each call replaces the last."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Save tensors, or None, for `jvp`."""
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Say which inputs `forward` has changed in place."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Say which outputs have no gradient."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` gets zeros in place of None."""
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What was saved.

        Raises:
            RuntimeError: if it was freed, or changed in place since.
        """
        if self._saved is FREED:
            raise RuntimeError(ALREADY_FREED)
        return tuple([None if x is None else x.unpack() for x in self._saved])

    @property
    def saved_variables(self) -> tuple[Tensor | None, ...]:
        """`saved_tensors` by its name of old."""
        warnings.warn(
            "'saved_variables' is deprecated; use 'saved_tensors'",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.saved_tensors


class Saved:
    """One tensor that a node saves: its memory and where it came from.

    Attributes:
        tensor: a leaf itself, since it has no history that leads back to the node.
        data: the array of any other tensor, or a `Packed`.
        source: the node behind it; None for an output of the function.
        output: the number of the output, or None.
    """

    __slots__ = ("data", "output", "source", "tensor", "weak")

    def __init__(self, x: Tensor, output: int | None) -> None:
        self.tensor = x if x.is_leaf and output is None else None
        self.output = output
        self.weak = weakref.ref(x)  # for the message: its history may have moved on
        self.source = None if output is not None else x._node
        self.data: Any = x._data
        if state.hooks:
            self.data = Packed(x._data, *state.hooks[-1])
            self.tensor = None

    def unpack(self, node: Node) -> Tensor:
        """The tensor; `node` is the one that saved it."""
        source = self.source
        if self.output is not None:
            several = len(node[ATTRS].types) > 1
            source = output_node(node, self.output) if several else node
        if isinstance(self.data, Packed):
            return wrap(self.data.unpack(), source)
        if not versions.is_current(self.data, node[SEQ]):
            x = self.weak()
            if x is not None and self.output is None:
                source = x._node
            raise versions.changed_error(self.data, node[SEQ], source, modes.anomaly.on)
        return wrap(self.data, source) if self.tensor is None else self.tensor


class Opened:
    """A saved tensor with its node, as the context sees it while `backward` runs."""

    __slots__ = ("node", "saved")

    def __init__(self, saved: Saved, node: Node) -> None:
        self.saved, self.node = saved, node

    def unpack(self) -> Tensor:
        """The tensor."""
        return self.saved.unpack(self.node)


class Kept:
    """A tensor saved for `jvp`, which runs at once."""

    __slots__ = ("x",)

    def __init__(self, x: Tensor) -> None:
        self.x = x

    def unpack(self) -> Tensor:
        """The tensor."""
        return self.x


def opened(node: Node) -> Any:
    """What the context shows as saved, for as long as it may."""
    saved = node[SAVED]
    if not isinstance(saved, tuple):
        return FREED if saved is FREED else ()
    return tuple([None if s is None else Opened(s, node) for s in saved])


__all__ = ["FunctionCtx", "Kept", "Saved", "opened"]
