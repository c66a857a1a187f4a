"""Loops on traced values: `tg.scan`, `tg.fori_loop`, `tg.while_loop`, `tg.map`.

On plain arrays the functions that the user gives just run, turn by turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError, DTypeError, ShapeError
from tracegrad.ir.graph import Value
from tracegrad.ir.index import ARRAY
from tracegrad.ir.region import Open
from tracegrad.ir.tree import (
    Branch,
    Leaf,
    Static,
    Tree,
    build,
    leaves,
    map_leaves,
    paths,
)
from tracegrad.ir.tree import restore as restore_tree
from tracegrad.ir.types import ArrayType
from tracegrad.ir.types import Size as IrSize
from tracegrad.ops.control import COUNTER, TURNS, for_loop, loop_attrs
from tracegrad.ops.control import while_loop as while_op
from tracegrad.ops.define import ACCEPT
from tracegrad.ops.index import getitem
from tracegrad.ops.infer import same_size
from tracegrad.ops.record import Ref
from tracegrad.trace.bodies import (
    Body,
    check_equal,
    converted,
    finish,
    fits,
    record,
    refused,
    tree_of,
    user_value,
    values_of,
)
from tracegrad.trace.boundary import lower
from tracegrad.trace.buffers import Handle
from tracegrad.trace.forks import trace_body
from tracegrad.trace.session import ACTIVE, Session
from tracegrad.trace.sizes import Size
from tracegrad.trace.source_names import names_of


# ----------------------------------------------------------------------- public names
def while_loop(cond_fun: Callable, body_fun: Callable, init_val: Any) -> Any:
    """Apply `body_fun` to a value for as long as `cond_fun` of it holds.

    The number of turns need not be known, for reverse mode neither: the backward part
    reads the values of the turns from a list.

    Args:
        cond_fun: `value -> bool`.
        body_fun: `value -> value` of the same structure, shapes and dtypes.
        init_val: the first value: an array or a structure of them.

    Raises:
        ShapeError: the body changes a shape.
        DTypeError: the body changes a dtype, or the condition is not a truth.
        ArgumentError: the body changes the structure.

    Example:
        >>> while_loop(lambda x: x < 100.0, lambda x: 2.0 * x, 3.0)
        192.0
    """
    session = ACTIVE.session
    if session is None:
        value = _fresh(init_val)
        while cond_fun(value):
            value = body_fun(value)
        return value
    return _Loop(session, "tg.while_loop", init_val).repeat_while(cond_fun, body_fun)


def fori_loop(lower: Any, upper: Any, body_fun: Callable, init_val: Any) -> Any:
    """`for i in range(lower, upper): value = body_fun(i, value)`.

    Args:
        lower: first counter.
        upper: the counter to stop before.
        body_fun: `(i, value) -> value` of the same structure, shapes and dtypes.
        init_val: the first value: an array or a structure of them.

    Raises:
        ShapeError: the body changes a shape.
        DTypeError: the body changes a dtype.
        ArgumentError: the body changes the structure.

    Example:
        >>> fori_loop(0, 3, lambda i, x: x + i, 10)
        13
    """
    session = ACTIVE.session
    if session is None:
        value = _fresh(init_val)
        for i in range(int(lower), int(upper)):
            value = body_fun(i, value)
        return value
    return _Loop(session, "tg.fori_loop", init_val).repeat(lower, upper, body_fun)


def scan(
    f: Callable,
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    checkpoint: str | None = None,
) -> tuple:
    """Carry a value along the rows of `xs`, and stack what each turn gives.

    Args:
        f: `(carry, x) -> (carry, y)`; the carry keeps its structure, shapes and dtypes.
        init: the first carry: an array or a structure of them.
        xs: arrays of one length, or a structure of them, or None.
        length: the number of turns, needed if `xs` is None.
        reverse: whether to run from the last row to the first.
        checkpoint: "sqrt" saves about the square root of the turns for the backward
            part, and computes the others again.

    Returns:
        `(carry, ys)`: the last carry, and the results stacked along a first axis.

    Raises:
        ShapeError: lengths differ, or the body changes a shape.
        DTypeError: the body changes a dtype.
        ArgumentError: the body changes the structure, or gives no pair.

    Example:
        >>> total, sums = scan(lambda c, x: (c + x, c + x), 0.0, np.array([1.0, 2.0]))
        >>> float(total), sums.tolist()
        (3.0, [1.0, 3.0])
    """
    if checkpoint not in (None, "sqrt"):
        raise ArgumentError(
            f"checkpoint={checkpoint!r} is not known", op="tg.scan", fix="use 'sqrt'"
        )
    session = ACTIVE.session
    if session is None:
        return _scan_plain(f, init, xs, length, reverse)
    rows = tree_of(xs, session)
    count = _length(session, values_of(rows), length)
    if checkpoint is None or type(count) is not int or count < 4:
        return _Loop(session, "tg.scan", init).scan(f, rows, count, reverse)
    return _in_segments(session, f, init, rows, count, reverse)


def map(f: Callable, xs: Any) -> Any:
    """The results of `f` for each row of `xs`, stacked.

    Args:
        f: of one row, or a structure of rows.
        xs: arrays of one length, or a structure of them.

    Example:
        >>> map(lambda x: 2.0 * x, np.array([1.0, 2.0])).tolist()
        [2.0, 4.0]
    """
    return scan(lambda _, x: (None, f(x)), None, xs)[1]


# ------------------------------------------------------------------- on plain arrays
def _fresh(x: Any) -> Any:
    """Containers and arrays that the body may change without changing the caller's."""
    copied = lambda part: Leaf(part.copy() if type(part) is np.ndarray else part)
    return restore_tree(build(x, copied), lambda part: part)


