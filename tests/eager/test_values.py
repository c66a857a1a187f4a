"""Dtypes, creation, indexing, shapes and reductions: the same as in PyTorch, live."""

import numpy as np
import pytest
from eager.both import agree


def promotion(t):
    kinds = [t.bool, t.uint8, t.int32, t.int64, t.float32, t.float64, t.complex64]
    tensors = [t.ones(2, dtype=d) for d in kinds] + [t.ones((), dtype=d) for d in kinds]
    operands = [*tensors, 2, 1.5, True, 1j]
    made = []
    for x in tensors:
        for y in operands:
            made.append((x * y).dtype.__repr__())
            made.append((x + y).dtype.__repr__())
            made.append((y * x).dtype.__repr__())
    return made


def division(t):
    i, f = t.tensor([7, -7, 3]), t.tensor([7.5, -7.5, 3.0])
    return [
        i / 2,
        i // 2,
        i % 3,
        i / i,
        i // t.tensor([2, 2, -2]),
        f // 2,
        f % 2,
        2 / i,
        1 / f,
        i / 2.0,
        i * 1.5,
        10 // i,
        -7 % i,
        i**2,
        2.0**i,
        t.true_divide(i, 2),
        t.div(f, 2, rounding_mode="floor"),
        t.div(f, 2, rounding_mode="trunc"),
    ]


def unary_on_ints(t):
    i = t.tensor([1, 2, 3])
    return [t.sin(i), i.exp(), i.sqrt(), i.abs(), i.neg(), i.tanh(), i.sign(), i.log()]


def comparisons(t):
    i, f = t.tensor([1, 2, 3]), t.tensor([1.5, 2.0, 2.5])
    return [
        i < f,
        i <= 2,
        i == f,
        i != 2,
        f > 2,
        f >= i,
        i == 2.0,
        (i > 1) & (f < 2.2),
        ~(i > 1),
        (i > 1) | (f > 2),
        (i > 1) ^ (f > 2),
        i.eq(2),
        t.isnan(f),
    ]


def conversions(t):
    x = t.tensor([1.5, -2.5])
    i = x.to(t.int64)
    return [
        i,
        x.double(),
        x.int(),
        x.long(),
        x.bool(),
        i.float(),
        x.half(),
        x.to(i),
        x.type_as(i),
        x.to("cpu"),
        x.to(t.float32) is x,
        x.type(),
        i.type(),
        x.is_floating_point(),
        i.is_complex(),
        str(x.dtype),
        repr(i.dtype),
    ]


def creation(t):
    return [
        t.tensor([1, 2]),
        t.tensor([1.0, 2]),
        t.tensor([True, False]),
        t.tensor(3),
        t.tensor(2.5),
        t.tensor([[1, 2], [3, 4.5]]),
        t.tensor(1j),
        t.tensor([]),
        t.tensor(np.arange(3)),
        t.tensor(np.float64(2)),
        t.tensor([t.tensor(1.0), 2]),
        t.zeros(2, 3),
        t.zeros((2, 3)),
        t.zeros([2]),
        t.ones(()),
        t.full((2,), 3),
        t.full((2,), 3.5),
        t.eye(2),
        t.eye(2, 3),
        t.arange(3),
        t.arange(1, 4),
        t.arange(0, 1, 0.25),
        t.arange(3.0),
        t.linspace(0, 1, 5),
        t.ones(2).long(),
        t.zeros_like(t.arange(3)),
        t.ones_like(t.ones(2), dtype=t.float64),
        t.full_like(t.ones(2), 7),
        t.ones(2, dtype=t.int32),
        t.as_tensor([1.0]),
        t.from_numpy(np.ones(2)),
        t.ones(2, requires_grad=True),
        t.Tensor([1, 2]),
        t.ones(2).new_zeros(3),
        t.ones(2).new_ones(2, dtype=t.int64),
        t.zeros(0, 3),
        t.zeros(size=(2,)),
        t.tensor((1, 2), dtype=t.float),
        t.tensor(range(3)),
    ]


def questions(t):
    x = t.ones(2, 3)
    return [
        x.size(),
        x.size(0),
        x.shape[1],
        x.dim(),
        x.numel(),
        len(x),
        x.stride(),
        x.t().stride(),
        x.is_contiguous(),
        x.t().is_contiguous(),
        x.shape.numel(),
        repr(x.shape),
        tuple(x.shape[:1]),
        x.ndim,
        x.itemsize,
        x.nbytes,
        str(x.device),
        repr(x.device),
        x.is_cuda,
        x.element_size(),
    ]


