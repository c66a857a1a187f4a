"""Value and gradient of each function of `models.py`, as a careful person writes them.

They are the measure for the generated code: it should have about as many statements,
and read as well.  So they use no trick that a reader would have to look up, no `out=`
and no buffer kept from call to call.  Each gradient has a line of its own, as in the
generated code, where a comment on that line says what it is the gradient of.
"""

import numpy as np
from scipy.special import erf, expit, logsumexp, softmax


def linear_regression(w, b, x, y):
    residual = x @ w + b - y
    value = np.mean(residual**2)
    d_residual = 2.0 / residual.size * residual
    d_w = x.T @ d_residual
    d_b = np.sum(d_residual)
    return value, (d_w, d_b)


def logistic_regression(w, x, y, strength):
    margin = y * (x @ w)
    value = np.mean(np.logaddexp(0.0, -margin)) + 0.5 * strength * np.sum(w**2)
    d_margin = -expit(-margin) / margin.size
    d_w = x.T @ (y * d_margin) + strength * w
    return value, d_w


def softmax_regression(params, x, labels):
    rows = np.arange(len(labels))
    logits = x @ params["w"] + params["b"]
    log_probs = logits - logsumexp(logits, axis=1, keepdims=True)
    value = -np.mean(log_probs[rows, labels])
    d_logits = np.exp(log_probs)
    d_logits[rows, labels] -= 1.0
    d_logits /= len(labels)
    d_w = x.T @ d_logits
    d_b = np.sum(d_logits, axis=0)
    return value, {"w": d_w, "b": d_b}


def two_layer_network(params, x, targets):
    # forward
    hidden = np.tanh(x @ params["w1"] + params["b1"])
    logits = hidden @ params["w2"] + params["b2"]
    log_probs = logits - logsumexp(logits, axis=1, keepdims=True)
    value = -np.sum(targets * log_probs) / len(x)
    # backward
    weight = np.sum(targets, axis=1, keepdims=True)
    d_logits = (weight * np.exp(log_probs) - targets) / len(x)
    d_sum = (d_logits @ params["w2"].T) * (1.0 - hidden**2)
    d_w1 = x.T @ d_sum
    d_b1 = np.sum(d_sum, axis=0)
    d_w2 = hidden.T @ d_logits
    d_b2 = np.sum(d_logits, axis=0)
    return value, {"w1": d_w1, "b1": d_b1, "w2": d_w2, "b2": d_b2}


def rosenbrock(x):
    bend = x[1:] - x[:-1] ** 2
    gap = 1.0 - x[:-1]
    value = np.sum(100.0 * bend**2 + gap**2)
    d_x = np.zeros_like(x)
    d_x[1:] = 200.0 * bend
    d_x[:-1] -= 400.0 * bend * x[:-1] + 2.0 * gap
    return value, d_x


def recurrent_cell(params, inputs, target):
    # forward
    states = [params["start"]]
    for t in range(5):
        total = inputs[t] @ params["w_in"] + states[t] @ params["w"] + params["b"]
        states.append(np.tanh(total))
    error = states[5] - target
    value = 0.5 * np.sum(error**2)
    # backward
    d_w_in = np.zeros_like(params["w_in"])
    d_w = np.zeros_like(params["w"])
    d_b = np.zeros_like(params["b"])
    d_state = error
    for t in reversed(range(5)):
        d_total = d_state * (1.0 - states[t + 1] ** 2)
        d_w_in += inputs[t].T @ d_total
        d_w += states[t].T @ d_total
        d_b += np.sum(d_total, axis=0)
        d_state = d_total @ params["w"].T
    return value, {"start": d_state, "w_in": d_w_in, "w": d_w, "b": d_b}


def gaussian_mixture(logits, means, log_scales, x):
    # forward
    n, d = x.shape
    scales = np.exp(log_scales)
    z = (x[:, None, :] - means) / scales
    log_density = -0.5 * np.sum(z**2, axis=2) - np.sum(log_scales, axis=1)
    joint = logits - logsumexp(logits) + log_density
    value = np.sum(logsumexp(joint, axis=1)) - 0.5 * n * d * np.log(2.0 * np.pi)
    # backward
    share = softmax(joint, axis=1)
    d_logits = np.sum(share, axis=0) - n * softmax(logits)
    d_means = np.sum(share[:, :, None] * z, axis=0) / scales
    d_log_scales = np.sum(share[:, :, None] * (z**2 - 1.0), axis=0)
    return value, (d_logits, d_means, d_log_scales)


def in_place_slices(x):
    # forward
    out = np.zeros(len(x))
    out[1:] = x[1:] * x[:-1]
    out[:-1] += np.sin(x[1:])
    out[0] = 2.0 * x[-1]
    value = np.sum(out**2)
    # backward
    d_out = 2.0 * out
    d_x = np.zeros_like(x)
    d_x[-1] = 2.0 * d_out[0]
    d_out[0] = 0.0
    d_x[1:] += d_out[1:] * x[:-1] + d_out[:-1] * np.cos(x[1:])
    d_x[:-1] += d_out[1:] * x[1:]
    return value, d_x


