"""Second-order, forward and batched derivatives of golden functions, by hand."""

import numpy as np


def linear_regression_jvp(w, b, x, y, t_w, t_b):
    residual = x @ w + b - y
    t_residual = x @ t_w + t_b
    return np.mean(residual**2), 2.0 * np.mean(t_residual * residual)


def linear_regression_hvp(w, b, x, y, t_w, t_b):
    t_residual = x @ t_w + t_b
    t_d_residual = 2.0 / t_residual.size * t_residual
    t_d_b = t_d_residual.sum()
    t_d_w = x.T @ t_d_residual
    return t_d_w, t_d_b


def rosenbrock_jvp(x, t_x):
    curve = x[1:] - x[:-1] ** 2
    slope = 1.0 - x[:-1]
    out = np.sum(100.0 * curve**2 + slope**2)
    t_curve = t_x[1:] - 2.0 * t_x[:-1] * x[:-1]
    t_out = np.sum(200.0 * t_curve * curve - 2.0 * t_x[:-1] * slope)
    return out, t_out


def rosenbrock_hvp(x, t_x):
    curve = x[1:] - x[:-1] ** 2
    t_curve = t_x[1:] - 2.0 * t_x[:-1] * x[:-1]
    t_d_x = np.zeros_like(x)
    t_d_x[1:] = 200.0 * t_curve
    t_d_x[:-1] -= 400.0 * (t_curve * x[:-1] + curve * t_x[:-1])
    t_d_x[:-1] += 2.0 * t_x[:-1]
    return t_d_x


def in_place_slices_jvp(x, t_x):
    out = np.zeros(x.shape[0])
    t_out = np.zeros(x.shape[0])
    out[1:] = x[1:] * x[:-1]
    t_out[1:] = t_x[1:] * x[:-1] + t_x[:-1] * x[1:]
    out[:-1] += np.sin(x[1:])
    t_out[:-1] += t_x[1:] * np.cos(x[1:])
    out[0] = 2.0 * x[-1]
    t_out[0] = 2.0 * t_x[-1]
    return np.sum(out**2), 2.0 * np.sum(t_out * out)


def in_place_slices_hvp(x, t_x):
    out = np.zeros(x.shape[0])
    t_out = np.zeros(x.shape[0])
    out[1:] = x[1:] * x[:-1]
    t_out[1:] = t_x[1:] * x[:-1] + t_x[:-1] * x[1:]
    out[:-1] += np.sin(x[1:])
    t_out[:-1] += t_x[1:] * np.cos(x[1:])
    out[0] = 2.0 * x[-1]
    t_out[0] = 2.0 * t_x[-1]
    d_out, t_d_out = 2.0 * out, 2.0 * t_out
    t_d_x = np.zeros_like(x)
    t_d_x[-1] = 2.0 * t_d_out[0]
    d_out[0] = 0.0
    t_d_out[0] = 0.0
    t_d_x[1:] += t_d_out[:-1] * np.cos(x[1:]) - d_out[:-1] * t_x[1:] * np.sin(x[1:])
    t_d_x[1:] += t_d_out[1:] * x[:-1] + d_out[1:] * t_x[:-1]
    t_d_x[:-1] += t_d_out[1:] * x[1:] + d_out[1:] * t_x[1:]
    return t_d_x


def two_layer_network_jvp(params, x, targets, t_params):
    hidden = np.tanh(x @ params["w1"] + params["b1"])
    t_hidden = (x @ t_params["w1"] + t_params["b1"]) * (1.0 - hidden**2)
    logits = hidden @ params["w2"] + params["b2"]
    t_logits = t_hidden @ params["w2"] + hidden @ t_params["w2"] + t_params["b2"]
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    total = shifted.sum(axis=1, keepdims=True)
    softmax = shifted / total
    log_probs = logits - logits.max(axis=1, keepdims=True) - np.log(total)
    t_log_probs = t_logits - np.sum(t_logits * softmax, axis=1, keepdims=True)
    out = -np.sum(targets * log_probs) / x.shape[0]
    t_out = -np.sum(targets * t_log_probs) / x.shape[0]
    return out, t_out


