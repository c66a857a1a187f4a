"""`to_torch` and `to_jax`: a function here as a differentiable function there.

The forward part runs the emitted NumPy function and keeps its pullback.  The pullback
is such a function again, so that derivatives of any order are there.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError
from tracegrad.ir.tree import Branch, Leaf, Static, Tree, build, leaves, restore
from tracegrad.ir.types import ArrayType
from tracegrad.runtime.compiled import Compiled, vjp
from tracegrad.runtime.forward import jvp
from tracegrad.runtime.options import Options
from tracegrad.runtime.spec import Spec
from tracegrad.runtime.transform import binder_of, options_of
from tracegrad.runtime.vectorize import vmap


class _Flat:
    """A function of the leaves of its arguments, for one structure of them.

    Attributes:
        run: the compiled function; returns the leaves of the result.
        result: structure of the latest result.
    """

    def __init__(self, function: Callable, tree: Tree, name: str) -> None:
        self.result: Tree | None = None

        def flat(*values: Any) -> tuple:
            rest = iter(values)
            args = restore(tree, lambda _: next(rest))
            found = build(function(*args), _result_leaf)
            self.result = found
            return tuple([leaf.value for leaf in leaves(found)])

        flat.__name__ = flat.__qualname__ = name
        self.flat = flat
        self.run = Compiled(flat, options_of(name, "numpy", "readable"))
        self._pulled: dict[tuple[int, ...], Compiled] = {}
        self._again: dict[Any, Callable] = {}

    def pulled(self, wrt: tuple[int, ...], values: Sequence[Any]) -> tuple:
        """The leaves of the result, and the pullback to the leaves `wrt`."""
        if wrt not in self._pulled:
            self._pulled[wrt] = Compiled(self.flat, Options("vjp", argnums=wrt))
        return self._pulled[wrt](*values)

    def pullback(
        self,
        wrt: tuple[int, ...],
        count: int,
        there: Callable,
        convention: Callable = lambda x: x,
    ) -> Callable:
        """The pullback as a function of all leaves and the cotangents.

        Args:
            wrt: which leaves it is by.
            count: how many leaves there are.
            there: makes it a function of the other library.
            convention: makes a cotangent of the other library one of ours, and back.
        """

        def back(*values: Any) -> tuple:
            moved, cts = self._of(wrt, values[:count]), values[count:]
            _, pulled = vjp(moved, *[values[i] for i in wrt])
            found = pulled(tuple([convention(ct) for ct in cts]))
            return tuple([convention(x) for x in found])

        return self._made(("pullback", wrt), back, there)

    def pushed(self, wrt: tuple[int, ...], count: int, there: Callable) -> Callable:
        """The tangents of the result, as a function of all leaves and the tangents."""

        def push(*values: Any) -> tuple:
            moved, tangents = self._of(wrt, values[:count]), values[count:]
            return jvp(moved, tuple([values[i] for i in wrt]), tuple(tangents))[1]

        return self._made(("jvp", wrt), push, there)

    def batched(self, axes: tuple[int | None, ...], there: Callable) -> Callable:
        """The function of a batch, along these axes of the leaves."""

        def batch(*values: Any) -> tuple:
            return vmap(self.flat, in_axes=axes)(*values)

        return self._made(("vmap", axes), batch, there)

    def _of(self, wrt: tuple[int, ...], values: Sequence[Any]) -> Callable:
        """The function of the leaves `wrt` alone."""
        inner = list(values)

        def moved(*some: Any) -> tuple:
            for i, x in zip(wrt, some, strict=True):
                inner[i] = x
            return self.flat(*inner)

        return moved

    def _made(self, key: tuple, function: Callable, there: Callable) -> Callable:
        """The function there, made once, so that it is compiled once."""
        if key not in self._again:
            function.__name__ = f"{self.flat.__name__}_{key[0]}"
            function.__qualname__ = function.__name__
            self._again[key] = there(function)
        return self._again[key]


def _result_leaf(x: Any) -> Leaf | Static:
    return Static(x) if x is None or isinstance(x, str | bool) else Leaf(x)


def _shape_of_tree(tree: Tree) -> Any:
    if isinstance(tree, Branch):
        return tree.type, tree.keys, tuple(map(_shape_of_tree, tree.children))
    return None if isinstance(tree, Leaf) else tree.value


class _Functions:
    """The flat functions of one function, by the structure of its arguments."""

    def __init__(self, function: Callable, name: str) -> None:
        self.function, self.name = function, name
        self.made: dict[Any, _Flat] = {}

    def of(self, args: tuple, is_leaf: Callable[[Any], bool]) -> tuple[_Flat, list]:
        """The flat function for arguments, and their leaves."""
        tree = build(args, lambda x: Leaf(x) if is_leaf(x) else Static(x))
        key = _shape_of_tree(tree)
        if key not in self.made:
            self.made[key] = _Flat(self.function, tree, self.name)
        return self.made[key], [leaf.value for leaf in leaves(tree)]


def _import(name: str, op: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ArgumentError(
            f"{name} is not installed", op=op, fix=f"pip install {name}"
        ) from None


# ------------------------------------------------------------------------------- torch
def to_torch(f: Callable) -> Callable:
    """The function on tensors of PyTorch, differentiable there.

    Tensors on the CPU are read and made without a copy; others are copied to the CPU
    and back.

    Args:
        f: a function of arrays or structures of them, in NumPy.

    Returns:
        A function that takes tensors in the place of arrays, and returns tensors.  It
        is a `torch.autograd.Function`, differentiable any number of times, under the
        transformations of `torch.func` too (`vmap`, `jvp`, `hessian`).  Gradients by
        complex numbers are PyTorch's there: conjugates of ours.
    """
    torch = _import("torch", "tg.to_torch")
    binder = binder_of(f, "tg.to_torch")
    functions = _Functions(f, binder.name)
    bridge = _torch_bridge(torch)

    @functools.wraps(f, updated=())
    def call(*args: Any) -> Any:
        is_leaf = lambda x: isinstance(x, torch.Tensor) or type(x) in (float, complex)
        flat, values = functions.of(args, is_leaf)
        found = bridge.apply(_Run(flat), *values)
        rest = iter(found)
        assert flat.result is not None
        return restore(flat.result, lambda _: next(rest))

    return call


def _conjugate(x: Any) -> Any:
    """Of a cotangent: those of PyTorch are the conjugates of ours and JAX's."""
    return np.conj(x) if np.iscomplexobj(x) else x


