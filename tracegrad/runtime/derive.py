"""From a traced function to the functions that are emitted: itself, its derivatives.

Each derivation shares the forward nodes of one trace and records its own backward
nodes, so a `Source` can be asked for all of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tracegrad.autodiff.forward import Tangents, push_forward
from tracegrad.autodiff.reverse import pull_back
from tracegrad.errors import ArgumentError, DTypeError, ShapeError, TracegradError
from tracegrad.ir.graph import BACKWARD, FORWARD, Const, Graph, Node, Value
from tracegrad.ir.location import Location
from tracegrad.ir.routine import Parameter, Pullback, Routine
from tracegrad.ir.tree import Branch, Leaf, Static, Tree, leaves, map_leaves
from tracegrad.ops.call import walk_calls
from tracegrad.ops.create import zeros_like
from tracegrad.ops.join import looped
from tracegrad.ops.record import Builder, Ref
from tracegrad.passes.pipeline import optimise
from tracegrad.passes.reroll import reroll
from tracegrad.runtime.inlined import Inlined
from tracegrad.runtime.options import Options

_P = inspect.Parameter
MODES = (
    "function",
    "grad",
    "value_and_grad",
    "elementwise_grad",
    "vjp",
    "linearize",
)


@dataclass(slots=True)
class Program:
    """A traced function.

    Attributes:
        name: of the user's function.
        at: where it starts.
        doc: its docstring.
        parameters: in the user's order, with the kinds of the user's signature.
        params: the values of all leaves that are traced.
        nodes: the forward part.
        result: what the function returned; leaves hold values.
        sizes: symbolic size -> where it is read.
        deciding: makes the context in which questions about sizes are answered.
        notes: further lines for the docstring of the emitted module.
        inlined: the transformation, if that is what was traced.
    """

    name: str
    at: Location | None
    doc: str | None
    parameters: tuple[Parameter, ...]
    params: list[Value]
    nodes: list[Node]
    result: Tree
    sizes: dict[str, tuple[Value, int]]
    deciding: Callable[[], AbstractContextManager] = nullcontext
    notes: tuple[str, ...] = field(default=())
    inlined: Inlined | None = None

    @property
    def of(self) -> str:
        """The name of the user's function."""
        return self.inlined.of if self.inlined else self.name

    @property
    def title(self) -> str:
        """The function as docstrings name it: `loss` (model.py:4)."""
        where = f" ({self.at.where})" if self.at else ""
        return f"`{self.of}`{where}"


def routine_name(name: str, mode: str) -> str:
    """The name of an emitted function."""
    return name if mode == "function" else f"{name}_{mode}"


def derive(
    program: Program, options: Options, wrt: Sequence[int], one: bool
) -> Routine:
    """One function to emit.

    Args:
        program: the traced function.
        options: what to make; their mode is one of `MODES`.
        wrt: positions of the parameters to differentiate.
        one: whether a gradient stands alone, not in a tuple.

    Raises:
        ShapeError: the gradient of a result that is no scalar.
        DTypeError: the gradient of a result that is not real.
        ArgumentError: the function returned no arrays.
    """
    op, mode = options.op, options.mode
    result = checked_result(program, op)
    nodes, params = _in_phases(program.nodes, mode), program.params
    if options.reroll and mode != "linearize":  # forward mode has no loops yet
        nodes = reroll(nodes, values_of([result]))
    pullback: Pullback | None = None
    builder = Builder()
    if mode != "function":
        value, aux = split_aux(result, options.has_aux, op, program.at)
        targets = [program.parameters[i].tree for i in wrt]
        with program.deciding():
            if mode == "vjp":
                pullback = _pulled(builder, nodes, value, targets)
            elif mode == "linearize":
                names = [f"t_{program.parameters[i].name}" for i in wrt]
                pullback = _pushed(builder, nodes, value, targets, names)
            else:
                grads = gradients(builder, nodes, value, targets, options, program.at)
                result = arranged(mode, value, aux, grads, one)
    if pullback is not None:
        params = params + values_of([pullback.cotangent])
    name = routine_name(program.name, mode)
    found = values_of([result] + ([pullback.result] if pullback else []))
    graph = Graph(name, params, nodes + builder.nodes, found, program.sizes)
    with program.deciding():
        graph = optimise(graph, options.optimize)
    final = iter(graph.results)  # in the order of the leaves, as before
    result = map_leaves(result, lambda _: next(final))
    if pullback is not None:
        pullback.result = map_leaves(pullback.result, lambda _: next(final))
    return Routine(
        name=name,
        of=program.of,
        at=program.at,
        parameters=tuple(map(_written, program.parameters)),
        graph=graph,
        result=result,
        purpose=_purpose(program, mode, wrt),
        pullback=pullback,
        doc=program.doc,
        notes=(*program.notes, *_loops(graph)),
        wrt=frozenset(values_of([program.parameters[i].tree for i in wrt])),
    )


