"""Forward mode over a list of nodes, by the rules of reverse mode.

There is one table of derivatives.  The pullback of a node is linear in the cotangent,
and forward mode is its transpose: record the pullback of the node, pull the tangents
back through *that*, and what remains after dead code is gone is the tangent of the
output.  Two kinds of ops have it shorter: a linear op is applied to the tangents, and
the pullback of an elementwise op multiplies by a diagonal matrix, its own transpose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tracegrad.autodiff.calls import no_rule, opened_again, push_call
from tracegrad.autodiff.forward_regions import push_regions
from tracegrad.autodiff.reverse import is_elementwise, pull_back
from tracegrad.autodiff.solvers import push_solver
from tracegrad.errors import UnsupportedError
from tracegrad.ir.graph import BACKWARD, Const, Graph, Node, Value
from tracegrad.ops.call import NoRule, Pushforward, call, expanded
from tracegrad.ops.cast import alias, astype
from tracegrad.ops.create import zeros_like
from tracegrad.ops.record import Builder, Ref
from tracegrad.ops.shape import broadcast_to
from tracegrad.ops.solvers import is_solver
from tracegrad.passes.dce import without_types_of

Tangents = dict[Value, Ref]


class NonlinearRule(Exception):
    """The derivative rule of an op is not linear in the cotangent: a bug of the op."""


def push_forward(
    builder: Builder,
    nodes: Sequence[Node],
    wrt: Sequence[Value],
    tangents: Sequence[Ref | None],
    apart: bool = False,
) -> Tangents:
    """Record `nodes` and their tangents into `builder`.

    Each tangent follows its node, in its phase and at its line, so that the program
    reads as the user's with a second line to each.

    Args:
        builder: receives the nodes and their tangents.
        nodes: the program, in order; not in `builder` yet.
        wrt: values with a tangent.
        tangents: one per entry of `wrt`, of its type; `None` for zero.
        apart: record the tangents alone, as backward nodes; `nodes` are there already.

    Returns:
        The tangent of each value that has one.

    Raises:
        UnsupportedError: a value on the way was made by an op without a rule.
    """
    known: Tangents = {
        v: t for v, t in zip(wrt, tangents, strict=True) if t is not None
    }
    before = builder.at, builder.phase, builder.derived
    builder.derived = True
    for node in nodes if apart else _opened(nodes, known):
        if node.regions and any(v in known for v in node.inputs):
            builder.at, builder.phase = node.at, BACKWARD if apart else node.phase
            _push_regions(builder, node, known, apart)
            continue
        if not apart:
            builder.nodes.append(node)
        elif _is_transparent(node, known):
            builder.at, builder.phase = node.at, BACKWARD
            _push_inside(builder, node, known)
            continue
        builder.at = node.at
        builder.phase = BACKWARD if apart else node.phase
        _push_node(builder, node, known)
    builder.at, builder.phase, builder.derived = before
    return known


def _push_node(builder: Builder, node: Node, known: Tangents) -> None:
    """Record the tangents of one node and note them."""
    given = [known.get(v) for v in node.inputs]
    if all(t is None for t in given):
        return
    if not any(v.type.differentiable for v in node.outputs):
        return
    first = len(builder.nodes)
    made = _tangents_of(builder, node, given)
    fresh = {v for n in builder.nodes[first:] for v in n.outputs}
    for v in fresh:
        if v.prefix != "t":
            v.wrt = None
    for v, t in zip(node.outputs, made, strict=True):
        if t is not None:
            known[v] = t
            if t.value in fresh or _is_nameless(t.value, v):
                t.value.wrt, t.value.prefix = v, "t"


def _is_nameless(t: Value, v: Value) -> bool:
    """Whether a tangent handed on is better named after `v`."""
    return bool(t.prefix == "t" and t.wrt and not t.wrt.hint and v.hint and not t.hint)


def _opened(nodes: Sequence[Node], known: Tangents) -> Iterator[Node]:
    """The nodes, with those of its body in the place of a call without a rule."""
    for node in nodes:
        if _is_transparent(node, known):
            yield from _opened(expanded(node), known)
        else:
            yield node


def _is_transparent(node: Node, known: Tangents) -> bool:
    """Whether a node is a call that is differentiated as its body is."""
    if node.op is not call or not any(v in known for v in node.inputs):
        return False
    return node.attrs["body"].transparent


def _push_inside(builder: Builder, node: Node, known: Tangents) -> None:
    """The tangents of a call's outputs, apart from it: its body is computed again."""
    nodes, results = opened_again(builder, node)
    found = push_forward(builder, nodes, list(known), list(known.values()), apart=True)
    for out, v in zip(node.outputs, results, strict=True):
        if v in found:
            known[out] = found[v]


