"""Eager mode beside PyTorch's and others: time per op, a step of a small network.

    python benchmarks/eager.py [--repeat 60] [--only chain]

Each program runs in warm blocks: many runs of one library, then many of the other, in
turns, garbage collection off, one thread.  The figure is the median of a library's
fastest block times, in microseconds for each forward op with its share of backward.
The column `ratio` is ours by the other's; `bar` is what it should not pass.  torch,
autograd and mygrad are compared if they are installed (`pip install
'tracegrad[benchmarks]'` brings the last two).  In a whole step we and torch update
tensors; autograd and mygrad update NumPy's arrays, which is less work.  The rows
"by hand" are bare NumPy: the least that any library could take.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tracegrad.eager as tg

OPS = 50


def scalars(t: Any) -> Callable[[], Any]:
    """`y.sin() * 1.01 + 0.1`: Python numbers as operands."""
    x = t.tensor(np.linspace(0.1, 1.0, 10, dtype=np.float32), requires_grad=True)

    def run() -> Any:
        y = x
        for _ in range(OPS):
            y = y.sin() * 1.01 + 0.1
        y.sum().backward()

    return run


def operands(t: Any, requires_grad: bool, shape: tuple) -> Callable[[], Any]:
    """The same with tensors as operands."""
    x = t.tensor(np.linspace(0.1, 1.0, 10, dtype=np.float32), requires_grad=True)
    a = t.full(shape, 1.01, requires_grad=requires_grad)
    b = t.full(shape, 0.1, requires_grad=requires_grad)

    def run() -> Any:
        y = x
        for _ in range(OPS):
            y = y.sin() * a + b
        y.sum().backward()

    return run


def own_leaves(t: Any) -> Callable[[], Any]:
    """The same with a leaf of its own for each op."""
    x = t.tensor(np.linspace(0.1, 1.0, 10, dtype=np.float32), requires_grad=True)
    leaves = [
        (
            t.full((10,), 1.01, requires_grad=True),
            t.full((10,), 0.1, requires_grad=True),
        )
        for _ in range(OPS)
    ]

    def run() -> Any:
        y = x
        for a, b in leaves:
            y = y.sin() * a + b
        y.sum().backward()

    return run


def forward_only(t: Any, record: bool) -> Callable[[], Any]:
    """The scalar chain without backward."""
    x = t.tensor(np.linspace(0.1, 1.0, 10, dtype=np.float32), requires_grad=True)

    def run() -> Any:
        with t.set_grad_enabled(record):
            y = x
            for _ in range(OPS):
                y = y.sin() * 1.01 + 0.1
        return y

    return run


def second_order(t: Any) -> Callable[[], Any]:
    """Backward with `create_graph`, then once more."""
    x = t.tensor(np.linspace(0.1, 1.0, 10, dtype=np.float32), requires_grad=True)

    def run() -> Any:
        y = x
        for _ in range(OPS):
            y = y.sin() * 1.01 + 0.1
        (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
        g.sum().backward()

    return run


def mlp(t: Any, compiled: bool = False, step: bool = True) -> Callable[[], Any]:
    """A step of a network 8-16-4 on a batch of 32, or without `step` its gradient."""
    backward = {"compiled": True} if compiled and t is tg else {}
    rng = np.random.default_rng(0)

    def leaf(*shape: int) -> Any:
        data = rng.standard_normal(shape).astype(np.float32)
        return t.tensor(data, requires_grad=True)

    x, y = leaf(32, 8).detach(), leaf(32, 4).detach()
    parameters = [leaf(8, 16), leaf(16), leaf(16, 4), leaf(4)]
    w1, b1, w2, b2 = parameters

    def run() -> Any:
        h = (x @ w1 + b1).tanh()
        loss = ((h @ w2 + b2 - y) ** 2).mean()
        loss.backward(**backward)
        if not step:
            for p in parameters:
                p.grad = None
            return
        with t.no_grad():
            for p in parameters:
                p -= 1e-4 * p.grad
                p.grad = None

    return run


PROGRAMS: dict[str, tuple[Callable[[Any], Callable[[], Any]], int, float]] = {
    "chain, Python numbers": (scalars, 3 * OPS, 0.6),
    "chain, tensors without grad": (lambda t: operands(t, False, (10,)), 3 * OPS, 0.6),
    "chain, shared leaves": (lambda t: operands(t, True, (10,)), 3 * OPS, 0.6),
    "chain, leaves with grad": (own_leaves, 3 * OPS, 0.6),
    "chain, broadcast leaf": (lambda t: operands(t, True, (1,)), 3 * OPS, 0.8),
    "forward only": (lambda t: forward_only(t, True), 3 * OPS, 0.6),
    "forward only, no_grad": (lambda t: forward_only(t, False), 3 * OPS, 0.6),
    "second order": (second_order, 3 * OPS, 1.0),
    "MLP step (whole)": (mlp, 1, 0.6),
    "MLP step, compiled": (lambda t: mlp(t, compiled=True), 1, 0.5),
}


# ------------------------------------------------------------- autograd and mygrad
def autograd_chain() -> Callable[[], Any]:
    """The chain of scalar operands with autograd."""
    import autograd
    import autograd.numpy as anp

    x = np.linspace(0.1, 1.0, 10, dtype=np.float32)

    def chain(y: Any) -> Any:
        for _ in range(OPS):
            y = anp.sin(y) * 1.01 + 0.1
        return anp.sum(y)

    gradient = autograd.grad(chain)
    return lambda: gradient(x)


def autograd_mlp(step: bool = True) -> Callable[[], Any]:
    """The step of the network with autograd, which updates NumPy's arrays."""
    import autograd
    import autograd.numpy as anp

    rng = np.random.default_rng(0)
    shapes = [(32, 8), (32, 4), (8, 16), (16,), (16, 4), (4,)]
    x, y, *parameters = [rng.standard_normal(s).astype(np.float32) for s in shapes]

    def loss(parameters: Any) -> Any:
        w1, b1, w2, b2 = parameters
        return anp.mean((anp.tanh(x @ w1 + b1) @ w2 + b2 - y) ** 2)

    gradient = autograd.grad(loss)
    if not step:
        return lambda: gradient(parameters)

    def run() -> None:
        for p, g in zip(parameters, gradient(parameters)):
            p -= 1e-4 * g

    return run


