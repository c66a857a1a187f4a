"""Derivatives through SciPy's solvers, called as the user calls them."""

from __future__ import annotations

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from jax.experimental.ode import odeint as jax_odeint
from scipy import optimize
from scipy.integrate import odeint, quad, solve_ivp

import tracegrad as tg

jax.config.update("jax_enable_x64", True)

B = np.array([1.0, 2.0, 3.0])
TIMES = np.linspace(0.0, 2.0, 5)
Y0 = np.array([1.0, 0.2])
TIGHT = {"rtol": 1e-11, "atol": 1e-11}
A = np.array([[-0.5, 2.0], [-1.0, -0.3]])


def slope(f, x, step=1e-3):
    return (8 * (f(x + step) - f(x - step)) - f(x + 2 * step) + f(x - 2 * step)) / (
        12 * step
    )


# ------------------------------------------------------------------------------- roots
def by_brentq(p):
    return optimize.brentq(lambda x: x**3 + p * x - 2.0, 0.0, 5.0, xtol=1e-14)


def by_bracket(method):
    def f(p):
        solve = getattr(optimize, method)
        return solve(lambda x, q: np.exp(x) * q - 2.0, -5.0, 5.0, args=(p,), xtol=1e-13)

    return f


def by_newton(p):
    return optimize.newton(lambda x: x**3 + p * x - 2.0, 1.0, tol=1e-13)


def by_newton_with_slope(p):
    f, df = lambda x: x**3 + p * x - 2.0, lambda x: 3 * x**2 + p
    return optimize.newton(f, 1.0, fprime=df, tol=1e-13)


def by_newton_of_arrays(p):
    f = lambda x: x**3 + p * x - B
    return np.sum(optimize.newton(f, np.ones(3), tol=1e-13) ** 2)


def by_root_scalar(p):
    sol = optimize.root_scalar(lambda x: x**3 + p * x - 2.0, bracket=(0, 5), xtol=1e-14)
    return sol.root * (2.0 if sol.converged else 0.0)


def by_root_scalar_secant(p):
    def residual(x, a):
        return x**3 + a * x - 2.0

    return optimize.root_scalar(residual, args=(p,), x0=0.5, x1=1.0, xtol=1e-13).root


def by_root(p):
    def residual(x, a):
        return [x[0] ** 2 + a * x[1] - 2.0, x[0] * x[1] - p]

    sol = optimize.root(residual, [1.0, 1.0], args=(p,), tol=1e-13)
    if not sol.success:
        raise ValueError(sol)
    return np.sum(sol.x**2) + sol["x"][0]


def by_root_with_jacobian(p):
    f = lambda x: np.array([x[0] ** 2 + p * x[1] - 2.0, x[0] * x[1] - p])
    jac = lambda x: np.array([[2 * x[0], p], [x[1], x[0]]])
    return np.sum(optimize.root(f, np.ones(2), jac=jac, method="lm", tol=1e-13).x ** 2)


def by_krylov(p):
    f = lambda x: x + p * np.tanh(x @ A) - 1.0
    made = optimize.root(f, np.ones((2, 2)), method="krylov", tol=1e-12)
    return np.sum(made.x**2)


def by_fsolve(p):
    return np.sum(optimize.fsolve(lambda x: x**3 + p * x - B, np.ones(3), xtol=1e-13))


def by_fixed_point(p):
    f = lambda x: np.cos(x) * p
    return np.sum(optimize.fixed_point(f, np.ones(2), xtol=1e-13) * B[:2])


ROOTS = [
    by_brentq,
    *[pytest.param(by_bracket(n), id=n) for n in ("brenth", "ridder", "bisect")],
    pytest.param(by_bracket("toms748"), id="toms748"),
    by_newton,
    by_newton_with_slope,
    by_newton_of_arrays,
    by_root_scalar,
    by_root_scalar_secant,
    by_root,
    by_root_with_jacobian,
    by_krylov,
    by_fsolve,
    by_fixed_point,
]


@pytest.mark.parametrize("f", ROOTS)
def test_roots(f):
    p = 0.8
    value, d_p = tg.value_and_grad(f)(p)
    np.testing.assert_allclose(value, f(p), rtol=1e-9)
    want = slope(f, p)
    np.testing.assert_allclose(d_p, want, rtol=1e-7)
    np.testing.assert_allclose(tg.jvp(f, (p,), (2.0,))[1], 2.0 * want, rtol=1e-7)


