"""Forward mode and second-order products: `jvp`, `linearize`, `hvp`, `vhp`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracegrad.runtime.binding import Binder
from tracegrad.runtime.compiled import Compiled, compiled
from tracegrad.runtime.nested import inline_derivative
from tracegrad.runtime.options import Options, decorator
from tracegrad.runtime.pullback import CheckedPushforward, Origin
from tracegrad.runtime.pushing import inline_jvp, inline_linearize
from tracegrad.runtime.transform import Direct, binder_of, kept, options_of
from tracegrad.trace.tracer import active


@decorator
def jvp(
    f: Callable | None = None,
    primals: Any = None,
    tangents: Any = None,
    has_aux: bool = False,
    *,
    backend: str = "numpy",
    optimize: str = "readable",
    reroll: bool = True,
) -> Any:
    """The result of `f(*primals)`, and its derivative along `tangents`.

    Args:
        f: a function of arrays or structures of them.
        primals: its arguments, a tuple.
        tangents: one for each, in the structure, shapes and dtypes of its primal;
            `None` for zero, which integers must have.
        has_aux: whether `f` returns `(out, aux)`.
        backend: "numpy" or "jax".
        optimize: "readable" or "fast".
        reroll: see `grad`.

    Returns:
        `(out, out_tangent)`, with `has_aux` `(out, out_tangent, aux)`.  Without
        primals, a function of `(primals, tangents)`, which has `source`.

    Raises:
        ArgumentError: there are more or fewer tangents than primals, or one has
            another structure.
        ShapeError: one has another shape.
        DTypeError: one has another kind of dtype.

    Example:
        >>> jvp(lambda x, y: x * y, (2.0, 3.0), (1.0, 0.0))
        (6.0, 3.0)
    """
    options = options_of("tg.jvp", backend, optimize, has_aux, reroll)

    def record(binder: Binder, x: tuple, t: tuple) -> Any:
        return inline_jvp(binder, x, t, has_aux)

    def make() -> Direct:
        what = "Value and tangent of {}."
        return Direct(f, "tg.jvp", "jvp", what, record, options)

    return _called(f, ("jvp", options), make, primals, tangents)


def _called(f: Any, key: Any, make: Callable, primals: Any, others: Any) -> Any:
    made = kept(f, key, make)
    return made if primals is None and others is None else made(primals, others)


def linearize(
    f: Callable,
    *primals: Any,
    has_aux: bool = False,
    backend: str = "numpy",
    optimize: str = "readable",
) -> tuple:
    """The result of `f(*primals)`, and its derivative there as a function.

    What the derivative needs of `f` is computed once, here.

    Args:
        f: a function of arrays or structures of them.
        *primals: its arguments.
        has_aux: whether `f` returns `(out, aux)`.
        backend: "numpy" or "jax".
        optimize: "readable" or "fast".

    Returns:
        `(out, f_jvp)`, with `has_aux` `(out, f_jvp, aux)`; `f_jvp(*tangents)` is the
        derivative of `f` at the primals along the tangents, and `f_jvp.source()` the
        program.

    Example:
        >>> out, f_jvp = linearize(lambda x, y: x * y, 2.0, 3.0)
        >>> out, f_jvp(1.0, 0.0), f_jvp(0.0, 1.0)
        (6.0, 3.0, 2.0)
    """
    wrt = tuple(range(len(primals)))
    options = Options(
        "linearize", wrt, has_aux=has_aux, backend=backend, optimize=optimize
    )
    options.check()
    binder = binder_of(f, "tg.linearize", backend)
    if active():
        out, pushed = inline_linearize(binder, primals, has_aux)
        return (out[0], pushed, out[1]) if has_aux else (out, pushed)
    made = kept(f, ("linearize", options), lambda: Compiled(f, options))
    out, pushed = made(*primals)
    again = lambda: inline_linearize(binder, primals, has_aux)[1]
    checked = CheckedPushforward(pushed, Origin(made, primals, again), binder)
    return (out[0], checked, out[1]) if has_aux else (out, checked)


@decorator
def hvp(
    f: Callable | None = None,
    primals: Any = None,
    tangents: Any = None,
    *,
    backend: str = "numpy",
    optimize: str = "readable",
    reroll: bool = True,
) -> Any:
    """The Hessian of `f`, which returns one real scalar, times a vector.

    The tangent of the gradient: it costs about two gradients, and no Hessian is made.

    Args:
        f: a function of arrays or structures of them.
        primals: its arguments, a tuple.
        tangents: the vector, one part for each primal in its structure; `None` for an
            argument that is not differentiated, such as data.
        backend: "numpy" or "jax".
        optimize: "readable" or "fast".
        reroll: see `grad`.

    Returns:
        The product, in the structure of the primal that has a tangent; a tuple with an
        entry for each of them if there are several.  Without primals, a function of
        `(primals, tangents)`, which has `source`.

    Raises:
        ArgumentError, ShapeError, DTypeError: as `jvp`.

    Example:
        >>> hvp(lambda x: x**3, (2.0,), (1.0,))
        12.0
    """
    options = options_of("tg.hvp", backend, optimize, reroll=reroll)

    def make() -> Direct:
        what = "Hessian of {} times a vector."
        return Direct(f, "tg.hvp", "hvp", what, _record_hvp, options)

    return _called(f, ("hvp", options), make, primals, tangents)


def _moved(others: tuple) -> tuple[int, ...]:
    """The positions of the primals that are differentiated."""
    given = tuple([i for i, t in enumerate(others) if t is not None])
    return given or tuple(range(len(others)))


def _record_hvp(binder: Binder, primals: tuple, tangents: tuple) -> Any:
    wrt = _moved(tangents)
    gradient = _gradient_of(binder, wrt[0] if len(wrt) == 1 else wrt, "tg.hvp")
    return inline_jvp(gradient, primals, tangents, op="tg.hvp")[1]


def _gradient_of(binder: Binder, wrt: int | tuple[int, ...], op: str) -> Binder:
    """The gradient as a function to transform further."""
    options = Options("grad", argnums=wrt, named=op)

    def gradient(*primals: Any) -> Any:
        return inline_derivative(binder.function, binder, options, primals, {})

    made = Binder(gradient)
    made.name, made.signature = binder.name, binder.signature
    made.at = binder.at
    return made


@decorator
def vhp(
    f: Callable | None = None,
    primals: Any = None,
    vectors: Any = None,
    *,
    backend: str = "numpy",
    optimize: str = "readable",
    reroll: bool = True,
) -> Any:
    """A vector times the Hessian of `f`: the pullback of its gradient.

    The Hessian is symmetric, so that the result is that of `hvp`.  `vhp` goes twice in
    reverse, which can be faster for functions with few results on the way.

    Args:
        f: a function of arrays or structures of them that returns one real scalar.
        primals: its arguments, a tuple.
        vectors: the vector, one part for each primal in its structure; `None` for an
            argument that is not differentiated.
        backend: "numpy" or "jax".
        optimize: "readable" or "fast".
        reroll: see `grad`.

    Returns:
        As `hvp`.

    Example:
        >>> vhp(lambda x: x**3, (2.0,), (1.0,))
        12.0
    """
    options = options_of("tg.vhp", backend, optimize, reroll=reroll)

    def make() -> Direct:
        what = "A vector times the Hessian of {}."
        return Direct(f, "tg.vhp", "vhp", what, _record_vhp, options, "v")

    return _called(f, ("vhp", options), make, primals, vectors)


def _record_vhp(binder: Binder, primals: tuple, vectors: tuple) -> Any:
    wrt = _moved(vectors)
    one = len(wrt) == 1
    gradient = _gradient_of(binder, wrt[0] if one else wrt, "tg.vhp")
    options = Options("vjp", argnums=wrt, named="tg.vhp")
    _, pullback = inline_derivative(gradient.function, gradient, options, primals, {})
    products = pullback(vectors[wrt[0]] if one else tuple(vectors[i] for i in wrt))
    return products[0] if one else products


@decorator
def elementwise_grad(
    f: Callable | None = None,
    argnums: int | tuple[int, ...] = 0,
    *,
    argnames: str | tuple[str, ...] | None = None,
    backend: str = "numpy",
    optimize: str = "readable",
    reroll: bool = True,
) -> Any:
    """The derivative of each element of the result by its own element of the argument.

    For functions that act element by element: the gradient of the sum of the results.

    Args:
        f: a function that returns a real array.
        argnums: which positional arguments to differentiate.
        argnames: or which by name.
        backend: "numpy" or "jax".
        optimize: "readable" or "fast".
        reroll: see `grad`.

    Returns:
        A function with the arguments of `f`; it returns an array in the shape of the
        argument, a tuple for a tuple of `argnums`.

    Example:
        >>> elementwise_grad(np.square)(np.array([1.0, 2.0]))
        array([2., 4.])
    """
    options = Options(
        "elementwise_grad",
        argnums,
        argnames,
        backend=backend,
        optimize=optimize,
        reroll=reroll,
    )
    return compiled(f, options)
