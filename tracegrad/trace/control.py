"""Branches on traced values: `tg.cond` and `tg.switch`.

On plain arrays the functions that the user gives just run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ir.graph import Value
from tracegrad.ir.region import Open
from tracegrad.ops.control import chosen
from tracegrad.ops.control import cond as cond_op
from tracegrad.ops.infer import shape_text
from tracegrad.trace.bodies import (
    check_equal,
    finish,
    name_branches,
    record,
    refused,
    strengthen,
    tree_of,
)
from tracegrad.trace.boundary import lower
from tracegrad.trace.buffers import Handle
from tracegrad.trace.forks import trace_body
from tracegrad.trace.session import ACTIVE, Session


def cond(pred: Any, true_fun: Callable, false_fun: Callable, *operands: Any) -> Any:
    """`true_fun(*operands)` if `pred` holds, else `false_fun(*operands)`.

    In a traced function both are traced, and the generated source has an `if`.

    Args:
        pred: a truth: a bool, or a scalar array that is compared with zero.
        true_fun: gives arrays or structures of them.
        false_fun: gives the same structure, shapes and dtypes.
        *operands: arrays or structures of them.

    Raises:
        ShapeError: the shapes of the two results differ.
        DTypeError: their dtypes differ.
        ArgumentError: their structures differ.

    Example:
        >>> cond(True, lambda x: x + 1.0, lambda x: x - 1.0, 2.0)
        3.0
    """
    session = ACTIVE.session
    known = pred
    if session is not None and isinstance(pred, Handle):
        value = lower(pred, []).value
        if value.type.shape:
            error = ShapeError(
                f"the condition is an array of shape {shape_text(value.type.shape)}",
                fix="reduce it with .any() or .all(), or use np.where",
            )
            raise refused(session, error, "tg.cond")
        if not session.is_concrete(value):
            truth = pred if value.type.kind == "b" else pred != 0
            which = lower(truth, []).value
            return _branches(session, which, (true_fun, false_fun), operands, "tg.cond")
        known = session.ask(value)
    return (true_fun if known else false_fun)(*operands)


def switch(index: Any, branches: Sequence[Callable], *operands: Any) -> Any:
    """`branches[index](*operands)`; an index outside is clipped to the nearest.

    Args:
        index: an int, or a scalar array of ints.
        branches: functions that give the same structure, shapes and dtypes.
        *operands: arrays or structures of them.

    Raises:
        ShapeError: the shapes of the results differ.
        DTypeError: their dtypes differ.
        ArgumentError: their structures differ, or there is no branch.

    Example:
        >>> switch(1, [lambda x: x, lambda x: 2.0 * x], 3.0)
        6.0
    """
    if not branches:
        raise ArgumentError("there is no branch to take", op="tg.switch")
    session = ACTIVE.session
    known = index
    if session is not None and isinstance(index, Handle):
        value = lower(index, []).value
        if not session.is_concrete(value) and len(branches) > 1:
            return _branches(session, value, branches, operands, "tg.switch")
        known = 0 if len(branches) == 1 else session.ask(value)
    # An index of type bool counts as an int here.
    return branches[chosen(int(known), len(branches))](*operands)


_BRANCH_NAMES = {2: ("true", "false")}


def _branches(
    session: Session,
    which: Value,
    functions: Sequence[Callable],
    operands: tuple,
    spelling: str,
) -> Any:
    session.locate()
    trees = [tree_of(x, session) for x in operands]
    bodies = [trace_body(session, function, *trees) for function in functions]
    for body in bodies[1:]:
        check_equal(session, bodies[0].result, body.result, spelling, "the branches")
    strengthen(session, bodies)
    names = _BRANCH_NAMES.get(len(bodies)) or [f"case_{i}" for i in range(len(bodies))]
    parts = [
        Open(name, [], [], body.nodes, body.results)
        for name, body in zip(names, bodies, strict=True)
    ]
    if not parts[0].results:
        return functions[0](*operands)
    node = record(session, cond_op, parts, {}, before=[which])
    name_branches(node, [body.results for body in bodies])
    return finish(session, bodies[0].result, node.outputs)
