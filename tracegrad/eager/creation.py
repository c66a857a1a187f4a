"""New tensors, with PyTorch's calling forms and default dtypes."""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.eager.dtypes import (
    TENSOR_TYPES,
    default,
    dtype_of_scalar,
    from_numpy_dtype,
    promote_types,
    to_numpy_dtype,
)
from tracegrad.eager.modes import state
from tracegrad.eager.refusals import check_number, check_numbers
from tracegrad.eager.registry import FUNCTIONS, new_sizes, sizes_of, torch_function
from tracegrad.eager.tensor import Tensor, device, wrap
from tracegrad.eager.tensor import device as _device

COPY_OF_TENSOR = (
    "To copy construct from a tensor, it is recommended to use sourceTensor.detach()."
    "clone() or sourceTensor.detach().clone().requires_grad_(True), rather than "
    "torch.tensor(sourceTensor)."
)


def made(data: np.ndarray, requires_grad: bool = False, on: Any = None) -> Tensor:
    """A new leaf around `data`."""
    if on is not None:
        device(on)
    out = wrap(data)
    if state.inference:
        out._inference = True
    if requires_grad:
        if out._data.dtype.kind not in "fc":
            raise RuntimeError(
                "Only Tensors of floating point and complex dtype can require gradients"
            )
        out.requires_grad_()
    return out


def _array_of(data: Any, wide: bool = False) -> np.ndarray:
    """The array that nested lists, numbers and tensors make, in PyTorch's dtype.

    `wide` is for a dtype that is given: then no digit of a number is lost on the way.
    """
    if isinstance(data, Tensor):
        return np.array(data._data)
    if isinstance(data, np.ndarray | np.generic):
        return np.array(data)
    if isinstance(data, bool | int | float | complex):
        if isinstance(data, int) and not -(2**63) <= data < 2**63:
            return _large(data)
        return np.array(data) if wide else np.array(data, dtype_of_scalar(data))
    if not isinstance(data, tuple | list | range):
        if hasattr(data, "__array__"):
            return np.array(data)
        raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")
    found = _dtype_inside(data)
    plain = _without_tensors(data)
    kind = default.real if found is None else found
    if wide and kind.kind in "fc":
        kind = np.dtype(np.float64 if kind.kind == "f" else np.complex128)
    try:
        return np.array(plain, kind)
    except OverflowError:
        return _large(plain)
    except ValueError:
        raise ValueError(_ragged(data)) from None


def _large(data: Any) -> np.ndarray:
    """Integers beyond 64 bits, which fit only where a float or a truth is wanted."""
    return np.array(data, object)


def _dtype_inside(data: Any) -> np.dtype | None:
    if isinstance(data, Tensor):
        return data._data.dtype
    if isinstance(data, np.ndarray | np.generic):
        return data.dtype
    if isinstance(data, tuple | list | range):
        found = None
        for x in data:
            inner = _dtype_inside(x)
            if inner is not None:
                found = inner if found is None else promote_types(found, inner)
        return found
    if not isinstance(data, bool | int | float | complex):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    return dtype_of_scalar(data)


def _without_tensors(data: Any) -> Any:
    if isinstance(data, Tensor):
        return data._data.item() if not data._data.ndim else data._data.tolist()
    if isinstance(data, tuple | list):
        return [_without_tensors(x) for x in data]
    return list(data) if isinstance(data, range) else data


def _ragged(data: Any) -> str:
    first = len(data[0]) if hasattr(data[0], "__len__") else 0
    for x in data:
        have = len(x) if hasattr(x, "__len__") else 0
        if have != first:
            return f"expected sequence of length {first} at dim 1 (got {have})"
    return "expected a sequence of equal lengths"


@torch_function("tensor")
def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A new tensor with a copy of `data`."""
    if isinstance(data, Tensor):
        warnings.warn(COPY_OF_TENSOR, UserWarning, stacklevel=2)
    array = _array_of(data, wide=dtype is not None)
    if array.dtype.kind == "O" and (
        dtype is None or to_numpy_dtype(dtype).kind in "iu"
    ):
        raise ValueError("Overflow when unpacking long long")
    if dtype is not None:
        to = to_numpy_dtype(dtype)
        if not isinstance(data, Tensor | np.ndarray):
            check_numbers(array, to)
        with np.errstate(all="ignore"):
            array = array.astype(to)
    return made(array, requires_grad, device)


@torch_function("as_tensor", "asarray")
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor that shares the memory of `data`, if it can."""
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    if not isinstance(data, np.ndarray):
        return tensor(data, dtype=dtype)
    out = from_numpy(data)
    return out if dtype is None else out.to(dtype)


