"""Products of all ranks as users call them."""

import itertools

import numpy as np
import pytest
from ops.calls import RECORDED, Call, check, method, sample

from tracegrad.errors import ArgumentError, ShapeError

SHAPES = {0: (), 1: (3,), 2: (2, 3), 3: (2, 4, 3)}
RIGHT = {0: (), 1: (3,), 2: (3, 2), 3: (2, 3, 2)}

PRODUCTS = {
    "dot": (lambda np, a, b: np.dot(a, b), range(4), RIGHT),
    "dot-method": (lambda np, a, b: method(a, "dot", b), range(1, 4), RIGHT),
    "matmul": (lambda np, a, b: np.matmul(a, b), range(1, 4), RIGHT),
    "operator": (lambda np, a, b: a @ b, range(1, 4), RIGHT),
    "inner": (lambda np, a, b: np.inner(a, b), range(4), SHAPES),
    "outer": (lambda np, a, b: np.outer(a, b), range(4), RIGHT),
    "multiply-outer": (lambda np, a, b: np.multiply.outer(a, b), range(4), RIGHT),
    "subtract-outer": (lambda np, a, b: np.subtract.outer(a, b), range(4), RIGHT),
    "kron": (lambda np, a, b: np.kron(a, b), range(4), RIGHT),
    "tensordot-0": (lambda np, a, b: np.tensordot(a, b, 0), range(4), RIGHT),
}
PAIRS = [
    (name, i, j)
    for name, (_, ranks, _) in PRODUCTS.items()
    for i, j in itertools.product(ranks, ranks)
]


@pytest.mark.parametrize(("name", "left", "right"), PAIRS)
def test_ranks(name, left, right):
    f, _, shapes = PRODUCTS[name]
    check(f, sample(*SHAPES[left]), sample(*shapes[right], seed=5))


@pytest.mark.parametrize("name", ["dot", "matmul", "inner", "outer", "kron"])
def test_complex(name):
    f, _, shapes = PRODUCTS[name]
    a = sample(*SHAPES[2], dtype="complex128")
    check(f, a, sample(*shapes[2], seed=5, dtype="complex128"))
    check(f, a, sample(*shapes[2], seed=5))


