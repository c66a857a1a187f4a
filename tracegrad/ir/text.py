"""A graph as text that reads as Python, one node to a line."""

from __future__ import annotations

from typing import Any

from tracegrad.ir.graph import Const, Graph, Node, Value


class _Names(dict):
    """value -> its name in the text: the hint, or a number."""

    def __init__(self) -> None:
        super().__init__()
        self._taken: set[str] = set()

    def __missing__(self, v: Value) -> str:
        base = v.hint or "v"
        number = 1 if v.hint is None else 2
        name = base if v.hint else f"{base}1"
        while name in self._taken:
            number += 1
            name = f"{base}_{number}" if v.hint else f"{base}{number}"
        self._taken.add(name)
        self[v] = name
        return name


def _read(v: Value, names: _Names) -> str:
    if isinstance(v, Const):
        if not v.type.shape:
            return repr(v.value)
        return f"<{v.hint or 'constant'}: {v.type!r}>"
    return names[v]


def _lines(node: Node, names: _Names, indent: str) -> list[str]:
    """A node, and below it the regions, each as a function of its parameters."""
    made = [f"{indent}{_line(node, names)}"]
    for region in node.regions:
        params = ", ".join(f"{names[v]}: {v.type!r}" for v in region.params)
        made.append(f"{indent}    def {region.name}({params}):")
        for inner in region.nodes:
            made += _lines(inner, names, indent + " " * 8)
        results = ", ".join(_read(v, names) for v in region.results)
        made.append(f"{indent}        return {results}")
    return made


def _line(node: Node, names: _Names) -> str:
    args = [_read(v, names) for v in node.inputs]
    args += [f"{k}={_attribute(a)}" for k, a in node.attrs.items()]
    targets = ", ".join(f"{names[v]}: {v.type!r}" for v in node.outputs)
    where = f"  # {node.at[-1].where}" if node.at else ""
    return f"{targets} = {node.op.name}({', '.join(args)}){where}"


def _attribute(a: Any) -> str:
    return getattr(a, "name", None) or repr(a)


def to_text(graph: Graph) -> str:
    """The graph as text, for people: `repr(graph)` and `f.ir(...)` print it."""
    names = _Names()
    params = ", ".join(f"{names[v]}: {v.type!r}" for v in graph.params)
    lines = [f"def {graph.name}({params}):"]
    phase = None
    for node in graph.nodes:
        if node.phase != phase:
            phase = node.phase
            lines.append(f"    # {phase}")
        lines += _lines(node, names, "    ")
    results = ", ".join(_read(v, names) for v in graph.results)
    lines.append(f"    return {results}")
    return "\n".join(lines)


# Assigned here because this module reads what that one defines.
Graph.__repr__ = to_text  # type: ignore[assignment, method-assign]
