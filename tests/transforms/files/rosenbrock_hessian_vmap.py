"""`rosenbrock_hessian` (models.py:42) of each example of a batch.  Needs NumPy only."""

import numpy as np


def rosenbrock_hessian_vmap(x):
    m = x.shape[1]
    # forward
    eye = np.eye(m)
    product = 2.0 * x[:, :-1][:, None]  # models.py:44
    # backward
    d_product = 200.0 * (eye[:, 1:] - eye[:, :-1] * product)
    hessian = np.zeros((x.shape[0], m, m))
    hessian[:, :, 1:] = d_product
    d_product_2 = -400.0 * eye[:, :-1] * (x[:, 1:] - x[:, :-1] ** 2)[:, None]
    # of models.py:44
    hessian[:, :, :-1] += d_product_2 - d_product * product + 2.0 * eye[:, :-1]
    return hessian