def _push_regions(builder: Builder, node: Node, known: Tangents, apart: bool) -> None:
    """Branches and loops: one node computes the values and the tangents."""
    given = [known.get(v) for v in node.inputs]
    if is_solver(node):
        if not apart:
            builder.nodes.append(node)
        found = push_solver(builder, node, given, push_forward, pull_back)
        known.update({v: t for v, t in zip(node.outputs, found, strict=True) if t})
        for v in node.outputs:
            if v in known and known[v].value.wrt is None:
                known[v].value.wrt, known[v].value.prefix = v, "t"
        return
    outputs = [Value(v.type, v.hint) for v in node.outputs] if apart else node.outputs
    made = push_regions(builder, node, given, push_forward, outputs)
    for v, t in zip(node.outputs, made, strict=True):
        if t is not None:
            known[v] = t
            t.value.wrt, t.value.prefix = v, "t"


def _tangents_of(
    builder: Builder, node: Node, given: list[Ref | None]
) -> list[Ref | None]:
    """The tangents of the outputs of one node."""
    op = node.op
    if op is alias:
        return given
    if op is call:
        rule = node.attrs["body"].rule
        if isinstance(rule, NoRule):
            raise no_rule(node)
        if isinstance(rule, Pushforward):
            made = push_call(builder, node, given, rule)
        else:
            made = _rule_transposed(builder, node, given)
        return _conformed(made, node)
    if op.tangent is None and not op.differentiable:
        raise UnsupportedError(
            f"{op.spelling} has no derivative rule yet",
            op=op.spelling,
            at=node.at[-1] if node.at else None,
            fix="use another function, or keep it away from what is differentiated",
        )
    if op.tangent is not None:
        made = _by_hand(builder, node, given)
    elif op.linear:
        made = [_linear(builder, node, given)]
    elif is_elementwise(op) and _is_real(node) and len(node.outputs) == 1:
        made = [_diagonal(builder, node, given)]
    else:
        made = _transposed(builder, node, given)
    return _conformed(made, node)


def _conformed(made: list[Ref | None], node: Node) -> list[Ref | None]:
    return [
        None if t is None or not v.type.differentiable else _conform(t, v)
        for t, v in zip(made, node.outputs, strict=True)
    ]


def _refs(builder: Builder, node: Node) -> tuple:
    """The outputs and the inputs, as rules take them."""
    outs = tuple([builder.wrap(v) for v in node.outputs])
    return outs if len(outs) > 1 else outs[0], list(map(builder.wrap, node.inputs))


def _by_hand(builder: Builder, node: Node, given: list[Ref | None]) -> list[Ref | None]:
    assert node.op.tangent is not None
    out, inputs = _refs(builder, node)
    t = given[0] if len(given) == 1 and not node.op.variadic else tuple(given)
    made = node.op.tangent(t, out, *inputs, **node.attrs)
    return list(made) if len(node.outputs) > 1 else [made]


def _linear(builder: Builder, node: Node, given: list[Ref | None]) -> Ref:
    """A linear op of the tangents; inputs without one, such as indices, as they are."""
    args = []
    for k, (v, t) in enumerate(zip(node.inputs, given, strict=True)):
        if t is not None or not node.op.is_linear_in(k):
            args.append(builder.wrap(v) if t is None else t)
        elif v.type.weak:
            args.append(builder.wrap(Const(0.0)))
        else:
            zero = zeros_like(builder.wrap(v))
            zero.value.wrt, zero.value.prefix = v, "t"
            args.append(zero)
    if is_elementwise(node.op) and any(t is None for t in given):  # no zeros are added
        found = _diagonal(builder, node, given)
        assert found is not None
        return found
    return node.op(*args, **node.attrs)


