"""Derivatives of solutions of differential equations: the adjoint method.

The solution of `y' = f(t, y, p)` has as its pullback the adjoint equation
`a' = -(df/dy)^T a`, solved backwards by the same solver together with
`g' = -(df/dp)^T a`.  From each time that the solution was asked for it starts at the
saved `y`, and the cotangent there is added (R. T. Q. Chen et al., "Neural ordinary
differential equations", 2018, appendix B).  Forward mode solves
`w' = df/dy w + df/dp t` beside the equation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracegrad.autodiff.batch import batch
from tracegrad.autodiff.inlining import (
    Pull,
    Push,
    apart,
    as_forward,
    as_own,
    column,
    derived,
    flat,
    inlined,
    part,
    reshaped,
    zeros_of,
)
from tracegrad.ir.dims import product
from tracegrad.ir.graph import Node, Value
from tracegrad.ir.index import ARRAY, Slice
from tracegrad.ir.region import Open, close
from tracegrad.ir.types import ArrayType, Size
from tracegrad.ops.control import COUNTER, for_loop, loop_attrs
from tracegrad.ops.create import zeros
from tracegrad.ops.define import ACCEPT, Op
from tracegrad.ops.index import FULL, getitem
from tracegrad.ops.join import concatenate
from tracegrad.ops.record import Builder, Ref
from tracegrad.ops.reduce import sum as reduce_sum
from tracegrad.ops.shape import broadcast_to, transpose
from tracegrad.ops.solvers import Parts, integrate, stepping

F8 = np.dtype(float)


@dataclass(slots=True)
class _Solution:
    """What both modes need of a solution of a differential equation."""

    builder: Builder
    node: Node
    parts: Parts

    @property
    def out(self) -> Ref:
        return self.builder.wrap(self.node.outputs[self.parts.solution or 0])

    @property
    def times(self) -> Ref | None:
        """The times that the solution was asked for; None for the last one only."""
        found = self.parts.data.get("times")
        return None if found is None else self.builder.wrap(found)

    @property
    def n(self) -> Size:
        """The number of equations."""
        return self.parts.data["y"].type.shape[0]

    def by_rows(self, x: Ref) -> Ref:
        """A solution, or its cotangent, with the times first."""
        return x if self.parts.solver.kind == "rows" else transpose(x, axes=(1, 0))

    def row(self, x: Ref, at: Any) -> Ref:
        """What belongs to one time, given by its number."""
        by_rows = self.parts.solver.kind == "rows"
        if isinstance(at, int):
            return getitem(x, index=(at,) if by_rows else (FULL, at))
        return getitem(x, at, index=(ARRAY,) if by_rows else (FULL, ARRAY))

    def slope(self, t: Ref, y: Ref) -> Ref:
        """The right-hand side."""
        own = self.parts.own
        given = {"t": as_own(t, own["t"]).value, "y": as_own(y, own["y"]).value}
        nodes, result = inlined(self.builder, self.parts, given)
        self.builder.nodes.extend(nodes)
        return self.builder.wrap(result)

    def slopes(self) -> Ref:
        """The right-hand side at all times, which come first."""
        assert self.times is not None
        own = {key: Value(v.type, v.hint) for key, v in self.parts.own.items()}
        nodes, result = inlined(self.builder, self.parts, own)
        times = as_own(self.times, own["t"])
        many = {own["t"]: times, own["y"]: self.by_rows(self.out)}
        count = self.times.shape[0]
        found = batch(self.builder, nodes, many, count).get(result)
        if found is None:
            shape = (count, self.n)
            return broadcast_to(self.builder.wrap(result), shape=shape)
        return found

    def starts(self) -> Ref:
        """The time at which the solution is given."""
        data = self.parts.data
        if "start" in data:
            return self.builder.wrap(data["start"])
        assert self.times is not None
        return getitem(self.times, index=(0,))

    def append(
        self,
        op: Op,
        captured: Sequence[Value],
        regions: tuple,
        more: Sequence[Value],
        outputs: Sequence[Value],
        attrs: dict[str, Any],
    ) -> None:
        """Add a node of a solver or a loop at the place of this one."""
        inputs = (*captured, *more)
        made = Node(op, inputs, tuple(outputs), attrs, self.node.at, self.builder.phase)
        made.regions, made.derived = regions, True
        self.builder.append(made)

    def named(self, v: Value, like: str) -> Value:
        """A value called as a parameter of the user's function."""
        v.hint, v.user = self.parts.own[like].hint or like, True
        return v


