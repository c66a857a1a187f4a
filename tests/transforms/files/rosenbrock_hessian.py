"""Hessian of `rosenbrock` (models.py:42).  Needs NumPy only."""

import numpy as np


def rosenbrock_hessian(x):
    n = x.shape[0]
    # forward
    eye = np.eye(n)
    product = 2.0 * x[:-1]  # models.py:44
    # backward
    d_product = 200.0 * (eye[:, 1:] - eye[:, :-1] * product)
    hessian = np.zeros((n, n))
    hessian[:, 1:] = d_product
    d_diff = -400.0 * eye[:, :-1] * (x[1:] - x[:-1] ** 2) - d_product * product
    hessian[:, :-1] += d_diff + 2.0 * eye[:, :-1]  # of models.py:44
    return hessian
