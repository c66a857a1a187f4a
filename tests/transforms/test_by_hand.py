"""Emitted derivatives beside those written by hand: as right, and no longer."""

from __future__ import annotations

import numpy as np
import pytest
from transforms import by_hand
from transforms.texts import DOCS, EMITTED, PAGE, STATEMENTS, pushed

from tracegrad.ir.tree import Leaf, build, leaves

# Statements that the emitted source may have for each one written by hand.
LIMIT = 1.5


def parts(x):
    return [leaf.value for leaf in leaves(build(x, Leaf))]


def test_five_of_each_kind():
    kinds = [name.rpartition("_")[2] for name in STATEMENTS]
    for kind in ("jvp", "hvp", "hessian", "vmap"):
        assert kinds.count(kind) >= 5


@pytest.mark.parametrize("name", STATEMENTS)
def test_by_hand(name):
    made, args = EMITTED[name]
    want = getattr(by_hand, name)(*pushed(args))
    for have, expected in zip(parts(made(*args)), parts(want), strict=True):
        np.testing.assert_allclose(have, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_longer_than_by_hand(name):
    emitted, hand = STATEMENTS[name]
    made, args = EMITTED[name]
    text = str(made.source(*args))
    assert emitted <= LIMIT * hand, f"{emitted} statements, {hand} by hand\n{text}"


def test_the_page_is_written():
    assert (DOCS / "statements_of_transforms.md").read_text() == PAGE
