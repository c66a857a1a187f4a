"""`torch.special`: functions of mathematics by that module's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracegrad.eager.inplace import named
from tracegrad.eager.registry import FUNCTIONS
from tracegrad.eager.statistics import floating
from tracegrad.eager.tensor import Tensor
from tracegrad.ops.define import ACCEPT

# Name here -> name in `torch`.
SAME = {
    "digamma": "digamma",
    "erf": "erf",
    "erfc": "erfc",
    "erfinv": "erfinv",
    "exp2": "exp2",
    "expit": "sigmoid",
    "expm1": "expm1",
    "gammaln": "lgamma",
    "i0": "i0",
    "log1p": "log1p",
    "log_softmax": "log_softmax",
    "logit": "logit",
    "logsumexp": "logsumexp",
    "multigammaln": "mvlgamma",
    "polygamma": "polygamma",
    "psi": "digamma",
    "round": "round",
    "sinc": "sinc",
    "softmax": "softmax",
    "xlogy": "xlogy",
}
# SciPy's name, which is PyTorch's -> that of the `grad_fn`.
FROM_SCIPY = {
    "entr": "SpecialEntrBackward0",
    "i0e": "SpecialI0EBackward0",
    "i1": "SpecialI1Backward0",
    "i1e": "SpecialI1EBackward0",
    "log_ndtr": "SpecialLogNdtrBackward0",
    "ndtr": "MulBackward1",
    "ndtri": "SpecialNdtriBackward0",
}
_ACCEPTED: dict[Any, Callable] = ACCEPT


def _scipy(name: str, title: str) -> Callable:
    def function(input: Tensor) -> Tensor:
        x = floating(input)
        made = _ACCEPTED[f"scipy.special:{name}"](x)
        return named(made if made.dtype == x.dtype else made.to(x.dtype), title)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`scipy.special.{name}`."
    return function


def _shown(name: str) -> Callable:
    # Functions of `torch` replace themselves at their first call.
    def function(*args: Any, **kwargs: Any) -> Any:
        return FUNCTIONS[name](*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = FUNCTIONS[name].__doc__
    return function


def xlog1py(input: Any, other: Any) -> Tensor:
    """x * log(1 + y), and 0 where x is 0."""
    return named(FUNCTIONS["xlogy"](input, 1 + other), "SpecialXlog1PyBackward0")


for _name, _theirs in SAME.items():
    globals()[_name] = _shown(_theirs)
for _name, _title in FROM_SCIPY.items():
    globals()[_name] = _scipy(_name, _title)

__all__ = ["xlog1py", *SAME, *FROM_SCIPY]
