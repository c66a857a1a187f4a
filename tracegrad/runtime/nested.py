"""Derivatives called inside of a trace: recorded there, in place of a call.

The arguments get fresh values, so what the function closes over is constant to the
inner derivative, whatever the outer one differentiates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracegrad.autodiff.activity import active_values
from tracegrad.autodiff.reverse import pull_back
from tracegrad.errors import ArgumentError, DTypeError, ShapeError, TracegradError
from tracegrad.ir.graph import Node, Value
from tracegrad.ir.tree import Branch, Leaf, Static, Tree, build, outline
from tracegrad.ir.tree import restore as restore_tree
from tracegrad.ops.call import call, rules_used
from tracegrad.ops.infer import same_shape, shape_text
from tracegrad.ops.record import Builder, Ref
from tracegrad.passes.reroll import reroll
from tracegrad.runtime.binding import (
    OF_ALL,
    Binder,
    chosen_otherwise,
    resolve,
    walk,
)
from tracegrad.runtime.derive import (
    arranged,
    as_targets,
    as_values,
    gradients,
    moved_values,
    split_aux,
    tuple_of,
    values_of,
)
from tracegrad.runtime.options import Options
from tracegrad.runtime.pullback import one_cotangent
from tracegrad.trace.boundary import lower
from tracegrad.trace.proxy import make
from tracegrad.trace.session import ACTIVE
from tracegrad.trace.tracer import inline, is_traced


def inline_derivative(
    function: Callable, binder: Binder, options: Options, args: tuple, kwargs: dict
) -> Any:
    """What the transformed function returns, of traced values.

    Args:
        function: the user's.
        binder: of its signature.
        options: the transformation.
        args, kwargs: of the call.
    """
    kept: list[Targets] = []

    def record(part: Targets) -> Tree:
        if options.mode == "vjp":
            kept.append(part)
            return part.result
        grads = gradients(
            part.builder, part.nodes, part.value, part.targets, options, binder.at
        )
        return arranged(options.mode, part.value, part.aux, grads, part.one)

    out = inline_targets(function, binder, options, args, kwargs, record)
    if options.mode != "vjp":
        return out
    op = "pullback" if options.op == "tg.vjp" else options.op
    return out, _pullback(kept[0], op, binder)


@dataclass(slots=True)
class Targets:
    """A function that was recorded, and what is differentiated of it.

    Attributes:
        builder: where it was recorded.
        nodes: its nodes.
        targets: the trees of the arguments that are differentiated.
        one: whether that is one argument, not a tuple of them.
        result: all that the function returned.
        value: the part of it that is differentiated.
        aux: the other part, if there is one.
    """

    builder: Builder
    nodes: list[Node]
    targets: list[Tree]
    one: bool
    result: Tree
    value: Tree
    aux: Tree | None

    def inputs(self) -> list[Value]:
        """The arrays that are differentiated."""
        return values_of(self.targets)


def inline_targets(
    function: Callable,
    binder: Binder,
    options: Options,
    args: tuple,
    kwargs: dict,
    record: Callable[[Targets], Tree],
) -> Any:
    """Record the user's function, then what `record` makes of it, and return that."""
    slots = binder.slots(args, kwargs)
    wrt, one = resolve(slots, options.argnums, options.argnames, binder)
    positional = [i for i, slot in enumerate(slots) if slot.keyword is None]
    named = {slot.keyword: i for i, slot in enumerate(slots) if slot.keyword}

    whole = folds()

    def transform(builder: Any, nodes: list[Node], params: tuple, result: Tree) -> Tree:
        if whole and options.reroll:
            nodes = builder.nodes = reroll(nodes, values_of([as_values(result)]))
            nodes = list(nodes)
        trees = dict(zip(positional, params[0], strict=True))
        trees |= {named[key]: tree for key, tree in params[1].items()}
        targets = [trees[i] for i in wrt]
        passed = options.op in OF_ALL and bool(moved_values(targets))
        for i, tree in zip(wrt, targets, strict=True):
            _check(tree, slots[i].name, options.op, binder, passed)
        result = as_values(result)
        value, aux = split_aux(result, options.has_aux, options.op, binder.at)
        made = record(Targets(builder, nodes, targets, one, result, value, aux))
        use_rules(builder, nodes, values_of(targets))
        return made

    return inline(
        function,
        tuple([slots[i].argument for i in positional]),
        {key: slots[i].argument for key, i in named.items()},
        transform,
    )


