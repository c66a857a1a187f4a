"""What all transformations share that record themselves in a trace.

A transformation such as `tg.hvp` exists once, as a function that records its work in
the running trace.  Called inside of a trace it does that there.  Called from outside,
it is compiled like any function: a trace of nothing but the transformation.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tracegrad.codegen.source import Source
from tracegrad.errors import ArgumentError
from tracegrad.ir.graph import Graph
from tracegrad.runtime.binding import Binder
from tracegrad.runtime.compiled import Compiled
from tracegrad.runtime.inlined import Inlined
from tracegrad.runtime.options import Options, require_function
from tracegrad.runtime.specialize import Specialization
from tracegrad.trace.tracer import active

# Under this name a function keeps what is compiled of it, which so lives as long.
_KEPT = "__tracegrad_transforms__"
_P = inspect.Parameter


def binder_of(function: Any, op: str, backend: str = "numpy") -> Binder:
    """The binder of a function that the user gave.

    Raises:
        ArgumentError: it is no function.
    """
    require_function(function, op)
    binder = Binder(function, foreign=backend == "jax")
    binder.name = getattr(function, "_routine_name", None) or binder.name
    return binder


def kept(function: Callable, key: Any, make: Callable[[], Any]) -> Any:
    """What was made of a function, kept on the function itself.

    No table of functions outside of them would let a fresh lambda go.
    """
    try:
        found = vars(function).setdefault(_KEPT, (function, {}))
        if found[0] is not function:  # a copy of the attributes, as by functools.wraps
            found = vars(function)[_KEPT] = (function, {})
    except (TypeError, AttributeError):
        return make()  # a bound method, a built-in function
    if key not in found[1]:
        found[1][key] = make()
    return found[1][key]


def options_of(
    op: str,
    backend: str,
    optimize: str,
    has_aux: bool = False,
    reroll: bool = True,
) -> Options:
    """Checked options of what is compiled as a function."""
    options = Options(
        "function",
        has_aux=has_aux,
        backend=backend,
        optimize=optimize,
        reroll=reroll,
        named=op,
    )
    options.check()
    return options


class Direct:
    """A transformation whose arguments come in tuples: `hvp(primals, tangents)`.

    What is emitted has flat parameters, the primals by their names in the user's
    function and the others named after them (`t_x`).

    Args:
        function: the user's.
        op: public name, for errors.
        name: suffix of the emitted function's name.
        what: see `Inlined.what`.
        record: `(binder, primals, others) -> result`, records in the running trace.
        prefix: of the other parameters' names.
        options: for the compiler.
    """

    def __init__(
        self,
        function: Any,
        op: str,
        name: str,
        what: str,
        record: Callable[..., Any],
        options: Options,
        prefix: str = "t",
    ) -> None:
        self._binder = binder_of(function, op, options.backend)
        functools.update_wrapper(self, function, updated=())
        self._op = op
        self._spec = name, what, record, prefix
        self._options = options
        self._made: dict[tuple[bool, ...], Compiled] = {}

    def __call__(self, primals: Any, others: Any) -> Any:
        """The transformed function at the primals."""
        given, more = self._checked(primals, others)
        if active():
            return self._spec[2](self._binder, given, more)
        return self._compiled(given, more)(*given, *_present(more))

    def source(self, primals: Any, others: Any) -> Source:
        """The generated source for these arguments (or `tg.spec`s)."""
        given, more = self._checked(primals, others)
        return self._compiled(given, more).source(*given, *_present(more))

    def ir(self, primals: Any, others: Any) -> Graph:
        """The graph for these arguments (or `tg.spec`s)."""
        given, more = self._checked(primals, others)
        return self._compiled(given, more).ir(*given, *_present(more))

    def specializations(self) -> list[Specialization]:
        """The programs made so far."""
        return [s for c in self._made.values() for s in c.specializations()]

    def __repr__(self) -> str:
        return f"<tracegrad {self._spec[0]} of {self._binder.name}>"

    def _checked(self, primals: Any, others: Any) -> tuple[tuple, tuple]:
        """Both as tuples of one length.

        Raises:
            ArgumentError: they are not.
        """
        word = {"t": "tangents", "v": "vectors", "d": "cotangents"}[self._spec[3]]
        for x, called in ((primals, "primals"), (others, word)):
            if not isinstance(x, tuple | list):
                raise ArgumentError(
                    f"{called} must be a tuple, not {type(x).__name__}",
                    op=self._op,
                    at=self._binder.at,
                    fix="write (x,) for one argument",
                )
        if len(primals) != len(others) or not primals:
            raise ArgumentError(
                f"{len(primals)} primals and {len(others)} {word}",
                op=self._op,
                at=self._binder.at,
                fix=f"give one of the {word} for each of the arguments of "
                f"{self._binder.name}{self._binder.signature_text()}",
            )
        return tuple(primals), tuple(others)

    def _compiled(self, primals: tuple, others: tuple) -> Compiled:
        there = tuple([x is not None for x in others])
        if there not in self._made:
            name, what, record, prefix = self._spec
            binder, count = self._binder, len(primals)

            def flat(*args: Any) -> Any:
                rest = iter(args[count:])
                spread = tuple([next(rest) if given else None for given in there])
                return record(binder, args[:count], spread)

            names = given_names(binder, primals)
            more = [f"{prefix}_{n}" for n, t in zip(names, there, strict=True) if t]
            signature = flat_signature(names, more)
            inlined = Inlined(binder, name, what, flat, signature)
            moved = tuple([i for i, given in enumerate(there) if given])
            inlined.options = replace(self._options, argnums=moved)
            self._made[there] = Compiled(inlined, self._options)
        return self._made[there]


def _present(others: tuple) -> list:
    return [x for x in others if x is not None]


def given_names(binder: Binder, primals: Sequence[Any]) -> list[str]:
    """The parameters' names of positional arguments."""
    return [slot.name for slot in binder.slots(tuple(primals), {}) if slot.given]


def flat_signature(names: Sequence[str], more: Sequence[str]) -> inspect.Signature:
    """Positional parameters of these names, `more` made different from `names`."""
    taken = list(names)
    for wanted in more:
        found, number = wanted, 2
        while found in taken:
            found, number = f"{wanted}_{number}", number + 1
        taken.append(found)
    kind = _P.POSITIONAL_OR_KEYWORD
    return inspect.Signature([_P(name, kind) for name in taken])
