"""The names of `torch.nn` that the core needs."""

from __future__ import annotations

from tracegrad.eager.tensor import Parameter

__all__ = ["Parameter"]
