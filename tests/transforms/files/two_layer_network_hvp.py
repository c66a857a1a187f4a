"""Hessian of `two_layer_network` (models.py:34) times a vector.  Needs NumPy only."""

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


def two_layer_network_hvp(params, x, targets, t_params):
    w2 = params["w2"]
    # forward
    hidden = np.tanh(x @ params["w1"] + params["b1"])
    diff = 1.0 - hidden * hidden
    t_hidden = (x @ t_params["w1"] + t_params["b1"]) * diff  # models.py:36
    logits = hidden @ w2 + params["b2"]
    t_logits = t_hidden @ w2 + hidden @ t_params["w2"] + t_params["b2"]  # models.py:37
    total_logits, softmax = logsumexp_and_softmax(logits, axis=1, keepdims=True)
    product = t_logits * softmax  # models.py:38
    # backward
    d_log_probs = -targets / x.shape[0]  # of models.py:39
    d_total_logits = -d_log_probs.sum(axis=1, keepdims=True)
    d_diff = product - product.sum(axis=1, keepdims=True) * softmax
    d_product = d_diff * d_total_logits
    d_logits = d_log_probs + d_total_logits * softmax  # of models.py:38
    t_d_b2 = d_product.sum(axis=0)
    d_hidden = d_logits @ w2.T
    t_d_hidden = d_product @ w2.T + d_logits @ t_params["w2"].T
    t_d_w2 = t_hidden.T @ d_logits + hidden.T @ d_product  # of models.py:37
    d_total = t_d_hidden * diff - 2.0 * t_hidden * hidden * d_hidden
    t_d_b1 = d_total.sum(axis=0)
    t_d_w1 = x.T @ d_total  # of models.py:36
    return {"w1": t_d_w1, "b1": t_d_b1, "w2": t_d_w2, "b2": t_d_b2}
