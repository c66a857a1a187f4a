"""Value and gradient of `cube_root` (models.py:103) with respect to `a`.

Needs NumPy only.
"""

import numpy as np


def cube_root(a, guess):
    """Newton's method, for as long as it moves."""
    step = 1.0
    x = guess
    while np.abs(step) > 1e-12:  # models.py:107
        step = (x**3 - a) / (3.0 * x**2)  # models.py:108
        x = x - step  # models.py:109
    return x


def cube_root_vjp(a, guess):
    """Value and pullback of `cube_root` (models.py:103) with respect to `a`."""
    # forward
    step = 1.0
    x = guess
    turns = []
    while np.abs(step) > 1e-12:  # models.py:107
        step = (x**3 - a) / (3.0 * x**2)  # models.py:108
        turns.append((x, step))
        x = x - step  # models.py:109

    def pullback(d_out):
        d_x = d_out
        d_a = 0.0
        for x, step in reversed(turns):  # of models.py:107
            d_ratio = d_x / (3.0 * x**2)
            d_a += d_ratio
            # of models.py:108
            d_x = d_x + 6.0 * d_ratio * step * x - 3.0 * d_ratio * x**2
        return (d_a,)

    return x, pullback


def cube_root_value_and_grad(a, guess):
    """Value and gradient of `cube_root` (models.py:103) with respect to `a`."""
    # forward
    step = 1.0
    x = guess
    turns = []
    while np.abs(step) > 1e-12:  # models.py:107
        step = (x**3 - a) / (3.0 * x**2)  # models.py:108
        turns.append((x, step))
        x = x - step  # models.py:109
    # backward
    d_x = 1.0
    d_a = 0.0
    for x_2, step in reversed(turns):  # of models.py:107
        d_ratio = d_x / (3.0 * x_2**2)
        d_a += d_ratio
        # of models.py:108
        d_x = d_x + 6.0 * d_ratio * step * x_2 - 3.0 * d_ratio * x_2**2
    return x, d_a
