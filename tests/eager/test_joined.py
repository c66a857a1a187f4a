"""Functions of `tg.compile` and the like, called with eager tensors."""

import importlib

import numpy as np
import pytest

import tracegrad as tg
import tracegrad.eager as ours

try:
    torch = importlib.import_module("torch")
except ImportError:
    torch = None
needs_torch = pytest.mark.skipif(torch is None, reason="compares with PyTorch")
# What PyTorch itself uses in its forward mode.
scripts = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")


@tg.compile
def network(params, x, *, scale=1.0):
    hidden = np.tanh(x @ params["w"] + params["b"])
    return {"hidden": hidden, "total": scale * np.sum(hidden**2)}


def network_torch(t, params, x, scale=1.0):
    hidden = t.tanh(x @ params["w"] + params["b"])
    return {"hidden": hidden, "total": scale * t.sum(hidden**2)}


def tensors(t):
    r = np.random.default_rng(0)
    make = lambda *s: t.tensor(r.normal(size=s), requires_grad=True)
    return {"w": make(3, 2), "b": make(2)}, make(4, 3)


def step(t, call, scale):
    params, x = tensors(t)
    made = call(params, x * 2, scale)
    loss = made["total"] + (made["hidden"].sin() * x.sum()).sum()
    loss.backward(retain_graph=True)
    first = [loss.item(), *[v.grad.numpy().copy() for v in (*params.values(), x)]]
    loss.backward()
    return first, [v.grad.numpy() for v in (*params.values(), x)]


@needs_torch
def test_values_and_gradients():
    for scale in (1.0, 0.5):
        call = lambda params, x, s: network(params, x, scale=s)
        got = step(ours, call, scale)
        theirs = lambda params, x, s: network_torch(torch, params, x, s)
        wanted = step(torch, theirs, scale)
        for g, w in zip([*got[0], *got[1]], [*wanted[0], *wanted[1]]):
            np.testing.assert_allclose(g, w, rtol=1e-12)


def test_the_node_is_the_function():
    params, x = tensors(ours)
    made = network(params, x)
    assert made["total"].grad_fn.name() == "networkBackward"
    edges = made["total"].grad_fn.next_functions
    assert {f.variable is v for (f, _), v in zip(edges, (params["b"], params["w"], x))}
    assert made["hidden"].grad_fn is made["total"].grad_fn


@needs_torch
def test_second_order():
    def second(t, call):
        params, x = tensors(t)
        loss = call(params, x)["total"]
        (g,) = t.autograd.grad(loss, params["w"], create_graph=True)
        (h,) = t.autograd.grad((g**2).sum() * x.sum(), x, create_graph=True)
        (k,) = t.autograd.grad(h.sum(), params["b"])
        return [a.detach().numpy() for a in (g, h, k)]

    got = second(ours, network)
    wanted = second(torch, lambda params, x: network_torch(torch, params, x))
    for g, w in zip(got, wanted):
        np.testing.assert_allclose(g, w, rtol=1e-10)


def test_only_what_has_a_history_is_differentiated():
    params, x = tensors(ours)
    made = network(params, x.detach())
    assert len(made["total"].grad_fn.next_functions) == 2
    with ours.no_grad():
        assert not network(params, x)["total"].requires_grad
    plain = network({"w": ours.ones(3, 2), "b": ours.zeros(2)}, ours.ones(1, 3))
    assert isinstance(plain["hidden"], ours.Tensor)
    assert not plain["hidden"].requires_grad


@needs_torch
def test_arrays_and_labels_beside_tensors():
    @tg.compile
    def pick(w, x, labels, kind):
        scores = getattr(np, kind)(x @ w)
        return -np.mean(scores[np.arange(len(labels)), labels])

    w = ours.ones(3, 2, requires_grad=True)
    x, labels = np.ones((4, 3), np.float32), ours.tensor([0, 1, 1, 0])
    for kind in ("tanh", "sin"):
        w.grad = None
        pick(w, x, labels, kind).backward()
        v = torch.ones(3, 2, requires_grad=True)
        scores = getattr(torch, kind)(torch.ones(4, 3) @ v)
        (-scores[torch.arange(4), torch.tensor([0, 1, 1, 0])].mean()).backward()
        np.testing.assert_allclose(w.grad.numpy(), v.grad.numpy(), rtol=1e-5)


def test_gradient_functions_join_too():
    slope = tg.grad(lambda x: np.sum(np.sin(x)))
    x = ours.tensor([0.3, 0.7], dtype=ours.float64, requires_grad=True)
    y = slope(x)
    np.testing.assert_allclose(y.detach().numpy(), np.cos([0.3, 0.7]))
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), -np.sin([0.3, 0.7]))


