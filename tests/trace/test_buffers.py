"""Arrays written in place: buffers, views and aliases, as NumPy has them."""

import numpy as np
import pytest

X = np.array([0.5, -1.5, 2.0, 3.5, -0.25, 0.9])
A = np.arange(12.0).reshape(3, 4) / 7.0


def stores(x):
    out = np.zeros(len(x))
    out[0] = x[0] * x[1]
    out[1:3] = x[1:3]
    out[-1] = 2.0
    return out


def updates(x):
    out = np.ones(6)
    out[1:] += x[1:]
    out[:-1] -= x[1:] * x[:-1]
    out[::2] *= x[0]
    out[2] += x[3]
    return out


def view_of_view(x):
    out = np.zeros(6)
    v = out[::2]
    w = v[1:]
    w += x[:2]
    v *= 2.0
    out[0] = x[5]
    return out, v, w


def transposed_view(a):
    out = np.zeros((4, 3))
    t = out.T
    t[0] = a[0]
    t[1:] += a[1:]
    return out


def reshaped_view(a):
    out = np.zeros(12)
    m = out.reshape(3, 4)
    m[1] = a[1]
    m += 1.0
    return out


def reshaped_copy(a):
    out = np.zeros((3, 4))
    copy = out.T.reshape(12)
    copy[:] = 5.0
    copy[0] = a[0, 0]
    return out, copy


def raveled(a):
    out = np.zeros((3, 4))
    out.ravel()[3:5] = a[0, :2]
    out.flatten()[:] = 7.0
    return out


def new_axes(x):
    out = np.zeros(6)
    out[:, None][2] = x[1]
    np.expand_dims(out, 0)[0, 3] = x[2]
    return out


def rows_of_a_matrix(a):
    out = np.zeros((3, 4))
    for i, row in enumerate(out):
        row += a[i] * i
    return out


def rows_and_elements(a):
    out = np.ones((3, 4))
    for i, row in enumerate(out):
        row[1] = a[i, 0]
        row[2:] *= a[i, 1]
        row[[0, 3]] = a[i, :2]
    deep = np.zeros((2, 3, 4))
    deep[1][0][2] = a[0, 0]
    deep[0][a > 0.5] = 3.0
    deep[1][:, [0, 3]] = a[:, :2]
    return out, deep


def aliases(x):
    y = x * 1.0
    z = y
    z += x
    return y, z


def rebinding(x):
    s = x[0]
    t = s
    t += 1.0
    return s, t


def copies(x):
    y = x.copy()
    y[1] *= 3.0
    z = np.array(y)
    z[2] = 5.0
    w = np.copy(z)
    w += 1.0
    return y, z, w


def asarray_is_an_alias(x):
    y = x * 2.0
    z = np.asarray(y)
    z[0] = 9.0
    return y


def add_at(x):
    out = np.zeros(4)
    np.add.at(out, [0, 0, 3], x[:3])
    return out


def copyto(x):
    out = np.empty(6)
    np.copyto(out, x)
    np.copyto(out, 0.0, where=np.array([True] + [False] * 5))
    return out


def out_keyword(x):
    out = np.zeros(6)
    np.multiply(x, 2.0, out=out)
    np.sin(out, out=out)
    return out


def fill(x):
    out = np.zeros(3)
    out.fill(x[0])
    return out


def masked(x):
    y = x * 1.0
    y[y > 1.0] = 0.0
    y[y < 0.0] = y[0]
    return y


def masked_rows(a):
    b = a * 1.0
    b[b[:, 0] > 0.5] = 0.25
    return b


def index_arrays(x):
    out = np.zeros(6)
    out[[0, 3]] = x[:2]
    out[np.array([1, 4])] += x[2]
    return out


def integer_buffer(x):
    order = np.zeros(3, dtype=int)
    order[0] = 4
    order[1] = 2
    return x[order], x[order[1]]


def casts(x):
    out = np.zeros(3, dtype=np.float32)
    out[0] = x[0]
    out += 1.5
    return out


def swap(x):
    y = x * 1.0
    y[0], y[1] = y[1], y[0]
    return y


def like(x):
    out = np.zeros_like(x)
    out[1] = x[1]
    return out


def captured_like(x):
    out = np.zeros_like(A[0])
    out[0] = x[0]
    return out


def conditional_write(x):
    out = np.ones(3)
    total = 0.0
    for i in range(3):
        if out[i] > 0.5:
            total += x[i]
    return total


def zero_d(x):
    out = np.zeros(())
    out[()] = x[0]
    return out * 1.0


ONE = [
    stores,
    updates,
    view_of_view,
    new_axes,
    aliases,
    rebinding,
    copies,
    asarray_is_an_alias,
    add_at,
    copyto,
    out_keyword,
    fill,
    masked,
    index_arrays,
    integer_buffer,
    casts,
    swap,
    like,
    captured_like,
    conditional_write,
    zero_d,
]
TWO = [
    transposed_view,
    reshaped_view,
    reshaped_copy,
    raveled,
    rows_of_a_matrix,
    rows_and_elements,
    masked_rows,
]


@pytest.mark.parametrize("function", ONE, ids=lambda f: f.__name__)
def test_vector(check, function) -> None:
    """As NumPy does it."""
    check(function, X)


@pytest.mark.parametrize("function", TWO, ids=lambda f: f.__name__)
def test_matrix(check, function) -> None:
    """As NumPy does it."""
    check(function, A)


@pytest.mark.parametrize("function", [stores, updates, masked, add_at, out_keyword])
def test_gradient(traced, function) -> None:
    """Against central differences."""

    def loss(x):
        return np.sum(function(x) ** 2)

    (found,) = traced(loss, X).gradient()
    step = 1e-6
    want = [
        (loss(X + step * unit) - loss(X - step * unit)) / (2 * step)
        for unit in np.eye(len(X))
    ]
    np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-8)


def test_update_of_a_slice_is_one_op(traced) -> None:
    """`out[1:] += y` is an update of `out`, named as the user does."""

    def f(x):
        out = x * 2.0
        out[1:] += x[1:]
        return out

    run = traced(f, X)
    assert run.ops[-1] == "scatter_add"
    assert run.hints[-1] == "out"
    assert run.ops.count("setitem") == 0


def test_created_buffers_are_part_of_the_program(traced) -> None:
    """`np.zeros(n)` is a node, so that it prints as it was written."""
    run = traced(lambda x: np.zeros(6) + x, X)
    assert run.ops == ["zeros", "add"]


def test_scipy_takes_constant_buffers(check) -> None:
    """C code reads what is known, and cannot write it."""

    def f(x):
        a = np.zeros((2, 2))
        a[0, 0] = a[1, 1] = 4.0
        return np.linalg.cholesky(a)[0, 0] * x + np.interp(0.5, [0.0, 1.0], a[0])

    check(f, X)


def test_constant_view_is_read_only(traced) -> None:
    """What C code has read must not change."""
    seen = []

    def f(x):
        seen.append(np.ones(3).__array__())
        return x

    traced(f, X)
    assert not seen[0].flags.writeable
