"""The line between the user's function and the ops.

Ops and the functions that take NumPy's calls compute with plain `Ref`s.  `enter` brings
the user's arrays over the line, finds the place of the call, and makes the results
arrays of the user again: views of an argument, the argument itself, or fresh memory.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from tracegrad.errors import (
    ArgumentError,
    StaticArgumentError,
    TracegradError,
    UnsupportedError,
)
from tracegrad.ir.graph import Const, Node, Value
from tracegrad.ir.location import Location
from tracegrad.ir.types import Dim
from tracegrad.ops.index import getitem
from tracegrad.ops.record import Ref, Returned
from tracegrad.trace.buffers import (
    ARGUMENT,
    Handle,
    current,
    in_c_order,
    shares_memory,
)
from tracegrad.trace.session import ACTIVE, Session, leaked
from tracegrad.trace.sizes import Size, user_size

Sources = list[tuple[Value, Handle]]


def session_of(handle: Handle) -> Session:
    """The trace of a handle, which must be the one that runs now.

    Raises:
        LeakedTracerError: if it is not.
    """
    session: Session = handle.builder.session  # type: ignore[attr-defined]
    if ACTIVE.session is not session:
        raise leaked(session)
    return session


def lower(x: Any, sources: Sources) -> Any:
    """An argument as ops take it; handles met are appended to `sources`."""
    if isinstance(x, Handle):
        session_of(x)
        value = current(x)
        sources.append((value, x))
        return Ref(value, x.builder)
    kind = type(x)
    if kind is list or kind is tuple:
        parts = [lower(part, sources) for part in x]
        return kind(parts)
    if kind is Size:
        return x.dim
    if kind is slice:
        return slice(_bound(x.start), _bound(x.stop), _bound(x.step))
    if kind is dict:
        return {key: lower(part, sources) for key, part in x.items()}
    if kind is not np.ndarray and isinstance(x, np.ndarray):
        return _plain_array(x)
    return x


def _plain_array(x: np.ndarray) -> np.ndarray:
    """A subclass that computes as plain arrays do, as a plain array.

    Raises:
        UnsupportedError: if its operators mean something else, as for `np.matrix`.
    """
    if isinstance(x, np.memmap):
        return np.asarray(x)
    raise UnsupportedError(
        f"a {type(x).__module__}.{type(x).__qualname__} cannot be used with traced "
        "arrays: its operators may differ from those of an array",
        fix="convert it with np.asarray, and a masked one with .filled(...)",
    )


def _bound(x: Any) -> Any:
    """A bound of a slice: a size may be symbolic, a traced int must become static."""
    if isinstance(x, Handle):
        return operator.index(cast(Any, x))
    return x.dim if type(x) is Size else x


def lift(
    out: Any, session: Session, sources: Sources, given: tuple = (), fresh: bool = False
) -> Any:
    """A result of ops as the user sees it.

    Args:
        out: a `Ref`, an array, a size, a number, or a tuple or list of these.
        session: the trace.
        sources: the handles that were given, with the values they had.
        given: the arguments as they were.
        fresh: True if the result is new memory even where its value is an argument's.
    """
    if isinstance(out, Ref):
        return _lift_value(out.value, session, sources, fresh)
    kind = type(out)
    if kind is tuple or kind is list:
        return kind([lift(part, session, sources, given, fresh) for part in out])
    if kind is np.ndarray:
        if any(out is x for x in given):
            return out
        return session.array(session.made_here(out), session)
    if isinstance(out, Dim):
        return user_size(out, session)
    if isinstance(out, Returned):
        return InTrace(out, session)
    if isinstance(out, tuple) and hasattr(out, "_fields"):
        parts = [lift(part, session, sources, given, fresh) for part in out]
        return type(out)(*parts)
    return out


def _lift_value(value: Value, session: Session, sources: Sources, fresh: bool) -> Any:
    if not fresh:
        for known, handle in sources:
            if known is value:
                return handle
        node = session.builder.producers.get(value)
        found = None
        if node is not None and node.op.aliases is not None:
            found = _viewed(value, session, sources)
        if found is not None:
            handle, steps = found
            if not _is_scalar(steps[-1]) and shares_memory(handle, steps):
                cls = type(handle)
                return cls(value, session.builder, handle.buffer, handle, steps)
    made = session.array(value, session)
    if len(value.type.shape) > 1:
        made.buffer.mixed = any(
            len(known.type.shape) > 1 and not in_c_order(handle)
            for known, handle in sources
        )
    return made


def _is_scalar(step: Node) -> bool:
    """Whether a read of one element gives a scalar, as `x[0]` does, not a 0-d view."""
    return (
        not step.outputs[0].type.shape
        and step.op is getitem
        and Ellipsis not in step.attrs["index"]
    )


def _viewed(
    value: Value, session: Session, sources: Sources
) -> tuple[Handle, tuple[Node, ...]] | None:
    """The handle that a value is a view of, and the nodes between them."""
    steps: list[Node] = []
    while True:
        for known, handle in sources:
            if known is value:
                return handle, tuple(reversed(steps))
        node = session.builder.producers.get(value)
        if node is None or len(node.outputs) > 1:
            return None
        if not node.op.aliasing(node.attrs) and not _is_row(node, sources):
            return None
        steps.append(node)
        value = node.inputs[0]


def _is_row(node: Node, sources: Sources) -> bool:
    """Whether a read by traced indices is one by integers: `x[k]`, which is a view.

    NumPy copies where an index is an array, one without axes too.
    """
    if node.op is not getitem:
        return False
    for v in node.inputs[1:]:
        if v.type.shape or v.type.kind not in "iu":
            return False
        if isinstance(v, Const) and isinstance(v.value, np.ndarray):
            return False
        for known, handle in sources:
            if known is v and handle.buffer.origin is ARGUMENT and not v.type.weak:
                return False
    return True


def name_result(out: Any, session: Session, returned: bool = False) -> None:
    """Give the result of the user's outermost operation the name it is assigned to."""
    hint = session.locator.hint(returned)
    if hint is None:
        return
    if type(hint) is str:
        _name(out, hint)
    elif isinstance(out, list | tuple):
        for part, name in zip(out, hint, strict=False):
            if name is not None:
                _name(part, name)


