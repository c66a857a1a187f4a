"""Algebraic rewrites that make the backward part read as by hand.

Signs and scalar factors are pulled outward, so that `2.0 * (c * x)` becomes one scalar
times one array; broadcasts that the next operation does anyway are dropped; pairs of
views that undo each other vanish.  Each rule has a numeric property test.
"""

from __future__ import annotations

import math
from typing import Any

from tracegrad.ir.graph import Const, Node, Value
from tracegrad.ir.index import ARRAY
from tracegrad.ir.types import is_scalar_literal
from tracegrad.ops import elementwise as arithmetic
from tracegrad.ops.create import arange, dim, size, zeros, zeros_like
from tracegrad.ops.define import OPS, Op
from tracegrad.ops.elementary import exp
from tracegrad.ops.index import getitem
from tracegrad.ops.infer import broadcast_shapes
from tracegrad.ops.product import matmul
from tracegrad.ops.record import Ref
from tracegrad.ops.reduce import mean, sum
from tracegrad.ops.scatter import scatter_add, setitem
from tracegrad.ops.select import where
from tracegrad.ops.shape import broadcast_to, ravel, reshape, transpose
from tracegrad.passes.rewrite import Rewriter, rewrites

# How many writes into one buffer are looked through for another one at the same place.
_MAX_WRITES = 16

add = arithmetic.add
subtract = arithmetic.subtract
multiply = arithmetic.multiply
divide = arithmetic.divide
negative = arithmetic.negative


def _elementwise_ops() -> list[Op]:
    return [o for o in OPS.values() if getattr(o.infer, "ufunc", None) is not None]


def number(v: Value) -> Any:
    """The Python number of a scalar constant, or None."""
    if isinstance(v, Const) and is_scalar_literal(v.value):
        return v.value
    return None


def is_number(v: Value, wanted: float) -> bool:
    """Whether `v` is this Python number."""
    value = number(v)
    return value is not None and not isinstance(value, bool) and value == wanted


# ------------------------------------------------------------------------ broadcasting
@rewrites(*_elementwise_ops())
def drop_broadcast(r: Rewriter, node: Node) -> Any:
    """`f(broadcast_to(a), b)` is `f(a, b)` where `b` gives the shape."""
    shape = node.outputs[0].type.shape
    for i, v in enumerate(node.inputs):
        made = r.made_by.get(v)
        if made is None or made.op is not broadcast_to:
            continue
        inner = made.inputs[0]
        others = [u.type.shape for j, u in enumerate(node.inputs) if j != i]
        if broadcast_shapes(inner.type.shape, *others) == shape:
            args = [r.ref(inner if j == i else u) for j, u in enumerate(node.inputs)]
            made_again = node.op(*args, **node.attrs)
            if made_again.dtype == node.outputs[0].type.dtype:
                return made_again
    return None


@rewrites(*_elementwise_ops())
def broadcast_later(r: Rewriter, node: Node) -> Any:
    """`f(broadcast_to(a), c)` with a scalar `c` is `broadcast_to(f(a, c))`."""
    wide = [v for v in node.inputs if v.type.shape]
    if len(wide) != 1:
        return None
    made = r.source(wide[0], broadcast_to)
    if made is None:
        return None
    args = [r.ref(made.inputs[0] if v is wide[0] else v) for v in node.inputs]
    inner = node.op(*args, **node.attrs)
    if inner.dtype != node.outputs[0].type.dtype:
        return None
    return broadcast_to(inner, shape=node.outputs[0].type.shape)


@rewrites(broadcast_to)
def broadcast_empty(r: Rewriter, node: Node) -> Any:
    """A broadcast to no elements reads nothing (a mean of none divides by zero)."""
    out = node.outputs[0].type
    if 0 not in out.shape:
        return None
    return r.record(zeros, (), {"shape": out.shape, "dtype": out.dtype.name})


