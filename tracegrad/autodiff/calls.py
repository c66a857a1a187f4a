"""Derivatives and batches of calls: recomputed bodies, and the user's own rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tracegrad.errors import UnsupportedError
from tracegrad.ir.graph import Const, Graph, Node, Value
from tracegrad.ir.region import copied
from tracegrad.ops.call import (
    Body,
    NoRule,
    Pullback,
    Pushforward,
    Recompute,
    call,
    sizes_of,
)
from tracegrad.ops.create import zeros_like
from tracegrad.ops.record import Builder, Ref
from tracegrad.passes.dce import remove_dead_code, without_types_of

# `pull_back` of the module `reverse`, which imports this one.
Pull = Callable[..., list[Ref | None]]


def opened_again(builder: Builder, node: Node) -> tuple[list[Node], list[Value]]:
    """Record the nodes of a call's body once more; they, and the results."""
    body: Body = node.attrs["body"]
    known = dict(zip(body.graph.params, node.inputs, strict=True))
    nodes, results = copied(body.graph.nodes, body.graph.results, known)
    for n in nodes:
        n.phase, n.derived = builder.phase, True
        n.at = n.at or node.at
        builder.append(n)
    return nodes, results


def pull_call(
    builder: Builder,
    node: Node,
    cts: Sequence[Ref | None],
    active: set[Value],
    pull: Pull,
) -> list[Ref | None]:
    """Record the pullback of a call; one cotangent per input."""
    body: Body = node.attrs["body"]
    wanted = [i for i, v in enumerate(node.inputs) if v in active]
    if isinstance(body.rule, NoRule):
        raise no_rule(node)
    if body.transparent and not isinstance(body.rule, Recompute):
        found = _pull_inside(builder, node, node.outputs, cts, wanted, pull)
    elif isinstance(body.rule, Recompute):
        found = _pull_again(builder, node, cts, wanted, pull)
    elif isinstance(body.rule, Pullback):
        found = _pull_by_rule(builder, node, cts, wanted, body.rule, pull)
    else:
        assert isinstance(body.rule, Pushforward)
        found = _pull_transposed(builder, node, cts, wanted, body.rule, pull)
    parts: list[Ref | None] = [None] * len(node.inputs)
    for i, ct in zip(wanted, found, strict=True):
        parts[i] = ct
    return parts


def no_rule(node: Node) -> UnsupportedError:
    """The error for a derivative of an order that no rule was traced for."""
    body: Body = node.attrs["body"]
    return UnsupportedError(
        f"the rule of `{body.name}` calls `{body.name}` itself, and was traced "
        "for a few orders of derivatives only",
        op=body.name,
        at=node.at[-1] if node.at else None,
        fix="write the rule without the function, or take fewer derivatives",
    )


def _append(
    builder: Builder, body: Body, inputs: Sequence[Value], outputs: list[Value]
) -> None:
    node = Node(call, tuple(inputs), tuple(outputs), {"body": body})
    node.at, node.phase, node.derived = builder.at, builder.phase, True
    builder.append(node)


def _copy(
    graph: Graph,
) -> tuple[dict[Value, Value], list[Node], list[Value]]:
    """Fresh parameters, nodes and results."""
    known = {v: Value(v.type, v.hint) for v in graph.params}
    params = dict(known)
    nodes, results = copied(graph.nodes, graph.results, known)
    return params, nodes, results


def _pull_inside(
    builder: Builder,
    node: Node,
    outputs: Sequence[Value],
    cts: Sequence[Ref | None],
    wanted: list[int],
    pull: Pull,
) -> list[Ref | None]:
    """The pullback through the nodes of the body, which are computed again."""
    nodes, results = opened_again(builder, node)
    position = {v: k for k, v in enumerate(node.outputs)}
    outs = [results[position[v]] for v in outputs]
    return pull(builder, nodes, outs, cts, [node.inputs[i] for i in wanted])


def _pull_again(
    builder: Builder,
    node: Node,
    cts: Sequence[Ref | None],
    wanted: list[int],
    pull: Pull,
) -> list[Ref | None]:
    """A call that computes the body again and pulls back."""
    body: Body = node.attrs["body"]
    params, nodes, results = _copy(body.graph)
    scratch = Builder()
    there = [k for k, ct in enumerate(cts) if ct is not None]
    of = [Value(results[k].type.strong, f"d_{results[k].hint or 'out'}") for k in there]
    outs = [results[k] for k in there]
    inner = list(params.values())
    wrt = [inner[i] for i in wanted]
    found = pull(scratch, nodes, outs, [scratch.wrap(ct) for ct in of], wrt)
    made = [ct.value for ct in found if ct is not None]
    every = [*inner, *of]
    graph = Graph(body.graph.name, every, nodes + scratch.nodes, made, sizes_of(every))
    graph = remove_dead_code(graph)
    again = Body(
        f"{body.name}_pullback",
        graph,
        Recompute(),
        f"Pullback of `{body.name}`, which is computed again.",
    )
    values = [ct.value for ct in cts if ct is not None]
    outputs = [Value(v.type) for v in made]
    _append(builder, again, [*node.inputs, *values], outputs)
    rest = iter(outputs)
    return [None if ct is None else builder.wrap(next(rest)) for ct in found]


def _dense(builder: Builder, ct: Ref | None, like: Value) -> Value:
    """A cotangent or tangent as an array, zeros if there is none."""
    if ct is not None:
        return ct.value
    if like.type.weak:
        return Const(0.0)
    return zeros_like(builder.wrap(like)).value


