"""What generated functions call, and the general way for what they are not made for.

`general` runs an op on any mixture of tensors, arrays and Python numbers, with
PyTorch's promotion; `general_pull` and `graph_pull` apply any rule, on arrays and on
tensors.  They serve every op; the generated functions serve the common ones faster.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.autodiff.cotangent import unbroadcast
from tracegrad.eager.dtypes import default, result_type
from tracegrad.eager.modes import NAMESPACE, state
from tracegrad.eager.nodes import (
    ATTRS,
    INPUTS,
    META,
    OUTPUTS,
    SAVED,
    SEQ,
    Node,
    kept,
    next_seq,
    pull_output,
)
from tracegrad.eager.numeric import OUT, Like, numeric
from tracegrad.eager.refusals import of_others
from tracegrad.eager.tensor import Tensor, new, wrap
from tracegrad.eager.versions import owner_of
from tracegrad.errors import DTypeError
from tracegrad.ir.index import fill
from tracegrad.ops.cast import astype
from tracegrad.ops.infer import ufunc_dtypes
from tracegrad.ops.record import Scattered
from tracegrad.ops.scatter import scatter_add
from tracegrad.ops.select import real

f4, f8 = np.dtype(np.float32), np.dtype(np.float64)
# Python numbers as read-only 0-d arrays: NumPy multiplies by one in half the time.
SCALARS: dict[np.dtype, dict[Any, np.ndarray]] = {f4: {}, f8: {}}
MOST_SCALARS = 4096
LARGE = 2.0**53  # below it nothing overflows, and every dtype rounds the same way
add_reduce: Any = np.add.reduce
OWNED = "owned"  # in `grads`: the nodes whose cotangent is nobody else's array


def finish(
    out: Tensor, entry: Any = None, inputs: tuple = (), attrs: dict | None = None
) -> None:
    """Adjust a result where the thread is in a mode; `hooks` extends this.

    Args:
        out: the result.
        entry: that of the op; None if forward mode need not know.
        inputs: what the op was called with.
        attrs: its static attributes.
    """
    if state.inference:
        out._inference = True
        out._node = None
    if not state.grad:
        out._node = None
    elif out._node is not None:
        for watch in WATCHES:
            watch(out)
    if state.push is not None and entry is not None:
        state.push((out,), entry, inputs, attrs or {})


# What looks at every recorded result while a mode is on (`hooks` adds to it).
WATCHES: list[Callable[[Tensor], None]] = []


# (shape of a cotangent, shape of its primal) -> how to add up: the axes, whether they
# stay, whether a reshape follows; None where the cotangent is to be repeated.
_plans: dict[tuple, Any] = {}


def _plan(have: tuple, shape: tuple) -> Any:
    extra = len(have) - len(shape)
    if extra < 0:
        return None
    axes = [i for i in range(extra, len(have)) if shape[i - extra] != have[i]]
    if any(shape[i - extra] != 1 for i in axes):
        return None
    whole = (*range(extra), *axes)
    keep = bool(axes)
    plan = (whole[0] if len(whole) == 1 else whole, keep, keep and extra > 0)
    if len(_plans) > 4096:
        _plans.clear()
    _plans[have, shape] = plan
    return plan


def conform(g: Any, shape: tuple, dtype: np.dtype) -> Any:
    """A cotangent with the shape and the dtype of its primal."""
    have = g.shape
    if have != shape:
        plan = _plans.get((have, shape)) or _plan(have, shape)
        if plan is None:
            g = np.broadcast_to(g, shape)
        else:
            g = add_reduce(g, plan[0], None, None, plan[1])
            if plan[2]:
                g = g.reshape(shape)
    if g.dtype is not dtype and g.dtype != dtype:
        if g.dtype.kind == "c" and dtype.kind != "c":
            g = g.real
        g = g.astype(dtype)
    return g


def again(error: Exception, run: Callable, *arrays: Any, **attrs: Any) -> Any:
    """Compute once more, in silence, where NumPy's warning was turned into an error.

    PyTorch divides by zero without a word.  Warnings that are only shown are filtered
    by their place; see `tracegrad.eager`.

    Raises:
        RuntimeError: for any other error, in PyTorch's words if the operands do not
            broadcast.
    """
    if isinstance(error, RuntimeWarning):
        with np.errstate(all="ignore"):
            return run(*arrays, **attrs)
    raise shape_error(error, *arrays) from None


def without_nan(g: Any, ct: Any) -> Any:
    """A product with a cotangent: 0 where the cotangent is 0, also if it is nan."""
    bad = np.isnan(g)
    if bad.any() and np.shape(g) == np.shape(ct):
        return np.where(bad & (ct == 0), g.dtype.type(0), g)
    return g


def scatter(part: Scattered, grads: dict, seq: int, shape: tuple, dtype: Any) -> None:
    """Add a cotangent that is zero except at a subscript into one buffer."""
    owned = grads.setdefault(OWNED, set())
    have = grads.get(seq)
    if have is None:
        have = np.zeros(shape, dtype)
    elif seq not in owned:
        have = np.array(have)
    owned.add(seq)
    grads[seq] = have
    index = fill(part.index, part.indices)
    if part.unique:
        have[index] += part.ct
    else:
        np.add.at(have, index, part.ct)


def scalar(x: Any, dtype: np.dtype) -> np.ndarray:
    """A Python number as a read-only 0-d array, kept for the next time."""
    table = SCALARS.get(dtype)
    if -LARGE < x < LARGE if type(x) in (int, float) else False:
        made = np.array(x, dtype)
    else:
        with np.errstate(all="ignore"):
            made = np.asarray(x).astype(dtype) if type(x) is int else np.array(x, dtype)
    made.flags.writeable = False
    # 0.0 == -0.0, and nan is never found again.
    if table is not None and x == x and x != 0 and type(x) in (int, float):
        if len(table) >= MOST_SCALARS:
            table.clear()
        table[x] = made
    return made


def shape_error(error: Exception, *arrays: Any) -> Exception:
    """PyTorch's error for operands that do not broadcast; else the error itself."""
    if len(arrays) == 2:
        a, b = (np.shape(x) for x in arrays)
        for back in range(1, min(len(a), len(b)) + 1):
            m, n = a[-back], b[-back]
            if m != n and 1 not in (m, n):
                axis = max(len(a), len(b)) - back
                return RuntimeError(
                    f"The size of tensor a ({m}) must match the size of tensor b ({n}) "
                    f"at non-singleton dimension {axis}"
                )
    return error if isinstance(error, RuntimeError) else RuntimeError(str(error))


