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
    EXTRAS,
    INPUTS,
    NAME,
    PULL,
    SAVED,
    SEQ,
    Node,
    is_leaf_node,
    namespaced,
    next_seq,
    short_name,
)


class _Latest:
    """The sequence number of the last change anywhere."""

    seq = 0


latest = _Latest()
# id of the array that owns the memory -> its log
_logs: dict[int, _Log] = {}
MOST_ENTRIES = 4096


class _Log:
    """The sequence numbers of the changes of one memory.

    Attributes:
        owner: weak reference to the array that owns it.
        entries: the latest ones.
        dropped: how many older ones are forgotten.
        later: the number of a node -> the name and number of the one that a change in
            place put in its place, for the text of errors.
    """

    __slots__ = ("dropped", "entries", "later", "owner")

    def __init__(self, owner: np.ndarray) -> None:
        key = id(owner)
        self.owner = weakref.ref(owner, lambda _: _logs.pop(key, None))
        self.entries: list[int] = []
        self.dropped = 0
        self.later: dict[int, tuple[str, int]] = {}

    def version(self, seq: int | None = None) -> int:
        """The number of changes, all or those before `seq`."""
        if seq is None:
            return self.dropped + len(self.entries)
        return self.dropped + bisect_left(self.entries, seq)


def owner_of(array: np.ndarray) -> np.ndarray:
    """The last array along the chain of bases."""
    base = array.base
    while isinstance(base, np.ndarray):
        array, base = base, base.base
    return array


def log_of(array: np.ndarray) -> _Log | None:
    """The log of the memory behind an array; None if it never changed."""
    return _logs.get(id(owner_of(array)))


def changed(array: np.ndarray) -> None:
    """Note that the memory of `array` was written to."""
    owner = array if array.base is None else owner_of(array)
    log = _logs.get(id(owner))
    if log is None:
        log = _logs[id(owner)] = _Log(owner)
    entries = log.entries
    latest.seq = seq = next_seq()
    entries.append(seq)
    if len(entries) > MOST_ENTRIES:
        log.dropped += MOST_ENTRIES // 2
        del entries[: MOST_ENTRIES // 2]


def replaced(array: np.ndarray, before: Node | None, node: Node | None) -> None:
    """Note that a change in place gave the tensor of `array` another node."""
    log = log_of(array)
    if log is None or before is None or node is None or is_leaf_node(before):
        return
    if len(log.later) > MOST_ENTRIES:
        log.later.clear()
    log.later[before[SEQ]] = (namespaced(short_name(node)), node[SEQ])


def version_of(array: np.ndarray) -> int:
    """How often the memory was changed in place."""
    log = log_of(array)
    return 0 if log is None else log.version()


def is_current(array: Any, seq: int) -> bool:
    """Whether an array is as it was when the node `seq` was recorded."""
    if type(array) is not np.ndarray:
        return True
    log = log_of(array)
    return log is None or log.entries[-1] < seq


def check(node: Node, slots: tuple[int, ...], anomaly: bool = False) -> None:
    """Raise if a saved array of `node` was changed since.

    Args:
        node: about to run.
        slots: for each saved array, the number of the input, -1 for the output; one
            beyond the inputs is an array without history.
        anomaly: whether anomaly detection is on, for the hint.

    Raises:
        RuntimeError: PyTorch's message.
    """
    seq = seq_of_reading(node)
    for slot, array in zip(slots, node[SAVED]):
        if is_current(array, seq):
            continue
        inputs = node[INPUTS]
        source = node if slot < 0 else inputs[slot] if slot < len(inputs) else None
        raise changed_error(array, seq, source, anomaly)


def saves_current(node: Node) -> bool:
    """Whether all that `node` saved is as it was when it was read."""
    seq = seq_of_reading(node)
    return all(is_current(x, seq) for x in node[SAVED])


def seq_of_reading(node: Node) -> int:
    """The number of the op that read what `node` saved.

    The node of a change in place of a view is made after the change, and holds what the
    op's own node saved before it.
    """
    inner = getattr(node[PULL], "inner", None)
    return node[SEQ] if inner is None else inner(node)[SEQ]


def watch_is_current(node: Node) -> bool:
    """Whether what `node` watches is as it was when it was recorded."""
    extras = node[EXTRAS]
    return extras is None or all(is_current(x, node[SEQ]) for x, _ in extras.watched)


def check_watched(node: Node, anomaly: bool = False) -> None:
    """Raise if an array that `node` watches was changed since.

    Args:
        node: about to run.
        anomaly: whether anomaly detection is on, for the hint.

    Raises:
        RuntimeError: PyTorch's message.
    """
    if watch_is_current(node):
        return
    for array, source in node[EXTRAS].watched:
        if not is_current(array, node[SEQ]):
            raise changed_error(array, node[SEQ], source, anomaly)


def is_view(node: Node) -> bool:
    """Whether the node is that of an op whose result shows memory of its input."""
    entry = getattr(node[PULL], "entry", None)
    return entry is not None and entry.op.aliases is not None


def changed_error(
    array: Any, seq: int, source: Node | None, anomaly: bool
) -> Exception:
    """PyTorch's error for a saved array that was changed.

    Args:
        array: the array.
        seq: of the node that saved it.
        source: the node that made it.
        anomaly: whether anomaly detection is on, for the hint.
    """
    log = log_of(array) or _Log(array)
    kind = TENSOR_TYPES[from_numpy_dtype(array.dtype)]
    which = ""
    if source is not None and not is_leaf_node(source):
        number, name, at = 0, short_name(source), source[SEQ]
        if source[NAME] is None and source[PULL].title == "output":
            number, source = source[6], source[INPUTS][0]
        if array.base is not None and is_view(source):
            name = "AsStrided"  # PyTorch takes a changed view anew out of its base
        # What the node itself made keeps its name.
        while source[SEQ] != seq and at in log.later:
            name, at = log.later[at]
        which = f", which is output {number} of {name},"
    hint = (
        "the backtrace further above shows the operation that failed to compute its "
        "gradient. The variable in question was changed in there or anywhere later. "
        "Good luck!"
        if anomaly
        else "enable anomaly detection to find the operation that failed to compute "
        "its gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False)."
    )
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an "
        f"inplace operation: [torch.{kind} {list(array.shape)}]{which} is at version "
        f"{log.version()}; expected version {log.version(seq)} instead. Hint: {hint}"
    )
