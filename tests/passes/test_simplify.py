"""Rewriting never changes what a graph computes, and each rule is seen at work."""

from collections import Counter

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.ir.graph import BACKWARD, Const, Graph, Value
from tracegrad.ir.index import ARRAY, Slice
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import OPS
from tracegrad.ops.evaluate import evaluate
from tracegrad.ops.index import FULL
from tracegrad.ops.record import Builder, Ref
from tracegrad.passes import rewrite, simplify
from tracegrad.passes.pipeline import optimise

F8 = np.dtype(np.float64)
SHAPES = ((), (3,), (2, 3), (3, 2), (2, 1), (1, 3))
BINARY = ("add", "subtract", "multiply", "divide")


class Maker:
    """Draws graphs made of what the rules match."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.builder = Builder(phase=BACKWARD)
        self.params = [Value(ArrayType(s, F8), f"p{i}") for i, s in enumerate(SHAPES)]
        self.pool: list[Ref] = [self.builder.wrap(v) for v in self.params]

    def pick(self) -> Ref:
        """One of the values, a recent one more likely."""
        if self.rng.random() < 0.6:
            return self.pool[-1]
        return self.pool[self.rng.integers(len(self.pool))]

    def step(self) -> None:
        """Apply one more op."""
        x = self.pick()
        kind = self.rng.choice(
            ["negative", "number", "binary", "scalar", "broadcast", "view", "sum",
             "matmul", "cast", "self", "write", "fill", "identity", "choose"]
        )  # fmt: skip
        made = getattr(self, kind)(x)
        if made is not None:
            self.pool.append(made)

    def negative(self, x: Ref) -> Ref:
        return -x

    def number(self, x: Ref) -> Ref:
        c = float(self.rng.choice([1.0, 2.0, -3.0, 0.5]))
        return self.rng.choice([lambda: c * x, lambda: x * c, lambda: x / c])()

    def binary(self, x: Ref) -> Ref | None:
        others = [y for y in self.pool if y.shape == x.shape or not y.shape]
        y = others[self.rng.integers(len(others))]
        op = OPS[BINARY[self.rng.integers(4)]]
        return op(x, y) if self.rng.random() < 0.5 else op(y, x)

    def scalar(self, x: Ref) -> Ref:
        count = OPS["size"](x)
        return count * self.pool[0] if self.rng.random() < 0.5 else 2.0 / count * x

    def broadcast(self, x: Ref) -> Ref | None:
        if self.rng.random() < 0.3:
            x = self.pool[0]
        shape = (2, 3) if x.shape in ((), (3,), (2, 1), (1, 3)) else x.shape
        return OPS["broadcast_to"](x, shape=shape)

    def view(self, x: Ref) -> Ref:
        n = len(x.shape)
        choices = [lambda: OPS["getitem"](x, index=(None, Ellipsis))]
        if n:
            choices += [
                lambda: OPS["transpose"](x, axes=tuple(reversed(range(n)))),
                lambda: OPS["reshape"](x, shape=(*x.shape, 1)),
                lambda: OPS["ravel"](x),
            ]
            if x.shape[0] > 1:
                choices.append(lambda: OPS["getitem"](x, index=(Slice(1, None),)))
            if x.shape[0] == 1:
                choices.append(lambda: OPS["getitem"](x, index=(0,)))
        return choices[self.rng.integers(len(choices))]()

    def sum(self, x: Ref) -> Ref:
        axis = None if not x.shape or self.rng.random() < 0.5 else 0
        return OPS["sum"](x, axis=axis)

    def matmul(self, x: Ref) -> Ref | None:
        if len(x.shape) != 2:
            return None
        other = self.pool[SHAPES.index((2, 3))] if x.shape == (2, 3) else x
        return OPS["matmul"](x, OPS["transpose"](other, axes=(1, 0)))

    def identity(self, x: Ref) -> Ref | None:
        if len(x.shape) != 2:
            zero = OPS["zeros_like"](x)
            return OPS["broadcast_to"](zero, shape=(2, *x.shape))
        rows, columns = x.shape
        kind = self.rng.integers(6)
        unit = self.builder.record(OPS["eye"], (), {"n": columns if kind else rows})
        if kind == 0:
            return OPS["matmul"](OPS["transpose"](unit, axes=(1, 0)), x)
        d = OPS["getitem"](x, index=(0,))
        if kind == 4:
            return OPS["sum"](unit * d, axis=int(self.rng.integers(2)))
        if kind == 5:
            return OPS["getitem"](OPS["zeros_like"](x), index=(0,))
        scaled = unit * d if kind == 1 else 2.0 * (d * unit) if kind == 2 else unit
        return OPS["matmul"](x, scaled)

    def choose(self, x: Ref) -> Ref | None:
        """The sum over one element of each row, or of some rows twice."""
        if len(x.shape) != 2:
            return None
        n, m = x.shape
        rows = self.builder.record(OPS["arange"], (), {"stop": n})
        if self.rng.random() < 0.3:  # other rows, which the rule must leave alone
            rows = self.builder.wrap(Const(self.rng.integers(-n, n, size=n)))
        columns = self.builder.wrap(Const(self.rng.integers(-m, m, size=n)))
        one = self.rng.random() < 0.5
        update = self.pool[0] if one else OPS["getitem"](x, index=(FULL, 0))
        made = OPS["scatter_add"](
            OPS["zeros_like"](x), update, rows, columns,
            index=(ARRAY, ARRAY), unique=False,
        )  # fmt: skip
        axis = int(self.rng.random() < 0.8)
        kept = bool(self.rng.random() < 0.5)
        return OPS["sum"](made, axis=axis, keepdims=kept) + 1.0

    def cast(self, x: Ref) -> Ref:
        return OPS["astype"](x, dtype=np.dtype("float64"))

    def self(self, x: Ref) -> Ref:
        return x + x

    def write(self, x: Ref) -> Ref | None:
        if not x.shape or x.shape[0] == 1:
            return None
        base = OPS["zeros_like"](x)
        index = (Slice(1, None),)
        part = OPS["getitem"](x, index=index)
        if self.rng.random() < 0.5:
            part = OPS["broadcast_to"](self.pool[0], shape=part.shape)
        made = OPS["scatter_add"](base, part, index=index, unique=True)
        return made + 1.0  # no zeros, by which others would divide

    def fill(self, x: Ref) -> Ref | None:
        """Writes into one buffer, some of them twice at one place."""
        if not x.shape:
            return None
        made = OPS["zeros_like"](x)
        for _ in range(self.rng.integers(2, 5)):
            size = x.shape[0]
            i = int(self.rng.integers(-size, size))
            index = (Ellipsis, 0) if self.rng.random() < 0.2 else (i,)
            part = OPS["getitem"](x, index=index)
            made = OPS["scatter_add"](made, part, index=index, unique=True)
        return made + 1.0


def draw(seed: int) -> Graph:
    maker = Maker(seed)
    for _ in range(25):
        maker.step()
    results = [maker.pool[-1].value, maker.pick().value, maker.pick().value]
    return Graph("f", maker.params, maker.builder.nodes, results)


def check(graph: Graph, seed: int) -> None:
    rng = np.random.default_rng(seed)
    args = [np.float64(0.5) + rng.random(v.type.shape) for v in graph.params]
    with np.errstate(all="ignore"):
        wanted = evaluate(graph, args)
        found = evaluate(optimise(graph), args)
    for have, want in zip(found, wanted, strict=True):
        assert np.shape(have) == np.shape(want)
        np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-9)


def test_rewrites_keep_values_and_all_rules_fire(monkeypatch) -> None:
    fired: Counter[str] = Counter()

    def counted(rule):
        def run(rewriter, node):
            made = rule(rewriter, node)
            fired[rule.__name__] += made is not None
            return made

        run.__name__ = rule.__name__
        return run

    defined = set()
    for table in ("RULES", "FINISHING"):
        rules = getattr(rewrite, table)
        defined |= {r.__name__ for found in rules.values() for r in found}
        patched = {op: [counted(r) for r in found] for op, found in rules.items()}
        monkeypatch.setattr(rewrite, table, patched)
    for seed in range(500):
        check(draw(seed), seed)
    # These have tests of their own.
    defined -= {"broadcast_empty", "count_rows_once"}
    defined -= {"logistic_slope", "select_outward", "merge_selections"}
    defined -= {"drop_kept_axes", "sum_of_sum", "zeros_like_source"}
    defined -= {"transpose_product", "add_again", "sum_of_product"}
    defined -= {"negate_diagonal", "add_diagonals", "select_diagonal"}
    defined -= {"multiply_by_constant", "multiply_by_reciprocal", "cancel_size"}
    defined -= {"sum_of_transpose", "factor_batch", "list_stored_elements"}
    assert defined - {name for name, count in fired.items() if count} == set()


def _stores(x: Ref, *indices: tuple) -> Ref:
    made = OPS["zeros_like"](x)
    for k, index in enumerate(indices):
        made = OPS["scatter_add"](made, float(k), index=index, unique=True)
    return made


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (lambda x, y: OPS["negative"](-x), ["x"]),
        (lambda x, y: x + (-y), ["subtract"]),
        (lambda x, y: (-x) * (-y), ["multiply"]),
        (lambda x, y: 2.0 * (3.0 * x), ["multiply"]),
        (lambda x, y: 2.0 * (x * y) * y, ["multiply", "multiply", "multiply"]),
        (lambda x, y: x + x, ["multiply"]),
        (
            lambda x, y: 3.0 * OPS["sum"](x) * (2.0 * OPS["sum"](y)),
            ["sum", "sum", "multiply", "multiply"],
        ),
        (
            lambda x, y: OPS["sum"](x) * (2.0 * OPS["sum"](y)),
            ["sum", "sum", "multiply", "multiply"],
        ),
        (lambda x, y: _stores(x, (0,), (1,), (2,)), ["zeros_like"] + ["setitem"] * 3),
        (
            lambda x, y: _stores(x, (0,), (-1,), (-2,)),
            ["zeros_like", "setitem", "scatter_add", "scatter_add"],
        ),
        (
            lambda x, y: _stores(x, (1,), (0,), (1,)),
            ["zeros_like", "setitem", "setitem", "scatter_add"],
        ),
        (
            lambda x, y: OPS["getitem"](
                OPS["sum"](x, axis=0, keepdims=True), index=(0,)
            ),
            ["sum"],
        ),
        (
            lambda x, y: OPS["sum"](
                OPS["sum"](OPS["reshape"](x * y, shape=(1, 3)), axis=1)
            ),
            ["multiply", "reshape", "sum"],
        ),
        (
            lambda x, y: OPS["zeros_like"](OPS["zeros_like"](x * y)),
            ["zeros_like"],
        ),
        (
            lambda x, y: OPS["where"](m := x > y, y, 0.0) + OPS["where"](m, 0.0, x),
            ["greater", "where"],
        ),
        (lambda x, y: OPS["broadcast_to"](x, shape=(3,)) * y, ["multiply"]),
    ],
)
def test_shape_of_the_result(build, wanted) -> None:
    builder = Builder(phase=BACKWARD)
    params = [Value(ArrayType((3,), F8), name) for name in "xy"]
    out = build(*map(builder.wrap, params)).value
    graph = optimise(Graph("f", params, builder.nodes, [out]))
    found = [n.op.name for n in graph.nodes] or [graph.results[0].hint]
    assert found == wanted


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (lambda i, x, y: i * x, ["diag"]),
        (lambda i, x, y: 2.0 * (y * i), ["multiply", "diag"]),
        (
            lambda i, x, y: i * x * OPS["getitem"](y, index=(FULL, None)),
            ["multiply", "diag"],
        ),
        (lambda i, x, y: i / x, ["divide", "diag"]),
        (lambda i, x, y: -(i * x), ["negative", "diag"]),
        (lambda i, x, y: i * x - i * y, ["subtract", "diag"]),
        (lambda i, x, y: i + i * y / x, ["divide", "add", "diag"]),
        (lambda i, x, y: OPS["transpose"](i * x, axes=(1, 0)), ["diag"]),
        (
            lambda i, x, y: OPS["where"](x > y, i * x, 0.0),
            ["greater", "where", "diag"],
        ),
        (lambda i, x, y: OPS["sum"](i * x * y, axis=0), ["multiply"]),
        # What is no diagonal matrix stays one.
        (lambda i, x, y: i * x + y, ["diag", "add"]),
        (lambda i, x, y: x / (i + y), ["eye", "add", "divide"]),
    ],
)
def test_diagonal_matrices_are_kept_as_vectors(build, wanted) -> None:
    builder = Builder(phase=BACKWARD)
    builder.derived = True
    params = [Value(ArrayType((3,), F8), name) for name in "xy"]
    unit = builder.record(OPS["eye"], (), {"n": 3, "dtype": "float64"})
    out = build(unit, *map(builder.wrap, params)).value
    before = Graph("f", params, builder.nodes, [out])
    after = optimise(before)
    assert [n.op.name for n in after.nodes] == wanted
    args = [np.array([1.0, -2.0, 3.0]), np.array([0.5, 4.0, 2.0])]
    (have,), (want,) = evaluate(after, args), evaluate(before, args)
    np.testing.assert_allclose(have, want, rtol=1e-15)


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (lambda a, x, c: a @ OPS["broadcast_to"](c, shape=(4,)), ["sum", "multiply"]),
        (
            lambda a, x, c: OPS["broadcast_to"](c, shape=(3,)) @ a,
            ["sum", "multiply"],
        ),
        (lambda a, x, c: a * (1.0 / x), ["divide"]),
        (lambda a, x, c: (-1.0 / x) * a, ["divide", "negative"]),
        (lambda a, x, c: a - a * x, ["subtract", "multiply"]),
        (lambda a, x, c: a - x * a, ["subtract", "multiply"]),
        (
            lambda a, x, c: OPS["sum"](OPS["transpose"](a, axes=(1, 0)), axis=0),
            ["sum"],
        ),
        (
            lambda a, x, c: OPS["size"](a) * (2.0 / OPS["size"](a)) * x,
            ["multiply"],
        ),
        # Not where it would be wrong, or no gain.
        (lambda a, x, c: x - x * x, ["multiply", "subtract"]),
        (lambda a, x, c: a * (3.0 / x), ["divide", "multiply"]),
        (lambda a, x, c: OPS["size"](a) * (2.0 / OPS["size"](x)) * x, None),
    ],
)
def test_rules_of_batches(build, wanted) -> None:
    builder = Builder(phase=BACKWARD)
    builder.derived = True
    shapes = ((3, 4), (4,), ())
    params = [Value(ArrayType(s, F8), n) for s, n in zip(shapes, "axc", strict=True)]
    out = build(*map(builder.wrap, params)).value
    before = Graph("f", params, builder.nodes, [out])
    after = optimise(before)
    if wanted is not None:
        assert [n.op.name for n in after.nodes] == wanted
    rng = np.random.default_rng(0)
    args = [1.0 + rng.random(shape) for shape in shapes]
    (have,), (want,) = evaluate(after, args), evaluate(before, args)
    np.testing.assert_allclose(have, want, rtol=1e-14)


def test_a_size_alone_needs_no_array() -> None:
    builder = Builder(phase=BACKWARD)
    params = [Value(ArrayType(s, F8), n) for s, n in (((3, 4), "a"), ((4,), "x"))]
    a, x = map(builder.wrap, params)
    out = OPS["size"](a @ x) * x
    graph = optimise(Graph("f", params, builder.nodes, [out.value]))
    assert [n.op.name for n in graph.nodes] == ["dim", "multiply"]
    (found,) = evaluate(graph, [np.ones((3, 4)), np.ones(4)])
    np.testing.assert_array_equal(found, np.full(4, 3.0))


def test_mean_of_nothing_divides_by_nothing() -> None:
    builder = Builder(phase=BACKWARD)
    x = Value(ArrayType((0,), F8), "x")
    each = 1.0 / OPS["size"](builder.wrap(x))
    ct = OPS["broadcast_to"](each, shape=(0,)) * builder.wrap(x)
    graph = optimise(Graph("f", [x], builder.nodes, [ct.value]))
    (found,) = evaluate(graph, [np.zeros(0)])
    assert found.shape == (0,)


def test_rows_by_arange_are_added_without_add_at() -> None:
    builder = Builder(phase=BACKWARD)
    x = Value(ArrayType((3, 4), F8), "x")
    labels = Value(ArrayType((3,), np.dtype(np.int64)), "labels")
    rows = builder.record(OPS["arange"], (), {"stop": 3})
    index = (ARRAY, ARRAY)
    ref = builder.wrap(x)
    ct = OPS["scatter_add"](
        ref, 1.0, rows, builder.wrap(labels), index=index, unique=False
    )
    graph = optimise(Graph("f", [x, labels], builder.nodes, [ct.value]))
    assert graph.nodes[-1].attrs["unique"]
    (found,) = evaluate(graph, [np.zeros((3, 4)), np.array([1, 1, 0])])
    np.testing.assert_array_equal(found, np.eye(4)[[1, 1, 0]])


def test_what_where_leaves_out_stays_zero() -> None:
    builder = Builder(phase=BACKWARD)
    x = Value(ArrayType((3,), F8), "x")
    ref = builder.wrap(x)
    ct = OPS["where"](ref > 0.0, ref, 0.0) * (1.0 / ref) / ref
    graph = optimise(Graph("f", [x], builder.nodes, [ct.value]))
    with np.errstate(all="ignore"):
        (found,) = evaluate(graph, [np.array([0.0, 2.0, np.nan])])
    np.testing.assert_array_equal(found, [0.0, 0.5, 0.0])


@pytest.mark.parametrize("c", [1.0, 3.0])
def test_logistic_slope_where_the_exponential_overflows(c: float) -> None:
    builder = Builder()
    u = Value(ArrayType((3,), F8), "u")
    e = OPS["exp"](builder.wrap(u))
    y = 1.0 + e
    z = c / y
    builder.phase = BACKWARD
    ct = -(2.0 * OPS["full_like"](builder.wrap(u), 1.0) / y * z) * e
    graph = optimise(Graph("f", [u], builder.nodes, [z.value, ct.value]))
    at = np.array([-800.0, 0.0, 800.0])
    with np.errstate(over="ignore"):
        _, found = evaluate(graph, [at])
    np.testing.assert_allclose(found, [0.0, -0.5 * c, 0.0])


def test_numpy_scalars_become_numbers_where_no_dtype_changes() -> None:
    f4 = np.dtype(np.float32)
    builder = Builder(phase=BACKWARD)
    x = Value(ArrayType((3,), f4), "x")
    one = builder.wrap(Const(np.float32(1.0)))
    used = 2.0 * one * builder.wrap(x)
    kept = OPS["broadcast_to"](one, shape=(3,))
    graph = optimise(Graph("f", [x], builder.nodes, [used.value, kept.value]))
    found = evaluate(graph, [np.ones(3, f4)])
    assert [a.dtype for a in found] == [f4, f4]
    constants = [type(c.value) for c in graph.constants()]
    assert float in constants
    assert np.float32 in constants


def test_forward_part_is_left_alone() -> None:
    builder = Builder()
    x = Value(ArrayType((3,), F8), "x")
    out = OPS["negative"](-(2.0 * (3.0 * builder.wrap(x))))
    graph = optimise(Graph("f", [x], builder.nodes, [out.value]))
    assert [n.op.name for n in graph.nodes] == [
        "multiply",
        "multiply",
        "negative",
        "negative",
    ]


def test_numbers_merge() -> None:
    builder = Builder(phase=BACKWARD)
    x = Value(ArrayType((3,), F8), "x")
    out = -(0.5 * (4.0 * builder.wrap(x)))
    graph = optimise(Graph("f", [x], builder.nodes, [out.value]))
    (node,) = graph.nodes
    assert isinstance(node.inputs[0], Const)
    assert node.inputs[0].value == -2.0
    assert simplify.number(node.inputs[0]) == -2.0


@pytest.mark.parametrize("name", ["sum", "matmul"])
def test_flags_are_not_added_up_alone(name):
    builder = Builder(phase=BACKWARD)
    flags = Value(ArrayType((2, 3), np.dtype(bool)), "flags")
    c = Value(ArrayType((), np.dtype(np.float32)), "c")
    x = builder.wrap(c) * builder.wrap(flags)
    if name == "sum":
        out = OPS["sum"](x, axis=None, keepdims=False)
    else:
        ones = Value(ArrayType((3,), np.dtype(bool)), "ones")
        out = OPS["matmul"](x, builder.wrap(ones))
    params = [flags, c] if name == "sum" else [flags, c, ones]
    made = optimise(Graph("f", params, builder.nodes, [out.value]))
    assert made.results[0].type.dtype == np.float32
    given = [np.ones(v.type.shape, v.type.dtype) for v in params]
    np.testing.assert_array_equal(evaluate(made, given)[0], 6.0 if name == "sum" else 3)


def test_logistic_slope_of_a_sum() -> None:
    """The cotangent 1.0 is gone by then, and so is the shape of the chain rule."""
    x = np.array([-800.0, 0.0, 800.0])
    with np.errstate(over="ignore"):
        for f in (
            lambda x: np.sum(1.0 / (1.0 + np.exp(-x))),
            lambda x: np.sum(1.0 / (np.exp(-x) + 1.0)),
        ):
            np.testing.assert_array_equal(tg.grad(f)(x), [0.0, 0.25, 0.0])


def test_sum_of_a_transposed_matrix_keeps_its_axis():
    builder = Builder(phase=BACKWARD)
    x = Value(ArrayType((2, 3), F8), "x")
    turned = builder.record(OPS["transpose"], (builder.wrap(x),), {"axes": (1, 0)})
    out = builder.record(OPS["sum"], (turned,), {"axis": 0, "keepdims": True})
    made = optimise(Graph("f", [x], builder.nodes, [out.value]))
    data = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(evaluate(made, [data])[0], [[3.0, 12.0]])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.max(x) - np.min(x),
        lambda x: 3.0 - np.max(x),
        lambda x: -np.linalg.norm(x, np.inf),
        lambda x: -np.sum(x * (np.arange(3) > 0)),
        lambda x: -np.sum((np.arange(3) > 0) * x * x),
        lambda x: np.sum(-(np.arange(3, dtype=np.uint8) * x)),
        lambda x: -np.sum(np.arange(3, dtype=np.uint8) / x),
    ],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_signs_stay_outside_of_flags_and_of_unsigned_integers(f, dtype) -> None:
    x = np.array([1.0, 2.5, 5.0], dtype)
    g = tg.value_and_grad(f)
    value, slope = g(x)
    h = 1e-3 if dtype == np.float32 else 1e-6
    wide = x.astype(np.float64)
    wanted = [(f(wide + h * e) - f(wide - h * e)) / (2 * h) for e in np.eye(3)]
    np.testing.assert_allclose(value, f(x), rtol=1e-6)
    np.testing.assert_allclose(slope, wanted, rtol=1e-4, atol=1e-6)
    assert slope.dtype == (
        np.float64 if value.dtype == np.float64 and dtype == np.float64 else dtype
    )


@pytest.mark.parametrize(
    ("order", "listed"),
    [((0, 1), True), ((1, 0), True), ((-1, 0), True), ((0, 1, 0), True), ((1,), False)],
)
def test_elements_that_are_all_stored_are_a_list(order, listed) -> None:
    builder = Builder(phase=BACKWARD)
    x, *updates = [Value(ArrayType(s, F8), "x") for s in ((2,), (), (), ())]
    made = OPS["zeros_like"](builder.wrap(x), dtype=None)
    for i, update in zip(order, updates, strict=False):
        made = OPS["setitem"](made, builder.wrap(update), index=(i,), unique=True)
    graph = Graph("f", [x, *updates], builder.nodes, [made.value])
    found = optimise(graph)
    assert ("array" in {node.op.name for node in found.nodes}) == listed
    values = [np.zeros(2), np.float64(1.5), np.float64(-2.0), np.float64(0.5)]
    wanted = np.zeros(2)
    for i, value in zip(order, values[1:], strict=False):
        wanted[i] = value
    np.testing.assert_array_equal(evaluate(found, values)[0], wanted)
