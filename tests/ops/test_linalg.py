"""numpy.linalg and scipy.linalg as users call them, and at awkward points."""

import numpy as np
import pytest
import scipy.linalg
from ops.calls import Call, at, check, gradient_of, sample

import tracegrad as tg
from tracegrad.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from tracegrad.ops.define import ACCEPT


class SciPy:
    """`scipy.linalg` beside arrays, or the table of spellings beside references."""

    def __init__(self, numpy):
        self.recorded = numpy is not np

    def __getattr__(self, name):
        if self.recorded:
            return ACCEPT[f"scipy.linalg:{name}"]
        return getattr(scipy.linalg, name)


def well(*shape, seed=0, dtype="float64"):
    """Matrices far from singular ones."""
    return sample(*shape, seed=seed, dtype=dtype) + 4.0 * np.eye(*shape[-2:])


def symmetric(np, a):
    return 0.5 * (a + np.conj(np.swapaxes(a, -1, -2)))


def positive(np, a):
    return a @ np.conj(np.swapaxes(a, -1, -2))


A, STACK = well(3, 3), well(2, 3, 3, seed=1)
TALL, WIDE = sample(4, 3, seed=2), sample(2, 3, seed=3)
C = well(3, 3, dtype="complex128")
C_TALL = sample(4, 3, seed=2, dtype="complex128")
V, M = sample(3, seed=4), sample(3, 2, seed=5)
TENSOR = sample(2, 3, 6, seed=6) + 9.0 * np.eye(6).reshape(2, 3, 6)

