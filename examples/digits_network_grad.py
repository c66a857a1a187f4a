"""Value and gradient of `network` (digits.py:69) with respect to `params`.

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


def check_arguments(params, x, labels):
    """Raise ValueError for arguments that the gradient was not derived for."""
    if [*params] != ["w1", "b1", "w2", "b2"]:
        raise ValueError('derived for [*params] == ["w1", "b1", "w2", "b2"]')
    check_arrays(
        "float params['w1'][n, m]; float params['b1'][m]; float params['w2'][m, k]; float params['b2'][k]; x[p, n]; labels[p]",
        params["w1"],
        params["b1"],
        params["w2"],
        params["b2"],
        x,
        labels,
    )


def network(params, x, labels):
    """Mean cross entropy of a network with one hidden layer, with weight decay."""
    check_arguments(params, x, labels)
    hidden = np.tanh(x @ params["w1"] + params["b1"])  # digits.py:71
    logits = hidden @ params["w2"] + params["b2"]  # digits.py:72
    log_probs = logits - logsumexp(logits, axis=1, keepdims=True)  # digits.py:73
    fit = -np.mean(log_probs[np.arange(x.shape[0]), labels])  # digits.py:74
    penalty = np.sum(params["w1"] ** 2) + np.sum(params["w2"] ** 2)  # digits.py:75
    return fit + 0.0005 * penalty


def network_vjp(params, x, labels):
    """Value and pullback of `network` (digits.py:69) with respect to `params`."""
    check_arguments(params, x, labels)
    w1 = params["w1"]
    w2 = params["w2"]
    # forward
    hidden = np.tanh(x @ w1 + params["b1"])  # digits.py:71
    logits = hidden @ w2 + params["b2"]  # digits.py:72
    total_logits, softmax = logsumexp_and_softmax(logits, axis=1, keepdims=True)
    log_probs = logits - total_logits  # digits.py:73
    arange = np.arange(x.shape[0])
    part = log_probs[arange, labels]
    fit = -np.mean(part)  # digits.py:74
    penalty = np.sum(w1**2) + np.sum(w2**2)  # digits.py:75
    out = fit + 0.0005 * penalty  # digits.py:76

    def pullback(d_out):
        d_minus = -d_out / part.size
        d_log_probs = np.zeros_like(log_probs)
        d_log_probs[arange, labels] = d_minus  # of digits.py:74
        d_logits = d_log_probs - d_minus * softmax  # of digits.py:73
        d_b2 = d_logits.sum(axis=0)
        d_hidden = d_logits @ w2.T
        d_w2 = 0.001 * d_out * w2 + hidden.T @ d_logits  # of digits.py:72
        d_hidden_pre = d_hidden * (1.0 - hidden * hidden)
        d_b1 = d_hidden_pre.sum(axis=0)
        d_w1 = 0.001 * d_out * w1 + x.T @ d_hidden_pre  # of digits.py:71
        return ({"w1": d_w1, "b1": d_b1, "w2": d_w2, "b2": d_b2},)

    return out, pullback


def network_value_and_grad(params, x, labels):
    """Value and gradient of `network` (digits.py:69) with respect to `params`."""
    check_arguments(params, x, labels)
    w1 = params["w1"]
    w2 = params["w2"]
    # forward
    hidden = np.tanh(x @ w1 + params["b1"])  # digits.py:71
    logits = hidden @ w2 + params["b2"]  # digits.py:72
    total_logits, softmax = logsumexp_and_softmax(logits, axis=1, keepdims=True)
    log_probs = logits - total_logits  # digits.py:73
    arange = np.arange(x.shape[0])
    part = log_probs[arange, labels]
    fit = -np.mean(part)  # digits.py:74
    penalty = np.sum(w1**2) + np.sum(w2**2)  # digits.py:75
    out = fit + 0.0005 * penalty  # digits.py:76
    # backward
    d_ratio = -1.0 / part.size
    d_log_probs = np.zeros_like(log_probs)
    d_log_probs[arange, labels] = d_ratio  # of digits.py:74
    d_logits = d_log_probs - d_ratio * softmax  # of digits.py:73
    d_b2 = d_logits.sum(axis=0)
    d_hidden = d_logits @ w2.T
    d_w2 = 0.001 * w2 + hidden.T @ d_logits  # of digits.py:72
    d_hidden_pre = d_hidden * (1.0 - hidden * hidden)
    d_b1 = d_hidden_pre.sum(axis=0)
    d_w1 = 0.001 * w1 + x.T @ d_hidden_pre  # of digits.py:71
    return out, {"w1": d_w1, "b1": d_b1, "w2": d_w2, "b2": d_b2}
