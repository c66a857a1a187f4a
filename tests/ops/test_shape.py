"""Shapes, joins, repeats and diagonals as users call them."""

import numpy as np
import pytest
from ops.calls import (
    RECORDED,
    Call,
    at,
    attribute,
    check,
    gradient_of,
    method,
    sample,
)

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ir.dims import Dim
from tracegrad.ir.graph import Value
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import ACCEPT, METHODS
from tracegrad.ops.record import Builder

X = sample(2, 3, 4)
M = sample(3, 4, seed=1)
V = sample(4, seed=2)
S = sample(3, 3, seed=3)
ONES = sample(1, 3, 1, seed=4)

SHAPES = {
    "reshape": lambda np, x: np.reshape(x, (4, -1)),
    "reshape-method": lambda np, x: method(x, "reshape", 2, 12),
    "reshape-list": lambda np, x: method(x, "reshape", [6, 4]),
    "reshape-fortran": lambda np, x: np.reshape(x, (6, 4), order="F"),
    "ravel": lambda np, x: np.ravel(x),
    "ravel-fortran": lambda np, x: method(x, "ravel", "F"),
    "flatten": lambda np, x: method(x, "flatten"),
    "transpose": lambda np, x: np.transpose(x),
    "transpose-axes": lambda np, x: np.transpose(x, (1, -1, 0)),
    "transpose-method": lambda np, x: method(x, "transpose", 0, 2, 1),
    "T": lambda np, x: attribute(x, "T"),
    "mT": lambda np, x: attribute(x, "mT"),
    "matrix-transpose": lambda np, x: np.matrix_transpose(x),
    "swapaxes": lambda np, x: method(x, "swapaxes", 0, -1),
    "moveaxis": lambda np, x: np.moveaxis(x, 0, -1),
    "moveaxis-two": lambda np, x: np.moveaxis(x, (0, 1), (-1, 0)),
    "rollaxis": lambda np, x: np.rollaxis(x, 2),
    "rollaxis-start": lambda np, x: np.rollaxis(x, 0, 3),
    "expand-dims": lambda np, x: np.expand_dims(x, 1),
    "expand-dims-last": lambda np, x: np.expand_dims(x, -1),
    "expand-dims-two": lambda np, x: np.expand_dims(x, (0, -1)),
    "atleast": lambda np, x: np.atleast_3d(x),
    "broadcast-to": lambda np, x: np.broadcast_to(x, (5, 2, 3, 4)),
    "flip": lambda np, x: np.flip(x),
    "flip-axes": lambda np, x: np.flip(x, (0, -1)),
    "fliplr": lambda np, x: np.fliplr(x),
    "flipud": lambda np, x: np.flipud(x),
    "rot90": lambda np, x: np.rot90(x),
    "rot90-back": lambda np, x: np.rot90(x, -1, (1, 2)),
    "rot180": lambda np, x: np.rot90(x, 2),
    "rot360": lambda np, x: np.rot90(x, 4),
    "roll": lambda np, x: np.roll(x, 5),
    "roll-axes": lambda np, x: np.roll(x, (1, -2), axis=(0, 2)),
    "roll-one-shift": lambda np, x: np.roll(x, 2, axis=(0, 1)),
    "copy": lambda np, x: np.copy(x),
    "copy-method": lambda np, x: method(x, "copy"),
    "tile": lambda np, x: np.tile(x, (2, 1, 3)),
    "tile-number": lambda np, x: np.tile(x, 2),
    "tile-more-axes": lambda np, x: np.tile(x, (2, 1, 1, 2)),
    "repeat": lambda np, x: np.repeat(x, 2),
    "repeat-axis": lambda np, x: method(x, "repeat", 3, axis=1),
    "repeat-list": lambda np, x: np.repeat(x, [1, 0, 2], axis=1),
    "pad": lambda np, x: np.pad(x, 1),
    "pad-pairs": lambda np, x: np.pad(x, ((0, 0), (1, 2), (0, 1)), "constant"),
    "pad-value": lambda np, x: np.pad(x, (1, 2), constant_values=3.0),
    "pad-edge": lambda np, x: np.pad(x, ((2, 1), (0, 0), (3, 3)), mode="edge"),
    "pad-symmetric": lambda np, x: np.pad(x, ((2, 1), (0, 0), (3, 3)), "symmetric"),
    "pad-wrap": lambda np, x: np.pad(x, 2, mode="wrap"),
    "split": lambda np, x: np.split(x, 2, axis=-1),
    "split-at": lambda np, x: np.split(x, [1, 3], axis=2),
    "array-split": lambda np, x: np.array_split(x, 3, axis=2),
    "hsplit": lambda np, x: np.hsplit(x, 3),
    "vsplit": lambda np, x: np.vsplit(x, 2),
    "dsplit": lambda np, x: np.dsplit(x, [2]),
    "diff": lambda np, x: np.diff(x),
    "diff-twice": lambda np, x: np.diff(x, n=2, axis=1),
    "diff-ends": lambda np, x: np.diff(x, prepend=0.0, append=1.5),
    "ediff1d": lambda np, x: np.ediff1d(x, to_begin=[0.5]),
    "trapezoid": lambda np, x: np.trapezoid(x, dx=0.5, axis=1),
    "diagonal": lambda np, x: np.diagonal(x, 1, 1, 2),
    "diagonal-apart": lambda np, x: np.diagonal(x, axis1=2, axis2=0),
    "diagonal-method": lambda np, x: method(x, "diagonal", -1),
    "trace": lambda np, x: np.trace(x, axis1=1, axis2=2),
    "trace-apart": lambda np, x: np.trace(x, 1, 2, 0),
    "linalg-trace": lambda np, x: np.linalg.trace(x, offset=1),
    "tril": lambda np, x: np.tril(x, k=-1),
    "triu": lambda np, x: np.triu(x, 1),
}


