"""The tensor: an array, the node that made it, and what hangs on both.

This module holds the state and the plain properties.  Everything that calculates is
attached as a method by the module that defines it (`registry.torch_function`).
"""

from __future__ import annotations

import copy
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from tracegrad.eager.dtypes import (
    TENSOR_TYPES,
    dtype,
    from_numpy_dtype,
    to_numpy_dtype,
)
from tracegrad.eager.modes import state
from tracegrad.eager.nodes import (
    SEQ,
    GradFn,
    Node,
    next_leaf_seq,
    wrapper_of,
)
from tracegrad.eager.versions import owner_of, version_of
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import HANDLERS


class Size(tuple):
    """A shape: a tuple that prints as `torch.Size([2, 3])`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"

    def numel(self) -> int:
        """Number of elements."""
        count = 1
        for n in self:
            count *= n
        return count

    def __getitem__(self, key: Any) -> Any:
        found = tuple.__getitem__(self, key)
        return Size(found) if isinstance(key, slice) else found

    def __add__(self, other: Any) -> Size:
        return Size(tuple.__add__(self, tuple(other)))


class device:
    """Where a tensor lives: always the CPU's memory."""

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: Any = "cpu", index: int | None = None) -> None:
        if isinstance(type, device):
            type, index = type.type, type.index
        name, _, number = str(type).partition(":")
        if name != "cpu":
            raise RuntimeError(
                f"Expected one of cpu device type at start of device string: {type}"
            )
        self.type = name
        self.index = int(number) if number else index

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, str):
            return str(self) == other
        return isinstance(other, device) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


CPU = device("cpu")
new = object.__new__

NOT_A_LEAF = (
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its "
    ".grad attribute won't be populated during autograd.backward(). If you indeed want "
    "the .grad field to be populated for a non-leaf Tensor, use .retain_grad() on the "
    "non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure you "
    "access the leaf Tensor instead. See github.com/pytorch/pytorch/pull/30531 for "
    "more informations."
)


class _Type(ArrayType):
    """`x.type`: the type that ops ask for, and PyTorch's method of that name."""

    def __call__(self, to: Any = None) -> Any:
        if to is not None:
            names = {f"torch.{name}": d for d, name in TENSOR_TYPES.items()}
            wanted = getattr(to, "holds", to)  # a type of old, such as LongTensor
            return self.__dict__["of"].to(names.get(wanted, wanted))
        return f"torch.{TENSOR_TYPES[from_numpy_dtype(self.dtype)]}"


_Unary: TypeAlias = "Callable[[Tensor], Tensor]"
_Binary: TypeAlias = "Callable[[Tensor, Any], Tensor]"


