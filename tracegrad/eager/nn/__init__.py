"""The names of `torch.nn` that the core needs, and `nn.functional`."""

from __future__ import annotations

from tracegrad.eager.nn import (
    classes,
    functional,
    losses,
    norms,
    parameter,
    resampling,
    utils,
)
from tracegrad.eager.tensor import Parameter

for _module in (classes, losses, norms, resampling):
    for _name in _module.__all__:
        setattr(functional, _name, getattr(_module, _name))

__all__ = ["Parameter", "functional", "parameter", "utils"]