class Adjoint(_Solution):
    """The pullback of one solution."""

    __slots__ = ("active", "ct", "moved", "pull")

    def __init__(
        self,
        builder: Builder,
        node: Node,
        parts: Parts,
        ct: Ref,
        active: set[Value],
        pull: Pull,
    ) -> None:
        super().__init__(builder, node, parts)
        self.ct, self.active, self.pull = ct, active, pull
        self.moved = [v for v in parts.captured if v in active]

    def record(self) -> list[Ref | None]:
        """Record the pullback; one cotangent per input."""
        with derived(self.builder):
            return self._record()

    def _record(self) -> list[Ref | None]:
        data, times = self.parts.data, self.times
        builder = self.builder
        count = sum([product(v.type.shape) for v in self.moved]) if self.moved else 0
        of: dict[str, Ref] = {}
        g = zeros_of(builder, count) if self.moved else None
        if times is None:
            a = self.ct
            last = builder.wrap(data["stop"])
            if data["stop"] in self.active:
                of["stop"] = reduce_sum(a * self.slope(last, self.out))
            a, g = self.step(self.out, a, g, last, self.starts())
        else:
            a, g = self._over_times(times, g)
            if data["times"] in self.active:
                rows = self.by_rows(self.ct) * self.slopes()
                of["times"] = reduce_sum(rows, axis=1)
        of["y"] = a
        self._of_start(of, a)
        parts = iter(self._split(g))
        found = {v: next(parts) for v in self.moved}
        return [found.get(v) for v in self.parts.captured] + [
            of.get(key) if v in self.active else None for key, v in data.items()
        ]

    def _of_start(self, of: dict[str, Ref], a: Ref) -> None:
        """What the time of the first value adds: a later start shifts the solution."""
        key = "start" if "start" in self.parts.data else "times"
        if self.parts.data[key] not in self.active:
            return
        y = self.builder.wrap(self.parts.data["y"])
        moved = -reduce_sum(a * self.slope(self.starts(), y))
        if key == "start":
            of["start"] = moved
        else:  # the rows hold the slope times the cotangent of the first one as well
            rest = of["times"]
            shape = (rest.shape[0] - 1,)
            pads = self.builder.record(zeros, (), {"shape": shape, "dtype": "float64"})
            of["times"] = rest + concatenate(reshaped(moved, (1,)), pads, axis=0)

    def _split(self, g: Ref | None) -> Iterator[Ref]:
        start: Size = 0
        for v in self.moved:
            assert g is not None
            stop = start + product(v.type.shape)
            if v.type.shape:
                yield reshaped(part(g, start, stop), v.type.shape)
            else:
                yield getitem(g, index=(start,))
            start = stop

    def _over_times(self, times: Ref, g: Ref | None) -> tuple[Ref, Ref | None]:
        """The adjoint at the first time, from the last one on."""
        builder, n = self.builder, self.n
        counter = Value(COUNTER, "i", user=True)
        carries = [Value(ArrayType((n,), F8), "d_" + self._name(), user=True)]
        starts = [zeros_of(builder, n).value]
        if g is not None:
            hint = "d_parameters"
            if len(self.moved) == 1 and self.moved[0].hint:
                hint = f"d_{self.moved[0].hint}"
            carries.append(Value(g.type, hint, user=True))
            starts.append(g.value)
        # From each time to the one before; SciPy's `solve_ivp` may start earlier still.
        earlier, first = times, 1
        if "start" in self.parts.data:
            begin = reshaped(ACCEPT[np.asarray](self.starts()), (1,))
            earlier, first = concatenate(begin, times, axis=0), 0
            earlier.value.hint = "starts"
        with apart(builder) as nodes:
            i = builder.wrap(counter)
            a = builder.wrap(carries[0]) + self.row(self.ct, i)
            inner = builder.wrap(carries[1]) if g is not None else None
            t = getitem(times, i, index=(ARRAY,))
            before = getitem(earlier, i - 1 if first else i, index=(ARRAY,))
            a, inner = self.step(self.row(self.out, i), a, inner, t, before)
            results = [a.value] + ([] if inner is None else [inner.value])
        body = Open("body", [counter], carries, nodes, results)
        captured, regions = close([body])
        bounds = (first, times.shape[0])
        attrs = loop_attrs(len(carries), bounds=bounds, reverse=True)
        outputs = [Value(v.type, v.hint, user=True) for v in carries]
        self.append(for_loop, captured, regions, starts, outputs, attrs)
        made = [builder.wrap(v) for v in outputs]
        at_start = made[0] + self.row(self.ct, 0) if first else made[0]
        return at_start, made[1] if g is not None else None

    def _name(self) -> str:
        return self.parts.own["y"].hint or "y"

    def step(
        self, y: Ref, a: Ref, g: Ref | None, start: Ref, stop: Ref
    ) -> tuple[Ref, Ref | None]:
        """The adjoint at `stop`, from that at `start`, where the solution is `y`."""
        builder, n = self.builder, self.n
        state = concatenate(y, a, *([] if g is None else [g]), axis=0)
        region, captured = self._equation(state.type)
        solver = stepping(self.parts.solver)
        given = {"y": state.value, "start": start.value, "stop": stop.value}
        out = Value(state.type, "state", user=True)
        data = [given[key] for key in solver.data]
        self.append(integrate, captured, region, data, [out], {"solver": solver})
        made = builder.wrap(out)
        return part(made, n, 2 * n), None if g is None else part(made, 2 * n, None)

    def _equation(self, of: ArrayType) -> tuple[tuple, list[Value]]:
        """The adjoint equation as a region, and what it reads of the outside."""
        builder, parts, n = self.builder, self.parts, self.n
        t = Value(parts.own["t"].type, parts.own["t"].hint, user=True)
        state = Value(of, "state", user=True)
        with apart(builder) as nodes, as_forward(builder):
            whole = builder.wrap(state)
            y, a = part(whole, None, n), part(whole, n, 2 * n)
            self.named(y.value, "y")
            a.value.hint, a.value.user = "a", True
            made, slope = inlined(builder, parts, {"t": t, "y": y.value})
            builder.nodes.extend(made)
            wrt = [y.value, *self.moved]
            found = self.pull(builder, made, [slope], [a], wrt)
            rows = [flat(builder.wrap(slope))]
            for v, ct in zip(wrt, found, strict=True):
                count = product(v.type.shape)
                rows.append(zeros_of(builder, count) if ct is None else -flat(ct))
            result = concatenate(*rows, axis=0)
        own = [{"t": t, "y": state}[key] for key in parts.solver.own]
        captured, regions = close([Open("adjoint", [], own, nodes, [result.value])])
        return regions, captured


