"""Emitted derivatives beside those written by hand: as right, and no longer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from transforms import by_hand

import tracegrad as tg
from golden.models import MODELS
from golden.statements import count_statements
from tracegrad.ir.tree import Leaf, build, leaves, map_leaves, restore

NAMES = sorted(n for n in vars(by_hand) if n.endswith(("_jvp", "_hvp")))
# Statements that the emitted source may have for each one written by hand.
LIMIT = 1.5


def parts(x):
    return [leaf.value for leaf in leaves(build(x, Leaf))]


def moved(x, rng):
    made = map_leaves(build(x, Leaf), lambda v: rng.normal(size=np.shape(v))[()])
    return restore(made, lambda v: v)


@pytest.mark.parametrize("name", NAMES)
def test_by_hand(name):
    of, kind = name[:-4], name[-3:]
    model = MODELS[of]
    args = model.args()
    argnums = model.argnums if isinstance(model.argnums, tuple) else (model.argnums,)
    rng = np.random.default_rng(0)
    tangents = tuple(
        moved(x, rng) if i in argnums else None for i, x in enumerate(args)
    )
    transform = getattr(tg, kind)(model.function)
    got = transform(args, tangents)
    present = [t for t in tangents if t is not None]
    want = getattr(by_hand, name)(*args, *present)
    for have, expected in zip(parts(got), parts(want), strict=True):
        np.testing.assert_allclose(have, expected, rtol=1e-9, atol=1e-10)
    text = str(transform.source(args, tangents))
    emitted = count_statements(text, name)
    hand = count_statements(Path(by_hand.__file__).read_text(), name)
    assert emitted <= LIMIT * hand, f"{emitted} statements, {hand} by hand\n{text}"
