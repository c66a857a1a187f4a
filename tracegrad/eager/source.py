"""`loss.source()`: the program that was just run, forward and backward, as text."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tracegrad.autodiff.reverse import pull_back
from tracegrad.codegen.source import Source, emit
from tracegrad.eager.naming import Found, look_around, name_values
from tracegrad.eager.tape import Tape, read
from tracegrad.eager.tensor import Tensor
from tracegrad.errors import ArgumentError, TracegradError
from tracegrad.ir.graph import BACKWARD, Const, Graph, Node, Value
from tracegrad.ir.location import Location
from tracegrad.ir.routine import Parameter, Pullback, Routine
from tracegrad.ir.tree import Branch, Leaf, Tree
from tracegrad.ops.create import zeros_like
from tracegrad.ops.record import Builder, Ref
from tracegrad.ops.select import conj
from tracegrad.passes.pipeline import optimise
from tracegrad.passes.reroll import reroll
from tracegrad.trace.frames import calling_line

_PURPOSE = {
    "": "{}, as it was run.",
    "_vjp": "Value and pullback of {} with respect to {}.",
    "_value_and_grad": "Value and gradient of {} with respect to {}.",
}


def source(self: Tensor) -> Source:
    """The program that made this tensor, with its gradient, as readable source.

    Leaves and arrays without history are its parameters, under the names of the
    variables and attributes that hold them; Python numbers stand in the text.  A real
    scalar gives `<name>_value_and_grad`, which returns the value and a gradient for
    each leaf; any other tensor `<name>_vjp`.  What was computed without history (a
    comparison, code under `no_grad`) is a parameter too.

    Returns:
        The source: `str()`, `.save(path)`, `.load()`, `.lines`.

    Raises:
        ArgumentError: the tensor has no history.
        UnsupportedError: there is a function of the user's own in the graph.

    Example:
        >>> import tracegrad.eager as torch
        >>> w = torch.ones(3, requires_grad=True)
        >>> loss = (w * w).sum()
        >>> "def loss_value_and_grad(w):" in str(loss.source())
        True
    """
    return _source(self, look_around())


def save_source(self: Tensor, path: str | os.PathLike) -> Path:
    """Write `source()` as a module that needs NumPy only.

    It has the function itself, its pullback, and for a real scalar its gradient.

    Args:
        path: of the Python file; its folder must exist.

    Returns:
        The path of the file.
    """
    return _source(self, look_around()).save(path)


def _source(self: Tensor, found: Found) -> Source:
    node = self._node
    if node is None or self.is_leaf:
        what = "has no history" if node is None else "is a leaf, which nothing made"
        raise ArgumentError(
            f"the tensor of shape {list(self.shape)} {what}",
            op="source",
            at=calling_line(),
            fix="call it on the result of operations on a tensor that requires grad",
        )
    try:
        tape = read(node)
    except TracegradError as error:
        raise error.locate("source", calling_line()) from None
    name = found.tensors.get(id(self), "out")
    name_values(tape, found)
    out = tape.made[node[1]]
    out.hint, out.user = name, True
    scalar = not self._data.ndim and self._data.dtype.kind == "f"
    main = "_value_and_grad" if scalar else "_vjp"
    modes = ["", "_vjp"] if scalar else [""]

    def others() -> list[Routine]:
        out.hint = "out"  # the saved module has a function of the other name
        return [_routine(tape, out, name, mode, found.function) for mode in modes]

    return emit([_routine(tape, out, name, main, found.function)], others=others)


def _routine(
    tape: Tape, out: Value, name: str, mode: str, at: Location | None
) -> Routine:
    """The function itself, or its derivative, as a function to emit."""
    steps = reroll(tape.steps, [out])
    params, wrt = list(tape.params), list(tape.leaves)
    pullback: Pullback | None = None
    builder = Builder()
    found: list[Value] = [out]
    if mode == "_vjp":
        cotangent = Value(out.type, "d_out", wrt=out)
        params.append(cotangent)
        found += gradients(builder, tape, steps, out, builder.wrap(cotangent))
    elif mode:
        one = 1.0 if out.type.dtype == np.float64 else out.type.dtype.type(1)
        found += gradients(builder, tape, steps, out, builder.wrap(Const(one)))
    graph = optimise(Graph(name + mode, params, [*steps, *builder.nodes], found))
    result: Tree = Leaf(graph.results[0])
    grads = [Leaf(v) for v in graph.results[1:]]
    if mode == "_vjp":
        pullback = Pullback(Leaf(cotangent), _tuple(grads))
    elif mode:
        result = _tuple([result, grads[0] if len(grads) == 1 else _tuple(grads)])
    title = f"`{name}`" + (f" ({at.where})" if at else "")
    return Routine(
        name=name + mode,
        of=name,
        at=at,
        parameters=tuple(map(parameter, tape.params)),
        graph=graph,
        result=result,
        purpose=_PURPOSE[mode].format(title, _listed([f"`{v.hint}`" for v in wrt])),
        pullback=pullback,
        wrt=frozenset(wrt),
    )


def gradients(
    builder: Builder, tape: Tape, steps: Sequence[Node], out: Value, ct: Ref
) -> list[Value]:
    """Record the backward part: a cotangent for each leaf, zeros where none arrives."""
    wrt = list(tape.leaves)
    before, builder.phase = builder.phase, BACKWARD
    # Rules follow JAX's convention for complex numbers, PyTorch's user sees the other.
    ct = conj(ct) if ct.dtype.kind == "c" else ct
    made = pull_back(builder, steps, [out], [ct], wrt, tape.rules)
    values = []
    for value, found in zip(wrt, made, strict=True):
        if found is None:
            found = zeros_like(builder.wrap(value))
        elif found.dtype.kind == "c":
            found = conj(found)
        found.value.wrt = found.value.wrt or value
        values.append(found.value)
    builder.phase = before
    return values


def parameter(value: Value) -> Parameter:
    """A plain parameter, called what the hint says."""
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return Parameter(str(value.hint), kind, Leaf(value))


def _tuple(parts: Sequence[Tree]) -> Branch:
    return Branch("tuple", tuple, tuple(range(len(parts))), tuple(parts), tuple)


def _listed(names: list[str]) -> str:
    if not names[1:]:
        return names[0] if names else "nothing"
    return f"{', '.join(names[:-1])} and {names[-1]}"


Tensor.source = source  # type: ignore[attr-defined]
Tensor.save_source = save_source  # type: ignore[attr-defined]
