"""`autograd.forward_ad`, live beside PyTorch, and against reverse mode."""

import importlib
import threading

import numpy as np
import pytest
from eager.both import agree, same

import tracegrad.eager as ours

torch = pytest.importorskip("torch")

SHAPES = {"x": (3, 4), "y": (3, 4), "v": (4,), "m": (4, 5), "s": (3, 3), "z": ()}

EXPRESSIONS = """
x + y | x - v | x * y | x / y | x * 2.5 | 3.0 / x | -x | x ** 3 | u ** v | u ** 2.5
x.exp() | u.log() | x.sin() | x.tanh() | x.sigmoid() | x.abs() | u.sqrt() | x.relu()
x.sum() | x.sum(1) | x.mean() | x.mean(0, keepdim=True) | x.prod() | x.prod(1)
x.max() | x.max(1).values | x.min(0).values | x.cumsum(0) | x.cumprod(1)
x.logsumexp(1)
x.softmax(1) | x.log_softmax(0) | x.var() | x.std(1) | x.norm() | x.norm(dim=1)
x @ m | x @ v | v @ m | t.einsum("ij,ij->i", x, y) | t.outer(v, v) | t.dot(v, v)
x.reshape(12) | x.t() | x.permute(1, 0) | x[1] | x[:, 1:3] | x[x > 0] | x[i] | x.flip(0)
x.expand(2, 3, 4) | t.cat([x, y]) | t.stack([x, y], 1) | x.chunk(2, 1)[1] | x.roll(1, 0)
t.where(x > 0, x, y) | x.clamp(-0.5, 0.5) | x.masked_fill(x > 0, 2.0) | x.sort(1).values
x.gather(1, k) | x.index_select(1, i) | x.tril() | x.diagonal() | x.repeat(2, 1)
t.linalg.inv(p) | t.linalg.det(p) | t.linalg.solve(p, s) | t.linalg.eigvalsh(p + p.t())
t.linalg.qr(p)[1] | t.linalg.cholesky(p @ p.t()) | t.linalg.slogdet(p)[1]
t.nn.functional.softplus(x) | t.nn.functional.gelu(x) | t.nn.functional.mse_loss(x, y)
t.nn.functional.layer_norm(x, (4,)) | x.floor() | x.detach() | x.double()
t.maximum(x, y)
t.nn.functional.cross_entropy(x, t.tensor([1, 0, 3])) | x.topk(2).values | x.median()
t.complex(x, y).abs() | t.complex(x, y) * t.complex(y, x) | t.complex(x, y).exp()
x.clone().mul_(y) | (x * 1).exp_() | t.fft.fft(x).abs() | t.atan2(x, y) | t.hypot(x, y)
"""


def forward_ad(t):
    return importlib.import_module(f"{t.__name__}.autograd.forward_ad")


def listed(text):
    return [e.strip() for line in text.strip().splitlines() for e in line.split(" | ")]


def values(t):
    rng = np.random.default_rng(3)
    names = {"t": t, "i": t.tensor([2, 0, 2]), "k": t.tensor([[1, 0], [2, 2], [3, 0]])}
    for name, shape in SHAPES.items():
        names[name] = t.tensor(np.asarray(rng.normal(size=shape)).tolist()).double()
    names["u"] = t.tensor(rng.uniform(0.5, 2.0, (3, 4)).tolist()).double()
    names["p"] = names["s"] + 3 * t.eye(3, dtype=t.float64)
    return names


def tensors(t):
    names = values(t)
    return {k: x for k, x in names.items() if getattr(x, "dtype", 0) == t.float64}


def direction(t, x):
    return t.cos(t.arange(x.numel(), dtype=x.dtype)).reshape(x.shape)


def tangent(expression):
    """A program: the tangent of an expression."""

    def run(t):
        fw = forward_ad(t)
        with fw.dual_level():
            given = {
                name: fw.make_dual(x, direction(t, x)) for name, x in tensors(t).items()
            }
            made = fw.unpack_dual(eval(expression, values(t) | given))
        return [made.primal, made.tangent]

    return run


@pytest.mark.parametrize("expression", listed(EXPRESSIONS))
def test_tangents(expression):
    agree(tangent(expression))


# PyTorch has no second derivative of these, or (layer_norm) one that is not invariant
# under a shift of its input, as it must be.
NOT_SECOND = ("qr", "median", "layer_norm", "detach")
SECOND = [e for e in listed(EXPRESSIONS) if not any(w in e for w in NOT_SECOND)]


def slopes(t, tangent, leaves):
    """The gradients of a number made of the tangent."""
    if tangent is None or not tangent.requires_grad:
        return [np.zeros(x.shape) for x in leaves]
    parts = [tangent.real, tangent.imag] if tangent.is_complex() else [tangent]
    total = sum(part.sin().sum() for part in parts)
    grads = t.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)
    return [g.detach().numpy(force=True) for g in grads]


