"""The examples run, and the generated files beside them are what they generate."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@pytest.mark.slow
def test_digits(tmp_path: Path) -> None:
    """Both models are fitted, the network well enough, and both files are as here."""
    command = [sys.executable, str(EXAMPLES / "digits.py"), "--out", str(tmp_path)]
    plain = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, env=plain, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("# backward") >= 2
    written = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    beside = {p.name: p.read_bytes() for p in EXAMPLES.glob("digits_*_grad*")}
    assert set(written) == {
        "digits_network_grad.py",
        "digits_softmax_regression_grad.py",
    }
    assert written == beside


def example(name: str) -> ModuleType:
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_optax_loop() -> None:
    """The gradients go into an Optax optimizer, and the loss falls by a hundred."""
    pytest.importorskip("optax")
    losses = example("optax_loop").train()
    assert losses[-1] < 1e-2 * losses[0]


def test_newton_methods() -> None:
    """The optimizers find the known minimum, with few steps, and the root."""
    methods = example("newton_methods")
    start = np.full(20, 0.5)
    for solve in (methods.by_products, methods.by_hessians):
        found = solve(start)
        np.testing.assert_allclose(found.x, np.ones(20), rtol=1e-6)
        assert found.nit < 60
    found = methods.by_sparse_jacobians(-np.ones(200))
    assert found.success
    assert np.max(np.abs(found.fun)) < 1e-8
    assert found.njev < 20


@pytest.mark.slow
def test_benchmark_of_transforms() -> None:
    """It runs; a short look judges no time."""
    script = EXAMPLES.parent / "benchmarks" / "transforms.py"
    command = [sys.executable, str(script), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_eager_digits() -> None:
    """The network learns, and on PyTorch the same program has the same losses."""
    digits = example("eager_digits")
    ours = importlib.import_module("tracegrad.eager")
    with ours.autograd.set_compiled_backward(True):
        losses, right, network = digits.train(ours, 4)
    assert losses[-1] < 0.5 * losses[0]
    assert right > 0.9
    loss = network(ours.ones(2, 64)).sum()
    assert "np.maximum(" in str(loss.source())
    torch = pytest.importorskip("torch")
    theirs, same, _ = digits.train(torch, 4)
    np.testing.assert_allclose(losses, theirs, rtol=1e-4)
    assert right == pytest.approx(same, abs=0.004)


def test_eager_tour(capsys: pytest.CaptureFixture) -> None:
    """All steps hold, and print the same on PyTorch."""
    tour = example("eager_tour")
    tour.main()
    printed = capsys.readouterr().out
    assert "10. And the program" in printed
    torch = pytest.importorskip("torch")
    tour.torch = torch
    tour.main()
    assert printed.startswith(capsys.readouterr().out)
