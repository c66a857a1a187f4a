"""Functions beyond the common ones: values, two derivatives, errors, all live."""

import numpy as np
import pytest
from eager.both import agree
from eager.test_functions import listed, program

NUMBERS = """
t.fmod(x, y) | x.fmod(2.0) | x.fmod(0.3) | x.float_power(2) | x.float_power(t.tensor(3))
t.float_power(2.0, x) | t.ldexp(x, n[:1]) | x.ldexp(t.tensor([1, 2, 0, 3]))
t.sgn(t.complex(x, y)) | t.isposinf(x / 0) | t.isneginf(x / 0) | t.isreal(x)
n.gcd(t.tensor([4, 6, 9])) | t.lcm(n, t.tensor([4, 6, 9]))
t.nextafter(x.detach(), y.detach()) | t.polygamma(1, u) | u.polygamma(2) | u.xlogy(x)
(u + 3).mvlgamma(2) | (x * 1).fmod_(0.7) | t.heaviside(x.detach(), y.detach())
(x * 1).eq_(1) | t.ones(3).lt_(2) | t.pi | t.inf | t.exp_(x * 1) | t.relu_(x * 1)
t.abs_(x * 1) | t.sigmoid_(x * 1) | t.exp_(x) | t.e | t.clamp_(x * 1, 0, 1)
t.ones(2).le_(0) | t.isfinite(t.tensor(t.nan)) | x[t.newaxis]
"""
ARRANGED = """
x.unfold(1, 2, 1) | x.unfold(0, 2, 2) | v.unfold(0, 3, 1) | b.unfold(2, 2, 2)
v.unfold(0, 5, 1) | v.unfold(0, 2, 0) | x.as_strided((2, 2), (1, 2))
t.as_strided(x, (2, 2), (4, 1), 1) | x.as_strided((3, 3), (1, 1))
t.select_scatter(x, v, 0, 1) | x.select_scatter(v[:3], 1, 2) | x.select_scatter(v, 1, 2)
x.slice_scatter(y[:2], 0, 1) | x.diagonal_scatter(v[:3])
t.slice_scatter(x, y[:, :2], 1, 0, 4, 2) | x.masked_scatter(x > 0, y)
s.diagonal_scatter(v) | x.put(t.tensor([0, 5, 11]), v[:3])
x.put(t.tensor([0, 5, 5]), v[:3], accumulate=True) | x.put(t.tensor([0]), v)
t.block_diag(x, v, z) | t.block_diag(b) | t.diagflat(x) | t.diagflat(v, 1)
t.atleast_3d(x) | t.atleast_3d(v, z) | x.hsplit(2) | v.hsplit(2) | x.vsplit(3)
b.dsplit(2) | v.vsplit(2) | t.hsplit(x, [1, 3]) | t.cartesian_prod(v, w)
t.combinations(v) | t.combinations(v, 3) | t.combinations(v[:2], 2, True)
t.tril_indices(3, 4) | t.triu_indices(3, 3, 1) | t.broadcast_shapes((2, 1), (3,), 3)
t.broadcast_shapes((2,), (3,)) | n.unique() | t.unique(i, return_inverse=True)
t.unique(i, return_inverse=True, return_counts=True) | t.unique(k, dim=0)
t.unique_consecutive(t.tensor([1, 1, 2, 2, 1])) | t.unique_consecutive(k, dim=0)
t.unique_consecutive(t.tensor([1, 1, 2]), return_inverse=True, return_counts=True)
t.tensor([1, 2, 2, 3, 3]).mode() | x.mode(0) | t.round(x).mode(1).values
x.mode(1, keepdim=True) | z.mode() | t.isin(i, n) | t.isin(i, 2)
t.isin(i, n, invert=True) | t.histc(x, 4, -1, 1)
t.bucketize(x, t.tensor([-1.0, 0.0, 1.0])) | t.bucketize(x, t.tensor([0.0]), right=True)
x.msort() | t.logspace(0, 2, 3) | t.unravel_index(t.tensor([5, 7]), (3, 4))
x.scatter_reduce(1, k, y[:, :2], "sum") | x.scatter_reduce(1, k, y[:, :2], "prod")
x.scatter_reduce(1, k, y[:, :2], "mean") | x.scatter_reduce(1, k, y[:, :2], "amax")
x.scatter_reduce(1, k, y[:, :2], "amin") | x.scatter_reduce(1, k, y[:, :2], "other")
x.scatter_reduce(1, k, y[:, :2], "sum", include_self=False)
x.scatter_reduce(1, k, y[:, :2], "mean", include_self=False)
x.scatter_reduce(1, k, y[:, :2], "amax", include_self=False)
x.scatter_reduce(1, k, y[:, :2], "prod", include_self=False)
v.scatter_reduce(0, i, w, "amax") | v.scatter_reduce(0, i, w, "prod")
v.scatter_reduce(0, i, w, "mean") | x.index_reduce(1, i, y, "mean")
x.index_reduce(1, i, y, "amin", include_self=False)
"""
MEASURES = """
t.cov(x) | v.cov() | t.cov(x, correction=0) | t.cov(x, aweights=u[0]) | b.cov()
t.cov(x, fweights=t.tensor([1, 2, 1, 3])) | t.corrcoef(x) | v.corrcoef() | b.corrcoef()
t.cov(x, fweights=t.tensor([1, 2, 1, 3]), aweights=u[0].detach()) | t.cdist(x, y)
t.cdist(x, y, p=1) | t.cdist(x, y, p=3.0) | t.cdist(b, c.mT) | t.cdist(x, s)
t.cdist(v, v) | t.cdist(x, y, p=float("inf")) | t.pdist(x) | x.renorm(2, 0, 1.0)
t.cdist(x, y, p=-1) | t.trapezoid(x) | t.trapezoid(x, dx=0.5, dim=0) | t.trapezoid(v, w)
t.trapz(x, y) | t.cumulative_trapezoid(x) | t.cumulative_trapezoid(x, v)
t.gradient(v)[0] | t.gradient(x)[1] | t.vander(v.detach(), 3, True)
t.gradient(x, spacing=2.0, dim=0)[0] | t.gradient(v, edge_order=2)[0]
"""
LINALG = """
t.linalg.eig(p).eigenvalues.abs() | t.linalg.eigvals(p).real
t.linalg.lstsq(x.mT, y.mT)[0] | t.linalg.solve_triangular(p, s, upper=True)
t.linalg.solve_triangular(p, s, upper=False)
t.linalg.solve_triangular(p, x.mT, upper=True, left=False) | t.linalg.eig(x)
t.linalg.solve_triangular(p, s, upper=True, unitriangular=True)
s.cholesky_solve(p.tril()) | t.cholesky_solve(s, p.triu(), upper=True)
t.cholesky_inverse(p.tril()) | p.matrix_exp() | t.cholesky(p @ p.mT)
t.linalg.inv_ex(p)[0] | t.linalg.cholesky_ex(p @ p.mT)[0] | t.pinverse(x)
t.linalg.vander(v) | x.H | b.mH | x.adjoint() | b.H
"""
NETWORKS = """
F.prelu(x, v[:1]) | F.prelu(x, v) | F.hardshrink(x) | F.softshrink(x, 0.3)
t.prelu(x, v) | F.group_norm(b, 3, v[:3], w[:3]) | F.group_norm(b, 2)
F.instance_norm(b, weight=v[:3], bias=w[:3]) | F.rms_norm(x, (4,), v)
F.rms_norm(x, (4,)) | F.pixel_shuffle(b.reshape(4, 2, 3), 2)
F.pixel_unshuffle(b[:1, :2], 2) | F.adaptive_avg_pool1d(b, 3)
F.adaptive_avg_pool2d(b, (2, 3)) | F.adaptive_avg_pool2d(b, 1)
F.hinge_embedding_loss(x, sign) | F.margin_ranking_loss(v, w, sign[0])
F.triplet_margin_loss(x, y, u)
F.triplet_margin_loss(x, y, u, swap=True, reduction="sum")
F.cosine_embedding_loss(x, y, sign[:, 0]) | F.poisson_nll_loss(x, u * 3)
F.poisson_nll_loss(u, u.detach() * 3, log_input=False, full=True)
F.gaussian_nll_loss(x, y, u) | F.gaussian_nll_loss(x, y, u, full=True, reduction="none")
F.soft_margin_loss(x, sign) | F.multilabel_soft_margin_loss(x, sign * 0.5 + 0.5)
F.hinge_embedding_loss(x, sign, reduction="other") | t.layer_norm(x, (4,), v, w)
t.conv1d(b, c[:, :3, :2]) | t.dropout(x, 0.5, False) | t.embedding(x, n[:2])
t.cosine_similarity(x, y) | t.pairwise_distance(x, y)
t.bilinear(x, y, c[:, :, :4], v[:2])
"""
RESAMPLED = """
F.unfold(d, 2) | F.unfold(d, (2, 3), padding=1, stride=2) | F.unfold(d, 2, dilation=2)
F.unfold(d[0], 2) | F.fold(F.unfold(d, 2), (4, 5), 2) | F.fold(d[0], (4, 5), 2)
F.fold(F.unfold(d, 2, 1, 1, 2), (4, 5), 2, padding=1, stride=2) | F.interpolate(b, 7)
F.conv_transpose1d(b, m[:3, :2, None] * v[:3]) | F.conv_transpose2d(d, g)
F.conv_transpose2d(d, g, v[:3], stride=2, padding=1, output_padding=1)
F.conv_transpose2d(d, g, dilation=2) | F.conv_transpose2d(d[0], g, padding=1)
F.conv_transpose2d(d, g[:, :2], groups=2, stride=(2, 1))
F.interpolate(d, scale_factor=2) | F.interpolate(d, (7, 3), mode="bilinear")
F.interpolate(b, 3, mode="linear")
F.interpolate(d, (7, 3), mode="bilinear", align_corners=True)
F.interpolate(d, scale_factor=1.7, mode="bilinear")
F.interpolate(d, (2, 2), mode="area") | F.interpolate(d, (7, 9), mode="bicubic")
F.interpolate(d, (3, 2), mode="nearest-exact")
F.interpolate(d, (7, 9), mode="bicubic", align_corners=True) | F.interpolate(d)
"""
SPECIAL = """
t.special.expit(x) | t.special.gammaln(u) | t.special.entr(u) | t.special.i1(x)
t.special.i0e(x) | t.special.i1e(x) | t.special.ndtr(x) | t.special.ndtri(u)
t.special.log_ndtr(x) | t.special.xlog1py(x, u) | t.special.logsumexp(x, 1)
t.special.softmax(x, 1) | t.special.erf(n) | t.special.multigammaln(u + 2, 2)
t.special.polygamma(1, u) | t.special.psi(u) | t.special.logit(u) | t.special.sinc(x)
"""
METHODS = """
x.nelement() | z.is_nonzero() | x.is_nonzero() | n.is_signed() | x.is_same_size(y)
x.is_conj() | x.resolve_conj() | x.get_device() | x.is_cpu | x.new_tensor([1])
x.new_full((2,), 3) | n.new_full((2,), 3.7) | x.sum_to_size(1, 4) | b.sum_to_size(3, 1)
x.sum_to_size(4) | x.sum_to_size(2) | n.char() | n.byte() | (x * 1).squeeze_()
(x * 1).unsqueeze_(0) | (x * 1).t_() | (x * 1).transpose_(0, 1) | x.t_() | n.t_()
(s * 1).detach().fill_diagonal_(5.0) | t.ones(2).apply_(lambda a: a + 1) | x.apply_(abs)
v.fill_diagonal_(1.0) | t.is_nonzero(z) | t.is_signed(n) | t.is_inference(x)
"""
ALL = {
    "numbers": NUMBERS,
    "arranged": ARRANGED,
    "measures": MEASURES,
    "linalg": LINALG,
    "networks": NETWORKS,
    "resampled": RESAMPLED,
    "special": SPECIAL,
    "methods": METHODS,
}


