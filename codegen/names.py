"""Variable names of the emitted source: the user's own wherever there is one."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable

_NESTED = frozenset({"pullback", "pushforward"})
_RESERVED = frozenset(keyword.kwlist) | frozenset(dir(builtins)) | _NESTED


def identifier(text: str, fallback: str = "value") -> str:
    """`text` as an ASCII-safe Python identifier."""
    cleaned = re.sub(r"\W+", "_", text).strip("_")
    if not cleaned or cleaned[0].isdigit():
        cleaned = f"{fallback}_{cleaned}" if cleaned else fallback
    return f"{cleaned}_" if keyword.iskeyword(cleaned) else cleaned


class Namer:
    """Gives out names, none twice.

    Args:
        taken: names that the module uses already (imports, helpers, constants).
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def state(self) -> tuple[set[str], dict[str, int]]:
        """What is taken now, to come `back` to after a branch."""
        return set(self._taken), dict(self._next)

    def back(self, state: tuple[set[str], dict[str, int]]) -> None:
        """Give out names again that were taken since."""
        self._taken, self._next = set(state[0]), dict(state[1])

    def reserve(self, name: str) -> str:
        """Take exactly this name (a parameter of the user's function)."""
        self._taken.add(name)
        return name

    def claim(self, preferred: str) -> str:
        """The preferred name, or that name with the first free number behind it."""
        base = identifier(preferred)
        if base in _RESERVED:
            base = f"{base}_"
        if base not in self._taken:
            self._taken.add(base)
            return base
        number = self._next.get(base, 2)
        while f"{base}_{number}" in self._taken:
            number += 1
        self._next[base] = number + 1
        return self.reserve(f"{base}_{number}")


class Counters:
    """The variables of loops that count: one is used again when its loop has ended."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, int], str] = {}

    def claim(self, wanted: str, namer: Namer, depth: int) -> str:
        """The variable of a loop inside of `depth` others."""
        key = (wanted, depth)
        if key not in self._given:
            self._given[key] = namer.claim(wanted)
        return self._given[key]
