"""NumPy's numerical helpers as users call them: values, slopes, ties, ends, nan."""

import autograd
import autograd.numpy as anp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ops.calls import Call, at, check, gradient_of, method, sample, update

import tracegrad as tg
from tracegrad.errors import ArgumentError, OutOfBoundsError, ShapeError
from tracegrad.ops.quantile import METHODS

V = sample(5, seed=2)
M = sample(3, 4, seed=1)
X = sample(2, 3, 4)
Z = sample(4, seed=3, dtype="complex128")
S = np.array(1.3)
POINTS = np.array([-1.7, -0.4, 0.3, 1.1, 2.2])
N = np.array([[1.0, np.nan, 3.0, 0.2], [np.nan, 5.0, np.nan, 4.0]])
WEIGHTS = np.array([0.5, 2.0, 1.0, 0.3])

CALLS = {
    # order statistics
    "median-axes": (lambda np, x: np.median(x, axis=(0, -1)), X),
    "median-keepdims": (lambda np, x: np.median(x, axis=1, keepdims=True), X),
    "nanmedian": (lambda np, x: np.nanmedian(x, axis=-1), X),
    "quantile-list": (lambda np, x: np.quantile(x, [0.1, 0.77], axis=1), M),
    "quantile-matrix": (lambda np, x: np.quantile(x, [[0.1, 0.3], [0.6, 0.9]]), V),
    "quantile-ends": (lambda np, x: np.quantile(x, [0, 1]), V),
    "percentile-axes": (lambda np, x: np.percentile(x, 33, axis=(0, 2)), X),
    "percentile-keepdims": (
        lambda np, x: np.percentile(x, [20, 66], axis=-1, keepdims=True),
        X,
    ),
    "quantile-of-q": (lambda np, q: np.quantile(V, q), np.array([0.21, 0.63])),
    "percentile-of-q": (lambda np, q: np.percentile(M, q, axis=0), np.array(37.0)),
    "nanquantile-of-q": (lambda np, q: np.nanquantile(N, q, axis=1), np.array(0.37)),
    "partition": (lambda np, x: np.partition(x, 2), V),
    "partition-axis": (lambda np, x: np.partition(x, (0, 2), axis=0), M),
    "partition-flat": (lambda np, x: np.partition(x, 3, axis=None), M),
    "argpartition": (lambda np, x: np.argpartition(x, 1), V),
    "lexsort": (lambda np, x: np.lexsort((x, [1, 0, 1, 0, 0])), V),
    "sort-complex": (lambda np, x: np.sort_complex(x), V),
    # without nan
    "nansum-axes": (lambda np, x: np.nansum(x, axis=(0, 2), keepdims=True), X),
    "nanmean-where": (lambda np, x: np.nanmean(x, where=x > 0.4), V),
    "nanstd-ddof": (lambda np, x: np.nanstd(x, axis=1, ddof=1), M),
    "nanvar-correction": (lambda np, x: np.nanvar(x, axis=0, correction=1), M),
    "nanmax-initial": (lambda np, x: np.nanmax(x, axis=1, initial=0.3), M),
    "nanmin": (lambda np, x: np.nanmin(x, axis=-2), X),
    "nanprod-where": (lambda np, x: np.nanprod(x, axis=1, where=x < 1), M),
    "nancumsum": (lambda np, x: np.nancumsum(x, axis=1), M),
    "nancumprod": (lambda np, x: np.nancumprod(x), V),
    "nanargmax": (lambda np, x: np.nanargmax(x, axis=1), M),
    "fmax-reduce": (lambda np, x: np.fmax.reduce(x), M),
    # averages
    "average-returned": (
        lambda np, x: np.average(x, axis=1, weights=WEIGHTS, returned=True),
        M,
    ),
    "average-plain-returned": (lambda np, x: np.average(x, 0, returned=True), M),
    "average-weights": (lambda np, w: np.average(M, axis=-1, weights=w), WEIGHTS),
    "cov": (lambda np, x: np.cov(x), M),
    "cov-columns": (lambda np, x: np.cov(x, rowvar=False, ddof=0), M),
    "cov-two": (lambda np, x: np.cov(x, M[1]), M[0]),
    "cov-weights": (
        lambda np, w: np.cov(M, aweights=w, fweights=[1, 2, 1, 3]),
        WEIGHTS,
    ),
    "cov-complex": (lambda np, z: np.cov(z, Z**2), Z),
    "corrcoef": (lambda np, x: np.corrcoef(x), M),
    "corrcoef-two": (lambda np, x: np.corrcoef(x, V**2, rowvar=False), V),
    "corrcoef-complex": (lambda np, z: np.corrcoef(z, Z**2), Z),
    # interpolation and differences
    "interp": (lambda np, x: np.interp(x, POINTS, V), V),
    "interp-values": (lambda np, y: np.interp([-3.0, 0.1, 0.2, 5.0], POINTS, y), V),
    "interp-points": (lambda np, p: np.interp([-3.0, 0.1, 0.2, 5.0], p, V), POINTS),
    "interp-ends": (lambda np, x: np.interp(x, POINTS[1:4], V[:3], -1.0, 2.0), V),
    "interp-traced-end": (lambda np, e: np.interp(V, POINTS[1:4], V[:3], e, e**2), S),
    "interp-period": (lambda np, y: np.interp(V, POINTS, y, period=5.0), V),
    "interp-complex": (lambda np, z: np.interp([0.1, 0.7], [0.0, 0.5, 0.9, 1.0], z), Z),
    "gradient": (lambda np, x: np.gradient(x), V),
    "gradient-all": (lambda np, x: np.gradient(x), M),
    "gradient-axes": (lambda np, x: np.gradient(x, 0.5, 2.0, axis=(-1, 0)), X),
    "gradient-order": (lambda np, x: np.gradient(x, 0.1, edge_order=2, axis=1), M),
    "gradient-distance": (lambda np, h: np.gradient(M, h, axis=0), S),
    "gradient-points": (lambda np, x: np.gradient(x, POINTS), V),
    "gradient-of-points": (lambda np, p: np.gradient(V, p, edge_order=2), POINTS),
    "gradient-points-axis": (lambda np, x: np.gradient(x, [0.0, 1.0, 3.0], axis=0), M),
    "unwrap": (lambda np, x: np.unwrap(4 * x, axis=0), M),
    "unwrap-period": (lambda np, x: np.unwrap(x, period=2.0, discont=1.2), V),
    "ediff1d": (lambda np, x: np.ediff1d(x, to_end=[1.0, 2.0], to_begin=at(x, 0)), V),
    "convolve": (lambda np, x: np.convolve(x, V, "same"), WEIGHTS),
    "convolve-valid": (lambda np, x: np.convolve(V, x, mode="valid"), WEIGHTS),
    "correlate": (lambda np, z: np.correlate(z, Z[:2]), Z),
    "correlate-long": (lambda np, x: np.correlate(x, V, "full"), WEIGHTS[:2]),
    # polynomials
    "polyval": (lambda np, p: np.polyval(p, M), WEIGHTS),
    "polyval-point": (lambda np, x: np.polyval([1.0, -2.0, 0.5], x), M),
    "polyval-constant": (lambda np, x: np.polyval([2.0], x), V),
    "polyfit": (lambda np, y: np.polyfit(POINTS, y, 2), V),
    "polyfit-points": (lambda np, x: np.polyfit(x, V, 1), POINTS),
    "polyfit-columns": (lambda np, y: np.polyfit([0.0, 1.0, 3.0], y, 1), M),
    "polyfit-weights": (lambda np, w: np.polyfit(V[:4], POINTS[:4], 1, w=w), WEIGHTS),
    "poly": (lambda np, r: np.poly(r), WEIGHTS),
    "polyadd": (lambda np, p: np.polyadd(p, [1.0, 2.0]), V),
    "polysub": (lambda np, p: np.polysub([1.0, 2.0], p), V),
    "polymul": (lambda np, p: np.polymul(p, p), V),
    "polydiv": (lambda np, p: np.polydiv(V, p), WEIGHTS[:3]),
    "polyder": (lambda np, p: np.polyder(p, 2), V),
    "polyint": (lambda np, p: np.polyint(p, 2, k=[1.0, 2.0]), V),
    "vander": (lambda np, x: np.vander(x, 3, increasing=True), V),
    # inserted, left out, chosen
    "insert": (lambda np, x: np.insert(x, 2, 9.0), V),
    "insert-many": (lambda np, x: np.insert(x, [3, 0, 3], at(x, slice(3))), V),
    "insert-row": (lambda np, v: np.insert(M, 1, v, axis=0), WEIGHTS),
    "insert-column": (lambda np, v: np.insert(M, 1, v, axis=-1), V[:3]),
    "insert-flat": (lambda np, x: np.insert(x, -1, 1.0), M),
    "insert-slice": (lambda np, v: np.insert(V, slice(0, 4, 2), v), V[:2]),
    "delete": (lambda np, x: np.delete(x, [1, -1]), V),
    "delete-slice": (lambda np, x: np.delete(x, slice(1, None, 2), axis=1), M),
    "delete-mask": (lambda np, x: np.delete(x, [True, False, False], axis=0), M),
    "delete-flat": (lambda np, x: np.delete(x, 5), M),
    "resize": (lambda np, x: np.resize(x, (2, 4)), V),
    "resize-smaller": (lambda np, x: np.resize(x, 3), M),
    "choose": (lambda np, x: np.choose([0, 1, 1, 0, 2], [x, x**2, 3.0]), V),
    "choose-wrap": (lambda np, x: np.choose([0, 3, -1, 5, 2], [x, -x], mode="wrap"), V),
    "choose-method": (
        lambda np, x: np.choose(np.array([2, 0]), x, mode="clip"),
        M[:, :2],
    ),
    "unravel": (lambda np, x: x.shape and np.unravel_index([3, 5], (2, 3)), V),
    "histogram-weights": (
        lambda np, w: np.histogram([0.1, 0.5, 0.7, 3.0], [0, 0.6, 1], weights=w),
        WEIGHTS,
    ),
    "histogram-edges": (lambda np, x: np.histogram(x, 3)[1], V),
    "bincount": (lambda np, w: np.bincount([0, 2, 1, 2], w, minlength=5), WEIGHTS),
    "digitize": (lambda np, x: np.digitize(x, [0.0, 1.0], right=True), V),
    # elementwise
    "ldexp": (lambda np, x: np.ldexp(x, [1, -2, 0, 3, 5]), V),
    "frexp": (lambda np, x: np.frexp(x), np.array([0.3, 1.7, -5.3])),
    "modf": (lambda np, x: np.modf(3 * x), V),
    "divmod": (lambda np, x: np.divmod(x, 0.7), V),
    "float-power": (lambda np, x: np.float_power(x**2, x), V),
    "heaviside": (lambda np, h: np.heaviside(np.array([-1.0, 0.0, 2.0]), h), S),
    "nextafter": (lambda np, x: np.nextafter(x, 9.0), V),
    "isclose": (lambda np, x: np.isclose(x, at(x, 0)), V),
    "isin": (lambda np, x: np.isin(x, V[:2]), V),
    # ranges and running values
    "geomspace": (lambda np, s: np.geomspace(s, 4.0, 5), S),
    "geomspace-negative": (lambda np, s: np.geomspace(-s, -4.0, 5, endpoint=False), S),
    "logspace": (lambda np, s: np.logspace(0.1, s, 4, base=2.0), S),
    "logspace-base": (lambda np, s: np.logspace(0.1, 1.0, 4, base=s), S),
    "linspace-step": (lambda np, s: np.linspace(0.0, s, 4, retstep=True), S),
    "kaiser": (lambda np, b: np.kaiser(6, b), S),
    "cumulative": (lambda np, x: np.cumulative_sum(x, include_initial=True), V),
    "cumulative-prod": (
        lambda np, x: np.cumulative_prod(x, axis=1, include_initial=True),
        M,
    ),
    "maximum-accumulate": (lambda np, x: np.maximum.accumulate(x, axis=1), M),
    "minimum-accumulate": (lambda np, x: np.minimum.accumulate(x), V),
    "subtract-reduce": (lambda np, x: np.subtract.reduce(x, axis=1), M),
    "divide-reduce": (lambda np, x: np.divide.reduce(x), V),
    "hypot-reduce": (lambda np, x: np.hypot.reduce(x, axis=0), M),
}


