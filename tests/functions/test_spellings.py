"""Functions in the spellings of `spellings.txt`: value, dtype, shape and derivative.

What NumPy refuses has to be refused, or is not looked at; all else has to come out with
NumPy's dtype and shape, and with the slope that differences have.
"""

from __future__ import annotations

import ast
import itertools
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import optree
import pytest
import scipy.signal
import scipy.special
from functions.calls import inputs

import tracegrad as tg

LINES = [
    line
    for line in (Path(__file__).parent / "spellings.txt").read_text().splitlines()
    if line and line[0] not in "#["
]


def given() -> dict[str, np.ndarray]:
    """The arrays that the spellings read."""
    arrays = inputs()
    arrays["x4"], arrays["v4"] = (arrays[k].astype(np.float32) for k in "xv")
    arrays["n"] = np.array([[1, 5, 2, 7], [3, 1, 4, 6], [2, 8, 5, 1]])
    arrays["q"] = np.array(0.7)
    return arrays


def spellings(line: str) -> list[str]:
    """Every choice of one line.  A brace without a choice stands for itself."""
    parts = re.split(r"\{([^{}|]*(?:\|[^{}|]*)+|, [^{}|]*)\}", line)
    choices = [p.split("|") if k % 2 else [p] for k, p in enumerate(parts)]
    return ["".join(chosen) for chosen in itertools.product(*choices)]


def function(text: str) -> tuple[Any, list[str]]:
    """The function that a spelling is, and the names of its arguments."""
    found = {n.id for n in ast.walk(ast.parse(text)) if type(n) is ast.Name}
    names = sorted(found & given().keys())
    *before, last = text.split("; ")
    body = "".join(f"    {line}\n" for line in before)
    source = f"def call({', '.join(names)}):\n{body}    return {last}\n"
    space: dict[str, Any] = {"np": np, "scipy": scipy}
    exec(compile(source, f"<{text}>", "exec"), space)
    return space["call"], names


def weighed(f: Any, weights: list) -> Any:
    """One number of all that a function returns.

    Where the weight is 0 nothing is: the value there is infinite, as of no elements in
    `logaddexp.reduce`, and has no differences.
    """

    def loss(*args: Any) -> Any:
        parts = optree.tree_leaves(f(*args))
        return sum(
            np.sum(np.where(w == 0.0, 0.0, p) * w)
            for p, w in zip(parts, weights, strict=True)
        )

    return loss


def check(text: str) -> None:
    f, names = function(text)
    args = [given()[k] for k in names]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            want = optree.tree_leaves(f(*args))
        except (TypeError, ValueError, IndexError):
            return  # a combination that NumPy does not take
        made = optree.tree_leaves(tg.compile(f)(*args))
        assert len(made) == len(want)
        for got, right in zip(made, want, strict=True):
            assert np.shape(got) == np.shape(right)
            assert np.asarray(got).dtype == np.asarray(right).dtype
            np.testing.assert_allclose(got, right, rtol=2e-6, atol=1e-7)
        rng = np.random.default_rng(1)
        weights = [rng.normal(size=np.shape(w)) * np.isfinite(w) for w in want]
        check_slopes(f, args, weights)


def check_slopes(f: Any, args: list, weights: list) -> None:
    moves = [k for k, a in enumerate(args) if a.dtype.kind == "f"]
    if not moves:
        return
    loss = weighed(f, weights)
    wide = [a.astype(float) if k in moves else a for k, a in enumerate(args)]
    grads = tg.grad(loss, argnums=tuple(moves))(*args)
    rng = np.random.default_rng(2)
    tangents = [rng.normal(size=args[k].shape) for k in moves]
    total = 0.0
    for k, d, t in zip(moves, grads, tangents, strict=True):
        assert d.dtype == args[k].dtype and d.shape == args[k].shape
        total += float(np.sum(d * t))

    def at(h: float) -> float:
        moved = list(wide)
        for k, t in zip(moves, tangents, strict=True):
            moved[k] = np.asarray(wide[k] + h * t)
        return float(loss(*moved))

    rise = (at(1e-6) - at(-1e-6)) / 2e-6
    narrow = any(a.dtype == np.float32 for a in args)
    tol = 2e-4 if narrow else 1e-7
    np.testing.assert_allclose(total, rise, rtol=10 * tol, atol=10 * tol)
    fixed = [a for k, a in enumerate(args) if k not in moves]

    def of_moving(*some: Any) -> Any:
        rest, moving = iter(fixed), iter(some)
        return loss(*[next(moving if k in moves else rest) for k in range(len(args))])

    along = [t.astype(args[k].dtype) for k, t in zip(moves, tangents, strict=True)]
    _, pushed = tg.jvp(of_moving, tuple(args[k] for k in moves), tuple(along))
    np.testing.assert_allclose(pushed, total, rtol=tol, atol=tol)


def check_all(texts: list[str]) -> None:
    wrong = []
    for text in texts:
        try:
            check(text)
        except Exception as error:
            wrong.append(f"{text}: {type(error).__name__}: {error}"[:600])
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("line", LINES)
def test_some_spellings_of_a_function(line):
    every = spellings(line)
    check_all(every[:: max(1, len(every) // 4)])


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES)
def test_spellings_of_a_function(line):
    check_all(spellings(line))


@pytest.mark.parametrize(
    "text",
    [
        "np.delete(x, 1, axis=0)",
        "np.delete(v, [0, -1])",
        "np.delete(v, [2, 2, -3, 0])",
        "np.insert(x, 1, v[:4], axis=0)",
        "np.insert(v, [1, 3], w[:2])",
        "np.insert(x, [0, 2], x[:, :2], axis=1)",
    ],
)
def test_places_under_jit(text):
    pytest.importorskip("jax").config.update("jax_enable_x64", True)
    f, names = function(text)
    args = [given()[k] for k in names]
    loss = weighed(f, [np.cos(np.arange(f(*args).size)).reshape(f(*args).shape)])
    every = tuple(range(len(args)))
    found = tg.grad(loss, argnums=every, backend="jax")(*args)
    for d, want in zip(found, tg.grad(loss, argnums=every)(*args), strict=True):
        np.testing.assert_allclose(d, want, rtol=1e-12)
    check(text)
