"""Hessian of `logistic_regression` (models.py:21).  Needs NumPy only."""

import numpy as np


def logistic_regression_hessian(w, x, y, strength):
    # forward
    margin = y * (x @ w)
    t_margin = x.T * y  # models.py:23
    minus_margin = -margin
    exp = np.exp(minus_margin - np.logaddexp(0.0, minus_margin))  # models.py:24
    # backward
    hessian = strength * np.eye(w.shape[0])  # of models.py:24
    # of models.py:23
    hessian += t_margin * (1.0 - exp) * exp * y / minus_margin.size @ x
    return hessian
