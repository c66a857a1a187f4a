"""Programs with guards: what they are for, and what happens where a guard fails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tracegrad.errors import ControlFlowError
from tracegrad.ir.dims import Dim
from tracegrad.ir.dims import names as names_in
from tracegrad.ir.graph import Graph, Node
from tracegrad.ir.routine import Routine
from tracegrad.ir.symbols import sizes_in
from tracegrad.ir.tree import restore
from tracegrad.ops.evaluate import evaluate

EMPTY: Mapping[str, str] = MappingProxyType({})


def refuse_guards(nodes: Iterable[Node], unjoined: Mapping[str, str] = EMPTY) -> None:
    """A program that cannot stop in the middle, as under `jax.jit`, has no guards.

    Args:
        nodes: of the program.
        unjoined: branches that were left to Python, and why.

    Raises:
        ControlFlowError: for the first one.
    """
    for node in nodes:
        if node.op.guards:
            here = f"{node.at[-1].where}: " if node.at else "?"
            reasons = [why for at, why in unjoined.items() if at.startswith(here)]
            raise ControlFlowError(
                "Python decided by the value of a traced array here, which code under "
                "jax.jit cannot do" + "".join([f"; {why}" for why in reasons]),
                op="if, while, bool() or int()",
                at=node.at[-1] if node.at else None,
                fix="use np.where, tg.cond or tg.while_loop, or the NumPy backend",
            )


def reads_counts(graph: Graph) -> bool:
    """Whether a program computes with sizes that masks decide.

    It is right for any number of elements if it only passes them on.
    """
    bound = {str(n.attrs[n.op.binds]) for n in graph.nodes if n.op.binds}
    counted = {
        size
        for node in graph.nodes
        for v in node.outputs
        for size in v.type.shape
        if isinstance(size, Dim) and not set(names_in(size)) <= graph.sizes.keys()
    }
    for node in graph.nodes:
        if not node.op.binds and not bound.isdisjoint(sizes_in(node)):
            return True
        told = node.op.type_only and not node.out.type.shape
        if told and any(counted.intersection(v.type.shape) for v in node.inputs):
            return True
    return False


def interpret(routine: Routine, data: Sequence[Any]) -> Any:
    """The result of a routine, computed from its graph with no guard asked.

    For calls whose values decide otherwise when generated code computes them again, by
    a last bit.

    Args:
        routine: of one trace.
        data: one array or number per parameter of its graph.

    Raises:
        ControlFlowError: the routine has a nested function.
    """
    graph = routine.graph
    if routine.pullback is not None:
        raise ControlFlowError(
            "a test of the function's is decided by rounding, and came out differently "
            "when it was computed a second time",
            op=routine.name,
            at=routine.at,
            fix="compare with a tolerance",
        )
    kept = [node for node in graph.nodes if not node.op.guards]
    found = iter(evaluate(graph.with_nodes(kept), list(data)))
    return restore(routine.result, lambda _: next(found))
