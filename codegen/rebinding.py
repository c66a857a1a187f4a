"""When a branch or a loop may bind a variable anew that holds another value by then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracegrad.codegen.plan import Body, last_named
from tracegrad.ir.graph import FORWARD, Node, Value

if TYPE_CHECKING:
    from tracegrad.codegen.control import ControlLowering


def kept_variable(lower: ControlLowering, node: Node, k: int) -> str | None:
    """The variable of what an arm gives as it found it, for output `k` of a branch.

    So `if x > 0: y = 2.0 * y` needs no other arm.  None if the old value is read later.
    """
    out = node.outputs[k]
    at = lower.plan.producer[node.outputs[0]]
    if out in lower.targets or out.type.shape:  # an array may be updated in place
        return None
    for region in node.regions:
        if region.results[k] not in region.params:
            continue
        i = region.params.index(region.results[k])
        v = node.inputs[1 + i]
        variable = lower.variables.get(v)
        if variable is None or variable not in (out.hint, lower.cotangent_name(out)):
            continue
        if is_free(lower, node, v, at) and _outlives(lower, node, k, i):
            return variable
    return None


def _outlives(lower: ControlLowering, node: Node, k: int, i: int) -> bool:
    """Whether no arm reads operand `i` once it has bound output `k`."""
    for region in node.regions:
        param, result = region.params[i], region.results[k]
        if result is param:
            continue
        inner = lower.region(region, Body(named=lower.shared), looping=False)
        made = inner.plan.producer.get(result, len(region.nodes) - 1)
        if last_named(param, region, inner.plan, deep=True) > made:
            return False
    return True


def is_free(lower: ControlLowering, node: Node, start: Value, at: int) -> bool:
    """Whether the variable of a first value may change from here on."""
    made = lower.plan.producer.get(start)
    if made is None and not _is_own(lower, node, start):
        return False
    if made is not None and lower.graph.nodes[made].phase != node.phase:
        return False
    once = node.inputs.count(start) == 1
    return once and last_named(start, lower.graph, lower.plan, deep=True) <= at


def _is_own(lower: ControlLowering, node: Node, v: Value) -> bool:
    """Whether `v` is a carry, or an argument of the function that the node is in."""
    if v in lower.carries:
        return True
    return v in lower.arguments and (node.phase == FORWARD or not lower.split)
