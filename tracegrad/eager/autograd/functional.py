"""Products with Jacobians and Hessians, by the names of `torch.autograd.functional`.

All of it is reverse mode: a product from the right, which forward mode would give, is
the derivative of a product from the left by its vector.  So functions of which only the
backward pass is known (`autograd.Function`) work too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad.eager import modes
from tracegrad.eager.autograd import forward_ad
from tracegrad.eager.backward import grad
from tracegrad.eager.registry import FUNCTIONS
from tracegrad.eager.tensor import Size, Tensor, wrap

OUTPUTS = "outputs of the user-provided function"
STRICT = "This is not allowed in strict mode."
STRICT_GRAPH = "This is not allowed in strict mode when create_graph=True."
ONE_OUTPUT = (
    "The vector v can only be None if the user-provided function returns a single "
    "Tensor with a single element."
)
ONE_INPUT = (
    "The vector v can only be None if the input to the user-provided function is a "
    "single Tensor with a single element."
)


# ----------------------------------------------------------------- what users hand in
def _tuple(x: Any, what: str, name: str) -> tuple[bool, tuple[Tensor, ...]]:
    """Whether `x` is a tuple, and its tensors."""
    many = isinstance(x, tuple)
    for i, part in enumerate(x if many else (x,)):
        if not isinstance(part, Tensor):
            which = f"value at index {i}" if many else f"given {what}"
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of "
                f"Tensors but the {which} has type {type(part)}."
            )
    return many, x if many else (x,)


def _inputs(inputs: Any, name: str, create_graph: bool) -> tuple[bool, tuple]:
    """The inputs as tensors to differentiate by."""
    many, tensors = _tuple(inputs, "inputs", name)
    if create_graph:
        return many, tuple(
            [
                x.view(Size(x.shape))
                if x.requires_grad
                else x.detach().requires_grad_()
                for x in tensors
            ]
        )
    return many, tuple([x.detach().requires_grad_() for x in tensors])


def _vector(v: Any, like: tuple, many: bool, name: str, alone: str) -> tuple:
    """The vector of a product, checked; ones if it may be left out."""
    if v is None:
        if len(like) != 1 or like[0]._data.size != 1:
            raise RuntimeError(alone)
        return (wrap(np.ones_like(like[0]._data)),)
    vectors = _tuple(v, "v", name)[1]
    if len(vectors) != len(like):
        if many:
            raise RuntimeError(
                f"v is a tuple of invalid length: should be {len(like)} but got "
                f"{len(vectors)}."
            )
        raise RuntimeError("The given v should contain a single Tensor.")
    for i, (have, x) in enumerate(zip(vectors, like)):
        if have.shape != x.shape:
            entry = f"Entry {i} in " if many else ""
            raise RuntimeError(
                f"{entry}v has invalid size: should be {x.shape!r} but got "
                f"{have.shape!r}."
            )
    return vectors


def _number(outputs: tuple, many: bool, name: str) -> None:
    if many:
        raise RuntimeError(
            f"The function given to {name} should return a single Tensor"
        )
    if outputs[0]._data.size != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {name} should contain a "
            "single element"
        )


def _check_outputs(outputs: tuple, strict: bool) -> None:
    for i, out in enumerate(outputs):
        if strict and not out.requires_grad:
            raise RuntimeError(
                f"Output {i} of the user-provided function does not require gradients. "
                "The outputs must be computed in a differentiable manner from the "
                "input when running in strict mode."
            )


# --------------------------------------------------------------------------- the parts
def _gradients(
    outputs: Sequence[Tensor], inputs: tuple, vectors: Any, create: bool = False
) -> tuple:
    """Gradients of those outputs that have a history; None where there is none."""
    given = [None] * len(outputs) if vectors is None else vectors
    pairs = [
        (y, v) for y, v in zip(outputs, given) if y is not None and y.requires_grad
    ]
    if not pairs:
        return (None,) * len(inputs)
    return grad(
        [y for y, _ in pairs],
        inputs,
        [v for _, v in pairs],
        create_graph=create,
        allow_unused=True,
    )


def _filled(grads: Sequence, like: tuple, strict: bool, told: Callable) -> tuple:
    """Zeros for None, which in strict mode is an error: `told(i)`."""
    made = []
    for i, (g, x) in enumerate(zip(grads, like)):
        if g is None and strict:
            raise RuntimeError(told(i))
        made.append(wrap(np.zeros_like(x._data)) if g is None else g)
    return tuple(made)


def _recorded(results: tuple, strict: bool, create_graph: bool, told: Callable) -> None:
    for i, x in enumerate(results):
        if strict and create_graph and not x.requires_grad:
            raise RuntimeError(told(i))


def _result(parts: tuple, many: bool, create_graph: bool) -> Any:
    if not create_graph:
        parts = tuple([x.detach() for x in parts])
    return parts if many else parts[0]


def _independent(i: int) -> str:
    return (
        "The output of the user-provided function is independent of input "
        f"{i}. {STRICT}"
    )


def _flat_jacobian(i: int) -> str:
    return (
        "The jacobian of the user-provided function is independent of input "
        f"{i}. {STRICT_GRAPH}"
    )


def _flat_hessian(i: int) -> str:
    return (
        "The hessian of the user-provided function is independent of input "
        f"{i}. {STRICT_GRAPH}"
    )


# -------------------------------------------------------------------------- the public
def vjp(
    func: Callable,
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """`func(*inputs)`, and the product of `v` with its Jacobian.

    Args:
        func: function of tensors that returns one or a tuple of them.
        inputs: a tensor or a tuple of them.
        v: of the form of the outputs; None if there is one with one element.
        create_graph: whether the results can be differentiated.
        strict: whether an output that depends on no input is an error, not zero.

    Raises:
        RuntimeError: PyTorch's messages.

    Example:
        >>> import tracegrad.eager as torch
        >>> from tracegrad.eager.autograd.functional import vjp
        >>> vjp(lambda x: x.sin(), torch.zeros(2), torch.ones(2))
        (tensor([0., 0.]), tensor([1., 1.]))
    """
    with modes.enable_grad():
        many, xs = _inputs(inputs, "vjp", create_graph)
        out_many, outputs = _tuple(func(*xs), OUTPUTS, "vjp")
        _check_outputs(outputs, strict)
        vectors = _vector(v, outputs, out_many, "vjp", ONE_OUTPUT)
    grads = _gradients(outputs, xs, vectors, create_graph)
    made = _filled(grads, xs, strict, _independent)
    _recorded(made, strict, create_graph, _flat_jacobian)
    return (
        _result(outputs, out_many, create_graph),
        _result(made, many, create_graph),
    )


def jvp(
    func: Callable,
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """`func(*inputs)`, and the product of its Jacobian with `v`.

    Args:
        func: as for `vjp`.
        inputs: as for `vjp`.
        v: of the form of the inputs; None if there is one with one element.
        create_graph: as for `vjp`.
        strict: as for `vjp`.
    """
    with modes.enable_grad():
        many, xs = _inputs(inputs, "jvp", create_graph)
        vectors = _vector(v, xs, many, "jvp", ONE_INPUT)
        out_many, outputs = _tuple(func(*xs), OUTPUTS, "jvp")
        _check_outputs(outputs, strict)
        # Linear in `cts`; its derivative by them is the product from the right.
        cts = tuple([wrap(np.zeros_like(y._data)).requires_grad_() for y in outputs])
        back = _gradients(outputs, xs, cts, True)
        _filled(back, xs, strict, _independent)
    made = _gradients(back, cts, vectors, create_graph)
    made = _filled(made, cts, strict, _no_entry)
    _recorded(made, strict, create_graph, _flat_jacobian)
    return (
        _result(outputs, out_many, create_graph),
        _result(made, out_many, create_graph),
    )


def _no_entry(i: int) -> str:
    return (
        f"The gradient with respect to the input is independent of entry {i} in the "
        "grad_outputs when using the double backward trick to compute forward mode "
        f"gradients. {STRICT}"
    )


def jacobian(
    func: Callable,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian: for each output and input, of the shape of both together.

    Args:
        func: as for `vjp`.
        inputs: as for `vjp`.
        create_graph: as for `vjp`.
        strict: as for `vjp`.
        vectorize: accepted; there is one way to compute it.
        strategy: `"reverse-mode"`, or `"forward-mode"` with `vectorize`.

    Returns:
        A tensor; a tuple over the inputs if they are one; a tuple over the outputs of
        these if they are one.
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If '
            'your function has more outputs than inputs, "forward-mode" tends to be '
            'more performant. Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        return _forward(func, inputs, create_graph, strict, vectorize)
    if strict and vectorize:
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` "
            "are not supported together. Please either set `strict=False` or "
            "`vectorize=False`."
        )
    with modes.enable_grad():
        many, xs = _inputs(inputs, "jacobian", create_graph)
        out_many, outputs = _tuple(func(*xs), OUTPUTS, "jacobian")
        _check_outputs(outputs, strict)
        rows = [_rows(i, y, xs, create_graph, strict) for i, y in enumerate(outputs)]
    made = [_result(row, many, create_graph) for row in rows]
    return tuple(made) if out_many else made[0]


def _rows(number: int, y: Tensor, xs: tuple, create: bool, strict: bool) -> tuple:
    """The Jacobian of one output by each input."""
    columns: list[list] = [[] for _ in xs]
    for place in range(y._data.size):
        unit = np.zeros_like(y._data)
        unit.reshape(-1)[place] = 1
        grads: tuple = (None,) * len(xs)
        if y.requires_grad:
            grads = grad(
                (y,),
                xs,
                (wrap(unit),),
                retain_graph=True,
                create_graph=create,
                allow_unused=True,
            )
        grads = _filled(
            grads,
            xs,
            strict,
            lambda i: (
                f"Output {number} of the user-provided function is independent of "
                f"input {i}. {STRICT}"
            ),
        )
        _recorded(grads, strict, create, _flat_jacobian)
        for column, g in zip(columns, grads):
            column.append(g)
    stack = FUNCTIONS["stack"]
    return tuple(
        [
            stack(column).view((*y.shape, *x.shape))
            if column
            else wrap(np.zeros((*y.shape, *x.shape), x._data.dtype))
            for column, x in zip(columns, xs)
        ]
    )


def _forward(
    func: Callable, inputs: Any, create_graph: bool, strict: bool, vectorize: bool
) -> Any:
    """The Jacobian column by column, in forward mode."""
    if create_graph:
        raise NotImplementedError(
            "torch.autograd.functional.jacobian: `create_graph=True` and `strategy="
            '"forward-mode"` are not supported together (yet). Please either set '
            '`create_graph=False` or `strategy="reverse-mode"`.'
        )
    if strict:
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and `strategy="
            '"forward-mode"` are not supported together (yet). Please either set '
            '`strict=False` or `strategy="reverse-mode"`.'
        )
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is"
            "only implemented for `vectorize=True`."
        )
    many, xs = _tuple(inputs, "inputs", "jacobian")
    xs = tuple([x.detach() for x in xs])
    table: list[list[list]] = []
    for k, x in enumerate(xs):
        columns = []
        for place in range(x._data.size):
            unit = np.zeros_like(x._data)
            unit.reshape(-1)[place] = 1
            with forward_ad.dual_level():
                given = (*xs[:k], forward_ad.make_dual(x, wrap(unit)), *xs[k + 1 :])
                out_many, outputs = _tuple(func(*given), OUTPUTS, "jacobian")
                columns.append([_tangent(y) for y in outputs])
        table.append(columns)
    made = []
    for i in range(len(table[0][0])):
        row = [_by_columns([c[i] for c in columns], x) for columns, x in zip(table, xs)]
        made.append(tuple(row) if many else row[0])
    return tuple(made) if out_many else made[0]


def _tangent(y: Tensor) -> np.ndarray:
    tangent = forward_ad.unpack_dual(y).tangent
    return np.zeros_like(y._data) if tangent is None else tangent._data


def _by_columns(columns: list[np.ndarray], x: Tensor) -> Tensor:
    whole = np.stack(columns, axis=-1)
    return wrap(whole.reshape(*columns[0].shape, *x._data.shape))


def hessian(
    func: Callable,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of a function that returns one number.

    Args:
        func: function of tensors that returns a tensor with one element.
        inputs: as for `vjp`.
        create_graph: as for `vjp`.
        strict: as for `vjp`.
        vectorize: accepted.
        outer_jacobian_strategy: the `strategy` of the second derivative.

    Returns:
        A tensor, or a tuple of tuples for a tuple of inputs.
    """
    many = _tuple(inputs, "inputs", "hessian")[0]
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode".'
        )

    def gradient(*xs: Tensor) -> Any:
        def number(*xs: Tensor) -> Any:
            out = func(*xs)
            out_many, outputs = _tuple(out, OUTPUTS, "hessian")
            _number(outputs, out_many, "hessian")
            return out.squeeze()

        if outer_jacobian_strategy == "forward-mode":
            xs = tuple([x if x.requires_grad else x.requires_grad_() for x in xs])
        made = jacobian(number, xs, create_graph=True)
        _recorded(made, strict, True, _flat_gradient)
        return made

    xs = inputs if many else (inputs,)
    made = jacobian(
        gradient, xs, create_graph, strict, vectorize, outer_jacobian_strategy
    )
    return made if many else made[0][0]


