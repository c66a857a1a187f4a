"""Calls of SciPy's solvers in the user's code.

The user's function is traced into a region; the solver stays SciPy's.  A call in which
nothing is traced just runs.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracegrad.errors import (
    ArgumentError,
    DTypeError,
    ShapeError,
    TracegradError,
    UnsupportedError,
)
from tracegrad.ir.dims import product
from tracegrad.ir.graph import Value
from tracegrad.ir.region import Open
from tracegrad.ir.tree import Leaf
from tracegrad.ir.types import ArrayType
from tracegrad.ops.infer import same_shape, shape_text
from tracegrad.ops.solvers import (
    LAST_COLUMN,
    Solver,
    find_root,
    integrate,
    quadrature,
)
from tracegrad.trace.bodies import record
from tracegrad.trace.boundary import holds_handles, lower, name_result
from tracegrad.trace.buffers import Handle
from tracegrad.trace.callbacks import as_traced
from tracegrad.trace.forks import trace_body
from tracegrad.trace.frames import calling_line
from tracegrad.trace.numpy_api import CALLERS, call_unknown, constant_data
from tracegrad.trace.proxy import make
from tracegrad.trace.session import Session

F8 = np.dtype(float)


@dataclass(frozen=True, slots=True)
class Taken:
    """How a solver takes its arguments.

    Attributes:
        function: parameter that is the user's function.
        data: parameters that are arrays or numbers; with their number, 0 for one.
        functions: parameters that may be functions of the same arguments too.
        fields: what its result has; none if the result is the solution itself.
        kind: that of `Solver`.
        refused: parameters that only their defaults are taken for.
    """

    function: str
    data: tuple[tuple[str, int], ...]
    functions: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    kind: str = "root"
    refused: tuple[str, ...] = ("full_output",)

    @property
    def notes(self) -> str:
        """How it is differentiated."""
        if self.kind == "integral":
            return "the integral of the slope; the estimate of the error is constant"
        if self.kind in _OPTIMA:
            return "by the implicit function theorem, as exact as the minimum is found"
        if self.kind in ("rows", "columns"):
            return "the adjoint equation is solved backwards by the same function"
        return "by the implicit function theorem; the first guess has no derivative"


# Where the slope of the function is zero, not the function.
_OPTIMA = ("minimum", "squares")
_BRACKET = Taken("f", (("a", 0), ("b", 0)))
_FOUND = (".success", ".nfev", ".status")
SOLVERS: dict[str, Taken] = {
    **dict.fromkeys(
        [
            f"scipy.optimize:{name}"
            for name in ("brentq", "brenth", "ridder", "bisect", "toms748")
        ],
        _BRACKET,
    ),
    "scipy.optimize:newton": Taken(
        "func", (("x0", 0), ("x1", 0)), ("fprime", "fprime2")
    ),
    "scipy.optimize:root_scalar": Taken(
        "f",
        (("bracket", 2), ("x0", 0), ("x1", 0)),
        ("fprime", "fprime2"),
        (".root", ".converged", ".iterations", ".function_calls"),
    ),
    "scipy.optimize:root": Taken(
        "fun", (("x0", 0),), ("jac",), (".x", *_FOUND), refused=("callback",)
    ),
    "scipy.optimize:fsolve": Taken("func", (("x0", 0),), ("fprime",)),
    "scipy.optimize:fixed_point": Taken("func", (("x0", 0),), kind="point"),
    "scipy.optimize:minimize": Taken(
        "fun",
        (("x0", 0),),
        ("jac", "hess"),
        (".x", *_FOUND, ".nit"),
        kind="minimum",
        refused=("hessp", "bounds", "constraints", "callback"),
    ),
    "scipy.optimize:minimize_scalar": Taken(
        "fun",
        (),
        fields=(".x", ".success", ".nfev", ".nit"),
        kind="minimum",
        refused=("bounds",),
    ),
    "scipy.optimize:least_squares": Taken(
        "fun",
        (("x0", 0),),
        ("jac",),
        (".x", *_FOUND),
        kind="squares",
        refused=("bounds", "loss", "jac_sparsity", "callback"),
    ),
    "scipy.integrate:quad": Taken(
        "func",
        (("a", 0), ("b", 0)),
        fields=("[0]", "[1]"),
        kind="integral",
        refused=("full_output", "weight", "wvar", "complex_func"),
    ),
    "scipy.integrate:odeint": Taken(
        "func",
        (("y0", 0), ("t", 0)),
        ("Dfun",),
        kind="rows",
        refused=("full_output", "tcrit", "printmessg", "col_deriv"),
    ),
    "scipy.integrate:solve_ivp": Taken(
        "fun",
        (("t_span", 2), ("y0", 0), ("t_eval", 0)),
        ("jac",),
        (".y", ".success", ".nfev", ".status"),
        "columns",
        refused=("dense_output", "events", "vectorized", "lband", "uband"),
    ),
}
# Names of the solver's data in `Solver.data`.
_DATA = {
    "y0": ("y",),
    "t": ("times",),
    "t_eval": ("times",),
    "t_span": ("start", "stop"),
}


def _caller(spelling: str, taken: Taken) -> Callable[..., Any]:
    """What takes a call of a solver: a node of the trace if something is traced."""

    def call_solver(session: Session, function: Any, args: tuple, kwargs: dict) -> Any:
        at = session.place()
        try:
            return _Call(session, function, spelling, taken, args, kwargs).run()
        except TracegradError as error:
            if not holds_handles((args, kwargs)):
                try:
                    return call_unknown(session, function, args, kwargs)
                except Exception as plain:  # it does need the trace
                    raise error.locate(spelling, at) from plain
            raise error.locate(spelling, at) from None

    return call_solver


for _key, _taken in SOLVERS.items():
    CALLERS[_key] = _caller(_key.replace(":", "."), _taken)


class _Call:
    """One call of a solver."""

    def __init__(
        self,
        session: Session,
        function: Any,
        spelling: str,
        taken: Taken,
        args: tuple,
        kwargs: dict[str, Any],
    ) -> None:
        self.session, self.function = session, function
        self.spelling, self.taken = spelling, taken
        self.args, self.kwargs = args, kwargs
        signature = inspect.signature(function)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(str(error)) from None
        given = dict(bound.arguments)
        for p in signature.parameters.values():
            if p.kind is p.VAR_KEYWORD:
                given.update(given.pop(p.name, {}))
        self.given = {k: x for k, x in given.items() if not self._is_default(k, x)}
        self.extra = self._extra(self.given.pop("args", ()))
        self._refuse()

    def _is_default(self, key: str, x: Any) -> bool:
        if x is None:
            return True
        p = inspect.signature(self.function).parameters.get(key)
        simple = type(x) in (bool, int, float, str)
        return (
            p is not None and simple and type(p.default) is type(x) and p.default == x
        )

    def _extra(self, args: Any) -> tuple:
        return args if isinstance(args, tuple) else (args,)

    def _refuse(self) -> None:
        for key in self.taken.refused:
            if self.given.get(key):
                raise UnsupportedError(
                    f"{self.spelling}({key}=...) is not supported on traced values",
                    fix=f"leave out {key}=",
                )

    # ------------------------------------------------------------------- the pieces
    def run(self) -> Any:
        session, taken = self.session, self.taken
        functions, keywords = self._functions()
        data, layout, names = self._data()
        own = self._own(dict(zip(names, data, strict=True)))
        parts = [self._region(function, own, k) for k, function in enumerate(functions)]
        every = [*data, *[v for part in parts for v in part.free()]]
        if all(map(session.is_concrete, every)):
            return call_unknown(session, self.function, self.args, self.kwargs)
        last = taken.kind == "columns" and "t_eval" not in self.given
        fields = taken.fields or ("",)
        if last:
            fields = (LAST_COLUMN, *fields[1:])
        solver = Solver(
            self.spelling.rpartition(".")[0],
            self.spelling.rpartition(".")[2],
            taken.kind,
            names,
            layout,
            tuple(own),
            self._options(),
            keywords,
            fields,
        )
        differential = taken.kind in ("rows", "columns")
        op = integrate if differential else find_root
        op = quadrature if taken.kind == "integral" else op
        node = record(session, op, parts, {"solver": solver}, after=data)
        outs = [make(v, session) for v in node.outputs]
        if not taken.fields:
            name_result(outs[0], session)
            return outs[0]
        if op is quadrature:
            return tuple(outs)
        for v, field in zip(node.outputs, taken.fields, strict=True):
            v.hint = field[1:]
        made: dict[str, Any] = dict(
            zip([f[1:] for f in taken.fields], outs, strict=True)
        )
        if last:
            made["y"] = Columns(outs[0], self.spelling)
        elif differential:
            made["t"] = as_traced(session, self.given["t_eval"])
        found = Found(made, self.spelling)
        if taken.kind in _OPTIMA:
            found._later["fun"] = lambda: functions[0](made["x"], *self.extra)
        return found

    def _functions(self) -> tuple[list[Callable], tuple[str, ...]]:
        main = self.given.get(self.taken.function)
        if not callable(main):
            raise ArgumentError(f"{self.taken.function} is no function: {main!r:.40}")
        functions, keywords = [main], []
        for key in self.taken.functions:
            found = self.given.get(key)
            if callable(found):
                functions.append(found)
                keywords.append(key)
            elif found is not None:
                raise UnsupportedError(
                    f"{self.spelling}({key}={found!r:.20}) is not supported on traced "
                    "values",
                    fix=f"leave out {key}=, or give a function",
                )
        return functions, tuple(keywords)

    def _data(self) -> tuple[list[Value], tuple, tuple[str, ...]]:
        """The arrays, how they are laid out in the call, and their names."""
        values: list[Value] = []
        layout: list[tuple[str | None, int]] = []
        names: list[str] = []
        leading = True
        for key, count in self.taken.data:
            if key not in self.given:
                leading = False
                continue
            x = self.given[key]
            items = list(x) if count else [x]
            if count and len(items) != count:
                raise ArgumentError(f"{key} must have {count} elements: {x!r:.40}")
            layout.append((None if leading and self._by_position(key) else key, count))
            called = _DATA.get(key) or (
                [key] if not count else [f"{key}{i}" for i in "ab"]
            )
            for name, item in zip(called, items, strict=True):
                names.append(name)
                values.append(self._value(name, item))
        return values, tuple(layout), tuple(names)

    def _by_position(self, key: str) -> bool:
        return key in ("a", "b", "x0", "y0", "t", "t_span") and (
            self.taken.fields == () or self.taken.data[0][0] != "bracket"
        )

    def _value(self, name: str, x: Any) -> Value:
        if type(x) in (int, float) and name != "y":
            return self.session.constant(float(x))
        ref = lower(as_traced(self.session, x), [])
        t = ref.type
        if t.kind == "c":
            raise UnsupportedError(
                f"complex numbers in {self.spelling} are not supported",
                fix="solve for the real and the imaginary part",
            )
        ndim = {"y": 1, "times": 1}.get(name, None if name == "x0" else 0)
        if ndim is not None and t.ndim != ndim:
            raise ShapeError(
                f"{self.spelling} takes {name} with {ndim} axes, not of shape "
                f"{shape_text(t.shape)}",
                fix="ravel the state, and reshape it in the function",
            )
        return ref.value

    def _own(self, data: dict[str, Value]) -> dict[str, Value]:
        """The parameters of the user's functions, by what they stand for."""
        kind = self.taken.kind
        if kind in ("rows", "columns"):
            made = {
                "t": Value(ArrayType((), F8), "t", user=True),
                "y": Value(ArrayType(data["y"].type.shape, F8), "y", user=True),
            }
            if kind == "rows" and not self.given.get("tfirst"):
                made = {"y": made["y"], "t": made["t"]}
        else:
            made = {"x": Value(self._unknown(data), "x", user=True)}
        names = _parameters(self.given[self.taken.function], len(made))
        for v, name in zip(made.values(), names, strict=False):
            v.hint = name
        return made

    def _unknown(self, data: dict[str, Value]) -> ArrayType:
        """The type of what is looked for."""
        name = self.spelling.rpartition(".")[2]
        if "x0" not in data or name == "root_scalar":
            return ArrayType((), F8, weak=True)
        t = data["x0"].type
        dtype = t.dtype if t.kind == "f" and not t.weak else F8
        if name == "newton" or name == "fixed_point":
            return ArrayType(t.shape, dtype)
        if self.given.get("method", "hybr") in ("hybr", "lm") or t.ndim == 1:
            return ArrayType((product(t.shape),), F8)
        return ArrayType(t.shape, F8)

    def _region(self, function: Callable, own: dict[str, Value], k: int) -> Open:
        session = self.session
        fresh = {
            key: v if k == 0 else Value(v.type, v.hint, user=True)
            for key, v in own.items()
        }
        values = list(fresh.values())

        def call(*arguments: Any) -> Any:
            out = function(*arguments, *self.extra)
            scalar = isinstance(out, Handle) or not values[0].type.shape
            return (
                out
                if scalar and not isinstance(out, list | tuple)
                else as_traced(session, out)
            )

        body = trace_body(session, call, *[Leaf(v) for v in values])
        if len(body.results) != 1:
            raise ArgumentError(
                f"the function given to {self.spelling} returns {body.result!r:.40}",
                fix="return an array or a number",
            )
        if k == 0:
            self._check(body.results[0].type, fresh)
        name = getattr(function, "__name__", "f")
        if not name.isidentifier():
            name = _NAMES.get(self.taken.kind, "f")
        return Open(name, [], values, body.nodes, body.results)

    def _check(self, t: ArrayType, own: dict[str, Value]) -> None:
        wanted = own["y" if "y" in own else "x"].type
        if self.taken.kind == "minimum":
            wanted = wanted.with_shape(())
        if t.kind == "c":
            raise DTypeError(
                f"the function given to {self.spelling} returns complex numbers",
                fix="return real ones",
            )
        free = self.taken.kind == "squares" and len(t.shape) == 1
        if not free and not same_shape(t.shape, wanted.shape):
            raise ShapeError(
                f"the function given to {self.spelling} returns {t!r} for {wanted!r}",
                fix="return one number for each unknown"
                if self.taken.kind not in _OPTIMA
                else "return one number, or a vector of them for least squares",
            )

    def _options(self) -> tuple[tuple[str, str], ...]:
        known = {self.taken.function, *self.taken.functions}
        known |= {key for key, _ in self.taken.data}
        made = []
        for key, x in self.given.items():
            if key not in known:
                made.append((key, self._option(key, x)))
        return tuple(made)

    def _option(self, key: str, x: Any) -> str:
        x = constant_data(self.session, x, self.function)
        if isinstance(x, np.ndarray | np.generic):
            x = x.tolist()
        if type(x) is float and x == np.inf:
            return "inf"
        try:
            ast.literal_eval(repr(x))
        except (ValueError, SyntaxError):
            raise UnsupportedError(
                f"{self.spelling}({key}={x!r:.30}) is not supported on traced values",
                fix=f"give a number or a string, or leave out {key}=",
            ) from None
        return repr(x)


