"""What the README shows is what tracegrad does."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

README = Path(__file__).resolve().parent.parent / "README.md"


def blocks() -> list[str]:
    """The Python texts of the README, in order."""
    if not README.exists():
        pytest.skip("the README is not beside these tests")
    return re.findall(r"```python\n(.*?)```", README.read_text(), re.S)


def model(text: str, folder: Path):
    """What is defined in a block before its first call, as a module `model.py`."""
    path = folder / "model.py"
    path.write_text(text.split("\nvalue, d_")[0])
    spec = importlib.util.spec_from_file_location("readme_model", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_readme_shows_the_emitted_source(tmp_path) -> None:
    written, printed = blocks()[:2]
    loss = model(written, tmp_path).loss
    w, x, y = np.ones(3), np.ones((5, 3)), np.zeros(5)
    loss(w, x, y)
    assert str(loss.source(w, x, y)) == printed


def test_the_readme_shows_the_loop(tmp_path) -> None:
    written, printed = blocks()[2:4]
    root = model(written, tmp_path).root
    value, d_a = root(2.0)
    np.testing.assert_allclose(value, np.sqrt(2.0), rtol=1e-12)
    np.testing.assert_allclose(d_a, 0.5 / np.sqrt(2.0), rtol=1e-9)
    assert str(root.source(2.0)) == printed


def test_the_transformations_of_the_readme() -> None:
    import tracegrad as tg

    lines = blocks()[4].splitlines()
    names = {"np": np, "tg": tg}
    exec("\n".join(lines[:2]), names)
    code, _, shown = lines[2].partition("  # ")
    np.testing.assert_array_equal(eval(code, names), eval(shown, {"array": np.array}))
    found = eval(lines[3].partition("  # ")[0], names)
    np.testing.assert_array_equal(found.toarray(), eval(code, names))


def test_the_eager_lines_of_the_readme(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = blocks()[5]
    names: dict = {}
    exec(text, names)
    (shown,) = re.findall(r"w.grad  # (.*)", text)
    assert str(names["w"].grad) == shown
    assert (tmp_path / "graph.svg").read_text().startswith("<svg")