def test_roots_of_higher_order_and_of_arrays():
    x = by_brentq(1.5)
    d = 3 * x**2 + 1.5
    np.testing.assert_allclose(tg.grad(by_brentq)(1.5), -x / d, rtol=1e-12)
    second = tg.grad(tg.grad(by_brentq))(1.5)
    np.testing.assert_allclose(second, 2 * x / d**2 - 6 * x**3 / d**3, rtol=1e-9)

    def f(b):
        return np.sum(np.sin(optimize.root(lambda x: x**3 + 2 * x - b, b, tol=1e-13).x))

    x = optimize.root(lambda x: x**3 + 2 * x - B, B, tol=1e-13).x
    d = 3 * x**2 + 2.0
    np.testing.assert_allclose(tg.grad(f)(B), np.cos(x) / d, rtol=1e-9)
    want = -np.sin(x) / d**2 - 6 * x * np.cos(x) / d**3
    np.testing.assert_allclose(tg.hessian(f)(B), np.diag(want), rtol=1e-8, atol=1e-12)
    rows = tg.vmap(by_brentq)(np.array([0.5, 1.0, 2.0]))
    np.testing.assert_allclose(rows, [by_brentq(p) for p in (0.5, 1.0, 2.0)])


def repeated(p):
    f = lambda x, t: x**3 + p * x - t - 1.0
    t = 0.0
    for _ in range(5):
        t = t + optimize.brentq(f, -5.0, 5.0, args=(t,), xtol=1e-14)
    return t


def scanned(p):
    def turn(c, _):
        f = lambda x: x**3 + p * x - c - 1.0
        return c + optimize.brentq(f, -5.0, 5.0, xtol=1e-14), c

    return tg.scan(turn, 0.0, np.arange(5.0))[0]


def branched(p):
    x = by_brentq(p)
    return x**2 if x > 0.6 else x


@pytest.mark.parametrize("f", [repeated, scanned, branched, tg.checkpoint(by_brentq)])
def test_roots_in_loops_branches_and_checkpoints(f):
    for p in (0.8, 4.0):
        np.testing.assert_allclose(tg.grad(f)(p), slope(f, p), rtol=1e-7)


def test_a_root_from_types_alone():
    text = str(tg.grad(by_brentq).source(tg.spec("f8[]")))
    assert "optimize.brentq(residual" in text


def test_coupled_equations_against_the_formula():
    def f(m, b):
        return np.sum(optimize.root(lambda x: m @ x + 0.1 * x**3 - b, b, tol=1e-14).x)

    m, b = np.array([[2.0, 0.5], [-0.3, 1.5]]), np.array([1.0, -2.0])
    x = optimize.root(lambda x: m @ x + 0.1 * x**3 - b, b, tol=1e-14).x
    w = np.linalg.solve((m + np.diag(0.3 * x**2)).T, np.ones(2))
    d_m, d_b = tg.grad(f, argnums=(0, 1))(m, b)
    np.testing.assert_allclose(d_b, w, rtol=1e-9)
    np.testing.assert_allclose(d_m, -np.outer(w, x), rtol=1e-9)


def test_the_source_of_a_root_reads_as_by_hand(tmp_path):
    g = tg.value_and_grad(by_brentq)
    source = g.source(1.5)
    text = str(source)
    assert "    def residual(x):  # test_solvers.py:" in text
    assert "= optimize.brentq(residual, 0.0, 5.0, xtol=1e-14)" in text
    assert len(text[text.index("# forward") :].splitlines()) <= 9
    path = source.save(tmp_path / "saved.py")
    program = (
        "import sys; sys.modules['tracegrad'] = None; import saved;"
        "print(*saved.by_brentq_value_and_grad(1.5))"
    )
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.path.insert(0, {str(path.parent)!r})\n{program}",
        ],
        capture_output=True,
        text=True,
    )
    assert ran.stderr == ""
    np.testing.assert_allclose([float(x) for x in ran.stdout.split()], g(1.5))


# -------------------------------------------------------------- differential equations
def by_odeint(y0, w, k, times):
    def pendulum(y, t, k):
        theta, omega = y
        return [omega, -w * np.sin(theta) - k * omega * t]

    return np.sum(odeint(pendulum, y0, times, args=(k,), **TIGHT) ** 2)


