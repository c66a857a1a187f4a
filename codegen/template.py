"""From an op's body to an expression of the emitted source.

A body is `return <expression>`, under static `if`s on attributes.  Array parameters are
replaced by the expressions of the arguments, whatever depends on attributes alone is
evaluated, and keywords that equal the op's default are dropped.  A body with other
statements becomes a helper function of the emitted file.
"""

from __future__ import annotations

import ast
import builtins
import copy
import importlib
import inspect
import math
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad.codegen.backends import JAX, NUMPY, Backend
from tracegrad.codegen.width import bounds
from tracegrad.errors import UnsupportedError
from tracegrad.ir.dims import to_ast as size_to_ast
from tracegrad.ir.index import ARRAY, Slice
from tracegrad.ir.types import Dim
from tracegrad.ops.define import METHODS, Op
from tracegrad.ops.library import Library
from tracegrad.ops.outside import Outside

UNTRACED = "UntracedBranch"
_ARRAY_LIBRARIES = {NUMPY.alias, JAX.alias}
_PARSED: dict[Callable, ast.FunctionDef] = {}


def parse_body(function: Callable) -> ast.FunctionDef:
    """The definition of an op body, without decorators, parsed once."""
    tree = _PARSED.get(function)
    if tree is None:
        text = textwrap.dedent(inspect.getsource(function))
        found = ast.parse(text).body[0]
        if not isinstance(found, ast.FunctionDef) or found.name != function.__name__:
            raise RuntimeError(f"the source of {function.__qualname__} has changed")
        tree = _PARSED[function] = found
    return tree


def name(identifier: str) -> ast.Name:
    """A read of a variable."""
    return ast.Name(identifier, ast.Load())


def names_in(tree: ast.AST) -> set[str]:
    """The variables that stand in a tree."""
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}


def literal(value: Any, context: Context) -> ast.expr:
    """A static attribute or a scalar constant as an expression."""
    if isinstance(value, Dim):
        return size_to_ast(value, context.size)
    if isinstance(value, Slice):
        parts = [
            None if p is None else literal(p, context)
            for p in (value.start, value.stop, value.step)
        ]
        return ast.Slice(*parts)
    if type(value) is tuple:
        return ast.Tuple([literal(v, context) for v in value], ast.Load())
    if type(value) is list:
        return ast.List([literal(v, context) for v in value], ast.Load())
    if isinstance(value, np.dtype):
        return dtype_expression(value, context)
    if isinstance(value, np.generic):
        call = dtype_expression(value.dtype, context)
        return ast.Call(call, [literal(value.item(), context)], [])
    if isinstance(value, type) and issubclass(value, np.generic):
        return dtype_expression(np.dtype(value), context)
    if type(value) is float and not math.isfinite(value):
        return not_finite(value, context)
    if isinstance(value, Library):
        return name(context.library(value))
    return number(value)


def not_finite(value: float, context: Context) -> ast.expr:
    """`np.inf`, `-np.inf` or `np.nan`."""
    name_of_it = "nan" if math.isnan(value) else "inf"
    made = ast.Attribute(name(context.backend.alias), name_of_it, ast.Load())
    return ast.UnaryOp(ast.USub(), made) if value < 0.0 else made


def number(value: Any) -> ast.expr:
    """A Python constant; a negative number is a minus and a positive one."""
    if type(value) in (int, float) and (value < 0 or str(value)[0] == "-"):
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    return ast.Constant(value)


def dtype_expression(dtype: np.dtype, context: Context) -> ast.expr:
    """`np.float32` and the like."""
    spelled = {"bool": "bool_"}.get(dtype.name, dtype.name)
    return ast.Attribute(name(context.backend.alias), spelled, ast.Load())


