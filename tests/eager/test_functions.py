"""Functions by PyTorch's names: values, gradients, `grad_fn`, errors, all live."""

import numpy as np
import pytest
from eager.both import agree

SHAPES = {
    "x": (3, 4),
    "y": (3, 4),
    "v": (4,),
    "w": (4,),
    "m": (4, 5),
    "s": (3, 3),
    "b": (2, 3, 4),
    "c": (2, 4, 5),
    "z": (),
}
STATISTICS = """
x.norm() | x.norm(dim=1) | x.norm(p=1) | x.norm(3, dim=0)
t.norm(x, dim=1, keepdim=True)
v.norm() | v.norm(p=float("inf")) | b.norm(dim=(0, 2)) | x.norm(p=2.5) | z.norm()
v.norm(3) | x.norm(p=-float("inf"), dim=1) | x.norm(dtype=t.float64) | t.dist(x, y)
x.std() | x.std(1) | x.std(dim=0, keepdim=True) | x.std(unbiased=False) | x.std(False)
x.std(0, False) | t.std(x, dim=1, correction=0) | b.std((0, 1)) | x.var() | x.var(1)
t.var(x, dim=0, unbiased=False) | t.var(x, correction=2) | t.var_mean(x, 1)
t.std_mean(x)
x.prod() | x.prod(1) | x.prod(0, keepdim=True) | x.prod(dtype=t.float64) | z.prod()
x.cumsum(0) | x.cumsum(dim=-1) | x.cumprod(1) | z.cumsum(0) | i.cumsum(0) | i.prod()
x.logsumexp(1) | t.logsumexp(x, dim=0, keepdim=True) | x.logsumexp((0, 1))
i.logsumexp(0)
x.softmax(1) | t.softmax(x, dim=0) | x.log_softmax(-1) | t.softmax(z, 0)
t.softmax(i, 0, dtype=t.float32) | x.softmax(dim=1, dtype=t.float64)
s.trace() | t.trace(x) | i.softmax(0) | i.std() | i.norm() | v.trace() | x.cumsum(2)
x.count_nonzero() | x.count_nonzero(dim=0)
"""
SELECTION = """
x.chunk(2) | x.chunk(3, dim=1) | x.split(2) | x.split([1, 3], dim=1)
x.split(3, dim=-1)
x.split([1, 1], 1) | x.chunk(0) | t.split(x, 1) | b.narrow(1, 1, 2) | b.select(2, -1)
x.narrow(0, 2, 2) | x.select(0, 5) | v.split(5)
x.repeat(2, 1) | v.repeat(3, 2) | x.repeat(2) | t.tile(x, (2,)) | x.repeat_interleave(2)
x.repeat_interleave(2, dim=1) | t.repeat_interleave(v, t.tensor([1, 0, 2, 1]))
x.roll(1) | x.roll(1, 0) | x.roll((1, -1), (0, 1)) | t.roll(v, -1) | x.flip(0)
x.flip((0, 1)) | t.flip(b, [2]) | x.fliplr() | x.flipud() | x.flatten() | b.flatten(1)
x.rot90() | x.rot90(2) | x.rot90(3) | x.movedim(0, 1) | b.movedim((0, 1), (2, 0))
b.unflatten(2, (2, 2)) | t.broadcast_to(v, (3, 4)) | t.broadcast_tensors(x, v)
t.hstack([x, y]) | t.vstack([v, w]) | t.hstack([v, w]) | t.vstack((x, v))
x.gather(1, k) | x.gather(0, k0) | t.gather(v, 0, i) | x.index_select(1, i)
x.index_select(0, t.tensor([2, 0])) | x.index_select(0, t.tensor([5])) | x.take(i)
t.take_along_dim(x, k, dim=1) | x.scatter(1, k, 2.0) | x.scatter(1, ku, y[:, :2])
x.scatter_add(1, k, y[:, :2]) | v.scatter_add(0, i, w) | x.index_add(1, i, y)
x.index_copy(1, t.tensor([2, 0, 1, 3]), y) | x.index_fill(1, t.tensor([1, 2]), 7.0)
v.index_put((i,), w, accumulate=True) | x.masked_fill(x > 0, 0.0)
x.masked_fill(x > 0, z)
x.masked_select(x > 0) | x.masked_fill(k[:, :1], 1.0) | t.nonzero(x > 0)
x.nonzero(as_tuple=True)
x.diagonal() | x.diagonal(1) | v.diag() | x.diag() | v.diag(1) | x.tril() | x.triu(1)
b.diagonal(0, 1, 2) | t.tril(b, -1)
x.sort() | x.sort(0, descending=True) | v.sort().values | x.argsort(1) | x.topk(2)
x.topk(1, dim=0, largest=False) | t.topk(v, 5) | z.sort()
(x * 1).masked_fill_(x > 0, 2.0) | (x * 1).scatter_(1, k, 3.0) | (v * 1).cumsum_(0)
(x * 1).index_add_(1, i, y) | (x * 1).tril_() | (x * 1).scatter_add_(1, k, y[:, :2])
"""


