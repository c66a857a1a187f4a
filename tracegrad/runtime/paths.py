"""Traces of one function as one program: a tree that parts where a guard did.

Two traces record the same nodes until Python asks for a value that differs.  The second
is written in the values of the first as far as they agree, so that the prefix is one.
Each trace is differentiated for itself; the tree is put together afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tracegrad.ir.graph import Const, Graph, Node, Value
from tracegrad.ir.routine import Routine, Section
from tracegrad.ir.tree import map_leaves
from tracegrad.ops.control_guard import said
from tracegrad.runtime.derive import Program


# ------------------------------------------------------------------------ one prefix
def guards_of(program: Program) -> list[Node]:
    """The guards of one trace, in order."""
    return [node for node in program.nodes if node.op.guards]


def joined(known: Sequence[Program], new: Program) -> Program | None:
    """A trace in the values of others as far as they agree.

    Args:
        known: traces that share their parameters and prefixes.
        new: another of the same function, for arguments of the same types.

    Returns:
        The trace, or None if it does not part from the others at a guard: it is one of
        them, or something else than values decided.
    """
    best: _Match | None = None
    for program in known:
        match = _Match(program, new)
        if best is None or match.length > best.length:
            best = match
    assert best is not None
    return best.rewritten() if best.parts_at_a_guard() else None


class _Match:
    """The common prefix of two traces."""

    def __init__(self, known: Program, new: Program) -> None:
        self.known, self.new = known, new
        self.values: dict[Value, Value] = dict(
            zip(new.params, known.params, strict=True)
        )
        self.length = 0
        for a, b in zip(known.nodes, new.nodes, strict=False):
            if not self._same(a, b):
                break
            self.values.update(zip(b.outputs, a.outputs, strict=True))
            self.length += 1

    def _same(self, a: Node, b: Node) -> bool:
        return (
            self._alike(a, b)
            and all(map(_equal_attrs, a.attrs.items(), b.attrs.items()))
            and list(map(repr, a.regions)) == list(map(repr, b.regions))
        )

    def _alike(self, a: Node, b: Node) -> bool:
        """Whether the nodes are equal, attributes and regions aside."""
        return (
            a.op is b.op
            and a.at == b.at
            and a.phase == b.phase
            and a.derived == b.derived
            and len(a.inputs) == len(b.inputs)
            and len(a.outputs) == len(b.outputs)
            and len(a.attrs) == len(b.attrs)
            and all(map(self._equal, a.inputs, b.inputs))
        )

    def _equal(self, a: Value, b: Value) -> bool:
        if isinstance(a, Const) and isinstance(b, Const):
            same = _equal_data(a.value, b.value)
            if same:
                self.values[b] = a
            return same
        return self.values.get(b) is a

    def parts_at_a_guard(self) -> bool:
        """Whether the first difference is the outcome of one test."""
        if self.length >= min(len(self.known.nodes), len(self.new.nodes)):
            return False
        a, b = self.known.nodes[self.length], self.new.nodes[self.length]
        if not (a.op.guards and self._alike(a, b)):
            return False
        one, two = a.attrs["outcome"], b.attrs["outcome"]
        return type(one) is type(two) and one != two

    def rewritten(self) -> Program:
        """The new trace with the prefix of the known one."""
        values = self.values
        nodes = self.known.nodes[: self.length]
        for node in self.new.nodes[self.length :]:
            if any(v in values for v in node.inputs):
                inputs = tuple([values.get(v, v) for v in node.inputs])
                node = node.with_inputs(inputs)
            for v in node.outputs:
                if v.wrt is not None:
                    v.wrt = values.get(v.wrt, v.wrt)
            nodes.append(node)
        return replace(
            self.new,
            parameters=self.known.parameters,
            params=self.known.params,
            nodes=nodes,
            result=map_leaves(self.new.result, lambda v: values.get(v, v)),
            sizes=self.known.sizes,
        )


def _equal_attrs(a: tuple[str, Any], b: tuple[str, Any]) -> bool:
    return a[0] == b[0] and (a[1] is b[1] or repr(a[1]) == repr(b[1]))


def _equal_data(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if not isinstance(a, np.ndarray):
        return repr(a) == repr(b)
    same_type = a.dtype == b.dtype and a.shape == b.shape and not a.dtype.hasobject
    return same_type and a.tobytes() == b.tobytes()


def reasons(programs: Sequence[Program]) -> list[str]:
    """For each trace, the test whose outcome made it; of the first, all its tests."""
    made: list[str] = []
    for i, program in enumerate(programs):
        mine = guards_of(program)
        if not i:
            made.append("; ".join(map(said, mine)) or "no test of values")
            continue
        parted = [_parting(guards_of(p), mine) for p in programs[:i]]
        made.append(said(mine[max(parted)]))
    return made


def _parting(a: list[Node], b: list[Node]) -> int:
    """The number of the guard at which two traces part."""
    count = 0
    for one, two in zip(a, b, strict=False):
        if one.attrs["outcome"] != two.attrs["outcome"]:
            break
        count += 1
    return count


# --------------------------------------------------------------------------- one tree
@dataclass(slots=True)
class _Path:
    """One trace's routine, cut at its guards.

    Attributes:
        routine: of this trace alone.
        parts: the nodes between the guards.
        guards: the guards.
    """

    routine: Routine
    parts: list[list[Node]] = field(default_factory=lambda: [[]])
    guards: list[Node] = field(default_factory=list)

    def __post_init__(self) -> None:
        for node in self.routine.graph.nodes:
            if node.op.guards:
                self.guards.append(node)
                self.parts.append([])
            else:
                self.parts[-1].append(node)


def as_tree(programs: Sequence[Program], routines: Sequence[Routine]) -> Routine:
    """One routine of the routines of several traces."""
    first = routines[0]
    if len(routines) == 1:
        return first
    order: dict[Value, int] = {}
    for program in programs:
        for i, node in enumerate(program.nodes):
            order.update(dict.fromkeys(node.outputs, i))
    section = _section([_Path(r) for r in routines], 0, order)
    params = dict.fromkeys(v for r in routines for v in r.graph.params)
    results = [v for r in routines for v in r.graph.results]
    graph = Graph(
        first.graph.name, list(params), section.all_nodes(), results, first.graph.sizes
    )
    return replace(first, graph=graph, section=section)


def _section(paths: list[_Path], at: int, order: dict[Value, int]) -> Section:
    """What follows the guard number `at - 1`, which all paths share."""
    nodes: list[Node] = []
    while len(paths) > 1:
        nodes += _merged([path.parts[at] for path in paths], order)
        arms: dict[Any, list[_Path]] = {}
        for path in paths:
            arms.setdefault(path.guards[at].attrs["outcome"], []).append(path)
        if len(arms) > 1:
            made = [
                (members[0].guards[at], _section(members, at + 1, order))
                for members in arms.values()
            ]
            # The deeper one goes on flat, where nothing limits the depth.
            made.sort(key=lambda arm: (arm[1].depth, not arm[0].attrs["outcome"]))
            return Section(nodes, tuple(made))
        nodes.append(paths[0].guards[at])
        at += 1
    (path,) = paths
    nodes += path.parts[at]
    for guard, part in zip(path.guards[at:], path.parts[at + 1 :], strict=True):
        nodes += [guard, *part]
    return Section(nodes, (), path.routine)


def _merged(parts: list[list[Node]], order: dict[Value, int]) -> list[Node]:
    """The nodes that any path needs of a part that all share, in the user's order."""
    made: dict[Value, int] = {}  # value -> index of its node
    keyed: list[tuple[int, Node]] = []
    for part in parts:
        position = -1
        for node in part:
            position = max(position, *[order.get(v, -1) for v in node.outputs])
            known = {made[v] for v in node.outputs if v in made}
            if not known:
                made.update(dict.fromkeys(node.outputs, len(keyed)))
                keyed.append((position, node))
            elif not all(v in made for v in node.outputs):
                # The backward part of this path takes a further output of the op.
                (index,) = known
                made.update(dict.fromkeys(node.outputs, index))
                keyed[index] = keyed[index][0], node
    keyed.sort(key=lambda item: item[0])
    return [node for _, node in keyed]
