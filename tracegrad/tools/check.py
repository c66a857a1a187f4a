"""`tg.check_grads`: derivatives against differences of function values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentError
from tracegrad.ir.tree import Leaf, Static, Tree, build, leaves, map_leaves, restore
from tracegrad.runtime.compiled import vjp
from tracegrad.runtime.forward import jvp

_MODES = ("fwd", "rev")
# Error of a central difference of fourth order, and the step that makes it least.
_TOLERANCE = {8: 1e-6, 4: 2e-2}
_STEP = {8: 1e-3, 4: 5e-2}


def check_grads(
    f: Callable,
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = _MODES,
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """Compare derivatives of `f` with differences of its values.

    One random direction is tried for each derivative: in forward mode the tangent of
    the result, in reverse mode its product with a random cotangent.  Order 2 checks the
    derivatives of these derivatives, in all combinations of the modes.

    Args:
        f: a function of arrays or structures of them.
        args: the point, a tuple; floats and complex numbers in it are moved.
        order: of the highest derivative.
        modes: "fwd", "rev", or both.
        atol: absolute tolerance; 1e-6, or 2e-2 where there is a float32.
        rtol: relative tolerance, by default the same.
        eps: step of the differences, relative to arguments of the size of 1.

    Raises:
        AssertionError: a derivative and a difference do not agree.
        ArgumentError: a mode is unknown, or an option is out of range.

    Example:
        >>> check_grads(np.sin, (0.3,), order=3)
    """
    modes = (modes,) if isinstance(modes, str) else tuple(modes)
    if not set(modes) <= set(_MODES) or not modes:
        raise ArgumentError(
            f"modes={modes!r}", op="tg.check_grads", fix='use "fwd", "rev" or both'
        )
    if type(order) is not int or order < 1 or not isinstance(args, tuple | list):
        raise ArgumentError(
            f"order={order!r} at {args!r:.40}",
            op="tg.check_grads",
            fix="pass a tuple of arguments and an order of at least 1",
        )
    _Check(modes, atol, rtol, eps).run(f, tuple(args), order, "")


class _Check:
    """The settings of one call, and the random numbers."""

    def __init__(
        self,
        modes: tuple[str, ...],
        atol: float | None,
        rtol: float | None,
        eps: float | None,
    ) -> None:
        self.modes = modes
        self.atol, self.rtol, self.eps = atol, rtol, eps
        self.random = np.random.default_rng(0)

    def run(self, f: Callable, args: tuple, order: int, path: str) -> None:
        """Check one derivative, and those of it."""
        if "fwd" in self.modes:
            self._forward(f, args, f"{path}jvp")
            if order > 1:
                tangents = self._like(args)
                further = lambda *a: jvp(f, a, tangents)
                self.run(further, args, order - 1, f"{path}jvp of ")
        if "rev" in self.modes:
            ct = self._reverse(f, args, f"{path}vjp")
            if order > 1:
                further = lambda *a: vjp(f, *a)[1](ct)
                self.run(further, args, order - 1, f"{path}vjp of ")

    def _forward(self, f: Callable, args: tuple, what: str) -> None:
        tangents = self._like(args)
        out, found = jvp(f, args, tangents)
        self._compare(_flat(found), self._slope(f, args, tangents), out, what)

    def _reverse(self, f: Callable, args: tuple, what: str) -> Any:
        out, pullback = vjp(f, *args)
        ct = self._like(out)
        tangents = self._like(args)
        found = _pairing(pullback(ct), tangents)
        wanted = _pairing(ct, self._slope(f, args, tangents))
        self._compare([found], [wanted], out, what)
        return ct

    def _like(self, x: Any) -> Any:
        """Random directions in the structure of `x`."""
        return restore(build(x, _leaf), self._draw)

    def _draw(self, x: Any) -> Any:
        shape, dtype = np.shape(x), np.asarray(x).dtype
        if dtype.kind not in "fc":
            return None
        made = self.random.standard_normal(shape)
        if dtype.kind == "c":
            made = made + 1j * self.random.standard_normal(shape)
        made = np.asarray(made).astype(dtype)
        return made.item() if type(x) in (float, complex) else made

    def _slope(self, f: Callable, args: tuple, tangents: tuple) -> list:
        """Central differences of fourth order."""
        width = min(map(_bytes, _flat(args)), default=8)
        step = self.eps or _STEP[width]

        def at(h: float) -> list:
            moved = [_moved(x, t, h) for x, t in zip(args, tangents, strict=True)]
            return [np.asarray(x, dtype=_wide(x)) for x in _flat(f(*moved))]

        parts = zip(at(step), at(-step), at(2 * step), at(-2 * step), strict=True)
        return [(8 * (a - b) - (c - d)) / (12 * step) for a, b, c, d in parts]

    def _compare(self, found: list, wanted: list, out: Any, what: str) -> None:
        width = min(map(_bytes, _flat(out)), default=8)
        tolerance = _TOLERANCE[width]
        atol = tolerance if self.atol is None else self.atol
        rtol = tolerance if self.rtol is None else self.rtol
        for x, y in zip(found, wanted, strict=True):
            text = f"the {what} of the function differs from its central difference"
            np.testing.assert_allclose(x, y, rtol=rtol, atol=atol, err_msg=text)


def _is_numeric(x: Any) -> bool:
    return hasattr(x, "dtype") or type(x) in (float, complex)


def _leaf(x: Any) -> Leaf | Static:
    return Leaf(x) if _is_numeric(x) else Static(None)


def _flat(x: Any) -> list:
    """The floats and complex numbers in a structure."""
    found = [leaf.value for leaf in leaves(build(x, _leaf))]
    return [v for v in found if np.asarray(v).dtype.kind in "fc"]


def _wide(x: Any) -> type:
    return np.complex128 if np.asarray(x).dtype.kind == "c" else np.float64


def _bytes(x: Any) -> int:
    """Bytes of a real number of the precision of `x`, 8 or 4."""
    dtype = np.asarray(x).dtype
    size = dtype.itemsize // (2 if dtype.kind == "c" else 1)
    return 8 if size >= 8 else 4


def _moved(x: Any, t: Any, h: float) -> Any:
    steps = iter([leaf.value for leaf in leaves(build(t, _leaf))])

    def move(v: Any) -> Any:
        dtype = np.asarray(v).dtype
        if dtype.kind not in "fc":
            return v
        made = np.asarray(v + h * next(steps)).astype(dtype)
        return made.item() if type(v) in (float, complex) else made[()]

    tree: Tree = build(x, lambda v: Leaf(v) if _is_numeric(v) else Static(v))
    return restore(map_leaves(tree, move), lambda v: v)


def _pairing(a: Any, b: Any) -> float:
    """Re(sum(a * b)), JAX's and autograd's pairing of a cotangent and a tangent."""
    pairs = zip(_flat(a), _flat(b), strict=True)
    return float(sum(np.real(np.sum(np.asarray(x) * np.asarray(y))) for x, y in pairs))
