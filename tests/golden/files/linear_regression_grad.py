"""Value and gradient of `linear_regression` (models.py:15) with respect to `w` and `b`.

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


def check_arguments(w, b, x, y):
    """Raise ValueError for arguments that the gradient was not derived for."""
    check_arrays("float w[n]; b[]; x[m, n]; y[m]", w, b, x, y)


def linear_regression(w, b, x, y):
    """Mean squared error of a linear model."""
    check_arguments(w, b, x, y)
    residual = x @ w + b - y  # models.py:17
    return np.mean(residual**2)


def linear_regression_vjp(w, b, x, y):
    """Value and pullback of `linear_regression` (models.py:15) with respect to `w`
    and `b`.
    """
    check_arguments(w, b, x, y)
    # forward
    residual = x @ w + b - y  # models.py:17
    out = np.mean(residual**2)  # models.py:18

    def pullback(d_out):
        d_residual = 2.0 * d_out / residual.size * residual  # of models.py:18
        d_b = d_residual.sum()
        d_w = x.T @ d_residual  # of models.py:17
        return d_w, d_b

    return out, pullback


def linear_regression_value_and_grad(w, b, x, y):
    """Value and gradient of `linear_regression` (models.py:15) with respect to `w`
    and `b`.
    """
    check_arguments(w, b, x, y)
    # forward
    residual = x @ w + b - y  # models.py:17
    out = np.mean(residual**2)  # models.py:18
    # backward
    d_residual = 2.0 / residual.size * residual  # of models.py:18
    d_b = d_residual.sum()
    d_w = x.T @ d_residual  # of models.py:17
    return out, (d_w, d_b)
