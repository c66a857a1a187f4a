"""`backward(compiled=True)`: generated code for graphs of a structure met before.

A training loop builds the same graph at every step, with other numbers.  For a graph
that is met for the first time, two functions are made: `match`, which walks a graph
along the known structure and picks out what its nodes saved (or says that it differs),
and `backward`, the text of the gradient, emitted by the compiler from what is saved.
From the next step on these two run in place of the loop over nodes.

What no text is made for runs in the loop, as ever: hooks, retained gradients, packed
tensors, anomaly detection, functions of the user's own, complex numbers, parts changed
in place, and graphs of which something that was saved may have changed since.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.codegen.source import emit
from tracegrad.eager import modes, versions
from tracegrad.eager.engine import Entry, compile_function
from tracegrad.eager.inplace import pull_copy, pull_steps
from tracegrad.eager.loop import accumulate, collect
from tracegrad.eager.nodes import (
    ATTRS,
    EXTRAS,
    FREED,
    INPUTS,
    META,
    PULL,
    SAVED,
    SEQ,
    Extras,
    Node,
    pull_output,
)
from tracegrad.eager.numeric import OUT, asks_for_constants
from tracegrad.eager.source import gradients, parameter
from tracegrad.eager.tape import Tape, read
from tracegrad.eager.tensor import Tensor
from tracegrad.errors import UnsupportedError
from tracegrad.ir.graph import BACKWARD, Const, Graph, Value
from tracegrad.ir.graph import Node as Step
from tracegrad.ir.routine import Routine
from tracegrad.ir.tree import Branch, Leaf
from tracegrad.ops.record import Builder, Ref
from tracegrad.passes.pipeline import optimise

# For each kind of root: the structures known; beyond the first few, a structure gets
# code when it is met for the second time.
MOST_PLANS = 32
AT_ONCE = 8


class Plan:
    """A structure and its code.

    Attributes:
        match: `(root) -> (nodes that saved something, oldest nodes, arrays, leaves)`,
            or None for another structure.
        backward: `(*arrays) -> gradients`, the arrays followed by the first cotangent
            unless it is 1.
        text: the source of `backward`.
    """

    def __init__(self, match: Callable, backward: Callable, text: str) -> None:
        self.match = match
        self.backward = backward
        self.text = text


_plans: dict[Any, list[Plan]] = {}
_seen: dict[Any, set[int]] = {}
_lock = threading.Lock()


class _Switch:
    """Whether `backward()` compiles unless it is told otherwise."""

    on = False


def is_compiled_backward() -> bool:
    """Whether `backward()` runs generated code where it can."""
    return _Switch.on


class set_compiled_backward:
    """Let `backward()` run generated code where it can, for all threads.

    As a context manager, until its end.

    Example:
        >>> import tracegrad.eager as torch
        >>> w = torch.ones(3, requires_grad=True)
        >>> with torch.autograd.set_compiled_backward(True):
        ...     for _ in range(3):
        ...         (w * w).sum().backward()
        >>> w.grad
        tensor([6., 6., 6.])
    """

    def __init__(self, mode: bool) -> None:
        self._before = _Switch.on
        _Switch.on = bool(mode)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        _Switch.on = self._before


def run(tensor: Tensor, ct: Any, retain: bool) -> bool:
    """Run backward by generated code, or say that the loop must do it.

    Args:
        tensor: a tensor with a history, not a leaf.
        ct: the first cotangent, of its shape and dtype; None for 1.
        retain: whether what is saved stays.
    """
    root: Any = tensor._node
    if modes.anomaly.on or root[SEQ] < 0:
        return False
    data = tensor._data
    key = root[PULL], data.dtype, data.shape, ct is None
    plans = _plans.get(key)
    for number, plan in enumerate(plans or ()):
        found = plan.match(root)
        if found is None:
            continue
        saving, oldest, arrays, leaves = found
        for node in oldest:
            if versions.latest.seq > node[SEQ]:
                if not _unchanged(root, saving):
                    return False
                break
        made = plan.backward(*arrays) if ct is None else plan.backward(*arrays, ct)
        for leaf, g in zip(leaves, made):
            owner = leaf[ATTRS]()
            if owner is not None and owner._node is not None:
                if type(g) is not np.ndarray:
                    g = np.array(g, owner._data.dtype)  # a plain number, perhaps
                accumulate(owner, g)
        if not retain:
            for node in saving:
                node[SAVED] = FREED
        if number and plans is not None:
            plans.insert(0, plans.pop(number))
        return True
    _meet(key, root, ct is None)
    return False


def _unchanged(root: Node, saving: tuple[Node, ...]) -> bool:
    """Whether all that is saved or watched is as it was."""
    if not all(map(versions.saves_current, saving)):
        return False
    return all(map(versions.watch_is_current, collect([root])[0].values()))


def _meet(key: Any, root: Node, one: bool) -> None:
    """Make the code for a new structure; also if there is none to be made, once."""
    with _lock:
        plans = _plans.setdefault(key, [])
        if len(plans) >= AT_ONCE:
            seen = _seen.setdefault(key, set())
            shape = _outline(root)
            if shape not in seen:
                seen.add(shape)
                if len(seen) > 64 * MOST_PLANS:
                    seen.clear()
                return
        plan = _make(root, one)
        if plan is not None:
            plans.insert(0, plan)
            del plans[MOST_PLANS:]


def _outline(root: Node) -> int:
    """A number that graphs of one structure share."""
    nodes, _ = collect([root])
    order = {seq: k for k, seq in enumerate(sorted(nodes))}
    parts = []
    for seq in order:
        node = nodes[seq]
        inputs = tuple([s and order.get(s[SEQ], -1) for s in node[INPUTS]])
        parts.append((id(node[PULL]), inputs, node[META], repr(node[ATTRS])))
    return hash(tuple(parts))


def plain(extras: Extras | None) -> bool:
    """Whether a node has no hook and nothing else that the loop must look at."""
    return extras is None or not (
        extras.tensor_hooks
        or extras.node_prehooks
        or extras.node_hooks
        or extras.accumulate_hooks
        or extras.retain is not None
        or extras.packed
        or extras.written is not None
    )


# ------------------------------------------------------------------- making a plan
def _make(root: Node, one: bool) -> Plan | None:
    nodes, ready = collect([root])
    leaves = {leaf[SEQ]: leaf for some in ready.values() for leaf in some}
    if not all(plain(n[EXTRAS]) for n in (*nodes.values(), *leaves.values())):
        return None
    try:
        tape = read(root, numbers=False)
        saved = _saved_values(tape, nodes)
        routine = _routine(tape, tape.made[root[SEQ]], saved, one)
    except UnsupportedError:
        return None
    source = emit([routine], optimize="fast")
    backward = source.load()[routine.name]
    used = [saved[v] for v in routine.graph.params if v in saved]
    match = _Matcher(root, nodes, used, list(tape.leaves.values())).function()
    return Plan(match, backward, source.text)


def _refuse(why: str) -> UnsupportedError:
    return UnsupportedError(why, op="backward(compiled=True)")


def _saved_values(tape: Tape, nodes: dict[int, Node]) -> dict[Value, tuple[int, int]]:
    """The values that nodes saved: for each, a node and the position in `saved`.

    Raises:
        UnsupportedError: there is something that no text is made for.
    """
    found: dict[Value, tuple[int, int]] = {}
    for seq, node in nodes.items():
        pull = node[PULL]
        entry = getattr(pull, "entry", None)
        if pull is pull_output or pull is pull_copy or pull is pull_steps:
            continue
        if not isinstance(entry, Entry):
            raise _refuse("a function of the user's own")
        if node[SAVED] is None:
            continue
        if node[SAVED] is FREED:
            raise _refuse("a graph that was freed")
        operands = tape.operands[seq]
        for k, (slot, x) in enumerate(zip(entry.slots_of(node), node[SAVED])):
            if x is None:
                continue
            if type(x) is not np.ndarray:
                raise _refuse("several results that are saved together")
            value = tape.made[seq] if slot == OUT else operands[slot]
            value = value.value if isinstance(value, Ref) else value
            if isinstance(value, Value) and not isinstance(value, Const):
                found.setdefault(value, (seq, k))
    if any(v.type.kind == "c" for v in (*found, *tape.params, *tape.made.values())):
        raise _refuse("complex numbers")
    return found


def _routine(
    tape: Tape, out: Value, saved: dict[Value, tuple[int, int]], one: bool
) -> Routine:
    """The gradient as a function of what is saved.

    Raises:
        UnsupportedError: it reads something that is not.
    """
    builder = Builder()
    dtype = out.type.dtype
    ct: Value = Value(out.type, "d_out")
    if one:
        ct = Const(1.0 if dtype == np.float64 else dtype.type(1))
    results = gradients(builder, tape, tape.steps, out, builder.wrap(ct))
    given = {v: Value(v.type, "saved") for v in saved}
    stored = list(given.values())
    empty = _Empty(tape, given)
    steps = [
        node.with_inputs(empty.fed(node)).in_phase(BACKWARD)
        for node in (*tape.steps, *builder.nodes)
        if not empty.counts(node)
    ]
    params = [*stored, *([] if one else [ct])]
    results = [given.get(v, v) for v in results]
    graph = Graph("backward", [*params, *tape.params], steps, results)
    graph = optimise(graph, "fast")
    reads = set(graph.reads())
    if any(v in reads for v in tape.params):
        raise _refuse("a value that is not saved")
    for v in list(saved):
        saved[given[v]] = saved.pop(v)
    graph.params = [p for p in params if p in reads or p is ct]
    for k, p in enumerate(graph.params):
        p.hint = "d_out" if p is ct else f"saved_{k}"
    leaves = tuple([Leaf(v) for v in graph.results])
    return Routine(
        name="backward",
        of="backward",
        at=None,
        parameters=tuple(map(parameter, graph.params)),
        graph=graph,
        result=Branch("tuple", tuple, tuple(range(len(leaves))), leaves, tuple),
        purpose="The gradient from what the forward pass saved.",
    )


class _Empty:
    """Puts what is saved in the place of what was run.

    Where only the type of a value is read, an array without memory does.
    """

    def __init__(self, tape: Tape, given: dict[Value, Value]) -> None:
        self.given = given
        made = {out for node in tape.steps for out in node.outputs}
        self.forward = made | set(tape.params)
        self.types: dict[Value, Value] = {}

    def counts(self, node: Step) -> bool:
        """Whether a node asks for sizes only: then its result is a number now."""
        op, out = node.op, node.outputs[0]
        if len(op.type_only) < len(op.params) or out.type.shape or out.type.kind != "i":
            return False
        if any(v not in self.forward for v in node.inputs):
            return False
        arrays = [_without_memory(v) for v in node.inputs]
        self.given[out] = Const(int(op.run(*arrays, **node.attrs)))
        return True

    def fed(self, node: Step) -> tuple[Value, ...]:
        """The inputs of a node."""
        last = len(node.op.params) - 1
        return tuple(
            [
                self._of_type(v)
                if min(k, last) in node.op.type_only and v in self.forward
                else self.given.get(v, v)
                for k, v in enumerate(node.inputs)
            ]
        )

    def _of_type(self, v: Value) -> Value:
        if v in self.given:
            return self.given[v]
        if v not in self.types:
            self.types[v] = Const(_without_memory(v))
        return self.types[v]


def _without_memory(v: Value) -> np.ndarray:
    shape = tuple([int(n) for n in v.type.shape])
    return np.broadcast_to(np.zeros((), v.type.dtype), shape)


# ---------------------------------------------------------------- matching a graph
class _Matcher:
    """Writes the function that walks a graph along a known structure.

    Two nodes that the structure tells apart may be one and the same in another graph:
    what each of them hands on adds up to the same.  One that the structure reads twice
    must be one.

    Args:
        root: of the structure.
        nodes: all nodes, by their numbers.
        used: node and position of the saved arrays that `backward` takes.
        leaves: in the order of what `backward` returns.
    """

    def __init__(
        self,
        root: Node,
        nodes: dict[int, Node],
        used: list[tuple[int, int]],
        leaves: list[Node],
    ) -> None:
        self.lines = ["def match(n0):"]
        self.names: dict[str, Any] = {"plain": plain}
        self.known: dict[int, str] = {}
        self.nodes = nodes
        queue = [root]
        self.known[root[SEQ]] = "n0"
        for node in queue:
            queue.extend(self._node(node))
        arrays = [f"{self.known[seq]}[4][{k}]" for seq, k in used]
        saving = [self.known[s] for s, n in nodes.items() if n[SAVED] is not None]
        oldest = [
            self.known[seq]
            for seq, node in nodes.items()
            if not any(n is not None and n[SEQ] > 0 for n in node[INPUTS])
        ]
        ends = [self.known[leaf[SEQ]] for leaf in leaves]
        groups = [f"({''.join(f'{x}, ' for x in g)})" for g in (saving, oldest)]
        groups += [f"({''.join(f'{x}, ' for x in g)})" for g in (arrays, ends)]
        self.lines.append(f"    return {', '.join(groups)}")

    def function(self) -> Callable:
        """The function."""
        return compile_function("match", self.lines, self.names)

    def _name(self, stem: str, value: Any) -> str:
        key = f"{stem}{len(self.names)}_"
        self.names[key] = value
        return f"@{key}"

    def _node(self, node: Node) -> list[Node]:
        """Test one node; the nodes behind it that are met for the first time."""
        me = self.known[node[SEQ]]
        if node[SEQ] < 0:
            self.lines.append(
                f"    if {me}[1] >= 0 or {me}[2] is not None and not @plain({me}[2]): "
                "return None"
            )
            return []
        tests = [
            f"{me}[0] is not {self._name('pull', node[PULL])}",
            f"{me}[2] is not None and not @plain({me}[2])",
        ]
        if node[META] is None:
            tests.append(f"{me}[5] is not None")
        else:
            tests.append(f"{me}[5] != {self._name('meta', node[META])}")
        if node[ATTRS]:
            tests.append(f"{me}[6] != {self._name('attrs', node[ATTRS])}")
        tests.append(f"len({me}[3]) != {len(node[INPUTS])}")
        self.lines.append(f"    if {' or '.join(tests)}: return None")
        # Which inputs have a history decides what is saved.
        fresh = self._inputs(me, node)
        self._saved(me, node)
        return fresh

    def _saved(self, me: str, node: Node) -> None:
        if node[SAVED] is None:
            self.lines.append(f"    if {me}[4] is not None: return None")
            return
        count = len(node[SAVED])
        self.lines.append(f"    s = {me}[4]")
        self.lines.append(
            f"    if type(s) is not tuple or len(s) != {count}: return None"
        )
        entry = node[PULL].entry
        fixed = asks_for_constants(entry.op, entry.rules)
        for k, x in enumerate(node[SAVED]):
            test = None if type(x) is not np.ndarray else self._kind(k, x, fixed, node)
            if test:
                self.lines.append(f"    if {test}: return None")

    def _kind(self, k: int, x: np.ndarray, fixed: bool, node: Node) -> str:
        """Whether a saved array is another kind of operand than it was: a number."""
        is_number = not x.ndim and not x.flags.writeable
        if fixed and is_number:
            number = self._name("number", x)
            return f"s[{k}] is not {number} and (s[{k}].ndim or s[{k}] != {number})"
        if fixed:
            return f"not s[{k}].ndim and not s[{k}].flags.writeable"
        return f"s[{k}].ndim" if not x.ndim and node[META] is None else ""

    def _inputs(self, me: str, node: Node) -> list[Node]:
        fresh = []
        for k, source in enumerate(node[INPUTS]):
            there = f"{me}[3][{k}]"
            if source is None:
                self.lines.append(f"    if {there} is not None: return None")
            elif source[SEQ] in self.known:
                known = self.known[source[SEQ]]
                self.lines.append(f"    if {there} is not {known}: return None")
            else:
                name = self.known[source[SEQ]] = f"n{len(self.known)}"
                self.lines.append(f"    {name} = {there}")
                self.lines.append(f"    if {name} is None: return None")
                fresh.append(source)
        return fresh
