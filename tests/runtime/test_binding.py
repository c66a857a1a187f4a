"""Calls bound to signatures, leaves told from static values, and the guards."""

import collections
import dataclasses
import enum
import functools
import inspect
import pickle
from pathlib import Path

import numpy as np
import optree
import pytest

from tracegrad.errors import ArgumentError, DTypeError
from tracegrad.ir.graph import Value
from tracegrad.ir.routine import Parameter
from tracegrad.ir.tree import Leaf, Static, leaves, map_leaves
from tracegrad.ir.types import ArrayType
from tracegrad.runtime.binding import Binder, check_differentiable, resolve
from tracegrad.runtime.cache import Family, size_names
from tracegrad.runtime.entry import MISS, make_guard
from tracegrad.trace.session import SizeFact

F8 = np.float64


def guards_for(function, *args, shapes=None, facts=(), guards=(), **kwargs):
    """The guard that a call would make, around the function itself."""
    binder = Binder(function)
    call = binder.bind(args, kwargs)
    examples, parameters = {}, []
    shapes = iter(shapes or [np.shape(raw.data) for raw in call.raws])

    def value_of(raw):
        made = Value(ArrayType(tuple(next(shapes)), np.asarray(raw.data).dtype))
        examples[made] = raw.data
        return made

    for p in call.parameters:
        tree = map_leaves(p.tree, value_of)
        parameters.append(Parameter(p.name, p.kind, tree, p.default, p.annotation))
    return [
        make_guard(
            binder.name, binder.signature, parameters, examples, facts, guards, run
        )
        for run in (function, None)
    ]


def everything(a, /, b, *rest, flag=True, **more):
    return a, b, rest, flag, more


def test_bind_names_every_part() -> None:
    call = Binder(everything).bind((1.0, [np.ones(2)], 3.0, 4.0), {"z": 5.0})
    assert [p.name for p in call.parameters] == [
        "a", "b", "rest_0", "rest_1", "flag", "z",
    ]  # fmt: skip
    assert [p.keyword for p in call.parameters] == [None] * 4 + ["flag", "z"]
    assert [p.given for p in call.parameters] == [True] * 4 + [False, True]
    assert [raw.where for raw in call.raws] == ["a", "b[0]", "rest[0]", "rest[1]", "z"]
    args, kwargs = call.plain()
    assert args == (1.0, [args[1][0]], 3.0, 4.0)
    assert kwargs == {"flag": True, "z": 5.0}


Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Model:
    w: np.ndarray
    depth: int


@optree.register_pytree_node_class(
    namespace=optree.registry.__dict__["__GLOBAL_NAMESPACE"]
)
class Box:
    """A registered container with metadata."""

    def __init__(self, inside, label):
        self.inside, self.label = inside, label

    def tree_flatten(self):
        return (self.inside,), self.label

    @classmethod
    def tree_unflatten(cls, label, children):
        return cls(*children, label)


def test_paths_and_hints() -> None:
    def f(params, point, model):
        return None

    binder = Binder(f)
    call = binder.bind(
        ({"w1": np.ones(2), "layers": [1.0, 2.0]}, Point(1.0, 2.0), Model(F8(3), 2)), {}
    )
    assert [r.where for r in call.raws] == [
        'params[\'w1\']', "params['layers'][0]", "params['layers'][1]",
        "point.x", "point.y", "model.w", "model.depth",
    ]  # fmt: skip
    assert call.raws[0].hint == "w1"
    assert call.raws[3].hint == "x"
    assert [r.kind for r in call.raws][-2:] == ["scalar", "int"]


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (np.array([1, "a", None], dtype=object), "an array of dtype object"),
        (np.array(["a", "b"]), "an array of dtype <U1"),
        (np.ones((1, 1)).view(np.matrix), "is np.matrix, whose * is a matrix product"),
        (np.ma.masked_array([1.0], [True]), "is a masked array"),
        ({1.0, 2.0}, "an unhashable static argument"),
        (bytearray(b"x"), "an unhashable static argument"),
    ],
)
def test_bad_leaves(x, words) -> None:
    def f(v):
        return v

    with pytest.raises(ArgumentError, match="`v`") as caught:
        Binder(f).bind((x,), {})
    text = str(caught.value)
    assert words in text
    assert "\n  fix: " in text


def test_subclass_is_refused_memmap_is_not(tmp_path: Path) -> None:
    class Mine(np.ndarray):
        pass

    def f(v):
        return v

    with pytest.raises(ArgumentError, match="a subclass of np"):
        Binder(f).bind((np.ones(2).view(Mine),), {})
    mapped = np.memmap(tmp_path / "m", dtype=F8, mode="w+", shape=(3,))
    call = Binder(f).bind((mapped,), {})
    assert type(call.raws[0].data) is np.ndarray
    assert np.shares_memory(call.raws[0].data, mapped)


