"""Plain `if`s in the body of a branch or loop, on values of its turns.

Such a test has no outcome while tracing: turns differ.  So the body is run once for
each way through it, and the ways are joined by `cond` nodes, from the last test to the
first.  Up to a test all ways record the same nodes.  What two ways do alike at their
ends, on whatever values, follows their `cond` once; the values are its results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tracegrad.errors import ControlFlowError, TracegradError
from tracegrad.ir.graph import Const, Node, Value
from tracegrad.ir.location import Chain
from tracegrad.ir.region import Open, constant_key, structure, substituted
from tracegrad.ir.tree import Tree, map_leaves
from tracegrad.ops.control import cond
from tracegrad.ops.define import METHODS, OPERATORS
from tracegrad.ops.record import Ref
from tracegrad.trace.bodies import (
    Body,
    check_equal,
    name_branches,
    record,
    strengthen,
    tree_of,
    user_value,
)
from tracegrad.trace.buffers import DEPTH
from tracegrad.trace.session import Session

_MOST_TESTS = 8
_MOST_WAYS = 32


def trace_body(session: Session, function: Callable, *trees: Tree) -> Body:
    """Run a function of the user's on traced values, apart from what is around it.

    Raises:
        ControlFlowError: it asks for more truths than there can be ways through it, or
            one of the ways raises an error.
        ShapeError, DTypeError, ArgumentError: two ways give different types.
    """
    return _Ways(session, function, trees).traced(())


@dataclass(frozen=True, slots=True)
class _Test:
    """A truth that the body asked for.

    Attributes:
        which: the truth.
        position: number of nodes before the answer.
        at: the user's frames.
        outcome: the answer on this way.
    """

    which: Value
    position: int
    at: Chain
    outcome: bool


@dataclass(slots=True)
class _Way:
    """One run of the body: the given answers first, then always True."""

    session: Session
    script: tuple[bool, ...]
    nodes: list[Node] = field(default_factory=list)
    tests: list[_Test] = field(default_factory=list)
    known: dict[int, bool] = field(default_factory=dict)

    def run(self, function: Callable, trees: Sequence[Tree]) -> Tree:
        """The structure of what the function returns."""
        session, builder = self.session, self.session.builder
        outer, builder.nodes = builder.nodes, self.nodes
        around, session.fork = session.fork, self.truth
        DEPTH.bodies += 1
        try:
            out = function(*[user_value(tree, session) for tree in trees])
            return tree_of(out, session)
        except TracegradError:
            raise
        except Exception as error:
            if not self.tests:
                raise
            raise self._raised(error) from error
        finally:
            DEPTH.bodies -= 1
            session.fork = around
            builder.nodes = outer

    def truth(self, value: Value) -> bool:
        """The answer to `bool(value)` on this way."""
        session = self.session
        settled = session.demand.known(value)
        if settled is not None:
            return settled
        number = session.demand.number(value)
        if number in self.known:
            return self.known[number]
        session.locate()
        at = session.builder.at
        if session.builder.nodes is not self.nodes:
            raise _refused(
                at,
                "Python asked for a truth in a function that is differentiated inside "
                "of the body of a loop or a branch",
            )
        which = self._scalar(value)
        k = len(self.tests)
        if k >= _MOST_TESTS:
            raise _too_many(at, all(test.at == at for test in self.tests))
        outcome = self.script[k] if k < len(self.script) else True
        self.tests.append(_Test(which, len(self.nodes), at, outcome))
        self.known[number] = outcome
        return outcome

    def _scalar(self, value: Value) -> Value:
        """The truth of a value, as NumPy sees it.

        Raises:
            ValueError: as NumPy does, for an array of several elements.
        """
        ref = Ref(value, self.session.builder)
        if any(size != 1 for size in value.type.shape):
            raise ValueError(
                "the truth value of an array with more than one element is ambiguous: "
                "use a.any() or a.all()"
            )
        if value.type.shape:
            ref = METHODS["reshape"](ref, ())
        truth = ref if value.type.kind == "b" else OPERATORS["__ne__"](ref, 0)
        return truth.value

    def _raised(self, error: Exception) -> ControlFlowError:
        """The error for a way that ends in one of the user's."""
        test = self.tests[-1]
        text = f"{type(error).__name__}: {error}".rstrip(": ")
        return _refused(
            test.at,
            f"where this test is {test.outcome}, the body of a loop or a branch raises "
            f"{text}",
            "raise before or after the loop, or use np.where(condition, a, np.nan)",
        )


