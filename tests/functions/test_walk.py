"""Every function of the list, as users write it: value, derivative, dtype.

What docs/coverage.md says of the library is what is measured here.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy
from functions.calls import CALLS, inputs
from functions.measure import (
    differentiated,
    of_autograd,
    of_jax,
    ours,
    plain,
    total,
)

import tracegrad as tg

DOCS = Path(__file__).resolve().parents[2] / "docs"
MEASURED = json.loads((DOCS / "measured.json").read_text())
STORED = {call["text"]: call for call in MEASURED["calls"]}
FIRST = list({call.name: call for call in reversed(CALLS)}.values())[::-1]
PARTS = 12

# Where the dtype depends on the values, or on the release of NumPy and SciPy.
OTHERWISE = ("np.linalg.eig", "np.linalg.eigvals", "scipy.linalg.logm")
OTHERWISE += ("scipy.integrate.simpson",)


def check(calls):
    wrong = []
    for call in calls:
        found = ours(call)
        if found[0] != "right":
            wrong.append((call.text, *found))
    assert not wrong


@pytest.mark.parametrize("part", range(PARTS))
def test_one_call_of_every_function(part):
    check(FIRST[part::PARTS])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_call(part):
    check(CALLS[part::PARTS])


def test_the_page_is_of_these_calls():
    assert [call.text for call in CALLS] == list(STORED)
    assert {call.name for call in CALLS} == {call["name"] for call in STORED.values()}
    assert {call["tracegrad"][0] for call in STORED.values()} == {"right"}


def narrow(x):
    return x.astype({"f": np.float32, "c": np.complex64}.get(x.dtype.kind, x.dtype))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_single_precision_stays_single_precision(part):
    space = {"np": np, "scipy": scipy}
    for call in CALLS[part::PARTS]:
        args = [narrow(inputs()[name]) for name in call.names]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            want = plain(call)(*args)
            made = tg.compile(call.function(space))(*args)
            f = total(call.function(space), np)
            grads = tg.grad(f, argnums=differentiated(args))(*args)
        if not isinstance(want, tuple | list) and call.name not in OTHERWISE:
            assert np.asarray(made).dtype == np.asarray(want).dtype, call.text
            np.testing.assert_allclose(
                made, want, rtol=3e-4, atol=3e-4, err_msg=call.text
            )
        for d, k in zip(grads, differentiated(args), strict=True):
            assert d.dtype == args[k].dtype, call.text


@pytest.mark.slow
def test_a_sample_of_what_the_page_says_of_others():
    pytest.importorskip("autograd")
    for library, measured in (("autograd", of_autograd), ("jax", of_jax)):
        for call in CALLS[::25]:
            assert measured(call)[0] == STORED[call.text][library][0], call.text
