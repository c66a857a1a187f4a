"""Products written as a person would: each rule fires, and keeps the value."""

import numpy as np
import pytest

from tracegrad.ir.graph import BACKWARD, Graph, Value
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import OPS
from tracegrad.ops.evaluate import evaluate
from tracegrad.ops.record import Builder
from tracegrad.passes.pipeline import optimise

F8 = np.dtype(np.float64)
T = lambda x: OPS["transpose"](x, axes=(1, 0))


@pytest.mark.parametrize(
    ("build", "shapes", "wanted"),
    [
        (lambda a, b: T(T(a) @ b), [(4, 2), (4, 3)], ["transpose", "matmul"]),
        (lambda a, b: T(a @ T(b)), [(4, 2), (3, 2)], ["transpose", "matmul"]),
        (lambda a, b: T(T(a) @ T(b)), [(2, 4), (3, 2)], ["matmul"]),
        (lambda a, b: T(a @ b), [(4, 2), (2, 3)], ["matmul", "transpose"]),
        (lambda a, b: a + b + b, [(3,), (3,)], ["multiply", "add"]),
        (lambda a, b: a + 0.5 * b + b, [(3,), (3,)], ["multiply", "add", "add"]),
        (lambda a, b: OPS["sum"](a * b), [(3,), (3,)], ["matmul"]),
        (lambda a, b: OPS["sum"](a * a), [(3,), (3,)], ["multiply", "sum"]),
        (lambda a, b: OPS["sum"](a * b), [(3,), (1,)], ["multiply", "sum"]),
        (lambda a, b: OPS["sum"](a * b), [(2, 3), (2, 3)], ["multiply", "sum"]),
    ],
)
def test_products(build, shapes, wanted) -> None:
    builder = Builder(phase=BACKWARD)
    params = [Value(ArrayType(shape, F8)) for shape in shapes]
    result = build(*map(builder.wrap, params)).value
    graph = Graph("f", params, builder.nodes, [result])
    made = optimise(graph)
    assert [node.op.name for node in made.nodes] == wanted
    rng = np.random.default_rng(0)
    args = [rng.normal(size=shape) for shape in shapes]
    np.testing.assert_allclose(evaluate(made, args), evaluate(graph, args), rtol=1e-13)
