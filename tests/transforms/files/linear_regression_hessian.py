"""Hessian of `linear_regression` (models.py:15).  Needs NumPy only."""

import numpy as np


def linear_regression_hessian(w, b, x, y):
    t_d_residual = 2.0 / x.shape[0] * x.T  # models.py:18
    hessian_w_b = t_d_residual.sum(axis=1)
    hessian_w_w = t_d_residual @ x  # models.py:17
    return (hessian_w_w, hessian_w_b), (hessian_w_b.copy(), 2.0)
