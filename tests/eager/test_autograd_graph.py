"""`autograd.graph`, what nodes show, inference tensors: live beside PyTorch."""

import importlib

import pytest
from eager.both import agree


def graph(t):
    return importlib.import_module(f"{t.__name__}.autograd.graph")


def leaf(t, *values):
    return t.tensor(values or (1.0, 2.0), requires_grad=True)


def name(x):
    return None if x is None else x.name()


def edges(t):
    g = graph(t)
    x = leaf(t)
    y = x * 2
    q = t.linalg.qr(t.outer(x, x) + t.eye(2))
    made = [g.get_gradient_edge(a) for a in (x, y, q[1])]
    assert all(isinstance(e.node, g.Node) for e in made)
    return [(e.node.name(), e.output_nr, type(e).__name__) for e in made]


def edge_of_a_constant(t):
    return graph(t).get_gradient_edge(t.ones(2))


def gradient_by_an_edge(t):
    g = graph(t)
    x = leaf(t)
    y = x * 2
    z = (y.exp() * y).sum()
    parts = x.chunk(2)
    w = (parts[1] * 3).sum()
    return (
        t.autograd.grad(z, g.get_gradient_edge(y), retain_graph=True),
        t.autograd.grad(z, [g.get_gradient_edge(x), y], retain_graph=True),
        t.autograd.grad(w, g.get_gradient_edge(parts[1])),
        t.autograd.grad(z, (g.get_gradient_edge(w),), allow_unused=True),
    )


def gradient_from_an_edge(t):
    g = graph(t)
    x = leaf(t)
    v = (x * 2).exp()
    r = t.linalg.qr(t.outer(x, x) + t.eye(2))[1]
    made = t.autograd.grad(g.get_gradient_edge(v), x, grad_outputs=t.ones(2))
    other = t.autograd.grad(g.get_gradient_edge(r), x, grad_outputs=t.ones(2, 2))
    t.autograd.backward([g.get_gradient_edge(x * 3)], [t.ones(2)])
    return made, other, x.grad


def hooks_refused(t):
    g = graph(t)
    with (
        g.disable_saved_tensors_hooks("not here"),
        g.saved_tensors_hooks(lambda x: x, lambda x: x),
    ):
        pass


def hooks_refused_inside(t):
    g = graph(t)
    with (
        g.saved_tensors_hooks(lambda x: x, lambda x: x),
        g.disable_saved_tensors_hooks("not here"),
    ):
        pass


def hooks_back_again(t):
    g = graph(t)
    seen = []
    with g.disable_saved_tensors_hooks("not here"):
        pass
    with g.saved_tensors_hooks(lambda x: (seen.append(1), x)[1], lambda x: x):
        leaf(t).exp().sum().backward()
    return seen


def on_cpu(t):
    x = leaf(t)
    with graph(t).save_on_cpu(pin_memory=False):
        y = (x * x).exp()
    y.sum().backward()
    return x.grad


def multi(mode):
    def multi_grad_hook(t):
        a, b = leaf(t), leaf(t, 3.0, 4.0)
        seen = []
        c = a * b
        handle = graph(t).register_multi_grad_hook(
            (a, b, c), lambda g: seen.append(g), mode=mode
        )
        c.sum().backward()
        (a * 2).sum().backward()
        (b * 2).sum().backward(inputs=[b])
        handle.remove()
        (a * 2).sum().backward()
        with graph(t).register_multi_grad_hook((a,), lambda g: seen.append(g)):
            (a * 2).sum().backward()
        (a * 2).sum().backward()
        return seen

    return multi_grad_hook


def multi_of_no_mode(t):
    graph(t).register_multi_grad_hook((leaf(t),), print, mode="some")


def mutation(t):
    a = leaf(t)
    with graph(t).allow_mutation_on_saved_tensors():
        y = a * 2
        z = y.exp() * y
        y.mul_(3)
        z.sum().backward()
    return a.grad, y


def mutation_outside(t):
    with graph(t).allow_mutation_on_saved_tensors():
        y = leaf(t) * 2
        z = y.exp() * y
        y.mul_(3)
    z.sum().backward()


