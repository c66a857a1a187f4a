"""Selection, sign and size, rounding, and the parts of complex numbers."""

from __future__ import annotations

import math

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import ACCEPT, Batch, accept, op
from tracegrad.ops.infer import (
    broadcast_shapes,
    elementwise,
    refuse,
    result_dtype,
    ufunc_dtypes,
)
from tracegrad.ops.record import as_array, as_operand, constant_of, dtype_of
from tracegrad.ops.sample import arg, call, data

_ONE = (arg(3).with_(), arg("n", 2).with_(), arg().with_())
_COMPLEX = (arg(3, dtype="complex128").with_(), arg(dtype="complex128").with_())
_PAIRS = (
    call(arg(3), arg(2, 3)),
    call(arg("n", 1), arg(3)),
    call(arg(), arg("n")),
    call(arg(3, lo=0, hi=7, dtype="int64"), arg(2, 3)),
)


# -------------------------------------------------------------------------- selection
def _infer_where(c: ArrayType, x: ArrayType, y: ArrayType) -> ArrayType:
    return ArrayType(broadcast_shapes(c.shape, x.shape, y.shape), result_dtype(x, y))


# Not ufuncs by name, but as they do they work element by element.
_infer_where.ufunc = np.where  # type: ignore[attr-defined]


@op(
    infer=_infer_where,
    vjp=[
        None,
        lambda ct, z, c, x, y: where(c, ct, 0.0),
        lambda ct, z, c, x, y: where(c, 0.0, ct),
    ],
    finite=True,
    samples=[
        call(arg(3, dtype="bool"), arg(3), arg(2, 3)),
        call(arg("n", 1, dtype="bool"), arg(), arg("n", 3)),
        call(arg("n", dtype="bool"), arg("n"), arg("n", dtype="complex128")),
        call(arg(3, dtype="bool"), arg(3), arg(3, dtype="int64")),
    ],
)
def where(condition, x, y):
    """`x` where the condition is true, `y` elsewhere."""
    return xp.where(condition, x, y)


@where.accept(np.where)
def _(condition, x=np._NoValue, y=np._NoValue):
    if x is np._NoValue and y is np._NoValue:
        return ACCEPT[np.nonzero](condition)
    if x is np._NoValue or y is np._NoValue:
        raise ArgumentError("np.where takes one or three arguments", op="np.where")
    return where(as_operand(condition), as_operand(x), as_operand(y))


@accept(np.select)
def _(condlist, choicelist, default=0):
    if len(condlist) != len(choicelist):
        raise ArgumentError(
            f"{len(condlist)} conditions and {len(choicelist)} choices",
            op="np.select",
            fix="give one choice for each condition",
        )
    result = as_operand(default)
    for c, x in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = where(as_operand(c), as_operand(x), result)
    return result


# Where the operands are equal the cotangent goes to the second one, or to the constant
# one: so np.maximum(x, 0.0) has the derivative 0 at 0, and so has np.maximum(0.0, x).
@op(
    infer=elementwise(np.maximum),
    vjp=[
        lambda ct, z, x, y: where(x > y, ct, 0.0),
        lambda ct, z, x, y: (
            where(x > y, 0.0, ct) if constant_of(x) is None else where(y > x, ct, 0.0)
        ),
    ],
    accepts=[np.maximum],
    finite=True,
    samples=_PAIRS,
)
def maximum(x, y):
    """The larger of two; where they are equal `y`, or the constant, is taken."""
    return xp.maximum(x, y)


@op(
    infer=elementwise(np.minimum),
    vjp=[
        lambda ct, z, x, y: where(x < y, ct, 0.0),
        lambda ct, z, x, y: (
            where(x < y, 0.0, ct) if constant_of(x) is None else where(y < x, ct, 0.0)
        ),
    ],
    accepts=[np.minimum],
    finite=True,
    samples=_PAIRS,
)
def minimum(x, y):
    """The smaller of two; where they are equal `y`, or the constant, is taken."""
    return xp.minimum(x, y)


