"""What is measured: functions of plain NumPy, and their gradients by hand."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

Function = Callable[..., Any]


@dataclass(frozen=True)
class Workload:
    """One function to differentiate with respect to its first argument.

    Attributes:
        name: Short name.
        title: What it is, with its size.
        function: Plain NumPy; free names are `np` and `logsumexp`.
        by_hand: Same arguments; value and gradient as a careful person writes them.
        args: Arrays, or dicts of them.
    """

    name: str
    title: str
    function: Function
    by_hand: Function
    args: tuple[Any, ...]


CHAIN_STEPS = 30


def chain(x):
    """Five elementwise ops a step, 150 in all: nothing but overhead on 10 elements."""
    y = x
    for _ in range(CHAIN_STEPS):
        y = np.sin(y)
        y = y * 1.01
        y = y + 0.1
        y = y * x
        y = np.tanh(y)
    return np.sum(y)


def chain_by_hand() -> Function:
    """Writes the chain's gradient out, step by step.

    A person would write a loop, which is slower, as it keeps its values in lists.
    What a step needs later is computed into a fresh array; the rest is updated in
    place.
    """
    lines = ["def chain(x):"]
    y = "x"
    for i in range(CHAIN_STEPS):
        lines += [f"a{i} = np.sin({y})", f"a{i} *= 1.01", f"a{i} += 0.1"]
        lines += [f"y{i} = a{i} * x", f"np.tanh(y{i}, y{i})"]
        y = f"y{i}"
    lines += [f"value = np.add.reduce({y})"]
    for i in reversed(range(CHAIN_STEPS)):
        # d holds the cotangent of y{i}; the last one is all ones.
        lines += [f"t = y{i} * y{i}", "np.subtract(1.0, t, t)"]
        last = i == CHAIN_STEPS - 1
        lines += ["d = t"] if last else ["d *= t"]
        lines += [f"d_x = d * a{i}"] if last else [f"a{i} *= d", f"d_x += a{i}"]
        lines += ["d = d * x" if last else "d *= x", "d *= 1.01"]
        lines += [f"d *= np.cos({f'y{i - 1}' if i else 'x'})"]
    lines += ["d_x += d", "return value, d_x"]
    space: dict[str, Any] = {"np": np}
    exec("\n    ".join(lines), space)
    return space["chain"]


def softmax_regression(params, x, labels):
    """Mean cross entropy of a linear classifier."""
    logits = x @ params["w"] + params["b"]
    log_probs = logits - logsumexp(logits, axis=1, keepdims=True)
    return -np.mean(log_probs[np.arange(len(labels)), labels])


def softmax_regression_by_hand(params, x, labels):
    """The same with its gradient, with the shift that `logsumexp` makes inside."""
    rows = np.arange(len(labels))
    probs = x @ params["w"]
    probs += params["b"]
    probs -= probs.max(axis=1, keepdims=True)
    chosen = probs[rows, labels]
    np.exp(probs, probs)
    total = probs.sum(axis=1, keepdims=True)
    value = (np.log(total[:, 0]) - chosen).mean()
    probs /= total
    probs[rows, labels] -= 1.0
    probs /= len(labels)
    return value, {"w": x.T @ probs, "b": probs.sum(axis=0)}


def _softmax_args(rows: int, columns: int, classes: int) -> tuple[Any, ...]:
    r = np.random.default_rng(0)
    params = {
        "w": 0.1 * r.normal(size=(columns, classes)),
        "b": 0.1 * r.normal(size=classes),
    }
    return params, r.normal(size=(rows, columns)), r.integers(0, classes, size=rows)


WORKLOADS = [
    Workload(
        "chain",
        "150 elementwise ops on 10 elements",
        chain,
        chain_by_hand(),
        (np.random.default_rng(0).uniform(0.5, 1.0, size=10),),
    ),
    Workload(
        "softmax",
        "Softmax regression, 1,000 x 64 into 10 classes",
        softmax_regression,
        softmax_regression_by_hand,
        _softmax_args(1000, 64, 10),
    ),
    Workload(
        "softmax-batch",
        "Softmax regression, a batch of 50 x 64 into 10 classes",
        softmax_regression,
        softmax_regression_by_hand,
        _softmax_args(50, 64, 10),
    ),
]


def long_chain(nodes: int) -> tuple[Function, tuple[Any, ...]]:
    """A function whose forward graph has so many nodes, and arguments for it."""

    def long_loop(x):
        y = x
        for _ in range(nodes // 2):
            y = np.sin(y)
            y = y * x
        return np.sum(y)

    return long_loop, (np.linspace(0.5, 1.0, 10),)


def mixed_chain(nodes: int) -> tuple[Function, tuple[Any, ...]]:
    """As `long_chain`, of ops in an order without a pattern, which no loop can hold."""
    steps = (
        lambda y, x: np.sin(y),
        lambda y, x: y * x,
        lambda y, x: y + x,
        lambda y, x: np.tanh(y),
        lambda y, x: x - y,
    )
    order = np.random.default_rng(0).integers(0, len(steps), size=nodes)

    def long_mixture(x):
        y = x
        for k in order.tolist():
            y = steps[k](y, x)
        return np.sum(y)

    return long_mixture, (np.linspace(0.5, 1.0, 10),)
