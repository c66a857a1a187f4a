"""The command line: `python -m tracegrad source model.py:loss --arg ...`."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tracegrad.tools.cli import UsageError, main, parse_arguments

MODEL = '''\
"""A model and a helper beside it."""

import numpy as np
from helper_of_model import square


def loss(w, x, y, scale=1.0):
    """Mean squared error."""
    return scale * np.mean(square(x @ w - y))


def network(params, x, *, steps):
    h = x @ params["w"]
    for _ in range(steps):
        h = np.tanh(h)
    return np.sum(h) * params["b"], h


class Model:
    @staticmethod
    def loss(w):
        return np.sum(w**2)


def fails(x):
    return x.no_such_thing


def vector(x):
    return 2.0 * x


number = 3
'''
HELPER = "def square(x):\n    return x**2\n"
ARGS = ["--arg", "w=f8[k]", "--arg", "x=f8[n, k]", "--arg", "y=f8[n]"]


@pytest.fixture
def model(tmp_path: Path) -> str:
    """Path of a file with functions."""
    (tmp_path / "helper_of_model.py").write_text(HELPER)
    (tmp_path / "model.py").write_text(MODEL)
    return str(tmp_path / "model.py")


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of the command line."""
    try:
        code = main(arguments)
    except SystemExit as stop:
        code = stop.code
    out, err = capsys.readouterr()
    return code, out, err


def functions_of(text: str) -> dict:
    """What the source defines."""
    space: dict = {}
    exec(text, space)
    return space


def test_prints_source(model: str, capsys) -> None:
    code, out, err = run(capsys, "source", f"{model}:loss", *ARGS)
    assert (code, err) == (0, "")
    assert "def loss_value_and_grad(w, x, y, scale=1.0):" in out
    assert "model.py:9" in out
    w, x, y = np.arange(2.0), np.ones((5, 2)), np.arange(5.0)
    value, d_w = functions_of(out)["loss_value_and_grad"](w, x, y)
    np.testing.assert_allclose(value, np.mean((x @ w - y) ** 2))
    np.testing.assert_allclose(d_w, 2 * x.T @ (x @ w - y) / 5)


