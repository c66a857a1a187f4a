"""What every rule leaves to the engine: undo broadcasting and casts, add up.

Rules return a cotangent of any shape that the primal was broadcast to and any dtype it
was promoted to; `conform` brings it back.  `Accumulator` adds the contributions to one
value, slices into one buffer.
"""

from __future__ import annotations

from tracegrad.ir.graph import Const, Value
from tracegrad.ir.location import Chain
from tracegrad.ops.cast import astype
from tracegrad.ops.create import zeros_like
from tracegrad.ops.infer import canonical_axis
from tracegrad.ops.record import Builder, Ref, Scattered
from tracegrad.ops.reduce import sum as reduce_sum
from tracegrad.ops.scatter import scatter_add
from tracegrad.ops.select import real
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
        ct = reduce_sum(ct, axis=canonical_axis(repeated, ct.ndim), keepdims=True)
    if extra:
        ct = reduce_sum(ct, axis=canonical_axis(tuple(range(extra)), ct.ndim))
    return ct if ct.shape == shape else broadcast_to(ct, shape=shape)


def conform(ct: Ref, primal: Value) -> Ref:
    """`ct` with the shape and the dtype of `primal`."""
    to = primal.type
    if ct.dtype.kind == "c" and to.dtype.kind == "f":
        ct = real(ct)
    ct = unbroadcast(ct, to.shape)
    if ct.dtype != to.dtype and not to.weak and not ct.type.weak:
        ct = astype(ct, dtype=to.dtype)
    return ct


class Accumulator:
    """The contributions to the cotangent of one value, added as they arrive.

    Slices wait until the whole is asked for, unless a dense contribution is there to
    add them into: so no array of zeros is made where one is not needed.
    """

    __slots__ = ("dense", "primal", "waiting")

    def __init__(self, primal: Value) -> None:
        self.primal = primal
        self.dense: Ref | None = None
        self.waiting: list[tuple[Scattered, Chain]] = []

    def add(self, ct: Ref | Scattered) -> None:
        """Add one contribution."""
        if isinstance(ct, Scattered):
            self.waiting.append((ct, ct.ct.builder.at))
            return
        ct = conform(ct, self.primal)
        if self.dense is not None:
            # Partial sums belong to the primal too: code generation adds in place.
            self._name(self.dense)
            ct = self.dense + ct
            self._name(ct)
        self.dense = ct

    def _name(self, ct: Ref) -> None:
        if ct.value.wrt is None and not isinstance(ct.value, Const):
            ct.value.wrt = self.primal

    def total(self, builder: Builder) -> Ref:
        """The sum of all contributions."""
        acc = self.dense
        for part, at in self._merged():
            builder.at = at
            if acc is None:
                acc = zeros_like(builder.wrap(self.primal))
            self._name(acc)
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
        self._name(acc)
        return acc

    def _merged(self) -> list[tuple[Scattered, Chain]]:
        """The slices in the order of the user's lines, equal ones of a line added."""
        merged: list[tuple[Scattered, Chain]] = []
        for part, at in reversed(self.waiting):
            last, place = merged[-1] if merged else (None, None)
            if (
                last is not None
                and last.index == part.index
                and _one_line(place, at)
                and not part.indices
                and last.ct.shape == part.ct.shape
            ):
                part.ct.builder.at = at
                added = Scattered(
                    last.ct + part.ct, (), part.index, part.unique, part.counts
                )
                merged[-1] = added, at
            else:
                merged.append((part, at))
        return merged


def _one_line(a: Chain | None, b: Chain) -> bool:
    """Whether two places are on the same line of the user's."""
    return a == b or bool(a and b and a[-1].where == b[-1].where)