def _name(out: Any, name: str) -> None:
    if isinstance(out, Handle) and out.value.hint is None:
        out.value.hint = name
        out.value.user = True


def enter(
    session: Session,
    function: Callable[..., Any],
    args: tuple,
    kwargs: dict[str, Any] | None = None,
    *,
    name: str | None = None,
    fresh: bool = False,
    named: bool = True,
) -> Any:
    """Run `function`, which computes with ops, for a call in the user's code.

    Args:
        session: the trace.
        function: takes `args` and `kwargs` with `Ref`s in place of the user's arrays.
        args: as the user wrote them.
        kwargs: as the user wrote them.
        name: of the operation, for errors.
        fresh: see `lift`.
        named: whether the result takes the name that the expression is assigned to.

    Raises:
        TracegradError: with the user's place filled in.
        Restart: if a traced int was given where only a plain one can be.
    """
    sources: Sources = []
    session.locate()
    chain = session.builder.at
    try:
        given = [lower(x, sources) for x in args]
        by_name = _NO_KWARGS
        if kwargs:
            by_name = {key: lower(x, sources) for key, x in kwargs.items()}
        out = function(*given, **by_name)
    except (TracegradError, TypeError, ValueError) as error:
        if type(error) in (TypeError, StaticArgumentError):
            # A shape, an axis or a place has to be of plain ints.
            plain = [_plain_ints(x, session) for x in args]
            by_name = {k: _plain_ints(x, session) for k, x in (kwargs or {}).items()}
            if _differ((plain, by_name), (list(args), kwargs or {})):
                return enter(
                    session, function, tuple(plain), by_name, name=name, fresh=fresh
                )
        if isinstance(error, TracegradError):
            raise error.locate(name, chain[-1] if chain else None) from None
        raise _refused(error, name, chain[-1] if chain else None) from error
    if not isinstance(out, Ref) and not sources:
        _note_content(session, args)
    result = lift(out, session, sources, args, fresh)
    if named:
        name_result(result, session)
    return result


def _refused(error: Exception, name: str | None, at: Location | None) -> TracegradError:
    """The error for a wrong keyword, or for what NumPy itself refuses."""
    if "'Ref'" in str(error):
        return StaticArgumentError(
            f"{name} has to know the numbers in an array when it is traced",
            op=name,
            at=at,
            fix="give plain numbers, or a list of them",
        )
    return ArgumentError(str(error), op=name, at=at)


def _plain_ints(x: Any, session: Session) -> Any:
    """An argument with ints as plain ones, which makes them static.

    Arrays of ints or bools are so where they depend on constants only.
    """
    if isinstance(x, Handle):
        value = current(x)
        if value.type.kind == "i" and not value.type.shape:
            return operator.index(cast(Any, x))
        if value.type.kind in "iub" and session.is_concrete(value):
            return np.array(session.ask(value))
        return x
    if type(x) in (list, tuple):
        return type(x)([_plain_ints(part, session) for part in x])
    return x


def _differ(plain: Any, given: Any) -> bool:
    """Whether anything in nested arguments has been replaced."""
    if plain is given:
        return False
    if type(plain) is type(given) and type(plain) in (list, tuple):
        return any(map(_differ, plain, given))
    if type(plain) is dict:
        return any(_differ(part, given[key]) for key, part in plain.items())
    return True


def _note_content(session: Session, args: tuple) -> None:
    """A result that is no value of the graph was computed from these arrays."""
    for x in args:
        if type(x) is np.ndarray:
            session.note_content(x)


class InTrace:
    """An object that a call has returned, for the user: its calls pass the line."""

    __slots__ = ("_inner", "_session")

    def __init__(self, inner: Returned, session: Session) -> None:
        self._inner = inner
        self._session = session

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        inner = self._inner
        return enter(self._running(), inner, args, kwargs, name=inner.name)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        method = None if name.startswith("_") else getattr(self._inner, name, None)
        spelled = f"{self._inner.name}.{name}"
        if not callable(method):
            raise UnsupportedError(
                f"{spelled} is not supported", op=spelled, at=self._session.place()
            )
        return lambda *args, **kwargs: enter(
            self._running(), method, args, kwargs, name=spelled
        )

    def _running(self) -> Session:
        if ACTIVE.session is not self._session:
            raise leaked(self._session)
        return self._session


_NO_KWARGS: dict[str, Any] = {}


def holds_handles(x: Any) -> bool:
    """Whether a traced array or a symbolic size is in a nested argument."""
    if isinstance(x, Handle) or type(x) is Size:
        return True
    if type(x) in (list, tuple):
        return any(map(holds_handles, x))
    return type(x) is dict and any(map(holds_handles, x.values()))
