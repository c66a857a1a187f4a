"""Changes of dtype, and the identity ops that mark something."""

from __future__ import annotations

from tracegrad.ops.define import op
from tracegrad.ops.infer import like_first
from tracegrad.ops.sample import arg


@op(
    infer=lambda t, *, dtype: t.with_dtype(dtype),
    # The engine casts a cotangent back to the dtype of its primal.
    vjp=[lambda ct, y, x, *, dtype: ct],
    linear=True,
    samples=[arg(3).with_(dtype="float32").rough()],
)
def astype(x, *, dtype):
    """`x` as another dtype (always a copy)."""
    return x.astype(dtype)


@op(
    infer=like_first,
    vjp=[lambda ct, y, x: ct],
    aliases="view",
    linear=True,
    samples=[arg(3).with_()],
)
def alias(x):
    """`x` under a new identity, for the parameter of a nested derivative."""
    return x


@op(
    infer=like_first,
    vjp=[lambda ct, y, x: None],
    aliases="view",
    samples=[arg(3).with_().rough()],
)
def stop_gradient(x):
    """`x`, taken as a constant by every derivative."""
    return x
