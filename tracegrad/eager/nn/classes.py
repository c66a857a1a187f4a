"""Losses of classes: of log-probabilities, of scores, of probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.eager.arithmetic import clamp, where
from tracegrad.eager.dtypes import SCALAR_TYPES, from_numpy_dtype
from tracegrad.eager.inplace import named
from tracegrad.eager.nn.functional import _along, _log_softmax, _reduced, _watching
from tracegrad.eager.selection import gather
from tracegrad.eager.tensor import Tensor, wrap


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log-probability of each target class, which is on axis 1."""
    axis = 1 if input._data.ndim > 1 else 0
    target = _checked_classes(input, target, weight)
    kept = np.asarray(target._data != ignore_index)
    wanted = np.where(kept, target._data, 0).astype(np.int64)
    wrong = wanted[(wanted < 0) | (wanted >= input._data.shape[axis])]
    if wrong.size:
        raise IndexError(f"Target {wrong.flat[0]} is out of bounds.")
    places = wrap(np.expand_dims(wanted, axis))
    picked = -gather(input, axis, places).squeeze(axis)
    shares = kept.astype(input._data.dtype)
    if weight is not None:
        shares = shares * weight._data[wanted]
    loss = picked if weight is None else picked * wrap(shares)
    if not kept.all():
        # Chosen, not multiplied: the mean of no target at all has the slope 0.
        loss = where(wrap(kept), loss, 0.0)
    name = "NllLossBackward0" if input.dim() <= 2 else "NllLoss2DBackward0"
    if reduction == "mean":
        loss = named(loss.sum() / float(shares.sum()), name)
    else:
        loss = _reduced(loss, reduction, name)
    if input.dim() == 3:
        input, target = input.unsqueeze(2), target.unsqueeze(1)
    return _watching(loss, input, target, weight)


def _checked_classes(input: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
    """The classes, one for each row of `input`.

    Raises:
        ValueError: PyTorch's message, if there are not as many as rows.
        RuntimeError: PyTorch's messages, for other shapes and dtypes that do not fit.
    """
    have, given = input._data.shape, target._data.shape
    if not have:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    if len(have) > 1 and have[:1] != given[:1]:
        rows = given[0] if given else 0
        raise ValueError(
            f"Expected input batch_size ({have[0]}) to match target batch_size "
            f"({rows})."
        )
    if len(have) == 1 and len(given) == 1 and given[0] != 1:
        raise ValueError(
            f"For 1D input, 1D target must have size 1, but got target size: {given[0]}"
        )
    if len(have) <= 2 and len(given) > 1:
        raise RuntimeError(
            "0D or 1D target tensor expected, multi-target not supported"
        )
    _check_places(have, given)
    if target._data.dtype not in (np.int64, np.uint8):
        kind = SCALAR_TYPES[from_numpy_dtype(target._data.dtype)]
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {kind}")
    if weight is not None:
        _check_weight(input, weight)
    return target.squeeze(0) if len(have) == 1 and given else target


def _check_places(have: tuple, given: tuple) -> None:
    """Refuse targets that do not fit the further axes of the input."""
    wanted = (have[0], *have[2:])
    if len(have) == 4:
        if len(given) != 3:
            raise RuntimeError(
                "only batches of spatial targets supported (3D tensors) but got "
                f"targets of dimension: {len(given)}"
            )
        if given != wanted:
            raise RuntimeError(
                f"size mismatch (got input: {list(have)} , target: {list(given)}"
            )
    elif len(have) > 2 and given != wanted:
        raise RuntimeError(f"Expected target size {list(wanted)}, got {list(given)}")


def _check_weight(input: Tensor, weight: Tensor) -> None:
    """Refuse weights that are not one for each class, of the dtype of the input."""
    have, given = input._data.shape, weight._data.shape
    if given != (have[1 if len(have) > 1 else 0],):
        if len(have) > 2:
            raise RuntimeError(
                "weight tensor should be defined either for all or no classes"
            )
        raise RuntimeError(
            f"weight tensor should be defined either for all {have[-1]} classes or no "
            f"classes but got weight tensor of shape: {list(given)}"
        )
    if weight._data.dtype != input._data.dtype:
        kinds = [SCALAR_TYPES[from_numpy_dtype(x._data.dtype)] for x in (input, weight)]
        raise RuntimeError(f"expected scalar type {kinds[0]} but found {kinds[1]}")


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """`nll_loss` of `log_softmax`; the target is a class, or a probability of each."""
    axis = 1 if input._data.ndim > 1 else 0
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(
            f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}"
        )
    logs = _log_softmax(input, axis)
    if target._data.shape == input._data.shape:
        _check_probabilities(input, target, weight, ignore_index)
        return _soft_cross_entropy(
            logs, target, weight, axis, reduction, label_smoothing
        )
    loss = nll_loss(logs, target, weight, ignore_index, reduction)
    if not label_smoothing:
        return loss
    scaled = logs if weight is None else logs * _along(weight, logs, axis)
    spread = -scaled.sum(axis)
    kept = np.asarray(target._data != ignore_index)
    spread = spread if kept.all() else where(wrap(kept), spread, 0.0)
    if reduction == "mean":
        shares = kept if weight is None else weight._data[target._data * kept] * kept
        spread = spread.sum() / float(shares.sum())
    elif reduction == "sum":
        spread = spread.sum()
    share = label_smoothing / logs._data.shape[axis]
    return loss * (1 - label_smoothing) + spread * share


