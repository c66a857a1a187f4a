"""Every error that a user can see, and the one place that formats them.

An error has four short lines: what was wrong, with the real values; which operation;
the user's file, line and text; one thing to do.  Code that raises knows the first and
often the last; the recorder that called it fills in the operation and the place
(`TracegradError.locate`), so that inference rules need not know about source lines.
"""

from __future__ import annotations

from typing import Protocol


class Place(Protocol):
    """What an error needs to know of a source location."""

    @property
    def where(self) -> str:
        """`file.py:12`."""

    @property
    def text(self) -> str:
        """The stripped source line, or an empty string."""


class TracegradError(Exception):
    """Base class of all errors raised by tracegrad.

    Args:
        what: what was wrong, with the real values.
        op: the operation, as the user spells it (`np.add`).
        at: the user's source line.
        fix: one thing to do.
    """

    def __init__(
        self,
        what: str,
        *,
        op: str | None = None,
        at: Place | None = None,
        fix: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.op = op
        self.at = at
        self.fix = fix

    def locate(self, op: str | None = None, at: Place | None = None) -> TracegradError:
        """Fill in the operation and the place where they are not known yet."""
        self.op = self.op or op
        self.at = self.at or at
        return self

    def __str__(self) -> str:
        lines = [self.what]
        if self.op:
            lines.append(f"  in:  {self.op}")
        if self.at is not None:
            text = self.at.text
            lines.append(f"  at:  {self.at.where}" + (f": {text}" if text else ""))
        if self.fix:
            lines.append(f"  fix: {self.fix}")
        return "\n".join(lines)


class ShapeError(TracegradError, ValueError):
    """Shapes, axes or sizes that do not fit together."""


class DTypeError(TracegradError, TypeError):
    """A dtype that an operation or a derivative does not accept."""


class ArgumentError(TracegradError, TypeError):
    """A wrong argument to a tracegrad function or to a traced NumPy function."""


class StaticArgumentError(ArgumentError):
    """A traced array where the program has to know the numbers when it is made."""


class OutOfBoundsError(TracegradError, IndexError):
    """An index outside the array."""


class UnsupportedError(TracegradError, NotImplementedError):
    """A function, option or construct that has no rule yet."""


# The classes below are raised from inside `__array__`, `__float__` and the like.  They
# must not derive from TypeError or ValueError: NumPy swallows those two there and
# goes on to build an object array.


class ConversionError(TracegradError, RuntimeError):
    """A traced value was about to become a plain number or array."""


class ControlFlowError(TracegradError, RuntimeError):
    """Python asked for the truth or the value of a traced value."""


class UntracedBranch(TracegradError, RuntimeError):
    """A call leads to a branch that no trace has gone through.

    Raised by generated code.  The library then traces that branch, with the arguments
    of the call; only a saved file shows this error.
    """


class LeakedTracerError(TracegradError, RuntimeError):
    """A traced value was used after its trace had ended, or in another thread."""


class MutationError(TracegradError, RuntimeError):
    """An argument or a captured array was changed inside a traced function."""


class RandomStateError(TracegradError, RuntimeError):
    """A random draw inside a traced function would have been frozen."""
