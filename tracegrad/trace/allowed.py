"""What a span of the user's code may do besides computing: what its calls are.

Asked when an arm of a branch runs that Python itself would perhaps not have taken.
Everything that is not known to be without effect is refused before it happens.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from tracegrad.trace.buffers import Handle
from tracegrad.trace.frames import is_users
from tracegrad.trace.interpose import CACHED, Function, floated, original_of, sized
from tracegrad.trace.proxy import Method
from tracegrad.trace.staging import staged_code


class Refused(Exception):
    """A branch or a loop cannot be joined; the message says why."""


_BUILTINS = {
    *(abs, min, max, sum, len, float, int, bool, complex, round, divmod, pow),
    *(range, zip, enumerate, reversed, tuple, list, isinstance, sized, floated),
}
_IMMUTABLE = (str, bytes, int, float, complex, bool, tuple, range, np.generic)
_READING = {"get", "keys", "values", "items", "index", "count"}
_WRITING = {
    *("copyto", "put", "place", "putmask", "put_along_axis", "fill_diagonal"),
    *("sort", "fill", "resize", "setfield", "itemset", "partition", "byteswap"),
    *("setflags", "vectorize", "apply_along_axis", "apply_over_axes", "save", "savez"),
    *("savetxt", "fromfile", "load", "loadtxt", "tofile", "dump", "seterr", "at"),
    *("set_printoptions", "seterrcall", "setbufsize"),
    *("fromfunction", "fromiter", "frompyfunc", "piecewise", "nditer", "shuffle"),
}
_BINARY = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
    *("and", "or", "xor"),
)
_OTHER = (
    *("neg", "pos", "abs", "invert", "lt", "le", "gt", "ge", "getitem", "setitem"),
    *("iter", "next", "len", "bool", "contains", "float", "int", "index"),
    *("array", "array_ufunc", "array_function", "hash"),
)
_OPERATORS = {f"__{p}{name}__" for name in _BINARY for p in ("", "r", "i")} | {
    f"__{name}__" for name in _OTHER
}
_FOREIGN = {
    *("builtins", "numpy", "scipy", "math", "tracegrad", "functools", "typing"),
    *("enum", "abc", "collections"),
}


def checked(function: Any, staged: Callable[[Any], Any]) -> Any:
    """A function that may be called in an arm, ready to be joined itself.

    Raises:
        Refused: if it may have an effect.
    """
    kind = type(function)
    if kind is FunctionType and is_users(function.__code__.co_filename):
        _check_function(function)
        return staged(function)
    if kind is MethodType and type(function.__func__) is FunctionType:
        if isinstance(function.__self__, Handle):
            return _guarded(function)
        if is_users(function.__func__.__code__.co_filename):
            _check_function(function.__func__)
            return staged(function)
    method = method_of(function)
    if method is not None:
        _check_function(method)
        return staged(function)
    if kind is Method or _is_known(function):
        return _guarded(function)
    name = getattr(function, "__qualname__", None) or repr(function)
    raise Refused(f"it calls {name:.60}")


def method_of(x: Any) -> FunctionType | None:
    """The `__call__` of an object of a class of the user's."""
    found = inspect.getattr_static(type(x), "__call__", None)
    if type(found) is FunctionType and is_users(found.__code__.co_filename):
        return found
    return None


def _check_function(function: FunctionType) -> None:
    if not staged_code(function.__code__, function.__globals__).pure:
        raise Refused(f"it calls {function.__name__}(), which does more than compute")
    check_names(function)


def _is_known(function: Any) -> bool:
    name = getattr(function, "__name__", "")
    if name in _WRITING:
        return False
    if isinstance(function, Function):
        return type(original_of(function)) is not CACHED
    try:
        if function in _BUILTINS:
            return True
    except TypeError:
        return False
    if isinstance(function, type):
        return issubclass(function, np.generic)
    if isinstance(function, np.ufunc):
        return True
    if isinstance(function, BuiltinFunctionType):
        owner = function.__self__
        if owner is math:
            return True
        if isinstance(owner, _IMMUTABLE):
            return True
        if isinstance(owner, dict | list):
            return name in _READING
        return isinstance(owner, np.ndarray)
    return False


def _guarded(function: Any) -> Any:
    """The function, refusing arguments with which it could have an effect."""

    def call(*args: Any, **named: Any) -> Any:
        for x in (*args, *named.values()):
            if isinstance(x, FunctionType | MethodType):
                raise Refused("it hands a function to another one")
            if not isinstance(x, Handle):
                check_iterable(x)
                _check_operators(x)
        out = named.get("out")
        if out is not None and not isinstance(out, Handle):
            raise Refused("it writes into an array by out=")
        return function(*args, **named)

    return call


def check_iterable(x: Any) -> None:
    """Refuse what is used up when it is run over.

    Raises:
        Refused: for an iterator.
    """
    if not isinstance(x, Handle) and hasattr(type(x), "__next__"):
        if type(x) not in (zip, enumerate, reversed):
            raise Refused(f"it runs over a {type(x).__name__}")


def looked_up(x: Any, name: str) -> Any:
    """`x.name`, if looking it up runs no code of the user's.

    Raises:
        Refused: if it does.
    """
    if not isinstance(x, Handle | ModuleType) and _is_users(type(x)):
        for special in ("__getattr__", "__getattribute__"):
            found = inspect.getattr_static(type(x), special, None)
            if type(found) is FunctionType:
                raise Refused(f"it reads an attribute by {special}")
        found = inspect.getattr_static(type(x), name, None)
        if hasattr(type(found), "__get__") and not isinstance(
            found, FunctionType | staticmethod | classmethod
        ):
            raise Refused(f"it reads the property {name}")
    out = getattr(x, name)
    _check_operators(out)
    return out


def _is_users(cls: type) -> bool:
    return cls.__module__.partition(".")[0] not in _FOREIGN


_WITH_OPERATORS: dict[type, bool] = {}


def _check_operators(x: Any) -> None:
    """Refuse an object of a class of the user's that has operators of its own."""
    cls = type(x)
    found = _WITH_OPERATORS.get(cls)
    if found is None:
        found = _WITH_OPERATORS[cls] = any(
            _is_users(c) and not _OPERATORS.isdisjoint(vars(c)) for c in cls.__mro__
        )
    if found and not isinstance(x, Handle | np.ndarray | FunctionType | type):
        raise Refused(f"it computes with a {cls.__name__}")


def check_names(function: Callable) -> None:
    """Refuse a function that reads objects with operators of their own.

    Raises:
        Refused: then.
    """
    assert type(function) is FunctionType
    for cell in function.__closure__ or ():
        try:
            _check_operators(cell.cell_contents)
        except ValueError:
            continue  # not bound yet
    space = function.__globals__
    for name in _names(function.__code__):
        if name in space:
            _check_operators(space[name])


def _names(code: CodeType) -> set[str]:
    found = set(code.co_names)
    for constant in code.co_consts:
        if type(constant) is CodeType:
            found |= _names(constant)
    return found
