"""The state of one trace: the builder, the call's values, what Python asked for.

A session belongs to one thread.  Values are abstract; those that depend on constants
alone are *concrete* and can be computed when Python needs one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from tracegrad.errors import (
    ControlFlowError,
    LeakedTracerError,
    ShapeError,
    TracegradError,
)
from tracegrad.ir.dims import evaluate as evaluate_size
from tracegrad.ir.dims import named
from tracegrad.ir.dims import names as names_in
from tracegrad.ir.graph import Const, Node, Value
from tracegrad.ir.location import Location
from tracegrad.ir.routine import SizeFact
from tracegrad.ir.types import Dim, Size, is_scalar_literal
from tracegrad.ops.create import dim
from tracegrad.ops.define import HANDLERS, OPERATORS, Op
from tracegrad.ops.evaluate import run_nodes
from tracegrad.ops.index import getitem
from tracegrad.ops.infer import COUNT, shape_text
from tracegrad.ops.masks import true_count
from tracegrad.ops.record import Builder, Ref
from tracegrad.trace.buffers import DEPTH
from tracegrad.trace.demand import Demand
from tracegrad.trace.frames import Locator, calling_line
from tracegrad.trace.joining import Joining, Joins

if TYPE_CHECKING:
    from tracegrad.trace.captures import Captures


class Restart(BaseException):
    """Python needs a number that must then be static: trace again with it fixed.

    Not an `Exception`, so that no handler of the user's catches it.

    Attributes:
        static_leaves: parameters whose value Python asked for.
        static_axes: (parameter, axis) pairs whose size Python asked for.
    """

    def __init__(
        self,
        static_leaves: Iterable[Value] = (),
        static_axes: Iterable[tuple[Value, int]] = (),
    ) -> None:
        super().__init__()
        self.static_leaves = set(static_leaves)
        self.static_axes = set(static_axes)


@dataclass
class Counting:
    """What becomes of the number of elements that a traced mask selects.

    Attributes:
        how: it gets a "name"; or a "test" as well that there are at least two, as for
            any named size; or a "guard" on the number in this call; or "refuse".
        used: whether there was such a mask.
    """

    how: str = "name"
    used: bool = False


class _Active(threading.local):
    """Per thread: the trace that is running."""

    session: Session | None = None


ACTIVE = _Active()


def active() -> bool:
    """Whether a trace is running in this thread.

    A transformed function that is called then must be inlined, even if none of its
    arguments is traced: it may close over values that are.
    """
    return ACTIVE.session is not None


class TraceBuilder(Builder):
    """Records the user's operations, and knows which values are constant.

    Attributes:
        session: the trace that it belongs to.
        producers: the node that made each value.
        concrete: values that depend on constants only.
    """

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.producers: dict[Value, Node] = {}
        self.concrete: set[Value] = set()

    def lift(self, x: Any) -> Value:
        """The value of a `Ref`, or the constant of a number, an array or a size."""
        if isinstance(x, Ref):
            return x.value
        if isinstance(x, Dim):
            return self.record(dim, (), {"size": x}).value
        row = self.session.captures.row(x)
        if row is not None:
            return self.record(getitem, row[:1], {"index": row[1:], "counts": ()}).value
        return self.session.constant(x)

    def append(self, node: Node) -> None:
        """Add a finished node."""
        self.nodes.append(node)
        for value in node.outputs:
            self.producers[value] = node
        for value in node.inputs:
            if type(value) is not Const and value not in self.concrete:
                return
        if not any(map(_symbolic, node.attrs.values())):
            self.concrete.update(node.outputs)


def _symbolic(attr: Any) -> bool:
    if type(attr) is tuple:
        return any(map(_symbolic, attr))
    if isinstance(attr, Dim):
        return True
    replace = getattr(attr, "map_sizes", None)
    if replace is None:
        return False
    found: list[Any] = []
    replace(found.append)
    return any(map(_symbolic, found))


class Session:
    """One trace.

    Attributes:
        builder: where nodes are recorded.
        values: parameter -> the call's data; None if only types are known.
        facts: relations of sizes decided by the call's values.
        narrow: whether it is told which numbers are Python's, as arrays of float32 or
            comparisons by identity are in reach.
        asked: captured arrays whose content decided something while tracing.
        captures: what the function can read besides its arguments.
        numbers: id of a captured float -> (name, float).
        constants: by the id of an array, or the content of a small one made here.
        locator: finds the user's line.
        array: makes the user's handle for (value, session).
        soft: parameters that become static rather than guarded.
        counting: what becomes of the number of elements that a mask selects.
        joins: what becomes of branches.
        masks: the names and the values of such numbers.
        proved: what tests in the program say of such sizes.
        demand: computes values of the call, and guards what they decide.
        loops: how many loops have turns that nothing counts in advance.
        fork: says which way a body goes where it asks for a truth; None outside.
    """

    def __init__(
        self,
        values: dict[Value, Any] | None,
        params: Iterable[Value],
        base: FrameType,
        array: Callable[[Value, Session], Any],
        met: Callable[[FrameType], None],
        captures: Captures,
        soft: Iterable[Value] = (),
        counting: Counting | None = None,
        joins: Joins | None = None,
    ) -> None:
        self.builder = TraceBuilder(self)
        self.values = values
        self.soft = set(soft)
        self.counting = counting or Counting()
        self.joins = joins or Joins()
        self.masks: dict[int, tuple[Dim, Value]] = {}
        self.proved: dict[tuple[str, Size, Size], bool] = {}
        self.params = tuple(params)
        self.facts: list[SizeFact] = []
        self.asked: dict[int, np.ndarray] = {}
        self.captures = captures
        self.numbers = {
            id(read.value): (read.name, read.value)
            for read in captures.reads.values()
            if isinstance(read.value, float | complex | np.generic)
        }
        self.constants: dict[Any, Const] = {}
        self.derived_scalar = False
        self.narrow = self.joins.identities or any(
            dtype.char in "efF"
            for dtype in [
                *[v.type.dtype for v in self.params],
                *[x.dtype for _, x in captures.arrays.values()],
            ]
        )
        self.known: dict[Value, Any] = {}
        self._varying: dict[Value, bool] = {}
        self.locator = Locator(base, met)
        self.array = array
        self.demand = Demand(self)
        self.loops = 0
        self.fork: Callable[[Value], bool] | None = None
        self.thread = threading.get_ident()

    # ------------------------------------------------------------------- joins
    @property
    def joining(self) -> bool:
        """Whether branches and loops are joined where that is proved."""
        return self.joins.how == "join"

    @property
    def unjoined(self) -> set[object]:
        """Branches and loops that are left to Python."""
        return self.joins.unjoined

    def refuse(self, error: Exception) -> None:
        """Note why a branch or a loop here is left to Python."""
        place = self.place()
        said = error.what if isinstance(error, TracegradError) else str(error)
        if place is not None:
            self.joins.refused.setdefault(f"{place.where}: `{place.text}`", said)

    # ------------------------------------------------------------------- places
    def locate(self) -> None:
        """Give the nodes recorded from now on the user's current place."""
        self.builder.at = self.locator.find()

    def place(self) -> Location | None:
        """The user's current line."""
        chain = self.locator.find()
        return chain[-1] if chain else None

    # ---------------------------------------------------------------- constants
    def constant(self, x: Any) -> Const:
        """The constant of a number or an array; one per array object."""
        if is_scalar_literal(x) or isinstance(x, np.generic):
            named = self.numbers.get(id(x))
            if named is not None and named[1] is x:
                return Const(x, named[0])
            # A NumPy scalar comes from an array, or from a call out of our sight.
            self.derived_scalar = self.derived_scalar or isinstance(x, np.generic)
            return Const(x)
        known = self.constants.get(id(x))
        if known is not None:
            return known
        captured = self.captures.find_array(x)
        if captured is not None:
            made = Const(x, captured[0] or None)
        else:
            made = Const(x, derived=self.captures.base_of(x) is None)
        self.constants[id(x)] = made
        return made

    def note_content(self, x: np.ndarray) -> None:
        """What was traced depends on the numbers in an array, not just on which it is.

        They are then guarded; for an array computed from others, those of all captured
        arrays are.
        """
        base = self.captures.base_of(x)
        if base is not None:
            self.asked[id(base)] = base
        elif id(x) not in self.constants or self.constants[id(x)].derived:
            self.derived_scalar = True

    def has_derived(self) -> bool:
        """Whether a constant was computed from others outside of the graph."""
        return self.derived_scalar or any(c.derived for c in self.constants.values())

    def made_here(self, data: Any) -> Const:
        """The constant of an array that a NumPy call in the function made.

        Equal small ones are one: each turn of a loop makes `np.array([0.5, 0.25])`.
        """
        key = None if id(data) in self.constants else self.captures.content(data)
        if key in self.constants:
            return self.constants[key]
        made = self.constants[id(data)] = Const(data)
        if key is not None:
            self.constants[key] = made
        return made

    def is_concrete(self, value: Value) -> bool:
        """Whether a value depends on constants only."""
        return type(value) is Const or value in self.builder.concrete

    def compute(self, value: Value) -> Any:
        """The data of a concrete value; each node is run once."""
        if isinstance(value, Const):
            return value.value
        known, producers = self.known, self.builder.producers
        waiting = [value]
        while waiting:
            node = producers[waiting[-1]]
            missing = [
                v for v in node.inputs if type(v) is not Const and v not in known
            ]
            if not missing and node.outputs[0] not in known:
                run_nodes((node,), known)
            waiting.pop() if not missing else waiting.extend(missing)
        return self.known[value]

    def ask(self, value: Value) -> Any:
        """The data of a concrete value that Python needs now.

        The captured arrays behind it then decide what is traced, so that their content
        is guarded.
        """
        for source in self.sources(value):
            if isinstance(source, Const) and isinstance(source.value, np.ndarray):
                self.note_content(source.value)
        return self.compute(value)

    def sources(self, value: Value) -> list[Value]:
        """The parameters, constants and sizes' nodes that a value depends on."""
        found: dict[Value, None] = {}
        seen = {value}
        waiting = [value]
        while waiting:
            v = waiting.pop()
            node = self.builder.producers.get(v)
            if node is None or not node.inputs:
                found[v] = None
                continue
            for read in node.inputs:
                if read not in seen:
                    seen.add(read)
                    waiting.append(read)
        return list(found)

    # ------------------------------------------------------------ what Python asks
    def decided(self, value: Value, kind: type, error: TracegradError) -> Any:
        """`bool(value)` or `int(value)`, which Python needs to go on.

        Args:
            value: traced or constant.
            kind: `bool` or `int`.
            error: what to raise if only types are known.

        Raises:
            Restart: if it depends on Python ints and sizes only, to be static then.
            TracegradError: `error`.
        """
        if self.is_concrete(value):
            return kind(self.ask(value))
        if self.values is not None:
            self.restart_if_static(value)
            if kind is bool and (known := self.demand.implied(value)) is not None:
                return known
        if self.fork is not None and kind is bool:
            return self.fork(value)
        if self.joins.how == "ask" and kind is bool:
            raise Joining
        if self.values is None:
            raise error.locate(None, self.place())
        return self.demand.decide(value, kind)

    def restart_if_static(self, value: Value) -> None:
        """Start again if a value depends on nothing but what may be static.

        Raises:
            Restart: then.
        """
        if self._varies(value):
            return
        leaves: set[Value] = set()
        axes: set[tuple[Value, int]] = set()
        for v in self.sources(value):
            node = self.builder.producers.get(v)
            if node is not None and node.op is dim:
                axes |= self.axes_of(node.attrs["size"])
            elif not self.is_concrete(v):
                leaves.add(v)
        if leaves or axes:
            raise Restart(leaves, axes)

    def may_be_static(self, value: Value) -> bool:
        """Whether the call's numbers decide a value for good, so that no test is."""
        return self.values is not None and not self._varies(value)

    def _varies(self, value: Value) -> bool:
        """Whether a value depends on what cannot be static; each node is asked once."""
        known, producers = self._varying, self.builder.producers
        waiting = [value]
        while waiting:
            v = waiting[-1]
            node = producers.get(v)
            if v in known:
                waiting.pop()
            elif node is None or not node.inputs:
                known[v] = not self._may_be_static(v, node)
            else:
                missing = [u for u in node.inputs if u not in known]
                waiting.extend(missing)
                if not missing:
                    known[v] = any(known[u] for u in node.inputs)
        return known[value]

    def _may_be_static(self, v: Value, node: Node | None) -> bool:
        if node is not None and node.op is dim:
            return not self.is_counted(node.attrs["size"])
        number = v.type.weak and v.type.kind == "i" and v in self.params
        return number or v in self.soft or self.is_concrete(v)

    def axes_of(self, size: Size) -> set[tuple[Value, int]]:
        """The parameters' axes that a symbolic size is read from."""
        wanted = set(names_in(size))
        return {
            (value, axis)
            for value in self.params
            for axis, s in enumerate(value.type.shape)
            if isinstance(s, Dim) and wanted.intersection(names_in(s))
        }

    def size_value(self, size: Size) -> int | None:
        """The number that a size has in this call; None if only types are known."""
        if type(size) is int:
            return size
        if self.values is None:
            return None
        env: dict[str, int] = {}
        for value, data in self.values.items():
            shape = np.shape(data)
            for s, number in zip(value.type.shape, shape, strict=True):
                for name in names_in(s) if isinstance(s, Dim) else ():
                    if s is named(name):
                        env[name] = number
        if not set(names_in(size)) <= set(env):
            return None
        return evaluate_size(size, env)

    def decide(self, relation: str, left: Size, right: Size) -> bool:
        """Answer `left == right` or `left >= right` by the call's values, and note it.

        Raises:
            ShapeError: if only types are known.
        """
        counted = self.is_counted(left) or self.is_counted(right)
        if counted and self.values is not None:
            return self._decide_counted(relation, left, right)
        a, b = self.size_value(left), self.size_value(right)
        if a is None or b is None:
            raise ShapeError(
                f"whether {left} {relation} {right} depends on the sizes, which "
                "tg.spec leaves open",
                at=self.place(),
                fix="give the sizes the same name in tg.spec, or fixed numbers",
            )
        outcome = a == b if relation == "==" else a >= b
        if outcome and relation == "==":
            # An axis that must have a fixed size reads best as that number.
            fixed = left if isinstance(right, int) else right
            if isinstance(left, int) or isinstance(right, int):
                axes = self.axes_of(fixed) if isinstance(fixed, Dim) else ()
                if axes:
                    raise Restart(static_axes=axes)
        fact = SizeFact(relation, left, right, outcome)
        if fact not in self.facts:
            self.facts.append(fact)
        return outcome

    def count(self, mask: Any) -> Size:
        """The number of true elements of a mask, by name if the mask is traced."""
        value = mask.value
        if self.is_concrete(value):
            return int(np.count_nonzero(self.ask(value)))
        if self.counting.how == "refuse" or DEPTH.bodies:
            raise ControlFlowError(
                f"the size of x[mask] depends on the values of a traced mask of shape "
                f"{shape_text(value.type.shape)}",
                op="x[mask]",
                at=self.place(),
                fix="use np.where(mask, x, 0.0), which keeps the shape",
            )
        key = self.demand.number(value)
        if key not in self.masks:
            size = named(self._free_size())
            made = self.builder.record(true_count, (mask,), {"size": size})
            self.masks[key] = size, made.value
            if self.values is not None:
                self.demand.value(made.value)
        size, made = self.masks[key]
        self.counting.used = True
        if self.values is not None and self.counting.how != "name":
            test = OPERATORS["__gt__"](Ref(made, self.builder), 1).value
            many = self.demand.decide(test, bool)
            if self.counting.how == "guard" or not many:
                return int(self.demand.decide(made, int))
        return size

    def _free_size(self) -> str:
        """A name for a size that no axis of an argument has."""
        taken = {
            name
            for v in self.params
            for s in v.type.shape
            if isinstance(s, Dim)
            for name in names_in(s)
        }
        taken |= {str(size) for size, _ in self.masks.values()}
        count = 1
        while (name := f"{COUNT}_{count}" if count > 1 else COUNT) in taken:
            count += 1
        return name

    def is_counted(self, size: Size) -> bool:
        """Whether a size depends on the number of true elements of a mask."""
        counted = {str(size) for size, _ in self.masks.values()}
        return isinstance(size, Dim) and not counted.isdisjoint(names_in(size))

    def _decide_counted(self, relation: str, left: Size, right: Size) -> bool:
        """A relation of sizes that masks decide, as a test in the program."""
        a, b = [
            self.builder.record(dim, (), {"size": s}) if isinstance(s, Dim) else s
            for s in (left, right)
        ]
        name = "__eq__" if relation == "==" else "__ge__"
        test = OPERATORS[name](a, b)
        outcome = bool(self.demand.decide(test.value, bool))
        self.proved[relation, left, right] = outcome
        return outcome


def leaked(session: Session) -> LeakedTracerError:
    """The error for a traced value outside its trace."""
    if ACTIVE.session is None and session.thread != threading.get_ident():
        what = "a traced value was used in another thread than its trace runs in"
        fix = "keep the traced function in one thread"
    else:
        what = "a traced value was used after its trace had ended"
        fix = "return what you need from the function; do not store it elsewhere"
    return LeakedTracerError(what, op="a traced array", at=calling_line(), fix=fix)


def _create(op: Op, args: tuple, attrs: dict[str, Any]) -> Any:
    """An op without array arguments: a node in a trace, else an array."""
    session = ACTIVE.session
    if session is None:
        return op.run(*args, **attrs)
    return session.builder.record(op, args, attrs)


HANDLERS[type(None)] = _create
