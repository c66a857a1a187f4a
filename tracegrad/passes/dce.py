"""Dead code, and identities that have done their work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tracegrad.ir.dims import product
from tracegrad.ir.graph import Graph, Node, Value
from tracegrad.ir.symbols import names_of, sizes_in
from tracegrad.ops.cast import alias
from tracegrad.ops.create import dim, full, full_like, size, zeros, zeros_like
from tracegrad.ops.infer import same_type_input
from tracegrad.passes.regions import prune


def remove_dead_code(graph: Graph) -> Graph:
    """The graph without nodes whose outputs nothing reads.

    What reads only the type of a value does not keep the value alive: it reads the type
    of another value, of the same type by construction, that is alive anyway.  What
    reads only its size needs no array at all, if the arguments have the axes.
    """
    made_by = {v: node for node in graph.nodes for v in node.outputs}
    live: set[Value] = {*graph.params, *graph.results}
    known = names_of([s for v in graph.params for s in v.type.shape])
    kept = _mark(graph, live)
    while _borrow_types(kept, live, made_by, known):
        kept = _mark(graph, live)
    return graph.with_nodes([_with_live_types(n, live, made_by, known) for n in kept])


def drop_aliases(graph: Graph) -> Graph:
    """The graph without the identities that kept the arguments of derivatives apart."""
    if not any(node.op is alias for node in graph.nodes):
        return graph
    known: dict[Value, Value] = {}
    kept: list[Node] = []
    for node in graph.nodes:
        if node.op is alias:
            known[node.out] = known.get(node.inputs[0], node.inputs[0])
            continue
        if any(v in known for v in node.inputs):
            node = node.with_inputs(tuple([known.get(v, v) for v in node.inputs]))
        for v in node.outputs:
            if v.wrt is not None:
                v.wrt = known.get(v.wrt, v.wrt)
        kept.append(node)
    return graph.with_nodes(kept, [known.get(v, v) for v in graph.results])


def without_types_of(values: Iterable[Value], graph: Graph) -> Graph:
    """The graph without dead code, and without reads of types of what `values` make.

    Arrays made like such a value are made from its sizes, so that it can be dead code.

    Args:
        values: parameters of the graph, such as tangents.
        graph: what is linear in them, transposed.
    """
    graph = remove_dead_code(graph)
    made_of = set(values)
    known = names_of([s for v in graph.params for s in v.type.shape])
    nodes = []
    for node in graph.nodes:
        first = node.inputs[0] if node.inputs else None
        if not made_of.isdisjoint(node.inputs) and node.op in _OF_SIZES:
            if first in made_of and first not in graph.params:
                node = _by_sizes(node, known) or node
        if not made_of.isdisjoint(node.inputs):
            made_of.update(node.outputs)
        nodes.append(node)
    return remove_dead_code(graph.with_nodes(nodes))


def _mark(graph: Graph, live: set[Value]) -> list[Node]:
    """Add to `live` what the live values are computed from; the live nodes."""
    kept: list[Node] = []
    needed: set[str] | None = None  # symbolic sizes that attributes of live nodes name
    if any(node.op.binds for node in graph.nodes):
        needed = set()
    for node in reversed(graph.nodes):
        if (
            node.op.guards
            or not live.isdisjoint(node.outputs)
            or (needed and node.op.binds and str(node.attrs[node.op.binds]) in needed)
        ):
            if needed is not None and not node.op.binds:
                needed.update(sizes_in(node))
            if node.regions and not all(v in live for v in node.outputs):
                node = prune(node, live, remove_dead_code)
            kept.append(node)
            only = node.op.type_only
            if only:
                live.update([v for k, v in enumerate(node.inputs) if k not in only])
            else:
                live.update(node.inputs)
    kept.reverse()
    return kept


def _stand_in(v: Value, live: set[Value], made_by: dict[Value, Node]) -> Value:
    """A live value of the same type, or where the search for one ends."""
    while v not in live and v in made_by:
        like = same_type_input(made_by[v])
        if like is None:
            break
        v = like
    return v


_OF_SIZES = (size, zeros_like, full_like)


def _by_sizes(node: Node, known: set[str]) -> Node | None:
    """One of `_OF_SIZES` by sizes of the arguments, in the place of an array's type."""
    shape, axis = node.inputs[0].type.shape, node.attrs.get("axis")
    attrs: dict[str, Any] = {"shape": shape, "dtype": node.out.type.dtype.name}
    op = zeros if node.op is zeros_like else full
    if node.op is size:
        wanted = product(shape) if axis is None else shape[axis]
        op, attrs, shape = dim, {"size": wanted}, (wanted,)
    if not names_of(shape) <= known:
        return None
    made = Node(op, node.inputs[1:], node.outputs, attrs, node.at, node.phase)
    made.derived = node.derived
    return made


def _size_alone(node: Node, known: set[str]) -> Node | None:
    """A node that reads a size of arguments in the place of one of an array's."""
    return _by_sizes(node, known) if node.op is size else None


def _borrow_types(
    nodes: list[Node],
    live: set[Value],
    made_by: dict[Value, Node],
    known: set[str],
) -> bool:
    """Make alive what a type must be read of; whether there was anything."""
    missing = {
        u
        for node in nodes
        if _size_alone(node, known) is None
        for k in node.op.type_only
        if (u := _stand_in(node.inputs[k], live, made_by)) not in live and u in made_by
    }
    live |= missing
    return bool(missing)


def _with_live_types(
    node: Node, live: set[Value], made_by: dict[Value, Node], known: set[str]
) -> Node:
    only = node.op.type_only
    if not only or all(node.inputs[k] in live for k in only):
        return node
    if node.op is size and _stand_in(node.inputs[0], live, made_by) not in live:
        alone = _size_alone(node, known)
        if alone is not None:
            return alone
    inputs = tuple(
        [
            _stand_in(v, live, made_by) if k in only else v
            for k, v in enumerate(node.inputs)
        ]
    )
    return node.with_inputs(inputs)
