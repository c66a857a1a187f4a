"""What every rule leaves to the engine: undo broadcasting and casts, add up.

Rules return a cotangent of any shape that the primal was broadcast to and any dtype it
was promoted to; `conform` brings it back.  `Accumulator` adds the contributions to one
value, slices into one buffer.
"""

from __future__ import annotations

from tracegrad.ir.graph import Value
from tracegrad.ops.cast import astype
from tracegrad.ops.create import zeros_like
from tracegrad.ops.record import Builder, Ref, Scattered
from tracegrad.ops.reduce import sum as reduce_sum
from tracegrad.ops.scatter import scatter_add
from tracegrad.ops.shape import broadcast_to


def unbroadcast(ct: Ref, shape: tuple) -> Ref:
    """Sum `ct` over the axes along which an array of `shape` was repeated."""
    if ct.shape == shape:
        return ct
    extra = ct.ndim - len(shape)
    if extra < 0:
        return broadcast_to(ct, shape=shape)
    repeated = tuple(
        [
            extra + i
            for i, (size, have) in enumerate(zip(shape, ct.shape[extra:], strict=True))
            if size == 1 and have != 1
        ]
    )
    if repeated:
        ct = reduce_sum(ct, axis=repeated, keepdims=True)
    if extra:
        ct = reduce_sum(ct, axis=tuple(range(extra)))
    return ct if ct.shape == shape else broadcast_to(ct, shape=shape)


def conform(ct: Ref, primal: Value) -> Ref:
    """`ct` with the shape and the dtype of `primal`."""
    to = primal.type
    if ct.dtype.kind == "c" and to.dtype.kind == "f":
        from_real = Ref(ct.value, ct.builder)
        ct = real_part(from_real)
    ct = unbroadcast(ct, to.shape)
    if ct.dtype != to.dtype and not to.weak and not ct.type.weak:
        ct = astype(ct, dtype=to.dtype)
    return ct


def real_part(ct: Ref) -> Ref:
    """The real part: a real primal has a real cotangent."""
    from tracegrad.ops.define import OPS

    return OPS["real"](ct)


class Accumulator:
    """The contributions to the cotangent of one value, added as they arrive.

    Slices wait until the whole is asked for, unless a dense contribution is there to
    add them into: so no array of zeros is made where one is not needed.
    """

    __slots__ = ("dense", "primal", "waiting")

    def __init__(self, primal: Value) -> None:
        self.primal = primal
        self.dense: Ref | None = None
        self.waiting: list[tuple[Scattered, tuple]] = []

    def add(self, ct: Ref | Scattered) -> None:
        """Add one contribution."""
        if isinstance(ct, Scattered):
            self.waiting.append((ct, ct.ct.builder.at))
            return
        ct = conform(ct, self.primal)
        self.dense = ct if self.dense is None else self.dense + ct

    def total(self, builder: Builder) -> Ref:
        """The sum of all contributions."""
        acc = self.dense
        for part, at in reversed(self.waiting):
            builder.at = at
            if acc is None:
                acc = zeros_like(builder.wrap(self.primal))
            acc = scatter_add(
                acc,
                part.ct,
                *part.indices,
                index=part.index,
                counts=part.counts,
                unique=part.unique,
            )
        self.waiting.clear()
        self.dense = acc
        if acc is None:
            raise RuntimeError("a cotangent was asked for before any contribution")
        if acc.value.wrt is None:
            acc.value.wrt = self.primal
        return acc
