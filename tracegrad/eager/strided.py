"""Views by distances in memory: `as_strided`, and the windows of `Tensor.unfold`.

What they show is read by places, as of a vector, so that `source()` prints a subscript.
Their memory is that of the tensor, and a change in place goes through the two ops here,
which no NumPy function stands for: they are not among the ops of the compiler.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.eager import shapes
from tracegrad.eager.engine import entry_of
from tracegrad.eager.inplace import named
from tracegrad.eager.registry import axis_of, torch_function
from tracegrad.eager.runtime import general, link
from tracegrad.eager.tensor import Tensor
from tracegrad.eager.versions import owner_of
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import Op
from tracegrad.ops.index import ARRAY
from tracegrad.ops.record import Scattered, shape_of
from tracegrad.ops.sample import arg


def _view(x: np.ndarray, shape: Any, strides: Any, skip: int = 0) -> np.ndarray:
    """The memory of `x`, `skip` bytes further on, with other sizes and distances.

    NumPy's `as_strided` hides whose memory it shows, which version counters ask for.
    """
    owner = owner_of(x)
    # As a buffer it must lie in C order: copies of turned arrays are turned.
    order = sorted(range(owner.ndim), key=lambda k: -owner.strides[k])
    whole = owner if owner.flags.c_contiguous else owner.transpose(order)
    start = x.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    return np.ndarray(tuple(shape), x.dtype, whole, start + skip, tuple(strides))


def places_of(shape: tuple) -> np.ndarray:
    """The number of each element, counted as if the array were a vector."""
    return np.arange(int(np.prod(shape))).reshape(shape)


def taken(x: Tensor, places: np.ndarray, title: str) -> Tensor:
    """The elements of `x` at such places."""
    flat = x.reshape(-1)
    attrs = {"index": (ARRAY,), "counts": ()}
    from_flat = general(shapes.getitem_op, (flat, places), attrs)
    return named(from_flat, title)


# ------------------------------------------------------------------------------- ops
def _windows(x: Any, *, axis: int, size: int, step: int) -> Any:
    """All windows of `size` elements along `axis`, on a new last axis."""
    sizes, steps = list(x.shape), list(x.strides)
    steps.append(steps[axis])
    sizes.append(size)
    sizes[axis] = (sizes[axis] - size) // step + 1
    steps[axis] *= step
    return _view(x, sizes, steps)


def _strided(x: Any, *, shape: tuple, strides: tuple, offset: int) -> Any:
    """Elements at regular distances in an array without gaps."""
    steps = [s * x.itemsize for s in strides]
    return _view(x, shape, steps, offset * x.itemsize)


def _infer(body: Any) -> Any:
    def infer(t: ArrayType, **attrs: Any) -> ArrayType:
        return t.with_shape(body(places_of(t.shape), **attrs).shape)

    return infer


def _rule(body: Any) -> Any:
    def rule(ct: Any, y: Any, x: Any, **attrs: Any) -> Any:
        places = body(places_of(shape_of(x)), **attrs)
        if len(shape_of(x)) == 1:
            return Scattered(ct, (places.copy(),), (ARRAY,), False)
        where = np.unravel_index(places, shape_of(x))
        return Scattered(ct, tuple(where), (ARRAY,) * len(where), False)

    return rule


def _made(name: str, body: Any, **attrs: Any) -> Any:
    made = Op(body, _infer(body))
    made.name = name
    made.rules = (_rule(body),)
    made.samples = (arg(4, 3).with_(**attrs),)
    made.aliases = "view"
    made.linear = True
    return entry_of(made)


windows_op = _made("windows", _windows, axis=1, size=2, step=1)
strided_op = _made("strided", _strided, shape=(2, 2), strides=(3, 1), offset=1)


def _shown(x: Tensor, entry: Any, title: str, attrs: dict[str, Any]) -> Tensor:
    """A view of `x` with its history."""
    entry.prepare()
    places = entry.run(places_of(x._data.shape), **attrs)
    out = taken(x, places.copy(), title)
    out._data = entry.run(x._data, **attrs)
    out._root, out._steps = None, ()
    link(out, x, entry, attrs)
    return out


# ----------------------------------------------------------------------------- names
def _unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """All windows of a length along an axis, on a new last axis."""
    axis = axis_of(dimension, self._data.ndim)
    length = self._data.shape[axis] if self._data.ndim else 1
    if size > length:
        raise RuntimeError(
            f"maximum size for tensor at dimension {axis} is {length} but size is "
            f"{size}"
        )
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if not self._data.ndim:
        return taken(self, np.arange(size), "UnfoldBackward0")
    attrs = {"axis": axis, "size": size, "step": step}
    return _shown(self, windows_op, "UnfoldBackward0", attrs)


Tensor.unfold = _unfold  # type: ignore[attr-defined]


@torch_function("as_strided", methods=True)
def as_strided(
    input: Tensor, size: Any, stride: Any, storage_offset: int | None = None
) -> Tensor:
    """A view of the memory of `input`: elements at regular distances.

    Raises:
        RuntimeError: PyTorch's message, if it would reach beyond the memory.
    """
    whole = input
    if input._root is not None and input._root._data.flags.c_contiguous:
        whole = input._root  # distances are those in its memory
    elif not input._data.flags.c_contiguous:
        raise RuntimeError(
            "as_strided() of a tensor whose memory has gaps, and which is no view of "
            "a tensor without; call contiguous() on it first"
        )
    start = input.storage_offset() if storage_offset is None else storage_offset
    start -= whole.storage_offset()
    last = start + sum((n - 1) * s for n, s in zip(size, stride))
    if last >= max(1, whole._data.size) or start < 0:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)} are out of bounds "
            f"for storage of {whole._data.size} elements"
        )
    attrs = {"shape": tuple(size), "strides": tuple(stride), "offset": start}
    return _shown(whole, strided_op, "AsStridedBackward0", attrs)


__all__ = ["as_strided", "places_of", "taken"]
