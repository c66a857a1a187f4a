"""Values that Python asks for in the middle of a trace, and what they decided.

A trace that a call has started knows the call's arguments.  The value is computed from
the graph so far, each node once, and a guard is recorded: the program is right for the
calls that decide alike.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracegrad.errors import ControlFlowError, TracegradError
from tracegrad.ir.graph import Const, Node, Value
from tracegrad.ir.location import Location
from tracegrad.ir.region import structure
from tracegrad.ir.types import Dim
from tracegrad.ops.control_guard import guard
from tracegrad.ops.define import OPERATORS
from tracegrad.ops.evaluate import run_nodes
from tracegrad.ops.record import Ref
from tracegrad.trace.buffers import DEPTH

if TYPE_CHECKING:
    from tracegrad.trace.session import Session


class TraceWarning(RuntimeWarning):
    """What was printed or formatted is a value of the call that was traced only."""


class _Peeking(threading.local):
    """Per thread: whether the first example stands for all of a batch."""

    on = False


PEEKING = _Peeking()


def peek(session: Session, values: Sequence[Value]) -> list[Any]:
    """Data of some values, of the first example where they differ in a batch.

    For the shape of what is computed from them: the numbers say nothing of the others.
    """
    PEEKING.on = True
    try:
        demand = Demand(session)
        return [demand.value(v) for v in values]
    finally:
        PEEKING.on = False


class Demand:
    """The values of one trace's call, and its guards.

    Attributes:
        session: the trace.
        count: number of guards so far.
        truths: whether one is a `bool` of Python's, where its node does not tell.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.count = 0
        self.truths: dict[Value, bool] = {}
        self.sizes: dict[str, int] = {}
        self._data: dict[Value, Any] = dict(session.values or {})
        self._numbers: dict[Any, int] = {}  # structure of a computation -> its number
        self._known: dict[Value, int] = {}
        self._decided: dict[tuple[int, type], bool | int] = {}
        self._settled: dict[int, Any] = {}  # number of a value -> what it is
        for value, data in self._data.items():
            for size, number in zip(value.type.shape, np.shape(data), strict=True):
                if isinstance(size, Dim):
                    self.sizes[str(size)] = number

    # -------------------------------------------------------------------- values
    def value(self, value: Value) -> Any:
        """The data of a value in this call; each node is run once."""
        if isinstance(value, Const):
            return value.value
        data, producers = self._data, self.session.builder.producers
        waiting = [value]
        while waiting:
            if waiting[-1] in data:
                waiting.pop()
                continue
            node = producers[waiting[-1]]
            missing = [v for v in node.inputs if type(v) is not Const and v not in data]
            if missing:
                waiting.extend(missing)
                continue
            with np.errstate(all="ignore"):
                run_nodes((node,), data, self.sizes)
            waiting.pop()
        return data[value]

    def _many_values(self) -> ControlFlowError:
        """The error for what has another value in each turn of a loop."""
        return ControlFlowError(
            "Python asked for a number inside of the body of a loop or a branch, which "
            "runs many times or not at all",
            op="int(), range() or an index of a list",
            at=self.session.place(),
            fix="index an array with it, or use tg.switch or tg.fori_loop",
        )

    def shown(self, value: Value, otherwise: str) -> Any:
        """The data, for a text: the program itself will not make that text.

        Args:
            value: what is printed.
            otherwise: what to print of a value that is not known.
        """
        if self.session.values is None or DEPTH.bodies:
            return otherwise
        if not self.session.joins.warned:
            self.session.joins.warned = True
            place = self.session.place()
            warnings.warn(
                "a traced value was printed or formatted: that happens in the call "
                "that is traced only, with its value"
                + (f" ({place.where}: {place.text})" if place else ""),
                TraceWarning,
                stacklevel=5,
            )
        return self.value(value)

    # -------------------------------------------------------------------- guards
    def decide(self, value: Value, kind: type) -> bool | int:
        """The outcome (`bool(x)` or `int(x)`) in this call, guarded from now on.

        Raises:
            ValueError: as NumPy does, for the truth of an array of several elements.
            TypeError: as NumPy does, for such an array as a number.
        """
        key = self.number(value), kind
        if key in self._decided:
            return self._decided[key]
        if DEPTH.bodies:
            raise self._many_values()
        outcome = kind(self.value(value))
        self._decided[key] = outcome
        session = self.session
        session.locate()
        attrs = {
            "outcome": outcome,
            "where": _message(session.place(), outcome),
            "number": self.count,
        }
        self.count += 1
        session.builder.record(guard, (Ref(value, session.builder),), attrs)
        return outcome

    def settled(self, value: Value, error: TracegradError) -> Any:
        """The number of a scalar by which Python looks something up, guarded.

        A complex or floating number is guarded by `==`.

        Args:
            value: traced or constant.
            error: what to raise if only types are known.

        Raises:
            Restart: if it depends on Python ints and sizes only, to be static then.
            TracegradError: `error`.
        """
        session = self.session
        if session.is_concrete(value):
            return np.asarray(session.ask(value)).item()
        if session.values is None:
            raise error.locate(None, session.place())
        session.restart_if_static(value)
        key = self.number(value)
        if key in self._settled:
            return self._settled[key]
        if value.type.kind in "iub":
            outcome: Any = self.decide(value, bool if value.type.kind == "b" else int)
        elif DEPTH.bodies:
            raise self._many_values()
        else:
            outcome = np.asarray(self.value(value)).item()
            ref = Ref(value, session.builder)
            # Not a number is found nowhere, and differs from itself.
            other = ref if outcome != outcome else outcome
            self.decide(OPERATORS["__eq__"](ref, other).value, bool)
        self._settled[key] = outcome
        return outcome

    def implied(self, value: Value) -> bool | None:
        """Whether two numbers are equal of which both are settled, else None.

        A look-up in a dict asks that of a key that has the same hash.
        """
        node = self.session.builder.producers.get(value)
        if node is None or node.op is not OPERATORS["__eq__"] or not self._settled:
            return None
        both = []
        for v in node.inputs:
            if type(v) is Const and not np.shape(v.value):
                both.append(v.value)
            elif (key := self.number(v)) in self._settled:
                both.append(self._settled[key])
            else:
                return None
        return bool(both[0] == both[1])

    def known(self, value: Value) -> bool | None:
        """The truth of a value that a guard has settled, or None."""
        found = self._decided.get((self.number(value), bool))
        return None if found is None else bool(found)

    def number(self, value: Value) -> int:
        """Equal for values that are computed alike, so that none is guarded twice."""
        known, producers = self._known, self.session.builder.producers
        waiting = [value]
        while waiting:
            v = waiting[-1]
            node = producers.get(v)
            if v in known:
                waiting.pop()
            elif node is None:
                known[v] = self._entry(_leaf_key(v))
            else:
                missing = [u for u in node.inputs if u not in known]
                if missing:
                    waiting.extend(missing)
                    continue
                for position, out in enumerate(node.outputs):
                    known[out] = self._entry(self._key(node, position))
        return known[value]

    def _key(self, node: Node, position: int) -> Any:
        inputs = tuple([self._known[u] for u in node.inputs])
        attrs = tuple([(k, repr(a)) for k, a in node.attrs.items()])
        regions = repr([structure(region) for region in node.regions])
        return id(node.op), inputs, attrs, regions, position

    def _entry(self, key: Any) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def _leaf_key(v: Value) -> Any:
    if isinstance(v, Const) and not isinstance(v.value, np.ndarray):
        return type(v.value).__name__, repr(v.value)
    return id(v.value) if isinstance(v, Const) else id(v)


def _message(place: Location | None, outcome: bool | int) -> str:
    """What a saved file says where a call takes another way."""
    where = f"{place.where}: " if place else ""
    if type(outcome) is bool:
        return f"{where}only traced where the test is {outcome}"
    return f"{where}only traced for the number {outcome}"
