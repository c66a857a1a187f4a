"""The graph behind a tensor as a program of the compiler's: values, nodes, constants.

`read` walks a graph of list nodes forward and records each op again, on types only.
What backward does not need is not kept by the graph: an array without history that was
an operand is a parameter of the program.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.eager.engine import Entry, entry_of
from tracegrad.eager.inplace import pull_copy, pull_slices, pull_steps
from tracegrad.eager.loop import collect
from tracegrad.eager.nodes import (
    ATTRS,
    EXTRAS,
    INPUTS,
    META,
    PULL,
    SEQ,
    Node,
    constants_of,
    name_of,
    pull_output,
)
from tracegrad.eager.numeric import asks_for_constants
from tracegrad.eager.runtime import promoted
from tracegrad.errors import UnsupportedError
from tracegrad.ir.graph import Const, Value
from tracegrad.ir.graph import Node as Step
from tracegrad.ir.location import Chain
from tracegrad.ir.types import ArrayType
from tracegrad.ops.cast import astype
from tracegrad.ops.define import Op, Rule
from tracegrad.ops.record import Builder, Ref, Scattered
from tracegrad.ops.scatter import setitem
from tracegrad.ops.shape import broadcast_to

_COPIES: dict[Entry, Op] = {}


class Tape:
    """A graph that was run, as a program.

    Attributes:
        params: leaves and constants, in the order of their first use.
        leaves: the values of the leaves, each with its node.
        arrays: the values of other parameters, each with a weak reference to its array
            (the array itself if it is 0-d) and the number of the node that reads it.
        steps: the program.
        made: sequence number of a node -> the value that it made.
        rules: derivative rules that eager mode has instead of the op's own.
        operands: sequence number of a node -> what its op was applied to, before casts.
    """

    def __init__(self) -> None:
        self.params: list[Value] = []
        self.leaves: dict[Value, Node] = {}
        self.arrays: dict[Value, tuple[Any, int]] = {}
        self.steps: list[Step] = []
        self.made: dict[int, Value] = {}
        self.rules: dict[Op, Sequence[Rule | None]] = {}
        self.operands: dict[int, list[Any]] = {}


def read(root: Node, numbers: bool = True) -> Tape:
    """The program of the graph that ends in `root`.

    Args:
        root: a node, not that of a leaf.
        numbers: whether Python numbers are a part of the program; else they are
            parameters, except where a rule depends on them.

    Raises:
        UnsupportedError: a node on the way is no op, such as a user's own function.
    """
    return _Reader(root, numbers).tape


class _Reader:
    """Records a graph again."""

    def __init__(self, root: Node, numbers: bool) -> None:
        self.numbers = numbers
        self.tape = tape = Tape()
        self.builder = Builder()
        tape.steps = self.builder.nodes
        self.refs: dict[int, Any] = {}
        self.constants: dict[int, Ref] = {}
        self.seq = 0
        nodes, ready = collect([root])
        for leaf in ready.get(None, ()):
            self.refs[leaf[SEQ]] = self._leaf(leaf)
        for seq in sorted(nodes):
            node, self.seq = nodes[seq], seq
            self.builder.at, hint = _place(node)
            self._refuse_hooks(node)
            made = self._step(node)
            extras = node[EXTRAS]
            if extras is not None and extras.written is not None:
                made = astype(made, dtype=extras.written)
            self.refs[seq] = made
            if isinstance(made, Ref) and hint is not None:
                made.value.hint, made.value.user = hint, True
        tape.made = {s: r.value for s, r in self.refs.items() if isinstance(r, Ref)}

    def _refuse_hooks(self, node: Node) -> None:
        extras = node[EXTRAS]
        if extras is None or not (
            extras.tensor_hooks or extras.node_hooks or extras.node_prehooks
        ):
            return
        raise UnsupportedError(
            f"{name_of(node)} has a hook, which may change the gradient",
            op="source",
            at=self.builder.at[-1] if self.builder.at else None,
            fix="take the hook away: its handle has a method remove()",
        )

    # --------------------------------------------------------------------- operands
    def _leaf(self, node: Node) -> Ref:
        self._refuse_hooks(node)
        leaf = node[ATTRS]()
        shape, dtype = node[META]
        if leaf is not None:
            shape, dtype = leaf._data.shape, leaf._data.dtype
        value = Value(ArrayType(shape, dtype))
        self.tape.params.append(value)
        self.tape.leaves[value] = node
        return self.builder.wrap(value)

    def _source(self, node: Node) -> Any:
        seq = node[SEQ]
        if seq not in self.refs:
            self.refs[seq] = self._leaf(node)
        return self.refs[seq]

    def _constant(self, kept: Any, kind: ArrayType | None) -> Any:
        """A number as it is; a parameter for an array."""
        if isinstance(kept, bool | int | float | complex):
            return kept
        if isinstance(kept, np.ndarray) and not kept.ndim:
            kept = kept if kept.flags.writeable else kept.item()
            if not isinstance(kept, np.ndarray):
                return kept
        array = kept() if callable(kept) else kept
        if array is not None:
            kind = ArrayType(array.shape, array.dtype)
        assert kind is not None
        key = id(kept)
        if kept is None or key not in self.constants:
            value = Value(kind)
            self.tape.params.append(value)
            self.tape.arrays[value] = kept, self.seq
            made = self.builder.wrap(value)
            if kept is None:
                return made
            self.constants[key] = made
        return self.constants[key]

    def _operands(
        self,
        node: Node,
        inputs: Sequence[Node | None],
        meta: Any,
        first: Ref | None = None,
    ) -> list:
        """The inputs of an op: references, and numbers; `first` if it is given."""
        constants = constants_of(node)
        made: list[Any] = []
        for k, source in enumerate(inputs):
            if k == 0 and first is not None:
                made.append(first)
                continue
            if source is not None:
                made.append(self._source(source))
                continue
            if meta is None:
                # All operands are of one type.
                known = first or self._source(next(s for s in inputs if s is not None))
                kind = known.type
            else:
                kind = ArrayType(meta[2 * k], meta[2 * k + 1])
            made.append(self._constant(constants[k], kind))
            if not (self.numbers or isinstance(made[k], Ref)):
                made[k] = self._open(node, made[k], kind)
        self.tape.operands[node[SEQ]] = list(made)
        return made

    def _open(self, node: Node, x: Any, kind: ArrayType) -> Any:
        """A parameter for a number, unless a rule of the op depends on it."""
        entry = node[PULL].entry
        if asks_for_constants(entry.op, entry.rules):
            return x
        value = Value(ArrayType((), kind.dtype))
        self.tape.params.append(value)
        self.tape.arrays[value] = x, self.seq
        return self.builder.wrap(value)

    # ------------------------------------------------------------------------ steps
    def _step(self, node: Node) -> Any:
        pull = node[PULL]
        entry = getattr(pull, "entry", None)
        if pull is pull_output:
            return self._source(node[INPUTS][0])[node[ATTRS]]
        if pull is pull_steps:
            return self._follow(node[ATTRS], self._source(node[INPUTS][0]))
        if pull is pull_copy:
            return self._copied(node, node[INPUTS][1])
        if pull is pull_slices:
            return self._written(node)
        if not isinstance(entry, Entry):
            raise UnsupportedError(
                f"{name_of(node)} is no operation that has a formula",
                op="source",
                at=self.builder.at[-1] if self.builder.at else None,
                fix="leave functions of your own out of the graph that is shown",
            )
        return self._apply(
            entry, self._operands(node, node[INPUTS], node[META]), node[ATTRS] or {}
        )

    def _apply(self, entry: Entry, operands: list, attrs: dict[str, Any]) -> Any:
        entry.prepare()
        op = self._op(entry)
        if entry.elementwise is not None:
            operands = _cast(entry, operands)
        return self.builder.record(op, tuple(operands), attrs)

    def _op(self, entry: Entry) -> Op:
        """The op; a copy for a second set of rules, as `relu` has for `maximum`."""
        op = entry.op
        if entry.rules is None or entry.rules is op.rules:
            return op
        usual = entry_of(op)
        if entry.rules is not usual.rules:
            found = _COPIES.get(entry)
            if found is None:
                found = _COPIES[entry] = copy.copy(op)
                found.rules = tuple(entry.rules)
            return found
        self.tape.rules[op] = entry.rules
        return op

    def _copied(self, node: Node, source: Node | None) -> Ref:
        """The value that `copy_` gives: the source, in the shape and the dtype."""
        shape, dtype, had, kind = node[META]
        if source is None:
            x = self._constant(constants_of(node)[1], ArrayType(had, kind))
        else:
            x = self._source(source)
        if not isinstance(x, Ref):
            x = self.builder.wrap(Const(np.asarray(x, dtype)))
        if x.dtype != dtype:
            x = astype(x, dtype=dtype)
        return x if x.shape == shape else broadcast_to(x, shape=shape)

    def _written(self, node: Node) -> Ref:
        """The value of an array of which a part was changed in place."""
        inner, steps = node[ATTRS]
        whole = self._whole(node)
        if inner[PULL] is pull_copy:
            part = self._copied(inner, inner[INPUTS][1])
        else:
            entry = inner[PULL].entry
            part = self._follow(steps, whole)
            operands = self._operands(inner, node[INPUTS], inner[META], part)
            part = self._apply(entry, operands, inner[ATTRS] or {})
        return self._write(whole, steps, part)

    def _whole(self, node: Node) -> Ref:
        source = node[INPUTS][0]
        if source is not None:
            return self._source(source)
        return self._constant(None, ArrayType(*node[META]))

    def _follow(self, steps: Sequence[tuple], x: Ref) -> Ref:
        for entry, attrs, _, _ in steps:
            x = self.builder.record(entry.op, (x,), attrs)
        return x

    def _write(self, x: Ref, steps: Sequence[tuple], part: Ref) -> Ref:
        """`x` with the part that `steps` lead to replaced."""
        if not steps:
            return part
        (entry, attrs, _, _), *rest = steps
        if rest:
            part = self._write(self._follow(steps[:1], x), rest, part)
        return _put_back(entry.op, attrs, x, part)


def _put_back(op: Op, attrs: dict[str, Any], x: Ref, part: Ref) -> Ref:
    """`x` with `part` in the place of what the view `op` shows of it.

    The rule of a view puts a cotangent where the view took its elements from: for one
    that shows all of them, it is the inverse.

    Raises:
        UnsupportedError: the view shows an element twice, or not all and no slice.
    """
    rule = op.rule if op.rules is None else op.rules[0]
    assert rule is not None
    made = rule(part, part, x, **attrs)
    made = made[0] if type(made) is tuple else made
    if isinstance(made, Scattered):
        return setitem(x, part, *made.indices, index=made.index, unique=made.unique)
    if np.prod(_sizes(part)) != np.prod(_sizes(x)):
        raise UnsupportedError(
            f"a part that {op.spelling} shows was changed in place",
            op="source",
            fix="change it by a subscript, x[...] = value, or make a new array",
        )
    # A rule may give the one element of `x` in another shape.
    return made if made.shape == x.shape else broadcast_to(made, shape=x.shape)


def _sizes(x: Ref) -> tuple[int, ...]:
    """The shape, in which no size is symbolic."""
    return tuple([int(n) for n in x.shape])


def _cast(entry: Entry, operands: list) -> list:
    """The operands of a ufunc in the dtype that PyTorch computes in."""
    kinds = {x.dtype for x in operands if isinstance(x, Ref)}
    if len(kinds) == 1 and all(isinstance(x, Ref | float | int) for x in operands):
        (kind,) = kinds
        if kind.kind == "f":
            return operands
    arrays = [
        np.broadcast_to(np.zeros((), x.dtype), _sizes(x)) if isinstance(x, Ref) else x
        for x in operands
    ]
    wanted = promoted(entry, arrays)
    return [
        astype(x, dtype=w.dtype) if isinstance(x, Ref) and x.dtype != w.dtype else x
        for x, w in zip(operands, wanted, strict=True)
    ]


def _place(node: Node) -> tuple[Chain, str | None]:
    """The user's line of a node and the name of its result, if they were noted."""
    extras = node[EXTRAS]
    found = None if extras is None else extras.place
    return ((), None) if found is None else found
