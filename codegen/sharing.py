"""One name for variables that a person would give one name.

Lowering gives each value a name of its own: `mean`, `mean_2`.  Here `mean_2` becomes
`mean` where the one is not needed while the other is, as the user wrote it; what a loop
reads of the turns of another one is called as it was called there; and what is then
`x = x` goes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Set

from tracegrad.codegen.liveness import Interference, UnknownStatement, interference
from tracegrad.codegen.template import negated

_NUMBERED = re.compile(r"(.+)_\d+$")
_OF = re.compile(r"(?:[dt]_)+")
# Variables that may be live at once are compared by pairs: a function of more lines
# keeps all names apart, so that the time to emit it stays linear.
_MOST = 500


def share_names(
    function: ast.FunctionDef,
    users: Set[str],
    entries: Mapping[str, str],
    moved: Callable[[ast.stmt, ast.stmt], None],
) -> None:
    """Rename variables of a function.

    Args:
        function: changed in place.
        users: names that the user gave to values.
        entries: variable -> the one that it is the same as, if that is possible.
        moved: called with a statement that goes, and the one before it.
    """
    if _length(function) > _MOST:
        return
    names: set[str] = set()
    fixed: set[str] = set()  # of arguments and functions
    for node in ast.walk(function):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            fixed.add(node.arg)
        elif isinstance(node, ast.FunctionDef):
            fixed.add(node.name)
    known = users | set(entries.values())
    wanted = list(entries.items()) + list(_wanted(names, known, _copies(function)))
    free, bound = names - fixed, names | fixed
    wanted = [(a, b) for a, b in wanted if a != b and a in free and b in bound]
    if not wanted:
        return
    tracked = {n for pair in wanted for n in pair}
    try:
        apart = interference(function, tracked)
    except UnknownStatement:
        return
    chosen = _chosen(wanted, apart, names)
    if chosen:
        _rename(function, chosen)
        _drop_copies(function.body, moved)


def _length(statement: ast.stmt) -> int:
    """The number of statements, those inside of others too."""
    inner = [*getattr(statement, "body", ()), *getattr(statement, "orelse", ())]
    return len(inner) + sum(map(_length, inner))


def _wanted(
    names: Set[str], users: Set[str], copies: Set[tuple[str, str]]
) -> Iterable[tuple[str, str]]:
    """(variable, what it could be called instead)."""
    own = [u for u in users if _NUMBERED.match(u)]
    numbered = []
    for name in names:
        found = _NUMBERED.match(name)
        if found is None or any(name == u or name.endswith(f"_{u}") for u in own):
            continue
        numbered.append((found[1], name))
    for base, name in sorted(numbered, key=_by_number):
        plain = _OF.sub("", base, count=1)
        of_user = base in users or (plain != base and plain in users)
        if of_user or (base, name) in copies or (name, base) in copies:
            yield name, base
    for copy, name in sorted(copies):
        if _OF.sub("", name, count=1) not in users:
            yield name, copy


def _by_number(pair: tuple[str, str]) -> tuple[bool, str, int]:
    """Values before their cotangents, which keep to what these are called."""
    base, name = pair
    return bool(_OF.match(base)), base, int(name[len(base) + 1 :])


def _copies(function: ast.FunctionDef) -> set[tuple[str, str]]:
    """Pairs of a variable and the one that is assigned to it."""
    found = set()
    for s in ast.walk(function):
        if isinstance(s, ast.Assign):
            for target, value in _parts(s):
                if isinstance(target, ast.Name) and isinstance(value, ast.Name):
                    found.add((target.id, value.id))
    return found


def _parts(s: ast.Assign) -> list[tuple[ast.expr, ast.expr]]:
    """The assignments that an assignment consists of."""
    (target,) = s.targets
    if isinstance(target, ast.Tuple) and isinstance(s.value, ast.Tuple):
        return list(zip(target.elts, s.value.elts, strict=True))
    return [(target, s.value)]


def _chosen(
    wanted: Iterable[tuple[str, str]], apart: Interference, names: Set[str]
) -> dict[str, str]:
    """The names that variables get, of those that they could have.

    `d_w_2` is no `d_w` where there is a `w_2`: it would be read as that of `w`.
    """
    groups: dict[str, list[str]] = {}
    known: dict[str, str] = {}
    for name, other in wanted:
        other = known.get(other, other)
        name_bound, other_bound = apart.bound.get(name), apart.bound.get(other)
        if name in known or name == other or not name_bound == other_bound == 1:
            continue
        of = _OF.sub("", name, count=1)
        if of != name and of in names and of not in known:
            continue
        mine = groups.get(name, [name])
        theirs = groups.setdefault(other, [other])
        if any(not apart.pairs.get(n, set()).isdisjoint(theirs) for n in mine):
            continue
        theirs += mine
        known.update(dict.fromkeys(mine, other))
    return known


def _rename(function: ast.FunctionDef, known: Mapping[str, str]) -> None:
    seen = set()  # one tree may stand in two places
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and id(node) not in seen:
            seen.add(id(node))
            node.id = known.get(node.id, node.id)


def _drop_copies(
    body: list[ast.stmt], moved: Callable[[ast.stmt, ast.stmt], None]
) -> None:
    for s in list(body):
        for inner in (getattr(s, "body", None), getattr(s, "orelse", None)):
            if inner:
                _drop_copies(inner, moved)
        if isinstance(s, ast.If) and all(isinstance(t, ast.Pass) for t in s.orelse):
            s.orelse = []
        elif isinstance(s, ast.If) and all(isinstance(t, ast.Pass) for t in s.body):
            s.test, s.body, s.orelse = negated(s.test), s.orelse, []
        if not isinstance(s, ast.Assign):
            continue
        parts = _parts(s)
        left = [(t, v) for t, v in parts if not _is_same(t, v)]
        if len(left) == len(parts):
            continue
        if len(left) == 1:
            ((target, s.value),) = left
            s.targets = [target]
        elif left:
            targets, values = zip(*left, strict=True)
            s.targets = [ast.Tuple(list(targets), ast.Store())]
            s.value = ast.Tuple(list(values), ast.Load())
        elif len(body) == 1:
            body[0] = ast.Pass()
        else:
            i = body.index(s)
            del body[i]
            if i:
                moved(s, body[i - 1])


def _is_same(target: ast.expr, value: ast.expr) -> bool:
    return (
        isinstance(target, ast.Name)
        and isinstance(value, ast.Name)
        and target.id == value.id
    )
