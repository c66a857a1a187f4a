"""What functions call that `staging.py` has compiled anew.

`RUNTIME` goes through both arms of a branch on the state at hand, where a traced value
decides, and joins them; or it does what Python does.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any, cast

import numpy as np

from tracegrad.errors import ControlFlowError
from tracegrad.ir.graph import Node, Value
from tracegrad.ops.define import OPERATORS
from tracegrad.ops.record import Ref
from tracegrad.trace.allowed import (
    Refused,
    check_iterable,
    check_names,
    checked,
    looked_up,
    method_of,
)
from tracegrad.trace.boundary import lower
from tracegrad.trace.buffers import DEPTH, Handle, Unjoin
from tracegrad.trace.identity import (
    Pattern,
    by_python,
    identical,
    negated,
    python_truth,
)
from tracegrad.trace.interpose import typed
from tracegrad.trace.joins import Loop, joined
from tracegrad.trace.session import ACTIVE, Session
from tracegrad.trace.staging import staged_function
from tracegrad.trace.turns import Turns, turns_of, turns_over
from tracegrad.trace.ways import UNBOUND, Speculation, cells_of

_MAX_PEELED = 3  # turns of a loop that may differ before its body repeats
_NUMBERS = (int, float, complex)


def staged(function: Any) -> Any:
    """A callable of the user's with its branches and loops ready to be joined."""
    kind = type(function)
    if kind is FunctionType:
        return staged_function(function, RUNTIME)
    if kind is MethodType:
        return MethodType(staged(function.__func__), function.__self__)
    if kind is functools.partial:
        inner = staged(function.func)
        return functools.partial(inner, *function.args, **function.keywords)
    method = method_of(function)
    return function if method is None else MethodType(staged(method), function)


