"""The text of the errors that a wrong use of the compiled functions gives."""

import numpy as np
import pytest

import tracegrad as tg


def vector(x):
    return x * 2.0


def nothing(x):
    np.sum(x)


def pair(x):
    return np.sum(x), x


def count(x):
    return np.sum(x > 0)


def wave(x):
    return np.sum(x * 1j)


def total(x):
    return np.sum(x)


X = np.array([1.0, 2.0])


def text_of(call, error) -> str:
    """The message of the error that `call` raises."""
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, tg.TracegradError)
    return str(caught.value)


CASES = [
    (
        lambda: tg.grad(vector)(X),
        ValueError,
        """\
a gradient needs a scalar result, but the function returned an array of type f8[2]
  in:  tg.grad
  at:  test_errors.py:9: def vector(x):
  fix: return np.sum(...) or np.mean(...) of it, or use tg.vjp""",
    ),
    (
        lambda: tg.value_and_grad(nothing)(X),
        TypeError,
        """\
nothing() returned None
  in:  tg.value_and_grad
  at:  test_errors.py:13: def nothing(x):
  fix: return an array or a scalar (is a return statement missing?)""",
    ),
    (
        lambda: tg.compile(nothing)(X),
        TypeError,
        """\
nothing() returned None
  in:  tg.compile
  at:  test_errors.py:13: def nothing(x):
  fix: return an array or a scalar (is a return statement missing?)""",
    ),
    (
        lambda: tg.grad(pair)(X),
        ValueError,
        """\
a gradient needs a function that returns one scalar, not a tuple of 2
  in:  tg.grad
  at:  test_errors.py:17: def pair(x):
  fix: return a scalar; for more results use has_aux=True or tg.vjp""",
    ),
    (
        lambda: tg.grad(total, has_aux=True)(X),
        TypeError,
        """\
with has_aux=True the function must return a pair (value, aux), not one array of type \
f8[]
  in:  tg.grad
  at:  test_errors.py:29: def total(x):
  fix: return value, aux""",
    ),
    (
        lambda: tg.grad(count)(X),
        TypeError,
        """\
a gradient needs a real result, but the function returned i8[]
  in:  tg.grad
  at:  test_errors.py:21: def count(x):
  fix: return a float""",
    ),
    (
        lambda: tg.grad(wave)(X),
        TypeError,
        """\
a gradient needs a real result, but the function returned c16[]
  in:  tg.grad
  at:  test_errors.py:25: def wave(x):
  fix: return its real part or abs(...) of it, or pass holomorphic=True""",
    ),
    (
        lambda: tg.grad(total)(np.arange(3)),
        TypeError,
        """\
`x` is differentiated but has the integer type int64
  in:  tg.grad
  at:  test_errors.py:29: def total(x):
  fix: pass a float array: x.astype(float)""",
    ),
    (
        lambda: tg.grad(total)(3),
        TypeError,
        """\
`x` is differentiated but has the integer type int64
  in:  tg.grad
  at:  test_errors.py:29: def total(x):
  fix: pass a float: float(x)""",
    ),
    (
        lambda: tg.grad(total)("abc"),
        TypeError,
        """\
`x` is differentiated but is of type str: 'abc'
  in:  tg.grad
  at:  test_errors.py:29: def total(x):
  fix: differentiate arrays and floats only: choose them with argnums""",
    ),
    (
        lambda: tg.grad(total, argnums=3)(X),
        TypeError,
        """\
argnums=3 is out of range: total() was called with 1 positional argument
  in:  tg.grad
  at:  test_errors.py:29: def total(x):
  fix: count from 0; name a keyword argument with argnames""",
    ),
    (
        lambda: tg.grad(total, argnames="y")(X),
        TypeError,
        """\
argnames names 'y', but total() has the arguments x
  in:  tg.grad
  at:  test_errors.py:29: def total(x):
  fix: name one of them""",
    ),
    (
        lambda: tg.grad(total)(X, X),
        TypeError,
        """\
total() cannot be called so: too many positional arguments
  in:  tg.grad
  at:  test_errors.py:29: def total(x):
  fix: call it as total(x)""",
    ),
    (
        lambda: tg.compile(total)({1, 2}),
        TypeError,
        """\
`x` is a set, which is neither an array, nor a container of arrays, nor hashable: an \
unhashable static argument
  in:  tg.compile
  at:  test_errors.py:29: def total(x):
  fix: pass a tuple or a frozenset, or register the class with \
optree.register_pytree_node""",
    ),
    (
        lambda: tg.grad(total)(np.array([1.0, None])),
        TypeError,
        """\
`x` is an array of dtype object, not of numbers
  in:  tg.grad
  at:  test_errors.py:29: def total(x):
  fix: pass x.astype(float), or a list of arrays""",
    ),
    (
        lambda: tg.grad(3),
        TypeError,
        """\
tg.grad takes a function, not int: 3
  in:  tg.grad
  fix: pass the function first, and options by keyword""",
    ),
    (
        lambda: tg.grad(total, argnums=1.0),
        TypeError,
        """\
argnums=1.0 is not possible here
  in:  tg.grad
  fix: pass an int or a tuple of ints""",
    ),
    (
        lambda: tg.grad(total, argnums=()),
        TypeError,
        """\
argnums=() is not possible here
  in:  tg.grad
  fix: pass an int or a tuple of ints""",
    ),
    (
        lambda: tg.grad(total, argnums=1, argnames="x"),
        TypeError,
        """\
argnums=1 is not possible here
  in:  tg.grad
  fix: give argnums or argnames, not both""",
    ),
    (
        lambda: tg.compile(total, backend="torch"),
        TypeError,
        """\
backend='torch' is not known
  in:  tg.compile
  fix: use 'numpy' or 'jax'""",
    ),
    (
        lambda: tg.grad(total, optimize=3),
        TypeError,
        """\
optimize=3 is not possible here
  in:  tg.grad
  fix: use 'readable' or 'fast'""",
    ),
    (
        lambda: tg.vjp(total, 1),
        TypeError,
        """\
`x` is differentiated but has the integer type int64
  in:  tg.vjp
  at:  test_errors.py:29: def total(x):
  fix: pass a float: float(x)""",
    ),
    (
        lambda: tg.vjp(3, X),
        TypeError,
        """\
tg.vjp takes a function, not int: 3
  in:  tg.vjp
  fix: pass the function first, and options by keyword""",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[str(i) for i in range(len(CASES))])
def test_text(case) -> None:
    call, error, wanted = case
    assert text_of(call, error) == wanted


def test_the_same_error_at_every_call() -> None:
    g = tg.grad(vector)
    assert text_of(lambda: g(X), ValueError) == text_of(lambda: g(X), ValueError)
    assert g.specializations() == []


def test_wrong_call_after_a_right_one() -> None:
    g = tg.grad(total)
    g(X)
    with pytest.raises(TypeError, match=r"total\(\) takes 1 positional argument"):
        g(X, X)
    with pytest.raises(TypeError, match=r"total\(\) missing 1 required"):
        g()


def test_traceback_shows_the_generated_line() -> None:
    import traceback

    def f(x, y):
        return np.sum(x @ y)

    g = tg.grad(f)
    g(np.ones(3), np.ones(3))
    run = g.specializations()[0].run
    try:
        run(np.ones(3), np.ones(4))
    except ValueError as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        assert frame.filename.startswith("<tracegrad f_grad")
        assert frame.name == "f_grad"
        assert frame.line
    else:
        run(np.ones(3), np.ones(4))  # nothing in the gradient reads both


def test_an_index_outside_names_the_line() -> None:
    g = tg.grad(lambda x: x[3] ** 2)
    with pytest.raises(IndexError, match=r"index 3 is out of bounds") as caught:
        g(X)
    assert "at:  test_errors.py:" in str(caught.value)
    np.testing.assert_allclose(g(np.ones(4)), [0.0, 0.0, 0.0, 2.0])
    with pytest.raises(IndexError):
        g(X)


def _notes(call, *args) -> list[str]:
    with pytest.raises((ValueError, FloatingPointError)) as caught:
        call(*args)
    return getattr(caught.value, "__notes__", [])


def test_an_error_in_emitted_code_names_the_users_line() -> None:
    def f(x):
        half = 0.5 * x
        y = np.log(half)  # the line
        return np.sum(np.sin(y) * half)

    bad = np.array([1.0, -1.0])
    line = f.__code__.co_firstlineno + 2
    expected = [f"  at:  test_errors.py:{line}: y = np.log(half)  # the line"]
    for make in (tg.compile, tg.grad, tg.value_and_grad, tg.jacfwd):
        g = make(f)
        with np.errstate(invalid="raise"):
            # The first call, which compiles, and one that the guard lets through.
            assert _notes(g, bad) == expected
            assert _notes(g, bad) == expected


def test_an_error_in_a_pullback_names_the_users_line() -> None:
    def f(x):
        return 1.0 / x

    _, pullback = tg.vjp(f, np.array([1.0, 1e-200]))
    line = f.__code__.co_firstlineno + 1
    with np.errstate(over="raise"):
        notes = _notes(pullback, np.array([1.0, 1e200]))
    assert notes == [f"  at:  test_errors.py:{line}: return 1.0 / x"]


def test_an_error_of_the_users_own_has_no_note() -> None:
    def f(x):
        raise ValueError("mine")

    assert _notes(tg.grad(f), X) == []
