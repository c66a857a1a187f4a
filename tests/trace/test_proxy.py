"""Operators, methods, protocols and subscripts of traced arrays, against NumPy."""

import functools
import math
import operator

import numpy as np
import pytest
from scipy import special
from scipy.special import erf, logsumexp

from tracegrad.trace.demand import TraceWarning

X = np.linspace(0.1, 1.7, 12).reshape(3, 4)
V = np.array([0.3, -1.2, 2.5, 0.7])
M = V[:3]

FUNCTIONS = {
    "operators": lambda x, v: (x + v, x - v, x * v, x / v, x**2, 2.0**x, -x, +x),
    "reflected": lambda x, v: (1.0 + x, 1.0 - x, 2 * x, 1.0 / x, np.float64(2) * x),
    "integers": lambda x, v: (x // 0.3, x % 0.3, abs(v), divmod(x, 0.3)),
    "ndarray on the left": lambda x, v: (V * x, V - x, V @ x.T, X / x),
    "comparisons": lambda x, v: (x > v, x <= 1.0, x == x, x != v, ~(x > 1)),
    "matmul": lambda x, v: (x @ v, x @ x.T, V @ v),
    "lists": lambda x, v: (x + [1.0, 2.0, 3.0, 4.0], v * (1, 2, 3, 4)),
    "methods": lambda x, v: (x.sum(), x.mean(axis=1), x.max(), x.T, x.reshape(4, -1)),
    "more methods": lambda x, v: (x.ravel(), x.astype("float32"), x.clip(0.2, 1.0)),
    "functions": lambda x, v: (np.sin(x), np.exp(v), np.sum(x, axis=0), np.mean(x)),
    "stacking": lambda x, v: (np.stack([v, v]), np.concatenate([v, V]), np.vstack([x])),
    "assembling": lambda x, v: np.array([v[0], v[1] * v[2], 3.0]),
    "assembling a matrix": lambda x, v: np.array([[v[0], -v[1]], [v[1], v[0]]]),
    "list of traced": lambda x, v: (np.sum([v[0], v[1]]), np.mean([v, v], axis=0)),
    "subscripts": lambda x, v: (x[0], x[1:, ::-2], x[..., None], x[-1, 2], x[[0, 2]]),
    "index arrays": lambda x, v: x[np.arange(3), np.array([0, 2, 1])],
    "argmax": lambda x, v: v[np.argmax(v)],
    "mask of constants": lambda x, v: v[np.array([True, False, True, True])],
    "rows": lambda x, v: [row * 2 for row in x],
    "unpacking": lambda x, v: functools.reduce(operator.add, v),
    "builtins": lambda x, v: (sum(x), abs(v), pow(v, 2), len(x), list(v)[1]),
    "shape": lambda x, v: x * x.shape[0] + x.size + x.ndim + len(v) + np.shape(v)[0],
    "where": lambda x, v: np.where(v > 0, v, 0.1 * v),
    "math": lambda x, v: math.exp(v[0]) + math.sqrt(v[2]) + math.pow(v[2], 2.0),
    "math on constants": lambda x, v: v * math.sin(1.0) * math.floor(2.5),
    "scipy ufunc": lambda x, v: (erf(v), special.expit(v), special.gammaln(x)),
    "scipy function": lambda x, v: (logsumexp(x), special.logsumexp(x, axis=1)),
    "reduce": lambda x, v: (np.add.reduce(x), np.multiply.reduce(v)),
    "outer": lambda x, v: np.multiply.outer(v, M),
    "isinstance": lambda x, v: v * isinstance(v, np.ndarray),
    "dtype": lambda x, v: v.astype(np.float32) * np.float32(2.0),
    "types": lambda x, v: v * np.isscalar(v[0]) + np.ndim(x) + np.size(v),
    "conditional": lambda x, v: v * 2.0 if x.ndim == 2 else v,
    "constants": lambda x, v: v * np.sqrt(2.0 * np.pi) + np.eye(4)[1],
    "one hot": lambda x, v: np.eye(4)[np.argmax(x, axis=1)] * v,
    "created": lambda x, v: np.ones(4) * v + np.zeros_like(v) + np.full(4, 2.0),
    "captured": lambda x, v: (np.outer(V, M) * v[0], X @ v, V.dot(V) * v),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(check, name: str) -> None:
    """The graph computes what NumPy does: shapes, dtypes, values."""
    check(FUNCTIONS[name], X, V)


def test_python_numbers_stay_weak(check) -> None:
    """Operators on Python numbers give Python numbers; functions of NumPy do not."""
    x = np.ones(3, dtype=np.float32)
    check(lambda x, p: x * (p * 2.0 + 1.0), x, 1.5)
    check(lambda x, p: x * np.sin(p), x, 1.5)
    check(lambda x, p, q: x * np.add(p, q), x, 1.5, 2.5)
    check(lambda x, p: x * math.exp(p) + math.log(p, 3.0), x, 1.5)


def test_scalars_are_what_numpy_has(traced) -> None:
    """`isinstance` of numbers and of results."""
    seen = {}

    def f(x, p):
        seen["p"] = isinstance(p, float)
        seen["sum"] = isinstance(np.sum(x), np.floating)
        seen["x"] = isinstance(x, np.ndarray)
        seen["not"] = isinstance(np.sum(x), np.ndarray)
        return np.sum(x) * p

    traced(f, V, 2.0)
    assert seen == {"p": True, "sum": True, "x": True, "not": False}


def test_gradient_of_assembled(traced) -> None:
    """A matrix put together of scalars is differentiated through."""

    def f(v):
        c, s = np.cos(v[0]), np.sin(v[0])
        return np.sum(np.array([[c, -s], [s, c]]) * np.array([[1.0, 2.0], [3.0, 4.0]]))

    (found,) = traced(f, V).gradient()
    c, s = np.cos(V[0]), np.sin(V[0])
    np.testing.assert_allclose(found, [-s - 2 * c + 3 * c - 4 * s, 0, 0, 0])


def test_structures(check) -> None:
    """Arguments and results may be nested."""

    def f(p, t):
        return {"a": p["w"] * t[0], "b": [t[1] + 1.0, "text", None], "n": 3}

    check(f, {"w": V}, (2.0, V))


def test_ops_called_with_proxies(check) -> None:
    """`functools.reduce`, `map` and callables from a table work."""
    table = {"f": np.tanh, "g": np.negative}
    check(lambda v: [f(v) for f in table.values()], V)
    check(lambda v: list(map(np.exp, v)), V)
    check(lambda v: functools.reduce(np.add, [v, v, v]), V)


def test_dtype_keyword(check) -> None:
    """`dtype=` of a ufunc."""
    check(lambda v: np.add(v, v, dtype=np.float32), V)


def test_formatting(traced) -> None:
    """A traced value in an f-string shows its value in the call, with a warning."""
    seen = []

    def f(v):
        seen.append(f"{v}|{v[0]:.3f}")
        return v

    with pytest.warns(TraceWarning, match=r"test_proxy.py:\d+: seen.append"):
        traced(f, V)
    traced(f, V, spec=True)
    assert seen[0] == f"{V}|{V[0]:.3f}"
    assert seen[1] == "<traced f8[4]>|<traced f8[]>"
