"""Side effects that a trace would freeze or lose, found by comparing before and after.

A draw of a random number, a change of an argument's container, of a captured array or
of a global number leave no node in the graph.
"""

from __future__ import annotations

import collections
import itertools
import operator
import pickle
import random
import sys
import warnings
from collections.abc import Callable
from types import GeneratorType
from typing import Any

import numpy as np

from tracegrad.errors import MutationError, RandomStateError
from tracegrad.ir.location import Location
from tracegrad.ir.tree import Branch, Leaf, Static, Tree, build
from tracegrad.trace.captures import CONTAINERS, MAPPINGS, RAW, SCALARS, Captures
from tracegrad.trace.guards import changed_reads, digest, same, snapshot


def _states(captures: Captures) -> dict[str, Any]:
    """The state of each random generator in reach."""
    found: dict[str, Any] = {"random": random.getstate()}
    if "numpy.random" in sys.modules:
        found["np.random"] = pickle.dumps(np.random.get_state(legacy=False))
    for key, generator in captures.generators.items():
        if isinstance(generator, random.Random):
            state: Any = generator.getstate()
        elif isinstance(generator, np.random.Generator):
            state = pickle.dumps(generator.bit_generator.state)
        else:
            state = pickle.dumps(generator.get_state(legacy=False))
        found[f"the {type(generator).__name__} {key}"] = state
    return found


class Watch:
    """What may not change while a function is traced.

    Args:
        captures: what the function can read.
        arguments: pairs of an argument as the function got it, and its tree.
        leaf: makes a leaf of a part of an argument.
        at: where the function is defined.
        name: of the function.
    """

    def __init__(
        self,
        captures: Captures,
        arguments: list[tuple[Any, Tree]],
        leaf: Callable[[Any], Leaf | Static],
        at: Location | None,
        name: str,
    ) -> None:
        self.captures = captures
        self.arguments = [(x, build(x, leaf)) for x, tree in arguments if _open(tree)]
        self.leaf = leaf
        self.at = at
        self.name = name
        self.states = _states(captures)
        self.held = [
            (read, snapshot(read.value))
            for read in list(captures.reads.values())
            if isinstance(read.value, CONTAINERS)
        ]
        self.iterators = [
            (read.name, read.value, _position(read.value))
            for read in list(captures.reads.values())
            if _is_iterator(read.value)
        ]
        self.arrays = [
            (name, x, digest(x)) for name, x in list(captures.arrays.values())
        ]

    def check(self) -> None:
        """Compare with what was before.

        Raises:
            RandomStateError: if a random number was drawn.
            MutationError: if an argument, an array or a global changed, or a
                container other than by growing; if one grew that is counted; if an
                iterator gave something.
        """
        for key, state in _states(self.captures).items():
            if key in self.states and state != self.states[key]:
                source = key.rpartition(" ")[0] or key
                raise RandomStateError(
                    f"random numbers were drawn from {source} while "
                    f"`{self.name}` was traced; every call would get the same ones",
                    op=source,
                    at=self.at,
                    fix="draw them outside, and pass them as an argument",
                )
        for name, x, before in self.arrays:
            if digest(x) != before:
                self._mutated(f"the captured array {name or ''}".rstrip())
        for x, tree in self.arguments:
            if not _same_tree(build(x, self.leaf), tree):
                self._mutated(f"an argument (a {type(x).__name__})")
        changed = changed_reads(self.captures)[1]
        changed += [read for read, before in self.held if _lost(read.value, before)]
        grown = [read for read, before in self.held if _grew(read.value, before)]
        if grown and not changed:
            counted = self.captures.counted()
            changed = [read for read in grown if read.name in counted]
        for name, iterator, before in self.iterators:
            if _position(iterator) != before and name in self.captures.used():
                self._mutated(f"the iterator {name}")
        if changed:
            read = changed[0]
            kind = {"cell": "closure variable"}.get(read.kind, read.kind)
            self._mutated(f"the {kind} {read.name}")

    def _mutated(self, what: str) -> None:
        raise MutationError(
            f"{what} was changed by `{self.name}` while it was traced; "
            "later calls would not change it",
            op=f"{self.name}()",
            at=self.at,
            fix="return the new value instead",
        )


def _grew(value: Any, before: Any) -> bool:
    """Whether a list or the like has got more parts; a dict may be a cache."""
    growing = list | set | collections.deque
    return isinstance(value, growing) and len(value) > len(before)


def _is_iterator(x: Any) -> bool:
    return hasattr(type(x), "__next__") and hasattr(type(x), "__iter__")


def _position(iterator: Any) -> Any:
    """What changes when an iterator gives something, as far as it can be seen."""
    frame = getattr(iterator, "gi_frame", None)
    if isinstance(iterator, GeneratorType):
        if frame is None:
            return None
        names = {name: _seen(x) for name, x in frame.f_locals.items()}
        return frame.f_lasti, names
    return _seen(iterator)


def _seen(x: Any, depth: int = 4) -> Any:
    """The state of an iterator of Python's own; what else there is by identity."""
    if type(x) in SCALARS:
        return x
    if isinstance(x, tuple):
        return tuple([_seen(part, depth) for part in x])
    if not depth or not _is_iterator(x):
        return id(x)
    if type(x).__module__ not in ("builtins", "itertools"):
        return id(x)
    left = operator.length_hint(x, -1)
    if left >= 0:
        return id(x), left
    if isinstance(x, itertools.count):
        return repr(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            parts = x.__reduce__()[1:]
        except TypeError:
            return id(x)
    return _seen(parts, depth - 1)


def _lost(value: Any, before: Any) -> bool:
    """Whether a container lost a part, or has another number or text in its place.

    What only grows may be a log, which no value depends on.
    """
    if isinstance(value, MAPPINGS):
        if type(before) is not dict or not before.keys() <= value.keys():
            return type(before) is dict
        return any(_differs(value[key], part) for key, part in before.items())
    if isinstance(value, set | frozenset):
        return not before <= value
    if isinstance(value, RAW):
        return not bytes(value).startswith(before)
    if isinstance(value, collections.deque):
        return value.maxlen is None and len(value) < len(before)
    return len(value) < len(before) or any(map(_differs, value, before))


def _differs(part: Any, before: Any) -> bool:
    if part is before:
        return False
    if isinstance(part, CONTAINERS):
        alike = isinstance(before, dict | list | frozenset | bytes)
        return alike and _lost(part, before)
    # None stands for what is made at the first call.
    return type(before) in SCALARS and before is not None and not same(part, before)


def _open(tree: Any) -> bool:
    return isinstance(tree, Branch)


def _same_tree(a: Tree, b: Tree) -> bool:
    if isinstance(a, Branch) and isinstance(b, Branch):
        return (
            a.type is b.type
            and a.keys == b.keys
            and len(a.children) == len(b.children)
            and all(map(_same_tree, a.children, b.children))
        )
    if isinstance(a, Branch) or isinstance(b, Branch):
        return False
    return a.value is b.value
