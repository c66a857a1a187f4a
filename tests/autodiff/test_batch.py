"""Every op over a batch, against the op on each example."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from ops.matrix import CASES, arrays_of, quiet

from tracegrad.autodiff.batch import batch
from tracegrad.errors import UnsupportedError
from tracegrad.ir.graph import Graph, Value
from tracegrad.ir.types import ArrayType
from tracegrad.ops.evaluate import evaluate
from tracegrad.ops.record import Builder

SIZE = 3


def cases():
    for name, op, sample in CASES:
        count = len(sample.arrays)
        for flags in itertools.product([False, True], repeat=count):
            if any(flags):
                text = "".join("b" if f else "-" for f in flags)
                yield pytest.param(op, sample, flags, id=f"{name}-{text}")


def stacked(x: np.ndarray, seed: int) -> np.ndarray:
    """A batch of variations of `x`; positions and masks are shuffled or kept."""
    if x.dtype.kind == "b":
        return np.stack([x] * SIZE)
    if x.dtype.kind in "iu":
        return np.stack([x, x[::-1] if x.ndim else x, x])
    rng = np.random.default_rng(seed)
    near = 1.0 + 0.01 * rng.uniform(-1.0, 1.0, (SIZE, *x.shape))
    return (near * x).astype(x.dtype)


@pytest.mark.parametrize(("op", "sample", "flags"), list(cases()))
def test_batch(op, sample, flags):
    arrays = arrays_of(sample)
    examples = [
        [x] * SIZE if not f else list(stacked(x, k))
        for k, (x, f) in enumerate(zip(arrays, flags, strict=True))
    ]
    with quiet(sample), np.errstate(all="ignore"):
        try:
            wanted = [op.run(*e, **sample.attrs) for e in zip(*examples, strict=True)]
        except (ValueError, np.linalg.LinAlgError, IndexError):
            pytest.skip("the variations of the sample are outside of the domain")
    if sample.attrs.get("count") is not None:
        pytest.skip("how many results there are depends on the data")
    builder = Builder()
    params = [Value(ArrayType(x.shape, x.dtype)) for x in arrays]
    out = builder.record(op, tuple(map(builder.wrap, params)), dict(sample.attrs))
    outs = out if type(out) is tuple else (out,)
    whole = [
        Value(ArrayType((SIZE, *v.type.shape), v.type.dtype)) if f else v
        for v, f in zip(params, flags, strict=True)
    ]
    known = {v: builder.wrap(w) for v, w, f in zip(params, whole, flags) if f}
    nodes, builder.nodes = builder.nodes, []
    try:
        made = batch(builder, nodes, known, SIZE)
    except UnsupportedError as error:
        pytest.skip(str(error))
    results = [made[o.value].value if o.value in made else o.value for o in outs]
    data = [np.stack(e) if f else e[0] for e, f in zip(examples, flags, strict=True)]
    graph = Graph("f", whole, builder.nodes, results)
    with quiet(sample), np.errstate(all="ignore"):
        got = evaluate(graph, data)
    several = isinstance(wanted[0], tuple | list)
    columns = zip(*[w if several else (w,) for w in wanted], strict=True)
    for o, have, column in zip(outs, got, columns, strict=True):
        if o.value not in made:
            np.testing.assert_allclose(have, column[0], rtol=1e-12)
            continue
        want = np.stack(column)
        assert made[o.value].type.shape == np.shape(have) == want.shape
        assert np.asarray(have).dtype == want.dtype or o.value.type.weak
        single = want.dtype.char in "efF"
        tolerance = 1e-5 if single else 1e-9
        np.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance)
