"""Names swapped in the user's modules while a trace runs."""

import builtins
import importlib
import linecache
import math
import sys
import threading
import time
import types

import numpy as np
import numpy.linalg as la
import pytest
import scipy.integrate
import scipy.optimize
import scipy.special
from numpy import zeros as make_zeros
from scipy.special import logsumexp

import tracegrad as tg
from tracegrad.ops.define import ACCEPT
from tracegrad.trace.interpose import stand_in
from tracegrad.trace.tracer import active

X = np.array([0.5, -1.5, 2.0])
ORIGINAL = {
    "np": np,
    "math": math,
    "la": la,
    "make_zeros": make_zeros,
    "logsumexp": logsumexp,
    "scipy": scipy,
}


def unchanged(space: dict) -> bool:
    return all(space[name] is value for name, value in ORIGINAL.items())


def module(name: str, text: str) -> types.ModuleType:
    """A user module made of text."""
    made = types.ModuleType(name)
    exec(compile(text, f"{name}.py", "exec"), made.__dict__)
    return made


def test_swapped_and_restored(traced, check) -> None:
    """Modules, functions by name, and nested modules."""
    seen = []

    def f(x):
        seen.append(unchanged(globals()))
        out = make_zeros(3)
        out[0] = logsumexp([x[0], x[1]])
        out[1] = scipy.special.expit(x[2]) + la.norm([x[0], 2.0])
        return out * math.exp(x[0])

    check(f, X)
    assert seen[0] is False
    assert unchanged(globals())


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit])
def test_restored_after_any_exception(traced, kind) -> None:
    def f(x):
        raise kind

    with pytest.raises(kind):
        traced(f, X)
    assert unchanged(globals())
    assert not active()


def test_module_met_in_mid_trace(check) -> None:
    """A helper elsewhere is swapped too, by starting again."""
    other = module(
        "other",
        "from numpy import zeros as zz\nimport math as m\n"
        "def helper(x):\n    out = zz(3)\n    out[1] = m.sin(x[0] * 1.0)\n"
        "    return out\n",
    )
    calls = []

    def f(x):
        calls.append(1)
        return other.helper(x) * 2.0

    run = check(f, X)
    assert len(calls) == 3  # twice traced, once by NumPy
    assert type(other.zz) is type(np.zeros)
    assert other.zz is np.zeros
    assert run.ops.count("zeros") == 1


def test_names_bound_anew_are_kept(traced) -> None:
    """What the user assigns to a swapped name meanwhile stays."""
    text = "import numpy as np\n\ndef f(x):\n    global np\n    np = 3\n    return x\n"
    other = module("other", text)
    traced(other.f, X)
    assert other.np == 3


def test_stand_ins_are_like_the_originals(traced) -> None:
    seen = {}

    def f(x):
        seen["equal"] = np.sin == ORIGINAL["np"].sin and hash(np.sin) == hash(SIN)
        seen["table"] = {SIN: 1}.get(np.sin)
        seen["types"] = isinstance(np.sin, np.ufunc), isinstance(np, types.ModuleType)
        seen["attributes"] = (
            np.sin.__name__,
            np.sin.nin,
            np.pi,
            np.float64,
            np.newaxis,
        )
        seen["dtype"] = np.dtype("f4")
        seen["reduce"] = np.add.reduce([1, 2])
        return x

    SIN = np.sin
    traced(f, X)
    assert seen["equal"] is True
    assert seen["table"] == 1
    assert seen["types"] == (True, True)
    assert seen["attributes"] == ("sin", 1, np.pi, np.float64, None)


def test_a_stand_in_kept_works_afterwards(traced) -> None:
    kept = []

    def f(x):
        kept.extend([np.sin, np, np.add.reduce, np.zeros])
        return x

    traced(f, X)
    sin, module_, reduce, zeros = kept
    assert sin(0.5) == np.sin(0.5)
    assert module_.cos(0.5) == np.cos(0.5)
    assert reduce([1, 2]) == 3
    assert type(zeros(2)) is np.ndarray


def test_nested_traces(traced) -> None:
    """A trace in a trace leaves the outer one working."""

    def inner(y):
        return np.sum(np.zeros(3) + y)

    def f(x):
        traced(inner, X)
        out = np.zeros(3)
        out[0] = x[0]
        return out

    np.testing.assert_allclose(traced(f, X).value(), [0.5, 0.0, 0.0])


