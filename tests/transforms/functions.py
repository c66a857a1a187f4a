"""Ten functions that NumPy, JAX and tracegrad can run, for comparisons with JAX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """A function of a namespace and one array, and where to take its derivatives.

    Attributes:
        f: `f(np, x)`; with `jax.numpy` for `np` it is the oracle.
        shape: of `x`.
        scalar: whether the result is one number.
        holomorphic: whether it has a complex derivative.
    """

    f: Callable[[Any, Any], Any]
    shape: tuple[int, ...] = (3,)
    scalar: bool = True
    holomorphic: bool = True


def _network(np, x):
    h = np.tanh(x @ np.array([[0.3, -0.2], [0.1, 0.4], [-0.5, 0.2]]))
    return np.sum((h - 0.1) ** 2)


def _rosenbrock(np, x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def _softmax(np, x):
    e = np.exp(x - np.max(x))
    return np.sum(e / np.sum(e) * np.array([1.0, 2.0, 3.0]))


def _matrix(np, x):
    return np.sum(np.matmul(x, x.T)[0] * np.sin(x[:, 0]))


def _loop(np, x):
    s = x[0] * 0.0
    for i in range(3):
        s = s * 0.5 + np.cos(x[i]) * x[i] ** 2
    return s


CASES = {
    "polynomial": Case(lambda np, x: np.sum(x**4 - 2.0 * x**3)),
    "network": Case(_network),
    "rosenbrock": Case(_rosenbrock),
    "softmax": Case(_softmax, holomorphic=False),
    "matrix": Case(_matrix, (2, 3)),
    "loop": Case(_loop),
    "ratio": Case(lambda np, x: np.sum(np.sin(x) / (2.0 + np.cos(x)))),
    "where": Case(
        lambda np, x: np.sum(np.where(np.abs(x) > 0.5, x**3, np.exp(x))),
        holomorphic=False,
    ),
    "einsum": Case(
        lambda np, x: np.einsum("ij,kj->ik", x, np.sin(x)), (2, 3), scalar=False
    ),
    "outer": Case(
        lambda np, x: np.concatenate([x[::-1] * x, np.cumsum(np.exp(x))]), scalar=False
    ),
}


def point(case: Case, dtype: str, seed: int = 0) -> np.ndarray:
    """An argument for a case, with no element near 0.5 or 0."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.6, 1.4, case.shape) * rng.choice([-1.0, 1.0], case.shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.uniform(-0.5, 0.5, case.shape)
    return x.astype(dtype)


def tolerance(dtype: str) -> dict:
    """How close to JAX: rounding only, and more of it in single precision."""
    single = dtype in ("float32", "complex64")
    return {"rtol": 2e-3, "atol": 2e-3} if single else {"rtol": 1e-9, "atol": 1e-10}
