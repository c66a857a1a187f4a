"""Reductions, scans, extremes and norms as users call them, and at awkward points."""

import jax
import mpmath
import numpy as np
import pytest
from ops.calls import RECORDED, Call, check, gradient_of, method, sample

import tracegrad as tg
from tracegrad.autodiff.reverse import pull_back
from tracegrad.errors import ArgumentError, ShapeError

X = sample(2, 3, 4)
M = sample(3, 4, seed=1)
V = sample(5, seed=2)
MASK = np.array([[True, False, True, True], [False, True, True, False], [True] * 4])

CALLS = {
    "sum": lambda np, x: np.sum(x),
    "sum-axis": lambda np, x: np.sum(x, axis=(0, -1), keepdims=True),
    "sum-negative-axis": lambda np, x: np.sum(x, -2),
    "sum-dtype": lambda np, x: np.sum(x, dtype=np.float64),
    "sum-initial": lambda np, x: np.sum(x, axis=1, initial=2.5),
    "sum-no-axes": lambda np, x: np.sum(x, axis=()),
    "sum-method": lambda np, x: method(x, "sum", 1, keepdims=True),
    "add-reduce": lambda np, x: np.add.reduce(x),
    "add-reduce-all": lambda np, x: np.add.reduce(x, axis=None),
    "multiply-reduce": lambda np, x: np.multiply.reduce(x, 1),
    "maximum-reduce": lambda np, x: np.maximum.reduce(x, axis=-1),
    "minimum-reduce": lambda np, x: np.minimum.reduce(x),
    "add-accumulate": lambda np, x: np.add.accumulate(x),
    "multiply-accumulate": lambda np, x: np.multiply.accumulate(x, 1),
    "mean": lambda np, x: np.mean(x, axis=-1),
    "mean-two-axes": lambda np, x: np.mean(x, axis=(0, 2)),
    "mean-method": lambda np, x: method(x, "mean", axis=0, keepdims=True),
    "average": lambda np, x: np.average(x, axis=1),
    "average-weights": lambda np, x: np.average(x, axis=1, weights=[1.0, 2.0, 0.5]),
    "prod": lambda np, x: np.prod(x, axis=(0, 2)),
    "prod-all": lambda np, x: np.prod(x),
    "prod-method": lambda np, x: method(x, "prod", 1, keepdims=True),
    "max": lambda np, x: np.max(x, axis=1),
    "amax": lambda np, x: np.amax(x),
    "min": lambda np, x: np.min(x, axis=(0, 1), keepdims=True),
    "max-initial": lambda np, x: np.max(x, axis=1, initial=0.1),
    "max-method": lambda np, x: method(x, "max"),
    "ptp": lambda np, x: np.ptp(x, axis=0),
    "var": lambda np, x: np.var(x, axis=-1, ddof=1),
    "var-correction": lambda np, x: np.var(x, axis=1, correction=1),
    "var-method": lambda np, x: method(x, "var"),
    "std": lambda np, x: np.std(x, axis=(0, 2), keepdims=True),
    "std-method": lambda np, x: method(x, "std", axis=0, ddof=0.5),
    "any": lambda np, x: np.any(x, axis=0),
    "all": lambda np, x: method(x, "all", axis=-1),
    "count": lambda np, x: np.count_nonzero(x, axis=(0, 1)),
    "argmax": lambda np, x: np.argmax(x, axis=1),
    "argmin-flat": lambda np, x: method(x, "argmin"),
    "argmax-keepdims": lambda np, x: np.argmax(x, keepdims=True),
    "cumsum": lambda np, x: np.cumsum(x, axis=1),
    "cumsum-flat": lambda np, x: np.cumsum(x),
    "cumprod": lambda np, x: method(x, "cumprod", -1),
    "cumulative": lambda np, x: np.cumulative_sum(x, axis=0),
    "norm": lambda np, x: np.linalg.norm(x),
    "norm-axis": lambda np, x: np.linalg.norm(x, axis=-1, keepdims=True),
    "norm-1": lambda np, x: np.linalg.norm(x, 1, axis=1),
    "norm-inf": lambda np, x: np.linalg.norm(x, np.inf, axis=0),
    "norm-minus-inf": lambda np, x: np.linalg.norm(x, -np.inf, axis=0),
    "norm-0": lambda np, x: np.linalg.norm(x, 0, axis=1),
    "norm-3": lambda np, x: np.linalg.norm(x, 3, axis=2),
    "norm-half": lambda np, x: np.linalg.norm(x, 0.5, axis=2),
    "frobenius": lambda np, x: np.linalg.norm(x, "fro", axis=(0, 2)),
    "matrix-1": lambda np, x: np.linalg.norm(x, 1, axis=(1, 2)),
    "matrix-inf": lambda np, x: np.linalg.norm(x, np.inf, axis=(2, 1), keepdims=True),
    "vector-norm": lambda np, x: np.linalg.vector_norm(x, axis=(0, 1)),
    "matrix-norm": lambda np, x: np.linalg.matrix_norm(x),
    "sort": lambda np, x: np.sort(x, axis=1),
    "sort-flat": lambda np, x: np.sort(x, axis=None),
    "median": lambda np, x: np.median(x, axis=1),
    "median-even": lambda np, x: np.median(x, axis=-1, keepdims=True),
    "median-all": lambda np, x: np.median(x, keepdims=True),
}


