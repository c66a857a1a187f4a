"""`backward(compiled=True)`: the same results, generated code from the second step."""

import gc
import random
import warnings

import numpy as np
import pytest
from eager.programs import Machine, draw, new, run

import tracegrad.eager as ours
from tracegrad.eager import backward as module
from tracegrad.eager import cached


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(cached, "_plans", {})
    monkeypatch.setattr(cached, "_seen", {})


class Count:
    """How often backward ran by generated code, and how often in the loop."""

    def __init__(self, monkeypatch):
        self.generated = self.loop = 0
        original, loop = module.run_compiled, module._go

        def run_compiled(*args):
            done = original(*args)
            self.generated += done
            return done

        def go(*args):
            self.loop += 1
            return loop(*args)

        monkeypatch.setattr(module, "run_compiled", run_compiled)
        monkeypatch.setattr(module, "_go", go)


@pytest.fixture
def count(monkeypatch):
    return Count(monkeypatch)


def network():
    r = np.random.default_rng(0)
    shapes = [(3, 5), (5,), (5, 2), (2,)]
    return [ours.tensor(r.normal(size=s), requires_grad=True) for s in shapes]


def loss_of(weights, x, y):
    w1, b1, w2, b2 = weights
    hidden = ours.relu(x @ w1 + b1)
    scores = hidden @ w2 + b2
    return ours.nn.functional.cross_entropy(scores, y) + 0.01 * (w1**2).sum()


def train(compiled, steps=5):
    weights, r = network(), np.random.default_rng(1)
    for k in range(steps):
        x = ours.from_numpy(r.normal(size=(7, 3)))
        y = ours.from_numpy(r.integers(0, 2, size=7))
        loss = loss_of(weights, x, y) * (1.0 + 0.1 * k)
        loss.backward(compiled=compiled)
        with ours.no_grad():
            for w in weights:
                w -= 0.1 * w.grad
                if k % 2:
                    w.grad = None
    return [w.detach().numpy() for w in weights]


def test_training_runs_generated_code_from_the_second_step(count):
    made = train(True)
    assert (count.loop, count.generated) == (1, 4)
    for a, b in zip(made, train(False)):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_switch(count):
    x = ours.ones(3, requires_grad=True)
    assert not ours.autograd.is_compiled_backward()
    with ours.autograd.set_compiled_backward(True):
        for _ in range(3):
            (x * x).sum().backward()
        (x * x).sum().backward(compiled=False)
    (x * x).sum().backward()
    assert (count.loop, count.generated) == (3, 2)
    assert x.grad.tolist() == [10.0, 10.0, 10.0]
    ours.autograd.set_compiled_backward(True)
    assert ours.autograd.is_compiled_backward()
    ours.autograd.set_compiled_backward(False)


def test_numbers_that_rules_depend_on(count):
    x = ours.tensor([2.0, 3.0], requires_grad=True)
    for k, p in enumerate([2.0, 3.0, 2.0, 3.0, 0.5, 0.5]):
        x.grad = None
        (x**p * (k + 1.5)).sum().backward(compiled=True)
        wanted = (k + 1.5) * p * np.array([2.0, 3.0]) ** (p - 1)
        np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-6)
    assert (count.loop, count.generated) == (3, 3)


def test_a_number_in_the_place_of_an_array(count):
    x = ours.tensor([2.0, 3.0], requires_grad=True)
    c = ours.tensor([5.0, 7.0])
    for other in (3.0, c, 4.0, c):
        x.grad = None
        (x * other).backward(ours.ones(2), compiled=True)
        np.testing.assert_allclose(x.grad.numpy(), np.ones(2) * np.asarray(other))


def test_cotangents_of_other_shapes(count):
    x = ours.ones(3, requires_grad=True)
    for shape in ((3,), (2, 3), (3,), (2, 3)):
        y = (x * 2).expand(shape)
        y.backward(ours.ones(shape), compiled=True)
    assert x.grad.tolist() == [12.0] * 3
    assert (count.loop, count.generated) == (2, 2)


def test_retained_and_freed_graphs():
    x = ours.ones(3, requires_grad=True)
    for _ in range(2):
        y = (x * x).sum()
        y.backward(retain_graph=True, compiled=True)
        y.backward(compiled=True)
        with pytest.raises(RuntimeError, match="backward through the graph a second"):
            y.backward(compiled=True)
    assert x.grad.tolist() == [8.0] * 3


def test_changed_in_place():
    for _ in range(2):
        x = ours.ones(3, requires_grad=True)
        y = x * 1.0
        z = (y * y).sum()
        z.backward(retain_graph=True, compiled=True)
        y.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.backward(compiled=True)


