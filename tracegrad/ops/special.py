"""SciPy's special functions, and the normalising ones of statistics."""

from __future__ import annotations

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError, DTypeError
from tracegrad.ir.types import ArrayType, is_scalar_literal
from tracegrad.ops.cast import astype
from tracegrad.ops.define import Batch, accept, op
from tracegrad.ops.elementary import exp, expm1, log, log1p, share
from tracegrad.ops.infer import elementwise, normal_axes, reduced_shape, refuse
from tracegrad.ops.library import special
from tracegrad.ops.record import (
    as_array,
    as_operand,
    constant_of,
    dtype_of,
    ndim_of,
)
from tracegrad.ops.reduce import sum
from tracegrad.ops.sample import arg, call, data
from tracegrad.ops.select import sign, where
from tracegrad.ops.shape import expand_dims

_ONE = (arg(3).with_(), arg("n", 2).with_(), arg().with_())
_POSITIVE = (
    arg(3, lo=0.3, hi=4.0).with_(),
    arg("n", 2, lo=0.3, hi=4.0).with_(),
    arg(lo=0.3).with_(),
)
_INSIDE = (arg(3, lo=0.1, hi=0.9).with_(), arg("n", 2, lo=0.1, hi=0.9).with_())
_POSITIVE_PAIRS = (
    call(arg(3, lo=0.3), arg(2, 3, lo=0.3)),
    call(arg("n", 1, lo=0.3), arg(lo=0.3)),
)


def ufunc(name: str):
    """Inference of a ufunc of SciPy, which is imported at the first use."""

    def infer(*types: ArrayType) -> ArrayType:
        try:
            return elementwise(getattr(special, name))(*types)
        except ImportError:  # not all bodies need SciPy
            return elementwise(np.exp if len(types) == 1 else np.arctan2)(*types)

    infer.ufunc = name  # type: ignore[attr-defined]  # passes ask only for one
    return infer


def spelled(name: str) -> dict:
    """How users write a function of `scipy.special`."""
    return {
        "infer": ufunc(name),
        "accepts": [f"scipy.special:{name}"],
        "spelling": f"scipy.special.{name}",
    }


# --------------------------------------------------------------------------- logistic
@op(
    **spelled("expit"),
    vjp=[lambda ct, y, x: ct * (y * (1.0 - y))],
    finite=True,
    samples=[*_ONE, data((-800.0, 0.0, 800.0)).with_()],
)
def expit(x):
    """1 / (1 + exp(-x)), exact in both tails."""
    return special.expit(x)


@op(
    infer=lambda t: elementwise(np.logaddexp)(t, t),
    vjp=[lambda ct, y, x: -(ct * expm1(y))],  # 1 - expit(x), exact for large x
    accepts=["scipy.special:log_expit"],
    spelling="scipy.special.log_expit",
    batch=Batch.MAP,
    samples=[*_ONE, data((-800.0, 0.0, 800.0)).with_()],
)
def log_expit(x):
    """log(expit(x)), exact in both tails."""
    return -xp.logaddexp(0.0, -x)


@op(
    **spelled("logit"),
    vjp=[lambda ct, y, x: ct / (x * (1.0 - x))],
    samples=_INSIDE,
)
def logit(x):
    """log(x / (1 - x)), the inverse of `expit`."""
    return special.logit(x)


# ---------------------------------------------------------------- sums of exponentials
def _axes(axis, ndim):
    """`axis` as an op takes it: None for all, an int, or a sorted tuple."""
    if axis is None:
        return None
    axes = tuple(sorted(normal_axes(axis, ndim)))
    return axes[0] if len(axes) == 1 else axes


def _floating(function, x):
    """An operand that has an exponential in real floating point."""
    x = as_array(x)
    kind = dtype_of(x).kind
    if kind in "biu":
        return astype(x, dtype=np.dtype(np.float64))
    if kind != "f":
        raise DTypeError(
            f"{function} of dtype {dtype_of(x)} is not supported",
            op=function,
            fix="take the real part, or write it with np.exp and np.log",
        )
    return x


