"""Hessian of `in_place_slices` (models.py:66).  Needs NumPy only."""

import numpy as np


def in_place_slices_hessian(x):
    n = x.shape[0]
    # forward
    eye = np.eye(n)  # models.py:72
    out = np.zeros(n)  # models.py:68
    out[1:] = x[1:] * x[:-1]
    zeros = np.zeros((n, n))
    zeros[:, 1:] = eye[:, 1:] * x[:-1] + eye[:, :-1] * x[1:]  # models.py:69
    sin = np.sin(x[1:])
    cos = np.cos(x[1:])
    out[:-1] += sin
    zeros[:, :-1] += eye[:, 1:] * cos  # models.py:70
    out[0] = 2.0 * x[-1]
    zeros[:, 0] = 2.0 * eye[:, -1]  # models.py:71
    # backward
    d_out = 2.0 * out
    t_d_out = 2.0 * zeros  # of models.py:72
    d_out[0] = 0.0
    t_d_out_2 = t_d_out.copy()
    t_d_out_2[:, 0] = 0.0  # of models.py:71
    d_zeros = np.zeros((n, n))
    d_zeros[:, 1:] = t_d_out_2[:, 1:] * x[:-1] + eye[:, :-1] * d_out[1:]
    # of models.py:69
    d_zeros[:, :-1] += t_d_out_2[:, 1:] * x[1:] + eye[:, 1:] * d_out[1:]
    # of models.py:70
    d_zeros[:, 1:] += t_d_out_2[:, :-1] * cos - eye[:, 1:] * sin * d_out[:-1]
    d_zeros[:, -1] += 2.0 * t_d_out[:, 0]  # of models.py:71
    return d_zeros
