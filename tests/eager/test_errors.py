"""Errors: the kind and the text are PyTorch's."""

import pytest
from eager.both import agree

CASES = {
    "backward twice": lambda t: [
        y.backward() for y in [(leaf(t).exp() * 2).sum()] for _ in range(2)
    ],
    "backward of a vector": lambda t: (leaf(t) * 2).backward(),
    "backward without graph": lambda t: t.ones(2).sum().backward(),
    "gradient of another shape": lambda t: (leaf(t) * 2).backward(t.ones(2)),
    "no inputs": lambda t: leaf(t).sum().backward(inputs=[]),
    "unused input": lambda t: t.autograd.grad(leaf(t).sum(), leaf(t)),
    "input without grad": lambda t: t.autograd.grad(leaf(t).sum(), t.ones(3)),
    "materialize and not allow": lambda t: t.autograd.grad(
        leaf(t).sum(), leaf(t), allow_unused=False, materialize_grads=True
    ),
    "in place on a leaf": lambda t: leaf(t).add_(1.0),
    "in place on a view of a leaf": lambda t: leaf(t)[1:].add_(1.0),
    "assignment to a leaf": lambda t: leaf(t).__setitem__(0, 1.0),
    "int leaf": lambda t: t.tensor([1, 2], requires_grad=True),
    "int requires_grad_": lambda t: t.tensor([1, 2]).requires_grad_(),
    "requires_grad of a result": lambda t: setattr(leaf(t) * 2, "requires_grad", False),
    "saved value changed": lambda t: changed_after(t, lambda y: y.exp()),
    "saved input changed": lambda t: changed_input(t),
    "numpy of a leaf": lambda t: leaf(t).numpy(),
    "detach_ a view": lambda t: t.ones(3)[1:].detach_(),
    "hook on a constant": lambda t: t.ones(2).register_hook(print),
    "retain_grad of a constant": lambda t: t.ones(2).retain_grad(),
    "grad of another size": lambda t: setattr(leaf(t), "grad", t.ones(2)),
    "grad of another kind": lambda t: setattr(leaf(t), "grad", 1.0),
    "broadcast": lambda t: t.ones(2, 3) + t.ones(2, 2),
    "broadcast in place": lambda t: t.ones(3).add_(t.ones(2, 3)),
    "float into int": lambda t: t.tensor([1, 2]).add_(1.5),
    "in place on an expanded one": lambda t: t.ones(1).expand(3).add_(1.0),
    "item": lambda t: t.ones(2).item(),
    "bool": lambda t: bool(t.ones(2)),
    "bool of nothing": lambda t: bool(t.ones(0)),
    "len": lambda t: len(t.tensor(1.0)),
    "iter": lambda t: list(t.tensor(1.0)),
    "index 0-d": lambda t: t.tensor(1.0)[0],
    "index out of bounds": lambda t: t.ones(3)[3],
    "index out of bounds, 2nd": lambda t: t.ones(2, 3)[0, 5],
    "too many indices": lambda t: t.ones(3)[0, 0],
    "negative step": lambda t: t.ones(3)[::-1],
    "float index": lambda t: t.ones(3)[t.ones(2)],
    "view": lambda t: t.ones(2, 3).view(4),
    "view of a transpose": lambda t: t.ones(2, 3).t().view(6),
    "reshape": lambda t: t.ones(2, 3).reshape(-1, 4),
    "two open sizes": lambda t: t.ones(2, 3).view(-1, -1),
    "dim": lambda t: t.ones(2, 3).sum(2),
    "dim twice": lambda t: t.ones(2, 3).sum((0, 0)),
    "mean of ints": lambda t: t.tensor([1, 2]).mean(),
    "matmul": lambda t: t.ones(2, 3) @ t.ones(2, 3),
    "matmul dtype": lambda t: t.ones(2, 3) @ t.ones(3, 2).double(),
    "matmul 0-d": lambda t: t.ones(()) @ t.ones(2),
    "mm": lambda t: t.mm(t.ones(3), t.ones(3, 2)),
    "expand": lambda t: t.ones(2, 3).expand(3, 3),
    "t": lambda t: t.ones(2, 2, 2).t(),
    "cat": lambda t: t.cat([t.ones(2, 3), t.ones(3, 2)]),
    "cat 0-d": lambda t: t.cat([t.tensor(1.0), t.tensor(2.0)]),
    "stack": lambda t: t.stack([t.ones(2), t.ones(3)]),
    "int powers": lambda t: t.tensor([1, 2]) ** -1,
    "clamp": lambda t: t.clamp(t.ones(2)),
    "sin of a number": lambda t: t.sin(1.0),
    "out with grad": lambda t: t.add(leaf(t), 1, out=t.ones(3)),
    "deepcopy": lambda t: __import__("copy").deepcopy(leaf(t) * 2),
    "no_grad view": lambda t: no_grad_view(t),
    "unbind in place": lambda t: (leaf(t) * 2).unbind(0)[0].add_(1),
    "hook size": lambda t: hooked(t, lambda g: g[:1]),
    "inference in place": lambda t: inferred(t).add_(1.0),
}


def leaf(t):
    return t.tensor([0.5, 1.0, 2.0], requires_grad=True)


def changed_after(t, f):
    x = leaf(t)
    y = f(x)
    z = y.sum()
    y.mul_(2.0)
    z.backward()


def changed_input(t):
    w = t.ones(3)
    y = (leaf(t) * w).sum()
    w.add_(1.0)
    w[0] = 2.0
    y.backward()


def no_grad_view(t):
    x = leaf(t) * 2
    with t.no_grad():
        v = x[1:]
    v.add_(1.0)


def hooked(t, f):
    x = leaf(t)
    x.register_hook(f)
    x.sum().backward()


def inferred(t):
    with t.inference_mode():
        return t.ones(3)


@pytest.mark.parametrize("name", CASES)
def test_same_error(name):
    agree(CASES[name])
