"""Windows, blocks, parts written into copies, sets: arrangements beyond the common."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tracegrad.eager import shapes
from tracegrad.eager.arithmetic import where
from tracegrad.eager.creation import made as new_leaf
from tracegrad.eager.dtypes import default, to_numpy_dtype
from tracegrad.eager.indexing import setitem_op
from tracegrad.eager.inplace import named
from tracegrad.eager.reductions import return_type
from tracegrad.eager.registry import FUNCTIONS, axis_of, torch_function
from tracegrad.eager.runtime import general
from tracegrad.eager.selection import (
    _along,
    _at,
    _check_index,
    _into,
    _source,
    gather,
    scatter_add_op,
)
from tracegrad.eager.strided import places_of, taken
from tracegrad.eager.tensor import Size, Tensor, wrap
from tracegrad.ops import index
from tracegrad.ops.index import ARRAY

cat, stack = FUNCTIONS["cat"], FUNCTIONS["stack"]


# ------------------------------------------------------------------------- by places
def _put(x: Tensor, places: np.ndarray, src: Tensor, title: str) -> Tensor:
    """A copy of `x` with `src` at such places."""
    if src._data.shape != places.shape:
        src = src.expand(places.shape)
    attrs: dict[str, Any] = {"index": (ARRAY,), "counts": (), "unique": True}
    flat = general(setitem_op, (x.reshape(-1), src, places), attrs)
    return named(flat.reshape(x.shape), title)


@torch_function("select_scatter", methods=True)
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of `input` with `src` at one position of an axis."""
    places = places_of(input._data.shape)
    chosen = places.take(index, axis_of(dim, input._data.ndim))
    _same_size(chosen.shape, src)
    return _put(input, chosen, src, "SelectScatterBackward0")


@torch_function("slice_scatter", methods=True)
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """A copy of `input` with `src` in a slice of an axis."""
    axis = axis_of(dim, input._data.ndim)
    key = (slice(None),) * axis + (slice(start, end, step),)
    chosen = places_of(input._data.shape)[key]
    return _put(input, chosen, src, "SliceScatterBackward0")


@torch_function("diagonal_scatter", methods=True)
def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """A copy of `input` with `src` on a diagonal."""
    chosen = places_of(input._data.shape).diagonal(offset, dim1, dim2)
    _same_size(chosen.shape, src)
    return _put(input, chosen, src, "DiagonalScatterBackward0")


def _same_size(shape: tuple, src: Tensor) -> None:
    if src._data.shape != shape:
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. src size = "
            f"{list(src._data.shape)}, slice size = {list(shape)}"
        )


