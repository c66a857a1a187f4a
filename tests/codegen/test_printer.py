"""The printer's text, case by case."""

import ast
import builtins
import math

import pytest

from tracegrad.codegen.printer import (
    Blank,
    Comment,
    Printer,
    PrinterError,
    docstring,
    fits,
    strip_comments,
    to_source,
    with_comment,
)
from tracegrad.codegen.printer_layout import text_width

X = ast.Name("x", ast.Load())


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def statement(text: str) -> ast.stmt:
    return ast.parse(text).body[0]


def same(tree: ast.AST, other: ast.AST) -> bool:
    return ast.dump(tree) == ast.dump(other)


@pytest.mark.parametrize(
    "text",
    [
        # Powers: no spaces between simple operands only.
        "r**2",
        "(x + 1) ** 2",
        "f(x) ** 2",
        "a[0] ** 2",
        "-(x**2)",
        "not (x**2)",
        "(-x) ** 2",
        "2.0**x",
        "x.a.b**-y",
        "x**y**z",
        "(x**y) ** z",
        "x ** f(y)",
        "(-1) ** x",
        "await x ** 2 if y else await (x**2)",
        # Slices: spaces round the colon unless all bounds are simple.
        "a[1:n]",
        "a[1 : n + 1]",
        "a[: n + 1]",
        "a[n + 1 :]",
        "a[-1:]",
        "x[::-1]",
        "x[:: n.a]",
        "a[:, None]",
        "a[..., 1:2]",
        "a[1:2,]",
        "a[(1,)]",
        "a[()]",
        "a[(*b,)]",
        "a[(yield)]",
        # Parentheses only where they are needed.
        "a + b * c - d",
        "(a + b) * c",
        "a - (b - c)",
        "a / (b * c)",
        "a @ b.T @ c",
        "-x * y",
        "-(x * y)",
        "--x",
        "not a and (b or c)",
        "(a and b) and c",
        "a < b <= c",
        "(a < b) < c",
        "a if b else c if d else e",
        "(a if b else c) if d else e",
        "(lambda: x)()",
        "lambda x, /, y=1, *a, z, w=2, **k: (x, y)",
        "lambda: (yield)",
        "(x := 1) + 2",
        "f(x := 1)",
        "[x := 1, 2]",
        "(a, b)[0]",
        "(1).real",
        "(1.0).real",
        "1j.real",
        "x.real",
        "f(a, *b, c=1, **d)",
        '{**a, "b": 1, **(c or d)}',
        "{1, *a}",
        "{}",
        "[]",
        "()",
        "(1,)",
        "(*a, b)",
        "f(x for x in y)",
        "f((x for x in y), 1)",
        "[x for a, b in c if d if e for f in (g if h else i)]",
        "[x async for (a,) in b]",
        "{a: b for c in d}",
        "{a for b in c}",
        "x is not y",
        "x not in y",
        "~x | y ^ z & w << 1 >> 2",
        "None is True is ...",
        # Literals.
        '"a"',
        "'say \"hi\"'",
        '"it\'s"',
        '"both \' and \\""',
        '"tab\\t newline\\n nul\\x00 \\ud800 é \\u200b"',
        'b"\\xff\\x00a"',
        "b'\"'",
        "1e-07",
        "1e16",
        "1e20j",
        "12345678901234567890",
        # f-strings.
        'f"a {x} {{b}} {y!r:>{w}} {z:.3f}"',
        "f\"{d['k']}\"",
        "f'\"{x}\"'",
        'f"{(lambda: 1)} {(x := 1)} { {1: 2} }"',
        'f""',
    ],
)
def test_expressions_are_printed_as_ruff_formats_them(text: str) -> None:
    tree = expression(text)
    printed = to_source(tree)
    assert printed == text
    assert same(expression(printed), tree)


def test_starred_operands_get_parentheses() -> None:
    assert to_source(expression("f(*a or b)")) == "f(*(a or b))"
    assert to_source(expression("f(**a or b)")) == "f(**(a or b))"


