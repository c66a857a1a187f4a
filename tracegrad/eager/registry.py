"""Where PyTorch's names are entered: one small paragraph per function.

    @torch_function("square", methods=True, inplace=True)
    def square(input):
        return square_op(input)

enters `tracegrad.eager.square`, `Tensor.square` and `Tensor.square_`.  A function that
*is* an op is entered without a body, and called without a detour:

    op_function(trigonometry.sin, "sin", grad="SinBackward0", inplace=True)

Where PyTorch's derivative differs from that of the op, `own_rules(op, [...])` gives it
other rules (they are in `rules`).  A function whose zeros mean "not taken" (`where`,
`masked_fill`) sets `extras_of(out._node).masks`, so that an infinite slope behind it
gives 0.  Named results (`values, indices`) are made by `reductions.return_type`, views
by ops that alias; in-place forms come with `inplace=True`, or by `in_place(x, f, ...)`.

The name of the `grad_fn` is that of the op's entry (`grad=`), or is given to one result
by `named(out, "TBackward0")`.  The digit is PyTorch's: it tells the overloads of one
function apart (`SumBackward0` for all elements, `SumBackward1` with `dim`).

Arguments that many functions share are put in order by `axis_of`, `axes_of` and `flag`.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracegrad.eager.engine import Entry, entry_of
from tracegrad.eager.inplace import (
    check_allowed,
    check_partial,
    check_writable,
    in_place,
    named,
    touched,
)
from tracegrad.eager.modes import NAMESPACE, state
from tracegrad.eager.runtime import SCALARS
from tracegrad.eager.tensor import Tensor
from tracegrad.eager.versions import changed
from tracegrad.ops.define import Op

# torch.<name> -> function; `tracegrad.eager` shows them all.
FUNCTIONS: dict[str, Callable] = {}
_NO_SCALARS: dict[Any, np.ndarray] = {}
# Modules that show functions by name, and so are told when a faster one is there.
SHOWN_IN: list[dict[str, Any]] = []


def torch_function(
    *names: str,
    methods: bool = False,
    function: bool = True,
    inplace: bool = False,
    grad: tuple[Op, Any] | None = None,
) -> Callable[[Callable], Callable]:
    """Enter a function under PyTorch's names.

    Args:
        *names: `"abs", "absolute"`.
        methods: whether tensors have methods of these names.
        function: whether it is a function of the module.
        inplace: whether there are methods with a trailing underscore.
        grad: an op, and the name of the `grad_fn` of its results.
    """

    def register(made: Callable) -> Callable:
        shown = _with_numpy_names(made)
        # Methods need no such care: what they are called on is a tensor.
        takes = made.__code__.co_varnames[:1] if function else ()
        alone = _refusing(shown) if takes and takes[0] in ("input", "A") else shown
        for name in names:
            _enter(name, shown, methods, False)
            _enter(name, alone, False, function)
            if inplace:
                setattr(Tensor, f"{name}_", _in_place_method(shown, f"{name}_"))
        if grad is not None:
            entry_of(grad[0]).title = grad[1]
        return made

    return register


# PyTorch's name of an argument -> NumPy's, which its own functions take as well.
NUMPY_NAMES = {"dim": "axis", "keepdim": "keepdims"}


def _with_numpy_names(made: Callable) -> Callable:
    """A function that takes `axis` for its argument `dim`, `keepdims` for `keepdim`."""
    taken = made.__code__.co_varnames[: made.__code__.co_argcount]
    renamed = {NUMPY_NAMES[k]: k for k in taken if k in NUMPY_NAMES}
    if not renamed or made.__name__.rstrip("_") in _IN_PYTHON:
        return made

    @functools.wraps(made)
    def function(*args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            return made(*args)
        for given in kwargs.keys() & renamed.keys():
            if renamed[given] in kwargs:
                raise TypeError(
                    f"{made.__name__}() got an unexpected keyword argument '{given}'"
                )
            kwargs[renamed[given]] = kwargs.pop(given)
        return made(*args, **kwargs)

    return function


# What PyTorch has written in Python knows its own names only.
_IN_PYTHON = {"norm", "split"}


def _refusing(made: Callable) -> Callable:
    """A function that says which of its arguments should be a tensor."""

    @functools.wraps(made)
    def function(*args: Any, **kwargs: Any) -> Any:
        try:
            return made(*args, **kwargs)
        except AttributeError as error:
            wrong = error.obj
            if isinstance(wrong, Tensor) or error.name not in ("_data", "_node"):
                raise
            for position, x in enumerate(args):
                if x is wrong:
                    raise not_a_tensor(made, position, x) from None
            raise

    return function


def not_a_tensor(made: Callable, position: int, x: Any) -> TypeError:
    """PyTorch's error for an argument that should be a tensor."""
    name = inspect.unwrap(made).__code__.co_varnames[position]
    module = "numpy." if type(x).__module__ == "numpy" else ""
    return TypeError(
        f"{made.__name__.rstrip('_')}(): argument '{name}' (position {position + 1}) "
        f"must be Tensor, not {module}{type(x).__name__}"
    )


def _enter(name: str, made: Callable, methods: bool, function: bool) -> None:
    if function:
        FUNCTIONS[name] = made
        for scope in SHOWN_IN:
            scope[name] = made
    if methods:
        setattr(Tensor, name, made)


