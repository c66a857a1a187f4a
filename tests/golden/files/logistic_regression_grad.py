"""Value and gradient of `logistic_regression` (models.py:21) with respect to `w`.

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


def check_arguments(w, x, y, strength):
    """Raise ValueError for arguments that the gradient was not derived for."""
    check_arrays("float w[n]; x[m, n]; y[m]; strength[]", w, x, y, strength)


def logistic_regression(w, x, y, strength):
    """Mean log loss for labels of -1 and 1, with a ridge penalty."""
    check_arguments(w, x, y, strength)
    margin = y * (x @ w)  # models.py:23
    return np.mean(np.logaddexp(0.0, -margin)) + 0.5 * strength * np.sum(w**2)


def logistic_regression_vjp(w, x, y, strength):
    """Value and pullback of `logistic_regression` (models.py:21) with respect to
    `w`.
    """
    check_arguments(w, x, y, strength)
    # forward
    margin = y * (x @ w)  # models.py:23
    minus_margin = -margin
    logaddexp = np.logaddexp(0.0, minus_margin)
    out = np.mean(logaddexp) + 0.5 * strength * np.sum(w**2)  # models.py:24

    def pullback(d_out):
        d_w = 2.0 * d_out * 0.5 * strength * w  # of models.py:24
        # of models.py:23
        d_w -= x.T @ (d_out / logaddexp.size * np.exp(minus_margin - logaddexp) * y)
        return (d_w,)

    return out, pullback


def logistic_regression_value_and_grad(w, x, y, strength):
    """Value and gradient of `logistic_regression` (models.py:21) with respect to
    `w`.
    """
    check_arguments(w, x, y, strength)
    # forward
    margin = y * (x @ w)  # models.py:23
    minus_margin = -margin
    logaddexp = np.logaddexp(0.0, minus_margin)
    out = np.mean(logaddexp) + 0.5 * strength * np.sum(w**2)  # models.py:24
    # backward
    # of models.py:23
    d_w = strength * w - x.T @ (np.exp(minus_margin - logaddexp) * y / logaddexp.size)
    return out, d_w
