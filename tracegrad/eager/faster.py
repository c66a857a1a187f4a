"""Bodies that cost less on small arrays than those that are printed.

An op's body is written to be read: `xp.sum(x, axis=axis)`.  On ten numbers most of its
time is spent in NumPy's Python layer; the functions here go past it.  Their results are
the same to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.ir.index import fill
from tracegrad.ops import diagonal, index, product, reduce, shape
from tracegrad.ops.define import Op

f4, f8 = np.dtype(np.float32), np.dtype(np.float64)
# Below this many elements a filled array is made sooner than a view without strides.
SMALL = 4096
# Of any signature: NumPy's stubs take `keepdims` by name only, which takes longer.
_add_up: Callable[..., Any] = np.add.reduce


def _sum(x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    return _add_up(x, axis, None, None, keepdims)


def _mean(x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    if (x.dtype != f4 and x.dtype != f8) or not x.size:
        return np.mean(x, axis=axis, keepdims=keepdims)
    return _add_up(x, axis, None, None, keepdims) / _count_along(x, axis)


def _getitem(x: Any, *indices: Any, index: tuple, counts: tuple = ()) -> Any:
    key = fill(index, indices)
    if indices or Ellipsis in index:
        return x[key]
    # A view also where only ints are given, for which NumPy would give a number.
    return x[(*key, ...) if type(key) is tuple else (key, ...)]


def _expand(x: Any, *, shape: tuple) -> Any:
    made = np.broadcast_to(x, shape)
    if x.flags.writeable:
        # PyTorch lets one write to a single element of an expanded tensor; `inplace`
        # refuses where several would change.
        made.flags.writeable = True
    return made


def _diagonal(x: Any, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    made = x.diagonal(offset, axis1, axis2)
    if x.flags.writeable:
        made.flags.writeable = True  # as in PyTorch; NumPy gives a view to read
    return made


def _broadcast(x: Any, *, shape: tuple) -> Any:
    size = 1
    for n in shape:
        size *= n
    if size > SMALL:
        return np.broadcast_to(x, shape)
    made = np.empty(shape, x.dtype if hasattr(x, "dtype") else None)
    if np.ndim(x):
        made[...] = x
    else:
        made.fill(x)
    return made


def _keep_axes(y: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    if keepdims or not y.ndim or axis is None:
        return y
    sizes = list(x.shape)
    for a in (axis,) if type(axis) is int else axis:
        sizes[a] = 1
    return y.reshape(sizes)


def _spread(ct: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    return _broadcast(_keep_axes(ct, x, axis, keepdims), shape=x.shape)


def _share(ct: Any, y: Any, x: Any, *, axis: Any, keepdims: bool) -> Any:
    # A number is divided in a tenth of the time that an array without axes takes.
    share = ct[()] / _count_along(x, axis)
    return _spread(share, x, axis, keepdims)


def _count_along(x: Any, axis: Any) -> int:
    if axis is None:
        return x.size
    if type(axis) is int:
        return x.shape[axis]
    count = 1
    for a in axis:
        count *= x.shape[a]
    return count


def _matmul(a: Any, b: Any) -> Any:
    return a.dot(b) if a.ndim == 2 and b.ndim == 2 else np.matmul(a, b)


def _left(ct: Any, z: Any, a: Any, b: Any) -> Any:
    if a.ndim == 2 and b.ndim == 2:
        return ct.dot(b.T)
    return _LEFT(ct, z, a, b)


def _right(ct: Any, z: Any, a: Any, b: Any) -> Any:
    if a.ndim == 2 and b.ndim == 2:
        return a.T.dot(ct)
    return _RIGHT(ct, z, a, b)


_LEFT: Any
_RIGHT: Any
_LEFT, _RIGHT = product.matmul.rules or (None, None)
_SHARE: Any = (reduce.mean.rules or (None,))[0]

# Op -> what computes it, forward and in rules.
BODIES: dict[Op, Callable] = {
    diagonal.diagonal: _diagonal,
    reduce.sum: _sum,
    reduce.mean: _mean,
    index.getitem: _getitem,
    product.matmul: _matmul,
    shape.broadcast_to: _expand,
}
# Op -> what computes it in rules, where no view is asked for.
IN_RULES: dict[Op, Callable] = {shape.broadcast_to: _broadcast}
# Rule, or helper of rules -> the same on arrays.
HELPERS: dict[Any, Callable] = {
    reduce.spread: _spread,
    reduce.keep_axes: _keep_axes,
    reduce.count_along: _count_along,
    _SHARE: _share,
    _LEFT: _left,
    _RIGHT: _right,
}
