"""Pytrees of arguments and results, in a form that can be printed as source.

`optree` decides what a container is, user-registered ones included; dataclass
instances are containers too.  A `Tree` keeps what code generation needs: how to read a
leaf out of the user's argument (`params["w1"]`) and how to write the same structure
around new leaves (`{"w1": d_w1}`).
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import optree


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf: an IR value, or whatever stands for one."""

    value: Any


@dataclass(frozen=True, slots=True)
class Static:
    """A part of the structure that is not an array: a string, a flag, None."""

    value: Any


@dataclass(frozen=True, slots=True)
class Branch:
    """A container.

    Attributes:
        kind: "dict", "list", "tuple", "namedtuple", "dataclass" or "custom".
        type: the container's class.
        keys: how to reach each child: keys, positions or attribute names.
        children: the parts, in the order of `keys`.
        rebuild: makes a container of the same class from new children.
    """

    kind: str
    type: type
    keys: tuple[Any, ...]
    children: tuple[Tree, ...]
    rebuild: Callable[[list[Any]], Any] = field(compare=False, repr=False)


Tree = Leaf | Static | Branch


def _split(x: Any) -> Branch | None:
    """One level of a container with raw children, or None for anything else."""
    cls = type(x)
    if cls in (dict, collections.OrderedDict):
        keys = tuple(x)
        make = lambda parts: cls(zip(keys, parts, strict=True))
        return Branch("dict", cls, keys, tuple(x.values()), make)
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return Branch("namedtuple", cls, x._fields, tuple(x), lambda p: cls(*p))
    if cls in (list, tuple):
        return Branch(cls.__name__, cls, tuple(range(len(x))), tuple(x), cls)
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        names = tuple(f.name for f in dataclasses.fields(x) if f.init)
        parts = tuple(getattr(x, n) for n in names)
        make_data = lambda p: cls(**dict(zip(names, p, strict=True)))
        return Branch("dataclass", cls, names, parts, make_data)
    if x is not None and optree.register_pytree_node.get(cls) is not None:
        children, data, keys, unflatten = optree.tree_flatten_one_level(
            x, none_is_leaf=True
        )
        parts = tuple(children)
        make_custom = lambda p: unflatten(data, p)
        return Branch("custom", cls, tuple(keys), parts, make_custom)
    return None


def build(x: Any, leaf: Callable[[Any], Leaf | Static]) -> Tree:
    """The tree of `x`; `leaf` says what each non-container is."""
    branch = _split(x)
    if branch is None:
        return leaf(x)
    return dataclasses.replace(
        branch, children=tuple([build(c, leaf) for c in branch.children])
    )


def leaves(tree: Tree) -> Iterator[Leaf]:
    """The leaves, left to right."""
    if isinstance(tree, Leaf):
        yield tree
    elif isinstance(tree, Branch):
        for child in tree.children:
            yield from leaves(child)


def map_leaves(tree: Tree, function: Callable[[Any], Any]) -> Tree:
    """The same structure with `function` applied to the value of each leaf."""
    if isinstance(tree, Leaf):
        return Leaf(function(tree.value))
    if isinstance(tree, Branch):
        parts = tuple([map_leaves(c, function) for c in tree.children])
        return dataclasses.replace(tree, children=parts)
    return tree


def restore(tree: Tree, function: Callable[[Any], Any]) -> Any:
    """The user's object with `function(leaf value)` in place of each leaf."""
    if isinstance(tree, Leaf):
        return function(tree.value)
    if isinstance(tree, Static):
        return tree.value
    return tree.rebuild([restore(c, function) for c in tree.children])


def paths(tree: Tree, prefix: tuple = ()) -> Iterator[tuple[tuple, Leaf]]:
    """Each leaf with its path: a tuple of (kind, key) pairs."""
    if isinstance(tree, Leaf):
        yield prefix, tree
    elif isinstance(tree, Branch):
        for key, child in zip(tree.keys, tree.children, strict=True):
            yield from paths(child, (*prefix, (tree.kind, key)))


def outline(tree: Tree) -> str:
    """A structure as text, `*` for an array: `{'w': *, 'b': (*, *)}`."""
    if isinstance(tree, Leaf):
        return "*"
    if isinstance(tree, Static):
        return f"{tree.value!r:.40}"
    parts = [outline(c) for c in tree.children]
    if tree.kind == "dict":
        named = [f"{k!r}: {p}" for k, p in zip(tree.keys, parts, strict=True)]
        return f"{{{', '.join(named)}}}"
    if tree.kind == "list":
        return f"[{', '.join(parts)}]"
    if tree.kind == "tuple":
        return f"({', '.join(parts)}{',' * (len(parts) == 1)})"
    named = [f"{k}={p}" for k, p in zip(tree.keys, parts, strict=True)]
    return f"{tree.type.__name__}({', '.join(named)})"
