"""Every op on every sample: eager mode against the same rules on the graph.

So a rule, or a helper that it calls, that does not run on plain arrays is found, and a
value that a rule reads without its being saved; the second order goes through
`create_graph`.
"""

import numpy as np
import pytest

import tracegrad.eager as t
from tracegrad.autodiff.reverse import pull_back
from tracegrad.eager.engine import entry_of
from tracegrad.eager.runtime import general
from tracegrad.ir.graph import Graph, Value
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import OPS
from tracegrad.ops.evaluate import evaluate
from tracegrad.ops.record import Builder

CASES = [
    pytest.param(op, sample, id=f"{op.name}-{number}")
    for op in OPS.values()
    if op.params and op.differentiable and entry_of(op).rules is op.rules
    for number, sample in enumerate(op.samples)
    if any(np.dtype(a.dtype).kind in "fc" for a in sample.arrays)
]


def irregular(like, seed):
    """Fixed numbers in the shape and dtype of an array."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.5, 1.5, np.shape(like)) * rng.choice([-1.0, 1.0], np.shape(like))
    if np.asarray(like).dtype.kind == "c":
        x = x + 1j * rng.uniform(-1.0, 1.0, np.shape(like))
    return np.asarray(x).astype(np.asarray(like).dtype)


def by_graph(op, arrays, attrs):
    """Outputs, and the cotangents of the floating inputs, from the IR."""
    builder = Builder()
    params = [Value(ArrayType(x.shape, x.dtype)) for x in arrays]
    out = builder.record(op, tuple(map(builder.wrap, params)), attrs)
    outs = [r.value for r in (out if type(out) is tuple else (out,))]
    values = evaluate(Graph("f", params, list(builder.nodes), outs), arrays)
    chosen = [v for v in outs if v.type.differentiable]
    cts = [Value(v.type) for v in chosen]
    data = [
        irregular(x, k) for k, (v, x) in enumerate(zip(outs, values)) if v in chosen
    ]
    wrt = [v for v in params if v.type.differentiable]
    nodes = list(builder.nodes)
    found = pull_back(builder, nodes, chosen, [builder.wrap(c) for c in cts], wrt)
    reached = [r.value for r in found if r is not None]
    graph = Graph("g", [*params, *cts], builder.nodes, reached)
    pulled = iter(evaluate(graph, [*arrays, *data]))
    return values, data, [None if r is None else next(pulled) for r in found]


def by_tensors(op, arrays, attrs):
    """The same op on tensors: leaves, and a tuple of outputs."""
    leaves = [t.from_numpy(np.array(x)) for x in arrays]
    for x in leaves:
        if x.is_floating_point() or x.is_complex():
            x.requires_grad_()
    entry = entry_of(op).prepare()
    uses_general = entry.elementwise is not None or op.variadic
    if uses_general:
        out = general(entry, tuple(leaves), {**op.defaults, **attrs})
    else:
        out = entry.eager(*leaves, **attrs)
    if isinstance(out, int):
        pytest.skip("a size")
    return leaves, out if type(out) is tuple else (out,)


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_gradients(op, sample):
    arrays, attrs = sample.make(), dict(sample.attrs)
    with np.errstate(all="ignore"):
        try:
            values, cts, wanted = by_graph(op, arrays, attrs)
        except np.linalg.LinAlgError:
            pytest.skip("no derivative at this sample")
        leaves, outs = by_tensors(op, arrays, attrs)
        same_dtypes = all(
            o.numpy(force=True).dtype == np.asarray(v).dtype
            for o, v in zip(outs, values)
        )
        if not same_dtypes:
            pytest.skip("PyTorch promotes otherwise")
        for o, v in zip(outs, values):
            np.testing.assert_allclose(o.numpy(force=True), v, rtol=1e-12, atol=1e-12)
        roots = [o for o in outs if o.requires_grad]
        if not roots:
            assert all(g is None for g in wanted)
            return
        grads = [t.from_numpy(np.asarray(np.conj(c))) for c in cts]
        wrt = [x for x in leaves if x.requires_grad]
        found = t.autograd.grad(
            roots, wrt, grads[: len(roots)], retain_graph=True, allow_unused=True
        )
        again = t.autograd.grad(
            roots, wrt, grads[: len(roots)], create_graph=True, allow_unused=True
        )
    single = any(a.dtype in ("float32", "complex64") for a in sample.arrays)
    rtol = 1e-5 if single else 1e-10
    for g, h, w, leaf in zip(found, again, wanted, wrt):
        expected = np.zeros(()) if w is None else np.conj(w)
        for made in (g, h):
            data = np.zeros(()) if made is None else made.numpy(force=True)
            np.testing.assert_allclose(
                data, np.broadcast_to(expected, data.shape), rtol, rtol / 100
            )
            if made is not None and w is not None:
                assert data.shape == np.shape(w)
                assert data.dtype == leaf.numpy(force=True).dtype


ONE_EACH = [case for case in CASES if case.id.endswith("-0")]


def test_tangents_are_checked_of_enough_ops():
    assert len(ONE_EACH) > 200


@pytest.mark.parametrize(("op", "sample"), ONE_EACH)
def test_tangents(op, sample):
    """The products of tangents with cotangents are the same from both ends."""
    arrays, attrs = sample.make(), dict(sample.attrs)
    fw = t.autograd.forward_ad
    with np.errstate(all="ignore"):
        leaves, outs = by_tensors(op, arrays, attrs)
        roots = [k for k, o in enumerate(outs) if o.requires_grad]
        wrt = [x for x in leaves if x.requires_grad]
        cts = [t.from_numpy(irregular(outs[k].numpy(force=True), k)) for k in roots]
        given = [outs[k] for k in roots]
        grads = t.autograd.grad(given, wrt, cts, allow_unused=True)
        steps = [t.from_numpy(irregular(x.detach(), 7 + k)) for k, x in enumerate(wrt)]
        pairs = zip(grads, steps)
        wanted = sum(inner(g, s) for g, s in pairs if g is not None)
        with fw.dual_level():
            tangents = iter(steps)
            dual = [
                fw.make_dual(x.detach(), next(tangents)) if x.requires_grad else x
                for x in leaves
            ]
            entry = entry_of(op)
            made = general(entry, tuple(dual), {**op.defaults, **attrs})
            made = made if type(made) is tuple else (made,)
            found = [fw.unpack_dual(made[k]).tangent for k in roots]
    assert all(x is None or not x.requires_grad for x in found)
    total = sum(inner(ct, x) for ct, x in zip(cts, found) if x is not None)
    sizes = sum(
        float((abs(ct) * abs(x)).sum()) for ct, x in zip(cts, found) if x is not None
    )
    kinds = {x.detach().numpy().dtype.name for x in (*leaves, *outs)}
    single = bool(kinds & {"float16", "float32", "complex64"})
    assert total == pytest.approx(wanted, abs=(1e-4 if single else 1e-9) * (1 + sizes))


def inner(a, b):
    """The real inner product, in which gradients are the adjoint of tangents."""
    return float((a.conj() * b).sum().real if a.is_complex() else (a * b).sum())