def push_solution(
    builder: Builder,
    node: Node,
    parts: Parts,
    given: Sequence[Ref | None],
    push: Push,
    pull: Pull,
) -> Ref | None:
    """The tangent of a solution: the equation and its tangent solved side by side."""
    of = _Solution(builder, node, parts)
    n = of.n
    tangents = dict(zip(node.inputs, given, strict=True))
    t_of = {key: tangents[v] for key, v in parts.data.items()}
    y = builder.wrap(parts.data["y"])
    start = t_of.get("start" if "start" in parts.data else "times")
    first = t_of["y"]
    if start is not None:
        if "start" not in parts.data:
            start = getitem(start, index=(0,))
        shift = of.slope(of.starts(), y) * start
        first = -shift if first is None else first - shift
    moved = [(v, t) for v in parts.captured if (t := tangents[v]) is not None]
    made: Ref | None = None
    if moved or first is not None:
        first = zeros_of(builder, n) if first is None else first
        made = _side_by_side(of, y, first, moved, push)
    if of.times is None:
        t = t_of["stop"]
        if t is None:
            return made
        more = of.slope(builder.wrap(parts.data["stop"]), of.out) * t
    else:
        t = t_of["times"]
        if t is None:
            return made
        more = of.by_rows(of.slopes() * column(t))
    return more if made is None else made + more


def _side_by_side(
    of: _Solution, y: Ref, first: Ref, moved: list[tuple[Value, Ref]], push: Push
) -> Ref:
    builder, parts, n = of.builder, of.parts, of.n
    state = Value(ArrayType((2 * n,), F8), "state", user=True)
    t = Value(parts.own["t"].type, parts.own["t"].hint, user=True)
    with apart(builder) as nodes, as_forward(builder):
        whole = builder.wrap(state)
        inner, tangent = part(whole, None, n), part(whole, n, None)
        of.named(inner.value, "y")
        tangent.value.hint, tangent.value.user = f"t_{inner.value.hint}", True
        copies, slope = inlined(builder, parts, {"t": t, "y": inner.value})
        wrt = [inner.value, *[v for v, _ in moved]]
        known = push(builder, copies, wrt, [tangent, *[t for _, t in moved]])
        found = known.get(slope)
        rows = zeros_of(builder, n) if found is None else flat(found)
        result = concatenate(flat(builder.wrap(slope)), rows, axis=0)
    own = [{"t": t, "y": state}[key] for key in parts.solver.own]
    captured, regions = close([Open("tangent", [], own, nodes, [result.value])])
    solver = parts.solver
    field = solver.fields[parts.solution or 0]
    kept = stepping(solver).options
    solver = replace(solver, fields=(field,), functions=(), options=kept)
    like = parts.own["y"]
    start = concatenate(as_own(y, like), as_own(first, like), axis=0)
    data = [start.value if key == "y" else v for key, v in parts.data.items()]
    shape = of.out.shape
    axis = -1 if solver.kind == "rows" else 0
    wide = (*shape[:-1], 2 * n) if axis else (2 * n, *shape[1:])
    out = Value(ArrayType(wide, F8))
    of.append(integrate, captured, regions, data, [out], {"solver": solver})
    made = builder.wrap(out)
    after = Slice(n, None)
    return getitem(
        made, index=(after,) if not axis or len(shape) == 1 else (FULL, after)
    )
