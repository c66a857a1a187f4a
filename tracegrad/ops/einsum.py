"""Einstein summation."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy as xp
import opt_einsum

from tracegrad.errors import ArgumentError, ShapeError
from tracegrad.ir.types import ArrayType, Dim
from tracegrad.ops.cast import astype
from tracegrad.ops.define import op
from tracegrad.ops.diagonal import diagonal
from tracegrad.ops.index import expand_dims
from tracegrad.ops.infer import refuse, result_dtype, same_size, shape_text
from tracegrad.ops.record import as_array, dtype_of, ndim_of, shape_of
from tracegrad.ops.sample import arg, call
from tracegrad.ops.shape import broadcast_to, permute

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _split(subscripts: str) -> tuple[list[str], str]:
    inputs, output = subscripts.split("->")
    return inputs.split(","), output


def _infer_einsum(*types: ArrayType, subscripts):
    inputs, output = _split(subscripts)
    sizes: dict[str, Any] = {}
    for labels, t in zip(inputs, types, strict=True):
        for label, size in zip(labels, t.shape, strict=True):
            have = sizes.get(label, 1)
            if have == 1:
                sizes[label] = size
            elif size != 1 and not same_size(have, size):
                raise ShapeError(
                    f"the label {label} of {subscripts!r} has the sizes {have} and "
                    f"{size}",
                    fix="give axes with one label one size",
                )
    return ArrayType(tuple([sizes[label] for label in output]), result_dtype(*types))


@op(
    infer=_infer_einsum,
    samples=[
        call(arg("n", 3), arg(3, 2), subscripts="ij,jk->ik"),
        call(arg(2, 3, 4), subscripts="abc->b"),
        call(arg(2, 3), subscripts="ab->ba"),
        call(arg(2, 3), arg(2, 4), subscripts="ij,ik->k"),
        call(arg(2, 1), arg(3, 2), subscripts="ij,ji->j"),
        call(arg(3), arg("n"), subscripts="i,j->ji"),
        call(arg(3), arg(3), subscripts="i,i->"),
        call(arg(2), arg(2, 3), arg(3), subscripts="i,ij,j->"),
        call(arg(2, 3, dtype="complex128"), arg(3), subscripts="ij,j->i"),
    ],
)
def einsum(*xs, subscripts):
    """Einstein summation; no operand has a label twice, and the output is explicit."""
    return xp.einsum(subscripts, *xs)


@einsum.jvp
def _(t, y, *xs, subscripts):
    total: Any = None
    for i, moved in enumerate(t):
        if moved is not None:
            operands = [*xs[:i], moved, *xs[i + 1 :]]
            part = einsum(*operands, subscripts=subscripts)
            total = part if total is None else total + part
    return total


@einsum.batch
def _(b, *xs, subscripts):
    inputs, output = _split(subscripts)
    letter = next(c for c in _LETTERS if c not in subscripts)
    terms = [letter + t if b.has(i) else t for i, t in enumerate(inputs)]
    return einsum(*xs, subscripts=f"{','.join(terms)}->{letter}{output}")


@einsum.vjp
def _(ct, y, *xs, subscripts):
    inputs, output = _split(subscripts)
    made = []
    for i, (labels, x) in enumerate(zip(inputs, xs, strict=True)):
        others = [*inputs[:i], *inputs[i + 1 :]]
        rest = [*xs[:i], *xs[i + 1 :]]
        made.append(_pull(ct, output, x, labels, others, rest))
    return tuple(made)


def _pull(ct, output, x, labels, others, rest):
    """The cotangent of the operand `x` with `labels`."""
    known = set(output).union(*others)
    kept = "".join([label for label in labels if label in known])
    if rest:
        subscripts = f"{','.join([output, *others])}->{kept}"
        found = contract(subscripts, [ct, *rest])
    else:
        found = permute(ct, tuple([output.index(label) for label in kept]))
    if kept == labels:
        return found
    # A label that only this operand has was summed away: spread it again.
    if kept:
        axes = [i for i, label in enumerate(labels) if label not in known]
        found = expand_dims(found, axis=tuple(axes))
    return broadcast_to(found, shape=shape_of(x))


def contract(subscripts: str, operands: list) -> Any:
    """One einsum for one or two operands, else pairs in the cheapest order."""
    if len(operands) <= 2:
        return einsum(*operands, subscripts=subscripts)
    # Only the ratio of costs matters, so a symbolic size counts as a usual one.
    shapes = [
        tuple([64 if isinstance(s, Dim) else s for s in shape_of(x)]) for x in operands
    ]
    _, plan = opt_einsum.contract_path(subscripts, *shapes, shapes=True)
    operands = list(operands)
    for positions, _, step, *_ in plan.contraction_list:
        chosen = [operands.pop(i) for i in positions]
        operands.append(einsum(*chosen, subscripts=step))
    return operands[0]


# --------------------------------------------------------------------- what users write
@einsum.accept(np.einsum)
def _(*operands, out=None, optimize=False, **kwargs):
    dtype = kwargs.pop("dtype", None)
    for name, usual in (("order", "K"), ("casting", "safe")):
        if kwargs.get(name) == usual:
            kwargs.pop(name)
    refuse("np.einsum", out=out, **kwargs)
    if not operands:
        raise ArgumentError("np.einsum needs subscripts and arrays", op="np.einsum")
    if isinstance(operands[0], str):
        subscripts, given = operands[0], list(operands[1:])
    else:
        subscripts, given = _from_lists(operands)
    xs = [as_array(x) for x in given]
    if dtype is not None:
        name = np.dtype(dtype).name
        xs = [x if dtype_of(x).name == name else astype(x, dtype=name) for x in xs]
    inputs, output = _explicit(subscripts.replace(" ", ""), xs)
    parts = [_without_repeats(x, labels) for x, labels in zip(xs, inputs, strict=True)]
    xs, inputs = [p[0] for p in parts], [p[1] for p in parts]
    if len(xs) == 1 and inputs[0] == output:
        return xs[0]
    return contract(f"{','.join(inputs)}->{output}", xs)


def _from_lists(operands: tuple) -> tuple[str, list]:
    """`np.einsum(a, [0, 1], b, [1, 2], [0, 2])` in the form with letters."""
    arrays = list(operands[0 : len(operands) // 2 * 2 : 2])
    labels = list(operands[1 : len(operands) // 2 * 2 : 2])

    def text(entries: Any) -> str:
        return "".join("..." if e is Ellipsis else _LETTERS[e] for e in entries)

    subscripts = ",".join(map(text, labels))
    if len(operands) % 2:
        subscripts += "->" + text(operands[-1])
    return subscripts, arrays


def _explicit(subscripts: str, xs: list) -> tuple[list[str], str]:
    """Labels of the operands and of the output, without an ellipsis.

    Raises:
        ArgumentError: if there are not as many terms as arrays, or a label of the
            output is in no term or twice in the output.
        ShapeError: if a term does not have as many labels as its array axes.
    """
    left, arrow, output = subscripts.partition("->")
    terms = left.split(",")
    if len(terms) != len(xs):
        raise ArgumentError(
            f"{subscripts!r} has {len(terms)} terms for {len(xs)} arrays",
            op="np.einsum",
        )
    free = [c for c in _LETTERS if c not in subscripts]
    inputs = []
    longest = 0
    for term, x in zip(terms, xs, strict=True):
        count = ndim_of(x) - len(term.replace("...", ""))
        if count < 0 or (count and "..." not in term):
            raise ShapeError(
                f"the term {term!r} of {subscripts!r} does not fit an array of shape "
                f"{shape_text(shape_of(x))}",
                op="np.einsum",
                fix="write one label for each axis, or ... for the rest",
            )
        longest = max(longest, count)
        inputs.append((term, count))
    broadcast = "".join(free[:longest])
    named = [t.replace("...", broadcast[longest - count :]) for t, count in inputs]
    if arrow:
        output = output.replace("...", broadcast)
    else:
        counts = Counter("".join(t.replace("...", "") for t in terms))
        output = broadcast + "".join(sorted(c for c in counts if counts[c] == 1))
    if not set(output) <= set("".join(named)) or len(set(output)) < len(output):
        raise ArgumentError(
            f"a label of the output of {subscripts!r} is in no term, or there twice",
            op="np.einsum",
        )
    return named, output


def _without_repeats(x: Any, labels: str) -> tuple[Any, str]:
    """`x` with the diagonal taken of each label that it has twice."""
    while len(set(labels)) < len(labels):
        label = next(c for c in labels if labels.count(c) > 1)
        first = labels.index(label)
        second = labels.index(label, first + 1)
        if not same_size(shape_of(x)[first], shape_of(x)[second]):
            raise ShapeError(
                f"the label {label} stands for the sizes {shape_of(x)[first]} and "
                f"{shape_of(x)[second]} of one array",
                op="np.einsum",
            )
        x = diagonal(x, axis1=first, axis2=second)
        rest = labels[:first] + labels[first + 1 : second] + labels[second + 1 :]
        labels = rest + label
    return x, labels
