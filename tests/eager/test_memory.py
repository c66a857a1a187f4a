"""Changes in place of memory that is read elsewhere: operands, windows, leaves."""

import pytest
from eager.both import agree, checks


def _ends(t, change):
    """The values after a change, and the gradient through it."""
    x = t.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    y = x * 1
    change(y)
    (y * t.arange(4.0)).sum().backward()
    return y, x.grad


# What is written to is also read: PyTorch refuses where the old value is needed.
READS_ITSELF = {
    "view": lambda v, y: v.mul_(v),
    "whole": lambda v, y: y.mul_(y),
    "other_view": lambda v, y: v.mul_(y[:2]),
    "rest": lambda v, y: v.mul_(y[2:]),
    "of_it": lambda v, y: v.div_(v + 1),
    "sum": lambda v, y: v.add_(v),
    "quotient": lambda v, y: v.div_(v),
    "operator": lambda v, y: v.__imul__(v),
    "item": lambda v, y: y.__setitem__(slice(2), y[:2] * y[:2]),
    "windows": lambda v, y: (w := y.unfold(0, 2, 2)).mul_(w),
    "product_added": lambda v, y: v.addcmul_(v, v),
    "whole_product_added": lambda v, y: y.addcmul_(y, y),
    "copy": lambda v, y: v.copy_(v * v),
    "power": lambda v, y: v.pow_(v),
    "detached": lambda v, y: v.mul_(v.detach()),
    "clone": lambda v, y: v.mul_(v.clone()),
}


@pytest.mark.parametrize("name", READS_ITSELF)
def test_operands_that_are_written_to(name):
    agree(lambda t: _ends(t, lambda y: READS_ITSELF[name](y[:2], y)))


@pytest.mark.parametrize("name", ["view", "operator", "quotient"])
def test_generated_code_refuses_them_too(name):
    import tracegrad.eager as ours

    for _ in range(3):
        y = ours.tensor([1.0, 2.0, 3.0], requires_grad=True) * 1
        READS_ITSELF[name](y[:2], y)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward(compiled=True)


def only_a_constant_behind_it(t):
    w = t.ones(2, requires_grad=True)
    y = t.tensor([1.0, 2.0, 3.0])
    v = y[:2]
    v.mul_(w)
    v.addcmul_(v, w)
    y.sum().backward()
    return y, w.grad


# ------------------------------------------------------------------ windows and strides
def windows_are_views(t):
    base = t.arange(12.0).reshape(3, 4)
    w = base.unfold(1, 2, 1)
    w[0, 0] = 9
    base[0, 1] = 7
    turned = base.t().unfold(0, 2, 2)
    turned.mul_(2)
    return base, w, turned, w.stride(), w._is_view(), w.data_ptr() == base.data_ptr()


def strides_are_views(t):
    base = t.arange(12.0).reshape(3, 4)
    s = base.as_strided((2, 2), (4, 1))
    s.zero_()
    s = base.as_strided((2,), (5,), 2)
    s += 1
    row = base[1:]
    of_view = [row.as_strided((2, 2), (1, 4)), row.as_strided((2,), (1,), 0)]
    return base, s, s.storage_offset(), of_view, base.t().as_strided((2,), (1,))


def _with_gradient(change):
    def program(t):
        x = t.arange(6.0).reshape(2, 3).requires_grad_()
        y = x * 1
        z = change(t, y)
        (y * t.arange(6.0).reshape(2, 3)).sum().backward()
        names = [type(a.grad_fn).__name__ for a in (y, z)]
        return y, z, names, x.grad

    return program


def second_order_through_windows(t):
    x = t.arange(6.0).reshape(2, 3).requires_grad_()
    (g,) = t.autograd.grad((x.unfold(1, 2, 1) ** 3).sum(), x, create_graph=True)
    y = x * 1
    y.unfold(0, 2, 1)[0].exp_()
    (h,) = t.autograd.grad(y.sum(), x, create_graph=True)
    (g.sum() + h.sum()).backward()
    return g.detach(), h.detach(), x.grad


test_with_a_constant = checks(
    only_a_constant_behind_it,
    windows_are_views,
    strides_are_views,
    second_order_through_windows,
)

CHANGED = {
    "windows_tripled": lambda t, y: y.unfold(1, 2, 2).mul_(3),
    "strides_scaled": lambda t, y: (z := y.as_strided((2, 2), (3, 1))).mul_(
        z.detach().clone() * 2
    ),
    "base_changed": lambda t, y: (z := y.unfold(1, 2, 1), y.mul_(2), z)[2],
    "windows_of_windows": lambda t, y: y.unfold(1, 2, 1).unfold(0, 2, 1)[0, 0].zero_(),
}


@pytest.mark.parametrize("name", CHANGED)
def test_changes_through_windows(name):
    agree(_with_gradient(CHANGED[name]))


def beyond_the_memory(t):
    return t.ones(3).as_strided((2,), (3,))


def one_place_for_several(t):
    return t.ones(3).as_strided((3, 3), (0, 1)).add_(1)


test_refused = checks(beyond_the_memory, one_place_for_several, text=False)


def test_source_of_windows_runs():
    import tracegrad.eager as ours

    x = ours.arange(6.0).reshape(2, 3).requires_grad_()
    loss = (x.unfold(1, 2, 1) ** 2).sum()
    text = str(loss.source())
    loss.backward()
    assert "x" in text and x.grad.tolist() == [[0.0, 4.0, 4.0], [6.0, 16.0, 10.0]]


# -------------------------------------------------------------------- views of a leaf
LEAVES = {
    "row": lambda t, x: x[0].zero_(),
    "whole": lambda t, x: x.add_(1),
    "item": lambda t, x: x.__setitem__(0, 1),
    "turned": lambda t, x: x.unsqueeze(0)[0].t().add_(1),
    "windows": lambda t, x: x.unfold(1, 2, 1).zero_(),
    "of_a_copy": lambda t, x: x.t().reshape(-1)[:2].zero_(),
    "of_a_contiguous_copy": lambda t, x: x.t().contiguous()[0].add_(1),
    "of_a_result": lambda t, x: (x * 2)[0].add_(1),
    "in_a_loop": lambda t, x: (z := (x * 2).view(6)[1:], z[1:].mul_(2), z.add_(1))[2],
}


@pytest.mark.parametrize("name", LEAVES)
@pytest.mark.parametrize("recorded", [True, False])
def test_a_leaf_that_is_a_view(name, recorded):
    def program(t):
        x = t.arange(6.0).reshape(2, 3).requires_grad_()
        with t.set_grad_enabled(recorded):
            LEAVES[name](t, x)
        (x**2).sum().backward()
        return x, x.is_leaf, x.grad

    agree(program)
