"""Matrix and tensor products."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ir.dims import is_static, product
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import ACCEPT, Batch, accept, op
from tracegrad.ops.index import drop_axes, expand_dims
from tracegrad.ops.infer import (
    broadcast_shapes,
    normal_axes,
    refuse,
    result_dtype,
    same_size,
    shape_text,
)
from tracegrad.ops.library import Library
from tracegrad.ops.record import as_array, as_operand, dtype_of, ndim_of, shape_of
from tracegrad.ops.reduce import sum as reduce_sum
from tracegrad.ops.sample import arg, call
from tracegrad.ops.select import conj
from tracegrad.ops.shape import moveaxis, permute, ravel, swap_last, to_shape

sparse = Library("scipy.sparse")


# --------------------------------------------------------------------- matrix products
def _infer_matmul(a: ArrayType, b: ArrayType) -> ArrayType:
    if not a.ndim or not b.ndim:
        raise ShapeError("matmul does not take 0-d arrays", fix="use * for scalars")
    inner = b.shape[-2] if b.ndim > 1 else b.shape[-1]
    if not same_size(a.shape[-1], inner):
        raise ShapeError(
            f"shapes {shape_text(a.shape)} and {shape_text(b.shape)} do not fit for @: "
            f"{a.shape[-1]} is not {inner}",
            fix="transpose or reshape one operand",
        )
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    rows = (a.shape[-2],) if a.ndim > 1 else ()
    columns = (b.shape[-1],) if b.ndim > 1 else ()
    return ArrayType((*batch, *rows, *columns), result_dtype(a, b))


def column(x: Any) -> Any:
    """`x` with a new last axis."""
    return expand_dims(x, axis=(ndim_of(x),))


def rows_of(x: Any) -> Any:
    """The stacked matrices of `x` as one tall matrix."""
    shape = shape_of(x)
    return x if len(shape) == 2 else to_shape(x, (product(shape[:-1]), shape[-1]))


def _times_vector(a: Any, v: Any) -> Any:
    """Each matrix of the stack `a` times the vector of the stack `v`."""
    return drop_axes(matmul(a, column(v)), axis=(ndim_of(a) - 1,))


def _left(ct, z, a, b):
    if ndim_of(b) == 1:
        return ct * b if ndim_of(a) == 1 else column(ct) * b
    if ndim_of(a) > 1:
        return matmul(ct, swap_last(b))
    return matmul(b, ct) if ndim_of(b) == 2 else _times_vector(b, ct)


def _right(ct, z, a, b):
    if ndim_of(a) == 1:
        if ndim_of(b) == 1:
            return ct * a
        return column(a) * (ct if ndim_of(b) == 2 else expand_rows(ct))
    if ndim_of(b) == 1:
        return matmul(swap_last(rows_of(a)), ravel_all(ct))
    if ndim_of(a) > 2 and ndim_of(b) == 2:
        # One product of tall matrices, not a stack of them to be summed.
        return matmul(swap_last(rows_of(a)), rows_of(ct))
    return matmul(swap_last(a), ct)


def expand_rows(x: Any) -> Any:
    """`x` with a new axis before the last."""
    return expand_dims(x, axis=(ndim_of(x) - 1,))


def ravel_all(x: Any) -> Any:
    """`x` as a vector."""
    return x if ndim_of(x) == 1 else ravel(x)


@op(
    infer=_infer_matmul,
    vjp=[_left, _right],
    operator="__matmul__",
    accepts=[np.matmul],
    samples=[
        call(arg("n", 3), arg(3, 2)),
        call(arg(3), arg(3)),
        call(arg(2, "n"), arg("n")),
        call(arg(3), arg(3, "n")),
        call(arg("n", 2, 3), arg(3, 2)),
        call(arg("n", 2, 3), arg(3)),
        call(arg(3), arg("n", 3, 2)),
        call(arg(2, 1, 2, 3), arg(3, 3, 2)),
        call(arg(3, 2), arg(2, 2, 3)),
        call(arg(2, 3, dtype="complex128"), arg(3, 2)),
        call(arg(2, 3, dtype="int64"), arg(3)),
    ],
)
def matmul(a, b):
    """Matrix product, stacked over leading axes."""
    return a @ b


@matmul.batch
def _(b, left, right):
    rank_a, rank_b = b.rank(0), b.rank(1)
    if rank_a > 1 and rank_b > 1:
        rank = max(rank_a, rank_b)
        return matmul(b.aligned(0, rank), b.aligned(1, rank))
    if rank_a == 1 and rank_b == 1:
        if b.all:
            return reduce_sum(left * right, axis=1)
        return matmul(left, right) if b.has(0) else matmul(right, left)
    if rank_b == 1:
        if not b.has(1):
            return matmul(left, right)
        if not b.has(0) and rank_a == 2:
            return matmul(right, swap_last(left))
        made = matmul(left, column(b.aligned(1, rank_a - 1)))
        return drop_axes(made, axis=(ndim_of(made) - 1,))
    if not b.has(0) or (rank_b == 2 and not b.has(1)):
        return matmul(left, right)
    rows = expand_rows(b.aligned(0, rank_b - 1))
    made = matmul(rows, right)
    return drop_axes(made, axis=(ndim_of(made) - 2,))


@accept(np.linalg.matmul)
def _(x1, x2, /):
    return matmul(as_array(x1), as_array(x2))


@accept(np.dot, methods=["dot"])
def dot(a, b, out=None):
    """`np.dot`: a product of scalars, of matrices, or over inner axes."""
    refuse("np.dot", out=out)
    a, b = as_operand(a), as_operand(b)
    if not ndim_of(a) or not ndim_of(b):
        return a * b
    if ndim_of(b) == 1 or (ndim_of(a) <= 2 and ndim_of(b) == 2):
        return matmul(a, b)
    return tensordot(a, b, axes=((ndim_of(a) - 1,), (ndim_of(b) - 2,)))


@accept(np.vdot)
def _(a, b, /):
    a, b = ravel_all(as_array(a)), ravel_all(as_array(b))
    return matmul(conj(a) if dtype_of(a).kind == "c" else a, b)


@accept(np.inner)
def _(a, b, /):
    a, b = as_operand(a), as_operand(b)
    if not ndim_of(a) or not ndim_of(b):
        return a * b
    if ndim_of(b) == 1:
        return matmul(a, b)
    if ndim_of(b) == 2:
        return matmul(a, swap_last(b))
    return tensordot(a, b, axes=((ndim_of(a) - 1,), (ndim_of(b) - 1,)))


@op(
    infer=lambda a, b: ArrayType((*a.shape, *b.shape), result_dtype(a, b)),
    vjp=[
        lambda ct, z, a, b: matmul(ct, b),
        lambda ct, z, a, b: matmul(a, ct),
    ],
    samples=[call(arg("n"), arg(3)), call(arg(2), arg(3, dtype="complex128"))],
)
def outer(a, b):
    """Outer product of two vectors."""
    return xp.outer(a, b)


@outer.batch
def _(b, left, right):
    return column(left) * (expand_rows(right) if b.has(1) else right)


@outer.accept(np.outer)
def _(a, b, out=None):
    refuse("np.outer", out=out)
    return outer(ravel_all(as_array(a)), ravel_all(as_array(b)))


@accept(np.linalg.outer)
def _(x1, x2, /):
    return outer(as_array(x1), as_array(x2))


def _outer_of(ufunc: np.ufunc, constant: bool = False) -> None:
    @accept((ufunc, "outer"), constant=constant)
    def _(A, B, /):
        a, b = as_operand(A), as_operand(B)
        n, more = ndim_of(a), ndim_of(b)
        if n and more:
            a = expand_dims(a, axis=tuple(range(n, n + more)))
        return ACCEPT[ufunc](a, b)


_OUTER: list[np.ufunc] = [
    *(np.add, np.subtract, np.multiply, np.true_divide, np.power),
    *(np.maximum, np.minimum, np.less, np.greater, np.equal),
]
for _ufunc in _OUTER:
    _outer_of(_ufunc)


# -------------------------------------------------------------------- stacks of vectors
def conjugated(x: Any) -> Any:
    return conj(x) if dtype_of(x).kind == "c" else x


def vecdot(x1, x2, /, *, axis=-1):
    """Inner product along `axis`, the first operand conjugated."""
    a, b = as_array(x1), as_array(x2)
    if axis != -1:
        a = moveaxis(a, axis, -1)
        b = moveaxis(b, axis, -1)
    if ndim_of(a) == 1 and ndim_of(b) == 1:
        return matmul(conjugated(a), b)
    if not same_size(shape_of(a)[-1], shape_of(b)[-1]):
        raise ShapeError(
            f"vectors of {shape_of(a)[-1]} and {shape_of(b)[-1]} elements have no "
            "inner product",
            op="np.vecdot",
        )
    return reduce_sum(conjugated(a) * b, axis=max(ndim_of(a), ndim_of(b)) - 1)


def matvec(x1, x2, /):
    """Matrix times vector, stacked over leading axes."""
    a, v = as_array(x1), as_array(x2)
    if ndim_of(v) == 1:
        return matmul(a, v)
    out = matmul(a, column(v))
    return drop_axes(out, axis=(ndim_of(out) - 1,))


def vecmat(x1, x2, /):
    """Conjugated vector times matrix, stacked over leading axes."""
    v, a = conjugated(as_array(x1)), as_array(x2)
    if ndim_of(v) == 1:
        return matmul(v, a)
    out = matmul(expand_rows(v), a)
    return drop_axes(out, axis=(ndim_of(out) - 2,))


accept(np.vecdot, np.linalg.vecdot)(vecdot)
if hasattr(np, "matvec"):  # NumPy 2.2
    accept(np.matvec)(matvec)
    accept(np.vecmat)(vecmat)


# ---------------------------------------------------------------------- tensor products
def _axis_pair(axes: Any, ndim: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The contracted axes of both operands, of which the first has `ndim`."""
    if isinstance(axes, int):
        return tuple(range(ndim - axes, ndim)), tuple(range(axes))
    return axes


