"""Running emitted `jax.numpy` source under `jax.jit`, in float64 where the data are.

The user's own settings stay as they are: 64-bit mode is switched on for the trace and
the call only.  Structures are flattened here, since JAX knows neither static strings
nor unregistered classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracegrad.errors import UnsupportedError
from tracegrad.ir.tree import Branch, Leaf, Static, Tree, build


def require_jax() -> Any:
    """The module `jax`.

    Raises:
        UnsupportedError: it is not installed.
    """
    try:
        import jax
    except ImportError:
        raise UnsupportedError(
            'backend="jax" needs JAX, which is not installed',
            fix="pip install 'tracegrad[jax]', or use backend=\"numpy\"",
        ) from None
    return jax


def in_64_bits(function: Callable) -> Callable:
    """The function, run with 64-bit types kept."""
    enable: Any = getattr(require_jax(), "enable_x64", None)
    if enable is None:  # before JAX 0.8
        import jax.experimental

        enable = getattr(jax.experimental, "enable_x64")  # noqa: B009

    def call(*args: Any, **kwargs: Any) -> Any:
        with enable(True):
            return function(*args, **kwargs)

    return call


def jitted(function: Callable) -> Callable:
    """The emitted function under `jax.jit`, taking and giving the user's structures."""
    jax = require_jax()
    made: dict[Any, tuple[Callable, list]] = {}

    def compiled(skeleton: Tree) -> tuple[Callable, list]:
        results: list[Any] = []

        def flat(arrays: list) -> list:
            args, kwargs = _filled(skeleton, iter(arrays))
            tree, leaves = _flattened(function(*args, **kwargs))
            results[:] = [tree]
            return leaves

        return jax.jit(flat), results

    def call(*args: Any, **kwargs: Any) -> Any:
        skeleton, arrays = _flattened((args, kwargs))
        # The guard has made sure that static parts agree: one skeleton is enough.
        if not made:
            made[None] = compiled(skeleton)
        run, results = made[None]
        leaves = run(arrays)
        return _filled(results[0], iter(leaves))

    return in_64_bits(call)


def with_pullback(function: Callable) -> Callable:
    """The emitted vjp, not jitted: its closure can't leave `jax.jit`."""
    run = in_64_bits(function)

    def call(*args: Any, **kwargs: Any) -> tuple:
        out, pullback = run(*args, **kwargs)
        return out, in_64_bits(pullback)

    return call


def _is_data(x: Any) -> bool:
    return type(x) in (int, float, complex) or hasattr(x, "dtype")


def _flattened(x: Any) -> tuple[Tree, list]:
    leaves: list[Any] = []

    def leaf(part: Any) -> Leaf | Static:
        if not _is_data(part) or isinstance(part, type):
            return Static(part)
        leaves.append(part)
        return Leaf(None)

    return build(x, leaf), leaves


def _filled(tree: Tree, leaves: Any) -> Any:
    if isinstance(tree, Leaf):
        return next(leaves)
    if isinstance(tree, Branch):
        return tree.rebuild([_filled(c, leaves) for c in tree.children])
    return tree.value