def _plain_row(tree: Tree, t: int) -> Any:
    return restore_tree(tree, lambda x: None if x is None else x[t])


def _scan_plain(
    f: Callable, init: Any, xs: Any, length: int | None, reverse: bool
) -> tuple:
    tree = build(xs, Leaf)
    arrays = [leaf.value for leaf in leaves(tree) if leaf.value is not None]
    counts = {len(x) for x in arrays} | ({int(length)} if length is not None else set())
    if len(counts) != 1:
        raise _lengths_error(sorted(counts))
    (count,) = counts
    carry, ys = _fresh(init), []
    for t in reversed(range(count)) if reverse else range(count):
        carry, y = _pair(f(carry, _plain_row(tree, t)))
        ys.append(build(y, Leaf))
    if reverse:
        ys.reverse()
    if not ys:
        raise ShapeError(
            "a scan of no turns has no results to stack",
            op="tg.scan",
            fix="give arrays with at least one row",
        )
    parts = iter(list(zip(*[[p.value for p in leaves(y)] for y in ys], strict=True)))
    stack = ACCEPT[np.stack]

    def stacked(_: Any) -> Any:
        column = next(parts)
        return None if column[0] is None else stack(list(column))

    return carry, restore_tree(ys[0], stacked)


def _pair(out: Any) -> tuple:
    if isinstance(out, tuple) and len(out) == 2:
        return out
    raise ArgumentError(
        f"the function of tg.scan returned {type(out).__name__}, not (carry, y)",
        op="tg.scan",
        fix="return carry, y (y may be None)",
    )


def _lengths_error(counts: Sequence[Any]) -> ShapeError:
    if not counts:
        return ShapeError(
            "tg.scan without arrays needs a length",
            op="tg.scan",
            fix="pass length=",
        )
    return ShapeError(
        f"tg.scan over arrays of the lengths {', '.join([str(c) for c in counts])}",
        op="tg.scan",
        fix="give arrays with equal first axes",
    )


def _length(session: Session, rows: Sequence[Value], length: Any) -> IrSize:
    """The number of turns of a scan.

    Raises:
        ShapeError: there is none, or more than one.
    """
    sizes: list[Any] = []
    for v in rows:
        if not v.type.shape:
            error = ShapeError(
                f"tg.scan over a scalar ({v.type!r})",
                fix="give arrays with a first axis to run along",
            )
            raise refused(session, error, "tg.scan")
        sizes.append(v.type.shape[0])
    if length is not None:
        sizes.append(length.dim if type(length) is Size else int(length))
    if not sizes or not all(same_size(sizes[0], s) for s in sizes[1:]):
        raise refused(session, _lengths_error(sizes), "tg.scan")
    return sizes[0]


def _in_segments(
    session: Session, f: Callable, init: Any, rows: Tree, count: int, reverse: bool
) -> tuple:
    """A scan of scans, of which the outer one saves nothing but carries."""
    size = math.isqrt(count)
    segments = count // size
    split = segments * size
    xs = user_value(rows, session)
    shape = (segments, size)
    heads = _each(xs, lambda x: x[:split].reshape((*shape, *x.shape[1:])))
    tails = _each(xs, lambda x: x[split:])

    def segment(carry: Any, part: Any) -> tuple:
        return scan(f, carry, part, size, reverse)

    carry, tail = init, None
    if reverse and split < count:
        carry, tail = scan(f, carry, tails, count - split, reverse)
    tree = tree_of(heads, session)
    outer = _Loop(session, "tg.scan", carry)
    carry, ys = outer.scan(segment, tree, segments, reverse, remat=True)
    ys = _each(ys, lambda y: y.reshape((split, *y.shape[2:])))
    if not reverse and split < count:
        carry, tail = scan(f, carry, tails, count - split, reverse)
    if tail is None:
        return carry, ys
    ends = iter([leaf.value for leaf in leaves(build(tail, Leaf))])
    join = ACCEPT[np.concatenate]
    return carry, _each(ys, lambda y: join((y, next(ends))))


