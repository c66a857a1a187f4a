"""What code generation is given: functions with the user's signature and structures."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any

from tracegrad.ir.graph import Graph, Value
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

    def values(self) -> list[Value]:
        """The array parameters in order."""
        return self.graph.params
