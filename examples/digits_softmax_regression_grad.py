"""Value and gradient of `softmax_regression` (digits.py:60) with respect to `params`.

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
    if [*params] != ["w", "b"]:
        raise ValueError('derived for [*params] == ["w", "b"]')
    check_arrays(
        "float params['w'][n, m]; float params['b'][m]; x[k, n]; labels[k]",
        params["w"],
        params["b"],
        x,
        labels,
    )


def softmax_regression(params, x, labels):
    """Mean cross entropy of a linear classifier, with weight decay."""
    check_arguments(params, x, labels)
    logits = x @ params["w"] + params["b"]  # digits.py:62
    log_probs = logits - logsumexp(logits, axis=1, keepdims=True)  # digits.py:63
    fit = -np.mean(log_probs[np.arange(x.shape[0]), labels])  # digits.py:64
    return fit + 0.0005 * np.sum(params["w"] ** 2)


def softmax_regression_vjp(params, x, labels):
    """Value and pullback of `softmax_regression` (digits.py:60) with respect to
    `params`.
    """
    check_arguments(params, x, labels)
    w = params["w"]
    # forward
    logits = x @ w + params["b"]  # digits.py:62
    total_logits, softmax = logsumexp_and_softmax(logits, axis=1, keepdims=True)
    log_probs = logits - total_logits  # digits.py:63
    arange = np.arange(x.shape[0])
    part = log_probs[arange, labels]
    fit = -np.mean(part)  # digits.py:64
    out = fit + 0.0005 * np.sum(w**2)  # digits.py:65

    def pullback(d_out):
        d_minus = -d_out / part.size
        d_log_probs = np.zeros_like(log_probs)
        d_log_probs[arange, labels] = d_minus  # of digits.py:64
        d_logits = d_log_probs - d_minus * softmax  # of digits.py:63
        d_b = d_logits.sum(axis=0)
        d_w = 0.001 * d_out * w + x.T @ d_logits  # of digits.py:62
        return ({"w": d_w, "b": d_b},)

    return out, pullback


def softmax_regression_value_and_grad(params, x, labels):
    """Value and gradient of `softmax_regression` (digits.py:60) with respect to
    `params`.
    """
    check_arguments(params, x, labels)
    w = params["w"]
    # forward
    logits = x @ w + params["b"]  # digits.py:62
    total_logits, softmax = logsumexp_and_softmax(logits, axis=1, keepdims=True)
    log_probs = logits - total_logits  # digits.py:63
    arange = np.arange(x.shape[0])
    part = log_probs[arange, labels]
    fit = -np.mean(part)  # digits.py:64
    out = fit + 0.0005 * np.sum(w**2)  # digits.py:65
    # backward
    d_ratio = -1.0 / part.size
    d_log_probs = np.zeros_like(log_probs)
    d_log_probs[arange, labels] = d_ratio  # of digits.py:64
    d_logits = d_log_probs - d_ratio * softmax  # of digits.py:63
    d_b = d_logits.sum(axis=0)
    d_w = 0.001 * w + x.T @ d_logits  # of digits.py:62
    return out, {"w": d_w, "b": d_b}
