"""Shapes: views and rearrangements."""

from __future__ import annotations

import numpy as np
import numpy as xp

from tracegrad.errors import ShapeError
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import op
from tracegrad.ops.infer import broadcast_shapes, normal_axes, same_shape, shape_text
from tracegrad.ops.record import ndim_of, shape_of
from tracegrad.ops.sample import arg


def _infer_broadcast_to(t: ArrayType, *, shape):
    if not same_shape(broadcast_shapes(t.shape, shape), shape):
        raise ShapeError(
            f"an array of shape {shape_text(t.shape)} does not broadcast to "
            f"{shape_text(shape)}"
        )
    return t.with_shape(shape)


@op(
    infer=_infer_broadcast_to,
    # The engine sums a cotangent back to the shape of its primal.
    vjp=[lambda ct, y, x, *, shape: ct],
    aliases="view",
    linear=True,
    samples=[arg(3).with_(shape=(2, 3)), arg().with_(shape=(4,))],
)
def broadcast_to(x, *, shape):
    """`x` repeated along new and size-1 axes."""
    return xp.broadcast_to(x, shape)


def _infer_expand_dims(t: ArrayType, *, axis):
    rank = t.ndim + len(axis)
    axes = set(normal_axes(axis, rank))
    sizes = iter(t.shape)
    return t.with_shape(tuple([1 if i in axes else next(sizes) for i in range(rank)]))


@op(
    infer=_infer_expand_dims,
    vjp=[lambda ct, y, x, *, axis: reshape(ct, shape=shape_of(x))],
    aliases="view",
    linear=True,
    samples=[arg(3).with_(axis=(0,)), arg("n", 2).with_(axis=(0, 2))],
)
def expand_dims(x, *, axis):
    """`x` with axes of size 1 at the (sorted) positions `axis` of the result."""
    return xp.expand_dims(x, axis)


@op(
    infer=lambda t, *, shape: t.with_shape(shape),
    vjp=[lambda ct, y, x, *, shape: reshape(ct, shape=shape_of(x))],
    aliases="maybe",
    linear=True,
    samples=[arg(6).with_(shape=(2, 3)), arg("n", 2).with_(shape=(8,))],
)
def reshape(x, *, shape):
    """`x` with another shape, in C order."""
    return x.reshape(shape)


def _inverse(axes):
    inverse = [0] * len(axes)
    for to, source in enumerate(axes):
        inverse[source] = to
    return tuple(inverse)


@op(
    infer=lambda t, *, axes: t.with_shape(tuple([t.shape[a] for a in axes])),
    vjp=[lambda ct, y, x, *, axes: transpose(ct, axes=_inverse(axes))],
    aliases="view",
    linear=True,
    samples=[arg("n", 3).with_(axes=(1, 0)), arg(2, 3, 4).with_(axes=(2, 0, 1))],
)
def transpose(x, *, axes):
    """`x` with its axes permuted."""
    return x.transpose(axes)


@transpose.accept(np.transpose, methods=["transpose"])
def _(x, *axes):
    if not axes or axes == (None,):
        return transpose(x, axes=tuple(reversed(range(ndim_of(x)))))
    given = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
    return transpose(x, axes=normal_axes(tuple(given), ndim_of(x)))
