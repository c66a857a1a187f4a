"""Arguments of layers that do not fit: PyTorch's errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.eager.dtypes import SCALAR_TYPES, from_numpy_dtype
from tracegrad.eager.tensor import Size, Tensor


def checked_layer(
    input: Tensor, sizes: Any, weight: Tensor | None, bias: Tensor | None
) -> list[int]:
    """The sizes of the axes that `layer_norm` works on.

    Raises:
        TypeError, RuntimeError: PyTorch's messages, if something does not fit them.
    """
    if not isinstance(sizes, tuple | list):
        raise TypeError(
            "layer_norm(): argument 'normalized_shape' (position 2) must be tuple of "
            f"ints, not {type(sizes).__name__}"
        )
    if not sizes:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing "
            "at least one element, but got normalized_shape = []"
        )
    wanted = [int(n) for n in sizes]
    for name, x in (("weight", weight), ("bias", bias)):
        if x is not None and list(x._data.shape) != wanted:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got "
                f"{name} of shape {list(x._data.shape)} and normalized_shape = {wanted}"
            )
    have = list(input._data.shape)
    if len(have) < len(wanted) or have[-len(wanted) :] != wanted:
        text = ", ".join(map(str, wanted))
        raise RuntimeError(
            f"Given normalized_shape={wanted}, expected input with shape [*, {text}], "
            f"but got input of size{have}"
        )
    return wanted


def check_batch(input: Tensor, given: Sequence[Tensor | None], training: bool) -> None:
    """Refuse arguments of `batch_norm` that do not fit.

    Args:
        input: the batch.
        given: the running mean and variance, the weight and the bias.
        training: whether the batch's own statistics are used.

    Raises:
        IndexError, ValueError, RuntimeError: PyTorch's messages.
    """
    have = input._data.shape
    if len(have) < 2:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-len(have)}, "
            f"{len(have) - 1}], but got 1)"
        )
    if training and input._data.size == have[1]:
        raise ValueError(
            "Expected more than 1 value per channel when training, got input size "
            f"{Size(have)!r}"
        )
    names = ("running_mean", "running_var", "weight", "bias")
    for name, x in zip(names, given, strict=True):
        if x is None and not training and name.startswith("running"):
            raise RuntimeError(f"{name} must be defined in evaluation mode")
        if x is not None and x._data.size != have[1]:
            raise RuntimeError(
                f"{name} should contain {have[1]} elements not {x._data.size}"
            )


def check_class_numbers(x: Tensor, count: int) -> None:
    """Refuse numbers that are no classes.

    Raises:
        RuntimeError: PyTorch's messages.
    """
    if x._data.dtype != np.int64:
        raise RuntimeError(
            "one_hot is only applicable to index tensor of type LongTensor."
        )
    if x._data.size and x._data.min() < 0:
        raise RuntimeError("Class values must be non-negative.")
    if count >= 0 and x._data.size and x._data.max() >= count:
        raise RuntimeError("Class values must be smaller than num_classes.")


def check_convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: tuple[int, ...],
    padding: Any,
    groups: int,
) -> None:
    """Refuse arguments of a convolution of a batch that do not fit.

    Raises:
        RuntimeError: PyTorch's messages.
    """
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    if min(stride) <= 0:
        raise RuntimeError("non-positive stride is not supported")
    if not isinstance(padding, str) and min(padding, default=0) < 0:
        raise RuntimeError("negative padding is not supported")
    have, kernel = list(x._data.shape), list(weight._data.shape)
    if len(have) != len(kernel):
        raise RuntimeError(
            f"expected stride to be a single integer value or a list of "
            f"{len(kernel) - 2} values to match the convolution dimensions, but got "
            f"stride={list(stride)}"
        )
    if kernel[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at "
            f"dimension 0, but got weight of size [{kernel}] instead"
        )
    if have[1] != kernel[1] * groups:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {kernel}, expected input{have} to "
            f"have {kernel[1] * groups} channels, but got {have[1]} channels instead"
        )
    if bias is not None and bias._data.shape != (kernel[0],):
        raise RuntimeError(
            f"Given weight of size {kernel}, expected bias to be 1-dimensional with "
            f"{kernel[0]} elements, but got bias of size {list(bias._data.shape)} "
            "instead"
        )
    kinds = [SCALAR_TYPES[from_numpy_dtype(d._data.dtype)] for d in (x, weight)]
    if kinds[0] != kinds[1]:
        raise RuntimeError(f"expected scalar type {kinds[0]} but found {kinds[1]}")