def _pull_by_rule(
    builder: Builder,
    node: Node,
    cts: Sequence[Ref | None],
    wanted: list[int],
    rule: Pullback,
    pull: Pull,
) -> list[Ref | None]:
    """A call of the user's pullback; residuals are differentiated as they are."""
    _refuse_captures(node, wanted, rule.args)
    outs = node.outputs[: rule.plain]
    residuals = list(node.outputs[rule.plain :])
    sums: dict[int, Ref] = {}
    if any(ct is not None for ct in cts[: rule.plain]):
        given = [
            _dense(builder, ct, v)
            for ct, v in zip(cts[: rule.plain], outs, strict=True)
            if v.type.differentiable
        ]
        extra = [node.inputs[i] for i in rule.extra]
        # What `fwd` hands through is read where it comes from.
        graph = node.attrs["body"].graph
        handed = dict(zip(graph.params, node.inputs, strict=True))
        handed.update(zip(graph.results[: rule.plain], outs, strict=True))
        saved = graph.results[rule.plain :]
        residuals = [
            handed.get(v, out) for v, out in zip(saved, residuals, strict=True)
        ]
        outputs = [Value(v.type.strong) for v in rule.body.graph.results]
        _append(builder, rule.body, [*residuals, *given, *extra], outputs)
        for i, v in zip(rule.wrt, outputs, strict=True):
            sums[i] = builder.wrap(v)
    later = cts[rule.plain :]
    if any(ct is not None for ct in later):
        saved = node.outputs[rule.plain :]
        more = _pull_inside(builder, node, saved, later, wanted, pull)
        for i, ct in zip(wanted, more, strict=True):
            if ct is not None:
                sums[i] = sums[i] + ct if i in sums else ct
    return [sums.get(i) for i in wanted]


def _refuse_captures(node: Node, wanted: list[int], args: int) -> None:
    """What a function with a rule closes over has no derivative by that rule.

    Raises:
        UnsupportedError: it would need one.
    """
    body: Body = node.attrs["body"]
    for i in wanted:
        if i >= args:
            hint = node.inputs[i].hint
            raise UnsupportedError(
                f"`{body.name}` has a rule of its own, and reads "
                f"{f'`{hint}`' if hint else 'a value'} from outside, which is "
                "differentiated",
                op=body.name,
                at=node.at[-1] if node.at else None,
                fix="pass it as an argument, so that the rule can say its derivative",
            )


def _pull_transposed(
    builder: Builder,
    node: Node,
    cts: Sequence[Ref | None],
    wanted: list[int],
    rule: Pushforward,
    pull: Pull,
) -> list[Ref | None]:
    """The transpose of the user's pushforward, which is linear in the tangents."""
    _refuse_captures(node, wanted, rule.args)
    graph = rule.body.graph
    count = len(node.inputs)
    tangents = {i: Value(node.inputs[i].type) for i in rule.wrt}
    known = dict(zip(graph.params[:count], node.inputs, strict=True))
    known.update(zip(graph.params[count:], tangents.values(), strict=True))
    nodes, results = copied(graph.nodes, graph.results, known)
    scratch = Builder()
    outs = results[len(node.outputs) :]
    seeds = [
        ct for ct, v in zip(cts, node.outputs, strict=True) if v.type.differentiable
    ]
    refs = [None if ct is None else scratch.wrap(ct.value) for ct in seeds]
    moved = [i for i in wanted if i in tangents]
    reached = pull(scratch, nodes, outs, refs, [tangents[i] for i in moved])
    cts_of = dict(zip(moved, reached, strict=True))
    found = [cts_of.get(i) for i in wanted]
    made = [ct.value for ct in found if ct is not None]
    params = dict.fromkeys([*node.inputs, *tangents.values()])
    params.update(dict.fromkeys([ct.value for ct in seeds if ct is not None]))
    whole = Graph(graph.name, list(params), nodes + scratch.nodes, made)
    for n in without_types_of(tangents.values(), whole).nodes:
        builder.append(_moved(n, builder, tangents, node))
    return [None if ct is None else builder.wrap(ct.value) for ct in found]


def _moved(n: Node, builder: Builder, tangents: dict[int, Value], node: Node) -> Node:
    """A node for the phase of the builder, free of tangents but for their types.

    Raises:
        UnsupportedError: it reads a tangent.
    """
    primal = {t: node.inputs[i] for i, t in tangents.items()}
    for k, v in enumerate(n.inputs):
        if v in primal and k not in n.op.type_only:
            body: Body = node.attrs["body"]
            raise UnsupportedError(
                f"the rule of `{body.name}` is not linear in the tangents, so that it "
                "has no reverse mode",
                op=body.name,
                at=n.at[-1] if n.at else None,
                fix="compute the tangent of the result as a linear function of those "
                "of the arguments",
            )
    moved = n.with_inputs(tuple([primal.get(v, v) for v in n.inputs]))
    moved.phase, moved.derived = builder.phase, True
    return moved


# ----------------------------------------------------------------------- forward mode
def push_call(
    builder: Builder, node: Node, given: Sequence[Ref | None], rule: Pushforward
) -> list[Ref | None]:
    """Record a call of the user's pushforward; the tangents of the outputs."""
    moved = [i for i, t in enumerate(given) if t is not None]
    _refuse_captures(node, moved, rule.args)
    tangents = [_dense(builder, given[i], node.inputs[i]) for i in rule.wrt]
    results = rule.body.graph.results
    outputs = [Value(v.type.strong) for v in results]
    _append(builder, rule.body, [*node.inputs, *tangents], outputs)
    rest = iter(outputs[len(node.outputs) :])
    return [
        builder.wrap(next(rest)) if v.type.differentiable else None
        for v in node.outputs
    ]
