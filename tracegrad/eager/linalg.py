"""`torch.linalg`, on the ops of the same names in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.eager.dtypes import SCALAR_TYPES
from tracegrad.eager.engine import entry_of
from tracegrad.eager.inplace import named
from tracegrad.eager.products import chain_matmul
from tracegrad.eager.products import cross as _cross
from tracegrad.eager.reductions import matmul, return_type
from tracegrad.eager.registry import axis_of, torch_function
from tracegrad.eager.selection import diagonal_
from tracegrad.eager.shapes import clone
from tracegrad.eager.statistics import vector_norm
from tracegrad.eager.tensor import Tensor, wrap
from tracegrad.ops import decompositions, eigen, linalg
from tracegrad.ops.define import ACCEPT


class LinAlgError(RuntimeError):
    """A matrix for which a function has no result."""

    __module__ = "torch._C"
    __qualname__ = __name__ = "_LinAlgError"


def _square(x: Tensor, name: str, what: str = "A") -> Tensor:
    """The tensor, checked to be floating and a stack of square matrices."""
    shape = x._data.shape
    if len(shape) < 2:
        raise RuntimeError(
            f"linalg.{name}: The input tensor {what} must have at least 2 dimensions."
        )
    if shape[-1] != shape[-2]:
        raise RuntimeError(
            f"linalg.{name}: {what} must be batches of square matrices, but they are "
            f"{shape[-2]} by {shape[-1]} matrices"
        )
    if x._data.dtype.kind not in "fc":
        raise RuntimeError(
            f"linalg.{name}: Expected a floating point or complex tensor as input. "
            f"Got {SCALAR_TYPES[x.dtype]}"
        )
    return x


def _entered(op: Any, title: str) -> Any:
    """The op's entry, with the name of its `grad_fn`."""
    entry = entry_of(op)
    entry.title = title
    return entry


# ---------------------------------------------------------------- inverses and systems
_inv = _entered(linalg.inv, "LinalgInvExBackward0")
_det = _entered(linalg.det, "LinalgDetBackward0")
_slogdet = _entered(linalg.slogdet, "LinalgSlogdetBackward0")
_solve = _entered(linalg.solve, "LinalgSolveExBackward0")
_power = _entered(linalg.matrix_power, "MmBackward0")
_cholesky = _entered(decompositions.cholesky, "LinalgCholeskyExBackward0")
_qr = _entered(decompositions.qr, "LinalgQrBackward0")
_svd = _entered(decompositions.svd, "LinalgSvdBackward0")
_svdvals = _entered(decompositions.svdvals, "LinalgSvdBackward0")
_entered(eigen.eigh, "LinalgEighBackward0")
old_slogdet_result = return_type("slogdet", "sign", "logabsdet")
slogdet_result = return_type("linalg_slogdet", "sign", "logabsdet")
qr_result = return_type("linalg_qr", "Q", "R")
svd_result = return_type("linalg_svd", "U", "S", "Vh")


@torch_function("inverse", methods=True)
def inv(A: Tensor) -> Tensor:
    """The inverse of a square matrix."""
    try:
        return _inv.eager(_square(A, "inv"))
    except np.linalg.LinAlgError:
        raise LinAlgError(
            "linalg.inv: The diagonal element 1 is zero, the inversion could not be "
            "completed because the input matrix is singular."
        ) from None


@torch_function("det", methods=True)
def det(A: Tensor) -> Tensor:
    """The determinant."""
    return _det.eager(_square(A, "det"))


def slogdet(A: Tensor) -> Any:
    """The sign, and the logarithm of the size, of the determinant."""
    return slogdet_result(*_slogdet.eager(_square(A, "slogdet")))


@torch_function("slogdet", methods=True)
def _slogdet_of_old(input: Tensor) -> Any:
    """The sign, and the logarithm of the size, of the determinant."""
    return old_slogdet_result(*slogdet(input))


@torch_function("logdet", methods=True)
def logdet(input: Tensor) -> Tensor:
    """The logarithm of a determinant; not-a-number for a negative one."""
    sign, size = slogdet(input)
    made = clone(size) if (sign._data > 0).all() else det(input).log()
    return named(made, "WhereBackward0")


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """The `X` for which `A @ X = B`, or `X @ A = B` with `left=False`."""
    _square(A, "solve")
    if not left:
        return solve(A.mT, B.mT).mT
    try:
        return _solve.eager(A, B)
    except np.linalg.LinAlgError:
        raise LinAlgError(
            "torch.linalg.solve: The solver failed because the input matrix is "
            "singular."
        ) from None