def reading(t):
    x = t.arange(24.0).view(2, 3, 4)
    m = x > 11
    return [
        x[0],
        x[-1],
        x[0, 1],
        x[0, 1, 2],
        x[:, 1],
        x[..., 0],
        x[1:, :2],
        x[:, ::2],
        x[None],
        x[:, None, 0],
        x[[0, 1]],
        x[[0, 1], [1, 2]],
        x[:, [2, 0]],
        x[m],
        x[t.tensor([1, 0])],
        x[t.tensor(1)],
        x[0][t.tensor([0, 2]), 1:],
        x[0, :, [1, 2]],
        x[[True, False]],
        x[x[:, 0, 0] > 5],
        x[...],
        x[:],
        x[0, ..., 1],
        x[1, None, :, 0],
        x[t.tensor([[0, 1], [1, 0]])],
        x[:, :, t.tensor([0, 3])],
        x[1][:][0],
    ]


def reading_backward(t):
    x = t.arange(24.0).view(2, 3, 4).requires_grad_()
    parts = [
        x[0],
        x[:, 1],
        x[..., 0],
        x[[0, 0, 1]],
        x[:, [2, 0, 2]],
        x[x > 11],
        x[0, :, [1, 1]],
        x[1, None, :, 0],
        x[:, None],
        x[0, 1, 2],
    ]
    total = 0.0
    for k, p in enumerate(parts):
        total = total + (k + 1.0) * (p * p).sum()
    total.backward()
    return [total, x.grad]


def shapes(t):
    x = t.arange(6.0).view(2, 3).requires_grad_()
    made = [
        x.view(3, 2),
        x.view(-1),
        x.view((1, 6)),
        x.reshape(6),
        x.reshape((3, -1)),
        x.t(),
        x.transpose(0, 1),
        x.permute(1, 0),
        x.T,
        x.mT,
        x.unsqueeze(1),
        x.unsqueeze(-1).squeeze(-1),
        x.unsqueeze(0).squeeze(),
        x.expand(2, 2, 3),
        x.unsqueeze(0).expand(4, -1, -1),
        x.flatten(),
        x.flatten(0),
        x.t().reshape(6),
        t.cat([x, x], dim=1),
        t.cat((x, x)),
        t.stack([x, x], dim=-1),
        x.view_as(x.t()),
        x.unbind(1)[1],
        x.contiguous(),
        x.t().contiguous(),
        x.expand_as(t.ones(2, 2, 3)),
        t.transpose(x, 0, 1),
        t.reshape(x, (3, 2)),
        t.permute(x, (1, 0)),
        t.ravel(x),
        t.cat([t.ones(2), t.ones(2).double()]),
        t.stack([t.ones(2), t.arange(2)]),
        t.tensor(3.0).view(1),
        t.tensor([3.0]).squeeze(),
        t.ones(0, 3).reshape(-1, 3),
    ]
    total = 0.0
    for k, y in enumerate(made):
        if y.requires_grad:
            total = total + (y * (k + 1.0) * y).sum()
    total.backward()
    return [*made, x.grad]


def reductions(t):
    x = t.tensor([[1.0, 5.0, 5.0], [7.0, 2.0, 2.0]], requires_grad=True)
    values, places = x.max(dim=1)
    low = x.min(0, keepdim=True)
    made = [
        x.sum(),
        x.sum(0),
        x.sum(dim=1, keepdim=True),
        x.sum((0, 1)),
        x.sum(-1),
        x.mean(),
        x.mean(0),
        x.mean(dim=(0, 1), keepdim=True),
        x.max(),
        x.min(),
        values,
        places,
        low.values,
        low.indices,
        t.max(x, 1)[0],
        t.maximum(x, x + 0),
        t.max(x, 2 * x),
        x.argmax(),
        x.argmin(1),
        x.argmax(0, True),
        (x > 2).any(),
        (x > 2).all(1),
        t.sum(x, 0),
        t.sum(t.tensor([True, True])),
        t.arange(3).sum(),
        x.sum(dtype=t.float64),
        t.tensor(3.0).sum(),
        t.tensor(3.0).max(),
        t.tensor(3.0).sum(0),
        t.ones(0).sum(),
        t.minimum(x, t.tensor(2.0)),
    ]
    total = 0.0
    for k, y in enumerate(made):
        if y.requires_grad:
            total = total + (y * (k + 1.0)).sum()
    total.backward()
    return [*made, x.grad]


def products(t):
    v = t.tensor([1.0, 2.0], requires_grad=True)
    m = t.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True)
    b = t.ones((4, 1, 2, 3), requires_grad=True)
    c = t.ones((5, 3, 2), requires_grad=True)
    made = [
        m @ v,
        v @ m.t(),
        v @ v,
        m @ m.t(),
        t.matmul(b, c),
        t.mm(m, m.t()),
        b @ m,
        m @ c.transpose(1, 2),
    ]
    for y in made:
        (y * y).sum().backward()
    return [*made, v.grad, m.grad, b.grad, c.grad]