def listed(text):
    return [e.strip() for line in text.strip().splitlines() for e in line.split(" | ")]


def program(expression, more=None):
    """A function of the namespace: the value of the expression, and all gradients.

    `more` has further names, as texts.
    """

    def run(t):
        rng = np.random.default_rng(7)
        names = {"t": t, "torch": t, "F": getattr(t.nn, "functional", None)}
        for name, shape in SHAPES.items():
            data = np.asarray(rng.normal(size=shape))
            names[name] = t.tensor(data.tolist(), requires_grad=True)
        data = rng.uniform(0.1, 0.9, size=(3, 4))
        names["u"] = t.tensor(data.tolist(), requires_grad=True)
        names["n"] = t.tensor([1, 0, 3])
        names["i"] = t.tensor([2, 0, 2, 1])
        names["k"] = t.tensor([[1, 0], [2, 2], [3, 0]])
        names["ku"] = t.tensor([[1, 0], [2, 3], [3, 0]])
        names["k0"] = t.tensor([[1, 0, 2, 2]])
        names |= {name: eval(text, names) for name, text in (more or {}).items()}
        made = eval(expression, names)
        parts = made if isinstance(made, tuple | list) else [made]
        grads = []
        for x in parts:
            if isinstance(x, t.Tensor) and x.requires_grad:
                grads.append(type(x.grad_fn).__name__)
                weights = t.tensor(rng.normal(size=x.numel()).tolist())
                flat = (x.reshape(-1) * weights).sum()
                if flat.is_complex():
                    flat = flat.abs()
                flat.backward(retain_graph=True)
        grads.append([names[name].grad for name in (*SHAPES, "u")])
        return [made, grads]

    return run


@pytest.mark.parametrize("expression", listed(STATISTICS))
def test_statistics(expression):
    agree(program(expression))


@pytest.mark.parametrize("expression", listed(SELECTION))
def test_selection(expression):
    agree(program(expression))


PRODUCTS = """
t.bmm(b, c) | t.mv(x, v) | t.dot(v, w) | t.vdot(v, w) | t.inner(v, w) | t.inner(x, y)
t.outer(v, w) | v.ger(w) | t.outer(x, v) | t.dot(x, v) | t.bmm(x, y) | t.bmm(b, b)
t.addmm(m[:3], x, m) | t.addmm(m[0], x, m, beta=2, alpha=0.5) | m[:3].addmm(x, m)
t.addmv(v[:3], x, v) | t.addr(x, v[:3], w) | t.baddbmm(b[:, :, :1], b, c)
t.addbmm(m[:3], b, c) | t.addcmul(x, x, y) | t.addcmul(x, x, y, value=2)
t.addcdiv(x, x, y) | t.lerp(x, y, 0.5) | x.lerp(y, z) | (x * 1).addcmul_(x, y, value=3)
t.tensordot(x, y, dims=2) | t.tensordot(x, m, dims=([1], [0])) | t.tensordot(x, m, 1)
t.kron(s, s) | t.cross(s, s * 2, dim=1) | t.einsum("ij,jk->ik", x, m)
t.einsum("ij->ji", x) | t.einsum("ii", s) | t.einsum("i,j->ij", v, w)
t.einsum("bij,bjk->bik", b, c) | t.einsum("...ij,jk->...ik", b, m)
t.einsum("ij,jk", x, m)
t.einsum("ij,j->", x, v) | t.einsum("ij->j", x) | t.chain_matmul(x, m)
"""
LINALG = """
t.linalg.norm(x) | t.linalg.norm(v, 1) | t.linalg.norm(x, "nuc") | t.linalg.norm(x, 2)
t.linalg.norm(x, 1) | t.linalg.norm(x, "fro") | t.linalg.norm(x, dim=1)
t.linalg.vector_norm(x) | t.linalg.matrix_norm(x) | t.linalg.norm(b, dim=(1, 2))
t.linalg.vector_norm(x, 3, dim=0) | t.linalg.norm(x, float("inf"))
t.linalg.inv(s) | t.inverse(s) | s.inverse() | t.linalg.det(s) | s.det()
t.linalg.slogdet(s) | t.slogdet(s) | t.logdet(s @ s.t()) | t.linalg.solve(s, v[:3])
t.linalg.solve(s, x) | t.linalg.cholesky(s @ s.t()) | t.linalg.inv(x) | t.linalg.det(v)
t.linalg.svdvals(x) | t.linalg.eigvalsh(s @ s.t()) | t.linalg.pinv(x)
t.linalg.matrix_rank(x) | t.linalg.cond(s) | t.matrix_power(s, 3)
t.linalg.multi_dot([x, m, m.t()]) | t.linalg.diagonal(x) | t.linalg.vecdot(x, y)
t.linalg.cross(s, s * 2) | t.linalg.svd(x, full_matrices=False).S
t.linalg.qr(s).R.abs() | t.linalg.eigh(s @ s.t()).eigenvalues
"""


