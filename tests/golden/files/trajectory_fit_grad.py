"""Value and gradient of `trajectory_fit` (models.py:171) with respect to `rates` and
`u`.

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


def check_arguments(rates, u, observed):
    """Raise ValueError for arguments that the gradient was not derived for."""
    check_arrays("float rates[n, n]; float u[n]; observed[60, n]", rates, u, observed)


def trajectory_fit(rates, u, observed):
    """Mean squared distance of a course, kept in a list, from what was observed."""
    check_arguments(rates, u, observed)
    us = []
    for _ in range(60):  # models.py:174
        u = u + 0.05 * np.tanh(rates @ u)  # models.py:175
        us.append(u)  # models.py:174
    return np.mean((np.stack(us) - observed) ** 2)


def trajectory_fit_vjp(rates, u, observed):
    """Value and pullback of `trajectory_fit` (models.py:171) with respect to `rates`
    and `u`.
    """
    check_arguments(rates, u, observed)
    # forward
    tanhs = []
    us = [u]
    for _ in range(60):  # models.py:174
        tanh = np.tanh(rates @ u)  # models.py:175
        tanhs.append(tanh)
        u = u + 0.05 * tanh  # models.py:175
        us.append(u)  # models.py:174
    diff = np.stack(us[1:]) - observed
    out = np.mean(diff**2)  # models.py:177

    def pullback(d_out):
        d_diff = 2.0 * d_out / diff.size * diff  # of models.py:177
        d_u = np.zeros_like(u)
        d_rates = np.zeros_like(rates)
        for t in reversed(range(60)):  # of models.py:174
            tanh = tanhs[t]
            d_u = d_u + d_diff[t]
            d_product = 0.05 * d_u * (1.0 - tanh * tanh)
            d_rates += d_product[:, None] * us[t]
            d_u = d_u + rates.T @ d_product  # of models.py:175
        return d_rates, d_u

    return out, pullback


def trajectory_fit_value_and_grad(rates, u, observed):
    """Value and gradient of `trajectory_fit` (models.py:171) with respect to `rates`
    and `u`.
    """
    check_arguments(rates, u, observed)
    # forward
    tanhs = []
    us = [u]
    for _ in range(60):  # models.py:174
        tanh = np.tanh(rates @ u)  # models.py:175
        tanhs.append(tanh)
        u = u + 0.05 * tanh  # models.py:175
        us.append(u)  # models.py:174
    diff = np.stack(us[1:]) - observed
    out = np.mean(diff**2)  # models.py:177
    # backward
    d_diff = 2.0 / diff.size * diff  # of models.py:177
    d_u = np.zeros_like(u)
    d_rates = np.zeros_like(rates)
    for t in reversed(range(60)):  # of models.py:174
        tanh = tanhs[t]
        d_u = d_u + d_diff[t]
        d_product = 0.05 * d_u * (1.0 - tanh * tanh)
        d_rates += d_product[:, None] * us[t]
        d_u = d_u + rates.T @ d_product  # of models.py:175
    return out, (d_rates, d_u)
