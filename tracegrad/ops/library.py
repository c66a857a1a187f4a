"""References to libraries that op bodies use and that are imported only when needed."""

from __future__ import annotations

import importlib
from typing import Any


class Library:
    """A module that is imported at the first use of one of its names.

    A body writes `special.erf(x)` with `special = Library("scipy.special", ...)`; code
    generation finds the `Library` among the body's globals and emits the import.

    Attributes:
        module: dotted name of the module.
        jax: dotted name of the module that takes its place in JAX source.
    """

    def __init__(self, module: str, jax: str | None = None) -> None:
        self.module = module
        self.jax = jax

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(importlib.import_module(self.module), name)

    def __repr__(self) -> str:
        return f"<library {self.module}>"


special = Library("scipy.special", jax="jax.scipy.special")
linalg = Library("scipy.linalg", jax="jax.scipy.linalg")
