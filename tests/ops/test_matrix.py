"""Every op on every one of its samples, by the same checks.

An op whose rule is wrong fails here without a test of its own.  The checks go the way
of the product: record, pull back, run the nodes.
"""

from __future__ import annotations

import numpy as np
import pytest

import tracegrad.ops  # noqa: F401  (defines every op)
from tracegrad.autodiff.reverse import pull_back
from tracegrad.ir.dims import Dim
from tracegrad.ir.dims import evaluate as evaluate_size
from tracegrad.ir.graph import Graph, Value
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import OPS, Op
from tracegrad.ops.evaluate import evaluate
from tracegrad.ops.infer import decider
from tracegrad.ops.record import Builder
from tracegrad.ops.sample import NAMED_SIZES, Sample

CASES = [
    (f"{op.name}-{number}", op, sample)
    for op in OPS.values()
    for number, sample in enumerate(op.samples)
]


def has_names(sample: Sample) -> bool:
    return any(isinstance(size, str) for a in sample.arrays for size in a.shape)


def is_smooth(op: Op, sample: Sample) -> bool:
    floats = any(np.dtype(a.dtype).kind in "fc" for a in sample.arrays)
    return op.differentiable and sample.smooth and floats


each_sample = pytest.mark.parametrize(
    ("op", "sample", "symbolic"),
    [
        pytest.param(op, sample, symbolic, id=f"{name}-named" if symbolic else name)
        for name, op, sample in CASES
        for symbolic in ([False, True] if has_names(sample) else [False])
    ],
)
each_smooth_sample = pytest.mark.parametrize(
    ("op", "sample"),
    [
        pytest.param(op, sample, id=name)
        for name, op, sample in CASES
        if is_smooth(op, sample)
    ],
)


@pytest.fixture(autouse=True)
def sizes_are_known(monkeypatch):
    """Open questions about named sizes are answered as by a trace of a call."""

    def ask(relation: str, left, right) -> bool:
        a, b = (evaluate_size(s, NAMED_SIZES) for s in (left, right))
        return a == b if relation == "==" else a >= b

    monkeypatch.setattr(decider, "ask", ask, raising=False)


SINGLE = {"float64": "float32", "complex128": "complex64"}


# ---------------------------------------------------------------------------- helpers
def arrays_of(sample: Sample, single: bool = False) -> list[np.ndarray]:
    """The data of a sample, in single precision if asked."""
    return [
        x.astype(SINGLE.get(x.dtype.name, x.dtype)) if single else x
        for x in sample.make()
    ]


def parameters(sample: Sample, arrays: list, symbolic: bool) -> list[Value]:
    """IR values with the types of the arrays, named sizes kept if `symbolic`."""
    values = []
    for spec, x in zip(sample.arrays, arrays, strict=True):
        shape = tuple(
            Dim.named(s) if symbolic and isinstance(s, str) else have
            for s, have in zip(spec.shape, x.shape, strict=True)
        )
        values.append(Value(ArrayType(shape, x.dtype)))
    return values


def sizes_of(params: list[Value]) -> dict:
    """Where each named size is read from."""
    return {
        str(size): (value, axis)
        for value in params
        for axis, size in enumerate(value.type.shape)
        if isinstance(size, Dim)
    }


class Program:
    """A call of an op, recorded: its nodes, outputs and, on demand, its pullback."""

    def __init__(self, op: Op, sample: Sample, arrays: list, symbolic: bool = False):
        self.builder = Builder()
        self.params = parameters(sample, arrays, symbolic)
        refs = tuple(map(self.builder.wrap, self.params))
        out = self.builder.record(op, refs, dict(sample.attrs))
        self.outputs = [r.value for r in (out if type(out) is tuple else (out,))]

    def run(self, results: list[Value], args: list, params: list[Value]) -> list:
        graph = Graph("f", params, self.builder.nodes, results, sizes_of(self.params))
        return evaluate(graph, args)

    def pull(self, outputs: list[Value], wrt: list[Value]) -> tuple[list, list]:
        """New cotangent parameters, one per output, and the cotangents of `wrt`."""
        cts = [Value(out.type) for out in outputs]
        nodes = list(self.builder.nodes)
        refs = [self.builder.wrap(ct) for ct in cts]
        found = pull_back(self.builder, nodes, outputs, refs, wrt)
        return cts, [None if r is None else r.value for r in found]