def test_two_threads_trace_and_one_does_not(traced) -> None:
    """Threads do not see one another."""
    wrong: list = []
    done = threading.Event()

    def f(x, k):
        out = np.zeros(3)
        for i in range(3):
            out[i] = math.exp(x[i]) * k
            time.sleep(0)
        return np.sum(out)

    def work(k):
        try:
            for _ in range(30):
                found = traced(f, X, k).value()
                if abs(found - np.exp(X).sum() * k) > 1e-9:
                    wrong.append(found)
        except BaseException as error:
            wrong.append(error)

    def stand_by():
        while not done.is_set():
            a = np.zeros(3)
            if type(a) is not np.ndarray or math.exp(0.0) != 1.0:
                wrong.append(a)
            a[0] = np.sum([1.0, 2.0])
            if type(make_zeros(2)) is not np.ndarray or len([1]) != 1:
                wrong.append("name")

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(k,)) for k in (1.0, 2.0)]
        other = threading.Thread(target=stand_by)
        for t in (other, *threads):
            t.start()
        for t in threads:
            t.join()
        done.set()
        other.join()
    finally:
        sys.setswitchinterval(before)
    assert wrong == []
    assert unchanged(globals())


def test_libraries_are_not_touched(traced) -> None:
    """C code that looks names up in NumPy finds the real ones."""
    rng = np.random.default_rng(0)
    seen = []

    def f(x):
        seen.append(sys.modules["numpy"].zeros is original[0])
        seen.append(type(np.random.default_rng(1).normal(size=3)) is np.ndarray)
        return x

    original = [np.zeros]  # a name of its own would be swapped
    traced(f, X)
    assert seen == [True, True]
    assert rng is not None


@pytest.mark.parametrize(
    "solve",
    [
        lambda f: scipy.integrate.quad_vec(f, 0.0, 3.0)[0],
        lambda f: scipy.integrate.nquad(f, [[0.0, 3.0]])[0],
        # These only compare what they are given: the result would be a constant.
        lambda f: scipy.optimize.golden(f, brack=(0.0, 3.0)),
        lambda f: scipy.optimize.bracket(f)[0],
        lambda f: scipy.optimize.fminbound(f, 0.0, 3.0),
        lambda f: scipy.optimize.fmin(lambda t: f(t)[0], np.zeros(1), disp=False)[0],
        # This one calls back from C.
        lambda f: scipy.optimize.leastsq(f, np.zeros(1))[0][0],
        lambda f: scipy.optimize.basinhopping(lambda t: f(t)[0], np.zeros(1)).x[0],
        lambda f: scipy.optimize.curve_fit(
            lambda t, a: a + f(t), np.arange(3.0), np.arange(3.0)
        )[0][0],
    ],
)
def test_a_solver_that_calls_back_names_itself(solve) -> None:
    """A solver of SciPy that is given traced values by the user's function."""
    with pytest.raises(tg.UnsupportedError, match=r"rule yet for scipy\.") as e:
        tg.grad(lambda x: solve(lambda t: t**2 - x))(2.0)
    assert "test_interpose.py" in str(e.value)


# ------------------------------------------------------------------ what has which type
def by_array(x):
    return np.sum(x**2) if type(x) is np.ndarray else 0.0


def by_name(x):
    return np.sum(x**2) if type(x).__name__ == "ndarray" else 0.0


def by_number(x):
    return x[0] ** 2 if type(np.sum(x)) is np.float64 else 0.0


def by_memory(x):
    return np.sum(x**2) if hasattr(x, "__array_interface__") else 0.0


def by_no_attribute(x):
    return 0.0 if hasattr(x, "value") or hasattr(x, "builder") else np.sum(x**2)


class Box:
    def __init__(self, x):
        self.x = x


def by_other_uses(x):
    fine = isinstance(Box, type) and not isinstance(x, (type, str))
    fine = fine and issubclass(type(Box), type) and issubclass(bool, int)
    three = 3
    fine = fine and type(three) is int and type(np) is not type(np.sin)
    made = type("Made", (Box,), {"scale": 2.0})(x)
    return np.sum(made.scale * type(made)(made.x).x) if fine else 0.0


@pytest.mark.parametrize("joins", [True, False])
@pytest.mark.parametrize(
    "f", [by_array, by_name, by_number, by_memory, by_no_attribute, by_other_uses]
)
def test_type_and_hasattr_answer_as_for_numpy(f, joins):
    step = 1e-6 * np.eye(3)
    slope = [(f(X + h) - f(X - h)) / 2e-6 for h in step]
    assert np.any(slope)
    np.testing.assert_allclose(tg.grad(f, joins=joins)(X), slope, rtol=1e-8)
    assert "type" not in globals() and "hasattr" not in globals()


