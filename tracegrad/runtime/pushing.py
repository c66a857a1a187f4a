"""Forward mode inside of a trace: tangents are recorded beside what they belong to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.autodiff.forward import push_forward
from tracegrad.errors import ArgumentError, DTypeError, ShapeError
from tracegrad.ir.graph import Node, Value
from tracegrad.ir.tree import Branch, Leaf, Static, Tree, build, outline
from tracegrad.ir.tree import restore as restore_tree
from tracegrad.ops.cast import astype
from tracegrad.ops.infer import same_shape, shape_text
from tracegrad.ops.record import Builder, Ref
from tracegrad.passes.reroll import reroll
from tracegrad.runtime.binding import Binder, step_text
from tracegrad.runtime.derive import (
    as_values,
    name_of_result,
    split_aux,
    tangent_tree,
    tuple_of,
)
from tracegrad.runtime.derive import values_of as all_values
from tracegrad.runtime.nested import folds, use_rules
from tracegrad.trace.boundary import lower
from tracegrad.trace.proxy import make
from tracegrad.trace.session import ACTIVE
from tracegrad.trace.tracer import inline, is_traced


def inline_jvp(
    binder: Binder,
    primals: tuple,
    tangents: tuple,
    has_aux: bool = False,
    op: str = "tg.jvp",
) -> Any:
    """`(out, out_tangent)` of the user's function, recorded in the running trace.

    Args:
        binder: of the user's function.
        primals: its positional arguments.
        tangents: one for each, in its structure; `None` for zero.
        has_aux: whether the function returns `(out, aux)`.
        op: public name, for errors.
    """
    given = [build(t, _leaf) for t in tangents]
    whole = folds()
    names = [slot.name for slot in binder.slots(primals, {}) if slot.given]

    def transform(
        builder: Builder, nodes: list[Node], params: tuple, result: Tree
    ) -> Tree:
        if whole:
            nodes = reroll(nodes, all_values([as_values(result)]))
            builder.nodes = list(nodes)
        pairs: list[tuple[Value, Ref]] = []
        for name, tree, t in zip(names, params[0], given, strict=True):
            pairs += paired(builder, tree, t, name, op, binder)
        value, aux = split_aux(as_values(result), has_aux, op, binder.at)
        if isinstance(value, Leaf) and value.value.wrt is None:
            value.value.hint = value.value.hint or name_of_result(nodes)
        setup = builder.nodes[len(nodes) :]  # conversions of the tangents
        builder.nodes = setup
        wrt, refs = [v for v, _ in pairs], [t for _, t in pairs]
        found = push_forward(builder, nodes, wrt, refs)
        use_rules(builder, nodes, wrt)
        parts = [value, tangent_tree(builder, value, found)]
        return tuple_of(parts if aux is None else [*parts, aux])

    return inline(binder.function, primals, {}, transform)


def inline_linearize(
    binder: Binder, primals: tuple, has_aux: bool = False
) -> tuple[Any, Callable[..., Any]]:
    """`(out, pushforward)` of the user's function; both record in the running trace."""
    kept: list[tuple] = []

    def transform(
        builder: Builder, nodes: list[Node], params: tuple, result: Tree
    ) -> Tree:
        whole = as_values(result)
        value, _ = split_aux(whole, has_aux, "tg.linearize", binder.at)
        kept.append((builder, nodes, params[0], value))
        use_rules(builder, nodes, all_values(params[0]))
        return whole

    out = inline(binder.function, primals, {}, transform)
    builder, nodes, trees, value = kept[0]
    names = [slot.name for slot in binder.slots(primals, {}) if slot.given]
    session: Any = ACTIVE.session

    def pushforward(*tangents: Any) -> Any:
        session.locate()
        if len(tangents) != len(trees):
            raise ArgumentError(
                f"{len(trees)} primals and {len(tangents)} tangents",
                op="tg.linearize",
                at=binder.at,
                fix="give one tangent for each primal",
            )
        pairs: list[tuple[Value, Ref]] = []
        for name, tree, t in zip(names, trees, tangents, strict=True):
            made = build(t, _leaf)
            pairs += paired(builder, tree, made, name, "tg.linearize", binder)
        before = len(builder.nodes)
        wrt, refs = [v for v, _ in pairs], [t for _, t in pairs]
        found = push_forward(builder, nodes, wrt, refs, apart=True)
        tree = tangent_tree(builder, value, found)
        for node in builder.nodes[before:]:
            node.phase = "forward"
        return restore_tree(tree, lambda v: make(v, session))

    return out, pushforward