def by_odeint_time_first(y0, w, k, times):
    f = lambda t, y: np.array([y[1], -w * np.sin(y[0]) - k * y[1] * t])
    ys = odeint(f, y0, times, tfirst=True, rtol=1e-11, atol=1e-11)
    return np.sum(ys[1:, 0] * ys[:-1, 1])


def by_solve_ivp(y0, w, k, times):
    def pendulum(t, y):
        theta, omega = y
        return omega, -w * np.sin(theta) - k * omega * t

    sol = solve_ivp(pendulum, (-0.1, 2.5), y0, t_eval=times, **TIGHT)
    return np.sum(sol.y**2) if sol.success else 0.0


def by_dop853(y0, w, k, times):
    f = lambda t, y, k: np.stack([y[1], -w * np.sin(y[0]) - k * y[1] * t])
    span = (times[0], times[-1])
    sol = solve_ivp(f, span, y0, "DOP853", args=(k,), rtol=1e-12, atol=1e-12)
    return np.sum(sol.y[:, -1] ** 2) + sol.y[0, -1]


def by_radau(y0, w, k, times):
    f = lambda t, y: np.array([y[1], -w * np.sin(y[0]) - k * y[1] * t])
    jac = lambda t, y: np.array([[0.0, 1.0], [-w * np.cos(y[0]), -k * t]])
    sol = solve_ivp(f, (-0.1, 2.5), y0, "Radau", times, jac=jac, rtol=1e-10, atol=1e-10)
    return np.sum(sol.y[:, -1] * sol.t[1])


EQUATIONS = [by_odeint, by_odeint_time_first, by_solve_ivp, by_dop853]
EQUATIONS += [pytest.param(by_radau, marks=pytest.mark.slow)]


@pytest.mark.parametrize("f", EQUATIONS)
def test_equations(f):
    args = (Y0, 1.3, 0.4, TIMES)
    moved = np.array([0.3, -0.7]), 0.5, -0.8, 0.1 * np.cos(np.arange(5.0)) + 0.05
    along = lambda i: lambda h: f(*args[:i], args[i] + h * moved[i], *args[i + 1 :])
    rtol = 1e-7 if f is by_radau else 3e-8
    grads = tg.grad(f, argnums=(0, 1, 2, 3))(*args)
    parts = [np.sum(d * t) for d, t in zip(grads, moved, strict=True)]
    for i, part in enumerate(parts):
        np.testing.assert_allclose(part, slope(along(i), 0.0), rtol=rtol, atol=1e-8)
    _, t_out = tg.jvp(f, args, moved)
    np.testing.assert_allclose(t_out, sum(parts), rtol=rtol)


def test_a_linear_equation_against_its_exponential():
    def f(a, y0):
        return odeint(lambda y, t: a @ y, y0, TIMES, rtol=1e-12, atol=1e-12)

    def exact(a, y0):
        return np.stack([scipy.linalg.expm(t * a) @ y0 for t in TIMES])

    ct = np.cos(np.arange(10.0)).reshape(5, 2)
    out, pullback = tg.vjp(f, A, Y0)
    np.testing.assert_allclose(out, exact(A, Y0), rtol=1e-9)
    want = tg.vjp(exact, A, Y0)[1](ct)
    for d, w in zip(pullback(ct), want, strict=True):
        np.testing.assert_allclose(d, w, rtol=1e-9)
    by_solve = lambda a: np.sum(
        solve_ivp(lambda t, y: a @ y, (0, 2), Y0, rtol=1e-12, atol=1e-12).y[:, -1]
    )
    want = tg.hessian(lambda a: np.sum(scipy.linalg.expm(2.0 * a) @ Y0))(A)
    np.testing.assert_allclose(tg.hessian(by_solve)(A), want, rtol=1e-6)


@pytest.mark.slow
def test_agrees_with_jax():
    def of_jax(y0, w):
        f = lambda y, t: jnp.stack([y[1], -w * jnp.sin(y[0])])
        return jnp.sum(jax_odeint(f, y0, TIMES, rtol=1e-11, atol=1e-11) ** 2)

    def f(y0, w):
        pendulum = lambda y, t: [y[1], -w * np.sin(y[0])]
        return np.sum(odeint(pendulum, y0, TIMES, rtol=1e-11, atol=1e-11) ** 2)

    want = jax.grad(of_jax, argnums=(0, 1))(Y0, 1.3)
    for d, w in zip(tg.grad(f, argnums=(0, 1))(Y0, 1.3), want, strict=True):
        np.testing.assert_allclose(d, w, rtol=1e-8)


