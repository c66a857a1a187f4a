"""Changes in place, views and version counters: the same as in PyTorch, live."""

import pytest
from eager.both import agree, ours, torch


def leaf(t, *values, **options):
    return t.tensor(values or (0.5, 1.0, 2.0), requires_grad=True, **options)


def name(x):
    return None if x.grad_fn is None else type(x.grad_fn).__name__


def chain(t):
    x = leaf(t)
    y = x * 2
    y += 1
    y *= x
    y -= x
    y /= 2
    names = name(y)
    y.sum().backward()
    return [y, names, x.grad, y._version]


def self_product(t):
    x = leaf(t)
    y = x * 1
    y.mul_(y)
    y.sum().backward()
    return x.grad


def functions(t):
    x = leaf(t)
    made = []
    for f in ("exp_", "sin_", "sqrt_", "tanh_", "neg_", "abs_", "square_", "log_"):
        y = x * 1.5
        getattr(y, f)()
        made.append((y, name(y)))
        y.sum().backward()
    return [made, x.grad]


def by_a_leaf(t):
    x, w = leaf(t), leaf(t, 3.0, 4.0, 5.0)
    y = x * 1
    y.mul_(w)
    y.add_(w, alpha=2)
    y.sum().backward()
    return [x.grad, w.grad]


def constant_gets_history(t):
    w = leaf(t)
    a = t.zeros(2, 3)
    a += w
    (a * a).sum().backward()
    return [a, name(a), w.grad]


def row_of_a_constant(t):
    w = leaf(t)
    a = t.zeros(2, 3)
    row = a[0]
    row += w
    names = [name(a), name(row)]
    (a * t.arange(6.0).view(2, 3)).sum().backward()
    return [a, row, names, w.grad, row._version, a._version]


def view_after_base(t):
    x = leaf(t)
    y = x * 2
    v, u = y[1:], y.view(3, 1)
    y.mul_(3)
    names = [name(v), name(u)]
    (v.sum() + (u * u).sum()).backward()
    return [v, u, names, x.grad]


def base_after_view(t):
    x = leaf(t)
    y = x.clone()
    v = y[1:]
    v.mul_(3)
    v.exp_()
    names = [name(y), name(v), [(n is None) for n, _ in y.grad_fn.next_functions]]
    y.sum().backward()
    return [y, names, x.grad]


def view_of_a_view(t):
    x = t.arange(12.0).view(3, 4).requires_grad_()
    y = x * 1
    v = y.t()[1:3]
    w = v[:, 0]
    w.mul_(x[0, :2])
    names = [name(y), name(v), name(w)]
    (y * y).sum().backward()
    return [y, v, w, names, x.grad]


def squeezed(t):
    x = t.ones(1, 3, requires_grad=True)
    y = x * 2
    y.squeeze(0).mul_(t.tensor([1.0, 2.0, 3.0]))
    y.unsqueeze(1)[0, 0].add_(1)
    y.sum().backward()
    return [y, x.grad]


def expanded_view(t):
    x = leaf(t)
    y = x * 2
    v = y.expand(2, 3)
    y.mul_(x)
    v.sum().backward()
    return [v, x.grad]


def assignments(t):
    x, w = leaf(t), leaf(t)
    y = x * 2
    y[0] = w[1] * w[2]
    y[1:] = w[:2]
    names = name(y)
    (y * t.tensor([1.0, 10.0, 100.0])).sum().backward()
    return [y, names, x.grad, w.grad]


def assignment_of_numbers(t):
    x = leaf(t)
    y = x * 2
    y[1] = 7
    y[2:] = 1.5
    y.sum().backward()
    return [y, x.grad]


def fancy_assignment(t):
    x, w = leaf(t), leaf(t)
    y = x * 2
    y[[0, 2]] = w[:2]
    y[t.tensor([False, True, False])] = w[2]
    names = name(y)
    y.sum().backward()
    return [y, names, x.grad, w.grad]


