"""`scipy.stats`: values of SciPy, inside, at the ends and outside of the support.

Derivatives in the point and in every parameter against central differences.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats as st
from scipy.stats import norm

import tracegrad as tg

INF = np.inf
LINE = (-2.5, -0.3, 0.4, 3.1)
HALF = (-1.0, 0.3, 1.4, 5.2)
CONTINUOUS = {
    # name: (points, shapes, loc, scale)
    "norm": (LINE, (), 0.3, 1.7),
    "t": (LINE, (3.5,), 0.3, 1.7),
    "laplace": (LINE, (), 0.3, 1.7),
    "logistic": (LINE, (), 0.3, 1.7),
    "cauchy": (LINE, (), 0.3, 1.7),
    "gamma": (HALF, (2.5,), -0.1, 0.7),
    "chi2": (HALF, (3.5,), -0.1, 0.7),
    "expon": (HALF, (), -0.1, 0.7),
    "lognorm": (HALF, (0.6,), -0.1, 0.7),
    "weibull_min": (HALF, (1.6,), -0.1, 0.7),
    "invgamma": (HALF, (1.6,), -0.1, 0.7),
    "beta": ((-0.5, 0.2, 0.9, 2.5), (1.6, 2.3), -0.1, 1.4),
    "uniform": ((-0.5, 0.2, 0.9, 2.5), (), -0.1, 1.4),
    "pareto": ((-0.5, 0.9, 1.4, 2.5), (1.8,), -0.1, 0.7),
}
METHODS = ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf")
# The shapes in which these have no derivative in closed form.
OPEN = {"t", "gamma", "chi2", "beta", "invgamma"}
COUNTS = (-1.0, 0.0, 1.0, 3.0, 2.5, 9.0)
DISCRETE = {
    "poisson": (2.3,),
    "binom": (5, 0.3),
    "bernoulli": (0.3,),
    "nbinom": (2.5, 0.3),
    "geom": (0.3,),
}


def method_of(name, method):
    # As users write it: the trace replaces what it finds in the module's names.
    space = {"st": st}
    text = f"def f(x, *parameters):\n    return st.{name}.{method}(x, *parameters)\n"
    exec(text, space)
    return space["f"]


def check(f, args, argnums, tolerance=1e-6):
    """Value and derivative of the sum of the finite elements."""
    expected = f(*args)
    finite = np.isfinite(expected)
    weights = np.where(finite, 1.0 + np.arange(expected.size), 0.0)

    def total(*parts):
        return np.sum(weights * np.where(finite, f(*parts), 0.0))

    space_total = tg.value_and_grad(total, argnums=argnums)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(
            tg.compile(f)(*args), expected, rtol=1e-11, atol=1e-14
        )
        value, gradients = space_total(*args)
    np.testing.assert_allclose(value, total(*args), rtol=1e-11)
    for place, gradient in zip(argnums, gradients, strict=True):
        x = np.asarray(args[place], dtype=float)
        for i in np.ndindex(x.shape):
            step = np.zeros_like(x)
            step[i] = 1e-5
            ends = []
            for moved in (x + step, x - step):
                parts = list(args)
                parts[place] = moved if x.ndim else float(moved)
                ends.append(total(*parts))
            slope = (ends[0] - ends[1]) / 2e-5
            np.testing.assert_allclose(
                np.asarray(gradient)[i], slope, rtol=tolerance, atol=tolerance
            )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name, method):
    points, shapes, loc, scale = CONTINUOUS[name]
    x = np.array((0.1, 0.45, 0.8) if method in ("ppf", "isf") else points)
    args = (x, *shapes, loc, scale)
    of_shape = range(1, 1 + len(shapes))
    places = {0, len(args) - 2, len(args) - 1}
    if name not in OPEN or method in ("pdf", "logpdf"):
        places |= set(of_shape)
    check(method_of(name, method), args, tuple(sorted(places)))


@pytest.mark.parametrize("method", ["pdf", "logpdf", "cdf", "sf"])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_ends_of_the_support(name, method):
    _, shapes, *_ = CONTINUOUS[name]
    f = method_of(name, method)
    x = np.array([-INF, -1.0, 0.0, 1.0, 2.0, INF])
    if method in ("cdf", "sf") or name in ("norm", "laplace", "uniform"):
        points = x
    else:
        points = x[1:-1]
    with np.errstate(all="ignore"):
        got = tg.compile(f)(points, *shapes)
    np.testing.assert_allclose(got, f(points, *shapes), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_outside_nothing_moves_and_nobody_warns(name):
    points, shapes, loc, scale = CONTINUOUS[name]
    if points is LINE:
        pytest.skip("no outside")
    x = np.array([points[0] - 3.0])
    f = method_of(name, "logpdf")

    def total(*args):
        return np.sum(np.maximum(f(*args), -5.0))

    argnums = tuple(range(3 + len(shapes)))
    with np.errstate(all="raise", under="ignore"):
        value, gradients = tg.value_and_grad(total, argnums)(x, *shapes, loc, scale)
    assert value == -5.0
    assert not any(map(np.any, gradients))


@pytest.mark.parametrize("method", ["pmf", "logpmf", "cdf", "logcdf", "sf", "logsf"])
@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name, method):
    f, shapes = method_of(name, method), DISCRETE[name]
    floats = [i for i, s in enumerate(shapes) if type(s) is float]
    if method not in ("pmf", "logpmf"):
        floats = [i for i in floats if i == len(shapes) - 1]
    for k in (np.array(COUNTS), np.array([0, 1, 2, 4])):
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(
                tg.compile(f)(k, *shapes), f(k, *shapes), rtol=1e-11, atol=1e-14
            )

            def g(*parameters, k=k):
                args = list(shapes)
                for i, p in zip(floats, parameters, strict=True):
                    args[i] = p
                return f(k, *args)

            check(g, [shapes[i] for i in floats], tuple(range(len(floats))))


def test_shapes_without_derivative():
    f = method_of("gamma", "cdf")
    with pytest.raises(tg.UnsupportedError, match="with respect to a"):
        tg.grad(lambda a: f(1.0, a))(2.0)


# ---------------------------------------------------------------- several variables
MEAN = np.array([0.5, -0.5])
COV = np.array([[2.0, 0.3], [0.3, 1.0]])
POINTS = np.array([[1.0, 2.0], [0.0, -1.0], [0.3, 0.1]])


@pytest.mark.parametrize("method", ["pdf", "logpdf"])
@pytest.mark.parametrize("points", [POINTS, POINTS[0], POINTS[None]])
def test_multivariate_normal(method, points):
    f = method_of("multivariate_normal", method)
    check(f, (points, MEAN, COV), (0, 1))
    value = tg.grad(lambda s: np.sum(f(points, MEAN, s)))(COV)
    step = np.array([[0.2, 0.5], [0.5, -0.3]])

    def total(s):
        return np.sum(f(points, MEAN, s))

    slope = (total(COV + 1e-5 * step) - total(COV - 1e-5 * step)) / 2e-5
    np.testing.assert_allclose(np.sum(value * step), slope, rtol=1e-6)


def test_multivariate_normal_of_short_arguments():
    f = method_of("multivariate_normal", "logpdf")
    for args in [(POINTS, MEAN), (POINTS, MEAN, 2.0), (POINTS, MEAN, MEAN**2)]:
        check(f, args, (0,))
    check(f, (POINTS[0],), (0,))
    check(f, (np.float64(0.3),), (0,))


def test_dirichlet():
    shares = np.array([[0.2, 0.5], [0.3, 0.1], [0.5, 0.4]])
    alpha = np.array([1.5, 2.0, 0.7])
    for method in ("pdf", "logpdf"):
        f = method_of("dirichlet", method)
        check(f, (shares, alpha), (1,))
        check(f, (shares[:, 0], alpha), (1,))
        np.testing.assert_allclose(
            tg.compile(f)(shares[:2], alpha), f(shares[:2], alpha)
        )


# ------------------------------------------------------------------------- spellings
PRIOR = st.norm(0.5, 2.0)
WIDE = st.multivariate_normal(MEAN, COV)


def by_name(x):
    return norm.logpdf(x, 0.5, scale=2.0)


def frozen(x):
    return st.norm(0.5, x[0]).logpdf(x)


def frozen_before(x):
    return PRIOR.logpdf(x) + PRIOR.cdf(x)


def frozen_of_several(x):
    return WIDE.logpdf(x[:2]) + st.dirichlet(x**2).logpdf(np.array([0.3, 0.3, 0.4]))


@pytest.mark.parametrize("f", [by_name, frozen, frozen_before, frozen_of_several])
def test_spellings(f):
    check(f, (np.array([0.7, 1.5, 2.2]),), (0,))
    assert type(norm) is type(st.norm)
    assert PRIOR.mean() == 0.5


def quantities(x):
    return x * st.norm.cdf(1.0) + PRIOR.mean() * st.norm(0.0, 2.0).std()


def test_constants_are_computed():
    check(quantities, (np.array([0.7]),), (0,))


def unknown(x):
    return np.sum(st.skewnorm.logpdf(x, 1.0))


def unknown_method(x):
    return st.norm(x[0]).entropy()


@pytest.mark.parametrize("f", [unknown, unknown_method])
def test_unknown_is_an_error_of_the_line(f):
    with pytest.raises(tg.UnsupportedError, match=r"scipy\.stats\.(skew)?norm\.") as e:
        tg.grad(f)(np.ones(3))
    assert "test_distributions.py" in str(e.value)


def test_single_precision_is_double_as_in_scipy():
    x = np.ones(3, np.float32)
    f = method_of("norm", "logpdf")
    assert tg.compile(f)(x).dtype == f(x).dtype == np.float64


@pytest.mark.parametrize("method", ["ppf", "isf"])
@pytest.mark.parametrize("name", DISCRETE)
def test_quantiles_of_counts_are_constants_but_for_the_shift(name, method):
    f, shapes = method_of(name, method), DISCRETE[name]
    q = np.array([0.15, 0.4, 0.77])
    np.testing.assert_array_equal(tg.compile(f)(q, *shapes), f(q, *shapes))
    out, pullback = tg.vjp(lambda q, loc: f(q, *shapes, loc), q, 0.5)
    np.testing.assert_array_equal(out, f(q, *shapes, 0.5))
    d_q, d_loc = pullback(np.ones(3))
    assert not d_q.any()
    assert d_loc == 3.0
    assert tg.support(f"scipy.stats.{name}.{method}").derivative == "constant"


def made_outside():
    before, several = st.gamma(2.0, scale=3.0), st.multivariate_normal(np.zeros(3))
    return lambda x: np.sum(before.logpdf(x) * before.cdf(x)) + several.logpdf(x)


def imported_outside():
    from scipy.special import softmax
    from scipy.stats import norm as normal

    return lambda x: np.sum(normal.logcdf(x) * softmax(x))


class Model:
    def __init__(self):
        self.prior = st.beta(2.0, 3.0)

    def __call__(self, x):
        return np.sum(self.prior.logpdf(x / 3.0))


def given_or_not(x, prior=PRIOR):
    return np.sum(prior.logpdf(x))


def test_frozen_ones_as_arguments():
    x = np.array([0.7, 1.5, 2.2])
    want = tg.grad(lambda x: np.sum(PRIOR.logpdf(x)))(x)
    np.testing.assert_array_equal(tg.grad(given_or_not)(x), want)
    np.testing.assert_array_equal(tg.grad(given_or_not)(x, PRIOR), want)


@pytest.mark.parametrize(
    "f", [made_outside(), imported_outside(), Model(), Model().__call__]
)
def test_frozen_ones_in_cells_and_attributes(f):
    x = np.array([0.7, 1.5, 2.2])
    check(f, (x,), (0,))
    assert type(f(x)) is np.float64  # nothing of the trace is left in its place


def frozen_of_traced(x):
    shape, scale = x[0], x[1] ** 2
    return st.norm(x, scale).logpdf(0.3)[1] + st.weibull_min(shape, scale=scale).sf(2.0)


def test_frozen_ones_with_traced_parameters():
    check(frozen_of_traced, (np.array([0.7, 1.5, 2.2]),), (0,))
