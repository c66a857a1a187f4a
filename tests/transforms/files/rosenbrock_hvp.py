"""Hessian of `rosenbrock` (models.py:42) times a vector.  Needs NumPy only."""

import numpy as np


def rosenbrock_hvp(x, t_x):
    # forward
    product = 2.0 * x[:-1]  # models.py:44
    # backward
    d_product = 200.0 * (t_x[1:] - t_x[:-1] * product)
    t_d_x = np.zeros_like(x)
    t_d_x[1:] = d_product
    d_diff = -400.0 * t_x[:-1] * (x[1:] - x[:-1] ** 2) - d_product * product
    t_d_x[:-1] += d_diff + 2.0 * t_x[:-1]  # of models.py:44
    return t_d_x
