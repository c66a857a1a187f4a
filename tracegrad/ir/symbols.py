"""Which symbolic sizes a node needs the numbers of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tracegrad.ir.dims import Dim
from tracegrad.ir.dims import names as names_in
from tracegrad.ir.graph import Node

# The sizes of what masks select are known to NumPy where it selects.
_TOLD = "counts"


def sizes_in(node: Node) -> set[str]:
    """The names of sizes in the attributes of a node and of its regions' nodes."""
    found = {
        name
        for key, attr in node.attrs.items()
        if key != _TOLD
        for size in _sizes(attr)
        for name in names_in(size)
    }
    for region in node.regions:
        for inner in region.nodes:
            found |= sizes_in(inner)
    return found


def names_of(sizes: Iterable[Any]) -> set[str]:
    """The names in sizes, of which some may be numbers."""
    return {n for size in sizes if isinstance(size, Dim) for n in names_in(size)}


def _sizes(attr: Any) -> Iterator[Dim]:
    if isinstance(attr, Dim):
        yield attr
    elif type(attr) is tuple:
        for part in attr:
            yield from _sizes(part)
    else:
        replace = getattr(attr, "map_sizes", None)
        if replace is not None:
            found: list[Any] = []
            replace(found.append)
            for part in found:
                yield from _sizes(part)
