"""Transformations of functions, by the names of `torch.func`.

Each level differentiates with respect to new tensors and records its results, so that
levels nest.  `vmap` calls the function once for each entry and stacks the results: the
same numbers as PyTorch's, in the time of a loop.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from tracegrad.eager import backward as engine
from tracegrad.eager.loop import collect
from tracegrad.eager.modes import enable_grad, state
from tracegrad.eager.nodes import SEQ
from tracegrad.eager.registry import FUNCTIONS
from tracegrad.eager.tensor import Size, Tensor, wrap

NAMESPACE = "torch"


def _map(function: Callable, tree: Any, *more: Any) -> Any:
    return optree.tree_map(function, tree, *more, namespace=NAMESPACE)


def _leaves(tree: Any) -> list:
    return optree.tree_leaves(tree, namespace=NAMESPACE)


class _Level:
    """One level of differentiation: new tensors, and which leaves are its own.

    Args:
        tree: arguments, or structures of them.
        name: of the transformation, for errors.

    Raises:
        TypeError: if something in it is no tensor.
    """

    def __init__(self, tree: Any, name: str) -> None:
        self.own: set[int] = set()
        self.tree = _map(functools.partial(self._fresh, name), tree)
        self.tensors = _leaves(self.tree)

    def _fresh(self, name: str, x: Any) -> Tensor:
        if not isinstance(x, Tensor):
            raise TypeError(
                f"{name}: Expected all inputs to be Tensors, got {type(x).__name__}"
            )
        with enable_grad():
            if x._node is not None:
                return x.view(Size(x._data.shape))
            made = wrap(x._data.view())
            made._tangent = x._tangent
            made.requires_grad_()
        self.own.add(made._node[SEQ])  # type: ignore[index]
        return made

    def gradients(self, outputs: Sequence[Tensor], cotangents: Any = None) -> list:
        """The gradient of the outputs with respect to each tensor, recorded."""
        pairs = list(zip(outputs, cotangents or [None] * len(outputs)))
        pairs = [(y, v) for y, v in pairs if y._node is not None]
        made: Sequence = [None] * len(self.tensors)
        if pairs and self.tensors:
            with enable_grad():
                made = engine.grad(
                    [y for y, _ in pairs],
                    self.tensors,
                    [v for _, v in pairs],
                    create_graph=True,
                    allow_unused=True,
                )
        return [
            wrap(np.zeros_like(x._data)) if g is None else g
            for g, x in zip(made, self.tensors)
        ]

    def left(self, x: Any) -> Any:
        """A result as the caller sees it: no history if only this level gave it."""
        if not isinstance(x, Tensor) or x._node is None:
            return x
        if not state.grad:
            return x.detach()
        _, ready = collect([x._node])
        leaves = {leaf[SEQ] for some in ready.values() for leaf in some}
        if leaves <= self.own:
            made = wrap(x._data)
            made._tangent = x._tangent
            return made
        return x


def _chosen(args: tuple, argnums: Any) -> Any:
    """The arguments that are differentiated by."""
    one = isinstance(argnums, int)
    for k in (argnums,) if one else argnums:
        if not -len(args) <= k < len(args):
            raise RuntimeError(
                f"Got argnum={k}, but only {len(args)} positional inputs"
            )
    return args[argnums] if one else tuple([args[k] for k in argnums])


def _replaced(args: tuple, argnums: Any, new: Any) -> tuple:
    made = list(args)
    pairs = [(argnums, new)] if isinstance(argnums, int) else zip(argnums, new)
    for k, x in pairs:
        made[k] = x
    return tuple(made)


def _split(made: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    if not has_aux:
        return made, None
    if not (isinstance(made, tuple) and len(made) == 2):
        raise RuntimeError(
            f"{name}: output of function f should be a tuple: (output, aux) if has_aux "
            "is True"
        )
    return made


def grad_and_value(func: Callable, argnums: Any = 0, has_aux: bool = False) -> Callable:
    """A function that gives the gradient of `func` and its value.

    Args:
        func: gives a tensor with one element, with `has_aux` beside something else.
        argnums: the number of an argument, or a tuple of them.
        has_aux: whether `func` gives a pair, of which the second is handed through.

    Returns:
        A function that gives `(gradient, value)`, or `(gradient, (value, aux))`.
    """

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        level = _Level(_chosen(args, argnums), "grad_and_value(f, argnums)(*args)")
        with enable_grad():
            made = func(*_replaced(args, argnums, level.tree), **kwargs)
        out, aux = _split(made, has_aux, "grad_and_value(f)(*args)")
        if not isinstance(out, Tensor):
            raise RuntimeError(
                "Expected f(*args) to return a tensor, got tensor of type "
                f"{type(out)} instead"
            )
        if out._data.ndim:
            raise RuntimeError(
                "Expected f(*args) to return a scalar tensor, got tensor with "
                f"{out._data.ndim} dims. Maybe you wanted to use the vjp or jacrev "
                "APIs instead?"
            )
        found = iter(level.gradients([out]))
        grads = _map(lambda _: level.left(next(found)), level.tree)
        value = _map(level.left, (out, aux) if has_aux else out)
        return grads, value

    return run


def grad(func: Callable, argnums: Any = 0, has_aux: bool = False) -> Callable:
    """A function that gives the gradient of `func`, which gives one number.

    Args:
        func: gives a tensor with one element, with `has_aux` beside something else.
        argnums: the number of an argument, or a tuple of them.
        has_aux: whether `func` gives a pair; then the result is `(gradient, aux)`.

    Example:
        >>> import tracegrad.eager as torch
        >>> torch.func.grad(torch.func.grad(torch.sin))(torch.tensor(1.0))
        tensor(-0.8415)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        grads, value = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return run


