"""Value and gradient of `pendulum` (models.py:121) with respect to `y`, `stiffness` and
`damping`.

Needs NumPy only.
"""

import numpy as np


def check_arrays(spec, *arrays):
    """Raise ValueError unless the arrays are what `spec` says: `float w[3, n]; x[n]`.

    Equal names stand for equal sizes of at least 2: an axis of size 1 would broadcast,
    and needs a gradient of its own.  So do complex numbers; and integers have none.
    """
    sizes = {}
    for part, array in zip(spec.split("; "), arrays, strict=True):
        wanted = [s for s in part[part.rindex("[") + 1 : -1].split(", ") if s]
        found, dtype = np.shape(array), np.asarray(array).dtype
        if len(found) != len(wanted):
            raise ValueError(f"{part} is needed, not an array of shape {found}")
        for text, size in zip(wanted, found, strict=True):
            number = int(text) if text.isdigit() else sizes.setdefault(text, size)
            if size != number or size < 2 and text.isidentifier():
                raise ValueError(f"{part} of {spec} does not fit the shape {found}")
        if part.startswith("float "):
            fits = np.issubdtype(dtype, np.floating)
        else:
            fits = np.iscomplexobj(array) == part.startswith("complex ")
        if not fits:
            raise ValueError(f"{part} is needed, not an array of {dtype}")


def check_arguments(y, stiffness, damping):
    """Raise ValueError for arguments that the gradient was not derived for."""
    check_arrays("float y[2]; stiffness[]; damping[]", y, stiffness, damping)


def pendulum(y, stiffness, damping):
    """Energy of a damped pendulum after 1,000 steps of Runge and Kutta's method."""
    check_arguments(y, stiffness, damping)
    for _ in range(1000):  # models.py:129
        # models.py:127
        k1 = np.array([y[1], -stiffness * np.sin(y[0]) - damping * y[1]])
        total = y + 0.005 * k1  # models.py:131
        # models.py:127
        k2 = np.array([total[1], -stiffness * np.sin(total[0]) - damping * total[1]])
        total_2 = y + 0.005 * k2  # models.py:132
        diff = -stiffness * np.sin(total_2[0]) - damping * total_2[1]
        k3 = np.array([total_2[1], diff])  # models.py:127
        total_3 = y + 0.01 * k3  # models.py:133
        diff_2 = -stiffness * np.sin(total_3[0]) - damping * total_3[1]
        k4 = np.array([total_3[1], diff_2])  # models.py:127
        y = y + 0.0016666666666666668 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)  # models.py:134
    return 0.5 * y[1] ** 2 + stiffness * (1.0 - np.cos(y[0]))


def pendulum_vjp(y, stiffness, damping):
    """Value and pullback of `pendulum` (models.py:121) with respect to `y`,
    `stiffness` and `damping`.
    """
    check_arguments(y, stiffness, damping)
    # forward
    turns = []
    for _ in range(1000):  # models.py:129
        sin = np.sin(y[0])
        k1 = np.array([y[1], -stiffness * sin - damping * y[1]])  # models.py:127
        total = y + 0.005 * k1  # models.py:131
        sin_2 = np.sin(total[0])
        # models.py:127
        k2 = np.array([total[1], -stiffness * sin_2 - damping * total[1]])
        total_2 = y + 0.005 * k2  # models.py:132
        sin_3 = np.sin(total_2[0])
        # models.py:127
        k3 = np.array([total_2[1], -stiffness * sin_3 - damping * total_2[1]])
        total_3 = y + 0.01 * k3  # models.py:133
        sin_4 = np.sin(total_3[0])  # models.py:127
        turns.append((y, sin, total, sin_2, total_2, sin_3, total_3, sin_4))
        # models.py:127
        k4 = np.array([total_3[1], -stiffness * sin_4 - damping * total_3[1]])
        y = y + 0.0016666666666666668 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)  # models.py:134
    diff = 1.0 - np.cos(y[0])
    out = 0.5 * y[1] ** 2 + stiffness * diff  # models.py:135

    def pullback(d_out):
        # of models.py:135
        d_y = np.array([d_out * stiffness * np.sin(y[0]), d_out * y[1]])
        d_stiffness = d_out * diff
        d_damping = 0.0
        # of models.py:129
        for y_2, sin, total, sin_2, total_2, sin_3, total_3, sin_4 in reversed(turns):
            d_product = 0.0016666666666666668 * d_y
            d_k3 = 2.0 * d_product  # of models.py:134
            d_damping -= d_product[1] * total_3[1]
            d_stiffness -= d_product[1] * sin_4
            d_angle = d_product[1] * -stiffness * np.cos(total_3[0])  # of models.py:127
            # of models.py:126
            d_total_3 = np.array([d_angle, d_product[0] - d_product[1] * damping])
            d_k3_2 = d_k3 + 0.01 * d_total_3  # of models.py:133
            d_damping -= d_k3_2[1] * total_2[1]
            d_stiffness -= d_k3_2[1] * sin_3
            d_angle_2 = d_k3_2[1] * -stiffness * np.cos(total_2[0])  # of models.py:127
            # of models.py:126
            d_total_2 = np.array([d_angle_2, d_k3_2[0] - d_k3_2[1] * damping])
            d_k2 = d_k3 + 0.005 * d_total_2  # of models.py:132
            d_damping -= d_k2[1] * total[1]
            d_stiffness -= d_k2[1] * sin_2
            d_angle_3 = d_k2[1] * -stiffness * np.cos(total[0])  # of models.py:127
            # of models.py:126
            d_total = np.array([d_angle_3, d_k2[0] - d_k2[1] * damping])
            d_y_2 = d_y + d_total_3 + d_total_2 + d_total
            d_k1 = d_product + 0.005 * d_total  # of models.py:131
            d_damping -= d_k1[1] * y_2[1]
            d_stiffness -= d_k1[1] * sin  # of models.py:127
            d_y_2[0] -= d_k1[1] * stiffness * np.cos(y_2[0])
            d_y_2[1] += d_k1[0] - d_k1[1] * damping  # of models.py:126
            d_y = d_y_2  # of models.py:129
        return d_y, d_stiffness, d_damping

    return out, pullback


