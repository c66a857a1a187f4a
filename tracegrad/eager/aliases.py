"""Further names: methods that ask or convert, `nn.functional` functions in `torch`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.eager import modes
from tracegrad.eager.creation import full, tensor
from tracegrad.eager.dtypes import NAMES
from tracegrad.eager.inplace import LEAF, in_place, named
from tracegrad.eager.nn import functional, losses, norms, resampling
from tracegrad.eager.registry import FUNCTIONS, sizes_of, torch_function
from tracegrad.eager.tensor import Tensor, wrap

torch_function("is_anomaly_enabled")(modes.is_anomaly_enabled)
torch_function("is_anomaly_check_nan_enabled")(modes.is_anomaly_check_nan_enabled)
torch_function("set_anomaly_enabled")(modes._set_anomaly)


# ----------------------------------------------------------------- adjoint matrices
@torch_function("adjoint", methods=True)
def adjoint(input: Tensor) -> Tensor:
    """The last two axes swapped, and conjugated."""
    return input.mT.conj() if input._data.dtype.kind == "c" else input.mT


def _adjoint_of_matrix(self: Tensor) -> Tensor:
    if self._data.ndim not in (0, 2):
        raise RuntimeError(
            "tensor.H is only supported on matrices (2-D tensors). Got "
            f"{self._data.ndim}-D tensor. For batches of matrices, consider using "
            "tensor.mH"
        )
    return adjoint(self) if self._data.ndim else self


Tensor.mH = property(adjoint)  # type: ignore[attr-defined]
Tensor.H = property(_adjoint_of_matrix)  # type: ignore[attr-defined]


# --------------------------------------------------------------------- what tensors are
def _method(name: str, function: Callable, doc: str) -> None:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    setattr(Tensor, name, function)


def _is_nonzero(self: Tensor) -> bool:
    if self._data.size != 1:
        raise RuntimeError(
            "Boolean value of Tensor with more than one value is ambiguous"
            if self._data.size
            else "Boolean value of Tensor with no values is ambiguous"
        )
    return bool(self._data.item())


_method("nelement", lambda self: self._data.size, "Number of elements.")
_method("is_nonzero", _is_nonzero, "Whether the only element is not zero.")
_method("is_signed", lambda self: self._data.dtype.kind in "ifc", "Whether below zero.")
_method("is_same_size", lambda self, other: self.shape == other.shape, "Same shape?")
_method("is_conj", lambda self: False, "False: conjugates are computed at once.")
_method("is_neg", lambda self: False, "False: negatives are computed at once.")
_method("resolve_conj", lambda self: self, "Itself: conjugates are computed at once.")
_method("resolve_neg", lambda self: self, "Itself: negatives are computed at once.")
_method("get_device", lambda self: -1, "-1, which stands for the CPU.")
_method("is_shared", lambda self: False, "Whether processes share it.")
_method("is_pinned", lambda self, device=None: False, "Whether its pages are locked.")
_method("is_set_to", lambda self, other: self._data is other._data, "Same memory?")
Tensor.is_cpu = True  # type: ignore[attr-defined]
Tensor.name = None  # type: ignore[attr-defined]
for _name in ("is_nonzero", "is_signed", "is_same_size", "is_conj", "is_neg"):
    torch_function(_name)(getattr(Tensor, _name))
for _name in ("resolve_conj", "resolve_neg", "get_device"):
    torch_function(_name)(getattr(Tensor, _name))
torch_function("is_inference")(lambda input: input._inference)


def _new_tensor(self: Tensor, data: Any, **options: Any) -> Tensor:
    return tensor(data, dtype=options.pop("dtype", None) or self.dtype, **options)


def _new_full(self: Tensor, size: Any, fill_value: Any, **options: Any) -> Tensor:
    kind = options.pop("dtype", None) or self.dtype
    return full(size, fill_value, dtype=kind, **options)


def _sum_to_size(self: Tensor, *size: Any) -> Tensor:
    shape = sizes_of(size)
    have = self._data.shape
    extra = len(have) - len(shape)
    axes = tuple(
        k for k, n in enumerate(have) if k < extra or (shape[k - extra] == 1 and n != 1)
    )
    if extra < 0 or any(
        m not in (1, n) for m, n in zip(shape, have[extra:], strict=True)
    ):
        raise RuntimeError(
            f"size {{{list(shape)}}} is not expandable to size {{{list(have)}}}."
        )
    if not axes:
        return self
    total = self.sum(axes, keepdim=True)
    return total.reshape(shape) if extra else total


_method("new_tensor", _new_tensor, "A new tensor of the same dtype.")
_method("new_full", _new_full, "One number everywhere, in the same dtype.")
_method("sum_to_size", _sum_to_size, "Summed over the axes that a shape lacks.")
for _name, _kind in {"char": "int8", "byte": "uint8"}.items():
    _method(_name, lambda self, k=_kind: self.to(NAMES[k]), f"The tensor as {_kind}.")


# ------------------------------------------------------- another shape of the tensor
TITLES = {
    "squeeze": "SqueezeBackward",
    "unsqueeze": "UnsqueezeBackward",
    "t": "TBackward",
    "transpose": "TransposeBackward",
    "swapaxes": "TransposeBackward",
    "swapdims": "TransposeBackward",
}


def _reshape_in_place(name: str) -> None:
    plain = getattr(Tensor, name)

    def method(self: Tensor, *args: Any) -> Tensor:
        if self._node is not None and self.is_leaf:
            raise RuntimeError(f"a view of {LEAF}" if self._root else LEAF)
        made = plain(self, *args)
        if made._node is not None:
            title, digits = TITLES[name], "" if name != "squeeze" else ("3", "4")
            named(made, f"{title}{digits[bool(args)] if digits else 1}")
        self._data, self._node = made._data, made._node
        if self._root is not None:
            self._steps = made._steps
        return self

    _method(f"{name}_", method, f"`{name}` of the tensor itself.")


for _name in TITLES:
    _reshape_in_place(_name)


def _fill_diagonal(self: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    if self._data.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    places = np.zeros(self._data.shape, bool)
    np.fill_diagonal(places, True, wrap)
    return self.masked_fill_(tensor(places), fill_value)


def _apply(self: Tensor, callable: Callable) -> Tensor:
    if self._node is not None:
        raise RuntimeError(
            "Can't call apply_() on Variable that requires grad. Use "
            "var.detach().apply_() instead."
        )
    made = [callable(x) for x in self._data.reshape(-1).tolist()]
    new = np.array(made, self._data.dtype).reshape(self._data.shape)
    return in_place(self, lambda x: wrap(new))


_method("fill_diagonal_", _fill_diagonal, "One number on the diagonal, in place.")


def _map(self: Tensor, tensor: Tensor, callable: Callable) -> Tensor:
    if self._node is not None or tensor._node is not None:
        raise RuntimeError(
            "Can't call map_() on Variable that requires grad. Use "
            "var.detach().map_() instead."
        )
    other = tensor.expand(self.shape)._data
    pairs = zip(self._data.reshape(-1).tolist(), other.reshape(-1).tolist())
    made = [callable(x, y) for x, y in pairs]
    new = np.array(made, self._data.dtype).reshape(self._data.shape)
    return in_place(self, lambda x: wrap(new))


_method("apply_", _apply, "A Python function of each element, in place.")
_method("map_", _map, "A Python function of each two elements, in place.")


# -------------------------------------------------- nn.functional's names in `torch`
@torch_function("layer_norm")
def layer_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """`nn.functional.layer_norm`."""
    return functional.layer_norm(input, normalized_shape, weight, bias, eps)


@torch_function("dropout")
def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.dropout`."""
    return functional.dropout(input, p, train)


@torch_function("embedding")
def embedding(weight: Tensor, indices: Tensor, padding_idx: int = -1) -> Tensor:
    """`nn.functional.embedding`, the table first."""
    padding = padding_idx if padding_idx >= 0 else None
    return functional.embedding(indices, weight, padding)


for _name in (
    "bilinear",
    "conv1d",
    "conv2d",
    "conv3d",
    "avg_pool1d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "cosine_similarity",
    "pairwise_distance",
    "threshold",
):
    if _name not in FUNCTIONS:
        torch_function(_name)(getattr(functional, _name))
for _name in ("hardshrink", "prelu"):
    torch_function(_name, methods=True)(getattr(norms, _name))
for _name in (
    "adaptive_avg_pool1d",
    "group_norm",
    "instance_norm",
    "pixel_shuffle",
    "pixel_unshuffle",
    "rms_norm",
):
    torch_function(_name)(getattr(norms, _name))
for _name in (
    "cosine_embedding_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "poisson_nll_loss",
    "triplet_margin_loss",
):
    torch_function(_name)(getattr(losses, _name))
for _name in ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"):
    torch_function(_name)(getattr(resampling, _name))