def _infer_tensordot(a: ArrayType, b: ArrayType, *, axes):
    of_a, of_b = _axis_pair(axes, a.ndim)
    fits = len(of_a) == len(of_b) <= b.ndim and all(i >= 0 for i in of_a)
    if not fits or not all(
        same_size(a.shape[i], b.shape[j]) for i, j in zip(of_a, of_b, strict=True)
    ):
        raise ShapeError(
            f"arrays of shapes {shape_text(a.shape)} and {shape_text(b.shape)} cannot "
            f"be contracted over the axes {axes}",
            fix="name axes of equal sizes, one of each array",
        )
    left = [s for i, s in enumerate(a.shape) if i not in of_a]
    right = [s for i, s in enumerate(b.shape) if i not in of_b]
    return ArrayType((*left, *right), result_dtype(a, b))


@op(
    infer=_infer_tensordot,
    samples=[
        call(arg(2, "n", 3), arg("n", 3, 2)),
        call(arg(2, 3), arg(3, 2, 2), axes=1),
        call(arg(2), arg(3), axes=0),
        call(arg(2, 3, 4), arg(3, 5, 2), axes=((0, 1), (2, 0))),
        call(arg(2, 3, 4), arg(4, 2), axes=((2, 0), (0, 1))),
        call(arg(2, 3, dtype="complex128"), arg(2, 2, 3), axes=((1,), (2,))),
    ],
)
def tensordot(a, b, *, axes=2):
    """Sum of products over pairs of axes: the last and first `axes`, or those named."""
    return xp.tensordot(a, b, axes=axes)


