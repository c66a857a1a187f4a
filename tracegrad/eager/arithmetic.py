"""Operators, and the elementwise functions that are ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegrad.eager import rules
from tracegrad.eager.dtypes import SCALAR_TYPES, from_numpy_dtype, result_type
from tracegrad.eager.engine import entry_of
from tracegrad.eager.inplace import (
    check_allowed,
    check_partial,
    constant_node,
    in_place,
    rebase,
    touched,
    write,
)
from tracegrad.eager.modes import state
from tracegrad.eager.nodes import extras_of
from tracegrad.eager.numeric import OUT
from tracegrad.eager.refusals import (
    check_number,
    refuse_bool,
    refuse_bool_minus,
    refuse_division,
)
from tracegrad.eager.registry import (
    in_place_op,
    named,
    op_function,
    own_rules,
    torch_function,
    write_out,
)
from tracegrad.eager.runtime import as_dtype, unwrapped
from tracegrad.eager.tensor import Tensor, wrap
from tracegrad.eager.versions import replaced
from tracegrad.ops import elementary, elementwise, select, trigonometry


def _operators(op: Any, *names: str, title: str | None = None) -> Any:
    """Operators that are an op."""
    return op_function(op, *names, grad=title, function=False)


# ------------------------------------------------------------------------ arithmetic
add_op = _operators(elementwise.add, "__add__", "__radd__", title="AddBackward0")
sub_op = _operators(elementwise.subtract, "__sub__", title="SubBackward0")
mul_op = _operators(elementwise.multiply, "__mul__", "__rmul__", title="MulBackward0")
div_op = _operators(elementwise.divide, "__truediv__", title="DivBackward0")
op_function(
    elementwise.negative,
    "neg",
    "negative",
    "__neg__",
    grad="NegBackward0",
    inplace=True,
)
op_function(elementwise.floor_divide, "floor_divide", "__floordiv__", inplace=True)
op_function(
    elementwise.remainder,
    "remainder",
    "__mod__",
    grad="RemainderBackward0",
    inplace=True,
)


for _op, _refusal in (
    (elementwise.subtract, refuse_bool_minus),
    (elementwise.negative, refuse_bool_minus),
    (elementwise.floor_divide, refuse_division("div_floor_cpu")),
    (elementwise.remainder, refuse_division("remainder_cpu")),
    (elementwise.fmod, refuse_division("fmod_cpu")),
):
    entry_of(_op).refuses = _refusal


def _scaled(other: Any, alpha: Any) -> Any:
    return other if alpha == 1 else other * alpha


@torch_function("add", methods=True)
def add(input: Any, other: Any, *, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """`input + alpha * other`."""
    result = add_op.eager(input, _scaled(other, alpha))
    return result if out is None else write_out(out, result, "add")


@torch_function("sub", "subtract", methods=True)
def sub(input: Any, other: Any, *, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """`input - alpha * other`."""
    result = sub_op.eager(input, _scaled(other, alpha))
    return result if out is None else write_out(out, result, "sub")


@torch_function("mul", "multiply", methods=True)
def mul(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """`input * other`."""
    if not isinstance(input, Tensor):
        input, other = other, input
    result = mul_op.eager(input, other)
    return result if out is None else write_out(out, result, "mul")


@torch_function("div", "divide", "true_divide", methods=True, inplace=True)
def div(
    input: Any,
    other: Any,
    *,
    rounding_mode: str | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """`input / other`, rounded to `"floor"` or `"trunc"` if asked."""
    if rounding_mode == "floor":
        result = _either(entry_of(elementwise.floor_divide), input, other)
        if any(isinstance(x, Tensor) and x._node is not None for x in (input, other)):
            # The history is that of a rounded quotient: zeros.
            rounded = entry_of(select.floor).eager(_either(div_op, input, other))
            rounded._data = result._data
            result = named(rounded, "DivBackward2")
    elif rounding_mode == "trunc" and _whole(input) and _whole(other):
        result = _cut_off(input, other)
    else:
        result = _either(div_op, input, other)
        if rounding_mode == "trunc":
            result = named(entry_of(select.trunc).eager(result), "DivBackward2")
    return result if out is None else write_out(out, result, "div")


def _either(op: Any, input: Any, other: Any) -> Tensor:
    """An op of two operands, the first of which may be a number."""
    if isinstance(input, Tensor):
        return op.eager(input, other)
    return op.reversed(other, input)


def _whole(x: Any) -> bool:
    kind = x._data.dtype.kind if isinstance(x, Tensor) else np.asarray(x).dtype.kind
    return kind in "iu"


def _cut_off(input: Any, other: Any) -> Tensor:
    """The quotient of integers without what is behind the point."""
    lower = entry_of(elementwise.floor_divide).eager(input, other)
    rest = entry_of(elementwise.remainder).eager(input, other)
    return add_op.eager(lower, ((input < 0) ^ (other < 0)) & (rest != 0))


@torch_function("rsub", methods=True)
def rsub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """`other - alpha * input`."""
    result = sub_op.reversed(_scaled(input, alpha), other)
    return named(result, "RsubBackward1")


def _rtruediv(self: Tensor, other: Any) -> Tensor:
    return reciprocal.eager(self) * other


def _rfloordiv(self: Tensor, other: Any) -> Tensor:
    return entry_of(elementwise.floor_divide).reversed(self, other)


def _rmod(self: Tensor, other: Any) -> Tensor:
    return entry_of(elementwise.remainder).reversed(self, other)


pow_op = entry_of(elementary.power)
square_op = entry_of(elementary.square)
pow_op.title = "PowBackward1"
pow_op.always = (OUT, 0, 1)
# The slope is 2 * x**1, so that its slope has a history still.
square_op.reads = lambda x: named(pow_op.eager(x, 1), "PowBackward0")
own_rules(elementary.power, rules.POWER)
own_rules(elementwise.divide, rules.DIVIDE)
own_rules(select.maximum, rules.MAXIMUM)
own_rules(select.minimum, rules.MINIMUM)
op_function(select.maximum, "maximum", grad="MaximumBackward0")
op_function(select.minimum, "minimum", grad="MinimumBackward0")


_no_bool_powers = refuse_bool("pow")


def _whole_power(input: Any, exponent: Tensor) -> Tensor:
    """A power of integers: 0 for negative exponents, except of 1 and of -1."""
    negative = exponent._data < 0
    if not negative.any():
        return _either(pow_op, input, exponent)
    base = input._data if isinstance(input, Tensor) else np.asarray(input)
    whole = _either(pow_op, input, wrap(np.abs(exponent._data)))
    keeps = (base == 1) | (base == -1) | ~negative
    return wrap(np.where(keeps, whole._data, whole._data.dtype.type(0)))


@torch_function("pow", methods=True, inplace=True)
def pow(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    """`input` to the power `exponent`; one of them may be a number."""
    if isinstance(exponent, Tensor) and _whole(input) and _whole(exponent):
        result = _whole_power(input, exponent)
    elif not isinstance(input, Tensor):
        result = named(pow_op.reversed(exponent, input), "PowBackward2")
    elif isinstance(exponent, Tensor):
        _no_bool_powers([input._data, exponent._data], [])
        result = pow_op.eager(input, exponent)
    else:
        if (
            isinstance(exponent, int)
            and exponent < 0
            and input._data.dtype.kind in "iub"
        ):
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        if isinstance(exponent, bool) and input._data.dtype.kind == "b":
            result = wrap(input._data | (not exponent))
            return result if out is None else write_out(out, result, "pow")
        op = square_op if exponent == 2 and input._data.dtype.kind in "fc" else pow_op
        operands = (input,) if op is square_op else (input, exponent)
        result = named(op.eager(*operands), "PowBackward0")
    return result if out is None else write_out(out, result, "pow")


def _power(self: Tensor, other: Any) -> Any:
    known = isinstance(other, Tensor | bool | int | float | complex | np.generic)
    return pow(self, other) if known else NotImplemented


Tensor.__pow__ = _power
Tensor.__rpow__ = lambda self, other: pow(other, self)
Tensor.__rsub__ = rsub
Tensor.__rtruediv__ = _rtruediv
Tensor.__rfloordiv__ = _rfloordiv
Tensor.__rmod__ = _rmod
Tensor.__pos__ = lambda self: self


def _with_alpha(op: Any, function: Any, name: str) -> Any:
    plain = in_place_op(op, name)

    def method(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
        if alpha == 1:
            return plain(self, other)
        return in_place(self, function, other, alpha=alpha)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"{function.__doc__}\n\nIn place."
    return method


Tensor.add_ = _with_alpha(add_op, add, "add_")  # type: ignore[attr-defined]
Tensor.sub_ = _with_alpha(sub_op, sub, "sub_")  # type: ignore[attr-defined]
Tensor.subtract_ = Tensor.sub_  # type: ignore[attr-defined]
mul_ = in_place_op(mul_op, "mul_")
for _name, _entry in {
    "iadd": add_op,
    "isub": sub_op,
    "imul": mul_op,
    "itruediv": div_op,
    "ifloordiv": entry_of(elementwise.floor_divide),
    "imod": entry_of(elementwise.remainder),
}.items():
    setattr(Tensor, f"__{_name}__", in_place_op(_entry, f"__{_name}__"))
Tensor.mul_ = Tensor.multiply_ = mul_  # type: ignore[attr-defined]
Tensor.__ipow__ = Tensor.pow_  # type: ignore[attr-defined]


# ----------------------------------------------------------- comparison and logic
for _op, _names in (
    (elementwise.less, ("lt", "less", "__lt__")),
    (elementwise.less_equal, ("le", "less_equal", "__le__")),
    (elementwise.greater, ("gt", "greater", "__gt__")),
    (elementwise.greater_equal, ("ge", "greater_equal", "__ge__")),
    (elementwise.equal, ("eq",)),
    (elementwise.not_equal, ("ne", "not_equal")),
    (elementwise.logical_and, ("logical_and",)),
    (elementwise.logical_or, ("logical_or",)),
    (elementwise.logical_xor, ("logical_xor",)),
    (elementwise.logical_not, ("logical_not",)),
    (elementwise.bitwise_and, ("bitwise_and", "__and__", "__rand__")),
    (elementwise.bitwise_or, ("bitwise_or", "__or__", "__ror__")),
    (elementwise.bitwise_xor, ("bitwise_xor", "__xor__", "__rxor__")),
    (elementwise.invert, ("bitwise_not", "__invert__")),
    (elementwise.left_shift, ("bitwise_left_shift", "__lshift__")),
    (elementwise.right_shift, ("bitwise_right_shift", "__rshift__")),
    (select.isnan, ("isnan",)),
    (select.isinf, ("isinf",)),
    (select.isfinite, ("isfinite",)),
    (select.signbit, ("signbit",)),
):
    op_function(_op, *_names, inplace=_names[0].startswith(("logical", "bitwise")))


def _equal(self: Tensor, other: Any) -> Any:
    if other is None or isinstance(other, str):
        return False
    return entry_of(elementwise.equal).eager(self, other)


def _not_equal(self: Tensor, other: Any) -> Any:
    if other is None or isinstance(other, str):
        return True
    return entry_of(elementwise.not_equal).eager(self, other)


Tensor.__eq__ = _equal
Tensor.__ne__ = _not_equal


# -------------------------------------------------------------- functions of one array
for _op, _names in (
    (elementary.exp, ("exp",)),
    (elementary.exp2, ("exp2",)),
    (elementary.expm1, ("expm1",)),
    (elementary.log, ("log",)),
    (elementary.log2, ("log2",)),
    (elementary.log10, ("log10",)),
    (elementary.log1p, ("log1p",)),
    (elementary.sqrt, ("sqrt",)),
    (elementary.reciprocal, ("reciprocal",)),
    (trigonometry.sin, ("sin",)),
    (trigonometry.cos, ("cos",)),
    (trigonometry.tan, ("tan",)),
    (trigonometry.sinh, ("sinh",)),
    (trigonometry.cosh, ("cosh",)),
    (trigonometry.tanh, ("tanh",)),
    (select.absolute, ("abs", "absolute", "__abs__")),
    (select.sign, ("sign",)),
):
    op_function(_op, *_names, grad=f"{_names[0].capitalize()}Backward0", inplace=True)
entry_of(elementary.log1p).title = "Log1PBackward0"
reciprocal = entry_of(elementary.reciprocal)
reciprocal.floats = True
for _op, _names in (
    (select.floor, ("floor",)),
    (select.ceil, ("ceil",)),
    (select.trunc, ("trunc", "fix")),
):
    _title = f"{_names[0].capitalize()}Backward0"
    op_function(_op, *_names, grad=_title, inplace=True, zero=True)


@torch_function("square", methods=True, inplace=True)
def square(input: Tensor) -> Tensor:
    """The square, by `pow` as in PyTorch."""
    return pow(input, 2)


@torch_function("conj", "conj_physical", methods=True)
def conj(input: Tensor) -> Tensor:
    """The complex conjugate; a real tensor is itself."""
    if input._data.dtype.kind != "c":
        return input
    return named(entry_of(select.conj).eager(input), "ConjBackward0")


op_function(elementwise.positive, "positive", grad="PositiveBackward0")


# ------------------------------------------------------------------- where and clamp
@torch_function("where")
def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """`input` where the condition is true, `other` elsewhere."""
    if input is None and other is None:
        return tuple([wrap(i) for i in np.nonzero(condition._data)])
    if condition._data.dtype not in (np.bool_, np.uint8):
        kind = SCALAR_TYPES[from_numpy_dtype(condition._data.dtype)]
        raise RuntimeError(
            "where expected condition to be a boolean tensor, but got a tensor with "
            f"dtype {kind}"
        )
    common = _common(input, other)
    parts = [_in_common(x, common) for x in (input, other)]
    out = entry_of(select.where).eager(condition, *parts)
    if out._node is not None:
        extras_of(out._node).masks = True
    return out


def _common(*operands: Any) -> np.dtype:
    """The dtype that operands are promoted to."""
    found = None
    for x in operands:
        if isinstance(x, Tensor):
            kind = x._data.dtype
            if kind.kind != "f" or (found is not None and kind != found):
                break
            found = kind
        elif type(x) is not float and type(x) is not int:
            break
    else:
        if found is not None:
            return found  # numbers beside one floating dtype
    return result_type([unwrapped(x)[0] for x in operands])


def _in_common(x: Any, common: np.dtype) -> Tensor:
    if not isinstance(x, Tensor):
        return wrap(as_dtype(x, common))
    return x if x._data.dtype == common else x.to(from_numpy_dtype(common))


entry_of(select.where).title = "WhereBackward0"


@torch_function("where", methods=True, function=False)
def _where(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    return where(condition, self, other)


entry_of(select.clip).title = "ClampBackward0"


@torch_function("clamp", "clip", methods=True, inplace=True)
def clamp(
    input: Tensor, min: Any = None, max: Any = None, *, out: Tensor | None = None
) -> Tensor:
    """`input` limited to `[min, max]`; at a limit the derivative is 1."""
    if min is None and max is None:
        raise RuntimeError(
            "torch.clamp: At least one of 'min' or 'max' must not be None"
        )
    given = [x for x in (min, max) if x is not None]
    common = _common(input, *given)
    lowest, highest = (
        (-np.inf, np.inf)
        if common.kind == "f"
        else (np.iinfo(common).min, np.iinfo(common).max)
    )
    limits = [
        _in_common(end if x is None else x, common)
        for x, end in ((min, lowest), (max, highest))
    ]
    source = _in_common(input, common)
    result = entry_of(select.clip).eager(source, *limits)
    if not any(isinstance(x, Tensor) for x in given):
        named(result, "ClampBackward1")
    return result if out is None else write_out(out, result, "clamp")


@torch_function("clamp_min", methods=True, inplace=True)
def clamp_min(input: Tensor, min: Any) -> Tensor:
    """`input`, at least `min`."""
    return named(clamp(input, min=min), "ClampMinBackward0")


@torch_function("clamp_max", methods=True, inplace=True)
def clamp_max(input: Tensor, max: Any) -> Tensor:
    """`input`, at most `max`."""
    return named(clamp(input, max=max), "ClampMaxBackward0")


# ------------------------------------------------------------------ filling in place
@torch_function("zero_", methods=True)
def zero_(self: Tensor) -> Tensor:
    """Set all elements to 0."""
    return _filled(self, lambda x: wrap(np.zeros_like(x._data)), "ZeroBackward0")


@torch_function("fill_", methods=True)
def fill_(self: Tensor, value: Any) -> Tensor:
    """Set all elements to one number.

    Raises:
        TypeError: if it is none.
        RuntimeError: PyTorch's messages, if it has axes or does not fit.
    """
    if isinstance(value, Tensor):
        if value._data.ndim:
            raise RuntimeError(
                "fill_ only supports 0-dimension value tensor but got tensor with "
                f"{value._data.ndim} dimensions."
            )
        return in_place(self, lambda x, v: v.to(x.dtype).expand(x.shape), value)
    if not isinstance(value, bool | int | float | complex | np.number | np.bool_):
        raise TypeError(
            "fill_() received an invalid combination of arguments - got "
            f"({type(value).__name__}), but expected a number or a tensor"
        )
    check_number(value, self._data.dtype)
    return _filled(self, lambda x: wrap(np.full_like(x._data, value)), "FillBackward2")


def _filled(self: Tensor, function: Any, name: str) -> Tensor:
    before = self._node
    in_place(self, function)
    if self._root is None and self._node is not before:
        named(self, name)
        replaced(self._data, before, self._node)
    return self


@torch_function("copy_", methods=True, function=False)
def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Set the elements to those of `src`, which is broadcast and converted.

    Raises:
        TypeError: PyTorch's message, if `src` is neither a tensor nor a number.
    """
    if isinstance(src, bool | int | float | complex):
        src = wrap(
            np.asarray(src).real if isinstance(src, complex) else np.asarray(src)
        )
    if not isinstance(src, Tensor):
        module = "numpy." if isinstance(src, np.ndarray) else ""
        raise TypeError(
            "copy_(): argument 'other' (position 1) must be Tensor, not "
            f"{module}{type(src).__name__}"
        )
    recording = check_allowed(self, (src,))
    check_partial(self._data, (src,))
    data = src._data
    if data.shape != self._data.shape:
        data = src.detach().expand(self.shape)._data
    write(self, wrap(data.astype(self._data.dtype, copy=False)))
    if recording:
        node = constant_node(self, src._node, src._data)
        rebase(self, node, src._data)
    else:
        touched(self)
    if state.push is not None:
        state.push((src,), None, (self,), {})
    return self
