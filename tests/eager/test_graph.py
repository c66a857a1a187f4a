"""The graph, `.backward()`, `.grad`, hooks and modes: the same as in PyTorch, live."""

import warnings

import pytest
from eager.both import agree


def leaf(t, *values, **options):
    return t.tensor(values or (0.5, 1.0, 2.0), requires_grad=True, **options)


# --------------------------------------------------------------------- the seeds
def seed_first(t):
    x = t.autograd.Variable(t.ones(2, 2), requires_grad=True)
    y = x.sum()
    seen = [x, y, y.grad_fn]
    for _ in range(3):
        y.backward()
        seen.append(x.grad.clone())
    seen.append(x.grad.data.zero_().clone())
    y.backward()
    m = t.autograd.Variable(t.ones(4, 5))
    return [*seen, x.grad, m, t.cos(m), t.cos(m.data)]


def seed_second(t):
    x = t.ones(2, 2, requires_grad=True)
    y = x + 2
    z = y * y * 3
    out = z.mean()
    names = [type(v.grad_fn).__name__ for v in (y, z, out)]
    out.backward()
    a = t.tensor([[0.5, 0.25], [2.0, 3.0]])
    a = (a * 3) / (a - 1)
    before = a.requires_grad
    a.requires_grad_(True)
    b = (a * a).sum()
    x2 = t.tensor([-0.4, 0.7, -1.6], requires_grad=True)
    w = x2 * 2
    while (w.data * w.data).sum().sqrt() < 1000:
        w = w * 2
    w.backward(t.tensor([0.1, 1.0, 0.0001], dtype=t.float))
    with t.no_grad():
        off = (x2**2).requires_grad
    flags = [x.grad_fn, before, a.requires_grad, (x2**2).requires_grad, off]
    return [y, z, out, names, x.grad, a, b, type(b.grad_fn).__name__, w, x2.grad, flags]


# --------------------------------------------------------------------- gradients
def accumulates(t):
    x = leaf(t)
    seen = []
    for n in range(3):
        (x * n).sum().backward()
        seen.append(x.grad.clone())
    return seen


def same_grad_object(t):
    x = leaf(t)
    x.sum().backward()
    g = x.grad
    x.sum().backward()
    return [g is x.grad, g]


def grads_do_not_alias(t):
    x, y = leaf(t), leaf(t)
    v = t.ones(3)
    (x + y).backward(v)
    x.grad.mul_(5)
    return [x.grad, y.grad, v]


def inputs_argument(t):
    x, y = leaf(t), leaf(t)
    z = x * y
    (z * 2).sum().backward(inputs=[x])
    return [x.grad, y.grad]


def several_roots(t):
    x = leaf(t)
    t.autograd.backward([x.sum(), x * 2], [None, t.ones(3)])
    return x.grad


def grad_of_intermediate(t):
    x = leaf(t)
    y = x * 2
    z = (y * y).sum()
    return t.autograd.grad(z, [y, x])


def grad_of_itself(t):
    x = leaf(t)
    return t.autograd.grad(x, x, t.ones(3))


def frees_only_what_runs(t):
    x, w = leaf(t), leaf(t)
    y = x.exp()
    z = y * w
    t.autograd.grad(z.sum(), w)
    return t.autograd.grad(y.sum(), x)


def freed_pattern(t):
    made = [
        lambda x: x * 2,
        lambda x: x + 2,
        lambda x: x.exp(),
        lambda x: x.sum(),
        lambda x: x.mean(),
        lambda x: x.view(3, 1),
        lambda x: x[1:],
        lambda x: x**2,
        lambda x: x / 2,
        lambda x: 2 / x,
        lambda x: x - 1,
        lambda x: -x,
        lambda x: x.max(),
        lambda x: x.abs(),
        lambda x: x @ t.ones(3),
        lambda x: t.cat([x, x]),
        lambda x: t.where(x > 1, x, 0.0),
        lambda x: x.clamp(0, 1),
        lambda x: x[[0, 0]],
        lambda x: x.expand(2, 3),
        lambda x: x.clone(),
        lambda x: x.to(t.float64),
        lambda x: x * t.ones(3, requires_grad=True),
        lambda x: x % 2,
    ]
    freed = []
    for f in made:
        y = f(leaf(t))
        y.backward(t.ones_like(y))
        try:
            y.backward(t.ones_like(y))
            freed.append(False)
        except RuntimeError:
            freed.append(True)
    return freed


