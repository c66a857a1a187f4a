"""`gradcheck` and `gradgradcheck`, live beside PyTorch."""

import pytest
from eager.both import agree


def x(t):
    return t.tensor([1.0, 2.0], dtype=t.float64, requires_grad=True)


def z(t):
    return t.tensor([1.0 + 2.0j, -0.5j], dtype=t.complex128, requires_grad=True)


def slope(factor):
    """x**2 with the derivative `factor * x`."""

    def function(t):
        class Square(t.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x**2

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return g * factor * x.conj()

        return Square.apply

    return function


def unlike_each_time(t):
    count = []

    class Double(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            count.append(1)
            return g * (2 + len(count) * 1e-9)

    return Double.apply


def adds_a_constant(t):
    class Double(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2 + 1e-8

    return Double.apply


def tangent(factor):
    def function(t):
        class Double(t.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g * 2

            @staticmethod
            def jvp(ctx, x_t):
                return x_t * factor

        return Double.apply

    return function


def plain(f):
    return lambda t: f


CASES = {
    "right": (slope(2), x, {}),
    "wrong": (slope(1), x, {}),
    "wrong_not_raised": (slope(1), x, {"raise_exception": False}),
    "complex": (slope(2), z, {}),
    "complex_wrong": (slope(1), z, {}),
    "of_complex": (plain(lambda z: z.abs() ** 2), z, {}),
    "cube": (plain(lambda x: x**3), x, {"check_forward_ad": True}),
    "two_outputs": (plain(lambda x: (x.exp(), x * 2)), x, {"check_grad_dtypes": True}),
    "no_input": (plain(lambda x: x**3), lambda t: x(t).detach(), {}),
    "detached": (plain(lambda x: x.detach()), x, {}),
    "detached_zero": (plain(lambda x: (x * 0).detach()), x, {}),
    "expanded": (plain(lambda x: x * 2), lambda t: x(t).expand(3, 2), {}),
    "other": (plain(lambda x, k: x * k), lambda t: (x(t), 3.0), {}),
    "unused": (plain(lambda x, y: x * 2), lambda t: (x(t), x(t)), {}),
    "two": (plain(lambda x, y: x * y.sin()), lambda t: (x(t), x(t)), {}),
    "nothing": (slope(2), x, {"check_backward_ad": False}),
    "tangent": (tangent(2), x, {"check_forward_ad": True}),
    "tangent_wrong": (tangent(3), x, {"check_forward_ad": True}),
    "constant": (adds_a_constant, x, {}),
    "loose": (slope(1), x, {"atol": 3.0}),
}
SECOND = {
    "cube": (plain(lambda x: x**3), x, {}),
    "two": (plain(lambda x, y: (x * y).sin()), lambda t: (x(t), x(t)), {}),
    "wrong_slope": (slope(1), x, {}),
    "given": (plain(lambda x: x.exp()), x, {"grad_outputs": x}),
    "once": (
        plain(lambda x: (x.detach() ** 2) * x),
        x,
        {"grad_outputs": x},
    ),
    "nothing": (plain(lambda x: x**3), x, {"check_rev_over_rev": False}),
}


@pytest.mark.parametrize("name", CASES)
def test_gradcheck(name):
    function, inputs, options = CASES[name]
    agree(lambda t: t.autograd.gradcheck(function(t), inputs(t), **options))


@pytest.mark.parametrize("name", SECOND)
def test_gradgradcheck(name):
    function, inputs, options = SECOND[name]

    def program(t):
        given = {k: v(t) if callable(v) else v for k, v in options.items()}
        return t.autograd.gradgradcheck(function(t), inputs(t), **given)

    agree(program)


def test_a_second_pass_that_differs():
    def program(t):
        try:
            t.autograd.gradcheck(unlike_each_time(t), x(t))
        except RuntimeError as error:
            return type(error).__name__, str(error)[:60]

    agree(program)


@pytest.mark.parametrize("second", [False, True])
def test_forward_over_reverse(second):
    """Tangents go through saved tensors, into gradients."""

    def program(t):
        options = {"check_fwd_over_rev": True, "check_rev_over_rev": not second}
        if second:
            options["check_undefined_grad"] = False
        f = lambda x, y: (x * y).sin().exp() / (x @ y)
        return t.autograd.gradgradcheck(f, (x(t), x(t)), **options)

    agree(program)
