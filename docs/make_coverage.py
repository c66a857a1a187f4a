"""Writes docs/coverage.md, the table of functions: `python docs/make_coverage.py`."""

from pathlib import Path

import numpy as np

import tracegrad as tg

HEAD = """\
# Functions with a derivative

Made by `python docs/make_coverage.py` from the registry of ops, with NumPy {version};
`tg.support()` gives the same table, `tg.support(np.interp)` one entry.

- **derivative**: `yes`; `constant` where the result is piecewise constant, or has no
  derivative by its nature, so that none goes through it; `no` where a traced argument
  raises `UnsupportedError`.  Nothing is ever zero in silence.
- Derivatives work in reverse and in forward mode, to any order.
- **sources**: whether NumPy source can be generated, and JAX source.
- **notes**: what was chosen where a derivative is not unique or does not exist: at
  kinks, jumps and ties.
- `reduce`, `accumulate`, `reduceat`, `outer` and `at` of every ufunc of two arguments
  with a derivative work too; listed are those with a rule of their own.
- A function of `scipy` is listed once; `scipy` is imported only if you use it.
"""


def page() -> str:
    """The text of the page."""
    version = ".".join(np.__version__.split(".")[:2])
    return HEAD.format(version=version) + tg.support().markdown()


if __name__ == "__main__":
    (Path(__file__).parent / "coverage.md").write_text(page())