@rewrites(broadcast_to)
def broadcast_nothing(r: Rewriter, node: Node) -> Any:
    """A broadcast to the same shape, and one of another."""
    v = node.inputs[0]
    if v.type.shape == node.attrs["shape"]:
        return r.ref(v)
    made = r.source(v, broadcast_to)
    if made is not None:
        return broadcast_to(r.ref(made.inputs[0]), shape=node.attrs["shape"])
    return None


@rewrites(setitem, scatter_add)
def broadcast_update(r: Rewriter, node: Node) -> Any:
    """A store broadcasts by itself."""
    base, update, *rest = node.inputs
    made = r.source(update, broadcast_to)
    if made is None or made.inputs[0].type.dtype != update.type.dtype:
        return None
    refs = [r.ref(v) for v in (base, made.inputs[0], *rest)]
    return node.op(*refs, **node.attrs)


# ------------------------------------------------------------------------------- signs
@rewrites(negative)
def negate_outward(r: Rewriter, node: Node) -> Any:
    """`-(-a)` is `a`; `-(a - b)` is `b - a`; `-(2.0 * a)` is `-2.0 * a`.

    So for `2.0 / a` too.
    """
    v = node.inputs[0]
    value = number(v)
    if value is not None and not isinstance(value, bool):
        return Const(-value)
    for op in (negative, subtract, multiply, divide):
        # A number times a scalar is as cheap made anew, where there are other readers.
        anew = op in (multiply, divide) and not v.type.shape
        made = r.source(v, op, alone=not anew)
        if made is None:
            continue
        if op is negative:
            return r.ref(made.inputs[0])
        if op is subtract:
            return r.ref(made.inputs[1]) - r.ref(made.inputs[0])
        c = number(made.inputs[0])
        if c is not None:
            return op(-c, r.ref(made.inputs[1]))
    return None


def _is_negated(r: Rewriter, v: Value) -> Ref | None:
    """`a` if `v` is `-a`."""
    made = r.source(v, negative)
    return None if made is None else r.ref(made.inputs[0])


@rewrites(multiply, divide, matmul)
def negate_product(r: Rewriter, node: Node) -> Any:
    """`(-a) * b` is `-(a * b)`, so that signs meet and cancel."""
    left, right = node.inputs
    minus_left, minus_right = _is_negated(r, left), _is_negated(r, right)
    if minus_left is None and minus_right is None:
        return None
    a = minus_left if minus_left is not None else r.ref(left)
    b = minus_right if minus_right is not None else r.ref(right)
    product = node.op(a, b)
    both = minus_left is not None and minus_right is not None
    return product if both else -product


@rewrites(add)
def add_negated(r: Rewriter, node: Node) -> Any:
    """`a + (-b)` is `a - b`; `(-a) + b` is `b - a`; `a + a` is `2.0 * a`."""
    left, right = node.inputs
    if left is right and left.type.differentiable:
        return 2.0 * r.ref(left)
    minus = _is_negated(r, right)
    if minus is not None:
        return r.ref(left) - minus
    minus = _is_negated(r, left)
    if minus is not None and node.outputs[0].wrt is not left.wrt:
        return r.ref(right) - minus
    return None


@rewrites(subtract)
def subtract_negated(r: Rewriter, node: Node) -> Any:
    """`a - (-b)` is `a + b`."""
    minus = _is_negated(r, node.inputs[1])
    return None if minus is None else r.ref(node.inputs[0]) + minus


@rewrites(sum, mean, reshape, ravel, transpose, getitem, broadcast_to)
def negate_later(r: Rewriter, node: Node) -> Any:
    """`f(-a)` is `-f(a)` for what only adds or moves elements."""
    minus = _is_negated(r, node.inputs[0])
    if minus is None:
        return None
    return -node.op(minus, *map(r.ref, node.inputs[1:]), **node.attrs)


@rewrites(scatter_add)
def count_rows_once(r: Rewriter, node: Node) -> Any:
    """`x[np.arange(n), labels] += …` names no element twice."""
    base, update, *indices = node.inputs
    if node.attrs["unique"] or any(v.type.ndim > 1 for v in indices):
        return None
    makers = [r.made_by.get(v) for v in indices]
    if not any(made is not None and made.op is arange for made in makers):
        return None
    refs = [r.ref(v) for v in (base, update, *indices)]
    return scatter_add(*refs, **{**node.attrs, "unique": True})