def pendulum_value_and_grad(y, stiffness, damping):
    """Value and gradient of `pendulum` (models.py:121) with respect to `y`,
    `stiffness` and `damping`.
    """
    check_arguments(y, stiffness, damping)
    # forward
    turns = []
    for _ in range(1000):  # models.py:129
        sin = np.sin(y[0])
        k1 = np.array([y[1], -stiffness * sin - damping * y[1]])  # models.py:127
        total = y + 0.005 * k1  # models.py:131
        sin_2 = np.sin(total[0])
        # models.py:127
        k2 = np.array([total[1], -stiffness * sin_2 - damping * total[1]])
        total_2 = y + 0.005 * k2  # models.py:132
        sin_3 = np.sin(total_2[0])
        # models.py:127
        k3 = np.array([total_2[1], -stiffness * sin_3 - damping * total_2[1]])
        total_3 = y + 0.01 * k3  # models.py:133
        sin_4 = np.sin(total_3[0])  # models.py:127
        turns.append((y, sin, total, sin_2, total_2, sin_3, total_3, sin_4))
        # models.py:127
        k4 = np.array([total_3[1], -stiffness * sin_4 - damping * total_3[1]])
        y = y + 0.0016666666666666668 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)  # models.py:134
    d_stiffness = 1.0 - np.cos(y[0])
    out = 0.5 * y[1] ** 2 + stiffness * d_stiffness  # models.py:135
    # backward
    d_y = np.array([stiffness * np.sin(y[0]), y[1]])  # of models.py:135
    d_damping = 0.0
    # of models.py:129
    for y, sin, total, sin_2, total_2, sin_3, total_3, sin_4 in reversed(turns):
        d_product = 0.0016666666666666668 * d_y
        d_k3 = 2.0 * d_product  # of models.py:134
        d_damping -= d_product[1] * total_3[1]
        d_stiffness -= d_product[1] * sin_4
        d_angle = d_product[1] * -stiffness * np.cos(total_3[0])  # of models.py:127
        # of models.py:126
        d_total_3 = np.array([d_angle, d_product[0] - d_product[1] * damping])
        d_k3_2 = d_k3 + 0.01 * d_total_3  # of models.py:133
        d_damping -= d_k3_2[1] * total_2[1]
        d_stiffness -= d_k3_2[1] * sin_3
        d_angle_2 = d_k3_2[1] * -stiffness * np.cos(total_2[0])  # of models.py:127
        # of models.py:126
        d_total_2 = np.array([d_angle_2, d_k3_2[0] - d_k3_2[1] * damping])
        d_k2 = d_k3 + 0.005 * d_total_2  # of models.py:132
        d_damping -= d_k2[1] * total[1]
        d_stiffness -= d_k2[1] * sin_2
        d_angle_3 = d_k2[1] * -stiffness * np.cos(total[0])  # of models.py:127
        d_total = np.array([d_angle_3, d_k2[0] - d_k2[1] * damping])  # of models.py:126
        d_y = d_y + d_total_3 + d_total_2 + d_total
        d_k1 = d_product + 0.005 * d_total  # of models.py:131
        d_damping -= d_k1[1] * y[1]
        d_stiffness -= d_k1[1] * sin  # of models.py:127
        d_y[0] -= d_k1[1] * stiffness * np.cos(y[0])
        d_y[1] += d_k1[0] - d_k1[1] * damping  # of models.py:126
    return out, (d_y, d_stiffness, d_damping)