def _leaf(x: Any) -> Leaf | Static:
    """A tangent as it was given: a traced value, an array or a number."""
    if is_traced(x) or isinstance(x, np.ndarray | np.generic):
        return Leaf(x)
    return Leaf(x) if type(x) in (int, float, complex) else Static(x)


def paired(
    builder: Builder, primal: Tree, tangent: Tree, where: str, op: str, binder: Binder
) -> list[tuple[Value, Ref]]:
    """Each differentiable leaf of an argument with its tangent.

    Raises:
        ArgumentError: the tangent has another structure.
        ShapeError: a leaf has another shape.
        DTypeError: a leaf has a dtype that does not convert.
    """
    if isinstance(tangent, Static) and tangent.value is None:
        return []
    if isinstance(primal, Static):
        if isinstance(tangent, Static) or type(primal.value) in (int, bool):
            return []
    elif isinstance(primal, Leaf) and isinstance(tangent, Leaf):
        v = primal.value
        if not v.type.differentiable:
            return []
        return [(v, conformed(builder, tangent.value, v, where, op, binder))]
    elif isinstance(primal, Branch) and isinstance(tangent, Branch):
        if (primal.type, primal.keys) == (tangent.type, tangent.keys):
            parts = zip(primal.keys, primal.children, tangent.children, strict=True)
            return [
                pair
                for key, p, t in parts
                for pair in paired(
                    builder, p, t, where + step_text(primal.kind, key), op, binder
                )
            ]
    raise ArgumentError(
        f"the tangent of `{where}` is {outline(tangent)}, `{where}` itself "
        f"{outline(primal)}",
        op=op,
        at=binder.at,
        fix="give a tangent in the structure of its primal, or None for zero",
    )


def _name(t: Value, v: Value) -> None:
    """A tangent that is an argument, such as `t_params["w"]`, is called `t_w`."""
    session: Any = ACTIVE.session
    if t in session.params and t.prefix != "t":
        t.prefix, t.wrt = "t", v
        if t.hint and not t.hint.startswith("t_"):
            t.hint = f"t_{t.hint}"


def conformed(
    builder: Builder, x: Any, v: Value, where: str, op: str, binder: Binder
) -> Ref:
    """A tangent with the dtype of its primal."""
    if is_traced(x):
        ref = lower(x, [])
        _name(ref.value, v)
    else:
        ref = builder.wrap(builder.lift(float(x) if type(x) is int else x))
    to = v.type
    if not same_shape(ref.shape, to.shape):
        raise ShapeError(
            f"the tangent of `{where}` has the shape {shape_text(ref.shape)}, "
            f"`{where}` itself {shape_text(to.shape)}",
            op=op,
            at=binder.at,
            fix="give a tangent of its primal's shape",
        )
    if not np.can_cast(ref.dtype, to.dtype, "same_kind"):
        raise DTypeError(
            f"the tangent of `{where}` has the dtype {ref.dtype}, `{where}` itself "
            f"{to.dtype}",
            op=op,
            at=binder.at,
            fix="give a real tangent for a real primal",
        )
    if ref.type.weak and to.weak and ref.dtype != to.dtype:
        return ref * 1.0
    if ref.dtype == to.dtype or (ref.type.weak and ref.dtype.kind == to.dtype.kind):
        return ref
    before, builder.derived = builder.derived, True
    made = astype(ref, dtype=to.dtype)
    builder.derived = before
    return made
