"""Random trees: the text parses back to the tree, and `ruff format` leaves it alone."""

import ast
import math
import random
import shutil
import string
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tracegrad.codegen import printer, printer_layout
from tracegrad.codegen.printer import (
    Blank,
    Comment,
    docstring,
    strip_comments,
    to_source,
    with_comment,
)
from tracegrad.codegen.printer_flat import expression_text, statement_text

NAMES = [*"abcxyz", "w1", "hidden", "d_logits", "learning_rate", "μ", "match", "_"]
BINARY = [
    ast.Add, ast.Sub, ast.Mult, ast.MatMult, ast.Div, ast.Mod, ast.FloorDiv, ast.Pow,
    ast.LShift, ast.RShift, ast.BitOr, ast.BitXor, ast.BitAnd,
]  # fmt: skip
COMPARE = [
    ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE,
    ast.Is, ast.IsNot, ast.In, ast.NotIn,
]  # fmt: skip
UNARY = [ast.USub, ast.UAdd, ast.Invert, ast.Not]
CHARACTERS = string.ascii_letters + " \"'\\\n\r\t\0{}#%é中😀\x7f\x85\u200b\u2028\ud800"
WORDS = [
    "it's",
    '"quoted"',
    '"""',
    "'''",
    "\\N{DASH}",
    "\\",
    "\\n",
    "rm -rf",
    "__import__('os')",
]


