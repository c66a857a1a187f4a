"""Arrays of what the turns of a loop gave: `us.append(u)`, and then `np.stack(us)`.

A list that a Python loop fills is no value of its own in a trace: what is made of it
reads every element.  Where these are what a loop that was found again gave in its
turns, the array is one of the loop's stacks, or is made of a few of them.  The elements
are recognised by where they come from, never by their numbers: `stack[i]`, or the last
value of a carry whose values are the stack.  No arithmetic is moved, so no bit changes.
"""

from __future__ import annotations

import ast
import itertools
import linecache
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracegrad.ir.graph import Const, Node, Value
from tracegrad.ir.index import Slice
from tracegrad.ir.verify import InvalidGraph, enabled
from tracegrad.ops.control import RESULT, Loop, for_loop, stack_type
from tracegrad.ops.evaluate import run_nodes
from tracegrad.ops.index import getitem
from tracegrad.ops.join import array, concatenate, stack
from tracegrad.ops.listed import joined
from tracegrad.ops.record import Builder, Ref
from tracegrad.ops.shape import reshape

# Fewer elements in a row are no shorter as a slice.
_LEAST = 4
# So many values may be appended in each turn.
_MOST_APPENDED = 4


class Elements:
    """Which values are one element of a stack.

    Attributes:
        loops: stack -> (node of the loop, position among its outputs).
        ends: last value of a carry -> (stack, index) of the stack of its values.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.loops: dict[Value, tuple[Node, int]] = {}
        self.ends: dict[Value, tuple[Value, int]] = {}
        self.read: dict[Value, tuple[Value, int]] = {}
        for node in nodes:
            if node.op is for_loop:
                self.add(node)
            elif node.op is getitem and node.inputs[0] in self.loops:
                index = node.attrs["index"]
                if len(index) == 1 and type(index[0]) is int and index[0] >= 0:
                    self.read[node.out] = node.inputs[0], index[0]

    def add(self, node: Node) -> None:
        """Note what a loop gives, in the place of what it was."""
        loop = Loop.of(node)
        for position, (v, kind, result) in enumerate(loop.stacks(), loop.carried):
            size = v.type.shape[0]
            if kind != RESULT or type(size) is not int:
                continue
            self.loops[v] = node, position
            for last, after in zip(loop.last, loop.nexts, strict=True):
                if after is result and last.type == stack_row(v):
                    at = 0 if node.attrs["reverse"] else size - 1
                    self.ends.setdefault(last, (v, at))

    def of(self, v: Value) -> tuple[Value, int] | None:
        """(stack, index) of a value, if it is an element of one."""
        return self.read.get(v) or self.ends.get(v)


def stack_row(v: Value) -> Any:
    """The type of the elements of a stack."""
    return v.type.with_shape(v.type.shape[1:])


@dataclass(slots=True)
class _Part:
    """Elements that stand in a row in the list: of one stack, or single ones.

    Attributes:
        values: the elements.
        stack: that they are of, if they are.
        start, step: index of the first, and how it grows.
    """

    values: list[Value]
    stack: Value | None = None
    start: int = 0
    step: int = 1

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the stack, in order."""
        whole = self.stack is not None and len(self.values) == self.stack.type.shape[0]
        return whole and self.start == 0 and self.step == 1


def gather(nodes: Sequence[Node], needed: set[Value]) -> list[Node]:
    """The nodes with arrays of the elements of stacks made of the stacks.

    Args:
        nodes: a forward program after loops were found in it.
        needed: what is read of it.

    Raises:
        InvalidGraph: under pytest, where an array is not what it was: our bug.
    """
    kept = _Gather(nodes).run()
    return _without_reads(kept, needed)


def _without_reads(nodes: list[Node], needed: set[Value]) -> list[Node]:
    """Without elements that nothing reads any more."""
    live = set(needed)
    kept = []
    for node in reversed(nodes):
        if node.op is getitem and live.isdisjoint(node.outputs):
            continue
        live.update(node.inputs)
        kept.append(node)
    return kept[::-1]


