"""SciPy's optimizers with derivatives of every kind that they take.

- `minimize(method="Newton-CG")` with `jac=True`, where the function returns value and
  gradient, and `hessp=` from `tg.hvp`: no Hessian is ever made.
- `minimize(method="trust-exact")` with `hess=` from `tg.hessian`.
- `least_squares` with `jac=` from `tg.jacobian(sparse=True)`: a tridiagonal Jacobian of
  2,000 equations costs three passes.

    python examples/newton_methods.py
"""

import numpy as np
from scipy.optimize import OptimizeResult, least_squares, minimize

import tracegrad as tg

SIZE = 100
EQUATIONS = 2_000


def rosenbrock(x):
    """Rosenbrock's banana function; its minimum is 0, where all elements are 1."""
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def by_products(start) -> OptimizeResult:
    """Newton's method with conjugate gradients, which multiplies by the Hessian."""
    product = tg.hvp(rosenbrock)
    return minimize(
        tg.value_and_grad(rosenbrock),
        start,
        jac=True,
        hessp=lambda x, v: product((x,), (v,)),
        method="Newton-CG",
        options={"xtol": 1e-10},
    )


def by_hessians(start) -> OptimizeResult:
    """Newton's method in a trust region, which factors the Hessian."""
    return minimize(
        tg.value_and_grad(rosenbrock),
        start,
        jac=True,
        hess=tg.hessian(rosenbrock),
        method="trust-exact",
        options={"gtol": 1e-10},
    )


def broyden(x):
    """Broyden's tridiagonal equations: each has three of the unknowns."""
    out = (3.0 - 2.0 * x) * x + 1.0
    out[1:] -= x[:-1]
    out[:-1] -= 2.0 * x[1:]
    return out


def by_sparse_jacobians(start) -> OptimizeResult:
    """Least squares with a Jacobian of which only the nonzeros are computed."""
    return least_squares(broyden, start, jac=tg.jacobian(broyden, sparse=True))


if __name__ == "__main__":
    start = np.full(SIZE, 0.5)
    for solve in (by_products, by_hessians):
        found = solve(start)
        print(
            f"{solve.__name__}: {found.fun:.1e} after {found.nit} steps, "
            f"{found.nfev} values and gradients"
        )
    print("\nThe product that Newton-CG calls:\n")
    print(tg.hvp(rosenbrock).source((start,), (start,)))
    found = by_sparse_jacobians(-np.ones(EQUATIONS))
    print(
        f"{EQUATIONS} equations: the largest residual is "
        f"{np.max(np.abs(found.fun)):.1e} after {found.njev} Jacobians"
    )