@pytest.mark.parametrize("name", CALLS)
def test_call(name):
    f, *arrays = CALLS[name]
    check(f, *arrays)


UPDATES = {
    "put": lambda x, v: update(np.put, x, [0, 5, -1], v),
    "put-repeated": lambda x, v: update(np.put, x, [0, 5, 7, 2], at(v, slice(2))),
    "place": lambda x, v: update(np.place, x, M > 0, v),
    "partition": lambda x, v: update("partition", v, 1),
    "fill-diagonal": lambda x, v: update(np.fill_diagonal, x, at(v, 0)),
}


@pytest.mark.parametrize("name", UPDATES)
def test_update(name):
    check(lambda np, x, v: UPDATES[name](x, v), M, V[:3])


@pytest.mark.parametrize("how", METHODS)
@pytest.mark.parametrize("function", ["quantile", "nanquantile"])
def test_methods_of_quantile(how, function):
    def f(np, x):
        return getattr(np, function)(x, [0.13, 0.52, 0.9], axis=1, method=how)

    check(f, M)
    check(lambda np, x: getattr(np, function)(x, 0.41, method=how), V)


NAN_CALLS = {
    "nansum": lambda np, x: np.nansum(x, axis=1),
    "nanmean": lambda np, x: np.nanmean(x, axis=0),
    "nanstd": lambda np, x: np.nanstd(x),
    "nanvar": lambda np, x: np.nanvar(x, axis=1, ddof=1),
    "nanmax": lambda np, x: np.nanmax(x, axis=1),
    "nanprod": lambda np, x: np.nanprod(x),
    "nanmedian": lambda np, x: np.nanmedian(x, axis=1),
    "nanpercentile": lambda np, x: np.nanpercentile(x, [30, 60], axis=1),
    "nanquantile": lambda np, x: np.nanquantile(x, 0.3, method="hazen"),
    "nancumsum": lambda np, x: np.nancumsum(x),
    "nan_to_num": lambda np, x: np.nan_to_num(x, nan=2.0),
}


