"""Whose memory the values of branches and loops are, seen from around them.

A loop may update the array of a carry in place if that is an update in the graph too,
and if nothing keeps the array of an earlier turn.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from tracegrad.codegen.memory import is_accumulation, is_view
from tracegrad.ir.dims import at_least
from tracegrad.ir.graph import Const, Graph, Node, Value
from tracegrad.ops.control import RESULT, Loop, cond, is_loop, undefined
from tracegrad.ops.solvers import is_solver

_Found = TypeVar("_Found")


class _Memo(threading.local):
    """Per thread: what the question that is being answered has found so far."""

    answers: dict[Any, Any] | None = None


_MEMO = _Memo()


def _once(function: Callable[[Node], _Found]) -> Callable[[Node], _Found]:
    """Decorator: within one question each node is looked at once, nests are deep."""

    @functools.wraps(function)
    def run(node: Node) -> _Found:
        outer = _MEMO.answers
        known = {} if outer is None else outer
        key = function, node
        if key not in known:
            _MEMO.answers = known
            try:
                known[key] = function(node)
            finally:
                _MEMO.answers = outer
        return known[key]

    return run


def _producers(graph: Graph) -> dict[Value, Node]:
    return {v: node for node in graph.nodes for v in node.outputs}


@_once
def updated_carries(node: Node) -> set[int]:
    """The carries of a loop whose arrays the body updates, and need not keep."""
    loop = Loop.of(node)
    made_by = _producers(loop.body)
    kept = {kind for _, kind, _ in loop.stacks() if kind != RESULT}
    found = set()
    for k, (param, result) in enumerate(zip(loop.carries, loop.nexts, strict=True)):
        chain = _chain(result, made_by)
        if k in kept or chain[-1] is not param or len(chain) < 2:
            continue
        shown = [shown_values(v, made_by) for v in loop.nexts if v is not result]
        others = list(set().union(*shown))
        # Of what goes into a list a view can be copied, the array itself not.
        others += loop.body.results[loop.carried :]
        if loop.nexts.count(result) == 1 and not any(v in chain for v in others):
            found.add(k)
    return found


def changing(node: Node) -> set[Value]:
    """The values in the body of a loop whose memory a later turn changes."""
    loop = Loop.of(node)
    made_by = _producers(loop.body)
    return {v for k in updated_carries(node) for v in _chain(loop.nexts[k], made_by)}


def _chain(v: Value, made_by: dict[Value, Node]) -> list[Value]:
    """A value, and what it is an update of, step by step."""
    chain = [v]
    while v in made_by:
        node = made_by[v]
        if node.regions:
            inner = _carried_from(node, v)
            if inner is None:
                break
            v = inner
        elif node.op.inplace is not None or is_accumulation(node):
            v = node.inputs[0]
        else:
            break
        chain.append(v)
    return chain


def _carried_from(node: Node, v: Value) -> Value | None:
    """The first value of the carry that `v` is the last one of, if that is updated."""
    if not is_loop(node):
        return None
    loop = Loop.of(node)
    for k in updated_carries(node):
        if loop.last[k] is v:
            return loop.starts[k]
    return None


@_once
def fresh_outputs(node: Node) -> set[Value]:
    """The outputs of a node with regions that share memory with nothing outside."""
    if is_solver(node):
        return set(node.outputs)
    if node.op is cond:
        return _fresh_of_branches(node)
    loop = Loop.of(node)
    attrs = node.attrs
    updated = updated_carries(node)
    runs = attrs["steps"] is None and _runs(attrs["bounds"])
    made_by = _producers(loop.body)
    new = _new_results(loop.body, made_by)
    found = set(loop.node.outputs[loop.carried : loop.carried + attrs["stacked"]])
    for k, (v, result) in enumerate(zip(loop.last, loop.nexts, strict=True)):
        if k in updated or (runs and result in new):
            found.add(v)
    return found


@_once
def shown_inputs(node: Node) -> dict[Value, tuple[Value, ...]]:
    """The inputs whose memory each output may be, for those that are not fresh."""
    fresh = fresh_outputs(node)
    if node.op is cond:
        return {
            v: tuple(_shown_by_branches(node, k))
            for k, v in enumerate(node.outputs)
            if v not in fresh
        }
    if not is_loop(node):
        return dict.fromkeys([v for v in node.outputs if v not in fresh], node.inputs)
    loop = Loop.of(node)
    made_by = _producers(loop.body)
    outside = {p: {v} for p, v in zip(loop.inner, loop.invariants, strict=True)}
    for p, start in zip(loop.carries, loop.starts, strict=True):
        outside[p] = {start}
    reads = [shown_values(v, made_by) for v in loop.nexts]
    while True:  # a carry may show what another carry was a turn before
        sizes = [len(outside[p]) for p in loop.carries]
        for p, params in zip(loop.carries, reads, strict=True):
            outside[p] = outside[p].union(*[outside.get(u, ()) for u in params])
        if sizes == [len(outside[p]) for p in loop.carries]:
            break
    found: dict[Value, tuple[Value, ...]] = {}
    for v, p in zip(loop.last, loop.carries, strict=True):
        if v not in fresh:
            found[v] = _in_order(outside[p], node)
    free = {loop.starts[k] for k in updated_carries(node)}  # views of them are copied
    for v, kind, stacked in loop.stacks():
        if v in fresh:
            continue
        if stacked is None:
            shown = outside[loop.carries[kind]]
        else:
            params = shown_values(stacked, made_by)
            shown = set().union(*[outside.get(u, ()) for u in params])
        found[v] = _in_order(shown - free, node)
    return found


def _in_order(values: set[Value], node: Node) -> tuple[Value, ...]:
    return tuple([v for v in dict.fromkeys(node.inputs) if v in values])


def _shown_by_branches(node: Node, k: int) -> list[Value]:
    """The operands whose memory output `k` of a `cond` may be."""
    found: dict[Value, None] = {}
    for region in node.regions:
        params = shown_values(region.results[k], _producers(region))
        for p, v in zip(region.params, node.inputs[1:], strict=True):
            if p in params:
                found[v] = None
    return list(found)


def shown_values(v: Value, made_by: dict[Value, Node]) -> set[Value]:
    """The values of a region whose memory `v` may be, itself among them."""
    found, waiting = {v}, [v]
    while waiting:
        u = waiting.pop()
        node = made_by.get(u)
        more: tuple[Value, ...] = ()
        if node is not None and node.regions:
            more = shown_inputs(node).get(u, ())
        elif node is not None and is_view(node):
            more = (node.inputs[0],)
        waiting += [w for w in more if w not in found]
        found.update(more)
    return found


def _runs(bounds: tuple) -> bool:
    start, stop = bounds
    return at_least(stop - start, 1) is True


def _fresh_of_branches(node: Node) -> set[Value]:
    new = [_new_results(region, _producers(region)) for region in node.regions]
    return {
        v
        for k, v in enumerate(node.outputs)
        if all(r.results[k] in n for r, n in zip(node.regions, new, strict=True))
    }


def _new_results(region: Graph, made_by: dict[Value, Node]) -> set[Value]:
    """The results of a region that are arrays of their own, or numbers."""
    found = set()
    for v in region.results:
        node = made_by.get(v)
        if isinstance(v, Const):
            own = not v.type.shape
        elif node is None or region.results.count(v) > 1:
            own = False
        elif node.regions:
            own = v in fresh_outputs(node)
        else:
            own = node.op is undefined or not is_view(node)
        if own:
            found.add(v)
    return found


@_once
def kept_outputs(node: Node) -> set[Value]:
    """The outputs whose memory is in a list of the loop too."""
    if node.op is cond:
        return {
            v
            for k, v in enumerate(node.outputs)
            if any(_is_kept(region.results[k], region) for region in node.regions)
        }
    if not is_loop(node):
        return set()
    loop = Loop.of(node)
    saved = loop.stacks()[node.attrs["stacked"] :]
    lists = {kind for _, kind, _ in saved if kind != RESULT}
    values = {v for _, _, v in saved if v is not None}
    return {
        v
        for k, (v, result) in enumerate(zip(loop.last, loop.nexts, strict=True))
        if k in lists or result in values or _is_kept(result, loop.body)
    }


def _is_kept(v: Value, region: Graph) -> bool:
    """Whether a loop or a branch in a region has a value in a list as well."""
    made_by = _producers(region)
    found = [(u, made_by.get(u)) for u in shown_values(v, made_by)]
    return any(n is not None and n.regions and u in kept_outputs(n) for u, n in found)