def _refused(at: Chain, what: str, fix: str | None = None) -> ControlFlowError:
    return ControlFlowError(
        what,
        op="if, while, assert or bool()",
        at=at[-1] if at else None,
        fix=fix or "use tg.cond for an `if`, tg.while_loop for a `while`, or np.where",
    )


def _too_many(at: Chain, one: bool) -> ControlFlowError:
    if one:
        return _refused(
            at,
            "the body of a loop or a branch asks for the same truth again and again, "
            "with no end that can be known while tracing",
            "use tg.while_loop for a `while` inside of it",
        )
    return _refused(
        at,
        f"one turn of the body of a loop or a branch asks for more than {_MOST_TESTS} "
        f"truths, or there are more than {_MOST_WAYS} ways through it",
        "use tg.cond or np.where for some of them",
    )


# ------------------------------------------------------------------- joining the ways
class _Ways:
    """All ways through a body."""

    def __init__(
        self, session: Session, function: Callable, trees: Sequence[Tree]
    ) -> None:
        self.session = session
        self.function = function
        self.trees = trees
        self.count = 0
        self.loops = session.loops

    def traced(self, script: tuple[bool, ...]) -> Body:
        """The body for all calls that answer the first tests so."""
        way, session = _Way(self.session, script), self.session
        # Each way numbers its loops alike, so that the same nodes are equal.
        most, session.loops = session.loops, self.loops
        result = way.run(self.function, self.trees)
        session.loops = max(most, session.loops)
        self.count += 1
        body = Body(way.nodes, result)
        outcomes = tuple([test.outcome for test in way.tests])
        for k in reversed(range(len(script), len(way.tests))):
            if self.count >= _MOST_WAYS:
                raise _too_many(way.tests[k].at, False)
            other = self.traced((*outcomes[:k], False))
            body = self._joined(way.tests[k], body, other)
        return body

    def _joined(self, test: _Test, yes: Body, no: Body) -> Body:
        """One body of two that part at a test."""
        head = yes.nodes[: test.position]
        known: dict[Value, Value] = {}
        for mine, theirs in zip(head, no.nodes, strict=False):
            if mine.op is not theirs.op or mine.attrs != theirs.attrs:
                raise _refused(
                    test.at,
                    "the body of a loop or a branch did not do the same when it ran "
                    "again",
                    "let it depend on its arguments only",
                )
            known.update(zip(theirs.outputs, mine.outputs, strict=True))
        rest = no.nodes[test.position :]
        nodes, results = substituted(rest, no.results, known)
        given = iter(results)
        arms = [
            Body(yes.nodes[test.position :], yes.result),
            Body(nodes, map_leaves(no.result, lambda _: next(given))),
        ]
        what = "the ways through the `if` or `while`"
        check_equal(
            self.session, arms[0].result, arms[1].result, "if", what, test.at[-1]
        )
        strengthen(self.session, arms)
        return self._with_cond(test, head, arms)

    def _with_cond(self, test: _Test, head: list[Node], arms: list[Body]) -> Body:
        session, builder = self.session, self.session.builder
        pair = _Pair(arms[0], arms[1])
        tail = pair.common_tail()
        split = len(arms[0].nodes) - tail, len(arms[1].nodes) - tail
        outer, builder.nodes = builder.nodes, list(head)
        try:
            made: dict[tuple[Value, Value], Value] = {}
            wanted = list(dict.fromkeys(pair.crossing(tail)))
            if wanted:
                results = [list(column) for column in zip(*wanted, strict=True)]
                parts = [
                    Open(name, [], [], arm.nodes[:end], given)
                    for name, arm, end, given in zip(
                        ("true", "false"), arms, split, results, strict=True
                    )
                ]
                node = record(session, cond, parts, {}, before=[test.which])
                node.at = test.at
                name_branches(node, results)
                made = dict(zip(wanted, node.outputs, strict=True))
            for mine, theirs in zip(
                arms[0].nodes[split[0] :], arms[1].nodes[split[1] :], strict=True
            ):
                reads = zip(mine.inputs, theirs.inputs, strict=True)
                inputs = tuple([made.get(read, read[0]) for read in reads])
                builder.append(mine.with_inputs(inputs))
            ends = iter(zip(arms[0].results, arms[1].results, strict=True))

            def after(_: Value) -> Value:
                read = next(ends)
                return made.get(read, read[0])

            return Body(builder.nodes, map_leaves(arms[0].result, after))
        finally:
            builder.nodes = outer


