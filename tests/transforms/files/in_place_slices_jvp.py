"""Value and tangent of `in_place_slices` (models.py:66).  Needs NumPy only."""

import numpy as np


def in_place_slices_jvp(x, t_x):
    out = np.zeros(x.shape[0])  # models.py:68
    out[1:] = x[1:] * x[:-1]
    t_out = np.zeros_like(out)
    t_out[1:] = t_x[1:] * x[:-1] + t_x[:-1] * x[1:]  # models.py:69
    out[:-1] += np.sin(x[1:])
    t_out[:-1] += t_x[1:] * np.cos(x[1:])  # models.py:70
    out[0] = 2.0 * x[-1]
    t_out[0] = 2.0 * t_x[-1]  # models.py:71
    result = np.sum(out**2)
    t_result = 2.0 * (t_out @ out)  # models.py:72
    return result, t_result
