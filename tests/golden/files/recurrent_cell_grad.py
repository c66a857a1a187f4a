"""Value and gradient of `recurrent_cell` (models.py:47) with respect to `params`.

Needs NumPy only.
"""

import numpy as np


def check_shapes(spec, *arrays):
    """Raise ValueError unless the arrays have the shapes that `spec` says.

    Equal names stand for equal sizes of at least 2: an axis of size 1 would broadcast,
    and needs a gradient of its own.
    """
    sizes = {}
    for part, array in zip(spec.split("; "), arrays, strict=True):
        wanted = part[part.index("[") + 1 : -1].split(", ")
        found = np.shape(array)
        if len(found) != len(wanted):
            raise ValueError(f"{part} is needed, not an array of shape {found}")
        for text, size in zip(wanted, found, strict=True):
            number = int(text) if text.isdigit() else sizes.setdefault(text, size)
            if size != number or size < 2 and text.isidentifier():
                raise ValueError(f"{part} of {spec} does not fit the shape {found}")


def check_arguments(params, inputs, target):
    """Raise ValueError for arguments that the gradient was not derived for."""
    check_shapes(
        "params['start'][n, m]; params['w_in'][k, m]; params['w'][m, m]; params['b'][m]; inputs[p, n, k]; target[n, m]",
        params["start"],
        params["w_in"],
        params["w"],
        params["b"],
        inputs,
        target,
    )


def recurrent_cell(params, inputs, target):
    """Squared error of the state of a tanh cell after five steps."""
    check_arguments(params, inputs, target)
    w_in = params["w_in"]
    w = params["w"]
    b = params["b"]
    state = np.tanh(inputs[0] @ w_in + params["start"] @ w + b)
    state_2 = np.tanh(inputs[1] @ w_in + state @ w + b)
    state_3 = np.tanh(inputs[2] @ w_in + state_2 @ w + b)
    state_4 = np.tanh(inputs[3] @ w_in + state_3 @ w + b)
    state_5 = np.tanh(inputs[4] @ w_in + state_4 @ w + b)  # models.py:51
    error = state_5 - target  # models.py:52
    return 0.5 * np.sum(error**2)


def recurrent_cell_vjp(params, inputs, target):
    """Value and pullback of `recurrent_cell` (models.py:47) with respect to
    `params`.
    """
    check_arguments(params, inputs, target)
    w_in = params["w_in"]
    w = params["w"]
    b = params["b"]
    # forward
    state = np.tanh(inputs[0] @ w_in + params["start"] @ w + b)
    state_2 = np.tanh(inputs[1] @ w_in + state @ w + b)
    state_3 = np.tanh(inputs[2] @ w_in + state_2 @ w + b)
    state_4 = np.tanh(inputs[3] @ w_in + state_3 @ w + b)
    state_5 = np.tanh(inputs[4] @ w_in + state_4 @ w + b)  # models.py:51
    error = state_5 - target  # models.py:52
    out = 0.5 * np.sum(error**2)  # models.py:53

    def pullback(d_out):
        d_state_5_pre = d_out * error * (1.0 - state_5 * state_5)
        d_b = d_state_5_pre.sum(axis=0)
        d_state_4 = d_state_5_pre @ w.T
        d_w = state_4.T @ d_state_5_pre
        d_w_in = inputs[4].T @ d_state_5_pre
        d_state_4_pre = d_state_4 * (1.0 - state_4 * state_4)
        d_b += d_state_4_pre.sum(axis=0)
        d_state_3 = d_state_4_pre @ w.T
        d_w += state_3.T @ d_state_4_pre
        d_w_in += inputs[3].T @ d_state_4_pre
        d_state_3_pre = d_state_3 * (1.0 - state_3 * state_3)
        d_b += d_state_3_pre.sum(axis=0)
        d_state_2 = d_state_3_pre @ w.T
        d_w += state_2.T @ d_state_3_pre
        d_w_in += inputs[2].T @ d_state_3_pre
        d_state_2_pre = d_state_2 * (1.0 - state_2 * state_2)
        d_b += d_state_2_pre.sum(axis=0)
        d_state = d_state_2_pre @ w.T
        d_w += state.T @ d_state_2_pre
        d_w_in += inputs[1].T @ d_state_2_pre
        d_state_pre = d_state * (1.0 - state * state)
        d_b += d_state_pre.sum(axis=0)
        d_start = d_state_pre @ w.T
        d_w += params["start"].T @ d_state_pre
        d_w_in += inputs[0].T @ d_state_pre  # of models.py:51
        return ({"start": d_start, "w_in": d_w_in, "w": d_w, "b": d_b},)

    return out, pullback


def recurrent_cell_value_and_grad(params, inputs, target):
    """Value and gradient of `recurrent_cell` (models.py:47) with respect to
    `params`.
    """
    check_arguments(params, inputs, target)
    w_in = params["w_in"]
    w = params["w"]
    b = params["b"]
    # forward
    state = np.tanh(inputs[0] @ w_in + params["start"] @ w + b)
    state_2 = np.tanh(inputs[1] @ w_in + state @ w + b)
    state_3 = np.tanh(inputs[2] @ w_in + state_2 @ w + b)
    state_4 = np.tanh(inputs[3] @ w_in + state_3 @ w + b)
    state_5 = np.tanh(inputs[4] @ w_in + state_4 @ w + b)  # models.py:51
    error = state_5 - target  # models.py:52
    out = 0.5 * np.sum(error**2)  # models.py:53
    # backward
    d_state_5_pre = error * (1.0 - state_5 * state_5)
    d_b = d_state_5_pre.sum(axis=0)
    d_state_4 = d_state_5_pre @ w.T
    d_w = state_4.T @ d_state_5_pre
    d_w_in = inputs[4].T @ d_state_5_pre
    d_state_4_pre = d_state_4 * (1.0 - state_4 * state_4)
    d_b += d_state_4_pre.sum(axis=0)
    d_state_3 = d_state_4_pre @ w.T
    d_w += state_3.T @ d_state_4_pre
    d_w_in += inputs[3].T @ d_state_4_pre
    d_state_3_pre = d_state_3 * (1.0 - state_3 * state_3)
    d_b += d_state_3_pre.sum(axis=0)
    d_state_2 = d_state_3_pre @ w.T
    d_w += state_2.T @ d_state_3_pre
    d_w_in += inputs[2].T @ d_state_3_pre
    d_state_2_pre = d_state_2 * (1.0 - state_2 * state_2)
    d_b += d_state_2_pre.sum(axis=0)
    d_state = d_state_2_pre @ w.T
    d_w += state.T @ d_state_2_pre
    d_w_in += inputs[1].T @ d_state_2_pre
    d_state_pre = d_state * (1.0 - state * state)
    d_b += d_state_pre.sum(axis=0)
    d_start = d_state_pre @ w.T
    d_w += params["start"].T @ d_state_pre
    d_w_in += inputs[0].T @ d_state_pre  # of models.py:51
    return out, {"start": d_start, "w_in": d_w_in, "w": d_w, "b": d_b}
