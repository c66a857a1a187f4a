"""Programs with branches and loops, written once for tracegrad and for JAX.

Each takes `(k, xp, x, y)`: the module with `cond` and `scan`, the array library, a
vector of two and a matrix of three rows.
"""

import numpy as np

X = np.array([0.5, -0.3])
Y = np.arange(6.0).reshape(3, 2) * 0.2


def branch(k, xp, x, y):
    taken = lambda a: xp.sin(a * a) * xp.tanh(a)
    return k.cond(xp.sum(x) > 0, taken, lambda a: -a * y[0], x).sum()


def other_branch(k, xp, x, y):
    taken = lambda a: xp.sin(a * a) * xp.tanh(a)
    return k.cond(xp.sum(x) < 0, taken, lambda a: -a * y[0], x).sum()


def choice(k, xp, x, y):
    cases = [lambda a: a, lambda a: xp.sin(a) * y[1], lambda a: a * a * x]
    return k.switch((x[0] * 10.3).astype(int) % 3, cases, x).sum()


def recurrence(k, xp, x, y):
    def step(h, row):
        h = xp.tanh(h * x + row)
        return h, xp.sin(h) * row

    h, ys = k.scan(step, x, y)
    return h.sum() + (ys * ys).sum()


def backwards(k, xp, x, y):
    def step(h, row):
        new = xp.tanh(h * x + row)
        return new, h * new

    h, hs = k.scan(step, x, y, reverse=True)
    return h.sum() + (hs * y).sum()


def pair_of_carries(k, xp, x, y):
    def step(carry, row):
        a, b = carry
        return (b, a * b + row), None

    (a, b), _ = k.scan(step, (x, y[0]), y)
    return (a * xp.cos(b)).sum()


def counted(k, xp, x, y):
    return k.fori_loop(1, 3, lambda i, q: q * y[i] + i * xp.sin(q), x).sum()


def filled_in_turn(k, xp, x, y):
    def step(i, total):
        return total + xp.sin(total * y[i, 0]) * x[1]

    return k.fori_loop(0, 3, step, x[0])


def nested(k, xp, x, y):
    def step(h, row):
        taken = lambda: xp.sin(h * row * x)
        z = k.cond(h.sum() > row.sum() - 0.05, taken, lambda: xp.exp(-h * h))
        turn = lambda i, q: q * x + xp.cos(q * z)
        inner = k.fori_loop(0, 2, turn, h)
        return xp.tanh(inner + z), inner * z

    h, ys = k.scan(step, x, y)
    return (h * h).sum() + (ys * ys).sum()


def scan_in_scan(k, xp, x, y):
    def outer(h, row):
        def inner(c, r):
            return c * xp.cos(r) + row, c * r

        c, rs = k.scan(inner, h, y)
        return xp.tanh(c), rs.sum(axis=0) * h

    h, rows = k.scan(outer, x, y)
    return (h * rows).sum()


def mapped(k, xp, x, y):
    return (k.map(lambda row: xp.sin(row * x).sum(), y) ** 2).sum()


def scan_over_a_dict(k, xp, x, y):
    def step(state, rows):
        new = {"h": state["h"] * rows["a"] + x, "n": state["n"] + rows["b"].sum()}
        return new, (new["h"], rows["b"][0])

    start = {"h": x, "n": xp.sum(x)}
    last, (hs, bs) = k.scan(step, start, {"a": y, "b": y * 2.0})
    return last["n"] * (hs.sum(axis=1) * bs).sum() + last["h"][0]


BOUNDED = [
    branch,
    other_branch,
    choice,
    recurrence,
    backwards,
    pair_of_carries,
    counted,
    filled_in_turn,
    nested,
    scan_in_scan,
    mapped,
    scan_over_a_dict,
]


def doubled(k, xp, x, y):
    return (k.while_loop(lambda q: (q * q).sum() < 1000, lambda q: q * 2, x) ** 2).sum()


def unbounded(k, xp, x, y):
    turn = lambda q: q * 2 + xp.sin(q * y[1])
    w = k.while_loop(lambda q: (q * q).sum() < 1000, turn, x)
    return xp.sin(w * 0.01).sum()


def while_in_scan(k, xp, x, y):
    def step(h, row):
        turn = lambda q: q * 2 + xp.sin(q * row)
        big = k.while_loop(lambda q: (q * q).sum() < 10, turn, h)
        return xp.tanh(big * x), big

    h, ys = k.scan(step, x, y)
    return (h * h).sum() + (ys * ys).sum()


def to_a_traced_bound(k, xp, x, y):
    stop = (x[0] * 8.3).astype(int)
    return k.fori_loop(0, stop, lambda i, q: xp.sin(q * x) + i, x).sum()


# JAX cannot reverse these.
UNBOUNDED = [doubled, unbounded, while_in_scan, to_a_traced_bound]
