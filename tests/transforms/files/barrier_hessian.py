"""Hessian of `barrier` (texts.py:57).  Needs NumPy only."""

import numpy as np


def barrier_hessian(x, c, a, b):
    # forward
    diff = b - a @ x  # texts.py:59
    # backward
    hessian = a.T / diff / diff @ a  # of texts.py:59
    return hessian
