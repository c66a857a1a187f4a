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
    products = []
    steps = [step]
    xs = [x]
    while np.abs(step) > 1e-12:  # models.py:107
        product = 3.0 * x**2
        step = (x**3 - a) / product  # models.py:108
        x = x - step  # models.py:109
        products.append(product)
        steps.append(step)
        xs.append(x)  # models.py:107

    def pullback(d_out):
        d_x = d_out
        d_a = 0.0
        for t in reversed(range(len(xs) - 1)):  # of models.py:107
            x_2 = xs[t]  # of models.py:107
            d_minus = -d_x / products[t]
            d_a -= d_minus
            # of models.py:108
            d_x = d_x - 6.0 * d_minus * steps[t + 1] * x_2 + 3.0 * d_minus * x_2**2
        return (d_a,)

    return x, pullback


def cube_root_value_and_grad(a, guess):
    """Value and gradient of `cube_root` (models.py:103) with respect to `a`."""
    # forward
    step = 1.0
    x = guess
    products = []
    steps = [step]
    xs = [x]
    while np.abs(step) > 1e-12:  # models.py:107
        product = 3.0 * x**2
        step = (x**3 - a) / product  # models.py:108
        x = x - step  # models.py:109
        products.append(product)
        steps.append(step)
        xs.append(x)  # models.py:107
    # backward
    d_x = 1.0
    d_a = 0.0
    for t in reversed(range(len(xs) - 1)):  # of models.py:107
        x_2 = xs[t]  # of models.py:107
        d_minus = -d_x / products[t]
        d_a -= d_minus
        # of models.py:108
        d_x = d_x - 6.0 * d_minus * steps[t + 1] * x_2 + 3.0 * d_minus * x_2**2
    return x, d_a
