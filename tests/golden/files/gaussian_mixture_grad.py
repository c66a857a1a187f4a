"""Value and gradient of `gaussian_mixture` (models.py:56) with respect to `logits`,
`means` and `log_scales`.

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


def check_arguments(logits, means, log_scales, x):
    """Raise ValueError for arguments that the gradient was not derived for."""
    check_arrays(
        "float logits[n]; float means[n, m]; float log_scales[n, m]; x[k, m]",
        logits,
        means,
        log_scales,
        x,
    )


def gaussian_mixture(logits, means, log_scales, x):
    """Log likelihood of a mixture of Gaussians with diagonal covariances."""
    check_arguments(logits, means, log_scales, x)
    z = (x[:, None, :] - means) / np.exp(log_scales)  # models.py:59
    # models.py:60
    log_density = -0.5 * np.sum(z**2, axis=2) - np.sum(log_scales, axis=1)
    log_weights = logits - logsumexp(logits)  # models.py:61
    # models.py:62
    constant = 0.5 * x.shape[0] * means.shape[1] * np.log(6.283185307179586)
    return np.sum(logsumexp(log_weights + log_density, axis=1)) - constant


def gaussian_mixture_vjp(logits, means, log_scales, x):
    """Value and pullback of `gaussian_mixture` (models.py:56) with respect to
    `logits`, `means` and `log_scales`.
    """
    check_arguments(logits, means, log_scales, x)
    # forward
    exp_log_scales = np.exp(log_scales)
    z = (x[:, None, :] - means) / exp_log_scales  # models.py:59
    # models.py:60
    log_density = -0.5 * np.sum(z**2, axis=2) - np.sum(log_scales, axis=1)
    total_logits, softmax = logsumexp_and_softmax(logits)
    log_weights = logits - total_logits  # models.py:61
    # models.py:62
    constant = 0.5 * x.shape[0] * means.shape[1] * np.log(6.283185307179586)
    total, softmax_2 = logsumexp_and_softmax(log_weights + log_density, axis=1)
    out = np.sum(total) - constant  # models.py:63

    def pullback(d_out):
        d_total_pre = d_out * softmax_2
        d_log_weights = d_total_pre.sum(axis=0)  # of models.py:63
        d_logits = d_log_weights - d_log_weights.sum() * softmax  # of models.py:61
        d_z_pre = -d_total_pre[..., None] * z / exp_log_scales
        d_product = np.sum(d_z_pre * z, axis=0) * exp_log_scales
        d_log_scales = -d_log_weights[:, None] - d_product
        d_means = -d_z_pre.sum(axis=0)  # of models.py:59
        return d_logits, d_means, d_log_scales

    return out, pullback


def gaussian_mixture_value_and_grad(logits, means, log_scales, x):
    """Value and gradient of `gaussian_mixture` (models.py:56) with respect to
    `logits`, `means` and `log_scales`.
    """
    check_arguments(logits, means, log_scales, x)
    # forward
    exp_log_scales = np.exp(log_scales)
    z = (x[:, None, :] - means) / exp_log_scales  # models.py:59
    # models.py:60
    log_density = -0.5 * np.sum(z**2, axis=2) - np.sum(log_scales, axis=1)
    total_logits, softmax = logsumexp_and_softmax(logits)
    log_weights = logits - total_logits  # models.py:61
    # models.py:62
    constant = 0.5 * x.shape[0] * means.shape[1] * np.log(6.283185307179586)
    total, softmax_2 = logsumexp_and_softmax(log_weights + log_density, axis=1)
    out = np.sum(total) - constant  # models.py:63
    # backward
    d_log_weights = softmax_2.sum(axis=0)  # of models.py:63
    d_logits = d_log_weights - d_log_weights.sum() * softmax  # of models.py:61
    d_z_pre = -softmax_2[..., None] * z / exp_log_scales
    d_product = np.sum(d_z_pre * z, axis=0) * exp_log_scales
    d_log_scales = -d_log_weights[:, None] - d_product
    d_means = -d_z_pre.sum(axis=0)  # of models.py:59
    return out, (d_logits, d_means, d_log_scales)
