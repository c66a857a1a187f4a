"""`grad`, `value_and_grad`, `vjp`, `compile`: functions compiled for what they meet."""

from __future__ import annotations

import functools
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tracegrad.codegen.source import Source
from tracegrad.errors import ArgumentError, TracegradError, UntracedBranch
from tracegrad.ir.graph import Graph
from tracegrad.runtime import cache, tensors
from tracegrad.runtime.binding import Binder, Call
from tracegrad.runtime.cache import Family, SpecializationWarning
from tracegrad.runtime.derive import routine_name
from tracegrad.runtime.entry import MISS
from tracegrad.runtime.methods import BoundMethod
from tracegrad.runtime.nested import inline_derivative
from tracegrad.runtime.options import Options, decorator, require_function
from tracegrad.runtime.origin import name_origin
from tracegrad.runtime.pullback import CheckedPullback, Origin
from tracegrad.runtime.specialize import Specialization, specialize
from tracegrad.trace.tracer import active

# How many guards a call tries before its arguments are bound and looked up by their
# structure.  A guard that misses costs a fraction of a microsecond, a look-up eighty.
_CHAIN = 64


def _always_miss(*args: Any, **kwargs: Any) -> Any:
    return MISS


class Compiled:
    """A function that is traced at its first call and runs generated code afterwards.

    It is called like the user's function; as a method it gets `self` like one, and then
    `argnums` count the arguments after `self`.

    Attributes:
        max_specializations: how many programs are kept before a warning is given and
            the oldest is dropped.
        max_traces: how many traces become one program with branches.
    """

    def __init__(self, function: Callable, options: Options) -> None:
        self.__module__, self.__qualname__ = __name__, type(self).__qualname__
        functools.update_wrapper(self, function, updated=())
        self._function = function
        self._options = options
        self._name = getattr(function, "_routine_name", None)
        self._binder = Binder(function, foreign=options.backend == "jax")
        if self._name is not None:
            self._binder.name = self._name
        self._lock = threading.RLock()
        self._families: dict[Any, Family] = {}
        self._typed: dict[Any, Specialization] = {}
        self._latest: Specialization | None = None
        self._first: Callable = _always_miss
        self._rest: tuple[Callable, ...] = ()
        self._all: list[Specialization] = []
        self._warned = self._warned_of_traces = False
        self.max_specializations = cache.MAX_SPECIALIZATIONS
        self.max_traces = cache.MAX_TRACES

    # ------------------------------------------------------------------------ calls
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the compiled function."""
        try:
            out = self._first(*args, **kwargs)
            if out is not MISS:
                return out
            for entry in self._rest:
                out = entry(*args, **kwargs)
                if out is not MISS:
                    self._promote(entry)
                    return out
        except UntracedBranch:
            pass
        except Exception as error:
            name_origin(error)
            raise
        return self._slow(args, kwargs)

    def _slow(self, args: tuple, kwargs: dict) -> Any:
        """A call that no guard near at hand knows."""
        if active():
            return self._nested(args, kwargs)
        join = tensors.caller(self, args, kwargs)
        if join is not None:
            return join()
        try:
            call = self._binder.bind(args, kwargs)
            if call.has_specs:
                raise ArgumentError(
                    f"{self._binder.name}() was called with a tg.spec, which has no "
                    "values",
                    fix="give it to .source(...) or .ir(...)",
                )
            found = self._specialization(call)
        except TracegradError as error:
            error.locate(self._options.op, self._binder.at)
            raise
        self._promote(found.entry)
        try:
            return self._run(found, call)
        except Exception as error:
            name_origin(error)
            raise

    def _run(self, found: Specialization, call: Call) -> Any:
        """Run a program; where its guards refuse the call, another or a new one."""
        args, kwargs = call.plain()
        try:
            return found.run(*args, **kwargs)
        except UntracedBranch:
            tried = [found]
        for candidate in self._matching(call):
            if candidate not in tried:
                tried.append(candidate)
                try:
                    out = candidate.run(*args, **kwargs)
                except UntracedBranch:
                    continue
                self._promote(candidate.entry)
                self._latest = candidate
                return out
        with self._lock:
            try:
                made = self._new(call)
            except TracegradError as error:
                error.locate(self._options.op, self._binder.at)
                raise
            kept = self._join(made, tried) or self._keep(made, call)
        self._promote(kept.entry)
        self._latest = kept
        try:
            return kept.run(*args, **kwargs)
        except UntracedBranch:
            return made.interpret(call)

    def _join(
        self, made: Specialization, others: list[Specialization]
    ) -> Specialization | None:
        """Make a program of a new trace and those of another, if they share a prefix.

        The new program takes the place of the other.  It is None if that is not
        possible, or if the program would become too large.
        """
        full = False
        for other in others:
            joined = other.joined(made)
            if joined is None:
                continue
            if (
                len(joined.paths) <= self.max_traces
                and len(joined.source.text.splitlines()) <= cache.MAX_LINES
            ):
                self._replace(other, joined)
                return joined
            full = True
        if full and not self._warned_of_traces:
            self._warned_of_traces = True
            warnings.warn(
                f"{self._binder.name}() was traced more than {self.max_traces} times "
                f"for different branches, or grew too long, the last time because "
                f"{made.traces[-1]}.{made.said_unjoined} Each further branch is a "
                "program of its own, which calls try one by one. Use np.where, tg.cond "
                "or tg.while_loop there, or raise max_traces.",
                SpecializationWarning,
                stacklevel=5,
            )
        return None

    def _replace(self, old: Specialization, new: Specialization) -> None:
        for kept in (self._all, self._families[old.key].specializations):
            if old in kept:
                kept[kept.index(old)] = new
        self._forget(old)

    def _forget(self, old: Specialization) -> None:
        """Let no call try the guard of a program."""
        entry = vars(old).get("entry")  # made at its first call, if there was one
        self._rest = tuple(e for e in self._rest if e is not entry)
        if self._first is entry:
            self._first = _always_miss

    def _nested(self, args: tuple, kwargs: dict) -> Any:
        """A call inside of a trace: its operations are recorded in that trace."""
        options = self._options
        if options.mode == "function":
            return self._function(*args, **kwargs)
        return inline_derivative(self._function, self._binder, options, args, kwargs)

    # --------------------------------------------------------------- specializations
    def _specialization(self, call: Call) -> Specialization:
        """The program for a call; made if there is none."""
        if call.has_specs:
            return self._for_types(call)
        found = self._find(call)
        if found is None:
            with self._lock:
                found = self._find(call) or self._make(call)
        self._latest = found
        return found

    def _find(self, call: Call) -> Specialization | None:
        return next(self._matching(call), None)

    def _matching(self, call: Call) -> Iterator[Specialization]:
        """The programs for arguments of these types, the newest first."""
        family = self._families.get(call.key)
        if family is not None:
            args, kwargs = call.plain()
            for candidate in tuple(family.specializations):
                if candidate.matches(*args, **kwargs) is True:
                    yield candidate

    def _make(self, call: Call) -> Specialization:
        return self._keep(self._new(call), call)

    def _new(self, call: Call) -> Specialization:
        """A program of one trace of the call."""
        family = self._families.setdefault(call.key, Family())
        family.observe(call)
        try:
            made = specialize(self._function, self._binder, self._options, call, family)
        finally:
            if not family.specializations:
                del self._families[call.key]  # with the static values in its key
        self._families[call.key] = family
        return made

    def _keep(self, made: Specialization, call: Call) -> Specialization:
        family = self._families[call.key]
        family.specializations.insert(0, made)
        self._all.append(made)
        if len(self._all) > self.max_specializations:
            self._drop_oldest(made)
        return made

    def _drop_oldest(self, newest: Specialization) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{self._binder.name}() was compiled {len(self._all)} times for "
                f"different arguments, the last time for {newest}. The oldest programs "
                "are dropped now. Pass what changes as an array, or raise "
                "max_specializations.",
                SpecializationWarning,
                stacklevel=7,
            )
        oldest = self._all.pop(0)
        for key, family in list(self._families.items()):
            if oldest in family.specializations:
                family.specializations.remove(oldest)
                if not family.specializations and key != newest.key:
                    del self._families[key]
        self._forget(oldest)

    def _for_types(self, call: Call) -> Specialization:
        """The program for types given by `tg.spec`; only its source is of use."""
        shapes = tuple(
            raw.data.shape if raw.kind == "array" else () for raw in call.raws
        )
        ints = tuple(raw.data for raw in call.raws if raw.countable)
        key = call.key, shapes, ints
        with self._lock:
            found = self._typed.get(key)
            if found is None:
                found = specialize(
                    self._function, self._binder, self._options, call, None
                )
                while len(self._typed) >= self.max_specializations:
                    self._typed.pop(next(iter(self._typed)))
                self._typed[key] = found
            self._latest = found
        return found

    def _promote(self, entry: Callable) -> None:
        """Let the next call try this guard first."""
        with self._lock:
            if entry is self._first:
                return
            others = [e for e in (self._first, *self._rest) if e is not entry]
            kept = [e for e in others if e is not _always_miss]
            self._first, self._rest = entry, tuple(kept[: _CHAIN - 1])

    # --------------------------------------------------------------------- looking in
    def _program(self, args: tuple, kwargs: dict) -> Specialization:
        if not args and not kwargs and self._latest is not None:
            return self._latest
        if not args and not kwargs and self._binder.signature.parameters:
            raise ArgumentError(
                f"{self._binder.name}() has not been called yet, so there is no source",
                at=self._binder.at,
                fix="pass arguments, or tg.spec(...) for each array",
            )
        return self._specialization(self._binder.bind(args, kwargs))

    def source(self, /, *args: Any, **kwargs: Any) -> Source:
        """The generated source for these arguments; without any, the latest.

        Arguments are as in a call, or `tg.spec(...)` in the place of arrays.  Nothing
        is run.
        """
        return self._program(args, kwargs).source

    def ir(self, /, *args: Any, **kwargs: Any) -> Graph:
        """The graph for these arguments; without any, the latest."""
        return self._program(args, kwargs).routine.graph

    def specializations(self) -> list[Specialization]:
        """The programs made so far, oldest first."""
        return list(self._all)

    # ----------------------------------------------------------------------- methods
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        return BoundMethod(self._as_method, instance)

    @functools.cached_property
    def _as_method(self) -> Compiled:
        """The same for calls that begin with `self`, which argnums pass over."""
        shifted = getattr(self._function, "past_self", None)
        function = self._function if shifted is None else shifted()
        return Compiled(function, self._options.past_self())

    @property
    def _routine_name(self) -> str:
        return routine_name(self._binder.name, self._options.mode)

    def vjp(self, /, *primals: Any, has_aux: bool = False) -> tuple:
        """`(out, pullback)` of this function, see `tg.vjp`."""
        plain = self._options.mode == "function"
        return vjp(
            self._function if plain else self,
            *primals,
            has_aux=has_aux,
            backend=self._options.backend,
            optimize=self._options.optimize,
        )

    def __reduce__(self) -> Any:
        """By name where it is the decorated function, else made again, uncompiled."""
        found: Any = sys.modules.get(self.__module__)
        for part in self.__qualname__.split("."):
            found = getattr(found, part, None)
        if found is self:
            return self.__qualname__
        return Compiled, (self._function, self._options)

    def __copy__(self) -> Compiled:
        return self

    def __deepcopy__(self, memo: dict) -> Compiled:
        return self  # as a function is its own copy

    def __repr__(self) -> str:
        return f"<tracegrad {self._options.mode} of {self._binder.name}>"


# ------------------------------------------------------------------------- public names
def compiled(f: Any, options: Options) -> Compiled:
    """The function, transformed; both are checked."""
    options.check()
    require_function(f, options.op)
    return Compiled(f, options)


@decorator
def grad(
    f: Callable | None = None,
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    argnames: str | tuple[str, ...] | None = None,
    backend: str = "numpy",
    optimize: str = "readable",
    reroll: bool = True,
    joins: bool = True,
) -> Any:
    """The gradient of a function that returns one real scalar.

    Args:
        f: the function; left out, `grad` is a decorator with options.
        argnums: which positional arguments to differentiate, negative from the end.
        has_aux: whether `f` returns `(value, aux)`.
        holomorphic: whether `f` is a holomorphic function, whose result is complex.
        argnames: the arguments to differentiate by name, keyword-only ones too.
        backend: "numpy" or "jax".
        optimize: "readable" or "fast".
        reroll: whether the turns of a Python loop become a loop again.
        joins: whether both ways of a branch are traced, where that is proved right.

    Returns:
        A function with the arguments of `f`.  It returns the gradient in the structure
        of the argument, a tuple for a tuple of `argnums` or `argnames`; with
        `has_aux`, `(gradient, aux)`.

    Example:
        >>> grad(lambda x: x**2)(3.0)
        6.0
    """
    wanted = argnums, argnames, has_aux, backend, optimize, holomorphic, reroll, joins
    return compiled(f, Options("grad", *wanted))


@decorator
def value_and_grad(
    f: Callable | None = None,
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    argnames: str | tuple[str, ...] | None = None,
    backend: str = "numpy",
    optimize: str = "readable",
    reroll: bool = True,
    joins: bool = True,
) -> Any:
    """`(value, gradient)`, or `((value, aux), gradient)`; the arguments are `grad`'s.

    Example:
        >>> value_and_grad(lambda x: x**2)(3.0)
        (9.0, 6.0)
    """
    wanted = argnums, argnames, has_aux, backend, optimize, holomorphic, reroll, joins
    return compiled(f, Options("value_and_grad", *wanted))


@decorator
def compile(
    f: Callable | None = None,
    *,
    backend: str = "numpy",
    optimize: str = "readable",
    reroll: bool = True,
    joins: bool = True,
) -> Any:
    """The function itself, compiled.

    Args:
        f: the function; left out, `compile` is a decorator with options.
        backend: "numpy" or "jax".
        optimize: "readable" or "fast".
        reroll, joins: see `grad`.

    Example:
        >>> compile(lambda x: x**2 + 1.0)(3.0)
        10.0
    """
    options = Options("function", backend=backend, optimize=optimize)
    return compiled(f, replace(options, reroll=reroll, joins=joins))


# Under this name a function keeps its compiled vjp, which so lives as long as it does.
_KEPT = "__tracegrad_vjp__"


def vjp(
    f: Callable,
    *primals: Any,
    has_aux: bool = False,
    backend: str = "numpy",
    optimize: str = "readable",
    reroll: bool = True,
) -> tuple:
    """The result of `f(*primals)`, and the function that pulls cotangents back.

    Args:
        f: a function of arrays or structures of them; all are differentiated, but for
            integers and flags, whose cotangents are `None`.
        *primals: its arguments.
        has_aux: whether `f` returns `(out, aux)`.
        backend: "numpy" or "jax".
        optimize: "readable" or "fast".
        reroll: see `grad`.

    Returns:
        `(out, pullback)`, with `has_aux` `(out, pullback, aux)`.  `pullback(ct)` takes
        a cotangent in the structure of `out` and returns a tuple with one entry per
        primal.  It reads the primals, not copies: do not change them in place before.
        `pullback.source()` is the program.

    Example:
        >>> out, pullback = vjp(lambda x, y: x * y, 2.0, 3.0)
        >>> out, pullback(1.0)
        (6.0, (3.0, 2.0))
    """
    options = Options(
        "vjp",
        argnums=tuple(range(len(primals))),
        has_aux=has_aux,
        backend=backend,
        optimize=optimize,
        reroll=reroll,
    )
    options.check()
    require_function(f, options.op)
    made = _kept_vjp(f, options)
    out = made(*primals)
    if active():  # recorded, not run: the pullback checks what it is given itself
        return (out[0][0], out[1], out[0][1]) if has_aux else out
    origin = Origin(made, primals, lambda: made._nested(primals, {})[1])
    value, pullback = out
    value, *aux = value if has_aux else (value,)
    return value, CheckedPullback(pullback, value, origin, made._binder), *aux


def _kept_vjp(f: Callable, options: Options) -> Compiled:
    """The compiled vjp of a function, kept on the function itself.

    No table of functions outside of them would let a fresh lambda go.
    """
    try:
        kept = vars(f).setdefault(_KEPT, {})
    except (TypeError, AttributeError):
        return Compiled(f, options)  # a bound method, a built-in function
    found = kept.get(options)
    # A copy of the attributes, as by functools.wraps, is not this function's.
    if found is None or found._function is not f:
        found = Compiled(f, options)
        vars(f)[_KEPT] = {**kept, options: found}
    return found
