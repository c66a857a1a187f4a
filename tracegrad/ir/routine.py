"""What code generation is given: functions with the user's signature and structures."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tracegrad.ir.graph import Graph, Node, Value
from tracegrad.ir.location import Location
from tracegrad.ir.tree import Tree
from tracegrad.ir.types import Size


@dataclass(frozen=True, slots=True)
class SizeFact:
    """A relation between symbolic sizes that was decided by the call's values.

    Attributes:
        relation: "==" or ">=".
        left, right: the sizes.
        outcome: whether it holds.
    """

    relation: str
    left: Size
    right: Size
    outcome: bool


@dataclass(slots=True)
class Parameter:
    """One parameter of the user's function.

    Attributes:
        name: the user's name; `args_0`, `args_1`, … for the parts of `*args`.
        kind: of `inspect.Parameter`; `*args` and `**kwargs` are given one by one.
        tree: structure of the argument; leaves hold `Value`s.
        default: the default, or `inspect.Parameter.empty`.
        annotation: source text of the user's annotation, or None.
    """

    name: str
    kind: Any
    tree: Tree
    default: Any = inspect.Parameter.empty
    annotation: str | None = None


@dataclass(slots=True)
class Pullback:
    """The nested function of a vjp: `def pullback(d_out): …`.

    Attributes:
        cotangent: structure of its argument, that of the primal result; leaves hold
            the cotangents' `Value`s (parameters of the joint graph too).
        result: structure of what it returns: a tuple with an entry per primal.
        name: of the nested function.
        spread: names of its arguments, if each part of `cotangent` is one of its own:
            `def pushforward(t_x, t_y)`, of a linearization.
    """

    cotangent: Tree
    result: Tree
    name: str = "pullback"
    spread: tuple[str, ...] = ()


@dataclass(slots=True)
class Section:
    """Statements in a row of a routine made of several traces, and what follows them.

    Attributes:
        nodes: in execution order.
        arms: where traces part: a guard, and the section for the calls that it lets
            pass; the last goes on without an `if` around it.
        end: at the end of a trace its own routine, whose result is returned.
    """

    nodes: list[Node]
    arms: tuple[tuple[Node, Section], ...] = ()
    end: Routine | None = None

    @property
    def depth(self) -> int:
        """How often traces part at most, from here on."""
        return max([1 + arm.depth for _, arm in self.arms], default=0)

    def all_nodes(self) -> list[Node]:
        """The nodes of all arms in one row, each test once for every time it is read.

        No call runs them all, but what holds for this order (which reads of a value
        are the last) holds for each path through it.
        """
        nodes = list(self.nodes)
        for k, (guard, arm) in enumerate(self.arms):
            truth = type(guard.attrs["outcome"]) is bool
            nodes += ([] if truth and k else [guard]) + arm.all_nodes()
        return nodes

    def ends(self) -> Iterator[Routine]:
        """The routines of the traces."""
        if self.end is not None:
            yield self.end
        for _, arm in self.arms:
            yield from arm.ends()


@dataclass(slots=True)
class Routine:
    """One function to emit.

    Attributes:
        name: of the emitted function, such as `loss_value_and_grad`.
        of: name of the user's function.
        at: where the user's function starts.
        parameters: in the user's order.
        graph: the program; backward nodes follow forward nodes.
        result: structure of what is returned; leaves hold `Value`s of `graph.results`
            (for a vjp: the primal result only).
        purpose: what the docstring says: "Gradient of `loss` … with respect to `w`."
        pullback: for a vjp, what goes into the nested function.
        doc: the docstring of the user's function.
        notes: further lines of the docstring (facts about sizes, for example).
        facts: what the trace decided of the sizes, which a saved function verifies.
        wrt: the array parameters that derivatives are taken with respect to.
        section: the program as a tree, if it is made of several traces; `graph` holds
            the nodes of them all then, `result` and `pullback` those of the first.
    """

    name: str
    of: str
    at: Location | None
    parameters: tuple[Parameter, ...]
    graph: Graph
    result: Tree
    purpose: str
    pullback: Pullback | None = None
    doc: str | None = None
    notes: tuple[str, ...] = field(default=())
    facts: tuple[SizeFact, ...] = field(default=())
    wrt: frozenset[Value] = frozenset()
    section: Section | None = None

    def values(self) -> list[Value]:
        """The array parameters in order."""
        return self.graph.params
