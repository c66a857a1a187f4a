"""Changes of dtype, and the identity ops that mark something."""

from __future__ import annotations

import numpy as np
import numpy as xp

from tracegrad.errors import DTypeError
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import METHODS, Batch, op
from tracegrad.ops.infer import like_first, refuse
from tracegrad.ops.record import as_array, dtype_of, type_of
from tracegrad.ops.sample import arg


def _infer_astype(t, *, dtype):
    made = t.with_dtype(dtype)
    if made.kind not in "biufc":
        raise DTypeError(
            f"a traced value cannot become an array of dtype {made.dtype}",
            fix="use a number or bool dtype inside a traced function",
        )
    return made


@op(
    infer=_infer_astype,
    # The engine casts a cotangent back to the dtype of its primal.
    vjp=[lambda ct, y, x, *, dtype: ct],
    linear=True,
    batch=Batch.MAP,
    samples=[
        arg(3).with_(dtype=np.dtype("float32")).rough(),
        arg("n", 2).with_(dtype=np.dtype("float64")),
        arg(3).with_(dtype=np.dtype("complex128")),
        arg(3, dtype="float32").with_(dtype=np.dtype("float64")),
        arg(3, dtype="int64").with_(dtype=np.dtype("float32")),
        arg(3).with_(dtype=np.dtype("int32")),
    ],
)
def astype(x, *, dtype):
    """`x` as another dtype (always a copy)."""
    return x.astype(dtype)


def _converted(function, x, dtype, casting, copy):
    to = np.dtype(dtype)
    have = dtype_of(x)
    if to.kind not in "biufc":
        raise DTypeError(
            f"{function} to {to} is not supported",
            op=function,
            fix="use a number or bool dtype inside a traced function",
        )
    if not np.can_cast(have, to, casting):
        raise DTypeError(
            f"cannot cast from {have} to {to} by the rule {casting!r}",
            op=function,
            fix='use casting="unsafe", or another dtype',
        )
    return x if to == have and not copy else astype(x, dtype=to)


@astype.accept(methods=["astype"])
def _(x, dtype, order="K", casting="unsafe", subok=True, copy=True):
    return _converted("ndarray.astype", as_array(x), dtype, casting, copy)


@astype.accept(np.astype)
def _(x, dtype, /, *, copy=True, device=None):
    refuse("np.astype", device=device)
    return _converted("np.astype", as_array(x), dtype, "unsafe", copy)


def _from_python_float(ct, y, x):
    wide = dtype_of(x) == np.float64
    return ct if wide else astype(as_array(ct), dtype=dtype_of(x))


@op(
    infer=lambda t: ArrayType((), np.dtype(np.float64), weak=True),
    vjp=[_from_python_float],
    linear=True,
    noun="number",
    spelling="float",
    samples=[arg().with_()],
)
def python_float(x):
    """A 0-d float64 as a Python float, which takes the dtype of its partner."""
    return float(x)


@python_float.batch
def _(b, x):
    return x if dtype_of(x) == np.float64 else astype(x, dtype=np.dtype(np.float64))


@python_float.body("jax")
def _(x):
    return x


@op(
    infer=lambda t: ArrayType((), np.dtype(np.int64), weak=True),
    vjp=[None],
    noun="number",
    spelling="int",
    samples=[arg(dtype="bool").with_()],
)
def python_int(x):
    """A truth as a Python int, which takes the dtype of its partner."""
    return int(x)


@python_int.batch
def _(b, x):
    return astype(x, dtype=np.dtype(np.int64))


@python_int.body("jax")
def _(x):
    return xp.where(x, 1, 0)


def to_float(x):
    """`float(x)` of an array of one element, or `x.item()` of a complex one.

    Raises:
        TypeError: as NumPy does, for more than one element.
    """
    t = type_of(x)
    if any(n != 1 for n in t.shape):
        raise TypeError("only 0-dimensional arrays can be converted to scalars")
    flat = METHODS["reshape"](x, ()) if t.shape else x
    return flat if t.weak or t.kind == "c" else python_float(flat)


@op(
    infer=like_first,
    vjp=[lambda ct, y, x: ct],
    aliases="view",
    linear=True,
    batch=Batch.MAP,
    samples=[arg(3).with_(), arg("n", 2).with_()],
)
def alias(x):
    """`x` under a new identity, for the parameter of a nested derivative."""
    return x


@op(
    infer=like_first,
    vjp=[lambda ct, y, x: None],
    aliases="view",
    batch=Batch.MAP,
    samples=[arg(3).with_().rough(), arg("n", 2).with_().rough()],
)
def stop_gradient(x):
    """`x`, taken as a constant by every derivative."""
    return x