@pytest.mark.parametrize("name", NAN_CALLS)
def test_nan_gets_no_slope(name):
    f = NAN_CALLS[name]
    x = N if name != "nanvar" else np.vstack([N[0], N[0][::-1]])
    call = Call(f, [x])
    np.testing.assert_allclose(call.run()[0], f(np, x), rtol=1e-13)
    (gradient,) = call.gradient([np.ones_like(f(np, x))])
    assert np.all(gradient[np.isnan(x)] == 0)
    kept = ~np.isnan(x)

    def of_kept(values):
        moved = x.copy()
        moved[kept] = values
        return np.sum(f(np, moved))

    start = x[kept]
    for i in range(start.size):
        step = 1e-6 * np.eye(start.size)[i]
        slope = (of_kept(start + step) - of_kept(start - step)) / 2e-6
        assert abs(gradient[kept][i] - slope) < 1e-5


# What autograd and JAX give, where they have the function.
PEERS = {
    "median": (lambda np, x: np.median(x**2), V),
    "percentile": (lambda np, x: np.percentile(x, 37.0), V),
    "interp": (lambda np, x: np.sum(np.interp(x, POINTS, V) ** 2), V),
    "cov": (lambda np, x: np.sum(np.cov(x) ** 2), M),
    "corrcoef": (lambda np, x: np.sum(np.corrcoef(x) ** 3), M),
    "polyval": (lambda np, p: np.sum(np.polyval(p, V) ** 2), WEIGHTS),
    "convolve": (lambda np, x: np.sum(np.convolve(x, V, "same") ** 2), V),
    "gradient": (lambda np, x: np.sum(np.gradient(x) ** 2), V),
    "unwrap": (lambda np, x: np.sum(np.unwrap(5 * x) ** 2), V),
    "nanstd": (lambda np, x: np.nanstd(x), V),
    "geomspace": (lambda np, s: np.sum(np.geomspace(s, 3.0, 4)), S),
    "vander": (lambda np, x: np.sum(np.vander(x, 3) ** 2), V),
    "roots": (lambda np, p: np.sum(np.abs(np.roots(p)) ** 2), WEIGHTS),
    "delete": (lambda np, x: np.sum(np.delete(x, 1) ** 2), V),
    "insert": (lambda np, x: np.sum(np.insert(x, 1, at(x, 0)) ** 2), V),
}


