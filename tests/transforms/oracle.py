"""JAX with the names that it lacks, as the oracle of every transformation."""

from __future__ import annotations

import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)

grad = jax.grad
value_and_grad = jax.value_and_grad
vjp = jax.vjp
jvp = jax.jvp
linearize = jax.linearize
linear_transpose = jax.linear_transpose
jacobian = jacrev = jax.jacrev
jacfwd = jax.jacfwd
hessian = jax.hessian
vmap = jax.vmap
checkpoint = jax.checkpoint
custom_vjp = jax.custom_vjp
custom_jvp = jax.custom_jvp
stop_gradient = jax.lax.stop_gradient


def hvp(f, primals, tangents):
    return jax.jvp(jax.grad(f), primals, tangents)[1]


def vhp(f, primals, vectors):
    return jax.vjp(jax.grad(f), *primals)[1](*vectors)[0]


def elementwise_grad(f):
    return jax.grad(lambda x: jnp.sum(f(x)))