class Trees:
    """Makes random trees of every kind that the printer supports."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        # Inside an f-string, Python 3.11 allows neither backslashes nor more quotes.
        self.in_fstring = False

    # --- Choices ---

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, options):
        return self.random.choice(options)

    def many(self, make, least: int, most: int) -> list:
        return [make() for _ in range(self.random.randint(least, most))]

    def maybe(self, make, probability: float = 0.5):
        return make() if self.chance(probability) else None

    def name(self) -> str:
        return self.pick(NAMES)

    # --- Expressions ---

    def text(self) -> str:
        if self.in_fstring:
            return self.pick(["", "key", "a b", "#"])
        if self.chance(0.3):
            return self.pick(WORDS) + self.pick(["", "x", self.pick(WORDS)])
        return "".join(self.many(lambda: self.pick(CHARACTERS), 0, 12))

    def number(self):
        value = self.pick(
            [0, 1, 2, 10**40, 255, 0.0, 0.5, 1e-7, 1e16, 1.5e300, 2j, 0j, 1e20j, 3.25]
        )
        if self.chance(0.25):
            value = self.pick([-1, -2.5, -0.0, -3, math.inf, -math.inf, math.nan, -2j])
        return 1 + 2j if self.chance(0.02) else value

    def constant(self) -> ast.expr:
        roll = self.random.random()
        if roll < 0.6:
            return ast.Constant(self.number())
        if roll < 0.8:
            return ast.Constant(self.text(), kind="u" if self.chance(0.05) else None)
        if roll < 0.9 and not self.in_fstring:
            return ast.Constant(self.random.randbytes(self.random.randint(0, 5)))
        return ast.Constant(self.pick([None, True, False, ...]))

    def leaf(self) -> ast.expr:
        if self.chance(0.6):
            return ast.Name(self.name(), ast.Load())
        return self.constant()

    def expr(self, depth: int) -> ast.expr:
        if depth <= 0 or self.chance(0.1):
            return self.leaf()
        kinds = [
            self.binary, self.binary, self.binary, self.unary, self.boolean,
            self.compare, self.call, self.call, self.attribute, self.subscript,
            self.subscript, self.display, self.mapping, self.conditional, self.function,
            self.comprehension, self.walrus, self.suspend, self.fstring,
        ]  # fmt: skip
        return self.pick(kinds)(depth - 1)

    def binary(self, depth: int) -> ast.expr:
        return ast.BinOp(self.expr(depth), self.pick(BINARY)(), self.expr(depth))

    def unary(self, depth: int) -> ast.expr:
        return ast.UnaryOp(self.pick(UNARY)(), self.expr(depth))

    def boolean(self, depth: int) -> ast.expr:
        values = self.many(lambda: self.expr(depth), 2, 3)
        return ast.BoolOp(self.pick([ast.And, ast.Or])(), values)

    def compare(self, depth: int) -> ast.expr:
        rest = self.many(lambda: self.expr(depth), 1, 3)
        return ast.Compare(self.expr(depth), [self.pick(COMPARE)() for _ in rest], rest)

    def element(self, depth: int) -> ast.expr:
        if self.chance(0.1):
            return ast.Starred(self.expr(depth), ast.Load())
        return self.expr(depth)

    def call(self, depth: int) -> ast.expr:
        keywords = self.many(
            lambda: ast.keyword(self.maybe(self.name, 0.8), self.expr(depth)), 0, 2
        )
        arguments = self.many(lambda: self.element(depth), 0, 3)
        return ast.Call(self.expr(depth), arguments, keywords)

    def attribute(self, depth: int, context=ast.Load) -> ast.expr:
        return ast.Attribute(self.expr(depth), self.name(), context())

    def subscript(self, depth: int, context=ast.Load) -> ast.expr:
        index = self.index(depth)
        if self.chance(0.5):
            elements = self.many(
                lambda: self.pick([self.index, self.index, self.element])(depth), 1, 3
            )
            index = ast.Tuple(elements, ast.Load())
        return ast.Subscript(self.expr(depth), index, context())

    def index(self, depth: int) -> ast.expr:
        if self.chance(0.5):
            bounds = [self.maybe(lambda: self.expr(depth)) for _ in range(3)]
            return ast.Slice(*bounds)
        return self.expr(depth)

    def display(self, depth: int) -> ast.expr:
        kind = self.pick([ast.List, ast.Tuple, ast.Tuple, ast.Set])
        if kind is ast.Set:
            return ast.Set(self.many(lambda: self.element(depth), 1, 3))
        return kind(self.many(lambda: self.element(depth), 0, 3), ast.Load())

    def mapping(self, depth: int) -> ast.expr:
        values = self.many(lambda: self.expr(depth), 0, 3)
        keys = [self.maybe(lambda: self.expr(depth), 0.8) for _ in values]
        return ast.Dict(keys, values)

    def conditional(self, depth: int) -> ast.expr:
        return ast.IfExp(self.expr(depth), self.expr(depth), self.expr(depth))

    def function(self, depth: int) -> ast.expr:
        return ast.Lambda(self.arguments(depth, annotated=False), self.expr(depth))

    def arguments(self, depth: int, annotated: bool) -> ast.arguments:
        def make_arg() -> ast.arg:
            annotation = self.expr(depth) if annotated and self.chance(0.4) else None
            return ast.arg(self.name(), annotation)

        positional, ordinary = self.many(make_arg, 0, 1), self.many(make_arg, 0, 3)
        only = self.many(make_arg, 0, 2)
        defaults = self.random.randint(0, len(positional) + len(ordinary))
        return ast.arguments(
            positional,
            ordinary,
            self.maybe(make_arg, 0.2),
            only,
            [self.maybe(lambda: self.expr(depth)) for _ in only],
            self.maybe(make_arg, 0.2),
            [self.expr(depth) for _ in range(defaults)],
        )

    def comprehension(self, depth: int) -> ast.expr:
        generators = self.many(
            lambda: ast.comprehension(
                self.target(1),
                self.expr(depth),
                self.many(lambda: self.expr(depth), 0, 2),
                int(self.chance(0.1)),
            ),
            1,
            2,
        )
        kind = self.pick([ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp])
        if kind is ast.DictComp:
            return kind(self.expr(depth), self.expr(depth), generators)
        return kind(self.expr(depth), generators)

    def walrus(self, depth: int) -> ast.expr:
        return ast.NamedExpr(ast.Name(self.name(), ast.Store()), self.expr(depth))

    def suspend(self, depth: int) -> ast.expr:
        roll = self.random.random()
        if roll < 0.3:
            return ast.Await(self.expr(depth))
        if roll < 0.6:
            return ast.Yield(self.maybe(lambda: self.element_free_tuple(depth)))
        return ast.YieldFrom(self.expr(depth))

    def element_free_tuple(self, depth: int) -> ast.expr:
        return self.expr(depth)

    def fstring(self, depth: int) -> ast.expr:
        if self.in_fstring:
            return self.leaf()
        values: list[ast.expr] = []
        for _ in range(self.random.randint(0, 3)):
            text = self.text()
            if text and self.chance(0.6):
                values.append(ast.Constant(text))
            self.in_fstring = True
            spec = self.maybe(self.format_spec, 0.3)
            value = self.expr(min(depth, 2))
            self.in_fstring = False
            values.append(ast.FormattedValue(value, self.pick([-1, -1, 114, 97]), spec))
        return ast.JoinedStr(values)

    def format_spec(self) -> ast.expr:
        name = ast.FormattedValue(ast.Name(self.name(), ast.Load()), -1, None)
        return ast.JoinedStr(self.pick([[ast.Constant(">10")], [name], []]))

    # --- Targets ---

    def target(self, depth: int, context=ast.Store) -> ast.expr:
        roll = self.random.random()
        if depth > 0 and roll < 0.3:
            kind = self.pick([ast.Tuple, ast.List])
            elements = self.many(lambda: self.target(depth - 1, context), 0, 3)
            if elements and context is ast.Store and self.chance(0.2):
                elements[0] = ast.Starred(elements[0], ast.Store())
            return kind(elements, context())
        return self.place(context)

    def place(self, context=ast.Store) -> ast.expr:
        roll = self.random.random()
        if roll < 0.6:
            return ast.Name(self.name(), context())
        return self.pick([self.attribute, self.subscript])(1, context)

    # --- Statements ---

    def body(self, depth: int, documented: bool = False) -> list[ast.stmt]:
        body = self.many(lambda: self.statement(depth), 1, 3)
        if documented and self.chance(0.4):
            body.insert(0, ast.Expr(ast.Constant(self.text())))
        for _ in range(self.random.randint(0, 2) if self.chance(0.3) else 0):
            extra = self.pick([Blank(), Comment(self.text())])
            body.insert(self.random.randint(0, len(body)), extra)
        return body

    def statement(self, depth: int) -> ast.stmt:
        simple = [
            self.assign, self.assign, self.augmented, self.annotated, self.returns,
            self.expression, self.expression, self.small, self.imports, self.delete,
            self.raises, self.asserts,
        ]  # fmt: skip
        compound = [
            self.define, self.define, self.classes, self.branch, self.loop,
            self.while_loop, self.context, self.attempt,
        ]  # fmt: skip
        deep = depth > 0 and self.chance(0.35)
        made = self.pick(compound)(depth - 1) if deep else self.pick(simple)()
        return with_comment(made, self.text()) if self.chance(0.15) else made

    def assign(self) -> ast.stmt:
        return ast.Assign(self.many(lambda: self.target(2), 1, 2), self.value())

    def value(self) -> ast.expr:
        return self.expr(self.random.randint(0, 4))

    def augmented(self) -> ast.stmt:
        return ast.AugAssign(self.place(), self.pick(BINARY)(), self.value())

    def annotated(self) -> ast.stmt:
        place = self.place()
        simple = int(isinstance(place, ast.Name) and self.chance(0.8))
        return ast.AnnAssign(place, self.expr(2), self.maybe(self.value), simple)

    def returns(self) -> ast.stmt:
        return ast.Return(self.maybe(self.value, 0.9))

    def expression(self) -> ast.stmt:
        return ast.Expr(self.value())

    def small(self) -> ast.stmt:
        names = self.many(self.name, 1, 3)
        return self.pick(
            [
                ast.Pass(),
                ast.Break(),
                ast.Continue(),
                ast.Global(names),
                ast.Nonlocal(names),
            ]
        )

    def imports(self) -> ast.stmt:
        if self.chance(0.5):
            return ast.Import(self.many(lambda: self.alias(dotted=True), 1, 2))
        level = self.random.randint(0, 2)
        module = self.maybe(lambda: "a." + self.name()) if level else self.name()
        if self.chance(0.1):
            return ast.ImportFrom(module, [ast.alias("*")], level)
        return ast.ImportFrom(module, self.many(self.alias, 1, 12), level)

    def alias(self, dotted: bool = False) -> ast.alias:
        name = f"{self.name()}.{self.name()}" if dotted else self.name()
        return ast.alias(name, self.maybe(self.name))

    def delete(self) -> ast.stmt:
        return ast.Delete(self.many(lambda: self.target(1, ast.Del), 1, 3))

    def raises(self) -> ast.stmt:
        error = self.maybe(lambda: self.expr(2), 0.8)
        return ast.Raise(error, self.maybe(lambda: self.expr(1)) if error else None)

    def asserts(self) -> ast.stmt:
        return ast.Assert(self.expr(3), self.maybe(lambda: self.expr(2)))

    def define(self, depth: int) -> ast.stmt:
        kind = self.pick([ast.FunctionDef, ast.FunctionDef, ast.AsyncFunctionDef])
        made = kind(
            self.name(),
            self.arguments(1, annotated=True),
            self.body(depth, documented=True),
            self.many(lambda: self.expr(2), 0, 1),
            self.maybe(lambda: self.expr(2), 0.3),
        )
        made.type_params = []
        return made

    def classes(self, depth: int) -> ast.stmt:
        made = ast.ClassDef(
            self.name(),
            self.many(lambda: self.element(1), 0, 2),
            self.many(lambda: ast.keyword(self.name(), self.expr(1)), 0, 1),
            self.body(depth, documented=True),
            self.many(lambda: self.expr(2), 0, 1),
        )
        made.type_params = []
        return made

    def branch(self, depth: int) -> ast.stmt:
        orelse = self.maybe(lambda: self.body(depth)) or []
        if self.chance(0.3):
            orelse = [self.branch(depth)]
        return ast.If(self.value(), self.body(depth), orelse)

    def loop(self, depth: int) -> ast.stmt:
        kind = self.pick([ast.For, ast.For, ast.AsyncFor])
        orelse = self.maybe(lambda: self.body(depth), 0.2) or []
        return kind(self.target(2), self.value(), self.body(depth), orelse)

    def while_loop(self, depth: int) -> ast.stmt:
        orelse = self.maybe(lambda: self.body(depth), 0.2) or []
        return ast.While(self.value(), self.body(depth), orelse)

    def context(self, depth: int) -> ast.stmt:
        kind = self.pick([ast.With, ast.With, ast.AsyncWith])
        items = self.many(
            lambda: ast.withitem(self.expr(2), self.maybe(lambda: self.target(1))), 1, 3
        )
        return kind(items, self.body(depth))

    def attempt(self, depth: int) -> ast.stmt:
        handlers = self.many(
            lambda: ast.ExceptHandler(
                self.expr(1), self.maybe(self.name), self.body(depth)
            ),
            0,
            2,
        )
        orelse = (self.maybe(lambda: self.body(depth), 0.3) or []) if handlers else []
        final = self.body(depth) if not handlers or self.chance(0.3) else []
        return ast.Try(self.body(depth), handlers, orelse, final)

    def module(self) -> ast.Module:
        return ast.Module(self.body(2, documented=True), [])


class Parsed(ast.NodeTransformer):
    """Replaces the constants that no literal gives by the expressions for them."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        value = node.value
        if isinstance(value, complex) and value.real:
            return ast.parse("1.0 + 2j", mode="eval").body
        if type(value) not in (int, float, complex):
            return node
        if value != value:
            return ast.parse("float('nan')", mode="eval").body
        if str(value).startswith("-") or value == -2j:
            return ast.UnaryOp(ast.USub(), self.visit(ast.Constant(-value)))
        if value == math.inf:
            return ast.parse("float('inf')", mode="eval").body
        return node