class _Pair:
    """Two lists of nodes, compared from their ends."""

    def __init__(self, a: Body, b: Body) -> None:
        self.a, self.b = a, b
        self.places = _places(a.nodes), _places(b.nodes)

    def _ends(self) -> Iterator[tuple[Node, Node]]:
        return zip(reversed(self.a.nodes), reversed(self.b.nodes), strict=False)

    def _reads(self, count: int) -> Iterator[tuple[int, Value, Value]]:
        """(how many nodes end before it, value of each) of all reads in the tail."""
        results = zip(self.a.results, self.b.results, strict=True)
        yield from [(0, u, v) for u, v in results]
        for k, (m, n) in enumerate(self._ends()):
            if k >= count:
                break
            yield from [(k, u, v) for u, v in zip(m.inputs, n.inputs, strict=True)]

    def common_tail(self) -> int:
        """How many nodes at the ends do the same."""
        count = 0
        for m, n in self._ends():
            if not _alike(m, n):
                break
            count += 1
        while True:
            most = count
            for k, u, v in self._reads(count):
                most = min(most, self._bound(k, u, v))
            if most == count:
                return count
            count = most

    def _bound(self, k: int, u: Value, v: Value) -> int:
        """How long the tail may be if its node `k` from the end reads these."""
        place, other = self.places[0].get(u), self.places[1].get(v)
        if place is not None and place == other:
            return len(self.a.nodes)
        if (u.type.shape, u.type.dtype) != (v.type.shape, v.type.dtype):
            return k
        inside = [p[0] for p in (place, other) if p is not None]
        return min(inside, default=len(self.a.nodes))

    def crossing(self, count: int) -> Iterator[tuple[Value, Value]]:
        """What the tail reads of the nodes before it, where the two differ."""
        for _, u, v in self._reads(count):
            place = self.places[0].get(u)
            same = u is v or (
                isinstance(u, Const)
                and isinstance(v, Const)
                and constant_key(u) == constant_key(v)
            )
            if not same and (place is None or place[0] >= count):
                yield u, v


def _places(nodes: Sequence[Node]) -> dict[Value, tuple[int, int]]:
    """Value -> (how many nodes follow that which makes it, which output)."""
    return {
        v: (k, output)
        for k, node in enumerate(reversed(nodes))
        for output, v in enumerate(node.outputs)
    }


def _alike(m: Node, n: Node) -> bool:
    """Whether two nodes do the same, at the same place, and give the same types."""
    if m.op is not n.op or m.at != n.at or m.attrs != n.attrs:
        return False
    if len(m.inputs) != len(n.inputs):
        return False
    types: list[Any] = [[v.type for v in node.outputs] for node in (m, n)]
    inner = [[structure(r) for r in node.regions] for node in (m, n)]
    return types[0] == types[1] and inner[0] == inner[1]
