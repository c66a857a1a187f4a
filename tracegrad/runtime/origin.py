"""Which line of the user's an error in emitted code comes from."""

from __future__ import annotations

from types import TracebackType

from tracegrad.codegen.source import LOADED
from tracegrad.ir.location import Location


def name_origin(error: BaseException) -> None:
    """Add the user's line to an error that emitted code has raised, as a note.

    The traceback itself shows the emitted line.  Nothing is added to an error from
    elsewhere, nor a second time on its way through nested calls.
    """
    place = _origin(error.__traceback__)
    if place is None:
        return
    note = f"  at:  {place.where}" + (f": {place.text}" if place.text else "")
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def _origin(traceback: TracebackType | None) -> Location | None:
    """The place that the innermost emitted line with one belongs to."""
    found = None
    while traceback is not None:
        source = LOADED.get(traceback.tb_frame.f_code.co_filename)
        if source is not None:
            found = source.lines.get(traceback.tb_lineno, found)
        traceback = traceback.tb_next
    return found
