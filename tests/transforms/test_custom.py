"""`checkpoint`, `custom_vjp` and `custom_jvp`, against JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tracegrad as tg

jax.config.update("jax_enable_x64", True)
X = np.array([0.3, -1.2, 2.0])


def clip_vjp(of, np_):
    """The identity, with a cotangent that is clipped."""

    @of.custom_vjp
    def clip_gradient(x, lo):
        return x * 1.0

    def clip_fwd(x, lo):
        return x * 1.0, (lo, np_.sin(x))

    def clip_bwd(saved, ct):
        lo, s = saved
        return np_.clip(ct, lo, 1.0) * (1.0 + s), None

    clip_gradient.defvjp(clip_fwd, clip_bwd)
    return clip_gradient


def log_jvp(of, np_):
    """A logarithm whose slope is bounded."""

    @of.custom_jvp
    def safe_log(x, y):
        return np_.log(np_.abs(x)) * y

    @safe_log.defjvp
    def safe_log_jvp(primals, tangents):
        (x, y), (t, u) = primals, tangents
        out = np_.log(np_.abs(x)) * y
        return out, t * y / np_.maximum(x, 0.5) + u * np_.log(np_.abs(x))

    return safe_log


def both(make, use):
    return use(np, make(tg, np)), use(jnp, make(jax, jnp))


def same(got, want):
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


def use_clip(np_, f):
    return lambda x: np_.sum(5.0 * f(x * 2.0, -0.5) ** 2 * x)


def use_log(np_, f):
    return lambda x: np_.sum(f(x * x, np_.cos(x)) * x)


class TestVjp:
    def test_gradients(self):
        f, g = both(clip_vjp, use_clip)
        same(f(X), g(X))
        same(tg.grad(f)(X), jax.grad(g)(X))
        same(tg.value_and_grad(f)(X)[0], g(X))
        same(tg.vjp(f, X)[1](2.0)[0], jax.vjp(g, X)[1](2.0)[0])

    def test_higher_orders(self):
        f, g = both(clip_vjp, use_clip)
        second = lambda of, np_, h: of.grad(lambda x: np_.sum(of.grad(h)(x) ** 2))
        same(second(tg, np, f)(X), second(jax, jnp, g)(X))
        mixed = lambda of, np_, h: of.grad(lambda x: of.value_and_grad(h)(x)[0] ** 2)
        same(mixed(tg, np, f)(X), mixed(jax, jnp, g)(X))
        same(tg.hessian(f)(X), jax.jacrev(jax.grad(g))(X))

    def test_batches(self):
        f, g = both(clip_vjp, use_clip)
        x = np.stack([X, 2.0 * X])
        same(tg.vmap(f)(x), jax.vmap(g)(x))
        same(tg.vmap(tg.grad(f))(x), jax.vmap(jax.grad(g))(x))
        total = lambda of, np_, h: of.grad(lambda x: np_.sum(of.vmap(h)(x) ** 2))
        same(total(tg, np, f)(x), total(jax, jnp, g)(x))
        same(tg.jacrev(tg.grad(f))(X), jax.jacrev(jax.grad(g))(X))

    def test_an_argument_that_the_batch_shares(self):
        def make(of, np_):
            @of.custom_vjp
            def scaled(w, x):
                return w * x

            scaled.defvjp(
                lambda w, x: (w * x, (w, x)),
                lambda s, ct: (3.0 * np_.sum(ct * s[1]) + 0.0 * s[0], 2.0 * ct * s[0]),
            )
            return scaled

        def use(of, np_, f):
            inner = lambda w, x: np_.sum(of.vmap(f, in_axes=(None, 0))(w, x) ** 2)
            return of.grad(inner, argnums=(0, 1))

        got = use(tg, np, make(tg, np))(2.0, X)
        want = use(jax, jnp, make(jax, jnp))(2.0, X)
        for have, expected in zip(got, want, strict=True):
            same(have, expected)

    def test_forward_mode_is_the_transpose(self):
        f = tg.custom_vjp(lambda x: x * 2.0)
        f.defvjp(lambda x: (f(x), x), lambda x, ct: (3.0 * np.cos(x) * ct,))
        same(tg.jvp(f, (X,), (X,))[1], 3.0 * np.cos(X) * X)
        same(tg.jacfwd(f)(X), tg.jacrev(f)(X))
        clipped = clip_vjp(tg, np)
        with pytest.raises(tg.UnsupportedError, match="is not linear in the cotangent"):
            tg.jvp(lambda x: clipped(x, -9.0), (X,), (X,))

    def test_nondiff_argnums(self):
        def make(of):
            @of.custom_vjp
            def unused(x):
                return x

            f = of.custom_vjp(lambda g, x, n: g(x) * n, nondiff_argnums=(0, 2))
            f.defvjp(
                lambda g, x, n: (g(x) * n, x), lambda g, n, x, ct: (ct * n * g(x),)
            )
            return f

        for argument in (np.sin, np.cos):
            total = lambda x, g=argument: np.sum(make(tg)(g, x, 3))
            same(tg.grad(total)(X), 3.0 * argument(X))

    def test_structures(self):
        @tg.custom_vjp
        def f(p, x):
            return {"a": p["w"] * x, "b": x}

        f.defvjp(
            lambda p, x: (f(p, x), (p, x)),
            lambda saved, ct: (
                {"w": ct["a"] * saved[1] * 2.0, "c": None},
                ct["a"] * saved[0]["w"] + ct["b"],
            ),
        )
        total = lambda p, x: np.sum(f(p, x)["a"]) + np.sum(f(p, x)["b"] ** 2)
        p = {"w": X, "c": 1.0}
        d_p, d_x = tg.grad(total, argnums=(0, 1))(p, X)
        same(d_p["w"], 2.0 * X)
        assert d_p["c"] == 0.0
        same(d_x, X + 2.0 * X)

    def test_source_and_saved_file(self, tmp_path):
        f, _ = both(clip_vjp, use_clip)
        g = tg.grad(f)
        text = str(g.source(X))
        assert "def clip_fwd(" in text
        assert "def clip_bwd(" in text
        assert "clip_bwd(" in text.split("def ")[-1]
        path = g.source(X).save(tmp_path / "saved.py")
        space: dict = {"__file__": str(path)}
        exec(compile(path.read_text(), str(path), "exec"), space)
        same(space[g.source(X).name](X), g(X))
        assert "tracegrad" not in path.read_text()
        # Without a derivative the function itself is called.
        plain = str(tg.compile(f).source(X))
        assert "def clip_gradient(x" in plain
        assert "clip_fwd" not in plain

    def test_runs_as_it_is(self):
        f = clip_vjp(tg, np)
        same(f(X, -1.0), X)
        assert f.__name__ == "clip_gradient"

    def test_method(self):
        class Model:
            k = 2.0

            @tg.custom_vjp
            def f(self, x):
                return self.k * x

        Model.f.defvjp(
            lambda self, x: (self.k * x, None), lambda saved, ct: (None, 7.0 * ct)
        )
        same(tg.grad(lambda x: np.sum(Model().f(x)))(X), np.full(3, 7.0))


class TestJvp:
    def test_derivatives(self):
        f, g = both(log_jvp, use_log)
        same(f(X), g(X))
        for have, want in zip(
            tg.jvp(f, (X,), (X,)), jax.jvp(g, (X,), (X,)), strict=True
        ):
            same(have, want)
        same(tg.grad(f)(X), jax.grad(g)(X))
        same(tg.linearize(f, X)[1](X), jax.linearize(g, X)[1](X))
        same(tg.hvp(f, (X,), (X,)), jax.jvp(jax.grad(g), (X,), (X,))[1])
        same(tg.hessian(f)(X), jax.hessian(g)(X))

    def test_batches(self):
        f, g = both(log_jvp, use_log)
        x = np.stack([X, 2.0 * X])
        same(tg.vmap(tg.grad(f))(x), jax.vmap(jax.grad(g))(x))
        total = lambda of, np_, h: of.grad(lambda x: np_.sum(of.vmap(h)(x) ** 2))
        same(total(tg, np, f)(x), total(jax, jnp, g)(x))

    def test_defjvps(self):
        def make(of, np_):
            f = of.custom_jvp(lambda x, y: np_.sin(x) * y)
            f.defjvps(lambda t, out, x, y: 2.0 * t * out, lambda t, out, x, y: t * x)
            return f

        use = lambda np_, f: lambda x: np_.sum(f(x, x * x))
        f, g = both(make, use)
        same(tg.grad(f)(X), jax.grad(g)(X))

    def test_source(self):
        f, _ = both(log_jvp, use_log)
        text = str(tg.jvp(f).source((X,), (X,)))
        assert "def safe_log_jvp(x, y, t_x, t_y):" in text


class TestCheckpoint:
    def test_values(self):
        def make(of, np_):
            block = of.checkpoint(lambda w, x: np_.sin(np_.tanh(x @ w)) * 2.0)

            def loss(w, x):
                for _ in range(3):
                    x = block(w, x)
                return np_.sum(x**2)

            return loss

        f, g = make(tg, np), make(jax, jnp)
        w, x = np.arange(9.0).reshape(3, 3) / 10, np.arange(6.0).reshape(2, 3) / 7
        same(f(w, x), g(w, x))
        same(tg.grad(f)(w, x), jax.grad(g)(w, x))
        same(tg.jacfwd(tg.grad(f))(w, x), jax.jacfwd(jax.grad(g))(w, x))
        same(tg.grad(lambda w: np.sum(tg.grad(f)(w, x) ** 2))(w),
             jax.grad(lambda w: jnp.sum(jax.grad(g)(w, x) ** 2))(w))  # fmt: skip
        batch = np.stack([x, 2.0 * x])
        axes = {"in_axes": (None, 0)}
        same(
            tg.vmap(tg.grad(f), **axes)(w, batch),
            jax.vmap(jax.grad(g), **axes)(w, batch),
        )
        _, f_jvp = tg.linearize(f, w, x)
        same(f_jvp(w, x), jax.linearize(g, w, x)[1](w, x))

    def test_source(self):
        @tg.checkpoint
        def block(w, x):
            h = np.tanh(x @ w)
            return h * h

        w, x = np.eye(3), np.ones((2, 3))
        source = tg.grad(lambda w, x: np.sum(block(w, block(w, x)))).source(w, x)
        text = str(source)
        assert text.count("def block(") == 1
        assert "def block_pullback(w, x, d_out):" in text
        assert "which is computed again" in text
        main = text.split("def ")[-1]
        assert "tanh" not in main

    def test_closes_over_outer_values(self):
        def f(w, x):
            block = tg.checkpoint(lambda v: np.sin(w * v))
            return np.sum(block(x))

        d_w, d_x = tg.grad(f, argnums=(0, 1))(2.0, X)
        same(d_w, np.sum(np.cos(2.0 * X) * X))
        same(d_x, 2.0 * np.cos(2.0 * X))

    def test_runs_as_it_is(self):
        assert tg.checkpoint(lambda x, *, k: x * k)(2.0, k=3.0) == 6.0
        same(tg.grad(lambda x: tg.checkpoint(lambda y, *, k: y * k)(x, k=x))(3.0), 6.0)


class TestErrors:
    def check(self, error, match, call):
        with pytest.raises(error, match=match) as e:
            call()
        assert len(str(e.value).splitlines()) == 4, str(e.value)

    def vjp(self, fwd, bwd, n=1):
        f = tg.custom_vjp((lambda x: x * 2.0) if n == 1 else lambda x, y: x * y)
        f.defvjp(fwd, bwd)
        return lambda: tg.grad(lambda x: np.sum(f(*[x] * n)))(X)

    def test_no_rule(self):
        f = tg.custom_vjp(lambda x: x)
        self.check(tg.ArgumentError, "has no rule yet", lambda: tg.grad(f)(1.0))
        g = tg.custom_jvp(lambda x: x)
        self.check(tg.ArgumentError, "has no rule yet", lambda: tg.grad(g)(1.0))

    def test_forward(self):
        bwd = lambda saved, ct: (ct,)
        self.check(
            tg.ArgumentError,
            r"fwd of .* returned \*, not a pair",
            self.vjp(lambda x: x * 2.0, bwd),
        )
        self.check(
            tg.ArgumentError,
            r"fwd of .* returned \(\*,\), the function itself \*",
            self.vjp(lambda x: ((x * 2.0,), None), bwd),
        )
        self.check(
            tg.ShapeError,
            r"fwd of .* of shape \(\) for a result of shape \(3,\)",
            self.vjp(lambda x: (x[0] * 2.0, None), bwd),
        )

    def test_backward(self):
        fwd = lambda x: (x * 2.0, None)
        self.check(
            tg.ArgumentError,
            r"bwd of .* returned \(\*, \*\) for 1 arguments",
            self.vjp(fwd, lambda saved, ct: (ct, ct)),
        )
        self.check(
            tg.ArgumentError,
            r"bwd of .* returned \* for 1 arguments",
            self.vjp(fwd, lambda saved, ct: ct),
        )
        self.check(
            tg.ShapeError,
            r"bwd of .* returned a cotangent \[0\] of shape \(\) for an argument of",
            self.vjp(fwd, lambda saved, ct: (np.sum(ct),)),
        )
        self.check(
            tg.ArgumentError,
            r"returned \{'a': \*\} at \[0\], where the argument is \*",
            self.vjp(fwd, lambda saved, ct: ({"a": ct},)),
        )

    def test_jvp_rule(self):
        def with_rule(rule):
            f = tg.custom_jvp(lambda x: x * 2.0)
            f.defjvp(rule)
            return lambda: tg.jvp(f, (X,), (X,))

        self.check(
            tg.ArgumentError,
            r"the rule of .* returned \*, not a pair",
            with_rule(lambda p, t: p[0] * 2.0),
        )
        self.check(
            tg.ShapeError,
            r"returned a tangent of shape \(\) for a result of shape",
            with_rule(lambda p, t: (p[0] * 2.0, np.sum(t[0]))),
        )
        f = tg.custom_jvp(lambda x: x * 2.0)
        f.defjvp(lambda p, t: (p[0] * 2.0, t[0] ** 2))
        with pytest.raises(tg.UnsupportedError, match="not linear in the tangents"):
            tg.grad(lambda x: np.sum(f(x)))(X)

    def test_closing_over_what_is_differentiated(self):
        def f(w, x):
            g = tg.custom_vjp(lambda v: v * w)
            g.defvjp(lambda v: (v * w, None), lambda saved, ct: (ct,))
            return np.sum(g(x))

        with pytest.raises(tg.UnsupportedError, match=r"reads .* from outside"):
            tg.grad(f)(2.0, X)
        same(tg.grad(f, argnums=1)(2.0, X), np.ones(3))


# A part of what a rule makes is a part of something linear that no derivative reads.
PARTS = [
    lambda np_, x: (W @ x)[1:],
    lambda np_, x: np_.cumsum(np_.fft.ifft(np_.fft.fft(x)[1:]).real)[1:],
    lambda np_, x: np_.sort(W @ x)[1:] * np_.max(x),
    lambda np_, x: np_.einsum("i,ij,jk,k->j", x, W, W, x)[:2] + (W.T @ (x * x))[:2],
]
W = np.array([[0.3, -0.2, 0.5], [0.1, 0.4, -0.3], [-0.6, 0.2, 0.1]])


@pytest.mark.parametrize("f", PARTS)
def test_rules_may_take_parts_of_what_they_make(f):
    of_numpy = lambda x: f(np, x)

    @tg.custom_jvp
    def forward(x):
        return of_numpy(x)

    @forward.defjvp
    def _(primals, tangents):
        return tg.jvp(of_numpy, primals, tangents)

    @tg.custom_vjp
    def reverse(x):
        return of_numpy(x)

    reverse.defvjp(lambda x: (of_numpy(x), x), lambda x, ct: tg.vjp(of_numpy, x)[1](ct))
    wanted = jax.jacfwd(lambda x: f(jnp, x))(X)
    second = jax.hessian(lambda x: jnp.sum(f(jnp, x) ** 2))(X)
    for g in (forward, reverse):
        for jacobian in (tg.jacfwd, tg.jacrev):
            np.testing.assert_allclose(jacobian(g)(X), wanted, rtol=1e-10, atol=1e-12)
        got = tg.hessian(lambda x, g=g: np.sum(g(x) ** 2))(X)
        np.testing.assert_allclose(got, second, rtol=1e-10, atol=1e-12)
