"""Parts of tensors and their arrangement: split, gather, scatter, flip, sort."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracegrad.eager.arithmetic import where
from tracegrad.eager.engine import entry_of
from tracegrad.eager.indexing import setitem_op
from tracegrad.eager.inplace import named
from tracegrad.eager.reductions import return_type
from tracegrad.eager.refusals import check_copied_slices, check_lanes, check_slices
from tracegrad.eager.registry import axis_of, sizes_of, torch_function
from tracegrad.eager.runtime import general, not_a_view, shape_error
from tracegrad.eager.shapes import (
    FULL,
    _basic,
    _permuted,
    cat,
    clone,
    expand,
    getitem_op,
    reshape,
    to,
)
from tracegrad.eager.tensor import Tensor, wrap
from tracegrad.ir.index import Slice
from tracegrad.ops import diagonal, index, order, rearrange, scatter, shape
from tracegrad.ops.index import ARRAY

scatter_add_op = entry_of(scatter.scatter_add)


# --------------------------------------------------------------------------- splitting
def _part(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    return _basic(x, (*[FULL] * axis, Slice(start, stop)))


def _parts(x: Tensor, axis: int, ends: list[int], name: str) -> tuple[Tensor, ...]:
    made = []
    for start, stop in zip([0, *ends], ends):
        part = named(_part(x, axis, start, stop), name)
        part._made = part._made or "multiple outputs"
        made.append(part)
    return tuple(made)


@torch_function("split", methods=True)
def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple:
    """Pieces of one size (the last may be smaller), or of the sizes given."""
    axis = axis_of(dim, tensor._data.ndim)
    length = tensor._data.shape[axis]
    if isinstance(split_size_or_sections, tuple | list):
        sizes = list(split_size_or_sections)
        if sum(sizes) != length:
            raise RuntimeError(
                "split_with_sizes expects split_sizes to sum exactly to "
                f"{length} (input tensor's size at dimension {dim}), but got "
                f"split_sizes={sizes}"
            )
        ends = np.cumsum(sizes).tolist()
        return _parts(tensor, axis, ends, "SplitWithSizesBackward0")
    size = split_size_or_sections
    if size < 0:
        raise RuntimeError(
            f"split expects split_size be non-negative, but got split_size={size}"
        )
    count = max(1, math.ceil(length / size)) if size else 1
    ends = [min(size * (k + 1), length) for k in range(count)]
    return _parts(tensor, axis, ends, "SplitBackward0")


@torch_function("split_with_sizes", methods=True)
def split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple:
    """Pieces of the sizes given."""
    return split(input, list(split_sizes), dim)


@torch_function("chunk", methods=True)
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` pieces of one size; the last may be smaller."""
    if chunks <= 0:
        raise RuntimeError(
            f"chunk expects `chunks` to be greater than 0, got: {chunks}"
        )
    length = input._data.shape[axis_of(dim, input._data.ndim)]
    return split(input, max(1, math.ceil(length / chunks)), dim)


@torch_function("narrow", methods=True)
def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """The `length` elements from `start` on along an axis."""
    axis = axis_of(dim, input._data.ndim)
    size = input._data.shape[axis]
    start = int(start)
    begin = start + size if start < 0 else start
    if begin + length > size:
        raise RuntimeError(
            f"start ({begin}) + length ({length}) exceeds dimension size ({size})."
        )
    return named(_part(input, axis, begin, begin + length), "SliceBackward0")