def materialized(t):
    x, y = leaf(t), leaf(t)
    return t.autograd.grad(x.sum(), [x, y], materialize_grads=True)


def batched(t):
    x = leaf(t)
    y = x * x
    return t.autograd.grad(y, x, t.eye(3), is_grads_batched=True)


def second_order(t):
    x = leaf(t)
    y = (x**3 * x.sin()).sum()
    (g,) = t.autograd.grad(y, x, create_graph=True)
    (h,) = t.autograd.grad((g * g).sum(), x, create_graph=True)
    (k,) = t.autograd.grad(h.sum(), x)
    return [g, h, k]


def second_order_backward(t):
    x = leaf(t)
    (x.exp() * x).sum().backward(create_graph=True)
    g = x.grad
    x.grad = None
    (g * g).sum().backward()
    return [g, x.grad]


def penalty(t):
    w, x = leaf(t), leaf(t, 0.3, 0.2, 0.1)
    out = t.tanh(w * x).sum() ** 2
    (gx,) = t.autograd.grad(out, x, create_graph=True)
    (gx**2).sum().backward()
    return [w.grad, x.grad]


def create_graph_names(t):
    x = leaf(t)
    (g,) = t.autograd.grad((x.sin() * x).sum(), x, create_graph=True)
    return [g.requires_grad, g.is_leaf]


# ---------------------------------------------------------------------- functions
def names_of_functions(t):
    x, m, s = leaf(t), t.ones(2, 3, requires_grad=True), leaf(t, 2.0)
    made = [
        x + x,
        x - 1,
        1 - x,
        x * 2,
        x / 2,
        2 / x,
        x**2,
        2**x,
        x**x,
        -x,
        x.exp(),
        x.log(),
        x.sin(),
        x.tanh(),
        x.sqrt(),
        x.abs(),
        x.sum(),
        x.sum(0),
        x.mean(),
        x.mean(0),
        x.max(),
        x.min(),
        m @ m.t(),
        m @ x,
        x @ x,
        m.t(),
        m.transpose(0, 1),
        m.permute(1, 0),
        m.T,
        m.view(6),
        m.reshape(6),
        m.unsqueeze(0),
        m.squeeze(),
        m.squeeze(0),
        s.expand(4),
        x[0],
        x[1:],
        x[None],
        x[[0]],
        m[0, 1:],
        m[:, 0],
        t.cat([x, x]),
        t.stack([x, x]),
        t.where(x > 1, x, x),
        x.clamp(0, 1),
        x.clamp(min=0),
        x.clone(),
        x.double(),
        x.sign(),
        x.floor(),
        x % 2,
        x.view(-1),
        m.flatten(),
        x.max(0)[0],
        t.clamp(x, min=x, max=x),
        x.reciprocal(),
        x.log1p(),
    ]
    return [type(y.grad_fn).__name__ for y in made]


def next_functions(t):
    x, w = leaf(t), leaf(t)
    y = x * w
    z = y + 2
    f = z.grad_fn
    shown = [(None if g is None else g.name(), n) for g, n in f.next_functions]
    deeper = f.next_functions[0][0]
    leaves = [(g.name(), n) for g, n in deeper.next_functions]
    same = [z.grad_fn is z.grad_fn, deeper is y.grad_fn]
    variable = deeper.next_functions[0][0].variable is x
    deeper.metadata["seen"] = 1
    return [shown, leaves, same, variable, deeper.metadata, f.name()]


def leaves_and_flags(t):
    x = leaf(t)
    y = x * 2
    d = y.detach()
    return [x, y, d, y.detach().requires_grad_(), x.output_nr, y.output_nr]


# ---------------------------------------------------------------------------- hooks
def hooks_in_order(t):
    log = []
    x, w = leaf(t), leaf(t)
    y = x * w
    z = y.exp()
    for name, v in {"x": x, "w": w, "y": y, "z": z}.items():
        v.register_hook(lambda g, name=name: log.append((name, g.clone())))
    z.retain_grad()
    y.retain_grad()
    z.grad_fn.register_hook(lambda gi, go: log.append(("exp", len(gi), len(go))))
    y.grad_fn.register_hook(lambda gi, go: log.append(("mul", gi[0].clone())))
    y.grad_fn.register_prehook(lambda go: log.append(("pre", go[0].clone())))
    x.register_post_accumulate_grad_hook(lambda v: log.append(("post", v.grad.clone())))
    z.sum().backward()
    return [log, x.grad, w.grad, y.grad, z.grad]


