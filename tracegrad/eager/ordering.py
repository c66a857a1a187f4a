"""Extremes, medians, running extremes, differences; comparisons of whole tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.eager.arithmetic import where
from tracegrad.eager.dtypes import from_numpy_dtype, promote_types, result_type
from tracegrad.eager.engine import entry_of
from tracegrad.eager.inplace import named
from tracegrad.eager.reductions import return_type, shared
from tracegrad.eager.registry import axes_of, axis_of, torch_function
from tracegrad.eager.runtime import general
from tracegrad.eager.selection import gather, narrow, split
from tracegrad.eager.shapes import cat, expand, reshape, stack
from tracegrad.eager.tensor import Tensor, wrap
from tracegrad.ops import extreme, select
from tracegrad.ops import quantile as quantiles

median_result = return_type("median", "values", "indices")
nanmedian_result = return_type("nanmedian", "values", "indices")
kthvalue_result = return_type("kthvalue", "values", "indices")
cummax_result = return_type("cummax", "values", "indices")
cummin_result = return_type("cummin", "values", "indices")
aminmax_result = return_type("aminmax", "min", "max")


# ---------------------------------------------------------------------------- extremes
@torch_function("amax", methods=True)
def amax(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The largest element over `dim`; ties share the derivative."""
    axis = axes_of(dim, input._data.ndim)
    made = entry_of(extreme.max).eager(input, axis=axis, keepdims=keepdim)
    return named(made, "AmaxBackward0")


