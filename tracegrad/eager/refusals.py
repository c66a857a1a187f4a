"""Operands that NumPy takes and PyTorch does not, and its errors for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.eager.dtypes import TENSOR_TYPES, from_numpy_dtype

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