def test_changed_in_place_and_freed():
    params, x = tensors(ours)
    made = network(params, x * 1.0)["total"]
    made.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second"):
        made.backward()
    y = x * 1.0
    made = network(params, y)
    made["hidden"].zero_()  # a copy
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        made["total"].backward()


def test_hooks_and_tensor_hooks():
    params, x = tensors(ours)
    made = network(params, x)
    seen = []
    made["hidden"].register_hook(lambda g: seen.append(g.shape))
    made["total"].grad_fn.register_hook(lambda gi, go: seen.append(len(gi)))
    (made["hidden"].sum() + made["total"]).backward()
    assert seen == [(4, 2), 3]


def test_one_program_for_many_calls():
    params, x = tensors(ours)
    for k in range(5):
        network(params, x * (1.0 + k), scale=0.5 * k)["total"].backward()
    calls = network.__dict__["_flat_calls"].values()
    assert all(len(c.vjp.specializations()) <= 2 for c in calls)


def test_plain_calls_are_as_before():
    made = network({"w": np.ones((3, 2)), "b": np.zeros(2)}, np.ones((1, 3)))
    assert isinstance(made["hidden"], np.ndarray)


def tangents(t, call):
    """Values and tangents, and the gradient of a tangent."""
    params, x = tensors(t)
    forward_ad = importlib.import_module(f"{t.__name__}.autograd.forward_ad")
    direction = t.arange(12.0, dtype=t.float64).reshape(4, 3) / 7
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, direction)
        made = call(params, dual, 0.5)
        both = [forward_ad.unpack_dual(made[k]) for k in ("hidden", "total")]
        both += [forward_ad.unpack_dual(made["total"].sin() * dual.sum())]
        (slope,) = t.autograd.grad(both[1].tangent, params["w"], retain_graph=True)
        inner = forward_ad.make_dual(params["b"].detach(), t.ones(2, dtype=t.float64))
        plain = {"w": params["w"].detach(), "b": inner}
        last = forward_ad.unpack_dual(call(plain, dual, 2.0)["total"]).tangent
        with t.no_grad():
            silent = forward_ad.unpack_dual(call(params, dual, 2.0)["total"]).tangent
    found = [*[p for pair in both for p in pair], slope, last, silent]
    return [v.detach().numpy() for v in found] + [last.requires_grad]


@needs_torch
@scripts
def test_forward_mode():
    got = tangents(ours, lambda params, x, s: network(params, x, scale=s))
    wanted = tangents(torch, lambda params, x, s: network_torch(torch, params, x, s))
    for g, w in zip(got, wanted, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-10)


@needs_torch
@scripts
@pytest.mark.parametrize("strategy", ["forward-mode", "reverse-mode"])
def test_jacobian_of_a_joined_function(strategy):
    @tg.compile
    def several(a, b):
        return np.sin(a) * b, np.outer(a, b[:2])

    def theirs(a, b):
        return a.sin() * b, torch.outer(a, b[:2])

    made = []
    for t, call in ((ours, several), (torch, theirs)):
        args = (t.tensor([0.3, 0.7, 1.1]), t.tensor([2.0, 3.0, -1.0]))
        jacobian = importlib.import_module(f"{t.__name__}.autograd.functional").jacobian
        vectorize = strategy == "forward-mode"
        found = jacobian(call, args, strategy=strategy, vectorize=vectorize)
        made.append([part.numpy() for row in found for part in row])
    for g, w in zip(*made, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-6, atol=1e-7)


def test_forward_mode_of_complex_numbers():
    forward_ad = ours.autograd.forward_ad
    z, t = ours.tensor([0.3 + 1j, 0.2 - 2j]), ours.tensor([1j, 2.0 - 1j])
    functions = (lambda z: z * z * (1 + 2j), lambda z: z.conj() * 1j)
    for f in functions:
        found = []
        for call in (tg.compile(f), f):
            with forward_ad.dual_level():
                made = forward_ad.unpack_dual(call(forward_ad.make_dual(z, t)))
            found.append(made.tangent.numpy())
        np.testing.assert_allclose(*found, rtol=1e-5)


@pytest.mark.parametrize("kind", ["array", "index", "keyword", "history"])
def test_what_is_read_must_not_change(kind):
    @tg.compile
    def pick(w, d, i, *, scale):
        return np.sum(w * d * scale) + np.sum(w[i] ** 2)

    w = ours.tensor([1.0, 2.0], requires_grad=True)
    d, i, scale = ours.tensor([3.0, 4.0]), ours.tensor([0, 0]), ours.tensor(2.0)
    v = w * 1
    y = pick(v, d, i, scale=scale)
    y.backward(retain_graph=True)
    changed = {"array": d, "index": i, "keyword": scale, "history": v}[kind]
    with ours.no_grad():
        changed.mul_(10)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