def broadcast_mix(x, scale, shift, temperature):
    z = (scale * x + shift) / temperature
    e = np.exp(-z)
    value = np.sum(e) + 3 * scale**2
    d_sum = -e / temperature
    d_scale = np.sum(d_sum * x) + 6 * scale
    d_temperature = np.sum(e * z) / temperature
    d_x = scale * d_sum
    d_shift = np.sum(d_sum, axis=0)
    return value, (d_x, d_scale, d_shift, d_temperature)


def black_scholes(spot, strike, years, rate, volatility):
    # forward
    root = np.sqrt(years)
    spread = volatility * root
    drift = rate + 0.5 * volatility**2
    d1 = (np.log(spot / strike) + drift * years) / spread
    d2 = d1 - spread
    cdf1 = 0.5 * (1.0 + erf(d1 / np.sqrt(2.0)))
    cdf2 = 0.5 * (1.0 + erf(d2 / np.sqrt(2.0)))
    discount = np.exp(-rate * years)
    present = strike * discount
    value = np.sum(spot * cdf1 - present * cdf2)
    # backward
    d_d2 = -present * np.exp(-0.5 * d2**2) / np.sqrt(2.0 * np.pi)
    d_d1 = spot * np.exp(-0.5 * d1**2) / np.sqrt(2.0 * np.pi) + d_d2
    d_spread = -d_d1 * d1 / spread - d_d2
    d_top = d_d1 / spread
    d_spot = cdf1 + d_top / spot
    d_strike = -discount * cdf2 - d_top / strike
    d_years = rate * present * cdf2 + d_top * drift + 0.5 * d_spread * volatility / root
    d_rate = np.sum(years * (present * cdf2 + d_top))
    d_volatility = d_spread * root + d_top * volatility * years
    return value, (d_spot, d_strike, d_years, d_rate, d_volatility)


def tariff(use, price):
    # forward
    cost = price * use
    if use > 100.0:
        cost += 0.1 * (use - 100.0) ** 2
    value = cost
    if cost > 50.0:
        value -= 0.2 * (cost - 50.0)
    # backward
    d_cost = 0.8 if cost > 50.0 else 1.0
    d_use = d_cost * price
    d_price = d_cost * use
    if use > 100.0:
        d_use += 0.2 * d_cost * (use - 100.0)
    return value, (d_use, d_price)


def cube_root(a, guess):
    # forward
    x, step = guess, 1.0
    points = []
    while abs(step) > 1e-12:
        points.append(x)
        step = (x**3 - a) / (3.0 * x**2)
        x = x - step
    # backward
    d_x, d_a = 1.0, 0.0
    for x_t in reversed(points):
        d_a += d_x / (3.0 * x_t**2)
        d_x *= 2.0 / 3.0 - 2.0 * a / (3.0 * x_t**3)
    return x, d_a


def doubled(x):
    # forward
    y = x
    factor = 1.0
    while np.linalg.norm(y) < 1000.0:
        y = y * 2.0
        factor *= 2.0
    # backward
    return np.sum(y), np.full_like(x, factor)


def _pull(y, ct, stiffness, damping):
    """Pullback of the slope of the pendulum."""
    return np.array([-stiffness * np.cos(y[0]) * ct[1], ct[0] - damping * ct[1]])


def pendulum(y, stiffness, damping):
    dt = 0.01

    def slope(y):
        return np.array([y[1], -stiffness * np.sin(y[0]) - damping * y[1]])

    # forward
    steps = []
    for _ in range(1000):
        k1 = slope(y)
        y2 = y + 0.5 * dt * k1
        k2 = slope(y2)
        y3 = y + 0.5 * dt * k2
        k3 = slope(y3)
        y4 = y + dt * k3
        k4 = slope(y4)
        steps.append((y, y2, y3, y4))
        y = y + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    value = 0.5 * y[1] ** 2 + stiffness * (1.0 - np.cos(y[0]))
    # backward
    d_y = np.array([stiffness * np.sin(y[0]), y[1]])
    d_stiffness, d_damping = 1.0 - np.cos(y[0]), 0.0
    for y1, y2, y3, y4 in reversed(steps):
        d_k = dt / 6.0 * d_y
        d_y4 = _pull(y4, d_k, stiffness, damping)
        d_k3 = 2.0 * d_k + dt * d_y4
        d_y3 = _pull(y3, d_k3, stiffness, damping)
        d_k2 = 2.0 * d_k + 0.5 * dt * d_y3
        d_y2 = _pull(y2, d_k2, stiffness, damping)
        d_k1 = d_k + 0.5 * dt * d_y2
        d_y = d_y + d_y4 + d_y3 + d_y2 + _pull(y1, d_k1, stiffness, damping)
        for at, ct in ((y1, d_k1), (y2, d_k2), (y3, d_k3), (y4, d_k)):
            d_stiffness -= ct[1] * np.sin(at[0])
            d_damping -= ct[1] * at[1]
    return value, (d_y, d_stiffness, d_damping)


