"""New arrays: filled with traced values, spaced between traced ends, symbolic sizes."""

import numpy as np
import pytest
from ops.calls import RECORDED, Call, check, gradient_of, sample

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ir.dims import Dim
from tracegrad.ir.graph import Value
from tracegrad.ir.types import ArrayType
from tracegrad.ops.create import arange, eye, full, zeros
from tracegrad.ops.define import ACCEPT
from tracegrad.ops.record import Builder

M = sample(2, 3)
SCALAR = np.array(1.5)

FILLED = {
    "full": lambda np, v: np.full((2, 3), v),
    "full-size": lambda np, v: np.full(4, v),
    "full-dtype": lambda np, v: np.full(3, v, dtype=np.complex128),
    "full-like": lambda np, v: np.full_like(M, v),
    "full-like-shape": lambda np, v: np.full_like(M, v, shape=(2, 2)),
    "linspace": lambda np, v: np.linspace(v, 4.0, 5),
    "linspace-stop": lambda np, v: np.linspace(-1.0, v * v, 4, endpoint=False),
    "linspace-one": lambda np, v: np.linspace(v, 4.0, 1),
    "linspace-none": lambda np, v: np.linspace(v, 4.0, 0),
    "linspace-array": lambda np, v: np.linspace(v, [1.0, 2.0], 4),
    "linspace-axis": lambda np, v: np.linspace(v, [1.0, 2.0], 4, axis=-1),
    "linspace-dtype": lambda np, v: np.linspace(v, 2.0, 3, dtype="complex128"),
    "logspace": lambda np, v: np.logspace(v, 2.0, 4),
    "geomspace": lambda np, v: np.geomspace(v, 9.0, 4),
}


@pytest.mark.parametrize("name", FILLED)
def test_traced_values(name):
    check(FILLED[name], SCALAR)


def test_full_with_an_array():
    check(lambda np, v: np.full((2, 3), v), sample(3))


def test_linspace_between_two_traced_ends():
    check(lambda np, a, b: np.linspace(a, b, 5), SCALAR, np.array(4.0))
    check(lambda np, a, b: np.linspace(a, b, 3), sample(2, 1), sample(3))


@pytest.mark.parametrize("dtype", ["float32", "int32", "float64", "complex64"])
def test_dtypes(dtype):
    v = np.asarray(2).astype(dtype)
    for name in ("full", "full-size", "linspace"):
        call = Call(FILLED[name], [v])
        want = FILLED[name](np, v)
        assert call.run()[0].dtype == want.dtype == call.results[0].type.dtype, name
    call = Call(lambda np, v: np.linspace(v, v + v, 4), [v])
    assert call.run()[0].dtype == np.linspace(v, v + v, 4).dtype


LIKE = {
    "zeros": lambda np, x: np.zeros_like(x),
    "ones": lambda np, x: np.ones_like(x, dtype="float32"),
    "zeros-shape": lambda np, x: np.zeros_like(x, shape=(3, 1)),
}


@pytest.mark.parametrize("name", LIKE)
def test_like_a_traced_array(name):
    check(LIKE[name], M, smooth=False)


def test_a_new_array_takes_no_gradient():
    (g,) = gradient_of(lambda np, x: np.sum(np.ones_like(x) * x), M)
    np.testing.assert_array_equal(g, np.ones((2, 3)))


PLAIN = {
    "zeros": lambda np: np.zeros((2, 3)),
    "zeros-size": lambda np: np.zeros(4, dtype=int),
    "ones": lambda np: np.ones([2, 2], "float32"),
    "full": lambda np: np.full((2,), 7),
    "full-float": lambda np: np.full(2, 7.5),
    "eye": lambda np: np.eye(3, 4, k=1),
    "identity": lambda np: np.identity(3),
    "arange": lambda np: np.arange(3, 10, 2),
    "arange-stop": lambda np: np.arange(4),
    "arange-float": lambda np: np.arange(0.0, 1.0, 0.25),
    "linspace": lambda np: np.linspace(0, 1, 5),
    "size": lambda np: np.size(M),
    "size-axis": lambda np: np.size(M, 1),
    "shape": lambda np: np.shape(M),
    "ndim": lambda np: np.ndim([[1.0]]),
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_calls_are_numpy(name):
    got, want = PLAIN[name](RECORDED), PLAIN[name](np)
    np.testing.assert_array_equal(got, want)
    assert np.asarray(got).dtype == np.asarray(want).dtype
    assert type(got) is type(want)


def test_symbolic_sizes():
    n = Dim.named("n")
    builder = Builder()
    assert builder.record(zeros, (), {"shape": (n, 3)}).shape == (n, 3)
    assert builder.record(eye, (), {"n": n, "m": n + 1}).shape == (n, n + 1)
    assert builder.record(arange, (), {"stop": n}).shape == (n,)
    assert builder.record(arange, (), {"start": 1, "stop": n}).shape == (n - 1,)
    x = builder.wrap(Value(ArrayType((), np.dtype("f8"))))
    assert full(x, shape=(n, 2)).shape == (n, 2)
    rows = builder.wrap(Value(ArrayType((n, 3), np.dtype("f8"))))
    assert ACCEPT[np.size](rows) == 3 * n
    assert ACCEPT[np.shape](rows) == (n, 3)


def test_errors():
    with pytest.raises(ArgumentError, match="size that depends on data"):
        Call(lambda np, v: np.arange(v), [SCALAR])
    with pytest.raises(ArgumentError, match="0 numbers or more"):
        Call(lambda np, v: np.linspace(v, 1.0, -1), [SCALAR])
    with pytest.raises(ShapeError, match="do not broadcast"):
        Call(lambda np, v: np.full((2, 3), v), [sample(2)])
