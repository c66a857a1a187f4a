"""`tg.spec`: what it reads, and what it says of what it can't read."""

import numpy as np
import pytest

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ir.dims import named
from tracegrad.runtime.spec import spec


@pytest.mark.parametrize(
    ("text", "shape", "dtype"),
    [
        ("f8[n, 10]", (named("n"), 10), "f8"),
        ("f4[]", (), "f4"),
        ("f2[3]", (3,), "f2"),
        ("c8[2*n + 1]", (2 * named("n") + 1,), "c8"),
        ("c16[n//2, max(n, 3),]", (named("n") // 2, None), "c16"),
        ("i1[1]", (1,), "i1"),
        ("u8[0]", (0,), "u8"),
        ("bool[n]", (named("n"),), "bool"),
        ("b1[n]", (named("n"),), "bool"),
        (" float32 [ n , m ] ", (named("n"), named("m")), "f4"),
    ],
)
def test_arrays(text, shape, dtype) -> None:
    found = spec(text).type
    assert len(found.shape) == len(shape)
    for have, wanted in zip(found.shape, shape, strict=True):
        assert wanted is None or have == wanted
    assert found.dtype == np.dtype(dtype)
    assert not found.weak
    assert repr(spec(text)).startswith('tg.spec("')
    assert eval(repr(spec(text)).removeprefix("tg.")) == spec(text)


@pytest.mark.parametrize("text", ["float", "int", "complex"])
def test_python_numbers(text) -> None:
    found = spec(text).type
    assert found.shape == ()
    assert found.weak
    assert repr(spec(text)) == f'tg.spec("{text}")'


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("f8", ArgumentError, 'it has no sizes\n  in:  tg.spec\n  fix: write "f8[]"'),
        ("g8[3]", ArgumentError, "tg.spec cannot read 'g8[3]'"),
        ("U5[3]", ArgumentError, "write a dtype such as f4, f8"),
        ("f8[n", ArgumentError, "tg.spec cannot read"),
        ("", ArgumentError, "tg.spec cannot read ''"),
        ("f8[-1]", ShapeError, "the size -1 in 'f8[-1]' is negative"),
        ("f8[n/2]", ShapeError, "cannot read the size 'n/2'"),
        ("f8[n, , 2]", ShapeError, "cannot read the size ''"),
        ("f8[__import__('os')]", ShapeError, "cannot read the size"),
        (np.ones(3), ArgumentError, "tg.spec takes a text"),
    ],
)
def test_errors(text, error, words) -> None:
    with pytest.raises(error) as caught:
        spec(text)
    assert words in str(caught.value)
