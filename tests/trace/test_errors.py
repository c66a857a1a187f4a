"""What cannot be traced is an error with the user's line and a way out."""

import collections
import copy
import inspect
import linecache
import threading
import types

import numpy as np
import pytest
from scipy import linalg, special

import tracegrad as tg
from tracegrad import errors

X = np.array([0.5, -1.5, 2.0])
C = np.array([1.0, 2.0, 3.0])
LIST = [1.0]


def said(traced, kind, function, *args, **options) -> list[str]:
    """The four lines of the error."""
    before = C.copy()
    with pytest.raises(kind) as caught:
        traced(function, *(args or (X,)), **options)
    assert type(caught.value) is kind
    assert (before == C).all()
    return str(caught.value).split("\n")


def place(function, offset: int = 1) -> str:
    """How an error names a line of a function."""
    lines, start = inspect.getsourcelines(function)
    return f"  at:  test_errors.py:{start + offset}: {lines[offset].strip()}"


def test_branch(traced) -> None:
    def f(x):
        if x[0] > 0:
            return x
        return -x

    assert said(traced, errors.ControlFlowError, f, spec=True) == [
        "the truth of a traced value (bool[]) cannot be known from types alone",
        "  in:  bool()",
        place(f),
        "  fix: use np.where(condition, a, b), tg.cond or tg.while_loop, or pass "
        "arrays instead of tg.spec",
    ]


def test_branch_on_a_python_float(traced) -> None:
    def f(p):
        return p if p > 0 else -p

    lines = said(traced, errors.ControlFlowError, f, 2.0, spec=True)
    assert lines[2] == place(f)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: complex(x[0]), "a Python complex"),
        (lambda x: C[x.astype(int)], "a plain array"),
        (lambda x: C.__setitem__(0, x[0]), "a Python float"),
        (lambda x: C.__setitem__(slice(None), x), "a plain array"),
        (lambda x: np.ndarray.__new__(np.ndarray, 3).fill(x[0]), "a Python float"),
        (lambda x: C.dot(x), "a plain array"),
        (lambda x: __import__("pickle").dumps(x), "a pickle"),
        (lambda x: np.r_[x, 1.0], "a plain array"),
    ],
)
def test_conversion(traced, function, wanted) -> None:
    lines = said(traced, errors.ConversionError, function)
    assert f"would become {wanted}, and be a constant from then on" in lines[0]
    assert any(line.startswith("  at:  test_errors.py:") for line in lines)
    assert lines[-1].startswith("  fix: ")


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: int(x[0]), "a Python int"),
        (lambda x: [1, 2, 3][np.argmax(x)], "an index"),
        (lambda x: range(np.argmax(x)), "an index"),
    ],
)
def test_conversion_without_values(traced, function, wanted) -> None:
    lines = said(traced, errors.ConversionError, function, spec=True)
    assert f"would become {wanted}, and be a constant from then on" in lines[0]


def test_object_array(traced) -> None:
    def f(x):
        return np.array([x[0], x[1]], dtype=object)

    lines = said(traced, errors.DTypeError, f)
    assert "  at:  test_errors.py" in lines[-2]


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: np.packbits(x), "numpy.packbits"),
        (lambda x: np.unpackbits(np.outer(x, x)), "numpy.unpackbits"),
        (lambda x: np.asmatrix(x), "numpy.asmatrix"),
        (lambda x: np.fromiter(x, dtype=float), "numpy.fromiter"),
        (lambda x: special.struve(0, x), "scipy.special.struve"),
        (lambda x: linalg.schur(np.outer(x, x)), "scipy.linalg.schur"),
        (lambda x: x.byteswap(), "ndarray.byteswap"),
    ],
)
def test_no_rule(traced, function, name) -> None:
    lines = said(traced, errors.UnsupportedError, function)
    assert lines[0] == f"no derivative rule yet for {name}"
    assert lines[2].startswith("  at:  test_errors.py:")


def test_where_of_a_ufunc(traced) -> None:
    def f(x):
        return np.add(x, x, where=x > 0)

    assert said(traced, errors.ArgumentError, f) == [
        "np.add(where=...) without out= leaves elements undefined",
        "  in:  np.add",
        place(f),
        "  fix: give out=np.zeros_like(x), or use np.where on the result",
    ]


def test_out_into_a_plain_array(traced) -> None:
    def f(x):
        return np.multiply(x, 2.0, out=C)

    lines = said(traced, errors.MutationError, f)
    assert "would be written into a plain array" in lines[0]
    assert lines[2] == place(f)


def test_in_place_on_a_captured_array(traced) -> None:
    def f(x):
        c = C
        c += x
        return c

    assert said(traced, errors.MutationError, f)[2] == place(f, 2)


