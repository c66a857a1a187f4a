"""What a compiled function remembers of its calls, and when a size becomes symbolic.

Calls with the same structure, dtypes and static values form a `Family`.  Sizes are
symbolic from the first call on, so that one program serves them all and the source
reads `n` where the user wrote `len(x)`; but 0 and 1 never are, for they broadcast.
Axes that had equal sizes in every call so far share a name; the first call in which
they differ splits it.  A Python int is static until its second value, and from then on
traced as a number.  Where a trace needs the number itself (`range(n)`), the axis or the
int is static for good.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tracegrad.ir.dims import Size, named
from tracegrad.runtime.binding import Call, Raw

Axis = tuple[int, int]  # position of the leaf in the call, and the axis

# How many programs one function may have, unless its `max_specializations` says
# otherwise.
MAX_SPECIALIZATIONS = 64
# How many traces, parting at tests of values, are written as one function, and how long
# that function may be.  A function that needs more runs as several.
MAX_TRACES = 8
MAX_LINES = 2000


class SpecializationWarning(RuntimeWarning):
    """A function is compiled for ever new types, sizes or static values."""


@dataclass(slots=True)
class Plan:
    """How to trace a call: a shape for each leaf, and which ints stay numbers.

    Attributes:
        shapes: by the position of the leaf.
        static: positions of scalars that are part of the program.
    """

    shapes: list[tuple[Size, ...]]
    static: set[int]


@dataclass(slots=True)
class Family:
    """Calls that differ in sizes and Python ints only.

    Attributes:
        fixed_axes: axes whose number a trace needs.
        fixed_scalars: positions of scalars whose value a trace needs.
        specializations: the programs made so far, the newest first.
        counting: what becomes of the number of elements that a mask selects.
    """

    fixed_axes: set[Axis] = field(default_factory=set)
    fixed_scalars: set[int] = field(default_factory=set)
    specializations: list[Any] = field(default_factory=list)
    counting: str = "name"
    _group: dict[Axis, int] = field(default_factory=dict)
    _first_int: dict[int, int] = field(default_factory=dict)
    _varied_ints: set[int] = field(default_factory=set)

    def observe(self, call: Call) -> None:
        """Take the sizes and ints of a call into account."""
        groups: dict[tuple, int] = {}
        for axis, size in axes_of(call.raws):
            # Equal in all calls so far: in the same group before, and equal now.
            key = self._group.get(axis, 0), size
            self._group[axis] = groups.setdefault(key, len(groups))
        for i, raw in enumerate(call.raws):
            if raw.countable:
                if self._first_int.setdefault(i, raw.data) != raw.data:
                    self._varied_ints.add(i)

    def fix_all(self, call: Call) -> bool:
        """Make all axes of a call static; whether there was one that was not."""
        axes = {axis for axis, size in axes_of(call.raws) if size >= 2}
        changed = not axes <= self.fixed_axes
        self.fixed_axes |= axes
        return changed

    def plan(self, call: Call, taken: set[str]) -> Plan:
        """The types to trace the call with, after it was observed.

        Args:
            call: the call.
            taken: names that no size may have.
        """
        names: dict[int, str] = {}
        free = size_names(taken)
        shapes: list[list[Size]] = [[] for _ in call.raws]
        for (i, axis), size in axes_of(call.raws):
            # 0 and 1 are never symbolic: they broadcast and vanish.
            if size < 2 or (i, axis) in self.fixed_axes:
                shapes[i].append(size)
                continue
            group = self._group[i, axis]
            if group not in names:
                names[group] = next(free)
            shapes[i].append(named(names[group]))
        static = {
            i
            for i, raw in enumerate(call.raws)
            if i in self.fixed_scalars or (raw.countable and i not in self._varied_ints)
        }
        return Plan([tuple(s) for s in shapes], static)


def axes_of(raws: list[Raw]) -> Iterator[tuple[Axis, int]]:
    """Each axis of each array of a call, with its size."""
    for i, raw in enumerate(raws):
        if raw.kind == "array":
            for axis, size in enumerate(raw.data.shape):
                yield (i, axis), size


def size_names(taken: set[str]) -> Iterator[str]:
    """Names for sizes: n, m, k, p, q, then n_2 and so on."""
    round_ = 1
    while True:
        for letter in "nmkpq":
            name = letter if round_ == 1 else f"{letter}_{round_}"
            if name not in taken:
                yield name
        round_ += 1
