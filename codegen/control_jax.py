"""Branches and loops as `lax.cond`, `lax.scan` and `lax.while_loop` of JAX source.

A region becomes a function inside of the function: it closes over what it reads, and
its carries are its argument.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tracegrad.codegen.lower import Line
from tracegrad.codegen.plan import Body
from tracegrad.codegen.template import literal, name
from tracegrad.errors import UnsupportedError
from tracegrad.ir.graph import Node, Value
from tracegrad.ir.syntax import definition
from tracegrad.ops.control import RESULT, Loop, cond
from tracegrad.ops.library import Library

if TYPE_CHECKING:
    from tracegrad.codegen.control import ControlLowering, RegionLowering

_LAX = Library("jax.lax")


def write_jax(lower: ControlLowering, node: Node, carries: Any) -> None:
    """Write a node with regions.

    Args:
        lower: of the program around the node.
        node: of `cond`, `for_loop` or `while_loop`.
        carries: gives the variables of the carries of a loop.
    """
    if node.op is cond:
        _branches(lower, node)
    else:
        _Loop(lower, node, carries()).write()


def _lax(lower: ControlLowering, function: str, *args: ast.expr, **by_name: Any) -> Any:
    library = name(lower.context.library(_LAX))
    keywords = [ast.keyword(key, value) for key, value in by_name.items()]
    return ast.Call(ast.Attribute(library, function, ast.Load()), list(args), keywords)


def _packed(parts: Sequence[ast.expr]) -> ast.expr:
    """One value as it is, several as a tuple, none as None."""
    if not parts:
        return ast.Constant(None)
    return parts[0] if len(parts) == 1 else ast.Tuple(list(parts), ast.Load())


def _target(names: Sequence[str], empty: str = "_") -> ast.expr:
    parts: list[ast.expr] = [ast.Name(n, ast.Store()) for n in names or (empty,)]
    return parts[0] if len(parts) == 1 else ast.Tuple(parts, ast.Store())


def _function(
    lower: ControlLowering,
    node: Node,
    wanted: str,
    params: Sequence[str],
    lines: list[Line],
    returned: ast.expr,
) -> ast.expr:
    """Define a function inside of the function; an expression that reads it."""
    variable = lower.namer.claim(wanted)
    made = definition(variable, params, [])
    end = Line(ast.Return(returned), (), node.phase, node)
    lower.emit(made, node, [(made.body, [*lines, end])])
    return name(variable)


# ---------------------------------------------------------------------------- branches
def _branches(lower: ControlLowering, node: Node) -> None:
    which = lower.expression(node.inputs[0])
    boolean = len(node.regions) == 2 and node.inputs[0].type.kind == "b"
    functions = []
    for r, region in enumerate(node.regions):
        inner = lower.region(region, Body(named=lower.shared), looping=False)
        for param, v in zip(region.params, node.inputs[1:], strict=True):
            inner.bind(param, v)
        inner.run()
        results = _packed([inner.expression(v) for v in region.results])
        lower.shared.update(inner.variables)
        wanted = ("if_true", "if_false")[r] if boolean else f"case_{r}"
        functions.append(_function(lower, node, wanted, [], inner.lines, results))
    if boolean:
        call = _lax(lower, "cond", which, *functions)
    else:
        call = _lax(lower, "switch", which, ast.List(functions, ast.Load()))
    variables = [lower.variable_for(v) for v in node.outputs]
    lower.emit(ast.Assign([_target(variables)], call, lineno=0), node)
    lower.variables.update(zip(node.outputs, variables, strict=True))


# ------------------------------------------------------------------------------- loops
class _Loop:
    """Writes one loop."""

    def __init__(self, lower: ControlLowering, node: Node, carries: list[str]) -> None:
        self.lower = lower
        self.node = node
        self.loop = Loop.of(node)
        self.carries = carries
        self.inner: RegionLowering

    def write(self) -> None:
        """The functions and the call."""
        lower, node, loop = self.lower, self.node, self.loop
        dynamic = node.attrs["steps"] is not None
        if dynamic and (loop.stacks() or loop.count is not None):
            raise UnsupportedError(
                "the backward part of a loop whose number of turns is not known needs "
                "a list of any length, which JAX has not",
                op=node.op.spelling,
                at=node.at[-1] if node.at else None,
                fix='use backend="numpy", or tg.scan with a fixed length',
            )
        starts = _packed([lower.expression(v) for v in loop.starts])
        firsts = {
            kind: lower.expression(loop.starts[kind])
            for _, kind, _ in loop.stacks()
            if kind != RESULT
        }
        self._body()
        if not loop.counted:
            call = _lax(lower, "while_loop", self._test(), self._turn(False), starts)
        elif dynamic:
            call = _lax(lower, "fori_loop", *self._bounds(), self._turn(True), starts)
        else:
            self._scan(starts, firsts)
            return
        lower.emit(ast.Assign([_target(self.carries)], call, lineno=0), node)
        lower.variables.update(zip(loop.last, self.carries, strict=True))

    def _body(self) -> None:
        lower, loop = self.lower, self.loop
        nexts = dict(zip(loop.carries, loop.nexts, strict=True))
        inner = self.inner = lower.region(
            loop.body, Body(nexts=nexts, named=lower.shared)
        )
        for param, variable in zip(loop.carries, self.carries, strict=True):
            inner.variables[param] = variable
            if param in inner.plan.rebound:
                inner.targets[nexts[param]] = variable
        for param, v in zip(loop.inner, loop.invariants, strict=True):
            inner.bind(param, v)
        if loop.counter is not None:
            wanted = loop.counter.hint or "t"
            variable = lower.counters.claim(wanted, lower.namer, lower.depth)
            inner.variables[loop.counter] = variable
        inner.run()
        lower.shared.update(inner.variables)

    def _nexts(self) -> ast.expr:
        return _packed([self.inner.expression(v) for v in self.loop.nexts])

    def _unpacked(self, lines: list[Line], inner: RegionLowering) -> tuple[str, list]:
        """The argument that holds the carries, and the lines with it taken apart."""
        if len(self.carries) == 1:
            return self.carries[0], lines
        if not self.carries:
            return "_", lines
        argument = self.lower.namer.claim("carry")
        statement = ast.Assign([_target(self.carries)], name(argument), lineno=0)
        first = Line(statement, (), self.node.phase, self.node)
        return argument, [first, *lines]

    def _turn(self, counts: bool) -> ast.expr:
        """The body as `(carry)` or `(counter, carry)`."""
        argument, lines = self._unpacked(self.inner.lines, self.inner)
        params = [self._counter(), argument] if counts else [argument]
        return _function(self.lower, self.node, "turn", params, lines, self._nexts())

    def _counter(self) -> str:
        assert self.loop.counter is not None
        return self.inner.variables[self.loop.counter]

    def _test(self) -> ast.expr:
        loop = self.loop
        assert loop.test is not None
        lone = frozenset(loop.test.results)
        test = self.lower.region(loop.test, lone=lone)
        count = len(loop.test.params) - loop.carried
        for param, v in zip(loop.test.params[:count], loop.invariants, strict=True):
            test.bind(param, v)
        carries = loop.test.params[count:]
        test.variables.update(zip(carries, self.carries, strict=True))
        test.run()
        argument, lines = self._unpacked(test.lines, test)
        holds = test.expression(loop.test.results[0])
        return _function(self.lower, self.node, "goes_on", [argument], lines, holds)

    def _bounds(self) -> list[ast.expr]:
        lower = self.lower
        given = list(self.node.inputs[: self.loop.dynamic])
        return [
            lower.expression(given.pop(0)) if b is None else literal(b, lower.context)
            for b in self.node.attrs["bounds"]
        ]

    def _scan(self, starts: ast.expr, firsts: dict[int, ast.expr]) -> None:
        lower, node, loop, inner = self.lower, self.node, self.loop, self.inner
        rows = [
            inner.expression(loop.nexts[kind] if result is None else result)
            for _, kind, result in loop.stacks()
        ]
        argument, lines = self._unpacked(inner.lines, inner)
        returned = ast.Tuple([self._nexts(), _packed(rows)], ast.Load())
        params = [argument, self._counter()]
        turn = _function(lower, node, "turn", params, lines, returned)
        names = [self._list_name(v, kind, r) for v, kind, r in loop.stacks()]
        start, stop = self._bounds()
        plain = isinstance(start, ast.Constant) and start.value == 0
        library = name(lower.context.backend.alias)
        counter = ast.Call(
            ast.Attribute(library, "arange", ast.Load()),
            [stop] if plain else [start, stop],
            [],
        )
        options = {"reverse": ast.Constant(True)} if node.attrs["reverse"] else {}
        call = _lax(lower, "scan", turn, starts, counter, **options)
        pair: list[ast.expr] = [_target(self.carries), _target(names)]
        lower.emit(ast.Assign([ast.Tuple(pair, ast.Store())], call, lineno=0), node)
        for variable, (output, kind, _) in zip(names, loop.stacks(), strict=True):
            if kind != RESULT:
                self._with_first(variable, firsts[kind], output)
            lower.variables[output] = variable
        lower.variables.update(zip(loop.last, self.carries, strict=True))

    def _list_name(self, output: Value, kind: int, result: Value | None) -> str:
        if result is None:
            own = self.carries[kind]
        else:
            own = self.inner.variables.get(result, "row")
        variable = self.lower.namer.claim(output.hint or self.lower.plural(own))
        self.lower.elements[variable] = own
        return variable

    def _with_first(self, variable: str, first: ast.expr, output: Value) -> None:
        """Put the first value of a carry to the others."""
        lower = self.lower
        library = name(lower.context.backend.alias)
        array = ast.Call(ast.Attribute(library, "asarray", ast.Load()), [first], [])
        one = ast.Subscript(array, ast.Constant(None), ast.Load())
        parts = [one, name(variable)]
        if self.node.attrs["reverse"]:
            parts.reverse()
        join = ast.Attribute(library, "concatenate", ast.Load())
        call = ast.Call(join, [ast.List(parts, ast.Load())], [])
        lower.assign(variable, call, self.node)
