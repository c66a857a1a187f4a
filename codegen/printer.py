"""Printing of Python trees as readable source, in the layout of `ruff format`.

`Printer` extends `astunparse.Unparser`: minimal parentheses, comments, line wrapping,
correct text for every constant.  The text is a fixed point of `ruff format`, and
parsing it gives the tree back; `tests/codegen/test_printer_fuzz.py` proves both.

Trees may hold two statements of this module's own, `Comment` and `Blank`, and any
statement may carry a trailing comment (`with_comment`).  They exist only in the text:
`strip_comments` removes them, and what is compiled is the text.

>>> print(to_source(ast.parse("y=(x+1)**2")), end="")
y = (x + 1) ** 2
"""

import ast
import sys
from collections.abc import Callable
from functools import partial

from tracegrad.codegen.printer_expressions import (
    CHAINS,
    ExpressionPrinter,
    PrinterError,
)
from tracegrad.codegen.printer_flat import expression_text, statement_text
from tracegrad.codegen.printer_layout import (
    INDENT,
    BestFitParens,
    Group,
    Renderer,
    Variants,
    flat_text,
    hard_parens,
    optional_parens,
    parens_if_expands,
    soft_block,
    text_width,
)
from tracegrad.codegen.printer_literals import (
    Blank,
    Comment,
    docstring,
    docstring_text,
    one_line,
    parseable,
    strip_comments,
    text_of,
    with_comment,
)
from tracegrad.codegen.printer_rules import (
    ATOM,
    NAMED,
    STATEMENT,
    TEST,
    any_brackets,
    can_omit_parens,
    needs_parens,
    operands,
    wrapped,
)

__all__ = [
    "Blank",
    "Comment",
    "Printer",
    "PrinterError",
    "docstring",
    "fits",
    "strip_comments",
    "to_source",
    "with_comment",
]

WIDTH = 88

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)


def to_source(tree: ast.AST) -> str:
    """Returns the text of a module (which ends in a newline), statement or expression.

    Raises:
        PrinterError: for a node that the printer does not know (`match`, `except*`,
            type parameters), and for a name that is not an identifier.
    """
    if isinstance(tree, ast.expr | ast.Expression):
        value = tree.body if isinstance(tree, ast.Expression) else tree
        text = expression_text(value)
        if text is None:
            printer = Printer(width=sys.maxsize)
            text = flat_text(printer.capture(lambda: printer.dispatch(value)))
        return text
    text = Printer().text(tree)
    return text if isinstance(tree, ast.Module) else text.rstrip("\n")


def fits(stmt: ast.stmt, indent: int, width: int = WIDTH) -> bool:
    """Returns whether `stmt` with its comment is one line within `width` columns.

    Args:
        indent: columns to the left of the statement.
    """
    text = Printer(width=sys.maxsize).text(stmt).rstrip("\n")
    return "\n" not in text and indent + text_width(text) <= width


def _ends_in_definition(stmt: ast.stmt) -> bool:
    """Returns whether the last lines of `stmt` are those of a function or class."""
    while not isinstance(stmt, _DEFINITIONS):
        for name in ("finalbody", "orelse", "handlers", "body"):
            body = getattr(stmt, name, None) or ()
            body = [item for item in body if not isinstance(item, Comment | Blank)]
            if body:
                stmt = body[-1]
                break
        else:
            return False
    return True


