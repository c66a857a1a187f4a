"""The README shows what tracegrad prints."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

README = Path(__file__).resolve().parent.parent / "README.md"


def test_the_readme_shows_the_emitted_source(tmp_path) -> None:
    if not README.exists():
        pytest.skip("the README is not beside these tests")
    written, printed = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)[:2]
    model = tmp_path / "model.py"
    model.write_text(written.split("\nvalue, d_w")[0])
    spec = importlib.util.spec_from_file_location("readme_model", model)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    loss = module.loss
    w, x, y = np.ones(3), np.ones((5, 3)), np.zeros(5)
    loss(w, x, y)
    assert str(loss.source(w, x, y)) == printed