@pytest.mark.parametrize("name", SHAPES)
def test_call(name):
    check(SHAPES[name], X)


OTHERS = {
    "squeeze": (lambda np, x: np.squeeze(x), ONES),
    "squeeze-axis": (lambda np, x: method(x, "squeeze", -1), ONES),
    "squeeze-to-scalar": (lambda np, x: np.squeeze(x) * 1.0, np.array([[1.5]])),
    "diag": (lambda np, x: np.diag(x, 1), V),
    "diag-of-matrix": (lambda np, x: np.diag(x, -1), M),
    "diagflat": (lambda np, x: np.diagflat(x), S),
    "trace-tall": (lambda np, x: np.trace(x), sample(4, 2)),
    "trace-wide": (lambda np, x: method(x, "trace", 1), M),
    "tril-of-vector": (lambda np, x: np.tril(x), V),
    "atleast-1d": (lambda np, x: np.atleast_1d(x), np.array(2.0)),
    "atleast-2d": (lambda np, x: np.atleast_2d(x), V),
    "atleast-3d": (lambda np, x: np.atleast_3d(x), M),
    "ravel-scalar": (lambda np, x: np.ravel(x), np.array(2.0)),
    "tile-scalar": (lambda np, x: np.tile(x, 3), np.array(2.0)),
    "expand-scalar": (lambda np, x: np.expand_dims(x, 0), np.array(2.0)),
    "pad-empty": (lambda np, x: np.pad(x, 2), np.zeros(0)),
    "hsplit-vector": (lambda np, x: np.hsplit(x, 2), V),
    "trapezoid-x": (lambda np, x: np.trapezoid(x, np.cumsum(x), axis=0), V + 3.0),
    "trapezoid-axis": (lambda np, x: np.trapezoid(x, at(x, 0), axis=0), S),
    "unstack": (lambda np, x: tuple(at(x, i) for i in range(3)), S),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_call(name):
    f, x = OTHERS[name]
    check(f, x)


JOINED = {
    "concatenate": lambda np, a, b: np.concatenate((a, b, np.ones((1, 4)))),
    "concatenate-axis": lambda np, a, b: np.concatenate([a, b, a], axis=-1),
    "concatenate-flat": lambda np, a, b: np.concatenate([a, b], axis=None),
    "concatenate-dtype": lambda np, a, b: np.concatenate([a, b], dtype="complex128"),
    "stack": lambda np, a, b: np.stack([a, b], axis=-1),
    "stack-first": lambda np, a, b: np.stack((a, b)),
    "vstack": lambda np, a, b: np.vstack([a, b]),
    "hstack": lambda np, a, b: np.hstack([a, b]),
    "dstack": lambda np, a, b: np.dstack([a, b]),
    "column-stack": lambda np, a, b: np.column_stack([a, b]),
    "append": lambda np, a, b: np.append(a, b),
    "append-axis": lambda np, a, b: np.append(a, b, axis=1),
    "block": lambda np, a, b: np.block([[a, b], [b, np.zeros((3, 4))]]),
    "array": lambda np, a, b: np.array([a, b]),
    "array-nested": lambda np, a, b: np.array([[a, b], [b, a]]),
    "array-with-list": lambda np, a, b: np.array([at(a, 0), [1.0, 2.0, 3.0, 4.0]]),
    "array-of-one": lambda np, a, b: np.array(a) * b,
    "asarray": lambda np, a, b: np.asarray([a, b], dtype="complex128"),
    "ndmin": lambda np, a, b: np.array(a, ndmin=4),
    "broadcast-arrays": lambda np, a, b: np.broadcast_arrays(a, at(b, 0)),
    "meshgrid": lambda np, a, b: np.meshgrid(at(a, 0), at(b, 1)),
    "meshgrid-ij": lambda np, a, b: np.meshgrid(at(a, 0), at(b, 1), indexing="ij"),
    "meshgrid-3": lambda np, a, b: np.meshgrid(at(a, 0), at(b, 1), at(b, 2)),
    "meshgrid-sparse": lambda np, a, b: np.meshgrid(at(a, 0), at(b, 1), sparse=True),
}


@pytest.mark.parametrize("name", JOINED)
def test_join(name):
    check(JOINED[name], M, sample(3, 4, seed=7))


VECTORS = {
    "vstack": lambda np, a, b: np.vstack([a, b]),
    "hstack": lambda np, a, b: np.hstack([a, b]),
    "dstack": lambda np, a, b: np.dstack([a, b]),
    "column-stack": lambda np, a, b: np.column_stack([a, b]),
    "block": lambda np, a, b: np.block([a, b]),
    "concatenate-list": lambda np, a, b: np.concatenate([a, [1.0], b]),
}


@pytest.mark.parametrize("name", VECTORS)
def test_join_vectors(name):
    check(VECTORS[name], V, sample(4, seed=8))


def test_arrays_of_scalars():
    c, s = np.array(0.3), np.array(0.8)
    check(lambda np, c, s: np.array([[c, -s], [s, c]]), c, s)
    check(lambda np, c, s: np.array([c, 1, s * c, 2.5]), c, s)
    check(lambda np, c, s: np.stack([c, s]), c, s)
    check(lambda np, c, s: np.sum([c, s, 2.0]), c, s)


def test_an_array_of_float32_and_python_numbers_is_float64_as_in_numpy():
    check(lambda np, x: np.array([x, 2.0]), np.float32(0.5), smooth=False)


@pytest.mark.parametrize("name", ["reshape", "tile", "repeat", "roll", "pad", "diff"])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "complex128"])
def test_dtypes(name, dtype):
    check(SHAPES[name], sample(2, 3, 4, dtype=dtype), smooth=False)


