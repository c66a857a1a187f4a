"""Nothing stale: what a function reads besides its arguments may change at any time."""

import collections
import types

import numpy as np
import pytest

import tracegrad as tg

X = np.array([1.0, -2.0])
DATA = np.array([1.0, 2.0])
NESTED = {"a": {"b": {"c": [np.array([1.0, -1.0])]}}}
K = 3.0
LOG: list[float] = [1.0]
SET = {1.0}
QUEUE = collections.deque([1.0])
TABLE = collections.defaultdict(float, a=1.0)
SPACE = types.SimpleNamespace(v=1.0, w=np.ones(2))


def agree(f, change, calls: int = 3) -> None:
    """Compare with the function itself, before each change and after it."""
    g = tg.compile(f)
    for i in range(calls):
        for _ in range(2):
            np.testing.assert_array_equal(g(X), f(X))
        change(i)


def sign(i: int) -> None:
    DATA[0] = -DATA[0]


def through_a_variable(x):
    first = DATA[0]
    for _ in range(2):
        first = first + 0.0
    if first > 0:
        return x
    return -x


def chosen(v):
    return 1.0 if v[0] > 0 else 2.0


def rebind(i: int) -> None:
    global K
    K = float(i)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x if DATA[0] > 0 else -x,
        lambda x: x if not DATA[0] > 0 else -x,
        lambda x: x if x[0] > 0 and DATA[0] > 0 else -x,
        lambda x: x * float(DATA[0]),
        lambda x: x * int(DATA[0]),
        lambda x: x * DATA.tolist()[0],
        lambda x: x * DATA.item(0),
        lambda x: x * max(DATA),
        lambda x: x * sorted(DATA)[0],
        lambda x: x * len(f"{DATA[0]}"),
        lambda x: x if (DATA > 0).all() else -x,
        lambda x: x if np.all(DATA > 0) else -x,
        lambda x: x if DATA.sum() + 1.0 > 2.0 else -x,
        lambda x: x * DATA[0],
        lambda x: sum(x * v for v in DATA),
        lambda x: sum(x for v in DATA if v > 0) + x,
        lambda x: x[int(DATA[0] > 0)] * x,
        lambda x: x * chosen(DATA),
        lambda x: x + DATA,
        through_a_variable,
    ],
)
def test_content_of_captured_arrays(f) -> None:
    agree(f, sign)


@pytest.mark.parametrize(
    ("f", "change"),
    [
        (lambda x: x * K, rebind),
        (lambda x: x * 2.0 if K > 1 else x, rebind),
        (lambda x: x * sum(LOG), lambda i: LOG.append(1.0)),
        (lambda x: x * len(LOG), lambda i: LOG.append(1.0)),
        (lambda x: x * sum(SET), lambda i: SET.add(i + 9.0)),
        (lambda x: x * sum(QUEUE), lambda i: QUEUE.append(1.0)),
        (lambda x: x * TABLE["a"], lambda i: TABLE.update(a=i + 4.0)),
        (lambda x: x * SPACE.v, lambda i: setattr(SPACE, "v", i + 2.0)),
        (
            lambda x: x if SPACE.w[0] > 0 else -x,
            lambda i: SPACE.w.__setitem__(0, -SPACE.w[0]),
        ),
        (
            lambda x: x if NESTED["a"]["b"]["c"][0][0] > 0 else -x,
            lambda i: np.negative(NESTED["a"]["b"]["c"][0], NESTED["a"]["b"]["c"][0]),
        ),
    ],
)
def test_what_changes_between_calls(f, change) -> None:
    agree(f, change)


def test_arrays_that_are_only_computed_with_are_not_guarded() -> None:
    data = np.ones((4, 2))

    def f(w):
        h = data @ w
        return np.sum(h) if h[0] > 0 else -np.sum(h)

    g = tg.grad(f)
    for i in range(4):
        np.testing.assert_allclose(g(np.ones(2)), data.sum(axis=0))
        data[1, 0] += i
    assert len(g.specializations()) == 1