NUMPY = {
    "det": (lambda np, a: np.linalg.det(a), A),
    "det-stack": (lambda np, a: np.linalg.det(a), STACK),
    "slogdet": (lambda np, a: np.linalg.slogdet(a).logabsdet, STACK),
    "slogdet-complex": (lambda np, a: np.linalg.slogdet(a), C),
    "inv": (lambda np, a: np.linalg.inv(a), STACK),
    "inv-list": (lambda np, a: np.linalg.inv([[at(a, 0, 0), 1.0], [2.0, 5.0]]), A),
    "solve": (lambda np, a, b: np.linalg.solve(a, b), A, V),
    "solve-list": (lambda np, a: np.linalg.solve(a, [1.0, 2.0, 3.0]), A),
    "solve-stack": (lambda np, a, b: np.linalg.solve(a, b), STACK, M),
    "tensorsolve": (lambda np, a, b: np.linalg.tensorsolve(a, b), TENSOR, WIDE),
    "tensorsolve-axes": (
        lambda np, a, b: np.linalg.tensorsolve(a, b, axes=(0,)),
        np.moveaxis(TENSOR.reshape(6, 2, 3), 1, 0),
        sample(6),
    ),
    "tensorinv": (lambda np, a: np.linalg.tensorinv(a), TENSOR.reshape(2, 3, 3, 2)),
    "tensorinv-1": (lambda np, a: np.linalg.tensorinv(a, 1), TENSOR.reshape(6, 2, 3)),
    "matrix-power": (lambda np, a: np.linalg.matrix_power(a, 6), STACK),
    "matrix-power-negative": (lambda np, a: np.linalg.matrix_power(a, -3), A),
    "matrix-power-1": (lambda np, a: a + np.linalg.matrix_power(a, 1), A),
    "matrix-power-0": (lambda np, a: a @ np.linalg.matrix_power(a, 0), STACK),
    "cholesky": (lambda np, a: np.linalg.cholesky(positive(np, a)), STACK),
    "cholesky-upper": (
        lambda np, a: np.linalg.cholesky(positive(np, a), upper=True),
        C,
    ),
    "eigh": (lambda np, a: np.linalg.eigh(symmetric(np, a)), A),
    "eigh-attribute": (
        lambda np, a: np.linalg.eigh(symmetric(np, a)).eigenvalues,
        STACK,
    ),
    "eigh-complex": (
        lambda np, a: _rebuilt(np, *np.linalg.eigh(symmetric(np, a))),
        C,
    ),
    "eigh-upper": (lambda np, a: np.linalg.eigh(symmetric(np, a), UPLO="U")[0], A),
    "eigvalsh": (lambda np, a: np.linalg.eigvalsh(symmetric(np, a), "u"), C),
    "eigvals": (lambda np, a: np.linalg.eigvals(a), C),
    "eig-complex": (lambda np, a: abs(np.linalg.eig(a).eigenvectors), C),
    "eig-rotation": (
        lambda np, a: abs(np.linalg.eig(a)[1]),
        np.array([[1.0, 2.0, 0.5], [-2.0, 1.5, 0.3], [0.1, 0.4, 0.7]]),
    ),
    "svd": (lambda np, a: np.linalg.svd(a), A),
    "svd-thin": (lambda np, a: np.linalg.svd(a, full_matrices=False), TALL),
    "svd-values": (lambda np, a: np.linalg.svd(a, compute_uv=False), C_TALL),
    "svd-full-tall": (lambda np, a: _spans(np, *np.linalg.svd(a)), TALL),
    "svd-full-wide": (lambda np, a: _spans(np, *np.linalg.svd(a)), WIDE),
    "svd-full-complex": (lambda np, a: _spans(np, *np.linalg.svd(a)), C_TALL),
    "svd-complex": (
        lambda np, a: _squared(np, *np.linalg.svd(a, full_matrices=False)),
        C_TALL,
    ),
    "svd-hermitian": (
        lambda np, a: np.linalg.svd(symmetric(np, a), hermitian=True).S,
        A - 4.5 * np.eye(3),
    ),
    "svd-hermitian-rebuilt": (
        lambda np, a: _squared(np, *np.linalg.svd(symmetric(np, a), hermitian=True)),
        A - 4.5 * np.eye(3),
    ),
    "svdvals": (lambda np, a: np.linalg.svdvals(a), WIDE),
    "qr": (lambda np, a: np.linalg.qr(a), TALL),
    "qr-wide": (lambda np, a: np.linalg.qr(a), WIDE),
    "qr-r": (lambda np, a: np.linalg.qr(a, "r"), TALL),
    "qr-q": (lambda np, a: np.linalg.qr(a).Q, WIDE),
    "qr-complete": (lambda np, a: np.linalg.qr(a, mode="complete").R, TALL),
    "qr-complete-span": (
        lambda np, a: _projector(np, part(np.linalg.qr(a, "complete")[0], 3)),
        C_TALL,
    ),
    "pinv": (lambda np, a: np.linalg.pinv(a), TALL),
    "pinv-wide": (lambda np, a: np.linalg.pinv(a, 1e-9), WIDE),
    "pinv-rtol": (lambda np, a: np.linalg.pinv(a, rtol=None), STACK),
    "pinv-rank-1": (lambda np, a, b: np.linalg.pinv(np.outer(a, b)), V, V[::-1]),
    "lstsq": (lambda np, a, b: np.linalg.lstsq(a, b)[:2], TALL, sample(4)),
    "lstsq-matrix": (lambda np, a, b: np.linalg.lstsq(a, b), TALL, sample(4, 2)),
    "lstsq-wide": (lambda np, a, b: np.linalg.lstsq(a, b)[0], WIDE, sample(2)),
    "lstsq-rank-1": (
        lambda np, a, b, y: np.linalg.lstsq(np.outer(a, b), y)[0],
        sample(4),
        V,
        sample(4, seed=8),
    ),
    "matrix-rank": (lambda np, a: at(a, 0) * np.linalg.matrix_rank(a), TALL),
    "matrix-rank-vector": (lambda np, a: a * np.linalg.matrix_rank(a), V),
    **{
        f"cond-{p}": (lambda np, a, p=p: np.linalg.cond(a, p), A)
        for p in (None, 2, -2, 1, -1, np.inf, "fro", "nuc")
    },
    "cond-tall": (lambda np, a: np.linalg.cond(a), TALL),
    **{
        f"norm-{p}": (lambda np, a, p=p: np.linalg.norm(a, p, axis=(2, 0)), STACK)
        for p in (2, -2, "nuc")
    },
    "norm-nuc": (lambda np, a: np.linalg.norm(a, "nuc"), WIDE),
    "norm-2-keep": (
        lambda np, a: np.linalg.norm(a, 2, axis=(0, 2), keepdims=True),
        STACK,
    ),
    "matrix-norm": (lambda np, a: np.linalg.matrix_norm(a, ord="nuc"), STACK),
    "trace": (lambda np, a: np.linalg.trace(a, offset=1), STACK),
    "diagonal": (lambda np, a: np.linalg.diagonal(a), STACK),
    "cross": (lambda np, a, b: np.linalg.cross(a, b), V, V[::-1]),
    "outer": (lambda np, a, b: np.linalg.outer(a, b), V, V[::-1]),
    "matrix-transpose": (lambda np, a: np.linalg.matrix_transpose(a) * a, STACK),
    "int": (
        lambda np, a: a @ np.linalg.inv(np.array([[2, 1, 0], [0, 1, 0], [0, 0, 3]])),
        A,
    ),
}