def vjp(func: Callable, *primals: Any, has_aux: bool = False) -> Any:
    """The value of `func`, and a function that pulls cotangents back.

    Returns:
        `(output, pull)`, with `has_aux` `(output, pull, aux)`.  `pull(cotangents)`
        gives a tuple with a gradient for each primal.
    """
    level = _Level(primals, "vjp(f, *primals)")
    with enable_grad():
        made = func(*level.tree)
    out, aux = _split(made, has_aux, "vjp(f, *primals)")
    outputs = _leaves(out)

    def pull(cotangents: Any, retain_graph: bool = True) -> Any:
        given = _leaves(cotangents)
        if len(given) != len(outputs):
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree "
                "structure of outputs to the function."
            )
        found = iter(level.gradients(outputs, given))
        return _map(lambda _: level.left(next(found)), level.tree)

    shown = _map(level.left, out)
    return (shown, pull, _map(level.left, aux)) if has_aux else (shown, pull)


def jvp(func: Callable, primals: Any, tangents: Any, *, has_aux: bool = False) -> Any:
    """The value of `func` at the tuple `primals`, and its derivative along `tangents`.

    It is the derivative, with respect to the cotangent, of what `vjp` gives: so it
    needs no more than the rules of reverse mode.
    """
    level = _Level(primals, "jvp(f, primals, tangents)")
    with enable_grad():
        made = func(*level.tree)
    out, aux = _split(made, has_aux, "jvp(f, primals, tangents)")
    outputs, directions = _leaves(out), _leaves(tangents)
    cotangents = _Level([wrap(np.ones_like(y._data)) for y in outputs], "jvp")
    level.own |= cotangents.own
    pulled = level.gradients(outputs, cotangents.tree)
    found = iter(cotangents.gradients(pulled, directions))
    along = _map(lambda _: level.left(next(found)), out)
    shown = _map(level.left, out)
    return (shown, along, _map(level.left, aux)) if has_aux else (shown, along)


def _jacobian(func: Callable, argnums: Any, has_aux: bool, name: str) -> Callable:
    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        level = _Level(_chosen(args, argnums), f"{name}(f, argnums)(*args)")
        with enable_grad():
            made = func(*_replaced(args, argnums, level.tree), **kwargs)
        out, aux = _split(made, has_aux, f"{name}(f)(*args)")
        result = _map(lambda y: _rows(level, y), out)
        return (result, _map(level.left, aux)) if has_aux else result

    return run


def _rows(level: _Level, y: Tensor) -> Any:
    """The derivatives of one output: the structure of the arguments."""
    shape = y._data.shape
    rows = []
    for k in range(y._data.size):
        one = np.zeros(y._data.size, y._data.dtype)
        one[k] = 1
        rows.append(level.gradients([y], [wrap(one.reshape(shape))]))
    stack, parts = FUNCTIONS["stack"], []
    for j, x in enumerate(level.tensors):
        sizes = (*shape, *x._data.shape)
        column = [row[j] for row in rows]
        whole = stack(column) if column else wrap(np.zeros(0, x._data.dtype))
        parts.append(level.left(whole.reshape(sizes)))
    found = iter(parts)
    return _map(lambda _: next(found), level.tree)


