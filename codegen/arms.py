"""A function made of several traces: real branches, each with its own end.

Where traces part, the shallower arm stands inside of an `if` and returns, and the
deeper one goes on flat, so that no number of branches nests too deeply for Python.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tracegrad.codegen.lower import Line
from tracegrad.codegen.printer import with_comment
from tracegrad.ir.graph import BACKWARD, FORWARD, Node, Value
from tracegrad.ir.routine import Routine, Section

if TYPE_CHECKING:
    from tracegrad.codegen.build import FunctionBuilder


def lone_results(routine: Routine) -> set[Value]:
    """Results that are all that some end returns, so that `return` may compute them."""
    ends = [routine] if routine.section is None else list(routine.section.ends())
    return {end.graph.results[0] for end in ends if len(end.graph.results) == 1}


def has_phases(routine: Routine) -> bool:
    """Whether comments tell the forward from the backward part."""
    return any(node.phase == BACKWARD for node in routine.graph.nodes)


def section_body(
    builder: FunctionBuilder, section: Section, phase: str | None = None
) -> list[ast.stmt]:
    """The statements of a section and of all that may follow it.

    Args:
        builder: of the function.
        section: what to write.
        phase: of the statement before, which the comments have named.
    """
    split = builder.routine.pullback is not None
    nodes = [n for n in section.nodes if not split or n.phase == FORWARD]
    body, phase = _written(builder, builder.lowering.run(nodes), phase)
    if section.end is not None:
        return body + builder.ending(section.end, section.nodes)
    lower = builder.lowering
    *guarded, (last, rest) = section.arms
    for guard, arm in guarded:
        first = len(lower.lines)
        test = lower.test(guard, passed=True)
        before, phase = _written(builder, lower.lines[first:], phase)
        state = lower.state()
        lower.indent += 4
        statement = ast.If(test, section_body(builder, arm, phase), [])
        lower.indent -= 4
        lower.back(state)
        _place(builder, statement, guard)
        body += [*before, statement]
    if type(last.attrs["outcome"]) is not bool:
        checked, phase = _written(builder, lower.run([last]), phase)
        body += checked
    return body + section_body(builder, rest, phase)


def _written(
    builder: FunctionBuilder, lines: list[Line], phase: str | None
) -> tuple[list[ast.stmt], str | None]:
    """Lines with their comments, and the phase of the last one."""
    phases = has_phases(builder.routine)
    made = builder.commented(lines, phases, phase)
    return made, lines[-1].phase if lines else phase


def _place(builder: FunctionBuilder, statement: ast.stmt, guard: Node) -> None:
    if guard.at:
        with_comment(statement, guard.at[0].where)
    line = Line(statement, guard.at, guard.phase, guard)
    builder.lines[id(statement)] = line