@pytest.mark.parametrize(
    "text",
    [
        "x = (1, 2)",
        "a, b = b, a",
        "(a,) = b",
        "[a, *b] = c",
        "a = b = (c, d)",
        "x[0] += 1",
        "x: int",
        "(x): int = 1",
        "x.a: int = (1, 2)",
        "return",
        "return a, b",
        "return (a,)",
        "return *a, b",
        "x = yield",
        "x = yield a, b",
        "yield",
        "await x",
        "(x := 1)",
        "del a, b[0]",
        "del (a, b)",
        "assert x, y",
        "raise x from y",
        "raise",
        "import a.b as c, d",
        "from . import x",
        "from ..a.b import x as y, z",
        "from a import *",
        "global a, b",
        "nonlocal a",
        "pass",
        "for a, b in (x, y):\n    break\nelse:\n    continue",
        "for (a,) in x:\n    pass",
        "while x := f():\n    pass",
        "if a:\n    pass\nelif b:\n    pass\nelse:\n    pass",
        "if a:\n    pass\nelse:\n    if b:\n        pass\n    c",
        "with a as b, c(d) as (e, f):\n    pass",
        "with ((a, b)):\n    pass",
        "with (a, b) as c:\n    pass",
        "try:\n    pass\nexcept (a, b) as e:\n    pass\nexcept c:\n    pass\n"
        "else:\n    pass\nfinally:\n    pass",
        "class A:\n    pass",
        "class A(B, metaclass=C):\n    x = 1",
        "class A((x for x in y)):\n    pass",
        "@a.b(c)\ndef f(): ...",
        "async def f(a, b: int = 1, /, c=2, *d: int, e, g: int = 3, **h) -> int:\n"
        "    async with a as b:\n        async for c in d:\n            pass",
        "def f(*, a):\n    return a",
    ],
)
def test_statements(text: str) -> None:
    printed = to_source(statement(text))
    assert printed == text
    assert same(ast.parse(printed), ast.parse(text))


@pytest.mark.parametrize(
    "value",
    [
        -1, -2.5, -0.0, math.inf, -math.inf, -2j, 1 + 2j, 1 - 2j, -1.5 + 2j, -1 - 2j,
        complex(0.0, -2.0), complex(-0.0, 2.0), complex(-0.0, -2.0), complex(1.0, -0.0),
        complex(math.inf, 1.0), complex(0.0, math.inf), complex(-1.0, -math.inf),
        10**30, -(10**30), 1e308, 5e-324, True, None, (1, -2.0, (3,)), (), "\0", b"\0",
    ],
)  # fmt: skip
def test_every_constant_has_its_value_wherever_it_stands(value: object) -> None:
    constant = ast.Constant(value)
    assert repr(eval(to_source(constant))) == repr(value)
    pair = eval(to_source(ast.List([constant, constant], ast.Load())))
    assert repr(pair) == repr([value, value])
    if isinstance(value, int | float):
        power = ast.BinOp(constant, ast.Pow(), ast.Constant(0))
        assert repr(eval(to_source(power))) == repr(value**0)
        negated = ast.UnaryOp(ast.USub(), constant)
        assert repr(eval(to_source(negated))) == repr(-value)


def test_special_floats_are_spelled_out() -> None:
    assert to_source(ast.Constant(math.inf)) == 'float("inf")'
    assert to_source(ast.Constant(-math.inf)) == '-float("inf")'
    assert to_source(ast.Constant(math.nan)) == 'float("nan")'
    assert to_source(ast.Constant(complex(math.inf, -0.0))) == (
        'complex(float("inf"), -0.0)'
    )
    base = ast.BinOp(ast.Constant(-1.0), ast.Pow(), ast.Constant(2))
    assert to_source(base) == "(-1.0) ** 2"
    real = ast.Attribute(ast.Constant(-1), "real", ast.Load())
    assert to_source(real) == "(-1).real"


def test_ints_beyond_the_limit_of_decimal_text() -> None:
    value = 7**6000
    assert ast.literal_eval(to_source(ast.Constant(value))) == value


def test_constants_of_other_types_are_refused() -> None:
    class Number(float):
        def __repr__(self) -> str:
            return "__import__('os')"

    for value in (Number(1.0), frozenset([1]), object(), [1]):
        with pytest.raises(PrinterError, match="a constant cannot be of type"):
            to_source(ast.Constant(value))


