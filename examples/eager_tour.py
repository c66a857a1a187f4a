"""A tour of automatic differentiation with tensors, in ten steps.

It goes the way of two short introductions to PyTorch's autograd: what a tensor with
`requires_grad` remembers, how gradients add up, when nothing is recorded, and what
`backward` needs for more than one number.  Each step checks what it shows, so that the
tour can't go wrong unnoticed.  It runs on PyTorch as well, with the import changed.

    python examples/eager_tour.py
"""

import math

import tracegrad.eager as torch


def show(title: str, *things: object) -> None:
    """Print the heading of a step and what it is about."""
    print(f"\n{title}")
    for thing in things:
        print(f"  {thing}")


def sums() -> None:
    """The slope of a sum is 1 everywhere, and gradients add up."""
    side = torch.full((3, 2), 4.0, requires_grad=True)
    area = side.sum()
    show("1. A result remembers what made it", area, area.grad_fn.name())
    area.backward()
    show("2. backward() fills .grad", side.grad)
    area.backward()  # a sum has saved nothing, so its graph can be used again
    assert side.grad.tolist() == [[2.0, 2.0]] * 3
    show("3. A second pass adds to it", side.grad)
    side.grad.zero_()
    area.backward()
    assert side.grad.tolist() == [[1.0, 1.0]] * 3
    show("4. So it is set to zero in between", side.grad)


def chain() -> None:
    """A polynomial, from its parts, against the derivative on paper."""
    t = torch.tensor([[0.0, 1.0], [2.0, 3.0]], requires_grad=True)
    shifted = t + 1
    energy = (shifted * shifted * shifted).mean()
    energy.backward()
    assert torch.allclose(t.grad, 3 * (t.detach() + 1) ** 2 / 4)
    show("5. The chain rule: d/dt mean((t + 1)^3) = 3 (t + 1)^2 / 4", t.grad)


def leaves() -> None:
    """Recording is asked for, by the tensor or later."""
    plain = torch.linspace(-1.0, 1.0, 3)
    ratio = plain / (plain - 2)
    assert ratio.grad_fn is None
    ratio.requires_grad_()
    length = ratio.square().sum().sqrt()
    show(
        "6. History begins where it is asked for", ratio.is_leaf, length.grad_fn.name()
    )


def products_with_a_vector() -> None:
    """Of several numbers, backward takes a weighted sum."""
    start = torch.tensor([0.7, -1.1, 0.2], requires_grad=True)
    grown = start * 3
    steps = 1
    while grown.detach().norm() < 500:
        grown = grown * 3
        steps += 1
    weights = torch.tensor([1.0, 0.01, 2.0])
    grown.backward(weights)
    assert torch.allclose(start.grad, weights * 3.0**steps)
    show(f"7. A product with a vector, through {steps} steps of a loop", start.grad)


def pauses() -> None:
    """What is not to be differentiated."""
    w = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        silent = torch.cos(w)
    shared = torch.cos(w.data)
    assert not silent.requires_grad and not shared.requires_grad
    assert math.isclose(silent[0].item(), math.cos(1.0), rel_tol=1e-6)
    show("8. no_grad() and .data leave no trace", silent, (w**2).requires_grad)


def curvature() -> None:
    """Gradients are tensors, and can be differentiated in turn."""
    x = torch.tensor(0.5, requires_grad=True)
    (slope,) = torch.autograd.grad(torch.sin(x), x, create_graph=True)
    (second,) = torch.autograd.grad(slope, x)
    assert math.isclose(second.item(), -math.sin(0.5), rel_tol=1e-6)
    show("9. The derivative of the derivative of sin is -sin", second)


def program() -> None:
    """What PyTorch has not: the gradient as a program."""
    angle = torch.tensor([0.1, 0.2], requires_grad=True)
    height = torch.sin(angle) * 5
    energy = (height**2).sum()
    if not hasattr(energy, "source"):
        return
    show("10. And the program that was just run", *str(energy.source()).splitlines())


def main() -> None:
    """Take all steps."""
    for part in (sums, chain, leaves, products_with_a_vector, pauses, curvature):
        part()
    program()


if __name__ == "__main__":
    main()
