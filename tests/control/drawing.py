"""Draws programs with branches, loops and writes in place, as source text.

Each is `program(x, y)` of a vector of 3 and a matrix of 6 rows, and gives a number.  It
uses nothing but NumPy and `tg`, so that it runs on plain arrays too.
"""

import linecache

import numpy as np

import tracegrad as tg

ROWS = 6


class Scope:
    """The names that a statement may read, and those that it may write.

    Attributes:
        vectors, scalars, buffers: arrays of 3, numbers, arrays of `ROWS`.
        counters: ints below `ROWS`.
        owned: vectors and buffers that may be written in place.
        number: a scalar that may be assigned.
        traced: whether the counters have no value while tracing.
    """

    def __init__(self, vectors, scalars, buffers=(), counters=(), traced=False):
        self.vectors, self.scalars = list(vectors), list(scalars)
        self.buffers, self.counters = list(buffers), list(counters)
        self.owned = list(buffers)
        self.number = None
        self.traced = traced

    def inside(self, vectors=(), scalars=(), buffers=(), counters=(), traced=True):
        """The scope of a body: what is around it can be read."""
        made = Scope(
            [*self.vectors, *vectors],
            [*self.scalars, *scalars],
            [*self.buffers, *buffers],
            [*self.counters, *counters],
            traced,
        )
        made.owned = list(buffers)
        return made