def assignment_broadcasts(t):
    x = leaf(t)
    a = t.zeros(2, 3, 3)
    a[:, 1] = x
    a[0] = x * 2
    a[..., 0] = 5.0
    (a * a).sum().backward()
    return [a, x.grad]


def plain_assignment(t):
    a = t.zeros(3, 4)
    a[0] = 1
    a[1, 2] = 5
    a[:, 3] = t.tensor([1.0, 2.0, 3.0])
    a[a > 2] = -1
    a[t.tensor([0, 2]), t.tensor([1, 1])] = 9
    return [a, a._version > 0]


def zeroed(t):
    x = leaf(t)
    y = x * 2
    y.zero_()
    names = [name(y)]
    y.sum().backward()
    z = x * 2
    z.fill_(3.0)
    return [y, x.grad, names, name(z), z]


def copied(t):
    x, w = leaf(t), leaf(t, 5.0)
    y = x * 2
    y.copy_(w)
    y.sum().backward()
    d = t.zeros(3, dtype=t.float64)
    d.copy_(x)
    return [y, name(y), x.grad, w.grad, d, name(d)]


def dtype_kept(t):
    x = leaf(t)
    y = x * 1
    y.mul_(t.ones(3, dtype=t.float64, requires_grad=True))
    i = t.tensor([1, 2])
    i += 1
    i *= t.tensor([2, 2], dtype=t.int32)
    return [y, i]


def harmless(t):
    x = leaf(t)
    y = x + 1
    y.mul_(3.0)
    y += x
    y.sum().backward()
    return x.grad


def data_is_not_counted(t):
    x = leaf(t)
    w = t.ones(3)
    y = (x * w).sum()
    w.data.mul_(2)
    before = w._version
    y.backward()
    return [x.grad, before, w.data._version]


def detach_is_counted(t):
    x = leaf(t)
    w = t.ones(3)
    y = (x * w).sum()
    w.detach().mul_(2)
    return y.backward()


def view_is_counted(t):
    x = leaf(t)
    w = t.ones(3)
    y = (x * w).sum()
    w[0] = 3
    return y.backward()


def result_is_counted(t):
    x = leaf(t)
    y = x.clone()
    y.exp_()
    y.add_(1)
    return y.sum().backward()


def not_needed_is_not_counted(t):
    x, w = leaf(t), t.ones(3)
    y = x * 2
    z = y * w
    y.add_(1)
    z.sum().backward()
    return x.grad


def leaf_under_no_grad(t):
    x = leaf(t)
    with t.no_grad():
        x -= 0.5
        x[0] = 7
        x.mul_(2)
    (x * x).sum().backward()
    return [x, x.grad, x._version]


def result_under_no_grad(t):
    x = leaf(t)
    y = x * 2
    with t.no_grad():
        y.add_(1)
    y.sum().backward()
    return [y, name(y), x.grad]


def detached_shares(t):
    x = leaf(t)
    d = x.detach()
    d[0] = 9
    e = x.data
    e[1] = 8
    return [x, d._version, x._version, d._is_view(), d.is_leaf]


def bases(t):
    a = t.zeros(2, 3)
    v = a[0]
    u = v[1:]
    return [v._is_view(), v._base is a, u._base is a, a._base is None, a.t()._base is a]


def create_graph_through_slices(t):
    x, w = leaf(t), leaf(t)
    y = x * x
    y[1:].mul_(w[1:] ** 2)
    (g,) = t.autograd.grad((y**2).sum(), x, create_graph=True)
    return [g, *t.autograd.grad(g.sum(), [x, w])]


def create_graph_through_views(t):
    x = leaf(t)
    y = x * x
    v = y[1:]
    y.mul_(x)
    (g,) = t.autograd.grad((v**2).sum(), x, create_graph=True)
    return [g, t.autograd.grad(g.sum(), x)[0]]