def kalman_filter(a, h, q, r, observed):
    # forward
    mean, cov = np.zeros(2), np.eye(2)
    loss, steps = 0.0, []
    for z in observed:
        before = mean, cov
        mean = a @ mean
        cov = a @ cov @ a.T + q
        gap = z - h @ mean
        row = h @ cov
        spread = row @ h + r
        gain = cov @ h / spread
        loss += 0.5 * (gap**2 / spread + np.log(spread))
        steps.append((*before, mean, cov, gap, row, spread, gain))
        mean = mean + gain * gap
        cov = cov - np.outer(gain, row)
    # backward
    d_a, d_h, d_q, d_r = np.zeros_like(a), np.zeros_like(h), np.zeros_like(q), 0.0
    d_mean, d_cov = np.zeros(2), np.zeros((2, 2))
    for mean_1, cov_1, mean, cov, gap, row, spread, gain in reversed(steps):
        d_gain = d_mean * gap - d_cov @ row
        d_row = -(gain @ d_cov)
        d_gap = d_mean @ gain + gap / spread
        d_spread = 0.5 * (1.0 / spread - (gap / spread) ** 2) - d_gain @ gain / spread
        d_row += d_spread * h
        d_h += d_spread * row + cov @ d_row + cov.T @ d_gain / spread - d_gap * mean
        d_cov = d_cov + np.outer(h, d_row) + np.outer(d_gain / spread, h)
        d_r += d_spread
        d_mean = d_mean - d_gap * h
        d_q += d_cov
        d_a += d_cov @ a @ cov_1.T + d_cov.T @ a @ cov_1 + np.outer(d_mean, mean_1)
        d_cov = a.T @ d_cov @ a
        d_mean = a.T @ d_mean
    return loss, (d_a, d_h, d_q, d_r)


def conjugate_gradient(a, b, target):
    # forward
    x = np.zeros(len(b))
    residual = b.copy()
    p = residual
    size = residual @ residual
    steps = []
    for _ in range(6):
        step = a @ p
        curve = p @ step
        alpha = size / curve
        x += alpha * p
        after = residual - alpha * step
        ratio = after @ after / size
        steps.append((residual, p, size, step, curve, alpha, after, ratio))
        residual = after
        size = after @ after
        p = ratio * p + after
    value = np.sum((x - target) ** 2)
    # backward
    d_x = 2.0 * (x - target)
    d_a = np.zeros_like(a)
    d_residual, d_p, d_size = np.zeros(len(b)), np.zeros(len(b)), 0.0
    for _, p, size, step, curve, alpha, after, ratio in reversed(steps):
        d_ratio = d_p @ p
        d_after = d_residual + d_p + 2.0 * (d_size + d_ratio / size) * after
        d_alpha = d_x @ p - d_after @ step
        d_curve = -d_alpha * alpha / curve
        d_step = d_curve * p - alpha * d_after
        d_a += np.outer(d_step, p)
        d_p = ratio * d_p + alpha * d_x + d_curve * step + a.T @ d_step
        d_size = d_alpha / curve - d_ratio * ratio / size
        d_residual = d_after
    return value, (d_a, d_residual + d_p + 2.0 * d_size * b)


def trajectory_fit(rates, u, observed):
    # forward
    us = [u]
    slopes = []
    for _ in range(60):
        slope = np.tanh(rates @ u)
        slopes.append(slope)
        u = u + 0.05 * slope
        us.append(u)
    gap = np.stack(us[1:]) - observed
    value = np.mean(gap**2)
    # backward
    d_gap = 2.0 / gap.size * gap
    d_rates = np.zeros_like(rates)
    d_u = np.zeros_like(u)
    for t in reversed(range(60)):
        d_u = d_u + d_gap[t]
        d_product = 0.05 * d_u * (1.0 - slopes[t] ** 2)
        d_rates += np.outer(d_product, us[t])
        d_u += rates.T @ d_product
    return value, (d_rates, d_u)


def heat_rod(conductivity, start):
    # forward
    u = np.zeros((41, 12))
    u[0] = start
    bends = []
    for k in range(40):
        bend = u[k, 2:] - 2.0 * u[k, 1:-1] + u[k, :-2]
        bends.append(bend)
        u[k + 1, 1:-1] = u[k, 1:-1] + conductivity * bend
    value = np.sum(u[-1] ** 2)
    # backward
    d_u = np.zeros_like(u)
    d_u[-1] = 2.0 * u[-1]
    d_conductivity = 0.0
    for k in reversed(range(40)):
        d_row = d_u[k + 1, 1:-1]
        d_conductivity += d_row @ bends[k]
        d_bend = conductivity * d_row
        d_u[k, 1:-1] += d_row - 2.0 * d_bend
        d_u[k, 2:] += d_bend
        d_u[k, :-2] += d_bend
    return value, (d_conductivity, d_u[0])
