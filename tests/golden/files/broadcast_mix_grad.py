"""Value and gradient of `broadcast_mix` (models.py:75) with respect to `x`, `scale`,
`shift` and `temperature`.

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


def check_arguments(x, scale, shift, temperature):
    """Raise ValueError for arguments that the gradient was not derived for."""
    check_arrays(
        "float x[n, m]; float scale[]; float shift[m]; temperature[]",
        x,
        scale,
        shift,
        temperature,
    )


def broadcast_mix(x, scale, shift, temperature):
    """A matrix, a 0-d array, a row and a Python number in one expression."""
    check_arguments(x, scale, shift, temperature)
    z = (scale * x + shift) / temperature  # models.py:77
    return np.sum(np.exp(-z)) + 3 * scale**2


def broadcast_mix_vjp(x, scale, shift, temperature):
    """Value and pullback of `broadcast_mix` (models.py:75) with respect to `x`,
    `scale`, `shift` and `temperature`.
    """
    check_arguments(x, scale, shift, temperature)
    # forward
    z = (scale * x + shift) / temperature  # models.py:77
    exp = np.exp(-z)
    out = np.sum(exp) + 3 * scale**2  # models.py:78

    def pullback(d_out):
        d_z_pre = -d_out / temperature * exp
        d_temperature = -np.sum(d_z_pre * z)
        d_shift = d_z_pre.sum(axis=0)
        d_x = scale * d_z_pre
        d_scale = 6.0 * d_out * scale + np.sum(d_z_pre * x)  # of models.py:77
        return d_x, d_scale, d_shift, d_temperature

    return out, pullback


def broadcast_mix_value_and_grad(x, scale, shift, temperature):
    """Value and gradient of `broadcast_mix` (models.py:75) with respect to `x`,
    `scale`, `shift` and `temperature`.
    """
    check_arguments(x, scale, shift, temperature)
    # forward
    z = (scale * x + shift) / temperature  # models.py:77
    exp = np.exp(-z)
    out = np.sum(exp) + 3 * scale**2  # models.py:78
    # backward
    d_z_pre = -exp / temperature
    d_temperature = -np.sum(d_z_pre * z)
    d_shift = d_z_pre.sum(axis=0)
    d_x = scale * d_z_pre
    d_scale = 6.0 * scale + np.sum(d_z_pre * x)  # of models.py:77
    return out, (d_x, d_scale, d_shift, d_temperature)
