"""Operators between traced arrays and the constant matrices of `scipy.sparse`.

SciPy takes what looks like an array for one.  So a traced array does not look like one
to SciPy's sparse classes, which then leave the operator to it.
"""

from __future__ import annotations

import sys
from abc import ABCMeta
from types import FrameType
from typing import Any

import numpy as np

from tracegrad.errors import UnsupportedError
from tracegrad.ops.sparse import is_sparse_matrix, product_with_sparse
from tracegrad.trace.boundary import enter
from tracegrad.trace.session import Session


def asked_by_sparse(depth: int) -> bool:
    """Whether the caller's caller is SciPy's dispatch of operators on sparse arrays."""
    frame: FrameType | None = sys._getframe(depth + 1)
    while frame is not None and frame.f_code in _SCALAR_TESTS:
        frame = frame.f_back
    return frame is not None and _of_sparse(frame)


def taken_for_array(depth: int) -> bool:
    """Whether SciPy's `A.dot(x)` asks, which takes nothing but arrays to `A @ x`."""
    frame: FrameType | None = sys._getframe(depth + 1)
    while frame is not None and frame.f_code.co_name in _TESTS and _of_sparse(frame):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_name == "dot" and _of_sparse(frame)


def refuse_methods(session: Session, depth: int) -> None:
    """Refuse what SciPy would make of a traced array in `A.multiply(x)` and the like.

    Raises:
        UnsupportedError: unless an operator is at work.
    """
    frame: FrameType | None = sys._getframe(depth + 1)
    name = ""
    while frame is not None and _of_sparse(frame):
        name = frame.f_code.co_name
        frame = frame.f_back
    if name.startswith("__") or name in _OPERATORS:
        return
    session.locate()
    raise UnsupportedError(
        f"{name} of a sparse matrix and a traced value is not supported",
        op=name,
        at=session.place(),
        fix="use A @ x, or the dense A.toarray()",
    )


_TESTS = {"isdense", "isscalarlike"}
_SCALAR_TESTS = (np.isscalar.__code__, ABCMeta.__instancecheck__.__code__)
# Functions of SciPy that stand behind operators where users call them too.
_OPERATORS = {"dot", "_matmul_dispatch", "_rmatmul_dispatch"}


def _of_sparse(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__")
    return type(name) is str and name.startswith("scipy.sparse.")


def with_sparse(session: Session, symbol: str, a: Any, b: Any, other: Any) -> Any:
    """The product with a constant matrix of `scipy.sparse`.

    Raises:
        UnsupportedError: for another operator.
    """
    if symbol == "@" or (symbol == "*" and is_sparse_matrix(other)):
        return enter(session, product_with_sparse, (a, b), name="@")
    session.locate()
    raise UnsupportedError(
        f"{symbol} of a sparse {type(other).__name__} and a traced value is "
        "not supported",
        op=symbol,
        at=session.place(),
        fix="use A @ x, or the dense A.toarray()",
    )
