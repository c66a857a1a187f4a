"""Conditions under which a trace stays valid, besides the types of its arguments.

Numbers and strings are compared by value, arrays and everything else by identity,
containers element by element.  All comparisons of a trace are one generated function,
since it runs before each call.  Arrays whose *content* entered the trace (a constant
computed from them, a branch on them) are compared by content.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracegrad.trace.captures import (
    CONTAINERS,
    MAPPINGS,
    MISSING,
    RAW,
    SCALARS,
    Captures,
    Read,
)

_SMALL = 1 << 16  # bytes


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition under which a trace stays valid.

    Attributes:
        kind: "captures", "content" or "environment".
        describe: for people.
        check: whether it holds now.
        key: equal for guards that ask the same.
    """

    kind: str
    describe: str
    check: Callable[[], bool]
    key: Any = None

    def __call__(self) -> bool:
        """Whether it holds now."""
        return self.check()


def same(a: Any, b: Any) -> bool:
    """Whether two values are one for a trace: scalars by type and value."""
    if a is b:
        return True
    if type(a) is not type(b) or type(a) not in SCALARS:
        return False
    if a == b:
        return a != 0 or repr(a) == repr(b)  # 0.0 is not -0.0
    return a != a and b != b


_DEPTH = 6  # containers inside of containers; deeper ones count by identity


def snapshot(value: Any, depth: int = _DEPTH) -> Any:
    """What a container holds now; other values as they are."""
    if not depth:
        return value
    if isinstance(value, MAPPINGS):
        return {key: snapshot(part, depth - 1) for key, part in value.items()}
    if isinstance(value, set | frozenset):
        return frozenset(value)
    if isinstance(value, RAW):
        return bytes(value)
    if isinstance(value, CONTAINERS):
        return [snapshot(part, depth - 1) for part in value]
    return value


def matches(value: Any, before: Any, kind: Any) -> bool:
    """Whether a value equals a snapshot, element by element."""
    if kind is not type(value):
        return False
    if isinstance(value, MAPPINGS):
        if type(before) is not dict or list(value) != list(before):
            return False  # the order counts, too
        return all(map(_part, value.values(), map(before.__getitem__, value)))
    if isinstance(value, set | frozenset):
        return value == before
    if isinstance(value, RAW):
        return bytes(value) == before
    return len(value) == len(before) and all(map(_part, value, before))


def _part(part: Any, before: Any) -> bool:
    if part is before:
        return True
    if isinstance(part, CONTAINERS):
        alike = isinstance(before, dict | list | frozenset | bytes)
        return alike and matches(part, before, type(part))
    return same(part, before)


def captures_guard(reads: Iterable[Read]) -> Guard | None:
    """One guard for all that a function reads besides its arguments."""
    space: dict[str, Any] = {"matches": matches, "same": same}
    names: dict[int, str] = {}
    tests: list[str] = []
    named: list[str] = []

    def constant(x: Any) -> str:
        name = names.get(id(x))
        if name is None:
            name = names[id(x)] = f"c{len(names)}"
            space[name] = x
        return name

    for read in reads:
        where = constant(read.where)
        if read.kind == "global":
            now = f"{where}[{read.name!r}]"
        elif read.kind == "cell":
            now = f"{where}.cell_contents"
        elif read.name.isidentifier():
            now = f"{where}.{read.name}"
        else:
            continue
        value = read.value
        kind = type(value)
        if read.kind == "absent":
            tests.append(f"not hasattr({where}, {read.name!r})")
        elif read.kind == "method":
            tests.append(f"{now}.__func__ is {constant(value)}")
        elif issubclass(kind, CONTAINERS):
            before = snapshot(value)
            space[f"s{len(tests)}"] = before
            tests.append(f"matches({now}, s{len(tests)}, {constant(kind)})")
        elif kind in SCALARS and value is not None:
            tests.append(
                f"((v := {now}) is {constant(value)} or same(v, {constant(value)}))"
            )
        else:
            tests.append(f"{now} is {constant(value)}")
        named.append(read.name)
    if not tests:
        return None
    body = "\n        and ".join(tests)
    text = (
        "def check():\n    try:\n        return (\n        "
        f"{body}\n        )\n"
        "    except (KeyError, AttributeError, ValueError):\n        return False\n"
    )
    key = text, tuple([(name, id(x)) for name, x in space.items()])
    exec(compile(text, "<tracegrad guard of captured names>", "exec"), space)
    said = ", ".join(dict.fromkeys(named))
    return Guard("captures", f"unchanged: {said}", space["check"], key)


def digest(x: np.ndarray) -> bytes:
    """The content of an array, or a hash of it."""
    if x.nbytes <= _SMALL or x.dtype.hasobject:
        return x.tobytes()
    return hashlib.blake2b(np.ascontiguousarray(x).view(np.uint8).data).digest()


def content_guard(name: str, x: np.ndarray) -> Guard:
    """A guard on what is in an array."""
    before = digest(x)
    return Guard(
        "content",
        f"content of {name or 'a captured array'} unchanged",
        functools.partial(_content_is, x, before),
        (id(x), before),
    )


def _content_is(x: np.ndarray, before: bytes) -> bool:
    return digest(x) == before


def environment_guard() -> Guard:
    """A guard on the environment variables, which no name of a function holds."""
    before = dict(os.environ)
    key = tuple(before.items())
    return Guard(
        "environment",
        "environment variables unchanged",
        lambda: dict(os.environ) == before,
        key,
    )


def changed_reads(captures: Captures) -> tuple[list[Read], list[Read]]:
    """The reads that are as before the trace, and the scalars that changed in it.

    A container that the function has let grow counts as it is now: it may be a log,
    which no value depends on.
    """
    kept: list[Read] = []
    changed: list[Read] = []
    for read in captures.reads.values():
        now = read.now()
        if same(now, read.value):
            kept.append(read)
        elif now is not MISSING and type(read.value) in SCALARS:
            changed.append(read)
        elif read.kind == "absent":
            kept.append(read)  # it is there now, so the next call is traced anew
        elif now is not MISSING:
            kept.append(Read(read.kind, read.where, read.name, now))
    return kept, changed
