"""Other shapes for the same elements: views and rearrangements."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ir.dims import exact_div, floordiv, product
from tracegrad.ir.types import ArrayType, Dim, Shape
from tracegrad.ops.define import Batch, accept, op
from tracegrad.ops.index import drop_axes, expand_dims, flip_axes
from tracegrad.ops.infer import (
    broadcast_shapes,
    is_one_by_mask,
    like_first,
    normal_axes,
    normal_axis,
    refuse,
    same_shape,
    same_size,
    shape_text,
)
from tracegrad.ops.record import as_array, ndim_of, shape_of
from tracegrad.ops.sample import arg


def as_shape(shape: Any) -> Shape:
    """A shape as the user wrote it (a size or a sequence) as a tuple of sizes."""
    if isinstance(shape, Dim) or not isinstance(shape, tuple | list | np.ndarray):
        shape = (shape,)
    return tuple([s if isinstance(s, Dim) else operator.index(s) for s in shape])


# ------------------------------------------------------------------------ broadcasting
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
    samples=[
        arg(3).with_(shape=(2, 3)),
        arg(4, 1).with_(shape=(4, 3)),
        arg().with_(shape=(4,)),
    ],
)
def broadcast_to(x, *, shape):
    """`x` repeated along new and size-1 axes."""
    return xp.broadcast_to(x, shape)


@broadcast_to.batch
def _(b, x, *, shape):
    return b.whole(0, shape)


@accept(np.broadcast_to)
def _(array, shape, subok=False):
    array, shape = as_array(array), as_shape(shape)
    return array if shape_of(array) == shape else broadcast_to(array, shape=shape)


@accept(np.broadcast_arrays)
def broadcast_arrays(*args, subok=False):
    """The arrays, each with the shape that all broadcast to."""
    arrays = [as_array(a) for a in args]
    shape = broadcast_shapes(*map(shape_of, arrays))
    return tuple(
        [a if shape_of(a) == shape else broadcast_to(a, shape=shape) for a in arrays]
    )


# --------------------------------------------------------------------------- reshaping
def _infer_reshape(t: ArrayType, *, shape):
    if not same_size(product(t.shape), product(shape)):
        raise ShapeError(
            f"an array of shape {shape_text(t.shape)}, {product(t.shape)} elements, "
            f"does not fit into the shape {shape_text(shape)}",
            fix="make the sizes multiply to the same number, or let one be -1",
        )
    return t.with_shape(shape)


@op(
    infer=_infer_reshape,
    vjp=[lambda ct, y, x, *, shape: to_shape(ct, shape_of(x))],
    aliases="maybe",
    linear=True,
    samples=[
        arg(6).with_(shape=(2, 3)),
        arg(4, 2).with_(shape=(2, 4)),
        arg(1).with_(shape=()),
        arg().with_(shape=(1, 1)),
    ],
)
def reshape(x, *, shape):
    """`x` with another shape, in C order."""
    if not shape:
        return x.reshape(())
    return x.reshape(*shape)


@reshape.batch
def _(b, x, *, shape):
    return reshape(x, shape=(b.size, *shape))


@op(
    infer=lambda t: t.with_shape((product(t.shape),)),
    vjp=[lambda ct, y, x: to_shape(ct, shape_of(x))],
    aliases="maybe",
    linear=True,
    samples=[arg("n", 3).with_(), arg().with_(), arg(3).with_()],
)
def ravel(x):
    """`x` as a vector, in C order."""
    return x.ravel()


@ravel.batch
def _(b, x):
    return reshape(x, shape=(b.size, *b.node.out.type.shape))


@op(
    infer=lambda t: t.with_shape((product(t.shape),)),
    vjp=[lambda ct, y, x: to_shape(ct, shape_of(x))],
    linear=True,
    samples=[arg("n", 3).with_(), arg().with_()],
)
def flatten(x):
    """A copy of `x` as a vector, in C order."""
    return x.flatten()


@flatten.batch
def _(b, x):
    return reshape(x, shape=(b.size, *b.node.out.type.shape))


def to_shape(x: Any, shape: Shape) -> Any:
    """`x` in another shape, by the op that reads best; a scalar is broadcast."""
    have = shape_of(x)
    if have == shape:
        return x
    if not have:
        # A Python number has no methods.
        return broadcast_to(x, shape=shape)
    if len(shape) == 1:
        return ravel(x)
    return reshape(x, shape=shape)


def resolve_shape(x: Any, shape: Shape) -> Shape:
    """`shape` with -1 replaced by the size that is left.

    Raises:
        ShapeError: if two sizes are -1, or the others do not divide the elements.
    """
    open_axes = [i for i, s in enumerate(shape) if type(s) is int and s == -1]
    if not open_axes:
        return shape
    total = product(shape_of(x))
    known = product([s for i, s in enumerate(shape) if i != open_axes[0]])
    left = exact_div(total, known)
    if left is None and not (type(known) is int and known <= 0):
        left = floordiv(total, known)
    if left is None or len(open_axes) > 1 or not same_size(left * known, total):
        raise ShapeError(
            f"an array of shape {shape_text(shape_of(x))}, {total} elements, does not "
            f"fit into the shape {shape_text(shape)}",
            fix="make the sizes multiply to the same number, with one -1 at most",
        )
    return tuple([left if i == open_axes[0] else s for i, s in enumerate(shape)])


def _reordered(x: Any, shape: Shape, order: str, function: str) -> Any:
    if order not in ("C", "F"):
        refuse(function, fix='use order="C" or order="F"', order=order)
    shape = resolve_shape(x, shape)
    if order == "C":
        return to_shape(x, shape)
    return permute(to_shape(permute(x, None), shape[::-1]), None)


@accept(np.reshape)
def _(a, /, shape, order="C", *, copy=None):
    refuse("np.reshape", copy=copy)
    return _reordered(as_array(a), as_shape(shape), order, "np.reshape")


@accept(methods=["reshape"])
def _(a, *shape, order="C", copy=None):
    refuse("x.reshape", copy=copy)
    given = shape[0] if len(shape) == 1 else shape
    return _reordered(as_array(a), as_shape(given), order, "x.reshape")


@accept(np.ravel, methods=["ravel"])
def _(a, order="C"):
    a = as_array(a)
    return (
        a if order == "C" and ndim_of(a) == 1 else _reordered(a, (-1,), order, "ravel")
    )


@accept(properties=["flat"])
def _(a):
    return _reordered(as_array(a), (-1,), "C", "x.flat")


@accept(methods=["flatten"])
def _(a, order="C"):
    if order == "C":
        return flatten(as_array(a))
    return _reordered(as_array(a), (-1,), order, "x.flatten")


@accept(np.atleast_1d)
def atleast_1d(*arys):
    """Each array with at least one axis."""
    made = [_at_least(as_array(a), lambda n: (0,) if n == 0 else ()) for a in arys]
    return made[0] if len(made) == 1 else tuple(made)


@accept(np.atleast_2d)
def atleast_2d(*arys):
    """Each array with at least two axes; a vector becomes a row."""
    made = [_at_least(as_array(a), lambda n: tuple(range(2 - n))) for a in arys]
    return made[0] if len(made) == 1 else tuple(made)


@accept(np.atleast_3d)
def atleast_3d(*arys):
    """Each array with at least three axes: (1, n, 1), (n, m, 1)."""
    new = {0: (0, 1, 2), 1: (0, 2), 2: (2,)}
    made = [_at_least(as_array(a), lambda n: new.get(n, ())) for a in arys]
    return made[0] if len(made) == 1 else tuple(made)


def _at_least(a: Any, new_axes: Any) -> Any:
    axes = new_axes(ndim_of(a))
    return expand_dims(a, axis=axes) if axes else a


@accept(np.expand_dims)
def _(a, axis):
    a = as_array(a)
    count = len(axis) if isinstance(axis, tuple | list) else 1
    axes = normal_axes(axis, ndim_of(a) + count)
    return expand_dims(a, axis=tuple(sorted(axes)))


@accept(np.squeeze, methods=["squeeze"])
def squeeze(a, axis=None):
    """`a` without axes of size 1: all, or those in `axis`."""
    a = as_array(a)
    shape = shape_of(a)
    if axis is None:
        axes = tuple([i for i, s in enumerate(shape) if s == 1 or is_one_by_mask(s)])
    else:
        axes = tuple(sorted(normal_axes(axis, len(shape))))
        for i in axes:
            if not same_size(shape[i], 1):
                raise ShapeError(
                    f"axis {i} has size {shape[i]}, and only axes of size 1 can be "
                    "squeezed",
                    fix="leave out axis=, or index the axis",
                )
    return drop_axes(a, axis=axes)


# ------------------------------------------------------------------------ permutations
def _inverse(axes):
    inverse = [0] * len(axes)
    for to, source in enumerate(axes):
        inverse[source] = to
    return tuple(inverse)


@op(
    infer=lambda t, *, axes: t.with_shape(tuple([t.shape[a] for a in axes])),
    vjp=[lambda ct, y, x, *, axes: permute(ct, _inverse(axes))],
    aliases="view",
    linear=True,
    samples=[
        arg("n", 3).with_(axes=(1, 0)),
        arg(2, 3, 4).with_(axes=(2, 0, 1)),
        arg(2, 3, 4).with_(axes=(0, 2, 1)),
        arg(2, 3, 4).with_(axes=(2, 1, 0)),
    ],
)
def transpose(x, *, axes):
    """`x` with its axes permuted."""
    if axes == tuple(reversed(range(len(axes)))):
        return x.T
    if axes == (*range(len(axes) - 2), len(axes) - 1, len(axes) - 2):
        return x.mT
    return x.transpose(*axes)


@transpose.batch
def _(b, x, *, axes):
    return transpose(x, axes=(0, *[a + 1 for a in axes]))


def permute(x: Any, axes: tuple[int, ...] | None) -> Any:
    """`x` with its axes in the order `axes`, or reversed."""
    n = ndim_of(x)
    if axes is None:
        axes = tuple(reversed(range(n)))
    if axes == tuple(range(n)) or not n:
        return x
    return transpose(x, axes=axes)


@accept(np.transpose, np.permute_dims)
def _(a, axes=None):
    a = as_array(a)
    return permute(a, None if axes is None else _permutation(axes, ndim_of(a)))


@accept(methods=["transpose"])
def _(a, *axes):
    if not axes or axes == (None,):
        return permute(a, None)
    given = axes[0] if len(axes) == 1 and isinstance(axes[0], tuple | list) else axes
    return permute(a, _permutation(given, ndim_of(a)))


def _permutation(axes: Any, ndim: int) -> tuple[int, ...]:
    normal = normal_axes(tuple(axes), ndim)
    if len(normal) != ndim:
        raise ShapeError(f"axes {tuple(axes)} do not match an array with {ndim} axes")
    return normal


@accept(properties=["T"])
def _(x):
    return permute(x, None)


@accept(np.matrix_transpose, np.linalg.matrix_transpose, properties=["mT"])
def swap_last(x):
    """`x` with its last two axes exchanged."""
    n = ndim_of(x)
    if n < 2:
        raise ShapeError(
            f"a matrix transpose needs two axes, the array has {n}",
            fix="use x[:, None] to make a column of a vector",
        )
    return permute(x, (*range(n - 2), n - 1, n - 2))


@accept(np.swapaxes, methods=["swapaxes"])
def swapaxes(a, axis1, axis2):
    """`a` with two axes exchanged."""
    a = as_array(a)
    axes = list(range(ndim_of(a)))
    i, j = normal_axis(axis1, len(axes)), normal_axis(axis2, len(axes))
    axes[i], axes[j] = axes[j], axes[i]
    return permute(a, tuple(axes))


@accept(np.moveaxis)
def moveaxis(a, source, destination):
    """`a` with the axes `source` at the places `destination`."""
    a = as_array(a)
    n = ndim_of(a)
    source, destination = normal_axes(source, n), normal_axes(destination, n)
    if len(source) != len(destination):
        raise ArgumentError(
            f"{len(source)} source axes do not match {len(destination)} destinations"
        )
    order = [i for i in range(n) if i not in source]
    for to, axis in sorted(zip(destination, source, strict=True)):
        order.insert(to, axis)
    return permute(a, tuple(order))


@accept(np.rollaxis)
def _(a, axis, start=0):
    n = ndim_of(as_array(a))
    axis = normal_axis(axis, n)
    start = start + n if start < 0 else start
    return moveaxis(a, axis, start - 1 if axis < start else start)


# ------------------------------------------------------------------- reversing, rolling
@accept(np.flip)
def flip(m, axis=None):
    """`m` in reverse order along `axis`: `m[::-1]`."""
    m = as_array(m)
    return flip_axes(m, tuple(sorted(normal_axes(axis, ndim_of(m)))))


@accept(np.fliplr)
def _(m):
    return flip(m, 1)


@accept(np.flipud)
def _(m):
    return flip(m, 0)


@accept(np.rot90)
def _(m, k=1, axes=(0, 1)):
    m = as_array(m)
    i, j = normal_axes(tuple(axes), ndim_of(m))
    k = k % 4
    if k == 0:
        return m
    if k == 2:
        return flip_axes(m, (i, j))
    if k == 1:
        return swapaxes(flip_axes(m, (j,)), i, j)
    return flip_axes(swapaxes(m, i, j), (j,))


@op(
    infer=like_first,
    vjp=[lambda ct, y, x, *, shift, axis: roll(ct, shift=_negated(shift), axis=axis)],
    linear=True,
    samples=[
        arg("n").with_(shift=1),
        arg(2, 3).with_(shift=1),
        arg("n", 3).with_(shift=-2, axis=1),
        arg(2, 3).with_(shift=(1, 4), axis=(0, 1)),
    ],
)
def roll(x, *, shift, axis=None):
    """`x` rotated by `shift` places along `axis`."""
    return xp.roll(x, shift, axis=axis)


@roll.batch
def _(b, x, *, shift, axis):
    if axis is None:
        flat = reshape(x, shape=(b.size, product(b.node.out.type.shape)))
        return reshape(roll(flat, shift=shift, axis=1), shape=x.shape)
    axes = axis if isinstance(axis, tuple) else (axis,)
    moved = tuple([a % b.rank(0) + 1 for a in axes])
    return roll(x, shift=shift, axis=moved if isinstance(axis, tuple) else moved[0])


def _negated(shift):
    return tuple([-s for s in shift]) if isinstance(shift, tuple) else -shift


@roll.accept(np.roll)
def _(a, shift, axis=None):
    a = as_array(a)
    shift = as_shape(shift) if np.ndim(shift) else operator.index(shift)
    if axis is None:
        total = sum(shift) if isinstance(shift, tuple) else shift
        return roll(a, shift=total) if ndim_of(a) else a
    axes = tuple([normal_axis(i, ndim_of(a)) for i in np.atleast_1d(axis)])
    if isinstance(shift, tuple) or len(axes) > 1:
        pairs = np.broadcast_arrays(shift, axes)
        shift, axes = (tuple(p.tolist()) for p in pairs)
        return roll(a, shift=shift, axis=axes)
    return roll(a, shift=shift, axis=axes[0])


@op(
    infer=like_first,
    vjp=[lambda ct, y, x: ct],
    linear=True,
    batch=Batch.MAP,
    samples=[arg("n", 3).with_(), arg().with_()],
)
def copy(x):
    """A copy."""
    return x.copy()


@copy.accept(np.copy)
def _(a, order="K", subok=False):
    return copy(as_array(a))


@copy.accept(methods=["copy"])
def _(a, order="C"):
    return copy(a)
