"""Functions handed to PyTorch and JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tracegrad as tg

torch = pytest.importorskip("torch")
jax.config.update("jax_enable_x64", True)

W, B = np.arange(6.0).reshape(3, 2) / 7, np.ones(2)
X = np.arange(12.0).reshape(4, 3) / 5


def model(np_):
    def f(p, x, n):
        h = np_.tanh(x @ p["w"] + p["b"]) * n
        return {"h": h, "s": np_.sum(h**2)}

    return f


def torch_model(p, x, n):
    h = torch.tanh(x @ p["w"] + p["b"]) * n
    return {"h": h, "s": torch.sum(h**2)}


Z = np.array([1.0 + 2.0j, 0.5 - 1.0j, -0.7 + 0.2j])
COMPLEX = {
    "of real value": lambda m, z: m.sum(m.abs(z) ** 2 * m.real(z)),
    "holomorphic": lambda m, z: m.sin(z) * z**2 * (1.0 + 2.0j),
    "neither": lambda m, z: m.conj(z) * z**2 * m.imag(z),
}

# PyTorch's own, at its first use of forward mode.
TORCH_WARNS = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
IN_FUNC = {
    "jacrev": lambda f, x: torch.func.jacrev(f)(x),
    "jacfwd": lambda f, x: torch.func.jacfwd(f)(x),
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (torch.cos(x),))[1],
    "hessian": lambda f, x: torch.func.hessian(lambda x: f(x).sum())(x),
    "vmap": lambda f, x: torch.vmap(f, in_dims=1, out_dims=-1)(x),
    "vmap of grad": lambda f, x: torch.vmap(torch.func.grad(lambda x: f(x).sum()))(x),
    "vmap of hessian": lambda f, x: torch.vmap(torch.func.hessian(f))(x),
    "vmap twice": lambda f, x: torch.vmap(torch.vmap(f))(x),
    "grad of vmap": lambda f, x: torch.func.grad(
        lambda x: torch.vmap(f)(x).square().sum()
    )(x),
}


class TestTorch:
    def tensors(self):
        make = lambda a: torch.tensor(a, requires_grad=True)
        return {"w": make(W), "b": make(B)}, make(X)

    def test_orders_one_to_three(self):
        found = []
        for f in (tg.to_torch(model(np)), torch_model):
            p, x = self.tensors()
            out = f(p, x, 3)
            loss = out["s"] + out["h"].sum()
            first = torch.autograd.grad(loss, [p["w"], x], create_graph=True)
            total = (first[0] ** 2).sum() + (first[1] ** 3).sum()
            wrt = [p["w"], p["b"], x]
            second = torch.autograd.grad(total, wrt, create_graph=True)
            third = torch.autograd.grad((second[0] ** 2).sum(), [x])
            found.append([out["h"], out["s"], *first, *second, *third])
        for have, want in zip(*found, strict=True):
            torch.testing.assert_close(have, want, rtol=1e-9, atol=1e-10)

    def test_gradcheck(self):
        f = tg.to_torch(lambda x, y: np.sin(x) * y)
        x, y = (torch.rand(3, dtype=torch.float64, requires_grad=True) for _ in "xy")
        assert torch.autograd.gradcheck(f, (x, y))
        assert torch.autograd.gradgradcheck(f, (x, y))

    @pytest.mark.parametrize("name", COMPLEX)
    def test_complex_gradients_are_those_of_torch(self, name):
        """They are conjugates of ours and JAX's, at every order."""
        f, found = COMPLEX[name], []
        for g in (tg.to_torch(lambda z: f(np, z)), lambda z: f(torch, z)):
            z = torch.tensor(Z, requires_grad=True)
            out = torch.view_as_real(g(z) + 0j)
            loss = (out[..., 0] - 2.0 * out[..., 1]).sum()
            (first,) = torch.autograd.grad(loss, z, create_graph=True)
            loss = (first.real * first.imag + first.imag**2).sum()
            (second,) = torch.autograd.grad(loss, z, create_graph=True)
            (third,) = torch.autograd.grad((second.real * second.imag).sum(), z)
            plain = torch.tensor(Z, requires_grad=True)
            out = torch.view_as_real(g(plain.conj()) + 0j)
            (out[..., 0] - 2.0 * out[..., 1]).sum().backward()
            found.append([first, second, third, plain.grad])
        for have, want in zip(*found, strict=True):
            torch.testing.assert_close(have, want, rtol=1e-9, atol=1e-10)

    @TORCH_WARNS
    @pytest.mark.parametrize("name", IN_FUNC)
    def test_transformations_of_torch_func(self, name):
        """Among them are batches and forward mode."""
        x = torch.tensor(np.linspace(-1.0, 1.2, 6).reshape(2, 3))
        f = lambda m: lambda x: m.sum(m.tanh(x) ** 3 * x) * x
        have, want = (IN_FUNC[name](g, x) for g in (tg.to_torch(f(np)), f(torch)))
        torch.testing.assert_close(have, want, rtol=1e-9, atol=1e-10)

    @TORCH_WARNS
    def test_some_arguments_and_integers_in_torch_func(self):
        func, i = torch.func, torch.tensor([0, 2])
        x, y = torch.tensor(X[1]), torch.tensor(X[2:])
        found = []
        for f in (
            tg.to_torch(lambda x, i, y: (x[i] ** 2 * y[:, i], np.argmax(x))),
            lambda x, i, y: (x[i] ** 2 * y[:, i], torch.argmax(x)),
        ):
            first = lambda *args, f=f: f(*args)[0]
            pushed = func.jvp(lambda x, f=f: f(x, i, y), (x,), (x,))
            rows = func.vmap(func.jacrev(first), in_dims=(None, None, 0))(
                x, i, y[:, None]
            )
            found.append([*pushed[0], pushed[1][0], rows])
            found[-1].append(func.jacfwd(first, argnums=2)(x, i, y))
        for have, want in zip(*found, strict=True):
            torch.testing.assert_close(have, want, rtol=1e-9, atol=1e-10)

    def test_a_change_in_place_before_the_backward_pass_is_refused(self):
        f = tg.to_torch(lambda w, x: np.sum(np.sin(w) * x))
        for at in range(2):
            w, x = (torch.rand(3, requires_grad=True) for _ in "wx")
            loss = f(w, x)
            with torch.no_grad():
                (w, x)[at].mul_(2.0)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                loss.backward()

    def test_second_derivatives_are_not_traced_each_time(self):
        traced = []

        def f(x):
            traced.append(1)
            return np.sum(np.sin(x) ** 2)

        g = tg.to_torch(f)
        counts = []
        for _ in range(4):
            x = torch.tensor(X, requires_grad=True)
            (first,) = torch.autograd.grad(g(x), x, create_graph=True)
            first.sum().backward()
            counts.append(len(traced))
        assert counts[1] == counts[3]

    def test_without_gradients_and_single_precision(self):
        f = tg.to_torch(lambda x: x * 2.0)
        x = torch.ones(3)
        out = f(x)
        assert out.dtype == torch.float32
        assert not out.requires_grad
        f(torch.ones(3, requires_grad=True)).sum().backward()

    def test_in_a_module(self):
        f = tg.to_torch(lambda w, x: np.tanh(x @ w))
        layer = torch.nn.Linear(3, 2, bias=False).double()
        loss = f(layer.weight.T, torch.tensor(X)).sum()
        loss.backward()
        want = torch.autograd.grad(
            torch.tanh(torch.tensor(X) @ layer.weight.T).sum(), layer.weight
        )[0]
        torch.testing.assert_close(layer.weight.grad, want)


