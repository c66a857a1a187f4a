"""Derivatives of integrals: the integral of the slope, and the values at the ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tracegrad.autodiff.inlining import (
    Pull,
    Push,
    apart,
    as_forward,
    as_own,
    derived,
    flat,
    inlined,
    part,
    reshaped,
)
from tracegrad.ir.dims import product
from tracegrad.ir.graph import Const, Node, Value
from tracegrad.ir.region import Open, close
from tracegrad.ir.types import Size
from tracegrad.ops.index import getitem
from tracegrad.ops.join import concatenate
from tracegrad.ops.record import Builder, Ref
from tracegrad.ops.reduce import sum as reduce_sum
from tracegrad.ops.solvers import FIRST, Parts, Solver, quadrature


def pull_integral(
    builder: Builder,
    node: Node,
    parts: Parts,
    ct: Ref,
    active: set[Value],
    pull: Pull,
) -> list[Ref | None]:
    """Record the pullback of an integral; one cotangent per input."""
    moved = [v for v in parts.captured if v in active]
    of: dict[Value, Ref] = {}
    with derived(builder):
        if moved:
            of = _slopes(builder, node, parts, ct, moved, pull)
        for key, sign in (("a", -1.0), ("b", 1.0)):
            v = parts.data[key]
            if v in active:
                at_end = ct * _value_at(builder, parts, v)
                if at_end.shape:  # an integral of several numbers at once
                    at_end = reduce_sum(at_end)
                end = at_end if sign > 0.0 else -at_end
                of[v] = of[v] + end if v in of else end
    return [
        *[of.get(v) if v in moved else None for v in parts.captured],
        *[of.get(v) if v not in moved else None for v in parts.data.values()],
    ]


def _value_at(builder: Builder, parts: Parts, x: Value) -> Ref:
    point = as_own(builder.wrap(x), parts.own["x"])
    nodes, result = inlined(builder, parts, {"x": point.value})
    builder.nodes.extend(nodes)
    return builder.wrap(result)


def _slopes(
    builder: Builder,
    node: Node,
    parts: Parts,
    ct: Ref,
    moved: list[Value],
    pull: Pull,
) -> dict[Value, Ref]:
    """The cotangents of what the integrand reads: one integral of them all.

    That of one number is integrated without its cotangent, a factor before all.  Where
    several numbers are integrated at once, as in a second derivative, each slope is a
    sum over them, weighted by their cotangents.
    """
    x = _point(parts)
    single = len(moved) == 1 and not moved[0].type.shape
    several = bool(ct.shape)
    seed = ct if several else builder.wrap(Const(1.0))
    with apart(builder) as nodes, as_forward(builder):
        made, result = inlined(builder, parts, {"x": x})
        builder.nodes.extend(made)
        found = pull(builder, made, [result], [seed], moved)
        reached = [v for v, d in zip(moved, found, strict=True) if d is not None]
        rows = [d for d in found if d is not None]
        if not single:
            rows = [concatenate(*map(flat, rows), axis=0)] if rows else []
    if not rows:
        return {}
    solver = parts.solver if single else _of_vectors(parts.solver)
    if single and several:
        solver = replace(solver, function="quad")  # as one number is left
    total = _integral(builder, node, parts, [x], nodes, rows[0], solver)
    total = total if several else ct * total
    if single:
        return {moved[0]: total}
    split: dict[Value, Ref] = {}
    start: Size = 0
    for v in reached:
        stop = start + product(v.type.shape)
        own = part(total, start, stop)
        split[v] = (
            reshaped(own, v.type.shape)
            if v.type.shape
            else getitem(total, index=(start,))
        )
        start = stop
    return split


def _point(parts: Parts) -> Value:
    own = parts.own["x"]
    return Value(own.type, own.hint, user=True)


def _of_vectors(solver: Solver) -> Solver:
    """The function of SciPy that integrates vectors, to the same tolerance."""
    kept = tuple([o for o in solver.options if o[0] in ("epsabs", "epsrel", "limit")])
    return replace(solver, function="quad_vec", options=kept)


def _integral(
    builder: Builder,
    node: Node,
    parts: Parts,
    own: list[Value],
    nodes: list[Node],
    result: Ref,
    solver: Solver,
) -> Ref:
    region = Open("slope", [], own, nodes, [result.value])
    captured, regions = close([region])
    solver = replace(solver, fields=(FIRST,))
    out = Value(quadrature.infer(regions=regions, solver=solver))
    inputs = (*captured, *parts.data.values())
    attrs = {"solver": solver}
    made = Node(quadrature, inputs, (out,), attrs, node.at, builder.phase, regions)
    made.derived = True
    builder.append(made)
    return builder.wrap(out)


def push_integral(
    builder: Builder,
    node: Node,
    parts: Parts,
    given: Sequence[Ref | None],
    push: Push,
    pull: Pull,
) -> Ref | None:
    """Record the tangent of an integral."""
    tangents = dict(zip(node.inputs, given, strict=True))
    moved = [(v, t) for v in parts.captured if (t := tangents[v]) is not None]
    total: Ref | None = None
    if moved:
        x = _point(parts)
        with apart(builder) as nodes, as_forward(builder):
            copies, result = inlined(builder, parts, {"x": x})
            known = push(builder, copies, [v for v, _ in moved], [t for _, t in moved])
        found = known.get(result)
        if found is not None:
            of = parts.solver
            total = _integral(builder, node, parts, [x], nodes, found, of)
    for key in ("a", "b"):
        t = tangents[parts.data[key]]
        if t is not None:
            more = _value_at(builder, parts, parts.data[key]) * t
            more = more if key == "b" else -more
            total = more if total is None else total + more
    return total
