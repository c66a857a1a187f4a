"""`tg.spec("f8[n, 10]")`: a type that stands for an array where only types matter."""

from __future__ import annotations

import re

import numpy as np

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ir.dims import Dim, parse
from tracegrad.ir.types import ArrayType, Size

_PYTHON = {"float": np.float64, "int": np.int64, "complex": np.complex128}
_CODES = {
    **{f"f{n}": np.dtype(f"f{n}") for n in (2, 4, 8)},
    **{f"c{n}": np.dtype(f"c{n}") for n in (8, 16)},
    **{f"{k}{n}": np.dtype(f"{k}{n}") for k in "iu" for n in (1, 2, 4, 8)},
    "b1": np.dtype(bool),
    "bool": np.dtype(bool),
}
_CODES |= {dtype.name: dtype for dtype in _CODES.values()}
_FORM = re.compile(r"\s*(\w+)\s*(?:\[(.*)\])?\s*", re.DOTALL)


class Spec:
    """Stands for an array or a Python number of this type; made by `tg.spec`.

    Attributes:
        type: shape (with named sizes), dtype, and whether it is a Python number.
    """

    # No dataclass: those are containers to a pytree.
    __slots__ = ("type",)

    def __init__(self, type: ArrayType) -> None:
        self.type = type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and self.type == other.type

    def __hash__(self) -> int:
        return hash(self.type)

    def __repr__(self) -> str:
        if self.type.weak:
            kinds = {"f": "float", "i": "int", "c": "complex"}
            return f'tg.spec("{kinds[self.type.kind]}")'
        return f'tg.spec("{self.type!r}")'


def spec(text: str) -> Spec:
    """A stand-in for an array, for calls that only trace: `source` and `ir`.

    Args:
        text: a dtype and the sizes of the axes, `"f8[n, 10]"`; `"f8[]"` is a scalar.
            The dtypes are `f2 f4 f8 c8 c16 i1 … i8 u1 … u8 bool` and NumPy's longer
            names.  A size is a number, a name, or an expression of names such as
            `2*n + 1`; axes with the same name have the same size, and a named size
            is at least 2.  `"float"`, `"int"` and `"complex"` are Python numbers.

    Raises:
        ArgumentError: the text is of another form, or names no such dtype.
        ShapeError: a size is negative, or no size at all.

    Example:
        >>> spec("f8[n, 10]")
        tg.spec("f8[n, 10]")
    """
    if type(text) is not str:
        raise ArgumentError(
            f"tg.spec takes a text, not {text!r}",
            op="tg.spec",
            fix='write the dtype and the sizes: tg.spec("f8[n, 10]")',
        )
    match = _FORM.fullmatch(text)
    code, sizes = match.groups() if match else (None, None)
    if sizes is None and code in _PYTHON:
        return Spec(ArrayType((), np.dtype(_PYTHON[code]), weak=True))
    if code not in _CODES or sizes is None:
        what = f"tg.spec cannot read {text!r}"
        if code in _CODES:
            raise ArgumentError(
                what + ": it has no sizes",
                op="tg.spec",
                fix=f'write "{code}[]" for a scalar, "{code}[n, 10]" for a matrix',
            )
        raise ArgumentError(
            what,
            op="tg.spec",
            fix='write a dtype such as f4, f8, c16, i8 or bool, as in "f8[n, 10]"',
        )
    return Spec(ArrayType(_sizes(sizes, text), _CODES[code]))


def _split(sizes: str) -> list[str]:
    """The parts between commas that stand outside of parentheses."""
    parts, depth = [""], 0
    for character in sizes:
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    if len(parts) > 1 and not parts[-1].strip():
        parts.pop()
    return [] if len(parts) == 1 and not parts[0].strip() else parts


def _sizes(sizes: str, text: str) -> tuple[Size, ...]:
    made = []
    for part in _split(sizes):
        try:
            size = parse(part)
        except ValueError as error:
            raise ShapeError(
                f"tg.spec cannot read the size {part.strip()!r} in {text!r}: {error}",
                op="tg.spec",
                fix="write a number, a name, or a sum of products of them",
            ) from None
        if not isinstance(size, Dim) and size < 0:
            raise ShapeError(
                f"tg.spec: the size {size} in {text!r} is negative",
                op="tg.spec",
                fix="write a number that is not negative, or a name",
            )
        made.append(size)
    return tuple(made)
