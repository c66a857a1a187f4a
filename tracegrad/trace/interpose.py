"""Names in the user's modules, swapped while a trace runs.

NumPy's protocols do not see `np.zeros(n)`, `np.array([a, b])` or `math.exp(x)`.  So a
module global of the user's that is NumPy, SciPy, `math`, or one of their functions is
replaced for the time of a trace by a stand-in.  The libraries themselves are never
touched: compiled code looks names up there and trusts what it finds.  Imports inside of
the user's functions give stand-ins too.

A stand-in asks whether the calling thread is tracing; if not, it is the original.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, ClassVar

import numpy as np

from tracegrad.ir.graph import Value
from tracegrad.ops.cast import python_float, to_float
from tracegrad.trace.boundary import enter, holds_handles, lower
from tracegrad.trace.buffers import Handle
from tracegrad.trace.callbacks import call_vectorized
from tracegrad.trace.deciding import is_tried
from tracegrad.trace.distributions import (
    Distribution,
    Frozen,
    Ready,
    module_of,
    stand_in_of,
)
from tracegrad.trace.frames import is_users
from tracegrad.trace.identity import by_python
from tracegrad.trace.numpy_api import (
    accepted,
    call_function,
    call_ufunc,
    caller_of,
    unsupported,
)
from tracegrad.trace.session import ACTIVE, Session
from tracegrad.trace.sizes import Size

CACHED = type(functools.lru_cache(len))
_FUNCTION_TYPES = (FunctionType, BuiltinFunctionType, np.ufunc, type(np.sum))
# Parts of NumPy whose functions are left alone: draws are found by their state, and
# the others take no part in a computation.
_LEFT_ALONE = ("numpy.random", "numpy.testing", "numpy.ma", "numpy.polynomial")
_MODULES = ("numpy", "numpy.linalg", "numpy.fft", "math")


class Function:
    """Stands in for a function or a ufunc."""

    __slots__ = ("_call", "_original")

    def __init__(self, original: Any) -> None:
        object.__setattr__(self, "_original", original)
        object.__setattr__(self, "_call", _caller(original))

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._original)

    @property
    def __wrapped__(self) -> Any:
        return self._original

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        session = ACTIVE.session
        if session is None:
            return self._original(*args, **kwargs)
        return self._call(session, self._original, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._original, name)
        if ACTIVE.session is None or name not in _UFUNC_METHODS:
            return found
        return _UfuncMethod(self._original, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._original, name, value)

    def __instancecheck__(self, x: Any) -> bool:
        return isinstance(x, self._original)  # where it stands for a class

    def __eq__(self, other: object) -> bool:
        return self._original == original_of(other)

    def __hash__(self) -> int:
        return hash(self._original)

    def __repr__(self) -> str:
        return repr(self._original)

    def __reduce__(self) -> Any:
        return original_of, (self._original,)


_UFUNC_METHODS = {"reduce", "accumulate", "outer", "at", "reduceat"}


class _UfuncMethod:
    """Stands in for `np.add.reduce` and the like."""

    __slots__ = ("method", "ufunc")

    def __init__(self, ufunc: np.ufunc, method: str) -> None:
        self.ufunc = ufunc
        self.method = method

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        session = ACTIVE.session
        if session is None or not holds_handles((args, kwargs)):
            return getattr(self.ufunc, self.method)(*args, **kwargs)
        return call_ufunc(session, self.ufunc, self.method, args, kwargs)


class Module:
    """Stands in for a module."""

    __slots__ = ("_original",)

    def __init__(self, original: ModuleType) -> None:
        object.__setattr__(self, "_original", original)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return ModuleType

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._original, name)
        return found if ACTIVE.session is None else stand_in(found)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._original, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._original, name)

    def __dir__(self) -> Iterable[str]:
        return dir(self._original)

    def __eq__(self, other: object) -> bool:
        return self._original is original_of(other)

    def __hash__(self) -> int:
        return hash(self._original)

    def __repr__(self) -> str:
        return repr(self._original)

    def __reduce__(self) -> Any:
        return original_of, (self._original,)


def original_of(x: Any) -> Any:
    """What a stand-in stands for; anything else as it is."""
    kind = type(x)
    if kind is Function or kind is Module or kind is Distribution or kind is Ready:
        return x._original
    if kind is Frozen and x._original is not None:
        return x._original
    return x


# --------------------------------------------------------------------- what is swapped
_STAND_INS: dict[int, tuple[Any, Any]] = {}


def stand_in(x: Any) -> Any:
    """The stand-in for a library's module or function; anything else as it is."""
    found = _STAND_INS.get(id(x))
    if found is not None:
        return found[1]
    made: Any = None
    if type(x) is ModuleType:
        name = x.__name__
        if name in _MODULES or name.partition(".")[0] == "scipy":
            made = Module(x)
    elif type(x) is CACHED or (
        (_is_function(x) and _of_library(x))
        or x is np.vectorize
        or type(x) is np.vectorize
    ):
        made = Function(x)
    elif isinstance(x, type):
        module = module_of(x)
        # A sparse matrix is made of plain data, which a constant of a trace is not.
        sparse = module.startswith("scipy.sparse.")
        if sparse or (module.startswith("scipy.") and accepted(x) is not None):
            made = Function(x)
    else:
        made = stand_in_of(x)
    if made is None:
        return x
    _STAND_INS[id(x)] = (x, made)  # keeps `x`, so that its id stays its own
    return made


