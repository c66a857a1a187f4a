"""The array that a traced function computes with.

It has a shape and a dtype, NumPy's operators, methods and protocols, but no values.
Where Python or C code needs values, a proxy that depends on constants alone gives them;
another raises an error that names the user's line and a way out.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tracegrad.errors import ControlFlowError, UnsupportedError
from tracegrad.ir.graph import Value
from tracegrad.ir.types import Dim
from tracegrad.ops.cast import python_float, to_float
from tracegrad.ops.define import HANDLERS, METHODS, OPERATORS, PROPERTIES, UPDATES, Op
from tracegrad.ops.index import getitem, read, subscript
from tracegrad.ops.infer import broadcast_shapes, result_dtype
from tracegrad.ops.record import Ref, as_operand, type_of
from tracegrad.ops.scatter import choose, scatter_add, write
from tracegrad.ops.sparse import is_sparse
from tracegrad.trace.boundary import (
    enter,
    holds_handles,
    lower,
    name_result,
    session_of,
)
from tracegrad.trace.buffers import (
    ARGUMENT,
    Buffer,
    Handle,
    Unjoin,
    current,
    push,
    raveled_anew,
    refuse_write,
)
from tracegrad.trace.conversions import (
    conversion,
    data_of,
    in_text,
    name_of,
    place_of,
    shown_of,
)
from tracegrad.trace.identity import counted, is_python_truth, may_count
from tracegrad.trace.numpy_api import (
    FRESH_METHODS,
    call_function,
    call_ufunc,
    fit,
    read_only,
    update,
    write_out,
)
from tracegrad.trace.session import Session
from tracegrad.trace.sizes import Size, user_shape
from tracegrad.trace.sparse import (
    asked_by_sparse,
    refuse_methods,
    taken_for_array,
    with_sparse,
)

_PYTHON = {"b": bool, "i": int, "f": float, "c": complex}
_OPERAND_TYPES = (
    bool,
    int,
    float,
    complex,
    np.ndarray,
    np.generic,
    list,
    tuple,
)


def _takes(x: Any) -> bool:
    """Whether NumPy's operators take `x` as the other operand."""
    return isinstance(x, Ref) or type(x) is Size or isinstance(x, _OPERAND_TYPES)


# Operators that give a truth, or combine truths bit by bit.
_COMPARISONS = {"__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"}
_OF_TRUTHS = {*_COMPARISONS, "__and__", "__or__", "__xor__"}


def _binary(name: str) -> Callable:
    counts = name not in _OF_TRUTHS

    def forward(self: Proxy, other: Any) -> Any:
        if not _takes(other):
            if is_sparse(other):
                return with_sparse(session_of(self), _SYMBOLS[name], self, other, other)
            return NotImplemented
        operands: tuple = (self, other)
        if counts and (may_count(self) or may_count(other)):
            operands = counted(self, other)
        return enter(session_of(self), _operate, (name, *operands), name=_SYMBOLS[name])

    return forward


def _reflected(name: str) -> Callable:
    counts = name not in _OF_TRUTHS

    def backward(self: Proxy, other: Any) -> Any:
        if not _takes(other):
            if is_sparse(other):
                return with_sparse(session_of(self), _SYMBOLS[name], other, self, other)
            return NotImplemented
        operands: tuple = (other, self)
        if counts and (may_count(self) or may_count(other)):
            operands = counted(other, self)
        return enter(session_of(self), _operate, (name, *operands), name=_SYMBOLS[name])

    return backward


def _operate(name: str, a: Any, b: Any) -> Any:
    return OPERATORS[name](as_operand(a), as_operand(b))


def _unary(name: str) -> Callable:
    def apply(self: Proxy) -> Any:
        (x,) = counted(self) if may_count(self) else (self,)
        return enter(session_of(self), OPERATORS[name], (x,), name=_SYMBOLS[name])

    return apply


def _absolute(self: Proxy) -> Any:
    """`abs(x)`, which is a Python float if `x` is one."""
    session = session_of(self)
    (x,) = counted(self) if may_count(self) else (self,)
    made = enter(session, OPERATORS["__abs__"], (x,), name="abs")
    if session.narrow and self.value.type.weak and made.dtype == np.float64:
        return enter(session, python_float, (made,), name="abs")
    return made