def test_calls_without_traced_values_are_numpy():
    for name, f in SHAPES.items():
        got, want = f(RECORDED, X), f(np, X)
        got, want = (
            list(r) if isinstance(r, list | tuple) else [r] for r in (got, want)
        )
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=name)


def test_a_scalar_gradient_of_one_element_has_the_shape_of_the_array():
    for f in (
        lambda np, x: method(x, "reshape", ()),
        lambda np, x: at(x, 0, 0),
        lambda np, x: np.squeeze(x),
        lambda np, x: np.sum(x),
        lambda np, x: np.trace(x),
    ):
        (g,) = gradient_of(f, np.array([[2.0]]))
        np.testing.assert_array_equal(g, [[1.0]])


# ----------------------------------------------------------------------- symbolic sizes
def named(*shape):
    sizes = [Dim.named(s) if isinstance(s, str) else s for s in shape]
    return Builder().wrap(Value(ArrayType(tuple(sizes), np.dtype("f8"))))


def test_symbolic_shapes():
    n = Dim.named("n")
    x = named("n", 6)
    assert METHODS["reshape"](x, -1).shape == (6 * n,)
    assert METHODS["reshape"](x, n, -1, 2).shape == (n, 3, 2)
    assert METHODS["reshape"](x, 2, -1).shape == (2, 3 * n)
    assert ACCEPT[np.ravel](x).shape == (6 * n,)
    assert ACCEPT[np.concatenate]([x, x, np.ones((2, 6))]).shape == (2 * n + 2, 6)
    assert ACCEPT[np.stack]([x, x], axis=1).shape == (n, 2, 6)
    assert ACCEPT[np.tile](x, (2, 1)).shape == (2 * n, 6)
    assert ACCEPT[np.repeat](x, 3, axis=0).shape == (3 * n, 6)
    assert ACCEPT[np.pad](x, ((1, 2), (0, 0))).shape == (n + 3, 6)
    assert ACCEPT[np.diff](x, axis=0).shape == (n - 1, 6)
    assert [p.shape for p in ACCEPT[np.split](x, 3, axis=1)] == [(n, 2)] * 3
    assert ACCEPT[np.broadcast_to](named("n"), (4, n)).shape == (4, n)
    assert ACCEPT[np.diag](named("n"), 1).shape == (n + 1, n + 1)