@torch_function("masked_scatter", methods=True, inplace=True)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The first elements of `source` where the mask is true."""
    shape = np.broadcast_shapes(input._data.shape, mask._data.shape)
    chosen = places_of(shape)[np.broadcast_to(mask._data, shape)]
    if source._data.size < chosen.size:
        raise RuntimeError("Number of elements of source < number of ones in mask")
    src = source.reshape(-1)[: chosen.size]
    return _put(input.expand(shape), chosen, src, "MaskedScatterBackward0")


@torch_function("put", methods=True, inplace=True)
def put(
    input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False
) -> Tensor:
    """`source` at places counted as if `input` were a vector."""
    if index._data.size != source._data.size:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, "
            f"but got source.numel() = {source._data.size}, index.numel() = "
            f"{index._data.size}"
        )
    flat, places = input.reshape(-1), index.reshape(-1)
    made = flat.index_put((places,), source.reshape(-1), accumulate)
    return named(made.reshape(input.shape), "PutBackward0")


# ------------------------------------------------------------------ scattered reduction
@torch_function("scatter_reduce", methods=True, inplace=True)
def scatter_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """The sum, product, mean or extreme of what is scattered to each position.

    The derivative of an extreme is split evenly among equal elements.
    """
    axis = axis_of(dim, input._data.ndim)
    _check_index(index, "scatter")
    arrays, attrs = _at(input, axis, index._data)
    return _reduced(
        input, _source(input, src, index), arrays, attrs, reduce, include_self
    )


@torch_function("index_reduce", methods=True, inplace=True)
def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """`scatter_reduce` of whole slices."""
    arrays, attrs = _along(axis_of(dim, input._data.ndim), index)
    made = _reduced(input, source, arrays, attrs, reduce, include_self)
    return named(made, "IndexReduceBackward0")


def _reduced(
    x: Tensor, src: Tensor, arrays: tuple, attrs: dict, how: str, include: bool
) -> Tensor:
    title = "ScatterReduceBackward0"
    if how not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {how}"
        )

    def added(to: Tensor, what: Tensor) -> Tensor:
        return _into(scatter_add_op, to, what, arrays, dict(attrs), title)

    def taken(whole: Tensor) -> Tensor:
        return general(shapes.getitem_op, (whole, *arrays), dict(attrs))

    ones = wrap(np.ones(src._data.shape, x._data.dtype))
    zeros = wrap(np.zeros_like(x._data))
    count = added(zeros, ones)._data
    untouched = wrap(count == 0)
    keep = wrap(np.ones(count.shape, bool)) if include else untouched
    if how in ("sum", "mean"):
        total = added(where(keep, x, 0.0), src)
        if how == "sum":
            return named(total, title)
        number = np.maximum(count + (1 if include else 0), 1)
        number = np.where(count == 0, 1, number).astype(x._data.dtype)
        return named(total / wrap(number), title)
    if how == "prod":
        # Of sizes and signs apart; one zero, or more, makes the product zero.
        return _product(where(keep, x, 1.0), src, added, taken, title)
    best = (
        x._data.copy()
        if include
        else np.where(untouched._data, x._data, _worst(x, how))
    )
    ufunc = np.maximum if how == "amax" else np.minimum
    key = index_key(attrs, arrays)
    ufunc.at(best, key, src._data)
    if best.dtype.kind != "f":
        return wrap(best)
    hit_x = where(wrap(best == x._data), 1.0, 0.0) * where(keep, 1.0, 0.0)
    hit_src = where(taken(wrap(best)) == src, 1.0, 0.0).to(x.dtype)
    shares = added(hit_x.to(x.dtype), hit_src)
    weighted = added(hit_x * x / shares, where(hit_src > 0, src / taken(shares), 0.0))
    exact = weighted + (wrap(best) - weighted.detach())
    return named(exact, title)


def index_key(attrs: dict, arrays: tuple) -> Any:
    """The subscript that NumPy takes."""
    return index.fill(attrs["index"], arrays)


def _worst(x: Tensor, how: str) -> Any:
    kind = x._data.dtype
    if kind.kind == "f":
        return -np.inf if how == "amax" else np.inf
    info = np.iinfo(kind)
    return info.min if how == "amax" else info.max


def _product(x: Tensor, src: Tensor, added: Any, taken: Any, title: str) -> Tensor:
    """The product of `x` with all that is scattered to it, one factor at a time."""
    rank = _ranks(taken, x, src)
    total = x
    for k in range(int(rank.max(initial=-1)) + 1):
        ones = wrap(np.ones_like(x._data))
        factor = added(ones, where(wrap(rank == k), src - 1, 0.0))
        total = total * factor
    return named(total, title)


def _ranks(taken: Any, x: Tensor, src: Tensor) -> np.ndarray:
    """For each element of `src`, how many before it go to the same position."""
    places = np.broadcast_to(
        taken(wrap(places_of(x._data.shape)))._data, src._data.shape
    ).reshape(-1)
    sort = np.argsort(places, kind="stable")
    ordered = places[sort]
    starts = np.searchsorted(ordered, ordered)
    rank = np.empty(places.size, np.int64)
    rank[sort] = np.arange(places.size) - starts
    return rank.reshape(src._data.shape)


# ------------------------------------------------------------------------------ blocks
@torch_function("block_diag")
def block_diag(*tensors: Tensor) -> Tensor:
    """Matrices along the diagonal of a large one."""
    blocks = []
    for k, x in enumerate(tensors):
        if x._data.ndim > 2:
            raise RuntimeError(
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. "
                f"Input {k} has {x._data.ndim} dimensions"
            )
        blocks.append(x.reshape((1,) * (2 - x._data.ndim) + tuple(x._data.shape)))
    width = sum(b._data.shape[1] for b in blocks)
    kind = np.result_type(*[b._data.dtype for b in blocks])
    rows, left = [], 0
    for b in blocks:
        high, wide = b._data.shape
        before = wrap(np.zeros((high, left), kind))
        after = wrap(np.zeros((high, width - left - wide), kind))
        rows.append(cat([before, b, after], 1))
        left += wide
    return named(cat(rows, 0), "BlockDiagBackward0")


@torch_function("diagflat", methods=True)
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with all elements on a diagonal."""
    return FUNCTIONS["diag"](input.reshape(-1), offset)


