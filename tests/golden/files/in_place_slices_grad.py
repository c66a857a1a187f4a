"""Value and gradient of `in_place_slices` (models.py:66) with respect to `x`.

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


def in_place_slices(x):
    """An array filled piece by piece: a store, an update and an overwrite."""
    check_arguments(x)
    out = np.zeros(x.shape[0])  # models.py:68
    out[1:] = x[1:] * x[:-1]  # models.py:69
    out[:-1] += np.sin(x[1:])  # models.py:70
    out[0] = 2.0 * x[-1]  # models.py:71
    return np.sum(out**2)


def in_place_slices_vjp(x):
    """Value and pullback of `in_place_slices` (models.py:66) with respect to `x`."""
    check_arguments(x)
    # forward
    out = np.zeros(x.shape[0])  # models.py:68
    out[1:] = x[1:] * x[:-1]  # models.py:69
    out[:-1] += np.sin(x[1:])  # models.py:70
    out[0] = 2.0 * x[-1]  # models.py:71
    result = np.sum(out**2)  # models.py:72

    def pullback(d_result):
        d_out = 2.0 * d_result * out  # of models.py:72
        d_stored = d_out[0]
        d_out[0] = 0.0  # of models.py:71
        d_x = np.zeros_like(x)
        d_x[1:] = d_out[1:] * x[:-1]
        d_x[:-1] += d_out[1:] * x[1:]  # of models.py:69
        d_x[1:] += d_out[:-1] * np.cos(x[1:])  # of models.py:70
        d_x[-1] += 2.0 * d_stored  # of models.py:71
        return (d_x,)

    return result, pullback


def in_place_slices_value_and_grad(x):
    """Value and gradient of `in_place_slices` (models.py:66) with respect to `x`."""
    check_arguments(x)
    # forward
    out = np.zeros(x.shape[0])  # models.py:68
    out[1:] = x[1:] * x[:-1]  # models.py:69
    out[:-1] += np.sin(x[1:])  # models.py:70
    out[0] = 2.0 * x[-1]  # models.py:71
    result = np.sum(out**2)  # models.py:72
    # backward
    d_out = 2.0 * out  # of models.py:72
    d_stored = d_out[0]
    d_out[0] = 0.0  # of models.py:71
    d_x = np.zeros_like(x)
    d_x[1:] = d_out[1:] * x[:-1]
    d_x[:-1] += d_out[1:] * x[1:]  # of models.py:69
    d_x[1:] += d_out[:-1] * np.cos(x[1:])  # of models.py:70
    d_x[-1] += 2.0 * d_stored  # of models.py:71
    return result, d_x