def mygrad_chain() -> Callable[[], Any]:
    """The chain of scalar operands with mygrad."""
    import mygrad

    x = mygrad.tensor(np.linspace(0.1, 1.0, 10, dtype=np.float32))

    def run() -> None:
        y = x
        for _ in range(OPS):
            y = mygrad.sin(y) * 1.01 + 0.1
        y.sum().backward()

    return run


def mygrad_mlp(step: bool = True) -> Callable[[], Any]:
    """The step of the network with mygrad, which updates NumPy's arrays."""
    import mygrad

    rng = np.random.default_rng(0)
    shapes = [(32, 8), (32, 4), (8, 16), (16,), (16, 4), (4,)]
    x, y, *arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    parameters = [mygrad.tensor(a) for a in arrays]

    def run() -> None:
        w1, b1, w2, b2 = parameters
        ((mygrad.tanh(x @ w1 + b1) @ w2 + b2 - y) ** 2).mean().backward()
        for p in parameters:
            if step:
                p.data -= 1e-4 * p.grad
            p.null_grad()

    return run


def numpy_mlp(step: bool = True) -> Callable[[], Any]:
    """The step of the network by hand in NumPy, in place wherever that is possible."""
    rng = np.random.default_rng(0)
    shapes = [(32, 8), (32, 4), (8, 16), (16,), (16, 4), (4,)]
    x, y, *parameters = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    w1, b1, w2, b2 = parameters
    total = np.add.reduce

    def run() -> Any:
        h = x.dot(w1)
        h += b1
        np.tanh(h, out=h)
        d_out = h.dot(w2)
        d_out += b2
        d_out -= y
        loss = total(d_out * d_out, axis=None) / d_out.size
        d_out *= 2.0 / d_out.size
        d_pre = d_out.dot(w2.T)
        d_w2 = h.T.dot(d_out)
        h *= h
        np.subtract(1.0, h, out=h)
        d_pre *= h
        gradient = x.T.dot(d_pre), total(d_pre, axis=0), d_w2, total(d_out, axis=0)
        if step:
            for p, g in zip(parameters, gradient):
                g *= 1e-4
                p -= g
        return loss, gradient

    return run


OTHERS: dict[str, tuple[Callable, Callable, int]] = {}
for _name, _chain, _mlp in (
    ("autograd", autograd_chain, autograd_mlp),
    ("mygrad", mygrad_chain, mygrad_mlp),
    ("by hand", None, numpy_mlp),
):
    if _chain is not None:
        OTHERS[f"{_name}: chain"] = (lambda: scalars(tg), _chain, 3 * OPS)
    OTHERS |= {
        f"{_name}: MLP": (lambda: mlp(tg, step=False), lambda m=_mlp: m(False), 1),
        f"{_name}: MLP, compiled": (
            lambda: mlp(tg, compiled=True, step=False),
            lambda m=_mlp: m(False),
            1,
        ),
        f"{_name}: MLP step (whole)": (lambda: mlp(tg), _mlp, 1),
    }
OTHERS_BAR = 0.25


def block(run: Callable[[], Any], count: int) -> float:
    """The median time of `count` runs, in seconds."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def compare(runs: list[Callable[[], Any]], repeat: int) -> list[float]:
    """The time of one run of each, in turns."""
    for run in runs:
        block(run, 5)
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(5):
        for k, run in enumerate(runs):
            times[k].append(block(run, max(repeat // 5, 1)))
    return [min(t) for t in times]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=60)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        torch = None
    if torch is not None:
        torch.set_num_threads(1)
    libraries = [tg] if torch is None else [tg, torch]
    gc.disable()
    heads = f"{'microseconds per op':32}{'tracegrad':>10}{'other':>10}"
    print(f"{heads}{'ratio':>8}{'bar':>6}")
    for name, (make, ops, bar) in PROGRAMS.items():
        if options.only not in name:
            continue
        show(name, [make(t) for t in libraries], ops, bar, options.repeat)
    for name, (ours, theirs, ops) in OTHERS.items():
        if options.only not in name:
            continue
        try:
            runs = [ours(), theirs()]
        except ImportError:
            continue
        bar = None if name.startswith("by hand") else OTHERS_BAR
        show(name, runs, ops, bar, options.repeat)


def show(name: str, runs: list, ops: int, bar: float | None, repeat: int) -> None:
    """Print one line of the table."""
    times = [1e6 * t / ops for t in compare(runs, repeat)]
    line = f"{name:32}{times[0]:10.2f}"
    if len(times) > 1:
        line += f"{times[1]:10.2f}{times[0] / times[1]:8.2f}"
        line += "" if bar is None else f"{bar:6.2f}"
    print(line, flush=True)
    gc.collect()


if __name__ == "__main__":
    main()