@pytest.mark.parametrize("name", PEERS)
def test_as_jax(name):
    f, x = PEERS[name]
    with jax.enable_x64(True):
        if name == "roots":
            want = jax.grad(
                lambda p: jnp.sum(jnp.abs(jnp.roots(p, strip_zeros=False)) ** 2)
            )(x)
        else:
            want = jax.grad(lambda x: f(jnp, x))(jnp.asarray(x))
    np.testing.assert_allclose(gradient_of(f, x)[0], want, rtol=1e-9, atol=1e-12)


def test_as_autograd():
    """The gradient of the two matrices that autograd has too."""
    for f in (
        lambda np, x: np.sum(np.sort(x) * WEIGHTS),
        lambda np, x: np.sum(np.partition(x, 2) ** 3),
        lambda np, x: np.std(x) + np.mean(np.diff(x) ** 2),
    ):
        want = autograd.grad(lambda x, f=f: f(anp, x))(M[0])
        np.testing.assert_allclose(gradient_of(f, M[0])[0], want, rtol=1e-12)


TIES = np.array([2.0, 1.0, 2.0, 3.0])
KNOTS, HEIGHTS = [1.0, 2.0, 4.0], [0.0, 1.0, 9.0]


@pytest.mark.parametrize(
    ("f", "want"),
    [
        (lambda np, x: np.median(x), [0.5, 0, 0.5, 0]),
        (lambda np, x: np.percentile(x, 50, method="lower"), [1, 0, 0, 0]),
        (lambda np, x: np.percentile(x, 50, method="higher"), [0, 0, 1, 0]),
        (lambda np, x: np.nanmax(-x), [0, -1, 0, 0]),
        (lambda np, x: np.sum(np.maximum.accumulate(x) * [1, 2, 4, 8]), [7, 0, 0, 8]),
        (lambda np, x: np.nanmin(np.minimum(x, 2.0)), [0, 1, 0, 0]),
        (lambda np, x: np.nanstd(x * 0 + 1.0), [0, 0, 0, 0]),
        (
            lambda np, x: np.interp(at(x, 0), KNOTS, HEIGHTS),
            [4, 0, 0, 0],
        ),
        (
            lambda np, x: np.interp(at(x, 3), [1.0, 2.0, 3.0], [0.0, 1.0, 9.0]),
            [0, 0, 0, 8],
        ),
        (lambda np, x: np.interp(at(x, 3), [1.0, 2.0], [0.0, 1.0]), [0, 0, 0, 0]),
    ],
)
def test_ties_and_ends(f, want):
    np.testing.assert_allclose(gradient_of(f, TIES)[0], want)