@pytest.mark.parametrize("expression", listed(PRODUCTS))
def test_products(expression):
    agree(program(expression))


@pytest.mark.parametrize("expression", listed(LINALG))
def test_linalg(expression):
    agree(program(expression))


ELEMENTWISE = """
t.sigmoid(x) | x.sigmoid() | t.relu(x) | x.relu() | t.erf(x) | t.erfc(x) | t.erfinv(u)
t.lgamma(u) | t.digamma(u) | t.asin(u) | t.acos(u) | t.atan(u) | t.arcsin(u) | t.i0(x)
t.asinh(x) | t.acosh(u + 1) | t.atanh(u) | t.atan2(x, y) | t.sinc(x) | t.rsqrt(u)
t.round(x) | t.round(x, decimals=1) | t.frac(x) | t.logaddexp(x, y) | t.logaddexp2(x, y)
t.hypot(x, y) | t.xlogy(x, u) | t.nan_to_num(x) | t.fmax(x, y) | t.fmin(x, y)
t.deg2rad(x) | t.rad2deg(x) | t.logit(u) | t.logit(u, 0.3) | t.copysign(x, y)
t.sigmoid(i) | t.relu(i) | (x * 1).relu_() | (x * 1).sigmoid_() | t.selu(x) | t.celu(x)
t.relu(t.tensor([float("nan"), 0.0, -1.0])) | t.sigmoid(t.tensor([-200.0, 200.0]))
"""
NETWORKS = """
F.relu(x) | F.gelu(x) | F.gelu(x, approximate="tanh")
F.softplus(x)
F.softplus(x, 2.0)
F.sigmoid(x) | F.tanh(x) | F.softmax(x, dim=1) | F.log_softmax(x, dim=0) | F.relu6(x)
F.leaky_relu(x) | F.leaky_relu(x, 0.2) | F.elu(x) | F.selu(x) | F.celu(x, 0.5)
F.silu(x)
F.mish(x) | F.hardtanh(x) | F.logsigmoid(x) | F.softsign(x) | F.hardsigmoid(x)
F.hardswish(x * 3) | F.tanhshrink(x)
F.threshold(x, 0.1, 0.5) | F.glu(x)
F.softmin(x, 1)
F.relu(x * 1, inplace=True)
F.mse_loss(x, y) | F.mse_loss(x, y, reduction="sum")
F.mse_loss(x, y, reduction="none")
F.l1_loss(x, y) | F.smooth_l1_loss(x, y) | F.smooth_l1_loss(x, y, beta=0.5)
F.huber_loss(x, y) | F.huber_loss(x, y, delta=0.3) | F.nll_loss(x, n)
F.nll_loss(x, n, weight=w.detach()) | F.nll_loss(x, n, ignore_index=0)
F.nll_loss(x, n, reduction="none") | F.nll_loss(x, n, reduction="sum")
F.cross_entropy(x, n) | F.cross_entropy(x, n, reduction="sum")
F.cross_entropy(v, n[0])
F.cross_entropy(x, u.detach()) | F.cross_entropy(x, n, weight=u[0].detach())
F.cross_entropy(b, n.reshape(1, 3)[:, :1].expand(2, 4) % 3) | F.cross_entropy(x, n + 3)
F.cross_entropy(x, n, ignore_index=1, reduction="none")
F.binary_cross_entropy(u, u.detach())
F.binary_cross_entropy_with_logits(x, u.detach())
F.binary_cross_entropy_with_logits(x, u.detach(), pos_weight=u[0].detach())
F.kl_div(x, u.detach()) | F.kl_div(x, u.detach(), reduction="batchmean")
F.linear(x, m.t()) | F.linear(x, m.t(), m[0]) | F.linear(v, m.t())
F.linear(b, m.t(), m[0])
F.embedding(i, m) | F.embedding(k, m) | F.one_hot(i) | F.one_hot(i, 5) | F.normalize(x)
F.layer_norm(x, (4,)) | F.layer_norm(x, (4,), v, w) | F.layer_norm(b, (3, 4))
F.batch_norm(x, None, None, training=True) | F.batch_norm(x, v.detach(), u[0].detach())
F.batch_norm(b, None, None, v[:3], w[:3], training=True) | F.cosine_similarity(x, y)
F.normalize(b, p=1.0, dim=2) | F.pad(x, (1, 2)) | F.pad(x, (1, 0, 0, 1), value=2.0)
F.dropout(x, 0.5, training=False) | F.dropout(x, 1.0) | F.dropout(x, 1.5)
F.pairwise_distance(x, y)
"""