@op(
    infer=elementwise(np.fmax),
    vjp=[
        lambda ct, z, x, y: where((x > y) | isnan(y), ct, 0.0),
        lambda ct, z, x, y: where((x > y) | isnan(y), 0.0, ct),
    ],
    accepts=[np.fmax],
    samples=_PAIRS,
)
def fmax(x, y):
    """The larger of two, the other one where one is nan; `y` where they are equal."""
    return xp.fmax(x, y)


@op(
    infer=elementwise(np.fmin),
    vjp=[
        lambda ct, z, x, y: where((x < y) | isnan(y), ct, 0.0),
        lambda ct, z, x, y: where((x < y) | isnan(y), 0.0, ct),
    ],
    accepts=[np.fmin],
    samples=_PAIRS,
)
def fmin(x, y):
    """The smaller of two, the other one where one is nan; `y` where they are equal."""
    return xp.fmin(x, y)


def _infer_clip(x: ArrayType, lo: ArrayType, hi: ArrayType) -> ArrayType:
    return ArrayType(
        broadcast_shapes(x.shape, lo.shape, hi.shape), result_dtype(x, lo, hi)
    )


_infer_clip.ufunc = np.clip  # type: ignore[attr-defined]


@op(
    infer=_infer_clip,
    vjp=[
        lambda ct, z, x, lo, hi: where((x >= lo) & (x <= hi), ct, 0.0),
        lambda ct, z, x, lo, hi: where((x < lo) & (lo <= hi), ct, 0.0),
        lambda ct, z, x, lo, hi: where((x > hi) | (lo > hi), ct, 0.0),
    ],
    finite=True,
    samples=[
        call(arg(6), data(-0.5), data(0.7)),
        call(arg("n", 3), arg(3, lo=-1.0, hi=-0.5), arg("n", 1, lo=0.5, hi=1.0)),
        call(arg(5, lo=0, hi=9, dtype="int64"), data(2, "int64"), data(5, "int64")),
    ],
)
def clip(x, lo, hi):
    """`x` limited to [lo, hi]; at a limit the derivative is that of `x`."""
    return x.clip(lo, hi)


@clip.accept(np.clip)
def _(
    a,
    a_min=np._NoValue,
    a_max=np._NoValue,
    out=None,
    *,
    min=np._NoValue,
    max=np._NoValue,
    **kwargs,
):
    if a_min is np._NoValue and a_max is np._NoValue:
        return _clip_between(a, min, max, out=out, **kwargs)
    return _clip_between(a, a_min, a_max, out=out, **kwargs)


@accept(methods=["clip"])
def _clip_between(x, min=None, max=None, out=None, **kwargs):
    refuse("np.clip", out=out, **kwargs)
    lo = None if min is np._NoValue else min
    hi = None if max is np._NoValue else max
    if lo is None and hi is None:
        return +as_array(x)
    if hi is None:
        return maximum(as_array(x), as_operand(lo))
    if lo is None:
        return minimum(as_array(x), as_operand(hi))
    return clip(as_array(x), as_operand(lo), as_operand(hi))


# --------------------------------------------------------------------- sign and size
def _slope_of_absolute(ct, y, x):
    if dtype_of(x).kind == "c":
        return ct * conj(sign(x))
    return ct * sign(x)


@op(
    infer=elementwise(np.absolute),
    vjp=[_slope_of_absolute],
    operator="__abs__",
    accepts=[np.absolute],
    finite=True,
    samples=[*_ONE, *_COMPLEX],
)
def absolute(x):
    """Absolute value; its derivative at 0 is 0."""
    return xp.abs(x)


@op(
    infer=elementwise(np.fabs),
    vjp=[lambda ct, y, x: ct * sign(x)],
    accepts=[np.fabs],
    samples=[*_ONE, arg(3, dtype="int64").with_()],
)
def fabs(x):
    """Absolute value in floating point; its derivative at 0 is 0."""
    return xp.fabs(x)


def _slope_of_sign(ct, y, x):
    if dtype_of(x).kind != "c":
        return None
    return (ct - real(ct * y) * conj(y)) / absolute(x)


@op(
    infer=elementwise(np.sign),
    vjp=[_slope_of_sign],
    accepts=[np.sign],
    samples=[*_ONE, *_COMPLEX],
)
def sign(x):
    """-1, 0 or 1; for complex input x / |x|."""
    return xp.sign(x)


