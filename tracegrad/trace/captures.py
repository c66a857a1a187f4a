"""What a function can read besides its arguments: globals, cells, attributes.

Found by the names in the code objects, which is a superset of what is read: a global or
a cell that a code object names, and an attribute of a reachable object of the user's
whose name occurs in some reachable code.
"""

from __future__ import annotations

import array
import collections
import dis
import functools
import inspect
import random
from collections.abc import Callable, Iterator
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from tracegrad.trace.deciding import (
    counted_in,
    deciding_in,
    identities,
    only_calls_type,
    used_in,
)
from tracegrad.trace.frames import is_users, of_package
from tracegrad.trace.interpose import CACHED, original_of

SCALARS = (bool, int, float, complex, str, bytes, type(None))
GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)
MAPPINGS = (dict, MappingProxyType, collections.ChainMap)
RAW = (array.array, bytearray)
CONTAINERS = (list, tuple, set, frozenset, collections.deque, *MAPPINGS, *RAW)
_FUNCTIONS = (FunctionType, BuiltinFunctionType, np.ufunc, type(np.sum), type)
_MAX_READS = 2000
_MAX_OBJECTS = 4000  # each is looked at again for each name that is found later
_SMALL = 1024  # bytes of an array that is compared


class Read:
    """One thing that a function can read.

    Attributes:
        where: the dict, cell or object that it is read from.
        kind: "global", "cell", "attribute", "method" (the function behind it),
            "cached" (one of a class, under `functools.lru_cache`) or "absent" (an
            attribute that is asked for and is not there).
        name: the key or attribute name.
        value: what was there when the scan was made.
    """

    __slots__ = ("kind", "name", "value", "where")

    def __init__(self, kind: str, where: Any, name: str, value: Any) -> None:
        self.kind = kind
        self.where = where
        self.name = name
        self.value = value

    def now(self) -> Any:
        """What is there now; `MISSING` if nothing is."""
        try:
            if self.kind == "global":
                return original_of(self.where[self.name])
            if self.kind == "cell":
                return original_of(self.where.cell_contents)
            if self.kind == "method":
                return getattr(self.where, self.name).__func__
            return original_of(getattr(self.where, self.name))
        except (KeyError, ValueError, AttributeError):
            return MISSING


MISSING = object()


_GLOBALS: dict[int, tuple[CodeType, tuple[str, ...]]] = {}
_LOADS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}


def globals_of(code: CodeType) -> tuple[str, ...]:
    """The globals that a code object reads; `co_names` has its attributes too."""
    found = _GLOBALS.get(id(code))
    if found is None:
        names = {i.argval for i in dis.get_instructions(code) if i.opname in _LOADS}
        found = (code, tuple(sorted(names)))
        _GLOBALS[id(code)] = found
    return found[1]


def _only_called(code: CodeType, name: str) -> bool:
    """Whether each read of a global is the start of a call: `float(x)`."""
    return all(
        i.arg is not None and i.arg & 1
        for i in dis.get_instructions(code)
        if i.opname == "LOAD_GLOBAL" and i.argval == name
    )


