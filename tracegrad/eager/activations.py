"""Sigmoid, relu and their kin: the bends of networks, and special functions.

Each is a name of `torch` or of `torch.nn.functional`, or of both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.eager import rules
from tracegrad.eager.arithmetic import clamp, where
from tracegrad.eager.engine import Entry, entry_of
from tracegrad.eager.faster import BODIES
from tracegrad.eager.inplace import in_place, named
from tracegrad.eager.registry import op_function, own_rules, torch_function, write_out
from tracegrad.eager.statistics import floating
from tracegrad.eager.tensor import Tensor, wrap
from tracegrad.ops import elementary, select, special, trigonometry


def of_floats(op: Any, *names: str, title: str, inplace: bool = True) -> None:
    """Enter an op of one operand, which takes integers as floats."""
    entry = entry_of(op)

    def function(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        result = entry.eager(floating(input))
        return result if out is None else write_out(out, result, names[0])

    function.__name__ = function.__qualname__ = names[0]
    function.__doc__ = op.run.__doc__
    torch_function(*names, methods=True, inplace=inplace, grad=(op, title))(function)


def _expit(x: Any) -> Any:
    """The logistic function without SciPy; `exp` may overflow, to the right limit."""
    return 1.0 / (1.0 + np.exp(-x))


BODIES[special.expit] = _expit
of_floats(special.expit, "sigmoid", title="SigmoidBackward0")
of_floats(special.erf, "erf", title="ErfBackward0")
of_floats(special.erfc, "erfc", title="ErfcBackward0")
of_floats(special.erfinv, "erfinv", title="ErfinvBackward0")
of_floats(special.gammaln, "lgamma", title="LgammaBackward0")
of_floats(special.digamma, "digamma", title="DigammaBackward0")
of_floats(special.i0, "i0", title="I0Backward0")
of_floats(trigonometry.sinc, "sinc", title="SincBackward0")
for _op, _names in (
    (trigonometry.arcsin, ("asin", "arcsin")),
    (trigonometry.arccos, ("acos", "arccos")),
    (trigonometry.arctan, ("atan", "arctan")),
    (trigonometry.arcsinh, ("asinh", "arcsinh")),
    (trigonometry.arccosh, ("acosh", "arccosh")),
    (trigonometry.arctanh, ("atanh", "arctanh")),
):
    op_function(_op, *_names, grad=f"{_names[0].title()}Backward0", inplace=True)
op_function(
    trigonometry.arctan2, "atan2", "arctan2", grad="Atan2Backward0", inplace=True
)
op_function(elementary.logaddexp, "logaddexp", grad="LogaddexpBackward0")
op_function(elementary.logaddexp2, "logaddexp2", grad="Logaddexp2Backward0")
op_function(trigonometry.hypot, "hypot", grad="HypotBackward0", inplace=True)
op_function(select.fmax, "fmax", grad="FmaxBackward0")
op_function(select.fmin, "fmin", grad="FminBackward0")
op_function(select.copysign, "copysign", grad="CopysignBackward0", zero=True)
own_rules(trigonometry.arctan2, rules.ARCTAN2)
own_rules(trigonometry.hypot, rules.HYPOT)
own_rules(select.fmax, rules.FMAX)
own_rules(select.fmin, rules.FMIN)


@torch_function("rsqrt", methods=True, inplace=True)
def rsqrt(input: Tensor) -> Tensor:
    """1 / sqrt(x)."""
    return named(floating(input).sqrt().reciprocal(), "RsqrtBackward0")


@torch_function("logit", methods=True, inplace=True)
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), with `x` limited to `[eps, 1 - eps]`."""
    x = input if eps is None else clamp(input, eps, 1 - eps)
    return named(entry_of(special.logit).eager(x), "LogitBackward0")


@torch_function("frac", methods=True, inplace=True)
def frac(input: Tensor) -> Tensor:
    """What is left of the point."""
    return named(input - input.trunc(), "FracBackward0")


@torch_function("deg2rad", methods=True, inplace=True)
def deg2rad(input: Tensor) -> Tensor:
    """Degrees as radians."""
    return named(floating(input) * (math.pi / 180), "Deg2RadBackward0")


@torch_function("rad2deg", methods=True, inplace=True)
def rad2deg(input: Tensor) -> Tensor:
    """Radians as degrees."""
    return named(floating(input) * (180 / math.pi), "Rad2DegBackward0")


@torch_function("xlogy", methods=True)
def xlogy(input: Any, other: Any) -> Tensor:
    """x * log(y), and 0 where x is 0."""
    x, y = (v if isinstance(v, Tensor) else wrap(np.asarray(v)) for v in (input, other))
    return named(
        entry_of(special.xlogy).eager(floating(x), floating(y)), "XlogyBackward0"
    )


