"""The two texts in `shared/seeds`, step by step, here and on PyTorch.

Each step is a program and what the text prints after it.  The texts show random numbers
in two places; there the same steps are taken with numbers that give theirs.
"""

import contextlib
import importlib
import io
import re

import pytest

import tracegrad.eager as ours

try:
    theirs = importlib.import_module("torch")
except ImportError:
    theirs = None

# (program, what it prints); `...` stands for an address.
FIRST = [
    ("x = Variable(t.ones(2, 2), requires_grad=True)", ""),
    (
        "print(x)",
        "tensor([[1., 1.],\n        [1., 1.]], requires_grad=True)",
    ),
    ("y = x.sum()", ""),
    ("print(y)", "tensor(4., grad_fn=<SumBackward0>)"),
    ("print(y.grad_fn)", "<SumBackward0 object at ...>"),
    ("y.backward()", ""),
    ("print(x.grad)", "tensor([[1., 1.],\n        [1., 1.]])"),
    ("y.backward()", ""),
    ("print(x.grad)", "tensor([[2., 2.],\n        [2., 2.]])"),
    ("y.backward()", ""),
    ("print( x.grad )", "tensor([[3., 3.],\n        [3., 3.]])"),
    ("print( x.grad.data.zero_() )", "tensor([[0., 0.],\n        [0., 0.]])"),
    ("y.backward()", ""),
    ("print( x.grad )", "tensor([[1., 1.],\n        [1., 1.]])"),
    ("m = Variable(t.ones(4,5))", ""),
    ("n = t.cos(m)", ""),
    (
        "print(m)",
        "tensor([[1., 1., 1., 1., 1.],\n"
        "        [1., 1., 1., 1., 1.],\n"
        "        [1., 1., 1., 1., 1.],\n"
        "        [1., 1., 1., 1., 1.]])",
    ),
    (
        "print(n)",
        "tensor([[0.5403, 0.5403, 0.5403, 0.5403, 0.5403],\n"
        "        [0.5403, 0.5403, 0.5403, 0.5403, 0.5403],\n"
        "        [0.5403, 0.5403, 0.5403, 0.5403, 0.5403],\n"
        "        [0.5403, 0.5403, 0.5403, 0.5403, 0.5403]])",
    ),
    ("m_tensor_cos = t.cos(m.data)", ""),
    (
        "print(m_tensor_cos)",
        "tensor([[0.5403, 0.5403, 0.5403, 0.5403, 0.5403],\n"
        "        [0.5403, 0.5403, 0.5403, 0.5403, 0.5403],\n"
        "        [0.5403, 0.5403, 0.5403, 0.5403, 0.5403],\n"
        "        [0.5403, 0.5403, 0.5403, 0.5403, 0.5403]])",
    ),
]
SECOND = [
    ("x = torch.ones(2, 2, requires_grad=True)", ""),
    ("print(x)", "tensor([[1., 1.],\n        [1., 1.]], requires_grad=True)"),
    ("y = x + 2", ""),
    ("print(y)", "tensor([[3., 3.],\n        [3., 3.]], grad_fn=<AddBackward0>)"),
    ("print(y.grad_fn)", "<AddBackward0 object at ...>"),
    ("print(x.grad_fn)", "None"),
    ("z = y * y * 3\nout = z.mean()", ""),
    (
        "print(z, out)",
        "tensor([[27., 27.],\n        [27., 27.]], grad_fn=<MulBackward0>) "
        "tensor(27., grad_fn=<MeanBackward0>)",
    ),
    ("a = torch.randn(2, 2)\na = ((a * 3) / (a - 1))", ""),
    ("print(a.requires_grad)", "False"),
    ("a.requires_grad_(True)", ""),
    ("print(a.requires_grad)", "True"),
    ("b = (a * a).sum()", ""),
    ("print(b.grad_fn)", "<SumBackward0 object at ...>"),
    ("out.backward()", ""),
    ("print(x.grad)", "tensor([[4.5000, 4.5000],\n        [4.5000, 4.5000]])"),
    # The text draws x; with these numbers its nine doublings give what it prints.
    ("x = torch.randn(3, requires_grad=True)", ""),
    ("x.data = torch.tensor([-444.6791, 762.9810, -1690.0941]) / 1024", ""),
    ("y = x * 2\nwhile y.data.norm() < 1000:\n    y = y * 2", ""),
    (
        "print(y)",
        "tensor([ -444.6791,   762.9810, -1690.0941], grad_fn=<MulBackward0>)",
    ),
    ("v = torch.tensor([0.1, 1.0, 0.0001], dtype=torch.float)", ""),
    ("y.backward(v)", ""),
    ("print(x.grad)", "tensor([1.0240e+02, 1.0240e+03, 1.0240e-01])"),
    ("print(x.requires_grad)", "True"),
    ("print((x ** 2).requires_grad)", "True"),
    ("with torch.no_grad():\n    print((x ** 2).requires_grad)", "False"),
]
LIBRARIES = [
    pytest.param(ours, id="tracegrad"),
    pytest.param(
        theirs,
        id="torch",
        marks=pytest.mark.skipif(theirs is None, reason="PyTorch is not installed"),
    ),
]


def walk(steps, library):
    """What each step prints, with `...` for addresses."""
    names = {"t": library, "torch": library, "Variable": library.autograd.Variable}
    printed = []
    for program, _ in steps:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(program, names)
        text = re.sub(r"0x[0-9a-fA-F]+", "...", output.getvalue())
        printed.append((program, text.removesuffix("\n")))
    return printed, names


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("steps", [FIRST, SECOND], ids=["first", "second"])
def test_prints_what_the_text_shows(steps, library):
    assert walk(steps, library)[0] == steps


@pytest.mark.parametrize("library", LIBRARIES)
def test_values_of_the_first(library):
    _, names = walk(FIRST, library)
    assert names["x"].data.tolist() == [[1.0, 1.0]] * 2
    assert names["x"].grad.tolist() == [[1.0, 1.0]] * 2
    assert names["y"].item() == 4.0
    assert names["x"].is_leaf and names["x"].requires_grad
    assert not names["m"].requires_grad
    assert names["n"].tolist() == [pytest.approx([0.5403023] * 5)] * 4
    assert names["m_tensor_cos"].tolist() == names["n"].tolist()


@pytest.mark.parametrize("library", LIBRARIES)
def test_values_of_the_second(library):
    _, names = walk(SECOND, library)
    assert names["out"].item() == 27.0
    assert names["z"].tolist() == [[27.0, 27.0]] * 2
    assert names["x"].grad.tolist() == pytest.approx([102.4, 1024.0, 0.1024])
    assert not names["a"].grad_fn and names["b"].requires_grad


@pytest.mark.skipif(theirs is None, reason="PyTorch is not installed")
def test_random_steps_agree(rng):
    """The steps on random numbers, both times on the same ones, print the same."""
    first, second = rng.normal(size=(2, 2)).tolist(), rng.normal(size=3).tolist()
    program = [
        (f"a = torch.tensor({first})\nprint(a)", ""),
        ("a = ((a * 3) / (a - 1))\nprint(a)", ""),
        (f"x = torch.tensor({second}, requires_grad=True)\nprint(x)", ""),
        ("y = x * 2\nwhile y.data.norm() < 1000:\n    y = y * 2\nprint(y)", ""),
        ("y.backward(torch.tensor([0.1, 1.0, 0.0001]))\nprint(x.grad)", ""),
    ]
    assert walk(program, ours)[0] == walk(program, theirs)[0]
