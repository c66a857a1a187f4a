"""The hand-written gradients are right: a measure must be checked itself."""

import inspect

import numpy as np
import pytest

from golden import by_hand, oracles
from golden.models import MODELS, Model
from golden.statements import count_statements, table

EVERY = pytest.mark.parametrize("model", MODELS.values(), ids=list(MODELS))


def test_one_for_each_model() -> None:
    """None is missing, and none is left over."""
    defined = {
        name
        for name, value in vars(by_hand).items()
        if inspect.isfunction(value)
        and value.__module__ == by_hand.__name__
        and not name.startswith("_")
    }
    assert defined == set(MODELS)
    assert len(MODELS) >= 9


@EVERY
def test_value_is_the_models(model: Model) -> None:
    """The forward part computes the model itself, not something like it."""
    value, _ = getattr(by_hand, model.name)(*model.args())
    np.testing.assert_allclose(value, model.function(*model.args()), rtol=1e-13)


@EVERY
def test_arguments_are_left_alone(model: Model) -> None:
    """A gradient that writes into its arguments would be no measure."""
    args = model.args()
    getattr(by_hand, model.name)(*args)
    oracles.assert_trees_close(args, model.args(), rtol=0.0)


@EVERY
def test_against_autograd(model: Model) -> None:
    """Same value and gradient as autograd."""
    found = getattr(by_hand, model.name)(*model.args())
    oracles.assert_trees_close(found, oracles.autograd_value_and_grad(model))


@EVERY
def test_against_jax(model: Model) -> None:
    """Same value and gradient as JAX."""
    found = getattr(by_hand, model.name)(*model.args())
    oracles.assert_trees_close(found, oracles.jax_value_and_grad(model))


def test_count_statements() -> None:
    """Docstrings and `def` lines don't count; bodies of loops and functions do."""
    source = '''
def f(x):
    """Adds."""
    for i in range(3):
        x = x + i

    def inner(ct):
        return ct

    return x, inner
'''
    assert count_statements(source, "f") == 4
    with pytest.raises(LookupError):
        count_statements(source, "inner")


def test_table() -> None:
    """One row for each function, and the sum."""
    text = table({"f": 6, "g": 3}, {"f": 4, "g": 3})
    assert text.splitlines()[2:] == [
        "| f | 6 | 4 | 1.50 |",
        "| g | 3 | 3 | 1.00 |",
        "| sum | 9 | 7 | 1.29 |",
    ]
