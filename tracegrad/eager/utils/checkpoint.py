"""Checkpoints: a part of the graph saves its inputs only, and runs again in backward.

`use_reentrant=False` saves, for each tensor that an op inside would save, a number; the
first that is asked for runs the function again under hooks that collect the values.
`use_reentrant=True` is PyTorch's older form: one node whose backward records the
function again and starts a backward pass of its own.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tracegrad.eager import modes
from tracegrad.eager.autograd.function import Function
from tracegrad.eager.backward import backward
from tracegrad.eager.creation import generator
from tracegrad.eager.hooks import saved_tensors_hooks
from tracegrad.eager.modes import state
from tracegrad.eager.tensor import Tensor

NOT_WITH_GRAD = (
    "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or "
    "passing an `inputs` parameter to .backward(). To resolve this error, you can "
    "either set use_reentrant=False, or call .backward() without passing the `inputs` "
    "argument."
)
NONE_RECORDED = (
    "none of output has requires_grad=True, this checkpoint() is not necessary"
)
NOT_SAID = (
    "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. "
    "Starting in PyTorch 2.9, calling checkpoint without use_reentrant will raise an "
    "exception. use_reentrant=False is recommended, but if you need to preserve the "
    "current default behavior, you can pass use_reentrant=True. Refer to docs for more "
    "details on the differences between the two variants."
)


class CheckpointError(RuntimeError):
    """The function did not do the same again."""


@contextlib.contextmanager
def _random_as(before: Any) -> Iterator[None]:
    """Random numbers as they were at `before`, inside; None leaves them alone."""
    if before is None:
        yield
        return
    now = generator.rng.bit_generator.state
    generator.rng.bit_generator.state = before
    try:
        yield
    finally:
        generator.rng.bit_generator.state = now


def _no_context() -> tuple[Any, Any]:
    return contextlib.nullcontext(), contextlib.nullcontext()


def checkpoint(
    function: Callable,
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = _no_context,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args)`, of which the graph saves nothing but the arguments.

    Args:
        function: runs again in the backward pass.
        *args: its arguments.
        use_reentrant: which of the two forms; PyTorch recommends False.
        context_fn: gives two context managers, for the first run and for later ones.
        determinism_check: "default" compares shapes and dtypes, "none" does not.
        debug: accepted.
        early_stop: accepted: values are the same without.
        preserve_rng_state: whether random numbers are the same again.
        **kwargs: keyword arguments of `function`, not with `use_reentrant=True`.

    Raises:
        ValueError: PyTorch's messages, for options that do not go together.
        CheckpointError: in backward, if the function saves other tensors than before.

    Example:
        >>> import tracegrad.eager as torch
        >>> from tracegrad.eager.utils.checkpoint import checkpoint
        >>> x = torch.ones(2, requires_grad=True)
        >>> checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False).sum().backward()
        >>> x.grad
        tensor([-2.4784, -2.4784])
    """
    if use_reentrant is None:
        warnings.warn(NOT_SAID, UserWarning, stacklevel=2)
        use_reentrant = True
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not _no_context or debug:
            raise ValueError(
                "Passing `context_fn` or `debug` is only supported when "
                "use_reentrant=False."
            )
        return _Checkpoint.apply(function, preserve_rng_state, *args)
    if determinism_check not in ("default", "none"):
        raise ValueError(
            "determinism_check should be one of ['default', 'none'], but got "
            f"{determinism_check}"
        )
    first, later = context_fn()
    frame = _Frame(function, args, kwargs, later, preserve_rng_state)
    frame.check = determinism_check == "default"
    with first, saved_tensors_hooks(frame.pack, frame.unpack):
        return function(*args, **kwargs)