def _rebuilt(np, w, v):
    """A smooth function of a Hermitian matrix."""
    return (v * np.exp(w / 4.0)) @ np.conj(np.swapaxes(v, -1, -2))


def _squared(np, u, s, vh):
    return (u * s**3) @ vh


def _projector(np, q):
    return q @ np.conj(np.transpose(q))


def part(x, start=None, stop=None):
    """Some of the columns."""
    return at(x, slice(None), slice(start, stop))


def _spans(np, u, s, vh):
    """What does not depend on the basis that completes `u` or `vh`."""
    k = np.shape(s)[0]
    u1, v = part(u, 0, k), np.conj(np.transpose(vh))
    return (
        (u1 * s**2) @ np.conj(np.transpose(u1)),
        _projector(np, part(u, k)),
        _projector(np, part(v, k)),
        _projector(np, part(v, 1, 2)),
    )


@pytest.mark.parametrize("name", NUMPY)
def test_numpy(name):
    check(*NUMPY[name])


LU_PIV = scipy.linalg.lu_factor(A)
BANDS = np.array([[0.0, 0.5, -0.7, 0.2], [2.0, 3.0, 2.5, 4.0], [0.3, 0.6, 0.1, 0.0]])
SCIPY = {
    "solve": (lambda sp, a, b: sp.solve(a, b), A, V),
    "solve-transposed": (lambda sp, a, b: sp.solve(a, b, transposed=True), A, V),
    "solve-diagonal": (lambda sp, a, b: sp.solve(a, b, assume_a="diagonal"), A, M),
    "solve-upper": (lambda sp, a, b: sp.solve(a, b, assume_a="upper triangular"), A, V),
    "solve-sym": (lambda sp, a, b: sp.solve(a, b, assume_a="sym"), A, V),
    "solve-sym-lower": (
        lambda sp, a, b: sp.solve(a, b, lower=True, assume_a="sym"),
        C,
        V,
    ),
    "solve-her": (
        lambda sp, a, b: sp.solve(a, b, assume_a="her"),
        A,
        V,
    ),
    "inv": (lambda sp, a: sp.inv(a), A),
    "det": (lambda sp, a: sp.det(a), A),
    "pinv": (lambda sp, a: sp.pinv(a, return_rank=True), TALL),
    "norm": (lambda sp, a: sp.norm(a, 2), TALL),
    "svd": (lambda sp, a: sp.svd(a, full_matrices=False), TALL),
    "svd-values": (lambda sp, a: sp.svd(a, compute_uv=False), TALL),
    "svdvals": (lambda sp, a: sp.svdvals(a), WIDE),
    "qr-economic": (lambda sp, a: sp.qr(a, mode="economic"), TALL),
    "qr": (lambda sp, a: sp.qr(a), A),
    "qr-r": (lambda sp, a: sp.qr(a, mode="r"), TALL),
    "qr-pivoting": (lambda sp, a: sp.qr(a, mode="economic", pivoting=True), TALL),
    "eigvals": (lambda sp, a: sp.eigvals(a), C),
    "eig-values-only": (lambda sp, a: sp.eig(a, right=False), A),
    "eigvals-generalised": (lambda sp, a, b: sp.eigvals(a, b), A, well(3, 3, seed=9)),
    "lu": (lambda sp, a: sp.lu(a)[1:], A),
    "lu-tall": (lambda sp, a: sp.lu(a, permute_l=True), TALL),
    "lu-wide": (lambda sp, a: sp.lu(a, p_indices=True), WIDE),
    "lu-factor": (lambda sp, a: sp.lu_factor(a), C),
    "lu-solve": (lambda sp, a, b: sp.lu_solve(sp.lu_factor(a), b), A, M),
    "lu-solve-transposed": (
        lambda sp, a, b: sp.lu_solve(sp.lu_factor(a), b, trans=1),
        A,
        V,
    ),
    "lu-solve-adjoint": (
        lambda sp, a, b: sp.lu_solve(sp.lu_factor(a), b, trans=2),
        C,
        V,
    ),
    "lu-solve-packed": (lambda sp, f, b: sp.lu_solve((f, LU_PIV[1]), b), LU_PIV[0], V),
    "triangular": (lambda sp, a, b: sp.solve_triangular(a, b), A, V),
    "triangular-stack": (
        lambda sp, a, b: sp.solve_triangular(a, b, lower=True),
        STACK,
        V,
    ),
    "triangular-T": (
        lambda sp, a, b: sp.solve_triangular(a, b, trans="T", unit_diagonal=True),
        A,
        V,
    ),
    "triangular-C": (lambda sp, a, b: sp.solve_triangular(a, b, trans="C"), C, M),
    "cho-solve": (lambda sp, c, b: sp.cho_solve((c, False), b), A, V),
    "expm": (lambda sp, a: sp.expm(0.3 * a), A),
    "expm-stack": (lambda sp, a: sp.expm(0.3 * a), STACK),
    "expm-frechet": (lambda sp, a, e: sp.expm_frechet(0.3 * a, e), A, A.T),
    "logm": (lambda sp, a: sp.logm(a), A),
    "sqrtm": (lambda sp, a: sp.sqrtm(a), C),
    "sylvester": (lambda sp, a, b, q: sp.solve_sylvester(a, b, q), A, well(2, 2), M),
    "lyapunov": (lambda sp, a, q: sp.solve_continuous_lyapunov(a, q), C, A),
    "polar": (lambda sp, a: sp.polar(a), TALL),
    "polar-left": (lambda sp, a: sp.polar(a, side="left"), A),
    "polar-wide": (lambda sp, a: sp.polar(a), WIDE),
    "polar-wide-left": (lambda sp, a: sp.polar(a, "left"), WIDE),
    "banded": (lambda sp, ab, b: sp.solve_banded((1, 1), ab, b), BANDS, sample(4)),
    "solveh-banded": (
        lambda sp, ab, b: sp.solveh_banded(ab, b),
        BANDS[:2],
        sample(4, 2),
    ),
    "solveh-banded-lower": (
        lambda sp, ab, b: sp.solveh_banded(ab, b, lower=True),
        BANDS[1:],
        sample(4),
    ),
    "solveh-banded-complex": (
        lambda sp, ab, b: sp.solveh_banded(ab, b),
        BANDS[:2] + np.array([[0.0, 0.3j, 0.1j, -0.2j], [0.0, 0.0, 0.0, 0.0]]),
        sample(4),
    ),
    "toeplitz": (lambda sp, c: sp.toeplitz(c), V),
    "toeplitz-row": (lambda sp, c, r: sp.toeplitz(c, r), V, sample(4)),
    "toeplitz-complex": (lambda sp, c: sp.toeplitz(c), V + 1j * V[::-1]),
    "solve-toeplitz": (
        lambda sp, c, b: sp.solve_toeplitz(c, b),
        V + 3 * (V[0] == V),
        V,
    ),
    "block-diag": (lambda sp, a, b, v: sp.block_diag(a, b, v), A, M, V),
}


