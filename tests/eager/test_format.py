"""Printed tensors, compared with PyTorch to the character."""

import re

import numpy as np
import pytest
from eager.both import torch

import tracegrad.eager as ours
from tracegrad.eager.format import get_printoptions, printoptions

NAN, INF = float("nan"), float("inf")
LISTS = [
    1.5,
    3,
    True,
    2.0,
    NAN,
    -INF,
    1e10,
    1e-7,
    123456.789,
    0.1 + 2j,
    1 - 1e-6j,
    [],
    [[]],
    [0.0, -0.0],
    [1.0, 2.0, 3.0],
    [1.0, -2.5, 1000.25],
    [1.0, 1e5],
    [1e-5, 1.0],
    [0.1, 99.0, 101.0],
    [1.0, 1e8],
    [1.0, 2e8],
    [9999.0, 1.5],
    [1e-4, 1e-2],
    [NAN, 1.0],
    [NAN, 1.5, INF],
    [INF, -INF, 2e9],
    [NAN, NAN],
    [True, False],
    [[True], [False]],
    [1, -20, 300],
    [[1, 2], [3, 4]],
    [[1.0, 2.5], [-3.0, 40.0]],
    [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]],
    [[[[0.5]]], [[[1e-9]]]],
    [1 + 2j, 3.5 - 4j],
    [1e6 + 2j, 3.5 - 4e-7j],
    [complex(NAN, 1), complex(1, INF)],
    list(range(60)),
    [k / 7 for k in range(40)],
    [2.0**k for k in range(-10, 20)],
]
DTYPES = "float16 float32 float64 int8 int32 int64 uint8 bool complex64 complex128"


def texts(program):
    """What `program` prints with PyTorch, and here."""
    addresses = re.compile(r"0x[0-9a-fA-F]+")
    return [addresses.sub("0x", str(program(t))) for t in (torch, ours)]


@pytest.mark.parametrize("values", LISTS, ids=lambda v: str(v)[:30])
def test_values(values):
    wanted, got = texts(lambda t: t.tensor(values))
    assert got == wanted


@pytest.mark.parametrize("name", DTYPES.split())
def test_dtypes(name):
    for shape in [(), (0,), (2, 0), (3,), (2, 3), (2, 2, 2)]:
        data = np.linspace(0, 3.75, int(np.prod(shape))).reshape(shape)
        for scale in (1, 30):
            made = np.asarray((data * scale).astype(name))
            wanted, got = texts(lambda t, d=made: t.from_numpy(np.array(d)))
            assert got == wanted


@pytest.mark.parametrize(
    "shape",
    [
        (1001,),
        (1000,),
        (50, 50),
        (2, 600),
        (600, 2),
        (20, 20, 20),
        (3, 400, 2),
        (7, 200),
    ],
)
def test_long_ones(shape, rng):
    for scale in (1.0, 1e-6, 1e3):
        data = rng.normal(size=shape) * scale
        for dtype in ("float32", "int64", "complex64", "bool"):
            made = data.astype(dtype)
            wanted, got = texts(lambda t, d=made: t.from_numpy(np.array(d)))
            assert got == wanted


def test_random_ones(rng):
    for _ in range(300):
        shape = tuple(rng.integers(0, 5, size=rng.integers(0, 4)).tolist())
        data = rng.normal(size=shape) * 10.0 ** rng.uniform(-6, 9)
        data = data * 10.0 ** (rng.normal(size=shape) * rng.choice([0, 1, 3]))
        if rng.random() < 0.2:
            data = np.round(data)
        data = np.where(rng.random(shape) < 0.1 * (rng.random() < 0.3), np.nan, data)
        dtype = rng.choice(["float32", "float64", "float16", "complex64"])
        with np.errstate(over="ignore"):
            data = data.astype(dtype)
        wanted, got = texts(lambda t, d=data: t.from_numpy(np.array(d)))
        assert got == wanted


HISTORIES = [
    lambda t: t.ones(2, 2, requires_grad=True),
    lambda t: t.ones(2, 2, requires_grad=True) + 2,
    lambda t: t.ones(3, dtype=t.float64, requires_grad=True) * 3,
    lambda t: t.ones(4, 5, requires_grad=True).sum(),
    lambda t: t.ones(4, 5, requires_grad=True).mean(),
    lambda t: t.ones(20, requires_grad=True).exp(),
    lambda t: t.ones(9, requires_grad=True).expand(2, 9),
    lambda t: t.ones(10, dtype=t.float64, requires_grad=True).cos().view(2, 5),
    lambda t: t.zeros(0, 3, dtype=t.float64, requires_grad=True),
    lambda t: t.nn.Parameter(t.ones(3)),
    lambda t: t.nn.Parameter(t.ones(3), requires_grad=False),
    lambda t: [t.ones(2), t.zeros(1)],
    lambda t: t.tensor([[1.0, 5.0], [7.0, 2.0]]).max(dim=1),
    lambda t: t.ones(3, requires_grad=True)[0],
    lambda t: f"{t.ones(2)} {t.tensor(1.5)} {t.tensor(2):03d}",
    lambda t: t.ones(2).shape,
    lambda t: t.ones(2, requires_grad=True).exp().grad_fn,
]


@pytest.mark.parametrize("program", HISTORIES)
def test_histories(program):
    wanted, got = texts(program)
    assert got == wanted


def test_default_dtype():
    def program(t):
        before = t.get_default_dtype()
        t.set_default_dtype(t.float64)
        try:
            return [t.ones(2), t.tensor([1j]), t.ones(2).float(), t.ones(0)]
        finally:
            t.set_default_dtype(before)

    wanted, got = texts(program)
    assert got == wanted


@pytest.mark.parametrize(
    "options",
    [
        {"precision": 2},
        {"precision": 8, "linewidth": 40},
        {"threshold": 5},
        {"threshold": 5, "edgeitems": 1},
        {"threshold": 5, "edgeitems": 0},
        {"sci_mode": True},
        {"sci_mode": False},
        {"profile": "short"},
        {"profile": "full", "precision": 1},
    ],
)
def test_options(options):
    def program(t):
        t.set_printoptions(**options)
        try:
            parts = [
                t.arange(12),
                t.arange(40).reshape(10, 4) / 3,
                t.tensor([1e-8, 3.0]),
                t.tensor([2.0, 3.0, NAN]),
                t.ones(30, 50),
                t.tensor([1 + 2.5j] * 7),
            ]
            return "\n".join(map(str, parts))
        finally:
            t.set_printoptions(profile="default")

    wanted, got = texts(program)
    assert got == wanted


def test_options_are_restored():
    before = get_printoptions()
    with printoptions(precision=1):
        assert str(ours.tensor(1.25)) == "tensor(1.2)"
    assert get_printoptions() == before


def test_subclasses():
    class Mine(ours.Tensor):
        pass

    class Theirs(torch.Tensor):
        pass

    Theirs.__name__ = "Mine"
    made = Mine.__new__(Mine)
    made._data = np.ones((2, 3), np.float32)
    assert str(made) == str(torch.ones(2, 3).as_subclass(Theirs))
