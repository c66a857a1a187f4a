"""Calls of NumPy and SciPy in the user's code, mapped onto ops.

The table is `ops.define.ACCEPT`; this module deals with what all of them share: the
keyword arguments of ufuncs, writing into an argument, functions without a rule.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.errors import (
    ArgumentError,
    DTypeError,
    MutationError,
    ShapeError,
    TracegradError,
    UnsupportedError,
)
from tracegrad.ops.define import ACCEPT, METHODS, UPDATES
from tracegrad.ops.fold import method_of
from tracegrad.ops.infer import broadcast_shapes, shape_text
from tracegrad.ops.record import Ref, as_operand, type_of
from tracegrad.trace import callbacks
from tracegrad.trace.boundary import enter, holds_handles, lift, lower, name_result
from tracegrad.trace.buffers import Handle, current, push, raveled_anew, refuse_write
from tracegrad.trace.session import Session
from tracegrad.trace.sizes import Size, user_shape

# Calls whose result is new memory even where it has the value of an argument.
FRESH = {np.array, np.copy}
FRESH_METHODS = {"copy", "astype", "flatten"}


# --------------------------------------------------------------------------- names
def name_of(function: Any) -> str:
    """How a function is called in its library: `numpy.linalg.inv`."""
    name = getattr(function, "__name__", str(function))
    owner = getattr(function, "__self__", None)
    if isinstance(owner, np.ufunc):
        return f"{name_of(owner)}.{name}"
    if isinstance(function, np.ufunc):
        for module in ("numpy", "scipy.special"):
            if getattr(sys.modules.get(module), name, None) is function:
                return f"{module}.{name}"
    module = getattr(function, "__module__", None) or ""
    public = [part for part in module.split(".") if not part.startswith("_")]
    return ".".join([*public, name])


def short(function: Any) -> str:
    """How the user writes a function: `np.linalg.inv`."""
    name = name_of(function)
    return "np" + name[5:] if name.startswith("numpy.") else name


_SCIPY: dict[str, Any] = {"size": -1, "table": {}}


def accepted(function: Any) -> Callable[..., Any] | None:
    """What takes a call of a NumPy, SciPy or `math` function, if anything does."""
    try:
        found = ACCEPT.get(function)
    except TypeError:
        return None
    if found is not None or type(function) is str:
        return found
    module = getattr(function, "__module__", None) or ""
    if isinstance(function, np.ufunc) or module.startswith("scipy"):
        return _scipy_table().get(id(function))
    return None


def _scipy_table() -> dict[int, Callable[..., Any]]:
    """The functions of loaded SciPy modules that have a rule, by id."""
    keys = [k for k in ACCEPT if type(k) is str]
    loaded = {m for m in {k.partition(":")[0] for k in keys} if m in sys.modules}
    state = (len(keys), len(loaded))
    if _SCIPY["size"] != state:
        table = {}
        for key in keys:
            module, _, name = key.partition(":")
            # A method of a distribution is made anew each time it is read.
            function = getattr(sys.modules.get(module), name, None)
            if function is not None:
                table[id(function)] = ACCEPT[key]
        _SCIPY.update(size=state, table=table)
    return _SCIPY["table"]


# SciPy's functions that call the user's, "module:name" -> what takes a call of one,
# `(session, function, args, kwargs)`.
CALLERS: dict[str, Callable[..., Any]] = {}


def caller_of(function: Any) -> Callable[..., Any] | None:
    """What takes a call of a function of SciPy that calls back, if it is one."""
    name = getattr(function, "__name__", "")
    for module in ("scipy.optimize", "scipy.integrate"):
        found = CALLERS.get(f"{module}:{name}")
        if found and getattr(sys.modules.get(module), name, None) is function:
            return found
    return None


# --------------------------------------------------------------------------- calls
def call_function(
    session: Session, function: Any, args: tuple, kwargs: dict[str, Any]
) -> Any:
    """A call of a function of NumPy or SciPy in the user's code."""
    own = OWN.get(function)
    if own is not None:
        return own(session, *args, **kwargs)
    accept = accepted(function)
    if accept is not None:
        out = kwargs.get("out")
        if out is not None:
            kwargs = {k: v for k, v in kwargs.items() if k != "out"}
            result = enter(session, accept, args, kwargs, name=short(function))
            return write_out(session, out, result, short(function))
        args = _constants_as_refs(session, args)
        fresh = function in FRESH and kwargs.get("copy", True) is True
        fresh = fresh or (function is np.ravel and any(map(raveled_anew, args[:1])))
        return enter(session, accept, args, kwargs, name=short(function), fresh=fresh)
    if function in UPDATES and holds_handles((args, kwargs)):
        return update(session, UPDATES[function], args, kwargs, short(function))
    return call_unknown(session, function, args, kwargs)