def _in_place(name: str) -> Callable:
    def assign(self: Proxy, other: Any) -> Any:
        if not _takes(other):
            return NotImplemented
        if not self.value.type.shape:
            # NumPy's scalars are immutable: the name is bound to a new one.
            return OPERATOR_FUNCTIONS[name](self, other)
        session = session_of(self)

        def run(value: Any) -> None:
            value = as_operand(value)
            refuse_write(self)
            if not _add_into_view(self, name, value):
                before = Ref(current(self), self.builder)
                after = fit(OPERATORS[name](before, value), before, spelled)
                push(self, after.value)

        spelled = f"{_SYMBOLS[name]}="
        enter(session, run, (other,), name=spelled)
        name_result(self, session)
        return self

    return assign


def _hashed(self: Proxy) -> int:
    """Of the number: what is found in a dict or a set depends on it."""
    if self.buffer.loose is not None:
        raise Unjoin(self.buffer.loose)
    value = current(self)
    if value.type.shape:
        raise TypeError("unhashable type: 'numpy.ndarray'")
    return hash(session_of(self).demand.settled(value, conversion(self, "a key")))


def _add_into_view(handle: Handle, name: str, value: Any) -> bool:
    """`x[1:] += value` as one op on `x`; False where that form does not apply."""
    if name not in ("__add__", "__sub__") or len(handle.steps) != 1:
        return False
    (step,) = handle.steps
    to = handle.value.type
    given = type_of(value)
    if step.op is not getitem or len(step.inputs) > 1 or handle.parent is None:
        return False
    if result_dtype(to, given) != to.dtype or to.kind == "b":
        return False
    if broadcast_shapes(to.shape, given.shape) != to.shape:
        return False
    base = Ref(current(handle.parent), handle.builder)
    if name == "__sub__":
        value = OPERATORS["__neg__"](value) if isinstance(value, Ref) else -value
    whole = scatter_add(base, value, index=step.attrs["index"], unique=True)
    push(handle.parent, whole.value)
    return True