@torch_function("select", methods=True)
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The slice at one position of an axis."""
    axis = axis_of(dim, input._data.ndim)
    size = input._data.shape[axis]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size "
            f"{list(input._data.shape)} at dimension {axis}"
        )
    place = int(index) % size
    return named(_basic(input, (*[FULL] * axis, place)), "SelectBackward0")


# ------------------------------------------------------------------- by index tensors
def _at(x: Tensor, axis: int, places: np.ndarray) -> tuple[tuple, dict[str, Any]]:
    """The subscript that pairs `places` with the positions along other axes."""
    return index.subscript(x._data, scatter.grid_along(places, axis))


@torch_function("gather", methods=True)
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Any:
    """In each lane along `dim` the elements at the positions `index`."""
    axis = axis_of(dim, input._data.ndim)
    _check_index(index, "gather")
    if not input._data.ndim:
        return named(expand(input, index._data.shape), "GatherBackward0")
    check_lanes(input._data, axis, index._data)
    arrays, attrs = _at(input, axis, index._data)
    return named(general(getitem_op, (input, *arrays), attrs), "GatherBackward0")


def _check_index(index: Tensor, name: str) -> None:
    if index._data.dtype not in (np.int64, np.int32):
        raise RuntimeError(f"{name}(): Expected dtype int64 for index")


@torch_function("take_along_dim", methods=True)
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """`gather` whose other axes are broadcast."""
    if dim is None:
        return gather(reshape(input, (-1,)), 0, reshape(indices, (-1,)))
    axis = axis_of(dim, input._data.ndim)
    have, want = list(input._data.shape), list(indices._data.shape)
    full = list(
        np.broadcast_shapes(*[(*s[:axis], *s[axis + 1 :]) for s in (have, want)])
    )
    x = expand(input, *full[:axis], have[axis], *full[axis:])
    return gather(x, axis, expand(indices, *full[:axis], want[axis], *full[axis:]))


@torch_function("index_select", methods=True)
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices of an axis at the positions `index`."""
    axis = axis_of(dim, input._data.ndim)
    if index._data.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    places = index._data.reshape(-1).astype(np.int64, copy=False)
    if places.size and (places.min() < 0 or places.max() >= input._data.shape[axis]):
        raise IndexError("index out of range in self")
    result = entry_of(order.take).eager(input, wrap(places), axis=axis)
    return named(result, "IndexSelectBackward0")


