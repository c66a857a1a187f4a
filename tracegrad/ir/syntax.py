"""Syntax trees that differ between the versions of Python."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any


def definition(
    function: str, arguments: ast.arguments | Sequence[str], body: list[ast.stmt]
) -> ast.FunctionDef:
    """A `def` statement, of `arguments` or of plain parameters of these names."""
    if not isinstance(arguments, ast.arguments):
        named = [ast.arg(argument) for argument in arguments]
        arguments = ast.arguments([], named, None, [], [], None, [])
    fields: dict[str, Any] = {"decorator_list": [], "lineno": 0}
    made = ast.FunctionDef(function, arguments, body, **fields)
    # Python 3.12 wants this field, which 3.11 does not take as an argument.
    vars(made)["type_params"] = []
    return made