class Context:
    """What the expressions of one emitted module share: imports, helpers, sizes.

    Attributes:
        backend: the target.
        libraries: modules used by bodies, alias -> `Library`.
        helpers: functions that ops are emitted as, by name.
        sizes: symbolic size -> its variable, in the function being written.
        classes: of the user's, that results are made of.
        guarded: whether a function raises the error for branches not traced.
        body: gives the name of the function that a body is emitted as.
        outsides: functions of the user's that are called, by name.
        functions: names of the module's public functions.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.libraries: dict[str, Library] = {}
        self.helpers: dict[str, ast.FunctionDef] = {}
        self.sizes: dict[str, str] = {}
        self.classes: list[type] = []
        self.guarded = False
        self.claim: Callable[[str], str] = str
        self.body: Callable[[Any], ast.expr] | None = None
        self.outsides: dict[str, Outside] = {}
        self.functions: frozenset[str] = frozenset()

    def begin(self, claim: Callable[[str], str]) -> None:
        """Start a function: its sizes get their variables from `claim`."""
        self.sizes = {}
        self.claim = claim

    def size(self, symbol: str) -> ast.expr:
        """The variable that holds a symbolic size."""
        if symbol not in self.sizes:
            self.sizes[symbol] = self.claim(symbol)
        return name(self.sizes[symbol])

    def call_helper(
        self, op: Op, args: Sequence[ast.expr], attrs: dict[str, Any]
    ) -> ast.expr:
        """A call of an op whose body is emitted as a function of the module."""
        if op.name not in self.helpers:
            self.helpers[op.name] = _helper(op, self)
        keywords = []
        for key, value in attrs.items():
            default = op.defaults[key]
            if type(value) is not type(default) or value != default:
                keywords.append(ast.keyword(key, literal(value, self)))
        return ast.Call(name(op.name), list(args), keywords)

    def call_function(self, function: Callable, args: Sequence[ast.expr]) -> ast.expr:
        """A call of a function of ours that the module carries a copy of."""
        if function.__name__ not in self.helpers:
            made = copy.deepcopy(parse_body(function))
            self.helpers[made.name] = _Libraries(function, self).visit(made)
        return ast.Call(name(function.__name__), list(args), [])

    def untraced(self) -> str:
        """The name of the error for a branch that was not traced."""
        self.guarded = True
        return UNTRACED

    def import_class(self, cls: type) -> str:
        """Note that a class of the user's is needed to rebuild a result."""
        if cls not in self.classes:
            self.classes.append(cls)
        return cls.__name__

    def outside(self, called: Outside) -> ast.expr:
        """The name of a function of the user's that is called."""
        wanted, number = called.name, 2
        while self.outsides.get(wanted, called).function is not called.function:
            wanted, number = f"{called.name}_{number}", number + 1
        self.outsides[wanted] = called
        return name(wanted)

    def library(self, module: Library) -> str:
        """Note that a library is used; its name in the emitted source."""
        alias = module.module.rpartition(".")[2]
        self.libraries[alias] = module
        return alias


class Template:
    """The body of one op under fixed attributes.

    Attributes:
        expression: what it returns, or None if the body has other statements.
        uses: how often the expression reads each input.
        width: about how many columns it takes beside its inputs.
    """

    __slots__ = ("_filler", "arity", "context", "expression", "op", "uses", "width")

    def __init__(
        self, op: Op, attrs: dict[str, Any], context: Context, arity: int
    ) -> None:
        self.op = op
        self.context = context
        self.arity = arity
        function = op.bodies.get(context.backend.name, op.run)
        self.expression: ast.expr | None = None
        self._filler: Filler | None = None
        if op.emitter is None and not op.helper:
            returned = _static_return(function, attrs)
            if returned is not None:
                specialise = _Specialise(op, function, attrs, context, arity)
                self.expression = specialise.visit(copy.deepcopy(returned))
        self.uses = self._count()
        self.width = 20 if self.expression is None else bounds(self.expression)[0]

    def _count(self) -> list[int]:
        if self.expression is None:
            return [1] * self.arity
        counts = [0] * self.arity
        for node in ast.walk(self.expression):
            if isinstance(node, _Hole):
                counts[node.position] += 1
        return counts

    def fill(self, args: Sequence[ast.expr]) -> ast.expr:
        """The expression with the arguments in place."""
        assert self.expression is not None
        if self._filler is None:
            self._filler = compile_filler(self.expression)
        return self._filler(args)


def sign_inward(tree: ast.expr) -> ast.expr:
    """`-(a * b)` as `-a * b`, which is the same to the last bit if `a` is a float."""
    if not isinstance(tree, ast.UnaryOp) or not isinstance(tree.op, ast.USub):
        return tree
    inner = tree.operand
    if not isinstance(inner, ast.BinOp):
        return tree
    if not isinstance(inner.op, ast.Mult | ast.Div):
        return tree
    left = sign_inward(ast.UnaryOp(ast.USub(), inner.left))
    return ast.BinOp(left, inner.op, inner.right)


def as_method(tree: ast.expr) -> ast.expr:
    """`np.sum(d, axis=0)` as `d.sum(axis=0)`, which costs less, for a variable `d`."""
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Attribute):
        return tree
    module, method = tree.func.value, tree.func.attr
    if not isinstance(module, ast.Name) or module.id not in _ARRAY_LIBRARIES:
        return tree
    if method not in METHODS or not tree.args or not isinstance(tree.args[0], ast.Name):
        return tree
    function = ast.Attribute(tree.args[0], method, ast.Load())
    return ast.Call(function, tree.args[1:], tree.keywords)


def factors_in_line(tree: ast.expr) -> ast.expr:
    """`c * (a * b)` as `c * a * b`: as many operations, and no parentheses."""
    if not isinstance(tree, ast.BinOp) or not isinstance(tree.op, ast.Mult):
        return tree
    right = tree.right
    if not isinstance(right, ast.BinOp) or not isinstance(right.op, ast.Mult | ast.Div):
        return tree
    left = factors_in_line(ast.BinOp(tree.left, ast.Mult(), right.left))
    return ast.BinOp(left, right.op, right.right)


