"""Stand-ins for objects of SciPy: distributions, frozen ones too, and interpolants.

SciPy's methods run on object arrays and masks, where no traced value passes.  So a
distribution that a user's module names is replaced while a trace runs, as functions
are, and `norm.logpdf` goes to `ACCEPT["scipy.stats:norm.logpdf"]`.  So is a spline
that was made before: `ACCEPT["scipy.interpolate:PPoly()"]` makes of it what a trace can
call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tracegrad.ops.define import ACCEPT
from tracegrad.trace.boundary import enter, holds_handles
from tracegrad.trace.numpy_api import call_unknown
from tracegrad.trace.session import ACTIVE, Session

# What the frozen form of a distribution of several variables keeps of its arguments.
_PARAMETERS = {"multivariate_normal": ("mean", "cov"), "dirichlet": ("alpha",)}
_NAMES: dict[int, tuple[str, Any]] = {}


def module_of(cls: type) -> str:
    """The module that a class says it is from; some say nothing, or no string."""
    found = getattr(cls, "__module__", None)
    return found if type(found) is str else ""


def _name_of(distribution: Any) -> str | None:
    """The name of a distribution in `scipy.stats`."""
    if not _NAMES:
        for name, value in vars(sys.modules["scipy.stats"]).items():
            if module_of(type(value)).startswith("scipy.stats"):
                _NAMES[id(value)] = (name, value)
    known = _NAMES.get(id(distribution))
    return None if known is None else known[0]


def stand_in_of(x: Any) -> Distribution | Frozen | Ready | None:
    """The stand-in for an object of SciPy; None for anything else."""
    module = module_of(type(x))
    if module.startswith("scipy.interpolate"):
        for cls in type(x).__mro__:
            make = ACCEPT.get(f"scipy.interpolate:{cls.__name__}()")
            if make is not None:
                return Ready(x, make)
    if not module.startswith("scipy.stats"):
        return None
    if "scipy.stats" not in sys.modules:
        return None  # SciPy is being imported
    name = _name_of(x)
    if name is not None:
        return Distribution(name, x)
    # A frozen distribution has a copy of the distribution, of the same class.
    kind = type(getattr(x, "dist", None) or getattr(x, "_dist", None))
    for name, distribution in _NAMES.values():
        if type(distribution) is kind:
            if name in _PARAMETERS:
                args = tuple([getattr(x, p) for p in _PARAMETERS[name]])
                return Frozen(name, distribution, args, {}, x)
            if hasattr(x, "kwds"):
                return Frozen(name, distribution, x.args, x.kwds, x)
    return None


class Distribution:
    """Stands in for a distribution."""

    __slots__ = ("_name", "_original")

    def __init__(self, name: str, original: Any) -> None:
        self._name = name
        self._original = original

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._original)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if ACTIVE.session is None:
            return self._original(*args, **kwargs)
        return Frozen(self._name, self._original, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._original, name)
        if ACTIVE.session is None or not callable(found):
            return found
        return _method(self._name, name, found)

    def __repr__(self) -> str:
        return repr(self._original)

    def __reduce__(self) -> Any:
        return getattr, (sys.modules["scipy.stats"], self._name)


class Frozen:
    """Stands in for a distribution with its parameters, which may be traced."""

    __slots__ = ("_args", "_distribution", "_kwargs", "_name", "_original")

    def __init__(
        self, name: str, distribution: Any, args: tuple, kwargs: dict, original=None
    ) -> None:
        self._name = name
        self._distribution = distribution
        self._args = args
        self._kwargs = kwargs
        self._original = original

    def __getattr__(self, name: str) -> Any:
        if ACTIVE.session is not None and (
            f"scipy.stats:{self._name}.{name}" in ACCEPT
            or holds_handles((self._args, self._kwargs))
        ):
            method = _method(self._name, name, getattr(self._distribution, name))
            return lambda *x, **named: method(
                *x, *self._args, **{**self._kwargs, **named}
            )
        if self._original is None:
            self._original = self._distribution(*self._args, **self._kwargs)
        return getattr(self._original, name)

    def __repr__(self) -> str:
        return f"<frozen scipy.stats.{self._name}>"


class Ready:
    """Stands in for a function-like object that was made before the trace."""

    __slots__ = ("_make", "_original")

    def __init__(self, original: Any, make: Callable) -> None:
        self._original = original
        self._make = make

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._original)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        session = ACTIVE.session
        if session is None or not holds_handles((args, kwargs)):
            return self._original(*args, **kwargs)
        inner = self._make(self._original)
        return enter(session, inner, args, kwargs, name=inner.name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def __repr__(self) -> str:
        return repr(self._original)


def _method(distribution: str, name: str, original: Callable) -> Callable:
    """A method of a distribution in a trace."""

    def run(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    def call(*args: Any, **kwargs: Any) -> Any:
        session: Session | None = ACTIVE.session
        if session is None:
            return original(*args, **kwargs)
        accept = ACCEPT.get(f"scipy.stats:{distribution}.{name}")
        if accept is None or not holds_handles((args, kwargs)):
            return call_unknown(session, run, args, kwargs)
        spelling = f"scipy.stats.{distribution}.{name}"
        return enter(session, accept, args, kwargs, name=spelling)

    run.__module__ = "scipy.stats"
    run.__name__ = call.__name__ = f"{distribution}.{name}"
    return call