@pytest.mark.parametrize(
    "name", ["a b", "", "1a", "if", "None", "a;b", "a\nb", "a.b", "ﬁ", "ｅval", "x#", 3]
)
@pytest.mark.parametrize(
    "make",
    [
        lambda name: ast.Name(name, ast.Load()),
        lambda name: ast.Attribute(X, name, ast.Load()),
        lambda name: ast.Attribute(ast.Attribute(X, name, ast.Load()), "a", ast.Load()),
        lambda name: ast.Call(X, [], [ast.keyword(name, X)]),
        lambda name: ast.Global([name]),
        lambda name: ast.Import([ast.alias("a", name)]),
        lambda name: ast.ClassDef(name, [], [], [ast.Pass()], []),
        lambda name: ast.Lambda(
            ast.arguments([], [ast.arg(name)], None, [], [], None, []), X
        ),
        lambda name: ast.Try(
            [ast.Pass()], [ast.ExceptHandler(X, name, [ast.Pass()])], [], []
        ),
    ],
)
def test_names_cannot_inject_code(name: str, make) -> None:
    with pytest.raises(PrinterError, match="is not a name"):
        to_source(make(name))


def test_dotted_names_only_in_imports() -> None:
    assert to_source(ast.Import([ast.alias("a.b", None)])) == "import a.b"
    with pytest.raises(PrinterError):
        to_source(ast.Import([ast.alias("a.b;c", None)]))
    with pytest.raises(PrinterError):
        to_source(ast.ImportFrom("a import b\nimport os", [ast.alias("c", None)], 0))


