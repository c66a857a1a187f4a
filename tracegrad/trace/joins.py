"""Branches and loops of the user's Python, traced on both ways and joined again.

What Python does after a branch is a function of its state.  If an arm does nothing but
bind local names and write into traced arrays, and its state at the end differs from the
other arm's in traced values alone, then the program goes on as one: the values that
differ are the results of a `cond`, as of `tg.cond`.  A loop whose body leaves all else
as it was is a `while_loop` for the same reason, by induction.

Whatever is not proved is left to Python: the value is asked for, and guarded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from tracegrad.ir.graph import Const, Node, Value
from tracegrad.ir.region import Open, substituted
from tracegrad.ir.tree import map_leaves
from tracegrad.ir.types import ArrayType
from tracegrad.ops.control import TURNS, loop_attrs
from tracegrad.ops.control import cond as cond_op
from tracegrad.ops.control import while_loop as while_op
from tracegrad.ops.create import zeros
from tracegrad.ops.elementwise import logical_not
from tracegrad.ops.record import Ref
from tracegrad.trace.allowed import Refused, check_names
from tracegrad.trace.bodies import (
    check_equal,
    converted,
    fits,
    record,
    user_value,
    values_of,
)
from tracegrad.trace.boundary import lower, name_result
from tracegrad.trace.buffers import DEPTH, Buffer, Handle
from tracegrad.trace.guards import same
from tracegrad.trace.proxy import make
from tracegrad.trace.session import Session
from tracegrad.trace.spelling import hint_of
from tracegrad.trace.ways import (
    UNBOUND,
    Speculation,
    Way,
    agreed,
    cells_of,
    content,
    handles,
    holds,
    is_lone,
    put,
)

# ---------------------------------------------------------------------------- branches
_NEAR = 12  # nodes before a branch among which its views are looked for


def _view_key(node: Node) -> Any:
    """Equal for views that are the same."""
    if node.op.aliases is None:
        return id(node)
    return id(node.op), tuple(map(id, node.inputs)), repr(node.attrs)


class _Join:
    """Two arms that become one node.

    Args:
        session: the trace.
        where: the branch, for starting again without it.
        ways: both.
    """

    def __init__(self, session: Session, where: CodeType, ways: list[Way]) -> None:
        self.session = session
        self.where = where
        self.returns = where.co_name != "<lambda>"
        self.ways = ways
        self.pairs: list[list[Value]] = []
        self.hints: list[tuple[str | None, bool]] = []
        self.known: dict[tuple[int, int], int] = {}

    def add(self, pair: Sequence[Value], hint: str | None, user: bool) -> int | None:
        """Enter what the arms give; the number of the result, None if it is one value.

        Raises:
            Refused: if the types differ.
        """
        if pair[0] is pair[1]:
            return None
        key = id(pair[0]), id(pair[1])
        if key not in self.known:
            self.pairs.append(agreed(self.session, self.ways, pair))
            self.hints.append((hint, user))
            self.known[key] = len(self.pairs) - 1
        return self.known[key]

    def outputs(self, which: Value) -> Sequence[Value]:
        """Record the node."""
        if not self.pairs:
            return ()
        known = {_view_key(n): n for n in self.session.builder.nodes[-_NEAR:]}
        parts = []
        for i, (name, way) in enumerate(zip(("true", "false"), self.ways, strict=True)):
            results = [pair[i] for pair in self.pairs]
            nodes, results = self._ahead(way.nodes, results, known)
            parts.append(Open(name, [], [], nodes, results))
        node = record(self.session, cond_op, parts, {}, before=[which])
        for v, (hint, user) in zip(node.outputs, self.hints, strict=True):
            if hint is not None:
                v.hint, v.user = hint, user
        return node.outputs

    def _ahead(
        self, nodes: Sequence[Node], results: list[Value], known: dict[Any, Node]
    ) -> tuple[list[Node], list[Value]]:
        """The nodes of an arm without views of what is outside, which go before it.

        So the arms of all turns of a Python loop, `x[0]`, `x[1]`, …, are alike.
        """
        kept: list[Node] = []
        inside: set[Value] = set()
        same: dict[Value, Value] = {}
        for node in nodes:
            if node.op.aliases is None or not inside.isdisjoint(node.inputs):
                kept.append(node)
                inside.update(node.outputs)
                continue
            (node,), _ = substituted([node], [], same)
            first = known.setdefault(_view_key(node), node)
            if first is node:
                self.session.builder.append(node)
            else:
                same.update(zip(node.outputs, first.outputs, strict=True))
        return substituted(kept, results, same)

    def array(self, v: Value, parts: Sequence[Any]) -> Handle:
        """The user's array for a result of which the arms gave `parts`."""
        made = make(v, self.session)
        arrays = [x for x in parts if isinstance(x, Handle)]
        level = DEPTH.bodies
        made.buffer.mixed = any(x.buffer.mixed for x in arrays)
        for way, x in zip(self.ways, parts, strict=True):
            if not isinstance(x, Handle):
                made.buffer.loose = self.where
            elif not way.fresh(x, level):
                made.buffer.entangled = x.buffer.entangled = self.where
        return made