def _constants_as_refs(session: Session, args: tuple) -> tuple:
    """Captured arrays as values of the graph, where no argument is traced.

    So that `np.outer(C, D)` is part of the program, instead of a constant made of
    arrays that may change.
    """
    sources: list = []
    lower(args, sources)
    if sources:
        return args
    # With a symbolic size (`np.full(n, 0.5)`) the call has no value, numbers or not.
    kinds = (float, complex) if holds_handles(args) else ()
    return tuple(
        [
            Ref(session.constant(x), session.builder)
            if type(x) in kinds or (type(x) is np.ndarray and x.dtype.kind in "fc")
            else x
            for x in args
        ]
    )


def call_unknown(
    session: Session, function: Any, args: tuple, kwargs: dict[str, Any]
) -> Any:
    """A function without a rule: run on constants, refused on traced values.

    Raises:
        UnsupportedError: if an argument is traced.
    """
    plain = [constant_data(session, x, function) for x in args]
    named = {k: constant_data(session, x, function) for k, x in kwargs.items()}
    session.locate()
    out = function(*plain, **named)
    lifted = lift(out, session, [], tuple(plain))
    name_result(lifted, session)
    return lifted


def constant_data(session: Session, x: Any, function: Any) -> Any:
    """The data of an argument that depends on constants only.

    Raises:
        UnsupportedError: if it is traced.
    """
    if isinstance(x, Handle):
        value = current(x)
        if not session.is_concrete(value):
            raise unsupported(session, function)
        return read_only(session.ask(value))
    if type(x) is np.ndarray:
        session.note_content(x)
    if type(x) is Size:
        return x.__index__()
    if type(x) in (list, tuple):
        return type(x)([constant_data(session, part, function) for part in x])
    return x


def unsupported(session: Session, function: Any) -> UnsupportedError:
    """The error for a function without a rule."""
    return UnsupportedError(
        f"no derivative rule yet for {name_of(function)}",
        op=short(function),
        at=session.place(),
        fix="use functions that have a rule, compute it outside, or give it one: "
        f"tg.custom_vjp, or tg.numerical({short(function)}) by differences",
    )


def read_only(data: Any) -> Any:
    """A view that cannot be written: C code must not change what a trace has read."""
    if not isinstance(data, np.ndarray):
        return data
    view = data.view()
    view.flags.writeable = False
    return view


# -------------------------------------------------------------------------- writing
def update(
    session: Session,
    function: Callable[..., Any],
    args: tuple,
    kwargs: dict[str, Any],
    name: str,
) -> None:
    """A call that writes into its first argument."""
    target, rest = (args[0], args[1:]) if args else (None, ())
    if not isinstance(target, Handle):
        raise captured_write(session, name)

    def write(*parts: Any, **named: Any) -> None:
        before = current(target)
        after = function(Ref(before, target.builder), *parts, **named)
        push(target, after.value)

    session.locate()
    _refuse_write(session, target, name)
    enter(session, write, rest, kwargs, name=name)


def captured_write(session: Session, name: str) -> MutationError:
    """The error for a traced value written into a plain array."""
    return MutationError(
        "a traced value would be written into a plain array, which lives outside of "
        "the traced function",
        op=name,
        at=session.place(),
        fix="make the array in the function, with np.zeros, np.zeros_like or np.array",
    )


def _refuse_write(session: Session, target: Handle, name: str) -> None:
    try:
        refuse_write(target)
    except TracegradError as error:
        raise error.locate(name, session.place()) from None


def write_out(session: Session, out: Any, result: Any, name: str) -> Any:
    """Write `result` into the array given as `out=`, and return that array."""
    target = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    if not isinstance(target, Handle):
        raise captured_write(session, f"{name}(out=...)")
    _refuse_write(session, target, f"{name}(out=...)")

    def write(value: Any) -> None:
        before = Ref(current(target), target.builder)
        push(target, fit(value, before, f"{name}(out=...)").value)

    enter(session, write, (result,), name=name)
    return target