@torch_function("from_numpy")
def from_numpy(ndarray: np.ndarray) -> Tensor:
    """A tensor that shares the memory of an array."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    from_numpy_dtype(ndarray.dtype)
    return made(np.asarray(ndarray))


def _legacy(*args: Any) -> Tensor:
    """`Tensor(2, 3)`, `Tensor([1, 2])`, `Tensor()`."""
    if len(args) == 1 and isinstance(args[0], Tensor):
        return args[0].detach()
    if len(args) == 1 and isinstance(args[0], list | tuple | np.ndarray):
        return made(_array_of(args[0]).astype(default.real))
    return made(np.empty(sizes_of(args) if args else (0,), default.real))


Tensor._legacy = staticmethod(_legacy)


class _TensorType(type):
    """The types of old: `torch.LongTensor([1, 2])`, also for `isinstance`."""

    holds: Any

    def __call__(cls, *args: Any) -> Tensor:
        if len(args) == 1 and isinstance(args[0], list | tuple | np.ndarray):
            return made(_array_of(args[0]).astype(cls.holds.numpy))
        return _legacy(*args).to(cls.holds)

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Tensor) and x.dtype is cls.holds


for _dtype_of_type, _name in TENSOR_TYPES.items():
    FUNCTIONS[_name] = _TensorType(_name, (), {"holds": _dtype_of_type})


# -------------------------------------------------------------------- filled with one
def _dtype(given: Any) -> np.dtype:
    return default.real if given is None else to_numpy_dtype(given)


def _filled(name: str, fill: Any) -> Any:
    def create(
        *size: Any,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        out: Tensor | None = None,
        layout: Any = None,
        **kwargs: Any,
    ) -> Tensor:
        size = size or (kwargs["size"],)
        shape = new_sizes(size, name)
        return made(fill(shape, _dtype(dtype)), requires_grad, device)

    def like(
        input: Tensor,
        *,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        memory_format: Any = None,
    ) -> Tensor:
        kind = input._data.dtype if dtype is None else to_numpy_dtype(dtype)
        return made(fill(input._data.shape, kind), requires_grad, device)

    create.__name__ = create.__qualname__ = name
    create.__doc__ = f"A new tensor of the given sizes: {name}."
    like.__name__ = like.__qualname__ = f"{name}_like"
    like.__doc__ = f"A new tensor of the shape and dtype of `input`: {name}."
    torch_function(name)(create)
    torch_function(f"{name}_like")(like)

    def new(self: Tensor, *size: Any, dtype: Any = None, **options: Any) -> Tensor:
        return create(*size, dtype=dtype or self.dtype, **options)

    setattr(Tensor, f"new_{name}", new)
    return create


zeros = _filled("zeros", np.zeros)
ones = _filled("ones", np.ones)
empty = _filled("empty", np.empty)


@torch_function("full")
def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A new tensor with one number everywhere."""
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    kind = dtype_of_scalar(fill_value) if dtype is None else to_numpy_dtype(dtype)
    check_number(fill_value, kind)
    return made(np.full(new_sizes((size,)), fill_value, kind), requires_grad, device)


@torch_function("full_like")
def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A new tensor of the shape of `input` with one number everywhere."""
    kind = input._data.dtype if dtype is None else to_numpy_dtype(dtype)
    return made(np.full(input._data.shape, fill_value, kind), requires_grad, device)


@torch_function("eye")
def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A matrix with ones on the diagonal."""
    for name, count in (("n", n), ("m", m)):
        if count is not None and count < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {count}")
    return made(np.eye(n, m, dtype=_dtype(dtype)), requires_grad, device)


