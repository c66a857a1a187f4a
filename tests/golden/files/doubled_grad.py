"""Value and gradient of `doubled` (models.py:113) with respect to `x`.

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


def doubled(x):
    """The sum of a vector that is doubled until it is long."""
    check_arguments(x)
    y = x
    while np.linalg.norm(y) < 1000.0:  # models.py:116
        y = y * 2.0  # models.py:117
    return np.sum(y)


def doubled_vjp(x):
    """Value and pullback of `doubled` (models.py:113) with respect to `x`."""
    check_arguments(x)
    # forward
    y = x
    turns = 0
    while np.linalg.norm(y) < 1000.0:  # models.py:116
        y = y * 2.0  # models.py:117
        turns += 1  # models.py:116
    out = np.sum(y)  # models.py:118

    def pullback(d_out):
        d_y = np.full_like(y, d_out)  # of models.py:118
        for _ in range(turns):  # of models.py:116
            d_y = 2.0 * d_y  # of models.py:117
        return (d_y.copy(),)

    return out, pullback


def doubled_value_and_grad(x):
    """Value and gradient of `doubled` (models.py:113) with respect to `x`."""
    check_arguments(x)
    # forward
    y = x
    turns = 0
    while np.linalg.norm(y) < 1000.0:  # models.py:116
        y = y * 2.0  # models.py:117
        turns += 1  # models.py:116
    out = np.sum(y)  # models.py:118
    # backward
    d_y = np.full_like(y, 1.0)  # of models.py:118
    for _ in range(turns):  # of models.py:116
        d_y = 2.0 * d_y  # of models.py:117
    return out, d_y.copy()