def _slope_of_logsumexp(ct, y, x, *, axis, keepdims):
    if axis is not None and not keepdims and ndim_of(y):
        axes = axis if isinstance(axis, tuple) else (axis,)
        ct, y = expand_dims(ct, axis=axes), expand_dims(y, axis=axes)
    return ct * share(x, y)


_ROWS_AT_INFINITY = data(((-np.inf, -np.inf), (-np.inf, 1.0), (2.0, np.inf)))


@op(
    infer=lambda t, *, axis, keepdims: t.with_shape(
        reduced_shape(t.shape, axis, keepdims)
    ),
    vjp=[_slope_of_logsumexp],
    spelling="scipy.special.logsumexp",
    noun="total",
    batch=Batch.REDUCE,
    samples=[
        arg(4).with_(),
        arg("n", 3).with_(axis=1),
        arg("n", 3).with_(axis=0, keepdims=True),
        arg(2, 3, 4).with_(axis=(0, 2)),
        arg().with_(),
        data(((1000.0, 1001.0), (-1000.0, 2.0))).with_(axis=1),
        _ROWS_AT_INFINITY.with_(axis=1).rough(),
    ],
)
def logsumexp(x, *, axis=None, keepdims=False):
    """log(sum(exp(x))) over `axis`, without overflow."""
    peak = x.max(axis=axis, keepdims=True)
    if not xp.isfinite(peak).all():
        largest = xp.finfo(x.dtype).max
        peak = peak.clip(-largest, largest)
    total = xp.exp(x - peak).sum(axis=axis, keepdims=keepdims)
    with xp.errstate(divide="ignore"):
        return xp.log(total) + (peak if keepdims else peak.squeeze(axis))


@logsumexp.body("jax")
def _(x, *, axis=None, keepdims=False):
    return special.logsumexp(x, axis=axis, keepdims=keepdims)


@logsumexp.accept("scipy.special:logsumexp")
def _(a, axis=None, b=None, keepdims=False, return_sign=False):
    refuse("scipy.special.logsumexp", return_sign=return_sign or None)
    x = _floating("scipy.special.logsumexp", a)
    if b is None:
        return logsumexp(x, axis=_axes(axis, ndim_of(x)), keepdims=bool(keepdims))
    if is_scalar_literal(b):
        b = np.asarray(b, dtype_of(x))
    b = _floating("scipy.special.logsumexp", b)
    axis = _axes(axis, max(ndim_of(x), ndim_of(b)))
    return weighted_logsumexp(x, b, axis=axis, keepdims=bool(keepdims))


def _infer_weighted(x: ArrayType, b: ArrayType, *, axis, keepdims):
    t = elementwise(np.multiply)(x, b)
    return t.with_shape(reduced_shape(t.shape, axis, keepdims))


@op(
    infer=_infer_weighted,
    spelling="scipy.special.logsumexp",
    noun="total",
    batch=Batch.REDUCE,
    samples=[
        call(arg(4), arg(4, lo=0.5)),
        call(arg("n", 3), arg(3, lo=0.5), axis=1),
        call(arg(3), arg("n", 3, lo=0.5), axis=0, keepdims=True),
        call(data((0.0, 1000.0)), data((-2.0, 3.0))),
    ],
)
def weighted_logsumexp(x, b, *, axis=None, keepdims=False):
    """log(sum(b * exp(x))) over `axis`, without overflow."""
    return special.logsumexp(x, axis=axis, b=b, keepdims=keepdims)


@weighted_logsumexp.vjp
def _(ct, y, x, b, *, axis, keepdims):
    share_of_one = _slope_of_logsumexp(ct, y, x, axis=axis, keepdims=keepdims)
    return share_of_one * b, share_of_one


def _infer_both(t: ArrayType, *, axis, keepdims):
    return t.with_shape(reduced_shape(t.shape, axis, keepdims)), t.strong


