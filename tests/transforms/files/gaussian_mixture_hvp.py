"""Hessian of `gaussian_mixture` (models.py:56) times a vector.  Needs NumPy only."""

import numpy as np


def logsumexp_and_softmax(x, *, axis=None, keepdims=False):
    """log(sum(exp(x))) over `axis`, and the share of each term in that sum."""
    peak = x.max(axis=axis, keepdims=True)
    finite = np.isfinite(peak).all()
    if not finite:
        largest = np.finfo(x.dtype).max
        peak = peak.clip(-largest, largest)
    share = np.exp(x - peak)
    total = share.sum(axis=axis, keepdims=True)
    if finite:
        share /= total
        total = np.log(total) + peak
    else:
        share /= np.where(total == 0.0, 1.0, total)
        with np.errstate(divide="ignore"):
            total = np.log(total) + peak
    return total if keepdims else total.squeeze(axis), share


def gaussian_mixture_hvp(logits, means, log_scales, x, t_logits, t_means, t_log_scales):
    # forward
    exp_log_scales = np.exp(log_scales)
    t_exp_log_scales = t_log_scales * exp_log_scales
    z = (x[:, None, :] - means) / exp_log_scales
    t_z = (-t_means - t_exp_log_scales * z) / exp_log_scales  # models.py:59
    product = 2.0 * z
    log_density = -0.5 * np.sum(z**2, axis=2) - np.sum(log_scales, axis=1)
    # models.py:60
    t_log_density = -0.5 * np.sum(t_z * product, axis=2) - t_log_scales.sum(axis=1)
    total_logits, softmax = logsumexp_and_softmax(logits)
    product_2 = t_logits * softmax
    t_total_logits = product_2.sum()
    log_weights = logits - total_logits
    t_log_weights = t_logits - t_total_logits  # models.py:61
    total, softmax_2 = logsumexp_and_softmax(log_weights + log_density, axis=1)
    product_3 = (t_log_weights + t_log_density) * softmax_2  # models.py:63
    # backward
    d_diff = product_3 - product_3.sum(axis=1)[:, None] * softmax_2
    t_d_log_weights = d_diff.sum(axis=0)  # of models.py:63
    d_product = softmax_2.sum() * (product_2 - t_total_logits * softmax)
    # of models.py:61
    t_d_logits = t_d_log_weights + (-t_d_log_weights.sum() * softmax - d_product)
    d_product_2 = -0.5 * softmax_2[..., None]
    d_z = d_product_2 * product  # of models.py:60
    d_z_pre = d_z / exp_log_scales  # of models.py:59
    # of models.py:60
    t_d_z = -0.5 * d_diff[..., None] * product + 2.0 * t_z * d_product_2
    t_d_z_pre = (t_d_z - t_exp_log_scales * d_z_pre) / exp_log_scales
    d_minus = -np.sum(t_d_z_pre * z + t_z * d_z_pre, axis=0) * exp_log_scales
    d_diff_2 = d_minus - t_exp_log_scales * np.sum(d_z_pre * z, axis=0)
    t_d_log_scales = d_diff_2 - t_d_log_weights[:, None]
    t_d_means = -t_d_z_pre.sum(axis=0)  # of models.py:59
    return t_d_logits, t_d_means, t_d_log_scales
