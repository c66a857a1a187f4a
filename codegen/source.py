"""Emitted source: its text, loading it, saving it."""

from __future__ import annotations

import ast
import functools
import itertools
import linecache
import os
import types
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tracegrad.codegen.backends import Backend, backend_named
from tracegrad.codegen.build import (
    FunctionBuilder,
    check_arguments,
    import_statements,
    needs,
    wrapped,
)
from tracegrad.codegen.calls import function_of, own_name
from tracegrad.codegen.lower import Constants, Line
from tracegrad.codegen.names import Namer, identifier
from tracegrad.codegen.printer import Blank, Comment, docstring, to_source
from tracegrad.codegen.template import UNTRACED, Context, is_helper, name
from tracegrad.errors import ArgumentError, UntracedBranch
from tracegrad.ir.graph import Const
from tracegrad.ir.location import Location
from tracegrad.ir.routine import Routine
from tracegrad.ops.call import Body, call
from tracegrad.ops.library import Library
from tracegrad.ops.outside import Outside, helper_of
from tracegrad.ops.solvers import is_solver

# Captured arrays of up to this many elements are written into the text.
_WRITTEN_ELEMENTS = 12
_serial = itertools.count(1)
# The sources whose functions have been loaded, by the file name of their code.
LOADED: weakref.WeakValueDictionary[str, Source] = weakref.WeakValueDictionary()
_UNTRACED = f'''
class {UNTRACED}(RuntimeError):
    """The arguments lead to a branch that was not traced when this was made."""
'''


class Module(types.ModuleType):
    """A loaded module of emitted functions; `module[name]` reads one."""

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)


class Source:
    """Emitted Python source.

    `str(source)` is the text.  `source.load()` runs it, `source.save(path)` writes a
    module that needs neither tracegrad nor the user's file.

    Attributes:
        name: of the main function.
        text: the module with the main function alone.
    """

    def __init__(
        self,
        routines: Sequence[Routine],
        main: str,
        backend: Backend,
        others: Callable[[], Sequence[Routine]] = tuple,
    ) -> None:
        self._routines = tuple(routines)
        self._others = others
        self._backend = backend
        self.name = main
        shown = [r for r in routines if r.name == main]
        self._shown = _Writer(shown, backend, documented=False)
        self.text = self._shown.text
        self._loaded: Module | None = None
        self.filename = ""

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<source of {self.name}: {len(self.text.splitlines())} lines>"

    def shapes(self) -> str:
        """The text with the shape and dtype of each value in a comment."""
        return self._shown.with_shapes()

    @functools.cached_property
    def lines(self) -> dict[int, Location]:
        """Line number (from 1) -> the user's place that the line comes from."""
        return self._shown.places()

    def load(self) -> Module:
        """Run the text once and return its functions.

        The file name is entered in `linecache`, so tracebacks, `pdb` and profilers show
        the emitted lines, which name the user's lines in their comments.
        """
        if self._loaded is None:
            self.filename = f"<tracegrad {self.name} {next(_serial)}>"
            text = self._shown.text
            module = Module(self.name)
            module.__file__ = self.filename
            module.__dict__.update(self._shown.seeds())
            code = compile(self._shown.loadable(), self.filename, "exec")
            exec(code, module.__dict__)
            module.__dict__.update(self._shown.seeds())
            lines = text.splitlines(keepends=True)
            linecache.cache[self.filename] = (len(text), None, lines, self.filename)
            weakref.finalize(module, linecache.cache.pop, self.filename, None)
            LOADED[self.filename] = self
            self._loaded = module
        return self._loaded

    def save(self, path: str | os.PathLike) -> Path:
        """Write a module with all functions: the user's, its vjp, value and gradient.

        Arrays that the function captured go into an `.npz` of the same name beside it,
        unless they are small.

        Args:
            path: of the Python file; its folder must exist.

        Returns:
            The path of the file.
        """
        path = Path(path)
        writer = _Writer(
            [*self._others(), *self._routines],
            self._backend,
            True,
            path.with_suffix(".npz").name,
        )
        for key, called in writer.context.outsides.items():
            if not called.importable:
                raise ArgumentError(
                    f"the file would call `{key}`, which no module has under its name",
                    op="save",
                    fix="define the function at the top of a module, with def",
                )
        path.write_text(writer.text, encoding="utf-8")
        arrays = writer.stored()
        if arrays:
            # No array is called `allow_pickle`.
            np.savez(path.with_suffix(".npz"), **arrays)  # type: ignore[arg-type]
        return path


