"""Value and gradient of `kalman_filter` (models.py:138) with respect to `a`, `h`, `q`
and `r`.

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


def check_arguments(a, h, q, r, observed):
    """Raise ValueError for arguments that the gradient was not derived for."""
    check_arrays(
        "float a[2, 2]; float h[2]; float q[2, 2]; r[]; observed[20]",
        a,
        h,
        q,
        r,
        observed,
    )


def kalman_filter(a, h, q, r, observed):
    """Negative log likelihood of observations under a linear model with noise."""
    check_arguments(a, h, q, r, observed)
    mean = np.zeros(2)
    cov = np.eye(2)  # models.py:140
    loss = 0.0
    for z in observed:  # models.py:142
        mean = a @ mean  # models.py:143
        cov = a @ cov @ a.T + q  # models.py:144
        gap = z - h @ mean  # models.py:145
        matmul = h @ cov
        spread = matmul @ h + r  # models.py:146
        gain = cov @ h / spread  # models.py:147
        loss = loss + 0.5 * (gap**2 / spread + np.log(spread))  # models.py:148
        mean += gain * gap  # models.py:149
        cov -= np.outer(gain, matmul)  # models.py:150
    return loss


def kalman_filter_vjp(a, h, q, r, observed):
    """Value and pullback of `kalman_filter` (models.py:138) with respect to `a`,
    `h`, `q` and `r`.
    """
    check_arguments(a, h, q, r, observed)
    # forward
    mean = np.zeros(2)
    cov = np.eye(2)  # models.py:140
    loss = 0.0
    turns = []
    for z in observed:  # models.py:142
        mean_2 = a @ mean  # models.py:143
        matmul = a @ cov
        cov_2 = matmul @ a.T + q  # models.py:144
        gap = z - h @ mean_2  # models.py:145
        matmul_2 = h @ cov_2
        spread = matmul_2 @ h + r  # models.py:146
        gain = cov_2 @ h / spread  # models.py:147
        turns.append((mean, cov, mean_2, matmul, cov_2, gap, matmul_2, spread, gain))
        loss = loss + 0.5 * (gap**2 / spread + np.log(spread))  # models.py:148
        mean = mean_2 + gain * gap  # models.py:149
        cov = cov_2 - np.outer(gain, matmul_2)  # models.py:150

    def pullback(d_out):
        d_mean = np.zeros_like(mean)
        d_cov = np.zeros_like(cov)
        d_a = np.zeros_like(a)
        d_q = np.zeros_like(q)
        d_h = np.zeros_like(h)
        d_r = 0.0
        for turn in reversed(turns):  # of models.py:142
            mean_3, cov_3, mean_2, matmul, cov_2, gap, matmul_2, spread, gain = turn
            minus_d_cov = -d_cov
            d_matmul_2 = gain @ minus_d_cov
            d_h += cov_2 @ d_matmul_2  # of models.py:150
            d_spread = 0.5 * d_out / spread
            d_spread -= d_spread * gap**2 / spread
            d_gap = d_mean @ gain + d_out / spread * gap  # of models.py:148
            d_ratio = (minus_d_cov @ matmul_2 + gap * d_mean) / spread
            d_spread -= d_ratio @ gain
            d_h += cov_2.T @ d_ratio  # of models.py:147
            d_r += d_spread
            d_matmul_2_2 = d_spread * h
            d_h += d_spread * matmul_2
            d_h += cov_2 @ d_matmul_2_2  # of models.py:146
            # of models.py:147
            d_cov_2 = d_cov + h[:, None] * d_matmul_2 + d_ratio[:, None] * h
            d_cov_2 += h[:, None] * d_matmul_2_2  # of models.py:146
            d_h -= d_gap * mean_2
            d_mean_2 = d_mean - d_gap * h  # of models.py:145
            d_q += d_cov_2
            d_matmul = d_cov_2 @ a
            d_a += d_cov_2.T @ matmul
            d_cov = a.T @ d_matmul
            d_a += d_matmul @ cov_3.T  # of models.py:144
            d_mean = a.T @ d_mean_2
            d_a += d_mean_2[:, None] * mean_3  # of models.py:143
        return d_a, d_h, d_q, d_r

    return loss, pullback


def kalman_filter_value_and_grad(a, h, q, r, observed):
    """Value and gradient of `kalman_filter` (models.py:138) with respect to `a`,
    `h`, `q` and `r`.
    """
    check_arguments(a, h, q, r, observed)
    # forward
    mean = np.zeros(2)
    cov = np.eye(2)  # models.py:140
    loss = 0.0
    turns = []
    for z in observed:  # models.py:142
        mean_2 = a @ mean  # models.py:143
        matmul = a @ cov
        cov_2 = matmul @ a.T + q  # models.py:144
        gap = z - h @ mean_2  # models.py:145
        matmul_2 = h @ cov_2
        spread = matmul_2 @ h + r  # models.py:146
        gain = cov_2 @ h / spread  # models.py:147
        turns.append((mean, cov, mean_2, matmul, cov_2, gap, matmul_2, spread, gain))
        loss = loss + 0.5 * (gap**2 / spread + np.log(spread))  # models.py:148
        mean = mean_2 + gain * gap  # models.py:149
        cov = cov_2 - np.outer(gain, matmul_2)  # models.py:150
    # backward
    d_mean = np.zeros_like(mean)
    d_cov = np.zeros_like(cov)
    d_a = np.zeros_like(a)
    d_q = np.zeros_like(q)
    d_h = np.zeros_like(h)
    d_r = 0.0
    for turn in reversed(turns):  # of models.py:142
        mean, cov, mean_2, matmul, cov_2, gap, matmul_2, spread, gain = turn
        minus_d_cov = -d_cov
        d_matmul_2 = gain @ minus_d_cov
        d_h += cov_2 @ d_matmul_2  # of models.py:150
        d_gap = d_mean @ gain + gap / spread  # of models.py:148
        d_ratio = (minus_d_cov @ matmul_2 + gap * d_mean) / spread  # of models.py:147
        d_spread = 0.5 / spread - 0.5 * gap**2 / spread / spread  # of models.py:148
        d_spread -= d_ratio @ gain
        d_h += cov_2.T @ d_ratio  # of models.py:147
        d_r += d_spread
        d_matmul_2_2 = d_spread * h
        d_h += d_spread * matmul_2
        d_h += cov_2 @ d_matmul_2_2  # of models.py:146
        # of models.py:147
        d_cov_2 = d_cov + h[:, None] * d_matmul_2 + d_ratio[:, None] * h
        d_cov_2 += h[:, None] * d_matmul_2_2  # of models.py:146
        d_h -= d_gap * mean_2
        d_mean_2 = d_mean - d_gap * h  # of models.py:145
        d_q += d_cov_2
        d_matmul = d_cov_2 @ a
        d_a += d_cov_2.T @ matmul
        d_cov = a.T @ d_matmul
        d_a += d_matmul @ cov.T  # of models.py:144
        d_mean = a.T @ d_mean_2
        d_a += d_mean_2[:, None] * mean  # of models.py:143
    return loss, (d_a, d_h, d_q, d_r)