@pytest.mark.parametrize("name", SCIPY)
def test_scipy(name):
    f, *arrays = SCIPY[name]
    smooth = "banded-complex" not in name
    check(lambda np, *xs: f(SciPy(np), *xs), *arrays, smooth=smooth)


# Functions of symmetric matrices, of which SciPy reads one triangle.
OF_SYMMETRIC = {
    "cholesky": lambda sp, a, b: sp.cholesky(a),
    "cholesky-lower": lambda sp, a, b: sp.cholesky(a, lower=True),
    "cho-solve": lambda sp, a, b: sp.cho_solve(sp.cho_factor(a), b),
    "cho-solve-lower": lambda sp, a, b: sp.cho_solve(sp.cho_factor(a, lower=True), b),
    "solve-pos": lambda sp, a, b: sp.solve(a, b, assume_a="pos"),
    "eigh-values": lambda sp, a, b: sp.eigh(a, eigvals_only=True),
    "eigh-some": lambda sp, a, b: sp.eigh(a, subset_by_index=[1, 2])[0],
    "eigh-generalised": lambda sp, a, b: (
        sp.eigh(a, a @ a)[0],
        abs(sp.eigh(a, a @ a)[1]),
    ),
    "eigvalsh": lambda sp, a, b: sp.eigvalsh(a, lower=False),
    "eigvalsh-generalised": lambda sp, a, b: sp.eigvalsh(a, a @ a @ a),
}


