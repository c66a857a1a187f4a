"""Value and tangent of `two_layer_network` (models.py:34).  Needs NumPy only."""

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


def two_layer_network_jvp(params, x, targets, t_params):
    p = x.shape[0]
    hidden = np.tanh(x @ params["w1"] + params["b1"])
    # models.py:36
    t_hidden = (x @ t_params["w1"] + t_params["b1"]) * (1.0 - hidden * hidden)
    logits = hidden @ params["w2"] + params["b2"]
    # models.py:37
    t_logits = t_hidden @ params["w2"] + hidden @ t_params["w2"] + t_params["b2"]
    total_logits, softmax = logsumexp_and_softmax(logits, axis=1, keepdims=True)
    log_probs = logits - total_logits
    # models.py:38
    t_log_probs = t_logits - np.sum(t_logits * softmax, axis=1, keepdims=True)
    out = -np.sum(targets * log_probs) / p
    t_out = -np.sum(t_log_probs * targets) / p  # models.py:39
    return out, t_out
