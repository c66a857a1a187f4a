"""Windows as columns, transposed convolutions, sizes between those of the pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.eager.inplace import named
from tracegrad.eager.nn import convolution, norms
from tracegrad.eager.nn.functional import pad
from tracegrad.eager.tensor import Tensor, wrap


def _each(value: Any, count: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,) * count


# ------------------------------------------------------------------ columns of windows
def _window_places(
    sizes: Sequence[int], kernel: tuple, dilation: tuple, stride: tuple
) -> np.ndarray:
    """For each offset in a window, the place of it in each window, row by row."""
    grids = []
    for n, k, d, s in zip(sizes, kernel, dilation, stride):
        count = (n - d * (k - 1) - 1) // s + 1
        grids.append(np.arange(k)[:, None] * d + np.arange(count) * s)
    rows, columns = grids
    places = rows[:, None, :, None] * sizes[1] + columns[None, :, None, :]
    return places.reshape(kernel[0] * kernel[1], -1)


def unfold(
    input: Tensor,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Tensor:
    """Each window of an image as a column."""
    kernel, dilation, padding, stride = (
        _each(v, 2) for v in (kernel_size, dilation, padding, stride)
    )
    x = input if input._data.ndim == 4 else input.unsqueeze(0)
    x = pad(x, (padding[1], padding[1], padding[0], padding[0]))
    n, c, h, w = x._data.shape
    places = _window_places((h, w), kernel, dilation, stride)
    made = x.reshape(n, c, h * w)[:, :, wrap(places)]
    made = made.reshape(n, c * places.shape[0], places.shape[1])
    return named(made if input._data.ndim == 4 else made[0], "Im2ColBackward0")


def fold(
    input: Tensor,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Tensor:
    """The image of which columns are windows; where they overlap they are summed."""
    size, kernel, dilation, padding, stride = (
        _each(v, 2) for v in (output_size, kernel_size, dilation, padding, stride)
    )
    x = input if input._data.ndim == 3 else input.unsqueeze(0)
    h, w = size[0] + 2 * padding[0], size[1] + 2 * padding[1]
    places = _window_places((h, w), kernel, dilation, stride)
    n, columns, windows = x._data.shape
    counts = [
        (a - d * (k - 1) - 1) // step + 1
        for a, k, d, step in zip((h, w), kernel, dilation, stride)
    ]
    if windows != places.shape[1]:
        raise RuntimeError(
            f"Given output_size=({size[0]}, {size[1]}), kernel_size=({kernel[0]}, "
            f"{kernel[1]}), dilation=({dilation[0]}, {dilation[1]}), padding=("
            f"{padding[0]}, {padding[1]}), stride=({stride[0]}, {stride[1]}), expected "
            f"size of input's dimension 2 to match the calculated number of sliding "
            f"blocks {counts[0]} * {counts[1]} = {places.shape[1]}, but got "
            f"input.size(2)={windows}."
        )
    c = columns // places.shape[0]
    flat = x.reshape(n, c, places.size)
    zeros = wrap(np.zeros((n, c, h * w), x._data.dtype))
    whole = zeros.index_add(2, wrap(places.reshape(-1)), flat).reshape(n, c, h, w)
    part = whole[
        :, :, padding[0] : padding[0] + size[0], padding[1] : padding[1] + size[1]
    ]
    return named(part if input._data.ndim == 3 else part[0], "Col2ImBackward0")


# ------------------------------------------------------------- transposed convolutions
def _transposed_convolution(rank: int) -> Any:
    convolve = getattr(convolution, f"conv{rank}d")

    def function(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Tensor:
        steps, margins, more, wide = (
            _each(v, rank) for v in (stride, padding, output_padding, dilation)
        )
        x = input if input._data.ndim == rank + 2 else input.unsqueeze(0)
        kernel = weight._data.shape[2:]
        for k, step in enumerate(steps):
            x = _spaced(x, 2 + k, step)
        widths: list[int] = []
        for k in reversed(range(rank)):
            reach = wide[k] * (kernel[k] - 1) - margins[k]
            widths += [reach, reach + more[k]]
        x = _padded_or_cut(x, widths)
        cin, cout = weight._data.shape[:2]
        turned = weight.reshape(groups, cin // groups, cout, *kernel).transpose(1, 2)
        turned = turned.reshape(groups * cout, cin // groups, *kernel)
        turned = turned.flip(tuple(range(2, rank + 2)))
        made = convolve(x, turned, bias, 1, 0, wide, groups)
        if input._data.ndim == rank + 2:
            return named(made, "ConvolutionBackward0")
        return named(made.squeeze(0), "SqueezeBackward1")

    function.__name__ = function.__qualname__ = f"conv_transpose{rank}d"
    function.__doc__ = f"The transpose of a convolution over {rank} axes."
    return function


def _spaced(x: Tensor, axis: int, step: int) -> Tensor:
    """Zeros between the elements along an axis."""
    if step == 1:
        return x
    shape = list(x._data.shape)
    n = shape[axis]
    apart = x.unsqueeze(axis + 1)
    widths = (0, 0) * (x._data.ndim - axis - 1) + (0, step - 1)
    shape[axis] = n * step
    return pad(apart, widths).reshape(shape).narrow(axis, 0, (n - 1) * step + 1)


def _padded_or_cut(x: Tensor, widths: list[int]) -> Tensor:
    """Padding where a width is positive, and less of the array where it is negative."""
    for back in range(len(widths) // 2):
        left, right = widths[2 * back : 2 * back + 2]
        axis = x._data.ndim - 1 - back
        start, end = max(0, -left), x._data.shape[axis] - max(0, -right)
        x = x.narrow(axis, start, end - start)
    return pad(x, tuple([max(0, w) for w in widths]))


conv_transpose1d = _transposed_convolution(1)
conv_transpose2d = _transposed_convolution(2)
conv_transpose3d = _transposed_convolution(3)


# -------------------------------------------------------------------------- other sizes
def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """An image with other sizes: "nearest", "linear", "bilinear", "bicubic", "area"."""
    rank = input._data.ndim - 2
    if (size is None) == (scale_factor is None):
        which = "either" if size is None else "only one of"
        raise ValueError(f"{which} size or scale_factor should be defined")
    have = input._data.shape[2:]
    if size is None:
        scales: tuple[Any, ...] = _each(scale_factor, rank)
        sizes = tuple([math.floor(n * s) for n, s in zip(have, scales)])
    else:
        sizes, scales = _each(size, rank), (None,) * rank
    if antialias:
        raise NotImplementedError("interpolate() has no antialias here")
    if mode == "area":
        return norms._adaptive(input, sizes, "AdaptiveAvgPool2DBackward0")
    x = input
    for k, (n, m, s) in enumerate(zip(have, sizes, scales)):
        if recompute_scale_factor:
            s = None
        matrix = _weights(n, m, s, mode, bool(align_corners)).astype(x._data.dtype)
        x = (x.movedim(2 + k, -1) @ wrap(matrix.T)).movedim(-1, 2 + k)
    kind = "".join(part.capitalize() for part in mode.split("-"))
    return named(x, f"Upsample{kind}{rank}DBackward0")


def _weights(n: int, m: int, scale: Any, mode: str, corners: bool) -> np.ndarray:
    """How much of each of `n` elements is in each of `m`."""
    step = n / m if scale is None else 1 / scale
    places = np.arange(m)
    made = np.zeros((m, n))
    if mode == "nearest":
        made[places, np.minimum(np.floor(places * step).astype(int), n - 1)] = 1
        return made
    if mode == "nearest-exact":
        found = np.floor((places + 0.5) * step).astype(int)
        made[places, np.minimum(found, n - 1)] = 1
        return made
    if corners:
        at = places * ((n - 1) / (m - 1) if m > 1 else 0.0)
    else:
        at = (places + 0.5) * step - 0.5
    if mode == "bicubic":
        low = np.floor(at).astype(int)
        for offset, weight in zip((-1, 0, 1, 2), _cubic(at - low)):
            np.add.at(made, (places, np.clip(low + offset, 0, n - 1)), weight)
        return made
    if mode not in ("linear", "bilinear", "trilinear"):
        raise NotImplementedError(f"interpolate() has no mode {mode!r} here")
    at = np.maximum(at, 0)
    low = np.minimum(at.astype(int), n - 1)
    share = at - low
    np.add.at(made, (places, low), 1 - share)
    np.add.at(made, (places, np.minimum(low + 1, n - 1)), share)
    return made


def _cubic(t: np.ndarray) -> list[np.ndarray]:
    """The weights of four neighbours, by Keys's convolution kernel with a = -0.75."""
    a = -0.75

    def near(x: np.ndarray) -> np.ndarray:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: np.ndarray) -> np.ndarray:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


__all__ = [
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "fold",
    "interpolate",
    "unfold",
]
