"""Derivatives of values that a solver finds: `implicit_root` and `fixed_point`.

At a root `r(x, *args) = 0`, however it was found, the implicit function theorem gives
`dx/dargs = -(dr/dx)^-1 dr/dargs`.  So the solver is called as it is, once, and the
derivative solves one linear system.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.codegen.names import identifier
from tracegrad.errors import (
    ArgumentError,
    ControlFlowError,
    ConversionError,
    ShapeError,
)
from tracegrad.ir.graph import Node, Value
from tracegrad.ir.types import ArrayType, Dim
from tracegrad.ops.define import Op
from tracegrad.ops.infer import shape_text
from tracegrad.ops.outside import Outside, outside
from tracegrad.runtime.compiled import vjp
from tracegrad.runtime.custom import custom_vjp
from tracegrad.runtime.jacobian import jacrev
from tracegrad.runtime.transform import binder_of
from tracegrad.trace.boundary import lower
from tracegrad.trace.buffers import DEPTH
from tracegrad.trace.demand import peek
from tracegrad.trace.loops import while_loop
from tracegrad.trace.proxy import make
from tracegrad.trace.session import ACTIVE
from tracegrad.trace.tracer import active, is_traced

_NAMED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def implicit_root(solve: Callable, residual: Callable) -> Callable:
    """A root found by any solver, with derivatives.

    Args:
        solve: takes arrays and numbers `*args`, returns `x` with `residual(x, *args)`
            zero.  It is not traced but called, by its name in the source: SciPy's
            solvers do, with tolerances as close as the derivative should be.
        residual: takes `x` and `*args`, returns an array of the shape of `x`.

    Returns:
        A function of `*args` that returns `x`.

    Raises:
        ShapeError: the residual has another number of elements than `x`.

    Example:
        >>> root = implicit_root(lambda a: np.sqrt(a), lambda x, a: x * x - a)
        >>> float(tg.grad(root)(4.0))
        0.25
    """
    binder = binder_of(solve, "tg.implicit_root")
    binder_of(residual, "tg.implicit_root")

    def primal(*args: Any) -> Any:
        return _called(solve, binder.name, args)

    # Not the solver's own name, which it is called by.
    return _with_rule(primal, residual, solve, f"{binder.name}_root", binder.signature)


def fixed_point(
    step: Callable, tolerance: float = 1e-12, max_steps: int = 10_000
) -> Callable:
    """The point that `step` leaves where it is, found by repeating it; differentiable.

    Args:
        step: takes `x` and `*args`, returns the next `x`; it must contract.
        tolerance: stop once no element moves by more.
        max_steps: stop after as many steps in any case.

    Returns:
        A function of `start` and `*args` that returns the fixed point.  It does not
        depend on `start`, by which its derivative is zero.

    Example:
        >>> point = fixed_point(lambda x, a: 0.5 * (x + a / x))
        >>> float(tg.grad(point, argnums=1)(1.0, 4.0))
        0.25
    """
    binder = binder_of(step, "tg.fixed_point")

    def primal(start: Any, *args: Any) -> Any:
        def moves(carry: tuple) -> Any:
            count, x, before = carry
            far = np.max(np.abs(x - before)) > tolerance
            return np.logical_and(far, count < max_steps)

        def turn(carry: tuple) -> tuple:
            count, x, _ = carry
            return count + 1, step(x, *args), x

        first = (1, step(start, *args), start)
        if not active():
            while moves(first):
                first = turn(first)
            return first[1]
        return while_loop(moves, turn, first)[1]

    def residual(x: Any, start: Any, *args: Any) -> Any:
        return step(x, *args) - x

    first, *rest = binder.signature.parameters.values()
    start = first.replace(name="start") if first.kind in _NAMED else first
    signature = binder.signature.replace(parameters=[start, *rest])
    return _with_rule(primal, residual, step, binder.name, signature)


def _with_rule(
    primal: Any, residual: Callable, of: Callable, name: str, signature: Any
) -> Callable:
    """The root as a function whose pullback is by the implicit function theorem."""
    primal.__name__ = primal.__qualname__ = name
    primal.__doc__, primal.__wrapped__ = getattr(of, "__doc__", None), of
    primal.__signature__ = signature
    root = custom_vjp(primal)

    def fwd(*args: Any) -> tuple:
        x = root(*args)
        return x, (x, args)

    def bwd(saved: tuple, ct: Any) -> tuple:
        x, args = saved
        rows = jacrev(residual)(x, *args)
        if np.ndim(x):
            count = np.size(x)
            rows = rows if np.ndim(x) == 1 else np.reshape(rows, (count, count))
            flat = ct if np.ndim(x) == 1 else np.reshape(ct, (count,))
            weights = np.linalg.solve(rows.T, -flat)
            weights = weights if np.ndim(x) == 1 else np.reshape(weights, np.shape(x))
        else:
            weights = -ct / rows
        out, pullback = vjp(lambda *a: residual(x, *a), *args)
        _check(out, x, name)
        return pullback(weights)

    fwd.__name__, bwd.__name__ = f"{name}_fwd", f"{name}_bwd"
    root.defvjp(fwd, bwd)
    return root


def _check(out: Any, x: Any, name: str) -> None:
    if np.shape(out) != np.shape(x):
        raise ShapeError(
            f"the residual has the shape {shape_text(np.shape(out))}, the root "
            f"{shape_text(np.shape(x))}",
            op=name,
            fix="return one equation for each unknown",
        )


def _called(solve: Callable, name: str, args: tuple) -> Any:
    """The solver's result: an array, or a call in the trace that is running."""
    session = ACTIVE.session
    if session is None:
        return solve(*args)
    return called_by_name(session, solve, name, args, outside, {})


