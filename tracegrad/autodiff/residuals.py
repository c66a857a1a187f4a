"""What the pullback of a region reads of its forward run: saved, or made again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tracegrad.ir.graph import BACKWARD, Const, Graph, Node, Value
from tracegrad.ir.region import copied
from tracegrad.passes.dce import remove_dead_code

# A number that takes so many operations of numbers is made again rather than saved.
MAX_STEPS = 2


@dataclass(slots=True)
class Settled:
    """A pullback that reads nothing that is gone.

    Attributes:
        nodes: what is made again, and the backward nodes.
        results: of the pullback.
        outside: values of the forward region that the nodes read.
        saved: forward value -> what `keep` gave for it.
    """

    nodes: list[Node]
    results: list[Value]
    outside: list[Value]
    saved: dict[Value, Value]


class Residuals:
    """Decides what is saved of a region.

    Args:
        forward: the nodes of the region.
        params: its parameters, which can be read anyway.
        keep: called for each value to save, in order.
        everything: whether all is made again.
        given: values of the region that can be read anyway.
    """

    def __init__(
        self,
        forward: Sequence[Node],
        params: Sequence[Value],
        keep: Callable[[Value], Value],
        everything: bool = False,
        given: Iterable[Value] = (),
    ) -> None:
        self.forward = forward
        self.params = params
        self.keep = keep
        self.everything = everything
        self.given = {*params, *given}
        self.made_by = {v: node for node in forward for v in node.outputs}
        # Arrays that are updated; to keep all of their values would copy them.
        self.updated = {
            v
            for node in forward
            if node.op.inplace is not None
            for v in (node.inputs[0], *node.outputs)
        }
        self.again: set[Node] = set()
        self.needed: dict[Value, None] = {}

    def settle(self, backward: list[Node], results: list[Value]) -> Settled:
        """The backward nodes, with what must be made again before them."""
        whole = [*self.forward, *backward]
        joint = Graph("region", list(self.params), whole, results)
        ours = {v for node in backward for v in node.outputs}
        nodes = [
            self._with_types(node, ours)
            for node in remove_dead_code(joint).nodes
            if any(v in ours for v in node.outputs)
        ]
        for node in nodes:
            for v in node.inputs:
                self._need(v)
        for v in results:
            self._need(v)
        self._spare_numbers()
        known: dict[Value, Value] = {}
        made, _ = copied([n for n in self.forward if n in self.again], [], known)
        for node in made:
            node.phase = BACKWARD
        read = [
            n.with_inputs(tuple([known.get(v, v) for v in n.inputs])) for n in nodes
        ]
        ends = [known.get(v, v) for v in results]
        saved = {
            v: self.keep(v) for v in self.needed if v in self.made_by and v not in known
        }
        return Settled([*made, *read], ends, list(self.needed), saved)

    def _with_types(self, node: Node, ours: set[Value]) -> Node:
        """The node with types read of what is there, if something has that type."""
        inputs = list(node.inputs)
        for k in node.op.type_only:
            v = inputs[k]
            if v in self.made_by and v not in self.given:
                same = [p for p in self.params if p.type == v.type]
                inputs[k] = same[0] if same else v
        return node.with_inputs(tuple(inputs)) if inputs != list(node.inputs) else node

    def _need(self, v: Value) -> None:
        """Note what a read of `v` takes."""
        if isinstance(v, Const) or v in self.needed:
            return
        node = self.made_by.get(v)
        if v in self.given or node is None:
            if node is not None or v in self.params:
                self.needed[v] = None
            return
        if self.everything or self._is_cheap(node):
            self.again.add(node)
            for u in node.inputs:
                self._need(u)
        else:
            self.needed[v] = None

    def _spare_numbers(self) -> None:
        """Compute numbers again that take a step or two from what is there anyway."""
        kept = {v for v in self.needed if v in self.made_by and v not in self.given}
        for node in reversed(self.forward):
            if kept.isdisjoint(node.outputs):
                continue
            steps = self._steps_to(node)
            if steps is not None:
                self.again |= steps
                del self.needed[node.outputs[0]]

    def _steps_to(self, last: Node) -> set[Node] | None:
        """The arithmetic of numbers that makes a number; None if that is too much."""
        steps: set[Node] = set()
        reads: set[Value] = set()
        waiting = [last]
        while waiting:
            node = waiting.pop()
            plain = not any(v.type.shape for v in (*node.inputs, *node.outputs))
            if not (node.op.cheap and plain and node.inputs) or node.regions:
                return None
            steps.add(node)
            if len(steps) > MAX_STEPS:
                return None
            for v in node.inputs:
                if v in self.needed or v in self.params or isinstance(v, Const):
                    reads.add(v)
                elif v not in self.made_by:
                    return None
                elif self.made_by[v] not in self.again:
                    waiting.append(self.made_by[v])
        for v in reads:
            if not isinstance(v, Const):
                self.needed[v] = None
        return steps

    def _is_cheap(self, node: Node) -> bool:
        """Whether making it again costs less than to keep a list of it."""
        if node.regions or len(node.outputs) > 1:
            return False
        if not node.inputs:
            return True
        if node.inputs[0] in self.updated:
            return False
        if node.op.aliasing(node.attrs) == "view":
            return True
        if all(not v.type.shape for v in node.inputs) and node.op.cheap:
            return all(v in self.given or isinstance(v, Const) for v in node.inputs)
        # A row by the counter is a view, or one element.
        indices = node.inputs[1:]
        return (
            "index" in node.attrs
            and node.op.inplace is None
            and all(not v.type.shape for v in indices)
        )