@torch_function("take", methods=True)
def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements at positions counted as if `input` were a vector."""
    flat = reshape(input, (-1,))
    return named(flat[index], "TakeBackward0")


def _into(
    entry: Any, x: Tensor, src: Any, arrays: tuple, attrs: dict, name: str
) -> Tensor:
    # Written to a place twice, each value gets its cotangent in PyTorch.
    attrs["unique"] = entry is setitem_op or index.names_once(x._data, arrays)
    return named(general(entry, (x, src, *arrays), attrs), name)


@torch_function("scatter", methods=True, inplace=True)
def scatter_(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None
) -> Tensor:
    """A copy of `input` with `src` written at the positions `index` along `dim`."""
    axis = axis_of(dim, input._data.ndim)
    _check_index(index, "scatter")
    src = value if src is None else src
    written = src._data if isinstance(src, Tensor) and src._data.ndim else None
    check_lanes(input._data, axis, index._data, written)
    arrays, attrs = _at(input, axis, index._data)
    name = "ScatterBackward0" if isinstance(src, Tensor) else "ScatterBackward1"
    source = _source(input, src, index)
    return _into(setitem_op, input, source, arrays, attrs, name)


def _source(x: Tensor, src: Any, like: Tensor) -> Tensor:
    """The part of `src` that belongs to an index, or a number for all of it."""
    if not isinstance(src, Tensor):
        return wrap(np.full(like._data.shape, src, x._data.dtype))
    if src._data.shape == like._data.shape:
        return src
    return src[tuple([slice(n) for n in like._data.shape])]


@torch_function("scatter_add", methods=True, inplace=True)
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """A copy of `input` with `src` added at the positions `index` along `dim`."""
    axis = axis_of(dim, input._data.ndim)
    _check_index(index, "scatter")
    check_lanes(input._data, axis, index._data, src._data)
    arrays, attrs = _at(input, axis, index._data)
    source = _source(input, src, index)
    return _into(scatter_add_op, input, source, arrays, attrs, "ScatterAddBackward0")


def _along(axis: int, places: Tensor) -> tuple[tuple, dict[str, Any]]:
    attrs = {"index": (*[FULL] * axis, ARRAY), "counts": ()}
    return (places._data,), attrs


@torch_function("index_add", methods=True, inplace=True)
def index_add(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1
) -> Tensor:
    """A copy of `input` with slices of `source` added at the positions `index`."""
    axis = axis_of(dim, input._data.ndim)
    check_slices("index_add_()", input._data, axis, index._data, source._data)
    arrays, attrs = _along(axis, index)
    scaled = source if alpha == 1 else source * alpha
    return _into(scatter_add_op, input, scaled, arrays, attrs, "IndexAddBackward0")


@torch_function("index_copy", methods=True, inplace=True)
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """A copy of `input` with slices of `source` at the positions `index`."""
    axis = axis_of(dim, input._data.ndim)
    check_copied_slices(input._data, axis, index._data, source._data)
    arrays, attrs = _along(axis, index)
    return _into(setitem_op, input, source, arrays, attrs, "IndexCopyBackward0")


@torch_function("index_fill", methods=True, inplace=True)
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """A copy of `input` with `value` at the positions `index`."""
    arrays, attrs = _along(axis_of(dim, input._data.ndim), index)
    number = wrap(np.array(value, input._data.dtype))
    return _into(setitem_op, input, number, arrays, attrs, "IndexFillBackward0")


@torch_function("index_put", methods=True, inplace=True)
def index_put(
    input: Tensor, indices: Any, values: Tensor, accumulate: bool = False
) -> Tensor:
    """A copy of `input` with `values` written, or added, at the indices."""
    arrays, attrs = index.subscript(input._data, tuple([i._data for i in indices]))
    entry = scatter_add_op if accumulate else setitem_op
    return _into(entry, input, values, arrays, attrs, "IndexPutBackward0")


# ------------------------------------------------------------------------------- masks
@torch_function("masked_fill", methods=True, inplace=True)
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`value` where the mask is true, `input` elsewhere."""
    name = "MaskedFillBackward1" if isinstance(value, Tensor) else "MaskedFillBackward0"
    if mask._data.dtype != np.bool_:
        names = {"int64": "long int", "int32": "int", "float32": "float"}
        raise RuntimeError(
            "masked_fill_ only supports boolean masks, but got mask with dtype "
            f"{names.get(mask.dtype._name, mask.dtype._name)}"
        )
    number = value if isinstance(value, Tensor) else wrap(np.asarray(value))
    return named(where(mask, to(number, input.dtype), input), name)


@torch_function("masked_select", methods=True)
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where the mask is true, as a vector."""
    wanted = np.broadcast_shapes(input._data.shape, mask._data.shape)
    picked = expand(input, wanted)[expand(mask, wanted)]
    return named(picked, "MaskedSelectBackward0")


@torch_function("nonzero", methods=True)
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The positions of the elements that are not 0."""
    if as_tuple:
        return tuple([wrap(i) for i in np.nonzero(np.atleast_1d(input._data))])
    return wrap(np.argwhere(input._data))


# ------------------------------------------------------------------ repeating, turning
@torch_function("repeat", methods=True, function=False)
def repeat(self: Tensor, *repeats: Any) -> Tensor:
    """The tensor laid out so many times along each axis."""
    reps = sizes_of(repeats)
    if len(reps) < self._data.ndim:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of "
            "dimensions of tensor"
        )
    return named(entry_of(rearrange.tile).eager(self, reps=reps), "RepeatBackward0")


@torch_function("tile", methods=True)
def tile(input: Tensor, *dims: Any) -> Tensor:
    """`repeat`, with missing repeats taken as 1."""
    reps = sizes_of(dims)
    return repeat(input, *[1] * (input._data.ndim - len(reps)), *reps)