@pytest.mark.parametrize("expression", listed(ELEMENTWISE))
def test_elementwise(expression):
    agree(program(expression))


@pytest.mark.parametrize("expression", listed(NETWORKS))
def test_networks(expression):
    agree(program(expression))


ORDERING = """
t.amax(x, 1) | x.amin() | t.aminmax(x) | t.aminmax(x, dim=1) | x.median() | x.median(1)
t.kthvalue(x, 2) | t.quantile(x, 0.3) | t.quantile(x, 0.6, dim=1) | t.cummax(x, 0)
x.cummin(1) | t.logcumsumexp(x, 1) | t.diff(x) | t.diff(x, n=2, dim=0) | x.nansum()
t.nansum(x, 1) | t.nanmean(x) | t.isclose(x, y) | t.allclose(x, x) | t.equal(x, y)
str(t.promote_types(t.int32, t.float32)) | str(t.result_type(x, 1j)) | t.argwhere(x > 0)
t.bincount(i) | t.meshgrid(v, w, indexing="ij") | t.meshgrid(v, w[:3], indexing="xy")
t.tensor_split(x, 3, 1) | x.tensor_split((1, 2)) | t.atleast_2d(v) | t.dstack([x, y])
x.reshape_as(y.t()) | t.complex(x, y).real | t.complex(x, y).imag
t.complex(x, y).abs()
t.complex(x, y) | t.polar(u, y) | t.view_as_real(t.complex(x, y)) | t.imag(x)
t.complex(x, y).angle() | t.searchsorted(t.tensor([0.0, 1.0]), x.detach())
"""
FFT = """
t.fft.fft(x) | t.fft.ifft(x) * 1 | t.fft.rfft(x) | t.fft.irfft(t.complex(x, y))
t.fft.fft2(x)
t.fft.fftn(b) | t.fft.fft(x, 3) | t.fft.fft(x, dim=0, norm="ortho") | t.fft.fftshift(x)
t.fft.rfft2(x) | t.fft.hfft(t.complex(x, y)) | t.fft.fftfreq(5, 0.1) | t.fft.rfftfreq(4)
t.fft.ifft2(t.complex(x, y)) | t.fft.rfftn(b) | t.fft.ifftshift(x, dim=1)
"""
CONVOLUTIONS = """
F.conv1d(b, b[:, :, :2]) | F.conv1d(b, b[:, :, :2], v[:2]) | F.conv1d(b, c[:, :3, :2])
F.conv2d(b.reshape(1, 2, 3, 4), b.reshape(3, 2, 2, 2))
F.conv2d(b.reshape(1, 2, 3, 4), b.reshape(3, 2, 2, 2), v[:3], stride=2, padding=1)
F.conv2d(b.reshape(1, 2, 3, 4), b.reshape(6, 1, 2, 2), groups=2, padding=(1, 0))
F.conv2d(b.reshape(1, 2, 3, 4), b.reshape(3, 2, 2, 2), dilation=2, padding=1)
F.max_pool2d(b, 2) | F.max_pool2d(b.reshape(1, 2, 3, 4), 2, stride=1)
F.max_pool2d(b.reshape(1, 2, 3, 4), 2, padding=1)
F.avg_pool2d(b.reshape(1, 2, 3, 4), 2)
F.max_pool1d(b, 2) | F.avg_pool1d(b, 2, stride=1) | F.avg_pool2d(b, (1, 2))
"""


@pytest.mark.parametrize("expression", listed(ORDERING + FFT + CONVOLUTIONS))
def test_others(expression):
    agree(program(expression))
