"""Times transformations: Jacobians beside loops over rows, Hessian products beside f.

    python benchmarks/transforms.py [--quick]

Two tables.  The first has Jacobians of functions with 200 results: `tg.jacobian` in one
batched pass, beside the two loops that users write instead, with our own compiled
functions: `pullback` of each unit vector, and the gradient of each result.  The bar is
20 times, against the faster loop.  The last row shows where no pass can reach it: a
dense layer of 200 x 200 needs one product of two such matrices in any case, and the
loop does the same arithmetic.  The Jacobian written by hand stands beside it.

The second has ten functions of the golden tests, at sizes where the arithmetic
counts: the user's own NumPy function, and the emitted Hessian product.  The bar is four
times.  Three more columns are of the tests' own sizes, a handful of elements: there the
number of calls of NumPy counts and nothing else, so that the bar may lie below what
any code can do.  The product written by hand, where the tests have one, shows it.

All calls of a row take turns, in blocks, in this one process on one thread; the ratios
are of the least times per call.  Before, an array of 16 MB is made and freed: glibc
gives freed memory back to the system at once until a process has freed something
large, and then each call pays for its pages again.  Most programs with data have done
so.
"""

import argparse
import os
import sys
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

import tracegrad as tg  # noqa: E402

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent / "tests"
sys.path += [str(HERE), str(TESTS), str(TESTS / "transforms")]

import by_hand  # noqa: E402
from run import FULL, QUICK, Call, Effort, check, measure  # noqa: E402
from scipy.special import erf  # noqa: E402

from golden.models import MODELS  # noqa: E402
from tracegrad.ir.tree import Leaf, build, map_leaves, restore  # noqa: E402

N = 200
JACOBIAN_BAR, PRODUCT_BAR = 20.0, 4.0
RNG = np.random.default_rng(0)

# ------------------------------------------------------------------------- Jacobians
TIMES = np.linspace(0.0, 4.0, N)
NARROW, WIDE = RNG.normal(size=(20, N)) / 14, RNG.normal(size=(N, 20)) / 4
DENSE_1, DENSE_2 = RNG.normal(size=(N, N)) / 14, RNG.normal(size=(N, N)) / 14


def residuals(p):
    """200 measurements of a damped oscillation, by six parameters."""
    wave = np.exp(-p[0] * TIMES) * np.cos(p[1] * TIMES + p[2])
    return p[3] * wave + p[4] + p[5] * TIMES


def autoencoder(x):
    """200 inputs, 20 hidden units, 200 results."""
    return np.tanh(WIDE @ np.tanh(NARROW @ x))


def kinetics(x):
    """200 results, each of its own input."""
    return x * np.exp(-(x**2)) / (1.0 + x**2) - 0.1 * np.sin(x)


def dense(x):
    """Two full layers of 200 units."""
    return np.tanh(DENSE_2 @ np.tanh(DENSE_1 @ x))


def dense_by_hand(x):
    """Its Jacobian: one product of two matrices, and no less will do."""
    h = np.tanh(DENSE_1 @ x)
    out = np.tanh(DENSE_2 @ h)
    return ((1.0 - out * out)[:, None] * DENSE_2 * (1.0 - h * h)) @ DENSE_1


# Name -> function, argument, whether the bar is for it.
JACOBIANS = {
    "fit: 200 residuals, 6 parameters": (residuals, RNG.uniform(0.5, 1.5, 6), True),
    "network: 200 -> 20 -> 200": (autoencoder, RNG.normal(size=N), True),
    "200 elementwise results": (kinetics, RNG.normal(size=N), True),
    "network: 200 -> 200 -> 200": (dense, RNG.normal(size=N), False),
}


