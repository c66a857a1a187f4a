"""Random programs of views, aliases and writes, against NumPy."""

import random

import numpy as np
import pytest

from tracegrad.errors import UnsupportedError

KEYS = ("0", "-1", "1:", ":-1", "::2", "::-1", "...", "None", "0:1", "[1, 0]", "[0, 0]")
KEYS += ("k", "..., k", "k, None", "-k", "[k, 0]")  # k is traced
MAKE = (
    "{new} = {old}[{key}]",
    "{new} = {old}.T",
    "{new} = {old}.reshape(-1)",
    "{new} = {old}.ravel()",
    "{new} = np.expand_dims({old}, 0)",
    "{new} = {old}.swapaxes(0, -1)",
    "{new} = {old}",
    "{new} = {old}.copy()",
    "{new} = {old} * 2.0",
    "{new} = np.asarray({old})",
    "{new} = np.array({old})",
    "{new} = np.zeros_like({old})",
    "{new} = {old}.reshape({old}.shape[::-1])",
    "{new} = np.flip({old}, 0)",
    "{new} = np.squeeze({old})",
    "{new} = np.atleast_2d({old})",
)
WRITE = (
    "{old}[{key}] = {value}",
    "{old}[{key}] += {value}",
    "{old}[{key}] *= {value}",
    "{old} += {value}",
    "{old} *= {value}",
    "{old} -= {old}",
    "{old}[{key}] -= {old}[{key}] * 0.5",
    "{old}.fill({value})",
    "np.add.at({old}, ([0, 0],), {value})",
    "np.sin({old}, out={old})",
    "np.copyto({old}, {value})",
    "{old}[{old} > 1.0] = {value}",
    "for row in {old}: row *= {value}",
    "{old}[...] = {old}[::-1]",
)
X = np.array([[0.3, -0.7, 1.9], [2.1, 0.4, -1.2]])


def program(seed: int) -> str:
    """The text of a function `f(x)` that returns all of its arrays."""
    rng = random.Random(seed)
    names = ["a"]
    lines = ["a = x * 1.0", "k = np.argmin(x[0]) % 2"]
    for i in range(rng.randint(4, 10)):
        new = f"b{i}"
        text = rng.choice(MAKE if rng.random() < 0.5 else WRITE)
        values = ("x[0, 0]", "0.5", "x[1, 1] * x[0, 2]", "x[0, 1] + 1.0")
        line = text.format(
            new=new,
            old=rng.choice(names),
            key=rng.choice(KEYS),
            value=rng.choice(values),
        )
        lines.append(line)
        if line.startswith(new):
            names.append(new)
    body = "\n".join(f"    {line}" for line in lines)
    return f"def f(x):\n{body}\n    return ({', '.join(names)},)\n"


def runs(function) -> bool:
    """Whether NumPy accepts the program."""
    try:
        function(X.copy())
    except (IndexError, ValueError, TypeError, np.exceptions.AxisError):
        return False
    return True


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("block", range(10))
def test_random_programs(check, block: int) -> None:
    """All arrays are as NumPy has them at the end."""
    ran = 0
    for seed in range(100 * block, 100 * block + 100):
        text = program(seed)
        space: dict = {"np": np}
        exec(text, space)
        if runs(space["f"]):
            ran += 1
            try:
                check(space["f"], X)
            except UnsupportedError as error:
                assert "Fortran order" in str(error)
            except Exception as error:
                raise AssertionError(f"seed {seed}:\n{text}") from error
    assert ran > 20
