"""The graph as users see it, by the names of `torch.autograd.graph`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tracegrad.eager import versions
from tracegrad.eager.hooks import disable_saved_tensors_hooks, saved_tensors_hooks
from tracegrad.eager.modes import state
from tracegrad.eager.nodes import SEQ, GradFn, RemovableHandle, wrapper_of
from tracegrad.eager.tensor import Tensor

Node = GradFn


class GradientEdge(NamedTuple):
    """An output of a node: what a tensor with a history hangs on."""

    node: GradFn
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge that the gradient of a tensor comes along.

    Raises:
        RuntimeError: if it requires no gradient.
    """
    if tensor._node is None:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not "
            "require gradients"
        )
    return GradientEdge(wrapper_of(tensor._node), tensor.output_nr)


def increment_version(tensor: Any) -> None:
    """Count one change in place of a tensor, or of several."""
    for x in (tensor,) if isinstance(tensor, Tensor) else tensor:
        versions.changed(x._data)


class save_on_cpu(saved_tensors_hooks):
    """What is saved lies in the memory of the CPU, as everything here does."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda x: x, lambda x: x)


class _Copies:
    """What `allow_mutation_on_saved_tensors` gives: the copies are its own."""

    def __init__(self) -> None:
        self.open = True

    def clear(self) -> None:
        """PyTorch's way to let go of the copies; here they go with the graph."""


class _Mutable(threading.local):
    context: _Copies | None = None


_mutable = _Mutable()


class allow_mutation_on_saved_tensors(saved_tensors_hooks):
    """Saved tensors may be changed in place inside: copies of them are saved."""

    def __init__(self) -> None:
        self._context = context = _Copies()

        def unpack(x: Tensor) -> Tensor:
            if not context.open:
                raise AssertionError(
                    "Trying to backward outside of the 'allow_mutation_on_saved_"
                    "tensors' contextin which the graph was originally recorded."
                )
            return x

        super().__init__(lambda x: x.clone(), unpack)

    def __enter__(self) -> Any:
        if _mutable.context is not None:
            raise RuntimeError(
                "allow_mutation_on_saved_tensors contexts cannot be nested"
            )
        _mutable.context = self._context
        super().__enter__()
        return self._context

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        self._context.open = False
        _mutable.context = None


# ------------------------------------------------------------------ hooks on several
class _MultiHandle(RemovableHandle):
    """Removes the hooks on all of the tensors."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Take the hooks away."""
        for handle in self.handles:
            handle.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable, *, mode: str = "all"
) -> RemovableHandle:
    """Call `fn` once in each backward pass, with the gradients of several tensors.

    Args:
        tensors: the tensors.
        fn: function of a list with a gradient, or None, for each of them; in the mode
            "any" of one gradient.
        mode: "all": when those gradients that the pass computes are known; "any": at
            the first.

    Raises:
        ValueError: for another mode.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    waiting: dict[int, list] = {}
    hook_of = _hook_for_all if mode == "all" else _hook_for_any
    return _MultiHandle(
        [
            x.register_hook(hook_of(k, tensors, fn, waiting))
            for k, x in enumerate(tensors)
        ]
    )


def _hook_for_all(
    k: int, tensors: Sequence[Tensor], fn: Callable, waiting: dict[int, list]
) -> Callable:
    seqs = [x._node[SEQ] for x in tensors]  # type: ignore[index]

    def hook(grad: Tensor) -> None:
        run = state.run
        key = id(run)
        if key not in waiting:
            count = _count(run, seqs, k)
            waiting[key] = [count, [None] * len(seqs)]
        entry = waiting[key]
        entry[0] -= 1
        entry[1][k] = grad
        if not entry[0]:
            del waiting[key]
            fn(entry[1])

    return hook


def _count(run: Any, seqs: Sequence[int], k: int) -> int:
    """How many of the tensors get a gradient in a pass; it is at the first, `k`."""
    return sum(j == k or run.visits(seq) for j, seq in enumerate(seqs))


def _hook_for_any(
    k: int, tensors: Sequence[Tensor], fn: Callable, waiting: dict[int, list]
) -> Callable:
    seqs = [x._node[SEQ] for x in tensors]  # type: ignore[index]

    def hook(grad: Tensor) -> None:
        run = state.run
        key = id(run)
        first = key not in waiting
        if first:
            waiting[key] = [_count(run, seqs, k)]
        waiting[key][0] -= 1
        if not waiting[key][0]:
            del waiting[key]
        if first:
            fn(grad)

    return hook


__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]
