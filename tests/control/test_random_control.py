"""Random programs with branches, loops and writes in place, against plain NumPy."""

import numpy as np
import pytest
from control.drawing import ROWS, draw

import tracegrad as tg

X = np.array([0.4, -0.7, 0.9])
Y = np.sin(np.arange(3.0 * ROWS) * 1.3 + 0.2).reshape(ROWS, 3)


def check(seed: int) -> bool:
    """Whether the derivative could be checked.

    It could not where a test changes its outcome, and where a body has more ways
    through it than are traced, which an error says.
    """
    program, text = draw(seed)
    want = program(X.copy(), Y.copy())
    try:
        value, grads = tg.value_and_grad(program, (0, 1))(X, Y)
    except tg.ControlFlowError as error:
        assert "asks for more than 8 truths" in str(error), text
        return False
    np.testing.assert_allclose(value, want, rtol=1e-11, atol=1e-12, err_msg=text)
    if seed % 4 == 0:
        flat = tg.value_and_grad(program, (0, 1), reroll=False)(X, Y)
        np.testing.assert_allclose(flat[0], value, rtol=1e-12, atol=1e-13)
        for a, b in zip(grads, flat[1], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11, err_msg=text)
    if seed % 4 == 1:
        check_forward(program, seed)
    rng = np.random.default_rng(seed)
    dx, dy = rng.normal(size=X.shape), rng.normal(size=Y.shape)
    slope = np.sum(grads[0] * dx) + np.sum(grads[1] * dy)
    found = []
    for h in (1e-5, 1e-6):
        ahead, behind = program(X + h * dx, Y + h * dy), program(X - h * dx, Y - h * dy)
        found.append((ahead - behind) / (2.0 * h))
    if abs(found[0] - found[1]) > 1e-4 * (1.0 + abs(found[1])):
        return False  # the differences themselves do not agree
    np.testing.assert_allclose(slope, found[1], rtol=1e-4, atol=1e-4, err_msg=text)
    return True


def check_forward(program, seed: int) -> None:
    """Tangents, products with the Hessian, and a batch, against gradients."""
    rng = np.random.default_rng(seed)
    dx, dy = rng.normal(size=X.shape), rng.normal(size=Y.shape)
    g = tg.grad(program, (0, 1))
    pairs = zip(g(X, Y), (dx, dy), strict=True)
    _, tangent = tg.jvp(program, (X, Y), (dx, dy))
    slope = sum([np.sum(a * b) for a, b in pairs])
    np.testing.assert_allclose(tangent, slope, rtol=1e-8, atol=1e-9)
    differences = []
    for h in (1e-5, 1e-6):
        ahead, behind = g(X + h * dx, Y + h * dy), g(X - h * dx, Y - h * dy)
        pairs = zip(ahead, behind, strict=True)
        differences.append([(a - b) / (2.0 * h) for a, b in pairs])
    products = tg.hvp(program, (X, Y), (dx, dy))
    for found, far, near in zip(products, *differences, strict=True):
        if np.allclose(far, near, rtol=1e-3, atol=1e-3):
            np.testing.assert_allclose(found, near, rtol=2e-3, atol=2e-3)


# 9: the tangent of what only another branch makes; 15: an expression moved behind a
# loop that changes what it reads; 69: a list that only one branch makes; 228: a view
# read after its variable was given to another array; 723: the same in an
# arm of a branch; 757: an array changed that stands
# in a list of a list.
@pytest.mark.parametrize("seed", [9, 15, 69, 228, 723, 757])
def test_some_programs(seed) -> None:
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_many_programs(block) -> None:
    checked = [check(seed) for seed in range(100 * block, 100 * block + 100)]
    assert sum(checked) >= 97
