"""Value and gradient of `recurrent_cell` (models.py:47) with respect to `params`.

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


def check_arguments(params, inputs, target):
    """Raise ValueError for arguments that the gradient was not derived for."""
    if [*params] != ["start", "w_in", "w", "b"]:
        raise ValueError('derived for [*params] == ["start", "w_in", "w", "b"]')
    check_arrays(
        "float params['start'][n, m]; float params['w_in'][k, m]; float params['w'][m, m]; float params['b'][m]; inputs[p, n, k]; target[n, m]",
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
    state = params["start"]
    for t in range(5):  # models.py:50
        # models.py:51
        state = np.tanh(inputs[t] @ params["w_in"] + state @ params["w"] + params["b"])
    error = state - target  # models.py:52
    return 0.5 * np.sum(error**2)


def recurrent_cell_vjp(params, inputs, target):
    """Value and pullback of `recurrent_cell` (models.py:47) with respect to
    `params`.
    """
    check_arguments(params, inputs, target)
    # forward
    state = params["start"]
    states = [state]
    for t in range(5):  # models.py:50
        # models.py:51
        state = np.tanh(inputs[t] @ params["w_in"] + state @ params["w"] + params["b"])
        states.append(state)  # models.py:50
    error = state - target  # models.py:52
    out = 0.5 * np.sum(error**2)  # models.py:53

    def pullback(d_out):
        d_error = d_out * error  # of models.py:53
        d_state = d_error
        d_w_in = np.zeros_like(params["w_in"])
        d_w = np.zeros_like(params["w"])
        d_b = np.zeros_like(params["b"])
        for t in reversed(range(5)):  # of models.py:50
            state = states[t + 1]
            d_product = d_state * (1.0 - state * state)
            d_b += d_product.sum(axis=0)
            d_state = d_product @ params["w"].T
            d_w += states[t].T @ d_product
            d_w_in += inputs[t].T @ d_product  # of models.py:51
        return ({"start": d_state, "w_in": d_w_in, "w": d_w, "b": d_b},)

    return out, pullback


def recurrent_cell_value_and_grad(params, inputs, target):
    """Value and gradient of `recurrent_cell` (models.py:47) with respect to
    `params`.
    """
    check_arguments(params, inputs, target)
    # forward
    state = params["start"]
    states = [state]
    for t in range(5):  # models.py:50
        # models.py:51
        state = np.tanh(inputs[t] @ params["w_in"] + state @ params["w"] + params["b"])
        states.append(state)  # models.py:50
    error = state - target  # models.py:52
    out = 0.5 * np.sum(error**2)  # models.py:53
    # backward
    d_state = error
    d_w_in = np.zeros_like(params["w_in"])
    d_w = np.zeros_like(params["w"])
    d_b = np.zeros_like(params["b"])
    for t in reversed(range(5)):  # of models.py:50
        state = states[t + 1]
        d_product = d_state * (1.0 - state * state)
        d_b += d_product.sum(axis=0)
        d_state = d_product @ params["w"].T
        d_w += states[t].T @ d_product
        d_w_in += inputs[t].T @ d_product  # of models.py:51
    return out, {"start": d_state, "w_in": d_w_in, "w": d_w, "b": d_b}