def elementwise(t):
    x = t.tensor([0.5, -1.5, 2.0, 0.0], requires_grad=True)
    y = t.tensor([1.5, 2.0, -0.5, 3.0], requires_grad=True)
    a = x.abs() + 0.1
    made = [
        x + y,
        x - y,
        x * y,
        x / y,
        1 - x,
        2 / y,
        -x,
        x.exp(),
        a.log(),
        x.sin(),
        x.cos(),
        x.tan(),
        x.tanh(),
        a.sqrt(),
        x.abs(),
        x**2,
        x**3,
        a**0.5,
        y**-1,
        a**y,
        2**x,
        a**-0.5,
        x**0,
        x.square(),
        y.reciprocal(),
        x % 2,
        y % x.detach().abs().add(1),
        x.clamp(-1, 1),
        x.clamp(min=0),
        x.clamp(max=0.5),
        x.clamp_min(0),
        x.sign(),
        t.clamp(x, y, y + 1),
        t.where(x > 0, x, y),
        t.where(x > 0, x, 0.0),
        x.floor(),
        x.expm1(),
        a.log1p(),
        a.log2(),
        a.log10(),
        x.sinh(),
        x.cosh(),
        x.exp2(),
        x.trunc(),
        t.rsub(x, 3),
        t.add(x, y, alpha=2),
        t.sub(x, y, alpha=3),
        t.pow(2.0, x),
        t.maximum(x, y),
        t.minimum(x, t.zeros(4)),
        t.mul(x, 2),
        x.where(x > 0, y),
    ]
    total = 0.0
    for k, z in enumerate(made):
        total = total + (z * (k + 1.0)).sum()
    total.backward()
    return [*made, x.grad, y.grad]


def broadcasting(t):
    a = t.ones(2, 1, 3, requires_grad=True)
    b = t.tensor([[2.0], [3.0]], requires_grad=True)
    c = t.tensor(4.0, requires_grad=True)
    d = t.tensor([[1.0, 2.0, 3.0]], dtype=t.float64, requires_grad=True)
    ((a * b + c) / d - b * c + a).sum().backward()
    return [a.grad, b.grad, c.grad, d.grad]


def complex_numbers(t):
    z = t.tensor([1 + 2j, -0.5 + 1j], requires_grad=True)
    x = t.tensor([0.5, 2.0], requires_grad=True)
    w = (z * z * x + x / z - z.conj() * 2).exp() + z.abs() * 1j
    ((w * w.conj()).abs().sum() + (z * x).abs().sum()).backward()
    seen = []
    u = z * (2 + 1j)
    u.register_hook(lambda g: seen.append(g.clone()))
    (u * u).sum().backward(t.tensor(1 + 0.5j))
    (g,) = t.autograd.grad((z**3 * x).sum().abs(), z, create_graph=True)
    g.abs().sum().backward()
    return [w, z.grad, x.grad, seen, g]


def complex_errors(t):
    t.tensor(1j, requires_grad=True).backward()


def mixed_gradients(t):
    x = t.tensor([1.5, 2.0], requires_grad=True)
    y = t.tensor([2.0, 4.0], dtype=t.float64, requires_grad=True)
    s = t.tensor(3.0, dtype=t.float64, requires_grad=True)
    (x * y * 2 + x * s + t.tensor([1, 2]) * x).sum().backward()
    return [x.grad, y.grad, s.grad, x * s]


def out_arguments(t):
    out = t.zeros(3)
    x = t.ones(3)
    same = [t.add(x, 1, out=out) is out, t.sin(x, out=out) is out]
    return [out, same]


def numpy_next_door(t):
    x = t.tensor([1.0, 2.0], requires_grad=True)
    y = np.float64(2.0) * x
    d = x.detach()
    a = d.numpy()
    a[0] = 7
    y.sum().backward()
    return [
        y,
        x,
        x.grad,
        np.asarray(d).tolist(),
        d.tolist(),
        d[0].item(),
    ]


def python_protocols(t):
    x = t.tensor([1.5, 2.0])
    return [
        float(x[0]),
        int(x[1]),
        bool(x[0]),
        1.5 in x,
        9 in x,
        [v.item() for v in x],
        f"{x[0]:.2f}",
        x[0].item(),
        t.tensor(3).item(),
        [1, 2, 3][t.tensor(1)],
    ]


PROGRAMS = [
    f for f in list(globals().values()) if getattr(f, "__module__", None) == __name__
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_same(program):
    agree(program)
