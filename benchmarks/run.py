"""Times tracegrad beside hand-written NumPy, autograd, torch and JAX.

    python benchmarks/run.py [--quick]

All implementations of a workload run in this one process, on one CPU and one thread,
in short blocks that take turns, so that what slows the machine for a while slows all
of them alike.  Each block is compared with the hand-written block of its own round;
the table shows the median of these ratios, and the least time per call that was seen.
Every implementation is first checked against the hand-written one.  A last table
shows what it costs to trace a function and to emit its source, per node.

`--quick` takes a few short rounds: enough to see that everything runs, too few to
quote.
"""

import argparse
import os
import sys
import time

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
# Both must be in place before NumPy is loaded.  A kernel that is forced on the BLAS
# by the environment is not the one that users have.
for variable in THREADS:
    os.environ[variable] = "1"
for variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(variable, None)
os.environ.setdefault("JAX_PLATFORMS", "cpu")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import random  # noqa: E402
import statistics  # noqa: E402
from collections.abc import Callable  # noqa: E402
from dataclasses import dataclass  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
import optree  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

import tracegrad as tg  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent))

import peers  # noqa: E402
import workloads  # noqa: E402

Call = Callable[[], Any]

# Issue 2's bar for `tracegrad`, as a ratio to hand-written NumPy.
BAR = 1.3
NODES = (2_000, 20_000)
SECONDS_FOR_MOST_NODES = 10.0


@dataclass(frozen=True)
class Effort:
    """How long to measure.

    Attributes:
        rounds: Blocks of each implementation.
        block: Seconds that one block should take.
    """

    rounds: int
    block: float


FULL = Effort(rounds=60, block=0.02)
QUICK = Effort(rounds=5, block=0.002)


def time_block(call: Call, count: int) -> float:
    """Seconds per call, over a block of calls."""
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def calls_per_block(call: Call, seconds: float) -> int:
    """How many calls fill a block, found by doubling."""
    count = 1
    while time_block(call, count) * count < seconds / 2:
        count *= 2
    return count


def measure(calls: dict[str, Call], effort: Effort) -> dict[str, list[float]]:
    """Times each call in blocks that take turns, in a new order each round."""
    counts = {name: calls_per_block(call, effort.block) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    order, shuffle = list(calls), random.Random(0).shuffle
    for _ in range(effort.rounds):
        shuffle(order)
        for name in order:
            times[name].append(time_block(calls[name], counts[name]))
    return times


def check(name: str, found: Any, wanted: Any) -> None:
    """Fails if an implementation computes something else: its time says nothing."""
    found, wanted = optree.tree_leaves(found), optree.tree_leaves(wanted)
    for a, b in zip(found, wanted, strict=True):
        scale = float(np.max(np.abs(b)))
        np.testing.assert_allclose(
            np.asarray(a), b, rtol=1e-9, atol=1e-9 * scale, err_msg=name
        )


def compare(workload: workloads.Workload, effort: Effort) -> tuple[Table, float]:
    """Measures one workload; gives its table and tracegrad's ratio to hand-written."""
    hand = workload.by_hand
    calls: dict[str, Call] = {"by hand": lambda: hand(*workload.args)}
    vg = tg.value_and_grad(workload.function)
    calls["tracegrad"] = lambda: vg(*workload.args)
    for peer, make in peers.PEERS.items():
        try:
            calls[peer] = make(workload)
        except ImportError:
            continue
    wanted = hand(*workload.args)
    for name, call in calls.items():
        check(f"{workload.name}, {name}", call(), wanted)

    times = measure(calls, effort)
    ratios = {
        name: statistics.median(
            own / base for own, base in zip(times[name], times["by hand"], strict=True)
        )
        for name in calls
    }
    table = Table(
        "implementation", "ratio to by hand", "µs per call", title=workload.title
    )
    for name in calls:
        table.add_row(name, f"{ratios[name]:.2f}", f"{min(times[name]) * 1e6:.1f}")
    return table, ratios["tracegrad"]


def seconds_to_emit(
    make: Callable[[int], tuple[workloads.Function, tuple[Any, ...]]], nodes: int
) -> float:
    """Seconds to trace a function of so many nodes and to emit its gradient.

    The function is new each time, so nothing of it is in any cache.
    """
    function, args = make(nodes)
    start = time.perf_counter()
    str(tg.value_and_grad(function).source(*args))
    return time.perf_counter() - start


def compare_sizes(effort: Effort) -> tuple[Table, float]:
    """Measures tracing and emitting; gives the table and the longest time."""
    table = Table("graph", "nodes", "seconds", "µs per node", title="Trace and emit")
    longest = 0.0
    for title, make in (
        ("folds into a loop", workloads.long_chain),
        ("does not fold", workloads.mixed_chain),
    ):
        seconds_to_emit(make, 100)  # loads what is loaded at first use
        for nodes in NODES:
            tries = 1 if effort is QUICK else 3
            seconds = min(seconds_to_emit(make, nodes) for _ in range(tries))
            each = seconds / nodes * 1e6
            table.add_row(title, f"{nodes:,}", f"{seconds:.2f}", f"{each:.0f}")
            longest = max(longest, seconds)
    return table, longest


def main() -> int:
    """Prints the tables; 1 if a full run misses one of the bars."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a short look only")
    effort = QUICK if parser.parse_args().quick else FULL
    console = Console()
    missed = []
    for workload in workloads.WORKLOADS:
        table, ratio = compare(workload, effort)
        console.print(table)
        if ratio > BAR:
            missed.append(f"{workload.name}: {ratio:.2f} x by hand, the bar is {BAR}")
    table, seconds = compare_sizes(effort)
    console.print(table)
    if seconds > SECONDS_FOR_MOST_NODES:
        missed.append(
            f"{NODES[-1]:,} nodes took {seconds:.1f} s, "
            f"the bar is {SECONDS_FOR_MOST_NODES:.0f} s"
        )
    if effort is QUICK:
        return 0  # too short to judge
    for line in missed:
        console.print(line, style="red")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