class Drawer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.lines = ["def program(x, y):"]
        self.names = 0
        self.budget = 14

    def text(self) -> str:
        scope = Scope(["x"], ["0.3"])
        self.emit(1, "a = x * 0.9 + y[0]")
        self.emit(1, "b = np.sin(x) * y[1]")
        self.emit(1, "s = np.sum(x * y[2])")
        self.emit(1, f"buf = np.zeros({ROWS})")
        scope.vectors += ["a", "b"]
        scope.scalars += ["s"]
        scope.buffers = ["buf"]
        scope.owned = ["buf", "a", "b"]
        scope.number = "s"
        for _ in range(self.rng.integers(2, 5)):
            self.statement(scope, 1)
        self.emit(1, "return np.sum(a * b) + s + np.sum(np.sin(buf))")
        return "\n".join(self.lines) + "\n"

    # ------------------------------------------------------------------ small parts
    def emit(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def choose(self, options):
        return options[self.rng.integers(len(options))]

    def vector(self, scope: Scope) -> str:
        """A vector that is read as it is."""
        options = [*scope.vectors, *scope.vectors]
        options += [f"y[{self.row(scope)}]", f"{self.choose(scope.vectors)}[::-1]"]
        if scope.buffers:
            part = self.choose(["1:4", "::2"])
            options.append(f"{self.choose(scope.buffers)}[{part}]")
        return self.choose(options)

    def row(self, scope: Scope) -> str:
        return self.choose([*scope.counters, *scope.counters, "2", "-1"])

    def place(self, scope: Scope) -> str:
        if scope.counters and self.rng.random() < 0.6:
            return f"{self.choose(scope.counters)} % 3"
        return str(self.rng.integers(3))

    def scalar(self, scope: Scope) -> str:
        options = [*scope.scalars, f"{self.vector(scope)}[{self.place(scope)}]"]
        options.append(f"np.sum({self.vector(scope)})")
        if scope.buffers:
            options.append(f"{self.choose(scope.buffers)}[{self.row(scope)}]")
        if scope.counters:
            options.append(f"0.1 * {self.choose(scope.counters)}")
        return self.choose(options)

    def new_vector(self, scope: Scope) -> str:
        """An expression whose array is new, and bounded."""
        v, w, s = self.vector(scope), self.vector(scope), self.scalar(scope)
        return self.choose(
            [
                f"np.tanh({v} + {w})",
                f"np.sin({v} * {w})",
                f"0.5 * {v} - 0.3 * {w}",
                f"np.cos({s}) * {v}",
                f"np.where({v} > {w}, {v}, 0.3 * {w})",
                f"np.tanh(np.array([{s}, {self.scalar(scope)}, {v}[0]]))",
                f"np.concatenate([{v}[1:], np.sin({w}[:1])])",
            ]
        )

    def new_scalar(self, scope: Scope) -> str:
        s, u = self.scalar(scope), self.scalar(scope)
        return self.choose(
            [
                f"np.sin({s} * {u})",
                f"0.5 * {s} + np.tanh({u})",
                f"np.cos({s}) - 0.2 * {u}",
            ]
        )

    def test(self, scope: Scope) -> str:
        bound = round(float(self.rng.normal()) * 0.4, 3)
        return f"{self.scalar(scope)} {self.choose('<>')} {bound}"

    # ------------------------------------------------------------------- statements
    def statement(self, scope: Scope, depth: int) -> None:
        self.budget -= 1
        kinds = ["assign", "assign", "store", "update"]
        if depth < 4 and self.budget > 0:
            kinds += ["for_", "for_", "for_", "cond", "scan", "fori", "while_", "map"]
            kinds += ["switch", "if_"]
        getattr(self, self.choose(kinds))(scope, depth)

    def block(self, scope: Scope, depth: int, most: int = 3) -> None:
        for _ in range(self.rng.integers(1, most + 1)):
            self.statement(scope, depth)

    def assign(self, scope: Scope, depth: int) -> None:
        own = [v for v in scope.owned if v not in scope.buffers]
        if own and self.rng.random() < 0.6:
            self.emit(depth, f"{self.choose(own)} = {self.new_vector(scope)}")
            return
        if scope.number:
            self.emit(depth, f"{scope.number} = {self.new_scalar(scope)}")

    def store(self, scope: Scope, depth: int) -> None:
        own = [v for v in scope.owned if v in scope.buffers]
        if not own:
            self.update(scope, depth)
            return
        target = self.choose(own)
        if self.rng.random() < 0.5:
            place, how = self.row(scope), self.choose(["=", "+=", "*="])
            self.emit(depth, f"{target}[{place}] {how} {self.new_scalar(scope)}")
        else:
            part, how = self.choose(["1:4", "::2", "-3:"]), self.choose(["=", "+="])
            self.emit(depth, f"{target}[{part}] {how} {self.new_vector(scope)}")

    def update(self, scope: Scope, depth: int) -> None:
        own = [v for v in scope.owned if v not in scope.buffers]
        if not own:
            return
        target = self.choose(own)
        more = f"{target} += 0.1 * {self.vector(scope)}"
        how = self.choose([f"{target} *= 0.8", more])
        if self.rng.random() < 0.3:
            how = f"{target}[{self.place(scope)}] = {self.new_scalar(scope)}"
        self.emit(depth, how)

    def for_(self, scope: Scope, depth: int) -> None:
        i = self.name("i")
        turns = self.choose(["range(3)", "range(4)", f"range({ROWS})", "range(1, 5)"])
        if self.rng.random() < 0.2:
            turns = f"reversed({turns})"
        if scope.counters and not scope.traced and self.rng.random() < 0.6:
            outer = scope.counters[-1]
            turns = self.choose([f"range({outer})", f"range({outer} + 1)"])
        self.emit(depth, f"for {i} in {turns}:")
        inner = Scope(scope.vectors, scope.scalars, scope.buffers, scope.counters)
        inner.counters.append(i)
        inner.traced = scope.traced
        inner.owned, inner.number = scope.owned, scope.number
        before = len(self.lines)
        self.block(inner, depth + 1)
        if len(self.lines) == before:
            self.emit(depth + 1, "pass")

    def if_(self, scope: Scope, depth: int) -> None:
        if not scope.traced and scope.counters:
            self.assign(scope, depth)
            return
        self.emit(depth, f"if {self.test(scope)}:")
        for last in (False, True):
            before = len(self.lines)
            self.assign(scope, depth + 1)
            if self.rng.random() < 0.5:
                self.store(scope, depth + 1)
            if len(self.lines) == before:
                self.emit(depth + 1, "pass")
            if not last:
                self.emit(depth, "else:")

    def target(self, scope: Scope) -> str | None:
        own = [v for v in scope.owned if v not in scope.buffers]
        return self.choose(own) if own else None

    def cond(self, scope: Scope, depth: int) -> None:
        self.branches(scope, depth, "cond", 2)

    def switch(self, scope: Scope, depth: int) -> None:
        self.branches(scope, depth, "switch", 3)

    def branches(self, scope: Scope, depth: int, which: str, count: int) -> None:
        target = self.target(scope)
        if target is None:
            return
        functions = []
        for _ in range(count):
            f, v = self.name("f"), self.name("v")
            self.emit(depth, f"def {f}({v}):")
            inner = scope.inside([v])
            inner.traced = True
            w = self.name("w")
            self.emit(depth + 1, f"{w} = {v} * 0.9")
            inner.vectors.append(w)
            inner.owned = [w]
            self.statement(inner, depth + 1)
            self.emit(depth + 1, f"return np.tanh({w}) + {self.new_vector(inner)}")
            functions.append(f)
        if which == "cond":
            call = f"tg.cond({self.test(scope)}, {', '.join(functions)}, {target})"
        else:
            index = f"np.floor(3.0 * np.sin({self.scalar(scope)}) + 1.5).astype(int)"
            call = f"tg.switch({index}, [{', '.join(functions)}], {target})"
        self.emit(depth, f"{target} = {call}")

    def body(self, scope: Scope, depth: int, head: str, counters=(), extra=()) -> tuple:
        """A function of a carry of a vector, a number and a buffer."""
        f, v, c, o = (self.name(stem) for stem in ("f", "v", "c", "o"))
        self.emit(depth, f"def {f}({head.format(f'carry{v}')}):")
        self.emit(depth + 1, f"{v}, {c}, {o} = carry{v}[:3]")
        inner = scope.inside([v, *extra], [c], [o], counters)
        inner.owned, inner.number = [o, v], c
        self.emit(depth + 1, f"{v} = {v} * 0.95")
        self.block(inner, depth + 1, 2)
        return f, v, c, o

    def carried(self, scope: Scope) -> tuple[str, str, str]:
        """The targets that a loop carries, and what it starts from."""
        target = self.target(scope)
        number = scope.number
        buffer = [v for v in scope.owned if v in scope.buffers]
        targets = [target or "_", number or "_", self.choose(buffer) if buffer else "_"]
        start = [
            target or "0.5 * x",
            number or "0.1 * np.sum(x)",
            targets[2] if buffer else f"np.zeros({ROWS})",
        ]
        return ", ".join(targets), f"({', '.join(start)})", targets[0]

    def scan(self, scope: Scope, depth: int) -> None:
        row = self.name("r")
        f, v, c, o = self.body(scope, depth, "{}, " + row, extra=[row])
        self.emit(depth + 1, f"return ({v}, {c}, {o}), {v} * {c}")
        targets, start, _ = self.carried(scope)
        ys = self.name("ys")
        options = self.choose(["", "", ", reverse=True", ', checkpoint="sqrt"'])
        self.emit(depth, f"({targets}), {ys} = tg.scan({f}, {start}, y{options})")
        self.fold(scope, depth, f"{ys}[{self.row(scope)}]")

    def fori(self, scope: Scope, depth: int) -> None:
        i = self.name("i")
        f, v, c, o = self.body(scope, depth, i + ", {}", [i])
        self.emit(depth + 1, f"return {v}, {c}, {o}")
        targets, start, _ = self.carried(scope)
        bounds = self.choose(["0, 4", f"1, {ROWS}", "2, 3"])
        self.emit(depth, f"{targets} = tg.fori_loop({bounds}, {f}, {start})")

    def while_(self, scope: Scope, depth: int) -> None:
        f, v, c, o = self.body(scope, depth, "{}")
        self.emit(depth + 1, f"return 1.6 * {v} + 0.2, {c}, {o}, carry{v}[3] + 1")
        targets, start, _ = self.carried(scope)
        small = f"np.sum(q[0] ** 2) < {self.choose([2.0, 9.0, 40.0])}"
        test = f"lambda q: ({small}) & (q[3] < 5)"
        call = f"tg.while_loop({test}, {f}, (*{start}, 0))[:3]"
        self.emit(depth, f"{targets} = {call}")
        own = targets.split(", ")[0]
        if own != "_":
            self.emit(depth, f"{own} = np.tanh({own})")

    def map(self, scope: Scope, depth: int) -> None:
        f, row = self.name("f"), self.name("r")
        self.emit(depth, f"def {f}({row}):")
        inner = scope.inside([row])
        self.emit(depth + 1, f"return {self.new_vector(inner)}")
        ys = self.name("ys")
        self.emit(depth, f"{ys} = tg.map({f}, y)")
        self.fold(scope, depth, f"{ys}[{self.row(scope)}]")

    def fold(self, scope: Scope, depth: int, value: str) -> None:
        target = self.target(scope)
        if target is not None:
            self.emit(depth, f"{target} = {target} + 0.3 * {value}")


def draw(seed: int):
    """The program of a seed, and its text."""
    text = Drawer(seed).text()
    filename = f"<program {seed}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    space = {"np": np, "tg": tg, "__name__": "drawn_program"}
    exec(compile(text, filename, "exec"), space)
    return space["program"], text
