"""Value and gradient of `tariff` (models.py:91) with respect to `use` and `price`.

Needs NumPy only.
"""

import numpy as np


def tariff(use, price):
    """What electricity costs: a surcharge on much, and a rebate on a high bill."""
    cost = price * use  # models.py:93
    if use > 100.0:  # models.py:94
        cost = cost + 0.1 * (use - 100.0) ** 2  # models.py:95
    if cost > 50.0:  # models.py:96
        rebate = 0.2 * (cost - 50.0)  # models.py:97
    else:
        rebate = 0.0  # models.py:96
    return cost - rebate


def tariff_vjp(use, price):
    """Value and pullback of `tariff` (models.py:91) with respect to `use` and
    `price`.
    """
    # forward
    cost = price * use  # models.py:93
    if use > 100.0:  # models.py:94
        cost = cost + 0.1 * (use - 100.0) ** 2  # models.py:95
    if cost > 50.0:  # models.py:96
        rebate = 0.2 * (cost - 50.0)  # models.py:97
    else:
        rebate = 0.0  # models.py:96
    out = cost - rebate  # models.py:100

    def pullback(d_out):
        d_rebate = -d_out  # of models.py:100
        if cost > 50.0:  # of models.py:96
            d_cost = 0.2 * d_rebate  # of models.py:97
        else:
            d_cost = 0.0  # of models.py:96
        d_cost = d_out + d_cost  # of models.py:96
        if use > 100.0:  # of models.py:94
            d_use = 0.2 * d_cost * (use - 100.0)  # of models.py:95
        else:
            d_use = 0.0  # of models.py:94
        d_price = d_cost * use
        d_use += d_cost * price  # of models.py:93
        return d_use, d_price

    return out, pullback


def tariff_value_and_grad(use, price):
    """Value and gradient of `tariff` (models.py:91) with respect to `use` and
    `price`.
    """
    # forward
    cost = price * use  # models.py:93
    if use > 100.0:  # models.py:94
        cost = cost + 0.1 * (use - 100.0) ** 2  # models.py:95
    if cost > 50.0:  # models.py:96
        rebate = 0.2 * (cost - 50.0)  # models.py:97
    else:
        rebate = 0.0  # models.py:96
    out = cost - rebate  # models.py:100
    # backward
    if cost > 50.0:  # of models.py:96
        d_cost = 0.2 * -1.0  # of models.py:97
    else:
        d_cost = 0.0  # of models.py:96
    d_cost = 1.0 + d_cost  # of models.py:96
    if use > 100.0:  # of models.py:94
        d_use = 0.2 * d_cost * (use - 100.0)  # of models.py:95
    else:
        d_use = 0.0  # of models.py:94
    d_price = d_cost * use
    d_use += d_cost * price  # of models.py:93
    return out, (d_use, d_price)
