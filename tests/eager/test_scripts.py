"""What scripts use around autograd: `torch.func`, `testing`, conversions."""

import itertools
import operator

import pytest
from eager.both import agree, checks


def _numbers(t):
    x = t.tensor([1.0, 2.0, 3.0], dtype=t.float64)
    w = t.arange(6, dtype=t.float64).reshape(2, 3) / 5
    return x, w


# -------------------------------------------------------------------------- torch.func
def gradients(t):
    x, w = _numbers(t)
    f = t.func
    return [
        f.grad(lambda x: (x**3).sum())(x),
        f.grad(f.grad(t.sin))(x[0]),
        f.grad(f.grad(f.grad(lambda x: x**4)))(x[1]),
        f.grad_and_value(lambda x, y: (x * y).sum(), argnums=(0, 1))(x, x + 1),
        f.grad(lambda x: ((x**2).sum(), x * 2), has_aux=True)(x),
        f.grad(lambda p, x: ((p["w"] @ x + p["b"]) ** 2).sum())(
            {"w": w, "b": t.ones(2, dtype=t.float64)}, x
        ),
    ]


def products(t):
    x, _ = _numbers(t)
    out, pull = t.func.vjp(lambda x, y: (x * y, y.sum()), x, x + 1)
    one, back = t.func.vjp(t.sin, x)
    ones = t.ones(3, dtype=t.float64)
    return [
        out,
        pull((ones, t.tensor(2.0, dtype=t.float64))),
        one,
        back(ones),
        t.func.jvp(lambda x: x.exp() * x[0], (x,), (ones,)),
        t.func.jvp(lambda x, y: (x * y, y.sin()), (x, x + 1), (ones, x)),
        t.func.jvp(lambda x: (x, x + 1), (x,), (ones,), has_aux=True),
    ]


def jacobians(t):
    x, w = _numbers(t)
    f = t.func
    return [
        f.jacrev(lambda x: t.tanh(w @ x))(x),
        f.jacfwd(lambda x: t.tanh(w @ x))(x),
        f.hessian(lambda x: (x.sin() * x.sum()).sum())(x),
        f.jacrev(lambda x, y: (x * y, x.sum()), argnums=(0, 1))(x, x + 1),
        f.jacrev(f.jacrev(lambda x: x * x[0]))(x),
        f.jacrev(lambda x: (x * 2, x + 1), has_aux=True)(x),
        f.jacrev(lambda p: p["a"] * p["b"])({"a": x, "b": x[0]}),
    ]


def mapped(t):
    x, w = _numbers(t)
    targets = t.tensor([0, 2])
    loss = t.nn.functional.cross_entropy
    weights = t.arange(9, dtype=t.float64).reshape(3, 3) / 10
    return [
        t.vmap(t.dot)(w, w + 1),
        t.vmap(lambda a, b: a * b, in_dims=(0, None), out_dims=1)(w, x),
        t.vmap(lambda a: a.sum(), in_dims=-1)(w),
        t.vmap(t.vmap(t.mul))(w, w),
        t.vmap(lambda d: d["a"] + d["b"])({"a": w, "b": w}),
        t.vmap(lambda x: (x, x.sum()))(w),
        t.vmap(t.func.grad(lambda v, x, y: loss(x @ v, y)), in_dims=(None, 0, 0))(
            weights, w, targets
        ),
        t.vmap(t.func.jacrev(lambda x: x.sin() * x[0]))(w),
        t.vmap(lambda a, *, b: a + b)(w, b=w),
    ]


def outer_history(t):
    x, _ = _numbers(t)
    leaf = x.clone().requires_grad_()
    inner = t.func.grad(lambda x: (x**3).sum())(leaf)
    inner.sum().backward()
    scale = t.tensor(2.0, dtype=t.float64, requires_grad=True)
    around = t.func.grad(lambda x: (scale * x**2).sum())(x)
    around.sum().backward()
    with t.no_grad():
        apart = x - t.func.grad(lambda x: (x**2).sum())(x)
        held = t.func.grad(lambda x: (x**2).sum())(leaf)
    return [inner, leaf.grad, around, scale.grad, apart, held]