@torch_function("arange")
def arange(
    *args: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """`arange(end)`, `arange(start, end)`, `arange(start, end, step)`."""
    if dtype is not None:
        kind = to_numpy_dtype(dtype)
    elif any(isinstance(a, float) for a in args):
        kind = default.real
    else:
        kind = np.dtype(np.int64)
    return made(np.arange(*args).astype(kind), requires_grad, device)


@torch_function("linspace")
def linspace(
    start: float,
    end: float,
    steps: int,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`steps` numbers from `start` to `end`, both included."""
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    array = np.linspace(start, end, steps).astype(_dtype(dtype))
    return made(array, requires_grad, device)


# ------------------------------------------------------------------------------ random
class Generator:
    """A source of random numbers; they are NumPy's, not PyTorch's."""

    def __init__(self, device: Any = "cpu") -> None:
        self.device = _device(device)
        self.manual_seed(0)

    def manual_seed(self, seed: int) -> Generator:
        """Start anew from a number."""
        self._seed = int(seed)
        self.rng = np.random.default_rng(self._seed % 2**64)
        return self

    def initial_seed(self) -> int:
        """The number it started from."""
        return self._seed

    def seed(self) -> int:
        """Start from a number that the system gives, and return it."""
        drawn = np.random.SeedSequence().generate_state(1, np.uint64)
        return self.manual_seed(int(drawn[0])).initial_seed()

    def get_state(self) -> Tensor:
        """The state, as bytes that only `set_state` understands."""
        text = json.dumps(self.rng.bit_generator.state)
        return wrap(np.frombuffer(text.encode(), np.uint8).copy())

    def set_state(self, new_state: Tensor) -> None:
        """Go on from a state that `get_state` gave."""
        state = json.loads(new_state._data.tobytes().decode())
        self.rng.bit_generator.state = state


# That of this process.
generator = Generator()


def with_generator(function: Callable) -> Callable:
    """A function that draws from `generator=` if that is given."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        given = kwargs.pop("generator", None)
        if given is None:
            return function(*args, **kwargs)
        before = generator.rng
        generator.rng = given.rng
        try:
            return function(*args, **kwargs)
        finally:
            generator.rng = before

    return run


@torch_function("manual_seed")
def manual_seed(seed: int) -> Any:
    """Start the random numbers anew; they are NumPy's, not PyTorch's."""
    return generator.manual_seed(seed)


def _random(name: str, draw: Any) -> None:
    def create(
        *size: Any,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:
        shape = new_sizes(size)
        return made(_drawn(draw, shape, _dtype(dtype)), requires_grad, device)

    def like(
        input: Tensor, *, dtype: Any = None, requires_grad: bool = False
    ) -> Tensor:
        kind = input._data.dtype if dtype is None else to_numpy_dtype(dtype)
        return made(_drawn(draw, input._data.shape, kind), requires_grad)

    create.__name__ = create.__qualname__ = name
    create.__doc__ = f"Random numbers: {name}."
    like.__name__ = like.__qualname__ = f"{name}_like"
    like.__doc__ = f"Random numbers in the shape of `input`: {name}."
    torch_function(name)(with_generator(create))
    torch_function(f"{name}_like")(with_generator(like))


def _drawn(draw: Any, shape: tuple, kind: np.dtype) -> np.ndarray:
    if kind.kind == "c":
        parts = draw(shape), draw(shape)
        return ((parts[0] + 1j * parts[1]) * 0.5**0.5).astype(kind)
    return np.asarray(draw(shape)).astype(kind)


_random("randn", lambda shape: generator.rng.standard_normal(shape))
_random("rand", lambda shape: generator.rng.random(shape, np.float32))


@torch_function("randint")
@with_generator
def randint(
    *args: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """`randint(high, size)`, `randint(low, high, size)`."""
    low, high, size = (0, *args) if len(args) == 2 else args
    kind = np.dtype(np.int64) if dtype is None else to_numpy_dtype(dtype)
    drawn = generator.rng.integers(low, high, new_sizes((size,)))
    return made(drawn.astype(kind), requires_grad, device)


@torch_function("randperm")
@with_generator
def randperm(n: int, *, dtype: Any = None) -> Tensor:
    """The numbers below `n` in random order."""
    kind = np.dtype(np.int64) if dtype is None else to_numpy_dtype(dtype)
    return made(generator.rng.permutation(n).astype(kind))
