"""Static subscripts: a hashable form of what stands between square brackets.

A subscript is a tuple of entries: an `int`, a `Slice`, `None`, `Ellipsis`, or `ARRAY`,
which stands for the next index array among the inputs of the node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tracegrad.ir.types import Size


@dataclass(frozen=True, slots=True)
class Slice:
    """A hashable `slice` whose bounds may be symbolic."""

    start: Size | None = None
    stop: Size | None = None
    step: Size | None = None

    def map_sizes(self, function: Callable[[Any], Any]) -> Slice:
        """The slice with `function` applied to its bounds."""
        return Slice(function(self.start), function(self.stop), function(self.step))

    def __repr__(self) -> str:
        parts = ["" if p is None else str(p) for p in (self.start, self.stop)]
        text = ":".join(parts)
        return text if self.step is None else f"{text}:{self.step}"


class _Array:
    """The type of `ARRAY`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ARRAY"

    def __reduce__(self) -> str:
        return "ARRAY"


ARRAY = _Array()
Subscript = tuple[Any, ...]


def fill(index: Subscript, arrays: tuple) -> Any:
    """The subscript that NumPy takes: slices as `slice`, index arrays in place."""
    rest = iter(arrays)
    entries = []
    for entry in index:
        if isinstance(entry, Slice):
            entries.append(slice(entry.start, entry.stop, entry.step))
        else:
            entries.append(next(rest) if entry is ARRAY else entry)
    return entries[0] if len(entries) == 1 else tuple(entries)
