"""The names of `torch.autograd`."""

from __future__ import annotations

from tracegrad.eager import modes
from tracegrad.eager.autograd import forward_ad, function, functional, graph
from tracegrad.eager.autograd.function import Function
from tracegrad.eager.autograd.gradcheck import gradcheck, gradgradcheck
from tracegrad.eager.backward import backward, grad
from tracegrad.eager.cached import is_compiled_backward, set_compiled_backward
from tracegrad.eager.modes import (
    detect_anomaly,
    enable_grad,
    inference_mode,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    no_grad,
    set_detect_anomaly,
    set_grad_enabled,
)
from tracegrad.eager.naming import record_source
from tracegrad.eager.saved import SavedTensor
from tracegrad.eager.tensor import Variable

# PyTorch has these in modules of their own.
grad_mode = anomaly_mode = modes

__all__ = [
    "Function",
    "SavedTensor",
    "Variable",
    "anomaly_mode",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_compiled_backward",
    "no_grad",
    "record_source",
    "set_compiled_backward",
    "set_detect_anomaly",
    "set_grad_enabled",
]
