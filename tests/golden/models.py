"""Functions as NumPy users write them: the inputs of the golden tests.

Plain NumPy and SciPy, nothing of tracegrad.  The golden files name the lines of this
file, so moving a function changes them.  The arguments are made at the end.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import erf, logsumexp


def linear_regression(w, b, x, y):
    """Mean squared error of a linear model."""
    residual = x @ w + b - y
    return np.mean(residual**2)


def logistic_regression(w, x, y, strength):
    """Mean log loss for labels of -1 and 1, with a ridge penalty."""
    margin = y * (x @ w)
    return np.mean(np.logaddexp(0.0, -margin)) + 0.5 * strength * np.sum(w**2)


def softmax_regression(params, x, labels):
    """Mean cross entropy of a linear classifier."""
    logits = x @ params["w"] + params["b"]
    log_probs = logits - logsumexp(logits, axis=1, keepdims=True)
    return -np.mean(log_probs[np.arange(len(labels)), labels])


def two_layer_network(params, x, targets):
    """Mean cross entropy of a network with one hidden layer, for one-hot targets."""
    hidden = np.tanh(x @ params["w1"] + params["b1"])
    logits = hidden @ params["w2"] + params["b2"]
    log_probs = logits - logsumexp(logits, axis=1, keepdims=True)
    return -np.sum(targets * log_probs) / len(x)


def rosenbrock(x):
    """Rosenbrock's banana function in any number of dimensions."""
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def recurrent_cell(params, inputs, target):
    """Squared error of the state of a tanh cell after five steps."""
    state = params["start"]
    for t in range(5):
        state = np.tanh(inputs[t] @ params["w_in"] + state @ params["w"] + params["b"])
    error = state - target
    return 0.5 * np.sum(error**2)


def gaussian_mixture(logits, means, log_scales, x):
    """Log likelihood of a mixture of Gaussians with diagonal covariances."""
    n, d = x.shape
    z = (x[:, None, :] - means) / np.exp(log_scales)
    log_density = -0.5 * np.sum(z**2, axis=2) - np.sum(log_scales, axis=1)
    log_weights = logits - logsumexp(logits)
    constant = 0.5 * n * d * np.log(2.0 * np.pi)
    return np.sum(logsumexp(log_weights + log_density, axis=1)) - constant


def in_place_slices(x):
    """An array filled piece by piece: a store, an update and an overwrite."""
    out = np.zeros(len(x))
    out[1:] = x[1:] * x[:-1]
    out[:-1] += np.sin(x[1:])
    out[0] = 2.0 * x[-1]
    return np.sum(out**2)


def broadcast_mix(x, scale, shift, temperature):
    """A matrix, a 0-d array, a row and a Python number in one expression."""
    z = (scale * x + shift) / temperature
    return np.sum(np.exp(-z)) + 3 * scale**2


def black_scholes(spot, strike, years, rate, volatility):
    """Sum of the prices of European call options."""
    spread = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility**2) * years) / spread
    d2 = d1 - spread
    cdf1 = 0.5 * (1.0 + erf(d1 / np.sqrt(2.0)))
    cdf2 = 0.5 * (1.0 + erf(d2 / np.sqrt(2.0)))
    return np.sum(spot * cdf1 - strike * np.exp(-rate * years) * cdf2)


def tariff(use, price):
    """What electricity costs: a surcharge on much, and a rebate on a high bill."""
    cost = price * use
    if use > 100.0:
        cost = cost + 0.1 * (use - 100.0) ** 2
    if cost > 50.0:
        rebate = 0.2 * (cost - 50.0)
    else:
        rebate = 0.0
    return cost - rebate


def cube_root(a, guess):
    """Newton's method, for as long as it moves."""
    x = guess
    step = 1.0
    while abs(step) > 1e-12:
        step = (x**3 - a) / (3.0 * x**2)
        x = x - step
    return x


def doubled(x):
    """The sum of a vector that is doubled until it is long."""
    y = x
    while np.linalg.norm(y) < 1000.0:
        y = y * 2.0
    return np.sum(y)


def pendulum(y, stiffness, damping):
    """Energy of a damped pendulum after 1,000 steps of Runge and Kutta's method."""
    dt = 0.01

    def slope(y):
        angle, speed = y
        return np.array([speed, -stiffness * np.sin(angle) - damping * speed])

    for _ in range(1000):
        k1 = slope(y)
        k2 = slope(y + 0.5 * dt * k1)
        k3 = slope(y + 0.5 * dt * k2)
        k4 = slope(y + dt * k3)
        y = y + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return 0.5 * y[1] ** 2 + stiffness * (1.0 - np.cos(y[0]))


def kalman_filter(a, h, q, r, observed):
    """Negative log likelihood of observations under a linear model with noise."""
    mean, cov = np.zeros(2), np.eye(2)
    loss = 0.0
    for z in observed:
        mean = a @ mean
        cov = a @ cov @ a.T + q
        gap = z - h @ mean
        spread = h @ cov @ h + r
        gain = cov @ h / spread
        loss += 0.5 * (gap**2 / spread + np.log(spread))
        mean = mean + gain * gap
        cov = cov - np.outer(gain, h @ cov)
    return loss


def conjugate_gradient(a, b, target):
    """Distance of the solution of `a @ x = b` from a target, after six steps."""
    x = np.zeros(len(b))
    residual = b.copy()
    p = residual.copy()
    size = residual @ residual
    for _ in range(6):
        step = a @ p
        alpha = size / (p @ step)
        x += alpha * p
        residual -= alpha * step
        before, size = size, residual @ residual
        p *= size / before
        p += residual
    return np.sum((x - target) ** 2)