_AWKWARD = data((0.0, -1.5, -0.0, np.inf, -np.inf, np.nan)).with_().rough()


@op(
    infer=elementwise(np.isnan),
    vjp=[None],
    accepts=[np.isnan],
    samples=[_AWKWARD, arg("n", 2).with_()],
)
def isnan(x):
    """Whether it is not a number."""
    return xp.isnan(x)


@op(
    infer=elementwise(np.isfinite),
    vjp=[None],
    accepts=[np.isfinite],
    samples=[_AWKWARD, arg("n", 2).with_()],
)
def isfinite(x):
    """Whether it is neither infinite nor nan."""
    return xp.isfinite(x)


@op(
    infer=elementwise(np.isinf),
    vjp=[None],
    accepts=[np.isinf],
    samples=[_AWKWARD, arg("n", 2).with_()],
)
def isinf(x):
    """Whether it is plus or minus infinity."""
    return xp.isinf(x)


@op(
    infer=elementwise(np.signbit),
    vjp=[None],
    accepts=[np.signbit],
    samples=[_AWKWARD, arg("n", 2).with_()],
)
def signbit(x):
    """Whether the sign bit is set (-0.0 included)."""
    return xp.signbit(x)


@accept(np.isposinf, constant=True)
def _(x, out=None):
    refuse("np.isposinf", out=out)
    return as_array(x) == math.inf


@accept(np.isneginf, constant=True)
def _(x, out=None):
    refuse("np.isneginf", out=out)
    return as_array(x) == -math.inf


@op(
    infer=elementwise(np.heaviside),
    vjp=[None, lambda ct, z, x, h: where(x == 0.0, ct, 0.0)],
    accepts=[np.heaviside],
    samples=[
        call(arg("n", 3), arg(3)),
        call(data((-1.0, 0.0, 2.0)), arg(3)).rough(),
    ],
)
def heaviside(x, h):
    """0 where x < 0, 1 where x > 0, `h` where x is 0."""
    return xp.heaviside(x, h)


@op(
    infer=elementwise(np.copysign),
    vjp=[lambda ct, z, x, y: ct * (sign(x) * copysign(1.0, y)), None],
    accepts=[np.copysign],
    samples=_PAIRS,
)
def copysign(x, y):
    """The size of `x` with the sign of `y`."""
    return xp.copysign(x, y)


# --------------------------------------------------------------------------- rounding
_ROUND = (
    arg(5, lo=-9.3, hi=9.4).with_(),
    arg("n", 2).with_(),
    arg(3, dtype="int64").with_(),
)


@op(infer=elementwise(np.floor), vjp=[None], accepts=[np.floor], samples=_ROUND)
def floor(x):
    """Largest integer below; its derivative is zero."""
    return xp.floor(x)


@op(infer=elementwise(np.ceil), vjp=[None], accepts=[np.ceil], samples=_ROUND)
def ceil(x):
    """Smallest integer above; its derivative is zero."""
    return xp.ceil(x)


@op(infer=elementwise(np.trunc), vjp=[None], accepts=[np.trunc], samples=_ROUND)
def trunc(x):
    """Nearest integer towards zero; its derivative is zero."""
    return xp.trunc(x)


@op(infer=elementwise(np.rint), vjp=[None], accepts=[np.rint], samples=_ROUND)
def rint(x):
    """Nearest integer, halves to even; its derivative is zero."""
    return xp.rint(x)


def _infer_round(t: ArrayType, *, decimals: int) -> ArrayType:
    return t.with_dtype(np.float16) if t.kind == "b" else t.strong


@op(
    infer=_infer_round,
    vjp=[None],
    batch=Batch.MAP,
    samples=[*_ROUND, arg(4).with_(decimals=1), arg(2, lo=90.0).with_(decimals=-1)],
)
def round(x, *, decimals=0):
    """`x` to a number of decimals, halves to even; its derivative is zero."""
    return xp.round(x, decimals=decimals)


@round.accept(np.round, np.around, methods=["round"])
def _(a, decimals=0, out=None):
    refuse("np.round", out=out)
    return round(as_operand(a), decimals=int(decimals))