def _numpy(x: Any) -> Any:
    return x.detach().cpu().resolve_conj().numpy() if hasattr(x, "detach") else x


@dataclass
class _Run:
    """One call of a flat function with tensors.

    Attributes:
        flat: the function.
        wrt: the leaves that its pullback is to.
        device: where the tensors are.
        pullback: of that call; None if nothing is differentiated.
    """

    flat: _Flat
    wrt: tuple[int, ...] = ()
    device: Any = None
    pullback: Callable | None = None


def _tensor(torch: Any, x: Any, device: Any) -> Any:
    made = np.asarray(x)
    made = made if made.flags.writeable else made.copy()
    return torch.as_tensor(made, device=device)


def _run_on_tensors(torch: Any, run: _Run, values: tuple) -> tuple:
    given = [_numpy(v) for v in values]
    tensors = {i: v for i, v in enumerate(values) if isinstance(v, torch.Tensor)}
    run.device = next((v.device for v in tensors.values()), None)
    run.wrt = tuple([i for i, v in tensors.items() if v.requires_grad])
    if not run.wrt:
        out = run.flat.run(*given)
    else:
        out, run.pullback = run.flat.pulled(run.wrt, given)
    return tuple([_tensor(torch, x, run.device) for x in out])


def _keep(torch: Any, ctx: Any, inputs: tuple, output: tuple) -> None:
    """Keep what the derivatives read, on PyTorch's record of a call."""
    ctx.run, *values = inputs
    ctx.is_tensor = [isinstance(v, torch.Tensor) for v in values]
    pairs = list(zip(values, ctx.is_tensor, strict=True))
    tensors = [v for v, one in pairs if one]
    # Saved, so that PyTorch refuses to go back after a change in place.
    ctx.save_for_backward(*tensors)
    ctx.save_for_forward(*tensors)
    ctx.values = [None if one else v for v, one in pairs]
    ctx.is_moved = [x.is_floating_point() or x.is_complex() for x in output]


def _kept(ctx: Any) -> list[Any]:
    """What the function was called with."""
    tensors = iter(ctx.saved_tensors)
    pairs = zip(ctx.values, ctx.is_tensor, strict=True)
    return [next(tensors) if one else v for v, one in pairs]


def _go_back(torch: Any, ctx: Any, cts: tuple) -> tuple:
    values, run = _kept(ctx), ctx.run
    wrt = tuple([i for i in range(len(values)) if ctx.needs_input_grad[i + 1]])
    # Without a pullback, it ran inside of a transformation of torch.func.
    if torch.is_grad_enabled() or run.pullback is None or run.wrt != wrt:
        back = run.flat.pullback(wrt, len(values), to_torch, _conjugate)
        found = back(*values, *cts)
    else:
        made = run.pullback(tuple([_conjugate(_numpy(ct)) for ct in cts]))
        found = [_tensor(torch, _conjugate(x), run.device) for x in made]
    grads: list[Any] = [None] * len(values)
    for i, g in zip(wrt, found, strict=True):
        grads[i] = g
    return (None, *grads)


