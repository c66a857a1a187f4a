"""Value and gradient of `conjugate_gradient` (models.py:154) with respect to `a` and
`b`.

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


def check_arguments(a, b, target):
    """Raise ValueError for arguments that the gradient was not derived for."""
    check_arrays("float a[n, n]; float b[n]; target[n]", a, b, target)


def conjugate_gradient(a, b, target):
    """Distance of the solution of `a @ x = b` from a target, after six steps."""
    check_arguments(a, b, target)
    x = np.zeros(a.shape[0])  # models.py:156
    residual = b.copy()  # models.py:157
    p = residual.copy()  # models.py:158
    size = residual @ residual  # models.py:159
    for _ in range(6):  # models.py:160
        step = a @ p  # models.py:161
        alpha = size / (p @ step)  # models.py:162
        x = x + alpha * p  # models.py:163
        residual = residual - alpha * step  # models.py:164
        size_2 = residual @ residual  # models.py:165
        p = p * (size_2 / size)  # models.py:166
        p += residual  # models.py:167
        size = size_2  # models.py:160
    return np.sum((x - target) ** 2)


def conjugate_gradient_vjp(a, b, target):
    """Value and pullback of `conjugate_gradient` (models.py:154) with respect to `a`
    and `b`.
    """
    check_arguments(a, b, target)
    # forward
    x = np.zeros(a.shape[0])  # models.py:156
    residual = b.copy()  # models.py:157
    p = residual.copy()  # models.py:158
    size = residual @ residual  # models.py:159
    residual_2 = residual
    turns = []
    for _ in range(6):  # models.py:160
        step = a @ p  # models.py:161
        matmul = p @ step
        alpha = size / matmul  # models.py:162
        x = x + alpha * p  # models.py:163
        residual_2 = residual_2 - alpha * step  # models.py:164
        size_2 = residual_2 @ residual_2  # models.py:165
        turns.append((p, size, step, matmul, residual_2, size_2))
        p = p * (size_2 / size)  # models.py:166
        p += residual_2  # models.py:167
        size = size_2  # models.py:160
    diff = x - target
    out = np.sum(diff**2)  # models.py:168

    def pullback(d_out):
        d_diff = 2.0 * d_out * diff  # of models.py:168
        d_p = np.zeros_like(p)
        d_size = 0.0
        d_residual = np.zeros_like(residual_2)
        d_a = np.zeros_like(a)
        # of models.py:160
        for p_3, size, step, matmul, residual_2_2, size_2 in reversed(turns):
            d_ratio = size_2 / size
            d_p_2 = d_ratio * d_p
            d_ratio_2 = d_p @ p_3 / size  # of models.py:166
            # of models.py:165
            d_residual = d_residual + d_p + 2.0 * (d_size + d_ratio_2) * residual_2_2
            minus_d_residual = -d_residual  # of models.py:164
            d_alpha = minus_d_residual @ step + d_diff @ p_3
            d_p_2 += size / matmul * d_diff  # of models.py:163
            d_product = d_alpha / matmul * size / matmul
            d_size = -d_ratio_2 * d_ratio + d_alpha / matmul
            d_p_2 -= d_product * step
            # of models.py:162
            d_step = size / matmul * minus_d_residual - d_product * p_3
            d_a += d_step[:, None] * p_3
            d_p_2 += a.T @ d_step  # of models.py:161
            d_p = d_p_2  # of models.py:160
        d_product_2 = 2.0 * d_size * residual
        d_residual += d_product_2  # of models.py:159
        d_residual += d_p  # of models.py:158
        return d_a, d_residual

    return out, pullback


def conjugate_gradient_value_and_grad(a, b, target):
    """Value and gradient of `conjugate_gradient` (models.py:154) with respect to `a`
    and `b`.
    """
    check_arguments(a, b, target)
    # forward
    x = np.zeros(a.shape[0])  # models.py:156
    residual = b.copy()  # models.py:157
    p = residual.copy()  # models.py:158
    size = residual @ residual  # models.py:159
    residual_2 = residual
    turns = []
    for _ in range(6):  # models.py:160
        step = a @ p  # models.py:161
        matmul = p @ step
        alpha = size / matmul  # models.py:162
        x = x + alpha * p  # models.py:163
        residual_2 = residual_2 - alpha * step  # models.py:164
        size_2 = residual_2 @ residual_2  # models.py:165
        turns.append((p, size, step, matmul, residual_2, size_2))
        p = p * (size_2 / size)  # models.py:166
        p += residual_2  # models.py:167
        size = size_2  # models.py:160
    diff = x - target
    out = np.sum(diff**2)  # models.py:168
    # backward
    d_diff = 2.0 * diff  # of models.py:168
    d_p = np.zeros_like(p)
    d_size = 0.0
    d_residual = np.zeros_like(residual_2)
    d_a = np.zeros_like(a)
    # of models.py:160
    for p, size, step, matmul, residual_2, size_2 in reversed(turns):
        d_ratio = size_2 / size
        d_p_2 = d_ratio * d_p
        d_ratio_2 = d_p @ p / size  # of models.py:166
        # of models.py:165
        d_residual = d_residual + d_p + 2.0 * (d_size + d_ratio_2) * residual_2
        minus_d_residual = -d_residual  # of models.py:164
        d_alpha = minus_d_residual @ step + d_diff @ p
        d_p_2 += size / matmul * d_diff  # of models.py:163
        d_product = d_alpha / matmul * size / matmul
        d_size = -d_ratio_2 * d_ratio + d_alpha / matmul
        d_p_2 -= d_product * step
        d_step = size / matmul * minus_d_residual - d_product * p  # of models.py:162
        d_a += d_step[:, None] * p
        d_p_2 += a.T @ d_step  # of models.py:161
        d_p = d_p_2  # of models.py:160
    d_product_2 = 2.0 * d_size * residual
    d_residual += d_product_2  # of models.py:159
    d_residual += d_p  # of models.py:158
    return out, (d_a, d_residual)
