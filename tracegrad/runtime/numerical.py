"""`numerical`: a derivative by differences, for a function that has no rule."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, DTypeError
from tracegrad.ops.outside import numerical as numerical_op
from tracegrad.runtime.implicit import called_by_name
from tracegrad.trace.interpose import original_of
from tracegrad.trace.session import ACTIVE
from tracegrad.trace.tracer import is_traced

_METHODS = ("central", "complex")


def numerical(f: Callable | None = None, *, method: str = "central") -> Any:
    """A function whose derivative is computed by differences, as a last resort.

    The function is not traced but called, by its name in the source; the derivative is
    `central_differences(f, ...)` there.  It costs two calls for each element of each
    argument that is differentiated, and has about ten digits; a second derivative has
    about five.  Forward mode takes two calls for each argument.

    Args:
        f: takes real arrays and numbers by position, returns one real array.  It must
            depend on its arguments alone.
        method: "central" differences, or "complex" for `imag(f(x + i h)) / h`, which
            is exact to rounding and takes one call for an element: for a function that
            is analytic and takes complex numbers.

    Returns:
        A function with the same results.  As a decorator it takes `method=` too.

    Raises:
        ArgumentError: `f` is no function, or `method` has another value.
        DTypeError: an argument or the result is complex.

    Example:
        >>> from scipy.special import mathieu_a
        >>> level = numerical(lambda q: mathieu_a(2, q))
        >>> round(float(grad(level)(1.0)), 6)
        0.725679
    """
    if method not in _METHODS:
        raise ArgumentError(
            f"method={method!r} is none of {', '.join(map(repr, _METHODS))}",
            op="tg.numerical",
            fix='leave it out, or pass method="complex"',
        )
    if f is None:
        return functools.partial(numerical, method=method)
    function = original_of(f)
    if not callable(function):
        raise ArgumentError(
            f"tg.numerical takes a function, not {type(f).__name__}: {f!r:.40}",
            op="tg.numerical",
            fix="pass a function of arrays",
        )
    wrapped = _wrapped(function, method)
    functools.update_wrapper(wrapped, function, updated=())
    if isinstance(function, np.ufunc):
        # Its own signature has `out=` and `where=`.
        wrapped.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(f"x{i}", inspect.Parameter.POSITIONAL_ONLY)
                for i in range(function.nin)
            ]
        )
    return wrapped


def _wrapped(function: Callable, method: str) -> Callable:
    name = getattr(function, "__name__", type(function).__name__)

    def wrapped(*args: Any) -> Any:
        session = ACTIVE.session
        if session is None or not any(map(is_traced, args)):
            return function(*args)
        attrs = {"method": method}
        spelled = name if name.isidentifier() else "function"
        out = called_by_name(session, function, spelled, args, numerical_op, attrs)
        for x in (*args, out):
            if np.iscomplexobj(x) if not is_traced(x) else x.dtype.kind == "c":
                raise DTypeError(
                    f"{name} is given or returns complex numbers, which tg.numerical "
                    "does not differentiate",
                    op="tg.numerical",
                    at=session.place(),
                    fix="wrap a function of the real and the imaginary part",
                )
        return out

    return wrapped
