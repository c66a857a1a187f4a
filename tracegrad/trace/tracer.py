"""The trace: a user's function called on proxies gives a list of nodes."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import numpy as np

from tracegrad.errors import ConversionError
from tracegrad.ir.graph import Const, Value
from tracegrad.ir.location import Location
from tracegrad.ir.tree import Branch, Leaf, Static, Tree, build, leaves, map_leaves
from tracegrad.ir.tree import restore as restore_tree
from tracegrad.ir.types import is_scalar_literal
from tracegrad.ops.cast import alias
from tracegrad.ops.infer import decider
from tracegrad.ops.record import Ref
from tracegrad.trace.boundary import lower
from tracegrad.trace.buffers import Handle, Unjoin
from tracegrad.trace.captures import Captures
from tracegrad.trace.deciding import identities
from tracegrad.trace.frames import is_users, of_package
from tracegrad.trace.guards import (
    Guard,
    captures_guard,
    changed_reads,
    content_guard,
    environment_guard,
)
from tracegrad.trace.identity import unseen
from tracegrad.trace.interpose import (
    CACHED,
    floated,
    has_attribute,
    importing,
    is_swapped,
    original_of,
    sized,
    stand_in,
    swappable,
    swapping,
    swapping_reads,
    typed,
)
from tracegrad.trace.joining import Identities, Joining, Joins
from tracegrad.trace.proxy import argument, make
from tracegrad.trace.refusals import explained
from tracegrad.trace.session import (
    ACTIVE,
    Counting,
    Restart,
    Session,
    SizeFact,
    TraceBuilder,
    active,
)
from tracegrad.trace.sizes import Size
from tracegrad.trace.staged import staged
from tracegrad.trace.staging import original_code
from tracegrad.trace.watch import Watch

__all__ = [
    "Guard",
    "Restart",
    "SizeFact",
    "TraceBuilder",
    "Traced",
    "active",
    "inline",
    "is_traced",
    "trace",
]


@dataclass(slots=True)
class Traced:
    """A traced function.

    Attributes:
        builder: its nodes are the forward program; a derivative may be recorded too.
        result: structure of the result; leaves hold `Value`s, constants included.
        guards: what the program depends on besides the arguments.
        facts: relations of symbolic sizes decided by the call's values.
        proved: relations of sizes that masks decide, tested by the program itself.
        unjoined: branches and loops that were left to Python, and why.
    """

    builder: TraceBuilder
    result: Tree
    guards: list[Guard] = field(default_factory=list)
    facts: list[SizeFact] = field(default_factory=list)
    proved: dict[tuple, bool] = field(default_factory=dict)
    unjoined: dict[str, str] = field(default_factory=dict)


class _NewModule(BaseException):
    """A user module met in mid-trace has names to swap: trace again with them."""

    def __init__(self, space: dict[str, Any]) -> None:
        super().__init__()
        self.space = space


def is_traced(x: Any) -> bool:
    """Whether `x` is an array or a size of a trace."""
    return isinstance(x, Handle) or type(x) is Size


def trace(
    function: Callable[..., Any],
    args: list[Any],
    kwargs: dict[str, Any],
    *,
    values: dict[Value, Any] | None,
    soft: Iterable[Value] = (),
    counting: Counting | None = None,
    joins: bool = False,
    folds: bool = True,
) -> Traced:
    """Call `function` on proxies and record what it computes.

    Args:
        function: the user's.
        args: `Tree`s whose leaves hold `Value`s, or objects that are passed as they
            are.
        kwargs: the same, by name.
        values: the call's data for each `Value`; None if only the types are known.
        soft: parameters to make static where Python asks for their values alone.
        counting: what becomes of sizes that masks decide.
        joins: whether branches and loops are joined where that is proved.
        folds: whether transformations in the trace may find loops again.

    Raises:
        Restart: if a parameter or an axis must be static.
        TracegradError: if the function does what cannot be traced.
    """
    spaces = [space] if (space := _globals_of(function)) is not None else []
    how = Joins("ask" if joins else "left", folds=folds)
    while True:
        try:
            return _trace_once(
                function, args, kwargs, values, spaces, soft, counting, how
            )
        except _NewModule as met:
            spaces.append(met.space)
        except Identities:
            how.identities = True
        except Joining:
            how.how = "join"
        except Unjoin as found:
            how.unjoined.add(found.where)


def _unwrapped(function: Any) -> Any:
    """The plain Python function behind decorators, partials, methods and objects."""
    while True:
        inner = getattr(function, "__wrapped__", None)
        if isinstance(function, functools.partial):
            inner = function.func
        if inner is None:
            break
        function = inner
    function = getattr(function, "__func__", function)
    if not hasattr(function, "__globals__"):
        function = vars(type(function)).get("__call__")
    return function


def _globals_of(function: Any) -> dict[str, Any] | None:
    function = _unwrapped(function)
    code = getattr(function, "__code__", None)
    if code is None or not is_users(code.co_filename):
        return None  # names in a library are never swapped
    return function.__globals__


@contextmanager
def _stand_ins(spaces: list[dict[str, Any]], captures: Captures) -> Iterator[None]:
    """Context: stand-ins in modules, and in the cells and attributes in reach."""
    found = [*captures.reads.values(), *captures.libraries]
    reads = [(r.kind, r.where, r.name, r.value) for r in found]
    asking = captures.spaces_naming("type"), captures.spaces_naming("hasattr")
    with (
        swapping(spaces, _builtins(captures)),
        swapping(asking[0], {"type": typed}),
        swapping(asking[1], {"hasattr": has_attribute}),
        swapping_reads(reads),
        importing(),
    ):
        yield


def _trace_once(
    function: Callable[..., Any],
    args: list[Any],
    kwargs: dict[str, Any],
    values: dict[Value, Any] | None,
    spaces: list[dict[str, Any]],
    soft: Iterable[Value],
    counting: Counting | None,
    joins: Joins,
) -> Traced:
    mine = {id(space) for space in spaces}

    def met(frame: FrameType) -> None:
        space = frame.f_globals
        if id(space) not in mine and (is_swapped(space) or swappable(space)):
            raise _NewModule(space)
        _check_identities(frame.f_code, session)

    trees = [*args, *kwargs.values()]
    params = [
        leaf.value
        for tree in trees
        if isinstance(tree, Leaf | Static | Branch)
        for leaf in leaves(tree)
    ]
    captures = _captures_of(function, trees)
    joins.identities = joins.identities or captures.identities
    session = Session(
        values, params, sys._getframe(), make, met, captures, soft, counting, joins
    )

    def restore(tree: Any) -> Any:
        if isinstance(tree, Leaf | Static | Branch):
            return restore_tree(tree, lambda value: argument(value, session))
        return tree

    given = [restore(tree) for tree in args]
    named = {key: restore(tree) for key, tree in kwargs.items()}
    watch = Watch(
        session.captures,
        [*zip(given, args, strict=True), *zip(named.values(), kwargs.values())],
        Leaf,
        _definition(function),
        getattr(function, "__name__", type(function).__name__),
    )
    with _stand_ins(spaces, captures), _Running(session):
        result = _called(session, watch, function, given, named)
    for code, space in session.locator.seen.values():
        session.captures.add_code(original_code(code), space)
    watch.check()
    return Traced(
        session.builder,
        result,
        _guards(session),
        session.facts,
        session.proved,
        dict(joins.refused),
    )


def _check_identities(code: CodeType, session: Session) -> None:
    """See to it that traced truths are asked where code compares with `True`.

    Raises:
        Identities: if that is still to be done.
        ControlFlowError: if it cannot be.
    """
    kind = identities(code)
    if kind and not session.joins.identities:
        raise Identities
    if kind == "truth" and not of_package(code.co_filename):
        raise unseen(code, session)


def _called(
    session: Session, watch: Watch, function: Callable, given: list, named: dict
) -> Tree:
    """What the function returns."""
    if type(function) is CACHED:
        function = function.__wrapped__
    if session.joins.staging:
        function = staged(function)
    try:
        out = function(*map(stand_in, given), **named)
    except (Restart, _NewModule, Identities, Joining, Unjoin):
        watch.check()  # another try would find the change made already
        raise
    except (TypeError, ValueError, AttributeError) as error:
        # C code of NumPy puts an error of its own on top of ours.
        if isinstance(error.__cause__, ConversionError):
            raise error.__cause__ from None
        refused = explained(error)
        if refused is None:
            raise
        raise refused from error
    return build(out, lambda x: _result_leaf(x, session))


def _builtins(captures: Captures) -> dict[str, Any]:
    """Stand-ins for builtins that the function calls."""
    made = {"len": sized, "float": floated}
    if not captures.only_called("float"):
        del made["float"]
    return made


def _captures_of(function: Callable[..., Any], trees: list[Any]) -> Captures:
    """What the function and the objects among its arguments can reach."""
    captures = Captures()
    captures.add(function)
    for tree in trees:
        for static in _statics(tree):
            captures.add(static)
    return captures


def _definition(function: Any) -> Location | None:
    code = getattr(_unwrapped(function), "__code__", None)
    if code is None:
        return None
    return Location(code.co_filename, code.co_firstlineno, function=code.co_name)


def _guards(session: Session) -> list[Guard]:
    """What the program depends on besides the arguments."""
    captures = session.captures
    guard = captures_guard(changed_reads(captures)[0])
    found = [] if guard is None else [guard]
    if captures.asks_environment():
        found.append(environment_guard())
    for x, directly in captures.deciders():
        # One that is computed with shows in the graph what it is for; of one that is
        # read row by row, other rows may be for something else.
        known = id(x) in session.constants and id(x) not in captures.rows
        if directly or not known:
            session.note_content(x)
    arrays = dict(session.asked)
    if session.has_derived():
        arrays |= {key: x for key, (_, x) in captures.arrays.items()}
    for key, x in arrays.items():
        name = captures.arrays.get(key, ("", x))[0]
        found.append(content_guard(name, x))
    return found


def _statics(tree: Any) -> Iterator[Any]:
    if isinstance(tree, Static):
        yield tree.value
    elif isinstance(tree, Branch):
        for child in tree.children:
            yield from _statics(child)


class _Running:
    """Context: the session is this thread's, and answers questions about sizes."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def __enter__(self) -> None:
        self.before = ACTIVE.session, decider.ask, decider.count
        ACTIVE.session = self.session
        decider.ask, decider.count = self.session.decide, self.session.count

    def __exit__(self, *exception: object) -> None:
        ACTIVE.session, decider.ask, decider.count = self.before
        self.session.locator.close()


