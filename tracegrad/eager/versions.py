"""Version counters that cost nothing until something is changed in place.

An in-place change appends the current sequence number to a log that belongs to the
memory, so that views share it.  The version of an array is the length of its log; the
version that a node saw is the number of entries before its own sequence number.  In a
training loop nothing is looked up: all of its nodes are younger than the last change.
"""

from __future__ import annotations

import weakref
from bisect import bisect_left
from typing import Any

import numpy as np

from tracegrad.eager.dtypes import TENSOR_TYPES, from_numpy_dtype
from tracegrad.eager.nodes import (
    INPUTS,
    NAME,
    PULL,
    SAVED,
    SEQ,
    Node,
    is_leaf_node,
    next_seq,
    short_name,
)


class _Latest:
    """The sequence number of the last change anywhere."""

    seq = 0


latest = _Latest()
# id of the array that owns the memory -> (weak reference to it, its log)
_logs: dict[int, tuple[weakref.ref, list[int]]] = {}


def owner_of(array: np.ndarray) -> np.ndarray:
    """The last array along the chain of bases."""
    base = array.base
    while isinstance(base, np.ndarray):
        array, base = base, base.base
    return array


def log_of(array: np.ndarray) -> list[int] | None:
    """The log of the memory behind an array; None if it never changed."""
    found = _logs.get(id(owner_of(array)))
    return None if found is None else found[1]


def changed(array: np.ndarray) -> None:
    """Note that the memory of `array` was written to."""
    owner = array if array.base is None else owner_of(array)
    key = id(owner)
    found = _logs.get(key)
    if found is None:
        forget = weakref.ref(owner, lambda _: _logs.pop(key, None))
        found = _logs[key] = (forget, [])
    latest.seq = next_seq()
    found[1].append(latest.seq)


def version_of(array: np.ndarray) -> int:
    """How often the memory was changed in place."""
    return len(log_of(array) or ())


def is_current(array: Any, seq: int) -> bool:
    """Whether an array is as it was when the node `seq` was recorded."""
    if type(array) is not np.ndarray:
        return True
    log = log_of(array)
    return log is None or log[-1] < seq


def check(node: Node, slots: tuple[int, ...], anomaly: bool = False) -> None:
    """Raise if a saved array of `node` was changed since.

    Args:
        node: about to run.
        slots: for each saved array, the number of the input, -1 for the output.
        anomaly: whether anomaly detection is on, for the hint.

    Raises:
        RuntimeError: PyTorch's message.
    """
    for slot, array in zip(slots, node[SAVED]):
        if is_current(array, node[SEQ]):
            continue
        log = log_of(array) or []
        kind = TENSOR_TYPES[from_numpy_dtype(array.dtype)]
        source = node if slot < 0 else node[INPUTS][slot]
        which = ""
        if source is not None and not is_leaf_node(source):
            number = 0
            if source[NAME] is None and source[PULL].title == "output":
                number, source = source[6], source[INPUTS][0]
            which = f", which is output {number} of {short_name(source)},"
        hint = (
            "the backtrace further above shows the operation that failed to compute "
            "its gradient. The variable in question was changed in there or anywhere "
            "later. Good luck!"
            if anomaly
            else "enable anomaly detection to find the operation that failed to "
            "compute its gradient, with torch.autograd.set_detect_anomaly(True, "
            "check_nan=False)."
        )
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by "
            f"an inplace operation: [torch.{kind} {list(array.shape)}]{which} is at "
            f"version {len(log)}; expected version {bisect_left(log, node[SEQ])} "
            f"instead. Hint: {hint}"
        )
