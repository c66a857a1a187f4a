"""Rules on numbers: the code objects of `tracegrad.ops`, with other globals.

A derivative rule calls ops by name.  On plain arrays nothing has to dispatch: the same
code runs with each op's name bound to NumPy's own function or to the op's body, and
each helper bound to a copy of itself made the same way.  The copies are made when an
op is first used, since a rule may name an op that is defined further down.

`reads_of` finds by recording a rule which of its inputs it reads, and which ones it
asks for their type only.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tracegrad.eager.faster import BODIES, HELPERS, IN_RULES
from tracegrad.errors import TracegradError, UnsupportedError
from tracegrad.ir.graph import Const, Node, Value
from tracegrad.ir.types import ArrayType, type_of_constant
from tracegrad.ops import record
from tracegrad.ops.define import Op
from tracegrad.ops.record import Builder, Ref, Scattered

_OURS = ("tracegrad.ops", "tracegrad.eager.rules")
OUT = -1  # the number of the output among what a rule reads


class Like:
    """Stands for an array of which only the type is known."""

    __slots__ = ("dtype", "shape")
    __array_ufunc__ = None  # arithmetic on it is an error, never a zero

    def __init__(self, shape: tuple, dtype: np.dtype) -> None:
        self.shape = shape
        self.dtype = dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        count = 1
        for n in self.shape:
            count *= n
        return count

    @property
    def type(self) -> ArrayType:
        """Shape and dtype."""
        return ArrayType(self.shape, self.dtype)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        # For functions such as `zeros_like`, which ask for the type only.
        return np.broadcast_to(np.zeros((), self.dtype), self.shape)


# ------------------------------------------------- what rules may ask, about numbers
def _type_of(x: Any) -> ArrayType:
    if isinstance(x, np.ndarray | np.generic | Like):
        return ArrayType(x.shape, x.dtype)
    return type_of_constant(x)


def _shape_of(x: Any) -> tuple:
    return x.shape if hasattr(x, "shape") else np.shape(x)


def _ndim_of(x: Any) -> int:
    return x.ndim if hasattr(x, "ndim") else np.ndim(x)


def _dtype_of(x: Any) -> np.dtype:
    return x.dtype if hasattr(x, "dtype") else _type_of(x).dtype


def constant_of(x: Any) -> Any:
    """The number behind a Python scalar operand: a read-only 0-d array, or itself."""
    if type(x) is np.ndarray:
        return x.item() if not x.ndim and not x.flags.writeable else None
    return None if isinstance(x, Like) else x


_REPLACED = {
    record.type_of: _type_of,
    record.shape_of: _shape_of,
    record.ndim_of: _ndim_of,
    record.dtype_of: _dtype_of,
    record.constant_of: constant_of,
    **HELPERS,
}


# ----------------------------------------------------------------------- re-binding
_globals: dict[int, dict[str, Any]] = {}
_bodies: dict[str, Callable] = {}


def _is_ours(function: Any) -> bool:
    return isinstance(function, types.FunctionType) and (
        function.__globals__.get("__name__", "").startswith(_OURS)
    )


def plain(op: Op) -> Callable:
    """The fastest function that computes `op` on plain arrays."""
    found = _bodies.get(op.name) or BODIES.get(op)
    if found is None:
        ufunc = getattr(op.infer, "ufunc", None)
        # `x**2` has short cuts that np.power lacks.
        if isinstance(ufunc, np.ufunc) and ufunc is not np.power and _is(op, ufunc):
            found = ufunc
        else:
            found = _forwarded(op.run) or numeric(op.run)
        _bodies[op.name] = found
    return found


def _is(op: Op, ufunc: np.ufunc) -> bool:
    """Whether the ufunc that an op's inference follows is what it computes."""
    if op.defaults:
        return False
    for sample in op.samples:
        arrays = sample.make()
        with np.errstate(all="ignore"):
            made, wanted = ufunc(*arrays), op.run(*arrays)
        if (
            isinstance(made, tuple)
            or type(made) is not type(wanted)
            or not np.array_equal(
                np.asarray(made), np.asarray(wanted), equal_nan=made.dtype.kind in "fc"
            )
        ):
            return False
    return True


_NOISE = {"RESUME", "PRECALL", "PUSH_NULL", "CACHE", "NOP", "KW_NAMES"}


