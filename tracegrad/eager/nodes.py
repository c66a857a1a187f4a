"""The graph: nodes are plain lists, `grad_fn` is a wrapper made on request.

A node is `[pull, seq, extras, inputs, saved, meta, attrs, name]`; that of an op has the
constants behind these (and before them, with several outputs, their number):

- `pull(node, ct, grads)` adds the cotangents of the inputs to `grads`, which maps `seq`
  to a cotangent.  `pull.graph` does the same with tensors, for `create_graph=True`;
  `pull.title` is the name of the `grad_fn`, or a function of the node that gives it.
- `seq` counts up; backward runs nodes from the highest down.  The node of a leaf, which
  accumulates into `.grad`, has a negative one and runs right after its last consumer.
- `extras` is None, or an `Extras`: hooks and other rarities.
- `inputs` holds a node or None for each input of the op.
- `saved` holds arrays, `FREED` after a backward pass, or None if nothing is saved.
- `meta` is None where cotangents already fit the inputs, else `(shape, dtype)` of each
  input, in one flat tuple.  `attrs` are the static attributes of the op.
- `name` overrides `pull.title`.
- The constants tell `source()` which inputs had no history: a Python number, or an
  array, weakly, so that the graph keeps nothing alive that backward does not read.

Lists cost a quarter of what objects with an `__init__` do.  Nodes never refer to
tensors, so there is no reference cycle: a wrapper refers to its node, and is found
again by `seq` in a weak table, so that `y.grad_fn is y.grad_fn`.
"""

from __future__ import annotations

import itertools
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

PULL, SEQ, EXTRAS, INPUTS, SAVED, META, ATTRS, NAME = range(8)

# In the nodes of ops with several outputs: where their number stands.
OUTPUTS = 8

Node = list
next_seq = itertools.count(1).__next__
next_leaf_seq = itertools.count(-1, -1).__next__

ALREADY_FREED = (
    "Trying to backward through the graph a second time (or directly access saved "
    "tensors after they have already been freed). Saved intermediate values of the "
    "graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if "
    "you need to access saved tensors after calling backward."
)


class _Freed:
    """What stands in `saved` after a backward pass: unpacking it is the error."""

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError(ALREADY_FREED)

    def __repr__(self) -> str:
        return "<freed>"


FREED = _Freed()


class Extras:
    """What few nodes have.

    Attributes:
        tensor_hooks: id -> function of the cotangent of the output.
        node_prehooks: id -> function of the tuple of output cotangents.
        node_hooks: id -> function of (input cotangents, output cotangents).
        accumulate_hooks: id -> function of the leaf, after accumulation.
        retain: weak reference to the tensor whose `.grad` is wanted.
        metadata: the dict that `grad_fn.metadata` is.
        masks: whether zeros of the cotangent are meant as "not taken", so that an
            infinite slope further back gives 0 there, not nan.
        packed: whether `saved` holds what `saved_tensors_hooks` packed.
        place: the user's frames and the name of the result, if they were noted.
        written: the dtype of the memory that the result was written to, if it differs.
        watched: arrays that the rule does not read but PyTorch saves, each with the
            node that made it: changed in place, they are an error.
    """

    __slots__ = (
        "accumulate_hooks",
        "masks",
        "metadata",
        "node_hooks",
        "node_prehooks",
        "packed",
        "place",
        "retain",
        "tensor_hooks",
        "watched",
        "written",
    )

    def __init__(self) -> None:
        self.tensor_hooks: dict[int, Callable] = {}
        self.node_prehooks: dict[int, Callable] = {}
        self.node_hooks: dict[int, Callable] = {}
        self.accumulate_hooks: dict[int, Callable] = {}
        self.retain: Any = None
        self.metadata: dict[Any, Any] = {}
        self.masks = False
        self.packed = False
        self.place: Any = None
        self.written: Any = None
        self.watched: tuple[tuple[np.ndarray, Node | None], ...] = ()


def extras_of(node: Node) -> Extras:
    """The extras of a node, made if there are none."""
    if node[EXTRAS] is None:
        node[EXTRAS] = Extras()
    return node[EXTRAS]


def name_of(node: Node) -> str:
    """The name of the `grad_fn`, such as `MulBackward0`."""
    title = node[NAME] or node[PULL].title
    return title if isinstance(title, str) else title(node)


def short_name(node: Node) -> str:
    """The name as it stands in messages: `Mul` for `MulBackward0`, `Pow1`."""
    if node[PULL] is pull_output:
        node = node[INPUTS][0]
    return re.sub(r"Backward0?(\d*)$", r"\1", name_of(node))


