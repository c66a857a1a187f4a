"""Loops of Python's: the first call beside `jax.jit`, later ones beside code by hand.

    python benchmarks/control.py [--limit SECONDS]

Two functions with a plain Python `for`: the integrator of the golden tests, 1,000 steps
of Runge and Kutta's method, and a recurrent cell of 50 steps.  tracegrad finds the loop
in the trace; JAX is given the function as it is, unrolled.  A first call is all that
happens before the result is there: trace, derive, emit, compile, run.  JAX may take
longer than anyone would wait, so it runs in a process of its own, for `--limit` seconds
at most.  Later calls take turns with the hand-written gradient, in short blocks.

The bars: a first call at least 5 times as fast as JAX's, later ones at most 1.1 times
the time of those by hand.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np  # noqa: E402

import tracegrad as tg  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from golden import by_hand  # noqa: E402
from golden.models import MODELS  # noqa: E402
from golden.oracles import assert_trees_close, rebind  # noqa: E402

STEPS = 50


def recurrent(params, inputs, target):
    """Squared error of the state of a tanh cell after 50 steps."""
    state = params["start"]
    for t in range(STEPS):
        state = np.tanh(inputs[t] @ params["w_in"] + state @ params["w"] + params["b"])
    return 0.5 * np.sum((state - target) ** 2)


def recurrent_by_hand(params, inputs, target):
    """Value and gradient of `recurrent`."""
    states = [params["start"]]
    for t in range(STEPS):
        total = inputs[t] @ params["w_in"] + states[t] @ params["w"] + params["b"]
        states.append(np.tanh(total))
    d_state = states[-1] - target
    value = 0.5 * np.sum(d_state**2)
    d_w_in = np.zeros_like(params["w_in"])
    d_w = np.zeros_like(params["w"])
    d_b = np.zeros_like(params["b"])
    for t in reversed(range(STEPS)):
        d_total = d_state * (1.0 - states[t + 1] ** 2)
        d_w_in += inputs[t].T @ d_total
        d_w += states[t].T @ d_total
        d_b += np.sum(d_total, axis=0)
        d_state = d_total @ params["w"].T
    return value, {"start": d_state, "w_in": d_w_in, "w": d_w, "b": d_b}


def recurrent_args():
    """A batch of 16, 32 inputs and 64 states."""
    r = np.random.default_rng(0)
    params = {
        "start": r.normal(size=(16, 64)),
        "w_in": 0.1 * r.normal(size=(32, 64)),
        "w": 0.1 * r.normal(size=(64, 64)),
        "b": r.normal(size=64),
    }
    return params, r.normal(size=(STEPS, 16, 32)), r.normal(size=(16, 64))


PENDULUM = MODELS["pendulum"]
# name -> function, argnums, arguments, the gradient by hand
CASES = {
    "integrator, 1,000 steps": (
        PENDULUM.function,
        PENDULUM.argnums,
        PENDULUM.args(),
        by_hand.pendulum,
    ),
    "recurrent cell, 50 steps": (recurrent, 0, recurrent_args(), recurrent_by_hand),
}


def first_by_jax(name: str) -> None:
    """Print how long JAX takes for its first call; runs in a process of its own."""
    import jax

    jax.config.update("jax_enable_x64", True)
    function, argnums, args, _ = CASES[name]
    unrolled = rebind(function, jax.numpy, jax.scipy.special)
    jax.jit(lambda x: x + 1.0)(1.0)  # JAX itself is up
    start = time.perf_counter()
    jax.block_until_ready(jax.jit(jax.value_and_grad(unrolled, argnums))(*args))
    print(time.perf_counter() - start)


def jax_seconds(name: str, limit: float) -> float | None:
    """The same from outside, or None past the limit."""
    command = [sys.executable, __file__, "--jax", name]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, check=True
        )
    except subprocess.TimeoutExpired:
        return None
    return float(done.stdout.split()[-1])


def least_times(functions: list, args: tuple, seconds: float = 4.0) -> list[float]:
    """The least time of a call of each function, in blocks that take turns."""
    counts = []
    for function in functions:
        start = time.perf_counter()
        function(*args)
        counts.append(max(1, int(0.05 / (time.perf_counter() - start))))
    least = [float("inf")] * len(functions)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for k, function in enumerate(functions):
            start = time.perf_counter()
            for _ in range(counts[k]):
                function(*args)
            least[k] = min(least[k], (time.perf_counter() - start) / counts[k])
    return least


def main() -> int:
    """Measure, print, and say whether the bars hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=120.0)
    parser.add_argument("--jax", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.jax:
        first_by_jax(options.jax)
        return 0
    good = True
    for name, (function, argnums, args, hand) in CASES.items():
        gradient = tg.value_and_grad(function, argnums)
        start = time.perf_counter()
        found = gradient(*args)
        first = time.perf_counter() - start
        assert_trees_close(found, hand(*args))
        theirs = jax_seconds(name, options.limit)
        steady, by_person = least_times([gradient, hand], args)
        said = f"{theirs:.1f} s" if theirs else f"more than {options.limit:.0f} s"
        ratio = steady / by_person
        faster = (theirs or options.limit) / first
        print(f"{name}: first call {first:.2f} s, jax.jit {said} ({faster:.0f} x)")
        print(
            f"  later {steady * 1e3:.2f} ms, by hand {by_person * 1e3:.2f} ms", end=""
        )
        print(f" ({ratio:.2f} x)")
        good = good and faster >= 5.0 and ratio <= 1.1
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
