"""Sparse Jacobians and Hessians: the pattern is read off the program, then coloured.

Columns (or rows) that have no row (column) in common are differentiated together: one
batched pass with as many directions as there are colours.  Pattern and colouring are
constants of the emitted source.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.autodiff.batch import batch
from tracegrad.autodiff.forward import push_forward
from tracegrad.autodiff.reverse import pull_back
from tracegrad.autodiff.sparsity import coloured, pattern
from tracegrad.codegen.source import Source
from tracegrad.errors import ArgumentError, UnsupportedError
from tracegrad.ir.graph import BACKWARD, Const, Value
from tracegrad.ir.index import ARRAY
from tracegrad.ir.tree import Branch, Leaf, Tree, build, leaves
from tracegrad.ir.types import Dim
from tracegrad.ops.index import getitem
from tracegrad.ops.library import Library
from tracegrad.ops.record import Ref
from tracegrad.ops.shape import reshape
from tracegrad.runtime.binding import Binder
from tracegrad.runtime.compiled import Compiled
from tracegrad.runtime.derive import tuple_of, values_of
from tracegrad.runtime.inlined import Inlined
from tracegrad.runtime.nested import Targets, inline_targets
from tracegrad.runtime.options import Options
from tracegrad.runtime.transform import binder_of, options_of
from tracegrad.trace.tracer import active

sparse = Library("scipy.sparse")


def sparsity(f: Callable, *args: Any, argnums: int = 0, **kwargs: Any) -> Any:
    """The pattern of the Jacobian of `f`, for all values of arguments of these shapes.

    Args:
        f: a function that returns an array.
        *args: its arguments; their shapes matter, and what the function decides by.
        argnums: which one the Jacobian is by.
        **kwargs: further arguments.

    Returns:
        A `scipy.sparse.csr_array` of bools, a row for each element of the result and a
        column for each element of the argument.

    Example:
        >>> sparsity(np.diff, np.zeros(3)).toarray().astype(int)
        array([[1, 1, 0],
               [0, 1, 1]])
    """
    options = Options("sparsity", argnums=argnums)
    options.check()
    made = SparseJacobian(f, options, "sparsity", _record_pattern)
    indices, indptr = made.compiled(*args, **kwargs)
    ones = np.ones(len(indices), dtype=bool)
    shape = (len(indptr) - 1, made.columns(args, kwargs))
    return sparse.csr_array((ones, indices, indptr), shape=shape)


class SparseJacobian:
    """A function that returns its Jacobian as a `scipy.sparse.csr_array`.

    The emitted function returns the nonzeros, their columns, and where each row starts.

    Attributes:
        compiled: that function.
    """

    def __init__(
        self, function: Callable, options: Options, name: str, record: Callable
    ) -> None:
        self._options = options
        binder = self._binder = binder_of(function, options.op, options.backend)
        functools.update_wrapper(self, function, updated=())

        def inlined(*args: Any, **kwargs: Any) -> Any:
            return record(binder, options, args, kwargs)

        what = {"sparsity": "Pattern of the Jacobian of {}."}.get(
            name,
            f"Nonzeros of the {name} of {{}}, their columns, and the rows' starts.",
        )
        made = Inlined(binder, f"sparse_{name}", what, inlined)
        made.options = options
        plain = options_of(options.op, options.backend, options.optimize)
        self.compiled = Compiled(made, plain)

    def columns(self, args: tuple, kwargs: dict) -> int:
        """The number of elements of the argument that is differentiated."""
        slots = self._binder.slots(args, kwargs)
        position = [slot for slot in slots if slot.positional]
        x = position[self._options.argnums].argument
        return sum(np.size(leaf.value) for leaf in leaves(build(x, Leaf)))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The Jacobian at these arguments."""
        if active():
            raise UnsupportedError(
                "a sparse Jacobian inside of a traced function",
                op=self._options.op,
                at=self._binder.at,
                fix="leave out sparse=True there",
            )
        data, indices, indptr = self.compiled(*args, **kwargs)
        shape = (len(indptr) - 1, self.columns(args, kwargs))
        return sparse.csr_array((data, indices, indptr), shape=shape)

    def source(self, *args: Any, **kwargs: Any) -> Source:
        """The source of the function that gives the nonzeros."""
        return self.compiled.source(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<sparse {self.compiled!r}>"


def sparse_jacobian(f: Any, options: Options) -> SparseJacobian:
    """The sparse Jacobian of a function, or its Hessian by `options.mode`."""
    options.check()
    if type(options.argnums) is not int or options.argnames or options.has_aux:
        raise ArgumentError(
            "sparse=True is for one argument, given by one argnums, without aux",
            op=options.op,
            fix="pass argnums as an int, and leave out argnames and has_aux",
        )
    name = "hessian" if options.mode == "hessian" else "jacobian"
    return SparseJacobian(f, options, name, _record)


def _record(binder: Binder, options: Options, args: tuple, kwargs: dict) -> Any:
    if options.mode != "hessian":
        return _inlined(binder, options, args, kwargs, _nonzeros)
    inner = options.in_mode("grad")

    def gradient(*a: Any, **k: Any) -> Any:
        from_grad = Compiled(binder.function, inner)
        return from_grad(*a, **k)

    rows = Binder(gradient, foreign=binder.foreign)
    rows.name, rows.signature, rows.at = binder.name, binder.signature, binder.at
    return _inlined(rows, options, args, kwargs, _columns_only)


def _record_pattern(binder: Binder, options: Options, args: tuple, kwargs: dict) -> Any:
    return _inlined(binder, options, args, kwargs, _pattern_alone)


def _inlined(
    binder: Binder, options: Options, args: tuple, kwargs: dict, make: Callable
) -> Any:
    def record(part: Targets) -> Tree:
        outs = values_of([part.value])
        wrt = values_of(part.targets)
        _check(part, outs, wrt, options, binder)
        return tuple_of([Leaf(v) for v in make(part, outs, wrt)])

    return inline_targets(binder.function, binder, options, args, kwargs, record)


def _check(
    part: Targets, outs: list[Value], wrt: list[Value], options: Options, binder: Binder
) -> None:
    if isinstance(part.value, Branch) or len(outs) != 1 or len(wrt) != 1:
        raise ArgumentError(
            "a sparse Jacobian is of one array by one array",
            op=options.op,
            at=binder.at,
            fix="return one array, and take one: np.concatenate the parts",
        )
    for node in part.nodes:
        for v in (*node.inputs, *node.outputs):
            if any(isinstance(s, Dim) for s in v.type.shape):
                raise UnsupportedError(
                    f"the pattern for a symbolic size ({v.type!r})",
                    op=options.op,
                    at=binder.at,
                    fix="pass arrays, or specs with numbers for the sizes",
                )


def _links(part: Targets, outs: list[Value], wrt: list[Value]) -> Any:
    links = pattern(part.nodes, wrt, outs)
    links.sort_indices()
    return links


def _constant(x: np.ndarray, hint: str) -> Const:
    return Const(np.ascontiguousarray(x), hint)


def _pattern_alone(part: Targets, outs: list[Value], wrt: list[Value]) -> list[Value]:
    links = _links(part, outs, wrt)
    return [_constant(links.indices, "columns"), _constant(links.indptr, "starts")]


def _nonzeros(part: Targets, outs: list[Value], wrt: list[Value]) -> list[Value]:
    """In the direction that has fewer colours."""
    links = _links(part, outs, wrt)
    by_column, by_row = coloured(links), coloured(links.T.tocsr())
    if by_row.max(initial=-1) < by_column.max(initial=-1):
        return _by_rows(part, outs[0], wrt[0], links, by_row)
    return _by_columns(part, outs[0], wrt[0], links, by_column)


def _columns_only(part: Targets, outs: list[Value], wrt: list[Value]) -> list[Value]:
    """A Hessian is symmetric, and its gradient is pushed forward."""
    links = _links(part, outs, wrt)
    return _by_columns(part, outs[0], wrt[0], links, coloured(links))


def _seeds(colours: np.ndarray, v: Value) -> np.ndarray:
    count = int(colours.max(initial=0)) + 1
    made = np.zeros((count, colours.size), v.type.dtype)
    made[colours, np.arange(colours.size)] = 1
    return made.reshape(count, *v.type.shape)


def _by_columns(
    part: Targets, out: Value, w: Value, links: Any, colours: np.ndarray
) -> list[Value]:
    builder = part.builder
    t = Value(w.type, f"t_{w.hint}" if w.hint else None, wrt=w, prefix="t")
    builder.nodes = []
    found = push_forward(builder, part.nodes, [w], [builder.wrap(t)])
    pushed, builder.nodes = builder.nodes, []
    seeds = _constant(_seeds(colours, w), "seeds")
    known = batch(builder, pushed, {t: builder.wrap(seeds)}, seeds.type.shape[0])
    tangent = found.get(out)
    columns = links.indices
    rows = np.repeat(np.arange(links.shape[0]), np.diff(links.indptr))
    made = None if tangent is None else known.get(tangent.value)
    return _gathered(part, made, links, colours[columns], rows)


def _by_rows(
    part: Targets, out: Value, w: Value, links: Any, colours: np.ndarray
) -> list[Value]:
    builder = part.builder
    ct = Value(out.type, f"d_{out.hint or 'out'}", wrt=out)
    outer, builder.nodes = builder.nodes, []
    (found,) = pull_back(builder, part.nodes, [out], [builder.wrap(ct)], [w])
    pulled, builder.nodes = builder.nodes, outer
    seeds = _constant(_seeds(colours, out), "seeds")
    known = batch(builder, pulled, {ct: builder.wrap(seeds)}, seeds.type.shape[0])
    rows = np.repeat(np.arange(links.shape[0]), np.diff(links.indptr))
    made = None if found is None else known.get(found.value)
    return _gathered(part, made, links, colours[rows], links.indices)


def _gathered(
    part: Targets, compressed: Ref | None, links: Any, first: Any, second: Any
) -> list[Value]:
    """The nonzeros out of what was computed for each colour."""
    builder = part.builder
    rest = [_constant(links.indices, "columns"), _constant(links.indptr, "starts")]
    if compressed is None:
        return [_constant(np.zeros(links.nnz), "zeros"), *rest]
    before = builder.derived, builder.phase
    builder.derived, builder.phase = True, BACKWARD
    if compressed.ndim != 2:
        size = math.prod(map(int, compressed.shape[1:]))
        compressed = reshape(compressed, shape=(compressed.shape[0], size))
    places = [_constant(first, "colours"), _constant(second, "places")]
    refs = map(builder.wrap, places)
    data = getitem(compressed, *refs, index=(ARRAY, ARRAY))
    builder.derived, builder.phase = before
    return [data.value, *rest]
