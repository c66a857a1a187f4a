"""What the generic op tests share: op x sample, and the way of the product.

A `Program` is a call of an op, recorded; it can be pulled back, run and emitted.
"""

from __future__ import annotations

import numpy as np
import pytest

import tracegrad.ops  # noqa: F401 - defines every op
from tracegrad.autodiff.reverse import pull_back
from tracegrad.ir.dims import Dim
from tracegrad.ir.dims import evaluate as evaluate_size
from tracegrad.ir.graph import Graph, Value
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import OPS, Op
from tracegrad.ops.evaluate import evaluate
from tracegrad.ops.record import Builder
from tracegrad.ops.sample import Sample

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
        x = np.asarray(x).astype(t.dtype)
        made.append(x.item() if t.weak else x)
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
        moved = [np.asarray(x + h * t) for x, t in zip(points, directions)]
        return f([m.astype(np.asarray(x).dtype) for m, x in zip(moved, points)])

    return (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step)


def assert_close(got, expected, tolerance: float, rough: bool) -> None:
    tolerance = 2e-3 if rough else tolerance
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=0.1 * tolerance)


def directions(
    sample: Sample, params: list[Value], wrt: list[Value], seed: int
) -> list:
    """Tangents: a symmetric parameter moves among symmetric ones only."""
    made = irregular([v.type for v in wrt], {}, seed)
    for i, v in enumerate(wrt):
        if v in params:
            made[i] = sample.arrays[params.index(v)].direction(made[i])
    return made


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


def gradients(function, *arrays, weights=None) -> list[np.ndarray | None]:
    """Gradients of `sum(weights * function(*arrays))`; None where it is zero."""
    builder = Builder()
    params = [Value(ArrayType(np.shape(x), np.asarray(x).dtype)) for x in arrays]
    out = function(*map(builder.wrap, params))
    nodes = list(builder.nodes)
    ct = Value(out.type)
    found = pull_back(builder, nodes, [out.value], [builder.wrap(ct)], params)
    results = [g.value for g in found if g is not None]
    graph = Graph("g", [*params, ct], builder.nodes, results)
    ones = np.ones(out.shape, out.dtype) if weights is None else np.asarray(weights)
    values = iter(evaluate(graph, [*arrays, ones]))
    return [None if g is None else np.asarray(next(values)) for g in found]