def test_missing_argument_has_four_lines() -> None:
    def f(w, x, scale=2.0):
        return w

    with pytest.raises(ArgumentError) as caught:
        Binder(f).bind((1.0,), {})
    first, at, fix = str(caught.value).splitlines()
    assert first == "f() cannot be called so: missing a required argument: 'x'"
    assert at.startswith("  at:  test_binding.py:")
    assert at.endswith(": def f(w, x, scale=2.0):")
    assert fix == "  fix: call it as f(w, x, scale=2.0)"


def test_signatures() -> None:
    def inner(w, x):
        return w

    @functools.wraps(inner)
    def forwards(*args, **kwargs):
        return inner(*args, **kwargs)

    @functools.wraps(inner)
    def adds(w, x, extra):
        return inner(w, x)

    class Callable:
        def __call__(self, a, b=1.0):
            return a

        def method(self, q):
            return q

    names = lambda f: list(Binder(f).signature.parameters)
    assert names(forwards) == ["w", "x"]
    assert names(adds) == ["w", "x", "extra"]
    assert names(functools.partial(inner, x=1.0)) == ["w", "x"]
    assert names(functools.partial(inner, 1.0)) == ["x"]
    assert names(Callable()) == ["a", "b"]
    assert names(Callable().method) == ["q"]
    assert names(np.sin) == ["args", "kwargs"]
    assert Binder(lambda v: v).name == "function"
    assert Binder(functools.partial(inner, 1.0)).name == "inner"
    assert Binder(Callable()).name == "Callable"


def test_annotations_are_source_text() -> None:
    def f(w: np.ndarray, x: "dict[str, float]" = None, *, k: int = 3):  # noqa: RUF013
        return w

    call = Binder(f).bind((1.0,), {})
    assert [p.annotation for p in call.parameters] == [
        "np.ndarray", "'dict[str, float]'", "int",
    ]  # fmt: skip


def test_location_is_below_the_decorators() -> None:
    @functools.cache
    @functools.lru_cache
    def f(w):
        return w

    at = Binder(f).at
    assert at.text == "def f(w):"


# ------------------------------------------------------------- what is differentiated
def test_argnums() -> None:
    def f(a, b=2.0, *rest, k=1.0):
        return a

    binder = Binder(f)
    pick = lambda call, n, names=None: resolve(call.parameters, n, names, binder)
    call = binder.bind((1.0, 2.0, 3.0), {"k": 4.0})
    assert pick(call, 0) == ([0], True)
    assert pick(call, (2, 0)) == ([2, 0], False)
    assert pick(call, -1) == ([2], True)
    assert pick(call, 0, "k") == ([3], True)
    assert pick(call, 0, ("k", "a")) == ([3, 0], False)
    assert pick(binder.bind((1.0,), {}), -1) == ([0], True)
    with pytest.raises(ArgumentError, match="argnums=3 is out of range: f"):
        pick(call, 3)
    with pytest.raises(ArgumentError, match="argnames names 'z'"):
        pick(call, 0, "z")


@pytest.mark.parametrize(
    ("x", "error", "words"),
    [
        (3, DTypeError, "`p` is differentiated but has the integer type int64"),
        (np.arange(3), DTypeError, "`p` is differentiated but has the integer type"),
        (np.array(True), DTypeError, "`p` is differentiated but has the type bool"),
        (True, DTypeError, "`p` is differentiated but is of type bool: True"),
        ("abc", ArgumentError, "`p` is differentiated but is of type str: 'abc'"),
        ({"n": 2}, DTypeError, "`p['n']` is differentiated but has the integer type"),
    ],
)
def test_not_differentiable(x, error, words) -> None:
    def f(p):
        return p

    binder = Binder(f)
    with pytest.raises(error) as caught:
        check_differentiable(binder.bind((x,), {}), [0], binder, "tg.grad")
    assert words in str(caught.value)
    assert "  in:  tg.grad" in str(caught.value)


def test_none_inside_is_allowed() -> None:
    binder = Binder(lambda p: p)
    call = binder.bind(({"w": 1.0, "b": None, "z": 1j},), {})
    check_differentiable(call, [0], binder, "tg.grad")


# ---------------------------------------------------------------------------- guards
class Colour(enum.Enum):
    RED = 1
    BLUE = 2


def identity(x, *rest, mode="a", **more):
    return "ran"