def test_the_saved_file_of_an_equation(tmp_path):
    g = tg.grad(by_solve_ivp, argnums=(0, 1))
    source = g.source(Y0, 1.3, 0.4, TIMES)
    path = source.save(tmp_path / "saved.py")
    program = (
        "import sys; sys.modules['tracegrad'] = None; import numpy, saved;"
        "d = saved.by_solve_ivp_grad(numpy.array([1.0, 0.2]), 1.3, 0.4,"
        " numpy.linspace(0.0, 2.0, 5)); print(*d[0], d[1])"
    )
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.path.insert(0, {str(path.parent)!r})\n{program}",
        ],
        capture_output=True,
        text=True,
    )
    assert ran.stderr == ""
    d_y0, d_w = g(Y0, 1.3, 0.4, TIMES)
    np.testing.assert_allclose([float(x) for x in ran.stdout.split()], [*d_y0, d_w])
    text = str(source)
    assert text.count("def adjoint(") == 1
    assert "for i in reversed(range(times.shape[0])):" in text


def coarse_odeint(y0, w, k, times):
    f = lambda y, t: [y[1], -w * np.sin(y[0]) - k * y[1] * t]
    return np.sum(odeint(f, y0, times, rtol=1e-6, atol=1e-6) ** 2)


def coarse_solve_ivp(y0, w, k, times):
    f = lambda t, y: [y[1], -w * np.sin(y[0]) - k * y[1] * t]
    sol = solve_ivp(f, (times[0], times[-1]), y0, rtol=1e-6, atol=1e-6)
    return np.sum(sol.y[:, -1] ** 2)


@pytest.mark.parametrize("f", [coarse_odeint, coarse_solve_ivp])
def test_single_precision_is_that_of_the_arguments(f):
    args = (Y0, 1.3, 0.4, TIMES)
    narrow = [np.asarray(x, np.float32) for x in args]
    grads = tg.grad(f, argnums=(0, 1, 2, 3))(*narrow)
    wants = tg.grad(f, argnums=(0, 1, 2, 3))(*args)
    for d, w in zip(grads, wants, strict=True):
        assert d.dtype == np.float32
        np.testing.assert_allclose(d, w, rtol=1e-3, atol=1e-4)
    moved = [np.ones_like(x) for x in narrow]
    _, t = tg.jvp(f, tuple(narrow), tuple(moved))
    np.testing.assert_allclose(t, sum(map(np.sum, wants)), rtol=1e-3)


# --------------------------------------------------------------------------- integrals
def by_quad(p, a, b):
    return quad(lambda x: np.exp(-p * x**2) * x, a, b)[0]


def by_quad_of_arrays(p, a, b):
    def integrand(x, s):
        return np.sum(p * np.cos(x * B)) * np.exp(-s * x)

    value, _ = quad(integrand, 0.0, np.inf, args=(a * b,), epsabs=1e-12)
    return value**2


@pytest.mark.parametrize("f", [by_quad, by_quad_of_arrays])
def test_integrals(f):
    args = (1.3 if f is by_quad else np.array([1.0, -2.0, 0.5]), 0.4, 1.5)
    moved = 0.7 if f is by_quad else np.array([0.3, 0.5, -0.2]), -0.4, 0.9
    grads = tg.grad(f, argnums=(0, 1, 2))(*args)
    total = sum(np.sum(d * t) for d, t in zip(grads, moved, strict=True))
    along = lambda h: f(*[x + h * t for x, t in zip(args, moved, strict=True)])
    np.testing.assert_allclose(total, slope(along, 0.0), rtol=1e-8)
    np.testing.assert_allclose(tg.jvp(f, args, moved)[1], total, rtol=1e-8)
    second = tg.grad(tg.grad(f, argnums=1), argnums=1)(*args)
    by_a = lambda a: tg.grad(f, argnums=1)(args[0], a, args[2])
    np.testing.assert_allclose(second, slope(by_a, args[1]), rtol=1e-7)


