"""Branches and loops in JAX source."""

from __future__ import annotations

from typing import Any


def write_jax(lower: Any, node: Any) -> None:
    """Write."""
