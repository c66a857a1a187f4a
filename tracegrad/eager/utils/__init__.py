"""The part of `torch.utils` that belongs to autograd."""

from tracegrad.eager.utils import checkpoint

__all__ = ["checkpoint"]