@op(
    infer=_infer_both,
    spelling="scipy.special.logsumexp",
    noun="total",
    batch=Batch.REDUCE,
    samples=[
        arg(4).with_(),
        arg("n", 3).with_(axis=1),
        arg("n", 3).with_(axis=0, keepdims=True),
        _ROWS_AT_INFINITY.with_(axis=1).rough(),
    ],
)
def logsumexp_and_softmax(x, *, axis=None, keepdims=False):
    """log(sum(exp(x))) over `axis`, and the share of each term in that sum."""
    peak = x.max(axis=axis, keepdims=True)
    finite = xp.isfinite(peak).all()
    if not finite:
        largest = xp.finfo(x.dtype).max
        peak = peak.clip(-largest, largest)
    share = xp.exp(x - peak)
    total = share.sum(axis=axis, keepdims=True)
    if finite:
        share /= total
        total = xp.log(total) + peak
    else:
        share /= xp.where(total == 0.0, 1.0, total)
        with xp.errstate(divide="ignore"):
            total = xp.log(total) + peak
    return total if keepdims else total.squeeze(axis), share


@logsumexp_and_softmax.body("jax")
def _(x, *, axis=None, keepdims=False):
    total = special.logsumexp(x, axis=axis, keepdims=True)
    share = xp.exp(x - xp.where(total == -xp.inf, 0.0, total))
    return total if keepdims else total.squeeze(axis), share


@logsumexp_and_softmax.vjp
def _(ct, out, x, *, axis, keepdims):
    of_total, of_share = ct
    total, p = out
    parts = []
    if of_total is not None:
        parts.append(
            _slope_of_logsumexp(of_total, total, x, axis=axis, keepdims=keepdims)
        )
    if of_share is not None:
        parts.append(p * (of_share - sum(of_share * p, axis=axis, keepdims=True)))
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


_ALONG_AXIS = (
    arg(4).with_(),
    arg("n", 3).with_(axis=1),
    arg("n", 3).with_(axis=0),
    arg(2, 3, 4).with_(axis=(0, 2)),
    arg().with_(),
    data(((1000.0, 1001.0), (-1000.0, 2.0))).with_(axis=1),
    data(((-np.inf, 1.0, 0.5), (0.0, 0.5, 1.0))).with_(axis=1).rough(),
)


@op(
    infer=lambda t, *, axis: t.strong,
    vjp=[
        lambda ct, y, x, *, axis: y * (ct - sum(ct * y, axis=axis, keepdims=True)),
    ],
    spelling="scipy.special.softmax",
    noun="shares",
    batch=Batch.REDUCE,
    samples=_ALONG_AXIS,
)
def softmax(x, *, axis=None):
    """exp(x) / sum(exp(x)) along `axis`, without overflow."""
    e = xp.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@softmax.accept("scipy.special:softmax")
def _(x, axis=None):
    x = _floating("scipy.special.softmax", x)
    return softmax(x, axis=_axes(axis, ndim_of(x)))


@op(
    infer=lambda t, *, axis: t.strong,
    vjp=[
        lambda ct, y, x, *, axis: ct - exp(y) * sum(ct, axis=axis, keepdims=True),
    ],
    spelling="scipy.special.log_softmax",
    noun="log_shares",
    batch=Batch.REDUCE,
    samples=_ALONG_AXIS,
)
def log_softmax(x, *, axis=None):
    """log(softmax(x)) along `axis`, without overflow or underflow."""
    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted - xp.log(xp.exp(shifted).sum(axis=axis, keepdims=True))


@log_softmax.accept("scipy.special:log_softmax")
def _(x, axis=None):
    x = _floating("scipy.special.log_softmax", x)
    return log_softmax(x, axis=_axes(axis, ndim_of(x)))


# ------------------------------------------------------------------- gamma and beta
@op(
    **spelled("gammaln"),
    vjp=[lambda ct, y, x: ct * digamma(x)],
    samples=_POSITIVE,
)
def gammaln(x):
    """log(abs(gamma(x)))."""
    return special.gammaln(x)


@op(
    **spelled("gamma"),
    vjp=[lambda ct, y, x: ct * (y * digamma(x))],
    samples=[*_POSITIVE, arg(3, lo=-0.9, hi=-0.2).with_()],
)
def gamma(x):
    """The gamma function, (x - 1)! for whole x."""
    return special.gamma(x)


