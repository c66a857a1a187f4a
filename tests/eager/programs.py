"""Random programs in a torch-like namespace: a machine, and steps for it.

A program is a list of steps; each takes operands by number from what was made before.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import tracegrad.eager as ours

SHAPES = [(3,), (2, 3), (1, 3), (2, 1), (), (3, 2), (2, 3, 2)]
SCALARS = [2, 0.5, -1.5, 3.0, 1, 0]
UNARY = [
    "exp",
    "sin",
    "cos",
    "tanh",
    "neg",
    "abs",
    "sigmoid",
    "square",
    "sign",
    "floor",
    "clone",
    "detach",
    "contiguous",
]
UNARY = [name for name in UNARY if hasattr(ours.Tensor, name)]
BINARY = ["+", "-", "*", "/", "max", "min", "pow"]
INPLACE = ["mul_", "add_", "sub_", "div_", "copy_", "zero_", "neg_", "exp_", "tanh_"]


class Machine:
    """The state of one program in one library."""

    def __init__(self, t: Any) -> None:
        self.t = t
        self.values: list[Any] = []
        self.log: list[Any] = []

    def do(self, step: tuple) -> None:
        """Run one step; a result is appended."""
        kind, *args = step
        made = getattr(self, kind)(*args)
        if made is not None:
            self.values.append(made)
            # PyTorch changes some results in place before anybody sees them.
            made.born = made._version

    def value(self, k: int) -> Any:
        return self.values[k % len(self.values)]

    # ------------------------------------------------------------------------ steps
    def new(self, data: np.ndarray, dtype: str, grad: bool) -> Any:
        t = self.t
        return t.tensor(data.tolist(), dtype=getattr(t, dtype), requires_grad=grad)

    def unary(self, name: str, k: int) -> Any:
        return getattr(self.value(k), name)()

    def binary(self, name: str, i: int, j: int) -> Any:
        x, y = self.value(i), self.value(j)
        return self.apply(name, x, y)

    def scalar(self, name: str, k: int, c: Any, left: bool) -> Any:
        x = self.value(k)
        return self.apply(name, c, x) if left else self.apply(name, x, c)

    def apply(self, name: str, x: Any, y: Any) -> Any:
        if name == "+":
            return x + y
        if name == "-":
            return x - y
        if name == "*":
            return x * y
        if name == "/":
            return x / y
        if name == "pow":
            return (abs(x) + 0.5) ** y
        return (self.t.maximum if name == "max" else self.t.minimum)(x, y)

    def inplace(self, name: str, i: int, j: int) -> None:
        x = self.value(i)
        if name in ("zero_", "neg_", "exp_", "tanh_"):
            getattr(x, name)()
        else:
            getattr(x, name)(self.value(j))

    def inplace_scalar(self, name: str, i: int, c: Any) -> None:
        getattr(self.value(i), name)(c)

    def no_grad_inplace(self, i: int, c: Any) -> None:
        with self.t.no_grad():
            self.value(i).mul_(c)

    def view(self, name: str, k: int) -> Any:
        x = self.value(k)
        if name == "t":
            return x.t()
        if name == "transpose":
            return x.transpose(0, -1)
        if name == "view":
            return x.view(-1)
        if name == "reshape":
            return x.reshape(-1)
        if name == "unsqueeze":
            return x.unsqueeze(-1)
        if name == "squeeze":
            return x.squeeze(0)
        if name == "expand":
            return x.expand(2, *x.shape)
        return x.permute(tuple(reversed(range(x.dim()))))

    def index(self, key: Any, k: int) -> Any:
        return self.value(k)[self.key(key)]

    def key(self, key: Any) -> Any:
        return self.t.tensor(key) if isinstance(key, list) else key

    def assign(self, key: Any, k: int, j: int) -> None:
        self.value(k)[self.key(key)] = self.value(j)

    def assign_scalar(self, key: Any, k: int, c: Any) -> None:
        self.value(k)[self.key(key)] = c

    def reduce(self, name: str, k: int, dim: Any, keepdim: bool) -> Any:
        x = self.value(k)
        if dim is None:
            return getattr(x, name)()
        made = getattr(x, name)(dim, keepdim)
        return made if name in ("sum", "mean") else made[0]

    def join(self, name: str, i: int, j: int) -> Any:
        return getattr(self.t, name)([self.value(i), self.value(j)])

    def matmul(self, i: int, j: int) -> Any:
        return self.value(i) @ self.value(j)

    def where(self, i: int, j: int) -> Any:
        x, y = self.value(i), self.value(j)
        return self.t.where(x > y, x, y)

    def to(self, k: int, dtype: str) -> Any:
        return self.value(k).to(getattr(self.t, dtype))

    def backward(self, k: int, retain: bool) -> None:
        x = self.value(k)
        x.backward(self.t.ones_like(x), retain_graph=retain)

    def gradient(self, k: int, i: int) -> Any:
        x, y = self.value(k), self.value(i)
        ones = self.t.ones_like(x)
        return self.t.autograd.grad(x, y, ones, allow_unused=True, retain_graph=True)[0]

    def double(self, k: int, i: int) -> Any:
        x, y = self.value(k), self.value(i)
        ones = self.t.ones_like(x)
        (g,) = self.t.autograd.grad(x, y, ones, create_graph=True)
        (h,) = self.t.autograd.grad(g.sum(), y, retain_graph=True)
        return h

    def retain(self, k: int) -> None:
        self.value(k).retain_grad()

    def create(self, name: str, args: tuple, dtype: str | None) -> Any:
        kind = None if dtype is None else getattr(self.t, dtype)
        return getattr(self.t, name)(*args, dtype=kind)

    def like(self, name: str, k: int, grad: bool) -> Any:
        extra = (1.5,) if name == "full_like" else ()
        return getattr(self.t, name)(self.value(k), *extra, requires_grad=grad)

    def function(self, name: str, k: int, args: tuple) -> Any:
        made = getattr(self.t, name)(self.value(k), *args)
        return made[0] if isinstance(made, tuple) else made

    def loss(self, name: str, i: int, j: int) -> Any:
        f = getattr(self.t.nn.functional, name)
        return f(self.value(i), self.value(j))

    def hook(self, kind: str, k: int, c: float) -> None:
        x = self.value(k)

        def tensor_hook(g: Any) -> Any:
            self.log.append((kind, k, tuple(g.shape), str(g.dtype)))
            return None if c == 1.0 else g * c

        def node_hook(inputs: Any, outputs: Any) -> None:
            self.log.append(
                (kind, k, [g is not None and tuple(g.shape) for g in inputs])
            )

        def leaf_hook(leaf: Any) -> None:
            self.log.append((kind, k, tuple(leaf.grad.shape)))

        if kind == "tensor":
            x.register_hook(tensor_hook)
        elif kind == "node":
            x.grad_fn.register_hook(node_hook)
        else:
            x.register_post_accumulate_grad_hook(leaf_hook)

    def mode(self, name: str, step: tuple) -> Any:
        t = self.t
        made = {
            "no_grad": t.no_grad,
            "enable_grad": t.enable_grad,
            "set": lambda: t.set_grad_enabled(False),
        }[name]
        with made():
            kind, *args = step
            return getattr(self, kind)(*args)

    def shown(self, k: int) -> None:
        self.log.append(str(self.value(k).grad_fn is None))


KEYS = [0, -1, slice(1, None), slice(None, 2), (0, 1), (Ellipsis, 0), None, [0, 0], [1]]


CREATED = [
    ("zeros", ((2, 3),)),
    ("ones", (3,)),
    ("full", ((2, 1), 2.5)),
    ("eye", (3,)),
    ("arange", (3,)),
    ("arange", (0.5, 2.0, 0.5)),
    ("linspace", (-1.0, 1.0, 3)),
]
FUNCTIONS = [
    ("softmax", (-1,)),
    ("log_softmax", (0,)),
    ("logsumexp", (0,)),
    ("clamp", (-1.0, 0.5)),
    ("cumsum", (0,)),
    ("flip", ((0,),)),
    ("roll", (1,)),
    ("var", ()),
    ("norm", ()),
    ("relu", ()),
    ("flatten", ()),
    ("tril", ()),
    ("sort", ()),
    ("argmax", ()),
    ("amax", ()),
    ("prod", ()),
]
LOSSES = ["mse_loss", "l1_loss", "smooth_l1_loss"]


def draw_more(r: random.Random) -> tuple:
    """One random step of the kinds that `draw` does not have."""
    n = r.randrange(1000)
    m = r.randrange(1000)
    kind = r.randrange(8)
    if kind == 0:
        name, args = r.choice(CREATED)
        return ("create", name, args, r.choice([None, "float32", "float64"]))
    if kind == 1:
        name = r.choice(["zeros_like", "ones_like", "full_like"])
        return ("like", name, n, r.random() < 0.5)
    if kind <= 3:
        name, args = r.choice(FUNCTIONS)
        return ("function", name, n, args)
    if kind == 4:
        return ("loss", r.choice(LOSSES), n, m)
    if kind == 5:
        which = r.choice(["tensor", "tensor", "node", "leaf"])
        return ("hook", which, n, r.choice([1.0, 0.5]))
    if kind == 6:
        step = draw(r)
        while step[0] in ("view", "index", "assign", "assign_scalar", "new"):
            step = draw(r)  # a view made without recording is a leaf in PyTorch
        return ("mode", r.choice(["no_grad", "enable_grad", "set"]), step)
    return ("shown", n)


def draw(r: random.Random) -> tuple:
    """One random step."""
    n = r.randrange(1000)
    m = r.randrange(1000)
    kinds: list[tuple[int, Callable[[], tuple]]] = [
        (3, lambda: new(r)),
        (5, lambda: ("unary", r.choice(UNARY), n)),
        (8, lambda: ("binary", r.choice(BINARY), n, m)),
        (
            5,
            lambda: (
                "scalar",
                r.choice(BINARY[:4] + ["pow"]),
                n,
                r.choice(SCALARS),
                r.random() < 0.4,
            ),
        ),
        (4, lambda: ("inplace", r.choice(INPLACE), n, m)),
        (3, lambda: ("inplace_scalar", r.choice(INPLACE[:4]), n, r.choice(SCALARS))),
        (1, lambda: ("no_grad_inplace", n, 0.5)),
        (
            5,
            lambda: (
                "view",
                r.choice(
                    [
                        "t",
                        "transpose",
                        "view",
                        "reshape",
                        "unsqueeze",
                        "squeeze",
                        "expand",
                        "permute",
                    ]
                ),
                n,
            ),
        ),
        (4, lambda: ("index", r.choice(KEYS), n)),
        (2, lambda: ("assign", r.choice(KEYS), n, m)),
        (2, lambda: ("assign_scalar", r.choice(KEYS), n, r.choice(SCALARS))),
        (
            4,
            lambda: (
                "reduce",
                r.choice(["sum", "mean", "max", "min"]),
                n,
                r.choice([None, 0, -1, 1]),
                r.random() < 0.4,
            ),
        ),
        (2, lambda: ("join", r.choice(["cat", "stack"]), n, m)),
        (2, lambda: ("matmul", n, m)),
        (1, lambda: ("where", n, m)),
        (1, lambda: ("to", n, r.choice(["float64", "float32", "int64"]))),
        (2, lambda: ("backward", n, r.random() < 0.7)),
        (2, lambda: ("gradient", n, m)),
        (1, lambda: ("double", n, m)),
        (1, lambda: ("retain", n)),
    ]
    weights = [w for w, _ in kinds]
    return r.choices([f for _, f in kinds], weights)[0]()


def new(r: random.Random) -> tuple:
    """A step that makes a leaf or a constant."""
    shape = r.choice(SHAPES)
    data = np.round(
        np.array(r.choices(np.linspace(-2, 2, 17), k=int(np.prod(shape)))), 3
    )
    dtype = r.choices(["float32", "float64", "int64"], [6, 2, 1])[0]
    data = data.reshape(shape)
    if dtype == "int64":
        data = np.round(data).astype(int)
    return ("new", data, dtype, dtype != "int64" and r.random() < 0.6)


def run(machine: Machine, step: tuple) -> BaseException | None:
    """Do one step; what it raised."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            machine.do(step)
        except Exception as error:
            return error
    return None