class _Writer:
    """Composes the text of one module."""

    def __init__(
        self,
        routines: Sequence[Routine],
        backend: Backend,
        documented: bool,
        beside: str = "",
    ) -> None:
        self.backend = backend
        self.context = Context(backend)
        names = [r.name for r in routines]
        self.context.functions = frozenset(names)
        reserved = [*names, backend.alias, *_reserved(routines, backend)]
        self.constants = Constants(Namer([*reserved, *_local_names(routines)]))
        for routine in routines:
            for constant in routine.graph.constants():
                if isinstance(constant.value, np.ndarray):
                    self.constants.name_of(constant)
        self.beside = beside or "constants.npz"
        self.builders: list[FunctionBuilder] = []
        check = check_arguments(routines[-1], self.context) if documented else None
        taken = [*reserved, *self.constants.named, *([check.name] if check else ())]
        functions: list[ast.stmt] = []

        def write(routine: Routine) -> ast.FunctionDef:
            return FunctionBuilder(
                routine, self.context, self.constants, taken, False
            ).build()

        self.context.body = lambda body: function_of(body, self.context, write)
        for routine in routines:
            builder = FunctionBuilder(
                routine,
                self.context,
                self.constants,
                taken,
                documented,
                check is not None,
            )
            functions.append(builder.build())
            self.builders.append(builder)
        main = routines[-1]
        body: list[ast.stmt] = [docstring(self._purpose(main), 0)]
        stored = self.stored()
        for needed in sorted({"annotations"} if _annotated(routines) else ()):
            body.append(ast.ImportFrom("__future__", [ast.alias(needed)], 0))
            body.append(Blank())
        if stored:
            body.append(ast.ImportFrom("pathlib", [ast.alias("Path")], 0))
            body.append(Blank())
        body.extend(import_statements(self.context))
        body.extend(self._constants(stored))
        body.extend(ast.parse(_UNTRACED).body if self.context.guarded else ())
        body.extend(self.context.helpers.values())
        body.extend([check] if check else ())
        body.extend(functions)
        self.module = ast.Module(body, [])
        self.text = to_source(self.module)
        self.functions = functions

    def _purpose(self, main: Routine) -> str:
        """The docstring of the module: what it is, what it needs, what it is for."""
        quotes = len('"""') * (1 if main.notes else 2)
        needed = needs(self.context, self.backend)
        text = f"{main.purpose}  {needed}"
        if len(text) + quotes > 88:
            text = f"{wrapped(main.purpose)}\n\n{needed}"
        return "\n".join([text, *main.notes])

    # ------------------------------------------------------------------ constants
    def stored(self) -> dict[str, np.ndarray]:
        """The captured arrays that are too large for the text."""
        return {
            key: c.value
            for key, c in self.constants.named.items()
            if c.value.size > _WRITTEN_ELEMENTS or c.value.dtype.kind not in "biufc"
        }

    def seeds(self) -> dict[str, Any]:
        """The captured arrays themselves, for a module that runs in this process."""
        found = {key: c.value for key, c in self.constants.named.items()}
        found.update({c.__name__: c for c in self.context.classes})
        found.update({key: o.function for key, o in self.context.outsides.items()})
        if self.context.guarded:
            found[UNTRACED] = UntracedBranch
        return found

    def _constants(self, stored: dict[str, np.ndarray]) -> list[ast.stmt]:
        body: list[ast.stmt] = []
        if stored:
            alias = self.backend.alias
            text = f"stored = {alias}.load(Path(__file__).with_name({self.beside!r}))"
            body.extend(ast.parse(text).body)
        for key, constant in self.constants.named.items():
            target = ast.Name(key, ast.Store())
            if key in stored:
                value: ast.expr = ast.Subscript(name("stored"), ast.Constant(key))
            else:
                value = _array(constant, self.backend)
            body.append(ast.Assign([target], value, lineno=0))
        return body

    @functools.cached_property
    def parsed(self) -> ast.Module:
        """The text as a tree, with line numbers."""
        return ast.parse(self.text)

    def loadable(self) -> str:
        """The text without what reads files, line for line.

        In this process the captured arrays are the user's own, not copies.
        """
        if not any(map(_is_data, self.module.body)):
            return self.text
        kept = self.text.splitlines()
        for node in self.parsed.body:
            if _is_data(node):
                for i in range(node.lineno - 1, node.end_lineno or node.lineno):
                    kept[i] = ""
        return "\n".join(kept) + "\n"

    # ------------------------------------------------------------------ lines
    def _statements(self) -> list[tuple[ast.stmt, Line]]:
        """Each printed statement (with its line numbers) beside what it came from."""
        printed = _in_order(self.parsed)
        built = _in_order(self.module)
        lines: dict[int, Line] = {}
        for builder in self.builders:
            lines.update(builder.lines)
        return [
            (there, lines[id(here)])
            for there, here in zip(printed, built, strict=True)
            if id(here) in lines
        ]

    def places(self) -> dict[int, Location]:
        """Line number -> the user's place."""
        found: dict[int, Location] = {}
        for node, line in self._statements():
            if line.at:
                for i in range(node.lineno, _end_of_header(node) + 1):
                    found[i] = line.at[-1]
        return found

    def with_shapes(self) -> str:
        """The text with types in comments."""
        kept = self.text.splitlines()
        for node, line in self._statements():
            kinds = ", ".join(repr(v.type) for v in line.node.outputs)
            if not kinds:
                continue
            i = (node.end_lineno or node.lineno) - 1
            joined = "; " if "  # " in kept[i] else "  # "
            kept[i] += f"{joined}{kinds}"
        return "\n".join(kept) + "\n"


