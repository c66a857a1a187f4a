"""Hessian of `in_place_slices` (models.py:66) times a vector.  Needs NumPy only."""

import numpy as np


def in_place_slices_hvp(x, t_x):
    # forward
    out = np.zeros(x.shape[0])  # models.py:68
    out[1:] = x[1:] * x[:-1]
    t_out = np.zeros_like(out)
    t_out[1:] = t_x[1:] * x[:-1] + t_x[:-1] * x[1:]  # models.py:69
    sin = np.sin(x[1:])
    cos = np.cos(x[1:])
    out[:-1] += sin
    t_out[:-1] += t_x[1:] * cos  # models.py:70
    out[0] = 2.0 * x[-1]
    t_out[0] = 2.0 * t_x[-1]  # models.py:71
    # backward
    d_out = 2.0 * out
    t_d_out = 2.0 * t_out  # of models.py:72
    part_t_d_out = t_d_out[0]
    d_out[0] = 0.0
    t_d_out[0] = 0.0  # of models.py:71
    t_d_x = np.zeros_like(x)
    t_d_x[1:] = t_d_out[1:] * x[:-1] + t_x[:-1] * d_out[1:]
    t_d_x[:-1] += t_d_out[1:] * x[1:] + t_x[1:] * d_out[1:]  # of models.py:69
    t_d_x[1:] += t_d_out[:-1] * cos - t_x[1:] * sin * d_out[:-1]  # of models.py:70
    t_d_x[-1] += 2.0 * part_t_d_out  # of models.py:71
    return t_d_x
