"""Samples: the calls that the generic op tests run.

`arg(3)` is a float64 vector, `arg("n", 4)` a matrix whose first size is also tested as
symbolic, `arg(3).with_(axis=0)` a call with one array and attributes, and
`call(arg(2, 3), arg(3), axis=1)` a call with several arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

# The size that a named axis takes when a sample becomes concrete.
NAMED_SIZES = {"n": 4, "m": 3, "k": 5}


@dataclass(frozen=True, slots=True)
class ArraySample:
    """One array argument: its shape, range and dtype.

    Attributes:
        shape: ints, or names for sizes that are tested as symbolic too.
        lo: smallest value.
        hi: largest value.
        dtype: dtype name; integers and booleans are drawn in the same range.
        values: exact data instead of a draw, as nested tuples.
        shift: this times the unit matrix is added.
        hermitian: whether the matrices are symmetric, or Hermitian.
    """

    shape: tuple[int | str, ...]
    lo: float = -2.0
    hi: float = 2.0
    dtype: str = "float64"
    values: Any = None
    shift: float = 0.0
    hermitian: bool = False

    def shifted(self, shift: float) -> ArraySample:
        """Square matrices plus `shift` times the unit matrix, far from singular."""
        return replace(self, shift=shift)

    def symmetric(self, shift: float = 0.0) -> ArraySample:
        """Symmetric or Hermitian matrices, positive definite for a large `shift`."""
        return replace(self, shift=shift, hermitian=True)

    def direction(self, x: np.ndarray) -> np.ndarray:
        """A change of the data that leaves them what they are."""
        return (x + x.conj().mT) / 2 if self.hermitian else x

    def make(self, seed: int = 0) -> np.ndarray:
        """Concrete data: irregular, free of ties, the same on every machine."""
        if self.values is not None:
            return np.array(self.values, dtype=self.dtype)
        shape = tuple(NAMED_SIZES[s] if isinstance(s, str) else s for s in self.shape)
        count = int(np.prod(shape))
        steps = np.arange(count) + 1.0 + 0.37 * seed
        # Multiples of the golden ratio modulo 1 are spread out and never repeat.
        unit = np.mod(0.5 + 0.6180339887498949 * steps, 1.0)
        data = self.lo + (self.hi - self.lo) * unit
        if np.dtype(self.dtype).kind == "c":
            other = np.mod(0.25 + 0.7548776662466927 * steps, 1.0)
            data = data + 1j * (self.lo + (self.hi - self.lo) * other)
        if np.dtype(self.dtype).kind == "b":
            return (unit > 0.5).reshape(shape)
        if np.dtype(self.dtype).kind in "iu":
            data = np.round(data)
        data = self.direction(data.reshape(shape))
        if self.shift:
            data = data + self.shift * np.eye(shape[-1])
        return data.astype(self.dtype)

    def with_(self, **attrs: Any) -> Sample:
        """A call with this one array and these attributes."""
        return Sample((self,), attrs)


@dataclass(frozen=True, slots=True)
class Sample:
    """One call of an op.

    Attributes:
        arrays: the array arguments.
        attrs: the static attributes.
        smooth: False where the op has a kink or a jump at the data, so that central
            differences do not apply (values and types are still tested).
        missing: backends whose library cannot do this call, and says so.
    """

    arrays: tuple[ArraySample, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    smooth: bool = True
    missing: tuple[str, ...] = ()

    def rough(self) -> Sample:
        """The same call, not compared with central differences."""
        return replace(self, smooth=False)

    def without(self, *backends: str) -> Sample:
        """The same call, which the libraries of these backends cannot do."""
        return replace(self, missing=backends)

    def make(self) -> list[np.ndarray]:
        """Concrete arrays for the call."""
        return [a.make(seed) for seed, a in enumerate(self.arrays)]


def arg(
    *shape: int | str, lo: float = -2.0, hi: float = 2.0, dtype: str = "float64"
) -> ArraySample:
    """An array argument drawn from [lo, hi]."""
    return ArraySample(shape, lo, hi, dtype)


def data(values: Any, dtype: str = "float64") -> ArraySample:
    """An array argument with exact values (nested tuples)."""
    return ArraySample(np.shape(values), dtype=dtype, values=values)


def call(*arrays: ArraySample, **attrs: Any) -> Sample:
    """A call with several arrays."""
    return Sample(arrays, attrs)