NARROW = {
    "median": lambda np, x: np.median(x),
    "quantile": lambda np, x: np.quantile(x, 0.3),
    "nanmean": lambda np, x: np.nanmean(x),
    "nanstd": lambda np, x: np.nanstd(x),
    "convolve": lambda np, x: np.convolve(x, x),
    "gradient": lambda np, x: np.gradient(x),
    "polyval": lambda np, x: np.polyval(x, x),
    "unwrap": lambda np, x: np.unwrap(x),
    "insert": lambda np, x: np.insert(x, 1, 2.0),
    "partition": lambda np, x: np.partition(x, 2),
    "ldexp": lambda np, x: np.ldexp(x, 2),
    "accumulate": lambda np, x: np.maximum.accumulate(x),
}


@pytest.mark.parametrize("name", NARROW)
def test_float32_is_kept(name):
    x = V.astype("float32")
    call = Call(NARROW[name], [x])
    (got,) = call.run()
    assert got.dtype == np.float32 == call.results[0].type.dtype
    (gradient,) = call.gradient([np.ones(np.shape(got), "float32")])
    assert gradient.dtype == np.float32


def test_integers_have_numpys_dtypes():
    i = np.array([3, 1, 2])
    for f in (
        lambda np, x: np.median(x),
        lambda np, x: np.percentile(x, 50, method="lower"),
        lambda np, x: np.convolve(x, x),
        lambda np, x: np.gradient(x),
        lambda np, x: np.insert(x, 1, 7),
        lambda np, x: np.polyval(x, x),
        lambda np, x: np.nanmean(x),
        lambda np, x: np.cov(x),
    ):
        check(f, i, smooth=False)


