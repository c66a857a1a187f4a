"""Random numbers: tensors filled in place, samples of distributions, the state.

The numbers are those of NumPy's generator, not PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.eager.creation import generator, made, with_generator
from tracegrad.eager.dtypes import SCALAR_TYPES, default, to_numpy_dtype
from tracegrad.eager.inplace import constant_node, in_place, named
from tracegrad.eager.modes import state
from tracegrad.eager.registry import sizes_of, torch_function
from tracegrad.eager.tensor import Tensor, wrap

WRONG_CHANCE = (
    "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error "
    "message be improved?  If so, please report an enhancement request to PyTorch.)"
)
# What PyTorch says where a dtype is not floating, by the method.
NOT_FLOATING: dict[str, tuple[type, str]] = {
    "normal_": (NotImplementedError, "\"normal_kernel_cpu\" not implemented for '{}'"),
    "uniform_": (
        NotImplementedError,
        "\"check_uniform_bounds\" not implemented for '{}'",
    ),
    "log_normal_": (NotImplementedError, "\"log_normal_cpu\" not implemented for '{}'"),
    "exponential_": (
        RuntimeError,
        "Exponential distribution is a continuous probability distribution. dtype must "
        "be a floating point but you specified {}",
    ),
    "cauchy_": (
        RuntimeError,
        "Cauchy distribution is a continuous probability distribution. dtype must be a "
        "floating point but you specified {}",
    ),
}


def _filler(name: str, draw: Callable) -> None:
    """A method that fills a tensor with `draw(shape, *args)`."""

    @with_generator
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        kind = self._data.dtype
        if name in NOT_FLOATING and kind.kind not in "fc":
            error, text = NOT_FLOATING[name]
            raise error(text.format(SCALAR_TYPES[self.dtype]))
        drawn = np.asarray(draw(self._data.shape, *args, **kwargs)).astype(kind)
        return _filled(self, drawn, name, args)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"Random numbers in place: {name}."
    setattr(Tensor, name, method)


def _filled(self: Tensor, drawn: np.ndarray, name: str, args: tuple) -> Tensor:
    in_place(self, lambda x: wrap(drawn))
    number = 0
    if name in ("bernoulli_", "random_"):
        number = 1 if args and name == "random_" else 2
        number = 1 if args and isinstance(args[0], Tensor) else number
    title = "".join(part.title() for part in name.split("_"))
    return self if self._root is not None else named(self, f"{title}Backward{number}")


def _flat(drawn: np.ndarray, of: tuple, title: str) -> Tensor:
    """What was drawn, as a function of tensors by which its slope is zero."""
    made = wrap(drawn)
    for x in of:
        if isinstance(x, Tensor) and x._node is not None and state.grad:
            made._node = constant_node(x, None, drawn)
            return named(made, title)
    return made


def _checked(holds: bool, text: str) -> None:
    if not holds:
        raise RuntimeError(text)


def _normal(shape: tuple, mean: float = 0.0, std: float = 1.0) -> Any:
    _checked(std >= 0, f"normal expects std >= 0.0, but found std {std}")
    return mean + std * generator.rng.standard_normal(shape)


def _uniform(shape: tuple, *args: float, **ends: float) -> Any:
    low, high = _ends(*args, **ends)
    _checked(
        low <= high,
        f"uniform_ expects to return a [from, to) range, but found from={low} > "
        f"to={high}",
    )
    return generator.rng.uniform(low, high, shape)


def _ends(low: float = 0.0, high: float = 1.0, **ends: float) -> tuple[float, float]:
    return ends.get("from", low), ends.get("to", high)


def _exponential(shape: tuple, lambd: float = 1.0) -> Any:
    _checked(lambd > 0, f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    return generator.rng.exponential(1 / lambd, shape)


def _geometric(shape: tuple, p: float) -> Any:
    _checked(0 < p < 1, f"geometric_ expects p to be in (0, 1), but got p={p}")
    return generator.rng.geometric(p, shape)


def _cauchy(shape: tuple, median: float = 0.0, sigma: float = 1.0) -> Any:
    _checked(sigma > 0, f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    return median + sigma * generator.rng.standard_cauchy(shape)


def _log_normal(shape: tuple, mean: float = 1.0, std: float = 2.0) -> Any:
    _checked(std > 0, f"log_normal_ expects std > 0.0, but found std={std}")
    return generator.rng.lognormal(mean, std, shape)


def _bernoulli(shape: tuple, p: Any = 0.5) -> Any:
    chance = p._data if isinstance(p, Tensor) else np.asarray(p)
    _check_chance(chance)
    return generator.rng.random(shape) < chance


def _check_chance(p: np.ndarray) -> None:
    if ((p < 0) | (p > 1)).any():
        if p.ndim:
            raise RuntimeError(WRONG_CHANCE)
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")


_filler("normal_", _normal)
_filler("uniform_", _uniform)
_filler("exponential_", _exponential)
_filler("geometric_", _geometric)
_filler("cauchy_", _cauchy)
_filler("log_normal_", _log_normal)
_filler("bernoulli_", _bernoulli)


@with_generator
def _random(self: Tensor, *args: int, **ends: int) -> Tensor:
    """Integers in place, from all that the dtype holds, or below a bound."""
    low, high = (0, None) if not args else (0, args[0]) if len(args) == 1 else args
    low, high = ends.get("from", low), ends.get("to", high)
    kind = self._data.dtype
    if high is None:
        high = 2 ** np.finfo(kind).nmant if kind.kind == "f" else 2
        high = np.iinfo(kind).max if kind.kind in "iu" else high
    _checked(
        low < high,
        f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}",
    )
    drawn = _rng().integers(low, high, self._data.shape).astype(kind)
    return _filled(self, drawn, "random_", args)


def _rng() -> Any:
    return generator.rng


Tensor.random_ = _random  # type: ignore[attr-defined]


# ----------------------------------------------------------------------------- samples
@torch_function("bernoulli", methods=True)
@with_generator
def bernoulli(input: Tensor, p: Any = None) -> Tensor:
    """1 with the chance that `input` has there, or `p`; else 0.  It has no slope."""
    chance = input._data if p is None else np.asarray(p)
    if p is not None:
        _check_chance(chance)
    elif ((chance < 0) | (chance > 1)).any():
        raise RuntimeError(WRONG_CHANCE)
    drawn = _rng().random(input._data.shape) < chance
    return _flat(drawn.astype(input._data.dtype), (input,), "BernoulliBackward0")


@torch_function("normal")
@with_generator
def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal numbers with the means and deviations of tensors, or of numbers."""
    tensors = [x for x in (mean, std) if isinstance(x, Tensor)]
    parts = [x._data if isinstance(x, Tensor) else x for x in (mean, std)]
    if np.any(np.asarray(parts[1]) < 0):
        raise RuntimeError("normal expects all elements of std >= 0.0")
    if tensors:
        shape = np.broadcast_shapes(*[x._data.shape for x in tensors])
        kind = tensors[0]._data.dtype
    else:
        shape = sizes_of((size,))
        kind = default.real if dtype is None else to_numpy_dtype(dtype)
    drawn = np.asarray(parts[0] + parts[1] * _rng().standard_normal(shape)).astype(kind)
    if tensors:
        number = 3 if len(tensors) == 2 else 1 if isinstance(mean, Tensor) else 2
        return _flat(drawn, (mean, std), f"NormalBackward{number}")
    return made(drawn, requires_grad, device)


