"""Writes docs/coverage.md, the table of functions: `python docs/make_coverage.py`.

With `--measure` it first runs those calls of tests/functions that are new on tracegrad,
autograd and JAX, with `--measure-all` all of them, which takes minutes, and keeps what
came of them in docs/measured.json.
"""

import json
import re
import sys
import warnings
from importlib.metadata import version as version_of
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


HERE = Path(__file__).parent
MEASURED = HERE / "measured.json"
# What a note says of single points, not of the whole function.
AT_A_POINT = re.compile(r"\bat\b|equal|tie|infinite|nan|jump|inside|outside|zero|\b0\b")
COLUMNS = ("tracegrad", "autograd", "jax")
CHOICES = """
## Choices at kinks, jumps and ties

Where a derivative is not unique or does not exist, one was chosen; each is in the
docstring of its op, from which this table is made.

| choice | functions |
| --- | --- |
"""
BESIDE = """
## Beside autograd and JAX

Measured with {versions}:
{count} calls as users write them (tests/functions/calls.txt, without a change for any
library), on one set of arrays.

- **right**: value and derivative agree with NumPy and SciPy and with differences of
  these; `2 of 3` if that holds for some of the calls, and the others raise an error.
- **wrong**: an answer that is not right, without an error, to one of the calls.
- **missing**: each call raises an error.

What was wrong is listed below the table.

| function | {columns} |
"""


def page() -> str:
    """The text of the page."""
    version = ".".join(np.__version__.split(".")[:2])
    return HEAD.format(version=version) + tg.support().markdown() + choices() + beside()


def choices() -> str:
    """The part of the page that lists what was chosen, by the choice."""
    found: dict[str, list[str]] = {}
    for entry in tg.support():
        if entry.derivative == "yes" and AT_A_POINT.search(entry.notes):
            found.setdefault(entry.notes, []).append(f"`{entry.name}`")
    lines = [f"| {note} | {', '.join(names)} |" for note, names in found.items()]
    return CHOICES + "\n".join(line.replace("||", "\\|\\|") for line in lines) + "\n"


def beside() -> str:
    """The part of the page that compares the libraries."""
    stored = json.loads(MEASURED.read_text())
    names = stored["versions"]
    calls = stored["calls"]
    head = BESIDE.format(
        versions=", ".join(f"{name} {number}" for name, number in names.items()),
        count=len(calls),
        columns=" | ".join(COLUMNS),
    )
    lines = ["| --- " * (1 + len(COLUMNS)) + "|"]
    functions = dict.fromkeys(call["name"] for call in calls)
    for function in functions:
        own = [call for call in calls if call["name"] == function]
        cells = [cell([call[library][0] for call in own]) for library in COLUMNS]
        lines.append(f"| `{function}` | {' | '.join(cells)} |")
    lines += ["", "Wrong without an error:", ""]
    for call in calls:
        for library in COLUMNS:
            verdict, said = call[library]
            if verdict == "wrong":
                lines.append(f"- {library}, `{call['text']}`: {said}")
    return head + "\n".join(lines) + "\n"


def cell(verdicts: list[str]) -> str:
    """What one library does on the calls of one function."""
    if "wrong" in verdicts:
        return "wrong"
    right = verdicts.count("right")
    if right in (0, len(verdicts)):
        return "right" if right else "missing"
    return f"{right} of {len(verdicts)}"


def measure(known: dict[str, dict]) -> dict:
    """What the libraries do on all calls; what is `known` of a text is taken as is."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    from functions.calls import CALLS
    from functions.measure import LIBRARIES

    calls = []
    for call in CALLS:
        if call.text in known:
            calls.append({**known[call.text], "name": call.name})
            continue
        found = {"name": call.name, "text": call.text}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for library in COLUMNS:
                verdict, said = LIBRARIES[library](call)
                found[library] = [verdict, said if verdict == "wrong" else ""]
        calls.append(found)
    packages = ("numpy", "scipy", "autograd", "jax")
    return {"versions": {p: version_of(p) for p in packages}, "calls": calls}


if __name__ == "__main__":
    if "--measure" in sys.argv or "--measure-all" in sys.argv:
        stored = json.loads(MEASURED.read_text())["calls"]
        again = "--measure-all" in sys.argv
        known = {} if again else {call["text"]: call for call in stored}
        MEASURED.write_text(json.dumps(measure(known), indent=0) + "\n")
    (HERE / "coverage.md").write_text(page())