@tensordot.batch
def _(b, left, right, *, axes):
    of_a, of_b = _axis_pair(axes, b.rank(0))
    n = b.rank(0) - len(of_a)
    if b.all:
        return NotImplemented
    if b.has(0):
        return tensordot(left, right, axes=(tuple([i + 1 for i in of_a]), of_b))
    made = tensordot(left, right, axes=(of_a, tuple([i + 1 for i in of_b])))
    return moveaxis(made, n, 0)


@tensordot.vjp
def _(ct, z, a, b, *, axes):
    of_a, of_b = _axis_pair(axes, ndim_of(a))
    free_a = [i for i in range(ndim_of(a)) if i not in of_a]
    free_b = [i for i in range(ndim_of(b)) if i not in of_b]
    n = len(free_a)
    if not ndim_of(ct):
        back = permute(b, tuple([of_b[of_a.index(i)] for i in range(ndim_of(a))]))
        there = permute(a, tuple([of_a[of_b.index(i)] for i in range(ndim_of(b))]))
        return ct * back, ct * there
    # Contract the cotangent with the other operand over that one's free axes; the
    # contracted axes then come in the order that they have there.
    left = tensordot(ct, b, axes=(tuple(range(n, ndim_of(ct))), tuple(free_b)))
    order = [*free_a, *[of_a[of_b.index(i)] for i in sorted(of_b)]]
    left = permute(left, tuple(sorted(range(len(order)), key=order.__getitem__)))
    right = tensordot(a, ct, axes=(tuple(free_a), tuple(range(n))))
    order = [*[of_b[of_a.index(i)] for i in sorted(of_a)], *free_b]
    right = permute(right, tuple(sorted(range(len(order)), key=order.__getitem__)))
    return left, right


