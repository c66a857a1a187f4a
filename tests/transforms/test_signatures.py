"""Our transformations take what JAX's of the same name take, in the same order."""

from __future__ import annotations

import inspect
from itertools import takewhile

import numpy as np
import pytest

import tracegrad as tg

jax = pytest.importorskip("jax")

OF_JAX = """
    grad value_and_grad vjp jvp linearize linear_transpose jacrev jacfwd hessian vmap
    checkpoint custom_vjp custom_jvp
"""
OF_LAX = """
    cond switch while_loop fori_loop scan map associative_scan stop_gradient
"""
THEIRS = {
    **{name: getattr(jax, name) for name in OF_JAX.split()},
    **{name: getattr(jax.lax, name) for name in OF_LAX.split()},
    "jacobian": jax.jacrev,
}

# What JAX takes and we do not.
LEFT_OUT = {
    "allow_int": "integers have no derivative here, which is an error that says so",
    "reduce_axes": "deprecated: for axes with names",
    "axis_name": "there are no axes with names",
    "spmd_axis_name": "there are no axes with names",
    "sum_match": "private to JAX",
    "saveable_args": "private to newer versions of JAX",
    "in_nzs": "private to newer versions of JAX",
    "operand": "the older spelling of `operands`",
    "unroll": "a matter of XLA: a loop of NumPy gains nothing",
    "_split_transpose": "private to JAX",
    "batch_size": "a matter of the memory of devices",
    "prevent_cse": "a matter of XLA",
    "policy": "everything is made again; nest `checkpoint` for parts",
    "static_argnums": "what is no array is static already",
    "static_argnames": "what is no array is static already",
    "concrete": "deprecated",
    "nondiff_argnames": "by position only",
}
ONE_NAME = {"fun": "f"}


def parameters(function) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


@pytest.mark.parametrize("name", THEIRS)
def test_the_signature_begins_as_that_of_jax(name):
    ours = [
        p
        for p in parameters(getattr(tg, name))
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)
    ]
    # What comes after one that is left out can be passed by keyword only.
    theirs = list(
        takewhile(
            lambda p: p.kind is not p.KEYWORD_ONLY and p.name not in LEFT_OUT,
            parameters(THEIRS[name]),
        )
    )
    ours_too = [ONE_NAME.get(p.name, p.name) for p in theirs]
    assert [p.name for p in ours][: len(theirs)] == ours_too
    for mine, other in zip(ours, theirs, strict=False):
        if other.default is not other.empty:
            assert mine.default == other.default, mine.name
    # What is ours alone can't take the place of what is JAX's.
    alone = {"checkpoint"} if name == "scan" else set()
    assert {p.name for p in ours[len(theirs) :]} == alone


@pytest.mark.parametrize("name", THEIRS)
def test_what_is_left_out_is_known(name):
    ours = {p.name for p in parameters(getattr(tg, name))}
    theirs = {ONE_NAME.get(p.name, p.name) for p in parameters(THEIRS[name])}
    assert theirs - ours <= LEFT_OUT.keys()


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "jacrev", "jacfwd"])
def test_options_by_position(name):
    def with_aux(x, y):
        return x * y, {"y": y}

    ours = getattr(tg, name)(with_aux, 1, True)(2.0, 3.0)
    theirs = getattr(jax, name)(with_aux, 1, True)(2.0, 3.0)
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for have, want in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(have, want)


@pytest.mark.parametrize(
    "name", ["grad", "value_and_grad", "jacrev", "jacfwd", "jacobian", "hessian"]
)
def test_a_name_in_the_place_of_a_flag_is_an_error(name):
    with pytest.raises(tg.ArgumentError, match="has_aux='x' is not possible here"):
        getattr(tg, name)(np.sum, 0, "x")
