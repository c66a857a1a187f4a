"""`backward` and `grad`: the public forms of the backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.eager import modes
from tracegrad.eager.cached import is_compiled_backward
from tracegrad.eager.cached import run as run_compiled
from tracegrad.eager.dtypes import from_numpy_dtype
from tracegrad.eager.loop import Pass, add, from_user, own, to_user
from tracegrad.eager.nodes import SEQ, Node
from tracegrad.eager.registry import FUNCTIONS
from tracegrad.eager.runtime import OUTPUTS, output_node
from tracegrad.eager.tensor import Size, Tensor, wrap


def _roots(
    tensors: Sequence[Tensor], grads: Sequence[Any], create: bool, run: Pass
) -> list[Node]:
    """The nodes to start from; their cotangents go into `run.grads`."""
    nodes = []
    for number, (tensor, grad) in enumerate(zip(tensors, grads)):
        if _is_edge(tensor):
            nodes.append(_from_edge(tensor, grad, create, run))
            continue
        ct = _first(number, tensor, grad, create)
        if tensor._node is None:
            raise RuntimeError(
                f"element {number} of tensors does not require grad and does not have "
                "a grad_fn"
            )
        nodes.append(tensor._node)
        add(run.grads, tensor._node[SEQ], ct)
    return nodes


def _is_edge(x: Any) -> bool:
    """Whether `x` is a `GradientEdge`, which stands for the tensor that hangs on it."""
    return isinstance(x, tuple) and hasattr(x, "output_nr")


def _from_edge(edge: Any, grad: Any, create: bool, run: Pass) -> Node:
    node = edge.node._node
    if not isinstance(grad, Tensor):
        # A node does not know the sizes of its output.
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    ct = from_user(grad, create)
    if len(node) > OUTPUTS + 1:  # their number, and the constants
        node = output_node(node, edge.output_nr)
    add(run.grads, node[SEQ], ct)
    return node


def _node_of(x: Any) -> Node | None:
    return x.node._node if _is_edge(x) else x._node


_ones = {d: np.ones((), d) for d in map(np.dtype, (np.float32, np.float64))}


def _first(number: int, tensor: Tensor, grad: Any, create: bool) -> Any:
    data = tensor._data
    if grad is None:
        if tensor._node is None:
            return None
        if data.size != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if data.dtype.kind != "f":
            raise RuntimeError(
                "grad can be implicitly created only for real scalar outputs but got "
                f"{from_numpy_dtype(data.dtype)}"
            )
        one = _ones.get(data.dtype) if not data.ndim else None
        if one is None:
            one = np.ones(data.shape, data.dtype)
        return wrap(one) if create else one
    if not isinstance(grad, Tensor):
        raise TypeError(
            f"gradients can be either Tensors or None, but got {type(grad).__name__}"
        )
    if grad._data.shape != data.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{number}] has a shape of "
            f"{Size(grad._data.shape)!r} and output[{number}] has a shape of "
            f"{Size(data.shape)!r}."
        )
    if grad._data.dtype != data.dtype:
        grad = grad.to(from_numpy_dtype(data.dtype))
    return from_user(grad, create)


def _tuple(x: Any) -> tuple:
    return (x,) if isinstance(x, Tensor) or _is_edge(x) else tuple(x)


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add the gradients of `tensors` to the `.grad` of the leaves behind them.

    Args:
        tensors: one or several tensors; a scalar needs no entry in `grad_tensors`.
        grad_tensors: the gradient of each tensor, or None for 1.
        retain_graph: whether the graph can be used again; by default `create_graph`.
        create_graph: whether the gradients can be differentiated.
        grad_variables: the name that `grad_tensors` had once.
        inputs: only these get a gradient.

    Raises:
        RuntimeError: PyTorch's messages.
    """
    tensors = _tuple(tensors)
    given = grad_tensors if grad_tensors is not None else grad_variables
    grads = (None,) * len(tensors) if given is None else _tuple_or_none(given)
    retain = create_graph if retain_graph is None else retain_graph
    run = Pass(bool(retain), bool(create_graph))
    roots = _roots(tensors, grads, create_graph, run)
    if inputs is not None:
        inputs = _tuple(inputs)
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        run.wanted = _wanted(inputs)
    _go(run, roots)
    for tensor in inputs or ():
        if not isinstance(tensor, Tensor) or tensor.is_leaf:
            continue
        ct = run.captured.get(tensor._node[SEQ])  # type: ignore[index]
        if ct is not None:
            ct = to_user(ct)
            ct = ct if create_graph else wrap(own(ct._data))
            have = tensor._grad
            tensor._grad = ct if have is None else have + ct


def _tuple_or_none(x: Any) -> tuple:
    return (x,) if isinstance(x, Tensor) or not hasattr(x, "__iter__") else tuple(x)