def jacobian_calls(f, x) -> dict[str, Call]:
    """The ways to a Jacobian."""
    jacobian = tg.jacobian(f)
    one = tg.grad(lambda x, i: f(x)[i])
    units = np.eye(N)

    def pullbacks():
        _, pullback = tg.vjp(f, x)
        return np.stack([pullback(unit)[0] for unit in units])

    return {
        "jacobian": lambda: jacobian(x),
        "pullbacks": pullbacks,
        "gradients": lambda: np.stack([one(x, i) for i in range(N)]),
        **({"by hand": lambda: dense_by_hand(x)} if f is dense else {}),
    }


# ------------------------------------------------------------------ Hessian products
def sized() -> dict[str, tuple]:
    """Golden functions and arguments for them, so large that arithmetic counts."""
    r = np.random.default_rng(0)
    normal = lambda *shape: r.normal(size=shape)
    classes = r.integers(0, 10, size=1000)
    layers = {"w1": 0.1 * normal(64, 32), "b1": normal(32), "w2": 0.1 * normal(32, 10)}
    cell = {"start": normal(100, 32), "w_in": 0.1 * normal(16, 32), "b": normal(32)}
    prices = lambda: r.uniform(80.0, 120.0, 5000)
    return {
        "linear_regression": (normal(50), 0.3, normal(2000, 50), normal(2000)),
        "logistic_regression": (
            normal(50),
            normal(2000, 50),
            np.sign(normal(2000)),
            0.01,
        ),
        "softmax_regression": (
            {"w": normal(64, 10), "b": normal(10)},
            normal(1000, 64),
            classes,
        ),
        "two_layer_network": (
            {**layers, "b2": normal(10)},
            normal(1000, 64),
            np.eye(10)[classes],
        ),
        "rosenbrock": (normal(10_000),),
        "recurrent_cell": (
            {**cell, "w": 0.1 * normal(32, 32)},
            normal(5, 100, 16),
            normal(100, 32),
        ),
        "gaussian_mixture": (
            normal(8),
            normal(8, 4),
            0.3 * normal(8, 4),
            normal(1000, 4),
        ),
        "in_place_slices": (normal(10_000),),
        "broadcast_mix": (normal(300, 40), np.array(0.7), normal(40), 1.5),
        "black_scholes": (
            prices(),
            prices(),
            r.uniform(0.2, 2.0, 5000),
            0.03,
            r.uniform(0.1, 0.4, 5000),
        ),
    }


def directions(x, rng):
    """Random numbers in the structure of `x`."""
    made = map_leaves(build(x, Leaf), lambda v: rng.normal(size=np.shape(v))[()])
    return restore(made, lambda v: v)


def black_scholes_by_hand(spot, strike, years, rate, vol, *tangents):
    """What a quant writes: `spot * pdf(d1) == strike * discount * pdf(d2)` saves half.

    The gradient is in Hull, "Options, Futures, and Other Derivatives", chapter on the
    Greek letters.
    """
    t_spot, t_strike, t_years, t_rate, t_vol = tangents
    root = np.sqrt(years)
    spread = vol * root
    drift = rate + 0.5 * vol**2
    d1 = (np.log(spot / strike) + drift * years) / spread
    t_root = 0.5 * t_years / root
    t_spread = t_vol * root + vol * t_root
    t_d1 = t_spot / spot - t_strike / strike + (t_rate + vol * t_vol) * years
    t_d1 = (t_d1 + drift * t_years - d1 * t_spread) / spread
    pdf1 = np.exp(-0.5 * d1**2) / np.sqrt(2.0 * np.pi)
    weight = spot * pdf1
    t_weight = pdf1 * t_spot - weight * d1 * t_d1
    sold = 0.5 * np.exp(-rate * years) * (1.0 + erf((d1 - spread) / np.sqrt(2.0)))
    t_sold = (t_d1 - t_spread) * weight / strike
    t_sold -= (t_rate * years + rate * t_years) * sold
    paid = strike * sold
    t_paid = t_strike * sold + strike * t_sold
    t_decay = t_vol * weight + vol * t_weight - vol * weight * t_root / root
    return (
        pdf1 * t_d1,
        -t_sold,
        0.5 * t_decay / root + t_rate * paid + rate * t_paid,
        np.sum(t_years * paid + years * t_paid),
        t_weight * root + weight * t_root,
    )


