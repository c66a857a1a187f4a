"""The table of functions, and the page made from it."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import ArgumentError

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize(
    ("name", "derivative"),
    [
        ("np.tanh", "yes"),
        ("np.sort", "yes"),
        ("np.argsort", "constant"),
        ("np.floor", "constant"),
        ("np.floor_divide", "constant"),
        ("np.interp", "yes"),
        ("np.abs", "yes"),
        ("np.absolute", "yes"),
        ("np.histogram", "yes"),
        ("np.linalg.norm", "yes"),
        ("np.add.reduce", "yes"),
        ("np.put_along_axis", "yes"),
        ("np.vectorize", "yes"),
        ("np.packbits", "no"),
        ("ndarray.cumsum", "yes"),
        ("ndarray.T", "yes"),
        ("math.exp", "yes"),
        ("math.floor", "constant"),
        ("scipy.special.erf", "yes"),
        ("np.no_such_function", "no"),
    ],
)
def test_derivative(name, derivative):
    assert tg.support(name).derivative == derivative


def test_a_function_or_its_name():
    assert tg.support(np.maximum) == tg.support("np.maximum")
    assert "taken" in tg.support(np.maximum).notes
    with pytest.raises(ArgumentError):
        tg.support(3.0)


def test_table():
    table = tg.support()
    names = [e.name for e in table]
    assert names == sorted(names, key=str.lower)
    assert table["np.tanh"] in table
    assert "np.tanh" in str(table)
    assert table[0] is next(iter(table))


def test_the_page_is_not_stale():
    """Run `python docs/make_coverage.py` if it is."""
    spec = importlib.util.spec_from_file_location("cover", DOCS / "make_coverage.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = (DOCS / "coverage.md").read_text()
    version = ".".join(np.__version__.split(".")[:2])
    if f"with NumPy {version};" not in written:
        pytest.skip("the page was made with another NumPy")
    assert module.page() == written