@pytest.mark.parametrize("kind", ["tensor", "node", "retain", "leaf", "create"])
def test_what_the_loop_must_do(kind, count):
    seen = []
    for _ in range(3):
        x = ours.ones(2, requires_grad=True)
        y = x * 3
        z = (y * y).sum()
        if kind == "tensor":
            y.register_hook(seen.append)
        elif kind == "node":
            y.grad_fn.register_hook(lambda *grads: seen.append(grads))
        elif kind == "retain":
            y.retain_grad()
        elif kind == "leaf":
            x.register_post_accumulate_grad_hook(seen.append)
        z.backward(create_graph=kind == "create", compiled=True)
        assert x.grad.tolist() == [18.0, 18.0]
        assert kind != "retain" or y.grad.tolist() == [6.0, 6.0]
    assert (count.loop, count.generated) == (3, 0)
    assert len(seen) == (0 if kind in ("retain", "create") else 3)


def test_hook_on_a_known_structure(count):
    for hooked in (False, False, True):
        x = ours.ones(2, requires_grad=True)
        y = x * 3
        if hooked:
            y.register_hook(lambda g: g * 0)
        (y * y).sum().backward(compiled=True)
    assert x.grad.tolist() == [0.0, 0.0]
    assert (count.loop, count.generated) == (2, 1)


def test_many_structures_stay_bounded(count):
    x = ours.ones(3, requires_grad=True)

    def run(n):
        y = x
        for _ in range(n):
            y = y.sin()
        y.sum().backward(compiled=True)

    for n in range(1, 40):
        run(n)
    assert sum(map(len, cached._plans.values())) <= cached.AT_ONCE
    assert count.generated == 0
    for _ in range(3):
        run(39)
    assert count.generated == 2


def test_no_garbage():
    x = ours.ones(3, requires_grad=True)
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            (x * x.exp()).sum().backward(compiled=True)
        gc.collect()
        before = gc.collect()
        for _ in range(5):
            (x * x.exp()).sum().backward(compiled=True)
        assert gc.collect() == before
    finally:
        gc.enable()


# ------------------------------------------------------------------ random programs
def gradients_of(machine, x, compiled):
    for v in machine.values:
        v._grad = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x.backward(ours.ones_like(x), retain_graph=True, compiled=compiled)
    return [None if v._grad is None else v._grad.numpy().copy() for v in machine.values]


def random_program(seed, count):
    """Compare all gradients of one program; how many ran by generated code."""
    r = random.Random(seed)
    machine = Machine(ours)
    for step in [new(r) for _ in range(3)] + [draw(r) for _ in range(14)]:
        if step[0] in ("backward", "retain"):
            continue
        # After changes in place the loop must look at each node.
        if seed % 4 == 0 or not step[0].startswith(("inplace", "assign")):
            run(machine, step)
    done = 0
    for x in machine.values:
        if x.grad_fn is None or not x.is_floating_point():
            continue
        try:
            wanted = gradients_of(machine, x, False)
        except RuntimeError as error:
            for _ in range(2):
                with pytest.raises(RuntimeError) as caught:
                    gradients_of(machine, x, True)
                assert str(caught.value) == str(error)
            continue
        gradients_of(machine, x, True)
        before = count.generated
        got = gradients_of(machine, x, True)
        done += count.generated - before
        for g, w in zip(got, wanted):
            assert (g is None) == (w is None)
            if w is None:
                continue
            assert g.dtype == w.dtype and g.shape == w.shape
            known = np.isfinite(w) & np.isfinite(g) & (np.abs(w) < 1e6)
            np.testing.assert_allclose(g[known], w[known], rtol=1e-4, atol=1e-5)
    return done


def test_random_programs(count):
    assert sum(random_program(seed, count) for seed in range(25)) > 30


@pytest.mark.slow
def test_more_random_programs(count):
    assert sum(random_program(seed, count) for seed in range(2000, 2400)) > 500


CASTS = [
    lambda t, x: (x.double() ** 2).mean().float(),
    lambda t, x: (x.float() ** 2).sum().double(),
    lambda t, x: (x.double() ** 2).sum().float() * 3,
    lambda t, x: x[0].double().float(),
    lambda t, x: x[1].half().double() * 2,
    lambda t, x: x[0].amax() * 2.0,
]


@pytest.mark.parametrize("number", range(len(CASTS)))
def test_a_loss_that_was_cast(number):
    torch = pytest.importorskip("torch")
    loss = CASTS[number]
    for dtype in ("float32", "float64"):
        v = torch.tensor([1.0, 2.0, 4.0], dtype=getattr(torch, dtype))
        loss(torch, v.requires_grad_()).backward()
        x = ours.tensor([1.0, 2.0, 4.0], dtype=dtype, requires_grad=True)
        for _ in range(3):
            x.grad = None
            loss(ours, x).backward(compiled=True)
            assert x.grad.dtype == x.dtype
            np.testing.assert_allclose(x.grad.numpy(), v.grad.numpy(), rtol=1e-6)
        text = str(loss(ours, x).source())
        space = {}
        exec(text, space)
        function = next(f for k, f in space.items() if k.endswith("_value_and_grad"))
        _, g = function(x.detach().numpy())
        np.testing.assert_allclose(g, v.grad.numpy(), rtol=1e-6)
