"""Places in the user's source."""

from __future__ import annotations

import linecache
import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Location:
    """One expression of the user's source.

    Attributes:
        filename: as the code object names it.
        line: first line, from 1.
        column: first column, from 0, or -1 where the interpreter kept no columns.
        end_line: last line.
        end_column: column after the last character, or -1.
        function: name of the function around it.
    """

    filename: str
    line: int
    column: int = -1
    end_line: int = -1
    end_column: int = -1
    function: str = ""

    @property
    def where(self) -> str:
        """`file.py:12`, the short form that comments and errors use."""
        return f"{os.path.basename(self.filename)}:{self.line}"

    @property
    def text(self) -> str:
        """The stripped source line, or an empty string where it is not to be had."""
        return linecache.getline(self.filename, self.line).strip()


# The frames of the user that were active when a node was recorded, outermost first.
Chain = tuple[Location, ...]
