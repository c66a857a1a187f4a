"""The names of `torch.autograd`."""

from __future__ import annotations

from tracegrad.eager.backward import backward, grad
from tracegrad.eager.hooks import disable_saved_tensors_hooks, saved_tensors_hooks
from tracegrad.eager.modes import (
    detect_anomaly,
    enable_grad,
    inference_mode,
    is_anomaly_enabled,
    no_grad,
    set_detect_anomaly,
    set_grad_enabled,
)
from tracegrad.eager.tensor import Variable


class graph:
    """The names of `torch.autograd.graph`."""

    saved_tensors_hooks = saved_tensors_hooks
    disable_saved_tensors_hooks = disable_saved_tensors_hooks


__all__ = [
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "grad",
    "graph",
    "inference_mode",
    "is_anomaly_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]
