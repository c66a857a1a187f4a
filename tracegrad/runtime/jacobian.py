"""`jacfwd`, `jacrev`, `jacobian`, `hessian`: one batched pass for all rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tracegrad.autodiff.batch import batch
from tracegrad.autodiff.forward import push_forward
from tracegrad.autodiff.reverse import pull_back
from tracegrad.errors import DTypeError
from tracegrad.ir.dims import product
from tracegrad.ir.graph import BACKWARD, FORWARD, Const, Value
from tracegrad.ir.tree import Branch, Leaf, Tree, leaves, map_leaves
from tracegrad.ops.cast import alias
from tracegrad.ops.create import eye, zeros
from tracegrad.ops.record import Builder, Ref
from tracegrad.ops.shape import reshape, transpose
from tracegrad.runtime.binding import Binder
from tracegrad.runtime.compiled import Compiled
from tracegrad.runtime.derive import tuple_of, values_of
from tracegrad.runtime.inlined import Inlined
from tracegrad.runtime.nested import Targets, inline_targets
from tracegrad.runtime.options import Options, decorator
from tracegrad.runtime.sparse import sparse_jacobian
from tracegrad.runtime.transform import binder_of, options_of


@decorator
def jacrev(
    f: Callable | None = None,
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    argnames: str | tuple[str, ...] | None = None,
    backend: str = "numpy",
    optimize: str = "readable",
    reroll: bool = True,
) -> Any:
    """The Jacobian of a function, row by row, all rows in one batched pass.

    For functions with fewer results than arguments.

    Args:
        f: a function that returns real arrays, or a structure of them.
        argnums: which positional arguments to differentiate.
        has_aux: whether `f` returns `(out, aux)`.
        holomorphic: whether `f` is a holomorphic function.
        argnames: the arguments to differentiate by name.
        backend: "numpy" or "jax".
        optimize: "readable" or "fast".
        reroll: see `grad`.

    Returns:
        A function with the arguments of `f`.  It returns the structure of the result
        of `f` with, in the place of each array, the structure of the argument (a tuple
        for a tuple of `argnums`) with arrays of shape `out.shape + argument.shape`.
        With `has_aux`, `(jacobian, aux)`.

    Example:
        >>> jacrev(lambda x: x**2)(np.array([1.0, 2.0]))
        array([[2., 0.],
               [0., 4.]])
    """
    wanted = argnums, argnames, has_aux, backend, optimize, holomorphic, reroll
    return _compiled(f, Options("jacrev", *wanted), "jacobian", "Jacobian of {}.")


@decorator
def jacfwd(
    f: Callable | None = None,
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    argnames: str | tuple[str, ...] | None = None,
    backend: str = "numpy",
    optimize: str = "readable",
    reroll: bool = True,
) -> Any:
    """The Jacobian of a function, column by column, all columns in one batched pass.

    For functions with fewer arguments than results.  Arguments and result are those of
    `jacrev`.

    Example:
        >>> jacfwd(lambda x: x**2)(np.array([1.0, 2.0]))
        array([[2., 0.],
               [0., 4.]])
    """
    wanted = argnums, argnames, has_aux, backend, optimize, holomorphic, reroll
    return _compiled(f, Options("jacfwd", *wanted), "jacobian", "Jacobian of {}.")


@decorator
def jacobian(
    f: Callable | None = None,
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    argnames: str | tuple[str, ...] | None = None,
    backend: str = "numpy",
    optimize: str = "readable",
    sparse: bool = False,
    reroll: bool = True,
) -> Any:
    """The Jacobian of a function: `jacrev`, or in as many passes as it has colours.

    Args:
        f, argnums, has_aux, holomorphic, argnames, backend, optimize, reroll: see
            `jacrev`.
        sparse: whether to return a `scipy.sparse.csr_array`, of one array by one array,
            both flat.  Its pattern is read off the program (see `tg.sparsity`), and
            columns or rows that do not overlap are differentiated together.

    Example:
        >>> jacobian(np.square, sparse=True)(np.array([1.0, 2.0])).toarray()
        array([[2., 0.],
               [0., 4.]])
    """
    wanted = argnums, argnames, has_aux, backend, optimize, holomorphic, reroll
    options = Options("jacrev", *wanted, named="tg.jacobian")
    if sparse:
        return sparse_jacobian(f, options)
    return _compiled(f, options, "jacobian", "Jacobian of {}.")


@decorator
def hessian(
    f: Callable | None = None,
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    argnames: str | tuple[str, ...] | None = None,
    backend: str = "numpy",
    optimize: str = "readable",
    sparse: bool = False,
    reroll: bool = True,
) -> Any:
    """The matrix of second derivatives: forward mode over reverse mode, in one pass.

    Args:
        f: a function that returns a real scalar (or arrays: then the Hessian of each
            element).
        argnums, has_aux, holomorphic, argnames, backend, optimize, reroll: see
            `jacrev`.
        sparse: see `jacobian`.

    Returns:
        As `jacfwd(jacrev(f))`.

    Example:
        >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 2.0]))
        array([[4., 2.],
               [2., 0.]])
    """
    wanted = argnums, argnames, has_aux, backend, optimize, holomorphic, reroll
    options = Options("hessian", *wanted)
    if sparse:
        return sparse_jacobian(f, options)
    return _compiled(f, options, "hessian", "Hessian of {}.")


def _compiled(f: Any, options: Options, name: str, what: str) -> Compiled:
    options.check()
    binder = binder_of(f, options.op, options.backend)
    wanted = options.backend, options.optimize
    plain = options_of(options.op, *wanted, reroll=options.reroll)

    def inlined(chosen: Options) -> Inlined:
        def record(*args: Any, **kwargs: Any) -> Any:
            return inline_jacobian(binder, chosen, args, kwargs)

        made = Inlined(binder, name, what, record)
        made.options = chosen
        made.past_self = lambda: inlined(chosen.past_self())
        return made

    return Compiled(inlined(options), plain)


def inline_jacobian(binder: Binder, options: Options, args: tuple, kwargs: dict) -> Any:
    """A Jacobian or Hessian, recorded in the running trace."""
    if options.mode == "hessian":
        inner = options.in_mode("jacrev")
        rows = Binder(
            lambda *a, **k: inline_jacobian(binder, inner, a, k),
            foreign=binder.foreign,
        )
        rows.name, rows.signature, rows.at = binder.name, binder.signature, binder.at
        return inline_jacobian(rows, options.in_mode("jacfwd"), args, kwargs)
    by_rows = options.mode == "jacrev"

    def record(part: Targets) -> Tree:
        _check(part, options, binder)
        second = options.op == "tg.hessian"
        made = _rows(part) if by_rows else _columns(part, second)
        if not by_rows or not second:
            _name(made, "hessian" if second else "jacobian", part)
        return made if part.aux is None else tuple_of([made, part.aux])

    return inline_targets(binder.function, binder, options, args, kwargs, record)


def _name(tree: Tree, name: str, part: Targets) -> None:
    """Name what is returned, where the user has not: each block after its arguments."""
    wrt, outs = part.inputs(), values_of([part.value])
    columns = [w.hint for w in wrt]
    of_results = columns if name == "hessian" else [v.hint for v in outs]
    rows = of_results if len(outs) > 1 else [""]
    several = len(wrt) > 1 or len(outs) > 1
    names = [
        "_".join(filter(None, [name, row, column])) if several else name
        for row in rows
        for column in columns
    ]
    seen: set[Value] = set(wrt)
    for leaf, wanted in zip(leaves(tree), names, strict=False):
        v = leaf.value
        if v not in seen and not isinstance(v, Const) and not v.user:
            v.hint = wanted
        seen.add(v)


def _check(part: Targets, options: Options, binder: Binder) -> None:
    """Refuse complex numbers where their derivative is not one number.

    Raises:
        DTypeError: of the result (`jacrev`) or an argument (`jacfwd`).
    """
    by_rows = options.mode == "jacrev"
    trees = [part.value] if by_rows else part.targets
    what = "a result" if by_rows else "an argument"
    for v in values_of(trees):
        wanted = "c" if options.holomorphic else "f"
        if v.type.kind == wanted or (by_rows and v.type.kind in "biu"):
            continue
        raise DTypeError(
            f"{options.op} needs real arrays, but {what} has the type {v.type!r}"
            if not options.holomorphic
            else f"with holomorphic=True arrays are complex, but {what} has the type "
            f"{v.type!r}",
            op=options.op,
            at=binder.at,
            fix="pass holomorphic=True, or use real and imaginary parts"
            if v.type.kind == "c"
            else "use floats"
            if not options.holomorphic
            else "leave out holomorphic=True",
        )


def _one(v: Value) -> Any:
    """The seed of a scalar."""
    return 1.0 if v.type.weak or v.type.dtype.char in "dD" else v.type.dtype.type(1)


def _basis(builder: Builder, v: Value) -> Ref:
    """All unit arrays of the shape of `v`, along a new leading axis."""
    size = product(v.type.shape)
    attrs = {"n": size, "dtype": v.type.dtype.name}
    made = builder.record(eye, (), attrs)
    return made if v.type.ndim == 1 else reshape(made, shape=(size, *v.type.shape))


def _zeros(builder: Builder, shape: tuple, like: Value) -> Value:
    attrs = {"shape": shape, "dtype": like.type.dtype.name}
    return builder.record(zeros, (), attrs).value


def _rows(part: Targets) -> Tree:
    """One pullback for each array of the result."""
    wrt = values_of(part.targets)
    builder = part.builder

    def rows_of(v: Value) -> Tree:
        before, builder.derived = (builder.derived, builder.phase), True
        builder.phase = BACKWARD
        made = iter(_pulled(part, v, wrt))
        builder.derived, builder.phase = before
        trees = [map_leaves(t, lambda _: next(made)) for t in part.targets]
        return trees[0] if part.one else tuple_of(trees)

    return _replaced(part.value, rows_of)


def _replaced(tree: Tree, function: Callable[[Value], Tree]) -> Tree:
    """The tree with a tree in the place of each leaf."""
    made = iter([function(leaf.value) for leaf in leaves(tree)])

    def visit(node: Tree) -> Tree:
        if isinstance(node, Branch):
            return replace(node, children=tuple(map(visit, node.children)))
        return next(made) if isinstance(node, Leaf) else node

    return visit(tree)


def _pulled(part: Targets, v: Value, wrt: Sequence[Value]) -> list[Value]:
    """The derivatives of one array by each of `wrt`."""
    builder = part.builder
    if not v.type.shape:
        seed = builder.wrap(Const(_one(v)))
        found = pull_back(builder, part.nodes, [v], [seed], wrt)
        return [
            _zeros(builder, w.type.shape, w) if g is None else g.value
            for g, w in zip(found, wrt, strict=True)
        ]
    ct = Value(v.type, f"d_{v.hint or 'out'}", wrt=v)
    outer, builder.nodes = builder.nodes, []
    found = pull_back(builder, part.nodes, [v], [builder.wrap(ct)], wrt)
    pulled, builder.nodes = builder.nodes, outer
    builder.at = pulled[0].at if pulled else builder.at
    basis = _basis(builder, v)
    known = batch(builder, pulled, {ct: basis}, basis.shape[0])
    made = []
    for g, w in zip(found, wrt, strict=True):
        shape = (*v.type.shape, *w.type.shape)
        row = known.get(g.value) if g is not None else None
        if row is None:
            made.append(_zeros(builder, shape, w))
        else:
            made.append(_shaped(row, shape))
    return made


def _shaped(x: Ref, shape: tuple) -> Value:
    return x.value if x.shape == shape else reshape(x, shape=shape).value


def _columns(part: Targets, symmetric: bool) -> Tree:
    """One pushforward for each array of the arguments.

    Args:
        part: the function.
        symmetric: whether it is a gradient, so that its Jacobian is its own transpose.
    """
    wrt = values_of(part.targets)
    outs = [leaf.value for leaf in leaves(part.value)]
    columns: dict[tuple[Value, Value], Value] = {}
    symmetric = symmetric and len(outs) == len(wrt)
    symmetric = symmetric and all(_is_gradient(part, v, w) for v, w in zip(outs, wrt))
    for position, w in enumerate(wrt):
        # The blocks above the diagonal are those below it, transposed.
        known = outs[:position] if symmetric else []
        for v, u in zip(known, wrt):
            block = part.builder.wrap(columns[outs[position], u])
            columns[v, w] = _turned(part.builder, block, w.type.ndim)
        rest = outs[len(known) :]
        made = _pushed(part, w, rest, position > 0, symmetric)
        columns.update({(v, w): column for v, column in zip(rest, made, strict=True)})

    def column_of(v: Value) -> Tree:
        trees = [map_leaves(t, lambda w: columns[v, w]) for t in part.targets]
        return trees[0] if part.one else tuple_of(trees)

    return _replaced(part.value, column_of)


def _pushed(
    part: Targets, w: Value, outs: Sequence[Value], apart: bool, symmetric: bool
) -> list[Value]:
    """The derivatives of each array of the result by `w`.

    The program itself is recorded again with the tangents, unless `apart`.
    """
    builder = part.builder
    scalar = not w.type.shape
    t = Value(w.type, f"t_{w.hint}" if w.hint else None, wrt=w, prefix="t")
    outer, builder.nodes = builder.nodes, []
    seed = builder.wrap(Const(_one(w)) if scalar else t)
    found = push_forward(builder, part.nodes, [w], [seed], apart)
    pushed, builder.nodes = builder.nodes, outer if apart else []
    for node in pushed if apart else ():
        node.phase = FORWARD
    before, builder.derived = builder.derived, True
    known: dict[Value, Ref] = {}
    if scalar:
        builder.nodes.extend(pushed)
    else:
        basis = _basis(builder, w)
        known = batch(builder, pushed, {t: basis}, basis.shape[0])
    made = []
    for v in outs:
        shape = (*v.type.shape, *w.type.shape)
        tangent = found.get(v)
        if tangent is not None and scalar:
            made.append(tangent.value)
        elif tangent is None or tangent.value not in known:
            made.append(_zeros(builder, shape, v))
        elif symmetric and v is outs[0]:
            made.append(_shaped(known[tangent.value], shape))
        else:
            made.append(_columns_last(known[tangent.value], w.type.shape))
    builder.derived = before
    return made


def _turned(builder: Builder, x: Ref, count: int) -> Value:
    """`x` with its first axes, so many, behind the others."""
    if count in (0, x.ndim):
        return x.value
    before, builder.derived = (builder.derived, builder.phase), True
    builder.phase = BACKWARD
    made = transpose(x, axes=(*range(count, x.ndim), *range(count)))
    builder.derived, builder.phase = before
    return made.value


def _columns_last(x: Ref, shape: tuple) -> Value:
    """`x` with its first axis at the end, and that of the given shape."""
    if x.ndim > 1:
        x = transpose(x, axes=(*range(1, x.ndim), 0))
    return _shaped(x, (*x.shape[:-1], *shape))


def _is_gradient(part: Targets, v: Value, w: Value) -> bool:
    """Whether `v` is the gradient of one number with respect to `w`."""
    if v.type.shape != w.type.shape or v.wrt is None:
        return False
    made_by = {u: node for node in part.nodes for u in node.outputs}
    origin = v.wrt
    while origin is not w and origin in made_by and made_by[origin].op is alias:
        origin = made_by[origin].inputs[0]
    return origin is w