def test_runs_as_a_module(model: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tracegrad", "source", f"{model}:loss", *ARGS]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "def loss_value_and_grad" in done.stdout
    again = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert again.stdout == done.stdout


def test_wrt_and_mode(model: str, capsys) -> None:
    target = f"{model}:loss"
    for mode, name in (
        ("grad", "loss_grad"),
        ("vjp", "loss_vjp"),
        ("function", "loss"),
    ):
        code, out, _ = run(capsys, "source", target, *ARGS, "--mode", mode)
        assert code == 0
        assert f"def {name}(w, x, y, scale=1.0):" in out
    _, out, _ = run(capsys, "source", target, *ARGS, "--wrt", "y,scale")
    assert "with respect to `y` and `scale`" in out
    _, out, _ = run(capsys, "source", target, *ARGS, "--wrt", "y", "--mode", "grad")
    assert "with respect to `y`." in out


def test_structures_static_values_and_aux(model: str, capsys) -> None:
    target = f"{model}:network"
    rest = ["--arg", "x=f8[n, 4]", "--arg", "steps=2", "--has-aux", "--mode", "grad"]
    code, one, err = run(
        capsys, "source", target, "--arg", "params={'w': f8[4, 3], 'b': float}", *rest
    )
    assert (code, err) == (0, "")
    params = ["--arg", "params.w=f8[4, 3]", "--arg", "params.b=float"]
    code, two, _ = run(capsys, "source", target, *params, *rest)
    assert two == one
    p = {"w": np.ones((4, 3)) / 5, "b": 2.0}
    d, h = functions_of(one)["network_grad"](p, np.ones((2, 4)), steps=2)
    assert h.shape == (2, 3)
    np.testing.assert_allclose(d["b"], np.sum(h))


def test_methods_shapes_and_jax_source(model: str, capsys) -> None:
    code, out, _ = run(
        capsys, "source", f"{model}:Model.loss", "--arg", "w=f4[3]", "--shapes"
    )
    assert code == 0
    assert "f4[" in out
    code, out, _ = run(capsys, "source", f"{model}:loss", *ARGS, "--backend", "jax")
    assert code == 0
    assert "import jax.numpy as jnp" in out


def test_saves_a_module(model: str, tmp_path: Path, capsys) -> None:
    out = tmp_path / "loss_grad.py"
    code, text, _ = run(capsys, "source", f"{model}:loss", *ARGS, "-o", str(out))
    assert (code, text) == (0, "")
    space = functions_of(out.read_text())
    assert {"loss", "loss_vjp", "loss_value_and_grad"} <= set(space)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["source"], "the following arguments are required: FILE:NAME"),
        (["other"], "invalid choice: 'other'"),
        (["source", "{model}"], "names no function: write model.py:loss"),
        (["source", "no_file.py:loss"], "there is no file no_file.py"),
        (["source", "{model}:los"], "has no los; it has loss, network"),
        (["source", "{model}:number"], "number in {model} is no function"),
        (["source", "{model}:loss"], 'the type of `w` is missing: add --arg "w=f8'),
        (["source", "{model}:loss", *ARGS, "--arg", "z=f8[]"], "--arg z: the function"),
        (["source", "{model}:loss", "--arg", "w"], 'write --arg "x=f8[n, 10]"'),
        (["source", "{model}:loss", "--arg", "w=g8[3]"], "cannot read 'g8[3]'"),
        (["source", "{model}:loss", "--arg", "w=f8[-2]"], "the size -2"),
        (["source", "{model}:loss", "--arg", "w=f8["], "is neither a type such as"),
        (["source", "{model}:loss", "--arg", "w=a.b()"], "is neither a type such as"),
        (
            ["source", "{model}:loss", "--arg", "w=f8[]", "--arg", "w=f8[]"],
            "w is given twice",
        ),
        (
            ["source", "{model}:loss", "--arg", "w=f8[]", "--arg", "w.a=f8[]"],
            "w has a type already",
        ),
        (["source", "{model}:loss", *ARGS, "-o", "/nowhere/x.py"], "cannot write"),
    ],
)
def test_usage_errors(model: str, capsys, arguments, words) -> None:
    code, out, err = run(capsys, *[a.format(model=model) for a in arguments])
    assert code == 2
    assert out == ""
    assert words.format(model=model) in err


def test_errors_of_the_function(model: str, capsys) -> None:
    code, out, err = run(capsys, "source", f"{model}:vector", "--arg", "x=f8[n]")
    assert (code, out) == (1, "")
    assert "a gradient needs a scalar result" in err
    assert "model.py" in err
    code, _, err = run(capsys, "source", f"{model}:loss", "--arg", "w=i8[3]", *ARGS[2:])
    assert code == 1
    assert "`w` is differentiated but has the integer type int64" in err
    code, _, err = run(capsys, "source", f"{model}:loss", *ARGS, "--wrt", "nothing")
    assert code == 1
    assert "argnames names 'nothing'" in err


def test_a_file_that_does_not_run(tmp_path: Path, capsys) -> None:
    path = tmp_path / "broken_model.py"
    path.write_text("import no_such_module_at_all\n")
    code, _, err = run(capsys, "source", f"{path}:loss")
    assert code == 2
    assert "does not run: ModuleNotFoundError" in err
    assert "broken_model" not in sys.modules


def test_arguments() -> None:
    found = parse_arguments(
        ["a.b.c=f8[2]", "a.d=[f4[], (float, None)]", "k='x[1]'", "n=3", "t=complex"]
    )
    assert repr(found["a"]["b"]["c"]) == 'tg.spec("f8[2]")'
    assert repr(found["a"]["d"][1]) == '(tg.spec("float"), None)'
    assert found["n"] == 3
    assert found["k"] == "x[1]"
    assert repr(found["t"]) == 'tg.spec("complex")'
    with pytest.raises(UsageError):
        parse_arguments(["1a=f8[]"])
