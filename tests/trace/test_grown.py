"""Containers that a function fills and then asks, and iterators that it uses up."""

import collections
import itertools

import pytest

import tracegrad as tg
from tracegrad.errors import MutationError


def counting():
    k = 0.0
    while True:
        k += 1
        yield k


class Model:
    def __init__(self):
        self.history = []
        self.numbers = itertools.count()

    def by_length(self, x):
        self.history.append(1.0)
        return x * len(self.history)

    def by_sum(self, x):
        self.history.append(2.0)
        return x * sum(v for v in self.history)

    def by_number(self, x):
        return x * next(self.numbers)

    def latest(self, x):
        self.history.append(x * x)
        return self.history[-1]


def over(iterator):
    return lambda x: x * next(iterator)


def list_length():
    log = []

    def f(x):
        log.append(x)
        return x * len(log)

    return f


def first_of_deque():
    log = collections.deque()

    def f(x):
        log.append(2.0)
        return x * log[0] * len(log)

    return f


def set_size():
    seen = set()

    def f(x):
        seen.add(3)
        return x * len(seen)

    return f


def loop_over():
    numbers = iter([1.0, 2.0, 3.0])

    def f(x):
        for number in numbers:
            return x * number
        return x

    return f


WRONG = [
    list_length(),
    first_of_deque(),
    set_size(),
    loop_over(),
    Model().by_length,
    Model().by_sum,
    Model().by_number,
    over(iter([1.0, 2.0, 3.0])),
    over(itertools.count(1)),
    over(itertools.cycle([1.0, 2.0])),
    over(counting()),
    over(map(float, [1, 2, 3])),
    over(v for v in (1.0, 2.0, 3.0)),
]


@pytest.mark.parametrize("f", WRONG)
def test_what_differs_from_call_to_call_is_an_error(f):
    """A trace would give every call the number of the first."""
    with pytest.raises(MutationError, match="while it was traced") as caught:
        tg.grad(f)(2.0)
    assert len(str(caught.value).splitlines()) == 4


def logging():
    log = []

    def f(x):
        log.append(x)
        return x * x

    return f


def caching():
    cache = {}

    def f(x):
        if 3 not in cache:
            cache[3] = 2.0
        return x * cache[3]

    return f


def own():
    def f(x):
        log = [x]
        numbers = itertools.count(1)
        log.append(x * next(numbers))
        return sum(log) * len(log) * next(numbers)

    return f


@pytest.mark.parametrize("make", [logging, caching, own, lambda: Model().latest])
def test_logs_caches_and_own_containers_are_fine(make):
    gradient, f = tg.value_and_grad(make()), make()
    for x in (1.0, 2.0, 3.0):
        assert gradient(x)[0] == f(x)


def test_a_count_of_calls_is_no_value() -> None:
    """`next(calls)` alone changes nothing that a later call would compute."""
    calls = itertools.count()

    def f(x):
        next(calls)
        return x * x

    g = tg.value_and_grad(f)
    assert g(3.0) == (9.0, 6.0)
    assert g(2.0) == (4.0, 4.0)
    assert next(calls) == 1
