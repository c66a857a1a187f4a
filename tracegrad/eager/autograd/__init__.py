"""The names of `torch.autograd`."""

from __future__ import annotations

from tracegrad.eager.autograd import forward_ad, function
from tracegrad.eager.autograd.function import Function
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
from tracegrad.eager.naming import record_source
from tracegrad.eager.tensor import Variable


class graph:
    """The names of `torch.autograd.graph`."""

    saved_tensors_hooks = saved_tensors_hooks
    disable_saved_tensors_hooks = disable_saved_tensors_hooks


__all__ = [
    "Function",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "grad",
    "graph",
    "inference_mode",
    "is_anomaly_enabled",
    "no_grad",
    "record_source",
    "set_detect_anomaly",
    "set_grad_enabled",
]
