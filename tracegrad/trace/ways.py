"""The state of the user's function, and what one way through a span makes of it.

Names that a span binds are cells, so that the state can be looked at and put back.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import numpy as np

from tracegrad.ir.graph import Const, Node, Value
from tracegrad.ir.tree import Tree
from tracegrad.ir.types import ArrayType
from tracegrad.trace.allowed import Refused
from tracegrad.trace.bodies import converted, fits, tree_of
from tracegrad.trace.boundary import lower
from tracegrad.trace.buffers import DEPTH, Arm, Buffer, Handle
from tracegrad.trace.session import Session


class Unbound:
    """Stands for a name that is not bound."""


UNBOUND = Unbound()
_NUMBERS = (int, float, complex)


# --------------------------------------------------------------------- cells of names
def cells_of(functions: Sequence[Callable], names: Iterable[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for function in functions:
        assert type(function) is FunctionType
        cells = function.__closure__ or ()
        found.update(zip(function.__code__.co_freevars, cells, strict=True))
    return {name: found[name] for name in names}


def content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return UNBOUND


def put(cell: Any, x: Any) -> None:
    if x is not UNBOUND:
        cell.cell_contents = x
    elif content(cell) is not UNBOUND:
        del cell.cell_contents


# --------------------------------------------------------------------- one way through
@dataclass(slots=True)
class Way:
    """What one arm made of the state.

    Attributes:
        nodes: recorded in it.
        objects: what the names are bound to at its end.
        values: the values of those that are arrays or numbers.
        buffers: arrays from outside that it wrote -> what they hold.
        returned: structure of what it returned.
        result: the same as the user's object.
    """

    nodes: list[Node]
    objects: dict[str, Any] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    buffers: dict[Buffer, Value] = field(default_factory=dict)
    returned: Tree | None = None
    result: Any = None

    def convert(self, session: Session, v: Value, to: ArrayType) -> Value:
        """A value in another dtype, made in this arm."""
        builder = session.builder
        outer, builder.nodes = builder.nodes, self.nodes
        try:
            return converted(session, v, to)
        finally:
            builder.nodes = outer

    def fresh(self, x: Handle, outside: int) -> bool:
        """Whether an array was made in the arm, and only one name is bound to it."""
        if x.parent is not None or x.buffer.depth <= outside:
            return False
        objects = [*self.objects.values(), self.result]
        return sum(holds(part, x.buffer) for part in objects) == 1


def holds(x: Any, buffer: Buffer) -> int:
    if isinstance(x, Handle):
        return x.buffer is buffer
    if isinstance(x, tuple | list):
        return sum([holds(part, buffer) for part in x])
    if isinstance(x, dict):
        return sum([holds(part, buffer) for part in x.values()])
    return 0


class Speculation:
    """Context: what runs in it is recorded apart, and all of its effects are undone.

    Attributes:
        way: what it made of the state, once `finish` was called.
    """

    def __init__(self, session: Session, cells: dict[str, Any]) -> None:
        self.session = session
        self.cells = cells

    def __enter__(self) -> Speculation:
        builder = self.session.builder
        self.outer, builder.nodes = builder.nodes, []
        self.way = Way(builder.nodes)
        self.before = {name: content(cell) for name, cell in self.cells.items()}
        DEPTH.bodies += 1
        self.arm = DEPTH.arms[DEPTH.bodies] = Arm()
        return self

    def finish(self, result: Any, returning: bool) -> None:
        """Note the state at the end."""
        way, session = self.way, self.session
        if returning:
            way.result, way.returned = result, tree_of(result, session)
        for name, cell in self.cells.items():
            x = way.objects[name] = content(cell)
            if isinstance(x, Handle):
                way.values[name] = lower(x, []).value
            elif type(x) in (*_NUMBERS, bool) or isinstance(x, np.generic):
                way.values[name] = session.constant(x)
        way.buffers = {b: b.value for b in self.arm.written}

    def __exit__(self, *exception: object) -> None:
        for buffer, value in self.arm.written.items():
            buffer.value = value
            buffer.version += 1  # what was read in the arm is no more
        for handle in self.arm.refreshed:
            handle.version = -1
        for name, cell in self.cells.items():
            put(cell, self.before[name])
        del DEPTH.arms[DEPTH.bodies]
        DEPTH.bodies -= 1
        self.session.builder.nodes = self.outer


def agreed(session: Session, ways: Sequence[Way], pair: Sequence[Value]) -> list[Value]:
    """Two values in one type.

    Raises:
        Refused: if that would change what is computed with them.
    """
    a, b = [v.type for v in pair]
    if a.shape != b.shape:
        raise Refused(f"its arms give the shapes {a.shape} and {b.shape}")
    if (a.dtype, a.weak) == (b.dtype, b.weak):
        if a.weak and a.kind in "iub" and all(type(v) is Const for v in pair):
            raise Refused("its arms give different Python integers")
        return list(pair)
    strong = [t for t in (a, b) if not t.weak]
    if len(strong) == 1 and fits(a, b) and strong[0].dtype.char in "dD":
        to = strong[0]
    elif not strong and {a.kind, b.kind} <= set("if"):
        to = a if a.kind == "f" else b
    else:
        raise Refused(f"its arms give the types {a!r} and {b!r}")
    return [
        v
        if v.type.dtype == to.dtype and v.type.weak == to.weak
        else Const(float(v.value))
        if to.weak and type(v) is Const
        else way.convert(session, v, to)
        for way, v in zip(ways, pair, strict=True)
    ]


def handles(x: Any) -> list[Handle]:
    if isinstance(x, Handle):
        return [x]
    parts = x.values() if isinstance(x, dict) else x
    if isinstance(x, tuple | list | dict):
        return [h for part in parts for h in handles(part)]
    return []


def is_lone(way: Way) -> bool:
    """Whether nothing but a result holds the lists and dicts that are in it."""
    held = isinstance(way.result, list | dict) and sys.getrefcount(way.result) > _HELD
    return not held and _holds_lone(way.result)


def _holds_lone(x: Any) -> bool:
    if not isinstance(x, tuple | list | dict):
        return True
    # No name is bound to a part, which would count.
    for key in x if isinstance(x, dict) else range(len(x)):
        if isinstance(x[key], list | dict) and sys.getrefcount(x[key]) > _HELD:
            return False
        if not _holds_lone(x[key]):
            return False
    return True


_HELD = 2  # by what it is in, and by the function that counts
