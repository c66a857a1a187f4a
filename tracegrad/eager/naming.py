"""Names and lines for a graph that was run: what the user's frames still say of it.

Nothing is noted while ops run.  When a program is to be shown, the frames of the user
are asked: a variable or an attribute that holds a tensor names what made it, and the
line of its assignment is the line of the op.  `record_source` notes both exactly, at a
cost for every op.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from tracegrad.codegen.names import identifier
from tracegrad.eager.modes import NAMESPACE
from tracegrad.eager.nodes import SEQ, extras_of
from tracegrad.eager.runtime import WATCHES
from tracegrad.eager.tape import Tape
from tracegrad.eager.tensor import Tensor
from tracegrad.eager.versions import is_current
from tracegrad.ir.graph import Const, Value
from tracegrad.ir.location import Chain, Location
from tracegrad.ops.cast import astype
from tracegrad.trace.frames import Locator, is_users
from tracegrad.trace.source_names import names_of

_DEPTH = 4
_MOST_OBJECTS = 10_000
_PLAIN = (str, bytes, int, float, complex, bool, type(None), type, types.ModuleType)


class Found:
    """What the user's frames say.

    Attributes:
        nodes: sequence number -> (name, chain).
        arrays: id of an array -> name.
        tensors: id of a tensor -> name.
        function: name and place of the function that asks.
    """

    def __init__(self) -> None:
        self.nodes: dict[int, tuple[str, Chain]] = {}
        self.arrays: dict[int, str] = {}
        self.tensors: dict[int, str] = {}
        self.function: Location | None = None


def look_around() -> Found:
    """Look for tensors in the variables of the user's frames, innermost first."""
    found = Found()
    frame: types.FrameType | None = sys._getframe(1)
    seen: set[int] = set()
    last: list[tuple[str, Tensor, Chain]] = []
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            code = frame.f_code
            if found.function is None:
                first = code.co_firstlineno
                found.function = Location(
                    code.co_filename, first, function=code.co_name
                )
            last.extend(_look_in(frame, found, seen))
        frame = frame.f_back
    for key, x, at in last:
        _enter(found, key, x, at)
    return found


def _look_in(
    frame: types.FrameType, found: Found, seen: set[int]
) -> list[tuple[str, Tensor, Chain]]:
    """Enter what a frame says; the variables of its loops, for lack of another name."""
    late: list[tuple[str, Tensor, Chain]] = []
    lines = _lines_of(frame)
    names = names_of(frame.f_code.co_filename, frame.f_globals)
    first, last = _extent(frame.f_code)
    loops = names.loops.items()
    passing = {name for (line, *_), name in loops if first <= line <= last}
    for (start, _, end, _), several in names.unrolled.items():
        # Of the parts of an element, if the loop is over.
        if first <= start <= last and not start <= frame.f_lineno <= (end or start):
            passing.update(several)
    scopes = [frame.f_locals]
    if frame.f_globals is not frame.f_locals:
        scopes.append(frame.f_globals)
    kept: list[tuple[str, Any]] = []
    for number, scope in enumerate(scopes):
        # What a tensor is called itself counts for more than where it is kept.
        # Tools put variables that are no names into a frame.
        for key, x in scope.items():
            if not key.isidentifier():
                continue
            if not isinstance(x, Tensor):
                kept.append((key, x))
                continue
            at = () if number else lines.get(key, ())
            if key in passing:
                # The variable of a loop, if nothing else holds the tensor.
                late.append((key, x, at))
            else:
                _enter(found, key, x, at)
    for key, x in kept:
        if not key.startswith("__"):
            for name, tensor in _inside(key, "", x, seen, _DEPTH):
                _enter(found, name, tensor, ())
    return late


def _enter(found: Found, name: str, tensor: Tensor, at: Chain) -> None:
    name = identifier(name)
    found.arrays.setdefault(id(tensor._data), name)
    found.tensors.setdefault(id(tensor), name)
    if tensor._node is not None:
        found.nodes.setdefault(tensor._node[SEQ], (name, at))


def _inside(
    root: str, path: str, x: Any, seen: set[int], depth: int
) -> Iterator[tuple[str, Tensor]]:
    """The tensors that an object holds, with names: `w1` for `params["w1"]`."""
    if isinstance(x, Tensor):
        yield path or root, x
        return
    if depth == 0 or isinstance(x, _PLAIN):
        return
    if id(x) in seen or len(seen) > _MOST_OBJECTS:
        return
    if isinstance(x, dict):
        parts = [(k, v) for k, v in x.items() if isinstance(k, str)]
    elif isinstance(x, list | tuple):
        # Positions say nothing without the name of the list.
        path = path or root
        parts = [(str(i), v) for i, v in enumerate(x)]
    elif type(x).__module__ != "builtins" and isinstance(
        getattr(x, "__dict__", None), dict
    ):
        parts = [(k.strip("_"), v) for k, v in vars(x).items()]
    else:
        return
    seen.add(id(x))
    for key, part in parts:
        if not isinstance(part, _PLAIN):
            yield from _inside(
                root, f"{path}_{key}" if path else key, part, seen, depth - 1
            )


