"""One program: the traces that it is made of, its source, its guard."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tracegrad.codegen.source import Source, emit
from tracegrad.errors import TracegradError
from tracegrad.ir.graph import Value
from tracegrad.ir.routine import Routine, SizeFact
from tracegrad.ir.tree import Leaf
from tracegrad.runtime import jax_backend
from tracegrad.runtime.binding import Binder, Call, walk
from tracegrad.runtime.branches import interpret
from tracegrad.runtime.collector import paused_collector
from tracegrad.runtime.derive import Program, derive, routine_name
from tracegrad.runtime.entry import make_guard
from tracegrad.runtime.options import Options
from tracegrad.runtime.paths import as_tree, guards_of, joined, reasons
from tracegrad.trace.guards import Guard


@dataclass(slots=True)
class Path:
    """One trace, and what was derived from it.

    Attributes:
        program: the trace.
        options, wrt, one: what was asked for.
        facts: what was decided of sizes, while tracing and deriving.
        guards: what else the trace depends on.
        unjoined: branches and loops that were left to Python, and why.
        routines: by mode.
    """

    program: Program
    options: Options
    wrt: list[int]
    one: bool
    facts: list[SizeFact]
    guards: list[Guard]
    unjoined: dict[str, str] = field(default_factory=dict)
    routines: dict[str, Routine] = field(default_factory=dict)

    def routine(self, mode: str) -> Routine:
        """The function itself or a derivative of it."""
        if mode not in self.routines:
            options = replace(self.options, mode=mode)
            with paused_collector():
                made = derive(self.program, options, self.wrt, self.one)
            self.routines[mode] = made
        return self.routines[mode]


class Specialization:
    """One program for one kind of arguments.

    Attributes:
        options: what was asked for.
        paths: the traces, one for each way through the function that calls have taken.
        routine: the function that runs.
        key: of the family of calls that it belongs to.
        matches: tells by the arguments whether the program is for them.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        key: Any,
        binder: Binder,
        examples: Mapping[Value, Any],
        positions: tuple[int, ...],
        has_specs: bool = False,
    ) -> None:
        """Make the routine of the paths.

        Args:
            paths: of one function, for arguments of the same types.
            key: of the family.
            binder: of the function's signature.
            examples: data of the parameters in some call.
            positions: of the parameters among the leaves of a call.
            has_specs: whether only types are known, so that no call can match.
        """
        self.paths = tuple(paths)
        self.options = paths[0].options
        self.key = key
        self._binder = binder
        self._examples = {v: _small(data) for v, data in examples.items()}
        self._positions = positions
        self.routine = self._derived(self.options.mode)
        # Only now: the derivation may have decided sizes too.
        self._facts = tuple(self.routine.facts)
        self.routine.notes += tuple(
            f"Made for sizes with {f.left} {_said(f)} {f.right}." for f in self._facts
        )
        if not has_specs:
            self.matches = self._guard(None)

    @property
    def program(self) -> Program:
        """The first trace."""
        return self.paths[0].program

    @property
    def guarded(self) -> bool:
        """Whether the program is for some values of the arguments only."""
        return any(guards_of(path.program) for path in self.paths)

    @property
    def traces(self) -> list[str]:
        """Why each trace was made: the test that came out in a new way."""
        return reasons([path.program for path in self.paths])

    @property
    def unjoined(self) -> dict[str, str]:
        """The branches and loops that are no part of one trace, and why not."""
        return {line: why for path in self.paths for line, why in path.unjoined.items()}

    @property
    def said_unjoined(self) -> str:
        """The same for people, of the last one; empty if there is none."""
        for line, why in reversed(self.unjoined.items()):
            return f" It was not joined at {line}: {why}."
        return ""

    def joined(self, other: Specialization) -> Specialization | None:
        """One program of both, or None if they do not part at a test of values.

        Args:
            other: of one trace.
        """
        (new,) = other.paths
        if self._types() != other._types() or _contradict(self._facts, other._facts):
            return None
        program = joined([path.program for path in self.paths], new.program)
        if program is None:
            return None
        path = replace(new, program=program, routines={})
        examples = dict(zip(program.params, other._examples.values(), strict=True))
        return Specialization(
            [*self.paths, path], self.key, self._binder, examples, self._positions
        )

    def _types(self) -> tuple:
        return self._positions, [v.type for v in self.program.params]

    def interpret(self, call: Call) -> Any:
        """The result for a call that took the first path when it was traced.

        It is computed from the graph, with no guard asked.
        """
        data = [call.raws[i].data for i in self._positions]
        return interpret(self.paths[0].routine(self.options.mode), data)

    def _derived(self, mode: str) -> Routine:
        programs = [path.program for path in self.paths]
        routines = [path.routine(mode) for path in self.paths]
        made = as_tree(programs, routines)
        facts = dict.fromkeys(fact for path in self.paths for fact in path.facts)
        notes = dict.fromkeys(note for routine in routines for note in routine.notes)
        return replace(made, facts=tuple(facts), notes=tuple(notes))

    def _guard(self, run: Callable | None) -> Callable:
        guards = {guard.key: guard for path in self.paths for guard in path.guards}
        return make_guard(
            self._binder.name,
            self._binder.signature,
            self.program.parameters,
            self._examples,
            self._facts,
            [guard.check for guard in guards.values()],
            run,
        )

    @functools.cached_property
    def run(self) -> Callable:
        """The emitted function, under `jax.jit` for JAX."""
        backend = self.options.backend
        if backend == "jax":
            jax_backend.require_jax()
        function = self.source.load()[self.routine.name]
        if backend != "jax":
            return function
        if self.options.split:
            return jax_backend.with_pullback(function)
        return jax_backend.jitted(function)

    @functools.cached_property
    def entry(self) -> Callable:
        """The guard that calls the emitted function where the arguments fit."""
        return self._guard(self.run)

    @functools.cached_property
    def source(self) -> Source:
        """The source; it can make the other functions of the module that it saves."""
        with paused_collector():
            return emit(
                [self.routine],
                backend=self.options.backend,
                optimize=self.options.optimize,
                others=self._others,
            )

    def _others(self) -> list[Routine]:
        """The function itself and its other derivatives."""
        if self.options.mode == "function":
            return []
        return [
            routine
            for mode in ("function", "vjp", "value_and_grad")
            if mode != self.options.mode
            for routine in self._other(mode)
        ]

    def _other(self, mode: str) -> list[Routine]:
        """Another derivation, if there is one: a vjp may be of no scalar."""
        try:
            return [self._derived(mode)]
        except TracegradError:
            return []

    def __repr__(self) -> str:
        parts = []
        for p in self.program.parameters:
            for where, part in walk(p.tree, p.name):
                if isinstance(part, Leaf):
                    parts.append(f"{where}: {part.value.type!r}")
                elif part.value is not None:
                    parts.append(f"{where}={_short(part.value)}")
        name = routine_name(self.program.name, self.options.mode)
        several = f", {len(self.paths)} traces" if len(self.paths) > 1 else ""
        return f"{name}({', '.join(parts)}){several}"


def _contradict(a: Sequence[SizeFact], b: Sequence[SizeFact]) -> bool:
    """Whether two traces were decided differently by sizes."""
    opposite = {replace(fact, outcome=not fact.outcome) for fact in a}
    return not opposite.isdisjoint(b)


def _small(data: Any) -> Any:
    """An array of the same class and dtype, so that the call's own is not kept."""
    if getattr(data, "ndim", 0):
        return data[(slice(0, 0),) * data.ndim].copy()
    return data


def _said(fact: Any) -> str:
    if fact.outcome:
        return fact.relation
    return "!=" if fact.relation == "==" else "<"


def _short(x: Any) -> str:
    return f"{getattr(x, '__name__', None) or repr(x):.40}"
