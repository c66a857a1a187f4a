"""Reads handwritten digits, with gradients that tracegrad writes.

The data are 1,797 scans of 8 x 8 pixels that come with scikit-learn.  Two models, a
softmax regression and a network with one hidden layer, are fitted to two thirds of
them by L-BFGS and by plain stochastic gradient descent, and tried on the rest.  The
gradient of each loss is printed, saved as a Python file, and that file is run in a
process that cannot import tracegrad.

    python examples/digits.py [--out FOLDER]
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from optree.integrations.numpy import tree_ravel
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.datasets import load_digits

import tracegrad as tg

Params = dict[str, np.ndarray]

DECAY = 1e-3
HIDDEN = 32
LBFGS_STEPS = 150
EPOCHS = 60
BATCH = 50
RATE = 0.3
WANTED = 0.95

# The saved file is run by this, where an import of tracegrad fails.
RUN_ALONE = """
import importlib.util, sys
import numpy as np

sys.modules["tracegrad"] = None
gradient_file, function, given, results = sys.argv[1:]
spec = importlib.util.spec_from_file_location("gradient", gradient_file)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
params = dict(np.load(given))
x, labels = params.pop("x"), params.pop("labels")
value, gradient = getattr(module, function + "_value_and_grad")(params, x, labels)
np.savez(results, value=value, **gradient)
"""

console = Console()


@tg.value_and_grad
def softmax_regression(params, x, labels):
    """Mean cross entropy of a linear classifier, with weight decay."""
    logits = x @ params["w"] + params["b"]
    log_probs = logits - logsumexp(logits, axis=1, keepdims=True)
    fit = -np.mean(log_probs[np.arange(len(labels)), labels])
    return fit + 0.5 * DECAY * np.sum(params["w"] ** 2)


@tg.value_and_grad
def network(params, x, labels):
    """Mean cross entropy of a network with one hidden layer, with weight decay."""
    hidden = np.tanh(x @ params["w1"] + params["b1"])
    logits = hidden @ params["w2"] + params["b2"]
    log_probs = logits - logsumexp(logits, axis=1, keepdims=True)
    fit = -np.mean(log_probs[np.arange(len(labels)), labels])
    penalty = np.sum(params["w1"] ** 2) + np.sum(params["w2"] ** 2)
    return fit + 0.5 * DECAY * penalty


def softmax_logits(params: Params, x: np.ndarray) -> np.ndarray:
    """What the softmax regression says of images x, shape (n, 10)."""
    return x @ params["w"] + params["b"]


def network_logits(params: Params, x: np.ndarray) -> np.ndarray:
    """What the network says of images x, shape (n, 10)."""
    return np.tanh(x @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]


def softmax_start() -> Params:
    """Parameters of the softmax regression to start from."""
    return {"w": np.zeros((64, 10)), "b": np.zeros(10)}


def network_start() -> Params:
    """Parameters of the network to start from."""
    rng = np.random.default_rng(0)
    return {
        "w1": rng.normal(size=(64, HIDDEN)) / 8.0,
        "b1": np.zeros(HIDDEN),
        "w2": rng.normal(size=(HIDDEN, 10)) / np.sqrt(HIDDEN),
        "b2": np.zeros(10),
    }


def load_data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images in [0, 1] and labels: two thirds to fit, one third held out."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    x, labels = digits.data[order] / 16.0, digits.target[order]
    held_out = len(x) // 3
    return x[held_out:], labels[held_out:], x[:held_out], labels[:held_out]


def fit_lbfgs(
    vg: Callable, params: Params, x: np.ndarray, labels: np.ndarray
) -> Params:
    """Fits with SciPy, which wants one flat vector in and one out."""
    start, unravel = tree_ravel(params)

    def flat(vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = vg(unravel(vector), x, labels)
        return value, tree_ravel(gradient)[0]

    with Progress(console=console) as progress:
        task = progress.add_task("L-BFGS", total=LBFGS_STEPS)
        found = minimize(
            flat,
            start,
            jac=True,
            method="L-BFGS-B",
            callback=lambda _: progress.advance(task),
            options={"maxiter": LBFGS_STEPS},
        )
        progress.update(task, completed=LBFGS_STEPS)
    return unravel(found.x)


def fit_sgd(vg: Callable, params: Params, x: np.ndarray, labels: np.ndarray) -> Params:
    """Fits with plain stochastic gradient descent on batches of one size."""
    rng = np.random.default_rng(1)
    with Progress(console=console) as progress:
        for _ in progress.track(range(EPOCHS), description="SGD   "):
            order = rng.permutation(len(x))
            for first in range(0, len(x) - BATCH + 1, BATCH):
                rows = order[first : first + BATCH]
                _, gradient = vg(params, x[rows], labels[rows])
                params = {k: params[k] - RATE * gradient[k] for k in params}
    return params


def check_saved_file(
    path: Path,
    name: str,
    vg: Callable,
    params: Params,
    x: np.ndarray,
    labels: np.ndarray,
) -> None:
    """Runs a saved gradient where tracegrad is missing, and compares its results.

    Args:
        path: The saved file.
        name: The function whose gradient it holds.
        vg: The same gradient in this process.
        params: Where to compare.
        x: Images, shape (n, 64).
        labels: Their digits, shape (n,).

    Raises:
        subprocess.CalledProcessError: The file does not run there.
        AssertionError: It gives other numbers.
    """
    with tempfile.TemporaryDirectory() as folder:
        given, results = Path(folder, "given.npz"), Path(folder, "results.npz")
        np.savez(given, x=x, labels=labels, **params)
        command = [sys.executable, "-c", RUN_ALONE, path, name, given, results]
        subprocess.run([str(part) for part in command], check=True)
        alone = dict(np.load(results))
    value, gradient = vg(params, x, labels)
    np.testing.assert_allclose(alone.pop("value"), value, rtol=1e-12)
    assert alone.keys() == gradient.keys()
    for key, wanted in gradient.items():
        np.testing.assert_allclose(alone[key], wanted, rtol=1e-12, atol=1e-15)


def main() -> int:
    """Runs the example; 1 if the network reads fewer digits than it should."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(__file__).resolve().parent,
        help="folder for the gradient files; by default, that of this script",
    )
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    x, labels, x_held_out, labels_held_out = load_data()
    table = Table("model", "fitted by", "held-out accuracy", title="Digits")
    worst = {}
    for name, vg, logits, start in [
        ("softmax_regression", softmax_regression, softmax_logits, softmax_start),
        ("network", network, network_logits, network_start),
    ]:
        source = vg.source(start(), x, labels)
        console.rule(f"the gradient of {name}")
        print(source)
        for method, fit in [("L-BFGS", fit_lbfgs), ("SGD", fit_sgd)]:
            params = fit(vg, start(), x, labels)
            guess = np.argmax(logits(params, x_held_out), axis=1)
            accuracy = float(np.mean(guess == labels_held_out))
            worst[name] = min(accuracy, worst.get(name, 1.0))
            table.add_row(name, method, f"{accuracy:.1%}")
        path = out / f"digits_{name}_grad.py"
        source.save(path)
        check_saved_file(path, name, vg, params, x, labels)
        console.print(
            f"saved {path.name}; it gives the same where tracegrad is missing"
        )

    console.print(table)
    if worst["network"] < WANTED:
        console.print(f"the network should read at least {WANTED:.0%} of the digits")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
