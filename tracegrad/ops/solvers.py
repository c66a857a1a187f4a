"""SciPy's solvers: ops that call a function of the user's, their region.

`find_root` finds where its region is zero, `quadrature` gives the integral of it;
`integrate` follows the differential equation whose right-hand side it is.  What a
region reads of the outside are leading inputs; behind them stand the solver's own
arrays: a first guess, times.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracegrad.ir.graph import Graph, Node, Value
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import Op

_BOOL, _INT = ArrayType((), np.dtype(bool)), ArrayType((), np.dtype(np.int64), True)
# What a solver tells of its work beside the solution.
REPORTS = {
    ".success": _BOOL,
    ".converged": _BOOL,
    ".status": _INT,
    ".nfev": _INT,
    ".nit": _INT,
    ".njev": _INT,
    ".iterations": _INT,
    ".function_calls": _INT,
    "[1]": ArrayType((), np.dtype(float), True),  # the error that `quad` estimates
}
FIRST = "[0]"
LAST_COLUMN, LAST_ROW = ".y[:, -1]", "[-1]"


@dataclass(frozen=True, slots=True)
class Solver:
    """A call of a solver, but for its arrays and functions.

    Attributes:
        module: where the function is, `scipy.optimize`.
        function: its name there.
        kind: "root", or "point" for one that looks for `f(x) = x`; "minimum" of one
            number, "squares" for the least sum of those of several; "rows" and
            "columns" for the solution of a differential equation, by the axis that one
            time is; "integral".
        data: name of each array that the solver is given.
        layout: how these stand in the call: (keyword or None, how many of them make a
            tuple there, 0 for one that stands alone).
        own: names of the parameters of the user's functions, "x" or "t" and "y".
        options: further keyword arguments, as (name, text of a literal).
        functions: keywords of the functions beside the first one.
        fields: what is read of the result for each output, such as `.x`; "" for all.
    """

    module: str
    function: str
    kind: str
    data: tuple[str, ...]
    layout: tuple[tuple[str | None, int], ...]
    own: tuple[str, ...] = ("x",)
    options: tuple[tuple[str, str], ...] = ()
    functions: tuple[str, ...] = ()
    fields: tuple[str, ...] = ("",)

    def arranged(self, data: Sequence[Any], pack: Callable) -> tuple[list, dict]:
        """The solver's arrays as positional and keyword arguments."""
        rest, args, named = list(data), [], {}
        for keyword, count in self.layout:
            if count:
                x = pack([rest.pop(0) for _ in range(count)])
            else:
                x = rest.pop(0)
            if keyword is None:
                args.append(x)
            else:
                named[keyword] = x
        return args, named


def is_solver(node: Node) -> bool:
    """Whether the node is a call of a solver."""
    return node.op in (find_root, integrate, quadrature)


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a node of a solver, by their meaning.

    Attributes:
        solver: what is called.
        captured: inputs that the user's functions read.
        data: the solver's own inputs, by name.
        region: the user's function.
        inner: its parameters for `captured`.
        own: its other parameters, by name.
        solution: the output that is the solution, if anything reads it.
    """

    solver: Solver
    captured: tuple[Value, ...]
    data: dict[str, Value]
    region: Graph
    inner: list[Value]
    own: dict[str, Value]
    solution: int | None

    @classmethod
    def of(cls, node: Node) -> Parts:
        """The parts of a node."""
        solver: Solver = node.attrs["solver"]
        split = len(node.inputs) - len(solver.data)
        region = node.regions[0]
        found = [k for k, f in enumerate(solver.fields) if f not in REPORTS]
        return cls(
            solver,
            node.inputs[:split],
            dict(zip(solver.data, node.inputs[split:], strict=True)),
            region,
            region.params[:split],
            dict(zip(solver.own, region.params[split:], strict=True)),
            found[0] if found else None,
        )


def _run(*inputs: Any, regions: Sequence[Callable], solver: Solver) -> Any:
    split = len(inputs) - len(solver.data)
    captured = inputs[:split]
    functions = [lambda *own, f=f: f(*captured, *own)[0] for f in regions]
    args, named = solver.arranged(inputs[split:], tuple)
    named.update({key: option(text) for key, text in solver.options})
    named.update(zip(solver.functions, functions[1:], strict=True))
    call = getattr(importlib.import_module(solver.module), solver.function)
    found = call(functions[0], *args, **named)
    outs = [read(found, field) for field in solver.fields]
    return outs[0] if len(outs) == 1 else tuple(outs)


def option(text: str) -> Any:
    """The value of an option."""
    return np.inf if text == "inf" else ast.literal_eval(text)


def read(found: Any, field: str) -> Any:
    """One output of what a solver returned."""
    if field in (LAST_ROW, FIRST, "[1]"):
        return found[int(field[1:-1])]
    if field == LAST_COLUMN:
        return found.y[:, -1]
    return getattr(found, field[1:]) if field else found


def _infer_root(*types: ArrayType, regions: Sequence[Graph], solver: Solver) -> Any:
    return _typed(regions[0].params[-1].type, solver)


def _infer_solution(*types: ArrayType, regions: Sequence[Graph], solver: Solver) -> Any:
    given = dict(zip(solver.data, types[len(types) - len(solver.data) :], strict=True))
    y = ArrayType(given["y"].shape, np.dtype(float))
    if "times" in given:
        n, m = y.shape[0], given["times"].shape[0]
        y = y.with_shape((m, n) if solver.kind == "rows" else (n, m))
    return _typed(y, solver)


def _infer_integral(*types: ArrayType, regions: Sequence[Graph], solver: Solver) -> Any:
    t = regions[0].results[0].type
    single = not t.shape  # a Python float then
    return _typed(ArrayType(t.shape, np.dtype(float), single), solver)


def _typed(t: ArrayType, solver: Solver) -> Any:
    made = tuple([REPORTS.get(field, t) for field in solver.fields])
    return made[0] if len(made) == 1 else made


def _solver(name: str, infer: Callable, noun: str) -> Op:
    """An op with regions; no entry in `OPS`, as those of `ops/control.py`."""
    made = Op(_run, infer)
    made.name, made.noun, made.spelling = name, noun, "a solver"
    return made


find_root = _solver("find_root", _infer_root, "root")
integrate = _solver("integrate", _infer_solution, "y")
quadrature = _solver("quadrature", _infer_integral, "integral")


def stepping(solver: Solver) -> Solver:
    """The same solver from one time to another, of which the last state is kept.

    For the backward part, which goes from time to time.
    """
    options = tuple([(k, v) for k, v in solver.options if k in _OF_STEPS])
    if solver.kind == "rows":
        layout: tuple = ((None, 0), (None, 2))
        data, field = ("y", "start", "stop"), LAST_ROW
    else:
        layout = ((None, 2), (None, 0))
        data, field = ("start", "stop", "y"), LAST_COLUMN
    return Solver(
        solver.module,
        solver.function,
        solver.kind,
        data,
        layout,
        solver.own,
        options,
        (),
        (field,),
    )


# What holds for any system, not for one of a certain size and its Jacobian.
_OF_STEPS = frozenset(
    ["method", "rtol", "atol", "tfirst", "max_step", "min_step", "mxstep"]
    + ["hmax", "hmin", "mxords", "mxordn"]
)
