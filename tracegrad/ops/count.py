"""Counts, bins and positions: constants, but for weights and for edges of bins."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ir.index import ARRAY
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import Batch, accept, op
from tracegrad.ops.extreme import max as reduce_max
from tracegrad.ops.extreme import min as reduce_min
from tracegrad.ops.index import expand_dims, getitem, read
from tracegrad.ops.infer import (
    broadcast_shapes,
    canonical_axis,
    elementwise,
    reduced_shape,
    refuse,
    same_shape,
    shape_text,
)
from tracegrad.ops.join import stack
from tracegrad.ops.ranges import linspace
from tracegrad.ops.rearrange import diff
from tracegrad.ops.record import (
    as_array,
    as_operand,
    constant_of,
    dtype_of,
    is_traced,
    ndim_of,
    shape_of,
)
from tracegrad.ops.reduce import NOT_GIVEN, flag
from tracegrad.ops.reduce import all as reduce_all
from tracegrad.ops.reduce import sum as reduce_sum
from tracegrad.ops.sample import arg, call, data
from tracegrad.ops.select import imag
from tracegrad.ops.shape import ravel

_range = range  # an argument of NumPy's functions has that name
_EDGES = data((-2.0, -0.5, 0.5, 2.0))
_NUMBERS = data((0, 2, 1, 2), "int64")


# ------------------------------------------------------------------------------- bins
@op(
    infer=lambda x, bins, *, right: x.with_dtype(np.int64),
    vjp=[None, None],
    samples=[call(arg("n", 2), _EDGES), call(arg(), _EDGES, right=True)],
)
def digitize(x, bins, *, right=False):
    """The number of the bin that each element lies in; a constant."""
    return xp.digitize(x, bins, right=right)


@digitize.batch
def _(b, x, bins, *, right):
    return NotImplemented if b.has(1) else digitize(x, bins, right=right)


@digitize.body("jax")
def _(x, bins, *, right=False):
    return xp.digitize(x, bins, right=right).astype("int64")


@digitize.accept(np.digitize)
def _(x, bins, right=False):
    return digitize(as_array(x), as_array(bins), right=bool(right))


def _one_weight_each(x: ArrayType, weights: ArrayType) -> None:
    if not same_shape(x.shape, weights.shape):
        raise ShapeError(
            f"weights of shape {shape_text(weights.shape)} for data of shape "
            f"{shape_text(x.shape)}",
            fix="give one weight for each element",
        )


def _infer_bincount(x: ArrayType, weights: ArrayType, *, length):
    _one_weight_each(x, weights)
    return ArrayType((length,), np.dtype(np.float64))


@op(
    infer=_infer_bincount,
    samples=[
        call(_NUMBERS, arg(4), length=3),
        call(_NUMBERS, arg(4, dtype="float32"), length=5).rough().without("jax"),
    ],
)
def bincount(x, weights, *, length):
    """The sum of the `weights` that each whole number in `x` has."""
    return xp.bincount(x, weights, length)


@bincount.body("jax")
def _(x, weights, *, length):
    return xp.bincount(x, weights, length=length)  # type: ignore[call-arg]


@bincount.vjp
def _(ct, y, x, weights, *, length):
    return None, getitem(ct, x, index=(ARRAY,))


@bincount.accept(np.bincount)
def _(x, weights=None, minlength=0):
    if is_traced(x) and not _is_known(x):
        raise ArgumentError(
            "np.bincount of traced numbers has a size that depends on data",
            op="np.bincount",
            fix="make zeros(n) and use np.add.at(zeros, x, weights)",
        )
    x = np.asarray(getattr(getattr(x, "value", x), "value", x))
    length = max([int(minlength), *(x[-1:] * 0), *([x.max() + 1] if x.size else [])])
    if weights is None:
        return np.bincount(x, minlength=int(length))
    return bincount(x, as_array(weights), length=int(length))


def _is_known(x: Any) -> bool:
    return isinstance(getattr(getattr(x, "value", None), "value", None), np.ndarray)


def _infer_histogram(x: ArrayType, edges: ArrayType):
    return ArrayType((edges.shape[0] - 1,), np.dtype(np.int64))


@op(
    infer=_infer_histogram,
    vjp=[None, None],
    samples=[call(arg("n", 3), _EDGES), call(arg(5), _EDGES)],
)
def histogram(x, edges):
    """How many elements lie in each bin between neighbouring `edges`; a constant."""
    return xp.histogram(x, edges)[0]


@histogram.body("jax")
def _(x, edges):
    return xp.histogram(x, edges)[0].astype("int64")


def _infer_weighted(x: ArrayType, edges: ArrayType, weights: ArrayType):
    _one_weight_each(x, weights)
    return ArrayType((edges.shape[0] - 1,), weights.dtype)


@op(
    infer=_infer_weighted,
    noun="histogram",
    samples=[
        call(arg("n"), _EDGES, arg("n")),
        call(arg(3, lo=-5.0, hi=5.0), _EDGES, arg(3)),
    ],
)
def weighted_histogram(x, edges, weights):
    """The sum of the `weights` of the elements in each bin."""
    return xp.histogram(x, edges, weights=weights)[0]


@weighted_histogram.vjp
def _(ct, y, x, edges, weights):
    return None, None, bin_values(x, edges, ct)


@op(
    infer=lambda x, edges, values: x.with_dtype(values.dtype),
    helper=True,
    noun="shares",
    samples=[
        call(arg("n"), _EDGES, arg(3)),
        call(arg(3, lo=-5.0, hi=5.0), _EDGES, arg(3)),
    ],
)
def bin_values(x, edges, values):
    """The value of the bin that each `x` lies in, 0 outside of all bins."""
    bins = xp.searchsorted(edges[1:-1], x, side="right")
    return xp.where((x >= edges[0]) & (x <= edges[-1]), values[bins], 0.0)


@bin_values.vjp
def _(ct, y, x, edges, values):
    return None, None, weighted_histogram(x, edges, ct)


def _bin_edges(a: Any, bins: Any, range: Any) -> Any:
    """The edges of the bins; traced if they depend on traced data."""
    if isinstance(bins, str):
        if is_traced(a):
            refuse("np.histogram", fix="give a number of bins, or edges", bins=bins)
        return np.histogram_bin_edges(a, bins, range)
    if is_traced(bins) or np.ndim(bins):
        return as_array(bins)
    bins = operator.index(bins)
    ends = (reduce_min(a), reduce_max(a)) if range is None else range
    low, high = map(as_operand, ends)
    if not is_traced(low) and not is_traced(high):
        return np.histogram_bin_edges(np.array([low, high]), bins, (low, high))
    return linspace(low, high, num=bins + 1)


def _vector(x: Any) -> Any:
    return x if ndim_of(x) == 1 else ravel(x)


@accept(np.histogram_bin_edges)
def _(a, bins=10, range=None, weights=None):
    return _bin_edges(as_array(a), bins, range)


@accept(np.histogram)
def _(a, bins=10, range=None, density=None, weights=None):
    x = as_array(a)
    edges = _bin_edges(x, bins, range)
    if weights is None:
        counts = histogram(x, edges)
    else:
        counts = weighted_histogram(_vector(x), edges, _vector(as_array(weights)))
    if density:
        counts = counts / diff(edges) / reduce_sum(counts)
    return counts, edges


def _infer_grid(sample: ArrayType, *edges: ArrayType) -> ArrayType:
    shape = tuple([e.shape[0] - 1 for e in edges])
    return ArrayType(shape, np.dtype(np.float64))


@op(
    infer=_infer_grid,
    samples=[call(arg("n", 2), _EDGES, data((-2.0, 0.0, 2.0)))],
)
def histogramdd(sample, *edges):
    """How many rows lie in each cell between the `edges` of each column; a constant."""
    return xp.histogramdd(sample, edges)[0]


@histogramdd.body("jax")
def _(sample, *edges):
    return xp.histogramdd(sample, edges)[0].astype(float)


@histogramdd.vjp
def _(ct, y, *arrays):
    return (None,) * len(arrays)


@accept(np.histogramdd)
def histogramdd_call(sample, bins=10, range=None, density=None, weights=None):
    """`np.histogramdd` with all its arguments but weights."""
    refuse("np.histogramdd", weights=weights)
    if isinstance(sample, list | tuple):
        sample = stack(*map(as_array, sample), axis=1)
    x = as_array(sample)
    columns = [read(x, (slice(None), i)) for i in _range(shape_of(x)[1])]
    many = isinstance(bins, list | tuple)
    edges = []
    for i, column in enumerate(columns):
        ends = None if range is None else range[i]
        edges.append(_bin_edges(column, bins[i] if many else bins, ends))
    counts = histogramdd(x, *edges)
    if density:
        total = reduce_sum(counts)
        for i, e in enumerate(edges):
            rest = tuple([k for k in _range(len(edges)) if k != i])
            counts = counts / expand_dims(diff(e), axis=rest)
        counts = counts / total
    return counts, tuple(edges)


@accept(np.histogram2d)
def _(x, y, bins=10, range=None, density=None, weights=None):
    refuse("np.histogram2d", weights=weights)
    if np.ndim(bins) == 1 and len(bins) != 2:
        bins = [bins, bins]
    counts, edges = histogramdd_call([x, y], bins, range, density)
    return counts, *edges


# -------------------------------------------------------------------------- positions
def _infer_position(t: ArrayType, *, axis, keepdims):
    return ArrayType(reduced_shape(t.shape, axis, keepdims), np.dtype(np.int64))


_POSITIONS = [
    arg(3).with_(),
    arg("n", 3).with_(axis=0),
    data((1.0, np.nan, 3.0)).with_(),
]


@op(infer=_infer_position, vjp=[None], batch=Batch.LANE, samples=_POSITIONS)
def nanargmax(x, *, axis=None, keepdims=False):
    """Position of the first largest element that is not nan."""
    return xp.nanargmax(x, axis=axis, keepdims=keepdims)


@op(infer=_infer_position, vjp=[None], batch=Batch.LANE, samples=_POSITIONS)
def nanargmin(x, *, axis=None, keepdims=False):
    """Position of the first smallest element that is not nan."""
    return xp.nanargmin(x, axis=axis, keepdims=keepdims)


@nanargmax.accept(np.nanargmax)
def _(a, axis=None, out=None, *, keepdims=NOT_GIVEN):
    refuse("np.nanargmax", out=out)
    x = as_array(a)
    return nanargmax(x, axis=canonical_axis(axis, ndim_of(x)), keepdims=flag(keepdims))


@nanargmin.accept(np.nanargmin)
def _(a, axis=None, out=None, *, keepdims=NOT_GIVEN):
    refuse("np.nanargmin", out=out)
    x = as_array(a)
    return nanargmin(x, axis=canonical_axis(axis, ndim_of(x)), keepdims=flag(keepdims))


# -------------------------------------------------------------------------- comparison
def _infer_isclose(a: ArrayType, b: ArrayType, **tolerances):
    return ArrayType(broadcast_shapes(a.shape, b.shape), np.dtype(bool))


@op(
    infer=_infer_isclose,
    vjp=[None, None],
    batch=Batch.MAP,
    samples=[
        call(arg("n", 3), arg(3)).rough(),
        call(data((1.0, np.nan)), data((1.0, np.nan)), equal_nan=True).rough(),
        call(arg(3), arg(), rtol=0.5, atol=0.0).rough(),
    ],
)
def isclose(a, b, *, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether two arrays agree element by element within tolerances; a constant."""
    return xp.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


