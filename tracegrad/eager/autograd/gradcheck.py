"""Gradients against central differences: `gradcheck` and `gradgradcheck`.

A complex output is checked as two real functions, its real and its imaginary part; the
gradient of a real function s of z = x + iy is ds/dx + i ds/dy, as PyTorch has it.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad.eager import modes
from tracegrad.eager.autograd import forward_ad
from tracegrad.eager.backward import grad
from tracegrad.eager.creation import generator
from tracegrad.eager.tensor import Tensor, wrap

NO_INPUT = (
    "gradcheck expects at least one input tensor to require gradient, but none of them "
    "have requires_grad=True."
)
NOT_REENTRANT = (
    "Backward is not reentrant, i.e., running backward with same input and grad_output "
    "multiple times gives different values, although analytical gradient matches "
    "numerical gradient.The tolerance for nondeterminism was "
)


NEITHER = "Expected at least one of check_forward_ad or check_backward_ad to be True"


class GradcheckError(RuntimeError):
    """A gradient differs from the differences."""


def _tensors(x: Any) -> tuple:
    return (x,) if isinstance(x, Tensor) else tuple(x)


def _outputs(func: Callable, inputs: Sequence) -> list[Tensor]:
    """What `func` returns and has a gradient."""
    return [y for y in _tensors(func(*inputs)) if y.requires_grad]


def gradcheck(
    func: Callable,
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the gradients of `func` agree with central differences.

    Args:
        func: function of tensors that returns one or several.
        inputs: its arguments; those that require a gradient are checked, in float64.
        eps: by how much inputs are moved.
        atol: absolute tolerance.
        rtol: relative tolerance.
        raise_exception: whether a difference is an error, or False is returned.
        nondet_tol: how much a second backward pass may differ.
        check_undefined_grad: whether each output is also tried alone.
        check_grad_dtypes: whether gradients must have the dtype of their input.
        check_batched_grad, check_batched_forward_grad, masked: accepted.
        check_forward_ad: whether tangents are checked.
        check_backward_ad: whether gradients are checked.
        fast_mode: accepted; the whole Jacobian is compared all the same.

    Raises:
        GradcheckError: if they differ.
        ValueError: if no input requires a gradient.

    Example:
        >>> import tracegrad.eager as torch
        >>> x = torch.ones(3, dtype=torch.float64, requires_grad=True)
        >>> torch.autograd.gradcheck(lambda x: x.exp() * x, x)
        True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError(NEITHER)
    run = _Check(func, _tensors(inputs), eps, atol, rtol)
    try:
        ready = run.start()
        if ready and check_backward_ad:
            run.backward(nondet_tol, check_grad_dtypes, check_undefined_grad)
        if ready and check_forward_ad:
            run.forward()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


class _Check:
    """One check, step by step; each raises a `GradcheckError`."""

    def __init__(
        self, func: Callable, inputs: tuple, eps: float, atol: float, rtol: float
    ) -> None:
        self.func, self.inputs = func, inputs
        self.eps, self.atol, self.rtol = eps, atol, rtol
        self.wrt = [
            k for k, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad
        ]
        self.outs: list[Tensor] = []

    def start(self) -> bool:
        """Check the inputs, run the function; False if nothing is left to check."""
        for k in self.wrt:
            data = self.inputs[k]._data
            if data.dtype not in (np.float64, np.complex128):
                warnings.warn(
                    f"Input #{k} requires gradient and is not a double precision "
                    "floating point or complex. This check will likely fail if all the "
                    "inputs are not of double precision floating point or complex. ",
                    UserWarning,
                    stacklevel=4,
                )
            if any(s == 0 and n > 1 for s, n in zip(data.strides, data.shape)):
                raise RuntimeError(
                    f"The {k}th input has a dimension with stride 0. gradcheck only "
                    "supports inputs that are non-overlapping to be able to compute "
                    "the numerical gradients correctly. You should call .contiguous on "
                    "the input before passing it to gradcheck."
                )
        if not self.wrt:
            raise ValueError(NO_INPUT)
        self.outs = _outputs(self.func, self.inputs)
        if self.outs:
            return True
        count = len(_tensors(self.func(*self.inputs)))
        for number in range(count):
            for k in self.wrt:
                if self.differences(k, number, _real, every=True).any():
                    raise GradcheckError(
                        "Numerical gradient for function expected to be zero"
                    )
        return False

    # ------------------------------------------------------------------- differences
    def differences(
        self, k: int, number: int, part: Callable, every: bool = False
    ) -> np.ndarray:
        """The Jacobian of a part of an output by input `k`, as (inputs, outputs)."""
        x = self.inputs[k]
        rows = []
        steps = (1.0, 1j) if x._data.dtype.kind == "c" else (1.0,)
        for place in range(x._data.size):
            row: Any = 0
            for step in steps:
                row = row + step * self.difference(k, place, step, number, part, every)
            rows.append(row)
        return np.array(rows)

    def difference(
        self, k: int, place: int, step: Any, number: int, part: Callable, every: bool
    ) -> np.ndarray:
        """The slope of an output along one element of an input."""
        ends = []
        for sign in (1, -1):
            moved = self.inputs[k]._data.copy()
            moved.reshape(-1)[place] += sign * step * self.eps
            given = list(self.inputs)
            given[k] = wrap(moved).requires_grad_()
            # Outputs that have no history of their own, as a mask, are left out.
            outs = _tensors(self.func(*given)) if every else _outputs(self.func, given)
            ends.append(part(outs[number]._data).reshape(-1).copy())
        return (ends[0] - ends[1]) / (2 * self.eps)

    # ---------------------------------------------------------------------- gradients
    def gradients(self, number: int, unit: Any) -> list[np.ndarray]:
        """The Jacobians of an output by all inputs, as (inputs, outputs)."""
        out = self.outs[number]
        columns = []
        for place in range(out._data.size):
            seed = np.zeros_like(out._data)
            seed.reshape(-1)[place] = unit
            columns.append(self.pulled([out], [wrap(seed)]))
        return [np.stack([c[j] for c in columns], 1) for j in range(len(self.wrt))]

    def pulled(self, outs: list[Tensor], seeds: list[Tensor]) -> list[np.ndarray]:
        """The gradients by all inputs, flat."""
        xs = [self.inputs[k] for k in self.wrt]
        made = grad(outs, xs, seeds, retain_graph=True, allow_unused=True)
        return [
            np.zeros(x._data.size, x._data.dtype) if g is None else g._data.reshape(-1)
            for g, x in zip(made, xs)
        ]

    def backward(self, nondet_tol: float, dtypes: bool, undefined: bool) -> None:
        """All that concerns gradients."""
        self.against_differences()
        self.again(nondet_tol, dtypes)
        self.of_zero()
        if undefined:
            self.alone()

    def against_differences(self) -> None:
        """Gradients against differences."""
        for number, told, part, unit in self.parts():
            found = self.gradients(number, unit)
            for j, k in enumerate(self.wrt):
                wanted = self.differences(k, number, part)
                self.compare(found[j], wanted, f"{told}Jacobian ", number, k)

    def parts(self) -> list[tuple]:
        """Each output, or its two parts: what to say, how to get it, its unit."""
        found: list[tuple] = []
        for number, out in enumerate(self.outs):
            if out._data.dtype.kind != "c":
                found.append((number, "", _real, 1))
                continue
            for name, part, unit in (("imaginary", np.imag, 1j), ("real", _real, 1)):
                told = f"While considering the {name} part of complex outputs only, "
                found.append((number, told, part, unit))
        return found

    def compare(
        self, found: np.ndarray, wanted: np.ndarray, what: str, number: int, k: int
    ) -> None:
        """Raise if two Jacobians differ."""
        dtype = np.result_type(found.dtype, self.inputs[k]._data.dtype)
        wanted = wanted.astype(dtype)
        if not np.allclose(found, wanted, rtol=self.rtol, atol=self.atol):
            raise GradcheckError(
                f"{what}mismatch for output {number} with respect to input {k},\n"
                f"numerical:{wrap(wanted)!r}\nanalytical:{wrap(found)!r}\n"
            )

    def again(self, tolerance: float, dtypes: bool) -> None:
        """A second backward pass gives the same, of the right dtype if asked."""
        for number, _, _, unit in self.parts():
            pairs = zip(self.gradients(number, unit), self.gradients(number, unit))
            for (first, second), k in zip(pairs, self.wrt):
                if np.abs(first - second).max(initial=0) > tolerance:
                    raise GradcheckError(f"{NOT_REENTRANT}{tolerance}.")
                if dtypes and first.dtype != self.inputs[k]._data.dtype:
                    raise GradcheckError("Gradient has dtype mismatch")

    def of_zero(self) -> None:
        """Gradients are products with those of the outputs: zero for zero."""
        seeds = [wrap(np.zeros_like(y._data)) for y in self.outs]
        if any(g.any() for g in self.pulled(self.outs, seeds)):
            raise GradcheckError("backward not multiplied by grad_output")

    def alone(self) -> None:
        """Each output alone: the others have no gradient at all."""
        for out in self.outs:
            try:
                self.pulled([out], [wrap(np.zeros_like(out._data))])
            except RuntimeError as error:
                raise GradcheckError(
                    "Expected backward function to handle undefined output grads."
                ) from error

    # ---------------------------------------------------------------------- tangents
    def forward(self) -> None:
        """Tangents against differences."""
        for number, told, part, _ in self.parts():
            for k in self.wrt:
                if self.inputs[k]._data.dtype.kind == "c":
                    continue  # the differences are those of reverse mode
                found = np.array(
                    [part(t) for t in self.tangents(k, number)], np.float64
                ).reshape(self.inputs[k]._data.size, -1)
                wanted = self.differences(k, number, part)
                what = f"{told}Jacobian computed with forward mode "
                self.compare(found, wanted, what, number, k)

    def tangents(self, k: int, number: int) -> list[np.ndarray]:
        """The tangent of an output along each element of an input."""
        x = self.inputs[k]
        found = []
        for place in range(x._data.size):
            unit = np.zeros_like(x._data)
            unit.reshape(-1)[place] = 1
            with forward_ad.dual_level():
                given = list(self.inputs)
                given[k] = forward_ad.make_dual(x, wrap(unit))
                out = _outputs(self.func, given)[number]
                tangent = forward_ad.unpack_dual(out).tangent
            data = np.zeros_like(out._data) if tangent is None else tangent._data
            found.append(data.reshape(-1))
        return found


def _real(x: np.ndarray) -> np.ndarray:
    return x.real if x.dtype.kind == "c" else x.astype(np.float64)


def gradgradcheck(
    func: Callable,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Whether second derivatives of `func` agree with differences of its gradients.

    Args:
        func: as for `gradcheck`.
        inputs: as for `gradcheck`.
        grad_outputs: the gradients of the outputs; random ones by default.
        eps, atol, rtol, raise_exception, nondet_tol, check_undefined_grad,
            check_grad_dtypes: as for `gradcheck`.
        check_fwd_over_rev: whether tangents of the gradients are checked.
        check_rev_over_rev: whether gradients of the gradients are.
        gen_non_contig_grad_outputs, check_batched_grad, fast_mode, masked: accepted.

    Raises:
        GradcheckError: if they differ.
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError(
            "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be "
            "True"
        )
    xs = _tensors(inputs)
    if grad_outputs is None:
        cts = tuple([_random_like(y) for y in _outputs(func, xs)])
    else:
        cts = _tensors(grad_outputs)

    return gradcheck(
        functools.partial(_gradients, func, xs),
        xs + cts,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
    )


def _gradients(func: Callable, xs: tuple, *args: Any) -> tuple:
    """The gradients of `func`, as a function of its inputs and those of its outputs."""
    given, seeds = args[: len(xs)], args[len(xs) :]
    wrt = [
        x
        for x, first in zip(given, xs)
        if isinstance(first, Tensor) and first.requires_grad
    ]
    with modes.enable_grad():
        outs = _outputs(func, given)
        made = grad(outs, wrt, seeds, create_graph=True, allow_unused=True)
    return tuple([g for g in made if g is not None])


def _random_like(y: Tensor) -> Tensor:
    made = generator.rng.standard_normal(y._data.shape)
    return wrap(np.asarray(made).astype(y._data.dtype)).requires_grad_()


__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]
