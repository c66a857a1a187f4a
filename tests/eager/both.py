"""Run one program on PyTorch and on `tracegrad.eager`, and compare what it gives."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad.eager as ours

torch = pytest.importorskip("torch")


def plain(x: Any, t: Any) -> Any:
    """A result in a form that compares: tensors as (dtype, history, array)."""
    if isinstance(x, t.Tensor):
        data = x.detach().numpy()
        return (repr(x.dtype), tuple(x.shape), x.requires_grad, x.is_leaf, data)
    if isinstance(x, tuple | list):
        return [plain(part, t) for part in x]
    if isinstance(x, dict):
        return {key: plain(part, t) for key, part in x.items()}
    if type(x).__name__.endswith(("Backward0", "Backward1", "Grad", "Slices")):
        return type(x).__name__
    return x


def same(got: Any, wanted: Any, where: str = "result") -> None:
    """Assert that two plain results agree."""
    if isinstance(wanted, np.ndarray):
        single = wanted.dtype.itemsize < 8 or wanted.dtype == np.complex64
        tolerance = 1e-5 if single else 1e-10
        assert got.dtype == wanted.dtype, where
        np.testing.assert_allclose(
            got, wanted, rtol=tolerance, atol=tolerance, err_msg=where
        )
    elif isinstance(wanted, list | tuple):
        assert len(got) == len(wanted), where
        for k, (g, w) in enumerate(zip(got, wanted, strict=True)):
            same(g, w, f"{where}[{k}]")
    elif isinstance(wanted, dict):
        assert got.keys() == wanted.keys(), where
        for key in wanted:
            same(got[key], wanted[key], f"{where}[{key!r}]")
    elif isinstance(wanted, float):
        assert got == pytest.approx(wanted, rel=1e-5, abs=1e-6), where
    else:
        assert got == wanted, where


def outcome(program: Callable, t: Any) -> tuple[str, Any]:
    """What a program returns, or the exception that it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return "result", plain(program(t), t)
        except Exception as error:
            return "error", error


def agree(program: Callable, text: bool = True) -> None:
    """Assert that a program does the same in both libraries.

    Args:
        program: function of the torch-like namespace.
        text: whether the texts of errors must be equal too.
    """
    kind, wanted = outcome(program, torch)
    got_kind, got = outcome(program, ours)
    if kind == "error":
        assert got_kind == "error", f"no error, but torch: {wanted!r}"
        assert type(got).__name__ == type(wanted).__name__, f"{got!r} for {wanted!r}"
        if text:
            assert str(got).strip() == str(wanted).strip()
        return
    if got_kind == "error":
        raise got
    same(got, wanted)


def checks(*programs: Callable, text: bool = True) -> Callable:
    """A test of each program."""

    @pytest.mark.parametrize("program", programs, ids=lambda p: p.__name__)
    def test(program: Callable) -> None:
        agree(program, text)

    return test
