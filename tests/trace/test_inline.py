"""Derivatives inside of a trace, and traces of library functions."""

import numpy as np

from tracegrad.autodiff.reverse import pull_back
from tracegrad.ir.tree import Branch, Leaf, leaves
from tracegrad.ops.record import Ref
from tracegrad.trace.tracer import inline, is_traced

X = np.array([0.5, -1.5, 2.0])


def grad(function):
    """A gradient with respect to the first argument, for use inside of a trace."""

    def transform(builder, nodes, params, result):
        (value,) = [leaf.value for leaf in leaves(result)]
        wrt = [leaf.value for leaf in leaves(params[0][0])]
        before = list(nodes)
        seed = Ref(builder.lift(1.0), builder)
        (found,) = pull_back(builder, before, [value], [seed], wrt)
        return Branch("list", list, (0,), (Leaf(found),), list)

    return lambda *args: inline(function, args, {}, transform)[0]


def test_gradient_of_a_gradient(traced) -> None:
    """Second derivatives by nesting."""

    def f(x):
        return np.sum(grad(lambda y: np.sum(y**3))(x))

    (found,) = traced(f, X).gradient()
    np.testing.assert_allclose(found, 6 * X)


def test_no_perturbation_confusion(traced) -> None:
    """What the inner function closes over is constant to it."""

    def f(x):
        return x * grad(lambda y: x + y)(x)

    run = traced(f, 5.0)
    np.testing.assert_allclose(run.value(), 5.0)
    np.testing.assert_allclose(run.gradient(), [1.0])


def test_inner_gradient_of_a_constant(traced) -> None:
    """The argument of the inner derivative need not be traced."""

    def f(x):
        return np.sum(grad(lambda y: np.sum(y**2 * x))(X))

    run = traced(f, X)
    np.testing.assert_allclose(run.value(), np.sum(2 * X * X))
    np.testing.assert_allclose(run.gradient(), [2 * X])


def test_results_are_arrays_of_the_user(traced) -> None:
    """They can be written into."""
    seen = []

    def f(x):
        g = grad(lambda y: np.sum(y**2))(x)
        seen.append(is_traced(g))
        g += 1.0
        return np.sum(g)

    np.testing.assert_allclose(traced(f, X).value(), np.sum(2 * X + 1))
    assert seen == [True]


def test_library_functions(traced) -> None:
    """A function of NumPy itself; its module is left alone."""
    before = dict(vars(np._core.fromnumeric))
    np.testing.assert_allclose(traced(np.sum, X).value(), 1.0)
    np.testing.assert_allclose(traced(np.sin, X).value(), np.sin(X))
    assert vars(np._core.fromnumeric) == before
