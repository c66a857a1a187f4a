"""NumPy calls as users write them, recorded through the tables of spellings.

A case is a function of a namespace and arrays: `lambda np, x: np.sum(x, axis=0)`.  With
NumPy for the namespace it is the reference; with `RECORDED` and references it records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
from ops.matrix import irregular, pairing

import tracegrad.ops  # noqa: F401 - defines every op
from tracegrad.autodiff.reverse import pull_back
from tracegrad.ir.graph import Graph, Value
from tracegrad.ir.types import ArrayType
from tracegrad.ops.define import ACCEPT, METHODS, PROPERTIES, UPDATES
from tracegrad.ops.evaluate import evaluate
from tracegrad.ops.index import read
from tracegrad.ops.record import Builder, Ref
from tracegrad.ops.scatter import write


class Recorded:
    """NumPy's functions, as the tables of spellings have them."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.module, name)
        if isinstance(function, ModuleType):
            return Recorded(function)
        if isinstance(function, np.ufunc):
            return RecordedUfunc(function)
        # dtypes and constants are themselves
        return ACCEPT.get(function, function) if callable(function) else function


class RecordedUfunc:
    """A ufunc with its methods `reduce`, `accumulate` and `outer`."""

    def __init__(self, ufunc: np.ufunc) -> None:
        self.ufunc = ufunc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return ACCEPT[self.ufunc](*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return ACCEPT[self.ufunc, name]


RECORDED = Recorded(np)


def method(x: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    """`x.name(...)`, of an array or of a reference."""
    if isinstance(x, Ref):
        return METHODS[name](x, *args, **kwargs)
    return getattr(x, name)(*args, **kwargs)


def attribute(x: Any, name: str) -> Any:
    """`x.name`, of an array or of a reference."""
    return PROPERTIES[name](x) if isinstance(x, Ref) else getattr(x, name)


def at(x: Any, *key: Any) -> Any:
    """`x[key]`, of an array or of a reference."""
    whole = key[0] if len(key) == 1 else key
    return read(x, whole) if isinstance(x, Ref) else x[whole]


def store(x: Any, key: Any, value: Any) -> Any:
    """`x` after `x[key] = value`."""
    if isinstance(x, Ref) or isinstance(value, Ref):
        return write(x, key, value)
    x = np.array(x)
    x[key] = value
    return x


def update(spelling: Any, x: Any, *args: Any) -> Any:
    """`x` after a call that writes into it, such as `np.put_along_axis(x, ...)`."""
    if any(isinstance(a, Ref) for a in (x, *args)):
        return UPDATES[spelling](x, *args)
    x = np.array(x)
    if isinstance(spelling, str):
        getattr(x, spelling)(*args)
    elif isinstance(spelling, tuple):
        getattr(*spelling)(x, *args)
    else:
        spelling(x, *args)
    return x


def as_tuple(made: Any) -> tuple:
    return tuple(made) if isinstance(made, tuple | list) else (made,)


class Call:
    """A recorded call: the values of its results and of a pullback."""

    def __init__(self, f: Callable, arrays: Sequence[Any]) -> None:
        self.arrays = [np.array(a) if isinstance(a, list) else a for a in arrays]
        self.builder = Builder()
        types = [ArrayType(np.shape(a), np.asarray(a).dtype) for a in self.arrays]
        self.params = list(map(Value, types))
        refs = [self.builder.wrap(p) for p in self.params]
        made = as_tuple(f(RECORDED, *refs))
        self.results = [self.builder.lift(r) for r in made]

    def run(self, args: Sequence[Any] | None = None) -> list:
        graph = Graph("f", self.params, self.builder.nodes, self.results)
        return evaluate(graph, list(self.arrays if args is None else args))

    def gradient(self, cts: list) -> list:
        """One cotangent for each array (zeros where nothing reaches it)."""
        nodes = list(self.builder.nodes)
        pairs = [
            (r, self.builder.wrap(self.builder.lift(ct)))
            for r, ct in zip(self.results, cts, strict=True)
            if r.type.differentiable
        ]
        outputs, seeds = [p[0] for p in pairs], [p[1] for p in pairs]
        found = pull_back(self.builder, nodes, outputs, seeds, self.params)
        results = [f.value for f in found if f is not None]
        graph = Graph("g", self.params, self.builder.nodes, results)
        values = iter(evaluate(graph, list(self.arrays)))
        return [
            np.zeros(np.shape(a)) if f is None else next(values)
            for a, f in zip(self.arrays, found, strict=True)
        ]


def slope(f: Callable, points: list, directions: list, step: float = 4e-4) -> float:
    """Directional derivative by central differences of fourth order."""

    def value(h: float) -> float:
        return f([x + h * t for x, t in zip(points, directions, strict=True)])

    near, far = value(step) - value(-step), value(2 * step) - value(-2 * step)
    return (8 * near - far) / (12 * step)


def check(f: Callable, *arrays: Any, smooth: bool = True) -> None:
    """The recorded call gives what NumPy gives, and the slope that NumPy has."""
    call = Call(f, arrays)
    arrays = tuple(call.arrays)
    expected = as_tuple(f(np, *arrays))
    got = call.run()
    assert len(got) == len(expected)
    for have, want, value in zip(got, expected, call.results, strict=True):
        assert np.shape(have) == np.shape(want) == value.type.shape
        assert np.asarray(have).dtype == np.asarray(want).dtype
        assert value.type.dtype == np.asarray(want).dtype
        np.testing.assert_allclose(have, want, rtol=1e-12, atol=1e-12)
    if not smooth:
        return
    cts = irregular([v.type for v in call.results], {}, 1)
    gradients = call.gradient(cts)
    chosen = [i for i, p in enumerate(call.params) if p.type.differentiable]
    tangents = irregular([call.params[i].type for i in chosen], {}, 2)

    def value(points: list) -> float:
        args = list(arrays)
        for i, x in zip(chosen, points, strict=True):
            args[i] = x
        made = as_tuple(f(np, *args))
        return pairing(
            cts, [m if np.asarray(m).dtype.kind in "fc" else 0 for m in made]
        )

    want = slope(value, [arrays[i] for i in chosen], tangents)
    for i in chosen:
        assert np.shape(gradients[i]) == np.shape(arrays[i])
        assert np.asarray(gradients[i]).dtype == np.asarray(arrays[i]).dtype
    have = pairing(tangents, [gradients[i] for i in chosen])
    np.testing.assert_allclose(have, want, rtol=2e-7, atol=2e-8)


def gradient_of(f: Callable, *arrays: Any) -> list:
    """Gradients of the scalar `f(np, *arrays)`."""
    return Call(f, arrays).gradient([1.0])


def sample(*shape: int, seed: int = 0, dtype: str = "float64") -> np.ndarray:
    """Irregular data without ties."""
    rng = np.random.default_rng(seed)
    count = int(np.prod(shape))
    # A permutation of evenly spaced numbers: no two of them are close.
    sizes = 0.3 + 1.7 * rng.permutation(count) / max(count, 1)
    x = (sizes * rng.choice([-1.0, 1.0], count)).reshape(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.uniform(-1.0, 1.0, shape)
    return np.asarray(x).astype(dtype)
