"""Convolutions and pooling, put together from shifted slices of the padded input.

A kernel has few places: for each, one strided slice of the input is taken, which is a
view, and the slices are multiplied and added.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from tracegrad.eager.engine import entry_of
from tracegrad.eager.inplace import named
from tracegrad.eager.nn.checks import check_convolution
from tracegrad.eager.products import einsum
from tracegrad.eager.selection import gather
from tracegrad.eager.shapes import cat, reshape, stack
from tracegrad.eager.tensor import Tensor, wrap
from tracegrad.ops import rearrange


def _tuple(value: Any, count: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,) * count


def _padded(x: Tensor, widths: tuple[int, ...], value: float) -> Tensor:
    if not any(widths):
        return x
    around = ((0, 0), (0, 0), *[(w, w) for w in widths])
    pad = entry_of(rearrange.pad)
    return pad.eager(x, pad_width=around, mode="constant", constant_values=value)


def _windows(x: Tensor, kernel: Any, stride: Any, dilation: Any) -> list[Tensor]:
    """For each place of the kernel the elements that it meets."""
    sizes = x._data.shape[2:]
    counts = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(sizes, kernel, stride, dilation)
    ]
    if min(counts) < 1:
        text = " x ".join(map(str, sizes))
        reach = " x ".join([str(d * (k - 1) + 1) for k, d in zip(kernel, dilation)])
        raise RuntimeError(
            f"Calculated padded input size per channel: ({text}). Kernel size: "
            f"({reach}). Kernel size can't be greater than actual input size"
        )
    made = []
    for place in itertools.product(*map(range, kernel)):
        cuts = [
            slice(d * p, d * p + s * (c - 1) + 1, s)
            for p, s, d, c in zip(place, stride, dilation, counts)
        ]
        made.append(x[(slice(None), slice(None), *cuts)])
    return made


def _convolution(rank: int) -> Any:
    axes = "xyz"[:rank]

    def function(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        single = input._data.ndim == rank + 1
        x = input.unsqueeze(0) if single else input
        kernel = weight._data.shape[2:]
        stride, dilation = _tuple(stride, rank), _tuple(dilation, rank)
        if padding == "same":
            padding = tuple([d * (k - 1) // 2 for d, k in zip(dilation, kernel)])
        if x._data.ndim != rank + 2:
            raise RuntimeError(
                f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to "
                f"conv{rank}d, but got input of size: {list(input._data.shape)}"
            )
        widths = padding if isinstance(padding, str) else _tuple(padding, rank)
        check_convolution(x, weight, bias, stride, widths, groups)
        x = _padded(x, _tuple(0 if padding == "valid" else padding, rank), 0.0)
        made = []
        for part, w in zip(x.chunk(groups, 1), weight.chunk(groups, 0)):
            windows = stack(_windows(part, kernel, stride, dilation), 2)
            flat = reshape(w, (*w._data.shape[:2], math.prod(kernel)))
            made.append(einsum(f"nck{axes},ock->no{axes}", windows, flat))
        out = made[0] if groups == 1 else cat(made, 1)
        if bias is not None:
            out = out + reshape(bias, (-1, *[1] * rank))
        out = out.squeeze(0) if single else out
        return named(out, "SqueezeBackward1" if single else "ConvolutionBackward0")

    function.__name__ = function.__qualname__ = f"conv{rank}d"
    function.__doc__ = f"Correlation with a kernel over the last {rank} axes."
    return function


conv1d, conv2d, conv3d = map(_convolution, (1, 2, 3))
_POOLED = {1: "SqueezeBackward1", 2: "Pool2DBackward0", 3: "Pool3DBackward0"}


def _pool(which: str, rank: int) -> Any:
    title = _POOLED[rank]
    if rank > 1:
        title = f"Max{title.replace('Back', 'WithIndicesBack')}"
        title = title if which == "max" else f"Avg{_POOLED[rank]}"

    def function(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0
    ) -> Tensor:
        single = input._data.ndim == rank + 1
        x = input.unsqueeze(0) if single else input
        kernel = _tuple(kernel_size, rank)
        steps = kernel if stride is None else _tuple(stride, rank)
        x = _padded(x, _tuple(padding, rank), -math.inf if which == "max" else 0.0)
        windows = stack(_windows(x, kernel, steps, (1,) * rank), 0)
        if which == "max":
            places = np.expand_dims(windows._data.argmax(0), 0)
            made = gather(windows, 0, wrap(places))
            if rank == 1:
                named(made, "MaxPool2DWithIndicesBackward0")  # PyTorch's way to do it
            made = made.squeeze(0)
        else:
            made = windows.mean(0)
        return named(made.squeeze(0) if single else made, title)

    function.__name__ = function.__qualname__ = f"{which}_pool{rank}d"
    function.__doc__ = f"The {which} over windows of the last {rank} axes."
    return function


max_pool1d, max_pool2d, max_pool3d = [_pool("max", rank) for rank in (1, 2, 3)]
avg_pool1d, avg_pool2d, avg_pool3d = [_pool("avg", rank) for rank in (1, 2, 3)]
