"""Hessian of `linear_regression` (models.py:15).  Needs NumPy only."""

import numpy as np


def linear_regression_hessian(w, b, x, y):
    matmul = x @ w  # models.py:17
    ratio = 2.0 / matmul.size
    t_d_residual = ratio * x.T  # models.py:18
    hessian = t_d_residual.sum(axis=1)
    hessian_2 = t_d_residual @ x  # models.py:17
    t_d_residual_2 = np.full(x.shape[0], ratio)  # models.py:18
    hessian_3 = t_d_residual_2.sum()
    hessian_4 = x.T @ t_d_residual_2  # models.py:17
    return (hessian_2, hessian_4), (hessian, hessian_3)
