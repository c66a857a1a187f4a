"""Sharing names changes no value: random programs, before and after."""

import ast
import random

import numpy as np
import pytest

from tracegrad.codegen.liveness import UnknownStatement, interference
from tracegrad.codegen.printer import to_source
from tracegrad.codegen.sharing import share_names

BASES = ("a", "b", "d_a")
NAMES = [*BASES, *[f"{base}_{k}" for base in BASES for k in (2, 3)]]


class Drawing:
    """Draws statements that read what is surely bound, as emitted code does."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.inner = 0

    def value(self, bound):
        reads = [self.random.choice(sorted(bound)) for _ in range(2)]
        return self.random.choice(
            [reads[0], f"{reads[0]} + 0.5 * {reads[1]}", f"f({reads[0]}) - {reads[1]}"]
        )

    def block(self, bound, depth, indent, names=NAMES):
        lines = []
        for _ in range(self.random.randint(1, 5)):
            lines += self.statement(bound, depth, indent, names)
        return lines

    def statement(self, bound, depth, indent, names):
        pad = " " * indent
        kind = self.random.choice(
            ["assign", "assign", "copy", "pair", "add", "if", "for", "while", "list"]
        )
        if kind in ("if", "for", "while") and depth == 0:
            kind = "assign"
        name = self.random.choice(names)
        if kind == "assign":
            line = f"{pad}{name} = {self.value(bound)}"
            bound.add(name)
            return [line]
        if kind == "copy":
            line = f"{pad}{name} = {self.random.choice(sorted(bound))}"
            bound.add(name)
            return [line]
        if kind == "pair":
            one, two = self.random.sample(names, 2)
            line = f"{pad}{one}, {two} = {self.value(bound)}, {self.value(bound)}"
            bound |= {one, two}
            return [line]
        if kind == "add":
            name = self.random.choice(sorted(bound & set(names)))
            return [f"{pad}{name} += {self.value(bound)}"]
        if kind == "list":
            return [f"{pad}out.append({self.random.choice(sorted(bound))})"]
        if kind == "if":
            one, two = set(bound), set(bound)
            lines = [f"{pad}if {self.value(bound)} > 0.0:"]
            lines += self.block(one, depth - 1, indent + 4, names)
            if self.random.random() < 0.6:
                lines += [f"{pad}else:"]
                lines += self.block(two, depth - 1, indent + 4, names)
            bound |= one & two
            return lines
        within = set(bound)
        if kind == "for":
            target, other = self.random.sample(names, 2)
            lines = [f"{pad}for {target}, {other} in reversed(turns):"]
            within |= {target, other}
        else:
            self.inner += 1
            count = f"n{self.inner}"
            lines = [f"{pad}{count} = 0", f"{pad}while {count} < 3:"]
            lines += [f"{pad}    {count} += 1"]
        lines += self.block(within, depth - 1, indent + 4, names)
        if kind == "while" and self.random.random() < 0.4:
            lines += [f"{pad}    if {self.value(within)} > 2.0:", f"{pad}        break"]
        return lines

    def program(self):
        bound = {"a", "b", "d_a"}
        lines = ["def program(a, b, d_a, turns, out, f):"]
        lines += self.block(bound, 2, 4) + self.block(bound, 2, 4)
        if self.random.random() < 0.5:
            captured = set(self.random.sample(sorted(bound), 2))
            own = [n for n in NAMES if n not in captured]
            lines += ["    def pullback(ct):"]
            first = self.random.choice(own)
            lines += [f"        {first} = ct * {self.random.choice(sorted(captured))}"]
            inner = captured | {first, "ct"}
            lines += self.block(inner, 2, 8, own)
            lines += [f"        return {self.random.choice(sorted(inner))}"]
            lines += ["    out.append(pullback(1.5))"]
            lines += ["    out.append(pullback(-0.5))"]
        lines += [f"    return {', '.join(self.random.sample(sorted(bound), 2))}"]
        return "\n".join(lines) + "\n"


def run(text):
    space = {}
    exec(text, space)
    out = []
    turns = [(np.float64(0.3), 1.1), (-0.7, 0.4), (0.9, -1.3)]
    result = space["program"](0.5, -1.2, 2.0, turns, out, np.tanh)
    return [float(x) for x in (*result, *out)]


def shared(text, entries=()):
    tree = ast.parse(text)
    share_names(tree.body[0], {"a", "b"}, dict(entries), lambda gone, before: None)
    return to_source(tree)


@pytest.mark.parametrize("block", range(4))
def test_random_programs_give_what_they_gave(block) -> None:
    changed = 0
    for seed in range(100 * block, 100 * (block + 1)):
        text = Drawing(seed).program()
        made = shared(text)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(run(made), run(text), err_msg=text)
        changed += made != to_source(ast.parse(text))
    assert changed > 15


def test_entries_are_called_as_where_they_were_made() -> None:
    text = """\
def program(x, turns):
    for x_2, matmul_2 in reversed(turns):
        d_x_2 = x_2 * matmul_2
    return d_x_2
"""
    made = shared(text, {"x_2": "x", "matmul_2": "matmul"})
    assert "for x, matmul_2 in" in made  # there is no `matmul` to be one with
    text = text.replace(
        "    for", "    matmul = x\n    turns.append((x, matmul))\n    for"
    )
    made = shared(text, {"x_2": "x", "matmul_2": "matmul"})
    assert "for x, matmul in" in made


def test_what_a_function_captures_stays() -> None:
    text = """\
def program(x, turns):
    y = x + 1.0

    def pullback(d_y):
        total = y
        for y_2 in turns:
            total += y_2 * d_y
        return total

    return pullback
"""
    assert shared(text, {"y_2": "y"}) == to_source(ast.parse(text))


def test_names_of_the_user_stay() -> None:
    text = """\
def program(k):
    k_2 = k + 1.0
    return k_2
"""
    tree = ast.parse(text)
    share_names(tree.body[0], {"k", "k_2"}, {}, lambda gone, before: None)
    assert to_source(tree) == to_source(ast.parse(text))


def test_arguments_and_functions_stay() -> None:
    text = """\
def program(x):
    y = x + 1.0

    def y_2(x_2):
        return x_2 * 2.0

    return y_2(y)
"""
    tree = ast.parse(text)
    share_names(tree.body[0], {"x", "y"}, {}, lambda gone, before: None)
    assert to_source(tree) == to_source(ast.parse(text))


def test_statements_that_are_not_understood_are_left_alone() -> None:
    text = """\
def program(x):
    with x:
        x_2 = x + 1.0
    return x_2
"""
    function = ast.parse(text).body[0]
    with pytest.raises(UnknownStatement):
        interference(function, {"x", "x_2"})
    assert shared(text, {"x_2": "x"}) == to_source(ast.parse(text))


def test_long_functions_keep_their_names() -> None:
    """The time to emit stays linear: names are compared by pairs in short ones only."""
    body = [f"    x_{k} = x_{k - 1} + 1.0" for k in range(2, 1500)]
    text = "\n".join(["def f(x_1):", "    x = x_1", *body, "    return x_1499"])
    tree = ast.parse(text).body[0]
    assert isinstance(tree, ast.FunctionDef)
    share_names(tree, {"x"}, {}, lambda gone, before: None)
    assert "x_1499" in ast.unparse(tree)
