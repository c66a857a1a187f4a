"""Value and tangent of `recurrent_cell` (models.py:47).  Needs NumPy only."""

import numpy as np


def recurrent_cell_jvp(params, inputs, target, t_params):
    state = params["start"]
    t_state = t_params["start"]
    for t in range(5):  # models.py:50
        part = inputs[t]
        matmul = state @ t_params["w"]
        state = np.tanh(part @ params["w_in"] + state @ params["w"] + params["b"])
        t_state_pre = part @ t_params["w_in"] + (t_state @ params["w"] + matmul)
        t_state = (t_state_pre + t_params["b"]) * (1.0 - state * state)  # models.py:51
    error = state - target  # models.py:52
    t_out = np.sum(t_state * error)
    out = 0.5 * np.sum(error**2)  # models.py:53
    return out, t_out
