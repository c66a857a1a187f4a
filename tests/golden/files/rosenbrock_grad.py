"""Value and gradient of `rosenbrock` (models.py:42) with respect to `x`.

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


def check_arguments(x):
    """Raise ValueError for arguments that the gradient was not derived for."""
    check_arrays("float x[n]", x)


def rosenbrock(x):
    """Rosenbrock's banana function in any number of dimensions."""
    check_arguments(x)
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def rosenbrock_vjp(x):
    """Value and pullback of `rosenbrock` (models.py:42) with respect to `x`."""
    check_arguments(x)
    # forward
    diff = x[1:] - x[:-1] ** 2
    diff_2 = 1.0 - x[:-1]
    out = np.sum(100.0 * diff**2 + diff_2**2)  # models.py:44

    def pullback(d_out):
        d_diff = 200.0 * d_out * diff
        d_x = np.zeros_like(x)
        d_x[1:] = d_diff
        d_x[:-1] -= 2.0 * d_diff * x[:-1] + 2.0 * d_out * diff_2  # of models.py:44
        return (d_x,)

    return out, pullback


def rosenbrock_value_and_grad(x):
    """Value and gradient of `rosenbrock` (models.py:42) with respect to `x`."""
    check_arguments(x)
    # forward
    diff = x[1:] - x[:-1] ** 2
    diff_2 = 1.0 - x[:-1]
    out = np.sum(100.0 * diff**2 + diff_2**2)  # models.py:44
    # backward
    d_diff = 200.0 * diff
    d_x = np.zeros_like(x)
    d_x[1:] = d_diff
    d_x[:-1] -= 2.0 * diff_2 + 2.0 * d_diff * x[:-1]  # of models.py:44
    return out, d_x
