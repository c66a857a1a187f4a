"""Calls of NumPy and SciPy as users write them, of `calls.txt` and of distributions.

The names of arrays in them are keys of `inputs()`, and what is differentiated are the
real and complex ones among them.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# The arguments of each continuous distribution; `p` takes the place of the first one
# where a method wants a probability.
STATS = """
norm: x, y - 0.5, 0.5 + p[0]
t: x, 3.0, y
gamma: x, 2.0
beta: p, 2.0, 1.5
chi2: x, 3.0
expon: x, 0.1, 0.5 + p[0]
lognorm: x, 0.7
laplace: x, y
logistic: x, y
cauchy: x, y
uniform: p, 0.0, 0.5 + x
pareto: 1.0 + x, 1.5
weibull_min: x, 1.5
invgamma: x, 2.5
"""

METHODS_OF_STATS = ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf", "ppf")


@dataclass(frozen=True)
class Call:
    """One call.

    Attributes:
        name: of the function, as docs/coverage.md lists it.
        text: what is run: an expression, or statements and an expression.
    """

    name: str
    text: str

    @property
    def names(self) -> list[str]:
        """The inputs that it reads, in order."""
        found = {n.id for n in ast.walk(ast.parse(self.text)) if type(n) is ast.Name}
        return sorted(found & inputs().keys())

    def source(self) -> str:
        """It as a function of its inputs."""
        *before, last = self.text.split("; ")
        body = "".join(f"    {line}\n" for line in before)
        return f"def call({', '.join(self.names)}):\n{body}    return {last}\n"

    def function(self, space: dict[str, Any]) -> Any:
        """The function, with `np` and `scipy` from `space`."""
        space = dict(space)
        exec(compile(self.source(), f"<{self.name}>", "exec"), space)
        return space["call"]


def _calls() -> list[Call]:
    found = []
    for line in (Path(__file__).parent / "calls.txt").read_text().splitlines():
        if line and line[0] not in "#[":
            name, _, text = line.partition(": ")
            found.append(Call(name, text))
    for line in STATS.strip().splitlines():
        name, _, rest = line.partition(": ")
        for method in METHODS_OF_STATS:
            point = rest
            if method == "ppf":
                point = ", ".join(["p", *rest.split(", ")[1:]])
                point = point.replace("0.5 + x", "0.5 + x[0, :1]").replace("y", "b[0]")
            found.append(
                Call(f"scipy.stats.{name}", f"scipy.stats.{name}.{method}({point})")
            )
    return found


def inputs() -> dict[str, np.ndarray]:
    """The arrays that the calls are made on: far from kinks, without ties."""
    rng = np.random.default_rng(7)
    x, y = rng.uniform(0.3, 1.7, (2, 3, 4))
    a = rng.normal(size=(3, 3)) * 0.4 + np.diag([1.5, 2.0, 2.6])
    half = rng.normal(size=(3, 3))
    nans = rng.uniform(0.3, 1.7, (3, 4))
    nans[0, 1] = nans[2, 3] = np.nan
    bands = rng.uniform(0.2, 0.8, (3, 5))
    bands[1] += 3.0
    return {
        "x": x,
        "y": y,
        "v": rng.uniform(0.3, 1.7, 5),
        "w": rng.uniform(0.3, 1.7, 5),
        "b": rng.uniform(0.4, 1.6, 3),
        "u": rng.uniform(-0.8, 0.8, 4),
        "p": rng.uniform(0.15, 0.85, 4),
        "t": np.cumsum(rng.uniform(0.3, 0.7, 5)),
        "a": a,
        "s": half @ half.T + np.diag([1.0, 2.0, 3.0]),
        "g": rng.normal(size=(2, 3, 3)) * 0.4 + np.diag([1.5, 2.0, 2.6]),
        "bands": bands,
        "nans": nans,
        "z": rng.normal(size=4) + 1j * rng.normal(size=4),
        "i": np.array([2, 0, 1]),
        "mask": rng.random((3, 4)) < 0.6,
    }


CALLS = _calls()
