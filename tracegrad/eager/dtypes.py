"""PyTorch's dtypes on NumPy's, and its promotion by category.

PyTorch promotes in three classes: tensors with axes, 0-d tensors, Python scalars.  A
lower class changes the result only if its category (bool, int, float, complex) is
higher: so `float32 vector * float64 0-d tensor` stays float32, as NumPy does not have
it.  Python floats count as the default dtype.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

_BY_NUMPY: dict[np.dtype, dtype] = {}


class dtype:
    """A dtype object such as `torch.float32`.

    Attributes:
        numpy: the NumPy dtype behind it.
    """

    __slots__ = ("_name", "numpy")

    def __init__(self, name: str, numpy: Any) -> None:
        self._name = name
        self.numpy = np.dtype(numpy)
        _BY_NUMPY[self.numpy] = self

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> Any:
        return from_numpy_dtype, (self.numpy.str,)

    def __eq__(self, other: Any) -> bool:
        return self is other

    __hash__ = object.__hash__

    @property
    def is_floating_point(self) -> bool:
        """Whether it is a real floating dtype."""
        return self.numpy.kind == "f"

    @property
    def is_complex(self) -> bool:
        """Whether it is a complex dtype."""
        return self.numpy.kind == "c"

    @property
    def is_signed(self) -> bool:
        """Whether it holds negative numbers."""
        return self.numpy.kind in "ifc"

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.numpy.itemsize

    def to_real(self) -> dtype:
        """The dtype of the real part."""
        return from_numpy_dtype(np.empty(0, self.numpy).real.dtype)

    def to_complex(self) -> dtype:
        """The complex dtype of the same precision."""
        return from_numpy_dtype(np.result_type(self.numpy, np.complex64))


bool_ = dtype("bool", np.bool_)
uint8 = dtype("uint8", np.uint8)
int8 = dtype("int8", np.int8)
int16 = dtype("int16", np.int16)
int32 = dtype("int32", np.int32)
int64 = dtype("int64", np.int64)
uint16 = dtype("uint16", np.uint16)
uint32 = dtype("uint32", np.uint32)
uint64 = dtype("uint64", np.uint64)
float16 = dtype("float16", np.float16)
float32 = dtype("float32", np.float32)
float64 = dtype("float64", np.float64)
complex64 = dtype("complex64", np.complex64)
complex128 = dtype("complex128", np.complex128)

# What the module shows.
NAMES = {d._name: d for d in _BY_NUMPY.values()} | {
    "half": float16,
    "float": float32,
    "double": float64,
    "short": int16,
    "int": int32,
    "long": int64,
    "cfloat": complex64,
    "cdouble": complex128,
}

# What the names of old tensor types (`torch.FloatTensor`) say.
TENSOR_TYPES = {
    bool_: "BoolTensor",
    uint8: "ByteTensor",
    int8: "CharTensor",
    int16: "ShortTensor",
    int32: "IntTensor",
    int64: "LongTensor",
    float16: "HalfTensor",
    float32: "FloatTensor",
    float64: "DoubleTensor",
    complex64: "ComplexFloatTensor",
    complex128: "ComplexDoubleTensor",
}
# What error messages call them ("expected Float but found Long").
SCALAR_TYPES = {d: name.removesuffix("Tensor") for d, name in TENSOR_TYPES.items()}


def from_numpy_dtype(given: Any) -> dtype:
    """The dtype object for a NumPy dtype.

    Raises:
        TypeError: if PyTorch has no such dtype.
    """
    given = np.dtype(given)
    found = _BY_NUMPY.get(given) or _BY_NUMPY.get(given.newbyteorder("="))
    if found is None:
        raise TypeError(
            f"can't convert np.ndarray of type {given}. The only supported types are: "
            "float64, float32, float16, complex64, complex128, int64, int32, int16, "
            "int8, uint64, uint32, uint16, uint8, and bool."
        )
    return found


_PYTHON = {bool: bool_, int: int64, complex: complex128}


def to_numpy_dtype(given: Any) -> np.dtype:
    """The NumPy dtype that a `dtype=` argument names."""
    if isinstance(given, dtype):
        return given.numpy
    if given is float:
        return np.dtype(np.float64)
    if given in _PYTHON:
        return _PYTHON[given].numpy
    return from_numpy_dtype(given).numpy


class _Default:
    """The dtype that Python floats get."""

    real = np.dtype(np.float32)
    complex = np.dtype(np.complex64)


default = _Default()


def get_default_dtype() -> dtype:
    """The dtype of floating point tensors made from Python floats."""
    return from_numpy_dtype(default.real)


def set_default_dtype(d: dtype) -> None:
    """Set what `get_default_dtype` returns.

    Raises:
        TypeError: if `d` is not a floating point dtype.
    """
    if not isinstance(d, dtype) or not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    default.real = d.numpy
    default.complex = np.result_type(d.numpy, np.complex64)


def dtype_of_scalar(x: Any, real: np.dtype | None = None) -> np.dtype:
    """The dtype that a Python scalar counts as; `real` for the default one."""
    if isinstance(x, bool | np.bool_):
        return bool_.numpy
    if isinstance(x, int | np.integer):
        return int64.numpy
    real = default.real if real is None else real
    return np.result_type(real, np.complex64) if isinstance(x, complex) else real


_RANK = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


@lru_cache(maxsize=1024)
def promote_types(a: np.dtype, b: np.dtype) -> np.dtype:
    """PyTorch's promotion of two dtypes of the same class."""
    low, high = sorted((a, b), key=lambda d: _RANK[d.kind])
    if _RANK[high.kind] >= 2 and _RANK[low.kind] <= 1:
        return high
    return np.promote_types(a, b)


def _combine(higher: np.dtype | None, lower: np.dtype | None) -> np.dtype | None:
    if higher is None or lower is None:
        return higher or lower
    if higher.kind == "c":
        return higher
    if higher.kind == "f":
        return np.result_type(higher, np.complex64) if lower.kind == "c" else higher
    if higher.kind == "b" or lower.kind in "fc":
        return promote_types(higher, lower)
    return higher


def result_type(operands: Any, real: np.dtype | None = None) -> np.dtype:
    """The dtype of a result of arrays (0-d ones apart) and Python scalars.

    Args:
        operands: arrays and Python scalars.
        real: what Python floats count as, if not the default dtype.
    """
    classes: list[np.dtype | None] = [None, None, None]
    for x in operands:
        if isinstance(x, np.ndarray):
            rank, d = (0 if x.ndim else 1), x.dtype
        else:
            rank, d = 2, dtype_of_scalar(x, real)
        have = classes[rank]
        classes[rank] = d if have is None else promote_types(have, d)
    found = _combine(classes[0], _combine(classes[1], classes[2]))
    return default.real if found is None else found


class finfo:
    """Limits of a floating point dtype: `eps max min tiny bits resolution`."""

    def __init__(self, of: dtype | None = None) -> None:
        of = of or get_default_dtype()
        info = np.finfo(of.numpy)
        self.bits, self.dtype = info.bits, of._name
        self.eps, self.max, self.min = map(float, (info.eps, info.max, info.min))
        self.tiny = self.smallest_normal = float(info.tiny)
        self.resolution = float(info.resolution)

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        limits = "".join(f"{name}={getattr(self, name):g}, " for name in names)
        return f"finfo({limits}dtype={self.dtype})"


class iinfo:
    """Limits of an integer dtype: `max min bits`."""

    def __init__(self, of: dtype) -> None:
        info = np.iinfo(of.numpy)
        self.bits, self.dtype = info.bits, of._name
        self.max, self.min = int(info.max), int(info.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
