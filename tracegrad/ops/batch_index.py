"""Subscripts over a batch: reads and writes with a further leading axis.

Where only the array has a batch axis, the subscript gets a leading `:`.  Where index
arrays have one, each example reads by its own, and a leading `np.arange(size)` pairs
the examples of the array with them.  NumPy puts the axes of index arrays in front when
a slice stands between them; results and values to write are moved accordingly.
"""

from __future__ import annotations

from typing import Any

from tracegrad.ir.dims import slice_length
from tracegrad.ir.index import ARRAY, Slice
from tracegrad.ir.types import Dim
from tracegrad.ops.create import arange
from tracegrad.ops.index import FULL, getitem
from tracegrad.ops.infer import decide
from tracegrad.ops.order import take
from tracegrad.ops.scatter import scatter_add, setitem
from tracegrad.ops.shape import transpose


class _Layout:
    """How the axes of `x[index]` for one example come about.

    Attributes:
        entries: the subscript with an entry for every axis.
        plain: sizes of the axes that come from slices and new axes.
        rank: number of axes that come from index arrays.
        at: how many plain axes stand before those.
    """

    def __init__(self, b: Any, index: tuple, first: int) -> None:
        """Read the subscript; index arrays are inputs of `b` from position `first`."""
        shape = b.node.inputs[0].type.shape
        arrays = [v.type for v in b.node.inputs[first:]]
        self.rank = max([a.ndim for a in arrays], default=0)
        used = sum(e is not None and e is not Ellipsis for e in index)
        fill = [FULL] * (len(shape) - used)
        self.entries: list[Any] = []
        for e in index:
            self.entries.extend(fill if e is Ellipsis else [e])
        if Ellipsis not in index:
            self.entries.extend(fill)
        self.plain: list[Any] = []
        axis = 0
        for e in self.entries:
            if e is None:
                self.plain.append(1)
                continue
            if isinstance(e, Slice):
                size = shape[axis]
                self.plain.append(slice_length(e.start, e.stop, e.step, size, decide))
            axis += 1
        self.at, self.split = self.position() if self.rank else (0, False)

    def position(self) -> tuple[int, bool]:
        """How many plain axes NumPy puts before those of the index arrays.

        Also whether there is a plain one between index arrays, which puts them first.
        A single int counts as an index array.
        """
        before, at, previous, split = 0, None, False, False
        for e in self.entries:
            is_array = e is ARRAY or isinstance(e, int | Dim)
            if is_array:
                split = split or (at is not None and not previous)
                at = before if at is None else at
            else:
                before += 1
            previous = is_array
        return (0 if split or at is None else at), split

    @property
    def shape_rank(self) -> int:
        """Number of axes of the result for one example."""
        return len(self.plain) + self.rank


def _indices(b: Any, layout: _Layout, first: int) -> list:
    return [b.aligned(i, layout.rank) for i in range(first, len(b.inputs))]


def _lead(b: Any, rank: int) -> Any:
    """0, 1, 2, … along the batch axis, with `rank` further axes."""
    steps = _counting(b)
    return getitem(steps, index=(FULL, *[None] * rank)) if rank else steps


def _counting(b: Any) -> Any:
    builder = b.inputs[0].builder
    return builder.record(arange, (), {"stop": b.size})


def _masked(b: Any, first: int) -> bool:
    """Whether an index that has a batch axis comes with a mask."""
    masks = any(v.type.kind == "b" for v in b.node.inputs[first:])
    return masks and any(b.has(i) for i in range(first, len(b.inputs)))


def _axes(layout: _Layout, at: int, batch_at: int) -> list:
    """The axes of a result as NumPy lays them out: "b", index axes, plain ones."""
    plain: list[Any] = [("plain", i) for i in range(len(layout.plain))]
    arrays: list[Any] = [("array", i) for i in range(layout.rank)]
    if batch_at < 0:  # the batch axis is one of the index arrays'
        return [*plain[:at], "b", *arrays, *plain[at:]]
    made = [*plain[:at], *arrays, *plain[at:]]
    made.insert(batch_at, "b")
    return made


def _wanted(layout: _Layout) -> list:
    plain: list[Any] = [("plain", i) for i in range(len(layout.plain))]
    arrays: list[Any] = [("array", i) for i in range(layout.rank)]
    return ["b", *plain[: layout.at], *arrays, *plain[layout.at :]]