@pytest.mark.parametrize("name", OF_SYMMETRIC)
@pytest.mark.parametrize("matrix", [A, C], ids=["real", "complex"])
def test_scipy_of_symmetric(name, matrix):
    f = OF_SYMMETRIC[name]
    check(lambda np, a, b: f(SciPy(np), positive(np, a), b), matrix, V)


@pytest.mark.parametrize("module", [np.linalg, np.fft])
def test_every_function_is_there(module):
    names = set(dir(module)) - {"LinAlgError", "test"}
    functions = [getattr(module, n) for n in names if not n.startswith("_")]
    missing = [f.__name__ for f in functions if callable(f) and f not in ACCEPT]
    assert not missing


# ----------------------------------------------------------------- repeated eigenvalues
def spectral(np, a):
    w, v = np.linalg.eigh(0.5 * (a + a.T))
    return np.sum(np.sin(np.reshape(np.arange(9.0), (3, 3))) * ((v * np.exp(w)) @ v.T))


def rebuilt(np, a):
    u, s, vt = np.linalg.svd(a, full_matrices=False)
    return np.sum(np.cos(np.reshape(np.arange(9.0), (3, 3))) * ((u * s) @ vt))


TURN = np.linalg.qr(sample(3, 3))[0]
W_EIGH = np.sin(np.arange(9.0).reshape(3, 3))
W_SVD = np.cos(np.arange(9.0).reshape(3, 3))


