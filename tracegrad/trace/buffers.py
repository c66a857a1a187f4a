"""Arrays that the user's code can write into, and views of them.

The graph is functional: a write makes a new value.  A `Buffer` holds the current value
of one array; a `Handle` is the array itself or a view of it, which reads and writes
through the array that it is a view of, as in NumPy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from tracegrad.errors import MutationError, UnsupportedError
from tracegrad.ir.graph import Node, Value
from tracegrad.ir.types import Dim
from tracegrad.ops.record import Builder, Ref, Scattered
from tracegrad.ops.scatter import setitem

ARGUMENT = "argument"
FRESH = "fresh"


class _Depth(threading.local):
    """Per thread: how many bodies of control flow the trace is inside of.

    Attributes:
        bodies: how many.
        arms: of these, by their number, the arms of the user's own `if`s and loops.
    """

    bodies = 0

    def __init__(self) -> None:
        self.arms: dict[int, Arm] = {}


class Arm:
    """What the code in an arm of an `if`, or in the body of a loop, did to arrays.

    Attributes:
        written: buffers from outside of it that it wrote -> what they held before.
        refreshed: views that were read anew in it.
    """

    __slots__ = ("refreshed", "written")

    def __init__(self) -> None:
        self.written: dict[Buffer, Value] = {}
        self.refreshed: list[Handle] = []


class Unjoin(BaseException):
    """An array was written that may or may not share memory with another.

    The trace starts again, and leaves the branch or loop that made it so to Python.
    Not an `Exception`, so that no handler of the user's catches it.

    Attributes:
        where: the branch or loop.
    """

    def __init__(self, where: object) -> None:
        super().__init__()
        self.where = where


DEPTH = _Depth()


class Buffer:
    """The memory of one array.

    Attributes:
        value: what it holds now.
        version: number of writes so far.
        origin: `ARGUMENT` if the caller owns it, which forbids writing.
        mixed: whether it may lie in another than C order, being computed from an array
            that does (NumPy keeps the order of operands).
        doubtful: whether something may be a view of it or a copy, for that reason.
        depth: how many bodies of control flow it was made inside of.
        entangled: the branch or loop on whose course it depends whether it shares
            memory with another, None if there is none.
        loose: the branch or loop on whose course it depends whether it is a Python
            number, None if there is none.
    """

    __slots__ = (
        "depth",
        "doubtful",
        "entangled",
        "loose",
        "mixed",
        "origin",
        "value",
        "version",
    )

    def __init__(self, value: Value, origin: str = FRESH) -> None:
        self.value = value
        self.version = 0
        self.origin = origin
        self.mixed = False
        self.doubtful = False
        self.depth = DEPTH.bodies
        self.entangled: object = None
        self.loose: object = None

    def write(self, value: Value) -> None:
        """Let the array hold another value, and note what it was where arms can be."""
        for level in range(self.depth + 1, DEPTH.bodies + 1):
            DEPTH.arms[level].written.setdefault(self, self.value)
        self.value = value
        self.version += 1


class Handle(Ref):
    """An array of the user's: a whole buffer, or a view of another handle.

    Attributes:
        value: what it held at `version` of its buffer.
        buffer: the memory.
        parent: for a view, what it is a view of.
        steps: for a view, the nodes that lead from the parent to it.
        version: of the buffer, when `value` was read.
    """

    __slots__ = ("buffer", "parent", "steps", "version")

    def __init__(
        self,
        value: Value,
        builder: Builder,
        buffer: Buffer,
        parent: Handle | None = None,
        steps: tuple[Node, ...] = (),
    ) -> None:
        self.value = value
        self.builder = builder
        self.buffer = buffer
        self.parent = parent
        self.steps = steps
        self.version = buffer.version


def current(handle: Handle) -> Value:
    """What the handle holds now; a view reads anew after a write to its buffer."""
    buffer = handle.buffer
    if handle.version == buffer.version:
        return handle.value
    if handle.parent is None:
        value = buffer.value
    else:
        hint, user = handle.value.hint, handle.value.user
        value = current(handle.parent)
        for step in handle.steps:
            value = replay(handle.builder, step, value)
        if value.hint is None:
            value.hint, value.user = hint, user
        arm = DEPTH.arms.get(DEPTH.bodies)
        if arm is not None:
            arm.refreshed.append(handle)
    handle.value = value
    handle.version = buffer.version
    return value


def replay(builder: Builder, step: Node, value: Value) -> Value:
    """Record the operation of a view on another value."""
    args = (Ref(value, builder), *[Ref(v, builder) for v in step.inputs[1:]])
    return builder.record(step.op, args, step.attrs).value


def refuse_write(handle: Handle) -> None:
    """Raise unless the handle's memory may be written.

    Raises:
        MutationError: if it is the memory of an argument, or was made outside of the
            body of control flow that runs now.
    """
    buffer = handle.buffer
    if buffer.entangled is not None:
        raise Unjoin(buffer.entangled)
    if any(n not in DEPTH.arms for n in range(buffer.depth + 1, DEPTH.bodies + 1)):
        raise MutationError(
            f"an array of shape {handle.shape} that was made outside of the body of "
            "tg.cond or a loop would be changed in it",
            fix="carry the array through the loop, and return it from the body",
        )
    if handle.buffer.origin is ARGUMENT:
        raise MutationError(
            f"an argument of shape {handle.shape} would be changed in place, "
            "and the caller's array with it",
            fix="make a copy first: y = x.copy()",
        )


def store(handle: Handle, update: Callable[[Ref], Ref]) -> None:
    """Write `update(current value)` into the handle's memory."""
    refuse_write(handle)
    before = current(handle)
    after = update(Ref(before, handle.builder)).value
    push(handle, after)


