"""A function of the user's as one node: what is recomputed, or has rules of its own.

The body is a graph, and is emitted as a function of the module under its own name.
What differentiates or batches it makes other bodies of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tracegrad.ir.dims import named
from tracegrad.ir.dims import names as names_in
from tracegrad.ir.graph import Const, Graph, Node, Value
from tracegrad.ir.region import Open, close, copied
from tracegrad.ir.types import ArrayType, Dim
from tracegrad.ops.cast import alias
from tracegrad.ops.define import Op
from tracegrad.ops.evaluate import evaluate


@dataclass(frozen=True, slots=True, eq=False)
class Recompute:
    """The derivative computes the values of the body again, none is saved."""


@dataclass(frozen=True, slots=True, eq=False)
class Pullback:
    """The user's rule of reverse mode.

    Attributes:
        plain: how many results of the forward body are those of the function; the
            others are residuals, what the pullback reads.
        primal: the function without residuals, for where nothing is differentiated.
        body: the pullback: of the residuals, the cotangents of differentiable results
            and the inputs `extra`; it gives a cotangent for each of `wrt`.
        wrt: positions among the inputs.
        args: how many inputs are arguments; the others come from outside.
        extra: positions of the inputs that the pullback closes over.
        used: whether a derivative around the call has made use of it; one around that
            differentiates what the bodies consist of, as in JAX.
    """

    plain: int
    primal: Body
    body: Body
    wrt: tuple[int, ...]
    args: int
    extra: tuple[int, ...]
    used: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Pushforward:
    """The user's rule of forward mode.

    Attributes:
        body: of all inputs and a tangent for each of `wrt`; it gives the results and
            then the tangents of the differentiable ones.
        wrt: positions among the inputs.
        args: as that of `Pullback`.
        used: as that of `Pullback`.
    """

    body: Body
    wrt: tuple[int, ...]
    args: int
    used: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class NoRule:
    """A function inside of its own rule, too deep for a rule to be traced again."""


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A graph that is called by name.

    Attributes:
        name: of the emitted function.
        graph: closed: what it reads of the outside are further parameters.
        rule: how it is differentiated; None: like the nodes that it consists of.
        doc: docstring of the emitted function.
    """

    name: str
    graph: Graph
    rule: Recompute | Pullback | Pushforward | NoRule | None = None
    doc: str | None = None

    def __repr__(self) -> str:
        return self.name

    @property
    def transparent(self) -> bool:
        """Whether forward mode differentiates the nodes, not the call."""
        if isinstance(self.rule, Pullback | Pushforward):
            return self.rule.used
        return not isinstance(self.rule, NoRule)


def _infer_call(*types: ArrayType, body: Body) -> Any:
    made = tuple([v.type.strong for v in body.graph.results])
    return made[0] if len(made) == 1 else made


def _run(*args: Any, body: Body) -> Any:
    out = evaluate(body.graph, list(args))
    return out[0] if len(out) == 1 else tuple(out)


# No entry of the table of ops: its bodies are made by transformations alone.
call = Op(_run, _infer_call)
call.name, call.spelling, call.noun = "call", "a call", "out"


def walk_calls(graph: Graph) -> Iterator[Node]:
    """Every node, those of regions and of called bodies included."""
    for node in graph.walk():
        yield node
        if node.op is call:
            yield from walk_calls(node.attrs["body"].graph)


def rules_used(nodes: Sequence[Node], active: set[Value]) -> list[Node]:
    """The nodes with the rules of active calls marked as used."""
    made = []
    for node in nodes:
        if node.op is call and any(v in active for v in node.inputs):
            body: Body = node.attrs["body"]
            if isinstance(body.rule, Pullback | Pushforward):
                rule = replace(body.rule, used=True)
                node = node.changed(attrs={"body": replace(body, rule=rule)})
        made.append(node)
    return made


def closed(
    name: str, params: Sequence[Value], nodes: list[Node], results: list[Value]
) -> tuple[list[Value], Graph]:
    """A graph of its own for a part of a program.

    Args:
        name: of the graph.
        params: its first parameters.
        nodes: in order.
        results: what it gives.

    Returns:
        What it reads of the outside, captured arrays too, and the graph, whose further
        parameters stand for that.
    """
    arrays = dict.fromkeys(
        [
            v
            for v in [*[u for n in nodes for u in n.inputs], *results]
            if isinstance(v, Const) and v.type.shape
        ]
    )
    renamed: dict[Value, Value] = {v: Value(v.type, v.hint) for v in arrays}
    nodes = [
        n.with_inputs(tuple([renamed.get(v, v) for v in n.inputs]))
        if any(v in renamed for v in n.inputs)
        else n
        for n in nodes
    ]
    results = [renamed.get(v, v) for v in results]
    inner = [*params, *renamed.values()]
    captured, (graph,) = close([Open(name, inner, [], nodes, results)])
    graph.sizes = sizes_of(graph.params)
    return [*arrays, *captured], graph


def sizes_of(params: Sequence[Value]) -> dict[str, tuple[Value, int]]:
    """Where each symbolic size is read."""
    found: dict[str, tuple[Value, int]] = {}
    for v in params:
        for axis, size in enumerate(v.type.shape):
            if isinstance(size, Dim) and len(names_in(size)) == 1:
                (name,) = names_in(size)
                if size is named(name):
                    found.setdefault(name, (v, axis))
    return found


def knows_its_sizes(graph: Graph) -> bool:
    """Whether every symbolic size in the graph can be read of its parameters."""
    wanted: set[str] = set()

    def look(x: Any) -> Any:
        if isinstance(x, Dim):
            wanted.update(names_in(x))
        elif type(x) is tuple:
            for part in x:
                look(part)
        elif hasattr(x, "map_sizes"):
            x.map_sizes(look)
        return x

    for node in graph.nodes:
        for attr in node.attrs.values():
            look(attr)
    sizes: dict[str, tuple[Value, int]] = graph.sizes
    return wanted <= set(sizes)


def expanded(node: Node) -> list[Node]:
    """The nodes of a call's body in its place, making its outputs."""
    body: Body = node.attrs["body"]
    known = dict(zip(body.graph.params, node.inputs, strict=True))
    nodes, results = copied(body.graph.nodes, body.graph.results, known)
    renamed: dict[Value, Value] = {}
    made_here = {v for n in nodes for v in n.outputs}
    more = []
    for out, v in zip(node.outputs, results, strict=True):
        if v in made_here and v not in renamed:
            renamed[v] = out
        else:  # an input, a constant, or a result that is there twice
            more.append((out, v))
    made = []
    for n in nodes:
        changed = n.changed(
            inputs=tuple([renamed.get(v, v) for v in n.inputs]),
            outputs=tuple([renamed.get(v, v) for v in n.outputs]),
        )
        changed.at = n.at or node.at
        changed.phase = node.phase
        changed.derived = n.derived or node.derived
        made.append(changed)
    for out, v in more:
        made.append(Node(alias, (renamed.get(v, v),), (out,), {}, node.at, node.phase))
    return made