@pytest.mark.parametrize("name", CALLS)
def test_call(name):
    check(CALLS[name], X)


MASKED = {
    "sum": lambda np, x: np.sum(x, axis=1, where=MASK),
    "mean": lambda np, x: np.mean(x, axis=0, where=MASK),
    "prod": lambda np, x: np.prod(x, where=MASK),
    "max": lambda np, x: np.max(x, axis=1, where=MASK, initial=-9.0),
    "min": lambda np, x: method(x, "min", where=MASK, initial=9.0),
    "var": lambda np, x: np.var(x, axis=1, where=MASK),
    "std": lambda np, x: np.std(x, axis=1, where=MASK),
    "any": lambda np, x: np.any(x, where=MASK),
    "mean-row": lambda np, x: np.mean(x, axis=1, where=MASK[0]),
}


@pytest.mark.parametrize("name", MASKED)
def test_where(name):
    check(MASKED[name], M)


DTYPES = ["float32", "float16", "int64", "int32", "uint8", "bool", "complex128"]
KEPT = ["sum", "mean", "prod", "any", "count", "cumsum", "cumprod", "sum-method"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*KEPT, "max", "argmax", "var", "std", "norm", "sort"])
def test_dtypes(name, dtype):
    if dtype == "complex128" and name in ("max", "argmax"):
        pytest.skip("NumPy orders complex numbers by their parts")
    x = np.abs(sample(2, 3, 4)).astype(dtype)
    call = Call(CALLS[name], [x])
    got, want = call.run()[0], CALLS[name](np, x)
    assert got.dtype == want.dtype == call.results[0].type.dtype
    np.testing.assert_allclose(got, want, rtol=1e-2 if dtype == "float16" else 1e-6)


SCALARS = {
    "mean": lambda np, x: np.mean(x),
    "std": lambda np, x: np.std(x),
    "max": lambda np, x: np.max(x),
    "prod": lambda np, x: np.prod(x),
    "norm": lambda np, x: np.linalg.norm(x),
}


@pytest.mark.parametrize("name", SCALARS)
def test_float32_stays_narrow(name):
    call = Call(SCALARS[name], [sample(4, dtype="float32")])
    (g,) = call.gradient([np.float32(1.0)])
    assert g.dtype == np.float32
    # No value on the way is wider, so no cast is needed either.
    widths = {
        v.type.dtype for n in call.builder.nodes for v in n.outputs if not v.type.weak
    }
    assert np.dtype("float64") not in widths


# ----------------------------------------------------------------------- awkward points
ZEROS = [[2.0, 3.0, 4.0], [2.0, 0.0, 3.0], [0.0, 5.0, 0.0], [0.0, 0.0, 0.0]]


@pytest.mark.parametrize("x", ZEROS)
def test_prod_with_zeros(x):
    (g,) = gradient_of(lambda np, x: np.prod(x), np.array(x))
    others = [np.prod(np.delete(x, i)) for i in range(3)]
    np.testing.assert_array_equal(g, others)


@pytest.mark.parametrize("x", ZEROS)
def test_second_derivatives_of_prod_with_zeros(x):
    jax.config.update("jax_enable_x64", True)
    want = jax.hessian(jax.numpy.prod)(np.array(x))
    for i in range(3):
        call = Call(lambda np, x: np.prod(x), [np.array(x)])
        (first,) = _pulled(call)
        call.results = [first]
        np.testing.assert_allclose(call.gradient([np.eye(3)[i]])[0], want[i])


def _pulled(call):
    """The gradient as a value of the same graph, to be differentiated again."""
    builder = call.builder
    one = builder.wrap(builder.lift(1.0))
    found = pull_back(builder, list(builder.nodes), call.results, [one], call.params)
    return [r.value for r in found]


@pytest.mark.parametrize("x", [[2.0, 0.0, 3.0, 4.0], [0.0, 2.0, 0.0, 5.0]])
def test_cumprod_with_zeros(x):
    weights = np.array([0.3, -1.2, 0.7, 2.0])
    (g,) = gradient_of(lambda np, x: np.sum(weights * np.cumprod(x)), np.array(x))
    want = [
        sum(weights[k] * np.prod(np.delete(x[: k + 1], i)) for k in range(i, 4))
        for i in range(4)
    ]
    np.testing.assert_allclose(g, want)