@rewrites(scatter_add)
def write_into_zeros(r: Rewriter, node: Node) -> Any:
    """A sum of a zero buffer and one part is that part, written."""
    base, update, *rest = node.inputs
    if not node.attrs["unique"] or not _untouched(r, base, node.attrs["index"]):
        return None
    refs = [r.ref(v) for v in rest]
    return setitem(r.ref(base), r.ref(update), *refs, **node.attrs)


def _untouched(r: Rewriter, base: Value, index: tuple) -> bool:
    """Whether `base` is a zero buffer in which nothing was written at `index`."""
    for _ in range(_MAX_WRITES):
        if r.source(base, zeros_like) or r.source(base, zeros):
            return True
        made = r.source(base, setitem) or r.source(base, scatter_add)
        if made is None or not _apart(made.attrs["index"], index):
            return False
        base = made.inputs[0]
    return False


def _apart(a: tuple, b: tuple) -> bool:
    """Whether two indices differ in a plain number, so that no element is in both."""
    moves = (Ellipsis, None, ARRAY)  # what follows is of another axis, or may be
    for i, j in zip(a, b):
        if i in moves or j in moves:
            return False
        if type(i) is int and type(j) is int and (i < 0) == (j < 0) and i != j:
            return True
    return False


# ---------------------------------------------------------------------- scalar factors
def _scalar_factor(r: Rewriter, v: Value) -> tuple[Ref, Ref] | None:
    """`(c, x)` if `v` is `c * x` with a 0-d `c` and an `x` with axes."""
    made = r.source(v, multiply)
    if made is None:
        return None
    a, b = made.inputs
    if not a.type.shape and b.type.shape:
        return r.ref(a), r.ref(b)
    if not b.type.shape and a.type.shape:
        return r.ref(b), r.ref(a)
    return None


@rewrites(multiply)
def factor_first(r: Rewriter, node: Node) -> Any:
    """`x * c` is `c * x`, a number or a scalar first."""
    a, b = node.inputs
    if a.type.shape and not b.type.shape:
        return r.ref(b) * r.ref(a)
    if number(a) is None and number(b) is not None:
        return r.ref(b) * r.ref(a)
    return None


@rewrites(multiply)
def merge_factors(r: Rewriter, node: Node) -> Any:
    """`c * (k * x)` is `(c * k) * x`; `(c * x) * y` is `c * (x * y)`."""
    a, b = node.inputs
    if not a.type.shape:
        inner = _scalar_factor(r, b) if b.type.shape else None
        if inner is not None:
            return (r.ref(a) * inner[0]) * inner[1]
        if not b.type.shape:
            return _merge_numbers(r, a, b)
        return None
    for this, other in ((a, b), (b, a)):
        inner = _scalar_factor(r, this)
        if inner is not None and other.type.shape:
            product = inner[1] * r.ref(other) if this is a else r.ref(other) * inner[1]
            return inner[0] * product
    return None


def _merge_numbers(r: Rewriter, a: Value, b: Value) -> Any:
    """Products of scalars: numbers come together in front."""
    c, k = number(a), number(b)
    if c is not None and k is not None:
        return Const(c * k)
    if c is None:
        return _numbers_first(r, a, b)
    made = r.scalar_source(b, multiply)
    if made is not None and number(made.inputs[0]) is not None:
        return (c * number(made.inputs[0])) * r.ref(made.inputs[1])
    made = r.scalar_source(b, divide)
    if made is not None and number(made.inputs[0]) is not None:
        return (c * number(made.inputs[0])) / r.ref(made.inputs[1])
    return None


