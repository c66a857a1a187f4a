"""What the derivatives of all solvers record: the user's function, in line or apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from tracegrad.ir.dims import product
from tracegrad.ir.graph import BACKWARD, FORWARD, Node, Value
from tracegrad.ir.index import Slice
from tracegrad.ir.region import copied
from tracegrad.ir.types import Size
from tracegrad.ops.cast import astype, python_float
from tracegrad.ops.create import zeros
from tracegrad.ops.define import ACCEPT
from tracegrad.ops.index import FULL, getitem
from tracegrad.ops.record import Builder, Ref
from tracegrad.ops.shape import reshape
from tracegrad.ops.solvers import Parts

# `pull_back` and `push_forward` of the modules `reverse` and `forward`, which import
# those of the solvers.
Pull = Callable[..., list[Ref | None]]
Push = Callable[..., dict[Value, Ref]]


@contextmanager
def apart(builder: Builder) -> Iterator[list[Node]]:
    """Context: what is recorded goes to a list of its own."""
    outer, builder.nodes = builder.nodes, []
    try:
        yield builder.nodes
    finally:
        builder.nodes = outer


@contextmanager
def derived(builder: Builder) -> Iterator[None]:
    """Context: what is recorded is made by the derivative, in its phase."""
    before, builder.derived = builder.derived, True
    try:
        yield
    finally:
        builder.derived = before


@contextmanager
def as_forward(builder: Builder) -> Iterator[None]:
    """Context: the user's lines in an equation keep their form and their names."""
    before, builder.phase = builder.phase, FORWARD
    try:
        yield
    finally:
        builder.phase = before


def inlined(builder: Builder, parts: Parts, own: dict[str, Value]) -> tuple:
    """The nodes of the user's function for given arguments, and its result."""
    known: dict[Value, Value] = dict(zip(parts.inner, parts.captured, strict=True))
    known |= {parts.own[key]: v for key, v in own.items()}
    nodes, (result,) = copied(parts.region.nodes, parts.region.results, known)
    made = []
    for n in nodes:
        n = n.changed()
        n.phase, n.derived = builder.phase, n.derived or builder.phase == BACKWARD
        made.append(n)
    return made, result


def reshaped(x: Ref, shape: tuple) -> Ref:
    return x if x.shape == shape else reshape(x, shape=shape)


def flat(x: Ref) -> Ref:
    return reshaped(ACCEPT[np.asarray](x), (product(x.shape),))


def part(x: Ref, start: Size | None, stop: Size | None) -> Ref:
    return getitem(x, index=(Slice(start, stop),))


def zeros_of(builder: Builder, n: Size) -> Ref:
    return builder.record(zeros, (), {"shape": (n,), "dtype": "float64"})


def column(x: Ref) -> Ref:
    return getitem(x, index=(FULL, None))


def as_own(x: Ref, own: Value) -> Ref:
    """An argument in the type that SciPy hands it to the user's function in."""
    to = own.type
    if to.weak:
        return x if x.type.weak else python_float(x)
    x = ACCEPT[np.asarray](x)
    return x if x.dtype == to.dtype else astype(x, dtype=to.dtype)
