"""Subscripts of every form, read and written, and the functions that pick elements."""

import random

import numpy as np
import pytest
from ops.calls import (
    RECORDED,
    Call,
    at,
    check,
    gradient_of,
    method,
    sample,
    store,
    update,
)

from tracegrad.errors import ArgumentError, DTypeError, OutOfBoundsError, ShapeError
from tracegrad.ir.dims import Dim
from tracegrad.ir.graph import Value
from tracegrad.ir.types import ArrayType
from tracegrad.ops.index import names_once, read
from tracegrad.ops.infer import decider
from tracegrad.ops.record import Builder

X = sample(2, 3, 4)
M = sample(3, 4, seed=1)
V = sample(4, seed=2)
MASK = np.array([True, False, True])

KEYS = {
    "int": 1,
    "negative": -1,
    "ints": (1, -2, 0),
    "slice": slice(1, None),
    "slices": (slice(None, -1), slice(None, None, 2)),
    "backwards": (slice(None), slice(None, None, -1)),
    "backwards-two": (Ellipsis, slice(None, None, -2)),
    "out-of-range-slice": slice(5, 9),
    "empty-slice": (slice(None), slice(2, 1)),
    "new-axis": None,
    "new-axes": (slice(None), None, Ellipsis, None),
    "ellipsis": (Ellipsis, 0),
    "whole": Ellipsis,
    "nothing": (),
    "mixed": (None, Ellipsis, slice(1, 3), 0),
    "list": [1, 0, 1],
    "nested-list": [[0, 1], [1, 1]],
    "array": (slice(None), np.array([2, 0, 2])),
    "negative-array": (slice(None), np.array([-1, 0])),
    "empty-list": [],
    "pairs": (np.array([0, 1, 0]), np.array([2, 0, 2])),
    "apart": (np.array([0, 1, 0]), slice(None), np.array([2, 0, 2])),
    "array-and-int": (np.array([0, 1]), slice(None), 2),
    "int-and-array": (1, slice(None), np.array([3, 3])),
    "int-beside-array": (slice(None), 1, np.array([3, 3])),
    "array-and-new-axis": (np.array([0, 1]), None, np.array([2, 0])),
    "broadcast-arrays": (np.array([[0], [1]]), np.array([2, 0, 1])),
    "grid": np.ix_([0, 1], [1, 1, 2]),
    "zero-d": np.array(1),
    "numpy-int": (np.int64(1), np.int8(-1)),
    "mask": (slice(None), MASK),
    "mask-list": (slice(None), [True, False, True]),
    "empty-mask": (slice(None), np.zeros(3, dtype=bool)),
    "mask-and-array": (np.array([0, 1]), MASK),
    "mask-of-two-axes": sample(2, 3) > 0,
    "whole-mask": X > 0,
    "mask-first": (np.array([True, False]), slice(None), [1, 2, 2]),
}


@pytest.mark.parametrize("name", KEYS)
def test_read(name):
    key = KEYS[name]
    check(lambda np, x: at(x, *key) if isinstance(key, tuple) else at(x, key), X)


def random_key(rng: random.Random, shape: tuple):
    """A valid subscript for an array of `shape`, all forms mixed."""
    entries, axis, width = [], 0, rng.choice([1, 3])
    with_ellipsis = rng.random() < 0.3
    stop = rng.randint(0, len(shape))
    while axis < stop:
        size = shape[axis]
        form = rng.choice(["int", "slice", "new", "array", "array", "mask", "pair"])
        if form == "new":
            entries.append(None)
            continue
        if form == "int":
            entries.append(rng.randrange(-size, size))
        elif form == "slice":
            bounds = [rng.choice([None, *range(-size - 1, size + 2)]) for _ in range(2)]
            entries.append(slice(*bounds, rng.choice([None, 1, 2, -1, -2])))
        elif form == "array":
            entries.append(np.array([rng.randrange(-size, size) for _ in range(width)]))
        elif form == "pair":
            entries.append(
                np.array([[rng.randrange(size)] * width, [rng.randrange(size)] * width])
            )
        else:
            mask = np.zeros(size, dtype=bool)
            mask[rng.sample(range(size), min(width, size))] = True
            entries.append(mask)
        axis += 1
    if with_ellipsis:
        entries.insert(rng.randint(0, len(entries)), Ellipsis)
    return tuple(entries)


def test_random_subscripts_as_numpy():
    rng = random.Random(7)
    x = sample(3, 1, 4, 3)
    seen = 0
    while seen < 400:
        key = random_key(rng, x.shape)
        try:
            want = x[key]
        except IndexError:
            continue
        seen += 1
        call = Call(lambda np, x, key=key: at(x, *key), [x])
        assert call.results[0].type.shape == np.shape(want), key
        np.testing.assert_array_equal(call.run()[0], want)
        cts = np.random.default_rng(seen).normal(size=np.shape(want))
        (g,) = call.gradient([cts])
        expected = np.zeros_like(x)
        np.add.at(expected, key, cts)
        np.testing.assert_allclose(g, expected, err_msg=str(key))