def kept(x: Any) -> Any:
    """A constant as nodes keep it: a number, or an array by a weak reference."""
    if type(x) is not np.ndarray or not x.ndim:
        return x
    return weakref.ref(x)


def constants_of(node: Node) -> tuple:
    """What each input without history was, as `kept` gave it; None for the others."""
    inputs = node[INPUTS]
    constants = node[-1] if len(node) > OUTPUTS else None
    if type(constants) is tuple:
        return constants
    return tuple([constants if source is None else None for source in inputs])


def is_leaf_node(node: Node) -> bool:
    """Whether the node accumulates into a leaf."""
    return node[SEQ] < 0


# ------------------------------------------------------------------ what users see
_handle_ids = itertools.count()


class RemovableHandle:
    """What registering a hook returns; `remove()`, or leaving a `with`, undoes it."""

    __module__ = "torch.utils.hooks"

    def __init__(self, hooks: dict[int, Callable], hook: Callable) -> None:
        self.id = next(_handle_ids)
        self._hooks = hooks
        hooks[self.id] = hook

    def remove(self) -> None:
        """Take the hook away; a second time does nothing."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class GradFn:
    """The function object that `tensor.grad_fn` shows."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def __repr__(self) -> str:
        module = getattr(self._node[PULL], "module", "")
        return f"<{module}{type(self).__name__} object at {hex(id(self))}>"

    def __getattr__(self, name: str) -> Any:
        # What a function shows beside: `_saved_self`, the context of a `Function`.
        show = getattr(self._node[PULL], "attribute", None)
        if show is not None and not name.startswith("__"):
            return show(self._node, name)
        raise AttributeError(
            f"'{type(self).__name__}' object has no attribute '{name}'"
        )

    def name(self) -> str:
        """`MulBackward0` and the like."""
        return namespaced(name_of(self._node))

    @property
    def next_functions(self) -> tuple[tuple[GradFn | None, int], ...]:
        """The functions that this one hands cotangents to, and which output each is."""
        found = []
        for node in self._node[INPUTS]:
            number = 0
            if node is not None and node[PULL] is pull_output:
                number, node = node[ATTRS], node[INPUTS][0]
            found.append((None if node is None else wrapper_of(node), number))
        return tuple(found)

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict to keep things in."""
        return extras_of(self._node).metadata

    @property
    def variable(self) -> Any:
        """The leaf of an `AccumulateGrad`."""
        if not is_leaf_node(self._node):
            raise AttributeError(
                f"'{type(self).__name__}' object has no attribute 'variable'"
            )
        return self._node[ATTRS]()

    def register_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(grad_inputs, grad_outputs)` after the function has run."""
        return RemovableHandle(extras_of(self._node).node_hooks, hook)

    def register_prehook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(grad_outputs)` before the function runs."""
        return RemovableHandle(extras_of(self._node).node_prehooks, hook)

    def _sequence_nr(self) -> int:
        return self._node[SEQ] if self._node[SEQ] > 0 else 2**64 - 1


_NAMESPACED = {"AccumulateGrad", "CopySlices", "CopyBackwards", "Error"}


def namespaced(name: str) -> str:
    """A name with the namespace that PyTorch's own nodes have, those of no formula."""
    return f"torch::autograd::{name}" if name in _NAMESPACED else name


_classes: dict[str, type] = {}
_wrappers: weakref.WeakValueDictionary[int, GradFn] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def wrapper_of(node: Node) -> GradFn:
    """The wrapper of a node: the same one as long as somebody holds it."""
    if node[PULL] is pull_output:
        node = node[INPUTS][0]
    with _lock:
        found = _wrappers.get(node[SEQ])
        if found is None:
            name = name_of(node)
            cls = _classes.get(name)
            if cls is None:
                cls = _classes[name] = type(name, (GradFn,), {"__module__": "torch"})
                cls.__qualname__ = name
            found = _wrappers[node[SEQ]] = cls(node)
    return found


# ------------------------------------------------------- one of several outputs
def pull_output(node: Node, ct: Any, grads: dict) -> None:
    """Hand the cotangent of one output to the node of an op with several.

    `attrs` is the number of the output; `grads` of the op's node holds a dict of them.
    """
    grads.setdefault(node[INPUTS][0][SEQ], {})[node[ATTRS]] = ct


pull_output.graph = pull_output  # type: ignore[attr-defined]
pull_output.title = "output"  # type: ignore[attr-defined]
