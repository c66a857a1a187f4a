"""Layers by composition: normalizations, shrinkages, adaptive pools."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracegrad.eager.arithmetic import where
from tracegrad.eager.creation import generator
from tracegrad.eager.dtypes import SCALAR_TYPES
from tracegrad.eager.inplace import named
from tracegrad.eager.registry import FUNCTIONS
from tracegrad.eager.tensor import Tensor, wrap

stack = FUNCTIONS["stack"]


def _scaled(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, axis: int = 1
) -> Tensor:
    after = (1,) * (x._data.ndim - axis - 1)
    if weight is not None:
        x = x * weight.reshape(-1, *after)
    return x if bias is None else x + bias.reshape(-1, *after)


def _standard(x: Tensor, dims: tuple, eps: float) -> Tensor:
    middle = x.mean(dims, keepdim=True)
    spread = x.var(dims, unbiased=False, keepdim=True)
    return (x - middle) / (spread + eps).sqrt()


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Mean 0 and deviation 1 over groups of channels."""
    shape = input._data.shape
    if len(shape) < 2:
        raise RuntimeError(
            f"Expected at least 2 dimensions for input tensor but received {len(shape)}"
        )
    if shape[1] % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but "
            f"got input of shape {list(shape)} and num_groups={num_groups}"
        )
    groups = input.reshape(shape[0], num_groups, -1)
    made = _standard(groups, (2,), eps).reshape(shape)
    return named(_scaled(made, weight, bias), "NativeGroupNormBackward0")


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Mean 0 and deviation 1 over each channel of each example."""
    if not use_input_stats:
        raise NotImplementedError("instance_norm() needs use_input_stats=True")
    dims = tuple(range(2, input._data.ndim))
    made = _scaled(_standard(input, dims, eps), weight, bias)
    return named(made, "ViewBackward0")


def rms_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Root mean square 1 over the last axes."""
    dims = tuple(range(-len(tuple(normalized_shape)), 0))
    small = float(np.finfo(input._data.dtype).eps) if eps is None else eps
    made = input * ((input * input).mean(dims, keepdim=True) + small).rsqrt()
    return made if weight is None else made * weight


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """`x` where it is positive, `weight * x` elsewhere."""
    slope = weight
    if weight._data.size > 1:
        slope = weight.reshape(-1, *(1,) * max(0, input._data.ndim - 2))
    return named(where(input > 0, input, slope * input), "PreluKernelBackward0")


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """0 between `-lambd` and `lambd`."""
    inside = (input >= -lambd) & (input <= lambd)
    return named(where(inside, 0.0, input), "HardshrinkBackward0")


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """`lambd` nearer to 0, and 0 between."""
    if lambd < 0:
        top = f"{np.finfo(input._data.dtype).max:g}"
        what = SCALAR_TYPES[input.dtype]
        raise RuntimeError(
            f"lambda must be in range [0, {top}] for input dtype {what}, but found "
            f"{lambd:g}"
        )
    below = where(input < -lambd, input + lambd, 0.0)
    beyond = where(input > lambd, input - lambd, below)
    return named(beyond, "SoftshrinkBackward0")


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Channels spread over squares of pixels."""
    *lead, c, h, w = input._data.shape
    r = upscale_factor
    x = input.reshape(*lead, c // r**2, r, r, h, w)
    n = len(lead)
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    made = x.permute(order).reshape(*lead, c // r**2, h * r, w * r)
    return named(made, "PixelShuffleBackward0")


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Squares of pixels gathered in channels."""
    *lead, c, h, w = input._data.shape
    r = downscale_factor
    x = input.reshape(*lead, c, h // r, r, w // r, r)
    n = len(lead)
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    made = x.permute(order).reshape(*lead, c * r**2, h // r, w // r)
    return named(made, "PixelUnshuffleBackward0")


def _adaptive(x: Tensor, sizes: tuple, title: str) -> Tensor:
    """Means over parts of the last axes, as many as `sizes` says."""
    for back, size in enumerate(reversed(sizes), 1):
        if size is None:
            continue
        length = x._data.shape[-back]
        ends = [
            (math.floor(k * length / size), math.ceil((k + 1) * length / size))
            for k in range(size)
        ]
        parts = [x.narrow(-back, a, b - a).mean(-back) for a, b in ends]
        x = stack(parts, x._data.ndim - back)
    return named(x, title)


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """As many means as asked for."""
    size = output_size if isinstance(output_size, tuple | list) else (output_size,)
    return _adaptive(input, tuple(size), "SqueezeBackward1")


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """As many means as asked for, along two axes."""
    two = isinstance(output_size, tuple | list)
    size = tuple(output_size) if two else (output_size, output_size)
    title = "MeanBackward1" if size == (1, 1) else "AdaptiveAvgPool2DBackward0"
    return _adaptive(input, size, title)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Whole channels set to 0, the others scaled."""
    if not training or p == 0:
        return input
    ndim = input._data.ndim
    shape = input._data.shape[: max(1, ndim - 1)] + (1,)
    keep = generator.rng.random(shape[:ndim]) >= p
    return input * wrap((keep / (1 - p)).astype(input._data.dtype))


def gumbel_softmax(
    logits: Tensor,
    tau: float = 1,
    hard: bool = False,
    eps: float = 1e-10,
    dim: int = -1,
) -> Tensor:
    """A sample of a relaxed distribution; with `hard`, one of its corners."""
    drawn = generator.rng.gumbel(size=logits._data.shape).astype(logits._data.dtype)
    soft = ((logits + wrap(np.asarray(drawn))) / tau).softmax(dim)
    if not hard:
        return soft
    place = soft.max(dim, keepdim=True)[1]
    one = wrap(np.zeros_like(soft._data)).scatter_(dim, place, 1.0)
    return one - soft.detach() + soft


__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "dropout1d",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "instance_norm",
    "pixel_shuffle",
    "pixel_unshuffle",
    "prelu",
    "rms_norm",
    "softshrink",
]