def fit(value: Any, target: Ref, name: str) -> Ref:
    """`value` in the shape and dtype of the array that it is written into.

    Raises:
        ShapeError: if it does not have the shape of the array.
        DTypeError: if NumPy would not cast it so.
    """
    have, to = type_of(value), target.type
    if have.shape != to.shape:
        raise ShapeError(
            f"a result of shape {shape_text(have.shape)} does not fit into an array of "
            f"shape {shape_text(to.shape)}",
            op=name,
            fix="make the array large enough, or assign the result to a new name",
        )
    if have.dtype != to.dtype:
        if not np.can_cast(have.dtype, to.dtype, "same_kind"):
            raise DTypeError(
                f"a {have.dtype} result cannot be written into an array of {to.dtype}",
                op=name,
                fix=f"make the array with dtype={have.dtype.name!r}",
            )
        value = METHODS["astype"](value, to.dtype)
    return value


# --------------------------------------------------------------------------- ufuncs
def call_ufunc(
    session: Session,
    ufunc: np.ufunc,
    method: str,
    inputs: tuple,
    kwargs: dict[str, Any],
) -> Any:
    """A call of a ufunc, or of its `reduce`, `accumulate`, `outer`, `at`."""
    if method != "__call__":
        return _ufunc_method(session, ufunc, method, inputs, kwargs)
    accept = ACCEPT.get(ufunc) or accepted(ufunc)
    if accept is None:
        return call_unknown(session, ufunc, inputs, kwargs)
    name = short(ufunc)
    if len(inputs) > ufunc.nin:
        kwargs = {**kwargs, "out": inputs[ufunc.nin :]}
        inputs = inputs[: ufunc.nin]
    out = kwargs.get("out")
    dtype = kwargs.get("dtype")
    where = kwargs.get("where", True)
    if where is not True:
        kwargs = {**kwargs, "where": True}
        _check_where(session, ufunc, name, out)
    _check_kwargs(session, name, kwargs)

    def run(*operands: Any) -> Any:
        given = [_operand(x, session) for x in operands]
        if dtype is not None:
            given = [METHODS["astype"](ACCEPT[np.asarray](x), dtype) for x in given]
        weak = all(type_of(x).weak for x in given)
        made = accept(*given)
        if weak and isinstance(made, Ref) and made.type.weak:
            made = ACCEPT[np.asarray](made)
        return made

    if out is None:
        return enter(session, run, inputs, name=name)
    if where is True:
        return write_out(session, out, enter(session, run, inputs, name=name), name)

    def chosen(mask: Any, before: Any, *operands: Any) -> Any:
        return ACCEPT[np.where](mask, run(*operands), before)

    target = out[0] if isinstance(out, tuple) else out
    made = enter(session, chosen, (where, target, *inputs), name=name)
    return write_out(session, out, made, name)


def _check_where(session: Session, ufunc: np.ufunc, name: str, out: Any) -> None:
    """Refuse `where=` where it would leave elements undefined."""
    if out is not None and ufunc.nout == 1:
        return
    raise ArgumentError(
        f"{name}(where=...) without out= leaves elements undefined"
        if ufunc.nout == 1
        else f"{name}(where=...) is not supported",
        op=name,
        at=session.place(),
        fix="give out=np.zeros_like(x), or use np.where on the result",
    )


def _operand(x: Any, session: Session) -> Any:
    x = as_operand(x)
    if isinstance(x, Ref):
        return x
    # A number or an array: recorded, so that `np.log(2.0)` prints as it is written.
    return Ref(session.builder.lift(x), session.builder)


def _check_kwargs(session: Session, name: str, kwargs: dict[str, Any]) -> None:
    for key, value in kwargs.items():
        default = {
            "where": True,
            "casting": "same_kind",
            "order": "K",
            "subok": True,
            "signature": None,
        }
        if key in ("out", "dtype") or (key in default and value is default[key]):
            continue
        if key in default and type(value) is str and value == default[key]:
            continue
        raise ArgumentError(
            f"{name}({key}=...) is not supported",
            op=name,
            at=session.place(),
            fix="use np.where on the result" if key == "where" else f"leave out {key}=",
        )


