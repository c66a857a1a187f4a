"""Gradients of gradients that are zero: PyTorch's history, live beside PyTorch."""

import pytest
from eager.both import agree, ours, torch

BENT = {
    "relu": lambda t, x: t.nn.functional.relu(x),
    "leaky_relu": lambda t, x: t.nn.functional.leaky_relu(x, 0.2),
    "relu6": lambda t, x: t.nn.functional.relu6(x),
    "hardtanh": lambda t, x: t.nn.functional.hardtanh(x),
    "threshold": lambda t, x: t.nn.functional.threshold(x, 0.1, -3.0),
    "hardshrink": lambda t, x: t.nn.functional.hardshrink(x),
    "softshrink": lambda t, x: t.nn.functional.softshrink(x),
    "prelu": lambda t, x: t.nn.functional.prelu(x, t.tensor([0.1])),
    "max_pool1d": lambda t, x: t.nn.functional.max_pool1d(x.view(1, 1, 4), 2),
    "max_pool2d": lambda t, x: t.nn.functional.max_pool2d(x.view(1, 1, 2, 2), 2),
    "pow": lambda t, x: x**1,
    # PyTorch has no history of these.
    "clamp": lambda t, x: x.clamp(0, 1),
    "max": lambda t, x: x.max(),
    "multiple": lambda t, x: x * 3,
    "where": lambda t, x: t.where(x > 0, x, 2 * x),
    "sort": lambda t, x: x.sort().values,
    "in_place": lambda t, x: (x * 1).relu_(),
}


def leaf(t):
    return t.tensor([1.0, -2.0, 3.0, 4.0], requires_grad=True)


@pytest.mark.parametrize("name", BENT)
def test_history(name):
    def program(t):
        x = leaf(t)
        (g,) = t.autograd.grad(BENT[name](t, x).sum(), x, create_graph=True)
        if not g.requires_grad:
            return g
        (h,) = t.autograd.grad(g.sum(), x, retain_graph=True)
        (g * x).sum().backward()
        return g, h, x.grad

    agree(program)


@pytest.mark.parametrize("exponent", [1, 2, 3, 4, 2.0, 2.5])
def test_derivatives_until_there_is_none(exponent):
    def program(t):
        x = t.tensor(1.5, requires_grad=True)
        y, found = x**exponent, []
        for _ in range(6):
            if not y.requires_grad:
                break
            (y,) = t.autograd.grad(y, x, create_graph=True)
            found.append((y, y.requires_grad))
        return found

    agree(program)


def test_penalty_on_a_gradient():
    def program(t):
        x = t.tensor([[1.0, -2.0], [0.5, 3.0]], requires_grad=True)
        w = t.tensor([[1.0, 2.0], [3.0, -1.0]], requires_grad=True)
        made = t.nn.functional.relu(x @ w).sum()
        (g,) = t.autograd.grad(made, x, create_graph=True)
        ((g.norm(dim=1) - 1) ** 2).mean().backward()
        return x.grad, w.grad

    agree(program)


@pytest.mark.parametrize("q", [0.4, [0.25, 0.6]])
def test_quantiles(q):
    def program(t):
        x = t.tensor([1.0, 3.0, 2.0, 5.0], requires_grad=True)
        at = t.tensor(q, requires_grad=True)
        found = []
        for place in (t.tensor(q), at):
            y = x.quantile(place) ** 2
            (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
            found += [g.detach(), *t.autograd.grad((g**2).sum(), x)]
        return found

    agree(program)


def test_names():
    for t in (torch, ours):
        x = leaf(t)
        (g,) = t.autograd.grad(x.relu().sum(), x, create_graph=True)
        assert g.grad_fn.name() == "ThresholdBackwardBackward0"


def test_source_of_a_gradient():
    x = leaf(ours)
    (g,) = ours.autograd.grad((x.relu() ** 2).sum(), x, create_graph=True)
    loss = (g**2).sum()
    assert "def loss_value_and_grad(x" in str(loss.source())