# ------------------------------------------------------------------------------- errors
def test_errors():
    with pytest.raises(ShapeError, match="24 elements, does not fit"):
        Call(lambda np, x: np.reshape(x, (5, -1)), [X])
    with pytest.raises(ShapeError, match="24 elements, does not fit"):
        Call(lambda np, x: np.reshape(x, (5, 5)), [X])
    with pytest.raises(ShapeError, match="axis 1 has size 3, and only axes of size 1"):
        Call(lambda np, x: np.squeeze(x, 1), [X])
    with pytest.raises(ShapeError, match="cannot be joined along axis 0"):
        Call(lambda np, x: np.concatenate([x, np.ones((2, 2, 2))]), [X])
    with pytest.raises(ShapeError, match="cannot be stacked"):
        Call(lambda np, x: np.stack([x, np.ones(3)]), [X])
    with pytest.raises(ShapeError, match="different lengths"):
        Call(lambda np, a: np.array([[a, a], [a]]), [np.array(1.0)])
    with pytest.raises(ShapeError, match="does not split into 3 equal parts"):
        Call(lambda np, x: np.split(x, 3), [X])
    with pytest.raises(ArgumentError, match=r"np.pad\(mode=...\) is not supported"):
        Call(lambda np, x: np.pad(x, 1, mode="mean"), [X])
    with pytest.raises(ShapeError, match="do not broadcast together"):
        Call(lambda np, x: np.broadcast_to(x, (3, 3, 4)), [X])
    with pytest.raises(ShapeError, match="axes"):
        Call(lambda np, x: np.transpose(x, (0, 1)), [X])