HOSTILE = [
    'x"""\n__import__("os").system("true")\n"""',
    "x'''\nimport os\n'''",
    "\\",
    '\\"',
    '"',
    '""""',
    "\\N{DASH}",
    "\x00",
    "a\r\nb",
    "\ud800",
    "\u202e\u2028\u2029\x85\x0c",
    " padded ",
    "ends with spaces   \n\n   ",
    "\n  \n",
    "",
    "{__import__('os')}",
    "# type: ignore\nimport os",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_strings_cannot_break_out(text: str) -> None:
    module = ast.Module(
        [
            ast.Expr(ast.Constant(text)),
            ast.FunctionDef(
                "f",
                ast.arguments([], [], None, [], [], None, []),
                [ast.Expr(ast.Constant(text)), ast.Return(ast.Constant(text))],
                [],
            ),
            ast.Expr(ast.JoinedStr([ast.Constant(text)] if text else [])),
            ast.Expr(ast.Constant(text.encode("utf-8", "surrogatepass"))),
        ],
        [],
    )
    module.body[1].type_params = []
    parsed = ast.parse(to_source(module))
    assert ast.dump(parsed) == ast.dump(module)


@pytest.mark.parametrize("text", HOSTILE)
def test_comments_cannot_break_out(text: str) -> None:
    stmt = with_comment(statement("x = 1"), text)
    module = ast.Module([Comment(text), stmt, Comment(text)], [])
    assert same(ast.parse(to_source(module)), ast.parse("x = 1"))


def test_unknown_nodes_are_refused() -> None:
    for text in (
        "match x:\n    case 1:\n        pass",
        "try:\n    a\nexcept* b:\n    c",
    ):
        with pytest.raises(PrinterError, match=r"cannot print (Match|TryStar)"):
            to_source(ast.parse(text))
    function = statement("def f(): ...")
    function.type_params = [ast.Pass()]
    with pytest.raises(PrinterError, match="with type parameters"):
        to_source(function)


def test_text_that_no_fstring_before_312_can_hold() -> None:
    value = ast.FormattedValue(ast.Constant("\n"), -1, None)
    with pytest.raises(PrinterError, match="cannot stand inside an f-string"):
        to_source(ast.JoinedStr([value]))


def test_an_fstring_takes_the_quotes_that_its_parts_leave() -> None:
    # The first kinds of quotes fail in the middle of the line.
    for text in ("""x = f(1, f'''{'"'} {"'"}''')""", """x = y, f"{f'{z}'}" """):
        printed = to_source(ast.parse(text))
        assert printed.startswith("x = ")
        assert same(ast.parse(printed), ast.parse(text))


# --- Comments, blank lines, docstrings ---------------------------------------------


def test_trailing_comment_counts_in_the_width() -> None:
    line = statement("d_hidden = d_logits @ w2.T * (1.0 - hidden**2)")
    text = to_source(with_comment(line, "model.py:12"))
    assert text == "d_hidden = d_logits @ w2.T * (1.0 - hidden**2)  # model.py:12"
    assert len(to_source(with_comment(line, "c" * 38))) == 88
    above = to_source(with_comment(line, "c" * 39))
    assert above.splitlines()[0] == "# " + "c" * 39
    assert above.splitlines()[1] == "d_hidden = d_logits @ w2.T * (1.0 - hidden**2)"


def test_comments_of_compound_statements_stand_on_their_header() -> None:
    module = ast.parse("@a\ndef f(x):\n    if x:\n        y\n    elif z:\n        w")
    function = module.body[0]
    with_comment(function, "one")
    with_comment(function.body[0], "two")
    with_comment(function.body[0].orelse[0], "three")
    with_comment(function.body[0].body[0], "four")
    assert to_source(module).splitlines() == [
        "@a",
        "def f(x):  # one",
        "    if x:  # two",
        "        y  # four",
        "    elif z:  # three",
        "        w",
    ]


def test_comment_and_blank_statements() -> None:
    module = ast.Module(
        [
            Blank(),
            Comment("first\n  second"),
            statement("import numpy as np"),
            statement("x = 1"),
            Blank(),
            Blank(),
            Blank(),
            statement("y = 2"),
            Comment(""),
            statement("def f():\n    pass"),
            Comment("last"),
            Blank(),
        ],
        [],
    )
    module.body[9].body = [Comment("only a comment")]
    assert to_source(module).splitlines() == [
        "# first",
        "#   second",
        "import numpy as np",
        "",
        "x = 1",
        "",
        "",
        "y = 2",
        "",
        "",
        "#",
        "def f():",
        "    # only a comment",
        "    pass",
        "",
        "",
        "# last",
    ]


def test_strip_comments() -> None:
    module = ast.parse("def f():\n    pass\nif x:\n    y\nelse:\n    z")
    module.body[0].body = [Comment("a"), Blank()]
    module.body[1].orelse = [Comment("b")]
    stripped = strip_comments(module)
    assert same(stripped, ast.parse("def f():\n    pass\nif x:\n    y"))
    assert isinstance(module.body[0].body[0], Comment)
    compile(ast.fix_missing_locations(stripped), "<test>", "exec")


def test_an_else_of_only_comments_has_a_body() -> None:
    branch = statement("if x:\n    y")
    branch.orelse = [Comment("nothing to do")]
    assert to_source(branch) == "if x:\n    y\nelse:\n    # nothing to do\n    pass"
    parsed = ast.parse(to_source(ast.Module([branch], [])))
    assert same(parsed, ast.parse(to_source(branch)))


def test_docstring_is_indented_for_its_depth() -> None:
    function = statement("def f(x):\n    return x")
    function.body.insert(0, docstring("Doubles.\n\nArgs:\n    x: a \\ number.\n", 1))
    assert to_source(function).splitlines() == [
        "def f(x):",
        '    """Doubles.',
        "",
        "    Args:",
        "        x: a \\\\ number.",
        '    """',
        "    return x",
    ]
    assert to_source(ast.Module([docstring("One line.", 0)], [])) == '"""One line."""\n'


def test_a_string_that_is_no_docstring_is_an_ordinary_string() -> None:
    assert to_source(ast.parse("if x:\n    'a'")) == 'if x:\n    "a"\n'
    assert to_source(ast.parse("x\n'a'")) == 'x\n"a"\n'


# --- Width and layout ----------------------------------------------------------------


def test_fits_counts_indent_and_comment() -> None:
    line = statement("x = a + b")
    assert fits(line, 0, 9)
    assert not fits(line, 0, 8)
    assert fits(line, 4, 13)
    assert not fits(line, 5, 13)
    with_comment(line, "c")
    assert fits(line, 0, 14)
    assert not fits(line, 0, 13)
    assert not fits(statement("if x:\n    y"), 0)


def test_the_width_of_text_counts_columns() -> None:
    assert text_width(to_source(expression("a+b"))) == 5
    # Wide characters take two columns, combining ones none.
    assert text_width(to_source(ast.Constant("中"))) == 4
    assert text_width(to_source(ast.Name("é", ast.Load()))) == 1


LAYOUTS = [
    # The last bracket breaks first.
    """\
d_weights = np.add.reduce(
    d_logits[:, :, None] * hidden_activations[:, None, :], axis=0, keepdims=True
)
""",
    # One argument a line, with a trailing comma, if they do not fit on one.
    """\
d_weights = function_with_a_long_name(
    first_argument_with_a_long_name,
    second_argument_with_a_long_name + 1,
    keyword_argument=third_argument,
)
""",
    # Chains break before their loosest operators, in parentheses.
    """\
total = (
    first_summand_with_a_long_name * factor
    + second_summand_with_a_long_name * factor
    - third_summand_with_a_long_name
)
""",
    """\
return -np.add.reduce(log_probabilities * labels) / inputs.shape[0], (
    first_hidden_layer,
    second_hidden_layer,
)
""",
    """\
return (
    log_probabilities_of_the_labels * labels_of_the_batch,
    first_hidden_layer_of_the_network,
    second_hidden_layer_of_the_network,
)
""",
    # A call in the target does not break before the value does.
    """\
parameters["first_layer"]["weights"], parameters["first_layer"]["bias"] = (
    updated_weights_of_the_first_layer,
    updated_bias,
)
""",
    """\
def forward_and_backward(
    first_layer_weights, first_layer_bias, second_layer_weights, second_layer_bias
):
    pass
""",
    """\
if (
    isinstance(first_layer_weights, np.ndarray)
    and first_layer_weights.dtype == np.float32
    and first_layer_weights.ndim == 2
):
    pass
""",
    """\
probabilities_of_the_classes = (
    np.exp(logits_of_the_classes - maximum) / normalisation_over_the_classes
)
""",
    """\
gradients = {
    "weights": d_weights_of_the_first_layer,
    "bias": d_bias_of_the_first_layer.sum(axis=0),
}
""",
    """\
from numpy.lib.stride_tricks import (
    as_strided,
    broadcast_arrays,
    broadcast_shapes,
    broadcast_to,
)
""",
    """\
d_inputs = (
    np.exp(logits_of_the_classes)
    .sum(axis=0, keepdims=True)
    .reshape(inputs_of_the_layer.shape)
    .transpose(1, 0)
)
""",
    # A name that does not fit gets parentheses, unless they do not help either.
    f"""\
{"x" * 50} = (
    {"y" * 50}
)
""",
    f"""\
{"x" * 50} = {"y" * 90}
""",
]


@pytest.mark.parametrize("text", LAYOUTS)
def test_long_lines_break_as_ruff_breaks_them(text: str) -> None:
    tree = ast.parse(text)
    assert to_source(tree) == text
    assert same(ast.parse(to_source(tree)), tree)


def test_width_can_be_chosen() -> None:
    text = Printer(width=20).text(ast.parse("total = first + second + third"))
    assert text == "total = (\n    first\n    + second\n    + third\n)\n"


def test_deep_and_long_expressions() -> None:
    chain = expression(" + ".join(f"x{i}" for i in range(200)))
    printed = to_source(
        ast.Module([ast.Assign([ast.Name("y", ast.Store())], chain)], [])
    )
    assert same(ast.parse(printed).body[0].value, chain)
    assert printed.count("\n") == 202
    nested = expression("f(" * 60 + "x" + ")" * 60)
    assert same(expression(to_source(nested)), nested)


def test_text_runs() -> None:
    text = to_source(
        ast.parse("def f(x):\n    return (x + 1) ** 2 if x > -1 else -x ** 2")
    )
    namespace: dict = {}
    builtins.exec(compile(text, "<test>", "exec"), namespace)
    assert namespace["f"](2) == 9
    assert namespace["f"](-3) == -9
