"""Value and tangent of `gaussian_mixture` (models.py:56).  Needs NumPy only."""

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


def gaussian_mixture_jvp(logits, means, log_scales, x, t_logits, t_means, t_log_scales):
    exp_log_scales = np.exp(log_scales)
    z = (x[:, None, :] - means) / exp_log_scales
    # models.py:59
    t_z = (-t_means - t_log_scales * exp_log_scales * z) / exp_log_scales
    log_density = -0.5 * np.sum(z**2, axis=2) - np.sum(log_scales, axis=1)
    t_log_density = -np.sum(t_z * z, axis=2) - t_log_scales.sum(axis=1)  # models.py:60
    total_logits, softmax = logsumexp_and_softmax(logits)
    log_weights = logits - total_logits
    t_log_weights = t_logits - t_logits @ softmax  # models.py:61
    # models.py:62
    constant = 0.5 * x.shape[0] * means.shape[1] * np.log(6.283185307179586)
    total, softmax_2 = logsumexp_and_softmax(log_weights + log_density, axis=1)
    t_out = np.sum((t_log_weights + t_log_density) * softmax_2)
    out = np.sum(total) - constant  # models.py:63
    return out, t_out