@op(
    **spelled("digamma"),
    vjp=[lambda ct, y, x: ct * polygamma(x, n=1)],
    samples=_POSITIVE,
)
def digamma(x):
    """Derivative of `gammaln`."""
    return special.digamma(x)


accept("scipy.special:psi")(digamma)


@op(
    # SciPy's function computes in float64 whatever it is given.
    infer=lambda t, *, n: t.with_dtype(np.float64),
    vjp=[lambda ct, y, x, *, n: ct * polygamma(x, n=n + 1)],
    spelling="scipy.special.polygamma",
    batch=Batch.MAP,
    samples=[arg(3, lo=0.5, hi=4.0).with_(n=1), arg("n", 2, lo=1.5).with_(n=2)],
)
def polygamma(x, *, n):
    """Derivative of order `n` of `digamma`."""
    return special.polygamma(n, x)


@polygamma.accept("scipy.special:polygamma")
def _(n, x):
    order = constant_of(n)
    if order is None or order != int(order) or order < 0:
        raise ArgumentError(
            "the order of scipy.special.polygamma must be one constant integer >= 0",
            op="scipy.special.polygamma",
            fix="call it once for each order",
        )
    return polygamma(as_operand(x), n=int(order)) if order else digamma(as_operand(x))


def _slope_of_betaln(ct, a, b):
    return ct * (digamma(a) - digamma(a + b))


@op(
    **spelled("betaln"),
    vjp=[
        lambda ct, y, a, b: _slope_of_betaln(ct, a, b),
        lambda ct, y, a, b: _slope_of_betaln(ct, b, a),
    ],
    samples=_POSITIVE_PAIRS,
)
def betaln(a, b):
    """log(abs(beta(a, b)))."""
    return special.betaln(a, b)


@op(
    **spelled("beta"),
    vjp=[
        lambda ct, y, a, b: _slope_of_betaln(ct * y, a, b),
        lambda ct, y, a, b: _slope_of_betaln(ct * y, b, a),
    ],
    samples=_POSITIVE_PAIRS,
)
def beta(a, b):
    """gamma(a) gamma(b) / gamma(a + b)."""
    return special.beta(a, b)


# -------------------------------------------------------- error function and normal
_TWO_BY_ROOT_PI = 2.0 / np.sqrt(np.pi).item()
_ROOT_TWO_PI = np.sqrt(2.0 * np.pi).item()
_LOG_ROOT_TWO_PI = np.log(_ROOT_TWO_PI).item()


@op(
    **spelled("erf"),
    vjp=[lambda ct, y, x: ct * (_TWO_BY_ROOT_PI * exp(-(x**2)))],
    samples=_ONE,
)
def erf(x):
    """Error function."""
    return special.erf(x)


@op(
    **spelled("erfc"),
    vjp=[lambda ct, y, x: -(ct * (_TWO_BY_ROOT_PI * exp(-(x**2))))],
    samples=_ONE,
)
def erfc(x):
    """1 - erf(x), exact for large x."""
    return special.erfc(x)


@op(
    **spelled("erfinv"),
    vjp=[lambda ct, y, x: ct * (exp(y**2) / _TWO_BY_ROOT_PI)],
    samples=[arg(3, lo=-0.9, hi=0.9).with_(), arg("n", 2, lo=-0.9, hi=0.9).with_()],
)
def erfinv(x):
    """Inverse of `erf`."""
    return special.erfinv(x)


@op(
    **spelled("ndtr"),
    vjp=[lambda ct, y, x: ct * (exp(-0.5 * x**2) / _ROOT_TWO_PI)],
    samples=_ONE,
)
def ndtr(x):
    """Distribution function of the standard normal distribution."""
    return special.ndtr(x)


@op(
    **spelled("log_ndtr"),
    vjp=[lambda ct, y, x: ct * exp(-0.5 * x**2 - y - _LOG_ROOT_TWO_PI)],
    samples=[*_ONE, data((-30.0, -3.0, 5.0)).with_()],
)
def log_ndtr(x):
    """log(ndtr(x)), exact in both tails."""
    return special.log_ndtr(x)


