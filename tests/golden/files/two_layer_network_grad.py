"""Value and gradient of `two_layer_network` (models.py:34) with respect to `params`.

Needs NumPy only.
"""

import numpy as np


def check_arrays(spec, *arrays):
    """Raise ValueError unless the arrays are what `spec` says: `float w[3, n]; x[n]`.

    Equal names stand for equal sizes of at least 2: an axis of size 1 would broadcast,
    and needs a gradient of its own.  So do complex numbers; and integers have none.
    """
    sizes = {}
    for part, array in zip(spec.split("; "), arrays, strict=True):
        wanted = [s for s in part[part.rindex("[") + 1 : -1].split(", ") if s]
        found, dtype = np.shape(array), np.asarray(array).dtype
        if len(found) != len(wanted):
            raise ValueError(f"{part} is needed, not an array of shape {found}")
        for text, size in zip(wanted, found, strict=True):
            number = int(text) if text.isdigit() else sizes.setdefault(text, size)
            if size != number or size < 2 and text.isidentifier():
                raise ValueError(f"{part} of {spec} does not fit the shape {found}")
        if part.startswith("float "):
            fits = np.issubdtype(dtype, np.floating)
        else:
            fits = np.iscomplexobj(array) == part.startswith("complex ")
        if not fits:
            raise ValueError(f"{part} is needed, not an array of {dtype}")


def logsumexp(x, *, axis=None, keepdims=False):
    """log(sum(exp(x))) over `axis`, without overflow."""
    peak = x.max(axis=axis, keepdims=True)
    if not np.isfinite(peak).all():
        largest = np.finfo(x.dtype).max
        peak = peak.clip(-largest, largest)
    total = np.exp(x - peak).sum(axis=axis, keepdims=keepdims)
    with np.errstate(divide="ignore"):
        return np.log(total) + (peak if keepdims else peak.squeeze(axis))


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


def check_arguments(params, x, targets):
    """Raise ValueError for arguments that the gradient was not derived for."""
    if [*params] != ["w1", "b1", "w2", "b2"]:
        raise ValueError('derived for [*params] == ["w1", "b1", "w2", "b2"]')
    check_arrays(
        "float params['w1'][n, m]; float params['b1'][m]; float params['w2'][m, k]; float params['b2'][k]; x[p, n]; targets[p, k]",
        params["w1"],
        params["b1"],
        params["w2"],
        params["b2"],
        x,
        targets,
    )


def two_layer_network(params, x, targets):
    """Mean cross entropy of a network with one hidden layer, for one-hot targets."""
    check_arguments(params, x, targets)
    hidden = np.tanh(x @ params["w1"] + params["b1"])  # models.py:36
    logits = hidden @ params["w2"] + params["b2"]  # models.py:37
    log_probs = logits - logsumexp(logits, axis=1, keepdims=True)  # models.py:38
    return -np.sum(targets * log_probs) / x.shape[0]


def two_layer_network_vjp(params, x, targets):
    """Value and pullback of `two_layer_network` (models.py:34) with respect to
    `params`.
    """
    check_arguments(params, x, targets)
    p = x.shape[0]
    # forward
    hidden = np.tanh(x @ params["w1"] + params["b1"])  # models.py:36
    logits = hidden @ params["w2"] + params["b2"]  # models.py:37
    total_logits, softmax = logsumexp_and_softmax(logits, axis=1, keepdims=True)
    log_probs = logits - total_logits  # models.py:38
    out = -np.sum(targets * log_probs) / p  # models.py:39

    def pullback(d_out):
        d_log_probs = -d_out / p * targets  # of models.py:39
        # of models.py:38
        d_logits = d_log_probs - d_log_probs.sum(axis=1, keepdims=True) * softmax
        d_b2 = d_logits.sum(axis=0)
        d_hidden = d_logits @ params["w2"].T
        d_w2 = hidden.T @ d_logits  # of models.py:37
        d_hidden_pre = d_hidden * (1.0 - hidden * hidden)
        d_b1 = d_hidden_pre.sum(axis=0)
        d_w1 = x.T @ d_hidden_pre  # of models.py:36
        return ({"w1": d_w1, "b1": d_b1, "w2": d_w2, "b2": d_b2},)

    return out, pullback


def two_layer_network_value_and_grad(params, x, targets):
    """Value and gradient of `two_layer_network` (models.py:34) with respect to
    `params`.
    """
    check_arguments(params, x, targets)
    p = x.shape[0]
    # forward
    hidden = np.tanh(x @ params["w1"] + params["b1"])  # models.py:36
    logits = hidden @ params["w2"] + params["b2"]  # models.py:37
    total_logits, softmax = logsumexp_and_softmax(logits, axis=1, keepdims=True)
    log_probs = logits - total_logits  # models.py:38
    out = -np.sum(targets * log_probs) / p  # models.py:39
    # backward
    d_log_probs = -targets / p  # of models.py:39
    # of models.py:38
    d_logits = d_log_probs - d_log_probs.sum(axis=1, keepdims=True) * softmax
    d_b2 = d_logits.sum(axis=0)
    d_hidden = d_logits @ params["w2"].T
    d_w2 = hidden.T @ d_logits  # of models.py:37
    d_hidden_pre = d_hidden * (1.0 - hidden * hidden)
    d_b1 = d_hidden_pre.sum(axis=0)
    d_w1 = x.T @ d_hidden_pre  # of models.py:36
    return out, {"w1": d_w1, "b1": d_b1, "w2": d_w2, "b2": d_b2}