# ------------------------------------------------------------------------------ errors
def test_a_call_without_traced_values_runs():
    found = []

    def f(x):
        def untraceable(u):
            found.append(float(u))
            return u**2 - 2.0

        return x * optimize.brentq(untraceable, 0.0, 2.0, xtol=1e-14)

    np.testing.assert_allclose(tg.grad(f)(3.0), np.sqrt(2.0))
    assert found


CASES = {
    "full_output=": lambda p: optimize.brentq(
        lambda x: x - p, 0.0, 2.0, full_output=True
    )[0],
    r"root\(jac=True\)": lambda p: optimize.root(
        lambda x: x - p, np.ones(1), jac=True
    ).x[0],
    r"`\.message`": lambda p: optimize.root(lambda x: x - p, np.ones(1)).message,
    "events=": lambda p: solve_ivp(
        lambda t, y: -p * y, (0, 1), [1.0], events=lambda t, y: y[0]
    ).y[0, -1],
    "give t_eval=": lambda p: np.sum(solve_ivp(lambda t, y: -p * y, (0, 1), [1.0]).y),
    "one number for each": lambda p: optimize.root(
        lambda x: np.sum(x) - p, np.ones(2)
    ).x[0],
    "complex numbers": lambda p: odeint(lambda y, t: -p * y, [1j], TIMES)[0, 0],
    "does not depend on its argument": lambda p: optimize.newton(
        lambda x: p * 1.0, 1.0
    ),
    "with 1 axes": lambda p: odeint(lambda y, t: -p * y, np.ones((2, 2)), TIMES)[0, 0],
}


@pytest.mark.parametrize("text", CASES)
def test_errors(text):
    with pytest.raises(tg.TracegradError, match=text) as caught:
        tg.grad(CASES[text]).source(1.0 if "depend" not in text else 0.0)
    message = str(caught.value)
    assert "test_solvers.py:" in message
    assert "  fix: " in message
    assert "scipy." in message


def test_jax_source_is_refused():
    with pytest.raises(tg.UnsupportedError, match="no counterpart in JAX"):
        tg.grad(by_brentq, backend="jax").source(1.5)


def integral(a, b, start):
    def integrand(x):
        return np.sum(b * np.exp(-a[0] * x)) * np.sign(a[1, 0])

    return quad(integrand, start[0], 2.0, epsabs=1e-12)[0]


def in_closed_form(a, b, start):
    k = a[0]
    return np.sum(b * (np.exp(-k * start[0]) - np.exp(-2.0 * k)) / k)


@pytest.mark.parametrize("i", range(3))
@pytest.mark.parametrize("j", range(3))
def test_second_derivatives_of_an_integral_of_arrays(i, j):
    """The slopes are one integral of several numbers, each with its cotangent."""
    a = np.array([[0.4, 0.9, 1.3], [0.5, 0.1, 0.2]])
    args = a, np.array([0.3, -0.7, 0.5]), np.array([0.4, 0.1])
    made, want = (
        tg.jacobian(tg.grad(f, argnums=i), argnums=j)(*args)
        for f in (integral, in_closed_form)
    )
    np.testing.assert_allclose(made, want, atol=1e-9)


def test_what_an_integrand_reads_without_a_slope_leaves_the_others_theirs():
    def f(c, d):
        return quad(lambda x: np.sign(c) * np.exp(-d * x), 0.0, 1.0)[0]

    found = tg.grad(f, argnums=(0, 1))(2.0, 0.7)
    of_d = slope(lambda d: (1.0 - np.exp(-d)) / d, 0.7)
    np.testing.assert_allclose(found, (0.0, of_d), atol=1e-9)


# -------------------------------------------------------------------------- minima
WEIGHTS = np.array([1.0, 2.0, -0.5])


def objective(r, p):
    return np.sum((r - p) ** 2) + 0.1 * np.sum(r**4) + 0.3 * r[0] * r[1] * p[2]


def slope_of_objective(r, p):
    cross = 0.3 * p[2] * np.array([r[1], r[0], 0.0])
    return 2.0 * (r - p) + 0.4 * r**3 + cross


def by_minimize(p):
    return optimize.minimize(lambda r: objective(r, p), np.ones(3), tol=1e-12).x


