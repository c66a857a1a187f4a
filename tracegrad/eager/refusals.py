"""Operands that NumPy takes and PyTorch does not, and its errors for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.eager.dtypes import SCALAR_TYPES, TENSOR_TYPES, from_numpy_dtype

_MASKS = (
    "If you are trying to invert a mask, use the `~` or `logical_not()` operator "
    "instead."
)
_C_NAMES = {"float32": "float", "float64": "double", "float16": "c10::Half"}
_C_NAMES["int32"] = "int"


def _is_bool(x: Any) -> bool:
    return x.dtype == np.bool_ if isinstance(x, np.ndarray) else isinstance(x, bool)


def refuse_bool_minus(given: list, operands: list) -> None:
    """Refuse a difference with a mask.

    Args:
        given: arrays and Python numbers, as the user wrote them.
        operands: the same in one dtype.

    Raises:
        RuntimeError: PyTorch's message.
    """
    masks = list(map(_is_bool, given))
    if len(masks) == 1 and masks[0]:
        raise RuntimeError(
            f"Negation, the `-` operator, on a bool tensor is not supported. {_MASKS}"
        )
    if all(masks):
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. "
            "Use the `^` or `logical_xor()` operator instead."
        )
    if any(masks):
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. "
            f"{_MASKS}"
        )


def refuse_bool(name: str) -> Callable[[list, list], None]:
    """A function that refuses operands all of which are bools; `name` is PyTorch's."""

    def refuse(given: list, operands: list) -> None:
        if all(map(_is_bool, given)):
            raise NotImplementedError(f"\"{name}\" not implemented for 'Bool'")

    return refuse


def refuse_division(name: str) -> Callable[[list, list], None]:
    """A function that refuses bools, and integers that are divided by 0."""
    no_bools = refuse_bool(name)

    def refuse(given: list, operands: list) -> None:
        no_bools(given, operands)
        if operands[0].dtype.kind in "iu" and (operands[1] == 0).any():
            raise RuntimeError("ZeroDivisionError")

    return refuse


def check_numbers(given: np.ndarray, dtype: np.dtype) -> None:
    """Refuse Python numbers that a new tensor of a dtype cannot hold.

    A negative integer may wrap around in an unsigned dtype, as in PyTorch.

    Raises:
        RuntimeError, TypeError: PyTorch's messages.
    """
    if given.dtype.kind == "c" and dtype.kind != "c":
        if dtype.kind in "iu":
            raise TypeError("'complex' object cannot be interpreted as an integer")
        if dtype.kind == "f":
            raise TypeError("must be real number, not complex")
    if dtype.kind not in "iu" or not given.size or given.dtype.kind not in "iuf":
        return
    limits = np.iinfo(dtype)
    wraps = dtype.kind == "u" and given.dtype.kind in "iu"
    lowest = -limits.max if wraps else limits.min
    if not ((given >= lowest) & (given <= limits.max)).all():
        raise RuntimeError(
            f"value cannot be converted to type {dtype.name} without overflow"
        )


def check_number(value: Any, dtype: np.dtype) -> None:
    """Refuse a number that memory of a dtype cannot hold.

    Raises:
        RuntimeError: PyTorch's message.
    """
    fits = True
    if isinstance(value, complex) and dtype.kind not in "cb":
        fits, value = not value.imag, value.real
    if fits and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        # A small negative number counts from the end of an unsigned range.
        lowest = -int(limits.max) if dtype.kind == "u" else int(limits.min)
        fits = lowest <= value <= int(limits.max)
    elif fits and dtype.kind == "f" and abs(value) != np.inf:
        fits = not abs(value) > np.finfo(dtype).max
    if not fits:
        name = _C_NAMES.get(dtype.name, f"{dtype.name}_t")
        raise RuntimeError(f"value cannot be converted to type {name} without overflow")


def check_value(value: Any, dtype: np.dtype) -> None:
    """Refuse what cannot be written to an element of a dtype.

    Raises:
        TypeError: PyTorch's message, if it is no number.
        RuntimeError: PyTorch's message, if it does not fit.
    """
    if not isinstance(value, bool | int | float | complex | np.integer):
        kind = type(value)
        where = f"{kind.__module__}." if kind.__module__ == "numpy" else ""
        raise TypeError(
            f"can't assign a {where}{kind.__name__} to a "
            f"torch.{TENSOR_TYPES[from_numpy_dtype(dtype)]}"
        )
    check_number(value, dtype)


def check_in_bounds(places: np.ndarray, size: int, axis: int, kind: type) -> None:
    """Refuse positions that are negative or too large.

    Raises:
        Exception: of the given kind, with PyTorch's message.
    """
    wrong = places[(places < 0) | (places >= size)]
    if wrong.size:
        raise kind(
            f"index {wrong.flat[0]} is out of bounds for dimension {axis} with size "
            f"{size}"
        )


