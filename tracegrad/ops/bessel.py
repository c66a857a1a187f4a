"""Bessel functions.

Derivatives by the recurrences of the NIST Digital Library of Mathematical Functions,
10.6 and 10.29.  With respect to the order none is known in closed form.
"""

from __future__ import annotations

from tracegrad.ops.define import accept, op
from tracegrad.ops.library import special
from tracegrad.ops.record import no_slope, offset
from tracegrad.ops.sample import arg, call
from tracegrad.ops.select import sign, where
from tracegrad.ops.special import spelled

# JAX has none of these.
_ONE = tuple(
    [
        sample.without("jax")
        for sample in (arg(3).with_(), arg("n", 2).with_(), arg().with_())
    ]
)
_POSITIVE = (
    arg(3, lo=0.3, hi=6.0).with_().without("jax"),
    arg("n", 2, lo=0.3, hi=6.0).with_().without("jax"),
)
_ORDERS = arg(3, lo=0, hi=3, dtype="int64")
_OF_ORDERS = (
    call(_ORDERS, arg(2, 3, lo=0.3, hi=6.0)).without("jax"),
    call(arg("n", 1, lo=0, hi=3, dtype="int64"), arg(lo=0.3)).without("jax"),
)


def of_order(name, argument, slope):
    """What all functions of an order and a point have in common."""
    return {
        **spelled(name),
        "vjp": [no_slope(f"scipy.special.{name}", argument), slope],
        "samples": _OF_ORDERS,
    }


def _over(y, x):
    """y / x for y = j1(x), with its limit 1/2 at 0."""
    return where(x == 0.0, 0.5, y / where(x == 0.0, 1.0, x))


# ------------------------------------------------------------------------- first kind
@op(**spelled("j0"), vjp=[lambda ct, y, x: -(ct * j1(x))], samples=_ONE)
def j0(x):
    """Bessel function of the first kind, of order 0."""
    return special.j0(x)


@op(**spelled("j1"), vjp=[lambda ct, y, x: ct * (j0(x) - _over(y, x))], samples=_ONE)
def j1(x):
    """Bessel function of the first kind, of order 1."""
    return special.j1(x)


@op(
    **of_order(
        "jv",
        "v",
        lambda ct, y, v, x: ct * (0.5 * (jv(offset(v, -1), x) - jv(offset(v, 1), x))),
    )
)
def jv(v, x):
    """Bessel function of the first kind, of order `v`."""
    return special.jv(v, x)


accept("scipy.special:jn")(jv)


@op(
    **of_order(
        "jve",
        "v",
        lambda ct, y, v, x: ct * (0.5 * (jve(offset(v, -1), x) - jve(offset(v, 1), x))),
    )
)
def jve(v, x):
    """jv(v, x) for real x; scaled by exp(-abs(x.imag)) for complex x."""
    return special.jve(v, x)


# ------------------------------------------------------------------------ second kind
@op(**spelled("y0"), vjp=[lambda ct, y, x: -(ct * y1(x))], samples=_POSITIVE)
def y0(x):
    """Bessel function of the second kind, of order 0."""
    return special.y0(x)


@op(**spelled("y1"), vjp=[lambda ct, y, x: ct * (y0(x) - y / x)], samples=_POSITIVE)
def y1(x):
    """Bessel function of the second kind, of order 1."""
    return special.y1(x)


@op(
    **of_order(
        "yn",
        "n",
        lambda ct, y, n, x: ct * (0.5 * (yn(offset(n, -1), x) - yn(offset(n, 1), x))),
    )
)
def yn(n, x):
    """Bessel function of the second kind, of whole order `n`."""
    return special.yn(n, x)


@op(
    **of_order(
        "yv",
        "v",
        lambda ct, y, v, x: ct * (0.5 * (yv(offset(v, -1), x) - yv(offset(v, 1), x))),
    )
)
def yv(v, x):
    """Bessel function of the second kind, of order `v`."""
    return special.yv(v, x)


# --------------------------------------------------------------- modified, first kind
@op(
    **of_order(
        "iv",
        "v",
        lambda ct, y, v, x: ct * (0.5 * (iv(offset(v, -1), x) + iv(offset(v, 1), x))),
    )
)
def iv(v, x):
    """Modified Bessel function of the first kind, of order `v`."""
    return special.iv(v, x)


def _slope_of_ive(ct, y, v, x):
    return ct * (0.5 * (ive(offset(v, -1), x) + ive(offset(v, 1), x)) - sign(x) * y)


@op(**of_order("ive", "v", _slope_of_ive))
def ive(v, x):
    """exp(-abs(x)) iv(v, x)."""
    return special.ive(v, x)


# -------------------------------------------------------------- modified, second kind
@op(**spelled("k0"), vjp=[lambda ct, y, x: -(ct * k1(x))], samples=_POSITIVE)
def k0(x):
    """Modified Bessel function of the second kind, of order 0."""
    return special.k0(x)


@op(**spelled("k1"), vjp=[lambda ct, y, x: -(ct * (k0(x) + y / x))], samples=_POSITIVE)
def k1(x):
    """Modified Bessel function of the second kind, of order 1."""
    return special.k1(x)


@op(**spelled("k0e"), vjp=[lambda ct, y, x: ct * (y - k1e(x))], samples=_POSITIVE)
def k0e(x):
    """exp(x) k0(x)."""
    return special.k0e(x)


@op(
    **spelled("k1e"),
    vjp=[lambda ct, y, x: ct * (y - k0e(x) - y / x)],
    samples=_POSITIVE,
)
def k1e(x):
    """exp(x) k1(x)."""
    return special.k1e(x)


@op(
    **of_order(
        "kn",
        "n",
        lambda ct, y, n, x: (
            -(ct * (0.5 * (kn(abs(offset(n, -1)), x) + kn(offset(n, 1), x))))
        ),
    )
)
def kn(n, x):
    """Modified Bessel function of the second kind, of whole order `n`."""
    return special.kn(n, x)


@op(
    **of_order(
        "kv",
        "v",
        lambda ct, y, v, x: (
            -(ct * (0.5 * (kv(offset(v, -1), x) + kv(offset(v, 1), x))))
        ),
    )
)
def kv(v, x):
    """Modified Bessel function of the second kind, of order `v`."""
    return special.kv(v, x)


@op(
    **of_order(
        "kve",
        "v",
        lambda ct, y, v, x: (
            ct * (y - 0.5 * (kve(offset(v, -1), x) + kve(offset(v, 1), x)))
        ),
    )
)
def kve(v, x):
    """exp(x) kv(v, x)."""
    return special.kve(v, x)
