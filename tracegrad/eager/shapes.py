"""Views, copies, conversions, joining."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracegrad.eager.dtypes import (
    dtype,
    from_numpy_dtype,
    promote_types,
    to_numpy_dtype,
)
from tracegrad.eager.engine import entry_of
from tracegrad.eager.inplace import named
from tracegrad.eager.registry import (
    axis_of,
    sizes_of,
    torch_function,
    write_out,
)
from tracegrad.eager.runtime import show
from tracegrad.eager.tensor import Size, Tensor, device, wrap
from tracegrad.eager.versions import owner_of
from tracegrad.ir.index import Slice
from tracegrad.ops import (
    cast,
    index,
    join,
    shape,
)

alias_op = entry_of(cast.alias)
reshape_op = entry_of(shape.reshape)
transpose_op = entry_of(shape.transpose)
getitem_op = entry_of(index.getitem).prepare()
FULL = Slice()


# ------------------------------------------------------------------ copies, conversions
entry_of(shape.copy).title = "CloneBackward0"


@torch_function("clone", methods=True)
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy with the same history."""
    return entry_of(shape.copy).eager(input)


entry_of(cast.astype).title = "ToCopyBackward0"


@torch_function("to", methods=True, function=False)
def to(self: Tensor, *args: Any, copy: bool = False, **kwargs: Any) -> Tensor:
    """The tensor in another dtype: `x.to(torch.float64)`, `x.to("cpu")`, `x.to(y)`."""
    wanted = kwargs.get("dtype")
    for x in args:
        if isinstance(x, Tensor):
            wanted = x.dtype
        elif isinstance(x, dtype):
            wanted = x
        elif isinstance(x, str | device):
            device(x)
    if kwargs.get("device") is not None:
        device(kwargs["device"])
    if wanted is None or wanted is self.dtype:
        return clone(self) if copy else self
    return entry_of(cast.astype).eager(self, dtype=to_numpy_dtype(wanted).name)


def _conversion(name: str, numpy: Any) -> None:
    made = from_numpy_dtype(numpy)

    def convert(self: Tensor) -> Tensor:
        return to(self, made)

    convert.__doc__ = f"The tensor as `{made}`."
    setattr(Tensor, name, convert)


for _name, _numpy in (
    ("float", np.float32),
    ("double", np.float64),
    ("half", np.float16),
    ("int", np.int32),
    ("long", np.int64),
    ("short", np.int16),
    ("bool", np.bool_),
    ("cfloat", np.complex64),
    ("cdouble", np.complex128),
):
    _conversion(_name, _numpy)


@torch_function("type_as", methods=True, function=False)
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor in the dtype of `other`."""
    return to(self, other.dtype)


@torch_function("contiguous", methods=True, function=False)
def contiguous(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor itself, or a copy in C order."""
    return self if self._data.flags.c_contiguous else clone(self)


@torch_function("cpu", methods=True, function=False)
def cpu(self: Tensor) -> Tensor:
    """The tensor itself."""
    return self


# --------------------------------------------------------------------------- questions
@torch_function("size", methods=True, function=False)
def size(self: Tensor, dim: int | None = None) -> Any:
    """The shape, or one size."""
    if dim is None:
        return Size(self._data.shape)
    return self._data.shape[axis_of(dim, self._data.ndim)]


@torch_function("dim", "ndimension", methods=True, function=False)
def dim(self: Tensor) -> int:
    """Number of axes."""
    return self._data.ndim


@torch_function("numel", methods=True)
def numel(input: Tensor) -> int:
    """Number of elements."""
    return input._data.size


@torch_function("element_size", methods=True, function=False)
def element_size(self: Tensor) -> int:
    """Bytes per element."""
    return self._data.itemsize


@torch_function("is_tensor")
def is_tensor(obj: Any) -> bool:
    """Whether `obj` is a tensor."""
    return isinstance(obj, Tensor)


