"""The intermediate representation: values, nodes in execution order, graphs.

Plain slotted classes with no behaviour: passes are functions from graph to graph.
A `Value` is identified by object identity; a `Const` is a value that no node makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tracegrad.ir.location import Chain
from tracegrad.ir.types import ArrayType, type_of_constant

if TYPE_CHECKING:
    from tracegrad.ops.define import Op

FORWARD = "forward"
BACKWARD = "backward"


class Value:
    """One array in a graph.

    Attributes:
        type: shape and dtype.
        hint: the name that the user gave it, or a proposal (`d_h`), or None.
        wrt: for a cotangent or tangent, the value that it belongs to, which names it.
        prefix: "d" for a cotangent, "t" for a tangent.
        user: True if `hint` is the target of an assignment in the user's source.
    """

    __slots__ = ("hint", "prefix", "type", "user", "wrt")

    def __init__(
        self,
        type: ArrayType,
        hint: str | None = None,
        wrt: Value | None = None,
        user: bool = False,
        prefix: str = "d",
    ) -> None:
        self.type = type
        self.hint = hint
        self.wrt = wrt
        self.user = user
        self.prefix = prefix

    def __repr__(self) -> str:
        return f"<{self.hint or 'value'}: {self.type!r}>"


class Const(Value):
    """A value known when the graph was made.

    Attributes:
        value: a Python scalar, a NumPy scalar or an array (referenced, not copied).
        derived: True for an array that was computed from captured arrays before it
            met a traced value, which is guarded by content.
    """

    __slots__ = ("derived", "value")

    def __init__(
        self, value: Any, hint: str | None = None, derived: bool = False
    ) -> None:
        super().__init__(type_of_constant(value), hint)
        self.value = value
        self.derived = derived

    def __repr__(self) -> str:
        return super().__repr__() if self.type.shape else f"<const {self.value!r}>"


class Node:
    """One application of an op.

    Attributes:
        op: the op.
        inputs: one value per positional parameter (more for a variadic op).
        outputs: the values that it makes.
        attrs: the static keyword-only arguments, all hashable.
        regions: closed graphs, for control flow; their captures are leading inputs.
        at: the user's frames, outermost first; a backward node has its forward node's.
        phase: "forward" or "backward".
        derived: whether a transformation made it, so that it may be rewritten; what the
            user wrote stays as it is, to the last bit.  Backward nodes always are.
    """

    __slots__ = (
        "at",
        "attrs",
        "derived",
        "inputs",
        "op",
        "outputs",
        "phase",
        "regions",
    )

    def __init__(
        self,
        op: Op,
        inputs: tuple[Value, ...],
        outputs: tuple[Value, ...],
        attrs: dict[str, Any],
        at: Chain = (),
        phase: str = FORWARD,
        regions: tuple[Graph, ...] = (),
        derived: bool = False,
    ) -> None:
        self.op = op
        self.inputs = inputs
        self.outputs = outputs
        self.attrs = attrs
        self.at = at
        self.phase = phase
        self.regions = regions
        self.derived = derived or phase == BACKWARD

    def __repr__(self) -> str:
        return f"<{self.op.name}{self.inputs!r} -> {self.outputs!r}>"

    def with_inputs(self, inputs: tuple[Value, ...]) -> Node:
        """The same application on other inputs, making the same outputs."""
        return Node(
            self.op,
            inputs,
            self.outputs,
            self.attrs,
            self.at,
            self.phase,
            self.regions,
            self.derived,
        )

    def in_phase(self, phase: str) -> Node:
        """The same node as a part of another phase."""
        made = self.with_inputs(self.inputs)
        made.phase = phase
        return made

    def changed(self, **fields: Any) -> Node:
        """The same node with other inputs, outputs, attributes or regions."""
        have: dict[str, Any] = {
            "inputs": self.inputs,
            "outputs": self.outputs,
            "attrs": self.attrs,
            "regions": self.regions,
        }
        have.update(fields)
        return Node(self.op, at=self.at, phase=self.phase, derived=self.derived, **have)

    @property
    def out(self) -> Value:
        """The only output of a single-output node."""
        return self.outputs[0]


@dataclass(slots=True, repr=False)
class Graph:
    """A straight-line program.

    Attributes:
        name: name of the function.
        params: the array parameters (pytrees are flat here).
        nodes: in execution order.
        results: may repeat, and may be parameters or constants.
        sizes: symbolic size -> the parameter and axis that it is read from.
    """

    name: str
    params: list[Value]
    nodes: list[Node]
    results: list[Value]
    sizes: dict[str, tuple[Value, int]] = field(default_factory=dict)

    def with_nodes(
        self, nodes: list[Node], results: list[Value] | None = None
    ) -> Graph:
        """The same parameters with other nodes (and results)."""
        return Graph(
            self.name,
            self.params,
            nodes,
            self.results if results is None else results,
            self.sizes,
        )

    def constants(self) -> Iterator[Const]:
        """Each constant once, in order of first use."""
        seen: set[int] = set()
        for value in self.reads():
            if isinstance(value, Const) and id(value) not in seen:
                seen.add(id(value))
                yield value

    def reads(self) -> Iterator[Value]:
        """Every read of a value, results and regions included."""
        for node in self.nodes:
            yield from node.inputs
            for region in node.regions:
                yield from region.reads()
        yield from self.results

    def walk(self) -> Iterator[Node]:
        """Every node, those of regions included."""
        for node in self.nodes:
            yield node
            for region in node.regions:
                yield from region.walk()


def use_counts(nodes: Iterable[Node], results: Iterable[Value]) -> dict[Value, int]:
    """How many times each value is read."""
    counts: dict[Value, int] = {}
    for node in nodes:
        for value in node.inputs:
            counts[value] = counts.get(value, 0) + 1
    for value in results:
        counts[value] = counts.get(value, 0) + 1
    return counts
