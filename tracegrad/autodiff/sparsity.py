"""Which elements of a result depend on which elements of an argument.

Read off the program, node by node: elementwise ops link each element to its own, ops
that move elements are run on the elements' numbers, reductions link groups.  An op that
none of this fits links everything.  The pattern holds for all values of the argument
(a branch of `where` counts, taken or not), and nothing is probed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.autodiff.reverse import is_elementwise
from tracegrad.ir.graph import Const, Node, Value
from tracegrad.ops.call import call, expanded
from tracegrad.ops.control import cond
from tracegrad.ops.define import Batch
from tracegrad.ops.evaluate import run_nodes
from tracegrad.ops.infer import normal_axes
from tracegrad.ops.library import Library

sparse = Library("scipy.sparse")

# A number for each element, far apart, so that a sum of some is the number of none.
_SEED = 20240229


class _Everything:
    """Each element of the output reads each element of the input."""


def pattern(nodes: Sequence[Node], wrt: Sequence[Value], outs: Sequence[Value]) -> Any:
    """The pattern of the Jacobian of `outs` by `wrt`, all of them flat.

    Args:
        nodes: the program; all sizes are numbers.
        wrt: what the columns are.
        outs: what the rows are.

    Returns:
        A `scipy.sparse.csr_array` of bools.
    """
    sizes = [_size(v) for v in wrt]
    width = int(sum(sizes))
    start = np.cumsum([0, *sizes])
    links: dict[Value, Any] = {}
    for v, first, size in zip(wrt, start, sizes, strict=False):
        columns = first + np.arange(size)
        links[v] = _matrix(np.arange(size), columns, (size, width))
    _Links(links, width).run(nodes)
    rows = [
        links[v] if v in links else sparse.csr_array((_size(v), width), dtype=bool)
        for v in outs
    ]
    return sparse.csr_array(sparse.vstack(rows).astype(bool))


def _size(v: Value) -> int:
    return int(np.prod([int(s) for s in v.type.shape], dtype=int))


def _matrix(rows: Any, columns: Any, shape: tuple[int, int]) -> Any:
    ones = np.ones(len(rows), dtype=bool)
    return sparse.csr_array((ones, (rows, columns)), shape=shape)


class _Links:
    """The links of each value to the columns.

    Attributes:
        links: by value; a value without an entry depends on nothing.
        width: the number of columns.
        data: values that are known, such as index arrays.
    """

    def __init__(self, links: dict[Value, Any], width: int) -> None:
        self.links, self.width = links, width
        self.data: dict[Value, Any] = {}

    def run(self, nodes: Sequence[Node]) -> None:
        """Add the links of the values that the nodes make."""
        for node in nodes:
            if node.op is call:
                self.run(expanded(node))
            elif not any(v in self.links for v in node.inputs):
                self._compute(node)
            elif node.op is cond:
                self._cond(node)
            else:
                self._node(node)

    def _compute(self, node: Node) -> None:
        known = all(isinstance(v, Const) or v in self.data for v in node.inputs)
        if known and not node.regions and node.outputs:
            with np.errstate(all="ignore"):
                run_nodes((node,), self.data)

    def _cond(self, node: Node) -> None:
        for region in node.regions:
            inner = dict(zip(region.params, node.inputs[1:], strict=True))
            links = {p: self.links[v] for p, v in inner.items() if v in self.links}
            part = _Links(links, self.width)
            part.run(region.nodes)
            for out, v in zip(node.outputs, region.results, strict=True):
                self._add(out, part.links.get(v))

    def _add(self, out: Value, links: Any) -> None:
        if links is not None and out.type.differentiable:
            have = self.links.get(out)
            self.links[out] = links if have is None else have + links

    def _node(self, node: Node) -> None:
        for position, out in enumerate(node.outputs):
            if not out.type.differentiable:
                continue
            for k, v in enumerate(node.inputs):
                if v not in self.links or k in node.op.type_only or _flat(node, k):
                    continue
                link = self._link(node, k, position)
                if isinstance(link, _Everything):
                    every = np.flatnonzero(np.diff(self.links[v].tocsc().indptr))
                    size = _size(out)
                    rows = np.repeat(np.arange(size), len(every))
                    columns = np.tile(every, size)
                    self._add(out, _matrix(rows, columns, (size, self.width)))
                else:
                    self._add(out, link.astype(bool) @ self.links[v])

    def _link(self, node: Node, k: int, position: int) -> Any:
        """The links of one output to input `k`."""
        op, v, out = node.op, node.inputs[k], node.outputs[position]
        if op.link_rule is not None:
            inputs = [self._known(u, at == k) for at, u in enumerate(node.inputs)]
            made = op.link_rule(k, *inputs, **node.attrs)
            return _Everything() if made is None else sparse.csr_array(made)
        if is_elementwise(op) or op.batch_rule is Batch.MAP:
            return _broadcast(v, out)
        if op.batch_rule is Batch.REDUCE and len(node.inputs) == 1:
            return _groups(node, v, out)
        if op.batch_rule is Batch.LANE and len(node.inputs) == 1:
            return _lanes(node, v, out)
        if op.is_linear_in(k) and len(node.outputs) == 1:
            moved = self._moved(node, k)
            return _Everything() if moved is None else moved
        return _Everything()

    def _known(self, v: Value, moved: bool) -> Any:
        if moved or not (isinstance(v, Const) or v in self.data):
            return tuple(int(s) for s in v.type.shape)
        return np.asarray(v.value if isinstance(v, Const) else self.data[v])

    def _moved(self, node: Node, k: int) -> Any:
        """The links of an op that moves elements, found by moving their numbers."""
        args = []
        for at, u in enumerate(node.inputs):
            shape = tuple(int(s) for s in u.type.shape)
            if at == k:
                ids = np.random.default_rng(_SEED).integers(1, 2**62, _size(u))
                args.append(ids.reshape(shape))
            elif node.op.is_linear_in(at):
                args.append(np.zeros(shape, np.int64))
            elif isinstance(u, Const) or u in self.data:
                args.append(u.value if isinstance(u, Const) else self.data[u])
            else:
                return None
        try:
            with np.errstate(all="ignore"):
                made = np.asarray(node.op.run(*args, **node.attrs))
        except (TypeError, ValueError):
            return None
        if made.dtype != np.int64:
            return None
        order = np.argsort(args[k].ravel())
        ids = args[k].ravel()[order]
        flat = made.ravel()
        at_ids = np.minimum(np.searchsorted(ids, flat), len(ids) - 1)
        found = ids[at_ids] == flat
        if not np.all(found | (flat == 0)):
            return None
        rows = np.flatnonzero(found)
        return _matrix(rows, order[at_ids[found]], (flat.size, ids.size))


def _flat(node: Node, k: int) -> bool:
    """Whether the derivative by input `k` is zero everywhere, as of `floor`."""
    return node.op.rules is not None and node.op.rules[k] is None


def _broadcast(v: Value, out: Value) -> Any:
    shape = tuple(int(s) for s in out.type.shape)
    own = np.arange(_size(v)).reshape(tuple(int(s) for s in v.type.shape))
    columns = np.broadcast_to(own, shape).ravel()
    return _matrix(np.arange(columns.size), columns, (columns.size, _size(v)))


def _axis_groups(node: Node, v: Value) -> np.ndarray:
    """For each element of the input, the number of the group it is reduced in."""
    shape = tuple(int(s) for s in v.type.shape)
    axes = set(normal_axes(node.attrs["axis"], len(shape)))
    kept = tuple([1 if i in axes else s for i, s in enumerate(shape)])
    numbers = np.arange(int(np.prod(kept, dtype=int))).reshape(kept)
    return np.broadcast_to(numbers, shape).ravel()


def _groups(node: Node, v: Value, out: Value) -> Any:
    group = _axis_groups(node, v)
    count = int(group.max(initial=-1)) + 1
    of_groups = _matrix(group, np.arange(group.size), (count, group.size))
    if out.type.shape == v.type.shape and _size(out) != count:  # softmax and the like
        return of_groups.T @ of_groups
    return of_groups if _size(out) == count else _Everything()


def _lanes(node: Node, v: Value, out: Value) -> Any:
    """Each element reads its lane, as in a sort."""
    if node.attrs["axis"] is None or out.type.shape != v.type.shape:
        return _Everything()
    group = _axis_groups(node, v)
    count = int(group.max(initial=-1)) + 1
    lanes = _matrix(group, np.arange(group.size), (count, group.size))
    return lanes.T @ lanes


def coloured(links: Any) -> np.ndarray:
    """A colour for each column, so that columns of one colour share no row.

    Greedily, column by column, which for bands gives as many colours as the band is
    wide.

    Args:
        links: a `scipy.sparse.csr_array`.

    Returns:
        Colours from 0.
    """
    columns, rows = links.tocsc(), links.tocsr()
    colours = np.full(links.shape[1], -1)
    for j in range(links.shape[1]):
        of_rows = columns.indices[columns.indptr[j] : columns.indptr[j + 1]]
        near = [rows.indices[rows.indptr[i] : rows.indptr[i + 1]] for i in of_rows]
        taken = {int(c) for part in near for c in colours[part]}
        colour = 0
        while colour in taken:
            colour += 1
        colours[j] = colour
    return colours
