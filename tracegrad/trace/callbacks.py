"""NumPy's functions that call the user's function: they are traced through it.

`np.vectorize`, `np.apply_along_axis`, `np.apply_over_axes` and `np.piecewise` are
written here with NumPy's functions on traced arrays, as a user would write them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.autodiff.reverse import is_elementwise
from tracegrad.errors import ArgumentError, ShapeError, UnsupportedError
from tracegrad.ir.graph import Node, Value
from tracegrad.ops.infer import normal_axis
from tracegrad.ops.record import Ref, as_operand
from tracegrad.trace.boundary import enter
from tracegrad.trace.buffers import Handle, current
from tracegrad.trace.session import Session

# Above that, a program that repeats the user's function for each element is refused.
MAX_ELEMENTS = 1000


def as_traced(session: Session, x: Any) -> Any:
    """An argument as an array of the trace, constants included."""

    def convert(x: Any) -> Ref:
        x = as_operand(x)
        return x if isinstance(x, Ref) else Ref(session.constant(x), session.builder)

    return enter(session, convert, (x,), name="np.asarray", named=False)


# -------------------------------------------------------------------- along the axes
def apply_along_axis(
    session: Session, func1d: Callable, axis: int, arr: Any, *args: Any, **kwargs: Any
) -> Any:
    """The function of each vector of `arr` along an axis, in place of that axis."""
    arr = as_traced(session, arr)
    axis = normal_axis(axis, arr.ndim)
    lanes = np.moveaxis(arr, axis, -1)
    batch = lanes.shape[:-1]
    made = [func1d(lanes[at], *args, **kwargs) for at in np.ndindex(*map(int, batch))]
    if not made:
        raise ShapeError("np.apply_along_axis of an array without vectors")
    parts = np.stack([as_traced(session, part) for part in made])
    rest = parts.shape[1:]
    out = parts.reshape(*batch, *rest)
    # The axes of the results stand where the axis was.
    for i in range(len(rest)):
        out = np.moveaxis(out, len(batch) + i, axis + i)
    return out


def apply_over_axes(session: Session, func: Callable, a: Any, axes: Any) -> Any:
    """The function applied over one axis after the other, the rank kept."""
    value = as_traced(session, a)
    rank = value.ndim
    for axis in np.atleast_1d(axes).tolist():
        axis = normal_axis(axis, rank)
        made = func(value, axis)
        if made.ndim != rank:
            made = np.expand_dims(made, axis)
        if made.ndim != rank:
            raise ShapeError(
                "function is not returning an array of the correct shape",
                op="np.apply_over_axes",
            )
        value = made
    return value


# ------------------------------------------------------------------------- piecewise
def piecewise(
    session: Session, x: Any, condlist: Any, funclist: Any, *args: Any, **kwargs: Any
) -> Any:
    """Where each condition holds, the value of its function; else 0 or the last one.

    NumPy calls a function with the chosen elements, here it gets all of them: the same
    for a function that works element by element, and others are refused.
    """
    x = as_traced(session, x)
    one = isinstance(condlist, Handle | np.ndarray | bool)
    if one and np.ndim(condlist) <= x.ndim:
        if not isinstance(condlist, np.ndarray) or condlist.ndim == x.ndim:
            condlist = [condlist]
    conditions, functions = list(condlist), list(funclist)
    if len(functions) not in (len(conditions), len(conditions) + 1):
        raise ArgumentError(
            f"{len(functions)} functions for {len(conditions)} conditions",
            op="np.piecewise",
            fix="give one function for each condition, and perhaps one for the rest",
        )
    out: Any = 0.0
    if len(functions) > len(conditions):
        out = _piece(session, functions.pop(), x, args, kwargs)
    for condition, function in zip(conditions, functions, strict=True):
        out = np.where(condition, _piece(session, function, x, args, kwargs), out)
    return out if out.dtype == x.dtype else out.astype(x.dtype)


def _piece(session: Session, function: Any, x: Any, args: tuple, kwargs: dict) -> Any:
    if not callable(function):
        return function
    start = len(session.builder.nodes)
    made = function(x, *args, **kwargs)
    if not all(map(_is_elementwise, session.builder.nodes[start:])):
        raise UnsupportedError(
            "a function given to np.piecewise does not work element by element",
            op="np.piecewise",
            at=session.place(),
            fix="write it with np.where and masks",
        )
    return made


def _is_elementwise(node: Node) -> bool:
    return is_elementwise(node.op)


# ------------------------------------------------------------------------- vectorize
def _without_excluded(f: Any, args: tuple, kwargs: dict) -> tuple[Any, tuple, dict]:
    """An `np.vectorize` object and a call of it with nothing left to exclude."""
    held = {i: x for i, x in enumerate(args) if i in f.excluded}
    held_by_name = {k: x for k, x in kwargs.items() if k in f.excluded}
    pyfunc = f.pyfunc

    def function(*given: Any, **named: Any) -> Any:
        rest = iter(given)
        whole = [held[i] if i in held else next(rest) for i in range(len(args))]
        return pyfunc(*whole, **named, **held_by_name)

    left = tuple([x for i, x in enumerate(args) if i not in held])
    by_name = {k: x for k, x in kwargs.items() if k not in held_by_name}
    free = np.vectorize(function, f.otypes, signature=f.signature)
    return free, left, by_name


def call_vectorized(session: Session, f: Any, args: tuple, kwargs: dict) -> Any:
    """A call of an `np.vectorize` object.

    If its function only computes element by element, it is traced once and runs on
    whole arrays; a function with branches or the like once for each element.
    """
    if f.excluded:
        return call_vectorized(session, *_without_excluded(f, args, kwargs))
    if f.signature is not None:
        raise UnsupportedError(
            "np.vectorize with signature= is not supported",
            op="np.vectorize",
            at=session.place(),
            fix="call the function in a loop, or write it for whole arrays",
        )
    names = list(kwargs)
    # Python's numbers become arrays, as there.
    plain = (int, float, complex, bool)
    given = [
        as_traced(session, np.asarray(x) if type(x) in plain else x)
        for x in (*args, *kwargs.values())
    ]
    arrays = np.broadcast_arrays(*given)
    shape = tuple(map(int, arrays[0].shape))
    if not arrays[0].size:
        raise ShapeError("np.vectorize of an array without elements", op="np.vectorize")

    def call(elements: list) -> Any:
        positional = elements[: len(args)]
        return f.pyfunc(
            *positional, **dict(zip(names, elements[len(args) :], strict=True))
        )

    flat = [a.reshape(-1) for a in arrays]
    start = len(session.builder.nodes)
    scalars = [a[0] for a in flat]
    first = len(session.builder.nodes)
    asked = len(session.known)
    out = call(scalars)
    nodes = session.builder.nodes[first:]
    whole = None
    if len(session.known) == asked:  # else the value of a constant decided something
        whole = _replayed(session, nodes, scalars, given, out)
    if whole is not None:
        return _as_types(whole, f.otypes)
    count = flat[0].shape[0]
    if count > MAX_ELEMENTS:
        del session.builder.nodes[start:]
        raise UnsupportedError(
            f"np.vectorize would repeat its function {count} times in the program",
            op="np.vectorize",
            at=session.place(),
            fix="write it for whole arrays, with np.where for its branches",
        )
    rows = [out, *[call([a[i] for a in flat]) for i in range(1, count)]]
    return _as_types(_stacked(session, rows, shape), f.otypes)


def _stacked(session: Session, rows: list[Any], shape: tuple[int, ...]) -> Any:
    """The results for all elements as arrays of a shape."""
    if isinstance(rows[0], tuple):
        columns = zip(*rows, strict=True)
        return tuple([_stacked(session, list(c), shape) for c in columns])
    return np.stack(_scalars(session, rows)).reshape(shape)


def _scalars(session: Session, parts: Any) -> list:
    return [as_traced(session, part) for part in parts]


def _replayed(
    session: Session, nodes: list[Node], scalars: list, arrays: list, out: Any
) -> Any:
    """The recorded call of one element, on whole arrays; None if that is not the same.

    It is not where a node is no element-by-element op: a guard, say, because a branch
    may go another way for other elements.
    """
    if not all(map(_is_elementwise, nodes)):
        return None
    made = {id(v) for node in nodes for v in node.outputs}
    results = out if isinstance(out, tuple) else (out,)
    if not all(isinstance(r, Handle) and id(current(r)) in made for r in results):
        return None

    def replay(*whole: Any) -> Any:
        env: dict[Value, Any] = {
            current(s): x for s, x in zip(scalars, whole, strict=True)
        }
        for node in nodes:
            inputs = tuple([env.get(v, v) for v in node.inputs])
            refs = tuple(
                [v if isinstance(v, Ref) else Ref(v, session.builder) for v in inputs]
            )
            outputs = session.builder.record(node.op, refs, node.attrs)
            many = outputs if isinstance(outputs, tuple) else (outputs,)
            env.update(zip(node.outputs, many, strict=True))
        found = tuple([env[current(r)] for r in results])
        return found if isinstance(out, tuple) else found[0]

    return enter(session, replay, tuple(arrays), name="np.vectorize")


def _as_types(made: Any, otypes: str | None) -> Any:
    """The results in the dtypes that the user asked for."""
    if otypes is None:
        return made
    if not isinstance(made, tuple):
        return made.astype(otypes[0])
    return tuple([m.astype(t) for m, t in zip(made, otypes, strict=True)])


CALLBACKS: dict[Any, Callable[..., Any]] = {
    np.apply_along_axis: apply_along_axis,
    np.apply_over_axes: apply_over_axes,
    np.piecewise: piecewise,
}