# ------------------------------------------------------------------- pulling back
def general_pull(entry: Any) -> Callable:
    """`pull` of any op: one rule for all inputs, several outputs, variadic."""
    op = entry.op
    rules = entry.rules and [r and numeric(r) for r in entry.rules]
    rule = None if op.rule is None else numeric(op.rule)

    def pull(node: Node, ct: Any, grads: dict) -> None:
        out, inputs = values_of(entry, node, lambda k, x: x)
        ct = outputs_of(node, ct)
        out = ct if out is None else out
        parts = _parts(op, rules, rule, ct, out, inputs, node)
        meta = node[META]
        for k, part in enumerate(parts):
            source = node[INPUTS][k]
            if source is None:
                continue
            shape, dtype = meta[2 * k], meta[2 * k + 1]
            if part is None:
                part = np.zeros(shape, dtype)
            if type(part) is Scattered:
                scatter(part, grads, source[SEQ], shape, dtype)
                continue
            add_to(grads, source, conform(np.asarray(part), shape, dtype))

    return pull


def _parts(
    op: Any, rules: Any, rule: Any, ct: Any, out: Any, inputs: list, node: Node
) -> list:
    attrs = node[ATTRS] or {}
    if rules is not None:
        return [
            r(ct, out, *inputs, **attrs) if r and source is not None else None
            for r, source in zip(rules, node[INPUTS])
        ]
    made = rule(ct, out, *inputs, **attrs)
    return list(made) if isinstance(made, tuple | list) else [made]


def outputs_of(node: Node, ct: Any) -> Any:
    """The cotangents of an op with several outputs as a tuple, None for zero."""
    if type(ct) is not dict:
        return ct
    return tuple([ct.get(i) for i in range(node[OUTPUTS])])


def add_to(grads: dict, node: Node, g: Any) -> None:
    """Add a cotangent of the output of `node`."""
    seq = node[SEQ]
    grads[seq] = grads[seq] + g if seq in grads else g


