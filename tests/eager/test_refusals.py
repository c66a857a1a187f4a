"""What PyTorch refuses and NumPy takes, and subscripts that they read differently."""

import pytest
from eager.both import agree

VALUES = {
    "x": "t.tensor([1.0, 2.0, 3.0])",
    "h": "t.tensor([True, False, True])",
    "i": "t.tensor([7, -7, 2])",
    "j": "t.tensor([0, 2, -4])",
    "u": "t.tensor([200, 100, 3], dtype=t.uint8)",
    "c": "t.tensor([3, 100, 3], dtype=t.int8)",
    "m": "t.arange(12.0).reshape(3, 4)",
    "leaf": "t.arange(12.0).reshape(3, 4).requires_grad_()",
}
NUMBERS = """
x - h | h - x | h - h | h - 1 | 1 - h | h - True | x - True | True - x | x.sub(h) | -h
t.rsub(h, 1) | t.rsub(x, h) | x.sub_(h) | x.neg() | t.sub(h, h) | h ^ True | i - 1
i // 0 | i % 0 | i // j | i % j | 1 // j | 1 % j | t.fmod(i, 0) | i.fmod(j) | u // 0
i.floor_divide_(0) | i.remainder_(j) | i.floor_divide_(j) | x // 0 | x % 0 | j // i
t.div(i, 0, rounding_mode="floor") | t.div(i, 0, rounding_mode="trunc") | u % 7
t.div(i, 2, rounding_mode="trunc") | t.div(i, j + 1, rounding_mode="trunc") | x.fmod(0)
t.div(x, -2, rounding_mode="trunc") | t.div(i, -2, rounding_mode="floor") | h // h
h // True | h % True | h % h | t.fmod(h, True) | h // 2 | h % 2 | h ** h | h / h
u.sum() | u.prod() | u.cumsum(0) | u.cumprod(0) | t.nansum(u) | u.reshape(1, 3).trace()
u.reshape(1, 3).sum(1) | u.reshape(1, 3).prod(1) | u.sum(dtype=t.uint8) | c.sum()
c.sum(dtype=t.int8) | u.prod(dtype=t.int32) | u.cumsum(0, dtype=t.int16) | u.any()
u.all() | u.reshape(1, 3).all(1) | c.all() | h.sum() | h.any() | h.cumsum(0)
u.count_nonzero()
"""
LAYERS_AND_PLACES = """
F.layer_norm(t.ones(1, 3), (2,)) | F.layer_norm(t.ones(1, 3), (1, 3), t.ones(3))
F.layer_norm(t.ones(1, 3), (3,), t.ones(2))
F.layer_norm(t.ones(1, 3), (3,), t.ones(3), t.ones(1)) | F.layer_norm(t.ones(1, 3), [])
F.layer_norm(t.ones(1, 3), 3) | F.layer_norm(t.ones(3), (1, 3))
F.conv2d(t.ones(1, 3, 4, 4), t.ones(3, 1, 3, 3), groups=2)
F.conv2d(t.ones(1, 4, 4, 4), t.ones(3, 2, 3, 3), groups=2)
F.conv2d(t.ones(1, 3, 4, 4), t.ones(3, 2, 3, 3))
F.conv2d(t.ones(1, 3, 4, 4), t.ones(3, 3, 5, 5))
F.conv2d(t.ones(1, 3, 4, 4), t.ones(3, 3, 2, 2), t.ones(2))
F.conv2d(t.ones(3, 4), t.ones(3, 3, 2, 2))
F.conv2d(t.ones(1, 3, 4, 4), t.ones(3, 3, 2))
F.conv2d(t.ones(1, 3, 4, 4), t.ones(3, 3, 2, 2), groups=0)
F.conv2d(t.ones(1, 3, 4, 4), t.ones(3, 3, 2, 2), stride=0)
F.conv2d(t.ones(1, 3, 4, 4), t.ones(3, 3, 2, 2), padding=-1)
F.conv2d(t.ones(1, 3, 4, 4), t.ones(3, 3, 2, 2).double()) | F.one_hot(t.tensor([3]), 2)
F.one_hot(t.tensor([-1]), 2) | F.one_hot(t.tensor([-1])) | F.one_hot(t.tensor([1.0]))
F.one_hot(t.tensor([1]), 0) | F.batch_norm(t.ones(1, 3), None, None, training=True)
F.batch_norm(t.ones(1, 3, 1), None, None, training=True)
F.batch_norm(t.ones(1, 3, 2), None, None, training=True).shape
F.batch_norm(t.ones(2, 3), t.ones(2), t.ones(3))
F.batch_norm(t.ones(2, 3), t.ones(3), t.ones(2))
F.batch_norm(t.ones(2, 3), t.ones(3), t.ones(3), t.ones(2))
F.batch_norm(t.ones(2, 3), t.ones(3), t.ones(3), None, t.ones(2))
F.batch_norm(t.ones(2, 3), None, None)
F.batch_norm(t.ones(3), None, None, training=True)
t.ones(3, 3).index_add(0, t.tensor([0, 1]), t.ones(1, 3))
t.ones(3, 3).index_add(0, t.tensor([0, 1]), t.ones(2, 2))
t.ones(3, 3).index_add(0, t.tensor([0, 5]), t.ones(2, 3))
t.ones(3, 3).index_add(0, t.tensor([0, -1]), t.ones(2, 3))
t.ones(3, 3).index_add(0, t.tensor([0, 1]), t.ones(2, 3).double())
t.ones(3, 3).index_add(0, t.tensor([0.0, 1]), t.ones(2, 3))
t.ones(3, 3).index_add(0, t.tensor([[0, 1]]), t.ones(2, 3))
t.ones(3, 3).index_copy(0, t.tensor([0, 1]), t.ones(1, 3))
t.ones(3, 3).index_copy(0, t.tensor([0, 1]), t.ones(2, 2))
t.ones(3, 3).index_copy(0, t.tensor([0, -1]), t.ones(2, 3))
t.ones(3, 3).index_copy(0, t.tensor([0, 1]), t.ones(2, 3).double())
t.ones(3, 3).gather(0, t.tensor([[-1]])) | t.ones(3, 3).gather(0, t.tensor([[3]]))
t.ones(3, 3).scatter(0, t.tensor([[-1]]), 2.0)
t.ones(3, 3).scatter(0, t.tensor([[4]]), 2.0)
t.ones(3, 3).scatter(0, t.tensor([[0]]), t.ones(1, 1).double())
t.ones(3, 3).scatter_add(0, t.tensor([[0]]), t.ones(1, 1).double())
t.ones(3, 3).scatter_add(0, t.tensor([[-1]]), t.ones(1, 1))
t.ones(3, 3).scatter_add(0, t.tensor([[0, 1]]), t.ones(1, 1))
t.ones(3, 3).scatter(0, t.tensor([[0, 1]]), t.ones(1, 1))
t.ones(3, 3).take(t.tensor([-1])) | t.where(t.ones(2), t.ones(2), t.zeros(2))
t.where(t.tensor([1, 0]), t.ones(2), t.zeros(2))
t.where(t.tensor([1, 0], dtype=t.uint8), t.ones(2), t.zeros(2))
t.ones(2).masked_fill(t.ones(2), 1.0)
"""
SUBSCRIPTS = """
[[0, 1], [1, 2]] | [[0, 1]] | [0, 1] | [[0], [1], [2]] | [slice(0, 2), 1] | [None, 0]
[0, slice(0, 2)] | [True, False, True] | [t.tensor([0, 1]), t.tensor([1, 2])] | [..., 0]
[t.tensor(0), t.tensor(1)] | [] | [[]] | [(0, 1), (1, 2)] | ([0, 1], [1, 2])
[[0, 1], 1] | ((0, 1), 1) | True | False | (True, 0) | (0, True) | t.tensor(True)
(True, t.tensor([2])) | (0, False) | (slice(None), True) | (None, True, 1)
"""
WRITTEN = [
    *[
        "None",
        "1j",
        "'a'",
        "[1.0]",
        "(1.0, 2.0)",
        "2.5",
        "True",
        "2 + 0j",
        "1e300",
        "{}",
    ],
    *["float('nan')", "-1", "300", "t.tensor(2.0)", "t.tensor(1j)", "range(2)"],
]


