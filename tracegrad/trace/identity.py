"""`x is True`: comparisons by identity, which Python makes without asking the operands.

A traced truth is no `bool`, so `(x > 0) is True` and `case True:` would be false of it
whatever it is.  Functions with such a comparison are compiled anew (see `staging.py`),
with a question in its place that is answered here as Python would: by whether Python
or NumPy made the truth.
"""

from __future__ import annotations

from types import CodeType
from typing import Any

import numpy as np

from tracegrad.errors import ControlFlowError
from tracegrad.ir.graph import Const, Value
from tracegrad.ops.cast import python_int
from tracegrad.ops.define import OPERATORS
from tracegrad.ops.record import type_of
from tracegrad.trace.boundary import enter
from tracegrad.trace.buffers import Handle, Unjoin, current
from tracegrad.trace.session import ACTIVE, Session

_COMPARING = [OPERATORS[f"__{name}__"] for name in ("lt", "le", "gt", "ge", "eq", "ne")]
_COMBINING = [OPERATORS[f"__{name}__"] for name in ("and", "or", "xor")]
_FIX = "write `if x > 0:` or `bool(x > 0) is True`"


def unseen(code: CodeType, session: Session) -> ControlFlowError:
    """The error for code that compares with `True` and cannot be compiled anew."""
    return ControlFlowError(
        f"`is True`, `is False` or `case True` in {code.co_name}() may be asked of a "
        "traced truth, which is no bool, and Python does not ask it",
        op="is",
        at=session.place(),
        fix=_FIX,
    )


# ------------------------------------------------------------------------ what is true
def python_truth(session: Session, value: Value) -> bool | None:
    """Whether a truth is a `bool` of Python's, not of NumPy's; None if unknown."""
    if isinstance(value, Const):
        return type(value.value) is bool
    if value in session.demand.truths:
        return session.demand.truths[value]
    node = session.builder.producers.get(value)
    if node is None:
        return False  # an argument; Python's truths are no traced ones
    if node.op in _COMPARING:
        return all(_is_python(session, v) for v in node.inputs)
    if node.op in _COMBINING:
        return all(_is_python(session, v) for v in node.inputs)
    return None


def _is_python(session: Session, v: Value) -> bool:
    return v.type.weak or (v.type.kind == "b" and bool(python_truth(session, v)))


def is_python_truth(x: Any) -> bool:
    """Whether a traced array is what Python calls a `bool`."""
    session: Session = x.builder.session
    if x.buffer.loose is not None:
        raise Unjoin(x.buffer.loose)
    return bool(python_truth(session, current(x)))


def may_count(x: Any) -> bool:
    """Whether `x` may be a truth that Python's arithmetic takes for 0 or 1."""
    if isinstance(x, Handle):
        t = x.value.type
        return t.kind == "b" and not t.shape
    return type(x) is bool


def counted(*operands: Any) -> tuple:
    """Operands of Python's arithmetic, with an int in the place of each truth.

    If one of them is NumPy's, NumPy does the arithmetic: all stay as they are.
    """
    truths = [may_count(x) and _made_by_python(x) for x in operands]
    for x, is_truth in zip(operands, truths, strict=True):
        if not is_truth and not type_of(x).weak:
            return operands
    return tuple(
        [
            (_count(x) if isinstance(x, Handle) else int(x)) if is_truth else x
            for x, is_truth in zip(operands, truths, strict=True)
        ]
    )


def _made_by_python(x: Any) -> bool:
    return is_python_truth(x) if isinstance(x, Handle) else True


def _count(x: Any) -> Any:
    return enter(x.builder.session, python_int, (x,), name="int()")


def identical(x: Any, y: Any) -> Any:
    """`x is y`; of two truths one of which is traced, a traced truth.

    Raises:
        ControlFlowError: if it is not known whether Python or NumPy made them.
    """
    handles = [v for v in (x, y) if isinstance(v, Handle)]
    if len(handles) == 2:
        where = x.buffer.entangled or y.buffer.entangled
        if where is not None:
            raise Unjoin(where)
    session = ACTIVE.session
    if x is y or not handles or session is None or not (_truth(x) and _truth(y)):
        return x is y
    for v in handles:
        if v.buffer.loose is not None:
            raise Unjoin(v.buffer.loose)
    values = [current(v) for v in handles]
    made = [python_truth(session, v) for v in values]
    if None in made:
        raise ControlFlowError(
            "whether a traced truth is the object `True` depends on whether Python or "
            "NumPy made it, which is not known of this one",
            op="is",
            at=session.place(),
            fix=_FIX,
        )
    if len(handles) == 1:
        if not made[0]:
            return False
        if (y if handles[0] is x else x) is True:
            return handles[0]
        return negated(handles[0])
    if made[0] is not made[1] or any(
        v not in session.builder.producers for v in values
    ):
        return False
    return x == y


def _truth(x: Any) -> bool:
    if isinstance(x, Handle):
        return x.value.type.kind == "b" and not x.value.type.shape
    return type(x) is bool


def negated(x: Handle) -> Any:
    """`not x` of a traced truth, which is a `bool`."""
    return by_python(np.logical_not(x))


def by_python(x: Handle, is_so: bool = True) -> Handle:
    """A truth that Python makes in the user's code, or NumPy."""
    session: Session = x.builder.session  # type: ignore[attr-defined]
    session.demand.truths[x.value] = is_so
    return x


class Pattern:
    """`True` or `False` of a `case`: equal to what is identical to it.

    Args:
        truth: of the pattern.
    """

    __slots__ = ("truth",)
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, truth: bool) -> None:
        self.truth = truth

    def __eq__(self, x: object) -> bool:
        return bool(identical(x, self.truth))