@pytest.mark.parametrize(
    ("error", "f"),
    [
        (ArgumentError, lambda np, x: np.quantile(x, 0.3, method="best")),
        (ArgumentError, lambda np, x: np.percentile(x, 3, weights=V)),
        (ShapeError, lambda np, x: np.median(at(x, slice(0)))),
        (ArgumentError, lambda np, x: np.convolve(x, V, "most")),
        (ShapeError, lambda np, x: np.interp(x, POINTS, V[:2])),
        (ShapeError, lambda np, x: np.gradient(at(x, slice(1)))),
        (ArgumentError, lambda np, x: np.gradient(x, 1.0, 2.0)),
        (OutOfBoundsError, lambda np, x: np.insert(x, 9, 1.0)),
        (ArgumentError, lambda np, x: np.delete(x, x)),
        (OutOfBoundsError, lambda np, x: np.choose([7], [x, x])),
        (ArgumentError, lambda np, x: np.trim_zeros(x)),
        (ArgumentError, lambda np, x: np.unique(x)),
        (ArgumentError, lambda np, x: np.real_if_close(x + 1j)),
        (ArgumentError, lambda np, x: np.bincount(np.digitize(x, [0.0]))),
        (ArgumentError, lambda np, x: np.cumulative_sum(np.stack([x, x]))),
    ],
)
def test_refused(error, f):
    with pytest.raises(error):
        Call(f, [V])


def test_at_of_any_ufunc():
    def f(x):
        y = x * 2.0
        np.multiply.at(y, [0, 1, 1], x[:3])
        np.maximum.at(y, np.array([0, 0, 2]), x[1:4])
        return np.sum(y**2)

    gradient = tg.grad(f)(V)
    for i, step in enumerate(1e-6 * np.eye(5)):
        slope = (f(V + step) - f(V - step)) / 2e-6
        assert abs(gradient[i] - slope) < 1e-6


def test_methods_of_arrays():
    check(lambda np, x: method(x, "argpartition", 2), V)
    check(lambda np, x, c: method(c, "choose", [x, -x]), V, np.array([0, 1, 1, 0, 0]))
