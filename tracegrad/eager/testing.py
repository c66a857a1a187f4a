"""`torch.testing.assert_close`: do results agree, and where not?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tracegrad.eager.dtypes import from_numpy_dtype
from tracegrad.eager.tensor import Size, Tensor

# dtype -> (rtol, atol); exact for all others.
TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


class _Comparison:
    """What all pairs of one call are compared by."""

    def __init__(self, rtol: Any, atol: Any, equal_nan: bool, check_dtype: bool):
        self.rtol, self.atol = rtol, atol
        self.equal_nan, self.check_dtype = equal_nan, check_dtype

    def tolerances(self, *dtypes: np.dtype) -> tuple[float, float]:
        """`rtol` and `atol` of two dtypes: the wider ones."""
        if self.rtol is not None:
            return self.rtol, self.atol
        both = [TOLERANCES.get(d.name, (0.0, 0.0)) for d in dtypes]
        return max(r for r, _ in both), max(a for _, a in both)

    # ------------------------------------------------------------------- structures
    def compare(self, actual: Any, expected: Any, at: str) -> None:
        """Compare two results; `at` is their place, such as `['w'][0]`.

        Raises:
            AssertionError: they differ.
            TypeError: they are of kinds that do not compare.
        """
        for pair in (_both_none, _both_numbers):
            found = pair(actual, expected)
            if found is not None:
                getattr(self, found)(actual, expected, at)
                return
        arrays = [_array(x) for x in (actual, expected)]
        if arrays[0] is not None and arrays[1] is not None:
            self.arrays(arrays[0], arrays[1], at)
        elif _both(actual, expected, Sequence):
            self.sequences(actual, expected, at)
        elif _both(actual, expected, Mapping):
            self.mappings(actual, expected, at)
        else:
            raise TypeError(
                "No comparison pair was able to handle inputs of type "
                f"{type(actual)} and {type(expected)}.{_where(at)}"
            )

    def sequences(self, actual: Sequence, expected: Sequence, at: str) -> None:
        """Compare item by item."""
        if len(actual) != len(expected):
            raise AssertionError(
                "The length of the sequences mismatch: "
                f"{len(actual)} != {len(expected)}{_where(at)}"
            )
        for k, (a, b) in enumerate(zip(actual, expected)):
            self.compare(a, b, f"{at}[{k}]")

    def mappings(self, actual: Mapping, expected: Mapping, at: str) -> None:
        """Compare key by key."""
        missing = [k for k in expected if k not in actual]
        more = [k for k in actual if k not in expected]
        if missing or more:
            text = "The keys of the mappings do not match:"
            if missing:
                text += f"\nMissing keys in the actual mapping: {sorted(missing)}"
            if more:
                text += f"\nAdditional keys in the actual mapping: {sorted(more)}"
            raise AssertionError(text + _where(at))
        for key in expected:
            self.compare(actual[key], expected[key], f"{at}[{key!r}]")

    # ------------------------------------------------------------------------ leaves
    def nones(self, actual: Any, expected: Any, at: str) -> None:
        """Both must be None."""
        if actual is not expected:
            raise AssertionError(
                f"None mismatch: {actual} is not {expected}{_where(at)}"
            )

    def truths(self, actual: Any, expected: Any, at: str) -> None:
        """Both must be the same truth."""
        if actual is not expected:
            raise AssertionError(
                f"Booleans mismatch: {actual} is not {expected}{_where(at)}"
            )

    def numbers(self, actual: Any, expected: Any, at: str) -> None:
        """Two Python numbers."""
        if self.check_dtype and type(actual) is not type(expected):
            raise AssertionError(
                f"The (d)types do not match: {type(actual)} != {type(expected)}."
                f"{_where(at)}"
            )
        dtypes = [_DTYPES.get(type(x), np.dtype(np.int64)) for x in (actual, expected)]
        rtol, atol = self.tolerances(*dtypes)
        self.scalars(actual, expected, rtol, atol, at)

    def scalars(
        self, actual: Any, expected: Any, rtol: Any, atol: Any, at: str
    ) -> None:
        """Two numbers, within tolerances."""
        close = np.isclose(actual, expected, rtol, atol, self.equal_nan)
        if actual == expected or close:
            return
        kind = "close" if rtol or atol else "equal"
        away = abs(actual - expected)
        share = away / abs(expected) if expected else float("inf")
        texts = _allowed(rtol, atol)
        raise AssertionError(
            f"Scalars are not {kind}!\n\nExpected {expected} but got {actual}.\n"
            f"Absolute difference: {away}{texts[0]}\n"
            f"Relative difference: {share}{texts[1]}{_where(at)}"
        )

    def arrays(self, actual: np.ndarray, expected: np.ndarray, at: str) -> None:
        """Two tensors or arrays."""
        for name, of in (("shape", _shape), ("dtype", _dtype)):
            if name == "dtype" and not self.check_dtype:
                continue
            if of(actual) != of(expected):
                raise AssertionError(
                    f"The values for attribute '{name}' do not match: "
                    f"{of(actual)} != {of(expected)}.{_where(at)}"
                )
        rtol, atol = self.tolerances(actual.dtype, expected.dtype)
        common = np.result_type(actual, expected)
        a, b = actual.astype(common), expected.astype(common)
        with np.errstate(all="ignore"):
            exact = common.kind in "biu" and not rtol and not atol
            close = (
                np.equal(a, b)
                if exact
                else np.isclose(a, b, rtol, atol, equal_nan=self.equal_nan)
            )
        if close.all():
            return
        if not a.ndim:
            self.scalars(a.item(), b.item(), rtol, atol, at)
        raise AssertionError(_mismatch(a, b, ~close, rtol, atol) + _where(at))


def _mismatch(a: np.ndarray, b: np.ndarray, wrong: np.ndarray, rtol: Any, atol: Any):
    if a.dtype.kind in "biu":
        a, b = a.astype(np.int64), b.astype(np.int64)
    with np.errstate(all="ignore"):
        away = np.where(wrong, abs(a - b), 0)
        share = away / abs(b)
        if a.dtype.kind in "iu":
            share = share.astype(np.float32)  # as PyTorch divides integers
        share = np.where(wrong, share, 0)
    texts = _allowed(rtol, atol)
    lines = [
        f"Tensor-likes are not {'close' if rtol or atol else 'equal'}!\n",
        f"Mismatched elements: {wrong.sum()} / {wrong.size} "
        f"({wrong.sum() / wrong.size:.1%})",
    ]
    for name, values, text in (
        ("absolute", away, texts[0]),
        ("relative", share, texts[1]),
    ):
        place = np.unravel_index(np.argmax(values), values.shape)
        index = tuple([int(i) for i in place])
        largest = values[index].item()
        lines.append(f"Greatest {name} difference: {largest} at index {index}{text}")
    return "\n".join(lines)


def _allowed(rtol: Any, atol: Any) -> tuple[str, str]:
    if not rtol and not atol:
        return "", ""
    return f" (up to {atol} allowed)", f" (up to {rtol} allowed)"


def _where(at: str) -> str:
    return f"\n\nThe failure occurred for item {at}" if at else ""


_DTYPES = {float: np.dtype(np.float64), complex: np.dtype(np.complex128)}


def _shape(x: np.ndarray) -> Size:
    return Size(x.shape)


def _dtype(x: np.ndarray) -> Any:
    return from_numpy_dtype(x.dtype)


def _both(actual: Any, expected: Any, kind: Any) -> bool:
    texts = (str, bytes)
    return all(
        isinstance(x, kind) and not isinstance(x, texts) for x in (actual, expected)
    )


def _both_none(actual: Any, expected: Any) -> str | None:
    return "nones" if actual is None or expected is None else None


def _both_numbers(actual: Any, expected: Any) -> str | None:
    if isinstance(actual, bool) and isinstance(expected, bool):
        return "truths"
    numbers = (int, float, complex)
    return "numbers" if _both(actual, expected, numbers) else None


def _array(x: Any) -> np.ndarray | None:
    if isinstance(x, Tensor):
        return x._data
    return np.asarray(x) if isinstance(x, np.ndarray | np.generic) else None


def _compare_strides(actual: Tensor, expected: Tensor) -> None:
    have, wanted = actual.stride(), expected.stride()
    if have != wanted:
        raise AssertionError(
            f"The values for attribute 'stride()' do not match: {have} != {wanted}."
        )


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Assert that tensors, numbers, or structures of them, agree.

    Args:
        actual: the result.
        expected: what it should be.
        allow_subclasses: whether a tensor and a subclass of it may be compared.
        rtol: relative tolerance; by default that of the dtype.
        atol: absolute tolerance; to be given together with `rtol`.
        equal_nan: whether nan equals nan.
        check_device: there is one device.
        check_dtype: whether dtypes must be equal.
        check_layout: there is one layout.
        check_stride: whether the strides of tensors must be equal.
        msg: the text of the error, or a function of the text.

    Raises:
        AssertionError: they do not agree.
        TypeError: they cannot be compared.
        ValueError: one tolerance is given without the other.

    Example:
        >>> import tracegrad.eager as torch
        >>> torch.testing.assert_close(torch.ones(2) / 3, torch.full((2,), 1 / 3))
    """
    if (rtol is None) != (atol is None):
        missing = "rtol" if rtol is None else "atol"
        raise ValueError(
            "Both 'rtol' and 'atol' must be either specified or omitted, but got no "
            f"{missing}."
        )
    if not allow_subclasses and type(actual) is not type(expected):
        raise TypeError(
            "No comparison pair was able to handle inputs of type "
            f"{type(actual)} and {type(expected)}."
        )
    try:
        _Comparison(rtol, atol, equal_nan, check_dtype).compare(actual, expected, "")
        if check_stride and _both(actual, expected, Tensor):
            _compare_strides(actual, expected)
    except AssertionError as error:
        if msg is None:
            raise
        text = msg if isinstance(msg, str) else msg(str(error))
        raise AssertionError(text) from None


__all__ = ["assert_close"]
