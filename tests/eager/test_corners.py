"""Corners of what a leaf, a power, a quotient and a mask do, live beside PyTorch."""

import pytest
from eager.both import agree, ours


def vector(t):
    return t.tensor([1.0, 0.0, 2.0, 5.0], requires_grad=True)


@pytest.mark.parametrize("how", ["attribute", "method", "again", "compiled"])
def test_a_leaf_that_wants_no_gradient_any_more(how):
    def program(t):
        x, w = vector(t), vector(t)
        options = {"compiled": True} if how == "compiled" and t is ours else {}
        for _ in range(2 if how == "compiled" else 0):
            (x * w).sum().backward(**options)
        x.grad = w.grad = None
        y = (x * w).sum()
        if how == "attribute":
            x.requires_grad = False
        else:
            x.requires_grad_(False)
        if how == "again":
            x.requires_grad_(True)
        y.backward(**options)
        return x.grad, w.grad

    agree(program)


WHOLE = [
    lambda t: t.tensor([2]) ** t.tensor([-1]),
    lambda t: t.tensor([2, 1, -1, 0, -1, 3]) ** t.tensor([-1, -2, -3, -1, -2, 2]),
    lambda t: 2 ** t.tensor([-1, 3]),
    lambda t: (-1) ** t.tensor([-1, -2, 3]),
    lambda t: t.tensor([2, 3]) ** -1,
    lambda t: t.pow(t.tensor([2], dtype=t.int32), t.tensor([-1], dtype=t.int32)),
    lambda t: t.tensor([2, 3]).pow_(t.tensor([-1, 2])),
    lambda t: t.tensor([[2], [1]]) ** t.tensor([-1, 2]),
    lambda t: t.tensor([2, 3]) ** t.tensor([0, 2]),
]


@pytest.mark.parametrize("number", range(len(WHOLE)))
def test_powers_of_integers(number):
    agree(WHOLE[number])


FILLS = [
    lambda x: x.__setitem__(x > 1, x[3]),
    lambda x: x.__setitem__(x > 1, x[3:]),
    lambda x: x.view(2, 2).__setitem__(x.view(2, 2) > 1, x[0]),
    lambda x: x.__setitem__(x > 1, x[2:]),
    lambda x: x.__setitem__([0, 1], x[3]),
    lambda x: x.__setitem__([0, 1], x[1:3]),
]


@pytest.mark.parametrize("number", range(len(FILLS)))
@pytest.mark.parametrize("recorded", [False, True])
def test_a_mask_filled_with_a_part_of_the_tensor(number, recorded):
    def program(t):
        x = vector(t) if recorded else vector(t).detach()
        y = x * 1
        FILLS[number](y)
        if recorded:
            (y * t.arange(1.0, 5.0)).sum().backward()
        return y, x.grad

    agree(program)


SLOPES = [
    lambda t, x: x[:1].var(),
    lambda t, x: x[:1].std(),
    lambda t, x: x.view(4, 1).var(1).sum(),
    lambda t, x: x[:2].var(correction=2),
    lambda t, x: x.var(),
    lambda t, x: t.div(x, 2, rounding_mode="floor").sum(),
    lambda t, x: t.div(x, x + 1, rounding_mode="trunc").sum(),
    lambda t, x: (x + t.div(5.0, x + 1, rounding_mode="floor")).sum(),
    lambda t, x: t.linalg.vector_norm(x, 0),
    lambda t, x: x.norm(0) * x.sum(),
]


@pytest.mark.parametrize("number", range(len(SLOPES)))
def test_slopes_that_are_zero_or_none(number):
    def program(t):
        x = vector(t)
        y = SLOPES[number](t, x)
        y.backward()
        return y, x.grad

    agree(program)


def test_names_of_functions_with_slope_zero():
    def program(t):
        x = vector(t)
        made = [t.div(x, 2, rounding_mode=mode) for mode in ("floor", "trunc")]
        made += [t.linalg.vector_norm(x, 0), x.norm(0)]
        with t.no_grad():
            made.append(t.linalg.vector_norm(x, 0))
        return [m.grad_fn and m.grad_fn.name() for m in made]

    agree(program)