def _wanted(inputs: tuple) -> set[int]:
    nodes = [_node_of(x) for x in inputs]
    for node in nodes:
        if node is None:
            raise RuntimeError(
                "One of the differentiated Tensors does not require grad"
            )
    return {node[SEQ] for node in nodes}  # type: ignore[index]


def _go(run: Pass, roots: list[Node]) -> None:
    state = modes.state
    outer, state.run = state.run, run
    try:
        with np.errstate(all="ignore"):
            if not run.create:
                run.run(roots)
            else:
                with modes.enable_grad():
                    run.run(roots)
    finally:
        state.run = outer


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of `outputs` with respect to `inputs`; no `.grad` is touched.

    Args:
        outputs: tensors to differentiate.
        inputs: tensors to differentiate by.
        grad_outputs: the gradient of each output, or None for 1.
        retain_graph: whether the graph can be used again; by default `create_graph`.
        create_graph: whether the result can be differentiated.
        only_inputs: always true.
        allow_unused: whether an input that outputs do not depend on gives None.
        is_grads_batched: whether `grad_outputs` have a leading axis of several.
        materialize_grads: whether zeros stand in for None.

    Raises:
        RuntimeError: PyTorch's messages.
    """
    outputs, inputs = _tuple(outputs), _tuple(inputs)
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads="
            "True, but got: allow_unused=False."
        )
    allow = materialize_grads if allow_unused is None else allow_unused
    given = (None,) * len(outputs) if grad_outputs is None else grad_outputs
    given = _tuple_or_none(given)
    if is_grads_batched:
        options = (retain_graph, create_graph, allow, materialize_grads)
        return _batched(outputs, inputs, given, options)
    retain = create_graph if retain_graph is None else retain_graph
    # Tangents go with tensors only.
    create = create_graph or modes.state.push is not None
    run = Pass(bool(retain), bool(create))
    roots = _roots(outputs, given, create, run)
    run.wanted = _wanted(inputs)
    run.accumulate = False
    _go(run, roots)
    results = [_result(run, number, x, allow) for number, x in enumerate(inputs)]
    if create and not create_graph:
        for made in results:
            if made is not None:
                made._node = None
    if materialize_grads:
        pairs = zip(results, inputs)
        results = [wrap(np.zeros_like(x._data)) if g is None else g for g, x in pairs]
    return tuple(results)


def _result(run: Pass, number: int, x: Any, allow_unused: bool) -> Tensor | None:
    """What was captured for one input."""
    found = run.captured.get(_node_of(x)[SEQ])  # type: ignore[index]
    if type(found) is dict:
        found = found.get(x.output_nr)
    if found is None:
        if allow_unused:
            return None
        raise RuntimeError(
            f"The differentiated Tensor at index {number} appears to not have been "
            "used in the graph. Set allow_unused=True if this is the desired "
            "behavior."
        )
    found = to_user(found)
    return found if run.create else wrap(own(found._data))


def _batched(outputs: tuple, inputs: tuple, given: tuple, options: tuple) -> tuple:
    """One pass for each entry along the first axis of `given`."""
    retain, create, allow, materialize = options
    count = next(len(g) for g in given if g is not None)
    rows = []
    for i in range(count):
        rows.append(
            grad(
                outputs,
                inputs,
                tuple([None if g is None else g[i] for g in given]),
                retain_graph=True if i + 1 < count else retain,
                create_graph=create,
                allow_unused=allow,
                materialize_grads=materialize,
            )
        )
    stack = FUNCTIONS["stack"]
    return tuple([None if c[0] is None else stack(c) for c in zip(*rows)])


def tensor_backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
    *,
    compiled: bool | None = None,
) -> None:
    """Add the gradients of this tensor to the `.grad` of the leaves behind it.

    Args:
        gradient: that of this tensor; 1 for a scalar.
        retain_graph: whether the graph can be used again; by default `create_graph`.
        create_graph: whether the gradients can be differentiated.
        inputs: only these get a gradient.
        compiled: whether to run generated code if a graph of this structure was met
            before (`cached`); by default what `set_compiled_backward` says.  The result
            is the same.

    Raises:
        RuntimeError: PyTorch's messages.
    """
    if compiled or (compiled is None and is_compiled_backward()):
        node = self._node
        if not create_graph and inputs is None and node is not None:
            ct = None if gradient is None else _first(0, self, gradient, False)
            if gradient is not None or not self._data.ndim:
                with np.errstate(all="ignore"):
                    if run_compiled(self, ct, bool(retain_graph)):
                        return
    node = self._node
    if gradient is None and inputs is None and node is not None:
        one = None if create_graph or self._data.ndim else _ones.get(self._data.dtype)
        if one is not None:
            # What nearly every call is: one scalar, all leaves.
            run = Pass(bool(retain_graph), False)
            run.grads[node[SEQ]] = one
            _go(run, [node])
            return
    backward((self,), (gradient,), retain_graph, create_graph, inputs=inputs)


Tensor.backward = tensor_backward  # type: ignore[attr-defined]
