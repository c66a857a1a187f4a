"""Functions of the user's that become regions of a node: bodies of branches and loops.

Each is traced on fresh values into a list of nodes of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, DTypeError, ShapeError, TracegradError
from tracegrad.ir.graph import Const, Node, Value
from tracegrad.ir.location import Location
from tracegrad.ir.region import Open, close
from tracegrad.ir.tree import Branch, Leaf, Static, Tree, build, leaves, map_leaves
from tracegrad.ir.tree import restore as restore_tree
from tracegrad.ir.types import ArrayType, is_scalar_literal
from tracegrad.ops.cast import astype
from tracegrad.ops.define import ACCEPT, Op
from tracegrad.ops.infer import same_shape
from tracegrad.ops.record import Ref
from tracegrad.trace.boundary import lower, name_result
from tracegrad.trace.buffers import Handle
from tracegrad.trace.interpose import original_of
from tracegrad.trace.proxy import make
from tracegrad.trace.session import Session
from tracegrad.trace.sizes import Size


# -------------------------------------------------------------------- what is traced
@dataclass(slots=True)
class Body:
    """A function of the user's, traced.

    Attributes:
        nodes: what it computes.
        result: structure of what it returned; leaves hold `Value`s.
    """

    nodes: list[Node]
    result: Tree

    @property
    def results(self) -> list[Value]:
        """The leaves of the result."""
        return [leaf.value for leaf in leaves(self.result)]

    def convert(self, session: Session, types: Sequence[ArrayType | None]) -> None:
        """Give the results the dtypes of `types`, of which None changes nothing."""
        wanted = iter(types)
        builder = session.builder
        outer, builder.nodes = builder.nodes, self.nodes
        try:
            self.result = map_leaves(
                self.result, lambda v: converted(session, v, next(wanted))
            )
        finally:
            builder.nodes = outer


def converted(session: Session, v: Value, to: ArrayType | None) -> Value:
    if to is None or to.dtype == v.type.dtype:
        return v
    if isinstance(v, Const) and v.type.weak:
        return Const(to.dtype.type(v.value))
    array = ACCEPT[np.asarray](Ref(v, session.builder))
    return astype(array, dtype=to.dtype).value


def _leaf(x: Any, session: Session) -> Leaf | Static:
    """An array or number that goes into a region or comes out of one."""
    x = original_of(x)
    if type(x) is Size:
        x = x.number()
    if isinstance(x, Handle):
        return Leaf(lower(x, []).value)
    if isinstance(x, np.ndarray | np.generic) or is_scalar_literal(x):
        return Leaf(session.constant(x))
    return Static(x)


def tree_of(x: Any, session: Session) -> Tree:
    return build(x, lambda part: _leaf(part, session))


def values_of(tree: Tree) -> list[Value]:
    return [leaf.value for leaf in leaves(tree)]


def user_value(tree: Tree, session: Session) -> Any:
    return restore_tree(tree, lambda value: make(value, session))


def record(
    session: Session,
    op: Op,
    parts: Sequence[Open],
    attrs: dict[str, Any],
    before: Sequence[Value] = (),
    after: Sequence[Value] = (),
    first: Sequence[Value] = (),
) -> Node:
    """Add a node with the regions `parts`."""
    captured, regions = close(parts, first)
    inputs = (*before, *captured, *after)
    types = op.infer(*[v.type for v in inputs], regions=regions, **attrs)
    outputs = tuple([Value(t) for t in (types if type(types) is tuple else (types,))])
    session.locate()
    builder = session.builder
    node = Node(op, inputs, outputs, attrs, builder.at, builder.phase, regions)
    builder.append(node)
    return node


def finish(session: Session, tree: Tree, outputs: Sequence[Value]) -> Any:
    """The user's structure around the outputs of a node."""
    made = iter(outputs)
    out = user_value(map_leaves(tree, lambda _: next(made)), session)
    name_result(out, session)
    return out


def same_structure(a: Tree, b: Tree) -> bool:
    """Whether two structures have the same containers, keys and static parts."""
    if isinstance(a, Branch) and isinstance(b, Branch):
        return (a.type, a.keys) == (b.type, b.keys) and all(
            map(same_structure, a.children, b.children)
        )
    if isinstance(a, Static) and isinstance(b, Static):
        return a.value is b.value or a.value == b.value
    return type(a) is type(b)


def refused(session: Session, error: TracegradError, spelling: str) -> TracegradError:
    return error.locate(spelling, session.place())


def check_equal(
    session: Session,
    wanted: Tree,
    found: Tree,
    spelling: str,
    what: str,
    at: Location | None = None,
) -> None:
    """Refuse results of another structure, shape or dtype.

    Raises:
        ArgumentError: for the structure.
        ShapeError: for a shape.
        DTypeError: for a dtype.
    """
    error: TracegradError | None = None
    if not same_structure(wanted, found):
        error = ArgumentError(
            f"{what} return different structures: {_said(wanted)} and {_said(found)}",
            fix="return the same containers with the same keys",
        )
    else:
        for a, b in zip(values_of(wanted), values_of(found), strict=True):
            if not same_shape(a.type.shape, b.type.shape):
                error = ShapeError(
                    f"{what} return different shapes: {a.type!r} and {b.type!r}",
                    fix="make the shapes equal, with np.broadcast_to or reshape",
                )
            elif a.type.dtype != b.type.dtype and not fits(a.type, b.type):
                error = DTypeError(
                    f"{what} return different dtypes: {a.type!r} and {b.type!r}",
                    fix="convert one with .astype(...)",
                )
    if error is not None:
        raise refused(session, error.locate(None, at), spelling)


def fits(a: ArrayType, b: ArrayType) -> bool:
    """Whether a Python number takes the dtype of the other."""
    order = "biufc"
    if a.weak != b.weak:
        weak, strong = (a, b) if a.weak else (b, a)
        return order.index(weak.kind) <= order.index(strong.kind)
    return False


def _said(tree: Tree) -> str:
    if isinstance(tree, Leaf):
        return "*"
    if isinstance(tree, Static):
        return repr(tree.value)
    return f"{tree.type.__name__}({', '.join(map(_said, tree.children))})"


def strengthen(session: Session, bodies: Sequence[Body]) -> None:
    """A branch that gives a number where another gives an array gives an array too."""
    strong = [
        next((t for t in types if not t.weak), None)
        for types in zip(*[[v.type for v in b.results] for b in bodies], strict=True)
    ]
    for body in bodies:
        body.convert(session, strong)


def name_branches(node: Node, results: Sequence[Sequence[Value]]) -> None:
    """Call the outputs of a `cond` what the user calls them in the branches."""
    for v, *made in zip(node.outputs, *results, strict=True):
        for u in made:
            if v.hint is None and u.user:
                v.hint, v.user = u.hint, True