def values_of(entry: Any, node: Node, rebuild: Callable) -> tuple[Any, list]:
    """The output and the inputs that a rule reads, `Like` for those it does not."""
    meta = node[META]
    inputs: list[Any] = [
        None if meta is None else Like(meta[2 * k], meta[2 * k + 1])
        for k in range(len(node[INPUTS]))
    ]
    out = None
    if node[SAVED] is not None:
        for slot, x in zip(saved_slots(entry, node), node[SAVED]):
            if slot == OUT:
                out = None if x is None else rebuild(OUT, x)
            elif x is not None:
                inputs[slot] = rebuild(slot, x)
    return out, inputs


def saved_slots(entry: Any, node: Node) -> tuple[int, ...]:
    """The number of each saved value: the last parameter of a variadic op is many."""
    if not entry.op.variadic:
        return entry.slots
    last = len(entry.op.params) - 1
    found: list[int] = []
    for slot in entry.slots:
        many = range(last, len(node[INPUTS])) if slot == last else (slot,)
        found.extend(many)
    return tuple(found)


# ------------------------------------------------------------------ create_graph
def graph_pull(entry: Any) -> Callable:
    """The same with tensors: the rule's ops are recorded."""
    op = entry.op

    def pull_graph(node: Node, ct: Any, grads: dict) -> None:
        sources = node[INPUTS]
        rebuild = functools.partial(_rebuilt, node)
        out, inputs = values_of(entry, node, rebuild)
        ct = outputs_of(node, ct)
        out = ct if out is None else out
        meta = node[META]
        if meta is None:
            inputs = [ct if x is None else x for x in inputs]
        if entry.reads is not None and state.grad:
            inputs[0] = entry.reads(inputs[0])
        before, state.rules = state.rules, True
        try:
            parts = _parts(op, entry.rules, op.rule, ct, out, inputs, node)
        finally:
            state.rules = before
        for k, part in enumerate(parts):
            source = sources[k]
            if source is None:
                continue
            if meta is None:
                shape, dtype = ct._data.shape, ct._data.dtype
            else:
                shape, dtype = meta[2 * k], meta[2 * k + 1]
            if part is None:
                part = wrap(np.zeros(shape, dtype))
            if type(part) is Scattered:
                graph_scatter(part, grads, source[SEQ], shape, dtype)
            else:
                graph_add(grads, source, graph_conform(part, shape, dtype))

    return pull_graph


def _rebuilt(node: Node, k: int, x: Any) -> Any:
    """The tensor that input `k` of a node was, or its output."""
    if type(x) is tuple:
        return tuple([wrap(part, output_node(node, n)) for n, part in enumerate(x)])
    source = node if k == OUT else node[INPUTS][k]
    if not isinstance(x, np.ndarray):
        return x  # a number beside the arrays of an op
    if source is None:
        if not x.ndim and not x.flags.writeable:
            return x.item()
    made = wrap(x, source)
    if state.push is not None:
        held = state.tangents.get(id(x))
        made._tangent = None if held is None else held[1]
    return made


def graph_add(grads: dict, node: Node, g: Any) -> None:
    """Add a tensor to the cotangent of the output of `node`."""
    seq = node[SEQ]
    grads[seq] = grads[seq] + g if seq in grads else g


def graph_conform(g: Any, shape: tuple, dtype: np.dtype) -> Tensor:
    """`conform` for tensors, recorded."""
    if not isinstance(g, Tensor):
        g = wrap(np.asarray(g))
    have = g._data.dtype
    if have.kind == "c" and dtype.kind != "c":
        g = real(g)
    g = unbroadcast(g, shape)
    return g if g._data.dtype == dtype else astype(g, dtype=dtype.name)


def graph_scatter(part: Scattered, grads: dict, seq: int, shape: tuple, dtype) -> None:
    """`scatter` for tensors, recorded."""
    have = grads.get(seq)
    if have is None:
        have = wrap(np.zeros(shape, dtype))
    grads[seq] = scatter_add(
        have,
        part.ct,
        *part.indices,
        index=part.index,
        counts=part.counts,
        unique=part.unique,
    )