def _reserved(routines: Sequence[Routine], backend: Backend) -> set[str]:
    """Names of the module that no variable may hide: helpers, libraries."""
    found = {"Path", "stored", "check_arrays", UNTRACED}
    for routine in routines:
        for node in routine.graph.walk():
            if is_solver(node):
                found.add(node.attrs["solver"].module.rpartition(".")[2])
            if node.regions:
                continue
            called = node.attrs.get("function")
            if type(called) is Outside:
                found.add(called.name)
                helper = helper_of(node.op, node.attrs)
                found |= set() if helper is None else {helper.__name__}
                continue
            if node.op is call:
                found |= _names_of_calls(node.attrs["body"])
                continue
            if is_helper(node.op, node.attrs, backend):
                found.add(node.op.name)
            function = node.op.bodies.get(backend.name, node.op.run)
            used = function.__code__.co_names
            found |= {
                n for n in used if isinstance(function.__globals__.get(n), Library)
            }
    return found


def _names_of_calls(body: Body) -> set[str]:
    """The functions that a body and the bodies inside of it are emitted as."""
    name = identifier(body.name)
    found = {name, own_name(name)}
    for node in body.graph.walk():
        if type(node.attrs.get("function")) is Outside:
            found.add(node.attrs["function"].name)
        elif node.op is call:
            found |= _names_of_calls(node.attrs["body"])
    return found


def _local_names(routines: Sequence[Routine]) -> set[str]:
    """Names that variables of the functions would like to have."""
    found = {p.name for r in routines for p in r.parameters}
    for routine in routines:
        for node in routine.graph.walk():
            found |= {v.hint for v in node.outputs if v.hint}
    return found


def _in_order(tree: ast.AST) -> list[ast.stmt]:
    """The statements of a tree in the order of the text, without comments."""
    found: list[ast.stmt] = []
    for node in getattr(tree, "body", ()):
        if isinstance(node, Comment | Blank):
            continue
        found.append(node)
        found.extend(_in_order(node))
        for rest in getattr(node, "orelse", ()):
            found.extend(_in_order(ast.Module([rest], [])))
    return found


def _end_of_header(node: ast.stmt) -> int:
    """The last line of a statement, its body aside."""
    body = getattr(node, "body", None)
    if body:
        return max(node.lineno, body[0].lineno - 1)
    return node.end_lineno or node.lineno


def _is_data(node: ast.stmt) -> bool:
    """Whether a statement of the module defines a constant, or helps to read one."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "pathlib"
    return isinstance(node, ast.Assign)


def _annotated(routines: Sequence[Routine]) -> bool:
    return any(p.annotation for r in routines for p in r.parameters)


def _array(constant: Const, backend: Backend) -> ast.expr:
    """`np.array([1.0, 2.0])` with the dtype where the list does not tell it."""
    value = constant.value
    text = f"{backend.alias}.array({value.tolist()!r}"
    if np.array(value.tolist()).dtype != value.dtype or not value.size:
        text += f", dtype={value.dtype.str!r}"
    for special in ("nan", "inf"):
        text = text.replace(special, f"{backend.alias}.{special}")
    tree = ast.parse(f"{text})", mode="eval").body
    if not value.size:
        shape = ast.parse(repr(value.shape), mode="eval").body
        tree = ast.Call(ast.Attribute(tree, "reshape", ast.Load()), [shape], [])
    return tree


def emit(
    routines: Sequence[Routine],
    *,
    main: str | None = None,
    backend: str = "numpy",
    optimize: str = "readable",
    others: Callable[[], Sequence[Routine]] = tuple,
) -> Source:
    """The source of one or more functions.

    Args:
        routines: what to write; the saved module holds them all.
        main: name of the one that `str(source)` shows (the last by default).
        backend: "numpy" or "jax".
        optimize: "readable" or "fast".
        others: makes further functions for the saved module, which come first there.

    Raises:
        ArgumentError: for an unknown backend or level.
    """
    if optimize not in ("readable", "fast"):
        raise ArgumentError(
            f"optimize={optimize!r} is not known", fix="use 'readable' or 'fast'"
        )
    return Source(routines, main or routines[-1].name, backend_named(backend), others)
