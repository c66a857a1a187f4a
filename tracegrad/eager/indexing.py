"""Reading and writing by subscripts, with PyTorch's rules and error texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tracegrad.eager.dtypes import SCALAR_TYPES, from_numpy_dtype
from tracegrad.eager.engine import entry_of
from tracegrad.eager.inplace import (
    LEAF,
    SHARED,
    check_allowed,
    check_partial,
    check_writable,
    in_place,
    named,
    overlap,
    touched,
)
from tracegrad.eager.modes import state
from tracegrad.eager.nodes import ATTRS, META, Node
from tracegrad.eager.refusals import check_value
from tracegrad.eager.runtime import as_dtype, general, show
from tracegrad.eager.tensor import Tensor, wrap
from tracegrad.eager.versions import changed
from tracegrad.errors import TracegradError
from tracegrad.ir.index import ARRAY, Slice
from tracegrad.ops import index, scatter

FULL = Slice()
getitem_op = entry_of(index.getitem).prepare()
setitem_op = entry_of(scatter.setitem)


def _title(node: Node) -> str:
    """The name of the last of the functions that PyTorch would have chained."""
    entries = node[ATTRS]["index"]
    if ARRAY in entries:
        return "IndexBackward0"
    shape = node[META][0]
    for entry in reversed(entries):
        if entry is None:
            return "UnsqueezeBackward0"
        if isinstance(entry, int):
            return "SelectBackward0"
        if isinstance(entry, Slice) and entry != FULL:
            return "SliceBackward0"
    return "AliasBackward0" if shape is not None else ""


getitem_op.title = _title
setitem_op.title = "IndexPutBackward0"


def _plain_entry(entry: Any) -> Any:
    """One entry of a subscript, tensors as arrays, 0-d integer ones as ints."""
    if isinstance(entry, Tensor):
        data = entry._data
        if data.dtype.kind not in "iub":
            raise IndexError(
                "tensors used as indices must be long, int, byte or bool tensors"
            )
        if data.dtype == np.uint8:
            data = data.astype(bool)
        return data if data.ndim else data.item()
    if isinstance(entry, slice):
        step = entry.step
        if step is not None and step.__index__() <= 0:
            raise ValueError("step must be greater than zero")
        return entry
    if isinstance(entry, list | tuple):
        return np.array([_plain_entry(e) for e in entry], None if entry else np.int64)
    if isinstance(entry, range):
        return np.array(entry)
    if isinstance(entry, float | complex | str):
        raise TypeError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte "
            "Variables are valid indices (got "
            f"{type(entry).__name__})"
        )
    return entry


def _entries(x: Tensor, key: Any) -> tuple:
    """The entries of a key, as many as the tensor has axes at most.

    Raises:
        IndexError: PyTorch's messages.
    """
    several = isinstance(key, tuple) or (
        isinstance(key, list) and _stands_for_many(key)
    )
    entries = tuple([_plain_entry(e) for e in (key if several else (key,))])
    shape = x._data.shape
    used = [e for e in entries if e is not None and e is not Ellipsis]
    if not shape and any(isinstance(e, int) and not isinstance(e, bool) for e in used):
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or "
            "`tensor.item<T>()` in C++ to convert a 0-dim tensor to a number"
        )
    if not shape and any(isinstance(e, slice) for e in used):
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    if sum(map(_axes_taken, used)) > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
    return entries


def _stands_for_many(key: list) -> bool:
    """Whether PyTorch takes a list for a tuple, as `[[0, 1], [1, 2]]`."""
    several = list | tuple | range | slice | Tensor | np.ndarray | type(Ellipsis)
    return len(key) < 32 and any(e is None or isinstance(e, several) for e in key)


def _axes_taken(entry: Any) -> int:
    if isinstance(entry, bool):
        return 0
    return entry.ndim if isinstance(entry, np.ndarray) and entry.dtype == bool else 1


def _subscript(x: Tensor, entries: tuple) -> tuple[tuple, dict[str, Any]]:
    """The index arrays and the static subscript.

    Raises:
        IndexError: if an index is out of bounds.
    """
    _check_ints(entries, x._data.shape)
    try:
        return index.subscript(x._data, entries)
    except TracegradError as error:
        raise IndexError(error.what) from None


def _check_ints(entries: tuple, shape: tuple) -> None:
    used = [e for e in entries if e is not None and e is not Ellipsis]
    taken = sum(map(_axes_taken, used))
    axis = 0
    for e in entries:
        if e is None:
            continue
        if e is Ellipsis:
            axis += len(shape) - taken
            continue
        if isinstance(e, bool):
            continue
        if isinstance(e, int | np.integer) and not -shape[axis] <= e < shape[axis]:
            raise IndexError(
                f"index {e} is out of bounds for dimension {axis} with size "
                f"{shape[axis]}"
            )
        mask = isinstance(e, np.ndarray) and e.dtype == bool
        if mask and e.shape != shape[axis : axis + e.ndim]:
            raise IndexError(
                f"The shape of the mask {list(e.shape)} at index 0 does not match the "
                f"shape of the indexed tensor {list(shape)} at index {axis}"
            )
        axis += e.ndim if mask else 1


def _basic(entry: Any) -> Any:
    """An int or a slice as it stands in a static subscript; else NotImplemented."""
    kind = type(entry)
    if kind is int or entry is None or entry is Ellipsis:
        return entry
    if kind is slice:
        start, stop, step = entry.start, entry.stop, entry.step
        for bound in (start, stop, step):
            if bound is not None and type(bound) is not int:
                return NotImplemented
        if step is None or step > 0:
            return Slice(start, stop, step)
    return NotImplemented


def _basic_key(x: Tensor, key: Any) -> tuple | None:
    """The static subscript of a key of ints, slices, None, ... that is in bounds."""
    shape = x._data.shape
    if type(key) is int:
        return (key,) if shape and -shape[0] <= key < shape[0] else None
    entries = tuple(map(_basic, key)) if type(key) is tuple else (_basic(key),)
    axis = 0
    for e in entries:
        if (
            e is NotImplemented
            or e is Ellipsis
            or (axis >= len(shape) and e is not None)
        ):
            return None
        if type(e) is int and not -shape[axis] <= e < shape[axis]:
            return None
        axis += e is not None
    return entries


def getitem(self: Tensor, key: Any) -> Tensor:
    """`x[key]`: a view, or a copy where an index is a tensor or a list."""
    entries = _basic_key(self, key)
    if entries is not None:
        key = (*key, ...) if type(key) is tuple else (key, ...)
        attrs = {"index": entries, "counts": ()}
        return show(self, self._data[key], getitem_op, attrs)
    entries = _entries(self, key)
    first, rest = _in_two_steps(self, entries)
    if first is not None:
        return getitem(getitem(self, first), rest)
    arrays, attrs = _subscript(self, entries)
    return general(getitem_op, (self, *arrays), attrs)


def _in_two_steps(x: Tensor, entries: tuple) -> tuple[tuple | None, tuple]:
    """Ints, slices and new axes first, then index arrays, as PyTorch does it.

    NumPy counts an int beside an index array as an index array.  A bool is a new axis
    of which the one element is taken, or none.
    """
    bools = any(isinstance(e, bool) for e in entries)
    mixed = bools or (
        any(isinstance(e, np.ndarray) for e in entries)
        and any(
            e is None or (isinstance(e, int | slice) and e != slice(None))
            for e in entries
        )
    )
    if not mixed:
        return None, entries
    _check_ints(entries, x._data.shape)
    first: list[Any] = []
    rest: list[Any] = []
    for e in entries:
        if isinstance(e, np.ndarray):
            first.extend([slice(None)] * _axes_taken(e))
            rest.append(e)
        elif isinstance(e, bool):
            first.append(None)
            rest.append(np.zeros(int(e), np.int64))
        else:
            first.append(e)
            if not isinstance(e, int):
                rest.append(e if e is Ellipsis else slice(None))
    return tuple(first), tuple(rest)


def setitem(self: Tensor, key: Any, value: Any) -> None:
    """`x[key] = value`, with history."""
    entries = _entries(self, key)
    if any(isinstance(e, np.ndarray | bool) for e in entries):
        check_allowed(self, (value,))
        if isinstance(value, Tensor):
            _check_put(self, value, _is_mask(entries) and value._data.size == 1)
        first, rest = _in_two_steps(self, entries)
        if first is not None:
            setitem(getitem(self, first), rest, value)
            return
    arrays, attrs = _subscript(self, entries)
    if not isinstance(value, Tensor):
        check_value(value, self._data.dtype)
        value = wrap(as_dtype(np.asarray(value), self._data.dtype))
    if not arrays and state.grad and self._node is not None and self.is_leaf:
        raise RuntimeError(f"a view of {LEAF}")
    if not check_allowed(self, (value,)) and state.push is None:
        _write(self, arrays, attrs, value)
        return
    if not arrays and _covers(self, entries):
        _write_all(self, value)
        return
    if not arrays:
        view = general(getitem_op, (self,), attrs)
        view.copy_(_without_leading_ones(value, view._data.ndim))
        return
    # Named twice or not: PyTorch hands each value the cotangent of its place.
    attrs["unique"] = True
    in_place(self, lambda x, v: general(setitem_op, (x, v, *arrays), attrs), value)


def _covers(x: Tensor, entries: tuple) -> bool:
    """Whether a subscript of slices shows all of a tensor, as it is."""
    sizes = x._data.shape
    return len(entries) <= len(sizes) and all(
        isinstance(e, slice) and e.indices(n) == (0, n, 1)
        for e, n in zip(entries, sizes)
    )


def _write_all(x: Tensor, value: Tensor) -> None:
    """PyTorch writes to the tensor itself then, not to a view."""
    if value._data.ndim:
        x.copy_(_without_leading_ones(value, x._data.ndim))
        return
    in_place(x, lambda x, v: v.to(x.dtype).expand(x.shape), value)
    if x._root is None:
        named(x, "FillBackward3")


def _is_mask(entries: tuple) -> bool:
    """Whether a subscript is one boolean array, for which PyTorch fills."""
    (mask,) = entries if len(entries) == 1 else (None,)
    return isinstance(mask, np.ndarray) and mask.dtype == np.bool_


def _check_put(self: Tensor, value: Tensor, fills: bool) -> None:
    """Refuse what PyTorch's `index_put_` refuses, where plain copying would not."""
    to, source = self._data.dtype, value._data.dtype
    if to != source:
        names = [SCALAR_TYPES[from_numpy_dtype(d)] for d in (to, source)]
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{names[0]} for the destination and {names[1]} for the source."
        )
    if not fills and overlap(self._data, value._data):
        raise RuntimeError(SHARED)


