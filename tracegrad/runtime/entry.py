"""The guard in front of a compiled program, generated for its types.

A guard has the user's signature, so Python binds the call.  It tests exact types,
dtypes, shapes, keys and static values in the order of the arguments, then calls the
program; at the first difference it returns `MISS`.  For eight arrays that costs a
little more than a microsecond, where flattening a pytree costs eight.
"""

from __future__ import annotations

import ast
import enum
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import optree

from tracegrad.ir.dims import Dim, to_ast
from tracegrad.ir.graph import Value
from tracegrad.ir.routine import Parameter
from tracegrad.ir.tree import Branch, Leaf, Static, Tree
from tracegrad.runtime.binding import static_key
from tracegrad.trace.session import SizeFact


class _Miss:
    """The type of `MISS`."""

    def __repr__(self) -> str:
        return "MISS"


MISS = _Miss()

_P = inspect.Parameter
# Types whose `==` says all, once the types are known to be equal.
_PLAIN = (str, bytes, int, np.dtype)
_BY_IDENTITY = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)


class _Writer:
    """Collects the statements of one guard."""

    def __init__(self, taken: set[str]) -> None:
        self.prefix = "_"
        while any(name.startswith(self.prefix) for name in taken):
            self.prefix += "_"
        self.lines: list[str] = []
        self.namespace: dict[str, Any] = {}
        self._names: dict[int, str] = {}
        self._misses: list[str] = []
        self._count = 0
        self.sizes: dict[str, str] = {}

    def constant(self, x: Any) -> str:
        """The global name of an object; values are never pasted into the text."""
        name = self._names.get(id(x))
        if name is None:
            name = self._names[id(x)] = f"{self.prefix}k{len(self._names)}"
            self.namespace[name] = x  # which keeps it alive, and so its id
        return name

    def local(self) -> str:
        """A new local name."""
        self._count += 1
        return f"{self.prefix}{self._count}"

    def miss_if(self, test: str) -> None:
        """The guard misses where `test` is true."""
        self._misses.append(test)

    def assign(self, targets: str, value: str) -> None:
        """A statement that may rely on all tests before it."""
        self.flush()
        self.lines.append(f"    {targets} = {value}")

    def flush(self) -> None:
        """Write the tests that wait, as one statement."""
        if self._misses:
            self.lines.append(f"    if {' or '.join(self._misses)}:")
            self.lines.append(f"        return {self.constant(MISS)}")
            self._misses.clear()


def make_guard(
    name: str,
    signature: inspect.Signature,
    parameters: Sequence[Parameter],
    examples: Mapping[Value, Any],
    facts: Sequence[SizeFact] = (),
    guards: Sequence[Callable[[], bool]] = (),
    run: Callable | None = None,
) -> Callable:
    """A guard that calls `run` where the arguments fit, else returns `MISS`.

    Args:
        name: of the user's function, for Python's own messages.
        signature: the user's.
        parameters: trees whose leaves are values; their types say what is tested.
        examples: a leaf's data in some call, whose exact type and dtype are tested.
        facts: relations of the sizes.
        guards: further conditions, asked last.
        run: the program, with the user's signature; None for a guard that only says
            True.
    """
    writer = _Writer(set(signature.parameters))
    by_name = {p.name: p for p in parameters}
    for p in signature.parameters.values():
        if p.kind is _P.VAR_POSITIONAL:
            _var_positional(writer, p.name, parameters, examples)
        elif p.kind is _P.VAR_KEYWORD:
            _var_keyword(writer, p.name, parameters, examples)
        else:
            _visit(writer, by_name[p.name].tree, p.name, examples)
    for fact in facts:
        _fact(writer, fact)
    for guard in guards:
        writer.miss_if(f"not {writer.constant(guard)}()")
    writer.flush()
    head, arguments = _signature(writer, signature)
    last = "True" if run is None else f"{writer.constant(run)}({arguments})"
    text = "\n".join([f"def {name}({head}):", *writer.lines, f"    return {last}", ""])
    namespace = writer.namespace
    exec(compile(text, f"<tracegrad guard of {name}>", "exec"), namespace)
    return namespace[name]


def _signature(writer: _Writer, signature: inspect.Signature) -> tuple[str, str]:
    """The parameters of the guard, and the arguments that it passes on."""
    head: list[str] = []
    arguments: list[str] = []
    kinds = [p.kind for p in signature.parameters.values()]
    for i, p in enumerate(signature.parameters.values()):
        default = "" if p.default is _P.empty else f"={writer.constant(p.default)}"
        if p.kind is _P.VAR_POSITIONAL:
            head.append(f"*{p.name}")
            arguments.append(f"*{p.name}")
        elif p.kind is _P.VAR_KEYWORD:
            head.append(f"**{p.name}")
            arguments.append(f"**{p.name}")
        elif p.kind is _P.KEYWORD_ONLY:
            if _P.VAR_POSITIONAL not in kinds and kinds.index(_P.KEYWORD_ONLY) == i:
                head.append("*")
            head.append(p.name + default)
            arguments.append(f"{p.name}={p.name}")
        else:
            head.append(p.name + default)
            arguments.append(p.name)
            if (
                p.kind is _P.POSITIONAL_ONLY
                and _P.POSITIONAL_ONLY not in kinds[i + 1 :]
            ):
                head.append("/")
    return ", ".join(head), ", ".join(arguments)


def _var_positional(
    writer: _Writer, name: str, parameters: Sequence[Parameter], examples: Mapping
) -> None:
    parts = [p.tree for p in parameters if p.kind is _P.VAR_POSITIONAL]
    writer.miss_if(f"len({name}) != {len(parts)}")
    _unpack(writer, parts, name, examples)