def joined(
    session: Session,
    where: CodeType,
    which: Value,
    arms: Sequence[Callable],
    names: Sequence[str],
    spare: Sequence[str],
    returning: bool,
    flags: Sequence[str] = (),
) -> Any:
    """Trace both arms and join them.

    Args:
        session: the trace.
        where: the branch.
        which: its truth.
        arms: what is done where that is true, and where it is not.
        names: that they bind.
        spare: of these, the ones that nothing reads afterwards.
        returning: whether the arms return something instead.
        flags: names of which nothing but their truth is asked.

    Returns:
        What they return, in the user's structure.

    Raises:
        Refused: if that is not proved to be right.
    """
    session.locate()
    at = session.builder.at
    session.joins.spend()
    for arm in arms:
        check_names(arm)
    cells = cells_of(arms, names)
    ways = []
    for arm in arms:
        with Speculation(session, cells) as tried:
            tried.finish(arm(), returning)
        ways.append(tried.way)
    join = _Join(session, where, ways)
    bound = () if returning else [n for n in names if n not in spare]
    kept, made = _of_names(join, which, bound, flags)
    buffers: dict[Buffer, int | None] = {}
    for buffer in dict.fromkeys([b for way in ways for b in way.buffers]):
        pair = [way.buffers.get(buffer, buffer.value) for way in ways]
        buffers[buffer] = join.add(pair, buffer.value.hint, buffer.value.user)
    numbers = _of_returned(join, ways) if returning else []
    before, session.builder.at = session.builder.at, at
    outputs = join.outputs(which)
    session.builder.at = before
    for buffer, i in buffers.items():
        buffer.write(outputs[i] if i is not None else ways[0].buffers[buffer])
    for name, x in kept.items():
        put(cells[name], x)
    for name, i in made.items():
        parts = [way.objects[name] for way in ways]
        put(cells[name], join.array(outputs[i], parts))
    return _returned(join, ways, numbers, outputs) if returning else None


def _of_names(
    join: _Join, which: Value, names: Sequence[str], flags: Sequence[str]
) -> tuple[dict[str, Any], dict[str, int]]:
    """What names are bound to behind a branch: an object, or the number of a result."""
    kept: dict[str, Any] = {}
    made: dict[str, int] = {}
    for name in names:
        a, b = [way.objects[name] for way in join.ways]
        if a is b or same(a, b):
            kept[name] = a
        elif name in flags and type(a) is type(b) is bool:
            kept[name] = _truth(join.session, which, a)
        elif any(name not in way.values for way in join.ways) or (
            bool in (type(a), type(b)) and name not in flags
        ):
            raise Refused(f"its arms leave `{hint_of(name)}` different")
        else:
            i = join.add([way.values[name] for way in join.ways], hint_of(name), True)
            if i is None:
                raise Refused(f"its arms leave `{name}` two names of one value")
            made[name] = i
    return kept, made


def _truth(session: Session, which: Value, of_first: bool) -> Handle:
    """`True if which else False`, or the other way round."""
    truth = Ref(which, session.builder)
    return make((truth if of_first else logical_not(truth)).value, session)


