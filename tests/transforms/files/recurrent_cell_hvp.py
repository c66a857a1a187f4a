"""Hessian of `recurrent_cell` (models.py:47) times a vector.  Needs NumPy only."""

import numpy as np


def recurrent_cell_hvp(params, inputs, target, t_params):
    # forward
    state = params["start"]
    t_state = t_params["start"]
    states = [state]
    t_states = [t_state]
    for t in range(5):  # models.py:50
        part = inputs[t]
        matmul = state @ t_params["w"]
        state = np.tanh(part @ params["w_in"] + state @ params["w"] + params["b"])
        t_state_pre = part @ t_params["w_in"] + (t_state @ params["w"] + matmul)
        t_state = (t_state_pre + t_params["b"]) * (1.0 - state * state)  # models.py:51
        states.append(state)
        t_states.append(t_state)  # models.py:50
    error = state - target  # models.py:52
    # backward
    d_state = error
    t_d_state = t_state
    t_d_w_in = np.zeros_like(params["w_in"])
    t_d_w = np.zeros_like(params["w"])
    t_d_b = np.zeros_like(params["b"])
    for t in reversed(range(5)):  # of models.py:50
        state = states[t + 1]
        d_diff = 1.0 - state * state
        d_product = d_state * d_diff
        t_d_product = t_d_state * d_diff - 2.0 * t_states[t + 1] * state * d_state
        t_d_b += t_d_product.sum(axis=0)
        d_state = d_product @ params["w"].T
        t_d_state = t_d_product @ params["w"].T + d_product @ t_params["w"].T
        t_d_w = t_d_w + (t_states[t].T @ d_product + states[t].T @ t_d_product)
        t_d_w_in += inputs[t].T @ t_d_product  # of models.py:51
    return {"start": t_d_state, "w_in": t_d_w_in, "w": t_d_w, "b": t_d_b}
