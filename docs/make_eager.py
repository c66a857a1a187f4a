"""Writes docs/eager.md, PyTorch's names and what is here: `python docs/make_eager.py`.

The names come from the PyTorch that is installed; the page says which one.
"""

import importlib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import tracegrad.eager as ours

HEAD = """\
# PyTorch's names in `tracegrad.eager`

Made by `python docs/make_eager.py` from PyTorch {version}.  *works*: the name is there,
with PyTorch's arguments; tests compare what such names do with PyTorch, live, errors
and printed text included.  *differs*, *missing*: how, and why.

## What holds for everything

- Tensors live in the memory of the CPU, as NumPy arrays; `x.numpy()` shares it.
- Floating point sums are NumPy's, so the last digits may differ.  Random numbers are
  NumPy's too: a seed gives other ones than in PyTorch.
- An integer tensor never gets a history.  In PyTorch `copy_` of a float gives it one,
  with which most operations then fail.
- A view made under `no_grad` does not require a gradient.  In PyTorch it says that it
  does, as its base, and passes none on.
- `maximum(0.0, -0.0)` may have the other sign: which zero PyTorch gives depends on the
  loop that it takes for the size.
- Which of several kernels PyTorch takes for a matrix times a stack of them depends on
  the layout of the memory, and with it the name of the `grad_fn`; here it does not.
- `where` and `masked_fill` give a gradient of 0 to what was not chosen, also where the
  slope behind it is infinite: `where(x > 0, x.log(), 0)` at 0.  PyTorch gives nan.
- The gradient of `binary_cross_entropy` for a *target* is limited, as the loss is,
  where the probability is 0 or 1; in PyTorch it is infinite.
- After `x.data = other`, backward through what was computed before reads the old
  numbers; in PyTorch it reads the new ones, without an error.
- A function of `tg.compile` counts all tensors that it was given as read by backward:
  a change in place of one of them is an error then, also where PyTorch's own operations
  would not have kept it.
- `x // y` of floats has no history; PyTorch gives it one and raises in backward.  The
  second derivative of `hardsigmoid` is 0; PyTorch has none and raises.
- The `grad_fn` of a gradient that `create_graph=True` recorded may have another name,
  since rules are made of other operations than PyTorch's.

## More than PyTorch

| name | what it does |
| --- | --- |
| `x.source()` | the program that made `x`, with its gradient, as NumPy source |
| `x.save_source(path)` | the same as a module that needs NumPy only |
| `x.graph()` | the graph as SVG |
| `x.backward(compiled=True)` | generated code, cached by the graph's structure |
| `autograd.set_compiled_backward(mode)` | the same for all calls, or in a `with` |
| `autograd.record_source()` | notes lines and names exactly, for `source()` |
| functions of `tg.compile`, `tg.grad` … | with tensors, one node of the graph |

"""

# Why a name is not here.
PROFILER = "Python's own profilers see every function of this library"
DEVICES = "there is one device"
INTERNAL = "PyTorch's internals, not meant for users"
THREADS = "backward runs in the thread that calls it"
WHY = {
    "Function.vmap": "`torch.vmap` is a loop here, which needs no rule",
    "functional_call": "there is no `nn.Module`",
    "stack_module_state": "there is no `nn.Module`",
    "functionalize": "for PyTorch's compiler",
    "debug_unwrap": INTERNAL,
    "enforce_grad_layout_policy": "gradients have the layout that NumPy gives them",
    "set_multithreading_enabled": THREADS,
    "is_multithreading_enabled": THREADS,
    "is_view_replay_enabled": INTERNAL,
    "kineto_available": PROFILER,
    "NestedIOFunction": "PyTorch has deprecated it",
    "InplaceFunction": "PyTorch has deprecated it",
    "variable": "PyTorch has deprecated it",
    "BackwardCFunction": INTERNAL,
    "FunctionMeta": INTERNAL,
    "region_activation_memory_budget": "for PyTorch's compiler",
    "set_warn_on_accumulate_grad_stream_mismatch": DEVICES,
    "set_override_stale_capture_stream": DEVICES,
    "profiler": PROFILER,
}
# How a name differs.
HOW = {
    "inference_mode": "works; saves no time",
    "save_on_cpu": "arrays are on the CPU already; packs and unpacks them",
    "manual_seed": "other random numbers than PyTorch's",
    "rand": "other random numbers than PyTorch's",
    "randn": "other random numbers than PyTorch's",
    "randint": "other random numbers than PyTorch's",
    "randperm": "other random numbers than PyTorch's",
    "multinomial": "other random numbers than PyTorch's",
    "bernoulli": "other random numbers than PyTorch's",
    "dropout": "other random numbers than PyTorch's",
    "set_num_threads": "noted only: NumPy's libraries have their own settings",
    "vmap": "a loop: the same numbers, in its time",
    "jacfwd": "by reverse mode, as `jacrev`",
    "save": "writes `.npz`, not a pickle",
    "load": "reads `.npz`, never a pickle",
}
SKIPPED = {
    # What modules import, and flags of a build.
    "Mapping", "Sequence", "overload", "cast", "handle_torch_function",
    "has_torch_function", "is_tensor_like", "DeviceType", "ProfilerActivity",
    "ProfilerConfig", "ProfilerEvent", "ProfilerState",
}  # fmt: skip
CONTEXT = [
    "mark_dirty", "mark_non_differentiable", "needs_input_grad", "save_for_backward",
    "save_for_forward", "saved_tensors", "set_materialize_grads",
]  # fmt: skip
MODES = [
    "no_grad", "enable_grad", "set_grad_enabled", "inference_mode", "is_grad_enabled",
    "is_inference_mode_enabled", "set_printoptions",
]  # fmt: skip
TENSOR = [
    "backward", "data", "detach", "detach_", "grad", "grad_fn", "is_leaf", "item",
    "numpy", "output_nr", "register_hook", "register_post_accumulate_grad_hook",
    "requires_grad", "requires_grad_", "retain_grad", "retains_grad", "tolist",
]  # fmt: skip