def _var_keyword(
    writer: _Writer, name: str, parameters: Sequence[Parameter], examples: Mapping
) -> None:
    parts = {p.name: p.tree for p in parameters if p.kind is _P.VAR_KEYWORD}
    writer.miss_if(f"len({name}) != {len(parts)}")
    for key in parts:
        writer.miss_if(f"{writer.constant(key)} not in {name}")
    for key, tree in parts.items():
        local = writer.local()
        writer.assign(local, f"{name}[{writer.constant(key)}]")
        _visit(writer, tree, local, examples)


def _unpack(
    writer: _Writer, parts: Sequence[Tree], sequence: str, examples: Mapping
) -> None:
    """Names for the parts of a sequence whose length was tested, then their tests."""
    names = [writer.local() for _ in parts]
    if names:
        writer.assign("".join(f"{n}, " for n in names).rstrip(), sequence)
    for name, part in zip(names, parts, strict=True):
        _visit(writer, part, name, examples)


def _visit(writer: _Writer, tree: Tree, name: str, examples: Mapping) -> None:
    if isinstance(tree, Leaf):
        _leaf(writer, tree.value, name, examples[tree.value])
    elif isinstance(tree, Static):
        _static(writer, tree.value, name)
    else:
        _branch(writer, tree, name, examples)


def _leaf(writer: _Writer, value: Value, name: str, example: Any) -> None:
    writer.miss_if(f"type({name}) is not {writer.constant(type(example))}")
    if not hasattr(example, "ndim") or isinstance(example, np.generic):
        return
    # By `!=`: equal dtypes need not be one object (unpickled arrays, `longlong`).
    writer.miss_if(f"{name}.dtype != {writer.constant(example.dtype)}")
    shape = value.type.shape
    if not any(isinstance(size, Dim) for size in shape):
        writer.miss_if(f"{name}.shape != {shape!r}")
        return
    writer.miss_if(f"{name}.ndim != {len(shape)}")
    sizes = [writer.local() for _ in shape]
    writer.assign("".join(f"{s}, " for s in sizes).rstrip(), f"{name}.shape")
    for local, size in zip(sizes, shape, strict=True):
        known = writer.sizes.get(str(size))
        if not isinstance(size, Dim):
            writer.miss_if(f"{local} != {size}")
        elif known is not None:
            writer.miss_if(f"{local} != {known}")
        else:
            writer.sizes[str(size)] = local
            writer.miss_if(f"{local} < 2")


def _static(writer: _Writer, x: Any, name: str) -> None:
    cls = type(x)
    constant = writer.constant(x)
    if x is None or cls in (bool, *_BY_IDENTITY) or isinstance(x, enum.Enum):
        writer.miss_if(f"{name} is not {constant}")
    elif cls in _PLAIN:
        writer.miss_if(f"type({name}) is not {writer.constant(cls)}")
        writer.miss_if(f"{name} != {constant}")
    elif cls.__eq__ is object.__eq__ or cls.__hash__ is None:
        writer.miss_if(f"{name} is not {constant}")
    else:  # 1 == 1.0 == True, also inside: so by key
        writer.miss_if(f"type({name}) is not {writer.constant(cls)}")
        key = writer.constant(static_key(x))
        writer.miss_if(f"{writer.constant(static_key)}({name}) != {key}")


def _branch(writer: _Writer, tree: Branch, name: str, examples: Mapping) -> None:
    writer.miss_if(f"type({name}) is not {writer.constant(tree.type)}")
    if tree.kind == "dict":
        keys = list(tree.keys)
        # In order: a function may walk over a dict.
        writer.miss_if(f"[*{name}] != {writer.constant(keys)}")
        if not all(type(key) is str for key in keys):
            wanted = writer.constant([type(key) for key in keys])
            writer.miss_if(f"[type(k) for k in {name}] != {wanted}")
        for key, child in zip(keys, tree.children, strict=True):
            local = writer.local()
            writer.assign(local, f"{name}[{writer.constant(key)}]")
            _visit(writer, child, local, examples)
    elif tree.kind == "dataclass":
        for key, child in zip(tree.keys, tree.children, strict=True):
            local = writer.local()
            writer.assign(local, f"{name}.{key}")
            _visit(writer, child, local, examples)
    elif tree.kind == "custom":
        parts, matches = _flattened(tree)
        local = writer.local()
        writer.assign(local, f"{writer.constant(parts)}({name})")
        writer.miss_if(f"not {writer.constant(matches)}({local})")
        _unpack(writer, tree.children, f"{local}[0]", examples)
    else:
        writer.miss_if(f"len({name}) != {len(tree.children)}")
        _unpack(writer, tree.children, name, examples)


def _flattened(tree: Branch) -> tuple[Callable, Callable]:
    """For a registered class: how to take it apart, and if the parts are as before."""
    # A container of the same class, to ask for its metadata.
    example = tree.rebuild([0 for _ in tree.children])
    _, data, keys, _ = optree.tree_flatten_one_level(example, none_is_leaf=True)
    wanted = len(tree.children), data, tuple(keys)

    def parts(x: Any) -> tuple:
        return optree.tree_flatten_one_level(x, none_is_leaf=True)[:3]

    def matches(found: tuple) -> bool:
        return (len(found[0]), found[1], tuple(found[2])) == wanted

    return parts, matches


def _fact(writer: _Writer, fact: SizeFact) -> None:
    def lookup(name: str) -> ast.expr:
        return ast.Name(writer.sizes[name], ast.Load())

    left, right = (ast.unparse(to_ast(s, lookup)) for s in (fact.left, fact.right))
    test = f"{left} {fact.relation} {right}"
    writer.miss_if(f"not ({test})" if fact.outcome else f"({test})")