def _write(self: Tensor, arrays: tuple, attrs: dict, value: Tensor) -> None:
    if not arrays:
        part = self._data[index.fill(attrs["index"], ())]
        value = _without_leading_ones(value, np.ndim(part))
        if value._data.ndim and isinstance(part, np.ndarray):
            check_partial(part, (value,))
        check_writable(np.asarray(part))
    try:
        self._data[index.fill(attrs["index"], arrays)] = value._data
    except ValueError:
        shape = list(self._data[index.fill(attrs["index"], arrays)].shape)
        raise RuntimeError(
            "shape mismatch: value tensor of shape "
            f"{list(value._data.shape)} cannot be broadcast to indexing result of "
            f"shape {shape}"
        ) from None
    changed(self._data)
    touched(self)


def _without_leading_ones(value: Tensor, ndim: int) -> Tensor:
    extra = value._data.ndim - ndim
    if extra > 0 and all(n == 1 for n in value._data.shape[:extra]):
        return value.reshape(value._data.shape[extra:])
    return value


Tensor.__getitem__ = getitem
Tensor.__setitem__ = setitem


# ---------------------------------------------------------------- as Python sees it
def _length(self: Tensor) -> int:
    if not self._data.ndim:
        raise TypeError("len() of a 0-d tensor")
    return self._data.shape[0]


def _iterate(self: Tensor) -> Iterator[Tensor]:
    if not self._data.ndim:
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


def _contains(self: Tensor, x: Any) -> bool:
    if isinstance(x, Tensor):
        x = x._data
    return bool((self._data == x).any())


def _truth(self: Tensor) -> bool:
    if self._data.size != 1:
        what = "no values" if not self._data.size else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous")
    return bool(self._data.item())


def _as_index(self: Tensor) -> int:
    if self._data.size != 1 or self._data.dtype.kind not in "iu":
        raise TypeError(
            "only integer tensors of a single element can be converted to an index"
        )
    return int(self._data.item())


def _number(self: Tensor) -> Any:
    if self._data.size != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    return self._data.item()


def _format(self: Tensor, spec: str) -> str:
    if not self._data.ndim:
        return self._data.item().__format__(spec)
    return object.__format__(self, spec)


Tensor.__len__ = _length
Tensor.__iter__ = _iterate
Tensor.__contains__ = _contains
Tensor.__bool__ = _truth
Tensor.__index__ = _as_index
Tensor.__float__ = lambda self: float(_number(self))
Tensor.__int__ = lambda self: int(_number(self))
Tensor.__complex__ = lambda self: complex(_number(self))
Tensor.__format__ = _format
