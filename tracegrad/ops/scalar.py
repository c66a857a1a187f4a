"""The functions of the module `math`, which take numbers.

They record the ops of their NumPy counterparts; the error functions are `math`'s own,
so that a function written without SciPy has a gradient written without it.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import numpy as xp

from tracegrad.errors import ArgumentError
from tracegrad.ir.types import ArrayType, is_scalar_literal
from tracegrad.ops import elementary, elementwise, select, special, trigonometry
from tracegrad.ops.cast import astype
from tracegrad.ops.define import STANDS_FOR, Op, accept, op
from tracegrad.ops.infer import shape_text
from tracegrad.ops.library import Library
from tracegrad.ops.record import as_operand, shape_of
from tracegrad.ops.sample import arg

library = Library("math", jax="jax.scipy.special")

_NUMBER = (arg().with_(), arg(dtype="float32").with_())
_TWO_BY_ROOT_PI = 2.0 / math.sqrt(math.pi)


def _number(*_: ArrayType) -> ArrayType:
    return ArrayType((), np.dtype(np.float64), weak=True)


@op(
    infer=_number,
    vjp=[lambda ct, y, x: ct * (_TWO_BY_ROOT_PI * elementary.exp(-(x**2)))],
    spelling="math.erf",
    samples=_NUMBER,
)
def scalar_erf(x):
    """Error function of a number."""
    return library.erf(x)


@scalar_erf.body("jax")
def _(x):
    return library.erf(xp.asarray(x, dtype=xp.float64))


@op(
    infer=_number,
    vjp=[lambda ct, y, x: -(ct * (_TWO_BY_ROOT_PI * elementary.exp(-(x**2))))],
    spelling="math.erfc",
    samples=_NUMBER,
)
def scalar_erfc(x):
    """1 - erf(x) of a number, exact for large x."""
    return library.erfc(x)


@scalar_erfc.body("jax")
def _(x):
    return library.erfc(xp.asarray(x, dtype=xp.float64))


def _scalars(name: str, args: tuple) -> list[Any]:
    """The arguments, each of which must be one number."""
    operands = [as_operand(x) for x in args]
    for x in operands:
        if shape_of(x) != ():
            raise ArgumentError(
                f"math.{name} takes numbers, not an array of shape "
                f"{shape_text(shape_of(x))}",
                op=f"math.{name}",
                fix="use the function of NumPy",
            )
    return operands


_WHOLE: list[Any] = []  # what gives ints


def _register(name: str, to: Any) -> None:
    function = getattr(math, name, None)
    if function is None:  # newer than this Python
        return

    @accept(function, constant=to in _WHOLE)
    def call(*args):
        return to(*_scalars(name, args))

    if isinstance(to, Op):
        STANDS_FOR[call] = to


def _log(x, base=None):
    if base is None:
        return elementary.log(x)
    of_base = math.log(base) if is_scalar_literal(base) else elementary.log(base)
    return elementary.log(x) / of_base


def _hypot(*coordinates):
    if len(coordinates) < 2:
        return select.absolute(*coordinates) if coordinates else 0.0
    return functools.reduce(trigonometry.hypot, coordinates)


def _whole(rounding):
    made = lambda x: astype(rounding(x), dtype=np.dtype(np.int64))
    _WHOLE.append(made)
    return made


for _op in (
    *(elementary.exp, elementary.exp2, elementary.expm1, elementary.log1p),
    *(elementary.log2, elementary.log10, elementary.sqrt, elementary.cbrt),
    *(trigonometry.sin, trigonometry.cos, trigonometry.tan),
    *(trigonometry.sinh, trigonometry.cosh, trigonometry.tanh),
    *(select.fabs, select.copysign, select.isnan, select.isinf, select.isfinite),
    elementwise.fmod,
    special.gamma,
):
    _register(_op.name, _op)
for _name, _to in {
    "acos": trigonometry.arccos,
    "acosh": trigonometry.arccosh,
    "asin": trigonometry.arcsin,
    "asinh": trigonometry.arcsinh,
    "atan": trigonometry.arctan,
    "atan2": trigonometry.arctan2,
    "atanh": trigonometry.arctanh,
    "ceil": _whole(select.ceil),
    "degrees": trigonometry.rad2deg,
    "erf": scalar_erf,
    "erfc": scalar_erfc,
    "floor": _whole(select.floor),
    "hypot": _hypot,
    "lgamma": special.gammaln,
    "log": _log,
    "pow": elementary.power_by_numpy,
    "radians": trigonometry.deg2rad,
    "remainder": lambda x, y: x - y * select.rint(x / y),
    "trunc": _whole(select.trunc),
}.items():
    _register(_name, _to)
