"""The names of `torch.nn` that the core needs, and `nn.functional`."""

from __future__ import annotations

from tracegrad.eager.nn import functional
from tracegrad.eager.tensor import Parameter

__all__ = ["Parameter", "functional"]
