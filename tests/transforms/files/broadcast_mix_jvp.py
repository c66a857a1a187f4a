"""Value and tangent of `broadcast_mix` (models.py:75).  Needs NumPy only."""

import numpy as np


def broadcast_mix_jvp(
    x, scale, shift, temperature, t_x, t_scale, t_shift, t_temperature
):
    z = (scale * x + shift) / temperature
    # models.py:77
    t_z = (t_scale * x + scale * t_x + t_shift - t_temperature * z) / temperature
    exp = np.exp(-z)
    out = np.sum(exp) + 3 * scale**2
    t_out = 6.0 * t_scale * scale - np.sum(t_z * exp)  # models.py:78
    return out, t_out