# -------------------------------------------------------------------- the general way
def promoted(entry: Any, arrays: list) -> list[np.ndarray]:
    """The operands of a ufunc in the dtype that PyTorch computes in."""
    ufunc = entry.elementwise
    floating = f8 if state.rules else default.real
    common = result_type(arrays, floating)
    try:
        made = ufunc_dtypes(ufunc, (common,) * ufunc.nin)[0]
    except DTypeError:
        return [np.asarray(x) for x in arrays]  # one with operands of two kinds
    if common.kind in "biu" and (made.kind == "f" or entry.floats):
        common = floating
    return [as_dtype(x, common) for x in arrays]


def as_dtype(x: Any, dtype: np.dtype) -> np.ndarray:
    """An array or a Python number in a dtype."""
    if type(x) is not np.ndarray:
        table = SCALARS.get(dtype)
        found = table.get(x) if table is not None and type(x) is not bool else None
        return scalar(x, dtype) if found is None else found
    return x if x.dtype == dtype else x.astype(dtype)


_OPERANDS = (Tensor, np.generic, bool, int, float, complex, np.ndarray, Like)


def unwrapped(x: Any) -> tuple[Any, Node | None]:
    """The array (or Python number) and the node behind an operand."""
    if isinstance(x, Tensor):
        return x._data, x._node
    if isinstance(x, np.generic):
        return x.item(), None
    if isinstance(x, _OPERANDS):
        return x, None
    raise TypeError(f"unsupported operand of type {type(x).__name__}")


def general(
    entry: Any, args: tuple, attrs: dict[str, Any], out: Tensor | None = None
) -> Any:
    """Run an op on tensors, arrays and Python numbers, and record it.

    Args:
        entry: the op's entry.
        args: the inputs.
        attrs: all static attributes.
        out: what the user gave as `out=`.

    Returns:
        A tensor, or a tuple of them for an op with several outputs.
    """
    entry.prepare()
    arrays: list[Any] = []
    nodes: list[Any] = []
    tensors = 0
    for x in args:
        if type(x) is Tensor:
            array, node, tensors = x._data, x._node, tensors + 1
        elif not isinstance(x, _OPERANDS):
            return of_others(entry.op, args, x)
        else:
            array, node = unwrapped(x)
            tensors += isinstance(x, Tensor)
        arrays.append(array)
        nodes.append(node)
    if not tensors:
        raise TypeError(
            f"{entry.op.name}(): argument 'input' (position 1) must be Tensor, not "
            f"{type(args[0]).__name__ if args else 'nothing'}"
        )
    if any(type(x) is np.ndarray and x.dtype.kind == "c" for x in arrays):
        entry = entry.for_complex()
    given = operands = arrays
    if entry.elementwise is not None:
        operands = promoted(entry, arrays)
        if entry.refuses is not None:
            entry.refuses(arrays, operands)
        arrays = [a if type(a) is np.ndarray else o for a, o in zip(arrays, operands)]
    try:
        made = entry.run(*operands, **attrs)
    except (RuntimeWarning, ValueError) as error:
        made = again(error, entry.run, *operands, **attrs)
    nodes = _flowing(entry, nodes)
    if type(made) is int:
        return made  # a size, which is no tensor
    if isinstance(made, tuple | list):
        return _record_several(entry, made, args, arrays, nodes, attrs, given)
    result = wrap(made if type(made) is np.ndarray else np.asarray(made))
    if nodes != [None] * len(nodes) and result._data.dtype.kind in "fc":
        result._node = record(entry, result._data, arrays, nodes, attrs, given)
    if NAMESPACE["special"]:
        finish(result, entry, args, attrs)
    if entry.op.aliases is not None and isinstance(args[0], Tensor):
        link(result, args[0], entry, attrs)
    if out is not None:
        return NAMESPACE["write_out"](out, result, entry.op.name)
    return result


def _flowing(entry: Any, nodes: list) -> list:
    """The nodes of the inputs that have a derivative."""
    if nodes == [None] * len(nodes):
        return nodes
    last = len(entry.flows) - 1
    return [n if entry.flows[min(k, last)] else None for k, n in enumerate(nodes)]