class WithoutEmptyParts(ast.NodeTransformer):
    """Drops the empty constants that Python 3.12 puts into nested format specs."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.JoinedStr:
        self.generic_visit(node)
        node.values = [
            v
            for v in node.values
            if not (isinstance(v, ast.Constant) and v.value == "")
        ]
        return node


def check_round_trip(seed: int) -> None:
    tree = Trees(seed).module()
    text = to_source(tree)
    parsed = ast.dump(WithoutEmptyParts().visit(ast.parse(text)))
    assert parsed == ast.dump(Parsed().visit(strip_comments(tree))), f"seed {seed}"


@pytest.mark.parametrize("block", range(3))
def test_text_parses_back_to_the_tree(block: int) -> None:
    for seed in range(500 * block, 500 * (block + 1)):
        check_round_trip(seed)


@pytest.mark.slow
def test_text_parses_back_to_the_tree_20000() -> None:
    for seed in range(20_000):
        check_round_trip(seed)


class InDocuments(printer.Printer):
    """Prints everything as documents, without the short way to a single line."""

    def _in_one_line(self, stmt: ast.stmt) -> bool:
        return False


def general_text(node: ast.AST) -> str:
    """Returns `node` on one line, printed the general way."""
    of_one_line = InDocuments(width=sys.maxsize)
    if isinstance(node, ast.stmt):
        return of_one_line.text(node).removesuffix("\n")
    parts = of_one_line.capture(lambda: of_one_line.dispatch(node))
    return printer_layout.flat_text(parts)


def test_the_short_way_to_a_line_gives_the_text_of_the_general_one() -> None:
    printed = {ast.expr: 0, ast.stmt: 0}
    for seed in range(800):
        for node in ast.walk(Trees(seed).module()):
            if isinstance(node, ast.expr) and not isinstance(node, ast.Slice):
                kind, text = ast.expr, expression_text(node)
            elif isinstance(node, ast.stmt) and not hasattr(node, "comment"):
                kind, text = ast.stmt, statement_text(node)
            else:
                continue
            if text is not None:
                printed[kind] += 1
                assert text == general_text(node), f"seed {seed}"
    # It is the usual way, not one for a few.
    assert printed[ast.expr] > 20_000 and printed[ast.stmt] > 100


class Gradients(Trees):
    """Makes trees like those that code generation makes, many with long lines."""

    WORDS = ["x", "w1", "b1", "hidden", "logits", "probabilities", "d_hidden", "np"]

    def name(self) -> str:
        return self.pick(self.WORDS)

    def constant(self) -> ast.expr:
        return ast.Constant(self.pick([0, 1, 2, -1, 0.5, 1e-07, -2.5, math.inf]))

    def expr(self, depth: int) -> ast.expr:
        if depth <= 0 or self.chance(0.15):
            return self.leaf()
        kinds = [
            self.binary, self.binary, self.binary, self.binary, self.unary, self.method,
            self.method, self.numpy, self.numpy, self.subscript, self.compare,
            self.display, self.settings, self.conditional,
        ]  # fmt: skip
        return self.pick(kinds)(depth - 1)

    def binary(self, depth: int) -> ast.expr:
        operator = self.pick(
            [ast.Add, ast.Sub, ast.Mult, ast.Div, ast.MatMult, ast.Pow]
        )
        return ast.BinOp(self.expr(depth), operator(), self.expr(depth))

    def unary(self, depth: int) -> ast.expr:
        return ast.UnaryOp(self.pick([ast.USub, ast.USub, ast.Not])(), self.expr(depth))

    def method(self, depth: int) -> ast.expr:
        name = self.pick(["sum", "reshape", "transpose", "T", "astype"])
        attribute = ast.Attribute(self.expr(depth), name, ast.Load())
        if name == "T":
            return attribute
        keywords = [ast.keyword("axis", ast.Constant(0))] if name == "sum" else []
        arguments = self.many(lambda: self.expr(depth), 0, 2)
        return ast.Call(attribute, arguments, keywords)

    def numpy(self, depth: int) -> ast.expr:
        name = self.pick(["exp", "add.reduce", "where", "zeros", "maximum", "einsum"])
        function = ast.parse(f"np.{name}", mode="eval").body
        arguments = self.many(lambda: self.expr(depth), 1, 3)
        if name == "einsum":
            arguments.insert(0, ast.Constant("ij,jk->ik"))
        if name == "zeros":
            return ast.Call(
                function, arguments[:1], [ast.keyword("dtype", self.leaf())]
            )
        return ast.Call(function, arguments, [])

    def settings(self, depth: int) -> ast.expr:
        keys = self.many(lambda: ast.Constant(self.name()), 0, 4)
        return ast.Dict(keys, [self.expr(depth) for _ in keys])

    def index(self, depth: int) -> ast.expr:
        return super().index(depth) if self.chance(0.7) else ast.Constant(None)

    def element(self, depth: int) -> ast.expr:
        return self.expr(depth)

    def target(self, depth: int, context=ast.Store) -> ast.expr:
        if depth > 1 and self.chance(0.2):
            elements = self.many(lambda: self.target(0, context), 2, 3)
            return ast.Tuple(elements, context())
        return self.place(context)

    def place(self, context=ast.Store) -> ast.expr:
        if self.chance(0.8):
            return ast.Name(self.name(), context())
        return ast.Subscript(ast.Name(self.name(), ast.Load()), self.expr(2), context())

    def value(self) -> ast.expr:
        return self.expr(self.random.randint(0, 5))

    def delete(self) -> ast.stmt:
        names = self.many(lambda: ast.Name(self.name(), ast.Del()), 1, 3)
        return ast.Delete(names)

    def results(self) -> ast.stmt:
        return ast.Return(ast.Tuple(self.many(self.value, 1, 4), ast.Load()))

    def statement(self, depth: int) -> ast.stmt:
        simple = [
            self.assign, self.assign, self.assign, self.augmented, self.returns,
            self.results, self.asserts, self.delete, self.expression, self.imports,
        ]  # fmt: skip
        compound = [self.define, self.branch, self.loop, self.while_loop]
        deep = depth > 0 and self.chance(0.25)
        made = self.pick(compound)(depth - 1) if deep else self.pick(simple)()
        if self.chance(0.3):
            text = f"model.py:{self.random.randint(1, 200)}" + self.pick(
                ["", "  y = x"]
            )
            return with_comment(made, text)
        return made

    def imports(self) -> ast.stmt:
        if self.chance(0.5):
            return ast.Import([ast.alias("numpy", "np")])
        return ast.ImportFrom("module", self.many(self.alias, 1, 9), 0)

    def body(self, depth: int, documented: bool = False) -> list[ast.stmt]:
        body = self.many(lambda: self.statement(depth), 1, 6)
        for _ in range(self.random.randint(0, 2)):
            extra = self.pick([Blank(), Comment(self.pick(["backward", "loss.py:3"]))])
            body.insert(self.random.randint(0, len(body)), extra)
        return body

    def define(self, depth: int, level: int = 2) -> ast.stmt:
        made = ast.FunctionDef(
            self.name(),
            self.arguments(1, annotated=self.chance(0.3)),
            self.body(depth),
            [],
            self.maybe(lambda: ast.Name("float", ast.Load()), 0.2),
        )
        made.type_params = []
        return made

    def module(self) -> ast.Module:
        body = [docstring('Gradients.\n\nArgs:\n    x: "an" array\n', 0)]
        for _ in range(3):
            function = self.define(2)
            function.body.insert(0, docstring("One line \\ 'only'.", 1))
            body += [function, *self.body(1)]
        return ast.Module(body, [])


REALISTIC = """
def forward(x, w1, b1, w2, b2):
    hidden = np.tanh(x @ w1 + b1)  # model.py:12
    logits = hidden @ w2 + b2
    shifted = logits - logits.max(axis=-1, keepdims=True)
    total = np.add.reduce(np.exp(shifted), axis=-1, keepdims=True)
    log_probabilities = (logits - logits.max(axis=-1, keepdims=True)) - np.log(np.exp(
        shifted).sum(axis=-1, keepdims=True))
    return (-np.add.reduce(log_probabilities * labels, axis=None) / x.shape[0] * scale,
        hidden, logits)
"""


def ruff() -> str:
    found = shutil.which("ruff", path=sysconfig.get_path("scripts")) or shutil.which(
        "ruff"
    )
    if found is None:
        pytest.skip("ruff is not installed")
    return found


def assert_ruff_changes_nothing(folder: Path) -> None:
    command = [ruff(), "format", "--isolated", "--no-cache", "--diff"]
    done = subprocess.run(
        [*command, "--line-length", "88", str(folder)],
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout[:3000] + done.stderr[-500:]


def test_ruff_format_changes_nothing(tmp_path: Path) -> None:
    for seed in range(100):
        text = to_source(Gradients(seed).module())
        (tmp_path / f"random_{seed}.py").write_text(text, encoding="utf-8")
    (tmp_path / "realistic.py").write_text(to_source(ast.parse(REALISTIC)))
    assert_ruff_changes_nothing(tmp_path)