def _of_returned(join: _Join, ways: Sequence[Way]) -> list[int | None]:
    """The numbers of the results that the arms return."""
    first, second = [way.returned for way in ways]
    assert first is not None and second is not None
    blank = Value(ArrayType((), np.dtype(float)))
    for way in ways:
        if not is_lone(way):
            raise Refused("it returns a container that others may hold")
    a, b = [map_leaves(tree, lambda _: blank) for tree in (first, second)]
    check_equal(join.session, a, b, "if", "the arms")
    pairs = zip(values_of(first), values_of(second), strict=True)
    return [join.add(pair, None, False) for pair in pairs]


def _returned(
    join: _Join,
    ways: Sequence[Way],
    numbers: Sequence[int | None],
    outputs: Sequence[Value],
) -> Any:
    first, second = ways
    assert first.returned is not None and second.returned is not None
    if first.result is second.result:
        return first.result
    parts = [values_of(way.returned) for way in ways if way.returned is not None]
    rest = iter(zip(numbers, *parts, strict=True))

    def chosen(_: Value) -> Value:
        i, a, _b = next(rest)
        return a if i is None else outputs[i]

    tree = map_leaves(first.returned, chosen)
    out = user_value(tree, join.session)
    for handle in handles(out):
        handle.buffer.entangled = handle.buffer.loose = join.where
    for way in ways:
        for handle in handles(way.result):
            handle.buffer.entangled = join.where
    name_result(out, join.session, returned=join.returns)
    return out


