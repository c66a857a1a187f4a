"""Recording: a handle on a value whose operators add nodes to a builder.

`Ref` is what derivative rules and rewrite rules compute with; the traced arrays that a
user's function sees derive from it.  An op that meets one records a node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from tracegrad.errors import TracegradError, UnsupportedError
from tracegrad.ir.graph import FORWARD, Const, Node, Value
from tracegrad.ir.location import Chain
from tracegrad.ir.types import ArrayType, Dim, Shape, Size, is_scalar_literal
from tracegrad.ops.define import ACCEPT, HANDLERS, OPERATORS, Op


class Builder:
    """Appends nodes to a list.

    Attributes:
        nodes: what was recorded, in order.
        at: place given to new nodes.
        phase: phase given to new nodes.
        derived: whether new nodes are made by a transformation, not by the user.
    """

    def __init__(self, at: Chain = (), phase: str = FORWARD) -> None:
        self.nodes: list[Node] = []
        self.at = at
        self.phase = phase
        self.derived = False

    def wrap(self, value: Value) -> Ref:
        """The handle that rules compute with."""
        return Ref(value, self)

    def lift(self, x: Any) -> Value:
        """The value of a `Ref`, or a constant for a number or an array."""
        if isinstance(x, Ref):
            return x.value
        return Const(x)

    def record(self, op: Op, args: tuple, attrs: dict[str, Any]) -> Any:
        """Append a node and return its output `Ref` (a tuple of them for several)."""
        inputs = tuple([self.lift(x) for x in args])
        attrs = {**op.defaults, **attrs} if op.defaults else attrs
        try:
            types = op.infer(*[v.type for v in inputs], **attrs)
        except TracegradError as error:
            at = self.place()
            raise error.locate(op.spelling, at[-1] if at else None) from None
        many = type(types) is tuple
        outputs = tuple([Value(t) for t in (types if many else (types,))])
        node = Node(op, inputs, outputs, attrs, self.place(), self.phase)
        node.derived = node.derived or self.derived
        self.append(node)
        if many:
            return tuple([self.wrap(v) for v in outputs])
        return self.wrap(outputs[0])

    def place(self) -> Chain:
        """The place that a node recorded now belongs to."""
        return self.at

    def append(self, node: Node) -> None:
        """Add a finished node."""
        self.nodes.append(node)


_Binary: TypeAlias = "Callable[[Ref, Any], Ref]"


def _binary(name: str) -> _Binary:
    def forward(self: Ref, other: Any) -> Ref:
        return OPERATORS[name](self, other)

    return forward


def _both(name: str) -> tuple[_Binary, _Binary]:
    """An operator, and the one for a left operand that is no `Ref`."""
    name = f"__{name}__"

    def backward(self: Ref, other: Any) -> Ref:
        return OPERATORS[name](other, self)

    return _binary(name), backward


def _unary(name: str) -> Callable[[Ref], Ref]:
    def apply(self: Ref) -> Ref:
        return OPERATORS[name](self)

    return apply


class Ref:
    """A value under construction, with NumPy's operators.

    Attributes:
        value: the IR value.
        builder: where operators record their nodes.
    """

    __slots__ = ("builder", "value")
    __array_ufunc__: Any = None  # an ndarray on the left hands its operator over
    __hash__ = object.__hash__

    def __init__(self, value: Value, builder: Builder) -> None:
        self.value = value
        self.builder = builder

    @property
    def type(self) -> ArrayType:
        """Shape and dtype of the value."""
        return self.value.type

    @property
    def shape(self) -> Shape:
        """Sizes, symbolic ones included."""
        return self.value.type.shape

    @property
    def dtype(self) -> np.dtype:
        """Dtype of the value."""
        return self.value.type.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.value.type.shape)

    def __repr__(self) -> str:
        return f"<ref {self.value!r}>"

    __add__, __radd__ = _both("add")
    __sub__, __rsub__ = _both("sub")
    __mul__, __rmul__ = _both("mul")
    __truediv__, __rtruediv__ = _both("truediv")
    __floordiv__, __rfloordiv__ = _both("floordiv")
    __mod__, __rmod__ = _both("mod")
    __pow__, __rpow__ = _both("pow")
    __matmul__, __rmatmul__ = _both("matmul")
    __and__, __rand__ = _both("and")
    __or__, __ror__ = _both("or")
    __xor__, __rxor__ = _both("xor")
    __lshift__, __rlshift__ = _both("lshift")
    __rshift__, __rrshift__ = _both("rshift")
    __lt__, __le__ = _binary("__lt__"), _binary("__le__")
    __gt__, __ge__ = _binary("__gt__"), _binary("__ge__")
    __eq__ = _binary("__eq__")  # type: ignore[assignment]
    __ne__ = _binary("__ne__")  # type: ignore[assignment]
    __neg__, __pos__ = _unary("__neg__"), _unary("__pos__")
    __abs__, __invert__ = _unary("__abs__"), _unary("__invert__")


def record(op: Op, args: tuple, attrs: dict[str, Any]) -> Any:
    """Record a call in the builder of its first `Ref`."""
    for x in args:
        if isinstance(x, Ref):
            return x.builder.record(op, args, attrs)
    raise TypeError(f"{op!r} was called without a value to record")


HANDLERS[Ref] = record


class Scattered:
    """A cotangent that is zero except at a subscript: `zeros[index] += ct`.

    A rule returns one instead of an array padded with zeros; the engine adds it into
    the one buffer that collects the cotangent of the whole array.

    Attributes:
        ct: the cotangent of `x[index]`.
        indices: the index arrays.
        index: the static subscript.
        unique: True if no element is named twice, so that `+=` adds up.
        counts: number of true elements of each mask.
    """

    __slots__ = ("counts", "ct", "index", "indices", "unique")

    def __init__(
        self, ct: Any, indices: tuple, index: tuple, unique: bool, counts: tuple = ()
    ) -> None:
        self.ct = ct
        self.indices = indices
        self.index = index
        self.unique = unique
        self.counts = counts


def no_slope(function: str, argument: str, fix: str | None = None) -> Any:
    """The rule of an argument in which no derivative is known in closed form.

    Args:
        function: as the user writes it.
        argument: its name.
        fix: one thing to do, if it is not to keep the argument constant.

    Raises:
        UnsupportedError: when the derivative is asked for.
    """

    def rule(ct: Any, out: Any, *inputs: Any, **attrs: Any) -> Any:
        at = ct.builder.at if isinstance(ct, Ref) else ()
        raise UnsupportedError(
            f"{function} has no derivative in closed form with respect to {argument}",
            op=function,
            at=at[-1] if at else None,
            fix=fix or f"keep {argument} constant",
        )

    return rule


class Returned:
    """An object that a function which takes a user's call returns: a spline, a rule.

    The user calls it, and its public methods, with traced arguments; they compute with
    what ops take.

    Attributes:
        name: as the user writes the class, for errors.
    """

    name = ""


# ---------------------------------------------------------------- what rules may ask
def type_of(x: Any) -> ArrayType:
    """The type of a `Ref`, an eager tensor, an array or a number (or a type itself)."""
    if isinstance(x, ArrayType):
        return x
    from_ref = getattr(x, "type", None)
    if isinstance(from_ref, ArrayType):
        return from_ref
    return Const(x).type


def shape_of(x: Any) -> Shape:
    """The shape of anything that an op takes."""
    return x.value.type.shape if isinstance(x, Ref) else np.shape(x)


def ndim_of(x: Any) -> int:
    """The number of axes of anything that an op takes."""
    return len(shape_of(x))


def dtype_of(x: Any) -> np.dtype:
    """The dtype of anything that an op takes."""
    return type_of(x).dtype


def size_along(x: Any, axis: int) -> Size:
    """The size of one axis."""
    return shape_of(x)[axis]


def constant_of(x: Any) -> Any:
    """The Python or NumPy scalar behind `x`, or None if it is not a known scalar."""
    value = x.value if isinstance(x, Ref) else x
    if isinstance(value, Const):
        value = value.value
    if isinstance(value, Value) or type(value) in HANDLERS or np.ndim(value):
        return None
    return value


def offset(x: Any, by: float) -> Any:
    """`x + by`; a number where `x` is a known number."""
    known = constant_of(x)
    if known is not None:
        return known + by
    return x + by if by > 0 else x - -by


def called(x: Any, name: str) -> Any:
    """`x`, with a proposal for its name in the emitted source."""
    if isinstance(x, Ref) and x.value.hint is None:
        x.value.hint = name
    return x


def less(x: Any, *terms: Any) -> Any:
    """`x` less all terms, the numbers among them added up first."""
    known = [constant_of(term) for term in terms]
    for term, number in zip(terms, known, strict=True):
        x = x - term if number is None else x
    total = float(sum([number for number in known if number is not None]))
    return x + -total if total < 0.0 else x - total if total else x


def made_by(x: Any) -> Node | None:
    """The node that made `x`, if it is traced and was made in this trace."""
    if not isinstance(x, Ref):
        return None
    known = getattr(x.builder, "producers", None)
    if known is not None:
        return known.get(x.value)
    return next((n for n in reversed(x.builder.nodes) if x.value in n.outputs), None)


# ------------------------------------------------------- what users' calls are given
def is_traced(x: Any) -> bool:
    """Whether an op called with `x` is recorded or run by a layer above."""
    return isinstance(x, Ref) or type(x) in HANDLERS


def holds_traced(x: Any) -> bool:
    """Whether `x` is traced or a symbolic size, or a list or tuple with one inside."""
    if isinstance(x, list | tuple):
        return any(map(holds_traced, x))
    return is_traced(x) or type(x) is Dim


def as_operand(x: Any) -> Any:
    """An array argument of a user's call, in a form that ops take.

    Traced values, arrays and scalars pass.  A list or tuple becomes an array: one
    assembled by an op if a traced value is inside.
    """
    if is_traced(x) or isinstance(x, np.ndarray | np.generic) or is_scalar_literal(x):
        return x
    if type(x) is Dim:
        return ACCEPT[Dim](x)
    return ACCEPT[np.array](x) if holds_traced(x) else np.asarray(x)


def as_array(x: Any) -> Any:
    """`as_operand`, with a Python scalar (traced or not) made an array.

    For ops whose body calls a method of the array, which Python scalars lack.
    """
    x = as_operand(x)
    return ACCEPT[np.asarray](x) if type_of(x).weak or type(x) is bool else x
