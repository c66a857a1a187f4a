"""Forward mode of every op on every sample, against reverse mode and differences."""

from __future__ import annotations

import numpy as np
import pytest
from ops.matrix import (
    Program,
    arrays_of,
    assert_close,
    coarse,
    directions,
    each_sample,
    each_smooth_sample,
    irregular,
    is_smooth,
    outputs_of,
    pairing,
    slope,
    smooth_inputs,
)

from tracegrad.autodiff.forward import NonlinearRule, push_forward
from tracegrad.ir.graph import Value
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import Op
from tracegrad.ops.infer import like_first
from tracegrad.ops.record import Builder
from tracegrad.ops.sample import NAMED_SIZES


def pushed(program: Program, outputs: list[Value], wrt: list[Value]) -> tuple:
    """New tangent parameters, and the tangents of the outputs."""
    tangents = [Value(v.type) for v in wrt]
    nodes, program.builder.nodes = program.builder.nodes, []
    refs = list(map(program.builder.wrap, tangents))
    found = push_forward(program.builder, nodes, wrt, refs)
    return tangents, [found.get(v) for v in outputs]


@each_smooth_sample
def test_jvp_is_the_transpose_of_vjp(op, sample):
    arrays = arrays_of(sample)
    program = Program(op, sample, arrays)
    outputs, wrt = outputs_of(program), smooth_inputs(program.params)
    tangents, made = pushed(program, outputs, wrt)
    t = irregular([v.type for v in wrt], {}, 1)
    live = [m.value for m in made if m is not None]
    got = program.run(live, [*arrays, *t], [*program.params, *tangents])

    other = Program(op, sample, arrays)
    pulled_of = smooth_inputs(other.params)
    cts, found = other.pull(outputs_of(other), pulled_of)
    ct = irregular([v.type for v in cts], {}, 2)
    reached = [g for g in found if g is not None]
    pulled = other.run(reached, [*arrays, *ct], [*other.params, *cts])
    paired = [x for x, g in zip(t, found, strict=True) if g is not None]
    seen = [c for c, m in zip(ct, made, strict=True) if m is not None]
    forward, backward = pairing(seen, got), pairing(paired, pulled)
    assert_close(forward, backward, 1e-10, coarse(sample))


@each_smooth_sample
def test_jvp_against_central_differences(op, sample):
    arrays = arrays_of(sample)
    program = Program(op, sample, arrays)
    outputs, wrt = outputs_of(program), smooth_inputs(program.params)
    tangents, made = pushed(program, outputs, wrt)
    t = directions(sample, program.params, wrt, 2)
    live = [m.value for m in made if m is not None]
    got = program.run(live, [*arrays, *t], [*program.params, *tangents])
    for v, x in zip([o for o, m in zip(outputs, made) if m is not None], got):
        assert np.shape(x) == v.type.shape
        assert np.asarray(x).dtype == v.type.dtype or v.type.weak
    places = [program.params.index(v) for v in wrt]
    ct = irregular([v.type for v in outputs], {}, 1)
    forward = Program(op, sample, arrays)

    def value(points: list) -> float:
        args = list(arrays)
        for place, x in zip(places, points):
            args[place] = x
        results = forward.run(outputs_of(forward), args, forward.params)
        return pairing(ct, results)

    rough = coarse(sample)
    expected = slope(value, [arrays[p] for p in places], t, rough)
    seen = [c for c, m in zip(ct, made, strict=True) if m is not None]
    assert_close(pairing(seen, got), expected, 2e-7, rough)


@each_sample
def test_tangents_have_the_type_of_their_primal(op, sample, symbolic):
    if not is_smooth(op, sample):
        pytest.skip("no derivative to test at this sample")
    arrays = arrays_of(sample, single=True)
    program = Program(op, sample, arrays, symbolic)
    outputs, wrt = outputs_of(program), smooth_inputs(program.params)
    tangents, made = pushed(program, outputs, wrt)
    t = irregular([v.type for v in wrt], NAMED_SIZES, 1)
    live = [(o, m.value) for o, m in zip(outputs, made) if m is not None]
    params = [*program.params, *tangents]
    got = program.run([m for _, m in live], [*arrays, *t], params)
    for (out, m), x in zip(live, got, strict=True):
        assert m.type.shape == out.type.shape
        if not out.type.weak:
            assert np.asarray(x).dtype == m.type.dtype == out.type.dtype


def test_a_rule_that_is_not_linear_is_found():
    def body(x):
        """Wrong."""
        return x

    wrong = Op(body, like_first)
    wrong.vjp(lambda ct, y, x: ct * ct * x)
    builder = Builder()
    x, t = (
        Value(ArrayType((3,), np.dtype(float))),
        Value(ArrayType((3,), np.dtype(float))),
    )
    builder.record(wrong, (builder.wrap(x),), {})
    nodes, builder.nodes = builder.nodes, []
    with pytest.raises(NonlinearRule, match="still reads the cotangent"):
        push_forward(builder, nodes, [x], [builder.wrap(t)])
