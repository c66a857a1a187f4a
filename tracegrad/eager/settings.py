"""What scripts ask of an installation, or set: version, threads, default device."""

from __future__ import annotations

from typing import Any

from tracegrad.eager.creation import tensor
from tracegrad.eager.registry import torch_function
from tracegrad.eager.tensor import CPU, Tensor, device

# The version of PyTorch whose behaviour this is.
VERSION = "2.13.0"


class _Settings:
    """For all threads."""

    threads = 1
    deterministic = False


@torch_function("get_num_threads")
def get_num_threads() -> int:
    """What `set_num_threads` was told; NumPy's libraries have their own settings."""
    return _Settings.threads


@torch_function("set_num_threads")
def set_num_threads(count: int) -> None:
    """Noted only: NumPy's libraries read `OMP_NUM_THREADS` when they are loaded."""
    if count < 1:
        raise RuntimeError("set_num_threads expects a positive integer")
    _Settings.threads = count


@torch_function("use_deterministic_algorithms")
def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Noted only: everything here is deterministic."""
    _Settings.deterministic = bool(mode)


@torch_function("are_deterministic_algorithms_enabled")
def are_deterministic_algorithms_enabled() -> bool:
    """What `use_deterministic_algorithms` was told."""
    return _Settings.deterministic


@torch_function("get_default_device")
def get_default_device() -> device:
    """Where tensors are made."""
    return CPU


@torch_function("set_default_device")
def set_default_device(to: Any) -> None:
    """Set where tensors are made: the CPU is all there is."""
    if to is not None:
        device(to)


@torch_function("typename")
def typename(obj: Any) -> str:
    """The name of a type, with its module: `torch.FloatTensor`."""
    if isinstance(obj, Tensor):
        return obj.type()
    module = getattr(obj, "__module__", "") or ""
    name = getattr(obj, "__qualname__", getattr(obj, "__name__", None))
    if name is None:
        module, name = type(obj).__module__, type(obj).__qualname__
    return name if module in ("", "builtins", "__builtin__") else f"{module}.{name}"


@torch_function("scalar_tensor")
def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A number as a tensor without axes."""
    return tensor(float(s) if dtype is None else s, dtype=dtype, device=device)


__all__ = ["VERSION"]
