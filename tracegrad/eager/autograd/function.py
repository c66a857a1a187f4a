"""`autograd.Function`: a pair of functions, forward and backward, as one node.

The node's `attrs` is a `_Call`: the context that both functions see, and the types of
the outputs.  What is saved stands in the node only, so that the loop frees it as it
does for any op; the context borrows it while `backward` runs.  Neither refers to the
results, so no reference cycle is made.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad.eager import dual, modes, versions
from tracegrad.eager.autograd.context import FunctionCtx, Kept, Saved, opened
from tracegrad.eager.inplace import rebase
from tracegrad.eager.loop import from_user, to_user
from tracegrad.eager.modes import NAMESPACE, state
from tracegrad.eager.nodes import (
    ATTRS,
    INPUTS,
    META,
    Node,
    next_seq,
)
from tracegrad.eager.runtime import add_to, conform, finish, graph_conform, output_node
from tracegrad.eager.tensor import Size, Tensor, wrap

NO_FORWARD = "You must implement the forward function for custom autograd.Function."
NO_BACKWARD = (
    "You must implement either the backward or vjp method for your custom "
    "autograd.Function to use it with backward mode AD."
)
BOTH = (
    "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You "
    "should only implement one of them."
)
NO_JVP = (
    "You must implement the jvp function for custom autograd.Function to use it with "
    "forward mode AD."
)
NOT_RETURNED = (
    "Some elements marked as dirty during the forward method were not returned as "
    "output. The inputs that are modified inplace must all be outputs of the Function."
)
NOT_AN_INPUT = (
    "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that "
    "have been mutated should be passed to ctx.mark_dirty()."
)
DIRTY_LEAF = (
    "a leaf Variable that requires grad has been used in an in-place operation."
)
NOT_STATIC = (
    "Legacy autograd function with non-static forward method is deprecated. Please use "
    "new-style autograd function with static forward method. (Example: https://pytorch"
    ".org/docs/stable/autograd.html#torch.autograd.Function)"
)
TWICE = (
    "trying to differentiate twice a function that was marked with @once_differentiable"
)


class _Call:
    """One call of a function.

    Attributes:
        cls: the class.
        ctx: the context.
        tensors: for each argument whether it was a tensor.
        types: (shape, dtype) of each output, None for what is no tensor.
    """

    __slots__ = ("cls", "ctx", "tensors", "types")

    def __init__(self, cls: Any, ctx: Any, args: Sequence[Any]) -> None:
        self.cls, self.ctx = cls, ctx
        self.tensors = [isinstance(x, Tensor) for x in args]
        self.types: list[tuple | None] = []


# --------------------------------------------------------------------------- backward
def _pull(node: Node, ct: Any, grads: dict) -> None:
    for source, g in zip(node[INPUTS], _parts(node, ct, False)):
        if source is not None and g is not None:
            add_to(grads, source, g)


def _pull_graph(node: Node, ct: Any, grads: dict) -> None:
    for source, g in zip(node[INPUTS], _parts(node, ct, True)):
        if source is not None and g is not None:
            add_to(grads, source, g)


def _parts(node: Node, ct: Any, create: bool) -> list:
    """The cotangent of each tensor among the arguments."""
    run: _Call = node[ATTRS]
    ctx = run.ctx
    cts = ct if type(ct) is dict else {0: ct}
    given = [
        _given(cts.get(k), kind, ctx.materialize_grads)
        for k, kind in enumerate(run.types)
    ]
    before = state.rules, state.grad
    state.rules, state.grad = False, create
    modes.changed()
    ctx._saved = opened(node)
    try:
        made = run.cls._backward()(ctx, *given)
    finally:
        state.rules, state.grad = before
        modes.changed()
        ctx._saved = ()
    return _checked(node, made, create)


def _given(ct: Any, kind: tuple | None, materialize: bool) -> Tensor | None:
    if ct is not None:
        return to_user(ct)
    if kind is None or not materialize:
        return None
    return wrap(np.zeros(*kind))


def _checked(node: Node, made: Any, create: bool) -> list:
    """What `backward` returned, as a cotangent for each tensor argument.

    Raises:
        RuntimeError: PyTorch's messages, if it does not fit.
    """
    run: _Call = node[ATTRS]
    name = f"{run.cls.__name__}Backward"
    parts = list(made) if isinstance(made, tuple) else [made]
    count = len(run.tensors)
    if len(parts) > count and all(p is None for p in parts[count:]):
        del parts[count:]
    if len(parts) != count:
        raise RuntimeError(
            f"function {name} returned an incorrect number of gradients (expected "
            f"{count}, got {len(parts)})"
        )
    results: list[Any] = []
    meta = node[META]
    for number, (part, is_tensor) in enumerate(zip(parts, run.tensors)):
        if not is_tensor:
            if part is not None:
                raise RuntimeError(
                    f"function {name} returned a gradient different than None at "
                    f"position {number + 1}, but the corresponding forward input was "
                    "not a Variable"
                )
            continue
        if part is not None and not isinstance(part, Tensor):
            raise RuntimeError(f"expected Variable or None (got {type(part).__name__})")
        k = len(results)
        if part is None or node[INPUTS][k] is None:
            results.append(None)
            continue
        results.append(_fit(name, k, part, meta[2 * k : 2 * k + 2], create))
    return results


def _fit(name: str, k: int, part: Tensor, kind: tuple, create: bool) -> Any:
    shape, dtype = kind
    have = part._data.shape
    if have != shape and not _expands_to(shape, have):
        raise RuntimeError(
            f"Function {name} returned an invalid gradient at index {k} - got "
            f"{list(have)} but expected shape compatible with {list(shape)}"
        )
    ct = from_user(part, create)
    return graph_conform(ct, shape, dtype) if create else conform(ct, shape, dtype)


def _expands_to(shape: tuple, to: tuple) -> bool:
    return len(shape) <= len(to) and all(
        m in (1, n) for m, n in zip(reversed(shape), reversed(to))
    )


def _title(node: Node) -> str:
    return f"{node[ATTRS].cls.__name__}Backward"


def _attribute(node: Node, name: str) -> Any:
    """What `grad_fn` shows of the context."""
    ctx = node[ATTRS].ctx
    ctx._saved = opened(node)
    try:
        return getattr(ctx, name)
    finally:
        ctx._saved = ()


for pull in (_pull, _pull_graph):
    pull.title = _title  # type: ignore[attr-defined]
    pull.module = "torch.autograd.function."  # type: ignore[attr-defined]
    pull.slots = lambda node: ()  # type: ignore[attr-defined]
    pull.attribute = _attribute  # type: ignore[attr-defined]
_pull.graph = _pull_graph  # type: ignore[attr-defined]
_pull.parts = functools.partial(_parts, create=False)  # type: ignore[attr-defined]
_pull_graph.parts = functools.partial(_parts, create=True)  # type: ignore[attr-defined]


# ---------------------------------------------------------------------------- forward
class Function:
    """A differentiable function with a derivative of its own.

    Subclasses define static methods: `forward(ctx, *args)`, or `forward(*args)` with
    `setup_context(ctx, inputs, output)`; `backward(ctx, *grads)`, which returns a
    gradient for each argument; and for forward mode `jvp(ctx, *tangents)`.

    Example:
        >>> import tracegrad.eager as torch
        >>> class Exp(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         y = x.exp()
        ...         ctx.save_for_backward(y)
        ...         return y
        ...
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         (y,) = ctx.saved_tensors
        ...         return grad * y
        >>> x = torch.zeros(2, requires_grad=True)
        >>> Exp.apply(x)
        tensor([1., 1.], grad_fn=<ExpBackward>)
    """

    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions "
            "are all static, so you should invoke them on the class itself. "
            "Instantiating an autograd function will raise an error in a future "
            "version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: functions are called by `apply`."""
        raise RuntimeError(NOT_STATIC)

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs."""
        raise NotImplementedError(NO_FORWARD)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> Any:
        """Save what `backward` needs; then `forward` takes no `ctx`."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradient of each argument from those of the outputs."""
        raise NotImplementedError(NO_BACKWARD)

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """The tangents of the outputs from those of the arguments."""
        raise NotImplementedError(NO_JVP)

    @classmethod
    def _backward(cls) -> Callable:
        own, other = cls.backward, cls.vjp
        if other is not Function.vjp:
            if own is not Function.backward:
                raise RuntimeError(BOTH)
            return other
        return own

    @classmethod
    def _context(cls) -> Any:
        kind = cls.__dict__.get("_context_class")
        if kind is None:
            kind = type(
                f"{cls.__name__}Backward", (FunctionCtx,), {"_forward_cls": cls}
            )
            kind.__module__ = "torch.autograd.function"
            cls._context_class = kind  # type: ignore[attr-defined]
        return kind()

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run `forward`, and record it as one node.

        Raises:
            RuntimeError: PyTorch's messages, if what was marked does not fit.
        """
        ctx = cls._context()
        apart = cls.setup_context is not Function.setup_context
        if apart:
            bound = inspect.signature(cls.forward).bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        elif kwargs:
            bound = inspect.signature(cls.forward).bind(ctx, *args, **kwargs)
            args, kwargs = bound.args[1:], bound.kwargs
        run = _Call(cls, ctx, args)
        ctx.needs_input_grad = tuple(
            [isinstance(x, Tensor) and x.requires_grad for x in args]
        )
        recording = state.grad and any(ctx.needs_input_grad)
        tangents = dual.tangents_of(args)
        before = state.grad, state.push
        state.grad, state.push = False, None
        modes.changed()
        try:
            if apart:
                made = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, args, made)
            else:
                made = cls.forward(ctx, *args, **kwargs)
        finally:
            state.grad, state.push = before
            modes.changed()
        results = _recorded(run, args, made, recording)
        if tangents is not None:
            outs = results if isinstance(results, tuple) else (results,)
            _push(run, args, tangents, outs)
        ctx.to_save = ctx.saved_for_forward = ()
        ctx.dirty_tensors = ctx.non_differentiable = ()
        return results


def _recorded(run: _Call, args: tuple, made: Any, recording: bool) -> Any:
    """The outputs as the caller gets them, with their node if there is one."""
    ctx = run.ctx
    outs = made if isinstance(made, tuple) else (made,)
    inputs = [x for x in args if isinstance(x, Tensor)]
    run.types = [
        (x._data.shape, x._data.dtype) if isinstance(x, Tensor) else None for x in outs
    ]
    for x in ctx.to_save:
        if x is not None and not isinstance(x, Tensor):
            number = [y is x for y in ctx.to_save].index(True)
            raise TypeError(
                "save_for_backward can only save variables, but argument "
                f"{number} is of type {type(x).__name__}"
            )
    for x in ctx.dirty_tensors:
        if not _among(x, outs):
            raise RuntimeError(NOT_RETURNED)
        if not _among(x, inputs):
            warnings.warn(NOT_AN_INPUT, UserWarning, stacklevel=4)
        versions.changed(x._data)
    # Versions count from the node on: what `forward` itself changed is no offence.
    node = _node_of(run, inputs, outs) if recording else None
    results = tuple([_output(run, k, x, node, inputs) for k, x in enumerate(outs)])
    return results if isinstance(made, tuple) else results[0]


def _among(x: Any, others: Any) -> bool:
    return any(x is y for y in others)


def _node_of(run: _Call, inputs: list[Tensor], outs: tuple) -> Node:
    saved = []
    for x in run.ctx.to_save:
        number = next((k for k, y in enumerate(outs) if y is x), None)
        if x is not None and _among(x, inputs) and not _among(x, run.ctx.dirty_tensors):
            number = None  # an input that is returned as it is
        saved.append(None if x is None else Saved(x, number))
    meta = tuple([part for x in inputs for part in (x._data.shape, x._data.dtype)])
    sources = tuple([x._node for x in inputs])
    kept = tuple(saved) if saved else None
    seq = next_seq()
    return [_pull, seq, None, sources, kept, meta, run, None, len(outs), None]


def _output(run: _Call, k: int, x: Any, node: Node | None, inputs: list) -> Any:
    """One output: with its history, as a view of the input that it is, or as it is."""
    if not isinstance(x, Tensor):
        return x
    ctx = run.ctx
    dirty = _among(x, ctx.dirty_tensors)
    is_input = _among(x, inputs)
    if node is None:
        return x if dirty or not is_input else _same_memory(x)
    if _among(x, ctx.non_differentiable) or x._data.dtype.kind not in "fc":
        return x.detach() if is_input and not dirty else x
    source = node if len(run.types) == 1 else output_node(node, k)
    if dirty and is_input:
        if x.is_leaf and x.requires_grad:
            raise RuntimeError(DIRTY_LEAF)
        rebase(x, source, x._data)
        return x
    if is_input:
        x = _same_memory(x)
    if x._root is not None:
        x._made = "function" if len(run.types) == 1 else "multiple outputs"
    x._node = source
    if NAMESPACE["special"]:
        finish(x)
    return x


def _same_memory(x: Tensor) -> Tensor:
    with modes.set_grad_enabled(False):
        return x.view(Size(x._data.shape))


def _push(run: _Call, args: tuple, tangents: list, outs: tuple) -> None:
    """Give the outputs the tangents that `jvp` returns."""
    ctx = run.ctx
    if ctx.materialize_grads:
        tangents = [
            wrap(np.zeros_like(x._data)) if t is None and isinstance(x, Tensor) else t
            for x, t in zip(args, tangents)
        ]
    ctx._saved = tuple([None if x is None else Kept(x) for x in ctx.saved_for_forward])
    try:
        made = run.cls.jvp(ctx, *tangents)
    finally:
        ctx._saved = ()
    dual.give_all(outs, made if isinstance(made, tuple) else (made,))


# ------------------------------------------------------------------------------- once
def once_differentiable(function: Callable) -> Callable:
    """Decorator for a `backward` that cannot be differentiated: trying is an error."""

    @functools.wraps(function)
    def run(ctx: Any, *args: Any) -> Any:
        with modes.no_grad():
            made = function(ctx, *args)
        sources = tuple(
            [x._node for x in args if isinstance(x, Tensor) and x._node is not None]
        )
        if not state.grad or not sources:
            return made
        outs = made if isinstance(made, tuple) else (made,)
        marked = []
        for x in outs:
            if isinstance(x, Tensor):
                x = x.detach()
                node = [_pull_twice, next_seq(), None, sources, None, None, None, None]
                x._node = node
            marked.append(x)
        return tuple(marked) if isinstance(made, tuple) else marked[0]

    return run


def _pull_twice(node: Node, ct: Any, grads: dict) -> None:
    raise RuntimeError(TWICE)


_pull_twice.graph = _pull_twice  # type: ignore[attr-defined]
_pull_twice.title = "Error"  # type: ignore[attr-defined]

__all__ = ["Function", "FunctionCtx", "once_differentiable"]