def vhp(
    func: Callable,
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """`func(*inputs)`, one number, and the product of `v` with its Hessian.

    Args:
        func: as for `hessian`.
        inputs: as for `vjp`.
        v: of the form of the inputs; None if there is one with one element.
        create_graph: as for `vjp`.
        strict: as for `vjp`.
    """
    return _hessian_product("vhp", func, inputs, v, create_graph, strict)


def hvp(
    func: Callable,
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """As `vhp`: the Hessian is symmetric.

    Args:
        func: as for `hessian`.
        inputs: as for `vjp`.
        v: as for `vhp`.
        create_graph: as for `vjp`.
        strict: as for `vjp`.
    """
    return _hessian_product("hvp", func, inputs, v, create_graph, strict)


def _hessian_product(
    name: str, func: Callable, inputs: Any, v: Any, create_graph: bool, strict: bool
) -> tuple[Any, Any]:
    with modes.enable_grad():
        many, xs = _inputs(inputs, name, create_graph)
        vectors = _vector(v, xs, many, name, ONE_INPUT)
        out_many, outputs = _tuple(func(*xs), OUTPUTS, name)
        _check_outputs(outputs, strict)
        _number(outputs, out_many, name)
        first = _gradients(outputs, xs, None, True)
        if strict:
            _filled(first, xs, True, _independent)
            _recorded(first, True, True, _flat_gradient)
    second = _gradients(first, xs, vectors, create_graph)
    made = _filled(second, xs, strict, _no_hessian)
    _recorded(made, strict, create_graph, _flat_hessian)
    return outputs[0] if create_graph else outputs[0].detach(), _result(
        made, many, create_graph
    )


def _flat_gradient(i: int) -> str:
    return (
        "While computing the hessian, found that the jacobian of the user-provided "
        f"function with respect to input {i} is independent of the input. This is not "
        "allowed in strict mode. You should ensure that your function is twice "
        "differentiable and that the jacobian depends on the inputs (this would be "
        "violated by a linear function for example)."
    )


def _no_hessian(i: int) -> str:
    return (
        "The jacobian of the user-provided function is independent of input "
        f"{i}. {STRICT}"
    )


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
