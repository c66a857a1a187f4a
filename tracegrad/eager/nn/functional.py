"""`torch.nn.functional`: activations, losses, layers without state."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracegrad.eager import activations
from tracegrad.eager.arithmetic import clamp, where
from tracegrad.eager.dtypes import SCALAR_TYPES, from_numpy_dtype
from tracegrad.eager.engine import entry_of
from tracegrad.eager.inplace import named
from tracegrad.eager.nn import convolution
from tracegrad.eager.nn.checks import check_batch, check_class_numbers, checked_layer
from tracegrad.eager.nodes import SEQ, extras_of
from tracegrad.eager.reductions import matmul
from tracegrad.eager.registry import FUNCTIONS
from tracegrad.eager.selection import index_select
from tracegrad.eager.shapes import reshape
from tracegrad.eager.statistics import vector_norm
from tracegrad.eager.tensor import Tensor, wrap
from tracegrad.ops import elementary, rearrange

_softmax, _log_softmax = FUNCTIONS["softmax"], FUNCTIONS["log_softmax"]
conv1d, conv2d, conv3d = convolution.conv1d, convolution.conv2d, convolution.conv3d
for _name in ("max_pool", "avg_pool"):
    for _rank in (1, 2, 3):
        globals()[f"{_name}{_rank}d"] = getattr(convolution, f"{_name}{_rank}d")
gelu = activations.gelu
softplus = activations.softplus
softsign = activations.softsign
tanhshrink = activations.tanhshrink
glu = activations.glu
silu = activations.silu
mish = activations.mish
selu = activations.selu
celu = activations.celu
relu6 = activations.relu6
logsigmoid = activations.logsigmoid
hardsigmoid = activations.hardsigmoid
hardswish = activations.hardswish
# These have an argument `inplace`, which methods have as a name.
relu = activations.with_inplace(activations.relu)
leaky_relu = activations.with_inplace(activations.leaky_relu)
elu = activations.with_inplace(activations.elu)
hardtanh = activations.with_inplace(activations.hardtanh)
threshold = activations.with_inplace(activations.threshold)


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return input.sigmoid()


def tanh(input: Tensor) -> Tensor:
    """Hyperbolic tangent."""
    return input.tanh()


def _usual_dim(dim: int | None, ndim: int) -> int:
    if dim is None:
        return 0 if ndim in (0, 1, 3) else 1
    return dim


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """exp(x) / sum(exp(x)) along `dim`."""
    return _softmax(input, _usual_dim(dim, input._data.ndim), dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """log(softmax(x)) along `dim`."""
    return _log_softmax(input, _usual_dim(dim, input._data.ndim), dtype)


def softmin(input: Tensor, dim: int | None = None) -> Tensor:
    """The softmax of -x."""
    return softmax(-input, dim)


# ------------------------------------------------------------------------------ losses
def _reduced(loss: Tensor, reduction: str, name: str | None = None) -> Tensor:
    """The mean, the sum, or all the losses; one node as PyTorch counts, if named."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if reduction != "none":
        loss = loss.mean() if reduction == "mean" else loss.sum()
    return loss if name is None else named(loss, name)


def _watching(out: Tensor, *tensors: Tensor | None) -> Tensor:
    """Let a fresh result notice changes of what PyTorch saves for it."""
    if out._node is not None and out._node[SEQ] > 0:
        watched = [(x._data, x._node) for x in tensors if x is not None]
        extras_of(out._node).watched = tuple(watched)
    return out


