"""Norms, deviations, products, running sums, softmax: reductions beyond the sum."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracegrad.eager import rules
from tracegrad.eager.dtypes import SCALAR_TYPES, default, from_numpy_dtype
from tracegrad.eager.engine import entry_of
from tracegrad.eager.inplace import constant_node, named
from tracegrad.eager.modes import state
from tracegrad.eager.reductions import as_summed
from tracegrad.eager.registry import (
    axes_of,
    axis_of,
    own_rules,
    torch_function,
    write_out,
)
from tracegrad.eager.shapes import clone, to
from tracegrad.eager.tensor import Tensor, wrap
from tracegrad.ops import diagonal, extreme, norm, reduce, scan, special
from tracegrad.ops.select import absolute


def floating(x: Tensor) -> Tensor:
    """The tensor, with integers in the default floating dtype."""
    if x._data.dtype.kind in "fc":
        return x
    return to(x, from_numpy_dtype(default.real))


def converted(x: Tensor, dtype: Any) -> Tensor:
    """The tensor in `dtype`, if that is given."""
    return x if dtype is None else to(x, dtype)


def finished(result: Tensor, out: Tensor | None, name: str) -> Tensor:
    """The result, or `out` with its numbers."""
    return result if out is None else write_out(out, result, name)


# -------------------------------------------------------------------------- deviations
def _correction(given: tuple, unbiased: bool | None, correction: Any) -> tuple:
    """`dim` and the correction, from the two calling forms."""
    dim = given[0] if given else None
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None:
        correction = int(unbiased)
    return dim, 1 if correction is None else correction


def _spread(name: str, op: Any) -> None:
    entry = entry_of(op)

    def function(
        input: Tensor,
        dim: Any = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: Any = None,
        out: Tensor | None = None,
    ) -> Tensor:
        dim, ddof = _correction((dim,), unbiased, correction)
        if input._data.dtype.kind not in "fc":
            raise RuntimeError(
                "std and var only support floating point and complex dtypes"
            )
        axis = axes_of(dim, input._data.ndim)
        result = entry.eager(input, axis=axis, ddof=ddof, keepdims=keepdim)
        return finished(result, out, name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The {name} of all elements, or over `dim`, less `correction`."
    torch_function(name, methods=True, grad=(op, f"{name.title()}Backward0"))(function)


own_rules(reduce.var, rules.VARIANCE)
_spread("std", reduce.std)
_spread("var", reduce.var)


def _with_mean(name: str) -> None:
    from_name = f"{name}_mean"

    def function(input: Tensor, dim: Any = None, **options: Any) -> tuple:
        made = getattr(Tensor, name)(input, dim, **options)
        middle = input.mean(dim, options.get("keepdim", False))
        title = f"{name.title()}MeanBackward0"
        return named(made, title), named(middle, title)

    function.__name__ = function.__qualname__ = from_name
    function.__doc__ = f"The {name}, and the mean."
    torch_function(from_name)(function)


_with_mean("std")
_with_mean("var")


# ------------------------------------------------------------------------------- norms
def vector_norm(
    input: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False
) -> Tensor:
    """The root of order `ord` of the sum of powers; the derivative at 0 is 0."""
    x = input
    axis = axes_of(dim, x._data.ndim)
    how = {"axis": axis, "keepdims": keepdim}
    if not x._data.ndim:
        return _named_norm(entry_of(absolute).eager(x))
    if ord == 2:
        if axis is None and keepdim is False and x._data.ndim > 1:
            x = x.reshape(-1)
        return _named_norm(entry_of(norm.norm).eager(x, **how))
    sizes = entry_of(absolute).eager(x)
    if ord == math.inf:
        return _named_norm(entry_of(extreme.max).eager(sizes, **how))
    if ord == -math.inf:
        return _named_norm(entry_of(extreme.min).eager(sizes, **how))
    if ord == 1:
        return _named_norm(entry_of(reduce.sum).eager(sizes, **how))
    if ord == 0:
        made = entry_of(reduce.sum).eager(to(input != 0, sizes.dtype), **how)
        if state.grad and x._node is not None:
            made._node = constant_node(wrap(made._data), None, made._data)
        return _named_norm(made)
    if (
        ord > 1
        and not isinstance(axis, tuple)
        and sizes._data.ndim == 1
        and not keepdim
    ):
        return _named_norm(entry_of(norm.norm).eager(sizes, ord=ord, **how))
    total = entry_of(reduce.sum).eager(sizes**ord, **how)
    return _named_norm(total ** (1.0 / ord))


def _named_norm(x: Tensor) -> Tensor:
    return named(x, "LinalgVectorNormBackward0")


@torch_function("norm", methods=True)
def norm_(
    input: Tensor,
    p: Any = "fro",
    dim: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """The norm of order `p` of all elements, or over `dim`."""
    x = converted(input, dtype)
    if x._data.dtype.kind not in "fc":
        raise RuntimeError(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. "
            f"Got {SCALAR_TYPES[from_numpy_dtype(x._data.dtype)]}"
        )
    ord = 2 if p in ("fro", None) else p
    return finished(vector_norm(x, ord, dim, keepdim), out, "norm")


@torch_function("dist", methods=True)
def dist(input: Tensor, other: Tensor, p: Any = 2) -> Tensor:
    """The norm of the difference."""
    return named(vector_norm(input - other, p), "DistBackward0")


# ---------------------------------------------------------------------------- products
@torch_function("prod", methods=True)
def prod(
    input: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """The product of all elements, or along `dim`; zeros do no harm."""
    x = as_summed(input, dtype)
    axis = None if dim is None else axes_of(axis_of(dim, x._data.ndim), x._data.ndim)
    result = entry_of(reduce.prod).eager(x, axis=axis, keepdims=keepdim)
    name = "ProdBackward0" if dim is None else "ProdBackward1"
    result = converted(named(result, name), dtype)
    return finished(result, out, "prod")


def _running(name: str, op: Any) -> None:
    entry = entry_of(op)

    def function(
        input: Tensor, dim: int, *, dtype: Any = None, out: Tensor | None = None
    ) -> Tensor:
        x = as_summed(input, dtype)
        axis = axis_of(dim, x._data.ndim)
        if x._data.ndim:
            result = entry.eager(x, axis=axis)
        else:
            result = named(clone(x), f"{name.title()}Backward0")
        return finished(converted(result, dtype), out, name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The running {name[3:]} along `dim`."
    register = torch_function(
        name, methods=True, inplace=True, grad=(op, f"{name.title()}Backward0")
    )
    register(function)


_running("cumsum", scan.cumsum)
_running("cumprod", scan.cumprod)


# ----------------------------------------------------------------------------- softmax
@torch_function(
    "logsumexp", methods=True, grad=(special.logsumexp, "LogsumexpBackward0")
)
def logsumexp(
    input: Tensor, dim: Any, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """log(sum(exp(x))) over `dim`, without overflow."""
    x = floating(input)
    axis = axes_of(dim, x._data.ndim)
    result = entry_of(special.logsumexp).eager(x, axis=axis, keepdims=keepdim)
    return finished(result, out, "logsumexp")


def _shares(name: str, op: Any, title: str) -> None:
    entry = entry_of(op)

    def function(
        input: Tensor, dim: int, dtype: Any = None, *, out: Tensor | None = None
    ) -> Tensor:
        x = converted(input, dtype)
        if x._data.dtype.kind not in "f":
            kind = SCALAR_TYPES[from_numpy_dtype(x._data.dtype)]
            raise NotImplementedError(
                f"\"{name}_lastdim_kernel_impl\" not implemented for '{kind}'"
            )
        axis = axis_of(dim, x._data.ndim)
        if not x._data.size:
            return finished(named(x * 1.0, title), out, name)
        result = entry.eager(x, axis=axis if x._data.ndim else None)
        return finished(result, out, name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The {name} along `dim`."
    torch_function(name, methods=True, grad=(op, title))(function)


_shares("softmax", special.softmax, "SoftmaxBackward0")
_shares("log_softmax", special.log_softmax, "LogSoftmaxBackward0")


# --------------------------------------------------------------------------- diagonals
@torch_function("trace", methods=True, grad=(diagonal.trace, "TraceBackward0"))
def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix."""
    if input._data.ndim != 2:
        raise RuntimeError(
            f"trace: expected a matrix, but got tensor with dim {input._data.ndim}"
        )
    return entry_of(diagonal.trace).eager(as_summed(input, None))


@torch_function("count_nonzero", methods=True)
def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    """How many elements are not 0."""
    axis = axes_of(dim, input._data.ndim)
    return wrap(np.asarray(np.count_nonzero(input._data, axis=axis)))
