"""Where the user's `for` stands, of a loop that was found again in its turns.

Its node has the place of what its first turn does first; a comment should name the line
of the `for`.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import linecache
from collections.abc import Iterable, Sequence

from tracegrad.ir.graph import Graph, Node
from tracegrad.ir.location import Chain, Location
from tracegrad.ops.control import for_loop


def place_of(node: Node) -> Chain:
    """The place to name for a node, which for a loop in Python is that of its `for`."""
    if node.op is not for_loop:
        return node.at
    body = node.regions[-1]
    # A body that is a function of the user's, `tg.scan(body, …)`, has other places.
    if not any(n.at == node.at for n in body.nodes):
        return node.at
    inner = [place_of(n) for n in body.nodes if n.op is for_loop]
    return _around([*_chains(body), *inner]) or node.at


def _chains(body: Graph) -> list[Chain]:
    return [n.at for n in body.nodes if n.at]


def _around(chains: Sequence[Chain]) -> Chain | None:
    """The innermost `for` around all these places, in a frame that they share."""
    if not chains:
        return None
    depth = 0
    least = min(map(len, chains)) - 1
    while depth < least and len({c[depth] for c in chains}) == 1:
        depth += 1
    for k in range(depth, -1, -1):
        found = _loop_around(chains[0][k], {c[k].line for c in chains})
        if found is not None:
            return *chains[0][:k], found
    return None


def _loop_around(one: Location, lines: Iterable[int]) -> Location | None:
    first, last = min(lines), max(lines)
    text = "".join(linecache.getlines(one.filename))
    best: tuple[int, int, int] | None = None
    for line, begin, end in _loops(text):
        if begin <= first and last <= end and (best is None or line > best[0]):
            best = line, begin, end
    if best is None:
        return None
    return dataclasses.replace(one, line=best[0], end_line=best[0], column=-1)


@functools.lru_cache(maxsize=64)
def _loops(text: str) -> list[tuple[int, int, int]]:
    """(line, first and last line of the body) of each `for` statement of a file."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    return [
        (node.lineno, node.body[0].lineno, node.body[-1].end_lineno or node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.For)
    ]