def _fitted(name: str | None, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Both in one shape, so that their dtypes count alike.

    Raises:
        NotImplementedError: PyTorch's message, if both are integers.
    """
    if input._data.shape != target._data.shape:
        input, target = FUNCTIONS["broadcast_tensors"](input, target)
    kinds = {x._data.dtype.kind for x in (input, target)}
    if name is not None and not kinds & {"f", "c"}:
        kind = SCALAR_TYPES[from_numpy_dtype(np.result_type(input._data, target._data))]
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{kind}'")
    return input, target


def mse_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """Squares of the differences."""
    input, target = _fitted("mse", input, target)
    loss = _reduced((input - target) ** 2, reduction, "MseLossBackward0")
    return _watching(loss, input, target)


def l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """Sizes of the differences."""
    input, target = _fitted(None, input, target)
    return _reduced((input - target).abs(), reduction)


def smooth_l1_loss(
    input: Tensor, target: Tensor, *, reduction: str = "mean", beta: float = 1.0
) -> Tensor:
    """Half a square near 0, a size beyond `beta`."""
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    input, target = _fitted("smooth_l1", input, target)
    gap = (input - target).abs()
    loss = where(gap < beta, 0.5 * gap**2 / beta, gap - 0.5 * beta)
    loss = _reduced(loss, reduction, "SmoothL1LossBackward0")
    return _watching(loss, input, target)


def huber_loss(
    input: Tensor, target: Tensor, *, reduction: str = "mean", delta: float = 1.0
) -> Tensor:
    """Half a square near 0, a line beyond `delta`."""
    gap = (input - target).abs()
    loss = where(gap <= delta, 0.5 * gap**2, delta * (gap - 0.5 * delta))
    loss = _reduced(loss, reduction, "HuberLossBackward0")
    return _watching(loss, input, target)


def _along(weight: Tensor, x: Tensor, axis: int) -> Tensor:
    sizes = [1] * x._data.ndim
    sizes[axis] = -1
    return reshape(weight, sizes)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """`binary_cross_entropy` of the sigmoid, exact in both tails."""
    if target._data.shape != input._data.shape:
        raise ValueError(
            f"Target size ({target.shape}) must be the same as input size "
            f"({input.shape})"
        )
    zeros = wrap(np.zeros_like(input._data))
    missed = entry_of(elementary.logaddexp).eager(-input, zeros)
    if pos_weight is not None:
        missed = missed * (1 + (pos_weight - 1) * target)
    loss = (1 - target) * input + missed
    loss = loss if weight is None else loss * weight
    loss = _reduced(loss, reduction, "BinaryCrossEntropyWithLogitsBackward0")
    return _watching(loss, input, target, weight, pos_weight)


def kl_div(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Kullback and Leibler's divergence; `input` has log-probabilities."""
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = target.xlogy(target) - target * input
    if reduction == "batchmean":
        return loss.sum() / input._data.shape[0]
    return _reduced(loss, reduction)


# ------------------------------------------------------------------------------ layers
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`input @ weight.T + bias`."""
    if bias is not None and input._data.ndim == 2:
        return FUNCTIONS["addmm"](bias, input, weight.t())
    made = matmul(input, weight.t())
    return made if bias is None else named(made + bias, "ViewBackward0")


def bilinear(
    input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    """`input1 @ weight[k] @ input2` for each k."""
    rows = (input1.unsqueeze(-2).unsqueeze(-2) @ weight).squeeze(-2)
    made = (rows * input2.unsqueeze(-2)).sum(-1)
    return made if bias is None else made + bias


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """The rows of `weight` at the positions `input`; that of `padding_idx` is fixed.

    Raises:
        RuntimeError: PyTorch's message, if `weight` is no matrix.
        IndexError: PyTorch's message, if a position is out of range.
    """
    if weight._data.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    count = weight._data.shape[0]
    if padding_idx is not None and not -count <= padding_idx < count:
        raise AssertionError("Padding_idx must be within num_embeddings")
    places = input._data
    if ((places < 0) | (places >= count)).any():
        raise IndexError("index out of range in self")
    rows = index_select(weight, 0, reshape(input, (-1,)))
    made = reshape(rows, (*places.shape, weight._data.shape[1]))
    if padding_idx is not None:
        fixed = wrap((places == padding_idx % count)[..., None])
        made = where(fixed, made.detach(), made)
    return _watching(named(made, "EmbeddingBackward0"), input)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """A row for each class number, with a 1 at its place.

    Raises:
        RuntimeError: PyTorch's messages, for numbers that are no classes.
    """
    check_class_numbers(tensor, num_classes)
    count = int(tensor._data.max()) + 1 if num_classes < 0 else num_classes
    return wrap((tensor._data[..., None] == np.arange(count)).astype(np.int64))


def layer_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """The last axes brought to mean 0 and variance 1, scaled and shifted."""
    sizes = checked_layer(input, normalized_shape, weight, bias)
    axes = tuple(range(-len(sizes), 0))
    centred = input - input.mean(axes, keepdim=True)
    made = centred / (input.var(axes, correction=0, keepdim=True) + eps).sqrt()
    made = made if weight is None else made * weight
    made = made if bias is None else made + bias
    return named(made, "NativeLayerNormBackward0")


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel (axis 1) brought to mean 0 and variance 1, scaled and shifted."""
    check_batch(input, (running_mean, running_var, weight, bias), training)
    axes = [i for i in range(input._data.ndim) if i != 1]
    if training or running_mean is None or running_var is None:
        mean = input.mean(axes)
        var = input.var(axes, correction=0)
        _follow(running_mean, mean, momentum, 1.0)
        count = input._data.size // max(input._data.shape[1], 1)
        _follow(running_var, var, momentum, count / max(count - 1, 1))
    else:
        mean, var = running_mean, running_var
    spread = (_along(var, input, 1) + eps).sqrt()
    made = (input - _along(mean, input, 1)) / spread
    made = made if weight is None else made * _along(weight, input, 1)
    made = made if bias is None else made + _along(bias, input, 1)
    return named(made, "NativeBatchNormBackward0")


def _follow(
    running: Tensor | None, now: Tensor, momentum: float, factor: float
) -> None:
    """Move a running statistic towards the present one."""
    if running is not None:
        fresh = now._data * (momentum * factor)
        running.copy_(wrap(running._data * (1 - momentum) + fresh))


def dropout(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Elements set to 0 with probability `p`, the others scaled up."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training:
        return input
    kept = FUNCTIONS["rand"](*input._data.shape)._data >= p
    scale = kept.astype(input._data.dtype) / (1 - p) if p < 1 else kept * 0.0
    return input * wrap(np.asarray(scale, input._data.dtype))


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12
) -> Tensor:
    """The vectors along `dim` brought to norm 1."""
    return input / clamp(vector_norm(input, p, dim, True), min=eps).expand_as(input)


def cosine_similarity(
    x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8
) -> Tensor:
    """The cosine of the angle between vectors along `dim`."""
    parts = [x / clamp(vector_norm(x, 2, dim, True), min=eps) for x in (x1, x2)]
    return (parts[0] * parts[1]).sum(dim)


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6
) -> Tensor:
    """The norm of the difference of vectors along the last axis."""
    return named(vector_norm(x1 - x2 + eps, p, -1), "NormBackward1")


