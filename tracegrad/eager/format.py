"""Printing of tensors, as PyTorch does it to the character.

A formatter looks at all numbers that will be shown and settles one width and one of
three manners: `2.` if all are whole, `0.1250`, or `1.2500e-05` if they span more than
three decades.  Not-a-number and infinities have no say in that.  The text is then put
together by rows, with `...` in the middle of long ones, and the suffixes (`dtype=`,
`grad_fn=<...>`) follow, on lines of their own if they don't fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tracegrad.eager.dtypes import default, from_numpy_dtype
from tracegrad.eager.dual import tangent_of
from tracegrad.eager.registry import torch_function
from tracegrad.eager.tensor import Parameter, Tensor


@dataclass
class _Options:
    """What `set_printoptions` sets; see there."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


OPTIONS = _Options()
# name of a profile -> precision, threshold, edgeitems, linewidth
_PROFILES = {
    "default": (4, 1000, 3, 80),
    "short": (2, 1000, 2, 80),
    "full": (4, math.inf, 3, 80),
}


@torch_function("set_printoptions")
def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed; what is None stays, except `sci_mode`.

    Args:
        precision: digits after the point.
        threshold: the number of elements above which the middle is left out.
        edgeitems: how many elements are then shown at either end of an axis.
        linewidth: characters per line.
        profile: `"default"`, `"short"` or `"full"`, applied first.
        sci_mode: whether numbers have exponents; None lets their range decide.
    """
    names = ("precision", "threshold", "edgeitems", "linewidth")
    if profile in _PROFILES:
        for name, value in zip(names, _PROFILES[profile]):
            setattr(OPTIONS, name, value)
    for name, given in zip(names, (precision, threshold, edgeitems, linewidth)):
        if given is not None:
            setattr(OPTIONS, name, given)
    OPTIONS.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """The options in force, as `set_printoptions` takes them."""
    return asdict(OPTIONS)


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """`set_printoptions` within a `with` block."""
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        set_printoptions(**before)


# ---------------------------------------------------------------------------- numbers
class _Formatter:
    """How the numbers of one real tensor are written.

    Attributes:
        spec: the format of a number, as in an f-string.
        whole: whether all are integers, and shown with a bare point.
        width: the width that numbers are padded to.
    """

    def __init__(self, data: np.ndarray) -> None:
        self.floating = data.dtype.kind == "f"
        self.spec, self.whole, self.width = "", self.floating, 1
        if not self.floating:
            self.width = max([1, *[len(f"{v}") for v in data.ravel().tolist()]])
            return
        flat = data.ravel()
        shown = flat[np.isfinite(flat) & (flat != 0)].astype(np.float64)
        self.spec = ".0f"
        if not shown.size:
            return
        self.whole = bool((shown == np.ceil(shown)).all())
        if _is_scientific(np.abs(shown)):
            self.spec, self.whole = f".{OPTIONS.precision}e", False
        elif not self.whole:
            self.spec = f".{OPTIONS.precision}f"
        longest = max([len(format(v, self.spec)) for v in shown.tolist()])
        self.width = max(1, longest + self.whole)

    def __call__(self, value: Any) -> str:
        text = format(value, self.spec) if self.floating else f"{value}"
        if self.whole and math.isfinite(value):
            text += "."
        return text.rjust(self.width)


def _is_scientific(sizes: np.ndarray) -> bool:
    if OPTIONS.sci_mode is not None:
        return OPTIONS.sci_mode
    least, most = float(sizes.min()), float(sizes.max())
    return most / least > 1000.0 or most > 1.0e8 or least < 1.0e-4


class _ComplexFormatter:
    """Writes complex numbers, with a manner for each part."""

    def __init__(self, data: np.ndarray) -> None:
        self.real, self.imag = _Formatter(data.real), _Formatter(data.imag)
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, value: complex) -> str:
        imag = self.imag(value.imag).lstrip() + "j"
        sign = "" if imag[0] in "+-" else "+"
        return self.real(value.real) + sign + imag


# ------------------------------------------------------------------------ arrangement
def _is_cut(length: int, summarize: bool) -> bool:
    return summarize and length > 2 * OPTIONS.edgeitems


def _summarized(data: np.ndarray) -> np.ndarray:
    """The elements that are shown of an array whose middle is left out."""
    edge = OPTIONS.edgeitems
    for axis, n in enumerate(data.shape):
        if _is_cut(n, True):
            places = [*range(edge), *range(n - edge, n)]
            data = np.take(data, places, axis=axis)
    return data


def _row(data: np.ndarray, indent: int, summarize: bool, write: Any) -> str:
    """A vector, broken into lines."""
    edge = OPTIONS.edgeitems
    per_line = max(1, (OPTIONS.linewidth - indent) // (write.width + 2))
    if summarize and not edge:
        items = ["..."]
    elif _is_cut(len(data), summarize):
        head, tail = data[:edge].tolist(), data[-edge:].tolist()
        items = [*map(write, head), " ...", *map(write, tail)]
    else:
        items = [write(v) for v in data.tolist()]
    lines = [", ".join(items[i : i + per_line]) for i in range(0, len(items), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _rows(data: np.ndarray, indent: int, summarize: bool, write: Any) -> str:
    """The text of an array; `indent` is the column at which it starts."""
    if not data.ndim:
        return write(data.item())
    if data.ndim == 1:
        return _row(data, indent, summarize, write)
    n, edge = len(data), OPTIONS.edgeitems
    cut = _is_cut(n, summarize)
    places = [*range(edge), *range(n - edge, n)] if cut else range(n)
    parts = [_rows(data[i], indent + 1, summarize, write) for i in places]
    if cut:
        parts.insert(edge, "...")
    between = "," + "\n" * (data.ndim - 1) + " " * (indent + 1)
    return "[" + between.join(parts) + "]"


def _numbers(data: np.ndarray, indent: int) -> str:
    if not data.size:
        return "[]"
    summarize = data.size > OPTIONS.threshold
    shown = _summarized(data) if summarize else data
    kind = _ComplexFormatter if data.dtype.kind == "c" else _Formatter
    return _rows(data, indent, summarize, kind(shown))


# --------------------------------------------------------------------------- suffixes
def _type_suffixes(data: np.ndarray) -> list[str]:
    """The size where the numbers do not show it, and a dtype that is no default."""
    made = [f"size={data.shape}"]
    dtype = f"dtype={from_numpy_dtype(data.dtype)!r}"
    if not data.size:
        suffixes = made if data.ndim != 1 else []
        return suffixes if data.dtype == default.real else [*suffixes, dtype]
    suffixes = [] if OPTIONS.edgeitems else made
    usual = (default.real, default.complex, np.dtype(np.int64), np.dtype(np.bool_))
    return suffixes if data.dtype in usual else [*suffixes, dtype]


def _history_suffixes(x: Tensor) -> list[str]:
    grad_fn = x.grad_fn
    made = ["requires_grad=True"] if x.requires_grad else []
    if grad_fn is not None:
        made = [f"grad_fn=<{type(grad_fn).__name__}>"]
    tangent = tangent_of(x)
    return made if tangent is None else [*made, f"tangent={tangent!r}"]


def _with_suffixes(text: str, suffixes: list[str], indent: int) -> str:
    length = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if length + len(suffix) + 2 > OPTIONS.linewidth:
            text += ",\n" + " " * indent + suffix
            length = indent + len(suffix)
        else:
            text += ", " + suffix
            length += len(suffix) + 2
    return text + ")"


def text_of(x: Tensor) -> str:
    """What `repr(x)` and `str(x)` give.

    Example:
        >>> import tracegrad.eager as torch
        >>> torch.ones(2, requires_grad=True) * 0.5
        tensor([0.5000, 0.5000], grad_fn=<MulBackward0>)
    """
    is_plain = type(x) in (Tensor, Parameter)
    prefix = "tensor(" if is_plain else f"{type(x).__name__}("
    text = prefix + _numbers(x._data, len(prefix))
    suffixes = _type_suffixes(x._data) + _history_suffixes(x)
    text = _with_suffixes(text, suffixes, len(prefix))
    if isinstance(x, Parameter):
        return f"Parameter containing:\n{text}" if is_plain else f"Parameter({text})"
    return text


Tensor.__repr__ = text_of  # type: ignore[method-assign, assignment]
Tensor.__str__ = text_of  # type: ignore[method-assign, assignment]
