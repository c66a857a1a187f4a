"""Operators between traced arrays and the constant matrices of `scipy.sparse`.

SciPy takes what looks like an array for one.  So a traced array does not look like one
to SciPy's sparse classes, which then leave the operator to it.
"""

from __future__ import annotations

import sys
from typing import Any

from tracegrad.errors import UnsupportedError
from tracegrad.ops.sparse import is_sparse_matrix, product_with_sparse
from tracegrad.trace.boundary import enter
from tracegrad.trace.session import Session


def asked_by_sparse(depth: int) -> bool:
    """Whether the caller's caller is SciPy's dispatch of operators on sparse arrays."""
    name = sys._getframe(depth + 1).f_globals.get("__name__")
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