class _Frame:
    """One checkpoint: how to run it again, and what that has saved.

    Attributes:
        types: shape and dtype of each tensor saved by the first run.
        values: number -> tensor, from the latest run, as long as nobody has taken it.
        check: whether those of a later run must be the same.
    """

    def __init__(
        self,
        function: Callable,
        args: tuple,
        kwargs: dict,
        context: Any,
        preserve: bool,
    ) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self.context = context
        self.random = generator.rng.bit_generator.state if preserve else None
        self.types: list[tuple] = []
        self.values: dict[int, Tensor] = {}
        self.check = True

    def pack(self, x: Tensor) -> int:
        """Note a tensor, and keep its number only."""
        self.types.append((x._data.shape, x._data.dtype))
        return len(self.types) - 1

    def unpack(self, number: int) -> Tensor:
        """The tensor, computed again."""
        if number not in self.values:
            self.run_again()
        return self.values.pop(number)

    def run_again(self) -> None:
        """Run the function, and collect what its ops save.

        Raises:
            CheckpointError: if that differs from the first time.
        """
        made: list[Tensor] = []

        def pack(x: Tensor) -> Tensor:
            made.append(x)
            return x

        hooks = saved_tensors_hooks(pack, lambda x: x)
        with _random_as(self.random), modes.enable_grad(), self.context, hooks:
            self.function(*self.args, **self.kwargs)
        if len(made) != len(self.types):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved "
                "during the original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self.types)}\n"
                f"Number of tensors saved during recomputation: {len(made)}."
            )
        self.values = dict(enumerate(made))
        if self.check:
            self.compare(made)

    def compare(self, made: Sequence[Tensor]) -> None:
        """Raise if a shape or a dtype is another than before."""
        lines = [
            f"tensor at position {k}:\nsaved metadata: {old}\n"
            f"recomputed metadata: {new}"
            for k, (old, x) in enumerate(zip(self.types, made))
            if (new := (x._data.shape, x._data.dtype)) != old
        ]
        if lines:
            text = "\n".join(lines)
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors "
                f"have different metadata than during the forward pass.\n{text}."
            )


class _Checkpoint(Function):
    """The reentrant form."""

    @staticmethod
    def forward(ctx: Any, function: Callable, preserve: bool, *args: Any) -> Any:
        """Run without a graph, and save the arguments."""
        if not any(isinstance(x, Tensor) and x.requires_grad for x in args):
            warnings.warn(
                "None of the inputs have requires_grad=True. Gradients will be None",
                UserWarning,
                stacklevel=4,
            )
        ctx.function = function
        ctx.random = generator.rng.bit_generator.state if preserve else None
        ctx.others = [None if isinstance(x, Tensor) else x for x in args]
        ctx.places = [k for k, x in enumerate(args) if isinstance(x, Tensor)]
        ctx.save_for_backward(*[args[k] for k in ctx.places])
        return function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Run with a graph, and go back through it."""
        if state.run.wanted is not None:
            raise RuntimeError(NOT_WITH_GRAD)
        args = list(ctx.others)
        for k, x in zip(ctx.places, ctx.saved_tensors):
            args[k] = x.detach().requires_grad_(x.requires_grad)
        with modes.enable_grad(), _random_as(ctx.random):
            outs = ctx.function(*args)
        outs = outs if isinstance(outs, tuple) else (outs,)
        pairs = [
            (y, g)
            for y, g in zip(outs, grads)
            if isinstance(y, Tensor) and y.requires_grad
        ]
        if not pairs:
            raise RuntimeError(NONE_RECORDED)
        backward([y for y, _ in pairs], [g for _, g in pairs])
        found = [x.grad if isinstance(x, Tensor) else None for x in args]
        return (None, None, *found)


_Checkpoint.__name__ = _Checkpoint.__qualname__ = "CheckpointFunction"


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Tensor,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Functions one after the other, in `segments` checkpoints; the last has none.

    Args:
        functions: a list of functions of one argument.
        segments: how many parts.
        input: the argument of the first.
        use_reentrant: as for `checkpoint`.
        **kwargs: `preserve_rng_state`.
    """
    if use_reentrant is None:
        warnings.warn(NOT_SAID, UserWarning, stacklevel=2)
        use_reentrant = True
    steps = list(functions)
    size = len(steps) // segments
    parts = [steps[k * size : (k + 1) * size] for k in range(segments - 1)]
    for part in parts:
        run = _Chain(part)
        input = checkpoint(run, input, use_reentrant=use_reentrant, **kwargs)
    return _Chain(steps[(segments - 1) * size :])(input)


class _Chain:
    """Functions one after the other."""

    def __init__(self, steps: list) -> None:
        self.steps = steps

    def __call__(self, x: Any) -> Any:
        for step in self.steps:
            x = step(x)
        return x


__all__ = ["CheckpointError", "checkpoint", "checkpoint_sequential"]
