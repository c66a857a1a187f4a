"""Less common functions of single elements, and constants."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.eager.arithmetic import where
from tracegrad.eager.dtypes import from_numpy_dtype
from tracegrad.eager.engine import entry_of
from tracegrad.eager.inplace import in_place, named
from tracegrad.eager.registry import FUNCTIONS, op_function, torch_function
from tracegrad.eager.statistics import floating
from tracegrad.eager.tensor import Tensor, wrap
from tracegrad.ops import count, edit, elementwise, select
from tracegrad.ops.define import ACCEPT

_ACCEPTED: dict[Any, Callable] = ACCEPT


def _like(x: Any, other: Tensor) -> Tensor:
    return x if isinstance(x, Tensor) else wrap(np.asarray(x, other._data.dtype))


@torch_function("fmod", methods=True, inplace=True)
def fmod(input: Tensor, other: Any) -> Tensor:
    """What is left of a division whose quotient is cut off at the point."""
    made = entry_of(elementwise.fmod).eager(input, other)
    return named(made, f"FmodBackward{int(isinstance(other, Tensor))}")


op_function(edit.nextafter, "nextafter", inplace=True)
op_function(select.heaviside, "heaviside", inplace=True)
op_function(count.gcd, "gcd", inplace=True)
op_function(count.lcm, "lcm", inplace=True)


@torch_function("float_power", methods=True, inplace=True)
def float_power(input: Any, exponent: Any) -> Tensor:
    """A power in float64 or complex128."""
    made = []
    for x in (input, exponent):
        if isinstance(x, Tensor):
            wide = np.complex128 if x._data.dtype.kind == "c" else np.float64
            x = x.to(from_numpy_dtype(wide))
        made.append(x)
    return FUNCTIONS["pow"](*made)


@torch_function("ldexp", methods=True, inplace=True)
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """`input * 2**other`."""
    return named(input * FUNCTIONS["pow"](2.0, other), "LdexpBackward0")


@torch_function("sgn", methods=True, inplace=True)
def sgn(input: Tensor) -> Tensor:
    """The sign; of a complex number, the number of size 1 in its direction."""
    if input._data.dtype.kind != "c":
        return named(input.sign(), "SgnBackward0")
    size = input.abs()
    return named(
        where(size == 0, input, input / where(size == 0, 1.0, size)), "SgnBackward0"
    )


@torch_function("isposinf", methods=True)
def isposinf(input: Tensor) -> Tensor:
    """Whether elements are infinity."""
    return wrap(np.isposinf(input._data))


@torch_function("isneginf", methods=True)
def isneginf(input: Tensor) -> Tensor:
    """Whether elements are minus infinity."""
    return wrap(np.isneginf(input._data))


@torch_function("isreal", methods=True)
def isreal(input: Tensor) -> Tensor:
    """Whether elements have no imaginary part."""
    return wrap(np.isreal(input._data))


@torch_function("signbit")
def signbit(input: Tensor) -> Tensor:
    """Whether elements are negative, also -0."""
    return entry_of(select.signbit).eager(input)


@torch_function("polygamma")
def polygamma(n: int, input: Tensor) -> Tensor:
    """The derivative of order `n` of the digamma function."""
    x = floating(input)
    made = _ACCEPTED["scipy.special:polygamma"](n, x)
    return named(made.to(x.dtype), "PolygammaBackward0")


Tensor.polygamma = lambda self, n: polygamma(n, self)  # type: ignore[attr-defined]


@torch_function("mvlgamma", methods=True, inplace=True)
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """The logarithm of the gamma function of `p` dimensions."""
    x = floating(input)
    parts = [(x - 0.5 * j).lgamma() for j in range(p)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return named(total + 0.25 * p * (p - 1) * math.log(math.pi), "MvlgammaBackward0")


@torch_function("nan_to_num_")
def nan_to_num_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """`nan_to_num` in place."""
    return input.nan_to_num_(*args, **kwargs)


# ------------------------------------------------------- comparisons written in place
COMPARISONS = "eq ne lt le gt ge less less_equal greater greater_equal not_equal"


def _compare_in_place(name: str) -> None:
    compare = FUNCTIONS[name]

    def method(self: Tensor, other: Any) -> Tensor:
        in_place(self, lambda x: compare(x, other).to(x.dtype))
        return named(self, f"{name.title()}Backward{int(isinstance(other, Tensor))}")

    method.__name__ = method.__qualname__ = f"{name}_"
    method.__doc__ = f"Whether `{name}` holds, as numbers, in place."
    setattr(Tensor, method.__name__, method)


for _name in [
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "not_equal",
]:
    _compare_in_place(_name)


# ------------------------------------------------------ functions that work in place
IN_PLACE = (
    "abs acos acosh asin asinh atan atanh arccos arccosh arcsin arcsinh arctan arctanh "
    "ceil clamp clip cos cosh deg2rad erf erfc exp exp2 expm1 floor frac i0 log log10 "
    "log1p log2 logit neg negative rad2deg reciprocal relu round rsqrt sigmoid sin "
    "sinc sinh sqrt square tan tanh trunc fix zero fill xlogy detach"
)


def _function_in_place(name: str) -> None:
    def function(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return getattr(Tensor, name)(input, *args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`input.{name}(…)`."
    torch_function(name)(function)


for _name in [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctanh",
    "ceil",
    "clamp",
    "clip",
    "cos",
    "cosh",
    "deg2rad",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "frac",
    "i0",
    "log",
    "log10",
    "log1p",
    "log2",
    "logit",
    "neg",
    "negative",
    "rad2deg",
    "reciprocal",
    "relu",
    "round",
    "rsqrt",
    "sigmoid",
    "sin",
    "sinc",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
    "fix",
    "zero",
    "fill",
    "xlogy",
    "detach",
]:
    if f"{_name}_" not in FUNCTIONS and hasattr(Tensor, f"{_name}_"):
        _function_in_place(f"{_name}_")

CONSTANTS = {
    "pi": math.pi,
    "e": math.e,
    "inf": math.inf,
    "nan": math.nan,
    "newaxis": None,
    "strided": "torch.strided",
}