def by_minimize_with_slope(p):
    return optimize.minimize(
        objective,
        np.ones(3),
        args=(p,),
        jac=slope_of_objective,
        method="L-BFGS-B",
        options={"gtol": 1e-13, "ftol": 1e-16},
    ).x


def by_root_of_slope(p):
    return optimize.root(slope_of_objective, np.ones(3), args=(p,), tol=1e-13).x


@pytest.mark.parametrize("solve", [by_minimize, by_minimize_with_slope])
def test_a_minimum_is_a_root_of_the_slope(solve):
    p = np.array([0.5, 1.2, -0.3])
    weighed = lambda f: lambda p: np.sum(f(p) ** 2 * WEIGHTS)
    f, reference = weighed(solve), weighed(by_root_of_slope)
    np.testing.assert_array_equal(tg.compile(solve)(p), solve(p))
    # As exact as SciPy finds the minimum, from differences in the first case.
    np.testing.assert_allclose(tg.grad(f)(p), tg.grad(reference)(p), rtol=1e-5)
    pushed = tg.jvp(f, (p,), (WEIGHTS,))[1]
    np.testing.assert_allclose(pushed, tg.grad(f)(p) @ WEIGHTS, rtol=1e-10)
    made, want = tg.hessian(f)(p), tg.hessian(reference)(p)
    np.testing.assert_allclose(made, want, rtol=1e-4, atol=1e-4)


def test_the_least_value():
    p = np.array([0.5, 1.2, -0.3])
    least = lambda p: optimize.minimize(objective, np.ones(3), (p,), tol=1e-12).fun
    at_root = lambda p: objective(by_root_of_slope(p), p)
    np.testing.assert_allclose(tg.compile(least)(p), least(p))
    np.testing.assert_allclose(tg.grad(least)(p), tg.grad(at_root)(p), rtol=1e-5)


def test_the_minimum_of_a_function_of_one_number():
    f = lambda p: optimize.minimize_scalar(lambda r: (r - p) ** 2 + 0.1 * r**4).x
    x = f(0.7)
    np.testing.assert_allclose(tg.grad(f)(0.7), 2.0 / (2.0 + 1.2 * x**2), rtol=1e-6)


@pytest.mark.parametrize("jac", [True, False])
def test_least_squares(jac):
    t = np.linspace(0.0, 1.0, 6)
    y = np.exp(-0.7 * t) + 0.1 * np.cos(5.0 * t)  # no exact fit
    slopes = lambda k: np.stack([np.exp(-k[1] * t), -k[0] * t * np.exp(-k[1] * t)], 1)
    residuals = lambda k, y: k[0] * np.exp(-k[1] * t) - y

    def fitted(y):
        given = {"jac": lambda k, y: slopes(k)} if jac else {}
        return optimize.least_squares(
            residuals,
            [1.0, 1.0],
            args=(y,),
            xtol=1e-15,
            ftol=1e-15,
            gtol=1e-15,
            **given,
        ).x

    def by_root(y):
        normal = lambda k: slopes(k).T @ residuals(k, y)
        return optimize.root(normal, np.ones(2), tol=1e-14).x

    made, want = tg.jacobian(fitted)(y), tg.jacobian(by_root)(y)
    np.testing.assert_allclose(made, want, rtol=1e-5)


MINIMA = {
    "bounds=": lambda p: optimize.minimize(
        lambda r: (r[0] - p) ** 2, [0.0], bounds=[(0.0, 1.0)]
    ).x[0],
    "constraints=": lambda p: optimize.minimize(
        lambda r: (r[0] - p) ** 2,
        [0.0],
        constraints={"type": "eq", "fun": lambda r: r[0] - 1.0},
    ).x[0],
    "loss=": lambda p: optimize.least_squares(lambda r: r - p, [0.0], loss="huber").x[
        0
    ],
    "return one number": lambda p: optimize.minimize(lambda r: r - p, [0.0, 1.0]).x[0],
    r"`\.hess_inv`.*": lambda p: optimize.minimize(
        lambda r: (r[0] - p) ** 2, [0.0]
    ).hess_inv[0, 0],
}


@pytest.mark.parametrize("message", MINIMA)
def test_minima_that_are_refused(message):
    with pytest.raises(tg.TracegradError, match=message) as e:
        tg.grad(MINIMA[message])(0.5)
    assert "test_solvers.py" in str(e.value)
