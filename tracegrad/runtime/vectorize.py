"""`vmap`: a function of one example as a function of a batch."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.autodiff.batch import batch, from_front, to_front
from tracegrad.errors import ArgumentError, ControlFlowError, ShapeError
from tracegrad.ir.graph import Node, Value
from tracegrad.ir.tree import Branch, Leaf, Static, Tree, build, outline
from tracegrad.ir.tree import restore as restore_tree
from tracegrad.ir.types import ArrayType, Size
from tracegrad.ops.create import full
from tracegrad.ops.define import Op
from tracegrad.ops.infer import same_size, shape_text
from tracegrad.ops.record import Builder, Ref
from tracegrad.ops.shape import broadcast_to
from tracegrad.runtime.binding import Binder, Bound, step_text
from tracegrad.runtime.compiled import Compiled
from tracegrad.runtime.derive import as_values
from tracegrad.runtime.inlined import Inlined
from tracegrad.runtime.options import decorator
from tracegrad.runtime.transform import binder_of, options_of
from tracegrad.trace.boundary import lower
from tracegrad.trace.demand import PEEKING
from tracegrad.trace.proxy import make
from tracegrad.trace.session import ACTIVE, Session
from tracegrad.trace.tracer import inline, is_traced


@decorator
def vmap(
    f: Callable | None = None,
    in_axes: Any = 0,
    out_axes: Any = 0,
    *,
    axis_size: int | None = None,
    strict: bool = False,
    backend: str = "numpy",
    optimize: str = "readable",
    reroll: bool = True,
) -> Any:
    """A function of one example, made a function of a batch of examples.

    The operations of `f` are replaced by operations on the whole batch.  One that has
    no batched form is written out for each example, which the source says.

    Args:
        f: a function of arrays or structures of them.
        in_axes: the axis of each argument that counts the examples, `None` for an
            argument that all examples share: one for all arguments, or a tuple with an
            entry for each, where an entry may be a structure that begins like the
            argument.  Keyword arguments count examples along their first axis; numbers
            that have a default are shared.
        out_axes: the axis of the results that counts the examples, likewise.
        axis_size: how many examples there are, needed if all arguments are shared.
        strict: refuse operations that have no batched form.
        backend: "numpy" or "jax".
        optimize: "readable" or "fast".
        reroll: see `grad`.

    Returns:
        A function with the arguments of `f`.

    Raises:
        ArgumentError: `in_axes` or `out_axes` do not fit the arguments or results.
        ShapeError: an axis is out of range, or the sizes along the axes differ.
        UnsupportedError: an operation has no batched form, and `strict`.

    Example:
        >>> vmap(lambda x, y: x @ y, in_axes=(0, None))(np.eye(2), np.array([1.0, 2.0]))
        array([1., 2.])
    """
    options = options_of("tg.vmap", backend, optimize, reroll=reroll)
    binder = binder_of(f, "tg.vmap", backend)
    in_axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes

    def inlined(axes: Any) -> Inlined:
        mapped = _Mapped(binder, axes, out_axes, axis_size, strict)
        made = Inlined(binder, "vmap", "{} of each example of a batch.", mapped.record)
        shifted = (None, *axes) if isinstance(axes, tuple) else axes
        made.past_self = lambda: inlined(shifted)
        return made

    return Compiled(inlined(in_axes), options)


_EMPTY = inspect.Parameter.empty


def _example(x: Any) -> Any:
    if PEEKING.on:
        return x[0]
    raise ControlFlowError(
        "Python asked for the value of an array inside of tg.vmap, where every example "
        "has another",
        op="if, while, bool() or int()",
        fix="use np.where, or loop over the examples in Python",
    )


# No entry of the table of ops: it stands in no graph, and says where a value is from.
_EXAMPLE = Op(_example, lambda t: t.with_shape(t.shape[1:]))


class _Mapped:
    """One use of `vmap`: its options, and how it is recorded."""

    def __init__(
        self,
        binder: Binder,
        in_axes: Any,
        out_axes: Any,
        axis_size: int | None,
        strict: bool,
    ) -> None:
        self.binder = binder
        self.in_axes, self.out_axes = in_axes, out_axes
        self.axis_size, self.strict = axis_size, strict

    def record(self, *args: Any, **kwargs: Any) -> Any:
        """The results for the batch, recorded in the running trace."""
        session = ACTIVE.session
        assert session is not None
        session.locate()
        call = _Call(self, session)
        slots = self.binder.slots(args, kwargs)
        positional = [slot for slot in slots if slot.positional][: len(args)]
        axes = self._axes_of(args, positional)
        given = tuple(
            [
                call.enter(x, a, slot.where)
                for x, a, slot in zip(args, axes, positional, strict=True)
            ]
        )
        defaults = {slot.name: slot for slot in slots}
        named = {
            key: call.enter(x, self._axis(0, x, defaults[key]), key)
            for key, x in kwargs.items()
        }
        size = call.size if call.size is not None else self.axis_size
        if size is None:
            raise self.error(
                "no argument counts examples",
                "give one of them an axis in in_axes, or axis_size=",
            )

        def transform(
            builder: Builder, nodes: list[Node], params: tuple, result: Tree
        ) -> Tree:
            builder.nodes = []
            known = batch(builder, nodes, call.batched, size, self.strict)
            value = as_values(result)
            return self._leave(builder, value, self.out_axes, known, size, "result")

        return inline(self.binder.function, given, named, transform)

    def _axes_of(self, args: tuple, slots: list[Bound]) -> list[Any]:
        """The entry of `in_axes` for each positional argument."""
        in_axes = self.in_axes
        if not isinstance(in_axes, tuple):
            pairs = zip(args, slots, strict=True)
            return [self._axis(in_axes, x, slot) for x, slot in pairs]
        left_out = slots[len(in_axes) :]
        if len(in_axes) > len(args) or any(s.default is _EMPTY for s in left_out):
            raise self.error(
                f"in_axes={in_axes!r} has {len(in_axes)} entries for {len(args)} "
                "arguments",
                "give one entry for each argument, or one int for all",
            )
        return [*in_axes, *[None] * len(left_out)]

    def _axis(self, axes: Any, x: Any, slot: Bound) -> Any:
        """The axes of an argument that no entry of `in_axes` is for.

        A number that has a default is shared by all examples, and so counts for none.
        """
        if slot.default is _EMPTY or type(axes) is not int:
            return axes
        if isinstance(slot.default, np.ndarray):
            # Whether it was passed or left out, a program can't tell apart.
            raise self.error(
                f"the default of `{slot.where}` is an array, which is either shared "
                "by all examples or counts them",
                "give it an entry in in_axes, or let the function close over it",
            )
        return None if _is_array(x) and not np.ndim(x) else axes

    def error(self, what: str, fix: str, cls: type = ArgumentError) -> Exception:
        """An error of the four-line form."""
        return cls(what, op="tg.vmap", at=self.binder.at, fix=fix)

    def _leave(
        self,
        builder: Builder,
        tree: Tree,
        axes: Any,
        known: dict[Value, Ref],
        size: Size,
        where: str,
    ) -> Tree:
        """The results with their batch axes where `out_axes` puts them."""
        if isinstance(tree, Static):
            return tree
        if isinstance(tree, Leaf):
            if axes is not None and type(axes) is not int:
                raise self._misfit("out_axes", axes, tree, where)
            return Leaf(self._placed(builder, tree.value, axes, known, size, where))
        parts = self._spread(tree, axes, "out_axes", where)
        children = tuple(
            [
                self._leave(
                    builder, c, a, known, size, where + step_text(tree.kind, key)
                )
                for c, a, key in zip(tree.children, parts, tree.keys, strict=True)
            ]
        )
        return Branch(tree.kind, tree.type, tree.keys, children, tree.rebuild)

    def _placed(
        self,
        builder: Builder,
        v: Value,
        axis: int | None,
        known: dict[Value, Ref],
        size: Size,
        where: str,
    ) -> Value:
        if axis is None:
            if v in known:
                raise self.error(
                    f"out_axes is None for `{where}`, which differs from example to "
                    "example",
                    "give it an axis in out_axes",
                )
            return v
        before, builder.derived = builder.derived, True
        if v in known:
            made = known[v]
        elif v.type.ndim == 0:
            attrs = {"shape": (size,), "dtype": v.type.dtype.name}
            made = builder.record(full, (builder.wrap(v),), attrs)
        else:
            made = broadcast_to(builder.wrap(v), shape=(size, *v.type.shape))
        axis = self.checked(axis, made.ndim, made.shape, "out_axes", where)
        made = from_front(made, axis)
        builder.derived = before
        return made.value

    def checked(
        self, axis: int, ndim: int, shape: tuple, which: str, where: str
    ) -> int:
        """An axis counted from the front."""
        if not -ndim <= axis < ndim:
            raise self.error(
                f"{which} has the axis {axis} for `{where}`, which has the shape "
                f"{shape_text(shape)}",
                f"use an axis from {-ndim} to {ndim - 1}, or None"
                if ndim
                else "use None for what all examples share",
                ShapeError,
            )
        return axis % ndim

    def _spread(self, tree: Branch, axes: Any, which: str, where: str) -> list[Any]:
        """The entry of `axes` for each child of a container."""
        if axes is None or type(axes) is int:
            return [axes] * len(tree.children)
        level = build(axes, Leaf)
        if isinstance(level, Branch) and level.keys == tree.keys:
            if level.kind == tree.kind or {level.kind, tree.kind} == {"list", "tuple"}:
                return [restore_tree(c, lambda x: x) for c in level.children]
        raise self._misfit(which, axes, tree, where)

    def _misfit(self, which: str, axes: Any, tree: Tree, where: str) -> Exception:
        return self.error(
            f"{which} has {axes!r} for `{where}`, which is {outline(tree)}",
            f"give {which} an int, None, or a structure that begins like `{where}`",
        )


class _Call:
    """The arguments of one call of a mapped function.

    Attributes:
        batched: the value for one example -> the whole batch.
        size: of the batch, as soon as one argument is seen.
    """

    def __init__(self, mapped: _Mapped, session: Session) -> None:
        self.mapped, self.session = mapped, session
        self.batched: dict[Value, Ref] = {}
        self.size: Size | None = None
        self.seen: list[str] = []

    def enter(self, x: Any, axes: Any, where: str) -> Any:
        """An argument with one example in the place of each batch."""
        tree = build(x, lambda part: Leaf(part) if _is_array(part) else Static(part))
        return restore_tree(self._entered(tree, axes, where), lambda part: part)

    def _entered(self, tree: Tree, axes: Any, where: str) -> Tree:
        if isinstance(tree, Static):
            return tree
        if isinstance(tree, Leaf):
            if axes is None:
                return tree
            if type(axes) is not int:
                raise self.mapped._misfit("in_axes", axes, tree, where)
            return Leaf(self._example_of(tree.value, axes, where))
        parts = self.mapped._spread(tree, axes, "in_axes", where)
        children = tuple(
            [
                self._entered(c, a, where + step_text(tree.kind, key))
                for c, a, key in zip(tree.children, parts, tree.keys, strict=True)
            ]
        )
        return Branch(tree.kind, tree.type, tree.keys, children, tree.rebuild)

    def _example_of(self, x: Any, axis: int, where: str) -> Any:
        session = self.session
        builder = session.builder
        ref = lower(x, []) if is_traced(x) else builder.wrap(builder.lift(x))
        axis = self.mapped.checked(axis, ref.ndim, ref.shape, "in_axes", where)
        self._check_size(ref.shape[axis], axis, where)
        before, builder.derived = builder.derived, True
        front = to_front(ref, axis)
        builder.derived = before
        shape = front.shape[1:]
        example = Value(ArrayType(shape, ref.dtype), ref.value.hint)
        builder.producers[example] = Node(_EXAMPLE, (front.value,), (example,), {})
        self.batched[example] = front
        return make(example, session)

    def _check_size(self, size: Size, axis: int, where: str) -> None:
        self.seen.append(f"{size} along axis {axis} of `{where}`")
        expected = self.mapped.axis_size if self.size is None else self.size
        if expected is not None and not same_size(expected, size):
            raise self.mapped.error(
                f"the arguments have different numbers of examples: "
                f"{', '.join(self.seen)}"
                if self.size is not None
                else f"axis_size={expected}, but there are {', '.join(self.seen)}",
                "give all mapped axes the same size, or None in in_axes",
                ShapeError,
            )
        if self.size is None or (type(size) is int and type(self.size) is not int):
            self.size = size


def _is_array(x: Any) -> bool:
    numbers = (int, float, complex)
    return is_traced(x) or isinstance(x, np.ndarray | np.generic) or type(x) in numbers