@torch_function("is_floating_point", methods=True)
def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a real floating one."""
    return input._data.dtype.kind == "f"


@torch_function("is_complex", methods=True)
def is_complex(input: Tensor) -> bool:
    """Whether the dtype is complex."""
    return input._data.dtype.kind == "c"


@torch_function("is_contiguous", methods=True, function=False)
def is_contiguous(self: Tensor) -> bool:
    """Whether the elements lie in C order."""
    return self._data.flags.c_contiguous


@torch_function("stride", methods=True, function=False)
def stride(self: Tensor, dim: int | None = None) -> Any:
    """Elements from one to the next along each axis."""
    shape, size = self._data.shape, self._data.itemsize
    made: list[int] = []
    for n, s in zip(reversed(shape), reversed(self._data.strides)):
        if n == 1 and s == 0:
            # A new axis: NumPy gives it no step, PyTorch that of a whole axis.
            after = len(made)
            s = shape[-after] * made[-1] * size if made else size
        made.append(s // size)
    steps = tuple(reversed(made))
    return steps if dim is None else steps[axis_of(dim, self._data.ndim)]


@torch_function("storage_offset", methods=True, function=False)
def storage_offset(self: Tensor) -> int:
    """Elements from the start of the memory to the first one."""
    start = owner_of(self._data).__array_interface__["data"][0]
    return (self.data_ptr() - start) // self._data.itemsize


# ------------------------------------------------------------------------------- views
def _resolved(sizes: tuple[int, ...], count: int) -> tuple[int, ...]:
    if -1 not in sizes:
        if math.prod(sizes) != count:
            raise RuntimeError(
                f"shape '{list(sizes)}' is invalid for input of size {count}"
            )
        return sizes
    if sizes.count(-1) > 1:
        raise RuntimeError("only one dimension can be inferred")
    known = -math.prod(sizes)
    if known == 0 or count % known:
        raise RuntimeError(
            f"shape '{list(sizes)}' is invalid for input of size {count}"
        )
    return tuple([count // known if s == -1 else s for s in sizes])


entry_of(shape.reshape).title = "ViewBackward0"


@torch_function("view", methods=True, function=False)
def view(self: Tensor, *sizes: Any) -> Tensor:
    """The same memory in another shape (`-1` is found from the others)."""
    if len(sizes) == 1 and isinstance(sizes[0], dtype):
        return wrap(self._data.view(sizes[0].numpy))
    wanted = _resolved(sizes_of(sizes), self._data.size)
    out = reshape_op.eager(self, shape=wanted)
    if out._root is None and self._data.size:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least "
            "one dimension spans across two contiguous subspaces). Use .reshape(...) "
            "instead."
        )
    return out


@torch_function("view_as", methods=True, function=False)
def view_as(self: Tensor, other: Tensor) -> Tensor:
    """`view` with the shape of `other`."""
    return view(self, *other._data.shape)


@torch_function("reshape", methods=True, function=False)
def _reshape(self: Tensor, *shape: Any) -> Tensor:
    return reshape(self, sizes_of(shape))


@torch_function("reshape")
def reshape(input: Tensor, shape: Any) -> Tensor:
    """The elements in another shape; a view where that is possible."""
    wanted = _resolved(sizes_of((tuple(shape),)), input._data.size)
    out = reshape_op.eager(input, shape=wanted)
    return out if out._root is not None else named(out, "UnsafeViewBackward0")


@torch_function("flatten", methods=True)
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The axes from `start_dim` to `end_dim` as one."""
    have = input._data.shape or (1,)
    first, last = axis_of(start_dim, len(have)), axis_of(end_dim, len(have))
    if first == last and input._data.ndim:
        return input
    middle = math.prod(have[first : last + 1])
    return reshape(input, (*have[:first], middle, *have[last + 1 :]))


@torch_function("ravel", methods=True)
def ravel(input: Tensor) -> Tensor:
    """The elements as a vector."""
    return reshape(input, (-1,))


