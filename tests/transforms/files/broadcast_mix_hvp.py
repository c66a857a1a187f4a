"""Hessian of `broadcast_mix` (models.py:75) times a vector.  Needs NumPy only."""

import numpy as np


def broadcast_mix_hvp(
    x, scale, shift, temperature, t_x, t_scale, t_shift, t_temperature
):
    # forward
    z = (scale * x + shift) / temperature
    # models.py:77
    t_z = (t_scale * x + scale * t_x + t_shift - t_temperature * z) / temperature
    exp = np.exp(-z)  # models.py:78
    # backward
    d_z_pre = -exp / temperature
    d_ratio = (t_z * exp - t_temperature * d_z_pre) / temperature
    t_d_temperature = -np.sum(d_ratio * z + t_z * d_z_pre)
    t_d_shift = d_ratio.sum(axis=0)
    t_d_x = scale * d_ratio + t_scale * d_z_pre
    t_d_scale = 6.0 * t_scale + np.sum(d_ratio * x + t_x * d_z_pre)  # of models.py:77
    return t_d_x, t_d_scale, t_d_shift, t_d_temperature