def _numbers_first(r: Rewriter, a: Value, b: Value) -> Any:
    """`(c * a) * (k * b)` is `(c * k) * (a * b)`, with either number or both.

    A quotient of a number is one with `b` below.
    """
    numbers: list[Any] = []
    above: list[Value] = []
    below: list[Value] = []
    for v in (a, b):
        made = r.source(v, multiply, False) or r.source(v, divide, False)
        c = None if made is None else number(made.inputs[0])
        if made is None or c is None or _is_count(r, b if v is a else a):
            above.append(v)
        else:
            numbers.append(c)
            (above if made.op is multiply else below).append(made.inputs[1])
    if not numbers or (above and above[-1] is b and not below):
        return None  # no number, or one that is in front already
    if not above:
        return math.prod(numbers) / (r.ref(below[0]) * r.ref(below[1]))
    product = r.ref(above[0]) * r.ref(above[1]) if len(above) > 1 else r.ref(above[0])
    quotient = product / r.ref(below[0]) if below else product
    factor = math.prod(numbers)
    return quotient if factor == 1.0 else factor * quotient


def _is_count(r: Rewriter, v: Value) -> bool:
    """Whether `v` is a number of elements, which may cancel another one."""
    return v in r.made_by and r.made_by[v].op in (size, dim)


@rewrites(multiply, last=True)
def divide_by_scalar(r: Rewriter, node: Node) -> Any:
    """`(1.0 / c) * x` is `x / c`, and `-1.0 * x` is `-x`."""
    a, b = node.inputs
    if is_number(a, -1.0) and b.type == node.outputs[0].type:
        return -r.ref(b)
    made = r.source(a, divide)
    if made is None or a.type.shape or not b.type.shape:
        return None
    for one in (1.0, -1.0):
        if is_number(made.inputs[0], one):
            quotient = r.ref(b) / r.ref(made.inputs[1])
            return quotient if one == 1.0 else -quotient
    return None


@rewrites(divide)
def factor_of_quotient(r: Rewriter, node: Node) -> Any:
    """`(c * x) / y` is `c * (x / y)` with arrays, `(c / y) * x` with a scalar `y`.

    Of scalars only numbers come to the front.
    """
    a, b = node.inputs
    inner = _scalar_factor(r, a)
    if inner is None:
        made = None if a.type.shape or b.type.shape else r.source(a, multiply, False)
        if made is None or number(made.inputs[0]) is None or _is_count(r, b):
            return None
        return number(made.inputs[0]) * (r.ref(made.inputs[1]) / r.ref(b))
    if b.type.shape:
        return inner[0] * (inner[1] / r.ref(b))
    return (inner[0] / r.ref(b)) * inner[1]


@rewrites(multiply, divide)
def times_one(r: Rewriter, node: Node) -> Any:
    """`1.0 * x` and `x / 1.0` are `x`."""
    a, b = node.inputs
    out = node.outputs[0].type
    if is_number(b, 1.0) and a.type == out:
        return r.ref(a)
    if node.op is multiply and is_number(a, 1.0) and b.type == out:
        return r.ref(b)
    return None


@rewrites(sum, mean, reshape, ravel, transpose, getitem, broadcast_to)
def factor_later(r: Rewriter, node: Node) -> Any:
    """`f(c * x)` is `c * f(x)` for what only adds or moves elements."""
    inner = _scalar_factor(r, node.inputs[0])
    if inner is None or not node.outputs[0].type.differentiable:
        return None
    if not inner[1].type.differentiable:
        return None  # a sum of flags is an integer, which makes a float64
    if node.op is broadcast_to:
        return None  # the other way round: one multiplication of fewer elements
    return inner[0] * node.op(inner[1], *map(r.ref, node.inputs[1:]), **node.attrs)


@rewrites(matmul)
def factor_of_matmul(r: Rewriter, node: Node) -> Any:
    """`(c * a) @ b` is `c * (a @ b)` where the product is the smaller array."""
    a, b = node.inputs
    for this, other, first in ((a, b, True), (b, a, False)):
        inner = _scalar_factor(r, this)
        if inner is None or not _smaller(node.outputs[0], this):
            continue
        x = inner[1]
        if not x.type.differentiable:
            continue
        return inner[0] * (
            matmul(x, r.ref(other)) if first else matmul(r.ref(other), x)
        )
    return None


