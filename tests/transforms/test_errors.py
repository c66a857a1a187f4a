"""Wrong arguments of transformations: four lines, that name what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

import tracegrad as tg

X = np.array([1.0, 2.0, 3.0])


def pair(x):
    return {"a": x * 2.0, "b": (np.sum(x),)}


def square(x):
    return np.sum(x**2)


def pulled(ct):
    return lambda: tg.vjp(pair, X)[1](ct)


def pulled_inside(of):
    """The same inside of a trace, where the pullback is recorded."""
    inner = lambda x: np.sum(tg.vjp(pair, x)[1](of(x))[0])
    return lambda: tg.compile(inner)(X)


def pushed(*tangents):
    return lambda: tg.linearize(pair, X)[1](*tangents)


def with_vjp(f, fwd, bwd):
    made = tg.custom_vjp(f)
    made.defvjp(fwd, bwd)
    return lambda: tg.grad(lambda x: np.sum(made(x)))(X)


def with_jvps(*rules):
    made = tg.custom_jvp(lambda x: x * 2.0)
    made.defjvps(*rules)
    return lambda: tg.jvp(made, (X,), (X,))


DOUBLE = (lambda x: x * 2.0, lambda x: (x * 2.0, None))
A, S, D = tg.ArgumentError, tg.ShapeError, tg.DTypeError
TREES = r"the cotangent (`ct` )?is \{'a': \*\}, the result \{'a': \*, 'b': \(\*,\)\}"
CASES = {
    "cotangent: structure": (A, TREES, pulled({"a": X})),
    "cotangent: a list": (A, r"is \[\*, \*\], the result \{'a'", pulled([X, 1.0])),
    "cotangent: shape": (
        S,
        r"`ct\['a'\]` has the shape \(2,\), the result \(3,\)",
        pulled({"a": X[:2], "b": (1.0,)}),
    ),
    "cotangent: dtype": (
        D,
        r"`ct\['a'\]` has the dtype complex128, the result float64",
        pulled({"a": X * 1j, "b": (1.0,)}),
    ),
    "cotangent: no array": (
        A,
        r"must be an array of shape \(3,\), not str: 'no'",
        pulled({"a": "no", "b": (1.0,)}),
    ),
    "cotangent inside: structure": (A, TREES, pulled_inside(lambda x: {"a": x})),
    "cotangent inside: shape": (
        S,
        r"`ct\['a'\]` has the shape \(2,\), the result \(3,\)",
        pulled_inside(lambda x: {"a": x[:2], "b": (1.0,)}),
    ),
    "cotangent inside: dtype": (
        D,
        r"`ct\['a'\]` has the dtype complex128, the result float64",
        pulled_inside(lambda x: {"a": x * 1j, "b": (1.0,)}),
    ),
    "tangents: count": (
        A,
        "2 primals and 1 tangents",
        lambda: tg.jvp(lambda x, y: x * y, (X, X), (X,)),
    ),
    "tangents: structure": (
        A,
        r"the tangent of `p` is \{'b': \*\}, `p` itself \{'a': \*\}",
        lambda: tg.jvp(lambda p: p["a"], ({"a": X},), ({"b": X},)),
    ),
    "tangents: shape": (
        S,
        r"the tangent of `x` has the shape \(2,\), `x` itself \(3,\)",
        lambda: tg.hvp(square, (X,), (X[:2],)),
    ),
    "tangents: dtype": (
        D,
        "the tangent of `x` has the dtype complex128, `x` itself float64",
        lambda: tg.jvp(square, (X,), (X * 1j,)),
    ),
    "pushforward: count": (A, "1 primals and 2 tangents", pushed(X, X)),
    "pushforward: shape": (
        S,
        r"`tangents\[0\]` has the shape \(2,\), the primal \(3,\)",
        pushed(X[:2]),
    ),
    "pushforward: structure": (
        A,
        r"must be an array of shape \(3,\), not dict",
        pushed({"a": X}),
    ),
    "vectors: count": (
        A,
        "1 primals and 2 vectors",
        lambda: tg.vhp(square, (X,), (X, X)),
    ),
    "vectors: shape": (
        S,
        r"has the shape \(2,\), the result \(3,\)",
        lambda: tg.vhp(square, (X,), (X[:2],)),
    ),
    "vectors: structure": (
        A,
        r"is \{'a': \*\}, the result \*",
        lambda: tg.vhp(square, (X,), ({"a": X},)),
    ),
    "transpose: shape": (
        S,
        r"has the shape \(2,\), the result \(3,\)",
        lambda: tg.linear_transpose(lambda x: 2.0 * x, X)(X[:2]),
    ),
    "transpose: structure": (
        A,
        r"the cotangent is \(\*,\), the result \*",
        lambda: tg.linear_transpose(lambda x: 2.0 * x, X)((X,)),
    ),
    "vmap: sizes": (
        S,
        r"different numbers of examples: 3 along axis 0 of `a`, 2 along axis 0 of `b`",
        lambda: tg.vmap(lambda a, b: a + b)(X, X[:2]),
    ),
    "vmap: axis": (
        S,
        r"in_axes has the axis 3 for `a`, which has the shape \(3,\)",
        lambda: tg.vmap(lambda a: a * 2.0, in_axes=3)(X),
    ),
    "vmap: structure of axes": (
        A,
        r"in_axes has \{'y': 0\} for `a`, which is \{'x': \*\}",
        lambda: tg.vmap(lambda a: a["x"], in_axes=({"y": 0},))({"x": X}),
    ),
    "custom_vjp: count": (
        A,
        r"bwd of .* returned \(\*, \*\) for 1 arguments",
        with_vjp(*DOUBLE, lambda saved, ct: (ct, ct)),
    ),
    "custom_vjp: shape": (
        S,
        r"a cotangent \[0\] of shape \(\) for an argument of shape \(3,\)",
        with_vjp(*DOUBLE, lambda saved, ct: (np.sum(ct),)),
    ),
    "custom_vjp: dtype": (
        D,
        r"a cotangent \[0\] of type c16\[3\] for an argument of type f8\[3\]",
        with_vjp(*DOUBLE, lambda saved, ct: (ct * 1j,)),
    ),
    "custom_jvp: count": (
        A,
        "has 2 rules for 1 arguments",
        with_jvps(lambda t, out, x: t, lambda t, out, x: t),
    ),
    "custom_jvp: shape": (
        S,
        r"returned a tangent of shape \(\) for a result of shape \(3,\)",
        with_jvps(lambda t, out, x: np.sum(t)),
    ),
    "sparse: structure": (
        A,
        "of one array by one array",
        lambda: tg.jacobian(pair, sparse=True)(X),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_four_lines(name):
    error, text, call = CASES[name]
    with pytest.raises(error, match=text) as raised:
        call()
    _, op, at, fix = str(raised.value).splitlines()
    assert op.startswith("  in:  ")
    assert at.startswith("  at:  test_errors.py:")
    assert fix.startswith("  fix: ")
