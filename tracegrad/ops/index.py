"""Reading and writing by subscripts."""

from __future__ import annotations

import numpy as np

from tracegrad.errors import OutOfBoundsError
from tracegrad.ir.dims import slice_length
from tracegrad.ir.index import ARRAY, Slice, fill
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import op
from tracegrad.ops.infer import broadcast_shapes, decide
from tracegrad.ops.record import Scattered
from tracegrad.ops.sample import arg


def infer_subscript(t: ArrayType, arrays: tuple[ArrayType, ...], index) -> ArrayType:
    """Type of `x[...]` (basic entries; thin)."""
    shape = []
    axis = 0
    used = builtin_count(index)
    for entry in index:
        if entry is None:
            shape.append(1)
        elif entry is Ellipsis:
            extra = t.ndim - used
            shape.extend(t.shape[axis : axis + extra])
            axis += extra
        elif isinstance(entry, Slice):
            size = slice_length(
                entry.start, entry.stop, entry.step, t.shape[axis], decide
            )
            shape.append(size)
            axis += 1
        else:
            size = t.shape[axis]
            if isinstance(size, int) and not -size <= entry < size:
                raise OutOfBoundsError(
                    f"index {entry} is out of bounds for axis {axis} with size {size}"
                )
            axis += 1
    shape.extend(t.shape[axis:])
    return t.with_shape(tuple(shape))


def builtin_count(index) -> int:
    """How many axes of the array a subscript consumes."""
    return len([e for e in index if e is not None and e is not Ellipsis])


@op(
    infer=lambda t, *arrays, index: infer_subscript(t, arrays, index),
    aliases="view",
    linear=True,
    spelling="x[...]",
    samples=[arg(5).with_(index=(Slice(1, None),)), arg("n", 3).with_(index=(0,))],
)
def getitem(x, *indices, index):
    """`x[index]`."""
    return x[fill(index, indices)]


@getitem.vjp
def _(ct, y, x, *indices, index):
    return (Scattered(ct, indices, index, not indices), *[None] * len(indices))


@op(
    infer=lambda t, update, *arrays, index, unique: t,
    spelling="x[...] += update",
    samples=[],
)
def scatter_add(x, update, *indices, index, unique):
    """`x` with `update` added at `index`, repeated index arrays adding up."""
    out = x.copy()
    np.add.at(out, fill(index, indices), update)
    return out


@scatter_add.in_place
def _(x, update, *indices, index, unique):
    if unique:
        x[fill(index, indices)] += update
    else:
        np.add.at(x, fill(index, indices), update)


@scatter_add.body("jax")
def _(x, update, *indices, index, unique):
    return x.at[fill(index, indices)].add(update)


@scatter_add.vjp
def _(ct, y, x, update, *indices, index, unique):
    return (ct, getitem(ct, *indices, index=index), *[None] * len(indices))


assert ARRAY and broadcast_shapes
