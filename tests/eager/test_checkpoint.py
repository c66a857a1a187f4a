"""`utils.checkpoint`, live beside PyTorch."""

import importlib
import weakref

import pytest
from eager.both import agree

import tracegrad.eager as ours


def module(t):
    return importlib.import_module(f"{t.__name__}.utils.checkpoint")


def leaf(t):
    return t.tensor([1.0, 2.0], requires_grad=True)


def both(program):
    def made(reentrant):
        def run(t):
            def checkpoint(f, *args, **kwargs):
                return module(t).checkpoint(f, *args, use_reentrant=reentrant, **kwargs)

            return program(t, checkpoint)

        run.__name__ = f"{program.__name__}-{reentrant}"
        return run

    return [made(False), made(True)]


def simple(t, checkpoint):
    x, w = leaf(t), leaf(t)
    runs = []

    def f(x):
        runs.append(t.is_grad_enabled())
        return (x * w).exp().sin()

    y = checkpoint(f, x * 2)
    z = y.sum() * 3
    z.backward()
    return y, x.grad, w.grad, runs


def several(t, checkpoint):
    x = leaf(t)

    def f(x, k, flag):
        return x.exp() * k, "text" if flag else None, x * 2

    a, b, c = checkpoint(f, x, 3, True)
    (a * c).sum().backward()
    return a, b, c, x.grad


def nested(t, checkpoint):
    x = leaf(t)
    runs = []

    def inner(x):
        runs.append("inner")
        return x.exp()

    def outer(x):
        return checkpoint(inner, x).sin() * x

    checkpoint(outer, x).sum().backward()
    return x.grad


def by_grad(t, checkpoint):
    x = leaf(t)
    return t.autograd.grad(checkpoint(lambda x: x.exp(), x).sum(), x)


def by_inputs(t, checkpoint):
    x = leaf(t)
    checkpoint(lambda x: x.exp(), x).sum().backward(inputs=[x])
    return x.grad


def again(t, checkpoint):
    x = leaf(t)
    y = checkpoint(lambda x: x.exp().sin(), x).sum()
    y.backward(retain_graph=True)
    y.backward()
    return x.grad


def freed(t, checkpoint):
    y = checkpoint(lambda x: x.exp().sin(), leaf(t)).sum()
    y.backward()
    y.backward()


def random(t, checkpoint):
    x = leaf(t)
    y = checkpoint(lambda x: x * t.rand(2), x * 1)
    t.rand(1)
    y.sum().backward()
    return (x.grad - (y / x).detach()).abs().sum()


def without_a_gradient(t, checkpoint):
    return checkpoint(lambda x: x * 2, t.ones(2))


def second_order(t):
    x = leaf(t)
    y = module(t).checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False)
    (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = t.autograd.grad(g.sum(), x)
    return g, h


def keywords(t):
    x = leaf(t)
    y = module(t).checkpoint(lambda x, k: x.exp() * k, x, k=3, use_reentrant=False)
    y.sum().backward()
    return x.grad


def no_keywords(t):
    module(t).checkpoint(lambda x, k: x * k, leaf(t), k=3, use_reentrant=True)


def contexts(t):
    seen = []

    class Note:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            seen.append(self.name)

        def __exit__(self, *exc):
            seen.append("end")

    y = module(t).checkpoint(
        lambda x: x.exp(),
        leaf(t),
        use_reentrant=False,
        context_fn=lambda: (Note("first"), Note("again")),
        early_stop=False,
    )
    y.sum().backward()
    return seen


def context_reentrant(t):
    f = module(t).checkpoint
    f(lambda x: x, leaf(t), use_reentrant=True, context_fn=lambda: (None, None))


def sequential(reentrant):
    def in_segments(t):
        x = leaf(t)
        steps = [lambda x: x.exp(), lambda x: x.sin(), lambda x: x * x, lambda x: x + 1]
        f = module(t).checkpoint_sequential
        y = f(steps, 2, x, use_reentrant=reentrant)
        y.sum().backward()
        return y, x.grad

    return in_segments


PROGRAMS = [
    *both(simple),
    *both(several),
    *both(nested),
    *both(by_grad),
    *both(by_inputs),
    *both(again),
    *both(freed),
    *both(random),
    *both(without_a_gradient),
    second_order,
    keywords,
    no_keywords,
    contexts,
    context_reentrant,
    sequential(True),
    sequential(False),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_same(program):
    agree(program)


@pytest.mark.parametrize("change", ["number", "shape"])
def test_another_graph_the_second_time(change):
    def program(t):
        runs = []

        def f(x):
            runs.append(1)
            if len(runs) == 1:
                return x.exp().exp()
            return x.exp() if change == "number" else x[:1].exp().exp().expand(2)

        y = module(t).checkpoint(f, leaf(t), use_reentrant=False)
        try:
            y.sum().backward()
        except module(t).CheckpointError as error:
            return str(error).splitlines()[0]

    agree(program)


@pytest.mark.parametrize("reentrant", [True, False])
def test_nothing_is_kept(reentrant):
    kept = []

    def f(x):
        y = x.exp()
        kept.append(weakref.ref(y._data))
        return y.sin()

    x = leaf(ours)
    y = module(ours).checkpoint(f, x, use_reentrant=reentrant).sum()
    assert kept[0]() is None
    y.backward()
    assert kept[1]() is None
    assert x.grad is not None
