"""`backend="jax"`: the same results, from `jax.numpy` source under `jax.jit`."""

import subprocess
import sys

import numpy as np
import pytest

import tracegrad as tg

jax = pytest.importorskip("jax")


def loss(params, x, y, mode="mean", power=2):
    r = np.tanh(x @ params["w"]) * params["b"] - y
    return np.mean(r**power) if mode == "mean" else np.sum(r**power)


PARAMS = {"w": np.array([0.5, -1.0]), "b": 2.0}
X = np.arange(6.0).reshape(3, 2) / 5
Y = np.ones(3)


def test_agrees_with_numpy_in_float64() -> None:
    for mode in ("mean", "sum"):
        one = tg.value_and_grad(loss)(PARAMS, X, Y, mode)
        g = tg.value_and_grad(loss, backend="jax")
        for _ in range(2):
            two = g(PARAMS, X, Y, mode=mode)
            assert isinstance(two[0], jax.Array)
            assert two[0].dtype == np.float64
            assert two[1]["w"].dtype == np.float64
            np.testing.assert_allclose(two[0], one[0], rtol=1e-12)
            np.testing.assert_allclose(two[1]["w"], one[1]["w"], rtol=1e-12)
            np.testing.assert_allclose(two[1]["b"], one[1]["b"], rtol=1e-12)
    assert "import jax.numpy as jnp" in str(g.source())


def test_float32_stays() -> None:
    params = {"w": PARAMS["w"].astype("f4"), "b": np.float32(2.0)}
    d = tg.grad(loss, backend="jax")(params, X.astype("f4"), Y.astype("f4"))
    assert d["w"].dtype == d["b"].dtype == np.float32


def test_settings_of_the_user_stay() -> None:
    before = jax.config.jax_enable_x64
    tg.grad(lambda x: np.sum(x**2), backend="jax")(X)
    assert jax.config.jax_enable_x64 == before
    wanted = np.float64 if before else np.float32
    assert jax.numpy.ones(3).dtype == wanted


def test_jax_arrays_are_arguments() -> None:
    g = tg.grad(lambda x: np.sum(x**3), backend="jax")
    x = jax.numpy.arange(3, dtype="float32")
    d = g(x)
    assert d.dtype == np.float32
    np.testing.assert_allclose(d, 3 * np.arange(3.0) ** 2)
    with pytest.raises(tg.ArgumentError, match="not a NumPy array"):
        tg.grad(lambda x: np.sum(x))(x)


def test_sizes_static_parts_and_vjp() -> None:
    g = tg.value_and_grad(loss, backend="jax")
    for n in (3, 4, 5, 6):
        x, y = np.ones((n, 2)), np.arange(float(n))
        value, _ = g(PARAMS, x, y)
        np.testing.assert_allclose(value, loss(PARAMS, x, y), rtol=1e-12)
    assert len(g.specializations()) == 1
    out, pullback = tg.vjp(lambda x: {"a": np.sin(x), "tag": "t"}, X, backend="jax")
    assert out["tag"] == "t"
    (d,) = pullback({"a": np.ones((3, 2)), "tag": "t"})
    np.testing.assert_allclose(d, np.cos(X), rtol=1e-12)
    f = tg.compile(lambda x: (x, {"name": "s", "none": None}), backend="jax")
    assert f(X)[1] == {"name": "s", "none": None}


def test_without_jax(tmp_path) -> None:
    code = """
import sys
sys.modules["jax"] = None
import tracegrad as tg
try:
    tg.grad(lambda x: x * x, backend="jax")(3.0)
except tg.UnsupportedError as error:
    print(error)
print(tg.grad(lambda x: x * x)(3.0))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        'backend="jax" needs JAX, which is not installed',
        "  fix: pip install 'tracegrad[jax]', or use backend=\"numpy\"",
        "6.0",
    ]


def test_an_index_outside_is_an_error() -> None:
    """JAX would take the last element without a word."""
    for index in (4, -4):
        g = tg.grad(lambda x, i=index: x[i] ** 2, backend="jax")
        np.testing.assert_allclose(g(np.ones(5))[index], 2.0)
        np.testing.assert_allclose(g(np.ones(6))[index], 2.0)
        assert len(g.specializations()) == 1
        with pytest.raises(IndexError, match=f"index {index} is out of bounds"):
            g(np.ones(3))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(x * np.interp(x, np.arange(4.0), np.linspace(0, 1, 4) ** 2)),
        lambda x: np.sum(x * (np.arange(5.0) ** 2)[np.argsort(x)]),
        lambda x: np.sum(np.bincount([0, 1, 3], weights=x, minlength=4) ** 2),
    ],
)
def test_captured_arrays_computed_with_and_read_at_traced_places(f) -> None:
    x = np.array([1.3, 0.4, 2.2])
    found = tg.value_and_grad(f, backend="jax")(x)
    np.testing.assert_allclose(found[0], f(x), rtol=1e-12)
    slopes = [(f(x + h) - f(x - h)) / 2e-6 for h in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(found[1], slopes, rtol=1e-6)