# ----------------------------------------------------------------- what functions call
class Runtime:
    """What functions that were compiled anew call."""

    @staticmethod
    def _truth(test: Any) -> tuple[Session, Value] | None:
        """The trace and the truth that a branch depends on, if that is a traced one."""
        session = ACTIVE.session
        if session is None or not isinstance(test, Handle) or not session.joining:
            return None
        value = lower(test, []).value
        if value.type.shape or session.is_concrete(value):
            return None
        if session.may_be_static(value) or session.demand.known(value) is not None:
            return None
        if value.type.kind != "b":
            session.locate()
            value = OPERATORS["__ne__"](Ref(value, session.builder), 0).value
        return session, value

    def _join(
        self,
        test: Any,
        arms: Sequence[Callable],
        names: Sequence[str],
        spare: Sequence[str],
        returning: bool,
        where: CodeType | None = None,
        flags: Sequence[str] = (),
    ) -> Any:
        found = self._truth(test)
        where = where or arms[0].__code__
        if found is not None and where not in found[0].unjoined:
            session, which = found
            try:
                return joined(
                    session, where, which, arms, names, spare, returning, flags
                )
            except Exception as error:
                session.refuse(error)
        return arms[0 if test else 1]()

    def branch(
        self,
        test: Any,
        true: Callable,
        false: Callable,
        names: Sequence[str],
        spare: Sequence[str],
        flags: Sequence[str],
    ) -> None:
        """`if test: true() else: false()`, which bind `names`."""
        self._join(test, (true, false), names, spare, False, flags=flags)

    def returned(
        self, test: Any, true: Callable, false: Callable, names: Sequence[str]
    ) -> Any:
        """`return true() if test else false()`."""
        return self._join(test, (true, false), names, (), True)

    def choice(self, test: Any, true: Callable, false: Callable) -> Any:
        """`true() if test else false()`."""
        return self._join(test, (true, false), (), (), True)

    def both(self, first: Any, rest: FunctionType) -> Any:
        """`first and rest()`."""
        if self._truth(first) is None:
            return first and rest()
        if self._at_once(first, rest):
            return _at_once(np.logical_and, first, rest())
        return self._join(first, (rest, lambda: first), (), (), True, rest.__code__)

    def either(self, first: Any, rest: FunctionType) -> Any:
        """`first or rest()`."""
        if self._truth(first) is None:
            return first or rest()
        if self._at_once(first, rest):
            return _at_once(np.logical_or, first, rest())
        return self._join(first, (lambda: first, rest), (), (), True, rest.__code__)

    @staticmethod
    def _at_once(first: Any, rest: FunctionType) -> bool:
        """Whether both of two truths may be computed, since that harms nothing."""
        session = ACTIVE.session
        if session is None or first.value.type.kind != "b":
            return False
        try:
            check_names(rest)
            with Speculation(session, {}) as tried:
                tried.finish(rest(), True)
        except Exception as error:
            session.refuse(error)
            return False
        way = tried.way
        return (
            not way.buffers
            and isinstance(way.result, Handle)
            and not way.result.value.type.shape
            and way.result.value.type.kind == "b"
            and all(map(_harmless, way.nodes))
        )

    def negated(self, x: Any) -> Any:
        """`not x`."""
        if self._truth(x) is None:
            return not x
        return negated(x)

    def loop(
        self,
        test: FunctionType,
        body: FunctionType,
        names: Sequence[str],
        spare: Sequence[str],
        counts: Sequence[str],
        updated: Sequence[str],
        made: Sequence[str],
    ) -> None:
        """`while test(): body()`, which binds `names`.

        Args:
            test: as a function.
            body: as a function.
            names: that it binds.
            spare: of these, the ones that nothing reads after a turn.
            counts: the ones that may be a Python int or bool.
            updated: the ones that it binds by `x += …` only.
            made: the ones that every turn binds before it could read them.
        """
        tries = 0
        while True:
            asked = test()
            found = self._truth(asked)
            if found is None and not tries:
                found = self._ahead(asked, test, body, names)
            if found is not None and tries <= _MAX_PEELED:
                session = found[0]
                tries += 1
                # A loop that surely turns needs no first value of what it makes.
                free = [*spare, *made] if asked is True else spare
                if body.__code__ not in session.unjoined and self._repeated(
                    session, test, body, names, spare, counts, updated, free
                ):
                    return
            if not asked:
                return
            body()

    def _ahead(
        self, asked: Any, test: FunctionType, body: FunctionType, names: Sequence[str]
    ) -> tuple[Session, Any] | None:
        """The trace, if the test depends on a traced value from its second time on.

        Or if the body does that cannot be joined for the numbers of its first turn, as
        `if y < tol: …` with `else: n += 1`: for any number it may be.
        """
        session = ACTIVE.session
        if session is None or not session.joining or not asked:
            return None
        try:
            check_names(body)
            with Speculation(session, cells_of([body], names)):
                body()
                return self._truth(test())
        except ControlFlowError:
            return session, None
        except Exception as error:
            session.refuse(error)
            return None

    def _repeated(
        self,
        session: Session,
        test: FunctionType,
        body: FunctionType,
        names: Sequence[str],
        spare: Sequence[str],
        counts: Sequence[str],
        updated: Sequence[str],
        free: Sequence[str],
    ) -> bool:
        try:
            made = Loop(session, test, body, names, counts, updated)
            made.late = [n for n in free if n not in spare]
            unbound = [
                n for n, x in made.start.items() if x is UNBOUND and n not in free
            ]
            if unbound:
                raise Refused(f"`{unbound[0]}` is not bound before it")
            last, way = made.record()
        except Exception as error:
            session.refuse(error)
            return False
        made.leave(last, way)
        return True

    # ----------------------------------------------------------- loops left early
    @staticmethod
    def turns(iterable: Any) -> Turns:
        """What `for … in iterable` runs over."""
        return turns_over(iterable)

    def turns_of(self, function: Any, /, *args: Any, **named: Any) -> Turns:
        """What `for … in function(*args, **named)` runs over."""
        return turns_of(function, self.call(function), args, named)

    def more(self, done: Any, turns: Turns, turn: Any) -> Any:
        """Whether a loop over `turns` goes on with this one."""
        if turns.takes(turn):  # which Python does only if the loop goes on
            return not done and turns.has(turn)
        return self.still(done, functools.partial(turns.has, turn))

    @staticmethod
    def item(turns: Turns, turn: Any) -> Any:
        """What a turn is for."""
        return turns.at(turn)

    def still(self, done: Any, test: Callable[[], Any]) -> Any:
        """`not done and test()`, where both may be asked."""
        if self._truth(done) is None:
            return not done and test()
        goes_on = test()
        going: Any = np.logical_not(done)
        if isinstance(goes_on, Handle):
            return np.logical_and(going, cast(Any, goes_on))
        return going if goes_on else False

    # --------------------------------------------------------------- what arms may do
    def call(self, function: Any) -> Any:
        """A function about to be called."""
        if ACTIVE.session is None:
            return function
        if function is isinstance or function is type or function is typed:
            return functools.partial(self._typed, function)
        if DEPTH.arms and function is not max and function is not min:
            return checked(function, staged)
        if ACTIVE.session.joins.identities and _calls_back(function):
            return functools.partial(_with_staged, function)
        if function is max or function is min:
            return functools.partial(self._extreme, function)
        return staged(function)

    def _extreme(self, function: Callable, *args: Any, **named: Any) -> Any:
        """`max` and `min` of scalars, which Python finds by comparing."""
        if named or len(args) < 2 or not all(map(_is_scalar, args)):
            plain = checked(function, staged) if DEPTH.arms else function
            return plain(*args, **named)
        best = args[0]
        for x in args[1:]:
            test: Any = x > best if function is max else x < best
            if isinstance(test, Handle):  # the name is that of the result
                test.value.hint, test.value.user = None, False
            best = self.choice(test, _constant(x), _constant(best))
        return best

    true, false = Pattern(True), Pattern(False)
    identical = staticmethod(identical)

    def _typed(self, function: Callable, x: Any, *rest: Any) -> Any:
        """`isinstance` and `type`, which tell a number from an array."""
        if isinstance(x, Handle) and x.buffer.loose is not None:
            raise Unjoin(x.buffer.loose)
        return function(x, *rest)

    def attribute(self, x: Any, name: str) -> Any:
        """`x.name`."""
        if DEPTH.arms:
            return looked_up(x, name)
        if ACTIVE.session is not None and ACTIVE.session.joins.identities:
            found = inspect.getattr_static(type(x), name, None)
            if type(found) is property and type(found.fget) is FunctionType:
                return staged(found.fget)(x)
        return getattr(x, name)

    def stored(self, x: Any) -> Any:
        """What is about to be written into."""
        if DEPTH.arms and not isinstance(x, Handle):
            raise Refused(f"it writes into a {type(x).__name__}")
        return x

    def changed(self, x: Any) -> None:
        """What `x += …` is about to be done to."""
        if DEPTH.arms and not isinstance(x, Handle | int | float | complex | str):
            if not isinstance(x, tuple | np.generic):
                raise Refused(f"it changes a {type(x).__name__}")

    def iterated(self, x: Any) -> Any:
        """What a loop is about to run over."""
        if DEPTH.arms:
            check_iterable(x)
        return x