BY_HAND = {
    "black_scholes": black_scholes_by_hand,
    **{
        name.removesuffix("_hvp"): value
        for name, value in vars(by_hand).items()
        if name.endswith("_hvp")
    },
}


def product_calls(name: str, args: tuple) -> dict[str, Call]:
    """The function, its Hessian by what is differentiated times a vector, by hand."""
    model, rng = MODELS[name], np.random.default_rng(1)
    wrt = model.argnums if isinstance(model.argnums, tuple) else (model.argnums,)
    moved = tuple(directions(x, rng) if i in wrt else None for i, x in enumerate(args))
    product = tg.hvp(model.function)
    calls: dict[str, Call] = {
        "function": lambda: model.function(*args),
        "hvp": lambda: product(args, moved),
    }
    if name in BY_HAND:
        tangents = [moved[i] for i in wrt]
        calls["by hand"] = lambda: BY_HAND[name](*args, *tangents)
        check(f"{name}, by hand", calls["by hand"](), product(args, moved))
    return calls


def least(calls: dict[str, Call], effort: Effort) -> dict[str, float]:
    """Least time per call, in µs."""
    for call in calls.values():
        call()  # compiles
    return {name: 1e6 * min(t) for name, t in measure(calls, effort).items()}


def compare_jacobians(effort: Effort) -> tuple[Table, list[str]]:
    """The first table, and the bars that are missed."""
    heads = (
        "function",
        "jacobian, µs",
        "pullbacks",
        "gradients",
        "by hand",
        "faster than both by",
        "by hand",
    )
    table, missed = Table(*heads, title=f"Jacobians of {N} results"), []
    for name, (f, x, has_bar) in JACOBIANS.items():
        calls = jacobian_calls(f, x)
        wanted = calls["pullbacks"]()
        for way, call in calls.items():
            check(f"{name}, {way}", call(), wanted)
        times = least(calls, effort)
        loop, hand = min(times["pullbacks"], times["gradients"]), times.get("by hand")
        ratio = loop / times["jacobian"]
        ways = ("jacobian", "pullbacks", "gradients", "by hand")
        cells = [f"{times[way]:.0f}" if way in times else "" for way in ways]
        floor = "" if hand is None else f"{loop / hand:.1f}"
        table.add_row(name, *cells, f"{ratio:.1f}", floor)
        if has_bar and ratio < JACOBIAN_BAR:
            missed.append(f"{name}: {ratio:.1f} times, the bar is {JACOBIAN_BAR}")
    return table, missed


def compare_products(effort: Effort) -> tuple[Table, list[str]]:
    """The second table, and the bars that are missed."""
    heads = ("function", "µs", "hvp", "ratio", "by hand")
    small = ("small", "by hand")
    table, missed = Table(*heads, *small, title="Hessian products"), []
    for name, args in sized().items():
        times = least(product_calls(name, args), effort)
        few = least(product_calls(name, MODELS[name].args()), effort)
        ratio = times["hvp"] / times["function"]
        cells = [f"{times['function']:.0f}", f"{times['hvp']:.0f}"]
        for of in (times, few):
            for way in ("hvp", "by hand"):
                cells.append(f"{of[way] / of['function']:.2f}" if way in of else "")
        table.add_row(name, *cells)
        if ratio > PRODUCT_BAR:
            missed.append(f"{name}: {ratio:.2f} times, the bar is {PRODUCT_BAR}")
    return table, missed


def main() -> int:
    """Prints the tables; 1 if a full run misses one of the bars."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a short look only")
    effort = QUICK if parser.parse_args().quick else FULL
    console, missed = Console(), []
    np.ones(1 << 21)  # freed at once: see above
    for compare in (compare_jacobians, compare_products):
        table, over = compare(effort)
        console.print(table)
        missed += over
    if effort is QUICK:
        return 0  # too short to judge
    for line in missed:
        console.print(line, style="red")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
