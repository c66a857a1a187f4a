"""`scipy.interpolate`: piecewise polynomials, as functions of values and of the point.

A user makes an object and calls it; so the functions here that take the call of a class
return a `Returned`, whose methods the trace layer calls with traced arguments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import accept, op
from tracegrad.ops.infer import canonical_axis, refuse, same_size, shape_text
from tracegrad.ops.interpolate import _piece, _read, interp
from tracegrad.ops.library import Library
from tracegrad.ops.product import matmul, tensordot
from tracegrad.ops.record import (
    Returned,
    as_array,
    as_operand,
    constant_of,
    ndim_of,
    no_slope,
    shape_of,
)
from tracegrad.ops.reduce import sum as reduce_sum
from tracegrad.ops.sample import arg, call, data
from tracegrad.ops.shape import permute

interpolate = Library("scipy.interpolate")

_WHOLE_KNOTS = data((0, 1, 3, 4, 6), dtype="int64")
_ENDS = ("not-a-knot", "natural", "clamped")


def _slope(ct: Any, slope: Any, t: Any) -> Any:
    """The cotangent of the point, of which all values at it depend."""
    product = ct * slope
    extra = tuple(range(ndim_of(t), ndim_of(product)))
    if not extra:
        return product
    return reduce_sum(product, axis=canonical_axis(extra, ndim_of(product)))


# ----------------------------------------------------------------------- cubic splines
def _infer_spline(t: ArrayType, x: ArrayType, y: ArrayType, **attrs: Any) -> ArrayType:
    if x.ndim != 1 or not y.ndim or not same_size(x.shape[0], y.shape[0]):
        raise ShapeError(
            f"points of shape {shape_text(x.shape)} and values of shape "
            f"{shape_text(y.shape)}",
            fix="give one value for each point, along the first axis",
        )
    dtype = np.complex128 if y.kind == "c" else np.float64
    return ArrayType((*t.shape, *y.shape[1:]), np.dtype(dtype))


_OF_KNOTS = no_slope("scipy.interpolate.CubicSpline", "the points x")


def _of_values(ct, out, t, x, y, **attrs):
    # The spline is linear in its values: each is the weight of a spline of its own.
    basis = spline_basis(t, x, **attrs)
    if ndim_of(t) == 1 and ndim_of(ct) < 3:
        return matmul(permute(basis, (1, 0)), ct)
    axes = tuple(range(ndim_of(t)))
    return tensordot(basis, ct, axes=(axes, axes))


def _of_point(ct, out, t, x, y, *, nu, **attrs):
    return _slope(ct, cubic_spline(t, x, y, nu=nu + 1, **attrs), t)


@op(
    infer=_infer_spline,
    vjp=[_of_point, _OF_KNOTS, _of_values],
    spelling="scipy.interpolate.CubicSpline",
    noun="spline",
    samples=[
        call(arg("n", lo=0.2, hi=5.8), _WHOLE_KNOTS, arg(5)).without("jax"),
        call(arg(2, lo=0.2, hi=5.8), _WHOLE_KNOTS, arg(5, 2), nu=1).without("jax"),
        call(arg(lo=0.2, hi=0.8), _WHOLE_KNOTS, arg(5), bc_type="natural").without(
            "jax"
        ),
    ],
)
def cubic_spline(t, x, y, *, bc_type="not-a-knot", nu=0, extrapolate=None):
    """Derivative of order `nu`, at `t`, of the cubic spline through `y` at `x`."""
    if nu == 0:
        return interpolate.CubicSpline(x, y, bc_type=bc_type, extrapolate=extrapolate)(
            t
        )
    return interpolate.CubicSpline(x, y, bc_type=bc_type, extrapolate=extrapolate)(
        t, nu
    )


@op(
    infer=lambda t, x, **attrs: ArrayType((*t.shape, x.shape[0]), np.dtype(np.float64)),
    vjp=[
        lambda ct, out, t, x, *, nu, **attrs: _slope(
            ct, spline_basis(t, x, nu=nu + 1, **attrs), t
        ),
        _OF_KNOTS,
    ],
    spelling="scipy.interpolate.CubicSpline",
    noun="basis",
    samples=[
        call(arg("n", lo=0.2, hi=5.8), _WHOLE_KNOTS).without("jax"),
        call(arg(2, lo=0.2, hi=5.8), _WHOLE_KNOTS, nu=1).without("jax"),
    ],
)
def spline_basis(t, x, *, bc_type="not-a-knot", nu=0, extrapolate=None):
    """The splines at `t` that are 1 at one of the points `x` and 0 at all others."""
    if nu == 0:
        return interpolate.CubicSpline(
            x, xp.eye(len(x)), bc_type=bc_type, extrapolate=extrapolate
        )(t)
    return interpolate.CubicSpline(
        x, xp.eye(len(x)), bc_type=bc_type, extrapolate=extrapolate
    )(t, nu)


class Spline(Returned):
    """A cubic spline, or a derivative of it.

    Attributes:
        x: points.
        y: values at the points.
        attrs: attributes of `cubic_spline`.
    """

    name = "scipy.interpolate.CubicSpline"

    def __init__(self, x: Any, y: Any, attrs: dict[str, Any]) -> None:
        self.x, self.y, self.attrs = x, y, attrs

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        attrs = dict(self.attrs)
        if extrapolate is not None:
            attrs["extrapolate"] = bool(extrapolate)
        attrs["nu"] = attrs.get("nu", 0) + int(nu)
        return cubic_spline(as_operand(x), self.x, self.y, **attrs)

    def derivative(self, nu: int = 1) -> Spline:
        """The derivative of order `nu`, a spline too."""
        nu = self.attrs.get("nu", 0) + int(nu)
        return Spline(self.x, self.y, {**self.attrs, "nu": nu})


@accept("scipy.interpolate:CubicSpline")
def _(x, y, axis=0, bc_type="not-a-knot", extrapolate=None):
    name = "scipy.interpolate.CubicSpline"
    x, y = as_array(x), as_array(y)
    if axis % max(ndim_of(y), 1):
        refuse(name, fix="move the axis of the points to the front", axis=axis)
    if isinstance(bc_type, list | tuple) and len(bc_type) == 2:
        if bc_type[0] == bc_type[1]:
            bc_type = bc_type[0]
    if bc_type not in _ENDS:
        known = " or ".join(map(repr, _ENDS))
        refuse(name, fix=f"use bc_type={known}", bc_type=bc_type)
    attrs: dict[str, Any] = {"bc_type": bc_type}
    if extrapolate is not None:
        refuse(name, extrapolate="periodic" if extrapolate == "periodic" else None)
        attrs["extrapolate"] = bool(extrapolate)
    return Spline(x, y, attrs)


# ----------------------------------------------------------------- made before the call
@op(
    infer=lambda t, c, x, **attrs: ArrayType(
        (*t.shape, *c.shape[2:]), np.dtype(np.float64)
    ),
    vjp=[
        lambda ct, out, t, c, x, *, nu, **attrs: _slope(
            ct, polynomial_pieces(t, c, x, nu=nu + 1, **attrs), t
        ),
        no_slope("scipy.interpolate.PPoly", "the coefficients"),
        no_slope("scipy.interpolate.PPoly", "the breakpoints"),
    ],
    spelling="scipy.interpolate.PPoly",
    noun="pieces",
    samples=[
        call(
            arg("n", lo=0.2, hi=2.8),
            data(((1, 2), (0, -1), (3, 1)), dtype="int64"),
            data((0, 1, 3), dtype="int64"),
        ).without("jax"),
    ],
)
def polynomial_pieces(t, c, x, *, nu=0, extrapolate=None):
    """Derivative of order `nu` at `t` of the polynomials `c` between the `x`."""
    if nu == 0:
        return interpolate.PPoly(c, x, extrapolate=extrapolate)(t)
    return interpolate.PPoly(c, x, extrapolate=extrapolate)(t, nu)


class Pieces(Returned):
    """Piecewise polynomials that SciPy has made."""

    name = "scipy.interpolate.PPoly"

    def __init__(self, made: Any) -> None:
        self.made = made

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        if self.made.axis:
            refuse(self.name, axis=self.made.axis)
        beyond = self.made.extrapolate if extrapolate is None else extrapolate
        return polynomial_pieces(
            as_operand(x),
            self.made.c,
            self.made.x,
            nu=int(nu),
            extrapolate=beyond if beyond == "periodic" else bool(beyond),
        )


accept("scipy.interpolate:PPoly()")(Pieces)


# ---------------------------------------------------------------- linear interpolation
class Linear(Returned):
    """A piecewise linear function.

    Attributes:
        x: points in increasing order.
        y: a value at each.
        left: the value below the first point; None to go on along the line.
        right: the value above the last point.
    """

    name = "scipy.interpolate.interp1d"

    def __init__(self, x: Any, y: Any, left: Any, right: Any) -> None:
        self.x, self.y, self.left, self.right = x, y, left, right

    def __call__(self, x: Any) -> Any:
        x = as_array(x)
        if self.left is not None:
            return interp(x, self.x, self.y, left=self.left, right=self.right)
        before, after, _, share = _piece(x, self.x)
        start, end = _read(self.y, before), _read(self.y, after)
        return start + (end - start) * share


@accept("scipy.interpolate:interp1d")
def _(
    x,
    y,
    kind="linear",
    axis=-1,
    copy=True,
    bounds_error=None,
    fill_value=np.nan,
    assume_sorted=False,
):
    name = "scipy.interpolate.interp1d"
    if kind not in ("linear", 1):
        refuse(
            name, fix='use kind="linear", or scipy.interpolate.CubicSpline', kind=kind
        )
    x, y = as_array(x), as_array(y)
    if ndim_of(y) != 1:
        raise ShapeError(
            f"{name} of values of shape {shape_text(shape_of(y))} is not supported",
            fix="interpolate one vector at a time",
        )
    if type(fill_value) is str and fill_value == "extrapolate":
        return Linear(x, y, None, None)
    ends = fill_value if isinstance(fill_value, tuple) else (fill_value, fill_value)
    known = [constant_of(as_operand(end)) for end in ends]
    if len(known) != 2 or None in known:
        raise ArgumentError(
            f"{name} takes constant numbers as fill_value", fix="use np.where"
        )
    return Linear(x, y, *map(float, known))


@accept("scipy.interpolate:interp1d()")
def _(made):
    if made._kind != "linear" or np.ndim(made.y) != 1:
        refuse("scipy.interpolate.interp1d", kind=made._kind)
    ends = made.fill_value
    if type(ends) is str:
        return Linear(made.x, made.y, None, None)
    below, above = ends if isinstance(ends, tuple) else (ends, ends)
    return Linear(made.x, made.y, float(below), float(above))
