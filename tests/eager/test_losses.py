"""Losses and tables, live beside PyTorch: ends, refusals, changes in place."""

import re

import pytest
from eager.both import agree

VALUES = {
    "x": "t.tensor([[0.5, -1.0, 2.0], [0.1, 0.2, -0.3]], requires_grad=True)",
    "p": "t.tensor([[0.5, 0.1, 0.9], [0.3, 0.2, 0.7]], requires_grad=True)",
    "b": "(t.arange(12.0).reshape(2, 3, 2) / 7).requires_grad_()",
    "v": "t.tensor([0.5, -1.0, 2.0], requires_grad=True)",
    "y": "t.tensor([[0.4, 0.2, 0.4], [0.1, 0.6, 0.3]])",
    "s": "t.tensor([[1.0, -1.0, 1.0], [-1.0, 1.0, 1.0]])",
    "w": "t.tensor([1.0, 2.0, 0.5])",
    "n": "t.tensor([2, 0])",
    "k": "t.tensor([[2, 0], [1, 1]])",
    "u": "t.tensor([2, 0], dtype=t.uint8)",
}
WATCHED = """
F.mse_loss(x, y) | F.mse_loss(x, y, reduction="none") | F.l1_loss(x, y)
F.smooth_l1_loss(x, y) | F.smooth_l1_loss(x, y, beta=0.0) | F.huber_loss(x, y)
F.nll_loss(x, n) | F.nll_loss(x, n, w) | F.nll_loss(x, n, reduction="sum")
F.nll_loss(x, n, ignore_index=2) | F.cross_entropy(x, n) | F.cross_entropy(x, n, w)
F.cross_entropy(x, n, reduction="none") | F.cross_entropy(x, n, label_smoothing=0.1)
F.cross_entropy(x, y) | F.nll_loss(x, u) | F.cross_entropy(b, k)
F.binary_cross_entropy(p, y) | F.binary_cross_entropy(p, y, s)
F.binary_cross_entropy_with_logits(x, y)
F.binary_cross_entropy_with_logits(x, y, s, pos_weight=w) | F.kl_div(x, y)
F.kl_div(x, y, log_target=True) | F.poisson_nll_loss(x, y) | F.soft_margin_loss(x, s)
F.gaussian_nll_loss(x, y, p.detach()) | F.hinge_embedding_loss(x, s)
F.multilabel_soft_margin_loss(x, y) | F.multilabel_soft_margin_loss(x, y, w)
F.embedding(n, x) | F.embedding(k, b[:, :, 0]) | F.margin_ranking_loss(x, p, s)
F.triplet_margin_loss(x, y, s)
"""
REFUSED = """
F.cross_entropy(x, n[:1]) | F.nll_loss(x, k[:1]) | F.nll_loss(x, n[0])
F.nll_loss(v, n) | F.nll_loss(v[0], n[0]) | F.cross_entropy(v[0], n[0])
F.cross_entropy(v.detach(), n[:1])
F.cross_entropy(v.detach(), n[:1], reduction="none") | F.nll_loss(v, n[0])
F.nll_loss(x, k) | F.cross_entropy(x, n.int()) | F.cross_entropy(x, n.bool())
F.cross_entropy(x, u) | F.cross_entropy(x, n, w[:2]) | F.cross_entropy(x, n, w[None])
F.nll_loss(x, n, w[:2]) | F.cross_entropy(x, n, w.double())
F.cross_entropy(x, y[:, :2]) | F.nll_loss(v.detach(), n[:1], w)
F.cross_entropy(x, y, w[:2]) | F.cross_entropy(x, y, ignore_index=1)
F.cross_entropy(x, t.ones(2, 3, dtype=t.int64)) | F.cross_entropy(b, k[:1])
F.cross_entropy(b, k[:, :1]) | F.cross_entropy(b[..., None], k) | F.nll_loss(x, n + 1)
F.cross_entropy(b[..., None], k[:, None]) | F.cross_entropy(b, k, w[:2])
F.cross_entropy(b[..., None], k[..., None]) | F.cross_entropy(b[..., None], k, w)
F.cross_entropy(b[..., None, None], k[..., None, None]) | F.nll_loss(x, w[:2])
F.cross_entropy(x, n, label_smoothing=2.0) | F.cross_entropy(x[:0], n[:0])
F.binary_cross_entropy(p, y[:1]) | F.binary_cross_entropy(x, y)
F.binary_cross_entropy(p, y.double()) | F.binary_cross_entropy(p * float("nan"), y)
F.embedding(n, v) | F.embedding(n + 1, x) | F.embedding(n - 1, x) | F.embedding(n, x, 2)
F.embedding(n, x, -3)
"""
ENDS = """
F.cross_entropy(x, n * 0 - 100) | F.cross_entropy(x, n * 0 - 100, reduction="sum")
F.cross_entropy(x, n * 0 - 100, w)
F.cross_entropy(x, n * 0 - 100, label_smoothing=0.1)
F.cross_entropy(v, n[0] * 0 - 100) | F.cross_entropy(b, k * 0 - 100)
F.nll_loss(x, n * 0 - 100, reduction="none") | F.nll_loss(x, n, ignore_index=0)
F.nll_loss(x, n, w, ignore_index=0) | F.nll_loss(x, n, w * 0)
F.nll_loss(x + t.tensor([[0.0], [float("nan")]]), n, ignore_index=0)
F.cross_entropy(x, n, w, ignore_index=2, label_smoothing=0.2)
F.cross_entropy(x, n, ignore_index=0, reduction="none", label_smoothing=0.2)
F.binary_cross_entropy(t.sigmoid(x * 400), y.round())
F.binary_cross_entropy(t.sigmoid(x * 400), y, w)
F.binary_cross_entropy(t.sigmoid(x * -400), y.round(), reduction="sum")
F.binary_cross_entropy((p * 0).detach() + x - x.detach(), y * 0, reduction="none")
F.binary_cross_entropy((p * 0 + 1).detach() + x - x.detach(), y * 0 + 1)
F.binary_cross_entropy(p * 1e-13, y) | F.binary_cross_entropy(p, y)
F.embedding(k % 2, x, 1) | F.embedding(k % 2, x, -1) | F.embedding(n // 2, x, 0)
F.embedding(k % 2, x) | t.embedding(x, k % 2, 1) | t.embedding(x, k % 2, -1)
"""


