"""Printing of expressions: the half of `Printer` that knows no statements."""

import ast
from collections.abc import Callable, Sequence
from functools import partial

import astunparse

from tracegrad.codegen.printer_layout import (
    SOFT,
    SPACE,
    Expandable,
    Group,
    IfBreaks,
    Variants,
    flat_text,
    hard_parens,
    optional_parens,
    parens_if_expands,
    soft_block,
)
from tracegrad.codegen.printer_literals import (
    escape,
    is_name,
    parseable,
    quoted,
    text_of,
)
from tracegrad.codegen.printer_rules import (
    ATOM,
    BIT_OR,
    COMPARE,
    NAMED,
    OR,
    TEST,
    any_brackets,
    is_fluent,
    is_postfix,
    is_simple_bound,
    is_tight,
    is_tuple,
    operands,
    precedence,
    wrapped,
)

# The node is inside brackets, so that a line break needs no parentheses.
_INSIDE = object()

_QUOTES = ('"', "'", '"""', "'''")

# Fields whose text goes into the source as it is: the only way to inject code.
_NAMES = {
    ast.Name: ("id",),
    ast.Attribute: ("attr",),
    ast.arg: ("arg",),
    ast.keyword: ("arg",),
    ast.alias: ("name", "asname"),
    ast.ImportFrom: ("module",),
    ast.FunctionDef: ("name",),
    ast.AsyncFunctionDef: ("name",),
    ast.ClassDef: ("name",),
    ast.ExceptHandler: ("name",),
    ast.Global: ("names",),
    ast.Nonlocal: ("names",),
}
Chain = ast.BinOp | ast.BoolOp | ast.Compare
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
CHAINS = (ast.BinOp, ast.BoolOp, ast.Compare)


class PrinterError(ValueError):
    """A tree that has no text: a node the printer does not know, or a bad name."""


def _not_in_fstring(text: str) -> PrinterError:
    return PrinterError(
        f"{text!r:.60} cannot stand inside an f-string\n"
        "before Python 3.12 no backslash or further kind of quote is possible there\n"
        "assign it to a name, and use the name"
    )