def folds() -> bool:
    """Whether loops may be found again in what is recorded now.

    A function of the user's around it could keep a value of a turn.
    """
    session: Any = ACTIVE.session
    return session.joins.folds and not session.locator.find()


def use_rules(builder: Builder, nodes: list[Node], wrt: list[Value]) -> None:
    """Mark the user's rules as used by this derivative."""
    if any(node.op is call for node in nodes):
        active = active_values(nodes, wrt)
        builder.nodes = rules_used(builder.nodes, active)


def _check(tree: Tree, name: str, op: str, binder: Binder, passed: bool) -> None:
    for where, part in walk(tree, name):
        if passed and is_whole_number(part):
            continue
        if isinstance(part, Leaf) and not part.value.type.differentiable:
            raise DTypeError(
                f"`{where}` is differentiated but has the type {part.value.type!r}",
                op=op,
                at=binder.at,
                fix=f"pass a float array: {where}.astype(float)",
            )
        if isinstance(part, Static) and part.value is not None:
            raise DTypeError(
                f"`{where}` is differentiated but is of type "
                f"{type(part.value).__name__}: {part.value!r:.40}",
                op=op,
                at=binder.at,
                fix=chosen_otherwise(name, op),
            )


def is_whole_number(part: Leaf | Static) -> bool:
    """Whether an argument is of integers or flags, which have no derivative."""
    if isinstance(part, Static):
        return type(part.value) in (bool, int)
    return part.value.type.kind in "biu"


def _pullback(part: Targets, op: str, binder: Binder) -> Callable:
    """The pullback of an inlined function; it records in the same trace."""
    builder: Any = part.builder
    outputs = values_of([part.value])
    session: Any = ACTIVE.session

    def pullback(*given: Any) -> tuple:
        session.locate()
        try:
            cts = _cotangents(builder, part.value, one_cotangent(given))
        except TracegradError as error:
            raise error.locate(op, session.place() or binder.at) from None
        wrt = moved_values(part.targets)
        found = pull_back(builder, part.nodes, outputs, cts, wrt)
        made = tuple_of(as_targets(builder, found, wrt, part.targets))
        return restore_tree(made, lambda v: make(v, session))

    return pullback


def _cotangents(builder: Any, value: Tree, ct: Any) -> list[Ref]:
    """The cotangents, one for each leaf of the result.

    Raises:
        ArgumentError: they have another structure than the result.
        ShapeError: one has another shape.
        DTypeError: one is complex where the result is real.
    """
    level = build(ct, Leaf)
    if _structure(level) != _structure(value):
        raise ArgumentError(
            f"the cotangent is {outline(level)}, the result {outline(value)}",
            fix="pass a cotangent in the structure of the result",
        )
    found = []
    cts = [part.value for _, part in walk(level, "ct")]
    for x, (where, out) in zip(cts, walk(value, "ct"), strict=True):
        if isinstance(out, Static):  # None, a text: whatever stands there
            continue
        if x is None or isinstance(x, str):
            raise ArgumentError(
                f"the cotangent `{where}` must be an array of shape "
                f"{shape_text(out.value.type.shape)}, not {x!r:.40}",
                fix="pass an array of the result's shape, such as np.zeros(shape)",
            )
        to = out.value.type
        ref = lower(x, []) if is_traced(x) else builder.wrap(builder.lift(x))
        if not same_shape(ref.shape, to.shape):
            raise ShapeError(
                f"the cotangent `{where}` has the shape {shape_text(ref.shape)}, the "
                f"result {shape_text(to.shape)}",
                fix="pass a cotangent of the result's shape",
            )
        if to.differentiable and not np.can_cast(ref.dtype, to.dtype, "same_kind"):
            raise DTypeError(
                f"the cotangent `{where}` has the dtype {ref.dtype}, the result "
                f"{to.dtype}",
                fix="pass a real cotangent for a real result",
            )
        found.append(ref)
    return found


def _structure(tree: Tree) -> Any:
    if isinstance(tree, Branch):
        return tree.type, tree.keys, tuple(map(_structure, tree.children))
    return None
