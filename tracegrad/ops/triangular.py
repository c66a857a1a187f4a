"""Triangular systems and factorisations of SciPy: solve_triangular, Cholesky, LU."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError, UnsupportedError
from tracegrad.ir.types import ArrayType
from tracegrad.ops.cast import astype
from tracegrad.ops.decompositions import at_least, cholesky, columns, rows, smaller
from tracegrad.ops.define import ACCEPT, Batch, accept, op
from tracegrad.ops.diagonal import tril, triu
from tracegrad.ops.index import drop_axes
from tracegrad.ops.infer import shape_text
from tracegrad.ops.join import concatenate
from tracegrad.ops.library import linalg
from tracegrad.ops.linalg import (
    adjoint,
    conjugate,
    inexact,
    matrix_shape,
    outer_product,
    real_part_of,
    solution_shape,
)
from tracegrad.ops.product import column, matmul
from tracegrad.ops.record import as_array, made_by, ndim_of, shape_of
from tracegrad.ops.sample import arg, call, data
from tracegrad.ops.shape import swap_last

_TRANSPOSED = {0: 0, 1: 1, 2: 2, "N": 0, "T": 1, "C": 2}


def transposition(function: str, trans: Any) -> int:
    """0 for a matrix, 1 for its transpose, 2 for its conjugate transpose.

    Raises:
        ArgumentError: for anything else.
    """
    if trans in _TRANSPOSED:
        return _TRANSPOSED[trans]
    raise ArgumentError(
        f"trans must be 0, 1, 2, 'N', 'T' or 'C', not {trans!r}", op=function
    )


def stacked(system: Any, a: Any, b: Any, **attrs: Any) -> Any:
    """Solve for one vector with each of a stack of matrices, or as it is."""
    if ndim_of(a) > 2 and ndim_of(b) == 1:
        x = system(a, column(b), **attrs)
        return drop_axes(x, axis=(ndim_of(x) - 1,))
    return system(a, b, **attrs)


def batch_system(system: Any) -> None:
    """The batching rule of an op whose last input is the right-hand side."""

    @system.batch
    def _(b, *inputs, **attrs):
        last, rank = len(inputs) - 1, b.rank(0)
        read = set(range(last + 1)).difference(system.type_only)
        if not any(map(b.has, read)):
            return b.unbatched(system(*map(b.example, range(last + 1)), **attrs))
        if b.rank(last) > 1:
            rank = max(rank, b.rank(last))
            return system(*[b.aligned(i, rank) for i in range(last + 1)], **attrs)
        matrices = inputs[:last]
        if rank == 2 and not any(map(b.has, range(last))):
            return swap_last(system(*matrices, swap_last(inputs[last]), **attrs))
        made = system(*matrices, column(b.aligned(last, rank - 1)), **attrs)
        return drop_axes(made, axis=(ndim_of(made) - 1,))


# ------------------------------------------------------------------- triangular systems
def _infer_triangular(a: ArrayType, b: ArrayType, **attrs: Any) -> ArrayType:
    return ArrayType(solution_shape(a, b), inexact(a, b))


_WELL = arg("n", "n").shifted(3.0)
_COMPLEX = arg(3, 3, dtype="complex128").shifted(3.0)


@op(
    infer=_infer_triangular,
    spelling="scipy.linalg.solve_triangular",
    noun="solution",
    samples=[
        call(_WELL, arg("n")),
        call(_WELL, arg("n", 2), lower=True),
        call(_WELL, arg("n"), trans=1),
        call(_WELL, arg("n", 2), trans=1, lower=True, unit_diagonal=True),
        call(_WELL, arg("n"), unit_diagonal=True),
        call(arg(2, 3, 3).shifted(3.0), arg(2, 3, 2), lower=True),
        call(_COMPLEX, arg(3), trans=1),
    ],
)
def solve_triangular(a, b, *, trans=0, lower=False, unit_diagonal=False):
    """The `x` for which `a @ x = b`, of `a` one triangle being read."""
    return linalg.solve_triangular(
        a, b, trans=trans, lower=lower, unit_diagonal=unit_diagonal
    )


@solve_triangular.vjp
def _(ct, x, a, b, *, trans, lower, unit_diagonal):
    y = solve_triangular(
        a, ct, trans=1 - trans, lower=lower, unit_diagonal=unit_diagonal
    )
    whole = outer_product(x, y) if trans else outer_product(y, x)
    k = int(unit_diagonal)
    return -(tril(whole, k=-k) if lower else triu(whole, k=k)), y


@solve_triangular.accept("scipy.linalg:solve_triangular")
def _(
    a,
    b,
    trans=0,
    lower=False,
    unit_diagonal=False,
    overwrite_b=False,
    check_finite=True,
):
    a, b = as_array(a), as_array(b)
    trans = transposition("scipy.linalg.solve_triangular", trans)
    return stacked(
        solve_triangular,
        conjugate(a) if trans == 2 else a,
        b,
        trans=min(trans, 1),
        lower=bool(lower),
        unit_diagonal=bool(unit_diagonal),
    )


# ----------------------------------------------------------------------------- Cholesky
@op(
    infer=_infer_triangular,
    spelling="scipy.linalg.cho_solve",
    noun="solution",
    samples=[
        call(_WELL, arg("n")),
        call(_WELL, arg("n", 2), lower=True),
        call(_COMPLEX, arg(3)),
        call(_COMPLEX, arg(3, 2), lower=True),
        call(arg(2, 3, 3).shifted(3.0), arg(2, 3, 2), lower=True),
    ],
)
def cho_solve(c, b, *, lower=False):
    """The `x` for which `c.T @ c @ x = b`, or `c @ c.T @ x = b` if `lower`."""
    return linalg.cho_solve((c, lower), b)


@cho_solve.vjp
def _(ct, x, c, b, *, lower):
    y = conjugate(cho_solve(c, conjugate(ct), lower=lower))
    ch = adjoint(tril(c) if lower else triu(c))
    if lower:
        whole = outer_product(y, matmul(ch, x))
        return -tril(whole + outer_product(conjugate(x), matmul(ch, conjugate(y)))), y
    back = swap_last(ch)
    whole = outer_product(matmul(back, y), x)
    turned = outer_product(matmul(back, conjugate(x)), conjugate(y))
    return -triu(whole + turned), y


def _symmetric_outer(y: Any, x: Any) -> Any:
    """The Hermitian part of `y x.T`."""
    return 0.5 * (outer_product(y, x) + outer_product(conjugate(x), conjugate(y)))


@op(
    infer=lambda a, c, b, *, lower: _infer_triangular(c, b),
    type_only=(0,),
    spelling="scipy.linalg.cho_solve",
    noun="solution",
    samples=[
        call(arg("n", "n").symmetric(6.0), _WELL, arg("n")).rough(),
        call(_COMPLEX, _COMPLEX, arg(3, 2), lower=True).rough(),
    ],
)
def factored_solve(a, c, b, *, lower=False):
    """`cho_solve` with the factor `c` of `a`; the derivative goes to `a` at once."""
    return linalg.cho_solve((c, lower), b)


@factored_solve.vjp
def _(ct, x, a, c, b, *, lower):
    y = conjugate(factored_solve(a, c, conjugate(ct), lower=lower))
    return -_symmetric_outer(y, x), None, y


@cho_solve.accept("scipy.linalg:cho_solve")
def cho_solve_call(c_and_lower, b, overwrite_b=False, check_finite=True):
    """`scipy.linalg.cho_solve` with all its arguments."""
    c, lower = as_array(c_and_lower[0]), bool(c_and_lower[1])
    made = made_by(c)
    if made is not None and made.op is cholesky and made.attrs["upper"] is not lower:
        a = c.builder.wrap(made.inputs[0])
        solve = partial(factored_solve, a)
        return stacked(solve, c, as_array(b), lower=lower)
    return stacked(cho_solve, c, as_array(b), lower=lower)


@accept("scipy.linalg:cholesky")
def cholesky_call(a, lower=False, overwrite_a=False, check_finite=True):
    """`scipy.linalg.cholesky`, which is upper by default."""
    return cholesky(as_array(a), upper=not lower)


@accept("scipy.linalg:cho_factor")
def cho_factor_call(a, lower=False, overwrite_a=False, check_finite=True):
    """`scipy.linalg.cho_factor`, with zeros where SciPy leaves what was there."""
    return cholesky(as_array(a), upper=not lower), bool(lower)


# ----------------------------------------------------------------------------------- LU
def _infer_lu(t: ArrayType) -> tuple[ArrayType, ...]:
    m, n = matrix_shape(t)
    k, dtype, batch = smaller(m, n), inexact(t), t.shape[:-2]
    p = ArrayType((*batch, m, m), real_part_of(dtype))
    return p, ArrayType((*batch, m, k), dtype), ArrayType((*batch, k, n), dtype)


def _unit_lower(m: Any, l: Any) -> Any:
    """`inv(l).T @ m` for the triangle with ones on its diagonal."""
    return solve_triangular(l, m, trans=1, lower=True, unit_diagonal=True)


def _after_upper(m: Any, u: Any) -> Any:
    """`m @ inv(u).T`."""
    return swap_last(solve_triangular(u, swap_last(m)))


@op(
    infer=_infer_lu,
    spelling="scipy.linalg.lu",
    noun="p l u",
    batch=Batch.MATRIX,
    samples=[
        arg(3, 3).shifted(1.0).with_(),
        arg(4, 3).with_(),
        arg(3, 4).with_(),
        arg(3, 3, dtype="complex128").with_(),
    ],
)
def lu(x):
    """Permutation `p`, unit lower `l` and upper triangle `u`: `p @ l @ u` is `x`."""
    return linalg.lu(x)


@lu.vjp
def _(ct, out, x):
    _, of_l, of_u = ct
    p, l, u = out
    m, n = shape_of(x)[-2:]
    k = shape_of(u)[-2]
    tall, wide = not at_least(n, m), not at_least(m, n)
    low = high = None
    if tall:
        below, l = rows(l, k), rows(l, None, k)
        if of_l is not None:
            low = _after_upper(rows(of_l, k), u)
            of_l = rows(of_l, None, k)
            part = -matmul(swap_last(below), low)
            of_u = part if of_u is None else of_u + part
    if wide:
        beside, u = columns(u, k), columns(u, None, k)
        if of_u is not None:
            high = _unit_lower(columns(of_u, k), l)
            of_u = columns(of_u, None, k)
            part = -matmul(high, swap_last(beside))
            of_l = part if of_l is None else of_l + part
    inner = None if of_l is None else tril(matmul(swap_last(l), of_l), k=-1)
    if of_u is not None:
        upper = triu(matmul(of_u, swap_last(u)))
        inner = upper if inner is None else inner + upper
    if inner is None:
        return None
    whole = _after_upper(_unit_lower(inner, l), u)
    if tall:
        low = rows(x, k) * 0.0 if low is None else low
        whole = concatenate(whole, low, axis=ndim_of(x) - 2)
    if wide:
        high = columns(x, k) * 0.0 if high is None else high
        whole = concatenate(whole, high, axis=ndim_of(x) - 1)
    return matmul(p, whole)


@lu.accept("scipy.linalg:lu")
def _(a, permute_l=False, overwrite_a=False, check_finite=True, p_indices=False):
    p, l, u = lu(as_array(a))
    if permute_l:
        return matmul(p, l), u
    if p_indices:
        p = astype(ACCEPT[np.argmax](p, axis=-1), dtype=np.dtype(np.int32))
    return p, l, u


def _infer_lu_factor(t: ArrayType) -> tuple[ArrayType, ArrayType]:
    m, n = matrix_shape(t)
    pivots = ArrayType((*t.shape[:-2], smaller(m, n)), np.dtype(np.int32))
    return ArrayType(t.shape, inexact(t)), pivots


@op(
    infer=_infer_lu_factor,
    spelling="scipy.linalg.lu_factor",
    noun="lu piv",
    batch=Batch.MATRIX,
    samples=[
        arg(3, 3).shifted(1.0).with_(),
        arg(2, 3, 3).shifted(1.0).with_(),
        arg(3, 3, dtype="complex128").with_(),
    ],
)
def lu_factor(x):
    """Both triangles of `lu` in one matrix, and the rows exchanged."""
    return linalg.lu_factor(x)


@lu_factor.vjp
def _(ct, out, x):
    m, n = shape_of(x)[-2:]
    if not (at_least(m, n) and at_least(n, m)):
        raise UnsupportedError(
            f"lu_factor of a matrix of shape {shape_text(shape_of(x))}, which is not "
            "square, has no derivative rule",
            op="scipy.linalg.lu_factor",
            fix="use scipy.linalg.lu",
        )
    packed, pivots = out
    of_l, of_u = tril(ct[0], k=-1), triu(ct[0])
    u = triu(packed)
    below = tril(packed, k=-1)
    inner = tril(of_l + matmul(swap_last(below), of_l), k=-1)
    inner = inner + triu(matmul(of_u, swap_last(u)))
    turned = solve_triangular(packed, matmul(swap_last(inner), u))
    return lu_solve(packed, pivots, swap_last(turned), trans=1)


@lu_factor.accept("scipy.linalg:lu_factor")
def _(a, overwrite_a=False, check_finite=True):
    return lu_factor(as_array(a))


def _infer_lu_solve(a: ArrayType, pivots: ArrayType, b: ArrayType, *, trans: int):
    if pivots.kind not in "iu":
        raise ShapeError(
            f"the pivots of lu_factor are integers, not {pivots!r}",
            fix="pass the pair that lu_factor returns",
        )
    return ArrayType(solution_shape(a, b), inexact(a, b))


_GENERAL = arg(3, 3).shifted(3.0)
_PIVOTS = data((1, 1, 2), dtype="int32")


@op(
    infer=_infer_lu_solve,
    spelling="scipy.linalg.lu_solve",
    noun="solution",
    samples=[
        call(_GENERAL, _PIVOTS, arg(3)),
        call(_GENERAL, _PIVOTS, arg(3, 2), trans=1),
        call(_GENERAL, _PIVOTS, arg(3), trans=1),
        call(_COMPLEX, _PIVOTS, arg(3, 2)),
    ],
)
def lu_solve(lu, piv, b, *, trans=0):
    """The `x` for which `a @ x = b`, or `a.T @ x = b`, from the factors of `a`."""
    return linalg.lu_solve((lu, piv), b, trans=trans)


@lu_solve.vjp
def _(ct, x, packed, pivots, b, *, trans):
    y = lu_solve(packed, pivots, ct, trans=1 - trans)
    if trans:
        w = solve_triangular(packed, b, trans=1)
        of_u = outer_product(w, y)
        of_l = outer_product(_unit_lower(w, packed), matmul(triu(packed), y))
    else:
        g = solve_triangular(packed, ct, trans=1)
        of_u = outer_product(g, x)
        of_l = outer_product(_unit_lower(g, packed), matmul(triu(packed), x))
    return -(triu(of_u) + tril(of_l, k=-1)), None, y


@op(
    infer=lambda a, lu, piv, b, *, trans: _infer_lu_solve(lu, piv, b, trans=trans),
    type_only=(0,),
    spelling="scipy.linalg.lu_solve",
    noun="solution",
    samples=[
        call(_GENERAL, _GENERAL, _PIVOTS, arg(3)).rough(),
        call(_GENERAL, _GENERAL, _PIVOTS, arg(3, 2), trans=1).rough(),
    ],
)
def eliminated_solve(a, lu, piv, b, *, trans=0):
    """`lu_solve` with the factors of `a`; the derivative goes to `a` at once."""
    return linalg.lu_solve((lu, piv), b, trans=trans)


@eliminated_solve.vjp
def _(ct, x, a, packed, pivots, b, *, trans):
    y = eliminated_solve(a, packed, pivots, ct, trans=1 - trans)
    whole = outer_product(x, y) if trans else outer_product(y, x)
    return -whole, None, None, y


def _lu_system(packed: Any) -> Any:
    """How to solve with these factors: by what they were made of, if that is known."""
    made = made_by(packed)
    if made is None or made.op is not lu_factor:
        return lu_solve
    return partial(eliminated_solve, packed.builder.wrap(made.inputs[0]))


@lu_solve.accept("scipy.linalg:lu_solve")
def _(lu_and_piv, b, trans=0, overwrite_b=False, check_finite=True):
    packed, pivots = (as_array(part) for part in lu_and_piv)
    trans, b = transposition("scipy.linalg.lu_solve", trans), as_array(b)
    solve = _lu_system(packed)
    if trans == 2:
        return conjugate(solve(packed, pivots, conjugate(b), trans=1))
    return solve(packed, pivots, b, trans=trans)


for _system in (solve_triangular, cho_solve, factored_solve):
    batch_system(_system)
