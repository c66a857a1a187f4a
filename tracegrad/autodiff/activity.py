"""What depends on the values to differentiate with respect to."""

from __future__ import annotations

from collections.abc import Sequence

from tracegrad.ir.graph import Node, Value


def active_values(nodes: Sequence[Node], wrt: Sequence[Value]) -> set[Value]:
    """The values that depend on `wrt` through differentiable types."""
    active = {v for v in wrt if v.type.differentiable}
    for node in nodes:
        if any(v in active for v in node.inputs):
            active.update(v for v in node.outputs if v.type.differentiable)
    return active
