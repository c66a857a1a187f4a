"""One array of a list that a loop filled, as the user wrote it: `np.array(us)`."""

from __future__ import annotations

import numpy as xp

from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import op
from tracegrad.ops.record import shape_of
from tracegrad.ops.sample import arg
from tracegrad.ops.shape import moveaxis, reshape


def _infer(t: ArrayType, *, function, axis):
    rows, *shape = t.shape
    if function == "concatenate":
        shape[axis] = rows * shape[axis]
    else:
        shape.insert(axis, rows)
    return t.with_shape(tuple(shape))


@op(
    infer=_infer,
    linear=True,
    noun="all",
    samples=[
        arg(3, 2).with_(function="array", axis=0),
        arg(4).with_(function="array", axis=0),
        arg("n", 3).with_(function="stack", axis=0),
        arg(3, 2, 4).with_(function="stack", axis=2),
        arg(3, 2).with_(function="concatenate", axis=0),
        arg(3, 2, 4).with_(function="concatenate", axis=1),
    ],
)
def joined(xs, *, function, axis):
    """What `np.array`, `np.stack` or `np.concatenate` makes of a list of arrays.

    It is called on the list itself, since the order in memory of the result, and with
    it the order in which a sum adds, is that of the elements.
    """
    if function == "array":
        return xp.array(xs)
    if function == "concatenate":
        if axis == 0:
            return xp.concatenate(xs)
        return xp.concatenate(xs, axis=axis)
    if axis == 0:
        return xp.stack(xs)
    return xp.stack(xs, axis=axis)


@joined.vjp
def _(ct, y, xs, *, function, axis):
    if function == "concatenate":
        shape = shape_of(y)
        rows, size = shape_of(xs)[0], shape_of(xs)[axis + 1]
        ct = reshape(ct, shape=(*shape[:axis], rows, size, *shape[axis + 1 :]))
    return moveaxis(ct, axis, 0)


@joined.batch
def _(b, xs, *, function, axis):
    made = moveaxis(b.whole(0), 1, axis + 1)
    if function == "concatenate":
        made = reshape(made, shape=(b.size, *b.node.out.type.shape))
    return made