def test_unknown_keyword(traced) -> None:
    def f(x):
        return np.sum(x, axes=0)

    lines = said(traced, errors.ArgumentError, f)
    assert "axes" in lines[0]
    assert lines[2] == place(f)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.__iadd__(1.0),
        lambda x: x.__setitem__(0, 1.0),
        lambda x: x[1:].__imul__(2.0),
        lambda x: np.add.at(x, [0], 1.0),
        lambda x: np.copyto(x, 1.0),
        lambda x: x.sort(),
        lambda x: np.sin(x, out=x),
        lambda x: x.T.fill(0.0),
    ],
)
def test_argument_written(traced, function) -> None:
    lines = said(traced, errors.MutationError, function)
    assert lines[0].startswith("an argument of shape (")
    assert lines[2].startswith("  at:  test_errors.py:")
    assert lines[3] == "  fix: make a copy first: y = x.copy()"


def test_argument_container_changed(traced) -> None:
    def f(p):
        p["w"] = p["w"] * 2.0
        return p["w"]

    lines = said(traced, errors.MutationError, f, {"w": X})
    assert lines[0].startswith("an argument (a dict) was changed by `f`")


def test_captured_array_changed(traced) -> None:
    def f(x):
        d[0] += 1.0
        return x * d

    d = np.ones(3)
    lines = said(traced, errors.MutationError, f)
    assert lines[0].startswith("the captured array d was changed by `f`")


COUNT = 0


def test_global_changed(traced) -> None:
    def f(x):
        global COUNT
        COUNT += 1
        return x * COUNT

    lines = said(traced, errors.MutationError, f)
    assert lines[0].startswith("the global COUNT was changed by `f`")


def test_log_in_a_list_is_no_error(traced) -> None:
    seen = []

    def f(x):
        seen.append(type(x).__name__)
        return x * 2.0

    traced(f, X)


HELD = {
    "count": [0],
    "stack": [1.0, 2.0],
    "by_name": {"calls": 0, "deep": [1]},
    "some": {1.0, 2.0},
    "queue": collections.deque([1.0, 2.0]),
    "raw": bytearray(b"ab"),
}


@pytest.mark.parametrize(
    "change",
    [
        lambda held: held["count"].__setitem__(0, held["count"][0] + 1),
        lambda held: held["stack"].pop(),
        lambda held: held["stack"].reverse(),
        lambda held: held["by_name"].update(calls=1),
        lambda held: held["by_name"].pop("calls"),
        lambda held: held["by_name"]["deep"].clear(),
        lambda held: held["some"].pop(),
        lambda held: held["queue"].popleft(),
        lambda held: held["raw"].__setitem__(0, 5),
    ],
)
@pytest.mark.parametrize("spread", [False, True])
def test_containers_changed_other_than_by_growing(traced, change, spread) -> None:
    held = copy.deepcopy(HELD)
    own = types.SimpleNamespace(held=held) if spread else held

    def f(x):
        change(held)
        return x * 2.0

    def through_an_object(x):
        change(own.held)
        return x * 2.0

    f = through_an_object if spread else f
    lines = said(traced, errors.MutationError, f)
    kind = "attribute" if spread else "closure variable"
    assert lines[0].startswith(f"the {kind} held was changed by `{f.__name__}`")


def test_containers_that_grow_are_no_error(traced) -> None:
    held = {**copy.deepcopy(HELD), "last": None, "recent": collections.deque("ab", 2)}

    def f(x):
        held["stack"].append(1.0)
        held["by_name"].setdefault("first", x)
        held["some"].add(3.0)
        held["queue"].append(3.0)
        held["recent"].append("c")
        held["raw"].append(7)
        held["last"] = 1.0
        return x * 2.0

    traced(f, X)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: np.random.normal(),
        lambda: __import__("random").random(),
        lambda: RNG.normal(),
    ],
)
def test_random(traced, draw) -> None:
    def f(x):
        return x * draw()

    lines = said(traced, errors.RandomStateError, f)
    assert "while `f` was traced; every call would get the same" in lines[0]
    assert lines[1].startswith("  in:  ")
    assert lines[2].startswith("  at:  test_errors.py:")
    assert lines[3] == "  fix: draw them outside, and pass them as an argument"


RNG = np.random.default_rng(3)


def test_a_captured_array_changed_is_seen_through_the_public_functions() -> None:
    def f(x):
        C[0] = 5.0
        return np.sum(C * x)

    before = C.copy()
    try:
        with pytest.raises(errors.MutationError, match="captured array C was changed"):
            tg.grad(f)(X)
    finally:
        C[:] = before


