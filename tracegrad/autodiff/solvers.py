"""Derivatives of what solvers find: roots, solutions of equations, integrals.

At a root `r(x, p) = 0` the implicit function theorem gives `dx/dp = -(dr/dx)^-1 dr/dp`,
however the root was found.  At a minimum without bounds the gradient is zero, and its
Jacobian is the Hessian.  All of it is recorded as nodes, further solvers among them: so
it has derivatives too.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracegrad.autodiff.batch import batch
from tracegrad.autodiff.equations import Adjoint, push_solution
from tracegrad.autodiff.inlining import Pull, Push, apart, derived, inlined, reshaped
from tracegrad.autodiff.quadrature import pull_integral, push_integral
from tracegrad.errors import UnsupportedError
from tracegrad.ir.dims import product
from tracegrad.ir.graph import Const, Node, Value
from tracegrad.ops.create import eye
from tracegrad.ops.linalg import solve
from tracegrad.ops.record import Builder, Ref
from tracegrad.ops.shape import broadcast_to, transpose
from tracegrad.ops.solvers import Parts, find_root, quadrature


def pull_solver(
    builder: Builder,
    node: Node,
    cts: Sequence[Ref | None],
    active: set[Value],
    pull: Pull,
) -> list[Ref | None]:
    """Record the pullback of a solver; one cotangent per input."""
    parts = Parts.of(node)
    ct = None if parts.solution is None else cts[parts.solution]
    if ct is None:
        return [None] * len(node.inputs)
    if node.op is find_root:
        return _pull_root(builder, node, parts, ct, active, pull)
    if node.op is quadrature:
        return pull_integral(builder, node, parts, ct, active, pull)
    return Adjoint(builder, node, parts, ct, active, pull).record()


def push_solver(
    builder: Builder,
    node: Node,
    given: Sequence[Ref | None],
    push: Push,
    pull: Pull,
) -> list[Ref | None]:
    """Record the tangents of a solver, which is there already; one per output."""
    parts = Parts.of(node)
    outs: list[Ref | None] = [None] * len(node.outputs)
    if parts.solution is not None:
        record = {find_root: _push_root, quadrature: push_integral}
        rule = record.get(node.op, push_solution)
        outs[parts.solution] = rule(builder, node, parts, given, push, pull)
    return outs


# ------------------------------------------------------------------------------- roots
def _residual(
    builder: Builder, node: Node, parts: Parts, x: Value, pull: Pull
) -> tuple[list[Node], Value]:
    """The nodes of what is zero at the solution `x`, and that value."""
    nodes, result = inlined(builder, parts, {"x": x})
    kind = parts.solver.kind
    if kind == "root":
        return nodes, result
    with apart(builder) as more:
        if kind == "point":
            made = builder.wrap(result) - builder.wrap(x)
        else:
            # The slope of a number, or of half the sum of squares.
            seed = builder.wrap(Const(1.0) if kind == "minimum" else result)
            made = _rows(builder, node, nodes, result, x, seed, pull)
    return [*nodes, *more], made.value


def _pull_root(
    builder: Builder,
    node: Node,
    parts: Parts,
    ct: Ref,
    active: set[Value],
    pull: Pull,
) -> list[Ref | None]:
    with derived(builder):
        x = node.outputs[parts.solution or 0]
        nodes, residual = _residual(builder, node, parts, x, pull)
        builder.nodes.extend(nodes)
        weights = _through(builder, node, nodes, residual, x, ct, pull, transposed=True)
        wrt = [v for v in parts.captured if v in active]
        found = pull(builder, nodes, [residual], [weights], wrt)
    of = dict(zip(wrt, found, strict=True))
    return [of.get(v) for v in parts.captured] + [None] * len(parts.data)


def _push_root(
    builder: Builder,
    node: Node,
    parts: Parts,
    given: Sequence[Ref | None],
    push: Push,
    pull: Pull,
) -> Ref | None:
    x = node.outputs[parts.solution or 0]
    nodes, residual = _residual(builder, node, parts, x, pull)
    moved = [(v, t) for v, t in zip(parts.captured, given, strict=False) if t]
    known = push(builder, nodes, [v for v, _ in moved], [t for _, t in moved])
    t = known.get(residual)
    if t is None:
        return None
    return _through(builder, node, nodes, residual, x, t, pull, transposed=False)


def _through(
    builder: Builder,
    node: Node,
    nodes: list[Node],
    residual: Value,
    x: Value,
    b: Ref,
    pull: Pull,
    transposed: bool,
) -> Ref:
    """`-J^-1 b`, or `-J^-T b`, for the Jacobian `J` of the residual in `x`."""
    one_by_one = all(getattr(n.op.infer, "ufunc", None) is not None for n in nodes)
    if not x.type.shape or one_by_one:
        one: Ref = builder.wrap(Const(1.0))
        if x.type.shape:
            one = broadcast_to(one, shape=x.type.shape)
        return -b / _rows(builder, node, nodes, residual, x, one, pull)
    count = product(x.type.shape)
    ct = Value(residual.type, "row")
    with apart(builder) as pulled:
        found = _rows(builder, node, nodes, residual, x, builder.wrap(ct), pull)
    units = builder.record(eye, (), {"n": count})
    units = reshaped(units, (count, *x.type.shape))
    known = batch(builder, pulled, {ct: units}, count)
    jacobian = known.get(found.value, found)
    jacobian = reshaped(jacobian, (count, count))
    _call_it(jacobian.value, "jacobian", builder)
    if transposed:
        jacobian = transpose(jacobian, axes=(1, 0))
    made = solve(jacobian, -reshaped(b, (count,)))
    return reshaped(made, x.type.shape)


def _call_it(v: Value, hint: str, builder: Builder) -> None:
    """Name a value, and the array that it is made in."""
    for n in reversed(builder.nodes):
        if v in n.outputs:
            v.hint = hint
            if n.op.inplace is None:
                break
            v = n.inputs[0]


def _rows(
    builder: Builder,
    node: Node,
    nodes: list[Node],
    residual: Value,
    x: Value,
    ct: Ref,
    pull: Pull,
) -> Ref:
    """The pullback of the residual in `x`, in the phase that is recorded now."""
    phase = builder.phase
    first = len(builder.nodes)
    (found,) = pull(builder, nodes, [residual], [ct], [x])
    for n in builder.nodes[first:]:
        n.phase = phase
    if found is None:
        raise UnsupportedError(
            "the function that is solved does not depend on its argument",
            op=f"{node.attrs['solver'].module}.{node.attrs['solver'].function}",
            at=node.at[-1] if node.at else None,
            fix="use the argument in it",
        )
    return found
