"""numpy.fft as users call it: sizes, axes, scalings, real and complex."""

import numpy as np
import pytest
import scipy.fft
from ops.calls import Call, check, sample

import tracegrad as tg
from tracegrad.errors import ArgumentError, DTypeError, ShapeError
from tracegrad.ops.define import ACCEPT

NORMS = [None, "backward", "ortho", "forward"]
ONE_AXIS = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
TWO_AXES = ["fft2", "ifft2", "rfft2", "irfft2"]
SEVERAL = ["fftn", "ifftn", "rfftn", "irfftn"]
OF_REAL = {"rfft", "ihfft", "rfft2", "rfftn"}


def data(name, *shape):
    return sample(*shape, dtype="float64" if name in OF_REAL else "complex128")


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", [None, 1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("name", ONE_AXIS)
def test_sizes(name, n, norm):
    check(lambda np, x: getattr(np.fft, name)(x, n, norm=norm), data(name, 4))


@pytest.mark.parametrize("axis", [0, 1, -2])
@pytest.mark.parametrize("name", ONE_AXIS)
def test_axes(name, axis):
    x = data(name, 3, 4, 2)
    check(lambda np, x: getattr(np.fft, name)(x, axis=axis), x)
    check(lambda np, x: getattr(np.fft, name)(x, 5, axis), x)


@pytest.mark.parametrize("name", [n for n in ONE_AXIS if n not in OF_REAL])
def test_real_input_of_complex_transforms(name):
    check(lambda np, x: getattr(np.fft, name)(x), sample(5))


@pytest.mark.parametrize("name", TWO_AXES + SEVERAL)
@pytest.mark.parametrize("norm", ["ortho", "forward"])
def test_planes(name, norm):
    f = lambda np, x, **how: getattr(np.fft, name)(x, norm=norm, **how)
    x = data(name, 2, 3, 4)
    check(f, x)
    check(lambda np, x: f(np, x, axes=(0, 1)), x)
    check(lambda np, x: f(np, x, axes=(1, 0)), x)
    check(lambda np, x: f(np, x, s=(2, 6), axes=(2, 1)), x)
    check(lambda np, x: f(np, x, s=(5, -1), axes=(-1, 0)), x)


@pytest.mark.parametrize("name", SEVERAL)
def test_all_axes_and_one(name):
    x = data(name, 2, 3, 3)
    check(lambda np, x: getattr(np.fft, name)(x), x)
    check(lambda np, x: getattr(np.fft, name)(x, axes=(1,)), x)
    check(lambda np, x: getattr(np.fft, name)(x, (2, 2, 4), (0, 1, 2)), x)


@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
@pytest.mark.parametrize("axes", [None, 0, (0, 1), (-1,)])
def test_shifts(name, axes):
    check(lambda np, x: getattr(np.fft, name)(x, axes), sample(3, 4))


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies(name):
    check(lambda np, d: getattr(np.fft, name)(5, d), np.array(0.3))
    np.testing.assert_array_equal(
        ACCEPT[getattr(np.fft, name)](6, 0.1), getattr(np.fft, name)(6, 0.1)
    )


@pytest.mark.parametrize("name", [*ONE_AXIS, *TWO_AXES, *SEVERAL, "fftshift"])
def test_scipy_spells_the_same(name):
    x = data(name, 3, 4)
    call = Call(lambda np, x: ACCEPT[f"scipy.fft:{name}"](x), [x])
    np.testing.assert_allclose(call.run()[0], getattr(scipy.fft, name)(x), rtol=1e-12)
    f = lambda x: getattr(scipy.fft, name)(x)
    np.testing.assert_allclose(tg.compile(f)(x), f(x), rtol=1e-12)
    loss = lambda x: np.sum(np.abs(f(x)) ** 2)
    of_numpy = lambda x: np.sum(np.abs(getattr(np.fft, name)(x)) ** 2)
    np.testing.assert_allclose(tg.grad(loss)(x), tg.grad(of_numpy)(x), rtol=1e-10)


def test_functions_of_scipy_fft_by_their_own_name():
    from scipy.fft import ihfft, rfft

    f = lambda x: np.sum(np.abs(rfft(x, 6, norm="ortho")) ** 3 + np.abs(ihfft(x, 6)))
    x = sample(5)
    rises = [(f(x + h) - f(x - h)) / 2e-6 for h in 1e-6 * np.eye(5)]
    np.testing.assert_allclose(tg.grad(f)(x), rises, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
@pytest.mark.parametrize("name", ["fft", "rfft", "irfft"])
def test_dtypes(name, dtype):
    x = np.array([1, 0, 1, 1], dtype)
    check(lambda np, x: getattr(np.fft, name)(x), x, smooth=False)


def test_single_precision_stays():
    x = sample(6).astype(np.float32)
    loss = tg.grad(lambda x: np.sum(np.abs(np.fft.rfft(x)) ** 2))
    assert loss(x).dtype == np.float32
    np.testing.assert_allclose(loss(x), loss(x.astype(float)), rtol=1e-5)


def test_second_derivative_of_a_filter():
    x, gains = sample(6), np.array([1.0, 0.5, 0.2, 0.0])

    def smooth(x):
        return np.fft.irfft(gains * np.fft.rfft(x), 6)

    def slope(x):
        return np.sum(tg.grad(lambda x: np.sum(smooth(x) ** 3))(x) ** 2)

    matrix = smooth(np.eye(6)).T
    inner = matrix @ x
    gradient = matrix.T @ (3 * inner**2)
    want = 2 * matrix.T @ (6 * inner * (matrix @ gradient))
    np.testing.assert_allclose(tg.grad(slope)(x), want, rtol=1e-12)


def test_one_program_for_every_size():
    def power(x):
        k = np.fft.rfftfreq(x.shape[0], 0.5)
        return np.sum(k * np.abs(np.fft.rfft(x)) ** 2) + np.sum(
            np.fft.irfft(np.fft.rfft(x) ** 2, x.shape[0]) ** 2
        )

    gradient = tg.grad(power)
    text = str(gradient.source(tg.spec("f8[n]")))
    assert "np.fft.rfftfreq(" in text
    for n in (3, 4, 7, 8):
        x, t = sample(n), sample(n, seed=1)
        want = (power(x + 1e-6 * t) - power(x - 1e-6 * t)) / 2e-6
        np.testing.assert_allclose(np.vdot(gradient(x), t), want, rtol=1e-6)


def test_the_pullback_reads_as_by_hand():
    def f(x):
        return np.sum(np.abs(np.fft.fft(x, 8)) ** 2)

    text = str(tg.grad(f).source(sample(5)))
    assert "[: x.shape[0]].real" in text
    assert text.count("np.fft.") == 2


def test_mistakes():
    x = sample(4)
    cases = [
        (lambda np, x: np.fft.rfft(x + 1j), DTypeError, "real numbers"),
        (lambda np, x: np.fft.fft(x, 0), ArgumentError, "positive, not 0"),
        (lambda np, x: np.fft.irfft(x, norm="both"), ArgumentError, "not 'both'"),
        (lambda np, x: np.fft.fft(x, axis=1), ShapeError, "axis 1 is out of bounds"),
        (lambda np, x: np.fft.fft(np.sum(x)), ShapeError, "not a number"),
        (lambda np, x: np.fft.fft2(x), ShapeError, "axis -2"),
        (lambda np, x: np.fft.fftn(x, (2, 2), (0,)), ShapeError, "2 sizes for 1 axes"),
    ]
    for f, kind, text in cases:
        with pytest.raises(kind, match=text):
            Call(f, [x])