def _result_leaf(x: Any, session: Session) -> Leaf | Static:
    x = original_of(x)
    if type(x) is Size:
        x = x.number()
    if isinstance(x, Handle):
        return Leaf(lower(x, []).value)
    if isinstance(x, np.ndarray | np.generic):
        return Leaf(session.constant(x))
    if is_scalar_literal(x) and type(x) is not bool:
        return Leaf(Const(x))
    return Static(x)


def inline(
    function: Callable[..., Any],
    args: tuple,
    kwargs: dict[str, Any],
    transform: Callable[..., Tree],
) -> Any:
    """Run `function` in the trace that is running, and put a transform of it there.

    The arguments get fresh values by the op `alias`, so that values that the function
    closes over are constants of the inner derivative.

    Args:
        function: the user's.
        args: the user's arguments; traced values, arrays, numbers and containers.
        kwargs: the same, by name.
        transform: `(builder, nodes, params, result) -> Tree` of `Ref`s, where `nodes`
            are those of `function`, `params` is `(trees of args, trees of kwargs)` with
            `Value`s in the leaves, and `result` is the tree of what it returned.

    Returns:
        The structure that `transform` gave, of the user's arrays.
    """
    session = ACTIVE.session
    if session is None:
        raise RuntimeError("inline is called inside of a trace only")
    builder = session.builder
    session.locate()
    outer, builder.nodes = builder.nodes, []
    try:
        trees = [build(x, lambda part: _argument_leaf(part, session)) for x in args]
        named = {
            key: build(x, lambda part: _argument_leaf(part, session))
            for key, x in kwargs.items()
        }

        def restore(tree: Tree) -> Any:
            return restore_tree(tree, lambda value: argument(value, session))

        out = (staged(function) if session.joins.staging else function)(
            *[restore(tree) for tree in trees],
            **{key: restore(tree) for key, tree in named.items()},
        )
        result = build(out, lambda x: _result_leaf(x, session))
        nodes = list(builder.nodes)
        made = transform(builder, nodes, (trees, named), result)
    finally:
        outer.extend(builder.nodes)
        builder.nodes = outer
    values = map_leaves(made, lambda ref: ref.value if isinstance(ref, Ref) else ref)
    return restore_tree(values, lambda value: _user_value(value, session))


def _argument_leaf(x: Any, session: Session) -> Leaf | Static:
    x = original_of(x)
    number = is_scalar_literal(x) and type(x) not in (bool, int)
    if isinstance(x, Handle):
        ref = lower(x, [])
    elif number or isinstance(x, np.ndarray | np.generic):
        ref = Ref(session.constant(x), session.builder)
    else:
        return Static(x)
    made = session.builder.record(alias, (ref,), {})
    made.value.type = ref.value.type
    made.value.hint = ref.value.hint
    return Leaf(made.value)


def _user_value(value: Any, session: Session) -> Any:
    return make(value, session) if isinstance(value, Value) else value
