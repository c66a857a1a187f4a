"""Precedence, and when `ruff format` puts parentheses round the end of a statement.

The levels and operands of each node decide the parentheses that are needed; the rest
decides those that appear when a line is too long (Black's "right-hand split").
"""

import ast

from tracegrad.codegen.printer_literals import parseable

# How tightly an expression binds, loosest first.
STATEMENT, NAMED, TEST, OR, AND, NOT, COMPARE = range(7)
BIT_OR, BIT_XOR, BIT_AND, SHIFT, ARITH, TERM, FACTOR, POWER, AWAIT, ATOM = range(7, 17)

BINARY = {
    ast.BitOr: BIT_OR,
    ast.BitXor: BIT_XOR,
    ast.BitAnd: BIT_AND,
    ast.LShift: SHIFT,
    ast.RShift: SHIFT,
    ast.Add: ARITH,
    ast.Sub: ARITH,
    ast.Mult: TERM,
    ast.MatMult: TERM,
    ast.Div: TERM,
    ast.Mod: TERM,
    ast.FloorDiv: TERM,
    ast.Pow: POWER,
}
PRECEDENCE = {
    ast.Yield: STATEMENT,
    ast.YieldFrom: STATEMENT,
    ast.NamedExpr: NAMED,
    ast.Lambda: TEST,
    ast.IfExp: TEST,
    ast.Compare: COMPARE,
    ast.Await: AWAIT,
}


def precedence(node: ast.AST) -> int:
    """Returns how tightly `node` binds; below the level around it it needs `(...)`."""
    kind = type(node)
    if kind is ast.Name or kind is ast.Constant:
        return ATOM
    match node:
        case ast.BinOp(op=operator):
            return BINARY[type(operator)]
        case ast.BoolOp(op=junction):
            return AND if isinstance(junction, ast.And) else OR
        case ast.UnaryOp(op=sign):
            return NOT if isinstance(sign, ast.Not) else FACTOR
        case ast.Tuple(elts=elements):
            return STATEMENT if elements else ATOM
    return PRECEDENCE.get(kind, ATOM)


def operands(node: ast.expr) -> list[tuple[ast.expr, int]]:
    """Returns the subexpressions that are not inside brackets, with their levels."""
    return [(parseable(operand), level) for operand, level in _operands(node)]


def _operands(node: ast.expr) -> list[tuple[ast.expr, int]]:
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            level = BINARY[type(op)]
            if level == POWER:
                return [(left, AWAIT), (right, FACTOR)]
            return [(left, level), (right, level + 1)]
        case ast.BoolOp(_, values):
            # One higher: `(a and b) and c` is another tree than `a and b and c`.
            return [(value, precedence(node) + 1) for value in values]
        case ast.Compare(left, _, comparators):
            return [(operand, BIT_OR) for operand in (left, *comparators)]
        case ast.UnaryOp(_, operand):
            if isinstance(operand, ast.BinOp) and isinstance(operand.op, ast.Pow):
                # `-(x**2)`, not `-x**2`: the reader should not need to remember.
                return [(operand, ATOM)]
            return [(operand, precedence(node))]
        case ast.IfExp(test, body, orelse):
            return [(body, OR), (test, OR), (orelse, TEST)]
        case ast.Attribute(value) | ast.Subscript(value) | ast.Await(value):
            return [(value, base_level(node, value))]
        case ast.Call(func):
            return [(func, ATOM)]
        case ast.Lambda(_, body):
            return [(body, TEST)]
        case ast.NamedExpr(target, value):
            return [(target, ATOM), (value, TEST)]
        case ast.Starred(value):
            return [(value, BIT_OR)]
        case ast.Yield(value) | ast.YieldFrom(value) if value is not None:
            return [(value, TEST)]
        case ast.Tuple(elts) if elts:
            return [(elt, TEST) for elt in elts]
    return []


def base_level(node: ast.expr, value: ast.expr) -> int:
    """Returns the level of what `.name`, `[...]` or `await` is applied to."""
    if isinstance(node, ast.Attribute) and isinstance(value, ast.Constant):
        # `1.real` does not parse and `1.0.real` does not read: `(1).real`.
        if type(value.value) in (int, float):
            return ATOM + 1
    return ATOM


def wrapped(node: ast.expr, level: int) -> bool:
    """Returns whether `node` gets parentheses at `level`."""
    return precedence(node) < level


def is_tight(values: list[tuple[ast.expr, int]]) -> bool:
    """Returns whether `**` between the operands has no spaces: `x**2`."""
    return all(is_plain(node) and not wrapped(node, level) for node, level in values)


def is_plain(node: ast.expr) -> bool:
    """Returns whether `node` is a number, a dotted name, or the minus of one."""
    node = parseable(node)
    match node:
        case ast.Name():
            return True
        case ast.Constant(value):
            return value is None or type(value) in (int, float, complex, bool)
        case ast.UnaryOp(op, operand):
            return not isinstance(op, ast.Not) and is_plain(operand)
        case ast.Attribute(value):
            return is_plain(value)
    return False