class Printer(ExpressionPrinter):
    """Prints one tree; `text` is the entry.

    A statement is written as parts of a document (`printer_layout`), which becomes
    text at the end of its line.
    """

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.width = width
        self.lines: list[str] = []
        self.comment: str | None = None
        self._indent = 0

    def text(self, tree: ast.AST) -> str:
        """Returns the source of a module or statement."""
        self.suite([tree]) if isinstance(tree, ast.stmt) else self.dispatch(tree)
        return "".join(line + "\n" for line in self.lines)

    # --- Lines ------------------------------------------------------------------

    def fill(self, text: str = "") -> None:
        """Starts a line."""
        self.flush()
        self.write(text)

    def flush(self) -> None:
        """Ends the current line, if there is one: lays it out, with its comment."""
        if not self.parts:
            return
        parts, self.parts = self.parts, []
        indent = INDENT * self._indent
        pad = " " * indent
        text = flat_text(parts)
        comment = ""
        if self.comment is not None:
            comment = f"  # {one_line(self.comment)}".rstrip()
            self.comment = None
        if indent + text_width(text + comment) > self.width and comment:
            self.lines.append(pad + comment.lstrip())
            comment = ""
        if indent + text_width(text) > self.width:
            text = Renderer(self.width).render(parts, indent)
        self.lines.append(pad + text + comment)

    def enter(self) -> None:
        """Ends the header of a compound statement."""
        self.write(":")
        self.flush()
        self._indent += 1

    def leave(self) -> None:
        """Ends a block."""
        self.flush()
        self._indent -= 1

    def block(self, body: list[ast.stmt], parent: ast.AST | None = None) -> None:
        """Prints the `:` and the body of a compound statement."""
        self.enter()
        self.suite(body, parent)
        self.leave()

    def suite(self, body: list[ast.stmt], parent: ast.AST | None = None) -> None:
        """Prints statements, with the blank lines between them.

        Args:
            parent: the module, function or class, if `body` belongs to one.
        """
        previous: ast.stmt | None = None
        # Comments and blank lines before the next statement.
        pending: list[Comment | Blank] = []
        # Exactly one blank line follows the docstring of a module or class.
        is_documented = False
        for stmt in body:
            if isinstance(stmt, Comment | Blank):
                if isinstance(stmt, Comment) or not is_documented:
                    pending.append(stmt)
                continue
            start, blanks = len(self.lines), self.comments(pending, stmt)
            self.comment = getattr(stmt, "comment", None)
            is_first, pending, is_documented = previous is None, [], False
            text = text_of(stmt.value) if isinstance(stmt, ast.Expr) else None
            if is_first and parent is not None and text is not None:
                self.fill(docstring_text(text, INDENT * self._indent))
                if isinstance(parent, ast.Module | ast.ClassDef):
                    pending, is_documented = [Blank()], True
            elif not self._in_one_line(stmt):
                self.node(stmt)
            self.flush()
            self.separate(start, previous, stmt, blanks, parent)
            previous = stmt
        start, blanks = len(self.lines), self.comments(pending, None)
        if len(self.lines) > start:
            self.separate(start, previous, None, blanks, parent)
        if previous is None and self._indent:
            self.fill("pass")
            self.flush()

    def _in_one_line(self, stmt: ast.stmt) -> bool:
        """Prints a statement of a usual kind, if it fits with its comment."""
        text = statement_text(stmt)
        if text is None:
            return False
        width = INDENT * self._indent + text_width(text)
        if self.comment is not None:
            width += text_width(f"  # {one_line(self.comment)}")
        if width > self.width:
            return False
        self.fill(text)
        return True

    def comments(self, pending: list[Comment | Blank], stmt: ast.stmt | None) -> int:
        """Prints the comments before a statement; returns the blank lines before it."""
        blanks, is_start = 0, True
        pad = " " * (INDENT * self._indent)
        for item in pending:
            if isinstance(item, Comment):
                is_start = False
                for line in item.text.splitlines() or [""]:
                    self.lines.append(f"{pad}# {one_line(line)}".rstrip())
            elif is_start:
                blanks += 1
            elif stmt is not None and not isinstance(stmt, _DEFINITIONS):
                if self.lines[-1]:
                    self.lines.append("")
        return blanks

    def separate(
        self,
        start: int,
        previous: ast.stmt | None,
        stmt: ast.stmt | None,
        blanks: int,
        parent: ast.AST | None,
    ) -> None:
        """Puts blank lines before the lines from `start` on, those of `stmt`.

        Args:
            previous: the statement before it, if there is one.
            blanks: how many the tree asks for.
        """
        most = 1 if self._indent else 2
        is_commented = self.lines[start].lstrip().startswith("#")
        if previous is None:
            # A function that opens a branch stands apart from the `if`.
            is_branch = self._indent > 0 and parent is None and not is_commented
            blanks = int(is_branch and isinstance(stmt, _DEFINITIONS))
        elif isinstance(stmt, _DEFINITIONS) or _ends_in_definition(previous):
            blanks = most
        elif isinstance(previous, _IMPORTS) and stmt is not None:
            if is_commented or not isinstance(stmt, _IMPORTS):
                blanks = max(blanks, 1)
        self.lines[start:start] = [""] * min(blanks, most)

    def _Module(self, t: ast.Module) -> None:
        self.suite(t.body, t)

    def dispatch(self, tree: ast.AST | list) -> None:
        """Prints a node as a subexpression, or a body."""
        if isinstance(tree, list):
            self.suite(tree)
        elif isinstance(tree, ast.expr):
            self.child(tree, TEST)
        else:
            self.node(tree)

    # --- Ends of statements -----------------------------------------------------

    def tail(self, node: ast.expr, level: int = TEST, best_fit: bool = True) -> None:
        """Prints an expression that gets parentheses if it does not fit otherwise.

        With `best_fit`, an expression that cannot break gets them only if they help.
        """
        node = parseable(node)
        if wrapped(node, level):
            self.child(node, level)
            return
        need = needs_parens(node)
        if isinstance(node, ast.Lambda):
            content = self.capture(lambda: self._Lambda(node, is_tail=True))
            self.write(optional_parens(content, object()))
            return
        if need == "never":
            self.write(self.capture(lambda: self.node(node), None))
        elif need == "best-fit" and best_fit:
            key = object()
            content = self.capture(lambda: self.node(node), key)
            self.write(BestFitParens(content, key))
        elif can_omit_parens(node):
            key = object()
            content = self.capture(lambda: self.node(node), key)
            self.write(optional_parens(content, key))
        else:
            self.write(parens_if_expands(self.capture(lambda: self.node(node))))

    def value(self, node: ast.expr, bare: bool = False) -> None:
        """Prints the value of an assignment."""
        if isinstance(node, ast.Yield | ast.YieldFrom):
            self.tail(node, STATEMENT)
        elif bare and isinstance(node, ast.Tuple) and len(node.elts) > 1:
            self.write(parens_if_expands(self.capture(lambda: self.node(node))))
        else:
            self.tail(node)

    def assign(self, before: list, operator: str, node: ast.expr, bare: bool) -> None:
        """Prints an assignment to a target that has brackets.

        The value is parenthesised rather than the target broken.
        """
        value = parseable(node)
        atom = isinstance(value, ast.Name | ast.Constant | ast.JoinedStr)
        chain = isinstance(value, ast.Attribute | ast.Call | ast.Subscript)
        need = "" if wrapped(value, TEST) else needs_parens(value)
        if not (atom or (chain and need == "best-fit")):
            self.parts += [*before, operator]
            self.value(node, bare)
            return
        before = [*before, operator]
        content = self.capture(lambda: self.node(value), None)
        parens = Group(hard_parens(content), expanded=True)
        choices = [before + content, [*before, parens], before + content]
        if chain:
            choices.insert(1, [*before, Group(content, expanded=True)])
        self.write(Variants(choices))

    def target(self, node: ast.expr, first: bool = False) -> list:
        """Returns a target of an assignment as a document."""
        if isinstance(node, ast.Tuple) and len(node.elts) > 1:
            return [parens_if_expands(self.capture(lambda: self.node(node)))]
        if first or self.has_brackets(node):
            return self.capture(lambda: self.child(node, TEST), None)
        return [parens_if_expands(self.capture(lambda: self.child(node, TEST)))]

    def has_brackets(self, node: ast.expr) -> bool:
        """Returns whether a target can break inside brackets of its own."""
        if isinstance(node, ast.Attribute):
            value, level = operands(node)[0]
            return wrapped(value, level) or self.has_brackets(value)
        return any_brackets(node) or isinstance(node, ast.Tuple)

    # --- Simple statements ------------------------------------------------------

    def _Expr(self, t: ast.Expr) -> None:
        self.fill()
        if isinstance(t.value, ast.Yield | ast.YieldFrom):
            self.child(t.value, STATEMENT)
        elif isinstance(t.value, (*CHAINS, ast.UnaryOp)):
            self.tail(t.value)
        else:
            self.write(self.capture(lambda: self.child(t.value, TEST), None))

    def _Assign(self, t: ast.Assign) -> None:
        self.fill()
        *head, last = t.targets
        bare = isinstance(last, ast.Tuple) and len(last.elts) > 1
        for index, target in enumerate(head):
            self.parts += [*self.target(target, first=index == 0), " = "]
        if head or any_brackets(last) or isinstance(last, ast.Tuple):
            self.assign(self.target(last), " = ", t.value, bare)
        else:
            self.parts += [*self.target(last, first=True), " = "]
            self.value(t.value)

    def _AugAssign(self, t: ast.AugAssign) -> None:
        self.fill()
        operator = f" {self.binop[type(t.op).__name__]}= "
        target = self.target(t.target, first=True)
        if any_brackets(t.target):
            self.assign(target, operator, t.value, bare=False)
        else:
            self.parts += [*target, operator]
            self.value(t.value)

    def _AnnAssign(self, t: ast.AnnAssign) -> None:
        self.fill()
        target = self.target(t.target, first=True)
        if isinstance(t.target, ast.Name) and not t.simple:
            target = ["(", *target, ")"]
        self.parts += [*target, ": "]
        if t.value is None:
            self.tail(t.annotation)
        else:
            annotation = self.capture(lambda: self.child(t.annotation, TEST), None)
            if not self.has_brackets(t.annotation):
                content = self.capture(lambda: self.child(t.annotation, TEST))
                annotation = [parens_if_expands(content)]
            self.assign(annotation, " = ", t.value, bare=False)

    def _Return(self, t: ast.Return) -> None:
        self.fill("return")
        if t.value is None:
            return
        self.write(" ")
        if isinstance(t.value, ast.Tuple) and len(t.value.elts) > 1:
            if len(t.value.elts) == 2:
                key = object()
                content = self.capture(partial(self.node, t.value), key)
                self.write(optional_parens(content, key))
            else:
                self.value(t.value, bare=True)
        else:
            self.tail(t.value)

    def _Assert(self, t: ast.Assert) -> None:
        self.fill("assert ")
        self.tail(t.test, best_fit=False)
        if t.msg is not None:
            self.write(", ")
            self.tail(t.msg, best_fit=False)

    def _Delete(self, t: ast.Delete) -> None:
        self.fill("del ")
        # Never in parentheses, even if too long: they would make one target, a tuple.
        for index, item in enumerate(self.children(t.targets, TEST)):
            self.write(", " if index else "")
            self.write(self.capture(item, None))

    def _Raise(self, t: ast.Raise) -> None:
        self.fill("raise")
        for word, node in ((" ", t.exc), (" from ", t.cause)):
            if node is not None:
                self.write(word)
                self.tail(node)

    def _ImportFrom(self, t: ast.ImportFrom) -> None:
        self.fill(f"from {'.' * (t.level or 0)}{t.module or ''} import ")
        names = [partial(self.node, name) for name in t.names]
        content = self.capture(lambda: self.commas(names, trailing=True))
        star = t.names[0].name == "*"
        self.write(content if star else parens_if_expands(content))

    # --- Compound statements ----------------------------------------------------

    def _If(self, t: ast.If, word: str = "if ") -> None:
        self.fill(word)
        self.tail(t.test, NAMED)
        self.block(t.body)
        if len(t.orelse) == 1 and isinstance(t.orelse[0], ast.If):
            self.comment = getattr(t.orelse[0], "comment", None)
            self._If(t.orelse[0], "elif ")
        else:
            self.otherwise(t.orelse)

    def otherwise(self, body: list[ast.stmt]) -> None:
        """Prints an `else:` with its body, if there is one."""
        if body:
            self.fill("else")
            self.block(body)

    def _While(self, t: ast.While) -> None:
        self.fill("while ")
        self.tail(t.test, NAMED)
        self.block(t.body)
        self.otherwise(t.orelse)

    def _For(self, t: ast.For | ast.AsyncFor) -> None:
        self.fill("async for " if isinstance(t, ast.AsyncFor) else "for ")
        self.bare(t.target)
        self.write(" in ")
        self.tail(t.iter)
        self.block(t.body)
        self.otherwise(t.orelse)

    _AsyncFor = _For

    def _With(self, t: ast.With | ast.AsyncWith) -> None:
        self.fill("async with " if isinstance(t, ast.AsyncWith) else "with ")
        items = [partial(self.node, item) for item in t.items]
        if len(items) > 1:
            self.write(parens_if_expands(self.capture(lambda: self.commas(items))))
        else:
            self.write(self.capture(items[0], None))
        self.block(t.body)

    _AsyncWith = _With

    def _withitem(self, t: ast.withitem) -> None:
        # `with (a, b):` would be two items.
        double = isinstance(t.context_expr, ast.Tuple) and t.optional_vars is None
        self.write("(" if double else "")
        self.child(t.context_expr, TEST)
        self.write(")" if double else "")
        if t.optional_vars is not None:
            self.write(" as ")
            self.child(t.optional_vars, ATOM)

    def _FunctionDef(self, t: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.decorators(t)
        word = "async def" if isinstance(t, ast.AsyncFunctionDef) else "def"
        self.fill(f"{word} {t.name}")
        items = self.parameters(t.args)
        returns = self.capture(lambda: self.returns(t.returns), None)
        if items:
            content = self.capture(lambda: self.commas(items, trailing=True))
            # A single one has its comma whenever it stands on a line of its own.
            inner = content if len(items) == 1 else [Group(content)]
            header = ["(", *soft_block(inner), ")"]
            # The parameters break rather than the type of the result.
            self.write(
                Variants(
                    [[*header, *returns], [Group(header, expanded=True), *returns]]
                )
            )
        else:
            self.parts += ["()", *returns]
        self.body(t)

    _AsyncFunctionDef = _FunctionDef

    def returns(self, annotation: ast.expr | None) -> None:
        """Prints the type of the result of a function."""
        if annotation is None:
            return
        self.write(" -> ")
        if needs_parens(annotation) == "multiline":
            self.tail(annotation)
        else:
            self.child(annotation, TEST)

    def _ClassDef(self, t: ast.ClassDef) -> None:
        self.decorators(t)
        self.fill(f"class {t.name}")
        if t.bases or t.keywords:
            self.arguments(t.bases, t.keywords, is_call=False)
        self.body(t)

    def decorators(self, t: Definition) -> None:
        """Prints the decorators of a definition, whose comment is for its header."""
        comment, self.comment = self.comment, None
        for decorator in t.decorator_list:
            self.fill("@")
            self.tail(decorator, NAMED)
        self.flush()
        self.comment = comment

    def body(self, t: Definition) -> None:
        """Prints the body of a definition; one that is only `...` stays on its line."""
        only = t.body[0] if len(t.body) == 1 else None
        if isinstance(only, ast.Expr) and not hasattr(only, "comment"):
            if isinstance(only.value, ast.Constant) and only.value.value is Ellipsis:
                self.write(": ...")
                return
        self.block(t.body, t)

    def parameters(self, t: ast.arguments) -> list[Callable[[], None]]:
        """Returns what prints each parameter of a function or lambda."""
        positional = [*t.posonlyargs, *t.args]
        required = [None] * (len(positional) - len(t.defaults))
        items: list[Callable[[], None]] = [
            partial(self.parameter, arg, default)
            for arg, default in zip(positional, [*required, *t.defaults])
        ]
        if t.posonlyargs:
            items.insert(len(t.posonlyargs), partial(self.write, "/"))
        if t.vararg is not None:
            items.append(partial(self.parameter, t.vararg, None, "*"))
        elif t.kwonlyargs:
            items.append(partial(self.write, "*"))
        items += [
            partial(self.parameter, arg, default)
            for arg, default in zip(t.kwonlyargs, t.kw_defaults)
        ]
        if t.kwarg is not None:
            items.append(partial(self.parameter, t.kwarg, None, "**"))
        return items

    def parameter(
        self, arg: ast.arg, default: ast.expr | None, stars: str = ""
    ) -> None:
        """Prints one parameter with its annotation and default."""
        self.write(stars)
        self.node(arg)
        if default is not None:
            self.write("=" if arg.annotation is None else " = ")
            self.child(default, TEST)