@tensordot.accept(np.tensordot)
def _(a, b, axes=2):
    a, b = as_array(a), as_array(b)
    if not isinstance(axes, tuple | list):
        axes = operator.index(axes)
        if axes == 1 and ndim_of(b) == 2 and 0 < ndim_of(a) <= 2:
            return matmul(a, b)
        return tensordot(a, b, axes=axes)
    pair = [x if isinstance(x, tuple | list) else (x,) for x in axes]
    of_a = normal_axes(tuple(pair[0]), ndim_of(a))
    of_b = normal_axes(tuple(pair[1]), ndim_of(b))
    return tensordot(a, b, axes=(of_a, of_b))


accept(np.linalg.tensordot)(ACCEPT[np.tensordot])


# ----------------------------------------------------------------------- other products
def _infer_kron(a: ArrayType, b: ArrayType):
    rank = max(a.ndim, b.ndim)
    pairs = zip(_padded(a.shape, rank), _padded(b.shape, rank), strict=True)
    return ArrayType(tuple([p * q for p, q in pairs]), result_dtype(a, b))


def _padded(shape: tuple, rank: int) -> tuple:
    return (*[1] * (rank - len(shape)), *shape)


@op(
    infer=_infer_kron,
    samples=[
        call(arg(2, 2), arg(1, 3)),
        call(arg("n"), arg(2)),
        call(arg(3), arg(2, 2)),
        call(arg(2, 1, 2), arg(3)),
    ],
)
def kron(a, b):
    """Kronecker product."""
    return xp.kron(a, b)


@kron.batch
def _(b, left, right):
    rank = max(b.rank(0), b.rank(1))
    shape = b.node.out.type.shape
    sizes_a = _padded(b.node.inputs[0].type.shape, rank)
    sizes_b = _padded(b.node.inputs[1].type.shape, rank)
    first = [s for size in sizes_a for s in (size, 1)]
    second = [s for size in sizes_b for s in (1, size)]
    left = to_shape(left, ((b.size,) if b.has(0) else ()) + tuple(first))
    right = to_shape(right, ((b.size,) if b.has(1) else ()) + tuple(second))
    return to_shape(left * right, (b.size, *shape))


@kron.vjp
def _(ct, z, a, b):
    rank = ndim_of(z)
    if not rank:
        return ct * b, ct * a
    sizes_a, sizes_b = _padded(shape_of(a), rank), _padded(shape_of(b), rank)
    pairs = zip(sizes_a, sizes_b, strict=True)
    split = to_shape(ct, tuple([s for pair in pairs for s in pair]))
    of_a, of_b = tuple(range(0, 2 * rank, 2)), tuple(range(1, 2 * rank, 2))
    left = tensordot(split, to_shape(b, sizes_b), axes=(of_b, tuple(range(rank))))
    right = tensordot(to_shape(a, sizes_a), split, axes=(tuple(range(rank)), of_a))
    return to_shape(left, shape_of(a)), to_shape(right, shape_of(b))


@kron.accept(np.kron)
def _(a, b):
    return kron(as_array(a), as_array(b))


def _infer_cross(a: ArrayType, b: ArrayType):
    if not a.ndim or not b.ndim or a.shape[-1] != 3 or b.shape[-1] != 3:
        raise ShapeError(
            f"np.cross takes vectors of 3 elements, not arrays of shapes "
            f"{shape_text(a.shape)} and {shape_text(b.shape)}",
        )
    return ArrayType(broadcast_shapes(a.shape, b.shape), result_dtype(a, b))


