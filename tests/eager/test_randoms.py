"""Random numbers: their distributions, and PyTorch's errors and flags."""

import numpy as np
import pytest
from eager.both import agree
from eager.test_functions import listed

import tracegrad.eager as ours

COUNT = 20_000
# Method, arguments, mean, standard deviation, by the textbook.
FILLED = [
    ("normal_", (), 0, 1),
    ("normal_", (2, 3), 2, 3),
    ("uniform_", (), 0.5, 12**-0.5),
    ("uniform_", (-1, 3), 1, 4 / 12**0.5),
    ("exponential_", (2,), 0.5, 0.5),
    ("geometric_", (0.25,), 4, 12**0.5),
    ("log_normal_", (0, 0.5), np.exp(0.125), np.sqrt(np.expm1(0.25) * np.exp(0.25))),
    ("bernoulli_", (0.3,), 0.3, 0.21**0.5),
    ("random_", (10,), 4.5, 8.25**0.5),
]


@pytest.mark.parametrize(("name", "args", "mean", "spread"), FILLED)
def test_filled(name, args, mean, spread):
    ours.manual_seed(3)
    x = ours.zeros(COUNT, dtype=ours.float64)
    assert getattr(x, name)(*args) is x
    assert x._version == 1
    assert float(x.mean()) == pytest.approx(mean, abs=5 * spread / COUNT**0.5)
    assert float(x.std()) == pytest.approx(spread, rel=0.1)


def test_cauchy():
    ours.manual_seed(3)
    x = ours.zeros(COUNT).cauchy_(1.0, 2.0)
    assert float(x.median()) == pytest.approx(1.0, abs=0.1)
    assert float(((x - 1).abs() < 2).float().mean()) == pytest.approx(0.5, abs=0.02)


def test_samples():
    ours.manual_seed(3)
    p = ours.tensor([0.1, 0.9]).expand(COUNT, 2)
    assert ours.bernoulli(p).mean(0).tolist() == pytest.approx([0.1, 0.9], abs=0.02)
    drawn = ours.multinomial(ours.tensor([1.0, 3.0]), COUNT, replacement=True)
    assert float(drawn.float().mean()) == pytest.approx(0.75, abs=0.02)
    rows = ours.multinomial(ours.ones(5, 4), 4)
    assert np.array_equal(np.sort(rows.numpy(), 1), np.tile(np.arange(4), (5, 1)))
    x = ours.normal(ours.tensor([0.0, 5.0]).expand(COUNT, 2), ours.tensor([1.0, 2.0]))
    assert x.mean(0).tolist() == pytest.approx([0, 5], abs=0.1)
    assert x.std(0).tolist() == pytest.approx([1, 2], rel=0.1)
    rates = ours.full((COUNT,), 3.0)
    assert float(ours.poisson(rates).mean()) == pytest.approx(3, abs=0.1)
    assert set(ours.randint_like(rates, 2, 4).tolist()) == {2.0, 3.0}


def test_state():
    ours.manual_seed(1)
    state = ours.get_rng_state()
    first = ours.rand(3).tolist()
    ours.set_rng_state(state)
    assert ours.rand(3).tolist() == first
    assert isinstance(ours.seed(), int)


DRAWN = """
t.rand(3, generator=g) | t.randn(3, generator=g) | t.randint(100, (3,), generator=g)
t.randperm(9, generator=g) | t.bernoulli(t.ones(20) * 0.5, generator=g)
t.normal(0.0, 1.0, (3,), generator=g) | t.multinomial(t.ones(20), 5, generator=g)
t.zeros(3).normal_(generator=g) | t.zeros(3).uniform_(generator=g)
t.zeros(9).random_(50, generator=g) | t.poisson(t.ones(9) * 9, generator=g)
"""


@pytest.mark.parametrize(
    "call",
    [e.strip() for line in DRAWN.strip().splitlines() for e in line.split(" | ")],
)
def test_generators(call):
    g = ours.Generator().manual_seed(5)
    state = ours.get_rng_state()
    first, second = (eval(call, {"t": ours, "g": g}).tolist() for _ in range(2))
    assert first != second
    assert ours.get_rng_state().equal(state)  # the global one has not moved
    assert eval(call, {"t": ours, "g": g.manual_seed(5)}).tolist() == first
    before = g.get_state()
    third = eval(call, {"t": ours, "g": g}).tolist()
    g.set_state(before)
    assert eval(call, {"t": ours, "g": g}).tolist() == third
    assert g.initial_seed() == 5


CALLS = """
t.ones(2).normal_(0, -1) | t.ones(2).uniform_(2, 1) | t.ones(2).exponential_(-1)
t.ones(2).geometric_(2) | t.ones(2).cauchy_(0, -1) | t.ones(2).bernoulli_(2.0)
t.tensor([2.0]).bernoulli() | t.multinomial(t.ones(2), 3) | t.multinomial(t.ones(2), 0)
t.multinomial(-t.ones(2), 1) | t.multinomial(t.ones(1, 1, 2), 1)
t.multinomial(t.zeros(2), 1) | leaf.normal_() | leaf.uniform_() | leaf.bernoulli_()
(leaf * 1).normal_().grad_fn.name() | (leaf * 1).bernoulli_().requires_grad
t.bernoulli(leaf * 0.5).requires_grad | t.normal(0.0, 1.0, (2, 3)).shape
t.normal(t.zeros(3), 1.0).dtype | t.normal(0, t.ones(3, dtype=t.float64)).shape
t.zeros(3, dtype=t.int64).bernoulli_().dtype | t.zeros(3).random_(2, 1)
t.multinomial(t.ones(3, 4), 2).shape | t.multinomial(t.ones(4), 2).dtype
t.randint_like(t.ones(2), 3).dtype | t.poisson(t.ones(3)).dtype
t.zeros(2).normal_(mean=1, std=2).dtype | t.zeros(2, dtype=t.int64).normal_()
(leaf * 1).exponential_().grad_fn.name() | (leaf * 1).random_(3).grad_fn.name()
(leaf * 1).bernoulli_(t.ones(2)).grad_fn.name() | t.poisson(leaf).grad_fn.name()
t.normal(leaf, 1.0).grad_fn.name() | t.zeros(2, dtype=t.int64).exponential_()
t.autograd.grad(t.bernoulli(leaf * 0.5).sum(), leaf) | t.bernoulli(t.ones(2), 2.0)
"""
LISTED = listed(CALLS)


@pytest.mark.parametrize("call", LISTED)
def test_same(call):
    def program(t):
        made = eval(call, {"t": t, "leaf": t.ones(2, requires_grad=True)})
        return repr(made) if isinstance(made, t.dtype) else made

    agree(program)
