"""`reroll=` of every transformation that takes it."""

import numpy as np
import pytest

import tracegrad as tg

X = np.array([0.3, -0.2, 0.5])
W = np.array([[0.4, -0.1, 0.2], [0.3, 0.2, -0.5], [0.1, 0.6, 0.3]])


def turning(x):
    y = x
    for _ in range(12):
        y = np.tanh(W @ y) + x
    return np.sum(y**2)


def rows(x):
    y = x
    for _ in range(12):
        y = np.tanh(W @ y) + x
    return y * y


MADE = {
    "jvp": (lambda **how: tg.jvp(turning, **how), ((X,), (X,))),
    "hvp": (lambda **how: tg.hvp(turning, **how), ((X,), (X,))),
    "vhp": (lambda **how: tg.vhp(turning, **how), ((X,), (X,))),
    "jacrev": (lambda **how: tg.jacrev(rows, **how), (X,)),
    "jacfwd": (lambda **how: tg.jacfwd(rows, **how), (X,)),
    "jacobian": (lambda **how: tg.jacobian(rows, **how), (X,)),
    "hessian": (lambda **how: tg.hessian(turning, **how), (X,)),
    "elementwise_grad": (lambda **how: tg.elementwise_grad(rows, **how), (X,)),
    "vmap": (lambda **how: tg.vmap(turning, **how), (np.stack([X, 2 * X]),)),
    "vmap of grad": (lambda **how: tg.vmap(tg.grad(turning), **how), (np.eye(3),)),
    "grad": (lambda **how: tg.grad(turning, **how), (X,)),
}


@pytest.mark.parametrize("name", MADE)
def test_turns_stay_as_they_are(name):
    make, args = MADE[name]
    rolled, flat = make(), make(reroll=False)
    np.testing.assert_allclose(rolled(*args), flat(*args), rtol=1e-12)
    texts = [str(f.source(*args)) for f in (rolled, flat)]
    assert ["for " in text.split("def ", 1)[1] for text in texts] == [True, False]