@op(
    **spelled("ndtri"),
    vjp=[lambda ct, y, x: ct * (_ROOT_TWO_PI * exp(0.5 * y**2))],
    samples=_INSIDE,
)
def ndtri(x):
    """Inverse of `ndtr`."""
    return special.ndtri(x)


# --------------------------------------------------------------------------- entropies
def _ratio(x, y):
    """x / y, and 0 where both are 0."""
    if constant_of(x):
        return x / y
    return x / where((x == 0.0) & (y == 0.0), 1.0, y)


@op(
    **spelled("xlogy"),
    vjp=[
        lambda ct, z, x, y: ct * log(y),
        lambda ct, z, x, y: ct * _ratio(x, y),
    ],
    samples=[
        *_POSITIVE_PAIRS,
        call(data((0.0, 0.5, 0.0)), data((2.0, 3.0, 0.25))),
    ],
)
def xlogy(x, y):
    """x log(y), and 0 where x is 0."""
    return special.xlogy(x, y)


@op(
    **spelled("xlog1py"),
    vjp=[
        lambda ct, z, x, y: ct * log1p(y),
        lambda ct, z, x, y: ct * _ratio(x, y + 1.0),
    ],
    samples=[
        *_POSITIVE_PAIRS,
        call(data((0.0, 0.5, 0.0)), data((2.0, 3.0, -0.25))),
    ],
)
def xlog1py(x, y):
    """x log(1 + y), and 0 where x is 0."""
    return special.xlog1py(x, y)


@op(
    **spelled("entr"),
    vjp=[lambda ct, y, x: -(ct * (log(x) + 1.0))],
    samples=_POSITIVE,
)
def entr(x):
    """-x log(x), 0 at 0, -inf below."""
    return special.entr(x)


@op(
    **spelled("rel_entr"),
    vjp=[
        lambda ct, z, x, y: ct * (log(x / y) + 1.0),
        lambda ct, z, x, y: -(ct * _ratio(x, y)),
    ],
    samples=_POSITIVE_PAIRS,
)
def rel_entr(x, y):
    """x log(x / y), 0 where x is 0 and y is not negative."""
    return special.rel_entr(x, y)


@op(
    **spelled("kl_div"),
    vjp=[
        lambda ct, z, x, y: ct * log(x / y),
        lambda ct, z, x, y: ct * (1.0 - _ratio(x, y)),
    ],
    samples=_POSITIVE_PAIRS,
)
def kl_div(x, y):
    """x log(x / y) - x + y."""
    return special.kl_div(x, y)


# ------------------------------------------------------------ modified Bessel functions
def _over(y, x):
    """y / x for y = i1(x) or i1e(x), with its limit 1/2 at 0."""
    return where(x == 0.0, 0.5, y / where(x == 0.0, 1.0, x))


@op(
    **spelled("i0"),
    vjp=[lambda ct, y, x: ct * i1(x)],
    samples=_ONE,
)
def i0(x):
    """Modified Bessel function of order 0."""
    return special.i0(x)


@i0.accept(np.i0)
def _(x):
    return i0(as_operand(x))


@op(
    **spelled("i1"),
    vjp=[lambda ct, y, x: ct * (i0(x) - _over(y, x))],
    samples=_ONE,
)
def i1(x):
    """Modified Bessel function of order 1."""
    return special.i1(x)


@op(
    **spelled("i0e"),
    vjp=[lambda ct, y, x: ct * (i1e(x) - sign(x) * y)],
    samples=_ONE,
)
def i0e(x):
    """exp(-abs(x)) i0(x)."""
    return special.i0e(x)


@op(
    **spelled("i1e"),
    vjp=[lambda ct, y, x: ct * (i0e(x) - sign(x) * y - _over(y, x))],
    samples=_ONE,
)
def i1e(x):
    """exp(-abs(x)) i1(x)."""
    return special.i1e(x)
