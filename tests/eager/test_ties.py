"""Gradients where functions have a corner, live beside PyTorch."""

import numpy as np
import pytest
from eager.both import agree, checks

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


# ------------------------------------------------------- medians, and what is no number
DATA = {
    "ties": [1.0, 2.0, 2.0, 3.0],
    "all_equal": [2.0, 2.0, 2.0],
    "apart": [1.0, 2.0, 3.0, 2.0, 5.0],
    "matrix": [[1.0, 2.0], [2.0, 2.0]],
    "nan": [1.0, float("nan"), 2.0],
    "nans": [float("nan"), float("nan"), 1.0],
    "only_nan": [float("nan")],
    "number": 3.0,
}
MIDDLES = {
    "median": lambda x: x.median(),
    "median_along": lambda x: x.median(-1).values,
    "nanmedian": lambda x: x.nanmedian(),
    "nanmedian_along": lambda x: x.nanmedian(-1).values,
    "nanmedian_kept": lambda x: x.nanmedian(-1, keepdim=True).indices * 1.0 + x * 0,
    "max": lambda x: x.max(),
    "min": lambda x: x.min(),
    "twice": lambda x: x.median() * x.max() * x,
}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", MIDDLES)
def test_equal_elements_share(name, data):
    def program(t):
        x = t.tensor(DATA[data], dtype=t.float64, requires_grad=True)
        y = MIDDLES[name](x)
        y.sum().backward()
        return y, type(y.grad_fn).__name__, x.grad

    agree(program)


def zero_to_a_power(t):
    x = t.tensor([2.0, 0.0, -1.0, 0.5], dtype=t.float64, requires_grad=True)
    (g,) = t.autograd.grad((0**x).sum(), x)
    base = t.zeros(4, dtype=t.float64, requires_grad=True)
    (h,) = t.autograd.grad((base**x).sum(), x)
    (k,) = t.autograd.grad((3**x).sum(), x)
    return g, h, k


test_powers = checks(zero_to_a_power)


def test_the_most_frequent_of_no_numbers_is_found():
    import tracegrad.eager as ours

    found = ours.tensor([float("nan"), float("nan"), 1.0]).mode()
    assert found.indices.item() == 0


NORMS = {
    "norm": lambda t, x: x.norm(),
    "vector_norm": lambda t, x: t.linalg.vector_norm(x, 3),
    "along": lambda t, x: t.linalg.norm(x.reshape(1, -1), dim=1).sum(),
    "normalize": lambda t, x: t.nn.functional.normalize(x, dim=0).sum(),
    "dist": lambda t, x: t.dist(x, x + 1),
}


@pytest.mark.parametrize("second", [float("nan"), float("inf"), 0.0])
@pytest.mark.parametrize("name", NORMS)
def test_a_norm_that_is_no_number_has_no_slope_that_is_one(name, second):
    def program(t):
        x = t.tensor([0.0, second, 0.0], dtype=t.float64, requires_grad=True)
        NORMS[name](t, x).backward()
        return x.grad

    agree(program)


def test_compiled_gradients_of_such_norms_neither():
    import tracegrad as tg

    x = np.array([1.0, np.nan, 2.0])
    assert np.isnan(tg.grad(np.linalg.norm)(x)).all()
    assert (tg.grad(np.linalg.norm)(np.zeros(3)) == 0).all()