def _smaller(a: Value, b: Value) -> bool:
    """Whether `a` certainly has fewer elements than `b`."""
    left, right = _elements(a), _elements(b)
    if left is None or right is None:
        return a.type.ndim < b.type.ndim
    return left < right


def _elements(v: Value) -> int | None:
    """The number of elements, None if it is symbolic."""
    sizes = [s for s in v.type.shape if isinstance(s, int)]
    return math.prod(sizes) if len(sizes) == v.type.ndim else None


# ------------------------------------------------------- values that must not be nan
@rewrites(multiply, divide)
def select_outward(r: Rewriter, node: Node) -> Any:
    """`where(m, a, 0) * b` is `where(m, a * b, 0)`: zero even where `b` is nan.

    So what the user's own `where` leaves out has no cotangent, even where its slope is
    nan, as for `np.nansum(x**2)`.  (Infinite slopes are the business of `pull_back`.)
    """
    for i, v in enumerate(node.inputs):
        made = r.source(v, where)
        if made is None or not is_number(made.inputs[2], 0.0):
            continue
        if node.op is divide and i == 1:
            continue
        mask, kept, _ = made.inputs
        args = [r.ref(kept if j == i else u) for j, u in enumerate(node.inputs)]
        return where(r.ref(mask), node.op(*args), 0.0)
    return None


@rewrites(add)
def merge_selections(r: Rewriter, node: Node) -> Any:
    """`where(m, a, 0) + where(m, 0, b)` is `where(m, a, b)`."""
    left, right = (r.source(v, where) for v in node.inputs)
    if left is None or right is None:
        return None
    for first, second in ((left, right), (right, left)):
        mask, a, zero = first.inputs
        other, nothing, b = second.inputs
        if mask is other and is_number(zero, 0.0) and is_number(nothing, 0.0):
            return where(r.ref(mask), r.ref(a), r.ref(b))
    return None


@rewrites(multiply)
def logistic_slope(r: Rewriter, node: Node) -> Any:
    """The slope of `c / (1.0 + e)` through `e = exp(u)`, without inf times 0.

    The chain rule gives `ct / y * z * e` with `y = 1.0 + e` and `z = c / y`, or for
    `ct = 1.0` perhaps `z / y * e`; `e / y` is `1.0 - 1.0 / y`, which stays right where
    `e` overflows.
    """
    left, e = node.inputs
    simple = r.source(left, divide)
    if simple is not None and getattr(r.made_by.get(e), "op", None) is exp:
        w, y = simple.inputs
        return _times_rest(r, w, y, e)
    product = r.source(left, multiply)
    if product is None or getattr(r.made_by.get(e), "op", None) is not exp:
        return None
    quotient = r.source(product.inputs[0], divide)
    if quotient is None:
        return None
    (ct, y), z = quotient.inputs, product.inputs[1]
    total, ratio = r.made_by.get(y), r.made_by.get(z)
    if total is None or total.op is not add or e not in total.inputs:
        return None
    if ratio is None or ratio.op is not divide or ratio.inputs[1] is not y:
        return None
    if not any(is_number(v, 1.0) for v in total.inputs):
        return None
    rest = r.ref(z) if is_number(ratio.inputs[0], 1.0) else 1.0 / r.ref(y)
    return r.ref(ct) * (r.ref(z) * (1.0 - rest))


def _times_rest(r: Rewriter, w: Value, y: Value, e: Value) -> Any:
    """`w / y * e` as `w * (1.0 - 1.0 / y)`, if `y` is `1.0 + e`."""
    total, ratio = r.made_by.get(y), r.made_by.get(w)
    if total is None or total.op is not add or e not in total.inputs:
        return None
    if not any(is_number(v, 1.0) for v in total.inputs):
        return None
    inverse = ratio is not None and ratio.op is divide and ratio.inputs[1] is y
    if inverse and ratio is not None and is_number(ratio.inputs[0], 1.0):
        return r.ref(w) * (1.0 - r.ref(w))
    return r.ref(w) * (1.0 - 1.0 / r.ref(y))