X = np.ones((2, 3))
CASES = [
    ((X,), {}, (X * 2,), {}, True),
    ((X,), {}, (np.asfortranarray(X),), {}, True),
    ((X,), {}, (pickle.loads(pickle.dumps(X)),), {}, True),
    ((X,), {}, (X.astype("f4"),), {}, False),
    ((X,), {}, (X.astype(">f8"),), {}, False),
    ((X.astype(">f8"),), {}, (X.astype(">f8"),), {}, True),
    ((X,), {}, (np.ones((3, 2)),), {}, False),
    ((X,), {}, (1.0,), {}, False),
    ((1.0,), {}, (2.0,), {}, True),
    ((1.0,), {}, (F8(2.0),), {}, False),
    ((F8(1.0),), {}, (np.float32(2.0),), {}, False),
    ((1.0,), {}, (1,), {}, False),
    ((True,), {}, (1,), {}, False),
    ((True,), {}, (False,), {}, False),
    ((None,), {}, (None,), {}, True),
    (("abc",), {}, ("ab" + "c",), {}, True),
    ((frozenset({1, 2}),), {}, (frozenset({2, 1}),), {}, True),
    ((frozenset({1}),), {}, (frozenset({True}),), {}, False),
    ((frozenset({1}),), {}, (frozenset({1.0}),), {}, False),
    ((Colour.RED,), {}, (Colour.RED,), {}, True),
    ((Colour.RED,), {}, (Colour.BLUE,), {}, False),
    ((np.sin,), {}, (np.cos,), {}, False),
    ((np.dtype("f8"),), {}, (np.dtype("f8"),), {}, True),
    ((X, 1.0), {}, (X,), {}, False),
    ((X, 1.0), {}, (X, 2.0), {}, True),
    ((X,), {"mode": "a"}, (X,), {}, True),
    ((X,), {"mode": "b"}, (X,), {}, False),
    ((X,), {"k": 1.0}, (X,), {"k": 2.0}, True),
    ((X,), {"k": 1.0}, (X,), {"j": 2.0}, False),
    (({"a": 1.0, "b": 2.0},), {}, ({"a": 3.0, "b": 2.0},), {}, True),
    (({"a": 1.0, "b": 2.0},), {}, ({"b": 1.0, "a": 2.0},), {}, False),
    (({"a": 1.0},), {}, ({"a": 1.0, "b": 1.0},), {}, False),
    (({1: 1.0},), {}, ({True: 1.0},), {}, False),
    (({},), {}, ({},), {}, True),
    (([1.0, 2.0],), {}, ((1.0, 2.0),), {}, False),
    (([1.0],), {}, ([1.0, 2.0],), {}, False),
    (((),), {}, ((),), {}, True),
    ((Point(1.0, 2.0),), {}, (Point(3.0, 4.0),), {}, True),
    ((Point(1.0, 2.0),), {}, ((3.0, 4.0),), {}, False),
    ((Model(X, 2.0),), {}, (Model(X, 3.0),), {}, True),
    ((Model(X, 2.0),), {}, (Model(X[0], 3.0),), {}, False),
    ((Box(1.0, "a"),), {}, (Box(2.0, "a"),), {}, True),
    ((Box(1.0, "a"),), {}, (Box(2.0, "b"),), {}, False),
    (([{"w": (X, [1.0])}],), {}, ([{"w": (X, [2.0])}],), {}, True),
    (([{"w": (X, [1.0])}],), {}, ([{"w": (X, [X])}],), {}, False),
]


@pytest.mark.parametrize("case", CASES, ids=[str(i) for i in range(len(CASES))])
def test_guard(case) -> None:
    args, kwargs, others, other_kwargs, hit = case
    entry, matches = guards_for(identity, *args, **kwargs)
    assert entry(*args, **kwargs) == "ran"
    assert matches(*args, **kwargs) is True
    wanted = "ran" if hit else MISS
    assert entry(*others, **other_kwargs) == wanted
    assert matches(*others, **other_kwargs) is (True if hit else MISS)


@pytest.mark.parametrize("case", CASES, ids=[str(i) for i in range(len(CASES))])
def test_key_agrees_with_guard(case) -> None:
    """Where the guard hits, the keys are equal; so no program is made twice."""
    args, kwargs, others, other_kwargs, hit = case
    binder = Binder(identity)
    one, two = binder.bind(args, kwargs), binder.bind(others, other_kwargs)
    same_shapes = [np.shape(r.data) for r in one.raws] == [
        np.shape(r.data) for r in two.raws
    ]
    ints = any(r.countable for r in one.raws)
    assert (one.key == two.key and same_shapes) == hit or ints


