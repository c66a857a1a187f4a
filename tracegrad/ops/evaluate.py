"""Run nodes on plain arrays: the reference that generated code is tested against."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tracegrad.ir.dims import evaluate as evaluate_size
from tracegrad.ir.graph import Const, Graph, Node, Value
from tracegrad.ir.types import Dim


def concrete(attr: Any, sizes: dict[str, int]) -> Any:
    """A static attribute with its symbolic sizes replaced by numbers."""
    if isinstance(attr, Dim):
        return evaluate_size(attr, sizes)
    if type(attr) is tuple:
        return tuple([concrete(a, sizes) for a in attr])
    replace = getattr(attr, "map_sizes", None)
    return attr if replace is None else replace(lambda s: concrete(s, sizes))


def run_nodes(
    nodes: Iterable[Node], env: dict[Value, Any], sizes: dict[str, int] | None = None
) -> None:
    """Execute `nodes`, reading from and writing to `env` (and `sizes`)."""
    sizes = {} if sizes is None else sizes
    for node in nodes:
        args = [v.value if isinstance(v, Const) else env[v] for v in node.inputs]
        if node.op.binds:
            number = int(node.op.run(*args, **node.attrs))
            sizes[str(node.attrs[node.op.binds])] = env[node.out] = number
            continue
        attrs = {k: concrete(a, sizes) for k, a in node.attrs.items()}
        if node.regions:
            attrs["regions"] = [_runner(region, sizes) for region in node.regions]
        out = node.op.run(*args, **attrs)
        if len(node.outputs) == 1:
            env[node.outputs[0]] = out
        else:
            env.update(zip(node.outputs, out, strict=True))


def _runner(region: Graph, sizes: dict[str, int] | None) -> Callable:
    """The region as a function from its parameters to the list of its results."""

    def run(*args: Any) -> list[Any]:
        env = dict(zip(region.params, args, strict=True))
        run_nodes(region.nodes, env, sizes)
        return [v.value if isinstance(v, Const) else env[v] for v in region.results]

    return run


def evaluate(graph: Graph, args: list[Any]) -> list[Any]:
    """The results of `graph` on concrete arguments, one per parameter."""
    env = dict(zip(graph.params, args, strict=True))
    sizes = {
        name: env[value].shape[axis] for name, (value, axis) in graph.sizes.items()
    }
    run_nodes(graph.nodes, env, sizes)
    return [v.value if isinstance(v, Const) else env[v] for v in graph.results]
