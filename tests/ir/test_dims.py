"""Symbolic sizes, against plain integers for random values of the named sizes."""

import ast
import copy
import gc
import itertools
import pickle
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracegrad.ir import polynomial
from tracegrad.ir.dims import (
    Dim,
    DimError,
    UndecidedSize,
    at_least,
    compare,
    evaluate,
    exact_div,
    floordiv,
    holds,
    is_static,
    max_,
    min_,
    mod,
    named,
    names,
    normalize_slice,
    parse,
    product,
    slice_length,
    substitute,
    to_ast,
)

n, m, k = named("n"), named("m"), named("k")
small = st.integers(-12, 12)
envs = st.fixed_dictionaries({name: st.integers(2, 40) for name in "nmk"})


def combined(children):
    """A pair of a size and the function of the env that it must equal."""

    def binary(op):
        return st.tuples(children, children).map(
            lambda ab: (op[0](ab[0][0], ab[1][0]), _both(op[1], ab[0][1], ab[1][1]))
        )

    def by_int(op):
        divisors = st.sampled_from([-3, -2, 1, 2, 3, 4, 6, 10])
        return st.tuples(children, divisors).map(
            lambda ab: (op(ab[0][0], ab[1]), _both(op, ab[0][1], lambda e: ab[1]))
        )

    def by_size(op):
        divisors = st.sampled_from([n, 2 * m, n + 1, n * k, m + n, n - 1])
        return st.tuples(children, divisors).map(
            lambda ab: (
                op(ab[0][0], ab[1]),
                _both(op, ab[0][1], lambda e: evaluate(ab[1], e)),
            )
        )

    same = [lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b]
    return st.one_of(
        *(binary((op, op)) for op in same),
        binary((max_, max)),
        binary((min_, min)),
        *(by_int(op) for op in (lambda a, b: a // b, lambda a, b: a % b)),
        *(by_size(op) for op in (lambda a, b: a // b, lambda a, b: a % b)),
    )


def _both(op, left, right):
    return lambda env: op(left(env), right(env))


leaves = st.one_of(
    small.map(lambda c: (c, lambda env: c)),
    st.sampled_from("nmk").map(lambda x: (named(x), lambda env: env[x])),
)
sizes = st.recursive(leaves, combined, max_leaves=6)


@settings(max_examples=300, deadline=None)
@given(sizes, st.lists(envs, min_size=3, max_size=3))
def test_arithmetic_text_and_bounds_agree_with_integers(pair, several):
    size, expected = pair
    assert type(size) in (int, Dim)
    assert parse(str(size)) is size or parse(str(size)) == size
    assert pickle.loads(pickle.dumps(size)) == size
    assert substitute(size, {}) == size
    tree = ast.fix_missing_locations(ast.Expression(to_ast(size, _load)))
    code = compile(tree, "<size>", "eval")
    low, high = polynomial.lower_bound(size), polynomial.upper_bound(size)
    for env in several:
        value = expected(env)
        assert evaluate(size, env) == value
        assert eval(code, {"max": max, "min": min}, env) == value
        assert substitute(size, env) == value
        assert low is None or low <= value
        assert high is None or value <= high


def _load(name):
    return ast.Name(name, ast.Load())


@settings(max_examples=200, deadline=None)
@given(sizes, sizes, small, st.lists(envs, min_size=4, max_size=4))
def test_decisions_hold_for_every_value(left, right, shift, several):
    a, b = left[0], right[0]
    equal, least = compare(a, b + shift), at_least(a, b + shift)
    quotient = exact_div(a, b)
    assert compare(a, a + 0) is True
    for env in several:
        x, y = left[1](env), right[1](env)
        assert equal is None or equal == (x == y + shift)
        assert least is None or least == (x >= y + shift)
        assert quotient is None or evaluate(quotient, env) * y == x


bounds = st.one_of(
    st.none(),
    small,
    st.sampled_from([n, m, n // 2, n - 1, n + 1, -n, m - n, -(n // 3)]),
)
steps = st.one_of(st.none(), st.sampled_from([1, 2, 3, 5, -1, -2, -3, m, -m]))


@settings(max_examples=400, deadline=None)
@given(bounds, bounds, steps, st.sampled_from([n, n + m, n * m, n // 2, 7]), envs)
def test_slices_agree_with_range(start, stop, step, size, env):
    def decide(relation, left, right):
        a, b = evaluate(left, env), evaluate(right, env)
        return {"==": a == b, ">=": a >= b}[relation]

    def real(value):
        return None if value is None else evaluate(value, env)

    indices = slice(real(start), real(stop), real(step)).indices(evaluate(size, env))
    got = normalize_slice(start, stop, step, size, decide)
    assert tuple(map(real, got)) == indices
    length = slice_length(start, stop, step, size, decide)
    assert real(length) == len(range(*indices))
    try:
        assert evaluate(slice_length(start, stop, step, size), env) == real(length)
    except UndecidedSize as undecided:
        assert undecided.relation in ("==", ">=")


@pytest.mark.parametrize(
    "size, text",
    [
        ((n * 10) // 10, "n"),
        ((2 * n + 4) // 2, "n + 2"),
        ((n * m) // m, "n"),
        ((10 * n) % 10, "0"),
        ((n + 1) // n, "1"),
        (1 // n, "0"),
        ((n - 1) % n, "n - 1"),
        ((n * m + 1) // n, "m"),
        ((n * m) // (n * k), "m // k"),
        ((4 * n + 2) // 6, "(2 * n + 1) // 3"),
        (n // 2 // 3, "n // 6"),
        ((n % 4) % 2, "n % 2"),
        (-(-n // 2), "(n + 1) // 2"),
        (3 * n // 2, "3 * n // 2"),
        (n * 2 // 3 * 3, "3 * (2 * n // 3)"),
        (5 - n, "5 - n"),
        (m - n + n * n - 1, "n ** 2 + m - n - 1"),
        (-n - 1, "-n - 1"),
        (-2 * n, "-2 * n"),
        (max_(m, n, 3), "max(m, n, 3)"),
        (max_(n, 2, n + 1), "n + 1"),
        (min_(n, n - m % 2), "n - m % 2"),
        (min_(max_(n, 5), 5), "5"),
        (product((n, 2, m)), "2 * m * n"),
        (substitute(n * m - k, {"n": 3, "k": m}), "2 * m"),
    ],
)
def test_simplified_text(size, text):
    assert str(size) == repr(size) == text
    assert parse(text) is size or type(size) is int


@pytest.mark.parametrize(
    "given_slice, expected",
    [
        (slice(None), n),
        (slice(1, None), n - 1),
        (slice(2, None), n - 2),
        (slice(None, -1), n - 1),
        (slice(1, -1), n - 2),
        (slice(None, None, -1), n),
        (slice(None, None, 2), (n + 1) // 2),
        (slice(None, None, -2), (n + 1) // 2),
        (slice(1, None, 2), n // 2),
        (slice(None, n // 2), n // 2),
        (slice(n // 2, None), n - n // 2),
        (slice(None, 2), 2),
        (slice(-1, None), 1),
    ],
)
def test_usual_slices_need_no_decision(given_slice, expected):
    assert slice_length(given_slice.start, given_slice.stop, given_slice.step, n) is (
        expected
    )


def test_an_undecided_slice_names_the_relation():
    with pytest.raises(UndecidedSize, match="n >= 3") as caught:
        slice_length(3, None, None, n)
    error = caught.value
    assert (error.relation, error.left, error.right) == (">=", n, 3)
    assert slice_length(3, None, None, n, lambda *relation: True) is n - 3
    assert slice_length(3, None, None, n, lambda *relation: False) == 0
    assert holds("==", n - m, 1, lambda *question: question == ("==", n, m + 1))
    again = pickle.loads(pickle.dumps(error))
    assert again.left is n and str(again) == str(error)


def test_decided_relations():
    assert compare(n, n) is True and compare(n, n + 1) is False
    assert compare(n + m, 3) is False and compare(n, m) is None
    assert compare(2 * n, 2 * m + 1) is False and compare(2 * (n // 2), n) is None
    assert compare(n % 2, n - n // 2 * 2) is True and compare(4, 4) is True
    assert at_least(n, 2) is True and at_least(n, 3) is None and at_least(1, n) is False
    assert at_least(n * n, n) is True and at_least(n, n // 2 + 1) is True
    assert at_least(n, n % 5) is True and at_least(2 * ((n + 1) // 2), n) is True
    assert at_least(n, min_(n, m)) is True and at_least(max_(n, m), m) is True
    assert exact_div(n * n - 1, n + 1) is n - 1
    assert exact_div(n, 2) is None and exact_div(n, 0) is None and exact_div(6, 2) == 3


def test_equal_sizes_are_one_object():
    assert n is named("n") and n + m is m + n and (n + 1) * (n - 1) is n * n - 1
    assert n != 5 and (n, 10) == (named("n"), 10) and len({n + m, m + n}) == 1
    for size in (n, 2 * n + 1, n // 2 * m, max_(n, m % 3)):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(size, protocol)) is size
        assert copy.copy(size) is size and copy.deepcopy([size])[0] is size


def test_unused_sizes_are_freed():
    def caches():
        return [f for f in vars(polynomial).values() if hasattr(f, "cache_clear")]

    size = named("only_here") // 7 + 3
    assert any("only_here" in str(key) for key in polynomial._TABLE)
    del size
    names.cache_clear()
    for function in caches():
        function.cache_clear()
    gc.collect()
    assert not any(
        name == "only_here"
        for atom in list(polynomial._TABLE.values())
        if isinstance(atom, polynomial._Atom)
        for name in atom.args
    )
    assert n + m is m + n  # the survivors are still interned


def test_results_without_a_name_are_plain_integers():
    for size in (n - n, n * 0, n // n, n % n, (n + 3) - n, (4 * n + 2) % 2):
        assert type(size) is int
    np = pytest.importorskip("numpy")
    assert n + np.int64(2) is n + 2 is np.int64(2) + n and n * True is n
    assert type((n + np.int64(2)) - n) is int and type(floordiv(np.int64(7), 2)) is int
    assert type(mod(7, np.int64(4))) is int


def test_a_size_has_no_value():
    for use in (bool, int, float, range, lambda s: [0] * s, lambda s: n < s):
        with pytest.raises(TypeError):
            use(n)
    with pytest.raises(TypeError, match="symbolic size `n` has no value"):
        range(n)
    for other in (1.5, "2", None, [1]):
        for op in (lambda a, b: a + b, lambda a, b: b - a, lambda a, b: a // b):
            with pytest.raises(TypeError):
                op(n, other)
    with pytest.raises(TypeError):
        n / 2
    with pytest.raises(ZeroDivisionError):
        n // 0
    with pytest.raises(ZeroDivisionError):
        n % (m - m)
    with pytest.raises(DimError, match="`m` is not given"):
        evaluate(n + m, {"n": 3})


def test_names_and_shapes():
    assert names(n * (k // (m + 1)) + 2) == ("k", "m", "n") and names(3) == ()
    assert is_static((2, 3)) and not is_static((2, n)) and is_static(())
    assert product(()) == 1 and product((2, 5)) == 10
    assert str(_unparse(n * m + n // 2)) == "x.shape[1] * x.shape[0] + x.shape[0] // 2"
    for bad in ("1n", "for", "", "a b"):
        with pytest.raises(ValueError):
            named(bad)


def _unparse(size):
    axes = {"n": "x.shape[0]", "m": "x.shape[1]"}
    return ast.unparse(to_ast(size, lambda name: ast.parse(axes[name]).body[0].value))


def test_parse():
    assert parse("n") is n and parse(" 10 ") == 10 and parse("-1") == -1
    assert parse("2*n+1") is 2 * n + 1 and parse("n//2") is n // 2
    assert parse("(n + m) ** 2") is (n + m) * (n + m) and parse("max(n, 1)") is n
    wrong = ["", "n +", "1.5", "True", "f(n)", "n.x", "n[0]", "n / 2", "n if m else k"]
    wrong += ["n ** m", "n ** -1", "n ** 9999", "max()", "n, m", "n // 0", "max(*n)"]
    for text in wrong:
        with pytest.raises(ValueError, match="is not a size"):
            parse(text)


def test_threads_share_the_sizes():
    start, found = threading.Barrier(8), []

    def work(worker):
        start.wait()
        out = []
        for i in range(300):
            base = named(f"thread_{i}")
            out.append((base * (i + 1) + m) // 3 + base % (i + 2))
        found.append(out)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    for same in zip(*found, strict=True):
        assert all(a is b for a, b in itertools.pairwise(same))
