"""The collector rests while a program is made, and is as before afterwards."""

import gc

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.runtime.collector import paused_collector


def test_pause_is_undone():
    with paused_collector():
        assert not gc.isenabled()
        with paused_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_pause_is_undone_after_an_error():
    with pytest.raises(KeyError), paused_collector():
        raise KeyError
    assert gc.isenabled()


def test_a_collector_that_the_user_stopped_stays_stopped():
    gc.disable()
    try:
        tg.grad(lambda x: np.sum(np.sin(x)))(np.ones(3))
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_users_function_runs_with_the_collector():
    seen = []

    def f(x):
        seen.append(gc.isenabled())
        return np.sum(x * x)

    tg.value_and_grad(f)(np.ones(3))
    assert seen
    assert all(seen)
    assert gc.isenabled()
