"""What becomes of the user's branches and loops that traced values decide."""

from __future__ import annotations

from dataclasses import dataclass, field

from tracegrad.trace.buffers import DEPTH

_MOST_JOINS = 2000  # branches and loops tried in one trace
_DEEPEST = 20  # of them inside of one another


class JoinLimit(Exception):
    """A branch or a loop is left to Python, for there were enough already."""


class Identities(BaseException):
    """Code that was met late compares by identity: trace again with that asked.

    Not an `Exception`, so that no handler of the user's catches it.
    """


class Joining(BaseException):
    """A traced value decides: trace again, with branches and loops to be joined.

    Not an `Exception`, so that no handler of the user's catches it.
    """


@dataclass
class Joins:
    """What becomes of the user's branches and loops that traced values decide.

    Attributes:
        folds: whether loops may be found again in the trace of a part.
        identities: whether code in reach compares by identity, which is asked then.
        how: "ask" starts again at the first, to "join" them where that is proved; or
            they are "left" to Python.
        unjoined: branches and loops to leave to Python.
        refused: why others were left, by their lines.
        warned: whether it was said that a text is made by the traced call only.
    """

    how: str = "left"
    identities: bool = False
    folds: bool = True
    unjoined: set[object] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    warned: bool = False
    spent: int = 0

    @property
    def staging(self) -> bool:
        """Whether the user's functions are compiled anew."""
        return self.how == "join" or self.identities

    def spend(self) -> None:
        """Count one more way to be traced for a branch or a loop.

        Raises:
            JoinLimit: there were too many, of a recursion for example.
        """
        self.spent += 1
        if self.spent > _MOST_JOINS or DEPTH.bodies >= _DEEPEST:
            raise JoinLimit("there are too many ways to trace")