def _ufunc_method(
    session: Session,
    ufunc: np.ufunc,
    method: str,
    inputs: tuple,
    kwargs: dict[str, Any],
) -> Any:
    key = (ufunc, method)
    name = f"{short(ufunc)}.{method}"
    if method == "outer":
        return _outer(session, ufunc, inputs, kwargs)
    if method == "at":
        change = UPDATES.get(key) or method_of(ufunc, method)
        if change is not None:
            return update(session, change, inputs, kwargs, name)
    accept = ACCEPT.get(key) or method_of(ufunc, method)
    if accept is None:
        plain = [constant_data(session, x, getattr(ufunc, method)) for x in inputs]
        return lift(getattr(ufunc, method)(*plain, **kwargs), session, [], ())
    if method in ("reduce", "accumulate") and "axis" not in kwargs and len(inputs) < 2:
        kwargs = {**kwargs, "axis": 0}  # the default there; `np.sum` has None
    out = kwargs.pop("out", None)
    result = enter(session, accept, inputs, kwargs, name=name)
    return result if out is None else write_out(session, out, result, name)


def _outer(session: Session, ufunc: np.ufunc, inputs: tuple, kwargs: dict) -> Any:
    a, b = inputs

    def spread(x: Any, y: Any) -> tuple:
        read = METHODS["reshape"]
        x, y = ACCEPT[np.asarray](x), ACCEPT[np.asarray](y)
        return read(x, (*x.shape, *[1] * len(y.shape))), y

    x, y = enter(session, spread, (a, b), name=f"{short(ufunc)}.outer")
    return call_ufunc(session, ufunc, "__call__", (x, y), kwargs)


# -------------------------------------------------------- functions of the type alone
def _shape(session: Session, a: Any) -> tuple:
    if isinstance(a, Handle):
        return user_shape(a.value.type.shape, session)
    return (
        user_shape(_array_type(a).shape, session) if holds_handles(a) else np.shape(a)
    )


def _array_type(a: Any) -> Any:
    return type_of(as_operand(lower(a, [])))


def _ndim(session: Session, a: Any) -> int:
    return len(_shape(session, a))


def _size(session: Session, a: Any, axis: Any = None) -> Any:
    shape = _shape(session, a)
    if axis is not None:
        return shape[axis]
    return math.prod(shape) if shape else 1


def _iscomplexobj(session: Session, x: Any) -> bool:
    return _array_type(x).kind == "c" if holds_handles(x) else np.iscomplexobj(x)


def _isrealobj(session: Session, x: Any) -> bool:
    return not _iscomplexobj(session, x)


def _isscalar(session: Session, element: Any) -> bool:
    if isinstance(element, Handle):
        return not element.value.type.shape
    return type(element) is Size or np.isscalar(element)


def _result_type(session: Session, *args: Any) -> np.dtype:
    plain = []
    for x in args:
        if isinstance(x, Handle):
            t = x.value.type
            x = {"i": 0, "f": 0.0, "c": 0j}[t.kind] if t.weak else t.dtype
        plain.append(x)
    return np.result_type(*plain)


def _iterable(session: Session, y: Any) -> bool:
    return bool(_shape(session, y)) if isinstance(y, Handle) else np.iterable(y)


def _can_cast(session: Session, from_: Any, to: Any, casting: Any = "safe") -> bool:
    known = from_.value.type.dtype if isinstance(from_, Handle) else from_
    return np.can_cast(known, to, casting)


def _common_type(session: Session, *arrays: Any) -> type:
    return np.common_type(*[np.empty(0, _array_type(a).dtype) for a in arrays])


def _broadcast_shapes(session: Session, *shapes: Any) -> tuple:
    given = [lower(s if isinstance(s, tuple) else (s,), []) for s in shapes]
    return user_shape(broadcast_shapes(*given), session)


# What needs the user's handles: functions of the type alone, and those that call back.
OWN: dict[Any, Callable[..., Any]] = {
    np.shape: _shape,
    np.ndim: _ndim,
    np.size: _size,
    np.iscomplexobj: _iscomplexobj,
    np.isrealobj: _isrealobj,
    np.isscalar: _isscalar,
    np.result_type: _result_type,
    np.broadcast_shapes: _broadcast_shapes,
    np.isscalar: _isscalar,
    np.iterable: _iterable,
    np.can_cast: _can_cast,
    np.common_type: _common_type,
    **callbacks.CALLBACKS,
}
