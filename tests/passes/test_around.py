"""Stores that no read sees are dropped, and no others."""

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.ir.dims import named
from tracegrad.ir.index import Slice
from tracegrad.passes.around import disjoint

ENTRIES = [0, 1, -1, -2, 4, Slice(1, None), Slice(None, -1), Slice(None, 2), Slice()]
ENTRIES += [Slice(None, None, 2), Slice(1, None, 2), Slice(-2, None), Slice(3, 1, -1)]
ENTRIES += [Slice(2, 4), Slice(-4, -2), Slice(None, None, -2), Slice(5, None)]


@pytest.mark.parametrize("size", [5, 6, "n"])
def test_disjoint_subscripts(size) -> None:
    """Exact for numbers; for a name, true for every size or not claimed."""
    sizes = [size] if type(size) is int else range(5, 12)
    dim = size if type(size) is int else named(size)
    claims = 0
    for a in ENTRIES:
        for b in ENTRIES:
            apart = []
            for n in sizes:
                both = np.zeros((2, n), bool)
                for row, entry in zip(both, (a, b), strict=True):
                    plain = isinstance(entry, int)
                    at = entry if plain else slice(entry.start, entry.stop, entry.step)
                    row[at] = True
                apart.append(not both.all(axis=0).any())
            claimed = disjoint((a,), (b,), (dim,))
            claims += claimed
            assert claimed <= all(apart), (a, b)
            if type(size) is int:
                assert claimed == apart[0], (a, b)
    assert claims > 20


def test_second_axis_and_arrays() -> None:
    every = Slice()
    assert disjoint((every, 0), (every, 1), (3, 4))
    assert not disjoint((0,), (every, 1), (3, 4))
    assert not disjoint((None, 0), (None, 1), (3, 4))


def test_parts_written_once_are_read_without_copies() -> None:
    def function(x):
        out = np.zeros(6)
        out[0] = x[0]
        out[1::2] = np.sin(x[:3])
        out[2::2] = x[1:3] * x[2:]
        return np.sum(out**3)

    x = np.array([0.3, -0.4, 1.2, 0.7])
    g = tg.grad(function)
    for i in range(4):
        step = np.eye(4)[i] * 1e-6
        want = (function(x + step) - function(x - step)) / 2e-6
        np.testing.assert_allclose(g(x)[i], want, rtol=1e-7)
    assert "copy()" not in str(g.source(x))


def test_parts_read_again_stay_zeroed() -> None:
    def function(x):
        out = x * 2.0
        out[1] = x[0]
        out[1:] *= x[1:]
        return np.sum(out)

    x = np.array([0.3, -0.4, 1.2])
    want = [2.0 + x[1], x[0], 4.0 * x[2]]
    np.testing.assert_allclose(tg.grad(function)(x), want)
