"""Guards: what a program takes for granted about the values of a call.

Python asks for values: `if x > 0`, `while err > tol`, `range(int(n))`.  A trace answers
with those of its call and goes the way that they lead, so the program is right for
calls that lead the same way.  A guard stands where Python asked; it has no result, and
raises `UntracedBranch` for a call that leads elsewhere.
"""

from __future__ import annotations

import ast

from tracegrad.errors import UntracedBranch
from tracegrad.ir.graph import Node
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import Op

Outcome = bool | int


def _no_result(t: ArrayType, *, outcome: Outcome, where: str, number: int) -> tuple:
    return ()


def _guard(value, *, outcome, where, number):
    """Go on if the value decides as it did when the program was made."""
    if type(outcome)(value) != outcome:
        raise UntracedBranch(where)
    return ()


# No entry of the table of ops: users do not call it, and it computes nothing.
#
# Attributes: `outcome`, a bool for a test, an int for a number; `where`, the message;
# `number`, the position among the guards of its trace, so that none is merged.
guard = Op(_guard, _no_result)
guard.name = guard.noun = "guard"
guard.guards = True


def holds(node: Node, value: ast.expr) -> ast.expr:
    """The test that a call goes the way of this guard."""
    outcome = node.attrs["outcome"]
    if type(outcome) is bool:
        return value if outcome else ast.UnaryOp(ast.Not(), value)
    return _compared(node, value, ast.Eq())


def fails(node: Node, value: ast.expr) -> ast.expr:
    """The test that a call goes another way."""
    outcome = node.attrs["outcome"]
    if type(outcome) is bool:
        return ast.UnaryOp(ast.Not(), value) if outcome else value
    return _compared(node, value, ast.NotEq())


def _compared(node: Node, value: ast.expr, operator: ast.cmpop) -> ast.expr:
    outcome: int = node.attrs["outcome"]
    if node.inputs[0].type.kind not in "iub":
        value = ast.Call(ast.Name("int", ast.Load()), [value], [])
    number: ast.expr = ast.Constant(abs(outcome))
    if outcome < 0:
        number = ast.UnaryOp(ast.USub(), number)
    return ast.Compare(value, [operator], [number])


def said(node: Node) -> str:
    """For people: where the guard stands, and what was found there."""
    place = node.at[-1] if node.at else None
    where = f"{place.where}: `{place.text}`" if place else "a test"
    return f"{where} was {node.attrs['outcome']}"
