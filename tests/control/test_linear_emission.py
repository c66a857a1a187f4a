"""How often parts of a program are written, by counting calls."""

from collections import Counter

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.codegen.control import ControlLowering

X = np.array([[1.2, 0.5], [1.3, 0.4]])


def turning(turns):
    def f(x):
        s = x[0] * x[1]
        for k in range(turns):
            if s > x[k % 2]:
                s = np.sin(s) * x[1] + x[0]
            else:
                s = s * s + x[1]
            while s < 1.0:
                s = s * x[0] + 0.5 + s * s
        return s

    return f


@pytest.mark.parametrize("order", [tg.grad, tg.hessian])
def test_each_loop_is_written_once(order, monkeypatch):
    """The number of turns of a loop is no part of a line that could be made before."""
    written: Counter = Counter()
    widths = [0]
    statement, width = ControlLowering._statement, ControlLowering._width

    def counted_statement(self, node):
        if node.regions:
            written[id(node)] += 1
            kept.append(node)
        return statement(self, node)

    def counted_width(self, *args):
        widths[-1] += 1
        return width(self, *args)

    monkeypatch.setattr(ControlLowering, "_statement", counted_statement)
    monkeypatch.setattr(ControlLowering, "_width", counted_width)
    for turns in (1, 2, 3):
        kept: list = []
        written.clear()
        widths.append(0)
        f = turning(turns)
        found = tg.vmap(order(f))(X)
        assert set(written.values()) == {1}
        np.testing.assert_allclose(found, [order(f)(x) for x in X], rtol=1e-12)
    first, second, third = widths[1:]
    assert third - second <= 2 * (second - first) + 50