@torch_function("matrix_power", methods=True)
def matrix_power(A: Tensor, n: int) -> Tensor:
    """`A @ A @ ...`, n times; the inverse for negative `n`."""
    return ACCEPT[np.linalg.matrix_power](_square(A, "matrix_power"), n)


def pinv(A: Tensor) -> Tensor:
    """Moore and Penrose's inverse."""
    return named(ACCEPT[np.linalg.pinv](A), "LinalgPinvBackward0")


def multi_dot(tensors: Any) -> Tensor:
    """The product of several matrices, in the cheapest order."""
    return chain_matmul(*tensors)


# ---------------------------------------------------------------------- decompositions
def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """The triangular `L` for which `L @ L.mH = A`."""
    try:
        return _cholesky.eager(_square(A, "cholesky"), upper=upper)
    except np.linalg.LinAlgError:
        raise LinAlgError(
            "linalg.cholesky: The factorization could not be completed because the "
            "input is not positive-definite."
        ) from None


def qr(A: Tensor, mode: str = "reduced") -> Any:
    """An orthogonal and a triangular factor."""
    return qr_result(*_qr.eager(A, mode=mode))


def svd(A: Tensor, full_matrices: bool = True) -> Any:
    """Singular vectors and values."""
    return svd_result(*_svd.eager(A, full_matrices=full_matrices))


def svdvals(A: Tensor) -> Tensor:
    """Singular values."""
    return _svdvals.eager(A)


eigh_result = return_type("linalg_eigh", "eigenvalues", "eigenvectors")
eig_result = return_type("linalg_eig", "eigenvalues", "eigenvectors")


def eigh(A: Tensor, UPLO: str = "L") -> Any:
    """Eigenvalues and eigenvectors of a Hermitian matrix."""
    return eigh_result(*ACCEPT[np.linalg.eigh](_square(A, "eigh"), UPLO))


def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """Eigenvalues of a Hermitian matrix."""
    made = ACCEPT[np.linalg.eigvalsh](_square(A, "eigvalsh"), UPLO)
    return named(made, "LinalgEighBackward0")


def matrix_rank(A: Tensor) -> Tensor:
    """The number of singular values that are not tiny."""
    return wrap(np.asarray(np.linalg.matrix_rank(A._data)).astype(np.int64))


# ------------------------------------------------------------------------------- norms
def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False
) -> Tensor:
    """A norm of matrices: `"fro"`, `"nuc"`, 1, 2, infinity and their negatives."""
    axes = tuple([axis_of(d, A._data.ndim) for d in dim])
    if ord == "fro":
        return vector_norm(A, 2, axes, keepdim)
    made = ACCEPT[np.linalg.norm](A, ord, axes, keepdim)
    return named(made, "SumBackward1" if ord == "nuc" else "AmaxBackward0")


def norm(
    A: Tensor,
    ord: Any = None,
    dim: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
) -> Tensor:
    """`vector_norm` of all elements or along one axis, `matrix_norm` over two."""
    x = A if dtype is None else A.to(dtype)
    two = isinstance(dim, tuple | list) and len(dim) == 2
    if ord is not None and (two or (dim is None and x._data.ndim == 2)):
        return matrix_norm(x, ord, dim or (-2, -1), keepdim)
    if isinstance(ord, str):
        return matrix_norm(x, ord, dim or (-2, -1), keepdim)
    return vector_norm(x, 2 if ord is None else ord, dim, keepdim)


def cond(A: Tensor, p: Any = None) -> Tensor:
    """How much larger the error of a solution can be than that of its data."""
    if p in (None, 2):
        s = svdvals(A)
        return named(s[..., 0] / s[..., -1], "SqueezeBackward1")
    return matrix_norm(A, p) * matrix_norm(inv(A), p)