MORE = {
    "d": "(c.reshape(-1) * 2)[:40].reshape(1, 2, 4, 5)",
    "g": "c.reshape(-1)[:24].reshape(2, 3, 2, 2)",
    "p": "s.detach() * 0 + s + 4 * t.eye(3)",
    "sign": "t.tensor([[1.0, -1.0, 1.0, -1.0]] * 3)",
}
CASES = [(kind, e) for kind, text in ALL.items() for e in listed(text)]


@pytest.mark.parametrize(("kind", "expression"), CASES)
def test_same(kind, expression):
    agree(program(expression, MORE))


# Where PyTorch has no second derivative, or its first is a constant.
# (PyTorch's trigamma has eight digits.)
NO_SECOND = (
    "gammaln",
    "psi",
    "heaviside",
    "pdist",
    "cdist",
    "mode",
    "polygamma",
    "mvlgamma",
)


def second(expression):
    """The gradients of the squared gradients."""

    def run(t):
        rng = np.random.default_rng(7)
        names = {"t": t, "F": t.nn.functional}
        shapes = {"x": (3, 4), "y": (3, 4), "v": (4,), "w": (4,), "s": (3, 3), "z": ()}
        shapes |= {"b": (2, 3, 4), "c": (2, 4, 5)}
        for name, shape in shapes.items():
            data = np.asarray(rng.normal(size=shape)).tolist()
            names[name] = t.tensor(data, dtype=t.float64, requires_grad=True)
        data = rng.uniform(0.1, 0.9, size=(3, 4)).tolist()
        names["u"] = t.tensor(data, dtype=t.float64, requires_grad=True)
        names["n"] = t.tensor([1, 0, 3])
        names["i"] = t.tensor([2, 0, 2, 1])
        names["k"] = t.tensor([[1, 0], [2, 2], [3, 0]])
        leaves = [x for x in names.values() if getattr(x, "requires_grad", False)]
        names |= {name: eval(text, names) for name, text in MORE.items()}
        made = eval(expression, names)
        parts = made if isinstance(made, tuple | list) else [made]
        parts = [x for x in parts if isinstance(x, t.Tensor) and x.requires_grad]
        total = sum((x.abs() if x.is_complex() else x).sin().sum() for x in parts)
        options = {"allow_unused": True, "materialize_grads": True}
        grads = t.autograd.grad(total, leaves, create_graph=True, **options)
        again = sum((g * g).sum() for g in grads)
        return [g.detach() for g in t.autograd.grad(again, leaves, **options)]

    return run


SECOND = [
    e
    for kind, e in CASES
    if kind not in ("methods", "numbers") and not any(w in e for w in NO_SECOND)
]


@pytest.mark.slow
@pytest.mark.parametrize("expression", SECOND)
def test_second_derivatives(expression):
    theirs = pytest.importorskip("torch")
    try:
        second(expression)(theirs)
    except Exception:
        pytest.skip("no second derivative in PyTorch")
    agree(second(expression))