def _forwarded(body: Callable) -> Callable | None:
    """`np.where` for a body that reads `return xp.where(c, x, y)`."""
    if not isinstance(body, types.FunctionType) or body.__code__.co_kwonlyargcount:
        return None
    steps = [i for i in dis.get_instructions(body) if i.opname not in _NOISE]
    args: list[str] = []
    for i in steps[2:-2]:
        if not i.opname.startswith("LOAD_FAST"):
            return None
        args.extend(i.argval if isinstance(i.argval, tuple) else (i.argval,))
    names = [i.opname for i in steps]
    if names[:1] != ["LOAD_GLOBAL"] or names[1] not in ("LOAD_ATTR", "LOAD_METHOD"):
        return None
    if names[-2:] != ["CALL", "RETURN_VALUE"] or steps[0].argval != "xp":
        return None
    code = body.__code__
    if tuple(args) != code.co_varnames[: code.co_argcount]:
        return None
    return getattr(np, steps[1].argval)


def _rebound(value: Any) -> Any:
    if isinstance(value, Op):
        return _Lazy(value)
    if isinstance(value, functools.partial) and _is_ours(value.func):
        return functools.partial(numeric(value.func), *value.args, **value.keywords)
    return numeric(value) if _is_ours(value) else value


class _Lazy:
    """A name of an op in re-bound globals, until it is first called."""

    def __init__(self, op: Op) -> None:
        self.op = op

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        function = IN_RULES.get(self.op) or plain(self.op)
        for scope in _globals.values():
            for name, value in scope.items():
                if value is self:
                    scope[name] = function
        return function(*args, **attrs)


def _numeric_globals(scope: dict[str, Any]) -> dict[str, Any]:
    """The globals of a module of ops, all names re-bound."""
    made = _globals.get(id(scope))
    if made is None:
        made = _globals[id(scope)] = dict(scope)
        for name, value in scope.items():
            if not name.startswith("__"):
                made[name] = _rebound(value)
        made["__name__"] = "tracegrad.eager.numeric"
    return made


_functions: dict[Callable, Callable] = {}


def numeric(function: Any) -> Any:
    """The same code, computing with plain arrays."""
    if not _is_ours(function):
        return _rebound(function)
    if function in _REPLACED:
        return _REPLACED[function]
    made = _functions.get(function)
    if made is None:
        closure = function.__closure__
        if closure is not None:
            closure = tuple(
                [types.CellType(_rebound(c.cell_contents)) for c in closure]
            )
        scope = _numeric_globals(function.__globals__)
        made = _functions.get(function)
        if made is not None:
            return made
        made = types.FunctionType(
            function.__code__,
            scope,
            function.__name__,
            function.__defaults__,
            closure,
        )
        made.__kwdefaults__ = function.__kwdefaults__
        _functions[function] = made
    return made


# ----------------------------------------------------------- what a rule reads
def names_loaded(rule: Any) -> set[str] | None:
    """The local names that a function reads, or None if that cannot be seen."""
    if not isinstance(rule, types.FunctionType):
        return None
    found: set[str] = set()
    for i in dis.get_instructions(rule):
        if "LOAD_FAST" in i.opname or i.opname in ("LOAD_CLOSURE", "LOAD_DEREF"):
            found.update(i.argval if isinstance(i.argval, tuple) else (i.argval,))
    return found


def hands_on(rule: Any) -> bool:
    """Whether a rule gives the cotangent as it is: `lambda ct, z, x, y: ct`."""
    same = (lambda ct, z, x, y: ct).__code__
    code = getattr(rule, "__code__", None)
    return (
        code is not None
        and code.co_code == same.co_code
        and code.co_varnames[:1] == ("ct",)
        and not code.co_freevars
    )


def _asks_for_constants(function: Any, seen: set[Any]) -> bool:
    if function is record.constant_of:
        return True
    if not _is_ours(function) or function in seen:
        return False
    seen.add(function)
    codes = [function.__code__]
    for code in codes:
        codes.extend(c for c in code.co_consts if isinstance(c, types.CodeType))
    names = {name for code in codes for name in code.co_names}
    scope = function.__globals__
    return any(_asks_for_constants(scope.get(name), seen) for name in names)


