"""Counts statements: emitted ones beside hand-written ones."""

import ast
from collections.abc import Mapping
from pathlib import Path

from golden.models import MODELS

HERE = Path(__file__).resolve().parent
FILES = HERE / "files"

HEADING = """# Statements emitted, beside statements by hand

Statements in the function that gives value and gradient: those of the golden files in
`tests/golden/files` beside those of `tests/golden/by_hand.py`. Docstrings, comments and
the call that verifies the arguments of a saved function don't count, bodies of loops
do. `python tests/golden/regenerate.py` writes this page.

"""


def count_statements(source: str, function: str) -> int:
    """Counts the statements in the body of a function, those in loops included.

    Args:
        source: Text of a module.
        function: Name of a function at its top level.

    Returns:
        The number of statements.  The docstring and nested `def` lines do not count,
        the body of a nested function does.

    Raises:
        LookupError: The module defines no such function.

    Example:
        >>> count_statements("def f(x):\\n    y = x\\n    return y", "f")
        2
    """
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            inner = [n for n in ast.walk(node) if isinstance(n, ast.stmt)]
            return sum(not _is_heading(n) for n in inner)
    raise LookupError(f"no function {function!r} in this source")


def _is_heading(node: ast.stmt) -> bool:
    """True for what says nothing about the computation."""
    if isinstance(node, ast.Expr):
        checks = isinstance(node.value, ast.Call) and (
            ast.unparse(node.value.func) == "check_arguments"
        )
        return checks or isinstance(node.value, ast.Constant)
    return isinstance(node, ast.FunctionDef)


def table(emitted: Mapping[str, int], by_hand: Mapping[str, int]) -> str:
    """Formats the counts as a Markdown table.

    Args:
        emitted: Statements that tracegrad emits, by name of the model.
        by_hand: Statements of the hand-written version, by name of the model.

    Returns:
        The table's text, a row for each model in `by_hand`, and a sum.
    """
    rows = [(name, emitted[name], count) for name, count in by_hand.items()]
    rows.append(("sum", sum(r[1] for r in rows), sum(r[2] for r in rows)))
    lines = ["| function | emitted | by hand | ratio |", "| --- | ---: | ---: | ---: |"]
    lines += [f"| {n} | {e} | {h} | {e / h:.2f} |" for n, e, h in rows]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The text of `docs/statements.md`, from the golden files as they are."""
    hand = (HERE / "by_hand.py").read_text()
    by_hand = {name: count_statements(hand, name) for name in MODELS}
    emitted = {
        name: count_statements(golden_file(name).read_text(), f"{name}_value_and_grad")
        for name in MODELS
    }
    return HEADING + table(emitted, by_hand)


def golden_file(name: str) -> Path:
    """Where the emitted gradient of a model lies."""
    return FILES / f"{name}_grad.py"
