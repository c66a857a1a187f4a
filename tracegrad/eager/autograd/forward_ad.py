"""Forward mode, by the names of `torch.autograd.forward_ad`."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from tracegrad.eager import dual
from tracegrad.eager.tensor import Size, Tensor

UnpackedDualTensor = namedtuple("UnpackedDualTensor", ["primal", "tangent"])


def enter_dual_level() -> Any:
    """Open a level in which tensors may have tangents."""
    return dual.enter()


def exit_dual_level(*, level: Any = None) -> None:
    """Close the level; its tangents are gone."""
    dual.leave(level)


class dual_level:
    """`enter_dual_level` and `exit_dual_level` as a context manager.

    Example:
        >>> import tracegrad.eager as torch
        >>> import tracegrad.eager.autograd.forward_ad as fwAD
        >>> x, t = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 10.0])
        >>> with fwAD.dual_level():
        ...     y = fwAD.make_dual(x, t) ** 2
        ...     print(fwAD.unpack_dual(y).tangent)
        tensor([ 2., 40.])
    """

    def __enter__(self) -> Any:
        self.level = enter_dual_level()
        return self.level

    def __exit__(self, *exc: object) -> None:
        exit_dual_level(level=self.level)


def make_dual(tensor: Tensor, tangent: Tensor, *, level: Any = None) -> Tensor:
    """A view of `tensor` that has the tangent.

    Raises:
        RuntimeError: outside of a level, or if the sizes differ.
        ValueError: if one is not floating or complex.
    """
    if dual.current.level is None:
        raise RuntimeError(dual.NO_LEVEL)
    for name, x in (("primal", tensor), ("tangent", tangent)):
        if not isinstance(x, Tensor):
            raise TypeError(
                f"make_dual(): argument '{name}' must be Tensor, not {type(x).__name__}"
            )
        if x._data.dtype.kind not in "fc":
            raise ValueError(
                f"Expected {name} to be floating point or complex, but got: {x.dtype}"
            )
    if tensor._data.shape != tangent._data.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of "
            f"the original Tensor, this is not supported. Tensor is of size "
            f"{list(tensor._data.shape)} while the given forward gradient is of size "
            f"{list(tangent._data.shape)}."
        )
    made = _alias(tensor)
    dual.give(made, tangent)
    return made


def unpack_dual(tensor: Tensor, *, level: Any = None) -> Any:
    """The primal and the tangent of a tensor; None for no tangent."""
    if dual.current.level is None:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(_alias(tensor), dual.tangent_of(tensor))


def _alias(x: Tensor) -> Tensor:
    with dual.paused():
        return x.view(Size(x._data.shape))


__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]
