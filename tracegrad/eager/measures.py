"""Covariances, distances, integrals and differences along axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.eager.arithmetic import where
from tracegrad.eager.inplace import named
from tracegrad.eager.registry import FUNCTIONS, axis_of, torch_function
from tracegrad.eager.statistics import vector_norm
from tracegrad.eager.tensor import Tensor, wrap
from tracegrad.ops.define import ACCEPT

_ACCEPTED: dict[Any, Callable] = ACCEPT
stack = FUNCTIONS["stack"]


# ------------------------------------------------------------------------- covariances
@torch_function("cov", methods=True)
def cov(
    input: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """The covariances of the rows."""
    if input._data.ndim > 2:
        raise RuntimeError(
            "cov(): expected input to have two or fewer dimensions but got an input "
            f"with {input._data.ndim} dimensions"
        )
    rows = input.reshape(1, -1) if input._data.ndim < 2 else input
    weights = _weights(fweights, aweights, rows)
    if weights is None:
        total: Any = rows._data.shape[1]
        middle = rows.mean(1, keepdim=True)
        apart = rows - middle
        product = apart
    else:
        total = weights.sum()
        middle = (rows * weights).sum(1, keepdim=True) / total
        apart = rows - middle
        product = apart * weights
    less = total - correction
    if aweights is not None and weights is not None:
        less = total - correction * (weights * aweights).sum() / total
    made = product @ apart.conj().t() / less
    return named(made.squeeze() if input._data.ndim < 2 else made, "SqueezeBackward0")


def _weights(f: Tensor | None, a: Tensor | None, rows: Tensor) -> Tensor | None:
    if f is not None and f._data.dtype.kind not in "iu":
        raise RuntimeError(
            "cov(): expected fweights to have integral dtype but got fweights with "
            f"{f.dtype} dtype".replace("torch.", "").replace("float32", "Float")
        )
    if f is None or a is None:
        found = a if f is None else f
        return None if found is None else found.to(rows.dtype)
    return (f * a).to(rows.dtype)


@torch_function("corrcoef", methods=True)
def corrcoef(input: Tensor) -> Tensor:
    """The correlations of the rows."""
    if input._data.ndim > 2:
        raise RuntimeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an "
            f"input with {input._data.ndim} dimensions"
        )
    c = cov(input)
    if not c._data.ndim:
        return c / c
    d = c.diagonal().real.sqrt() if c._data.dtype.kind == "c" else c.diagonal().sqrt()
    made = c / d.reshape(-1, 1) / d
    return made if made._data.dtype.kind == "c" else made.clamp(-1, 1)


# --------------------------------------------------------------------------- distances
@torch_function("cdist")
def cdist(
    x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None
) -> Tensor:
    """The distances of all rows of `x1` from all rows of `x2`; at 0 the slope is 0."""
    for name, x in (("X1", x1), ("X2", x2)):
        if x._data.ndim < 2:
            raise RuntimeError(
                f"cdist only supports at least 2D tensors, {name} got: {x._data.ndim}D"
            )
    if x1._data.shape[-1] != x2._data.shape[-1]:
        raise RuntimeError(
            "X1 and X2 must have the same number of columns. X1: "
            f"{x1._data.shape[-1]} X2: {x2._data.shape[-1]}"
        )
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    apart = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    return named(vector_norm(apart, p, -1), "CdistBackward0")


@torch_function("pdist")
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The distances of each two rows."""
    first, second = np.triu_indices(input._data.shape[0], 1)
    apart = input[wrap(first)] - input[wrap(second)]
    return named(vector_norm(apart, p, -1), "PdistBackward0")


@torch_function("renorm", methods=True, inplace=True)
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Slices scaled down where their norm is more than `maxnorm`."""
    axis = axis_of(dim, input._data.ndim)
    others = tuple([a for a in range(input._data.ndim) if a != axis])
    size = vector_norm(input, p, others, True)
    scale = where(size > maxnorm, maxnorm / (size + 1e-7), 1.0)
    return named(input * scale, "RenormBackward0")


# ---------------------------------------------------------- integrals and differences
def _steps(x: Any, dx: Any, axis: int, ndim: int) -> Any:
    """The widths between samples, in a form that broadcasts."""
    if x is None:
        return 1.0 if dx is None else dx
    width = (
        x[..., 1:] - x[..., :-1]
        if x._data.ndim == 1
        else FUNCTIONS["diff"](x, dim=axis)
    )
    if x._data.ndim == 1:
        width = width.reshape((-1,) + (1,) * (ndim - 1 - axis))
    return width


def _slabs(y: Tensor, x: Any, dx: Any, dim: int) -> tuple[Tensor, int]:
    axis = axis_of(dim, y._data.ndim)
    length = y._data.shape[axis]
    right, left = y.narrow(axis, 1, length - 1), y.narrow(axis, 0, length - 1)
    return (right + left) * _steps(x, dx, axis, y._data.ndim) * 0.5, axis


@torch_function("trapezoid", "trapz")
def trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1
) -> Tensor:
    """The integral by trapezia along an axis."""
    slabs, axis = _slabs(y, x, dx, dim)
    title = "MulBackward1" if x is None else "DivBackward1"
    return named(slabs.sum(axis), title)


@torch_function("cumulative_trapezoid")
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1
) -> Tensor:
    """The integral up to each sample but the first."""
    slabs, axis = _slabs(y, x, dx, dim)
    title = "CumsumBackward0" if x is None else "DivBackward1"
    return named(slabs.cumsum(axis), title)


@torch_function("gradient")
def gradient(
    input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """Slopes by central differences, one tensor for each axis."""
    ndim = input._data.ndim
    dims = (
        tuple(range(ndim)) if dim is None else (dim,) if isinstance(dim, int) else dim
    )
    axes = tuple([axis_of(d, ndim) for d in dims])
    many = isinstance(spacing, tuple | list)
    steps = list(spacing) if many else [spacing] * len(axes)
    made = []
    for axis, step in zip(axes, steps):
        step = step._data if isinstance(step, Tensor) else step
        found = _ACCEPTED[np.gradient](input, step, axis=axis, edge_order=edge_order)
        made.append(named(found, "CatBackward0"))
    return tuple(made)


@torch_function("vander")
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of each element, as rows."""
    count = x._data.shape[0] if N is None else N
    columns = [x**k for k in range(count)]
    return stack(columns if increasing else columns[::-1], 1)