def test_leaked(traced) -> None:
    kept = []

    def f(x):
        kept.append(x * 2.0)
        return x

    traced(f, X)
    with pytest.raises(errors.LeakedTracerError) as caught:
        kept[0] + 1.0
    assert "used after its trace had ended" in str(caught.value)
    with pytest.raises(errors.LeakedTracerError):
        traced(lambda x: x + kept[0], X)
    with pytest.raises(errors.LeakedTracerError):
        np.sin(kept[0])
    with pytest.raises(errors.LeakedTracerError):
        float(kept[0][0])
    assert "traced" in repr(kept[0])


def test_other_thread(traced) -> None:
    found = []

    def f(x):
        def work():
            try:
                x * 2.0
            except errors.LeakedTracerError as error:
                found.append(str(error))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return x

    traced(f, X)
    assert "in another thread" in found[0]


def test_out_of_bounds(traced) -> None:
    def f(x):
        return x[7] * 2.0

    lines = said(traced, errors.OutOfBoundsError, f)
    assert lines[0] == "index 7 is out of bounds for axis 0 with size 3"
    assert lines[2] == place(f)


def test_shapes(traced) -> None:
    def f(x):
        return x + np.ones(2)

    lines = said(traced, errors.ShapeError, f)
    assert lines[0] == "operands of shapes (3,) and (2,) do not broadcast together"
    assert lines[1] == "  in:  np.add"
    assert lines[2] == place(f)


def test_shape_and_dtype_of_in_place_results(traced) -> None:
    def wide(x):
        y = x * 1.0
        y += np.ones((2, 3))
        return y

    def whole(x):
        y = np.zeros(3, dtype=int)
        y += x
        return y

    assert said(traced, errors.ShapeError, wide)[2] == place(wide, 2)
    assert said(traced, errors.DTypeError, whole)[2] == place(whole, 2)


def test_views_that_depend_on_the_layout(traced) -> None:
    """`x.T * 2` lies in Fortran order, so that its reshape is a copy."""

    def f(a):
        y = a.T * 2.0
        z = y.reshape(-1)
        z[0] = 1.0
        return y

    lines = said(traced, errors.UnsupportedError, f, np.eye(3))
    assert "may lie in Fortran order" in lines[0]
    assert lines[2] == place(f, 3)

    def g(a):
        y = (a.T * 2.0).copy()
        z = y.reshape(-1)
        z[0] = 1.0
        return y, a.T.reshape(-1) * 2.0

    traced(g, np.eye(3))


def test_user_handlers_do_not_catch_a_restart(traced) -> None:
    """`except Exception` in the user's function must not swallow it."""

    def f(x, k):
        try:
            return [x[i] for i in range(k)]
        except Exception:
            return x

    with pytest.raises(BaseException) as caught:
        traced(f, X, 2, ints=(1,))
    assert type(caught.value).__name__ == "Restart"


@pytest.mark.parametrize("other", [np.eye(3).view(np.matrix), np.ma.array(C)])
def test_array_subclasses(traced, other) -> None:
    """Their operators differ: `*` of a matrix is `@`."""

    def f(x):
        return x * other

    lines = said(traced, errors.UnsupportedError, f)
    assert "its operators may differ from those of an array" in lines[0]
    assert lines[2] == place(f)


def test_wrong_operand(traced) -> None:
    with pytest.raises(TypeError):
        traced(lambda x: x + "text", X)
    assert traced(lambda x: x == None, X).value() is False  # noqa: E711


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.sum(x * None),
        lambda x: None - x,
        lambda x: x + "a",
        lambda x: x @ {},
        lambda x: x < "a",
        lambda x: x.foo,
        lambda x: ",".join(x),
        lambda x: x(3),
    ],
)
def test_errors_of_python_and_of_compiled_code_name_the_line(function) -> None:
    with pytest.raises(errors.TracegradError) as caught:
        tg.grad(function)(X)
    lines = str(caught.value).split("\n")
    assert len(lines) == 4
    assert lines[2].startswith("  at:  test_errors.py:")
    assert "Proxy" not in lines[0].replace("traced ndarray", "")


@pytest.mark.parametrize("kind", ["float64", "float32", "complex128", "int64", "bool_"])
def test_a_type_of_numpys_scalars_says_what_to_write(kind) -> None:
    space = {"np": np}
    text = f"def f(x):\n    y = 2.0 * np.{kind}(x[0])\n    return y\n"
    name = f"<scalar of {kind}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), space)
    with pytest.raises(errors.ConversionError) as caught:
        tg.grad(space["f"])(X)
    lines = str(caught.value).split("\n")
    assert lines[1] == f"  in:  np.{kind}"
    assert lines[3] == f"  fix: write x.astype(np.{kind}), which is traced"