def record(
    entry: Any, out: Any, arrays: list, nodes: list, attrs: dict, given: list
) -> Node:
    """The node of one call.

    Args:
        entry: of the op.
        out: its result.
        arrays: its operands, numbers as arrays.
        nodes: their nodes, None for those without a history.
        attrs: all static attributes.
        given: the operands with numbers as the user wrote them.
    """
    last = len(entry.flows) - 1
    asked: set[int] = set()
    for k, node in enumerate(nodes):
        if node is not None:
            asked |= entry.needs[min(k, last)]
    if isinstance(given[-1], np.ndarray):
        asked |= {*entry.always}
    saved: list[Any] = []
    for slot in entry.slots:
        many = slot == last and entry.op.variadic
        values = [out] if slot == OUT else arrays[slot:] if many else [arrays[slot]]
        saved.extend(values if slot in asked else [None] * len(values))
    meta: Any = tuple([part for x in arrays for part in _type_parts(x)])
    if entry.keeps and len(arrays) == 2 and _alike(arrays, given):
        meta = None  # as the generated function does from the next call on
    save = tuple(saved) if any(x is not None for x in saved) else None
    constants = tuple([kept(x) if n is None else None for x, n in zip(given, nodes)])
    seq, inputs = next_seq(), tuple(nodes)
    return [entry.pull, seq, None, inputs, save, meta, attrs, None, constants]


def _alike(arrays: list, given: list) -> bool:
    """Whether the operands are of one type, a number aside."""
    x, y = arrays
    if x.dtype != y.dtype or (x.dtype is not f4 and x.dtype is not f8):
        return False
    return x.shape == y.shape or any(type(g) in (int, float) for g in given)


def _type_parts(x: Any) -> tuple:
    return (x.shape, x.dtype) if hasattr(x, "dtype") else ((), np.asarray(x).dtype)


def _record_several(
    entry: Any,
    made: Any,
    args: tuple,
    arrays: list,
    nodes: list,
    attrs: dict,
    given: list,
) -> tuple[Tensor, ...]:
    outs = tuple([wrap(np.asarray(m)) for m in made])
    if any(n is not None for n in nodes):
        datas = tuple([o._data for o in outs])
        node = record(entry, datas, arrays, nodes, attrs, given)
        node.insert(OUTPUTS, len(outs))
        for number, out in enumerate(outs):
            if out._data.dtype.kind in "fc":
                out._node = output_node(node, number)
    if NAMESPACE["special"]:
        for out in outs:
            finish(out)
        if state.push is not None:
            state.push(outs, entry, args, attrs)
    return outs


def not_a_view(out: Tensor) -> Tensor:
    """A result that shares memory with nothing that the user can see."""
    out._root, out._steps = None, ()
    return out


def output_node(node: Node, number: int) -> Node:
    """The node of one output of an op with several."""
    return [pull_output, next_seq(), None, (node,), None, None, number, None]


# ------------------------------------------------------------------------------ views
def show(x: Tensor, data: np.ndarray, entry: Any, attrs: dict[str, Any]) -> Tensor:
    """A view of `x` by an op with one input that saves nothing.

    Args:
        x: the tensor.
        data: what the op gives for its array.
        entry: the op's entry, prepared.
        attrs: all static attributes.
    """
    out = new(Tensor)
    out._data = data
    node = x._node
    if node is not None:
        have = x._data
        meta = (have.shape, have.dtype)
        seq = next_seq()
        out._node = [entry.pull, seq, None, (node,), None, meta, attrs, None, None]
    if NAMESPACE["special"]:
        finish(out, entry, (x,), attrs)
    link(out, x, entry, attrs)
    return out


def link(out: Tensor, x: Tensor, entry: Any, attrs: dict[str, Any]) -> None:
    """Note that `out` shows memory of `x`, if it does."""
    how = entry.op.aliasing(attrs)
    if how is None or (how == "maybe" and owner_of(out._data) is not owner_of(x._data)):
        return
    step = (entry, attrs, x._data.shape, x._data.dtype)
    root = x if x._root is None else x._root
    if x._inference or NAMESPACE["special"]:
        out._inference = x._inference
    out._root = root
    out._steps = (*x._steps, step)
    out._made = x._made
    if NAMESPACE["special"] and not state.grad:
        out._made = "no_grad"
    views = root._views
    if views is None:
        views = root._views = []
    count = len(views)
    if count >= 32 and not count & (count - 1):
        # Forget the dead ones now and then, so that a long loop stays linear.
        views[:] = [r for r in views if r() is not None]
    views.append(weakref.ref(out))