def _permuted(x: Tensor, axes: tuple[int, ...], name: str) -> Tensor:
    if axes == tuple(range(len(axes))):
        return named(alias_op.eager(x), name)
    return named(transpose_op.eager(x, axes=axes), name)


@torch_function("permute", methods=True, function=False)
def _permute(self: Tensor, *dims: Any) -> Tensor:
    return permute(self, sizes_of(dims))


@torch_function("permute")
def permute(input: Tensor, dims: Any) -> Tensor:
    """The axes in another order."""
    n = input._data.ndim
    axes = tuple([axis_of(d, n) for d in dims])
    if len(axes) != n:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not "
            f"match the length of the desired ordering of dimensions i.e. input.dim() "
            f"= {n} is not equal to len(dims) = {len(axes)}"
        )
    if len(set(axes)) < n:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return _permuted(input, axes, "PermuteBackward0")


@torch_function("transpose", "swapaxes", "swapdims", methods=True)
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two axes exchanged."""
    n = input._data.ndim
    axes = list(range(n))
    i, j = axis_of(dim0, n), axis_of(dim1, n)
    if n:
        axes[i], axes[j] = axes[j], axes[i]
    return _permuted(input, tuple(axes), "TransposeBackward0")


@torch_function("t", methods=True)
def t(input: Tensor) -> Tensor:
    """The transpose of a matrix."""
    n = input._data.ndim
    if n > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 dimensions, but self is {n}D"
        )
    return _permuted(input, tuple(reversed(range(n))), "TBackward0")


def _all_reversed(self: Tensor) -> Tensor:
    axes = tuple(reversed(range(self._data.ndim)))
    return _permuted(self, axes, "PermuteBackward0")


def _last_swapped(self: Tensor) -> Tensor:
    return transpose(self, -2, -1)


Tensor.T = property(_all_reversed)  # type: ignore[attr-defined]
Tensor.mT = property(_last_swapped)  # type: ignore[attr-defined]


@torch_function("squeeze", methods=True)
def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """Axes of size 1 taken away: all, or those in `dim`."""
    have = input._data.shape
    if dim is None:
        axes = [i for i, n in enumerate(have) if n == 1]
    else:
        given = dim if isinstance(dim, tuple | list) else (dim,)
        axes = [axis_of(d, len(have)) for d in given]
        axes = [i for i in axes if i < len(have) and have[i] == 1]
    name = "SqueezeBackward0" if dim is None else "SqueezeBackward1"
    if not axes:
        return named(alias_op.eager(input), name)
    entries = tuple([0 if i in axes else FULL for i in range(max(axes) + 1)])
    return named(_basic(input, entries), name)


@torch_function("unsqueeze", methods=True)
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """A new axis of size 1."""
    axis = axis_of(dim, input._data.ndim + 1)
    return named(_basic(input, (*[FULL] * axis, None)), "UnsqueezeBackward0")


def _basic(x: Tensor, entries: tuple) -> Tensor:
    attrs = {"index": entries, "counts": ()}
    return show(x, getitem_op.run(x._data, **attrs), getitem_op, attrs)


entry_of(shape.broadcast_to).title = "ExpandBackward0"


@torch_function("expand", methods=True, function=False)
def expand(self: Tensor, *sizes: Any) -> Tensor:
    """The tensor repeated along axes of size 1, without a copy."""
    wanted = sizes_of(sizes)
    have = self._data.shape
    extra = len(wanted) - len(have)
    if extra < 0:
        raise RuntimeError(
            f"expand({type(self).__name__}{list(have)}, size={list(wanted)}): the "
            f"number of sizes provided ({len(wanted)}) must be greater or equal to the "
            f"number of dimensions in the tensor ({len(have)})"
        )
    full = list(wanted)
    for i, n in enumerate(have):
        if full[extra + i] == -1:
            full[extra + i] = n
        elif n != 1 and full[extra + i] != n:
            raise RuntimeError(
                f"The expanded size of the tensor ({full[extra + i]}) must match the "
                f"existing size ({n}) at non-singleton dimension {extra + i}.  Target "
                f"sizes: {list(wanted)}.  Tensor sizes: {list(have)}"
            )
    return entry_of(shape.broadcast_to).eager(self, shape=tuple(full))


@torch_function("expand_as", methods=True, function=False)
def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """`expand` to the shape of `other`."""
    return expand(self, *other._data.shape)


# ----------------------------------------------------------------------------- joining
def _common(tensors: Any) -> list[Tensor]:
    common = tensors[0]._data.dtype
    for x in tensors[1:]:
        common = promote_types(common, x._data.dtype)
    made = from_numpy_dtype(common)
    return [to(x, made) for x in tensors]


entry_of(join.concatenate).title = "CatBackward0"
entry_of(join.stack).title = "StackBackward0"


@torch_function("cat", "concat", "concatenate")
def cat(tensors: Any, dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The tensors one after the other along an axis."""
    tensors = _listed(tensors, "cat")
    if not tensors:
        raise RuntimeError("torch.cat(): expected a non-empty list of Tensors")
    if any(not x._data.ndim for x in tensors):
        raise RuntimeError(
            "zero-dimensional tensor (at position "
            f"{[x._data.ndim for x in tensors].index(0)}) cannot be concatenated"
        )
    # An empty vector is left out, whatever the shape of the others.
    parts = [x for x in tensors if x._data.shape != (0,)] or tensors[:1]
    axis = axis_of(dim, parts[0]._data.ndim)
    for x in parts[1:]:
        _check_joined(parts[0]._data.shape, x._data.shape, axis)
    result = entry_of(join.concatenate).eager(*_common(parts), axis=axis)
    return result if out is None else write_out(out, result, "cat")