def irregular(types: list[ArrayType], sizes: dict[str, int], seed: int) -> list:
    """Fixed data for cotangents and tangents."""
    rng = np.random.default_rng(seed)
    made = []
    for t in types:
        shape = tuple(evaluate_size(s, sizes) for s in t.shape)
        x = rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape)
        if t.kind == "c":
            x = x + 1j * rng.uniform(-1.0, 1.0, shape)
        made.append(np.asarray(x).astype(t.dtype))
    return made


def pairing(cts: list, values: list) -> float:
    """Re(sum(ct * value)): the pairing of JAX's and autograd's convention."""
    return float(
        sum(np.real(np.sum(c * v)) for c, v in zip(cts, values) if v is not None)
    )


def coarse(sample: Sample) -> bool:
    """Whether single precision takes part, so that differences are less exact."""
    return any(a.dtype in ("float16", "float32", "complex64") for a in sample.arrays)


def slope(f, points: list, directions: list, rough: bool) -> float:
    """Directional derivative by central differences of fourth order."""
    step = 2e-2 if rough else 4e-4

    def at(h: float) -> float:
        moved = [x + h * t for x, t in zip(points, directions)]
        return f([m.astype(x.dtype) for m, x in zip(moved, points)])

    return (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step)


def assert_close(got, expected, tolerance: float, rough: bool) -> None:
    tolerance = 2e-3 if rough else tolerance
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=0.1 * tolerance)


def smooth_inputs(params: list[Value]) -> list[Value]:
    return [v for v in params if v.type.differentiable]


def outputs_of(program: Program) -> list[Value]:
    """The outputs that have a derivative; skips the test if there is none."""
    outputs = [v for v in program.outputs if v.type.differentiable]
    if not outputs:
        pytest.skip("no output with a derivative")
    return outputs


def quiet(sample: Sample):
    """Samples at awkward points may warn, as NumPy does; others may not."""
    return np.errstate() if sample.smooth else np.errstate(all="ignore")


# ------------------------------------------------------------------------------ checks
@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_has_samples_and_a_docstring(op):
    assert op.samples, f"{op} has no samples"
    assert op.run.__doc__, f"{op} has no docstring"


@pytest.mark.parametrize("single", [False, True], ids=["double", "single"])
@each_sample
def test_inference_equals_the_run(op, sample, single, symbolic):
    arrays = arrays_of(sample, single)
    program = Program(op, sample, arrays, symbolic)
    with quiet(sample):
        results = program.run(program.outputs, arrays, program.params)
    for out, result in zip(program.outputs, results, strict=True):
        shape = tuple(evaluate_size(s, NAMED_SIZES) for s in out.type.shape)
        assert np.shape(result) == shape
        assert np.asarray(result).dtype == out.type.dtype
        if not symbolic:
            assert all(type(s) is int for s in out.type.shape)


@each_smooth_sample
def test_vjp_against_central_differences(op, sample):
    arrays = arrays_of(sample)
    program = Program(op, sample, arrays)
    outputs = outputs_of(program)
    forward = Program(op, sample, arrays)
    chosen = [i for i, v in enumerate(program.outputs) if v.type.differentiable]
    wrt = smooth_inputs(program.params)
    cts, found = program.pull(outputs, wrt)
    ct = irregular([v.type for v in cts], {}, 1)
    tangents = irregular([v.type for v in wrt], {}, 2)
    places = [program.params.index(v) for v in wrt]

    def value(points: list) -> float:
        args = list(arrays)
        for place, x in zip(places, points):
            args[place] = x
        results = forward.run(
            [forward.outputs[i] for i in chosen], args, forward.params
        )
        return pairing(ct, results)

    rough = coarse(sample)
    expected = slope(value, [arrays[p] for p in places], tangents, rough)
    reached = [v for v in found if v is not None]
    pulled = program.run(reached, [*arrays, *ct], [*program.params, *cts])
    for v, gradient in zip([w for w, g in zip(wrt, found) if g is not None], pulled):
        assert np.shape(gradient) == v.type.shape
        assert np.asarray(gradient).dtype == v.type.dtype
    live = [t for t, g in zip(tangents, found) if g is not None]
    assert_close(pairing(live, pulled), expected, 2e-7, rough)


