"""`x is True` and `case True`, which Python asks of nobody, against plain Python."""

import functools
import math

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import ControlFlowError

STARTS = (2.0, -2.0, 0.4, -0.4, 4.5)


def arm(x):
    if (x > 0) is False:
        return 3 * x
    return x**2


def matched(x):
    match x > 0:
        case True:
            return 2 * x
        case False:
            return 5 * x * x
        case _:
            return 7 * x


def matched_pairs(x):
    match (x > 0, x > 3):
        case (True, True):
            return 2 * x
        case (True, False) | (False, True):
            return 5 * x * x
        case _:
            return 7 * x


def asked(flag):
    return flag is True


def helper(x):
    return x * (2.0 if asked(x > 0) else 3.0)


def generated(x):
    if (x > 0) is True:
        yield x * x
    yield x


def nested(x):
    def inner(v):
        if (v > 0) is not True:
            return v
        return v * v

    return inner(x) + inner(-x)


def tripled(v):
    return v * 3 if (v > 0) is True else v


def called_back(x):
    parts = map(tripled, [x, x - 1, x - 2.5])
    return functools.reduce(lambda a, b: a + b if (b > 0) is True else a - b, parts)


def by_name(x):
    yes = True
    return x * x if (x > 1) is yes else x


def loop(x):
    x = abs(x)
    while (x < 10) is True:
        x = x * 2.5
    return x


class Sign:
    def __init__(self, x):
        self.x = x

    @property
    def positive(self):
        return (self.x > 0) is True

    def square(self):
        super().__init__()
        return self.x * self.x if (self.x > 0) is True else self.x


PROGRAMS = [
    arm,
    matched,
    matched_pairs,
    helper,
    lambda x: sum(generated(x)),
    nested,
    called_back,
    by_name,
    loop,
    lambda x: Sign(x).square() * (2.0 if Sign(x).positive else 3.0),
    lambda x: x * x if (x > 0) is True else -x,
    lambda x: x * x if True is (x > 0) else -x,
    lambda x: x * x if (x > 1) is not True else x,
    lambda x: x * sum(1.0 for v in (x, -x, 2 * x) if (v > 0) is True),
    lambda x: x * (2.0 if (math.exp(x) > 1) is True else 3.0),
    lambda x: x * (2.0 if math.isfinite(x) is True else 3.0),
    lambda x: x * (2.0 if (x > 0 and x < 2.5) is True else 3.0),
    lambda x: x * (2.0 if (not x > 0) is True else 3.0),
    lambda x: x * ((x > 0) is (x > 1)) + ((x > 0) is not (x > 1)) * 3 * x,
    lambda x: x * (1.0 if x is None else 2.0) * (1.0 if x is False else 3.0),
    lambda x: x * (2.0 if isinstance(x > 0, bool) else 3.0),
]
KINDS = [float, np.float64, np.array]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("f", PROGRAMS)
def test_identity_is_that_of_plain_python(f, kind):
    """NumPy's truths are not the object `True`, which Python's are."""
    gradient = tg.value_and_grad(f)
    for start in STARTS:
        x = kind(start)
        value, slope = gradient(x)
        assert value == f(x)
        h = 1e-6
        expected = (f(kind(start + h)) - f(kind(start - h))) / (2 * h)
        np.testing.assert_allclose(slope, expected, rtol=1e-6)


@pytest.mark.parametrize("f", PROGRAMS[:10])
def test_identity_without_joins(f):
    gradient = tg.value_and_grad(f, joins=False)
    for start in STARTS:
        assert gradient(start)[0] == f(start)


def test_a_python_truth_is_an_index():
    gradient = tg.value_and_grad(lambda x: x * [1.0, 2.0][x > 0])
    assert [gradient(x) for x in (2.0, -2.0)] == [(4.0, 2.0), (-2.0, 1.0)]


def unknown(x):
    return x * (2.0 if np.allclose(x, 1.0) is True else 3.0)


def chained(x):
    return x * (2.0 if 1 < (x + 1) is True else 3.0)


SPACE: dict = {}
exec("def textless(x):\n    return x * x if (x > 0) is True else x", SPACE)


@pytest.mark.parametrize("f", [unknown, chained, SPACE["textless"]])
def test_what_cannot_be_asked_is_an_error(f):
    with pytest.raises(ControlFlowError, match="is True") as caught:
        tg.grad(f)(2.0)
    assert len(str(caught.value).splitlines()) == 4


def test_masks_and_flags_are_compared_as_ever():
    """Sentinels of the kind `mask is False`, and objects."""
    marker = object()

    def f(x, mask=False, kind=marker):
        y = x if mask is False else np.where(mask, x, 0.0)
        return np.sum(y * y) * (2.0 if kind is marker else 3.0)

    x = np.array([1.0, 2.0])
    gradient = tg.grad(f)
    np.testing.assert_array_equal(gradient(x), 4 * x)
    np.testing.assert_array_equal(gradient(x, x > 1), [0.0, 8.0])
    np.testing.assert_array_equal(gradient(x, False, None), 6 * x)
    joined = tg.grad(lambda x: f(x, x > 1))
    np.testing.assert_array_equal(joined(x), [0.0, 8.0])