def _refusals():
    def make(name, program):
        def check(t):
            return program(t, *_numbers(t))

        check.__name__ = name
        return check

    programs = {
        "not_a_scalar": lambda t, x, w: t.func.grad(lambda x: x)(x),
        "not_a_tensor": lambda t, x, w: t.func.grad(lambda x: 1.0)(x),
        "no_such_argument": lambda t, x, w: t.func.grad(t.sum, argnums=1)(x),
        "sizes_differ": lambda t, x, w: t.vmap(t.dot)(w, w[:1]),
        "no_such_axis": lambda t, x, w: t.vmap(t.sin, in_dims=2)(w),
        "nothing_mapped": lambda t, x, w: t.vmap(t.sin, in_dims=None)(w),
        "number_out": lambda t, x, w: t.vmap(lambda x: 1.0)(w),
        "number_in": lambda t, x, w: t.vmap(t.mul)(w, 2.0),
        "bad_aux": lambda t, x, w: t.func.grad(lambda x: x.sum(), has_aux=True)(x),
    }
    return [make(*pair) for pair in programs.items()]


test_func = checks(gradients, products, jacobians, mapped, outer_history)
test_func_refuses = checks(*_refusals(), text=False)


# ----------------------------------------------------------------------- assert_close
CLOSE = """
t.ones(2), t.tensor([1.0, 2.0]) | t.tensor(1.0), t.tensor(2.0) | 1.0, 2.0 | 1, 2
t.tensor([1, 2]), t.tensor([1, 3]) | [t.ones(1)], [t.zeros(1)] | [1], [1, 2]
{"a": t.ones(1)}, {"a": t.zeros(1)} | {"a": 1}, {"b": 1} | 1, 1.0
t.tensor(t.nan), t.tensor(t.nan) | t.tensor([t.nan]), t.tensor([t.nan])
t.tensor([t.nan]), t.tensor([t.nan]), equal_nan=True | t.ones(2), t.zeros(2), msg="so"
t.ones(2), t.zeros(2), msg=lambda m: "X " + m | t.ones(2), t.zeros(2), rtol=0.1
t.ones(2), t.zeros(2), rtol=0.1, atol=0.2 | t.ones(2), t.ones(2) + 1e-7 | "a", "a"
n.ones(2), n.ones(2) * 2 | None, None | None, t.ones(1) | True, False | True, True
t.tensor([True, True]), t.tensor([False, True]) | t.ones(2), t.ones(2).double()
t.ones(2), t.ones(2).double(), check_dtype=False | t.ones(2), t.ones(3)
(t.ones(2), (t.ones(1),)), (t.ones(2), (t.zeros(1),)) | 1, 2, rtol=0, atol=0
t.ones(2), t.zeros(2), rtol=0, atol=0 | 1j, 2.0 | 1j, 2j
t.eye(3), t.eye(3).index_fill(0, t.tensor([1]), 4.0) | t.ones(0), t.ones(0)
t.ones(2, 3), t.ones(3, 2).t(), check_stride=True
t.ones(2, requires_grad=True), t.ones(2)
t.tensor([1.0, t.inf]), t.tensor([1.0, -t.inf]) | t.tensor([2, 0]), t.tensor([1, 0])
"""


@pytest.mark.parametrize(
    "call", [c.strip() for c in CLOSE.replace("\n", "|").split("|") if c.strip()]
)
def test_assert_close(call):
    import numpy

    def program(t):
        scope = {"t": t, "n": numpy}
        return eval(f"t.testing.assert_close({call})", scope)

    agree(program)


# --------------------------------------------------------------------------- nn.utils
def clipped(t):
    w = t.tensor([3.0, 4.0], requires_grad=True)
    v = t.tensor([[1.0, -2.0]], requires_grad=True)
    made = []
    for kind in (2.0, 1.0, float("inf")):
        w.grad = v.grad = None
        ((w * w).sum() + (v**3).sum()).backward()
        unused = t.ones(1, requires_grad=True)
        norm = t.nn.utils.clip_grad_norm_([w, v, unused], 1.0, kind)
        made += [norm, w.grad.clone(), v.grad.clone()]
    t.nn.utils.clip_grad_value_([w, v], 0.05)
    return [*made, w.grad, v.grad, t.nn.utils.clip_grad_norm_(w, 100.0), w.grad]


def not_finite(t):
    w = t.tensor([3.0], requires_grad=True)
    w.grad = t.tensor([t.inf])
    t.nn.utils.clip_grad_norm_([w], 1.0, error_if_nonfinite=True)


def as_vector(t):
    w, v = t.ones(2, 2, requires_grad=True), t.zeros(3, requires_grad=True)
    flat = t.nn.utils.parameters_to_vector([w, v])
    t.nn.utils.vector_to_parameters(t.arange(7.0), [w, v])
    return flat, w, v, t.nn.utils.parameters_to_vector([w, v])


test_utils = checks(clipped, not_finite, as_vector)


