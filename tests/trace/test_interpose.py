"""Names swapped in the user's modules while a trace runs."""

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
        lambda f: scipy.optimize.minimize_scalar(f, (0.0, 3.0)).x,
        lambda f: scipy.optimize.minimize(lambda t: f(t)[0], np.zeros(1)).x[0],
    ],
)
def test_a_solver_that_calls_back_names_itself(solve) -> None:
    """A solver of SciPy that is given traced values by the user's function."""
    with pytest.raises(tg.UnsupportedError, match=r"rule yet for scipy\.") as e:
        tg.grad(lambda x: solve(lambda t: t**2 - x))(2.0)
    assert "test_interpose.py" in str(e.value)