@op(
    infer=_infer_cross,
    vjp=[lambda ct, z, a, b: cross(b, ct), lambda ct, z, a, b: cross(ct, a)],
    batch=Batch.MATRIX,
    samples=[call(arg(3), arg(3)), call(arg("n", 3), arg(3))],
)
def cross(a, b):
    """Cross product of vectors along the last axis."""
    return xp.cross(a, b)


@cross.accept(np.cross)
def _(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = as_array(a), as_array(b)
    out = cross(moveaxis(a, axisa, -1), moveaxis(b, axisb, -1))
    return moveaxis(out, -1, axisc)


@accept(np.linalg.cross)
def _(x1, x2, /, *, axis=-1):
    return ACCEPT[np.cross](x1, x2, axis=axis)


@accept(np.linalg.multi_dot)
def _(arrays, *, out=None):
    refuse("np.linalg.multi_dot", out=out)
    parts = [as_array(a) for a in arrays]
    if len(parts) < 2:
        raise ArgumentError(
            "np.linalg.multi_dot takes two arrays or more", op="np.linalg.multi_dot"
        )
    while len(parts) > 1:
        i = _cheapest(parts)
        parts[i : i + 2] = [matmul(parts[i], parts[i + 1])]
    return parts[0]


def _cheapest(parts: list) -> int:
    """Which neighbours to multiply first: the pair that leaves least to do.

    Where sizes are symbolic the product goes from left to right.
    """
    sizes = [shape_of(p) if ndim_of(p) == 2 else (1, *shape_of(p)) for p in parts]
    if ndim_of(parts[-1]) == 1:
        sizes[-1] = (*shape_of(parts[-1]), 1)
    if not all(map(is_static, sizes)):
        return 0
    chain = [*[int(s[0]) for s in sizes], int(sizes[-1][1])]
    return _first_product(tuple(chain))


def _first_product(chain: tuple[int, ...]) -> int:
    """The first product of the cheapest order, by dynamic programming."""
    n = len(chain) - 1
    cost = {(i, i): 0 for i in range(n)}
    cut: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            best = [
                cost[i, k] + cost[k + 1, j] + chain[i] * chain[k + 1] * chain[j + 1]
                for k in range(i, j)
            ]
            cost[i, j] = min(best)
            cut[i, j] = i + best.index(cost[i, j])
    i, j = 0, n - 1
    while j - i > 1:
        k = cut[i, j]
        i, j = (i, k) if k > i else (k + 1, j)
    return i


# ---------------------------------------------------------------------- what reads what
@matmul.links
def _(k, a, b):
    other = b if k == 0 else a
    shapes = [x if isinstance(x, tuple) else x.shape for x in (a, b)]
    if max(map(len, shapes)) > 2:
        return None
    there = np.ones(other, bool) if isinstance(other, tuple) else other != 0
    if len(shapes[1 - k]) == 1:
        vector = there if k == 0 else there[None]
        there = vector.reshape(-1, 1) if k == 0 else vector
    if k == 0:  # rows of `a`, each times the matrix
        rows = shapes[0][0] if len(shapes[0]) == 2 else 1
        return sparse.kron(sparse.eye_array(rows, dtype=bool), there.T)
    columns = shapes[1][1] if len(shapes[1]) == 2 else 1
    return sparse.kron(there, sparse.eye_array(columns, dtype=bool))


@outer.links
def _(k, a, b):
    n, m = [x[0] if isinstance(x, tuple) else x.size for x in (a, b)]
    one = sparse.eye_array(n if k == 0 else m, dtype=bool)
    many = np.ones((m if k == 0 else n, 1))
    return sparse.kron(one, many) if k == 0 else sparse.kron(many, one)


# ------------------------------------------------------------------------- forward mode
def _bilinear(product_op: Any) -> None:
    """The tangent of a product: each operand moved in turn."""

    @product_op.jvp
    def _(t, z, a, b, **attrs):
        left = None if t[0] is None else product_op(t[0], b, **attrs)
        right = None if t[1] is None else product_op(a, t[1], **attrs)
        if left is None or right is None:
            return right if left is None else left
        return left + right


for _product in (matmul, outer, tensordot, kron, cross):
    _bilinear(_product)
