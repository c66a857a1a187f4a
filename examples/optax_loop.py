"""Trains a small network with Optax, on gradients that tracegrad writes.

An Optax optimizer takes gradients in the structure of the parameters, from wherever
they come.  So the loop is Optax's own, as its documentation has it, with
`tg.value_and_grad` in the place of `jax.value_and_grad` and a loss in plain NumPy.

    python examples/optax_loop.py

The task is to fit one period of a sine.  Needs Optax, which brings JAX.
"""

import numpy as np
import optax

import tracegrad as tg

STEPS, RATE, UNITS = 300, 0.02, 16


@tg.value_and_grad
def loss(params, x, y):
    """Mean squared error of a network with one hidden layer."""
    hidden = np.tanh(x[:, None] * params["w1"] + params["b1"])
    return np.mean((hidden @ params["w2"] + params["b2"] - y) ** 2)


def train() -> list[float]:
    """Fits the network; the loss at each step."""
    rng = np.random.default_rng(0)
    x = np.linspace(-np.pi, np.pi, 100)
    y = np.sin(x)
    params = {
        "w1": rng.normal(size=UNITS),
        "b1": rng.normal(size=UNITS),
        "w2": 0.1 * rng.normal(size=UNITS),
        "b2": np.zeros(()),
    }
    optimizer = optax.adam(RATE)
    state = optimizer.init(params)
    losses = []
    for _ in range(STEPS):
        value, grads = loss(params, x, y)
        updates, state = optimizer.update(grads, state, params)
        params = optax.apply_updates(params, updates)
        params = {name: np.asarray(p) for name, p in params.items()}
        losses.append(float(value))
    return losses


if __name__ == "__main__":
    found = train()
    print(f"loss {found[0]:.4f} before, {found[-1]:.6f} after {STEPS} steps")