def _check_probabilities(
    input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int
) -> None:
    """Refuse what does not go with a probability of each class.

    Raises:
        RuntimeError: PyTorch's messages.
    """
    kind = target._data.dtype
    if kind.kind not in "fc":
        raise RuntimeError(
            "Expected floating point type for target with class probabilities, got "
            f"{SCALAR_TYPES[from_numpy_dtype(kind)]}"
        )
    if ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    classes = input._data.shape[1 if input._data.ndim > 1 else 0]
    if weight is not None and weight._data.shape != (classes,):
        raise RuntimeError(
            "cross_entropy: weight tensor should be defined either for all "
            f"{classes} classes or no classes but got weight tensor of shape: "
            f"{list(weight._data.shape)}"
        )


def _soft_cross_entropy(
    logs: Tensor, target: Tensor, weight: Any, axis: int, reduction: str, smooth: float
) -> Tensor:
    if smooth:
        target = target * (1 - smooth) + smooth / logs._data.shape[axis]
    terms = logs * target
    if weight is not None:
        terms = terms * _along(weight, logs, axis)
    if reduction == "none":
        return -terms.sum(axis)
    total = -terms.sum()
    count = logs._data.size // logs._data.shape[axis]
    return named(total / count, "DivBackward1") if reduction == "mean" else total


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The loss of probabilities; their logarithms are limited to -100.

    Raises:
        ValueError: PyTorch's message, if the target has another shape.
        RuntimeError: PyTorch's messages, for other dtypes and for no probabilities.
    """
    if target._data.shape != input._data.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}) is deprecated. Please ensure they have the same size."
        )
    x = input._data
    if target._data.dtype != x.dtype:
        kinds = [SCALAR_TYPES[from_numpy_dtype(d._data.dtype)] for d in (input, target)]
        raise RuntimeError(f"Found dtype {kinds[1]} but expected {kinds[0]}")
    if not ((x >= 0) & (x <= 1)).all():
        raise RuntimeError("all elements of input should be between 0 and 1")
    ends = x * (1 - x) < _FLAT
    if ends.any():
        loss = _loss_with_ends(input, target, wrap(ends))
    else:
        loss = -(target * input.log() + (1 - target) * (1 - input).log())
    loss = loss if weight is None else loss * weight
    loss = _reduced(loss, reduction, "BinaryCrossEntropyBackward0")
    return _watching(loss, input, target, weight)


# PyTorch divides by x * (1 - x) in the gradient, and by this number if that is less.
_FLAT = 1e-12


def _loss_with_ends(input: Tensor, target: Tensor, ends: Tensor) -> Tensor:
    """Binary cross entropy where some probabilities are (almost) 0 or 1.

    There it is a line in `input`, whose value is the limited one.
    """
    inner = where(ends, 0.5, input)
    loss = -(target * inner.log() + (1 - target) * (1 - inner).log())
    x = input.detach()
    logs = [clamp(p.log(), min=-100.0) for p in (x, 1 - x)]
    level = -(target * logs[0] + (1 - target) * logs[1])
    slope = (x - target.detach()) / _FLAT
    return where(ends, level + (input - x) * slope, loss)


__all__ = ["binary_cross_entropy", "cross_entropy", "nll_loss"]
