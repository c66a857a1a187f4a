"""Nothing stale: what a function reads besides its arguments may change at any time."""

import array
import collections
import dataclasses
import os
import types

import numpy as np
import pytest

import tracegrad as tg

X = np.array([1.0, -2.0])
DATA = np.array([1.0, 2.0])
NESTED = {"a": {"b": {"c": [np.array([1.0, -1.0])]}}}
K = 3.0
LOG: list[float] = [1.0]
SET = {1.0}
QUEUE = collections.deque([1.0])
TABLE = collections.defaultdict(float, a=1.0)
SPACE = types.SimpleNamespace(v=1.0, w=np.ones(2))


def agree(f, change, calls: int = 3) -> None:
    """Compare with the function itself, before each change and after it."""
    g = tg.compile(f)
    for i in range(calls):
        for _ in range(2):
            np.testing.assert_array_equal(g(X), f(X))
        change(i)


def sign(i: int) -> None:
    DATA[0] = -DATA[0]


def through_a_variable(x):
    first = DATA[0]
    for _ in range(2):
        first = first + 0.0
    if first > 0:
        return x
    return -x


def chosen(v):
    return 1.0 if v[0] > 0 else 2.0


def rebind(i: int) -> None:
    global K
    K = float(i)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x if DATA[0] > 0 else -x,
        lambda x: x if not DATA[0] > 0 else -x,
        lambda x: x if x[0] > 0 and DATA[0] > 0 else -x,
        lambda x: x * float(DATA[0]),
        lambda x: x * int(DATA[0]),
        lambda x: x * DATA.tolist()[0],
        lambda x: x * DATA.item(0),
        lambda x: x * max(DATA),
        lambda x: x * sorted(DATA)[0],
        lambda x: x * len(f"{DATA[0]}"),
        lambda x: x if (DATA > 0).all() else -x,
        lambda x: x if np.all(DATA > 0) else -x,
        lambda x: x if DATA.sum() + 1.0 > 2.0 else -x,
        lambda x: x * DATA[0],
        lambda x: sum(x * v for v in DATA),
        lambda x: sum(x for v in DATA if v > 0) + x,
        lambda x: x[int(DATA[0] > 0)] * x,
        lambda x: x * chosen(DATA),
        lambda x: x + DATA,
        through_a_variable,
    ],
)
def test_content_of_captured_arrays(f) -> None:
    agree(f, sign)


@pytest.mark.parametrize(
    ("f", "change"),
    [
        (lambda x: x * K, rebind),
        (lambda x: x * 2.0 if K > 1 else x, rebind),
        (lambda x: x * sum(LOG), lambda i: LOG.append(1.0)),
        (lambda x: x * len(LOG), lambda i: LOG.append(1.0)),
        (lambda x: x * sum(SET), lambda i: SET.add(i + 9.0)),
        (lambda x: x * sum(QUEUE), lambda i: QUEUE.append(1.0)),
        (lambda x: x * TABLE["a"], lambda i: TABLE.update(a=i + 4.0)),
        (lambda x: x * SPACE.v, lambda i: setattr(SPACE, "v", i + 2.0)),
        (
            lambda x: x if SPACE.w[0] > 0 else -x,
            lambda i: SPACE.w.__setitem__(0, -SPACE.w[0]),
        ),
        (
            lambda x: x if NESTED["a"]["b"]["c"][0][0] > 0 else -x,
            lambda i: np.negative(NESTED["a"]["b"]["c"][0], NESTED["a"]["b"]["c"][0]),
        ),
    ],
)
def test_what_changes_between_calls(f, change) -> None:
    agree(f, change)


@dataclasses.dataclass(slots=True)
class Slotted:
    rate: float = 2.0
    late: float = dataclasses.field(init=False)


class Plain:
    __slots__ = ("rate",)


class Below(Plain):
    """It has a `__dict__` besides the slots."""


class Model:
    def scale(self, x):
        return x * 2.0

    @property
    def bias(self):
        return 1.0

    @staticmethod
    def shift(x):
        return x + 1.0

    @classmethod
    def halved(cls, x):
        return x / 2.0

    def __call__(self, x):
        return self.scale(x) + self.bias


SLOTTED, PLAIN, BELOW = Slotted(), Plain(), Below()
PLAIN.rate = BELOW.rate = 2.0
IN_LIST = [Slotted()]
MADE = types.ModuleType("made")
MADE.rate = 2.0
INNER = {"rate": 2.0}
PROXIED = types.MappingProxyType(INNER)
CHAINED = collections.ChainMap({}, INNER)
RAW, BYTES = array.array("d", [2.0, np.nan]), bytearray(b"12")