class Proxy(Handle):
    """A traced array, or a traced Python number (whose type is weak)."""

    __slots__ = ()
    __array_priority__ = 1000.0

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What NumPy would have here, so that `isinstance` in user code holds."""
        if asked_by_sparse(1):
            return np.ndarray if taken_for_array(1) else Proxy
        t = self.value.type
        if t.weak:
            return _PYTHON.get(t.kind, Proxy)
        if t.shape or self.buffer.origin is ARGUMENT:
            return np.ndarray
        if t.kind == "b" and is_python_truth(self):
            return bool
        return t.dtype.type

    # -------------------------------------------------------------- what types tell
    @property
    def shape(self) -> tuple:
        """The shape; symbolic sizes are `Size`s."""
        shape = self.value.type.shape
        for size in shape:
            if type(size) is not int:
                return user_shape(shape, session_of(self))
        return shape

    @shape.setter
    def shape(self, value: Any) -> None:
        raise UnsupportedError(
            "assigning to x.shape is not supported",
            op="x.shape = ...",
            at=place_of(self),
            fix="use x = x.reshape(...)",
        )

    @property
    def size(self) -> Any:
        """The number of elements."""
        total: Any = 1
        for size in self.shape:
            total = total * size
        return total

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> Any:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        shape = self.value.type.shape
        if not shape:
            raise TypeError("len() of unsized object")
        first = shape[0]
        if isinstance(first, Dim):
            return Size(first, session_of(self)).__index__()
        return first

    def __iter__(self) -> Iterator[Any]:
        if not self.value.type.shape:
            raise TypeError("iteration over a 0-d array")
        return _rows(self, len(self))

    def __contains__(self, item: Any) -> bool:
        return bool((self == item).any())

    def __repr__(self) -> str:
        number = in_text(self)
        return name_of(self) if number is None else repr(number)

    def __str__(self) -> str:
        return str(shown_of(self))

    def __format__(self, spec: str) -> str:
        shown = shown_of(self)
        return shown if type(shown) is str else format(shown, spec)

    def __getattr__(self, name: str) -> Any:
        found = PROPERTIES.get(name)
        if found is not None:
            return enter(session_of(self), found, (self,), name=f"x.{name}")
        if name in METHODS or name in UPDATES:
            return Method(self, name)
        if not name.startswith("_") and hasattr(np.ndarray, name):
            raise UnsupportedError(
                f"no derivative rule yet for ndarray.{name}",
                op=f"x.{name}",
                at=place_of(self),
                fix="write it with functions that have a rule",
            )
        raise AttributeError(f"a traced array has no attribute {name!r}")

    # -------------------------------------------------------------- NumPy's protocols
    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any
    ) -> Any:
        return call_ufunc(session_of(self), ufunc, method, inputs, kwargs)

    def __array_function__(
        self, function: Callable, types: Any, args: tuple, kwargs: dict[str, Any]
    ) -> Any:
        return call_function(session_of(self), function, args, kwargs)

    # ------------------------------------------------------------------- subscripts
    def __getitem__(self, key: Any) -> Any:
        return enter(session_of(self), read, (self, key), name="x[...]")

    def __setitem__(self, key: Any, value: Any) -> None:
        session = session_of(self)
        if isinstance(value, Handle) and _is_view_at(value, self, key):
            return  # `x[1:] += y` stores the view that it has changed

        row = _row_of(self)
        keys = key if type(key) is tuple else (key,)
        if row is not None and all(type(k) in _BASIC_KEYS for k in keys):
            parent, leading = row  # `row = out[i]; row[1] = y` writes `out[i, 1]`
            parent[(*leading, *keys)] = value
            return

        def run(key: Any, value: Any) -> None:
            refuse_write(self)
            before = Ref(current(self), self.builder)
            mask = _traced_mask(before, key, session)
            if mask is not None and not type_of(as_operand(value)).shape:
                push(self, choose(mask, as_operand(value), before).value)
            else:
                push(self, write(before, key, as_operand(value)).value)

        enter(session, run, (key, value), name="x[...] = value")

    def __delitem__(self, key: Any) -> None:
        raise ValueError("cannot delete array elements")

    # ----------------------------------------------- values, where there are some
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if asked_by_sparse(1):
            refuse_methods(session_of(self), 1)
            # A 0-d object array says: leave the operator to the other operand.
            return np.array(None, dtype=object)
        data = np.asarray(data_of(self, "a plain array"), dtype=dtype)
        return data.copy() if copy else read_only(data)

    def __float__(self) -> float:
        return float(data_of(self, "a Python float"))

    def __complex__(self) -> complex:
        return complex(data_of(self, "a Python complex"))

    def __int__(self) -> int:
        value = current(self)
        error = conversion(self, "a Python int")
        if value.type.kind == "c":
            raise error
        return session_of(self).decided(value, int, error)

    def __index__(self) -> int:
        value = current(self)
        session, error = session_of(self), conversion(self, "an index")
        if value.type.kind == "b" and self.__class__ is bool:
            return int(session.decided(value, bool, error))
        if value.type.kind not in "iu" or value.type.shape:
            return operator.index(data_of(self, "an index"))
        return session.decided(value, int, error)

    def __bool__(self) -> bool:
        session = session_of(self)
        value = current(self)
        error = ControlFlowError(
            f"the truth of a traced value ({value.type!r}) cannot be known from types "
            "alone",
            op="bool()",
            fix="use np.where(condition, a, b), tg.cond or tg.while_loop, or pass "
            "arrays instead of tg.spec",
        )
        return session.decided(value, bool, error)

    def __divmod__(self, other: Any) -> tuple:
        floor, mod = OPERATOR_FUNCTIONS["__floordiv__"], OPERATOR_FUNCTIONS["__mod__"]
        return floor(self, other), mod(self, other)

    def __round__(self, digits: int | None = None) -> Any:
        if digits is None and not self.value.type.shape:
            return Method(self, "round")(0).astype(int)  # as Python's numbers do
        return Method(self, "round")(digits or 0)

    def item(self, *at: Any) -> Any:
        """The element as a Python number; a float or complex one stays traced."""
        session = session_of(self)
        if session.is_concrete(current(self)):
            return np.asarray(data_of(self)).item(*at)
        if at:
            return (self[at] if len(at) > 1 else self.ravel()[at[0]]).item()
        kind = self.value.type.kind
        if kind in "iub":
            number = bool if kind == "b" else int
            return session.decided(self.value, number, conversion(self, "an int"))
        return enter(session, to_float, (self,), name="x.item()")

    def tolist(self) -> Any:
        """The elements as nested lists, of the numbers that `item` gives."""
        if session_of(self).is_concrete(current(self)):
            return np.asarray(data_of(self)).tolist()
        return [row.tolist() for row in self] if self.ndim else self.item()

    def __copy__(self) -> Any:
        return Method(self, "copy")()

    def __deepcopy__(self, memo: Any) -> Any:
        return Method(self, "copy")()

    def __reduce__(self) -> Any:
        raise conversion(self, "a pickle")


class Method:
    """A method of a proxy that an op stands for."""

    __slots__ = ("array", "name")

    def __init__(self, array: Proxy, name: str) -> None:
        self.array = array
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        array, name = self.array, self.name
        session = session_of(array)
        if name in UPDATES:
            return update(session, UPDATES[name], (array, *args), kwargs, f"x.{name}")
        out = kwargs.pop("out", None)
        fresh = name in FRESH_METHODS and kwargs.get("copy", True) is True
        fresh = fresh or (name == "ravel" and raveled_anew(array))
        result = enter(
            session,
            METHODS[name],
            (array, *args),
            kwargs,
            name=f"x.{name}",
            fresh=fresh,
        )
        if name == "copy" and not args and not kwargs:
            result.buffer.mixed = False  # the method makes C order, unlike np.copy
        return result if out is None else write_out(session, out, result, f"x.{name}")


def _rows(array: Proxy, count: int) -> Iterator[Any]:
    """The rows, each named after the loop's variable, or what it is unpacked to."""
    for i in range(count):
        session = session_of(array)
        row = enter(session, read, (array, i), name="for x in array", named=False)
        sites = session.locator.sites
        if sites and row.value.hint is None:
            site = sites[-1]
            if site.loop:
                row.value.hint, row.value.user = site.loop, True
            elif i < len(site.parts):
                row.value.hint = site.parts[i]
        yield row