def _is_function(x: Any) -> bool:
    # Those of `scipy.fft` are objects that choose among backends.
    return isinstance(x, _FUNCTION_TYPES) or type(x).__module__ == "uarray"


def _of_library(function: Any) -> bool:
    if isinstance(function, np.ufunc):
        return True
    module = getattr(function, "__module__", None) or ""
    if module.startswith(_LEFT_ALONE):
        return False
    return module == "math" or module.partition(".")[0] in ("numpy", "scipy")


def _caller(original: Any) -> Callable[[Session, Any, tuple, dict], Any]:
    if isinstance(original, np.ufunc):
        return lambda session, f, args, kwargs: call_ufunc(
            session, f, "__call__", args, kwargs
        )
    if type(original) is CACHED:
        # What the cache holds has no gradient, or is of another trace.
        return lambda session, f, args, kwargs: f.__wrapped__(*args, **kwargs)
    if original is np.vectorize:
        return lambda session, f, args, kwargs: stand_in(f(*args, **kwargs))
    if type(original) is np.vectorize:
        return call_vectorized
    module = getattr(original, "__module__", None) or ""
    if module == "math":
        return _call_math
    if module.startswith("scipy"):
        return _call_scipy
    return call_function


def _call_math(session: Session, function: Any, args: tuple, kwargs: dict) -> Any:
    traced = any(isinstance(x, Handle) or type(x) is Size for x in args)
    if not traced:
        return function(*args, **kwargs)
    if accepted(function) is None:
        if any(isinstance(x, Handle) and not _constant(session, x) for x in args):
            raise unsupported(session, function)
        return function(*args, **kwargs)
    out = call_function(session, function, args, kwargs)
    if isinstance(out, Handle) and out.dtype == bool:
        return by_python(out)
    if isinstance(out, Handle) and any(map(is_tried, session.locator.find())):
        _raise_as_python(session, function, args, out)
    if session.narrow and isinstance(out, Handle) and out.dtype == np.float64:
        # `math` gives Python floats, which leave an array of float32 what it is.
        return enter(session, python_float, (out,), name=f"math.{function.__name__}")
    return out


def _raise_as_python(session: Session, function: Any, args: tuple, out: Handle) -> None:
    """Let `math` raise what the user's code handles, where its result is not finite.

    In the program of a call that has got there; NumPy's functions give NaN instead.
    """
    if session.values is None or out.dtype.kind != "f" or np.isfinite(out):
        return
    # An infinity may give an infinity, and what is no number may give no number.
    unknown = bool(np.isnan(out))
    if not any(np.isnan(x) if unknown else not np.isfinite(x) for x in args):
        parts = [lower(x, []).value if isinstance(x, Handle) else x for x in args]
        ask = session.demand.value
        function(*[ask(v) if isinstance(v, Value) else v for v in parts])


def _constant(session: Session, x: Handle) -> bool:
    return session.is_concrete(x.value)


def _call_scipy(session: Session, function: Any, args: tuple, kwargs: dict) -> Any:
    solver = caller_of(function)
    if solver is not None:
        return solver(session, function, args, kwargs)
    if accepted(function) is not None:
        return call_function(session, function, args, kwargs)
    return _Callbacks(session, function).call(args, kwargs)


