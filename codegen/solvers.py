"""Calls of SciPy's solvers, with the user's functions as functions inside of ours."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tracegrad.codegen.lower import Line
from tracegrad.codegen.plan import Body
from tracegrad.codegen.template import name
from tracegrad.errors import UnsupportedError
from tracegrad.ir.graph import Graph, Node, Value
from tracegrad.ir.syntax import definition
from tracegrad.ops.library import Library
from tracegrad.ops.solvers import Parts, Solver

if TYPE_CHECKING:
    from tracegrad.codegen.control import ControlLowering

_MODULES: dict[str, Library] = {
    module: Library(module) for module in ("scipy.optimize", "scipy.integrate")
}


def write_solver(lower: ControlLowering, node: Node) -> None:
    """Write the functions, and the statement that calls the solver.

    Raises:
        UnsupportedError: for JAX source.
    """
    parts = Parts.of(node)
    solver = parts.solver
    if not lower.context.backend.mutable:
        raise UnsupportedError(
            f"{solver.module}.{solver.function} has no counterpart in JAX",
            op=f"{solver.module}.{solver.function}",
            at=node.at[-1] if node.at else None,
            fix='use backend="numpy"',
        )
    state = lower.namer.state()
    functions = [_function(lower, node, r, parts.captured) for r in node.regions]
    value = _call(lower, solver, functions, list(parts.data.values()))
    # What the functions call their own is free again after the call.
    lower.namer.back(state)
    for variable in (*lower.context.sizes.values(), *lower.constants.named):
        lower.namer.reserve(variable)
    if len(node.outputs) == 1:
        variable = lower.variable_for(node.outputs[0])
        lower.assign(variable, _read(value, solver.fields[0]), node)
        lower.variables[node.outputs[0]] = variable
        return
    found = lower.namer.claim("found")
    lower.assign(found, value, node)
    for v, field in zip(node.outputs, solver.fields, strict=True):
        variable = lower.variable_for(v)
        lower.assign(variable, _read(name(found), field), node)
        lower.variables[v] = variable


def _call(
    lower: ControlLowering, solver: Solver, functions: list[str], data: Sequence[Value]
) -> ast.expr:
    def pack(parts: list[ast.expr]) -> ast.expr:
        return ast.Tuple(parts, ast.Load())

    args, named = solver.arranged([lower.expression(v) for v in data], pack)
    named.update(zip(solver.functions, map(name, functions[1:]), strict=True))
    keywords = [ast.keyword(key, value) for key, value in named.items()]
    for key, text in solver.options:
        value = ast.parse(text, mode="eval").body
        if text == "inf":
            value = ast.parse(f"{lower.context.backend.alias}.inf", mode="eval").body
        keywords.append(ast.keyword(key, value))
    library = name(lower.context.library(_MODULES[solver.module]))
    function = ast.Attribute(library, solver.function, ast.Load())
    return ast.Call(function, [name(functions[0]), *args], keywords)


def _read(value: ast.expr, field: str) -> ast.expr:
    """`value.x`, `value[-1]`, `value.y[:, -1]`."""
    tree = ast.parse(f"value{field}", mode="eval").body
    if isinstance(tree, ast.Name):
        return value
    inner = tree
    while True:
        below = inner.value  # type: ignore[attr-defined]
        if isinstance(below, ast.Name):
            inner.value = value  # type: ignore[attr-defined]
            return tree
        inner = below


def _function(
    lower: ControlLowering, node: Node, region: Graph, captured: Sequence[Value]
) -> str:
    """Write a region as a function; its name."""
    called = lower.namer.claim(region.name)
    lone = frozenset(region.results)
    inner = lower.region(region, Body(named=lower.shared), looping=False, lone=lone)
    for param, v in zip(region.params, captured, strict=False):
        inner.bind(param, v)
    taken: list[str] = []
    for param in region.params[len(captured) :]:
        inner.variables[param] = lower.namer.claim(param.hint or "x")
        taken.append(inner.variables[param])
    lines = inner.run()
    returned = ast.Return(inner.expression(region.results[0]))
    lines.append(Line(returned, node.at, node.phase, node))
    made = definition(called, taken, [])
    lower.emit(made, node, [(made.body, lines)])
    return called
