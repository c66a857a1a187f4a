"""What a transformed function was asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from tracegrad.codegen.backends import backend_named
from tracegrad.errors import ArgumentError

_Transform = TypeVar("_Transform", bound=Callable[..., Any])


def decorator(transform: _Transform) -> _Transform:
    """A public transformation that without its function is a decorator with options.

    `tg.grad(argnums=1)` is `lambda f: tg.grad(f, argnums=1)`.
    """

    @functools.wraps(transform)
    def public(f: Any = None, *args: Any, **kwargs: Any) -> Any:
        if f is not None:
            return transform(f, *args, **kwargs)
        return lambda function: transform(function, *args, **kwargs)

    return cast(_Transform, public)


def require_function(function: Any, op: str) -> None:
    """Refuse what can't be called.

    Raises:
        ArgumentError: it is no function.
    """
    if not callable(function):
        raise ArgumentError(
            f"{op} takes a function, not {type(function).__name__}: {function!r:.40}",
            op=op,
            fix="pass the function first, and options by keyword",
        )


@dataclass(frozen=True)
class Options:
    """What a transformed function was asked for.

    Attributes:
        mode: one of `MODES` in `derive.py`.
        argnums, argnames, has_aux, backend, optimize, holomorphic: see `tg.grad`.
        reroll: whether loops are found again in the trace of a Python loop.
        joins: whether branches and loops that traced values decide are joined.
        named: the public name, for errors, where it is not that of the mode.
    """

    mode: str
    argnums: Any = 0
    argnames: Any = None
    has_aux: bool = False
    backend: str = "numpy"
    optimize: str = "readable"
    holomorphic: bool = False
    reroll: bool = True
    joins: bool = True
    named: str | None = None

    def __post_init__(self) -> None:
        for name in ("argnums", "argnames"):
            if isinstance(getattr(self, name), list):
                object.__setattr__(self, name, tuple(getattr(self, name)))

    @property
    def op(self) -> str:
        """The public name, for errors."""
        if self.named is not None:
            return self.named
        return "tg.compile" if self.mode == "function" else f"tg.{self.mode}"

    def in_mode(self, mode: str, named: str | None = None) -> Options:
        """The same for another transformation, errors naming this one."""
        return replace(self, mode=mode, named=named or self.op)

    @property
    def split(self) -> bool:
        """Whether the result is a value and a function."""
        return self.mode in ("vjp", "linearize")

    def check(self) -> None:
        """Refuse options that mean nothing.

        Raises:
            ArgumentError: of these.
        """
        try:
            backend_named(self.backend)
        except ArgumentError as error:
            raise error.locate(self.op) from None
        if self.optimize not in ("readable", "fast"):
            self._refuse("optimize", "use 'readable' or 'fast'")
        for name in ("has_aux", "holomorphic"):
            if type(getattr(self, name)) is not bool:
                self._refuse(name, "pass True or False")
        nums = self.argnums if isinstance(self.argnums, tuple) else (self.argnums,)
        if not all(type(n) is int for n in nums) or (not nums and not self.split):
            self._refuse("argnums", "pass an int or a tuple of ints")
        if self.argnames is None:
            return
        names = self.argnames if isinstance(self.argnames, tuple) else (self.argnames,)
        if not names or not all(type(n) is str for n in names):
            self._refuse("argnames", "pass a name or a tuple of names")
        if self.argnums != 0:
            self._refuse("argnums", "give argnums or argnames, not both")

    def _refuse(self, name: str, fix: str) -> None:
        raise ArgumentError(
            f"{name}={getattr(self, name)!r} is not possible here", op=self.op, fix=fix
        )

    def past_self(self) -> Options:
        """The same for a method called with `self` as its first argument."""

        def shifted(n: int) -> int:
            return n + 1 if n >= 0 else n

        if isinstance(self.argnums, tuple):
            return replace(self, argnums=tuple(map(shifted, self.argnums)))
        return replace(self, argnums=shifted(self.argnums))