def mutation_nested(t):
    g = graph(t)
    with g.allow_mutation_on_saved_tensors(), g.allow_mutation_on_saved_tensors():
        pass


def versions(t):
    x = t.ones(2)
    graph(t).increment_version(x)
    graph(t).increment_version([x, x])
    return x._version


def changed_version(t):
    y = leaf(t) * 2
    z = y.exp() * y
    graph(t).increment_version(y)
    z.sum().backward()


SHOWN = """
x.exp()._saved_result | (x * x)._saved_self | (x * y)._saved_other | (x * 2)._saved_self
(x / y)._saved_other | (x ** 2)._saved_self | (x ** 2)._saved_exponent
(x ** 2.5)._saved_exponent | (x ** y)._saved_result | x.sin()._saved_self
x.sigmoid()._saved_result | x.softmax(0)._saved_result | x.softmax(0)._saved_dim
(m @ m)._saved_mat2 | (m @ m)._saved_self | x.tanh()._saved_result | x.log()._saved_self
x.sum()._saved_self_sym_sizes | x.view(2, 1)._saved_self_sym_sizes | x.exp()._saved_foo
t.where(x > 0, x, y)._saved_condition | x.norm()._saved_result | x.relu()._saved_result
t.cat([x, y])._saved_dim | x.sum()._saved_result
"""


def shows(expression):
    def program(t):
        x, y = leaf(t), leaf(t, 3.0, 4.0)
        call, _, name = expression.rpartition(".")
        made = eval(call, {"t": t, "x": x, "y": y, "m": t.outer(x, y)})
        value = getattr(made.grad_fn, name)
        if not isinstance(value, t.Tensor):
            return value
        return value, value is x, value is y, value.requires_grad

    program.__name__ = expression
    return program


def freed(t):
    y = leaf(t).exp()
    y.sum().backward()
    return y.grad_fn._saved_result


def hooks_on_one(t):
    seen = []
    x = leaf(t)
    y = (x * 2).sin()

    def pack(a):
        seen.append(a)
        return a * 0

    y.grad_fn._raw_saved_self.register_hooks(pack, lambda a: a + 1)
    return t.autograd.grad(y.sum(), x), seen


def inference(t):
    x = leaf(t)
    seen = []
    with t.inference_mode():
        i = t.ones(2)
        y = x * 2
        seen += [i.is_inference(), y.is_inference(), y.requires_grad]
        seen.append(x.view(2).is_inference())
        i.add_(1)
        with t.inference_mode(False):
            seen += [(x * 2).requires_grad, t.is_grad_enabled()]
        with t.enable_grad():
            seen += [(x * 2).requires_grad, t.is_inference_mode_enabled()]
    seen += [i.view(2).is_inference(), i.clone().is_inference(), (i * 2).is_inference()]
    seen += [(i + x).requires_grad, x.data.is_inference(), i]
    return seen


def inference_requires_grad(t):
    with t.inference_mode():
        i = t.ones(2)
    i.requires_grad_()


def inference_version(t):
    with t.inference_mode():
        i = t.ones(2)
    return i._version


def inference_changed(t):
    with t.inference_mode():
        i = t.ones(2)
    i.add_(1)


LISTED = [e.strip() for line in SHOWN.strip().splitlines() for e in line.split(" | ")]
PROGRAMS = [
    edges,
    edge_of_a_constant,
    gradient_by_an_edge,
    gradient_from_an_edge,
    hooks_refused,
    hooks_refused_inside,
    hooks_back_again,
    on_cpu,
    multi("all"),
    multi("any"),
    multi_of_no_mode,
    mutation,
    mutation_outside,
    mutation_nested,
    versions,
    changed_version,
    freed,
    hooks_on_one,
    inference,
    inference_requires_grad,
    inference_version,
    inference_changed,
    *[
        shows(e.strip())
        for line in SHOWN.strip().splitlines()
        for e in line.split(" | ")
    ],
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_same(program):
    agree(program)