def check_lanes(
    x: np.ndarray, axis: int, places: np.ndarray, source: np.ndarray | None = None
) -> None:
    """Refuse positions that do not fit in the lanes of an array along an axis.

    Args:
        x: what is read, or written to.
        axis: along which the positions count.
        places: the positions.
        source: what is written, if that is an array.

    Raises:
        RuntimeError: PyTorch's messages.
    """
    for name, other in (("self", x), ("src", source)):
        if other is not None and max(other.ndim, 1) != max(places.ndim, 1):
            raise RuntimeError(
                f"Index tensor must have the same number of dimensions as {name} tensor"
            )
    if source is not None and source.dtype != x.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    large = [n > m for k, (n, m) in enumerate(zip(places.shape, x.shape)) if k != axis]
    if source is not None:
        large += [n > m for n, m in zip(places.shape, source.shape)]
    if any(large):
        more = (
            ""
            if source is None
            else (f" and to be no larger size than src {list(source.shape)}")
        )
        raise RuntimeError(
            f"Expected index {list(places.shape)} to be no larger than self "
            f"{list(x.shape)} apart from dimension {axis}{more}"
        )
    if x.ndim:
        check_in_bounds(places, x.shape[axis], axis, RuntimeError)


def check_slices(
    name: str, x: np.ndarray, axis: int, places: np.ndarray, source: np.ndarray
) -> None:
    """Refuse what `index_add` cannot add slice by slice.

    Raises:
        IndexError, RuntimeError: PyTorch's messages.
    """
    kinds = [SCALAR_TYPES[from_numpy_dtype(a.dtype)] for a in (x, places, source)]
    if places.ndim > 1:
        raise IndexError(
            f"{name}: Index is supposed to be a vector, but got dim: {places.ndim} "
            f"with type: {kinds[1]} and size: {list(places.shape)}"
        )
    if places.dtype not in (np.int64, np.int32):
        raise RuntimeError(
            f"{name}: Expected dtype int32/int64 for index but got: {kinds[1]}"
        )
    if kinds[0] != kinds[2]:
        raise RuntimeError(
            f"{name}: self ({kinds[0]}) and source ({kinds[2]}) must have the same "
            "scalar type"
        )
    count = source.shape[axis] if source.ndim else 1
    if places.size != count:
        raise RuntimeError(
            f"{name}: Number of indices ({places.size}) should be equal to "
            f"source.size(dim): ({count}), for dim: {axis}"
        )
    rest = [(*a.shape[:axis], *a.shape[axis + 1 :]) for a in (x, source)]
    if rest[0] != rest[1]:
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified "
            f"dimension. Got self.shape = {list(x.shape)} source.shape = "
            f"{list(source.shape)}"
        )
    check_in_bounds(places, x.shape[axis] if x.ndim else 1, axis, RuntimeError)


def check_copied_slices(
    x: np.ndarray, axis: int, places: np.ndarray, source: np.ndarray
) -> None:
    """Refuse what `index_copy` cannot copy slice by slice.

    Raises:
        IndexError, RuntimeError: PyTorch's messages.
    """
    name = "index_copy_()"
    kinds = [SCALAR_TYPES[from_numpy_dtype(a.dtype)] for a in (x, source)]
    if kinds[0] != kinds[1]:
        raise RuntimeError(
            f"{name}: self and source expected to have the same dtype, but got (self) "
            f"{kinds[0]} and (source) {kinds[1]}"
        )
    rest = [(*a.shape[:axis], *a.shape[axis + 1 :]) for a in (x, source)]
    if rest[0] != rest[1]:
        shown = [" ".join(map(str, r)) for r in rest]
        raise RuntimeError(
            f"{name}: Source/destination tensor must have same slice shapes. "
            f"Destination slice shape: {shown[0]} at dimension {axis} and source slice "
            f"shape: {shown[1]} at dimension {axis}. "
        )
    count = source.shape[axis] if source.ndim else 1
    if places.size != count:
        raise IndexError(
            f"{name}: Number of indices ({places.size}) should be equal to "
            f"source.size(dim) ({count})"
        )
    try:
        check_in_bounds(places, x.shape[axis] if x.ndim else 1, axis, IndexError)
    except IndexError as error:
        raise IndexError(f"{name}: {error}") from None


# ----------------------------------------------------------------- other operands
_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%",
    "pow": "**", "matmul": "@", "and": "&", "or": "|", "xor": "^", "lshift": "<<",
    "rshift": ">>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip


def of_others(op: Any, args: tuple, x: Any) -> Any:
    """What Python does with an operand `x` that is no number: it asks its class.

    Raises:
        TypeError: Python's message, if that does not know the operator either.
    """
    name = (op.operator or "").strip("_")
    if name not in _SYMBOLS or len(args) != 2:
        place = next(k for k, a in enumerate(args) if a is x)
        argument = ("input", "other", "value")[min(place, 2)]
        module = "numpy." if type(x).__module__ == "numpy" else ""
        raise TypeError(
            f"{op.name}(): argument '{argument}' (position {place + 1}) must be "
            f"Tensor, not {module}{type(x).__name__}"
        )
    reflected = getattr(type(x), f"__r{name}__", None)
    if reflected is not None and x is args[1]:
        made = reflected(x, args[0])
        if made is not NotImplemented:
            return made
    names = [f"'{type(a).__name__}'" for a in args]
    kind = "'<'" if name in ("lt", "le", "gt", "ge") else "operand type(s) for"
    text = f"unsupported {kind} {_SYMBOLS[name]}: {names[0]} and {names[1]}"
    if kind[0] == "'":
        text = (
            f"'{_SYMBOLS[name]}' not supported between instances of {names[0]} and "
            f"{names[1]}"
        )
    raise TypeError(text)