class _Callbacks:
    """A call of a function of SciPy without a rule, which may call back the user's.

    What that gives must not depend on traced values: what SciPy's code makes of their
    order would be guarded, and its result a constant.
    """

    def __init__(self, session: Session, function: Any) -> None:
        self.session, self.function = session, function
        self.refused: Exception | None = None

    def call(self, args: tuple, kwargs: dict) -> Any:
        given = tuple(map(self._watched, args))
        named = {key: self._watched(x) for key, x in kwargs.items()}
        try:
            if holds_handles((args, kwargs)):
                out = call_function(self.session, self.function, given, named)
            else:
                out = self.function(*given, **named)
        except Exception:
            if self.refused is None:
                raise
        if self.refused is not None:  # whatever SciPy made of it
            raise self.refused from None
        return out

    def _watched(self, x: Any) -> Any:
        if not isinstance(x, FunctionType | MethodType | functools.partial):
            return x

        @functools.wraps(x)
        def watched(*args: Any, **kwargs: Any) -> Any:
            made = x(*args, **kwargs)
            if self._is_traced(made):
                self.refused = unsupported(self.session, self.function)
                raise self.refused
            return made

        return watched

    def _is_traced(self, x: Any) -> bool:
        if isinstance(x, Handle):
            return not _constant(self.session, x)
        return isinstance(x, list | tuple) and any(map(self._is_traced, x))


def sized(x: Any) -> Any:
    """Stands in for `len`: the size of a traced array may be symbolic."""
    if isinstance(x, Handle) and ACTIVE.session is not None and x.value.type.shape:
        return x.shape[0]
    return len(x)


class _Type:
    """Stands in for `type`: a traced array has the type that NumPy's would have."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and ACTIVE.session is not None:
            x = original_of(args[0])
            return x.__class__ if isinstance(x, Handle | Size) else type(x)
        return type(*args, **kwargs)

    def __instancecheck__(self, x: Any) -> bool:
        return isinstance(x, type)

    def __subclasscheck__(self, x: Any) -> bool:
        return issubclass(x, type)

    def __eq__(self, other: object) -> bool:
        return other is type or other is self

    def __hash__(self) -> int:
        return hash(type)

    def __repr__(self) -> str:
        return repr(type)


typed = _Type()
_MEMORY = {"__array_interface__", "__array_struct__", "__buffer__", "__dlpack__"}


def has_attribute(x: Any, name: str) -> bool:
    """Stands in for `hasattr`: a traced array has no attributes but NumPy's."""
    if ACTIVE.session is not None and isinstance(x, Handle):
        # Its memory cannot be had, but that is an error that tells so.
        return hasattr(x.__class__, name) and (name in _MEMORY or hasattr(x, name))
    return hasattr(x, name)


def floated(*args: Any) -> Any:
    """Stands in for `float`: the number of a traced array is traced."""
    if len(args) == 1 and isinstance(args[0], Handle) and ACTIVE.session is not None:
        x = args[0]
        if x.value.type.kind != "c" and not ACTIVE.session.is_concrete(x.value):
            return enter(ACTIVE.session, to_float, (x,), name="float()")
    return float(*args)


# -------------------------------------------------------------------- swap and restore
class _Swapped:
    """One module's globals with stand-ins in them, and how many traces want that."""

    __slots__ = ("added", "count", "replaced", "space")

    def __init__(self, space: dict[str, Any]) -> None:
        self.space = space
        self.count = 0
        self.replaced: list[tuple[str, Any, Any]] = []
        self.added: dict[str, Any] = {}


_SWAPPED: dict[int, _Swapped] = {}
_LOCK = threading.RLock()


def swappable(space: dict[str, Any]) -> bool:
    """Whether a module's globals hold something to swap."""
    return any(stand_in(value) is not value for value in list(space.values()))


def is_swapped(space: dict[str, Any]) -> bool:
    """Whether a trace has swapped a module's globals."""
    return id(space) in _SWAPPED


def original_global(space: dict[str, Any], name: str) -> Any:
    """The value of a global as it is without a trace."""
    return original_of(space[name])