def test_equal_extremes_share_the_gradient():
    x = np.array([[1.0, 5.0, 5.0], [7.0, 2.0, 7.0]])
    (g,) = gradient_of(lambda np, x: np.sum(np.max(x, axis=1)), x)
    np.testing.assert_array_equal(g, [[0, 0.5, 0.5], [0.5, 0, 0.5]])
    (g,) = gradient_of(lambda np, x: np.min(x), np.full(4, 3.0))
    np.testing.assert_array_equal(g, np.full(4, 0.25))


@pytest.mark.parametrize("value", [0.0, 3.0, -1e300])
def test_std_of_equal_elements_has_no_slope(value):
    (g,) = gradient_of(lambda np, x: np.std(x), np.full(4, value))
    np.testing.assert_array_equal(g, np.zeros(4))
    (g,) = gradient_of(lambda np, x: np.sum(np.std(x, axis=0)), np.full((2, 3), value))
    np.testing.assert_array_equal(g, np.zeros((2, 3)))


@pytest.mark.parametrize("ord", [None, 1, 2, 3, np.inf])
def test_norm_at_zero(ord):
    (g,) = gradient_of(lambda np, x: np.linalg.norm(x, ord), np.zeros(3))
    np.testing.assert_array_equal(g, np.zeros(3))


def test_norm_of_rows_one_of_them_zero():
    x = np.array([[3.0, 4.0], [0.0, 0.0]])
    (g,) = gradient_of(lambda np, x: np.sum(np.linalg.norm(x, axis=1)), x)
    np.testing.assert_allclose(g, [[0.6, 0.8], [0.0, 0.0]])


def test_variance_far_from_zero_against_many_digits():
    x = 1e6 + np.array([0.1, 0.7, 0.2, 0.4])
    with mpmath.workdps(40):
        exact = [mpmath.mpf(float(v)) for v in x]
        mean = sum(exact) / 4
        want = [float(2 * (v - mean) / 3) for v in exact]
    (g,) = gradient_of(lambda np, x: np.var(x, ddof=1), x)
    np.testing.assert_allclose(g, want, rtol=1e-9)


def test_nan_functions():
    x = np.array([1.0, np.nan, 4.0])
    f = lambda np, x: np.nansum(x) + np.nanmean(x)
    (g,) = gradient_of(f, x)
    np.testing.assert_allclose(g, [1.5, 0.0, 1.5])
    np.testing.assert_allclose(Call(f, [x]).run()[0], f(np, x))
    for name in ("nanmax", "nanmin", "nanvar", "nanstd"):
        f = lambda np, x, name=name: getattr(np, name)(x)
        np.testing.assert_allclose(Call(f, [x]).run()[0], f(np, x))


def test_sort_breaks_ties_by_position():
    weights = np.array([1.0, 10.0, 100.0])
    f = lambda np, x: np.sum(weights * np.sort(x))
    (g,) = gradient_of(f, np.array([2.0, 1.0, 2.0]))
    np.testing.assert_array_equal(g, [10.0, 1.0, 100.0])


def test_empty_arrays():
    check(lambda np, x: (np.sum(x, axis=0), np.prod(x, axis=0)), np.zeros((0, 3)))
    with pytest.raises(ShapeError, match="axis 0 has size 0"):
        Call(lambda np, x: np.max(x, axis=0), [np.zeros((0, 3))])


# ------------------------------------------------------------------------------- errors
def test_errors():
    with pytest.raises(ShapeError, match="axis 3 is out of bounds"):
        Call(lambda np, x: np.sum(x, axis=3), [M])
    with pytest.raises(ShapeError, match="names an axis twice"):
        Call(lambda np, x: np.sum(x, axis=(0, -2)), [M])
    with pytest.raises(ArgumentError, match=r"np.sum\(out=...\) is not supported"):
        Call(lambda np, x: np.sum(x, out=np.zeros(())), [M])


def test_calls_without_traced_values_are_numpy():
    for name, f in CALLS.items():
        got, want = f(RECORDED, X), f(np, X)
        np.testing.assert_allclose(got, want, rtol=1e-14, err_msg=name)


@pytest.mark.parametrize("dtype", ["int64", "float32", "bool", "float64"])
def test_initial_is_cast_to_the_dtype_of_the_result(dtype):
    x = (np.random.default_rng(0).normal(size=(3, 4)) > 0.0).astype(dtype)
    wide = np.float64(2.5)
    for f in (
        lambda x: np.sum(x, axis=0, initial=2.5),
        lambda x: np.prod(x, axis=0, initial=wide),
        lambda x: np.max(x, axis=0, initial=0.0),
        lambda x: np.min(x, axis=0, initial=wide, where=x > 0),
    ):
        made, want = tg.compile(f)(x), f(x)
        assert made.dtype == want.dtype
        np.testing.assert_array_equal(made, want)
