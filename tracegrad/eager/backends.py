"""The flags of `torch.backends`: they can be set, and change nothing on a CPU."""

from __future__ import annotations

from typing import Any


class _Backend:
    """One backend that is not here, with the flags that scripts set."""

    def __init__(self, name: str, **flags: Any) -> None:
        self._name = name
        self.__dict__.update(flags)

    def is_available(self) -> bool:
        """Whether it can be used: no."""
        return False

    def is_built(self) -> bool:
        """Whether it was compiled in: no."""
        return False

    def __repr__(self) -> str:
        return f"<backend {self._name!r}, which is not available>"


cudnn = _Backend(
    "cudnn", enabled=True, deterministic=False, benchmark=False, allow_tf32=True
)
cuda = _Backend("cuda")
mps = _Backend("mps")

__all__ = ["cuda", "cudnn", "mps"]