_round = entry_of(select.round)
_round.zero = True


@torch_function("round", methods=True, inplace=True)
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """The nearest number with so many decimals, the even one of two."""
    name = "RoundBackward1" if decimals else "RoundBackward0"
    return named(_round.eager(input, decimals=decimals), name)


@torch_function("nan_to_num", methods=True, inplace=True)
def nan_to_num(
    input: Tensor,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Tensor:
    """Not-a-number and infinities replaced."""
    how = {"nan": 0.0 if nan is None else nan, "posinf": posinf, "neginf": neginf}
    return named(entry_of(select.nan_to_num).eager(input, **how), "NanToNumBackward0")


# ------------------------------------------------------------------------- activations
# A maximum with a rule of its own, apart from the entry of `torch.maximum`.
_relu = Entry(select.maximum)
_relu.title, _relu.rules = "ReluBackward0", tuple(rules.RELU)
_zeros: dict[np.dtype, Tensor] = {}


@torch_function("relu", methods=True, inplace=True)
def relu(input: Tensor) -> Tensor:
    """max(x, 0); at 0 the derivative is 0."""
    dtype = input._data.dtype
    zero = _zeros.get(dtype)
    if zero is None:
        zero = _zeros[dtype] = wrap(np.zeros((), dtype))
    return _relu.eager(input, zero)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta * x)) / beta, and `x` beyond the threshold."""
    scaled = input if beta == 1 else input * beta
    bent = entry_of(elementary.logaddexp).eager(
        scaled, wrap(np.zeros_like(scaled._data))
    )
    bent = bent if beta == 1 else bent / beta
    return named(where(scaled > threshold, input, bent), "SoftplusBackward0")


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x times the normal distribution function at x, or its form with `tanh`."""
    x = input
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        made = 0.5 * x * (1 + inner.tanh())
    else:
        made = x * (0.5 * (1 + (x * math.sqrt(0.5)).erf()))
    return named(made, "GeluBackward0")


def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x)), exact in both tails."""
    return named(entry_of(special.log_expit).eager(input), "LogSigmoidBackward0")


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x)."""
    return named(input * input.sigmoid(), "SiluBackward0")


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x))."""
    return named(input * softplus(input).tanh(), "MishBackward0")


def leaky_relu(
    input: Tensor, negative_slope: float = 0.01, inplace: bool = False
) -> Tensor:
    """x, or `negative_slope * x` where x is not positive."""
    made = where(input > 0, input, input * negative_slope)
    return named(made, "LeakyReluBackward0")


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, or `alpha * (exp(x) - 1)` where x is not positive."""
    bent = clamp(input, max=0.0).expm1() * alpha
    return named(where(input > 0, input, bent), "EluBackward0")


@torch_function("selu")
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """`elu` scaled so that layers keep mean and variance."""
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    return named(elu(input, alpha) * scale, "EluBackward0")


@torch_function("celu")
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, or `alpha * (exp(x / alpha) - 1)` where x is not positive."""
    bent = (clamp(input, max=0.0) / alpha).expm1() * alpha
    return named(where(input > 0, input, bent), "CeluBackward0")


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """x limited to an interval."""
    inside = (input > min_val).logical_and(input < max_val)
    limited = clamp(input.detach(), min_val, max_val)
    return named(where(inside, input, limited), "HardtanhBackward0")


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """x limited to [0, 6]."""
    return hardtanh(input, 0.0, 6.0)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """x / 6 + 1 / 2, limited to [0, 1]."""
    return named(hardtanh(input, -3.0, 3.0) / 6 + 0.5, "HardsigmoidBackward0")


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * hardsigmoid(x)."""
    return named(input * hardsigmoid(input), "HardswishBackward0")


def softsign(input: Tensor) -> Tensor:
    """x / (1 + abs(x))."""
    return input / (1 + input.abs())


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    return input - input.tanh()


def threshold(
    input: Tensor, threshold: float, value: float, inplace: bool = False
) -> Tensor:
    """x, or `value` where x is not above the threshold."""
    number = wrap(np.array(value, input._data.dtype))
    return named(where(input <= threshold, number, input), "ThresholdBackward0")


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """One half along an axis, times the sigmoid of the other."""
    first, second = input.chunk(2, dim)
    return named(first * second.sigmoid(), "GluBackward0")


def with_inplace(function: Callable) -> Callable:
    """The function with an argument `inplace`, as `nn.functional` has it."""

    def made(input: Tensor, *args: Any, inplace: bool = False, **kwargs: Any) -> Tensor:
        if inplace:
            return in_place(input, function, *args, **kwargs)
        return function(input, *args, **kwargs)

    made.__name__ = made.__qualname__ = function.__name__
    made.__doc__ = function.__doc__
    return made
