"""Autograd and JAX as oracles for functions written with plain NumPy.

Both want their own `numpy` in a function's globals, so they are given a copy of the
function with other globals; the function under test is never touched.
"""

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import optree

from golden.models import Model


def _in_place_slices(x):
    """The model of that name without stores, which neither oracle can follow."""
    middle = x[1:-1] * x[:-2] + np.sin(x[2:])
    out = np.concatenate([2.0 * x[-1:], middle, x[-1:] * x[-2:-1]])
    return np.sum(out**2)


def _conjugate_gradient(a, b, target):
    x = np.zeros(len(b))
    residual = p = b
    size = residual @ residual
    for _ in range(6):
        step = a @ p
        alpha = size / (p @ step)
        x = x + alpha * p
        residual = residual - alpha * step
        before, size = size, residual @ residual
        p = size / before * p + residual
    return np.sum((x - target) ** 2)


def _pendulum(y, stiffness, damping):
    """With `lax.scan`: JAX would take minutes for the loop as it is."""
    from jax import lax

    dt = 0.01

    def slope(y):
        return np.array([y[1], -stiffness * np.sin(y[0]) - damping * y[1]])

    def step(y, _):
        k1 = slope(y)
        k2 = slope(y + 0.5 * dt * k1)
        k3 = slope(y + 0.5 * dt * k2)
        k4 = slope(y + dt * k3)
        return y + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4), None

    y, _ = lax.scan(step, y, None, length=1000)
    return 0.5 * y[1] ** 2 + stiffness * (1.0 - np.cos(y[0]))


def _kalman_filter(a, h, q, r, observed):
    """The same."""
    from jax import lax

    def step(state, z):
        mean, cov = a @ state[0], a @ state[1] @ a.T + q
        gap = z - h @ mean
        spread = h @ cov @ h + r
        gain = cov @ h / spread
        loss = 0.5 * (gap**2 / spread + np.log(spread))
        return (mean + gain * gap, cov - np.outer(gain, h @ cov)), loss

    return np.sum(lax.scan(step, (np.zeros(2), np.eye(2)), observed)[1])


def _heat_rod(conductivity, start):
    """`models.heat_rod` that writes no array."""
    u = start
    for _ in range(40):
        bend = u[2:] - 2.0 * u[1:-1] + u[:-2]
        inside = u[1:-1] + conductivity * bend
        u = np.concatenate([np.zeros(1), inside, np.zeros(1)])
    return np.sum(u**2)


# Where a model can't be run by an oracle, an equal function that can.
PURE = {
    "in_place_slices": _in_place_slices,
    "conjugate_gradient": _conjugate_gradient,
    "heat_rod": _heat_rod,
}
FOR_JAX = {**PURE, "pendulum": _pendulum, "kalman_filter": _kalman_filter}


def rebind(
    function: Callable[..., Any], numpy: Any, special: Any
) -> Callable[..., Any]:
    """Copies a function with `np` and the functions of `scipy.special` replaced.

    Args:
        function: Reads NumPy as `np`, and special functions by their own names.
        numpy: Stands for `np`.
        special: Stands for `scipy.special`.

    Returns:
        The copy; its other globals are those of the original.
    """
    space = dict(function.__globals__) | {"np": numpy}
    for name in ("erf", "expit", "gammaln", "logsumexp"):
        if name in space:
            space[name] = getattr(special, name)
    return types.FunctionType(
        function.__code__, space, function.__name__, function.__defaults__
    )


def autograd_value_and_grad(model: Model) -> tuple[Any, Any]:
    """Value and gradient by autograd, in the structure that `tracegrad` gives."""
    import autograd
    import autograd.numpy
    import autograd.scipy.special

    function = PURE.get(model.name, model.function)
    function = rebind(function, autograd.numpy, autograd.scipy.special)
    return autograd.value_and_grad(function, model.argnums)(*model.args())


def jax_value_and_grad(model: Model) -> tuple[Any, Any]:
    """Value and gradient by JAX in float64, as NumPy arrays."""
    import jax

    function = FOR_JAX.get(model.name, model.function)
    function = rebind(function, jax.numpy, jax.scipy.special)
    with jax.enable_x64(True):
        found = jax.value_and_grad(function, model.argnums)(*model.args())
        return optree.tree_map(np.asarray, found)


def assert_trees_close(found: Any, wanted: Any, rtol: float = 1e-10) -> None:
    """Fails unless both have the same structure, shapes and nearly the same numbers.

    An entry may also differ by `rtol` of its array's largest one: where terms cancel,
    the error is relative to them, not to what is left.
    """
    found_leaves, found_tree = optree.tree_flatten(found)
    wanted_leaves, wanted_tree = optree.tree_flatten(wanted)
    assert found_tree == wanted_tree
    for a, b in zip(found_leaves, wanted_leaves, strict=True):
        assert np.shape(a) == np.shape(b)
        scale = np.max(np.abs(b), initial=0.0)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * scale)