class ExpressionPrinter(astunparse.Unparser):
    """Writes expressions as parts of a document (`printer_layout`)."""

    def __init__(self) -> None:
        # The base class prints on construction; this one has nothing to print yet.
        self.parts: list = []
        self.nesting: object = None
        self.quotes: tuple[str, ...] = _QUOTES

    def write(self, text: object) -> None:
        """Appends a text or document to the current line."""
        self.parts.append(text)

    def node(self, tree: ast.AST) -> None:
        """Prints a node without parentheses of its own."""
        kind = type(tree)
        method = getattr(self, "_" + kind.__name__, None)
        if method is None or getattr(tree, "type_params", None):
            name = kind.__name__ + (" with type parameters" if method else "")
            raise PrinterError(
                f"cannot print {name}\n"
                "the printer knows the nodes that generated code consists of\n"
                "write it with other nodes, or add a method to Printer"
            )
        self.check(tree)
        method(tree)

    def check(self, tree: ast.AST) -> None:
        """Raises if a name in `tree` is not an identifier: it could inject code."""
        for field in _NAMES.get(type(tree), ()):
            names = getattr(tree, field)
            dotted = field == "module" or (type(tree) is ast.alias and field == "name")
            for name in names if isinstance(names, list) else [names]:
                if name is not None and not is_name(name, dotted):
                    raise PrinterError(
                        f"{name!r} is not a name\n"
                        f"in a node of type {type(tree).__name__}\n"
                        "use an identifier in NFKC form that is not a keyword"
                    )

    def child(self, node: ast.expr, level: int) -> None:
        """Prints a subexpression, in parentheses if it binds looser than `level`."""
        node = parseable(node)
        if wrapped(node, level):
            self.bracketed("(", lambda: self.node(node), ")")
        else:
            self.node(node)

    def capture(self, emit: Callable[[], None], nesting: object = _INSIDE) -> list:
        """Returns what `emit` writes, as a document."""
        parts, around = self.parts, self.nesting
        self.parts, self.nesting = [], nesting
        try:
            emit()
            return self.parts
        finally:
            # An f-string tries other quotes after an error.
            self.parts, self.nesting = parts, around

    def bracketed(self, left: str, emit: Callable[[], None], right: str) -> None:
        """Prints what `emit` writes between brackets that may break."""
        group = Group([left, *soft_block(self.capture(emit)), right])
        outermost = self.nesting is None or self.nesting is _INSIDE
        self.write(group if outermost else Expandable([group], self.nesting))

    def grouped(self, emit: Callable[[], None]) -> None:
        """Prints what `emit` writes as a group, inside brackets."""
        self.write(Group(self.capture(emit)))

    def group(self, emit: Callable[[], None]) -> None:
        """Prints what `emit` writes as a group, where line breaks are possible."""
        content = self.capture(emit, self.nesting)
        if self.nesting is None:
            self.parts.extend(content)
        else:
            key = None if self.nesting is _INSIDE else self.nesting
            self.write(Group(content, when=key))

    def line(self, flat: str) -> None:
        """Prints a place for a line break, if it is inside brackets."""
        line = SPACE if flat else SOFT
        if self.nesting is None:
            self.write(flat)
        elif self.nesting is _INSIDE:
            self.write(line)
        else:
            self.write(IfBreaks(line, flat, when=self.nesting))

    def commas(
        self, items: Sequence[Callable[[], None]], trailing: bool = False
    ) -> None:
        """Prints items with commas, one after the last if it breaks."""
        for index, item in enumerate(items):
            if index:
                self.write(",")
                self.write(SPACE)
            item()
        if len(items) > 1 or (trailing and items):
            self.write(IfBreaks(","))

    def children(self, nodes: list[ast.expr], level: int) -> list[Callable[[], None]]:
        """Returns what prints each of the nodes."""
        return [partial(self.child, node, level) for node in nodes]

    # --- Expressions ------------------------------------------------------------

    def _Name(self, t: ast.Name) -> None:
        self.write(t.id)

    def _Constant(self, t: ast.Constant) -> None:
        value = t.value
        if type(value) is str:
            self.write(("u" if t.kind == "u" else "") + self.string(value))
        elif type(value) is bytes:
            text = self.string(value.decode("latin-1"), ascii_only=True)
            self.write("b" + text)
        elif value is Ellipsis:
            self.write("...")
        elif type(value) is int and abs(value) >= 10**4000:
            # Beyond 4300 digits Python refuses decimal text.
            self.write(f"0x{value:X}")
        elif type(value) in (int, float, complex):
            self.write(repr(value).replace("e+", "e"))
        elif value is None or type(value) is bool:
            self.write(repr(value))
        else:
            raise PrinterError(
                f"a constant cannot be of type {type(value).__name__}\n"
                f"its value is {value!r:.60}\n"
                "convert it to a Python number, string or tuple first"
            )

    def string(self, text: str, ascii_only: bool = False) -> str:
        """Returns a literal of `text`, in the quotes that need fewer escapes."""
        quotes = self.quotes
        if quotes[:2] == _QUOTES[:2] and text.count('"') > text.count("'"):
            quotes = ("'", *quotes)
        for quote in quotes:
            body = quoted(text, quote)
            if ascii_only:
                body = "".join(c if c.isascii() else escape(c) for c in body)
            # Inside an f-string, Python 3.11 allows no backslash.
            if self.quotes is _QUOTES or "\\" not in body:
                return quote + body + quote
        raise _not_in_fstring(text)

    def _JoinedStr(self, t: ast.JoinedStr) -> None:
        around = self.quotes
        text = "".join(text_of(value) or "" for value in t.values)
        single_first = "'" in around and text.count('"') > text.count("'")
        failure = _not_in_fstring("an f-string")
        for quote in ("'", *around) if single_first else around:
            self.quotes = tuple(q for q in around if quote not in q)
            try:
                self.write(f"f{quote}{self.fstring(t, quote)}{quote}")
                return
            except PrinterError as error:
                failure = error
            finally:
                self.quotes = around
        raise failure

    def _FormattedValue(self, t: ast.FormattedValue) -> None:
        self._JoinedStr(ast.JoinedStr([t]))

    def fstring(self, t: ast.JoinedStr, quote: str, is_spec: bool = False) -> str:
        """Returns the inside of an f-string."""
        body = ""
        for value in t.values:
            text = text_of(value)
            if isinstance(value, ast.FormattedValue):
                body += self.replacement(value, quote)
            elif text is not None and not (is_spec and set("{}") & set(text)):
                body += quoted(text, quote).replace("{", "{{").replace("}", "}}")
            else:
                raise PrinterError(
                    f"an f-string cannot hold {ast.dump(value):.60}\n"
                    "its parts are strings and formatted values\n"
                    "put the value into a FormattedValue"
                )
        return body

    def replacement(self, t: ast.FormattedValue, quote: str) -> str:
        """Returns one `{...}` of an f-string."""
        text = flat_text(self.capture(lambda: self.child(t.value, OR)))
        if quote in text or "\\" in text:
            raise _not_in_fstring(text)
        # `{{` would be a brace of the text.
        space = " " if text.startswith("{") else ""
        body = "{" + space + text
        if t.conversion in (115, 114, 97):
            body += "!" + chr(t.conversion)
        if t.format_spec is not None:
            spec = ast.JoinedStr(getattr(t.format_spec, "values", [t.format_spec]))
            return f"{body}:{self.fstring(spec, quote, is_spec=True)}" + "}"
        return body + (space if t.conversion == -1 else "") + "}"

    def _BinOp(self, t: Chain) -> None:
        values: list[tuple[ast.expr, int]] = []
        operators: list[tuple[str, int]] = []
        self.flatten(t, values, operators)
        self.group(lambda: self.chain(values, operators))

    _BoolOp = _Compare = _BinOp

    def flatten(self, t: Chain, values: list, operators: list) -> None:
        """Collects the operands and operators of a chain, as they stand in the text."""
        if isinstance(t, ast.BinOp):
            symbols = [(self.binop[type(t.op).__name__], precedence(t))]
        elif isinstance(t, ast.BoolOp):
            # `and` and `or` break together.
            symbols = [(self.boolops[type(t.op)], OR)] * (len(t.values) - 1)
        else:
            symbols = [(self.cmpops[type(op).__name__], COMPARE) for op in t.ops]
        for index, (operand, level) in enumerate(operands(t)):
            if index:
                operators.append(symbols[index - 1])
            if isinstance(operand, CHAINS) and not wrapped(operand, level):
                self.flatten(operand, values, operators)
            else:
                values.append((operand, level))

    def chain(self, values: list, operators: list) -> None:
        """Prints a chain, which breaks before all of its loosest operators."""
        if not operators:
            self.child(*values[0])
            return
        loosest = min(level for _, level in operators)
        start = 0
        for index, (symbol, level) in enumerate([*operators, ("", loosest)]):
            if level != loosest:
                continue
            part = values[start : index + 1], operators[start:index]
            if part[1]:
                self.group(partial(self.chain, *part))
            else:
                self.chain(*part)
            if symbol:
                tight = symbol == "**" and is_tight(values[index : index + 2])
                self.line("" if tight else " ")
                self.write(symbol)
                if not tight:
                    self.write(" ")
                elif self.nesting is not None:
                    key = None if self.nesting is _INSIDE else self.nesting
                    self.write(IfBreaks(" ", when=key))
            start = index + 1

    def _UnaryOp(self, t: ast.UnaryOp) -> None:
        self.write(self.unop[type(t.op).__name__])
        if isinstance(t.op, ast.Not):
            self.write(" ")
        self.child(*operands(t)[0])

    def _IfExp(self, t: ast.IfExp) -> None:
        self.group(lambda: self.conditional(t))

    def conditional(self, t: ast.IfExp) -> None:
        """Prints `body if test else orelse`; an `else` with another does not nest."""
        body, test, orelse = operands(t)
        self.child(*body)
        self.line(" ")
        self.write("if ")
        self.child(*test)
        self.line(" ")
        self.write("else ")
        if isinstance(t.orelse, ast.IfExp):
            self.conditional(t.orelse)
        else:
            self.group(lambda: self.child(*orelse))

    def _Lambda(self, t: ast.Lambda, is_tail: bool = False) -> None:
        self.write("lambda")
        parameters = self.capture(lambda: self.commas(self.parameters(t.args)))
        if parameters:
            self.write(" " + flat_text(parameters))
        self.write(": ")
        body = self.capture(lambda: self.child(t.body, TEST))
        if is_postfix(t.body) and not is_fluent(t.body):
            laid_out: object = Variants(
                [body, Group(body, expanded=True), hard_parens(body)]
            )
        elif any_brackets(t.body) or wrapped(t.body, TEST):
            laid_out = body
        else:
            laid_out = parens_if_expands(body)
        # At the end of a statement, its own parentheses are enough.
        self.write(Expandable([laid_out], None) if is_tail else laid_out)

    def _Await(self, t: ast.Await) -> None:
        self.write("await ")
        self.child(t.value, ATOM)

    def _Yield(self, t: ast.Yield) -> None:
        self.write("yield" if t.value is None else "yield ")
        if isinstance(t.value, ast.Tuple) and len(t.value.elts) > 1:
            self.write(parens_if_expands(self.capture(partial(self.node, t.value))))
        elif t.value is not None:
            self.child(t.value, TEST)

    def _YieldFrom(self, t: ast.YieldFrom) -> None:
        self.write("yield from ")
        self.child(t.value, TEST)

    def _NamedExpr(self, t: ast.NamedExpr) -> None:
        self.child(t.target, ATOM)
        self.write(" := ")
        self.child(t.value, TEST)

    def _Starred(self, t: ast.Starred) -> None:
        self.write("*")
        self.child(t.value, BIT_OR)

    def _Attribute(self, t: ast.Attribute) -> None:
        self.postfix(t)

    def _Call(self, t: ast.Call) -> None:
        self.postfix(t)

    def _Subscript(self, t: ast.Subscript) -> None:
        self.postfix(t)

    def postfix(self, t: ast.expr, fluent: bool | None = None) -> None:
        """Prints an attribute, call or subscript; a fluent chain breaks before dots."""
        if fluent is not None:
            self.link(t, fluent)
        elif self.nesting is not None and is_fluent(t):
            self.group(lambda: self.link(t, True))
        else:
            self.link(t, False)

    def link(self, t: ast.expr, fluent: bool) -> None:
        """Prints the last link of a chain after the rest of it."""
        value, level = operands(t)[0]
        is_chain = isinstance(value, ast.Attribute | ast.Call | ast.Subscript)
        if is_chain and not wrapped(value, level):
            self.check(value)
            self.postfix(value, fluent)
        else:
            self.child(value, level)
        if isinstance(t, ast.Attribute):
            is_root = wrapped(value, level) and not is_tuple(value)
            if fluent and (is_root or is_postfix(value)):
                self.line("")
            self.write("." + t.attr)
        elif isinstance(t, ast.Subscript):
            self.bracketed("[", lambda: self.subscript(t.slice), "]")
        elif isinstance(t, ast.Call):
            self.arguments(t.args, t.keywords)

    def subscript(self, index: ast.expr) -> None:
        """Prints what stands between the brackets of a subscript."""
        if not isinstance(index, ast.Tuple):
            self.child(index, TEST)
        elif len(index.elts) > 1:
            self.grouped(lambda: self.node(index))
        elif index.elts and isinstance(index.elts[0], ast.Slice):
            self.child(index.elts[0], TEST)
            self.write(",")
        else:
            self.child(index, TEST)

    def _Slice(self, t: ast.Slice) -> None:
        bounds = [b for b in (t.lower, t.upper, t.step) if b is not None]
        space = "" if all(map(is_simple_bound, bounds)) else " "
        if t.lower is not None:
            self.child(t.lower, TEST)
            self.write(space)
        self.write(":")
        if t.upper is not None:
            self.write(space)
            self.child(t.upper, TEST)
        if t.step is not None:
            self.write((space if t.upper is not None else "") + ":" + space)
            self.child(t.step, TEST)

    def arguments(
        self, args: list[ast.expr], keywords: list[ast.keyword], is_call: bool = True
    ) -> None:
        """Prints the arguments of a call or class, with their brackets."""
        if not args and not keywords:
            self.write("()")
            return
        items = self.children(args, NAMED)
        items += [partial(self.node, keyword) for keyword in keywords]
        only = args[0] if is_call and len(args) == 1 and not keywords else None
        if isinstance(only, ast.GeneratorExp):
            # As the only argument it needs no parentheses.
            items = [partial(self.comprehension_parts, only)]
        self.bracketed("(", lambda: self.grouped(lambda: self.commas(items)), ")")

    def display(self, left: str, nodes: list[ast.expr], right: str) -> None:
        """Prints a list or set."""
        if nodes:
            self.bracketed(
                left, lambda: self.commas(self.children(nodes, NAMED)), right
            )
        else:
            self.write(left + right)

    def _List(self, t: ast.List) -> None:
        self.display("[", t.elts, "]")

    def _Set(self, t: ast.Set) -> None:
        # There is no literal of an empty set, but its value can be written.
        self.display("{", t.elts or [ast.Starred(ast.Tuple([], ast.Load()))], "}")

    def _Tuple(self, t: ast.Tuple) -> None:
        if not t.elts:
            self.write("()")
            return
        self.commas(self.children(t.elts, TEST))
        if len(t.elts) == 1:
            self.write(",")

    def _Dict(self, t: ast.Dict) -> None:
        if not t.keys:
            self.write("{}")
            return
        items = [
            partial(self.dict_item, key, value) for key, value in zip(t.keys, t.values)
        ]
        self.bracketed("{", lambda: self.commas(items), "}")

    def dict_item(self, key: ast.expr | None, value: ast.expr) -> None:
        """Prints `key: value` or `**value`."""
        if key is None:
            self.write("**")
            self.child(value, BIT_OR)
        else:
            self.child(key, TEST)
            self.write(": ")
            self.child(value, TEST)

    def _ListComp(self, t: ast.ListComp) -> None:
        self.comprehension("[", t, "]")

    def _SetComp(self, t: ast.SetComp | ast.DictComp) -> None:
        self.comprehension("{", t, "}")

    _DictComp = _SetComp

    def _GeneratorExp(self, t: ast.GeneratorExp) -> None:
        self.comprehension("(", t, ")")

    def comprehension(self, left: str, t: Comprehension, right: str) -> None:
        """Prints a comprehension in its brackets."""
        parts = partial(self.comprehension_parts, t)
        self.bracketed(left, partial(self.grouped, parts), right)

    def comprehension_parts(self, t: Comprehension) -> None:
        """Prints what stands between the brackets of a comprehension."""
        if isinstance(t, ast.DictComp):
            self.grouped(partial(self.dict_item, t.key, t.value))
        else:
            self.grouped(partial(self.child, t.elt, NAMED))
        for part in t.generators:
            self.write(SPACE)
            self.node(part)

    def _comprehension(self, t: ast.comprehension) -> None:
        self.write("async for " if t.is_async else "for ")
        self.bare(t.target)
        self.write(" in ")
        self.child(t.iter, OR)
        for condition in t.ifs:
            self.write(SPACE)
            self.write("if ")
            self.child(condition, OR)

    def bare(self, node: ast.expr) -> None:
        """Prints a target, a tuple without parentheses."""
        if isinstance(node, ast.Tuple) and len(node.elts) > 1:
            content = self.capture(lambda: self.commas(self.children(node.elts, ATOM)))
            self.write(optional_parens(content, object()))
        else:
            self.child(node, ATOM)

    def _keyword(self, t: ast.keyword) -> None:
        if t.arg is None:
            self.write("**")
            self.child(t.value, BIT_OR)
        else:
            self.write(t.arg + "=")
            self.child(t.value, TEST)
