"""What the package is made of: its list of packages, its layers, its sizes."""

import ast
import importlib.util
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import tracegrad
import tracegrad.codegen

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]

# Where each package of the checkout lies, and where the one under test does.
SOURCES = {"tracegrad": ROOT / "tracegrad", "tracegrad.codegen": ROOT / "codegen"}
INSTALLED = {
    "tracegrad": Path(tracegrad.__file__).parent,
    "tracegrad.codegen": Path(tracegrad.codegen.__file__).parent,
}

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 60

# For each layer, those that it may import.  `errors` is the lowest.
LOW = {"errors", "ir", "ops"}
MIDDLE = {"autodiff", "passes", "trace", "codegen", "eager"}
LAYERS = {
    "errors": set(),
    "ir": {"errors"},
    "ops": {"errors", "ir"},
    "autodiff": LOW | {"passes"},
    "passes": LOW | {"autodiff"},
    "codegen": LOW | {"passes"},
    "trace": LOW | MIDDLE,
    "eager": LOW | MIDDLE,
    "runtime": LOW | MIDDLE,
    "tools": LOW | MIDDLE | {"runtime"},
    "__init__": LOW | MIDDLE | {"runtime", "tools"},
    "__main__": {"tools"},
}
# Only these may be imported inside a function: they are extras, and slow to load.
OPTIONAL = {"jax", "scipy"}


def modules_in(folders: dict[str, Path]) -> dict[str, Path]:
    """Maps each module's dotted name to its file; `__init__` names its package."""
    found = {}
    for prefix, folder in folders.items():
        for path in sorted(folder.rglob("*.py")):
            parts = (prefix, *path.relative_to(folder).with_suffix("").parts)
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = modules_in(SOURCES)


def layer_of(module: str) -> str:
    """The part of tracegrad that a dotted name lies in; `__init__` for the facade."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imports_of(module: str) -> Iterator[tuple[str, ast.stmt, bool]]:
    """Yields (imported module, statement, is inside a function) for one module.

    Imports for the type checker alone are left out: nothing depends on them when the
    program runs, and a node of the IR may so name the type of its op.
    """
    tree = ast.parse(MODULES[module].read_text())
    is_package = MODULES[module].name == "__init__.py"
    package = module if is_package else module.rpartition(".")[0]
    inside = {
        id(inner)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for inner in ast.walk(outer)
    }
    for_types = {
        id(inner)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.If) and "TYPE_CHECKING" in ast.unparse(outer.test)
        for inner in outer.body
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node, id(node) in inside
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                dots = "." * node.level
                base = importlib.util.resolve_name(dots + base, package)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                # `from tracegrad.ir import graph` names a module, other names do not.
                yield (full if full in MODULES else base), node, id(node) in inside


@pytest.mark.parametrize("module", MODULES)
def test_layers(module: str) -> None:
    """Each layer imports lower ones only."""
    layer = layer_of(module)
    assert layer in LAYERS, f"{module} lies in a layer that the table does not know"
    for target, node, _ in imports_of(module):
        if target.split(".")[0] != "tracegrad" or layer_of(target) == layer:
            continue
        where = f"{MODULES[module].relative_to(ROOT)}:{node.lineno}"
        assert layer_of(target) in LAYERS[layer], f"{where} imports {target}"


def test_no_cycle_between_layers() -> None:
    """Siblings may use one another one way only."""
    edges: dict[str, set[str]] = {}
    for module in MODULES:
        for target, _, _ in imports_of(module):
            if target.split(".")[0] == "tracegrad":
                edges.setdefault(layer_of(module), set()).add(layer_of(target))
    reached = {layer: targets - {layer} for layer, targets in edges.items()}
    for _ in reached:  # transitive closure: a path has at most that many steps
        for targets in reached.values():
            targets |= {far for near in list(targets) for far in reached.get(near, ())}
    assert not [layer for layer, targets in reached.items() if layer in targets]


@pytest.mark.parametrize("module", MODULES)
def test_no_import_inside_a_function(module: str) -> None:
    """An import in a function would hide a cycle; only slow extras may be."""
    hidden = [
        f"{MODULES[module].relative_to(ROOT)}:{node.lineno} imports {target}"
        for target, node, inside in imports_of(module)
        if inside and target.split(".")[0] not in OPTIONAL
    ]
    assert not hidden


@pytest.mark.parametrize("module", MODULES)
def test_sizes(module: str) -> None:
    """Files and functions stay small enough to be read at one sitting."""
    text = MODULES[module].read_text()
    assert len(text.splitlines()) <= MAX_FILE_LINES
    long = [
        f"{node.name} has {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > MAX_FUNCTION_LINES
    ]
    assert not long


def test_package_list_is_complete() -> None:
    """Every folder with Python files is listed, and nothing else is."""
    packages = {
        name if path.name == "__init__.py" else name.rpartition(".")[0]
        for name, path in MODULES.items()
    }
    assert sorted(packages) == sorted(SETUPTOOLS["packages"])
    for package in packages:
        assert MODULES[package].name == "__init__.py"


def test_codegen_is_mapped() -> None:
    """The folder at top level is imported as `tracegrad.codegen`."""
    assert SETUPTOOLS["package-dir"] == {
        name: str(folder.relative_to(ROOT)) for name, folder in SOURCES.items()
    }
    assert not (ROOT / "tracegrad" / "codegen").exists()


def test_codegen_refuses_another_name(tmp_path: Path) -> None:
    """As plain `codegen` it would shadow a user's own module."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import codegen"
    done = run_python(code, str(ROOT), cwd=tmp_path)
    assert done.returncode != 0
    assert "this package is tracegrad.codegen" in done.stderr