def _listed(tensors: Any, name: str) -> list:
    """The tensors to join.

    Raises:
        TypeError: PyTorch's message, if they are no sequence of tensors.
    """
    if not isinstance(tensors, list | tuple):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not "
            f"{type(tensors).__name__}"
        )
    for k, x in enumerate(tensors):
        if not isinstance(x, Tensor):
            raise TypeError(
                f"expected Tensor as element {k} in argument 0, but got "
                f"{type(x).__name__}"
            )
    return list(tensors)


def _check_joined(first: tuple, other: tuple, axis: int) -> None:
    if len(first) != len(other):
        raise RuntimeError(
            f"Tensors must have same number of dimensions: got {len(first)} and "
            f"{len(other)}"
        )
    for i, (a, b) in enumerate(zip(first, other)):
        if i != axis and a != b:
            raise RuntimeError(
                f"Sizes of tensors must match except in dimension {axis}. Expected "
                f"size {a} but got size {b} for tensor number 1 in the list."
            )


@torch_function("stack")
def stack(tensors: Any, dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The tensors along a new axis."""
    tensors = _listed(tensors, "stack")
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = tensors[0]._data.shape
    for k, x in enumerate(tensors):
        if x._data.shape != first:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at "
                f"entry 0 and {list(x._data.shape)} at entry {k}"
            )
    axis = axis_of(dim, len(first) + 1)
    result = entry_of(join.stack).eager(*_common(tensors), axis=axis)
    return result if out is None else write_out(out, result, "stack")


@torch_function("unbind", methods=True)
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis."""
    if not input._data.ndim:
        raise RuntimeError("Dimension specified as 0 but tensor has no dimensions")
    axis = axis_of(dim, input._data.ndim)
    count = input._data.shape[axis]
    made = [_basic(input, (*[FULL] * axis, i)) for i in range(count)]
    for x in made:
        named(x, "UnbindBackward0")
        x._made = x._made or "multiple outputs"
    return tuple(made)