def test_guard_has_the_users_signature() -> None:
    def f(a, /, b, *, c=3.0):
        return "ran"

    entry, _ = guards_for(f, 1.0, 2.0)
    assert str(inspect.signature(entry)) == "(a, /, b, *, c=3.0)"
    assert entry(1.0, b=2.0) == "ran"
    with pytest.raises(TypeError, match=r"^f\(\) missing 1 required positional"):
        entry(1.0)


def test_symbolic_sizes() -> None:
    from tracegrad.ir.dims import named

    n, k = named("n"), named("k")

    def f(x, y):
        return "ran"

    entry, _ = guards_for(
        f,
        np.ones((5, 3)),
        np.ones((5, 4)),
        shapes=[(n, 3), (n, k)],
        facts=[SizeFact("==", n, k, False), SizeFact(">=", n, 3, True)],
    )
    shape = lambda a, b: entry(np.ones(a), np.ones(b))
    assert shape((7, 3), (7, 2)) == "ran"
    assert shape((7, 3), (6, 2)) is MISS  # one name, two sizes
    assert shape((7, 2), (7, 2)) is MISS
    assert shape((1, 3), (1, 2)) is MISS  # 1 is never symbolic
    assert shape((4, 3), (4, 4)) is MISS  # n != k was assumed
    assert shape((2, 3), (2, 4)) is MISS  # n >= 3 was assumed
    assert shape((7,), (7, 2)) is MISS


def test_further_guards() -> None:
    state = {"ok": True}
    entry, _ = guards_for(identity, X, guards=[lambda: state["ok"]])
    assert entry(X) == "ran"
    state["ok"] = False
    assert entry(X) is MISS


def test_names_in_the_guard_do_not_collide() -> None:
    def f(_k0, _1, __x):
        return _k0, _1, __x

    entry, _ = guards_for(f, 1.0, "s", [2.0])
    assert entry(5.0, "s", [3.0]) == (5.0, "s", [3.0])


# --------------------------------------------------------------- sizes that vary
def shapes_of(*calls, **settings):
    """The shapes planned for the last of several calls."""

    def f(*args):
        return None

    binder, family = Binder(f), Family(**settings)
    for args in calls:
        call = binder.bind(args, {})
        family.observe(call)
    return str(family.plan(call, {"n"}).shapes), family.plan(call, set()).static


def ones(*shapes):
    return tuple(np.ones(s) for s in shapes)


def test_sizes_are_symbolic() -> None:
    assert shapes_of(ones((5, 3)))[0] == "[(m, k)]"
    assert shapes_of(ones((5, 5)))[0] == "[(m, m)]"
    assert shapes_of(ones((5, 5)), ones((6, 5)))[0] == "[(m, k)]"


def test_zero_and_one_stay_numbers() -> None:
    assert shapes_of(ones((1, 3)))[0] == "[(1, m)]"
    assert shapes_of(ones((1, 3)), ones((5, 3)))[0] == "[(m, k)]"
    assert shapes_of(ones((4, 3)), ones((0, 3)))[0] == "[(0, m)]"


def test_equal_sizes_share_a_name_until_they_differ() -> None:
    calls = [ones((4, 2), (4,), (4,)), ones((5, 2), (5,), (5,))]
    assert shapes_of(*calls)[0] == "[(m, k), (m,), (m,)]"
    calls.append(ones((5, 2), (5,), (7,)))
    assert shapes_of(*calls)[0] == "[(m, k), (m,), (p,)]"
    calls.append(ones((9, 2), (8,), (8,)))
    assert shapes_of(*calls)[0] == "[(m, k), (p,), (q,)]"
    calls.append(ones((9, 2), (9,), (9,)))  # once split, a name stays split
    assert shapes_of(*calls)[0] == "[(m, k), (p,), (q,)]"


def test_fixed_axes_and_ints() -> None:
    calls = [ones((4,), (4,)), ones((5,), (5,))]
    assert shapes_of(*calls, fixed_axes={(0, 0)})[0] == "[(5,), (m,)]"
    assert shapes_of((3,))[1] == {0}
    assert shapes_of((3,), (3,))[1] == {0}
    assert shapes_of((3,), (4,))[1] == set()
    assert shapes_of((3,), (4,), fixed_scalars={0})[1] == {0}


def test_size_names_do_not_end() -> None:
    names = size_names({"n", "k"})
    assert [next(names) for _ in range(5)] == ["m", "p", "q", "n_2", "m_2"]


def test_static_and_leaves() -> None:
    tree = Binder(lambda p: p).bind(([1.0, "a", None, 2**70],), {}).parameters[0].tree
    assert [type(c) for c in tree.children] == [Leaf, Static, Static, Static]
    assert len(list(leaves(tree))) == 1
