"""Hessian of `broadcast_mix` (models.py:75).  Needs NumPy only."""

import numpy as np


def broadcast_mix_hessian(x, scale, shift, temperature):
    m = x.shape[1]
    n = x.shape[0]
    reshape = np.eye(m * n).reshape(m * n, n, m)  # models.py:78
    z = (scale * x + shift) / temperature
    t_z = scale / temperature * reshape  # models.py:77
    exp = np.exp(-z)  # models.py:78
    d_z_pre = -exp / temperature
    ratio = t_z * exp / temperature  # models.py:77
    hessian = scale * ratio.reshape(n, m, n, m)
    hessian_2 = np.sum(ratio * x + reshape * d_z_pre, axis=(1, 2)).reshape(n, m)
    hessian_3 = ratio.sum(axis=1).T.reshape(m, n, m)
    # models.py:78
    hessian_4 = -np.sum(ratio * z + t_z * d_z_pre, axis=(1, 2)).reshape(n, m)
    t_z_2 = x / temperature
    ratio_2 = t_z_2 * exp / temperature
    hessian_5 = -np.sum(ratio_2 * z + t_z_2 * d_z_pre)
    hessian_6 = ratio_2.sum(axis=0)
    hessian_7 = scale * ratio_2 + d_z_pre
    hessian_8 = 6.0 + np.sum(ratio_2 * x)
    ratio_3 = np.eye(m)[:, None] / temperature
    ratio_4 = ratio_3 * exp / temperature
    hessian_9 = -np.sum(ratio_4 * z + ratio_3 * d_z_pre, axis=(1, 2))
    hessian_10 = ratio_4.sum(axis=1)
    hessian_11 = np.sum(ratio_4 * x, axis=(1, 2))  # models.py:77
    hessian_12 = scale * ratio_4.transpose(1, 2, 0)  # models.py:78
    t_z_3 = -z / temperature
    ratio_5 = (t_z_3 * exp - d_z_pre) / temperature
    hessian_13 = -np.sum(ratio_5 * z + t_z_3 * d_z_pre)
    hessian_14 = ratio_5.sum(axis=0)
    hessian_15 = scale * ratio_5
    hessian_16 = np.sum(ratio_5 * x)  # models.py:77
    return (
        (hessian, hessian_7, hessian_12, hessian_15),
        (hessian_2, hessian_8, hessian_11, hessian_16),
        (hessian_3, hessian_6, hessian_10, hessian_14),
        (hessian_4, hessian_5, hessian_9, hessian_13),
    )