def _each(x: Any, function: Callable) -> Any:
    tree = build(x, lambda part: Static(None) if part is None else Leaf(part))
    return restore_tree(tree, function)


# -------------------------------------------------------------------- the traced loop
class _Loop:
    """A loop under construction.

    Attributes:
        session: the trace.
        spelling: how the user calls it.
        init: structure of the first carry; leaves hold `Value`s.
        carry: structure of the carry; leaves hold the parameters of the body.
    """

    def __init__(self, session: Session, spelling: str, init: Any) -> None:
        session.locate()
        self.session = session
        self.spelling = spelling
        self.init = tree_of(init, session)
        self.carry = self.init

    def repeat_while(self, test: Callable, step: Callable) -> Any:
        """`tg.while_loop`."""
        body = self._body(
            step, (step, 0), lambda: trace_body(self.session, step, self.carry)
        )
        asked = trace_body(self.session, test, self.carry)
        outcome = asked.results
        if len(outcome) != 1 or outcome[0].type.shape or outcome[0].type.kind != "b":
            found = ", ".join([repr(v.type) for v in outcome]) or "no array"
            error = DTypeError(
                f"the condition of a loop must be one truth, not {found}",
                fix="compare, and reduce arrays with .any() or .all()",
            )
            raise refused(self.session, error, self.spelling)
        outcome[0].hint, outcome[0].user = None, False  # not what the loop is called
        params = values_of(self.carry)
        parts = [
            Open("test", [], params, asked.nodes, outcome),
            Open("body", [], params, body.nodes, body.results),
        ]
        attrs = loop_attrs(len(params), bounds=(), steps=self._turns())
        node = record(self.session, while_op, parts, attrs, after=self._starts())
        return self._finish(self.carry, node.outputs)

    def repeat(self, start: Any, stop: Any, step: Callable) -> Any:
        """`tg.fori_loop`."""
        bounds: list[Any] = []
        given: list[Value] = []
        for bound in (start, stop):
            value = self._bound(bound)
            bounds.append(None if isinstance(value, Value) else value)
            given += [value] if isinstance(value, Value) else []
        if not given and all(type(b) is int for b in bounds) and bounds[1] <= bounds[0]:
            return user_value(self.init, self.session)
        counter = Value(COUNTER, _parameter(step, 0, "i"), user=True)
        turn = lambda: trace_body(self.session, step, Leaf(counter), self.carry)
        body = self._body(step, (step, 1), turn)
        params = values_of(self.carry)
        parts = [Open("body", [counter], params, body.nodes, body.results)]
        steps = self._turns() if given else None
        attrs = loop_attrs(len(params), bounds=tuple(bounds), steps=steps)
        node = record(self.session, for_loop, parts, attrs, given, self._starts())
        return self._finish(self.carry, node.outputs)

    def scan(
        self, f: Callable, rows: Tree, count: IrSize, reverse: bool, remat: bool = False
    ) -> Any:
        """`tg.scan`."""
        session = self.session
        if type(count) is int and count < 1:
            error = ShapeError(
                "a scan of no turns has no results to stack",
                fix="give arrays with at least one row",
            )
            raise refused(session, error, self.spelling)
        counter = Value(COUNTER, "t", user=True)
        made: list[Tree] = []

        def turn() -> Body:
            def step(t: Any, carry: Any) -> Any:
                row = _row(session, rows, t, _parameter(f, 1, "x"))
                return _pair(f(carry, row))

            body = trace_body(session, step, Leaf(counter), self.carry)
            assert isinstance(body.result, Branch)
            body.result, y = body.result.children
            made[:] = [y]
            return body

        body = self._body(f, (f, 0), turn)
        params = values_of(self.carry)
        ys = values_of(made[0])
        parts = [Open("body", [counter], params, body.nodes, [*body.results, *ys])]
        attrs = loop_attrs(
            len(params), bounds=(0, count), stacked=len(ys), reverse=reverse
        )
        attrs["remat"] = remat
        node = record(session, for_loop, parts, attrs, after=self._starts())
        last, stacks = node.outputs[: len(params)], node.outputs[len(params) :]
        for v, y in zip(stacks, ys, strict=True):
            v.hint = f"{y.hint}s" if y.user and y.hint else None
        pair = Branch("tuple", tuple, (0, 1), (self.carry, made[0]), tuple)
        return self._finish(pair, [*last, *stacks])

    def _finish(self, tree: Tree, outputs: Sequence[Value]) -> Any:
        out = finish(self.session, tree, outputs)
        for v, param in zip(outputs, values_of(self.carry), strict=False):
            if v.hint is None:
                v.hint, v.user = param.hint, param.user
        return out

    def _turns(self) -> str:
        """A name for a number of turns that nothing tells in advance."""
        self.session.loops += 1
        return f"{TURNS}{self.session.loops}"

    def _bound(self, bound: Any) -> Any:
        """A bound of the counter: an int, a size, or a traced int."""
        if type(bound) is Size:
            return bound.dim
        if not isinstance(bound, Handle):
            return int(bound)
        value = lower(bound, []).value
        if value.type.kind not in "iu" or value.type.shape:
            error = DTypeError(
                f"a bound of a loop must be an int, not {value.type!r}",
                fix="convert it with .astype(int)",
            )
            raise refused(self.session, error, self.spelling)
        if self.session.is_concrete(value):
            return int(self.session.ask(value))
        return value

    def _carried(self, types: Sequence[ArrayType]) -> Tree:
        """The carries, as new values of these types."""
        fresh = iter([Value(t) for t in types])
        return map_leaves(self.init, lambda _: next(fresh))

    def _starts(self) -> list[Value]:
        """The first values of the carries, in the dtypes of the carries."""
        pairs = zip(values_of(self.init), values_of(self.carry), strict=True)
        return [converted(self.session, v, to.type) for v, to in pairs]

    def _body(self, function: Callable, of: tuple, turn: Callable[[], Body]) -> Body:
        """The traced body, once the types of the carries are those that it gives."""
        types = [v.type for v in values_of(self.init)]
        while True:
            self.carry = self._carried(types)
            body = turn()
            wanted = self._checked(types, body)
            if wanted == types:
                break
            types = wanted
        body.convert(self.session, types)
        self._name(body, *of)
        return body

    def _checked(self, types: list[ArrayType], body: Body) -> list[ArrayType]:
        """The types of the carries; a number becomes an array where the body says so.

        Raises:
            ArgumentError: the body gives another structure.
            ShapeError: or another shape.
            DTypeError: or another dtype.
        """
        found = [v.type for v in body.results]
        if len(found) == len(types):
            types = [
                b if a.weak and not b.weak and a.shape == b.shape and fits(a, b) else a
                for a, b in zip(types, found, strict=True)
            ]
        given = iter(types)
        first = map_leaves(self.init, lambda v: Value(next(given, v.type)))
        what = "the first carry and the body"
        check_equal(self.session, first, body.result, self.spelling, what)
        return types

    def _name(self, body: Body, function: Callable, position: int) -> None:
        """Give the carries the names that they have in the user's function."""
        params = values_of(self.carry)
        own = _parameter(function, position, "carry")
        parts = _unpacked(function, own, len(params))
        for i, (path, leaf) in enumerate(paths(self.carry)):
            param, result, start = leaf.value, body.results[i], values_of(self.init)[i]
            key = path[-1][1] if path else own
            if not path or isinstance(key, str):
                hint = key
            elif len(path) == 1 and parts is not None and parts[i]:
                hint = parts[i]
            else:
                user = [v.hint for v in (result, start) if v.user and v.hint]
                hint = user[0] if user else start.hint or f"{own}_{i}"
            if hint.startswith("_"):
                hint = start.hint or "carry"
            param.hint, param.user = hint, True


def _row(session: Session, rows: Tree, t: Any, name: str) -> Any:
    """What the body of a scan gets of `xs` in turn `t`."""
    session.locate()
    counter = lower(t, [])
    one = len(list(leaves(rows))) == 1

    def read(v: Value) -> Value:
        row = getitem(Ref(v, session.builder), counter, index=(ARRAY,)).value
        if one:
            row.hint = name
        return row

    return user_value(map_leaves(rows, read), session)


def _code(function: Any) -> Any:
    function = getattr(function, "__wrapped__", function)
    return getattr(getattr(function, "__func__", function), "__code__", None)


def _parameter(function: Callable, position: int, default: str) -> str:
    """The name of a positional parameter of the user's function."""
    code = _code(function)
    if code is None or position >= code.co_argcount:
        return default
    name = code.co_varnames[position]
    return default if name.strip("_") == "" else name


def _unpacked(function: Any, parameter: str, count: int) -> tuple | None:
    """The names that the function gives to the parts of a parameter."""
    code = _code(function)
    if code is None:
        return None
    known = names_of(code.co_filename, getattr(function, "__globals__", None))
    names = known.unpacked.get((code.co_firstlineno, parameter))
    return names if names is not None and len(names) == count else None
