"""Hessian of `in_place_slices` (models.py:66).  Needs NumPy only."""

import numpy as np


def in_place_slices_hessian(x):
    n = x.shape[0]
    # forward
    eye = np.eye(n)  # models.py:72
    out = np.zeros(n)  # models.py:68
    out[1:] = x[1:] * x[:-1]
    t_out = np.zeros((n, n))
    t_out[:, 1:] = eye[:, 1:] * x[:-1] + eye[:, :-1] * x[1:]  # models.py:69
    sin = np.sin(x[1:])
    cos = np.cos(x[1:])
    out[:-1] += sin
    t_out[:, :-1] += eye[:, 1:] * cos  # models.py:70
    out[0] = 2.0 * x[-1]
    t_out[:, 0] = 2.0 * eye[:, -1]  # models.py:71
    # backward
    d_out = 2.0 * out
    t_d_out = 2.0 * t_out  # of models.py:72
    d_out[0] = 0.0
    t_d_out_2 = t_d_out.copy()
    t_d_out_2[:, 0] = 0.0  # of models.py:71
    hessian = np.zeros((n, n))
    hessian[:, 1:] = t_d_out_2[:, 1:] * x[:-1] + eye[:, :-1] * d_out[1:]
    # of models.py:69
    hessian[:, :-1] += t_d_out_2[:, 1:] * x[1:] + eye[:, 1:] * d_out[1:]
    # of models.py:70
    hessian[:, 1:] += t_d_out_2[:, :-1] * cos - eye[:, 1:] * sin * d_out[:-1]
    hessian[:, -1] += 2.0 * t_d_out[:, 0]  # of models.py:71
    return hessian