def listed(text):
    return [e.strip() for line in text.strip().splitlines() for e in line.split(" | ")]


def values(t):
    return {"t": t, "F": t.nn.functional} | {
        k: eval(e, {"t": t}) for k, e in VALUES.items()
    }


@pytest.mark.parametrize("expression", listed(NUMBERS + LAYERS_AND_PLACES))
def test_numbers(expression):
    agree(lambda t: eval(expression, values(t)))


@pytest.mark.parametrize("key", listed(SUBSCRIPTS))
def test_subscripts(key):
    def program(t):
        names = values(t)
        k, x, m = eval(key, names), names["leaf"], names["m"]
        made = x[k]
        (made * made).sum().backward()
        m[k] = 50.0
        y = x * 2
        y[k] = 3.0
        first = x.grad.clone()
        (y * y).sum().backward()
        return made, first, m, x.grad

    agree(program)


@pytest.mark.parametrize("value", WRITTEN)
@pytest.mark.parametrize("name", ["x", "i", "u", "h"])
def test_what_an_element_can_be(value, name):
    def program(t):
        names = values(t)
        x = names[name]
        x[0] = eval(value, names)
        return x

    agree(program)


@pytest.mark.parametrize("value", WRITTEN)
def test_what_can_be_filled_in(value):
    def program(t):
        names = values(t)
        return [names[k].fill_(eval(value, names)) for k in "xh"]

    agree(program, text="'" not in value and value[0] not in "[(N{r")


@pytest.mark.parametrize("value", [*WRITTEN, "t.ones(3)", "t.ones(1, 3)", "t.ones(2)"])
def test_what_can_be_copied(value):
    def program(t):
        names = values(t)
        y = names["leaf"] * 1
        y[0].copy_(eval(value, names))
        y.sum().backward()
        return y, names["leaf"].grad

    agree(program, text="ones" not in value)