@torch_function("repeat_interleave", methods=True)
def repeat_interleave(input: Tensor, repeats: Any, dim: int | None = None) -> Tensor:
    """Each element repeated, all as often or each as often as `repeats` says."""
    x = reshape(input, (-1,)) if dim is None else input
    axis = 0 if dim is None else axis_of(dim, x._data.ndim)
    count = x._data.shape[axis]
    times = repeats._data if isinstance(repeats, Tensor) else np.asarray(repeats)
    places = np.repeat(np.arange(count), times)
    made = index_select(x, axis, wrap(places))
    return made if isinstance(repeats, Tensor) else named(made, "ViewBackward0")


@torch_function("flip", methods=True)
def flip(input: Tensor, *dims: Any) -> Tensor:
    """A copy in reverse order along some axes."""
    n = input._data.ndim
    axes = {axis_of(d, n) for d in sizes_of(dims)}
    backwards = Slice(None, None, -1)
    entries = tuple([backwards if i in axes else FULL for i in range(n)])
    return named(clone(_basic(input, entries)), "FlipBackward0")


@torch_function("fliplr", methods=True)
def fliplr(input: Tensor) -> Tensor:
    """A copy with the columns in reverse order."""
    return flip(input, 1)


@torch_function("flipud", methods=True)
def flipud(input: Tensor) -> Tensor:
    """A copy with the rows in reverse order."""
    return flip(input, 0)


@torch_function("roll", methods=True)
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """A copy rotated by `shifts` places along `dims`."""
    if dims is None or dims == ():
        flat = roll(reshape(input, (-1,)), shifts, 0)
        made = not_a_view(reshape(flat, input._data.shape))
        return named(made, "RollBackward0")
    single = not isinstance(dims, tuple | list)
    axes = (dims,) if single else tuple(dims)
    steps = (shifts,) if not isinstance(shifts, tuple | list) else tuple(shifts)
    axes = tuple([axis_of(d, input._data.ndim) for d in axes])
    return entry_of(shape.roll).eager(input, shift=steps, axis=axes)


@torch_function("movedim", "moveaxis", methods=True)
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Some axes moved to other places, the rest in their order."""
    n = input._data.ndim
    lists = [x if isinstance(x, tuple | list) else (x,) for x in (source, destination)]
    come, go = ([axis_of(d, n) for d in x] for x in lists)
    axes = [i for i in range(n) if i not in come]
    for place, axis in sorted(zip(go, come)):
        axes.insert(place, axis)
    return _permuted(input, tuple(axes), "PermuteBackward0")


@torch_function("unflatten", methods=True)
def unflatten(input: Tensor, dim: int, sizes: Any) -> Tensor:
    """One axis as several."""
    axis = axis_of(dim, input._data.ndim)
    have = input._data.shape
    return input.view(*have[:axis], *sizes, *have[axis + 1 :])


@torch_function("rot90", methods=True)
def rot90(input: Tensor, k: int = 1, dims: Any = (0, 1)) -> Tensor:
    """A copy turned by `k` quarters in the plane of two axes."""
    i, j = dims
    made = [clone, lambda x: flip(x, j).transpose(i, j), lambda x: flip(x, i, j)]
    made.append(lambda x: flip(x, i).transpose(i, j))
    return named(made[k % 4](input), "Rot90Backward0")


@torch_function("broadcast_to", methods=True)
def broadcast_to(input: Tensor, size: Any) -> Tensor:
    """`expand`, as a function."""
    return expand(input, *size)


@torch_function("broadcast_tensors")
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """The tensors expanded to one shape."""
    try:
        wanted = np.broadcast_shapes(*[x._data.shape for x in tensors])
    except ValueError as error:
        raise shape_error(error, *[x._data for x in tensors]) from None
    return tuple([x if x._data.shape == wanted else expand(x, wanted) for x in tensors])


def _at_least_1d(x: Tensor) -> Tensor:
    return x if x._data.ndim else reshape(x, (1,))


@torch_function("hstack", "column_stack")
def hstack(tensors: Any) -> Tensor:
    """The tensors side by side."""
    parts = [_at_least_1d(x) for x in tensors]
    return cat(parts, 0 if parts[0]._data.ndim == 1 else 1)


@torch_function("vstack", "row_stack")
def vstack(tensors: Any) -> Tensor:
    """The tensors one above the other."""
    parts = [x if x._data.ndim > 1 else reshape(x, (1, -1)) for x in tensors]
    return cat(parts, 0)


# --------------------------------------------------------------------------- diagonals
@torch_function("diagonal", methods=True, grad=(diagonal.diagonal, "DiagonalBackward0"))
def diagonal_(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of two axes, as a new last axis."""
    n = input._data.ndim
    axes = {"axis1": axis_of(dim1, n), "axis2": axis_of(dim2, n)}
    return entry_of(diagonal.diagonal).eager(input, offset=offset, **axes)


