"""Draws programs whose loops fill lists and arrays, as source text.

Each is `program(x, a)` of a vector of 9 and a number, and gives a number.
"""

import linecache

import numpy as np

ROWS = np.sin(np.arange(27.0)).reshape(9, 3)
NUMBERS = np.cos(np.arange(9.0))
FLOATS = [0.1 * k * k - 0.3 for k in range(9)]
ORDER = [3, 0, 7, 5, 1, 8, 2, 6, 4]


class Drawer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.lines = ["def program(x, a):"]
        self.lists: list[tuple[str, str]] = []
        self.count = 0

    def text(self) -> str:
        """The program."""
        self.emit(1, "v = x[:3] * a")
        self.emit(1, "s = x[3] * 0.5")
        self.emit(1, self.choose(["total = 0.0", "total = 0", "total = a"]))
        for _ in range(self.rng.integers(1, 3)):
            self.loop()
            self.use()
        for _ in range(2):
            self.use()
        self.emit(1, "return total + np.sum(v) * 0.1 + s")
        return "\n".join(self.lines) + "\n"

    def choose(self, options):
        """One of the options."""
        return options[self.rng.integers(len(options))]

    def emit(self, depth: int, line: str) -> None:
        """Add a line."""
        self.lines.append("    " * depth + line)

    def name(self, stem: str) -> str:
        """A new name."""
        self.count += 1
        return f"{stem}{self.count}"

    def loop(self) -> None:
        """A loop that fills lists and an array."""
        n = int(self.rng.integers(4, 9))
        head, row, item = self.choose(
            [
                (f"for i in range({n}):", "ROWS[i]", "x[i]"),
                (f"for i in range(1, {n}):", "ROWS[i]", "x[i - 1]"),
                (f"for i in range({n} - 1, -1, -1):", "ROWS[i]", "x[i]"),
                ("for i in range(0, 9, 2):", "ROWS[i]", "x[i]"),
                ("for i, (r, y) in enumerate(zip(ROWS, NUMBERS)):", "r", "y"),
                ("for i, y in enumerate(FLOATS):", "ROWS[0]", "y"),
                ("for i in ORDER:", "ROWS[i]", "x[i]"),
                ("for i, y in enumerate(x):", "ROWS[2]", "y"),
            ]
        )
        mine = []
        for _ in range(self.rng.integers(1, 3)):
            kind = self.choose(["v", "s"])
            us = self.name("us")
            start = self.choose(["[]", "[]", f"[{kind}]", f"[{kind} * 2.0]"])
            self.emit(1, f"{us} = {start}")
            mine.append((us, kind))
        out = self.name("out")
        made = self.choose(
            ["np.zeros(11)", "np.zeros(11)", "np.cos(x[:1]) * np.ones(11)"]
        )
        self.emit(1, f"{out} = {made}")
        self.emit(1, head)
        body = [
            f"v = np.tanh(v * a + {row})",
            f"s = s * 0.7 + {item} * v[1]",
            f"total = total + s * {item}",
            f"total += np.sum(v * {row})",
            f"{out}[i] = {out}[i - 1] * a + {item}",
            f"{out}[i + 1] = s + {out}[i]",
            f"{out}[i] += {out}[i + 1] * 0.5",
            f"{out}[i : i + 2] *= a",
            f"row = {out}[i : i + 3]; row += s",
            f"s = s + {out}[-i - 1]",
            "s = np.sin(s) + 0.1 * i",
        ]
        for line in self.rng.choice(body, self.rng.integers(2, 5), replace=False):
            guard = self.choose(["", "", "", "", "if i == 0: ", "if i != 2: "])
            self.emit(2, guard + str(line))
        for us, kind in mine:
            for _ in range(self.choose([1, 1, 1, 2])):
                value = self.choose(
                    [kind, kind, f"{kind} * a", f"{kind} + {item}", f"np.exp({kind})"]
                )
                guard = self.choose(["", "", "", "", "if i % 2 == 0: ", "if i > 1: "])
                self.emit(2, f"{guard}{us}.append({value})")
        if self.choose([True, False]):
            self.emit(2, "total = total * 0.9 + s")
        self.lists += mine
        self.emit(1, f"total = total + np.sum({out} * np.cos({out}))")

    def use(self) -> None:
        """Something that reads a list."""
        us, kind = self.choose(self.lists)
        if kind == "s":
            line = self.choose(
                [
                    f"np.sum(np.array({us}) * np.sin(np.arange(len({us}))))",
                    f"np.mean({us})",
                    f"sum({us}) / len({us})",
                    f"np.sum(np.stack({us}) ** 2)",
                    f"np.sum(np.array({us}[1:]) * np.array({us}[:-1]))",
                    f"np.sum(np.array({us}[::-1]) * np.arange(len({us})))",
                    f"np.prod(np.array({us}[::2]) + 2.0)",
                    f"{us}[0] * {us}[-1]",
                    f"np.sum(np.array([q * q * a for q in {us}]))",
                    f"sum(q * p for q, p in zip({us}, x))",
                    f"np.sum(np.array({us})[:2] * np.array({us})[-2:])",
                ]
            )
        else:
            line = self.choose(
                [
                    f"np.sum(np.array({us}) ** 2)",
                    f"np.sum(np.stack({us}, axis=1) * np.arange(3.0)[:, None])",
                    f"np.sum(np.stack({us}, axis=1)[1] * np.arange(len({us})))",
                    f"np.sum(np.concatenate({us}) * np.arange(3 * len({us})))",
                    f"np.sum(np.vstack({us}) @ x[:3])",
                    f"np.sum(np.hstack({us}) ** 3)",
                    f"np.sum(np.array([x[:3], *{us}])[1:] * x[:3])",
                    f"np.sum(sum({us}) ** 2)",
                    f"np.sum(np.mean({us}, axis=0) * np.arange(3.0))",
                    f"np.sum({us}[0] * {us}[-1])",
                    f"np.sum(np.array([np.sum(q * q) for q in {us}]) * a)",
                    f"np.sum(np.array({us}[::2]) ** 2)",
                    f"np.sum(np.column_stack({us}) @ np.ones(len({us})))",
                ]
            )
        self.emit(1, f"total = total + 0.1 * {line}")
        if self.choose([0, 0, 0, 1]):
            self.emit(1, f"for q in {us}:")
            self.emit(2, f"total = total * 0.9 + {'q * a' if kind == 's' else 'q @ v'}")


def draw(seed: int):
    """The program of a seed, and its text."""
    text = Drawer(seed).text()
    filename = f"<filling {seed}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    space = {"np": np, "__name__": "drawn_filling", "ROWS": ROWS, "NUMBERS": NUMBERS}
    space.update(FLOATS=FLOATS, ORDER=ORDER)
    exec(compile(text, filename, "exec"), space)
    return space["program"], text