# ------------------------------------------------------------------- numbers to tensors
VALUES = (200, -1, -129, 256, 1e10, 1.5, 300.7, -0.5, 2**31, 1e300, float("inf"), True)
LARGE = (float("nan"), 2**63, -(2**63), 2**70, 1e20, 1j)
DTYPES = ("int8", "uint8", "int32", "int64", "float32", "bool")


@pytest.mark.parametrize(
    ("value", "dtype"), list(itertools.product((*VALUES, *LARGE), DTYPES)), ids=str
)
@pytest.mark.filterwarnings("ignore")
def test_numbers_that_do_not_fit_are_refused(value, dtype):
    def program(t):
        return t.tensor([value], dtype=getattr(t, dtype))

    agree(program)


def bools_to_a_power(t):
    truths = t.tensor([True, False])
    return truths**True, truths**False, truths.pow(True), truths**2


def inferred_too_large(t):
    return t.tensor([2**63])


def negative_sizes(t):
    return t.ones(2, -1)


def negative_zeros(t):
    return t.zeros(-1)


def negative_eye(t):
    return t.eye(-1)


def steps_of_new_axes(t):
    x = t.ones(2, 3)
    parts = (x[None], x[:, None], x[..., None], x[:, :1], t.ones(1, 1), t.ones(1)[None])
    return [p.stride() for p in parts], x[1, 1:].storage_offset()


def limits(t):
    return [
        repr(t.finfo(t.float32)),
        repr(t.finfo(t.float64)),
        repr(t.iinfo(t.int8)),
        repr(t.iinfo(t.int64)),
        t.typename(t.ones(1)),
        t.typename(1.5),
        t.typename("s"),
        t.cuda.is_available(),
        t.cuda.device_count(),
        t.get_default_device().type,
        t.__version__.split(".")[0],
        t.scalar_tensor(3),
    ]


def several_to_float(t):
    return float(t.ones(3))


def none_to_int(t):
    return int(t.ones(0))


test_conversions = checks(
    bools_to_a_power,
    inferred_too_large,
    negative_sizes,
    negative_zeros,
    negative_eye,
    steps_of_new_axes,
    limits,
    several_to_float,
    none_to_int,
)


# ----------------------------------------------------------------------- other operands
class Theirs:
    """A class that knows what to do with a tensor on its left."""

    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rmatmul__ = __rpow__ = (
        lambda self, other: "theirs"
    )


BINARY = ("add", "sub", "mul", "truediv", "matmul", "pow")


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(
    "other", [Theirs(), "text", None], ids=["theirs", "text", "None"]
)
def test_operands_that_are_no_numbers(name, other):
    agree(lambda t: getattr(operator, name)(t.ones(2), other))


NOT_TENSORS = ("relu", "sum", "mean", "exp", "sin", "max", "flatten", "topk", "cat")


@pytest.mark.parametrize("name", NOT_TENSORS)
def test_functions_ask_for_tensors(name):
    more = {"topk": (1,)}.get(name, ())
    agree(lambda t: getattr(t, name)([1.0], *more))


# ------------------------------------------------- the name in the error of backward
def _changed(change):
    def program(t):
        a = t.ones(3, requires_grad=True)
        b = a * 2
        c = b.sin()
        change(b, a)
        c.sum().backward()

    return program


CHANGES = {
    "once": lambda b, a: b.add_(1),
    "twice": lambda b, a: b.add_(1).mul_(3),
    "part": lambda b, a: b[:2].mul_(2),
    "item": lambda b, a: b.__setitem__(0, 3.0),
    "zero": lambda b, a: b.zero_(),
    "fill": lambda b, a: b.fill_(2),
    "copy": lambda b, a: b.copy_(a),
    "relu": lambda b, a: b.relu_(),
    "operator": lambda b, a: b.__iadd__(a),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_error_names_what_changed_it(name):
    agree(_changed(CHANGES[name]))


def view_changed(t):
    b = t.ones(3, requires_grad=True) * 2
    v = b[:2]
    c = v.sin()
    v.mul_(2)
    c.sum().backward()


def base_changed(t):
    b = t.ones(3, requires_grad=True) * 2
    c = b[:2].sin()
    b.mul_(2)
    c.sum().backward()


test_views_changed = checks(view_changed, base_changed)


def test_anomaly_detection_says_that_it_costs_time():
    import tracegrad.eager as ours

    with (
        pytest.warns(UserWarning, match="Anomaly Detection has been enabled"),
        ours.autograd.detect_anomaly(),
    ):
        pass
