"""Every op on every one of its samples, as emitted source.

The emitted call and its pullback give what the nodes give, on both targets; and the
printed source is a fixed point of parse and print.
"""

from __future__ import annotations

import ast
import inspect

import numpy as np
import pytest
from ops.matrix import (
    Program,
    arrays_of,
    coarse,
    each_sample,
    irregular,
    is_smooth,
    quiet,
    sizes_of,
    smooth_inputs,
)

from tracegrad.codegen.printer import to_source
from tracegrad.codegen.source import Source, emit
from tracegrad.ir.graph import Graph
from tracegrad.ir.routine import Parameter, Routine
from tracegrad.ir.tree import Branch, Leaf
from tracegrad.ops.define import Op
from tracegrad.ops.evaluate import evaluate
from tracegrad.ops.sample import NAMED_SIZES, Sample
from tracegrad.passes.pipeline import optimise


def source_of(graph: Graph, backend: str, optimize: str) -> Source:
    """The source of a function of the graph's parameters that returns a tuple."""
    graph = optimise(graph, optimize)
    parameters = tuple(
        Parameter(f"p{i}", inspect.Parameter.POSITIONAL_OR_KEYWORD, Leaf(v))
        for i, v in enumerate(graph.params)
    )
    parts = tuple(map(Leaf, graph.results))
    result = Branch("tuple", tuple, tuple(range(len(parts))), parts, tuple)
    routine = Routine("f", "f", None, parameters, graph, result, "Test.")
    return emit([routine], backend=backend, optimize=optimize)


def joint_program(op: Op, sample: Sample, symbolic: bool) -> tuple[Graph, list]:
    """The call with, where it is smooth, its pullback; and arguments for it."""
    arrays = arrays_of(sample)
    program = Program(op, sample, arrays, symbolic)
    outputs = [v for v in program.outputs if v.type.differentiable]
    params, results = program.params, list(program.outputs)
    if is_smooth(op, sample) and outputs:
        cts, found = program.pull(outputs, smooth_inputs(params))
        arrays = arrays + irregular([v.type for v in cts], NAMED_SIZES, 1)
        params = [*params, *cts]
        results += [g for g in found if g is not None]
    graph = Graph("f", params, program.builder.nodes, results, sizes_of(program.params))
    return graph, arrays


def copies(arrays: list, array) -> list:
    """Fresh arrays, which the emitted function may write into; numbers as they are."""
    return [array(x) if isinstance(x, np.ndarray) else x for x in arrays]


def check_emitted(op, sample, symbolic, backend, optimize, array=np.array) -> None:
    """Emitted source gives what the nodes give, and prints as it parses."""
    graph, arrays = joint_program(op, sample, symbolic)
    source = source_of(graph, backend, optimize)
    printed = to_source(ast.parse(source.text))
    assert to_source(ast.parse(printed)) == printed
    function = source.load()["f"]
    with quiet(sample):
        expected = evaluate(graph, copies(arrays, np.array))
        got = function(*copies(arrays, array))
    exact = 1e-12 if backend == "numpy" else 1e-8
    single = coarse(sample) or any(np.asarray(x).dtype == np.float32 for x in got)
    tolerance = 1e-4 if single else exact
    for have, want in zip(got, expected, strict=True):
        have = np.asarray(have)
        assert have.shape == np.shape(want)
        want_dtype = np.asarray(want).dtype
        if backend == "numpy" or any(np.asarray(x).dtype.kind in "fc" for x in arrays):
            assert have.dtype == want_dtype
        else:  # JAX takes small integers to single precision
            assert have.dtype.kind == want_dtype.kind
        np.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("optimize", ["readable", "fast"])
@each_sample
def test_emitted_numpy(op, sample, symbolic, optimize):
    check_emitted(op, sample, symbolic, "numpy", optimize)


@each_sample
def test_emitted_jax(op, sample, symbolic):
    jax = pytest.importorskip("jax")
    if "jax" in sample.missing:
        pytest.skip("JAX cannot do this call")
    with jax.enable_x64(True):
        check_emitted(op, sample, symbolic, "jax", "readable", jax.numpy.asarray)
