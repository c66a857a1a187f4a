"""Derivatives by differences, for functions without a rule."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy import special

import tracegrad as tg

Q = np.array([1.0, 2.0, 3.0])


def analytic(a, b):
    return np.exp(a) * np.sin(b)


def level(q):
    return np.sum(np.sin(tg.numerical(special.mathieu_a)(2, q)) * q)


@pytest.mark.parametrize("method", ["central", "complex"])
def test_all_modes_against_the_formula(method):
    f = tg.numerical(analytic, method=method)
    a, b = Q, 0.5 * Q
    rtol = 1e-14 if method == "complex" else 1e-9
    np.testing.assert_array_equal(tg.compile(f)(a, b), analytic(a, b))
    out, pullback = tg.vjp(f, a, b)
    d_a, d_b = pullback(Q)
    np.testing.assert_allclose(d_a, Q * out, rtol=rtol)
    np.testing.assert_allclose(d_b, Q * np.exp(a) * np.cos(b), rtol=rtol)
    _, t = tg.jvp(f, (a, b), (Q, np.ones(3)))
    np.testing.assert_allclose(t, Q * out + np.exp(a) * np.cos(b), rtol=rtol)
    total = lambda a, b: np.sum(f(a, b))
    want = [
        [analytic(a, b), np.exp(a) * np.cos(b)],
        [np.exp(a) * np.cos(b), -analytic(a, b)],
    ]
    for made in (
        tg.hessian(total, argnums=(0, 1))(a, b),
        tg.jacrev(tg.grad(total, argnums=(0, 1)), argnums=(0, 1))(a, b),
    ):
        for row, wanted in zip(made, want, strict=True):
            for d, w in zip(row, wanted, strict=True):
                np.testing.assert_allclose(d, np.diag(w), rtol=1e-5, atol=1e-4)


def test_arrays_numbers_and_dtypes():
    f = tg.numerical(lambda x, n: np.linalg.norm(x) ** n)
    x = np.array([[1.0, -2.0], [0.5, 3.0]])
    d_x = tg.grad(f)(x, 3)
    np.testing.assert_allclose(d_x, 3.0 * np.linalg.norm(x) * x, rtol=1e-8)
    np.testing.assert_allclose(tg.grad(tg.numerical(np.sin))(0.5), np.cos(0.5))
    narrow = tg.grad(lambda x: np.sum(tg.numerical(np.sin)(x)))(np.float32([0.5, 1.0]))
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow, np.cos([0.5, 1.0]), rtol=1e-3)


def test_batches():
    f = tg.numerical(np.sin)
    np.testing.assert_array_equal(tg.vmap(f)(Q), np.sin(Q))
    np.testing.assert_allclose(tg.vmap(tg.grad(f))(Q), np.cos(Q), rtol=1e-9)
    rows = tg.vmap(tg.numerical(lambda x: np.sort(x)[:2] * x[0]))(np.outer(Q, Q))
    assert rows.shape == (3, 2)


def test_it_shows_in_the_source_and_in_the_saved_file(tmp_path):
    g = tg.grad(level)
    source = g.source(Q)
    text = str(source)
    assert "from scipy.special import mathieu_a" in text
    assert "central_differences(mathieu_a, (2, q), 1, " in text
    path = source.save(tmp_path / "saved.py")
    program = (
        "import sys; sys.modules['tracegrad'] = None; import numpy, saved;"
        "print(*saved.level_grad(numpy.array([1.0, 2.0, 3.0])))"
    )
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.path.insert(0, {str(path.parent)!r})\n{program}",
        ],
        capture_output=True,
        text=True,
    )
    assert ran.stderr == ""
    np.testing.assert_allclose([float(x) for x in ran.stdout.split()], g(Q), rtol=1e-15)


def test_errors():
    with pytest.raises(tg.UnsupportedError, match=r"tg\.numerical\(scipy\.special"):
        tg.grad(lambda x: special.mathieu_a(2, x))(1.0)
    with pytest.raises(tg.ArgumentError, match="takes a function"):
        tg.numerical(3.0)
    with pytest.raises(tg.ArgumentError, match="method='forward' is none of"):
        tg.numerical(np.sin, method="forward")
    with pytest.raises(tg.DTypeError, match="complex numbers"):
        tg.vjp(tg.numerical(np.sin), np.array([1j]))
    with pytest.raises(tg.ConversionError, match="from the types alone"):
        tg.grad(lambda x: np.sum(tg.numerical(np.sin)(x))).source(tg.spec("f8[3]"))
    with pytest.raises(tg.UnsupportedError, match="by differences takes NumPy arrays"):
        tg.grad(level, backend="jax").source(Q)
