"""Recording: a handle on a value whose operators add nodes to a builder.

`Ref` is what derivative rules and rewrite rules compute with; the traced arrays that a
user's function sees derive from it.  An op that meets one records a node.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.errors import TracegradError
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


def record(op: Op, args: tuple, attrs: dict[str, Any]) -> Any:
    """Record a call in the builder of its first `Ref`."""
    for x in args:
        if isinstance(x, Ref):
            return x.builder.record(op, args, attrs)
    raise TypeError(f"{op!r} was called without a value to record")


def _binary(name: str) -> Any:
    def forward(self: Ref, other: Any) -> Any:
        return OPERATORS[name](self, other)

    return forward


def _reflected(name: str) -> Any:
    def backward(self: Ref, other: Any) -> Any:
        return OPERATORS[name](other, self)

    return backward


def _unary(name: str) -> Any:
    def apply(self: Ref) -> Any:
        return OPERATORS[name](self)

    return apply


_WITH_REFLECTION = (
    "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift"
)
for _name in _WITH_REFLECTION.split():
    setattr(Ref, f"__{_name}__", _binary(f"__{_name}__"))
    setattr(Ref, f"__r{_name}__", _reflected(f"__{_name}__"))
for _name in ["lt", "le", "gt", "ge", "eq", "ne"]:
    setattr(Ref, f"__{_name}__", _binary(f"__{_name}__"))
for _name in ["neg", "pos", "abs", "invert"]:
    setattr(Ref, f"__{_name}__", _unary(f"__{_name}__"))

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


# ---------------------------------------------------------------- what rules may ask
def type_of(x: Any) -> ArrayType:
    """The type of a `Ref`, an eager tensor, an array or a number."""
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