def trajectory_fit(rates, u, observed):
    """Mean squared distance of a course, kept in a list, from what was observed."""
    us = []
    for _ in range(60):
        u = u + 0.05 * np.tanh(rates @ u)
        us.append(u)
    return np.mean((np.stack(us) - observed) ** 2)


def heat_rod(conductivity, start):
    """Heat left at the end of a rod whose ends are cold: a row for each step."""
    u = np.zeros((41, 12))
    u[0] = start
    for k in range(40):
        bend = u[k, 2:] - 2.0 * u[k, 1:-1] + u[k, :-2]
        u[k + 1, 1:-1] = u[k, 1:-1] + conductivity * bend
    return np.sum(u[-1] ** 2)


# --------------------------------------------------------------------- their arguments


@dataclass(frozen=True)
class Model:
    """A function, the positions of the arguments to differentiate, and arguments.

    Attributes:
        function: one of the functions above.
        argnums: as `tracegrad.grad` takes it.
        args: makes the same arguments on every call, as new objects.
    """

    function: Callable[..., Any]
    argnums: int | tuple[int, ...]
    args: Callable[[], tuple[Any, ...]]

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.__name__


def _linear_regression():
    r = np.random.default_rng(1)
    return r.normal(size=4), 0.3, r.normal(size=(20, 4)), r.normal(size=20)


def _logistic_regression():
    r = np.random.default_rng(2)
    y = np.where(r.random(20) < 0.5, -1.0, 1.0)
    return r.normal(size=4), r.normal(size=(20, 4)), y, 0.01


def _softmax_regression():
    r = np.random.default_rng(3)
    params = {"w": r.normal(size=(4, 3)), "b": r.normal(size=3)}
    return params, r.normal(size=(12, 4)), r.integers(0, 3, size=12)


def _two_layer_network():
    r = np.random.default_rng(4)
    params = {
        "w1": r.normal(size=(4, 6)),
        "b1": r.normal(size=6),
        "w2": r.normal(size=(6, 3)),
        "b2": r.normal(size=3),
    }
    targets = np.eye(3)[r.integers(0, 3, size=12)]
    return params, r.normal(size=(12, 4)), targets


def _rosenbrock():
    return (np.random.default_rng(5).normal(size=6),)


def _recurrent_cell():
    r = np.random.default_rng(6)
    params = {
        "start": r.normal(size=(2, 4)),
        "w_in": 0.5 * r.normal(size=(3, 4)),
        "w": 0.5 * r.normal(size=(4, 4)),
        "b": r.normal(size=4),
    }
    return params, r.normal(size=(5, 2, 3)), r.normal(size=(2, 4))


def _gaussian_mixture():
    r = np.random.default_rng(7)
    logits, means = r.normal(size=3), r.normal(size=(3, 2))
    return logits, means, 0.3 * r.normal(size=(3, 2)), r.normal(size=(15, 2))


def _in_place_slices():
    return (np.random.default_rng(8).normal(size=7),)


def _broadcast_mix():
    r = np.random.default_rng(9)
    return r.normal(size=(3, 4)), np.array(0.7), r.normal(size=4), 1.5


def _black_scholes():
    r = np.random.default_rng(10)
    spot, strike = r.uniform(80.0, 120.0, 5), r.uniform(80.0, 120.0, 5)
    return spot, strike, r.uniform(0.2, 2.0, 5), 0.03, r.uniform(0.1, 0.4, 5)


def _tariff():
    return 120.0, 0.3


def _cube_root():
    return 9.0, 2.0


def _doubled():
    return (np.random.default_rng(11).normal(size=5),)


def _pendulum():
    return np.array([1.0, 0.0]), 9.81, 0.1


def _kalman_filter():
    r = np.random.default_rng(11)
    a, h = np.array([[1.0, 0.1], [-0.2, 0.9]]), np.array([1.0, 0.3])
    return a, h, 0.1 * np.eye(2), 0.5, r.normal(size=20)


def _conjugate_gradient():
    r = np.random.default_rng(12)
    m = r.normal(size=(8, 8))
    return m @ m.T + 8.0 * np.eye(8), r.normal(size=8), r.normal(size=8)


def _trajectory_fit():
    r = np.random.default_rng(13)
    return r.normal(size=(3, 3)), r.normal(size=3), r.normal(size=(60, 3))


def _heat_rod():
    return 0.2, np.random.default_rng(14).normal(size=12)


MODELS = {
    model.name: model
    for model in [
        Model(linear_regression, (0, 1), _linear_regression),
        Model(logistic_regression, 0, _logistic_regression),
        Model(softmax_regression, 0, _softmax_regression),
        Model(two_layer_network, 0, _two_layer_network),
        Model(rosenbrock, 0, _rosenbrock),
        Model(recurrent_cell, 0, _recurrent_cell),
        Model(gaussian_mixture, (0, 1, 2), _gaussian_mixture),
        Model(in_place_slices, 0, _in_place_slices),
        Model(broadcast_mix, (0, 1, 2, 3), _broadcast_mix),
        Model(black_scholes, (0, 1, 2, 3, 4), _black_scholes),
        Model(pendulum, (0, 1, 2), _pendulum),
        Model(kalman_filter, (0, 1, 2, 3), _kalman_filter),
        Model(conjugate_gradient, (0, 1), _conjugate_gradient),
        Model(trajectory_fit, (0, 1), _trajectory_fit),
        Model(heat_rod, (0, 1), _heat_rod),
        Model(tariff, (0, 1), _tariff),
        Model(cube_root, 0, _cube_root),
        Model(doubled, 0, _doubled),
    ]
}
