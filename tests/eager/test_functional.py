"""`autograd.functional`, live beside PyTorch: values, histories, errors."""

import importlib

import pytest
from eager.both import agree

T = "t.tensor([0.5, -1.0, 2.0], dtype=t.float64)"
U = "t.tensor([[1.0, 2.0], [0.3, -0.7]], dtype=t.float64)"
FUNCTIONS = {
    "exp": "lambda x: x.exp()",
    "cube": "lambda x: (x ** 3).sum()",
    "two": "lambda x, y: (x * y.sum() ** 2).sum() + (y ** 3).sum()",
    "pair": "lambda x, y: (x * y[0, 0], (x ** 2).sum() * y)",
    "linear": "lambda x: (x * 2).sum()",
    "square": "lambda x: x @ x.reshape(3, 1) * x",
    "constant": "lambda x: t.ones(3, dtype=t.float64)",
    "first": "lambda x, y: x * 2",
    "first_cube": "lambda x, y: (x ** 3).sum()",
    "detached": "lambda x: x.detach()",
    "number": "lambda x: 3.0",
    "one": "lambda x: x.sum().reshape(1) ** 2",
}
CALLS = """
vjp(exp, T, T) | vjp(cube, T) | vjp(exp, T) | vjp(pair, (T, U), (T, U)) | vjp(exp, T, U)
vjp(pair, (T, U), (T,)) | vjp(exp, T, (T, T)) | vjp(pair, (T, U), (T, T))
vjp(exp, 3.0) | vjp(exp, (T, 3.0)) | vjp(number, T, T) | vjp(constant, T, T)
vjp(exp, [T], T) | vjp(constant, T, T, strict=True) | vjp(first, (T, U), T)
vjp(first, (T, U), T, strict=True) | vjp(exp, T, T, create_graph=True)
vjp(linear, T, create_graph=True, strict=True)
vjp(cube, T, create_graph=True, strict=True) | vjp(detached, T, T) | jvp(exp, T, T)
jvp(cube, T, T) | jvp(pair, (T, U), (T, U)) | jvp(cube, T) | jvp(exp, T, U)
jvp(first, (T, U), (T, U)) | jvp(constant, T, T)
jvp(first, (T, U), (T, U), strict=True) | jvp(constant, T, T, strict=True)
jvp(exp, T, T, create_graph=True) | jvp(linear, T, T, create_graph=True, strict=True)
jvp(cube, T.sum()) | jvp(cube, T, T, create_graph=True, strict=True)
jvp(pair, (T, U), T) | jacobian(exp, T) | jacobian(cube, T) | jacobian(square, T)
jacobian(pair, (T, U)) | jacobian(exp, (T,)) | jacobian(first, (T, U))
jacobian(constant, T) | jacobian(first, (T, U), strict=True)
jacobian(constant, T, strict=True) | jacobian(exp, T, create_graph=True)
jacobian(linear, T, create_graph=True, strict=True)
jacobian(square, T, create_graph=True, strict=True) | jacobian(exp, T, vectorize=True)
jacobian(pair, (T, U), vectorize=True) | jacobian(exp, T, strict=True, vectorize=True)
jacobian(pair, (T, U), vectorize=True, strategy="forward-mode")
jacobian(exp, T, strategy="forward-mode") | jacobian(exp, T, strategy="other")
jacobian(exp, T, True, strategy="forward-mode")
jacobian(exp, T.clone().requires_grad_()) | hessian(cube, T) | hessian(two, (T, U))
hessian(linear, T) | hessian(exp, T) | hessian(one, T) | hessian(pair, (T, U))
hessian(linear, T, strict=True) | hessian(cube, T, create_graph=True)
hessian(two, (T, U), vectorize=True) | hessian(first_cube, (T, U))
hessian(first_cube, (T, U), strict=True) | hessian(cube, T, strict=True)
hessian(number, T)
hessian(cube, T, vectorize=True, outer_jacobian_strategy="forward-mode").detach()
vhp(cube, T, T) | vhp(two, (T, U), (T, U)) | vhp(exp, T, T) | vhp(cube, T)
vhp(linear, T, T) | vhp(linear, T, T, strict=True) | vhp(cube, T, T, create_graph=True)
vhp(first_cube, (T, U), (T, U)) | vhp(first_cube, (T, U), (T, U), strict=True)
vhp(pair, (T, U), (T, U)) | vhp(constant, T, T, strict=True)
vhp(cube, T, T, strict=True) | hvp(cube, T, T) | hvp(two, (T, U), (T, U))
hvp(exp, T, T) | hvp(cube, T) | hvp(linear, T, T) | hvp(linear, T, T, strict=True)
hvp(cube, T, T, create_graph=True) | hvp(first_cube, (T, U), (T, U))
hvp(cube, T, T, strict=True)
"""
LISTED = [e.strip() for line in CALLS.strip().splitlines() for e in line.split(" | ")]


def values(t):
    module = importlib.import_module(f"{t.__name__}.autograd.functional")
    scope = {"t": t}
    scope |= {name: eval(text, scope) for name, text in FUNCTIONS.items()}
    names = ("vjp", "jvp", "jacobian", "hessian", "vhp", "hvp")
    scope |= {name: getattr(module, name) for name in names}
    return scope | {"T": eval(T, scope), "U": eval(U, scope)}


@pytest.mark.parametrize("call", LISTED)
def test_same(call):
    agree(lambda t: eval(call, values(t)))


@pytest.mark.parametrize(
    "call", ["vjp(exp, x, T)", "jvp(exp, x, T)", "vhp(cube, x, T)"]
)
def test_results_can_be_differentiated(call):
    def program(t):
        scope = values(t)
        scope["x"] = x = scope["T"].clone().requires_grad_()
        made = eval(f"{call[:-1]}, create_graph=True)", scope)
        (g,) = t.autograd.grad(made[1].sum(), x)
        return made[1], g

    agree(program)