class Captures:
    """The reads of a function and of all the user's functions that it can reach.

    Attributes:
        reads: in order of discovery.
        arrays: id -> (name, array) of the arrays among them, those in containers too.
        generators: random generators among them.
        rows: id of each array that a row was read of.
        libraries: modules of others in cells, which are not guarded.
        identities: whether some code compares by identity, see `deciding.py`.
    """

    def __init__(self) -> None:
        self.reads: dict[tuple[int, str], Read] = {}
        self.arrays: dict[int, tuple[str, np.ndarray]] = {}
        self.generators: dict[int, Any] = {}
        self.names: set[str] = set()
        self.rows: set[int] = set()
        self.identities = False
        self._sharing: tuple[int, dict[int, list[np.ndarray]]] = 0, {}
        self.asked: set[str] = set()  # of these, the ones that need not be there
        self.libraries: list[Read] = []
        self._codes: dict[int, tuple[CodeType, dict[str, Any]]] = {}
        self._functions: dict[int, Any] = {}
        self._objects: dict[int, Any] = {}
        self._keep: list[Any] = []

    def add(self, root: Any, name: str = "") -> None:
        """Add what `root` (a function, or an object given as an argument) can reach."""
        self._enter(root, name)
        self._settle()

    def add_code(self, code: CodeType, space: dict[str, Any]) -> None:
        """Add a code object that was met while tracing."""
        if id(code) not in self._codes:
            self._code(code, space)
            self._settle()

    def has_code(self, code: CodeType) -> bool:
        """Whether a code object was scanned."""
        return id(code) in self._codes

    def deciders(self) -> Iterator[tuple[np.ndarray, bool]]:
        """Captured arrays whose content may decide what the function does.

        Each with whether its name stands in a test itself, not by way of others.
        """
        directly: set[str] = set()
        through: set[str] = set()
        for code, space in self._codes.values():
            found = deciding_in(code, space)
            directly |= found.directly
            through |= found.through
        for read in self.reads.values():
            if read.name in directly or read.name in through:
                for x in _arrays_in(read.value):
                    yield x, read.name in directly

    def asks_environment(self) -> bool:
        """Whether the user's code reads environment variables."""
        return any(
            not _ENVIRONMENT.isdisjoint(code.co_names)
            for code, _ in self._codes.values()
            if not of_package(code.co_filename)
        )

    def counted(self) -> set[str]:
        """The names of containers whose whole content reachable code asks for."""
        return set().union(*[counted_in(c, s) for c, s in self._codes.values()])

    def used(self) -> set[str]:
        """The names that reachable code reads for more than to count its calls."""
        return set().union(*[used_in(c, s) for c, s in self._codes.values()])

    def only_called(self, name: str) -> bool:
        """Whether a builtin is named in reachable code, and nothing but called there.

        A stand-in would not do in `type(x) is float` or `dtype=float`.
        """
        codes = [c for c, _ in self._codes.values() if name in globals_of(c)]
        return bool(codes) and all(_only_called(code, name) for code in codes)

    def spaces_naming(self, name: str) -> list[dict[str, Any]]:
        """The globals of the functions that name a builtin.

        For `type` those alone where a stand-in does as well.
        """
        found: dict[int, dict[str, Any]] = {}
        refused: set[int] = set()
        for code, space in self._codes.values():
            if name in globals_of(code):
                found[id(space)] = space
                if name == "type" and not only_calls_type(code.co_filename, space):
                    refused.add(id(space))
        return [space for key, space in found.items() if key not in refused]

    def find_array(self, x: np.ndarray) -> tuple[str, np.ndarray] | None:
        """The name of an array in reach; also one under a name that no code spells.

        (`getattr(self, "w" + str(i))`)
        """
        found = self.arrays.get(id(x))
        if found is not None:
            return found
        for obj in list(self._objects.values()):
            for name, value in _instance_dict(obj).items():
                if value is x and type(obj) is not ModuleType:
                    self._read("attribute", obj, name, value)
                    return self.arrays.get(id(x))
        return None

    def base_of(self, x: np.ndarray) -> np.ndarray | None:
        """The captured array whose memory `x` is, which is then no copy of it."""
        base: Any = x
        while isinstance(base, np.ndarray):
            if id(base) in self.arrays:
                return base
            base = base.base
        return None

    def row(self, x: Any) -> tuple[np.ndarray, int] | None:
        """The captured array and the index where `x` is a row of floats: `base[t]`.

        Recorded so, the rows that a loop reads are one slice.  Rows of ints are none:
        they may be indices, which are better constants.
        """
        if type(x) is not np.ndarray or x.base is None or not x.ndim or not x.size:
            return None
        if x.dtype.kind not in "fc" or id(x) in self.arrays:
            return None
        if self._sharing[0] != len(self.arrays):
            # By owner: NumPy gives a view of a view the first one's base.
            sharing: dict[int, list[np.ndarray]] = {}
            for _, base in self.arrays.values():
                sharing.setdefault(id(_owner(base)), []).append(base)
            self._sharing = len(self.arrays), sharing
        for base in self._sharing[1].get(id(_owner(x)), ()):
            t = _row_in(base, x)
            if t is not None:
                self.rows.add(id(base))
                return base, t
        return None

    def content(self, x: np.ndarray) -> tuple | None:
        """What is equal for small arrays that are the same; None if they may change."""
        if x.base is not None or x.nbytes > _SMALL or x.dtype.hasobject:
            return None
        if self.find_array(x) is not None:
            return None
        return x.dtype, x.shape, x.strides, x.tobytes()

    def _settle(self) -> None:
        # Code found late may name attributes of objects found early.
        while True:
            before = len(self.reads), len(self.names)
            for obj in list(self._objects.values()):
                self._attributes(obj)
            if (len(self.reads), len(self.names)) == before:
                return

    # ------------------------------------------------------------------------- code
    def _code(self, code: CodeType, space: dict[str, Any]) -> None:
        if id(code) in self._codes:
            return
        self._codes[id(code)] = (code, space)
        self.identities = self.identities or bool(identities(code))
        self.names.update(code.co_names)
        if not _ASKING.isdisjoint(code.co_names):
            texts = {c for c in code.co_consts if type(c) is str and c.isidentifier()}
            self.names |= texts
            self.asked |= texts
        for name in globals_of(code):
            # What a rewriter of code put there (pytest's `@pytest_ar`) is no name of
            # the user's, and leads to all that the rewriter knows.
            if name in space and name.isidentifier():
                self._read("global", space, name, original_of(space[name]))
        for constant in code.co_consts:
            if type(constant) is CodeType:
                self._code(constant, space)

    def _function(self, function: FunctionType) -> None:
        if id(function) in self._functions:
            return
        self._functions[id(function)] = function
        code = function.__code__
        for name, cell in zip(
            code.co_freevars, function.__closure__ or (), strict=True
        ):
            self._cell(cell, name)
        if not is_users(code.co_filename):
            return
        for name in ("__defaults__", "__kwdefaults__"):
            found = getattr(function, name)
            if found:
                self._read("attribute", function, name, found)
        self._code(code, function.__globals__)

    def _cell(self, cell: CellType, name: str) -> None:
        try:
            value = cell.cell_contents
        except ValueError:
            return  # not bound yet
        self._read("cell", cell, name, original_of(value))

    def _read(self, kind: str, where: Any, name: str, value: Any) -> None:
        key = (id(where), name)
        if key in self.reads or len(self.reads) >= _MAX_READS:
            return
        self._keep.append(where)
        if type(value) is ModuleType:
            if _is_users_module(value):
                self._objects[id(value)] = value
            elif kind == "cell":
                self.libraries.append(Read(kind, where, name, value))
            return
        self.reads[key] = Read(kind, where, name, value)
        self._enter(value, name)

    # ----------------------------------------------------------------------- values
    def _enter(self, value: Any, name: str) -> None:
        """Follow a value to what can be reached through it."""
        if type(value) in SCALARS:
            return
        if isinstance(value, np.ndarray) and type(value).__module__ == "numpy":
            self.arrays.setdefault(id(value), (name, value))
        elif isinstance(value, GENERATORS):
            self.generators[id(value)] = value
        elif type(value) is FunctionType:
            self._function(value)
        elif type(value) is MethodType:
            self._enter(value.__self__, "")
            self._enter(value.__func__, "")
        elif isinstance(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self._enter(part, "")
        elif isinstance(value, CONTAINERS):
            if id(value) not in self._objects:
                self._objects[id(value)] = value
                for part_name, part in _parts(value):
                    self._enter(part, part_name)
        elif _is_object(value) and len(self._objects) < _MAX_OBJECTS:
            self._objects.setdefault(id(value), value)
            inner = getattr(value, "__wrapped__", None)
            if inner is not None:
                self._enter(inner, "")

    def _attributes(self, obj: Any) -> None:
        """The attributes of an object whose names occur in reachable code."""
        if isinstance(obj, CONTAINERS):
            return
        if type(obj) is ModuleType:
            for name in sorted(self.names & obj.__dict__.keys()):
                value = original_of(obj.__dict__[name])
                self._read("global", obj.__dict__, name, value)
            self._absent(obj)
            return
        if type(obj).__module__.partition(".")[0] == "tracegrad":
            return
        for name in sorted(self.names & _instance_dict(obj).keys()):
            self._read("attribute", obj, name, original_of(_instance_dict(obj)[name]))
        defined: set[str] = set()
        for cls in obj.__mro__ if isinstance(obj, type) else type(obj).__mro__:
            if cls.__module__ in ("builtins", "abc", "typing"):
                continue
            found_here = (self.names | {"__call__"}) & vars(cls).keys()
            for name in sorted(found_here - defined):
                self._class_attribute(obj, name, vars(cls)[name])
            defined |= found_here
        self._absent(obj)

    def _class_attribute(self, obj: Any, name: str, found: Any) -> None:
        cls = obj if isinstance(obj, type) else type(obj)
        for function in _functions_of(found):
            self._enter(function, name)
        if type(found) in SCALARS or isinstance(found, np.ndarray):
            # Read from the object, which may get an attribute of its own.
            self._read("attribute", obj, name, found)
        elif type(found) is MemberDescriptorType and cls is not obj:
            value = getattr(obj, name, MISSING)
            if value is not MISSING:
                self._read("attribute", obj, name, original_of(value))
            elif name in self.asked:
                self._read("absent", obj, name, MISSING)
        elif type(found) is FunctionType:
            if cls is obj or name.startswith("__"):
                self._read("attribute", cls, name, found)
            else:
                self._read("method", obj, name, found)
        elif type(found) is CACHED:
            self._enter(found.__wrapped__, name)
            owners = [c for c in cls.__mro__ if vars(c).get(name) is found]
            self._read("cached", owners[0], name, found)
        elif type(found) is staticmethod:
            self._read("attribute", obj, name, found.__func__)
        elif type(found) is classmethod:
            self._read("method", obj, name, found.__func__)
        elif isinstance(found, property | functools.cached_property):
            self._read("attribute", cls, name, found)

    def _absent(self, obj: Any) -> None:
        """What `getattr` and `hasattr` ask for, and an object does not have yet."""
        if not self.asked or hasattr(type(obj), "__getattr__"):
            return
        for name in sorted(self.asked):
            if inspect.getattr_static(obj, name, MISSING) is MISSING:
                self._read("absent", obj, name, MISSING)


def _owner(x: np.ndarray) -> np.ndarray:
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x


def _row_in(base: np.ndarray, x: np.ndarray) -> int | None:
    """The index with which `base[t]` is the memory of `x`."""
    if type(base) is not np.ndarray or not base.ndim or base.dtype != x.dtype:
        return None
    step = base.strides[0]
    if (base.shape[1:], base.strides[1:]) != (x.shape, x.strides) or not step:
        return None
    t, rest = divmod(x.ctypes.data - base.ctypes.data, step)
    return t if not rest and 0 <= t < len(base) else None


def _arrays_in(value: Any, depth: int = 6) -> Iterator[np.ndarray]:
    if isinstance(value, np.ndarray):
        yield value
    elif depth and isinstance(value, CONTAINERS):
        for _, part in _parts(value):
            yield from _arrays_in(part, depth - 1)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, MAPPINGS):
        for key, part in value.items():
            yield (key if type(key) is str else ""), part
    elif not isinstance(value, RAW):
        for part in value:
            yield "", part