def asks_for_constants(op: Op, rules: Any) -> bool:
    """Whether a rule is another one for known numbers, as that of a power."""
    return any(_asks_for_constants(r, set()) for r in rules or (op.rule,))


_CONSTANTS = (0.0, 0.5, 1.0, 2.0, 2.5, 3.0, -1.0)


def _probes(
    op: Op, rules: Any, complex_too: bool
) -> Iterator[tuple[list[Value], dict[str, Any]]]:
    """Calls to record: the op's samples, also with constants for single inputs."""
    constants = asks_for_constants(op, rules)
    for number, sample in enumerate(op.samples):
        arrays = sample.make()
        if not complex_too and any(a.dtype.kind == "c" for a in arrays):
            continue
        values = [Value(ArrayType(a.shape, a.dtype)) for a in arrays]
        attrs = {**op.defaults, **sample.attrs}
        yield values, attrs
        if constants and number < 3 and len(values) > 1:
            for k in range(len(values)):
                for c in _CONSTANTS:
                    yield [*values[:k], Const(c), *values[k + 1 :]], attrs


def reads_of(op: Op, rules: Any, complex_too: bool) -> list[set[int]]:
    """For each parameter of `op`, the numbers of the values that its cotangent reads.

    The union over the op's samples; `OUT` is the output.  All inputs of a variadic
    parameter count as one.  For an op with one rule for all inputs, parts are told
    apart too.

    Args:
        op: the op.
        rules: its rules, one per input, or None where it has one for all.
        complex_too: whether complex samples count.
    """
    last = len(op.params) - 1
    found: list[set[int]] = [set() for _ in op.params]
    for values, attrs in _probes(op, rules, complex_too):
        for k, reads in _reads_in(op, rules, values, attrs):
            found[min(k, last)] |= {min(r, last) for r in reads}
    return found


def _reads_in(
    op: Op, rules: Any, values: list, attrs: dict
) -> Iterator[tuple[int, set[int]]]:
    types_in = [v.type for v in values]
    try:
        made = op.infer(*types_in, **attrs)
    except TracegradError:
        return
    many = type(made) is tuple
    outs = [Value(t) for t in (made if many else (made,))]
    builder = Builder()
    wrap = builder.wrap
    cts = tuple([wrap(Value(v.type)) if v.type.differentiable else None for v in outs])
    wrapped = tuple(map(wrap, outs))
    ct, out = (cts, wrapped) if many else (cts[0], wrapped[0])
    if not any(c is not None for c in cts):
        return
    inputs = list(map(wrap, values))
    for k, part, nodes in _apply(op, rules, ct, out, inputs, attrs):
        if part is not None and values[k].type.differentiable:
            yield k, _values_read(nodes, part, values, outs)


def _apply(
    op: Op, rules: Any, ct: Any, out: Any, inputs: list, attrs: dict
) -> Iterator[tuple[int, Any, list[Node]]]:
    """For each input its cotangent, None also where a rule refuses, and the nodes."""
    recorded = inputs[0].builder.nodes
    if rules is None:
        whole = op.rule(ct, out, *inputs, **attrs)  # type: ignore[misc]
        parts = list(whole) if isinstance(whole, tuple | list) else [whole]
        yield from ((k, part, recorded) for k, part in enumerate(parts))
        return
    for k, (rule, x) in enumerate(zip(rules, inputs)):
        recorded.clear()
        try:
            wanted = rule and x.type.differentiable
            yield k, rule(ct, out, *inputs, **attrs) if wanted else None, recorded
        except (UnsupportedError, ValueError):
            # Raised again when it is asked for; or a probe outside of the domain.
            yield k, None, recorded


def _values_read(
    nodes: list[Node], part: Any, values: list[Value], outs: list[Value]
) -> set[int]:
    """The numbers of inputs, or OUT, that running the rule reads.

    Also what only a dead node reads: on numbers all of a rule runs.
    """
    if isinstance(part, Scattered):
        read = {r.value for r in (part.ct, *part.indices) if isinstance(r, Ref)}
    else:
        read = {part.value} if isinstance(part, Ref) else set()
    for node in nodes:
        read.update(v for k, v in enumerate(node.inputs) if k not in node.op.type_only)
    reads = {k for k, v in enumerate(values) if v in read}
    return reads | ({OUT} if any(v in read for v in outs) else set())