@pytest.mark.parametrize("values", [(1.0, 1.0, 1.0), (1.0, 1.0, 2.0), (-1.0, 3.0, 3.0)])
@pytest.mark.parametrize("turn", [np.eye(3), TURN], ids=["diagonal", "turned"])
def test_smooth_function_at_equal_eigenvalues(values, turn):
    a = (turn * np.array(values)) @ turn.T
    gradient = tg.grad(lambda a: spectral(np, a))(a)
    want = scipy.linalg.expm_frechet(a, 0.5 * (W_EIGH + W_EIGH.T), compute_expm=False)
    np.testing.assert_allclose(gradient, want, rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize("values", [(2.0, 2.0, 2.0), (3.0, 1.0, 1.0)])
def test_matrix_rebuilt_from_equal_singular_values(values):
    a = (TURN * np.array(values)) @ TURN[::-1]
    gradient = tg.grad(lambda a: rebuilt(np, a))(a)
    np.testing.assert_allclose(gradient, W_SVD, rtol=1e-6, atol=1e-7)


def test_values_do_not_change_where_eigenvalues_differ():
    a = 0.5 * (A + A.T)
    value, _ = tg.value_and_grad(lambda a: spectral(np, a))(a)
    assert value == spectral(np, a)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_sums_of_eigenvalues_at_equal_ones(n):
    (gradient,) = gradient_of(
        lambda np, a: np.sum(np.linalg.eigvalsh(a) ** 3), 2.0 * np.eye(n)
    )
    np.testing.assert_allclose(gradient, 12.0 * np.eye(n), rtol=1e-14)


# ----------------------------------------------------------------------------- singular
def cofactors(a):
    n = len(a)
    return np.array(
        [
            [
                (-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1))
                for j in range(n)
            ]
            for i in range(n)
        ]
    )


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_det_of_any_rank(rank):
    a = sample(3, rank) @ sample(rank, 3, seed=1)
    (gradient,) = gradient_of(lambda np, a: np.linalg.det(a), a)
    np.testing.assert_allclose(gradient, cofactors(a), rtol=1e-12, atol=1e-14)


def test_det_near_a_singular_matrix():
    a = np.arange(1.0, 10.0).reshape(3, 3)
    a[2, 2] += 1e-13
    (gradient,) = gradient_of(lambda np, a: np.linalg.det(a), a)
    np.testing.assert_allclose(gradient, cofactors(a), rtol=1e-9, atol=1e-9)


def test_single_precision_stays():
    a = A.astype(np.float32)
    for name, f in {
        "det": lambda np, a: np.linalg.det(a),
        "spectral": spectral,
        "rebuilt": rebuilt,
        "qr": lambda np, a: np.sum(np.linalg.qr(a)[1]),
        "pinv": lambda np, a: np.sum(np.linalg.pinv(a)),
        "cholesky": lambda np, a: np.sum(np.linalg.cholesky(positive(np, a))),
        "norm": lambda np, a: np.linalg.norm(a, "nuc"),
    }.items():
        g = tg.grad(lambda a, f=f: f(np, a))(a)
        wanted = np.float64 if name in ("spectral", "rebuilt") else np.float32
        assert g.dtype == np.float32, name
        exact = tg.grad(lambda a, f=f: f(np, a))(A)
        np.testing.assert_allclose(g, exact, rtol=1e-3, atol=1e-3)
        assert np.asarray(f(np, a)).dtype == wanted


# ---------------------------------------------------------------- against other systems
def test_against_torch():
    torch = pytest.importorskip("torch")
    a, t = C_TALL.copy(), torch.tensor(C_TALL, requires_grad=True)
    u, s, vh = torch.linalg.svd(t, full_matrices=False)
    torch.sum(torch.abs((u * s**2) @ vh) ** 2).backward()

    def loss(a):
        u, s, vh = np.linalg.svd(a, full_matrices=False)
        return np.sum(np.abs((u * s**2) @ vh) ** 2)

    # PyTorch's gradient is the conjugate of JAX's and ours.
    np.testing.assert_allclose(tg.grad(loss)(a), t.grad.numpy().conj(), rtol=1e-9)


def test_symmetric_gradients_are_those_of_jax():
    jax = pytest.importorskip("jax")
    a = positive(np, A)
    with jax.enable_x64(True):
        for f in (
            lambda np, a: np.sum(np.linalg.cholesky(a) ** 3),
            lambda np, a: np.sum(np.linalg.eigvalsh(a) ** 1.5),
            lambda np, a: np.sum(np.linalg.eigh(a)[1][0] ** 4),
        ):
            want = jax.grad(lambda a, f=f: f(jax.numpy, a))(a)
            got = tg.grad(lambda a, f=f: f(np, a))(a)
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)