def test_random_writes_as_numpy():
    rng = random.Random(11)
    x = sample(3, 1, 4, 3)
    seen = 0
    while seen < 200:
        key = random_key(rng, x.shape)
        try:
            shape = np.shape(x[key])
        except IndexError:
            continue
        seen += 1
        value = np.random.default_rng(seen).normal(size=shape)
        call = Call(lambda np, x, v, key=key: store(x, key, v), [x, value])
        want = x.copy()
        want[key] = value
        np.testing.assert_array_equal(call.run()[0], want, err_msg=str(key))
        # Where an element is written twice, the last value has the slope.
        ct = np.random.default_rng(seen + 1).normal(size=x.shape)
        of_x, of_value = call.gradient([ct])
        owner = np.full(x.shape, -1)
        owner[key] = np.arange(value.size).reshape(shape)
        np.testing.assert_array_equal(of_x, np.where(owner == -1, ct, 0.0))
        expected = np.zeros(value.size)
        expected[owner[owner >= 0]] = ct[owner >= 0]
        np.testing.assert_array_equal(of_value.ravel(), expected)


def test_traced_index_arrays():
    rows, columns = np.arange(3), np.array([3, 0, 3])
    check(lambda np, x, i: at(x, i), M, np.array([2, 0, 2]))
    check(lambda np, x, i: at(x, rows, i), M, columns)
    check(lambda np, x, i: at(x, [0, 1, 1], i), M, columns)
    check(lambda np, x, i: at(x, i), V, np.int64(2))
    check(lambda np, x, i: at(x, slice(None), i), M, np.int64(-1))
    check(lambda np, x, i: store(x, i, 5.0), V, np.array([1, 1]))


def test_a_traced_mask_asks_for_its_count(monkeypatch):
    with pytest.raises(ShapeError, match="number of true elements"):
        Call(lambda np, x, m: at(x, m), [V, V > 0])
    monkeypatch.setattr(decider, "count", lambda mask: int((V > 0).sum()))
    check(lambda np, x, m: at(x, m), V, V > 0)
    check(lambda np, x: at(x, x > 0), V, smooth=False)
    check(lambda np, x: np.nonzero(x > 0), V)
    check(lambda np, x: np.where(x > 0), V)
    (g,) = gradient_of(lambda np, x: np.sum(at(x, x > 0) ** 2), V)
    np.testing.assert_allclose(g, 2 * V * (V > 0))


def test_repeated_indices_add_up():
    weights = np.array([1.0, 2.0, 3.0, 4.0])
    (g,) = gradient_of(lambda np, x: np.sum(weights * at(x, [0, 0, 2, 0])), V)
    np.testing.assert_array_equal(g, [7.0, 0.0, 3.0, 0.0])


def test_what_is_known_to_be_named_once():
    x = np.zeros((5, 5))
    assert names_once(x, (np.array([3, 0, 1]),))
    assert names_once(x, (np.arange(5), np.array([1, 1, 1, 2, 2])))
    assert names_once(x, (np.array([True] * 5),))
    assert names_once(x, (np.int64(1), np.int64(2)))
    assert not names_once(x, (np.array([3, 3]),))
    assert not names_once(x, (np.array([4, -1]),))
    assert not names_once(x, (np.array([[0], [1]]), np.array([2, 3])))
    ref = Builder().wrap(Value(ArrayType((3,), np.dtype("i8"))))
    assert not names_once(x, (ref,))


def test_subscripts_that_only_move_elements_pull_back_without_zeros():
    def ops(key):
        call = Call(lambda np, x: at(x, *key), [sample(3, 1)])
        before = len(call.builder.nodes)
        call.gradient([np.ones(call.results[0].type.shape)])
        return [n.op.name for n in call.builder.nodes[before:]]

    for key in [
        (slice(None), None),
        (slice(None), 0),
        (None,),
        (slice(None, None, -1),),
    ]:
        assert ops(key) == ["getitem"]
    assert ops((Ellipsis,)) == []
    assert "scatter_add" in ops((slice(1, None),))


WRITES = {
    "int": lambda np, x, v: store(x, 1, v),
    "slice": lambda np, x, v: store(x, (slice(None), slice(1, 3)), 2.0 * at(v, 0)),
    "row": lambda np, x, v: store(x, slice(None), v),
    "column": lambda np, x, v: store(x, (slice(None), 0), at(v, 1)),
    "leading-ones": lambda np, x, v: store(x, 2, at(v, None, None)),
    "whole": lambda np, x, v: store(x, Ellipsis, v),
    "add-at": lambda np, x, v: update((np.add, "at"), x, [0, 0, 2], v),
    "subtract-at": lambda np, x, v: update((np.subtract, "at"), x, (0, [1, 1]), 3.0),
    "copyto": lambda np, x, v: update(np.copyto, x, v),
    "fill": lambda np, x, v: update("fill", x, at(v, 2)),
    "fill-diagonal": lambda np, x, v: update(np.fill_diagonal, x, at(v, 0)),
    "sort": lambda np, x, v: update("sort", x),
}


