"""From a call to a program: what is symbolic, what is static, and the trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from tracegrad.errors import (
    ControlFlowError,
    ConversionError,
    MutationError,
    RandomStateError,
    ShapeError,
    UnsupportedError,
)
from tracegrad.ir.dims import Dim, Size, evaluate, named
from tracegrad.ir.dims import names as names_in
from tracegrad.ir.graph import Value
from tracegrad.ir.routine import Parameter
from tracegrad.ir.tree import Branch, Leaf, Static, Tree, leaves
from tracegrad.ir.types import ArrayType
from tracegrad.ops.infer import decider
from tracegrad.ops.record import type_of
from tracegrad.runtime.binding import (
    Binder,
    Call,
    Raw,
    check_differentiable,
    resolve,
    walk,
)
from tracegrad.runtime.branches import reads_counts, refuse_guards
from tracegrad.runtime.cache import Axis, Family, Plan
from tracegrad.runtime.derive import Program
from tracegrad.runtime.inlined import Inlined
from tracegrad.runtime.options import Options
from tracegrad.runtime.specialization import Path, Specialization
from tracegrad.trace.session import Counting, Restart, SizeFact
from tracegrad.trace.tracer import trace

# Static values that the docstring of the emitted module names.
_PLAIN = (str, bytes, bool, int, float)


# ----------------------------------------------------------------------- making one
def specialize(
    function: Callable,
    binder: Binder,
    options: Options,
    call: Call,
    family: Family | None,
) -> Specialization:
    """Trace the function for a call and derive what was asked for.

    Args:
        function: the user's.
        binder: of its signature.
        options: what to make.
        call: the call; `tg.spec`s in it stand for arrays.
        family: the calls of its kind so far, None for types only.
    """
    try:
        return _specialize(function, binder, options, call, family)
    except UnsupportedError:
        if not options.joins or options.backend == "jax":
            raise
        # Perhaps in an arm that calls do not take.
        plain = replace(options, joins=False)
        return _specialize(function, binder, plain, call, family)


def _specialize(
    function: Callable,
    binder: Binder,
    options: Options,
    call: Call,
    family: Family | None,
) -> Specialization:
    wrt: list[int] = []
    one = True
    if options.mode != "function":
        wrt, one = resolve(call.parameters, options.argnums, options.argnames, binder)
        check_differentiable(call, wrt, binder, options.op)
    if family is None:
        plan, counting = _plan_of_types(call), _counting(options, "name")
        return _attempt(function, binder, options, call, plan, counting, wrt, one)
    taken = set(binder.signature.parameters)
    proved: set[Axis] | None = None  # what is fixed, before all axes were for a try
    while True:
        plan = family.plan(call, taken)
        counting = _counting(options, family.counting)
        try:
            made = _attempt(function, binder, options, call, plan, counting, wrt, one)
            named = counting.used and counting.how == "name"
            if not (named and reads_counts(made.routine.graph)):
                return made
            family.counting = "test"  # none at all would divide by 0, for example
        except _Again as again:
            _fix(again, family)
        except (MutationError, RandomStateError):
            raise  # a second try would find the change made already
        except Exception as error:
            if counting.used and counting.how in ("name", "test"):
                family.counting = "guard"  # something needs the number of elements
                continue
            if isinstance(error, ControlFlowError | ConversionError):
                soft = _soft_scalars(call, wrt) - plan.static
                if soft:
                    family.fixed_scalars |= soft
                    continue
            if proved is not None:
                family.fixed_axes = proved
                raise
            # Perhaps a rule needs a number.  If not, the error names numbers now.
            before = set(family.fixed_axes)
            if not family.fix_all(call):
                raise
            proved = before


def _counting(options: Options, how: str) -> Counting:
    """What becomes of sizes that masks decide: code under `jax.jit` must know them."""
    return Counting("refuse" if options.backend == "jax" else how)


class _Again(Exception):
    """The trace needs scalars and axes as numbers, given by their positions."""

    def __init__(self, scalars: set[int], axes: set[Axis]) -> None:
        super().__init__()
        self.scalars, self.axes = scalars, axes


def _given(call: Call, parameters: list[Parameter]) -> tuple[list, dict]:
    """The arguments of the function, by position and by name."""
    args, kwargs = [], {}
    for bound, parameter in zip(call.parameters, parameters, strict=True):
        if bound.keyword is None:
            args.append(parameter.tree)
        else:
            kwargs[bound.keyword] = parameter.tree
    return args, kwargs


def _attempt(
    function: Callable,
    binder: Binder,
    options: Options,
    call: Call,
    plan: Plan,
    counting: Counting,
    wrt: list[int],
    one: bool,
) -> Specialization:
    """Trace and derive by a plan.

    Raises:
        _Again: some of what the plan leaves open must be a number.
    """
    parameters, examples, places = _parameters(call, plan)
    args, kwargs = _given(call, parameters)
    numbers = None if call.has_specs else _numbers(examples)
    noted: list[SizeFact] | None = [] if options.backend == "jax" else None
    try:
        with _indexing(numbers, noted):
            soft = [v for v, i in places.items() if i in _soft_scalars(call, wrt)]
            traced = trace(
                *(function, args, kwargs),
                values=None if call.has_specs else examples,
                soft=soft,
                counting=counting,
                joins=options.joins,
                folds=options.reroll,
            )
    except Restart as restart:
        raise _Again(
            {places[v] for v in restart.static_leaves},
            {(places[v], axis) for v, axis in restart.static_axes},
        ) from None
    traced.facts += [fact for fact in noted or () if fact not in traced.facts]
    if options.backend == "jax":
        refuse_guards(traced.builder.nodes, traced.unjoined)
    program = Program(
        name=binder.name,
        at=binder.at,
        doc=getattr(function, "__doc__", None),
        parameters=tuple(parameters),
        params=list(places),
        nodes=list(traced.builder.nodes),
        result=traced.result,
        sizes=_sizes(places, binder),
        deciding=_deciding(numbers, traced.facts, traced.proved),
        notes=_notes(parameters),
        inlined=function if isinstance(function, Inlined) else None,
    )
    found = traced.facts, traced.guards, traced.unjoined
    path = Path(program, options, wrt or _inside(function, call, binder), one, *found)
    return Specialization(
        [path], call.key, binder, examples, tuple(places.values()), call.has_specs
    )


def _inside(function: Callable, call: Call, binder: Binder) -> list[int]:
    """The parameters that a transformation which was traced too differentiates by."""
    by = function.options if isinstance(function, Inlined) else None
    if by is None:
        return []
    return resolve(call.parameters, by.argnums, by.argnames, binder)[0]


def _soft_scalars(call: Call, wrt: list[int]) -> set[int]:
    """Scalars that may become static where a trace needs their value.

    Those are defaults that the call left out, and NumPy's integers and booleans.
    """
    differentiated = {
        id(leaf.value) for i in wrt for leaf in leaves(call.parameters[i].tree)
    }
    defaults = {
        id(leaf.value)
        for p in call.parameters
        if not p.given
        for leaf in leaves(p.tree)
        if leaf.value.kind != "array"
    }
    return {
        i
        for i, raw in enumerate(call.raws)
        if id(raw) not in differentiated
        and (id(raw) in defaults or (raw.kind == "scalar" and raw.countable))
    }


def _fix(again: _Again, family: Family) -> None:
    """Note what must be static for good.

    Raises:
        RuntimeError: the trace asks for what it has: it would ask for ever.
    """
    if again.axes <= family.fixed_axes and again.scalars <= family.fixed_scalars:
        raise RuntimeError("a trace asked again for what is static already")
    family.fixed_axes |= again.axes
    family.fixed_scalars |= again.scalars


def _numbers(values: dict[Value, Any] | None) -> dict[str, int] | None:
    """The sizes of a call by name, None if only types are known."""
    if values is None:
        return None
    return {
        str(size): number
        for value, data in values.items()
        for size, number in zip(value.type.shape, np.shape(data), strict=True)
        if isinstance(size, Dim)
    }


@contextmanager
def _indexing(
    env: dict[str, int] | None, noted: list[SizeFact] | None
) -> Iterator[None]:
    """Context: an index outside of an array of this call is an error of its line.

    Args:
        env: the sizes of the call.
        noted: gets what must hold in later calls; None if the program checks itself,
            as NumPy does and JAX does not.
    """

    def reaches(size: Size, least: int) -> bool:
        outcome = evaluate(size, env or {}) >= least
        if noted is not None and outcome:
            noted.append(SizeFact(">=", size, least, True))
        return outcome

    before, decider.reaches = decider.reaches, None if env is None else reaches
    try:
        yield
    finally:
        decider.reaches = before


def _deciding(
    env: dict[str, int] | None, facts: list[SizeFact], proved: dict[tuple, bool]
) -> Callable:
    """Makes the context in which a derivation may ask about sizes.

    The sizes of the call answer, and each answer becomes a fact that calls must share.
    """

    def ask(relation: str, left: Size, right: Size) -> bool:
        if (relation, left, right) in proved:
            return proved[relation, left, right]
        if any(n not in (env or {}) for s in (left, right) for n in names_in(s)):
            raise ShapeError(f"whether {left} {relation} {right} depends on a mask")
        a, b = evaluate(left, env or {}), evaluate(right, env or {})
        outcome = a == b if relation == "==" else a >= b
        fact = SizeFact(relation, left, right, outcome)
        if fact not in facts:
            facts.append(fact)
        return outcome

    @contextmanager
    def deciding() -> Iterator[None]:
        before, decider.ask = decider.ask, None if env is None else ask
        try:
            yield
        finally:
            decider.ask = before

    return deciding


def _plan_of_types(call: Call) -> Plan:
    shapes = [
        raw.data.type.shape
        if raw.kind == "spec"
        else tuple(getattr(raw.data, "shape", ()))
        for raw in call.raws
    ]
    ints = {i for i, raw in enumerate(call.raws) if raw.countable}
    return Plan(shapes, ints)


def _parameters(
    call: Call, plan: Plan
) -> tuple[list[Parameter], dict[Value, Any], dict[Value, int]]:
    """Parameters with fresh values, the data of each value, and its position."""
    position = {id(raw): i for i, raw in enumerate(call.raws)}
    examples: dict[Value, Any] = {}
    places: dict[Value, int] = {}

    def valued(tree: Tree) -> Tree:
        if isinstance(tree, Branch):
            return replace(tree, children=tuple(map(valued, tree.children)))
        if isinstance(tree, Static):
            return tree
        raw: Raw = tree.value
        i = position[id(raw)]
        if i in plan.static:
            return Static(raw.data)
        made = Value(_type(raw, plan.shapes[i]), raw.hint)
        examples[made] = raw.data
        places[made] = i
        return Leaf(made)

    parameters = [
        Parameter(p.name, p.kind, valued(p.tree), p.default, p.annotation)
        for p in call.parameters
    ]
    return parameters, examples, places


def _type(raw: Raw, shape: tuple) -> ArrayType:
    if raw.kind == "spec":
        return raw.data.type
    if raw.kind == "array":
        return ArrayType(shape, raw.data.dtype.newbyteorder("="))
    return type_of(raw.data)


def _sizes(places: dict[Value, int], binder: Binder) -> dict[str, tuple[Value, int]]:
    """Where each named size is read: the first axis of just that size.

    Raises:
        ShapeError: no axis has it, only expressions of it.
    """
    sizes: dict[str, tuple[Value, int]] = {}
    wanted: dict[str, None] = {}
    for value in places:
        for axis, size in enumerate(value.type.shape):
            if isinstance(size, Dim):
                wanted.update(dict.fromkeys(names_in(size)))
                for name in names_in(size):
                    if size is named(name):
                        sizes.setdefault(name, (value, axis))
    for name in wanted:
        if name not in sizes:
            raise ShapeError(
                f"the size `{name}` is read nowhere: no axis is `{name}` itself",
                op="tg.spec",
                at=binder.at,
                fix=f"give one axis the size `{name}`",
            )
    return sizes


def _notes(parameters: list[Parameter]) -> tuple[str, ...]:
    """What the emitted module is made for beside the types."""
    made_for = [
        f"{where}={part.value!r}"
        for p in parameters
        for where, part in walk(p.tree, p.name)
        if isinstance(part, Static) and type(part.value) in _PLAIN
    ]
    return (f"Made for {', '.join(made_for)}.",) if made_for else ()