def jacrev(
    func: Callable,
    argnums: Any = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable:
    """A function that gives the Jacobian of `func`: output sizes, then input sizes.

    Args:
        func: a function of tensors.
        argnums: the number of an argument, or a tuple of them.
        has_aux: whether `func` gives a pair; then the result is `(jacobian, aux)`.
        chunk_size: how many rows PyTorch computes together; here it is one.
    """
    return _jacobian(func, argnums, has_aux, "jacrev")


def jacfwd(
    func: Callable,
    argnums: Any = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable:
    """The same as `jacrev`, which computes it here too."""
    return _jacobian(func, argnums, has_aux, "jacfwd")


def hessian(func: Callable, argnums: Any = 0) -> Callable:
    """A function that gives the second derivatives of `func`."""
    return jacfwd(jacrev(func, argnums), argnums)


# ------------------------------------------------------------------------------- vmap
def vmap(
    func: Callable,
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable:
    """A function that maps `func` over an axis of its arguments.

    Args:
        func: a function of tensors.
        in_dims: the axis of each argument; None for one that is the same for all, as
            those are that are given by name.
        out_dims: where the axis stands in each result.
        randomness: "error", "different" or "same"; random numbers are drawn anew for
            each entry, whatever it says.
        chunk_size: how many entries PyTorch computes together; here it is one.

    Raises:
        ValueError: if nothing is mapped over, or sizes differ.

    Example:
        >>> import tracegrad.eager as torch
        >>> torch.vmap(torch.dot)(torch.ones(2, 3), torch.arange(6.0).reshape(2, 3))
        tensor([ 3., 12.])
    """

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        given: Any = args
        leaves, structure = optree.tree_flatten(
            given, namespace=NAMESPACE, none_is_leaf=True
        )
        dims = _dims_of(in_dims, args)
        pairs = [(x, _axis(d, x)) for x, d in zip(leaves, dims) if d is not None]
        sizes = {x._data.shape[axis] for x, axis in pairs}
        if not sizes:
            raise ValueError(
                "vmap: at least one Tensor must be mapped over, but in_dims says None "
                "for all of them"
            )
        if len(sizes) > 1:
            raise ValueError(
                "vmap: Expected all tensors to have the same size in the mapped "
                f"dimension, got sizes {sorted(sizes)} for the mapped dimension"
            )
        results = []
        for k in range(sizes.pop()):
            part = [
                x if d is None else x.select(_axis(d, x), k)
                for x, d in zip(leaves, dims)
            ]
            results.append(func(*structure.unflatten(part), **kwargs))
        return _stacked(results, out_dims, getattr(func, "__name__", repr(func)))

    return run


def _axis(dim: int, x: Any) -> int:
    if not isinstance(x, Tensor):
        raise ValueError(
            f"vmap: Got in_dim={dim} for an input but the input is of type {type(x)}. "
            "We cannot vmap over non-Tensor arguments, please use None as the "
            "respective in_dim"
        )
    if not -x._data.ndim <= dim < x._data.ndim:
        raise ValueError(
            f"vmap: Got in_dim={dim} for some input, but that input is a Tensor of "
            f"dimensionality {x._data.ndim} so expected in_dim to satisfy "
            f"-{x._data.ndim} <= in_dim < {x._data.ndim}."
        )
    return dim % x._data.ndim


def _dims_of(in_dims: Any, args: tuple) -> list:
    """The axis of each leaf of the arguments."""

    def spread(dims: Any, tree: Any) -> list:
        if dims is None or isinstance(dims, int):
            count = optree.tree_structure(
                tree, namespace=NAMESPACE, none_is_leaf=True
            ).num_leaves
            return [dims] * count
        if isinstance(dims, dict):
            return [d for key in sorted(tree) for d in spread(dims[key], tree[key])]
        if len(dims) != len(tree):
            raise ValueError(
                f"vmap: in_dims is not compatible with the structure of inputs, got "
                f"in_dims {dims} for {len(tree)} inputs"
            )
        return [d for one, part in zip(dims, tree) for d in spread(one, part)]

    given = list(in_dims) if isinstance(in_dims, tuple | list) else in_dims
    return spread(given, args)


def _stacked(results: list, out_dims: Any, name: str) -> Any:
    stack = FUNCTIONS["stack"]
    if not results:
        raise ValueError("vmap: the mapped dimension has size 0")
    first, structure = optree.tree_flatten(results[0], namespace=NAMESPACE)
    columns = zip(*[_leaves(r) for r in results])
    dims = list(out_dims) if isinstance(out_dims, tuple | list) else out_dims
    if not isinstance(dims, list):
        dims = [dims] * len(first)
    made = []
    for column, dim in zip(columns, dims):
        for x in column:
            if not isinstance(x, Tensor):
                raise ValueError(
                    f"vmap: `{name}` must only return Tensors, got type {type(x)}"
                )
        if dim is None:
            made.append(column[0])
            continue
        made.append(stack(column, dim))
    return structure.unflatten(made)


FUNCTIONS["vmap"] = vmap

__all__ = [
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "vjp",
    "vmap",
]
