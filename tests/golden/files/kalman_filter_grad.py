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
        wanted = part[part.rindex("[") + 1 : -1].split(", ")
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
        "float a[2, 2]; float h[2]; float q[2, 2]; observed[20]", a, h, q, observed
    )


def kalman_filter(a, h, q, r, observed):
    """Negative log likelihood of observations under a linear model with noise."""
    check_arguments(a, h, q, r, observed)
    mean = np.zeros(2)
    cov = np.eye(2)  # models.py:140
    loss = 0.0
    for t in range(20):  # models.py:142
        z = observed[t]  # models.py:142
        mean_2 = a @ mean  # models.py:143
        cov_2 = a @ cov @ a.T + q  # models.py:144
        gap = z - h @ mean_2  # models.py:145
        matmul = h @ cov_2
        spread = matmul @ h + r  # models.py:146
        gain = cov_2 @ h / spread  # models.py:147
        loss = loss + 0.5 * (gap**2 / spread + np.log(spread))  # models.py:148
        mean_2 += gain * gap  # models.py:149
        cov_2 -= np.outer(gain, matmul)  # models.py:150
        mean, cov = mean_2, cov_2  # models.py:142
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
    matmuls = []
    gains = []
    covs = []
    gaps = []
    spreads = []
    ratios = []
    means = []
    matmuls_2 = []
    covs_2 = [cov]
    means_2 = [mean]
    for t in range(20):  # models.py:142
        z = observed[t]  # models.py:142
        mean_2 = a @ mean  # models.py:143
        matmul = a @ cov
        cov_2 = matmul @ a.T + q  # models.py:144
        gap = z - h @ mean_2  # models.py:145
        matmul_2 = h @ cov_2
        spread = matmul_2 @ h + r  # models.py:146
        gain = cov_2 @ h / spread  # models.py:147
        ratio = gap**2 / spread
        loss = loss + 0.5 * (ratio + np.log(spread))  # models.py:148
        mean = mean_2 + gain * gap  # models.py:149
        cov = cov_2 - np.outer(gain, matmul_2)  # models.py:150
        matmuls.append(matmul_2)
        gains.append(gain)
        covs.append(cov_2)
        gaps.append(gap)
        spreads.append(spread)
        ratios.append(ratio)
        means.append(mean_2)
        matmuls_2.append(matmul)
        covs_2.append(cov)
        means_2.append(mean)  # models.py:142

    def pullback(d_out):
        d_mean = np.zeros_like(mean)
        d_cov = np.zeros_like(cov)
        d_a = np.zeros_like(a)
        d_q = np.zeros_like(q)
        d_h = np.zeros_like(h)
        d_r = 0.0
        for t in reversed(range(20)):  # of models.py:142
            gain_2 = gains[t]
            cov_3 = covs[t]
            gap_2 = gaps[t]
            spread_2 = spreads[t]  # of models.py:142
            minus_d_cov = -d_cov
            d_matmul = gain_2 @ minus_d_cov
            d_h += cov_3 @ d_matmul  # of models.py:150
            d_spread_2 = 0.5 * d_out / spread_2
            d_spread_2 -= d_spread_2 * ratios[t]  # of models.py:148
            d_ratio = (minus_d_cov @ matmuls[t] + gap_2 * d_mean) / spread_2
            d_spread_2 -= d_ratio @ gain_2
            d_h += cov_3.T @ d_ratio  # of models.py:147
            d_r += d_spread_2
            d_product = d_spread_2 * h
            d_h += d_spread_2 * matmuls[t]
            d_h += cov_3 @ d_product  # of models.py:146
            # of models.py:147
            d_cov_3 = d_cov + h[:, None] * d_matmul + d_ratio[:, None] * h
            d_cov_3 += h[:, None] * d_product  # of models.py:146
            d_minus = -(d_mean @ gain_2 + d_out / spread_2 * gap_2)
            d_h += d_minus * means[t]
            d_mean_2 = d_mean + d_minus * h  # of models.py:145
            d_q += d_cov_3
            d_matmul_2 = d_cov_3 @ a
            d_a += d_cov_3.T @ matmuls_2[t]
            d_cov = a.T @ d_matmul_2
            d_a += d_matmul_2 @ covs_2[t].T  # of models.py:144
            d_mean = a.T @ d_mean_2
            d_a += d_mean_2[:, None] * means_2[t]  # of models.py:143
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
    matmuls = []
    gains = []
    covs = []
    gaps = []
    spreads = []
    ratios = []
    means = []
    matmuls_2 = []
    covs_2 = [cov]
    means_2 = [mean]
    for t in range(20):  # models.py:142
        z = observed[t]  # models.py:142
        mean_2 = a @ mean  # models.py:143
        matmul = a @ cov
        cov_2 = matmul @ a.T + q  # models.py:144
        gap = z - h @ mean_2  # models.py:145
        matmul_2 = h @ cov_2
        spread = matmul_2 @ h + r  # models.py:146
        gain = cov_2 @ h / spread  # models.py:147
        ratio = gap**2 / spread
        loss = loss + 0.5 * (ratio + np.log(spread))  # models.py:148
        mean = mean_2 + gain * gap  # models.py:149
        cov = cov_2 - np.outer(gain, matmul_2)  # models.py:150
        matmuls.append(matmul_2)
        gains.append(gain)
        covs.append(cov_2)
        gaps.append(gap)
        spreads.append(spread)
        ratios.append(ratio)
        means.append(mean_2)
        matmuls_2.append(matmul)
        covs_2.append(cov)
        means_2.append(mean)  # models.py:142
    # backward
    d_mean = np.zeros_like(mean)
    d_cov = np.zeros_like(cov)
    d_a = np.zeros_like(a)
    d_q = np.zeros_like(q)
    d_h = np.zeros_like(h)
    d_r = 0.0
    for t in reversed(range(20)):  # of models.py:142
        gain_2 = gains[t]
        cov_3 = covs[t]
        gap_2 = gaps[t]
        spread_2 = spreads[t]  # of models.py:142
        minus_d_cov = -d_cov
        d_matmul = gain_2 @ minus_d_cov
        d_h += cov_3 @ d_matmul  # of models.py:150
        d_ratio = (minus_d_cov @ matmuls[t] + gap_2 * d_mean) / spread_2
        d_spread_2 = 0.5 / spread_2 - 0.5 * ratios[t] / spread_2 - d_ratio @ gain_2
        d_h += cov_3.T @ d_ratio  # of models.py:147
        d_r += d_spread_2
        d_product = d_spread_2 * h
        d_h += d_spread_2 * matmuls[t]
        d_h += cov_3 @ d_product  # of models.py:146
        # of models.py:147
        d_cov_3 = d_cov + h[:, None] * d_matmul + d_ratio[:, None] * h
        d_cov_3 += h[:, None] * d_product  # of models.py:146
        d_minus = -(d_mean @ gain_2 + gap_2 / spread_2)
        d_h += d_minus * means[t]
        d_mean_2 = d_mean + d_minus * h  # of models.py:145
        d_q += d_cov_3
        d_matmul_2 = d_cov_3 @ a
        d_a += d_cov_3.T @ matmuls_2[t]
        d_cov = a.T @ d_matmul_2
        d_a += d_matmul_2 @ covs_2[t].T  # of models.py:144
        d_mean = a.T @ d_mean_2
        d_a += d_mean_2[:, None] * means_2[t]  # of models.py:143
    return loss, (d_a, d_h, d_q, d_r)
