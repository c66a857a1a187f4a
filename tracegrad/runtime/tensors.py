"""Compiled functions that are called with another library's tensors.

Eager tensors join their graph: the layer that defines them enters in `CALLS` what is to
be done, and finds here the derivatives of a call as functions of flat arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import optree

from tracegrad.ops.define import CALLS


def caller(compiled: Any, args: tuple, kwargs: dict) -> Callable | None:
    """What makes the call, if one of its arguments is a tensor."""
    if not CALLS:
        return None
    kinds = tuple(CALLS)
    given: Any = (args, kwargs)
    x: Any
    for x in optree.tree_leaves(given, none_is_leaf=True):
        if isinstance(x, kinds):
            handler = next(CALLS[kind] for kind in kinds if isinstance(x, kind))
            name = getattr(compiled, "__name__", "function")
            flat = partial(_flat_call, compiled)
            return partial(handler, name, flat, args, kwargs)
    return None


class FlatCall:
    """One way of calling a compiled function, as functions of all leaves in a row.

    Attributes:
        value: the function itself.
        vjp: its value and pullback, for the leaves to differentiate.
        pullback: `(*leaves, *cotangents) -> cotangents of these leaves`, to be
            differentiated once more.
    """

    def __init__(self, compiled: Any, spec: Any, active: tuple[int, ...]) -> None:
        def call(*leaves: Any) -> Any:
            args, kwargs = optree.tree_unflatten(spec, leaves)
            return compiled(*args, **kwargs)

        call.__name__ = call.__qualname__ = getattr(compiled, "__name__", "function")
        count = spec.num_leaves

        def pullback(*given: Any) -> Any:
            value, back = self.vjp(*given[:count])
            like = optree.tree_structure(value)
            return back(optree.tree_unflatten(like, given[count:]))

        def make(function: Callable, mode: str, argnums: Any = 0) -> Callable:
            options = replace(
                compiled._options,
                mode=mode,
                argnums=argnums,
                argnames=None,
                has_aux=False,
                named=compiled._options.op,
            )
            return type(compiled)(function, options)

        self.value = make(call, "function")
        self.vjp = make(call, "vjp", active)
        self.pullback = make(pullback, "function")


def _flat_call(compiled: Any, spec: Any, active: tuple[int, ...]) -> FlatCall:
    """The flat call for arguments of one structure, kept on the compiled function.

    Args:
        compiled: the function.
        spec: optree's, of `(args, kwargs)`.
        active: numbers of the leaves to differentiate.
    """
    kept = compiled.__dict__.setdefault("_flat_calls", {})
    found = kept.get((spec, active))
    if found is None:
        found = kept[spec, active] = FlatCall(compiled, spec, active)
    return found
