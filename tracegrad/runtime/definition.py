"""What the source file says of a function: its first line and its annotations.

`inspect` gives annotations as objects, whose `repr` is not what the user wrote, and
the line of a decorator instead of that of the `def`.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
from types import CodeType
from typing import Any

from tracegrad.ir.location import Location

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def code_of(function: Any) -> CodeType | None:
    """The code that runs when `function` is called, or None where it is C code."""
    function = inspect.unwrap(function)
    if isinstance(function, functools.partial):
        return code_of(function.func)
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is None and not isinstance(function, type):  # an object that is called
        code = getattr(vars(type(function)).get("__call__"), "__code__", None)
    return code


@functools.lru_cache(maxsize=64)
def _definitions(filename: str, text: str) -> dict[int, Definition]:
    """The functions of a file by the line that their code objects name."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    found: dict[int, Definition] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *[d.lineno for d in node.decorator_list]])
            found[first] = node
        elif isinstance(node, ast.Lambda):
            found.setdefault(node.lineno, node)
    return found


def definition_of(code: CodeType) -> Definition | None:
    """The syntax tree of the function, or None where the source is not to be had."""
    text = "".join(linecache.getlines(code.co_filename))
    found = _definitions(code.co_filename, text).get(code.co_firstlineno)
    is_lambda = code.co_name == "<lambda>"
    return found if isinstance(found, ast.Lambda) == is_lambda else None


def location_of(function: Any) -> Location | None:
    """Where the function starts: the line of its `def`, below its decorators."""
    code = code_of(function)
    if code is None:
        return None
    found = definition_of(code)
    line = code.co_firstlineno if found is None else found.lineno
    return Location(code.co_filename, line, function=code.co_name)


def annotations_of(function: Any) -> dict[str, str]:
    """Source text of the annotations, by parameter."""
    code = code_of(function)
    found = None if code is None else definition_of(code)
    if found is None:
        return {}
    a = found.args
    every = [*a.posonlyargs, *a.args, *a.kwonlyargs]
    return {p.arg: ast.unparse(p.annotation) for p in every if p.annotation}
