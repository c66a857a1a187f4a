"""`python -m tracegrad source model.py:loss --arg "x=f8[n, 3]" …`.

Prints the gradient source of a function in a file, from the types of its arguments.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from tracegrad.codegen.source import Source
from tracegrad.errors import TracegradError
from tracegrad.runtime.compiled import Compiled, compile, grad, value_and_grad
from tracegrad.runtime.options import Options
from tracegrad.runtime.spec import spec

USAGE_ERROR = 2
_TYPE = re.compile(r"[A-Za-z_]\w*\s*\[[^\[\]]*\]")
_EPILOG = """\
Types of arguments:
  --arg "x=f8[n, 10]"       an array: dtype, then sizes; named sizes are symbolic
  --arg "lr=float"          a Python number (float, int or complex)
  --arg "params.w=f8[10]"   one entry of a dict; repeat for the others
  --arg "params={'w': f8[10], 'layers': [f8[3, 4], None]}"
                            a whole structure: dicts, lists and tuples
  --arg "mode='fast'" --arg "steps=3"
                            a literal: a value that is part of the program

Example:
  python -m tracegrad source model.py:loss --arg "w=f8[3]" --arg "x=f8[n, 3]" \\
      --arg "y=f8[n]"
"""


class UsageError(Exception):
    """The command line asks for something that is not there."""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="tracegrad", description="Gradients of NumPy functions, as Python source."
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    source = commands.add_parser(
        "source",
        help="print the gradient source of a function in a file",
        description="Prints the gradient source of a function in a file.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    source.add_argument("function", metavar="FILE:NAME", help="such as model.py:loss")
    source.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="NAME=TYPE",
        help="type of one argument; see below",
    )
    source.add_argument(
        "--wrt",
        action="append",
        default=[],
        metavar="NAME",
        help="argument to differentiate, repeatable (default: the first)",
    )
    source.add_argument(
        "--mode",
        choices=["value_and_grad", "grad", "vjp", "function"],
        default="value_and_grad",
        help="what to print (default: value_and_grad)",
    )
    source.add_argument(
        "--has-aux", action="store_true", help="NAME returns (value, aux)"
    )
    source.add_argument("--backend", choices=["numpy", "jax"], default="numpy")
    source.add_argument("--optimize", choices=["readable", "fast"], default="readable")
    source.add_argument(
        "--shapes", action="store_true", help="with the type of each value in a comment"
    )
    source.add_argument(
        "-o", "--out", type=Path, help="save the module there instead of printing"
    )
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; 0, 1 for an error of the function, 2 for one of usage."""
    options = parser().parse_args(argv)
    try:
        source = find_source(options)
    except UsageError as error:
        print(f"tracegrad: {error}", file=sys.stderr)
        return USAGE_ERROR
    except TracegradError as error:
        print(f"tracegrad: {error}", file=sys.stderr)
        return 1
    if options.out is not None:
        try:
            source.save(options.out)
        except OSError as error:
            print(f"tracegrad: cannot write {options.out}: {error}", file=sys.stderr)
            return USAGE_ERROR
    else:
        print(source.shapes() if options.shapes else source, end="")
    return 0


def find_source(options: argparse.Namespace) -> Source:
    """The source that the command line asks for."""
    function = load(options.function)
    arguments = parse_arguments(options.arg)
    compiled = transformed(function, options)
    parameters = compiled._binder.signature.parameters
    positional, keywords = [], {}
    for name in arguments:
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        if name not in parameters and not takes_any:
            known = ", ".join(parameters) or "no arguments"
            raise UsageError(f"--arg {name}: the function has {known}")
    for p in parameters.values():
        if p.kind is p.POSITIONAL_ONLY:
            if p.name in arguments:
                positional.append(arguments.pop(p.name))
        elif p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            if p.name not in arguments and p.default is p.empty:
                raise UsageError(
                    f'the type of `{p.name}` is missing: add --arg "{p.name}=f8[...]"'
                )
    keywords = arguments
    return compiled.source(*positional, **keywords)


def transformed(function: Callable, options: argparse.Namespace) -> Compiled:
    """The function in the mode that is asked for."""
    settings: dict[str, Any] = {
        "backend": options.backend,
        "optimize": options.optimize,
    }
    if options.mode == "function":
        return compile(function, **settings)
    names = tuple(n.strip() for part in options.wrt for n in part.split(","))
    if names:
        settings["argnames"] = names[0] if len(names) == 1 else names
    settings["has_aux"] = options.has_aux
    if options.mode == "vjp":
        made = Options("vjp", **settings)
        made.check()
        return Compiled(function, made)
    make = grad if options.mode == "grad" else value_and_grad
    return make(function, **settings)


