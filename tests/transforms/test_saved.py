"""What every transformation saves runs where tracegrad can't be imported."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transforms import solvers

import tracegrad as tg
from tracegrad.ir.tree import Leaf, build, leaves

# One process runs all files: it is the start that takes time.
RUN_ALONE = """
import importlib.util, pickle, sys

sys.modules["tracegrad"] = None
sys.path.insert(0, sys.argv[1])
for path, name, args in pickle.load(sys.stdin.buffer):
    spec = importlib.util.spec_from_file_location("saved", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, name)
    out = function(*args[0])
    if len(args) > 1:
        out = out[0], out[1](*args[1])
    tops = {m.partition(".")[0] for m in sys.modules}
    tops &= {"scipy", "jax", "optree", "opt_einsum"}
    pickle.dump((out, tops), sys.stdout.buffer)
"""

W, X = np.array([[0.3, -0.2], [0.1, 0.4], [-0.5, 0.2]]), np.arange(12.0).reshape(4, 3)
V, T = np.array([0.5, -1.0, 2.0]), np.array([1.0, 2.0, -0.5])
TW = np.ones((3, 2))


def loss(w, x):
    return np.sum(np.tanh(x @ w) ** 2)


def rows(v):
    return np.sin(v[1:]) * v[:-1]


def chained(v):
    return np.sum(v[1:] ** 2 * v[:-1])


@tg.custom_vjp
def clipped(v):
    return v * 2.0


clipped.defvjp(lambda v: (v * 2.0, v), lambda v, ct: (np.clip(ct, -1.0, 1.0) * v,))


@tg.custom_jvp
def bounded(v):
    return np.log(v)


bounded.defjvp(lambda p, t: (np.log(p[0]), t[0] / np.maximum(p[0], 0.5)))


@tg.checkpoint
def block(v):
    return np.sin(v) * v


def layer(x, a):
    return np.tanh(a * x + 0.5)


point = tg.fixed_point(layer)
root = tg.implicit_root(solvers.cubic, lambda x, a, b: x**3 + a * x - b)


def counted(v):
    return tg.fori_loop(0, 3, lambda i, h: np.sin(h) * v, v)


def pulled_back(v):
    out, pullback = tg.vjp(rows, v)
    return pullback.source(), (out, pullback(np.array([1.0, 2.0])))


def linearized(v):
    out, f_jvp = tg.linearize(rows, v)
    return f_jvp.source(), (out, f_jvp(T))


def transposed(v):
    turned = tg.linear_transpose(lambda x: 3.0 * x[1:] - x[:-1], v)
    ct = np.array([1.0, 2.0])
    return turned.source(ct), turned(ct)


def of(made, *args):
    return made.source(*args), made(*args)


def sparse(made, *args):
    """The emitted function returns the parts of the matrix."""
    found = made(*args)
    return made.source(*args), (found.data, found.indices, found.indptr)


# Name -> the source and what is right, and the arguments of the saved function (and
# those of the function that it returns).
CASES: dict[str, tuple] = {
    "grad": (lambda: of(tg.grad(loss), W, X), (W, X)),
    "value_and_grad": (lambda: of(tg.value_and_grad(loss), W, X), (W, X)),
    "compile": (lambda: of(tg.compile(loss), W, X), (W, X)),
    "vjp": (lambda: pulled_back(V), (V,), (np.array([1.0, 2.0]),)),
    "linearize": (lambda: linearized(V), (V,), (T,)),
    "linear_transpose": (lambda: transposed(V), (V, np.array([1.0, 2.0]))),
    "jvp": (lambda: of(tg.jvp(loss), (W, X), (TW, None)), (W, X, TW)),
    "hvp": (lambda: of(tg.hvp(loss), (W, X), (TW, None)), (W, X, TW)),
    "vhp": (lambda: of(tg.vhp(loss), (W, X), (TW, None)), (W, X, TW)),
    "jacrev": (lambda: of(tg.jacrev(rows), V), (V,)),
    "jacfwd": (lambda: of(tg.jacfwd(rows), V), (V,)),
    "hessian": (lambda: of(tg.hessian(chained), V), (V,)),
    "elementwise_grad": (lambda: of(tg.elementwise_grad(np.sin), V), (V,)),
    "vmap": (lambda: of(tg.vmap(loss, (None, 0)), W, X), (W, X)),
    "vmap of grad": (lambda: of(tg.vmap(tg.grad(chained)), X), (X,)),
    "grad of vmap": (
        lambda: of(tg.grad(lambda x: np.sum(tg.vmap(chained)(x))), X),
        (X,),
    ),
    "vmap with a loop": (
        lambda: of(tg.vmap(lambda v: np.convolve(v, np.ones(2))), X[:2]),
        (X[:2],),
    ),
    "custom_vjp": (lambda: of(tg.grad(lambda v: np.sum(clipped(v) ** 2)), V), (V,)),
    "custom_jvp": (
        lambda: of(tg.grad(lambda v: np.sum(bounded(v * v))), V),
        (V,),
    ),
    "checkpoint": (
        lambda: of(tg.grad(lambda v: np.sum(block(block(v)))), V),
        (V,),
    ),
    "checkpoint alone": (lambda: of(tg.compile(block), V), (V,)),
    "stop_gradient": (
        lambda: of(tg.grad(lambda v: np.sum(v * tg.stop_gradient(v))), V),
        (V,),
    ),
    "fixed_point": (lambda: of(tg.grad(point, argnums=1), 0.1, 0.3), (0.1, 0.3)),
    "loops": (lambda: of(tg.hessian(lambda v: np.sum(counted(v))), V), (V,)),
    "three deep": (
        lambda: of(tg.grad(lambda v: np.sum(tg.hessian(chained)(v) ** 2)), V),
        (V,),
    ),
    "sparse jacobian": (lambda: sparse(tg.jacobian(rows, sparse=True), V), (V,)),
    "sparse hessian": (lambda: sparse(tg.hessian(chained, sparse=True), V), (V,)),
    # Last: it loads SciPy.
    "implicit_root": (
        lambda: of(tg.grad(lambda b: np.sum(root(2.0, b))), abs(V)),
        (abs(V),),
    ),
}


def flat(x: Any) -> list:
    return [leaf.value for leaf in leaves(build(x, Leaf))]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What each saved file gives in the other process, and what is right."""
    folder = tmp_path_factory.mktemp("saved")
    jobs, wanted = [], []
    for name, (make, *args) in CASES.items():
        source, want = make()
        path = source.save(folder / f"{name.replace(' ', '_')}.py")
        jobs.append((str(path), source.name, args))
        wanted.append((want, path.read_text()))
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALONE, str(Path(__file__).parent.parent)],
        input=pickle.dumps(jobs),
        capture_output=True,
        cwd=folder,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    stream = io.BytesIO(done.stdout)
    found = [pickle.load(stream) for _ in jobs]
    return dict(zip(CASES, zip(found, wanted, strict=True), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_runs_alone(results, name):
    (got, loaded), (want, text) = results[name]
    for have, expected in zip(flat(got), flat(want), strict=True):
        np.testing.assert_array_equal(have, expected)
    assert "tracegrad" not in text
    needs_scipy = name == "implicit_root"
    assert loaded == ({"scipy"} if needs_scipy else set())
    assert ("Needs NumPy only." in text) == (not needs_scipy)


# What saved files refuse: name -> the source, and arguments of which one is amiss.
COMPLEX = np.array([1.0, 2.0, 3.0]) + 0j
INTS = np.arange(1, 4)
BOTH = {"a b": V, "c": [T]}
REFUSED: dict[str, tuple] = {
    "integers": (lambda: tg.grad(chained).source(V), (INTS,), "int64"),
    "a list of integers": (lambda: tg.grad(chained).source(V), ([1, 2, 3],), "int64"),
    "truths": (lambda: tg.grad(chained).source(V), (INTS > 1,), "bool"),
    "complex for real": (lambda: tg.grad(chained).source(V), (COMPLEX,), "complex128"),
    "integers for complex": (
        lambda: tg.grad(lambda z: np.sum(abs(z))).source(COMPLEX),
        (INTS,),
        "int64",
    ),
    "complex data": (lambda: tg.grad(loss).source(W, X), (W, X + 0j), "complex128"),
    "in a container": (
        lambda: tg.grad(lambda p: p["c"][0] @ p["a b"]).source(BOTH),
        ({"a b": INTS, "c": [T]},),
        "int64",
    ),
    "the second": (
        lambda: tg.hessian(loss, argnums=1).source(W, X),
        (W, X.astype(int)),
        "int64",
    ),
    "by name": (
        lambda: tg.jacfwd(loss, argnames="x").source(W, X),
        (W, X.astype(int)),
        "int64",
    ),
    "sparse": (lambda: tg.jacobian(rows, sparse=True).source(V), (INTS,), "int64"),
    "hvp": (lambda: tg.hvp(chained).source((V,), (T,)), (INTS, T), "int64"),
    "branches": (
        lambda: tg.grad(lambda v: np.sum(v * v) if v[0] > 0 else v[1]).source(V),
        (INTS,),
        "int64",
    ),
    "jax": (
        lambda: tg.grad(chained, backend="jax").source(V),
        (INTS,),
        "int",
    ),
    "a size within a dict": (
        lambda: tg.grad(lambda p: np.sum(p["a"][0])).source({"a": np.ones((2, 3))}),
        ({"a": np.ones((1, 3))},),
        "shape",
    ),
}


def saved(make, folder):
    source = make()
    if source.text.startswith("import jax"):
        pytest.importorskip("jax")
    space: dict[str, Any] = {}
    text = source.save(folder / "saved.py").read_text()
    exec(compile(text, "saved.py", "exec"), space)
    return space[source.name]


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_other_kinds_of_numbers(name, tmp_path):
    make, args, match = REFUSED[name]
    with pytest.raises(ValueError, match=match):
        saved(make, tmp_path)(*args)


def test_integers_may_be_data_and_numbers(tmp_path):
    def fitted(p, x, s):
        return s * np.sum((p[0] + p[1] * x) ** 2)

    p, x = np.array([0.5, 2.0]), np.arange(4)
    make = tg.value_and_grad(fitted, argnums=(0, 2))
    run = saved(lambda: make.source(p, x + 0.0, 2.0), tmp_path)
    for got, right in zip(flat(run(p, x, 2)), flat(make(p, x + 0.0, 2.0)), strict=True):
        np.testing.assert_array_equal(got, right)
    run(p.astype(np.float32), x, 2.0)  # another precision is no other kind