def _instance_dict(obj: Any) -> dict[str, Any]:
    found = getattr(obj, "__dict__", None)
    return found if type(found) is dict else {}


def _is_object(value: Any) -> bool:
    """Whether the value is a class, or an instance of a class, written in Python."""
    cls = value if isinstance(value, type) else type(value)
    if cls.__module__.partition(".")[0] in _FOREIGN:
        return False
    if isinstance(value, type) or hasattr(value, "__dict__"):
        return True
    return any("__slots__" in vars(c) for c in cls.__mro__)


def _is_users_module(module: ModuleType) -> bool:
    """Whether a module is the user's: a file of theirs, or made by `ModuleType`."""
    file = getattr(module, "__file__", None)
    return is_users(file) if file else getattr(module, "__spec__", None) is None


_ASKING = {"getattr", "hasattr"}
_ENVIRONMENT = {"environ", "getenv"}
_FOREIGN = {"builtins", "numpy", "scipy", "jax", "torch", "functools", "typing", "enum"}


def _functions_of(found: Any) -> tuple[Callable, ...]:
    if isinstance(found, property):
        return tuple([f for f in (found.fget,) if f is not None])
    if isinstance(found, staticmethod | classmethod):
        return (found.__func__,)
    if isinstance(found, functools.cached_property):
        return (found.func,)
    return (found,) if type(found) is FunctionType else ()
