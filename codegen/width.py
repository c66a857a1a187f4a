"""Bounds on how wide a tree prints, without printing it.

Printing each statement to see whether it fits would take most of the time of code
generation.  Nearly always the bounds decide.
"""

from __future__ import annotations

import ast
from typing import Any

_OPERATORS = {
    ast.Pow: 2,
    ast.FloorDiv: 4,
    ast.LShift: 4,
    ast.RShift: 4,
}


def bounds(tree: ast.AST) -> tuple[int, int]:
    """The least and the greatest number of columns that a tree may take on one line.

    The two differ by the parentheses and blanks that depend on precedence.
    """
    least = most = 0
    waiting: list[ast.AST] = [tree]
    while waiting:
        # The kinds that nearly every node has come first, told apart at least cost.
        node: Any = waiting.pop()
        kind = type(node)
        if kind is ast.Name:
            size = len(node.id)
            least += size
            most += size
        elif kind is ast.BinOp:
            size = _OPERATORS.get(type(node.op), 3)
            least += size
            most += size + 4
            waiting += (node.left, node.right)
        elif kind is ast.Constant:
            size = len(repr(node.value))
            least += size
            most += size + 2 * (type(node.value) is not int)
        elif kind is ast.Attribute:
            size = 1 + len(node.attr)
            least += size
            most += size + 2
            waiting.append(node.value)
        elif kind is ast.Call:
            count = len(node.args) + len(node.keywords)
            size = 2 + 2 * max(count - 1, 0)
            least += size
            most += size + 2
            waiting.append(node.func)
            waiting += node.args
            waiting += node.keywords
        elif kind is ast.Assign:
            least += 3
            most += 3
            waiting += node.targets
            waiting.append(node.value)
        elif kind is ast.UnaryOp:
            least += 1
            most += 6
            waiting.append(node.operand)
        else:
            low, high = _own(node)
            least += low
            most += high
            waiting.extend(ast.iter_child_nodes(node))
    return least, most


def _own(node: ast.AST) -> tuple[int, int]:
    """What a node adds to its children."""
    if isinstance(node, ast.Subscript):
        return 2, 4
    if isinstance(node, ast.keyword):
        size = 1 + len(node.arg or "")
        return size, size
    if isinstance(node, ast.Tuple | ast.List):
        size = 2 * max(len(node.elts) - 1, 0)
        return size, size + 3
    if isinstance(node, ast.Slice):
        return 1, 4
    if isinstance(node, ast.Compare):
        return 3 * len(node.ops), 8 * len(node.ops) + 2
    if isinstance(node, ast.AugAssign):
        return 4, 5
    if isinstance(node, ast.expr_context | ast.operator | ast.unaryop | ast.cmpop):
        return 0, 0
    return 0, 100  # no bound is known: print it
