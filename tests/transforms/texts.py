"""The golden files of the transformations; run as a script it writes them anew.

`python tests/transforms/texts.py` with `tests` on the path (`PYTHONPATH=tests`).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import tracegrad as tg
from golden.models import MODELS, gaussian_mixture, linear_regression, rosenbrock
from tracegrad.ir.tree import Leaf, build, map_leaves, restore

FILES = Path(__file__).resolve().parent / "files"


def _like(x):
    made = map_leaves(build(x, Leaf), lambda v: np.ones(np.shape(v))[()])
    return restore(made, lambda v: v)


def _pushed(transform, name: str):
    model = MODELS[name]
    args = model.args()
    argnums = model.argnums if isinstance(model.argnums, tuple) else (model.argnums,)
    moved = tuple(_like(x) if i in argnums else None for i, x in enumerate(args))
    return transform(model.function).source(args, moved)


def _hessian(name: str):
    model = MODELS[name]
    return tg.hessian(model.function, argnums=model.argnums).source(*model.args())


def _row_model(w, b, x):
    """Several results, of which a Jacobian has a row each."""
    return np.tanh(x @ w + b)


def sources() -> dict[str, str]:
    """Name of a file -> its text."""
    found = {}
    for name in (
        "linear_regression",
        "rosenbrock",
        "two_layer_network",
        "recurrent_cell",
        "gaussian_mixture",
    ):
        found[f"{name}_jvp"] = _pushed(tg.jvp, name)
        found[f"{name}_hvp"] = _pushed(tg.hvp, name)
    for name in (
        "linear_regression",
        "logistic_regression",
        "rosenbrock",
        "in_place_slices",
        "broadcast_mix",
    ):
        found[f"{name}_hessian"] = _hessian(name)
    w, b, x, y = MODELS["linear_regression"].args()
    axes = (None, None, 0, 0)
    found["linear_regression_vmap"] = tg.vmap(
        linear_regression, (0, 0, None, None)
    ).source(np.stack([w, w]), np.ones(2), x, y)
    per_example = tg.grad(lambda w, b, x, y: linear_regression(w, b, x[None], y[None]))
    found["per_example_grad"] = tg.vmap(per_example, axes).source(w, b, x, y)
    many = np.random.default_rng(0).normal(size=(7, 6))
    found["rosenbrock_grad_vmap"] = tg.vmap(tg.grad(rosenbrock)).source(many)
    found["rosenbrock_hessian_vmap"] = tg.vmap(tg.hessian(rosenbrock)).source(many)
    logits, means, scales, data = MODELS["gaussian_mixture"].args()
    found["gaussian_mixture_vmap"] = tg.vmap(
        gaussian_mixture, (0, None, None, None)
    ).source(np.stack([logits] * 4), means, scales, data)
    inputs = np.ones((5, 3))
    found["row_model_jacobian"] = tg.jacrev(_row_model, argnums=(0, 1)).source(
        np.ones(3), 0.5, inputs
    )
    return {name: str(source) for name, source in found.items()}


if __name__ == "__main__":
    FILES.mkdir(exist_ok=True)
    for name, text in sources().items():
        (FILES / f"{name}.py").write_text(text)
