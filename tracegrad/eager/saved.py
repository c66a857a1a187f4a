"""What a `grad_fn` shows of what its node saves: `_saved_self`, `_saved_result`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.eager.hooks import Packed
from tracegrad.eager.nodes import (
    ALREADY_FREED,
    ATTRS,
    FREED,
    INPUTS,
    META,
    SAVED,
    Node,
    extras_of,
    is_leaf_node,
    name_of,
)
from tracegrad.eager.numeric import OUT
from tracegrad.eager.runtime import saved_slots
from tracegrad.eager.tensor import Size, Tensor, wrap

# PyTorch's name of the second operand, by the name of the `grad_fn`; else "other".
SECOND = {"Pow": "exponent", "Mm": "mat2", "Bmm": "mat2", "Mv": "vec", "Dot": "tensor"}
# The names of attributes, PyTorch's and ours.
ATTRIBUTES = {"dim": "axis", "keepdim": "keepdims"}


class SavedTensor:
    """One saved tensor, with `register_hooks`."""

    def __init__(self, node: Node, at: int) -> None:
        self._node, self._at = node, at

    def register_hooks(self, pack_hook: Callable, unpack_hook: Callable) -> None:
        """Pack what is saved by one function and unpack it by another."""
        node = self._node
        _refuse_freed(node)
        saved = list(node[SAVED])
        if isinstance(saved[self._at], Packed):
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already "
                "been set. Hint: only one pair of hooks is allowed at a time."
            )
        saved[self._at] = Packed(saved[self._at], pack_hook, unpack_hook)
        node[SAVED] = tuple(saved)
        extras_of(node).packed = True


def _refuse_freed(node: Node) -> None:
    if node[SAVED] is FREED:
        raise RuntimeError(ALREADY_FREED)


def saved_attribute(entry: Any, node: Node, name: str) -> Any:
    """`grad_fn._saved_<name>` or `_raw_saved_<name>`.

    Raises:
        AttributeError: if the op has nothing of that name.
        RuntimeError: if it was freed.
    """
    raw = name.startswith("_raw_saved_")
    short = name.removeprefix("_raw").removeprefix("_saved_")
    if name not in (f"_saved_{short}", f"_raw_saved_{short}"):
        raise _absent(node, name)
    attrs = node[ATTRS] or {}
    ours = ATTRIBUTES.get(short, short)
    if not raw and ours in attrs:
        return attrs[ours]
    if not raw and short == "self_sym_sizes" and node[META] is not None:
        return tuple(Size(node[META][0]))
    title = name_of(node).partition("Backward")[0]
    second = SECOND.get(title, "other")
    if short == "exponent" == second and len(node[INPUTS]) == 1:
        return 2  # the op is the square
    place = {"self": 0, "condition": 0, "result": OUT, second: 1}.get(short)
    if place is None or place >= len(node[INPUTS]):
        raise _absent(node, name)
    slots = saved_slots(entry, node)
    if place not in slots:
        raise _absent(node, name)
    _refuse_freed(node)
    at = slots.index(place)
    value = None if node[SAVED] is None else node[SAVED][at]
    if raw:
        return SavedTensor(node, at)
    return _shown(node, place, value, short == "exponent")


def _absent(node: Node, name: str) -> AttributeError:
    return AttributeError(f"'{name_of(node)}' object has no attribute '{name}'")


def _shown(node: Node, place: int, value: Any, number: bool) -> Any:
    """A saved value as the user sees it: the leaf itself if it is one."""
    data = value.unpack() if isinstance(value, Packed) else value
    if not isinstance(data, np.ndarray):
        return data
    source = node if place == OUT else node[INPUTS][place]
    if number and source is None and not data.ndim and not data.flags.writeable:
        plain = data.item()
        return int(plain) if plain == int(plain) else plain
    if source is not None and is_leaf_node(source):
        leaf: Tensor | None = source[ATTRS]()
        if leaf is not None and leaf._data is data:
            return leaf
    return wrap(data, source)
