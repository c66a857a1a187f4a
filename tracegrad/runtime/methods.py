"""Compiled functions as methods."""

from __future__ import annotations

import functools
import types
from typing import Any

from tracegrad.codegen.source import Source
from tracegrad.ir.graph import Graph
from tracegrad.runtime.specialization import Specialization


class BoundMethod:
    """A compiled method of one object."""

    def __init__(self, compiled: Any, instance: Any) -> None:
        functools.update_wrapper(self, compiled, updated=())
        self.__wrapped__ = types.MethodType(compiled._function, instance)
        self.__self__ = instance
        self._compiled = compiled
        self._routine_name = compiled._routine_name

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the method."""
        return self._compiled(self.__self__, *args, **kwargs)

    def source(self, /, *args: Any, **kwargs: Any) -> Source:
        """See `Compiled.source`."""
        if not args and not kwargs and self._compiled._latest is not None:
            return self._compiled.source()
        return self._compiled.source(self.__self__, *args, **kwargs)

    def ir(self, /, *args: Any, **kwargs: Any) -> Graph:
        """See `Compiled.ir`."""
        if not args and not kwargs and self._compiled._latest is not None:
            return self._compiled.ir()
        return self._compiled.ir(self.__self__, *args, **kwargs)

    def specializations(self) -> list[Specialization]:
        """See `Compiled.specializations`."""
        return self._compiled.specializations()

    def __repr__(self) -> str:
        return f"<bound {self._compiled!r}>"
