"""Locations and the user's names."""

import ast
import inspect
import time

import numpy as np

from tracegrad.trace.source_names import Names

X = np.array([0.3, -1.2, 2.5, 0.7])


def names_of(run) -> dict[str, str]:
    """The op that got each name."""
    return {n.outputs[0].hint: n.op.name for n in run.nodes if n.outputs[0].hint}


def test_only_the_outermost_operation_takes_the_name(traced) -> None:
    """Right-hand sides of all forms."""

    def f(x):
        y = (np.sin(x) + 1.0).sum()
        a, b = x * 2.0, x - 1.0
        c: object = -x
        if (d := np.exp(x)) is not None:
            pass
        e = f0 = x / 3.0
        g = x * 4.0 if x.ndim else x
        first, *_ = np.split(x, 2)
        y += 1.0
        return y + a[0] + b[0] + c[0] + d[0] + e[0] + f0[0] + g[0] + first[0]

    run = traced(f, X)
    named = names_of(run)
    assert {"y", "a", "b", "c", "d", "e", "g"} <= set(named)
    assert named["a"] == "multiply"
    assert named["b"] == "subtract"
    assert named["c"] == "negative"
    assert "f0" not in named
    assert [h for h in run.hints if h == "y"] == ["y", "y"]
    assert run.ops[1] == "add"
    assert run.hints[1] is None


def test_unpacked_and_looped_values(traced) -> None:
    """Tuple targets by order; loop variables, in comprehensions too."""

    def f(x):
        a, b = np.split(x, 2)
        total = sum([v * 2.0 for v in a])
        for row in b:
            total = total + row
        return total

    run = traced(f, X)
    assert {"a", "b", "v", "row", "total"} <= set(run.hints)


def test_names_of_what_is_unpacked(traced) -> None:
    """Elements and rows have the names that the array is unpacked to."""

    def f(theta, table):
        rate, (limit, *others) = theta[0], theta
        [first, second] = table
        total = 0.0
        for p, (q, _) in zip(theta, table.T[:, :2], strict=False):
            total = total + p * q
        return rate * limit * others[0] + total * first @ second

    run = traced(f, X[:3], np.ones((2, 4)))
    wanted = ["limit", "first", "second", "q"]
    assert [h for h in wanted if h not in run.hints] == []


def test_names_of_what_helpers_return(traced) -> None:
    """`h = layer(x)` names what `layer` returns; its own names stay."""

    def layer(x):
        z = x * 2.0
        return np.tanh(z)

    def scale(x):
        return layer(x) if x.ndim else x

    def f(x):
        h = scale(x)
        g = (lambda t: t + 1.0)(h)
        return np.sum(g)

    run = traced(f, X)
    assert names_of(run) == {"z": "multiply", "h": "tanh", "g": "add"}
    assert [s.function for s in run.nodes[0].at] == ["f", "scale", "layer"]


def test_a_lambda_does_not_name_its_value(traced) -> None:
    """`g = lambda t: …` names the function."""

    def f(x):
        g = lambda t: t * 3.0
        return np.sum(g(x))

    assert traced(f, X).hints == [None, None]


def test_compositions_name_the_last_node(traced) -> None:
    """A NumPy function of several ops."""

    def f(x):
        s = np.std(x)
        return s + 0.0

    run = traced(f, X)
    assert run.hints[-2] == "s"
    assert run.hints.count("s") == 1


def test_chain_over_lines(traced) -> None:
    """Method calls split over lines."""

    def f(x):
        y = (
            x.reshape(2, 2)
            .sum(axis=0)
            .mean()
        )  # fmt: skip
        return y + 0.0

    assert traced(f, X).hints[-2] == "y"


def test_lines(traced) -> None:
    """Each node has the file, line and text of the user's expression."""

    def f(x):
        y = x * 2.0
        return y + 1.0

    run = traced(f, X)
    start = inspect.getsourcelines(f)[1]
    assert [n.at[-1].line for n in run.nodes] == [start + 1, start + 2]
    assert run.nodes[0].at[-1].text == "y = x * 2.0"
    assert run.nodes[1].at[-1].where == f"test_frames.py:{start + 2}"


def test_sites_are_stable(traced) -> None:
    """The interpreter specialises instructions; the place of an op stays the same."""

    def f(x):
        for _ in range(50):
            x = np.sin(x) * x[0]
        return x

    run = traced(f, X)
    assert len({id(n.at) for n in run.nodes}) == 3


def test_no_source(traced) -> None:
    """Code without a file still has lines."""
    space = {"np": np}
    exec(
        compile("def f(x):\n    y = np.sin(x)\n    return y\n", "<string>", "exec"),
        space,
    )
    run = traced(space["f"], X)
    assert run.nodes[0].at[-1].where == "<string>:2"


def test_deep_recursion_is_cheap(traced) -> None:
    """An op at the bottom of a deep stack costs no more than at the top."""

    def down(x, depth):
        if depth:
            return down(x, depth - 1)
        for _ in range(300):
            x = x * 1.5
        return x

    def cost(depth: int) -> float:
        best = 1e9
        for _ in range(3):
            start = time.perf_counter()
            traced(lambda x: down(x, depth), X)
            best = min(best, time.perf_counter() - start)
        return best

    assert cost(300) < 3 * cost(1) + 0.05


def test_index_of_names() -> None:
    """The syntax tree alone."""
    text = "a = b = x + 1\nfor i in y:\n    (c, d) = f(i)\ne, g = 1, 2\nk[0] = 3\n"
    names = Names(ast.parse(text))
    assert sorted(names.assigned.values(), key=str) == [("c", "d"), "a", "e", "g"]
    assert set(names.loops.values()) == {"i"}