def two_layer_network_hvp(params, x, targets, t_params):
    hidden = np.tanh(x @ params["w1"] + params["b1"])
    slope = 1.0 - hidden**2
    t_hidden = (x @ t_params["w1"] + t_params["b1"]) * slope
    logits = hidden @ params["w2"] + params["b2"]
    t_logits = t_hidden @ params["w2"] + hidden @ t_params["w2"] + t_params["b2"]
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    softmax = shifted / shifted.sum(axis=1, keepdims=True)
    moved = t_logits * softmax
    t_softmax = moved - moved.sum(axis=1, keepdims=True) * softmax
    weight = targets.sum(axis=1, keepdims=True) / x.shape[0]
    d_logits = weight * softmax - targets / x.shape[0]
    t_d_logits = weight * t_softmax
    t_d_b2 = t_d_logits.sum(axis=0)
    t_d_w2 = t_hidden.T @ d_logits + hidden.T @ t_d_logits
    d_hidden = d_logits @ params["w2"].T
    t_d_hidden = t_d_logits @ params["w2"].T + d_logits @ t_params["w2"].T
    t_d_pre = t_d_hidden * slope - 2.0 * d_hidden * hidden * t_hidden
    t_d_b1 = t_d_pre.sum(axis=0)
    t_d_w1 = x.T @ t_d_pre
    return {"w1": t_d_w1, "b1": t_d_b1, "w2": t_d_w2, "b2": t_d_b2}


def broadcast_mix_jvp(x, scale, shift, temperature, t_x, t_scale, t_shift, t_temp):
    z = (scale * x + shift) / temperature
    t_z = (t_scale * x + scale * t_x + t_shift - t_temp * z) / temperature
    e = np.exp(-z)
    return np.sum(e) + 3 * scale**2, 6.0 * t_scale * scale - np.sum(t_z * e)


def broadcast_mix_hvp(x, scale, shift, temperature, t_x, t_scale, t_shift, t_temp):
    z = (scale * x + shift) / temperature
    t_z = (t_scale * x + scale * t_x + t_shift - t_temp * z) / temperature
    e = np.exp(-z)
    d_total = -e / temperature
    t_d_total = (t_z * e - t_temp * d_total) / temperature
    t_d_temp = -np.sum(t_d_total * z + d_total * t_z)
    t_d_shift = t_d_total.sum(axis=0)
    t_d_x = scale * t_d_total + t_scale * d_total
    t_d_scale = 6.0 * t_scale + np.sum(t_d_total * x + d_total * t_x)
    return t_d_x, t_d_scale, t_d_shift, t_d_temp


def linear_regression_hessian(w, b, x, y):
    scaled = 2.0 / x.shape[0] * x.T
    w_b = scaled.sum(axis=1)
    return (scaled @ x, w_b), (w_b, 2.0)


def logistic_regression_hessian(w, x, y, strength):
    margin = y * (x @ w)
    p = 1.0 / (1.0 + np.exp(margin))
    weight = p * (1.0 - p) * y**2 / x.shape[0]
    data = (x.T * weight) @ x
    return data + strength * np.eye(w.shape[0])


def rosenbrock_hessian(x):
    n = x.shape[0]
    i = np.arange(n - 1)
    out = np.zeros((n, n))
    out[i, i] = 1200.0 * x[:-1] ** 2 - 400.0 * x[1:] + 2.0
    out[i + 1, i + 1] += 200.0
    out[i, i + 1] = out[i + 1, i] = -400.0 * x[:-1]
    return out


def in_place_slices_hessian(x):
    n = x.shape[0]
    eye = np.eye(n)
    sin, cos = np.sin(x[1:]), np.cos(x[1:])
    out = np.zeros(n)
    out[1:] = x[1:] * x[:-1]
    out[:-1] += sin
    slope = np.zeros((n, n))
    slope[1:] = eye[1:] * x[:-1, None] + eye[:-1] * x[1:, None]
    slope[:-1] += eye[1:] * cos[:, None]
    out[0] = 2.0 * x[-1]
    slope[0] = 2.0 * eye[-1]
    hessian = 2.0 * slope.T @ slope
    i = np.arange(1, n)
    hessian[i, i - 1] += 2.0 * out[1:]
    hessian[i - 1, i] += 2.0 * out[1:]
    hessian[i[1:], i[1:]] -= 2.0 * out[1:-1] * sin[1:]
    return hessian


def barrier_hessian(x, c, a, b):
    slack = b - a @ x
    return (a.T / slack**2) @ a


def linear_regression_vmap(w, b, x, y):
    residual = w @ x.T + b[:, None] - y
    return np.mean(residual**2, axis=1)


def one_row_grad_vmap(w, b, x, y):
    residual = x @ w + b - y
    slope = 2.0 * residual
    return slope[:, None] * x


def rosenbrock_grad_vmap(x):
    curve = 200.0 * (x[:, 1:] - x[:, :-1] ** 2)
    d_x = np.zeros_like(x)
    d_x[:, 1:] = curve
    d_x[:, :-1] -= 2.0 * curve * x[:, :-1] + 2.0 * (1.0 - x[:, :-1])
    return d_x


def rosenbrock_hessian_vmap(x):
    n = x.shape[1]
    i = np.arange(n - 1)
    out = np.zeros((x.shape[0], n, n))
    out[:, i, i] = 1200.0 * x[:, :-1] ** 2 - 400.0 * x[:, 1:] + 2.0
    out[:, i + 1, i + 1] += 200.0
    out[:, i, i + 1] = out[:, i + 1, i] = -400.0 * x[:, :-1]
    return out