def _is_view_at(written: Handle, base: Handle, key: Any) -> bool:
    """Whether `written` is `base[key]`, changed in place through the view."""
    if written.parent is not base or len(written.steps) != 1 or holds_handles(key):
        return False
    (step,) = written.steps
    if step.op is not getitem or len(step.inputs) > 1:
        return False
    arrays, attrs = subscript(Ref(base.value, base.builder), lower(key, []))
    return not arrays and attrs["index"] == step.attrs["index"]


# An index array beside the leading ints would move axes.
_BASIC_KEYS = {int, slice, type(None), type(Ellipsis), Size}


def _row_of(view: Handle) -> tuple[Any, tuple] | None:
    """The parent and the leading ints, if the view is `parent[i]`."""
    if view.parent is None or len(view.steps) != 1:
        return None
    (step,) = view.steps
    if step.op is not getitem or len(step.inputs) > 1:
        return None
    index = step.attrs["index"]
    return (view.parent, index) if all(type(e) is int for e in index) else None


def _traced_mask(x: Ref, key: Any, session: Session) -> Any:
    """The mask of `x[mask] = scalar` in the rank of `x`, or None for any other key."""
    if not isinstance(key, Ref) or key.type.kind != "b":
        return None
    shape = key.type.shape
    if session.is_concrete(key.value) or shape != x.type.shape[: len(shape)]:
        return None
    missing = len(x.type.shape) - len(shape)
    return METHODS["reshape"](key, (*shape, *[1] * missing)) if missing else key


# ---------------------------------------------------------------------- the operators
_SYMBOLS = {
    "__add__": "+",
    "__sub__": "-",
    "__mul__": "*",
    "__truediv__": "/",
    "__floordiv__": "//",
    "__mod__": "%",
    "__pow__": "**",
    "__matmul__": "@",
    "__and__": "&",
    "__or__": "|",
    "__xor__": "^",
    "__lshift__": "<<",
    "__rshift__": ">>",
    "__lt__": "<",
    "__le__": "<=",
    "__gt__": ">",
    "__ge__": ">=",
    "__eq__": "==",
    "__ne__": "!=",
    "__neg__": "-x",
    "__pos__": "+x",
    "__abs__": "abs",
    "__invert__": "~",
}
OPERATOR_FUNCTIONS = {
    name: getattr(operator, name) for name in _SYMBOLS if hasattr(operator, name)
}
_UNARY = {"__neg__", "__pos__", "__abs__", "__invert__"}
for _name in _SYMBOLS:
    if _name in _UNARY:
        setattr(Proxy, _name, _unary(_name))
        continue
    setattr(Proxy, _name, _binary(_name))
    if _name not in _COMPARISONS:
        _stem = _name.strip("_")
        setattr(Proxy, f"__r{_stem}__", _reflected(_name))
        setattr(Proxy, f"__i{_stem}__", _in_place(_name))
Proxy.__abs__ = _absolute  # type: ignore[assignment]
Proxy.__hash__ = _hashed  # type: ignore[method-assign, assignment]


def record_call(op: Op, args: tuple, attrs: dict[str, Any]) -> Any:
    """An op called directly with a proxy."""
    for x in args:
        if isinstance(x, Proxy):

            def run(*given: Any) -> Any:
                return op(*given, **attrs)

            return enter(session_of(x), run, args, name=op.spelling)
    raise TypeError(f"{op!r} was called without a value to record")


HANDLERS[Proxy] = record_call


def make(value: Value, session: Session) -> Proxy:
    """The user's handle on a fresh value."""
    return Proxy(value, session.builder, Buffer(value))


def argument(value: Value, session: Session) -> Proxy:
    """The user's handle on a parameter."""
    return Proxy(value, session.builder, Buffer(value, ARGUMENT))