def _loops(graph: Graph) -> list[str]:
    """What the docstring says of operations that are written once per example."""
    names = [n.attrs["of"] for n in walk_calls(graph) if n.op is looped]
    return [
        f"{name} has no batched form: it is written once for each example."
        for name in dict.fromkeys(names)
    ]


def _in_phases(nodes: Sequence[Node], mode: str) -> list[Node]:
    """The nodes of a program that may hold derivatives of its own.

    To what is differentiated again they are all forward; a function shows its phases
    if the first comes before the second.
    """
    phases = [node.phase for node in nodes]
    if mode == "function" and phases == sorted(phases, reverse=True):
        return list(nodes)
    return [n if n.phase == FORWARD else n.in_phase(FORWARD) for n in nodes]


def _written(parameter: Parameter) -> Parameter:
    """The parameter as the emitted function has it: `*args` are given one by one."""
    kind = parameter.kind
    if kind is _P.VAR_POSITIONAL:
        kind = _P.POSITIONAL_OR_KEYWORD
    elif kind is _P.VAR_KEYWORD:
        kind = _P.KEYWORD_ONLY
    return replace(parameter, kind=kind)


def _purpose(program: Program, mode: str, wrt: Sequence[int]) -> str:
    if mode == "function":
        if program.inlined is not None:
            return program.inlined.purpose(program.title)
        return f"{program.title}, as it was traced."
    names = [f"`{program.parameters[i].name}`" for i in wrt]
    listed = " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
    what = {
        "grad": "Gradient of",
        "elementwise_grad": "Derivative of each element of",
        "value_and_grad": "Value and gradient of",
        "vjp": "Value and pullback of",
        "linearize": "Value and pushforward of",
    }[mode]
    return f"{what} {program.title} with respect to {listed}."


# ----------------------------------------------------------------------- results
def checked_result(program: Program, op: str) -> Tree:
    """The result with numbers as constants.

    Raises:
        ArgumentError: there is no array and no number in it.
    """
    result = as_values(program.result)
    if not any(True for _ in leaves(result)):
        what = "None" if _is_none(result) else "no array and no number"
        raise ArgumentError(
            f"{program.name}() returned {what}",
            op=op,
            at=program.at,
            fix="return an array or a scalar (is a return statement missing?)",
        )
    return result


def as_values(tree: Tree) -> Tree:
    """The tree with plain numbers and arrays as constants."""
    if isinstance(tree, Static):
        if type(tree.value) in (int, float, complex):
            return Leaf(Const(tree.value))
        if isinstance(tree.value, np.ndarray | np.generic):
            return Leaf(Const(tree.value))
    if isinstance(tree, Branch):
        return replace(tree, children=tuple(map(as_values, tree.children)))
    return tree


def _is_none(tree: Tree) -> bool:
    return isinstance(tree, Static) and tree.value is None


def split_aux(
    result: Tree, has_aux: bool, op: str, at: Location | None
) -> tuple[Tree, Tree | None]:
    """`(value, aux)` of a result.

    Raises:
        ArgumentError: with `has_aux`, the function returned no pair.
    """
    if not has_aux:
        return result, None
    if isinstance(result, Branch) and result.kind == "tuple":
        if len(result.children) == 2:
            return result.children
    raise ArgumentError(
        "with has_aux=True the function must return a pair (value, aux), "
        f"not {_described(result)}",
        op=op,
        at=at,
        fix="return value, aux",
    )


