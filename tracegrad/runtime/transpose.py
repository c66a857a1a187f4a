"""The transpose of a linear function, from the rules of reverse mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.codegen.source import Source
from tracegrad.errors import ArgumentError
from tracegrad.ir.graph import Node, Value
from tracegrad.ir.tree import Leaf, build, leaves, map_leaves, restore
from tracegrad.ops.cast import alias
from tracegrad.runtime.binding import Binder
from tracegrad.runtime.compiled import Compiled
from tracegrad.runtime.inlined import Inlined
from tracegrad.runtime.nested import inline_derivative
from tracegrad.runtime.options import Options
from tracegrad.runtime.spec import Spec
from tracegrad.runtime.transform import (
    binder_of,
    flat_signature,
    given_names,
    kept,
    options_of,
)
from tracegrad.trace.boundary import lower
from tracegrad.trace.proxy import make
from tracegrad.trace.session import ACTIVE
from tracegrad.trace.tracer import active, is_traced


def linear_transpose(
    f: Callable, *primals: Any, backend: str = "numpy", optimize: str = "readable"
) -> Callable[[Any], tuple]:
    """The transpose of a linear function.

    Args:
        f: a function that is linear in all of its arguments together.
        *primals: arguments of the shapes and dtypes that matter; their values do not,
            and `tg.spec`s with numbers for the sizes do as well.
        backend: "numpy" or "jax".
        optimize: "readable" or "fast".

    Returns:
        A function of a cotangent in the structure of the result of `f`, that returns a
        tuple with an entry for each argument of `f`; it has `source`.

    Raises:
        ArgumentError: when it is called, if `f` is not linear.

    Example:
        >>> linear_transpose(lambda x: 3.0 * x[1:], np.zeros(3))(np.ones(2))
        (array([0., 3., 3.]),)
    """
    options = options_of("tg.linear_transpose", backend, optimize)
    binder = binder_of(f, "tg.linear_transpose", backend)
    if active():
        return lambda ct: _transposed(binder, primals, ct)
    count = len(primals)
    examples = [_example(x) for x in primals]

    def make() -> Compiled:
        def record(*args: Any) -> tuple:
            return _transposed(binder, args[:count], args[count])

        names = given_names(binder, primals)
        signature = flat_signature(names, ["d_out"])
        what = "Transpose of {}, which is linear."
        return Compiled(Inlined(binder, "transpose", what, record, signature), options)

    made = kept(f, ("transpose", count, options), make)
    return LinearTranspose(made, examples)


class LinearTranspose:
    """The transpose of a linear function, compiled at its first call."""

    __slots__ = ("_compiled", "_examples")

    def __init__(self, compiled: Compiled, examples: list[Any]) -> None:
        self._compiled, self._examples = compiled, examples

    def __call__(self, ct: Any) -> tuple:
        """One cotangent per argument of the function."""
        return self._compiled(*self._examples, ct)

    def source(self, ct: Any) -> Source:
        """The generated source; it reads only the types of the function's arguments."""
        return self._compiled.source(*self._examples, ct)

    def __repr__(self) -> str:
        return f"<{self._compiled!r}>"


def _example(x: Any) -> Any:
    """An argument with zeros in the place of specs."""

    def leaf(part: Any) -> Leaf:
        if not isinstance(part, Spec):
            return Leaf(part)
        if part.type.weak:
            return Leaf(part.type.dtype.type(0).item())
        return Leaf(np.zeros([int(s) for s in part.type.shape], part.type.dtype))

    tree = build(x, leaf)
    return tree.value if isinstance(tree, Leaf) else _rebuilt(tree)


def _rebuilt(tree: Any) -> Any:
    return (
        tree.value
        if isinstance(tree, Leaf)
        else tree.rebuild(list(map(_rebuilt, tree.children)))
    )


def _fresh(x: Any) -> Any:
    session: Any = ACTIVE.session
    return make(alias(lower(x, [])).value, session) if is_traced(x) else x


def _transposed(binder: Binder, primals: tuple, ct: Any) -> tuple:
    """Record the pullback, which may read nothing but the cotangent and types."""
    wrt = tuple(range(len(primals)))
    options = Options("vjp", argnums=wrt, named="tg.linear_transpose")
    session: Any = ACTIVE.session
    # Values of their own, apart from what the function closes over.
    own = map_leaves(build(primals, Leaf), _fresh)
    primals = restore(own, lambda x: x)
    start = len(session.builder.nodes)
    _, pullback = inline_derivative(binder.function, binder, options, primals, {})
    fixed = {v for n in session.builder.nodes[start:] for v in n.outputs}
    made = pullback(ct)
    producers: dict[Value, Node] = session.builder.producers
    waiting = [
        lower(leaf.value, []).value
        for leaf in leaves(build(made, Leaf))
        if is_traced(leaf.value)
    ]
    primal_values = {
        lower(leaf.value, []).value
        for leaf in leaves(build(primals, Leaf))
        if is_traced(leaf.value)
    }
    seen: set[Value] = set()
    while waiting:
        v = waiting.pop()
        if v in seen or v not in producers:
            continue
        seen.add(v)
        node = producers[v]
        reads = [u for k, u in enumerate(node.inputs) if k not in node.op.type_only]
        if v in fixed and any(u in primal_values for u in reads):
            raise ArgumentError(
                f"{binder.name}() is not linear: its derivative depends on where it is "
                "taken",
                op="tg.linear_transpose",
                at=node.at[-1] if node.at else binder.at,
                fix="use tg.vjp, which takes the derivative at given arguments",
            )
        waiting.extend(reads)
    return made
