"""What scripts ask of `torch.cuda` before they fall back to the CPU: there is none."""

from __future__ import annotations

from typing import Any, NoReturn

ABSENT = "Torch not compiled with CUDA enabled"


def is_available() -> bool:
    """Whether there is a GPU to compute on: never."""
    return False


def device_count() -> int:
    """The number of GPUs: 0."""
    return 0


def is_initialized() -> bool:
    """Whether the GPU is in use: never."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the GPU knows bfloat16: there is none."""
    return False


def manual_seed(seed: int) -> None:
    """Nothing: there is no generator of a GPU."""


def manual_seed_all(seed: int) -> None:
    """Nothing: there is no generator of a GPU."""


def empty_cache() -> None:
    """Nothing: no memory of a GPU is held."""


def memory_allocated(device: Any = None) -> int:
    """Bytes on the GPU: 0."""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """Bytes on the GPU at most: 0."""
    return 0


def _absent(*args: Any, **kwargs: Any) -> NoReturn:
    """There is no GPU.

    Raises:
        AssertionError: always, with PyTorch's message.
    """
    raise AssertionError(ABSENT)


synchronize = current_device = get_device_name = get_device_properties = _absent

__all__ = [
    "current_device",
    "device_count",
    "empty_cache",
    "get_device_name",
    "get_device_properties",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "synchronize",
]