def public(module: Any) -> list[str]:
    """The names that a module offers."""
    names = getattr(module, "__all__", None) or dir(module)
    kept = [n for n in names if not n.startswith("_") and n not in SKIPPED]
    return sorted(
        n for n in kept if not isinstance(getattr(module, n), types.ModuleType)
    )


def functions(module: Any) -> list[str]:
    """The functions of a module that take tensors, as PyTorch lists them."""
    listed = torch.overrides.get_overridable_functions()
    names = {f.__name__ for f in listed.get(module, []) if hasattr(f, "__name__")}
    return sorted(n for n in names if not n.startswith("_") and hasattr(module, n))


def entry(name: str, there: bool) -> str:
    """One row."""
    if not there:
        return f"| `{name}` | missing | {WHY.get(name, 'not asked for so far')} |"
    how = HOW.get(name, "")
    return f"| `{name}` | {'differs' if how else 'works'} | {how} |"


def table(title: str, rows: list[str]) -> str:
    """A section with a table."""
    return "\n".join(
        [f"## {title}", "", "| name | | |", "| --- | --- | --- |", *rows, ""]
    )


def autograd_tables() -> Iterator[str]:
    """All that `torch.autograd` offers."""
    theirs = torch.autograd
    rows = [entry(n, hasattr(ours.autograd, n)) for n in public(theirs)]
    yield table("`torch.autograd`", [*rows, entry("profiler", False)])
    for name in ("graph", "functional", "forward_ad", "function"):
        module = importlib.import_module(f"torch.autograd.{name}")
        mine = importlib.import_module(f"tracegrad.eager.autograd.{name}")
        rows = [entry(n, hasattr(mine, n)) for n in public(module)]
        yield table(f"`torch.autograd.{name}`", rows)
    methods = ["apply", "backward", "forward", "jvp", "setup_context", "vjp", "vmap"]
    mine = ours.autograd.Function
    rows = [entry(n, hasattr(mine, n)) for n in methods[:-1]]
    rows.append(f"| `vmap` | missing | {WHY['Function.vmap']} |")
    yield table("`autograd.Function`", rows)
    seen = context_names()
    rows = [entry(n, n in seen) for n in CONTEXT]
    yield table("The context of a `Function`", rows)
    yield table("`torch.Tensor`", [entry(n, hasattr(ours.Tensor, n)) for n in TENSOR])
    yield table("Modes and printing", [entry(n, hasattr(ours, n)) for n in MODES])


def further_tables() -> Iterator[str]:
    """What is used beside autograd."""
    for name in ("func", "nn.utils", "testing"):
        module = importlib.import_module(f"torch.{name}")
        mine = importlib.import_module(f"tracegrad.eager.{name}")
        names = public(module)
        if name != "func":
            names = [n for n in names if hasattr(mine, n)]
        yield table(f"`torch.{name}`", [entry(n, hasattr(mine, n)) for n in names])


def context_names() -> set[str]:
    """What the context of a `Function` has."""
    seen: set[str] = set()

    class Probe(ours.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.update(n for n in CONTEXT if hasattr(ctx, n))
            return g * 2

    Probe.apply(ours.ones(1, requires_grad=True)).sum().backward()
    return seen


def function_tables() -> Iterator[str]:
    """The functions, those that are there one by one."""
    places = [
        ("torch", torch, ours),
        (
            "torch.nn.functional",
            torch.nn.functional,
            ours.nn.functional,
        ),
        ("torch.linalg", torch.linalg, ours.linalg),
        ("torch.fft", torch.fft, ours.fft),
    ]
    for title, module, mine in places:
        names = sorted({*functions(module), *_made(module, mine)})
        there = [n for n in names if hasattr(mine, n)]
        gone = [n for n in names if not hasattr(mine, n)]
        yield table(
            f"`{title}`: {len(there)} functions", [entry(n, True) for n in there]
        )
        if gone:
            listed = ", ".join(f"`{n}`" for n in gone)
            yield f"Missing, not asked for so far: {listed}.\n"


def _made(module: Any, mine: Any) -> list[str]:
    """What makes tensors takes none, so PyTorch does not list it."""
    names = [
        n for n in dir(mine) if not n.startswith("_") and callable(getattr(mine, n))
    ]
    kept = [
        n
        for n in names
        if isinstance(getattr(module, n, None), types.BuiltinFunctionType)
    ]
    return [n for n in kept if isinstance(getattr(mine, n), types.FunctionType)]


def page() -> str:
    """The text of the page."""
    head = HEAD.format(version=torch.__version__.split("+")[0])
    return head + "\n".join([*autograd_tables(), *further_tables(), *function_tables()])


if __name__ == "__main__":
    (Path(__file__).parent / "eager.md").write_text(page())
