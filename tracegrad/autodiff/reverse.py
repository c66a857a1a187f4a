"""Reverse mode over a list of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tracegrad.autodiff.activity import active_values
from tracegrad.autodiff.calls import pull_call
from tracegrad.autodiff.cotangent import Accumulator
from tracegrad.autodiff.regions import pull_regions
from tracegrad.errors import UnsupportedError
from tracegrad.ir.graph import BACKWARD, Const, Node, Value
from tracegrad.ops.call import call
from tracegrad.ops.define import Op, Rule
from tracegrad.ops.record import Builder, Ref
from tracegrad.ops.select import where

# For some ops, a rule for each input in the place of the op's own.
Rules = Mapping[Op, Sequence[Rule | None]]


def pull_back(
    builder: Builder,
    nodes: Sequence[Node],
    outputs: Sequence[Value],
    cotangents: Sequence[Ref | None],
    wrt: Sequence[Value],
    rules: Rules | None = None,
) -> list[Ref | None]:
    """Record the pullback of `nodes` into `builder`.

    Args:
        builder: receives the backward nodes; rules' operators record there.
        nodes: the forward program, in order.
        outputs: values with a cotangent.
        cotangents: one per output, `None` for zero.
        wrt: values to differentiate with respect to.
        rules: for some ops, rules that take the place of their own.

    Returns:
        One cotangent per entry of `wrt`, `None` where nothing reaches it.

    Raises:
        UnsupportedError: if a value on the way was made by an op without a rule.
    """
    active = active_values(nodes, wrt)
    accumulators: dict[Value, Accumulator] = {}
    before = builder.at, builder.phase
    builder.phase = BACKWARD
    for out, ct in zip(outputs, cotangents, strict=True):
        if ct is not None and out in active:
            accumulators.setdefault(out, Accumulator(out)).add(ct)
    wanted = set(wrt)
    masks = _Masks(builder, nodes)
    for node in reversed(nodes):
        reached = [v for v in node.outputs if v in accumulators]
        if not reached:
            continue
        cts = []
        for v in node.outputs:
            acc = accumulators.get(v)
            cts.append(None if acc is None else acc.total(builder))
            if v not in wanted:
                accumulators.pop(v, None)
        builder.at = node.at
        _pull_node(builder, node, cts, active, accumulators, masks, rules or {})
    results = []
    for v in wrt:
        acc = accumulators.get(v)
        results.append(None if acc is None else acc.total(builder))
    builder.at, builder.phase = before
    return results


class _Masks:
    """Moves the masks that `where` puts on cotangents behind elementwise rules.

    For `where(x > 0, sqrt(x), 0)` the textbook chain gives 0 / 0 at x = 0: zero from
    `where`, divided by sqrt(0).  An elementwise rule treats each element alone, so it
    may as well work on the cotangent before `where` has set elements to zero, with
    `where` applied to what it returns.  It does so where, on elementwise ways from
    other values, an op may have an infinite slope.
    """

    def __init__(self, builder: Builder, nodes: Sequence[Node]) -> None:
        self.builder = builder
        self.exposed: set[Value] = set()
        for node in nodes:
            if is_elementwise(node.op) and (
                not node.op.finite or any(v in self.exposed for v in node.inputs)
            ):
                self.exposed.update(node.outputs)
        self.made_by: dict[Value, Node] = {}
        self.seen = 0

    def take_off(self, cts: list[Ref | None]) -> tuple[list[Node], list[Ref | None]]:
        """The masks on the only cotangent, outermost first, and what they are on."""
        nodes = self.builder.nodes
        for made in nodes[self.seen :]:
            if made.op is where:
                self.made_by[made.out] = made
        self.seen = len(nodes)
        (ct,) = cts
        masked: list[Node] = []
        while ct is not None and ct.value in self.made_by:
            made = self.made_by[ct.value]
            kept = [v for v in made.inputs[1:] if not _is_zero(v)]
            if len(kept) != 1:
                break
            masked.append(made)
            ct = self.builder.wrap(kept[0])
        return masked, [ct]

    def put_on(self, masked: list[Node], ct: Ref) -> Ref:
        """The cotangent with the masks."""
        for made in reversed(masked):
            condition, x, _ = made.inputs
            wrapped = self.builder.wrap(condition)
            ct = where(wrapped, 0.0, ct) if _is_zero(x) else where(wrapped, ct, 0.0)
        return ct


def is_elementwise(op: Op) -> bool:
    """Whether each element of the output depends on one element of each input."""
    return getattr(op.infer, "ufunc", None) is not None


def _is_zero(v: Value) -> bool:
    return isinstance(v, Const) and type(v.value) is float and v.value == 0.0


def _pull_node(
    builder: Builder,
    node: Node,
    cts: list[Ref | None],
    active: set[Value],
    accumulators: dict[Value, Accumulator],
    masks: _Masks,
    own: Rules,
) -> None:
    """Apply the rule of one node and hand its cotangents to the inputs."""
    masked: list[Node] = []
    pull = partial(pull_back, rules=own)
    if node.regions:
        take = lambda v: _taken(accumulators, v)
        parts = pull_regions(builder, node, cts, active, pull, take)
    elif node.op is call:
        parts = pull_call(builder, node, cts, active, pull)
    else:
        if node.outputs[0] in masks.exposed and len(cts) == 1:
            masked, cts = masks.take_off(cts)
        parts = _by_rule(builder, node, cts, active, own.get(node.op, node.op.rules))
    for v, part in zip(node.inputs, parts, strict=True):
        if part is not None and v in active:
            acc = accumulators.get(v)
            if acc is None:
                acc = accumulators[v] = Accumulator(v)
            acc.add(masks.put_on(masked, part))


def _taken(accumulators: dict[Value, Accumulator], v: Value) -> Ref | None:
    """The dense contributions to the cotangent of `v` so far, and none are left."""
    acc = accumulators.get(v)
    if acc is None:
        return None
    dense, acc.dense = acc.dense, None
    return dense


def _by_rule(
    builder: Builder,
    node: Node,
    cts: list[Ref | None],
    active: set[Value],
    rules: Sequence[Rule | None] | None,
) -> list[Any]:
    """What the rule of the op gives for each input."""
    op = node.op
    if not op.differentiable:
        raise UnsupportedError(
            f"{op.spelling} has no derivative rule yet",
            op=op.spelling,
            at=node.at[-1] if node.at else None,
            fix="use another function, or keep it away from what is differentiated",
        )
    inputs = [builder.wrap(v) for v in node.inputs]
    many = len(node.outputs) > 1
    outs = tuple([builder.wrap(v) for v in node.outputs])
    ct, out = (tuple(cts), outs) if many else (cts[0], outs[0])
    if rules is not None:
        return [
            rule(ct, out, *inputs, **node.attrs) if rule and v in active else None
            for rule, v in zip(rules, node.inputs, strict=True)
        ]
    assert op.rule is not None
    made = op.rule(ct, out, *inputs, **node.attrs)
    return [made] if len(inputs) == 1 and type(made) is not tuple else list(made)
