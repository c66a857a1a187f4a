"""Losses by composition, beyond the common ones."""

from __future__ import annotations

import math

import numpy as np

from tracegrad.eager.arithmetic import clamp, where
from tracegrad.eager.nn.functional import (
    _reduced,
    _watching,
    cosine_similarity,
    logsigmoid,
    pairwise_distance,
)
from tracegrad.eager.tensor import Tensor, wrap


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """`x` where the target is 1, what it lacks to the margin where it is -1."""
    apart = where(target != 1, clamp(margin - input, 0.0), 0.0)
    near = where(target != -1, input, 0.0)
    return _reduced(apart + near, reduction)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0.0,
    reduction: str = "mean",
) -> Tensor:
    """What the difference in the wanted order lacks to the margin."""
    return _reduced(clamp(-target * (input1 - input2) + margin, 0.0), reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """How much nearer than the margin says the negative is."""
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = far.minimum(pairwise_distance(positive, negative, p, eps))
    return _reduced(clamp(near - far + margin, 0.0), reduction)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0.0,
    reduction: str = "mean",
) -> Tensor:
    """1 less the cosine for alike, the cosine over the margin for unlike."""
    cos = cosine_similarity(input1, input2, -1)
    loss = where(target == 1, 1 - cos, clamp(cos - margin, 0.0))
    return _reduced(loss, reduction)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """The negative logarithm of Poisson's chance of the target."""
    if log_input:
        loss = input.exp() - target * input
    else:
        loss = input - target * (input + eps).log()
    if full:
        large = where(target > 1, target, 1.0)
        stirling = large * large.log() - large + 0.5 * (2 * math.pi * large).log()
        loss = loss + where(target > 1, stirling, 0.0)
    return _reduced(loss, reduction)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """The negative logarithm of the density of the target."""
    # The slope of the limit is that of the variance itself.
    var = var + wrap(np.maximum(var._data, eps) - var._data)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduced(loss, reduction)


def soft_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target * x))."""
    loss = (1 + (-target * input).exp()).log()
    loss = _reduced(loss, reduction, "SoftMarginLossBackward0")
    return _watching(loss, input, target)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Cross entropy of each label, and the mean of them."""
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return _watching(_reduced(loss.mean(-1), reduction), input, target, weight)


__all__ = [
    "cosine_embedding_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "multilabel_soft_margin_loss",
    "poisson_nll_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
]
