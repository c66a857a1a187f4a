"""Derivatives through solvers."""

from __future__ import annotations

import functools
import runpy
import sys

import numpy as np
import pytest
import scipy.optimize
from transforms import solvers

import tracegrad as tg

B = np.array([1.0, 2.0, 3.0])
CUBIC = tg.implicit_root(solvers.cubic, lambda x, a, b: x**3 + a * x - b)


def slope(f, x, step=1e-4):
    return (8 * (f(x + step) - f(x - step)) - f(x + 2 * step) + f(x - 2 * step)) / (
        12 * step
    )


def test_gradients():
    f = lambda a, b: np.sum(CUBIC(a, b) ** 2)
    d_a, d_b = tg.grad(f, argnums=(0, 1))(2.0, B)
    np.testing.assert_allclose(d_a, slope(lambda a: f(a, B), 2.0), rtol=1e-7)
    x = CUBIC(2.0, B)
    np.testing.assert_allclose(d_b, 2 * x / (3 * x**2 + 2.0), rtol=1e-9)
    np.testing.assert_allclose(x, solvers.cubic(2.0, B))
    hessian = tg.hessian(f, argnums=1)(2.0, B)
    d = 3 * x**2 + 2.0
    np.testing.assert_allclose(np.diag(hessian), 2 / d**2 - 12 * x**2 / d**3, rtol=1e-7)
    _, t_x = tg.jvp(lambda b: CUBIC(2.0, b), (B,), (np.ones(3),))
    np.testing.assert_allclose(t_x, 1.0 / d, rtol=1e-9)


def test_scalars_matrices_and_local_solvers():
    root = tg.implicit_root(
        lambda a: scipy.optimize.brentq(lambda x: np.exp(x) * x - a, 0.0, 10.0),
        lambda x, a: np.exp(x) * x - a,
    )
    x = root(2.0)
    np.testing.assert_allclose(tg.grad(root)(2.0), 1.0 / ((1 + x) * np.exp(x)))
    lyapunov = tg.implicit_root(
        lambda a, q: scipy.linalg.solve_continuous_lyapunov(a, q),
        lambda x, a, q: a @ x + x @ a.T - q,
    )
    a, q = np.array([[-1.0, 0.3], [0.1, -2.0]]), np.eye(2)
    f = lambda a: np.sum(lyapunov(a, q) ** 2)
    moved = np.array([[0.5, 1.0], [-1.0, 0.2]])
    got = np.sum(tg.grad(f)(a) * moved)
    np.testing.assert_allclose(got, slope(lambda h: f(a + h * moved), 0.0), rtol=1e-7)


def test_source_and_saved_file(tmp_path):
    f = lambda a, b: np.sum(CUBIC(a, b) ** 2)
    g = tg.grad(f)
    source = g.source(2.0, B)
    assert f"from {solvers.__name__} import cubic" in str(source)
    assert "def cubic_root_bwd(" in str(source)
    path = source.save(tmp_path / "saved.py")
    sys.modules.setdefault("solvers", solvers)
    space: dict = {"__file__": str(path)}
    exec(compile(path.read_text(), str(path), "exec"), space)
    assert space[source.name](2.0, B) == g(2.0, B)
    local = tg.implicit_root(lambda a: np.sqrt(a), lambda x, a: x * x - a)
    made = tg.grad(lambda a: local(a) * 2.0)
    np.testing.assert_allclose(made(4.0), 0.5)
    with pytest.raises(tg.ArgumentError, match="no module has under its name"):
        made.source(4.0).save(tmp_path / "local.py")


def test_fixed_point():
    point = tg.fixed_point(lambda x, a: 0.5 * (x + a / x))
    assert point(1.0, 4.0) == 2.0
    d_start, d_a = tg.grad(point, argnums=(0, 1))(1.0, 4.0)
    assert d_start == 0.0
    np.testing.assert_allclose(d_a, 0.25)
    second = tg.grad(tg.grad(point, argnums=1), argnums=1)(1.0, 4.0)
    np.testing.assert_allclose(second, -0.25 * 4.0**-1.5)
    text = str(tg.grad(point, argnums=1).source(1.0, 4.0))
    assert "while " in text

    w = 0.3 * np.array([[0.5, -1.0], [1.0, 0.2]])
    layer = tg.fixed_point(lambda x, w, b: np.tanh(w @ x + b))
    f = lambda w: np.sum(layer(np.zeros(2), w, np.ones(2)) ** 2)
    moved = np.array([[0.5, 1.0], [-1.0, 0.2]])
    got = np.sum(tg.grad(f)(w) * moved)
    np.testing.assert_allclose(got, slope(lambda h: f(w + h * moved), 0.0), rtol=1e-7)


