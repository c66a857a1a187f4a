"""The emitted gradients of the models: their text, and their numbers.

`python tests/golden/regenerate.py` writes the files anew.
"""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from golden import oracles
from golden.models import MODELS, Model
from golden.regenerate import DOCS, emit
from golden.statements import FILES, golden_file, page

EVERY = pytest.mark.parametrize("model", MODELS.values(), ids=list(MODELS))

# Runs a golden file where an import of tracegrad fails, on pickled arguments.
RUN_ALONE = """
import importlib.util, pickle, sys

sys.modules["tracegrad"] = None
path, function = sys.argv[1:]
spec = importlib.util.spec_from_file_location("golden", path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
args = pickle.load(sys.stdin.buffer)
pickle.dump(getattr(module, function)(*args), sys.stdout.buffer)
print(*sys.modules, file=sys.stderr)
"""


def run_alone(model: Model, cwd: Path) -> tuple[object, set[str]]:
    """Value and gradient by the golden file in a fresh process, and its imports."""
    function = f"{model.name}_value_and_grad"
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALONE, str(golden_file(model.name)), function],
        input=pickle.dumps(model.args()),
        capture_output=True,
        cwd=cwd,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    loaded = {name.partition(".")[0] for name in done.stderr.decode().split()}
    return pickle.loads(done.stdout), loaded


@EVERY
def test_text(model: Model, tmp_path: Path) -> None:
    """What is emitted now is the golden file, byte for byte."""
    path = tmp_path / golden_file(model.name).name
    emit(model, path)
    assert path.read_text() == golden_file(model.name).read_text()
    # Arrays that a file needs lie beside it, under its own name.
    beside = sorted(p.name for p in FILES.glob(f"{path.stem}.*"))
    assert sorted(p.name for p in tmp_path.iterdir()) == beside


@EVERY
def test_runs_alone(model: Model, tmp_path: Path) -> None:
    """The file needs NumPy, and SciPy where the user's function does; it is right."""
    found, loaded = run_alone(model, tmp_path)
    assert not loaded & {"optree", "astunparse", "opt_einsum", "jax", "autograd"}
    oracles.assert_trees_close(found, oracles.autograd_value_and_grad(model))
    oracles.assert_trees_close(found, oracles.jax_value_and_grad(model))


def test_no_file_is_left_over() -> None:
    """Every file belongs to a model."""
    stems = {golden_file(name).stem for name in MODELS}
    found = {p.stem for p in FILES.iterdir() if p.is_file()}
    assert found == stems


def test_files_are_formatted() -> None:
    """`ruff format` would leave the emitted text as it is."""
    command = [sys.executable, "-m", "ruff", "format", "--check", "--isolated"]
    files = [str(golden_file(name)) for name in MODELS]
    done = subprocess.run(
        command + files, capture_output=True, text=True, check=False, cwd=FILES
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_table_of_statements() -> None:
    """The page in `docs` has the counts of the golden files as they are."""
    assert (DOCS / "statements.md").read_text() == page()