class Tensor:
    """An array with a history.

    The attributes below are internal; instances hold only those that differ from the
    class's, so that making a tensor costs two stores.

    Attributes:
        _data: the array (0-d ones included, never a NumPy scalar).
        _node: the node that made it; for a leaf that requires a gradient, the node
            that accumulates into it; None if nothing is recorded.
        _grad: the accumulated gradient.
        _root: for a view, the tensor whose memory it shows.
        _steps: for a view, the (op, attrs) that lead from `_root` to it.
        _made: how a view came about, where that forbids changing it in place:
            "no_grad", "multiple outputs".
        _views: for a root, weak references to its views.
        _origin: for a tensor made by `detach`, a weak reference to the root of the
            tensor that it shares memory with.
        _inference: whether it was made in inference mode.
        _tangent: its tangent of forward mode, with the level that it belongs to.
        _retains: whether `retain_grad` was called.
    """

    _data: np.ndarray
    _node: Node | None = None
    _grad: Tensor | None = None
    _root: Tensor | None = None
    _steps: tuple = ()
    _made: str | None = None
    _views: list | None = None
    _origin: Any = None
    _inference = False
    _retains = False
    _tangent: tuple[Any, Tensor] | None = None
    _legacy: Any = None  # what `Tensor(...)` does, set by `creation`

    # Operators of arrays on the left give way to ours.
    __array_priority__ = 1000

    # What the modules that calculate attach, for type checkers.
    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    __add__: ClassVar[_Binary]
    __radd__: ClassVar[_Binary]
    __sub__: ClassVar[_Binary]
    __rsub__: ClassVar[_Binary]
    __mul__: ClassVar[_Binary]
    __rmul__: ClassVar[_Binary]
    __truediv__: ClassVar[_Binary]
    __rtruediv__: ClassVar[_Binary]
    __floordiv__: ClassVar[_Binary]
    __rfloordiv__: ClassVar[_Binary]
    __mod__: ClassVar[_Binary]
    __rmod__: ClassVar[_Binary]
    __pow__: ClassVar[_Binary]
    __rpow__: ClassVar[_Binary]
    __matmul__: ClassVar[_Binary]
    __rmatmul__: ClassVar[_Binary]
    __and__: ClassVar[_Binary]
    __rand__: ClassVar[_Binary]
    __or__: ClassVar[_Binary]
    __ror__: ClassVar[_Binary]
    __xor__: ClassVar[_Binary]
    __rxor__: ClassVar[_Binary]
    __lshift__: ClassVar[_Binary]
    __rshift__: ClassVar[_Binary]
    __lt__: ClassVar[_Binary]
    __le__: ClassVar[_Binary]
    __gt__: ClassVar[_Binary]
    __ge__: ClassVar[_Binary]
    __eq__: ClassVar[_Binary]  # type: ignore[assignment]
    __ne__: ClassVar[_Binary]  # type: ignore[assignment]
    __neg__: ClassVar[_Unary]
    __pos__: ClassVar[_Unary]
    __abs__: ClassVar[_Unary]
    __invert__: ClassVar[_Unary]
    __getitem__: ClassVar[_Binary]
    __setitem__: ClassVar[Callable[[Tensor, Any, Any], None]]
    __len__: ClassVar[Callable[[Tensor], int]]
    __iter__: ClassVar[Callable[[Tensor], Iterator[Tensor]]]
    __contains__: ClassVar[Callable[[Tensor, Any], bool]]
    __bool__: ClassVar[Callable[[Tensor], bool]]
    __index__: ClassVar[Callable[[Tensor], int]]
    __int__: ClassVar[Callable[[Tensor], int]]
    __float__: ClassVar[Callable[[Tensor], float]]
    __complex__: ClassVar[Callable[[Tensor], complex]]
    __format__: ClassVar[Callable[[Tensor, str], str]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is Tensor:
            # `Tensor(2, 3)` and `Tensor([1, 2])` of old; see `creation`.
            return cls._legacy(*args)
        return object.__new__(cls)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        HANDLERS[cls] = lambda op, args, attrs: HANDLERS[Tensor](op, args, attrs)

    # -------------------------------------------------------------------- what it is
    @property
    def shape(self) -> Size:
        """The sizes of the axes."""
        return Size(self._data.shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._data.ndim

    @property
    def dtype(self) -> dtype:
        """The dtype object, such as `torch.float32`."""
        return from_numpy_dtype(self._data.dtype)

    @property
    def type(self) -> Any:
        """`x.type()` is the old name of the tensor type."""
        made = _Type(self._data.shape, self._data.dtype)
        made.__dict__["of"] = self
        return made

    @property
    def device(self) -> device:
        """Where it lives."""
        return CPU

    @property
    def layout(self) -> str:
        """Always strided."""
        return "torch.strided"

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self._data.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._data.nbytes

    is_cuda = is_sparse = is_quantized = is_meta = is_mkldnn = False

    def __hash__(self) -> int:
        return id(self)

    # ------------------------------------------------------------------ its history
    @property
    def requires_grad(self) -> bool:
        """Whether operations on it are recorded."""
        return self._node is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not value and not self.is_leaf:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you "
                "want to use a computed variable in a subgraph that doesn't require "
                "differentiation use var_no_grad = var.detach()."
            )
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Record operations on this leaf from now on, or no longer."""
        if bool(requires_grad) == self.requires_grad:
            return self
        if not self.is_leaf:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you "
                "want to use a computed variable in a subgraph that doesn't require "
                "differentiation use var_no_grad = var.detach()."
            )
        if requires_grad:
            if self._inference and not state.inference:
                raise RuntimeError(
                    "Setting requires_grad=True on inference tensor outside "
                    "InferenceMode is not allowed."
                )
            if self._data.dtype.kind not in "fc":
                raise RuntimeError(
                    "only Tensors of floating point dtype can require gradients"
                )
            self._node = leaf_node(self)
        else:
            self._node = None
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made it."""
        return self._node is None or self._node[SEQ] < 0

    @property
    def grad_fn(self) -> GradFn | None:
        """The function that made it."""
        node = self._node
        return None if node is None or node[SEQ] < 0 else wrapper_of(node)

    @property
    def output_nr(self) -> int:
        """Which output of its function it is."""
        node = self._node
        if node is None or node[SEQ] < 0 or node[0].title != "output":
            return 0
        return node[6]

    @property
    def grad(self) -> Tensor | None:
        """What backward passes have added up."""
        if self._grad is None and not self.is_leaf and not self._retains:
            warnings.warn(NOT_A_LEAF, UserWarning, stacklevel=2)
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(
                    "assigned grad expected to be a Tensor or None but got grad of "
                    f"type {type(value).__name__}"
                )
            if value is self:
                raise RuntimeError("can't assign Variable as its own grad")
            if value._data.shape != self._data.shape:
                raise RuntimeError(
                    "attempting to assign a gradient of size "
                    f"'{list(value._data.shape)}' to a tensor of size "
                    f"'{list(self._data.shape)}'. Please ensure that the gradient and "
                    "the tensor are the same size"
                )
            if value._data.dtype != self._data.dtype:
                raise RuntimeError("assigned grad has data of a different type")
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    @property
    def retains_grad(self) -> bool:
        """Whether a gradient is kept for this tensor, which is not a leaf."""
        return self._retains and not self.is_leaf

    @property
    def _version(self) -> int:
        if self._inference:
            raise RuntimeError("Inference tensors do not track version counter.")
        return version_of(self._data)

    @property
    def _base(self) -> Tensor | None:
        return self._root

    def _is_view(self) -> bool:
        return self._root is not None

    def is_inference(self) -> bool:
        """Whether it was made in inference mode."""
        return self._inference

    # -------------------------------------------------------------------- its memory
    @property
    def data(self) -> Tensor:
        """The same memory without history, and with a version counter of its own."""
        return wrap(detached_memory(self._data))

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(
                f"Variable data has to be a tensor, but got {type(value).__name__}"
            )
        self._data = detached_memory(value._data)

    def detach(self) -> Tensor:
        """The same memory without history; changes in place are noticed."""
        made = wrap(self._data.view())
        made._origin = weakref.ref(self if self._root is None else self._root)
        return made

    def detach_(self) -> Tensor:
        """Cut this tensor off from its history."""
        if self._root is not None:
            raise RuntimeError(
                "Can't detach views in-place. Use detach() instead. If you are using "
                "DistributedDataParallel (DDP) for training, and gradient_as_bucket_"
                "view is set as True, gradients are views of DDP buckets, and hence "
                "detach_() cannot be called on these gradients. To fix this error, "
                "please refer to the Optimizer.zero_grad() function in "
                "torch/optim/optimizer.py as the solution."
            )
        self._node = None
        self._retains = False
        return self

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The array itself: the memory is shared."""
        if self._node is not None and not force:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use "
                "tensor.detach().numpy() instead."
            )
        return self._data

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        data = self.numpy()
        if dtype is not None and data.dtype != dtype:
            return data.astype(dtype)
        return data.copy() if copy else data

    def item(self) -> Any:
        """The number in a tensor with one element."""
        if self._data.size != 1:
            raise RuntimeError(
                f"a Tensor with {self._data.size} elements cannot be converted to "
                "Scalar"
            )
        return self._data.item()

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        return self._data.tolist()

    def __deepcopy__(self, memo: dict) -> Tensor:
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support "
                "the deepcopy protocol at the moment.  If you were attempting to "
                "deepcopy a module, this may be because of a torch.nn.utils."
                "weight_norm usage, see https://github.com/pytorch/pytorch/pull/103001"
            )
        made = _rebuild(type(self), self._data.copy(), self.requires_grad)
        memo[id(self)] = made
        if self._grad is not None:
            made._grad = self._grad.__deepcopy__(memo)
        for name, value in self.__dict__.items():
            if not name.startswith("_"):  # what the user has set
                setattr(made, name, copy.deepcopy(value, memo))
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        data = self._data
        owner = owner_of(data)
        if owner is data or not owner.flags.c_contiguous:
            return _rebuild, (type(self), data, self.requires_grad)
        # The whole memory, so that what shares it does so again.
        offset = self.data_ptr() - owner.__array_interface__["data"][0]
        layout = (data.shape, data.dtype, offset, data.strides)
        return _rebuild_part, (type(self), owner, layout, self.requires_grad)

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._data.__array_interface__["data"][0]


def wrap(data: np.ndarray, node: Node | None = None) -> Tensor:
    """A tensor that shows `data`."""
    made = new(Tensor)
    made._data = data if type(data) is np.ndarray else np.asarray(data)
    if node is not None:
        made._node = node
    return made


def _rebuild(cls: type[Tensor], data: np.ndarray, requires_grad: bool) -> Tensor:
    """A leaf with this data, for copies."""
    made = new(cls)
    made._data = data
    return made.requires_grad_(requires_grad)


def _rebuild_part(
    cls: type[Tensor], owner: np.ndarray, layout: tuple, requires_grad: bool
) -> Tensor:
    """A leaf that shows a part of `owner`."""
    shape, dtype, offset, strides = layout
    return _rebuild(
        cls, np.ndarray(shape, dtype, owner, offset, strides), requires_grad
    )


def detached_memory(data: np.ndarray) -> np.ndarray:
    """The same memory, by an array that owns its own version counter.

    Views of it have it as their base, not the array it was made of.
    """
    return np.asarray(data.data) if data.ndim else _detached_scalar(data)


def _detached_scalar(data: np.ndarray) -> np.ndarray:
    return np.ndarray((), data.dtype, data.data)


# --------------------------------------------------------------------------- leaves
def accumulate_node(node: Node, ct: Any, grads: dict) -> None:
    """Stands in the node of a leaf; `backward` accumulates by itself."""
    raise RuntimeError("the node of a leaf is run by the backward loop")


accumulate_node.title = "AccumulateGrad"  # type: ignore[attr-defined]


def leaf_node(leaf: Tensor) -> Node:
    """The node that accumulates into `leaf`, which it refers to weakly."""
    seq = next_leaf_seq()
    meta = (leaf._data.shape, leaf._data.dtype)
    return [accumulate_node, seq, None, (), None, meta, weakref.ref(leaf), None]


class _ParameterType(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return type.__instancecheck__(cls, x) or (
            isinstance(x, Tensor) and getattr(x, "_is_param", False)
        )


class Parameter(Tensor, metaclass=_ParameterType):
    """A leaf that a module trains."""

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Parameter:
        made = object.__new__(cls)
        made._data = np.zeros(0, np.float32) if data is None else data.detach()._data
        if requires_grad:
            if made._data.dtype.kind not in "fc":
                raise RuntimeError(
                    "Only Tensors of floating point and complex dtype can require "
                    "gradients"
                )
            made.requires_grad_()
        return made

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        pass


class _VariableType(type):
    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Tensor)

    def __call__(
        cls, data: Any, requires_grad: bool = False, volatile: Any = None
    ) -> Any:
        if not isinstance(data, Tensor):
            raise TypeError(
                f"Variable data has to be a tensor, but got {type(data).__name__}"
            )
        made = data.detach()
        return made.requires_grad_(requires_grad) if requires_grad else made


class Variable(metaclass=_VariableType):
    """The tensor itself, as a leaf; the class of old has merged with `Tensor`."""


__all__ = ["Parameter", "Size", "Tensor", "Variable", "device", "to_numpy_dtype"]
