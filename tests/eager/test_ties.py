"""Gradients where functions have a corner, live beside PyTorch."""

import pytest
from eager.both import agree

POINTS = [0.0, 1.0, -1.0, 2.0, float("nan"), float("inf")]


@pytest.mark.parametrize(
    "name", ["fmax", "fmin", "maximum", "minimum", "hypot", "atan2"]
)
@pytest.mark.parametrize("recorded", [False, True])
def test_of_two_arguments(name, recorded):
    def program(t):
        x = t.tensor([[p] * len(POINTS) for p in POINTS], requires_grad=True)
        y = t.tensor([POINTS] * len(POINTS), requires_grad=True)
        z = getattr(t, name)(x, y)
        grads = t.autograd.grad(z.sum(), (x, y), create_graph=recorded)
        return z, [g.detach() for g in grads]

    agree(program)


@pytest.mark.parametrize(
    "name", ["abs", "relu", "sign", "norm", "amax", "amin", "sqrt"]
)
def test_of_one_argument(name):
    def program(t):
        x = t.tensor([0.0, 0.0, -0.0], requires_grad=True)
        z = getattr(t, name)(x)
        z.sum().backward()
        return z, x.grad

    agree(program)
