"""The libraries that emitted source is written for, as small records."""

from __future__ import annotations

from dataclasses import dataclass

from tracegrad.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Backend:
    """What differs between two targets.

    Attributes:
        name: key of `Op.bodies`.
        alias: the name under which the array library is imported.
        imports: the import of the array library: (module, alias).
        mutable: whether arrays can be updated in place.
        needs: what the docstring says the file needs.
    """

    name: str
    alias: str
    imports: tuple[str, str]
    mutable: bool
    needs: str


NUMPY = Backend("numpy", "np", ("numpy", "np"), True, "NumPy")
JAX = Backend("jax", "jnp", ("jax.numpy", "jnp"), False, "JAX")
_BACKENDS = {b.name: b for b in (NUMPY, JAX)}


def backend_named(name: str) -> Backend:
    """The backend of that name.

    Raises:
        ArgumentError: if there is none.
    """
    try:
        return _BACKENDS[name]
    except (KeyError, TypeError):
        known = " or ".join(map(repr, _BACKENDS))
        raise ArgumentError(f"backend={name!r} is not known", fix=f"use {known}") from (
            None
        )
