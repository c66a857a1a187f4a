"""The README shows what tracegrad prints."""

import re
from pathlib import Path

import numpy as np
import pytest

README = Path(__file__).resolve().parent.parent / "README.md"


def test_the_readme_shows_the_emitted_source(tmp_path, monkeypatch) -> None:
    if not README.exists():
        pytest.skip("the README is not beside these tests")
    written, printed = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)[:2]
    model = tmp_path / "model.py"
    model.write_text(written.split("\nvalue, d_w")[0])
    monkeypatch.syspath_prepend(tmp_path)
    loss = __import__("model").loss
    w, x, y = np.ones(3), np.ones((5, 3)), np.zeros(5)
    loss(w, x, y)
    assert str(loss.source(w, x, y)) == printed