# ------------------------------------------------------------------------ how it reads
def body_of(f, *args):
    return str(tg.grad(f, argnums=tuple(range(len(args)))).source(*args))


def test_solve_reads_as_by_hand():
    text = body_of(lambda a, b: np.sum(np.linalg.solve(a, b) ** 2), A, V)
    assert "np.linalg.solve(a.T, " in text
    assert "-np.outer(" in text


def test_one_decomposition_for_both_parts():
    text = body_of(lambda a: np.sum(np.linalg.eigvalsh(a) ** 2), A)
    assert text.count("np.linalg.") == 1
    text = body_of(lambda a: np.linalg.norm(a, "nuc"), A)
    assert text.count("np.linalg.") == 1


def test_factors_of_lu_need_no_derivative():
    def f(a, b):
        return np.sum(scipy.linalg.lu_solve(scipy.linalg.lu_factor(a), b) ** 2)

    text = body_of(f, A, V)
    assert text.count(" linalg.lu") == 3
    assert "-np.outer(" in text


# ---------------------------------------------------------------------------- mistakes
def test_mistakes():
    def of(f, *arrays):
        return lambda: Call(f, arrays)

    cases = [
        (of(lambda np, a: np.linalg.inv(a), TALL), ShapeError, "square matrix"),
        (of(lambda np, a: np.linalg.det(a), V), ShapeError, "two axes"),
        (
            of(lambda np, a, b: np.linalg.solve(a, b), A, sample(4)),
            ShapeError,
            "system of 3 equations",
        ),
        (
            of(lambda np, a: np.linalg.inv(a), A.astype("float16")),
            DTypeError,
            "float16 has no linear algebra",
        ),
        (of(lambda np, a: np.linalg.qr(a, "raw"), A), ArgumentError, "mode='raw'"),
        (of(lambda np, a: np.linalg.eigh(a, "X"), A), ArgumentError, "UPLO"),
        (of(lambda np, a: np.linalg.norm(a, 3), A), ArgumentError, "order 3"),
        (
            of(lambda np, a: np.linalg.matrix_power(a, 0.5), A),
            ArgumentError,
            "integer, not 0.5",
        ),
        (
            of(lambda np, a: np.linalg.pinv(a, np.sum(a)), A),
            ArgumentError,
            "one plain number",
        ),
        (
            of(lambda np, a: SciPy(np).funm(a, np.exp), A),
            UnsupportedError,
            "funm",
        ),
        (
            of(lambda np, a: SciPy(np).polar(a, "top"), A),
            ArgumentError,
            "'left' or 'right'",
        ),
        (
            of(lambda np, a: SciPy(np).solve_banded((1, 1), a, at(a, 0)), WIDE),
            ShapeError,
            "3 diagonals",
        ),
    ]
    for call, kind, text in cases:
        with pytest.raises(kind, match=text):
            call()


def test_the_error_names_the_line():
    def f(a):
        return np.sum(np.linalg.inv(a))

    with pytest.raises(ShapeError) as caught:
        tg.grad(f)(TALL)
    lines = str(caught.value).splitlines()
    assert lines[0] == "a square matrix is needed, not an array of shape (4, 3)"
    assert lines[1] == "  in:  np.linalg.inv"
    assert "return np.sum(np.linalg.inv(a))" in lines[2]
    assert lines[3].startswith("  fix: use np.linalg.pinv")


def test_a_complex_root_of_a_real_matrix_is_an_error():
    def f(a):
        return np.sum(scipy.linalg.sqrtm(a))

    with pytest.raises(ValueError, match="complex"):
        tg.grad(f)(-np.eye(2))
