"""The other implementations: each makes a call that gives value and gradient.

A maker raises ImportError where its library is not installed.
"""

import types
from collections.abc import Callable
from typing import Any

import optree
from workloads import Workload

Call = Callable[[], Any]


def rebind(workload: Workload, **names: Any) -> Callable[..., Any]:
    """Copies a workload's function with other globals, such as another `np`."""
    function = workload.function
    return types.FunctionType(
        function.__code__, function.__globals__ | names, function.__name__
    )


def autograd(workload: Workload) -> Call:
    """The function as it is, on autograd's own NumPy."""
    import autograd
    import autograd.numpy
    from autograd.scipy.special import logsumexp

    function = rebind(workload, np=autograd.numpy, logsumexp=logsumexp)
    vg = autograd.value_and_grad(function)
    return lambda: vg(*workload.args)


def torch(workload: Workload) -> Call:
    """The same formula in torch's words, run eagerly on one thread."""
    import torch

    torch.set_num_threads(1)
    args = optree.tree_map(torch.from_numpy, workload.args)
    leaves = [leaf.requires_grad_() for leaf in optree.tree_leaves(args[0])]
    structure = optree.tree_structure(args[0])
    names = types.SimpleNamespace(
        sin=torch.sin,
        tanh=torch.tanh,
        sum=torch.sum,
        mean=torch.mean,
        arange=torch.arange,
    )

    def logsumexp(x: Any, axis: int, keepdims: bool) -> Any:
        return torch.logsumexp(x, axis, keepdim=keepdims)

    function = rebind(workload, np=names, logsumexp=logsumexp)

    def call() -> Any:
        value = function(*args)
        gradient = torch.autograd.grad(value, leaves)
        return value.detach(), optree.tree_unflatten(structure, gradient)

    return call


def jax(workload: Workload) -> Call:
    """The function as it is, on JAX's NumPy, jitted, in float64."""
    import jax

    jax.config.update("jax_enable_x64", True)
    function = rebind(workload, np=jax.numpy, logsumexp=jax.scipy.special.logsumexp)
    vg = jax.jit(jax.value_and_grad(function))
    args = optree.tree_map(jax.numpy.asarray, workload.args)
    return lambda: jax.block_until_ready(vg(*args))


PEERS: dict[str, Callable[[Workload], Call]] = {
    "autograd": autograd,
    "torch": torch,
    "jax, jitted": jax,
}
