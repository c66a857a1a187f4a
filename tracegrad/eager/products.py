"""Products of vectors, matrices and stacks of matrices, beyond `matmul`.

Where PyTorch makes a product of several steps (`tensordot`, `einsum`), the `grad_fn`
has the name of its last one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.eager.arithmetic import add
from tracegrad.eager.engine import entry_of
from tracegrad.eager.inplace import named
from tracegrad.eager.reductions import matmul
from tracegrad.eager.registry import axis_of, torch_function, write_out
from tracegrad.eager.tensor import Tensor
from tracegrad.ops import product
from tracegrad.ops.define import ACCEPT


def _finished(result: Tensor, out: Tensor | None, name: str) -> Tensor:
    return result if out is None else write_out(out, result, name)


def _refuse_shapes(message: str) -> None:
    raise RuntimeError(message)


# ------------------------------------------------------------------- one kind of shape
@torch_function("bmm", methods=True)
def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The products of two stacks of matrices."""
    a, b = input._data.shape, mat2._data.shape
    if len(a) != 3 or len(b) != 3:
        _refuse_shapes(f"batch{1 if len(a) != 3 else 2} must be a 3D tensor")
    if a[0] != b[0] or a[2] != b[1]:
        _refuse_shapes(
            "Expected size for first two dimensions of batch2 tensor to be: "
            f"[{a[0]}, {a[2]}] but got: [{b[0]}, {b[1]}]."
        )
    return _finished(named(matmul(input, mat2), "BmmBackward0"), out, "bmm")


@torch_function("mv", methods=True)
def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of a matrix and a vector."""
    if input._data.ndim != 2 or vec._data.ndim != 1:
        _refuse_shapes(
            "vector + matrix @ vector expected, got "
            f"1, {input._data.ndim}, {vec._data.ndim}"
        )
    return matmul(input, vec, out=out)


@torch_function("dot", methods=True)
def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The sum of the products of two vectors."""
    a, b = input._data, tensor._data
    if a.ndim != 1 or b.ndim != 1:
        _refuse_shapes(f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors")
    if a.dtype != b.dtype:
        raise RuntimeError(
            "dot : expected both vectors to have same dtype, but found "
            f"{_scalar_name(input)} and {_scalar_name(tensor)}"
        )
    return matmul(input, tensor, out=out)


def _scalar_name(x: Tensor) -> str:
    return {"float32": "Float", "float64": "Double", "int64": "Long"}.get(
        x.dtype._name, x.dtype._name.title()
    )


@torch_function("vdot", methods=True)
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """`dot` with the first vector conjugated."""
    return named(dot(input.conj(), other), "VdotBackward0")


@torch_function("inner", methods=True)
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Sums of products over the last axes."""
    if not input._data.ndim or not other._data.ndim:
        return input * other
    axes = ((input._data.ndim - 1,), (other._data.ndim - 1,))
    made = entry_of(product.tensordot).eager(input, other, axes=axes)
    return named(made, "ViewBackward0")


@torch_function("outer", "ger", methods=True)
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of an element of one vector with one of the other."""
    for number, x in ((1, input), (2, vec2)):
        if x._data.ndim != 1:
            _refuse_shapes(
                f"outer: Expected 1-D argument {'self' if number == 1 else 'vec2'}, "
                f"but got {x._data.ndim}-D"
            )
    return named(entry_of(product.outer).eager(input, vec2), "MulBackward0")


@torch_function("tensordot")
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Sums of products over several axes."""
    if not isinstance(dims, int):
        of_a, of_b = (x if isinstance(x, tuple | list) else (x,) for x in dims)
        dims = (
            tuple([axis_of(d, a._data.ndim) for d in of_a]),
            tuple([axis_of(d, b._data.ndim) for d in of_b]),
        )
    made = entry_of(product.tensordot).eager(a, b, axes=dims)
    return named(made, "ViewBackward0")


@torch_function("kron", methods=True)
def kron(input: Tensor, other: Tensor) -> Tensor:
    """Kronecker's product."""
    return named(entry_of(product.kron).eager(input, other), "UnsafeViewBackward0")


@torch_function("cross", methods=True)
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The vector product along an axis of size 3."""
    shape = input._data.shape
    axis = shape.index(3) if dim is None else axis_of(dim, len(shape))
    if shape[axis] != 3:
        _refuse_shapes(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got "
            f"{shape[axis]} and {other._data.shape[axis]}"
        )
    made = ACCEPT[np.cross](input, other, axis=axis)
    return named(made, "LinalgCrossBackward0")


@torch_function("einsum")
def einsum(equation: str, *operands: Any) -> Tensor:
    """Einstein's summation: `einsum("bij,bjk->bik", a, b)`."""
    if len(operands) == 1 and isinstance(operands[0], tuple | list):
        operands = tuple(operands[0])
    equation = equation.replace(" ", "")
    made = ACCEPT[np.einsum](equation, *operands)
    return made if made is operands[0] else named(made, _last_step(equation))


def _last_step(equation: str) -> str:
    """The name of the last of the steps that PyTorch takes."""
    left, _, output = equation.partition("->")
    terms = left.split(",")
    summed = set(left) - set(output) - set(".,") if "->" in equation else _doubled(left)
    if not summed:
        return "PermuteBackward0" if len(terms) == 1 else "MulBackward0"
    return "SumBackward1" if len(terms) == 1 else "ViewBackward0"


def _doubled(labels: str) -> set[str]:
    return {c for c in labels if c not in ".," and labels.count(c) > 1}


@torch_function("chain_matmul")
def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of several matrices."""
    made = ACCEPT[np.linalg.multi_dot](list(matrices))
    return named(made, "ViewBackward0")


# ------------------------------------------------------------ products added to a term
def _plus_product(name: str, multiply: Any, title: str) -> None:
    def function(
        input: Tensor,
        first: Tensor,
        second: Tensor,
        *,
        beta: Any = 1,
        alpha: Any = 1,
        out: Tensor | None = None,
    ) -> Tensor:
        made = multiply(first, second)
        scaled = input if beta == 1 else input * beta
        return _finished(named(add(scaled, made, alpha=alpha), title), out, name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`beta * input + alpha *` the product ({name[3:] or name})."
    torch_function(name, methods=True, inplace=True)(function)


_plus_product("addmm", matmul, "AddmmBackward0")
_plus_product("addmv", mv, "AddmvBackward0")
_plus_product("addr", outer, "AddrBackward0")
_plus_product("baddbmm", bmm, "BaddbmmBackward0")
_plus_product("addbmm", lambda a, b: bmm(a, b).sum(0), "AddbmmBackward0")


@torch_function("addcmul", methods=True, inplace=True)
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Any:
    """`input + value * tensor1 * tensor2`."""
    return named(add(input, tensor1 * tensor2, alpha=value), "AddcmulBackward0")


@torch_function("addcdiv", methods=True, inplace=True)
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Any:
    """`input + value * tensor1 / tensor2`."""
    return named(add(input, tensor1 / tensor2, alpha=value), "AddcdivBackward0")


@torch_function("lerp", methods=True, inplace=True)
def lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    """`input + weight * (end - input)`."""
    name = "LerpBackward1" if isinstance(weight, Tensor) else "LerpBackward0"
    return named(input + (end - input) * weight, name)
