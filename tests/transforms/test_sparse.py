"""Sparse Jacobians and Hessians: exact patterns, few passes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as ss
from scipy.optimize import least_squares

import tracegrad as tg

X = np.random.default_rng(0).normal(size=7)


def banded(x):
    y = np.zeros(len(x))
    y[1:-1] = x[:-2] * x[1:-1] - np.sin(x[2:])
    y[0] = x[0] ** 2
    y[-1] = x[-1]
    return y


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


LAPLACE = ss.diags_array(
    [np.ones(6), -2.0 * np.ones(7), np.ones(6)], offsets=[-1, 0, 1]
).tocsr()
MIXED = np.array([[1.0, 0, 0, 2, 0, 0, 0], [0, 0, 3, 0, 0, 0, 1]])

FUNCTIONS = [
    banded,
    lambda x: np.diff(x) ** 2,
    lambda x: np.where(x > 0, x[::-1], x**2),
    lambda x: np.concatenate([x[2:] * 2.0, np.exp(x[:1])]),
    lambda x: x.reshape(7, 1) * np.array([1.0, 2.0]),
    lambda x: np.sum(np.outer(x, x), axis=1),
    lambda x: LAPLACE @ x + x**3,
    lambda x: MIXED @ np.sin(x),
    lambda x: np.sum(x.reshape(7, 1) * np.ones((7, 2)), axis=1),
    lambda x: x[np.array([0, 3, 3])] * x[0],
    lambda x: np.pad(x[1:3], 2),
    lambda x: np.roll(x, 2) + np.floor(x),
    lambda x: np.sort(x[:3]),
    lambda x: np.cumsum(x[2:5]),
    lambda x: np.linalg.inv(np.diag(x[:2]) + 1.0),
    lambda x: np.max(x.reshape(7, 1), axis=1),
    lambda x: np.array([x[0] * x[1], 3.0, x[4]]),
    lambda x: np.stack([x[:2], x[2:4]]).T,
    lambda x: tg.cond(x[0] > 100.0, lambda y: y[:2], lambda y: y[1:3] * y[0], x),
]


@pytest.mark.parametrize("f", FUNCTIONS)
def test_jacobian(f):
    dense = tg.jacrev(f)(X).reshape(-1, 7)
    found = tg.jacobian(f, sparse=True)(X)
    assert isinstance(found, ss.csr_array)
    np.testing.assert_allclose(found.toarray(), dense, rtol=1e-12, atol=1e-14)
    pattern = tg.sparsity(f, X).toarray()
    assert pattern.shape == dense.shape
    assert not np.any(dense[~pattern])


@pytest.mark.parametrize("f", [FUNCTIONS[i] for i in (0, 1, 3, 4, 6, 7, 9, 10, 15, 16)])
def test_patterns_are_exact(f):
    dense = tg.jacrev(f)(X).reshape(-1, 7)
    np.testing.assert_array_equal(tg.sparsity(f, X).toarray(), dense != 0)


@pytest.mark.parametrize(
    "f",
    [
        rosenbrock,
        lambda x: np.sum(x[1:] * x[:-1] * np.cos(x[1:])),
        lambda x: np.sum(np.sin(LAPLACE @ x)),
        lambda x: np.prod(x[:3]) + np.sum(np.exp(x)),
    ],
)
def test_hessian(f):
    found = tg.hessian(f, sparse=True)(X)
    np.testing.assert_allclose(
        found.toarray(), tg.hessian(f)(X), rtol=1e-10, atol=1e-10
    )
    both = (found != 0).astype(int)
    assert (both != both.T).nnz == 0


def test_as_many_passes_as_colours():
    x = np.random.default_rng(1).normal(size=2000)
    jacobian = tg.jacobian(banded, sparse=True)
    found = jacobian(x)
    assert found.shape == (2000, 2000)
    assert found.nnz == 3 * 1998 + 2
    assert "t_y = np.zeros((3, 2000))" in str(jacobian.source(x))
    # A row that reads everything is a colour of its own, by rows.
    wide = tg.jacobian(lambda x: np.array([np.sum(x), x[0] * x[1]]), sparse=True)
    assert "(2," in str(wide.source(x)) or "np.full" in str(wide.source(x))


def test_other_arguments_and_decorators():
    @tg.jacobian(argnums=1, sparse=True)
    def f(a, x):
        return a * x**2

    np.testing.assert_allclose(f(2.0, X).toarray(), np.diag(4.0 * X))
    np.testing.assert_allclose(f(np.ones(7), X).toarray(), np.diag(2.0 * X))
    g = tg.hessian(sparse=True)(rosenbrock)
    np.testing.assert_allclose(g(X).toarray(), tg.hessian(rosenbrock)(X))


def test_scipy_takes_it():
    f = lambda x: x**3 - LAPLACE @ x - 1.0
    found = least_squares(f, np.zeros(7), jac=tg.jacobian(f, sparse=True))
    assert found.cost < 1e-12
    assert found.nfev < 30


def test_saved(tmp_path):
    jacobian = tg.jacobian(banded, sparse=True)
    source = jacobian.source(X)
    path = source.save(tmp_path / "saved.py")
    space: dict = {"__file__": str(path)}
    exec(compile(path.read_text(), str(path), "exec"), space)
    data, columns, starts = space[source.name](X)
    found = ss.csr_array((data, columns, starts), shape=(7, 7))
    np.testing.assert_array_equal(found.toarray(), jacobian(X).toarray())
    space["stored"].close()


def test_errors():
    with pytest.raises(tg.ArgumentError, match="of one array by one array") as e:
        tg.jacobian(lambda x: (x, x), sparse=True)(X)
    assert len(str(e.value).splitlines()) == 4
    with pytest.raises(tg.ArgumentError, match="for one argument"):
        tg.jacobian(lambda x, y: x * y, argnums=(0, 1), sparse=True)
    with pytest.raises(tg.UnsupportedError, match="inside of a traced function"):
        tg.grad(lambda x: np.sum(tg.jacobian(banded, sparse=True)(x)))(X)
    with pytest.raises(tg.UnsupportedError, match="symbolic size"):
        tg.jacobian(banded, sparse=True).source(tg.spec("f8[n]"))
