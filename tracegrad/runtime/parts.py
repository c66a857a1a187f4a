"""Functions that stand in a program as calls, traced on their own; `checkpoint`.

`stop_gradient` too, for structures of arrays.
"""

from __future__ import annotations

import functools
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad.codegen.names import identifier
from tracegrad.errors import ArgumentError
from tracegrad.ir.graph import FORWARD, Node, Value
from tracegrad.ir.tree import Leaf, Static, Tree, build, leaves
from tracegrad.ir.tree import restore as restore_tree
from tracegrad.ops import cast
from tracegrad.ops.call import Body, Recompute, call, closed
from tracegrad.ops.cast import alias
from tracegrad.ops.record import Builder
from tracegrad.runtime.binding import Binder, walk
from tracegrad.runtime.derive import as_values, values_of
from tracegrad.runtime.options import decorator
from tracegrad.runtime.transform import binder_of
from tracegrad.trace.frames import calling_line
from tracegrad.trace.proxy import make
from tracegrad.trace.session import ACTIVE
from tracegrad.trace.tracer import active, inline, is_traced


class Part:
    """A function of the user's, traced on its own.

    Attributes:
        trees: its arguments.
        params: their values, in order.
        nodes: what it computes, the arguments' values not among it.
        result: structure of what it returned.
        given: the values that the arguments had outside.
    """

    def __init__(
        self, trees: Sequence[Tree], nodes: list[Node], result: Tree, depth: int
    ) -> None:
        """Take apart what was traced.

        Args:
            trees: the arguments.
            nodes: what was recorded.
            result: what was returned.
            depth: how many user frames there are around the function.
        """
        self.trees = list(trees)
        self.params = values_of(trees)
        wanted = set(self.params)
        outside: dict[Value, Value] = {}
        self.nodes: list[Node] = []
        for node in nodes:
            if node.op is alias and node.out in wanted:
                outside[node.out] = node.inputs[0]
            else:
                node.at, node.phase = node.at[depth:], FORWARD
                self.nodes.append(node)
        self.given = [outside[v] for v in self.params]
        self.result = result
        # What it is called outside is no name for it inside.
        hints = {v.hint for v in self.params}
        for v in self.results:
            if v.hint in hints and v not in wanted:
                v.hint, v.user = None, False

    @property
    def results(self) -> list[Value]:
        """The leaves of the result."""
        return [leaf.value for leaf in leaves(self.result)]


def traced(
    function: Callable, args: tuple, kwargs: dict, names: Sequence[str] = ()
) -> Part:
    """Trace a function; nothing of it stays in the running trace.

    Args:
        function: the user's.
        args, kwargs: what it is called with.
        names: of its positional parameters.
    """
    found: list[Part] = []
    session = running()
    session.locate()
    depth = len(session.builder.at)

    def transform(
        builder: Builder, nodes: list[Node], params: tuple, result: Tree
    ) -> Tree:
        builder.nodes = []
        for name, tree in zip(names, params[0], strict=False):
            for where, leaf in walk(tree, name):
                if isinstance(leaf, Leaf):
                    leaf.value.hint = identifier(where)
        trees = [*params[0], *params[1].values()]
        found.append(Part(trees, nodes, as_values(result), depth))
        return Static(None)

    inline(function, args, kwargs, transform)
    return found[0]


def running() -> Any:
    session = ACTIVE.session
    assert session is not None
    return session


def recorded(
    body: Body, inputs: Sequence[Value], structure: Tree, count: int
) -> tuple[Any, list[Value]]:
    """Record a call; its results as the user sees them, and all outputs."""
    session = running()
    session.locate()
    builder: Builder = session.builder
    outputs = tuple([Value(v.type.strong, v.hint) for v in body.graph.results])
    node = Node(call, tuple(inputs), outputs, {"body": body}, builder.place())
    builder.append(node)
    rest = iter(outputs[:count])
    return restore_tree(structure, lambda _: make(next(rest), session)), list(outputs)


def described(binder: Binder) -> str:
    where = f" ({binder.at.where})" if binder.at else ""
    return f"`{binder.name}`{where}."


@decorator
def checkpoint(f: Callable | None = None) -> Any:
    """The same function, computed again in the backward pass instead of kept.

    In the source it is a function of its own, called once in the forward part, and once
    more inside of its pullback: its intermediate arrays live only as long as that.

    Args:
        f: a function of arrays or structures of them.

    Returns:
        A function with the arguments of `f`.

    Example:
        >>> block = checkpoint(lambda x: np.sin(np.sin(x)))
        >>> float(grad(lambda x: block(x) * 2.0)(0.0))
        2.0
    """
    assert f is not None
    binder = binder_of(f, "tg.checkpoint")

    @functools.wraps(f, updated=())
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        if not active():
            return f(*args, **kwargs)
        return _inline_checkpoint(binder, args, kwargs)

    return checkpointed


def _inline_checkpoint(binder: Binder, args: tuple, kwargs: dict) -> Any:
    names = [slot.name for slot in binder.slots(args, kwargs) if slot.positional]
    part = traced(binder.function, args, kwargs, names)
    if not part.results:
        return restore_tree(part.result, lambda v: v)
    captured, graph = closed(binder.name, part.params, part.nodes, part.results)
    body = Body(binder.name, graph, Recompute(), described(binder))
    made, _ = recorded(body, [*part.given, *captured], part.result, len(part.results))
    return made


def stop_gradient(x: Any) -> Any:
    """`x`, taken as a constant by every derivative.

    Args:
        x: an array, a number or a structure of them.

    Returns:
        The same, in the same structure.

    Raises:
        ArgumentError: `x` is or has in it an object that may hide an array.

    Example:
        >>> float(grad(lambda x: x * stop_gradient(x))(3.0))
        3.0
    """
    return restore_tree(build(x, Leaf), _stopped)


def _stopped(x: Any) -> Any:
    if is_traced(x) or hasattr(x, "dtype") or isinstance(x, numbers.Number):
        return cast.stop_gradient(x)
    if x is None or isinstance(x, str | bytes | type | np.dtype):
        return x
    raise ArgumentError(
        f"a {type(x).__name__} is neither an array nor a structure of arrays: "
        f"{x!r:.40}",
        op="tg.stop_gradient",
        at=calling_line(),
        fix="pass the arrays in it",
    )
