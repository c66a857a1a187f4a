"""Literals, docstrings and comments, whose content can never break out of them."""

import ast
import copy
import keyword
import math
import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

from tracegrad.codegen.printer_layout import INDENT


def parseable(node: ast.expr) -> ast.expr:
    """Returns `node`, or for a constant that no literal gives, an expression for it.

    A literal is never negative, infinite, NaN or a sum: `Constant(-1.0)` prints as
    `-1.0`, which is a negation and needs its parentheses under `**`.
    """
    if type(node) is not ast.Constant:
        return node
    value = node.value
    if type(value) is float and math.isnan(value):
        # Without its sign, which nothing shows: `-nan` would only puzzle.
        return _call("float", ast.Constant("nan"))
    if type(value) is float and math.copysign(1.0, value) < 0:
        return ast.UnaryOp(ast.USub(), parseable(ast.Constant(-value)))
    if type(value) is float and math.isinf(value):
        return _call("float", ast.Constant("inf"))
    if type(value) is int and value < 0:
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    if type(value) is complex:
        return _parseable_complex(node, value.real, value.imag)
    if type(value) is tuple:
        return ast.Tuple([ast.Constant(element) for element in value], ast.Load())
    return node


def _parseable_complex(node: ast.Constant, real: float, imag: float) -> ast.expr:
    signs = math.copysign(1.0, real), math.copysign(1.0, imag)
    if math.isfinite(real) and math.isfinite(imag):
        if real == 0 and signs == (1.0, 1.0):
            return node
        if real == 0 and signs == (-1.0, -1.0):
            return ast.UnaryOp(ast.USub(), ast.Constant(complex(0.0, -imag)))
        if real and imag:
            sign = ast.Add() if imag > 0 else ast.Sub()
            imaginary = ast.Constant(complex(0.0, abs(imag)))
            return ast.BinOp(ast.Constant(real), sign, imaginary)
    # A sum would lose the sign of a zero, and `inf * 1j` has a NaN real part.
    return _call("complex", ast.Constant(real), ast.Constant(imag))


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def text_of(node: ast.AST) -> str | None:
    """Returns the text of a string that is not a `u"..."`, or None."""
    if isinstance(node, ast.Constant) and type(node.value) is str:
        return node.value if node.kind is None else None
    return None


def is_name(name: object, dotted: bool) -> bool:
    """Returns whether `name` can be printed as an identifier, and nothing else.

    Args:
        dotted: whether it is the name of an import: `a.b`, or `*`.
    """
    if type(name) is not str:
        return False
    if dotted:
        return name == "*" or all(is_name(part, False) for part in name.split("."))
    return _is_identifier(name)


@lru_cache(maxsize=4096)
def _is_identifier(name: str) -> bool:
    # The parser normalises: a look-alike would become another name.
    is_normal = unicodedata.normalize("NFKC", name) == name
    return name.isidentifier() and is_normal and not keyword.iskeyword(name)


def escape(char: str) -> str:
    """Returns the escape sequence of one character."""
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    code = ord(char)
    if char in short:
        return short[char]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def quoted(text: str, quote: str) -> str:
    """Returns the inside of a literal of `text` between `quote`s."""
    return "".join(
        "\\" + char
        if char == "\\" or char == quote[0]
        else char
        if char.isprintable()
        else escape(char)
        for char in text
    )


def docstring_text(text: str, indent: int) -> str:
    """Returns a triple-quoted literal of `text` that formatters leave alone.

    They strip blanks from the ends of lines and move quotes away from the edges, which
    would change the value: such characters are escaped.
    """
    body = text.rstrip("\n ")
    # What is stripped, unless it only puts the closing quotes on a line of their own.
    end, closing = text[len(body) :], ""
    if "\n" in body and end == "\n" + " " * indent:
        end, closing = "", end
    start = ""
    if body.startswith((" ", '"')):
        start, body = escape(body[0]), body[1:]
    if body.endswith('"') and not closing:
        end, body = '"' + end, body[:-1]
    end = end.replace("\n", "\\n").replace('"', escape('"'))
    lines = "".join(map(_docstring_char, body)).replace('"""', '""\\"') + end
    escaped = re.sub(" (?=\n|$)", lambda match: escape(match[0]), lines)
    return f'"""{start}{escaped}{closing}"""'


def _docstring_char(char: str) -> str:
    if char == "\\":
        return "\\\\"
    return char if char.isprintable() or char == "\n" else escape(char)


def one_line(text: str) -> str:
    """Returns `text` for a comment: nothing in it can end the line or hide."""
    line = " ".join(text.splitlines())
    return "".join(c if c.isprintable() else escape(c) for c in line).rstrip()


class Comment(ast.stmt):
    """A line (or lines) of comment: `# text`.  Never reaches `compile`."""

    _fields = ("text",)
    text: str
    if TYPE_CHECKING:  # as it is made of `_fields`

        def __init__(self, text: str) -> None: ...


class Blank(ast.stmt):
    """A blank line.  Never reaches `compile`."""

    _fields = ()


def with_comment(stmt: ast.stmt, text: str) -> ast.stmt:
    """Gives `stmt` a trailing comment, and returns it.

    It is printed after the statement (after the header of a compound one) if the line
    then fits the width, and else on a line above.
    """
    stmt.comment = text  # type: ignore[attr-defined]
    return stmt


def docstring(text: str, depth: int) -> ast.Expr:
    """Returns `text` as a docstring whose lines are indented for a body `depth` deep.

    The value of a docstring holds the indentation of its lines, so that the printer
    must not add any: a module's docstring has depth 0, a function's depth 1.
    """
    first, *rest = text.strip().splitlines() or [""]
    pad = " " * (INDENT * depth)
    lines = [pad + line.rstrip() if line.strip() else "" for line in rest]
    closing = [pad] if rest else []
    return ast.Expr(ast.Constant("\n".join([first.rstrip(), *lines, *closing])))


def strip_comments(tree: ast.AST) -> ast.AST:
    """Returns a copy of `tree` without `Comment` and `Blank`, fit for `compile`.

    A body that holds nothing else gets a `pass`, as it does in the text.
    """
    tree = copy.deepcopy(tree)
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if isinstance(value, list) and any(
                isinstance(item, Comment | Blank) for item in value
            ):
                kept = [item for item in value if not isinstance(item, Comment | Blank)]
                is_body = name == "body" and not isinstance(node, ast.Module)
                setattr(node, name, kept or ([ast.Pass()] if is_body else []))
    return tree
