"""Functions of the user's that are not traced but called by name.

A solver has a derivative around it (`runtime/implicit.py`); what `tg.numerical` wraps
has one by differences, as generated code shows: `central_differences(f, (x,), 0, ct)`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy as xp

from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import ACCEPT, Op
from tracegrad.ops.library import Library
from tracegrad.ops.record import type_of

jax, numpy = Library("jax"), Library("numpy", jax="numpy")


@dataclass(frozen=True, slots=True, eq=False)
class Outside:
    """A function that generated code calls.

    Attributes:
        function: takes arrays, returns one array.
        name: that it is called by.
        type: of its result.
    """

    function: Callable[..., Any]
    name: str
    type: ArrayType

    @property
    def home(self) -> tuple[str, str] | None:
        """The module that has the function, the most public one, and its name there."""
        name = getattr(self.function, "__name__", "")
        stem = getattr(self.function, "__module__", None) or ""
        parts = stem.split(".") if stem else []
        modules = [".".join(parts[: k + 1]) for k in range(len(parts))]
        if isinstance(self.function, np.ufunc):
            modules += ["numpy", "scipy.special"]
        for module in modules:
            there = getattr(sys.modules.get(module), name, None)
            if there is self.function and module != "__main__":
                return module, name
        return None

    @property
    def importable(self) -> bool:
        """Whether a module has the function under its name."""
        return self.home is not None


def _run(*args: Any, function: Outside) -> Any:
    found = function.function(*args)  # not one expression: it has no template
    return np.asarray(found)


# No entry of the table of ops: transformations alone record it, with a derivative
# around it.
outside = Op(_run, lambda *types, function: function.type)
outside.name, outside.spelling, outside.noun = "outside", "a call", "solution"


def on_host(function, shape, dtype, *args):
    """`function`, which takes NumPy arrays, called out of compiled JAX code."""

    def called(*arrays):
        found = function(*[numpy.asarray(x)[()] for x in arrays])
        return numpy.asarray(found, dtype)

    out = jax.ShapeDtypeStruct(shape, dtype)
    return jax.pure_callback(called, out, *args, vmap_method="sequential")


# --------------------------------------------------------- derivatives by differences
def central_differences(function, args, position, ct):
    """The cotangent of one argument: `ct` times the slope of `function` in it.

    The slope in each element is `(f(x + h) - f(x - h)) / (2 h)`, with the step at which
    the errors of truncation and of rounding are of one size.
    """
    x = xp.array(
        args[position], dtype=xp.result_type(xp.asarray(args[position]), xp.float32)
    )
    step = float(xp.finfo(x.dtype).eps) ** (1 / 3)
    d_x = xp.empty_like(x)
    for i in xp.ndindex(x.shape):
        high, low = x.copy(), x.copy()
        high[i] += step * max(1.0, abs(float(x[i])))
        low[i] -= step * max(1.0, abs(float(x[i])))
        above = function(*args[:position], high[()], *args[position + 1 :])
        below = function(*args[:position], low[()], *args[position + 1 :])
        rise = xp.subtract(above, below) / (high[i] - low[i])
        d_x[i] = xp.sum(ct * rise)
    return d_x


def complex_steps(function, args, position, ct):
    """The cotangent of one argument: `ct` times the slope of `function` in it.

    The slope in each element is `imag(f(x + i h)) / h`, which has no error of rounding:
    for a function of which every step is analytic (W. Squire and G. Trapp, "Using
    complex variables to estimate derivatives of real functions", 1998).
    """
    x = xp.array(args[position], dtype=complex)
    d_x = xp.empty(x.shape)
    for i in xp.ndindex(x.shape):
        moved = x.copy()
        moved[i] += 1e-30j
        out = function(*args[:position], moved[()], *args[position + 1 :])
        d_x[i] = xp.sum(ct * xp.imag(out)) / 1e-30
    return d_x


def central_difference_along(function, args, position, t):
    """The tangent of the result, for a tangent of one argument."""
    x = xp.asarray(
        args[position], dtype=xp.result_type(xp.asarray(args[position]), xp.float32)
    )
    size = float(xp.max(xp.abs(t), initial=0.0))
    step = float(xp.finfo(x.dtype).eps) ** (1 / 3)
    step = step * max(1.0, float(xp.max(xp.abs(x), initial=0.0))) / (size or 1.0)
    above = function(*args[:position], x + step * t, *args[position + 1 :])
    below = function(*args[:position], x - step * t, *args[position + 1 :])
    return xp.subtract(above, below) / (2.0 * step)


def complex_step_along(function, args, position, t):
    """The tangent of the result, for a tangent of one argument."""
    moved = args[position] + 1e-30j * xp.asarray(t)
    out = function(*args[:position], moved, *args[position + 1 :])
    return xp.imag(out) / 1e-30


HELPERS = {
    ("pull", "central"): central_differences,
    ("pull", "complex"): complex_steps,
    ("push", "central"): central_difference_along,
    ("push", "complex"): complex_step_along,
}


def helper_of(op: Op, attrs: dict[str, Any]) -> Callable[..., Any] | None:
    """The function that a derivative by differences is emitted as."""
    if op is pulled or op is pushed:
        return HELPERS["pull" if op is pulled else "push", attrs["method"]]
    return None


def _by_differences(name: str, run: Callable, infer: Callable, noun: str) -> Op:
    made = Op(run, infer)
    made.name, made.spelling, made.noun = name, "tg.numerical", noun
    return made


def _run_numerical(*args: Any, function: Outside, method: str) -> Any:
    found = function.function(*args)
    return np.asarray(found)[()]


def _run_pulled(ct: Any, *args: Any, function: Outside, method: str, position: int):
    helper = HELPERS["pull", method]
    return helper(function.function, args, position, ct)


def _run_pushed(t: Any, *args: Any, function: Outside, method: str, position: int):
    helper = HELPERS["push", method]
    return helper(function.function, args, position, t)


def _infer_pulled(ct: ArrayType, *types: ArrayType, position: int, **_: Any) -> Any:
    return types[position].strong


numerical = _by_differences(
    "numerical", _run_numerical, lambda *types, function, method: function.type, "value"
)
pulled = _by_differences("pulled_by_differences", _run_pulled, _infer_pulled, "slope")
pushed = _by_differences(
    "pushed_by_differences",
    _run_pushed,
    lambda t, *types, function, **_: function.type.strong,
    "slope",
)


def _numerical_rule(ct, y, *xs, function, method):
    attrs = {"function": function, "method": method}
    made = [
        pulled(ct, *xs, position=k, **attrs) if type_of(x).differentiable else None
        for k, x in enumerate(xs)
    ]
    return made if len(xs) > 1 else made[0]


def _numerical_tangent(ts, y, *xs, function, method):
    ts = ts if type(ts) is tuple else (ts,)
    attrs = {"function": function, "method": method}
    parts = [
        pushed(t, *xs, position=k, **attrs) for k, t in enumerate(ts) if t is not None
    ]
    return functools.reduce(lambda a, b: a + b, parts)


def _between(f, xs, position, t):
    """The slope of what `f` makes of the arguments, on the way `t` of one of them."""
    largest = ACCEPT[np.max](ACCEPT[np.abs](ACCEPT[np.asarray](t)))
    step = 1e-4 / (largest + 1e-300)
    high = [x + step * t if k == position else x for k, x in enumerate(xs)]
    low = [x - step * t if k == position else x for k, x in enumerate(xs)]
    return (f(high) - f(low)) / (2.0 * step)


def _second(ct, xs, moved, t, attrs):
    """By each argument: the slope of `ct` times the slope along `t` of one of them."""
    return [
        _between(lambda ys, k=k: pulled(ct, *ys, position=k, **attrs), xs, moved, t)
        if type_of(x).differentiable
        else None
        for k, x in enumerate(xs)
    ]


def _pulled_rule(u, d_x, ct, *xs, function, method, position):
    attrs = {"function": function, "method": method}
    along = pushed(u, *xs, position=position, **attrs)
    return [along, *_second(ct, xs, position, u, attrs)]


def _pushed_rule(ct, out, t, *xs, function, method, position):
    attrs = {"function": function, "method": method}
    back = pulled(ct, *xs, position=position, **attrs)
    return [back, *_second(ct, xs, position, t, attrs)]


def _tangent(slope):
    """Forward mode of a slope, which is linear in its first input."""

    def rule(ts, out, first, *xs, **attrs):
        parts = [] if ts[0] is None else [slope()(ts[0], *xs, **attrs)]
        for k, t in enumerate(ts[1:]):
            if t is not None:
                made = _between(lambda ys: slope()(first, *ys, **attrs), xs, k, t)
                parts.append(made)
        return functools.reduce(lambda a, b: a + b, parts)

    return rule


numerical.rule, numerical.tangent = _numerical_rule, _numerical_tangent
pulled.rule, pulled.tangent = _pulled_rule, _tangent(lambda: pulled)
pushed.rule, pushed.tangent = _pushed_rule, _tangent(lambda: pushed)