def _in_place_method(made: Callable, name: str) -> Callable:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return in_place(self, made, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"{made.__doc__}\n\nIn place."
    return method


def op_function(
    op: Op,
    *names: str,
    grad: Any = None,
    methods: bool = True,
    function: bool = True,
    inplace: bool = False,
    zero: bool = False,
) -> Entry:
    """Enter an op itself under PyTorch's names; see `torch_function`.

    Args:
        op: takes tensors in the order of PyTorch's arguments.
        *names: as for `torch_function`.
        grad: the name of the `grad_fn`, or a function of its node.
        methods: as for `torch_function`.
        function: as for `torch_function`.
        inplace: as for `torch_function`.
        zero: whether inputs without a rule have the derivative 0, as `floor`.
    """
    entry = entry_of(op)
    entry.zero = zero
    if grad is not None:
        entry.title = grad

    def first(*args: Any, **kwargs: Any) -> Any:
        # From the second call on the generated function is there instead.
        made = entry.prepare().eager
        for name in names:
            if methods and Tensor.__dict__.get(name) is first:
                setattr(Tensor, name, made)
            if function and FUNCTIONS.get(name) is first:
                _enter(name, made, False, True)
        return made(*args, **kwargs)

    first.__name__ = first.__qualname__ = names[0] if names else op.name
    first.__doc__ = op.run.__doc__
    for name in names:
        _enter(name, first, methods, function)
        if inplace:
            setattr(Tensor, f"{name}_", in_place_op(entry, f"{name}_"))
    return entry


def own_rules(op: Op, rules: Sequence[Callable | None]) -> None:
    """Give an op other derivative rules in eager mode, one for each input."""
    entry_of(op).rules = tuple(rules)


def in_place_op(entry: Entry, name: str) -> Callable:
    """The method that applies an elementwise op of one or two operands in place."""

    def unary(self: Tensor) -> Tensor:
        general = check_allowed(self) or state.push is not None
        if general or self._data.dtype.kind not in "fc":
            return in_place(self, entry.eager)
        if _compute_into(entry, self._data):
            return _written(self)
        return in_place(self, entry.eager)

    def binary(self: Tensor, other: Any) -> Tensor:
        data = self._data
        operand = None
        if isinstance(other, Tensor):
            operand = other._data
            if data.base is not None or operand.base is not None:
                check_partial(data, (other,))
        elif type(other) is float or type(other) is int:
            operand = SCALARS.get(data.dtype, _NO_SCALARS).get(other)
        recording = state.grad or self._inference
        if not (recording and check_allowed(self, (other,))) and (
            state.push is None
            and operand is not None
            and operand.dtype is data.dtype
            and _compute_into(entry, data, operand)
        ):
            return _written(self)
        return in_place(self, entry.eager, other)

    method = unary if len(entry.op.params) == 1 else binary
    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"{entry.op.run.__doc__}\n\nIn place."
    return method


def _compute_into(entry: Entry, data: np.ndarray, *others: np.ndarray) -> bool:
    """Let the ufunc write into `data`; False if there is none, or it does not fit."""
    if data.base is not None and not data.flags.c_contiguous:
        check_writable(data)
    ufunc = entry.run if entry.ready else entry.prepare().run
    if not isinstance(ufunc, np.ufunc):
        return False
    if entry.refuses is not None and data.dtype.kind not in "fc":
        return False
    try:
        ufunc(data, *others, out=data)
    except (ValueError, TypeError):
        return False  # the general way has the error that the user should see
    except RuntimeWarning:
        pass  # NumPy complains when all is done
    return True


def _written(self: Tensor) -> Tensor:
    changed(self._data)
    if self._views is not None or self._root is not None or self._origin is not None:
        touched(self)
    return self


# ------------------------------------------------------------- argument conventions
def axis_of(dim: Any, ndim: int) -> int:
    """A `dim` argument as a non-negative axis; a 0-d tensor has the axes 0 and -1.

    Raises:
        IndexError: PyTorch's message, if it is out of range.
    """
    span = max(ndim, 1)
    dim = dim.__index__()
    if not -span <= dim < span:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-span}, {span - 1}],"
            f" but got {dim})"
        )
    return dim % span


def axes_of(dim: Any, ndim: int) -> Any:
    """A `dim` argument of a reduction as ops have it: None, an int, a sorted tuple.

    Raises:
        IndexError: if one is out of range.
        RuntimeError: if one appears twice.
    """
    if dim is None or (isinstance(dim, tuple | list) and not dim):
        return None
    given = dim if isinstance(dim, tuple | list) else (dim,)
    axes = [axis_of(d, ndim) for d in given]
    for d in axes:
        if axes.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    if len(axes) >= ndim:
        return None
    return axes[0] if len(axes) == 1 else tuple(sorted(axes))


def new_sizes(sizes: tuple, name: str = "") -> tuple[int, ...]:
    """`sizes_of` for a new tensor.

    Raises:
        RuntimeError: PyTorch's message, if one is negative.
    """
    shape = sizes_of(sizes)
    if shape and min(shape) < 0:
        if name == "zeros":
            raise RuntimeError("zeros: Dimension size must be non-negative.")
        wrong = next(n for n in shape if n < 0)
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {wrong}: {list(shape)}"
        )
    return shape


def sizes_of(sizes: tuple) -> tuple[int, ...]:
    """Sizes given one by one or as one sequence: `(2, 3)` or `((2, 3),)`."""
    if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
        sizes = tuple(sizes[0])
    return tuple([operator.index(s) for s in sizes])


def write_out(out: Tensor, result: Tensor, name: str = "") -> Tensor:
    """What `out=` does: resize `out` and copy the result into it."""
    if out._node is not None or result._node is not None:
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic "
            "differentiation, but one of the arguments requires grad."
        )
    if out._data.shape != result._data.shape:
        out._data = np.empty(result._data.shape, out._data.dtype)
    out._data[...] = result._data
    changed(out._data)
    return out


NAMESPACE["write_out"] = write_out
__all__ = [
    "FUNCTIONS",
    "axes_of",
    "axis_of",
    "named",
    "op_function",
    "own_rules",
    "sizes_of",
    "torch_function",
    "write_out",
]