def retained_after_change(t):
    x = leaf(t)
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    (y * y).sum().backward()
    return [y.grad, x.grad]


def hook_before_change(t):
    x = leaf(t)
    log = []
    y = x * 2
    y.register_hook(lambda g: log.append(("before", g.clone())))
    y.mul_(3)
    y.register_hook(lambda g: log.append(("after", g.clone())))
    y.sum().backward()
    return log


def detach_in_place(t):
    x = leaf(t)
    y = x * 2
    y.detach_()
    return [y, y.is_leaf]


def new_data(t):
    x = leaf(t)
    x.data = t.tensor([7.0, 8.0])
    (x * x).sum().backward()
    return [x, x.grad]


def ipow(t):
    x = leaf(t)
    y = x * 1
    y **= 2
    y %= 3
    y.sum().backward()
    return [y, x.grad]


PROGRAMS = [
    f
    for key, f in list(globals().items())
    if getattr(f, "__module__", None) == __name__ and key not in ("leaf", "name")
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_same(program):
    agree(program)


def test_filling_without_recording_keeps_the_name():
    for t in (ours, torch):
        x = t.ones(2, requires_grad=True) / 2
        with t.no_grad():
            x.zero_()
        assert x.grad_fn.name() == "DivBackward0"


WRITES_TWICE = {
    "setitem": lambda t, y, i, x: y.__setitem__(i, x * 3),
    "one value": lambda t, y, i, x: y.__setitem__(i, x[1] * 3),
    "index_put": lambda t, y, i, x: y.index_put_((i,), x),
    "index_copy": lambda t, y, i, x: y.index_copy_(0, i, x),
    "scatter": lambda t, y, i, x: y.scatter_(0, i, x),
    "index_fill": lambda t, y, i, x: y.index_fill_(0, i, 2.0),
    "two axes": lambda t, y, i, x: y.view(2, 2).__setitem__((i * 0, i), x),
    "rows": lambda t, y, i, x: y.view(2, 2).__setitem__(i, x[:2].clone()),
}


@pytest.mark.parametrize("name", WRITES_TWICE)
def test_each_value_written_to_one_place_has_its_gradient(name):
    def program(t):
        x = t.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = t.ones(4, requires_grad=True) * x[0]
        WRITES_TWICE[name](t, y, t.tensor([1, 1, 0]), x)
        (y * t.arange(1.0, 5.0)).sum().backward()
        return x.grad

    agree(program)


DIAGONALS = {
    "zero_": lambda t, x: x.diagonal().zero_(),
    "mul_": lambda t, x: x.diagonal().mul_(3),
    "add_": lambda t, x: t.linalg.diagonal(x).add_(t.arange(3.0)),
    "fill_": lambda t, x: x.diagonal(1).fill_(7),
    "setitem": lambda t, x: x.diagonal().__setitem__(..., 4),
    "part": lambda t, x: x.diagonal()[1:].mul_(2),
    "copy_": lambda t, x: x.diagonal().copy_(t.arange(3.0)),
    "axes": lambda t, x: x.view(3, 3, 1).diagonal(0, 1, 0).exp_(),
    "numpy": lambda t, x: x.detach().diagonal().numpy().__setitem__(0, 9),
}


@pytest.mark.parametrize("name", DIAGONALS)
@pytest.mark.parametrize("mode", ["plain", "leaf", "recorded"])
def test_diagonals_are_written_to(name, mode):
    def program(t):
        x = t.arange(1.0, 10.0).reshape(3, 3)
        if mode == "plain":
            DIAGONALS[name](t, x)
            return x
        x.requires_grad_()
        if mode == "leaf":
            with t.no_grad():
                DIAGONALS[name](t, x)
            (x**2).sum().backward()
            return x, x.grad
        y = x * 2
        DIAGONALS[name](t, y)
        (y**2).sum().backward()
        return y, x.grad

    agree(program)
