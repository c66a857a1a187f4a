"""From a call to the user's parameters, each with the tree of its argument.

Leaves of a tree are arrays, NumPy scalars and Python numbers; all else is static: it
belongs to what is compiled, and a call with another value is compiled anew.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import optree

from tracegrad.errors import ArgumentError, DTypeError, LeakedTracerError
from tracegrad.ir.location import Location
from tracegrad.ir.tree import Branch, Leaf, Static, Tree, build, leaves, restore
from tracegrad.runtime.definition import annotations_of, location_of
from tracegrad.runtime.spec import Spec
from tracegrad.trace.tracer import is_traced

NUMERIC = "biufc"
_INT64 = range(-(2**63), 2**63)
_P = inspect.Parameter


@dataclass(slots=True)
class Raw:
    """A leaf of one call.

    Attributes:
        data: the array or number, or a `Spec`.
        kind: "array", "scalar" (NumPy's), "float", "complex", "int" or "spec".
        where: how the user would write it: `params["w1"]`.
        hint: a short name.
    """

    data: Any
    kind: str
    where: str
    hint: str | None

    @property
    def countable(self) -> bool:
        """Whether it may count or choose: an integer or boolean scalar.

        It is static until its second value, so that `range(n)` and `x[n]` just work.
        """
        if self.kind == "scalar":
            return self.data.dtype.kind in "iub"
        return self.kind == "int"

    @property
    def key(self) -> Any:
        """What must agree between calls that may share a program, sizes aside."""
        if self.kind == "array":
            return (type(self.data), self.data.dtype, self.data.ndim)
        return self.data if self.kind == "spec" else type(self.data)


@dataclass(slots=True)
class Bound:
    """One parameter of one call; `*args` and `**kwargs` are given one by one.

    Attributes:
        name: as in `ir.routine.Parameter`.
        kind: of `inspect.Parameter`.
        argument: what was passed.
        tree: its tree; leaves hold `Raw`s.
        where: how the user would write it: `args[0]`.
        default: the default, or `inspect.Parameter.empty`.
        annotation: source text of the annotation, or None.
        given: False if the default was taken.
        keyword: the name to pass it by, None if it is passed by position.
    """

    name: str
    kind: Any
    argument: Any
    tree: Tree
    where: str
    default: Any = _P.empty
    annotation: str | None = None
    given: bool = True
    keyword: str | None = None

    @property
    def positional(self) -> bool:
        """Whether `argnums` can name it."""
        return self.keyword is None


@dataclass(slots=True)
class Call:
    """The arguments of one call.

    Attributes:
        parameters: in the user's order.
        raws: all leaves, in order.
        key: hashable; equal for calls that may share a program, sizes and Python ints
            aside.
    """

    parameters: list[Bound]
    raws: list[Raw] = field(init=False)
    key: Any = field(init=False)

    def __post_init__(self) -> None:
        self.raws = [leaf.value for p in self.parameters for leaf in leaves(p.tree)]
        self.key = tuple([(p.name, _tree_key(p.tree)) for p in self.parameters])

    def arguments(self, trees: list[Tree], function: Callable[[Any], Any]) -> tuple:
        """`(args, kwargs)` with `function` applied to the leaves of `trees`."""
        args, kwargs = [], {}
        for parameter, tree in zip(self.parameters, trees, strict=True):
            if parameter.keyword is None:
                args.append(restore(tree, function))
            else:
                kwargs[parameter.keyword] = restore(tree, function)
        return tuple(args), kwargs

    def plain(self) -> tuple:
        """`(args, kwargs)` of the call, converted to what programs take."""
        trees = [p.tree for p in self.parameters]
        return self.arguments(trees, lambda raw: raw.data)

    @property
    def has_specs(self) -> bool:
        """Whether there are only types for some leaves."""
        return any(raw.kind == "spec" for raw in self.raws)


class Binder:
    """Binds calls to the signature of one function.

    Attributes:
        function: the user's function.
        name: its name, an identifier.
        signature: its signature; `(*args, **kwargs)` where there is none to be had.
        foreign: whether arrays of JAX are leaves.
    """

    def __init__(self, function: Callable, foreign: bool = False) -> None:
        self.function = function
        self.name = _name_of(function)
        self.signature = signature_of(function)
        self.foreign = foreign

    @functools.cached_property
    def at(self) -> Location | None:
        """Where the function starts; found when it is first asked for, as its file
        must be parsed for that."""
        return location_of(self.function)

    @functools.cached_property
    def _annotations(self) -> dict[str, str]:
        return annotations_of(self.function)

    def bind(self, args: tuple, kwargs: dict) -> Call:
        """The parameters of a call, leaves told from static values.

        Raises:
            ArgumentError: the arguments do not fit the signature, or one of them can
                neither be traced nor be static.
        """
        self._refresh()
        slots = self.slots(args, kwargs)
        for slot in slots:
            tree = build(slot.argument, Leaf)
            try:
                slot.tree = self._classified(tree, slot.where, slot.name)
            except ArgumentError:
                if slot.given:
                    raise
                # The user's own default, which no call changes, stays as it is.
        return Call(slots)

    def _refresh(self) -> None:
        """Take note of defaults that were bound anew: `f.__defaults__ = …`."""
        found = signature_of(self.function)
        pairs = zip(
            found.parameters.values(), self.signature.parameters.values(), strict=False
        )
        if any(a.default is not b.default for a, b in pairs):
            self.signature = found

    def slots(self, args: tuple, kwargs: dict) -> list[Bound]:
        """The parameters of a call, each argument a `Static` as it is.

        Raises:
            ArgumentError: the arguments do not fit the signature.
        """
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(
                f"{self.name}() cannot be called so: {error}",
                at=self.at,
                fix=f"call it as {self.name}{self.signature_text()}",
            ) from None
        made: list[Bound] = []
        for p in self.signature.parameters.values():
            given = p.name in bound.arguments
            x = bound.arguments.get(p.name, p.default)
            if p.kind is _P.VAR_POSITIONAL:
                for i, part in enumerate(x if given else ()):
                    where = f"{p.name}[{i}]"
                    made.append(self._slot(p, part, f"{p.name}_{i}", where))
            elif p.kind is _P.VAR_KEYWORD:
                for key, part in (x if given else {}).items():
                    made.append(self._slot(p, part, key, key, keyword=key))
            else:
                keyword = p.name if p.kind is _P.KEYWORD_ONLY else None
                made.append(self._slot(p, x, p.name, p.name, keyword, given))
        return made

    def _slot(
        self,
        p: inspect.Parameter,
        x: Any,
        name: str,
        where: str,
        keyword: str | None = None,
        given: bool = True,
    ) -> Bound:
        annotation = self._annotations.get(p.name)
        return Bound(
            name, p.kind, x, Static(x), where, p.default, annotation, given, keyword
        )

    def _classified(self, tree: Tree, where: str, hint: str | None) -> Tree:
        if isinstance(tree, Leaf):
            return self._leaf(tree.value, where, hint)
        if not isinstance(tree, Branch):
            return tree
        children = [
            self._classified(child, where + step_text(tree.kind, key), _hint(hint, key))
            for key, child in zip(tree.keys, tree.children, strict=True)
        ]
        return replace(tree, children=tuple(children))

    def _leaf(self, x: Any, where: str, hint: str | None) -> Leaf | Static:
        cls = type(x)
        if cls is np.ndarray:
            return Leaf(Raw(self._numeric(x, where), "array", where, hint))
        if cls is float or cls is complex:
            return Leaf(Raw(x, cls.__name__, where, hint))
        if cls is int:
            return Leaf(Raw(x, "int", where, hint)) if x in _INT64 else Static(x)
        if isinstance(x, np.generic) and x.dtype.kind in NUMERIC:
            return Leaf(Raw(x, "scalar", where, hint))
        if cls is Spec:
            return Leaf(Raw(x, "spec", where, hint))
        if isinstance(x, np.ndarray):
            plain = self._numeric(_plain_array(x, where), where)
            return Leaf(Raw(plain, "array", where, hint))
        if is_traced(x):
            raise LeakedTracerError(
                f"`{where}` is a traced value whose trace has ended",
                at=self.at,
                fix="return what you need from the traced function",
            )
        if is_jax_array(x) and self.foreign:
            return Leaf(Raw(self._numeric(x, where), "array", where, hint))
        if hasattr(cls, "__array__") and not isinstance(x, type):
            raise ArgumentError(
                f"`{where}` is of type {cls.__module__}.{cls.__qualname__}, "
                "not a NumPy array",
                at=self.at,
                fix=f"pass np.asarray({where})",
            )
        return self._static(x, where)

    def _numeric(self, x: Any, where: str) -> Any:
        if x.dtype.kind in NUMERIC:
            return x
        of_objects = x.dtype.kind == "O"
        raise ArgumentError(
            f"`{where}` is an array of dtype {x.dtype}, not of numbers",
            at=self.at,
            fix=f"pass {where}.astype(float), or a list of arrays"
            if of_objects
            else "pass numbers; keep labels and records outside of the function",
        )

    def _static(self, x: Any, where: str) -> Static:
        try:
            hash(x)
        except TypeError:
            raise ArgumentError(
                f"`{where}` is a {type(x).__name__}, which is neither an array, nor a "
                "container of arrays, nor hashable: an unhashable static argument",
                at=self.at,
                fix="pass a tuple or a frozenset, or register the class with "
                "optree.register_pytree_node",
            ) from None
        return Static(x)

    def signature_text(self) -> str:
        """The signature without annotations, for errors."""
        plain = [
            p.replace(annotation=_P.empty) for p in self.signature.parameters.values()
        ]
        return str(inspect.Signature(plain))


def _name_of(function: Any) -> str:
    """The function's name; that of its class for a callable object."""
    inner = getattr(function, "func", function)  # of a functools.partial
    name = getattr(inner, "__name__", type(inner).__name__)
    return name if name.isidentifier() else "function"


def signature_of(function: Callable) -> inspect.Signature:
    """The signature by which calls are bound.

    A wrapper that only forwards (`*args, **kwargs`) has the signature of what it
    wraps; any other wrapper has its own, whatever `__wrapped__` says.
    """
    general = inspect.Signature(
        [_P("args", _P.VAR_POSITIONAL), _P("kwargs", _P.VAR_KEYWORD)]
    )
    if isinstance(function, np.ufunc):
        return general  # `out` and `where` are no parameters of a derivative
    try:
        own = inspect.signature(function, follow_wrapped=False)
        if any(p.kind is _P.VAR_POSITIONAL for p in own.parameters.values()):
            return inspect.signature(function)
    except (TypeError, ValueError):
        # An object with `__get__`, such as a transformed function, has none of its own.
        inner = getattr(function, "__wrapped__", None)
        return general if inner is None else signature_of(inner)
    return own


def _plain_array(x: np.ndarray, where: str) -> np.ndarray:
    if isinstance(x, np.memmap):
        return np.asarray(x)
    why = "a subclass of np.ndarray, whose own rules tracing cannot see"
    fix = f"pass np.asarray({where})"
    if isinstance(x, np.matrix):
        why = "np.matrix, whose * is a matrix product"
    elif isinstance(x, np.ma.MaskedArray):
        why = "a masked array, whose mask tracing cannot see"
        fix = f"pass {where}.filled(0.0) and the mask as an array of its own"
    raise ArgumentError(f"`{where}` is {why} ({type(x).__name__})", fix=fix)


def is_jax_array(x: Any) -> bool:
    """Whether `x` is an array of JAX, found out without an import."""
    return type(x).__module__.partition(".")[0] in ("jax", "jaxlib") and hasattr(
        x, "dtype"
    )


def step_text(kind: str, key: Any) -> str:
    """One step of a path as the user would write it."""
    return f".{key}" if kind in ("namedtuple", "dataclass") else f"[{key!r}]"


def _hint(above: str | None, key: Any) -> str | None:
    if isinstance(key, str) and key.isidentifier():
        return key
    return f"{above}_{key}" if type(key) is int and above else above


def static_key(x: Any) -> Any:
    """A key of a static value: 1, 1.0 and True have three keys."""
    if type(x) in (tuple, frozenset):
        return type(x), type(x)(map(static_key, x))
    return type(x), repr(x) if type(x) in (float, complex) else x


def _tree_key(tree: Tree) -> Any:
    if isinstance(tree, Leaf):
        return tree.value.key
    if isinstance(tree, Static):
        try:
            hash(tree.value)
        except TypeError:  # a default of the user's
            return type(tree.value), id(tree.value)
        return static_key(tree.value)
    keys = tuple(map(static_key, tree.keys))
    inner = tuple(map(_tree_key, tree.children))
    # What a registered class keeps beside its children, metadata, is in its treespec.
    more = (
        optree.tree_structure(restore(tree, id), none_is_leaf=True)
        if tree.kind == "custom"
        else None
    )
    return tree.kind, tree.type, keys, inner, more


# ------------------------------------------------------------- what is differentiated
def resolve(
    parameters: Sequence[Bound],
    argnums: int | tuple[int, ...],
    argnames: str | tuple[str, ...] | None,
    binder: Binder,
) -> tuple[list[int], bool]:
    """The parameters to differentiate: their positions in the call, and if it is one.

    Raises:
        ArgumentError: the call has no such argument.
    """
    if argnames is not None:
        names = [p.name for p in parameters]
        wanted = [argnames] if isinstance(argnames, str) else list(argnames)
        for name in wanted:
            if name not in names:
                raise ArgumentError(
                    f"argnames names {name!r}, but {binder.name}() has the arguments "
                    + ", ".join(names),
                    at=binder.at,
                    fix="name one of them",
                )
        return [names.index(name) for name in wanted], isinstance(argnames, str)
    positions = [i for i, p in enumerate(parameters) if p.positional]
    given = [i for i in positions if parameters[i].given]
    one = isinstance(argnums, int)
    found = []
    for n in (argnums,) if isinstance(argnums, int) else argnums:
        among = given if n < 0 else positions
        if not -len(among) <= n < len(among):
            raise ArgumentError(
                f"argnums={argnums} is out of range: {binder.name}() was called with "
                f"{len(given)} positional argument{'s' * (len(given) != 1)}",
                at=binder.at,
                fix="count from 0; name a keyword argument with argnames",
            )
        found.append(among[n])
    return found, one


# They differentiate all arguments, and pass integers and flags over.
OF_ALL = ("tg.vjp", "tg.linearize")


def check_differentiable(call: Call, wrt: list[int], binder: Binder, op: str) -> None:
    """Every leaf of the arguments `wrt` must be a real or complex float.

    Of `OF_ALL` it may be an integer or a flag too, beside a float.

    Raises:
        DTypeError: an integer or a boolean.
        ArgumentError: a string, a flag, a function.
    """
    every = [call.parameters[i] for i in wrt]
    passed = op in OF_ALL and any(
        isinstance(part, Leaf) and _dtype(part.value).kind in "fc"
        for parameter in every
        for _, part in walk(parameter.tree, parameter.where)
    )
    for parameter in every:
        for where, part in walk(parameter.tree, parameter.where):
            if isinstance(part, Leaf):
                raw = part.value
                dtype = _dtype(raw)
                if dtype.kind in "fc" or (passed and dtype.kind in "biu"):
                    continue
                shape = "" if np.ndim(raw.data) == 0 else " array"
                raise DTypeError(
                    f"`{where}` is differentiated but has the integer type {dtype}"
                    if dtype.kind in "iu"
                    else f"`{where}` is differentiated but has the type {dtype}",
                    op=op,
                    at=binder.at,
                    fix=f"pass a float{shape}: {_as_float(raw, where)}",
                )
            if passed and type(part.value) in (bool, int):
                continue
            if part.value is not None:
                raise _not_an_array(part.value, where, op, binder)


def _dtype(raw: Raw) -> np.dtype:
    return raw.data.type.dtype if raw.kind == "spec" else np.asarray(raw.data).dtype


def _as_float(raw: Raw, where: str) -> str:
    return f"float({where})" if raw.kind == "int" else f"{where}.astype(float)"


def _not_an_array(x: Any, where: str, op: str, binder: Binder) -> Exception:
    cls = DTypeError if isinstance(x, int) else ArgumentError
    return cls(
        f"`{where}` is differentiated but is of type {type(x).__name__}: {x!r:.40}",
        op=op,
        at=binder.at,
        fix=chosen_otherwise(where, op),
    )


def chosen_otherwise(where: str, op: str) -> str:
    """How to differentiate by something else."""
    if op in OF_ALL:
        return f"let the function close over it: {op}(lambda x: f(x, {where}), x)"
    return "differentiate arrays and floats only: choose them with argnums"


def walk(tree: Tree, where: str) -> Iterator[tuple[str, Leaf | Static]]:
    """Each leaf and static part with its path as the user would write it."""
    if isinstance(tree, Branch):
        for key, child in zip(tree.keys, tree.children, strict=True):
            yield from walk(child, where + step_text(tree.kind, key))
    else:
        yield where, tree
