"""`tg.support()`: the functions that have a derivative, read from the registry.

Nothing is listed twice: what stands in the table is what a trace looks up.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError
from tracegrad.ops.define import ACCEPT, METHODS, PROPERTIES, STANDS_FOR, UPDATES, Op
from tracegrad.trace.callbacks import CALLBACKS
from tracegrad.trace.numpy_api import OWN, short
from tracegrad.trace.solvers import SOLVERS

YES, CONSTANT, NO = "yes", "constant", "no"
_BOTH = ("numpy", "jax")
_NAMESPACES: tuple[tuple[str, ModuleType], ...] = (
    ("np", np),
    ("np.linalg", np.linalg),
    ("np.fft", np.fft),
    ("math", math),
)
# What a docstring says of choices where a derivative is not unique, or not there.
_CHOICE = re.compile(
    r"derivative|slope|cotangent|constant|equal (ones|elements)|taken|not nan"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One spelling.

    Attributes:
        name: as the user writes it.
        derivative: "yes", "constant" (the result has none by its nature) or "no".
        modes: in which it works: "numpy" and "jax" source.
        notes: choices at kinks and ties.
    """

    name: str
    derivative: str
    modes: tuple[str, ...]
    notes: str


class Support(tuple[Entry, ...]):
    """The table: a tuple of entries in the order of their names.

    `str()` is a text, `markdown()` a page; `table["np.interp"]` is one entry.
    """

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return tuple.__getitem__(self, key)
        for entry in self:
            if entry.name == key:
                return entry
        return Entry(key, NO, (), "")

    def __str__(self) -> str:
        width = max([len(e.name) for e in self], default=0)
        return "\n".join(
            f"{e.name:{width}}  {e.derivative:8}  {e.notes}".rstrip() for e in self
        )

    def markdown(self) -> str:
        """The table as a page of documentation."""
        lines = []
        for title, entries in _groups(self):
            lines += ["", f"## {title}", ""]
            lines += ["| function | derivative | sources | notes |", "| --- " * 4 + "|"]
            for e in entries:
                notes = e.notes.replace("|", "\\|")
                modes = ", ".join(e.modes)
                lines.append(f"| `{e.name}` | {e.derivative} | {modes} | {notes} |")
        return "\n".join(lines) + "\n"


def support(function: Any = None) -> Any:
    """The functions that a traced function may call, and what their derivative is.

    Args:
        function: one function, `np.interp`, or its name, `"np.interp"`; without it the
            whole table.

    Returns:
        A `Support`, or the `Entry` of one function.

    Example:
        >>> print(support("np.sort").derivative, support("np.argsort").derivative)
        yes constant
    """
    if function is None:
        return Support(sorted(_entries(), key=lambda e: e.name.lower()))
    name = function if isinstance(function, str) else short(function)
    if not isinstance(function, str) and not callable(function):
        raise ArgumentError(
            f"tg.support takes a function or its name, not {type(function).__name__}"
        )
    return support()[name]


# ------------------------------------------------------------------------ the entries
def _entries() -> Iterator[Entry]:
    for spelling, function in ACCEPT.items():
        for name in _names(spelling):
            yield _entry(name, function)
    for name, function in METHODS.items():
        yield _entry(f"ndarray.{name}", function)
    for name, function in PROPERTIES.items():
        yield _entry(f"ndarray.{name}", function)
    for spelling in UPDATES:
        text = isinstance(spelling, str)
        for name in [f"ndarray.{spelling}"] if text else _names(spelling):
            yield Entry(name, YES, _BOTH, "changes its first argument")
    for function in [*CALLBACKS, np.vectorize]:
        notes = "traced through the function that it is given"
        yield Entry(short(function), YES, _BOTH, notes)
    for spelling, taken in SOLVERS.items():
        yield Entry(spelling.replace(":", "."), YES, ("numpy",), taken.notes)
    for function in OWN:
        if function not in CALLBACKS and function not in ACCEPT:
            yield Entry(short(function), CONSTANT, _BOTH, "known from the type")
    yield from _without_rule()


def _entry(name: str, function: Callable) -> Entry:
    if function not in STANDS_FOR:
        return Entry(name, YES, _BOTH, "")
    op = STANDS_FOR[function]
    if op is None:
        return Entry(name, CONSTANT, _BOTH, "")
    return Entry(name, _derivative(op), _modes(op), _notes(op))


def _derivative(op: Op) -> str:
    if not op.differentiable:
        return NO
    return CONSTANT if op.rules is not None and not any(op.rules) else YES


def _modes(op: Op) -> tuple[str, ...]:
    in_jax = any("jax" not in sample.missing for sample in op.samples)
    return _BOTH if in_jax else ("numpy",)


def _notes(op: Op) -> str:
    """What the docstring says of choices, in one line."""
    text = " ".join((inspect.getdoc(op.run) or "").split())
    parts = re.split(r"(?<=\.)\s+|;\s+", text)
    said = [p.rstrip(".") for p in parts if _CHOICE.search(p)]
    limits = [s for s in op.samples if "jax" in s.missing]
    if limits and len(limits) < len(op.samples):
        said.append("some arguments not in JAX")
    return "; ".join(said)


def _names(spelling: Any) -> list[str]:
    """How users write what a key of the registry stands for; aliases too."""
    if isinstance(spelling, str):
        return [] if spelling.endswith("()") else [spelling.replace(":", ".")]
    if isinstance(spelling, tuple):
        return [f"{short(spelling[0])}.{spelling[1]}"]
    if isinstance(spelling, type):
        return []
    return _aliases().get(id(spelling)) or [short(spelling)]


@cache
def _aliases() -> dict[int, list[str]]:
    """The public names of each function, by its id."""
    found: dict[int, list[str]] = {}
    for prefix, module in _NAMESPACES:
        for name in _public(module):
            found.setdefault(id(getattr(module, name)), []).append(f"{prefix}.{name}")
    return found


def _public(module: ModuleType) -> list[str]:
    # A list in __all__ leaves out what only old code uses.
    return sorted(getattr(module, "__all__", None) or vars(module))


def _without_rule() -> Iterator[Entry]:
    """NumPy's functions of arrays that nothing takes."""
    kinds = (np.ufunc, type(np.sum))
    for prefix, module in _NAMESPACES:
        for name in _public(module):
            function = getattr(module, name)
            if not isinstance(function, kinds) or _SERVICE.search(name):
                continue
            if all(function not in table for table in (OWN, ACCEPT, UPDATES)):
                yield Entry(f"{prefix}.{name}", NO, (), "")


# Files, texts, dates and memory: no computation.
_SERVICE = re.compile(
    r"^(save|load|array2|array_(repr|str)|busday|datetime|isnat|einsum_path|min_scalar"
    r"|shares_|may_share|copyto|nested|is_busday|format|base_|binary_)"
)


def _groups(entries: Iterable[Entry]) -> list[tuple[str, list[Entry]]]:
    """The entries by the module of their names."""
    order = ("NumPy", "ndarray", "numpy.linalg", "numpy.fft", "math")
    titles = {"np": "NumPy", "np.linalg": "numpy.linalg", "np.fft": "numpy.fft"}
    groups: dict[str, list[Entry]] = {title: [] for title in order}
    for e in entries:
        parts = e.name.split(".")
        stem = ".".join(parts[:2]) if parts[0] == "scipy" else parts[0]
        if parts[:2] in (["np", "linalg"], ["np", "fft"]):
            stem = ".".join(parts[:2])
        groups.setdefault(titles.get(stem, stem), []).append(e)
    return [(title, found) for title, found in groups.items() if found]
