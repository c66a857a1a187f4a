"""Value and tangent of `rosenbrock` (models.py:42).  Needs NumPy only."""

import numpy as np


def rosenbrock_jvp(x, t_x):
    diff = x[1:] - x[:-1] ** 2
    diff_2 = 1.0 - x[:-1]
    out = np.sum(100.0 * diff**2 + diff_2**2)
    t_out_pre = 200.0 * (t_x[1:] - 2.0 * t_x[:-1] * x[:-1]) * diff
    t_out = np.sum(t_out_pre - 2.0 * t_x[:-1] * diff_2)  # models.py:44
    return out, t_out
