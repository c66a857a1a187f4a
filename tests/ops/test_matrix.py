"""Every op on every one of its samples, by the same checks.

An op whose rule is wrong fails here without a test of its own.  The checks go the way
of the product: record, pull back, run the nodes.
"""

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
    quiet,
    slope,
    smooth_inputs,
)

from tracegrad.autodiff.reverse import pull_back
from tracegrad.ir.dims import evaluate as evaluate_size
from tracegrad.ir.graph import Graph
from tracegrad.ops.define import OPS
from tracegrad.ops.evaluate import evaluate
from tracegrad.ops.sample import NAMED_SIZES


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
    tangents = directions(sample, program.params, wrt, 2)
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
    tangents = directions(sample, program.params, wrt, 8)
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
