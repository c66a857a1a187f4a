"""Structured control flow: ops whose bodies are graphs.

The regions of a node are closed: what they read of the outside are leading inputs.

`cond` picks one region and runs it on its operands.  `for_loop` and `while_loop` carry
values from turn to turn; beside the last ones they give *stacks*, which hold something
of every turn.  What a loop reads turn by turn it reads by its counter, so that slices
and saved values need no further concept: `xs[t]`, `states[t]`.

A saved stack is for the backward part.  It is a list in NumPy, and it may be longer
than anything known while tracing: its first axis then has a size that nothing reads.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy as xp

from tracegrad.ir.dims import named, names
from tracegrad.ir.graph import Graph, Node, Value
from tracegrad.ir.types import ArrayType, Dim, Size
from tracegrad.ops.define import Op
from tracegrad.ops.index import getitem
from tracegrad.ops.record import Ref

COUNTER = ArrayType((), np.dtype(np.int64), weak=True)
# An entry of `saved`: a result of the body.  Else it is the position of a carry, all
# of whose values are kept, the first one too.
RESULT = -1
# How the names of numbers of turns begin that nothing tells in advance.
TURNS = "turns_"


# ------------------------------------------------------------------------------- cond
def _run_cond(which: Any, *operands: Any, regions: Sequence[Callable]) -> Any:
    out = regions[chosen(which, len(regions))](*operands)
    return out[0] if len(out) == 1 else tuple(out)


def chosen(which: Any, count: int) -> int:
    """The branch that is taken: of two by a truth, of any number by a clipped index."""
    if np.asarray(which).dtype == bool:
        return 0 if which else 1
    return int(min(max(which, 0), count - 1))


def _infer_cond(which: ArrayType, *types: ArrayType, regions: Sequence[Graph]) -> Any:
    made = [
        v.type if all(r.results[k].type.weak for r in regions) else v.type.strong
        for k, v in enumerate(regions[0].results)
    ]
    return made[0] if len(made) == 1 else tuple(made)


# ------------------------------------------------------------------------------ loops
@dataclass(frozen=True, slots=True)
class Loop:
    """The parts of a node of `for_loop` or `while_loop`, by their meaning.

    Attributes:
        node: the node.
        body: its region that makes the next values.
        test: the region that says whether to go on, of a `while_loop`.
    """

    node: Node
    body: Graph
    test: Graph | None

    @classmethod
    def of(cls, node: Node) -> Loop:
        """The parts of a node."""
        counted = node.op is for_loop
        return cls(node, node.regions[-1], None if counted else node.regions[0])

    @property
    def counted(self) -> bool:
        """Whether the body has a counter, its first parameter."""
        return self.test is None

    @property
    def carried(self) -> int:
        """The number of carries."""
        return self.node.attrs["carried"]

    @property
    def dynamic(self) -> int:
        """The number of leading inputs that are bounds of the counter."""
        bounds = self.node.attrs["bounds"] if self.counted else ()
        return sum([b is None for b in bounds])

    @property
    def invariants(self) -> tuple[Value, ...]:
        """Inputs that the body reads in every turn."""
        inputs = self.node.inputs
        return inputs[self.dynamic : len(inputs) - self.carried]

    @property
    def starts(self) -> tuple[Value, ...]:
        """First values of the carries."""
        inputs = self.node.inputs
        return inputs[len(inputs) - self.carried :]

    @property
    def counter(self) -> Value | None:
        """The parameter of the body that counts."""
        return self.body.params[0] if self.counted else None

    @property
    def inner(self) -> list[Value]:
        """The parameters of the body for the invariants."""
        params = self.body.params
        return params[int(self.counted) : len(params) - self.carried]

    @property
    def carries(self) -> list[Value]:
        """The parameters of the body for the carries."""
        return self.body.params[len(self.body.params) - self.carried :]

    @property
    def nexts(self) -> list[Value]:
        """The results of the body that are the next values of the carries."""
        return self.body.results[: self.carried]

    @property
    def last(self) -> tuple[Value, ...]:
        """The last values of the carries."""
        return self.node.outputs[: self.carried]

    def stacks(self) -> list[tuple[Value, int, Value | None]]:
        """(output, kind, result of the body) of each stack, in order.

        The kind is that of `saved`; the result is None for all values of a carry.
        """
        attrs = self.node.attrs
        results = iter(self.body.results[self.carried :])
        kinds = (*[RESULT] * attrs["stacked"], *attrs["saved"])
        outputs = self.node.outputs[self.carried :]
        return [
            (output, kind, next(results) if kind == RESULT else None)
            for output, kind in zip(outputs, kinds, strict=False)
        ]

    @property
    def count(self) -> Value | None:
        """The output that is the number of turns, if there is one."""
        return self.node.outputs[-1] if self.node.attrs["count"] else None


def _infer_loop(*types: ArrayType, regions: Sequence[Graph], **attrs: Any) -> Any:
    body = regions[-1]
    carried = attrs["carried"]
    steps = turns(attrs)
    made = [v.type for v in body.params[len(body.params) - carried :]]
    results = iter(body.results[carried:])
    for _ in range(attrs["stacked"]):
        made.append(stack_type(next(results).type, steps))
    for kind in attrs["saved"]:
        if kind == RESULT:
            made.append(stack_type(next(results).type, steps))
        else:
            made.append(stack_type(made[kind], steps + 1))
    if attrs["count"]:
        made.append(COUNTER)
    return made[0] if len(made) == 1 else tuple(made)


def turns(attrs: dict[str, Any]) -> Size:
    """The number of turns of a loop: a number, a size, or a size that nobody reads."""
    if attrs["steps"] is not None:
        return named(attrs["steps"])
    start, stop = attrs["bounds"]
    return stop - start


def stack_type(t: ArrayType, steps: Size) -> ArrayType:
    """The type of a stack of `steps` values."""
    return ArrayType((steps, *t.shape), t.dtype)


def _outcome(
    carries: list, results: list[list], histories: list[list], attrs: Any, count: int
) -> Any:
    """The outputs of a loop from what it has kept."""
    kept = iter(results)
    outputs = list(carries)
    outputs += [np.stack(next(kept)) for _ in range(attrs["stacked"])]
    outputs += [next(kept) if k == RESULT else histories[k] for k in attrs["saved"]]
    if attrs["count"]:
        outputs.append(count)
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


class _Turns:
    """What happens in every turn when a loop runs on plain arrays."""

    def __init__(self, inputs: Sequence[Any], body: Callable, attrs: dict) -> None:
        split = len(inputs) - attrs["carried"]
        self.invariants = list(inputs[:split])
        self.carries = list(inputs[split:])
        self.body = body
        self.attrs = attrs
        kinds = (*[RESULT] * attrs["stacked"], *attrs["saved"])
        self.results: list[list] = [[] for kind in kinds if kind == RESULT]
        self.histories = [[x] for x in self.carries]
        self.count = 0

    def take(self, *counter: int) -> None:
        """One turn."""
        out = self.body(*counter, *self.invariants, *self.carries)
        carried = len(self.carries)
        self.carries = out[:carried]
        for kept, x in zip(self.results, out[carried:], strict=True):
            kept.append(x)
        for history, x in zip(self.histories, self.carries, strict=True):
            history.append(x)
        self.count += 1

    def outputs(self) -> Any:
        """The outputs of the node."""
        return _outcome(
            self.carries, self.results, self.histories, self.attrs, self.count
        )


def _run_for(*inputs: Any, regions: Sequence[Callable], **attrs: Any) -> Any:
    rest = list(inputs)
    start, stop = [rest.pop(0) if b is None else b for b in attrs["bounds"]]
    state = _Turns(rest, regions[0], attrs)
    order = range(int(start), int(stop))
    for t in reversed(order) if attrs["reverse"] else order:
        state.take(t)
    if attrs["reverse"]:
        for kept in (*state.results, *state.histories):
            kept.reverse()
    return state.outputs()


def _run_while(*inputs: Any, regions: Sequence[Callable], **attrs: Any) -> Any:
    test, body = regions
    state = _Turns(inputs, body, attrs)
    while test(*state.invariants, *state.carries)[0]:
        state.take()
    return state.outputs()


def _control(name: str, run: Callable, infer: Callable, spelling: str) -> Op:
    """An op with regions; it has no samples, no template and no entry in `OPS`."""
    made = Op(run, infer)
    made.name = made.noun = name
    made.spelling = spelling
    return made


cond = _control("cond", _run_cond, _infer_cond, "tg.cond")
# bounds: (start, stop) of the counter, None for one that is a leading input
# carried: the number of carries;  stacked: of results of the body given as arrays
# saved: what is kept for the backward part;  reverse: whether the counter goes down
# steps: name of the number of turns, if no bound tells it;  count: whether it is given
# remat: whether the backward part computes the body again instead of saving of it
for_loop = _control("for_loop", _run_for, _infer_loop, "tg.scan")
while_loop = _control("while_loop", _run_while, _infer_loop, "tg.while_loop")


def is_loop(node: Node) -> bool:
    """Whether the node is a loop."""
    return node.op is for_loop or node.op is while_loop


def loop_attrs(carried: int, **given: Any) -> dict[str, Any]:
    """The attributes of a loop, with their defaults."""
    return {
        "bounds": (0, None),
        "carried": carried,
        "stacked": 0,
        "saved": (),
        "reverse": False,
        "steps": None,
        "count": False,
        "remat": False,
        **given,
    }


# ---------------------------------------------------------------- values left open
def is_ragged(t: ArrayType) -> bool:
    """Whether a stack holds stacks of different lengths, and so can be no array."""
    sizes = [n for s in t.shape[1:] if isinstance(s, Dim) for n in names(s)]
    return any(n.startswith(TURNS) for n in sizes)


def _zeros_of_stack(x: Any) -> Any:
    return [np.zeros_like(part) for part in x]


# Zeros for a stack of stacks of different lengths.
zeros_of_stack = Op(_zeros_of_stack, lambda t: t)
zeros_of_stack.name = "zeros_of_stack"
zeros_of_stack.rules = (None,)


@zeros_of_stack.emit
def _(inputs: list[ast.expr], attrs: dict[str, Any]) -> ast.expr:
    made = ast.parse("[xp.zeros_like(part) for part in stack]", mode="eval").body
    made.generators[0].iter = inputs[0]  # type: ignore[attr-defined]
    return made


def _array_of_stack(x: Any) -> Any:
    return np.asarray(x)


# A stack that may be a list, as one array.
array_of_stack = Op(_array_of_stack, lambda t: t)
array_of_stack.name = "array_of_stack"
array_of_stack.rules = (lambda ct, y, x: ct,)


@array_of_stack.emit
def _(inputs: list[ast.expr], attrs: dict[str, Any]) -> ast.expr:
    made = ast.parse("xp.asarray(stack)", mode="eval").body
    made.args[0] = inputs[0]  # type: ignore[attr-defined]
    return made


def _shaped_stack(x: Any, *, shape: Any) -> Any:
    return xp.reshape(x, shape)


# The same of a loop that may have made no turn, whose list does not tell the shape.
shaped_stack = Op(_shaped_stack, lambda t, *, shape: t)
shaped_stack.name = "shaped_stack"
shaped_stack.rules = (lambda ct, y, x, *, shape: ct,)


def whole_stack(x: Ref, listed: bool = True) -> Ref:
    """A stack as one array.

    Args:
        x: the stack.
        listed: whether it may be a list.
    """
    if not listed:
        return x
    if uncounted(x.type):
        return shaped_stack(x, shape=x.type.shape)
    return array_of_stack(x)


def uncounted(t: ArrayType) -> bool:
    """Whether a stack has as many entries as a loop happened to make turns."""
    first = t.shape[0] if t.shape else 0
    return isinstance(first, Dim) and any(n.startswith(TURNS) for n in names(first))


def _listed(*stacks: Any) -> list:
    return list(stacks)


def _infer_listed(*types: ArrayType) -> ArrayType:
    return ArrayType((len(types), *types[0].shape), types[0].dtype)


# Stacks of different lengths, one for each example of a batch.
listed = Op(_listed, _infer_listed)
listed.name = "listed"
listed.variadic = True


@listed.vjp
def _(ct, y, *stacks):
    return tuple([getitem(ct, index=(i,)) for i in range(len(stacks))])


@listed.emit
def _(inputs: list[ast.expr], attrs: dict[str, Any]) -> ast.expr:
    return ast.List(inputs, ast.Load())


def _infer_undefined(*, shape: Any, dtype: Any, weak: bool) -> ArrayType:
    return ArrayType(tuple(shape), np.dtype(dtype), weak)


def _undefined(*, shape: Any, dtype: Any, weak: bool) -> Any:
    return np.zeros(shape, dtype)


# What a branch gives for a value that only another branch makes.  Nothing reads it.
undefined = Op(_undefined, _infer_undefined)
undefined.name = "undefined"
undefined.rules = ()
