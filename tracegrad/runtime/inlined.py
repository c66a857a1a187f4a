"""A transformation as a function that records itself in the running trace."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tracegrad.runtime.binding import Binder
from tracegrad.runtime.options import Options


class Inlined:
    """A function of the user's, transformed; it is called inside of a trace only.

    Attributes:
        of: name of the user's function.
        record: takes the call's arguments, records, and returns the user's arrays.
        past_self: makes the same for calls that begin with `self`, where positions of
            arguments are among the options.
        options: of the derivative that it is, which say what it is taken by.
    """

    past_self: Callable[[], Inlined] | None = None
    options: Options | None = None

    def __init__(
        self,
        binder: Binder,
        name: str,
        what: str,
        record: Callable[..., Any],
        signature: inspect.Signature | None = None,
    ) -> None:
        """Name and describe it.

        Args:
            binder: of the user's function.
            name: suffix of the emitted function's name.
            what: says what the function gives: "Hessian of {}.".
            record: see above.
            signature: of the emitted function, if it is not the user's.
        """
        self.__wrapped__ = binder.function
        self.__name__ = self.__qualname__ = f"{binder.name}_{name}"
        self.__doc__ = getattr(binder.function, "__doc__", None)
        self.__signature__ = signature or binder.signature
        self.of = binder.name
        self.record = record
        self._what = what

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Record the transformed function."""
        return self.record(*args, **kwargs)

    def purpose(self, title: str) -> str:
        """The docstring; `title` names the user's function and its place."""
        return self._what.format(title)