def _moved(x: Any, have: list, want: list) -> Any:
    if have == want:
        return x
    return transpose(x, axes=tuple([have.index(a) for a in want]))


@getitem.batch
def _(b, x, *indices, index, counts):
    if _masked(b, 1):
        return NotImplemented
    layout = _Layout(b, index, 1) if not _has_mask(b, 1) else None
    if not any(b.has(i) for i in range(1, len(b.inputs))):
        made = getitem(x, *indices, index=(FULL, *index), counts=counts)
        if layout is None or not layout.rank:
            return made
        if layout.split:  # index arrays come in front of the batch axis
            return _moved(made, _axes(layout, 0, layout.rank), _wanted(layout))
        return made
    if layout is None:
        return NotImplemented
    arrays = _indices(b, layout, 1)
    if b.has(0):
        made = getitem(
            x, _lead(b, layout.rank), *arrays, index=(ARRAY, *layout.entries)
        )
        return _moved(made, _axes(layout, 0, -1), _wanted(layout))
    made = getitem(x, *arrays, index=tuple(layout.entries))
    at, _ = layout.position()
    return _moved(made, _axes(layout, at, -1), _wanted(layout))


def _has_mask(b: Any, first: int) -> bool:
    return any(v.type.kind == "b" for v in b.node.inputs[first:])


def _write(op: Any, b: Any, index: tuple, unique: bool, counts: tuple) -> Any:
    if _masked(b, 2):
        return NotImplemented
    x = b.whole(0)
    indices = b.inputs[2:]
    rank = b.rank(1)
    mask = _has_mask(b, 2)
    layout = None if mask else _Layout(b, index, 2)
    if not any(b.has(i) for i in range(2, len(b.inputs))):
        attrs = {"index": (FULL, *index), "unique": unique, "counts": counts}
        if layout is None:
            if b.has(1) and rank:
                return NotImplemented
            update = b.aligned(1, 1) if b.has(1) else b.inputs[1]
            return op(x, update, *indices, **attrs)
        if layout.split:
            place = _place(b, layout)
            have, want = _wanted(layout), _axes(layout, 0, layout.rank)
            update = _moved(b.whole(1, place), have, want)
        else:
            update = b.aligned(1, layout.shape_rank)
        return op(x, update, *indices, **attrs)
    if layout is None:
        return NotImplemented
    arrays = [_lead(b, layout.rank), *_indices(b, layout, 2)]
    have, want = _wanted(layout), _axes(layout, 0, -1)
    if have == want:
        update = b.aligned(1, layout.shape_rank)
    else:
        update = _moved(b.whole(1, _place(b, layout)), have, want)
    entries = (ARRAY, *layout.entries)
    return op(x, update, *arrays, index=entries, unique=unique, counts=())


def _place(b: Any, layout: _Layout) -> tuple:
    """The shape of what is written for one example."""
    from_arrays = tuple(
        [
            max(
                [
                    v.type.shape[v.type.ndim - layout.rank + i]
                    for v in b.node.inputs[2:]
                    if v.type.ndim - layout.rank + i >= 0
                ],
                key=lambda s: (s != 1, str(s)),
            )
            for i in range(layout.rank)
        ]
    )
    plain = tuple(layout.plain)
    return (*plain[: layout.at], *from_arrays, *plain[layout.at :])


@setitem.batch
def _(b, x, update, *indices, index, unique, counts):
    return _write(setitem, b, index, unique, counts)


@scatter_add.batch
def _(b, x, update, *indices, index, unique, counts):
    return _write(scatter_add, b, index, unique, counts)


@take.batch
def _(b, x, indices, *, axis):
    if not b.has(1):
        return take(x, indices, axis=axis % b.rank(0) + 1)
    rank, axis = b.rank(1), axis % b.rank(0)
    if not b.has(0):
        made = take(x, indices, axis=axis)
        order = [axis, *range(axis), *range(axis + 1, made.ndim)]
        return made if axis == 0 else transpose(made, axes=tuple(order))
    made = getitem(x, _lead(b, rank), indices, index=(ARRAY, *[FULL] * axis, ARRAY))
    if axis == 0:
        return made
    # batch, indices, axes before, axes after
    order = [
        0,
        *range(1 + rank, 1 + rank + axis),
        *range(1, 1 + rank),
        *range(1 + rank + axis, made.ndim),
    ]
    return transpose(made, axes=tuple(order))