def pad(
    input: Tensor, pad: Any, mode: str = "constant", value: float | None = None
) -> Any:
    """Numbers put around: pairs of widths, that of the last axis first."""
    n = input._data.ndim
    widths = [(0, 0)] * n
    for k in range(len(pad) // 2):
        widths[n - 1 - k] = (int(pad[2 * k]), int(pad[2 * k + 1]))
    how = {"constant": "constant", "replicate": "edge", "reflect": "reflect"}
    how["circular"] = "wrap"
    attrs: dict[str, Any] = {"pad_width": tuple(widths), "mode": how[mode]}
    if mode == "constant":
        attrs["constant_values"] = 0 if value is None else value
    made = entry_of(rearrange.pad).eager(input, **attrs)
    return named(made, "ConstantPadNdBackward0") if mode == "constant" else made


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """softmax(query @ key.T * scale) @ value."""
    factor = 1 / math.sqrt(query._data.shape[-1]) if scale is None else scale
    scores = matmul(query, key.mT) * factor
    if is_causal:
        rows, columns = scores._data.shape[-2:]
        attn_mask = wrap(np.tri(rows, columns, dtype=bool))
    if attn_mask is not None and attn_mask._data.dtype == np.bool_:
        scores = scores.masked_fill(attn_mask.logical_not(), -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return matmul(_softmax(scores, -1), value)