def hooks_that_change(t):
    x = leaf(t)
    y = x * 3
    y.register_hook(lambda g: g * 2)
    h = y.register_hook(lambda g: g + 1)
    y.retain_grad()
    y.sum().backward(retain_graph=True)
    first = x.grad.clone()
    h.remove()
    y.sum().backward()
    return [first, x.grad, y.grad]


def node_hooks_that_change(t):
    x = leaf(t)
    y = x * x
    y.grad_fn.register_hook(lambda gi, go: tuple(g * 10 for g in gi))
    y.grad_fn.register_prehook(lambda go: (go[0] * 3,))
    y.sum().backward()
    return x.grad


def hook_in_order_of_leaves(t):
    log = []
    leaves = [leaf(t) for _ in range(3)]
    a, b, c = leaves
    for k, v in enumerate(leaves):
        v.register_hook(lambda g, k=k: log.append(k))
    y = a * 2
    y.register_hook(lambda g: log.append("y"))
    z = y * b
    z.register_hook(lambda g: log.append("z"))
    (z * c + a).sum().backward()
    return log


def hook_under_create_graph(t):
    x = leaf(t)
    y = x**3
    y.register_hook(lambda g: g * x)
    (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
    return [g, t.autograd.grad(g.sum(), x)[0]]


def hook_starts_a_pass(t):
    x, w = leaf(t), leaf(t)
    y = x * 2

    def hook(g):
        (w * 3).sum().backward()

    y.register_hook(hook)
    y.sum().backward()
    return [x.grad, w.grad]


def saved_hooks(t):
    log = []

    def pack(v):
        log.append(tuple(v.shape))
        return v.detach() * 1

    def unpack(v):
        log.append("unpacked")
        return v

    x = leaf(t)
    with t.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = x.exp()
        z = y * x
    z.sum().backward()
    return [len(log), x.grad]


def retain_grad_twice(t):
    x = leaf(t)
    y = x * 2
    y.retain_grad()
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return [y.grad, y.retains_grad, x.retains_grad]


# ---------------------------------------------------------------------------- modes
def modes(t):
    x = leaf(t)
    seen = []
    with t.no_grad():
        seen.append((x * 2).requires_grad)
        with t.enable_grad():
            seen.append((x * 2).requires_grad)
        seen.append(t.is_grad_enabled())
    with t.set_grad_enabled(False):
        seen.append((x * 2).requires_grad)
    t.set_grad_enabled(False)
    seen.append((x * 2).requires_grad)
    t.set_grad_enabled(True)
    seen.append((x * 2).requires_grad)

    @t.no_grad()
    def f(v):
        return v * 2

    @t.no_grad()
    def numbers(v):
        yield (v * 2).requires_grad
        yield (v * 3).requires_grad

    seen += [f(x).requires_grad, f.__name__]
    for flag in numbers(x):
        seen += [flag, (x * 2).requires_grad]
    with t.inference_mode():
        y = x * 2
        seen += [y.is_inference(), y.requires_grad, t.is_inference_mode_enabled()]
    return [*seen, y.is_inference(), x.is_inference()]


def leaf_made_without_grad_mode(t):
    with t.no_grad():
        x = t.ones(2, requires_grad=True)
        y = x * 2
    return [x, y, (x * 2)]


def no_grad_in_backward_hook(t):
    x = leaf(t)
    seen = []
    x.register_hook(lambda g: seen.append((t.is_grad_enabled(), g.requires_grad)))
    x.sum().backward()
    (x * x).sum().backward(create_graph=True)
    return seen


def anomaly(t):
    x = t.tensor([-1.0, 0.0], requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with t.autograd.detect_anomaly(), t.autograd.set_detect_anomaly(True):
            y = (x.sqrt() * 0).sum()
            y.backward()


PROGRAMS = [
    f
    for name, f in list(globals().items())
    if callable(f) and f.__module__ == __name__ and name not in ("leaf",)
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_same(program):
    agree(program)
