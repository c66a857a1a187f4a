"""The page of transformations shows what they print, and all of them."""

from __future__ import annotations

import importlib.util
import re

import numpy as np
from transforms.texts import DOCS

import tracegrad as tg

PAGE = (DOCS / "transforms.md").read_text()


def printed(folder) -> list[str]:
    """The sources of the page."""
    written = re.findall(r"```python\n(.*?)```", PAGE, re.S)[0]
    (folder / "model.py").write_text(written)
    spec = importlib.util.spec_from_file_location("page_model", folder / "model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model, w, x, t = module.model, np.ones(3), np.ones((5, 3)), np.ones(3)
    return [
        str(tg.hvp(model).source((w, x), (t, None))),
        str(tg.hessian(model).source(w, x)),
        str(tg.vmap(tg.grad(model), in_axes=(0, None)).source(np.ones((4, 3)), x)),
    ]


def test_the_page_shows_the_emitted_source(tmp_path):
    assert re.findall(r"```python\n(.*?)```", PAGE, re.S)[1:] == printed(tmp_path)


def test_the_page_has_every_transformation():
    text = (DOCS.parent / "tracegrad" / "__init__.py").read_text()
    names = re.search(r"# transformations\n(.*?)# branches", text, re.S)[1]
    for name in re.findall(r'"(\w+)"', names):
        assert f"`tg.{name}(" in PAGE, name
