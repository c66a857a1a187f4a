"""`linear_regression` (models.py:15) of each example of a batch.  Needs NumPy only."""

import numpy as np


def linear_regression_vmap(w, b, x, y):
    residual = w @ x.T + b[:, None] - y  # models.py:17
    mean = np.mean(residual**2, axis=1)  # models.py:18
    return mean