@torch_function("poisson")
@with_generator
def poisson(input: Tensor) -> Tensor:
    """Poisson numbers of these rates."""
    drawn = np.asarray(_rng().poisson(input._data)).astype(input._data.dtype)
    return _flat(drawn, (input,), "PoissonBackward0")


@torch_function("multinomial", methods=True)
@with_generator
def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
) -> Tensor:
    """Places drawn by the weights in each row."""
    weights = input._data
    if weights.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > weights.shape[-1]:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )
    if (weights < 0).any() or not np.isfinite(weights).all():
        raise RuntimeError(
            "probability tensor contains either `inf`, `nan` or element < 0"
        )
    rows = weights.reshape(-1, weights.shape[-1]).astype(np.float64)
    if (rows.sum(1) == 0).any():
        raise RuntimeError(
            "invalid multinomial distribution (sum of probabilities <= 0)"
        )
    drawn = [
        _rng().choice(row.size, num_samples, replace=replacement, p=row / row.sum())
        for row in rows
    ]
    return wrap(np.array(drawn, np.int64).reshape(*weights.shape[:-1], num_samples))


@torch_function("randint_like")
def randint_like(input: Tensor, *args: int, dtype: Any = None) -> Tensor:
    """`randint_like(input, high)`, `randint_like(input, low, high)`."""
    low, high = (0, args[0]) if len(args) == 1 else args
    kind = input._data.dtype if dtype is None else to_numpy_dtype(dtype)
    return wrap(_rng().integers(low, high, input._data.shape).astype(kind))


# ------------------------------------------------------------------------------- state
@torch_function("get_rng_state")
def get_rng_state() -> Tensor:
    """The state of the generator, as bytes; only `set_rng_state` understands it."""
    return generator.get_state()


@torch_function("set_rng_state")
def set_rng_state(new_state: Tensor) -> None:
    """Go on from a state that `get_rng_state` gave."""
    generator.set_state(new_state)


@torch_function("seed")
def seed() -> int:
    """Start from a number that the system gives, and return it."""
    return generator.seed()


@torch_function("initial_seed")
def initial_seed() -> int:
    """The number that the random numbers started from."""
    return generator.initial_seed()
