"""Random graphs: the emitted source computes what the graph says.

The graphs are full of updates, views of what is updated and values read before and
after an update, which is where writing into memory in place could go wrong.
"""

import inspect

import numpy as np
import pytest

from tracegrad.codegen.source import emit
from tracegrad.ir.graph import BACKWARD, Const, Graph, Value
from tracegrad.ir.index import Slice
from tracegrad.ir.location import Location
from tracegrad.ir.routine import Parameter, Pullback, Routine
from tracegrad.ir.tree import Branch, Leaf
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import OPS
from tracegrad.ops.evaluate import evaluate
from tracegrad.ops.record import Builder
from tracegrad.passes.pipeline import optimise

F8 = np.dtype(np.float64)
SIZE = 6
SLICES = (Slice(1, None), Slice(None, -1), Slice(None, None, 2), Slice(2, 4))


def random_graph(rng: np.random.Generator, length: int, backward: bool) -> Graph:
    """A graph over vectors of `SIZE` elements; some values carry the user's names."""
    builder = Builder()
    params = [Value(ArrayType((SIZE,), F8), f"p{i}") for i in range(2)]
    pool = [builder.wrap(v) for v in params]
    parts = []

    def pick(items):
        # Recent values mostly, so that chains of updates come about.
        return items[-1 - min(int(rng.exponential(2.0)), len(items) - 1)]

    for step in range(length):
        if backward and step == length // 2:
            builder.phase = BACKWARD
        builder.at = (Location("model.py", 1 + step // 2),)
        kind = rng.integers(8)
        if kind == 0:
            pool.append(pick(pool) + pick(pool))
        elif kind == 1:
            pool.append(pick(pool) * float(rng.integers(1, 4)))
        elif kind == 2:
            pool.append(OPS["tanh"](pick(pool)))
        elif kind == 3:
            index = (SLICES[rng.integers(len(SLICES))],)
            parts.append((index, OPS["getitem"](pick(pool), index=index)))
        elif kind in (4, 5) and parts:
            index, part = pick(parts)
            op = OPS["setitem"] if kind == 4 else OPS["scatter_add"]
            pool.append(op(pick(pool), part, index=index, unique=True))
        elif kind == 6:
            pool.append(pick(pool) - pick(pool))
            node = builder.nodes[-1]
            if rng.random() < 0.5:  # as the engine marks contributions
                owner = node.inputs[0].wrt or Value(node.out.type, "owner")
                node.inputs[0].wrt = node.out.wrt = owner
            elif node.inputs[0] not in params:  # as `v -= a` of the user's
                for v in (node.inputs[0], node.out):
                    v.hint, v.user = f"v{step}", True
        elif parts:
            index, part = pick(parts)
            parts.append((index, part * part))
        if rng.random() < 0.3 and builder.nodes:
            out = builder.nodes[-1].out
            out.hint, out.user = f"v{step}", True
    # Parameters, views and one value twice among the results.
    results = [pick(pool).value for _ in range(3)]
    if parts and rng.random() < 0.5:
        results.append(pick(parts)[1].value)
    return Graph("f", params, builder.nodes, results)


def as_routine(graph: Graph) -> Routine:
    """A routine that returns all results as a tuple."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = tuple(
        Parameter(f"p{i}", kind, Leaf(v)) for i, v in enumerate(graph.params)
    )
    return Routine("f", "f", None, parameters, graph, as_tuple(graph.results), "Test.")


def as_tuple(values: list[Value]) -> Branch:
    """A tuple of leaves."""
    keys = tuple(range(len(values)))
    return Branch("tuple", tuple, keys, tuple(map(Leaf, values)), tuple)


def check(graph: Graph, optimised: bool, seed: int) -> None:
    """The emitted function agrees with the graph and leaves its arguments alone."""
    rng = np.random.default_rng(seed)
    args = [rng.normal(size=SIZE) for _ in graph.params]
    wanted = evaluate(graph, [a.copy() for a in args])
    routine = as_routine(optimise(graph) if optimised else graph)
    source = emit([routine])
    given = [a.copy() for a in args]
    found = source.load()["f"](*given)
    for have, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-12, err_msg=str(source))
    for have, want in zip(given, args, strict=True):
        np.testing.assert_array_equal(have, want, err_msg=str(source))
    arrays = [*found, *given]
    for i, a in enumerate(arrays):
        for b in arrays[:i]:
            assert not np.shares_memory(a, b), str(source)
    assert all(a.flags.writeable for a in found), str(source)


@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize("backward", [False, True])
def test_emitted_equals_graph(block: int, backward: bool) -> None:
    for seed in range(block * 20, block * 20 + 20):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, int(rng.integers(4, 40)), backward)
        check(graph, optimised=bool(seed % 2), seed=seed)


@pytest.mark.slow
def test_emitted_equals_graph_many() -> None:
    for seed in range(1000, 4000):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, int(rng.integers(4, 60)), seed % 3 > 0)
        check(graph, optimised=seed % 2 > 0, seed=seed)


@pytest.mark.parametrize("seed", range(40))
def test_pullback_may_run_twice(seed: int) -> None:
    """What the forward part made is not changed by the nested function."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 30, backward=True)
    args = [rng.normal(size=SIZE) for _ in graph.params]
    wanted = evaluate(graph, args)
    forward = {v for n in graph.nodes if n.phase != BACKWARD for v in n.outputs}
    forward |= set(graph.params)
    primal = [v for v in graph.results if v in forward] or [graph.params[0]]
    rest = [v for v in graph.results if v not in forward] or [Const(0.0)]
    ct = Value(ArrayType((), F8), "d_out")
    routine = as_routine(graph)
    routine.graph = Graph("f", graph.params, graph.nodes, [*primal, *rest])
    routine.result = as_tuple(primal)
    routine.pullback = Pullback(Leaf(ct), as_tuple(rest))
    source = emit([routine])
    _, pullback = source.load()["f"](*args)
    first = pullback(1.0)
    kept = [np.copy(a) for a in first]
    for a in first:
        if isinstance(a, np.ndarray):
            a[...] = np.nan  # the caller owns what it was given
    second = pullback(1.0)
    later = iter(
        [w for v, w in zip(graph.results, wanted, strict=True) if v not in forward]
    )
    for have, again, want in zip(second, kept, later, strict=False):
        np.testing.assert_array_equal(have, again, err_msg=str(source))
        np.testing.assert_allclose(have, want, rtol=1e-12, err_msg=str(source))