# ------------------------------------------------------------------------------- loops
class Loop:
    """A `while` of the user's under construction.

    Args:
        session: the trace.
        test: the test as a function.
        body: the body as a function.
        names: that the body binds.
        counts: of these, the ones that may be a Python int or bool: it only adds a
            fixed int to them, or nothing but their truth is asked.
        updated: and the ones that it binds by `x += …` only.

    Attributes:
        late: names that need not be bound before, for it surely turns and binds them.
    """

    def __init__(
        self,
        session: Session,
        test: FunctionType,
        body: FunctionType,
        names: Sequence[str],
        counts: Sequence[str],
        updated: Sequence[str],
    ) -> None:
        self.session = session
        self.test, self.body, self.counts = test, body, frozenset(counts)
        self.cells = cells_of([body], names)
        self.start = {name: content(cell) for name, cell in self.cells.items()}
        self.types: dict[str, ArrayType] = {}
        self.values: dict[str, Value] = {}
        for name, x in self.start.items():
            if isinstance(x, Handle):
                if x.value.type.shape and name in updated:
                    continue  # the array itself is changed
                self._carry(name, lower(x, []).value)
            elif type(x) in (float, complex) or (
                type(x) in (int, bool) and name in counts
            ):
                self._carry(name, session.constant(x))
        self.written: dict[Buffer, Value] = {}
        self.late: Sequence[str] = ()

    def _carry(self, name: str, v: Value) -> None:
        self.values[name], self.types[name] = v, v.type

    def _turn(self, function: Callable, params: dict, held: dict) -> Way:
        """Run the test or the body once, on parameters in place of the carries."""
        with Speculation(self.session, self.cells) as tried:
            for name, v in params.items():
                made = make(v, self.session)
                made.buffer.entangled = self.body.__code__
                if not isinstance(self.start[name], Handle):
                    made.buffer.loose = self.body.__code__
                put(self.cells[name], made)
            for buffer, v in held.items():
                buffer.write(v)
            out = function()
            tried.finish(out, function is self.test)
        return tried.way

    def record(self) -> tuple[dict[str, Value], Way]:
        """Make the node; the last values of the names, and a turn.

        Raises:
            Refused: if the turns are not proved to be alike.
        """
        self.session.joins.spend()
        for function in (self.test, self.body):
            check_names(function)
        while True:
            params = {
                name: Value(t, hint_of(name), user=True)
                for name, t in self.types.items()
            }
            held = {
                b: Value(v.type.strong, v.hint, user=v.user)
                for b, v in self.written.items()
            }
            way = self._turn(self.body, params, held)
            if self._settled(way, params):
                break
        asked = self._turn(self.test, params, held)
        if any(held.get(b) is not v for b, v in asked.buffers.items()):
            raise Refused("its test writes into an array")
        return self._node(way, asked, params, held), way

    def _settled(self, way: Way, params: dict[str, Value]) -> bool:
        """Whether the body gives what it was given; if not, take that for the start.

        Raises:
            Refused: if that leads nowhere.
        """
        settled = True
        carried = [self.start[name] for name in params]
        for buffer in way.buffers:
            if any(holds(x, buffer) for x in carried):
                raise Refused("it binds an array anew and writes into it")
            if buffer not in self.written:
                self.written[buffer] = buffer.value
                settled = False
        for name, before in self.start.items():
            after = way.objects[name]
            if name not in params:
                if before is UNBOUND:
                    if name in self.late:
                        self._begin(name, way)
                        settled = False
                    continue
                if after is not before and not same(after, before):
                    raise Refused(f"`{hint_of(name)}` changes from turn to turn")
            elif name not in way.values or (
                type(after) is bool and name not in self.counts
            ):
                raise Refused(f"`{hint_of(name)}` becomes no array or number")
            else:
                settled &= self._same_type(name, way)
        return settled

    def _begin(self, name: str, way: Way) -> None:
        """Carry a name that is not bound before; nothing reads its first value."""
        if name not in way.values or type(way.objects[name]) is bool:
            raise Refused(f"`{hint_of(name)}` becomes no array or number")
        t = way.values[name].type
        if t.shape:
            attrs = {"shape": t.shape, "dtype": t.dtype.name}
            self._carry(name, self.session.builder.record(zeros, (), attrs).value)
        else:
            zero = t.dtype.type(0)
            self._carry(name, Const(zero.item() if t.weak else zero))

    def _same_type(self, name: str, way: Way) -> bool:
        t, found = self.types[name], way.values[name].type
        if t.shape != found.shape:
            raise Refused(f"the shape of `{name}` changes from turn to turn")
        if (t.dtype, t.weak) == (found.dtype, found.weak):
            return True
        if t.weak and not found.weak and fits(t, found) and found.dtype.char in "dD":
            self.types[name] = found
            return False
        raise Refused(f"the type of `{name}` changes from {t!r} to {found!r}")

    def _node(
        self, way: Way, asked: Way, params: dict[str, Value], held: dict
    ) -> dict[str, Value]:
        session = self.session
        tests = [] if asked.returned is None else values_of(asked.returned)
        if len(tests) != 1 or tests[0].type.shape or type(tests[0]) is Const:
            raise Refused("its test does not depend on what it changes")
        truth = tests[0]
        if truth.type.kind != "b":
            raise Refused("its test is no comparison")
        truth.hint, truth.user = None, False
        starts = [
            converted(session, self.values[n], self.types[n])
            if self.values[n].type.dtype != self.types[n].dtype
            else self.values[n]
            for n in params
        ]
        nexts = [
            way.convert(session, way.values[n], self.types[n])
            if way.values[n].type.dtype != self.types[n].dtype
            else way.values[n]
            for n in params
        ]
        starts += self.written.values()
        nexts += [way.buffers.get(b, held[b]) for b in held]
        carries = [*params.values(), *held.values()]
        if not carries:
            raise Refused("it changes nothing")
        parts = [
            Open("test", [], carries, asked.nodes, [truth]),
            Open("body", [], carries, way.nodes, nexts),
        ]
        session.loops += 1
        attrs = loop_attrs(len(carries), bounds=(), steps=f"{TURNS}{session.loops}")
        node = record(session, while_op, parts, attrs, after=starts)
        for v, param in zip(node.outputs, carries, strict=True):
            v.hint, v.user = param.hint, param.user
        last = dict(zip(params, node.outputs, strict=False))
        for buffer, v in zip(held, node.outputs[len(params) :], strict=True):
            buffer.write(v)
        return last

    def leave(self, last: dict[str, Value], way: Way) -> None:
        """Bind the names to what they are after the loop."""
        where = self.body.__code__
        for name, v in last.items():
            made = make(v, self.session)
            made.buffer.entangled = where
            if not isinstance(self.start[name], Handle):
                made.buffer.loose = where
            # It is one of these, and may share memory with what they do.
            for x in (self.start[name], way.objects[name]):
                if isinstance(x, Handle):
                    x.buffer.entangled = where
                    made.buffer.mixed |= x.buffer.mixed
            put(self.cells[name], made)