def test_installed_package_is_this_checkout() -> None:
    """A stale install, or a stale build folder, would test other code than is here."""
    installed = modules_in(INSTALLED)
    assert sorted(installed) == sorted(MODULES)
    stale = [m for m in MODULES if installed[m].read_bytes() != MODULES[m].read_bytes()]
    assert not stale, "run `pip install .` again"
    assert (INSTALLED["tracegrad"] / "py.typed").exists()


def run_python(code: str, *args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs code in a fresh interpreter, away from the checkout."""
    command = [sys.executable, "-c", code, *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_import_loads_no_extra(tmp_path: Path) -> None:
    """`import tracegrad` needs its required dependencies only."""
    code = (
        "import sys, tracegrad\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = run_python(code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert "numpy" in loaded
    assert not loaded & {"jax", "jaxlib", "scipy", "torch", "sklearn", "autograd"}


def project_files() -> list[Path]:
    """Every text file of the checkout that is not made by a tool."""
    made = re.compile(
        r"\.git|\.venv.*|\..*_cache|\.hypothesis|__pycache__|.*\.egg-info|build|dist"
    )
    return [
        path
        for path in sorted(ROOT.rglob("*"))
        if path.is_file()
        and path.suffix not in {".npz", ".png"}
        and not any(made.fullmatch(part) for part in path.relative_to(ROOT).parts)
    ]


def test_no_machine_paths_nor_hosts() -> None:
    """Files work on any machine: they name no folder of one, and no registry."""
    folders = "home|root|usr|tmp|work|opt|var|Users|mnt"
    # Written in halves, so that this file passes its own test.
    hosts = ["pypi" + ".org", "python" + "hosted", "index" + "-url", "pytorch" + ".org"]
    # An absolute path follows a blank, a quote or a bracket; `a/tmp/b` is relative.
    path_of_machine = r"(?:^|[\s\"'`(=:])/(?:" + folders + r")/\w"
    pattern = re.compile("|".join([path_of_machine, *map(re.escape, hosts)]))
    found = []
    for path in project_files():
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if pattern.search(line.replace("#!/usr/bin/env", "")):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not found