class _Gather:
    """One pass over the nodes."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.elements = Elements(nodes)
        self.changed: dict[Node, Node] = {}
        self.histories: dict[Value, tuple[Value, Value]] = {}

    def run(self) -> list[Node]:
        """The nodes."""
        made: list[Node] = []
        for node in self.nodes:
            new = self._joined(node)
            made += [node] if new is None else new
        return [self.changed.get(node, node) for node in made]

    # --------------------------------------------------------------- what is joined
    def _joined(self, node: Node) -> list[Node] | None:
        """Nodes in the place of one that joins elements, None if it stays."""
        if node.op is array and len(node.inputs) >= _LEAST:
            return self._assembled(node)
        if node.op in (stack, concatenate) and len(node.inputs) >= _LEAST:
            return self._made(node, node.inputs, node.out)
        return None

    def _assembled(self, node: Node) -> list[Node] | None:
        structure = node.attrs["structure"]
        if all(type(part) is int for part in structure):
            return self._made(node, [node.inputs[i] for i in structure], node.out)
        # Rows of a list of lists, each of them first.
        made: list[Node] = []
        rows: list[Value] = []
        for part in structure:
            if type(part) is int or not all(type(p) is int for p in part):
                return None
            values = [node.inputs[i] for i in part]
            parts = self._parts(values)
            if not (parts and len(parts) == 1 and parts[0].is_whole):
                return None
            if values[0].type.dtype != node.out.type.dtype:
                return None
            rows.append(Value(stack_type(values[0].type, len(values))))
            whole = tuple(range(len(values)))
            attrs = {"structure": whole}
            row = Node(array, tuple(values), (rows[-1],), attrs, node.at, node.phase)
            new = self._made(row, values, rows[-1])
            assert new is not None
            made += new
        attrs = {"structure": tuple(range(len(rows)))}
        return [*made, node.changed(inputs=tuple(rows), attrs=attrs)]

    def _parts(self, values: Sequence[Value]) -> list[_Part] | None:
        """The list taken apart; None if no stack has enough of it."""
        found: list[_Part] = []
        for v in values:
            element = self.elements.of(v)
            last = found[-1] if found else None
            if element is None:
                if last is not None and last.stack is None:
                    last.values.append(v)
                else:
                    found.append(_Part([v]))
                continue
            source, at = element
            if last is not None and last.stack is source:
                step = at - (last.start + last.step * (len(last.values) - 1))
                if len(last.values) == 1 and step:
                    last.step = step
                if step and step == last.step:
                    last.values.append(v)
                    continue
            found.append(_Part([v], source, at))
        merged: list[_Part] = []
        for part in found:
            if part.stack is not None and len(part.values) >= _LEAST:
                merged.append(part)
            elif merged and merged[-1].stack is None:
                merged[-1].values += part.values
            else:
                merged.append(_Part(part.values))
        return merged if any(part.stack is not None for part in merged) else None

    def _made(
        self, node: Node, values: Sequence[Value], out: Value
    ) -> list[Node] | None:
        if any(v.type.dtype != out.type.dtype for v in values):
            return None
        parts = self._parts(values)
        braided = None if parts else self._braided(values)
        if parts is None and braided is None:
            return None
        builder = Builder(node.at, node.phase)
        if braided is not None:
            self._braid(builder, braided, node)
        else:
            self._join(builder, parts or (), node)
        *new, last = builder.nodes
        new.append(last.changed(outputs=(out,)))
        if enabled():
            self._check(node, values, new, out)
        return new

    # ----------------------------------------------------------------- what is made
    def _name(self, node: Node, source: Value) -> None:
        name = _list_name(node)
        if source.hint is None and name is not None:
            source.hint, source.user = name, True

    def _history(self, builder: Builder, parts: Sequence[_Part]) -> Ref | None:
        """`[u]` and all later values of a carry `u`."""
        if len(parts) != 2 or not parts[1].is_whole or len(parts[0].values) != 1:
            return None
        source = parts[1].stack
        assert source is not None
        traced, position = self.elements.loops[source]
        node = self.changed.get(traced, traced)
        loop = Loop.of(node)
        result = loop.stacks()[position - loop.carried][2]
        if node.attrs["reverse"] or position < loop.carried + node.attrs["stacked"]:
            return None
        for k, (start, after) in enumerate(zip(loop.starts, loop.nexts, strict=True)):
            if after is not result or start is not parts[0].values[0]:
                continue
            row = stack_row(source)
            if start.type != row and start.type.strong != row:
                continue  # the list makes an array of a Python float
            made = Value(stack_type(row, source.type.shape[0] + 1))
            made.hint, made.user = source.hint, source.user
            attrs = {**node.attrs, "saved": (*node.attrs["saved"], k)}
            self.changed[traced] = node.changed(
                outputs=(*node.outputs, made), attrs=attrs
            )
            self.histories[made] = start, source
            return builder.wrap(made)
        return None

    def _join(self, builder: Builder, parts: Sequence[_Part], node: Node) -> Ref:
        for part in parts:
            if part.stack is not None:
                self._name(node, part.stack)
        history = self._history(builder, parts)
        if history is not None:
            return self._of_list(history, node)
        made: list[Ref] = []
        for part in parts:
            made += self._piece(builder, part, node)
        if len(made) == 1:
            return made[0]
        axis = node.attrs.get("axis", 0)
        return concatenate(*made, axis=axis)

    def _piece(self, builder: Builder, part: _Part, node: Node) -> list[Ref]:
        """What is concatenated to the result: a part of a stack, or other elements."""
        if part.stack is None:
            values = [builder.wrap(v) for v in part.values]
            if node.op is concatenate:
                return values
            if node.op is array:
                return [array(*values, structure=tuple(range(len(values))))]
            return [stack(*values, **node.attrs)]
        made = builder.wrap(part.stack)
        size: Any = part.stack.type.shape[0]
        if not part.is_whole:
            end = part.start + part.step * len(part.values)
            stop = end if 0 <= end < size else None
            first = size - 1 if part.step < 0 else 0
            start = None if part.start == first else part.start
            step = None if part.step == 1 else part.step
            made = getitem(made, index=(Slice(start, stop, step),))
        return [self._of_list(made, node)]

    def _of_list(self, made: Ref, node: Node) -> Ref:
        """Elements along the first axis, joined as the node joins them."""
        axis = node.attrs.get("axis", 0)
        return joined(made, function=node.op.name, axis=axis)

    # ---------------------------------------------------- more than one in each turn
    def _braided(self, values: Sequence[Value]) -> list[Value] | None:
        """The stacks of a list that each turn appended several values to."""
        for count in range(2, _MOST_APPENDED + 1):
            if len(values) % count:
                continue
            found: list[Value] = []
            for k in range(count):
                parts = self._parts(values[k::count])
                if not (parts and len(parts) == 1 and parts[0].is_whole):
                    break
                if parts[0].stack is not None:
                    found.append(parts[0].stack)
            if len(found) == count and len({v.type for v in found}) == 1:
                return found
        return None

    def _braid(self, builder: Builder, sources: Sequence[Value], node: Node) -> Ref:
        for source in sources:
            self._name(node, source)
        parts = [builder.wrap(source) for source in sources]
        made = stack(*[joined(p, function="array", axis=0) for p in parts], axis=1)
        shape = made.shape
        made = reshape(made, shape=(shape[0] * shape[1], *shape[2:]))
        if node.op is array or (node.op is stack and not node.attrs["axis"]):
            return made
        return self._of_list(made, node)

    # ------------------------------------------------------------------- the check
    def _check(
        self, node: Node, values: Sequence[Value], new: list[Node], out: Value
    ) -> None:
        """Compare with what was traced, each element of each stack being another."""
        numbers = itertools.count(1)
        env: dict[Value, Any] = {}
        for v in values:
            element = self.elements.of(v)
            if element is None:
                if v not in env and not isinstance(v, Const):
                    env[v] = _filled(v, numbers)
                continue
            source, at = element
            if source not in env:
                env[source] = _filled(source, numbers)
            env[v] = env[source][at]
        for made, (first, source) in self.histories.items():
            if source in env and first in env:
                env[made] = [env[first], *env[source]]
        again = Value(out.type)
        run_nodes([node.changed(outputs=(again,))], env)
        run_nodes(new, env)
        if not np.array_equal(env[again], env[out]):
            raise InvalidGraph(f"an array of what a loop gave is not {node!r}")


def _filled(v: Value, numbers: Iterator[int]) -> Any:
    """An array of the shape of a value, all of its elements different."""
    shape = tuple([s if type(s) is int else 2 for s in v.type.shape])
    count = int(np.prod(shape))
    return np.array(list(itertools.islice(numbers, count))).reshape(shape)


def _list_name(node: Node) -> str | None:
    """The variable that the user's call is given: `us` of `np.array(us)`."""
    if not node.at or node.at[-1].column < 0:
        return None
    at = node.at[-1]
    if at.line != at.end_line:
        return None
    line = linecache.getline(at.filename, at.line).encode()
    try:
        tree = ast.parse(line[at.column : at.end_column].decode(), mode="eval").body
    except (SyntaxError, ValueError):
        return None
    if isinstance(tree, ast.Call) and tree.args and isinstance(tree.args[0], ast.Name):
        return tree.args[0].id
    return None