A, ROWS = np.array([1.0, 2.0, 3.0]), np.arange(6.0).reshape(3, 2) + 0.5


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda a, b: np.sum(CUBIC(a, b) ** 2), (A, ROWS)),
        (
            lambda a, b: tg.fixed_point(lambda x, a: np.tanh(a * x + 0.5))(0.1, a) * b,
            (A / 4, A),
        ),
    ],
)
def test_batches(f, args):
    """Values, gradients and gradients of batches, as one example after the other."""
    each = lambda g: np.stack([g(*row) for row in zip(*args, strict=True)])
    np.testing.assert_allclose(tg.vmap(f)(*args), each(f), rtol=1e-12)
    for k in range(2):
        slopes = each(tg.grad(f, argnums=k))
        got = tg.vmap(tg.grad(f, argnums=k))(*args)
        np.testing.assert_allclose(got, slopes, rtol=1e-9)
        total = lambda *a: np.sum(tg.vmap(f)(*a))
        got = tg.grad(total, argnums=k)(*args)
        np.testing.assert_allclose(got, slopes, rtol=1e-9)


def test_a_loop_over_a_solver_is_visible_and_can_be_refused():
    text = str(tg.vmap(CUBIC).source(A, ROWS))
    assert "cubic() has no batched form: it is written once for each example." in text
    with pytest.raises(
        tg.UnsupportedError, match=r"cubic\(\) has no batching rule"
    ) as e:
        tg.vmap(CUBIC, strict=True)(A, ROWS)
    assert len(str(e.value).splitlines()) == 4
    # Repeated steps are traced, and so batched.
    step = tg.fixed_point(lambda x, a: np.tanh(a * x + 0.5))
    tg.vmap(lambda a: step(0.1, a), strict=True)(A / 4)


def test_errors():
    with pytest.raises(tg.ArgumentError, match=r"tg\.implicit_root takes a function"):
        tg.implicit_root(3.0, lambda x: x)
    wrong = tg.implicit_root(lambda a: np.ones(2) * a, lambda x, a: np.sum(x) - a)
    with pytest.raises(tg.TracegradError):
        tg.grad(lambda a: np.sum(wrong(a)))(1.0)
    with pytest.raises(tg.ConversionError, match="from the types alone"):
        tg.grad(lambda b: np.sum(CUBIC(2.0, b))).source(tg.spec("f8[3]"))


def test_jax_calls_the_solver_on_the_host(tmp_path):
    jax = pytest.importorskip("jax")
    f = lambda a, b: np.sum(CUBIC(a, b) ** 2)
    for b in (B, B.astype("float32"), B[:2]):
        for make in (tg.grad, functools.partial(tg.grad, argnums=1), tg.hessian):
            wanted, got = make(f)(2.0, b), make(f, backend="jax")(2.0, b)
            assert got.dtype == np.asarray(wanted).dtype
            close = 1e-5 if b.itemsize < 8 else 1e-9
            np.testing.assert_allclose(got, wanted, rtol=close)
    source = tg.grad(f, argnums=1, backend="jax").source(2.0, B)
    path = source.save(tmp_path / "root.py")
    space = runpy.run_path(str(path))
    with jax.enable_x64(True):
        got = jax.jit(space["function_grad"])(2.0, B)
        rows = jax.vmap(space["function_grad"], in_axes=(0, None))(np.array([2.0]), B)
    np.testing.assert_allclose(got, tg.grad(f, argnums=1)(2.0, B), rtol=1e-9)
    np.testing.assert_allclose(rows[0], got, rtol=1e-9)
