"""What a training loop does to parameters and their gradients: `torch.nn.utils`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tracegrad.eager.modes import no_grad
from tracegrad.eager.registry import FUNCTIONS
from tracegrad.eager.tensor import Tensor, wrap


def _gradients(parameters: Any) -> list[Tensor]:
    given = [parameters] if isinstance(parameters, Tensor) else parameters
    return [p.grad for p in given if p.grad is not None]


def get_total_norm(
    tensors: Any,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all tensors together.

    Raises:
        RuntimeError: with `error_if_nonfinite`, if it is infinite or nan.
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    norm = FUNCTIONS["norm"]
    if not tensors:
        return FUNCTIONS["tensor"](0.0)
    parts = [norm(x, float(norm_type)) for x in tensors]
    total = norm(FUNCTIONS["stack"](parts), float(norm_type))
    if error_if_nonfinite and not total.isfinite():
        raise RuntimeError(
            f"The total norm of order {float(norm_type)} for gradients from "
            "`parameters` is non-finite, so it cannot be clipped. To disable this "
            "error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


@no_grad()
def clip_grads_with_norm_(
    parameters: Any, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale gradients so that `total_norm` becomes `max_norm`, if it is larger."""
    scale = (max_norm / (total_norm + 1e-6)).clamp(max=1.0)
    for grad in _gradients(parameters):
        grad.mul_(scale)


@no_grad()
def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients so that their norm, taken together, is at most `max_norm`.

    Returns:
        The norm as it was.

    Raises:
        RuntimeError: with `error_if_nonfinite`, if it is infinite or nan.
    """
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    total = get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


@no_grad()
def clip_grad_value_(
    parameters: Any, clip_value: float, foreach: bool | None = None
) -> None:
    """Limit every element of the gradients to `-clip_value` and `clip_value`."""
    limit = float(clip_value)
    for grad in _gradients(parameters):
        grad.clamp_(-limit, limit)


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters as one axis."""
    return FUNCTIONS["cat"]([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Set all parameters to the numbers of one axis."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec)}")
    start = 0
    for p in parameters:
        count = p._data.size
        p.data = wrap(vec._data[start : start + count].reshape(p._data.shape))
        start += count


__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "vector_to_parameters",
]
