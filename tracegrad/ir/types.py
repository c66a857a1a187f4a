"""The type of an array value: shape, dtype, and whether it is a Python scalar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tracegrad.errors import DTypeError
from tracegrad.ir.dims import Dim

Size = int | Dim
Shape = tuple[Size, ...]

_PYTHON_SCALARS = {
    bool: np.dtype(bool),
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
    complex: np.dtype(np.complex128),
}


@dataclass(frozen=True, slots=True)
class ArrayType:
    """Shape and dtype of a value.

    Attributes:
        shape: sizes, each an `int` or a symbolic `Dim`.
        dtype: a NumPy dtype, native byte order.
        weak: True for a Python scalar, which takes the dtype of its partner (NEP 50).
    """

    shape: Shape
    dtype: np.dtype
    weak: bool = False

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def kind(self) -> str:
        """NumPy's kind letter: `b i u f c`, or one that has no derivative."""
        return self.dtype.kind

    @property
    def differentiable(self) -> bool:
        """Whether a cotangent exists: real and complex floating types only."""
        return self.dtype.kind in "fc"

    def with_shape(self, shape: Shape) -> ArrayType:
        """The same dtype with another shape; the result is never weak."""
        return ArrayType(tuple(shape), self.dtype)

    def with_dtype(self, dtype: Any) -> ArrayType:
        """The same shape with another dtype; the result is never weak."""
        return ArrayType(self.shape, np.dtype(dtype))

    @property
    def strong(self) -> ArrayType:
        """The type that NumPy gives the value once it is an array."""
        return ArrayType(self.shape, self.dtype) if self.weak else self

    def __repr__(self) -> str:
        code = self.dtype.str.lstrip("<>=|")
        name = {"b1": "bool"}.get(code, code)
        sizes = f"[{', '.join(map(str, self.shape))}]" if self.shape else "[]"
        return f"{'weak ' if self.weak else ''}{name}{sizes}"


def is_scalar_literal(x: Any) -> bool:
    """Whether `x` is exactly a Python `bool`, `int`, `float` or `complex`."""
    return type(x) in _PYTHON_SCALARS


def type_of_constant(x: Any) -> ArrayType:
    """The type of a concrete array, NumPy scalar or Python scalar.

    Raises:
        DTypeError: for what NumPy can only put into an object array.
    """
    cls = type(x)
    if cls in _PYTHON_SCALARS:
        # Python's bool is not weak: True + np.int8(1) promotes as np.bool_ does.
        return ArrayType((), _PYTHON_SCALARS[cls], weak=cls is not bool)
    array = np.asarray(x)
    if array.dtype == object:
        raise DTypeError(
            f"{type(x).__name__} makes an object array, which has no derivative",
            fix="make arrays of numbers; None, strings and the like stay outside",
        )
    return ArrayType(array.shape, array.dtype)
