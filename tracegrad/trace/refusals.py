"""Errors that code outside of tracegrad raises on meeting a traced value.

Compiled code that takes arrays only (`lu.solve(b)`), and Python's own operators
(`x * None`), speak of a class that the user has never heard of, and name no line.
"""

from __future__ import annotations

import re
from types import TracebackType

from tracegrad.errors import ArgumentError, TracegradError, UnsupportedError
from tracegrad.ir.location import Location
from tracegrad.trace.frames import is_users

NO_ATTRIBUTE = "a traced array has no attribute"
# What the user would have read in place of the names of our classes.
_NAMES = re.compile(r"tracegrad\.trace\.\w+\.(?=Proxy|Size)")
_OURS = re.compile(r"\b(Proxy|Size|NotImplementedType)\b")
_SPOKEN = {"Proxy": "ndarray", "Size": "int", "NotImplementedType": "NotImplemented"}


def explained(error: Exception) -> TracegradError | None:
    """The four lines for an error that speaks of traced values, else None."""
    text = _NAMES.sub("", str(error))
    if isinstance(error, TracegradError):
        return None
    if text.startswith(NO_ATTRIBUTE):
        fix = "use what NumPy's arrays have"
        return ArgumentError(text, at=_line_of(error.__traceback__), fix=fix)
    if not _OURS.search(text):
        return None
    at = _line_of(error.__traceback__)
    said = _OURS.sub(lambda found: _SPOKEN[found[1]], text)
    if "operand type" in text or "not supported between" in text:
        return ArgumentError(said, at=at, fix="use arrays and numbers")
    said = text.replace("Proxy", "traced ndarray")
    return UnsupportedError(
        f"this takes no traced array or number ({type(error).__name__}: {said})",
        at=at,
        fix="use a function that has a rule, compute it outside, or wrap the call in a "
        "function of arrays for tg.custom_vjp or tg.numerical",
    )


def _line_of(traceback: TracebackType | None) -> Location | None:
    """The innermost line of the user's that an error went through."""
    found = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if is_users(code.co_filename):
            line = traceback.tb_lineno
            found = Location(code.co_filename, line, function=code.co_name)
        traceback = traceback.tb_next
    return found