def is_simple_bound(node: ast.expr) -> bool:
    """Returns whether a bound of a slice leaves the colon without spaces."""
    node = parseable(node)
    if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
        return is_simple_bound(node.operand)
    return isinstance(node, ast.Name | ast.Constant)


def is_postfix(node: ast.AST) -> bool:
    """Returns whether `node` is a call or a subscript."""
    return isinstance(node, ast.Call | ast.Subscript)


def is_tuple(node: ast.AST) -> bool:
    """Returns whether `node` is a tuple that is not empty."""
    return isinstance(node, ast.Tuple) and bool(node.elts)


def own_brackets(node: ast.expr) -> bool:
    """Returns whether `node` ends in brackets of its own that are not empty."""
    match node:
        case ast.List(elts) | ast.Set(elts):
            return bool(elts)
        case ast.Dict(keys):
            return bool(keys)
        case ast.Call(_, args, keywords):
            return bool(args or keywords)
    comprehensions = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    return isinstance(node, comprehensions | ast.Subscript)


def any_brackets(node: ast.expr) -> bool:
    """Returns whether `node` has brackets of its own, even empty ones."""
    return (
        own_brackets(node)
        or isinstance(node, ast.List | ast.Dict | ast.Call | ast.Set)
        or (isinstance(node, ast.Tuple) and not node.elts)
    )


def is_fluent(node: ast.expr) -> bool:
    """Returns whether a chain of methods is long enough for one method a line."""
    links = 0
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        inner, level = operands(node)[0]
        if wrapped(inner, level):
            # The parentheses of a tuple are its own: they do not start a chain.
            links += isinstance(node, ast.Attribute) and not is_tuple(inner)
            break
        links += isinstance(node, ast.Attribute) and is_postfix(inner)
        node = inner
    return links >= 2


def needs_parens(node: ast.expr) -> str:
    """Returns when `node` at the end of a statement is parenthesised.

    "multiline" if it takes several lines, "best-fit" if that makes it fit, or "never".
    """
    match node:
        case ast.Attribute() | ast.Call() | ast.Subscript():
            if is_fluent(node):
                return "multiline"
            inner, level = operands(node)[0]
            if wrapped(inner, level):
                return "never"
            return needs_parens(inner)
        case ast.UnaryOp():
            operand, level = operands(node)[0]
            return "never" if wrapped(operand, level) else needs_parens(operand)
        case ast.Name() | ast.Constant() | ast.JoinedStr():
            return "best-fit"
        case ast.Tuple() | ast.List() | ast.Set() | ast.Dict() | ast.ListComp():
            return "never"
        case ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return "never"
    return "multiline"


class _Scan:
    """What `can_omit_parens` needs to know of an expression outside its brackets."""

    def __init__(self, node: ast.expr) -> None:
        self.loosest, self.count = ATOM + 1, 0
        self.brackets = False
        # Whether the expression starts, or ends, with brackets that are not empty.
        self.first: bool | None = None
        self.last = False
        self.visit(node, STATEMENT)

    def operator(self, level: int, count: int = 1) -> None:
        if level < self.loosest:
            self.loosest, self.count = level, 0
        if level == self.loosest:
            self.count += count

    def visit(self, node: ast.expr, level: int) -> None:
        is_wrapped = wrapped(node, level)
        if is_wrapped:
            self.brackets = True
        else:
            self.enter(node)
        if (
            is_wrapped
            or not operands(node)
            or isinstance(node, ast.Call | ast.Subscript | ast.Attribute)
        ):
            splits = own_brackets(node) and not isinstance(node, ast.Subscript)
            self.last = is_wrapped or splits
        if self.first is None:
            self.first = self.last

    def enter(self, node: ast.expr) -> None:
        match node:
            case ast.BinOp():
                self.operator(precedence(node))
            case ast.BoolOp():
                # `and` and `or` count as one level here.
                self.operator(OR, len(node.values) - 1)
            case ast.Compare():
                self.operator(COMPARE, len(node.ops))
            case ast.IfExp():
                self.operator(TEST, 2)
            case ast.UnaryOp() | ast.Lambda() | ast.Await() | ast.Starred():
                if self.first is None:
                    self.first = False
                if isinstance(getattr(node, "op", None), ast.Invert):
                    self.operator(FACTOR)
            case _:
                self.brackets |= any_brackets(node)
        for operand, level in operands(node):
            self.visit(operand, level)
        if isinstance(node, ast.Attribute):
            value, level = operands(node)[0]
            if wrapped(value, level) or any_brackets(value):
                self.operator(ATOM)


def can_omit_parens(node: ast.expr) -> bool:
    """Returns whether breaking the brackets inside may do instead of parentheses."""
    scan = _Scan(node)
    if not scan.brackets or scan.count > 1:
        return False
    return scan.loosest >= ATOM or bool(scan.first) or scan.last