A, B = sample(2, 3, 4, seed=1), sample(4, 3, 2, seed=2)
OTHERS = {
    "tensordot": (lambda np, a, b: np.tensordot(a, b), A, sample(3, 4, 2)),
    "tensordot-1": (lambda np, a, b: np.tensordot(a, b, 1), A, B),
    "tensordot-pairs": (lambda np, a, b: np.tensordot(a, b, ([1, 0], [1, 2])), A, B),
    "tensordot-all": (
        lambda np, a, b: np.tensordot(a, b, ([2, 0, 1], [0, 2, 1])),
        A,
        B,
    ),
    "tensordot-negative": (lambda np, a, b: np.tensordot(a, b, [[-1], [0]]), A, B),
    "tensordot-ints": (lambda np, a, b: np.tensordot(a, b, (-1, 0)), A, B),
    "matmul-broadcast": (lambda np, a, b: a @ b, sample(2, 1, 2, 3), sample(3, 3, 2)),
    "matmul-one": (lambda np, a, b: a @ b, sample(1, 3, 2), sample(4, 2, 1)),
    "vdot": (lambda np, a, b: np.vdot(a, b), sample(2, 3), sample(3, 2)),
    "vecdot": (lambda np, a, b: np.vecdot(a, b), A, sample(4)),
    "vecdot-axis": (
        lambda np, a, b: np.linalg.vecdot(a, b, axis=0),
        A,
        sample(2, 3, 1),
    ),
    "matvec": (lambda np, a, b: np.matvec(a, b), A, sample(2, 4)),
    "matvec-one": (lambda np, a, b: np.matvec(a, b), A, sample(4)),
    "vecmat": (lambda np, a, b: np.vecmat(a, b), sample(4, 3), B),
    "cross": (lambda np, a, b: np.cross(a, b), sample(2, 3), sample(3)),
    "cross-axis": (lambda np, a, b: np.cross(a, b, axis=0), sample(3, 2), sample(3, 2)),
    "multi-dot": (
        lambda np, a, b: np.linalg.multi_dot([a, b, a, b]),
        sample(2, 5),
        sample(5, 2),
    ),
    "multi-dot-vectors": (
        lambda np, a, b: np.linalg.multi_dot([b, a, b]),
        sample(4, 4),
        sample(4),
    ),
    "kron-ranks": (lambda np, a, b: np.kron(a, b), sample(2, 1, 2), sample(3)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_product(name):
    check(*OTHERS[name])


@pytest.mark.parametrize("name", ["vdot", "vecdot", "matvec", "vecmat", "tensordot"])
def test_conjugates_where_numpy_does(name):
    f, a, b = OTHERS[name]
    check(f, a + 0.5j * a[::-1], b - 0.3j * b)


T = sample(2, 1, 2, 3), sample(3, 3, 2, seed=5)
SQUARE = sample(3, 3)
EINSUMS = {
    "matmul": ("ij,jk->ik", sample(2, 3), sample(3, 4)),
    "implicit": ("ba,bc", sample(2, 3), sample(2, 4)),
    "implicit-trace": ("ii", SQUARE),
    "trace": ("ii->", SQUARE),
    "diagonal": ("ii->i", SQUARE),
    "diagonal-batch": ("bii->bi", sample(2, 3, 3)),
    "triple": ("iii->i", sample(3, 3, 3)),
    "two-diagonals": ("iijj->ij", sample(2, 2, 3, 3)),
    "diagonal-times": ("ii,i->i", SQUARE, sample(3)),
    "transpose": ("ij->ji", sample(2, 3)),
    "identity": ("ij->ij", sample(2, 3)),
    "sum": ("ij->", sample(2, 3)),
    "sum-axes": ("abc->b", sample(2, 3, 2)),
    "summed-alone": ("ij,k->i", sample(2, 3), sample(4)),
    "ellipsis": ("...ij,...jk->...ik", *T),
    "ellipsis-implicit": ("...j,j", sample(2, 3), sample(3)),
    "ellipsis-one": ("i...->...", sample(2, 3, 4)),
    "ellipsis-ranks": ("...i,...i->...", sample(4, 2, 3), sample(2, 3)),
    "size-one": ("ij,ij->ij", sample(2, 1), sample(2, 3)),
    "size-one-summed": ("ij,ij->i", sample(2, 1), sample(2, 3)),
    "outer": ("i,j->ji", sample(2), sample(3)),
    "batch": ("bij,bjk->bki", sample(2, 3, 2), sample(2, 2, 4)),
    "scalar": (",ij->ij", np.array(2.0), sample(2, 3)),
    "spaces": (" i j , j -> i ", sample(2, 3), sample(3)),
    "three": ("i,ij,j->", sample(2), sample(2, 3), sample(3)),
    "four": ("ab,bc,cd,de->ae", *[sample(3, 3, seed=i) for i in range(4)]),
    "shared": ("i,i,i->i", sample(3), sample(3, seed=1), sample(3, seed=2)),
    "capital": ("aB,Bc", sample(2, 3), sample(3, 2)),
}


@pytest.mark.parametrize("name", EINSUMS)
def test_einsum(name):
    subscripts, *arrays = EINSUMS[name]
    check(lambda np, *xs: np.einsum(subscripts, *xs), *arrays)


def test_einsum_other_spellings():
    a, b = sample(2, 3), sample(3, 4)
    check(lambda np, a, b: np.einsum(a, [0, 1], b, [1, 2], [0, 2]), a, b)
    check(lambda np, a, b: np.einsum(a, [0, 1], b, [1, 2]), a, b)
    check(lambda np, a, b: np.einsum("ij,jk", a, b, optimize=True), a, b)
    check(lambda np, a: np.einsum("ij,ij->i", a, a), a)
    check(lambda np, a: np.einsum("ij,j->i", a, [1.0, 2.0, 3.0]), a + 1j)


def test_einsum_of_many_is_planned_in_pairs():
    xs = [sample(30, 2), sample(2, 30), sample(30, 2), sample(2, 30)]
    call = Call(lambda np, *xs: np.einsum("ab,bc,cd,de->ae", *xs), xs)
    inner = [n.outputs[0].type.shape for n in call.builder.nodes]
    assert len(inner) == 3
    assert inner[0] == (2, 2)


def test_multi_dot_multiplies_in_the_cheapest_order():
    xs = [sample(30, 2), sample(2, 30), sample(30, 2), sample(2, 30)]
    call = Call(lambda np, *xs: np.linalg.multi_dot(xs), xs)
    assert call.builder.nodes[0].outputs[0].type.shape == (2, 2)
    np.testing.assert_allclose(call.run()[0], np.linalg.multi_dot(xs))


def pulled(f, *arrays):
    """Names of the ops of the pullback."""
    call = Call(f, arrays)
    before = len(call.builder.nodes)
    call.gradient([np.ones(call.results[0].type.shape)])
    return [n.op.name for n in call.builder.nodes[before:]]


def test_rules_read_as_by_hand():
    product = lambda np, a, b: a @ b
    # x.T @ ct, and ct[:, None] * w
    assert pulled(product, sample(4, 3), sample(3)) == [
        "getitem",
        "multiply",
        "transpose",
        "matmul",
    ]
    # ct @ w.T, and x.T @ ct
    names = ["transpose", "matmul"] * 2
    assert pulled(product, sample(4, 3), sample(3, 2)) == names


def test_dtypes():
    for dtype in ("float32", "int64", "bool", "complex64"):
        for name in ("dot", "outer", "kron", "inner"):
            f, _, shapes = PRODUCTS[name]
            a, b = sample(2, 3).astype(dtype), sample(*shapes[2]).astype("int8")
            call = Call(f, [a, b])
            (got,), want = call.run(), f(np, a, b)
            assert got.dtype == want.dtype == call.results[0].type.dtype
            np.testing.assert_allclose(got, want, rtol=1e-6)


def test_calls_without_traced_values_are_numpy():
    for f, a, b in OTHERS.values():
        np.testing.assert_allclose(f(RECORDED, a, b), f(np, a, b), rtol=1e-13)
    for subscripts, *xs in EINSUMS.values():
        got = RECORDED.einsum(subscripts, *xs)
        np.testing.assert_allclose(got, np.einsum(subscripts, *xs), rtol=1e-13)


def test_errors():
    a, b = sample(2, 3), sample(4, 2)
    with pytest.raises(ShapeError, match=r"\(2, 3\) and \(4, 2\) do not fit for @"):
        Call(lambda np, a, b: a @ b, [a, b])
    with pytest.raises(ShapeError, match="does not take 0-d arrays"):
        Call(lambda np, a, b: a @ b, [a, np.array(1.0)])
    with pytest.raises(ShapeError, match="cannot be contracted over the axes"):
        Call(lambda np, a, b: np.tensordot(a, b, 2), [a, b])
    with pytest.raises(ShapeError, match=r"the label j of .* has the sizes 3 and 4"):
        Call(lambda np, a, b: np.einsum("ij,jk", a, b), [a, b])
    with pytest.raises(ShapeError, match=r"the term 'ijk' .* does not fit an array"):
        Call(lambda np, a: np.einsum("ijk", a), [a])
    with pytest.raises(ArgumentError, match="has 2 terms for 1 arrays"):
        Call(lambda np, a: np.einsum("ij,jk", a), [a])
    with pytest.raises(ArgumentError, match="is in no term"):
        Call(lambda np, a: np.einsum("ij->k", a), [a])
    with pytest.raises(ArgumentError, match=r"np.dot\(out=...\) is not supported"):
        Call(lambda np, a: np.dot(a, a, out=a), [sample(3)])
