"""The text of emitted transformations, byte for byte."""

from __future__ import annotations

import subprocess
import sys

import pytest
from transforms.texts import FILES, sources

TEXTS = sources()


def test_no_file_is_left_over():
    assert {p.stem for p in FILES.glob("*.py")} == set(TEXTS)


@pytest.mark.parametrize("name", TEXTS)
def test_text(name):
    assert (FILES / f"{name}.py").read_text() == TEXTS[name]


def test_texts_are_formatted():
    made = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--isolated", "--check", str(FILES)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout
