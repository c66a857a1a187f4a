"""Compiled functions as users call them: results, structures, sizes, methods."""

import collections
import copy
import dataclasses
import functools
import gc
import inspect
import itertools
import pickle
import runpy
import sys
import types
import warnings
import weakref

import numpy as np
import pytest

import tracegrad as tg

Point = collections.namedtuple("Point", "x y")
W = np.array([0.5, -1.0, 2.0])
X = np.arange(12.0).reshape(4, 3) / 7.0
Y = np.array([1.0, 0.0, -1.0, 2.0])


def loss(w, x, y, scale=1.0):
    """Mean squared error."""
    return scale * np.mean((x @ w - y) ** 2)


def expected(w, x, y):
    return 2.0 * x.T @ (x @ w - y) / len(y)


# --------------------------------------------------------------------- forms of a call
def test_decorator_with_and_without_arguments() -> None:
    plain = tg.grad(loss)
    assert isinstance(plain(W, X, Y), np.ndarray)
    np.testing.assert_allclose(plain(W, X, Y), expected(W, X, Y))

    @tg.value_and_grad(argnums=(0, 2))
    def decorated(w, x, y):
        return np.mean((x @ w - y) ** 2)

    value, (d_w, d_y) = decorated(W, X, Y)
    np.testing.assert_allclose(value, loss(W, X, Y))
    np.testing.assert_allclose(d_w, expected(W, X, Y))
    np.testing.assert_allclose(d_y, -2.0 * (X @ W - Y) / 4)


def test_it_looks_like_the_function() -> None:
    g = tg.grad(loss)
    assert g.__name__ == "loss"
    assert g.__doc__ == "Mean squared error."
    assert g.__wrapped__ is loss
    assert inspect.signature(g) == inspect.signature(loss)
    assert repr(g) == "<tracegrad grad of loss>"


def test_argnums_and_argnames() -> None:
    assert isinstance(tg.grad(loss, argnums=(0,))(W, X, Y), tuple)
    assert tg.grad(loss, argnums=[0, 1])(W, X, Y)[1].shape == X.shape
    np.testing.assert_allclose(
        tg.grad(loss, argnums=-1)(W, X, Y), -2.0 * (X @ W - Y) / 4
    )
    np.testing.assert_allclose(tg.grad(loss, argnums=-1)(W, X, Y, 2.0), loss(W, X, Y))
    np.testing.assert_allclose(
        tg.grad(loss, argnames="scale")(W, X, Y, scale=3.0), loss(W, X, Y)
    )
    both = tg.grad(loss, argnames=("scale", "w"))(W, X, y=Y)
    np.testing.assert_allclose(both[0], loss(W, X, Y))
    np.testing.assert_allclose(both[1], expected(W, X, Y))
    np.testing.assert_allclose(tg.grad(loss)(x=X, y=Y, w=W), expected(W, X, Y))


def test_keyword_only_and_variadic() -> None:
    def f(a, *rest, k, **more):
        return a * rest[0] * rest[1] * k * more["z"]

    args, kwargs = (2.0, 3.0, 5.0), {"k": 7.0, "z": 11.0}
    assert tg.grad(f)(*args, **kwargs) == 3 * 5 * 7 * 11
    assert tg.grad(f, argnums=2)(*args, **kwargs) == 2 * 3 * 7 * 11
    assert tg.grad(f, argnames=("k", "z"))(*args, **kwargs) == (330.0, 210.0)
    g = tg.grad(f)
    assert g(*args, **kwargs) == g(*args, z=11.0, k=7.0)
    assert len(g.specializations()) == 1


def test_has_aux() -> None:
    def f(w, x):
        r = x @ w
        return np.sum(r**2), {"r": r, "name": "residual", "n": [1, None]}

    want = 2.0 * X.T @ (X @ W)
    d_w, aux = tg.grad(f, has_aux=True)(W, X)
    np.testing.assert_allclose(d_w, want)
    np.testing.assert_allclose(aux.pop("r"), X @ W)
    assert aux == {"name": "residual", "n": [1, None]}
    (value, aux), d_w = tg.value_and_grad(f, has_aux=True)(W, X)
    np.testing.assert_allclose(value, np.sum((X @ W) ** 2))
    np.testing.assert_allclose(d_w, want)
    (value, _), pullback, aux = (*tg.vjp(f, W, X, has_aux=True)[:1], None), None, None
    out, pullback, aux = tg.vjp(f, W, X, has_aux=True)
    np.testing.assert_allclose(out, value)
    np.testing.assert_allclose(pullback(1.0)[0], want)
    assert aux["name"] == "residual"


def test_structures_come_back() -> None:
    @dataclasses.dataclass
    class Model:
        w: np.ndarray
        b: float

    def f(p):
        return (
            p["m"].w @ p["m"].w * p["m"].b
            + p["q"].x * p["q"].y
            + np.sum(p["list"][0] * p["list"][1][0])
        )

    p = {
        "m": Model(W, 3.0),
        "q": Point(2.0, np.float64(5.0)),
        "list": [W, (X[0],)],
        "none": None,
    }
    d = tg.grad(f)(p)
    assert list(d) == list(p)
    assert type(d["m"]) is Model
    assert type(d["q"]) is Point
    assert type(d["list"]) is list
    assert type(d["list"][1]) is tuple
    assert d["none"] is None
    np.testing.assert_allclose(d["m"].w, 6.0 * W)
    np.testing.assert_allclose(d["m"].b, W @ W)
    assert d["q"] == Point(5.0, 2.0)
    np.testing.assert_allclose(d["list"][0], X[0])
    np.testing.assert_allclose(d["list"][1][0], W)


def test_unused_arguments_have_zero_gradients() -> None:
    def f(x, y, p, s):
        return np.sum(x**2)

    args = (W, X.astype("f4"), {"a": np.ones((2, 0))}, 3.0)
    _, d_y, d_p, d_s = tg.grad(f, argnums=(0, 1, 2, 3))(*args)
    assert d_y.shape == X.shape
    assert d_y.dtype == np.float32
    assert not d_y.any()
    assert d_p["a"].shape == (2, 0)
    assert d_s == 0.0
    d_y += 1.0  # writeable

    def constant(x):
        return 1.5

    assert tg.value_and_grad(constant)(2.0) == (1.5, 0.0)
    np.testing.assert_array_equal(tg.grad(constant)(W), np.zeros(3))


def test_results_share_no_memory() -> None:
    def f(x, z):
        return np.sum(x) + np.sum(z)

    def sums(x, z):
        return np.sum(x + z)

    for function in (f, sums):
        x, z = np.ones(3), np.ones(3)
        d_x, d_z = tg.grad(function, argnums=(0, 1))(x, z)
        for a, b in ((d_x, d_z), (d_x, x), (d_z, z)):
            assert not np.shares_memory(a, b)
        d_x += 1.0
        np.testing.assert_array_equal(d_z, np.ones(3))

    identity = tg.compile(lambda x: {"x": x, "again": x, "row": x[0]})
    x = np.ones((2, 3))
    out = identity(x)
    for a in out.values():
        assert not np.shares_memory(a, x)
        a += 1.0
    np.testing.assert_array_equal(x, np.ones((2, 3)))
    np.testing.assert_array_equal(out["row"], np.full(3, 2.0))
    pair = tg.vjp(lambda x: x + 0.0, x)[1]
    ct = np.ones((2, 3))
    (d_x,) = pair(ct)
    assert not np.shares_memory(d_x, ct)


def test_types_follow_numpy() -> None:
    square = tg.compile(lambda x: x * x)
    for x in (2.0, np.float32(2.0), np.ones(2, "f4"), np.array(2.0), 3, 2j):
        found, wanted = square(x), x * x
        assert np.asarray(found).dtype == np.asarray(wanted).dtype
        np.testing.assert_array_equal(found, wanted)
    cube = tg.grad(lambda x: np.sum(x**3))
    for dtype in ("f2", "f4", "f8"):
        assert cube(np.ones(2, dtype)).dtype == dtype


# ------------------------------------------------------------------ specialisations
def test_second_call_runs_generated_code_only() -> None:
    calls = itertools.count()

    @tg.grad
    def f(w, x):
        next(calls)
        return np.sum((x @ w) ** 2)

    for k in range(4):
        f(W * k, X)
    f(W.astype("f4"), X)
    assert next(calls) == 2
    assert "f4[n]" in repr(f.specializations()[1])


def test_a_size_that_changes_is_symbolic() -> None:
    calls = itertools.count()

    @tg.value_and_grad
    def f(w, x, y):
        next(calls)
        return np.mean((x @ w - y) ** 2)

    for n in (4, 5, 6, 9, 2, 30):
        x, y = np.ones((n, 3)) * np.arange(3), np.arange(float(n))
        value, d_w = f(W, x, y)
        np.testing.assert_allclose(value, np.mean((x @ W - y) ** 2))
        np.testing.assert_allclose(d_w, expected(W, x, y))
    assert next(calls) == 1
    assert repr(f.specializations()[-1]) == (
        "f_value_and_grad(w: f8[n], x: f8[m, n], y: f8[m])"
    )
    # 1 is never symbolic, and neither is 0.
    x, y = np.ones((1, 3)), np.zeros(1)
    np.testing.assert_allclose(f(W, x, y)[1], expected(W, x, y))
    assert next(calls) == 3  # with the one just above


def test_broadcasting_is_told_from_equal_sizes() -> None:
    f = tg.grad(lambda a, b: np.sum(a * b), argnums=(0, 1))
    for n, m in ((3, 3), (4, 4), (5, 1), (1, 5), (1, 1), (6, 6), (7, 1)):
        a, b = np.arange(1.0, n + 1), np.arange(2.0, m + 2)
        d_a, d_b = f(a, b)
        np.testing.assert_allclose(
            d_a,
            np.broadcast_to(b, np.broadcast(a, b).shape).sum()
            if n == 1
            else np.broadcast_to(b, n),
        )
        assert d_b.shape == b.shape
    with pytest.raises(ValueError, match="do not broadcast"):
        f(np.ones(4), np.ones(5))


def test_a_loop_over_a_size_makes_it_static() -> None:
    def f(x):
        total = 0.0
        for i in range(len(x)):
            total = total + (i + 1) * x[i] ** 2
        return total

    g = tg.grad(f)
    for n in (3, 4, 5, 3, 4):
        x = np.ones(n)
        np.testing.assert_allclose(g(x), 2.0 * np.arange(1, n + 1))
    assert len(g.specializations()) == 3


def test_python_ints() -> None:
    def power(x, n):
        return np.sum(x**n)

    g = tg.grad(power)
    for n in (2, 3, 4, 5):
        np.testing.assert_allclose(g(W, n), n * W ** (n - 1))
    assert len(g.specializations()) == 2  # static, then a traced number

    def repeated(x, n):
        for _ in range(n):
            x = x * x
        return np.sum(x)

    g = tg.grad(repeated)
    for n in (1, 2, 3, 2):
        np.testing.assert_allclose(g(W, n), 2**n * W ** (2**n - 1))
    assert len(g.specializations()) == 3


def test_numpy_integers_count_too() -> None:
    def f(x, n, flag):
        if flag:
            x = -x
        for _ in range(n):
            x = x * 2.0
        return np.sum(x) * n

    g = tg.grad(f)
    for n in (2, 3, 2, 4):
        for flag in (np.True_, np.False_):
            want = np.full(3, (-1.0 if flag else 1.0) * 2**n * n)
            np.testing.assert_allclose(g(W, np.int64(n), flag), want)
    index = tg.grad(lambda x, k: x[k] ** 2)
    for k in (0, 2, 1):
        np.testing.assert_allclose(index(W, np.int32(k)), 2 * W * (np.arange(3) == k))


def test_defaults_may_choose() -> None:
    def f(x, eps=1e-3, *, power=2.0):
        if power == 2.0:
            x = x * x
        return np.sum(x + eps) if eps > 0.0 else np.sum(x)

    np.testing.assert_allclose(tg.grad(f)(W), 2.0 * W)
    np.testing.assert_allclose(tg.grad(f)(W, 0.5), 2.0 * W)
    assert "Made for eps=0.001, power=2.0." in str(tg.grad(f).source(W))
    np.testing.assert_allclose(tg.grad(f, argnames="x")(W), 2.0 * W)


def test_an_error_of_symbolic_sizes_names_numbers() -> None:
    g = tg.grad(lambda x, y: np.sum(x + y))
    for n in (3, 4, 5):
        g(np.ones(n), np.ones(n))
    with pytest.raises(tg.ShapeError, match=r"\(6,\) and \(7,\)"):
        g(np.ones(6), np.ones(7))
    g(np.ones(8), np.ones(8))
    assert len(g.specializations()) == 1


def test_static_values_are_told_by_type() -> None:
    calls = itertools.count()

    @tg.compile
    def f(x, flag):
        next(calls)
        return x + 1.0 if flag is True else x - 1.0

    assert f(1.0, True) == 2.0
    assert f(1.0, 1) == 0.0
    assert f(1.0, 1.0) == 0.0
    assert f(1.0, "a") == 0.0
    assert f(1.0, True) == 2.0
    assert next(calls) == 4


def test_too_many_specialisations_warn_once() -> None:
    g = tg.grad(lambda x, k: x * len(k))
    g.max_specializations = 5
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for i in range(12):
            assert g(1.0, "k" * i) == i
    assert [w.category for w in caught] == [tg.SpecializationWarning]
    text = str(caught[0].message)
    assert text.startswith("function() was compiled 6 times for different arguments")
    assert "k='kkkkk'" in text
    assert caught[0].filename == __file__
    assert len(g.specializations()) == 5


def test_many_specialisations_are_found_again() -> None:
    calls = itertools.count()

    @tg.grad
    def g(x, k):
        next(calls)
        return x * len(k)

    for _ in range(3):
        for i in range(10):
            assert g(1.0, "k" * i) == i
    assert next(calls) == 10


def test_unusual_arrays() -> None:
    g = tg.grad(lambda x: np.sum(x**2))
    x = np.arange(3.0)
    want = 2 * x
    read_only = np.broadcast_to(2.0, (3,))
    for y in (x, x[::-1][::-1], np.asfortranarray(x), pickle.loads(pickle.dumps(x))):
        np.testing.assert_array_equal(g(y), want)
    np.testing.assert_array_equal(g(read_only), np.full(3, 4.0))
    assert len(g.specializations()) == 1
    np.testing.assert_array_equal(g(x.astype(">f8")), want)
    assert g(x.astype(">f8")).dtype.isnative


# ------------------------------------------------------------- what functions may be
class Net:
    """An object whose method is compiled."""

    def __init__(self, scale):
        self.scale = scale

    @tg.value_and_grad
    def loss(self, w):
        return np.sum(self.scale * w**2)

    @staticmethod
    @tg.grad
    def plain(w):
        return np.sum(w**2)

    @tg.grad(argnums=1)
    def second(self, w, x):
        return np.sum(w * x)

    def method(self, w):
        return np.sum(self.scale * w**3)


@dataclasses.dataclass
class Data:
    """A dataclass: `self` is an argument like any other."""

    w: np.ndarray

    @tg.grad
    def loss(self, x):
        return np.sum(self.w * x**2)


def test_methods() -> None:
    net, other = Net(2.0), Net(3.0)
    np.testing.assert_allclose(net.loss(W)[1], 4.0 * W)
    np.testing.assert_allclose(other.loss(W)[1], 6.0 * W)
    np.testing.assert_allclose(net.loss(W)[1], 4.0 * W)
    np.testing.assert_allclose(Net.plain(W), 2.0 * W)
    np.testing.assert_allclose(net.plain(W), 2.0 * W)
    np.testing.assert_allclose(net.second(W, X[0]), W)
    np.testing.assert_allclose(tg.grad(net.method)(W), 6.0 * W**2)
    assert "def loss_value_and_grad(self, w)" in str(net.loss.source(W))
    assert len(net.loss.specializations()) == 2
    assert net.loss.__name__ == "loss"


def test_dataclass_self_is_traced() -> None:
    data = Data(W)
    np.testing.assert_allclose(data.loss(X[0]), 2.0 * W * X[0])
    data.w = -W
    np.testing.assert_allclose(data.loss(X[0]), -2.0 * W * X[0])
    assert len(data.loss.specializations()) == 1


def test_partials_and_callables() -> None:
    def f(w, x, power):
        return np.sum((w * x) ** power)

    np.testing.assert_allclose(
        tg.grad(functools.partial(f, power=2.0))(W, X[0]), 2 * W * X[0] ** 2
    )
    np.testing.assert_allclose(
        tg.grad(functools.partial(f, W))(X[0], 2.0), 2 * X[0] * W**2
    )

    class Callable:
        def __call__(self, w):
            return np.sum(w**2)

    np.testing.assert_allclose(tg.grad(Callable())(W), 2.0 * W)
    np.testing.assert_allclose(tg.grad(np.sin)(0.5), np.cos(0.5))
    np.testing.assert_allclose(tg.grad(np.sum)(W), np.ones(3))

    def logged(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper

    np.testing.assert_allclose(tg.grad(logged(loss))(W, X, Y), expected(W, X, Y))


def test_copies_and_pickles() -> None:
    assert copy.deepcopy({"f": Net.plain})["f"] is Net.plain
    g = pickle.loads(pickle.dumps(tg.grad(np.sum, argnums=(0,))))
    np.testing.assert_allclose(g(W)[0], np.ones(3))
    # In importlib mode pytest does not enter this module under its name.
    sys.modules[__name__] = sys.modules.get(__name__) or types.ModuleType(__name__)
    sys.modules[__name__].Net = Net
    assert pickle.loads(pickle.dumps(Net.plain)) is Net.plain


def test_functions_are_let_go() -> None:
    def make():
        big = np.ones(10)
        return lambda x: np.sum(big * x)

    f = make()
    tg.vjp(f, np.ones(10))
    tg.grad(f)(np.ones(10))
    gone = weakref.ref(f)
    del f
    gc.collect()
    assert gone() is None


def test_arguments_are_let_go() -> None:
    g = tg.grad(lambda x: np.sum(x**2))
    x = np.ones(1000)
    gone = weakref.ref(x)
    g(x)
    g.source()
    del x
    gc.collect()
    assert gone() is None


def test_errors_of_the_user_pass_through() -> None:
    class Mine(Exception):
        pass

    def f(x):
        raise Mine("as it is")

    with pytest.raises(Mine, match="as it is"):
        tg.grad(f)(1.0)


# --------------------------------------------------------------------- looking inside
def test_source_and_ir() -> None:
    g = tg.grad(loss)
    with pytest.raises(tg.ArgumentError, match="has not been called yet"):
        g.source()
    source = g.source(W, X, Y)
    assert "def loss_grad(w, x, y, scale=1.0):" in str(source)
    assert g.ir().name == "loss_grad"
    assert len(g.ir(W, X, Y).params) == 4
    assert str(g.source()) == str(source)
    g(W, X, Y)
    assert str(g.source()) == str(source)
    assert len(g.specializations()) == 1


def test_source_runs_nothing() -> None:
    def f(x):
        return np.sum(np.log(x))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tg.grad(f).source(np.zeros(2))
    assert "np.log" in str(tg.compile(f).source(np.zeros(2)))


def _polynomial(p, x):
    return sum(c * np.sum(x) ** i for i, c in enumerate(p))


def _by_key(p, x):
    return sum(p[k] * np.sum(x * i) for i, k in enumerate(p))


def _picked(p, x):
    return sum(x[i] for i in p)


def _layers(p, x):
    for layer in p:
        x = np.tanh(x @ layer["w"] + layer["b"])
    return np.sum(x)


_LAYER = {"w": np.eye(3), "b": np.ones(3)}


@pytest.mark.parametrize(
    ("f", "p", "others", "argnum"),
    [
        (_polynomial, [1.0, 2.0], [[1.0], [1.0, 2.0, 3.0], []], 0),
        (_polynomial, (1.0, 2.0), [(1.0,), (1.0, 2.0, 3.0)], 0),
        (_polynomial, [1.0, 2.0], [[np.ones(3), 2.0], [1.0, np.ones((1, 1))]], 0),
        (_by_key, {"a": 1.0, "b": 2.0}, [{"a": 1.0}, {"b": 1.0, "a": 2.0}], 0),
        (_by_key, {"a": 1.0, "b": 2.0}, [{"a": 1.0, "b": 2.0, "c": 3.0}, {}], 0),
        (_picked, [0, 1], [[0], [0, 1, 2], [0, 2]], 1),
        (
            _layers,
            [_LAYER] * 2,
            [[_LAYER] * 3, [_LAYER], [{**_LAYER, "c": 1.0}] * 2],
            0,
        ),
    ],
)
def test_saved_files_refuse_other_structures(tmp_path, f, p, others, argnum) -> None:
    """What a list or a dict holds decided the program, as in the live function."""
    x = np.array([0.5, 1.5, 2.5])
    path = tmp_path / "saved.py"
    g = tg.value_and_grad(f, argnums=argnum)
    g.source(p, x).save(path)
    space = runpy.run_path(str(path))
    saved = space[f"{f.__name__}_value_and_grad"]
    assert saved(p, x)[0] == g(p, x)[0] == f(p, x)
    for other in others:
        for name in (f.__name__, f"{f.__name__}_vjp", f"{f.__name__}_value_and_grad"):
            with pytest.raises(ValueError, match=r"derived for|is needed"):
                space[name](other, x)


def test_saved_module(tmp_path) -> None:
    path = tmp_path / "loss_grad.py"
    tg.grad(loss).source(W, X, Y).save(path)
    space = {}
    exec(path.read_text(), space)
    np.testing.assert_allclose(space["loss"](W, X, Y), loss(W, X, Y))
    np.testing.assert_allclose(space["loss_grad"](W, X, Y), expected(W, X, Y))
    value, d_w = space["loss_value_and_grad"](W, X, Y, 2.0)
    np.testing.assert_allclose(value, loss(W, X, Y, 2.0))
    np.testing.assert_allclose(d_w, 2.0 * expected(W, X, Y))
    out, pullback = space["loss_vjp"](W, X, Y)
    np.testing.assert_allclose(out, loss(W, X, Y))
    (d_w,) = pullback(3.0)
    np.testing.assert_allclose(d_w, 3.0 * expected(W, X, Y))


def test_spec() -> None:
    g = tg.value_and_grad(loss)
    source = g.source(tg.spec("f8[k]"), tg.spec("f8[n, k]"), tg.spec("f8[n]"))
    run = source.load()["loss_value_and_grad"]
    for n in (2, 4, 9):
        x, y = np.ones((n, 3)), np.arange(float(n))
        value, d_w = run(W, x, y)
        np.testing.assert_allclose(value, loss(W, x, y))
        np.testing.assert_allclose(d_w, expected(W, x, y))
    assert g.source(tg.spec("f8[k]"), tg.spec("f8[n, k]"), tg.spec("f8[n]")) is source
    assert g.specializations() == []
    with pytest.raises(tg.ArgumentError, match="was called with a tg"):
        g(tg.spec("f8[3]"), X, Y)
    with pytest.raises(ValueError, match="do not fit"):
        g.source(tg.spec("f8[2]"), tg.spec("f8[n, 3]"), tg.spec("f8[n]"))
    with pytest.raises(tg.ShapeError, match="the size `k` is read nowhere"):
        tg.grad(lambda x: np.sum(x)).source(tg.spec("f8[2*k]"))


def test_spec_in_a_structure() -> None:
    def f(p, n):
        return np.sum(p["w"] ** 2) * p["b"] + n * p["b"]

    source = tg.grad(f).source(
        {"w": tg.spec("f4[n]"), "b": tg.spec("float")}, tg.spec("int")
    )
    d = source.load()["f_grad"]({"w": W.astype("f4"), "b": 2.0}, 3)
    np.testing.assert_allclose(d["w"], 4.0 * W)
    assert d["w"].dtype == np.float32
    np.testing.assert_allclose(d["b"], W @ W + 3)


def test_fast_agrees_with_readable() -> None:
    np.testing.assert_allclose(
        tg.grad(loss, optimize="fast")(W, X, Y), expected(W, X, Y)
    )
