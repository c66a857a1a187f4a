"""The examples run, and the generated files beside them are what they generate."""

import os
import subprocess
import sys
from pathlib import Path

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
