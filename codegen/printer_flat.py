"""The text of a statement on one line, for the kinds that most statements consist of.

Nearly every statement fits on its line, and then its text needs no document
(`printer_layout`): it is put together directly, at a fourth of the cost.  What is not
known here, and what does not fit, goes the general way, which gives the same text;
`tests/codegen/test_printer_fuzz.py` compares the two.
"""

import ast
import math
from collections.abc import Callable
from typing import Any

import astunparse

from tracegrad.codegen.printer_literals import is_name, parseable, quoted
from tracegrad.codegen.printer_rules import (
    ATOM,
    AWAIT,
    BINARY,
    BIT_OR,
    FACTOR,
    NAMED,
    POWER,
    TEST,
    base_level,
    is_simple_bound,
    is_tight,
    operands,
    precedence,
)

_BINARY = {
    kind: (astunparse.Unparser.binop[kind.__name__], level)
    for kind, level in BINARY.items()
}
_COMPARE = astunparse.Unparser.cmpops
_UNARY = astunparse.Unparser.unop


class _OtherKindError(Exception):
    """The tree holds something that only the general way can print."""


def statement_text(stmt: ast.stmt) -> str | None:
    """Returns an assignment or a `return` on one line, or None for other kinds."""
    kind = type(stmt)
    node: Any = stmt
    try:
        if kind is ast.Assign:
            target = node.targets[-1]
            if len(node.targets) > 1:
                return None
            if type(target) is ast.Tuple:
                return f"{_bare(target)} = {_value(node.value)}"
            return f"{_text(target, TEST)} = {_text(node.value, TEST)}"
        if kind is ast.AugAssign:
            symbol = _BINARY[type(node.op)][0]
            return f"{_text(node.target, TEST)} {symbol}= {_text(node.value, TEST)}"
        if kind is ast.Return and node.value is not None:
            return f"return {_value(node.value)}"
    except _OtherKindError:
        pass
    return None


def expression_text(node: ast.expr) -> str | None:
    """Returns an expression on one line, or None for other kinds."""
    try:
        return _text(node, TEST)
    except _OtherKindError:
        return None


def _value(node: ast.expr) -> str:
    return _bare(node) if type(node) is ast.Tuple else _text(node, TEST)


def _bare(node: ast.Tuple) -> str:
    """A tuple without its parentheses."""
    if len(node.elts) < 2:
        raise _OtherKindError
    return ", ".join([_text(element, TEST) for element in node.elts])


def _text(node: ast.expr, level: int) -> str:
    """The text of a subexpression, in parentheses if it binds looser than `level`."""
    kind: type[ast.expr] = type(node)
    if kind is ast.Name:
        return _identifier(node.id)  # type: ignore[attr-defined]
    if kind is ast.Constant:
        node = parseable(node)
        kind = type(node)
    write = _WRITERS.get(kind)
    if write is None:
        raise _OtherKindError
    text = write(node)
    return f"({text})" if precedence(node) < level else text


def _identifier(text: object) -> str:
    if not is_name(text, False):
        raise _OtherKindError
    return text  # type: ignore[return-value]


def _constant(node: ast.Constant) -> str:
    value: Any = node.value
    kind = type(value)
    if kind is float:
        return repr(value).replace("e+", "e") if math.isfinite(value) else _refuse()
    if kind is int:
        return repr(value) if value < 10**400 else _refuse()
    if kind is bool or value is None:
        return repr(value)
    if kind is str and node.kind is None and '"' not in value:
        return f'"{quoted(value, chr(34))}"'
    return _refuse()


def _refuse() -> str:
    raise _OtherKindError


def _binary(node: ast.BinOp) -> str:
    symbol, level = _BINARY[type(node.op)]
    left, right = node.left, node.right
    if level == POWER:
        # Of `x**y**z` each operator is judged by what stands right beside it.
        beside = operands(node)
        if isinstance(right, ast.BinOp) and isinstance(right.op, ast.Pow):
            beside[1] = operands(right)[0]
        if is_tight(beside):
            return f"{_text(left, AWAIT)}**{_text(right, FACTOR)}"
        return f"{_text(left, AWAIT)} ** {_text(right, FACTOR)}"
    return f"{_text(left, level)} {symbol} {_text(right, level + 1)}"


def _compare(node: ast.Compare) -> str:
    text = _text(node.left, BIT_OR)
    for op, operand in zip(node.ops, node.comparators):
        text += f" {_COMPARE[type(op).__name__]} {_text(operand, BIT_OR)}"
    return text


def _unary(node: ast.UnaryOp) -> str:
    if type(node.op) is ast.Not:
        raise _OtherKindError
    return _UNARY[type(node.op).__name__] + _text(*operands(node)[0])


def _attribute(node: ast.Attribute) -> str:
    value = _text(node.value, base_level(node, node.value))
    return f"{value}.{_identifier(node.attr)}"


def _call(node: ast.Call) -> str:
    arguments = [_text(argument, NAMED) for argument in node.args]
    for keyword in node.keywords:
        arguments.append(f"{_identifier(keyword.arg)}={_text(keyword.value, TEST)}")
    return f"{_text(node.func, ATOM)}({', '.join(arguments)})"


def _subscript(node: ast.Subscript) -> str:
    index = node.slice
    inside = _bare(index) if type(index) is ast.Tuple else _text(index, TEST)
    return f"{_text(node.value, ATOM)}[{inside}]"


def _slice(node: ast.Slice) -> str:
    ends = [end for end in (node.lower, node.upper, node.step) if end is not None]
    space = "" if all(map(is_simple_bound, ends)) else " "
    text = ":" if node.lower is None else f"{_text(node.lower, TEST)}{space}:"
    if node.upper is not None:
        text += space + _text(node.upper, TEST)
    if node.step is not None:
        text += f"{space if node.upper is not None else ''}:{space}"
        text += _text(node.step, TEST)
    return text


def _list(node: ast.List) -> str:
    return f"[{', '.join([_text(element, NAMED) for element in node.elts])}]"


_WRITERS: dict[type, Callable[[Any], str]] = {
    ast.Constant: _constant,
    ast.BinOp: _binary,
    ast.Compare: _compare,
    ast.UnaryOp: _unary,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.Tuple: _bare,
    ast.List: _list,
}