_NAMES = {
    "integral": "integrand",
    "root": "residual",
    "point": "step",
    "minimum": "objective",
    "squares": "residuals",
    "rows": "rhs",
    "columns": "rhs",
}


def _parameters(function: Callable, count: int) -> list[str]:
    """The names of the first parameters of the user's function."""
    try:
        found: Iterable = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in found if p.kind in kinds][:count]


class Found:
    """What a solver returns: its solution, and what it tells of its work."""

    def __init__(self, parts: dict[str, Any], spelling: str) -> None:
        self._parts = parts
        self._spelling = spelling
        self._later: dict[str, Callable[[], Any]] = {}  # computed where it is read

    def __getattr__(self, name: str) -> Any:
        if name in self._later:
            self._parts[name] = self._later.pop(name)()
        if name in self._parts:
            return self._parts[name]
        if name.startswith("__"):
            raise AttributeError(name)
        raise UnsupportedError(
            f"`.{name}` of what {self._spelling} returns is not known while tracing",
            op=self._spelling,
            at=calling_line(),
            fix="read "
            + ", ".join([f".{key}" for key in (*self._parts, *self._later)]),
        )

    __getitem__ = __getattr__

    def __repr__(self) -> str:
        return f"<result of {self._spelling}>"


class Columns:
    """The solution at the steps that a solver chose: the last of them can be read."""

    def __init__(self, last: Any, spelling: str) -> None:
        self._last = last
        self._spelling = spelling

    def __getitem__(self, key: Any) -> Any:
        if (
            type(key) is tuple
            and len(key) == 2
            and type(key[1]) is int
            and key[1] == -1
        ):
            return self._last if key[0] == slice(None) else self._last[key[0]]
        raise self._unknown()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__array__":
            raise AttributeError(name)
        raise self._unknown()

    def _unknown(self) -> UnsupportedError:
        return UnsupportedError(
            "how many steps the solver takes is not known while tracing",
            op=self._spelling,
            at=calling_line(),
            fix="give t_eval=, or read the last state: y[:, -1]",
        )
