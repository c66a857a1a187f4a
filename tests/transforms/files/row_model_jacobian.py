"""Jacobian of `_row_model` (texts.py:52).  Needs NumPy only."""

import numpy as np


def _row_model_jacobian(w, b, x):
    # forward
    tanh = np.tanh(x @ w + b)  # texts.py:54
    # backward
    d_b = 1.0 - tanh * tanh
    jacobian_w = d_b[:, None] * x  # of texts.py:54
    return jacobian_w, d_b