@pytest.mark.parametrize("name", WRITES)
def test_write(name):
    f = WRITES[name]
    check(lambda _, x, v: f(np, x, v), M, V)


def test_put_along_axis():
    order = np.argsort(M, axis=1)[:, :2]
    check(
        lambda _, x, v: update(np.put_along_axis, x, order, v, 1),
        M,
        sample(3, 2, seed=5),
    )


def test_writes_keep_the_dtype_of_the_array():
    x, v = sample(4, dtype="float32"), np.float64(1.5)
    call = Call(lambda np, x, v: store(x, 0, v), [x, v])
    assert call.run()[0].dtype == np.float32
    of_x, of_v = call.gradient([np.ones(4, np.float32)])
    assert of_x.dtype == np.float32
    assert of_v.dtype == np.float64
    call = Call(lambda np, x, v: store(x, 0, v), [np.arange(3), np.float64(1.7)])
    np.testing.assert_array_equal(call.run()[0], [1, 1, 2])


PICKS = {
    "take": lambda np, x: np.take(x, [1, 1, 0], axis=1),
    "take-flat": lambda np, x: np.take(x, [[5, 1], [7, 7]]),
    "take-method": lambda np, x: method(x, "take", [0, -1], axis=-1),
    "take-int": lambda np, x: np.take(x, 2, axis=0),
    "take-wrap": lambda np, x: np.take(x, [5, -7], axis=0, mode="wrap"),
    "take-clip": lambda np, x: np.take(x, [5, -7], axis=0, mode="clip"),
    "take-along": lambda np, x: np.take_along_axis(x, np.argsort(M, axis=1), axis=1),
    "take-along-0": lambda np, x: np.take_along_axis(x, np.argsort(M, 0)[:2], axis=0),
    "take-along-broadcast": lambda np, x: np.take_along_axis(
        x, np.array([[1]]), axis=1
    ),
    "compress": lambda np, x: np.compress([True, False, True], x, axis=0),
    "compress-short": lambda np, x: np.compress([False, True], x, axis=1),
    "extract": lambda np, x: np.extract(M > 0, x),
    "select": lambda np, x: np.select([x > 1.0, x < -1.0], [x * x, 3.0 * x], 0.5),
    "searchsorted": lambda np, x: np.searchsorted(np.array([-1.0, 0.0, 1.0]), x),
    "argsort": lambda np, x: np.argsort(x, axis=0),
    "argsort-flat": lambda np, x: method(x, "argsort", None),
    "pick-argmax": lambda np, x: at(x, slice(None), np.argmax(x, axis=1)),
    "sorted-by": lambda np, x: np.take_along_axis(x, np.argsort(x, axis=1), axis=1),
}


@pytest.mark.parametrize("name", PICKS)
def test_pick(name):
    check(PICKS[name], M)


def test_picks_without_traced_values_are_numpy():
    for name, f in PICKS.items():
        np.testing.assert_array_equal(f(RECORDED, M), f(np, M), err_msg=name)
    for got, want in zip(RECORDED.ix_([0, 1], [2]), np.ix_([0, 1], [2]), strict=True):
        np.testing.assert_array_equal(got, want)


# ----------------------------------------------------------------------- symbolic sizes
def test_symbolic_slices():
    n = Dim.named("n")
    x = Builder().wrap(Value(ArrayType((n, 3), np.dtype("f8"))))
    assert read(x, slice(1, None)).shape == (n - 1, 3)
    assert read(x, slice(None, None, 2)).shape == ((n + 1) // 2, 3)
    assert read(x, (slice(None), None, 0)).shape == (n, 1)
    assert read(x, 7).shape == (3,)  # NumPy checks it at the call
    assert read(x, (slice(0, n - 1), 0)).shape == (n - 1,)


# ------------------------------------------------------------------------------- errors
def test_errors():
    def fails(key, error, text):
        with pytest.raises(error, match=text):
            Call(lambda np, x: at(x, *key), [M])

    fails((3,), OutOfBoundsError, "index 3 is out of bounds for axis 0 with size 3")
    fails((0, -5), OutOfBoundsError, "index -5 is out of bounds for axis 1 with size 4")
    fails(
        (slice(None), [0, 4]), OutOfBoundsError, "index 4 is out of bounds for axis 1"
    )
    fails((0, 0, 0), OutOfBoundsError, "too many indices: the array has 2 axes")
    fails((Ellipsis, Ellipsis), OutOfBoundsError, "only one")
    fails(([0.5],), DTypeError, "an index must be an int or a mask, not float64")
    fails((True,), DTypeError, "is a single bool")
    fails((np.array([True, False]),), ShapeError, "a mask of shape")
    fails((slice(None, None, 0),), ArgumentError, "cannot be zero")
    with pytest.raises(ShapeError, match="does not fit into a place of shape"):
        Call(lambda np, x: store(x, 0, np.ones(3)), [M])
    with pytest.raises(DTypeError, match="complex value"):
        Call(lambda np, x: store(x, 0, 1j), [M])