@torch_function("atleast_3d")
def atleast_3d(*tensors: Any) -> Any:
    """At least three axes: `(n,)` becomes `(1, n, 1)`, `(m, n)` becomes `(m, n, 1)`."""
    if len(tensors) == 1 and isinstance(tensors[0], tuple | list):
        tensors = tuple(tensors[0])
        return tuple([atleast_3d(x) for x in tensors])
    if len(tensors) > 1:
        return tuple([atleast_3d(x) for x in tensors])
    x = tensors[0]
    shape = x._data.shape
    if not shape:
        return x.reshape(1, 1, 1)
    x = x.unsqueeze(0) if len(shape) == 1 else x
    return x.unsqueeze(-1) if len(shape) < 3 else x


def _splitter(name: str, axis: int, least: int) -> None:
    def function(input: Tensor, indices_or_sections: Any) -> tuple:
        if input._data.ndim < least:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {least} dimension, but "
                f"got a tensor with {input._data.ndim} dimensions!"
            )
        at = 0 if name == "hsplit" and input._data.ndim == 1 else axis
        return FUNCTIONS["tensor_split"](input, indices_or_sections, at)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Parts along axis {axis}."
    torch_function(name, methods=True)(function)


_splitter("hsplit", 1, 1)
_splitter("vsplit", 0, 2)
_splitter("dsplit", 2, 3)


@torch_function("cartesian_prod")
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All tuples with one element of each vector, as rows."""
    if len(tensors) == 1:
        return tensors[0]
    grids = FUNCTIONS["meshgrid"](*tensors, indexing="ij")
    return stack([g.reshape(-1) for g in grids], 1)


@torch_function("combinations")
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of `r` elements of a vector, as rows."""
    pick = (
        itertools.combinations_with_replacement
        if with_replacement
        else (itertools.combinations)
    )
    rows = list(pick(range(input._data.size), r))
    places = np.array(rows, np.int64).reshape(-1, r)
    return taken(input, places, "StackBackward0")


def _triangle_indices(name: str, find: Any) -> None:
    def function(
        row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None
    ) -> Tensor:
        kind = np.dtype(np.int64) if dtype is None else to_numpy_dtype(dtype)
        return wrap(np.stack(find(row, offset, col)).astype(kind))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "The rows and columns of a triangle of a matrix."
    torch_function(name)(function)


_triangle_indices("tril_indices", np.tril_indices)
_triangle_indices("triu_indices", np.triu_indices)


@torch_function("broadcast_shapes")
def broadcast_shapes(*sizes: Any) -> Size:
    """The shape that tensors of these shapes broadcast to."""
    common: list[int] = []
    for number, s in enumerate(sizes):
        given = (s,) if isinstance(s, int) else tuple(s)
        common = [1] * (len(given) - len(common)) + common
        for back in range(1, len(given) + 1):
            if given[-back] not in (1, common[-back]) and common[-back] != 1:
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {given[-back]} at "
                    f"-{back}! Mismatching argument at index {number} had {given}; but "
                    f"expected shape should be broadcastable to {common}"
                )
            if common[-back] == 1:
                common[-back] = given[-back]
    return Size(common)


# -------------------------------------------------------------------------------- sets
def _several(first: Tensor, *others: tuple[bool, Any]) -> Any:
    more = [wrap(np.asarray(x, np.int64)) for wanted, x in others if wanted]
    return (first, *more) if more else first


