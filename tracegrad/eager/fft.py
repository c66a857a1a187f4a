"""`torch.fft`, on the ops of the same names in NumPy.

The last axes are `dim=`, sizes are `n=` or `s=`, as PyTorch calls them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.eager.dtypes import default, to_numpy_dtype
from tracegrad.eager.inplace import named
from tracegrad.eager.statistics import floating
from tracegrad.eager.tensor import Tensor, wrap
from tracegrad.ops.define import ACCEPT


def _title(name: str, x: Tensor) -> str:
    """The name of the last step that PyTorch takes."""
    if name in ("irfft", "irfft2", "irfftn", "hfft"):
        return "FftC2RBackward0"
    if name.startswith("rfft") or (name == "fft" and x._data.dtype.kind == "f"):
        return "FftR2CBackward0"
    if name == "ihfft" or (name == "ifft" and x._data.dtype.kind == "f"):
        return "ConjBackward0"
    return "FftC2CBackward0"


def _one_axis(name: str) -> Callable:
    numpy = ACCEPT[getattr(np.fft, name)]

    def function(
        input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None
    ) -> Tensor:
        x = floating(input)
        return named(numpy(x, n, dim, norm), _title(name, x))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`np.fft.{name}` of a tensor along `dim`."
    return function


def _several_axes(name: str) -> Callable:
    numpy = ACCEPT[getattr(np.fft, name)]
    usual = (-2, -1) if name.endswith("2") else None

    def function(
        input: Tensor, s: Any = None, dim: Any = usual, norm: str | None = None
    ) -> Tensor:
        x = floating(input)
        axes = tuple(range(x._data.ndim)) if dim is None and s is None else dim
        if axes is None:
            axes = tuple(range(-len(s), 0))
        axes = (axes,) if isinstance(axes, int) else tuple(axes)
        sizes = None if s is None else tuple(s)
        return named(numpy(x, sizes, axes, norm), _title(name, x))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`np.fft.{name}` of a tensor over the axes `dim`."
    return function


def _shift(name: str) -> Callable:
    numpy = ACCEPT[getattr(np.fft, name)]

    def function(input: Tensor, dim: Any = None) -> Tensor:
        return named(numpy(input, dim), "RollBackward0")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`np.fft.{name}` of a tensor."
    return function


fft, ifft = _one_axis("fft"), _one_axis("ifft")
rfft, irfft = _one_axis("rfft"), _one_axis("irfft")
hfft, ihfft = _one_axis("hfft"), _one_axis("ihfft")
fft2, ifft2 = _several_axes("fft2"), _several_axes("ifft2")
rfft2, irfft2 = _several_axes("rfft2"), _several_axes("irfft2")
fftn, ifftn = _several_axes("fftn"), _several_axes("ifftn")
rfftn, irfftn = _several_axes("rfftn"), _several_axes("irfftn")
fftshift, ifftshift = _shift("fftshift"), _shift("ifftshift")


def _frequencies(made: np.ndarray, dtype: Any) -> Tensor:
    kind = default.real if dtype is None else to_numpy_dtype(dtype)
    return wrap(made.astype(kind))


def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None) -> Tensor:
    """The frequencies of `fft`."""
    return _frequencies(np.fft.fftfreq(n, d), dtype)


def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None) -> Tensor:
    """The frequencies of `rfft`."""
    return _frequencies(np.fft.rfftfreq(n, d), dtype)