def signs_in_line(tree: ast.expr) -> ast.expr:
    """`a + -b * c` as `a - b * c`, the same to the last bit, and vice versa."""
    if not isinstance(tree, ast.BinOp) or not isinstance(tree.op, ast.Add | ast.Sub):
        return tree
    positive = without_sign(tree.right)
    if positive is None:
        return tree
    op = ast.Sub() if isinstance(tree.op, ast.Add) else ast.Add()
    return ast.BinOp(tree.left, op, positive)


def negated(test: ast.expr) -> ast.expr:
    """`not a`, and `a` for a test that begins with `not`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    return ast.UnaryOp(ast.Not(), test)


def without_sign(tree: ast.expr) -> ast.expr | None:
    """`a` if the expression has a minus that applies to it all, else None."""
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return tree.operand
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult | ast.Div):
        left = without_sign(tree.left)
        if left is not None:
            return ast.BinOp(left, tree.op, tree.right)
        right = tree.right
        if isinstance(right, ast.UnaryOp) and isinstance(right.op, ast.USub):
            return ast.BinOp(tree.left, tree.op, right.operand)
    return None


class _Hole(ast.expr):
    """The place of an input in a template."""

    _fields = ()

    def __init__(self, position: int) -> None:
        super().__init__()
        self.position = position


def check_in_library(function: Callable, node: ast.Attribute, backend: Backend) -> None:
    """Refuse `special.jv` in a body where the library of the target has none.

    Raises:
        UnsupportedError: the target has no such function.
    """
    value = node.value
    found = function.__globals__.get(value.id) if isinstance(value, ast.Name) else None
    if not isinstance(found, Library) or backend is not JAX:
        return
    module = found.jax or found.module
    if not module.startswith("jax"):
        known = found.jax is not None
    elif "jax" in sys.modules:
        known = hasattr(importlib.import_module(module), node.attr)
    else:
        known = True  # a file written where JAX is not installed
    if not known:
        raise UnsupportedError(
            f"{found.module}.{node.attr} has no counterpart in JAX",
            fix='use backend="numpy"',
        )


def _static_return(function: Callable, attrs: dict[str, Any]) -> ast.expr | None:
    """The returned expression once the `if`s on attributes are decided."""
    definition = parse_body(function)
    statements = list(definition.body)
    while statements:
        first = statements.pop(0)
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            continue  # the docstring
        if isinstance(first, ast.Return) and first.value is not None:
            return first.value
        if isinstance(first, ast.If):
            known, outcome = _evaluate(first.test, function, attrs)
            if known:
                statements = (first.body if outcome else first.orelse) + statements
                continue
        return None
    return None


def _evaluate(node: ast.expr, function: Callable, attrs: dict[str, Any]) -> tuple:
    """(True, value) of an expression that reads attributes only, else (False, None)."""
    names = names_in(node)
    space = {**function.__globals__, **attrs}
    if not names & attrs.keys() or names & {"fill", "xp"}:
        return False, None  # a call of the library is what is printed
    if not all(n in space or hasattr(builtins, n) for n in names):
        return False, None
    code = compile(ast.Expression(node), "<attributes>", "eval")
    return True, eval(code, space)


class _Specialise(ast.NodeTransformer):
    """Puts holes for array parameters and literals for attributes."""

    def __init__(
        self,
        op: Op,
        function: Callable,
        attrs: dict[str, Any],
        context: Context,
        arity: int,
    ) -> None:
        self.op = op
        self.function = function
        self.attrs = attrs
        self.context = context
        fixed = op.params[:-1] if op.variadic else op.params
        self.positions = {p: i for i, p in enumerate(fixed)}
        self.rest = op.params[-1] if op.variadic else None
        self.rest_range = range(len(fixed), arity)

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.expr) and not isinstance(node, ast.Constant):
            known, value = _evaluate_if_static(node, self)
            if known:
                return literal(value, self.context)
        return super().visit(node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.positions:
            return _Hole(self.positions[node.id])
        if node.id == self.rest:
            return ast.List([_Hole(i) for i in self.rest_range], ast.Load())
        if node.id == "xp":
            return name(self.context.backend.alias)
        found = self.function.__globals__.get(node.id)
        if isinstance(found, Library):
            return name(self.context.library(found))
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        check_in_library(self.function, node, self.context.backend)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name) and node.func.id == "fill":
            return self._subscript()
        arguments: list[ast.expr] = []
        for argument in node.args:
            made = self.visit(argument)
            if isinstance(made, ast.Starred) and isinstance(
                made.value, ast.Tuple | ast.List
            ):
                arguments.extend(made.value.elts)
            else:
                arguments.append(made)
        keywords = [self._keyword(k) for k in node.keywords]
        return ast.Call(
            self.visit(node.func), arguments, [k for k in keywords if k is not None]
        )

    def _keyword(self, node: ast.keyword) -> ast.keyword | None:
        attribute = node.value
        if isinstance(attribute, ast.Name) and attribute.id in self.attrs:
            default = self.op.defaults[attribute.id]
            value = self.attrs[attribute.id]
            if type(value) is type(default) and value == default:
                return None
        return ast.keyword(node.arg, self.visit(node.value))

    def _subscript(self) -> ast.expr:
        return subscript(
            self.attrs["index"], [_Hole(i) for i in self.rest_range], self.context
        )


def subscript(index: tuple, arrays: Sequence[ast.expr], context: Context) -> ast.expr:
    """What stands between the brackets for a static subscript."""
    rest = iter(arrays)
    entries = [next(rest) if e is ARRAY else literal(e, context) for e in index]
    return entries[0] if len(entries) == 1 else ast.Tuple(entries, ast.Load())


def _evaluate_if_static(node: ast.expr, to: _Specialise) -> tuple:
    if isinstance(node, ast.Starred):
        return False, None
    return _evaluate(node, to.function, to.attrs)


Filler = Callable[[Sequence[ast.expr]], Any]


def compile_filler(tree: ast.AST) -> Filler:
    """A function that copies a template with the arguments in the holes.

    What has no hole is shared by all copies: nothing changes a tree once it is made.
    """
    if isinstance(tree, _Hole):
        position = tree.position
        return lambda args: args[position]
    if not any(isinstance(n, _Hole) for n in ast.walk(tree)):
        return lambda args: tree
    kind = type(tree)
    fields = [_compile_field(getattr(tree, f, None)) for f in tree._fields]
    return lambda args: kind(*[field(args) for field in fields])


def _compile_field(value: Any) -> Filler:
    if isinstance(value, list):
        parts = [_compile_field(v) for v in value]
        return lambda args: [part(args) for part in parts]
    if isinstance(value, ast.AST):
        return compile_filler(value)
    return lambda args: value


def in_place_statements(
    op: Op, attrs: dict[str, Any], args: Sequence[ast.expr], context: Context
) -> list[ast.stmt]:
    """The statements of an op's in-place body."""
    assert op.inplace is not None
    statements = list(parse_body(op.inplace).body)
    made: list[ast.stmt] = []
    specialise = _Specialise(op, op.inplace, attrs, context, len(args))
    while statements:
        first = statements.pop(0)
        if isinstance(first, ast.If):
            _, outcome = _evaluate(first.test, op.inplace, attrs)
            statements = (first.body if outcome else first.orelse) + statements
        elif not isinstance(first, ast.Expr) or not isinstance(
            first.value, ast.Constant
        ):
            template = specialise.visit(copy.deepcopy(first))
            made.append(subtracting(compile_filler(template)(args)))
    return made