@isclose.accept(np.isclose)
def isclose_call(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    """`np.isclose`, of numbers for the tolerances."""
    for name, value in {"rtol": rtol, "atol": atol}.items():
        if constant_of(value) is None:
            refuse("np.isclose", fix="give a plain number", **{name: value})
    known = {"rtol": rtol, "atol": atol, "equal_nan": bool(equal_nan)}
    return isclose(as_array(a), as_array(b), **known)


@accept(np.allclose, constant=True)
def _(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    return reduce_all(isclose_call(a, b, rtol, atol, equal_nan))


def _equal(a: Any, b: Any, equal_nan: bool) -> Any:
    same = a == b
    return reduce_all(same | ((a != a) & (b != b)) if equal_nan else same)


@accept(np.array_equal, constant=True)
def _(a1, a2, equal_nan=False):
    a, b = as_array(a1), as_array(a2)
    return same_shape(shape_of(a), shape_of(b)) and _equal(a, b, equal_nan)


@accept(np.array_equiv, constant=True)
def _(a1, a2):
    a, b = as_array(a1), as_array(a2)
    try:
        broadcast_shapes(shape_of(a), shape_of(b))
    except ShapeError:
        return False
    return _equal(a, b, False)


@accept(np.iscomplex, constant=True)
def _(x):
    return imag(as_array(x)) != 0


@accept(np.isreal, constant=True)
def _(x):
    return imag(as_array(x)) == 0


@accept(np.real_if_close)
def _(a, tol=100):
    a = as_array(a)
    if dtype_of(a).kind == "c" and is_traced(a):
        raise ArgumentError(
            "np.real_if_close of a traced complex array has a dtype that depends on "
            "data",
            op="np.real_if_close",
            fix="use np.real",
        )
    return a if is_traced(a) else np.real_if_close(a, tol)


@op(
    infer=lambda x, test: x.with_dtype(np.bool_),
    vjp=[None, None],
    samples=[call(_NUMBERS, data((2, 5), "int64")), call(arg("n", 2), arg(3)).rough()],
)
def isin(x, test):
    """Whether each element of `x` is among those of `test`."""
    return xp.isin(x, test)


@isin.accept(np.isin)
def _(element, test_elements, assume_unique=False, invert=False, *, kind=None):
    found = isin(as_array(element), as_array(test_elements))
    return ~found if invert else found


@op(
    infer=elementwise(np.spacing),
    vjp=[None],
    accepts=[np.spacing],
    samples=[arg("n", 2).with_().rough()],
)
def spacing(x):
    """Distance to the next number; a constant."""
    return xp.spacing(x)


@op(
    infer=elementwise(np.bitwise_count),
    vjp=[None],
    accepts=[np.bitwise_count],
    samples=[arg(3, lo=0, hi=9, dtype="int64").with_()],
)
def bitwise_count(x):
    """Number of bits that are set in a whole number."""
    return xp.bitwise_count(x)


_WHOLE = [call(arg(3, lo=0, hi=7, dtype="int64"), arg(2, 3, lo=1, dtype="int64"))]


@op(infer=elementwise(np.gcd), vjp=[None, None], accepts=[np.gcd], samples=_WHOLE)
def gcd(x, y):
    """Greatest common divisor of whole numbers."""
    return xp.gcd(x, y)


@op(infer=elementwise(np.lcm), vjp=[None, None], accepts=[np.lcm], samples=_WHOLE)
def lcm(x, y):
    """Least common multiple of whole numbers."""
    return xp.lcm(x, y)