class TestJax:
    def losses(self):
        f, g = tg.to_jax(lambda p, x: model(np)(p, x, 3)), model(jnp)
        make = lambda h: lambda p, x: h(p, x)["s"] + jnp.sum(h(p, x)["h"])
        return make(f), make(lambda p, x: g(p, x, 3))

    P = {"w": jnp.asarray(W), "b": jnp.asarray(B)}

    def test_grad_and_jit(self):
        f, g = self.losses()
        want = jax.grad(g)(self.P, X)
        for got in (jax.grad(f)(self.P, X), jax.jit(jax.grad(f))(self.P, X)):
            np.testing.assert_allclose(got["w"], want["w"], rtol=1e-10)
            np.testing.assert_allclose(got["b"], want["b"], rtol=1e-10)

    def test_second_order(self):
        f, g = self.losses()
        twice = lambda h: jax.grad(
            lambda x: jnp.sum(jax.grad(h, argnums=1)(self.P, x) ** 2)
        )(jnp.asarray(X))
        np.testing.assert_allclose(twice(f), twice(g), rtol=1e-9)

    def test_vmap(self):
        f, g = self.losses()
        x = jnp.stack([X, 2.0 * X])
        got = jax.vmap(lambda x: f(self.P, x))(x)
        np.testing.assert_allclose(got, jax.vmap(lambda x: g(self.P, x))(x), rtol=1e-10)

    def test_integers_pass(self):
        f = tg.to_jax(lambda x, i: x[i] * 2.0)
        got = jax.grad(lambda x: jnp.sum(f(x, jnp.array([0, 2]))))(jnp.arange(3.0))
        np.testing.assert_allclose(got, [2.0, 0.0, 2.0])


def test_a_function_is_needed():
    with pytest.raises(tg.ArgumentError, match=r"tg\.to_jax takes a function"):
        tg.to_jax(3.0)