def push(handle: Handle, value: Value) -> None:
    """Make `value` what the handle holds, through to the buffer."""
    parent, buffer = handle.parent, handle.buffer
    if buffer.doubtful:
        raise UnsupportedError(
            "an array was reshaped that may lie in Fortran order, as the transposed "
            "array does that it was computed from; so NumPy may have made a view of it "
            "or a copy, and then it was written",
            fix="make a copy before it is reshaped: y = y.copy()",
        )
    if parent is None:
        _name(value, buffer.value)
        buffer.write(value)
    else:
        builder = handle.builder
        bases = [current(parent)]
        for step in handle.steps[:-1]:
            bases.append(replay(builder, step, bases[-1]))
        inner = value
        for step, base in zip(reversed(handle.steps), reversed(bases), strict=True):
            inner = put_back(builder, step, base, inner)
        push(parent, inner)
    handle.value = value
    handle.version = buffer.version


def _name(value: Value, before: Value) -> None:
    """The array keeps the name that the user gave it."""
    if value.hint is None and before.hint is not None:
        value.hint, value.user = before.hint, before.user


def put_back(builder: Builder, step: Node, base: Value, new: Value) -> Value:
    """`base` with `new` in place of the view that `step` makes of it.

    A view moves elements, so the transpose of the operation, which is its derivative
    rule, moves them back.
    """
    op = step.op
    refs = [Ref(v, builder) for v in (base, *step.inputs[1:])]
    ct, attrs = Ref(new, builder), step.attrs
    same_dtype = base.type.dtype == new.type.dtype
    part = None
    if same_dtype and op.rules is not None and op.rules[0] is not None:
        part = op.rules[0](ct, ct, *refs, **attrs)
    elif same_dtype and op.rule is not None:
        part = op.rule(ct, ct, *refs, **attrs)
        part = part[0] if type(part) is tuple else part
    if isinstance(part, Scattered):
        whole = setitem(
            Ref(base, builder),
            part.ct,
            *part.indices,
            index=part.index,
            unique=True,
            counts=part.counts,
        )
        return whole.value
    if isinstance(part, Ref) and part.value.type.shape == base.type.shape:
        return part.value
    raise UnsupportedError(
        f"writing into the view made by {op.spelling} is not supported",
        op=op.spelling,
        fix="write into the array itself, or into a copy",
    )


def _empty_view(
    handle: Handle, steps: tuple[Node, ...]
) -> tuple[np.ndarray, np.ndarray] | None:
    """An array without content in place of the buffer, and of `steps` on the handle.

    None where that can't be made: with symbolic sizes, or too large.
    """
    chain = list(steps)
    while handle.parent is not None:
        chain = [*handle.steps, *chain]
        handle = handle.parent
    shape = handle.value.type.shape
    if any(isinstance(size, Dim) for size in shape):
        return None
    try:
        whole = part = np.empty(shape, handle.value.type.dtype)
        for step in chain:
            part = step.op.run(part, **step.attrs)
    except Exception:
        return None
    return whole, part


def shares_memory(handle: Handle, steps: tuple[Node, ...]) -> bool:
    """Whether `steps` on the handle give a view, where that depends on the layout.

    Whole arrays are taken to lie in C order; where that is not known, the buffer is
    marked, and refuses to be written from then on.
    """
    if not any(step.op.aliasing(step.attrs) == "maybe" for step in steps):
        return True
    if handle.buffer.mixed:
        handle.buffer.doubtful = True
    made = _empty_view(handle, steps)
    return made is None or np.may_share_memory(*made)


def in_c_order(handle: Handle) -> bool:
    """Whether an array is known to lie in C order."""
    if handle.buffer.mixed:
        return False
    if handle.parent is None:
        return True
    made = _empty_view(handle, ())
    return made is not None and made[1].flags.c_contiguous


def raveled_anew(x: object) -> bool:
    """Whether `ravel` of it is known to be a copy, which `reshape(-1)` need not be."""
    return isinstance(x, Handle) and not x.buffer.mixed and not in_c_order(x)