def _harmless(node: Node) -> bool:
    """Whether an operation may be computed in vain."""
    truth = node.outputs[0].type.kind == "b" and not node.regions
    return truth or node.op.finite


def _at_once(function: Callable, first: Handle, second: Handle) -> Handle:
    """Both truths in one, with a name for the case that it is tested more than once."""
    x = function(first, second)
    session: Session = x.builder.session
    made = [python_truth(session, lower(v, []).value) for v in (first, second)]
    if made[0] is not None and made[0] is made[1]:
        by_python(x, made[0])
    if x.value.hint is None:
        x.value.hint = "test"
    return x


_CALLING = (sorted, map, filter, functools.reduce, max, min)


def _calls_back(function: Any) -> bool:
    """Whether it is one of Python's that call a function they are given."""
    if type(function) is BuiltinFunctionType and type(function.__self__) is list:
        return function.__name__ == "sort"
    iterates = isinstance(function, type) and function.__module__ == "itertools"
    return iterates or any(function is f for f in _CALLING)


def _with_staged(function: Callable, *args: Any, **named: Any) -> Any:
    """A call of what calls back the functions that it is given."""
    given = [staged(x) if callable(x) else x for x in args]
    by_name = {key: staged(x) if callable(x) else x for key, x in named.items()}
    if function is max or function is min:
        return RUNTIME._extreme(function, *given, **by_name)
    return function(*given, **by_name)


def _constant(x: Any) -> Any:
    return lambda: x


def _is_scalar(x: Any) -> bool:
    if isinstance(x, Handle):
        return not x.value.type.shape
    return type(x) in _NUMBERS or isinstance(x, np.generic)


RUNTIME = Runtime()
