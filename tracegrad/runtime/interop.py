"""`to_torch` and `to_jax`: a function here as a differentiable function there.

The forward part runs the emitted NumPy function and keeps its pullback.  The pullback
is such a function again, so that derivatives of any order are there.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError
from tracegrad.ir.tree import Branch, Leaf, Static, Tree, build, leaves, restore
from tracegrad.ir.types import ArrayType
from tracegrad.runtime.compiled import Compiled, vjp
from tracegrad.runtime.options import Options
from tracegrad.runtime.spec import Spec
from tracegrad.runtime.transform import binder_of, options_of


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
        self._again: dict[tuple[int, ...], Callable] = {}

    def pulled(self, wrt: tuple[int, ...], values: Sequence[Any]) -> tuple:
        """The leaves of the result, and the pullback to the leaves `wrt`."""
        if wrt not in self._pulled:
            self._pulled[wrt] = Compiled(self.flat, Options("vjp", argnums=wrt))
        return self._pulled[wrt](*values)

    def pullback(
        self, wrt: tuple[int, ...], count: int, convention: Callable = lambda x: x
    ) -> Callable:
        """The pullback as a function of all leaves and the cotangents.

        `convention` makes a cotangent of the other library one of ours, and back.
        """
        if wrt not in self._again:
            flat = self.flat

            def back(*values: Any) -> tuple:
                inner, cts = list(values[:count]), values[count:]

                def moved(*some: Any) -> tuple:
                    for i, x in zip(wrt, some, strict=True):
                        inner[i] = x
                    return flat(*inner)

                _, pulled = vjp(moved, *[values[i] for i in wrt])
                found = pulled(tuple([convention(ct) for ct in cts]))
                return tuple([convention(x) for x in found])

            back.__name__ = back.__qualname__ = f"{flat.__name__}_pullback"
            self._again[wrt] = back
        return self._again[wrt]


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
        is a `torch.autograd.Function`, differentiable any number of times.  Gradients
        by complex numbers are PyTorch's there: conjugates of ours.
    """
    torch = _import("torch", "tg.to_torch")
    binder = binder_of(f, "tg.to_torch")
    functions = _Functions(f, binder.name)
    bridge = _torch_bridge(torch)

    @functools.wraps(f, updated=())
    def call(*args: Any) -> Any:
        is_leaf = lambda x: isinstance(x, torch.Tensor) or type(x) in (float, complex)
        flat, values = functions.of(args, is_leaf)
        found = bridge.apply(flat, *values)
        rest = iter(found)
        assert flat.result is not None
        return restore(flat.result, lambda _: next(rest))

    return call


def _conjugate(x: Any) -> Any:
    """Of a cotangent: those of PyTorch are the conjugates of ours and JAX's."""
    return np.conj(x) if np.iscomplexobj(x) else x


def _numpy(x: Any) -> Any:
    return x.detach().cpu().resolve_conj().numpy() if hasattr(x, "detach") else x


@functools.cache
def _torch_bridge(torch: Any) -> Any:
    def tensor(x: Any, device: Any) -> Any:
        made = np.asarray(x)
        made = made if made.flags.writeable else made.copy()
        return torch.as_tensor(made, device=device)

    class Bridge(torch.autograd.Function):  # type: ignore[name-defined,unused-ignore]
        """A flat function; its cotangents go through its pullback."""

        @staticmethod
        def forward(ctx: Any, flat: _Flat, *values: Any) -> tuple:
            ctx.flat, ctx.values = flat, values
            given = [_numpy(v) for v in values]
            moved = [
                i
                for i, v in enumerate(values)
                if isinstance(v, torch.Tensor) and v.requires_grad
            ]
            device = next(
                (v.device for v in values if isinstance(v, torch.Tensor)), None
            )
            ctx.wrt, ctx.device = tuple(moved), device
            if not moved:
                out = flat.run(*given)
            else:
                out, ctx.pullback = flat.pulled(ctx.wrt, given)
            return tuple([tensor(x, device) for x in out])

        @staticmethod
        def backward(ctx: Any, *cts: Any) -> tuple:
            values, wrt = ctx.values, ctx.wrt
            if torch.is_grad_enabled():  # it is differentiated again
                back = ctx.flat.pullback(wrt, len(values), _conjugate)
                found = to_torch(back)(*values, *cts)
            else:
                made = ctx.pullback(tuple([_conjugate(_numpy(ct)) for ct in cts]))
                found = [tensor(_conjugate(x), ctx.device) for x in made]
            grads: list[Any] = [None] * len(values)
            for i, g in zip(wrt, found, strict=True):
                grads[i] = g
            return (None, *grads)

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
        back = flat.pullback(wrt, len(values))
        found = iter(to_jax(back)(*values, *cts))
        return tuple(
            [
                next(found) if i in wrt else np.zeros(v.shape, jax.dtypes.float0)
                for i, v in enumerate(values)
            ]
        )

    bridge.defvjp(forward, backward)
    flat.jax = bridge  # type: ignore[attr-defined]
    return bridge