# ------------------------------------------------------------------------- the file
def load(where: str) -> Callable:
    """The function that `path/to/model.py:loss` names; `Class.method` is possible.

    Raises:
        UsageError: there is none, or its file does not run.
    """
    path_text, _, name = where.rpartition(":")
    if not path_text or not name:
        raise UsageError(f"{where!r} names no function: write model.py:loss")
    path = Path(path_text)
    if not path.is_file():
        raise UsageError(f"there is no file {path_text}")
    found: Any = _module(path)
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            functions = [
                key
                for key, value in vars(found).items()
                if callable(value)
                and not key.startswith("_")
                and getattr(value, "__module__", None) == getattr(found, "__name__", "")
            ]
            known = f"; it has {', '.join(functions)}" if functions else ""
            raise UsageError(f"{path_text} has no {name}{known}") from None
    if not callable(found):
        raise UsageError(f"{name} in {path_text} is no function")
    # A function that is decorated already is taken as it was written.
    return found._function if isinstance(found, Compiled) else found


def _module(path: Path) -> ModuleType:
    """The file run as a module; its folder is searched for what it imports."""
    folder = str(path.resolve().parent)
    made = importlib.util.spec_from_file_location(path.stem, path)
    if made is None or made.loader is None:
        raise UsageError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(made)
    sys.path.insert(0, folder)
    before = sys.modules.get(path.stem)
    sys.modules[path.stem] = module  # where dataclasses and pickle look for it
    try:
        made.loader.exec_module(module)
    except Exception as error:
        if before is None:
            del sys.modules[path.stem]
        else:
            sys.modules[path.stem] = before
        raise UsageError(
            f"{path} does not run: {type(error).__name__}: {error}"
        ) from error
    finally:
        sys.path.remove(folder)
    return module


# ---------------------------------------------------------------------- arguments
def parse_arguments(texts: Sequence[str]) -> dict[str, Any]:
    """`name=type` and `name.key=type` options as the arguments of a call.

    Raises:
        UsageError: one of them can't be read, or two contradict.
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        parts = [part.strip() for part in name.split(".")]
        if not equals or not all(map(str.isidentifier, parts)):
            raise UsageError(f'--arg {text!r}: write --arg "x=f8[n, 10]"')
        place = found
        for part in parts[:-1]:
            place = place.setdefault(part, {})
            if type(place) is not dict:
                raise UsageError(f"--arg {text!r}: {part} has a type already")
        if parts[-1] in place:
            raise UsageError(f"--arg {text!r}: {name.strip()} is given twice")
        place[parts[-1]] = parse_type(value.strip(), text)
    return found


def parse_type(value: str, text: str) -> Any:
    """A type, a structure of types, or a literal.

    Raises:
        UsageError: it is none of them.
    """
    if value in ("float", "int", "complex"):
        return spec(value)
    try:
        return ast.literal_eval(value)  # whose strings may look like types
    except (SyntaxError, ValueError):
        pass
    types: list[str] = []

    def stored(match: re.Match) -> str:
        types.append(match.group())
        return f"__type__({len(types) - 1})"

    try:
        tree = ast.parse(_TYPE.sub(stored, value), mode="eval").body
        return _built(tree, types)
    except TracegradError as error:
        raise UsageError(f"--arg {text!r}: {error}") from None
    except (SyntaxError, ValueError, KeyError):
        raise UsageError(
            f"--arg {text!r}: {value!r} is neither a type such as f8[n, 10], f8[] for "
            "an array without axes or float, nor a structure of types, nor a literal"
        ) from None


def _built(node: ast.expr, types: list[str]) -> Any:
    match node:
        case ast.Call(ast.Name("__type__"), [ast.Constant(int() as i)]):
            return spec(types[i])
        case ast.Name("float" | "int" | "complex" as kind):
            return spec(kind)
        case ast.Dict(keys, values):
            return {
                ast.literal_eval(k): _built(v, types)  # type: ignore[arg-type]
                for k, v in zip(keys, values, strict=True)
            }
        case ast.List(parts):
            return [_built(p, types) for p in parts]
        case ast.Tuple(parts):
            return tuple([_built(p, types) for p in parts])
    return ast.literal_eval(node)


if __name__ == "__main__":
    sys.exit(main())
