"""`autograd.Function`, live beside PyTorch: values, gradients, names, errors."""

import gc
import importlib
import weakref

import pytest
from eager.both import agree

import tracegrad.eager as ours


def function(t, forward, backward=None, name="My", **more):
    """A subclass with these static methods."""
    methods = {"forward": staticmethod(forward)}
    if backward is not None:
        methods["backward"] = staticmethod(backward)
    methods |= {key: staticmethod(value) for key, value in more.items()}
    return type(name, (t.autograd.Function,), methods)


def once(t):
    root = "torch" if t.__name__ == "torch" else t.__name__
    return importlib.import_module(f"{root}.autograd.function").once_differentiable


def leaf(t):
    return t.tensor([1.0, 2.0, -3.0], requires_grad=True)


def save(*names):
    def forward(ctx, *args):
        ctx.save_for_backward(*args)
        return args[0] * 1

    return forward


def cube(t):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x**2

    return function(t, forward, backward, "Cube")


def first_and_higher_orders(t):
    x = leaf(t)
    y = cube(t).apply(x * 2)
    (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = t.autograd.grad(g.sum(), x, create_graph=True)
    (k,) = t.autograd.grad(h.sum(), x)
    return y, y.grad_fn.name(), g, h, k


def of_an_output(t):
    def forward(ctx, x):
        y = x.exp()
        z = x * 2
        ctx.save_for_backward(y, z)
        return y, z

    def backward(ctx, g, h):
        y, z = ctx.saved_tensors
        return g * y + h * 2 + 0 * z

    x = leaf(t)
    y, z = function(t, forward, backward).apply(x)
    (g,) = t.autograd.grad(y.sum() + (z * z).sum(), x, create_graph=True)
    (h,) = t.autograd.grad(g.sum(), x)
    return y, z, g, h, y.output_nr, z.output_nr, y.grad_fn is z.grad_fn


def several_and_others(t):
    seen = []

    def forward(ctx, x, y, k, flag=None):
        seen.append((ctx.needs_input_grad, type(ctx).__name__, x.requires_grad))
        seen.append(ctx.saved_tensors)
        return x * k, 5, y + 1, "text"

    def backward(ctx, *grads):
        seen.append([None if g is None else g.tolist() for g in grads])
        return grads[0] * 3, None, None

    x, y = leaf(t), t.ones(3)
    outs = function(t, forward, backward).apply(x, y, 3)
    outs[0].sum().backward()
    (x * 1 + outs[2]).sum().backward()
    nodes = [
        (f if f is None else f.name(), k) for f, k in outs[0].grad_fn.next_functions
    ]
    return [o.requires_grad if isinstance(o, t.Tensor) else o for o in outs], (
        nodes,
        x.grad,
        seen,
    )


def wrong(made, *others):
    def run(t):
        x = leaf(t)
        f = function(t, lambda ctx, x, *rest: x * 1, lambda ctx, g: made(t, g))
        f.apply(x, *others).sum().backward()
        return x.grad

    return run


def wide_gradient(t):
    z = t.ones(2, 1, requires_grad=True)
    f = function(t, lambda ctx, x: x.expand(2, 3) * 1, lambda ctx, g: g.double())
    f.apply(z).sum().backward()
    return z.grad


def not_implemented(t):
    return type("Empty", (t.autograd.Function,), {}).apply(leaf(t))


def no_backward(t):
    y = function(t, lambda ctx, x: x * 1).apply(leaf(t))
    y.sum().backward()


def returns_no_tensor(t):
    f = function(t, lambda ctx, x: 5)
    return f.apply(leaf(t)), function(t, lambda ctx, x: None).apply(leaf(t))


def instance(t):
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        made = function(t, lambda ctx, x: x * 1)()
    return made(leaf(t))


def vjp_for_backward(t):
    x = leaf(t)
    f = function(t, lambda ctx, x: x * 1, vjp=lambda ctx, g: g * 7)
    f.apply(x).sum().backward()
    return x.grad


def both_of_them(t):
    x = leaf(t)
    f = function(t, lambda ctx, x: x * 1, lambda ctx, g: g, vjp=lambda ctx, g: g * 7)
    f.apply(x).sum().backward()


def doubled(ctx, x):
    ctx.mark_dirty(x)
    x.mul_(2)
    return x


def dirty(t):
    x = leaf(t)
    a = x * 1
    b = function(t, doubled, lambda ctx, g: g * 2).apply(a)
    c = a * a
    return b is a, a._version, a.grad_fn.name(), t.autograd.grad(c.sum(), x)


def dirty_leaf(t):
    return function(t, doubled, lambda ctx, g: g * 2).apply(leaf(t))


def dirty_view(t):
    x = leaf(t)
    base = x * 1
    function(t, doubled, lambda ctx, g: g * 2).apply(base[:2])
    return base, base.grad_fn.name(), t.autograd.grad((base * base).sum(), x)


def dirty_not_returned(t):
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x * 1

    return function(t, forward, lambda ctx, g: g).apply(leaf(t) * 1)


def dirty_no_input(t):
    def forward(ctx, x):
        z = x * 1
        ctx.mark_dirty(z)
        return z

    return function(t, forward, lambda ctx, g: g).apply(leaf(t))


def input_returned(t):
    x = leaf(t)
    y = function(t, lambda ctx, x: x, lambda ctx, g: g * 2).apply(x)
    y.sum().backward()
    return y is x, y.grad_fn.name(), y._is_view(), x.grad


def written(forward):
    def run(t):
        f = function(t, forward, lambda ctx, *g: g[0] * 2)
        made = f.apply(leaf(t) * 1)
        (made[0] if isinstance(made, tuple) else made).mul_(2)

    return run


def non_differentiable(t):
    seen = []

    def forward(ctx, x):
        y, z, w = x * 1, x > 0, x * 2
        ctx.mark_non_differentiable(w)
        return y, z, w

    def backward(ctx, *grads):
        seen.extend(grads)
        return grads[0]

    x = leaf(t)
    made = function(t, forward, backward).apply(x)
    made[0].sum().backward()
    return made, seen, x.grad


def none_for_zero(t):
    seen = []

    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 1, x * 2

    def backward(ctx, *grads):
        seen.extend(grads)
        return grads[1]

    made = function(t, forward, backward).apply(leaf(t))
    made[1].sum().backward()
    return seen


def saved_and_freed(t):
    x = leaf(t)

    def forward(ctx, x):
        ctx.save_for_backward(x, None)
        ctx.foo = 3
        return x * 1

    y = function(t, forward, lambda ctx, g: g * ctx.saved_tensors[0]).apply(x)
    f = y.grad_fn
    shown = f.saved_tensors, f.saved_tensors[0] is x, f.foo, f.needs_input_grad
    y.sum().backward()
    with pytest.raises(RuntimeError, match="directly access saved tensors"):
        print(f.saved_tensors)
    assert x.grad is not None
    return shown


def twice(t):
    y = cube(t).apply(leaf(t))
    y.sum().backward()
    y.sum().backward()


def twice_with_nothing_saved(t):
    x = leaf(t)
    y = function(t, lambda ctx, x: x * 1, lambda ctx, g: g * 2).apply(x)
    y.sum().backward()
    y.sum().backward()
    return x.grad


def saves_a_number(t):
    f = function(t, lambda ctx, x: (ctx.save_for_backward(3), x * 1)[1])
    return f.apply(leaf(t))


def input_changed(t):
    a = leaf(t) * 1
    y = cube(t).apply(a)
    a.add_(1)
    y.sum().backward()


def output_changed(t):
    def forward(ctx, x):
        y = x * 1
        ctx.save_for_backward(y)
        return y

    y = function(t, forward, lambda ctx, g: g * ctx.saved_tensors[0]).apply(leaf(t))
    y.add_(1)
    y.sum().backward()


def changed_inside(t):
    def forward(ctx, x):
        y = x * 1
        ctx.save_for_backward(y)
        y.mul_(2)
        return y

    x = leaf(t)
    f = function(t, forward, lambda ctx, g: g * ctx.saved_tensors[0])
    f.apply(x).sum().backward()
    return x.grad


def once_only(t):
    f = function(t, save(), once(t)(lambda ctx, g: g * 2 * ctx.saved_tensors[0]))
    x, v = leaf(t), t.ones(3, requires_grad=True)
    y = f.apply(x)
    (plain,) = t.autograd.grad(y.sum(), x, retain_graph=True, create_graph=True)
    (g,) = t.autograd.grad(y, x, v, create_graph=True)
    assert g.grad_fn.name() == "torch::autograd::Error"
    assert not plain.requires_grad
    g.sum().backward()


def scaled(t, name="Scaled"):
    def forward(x, k=3):
        return x * k

    def setup_context(ctx, inputs, output):
        ctx.k = inputs[1]
        ctx.save_for_backward(output)

    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * ctx.k + 0 * y, None

    return function(t, forward, backward, name, setup_context=setup_context)


def setup_style(t):
    x = leaf(t)
    f = scaled(t)
    y = f.apply(x)
    y.sum().backward()
    first = x.grad.clone()
    f.apply(x, k=5).sum().backward()
    (g,) = t.autograd.grad((f.apply(x, 2) ** 2).sum(), x, create_graph=True)
    (h,) = t.autograd.grad(g.sum(), x)
    return y, y.grad_fn.name(), first, x.grad, g, h


def keywords(t):
    f = function(t, lambda ctx, x, k=1: x * k, lambda ctx, g: g * 2)
    x = leaf(t)
    f.apply(x, k=2).sum().backward()
    return x.grad


def without_grad(t):
    seen = []

    def forward(ctx, x):
        seen.append(ctx.needs_input_grad)
        return x * 1

    f = function(t, forward, lambda ctx, g: g)
    with t.no_grad():
        return f.apply(leaf(t)), f.apply(t.ones(2)), seen


def recording_inside(t):
    def forward(ctx, x):
        with t.enable_grad():
            y = x.detach().requires_grad_()
            z = (y**2).sum()
        (ctx.g,) = t.autograd.grad(z, y)
        return z

    x = leaf(t)
    z = function(t, forward, lambda ctx, g: g * ctx.g).apply(x)
    return z, t.autograd.grad(z, x)


def grad_mode_inside(t):
    seen = []

    def forward(ctx, x):
        seen.append((t.is_grad_enabled(), (x * 2).requires_grad))
        return x * 1

    def backward(ctx, g):
        seen.append((t.is_grad_enabled(), g.requires_grad))
        return g

    x = leaf(t)
    y = function(t, forward, backward).apply(x)
    t.autograd.grad(y.sum(), x, retain_graph=True)
    t.autograd.grad(y.sum(), x, create_graph=True)
    return seen


def hooks_run_it_once(t):
    seen = []

    def backward(ctx, g):
        seen.append("backward")
        return g, g * 2

    x = leaf(t)
    y = function(t, lambda ctx, a, b: a * b, backward).apply(x, x)
    y.grad_fn.register_hook(lambda i, o: seen.append([p.tolist() for p in (*i, *o)]))
    y.grad_fn.register_prehook(lambda o: seen.append([p.tolist() for p in o]))
    y.sum().backward()
    return seen, x.grad


def saved_tensor_hooks(t):
    seen = []

    def pack(x):
        seen.append(x.tolist())
        return x * 2

    def unpack(x):
        seen.append("unpack")
        return x

    x = leaf(t)
    with t.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = cube(t).apply(x * 1)
    y.sum().backward()
    return seen, x.grad


def complex_numbers(t):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (2 * x).conj()

    x = t.tensor([1.0 + 2.0j, -0.5j], requires_grad=True)
    y = function(t, forward, backward).apply(x)
    (y.real.sum() + 3 * y.imag.sum()).backward()
    return y, x.grad


def dtype_of_gradient(t):
    x = t.ones(2, dtype=t.float64, requires_grad=True)
    f = function(t, lambda ctx, x: x.float(), lambda ctx, g: g)
    f.apply(x).sum().backward()
    return x.grad


PROGRAMS = [
    first_and_higher_orders,
    of_an_output,
    several_and_others,
    wrong(lambda t, g: (g, g)),
    wrong(lambda t, g: g, 3),
    wrong(lambda t, g: (g, g), 3),
    wrong(lambda t, g: 3.0),
    wrong(lambda t, g: g.sum().expand(5)),
    wrong(lambda t, g: (g, None, None)),
    wrong(lambda t, g: None),
    wide_gradient,
    not_implemented,
    no_backward,
    returns_no_tensor,
    instance,
    vjp_for_backward,
    both_of_them,
    dirty,
    dirty_leaf,
    dirty_view,
    dirty_not_returned,
    dirty_no_input,
    input_returned,
    written(lambda ctx, x: x),
    written(lambda ctx, x: x.view(-1)),
    written(lambda ctx, x: (x.view(-1), x[:1])),
    non_differentiable,
    none_for_zero,
    saved_and_freed,
    twice,
    twice_with_nothing_saved,
    saves_a_number,
    input_changed,
    output_changed,
    changed_inside,
    once_only,
    setup_style,
    keywords,
    without_grad,
    recording_inside,
    grad_mode_inside,
    hooks_run_it_once,
    saved_tensor_hooks,
    complex_numbers,
    dtype_of_gradient,
]


@pytest.mark.parametrize(
    "program", PROGRAMS, ids=[f"{p.__name__}-{k}" for k, p in enumerate(PROGRAMS)]
)
def test_same(program):
    agree(program)


def test_no_reference_cycles():
    gc.disable()
    try:
        x = leaf(ours)
        y = cube(ours).apply(x * 2)
        z, w = of_an_output(ours)[:2]
        arrays = [weakref.ref(out._data) for out in (y, z, w)]
        del y, z, w
        assert all(r() is None for r in arrays)
    finally:
        gc.enable()


def test_backward_frees():
    seen = []

    def forward(ctx, x):
        y = x * 1
        ctx.save_for_backward(y)
        seen.append(weakref.ref(y._data))
        return x * 2

    y = function(ours, forward, lambda ctx, g: g * ctx.saved_tensors[0])
    z = y.apply(leaf(ours)).sum()
    assert seen[0]() is not None
    z.backward()
    assert seen[0]() is None