class swapping:
    """Context: stand-ins in the globals of the given modules.

    Args:
        spaces: the modules' globals.
        builtins: stand-ins for builtins by name, which become globals of the modules.
    """

    def __init__(
        self, spaces: Iterable[dict[str, Any]], builtins: dict[str, Any]
    ) -> None:
        self.spaces = list(spaces)
        self.builtins = builtins
        self.done: list[_Swapped] = []

    def __enter__(self) -> None:
        try:
            for space in self.spaces:
                with _LOCK:
                    self._swap(space)
        except BaseException:
            self.__exit__()
            raise

    def _swap(self, space: dict[str, Any]) -> None:
        entry = _SWAPPED.get(id(space))
        if entry is None:
            entry = _SWAPPED[id(space)] = _Swapped(space)
            for name, value in list(space.items()):
                made = stand_in(value)
                if made is not value:
                    entry.replaced.append((name, value, made))
                    space[name] = made
        for name, made in self.builtins.items():
            if name not in space:
                space[name] = made
                entry.added[name] = made
        entry.count += 1
        self.done.append(entry)

    def __exit__(self, *exception: object) -> None:
        with _LOCK:
            for entry in self.done:
                entry.count -= 1
                if entry.count:
                    continue
                del _SWAPPED[id(entry.space)]
                for name, value, made in entry.replaced:
                    # The user may have bound the name anew meanwhile.
                    if entry.space.get(name) is made:
                        entry.space[name] = value
                for name, made in entry.added.items():
                    if entry.space.get(name) is made:
                        del entry.space[name]
            self.done.clear()


class importing:
    """Context: `from math import exp` inside of a user's function gives a stand-in.

    The one thing that is swapped outside of the user's modules, as functions look
    `__import__` up in the builtins that they were made with.  For imports of others,
    and those at the top of a module, it does what the original does.
    """

    _count: ClassVar[int] = 0
    _original: ClassVar[Any] = None
    _wrapped: ClassVar[bool] = False

    def __enter__(self) -> None:
        with _LOCK:
            found = builtins.__import__
            wrapped = importing._wrapped and found is not importing._original
            if not importing._count and found is not _imported and not wrapped:
                importing._original = found
                builtins.__import__ = _imported
            importing._count += 1

    def __exit__(self, *exception: object) -> None:
        with _LOCK:
            importing._count -= 1
            if importing._count:
                return
            # Somebody else may have put theirs there meanwhile, which calls ours.
            importing._wrapped = builtins.__import__ is not _imported
            if not importing._wrapped:
                builtins.__import__ = importing._original


def _imported(*args: Any, **kwargs: Any) -> Any:
    module = importing._original(*args, **kwargs)
    if ACTIVE.session is None:
        return module
    code = sys._getframe(1).f_code
    inside = code.co_flags & inspect.CO_NEWLOCALS and is_users(code.co_filename)
    return stand_in(module) if inside else module


def _made(kind: str, value: Any) -> Any:
    # A method is bound to its object, which a stand-in would not be.
    return value.__wrapped__ if kind == "cached" else stand_in(value)


class swapping_reads:
    """Context: stand-ins in the cells and attributes that a function reads.

    As of a distribution that was made outside: `dist = stats.norm(0.0, 2.0)`.

    Args:
        reads: (kind, cell or object, name, what is there) of each.
    """

    _counts: ClassVar[dict[tuple[int, str], int]] = {}

    def __init__(self, reads: Iterable[tuple[str, Any, str, Any]]) -> None:
        self.reads = [
            (kind, where, name, value, made)
            for kind, where, name, value in reads
            if kind != "global" and (made := _made(kind, value)) is not value
        ]

    def __enter__(self) -> None:
        with _LOCK:
            for kind, where, name, value, made in self.reads:
                key = id(where), name
                self._counts[key] = self._counts.get(key, 0) + 1
                self._put(kind, where, name, value, made)

    def __exit__(self, *exception: object) -> None:
        with _LOCK:
            for kind, where, name, value, made in self.reads:
                key = id(where), name
                self._counts[key] -= 1
                if not self._counts[key]:
                    del self._counts[key]
                    self._put(kind, where, name, made, value)

    @staticmethod
    def _put(kind: str, where: Any, name: str, old: Any, new: Any) -> None:
        """Bind it anew, unless it is bound to something else by now."""
        if kind == "cell":
            if where.cell_contents is old:
                where.cell_contents = new
            return
        if kind == "cached":
            if vars(where).get(name) is old:
                setattr(where, name, new)
            return
        space = getattr(where, "__dict__", None)
        if type(space) is dict and space.get(name) is old:
            space[name] = new