def test_type_of_a_python_number():
    def f(x):
        return x**2 if type(x) == float else 0.0  # noqa: E721

    assert tg.grad(f)(3.0) == 6.0


def test_type_from_types_alone():
    assert "2.0 * x" in str(tg.grad(by_array).source(tg.spec("f8[n]")))


def helper(text, monkeypatch):
    """A user module with source."""
    lines = text.splitlines(keepends=True)
    entry = len(text), None, lines, "asking.py"
    monkeypatch.setitem(linecache.cache, "asking.py", entry)
    return module("asking", text)


def test_type_in_a_module_that_computes_nothing(monkeypatch):
    text = "import numpy as np\ndef ask(x):\n    return type(x) is np.ndarray\n"
    made = helper(text, monkeypatch)
    ask = made.ask
    f = tg.grad(lambda x: np.sum(x**2) if ask(x) else 0.0)
    np.testing.assert_array_equal(f(X), 2 * X)
    assert "type" not in vars(made)


@pytest.mark.parametrize(
    "use",
    ["class Meta(type): pass", "made = type[int]", "same = type(int) is type"],
)
def test_type_is_left_alone_where_no_stand_in_does(use, monkeypatch):
    text = f"def f(x):\n    {use}\n    seen.append(type)\n    return x * x\nseen = []\n"
    made = helper(text, monkeypatch)
    assert tg.grad(made.f)(3.0) == 6.0
    assert all(found is builtins.type for found in made.seen)


# ---------------------------------------------------------------- imports in functions
def exp_inside(x):
    from math import exp

    return exp(x[0]) * np.sum(x)


def math_inside(x):
    import math as m

    return m.sin(x[0]) * x[1]


def numpy_inside(x):
    import numpy
    from numpy import array

    return numpy.sum(numpy.array([x[0], x[1]]) * array([x[1], x[2]]))


def solve_inside(x):
    import scipy.linalg as dense
    from scipy.linalg import solve

    a = 2.0 * np.eye(3) + 0.5
    return np.sum(solve(a, x) ** 2) + np.sum(dense.solve(a, x**2))


def density_inside(x):
    from scipy.stats import norm

    return np.sum(norm.pdf(x))


def other_inside(x):
    import string
    import xml.etree.ElementTree as tree

    return np.sum(x**2) if string.digits and tree.Element("a").tag == "a" else 0.0


@pytest.mark.parametrize("joins", [True, False])
@pytest.mark.parametrize(
    "f",
    [
        *(exp_inside, math_inside, numpy_inside, solve_inside, density_inside),
        other_inside,
    ],
)
def test_imports_inside_of_functions(f, joins):
    before = builtins.__import__
    step = 1e-6 * np.eye(3)
    slope = [(f(X + h) - f(X - h)) / 2e-6 for h in step]
    got = tg.grad(f, joins=joins)(X)
    np.testing.assert_allclose(got, slope, rtol=1e-7, atol=1e-8)
    assert builtins.__import__ is before


def test_an_import_that_fails_inside_of_a_function():
    def f(x):
        try:
            import no_such_module_here
        except ImportError:
            return x * x
        return no_such_module_here

    before = builtins.__import__
    assert tg.grad(f)(3.0) == 6.0
    assert builtins.__import__ is before


def test_a_hook_that_is_set_while_tracing_stays():
    seen = []

    def f(x):
        ours = builtins.__import__

        def theirs(name, *args, **kwargs):
            seen.append(name)
            return ours(name, *args, **kwargs)

        builtins.__import__ = theirs
        return x * x

    before = builtins.__import__
    try:
        assert tg.grad(f)(3.0) == 6.0
        assert builtins.__import__ is not before
        np.testing.assert_allclose(tg.grad(exp_inside)(X)[1], np.exp(X[0]))
        assert "math" in seen
    finally:
        builtins.__import__ = before
    np.testing.assert_allclose(tg.grad(math_inside)(X)[1], np.sin(X[0]))


def test_what_takes_a_call_of_scipy_is_found_by_what_users_call():
    """Each function with a rule has a stand-in, whatever type of object it is."""
    for spelling in [key for key in ACCEPT if type(key) is str]:
        module, _, name = spelling.partition(":")
        function = getattr(importlib.import_module(module), name, None)
        if function is not None:  # not a method of a distribution
            assert stand_in(function) is not function, spelling
