"""Value and gradient of `heat_rod` (models.py:180) with respect to `conductivity` and
`start`.

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


def check_arguments(conductivity, start):
    """Raise ValueError for arguments that the gradient was not derived for."""
    check_arrays("conductivity[]; float start[12]", conductivity, start)


def heat_rod(conductivity, start):
    """Heat left at the end of a rod whose ends are cold: a row for each step."""
    check_arguments(conductivity, start)
    u = np.zeros((41, 12))  # models.py:182
    u[0] = start  # models.py:183
    for t in range(40):  # models.py:184
        part = u[t, 1:-1]
        bend = u[t, 2:] - 2.0 * part + u[t, :-2]  # models.py:185
        u[t + 1, 1:-1] = part + conductivity * bend  # models.py:186
    return np.sum(u[-1] ** 2)


def heat_rod_vjp(conductivity, start):
    """Value and pullback of `heat_rod` (models.py:180) with respect to
    `conductivity` and `start`.
    """
    check_arguments(conductivity, start)
    # forward
    u = np.zeros((41, 12))  # models.py:182
    u[0] = start  # models.py:183
    bends = []
    for t in range(40):  # models.py:184
        part = u[t, 1:-1]
        bend = u[t, 2:] - 2.0 * part + u[t, :-2]  # models.py:185
        bends.append(bend)
        u[t + 1, 1:-1] = part + conductivity * bend  # models.py:186
    out = np.sum(u[-1] ** 2)  # models.py:187

    def pullback(d_out):
        d_u = np.zeros_like(u)
        d_u[-1] = 2.0 * d_out * u[-1]  # of models.py:187
        d_conductivity = 0.0
        for t in reversed(range(40)):  # of models.py:184
            bend = bends[t]
            d_part = d_u[t + 1, 1:-1].copy()
            d_u[t + 1, 1:-1] = 0.0
            d_bend = conductivity * d_part
            d_conductivity += d_part @ bend  # of models.py:186
            d_u[t, 2:] += d_bend
            d_u[t, 1:-1] -= 2.0 * d_bend
            d_u[t, :-2] += d_bend  # of models.py:185
            d_u[t, 1:-1] += d_part  # of models.py:186
        d_start = d_u[0]  # of models.py:183
        return d_conductivity, d_start.copy()

    return out, pullback


def heat_rod_value_and_grad(conductivity, start):
    """Value and gradient of `heat_rod` (models.py:180) with respect to
    `conductivity` and `start`.
    """
    check_arguments(conductivity, start)
    # forward
    u = np.zeros((41, 12))  # models.py:182
    u[0] = start  # models.py:183
    bends = []
    for t in range(40):  # models.py:184
        part = u[t, 1:-1]
        bend = u[t, 2:] - 2.0 * part + u[t, :-2]  # models.py:185
        bends.append(bend)
        u[t + 1, 1:-1] = part + conductivity * bend  # models.py:186
    out = np.sum(u[-1] ** 2)  # models.py:187
    # backward
    d_u = np.zeros_like(u)
    d_u[-1] = 2.0 * u[-1]  # of models.py:187
    d_conductivity = 0.0
    for t in reversed(range(40)):  # of models.py:184
        bend = bends[t]
        d_part = d_u[t + 1, 1:-1].copy()
        d_u[t + 1, 1:-1] = 0.0
        d_bend = conductivity * d_part
        d_conductivity += d_part @ bend  # of models.py:186
        d_u[t, 2:] += d_bend
        d_u[t, 1:-1] -= 2.0 * d_bend
        d_u[t, :-2] += d_bend  # of models.py:185
        d_u[t, 1:-1] += d_part  # of models.py:186
    d_start = d_u[0]  # of models.py:183
    return out, (d_conductivity, d_start.copy())
