"""Reductions and products."""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any

import numpy as np

from tracegrad.eager.dtypes import SCALAR_TYPES, from_numpy_dtype, int64, uint8
from tracegrad.eager.engine import entry_of
from tracegrad.eager.inplace import named
from tracegrad.eager.registry import axes_of, axis_of, torch_function, write_out
from tracegrad.eager.runtime import general, not_a_view, shape_error
from tracegrad.eager.shapes import clone, getitem_op, squeeze, to
from tracegrad.eager.tensor import Tensor, wrap
from tracegrad.ops import extreme, index, product, reduce, scatter, select

# ------------------------------------------------------------------------- reductions
sum_op, mean_op = entry_of(reduce.sum), entry_of(reduce.mean)
sum_op.title, mean_op.title = "SumBackward0", "MeanBackward0"


def as_summed(x: Tensor, dtype: Any) -> Tensor:
    """A tensor in the dtype in which its sums and products are: int64 for bytes."""
    if dtype is not None:
        return to(x, dtype)
    return to(x, int64) if x._data.dtype.kind == "u" else x


@torch_function("sum", methods=True)
def sum(
    input: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """The sum of all elements, or over `dim`."""
    input = as_summed(input, dtype)
    if dim is None:
        result = sum_op.eager(input, axis=None, keepdims=keepdim)
    else:
        axis = axes_of(dim, input._data.ndim)
        result = sum_op.eager(input, axis=axis, keepdims=keepdim)
        named(result, "SumBackward1")
    if dtype is not None:
        result = to(result, dtype)
    return result if out is None else write_out(out, result, "sum")


@torch_function("mean", methods=True)
def mean(
    input: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """The mean of all elements, or over `dim`."""
    if dtype is not None:
        input = to(input, dtype)
    if input._data.dtype.kind not in "fc":
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a "
            "floating point or complex dtype. Got: "
            f"{SCALAR_TYPES[from_numpy_dtype(input._data.dtype)]}"
        )
    axis = axes_of(dim, input._data.ndim)
    result = mean_op.eager(input, axis=axis, keepdims=keepdim)
    if dim is not None:
        named(result, "MeanBackward1")
    return result if out is None else write_out(out, result, "mean")


class _Pair(tuple):
    """A result with fields that prints as PyTorch's `torch.return_types`."""

    def __repr__(self) -> str:
        name = type(self).__name__
        fields = zip(self._fields, self)  # type: ignore[attr-defined]
        return (
            f"torch.return_types.{name}(\n"
            + ",\n".join(f"{key}={value!r}" for key, value in fields)
            + ")"
        )


def return_type(name: str, *fields: str) -> Any:
    """A class of named results, such as `torch.return_types.max`."""
    base = namedtuple(name, fields)  # type: ignore[misc]
    return type(name, (base,), {"__repr__": _Pair.__repr__, "__module__": "torch"})


max_result = return_type("max", "values", "indices")
min_result = return_type("min", "values", "indices")


def shared(input: Tensor, chosen: np.ndarray, name: str) -> Tensor:
    """The one value of the chosen elements, which get equal parts of the derivative."""
    if not input._data.ndim:
        return named(clone(input), name)
    arrays, attrs = index.subscript(input._data, np.nonzero(chosen))
    picked = general(getitem_op, (input, *arrays), attrs)
    made = mean_op.eager(picked, axis=None, keepdims=False)
    made._data = np.asarray(picked._data[0])  # a mean of equal numbers may be rounded
    return named(made, name)


def _extreme(which: str, input: Tensor, dim: Any, keepdim: bool) -> Any:
    """Values and positions along an axis; the derivative goes to that position."""
    data = input._data
    axis = axis_of(dim, data.ndim)
    find = np.argmax if which == "max" else np.argmin
    name = f"{which.capitalize()}Backward0"
    kind = max_result if which == "max" else min_result
    if not data.ndim:
        return kind(named(clone(input), name), wrap(np.zeros((), np.int64)))
    if not data.shape[axis]:
        raise IndexError(
            f"{which}(): Expected reduction dim {axis} to have non-zero size."
        )
    places = np.expand_dims(find(data, axis=axis), axis)
    key = scatter.grid_along(places, axis)
    arrays, attrs = index.subscript(data, key)
    values = named(general(getitem_op, (input, *arrays), attrs), name)
    if not keepdim:
        values = named(squeeze(values, axis), name)
        not_a_view(values)
        places = places.squeeze(axis)
    return kind(values, wrap(places))


def _max_or_min(which: str, op: Any, pair: Any) -> None:
    entry = entry_of(op)
    entry.title = f"{which.capitalize()}Backward1"

    def function(
        input: Tensor, dim: Any = None, keepdim: bool = False, other: Any = None
    ) -> Any:
        if isinstance(dim, Tensor) or other is not None:
            return entry_of(pair).eager(input, dim if other is None else other)
        if dim is not None:
            return _extreme(which, input, dim, keepdim)
        if not input._data.size:
            raise RuntimeError(
                f"{which}(): Expected reduction dim to be specified for input.numel() "
                "== 0. Specify the reduction dim with the 'dim' argument."
            )
        made = entry.eager(input, axis=None, keepdims=False)
        if made._node is not None and made._data != made._data:
            return shared(
                input, np.isnan(input._data), f"{which.capitalize()}Backward1"
            )
        return made

    function.__name__ = function.__qualname__ = which
    function.__doc__ = f"The {which}imum of all, along `dim`, or of two tensors."
    torch_function(which, methods=True)(function)


_max_or_min("max", extreme.max, select.maximum)
_max_or_min("min", extreme.min, select.minimum)


def _quantifier(name: str, op: Any) -> None:
    def function(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
        axis = axes_of(dim, input._data.ndim)
        made = entry_of(op).eager(input, axis=axis, keepdims=keepdim)
        # Bytes were PyTorch's bools once.
        return to(made, uint8) if input._data.dtype == np.uint8 else made

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Whether {name} of the elements are true."
    torch_function(name, methods=True)(function)


_quantifier("any", reduce.any)
_quantifier("all", reduce.all)


def _position(name: str, op: Any) -> None:
    def function(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
        axis = None if dim is None else axis_of(dim, input._data.ndim)
        if not input._data.ndim:
            axis = None
        return entry_of(op).eager(input, axis=axis, keepdims=keepdim)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "The position of the first extreme element."
    torch_function(name, methods=True)(function)


_position("argmax", extreme.argmax)
_position("argmin", extreme.argmin)


# ---------------------------------------------------------------------------- products
matmul_op = entry_of(product.matmul)


def _product_title(node: Any) -> str:
    a, b = node[5][0], node[5][2]
    if len(a) == 2 and len(b) == 2:
        return "MmBackward0"
    if len(a) == 1 and len(b) == 1:
        return "DotBackward0"
    if len(a) == 2 and len(b) == 1:
        return "MvBackward0"
    if len(a) == 1 and len(b) == 2:
        return "SqueezeBackward4"
    if len(a) == 2 and node[3][0] is not None:
        # PyTorch multiplies the transposed operands.
        return "TransposeBackward0" if 1 in (a[0], b[-1]) else "CloneBackward0"
    return "UnsafeViewBackward0"


matmul_op.title = _product_title


@torch_function("matmul", methods=True)
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of vectors, matrices or stacks of matrices."""
    if not isinstance(other, Tensor):
        raise TypeError(
            "matmul(): argument 'other' (position 2) must be Tensor, not "
            f"{type(other).__name__}"
        )
    a, b = input._data, other._data
    if not a.ndim or not b.ndim:
        raise RuntimeError(
            "both arguments to matmul need to be at least 1D, but they are "
            f"{a.ndim}D and {b.ndim}D"
        )
    if a.dtype != b.dtype:
        _different_types(a, b)
    if a.shape[-1] != b.shape[-2 if b.ndim > 1 else -1]:
        _misfit(a, b)
    try:
        result = matmul_op.eager(input, other)
    except ValueError as error:
        batches = [np.empty(x.shape[:-2]) for x in (a, b)]
        raise shape_error(error, *batches) from None
    return result if out is None else write_out(out, result, "matmul")


def _different_types(a: np.ndarray, b: np.ndarray) -> None:
    names = [
        {"Float": "float", "Double": "double", "Long": "long long"}.get(n, n.lower())
        for n in (SCALAR_TYPES[from_numpy_dtype(x.dtype)] for x in (a, b))
    ]
    raise RuntimeError(
        f"expected m1 and m2 to have the same dtype, but got: {names[0]} != {names[1]}"
    )


def _misfit(a: np.ndarray, b: np.ndarray) -> None:
    if a.ndim == 1 and b.ndim == 1:
        raise RuntimeError(
            "inconsistent tensor size, expected tensor "
            f"[{a.shape[0]}] and src [{b.shape[0]}] to have the same number of "
            f"elements, but got {a.shape[0]} and {b.shape[0]} elements respectively"
        )
    if b.ndim == 1:
        raise RuntimeError(
            f"size mismatch, got input ({a.shape[0]}), mat ({a.shape[0]}x{a.shape[1]})"
            f", vec ({b.shape[0]})"
        )
    rows = 1 if a.ndim == 1 else math.prod(a.shape[:-1])
    raise RuntimeError(
        f"mat1 and mat2 shapes cannot be multiplied ({rows}x{a.shape[-1]} and "
        f"{b.shape[-2]}x{b.shape[-1]})"
    )


Tensor.__matmul__ = lambda self, other: (
    matmul(self, other) if isinstance(other, Tensor) else NotImplemented
)
Tensor.__rmatmul__ = lambda self, other: matmul(other, self)


@torch_function("mm", methods=True)
def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of two matrices."""
    if input._data.ndim != 2:
        raise RuntimeError("self must be a matrix")
    if mat2._data.ndim != 2:
        raise RuntimeError("mat2 must be a matrix")
    return matmul(input, mat2, out=out)
