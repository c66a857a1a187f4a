"""Whether a library is right, wrong or silent on a call: value and derivative.

The value is compared with plain NumPy and SciPy, the derivative with differences of
these in a random direction.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.signal
import scipy.sparse
import scipy.special
import scipy.stats
from functions.calls import Call, inputs

RIGHT, WRONG, MISSING = "right", "wrong", "missing"
Gradient = Callable[[Callable, tuple[int, ...], list], Any]


def plain(call: Call) -> Callable:
    """The call on plain NumPy and SciPy."""
    return call.function({"np": np, "scipy": scipy})


def total(f: Callable, library: Any) -> Callable:
    """One real number of all that a function returns, each element with a weight."""

    def loss(*args: Any) -> Any:
        out = f(*args)
        weights = np.cos(np.arange(np.size(out), dtype=float)).reshape(np.shape(out))
        if library.iscomplexobj(out):
            real = library.sum(library.real(out) * weights)
            return real + library.sum(library.imag(out) * np.sin(1.0 + weights))
        return library.sum(out * weights)

    return loss


def differentiated(args: list) -> tuple[int, ...]:
    """Positions of the arguments with a derivative."""
    return tuple([k for k, x in enumerate(args) if x.dtype.kind in "fc"])


def direction(args: list) -> list:
    """A direction to move the arguments in; a symmetric matrix stays one."""
    rng = np.random.default_rng(3)
    moved = []
    for x in args:
        d = rng.uniform(0.5, 1.0, x.shape) * rng.choice([-1.0, 1.0], x.shape)
        if x.dtype.kind == "c":
            d = d + 1j * rng.uniform(0.5, 1.0, x.shape)
        if x.ndim == 2 and np.array_equal(x, x.T):
            d = d + d.T
        moved.append(d if x.dtype.kind in "fc" else np.zeros(x.shape, int))
    return moved


def slope(loss: Callable, args: list, moved: list) -> float:
    """The derivative along a direction, by differences of fourth order."""
    step = 3e-4

    def at(h: float) -> float:
        pairs = zip(args, moved, strict=True)
        return float(
            loss(*[x + h * d if d.dtype.kind in "fc" else x for x, d in pairs])
        )

    near, far = at(step) - at(-step), at(2 * step) - at(-2 * step)
    return (8.0 * near - far) / (12.0 * step)


def verdict(
    call: Call, space: dict[str, Any], gradient: Gradient, library: Any
) -> tuple[str, str]:
    """How a library does on a call, and what it said.

    Args:
        call: the call.
        space: the names `np` and `scipy` of the library.
        gradient: of a function of arrays, by the positions of some of them.
        library: what adds up the result.
    """
    args = [inputs()[name] for name in call.names]
    wrt = differentiated(args)
    moved = direction(args)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        reference = total(plain(call), np)
        want, rise = reference(*args), slope(reference, args, moved)
        try:
            f = total(call.function(space), library)
            value, grads = gradient(f, wrt, args)
        except Exception as error:
            return MISSING, f"{type(error).__name__}: {error}".split("\n")[0]
        found = sum(
            np.sum(np.nan_to_num(np.real(np.asarray(d) * moved[k]), nan=np.inf))
            if args[k].dtype.kind == "c" or not np.isnan(args[k]).any()
            else np.nansum(np.asarray(d) * moved[k])
            for k, d in zip(wrt, grads, strict=True)
        )
    if not np.allclose(value, want, rtol=1e-7, atol=1e-9):
        return WRONG, f"value {value} instead of {want}"
    if not np.allclose(found, rise, rtol=3e-6, atol=1e-7):
        return WRONG, f"slope {found} instead of {rise}"
    return RIGHT, ""


# ----------------------------------------------------------------------- the libraries
def ours(call: Call) -> tuple[str, str]:
    """Of tracegrad."""
    import tracegrad as tg

    def gradient(f: Callable, wrt: tuple[int, ...], args: list) -> Any:
        return tg.value_and_grad(f, argnums=wrt)(*args)

    return verdict(call, {"np": np, "scipy": scipy}, gradient, np)


@functools.cache
def _autograd() -> Any:
    import autograd
    import autograd.numpy
    import autograd.scipy
    import autograd.scipy.integrate
    import autograd.scipy.linalg
    import autograd.scipy.signal
    import autograd.scipy.special
    import autograd.scipy.stats

    return autograd


def of_autograd(call: Call) -> tuple[str, str]:
    """Of autograd."""
    autograd = _autograd()

    def gradient(f: Callable, wrt: tuple[int, ...], args: list) -> Any:
        return f(*args), autograd.grad(f, wrt)(*args)

    space = {"np": autograd.numpy, "scipy": autograd.scipy}
    return verdict(call, space, gradient, autograd.numpy)


@functools.cache
def _jax() -> Any:
    import jax
    import jax.numpy
    import jax.scipy
    import jax.scipy.fft
    import jax.scipy.integrate
    import jax.scipy.interpolate
    import jax.scipy.linalg
    import jax.scipy.ndimage
    import jax.scipy.optimize
    import jax.scipy.signal
    import jax.scipy.special
    import jax.scipy.stats

    jax.config.update("jax_enable_x64", True)
    return jax


def of_jax(call: Call) -> tuple[str, str]:
    """Of JAX."""
    jax = _jax()

    def gradient(f: Callable, wrt: tuple[int, ...], args: list) -> Any:
        given = [jax.numpy.asarray(x) for x in args]
        return jax.value_and_grad(f, wrt)(*given)

    space = {"np": jax.numpy, "scipy": jax.scipy}
    return verdict(call, space, gradient, jax.numpy)


LIBRARIES = {"tracegrad": ours, "autograd": of_autograd, "jax": of_jax}