def _is_real(node: Node) -> bool:
    return not any(v.type.kind == "c" for v in (*node.inputs, *node.outputs))


def _diagonal(builder: Builder, node: Node, given: list[Ref | None]) -> Ref | None:
    """The rules of the op applied to the tangents, and added up."""
    op = node.op
    out, inputs = _refs(builder, node)
    total: Ref | None = None
    for i, t in enumerate(given):
        if t is None:
            continue
        if op.rules is not None:
            rule = op.rules[i]
            part = None if rule is None else rule(t, out, *inputs, **node.attrs)
        else:
            assert op.rule is not None
            part = op.rule(t, out, *inputs, **node.attrs)
            part = part[i] if type(part) is tuple else part
        if part is not None:
            total = part if total is None else total + part
    return total


def _transposed(
    builder: Builder, node: Node, given: list[Ref | None]
) -> list[Ref | None]:
    """The transpose of the pullback of the node.

    Raises:
        NonlinearRule: the cotangent is left in what should be free of it.
    """
    tangents: Tangents = {
        v: t for v, t in zip(node.inputs, given, strict=True) if t is not None
    }
    scratch = Builder(builder.at, builder.phase)
    outputs = [v for v in node.outputs if v.type.differentiable]
    cts = [Value(v.type) for v in outputs]
    wrt = list(tangents)
    pulled = pull_back(scratch, [node], outputs, [scratch.wrap(c) for c in cts], wrt)
    reached = [(g.value, tangents[v]) for g, v in zip(pulled, wrt, strict=True) if g]
    back = pull_back(
        scratch,
        list(scratch.nodes),
        [g for g, _ in reached],
        [scratch.wrap(t.value) for _, t in reached],
        cts,
    )
    results = [t.value for t in back if t is not None]
    params = dict.fromkeys([*cts, *node.inputs, *node.outputs])
    params.update(dict.fromkeys([t.value for t in tangents.values()]))
    graph = Graph(node.op.name, list(params), scratch.nodes, results)
    primal = dict(zip(cts, outputs, strict=True))
    for made in without_types_of(cts, graph).nodes:
        builder.append(_in_place(made, builder, primal))
    made_of = dict(zip(outputs, back, strict=True))
    found = [made_of.get(v) for v in node.outputs]
    return [None if t is None else builder.wrap(t.value) for t in found]


def _rule_transposed(
    builder: Builder, node: Node, given: list[Ref | None]
) -> list[Ref | None]:
    """`_transposed` of a rule of the user's, who is told if it is not linear."""
    try:
        return _transposed(builder, node, given)
    except NonlinearRule:
        name = node.attrs["body"].name
        raise UnsupportedError(
            f"the rule of `{name}` is not linear in the cotangent, so that it has no "
            "forward mode",
            op=name,
            at=node.at[-1] if node.at else None,
            fix="use reverse mode (tg.grad, tg.vjp, tg.jacrev), or tg.custom_jvp",
        ) from None


def _in_place(made: Node, builder: Builder, primal: dict[Value, Value]) -> Node:
    """A node in the builder's phase; a cotangent may be read for its type only."""
    for k, v in enumerate(made.inputs):
        if v in primal and k not in made.op.type_only:
            raise NonlinearRule(f"{made!r} still reads the cotangent")
    moved = made.with_inputs(tuple([primal.get(v, v) for v in made.inputs]))
    moved.phase, moved.derived = builder.phase, True
    return moved


def _conform(t: Ref, primal: Value) -> Ref:
    """`t` with the shape and the dtype of `primal`."""
    to = primal.type
    if t.shape != to.shape:
        t = broadcast_to(t, shape=to.shape)
    if t.dtype != to.dtype and not to.weak and not t.type.weak:
        t = astype(t, dtype=to.dtype)
    return t
