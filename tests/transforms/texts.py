"""The golden files of the transformations; run as a script it writes them anew.

`python tests/transforms/texts.py` with `tests` on the path (`PYTHONPATH=tests`).  It
writes `docs/statements_of_transforms.md` too.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import tracegrad as tg
from golden.models import MODELS, gaussian_mixture, linear_regression, rosenbrock
from golden.statements import count_statements, table
from tracegrad.ir.tree import Leaf, build, map_leaves, restore

FILES = Path(__file__).resolve().parent / "files"
DOCS = FILES.parent.parent.parent / "docs"


PUSHED = [
    "linear_regression",
    "rosenbrock",
    "two_layer_network",
    "recurrent_cell",
    "gaussian_mixture",
    "in_place_slices",
    "broadcast_mix",
]


def _directions(x, rng):
    made = map_leaves(build(x, Leaf), lambda v: rng.normal(size=np.shape(v))[()])
    return restore(made, lambda v: v)


def products() -> dict[str, tuple]:
    """Name of a file -> a forward derivative or Hessian product, and its arguments."""
    found = {}
    for name in PUSHED:
        model, rng = MODELS[name], np.random.default_rng(0)
        args, wrt = model.args(), model.argnums
        wrt = wrt if isinstance(wrt, tuple) else (wrt,)
        moved = [_directions(x, rng) if i in wrt else None for i, x in enumerate(args)]
        for transform in (tg.jvp, tg.hvp):
            made = transform(model.function)
            found[f"{name}_{transform.__name__}"] = made, (args, tuple(moved))
    return found


def _row_model(w, b, x):
    """Several results, of which a Jacobian has a row each."""
    return np.tanh(x @ w + b)


def barrier(x, c, a, b):
    """A linear program with a barrier: what Newton's method minimizes in it."""
    return c @ x - np.sum(np.log(b - a @ x))


BARRIER = (
    np.array([0.1, 0.2, -0.1]),
    np.array([1.0, -1.0, 0.5]),
    np.arange(12.0).reshape(4, 3) / 10 - 0.5,
    np.array([1.0, 1.5, 2.0, 2.5]),
)


def hessians() -> dict[str, tuple]:
    """Name of a file -> a Hessian, and what it is called with."""
    found: dict[str, tuple] = {"barrier_hessian": (tg.hessian(barrier), BARRIER)}
    for name in (
        "linear_regression",
        "logistic_regression",
        "rosenbrock",
        "in_place_slices",
    ):
        model = MODELS[name]
        made = tg.hessian(model.function, argnums=model.argnums)
        found[f"{name}_hessian"] = made, model.args()
    return found


def one_row(w, b, x, y):
    """The loss of one example."""
    return linear_regression(w, b, x[None], y[None])


def batches() -> dict[str, tuple]:
    """Name of a file -> a mapped function, and what it is called with."""
    w, b, x, y = MODELS["linear_regression"].args()
    many = np.random.default_rng(0).normal(size=(7, 6))
    logits, means, scales, data = MODELS["gaussian_mixture"].args()
    first = (0, None, None, None)
    return {
        "linear_regression_vmap": (
            tg.vmap(linear_regression, (0, 0, None, None)),
            (np.stack([w, 2.0 * w]), np.array([0.1, 0.2]), x, y),
        ),
        "one_row_grad_vmap": (
            tg.vmap(tg.grad(one_row), (None, None, 0, 0)),
            (w, b, x, y),
        ),
        "rosenbrock_grad_vmap": (tg.vmap(tg.grad(rosenbrock)), (many,)),
        "rosenbrock_hessian_vmap": (tg.vmap(tg.hessian(rosenbrock)), (many,)),
        "gaussian_mixture_vmap": (
            tg.vmap(gaussian_mixture, first),
            (np.stack([logits, 2.0 * logits]), means, scales, data),
        ),
    }


def pushed(args: tuple) -> tuple:
    """The arguments as the emitted function takes them: primals, then tangents."""
    if len(args) == 2 and isinstance(args[0], tuple):
        return (*args[0], *[t for t in args[1] if t is not None])
    return args


EMITTED = products() | hessians() | batches()


def statements() -> dict[str, tuple[int, int]]:
    """Name of a file -> its statements, and those of the function by hand."""
    hand = (FILES.parent / "by_hand.py").read_text()
    return {
        name: (
            count_statements(str(made.source(*args)), made.source(*args).name),
            count_statements(hand, name),
        )
        for name, (made, args) in EMITTED.items()
    }


STATEMENTS = statements()
PAGE = f"""# Statements of second-order, forward and batched derivatives

As [statements.md](statements.md): the functions in `tests/transforms/files` beside
those in `tests/transforms/by_hand.py`. Statements of helpers that a file defines, such
as `logsumexp_and_softmax`, don't count. `tests/transforms/texts.py` writes this page.

{
    table(
        {name: emitted for name, (emitted, _) in STATEMENTS.items()},
        {name: hand for name, (_, hand) in STATEMENTS.items()},
    )
}"""


def sources() -> dict[str, str]:
    """Name of a file -> its text."""
    found = {name: made.source(*args) for name, (made, args) in EMITTED.items()}
    found["row_model_jacobian"] = tg.jacrev(_row_model, argnums=(0, 1)).source(
        np.ones(3), 0.5, np.ones((5, 3))
    )
    return {name: str(source) for name, source in found.items()}


if __name__ == "__main__":
    FILES.mkdir(exist_ok=True)
    for name, text in sources().items():
        (FILES / f"{name}.py").write_text(text)
    (DOCS / "statements_of_transforms.md").write_text(PAGE)
