"""The engine of algebraic rewriting: rules are functions of one application."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracegrad.ir.graph import Const, Graph, Node, Value, use_counts
from tracegrad.ops.define import Op
from tracegrad.ops.record import Builder, Ref

Rule = Callable[["Rewriter", Node], Any]
RULES: dict[Op, list[Rule]] = {}
# Tried when nothing else changes any more: they make text, not factors to move.
FINISHING: dict[Op, list[Rule]] = {}


def rewrites(*ops: Op, last: bool = False) -> Callable[[Rule], Rule]:
    """Decorator: the rule is tried on applications of these ops.

    A rule takes the rewriter and the node (whose inputs are rewritten already) and
    returns a `Ref` or a `Const` that takes the place of its output, or None.

    Args:
        *ops: what the rule applies to.
        last: whether the rule is one of the `FINISHING` ones.
    """

    def register(rule: Rule) -> Rule:
        for op in ops:
            (FINISHING if last else RULES).setdefault(op, []).append(rule)
        return rule

    return register


class Rewriter(Builder):
    """Rebuilds a graph node by node, trying the rules of each op.

    Only derived nodes are rewritten: what the user wrote stays as it is, to the last
    bit.
    """

    def __init__(self, graph: Graph, rules: dict[Op, list[Rule]]) -> None:
        super().__init__()
        self.rules = rules
        self.graph = graph
        self.made_by: dict[Value, Node] = {}
        self.counts = use_counts(graph.nodes, graph.results)
        self.replaced: dict[Value, Value] = {}
        self.changed = False

    def append(self, node: Node) -> None:
        """Add a node and remember what made its outputs."""
        super().append(node)
        for v in node.outputs:
            self.made_by[v] = node

    def source(self, v: Value, op: Op, alone: bool = True) -> Node | None:
        """The node that made `v`, if it is an application of `op`.

        Args:
            v: an input of the node under rewriting.
            op: the op asked for.
            alone: only if nothing else reads `v`, so that rewriting saves its node.
        """
        node = self.made_by.get(v)
        if node is None or node.op is not op or not node.derived:
            return None
        if alone and self.counts.get(v, 1) > 1:
            return None
        return node

    def scalar_source(self, v: Value, op: Op) -> Node | None:
        """As `source`, for a 0-d `v` in any phase and with any number of readers.

        Computing a scalar again costs nothing beside the arrays around it.
        """
        node = self.made_by.get(v)
        return node if node is not None and node.op is op else None

    def has(self, v: Value) -> bool:
        """Whether `v` is there to be read at this point."""
        return v in self.made_by or v in self.graph.params

    def ref(self, v: Value) -> Ref:
        """A handle to compute with."""
        return Ref(v, self)

    def run(self) -> Graph:
        """The rewritten graph."""
        replaced, rules = self.replaced, self.rules
        for node in self.graph.nodes:
            for v in node.inputs if replaced else ():
                if v in replaced:
                    inputs = [replaced.get(u, u) for u in node.inputs]
                    node = node.with_inputs(tuple(inputs))
                    break
            if node.op not in rules or not node.derived or not self._rewrite(node):
                self.append(node)
        results = [self.replaced.get(v, v) for v in self.graph.results]
        return self.graph.with_nodes(self.nodes, results)

    def _rewrite(self, node: Node) -> bool:
        self.at, self.phase, self.derived = node.at, node.phase, True
        before = len(self.nodes)
        for rule in self.rules[node.op]:
            made = rule(self, node)
            if made is None:
                continue
            new = made.value if isinstance(made, Ref) else made
            old = node.outputs[0]
            if new.type != old.type and not (new.type.weak or old.type.weak):
                raise RuntimeError(f"{rule.__name__} changed {old.type} to {new.type}")
            if new.type.shape != old.type.shape:
                continue
            if new.wrt is None and not isinstance(new, Const):
                new.wrt, new.prefix = old.wrt, old.prefix
            if old.hint and not new.hint and self._may_be_named(new, before):
                new.hint, new.user = old.hint, old.user
            self.counts[new] = max(self.counts.get(new, 0), self.counts.get(old, 1))
            self.replaced[old] = new
            self.changed = True
            return True
        return False

    def _may_be_named(self, new: Value, before: int) -> bool:
        """Whether `new` has no meaning of its own.

        One of the nodes since position `before` makes it, or nothing but the node
        under rewriting reads it, and a transformation made it.
        """
        if any(new in node.outputs for node in self.nodes[before:]):
            return True
        made = self.made_by.get(new)
        alone = self.counts.get(new, 1) <= 1
        of_nothing = new.wrt is None or not new.wrt.hint
        return made is not None and made.derived and alone and of_nothing
