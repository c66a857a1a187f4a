"""Branches and loops that join: one trace, right values, or left to Python."""

import functools
import importlib.util
import linecache
import re
import warnings

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.trace.demand import TraceWarning

RNG = np.random.default_rng(0)


def slope(f, x, step=1e-6):
    """Central differences of a function of one array."""
    x = np.asarray(x, dtype=float)
    flat = step * np.eye(x.size).reshape((x.size, *x.shape))
    found = [(f(x + e) - f(x - e)) / (2 * step) for e in flat]
    return np.reshape(found, x.shape)


def agrees(f, points, joined: bool | None = True, rtol: float = 1e-5):
    """Value and slope at several points; whether one trace was enough for all."""
    g = tg.value_and_grad(f)
    for x in points:
        value, d_x = g(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        np.testing.assert_allclose(d_x, slope(f, x), rtol=rtol, atol=1e-6)
    made = g.specializations()
    if joined is not None:
        assert (sum(len(m.paths) for m in made) == 1) == joined, made[0].unjoined
        assert bool(made[0].guarded) != joined
    return g


def relu(v):
    if v > 0:
        return v
    return 0.1 * v


def huber(v):
    if abs(v) <= 1.0:
        return 0.5 * v * v
    elif v > 0:
        return v - 0.5
    else:
        return -v - 0.5


# ------------------------------------------------------------------------------ joined
def one_armed(x):
    y = x * x
    if x > 0.3:
        y = y + x
    return y


def nested(x):
    y = np.sin(x)
    if x > 0.0:
        if y > 0.5:
            y = y * 2.0
        else:
            y = y - x
    elif x < -1.0:
        y = x * y
    return y + x


def with_and_or(x):
    if (x > 0.1 and x < 1.0) or not x > -1.0:
        return x**2
    return 3.0 * x


def not_computed_in_vain(x):
    """The second test would divide by zero."""
    if x != 0.0 and 1.0 / x > 0.5:
        return x * 2.0
    return x * 3.0


def chained(x):
    return x * 2.0 if -0.5 < x < 0.5 else x**2 * np.sign(x) * 4.0


def early_returns(x):
    return relu(x) + 2.0 * relu(x - 0.5) - huber(3.0 * x)


def ternaries(x):
    y = x if x > 0 else 0.0
    return y * (2.0 if x > 0.5 else 3.0) + max(x, 0.2, y) - min(0.1, x)


def two_locals(x):
    y, z = x, x * 2.0
    if x > 0:
        y = y * z
    else:
        z = y - z
    return y + z**2


def spare_names(x):
    if x > 0:
        t = x * 2.0
        y = t * t
    else:
        y = x
    return y


def loop_in_arm(x):
    y = x
    if x > 0:
        for k in range(3):
            y = y * 0.5 + k
    return y * x


SCALAR = [
    one_armed,
    nested,
    with_and_or,
    not_computed_in_vain,
    chained,
    early_returns,
    ternaries,
    two_locals,
    spare_names,
    loop_in_arm,
]


@pytest.mark.parametrize("f", SCALAR)
def test_joined(f) -> None:
    agrees(f, [0.7, -0.7, 0.25, -0.2, 1.7, -1.7, 0.05])


@pytest.mark.parametrize("f", SCALAR)
def test_transforms_of_joined(f) -> None:
    x = np.array([0.7, -0.7, 0.25, 1.7])
    slopes = np.array([slope(f, v) for v in x])
    np.testing.assert_allclose(tg.vmap(f)(x), [f(v) for v in x])
    np.testing.assert_allclose(tg.vmap(tg.grad(f))(x), slopes, rtol=1e-5, atol=1e-6)
    for v, d in zip(x, slopes, strict=True):
        np.testing.assert_allclose(tg.jvp(f, (v,), (1.0,))[1], d, rtol=1e-5, atol=1e-6)
        bend = slope(tg.grad(f, joins=False), v)
        np.testing.assert_allclose(tg.hessian(f)(v), bend, rtol=1e-5, atol=1e-5)


def test_lines_grow_with_the_ifs_not_with_the_ways() -> None:
    counts = []
    for k in (4, 8, 16):
        lines = ["def f(x):", "    y = x * 1.0"]
        for i in range(k):
            lines += [f"    if y > {i * 0.1}:", f"        y = y * 0.9 + {i}.0 * x"]
        space: dict = {}
        name = f"<ifs {k}>"
        text = "\n".join([*lines, "    return y"]) + "\n"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        exec(compile(text, name, "exec"), space)
        g = agrees(space["f"], [0.1, -0.4, 0.9])
        counts.append(len(str(g.source()).splitlines()))
    assert counts[2] - counts[1] == 2 * (counts[1] - counts[0])


# ------------------------------------------------------------------------------- loops
def newton(a):
    x = a
    step = 1.0
    while abs(step) > 1e-12:
        step = 0.5 * (a / x - x)
        x = x + step
    return x


def bounded(a):
    x, n = a, 0
    while abs(x * x - a) > 0.1 and n < 7:
        x = 0.5 * (x + a / x)
        n += 1
    return x + 0.1 * n


def first_turn_differs(a):
    previous = None
    x = a
    while x > 0.5:
        x = 0.5 * x if previous is None else 0.4 * x + 0.1 * previous
        previous = x
    return x


def forever(a):
    x = a
    while True:
        step = 0.5 * (a / x - x)
        if abs(step) < 1e-12:
            break
        x = x + step
    return x


def loop_in_loop(a):
    total, x = 0.0, a
    while x > 0.3:
        y = x
        while y > 0.4:
            y = y * 0.7
        total = total + y
        x = 0.6 * x
    return total


def adaptive_steps(x):
    """Heun's method, whose step grows and shrinks with the error."""
    y, t, h = x, 0.0, 0.3
    while t < 1.0:
        k1 = -2.0 * y**2
        k2 = -2.0 * (y + h * k1) ** 2
        if abs(0.5 * h * (k2 - k1)) < 0.02:
            y = y + 0.5 * h * (k1 + k2)
            t = t + h
            h = min(h * 1.5, 1.0 - t) if t < 1.0 else h
        else:
            h = max(0.5 * h, 1e-4)
    return y


@pytest.mark.parametrize("f", [newton, bounded, forever, loop_in_loop, adaptive_steps])
def test_loops(f) -> None:
    agrees(f, [2.2, 5.3, 0.9, 33.0])


def test_a_first_turn_that_differs_is_taken_alone() -> None:
    g = agrees(first_turn_differs, [2.2, 5.1, 33.0], joined=None)
    assert str(g.source()).count("while") >= 1
    assert len(g.specializations()[0].paths) == 1


def test_an_int_that_counts_ends_the_loop() -> None:
    """What was traced for five turns must not run past the bound."""

    def f(x, tolerance):
        n = 0
        while abs(x) > tolerance and n < 60:
            x = 0.999 * x
            n += 1
        return x * n

    g = tg.compile(f)
    for tolerance in (0.9, 0.0, 0.99):
        np.testing.assert_allclose(g(1.0, tolerance), f(1.0, tolerance))


def test_arrays_in_loops() -> None:
    def doubled(x):
        y = x
        while np.linalg.norm(y) < 100.0:
            y = y * 2.0
        return np.sum(y)

    def in_place(x):
        y = x * 1.0
        view = y[1:]
        while np.sum(y * y) > 0.5:
            y *= 0.7
            y[0] = y[0] + 0.01 * view[0]
        return np.sum(y) + view @ view

    for f in (doubled, in_place):
        agrees(f, [RNG.normal(size=3) for _ in range(4)])


def test_an_if_in_a_python_loop_stays_one() -> None:
    def f(x):
        total = 0.0
        for i in range(len(x)):
            if x[i] > 0:
                total = total + x[i] ** 2
            else:
                total = total - 0.5 * x[i]
        return total

    counts = []
    for n in (6, 30):
        g = agrees(f, [RNG.normal(size=n) for _ in range(2)])
        counts.append(len(str(g.source()).splitlines()))
    assert counts[0] == counts[1] < 45


# ---------------------------------------------------------------------- stores in arms
def test_stores_in_arms() -> None:
    def f(x):
        out = np.zeros(3)
        view = out[::-1]
        for i in range(3):
            if x[i] > 0.0:
                out[i] = x[i] ** 2
            else:
                view[i] += x[i]
        return out @ x + view[0]

    agrees(f, [RNG.normal(size=3) for _ in range(8)])


def test_a_write_behind_an_alias_that_depends_on_the_arm() -> None:
    def f(x):
        a = x * 1.0
        b = a if x[0] > 0 else a * 2.0
        b[1] = 3.0 * x[2]
        return np.sum(a * a) + np.sum(b)

    agrees(f, [RNG.normal(size=3) for _ in range(6)], joined=False)


def test_a_view_read_in_one_arm_only() -> None:
    """It was stale, and is read anew in an arm: that reading is not for the others."""

    def f(x):
        a = x * 1.0
        view = a[1:]
        a[1] = x[0]
        y = x[0]
        if x[0] > 0:
            y = y * view[0]
        if x[1] > 0:
            y = y + view[0]
        return y + np.sum(view)

    agrees(f, [RNG.normal(size=3) for _ in range(8)])


# ---------------------------------------------------------------------- left to Python
def test_what_is_not_proved_is_left_to_python() -> None:
    def ints(x):
        n = 1 if x > 0 else 2
        return x * n

    def texts(x):
        key = "up" if x > 0 else "down"
        return {"up": x, "down": -x * 2.0}[key]

    def lists(x):
        found = []
        if x > 0:
            found.append(x)
        return x * len(found)

    def raises(x):
        try:
            if x > 0.0:
                raise ValueError("positive")
            return x * x
        except ValueError:
            return x * 3.0

    def iterators(x):
        numbers = iter([2.0, 3.0])
        if x > 0:
            x = x * next(numbers)
        return x * next(numbers)

    for f in (ints, texts, lists, raises, iterators):
        agrees(f, [0.7, -0.7, 1.0], joined=False)


def test_identity_that_depends_on_the_arm() -> None:
    def f(x):
        y = x * 1.0
        z = y
        if x > 0:
            z = y * 1.0
        return 2.0 * x if z is y else 3.0 * x

    def g(x):
        y = x * 1.0
        z = y if x > 0 else y * 1.0
        if z is not y:
            return 2.0 * x
        return 3.0 * x

    for function in (f, g):
        agrees(function, [0.7, -0.7], joined=False)


def test_python_numbers_that_a_branch_or_loop_makes() -> None:
    def kind(x):
        y = 1.5 if x > 0 else x * 1.0
        return 2.0 * x if isinstance(y, float) else 3.0 * x

    def key(x):
        n = 0
        y = x
        while abs(y) > 0.3 and n < 9:
            y = 0.5 * y
            n += 1
        return x * {0: 2.0, 1: 3.0, 2: 4.0}.get(n, 5.0)

    def index(x):
        n = 0
        y = x
        while abs(y) > 0.3 and n < 9:
            y = 0.5 * y
            n += 1
        return x * [2.0, 3.0, 4.0, 5.0][n] + sum(range(n)) * x

    def inside(x):
        n = 0
        y = x
        while abs(y) > 0.3 and n < 9:
            y = {0: 0.5, 2: 0.9}.get(n, 0.7) * y
            n += 1
        return y

    for f in (kind, key, index, inside):
        g = tg.compile(f)
        for x in (0.1, 0.5, -0.7, 2.0):
            np.testing.assert_allclose(g(x), f(x))


def test_containers_that_arms_return() -> None:
    def fresh(x):
        def parts(v):
            if v > 0:
                return {"a": v, "b": [v * 2.0, 1.0]}
            return {"a": -v, "b": [v, 2.0]}

        found = parts(x)
        found["a"] = found["a"] * 2.0
        return found["a"] + found["b"][0] * found["b"][1]

    agrees(fresh, [0.7, -0.7])

    def held(x):
        first, second = [x], [x * 2.0]

        def pick(v):
            if v > 0:
                return first
            return second

        pick(x)[0] = 3.0 * x * x
        return first[0] + 5.0 * second[0]

    agrees(held, [0.7, -0.7], joined=False)


def test_recursion_ends() -> None:
    def shrink(v):
        if abs(v) < 0.5:
            return v
        return shrink(0.5 * v)

    g = tg.value_and_grad(lambda x: shrink(x) * 3.0)
    for x in (0.2, 3.0, 0.7, -5.0):
        turns = max(0, int(np.ceil(np.log2(abs(x) / 0.5))))
        np.testing.assert_allclose(g(x)[0], 3.0 * x * 0.5**turns)
        np.testing.assert_allclose(g(x)[1], 3.0 * 0.5**turns)


def test_reasons() -> None:
    def f(x):
        found = []
        if x > 0:
            found.append(x)
        return x * len(found)

    g = tg.grad(f)
    g(1.0)
    (why,) = g.specializations()[0].unjoined.items()
    assert re.fullmatch(r"test_joins\.py:\d+: `if x > 0:`", why[0])
    assert why[1] == "it calls list.append"


def test_no_effect_of_an_arm_that_is_not_taken() -> None:
    log: list[str] = []

    def noisy(v):
        log.append("called")
        return v

    def f(x):
        if x > 0:
            y = noisy(x)
        else:
            y = x * 2.0
        return y

    assert tg.grad(f)(-1.0) == 2.0
    assert log == []


def test_an_arm_without_a_derivative() -> None:
    """An arm that is never taken needs no rule."""
    special = pytest.importorskip("scipy.special")

    def f(x):
        if x > 100.0:
            y = special.jv(x, 2.0)  # no derivative in the order
        else:
            y = x * x
        return y

    assert tg.grad(f)(3.0) == 6.0


def test_edited_source_is_left_alone(tmp_path) -> None:
    path = tmp_path / "edited.py"
    path.write_text("def f(x):\n    return x * 2.0 if x > 0 else x\n")
    spec = importlib.util.spec_from_file_location("edited", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path.write_text("def f(x):\n    return x * 3.0 if x > 0 else x\n")
    g = tg.value_and_grad(module.f)
    assert g(1.5) == (3.0, 2.0)
    assert g(-1.5) == (-1.5, 1.0)


# ----------------------------------------------------------------------------- callers
class Model:
    scale = 2.0

    def act(self, v):
        return v * self.scale if v > 0 else v

    @tg.grad
    def loss(self, x):
        return self.act(x) ** 2


def test_methods_closures_partials() -> None:
    model = Model()
    assert model.loss(1.5) == pytest.approx(12.0)
    assert model.loss(-1.5) == pytest.approx(-3.0)
    model.scale = 3.0
    assert model.loss(1.5) == pytest.approx(27.0)

    factor = 2.0

    def inner(v, power, *, offset=0.0):
        if v > 1.0:
            return v**power * factor + offset
        return v + offset

    g = tg.grad(functools.partial(inner, power=3, offset=1.0))
    assert g(2.0) == pytest.approx(24.0)
    assert g(0.5) == 1.0
    factor = 4.0
    assert g(2.0) == pytest.approx(48.0)


class Layer:
    def __init__(self, slope):
        self.slope = slope

    def __call__(self, v):
        return v if v > 0 else self.slope * v


def test_objects_that_are_called() -> None:
    layers = [Layer(0.1), Layer(0.3)]

    def f(x):
        for layer in layers:
            x = layer(x - 0.2)
        if x > 0.5:
            x = layers[0](-x)
        return x

    agrees(f, [0.7, -0.7, 1.5])
    agrees(Layer(0.2), [0.7, -0.7])


def test_nested_gradients() -> None:
    def inner(v):
        return v**3 if v > 0 else v**2

    def outer(x):
        y = tg.grad(inner)(x)
        return y * x if y > 1.0 else -y

    for x in (1.0, 0.1, -1.0):
        want = 9.0 * x**2 if x == 1.0 else -6.0 * x if x > 0 else -2.0
        np.testing.assert_allclose(tg.grad(outer)(x), want)


def test_types_alone() -> None:
    source = tg.grad(nested).source(tg.spec("f8[]"))
    assert "UntracedBranch" not in str(source)
    f = source.load()["nested_grad"]
    for x in (0.7, -0.7, 0.2, -1.7):
        np.testing.assert_allclose(f(x), slope(nested, x), rtol=1e-5)


def test_saved_file(tmp_path) -> None:
    path = tg.value_and_grad(newton).source(4.0).save(tmp_path / "saved.py")
    spec = importlib.util.spec_from_file_location("saved", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    np.testing.assert_allclose(module.newton_value_and_grad(1e6), (1e3, 5e-4))
    assert "UntracedBranch" not in path.read_text()


def test_jax_says_what_was_not_joined() -> None:
    pytest.importorskip("jax")

    def f(x):
        found = []
        if x > 0:
            found.append(x)
        return x * len(found)

    with pytest.raises(tg.ControlFlowError, match=r"it calls list\.append") as caught:
        tg.grad(f, backend="jax")(1.0)
    assert re.search(r"at:  test_joins.py:\d+: if x > 0:", str(caught.value))


def test_jax() -> None:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        for f in (nested, early_returns, two_locals):
            g = tg.value_and_grad(f, backend="jax")
            for x in (0.7, -0.7, 1.7):
                value, d_x = g(x)
                np.testing.assert_allclose(value, f(x))
                np.testing.assert_allclose(d_x, slope(f, x), rtol=1e-5)
            assert "lax.cond" in str(g.source())
        g = tg.compile(newton, backend="jax")
        np.testing.assert_allclose(g(9.0), 3.0)
        assert "lax.while_loop" in str(g.source())
        np.testing.assert_allclose(tg.jvp(newton, (4.0,), (1.0,))[1], 0.25)


# ------------------------------------------------------------- written as plain loops
def conjugate_gradient(b):
    A = np.diag(np.arange(1.0, 6.0)) + 0.1
    x = np.zeros(5)
    r = b - A @ x
    p = r.copy()
    rs = r @ r
    n = 0
    while rs > 1e-20 and n < 50:
        Ap = A @ p
        alpha = rs / (p @ Ap)
        x += alpha * p
        r -= alpha * Ap
        new = r @ r
        p = r + (new / rs) * p
        rs = new
        n += 1
    return x @ x


def cholesky(a):
    n = 3
    A = np.outer(a, a) + np.eye(n) * 2.0
    L = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            s = A[i, j] - L[i, :j] @ L[j, :j]
            if i == j:
                L[i, i] = np.sqrt(s)
            else:
                L[i, j] = s / L[j, j]
    return np.sum(L * L[::-1])


def thomas(d):
    n = len(d)
    a, b, c = -np.ones(n), 2.5 * np.ones(n), -np.ones(n)
    c2, d2 = np.zeros(n), np.zeros(n)
    c2[0] = c[0] / b[0]
    d2[0] = d[0] / b[0]
    for i in range(1, n):
        m = b[i] - a[i] * c2[i - 1]
        c2[i] = c[i] / m
        d2[i] = (d[i] - a[i] * d2[i - 1]) / m
    x = np.zeros(n)
    x[-1] = d2[-1]
    for i in reversed(range(n - 1)):
        x[i] = d2[i] - c2[i] * x[i + 1]
    return np.sum(x**2)


def cumulative_filter(x):
    out = np.empty(len(x))
    out[0] = x[0]
    for i in range(1, len(x)):
        out[i] = 0.7 * out[i - 1] + 0.3 * x[i]
        if out[i] > 0.5:
            out[i] = 0.5 + 0.1 * (out[i] - 0.5)
    return np.sum(out**2)


def red_black(f):
    u = np.zeros((4, 4))
    for _ in range(3):
        for colour in (0, 1):
            for i in (1, 2):
                for j in (1, 2):
                    if (i + j) % 2 == colour:
                        near = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
                        u[i, j] = 0.25 * (near + f[i, j])
    return np.sum(u**2)


@pytest.mark.parametrize(
    ("f", "shape", "joined"),
    [
        (conjugate_gradient, 5, True),
        (cholesky, 3, True),
        (thomas, 6, True),
        (cumulative_filter, 6, True),
        (red_black, (4, 4), True),
    ],
)
def test_solvers_written_as_plain_loops(f, shape, joined) -> None:
    agrees(f, [RNG.normal(size=shape) + 0.5 for _ in range(3)], joined, rtol=1e-4)


# ------------------------------------------------------------------------ nothing stale
def test_defaults_that_are_bound_anew() -> None:
    def f(x, power=2):
        return x**power

    g = tg.grad(f)
    assert g(3.0) == 6.0
    f.__defaults__ = (3,)
    assert g(3.0) == 27.0

    def helper(v, scale=2.0, *, shift=1.0):
        return v * scale + shift * v

    h = tg.grad(lambda x: helper(x))
    assert h(1.0) == 3.0
    helper.__defaults__ = (5.0,)
    assert h(1.0) == 6.0
    helper.__kwdefaults__ = {"shift": 2.0}
    assert h(1.0) == 7.0


def test_printing_warns_once(capsys) -> None:
    def f(x):
        print(x)
        y = x * 2.0
        print(f"{y} of {x:.2f}")
        return y if x > 0 else x + 0.0

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        g = tg.grad(f)
        assert [g(1.0), g(-1.0), g(2.0)] == [2.0, 1.0, 2.0]
    assert [w.category for w in caught] == [TraceWarning]
    assert "1.0" in capsys.readouterr().out


def kept_for_the_test(x):
    best, turn, total, y = 0.0, 0, 0.0, x
    while turn < 6.5 + 0.0 * x:
        y = np.sin(y) * 1.5
        if abs(y - best) > 1e-2:
            total = total + y
            best = y
        turn += 1
    return total


def power_iteration(x):
    v, before = np.ones(2), 0.0
    matrix = np.array([[2.0 + x, 0.5], [0.5, 1.0]])
    for k in range(60):  # noqa: B007
        w = matrix @ v
        length = np.linalg.norm(w)
        v = w / length
        if abs(length - before) < 1e-7:
            break
        before = length
    return length + k


@pytest.mark.parametrize("f", [kept_for_the_test, power_iteration])
def test_what_only_a_test_reads_goes_to_the_next_turn(f):
    g = tg.value_and_grad(f)
    for x in (1.3, 0.4, 2.2):
        value, slope = g(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-14)
        want = (f(x + 1e-6) - f(x - 1e-6)) / 2e-6
        np.testing.assert_allclose(slope, want, rtol=1e-5)
