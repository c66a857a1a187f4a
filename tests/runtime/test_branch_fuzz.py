"""Random programs with branches, loops and writes, against NumPy and differences."""

import linecache
import random

import numpy as np
import pytest

import tracegrad as tg

HELPERS = """
import numpy as np


def clipped(v):
    if v > 0.5:
        return 0.5 + 0.1 * v
    if v < -0.5:
        return -0.5
    return v * v


def larger(p, q):
    return p if p > q else 0.5 * q
"""


class Writer:
    """Writes one random function of an array of four elements and a float.

    Values stay of order one, so that finite differences are exact enough.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.scalars = ["s"]
        self.arrays = ["a"]
        self.count = 0

    def new(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def number(self) -> str:
        return f"{self.random.uniform(-1.0, 1.0):.2f}"

    def scalar(self, depth: int = 2) -> str:
        """An expression of a number."""
        pick = self.random.random()
        if depth == 0 or pick < 0.2:
            array, i = self.random.choice(self.arrays), self.random.randrange(4)
            return self.random.choice([*self.scalars, f"{array}[{i}]", self.number()])
        x, y = self.scalar(depth - 1), self.scalar(depth - 1)
        array = self.random.choice(self.arrays)
        return self.random.choice(
            [
                f"np.sin({x} + {y})",
                f"np.tanh({x}) * {self.number()}",
                f"(0.5 * {x} + 0.5 * {y})",
                f"(0.3 * {x} - {y} * 0.4)",
                f"np.cos({array}).mean()",
                f"np.dot({array}, {array}[::-1]) * 0.1",
                f"clipped({x})",
                f"larger({x}, {y})",
                f"max({x}, {y})",
                f"abs({x})",
                f"(0.5 * {x} if {self.test()} else {y})",
            ]
        )

    def test(self) -> str:
        x = self.random.choice([*self.scalars, f"{self.random.choice(self.arrays)}[1]"])
        made = self.random.choice(
            [
                f"{x} > {self.number()}",
                f"{x} < {self.random.choice(self.scalars)} + 0.1",
                f"np.sum({self.random.choice(self.arrays)}) >= {self.number()}",
                f"np.any({self.random.choice(self.arrays)} > {self.number()})",
            ]
        )
        if self.random.random() < 0.3:
            word = self.random.choice(["and", "or"])
            made = f"{made} {word} {x} * {x} < 0.6"
        return made if self.random.random() < 0.8 else f"not ({made})"

    def put(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def block(self, indent: int, size: int, loop: bool = False) -> None:
        scalars, arrays = list(self.scalars), list(self.arrays)
        for _ in range(size):
            self.statement(indent, loop)
        self.scalars, self.arrays = scalars, arrays

    def statement(self, indent: int, loop: bool) -> None:
        pick = self.random.random()
        array = self.random.choice(self.arrays)
        if pick < 0.2:
            self.put(indent, f"{self.random.choice(self.scalars)} = {self.scalar()}")
        elif pick < 0.3:
            name, value = self.new("s"), self.scalar()
            self.put(indent, f"{name} = {value}")
            self.scalars.append(name)
        elif pick < 0.42:
            i = self.random.randrange(4)
            sign = self.random.choice(["=", "+=", "*="])
            self.put(indent, f"{array}[{i}] {sign} {self.scalar(1)}")
        elif pick < 0.5:
            sign = self.random.choice(["+=", "-=", "*="])
            self.put(indent, f"{array}[1:3] {sign} {self.scalar(1)}")
        elif pick < 0.56:
            name = self.new("w")
            self.put(indent, f"{name} = {array}[{self.random.choice(['::-1', ':'])}]")
            self.arrays.append(name)
        elif pick < 0.62:
            name = self.new("a")
            self.put(indent, f"{name} = np.sin({array} * {self.scalar(1)})")
            self.arrays.append(name)
        elif pick < 0.66:
            self.put(indent, f"{array}[{array} > {self.number()}] *= 0.5")
        elif indent >= 3:
            self.put(indent, f"s = 0.5 * s + {self.scalar(1)}")
        else:
            self.compound(indent, pick, loop)

    def compound(self, indent: int, pick: float, loop: bool) -> None:
        if pick < 0.85:
            self.put(indent, f"if {self.test()}:")
            self.block(indent + 1, self.random.randint(1, 3), loop)
            if loop and self.random.random() < 0.4:
                self.put(indent + 1, self.random.choice(["break", "continue"]))
            elif self.random.random() < 0.15:
                self.put(indent + 1, f"return s + {self.scalar(1)}")
            if self.random.random() < 0.6:
                self.put(indent, "else:")
                self.block(indent + 1, self.random.randint(1, 2), loop)
        elif pick < 0.95:
            variable = self.new("i")
            self.put(indent, f"for {variable} in range({self.random.randint(2, 3)}):")
            self.put(indent + 1, f"s = 0.7 * s + a[{variable}]")
            self.block(indent + 1, self.random.randint(1, 2), True)
        else:
            counter = self.new("n")
            self.put(indent, f"{counter} = 0")
            self.put(indent, f"while abs(s) < 0.8 and {counter} < 4:")
            self.put(indent + 1, "s = 1.3 * s + 0.2 * a[0] + 0.1")
            self.put(indent + 1, f"{counter} += 1")

    def source(self) -> str:
        self.put(0, "def f(x, t):")
        self.put(1, "a = x * 1.0")
        self.put(1, "s = t * 0.5")
        self.block(1, self.random.randint(3, 7))
        self.put(1, "return s + np.sum(np.sin(a))")
        return HELPERS + "\n\n" + "\n".join(self.lines) + "\n"


def function(seed: int):
    text = Writer(seed).source()
    name = f"<program {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space: dict = {"__name__": "programs"}
    exec(compile(text, name, "exec"), space)
    return space["f"], text


def slopes(f, x: np.ndarray, t: float, step: float) -> np.ndarray:
    """Central differences in all arguments."""
    at = np.append(x, t)
    found = []
    for e in step * np.eye(5):
        up, down = at + e, at - e
        found.append((f(up[:4], up[4]) - f(down[:4], down[4])) / (2 * step))
    return np.array(found)


def run(seed: int) -> int:
    """Check one program at several points; the number of gradients compared."""
    f, text = function(seed)
    g = tg.value_and_grad(f, argnums=(0, 1))
    rng = np.random.default_rng(seed)
    compared = 0
    for _ in range(5):
        x, t = rng.normal(size=4) * 0.7, float(rng.normal() * 0.7)
        before = x.copy()
        value, (d_x, d_t) = g(x, t)
        assert (x == before).all()
        np.testing.assert_allclose(value, f(x, t), rtol=1e-9, err_msg=text)
        fine, coarse = slopes(f, x, t, 1e-6), slopes(f, x, t, 1e-5)
        if not np.allclose(fine, coarse, rtol=1e-4, atol=1e-5):
            continue  # at a jump
        if np.abs(fine).max() > 1e3:
            continue  # the final sine turns faster than differences can see
        found = np.append(d_x, d_t)
        np.testing.assert_allclose(found, fine, rtol=1e-3, atol=1e-4, err_msg=text)
        compared += 1
    return compared


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_programs(first: int) -> None:
    assert sum(map(run, range(first, first + 20))) > 50


@pytest.mark.fuzz
@pytest.mark.parametrize("first", range(1000, 3000, 50))
def test_many_programs(first: int) -> None:
    for seed in range(first, first + 50):
        run(seed)
