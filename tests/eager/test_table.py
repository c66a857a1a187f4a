"""docs/eager.md says what is there."""

import importlib.util
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


def test_the_page_is_not_stale():
    """Run `python docs/make_eager.py` if it is."""
    spec = importlib.util.spec_from_file_location("eager", DOCS / "make_eager.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = (DOCS / "eager.md").read_text()
    version = torch.__version__.split("+")[0]
    if f"from PyTorch {version}." not in written:
        pytest.skip("the page was made from another PyTorch")
    assert module.page() == written


def test_the_page_is_about_the_names_that_matter():
    written = (DOCS / "eager.md").read_text()
    assert written.count("| works |") > 500
    for name in ("backward", "matmul", "cross_entropy", "hessian", "rfft", "solve"):
        assert f"| `{name}` | works |" in written
