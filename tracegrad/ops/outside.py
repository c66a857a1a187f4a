"""A function of the user's that is not traced: a solver, called by name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import Op


@dataclass(frozen=True, slots=True, eq=False)
class Outside:
    """A function that generated code calls.

    Attributes:
        function: takes arrays, returns one array.
        name: that it is called by.
        type: of its result.
    """

    function: Callable[..., Any]
    name: str
    type: ArrayType

    @property
    def importable(self) -> bool:
        """Whether a module has the function under its name."""
        module = sys.modules.get(getattr(self.function, "__module__", None) or "")
        found = getattr(module, getattr(self.function, "__name__", ""), None)
        if module is None or module.__name__ == "__main__":
            return False
        return found is self.function


def _run(*args: Any, function: Outside) -> Any:
    found = function.function(*args)  # not one expression: it has no template
    return np.asarray(found)


# No entry of the table of ops: transformations alone record it, with a derivative
# around it.
outside = Op(_run, lambda *types, function: function.type)
outside.name, outside.spelling, outside.noun = "outside", "a call", "solution"