def _described(result: Tree) -> str:
    if isinstance(result, Branch):
        return f"a {result.type.__name__} of {len(result.children)}"
    if isinstance(result, Static):
        return repr(result.value)
    return f"one array of type {result.value.type!r}"


def tuple_of(parts: Sequence[Tree]) -> Tree:
    """A tuple with these parts."""
    return Branch("tuple", tuple, tuple(range(len(parts))), tuple(parts), tuple)


def arranged(
    mode: str,
    value: Tree,
    aux: Tree | None,
    grads: Sequence[Tree],
    one: bool,
) -> Tree:
    """The result of `grad` or `value_and_grad`, by JAX's conventions."""
    grad = grads[0] if one else tuple_of(grads)
    if mode == "value_and_grad":
        return tuple_of([value if aux is None else tuple_of([value, aux]), grad])
    return grad if aux is None else tuple_of([grad, aux])


# ------------------------------------------------------------------- derivatives
def result_of(value: Tree, options: Options, at: Location | None) -> Value:
    """The one array that a gradient is of: a real scalar, unless options say other.

    Raises:
        ShapeError: it is an array, or there is more than one.
        DTypeError: it is an integer, a boolean or complex.
        ArgumentError: it is no array at all.
    """
    op, elementwise = options.op, options.mode == "elementwise_grad"
    if isinstance(value, Branch):
        raise ShapeError(
            "a gradient needs a function that returns one scalar, not "
            f"{_described(value)}",
            op=op,
            at=at,
            fix="return a scalar; for more results use has_aux=True or tg.vjp",
        )
    if isinstance(value, Static):
        raise ArgumentError(
            f"a gradient needs a function that returns one scalar, not {value.value!r}",
            op=op,
            at=at,
            fix="return a scalar array or number",
        )
    found: Value = value.value
    if found.type.shape != () and not elementwise:
        raise ShapeError(
            "a gradient needs a scalar result, but the function returned an array of "
            f"type {found.type!r}",
            op=op,
            at=at,
            fix="return np.sum(...) or np.mean(...) of it, or use tg.vjp",
        )
    if options.holomorphic and found.type.kind != "c":
        raise DTypeError(
            "with holomorphic=True the result must be complex, but the function "
            f"returned {found.type!r}",
            op=op,
            at=at,
            fix="leave out holomorphic=True",
        )
    if found.type.kind != ("c" if options.holomorphic else "f"):
        raise DTypeError(
            f"a gradient needs a real result, but the function returned {found.type!r}",
            op=op,
            at=at,
            fix="return its real part or abs(...) of it, or pass holomorphic=True"
            if found.type.kind == "c"
            else "return a float",
        )
    return found


def name_of_result(nodes: Sequence[Node]) -> str:
    """What a result is called to which the user gave no name.

    Not what a variable of the user's is called, whose cotangent stands beside its own.
    """
    taken = any(v.user and v.hint == "out" for node in nodes for v in node.outputs)
    return "result" if taken else "out"


def gradients(
    builder: Builder,
    nodes: Sequence[Node],
    value: Tree,
    targets: Sequence[Tree],
    options: Options,
    at: Location | None,
) -> list[Tree]:
    """Record the gradient; one tree of values for each tree of `targets`."""
    out = result_of(value, options, at)
    out.hint = out.hint or name_of_result(nodes)
    # A bare 1.0 reads best, but would make float64 arrays of what is float32.
    double = out.type.weak or out.type.dtype in (np.float64, np.complex128)
    one: Any = 1.0 if double else out.type.dtype.type(1)
    seed = builder.wrap(Const(one))
    wrt = moved_values(targets)
    found = _pull(builder, nodes, [out], [seed], wrt, at)
    return as_targets(builder, found, wrt, targets)