def _extent(code: types.CodeType) -> tuple[int, int]:
    """The first and the last line of a function."""
    lines = [line for *_, line in code.co_lines() if line]
    return code.co_firstlineno, max(lines, default=code.co_firstlineno)


def _lines_of(frame: types.FrameType) -> dict[str, Chain]:
    """Variable -> the line on which it was last assigned, above the present one."""
    code = frame.f_code
    first, last = _extent(code)
    last = min(last, frame.f_lineno)
    names = names_of(code.co_filename, frame.f_globals)
    latest: dict[str, int] = {}
    for (line, *_), hint in names.assigned.items():
        if not first <= line <= last:
            continue
        for name in (hint,) if isinstance(hint, str) else hint:
            if name is not None:
                latest[name] = max(line, latest.get(name, 0))
    return {
        name: (Location(code.co_filename, line, function=code.co_name),)
        for name, line in latest.items()
    }


# ---------------------------------------------------------------- onto a program
def name_values(tape: Tape, found: Found) -> None:
    """Give the values of a program the user's names, and its steps their lines."""
    _inline_numbers(tape, found)
    taken: set[str] = set()
    for value in tape.params:
        value.hint = _unique(_name_of(tape, found, value), taken)
        value.user = True
    places: dict[Value, Chain] = {}
    for seq, value in tape.made.items():
        name, at = found.nodes.get(seq, (None, ()))
        if name is not None and value.hint is None and value not in tape.params:
            value.hint, value.user = name, True
            places[value] = at
    _spread_lines(tape, places)


def _name_of(tape: Tape, found: Found, value: Value) -> str:
    node = tape.leaves.get(value)
    if node is not None:
        name, _ = found.nodes.get(node[SEQ], (None, ()))
        return name or ("x" if value.type.shape else "c")
    return _held_as(tape, found, value) or "c"


def _held_as(tape: Tape, found: Found, value: Value) -> str | None:
    kept, _ = tape.arrays[value]
    array = kept() if callable(kept) else kept
    return None if array is None else found.arrays.get(id(array))


def _inline_numbers(tape: Tape, found: Found) -> None:
    """Write 0-d arrays that nobody holds, and that did not change, as numbers."""
    numbers: dict[Value, Value] = {}
    for value, (kept, seq) in tape.arrays.items():
        if not isinstance(kept, np.ndarray) or kept.dtype.kind == "b":
            continue
        if _held_as(tape, found, value) is None and is_current(kept, seq):
            numbers[value] = Const(kept.item())
    for step in list(tape.steps):
        inputs = tuple([numbers.get(v, v) for v in step.inputs])
        if step.op is astype and inputs != step.inputs:
            numbers[step.out] = inputs[0]
            tape.steps.remove(step)
            continue
        made = step.op.infer(*[v.type for v in inputs], **step.attrs)
        made = made if type(made) is tuple else (made,)
        if [v.type for v in step.outputs] == list(made):
            step.inputs = inputs
    read = {v for step in tape.steps for v in step.inputs}
    read.add(tape.made[max(tape.made)])  # the result, if it is one of them
    tape.params = [v for v in tape.params if v in read or v not in numbers]


def _unique(name: str, taken: set[str]) -> str:
    made, number = name, 1
    while made in taken:
        number += 1
        made = f"{name}_{number}"
    taken.add(made)
    return made


def _spread_lines(tape: Tape, places: dict[Value, Chain]) -> None:
    """An op whose result has no name stands on the line of the name that reads it."""
    at: dict[Value, Chain] = {}
    for step in reversed(tape.steps):
        here = step.at
        for out in step.outputs:
            here = here or places.get(out) or at.get(out, ())
        step.at = here
        for value in step.inputs:
            at.setdefault(value, here)


# ------------------------------------------------------------------ exact recording
class _Recording:
    """Whether lines and names are noted, in all threads."""

    count = 0


def _note(out: Tensor) -> None:
    if not _Recording.count or out._node is None or out._node[SEQ] < 0:
        return
    locator = Locator(None, lambda frame: None)  # type: ignore[arg-type]
    chain = locator.find()
    hint = locator.hint()
    locator.close()
    name = hint if isinstance(hint, str) else None
    extras_of(out._node).place = (chain[-1:], name)


WATCHES.append(_note)


class record_source:
    """Notes the user's line and name of each operation, for `source()` to show.

    Without it, `source()` knows the names of what is still held by variables.  It
    costs some microseconds for each operation.

        with torch.autograd.record_source():
            loss = model(x).sum()
        print(loss.source())
    """

    def __enter__(self) -> record_source:
        _Recording.count += 1
        NAMESPACE["special"] += 1
        return self

    def __exit__(self, *exc: object) -> None:
        _Recording.count -= 1
        NAMESPACE["special"] -= 1