def called_by_name(
    session: Any, function: Callable, name: str, args: tuple, op: Op, attrs: dict
) -> Any:
    """A call of a function that is not traced: a node of `op`, and its value now.

    Raises:
        ArgumentError: an argument is neither an array nor a number.
        ConversionError: the shape of the result is not known, for want of values.
    """
    session.locate()
    builder = session.builder
    values: list[Value] = []
    for x in args:
        if not (is_traced(x) or np.ndim(x) or isinstance(x, int | float | np.generic)):
            raise ArgumentError(
                f"{name} takes arrays and numbers, not {type(x).__name__}: {x!r:.40}",
                op=name,
                at=session.place(),
                fix="let the function close over everything else",
            )
        values.append(lower(x, []).value if is_traced(x) else builder.lift(x))
    if session.values is None or DEPTH.bodies:
        raise ConversionError(
            f"the shape of what {name} returns is not known from the types alone",
            op=name,
            at=session.place(),
            fix="call the function, or ask for its source, with arrays"
            if session.values is None
            else "call it outside of the body of a loop or a branch",
        )
    try:
        data = [session.demand.value(v) for v in values]
        known = session.demand._data
    except ControlFlowError:  # of tg.vmap
        data, known = peek(session, values), {}
    found = np.asarray(function(*data))
    shape = _as_symbolic(found.shape, values, data)
    called = Outside(function, identifier(name), ArrayType(shape, found.dtype))
    out = Value(called.type)
    given = {"function": called, **attrs}
    builder.append(Node(op, tuple(values), (out,), given, builder.place()))
    known[out] = found
    return make(out, session)


def _as_symbolic(shape: tuple, values: list[Value], data: list[Any]) -> tuple:
    """The shape of the result, with the sizes of an argument that has it too.

    Raises:
        ConversionError: its sizes are those of no argument, so that it may depend on
            the symbolic sizes in an unknown way.
    """
    for v, x in zip(values, data, strict=True):
        if np.shape(x) == shape:
            return v.type.shape
    if any(isinstance(s, Dim) for v in values for s in v.type.shape):
        raise ConversionError(
            "how the size of what a solver finds depends on those of its arguments is "
            "not known",
            fix="call it with one set of shapes",
        )
    return shape