@torch_function("diag", methods=True)
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """The matrix with this diagonal, or the diagonal of a matrix."""
    if input._data.ndim == 1:
        return diag_embed(input, diagonal)
    return named(clone(diagonal_(input, diagonal)), "DiagonalBackward0_copy")


@torch_function("diag_embed", methods=True)
def diag_embed(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with this diagonal; for vectors only."""
    return named(entry_of(diagonal.diag).eager(input, k=offset), "DiagEmbedBackward0")


def _check_matrix(name: str, x: Tensor) -> None:
    if x._data.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")


@torch_function(
    "tril", methods=True, inplace=True, grad=(diagonal.tril, "TrilBackward0")
)
def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle of the last two axes, with zeros above."""
    _check_matrix("tril", input)
    return entry_of(_TRIANGLES[0]).eager(input, k=diagonal)


@torch_function(
    "triu", methods=True, inplace=True, grad=(diagonal.triu, "TriuBackward0")
)
def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle of the last two axes, with zeros below."""
    _check_matrix("triu", input)
    return entry_of(_TRIANGLES[1]).eager(input, k=diagonal)


_TRIANGLES = (diagonal.tril, diagonal.triu)


# ----------------------------------------------------------------------------- sorting
sort_result = return_type("sort", "values", "indices")
topk_result = return_type("topk", "values", "indices")


def _positions(x: Tensor, axis: int, descending: bool) -> np.ndarray:
    data = x._data if x._data.ndim else x._data.reshape(1)
    if descending:
        # Equal elements stay in their order, so the other way round twice.
        turned = np.argsort(np.flip(data, axis), axis=axis, kind="stable")
        return np.flip(data.shape[axis] - 1 - turned, axis)
    return np.argsort(data, axis=axis, kind="stable")


def _picked(x: Tensor, axis: int, places: np.ndarray, name: str) -> tuple:
    if not x._data.ndim:
        return named(clone(x), name), wrap(np.zeros((), np.int64))
    chosen = wrap(np.ascontiguousarray(places))
    return named(gather(x, axis, chosen), name), chosen


@torch_function("sort", methods=True)
def sort(
    input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False
) -> Any:
    """The elements in order along an axis, and where they come from."""
    axis = axis_of(dim, input._data.ndim)
    places = _positions(input, axis, descending)
    return sort_result(*_picked(input, axis, places, "SortBackward0"))


@torch_function("argsort", methods=True)
def argsort(
    input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False
) -> Tensor:
    """The positions that sort the elements along an axis."""
    return sort(input.detach(), dim, descending)[1]


@torch_function("topk", methods=True)
def topk(
    input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Any:
    """The `k` largest or smallest elements along an axis."""
    axis = axis_of(dim, input._data.ndim)
    if input._data.ndim and k > input._data.shape[axis]:
        raise RuntimeError("selected index k out of range")
    places = _positions(input, axis, largest)
    places = np.take(places, range(k), axis=axis)
    return topk_result(*_picked(input, axis, places, "TopkBackward0"))