def _push(ctx: Any, tangents: tuple) -> tuple:
    values = _kept(ctx)
    wrt = tuple([i for i, t in enumerate(tangents) if t is not None])
    push = ctx.run.flat.pushed(wrt, len(values), to_torch)
    found = push(*values, *[tangents[i] for i in wrt])
    pairs = zip(found, ctx.is_moved, strict=True)
    return tuple([t if moved else None for t, moved in pairs])


@functools.cache
def _torch_bridge(torch: Any) -> Any:
    class Bridge(torch.autograd.Function):  # type: ignore[name-defined,unused-ignore]
        """A flat function; its cotangents go through its pullback."""

        @staticmethod
        def forward(run: _Run, *values: Any) -> tuple:
            return _run_on_tensors(torch, run, values)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
            _keep(torch, ctx, inputs, output)

        @staticmethod
        def backward(ctx: Any, *cts: Any) -> tuple:
            return _go_back(torch, ctx, cts)

        @staticmethod
        def jvp(ctx: Any, _: Any, *tangents: Any) -> tuple:
            return _push(ctx, tangents)

        @staticmethod
        def vmap(info: Any, in_dims: tuple, run: _Run, *values: Any) -> tuple:
            found = run.flat.batched(tuple(in_dims[1:]), to_torch)(*values)
            return found, (0,) * len(found)

    return Bridge


# --------------------------------------------------------------------------------- jax
def to_jax(f: Callable) -> Callable:
    """The function on arrays of JAX, differentiable and usable under `jit` there.

    It calls back to NumPy.  `tg.compile(f, backend="jax")` instead emits the function
    in JAX itself, where all of its operations have a counterpart.

    Args:
        f: a function of arrays or structures of them, in NumPy.

    Returns:
        A function that takes arrays of JAX in the place of NumPy's; a `jax.custom_vjp`
        around a callback.
    """
    jax = _import("jax", "tg.to_jax")
    binder = binder_of(f, "tg.to_jax")
    functions = _Functions(f, binder.name)
    is_leaf = lambda x: hasattr(x, "dtype") or type(x) in (float, complex)

    @functools.wraps(f, updated=())
    def call(*args: Any) -> Any:
        flat, values = functions.of(args, is_leaf)
        arrays = [jax.numpy.asarray(v) for v in values]
        found = iter(_jax_bridge(jax, flat)(*arrays))
        assert flat.result is not None
        return restore(flat.result, lambda _: next(found))

    return call


def _types(jax: Any, flat: _Flat, values: Sequence[Any]) -> list[Any]:
    """The types of the results, from those of the arguments alone."""
    specs = [Spec(ArrayType(tuple(v.shape), np.dtype(v.dtype))) for v in values]
    graph = flat.run.ir(*specs)
    canonical = jax.dtypes.canonicalize_dtype
    return [
        jax.ShapeDtypeStruct(
            tuple(int(s) for s in v.type.shape), canonical(v.type.dtype)
        )
        for v in graph.results
    ]


def _jax_bridge(jax: Any, flat: _Flat) -> Callable:
    made = getattr(flat, "jax", None)
    if made is not None:
        return made

    def back_to(function: Callable, types: list[Any], values: Sequence[Any]) -> tuple:
        def run(*given: Any) -> tuple:
            out = function(*[np.asarray(g) for g in given])
            pairs = zip(out, types, strict=True)
            return tuple([np.asarray(x, dtype=t.dtype) for x, t in pairs])

        return jax.pure_callback(run, tuple(types), *values, vmap_method="sequential")

    @jax.custom_vjp
    def bridge(*values: Any) -> tuple:
        return back_to(flat.run, _types(jax, flat, values), values)

    def forward(*values: Any) -> tuple:
        return bridge(*values), values

    def backward(values: tuple, cts: tuple) -> tuple:
        wrt = tuple([i for i, v in enumerate(values) if v.dtype.kind in "fc"])
        back = flat.pullback(wrt, len(values), to_jax)
        found = iter(back(*values, *cts))
        return tuple(
            [
                next(found) if i in wrt else np.zeros(v.shape, jax.dtypes.float0)
                for i, v in enumerate(values)
            ]
        )

    bridge.defvjp(forward, backward)
    flat.jax = bridge  # type: ignore[attr-defined]
    return bridge