def subtracting(statement: ast.stmt) -> ast.stmt:
    """`x += -a * b` as `x -= a * b`, and `x -= -a * b` as `x += a * b`."""
    if not isinstance(statement, ast.AugAssign):
        return statement
    value = statement.value
    if isinstance(statement.op, ast.Sub):
        positive = without_sign(value)
        if positive is not None:
            return ast.AugAssign(statement.target, ast.Add(), positive)
    if not isinstance(statement.op, ast.Add):
        return statement
    positive = without_sign(value)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub):
        left = without_sign(value.left)  # -a - b is -(a + b)
        positive = left and ast.BinOp(left, ast.Add(), value.right)
    if positive is None:
        return statement
    return ast.AugAssign(statement.target, ast.Sub(), positive)


class _Libraries(ast.NodeTransformer):
    """Replaces `xp` and library references by their names in the emitted source."""

    def __init__(self, function: Callable, context: Context) -> None:
        self.function = function
        self.context = context

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        check_in_library(self.function, node, self.context.backend)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id == "xp":
            return name(self.context.backend.alias)
        found = self.function.__globals__.get(node.id)
        if isinstance(found, Library):
            return name(self.context.library(found))
        return node


def is_helper(op: Op, attrs: dict[str, Any], backend: Backend) -> bool:
    """Whether an application of the op is emitted as a call of a helper function."""
    if op.emitter is not None:
        return False
    function = op.bodies.get(backend.name, op.run)
    return op.helper or _static_return(function, attrs) is None


def _helper(op: Op, context: Context) -> ast.FunctionDef:
    """The body of an op as a function of the emitted module."""
    function = op.bodies.get(context.backend.name, op.run)
    made: ast.FunctionDef = copy.deepcopy(parse_body(function))
    made.decorator_list = []
    made.name = op.name
    return _Libraries(function, context).visit(made)