@accept(np.fix, constant=True)
def _(x, out=None):
    refuse("np.fix", out=out)
    return trunc(as_operand(x))


def modf(x):
    """Fractional and whole part, both with the sign of `x`."""
    whole = trunc(x)
    return copysign(x - whole, x), whole


accept(np.modf)(modf)


@op(
    infer=lambda t, *, nan, posinf, neginf: t.strong,
    vjp=[lambda ct, y, x, *, nan, posinf, neginf: where(isfinite(x), ct, 0.0)],
    batch=Batch.MAP,
    samples=[
        *_ONE,
        data((1.0, np.nan, np.inf, -np.inf)).with_().rough(),
        data((1.0, np.nan, np.inf, -np.inf))
        .with_(nan=7.0, posinf=8.0, neginf=9.0)
        .rough(),
    ],
)
def nan_to_num(x, *, nan=0.0, posinf=None, neginf=None):
    """`x` with numbers in place of nan and infinities, where its derivative is 0."""
    return xp.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


@nan_to_num.accept(np.nan_to_num)
def _(x, copy=True, nan=0.0, posinf=None, neginf=None):
    if not copy:
        refuse("np.nan_to_num", fix="assign the result", copy=copy)
    numbers = {"nan": nan, "posinf": posinf, "neginf": neginf}
    for name, value in numbers.items():
        if value is not None and constant_of(value) is None:
            refuse("np.nan_to_num", fix="give a constant number", **{name: value})
    return nan_to_num(as_operand(x), **numbers)


# ------------------------------------------------------------------- complex numbers
# The pairing of cotangent and tangent is Re(sum(ct * t)), as in JAX and autograd.
def _real_type(t: ArrayType) -> ArrayType:
    return t.with_dtype(np.empty(0, t.dtype).real.dtype)


@op(
    infer=_real_type,
    vjp=[lambda ct, y, x: ct],
    aliases="view",
    batch=Batch.MAP,
    samples=[*_ONE, *_COMPLEX],
)
def real(x):
    """Real part."""
    return x.real


@accept(np.real, properties=["real"])
def _(val):
    x = as_array(val)
    return real(x) if dtype_of(x).kind == "c" else x


@op(
    infer=_real_type,
    vjp=[lambda ct, y, x: -1j * ct if dtype_of(x).kind == "c" else None],
    aliases="view",
    batch=Batch.MAP,
    samples=[*_ONE, *_COMPLEX],
)
def imag(x):
    """Imaginary part."""
    return x.imag


@imag.accept(np.imag)
@accept(properties=["imag"])
def _(val):
    return imag(as_array(val))


@op(
    infer=elementwise(np.conjugate),
    vjp=[lambda ct, y, x: conj(ct)],
    accepts=[np.conjugate],
    methods=["conj", "conjugate"],
    samples=[*_ONE, *_COMPLEX],
)
def conj(x):
    """Complex conjugate."""
    return xp.conj(x)


def _infer_angle(t: ArrayType, *, deg: bool) -> ArrayType:
    part = _real_type(t).dtype
    return t.with_dtype(ufunc_dtypes(np.arctan2, (part, part))[0])


def _slope_of_angle(ct, y, z, *, deg):
    if dtype_of(z).kind != "c":
        return None
    turned = ct / (1j * z)
    return turned * (180.0 / math.pi) if deg else turned


@op(
    infer=_infer_angle,
    vjp=[_slope_of_angle],
    batch=Batch.MAP,
    samples=[*_ONE, *_COMPLEX, arg(3, dtype="complex128").with_(deg=True)],
)
def angle(z, *, deg=False):
    """Argument of a complex number; 0 or pi for a real one, with derivative 0."""
    return xp.angle(z, deg=deg)


@angle.accept(np.angle)
def _(z, deg=False):
    return angle(as_operand(z), deg=bool(deg))


@accept(np.iscomplexobj, constant=True)
def _(x):
    return dtype_of(as_operand(x)).kind == "c"


@accept(np.isrealobj, constant=True)
def _(x):
    return dtype_of(as_operand(x)).kind != "c"
