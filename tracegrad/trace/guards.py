"""What a trace depends on besides its arguments.

Placeholder for the guards on globals and cells, see `Guard`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition under which a trace stays valid.

    Attributes:
        kind: "globals", "content" or "attribute".
        describe: for people.
        check: whether it holds now.
    """

    kind: str
    describe: str
    check: Callable[[], bool]
