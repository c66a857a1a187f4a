"""Tensors in files, and in the memory of other libraries.

`save` writes an `.npz`: the arrays, and a text that says where they stand in nested
containers.  `load` runs no code of the file: what is no tensor, container, number or
text has no place in the format.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections import OrderedDict
from typing import Any

import numpy as np

from tracegrad.eager.dtypes import NAMES, dtype
from tracegrad.eager.registry import torch_function
from tracegrad.eager.tensor import Parameter, Size, Tensor, device, wrap

STRUCTURE = "structure"
VERSION = 1
_write: Any = np.savez


# ------------------------------------------------------------------------------- save
@torch_function("save")
def save(obj: Any, f: Any, **options: Any) -> None:
    """Write tensors, and containers, numbers and texts around them, to a file.

    Args:
        obj: what to write.  A tensor that appears twice is one again when it is loaded;
            two views of one memory are not.
        f: a path, or a file open for writing bytes.
        **options: PyTorch's, which concern its own format.

    Raises:
        TypeError: if something is of another kind.

    Example:
        >>> import io
        >>> import tracegrad.eager as torch
        >>> file = io.BytesIO()
        >>> torch.save({"w": torch.ones(2), "step": 3}, file)
        >>> start = file.seek(0)
        >>> torch.load(file)
        {'w': tensor([1., 1.]), 'step': 3}
    """
    writer = _Writer()
    structure = {"version": VERSION, "root": writer.written(obj)}
    text = np.array(json.dumps(structure))
    if isinstance(f, str | os.PathLike):
        with pathlib.Path(f).open("wb") as file:
            _write(file, **{STRUCTURE: text}, **writer.arrays)
    else:
        _write(f, **{STRUCTURE: text}, **writer.arrays)


class _Writer:
    """Collects the arrays while the structure is described."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.seen: dict[int, tuple[str, Tensor]] = {}

    def written(self, x: Any) -> Any:
        """A description of `x` that JSON can hold."""
        if x is None or isinstance(x, bool | str):
            return x
        if isinstance(x, Tensor):
            return self.tensor(x)
        if isinstance(x, int):
            return {"int": str(int(x))}
        if isinstance(x, float):
            return {"float": float(x).hex()}
        if isinstance(x, complex):
            return {"complex": [x.real.hex(), x.imag.hex()]}
        if isinstance(x, dtype):
            return {"dtype": str(x).removeprefix("torch.")}
        if isinstance(x, device):
            return {"device": str(x)}
        kind = type(x)
        if kind in (dict, OrderedDict):
            items = [[self.written(k), self.written(v)] for k, v in x.items()]
            return {"dict" if kind is dict else "OrderedDict": items}
        if kind in (list, tuple, set, Size):
            return {kind.__name__: [self.written(v) for v in x]}
        raise TypeError(
            f"save() takes tensors, dicts, lists, tuples, numbers and texts, not "
            f"{kind.__name__}: what is loaded must not run code"
        )

    def tensor(self, x: Tensor) -> Any:
        """The name of the array of a tensor, and what it takes to make it again."""
        if id(x) not in self.seen:
            name = f"tensor{len(self.seen)}"
            self.seen[id(x)] = name, x
            self.arrays[name] = x._data
        kind = "Parameter" if type(x) is Parameter else "Tensor"
        return {kind: self.seen[id(x)][0], "requires_grad": x.requires_grad}


# ------------------------------------------------------------------------------- load
@torch_function("load")
def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **options: Any,
) -> Any:
    """Read what `save` has written.

    Args:
        f: a path, or a file open for reading bytes.
        map_location: `"cpu"`, where everything is.
        pickle_module: not used: nothing is unpickled.
        weights_only: always so.
        mmap: accepted.
        **options: accepted.

    Raises:
        ValueError: if the file is not one of `save`; PyTorch's own are pickles.
    """
    if map_location is not None and not callable(map_location):
        if not isinstance(map_location, dict):
            device(map_location)
    try:
        with np.load(f, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        structure = json.loads(str(arrays[STRUCTURE]))
    except (ValueError, KeyError, TypeError, EOFError) as error:
        raise ValueError(
            "load() reads files that save() of this module has written; this one is "
            f"of another kind ({error})"
        ) from None
    if structure.get("version") != VERSION:
        raise ValueError(
            f"load() reads version {VERSION}, not {structure.get('version')}"
        )
    return _Reader(arrays).read(structure["root"])


class _Reader:
    """Builds the objects from their descriptions."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.arrays = arrays
        self.made: dict[str, Tensor] = {}

    def read(self, x: Any) -> Any:
        """What `written` has described."""
        if not isinstance(x, dict):
            return x
        kind, value = next(iter(x.items()))
        if kind in ("Tensor", "Parameter"):
            return self.tensor(kind, value, x["requires_grad"])
        if kind in ("dict", "OrderedDict"):
            pairs = [(self.read(k), self.read(v)) for k, v in value]
            return dict(pairs) if kind == "dict" else OrderedDict(pairs)
        if kind in _SEQUENCES:
            return _SEQUENCES[kind]([self.read(v) for v in value])
        return _NUMBERS[kind](value)

    def tensor(self, kind: str, name: str, requires_grad: bool) -> Tensor:
        """The tensor of an array, the same one each time."""
        if name not in self.made:
            made = wrap(self.arrays[name])
            if kind == "Parameter":
                made = Parameter(made, requires_grad)
            elif requires_grad:
                made.requires_grad_()
            self.made[name] = made
        return self.made[name]


_SEQUENCES: dict[str, Any] = {"list": list, "tuple": tuple, "set": set, "Size": Size}
_NUMBERS: dict[str, Any] = {
    "int": int,
    "float": float.fromhex,
    "complex": lambda parts: complex(*map(float.fromhex, parts)),
    "dtype": lambda name: NAMES[name],
    "device": device,
}


# ----------------------------------------------------------------------------- DLPack
def _dlpack(self: Tensor, **options: Any) -> Any:
    """A capsule that shows the memory to another library."""
    if self._node is not None:
        raise BufferError(
            "Can't export tensors that require gradient, use tensor.detach()"
        )
    options.pop("stream", None)
    return self._data.__dlpack__(**options)


def _dlpack_device(self: Tensor) -> tuple[int, int]:
    """The CPU, in DLPack's numbers."""
    return self._data.__dlpack_device__()


Tensor.__dlpack__ = _dlpack  # type: ignore[attr-defined]
Tensor.__dlpack_device__ = _dlpack_device  # type: ignore[attr-defined]


@torch_function("from_dlpack")
def from_dlpack(
    ext_tensor: Any, *, device: Any = None, copy: bool | None = None
) -> Any:
    """A tensor that shares the memory of another library's array on the CPU.

    Args:
        ext_tensor: has `__dlpack__`.
        device: accepted: the CPU.
        copy: whether the memory is copied.
    """
    if isinstance(ext_tensor, Tensor):
        return ext_tensor.clone() if copy else ext_tensor.detach()
    data = np.from_dlpack(ext_tensor)
    return wrap(data.copy() if copy else data)


__all__ = ["from_dlpack", "load", "save"]