def listed(text):
    return [e.strip() for line in text.strip().splitlines() for e in line.split(" | ")]


def values(t):
    return {"t": t, "F": t.nn.functional} | {
        k: eval(e, {"t": t}) for k, e in VALUES.items()
    }


def changes(text):
    """Each expression with each of the names that it reads."""
    for e in listed(text):
        for name in VALUES:
            if re.search(rf"\b{name}\b", e):
                yield e, name


@pytest.mark.parametrize(("expression", "name"), list(changes(WATCHED)))
def test_what_was_changed_since_is_an_error(expression, name):
    def program(t):
        names = values(t)
        leaf = names[name]
        x = names[name] = leaf * 1
        loss = eval(expression, names).sum()
        with t.no_grad():
            x.copy_(leaf)
        loss.backward()
        return [names["x"].grad, names["p"].grad, names["b"].grad]

    agree(program)


@pytest.mark.parametrize("expression", ["F.mse_loss(x, y)", "F.cross_entropy(x, n)"])
def test_compiled_backward_notices_the_change_too(expression):
    import tracegrad.eager as t

    names = values(t)
    for _ in range(3):
        eval(expression, names).backward(compiled=True)
    wanted = eval(expression, names)
    names["y" if "y)" in expression else "n"].zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        wanted.backward(compiled=True)


def test_a_change_after_backward_is_none():
    def program(t):
        names = values(t)
        for _ in range(3):
            loss = t.nn.functional.mse_loss(names["x"], names["y"])
            loss.backward()
            names["y"].add_(1.0)
        return names["x"].grad

    agree(program)


@pytest.mark.parametrize("expression", listed(REFUSED + ENDS))
def test_ends_and_refusals(expression):
    def program(t):
        names = values(t)
        loss = eval(expression, names)
        if loss.requires_grad:
            loss.sum().backward()
        return [loss, *[names[k].grad for k in "xpbv"]]

    agree(program)


def test_the_gradient_of_a_saturated_loss_has_a_gradient():
    def program(t):
        x = t.tensor([0.2, 0.5, 0.9], requires_grad=True)
        y = t.tensor([0.0, 1.0, 0.3], requires_grad=True)
        loss = t.nn.functional.binary_cross_entropy(x, y)
        (g,) = t.autograd.grad(loss, x, create_graph=True)
        return [g.detach(), *t.autograd.grad(g.sum(), (x, y))]

    agree(program)