def _pulled(
    builder: Builder, nodes: Sequence[Node], value: Tree, targets: Sequence[Tree]
) -> Pullback:
    """Record a pullback: the tree of its cotangents, and one tree per target."""
    several = isinstance(value, Branch)
    lone = f"d_{name_of_result(nodes)}"

    def cotangent_of(v: Value) -> Value:
        hint = f"d_{v.hint}" if several and v.hint else lone
        return Value(v.type.strong, hint, wrt=v)

    cotangent = map_leaves(value, cotangent_of)
    outputs = values_of([value])
    cts = [builder.wrap(v) for v in values_of([cotangent])]
    wrt = moved_values(targets)
    found = _pull(builder, nodes, outputs, cts, wrt, None)
    return Pullback(cotangent, tuple_of(as_targets(builder, found, wrt, targets)))


def _pushed(
    builder: Builder,
    nodes: Sequence[Node],
    value: Tree,
    targets: Sequence[Tree],
    names: Sequence[str],
) -> Pullback:
    """Record a linearization: tangents of the targets in, of the result out."""

    def tangent_of(v: Value) -> Value:
        hint = names[0] if len(targets) == 1 else f"t_{v.hint}" if v.hint else None
        return Value(v.type.strong, hint, wrt=v, prefix="t")

    wrt = moved_values(targets)
    tangent = map_leaves(tuple_of(targets), tangent_of)
    refs = [builder.wrap(t) for t in moved_values([tangent])]
    found = push_forward(builder, nodes, wrt, refs, apart=True)
    result = tangent_tree(builder, value, found)
    return Pullback(tangent, result, "pushforward", tuple(names))


def tangent_tree(builder: Builder, value: Tree, found: Tangents) -> Tree:
    """The tangents of a result in its structure; zeros where there is none."""

    def tangent_of(v: Value) -> Value:
        t = found.get(v)
        if t is not None:
            return t.value
        if v.type.weak:
            return Const(0j if v.type.kind == "c" else 0.0)
        before, builder.derived = builder.derived, True
        zero = zeros_like(builder.wrap(v)).value
        builder.derived = before
        zero.wrt, zero.prefix = v, "t"
        return zero

    return map_leaves(value, tangent_of)


def _pull(
    builder: Builder,
    nodes: Sequence[Node],
    outputs: Sequence[Value],
    cts: Sequence[Ref],
    wrt: Sequence[Value],
    at: Location | None,
) -> list[Ref | None]:
    try:
        return pull_back(builder, nodes, outputs, cts, wrt)
    except TracegradError as error:
        raise error.locate(at=at) from None


def values_of(trees: Sequence[Tree]) -> list[Value]:
    return [leaf.value for tree in trees for leaf in leaves(tree)]


def moved_values(trees: Sequence[Tree]) -> list[Value]:
    """The values that have a derivative: among primals there may be integers."""
    return [v for v in values_of(trees) if v.type.differentiable]


def as_targets(
    builder: Builder,
    found: Sequence[Ref | None],
    wrt: Sequence[Value],
    targets: Sequence[Tree],
) -> list[Tree]:
    """The cotangents in the structure of the arguments; zeros where none arrived.

    Args:
        builder: records the zeros.
        found: a cotangent for each of `wrt`.
        wrt: the values of the targets that have a derivative.
        targets: the arguments.  What has no derivative in them gets `None`.
    """
    before, builder.phase = builder.phase, BACKWARD
    made = iter(
        [
            _zero(builder, v) if ct is None else ct.value
            for ct, v in zip(found, wrt, strict=True)
        ]
    )
    builder.phase = before

    def visit(tree: Tree) -> Tree:
        if isinstance(tree, Branch):
            return replace(tree, children=tuple([visit(c) for c in tree.children]))
        if isinstance(tree, Leaf) and tree.value.type.differentiable:
            return Leaf(next(made))
        return Static(None)

    return [visit(tree) for tree in targets]


def _zero(builder: Builder, v: Value) -> Value:
    if v.type.weak:
        return Const(0.0 if v.type.kind == "f" else 0j)
    zero = zeros_like(builder.wrap(v)).value
    zero.wrt = v
    return zero