@pytest.mark.parametrize("expression", SECOND)
def test_reverse_over_forward(expression):
    """Against PyTorch's tangents by two passes of reverse mode, and their gradients."""
    fw = forward_ad(ours)
    leaves = {name: x.requires_grad_() for name, x in tensors(ours).items()}
    with fw.dual_level():
        given = {
            name: fw.make_dual(x, direction(ours, x.detach()))
            for name, x in leaves.items()
        }
        made = fw.unpack_dual(eval(expression, values(ours) | given)).tangent
    got = slopes(ours, made, list(leaves.values()))

    leaves = {name: x.requires_grad_() for name, x in tensors(torch).items()}
    inputs = list(leaves.values())
    out = eval(expression, values(torch) | {k: x * 1 for k, x in leaves.items()})
    v = torch.zeros_like(out, requires_grad=True)
    options = {"create_graph": True, "allow_unused": True, "materialize_grads": True}
    grads = torch.autograd.grad(out, inputs, v, **options)
    pairs = [(g, direction(torch, g.detach())) for g in grads if g.requires_grad]
    outputs, directions = zip(*pairs, strict=True)
    (made,) = torch.autograd.grad(outputs, v, directions, **options)
    same(got, slopes(torch, made, inputs))


def test_levels_belong_to_threads():
    fw = forward_ad(ours)
    seen = []

    def elsewhere():
        try:
            fw.make_dual(ours.ones(2), ours.ones(2))
        except RuntimeError as error:
            seen.append(str(error))
        with fw.dual_level():
            x = fw.make_dual(ours.ones(2), ours.ones(2))
            seen.append(fw.unpack_dual(x * 3).tangent.tolist())

    with fw.dual_level():
        x = fw.make_dual(ours.ones(2), ours.ones(2))
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert fw.unpack_dual(x * 2).tangent.tolist() == [2, 2]
    assert seen[0].startswith("Trying to create a dual Tensor")
    assert seen[1] == [3, 3]


def ones(t):
    return t.ones(2, dtype=t.float64)


def no_level(t):
    return forward_ad(t).make_dual(ones(t), ones(t))


def nested(t):
    fw = forward_ad(t)
    with fw.dual_level(), fw.dual_level():
        pass


def exits_twice(t):
    forward_ad(t).exit_dual_level()


def integers(t):
    fw = forward_ad(t)
    with fw.dual_level():
        fw.make_dual(t.arange(2), ones(t))


def integer_tangent(t):
    fw = forward_ad(t)
    with fw.dual_level():
        fw.make_dual(ones(t), t.arange(2))


def unpack_outside(t):
    fw = forward_ad(t)
    with fw.dual_level():
        x = fw.make_dual(ones(t), ones(t))
    made = fw.unpack_dual(x)
    return made.tangent, made.primal is x, type(made).__name__


def gone_after_the_level(t):
    fw = forward_ad(t)
    with fw.dual_level():
        x = fw.make_dual(ones(t), ones(t))
    with fw.dual_level():
        return fw.unpack_dual(x * 2).tangent


def within_no_grad(t):
    fw = forward_ad(t)
    with fw.dual_level(), t.no_grad():
        return fw.unpack_dual(fw.make_dual(ones(t), ones(t)) * 3).tangent


def level_by_hand(t):
    fw = forward_ad(t)
    level = fw.enter_dual_level()
    made = fw.unpack_dual(fw.make_dual(ones(t), ones(t)).exp()).tangent
    fw.exit_dual_level(level=level)
    return made


def in_place(t):
    fw = forward_ad(t)
    with fw.dual_level():
        x = fw.make_dual(ones(t) * 3, ones(t))
        y = x * 1
        y.mul_(x)
        z = t.zeros(2, dtype=t.float64)
        z[0] = y[1]
        w = x * 1
        w[:1].mul_(5)
        v = x * 1
        v.zero_()
        c = t.zeros(2, dtype=t.float64)
        c.copy_(x)
        c += x
        return [fw.unpack_dual(a).tangent for a in (y, z, w, v, c)]


def custom(t):
    fw = forward_ad(t)
    seen = []

    class Scale(t.autograd.Function):
        @staticmethod
        def forward(ctx, x, k, y):
            ctx.save_for_forward(x)
            ctx.k = k
            return x * x * k + y

        @staticmethod
        def jvp(ctx, x_t, k_t, y_t):
            seen.append((x_t, k_t, y_t))
            (x,) = ctx.saved_tensors
            return 2 * x * ctx.k * x_t

        @staticmethod
        def backward(ctx, g):
            raise AssertionError

    with fw.dual_level():
        x = fw.make_dual(ones(t) * 3, ones(t))
        y = Scale.apply(x, 4, ones(t))
        return fw.unpack_dual(y).tangent, seen


def printed(t):
    fw = forward_ad(t)
    with fw.dual_level():
        x = t.ones(2, 2, requires_grad=True)
        y = fw.make_dual(x * 3, t.ones(2, 2))
        return repr(y), repr(fw.make_dual(t.ones(3), t.ones(3)))


def custom_without_jvp(t):
    fw = forward_ad(t)

    class Same(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

    with fw.dual_level():
        Same.apply(fw.make_dual(ones(t), ones(t)))


PROGRAMS = [
    no_level,
    nested,
    exits_twice,
    integers,
    integer_tangent,
    unpack_outside,
    gone_after_the_level,
    within_no_grad,
    level_by_hand,
    in_place,
    custom,
    printed,
    custom_without_jvp,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_same(program):
    agree(program)
