"""`torch.nn.parameter`."""

from tracegrad.eager.tensor import Parameter

__all__ = ["Parameter"]