@pytest.mark.parametrize(
    ("f", "change"),
    [
        (lambda x: x * SLOTTED.rate, lambda i: setattr(SLOTTED, "rate", i + 3.0)),
        (lambda x: x * PLAIN.rate, lambda i: setattr(PLAIN, "rate", i + 3.0)),
        (lambda x: x * BELOW.rate, lambda i: setattr(BELOW, "rate", i + 3.0)),
        (
            lambda x: x * IN_LIST[0].rate,
            lambda i: setattr(IN_LIST[0], "rate", i + 3.0),
        ),
        (
            lambda x: x * getattr(SLOTTED, "late", 1.0),
            lambda i: setattr(SLOTTED, "late", i + 3.0),
        ),
        (lambda x: x * MADE.rate, lambda i: setattr(MADE, "rate", i + 3.0)),
        (
            lambda x: x * getattr(MADE, "late", 1.0),
            lambda i: setattr(MADE, "late", i + 3.0),
        ),
        (lambda x: x * PROXIED["rate"], lambda i: INNER.update(rate=i + 3.0)),
        (lambda x: x * CHAINED["rate"], lambda i: INNER.update(rate=i + 7.0)),
        (lambda x: x * RAW[0], lambda i: RAW.__setitem__(0, i + 3.0)),
        (lambda x: x * BYTES[0], lambda i: BYTES.__setitem__(0, i + 60)),
    ],
)
def test_other_holders_of_values(f, change) -> None:
    agree(f, change)


@pytest.mark.parametrize(
    ("name", "new", "on_class"),
    [
        ("scale", lambda self, x: x * 5.0, True),
        ("scale", lambda x: x * 7.0, False),
        ("bias", property(lambda self: 9.0), True),
        ("__call__", lambda self, x: x * 11.0, True),
        ("shift", staticmethod(lambda x: x + 13.0), True),
        ("shift", lambda x: x + 13.0, False),
        ("halved", classmethod(lambda cls, x: x / 17.0), True),
        ("extra", 19.0, False),
        ("extra", 19.0, True),
        ("flag", True, False),
    ],
)
def test_methods_and_attributes_that_are_replaced(monkeypatch, name, new, on_class):
    model = Model()

    def f(x):
        out = model(x) + model.shift(x) * getattr(model, "extra", 1.0)
        return -out if hasattr(model, "flag") else out + model.halved(x)

    where = Model if on_class else model
    g = tg.compile(f)
    for _ in range(2):
        np.testing.assert_array_equal(g(X), f(X))
    with monkeypatch.context() as patch:
        patch.setattr(where, name, new, raising=False)
        for _ in range(2):
            np.testing.assert_array_equal(g(X), f(X))
    np.testing.assert_array_equal(g(X), f(X))


def test_arrays_that_are_only_computed_with_are_not_guarded() -> None:
    data = np.ones((4, 2))

    def f(w):
        h = data @ w
        return np.sum(h) if h[0] > 0 else -np.sum(h)

    g = tg.grad(f)
    for i in range(4):
        np.testing.assert_allclose(g(np.ones(2)), data.sum(axis=0))
        data[1, 0] += i
    assert len(g.specializations()) == 1


def test_the_order_of_a_dict() -> None:
    for kind in (dict, collections.OrderedDict):
        rates = kind(a=1.0, b=2.0)

        def f(x, rates=rates):
            for key, rate in rates.items():
                x = x * rate + ord(key)
            return x

        g = tg.compile(f)
        for _ in range(3):
            assert g(1.5) == f(1.5)
            rates["a"] = rates.pop("a")


def test_environment_variables(monkeypatch) -> None:
    def f(x):
        return x * float(os.environ.get("RATE", "1")) * float(os.getenv("SCALE", "2"))

    g = tg.compile(f)
    assert g(1.5) == f(1.5)
    for name, value in (("RATE", "3"), ("SCALE", "5"), ("RATE", "7")):
        monkeypatch.setenv(name, value)
        assert g(1.5) == f(1.5)
    assert len(g.specializations()) <= 4


def test_an_attribute_that_the_function_sets_is_there_in_the_next_call() -> None:
    class State:
        pass

    state = State()

    def f(x):
        seen = np.sum(x * state.scale) if hasattr(state, "scale") else np.sum(x)
        state.scale = 2.0
        return seen

    g = tg.value_and_grad(f)
    x = np.ones(3)
    for wanted in (1.0, 2.0, 2.0):
        value, d_x = g(x)
        assert value == 3.0 * wanted
        np.testing.assert_array_equal(d_x, [wanted] * 3)