# ------------------------------------------------------------------------------- others
def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The vector product along `dim`."""
    return _cross(input, other, dim)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonal of the last two axes."""
    return diagonal_(A, offset, dim1, dim2)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The sums of products along `dim`, the first factor conjugated."""
    return (x.conj() * y).sum(dim)


# -------------------------------------------------- general eigenvalues, other systems
_eig = _entered(eigen.eig, "LinalgEigBackward0")
_eigvals = _entered(eigen.eigvals, "LinalgEigBackward0")
lstsq_result = return_type(
    "linalg_lstsq", "solution", "residuals", "rank", "singular_values"
)
cholesky_ex_result = return_type("linalg_cholesky_ex", "L", "info")
inv_ex_result = return_type("linalg_inv_ex", "inverse", "info")
lu_result = return_type("linalg_lu", "P", "L", "U")


def eig(A: Tensor) -> Any:
    """Eigenvalues and eigenvectors of any square matrix; they are complex."""
    return eig_result(*_eig.eager(_square(A, "eig"), of_real=False))


def eigvals(A: Tensor) -> Tensor:
    """Eigenvalues of any square matrix; they are complex."""
    return _eigvals.eager(_square(A, "eigvals"), of_real=False)


def solve_triangular(
    A: Tensor,
    B: Tensor,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Tensor:
    """The `X` for which `A @ X = B`, of which one triangle is read."""
    _square(A, "solve_triangular")
    if not left:
        made = solve_triangular(
            A.mT, B.mT, upper=not upper, unitriangular=unitriangular
        )
        return named(made.mT, "LinalgSolveTriangularBackward0")
    half = A.triu() if upper else A.tril()
    if unitriangular:
        eye = wrap(np.eye(A._data.shape[-1], dtype=A._data.dtype))
        half = half - half * eye + eye
    return named(solve(half, B), "LinalgSolveTriangularBackward0")


@torch_function("cholesky_solve")
def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """The `X` for which `L @ L.mH @ X = B`."""
    y = solve_triangular(L.mH if upper else L, B, upper=False)
    made = solve_triangular(L if upper else L.mH, y, upper=True)
    return named(made, "CholeskySolveBackward0")


Tensor.cholesky_solve = cholesky_solve  # type: ignore[attr-defined]


@torch_function("cholesky_inverse", methods=True)
def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """The inverse of the matrix of which `L` is the triangular factor."""
    eye = wrap(np.eye(L._data.shape[-1], dtype=L._data.dtype))
    return named(cholesky_solve(eye, L, upper), "CholeskyInverseBackward0")


@torch_function("cholesky", methods=True)
def _cholesky_of_old(input: Tensor, upper: bool = False) -> Tensor:
    """`linalg.cholesky` by its name of old."""
    return named(cholesky(input, upper=upper), "CholeskyBackward0")


def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    """`cholesky`, and 0 for success."""
    made = cholesky(A, upper=upper)
    return cholesky_ex_result(made, wrap(np.zeros(A._data.shape[:-2], np.int32)))


def inv_ex(A: Tensor, *, check_errors: bool = False) -> Any:
    """`inv`, and 0 for success."""
    return inv_ex_result(inv(A), wrap(np.zeros(A._data.shape[:-2], np.int32)))


def lstsq(
    A: Tensor, B: Tensor, *, rcond: float | None = None, driver: str | None = None
) -> Any:
    """The `X` for which `A @ X` is closest to `B`; of several the smallest."""
    solution = named(pinv(A) @ B, "LinalgLstsqBackward0")
    m, n = A._data.shape[-2:]
    rank = np.linalg.matrix_rank(A._data)
    residuals = wrap(np.zeros(0, A._data.dtype))
    if m > n and (rank == n).all():
        residuals = ((A @ solution - B).abs() ** 2).sum(-2)
    ranks = wrap(np.asarray(rank, np.int64))
    nothing = wrap(np.zeros(0, A._data.dtype))
    return lstsq_result(solution, residuals, ranks, nothing)


@torch_function("matrix_exp", methods=True)
def matrix_exp(A: Tensor) -> Tensor:
    """The exponential of a matrix."""
    made = ACCEPT["scipy.linalg:expm"](_square(A, "matrix_exp"))
    return named(made, "LinalgMatrixExpBackward0")


@torch_function("pinverse", methods=True)
def pinverse(input: Tensor) -> Tensor:
    """`linalg.pinv` by its name of old."""
    return pinv(input)


def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse for `tensordot`."""
    return ACCEPT[np.linalg.tensorinv](A, ind)


def tensorsolve(A: Tensor, B: Tensor, dims: Any = None) -> Tensor:
    """The `X` for which `tensordot(A, X)` is `B`."""
    return ACCEPT[np.linalg.tensorsolve](A, B, dims)


def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Powers of each element, from 0 on."""
    count = x._data.shape[-1] if N is None else N
    powers = wrap(np.arange(count))
    return named(x.unsqueeze(-1) ** powers, "CatBackward0")


__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "inv_ex",
    "lstsq",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]
