"""Constant matrices of `scipy.sparse` in products with traced arrays."""

import numpy as np
import pytest
import scipy.sparse as ss
from scipy.sparse.linalg import factorized, splu

import tracegrad as tg

DENSE = np.array([[0.0, 2.0, 0.5], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 3.0, 0.0]])
ROWS = ss.csr_array(DENSE)
COLUMNS = ss.csc_array(DENSE)
PAIRS = ss.coo_array(DENSE)
OLD = ss.csr_matrix(DENSE)
X, Z = np.array([0.3, -1.0, 2.0]), np.array([1.0, 0.2, 0.7, -0.4])
MANY = np.arange(6.0).reshape(3, 2)

PRODUCTS = [
    (lambda x: ROWS @ x, DENSE, X),
    (lambda x: ROWS @ x, DENSE, MANY),
    (lambda x: COLUMNS @ x, DENSE, X),
    (lambda x: PAIRS @ x, DENSE, X),
    (lambda x: OLD @ x, DENSE, X),
    (lambda x: OLD * x, DENSE, X),
    (lambda x: ROWS.dot(x), DENSE, X),
    (lambda x: ROWS.T @ x, DENSE.T, Z),
    (lambda x: x @ ROWS, DENSE.T, Z),
    (lambda x: (x.T @ ROWS.T).T, DENSE, MANY),
]


@pytest.mark.parametrize(("product", "dense", "x"), PRODUCTS)
@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_products(product, dense, x, backend):
    if backend == "jax":
        pytest.importorskip("jax")

    def f(x):
        return np.sum(product(x) ** 2)

    value, gradient = tg.value_and_grad(f, backend=backend)(x)
    np.testing.assert_allclose(value, np.sum((dense @ x) ** 2), rtol=1e-6)
    np.testing.assert_allclose(gradient, 2.0 * dense.T @ (dense @ x), rtol=1e-6)


def test_a_changed_matrix_is_seen():
    matrix = ROWS.copy()

    def f(x):
        return np.sum(matrix @ x)

    g = tg.grad(f)
    before = g(X)
    matrix.data *= 2.0
    np.testing.assert_allclose(g(X), 2.0 * before)


def test_what_is_not_supported_says_so():
    with pytest.raises(tg.UnsupportedError, match="csc_array") as e:
        tg.grad(lambda x: np.sum(ROWS.T * x))(X)
    assert "test_sparse.py" in str(e.value)
    with pytest.raises(tg.TracegradError, match="do not fit for @"):
        tg.grad(lambda x: np.sum(ROWS @ x))(Z)


@pytest.mark.parametrize("a", [PAIRS, ss.coo_matrix(DENSE), ROWS, OLD, COLUMNS])
def test_the_method_dot_is_the_product(a):
    gradient = tg.grad(lambda x: np.sum(a.dot(x) ** 2))(X)
    np.testing.assert_allclose(gradient, 2.0 * DENSE.T @ (DENSE @ X))
    gradient = tg.grad(lambda x: np.sum(a.dot(x) ** 2))(MANY)
    np.testing.assert_allclose(gradient, 2.0 * DENSE.T @ (DENSE @ MANY))


SQUARE = ss.csc_array(np.diag([1.0, 2.0, 3.0]))
SOLVE = splu(SQUARE)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ROWS.multiply(x).sum(),
        lambda x: SQUARE.maximum(x).sum(),
        lambda x: (SQUARE + x).sum(),
        lambda x: (SQUARE * x[0]).sum(),
        lambda x: (x[0] * PAIRS).sum(),
        lambda x: (PAIRS / x[0]).sum(),
        lambda x: SOLVE.solve(x).sum(),
        lambda x: factorized(SQUARE)(x).sum(),
    ],
)
def test_what_scipy_cannot_take_is_an_error_with_the_line(function):
    with pytest.raises(tg.TracegradError) as e:
        tg.grad(function)(X)
    lines = str(e.value).split("\n")
    assert len(lines) == 4
    assert lines[2].startswith("  at:  test_sparse.py:")
    assert "Proxy" not in lines[0]