@each_sample
def test_cotangents_have_the_type_of_their_primal(op, sample, symbolic):
    if not is_smooth(op, sample):
        pytest.skip("no derivative to test at this sample")
    arrays = arrays_of(sample, single=True)
    program = Program(op, sample, arrays, symbolic)
    outputs = outputs_of(program)
    wrt = smooth_inputs(program.params)
    cts, found = program.pull(outputs, wrt)
    ct = irregular([v.type for v in cts], NAMED_SIZES, 1)
    places = [program.params.index(v) for v in wrt]
    reached = [g for g in found if g is not None]
    pulled = iter(program.run(reached, [*arrays, *ct], [*program.params, *cts]))
    for place, v, g in zip(places, wrt, found):
        if g is not None:
            gradient = next(pulled)
            assert g.type.shape == v.type.shape
            assert g.type.dtype == v.type.dtype
            assert np.shape(gradient) == arrays[place].shape
            assert np.asarray(gradient).dtype == arrays[place].dtype


@each_smooth_sample
def test_rule_is_linear_in_the_cotangent(op, sample):
    arrays = arrays_of(sample)
    program = Program(op, sample, arrays)
    outputs = outputs_of(program)
    cts, found = program.pull(outputs, smooth_inputs(program.params))
    reached = [g for g in found if g is not None]
    a = irregular([v.type for v in cts], {}, 3)
    b = irregular([v.type for v in cts], {}, 4)

    def pulled(ct: list) -> list:
        return program.run(reached, [*arrays, *ct], [*program.params, *cts])

    both = pulled([2.0 * x + y for x, y in zip(a, b)])
    for x, y, z in zip(pulled(a), pulled(b), both, strict=True):
        assert_close(z, 2.0 * x + y, 1e-11, coarse(sample))


@each_smooth_sample
def test_each_input_alone(op, sample):
    arrays = arrays_of(sample)
    program = Program(op, sample, arrays)
    wrt = smooth_inputs(program.params)
    if len(wrt) < 2:
        pytest.skip("one input")
    outputs = outputs_of(program)
    forward = list(program.builder.nodes)
    cts, found = program.pull(outputs, wrt)
    refs = [program.builder.wrap(ct) for ct in cts]
    ct = irregular([v.type for v in cts], {}, 5)
    for v, g in zip(wrt, found):
        (alone,) = pull_back(program.builder, forward, outputs, refs, [v])
        if g is None:
            assert alone is None
            continue
        one, other = program.run(
            [g, alone.value], [*arrays, *ct], [*program.params, *cts]
        )
        np.testing.assert_array_equal(one, other)


@each_smooth_sample
def test_second_order_against_central_differences(op, sample):
    arrays = arrays_of(sample)
    program = Program(op, sample, arrays)
    outputs = outputs_of(program)
    cts, found = program.pull(outputs, smooth_inputs(program.params))
    reached = [g for g in found if g is not None]
    if not reached:
        pytest.skip("zero derivative")
    first_order = list(program.builder.nodes)
    wrt = [*smooth_inputs(program.params), *cts]
    seeds, second = program.pull(reached, wrt)
    ct = irregular([v.type for v in cts], {}, 6)
    seed = irregular([v.type for v in seeds], {}, 7)
    tangents = irregular([v.type for v in wrt], {}, 8)
    params = [*program.params, *cts]
    data = [*arrays, *ct]
    places = [params.index(v) for v in wrt]

    def value(points: list) -> float:
        args = list(data)
        for place, x in zip(places, points):
            args[place] = x
        graph = Graph("g", params, first_order, reached)
        return pairing(seed, evaluate(graph, args))

    rough = coarse(sample)
    expected = slope(value, [data[p] for p in places], tangents, rough)
    live = [(t, g) for t, g in zip(tangents, second) if g is not None]
    pulled = program.run([g for _, g in live], [*data, *seed], [*params, *seeds])
    got = pairing([t for t, _ in live], pulled)
    assert_close(got, expected, 1e-6, rough)
