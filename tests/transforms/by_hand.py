"""Forward derivatives and Hessian products of golden functions, written by hand."""

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
