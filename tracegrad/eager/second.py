"""Second derivatives that are zero, and still have a history, as in PyTorch.

The slope of `relu` is constant in pieces.  What a rule makes of it does not depend on
the operand, so that a recorded gradient would have no history.  In PyTorch it has one,
of zeros: `backward()` of a penalty on a gradient works, and a gradient is there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracegrad.eager.inplace import pull_copy
from tracegrad.eager.modes import state
from tracegrad.eager.nodes import INPUTS, META, NAME, SEQ, Node, kept, next_seq
from tracegrad.eager.runtime import graph_add, graph_pull
from tracegrad.eager.tensor import Tensor, wrap

# The name of a `grad_fn` -> that of its gradient.
BENT = {
    "ReluBackward0": "ThresholdBackwardBackward0",
    "ThresholdBackward0": "ThresholdBackwardBackward0",
    "LeakyReluBackward0": "LeakyReluBackwardBackward0",
    "HardtanhBackward0": "HardtanhBackwardBackward0",
    "SoftshrinkBackward0": "SoftshrinkBackwardBackward0",
    "HardshrinkBackward0": "HardshrinkBackwardBackward0",
    "PreluKernelBackward0": "PreluKernelBackwardBackward0",
    "MaxPool2DWithIndicesBackward0": "MaxPool2DWithIndicesBackwardBackward0",
    "MaxPool3DWithIndicesBackward0": "MaxPool3DWithIndicesBackwardBackward0",
}
# Where the exponent is 1, the slope is 1.
STRAIGHT = {"PowBackward0": "MulBackward0"}


def recorded_pull(entry: Any) -> Callable:
    """`graph_pull`, with a history of zeros where PyTorch has one."""
    plain = graph_pull(entry)

    def pull(node: Node, ct: Any, grads: dict) -> None:
        title = node[NAME] or entry.title
        name = BENT.get(title) or STRAIGHT.get(title) if type(title) is str else None
        if name is None or not state.grad:
            plain(node, ct, grads)
            return
        local: dict[Any, Any] = {}
        plain(node, ct, local)
        for source in {s[SEQ]: s for s in node[INPUTS] if s is not None}.values():
            g = local.get(source[SEQ])
            if g is not None:
                if title in BENT or g is ct:
                    g = _still(g, source, node, name)
                graph_add(grads, source, g)

    return pull


def _still(g: Tensor, source: Node, node: Node, name: str) -> Tensor:
    """`g` with one more derivative, of zeros, with respect to what `source` made."""
    place = node[INPUTS].index(source)
    own = (g._data.shape, g._data.dtype)
    there = own if node[META] is None else node[META][2 * place : 2 * place + 2]
    made = wrap(g._data)
    made._tangent = g._tangent
    inputs = (source, g._node)
    constants = (None, kept(g._data) if g._node is None else None)
    meta = (*there, *own)
    made._node = [
        pull_copy, next_seq(), None, inputs, None, meta, None, name, constants
    ]  # fmt: skip
    return made