@torch_function("unique", methods=True)
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The different elements, or slices, in order."""
    data = input._data
    axis = None if dim is None else axis_of(dim, data.ndim)
    values, inverse, counts = np.unique(
        data, return_inverse=True, return_counts=True, axis=axis, equal_nan=False
    )
    inverse = inverse.reshape(data.shape if axis is None else -1)
    return _several(wrap(values), (return_inverse, inverse), (return_counts, counts))


@torch_function("unique_consecutive", methods=True)
def unique_consecutive(
    input: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """One of each run of equal elements, or slices."""
    data = input._data
    rows = data.reshape(-1) if dim is None else np.moveaxis(data, dim, 0)
    flat = rows.reshape(len(rows), -1)
    new = np.ones(len(rows), bool)
    new[1:] = (flat[1:] != flat[:-1]).any(1)
    starts = np.flatnonzero(new)
    counts = np.diff(np.append(starts, len(rows)))
    inverse = np.cumsum(new) - 1
    values = rows[starts]
    if dim is None:
        inverse = inverse.reshape(data.shape)
    else:
        values = np.moveaxis(values, 0, dim)
    return _several(
        wrap(np.ascontiguousarray(values)),
        (return_inverse, inverse),
        (return_counts, counts),
    )


mode_result = return_type("mode", "values", "indices")


@torch_function("mode", methods=True)
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """The most frequent element along an axis, the smallest of several; its place."""
    data = input._data
    axis = axis_of(dim, data.ndim)
    if not data.ndim:
        same = named(input.clone(), "ModeBackward0")
        return mode_result(same, wrap(np.zeros((), np.int64)))
    lanes = np.moveaxis(data, axis, -1)
    found = np.empty(lanes.shape[:-1], np.int64)
    for place in np.ndindex(found.shape):
        values, counts = np.unique(lanes[place], return_counts=True)
        best = values[counts.argmax()]
        equal = np.flatnonzero(lanes[place] == best)
        # What is no number equals nothing.
        found[place] = equal[-1] if equal.size else np.isnan(lanes[place]).argmax()
    places = wrap(np.expand_dims(found, axis))
    values = gather(input, axis, places)
    if not keepdim:
        values, places = values.squeeze(axis), places.squeeze(axis)
    return mode_result(named(values, "ModeBackward0"), places)


@torch_function("isin")
def isin(
    elements: Any,
    test_elements: Any,
    *,
    assume_unique: bool = False,
    invert: bool = False,
) -> Tensor:
    """Whether each element is one of others."""
    parts = [
        x._data if isinstance(x, Tensor) else np.asarray(x)
        for x in (elements, test_elements)
    ]
    return wrap(np.isin(parts[0], parts[1], invert=invert))


@torch_function("bucketize")
def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """Between which boundaries each element lies."""
    values = input._data if isinstance(input, Tensor) else np.asarray(input)
    found = np.searchsorted(boundaries._data, values, "right" if right else "left")
    return wrap(np.asarray(found).astype(np.int32 if out_int32 else np.int64))


@torch_function("histc", methods=True)
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements lie in each of equal parts of a range."""
    data = input._data
    low, high = float(min), float(max)
    if low == high and data.size:
        low, high = float(data.min()), float(data.max())
    if low == high:
        low, high = low - 1, high + 1
    counts = np.histogram(data, bins, (low, high))[0]
    return wrap(counts.astype(data.dtype))


@torch_function("msort", methods=True)
def msort(input: Tensor) -> Tensor:
    """Sorted along the first axis."""
    return FUNCTIONS["sort"](input, 0)[0]


@torch_function("logspace")
def logspace(
    start: float,
    end: float,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Powers of `base`, evenly apart in their exponents."""
    kind = default.real if dtype is None else to_numpy_dtype(dtype)
    powers = np.linspace(start, end, steps)
    return new_leaf((base**powers).astype(kind), requires_grad, device)


@torch_function("unravel_index")
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The subscripts of places counted as if an array were a vector."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    found = np.unravel_index(indices._data, sizes)
    return tuple([wrap(np.asarray(x, np.int64)) for x in found])