def gaussian_mixture_vmap(logits, means, log_scales, x):
    z = (x[:, None, :] - means) / np.exp(log_scales)
    log_density = -0.5 * np.sum(z**2, axis=2) - np.sum(log_scales, axis=1)
    log_weights = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    constant = 0.5 * x.shape[0] * means.shape[1] * np.log(2.0 * np.pi)
    joint = np.exp(log_weights[:, None] + log_density).sum(axis=2)
    return np.log(joint).sum(axis=1) - constant


def recurrent_cell_jvp(params, inputs, target, t_params):
    state = params["start"]
    t_state = t_params["start"]
    for t in range(5):
        part = inputs[t]
        pre = part @ t_params["w_in"] + state @ t_params["w"] + t_params["b"]
        pre += t_state @ params["w"]
        state = np.tanh(part @ params["w_in"] + state @ params["w"] + params["b"])
        t_state = pre * (1.0 - state * state)
    error = state - target
    return 0.5 * np.sum(error**2), np.sum(t_state * error)


def recurrent_cell_hvp(params, inputs, target, t_params):
    state = params["start"]
    t_state = t_params["start"]
    states = [state]
    t_states = [t_state]
    for t in range(5):
        part = inputs[t]
        pre = part @ t_params["w_in"] + state @ t_params["w"] + t_params["b"]
        pre += t_state @ params["w"]
        state = np.tanh(part @ params["w_in"] + state @ params["w"] + params["b"])
        t_state = pre * (1.0 - state * state)
        states.append(state)
        t_states.append(t_state)
    d_state = state - target
    t_d_state = t_state
    t_d_w_in = np.zeros_like(params["w_in"])
    t_d_w = np.zeros_like(params["w"])
    t_d_b = np.zeros_like(params["b"])
    for t in reversed(range(5)):
        after = states[t + 1]
        slope = 1.0 - after * after
        d_pre = d_state * slope
        t_d_pre = t_d_state * slope - 2.0 * d_state * after * t_states[t + 1]
        t_d_b += t_d_pre.sum(axis=0)
        t_d_w += t_states[t].T @ d_pre + states[t].T @ t_d_pre
        t_d_w_in += inputs[t].T @ t_d_pre
        d_state = d_pre @ params["w"].T
        t_d_state = t_d_pre @ params["w"].T + d_pre @ t_params["w"].T
    return {"start": t_d_state, "w_in": t_d_w_in, "w": t_d_w, "b": t_d_b}


def gaussian_mixture_jvp(logits, means, log_scales, x, t_logits, t_means, t_log_scales):
    scales = np.exp(log_scales)
    z = (x[:, None, :] - means) / scales
    t_z = -t_means / scales - t_log_scales * z
    log_density = -0.5 * np.sum(z**2, axis=2) - np.sum(log_scales, axis=1)
    t_log_density = -np.sum(z * t_z, axis=2) - t_log_scales.sum(axis=1)
    weights = np.exp(logits) / np.exp(logits).sum()
    t_log_weights = t_logits - weights @ t_logits
    joint = weights * np.exp(log_density)
    total = joint.sum(axis=1)
    constant = 0.5 * x.shape[0] * means.shape[1] * np.log(2.0 * np.pi)
    share = joint / total[:, None]
    out = np.sum(np.log(total)) - constant
    return out, np.sum(share * (t_log_weights + t_log_density))


def gaussian_mixture_hvp(logits, means, log_scales, x, t_logits, t_means, t_log_scales):
    scales = np.exp(log_scales)
    z = (x[:, None, :] - means) / scales
    t_z = -t_means / scales - t_log_scales * z
    log_density = -0.5 * np.sum(z**2, axis=2) - np.sum(log_scales, axis=1)
    t_log_density = -np.sum(z * t_z, axis=2) - t_log_scales.sum(axis=1)
    weights = np.exp(logits) / np.exp(logits).sum()
    t_log_weights = t_logits - weights @ t_logits
    joint = weights * np.exp(log_density)
    share = joint / joint.sum(axis=1, keepdims=True)
    t_joint = t_log_weights + t_log_density
    t_share = share * (t_joint - np.sum(share * t_joint, axis=1, keepdims=True))
    t_weights = weights * t_log_weights
    t_d_logits = t_share.sum(axis=0) - x.shape[0] * t_weights
    shared_z = share[..., None] * z
    t_shared_z = t_share[..., None] * z + share[..., None] * t_z
    t_d_means = (t_shared_z.sum(axis=0) - t_log_scales * shared_z.sum(axis=0)) / scales
    t_d_log_scales = np.sum(t_shared_z * z + shared_z * t_z, axis=0)
    t_d_log_scales -= t_share.sum(axis=0)[:, None]
    return t_d_logits, t_d_means, t_d_log_scales
