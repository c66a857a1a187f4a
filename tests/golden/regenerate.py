"""Writes the golden files and `docs/statements.md` anew.

    python tests/golden/regenerate.py

Read the difference before you commit it: these files are what users see.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tracegrad as tg
from golden.models import MODELS, Model
from golden.statements import FILES, golden_file, page

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


def emit(model: Model, path: Path) -> None:
    """Saves the gradient of a model, with whatever files lie beside it."""
    vg = tg.value_and_grad(model.function, argnums=model.argnums)
    vg.source(*model.args()).save(path)


if __name__ == "__main__":
    FILES.mkdir(exist_ok=True)
    for each in MODELS.values():
        emit(each, golden_file(each.name))
    stems = {golden_file(name).stem for name in MODELS}
    for path in FILES.iterdir():
        if path.is_file() and path.stem not in stems:
            path.unlink()
    (DOCS / "statements.md").write_text(page())
