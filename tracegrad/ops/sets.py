"""Sets: unique elements and what is made from them.

The sizes of these depend on data, so that traced values need a trace that knows them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError, TracegradError
from tracegrad.ir.index import ARRAY, Slice
from tracegrad.ir.types import ArrayType
from tracegrad.ops.count import isin
from tracegrad.ops.define import accept, op
from tracegrad.ops.index import getitem, read
from tracegrad.ops.infer import count_true, refuse
from tracegrad.ops.join import concatenate
from tracegrad.ops.order import sort_call
from tracegrad.ops.record import (
    Scattered,
    as_array,
    dtype_of,
    is_traced,
    ndim_of,
    shape_of,
)
from tracegrad.ops.sample import data
from tracegrad.ops.shape import ravel, to_shape

_REPEATED = (
    data((2.0, 1.0, 3.0)).with_(count=3),
    data((2.0, 1.0, 2.0, 3.0, 1.0)).with_(count=3).rough(),
)


@op(
    infer=lambda t, *, count: t.with_shape((count,)),
    samples=[sample.without("jax") for sample in _REPEATED],
)
def unique(x, *, count):
    """The different elements in order; `count` says how many there are.

    Of equal elements the first one gets the cotangent.
    """
    return xp.unique(x)


@unique.vjp
def _(ct, y, x, *, count):
    return Scattered(ct, (unique_index(x, count=count),), (ARRAY,), True)


def _positions(t: ArrayType, *, count) -> ArrayType:
    return ArrayType((count,), np.dtype(np.int64))


@op(infer=_positions, vjp=[None], samples=_REPEATED)
def unique_index(x, *, count):
    """Where each different element occurs first; a constant."""
    return xp.unique(x, return_index=True)[1]


@op(
    infer=lambda t, *, count: t.with_dtype(np.int64),
    vjp=[None],
    samples=_REPEATED,
)
def unique_inverse(x, *, count):
    """For each element its number among the different ones; a constant."""
    return xp.unique(x, return_inverse=True)[1]


@op(infer=_positions, vjp=[None], samples=_REPEATED)
def unique_counts(x, *, count):
    """How often each different element occurs; a constant."""
    return xp.unique(x, return_counts=True)[1]


def _how_many(x: Any, equal_nan: bool) -> Any:
    """The number of different elements of a vector."""
    if shape_of(x)[0] == 0:
        return 0
    ordered = sort_call(x)
    later = getitem(ordered, index=(Slice(1, None),))
    earlier = getitem(ordered, index=(Slice(None, -1),))
    changes = later != earlier
    if equal_nan and dtype_of(x).kind in "fc":
        changes = changes & (earlier == earlier)
    try:
        return 1 + count_true(changes)
    except TracegradError as error:
        raise ArgumentError(
            "the number of unique elements depends on traced values",
            op="np.unique",
            fix="compute it outside of the traced function, or use np.sort",
        ) from error


def _vector(x: Any) -> Any:
    x = as_array(x)
    return x if ndim_of(x) == 1 else ravel(x)


@unique.accept(np.unique)
def unique_call(
    ar,
    return_index=False,
    return_inverse=False,
    return_counts=False,
    axis=None,
    *,
    equal_nan=True,
    sorted=True,
):
    """`np.unique` with all its arguments."""
    flags = (return_index, return_inverse, return_counts)
    if not is_traced(ar):
        return np.unique(ar, *flags, axis=axis, equal_nan=equal_nan)
    if axis is not None and (ndim_of(ar) != 1 or axis not in (0, -1)):
        refuse("np.unique", fix="use the flattened array", axis=axis)
    x = _vector(ar)
    count = _how_many(x, equal_nan)
    found = [unique(x, count=count)]
    for wanted, which in zip(
        flags, (unique_index, unique_inverse, unique_counts), strict=True
    ):
        if wanted:
            found.append(which(x, count=count))
    if return_inverse:
        at = 2 if return_index else 1
        found[at] = to_shape(found[at], shape_of(ar))
    return found[0] if len(found) == 1 else tuple(found)


@accept(np.unique_values)
def _(x, /):
    return unique_call(x, equal_nan=False)


class _Counts(NamedTuple):
    values: Any
    counts: Any


class _Inverse(NamedTuple):
    values: Any
    inverse_indices: Any


class _All(NamedTuple):
    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


@accept(np.unique_counts)
def _(x, /):
    return _Counts(*unique_call(x, return_counts=True, equal_nan=False))


@accept(np.unique_inverse)
def _(x, /):
    return _Inverse(*unique_call(x, return_inverse=True, equal_nan=False))


@accept(np.unique_all)
def _(x, /):
    return _All(*unique_call(x, True, True, True, equal_nan=False))


@accept(np.union1d)
def _(ar1, ar2):
    return unique_call(concatenate(_vector(ar1), _vector(ar2)))


@accept(np.setdiff1d)
def _(ar1, ar2, assume_unique=False):
    a = _vector(ar1) if assume_unique else unique_call(ar1)
    return read(a, ~isin(a, as_array(ar2)))


@accept(np.intersect1d)
def _(ar1, ar2, assume_unique=False, return_indices=False):
    refuse("np.intersect1d", return_indices=return_indices or None)
    a = _vector(ar1) if assume_unique else unique_call(ar1)
    return read(sort_call(a), isin(sort_call(a), as_array(ar2)))


@accept(np.setxor1d)
def _(ar1, ar2, assume_unique=False):
    a = _vector(ar1) if assume_unique else unique_call(ar1)
    b = _vector(ar2) if assume_unique else unique_call(ar2)
    only_a, only_b = read(a, ~isin(a, b)), read(b, ~isin(b, a))
    return sort_call(concatenate(only_a, only_b))