@torch_function("amin", methods=True)
def amin(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The smallest element over `dim`; ties share the derivative."""
    axis = axes_of(dim, input._data.ndim)
    made = entry_of(extreme.min).eager(input, axis=axis, keepdims=keepdim)
    return named(made, "AminBackward0")


@torch_function("aminmax", methods=True)
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """The smallest and the largest element."""
    over = () if dim is None else dim
    pair = amin(input, over, keepdim), amax(input, over, keepdim)
    return aminmax_result(*[named(x, "AminmaxBackward0") for x in pair])


def _chosen(x: Tensor, axis: int, rank: Any, keepdim: bool, name: str) -> tuple:
    """The element of a rank (from 0) along an axis, and where it is.

    The rank may be an array, with one for each lane.
    """
    if not x._data.ndim:
        return named(x.clone(), name), wrap(np.zeros((), np.int64))
    order = np.argsort(x._data, axis=axis, kind="stable")
    if isinstance(rank, int):
        places = np.take(order, [rank], axis=axis)
    else:
        places = np.take_along_axis(order, rank, axis)
    if x._data.dtype.kind == "f" and name.startswith("Median"):
        bad = np.isnan(x._data)
        first = np.expand_dims(bad.argmax(axis), axis)
        places = np.where(bad.any(axis, keepdims=True), first, places)
    values, indices = gather(x, axis, wrap(places)), wrap(places)
    if not keepdim:
        values, indices = values.squeeze(axis), indices.squeeze(axis)
    return named(values, name), indices


@torch_function("median", methods=True)
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The element in the middle, the lower one of two."""
    if dim is None:
        return _median_of_all(input, "MedianBackward0")
    axis = axis_of(dim, input._data.ndim)
    count = input._data.shape[axis] if input._data.ndim else 1
    middle = (count - 1) // 2
    return median_result(*_chosen(input, axis, middle, keepdim, "MedianBackward1"))


def _median_of_all(input: Tensor, name: str) -> Tensor:
    """One element; those that equal it share the derivative."""
    data = input._data
    bad = np.isnan(data) if data.dtype.kind == "f" else np.zeros(data.shape, bool)
    if name.startswith("Nan") and not bad.all():
        kept = data[~bad]
    else:
        kept = data.reshape(-1)
    if not kept.size:
        return wrap(np.asarray(np.nan, data.dtype))
    value = np.sort(kept)[(kept.size - 1) // 2]
    if kept.size == data.size and bad.any():
        value = data[bad][0]
    return shared(input, bad if value != value else data == value, name)


@torch_function("nanmedian", methods=True)
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The element in the middle of those that are numbers, the lower one of two."""
    if dim is None:
        return _median_of_all(input, "NanmedianBackward0")
    axis = axis_of(dim, input._data.ndim)
    count = np.expand_dims((input._data == input._data).sum(axis), axis)
    rank = np.maximum(count - 1, 0) // 2
    return nanmedian_result(*_chosen(input, axis, rank, keepdim, "NanmedianBackward1"))


@torch_function("kthvalue", methods=True)
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The element that is the k-th smallest along an axis."""
    axis = axis_of(dim, input._data.ndim)
    if not 0 < k <= input._data.shape[axis]:
        raise RuntimeError(
            f"kthvalue(): selected number k out of range for dimension {axis}"
        )
    return kthvalue_result(*_chosen(input, axis, k - 1, keepdim, "KthvalueBackward0"))


@torch_function("quantile", methods=True)
def quantile(
    input: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """The value below which the share `q` of the elements lies."""
    share = q if isinstance(q, Tensor) else wrap(np.array(q, input._data.dtype))
    axis = None if dim is None else axis_of(dim, input._data.ndim)
    attrs = {"axis": axis, "method": interpolation, "keepdims": keepdim}
    made = general(entry_of(quantiles.quantile).prepare(), (input, share), attrs)
    return named(made, "SqueezeBackward4")


def _running(name: str, kind: Any) -> None:
    ufunc = np.maximum if name == "cummax" else np.minimum

    def function(input: Tensor, dim: int) -> Any:
        axis = axis_of(dim, input._data.ndim)
        data = input._data
        count = np.arange(data.shape[axis]).reshape([-1] + [1] * (data.ndim - axis - 1))
        best = ufunc.accumulate(data, axis)
        reached = np.where((data == best) | (data != data), count, 0)
        places = wrap(np.maximum.accumulate(reached, axis))
        return kind(
            named(gather(input, axis, places), f"{name.title()}Backward0"), places
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The running {name[3:]}imum along `dim`, and where it is."
    torch_function(name, methods=True)(function)


_running("cummax", cummax_result)
_running("cummin", cummin_result)


@torch_function("logcumsumexp", methods=True)
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """The logarithm of the running sum of exponentials, scaled by the largest."""
    top = wrap(input._data.max(axis_of(dim, input._data.ndim), keepdims=True))
    made = (input - top).exp().cumsum(dim).log() + top
    return named(made, "LogcumsumexpBackward0")


@torch_function("diff", methods=True)
def diff(input: Tensor, n: int = 1, dim: int = -1) -> Tensor:
    """Differences of neighbours along an axis, `n` times."""
    for _ in range(n):
        length = input._data.shape[axis_of(dim, input._data.ndim)]
        input = narrow(input, dim, 1, length - 1) - narrow(input, dim, 0, length - 1)
    return input


@torch_function("nansum", methods=True)
def nansum(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The sum of the elements that are numbers."""
    number = wrap(np.zeros((), input._data.dtype))
    made = where(input.isnan(), number, input).sum(dim, keepdim)
    return named(made, "NansumBackward0")


@torch_function("nanmean", methods=True)
def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The mean of the elements that are numbers."""
    count = input.isnan().logical_not().sum(dim, keepdim)
    return nansum(input, dim, keepdim) / count


# ------------------------------------------------------------------- whole comparisons
@torch_function("isclose", methods=True)
def isclose(
    input: Tensor,
    other: Tensor,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> Tensor:
    """Where two tensors are equal up to tolerances."""
    made = np.isclose(input._data, other._data, rtol, atol, equal_nan)
    return wrap(np.asarray(made))


@torch_function("allclose", methods=True)
def allclose(
    input: Tensor,
    other: Tensor,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> bool:
    """Whether two tensors are equal up to tolerances."""
    return bool(np.allclose(input._data, other._data, rtol, atol, equal_nan))


@torch_function("equal", methods=True)
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and elements."""
    return bool(np.array_equal(input._data, other._data))


@torch_function("promote_types")
def promote_types_(type1: Any, type2: Any) -> Any:
    """The dtype to which two dtypes are promoted."""
    return from_numpy_dtype(promote_types(type1.numpy, type2.numpy))


@torch_function("result_type")
def result_type_(*operands: Any) -> Any:
    """The dtype of a result of tensors and numbers."""
    found = [x._data if isinstance(x, Tensor) else x for x in operands]
    return from_numpy_dtype(result_type(found))


@torch_function("argwhere", methods=True)
def argwhere(input: Tensor) -> Tensor:
    """The positions of the elements that are not 0."""
    return wrap(np.argwhere(input._data))


@torch_function("bincount", methods=True)
def bincount(input: Tensor, weights: Any = None, minlength: int = 0) -> Tensor:
    """How often each number occurs."""
    given = None if weights is None else weights._data
    made = np.bincount(input._data, given, minlength)
    return wrap(made if given is None else made.astype(given.dtype))


@torch_function("searchsorted")
def searchsorted(sorted_sequence: Tensor, input: Tensor, *, right: bool = False) -> Any:
    """Where the elements would stand in a sorted vector."""
    have, wanted = sorted_sequence._data, input._data
    if right:
        return wrap(np.asarray(np.searchsorted(have, wanted, side="right")))
    return wrap(np.asarray(np.searchsorted(have, wanted)))


# -------------------------------------------------------------------- complex numbers
@torch_function("real")
def real(input: Tensor) -> Tensor:
    """The real part; a real tensor is itself."""
    if input._data.dtype.kind != "c":
        return input
    return named(entry_of(select.real).eager(input), "SelectBackward0")


@torch_function("imag")
def imag(input: Tensor) -> Tensor:
    """The imaginary part."""
    if input._data.dtype.kind != "c":
        raise RuntimeError(
            "imag is not implemented for tensors with non-complex dtypes."
        )
    return named(entry_of(select.imag).eager(input), "SelectBackward0")


Tensor.real = property(real)  # type: ignore[attr-defined]
Tensor.imag = property(imag)  # type: ignore[attr-defined]


@torch_function("angle", methods=True)
def angle(input: Tensor) -> Tensor:
    """The argument of a complex number."""
    return named(entry_of(select.angle).eager(input), "AngleBackward0")


@torch_function("complex")
def complex_(real: Tensor, imag: Tensor) -> Tensor:
    """The complex tensor of these parts."""
    return named(real + imag * 1j, "ComplexBackward0")


@torch_function("polar")
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """The complex tensor of these sizes and arguments."""
    return named(abs * angle.cos() + abs * angle.sin() * 1j, "PolarBackward0")


@torch_function("view_as_real", function=True)
def view_as_real(input: Tensor) -> Tensor:
    """Both parts along a new last axis; a copy, where PyTorch gives a view."""
    return named(stack([real(input), imag(input)], -1), "ViewAsRealBackward0")


# --------------------------------------------------------------------------- arranging
@torch_function("meshgrid")
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Vectors expanded to the grid that they span."""
    if len(tensors) == 1 and isinstance(tensors[0], tuple | list):
        tensors = tuple(tensors[0])
    turned = indexing == "xy" and len(tensors) > 1
    parts = [tensors[1], tensors[0], *tensors[2:]] if turned else list(tensors)
    sizes = [x._data.size for x in parts]
    made = []
    for k, x in enumerate(parts):
        line = x.view(*[-1 if i == k else 1 for i in range(len(parts))])
        made.append(expand(line, sizes))
    if turned:
        made = [made[1], made[0], *made[2:]]
    return tuple(made)


@torch_function("tensor_split", methods=True)
def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple:
    """Pieces as equal as can be, or cut at the places given."""
    axis = axis_of(dim, input._data.ndim)
    length = input._data.shape[axis]
    if isinstance(indices_or_sections, int):
        size, larger = divmod(length, indices_or_sections)
        sizes = [size + (k < larger) for k in range(indices_or_sections)]
    else:
        ends = [*indices_or_sections, length]
        sizes = [b - a for a, b in zip([0, *ends], ends)]
    return tuple([named(x, "SliceBackward0") for x in split(input, sizes, dim)])


@torch_function("reshape_as", methods=True, function=False)
def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """`reshape` to the shape of `other`."""
    return reshape(self, other._data.shape)


@torch_function("atleast_1d")
def atleast_1d(input: Tensor) -> Tensor:
    """The tensor with one axis at least."""
    return input if input._data.ndim else reshape(input, (1,))


@torch_function("atleast_2d")
def atleast_2d(input: Tensor) -> Tensor:
    """The tensor with two axes at least."""
    x = atleast_1d(input)
    return x if x._data.ndim > 1 else x.unsqueeze(0)


@torch_function("dstack")
def dstack(tensors: Any) -> Tensor:
    """The tensors one behind the other."""
    parts = [atleast_2d(x) for x in tensors]
    return cat([x if x._data.ndim > 2 else x.unsqueeze(2) for x in parts], 2)
